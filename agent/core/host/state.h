/*
 * The hub of the host core: pointers to what each module keeps, in one block of memory, and the
 * records that are not one module's alone yet: locks, handles, and the namespaces with their
 * regions. Whatever else there is, its module's header says what it is, and nobody else sees it.
 *
 * What stands here as plain fields is read by all and written at one place: the configuration, the
 * time and the session (host.c, lease.c), the counts for people.
 *
 * Calls go down only, from the roof to the ground:
 *
 *   host                                          steps, timers, dispatch
 *   adoption regions opens remote repair answers  what changes locks from outside, each for itself
 *   burials lease                                 the end of handles and clients; of a session
 *   attend                                        what a lock needs that asked for a look
 *   grants limits words                           a grant that is here, or asked for; times; words
 *   holds slots requests pending                  taking away; names and slots; what was asked
 *   handles watches openings kept delays          tables
 *   locks seats clients bells routes listing spaces
 *   hub                                           what all call
 *
 * and beside them, deciding nothing: look, merge, publish, inspect, survey, invariants.
 *
 * Indexes are 32-bit; NONE is no index. A step emits a bounded number of actions: see hub.h.
 */
#ifndef HOST_STATE_H
#define HOST_STATE_H

#include "core/base/arena.h"
#include "core/gossip.h"
#include "hub.h"

enum lock_state {
    LOCK_FREE = 0, /* the slot is nobody's */
    LOCK_IDLE,     /* named, no grant here */
    LOCK_ASKING,
    LOCK_GRANTED,
    LOCK_AMENDING, /* granted; more tokens or a longer lock-delay were asked for */
    LOCK_RETURNING,
    LOCK_RETIRED, /* used up: the name has another slot, handles still have this one */
    LOCK_ADOPTED, /* as the agent before left it; what the quorum knows of it is to be asked. mode:
                     what its word is in force for, NONE: not at all */
};

/* A slot's lock, private: 32 bytes, there is one for each slot. */
struct lock {
    uint64_t ballot : 48;        /* of the grant's version; not granted: of the last returned */
    uint64_t lock_delay_ms : 16; /* the largest that the grant covers */
    uint64_t sequence : 40;
    uint64_t state : 3;    /* enum lock_state; changed by lock_set_state() alone */
    uint64_t mode : 2;     /* enum hfi_grant */
    uint64_t full : 1;     /* no slot for its next tokens: asks again with a renewal */
    uint64_t recalled : 1; /* the quorum wants it back */
    uint64_t request : 16; /* index + 1 of what is under way; 0: nothing */
    uint64_t token_last;
    uint32_t name;    /* id in names; free slot: next free slot + 1 */
    uint32_t handles; /* first handle, NONE */
};
_Static_assert(sizeof(struct lock) == 32, "a lock costs 32 bytes");

/*
 * What the agent knows of a lock's word, private: 8 bytes for each slot. What the region says
 * against it is put right (repair.c).
 */
struct guard {
    /* In force: the word's token is at least this, its low bits; at most the range's last. */
    uint64_t floor : 40;
    uint64_t closed : 21;  /* until when it is closed, in units that wrap: locks.c; 0: it is not */
    uint64_t in_force : 1; /* granted, and its word says so */
    uint64_t cells : 1;    /* a reader may have a seat: the word says so for ever */
    uint64_t watched : 1;  /* the word was told so */
};
_Static_assert(sizeof(struct guard) == 8, "a guard costs 8 bytes");

enum {
    HANDLE_USED = 1,
    HANDLE_ZOMBIE = 2,  /* closed or its client is gone, but its ids may still be named */
    HANDLE_LIMITED = 4, /* has a seat, and its bit in host.limited */
    HANDLE_BARGING = 8,
    HANDLE_STALLS = 32, /* LIMITED, and the limit is a max_stall */
    HANDLE_FOUND = 16,  /* made for a survivor's limited hold; its client has not opened it yet */
    HANDLE_LEFT = 64,   /* its region was given up: it has no slot, no seat, and is no lock's */
};

