/*
 * Handles: which client has which lock open, under which holder id. A handle begins in opens.c and
 * ends in burials.c.
 *
 * Invariants: each used handle stands in two lists: that of its client and that of its lock. Its
 * holder id is one of its client's ids. No two handles of a lock have the same holder id, so a
 * lock's word names one handle only.
 *
 * A closed handle stays as a zombie while a word or a holder record may still name its id
 * (docs/PROTOCOL.md, rule 30). If another handle got the id too early, a lock that was meant for
 * the closed handle could be handed to the new handle.
 */
#ifndef HOST_HANDLES_H
#define HOST_HANDLES_H

#include "core/base/arena.h"
#include "hub.h"

struct handles;

enum {
    HANDLE_USED = 1,
    HANDLE_ZOMBIE = 2,  /* the handle has ended, but a word or a record may still name its id */
    HANDLE_LIMITED = 4, /* the handle has a seat, and limits.h ends its holds in time */
    HANDLE_BARGING = 8,
    HANDLE_FOUND = 16,  /* made for a survivor's limited hold; its client has not opened it yet */
    HANDLE_STALLS = 32, /* the handle is LIMITED by a max_stall, not by a fixed lease */
    HANDLE_LEFT = 64,   /* its region was given up: the handle has no slot, no seat and no lock */
    HANDLE_NOTED = 128, /* the handle has a note (notes.h) */
};

struct handles *handles_lay_out(struct arena *arena, const struct host_config *config);
void handles_init(struct host *host);

/* ---- One handle ---- */

/* Makes a handle of that client on that lock, without a seat. The caller then sets its holder id.
 * Returns NONE if all handles are used. */
uint32_t handle_new(struct host *host, uint32_t client, struct lock_ref at);
/* Frees the handle. The caller, burial_free(), has removed every other note of it. */
void handle_free(struct host *host, uint32_t handle);
/* For a handle whose region was given up: takes it out of its lock's list, and takes its slot and
 * its seat away. */
void handle_leave(struct host *host, uint32_t handle);

/* Returns the handle's lock. After handle_leave() the slot is NONE. */
struct lock_ref handle_lock(const struct host *host, uint32_t handle);
uint32_t handle_client(const struct host *host, uint32_t handle);
/* Return and set the handle's holder id. It is set once. */
uint32_t handle_holder(const struct host *host, uint32_t handle);
void handle_set_holder(struct host *host, uint32_t handle, uint32_t holder);
/* Returns the handle's seat, or HFI_SEAT_NONE. */
uint32_t handle_seat(const struct host *host, uint32_t handle);
void handle_set_seat(struct host *host, uint32_t handle, uint32_t seat);
/* Return and set the lock-delay that the handle was opened with. */
uint32_t handle_delay_ms(const struct host *host, uint32_t handle);
void handle_set_delay_ms(struct host *host, uint32_t handle, uint32_t delay_ms);
/* Return and set how long a hold by this handle may last; 0: as long as the session. */
uint32_t handle_limit_ms(const struct host *host, uint32_t handle);
void handle_set_limit_ms(struct host *host, uint32_t handle, uint32_t limit_ms);
/* handle_flags() returns the handle's HANDLE_... flags. handle_set() and handle_clear() set and
 * clear some of them. */
uint32_t handle_flags(const struct host *host, uint32_t handle);
void handle_set(struct host *host, uint32_t handle, uint32_t flags);
void handle_clear(struct host *host, uint32_t handle, uint32_t flags);

/* Return the mark of an exclusive hold, from the lock's word, and that of a reader's hold, from its
 * cell. No later hold by the same handle has the same mark for a long time. The highest bit keeps
 * the mark of a word from being 0. */
static inline uint64_t handle_mark_of_word(uint64_t word)
{
    return (word & HFI_W_TOKEN) | UINT64_C(1) << 63;
}

static inline uint64_t handle_mark_of_cell(uint64_t cell)
{
    return cell;
}

/* Sets the note on the handle's next holds, as notes_set() does. Returns false if there is no
 * room. */
bool handle_set_note(struct host *host, uint32_t handle, struct hfi_text text, uint64_t mark);
/* Returns the note on the handle's hold with that mark, as notes_of() does. */
struct hfi_text handle_note(const struct host *host, uint32_t handle, uint64_t mark);

/* Returns whether the handle's process may take the lock by it. If client_may_use_closed(), a
 * closed handle counts as well. A FOUND or LEFT handle never does. */
bool handle_may_take(const struct host *host, uint32_t handle);
/* Returns the longest lock-delay that the handle's process may rely on. A zombie may be a handle
 * that was made for a found hold, with the longest lock-delay there is. So for a zombie the noted
 * lock-delay (delays.h) is returned, if it is lower. */
uint32_t handle_noted_delay_ms(const struct host *host, uint32_t handle);
/* Returns `handle` if the client has that handle and may use it; else NONE. */
uint32_t handle_check_own(const struct host *host, uint32_t client, uint32_t handle);

/* ---- The handles of a lock ---- */

/* Returns the lock's handle that has this holder id, or NONE. */
uint32_t handle_of(const struct host *host, struct lock_ref at, uint32_t holder);
/* Returns the handle that follows in the lock's list, or NONE. lock_handles() returns the first. */
uint32_t handle_next(const struct host *host, uint32_t handle);

/* ---- The handles of a client ---- */

/* Returns whether the client's user may have one more handle. A user other than root may have half
 * of all handles. */
bool handles_may_open(const struct host *host, uint32_t client);
/* Returns the client with the most handles, and sets *count to their number. NONE and 0: there is
 * no handle. */
uint32_t handles_most(const struct host *host, uint32_t *count);
bool handles_has_any(const struct host *host, uint32_t client);
/* Begin and continue a walk over a client's handles. Handles may be freed during the walk.
 * handles_walk_next() returns the next handle, or NONE at the end. */
void handles_walk_begin(struct host *host, uint32_t client);
uint32_t handles_walk_next(struct host *host, uint32_t client);

/* ---- All handles ---- */

/* Return the number of used handles, and of zombies among them. */
uint32_t handles_count(const struct host *host);
uint32_t handles_zombies(const struct host *host);
/* Returns a bound: every used handle has a lower index. */
uint32_t handles_end(const struct host *host);
/* If every handle is known, counts the lock-delays of some more handles for delays.h. */
void handles_settle_delays(struct host *host);
void handles_check(const struct host *host);

#endif
