/*
 * Locks: what this agent knows of the lock in each slot of a region: its name, its state, its
 * grant, and until when it is closed. When the last hold ends, the grant stays here until another
 * host wants it, or until no process has had the lock open for long. So the next hold costs no
 * message.
 *
 * Rule: only lock_set_state() changes the state of a lock, along the table of transitions in
 * locks.c. A slot gets a new lock only while it has none (HF_CHECK). A grant is in force in GRANTED
 * and AMENDING only. So a lock whose word lets processes in is never FREE, and its name does not
 * get another slot.
 *
 * Each lock has a guard: what this agent knows of the lock's word. A process can write anything
 * into a word; words.c compares the word with the guard and puts the word right.
 *
 * Invariants: a lock costs 32 bytes, its guard 8 and the first token of its range 8. A name has one
 * slot. Slots that are free form a list; slots from locks_end() on were never used.
 */
#ifndef HOST_LOCKS_H
#define HOST_LOCKS_H

#include "core/base/arena.h"
#include "hub.h"
#include "proto/ending.h"

struct locks;

enum lock_state {
    LOCK_FREE = 0, /* the slot has no lock */
    LOCK_IDLE,     /* the lock has a name, but its grant is not here */
    LOCK_ASKING,
    LOCK_GRANTED,
    LOCK_AMENDING, /* granted; more tokens or a longer lock-delay were asked for */
    LOCK_RETURNING,
    LOCK_RETIRED, /* used up: the name has another slot, but handles still use this slot */
    /* left by the previous agent, and the quorum has not yet said which grant it has. lock_mode()
     * is the mode in which the word is in force; HFI_GRANT_NONE: the word is not in force */
    LOCK_ADOPTED,
};

struct locks *locks_lay_out(struct arena *arena, const struct host_config *config);

/* ---- Names ---- */

/* Sets *out to the lock's name. */
void lock_name(const struct host *host, struct lock_ref at, struct message_name *out);
/* Return the id of the lock's name in host->names, the name's bytes, and the name's hash. */
uint32_t lock_name_id(const struct host *host, struct lock_ref at);
const uint8_t *lock_name_bytes(const struct host *host, struct lock_ref at, size_t *size);
uint64_t lock_hash(const struct host *host, struct lock_ref at);
/* Sets *at to the slot of that name. Returns false if the name has no slot. */
bool lock_find(const struct host *host, const uint8_t *name, size_t size, struct lock_ref *at);

/* ---- Slots ---- */

/* Returns the first slot that was never used. All higher slots were never used, either. */
uint32_t locks_end(const struct host *host, uint32_t space);
/* Returns the number of free slots below locks_end(). */
uint32_t locks_free(const struct host *host, uint32_t space);
/* Takes a free slot. Returns NONE if there is none. The lock in the slot is still FREE, and the
 * caller resets the word. If `unknown` is set, some handles of the previous agent's clients are not
 * known yet. Then this call leaves out slots that the previous agent retired, because a process may
 * still have them open. */
uint32_t lock_take_slot(struct host *host, uint32_t space, bool unknown);
/* Makes an IDLE lock of that name in the slot. From now on lock_find() finds it. */
void lock_make(struct host *host, struct lock_ref at, uint32_t name);
/* Moves the name to the slot `to`, with all that this agent knows of its lock, except the handles,
 * the tokens and the guard. The lock in `to` is IDLE afterwards. The caller then closes the word in
 * `from`, and calls lock_retire() for `from`. */
void lock_move(struct host *host, struct lock_ref from, struct lock_ref to);
/* Makes the lock RETIRED, after lock_move(). */
void lock_retire(struct host *host, struct lock_ref at);
/* Frees the slot of a lock. */
void lock_free(struct host *host, struct lock_ref at);
/* Adoption: frees a slot that has no lock. */
void lock_adopt_free(struct host *host, struct lock_ref at);
/* Adoption: notes that the previous agent retired the slot. */
void lock_adopt_retired(struct host *host, struct lock_ref at);
/* For a region that was given up: makes the slot as if it had never been used. */
void lock_leave(struct host *host, struct lock_ref at);
/* After lock_leave() for each slot: makes the namespace as if none of its slots had been used. */
void locks_leave(struct host *host, uint32_t space);

/* ---- What a lock is ---- */

enum lock_state lock_state(const struct host *host, struct lock_ref at);
/* Sets the lock's state. A transition that is not in the table is a fault of this agent, and ends
 * the agent (HF_CHECK). */
void lock_set_state(struct host *host, struct lock_ref at, enum lock_state to);
bool lock_is_named(const struct host *host, struct lock_ref at);
bool lock_is_granted(const struct host *host, struct lock_ref at);
/* Return and set the first handle of the lock's list of handles, which handles.c keeps; NONE: the
 * lock has no handle. */