struct handle {
    uint32_t slot; /* free handle: the next free one; HANDLE_LEFT: NONE */
    uint32_t seat; /* HFI_SEAT_NONE */
    uint32_t client_next;
    uint32_t client_previous;
    uint32_t lock_next;
    uint32_t limit_ms; /* 0: none */
    uint16_t client;   /* index in clients */
    uint16_t holder;
    uint16_t lock_delay_ms;
    uint8_t space;
    uint8_t flags;
};
_Static_assert(sizeof(struct handle) == 32, "a handle costs 32 bytes");

/* The handles of one client. */
struct client_handles {
    uint32_t first;       /* NONE: it has none */
    uint32_t next_walked; /* where a walk over them goes on; NONE: it is over */
    uint32_t count;
};

/* One namespace's region. */
struct space {
    bool used;
    bool adopted;
    bool given_up; /* barred: see regions.c */
    bool leaving;  /* and what is known of its locks goes, bit by bit: from leave_slot on */
    uint32_t leave_slot;
    uint32_t birth;                   /* how many regions it has had with this agent */
    struct host_region_note *note;    /* outside of this block, or: */
    struct host_region_note own_note; /* of whom no note outlives */
    struct hfi_region region;
    struct hfi_actor actor;
    uint64_t incarnation;
    struct lock *locks;
    struct guard *guards;  /* by slot */
    uint64_t lease;        /* as it was published last; 0: not yet */
    uint64_t repairs;      /* of this pass */
    uint64_t *token_first; /* by slot: of its grant's range */
    uint32_t slots_used;   /* slots from here on were never used */
    uint32_t free_slot;    /* slot + 1, 0 none */
    uint32_t free_slots;   /* how many */
    uint32_t reclaim_hand;
};

struct host {
    struct host_config config;
    struct names *names;
    host_sound_fn *sound; /* NULL: every region is */
    void *sound_arg;
    struct gossip *gossip; /* NULL: none */
    int64_t now_ns;
    bool started;
    struct host_lease lease; /* epoch: of the grants */
    struct host_counts counts;
    uint64_t last_request;
    uint32_t free_handle;
    uint32_t handles_used; /* has ever been */
    uint32_t handle_count;
    uint32_t walked;     /* handles that pieces of work have looked at since the last tick */
    uint32_t opened;     /* closed locks whose time had come */
    uint32_t space_hand; /* the namespace likewise */
    uint32_t zombie_count;
    struct clients *clients;
    struct seats *seats;
    struct client_handles *client_handles; /* by client */
    struct handle *handles;
    struct openings *openings;
    struct bells *bells;
    struct limits *limits;
    struct pending *pending;
    struct grants *grants;
    struct lease *lease_state;
    struct burials *burials;
    struct opens *opens;
    struct repair *repair;
    struct routes *routes;
    struct listing *listing;
    struct publish *publish;
    struct watches *watches;
    struct remote *remote;
    struct delays *delays;
    struct requests *requests;
    struct kept *kept;
    struct space spaces[HOST_NAMESPACES_MAX];
};

static inline struct lock *lock_at(const struct host *host, struct lock_ref at)
{
    return &host->spaces[at.space].locks[at.slot];
}

static inline struct guard *lock_guard(const struct host *host, struct lock_ref at)
{
    return &host->spaces[at.space].guards[at.slot];
}

static inline _Atomic uint64_t *lock_word(const struct host *host, struct lock_ref at)
{
    return &host->spaces[at.space].region.words[at.slot].word;
}

static inline const struct hfi_actor *lock_actor(const struct host *host, struct lock_ref at)
{
    return &host->spaces[at.space].actor;
}

static inline bool lock_is_named(const struct lock *lock)
{
    return lock->state != LOCK_FREE && lock->state != LOCK_RETIRED;
}

static inline bool lock_is_granted(const struct lock *lock)
{
    return lock->state == LOCK_GRANTED || lock->state == LOCK_AMENDING;
}

/* ---- spaces.c ---- */

