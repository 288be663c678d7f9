/*
 * Opens: the client's requests OPEN, SEAT and MAP.
 *
 * No two handles of a lock have the same holder id, so a lock's word names one handle only. A
 * client that opens a lock twice gets another id for the second handle.
 *
 * Rule: an OPEN is answered when the lock's grant is here and covers the handle's lock-delay, or
 * when PENDING_ANSWER_MS is over (pending.h). Every row that the answer depends on is durable, or
 * stands before the answer in the list of actions.
 *
 * Invariants: each OPEN gets one answer. An answer never lets a hold begin under a grant that does
 * not cover the handle's lock-delay (docs/PROTOCOL.md, rule 20).
 */
#ifndef HOST_OPENS_H
#define HOST_OPENS_H

#include "core/base/arena.h"
#include "hub.h"

struct opens;

struct opens *opens_lay_out(struct arena *arena);

/* Handles OPEN. Answers it, now or later. */
void opens_open(struct host *host, uint32_t client, const struct hfi_frame *frame,
                struct host_actions *actions);
/* Handles SEAT: gives the handle a seat, and answers. */
void opens_seat(struct host *host, uint32_t client, const struct hfi_frame *frame,
                struct host_actions *actions);
/* Handles NOTE: keeps the note on the handle's next holds. Returns an error, or 0. */
int32_t opens_note(struct host *host, uint32_t client, const struct hfi_frame *frame);
/* Handles MAP: sends the client the region to which the name belongs. Returns an error, or 0. */
int32_t opens_map(struct host *host, uint32_t client, const struct hfi_frame *frame,
                  struct host_actions *actions);
/* Answers the OPENs that are ready, as long as the step has room. */
void opens_work(struct host *host, struct host_actions *actions);
/* Returns whether OPENs are left for opens_work(). */
bool opens_are_left(const struct host *host);
/* Answers the OPENs whose time is over. If the answer would let a hold begin under a grant that
 * does not cover the OPEN's lock-delay, asks the quorum to cover it instead. */
void opens_tick(struct host *host, struct host_actions *actions);
/* Returns when opens_tick() is due. */
int64_t opens_due_ns(const struct host *host);

#endif
