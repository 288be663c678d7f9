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

/* Does what OPEN asks for. */
void opens_open(struct host *host, uint32_t client, const struct hfi_frame *frame,
                struct host_actions *actions);
/* Does what SEAT asks for. */
void opens_seat(struct host *host, uint32_t client, const struct hfi_frame *frame,
                struct host_actions *actions);
/* Sends the client the region of the name in MAP. Returns an error, or 0. */
int32_t opens_map(struct host *host, uint32_t client, const struct hfi_frame *frame,
                  struct host_actions *actions);
/* Answers the OPENs that are ready, as long as the step has room. */
void opens_work(struct host *host, struct host_actions *actions);
/* Returns whether OPENs are left for opens_work(). */
bool opens_are_left(const struct host *host);
/* Answers OPENs that took too long, or asks for their lock-delay once more. */
void opens_tick(struct host *host, struct host_actions *actions);
/* Returns when opens_tick() is due. */
int64_t opens_due_ns(const struct host *host);

#endif