/* Whether what was read in that region was there: see host_set_sound(). */
bool space_is_sound(const struct host *host, uint32_t space);
/* The namespace was given up in this session: nothing is known of what was granted before. */
bool space_is_anew(const struct host *host, uint32_t space);
/* Whether this agent's own store tells which grants of that namespace it has. */
bool space_grants_are_known(const struct host *host, uint32_t space);
/* The name is of a namespace that is given up: what is said of it is not answered. */
bool space_bars_name(const struct host *host, const struct message_name *name);
/* The session of the grants: before START the one that goes on. */
uint32_t space_session(const struct host *host);
/* By so much a lock-delay is counted longer, since another host's clock may differ. */
int64_t space_counted_long_ns(const struct host *host, uint32_t delay_ms);

/* ---- handles.c ---- */

/* A handle of that client on that lock; its holder id is the caller's to set. NONE: all are used.
 * */
uint32_t handle_new(struct host *host, uint32_t client, struct lock_ref at);
void handle_free(struct host *host, uint32_t handle);
/* A free seat for this handle, which has none. HFI_SEAT_NONE: none. */
uint32_t handle_give_seat(struct host *host, uint32_t handle);
/* The handle of a lock that has this holder id; NONE. */
uint32_t handle_of(const struct host *host, struct lock_ref at, uint32_t holder);
/* The client's own handle with that number, which it may use; NONE. */
uint32_t handle_check_own(const struct host *host, uint32_t client, uint32_t handle);
/* Whether one more is within what the client's user may have: all but root half of what there is
 * room for. */
bool handles_may_open(const struct host *host, uint32_t client);
bool handles_has_any(const struct host *host, uint32_t client);
/* A walk over a client's handles, which goes on though handles are freed meanwhile. NONE: it is
 * over. */
void handles_walk_begin(struct host *host, uint32_t client);
uint32_t handles_walk_next(struct host *host, uint32_t client);
/* Whether its process may take the lock by this handle: it is not closed, nor its client dead. */
bool handle_may_take(const struct host *host, const struct handle *who);
/* What that handle asks for. One of a client that hung up may be one that was only found, with the
 * longest lock-delay that there is: it is known from the notes. */
uint32_t handle_delay_ms(const struct host *host, const struct handle *who);
/* Counts some more of the handles' lock-delays, if every handle is known; behind the last: lowers
 * what says too much. */
void handles_settle_delays(struct host *host);

/* ---- locks.c ---- */

/* The only change of a lock's state; a transition that is not in the table of locks.c is a fault of
 * this agent, and ends it. */
void lock_set_state(struct host *host, struct lock_ref at, enum lock_state to);
void lock_name(const struct host *host, struct lock_ref at, struct message_name *out);
/* What stands for its name where that is too long. */
uint64_t lock_hash(const struct host *host, struct lock_ref at);
/* The place of a name; false: it has none. */
bool lock_find(const struct host *host, const uint8_t *name, size_t size, struct lock_ref *at);
uint32_t lock_pack(struct lock_ref at);
struct message_order lock_version(const struct lock *lock);
void lock_set_version(struct lock *lock, struct message_order version);
/* Until when the lock is closed, or was last; 0: it was not lately. By the agent's own number. */
int64_t lock_closed_until_ns(const struct host *host, struct lock_ref at);
/* It is closed until then, at least; 0: it is not. The word and the region are the caller's. */
void lock_close(struct host *host, struct lock_ref at, int64_t until_ns);
/* The region says what is so. */
void lock_tell_closing(struct host *host, struct lock_ref at);
/* Both. */
void lock_close_told(struct host *host, struct lock_ref at, int64_t until_ns);
/* The next moment that can be told as the end of a closing; it is never sooner. */
int64_t lock_closing_end_ns(int64_t until_ns);
/* Takes its word out of use, whatever process holds it, see hfi_revoke(). */
void lock_revoke(struct host *host, struct lock_ref at, enum hfi_grant mode);
/* A line of the log about that lock. */
void lock_log(struct host *host, struct host_actions *actions, const char *event,
              struct lock_ref at, uint64_t token, int64_t number);

#endif
