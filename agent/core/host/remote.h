/*
 * Remote: what has to be asked of other hosts, and what they ask: whether a sequencer is held now,
 * and an administrator's break.
 *
 * A sequencer names its holder's host, which is asked (CHECK, CHECKED). A break of what this host
 * does not have goes to the coordinator, which passes it to every owner (BREAK, BREAK_HOLD,
 * BROKEN). The rights of the client that asks are checked here, once; hosts of a cell trust each
 * other for it.
 *
 * Messages get lost, so a question is repeated until it is answered or its time is over. A break
 * that arrives again must not end the next hold too: what was broken lately is remembered by the
 * question's id, and answered the same. One that arrives late must not either: it names the grant
 * that it is about, and ends nothing under another.
 *
 * Invariant: one user other than root has at most half of the questions.
 */
#ifndef HOST_REMOTE_H
#define HOST_REMOTE_H

#include "core/base/arena.h"
#include "hub.h"

struct remote;

/* Instead of an error: the client's request is not answered yet. */
enum { REMOTE_ANSWERS_LATER = 1 };

struct remote *remote_lay_out(struct arena *arena);

/* CHECK, BREAK and RECALL of a client: an error, 0, or REMOTE_ANSWERS_LATER. */
int32_t remote_check(struct host *host, uint32_t client, const struct hfi_frame *frame,
                     struct host_actions *actions);
int32_t remote_break(struct host *host, uint32_t client, const struct hfi_frame *frame,
                     struct host_actions *actions);
int32_t remote_recall(struct host *host, uint32_t client, const struct hfi_text *name,
                      struct host_actions *actions);
/* false: it is no message about these. */
bool remote_message(struct host *host, const struct message *message, struct host_actions *actions);
int64_t remote_due_ns(const struct host *host);
void remote_tick(struct host *host, struct host_actions *actions);

#endif
