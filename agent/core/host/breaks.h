/*
 * Breaks: what this host does when an administrator breaks a lock here. The administrator may be on
 * this host or on another one.
 *
 * Rule 36 (docs/PROTOCOL.md): a break that is repeated must not end the next hold, too. So this
 * host remembers the latest breaks by their ids, and repeats its answer. A break that arrives late
 * must not end a later hold. So a break names the version of a grant, and ends only holds under
 * that grant.
 *
 * Invariant: the answer describes only holds that really ended, as they were at that moment. No
 * decision depends on these descriptions.
 */
#ifndef HOST_BREAKS_H
#define HOST_BREAKS_H

#include "core/base/arena.h"
#include "holds.h"

struct breaks;

struct breaks *breaks_lay_out(struct arena *arena);
void breaks_start(struct host *host);

/* Ends every hold of the lock on this host, and fills in *broken, whose items the caller need not
 * have initialised. If one step cannot end all of them, the result is HF_EFULL. If the region is
 * not sound, it is HF_EUNSERVED. In both cases the administrator has to break the lock again. */
void break_here(struct host *host, struct lock_ref at, bool now, const struct hold_breaker *by,
                struct message_broken *broken, struct host_actions *actions);
/* Handles a BREAK_HOLD. Fills in *broken, which is the answer. Returns false if there is no answer
 * yet: the namespace is barred, its region is not sound, or a hold of an earlier session may be
 * left. The host that asked repeats its question. */
bool break_asked(struct host *host, const struct message_break *breaking,
                 struct message_broken *broken, struct host_actions *actions);

#endif