uint32_t lock_handles(const struct host *host, struct lock_ref at);
void lock_set_handles(struct host *host, struct lock_ref at, uint32_t handle);
/* Return and set the lock's request that is under way, as its index in requests.c plus 1; 0: there
 * is none. */
uint32_t lock_request(const struct host *host, struct lock_ref at);
void lock_set_request(struct host *host, struct lock_ref at, uint32_t request);

/* ---- A lock's grant ---- */

/* Return and set the grant's version. If the lock is not granted, this is the last version that
 * this host returned. */
struct message_order lock_version(const struct host *host, struct lock_ref at);
void lock_set_version(struct host *host, struct lock_ref at, struct message_order version);
/* Returns whether this agent knows a version of the lock. */
bool lock_has_version(const struct host *host, struct lock_ref at);
/* Return and set the grant's mode. */
enum hfi_grant lock_mode(const struct host *host, struct lock_ref at);
void lock_set_mode(struct host *host, struct lock_ref at, enum hfi_grant mode);
/* Return and set the longest lock-delay that the grant covers. */
uint32_t lock_covered_ms(const struct host *host, struct lock_ref at);
void lock_set_covered_ms(struct host *host, struct lock_ref at, uint32_t delay_ms);
/* Return and set the grant's range of tokens. */
uint64_t lock_token_first(const struct host *host, struct lock_ref at);
uint64_t lock_token_last(const struct host *host, struct lock_ref at);
void lock_set_tokens(struct host *host, struct lock_ref at, uint64_t first, uint64_t last);
/* Return and set whether the host waits for the session's next renewal before it asks for the lock
 * again, because no slot was left for the next tokens, or a request was refused. */
bool lock_is_full(const struct host *host, struct lock_ref at);
void lock_set_full(struct host *host, struct lock_ref at, bool full);
/* Return and set whether the quorum wants the grant back. */
bool lock_is_recalled(const struct host *host, struct lock_ref at);
void lock_set_recalled(struct host *host, struct lock_ref at, bool recalled);

/* ---- A lock's guard: what its word has to show ---- */

/* Returns the lock's word in the region. */
_Atomic uint64_t *lock_word(const struct host *host, struct lock_ref at);
/* Returns the actor with which the agent itself changes that word. */
const struct hfi_actor *lock_actor(const struct host *host, struct lock_ref at);
/* Forgets all that this agent knows of the word. */
void lock_forget_word(struct host *host, struct lock_ref at);
/* Return and set whether the lock is granted and its word says so. */
bool lock_in_force(const struct host *host, struct lock_ref at);
void lock_set_in_force(struct host *host, struct lock_ref at, bool in_force);
/* Return and set the lowest value that the word's token (its low bits) may have while the lock is
 * in force. The highest value is that of the range's last token. */
uint64_t lock_floor(const struct host *host, struct lock_ref at);
void lock_set_floor(struct host *host, struct lock_ref at, uint64_t floor);
/* lock_has_cells() returns whether a reader has a seat of the lock, or may have had one.
 * lock_set_cells() notes this permanently. The word shows it as HFI_W_CELLS. */
bool lock_has_cells(const struct host *host, struct lock_ref at);
void lock_set_cells(struct host *host, struct lock_ref at);
/* Return and set whether the word has to have the bit HFI_W_WATCHED. */
bool lock_is_watched(const struct host *host, struct lock_ref at);
void lock_set_watched(struct host *host, struct lock_ref at, bool watched);
/* Takes the word out of use, even if processes hold the lock: see hfi_revoke(). `why` is noted for
 * these processes (proto/ending.h); HFI_ENDING_NONE: no process can hold the lock. */
void lock_revoke(struct host *host, struct lock_ref at, enum hfi_grant mode,
                 enum hfi_ending_kind why);

/* ---- Closed ---- */

/* Returns until when the lock is closed, or was closed last; 0: it was not closed lately. The agent
 * keeps its own record of this time, and does not read the region. */
int64_t lock_closed_until_ns(const struct host *host, struct lock_ref at);
/* Sets the agent's own record: the lock is closed until until_ns or a little longer; 0: it is not
 * closed. The caller changes the word and the region. */
void lock_close(struct host *host, struct lock_ref at, int64_t until_ns);
/* Writes the time until which the lock is closed, as the agent has recorded it, into the region. */
void lock_write_closing(struct host *host, struct lock_ref at);
/* Does what lock_close() does, then what lock_write_closing() does. */
void lock_close_and_write(struct host *host, struct lock_ref at, int64_t until_ns);
/* Rounds until_ns up to a time that the agent's own record can express. */
int64_t lock_closing_end_ns(int64_t until_ns);

/* Emits a line of the log about that lock. */
struct host_action *lock_log(struct host *host, struct host_actions *actions, const char *event,
                             struct lock_ref at, uint64_t token, int64_t number);
/* Checks the list of free slots, and the lock of each slot. */
void locks_check(const struct host *host, uint32_t space);

#endif
