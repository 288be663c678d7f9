/*
 * Locks: what this agent knows of the lock in each slot of a region. That is its name, its state,
 * the grant that it has, and until when it is closed. A grant stays here when the last hold ends,
 * until another host wants it or no process has had the lock open for long: so the next hold costs
 * no message.
 *
 * Rule: a slot's lock changes its state by lock_set_state() alone, along the table of transitions
 * in locks.c. A grant is in force in GRANTED and AMENDING only; so no lock is free, and no name
 * gets another slot, while its word lets anybody in.
 *
 * Beside the lock stands a guard: what this agent knows of the lock's word. A process can write
 * anything into a word; words.c compares the word with the guard and puts the word right.
 *
 * Invariants: a lock costs 32 bytes, its guard 8 and the begin of its token range 8. A name has one
 * slot. Slots that are free form a list; slots from locks_end() on were never used.
 */
#ifndef HOST_LOCKS_H
#define HOST_LOCKS_H

#include "core/base/arena.h"
#include "hub.h"

struct locks;

enum lock_state {
    LOCK_FREE = 0, /* the slot has no lock */
    LOCK_IDLE,     /* named, no grant here */
    LOCK_ASKING,
    LOCK_GRANTED,
    LOCK_AMENDING, /* granted; more tokens or a longer lock-delay were asked for */
    LOCK_RETURNING,
    LOCK_RETIRED, /* used up: the name has another slot, handles still have this one */
    LOCK_ADOPTED, /* as the agent before left it; the quorum is to be asked what it knows of it. Its
                     mode is what its word is in force for; NONE: the word is not */
};

struct locks *locks_lay_out(struct arena *arena, const struct host_config *config);

/* ---- Names ---- */

void lock_name(const struct host *host, struct lock_ref at, struct message_name *out);
/* The same where it is kept: its id in names, its bytes there, and their hash. */
uint32_t lock_name_id(const struct host *host, struct lock_ref at);
const uint8_t *lock_name_bytes(const struct host *host, struct lock_ref at, size_t *size);
uint64_t lock_hash(const struct host *host, struct lock_ref at);
/* Where the lock of that name is; false: the name has no slot. */
bool lock_find(const struct host *host, const uint8_t *name, size_t size, struct lock_ref *at);

/* ---- Slots ---- */

/* Slots from that one on were never used; how many below it are free. */
uint32_t locks_end(const struct host *host, uint32_t space);
uint32_t locks_free(const struct host *host, uint32_t space);
/* Takes a free slot. NONE: there is none. The slot is reset by the caller, and its lock still FREE.
 * A slot that the agent before this one retired may still be open somewhere: it is passed over. */
uint32_t lock_take_slot(struct host *host, uint32_t space);
/* The slot's lock is one of that name, IDLE. Its name leads there. */
void lock_make(struct host *host, struct lock_ref at, uint32_t name);
/* The name moves to that slot, with all that is known of its lock but its handles and tokens. The
 * lock there is IDLE; the one here is RETIRED when the caller has closed its word. */
void lock_move(struct host *host, struct lock_ref from, struct lock_ref to);
void lock_retire(struct host *host, struct lock_ref at);
/* The slot is free: that of a lock, or, adopted, one that had none. */
void lock_free(struct host *host, struct lock_ref at);
void lock_adopt_free(struct host *host, struct lock_ref at);
/* The slot is one that the agent before this one retired. */
void lock_adopt_retired(struct host *host, struct lock_ref at);
/* The region is left: the lock, and at last all slots of the namespace, are as they were before
 * there was a region. */
void lock_leave(struct host *host, struct lock_ref at);
void locks_leave(struct host *host, uint32_t space);

/* ---- What a lock is ---- */

enum lock_state lock_state(const struct host *host, struct lock_ref at);
/* A transition that is not in the table is a fault of this agent, and ends it. */
void lock_set_state(struct host *host, struct lock_ref at, enum lock_state to);
bool lock_is_named(const struct host *host, struct lock_ref at);
bool lock_is_granted(const struct host *host, struct lock_ref at);
/* Its first handle; NONE. handles.c keeps the list. */
uint32_t lock_handles(const struct host *host, struct lock_ref at);
void lock_set_handles(struct host *host, struct lock_ref at, uint32_t handle);
/* What is under way for it, index + 1; 0: nothing. requests.c keeps the requests. */
uint32_t lock_request(const struct host *host, struct lock_ref at);
void lock_set_request(struct host *host, struct lock_ref at, uint32_t request);

