/*
 * Opens: what a client asks for by OPEN, SEAT and MAP.
 *
 * Within one lock each handle has a holder id of its own, so a lock's word names one handle and no
 * other. A client that opens a lock twice gets another id for the second handle.
 *
 * Rule: an OPEN is answered when the lock's grant is here and covers the handle's lock-delay, or
 * when that takes too long (pending.h). What the answer depends on is durable, or stands before the
 * answer in the list of actions.
 */
#ifndef HOST_OPENS_H
#define HOST_OPENS_H

#include "core/base/arena.h"
#include "hub.h"

struct opens;

struct opens *opens_lay_out(struct arena *arena);

void opens_open(struct host *host, uint32_t client, const struct hfi_frame *frame,
                struct host_actions *actions);
void opens_seat(struct host *host, uint32_t client, const struct hfi_frame *frame,
                struct host_actions *actions);
/* MAP: the region of a name. */
int32_t opens_map(struct host *host, uint32_t client, const struct hfi_frame *frame,
                  struct host_actions *actions);
/* Answers what is ready. */
void opens_work(struct host *host, struct host_actions *actions);
bool opens_are_left(const struct host *host);
/* OPENs that took too long are answered, or their lock-delay is asked for once more. */
void opens_tick(struct host *host, struct host_actions *actions);
int64_t opens_due_ns(const struct host *host);

#endif
