/*
 * Delays: lock-delays that outlive the agent.
 *
 * A grant covers the longest lock-delay of the lock's handles. After a restart, the agent knows all
 * handles only when the clients of the previous agent have opened their locks again. But a lock
 * that is granted before that may be taken at once, by any process that has it open. So the longest
 * lock-delay of a lock is noted beside the regions before the OPEN that asks for it is answered.
 * This agent and the next one assume the noted lock-delay until all handles are known.
 *
 * There is no room for a note of each lock. All locks whose names' hashes are equal, modulo the
 * number of notes, share one note. So a note may say more than the handles of a lock ask for, never
 * less. A note names neither slots nor namespaces, because the next agent may give them other
 * numbers. A lock-delay up to LOCK_DELAY_UNKNOWN_MS is not noted, because every unknown handle is
 * assumed to have at least that lock-delay.
 *
 * A note is lowered only when all handles have been counted again. A count begins when a handle
 * with a noted lock-delay has ended and no handle is unknown. Each renewal counts some of the
 * handles. Handles that are opened during the count are counted too.
 *
 * No client maps these notes. Even so, the agent checks what it reads in them.
 *
 * Rule 20 (docs/PROTOCOL.md): a hold begins only under a grant that covers its handle's lock-delay,
 * also after a restart of the agent.
 *
 * Invariants: a note is never below a lock-delay, longer than LOCK_DELAY_UNKNOWN_MS, of a handle
 * that uses the note. A note becomes lower only at the end of a count of all handles.
 */
#ifndef HOST_DELAYS_H
#define HOST_DELAYS_H

#include "core/base/arena.h"
#include "hub.h"

/* The simulator sets a lower value than any lock-delay that it uses. */
#ifndef HOST_DELAY_UNKNOWN_MS
#define HOST_DELAY_UNKNOWN_MS 1000
#endif
/* The shortest lock-delay that is assumed of an unknown handle, in milliseconds: the API's
 * default. */
enum { LOCK_DELAY_UNKNOWN_MS = HOST_DELAY_UNKNOWN_MS };

struct delays;

struct delays *delays_lay_out(struct arena *arena);

/* Returns whether there is memory for notes. */
bool delays_are_noted(const struct host *host);
/* Returns the noted lock-delay of the lock, but at least LOCK_DELAY_UNKNOWN_MS. No handle that the
 * previous agent has opened asks for more. */
uint32_t delay_noted_ms(const struct host *host, struct lock_ref at);
/* Returns the longest lock-delay that any handle of any lock may have, as the notes say. */
uint32_t delays_longest_ms(const struct host *host);
/* Notes delay_ms as a lock-delay of the lock. The caller has not yet answered the OPEN that asks
 * for it. */
void delay_note(struct host *host, struct lock_ref at, uint32_t delay_ms);
/* Notes that a handle with that lock-delay ended, or got another lock-delay. */
void delay_gone(struct host *host, uint32_t delay_ms);
/* Takes over the notes of the previous agent if this agent continues its session. Else clears the
 * notes. */
void delays_adopt(struct host *host);

/* Begins or continues a count of all handles, which lowers notes that are too long. The caller has
 * seen that all handles are known. Sets *hand to the first handle that is not counted yet. Returns
 * false if there is no need to count. */
bool delays_count_begin(struct host *host, uint32_t *hand);
/* Counts one handle's lock-delay. */
void delays_count(struct host *host, struct lock_ref at, uint32_t delay_ms);
/* Says that all handles below `hand` are counted. If `hand` is 0, all handles are counted, and the
 * notes are lowered. */
void delays_count_end(struct host *host, uint32_t hand);

#endif