/* ---- Its grant ---- */

/* The grant's version; not granted: the last one that was returned. */
struct message_order lock_version(const struct host *host, struct lock_ref at);
void lock_set_version(struct host *host, struct lock_ref at, struct message_order version);
/* false: this agent knows of no version. */
bool lock_has_version(const struct host *host, struct lock_ref at);
enum hfi_grant lock_mode(const struct host *host, struct lock_ref at);
void lock_set_mode(struct host *host, struct lock_ref at, enum hfi_grant mode);
/* The longest lock-delay that the grant covers. */
uint32_t lock_covered_ms(const struct host *host, struct lock_ref at);
void lock_set_covered_ms(struct host *host, struct lock_ref at, uint32_t delay_ms);
/* The grant's range of tokens. */
uint64_t lock_token_first(const struct host *host, struct lock_ref at);
uint64_t lock_token_last(const struct host *host, struct lock_ref at);
void lock_set_tokens(struct host *host, struct lock_ref at, uint64_t first, uint64_t last);
/* No slot was left for its next tokens, or a request was refused: it asks again with the next
 * renewal of the session. */
bool lock_is_full(const struct host *host, struct lock_ref at);
void lock_set_full(struct host *host, struct lock_ref at, bool full);
/* The quorum wants the grant back. */
bool lock_is_recalled(const struct host *host, struct lock_ref at);
void lock_set_recalled(struct host *host, struct lock_ref at, bool recalled);

/* ---- Its guard: what its word has to say ---- */

_Atomic uint64_t *lock_word(const struct host *host, struct lock_ref at);
/* With what the agent itself changes that word. */
const struct hfi_actor *lock_actor(const struct host *host, struct lock_ref at);
/* Nothing is known of the word. */
void lock_forget_word(struct host *host, struct lock_ref at);
/* The lock is granted, and its word says so. */
bool lock_in_force(const struct host *host, struct lock_ref at);
void lock_set_in_force(struct host *host, struct lock_ref at, bool in_force);
/* In force: the token's low bits are at least these, and at most those of the range's last. */
uint64_t lock_floor(const struct host *host, struct lock_ref at);
void lock_set_floor(struct host *host, struct lock_ref at, uint64_t floor);
/* A reader may have a seat: from then on the word says so. */
bool lock_has_cells(const struct host *host, struct lock_ref at);
void lock_set_cells(struct host *host, struct lock_ref at);
/* The word has the bit of watches. */
bool lock_is_watched(const struct host *host, struct lock_ref at);
void lock_set_watched(struct host *host, struct lock_ref at, bool watched);
/* Takes the word out of use, whatever process holds it: see hfi_revoke(). */
void lock_revoke(struct host *host, struct lock_ref at, enum hfi_grant mode);

/* ---- Closed ---- */

/* Until when the lock is closed, or was last; 0: it was not lately. By the agent's own number. */
int64_t lock_closed_until_ns(const struct host *host, struct lock_ref at);
/* It is closed until then, at least; 0: it is not. The caller sees to word and region. */
void lock_close(struct host *host, struct lock_ref at, int64_t until_ns);
/* Writes that number into the region. */
void lock_tell_closing(struct host *host, struct lock_ref at);
/* Both. */
void lock_close_told(struct host *host, struct lock_ref at, int64_t until_ns);
/* The next moment at or behind that one that the agent's own number can name. */
int64_t lock_closing_end_ns(int64_t until_ns);

/* A line of the log about that lock. */
void lock_log(struct host *host, struct host_actions *actions, const char *event,
              struct lock_ref at, uint64_t token, int64_t number);
/* The list of free slots, and each slot's lock by itself. */
void locks_check(const struct host *host, uint32_t space);

#endif
