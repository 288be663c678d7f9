/*
 * Handles: which client has which lock open, under which holder id. A handle begins in opens.c and
 * ends in burials.c.
 *
 * Invariants: a handle that is used stands in two lists, its client's and its lock's. Within one
 * lock each handle has a holder id of its own, so a lock's word names one handle and no other. The
 * handle's id is one of its client's.
 *
 * A closed handle stays as a zombie while a word or a record may still name its id: an id that is
 * given to another handle too early would be handed that one's lock.
 */
#ifndef HOST_HANDLES_H
#define HOST_HANDLES_H

#include "core/base/arena.h"
#include "hub.h"

struct handles;

enum {
    HANDLE_USED = 1,
    HANDLE_ZOMBIE = 2,  /* closed or its client is gone, but its ids may still be named */
    HANDLE_LIMITED = 4, /* has a seat, and its holds end at a time: limits.h lists it */
    HANDLE_BARGING = 8,
    HANDLE_FOUND = 16,  /* made for a survivor's limited hold; its client has not opened it yet */
    HANDLE_STALLS = 32, /* LIMITED, and the limit is a max_stall */
    HANDLE_LEFT = 64,   /* its region was given up: it has no slot, no seat, and is no lock's */
};

struct handles *handles_lay_out(struct arena *arena, const struct host_config *config);
void handles_init(struct host *host);

/* ---- One handle ---- */

/* A handle of that client on that lock, without seat; the caller sets its holder id. NONE: all
 * handles are used. */
uint32_t handle_new(struct host *host, uint32_t client, struct lock_ref at);
/* Nothing else knows of it any more: burial_free() ends it everywhere. */
void handle_free(struct host *host, uint32_t handle);
/* It leaves the list of its lock, whose region is given up, and its slot and its seat with it. */
void handle_leave(struct host *host, uint32_t handle);

/* Its lock; after handle_leave() the slot is NONE. */
struct lock_ref handle_lock(const struct host *host, uint32_t handle);
uint32_t handle_client(const struct host *host, uint32_t handle);
/* Its id among the holders; set once. */
uint32_t handle_holder(const struct host *host, uint32_t handle);
void handle_set_holder(struct host *host, uint32_t handle, uint32_t holder);
/* HFI_SEAT_NONE: it has none. */
uint32_t handle_seat(const struct host *host, uint32_t handle);
void handle_set_seat(struct host *host, uint32_t handle, uint32_t seat);
/* The lock-delay that it was opened with. */
uint32_t handle_delay_ms(const struct host *host, uint32_t handle);
void handle_set_delay_ms(struct host *host, uint32_t handle, uint32_t delay_ms);
/* How long a hold of it may last; 0: as long as the session. */
uint32_t handle_limit_ms(const struct host *host, uint32_t handle);
void handle_set_limit_ms(struct host *host, uint32_t handle, uint32_t limit_ms);
/* Its HANDLE_... flags; these calls alone set and clear them. */
uint32_t handle_flags(const struct host *host, uint32_t handle);
void handle_set(struct host *host, uint32_t handle, uint32_t flags);
void handle_clear(struct host *host, uint32_t handle, uint32_t flags);

/* Whether its process may take the lock by this handle: neither is the handle closed, nor its
 * client dead. */
bool handle_may_take(const struct host *host, uint32_t handle);
/* The lock-delay that its process goes by, at most. Of a client that hung up the handle may be one
 * that was found and has the longest lock-delay that there is; then the notes (delays.h) say less.
 */
uint32_t handle_noted_delay_ms(const struct host *host, uint32_t handle);
/* The client's own handle with that number, which it may use; NONE. */
uint32_t handle_check_own(const struct host *host, uint32_t client, uint32_t handle);

/* ---- The handles of a lock ---- */

/* The one that has this holder id; NONE. */
uint32_t handle_of(const struct host *host, struct lock_ref at, uint32_t holder);
/* The lock's handle behind that one; NONE. The first is lock's own. */
uint32_t handle_next(const struct host *host, uint32_t handle);

/* ---- The handles of a client ---- */

/* Whether one more is within what the client's user may have: all but root half of what there is
 * room for. */
bool handles_may_open(const struct host *host, uint32_t client);
bool handles_has_any(const struct host *host, uint32_t client);
/* A walk over a client's handles, which goes on though handles are freed meanwhile. NONE: it is
 * over. */
void handles_walk_begin(struct host *host, uint32_t client);
uint32_t handles_walk_next(struct host *host, uint32_t client);

/* ---- All handles ---- */

/* How many are used; how many of them are zombies. */
uint32_t handles_count(const struct host *host);
uint32_t handles_zombies(const struct host *host);
/* Every handle that is used has a lower index. */
uint32_t handles_end(const struct host *host);
/* Counts some more of the handles' lock-delays for delays.h, if every handle is known. */
void handles_settle_delays(struct host *host);
void handles_check(const struct host *host);

#endif
