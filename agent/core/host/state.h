/*
 * The host core's state, shared by its files and seen by nobody else.
 *
 *   host.c     making it, steps, timers, the work that is left over for later steps
 *   adopt.c    regions, what the agent before left in them
 *   regions.c  regions that are given up, namespaces that are begun anew
 *   clients.c  who is connected, alive, dead; holder ids
 *   handles.c  opening, closing, burying
 *   seats.c    places to wait and read, in blocks chained to slots
 *   locks.c    slots, taking holds away, what a rung bell means
 *   grants.c   what is asked of the quorum for a lock, what its answers do
 *   requests.c what was asked and is not answered yet: sent again until it is
 *   kept.c     what of that the next agent goes on with
 *   delays.c   the lock-delays that the next agent counts with
 *   repair.c   what a region says against what is known here is put right
 *   routes.c   which voter coordinates which partition
 *   remote.c   sequencers and an administrator's break: here, or asked of other hosts
 *   inspect.c  list, show, status
 *   listing.c  names in order
 *   merge.c    a lock as this host and others know it
 *   publish.c  telling other hosts of it
 *   notify.c   watches, CHANGED, POKE
 *   survey.c   counts and figures for people
 *
 * All memory is one block, laid out by host_size(). Indexes into it are 32-bit; NONE is no index.
 * A step emits a bounded number of actions: what might be many (watchers to tell, handles of a
 * dead client to bury) is noted, and done bit by bit by work() as long as there is room.
 */
#ifndef HOST_STATE_H
#define HOST_STATE_H

#include <string.h>

#include "core/base/order.h"
#include "core/gossip.h"
#include "core/host.h"
#include "core/quorum.h"
#include "holdfast/holdfast.h"
#include "proto/check.h"
#include "proto/probe.h"

#define NONE UINT32_MAX

/* In the simulator every lock-delay is longer. */
#ifndef HOST_DELAY_UNKNOWN_MS
#define HOST_DELAY_UNKNOWN_MS 1000
#endif

enum {
    HOLDER_IDS = 65535, /* ids 1 .. 65534 */
    ID_WORDS = HOLDER_IDS / 64 + 1,
    WORK_ACTIONS = 24, /* the room that one piece of work may need */
    WORK_OUTPUT = 1024,
    /* From one tick to the next, however many steps that are: a turn of the loop may have thousands
     * of them. Of each kind of work, and of each namespace. */
    WORK_PIECES_MAX = 4096,
    WORK_WALK_MAX = 1 << 20, /* handles that are looked at; some milliseconds */
    WALK_PIECE = WORK_WALK_MAX / WORK_PIECES_MAX, /* so many count as a piece */
    HANDOVERS_BEFORE_RECALL = 16,
    OPEN_PATIENCE_MS = 50, /* an OPEN is answered by then, grant or no grant */
    ZOMBIE_SWEEP_MS = 1000,
    LIMIT_IDLE_CHECK_MS = 1000,
    LIMITED_GROUP = 64,        /* handles that are looked at together for holds to end */
    LIMITS_LOOK_MAX = 1 << 14, /* handles that a step looks at for that */
    PENDING_MAX = 1024,
    UPGRADE_PAUSE_MS = 20,
    WHOLE_MS = 60 * 1000, /* see whole_until_ns */
    QUESTIONS_MAX = 128,  /* one user other than root may have half of them */
    BROKEN_MAX = 64,
    ASKS_MAX = 8192, /* of one namespace, if there are others: a third of what one host may ask */
    ANSWERED_LATER = 1, /* instead of an error: the client's request is not answered yet */
    /* Of a handle that is not known yet, at least: the API's default. */
    LOCK_DELAY_UNKNOWN_MS = HOST_DELAY_UNKNOWN_MS,
    SCAN_SLOTS = 4096, /* slots looked at in one piece of a scan */
};

static const int64_t MS = 1000000;

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
    uint64_t opening : 1;  /* stands in the heap of locks to be opened */
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

enum {
    CLIENT_USED = 1,
    CLIENT_CONNECTED = 2,
    CLIENT_DEAD = 4,      /* its process is gone, or it said goodbye */
    CLIENT_SURVIVOR = 8,  /* from before this agent: what it has open is not all known */
    CLIENT_EVENTS = 16,   /* wants POKE */
    CLIENT_BURYING = 32,  /* its handles are being gone through */
    CLIENT_SCANNING = 64, /* then all slots, since a survivor may have had any open */
    CLIENT_POKE = 128,    /* is to be told to look at its holds */
    CLIENT_LAGGED = 256,  /* missed a CHANGED: is to look at everything */
    CLIENT_OPENING = 512, /* connected again, and has not opened all that it had again */
};

struct client {
    uint32_t flags;
    uint32_t connection;
    uint64_t nonce;
    uint64_t regions_sent;   /* bit by space */
    uint64_t region_request; /* the request that the next REGION belongs to */
    uint32_t handles;        /* first, NONE */
    uint32_t bury_next;      /* handle that is next to be buried */
    uint32_t scan_space;
    uint32_t scan_slot;
    uint32_t handle_count;
    uint32_t id_count;
    uint16_t id; /* its first holder id */
    struct host_peer peer;
};

/* Whose a holder id is: client index + 1, and the client's next id. ID_LEAVING: nobody's any more,
 * but what knows the client by it (its socket, its pidfd, its record) is still there. */
enum { ID_LEAVING = UINT16_MAX };
struct holder_id {
    uint16_t client;
    uint16_t next;
};

/* A message to the quorum that is not answered yet. */
struct request {
    uint64_t id; /* its index in the low 16 bits; 0: free */
    struct message_order version;
    uint64_t token; /* GIVE_BACK: the last that was handed out; AMEND: see message_amend */
    int64_t since_ns;
    int64_t due_ns; /* when it is sent again */
    uint32_t space;
    uint32_t slot; /* NONE: an orphan, the give-back of a grant without a lock; it holds the name */
    uint32_t name;
    uint32_t heap; /* its place in request_heap */
    uint32_t next; /* index + 1: of the free ones, of the orphans */
    uint32_t tries;
    uint16_t lock_delay_ms;
    uint8_t kind; /* enum message_kind */
    uint8_t mode; /* enum message_mode */
    uint8_t partition;
    uint8_t sent_to;   /* the voter, last */
    uint8_t redirects; /* since its last pause */
    bool asks;         /* counted in its namespace's asks */
    bool says_used;    /* AMEND: its token is token_used */
};

/* Where a message goes: a voter, and the voter that is to pass it on, or HOST_NO_RELAY. */
struct route {
    uint32_t to;
    uint8_t relay;
};

/* An OPEN that is not answered yet. */
struct pending {
    uint64_t request;
    int64_t due_ns;
    uint32_t handle;
    bool used;
    int32_t error; /* ready with this error */
    bool ready;
};

/* What another host was asked for a client that waits. */
struct question {
    uint64_t id; /* 0: free */
    uint64_t request;
    int64_t due_ns; /* when it is asked again */
    int64_t end_ns;
    int64_t uid;     /* of the client */
    uint32_t client; /* its first holder id */
    uint32_t connection;
    uint32_t tries;
    enum message_kind kind;      /* CHECK or BREAK */
    struct message_agent holder; /* CHECK: who is asked */
    union {
        struct message_check check;
        struct message_break break_lock;
    } as;
};

/* A break that was done here, so that its repeat is not done to the next holder. */
struct broken {
    uint64_t id;
    struct message_agent agent;
    int32_t result;
};

struct watch {
    bool used;
    uint32_t client;
    uint32_t size;
    char prefix[HFI_NAME_MAX + 1];
};

/* A closed lock and when it is to be looked at. */
struct opening {
    int64_t due_ns;
    uint32_t slot;
    uint32_t space;
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
    uint32_t *slot_blocks; /* own copies of the chains, see struct hfi_region */
    uint32_t *block_next;
    uint32_t *block_slot; /* slot + 1, 0 free */
    uint16_t *seat_holder;
    uint32_t *seat_handle; /* NONE */
    uint64_t *changed;     /* bits: slots whose watchers are to be told */
    uint64_t *published;   /* by slot: the word when it was last told to other hosts */
    uint64_t *told;        /* bits: slots of which other hosts were told that they are in use */
    uint64_t *token_first; /* by slot: of its grant's range */
    uint8_t *idle;         /* by slot: for how many ages nobody has had it open */
    uint32_t slots_used;   /* slots from here on were never used */
    uint32_t free_slot;    /* slot + 1, 0 none */
    uint32_t free_slots;   /* how many */
    uint32_t blocks_used;
    uint32_t free_block; /* block + 1 */
    uint32_t reclaim_hand;
    uint32_t attend_slot;   /* where the next look at the dirty bits begins */
    uint32_t attended;      /* pieces of that since the last tick */
    uint64_t causes;        /* dirty bits that were found, ever */
    uint32_t asks;          /* grants that are asked for */
    uint32_t changed_slot;  /* where telling changes goes on */
    uint32_t changed_watch; /* the watch to be told next, of the slot that is being told */
    bool dirty;             /* the bell rang */
    bool telling;           /* changed bits are set */
};

struct host {
    struct host_config config;
    struct names *names;
    const struct hfi_kernel *outer; /* the driver's */
    struct hfi_kernel kernel;       /* on top of it: our own bell only sets `rang` */
    host_sound_fn *sound;           /* NULL: every region is */
    void *sound_arg;
    struct gossip *gossip; /* NULL: none */
    struct order order;    /* of the locks that have a name */
    int64_t publish_due_ns;
    int64_t publish_began_ns; /* the pass over all words that is under way */
    uint32_t publish_space;   /* where it goes on */
    uint32_t publish_slot;
    int64_t repair_due_ns;
    int64_t repair_began_ns; /* the pass over all locks that is under way */
    uint32_t repair_space;   /* where it goes on */
    uint32_t repair_slot;
    uint32_t repair_block; /* block + 1 of that slot; 0: from its first */
    uint32_t repair_entry; /* of the index, once all slots are done */
    uint32_t remote_watch; /* the watch to be told next of remote_changed */
    uint32_t remote_left;  /* so many have to be looked at for it */
    struct message_name remote_changed;
    int64_t now_ns;
    bool started;
    bool rang;
    bool ringing;            /* a lock is looked at because its bell rang */
    bool starved;            /* a request found no room */
    struct host_lease lease; /* epoch: of the grants */
    struct host_counts counts;
    uint64_t last_request;
    uint32_t request_capacity;
    uint32_t requests_used; /* from here on never used */
    uint32_t request_count;
    uint32_t request_free; /* index + 1 */
    uint32_t orphans;      /* index + 1 of the first */
    int64_t aged_ns;       /* up to when grants were counted as idle */
    int64_t upgrade_due_ns;
    int64_t whole_until_ns; /* grants are made shared with all tokens of their range: grants.c */
    uint32_t voters_up;     /* bit by voter */
    uint32_t voters_refused;
    uint32_t voters_heard; /* what people are told of as up */
    uint32_t client_capacity;
    uint32_t free_handle;
    uint32_t handles_used; /* has ever been */
    uint32_t handle_count;
    uint32_t id_count;
    uint32_t walked;      /* handles that pieces of work have looked at since the last tick */
    uint32_t buried;      /* pieces of burying since then */
    uint32_t opened;      /* closed locks whose time had come */
    uint32_t told;        /* changes */
    uint32_t client_hand; /* the client whose pieces are the next step's first */
    uint32_t space_hand;  /* the namespace likewise */
    uint32_t tell_hand;   /* and when changes are told */
    uint32_t limited_count;
    uint32_t limits_hand; /* the group that was left for the next step: it is the first then */
    uint32_t zombie_count;
    uint32_t pending_count;
    uint32_t opening_count;
    uint32_t watch_count;
    uint32_t survivor_count; /* clients that have CLIENT_SURVIVOR set */
    uint32_t clients_busy;   /* how many have BURYING, SCANNING or POKE set */
    uint32_t connected_count;
    uint32_t ids_high; /* highest id ever given */
    int64_t limits_due_ns;
    int64_t sweep_due_ns;
    struct client *clients;
    struct handle *handles;
    struct holder_id *ids;
    struct opening *openings;
    struct request *requests;
    struct host_kept *kept; /* by a request's index; outside of this block */
    uint32_t kept_count;
    _Atomic uint16_t *delays_ms; /* outside of this block: see delays.c */
    uint32_t delay_count;
    bool delays_stale;                           /* some may say too much */
    uint16_t delays_settled_ms[HOST_DELAYS_MAX]; /* of the handles that are counted */
    uint32_t delays_hand;    /* the first that is not counted yet; 0: no count is under way */
    uint32_t *request_heap;  /* by due_ns */
    uint64_t *limited;       /* bits: handles with a limit, a group in each */
    int64_t *limited_due_ns; /* of each group that has some: when it is looked at */
    uint64_t *named_ids;     /* by space, ID_WORDS each: ids that are named there (scratch) */
    uint8_t routes[MESSAGE_PARTITIONS]; /* the coordinator as it is believed */
    uint32_t pending_end;               /* of pending: one behind the last that is used */
    struct pending pending[PENDING_MAX];
    struct question questions[QUESTIONS_MAX];
    uint32_t question_count;
    uint32_t broken_next;
    struct broken broken[BROKEN_MAX];
    struct watch *watches;
    struct space spaces[HOST_NAMESPACES_MAX];
};

/* A lock, by where it is. */
struct place {
    uint32_t space;
    uint32_t slot;
};

static inline struct lock *lock_at(const struct host *host, struct place at)
{
    return &host->spaces[at.space].locks[at.slot];
}

static inline struct guard *lock_guard(const struct host *host, struct place at)
{
    return &host->spaces[at.space].guards[at.slot];
}

static inline _Atomic uint64_t *lock_word(const struct host *host, struct place at)
{
    return &host->spaces[at.space].region.words[at.slot].word;
}

static inline const struct hfi_actor *lock_actor(const struct host *host, struct place at)
{
    return &host->spaces[at.space].actor;
}

/* The size of a terminated text of at most `max` bytes. */
static inline uint32_t text_size(const char *text, size_t max)
{
    const char *end = memchr(text, '\0', max);
    return (uint32_t)(end ? (size_t)(end - text) : max);
}

static inline bool lock_is_named(const struct lock *lock)
{
    return lock->state != LOCK_FREE && lock->state != LOCK_RETIRED;
}

static inline bool lock_is_granted(const struct lock *lock)
{
    return lock->state == LOCK_GRANTED || lock->state == LOCK_AMENDING;
}

static inline bool lease_is_safe(const struct host *host)
{
    return !host->lease.lost && host->lease.deadline_ns > host->now_ns;
}

/* ---- host.c ---- */

struct host_action *emit(struct host_actions *actions, enum host_action_kind kind);
struct message *emit_send(struct host_actions *actions, enum message_kind kind, uint32_t to,
                          uint8_t relay);
bool has_room(const struct host_actions *actions, uint32_t count, size_t output);
/* Encodes and queues a frame for a connected client. */
void reply_frame(struct host *host, uint32_t client, const struct hfi_frame *frame,
                 struct host_actions *actions);
void reply_done(struct host *host, uint32_t client, uint64_t request, int32_t error,
                struct host_actions *actions);
void emit_log(struct host_actions *actions, const char *event, int64_t number);
void emit_lock_log(struct host *host, struct host_actions *actions, const char *event,
                   struct place at, uint64_t token, int64_t number);
/* Remembers that a closed lock is to be looked at, no later than that. */
void opening_add(struct host *host, struct place at, int64_t due_ns);
/* No lock is waited for any more that is not closed. */
void openings_forget(struct host *host);
/* Nor one of that namespace. */
void openings_leave(struct host *host, uint32_t space);
void busy_set(struct host *host, struct client *client, uint32_t flag);
void busy_clear(struct host *host, struct client *client, uint32_t flag);

/* ---- clients.c ---- */

void client_connected(struct host *host, const struct host_event *event,
                      struct host_actions *actions);
void client_hangup(struct host *host, uint32_t client);
void client_died(struct host *host, uint32_t client);
/* The ids of the client with this first one, whose FORGET was carried out, are free. */
void client_forgotten(struct host *host, uint32_t id);
/* It has opened again all that it had open: what else is left under its ids is taken away. */
void client_resumed(struct host *host, uint32_t client);
/* The client index of a holder id; NONE: nobody's. */
uint32_t client_of_id(const struct host *host, uint32_t id);
/* Gives the client one more id. 0: none is free. */
uint32_t client_add_id(struct host *host, uint32_t client, struct host_actions *actions);

/* Whether one more handle, or watch, is within what the client's user may have: all but root
 * half of what there is room for. */
bool client_may_open(const struct host *host, uint32_t client);
bool client_may_watch(const struct host *host, uint32_t client);
bool client_has_id(const struct host *host, uint32_t client, uint32_t id);
/* If it is gone and nothing names it any more: frees the record and its ids. */
void client_forget_if_done(struct host *host, uint32_t client, struct host_actions *actions);
/* One piece of burying. */
void client_bury_piece(struct host *host, uint32_t client, struct host_actions *actions);
bool client_lives(const struct host *host, uint32_t client);
/* Whether its process may go on with handles that are closed here: it was hung up on, and has not
 * opened all of them again. */
bool client_may_use_closed(const struct host *host, uint32_t client);
/* What it has open is all known now. */
void client_is_known(struct host *host, uint32_t client);

/* ---- handles.c ---- */

void handle_open(struct host *host, uint32_t client, const struct hfi_frame *frame,
                 struct host_actions *actions);
void handle_seat(struct host *host, uint32_t client, const struct hfi_frame *frame,
                 struct host_actions *actions);
/* MAP: the region of a name. */
int32_t handle_map(struct host *host, uint32_t client, const struct hfi_frame *frame,
                   struct host_actions *actions);
void handle_close(struct host *host, uint32_t client, uint32_t number,
                  struct host_actions *actions);
/* Its client is gone or it was closed: takes away what it held and waited for. */
void handle_bury(struct host *host, uint32_t handle, struct host_actions *actions);
/* The same for a seat of a client whose handles are not known. */
void handle_bury_seat(struct host *host, uint32_t client, struct place at, uint32_t seat,
                      struct host_actions *actions);
/* Frees it if nothing can name it any more, else leaves it a zombie. */
void handle_retire(struct host *host, uint32_t handle);
void zombies_sweep(struct host *host, struct host_actions *actions);
/* The handle of a lock that has this holder id; NONE. */
uint32_t handle_of(const struct host *host, struct place at, uint32_t holder);
/* Answers what can be answered of the OPENs of this lock: error 0, or why not. */
void pending_resolve(struct host *host, struct place at, int32_t error);
void pending_work(struct host *host, struct host_actions *actions);
void limits_check(struct host *host, struct host_actions *actions);
/* Survivors' holds with a limit on this lock, which have to end in time: gives them handles. */
void limits_find(struct host *host, struct place at);
/* A hold with a limit may have begun on this lock. */
void limits_attend(struct host *host, struct place at);

/* ---- seats.c ---- */

/* A walk over the seats of a lock, those of nobody too: as many as its chain of blocks has when it
 * begins. */
struct seats {
    const struct space *space;
    uint32_t seat;       /* where it is; HFI_SEAT_NONE: before the first */
    uint32_t next_block; /* block + 1, 0 none */
    uint32_t blocks_left;
};
struct seats seats_of(const struct host *host, struct place at);
/* Goes on to the next. false: there is none. */
bool seats_next(struct seats *walk);
/* A free seat for this handle, which has none. HFI_SEAT_NONE: none. */
uint32_t seat_give(struct host *host, uint32_t handle);
void seat_take_back(struct host *host, struct handle *who);
/* A seat of this lock that is that holder id's and no handle's: of the agent before this one, whose
 * client has not resumed it, or was never told of it. HFI_SEAT_NONE: none. */
uint32_t seat_orphan(const struct host *host, struct place at, uint32_t holder);
/* Whether the slot has blocks, and no seat in them is anybody's. */
bool blocks_are_empty(const struct host *host, struct place at);
/* Drops the slot's blocks; no handle has it. */
void blocks_release(struct host *host, struct place at);
/* Rebuilds the agent's copies of an adopted region's chains. false: they make no sense. */
bool blocks_adopt(struct host *host, uint32_t space);

/* ---- locks.c ---- */

/* The only change of a lock's state; a transition that is not in the table of locks.c is a fault of
 * this agent, and ends it. */
void lock_set_state(struct host *host, struct place at, enum lock_state to);
/* What stands for its name where that is too long. */
uint64_t lock_hash(const struct host *host, struct place at);
/* The place of a name; false: it has none. */
bool lock_find(const struct host *host, const uint8_t *name, size_t size, struct place *at);
/* Gives a name a slot. false: full. */
bool lock_make(struct host *host, uint32_t space, const uint8_t *name, size_t size,
               struct place *at);
/* The store says that this slot is that name's. false: it does not fit. */
bool lock_load(struct host *host, struct place at, const uint8_t *name, size_t size);
/* Notes durably which slot the name has. */
void slot_persist(struct host *host, struct place at, struct host_actions *actions);
/* Called when a handle left it: frees the seats, and a retired slot, that nobody has open. */
void lock_unused(struct host *host, struct place at);
/* Called after the start, and when a survivor is known: once all are, does the same for what
 * nobody opened again. */
void locks_known(struct host *host);
/* Looks at a lock whose bell rang. */
void lock_attend(struct host *host, struct place at, struct host_actions *actions);
/* Makes its bell ring when all are looked at next. */
void lock_look_later(struct host *host, struct place at);
/* Its grant is back with the quorum: asks for it if somebody waits, else frees a slot that nobody
 * has open. */
void lock_unwanted(struct host *host, struct place at, struct host_actions *actions);
/* Gives the name another slot; *at becomes that one. false: none is free. */
bool lock_move(struct host *host, struct place *at, struct host_actions *actions);
/* Whether a client of the agent before this one has not said yet all that it has open: it may be
 * any lock, and its handles name slots, which then must not become another lock's. */
bool handles_unknown(const struct host *host);
/* Evicts whoever the word names, or one that is dead; closes for delay_ms (0: not). */
void lock_evict(struct host *host, struct place at, uint32_t holder, uint64_t token,
                uint32_t delay_ms, enum host_loss why, struct host_actions *actions);
void lock_evict_reader(struct host *host, struct place at, uint32_t seat, uint64_t cell,
                       uint32_t delay_ms, enum host_loss why, struct host_actions *actions);
/* Its word's token is none of the range: all of it counts as used, and who the word names has lost
 * the lock, which closes for delay_ms. false: it is one. */
bool lock_use_up(struct host *host, struct place at, const struct hfi_range *range,
                 uint32_t delay_ms, struct host_actions *actions);
/* Whether somebody waits for it to be granted. */
bool lock_is_awaited(const struct host *host, struct place at);
/* Until when the lock is closed, or was last; 0: it was not lately. By the agent's own number. */
int64_t lock_closed_until_ns(const struct host *host, struct place at);
/* It is closed until then, at least; 0: it is not. The word and the region are the caller's. */
void lock_close(struct host *host, struct place at, int64_t until_ns);
/* The same, and the region says so, too. */
void lock_close_told(struct host *host, struct place at, int64_t until_ns);
/* Takes it out of use whoever holds it, see hfi_revoke(). */
void lock_revoke(struct host *host, struct place at, enum hfi_grant mode);
/* Puts the grant in force, whose range begins there. */
void lock_put_in_force(struct host *host, struct place at, uint64_t token_first,
                       struct host_actions *actions);
void lock_open_due(struct host *host, struct place at, struct host_actions *actions);
/* Takes back idle locks when slots run short. */
void locks_reclaim(struct host *host, uint32_t space, struct host_actions *actions);
/* The session is over: nothing that was granted is granted any more. */
void locks_revoke_all(struct host *host, struct host_actions *actions);
/* Marks every lock that somebody waits for as to be looked at, and some that nobody has had open
 * for long. One pass over all locks. */
void locks_mark_wanted(struct host *host);
void lock_name(const struct host *host, struct place at, struct message_name *out);
/* A client died whose handles are not known: looks whether it had this lock. */
void lock_bury_unknown(struct host *host, uint32_t client, struct place at,
                       struct host_actions *actions);
/* How long it stays closed behind a holder: the handle's lock-delay, or the grant's. */
uint32_t lock_delay_of(const struct host *host, struct place at, uint32_t holder);

/* ---- grants.c ---- */

/* Asks for the grant, if it is not here and was not asked for. */
void lock_ask(struct host *host, struct place at, uint32_t lock_delay_ms,
              struct host_actions *actions);
/* It is asked for: whether the mode is still the one that is wanted. */
void lock_ask_anew(struct host *host, struct place at, struct host_actions *actions);
void lock_amend(struct host *host, struct place at, uint32_t lock_delay_ms, bool tokens,
                struct host_actions *actions);
/* Adopted: its word was in force, so the agent before this one had not given its grant back. */
void lock_was_in_force(struct lock *lock);
/* Adopted: the agent before this one had returned that version, and none above it. */
void lock_has_returned(struct lock *lock, struct message_order version);
/* Granted, but not in force: the grant does not cover the lock-delay of some handle yet. */
bool lock_lacks_delay(const struct host *host, struct place at);
/* Serves, gives back or amends a grant that is here. */
void grant_attend(struct host *host, struct place at, struct host_actions *actions);
/* A message of a coordinator. */
void lock_message(struct host *host, const struct message *message, struct host_actions *actions);

/* ---- requests.c ---- */

/* Whether there is room for one more; if not, those that were told so are looked at again
 * (lock_look_later) when there is. */
bool request_room(struct host *host);
/* Something is under way for that lock from now on; the caller fills it in and sends it. NULL: no
 * room. */
struct request *request_start(struct host *host, struct place at, enum message_kind kind);
void request_send(struct host *host, struct request *request, struct host_actions *actions);
void request_end(struct host *host, struct request *request);
void requests_end_all(struct host *host);
/* What is under way for a lock; NULL: nothing. */
struct request *request_of(const struct host *host, struct place at);
/* The request of that kind and name that an answer belongs to; NULL: none any more. */
struct request *request_answered(const struct host *host, uint64_t id, enum message_kind kind,
                                 const struct message_name *name);
/* Gives a grant back for which there is no lock. */
void request_orphan(struct host *host, const struct message_name *name,
                    struct message_order version, uint64_t token_used,
                    struct host_actions *actions);
/* The new lock of a name begins with the give-back that is under way for it, if one is. */
bool request_inherit(struct host *host, struct place at);
/* Another voter coordinates its name. */
void request_redirect(struct host *host, struct request *request, const struct message_agent *owner,
                      struct host_actions *actions);
/* That voter coordinates these partitions from now on: what waits is sent again. */
void requests_owner(struct host *host, const struct message_partitions *partitions,
                    const struct message_agent *owner);
/* These voters, bit by index, are there again: what was sent to them may be lost, and one that was
 * started anew knows of nobody who waits. What was sent first less than its first pause ago waits
 * for that. */
void requests_voters_up(struct host *host, uint32_t voters);
int64_t requests_due_ns(const struct host *host);
void requests_tick(struct host *host, struct host_actions *actions);

/* An ACQUIRE that the agent before began then, at the index that it had there (which rises from one
 * to the next; nothing else has been made yet). id: the one it had; 0, or one that does not go with
 * the index: a new one. Only lock_ask() sends it. NULL: no room. */
struct request *request_keep(struct host *host, struct place at, uint32_t index, uint64_t id,
                             int64_t since_ns);
/* Made by request_keep(), and not sent yet. */
bool request_is_kept(const struct request *request);

/* ---- kept.c ---- */

/* Notes the request of a lock for the next agent. known: see lock_has_returned(). */
void kept_note(struct host *host, const struct request *request, bool known);
void kept_forget(struct host *host, uint32_t index);
/* Goes on with what the agent before waited for. */
void kept_adopt(struct host *host);

/* ---- regions.c ---- */

/* Whether what was read in that region was there: see host_set_sound(). */
bool region_is_sound(const struct host *host, uint32_t space);
/* The namespace was given up in this session: nothing is known of what was granted before. */
bool space_is_anew(const struct host *host, uint32_t space);
/* Whether this agent's own store tells which grants of that namespace it has. */
bool grants_are_known(const struct host *host, uint32_t space);
/* The name is of a namespace that is given up: what is said of it is not answered. */
bool name_is_barred(const struct host *host, const struct message_name *name);
/* Before a lock is closed for so long. */
void region_note_closing(const struct host *host, struct place at, uint32_t delay_ms);
/* Leaves what was given up, bit by bit. */
bool regions_leaving(const struct host *host);
void regions_work(struct host *host, struct host_actions *actions);

/* ---- delays.c ---- */

/* Whether its process may take the lock by this handle: it is not closed, nor its client dead. */
bool handle_may_take(const struct host *host, const struct handle *who);
/* The longest lock-delay of the lock's handles that the agent before this one may have told of. */
uint32_t delay_noted_ms(const struct host *host, struct place at);
/* The longest of any handle. */
uint32_t delays_longest_ms(const struct host *host);
/* What that handle asks for. One of a client that hung up may be one that was only found, with the
 * longest lock-delay that there is: it is known from the notes. */
uint32_t handle_delay_ms(const struct host *host, const struct handle *who);
/* Before a handle with that lock-delay is told of. */
void delay_note(struct host *host, struct place at, uint32_t delay_ms);
/* A handle had that one, and has it no more. */
void delay_gone(struct host *host, uint32_t delay_ms);
/* Takes over what the agent before noted, if its session goes on. */
void delays_adopt(struct host *host);
/* Counts some more of the handles, if every one is known; behind the last: lowers what says too
 * much. */
void delays_settle(struct host *host);

/* ---- routes.c ---- */

void routes_init(struct host *host);
/* Its index among the voters; NONE: it is none. */
uint32_t route_voter(const struct host *host, const struct message_agent *agent);
/* That agent coordinates the partition. true: that is news. */
bool route_learn(struct host *host, uint32_t partition, const struct message_agent *agent);
bool route_is_up(const struct host *host, uint32_t voter);
/* Another voter that is up (self: it may be this agent), by turns; NONE: there is none. */
uint32_t route_other(const struct host *host, uint32_t voter, uint32_t turn, bool self);
/* The way of a request that was sent so many times before. */
struct route route_choose(const struct host *host, uint32_t partition, uint32_t tries,
                          uint32_t turn);

/* ---- remote.c ---- */

/* CHECK and BREAK of a client: an error, 0, or ANSWERED_LATER. */
int32_t remote_check(struct host *host, uint32_t client, const struct hfi_frame *frame,
                     struct host_actions *actions);
int32_t remote_break(struct host *host, uint32_t client, const struct hfi_frame *frame,
                     struct host_actions *actions);
int32_t admin_recall(struct host *host, uint32_t client, const struct hfi_text *name,
                     struct host_actions *actions);
/* false: it is no message about these. */
bool remote_message(struct host *host, const struct message *message, struct host_actions *actions);
int64_t questions_due_ns(const struct host *host);
void questions_tick(struct host *host, struct host_actions *actions);

/* ---- adopt.c ---- */

void adopt_all(struct host *host, struct host_actions *actions);

/* ---- repair.c ---- */

/* Puts right what the lock's word says against what is known here. */
void repair_word(struct host *host, struct place at, struct host_actions *actions);
/* The same of all that the region says of the lock. */
void repair_lock(struct host *host, struct place at, struct host_actions *actions);
/* Adopted: takes over what only the region knows of the lock. A lock-delay that runs has at most
 * that long to go. */
void repair_adopt(struct host *host, struct place at, uint32_t delay_ms);
/* What of the lock's tokens has been used, by its word. */
uint64_t lock_token_used(const struct host *host, struct place at);
int64_t repair_due_ns(const struct host *host);
/* A piece of the pass over all locks. */
void repair_work(struct host *host, struct host_actions *actions);

/* ---- survey.c ---- */

/* What a word of a region that says since when (units of 2^20 ns) is long ago. */
int64_t since_to_elapsed(int64_t now_ns, uint32_t since);
/* Counts how old the hold and the first wait of that lock are, if there are any. */
void survey_ages(struct host *host, struct place at);

/* ---- inspect.c ---- */

void inspect_list(struct host *host, uint32_t client, const struct hfi_frame *frame,
                  struct host_actions *actions);
void inspect_status(struct host *host, uint32_t client, const struct hfi_frame *frame,
                    struct host_actions *actions);

/* What people see of a lock on this host.
 * parties: room for HFI_FRAME_PARTIES_MAX, holders first. */
void lock_look(const struct host *host, struct place at, struct hfi_lock_frame *lock,
               struct hfi_party_frame *parties);

/* ---- listing.c ---- */

void listing_init(struct host *host);
/* The lock has its name and its place from now on, resp. is about to lose them. */
void listing_add(struct host *host, struct place at);
void listing_remove(struct host *host, struct place at);
/* The first lock behind `after`, here or elsewhere, of a LIST, that this client may see. */
bool listing_next(const struct host *host, uint32_t client, const struct hfi_list *list,
                  const struct message_name *after, struct message_name *out);

/* ---- publish.c ---- */

/* Tells other hosts what has changed here, a bounded part at a time. */
void publish_work(struct host *host);
int64_t publish_due_ns(const struct host *host);
/* The name of a lock goes. */
void publish_gone(struct host *host, struct place at);

/* ---- merge.c ---- */

/* What this host and others know of one lock. Its texts point into itself. */
struct merged {
    struct hfi_lock_frame lock;
    struct hfi_party_frame parties[2 * HFI_FRAME_PARTIES_MAX]; /* holders, then waiters */
    char commands[HFI_FRAME_PARTIES_MAX][HFI_FRAME_COMMAND_MAX + 1];
    struct message_agent agents[2 * HFI_FRAME_PARTIES_MAX];
    uint32_t commands_used;
    uint32_t agents_used;
};
/* coordinator: room for its name. */
void merge_lock(const struct host *host, const uint8_t *name, size_t size,
                struct message_agent *coordinator, struct merged *out);

/* ---- notify.c ---- */

/* Something is left to be told of other hosts' locks. */
bool notify_is_left(const struct host *host);

/* Somebody may watch it. */
void lock_changed(struct host *host, struct place at);
/* The lock is about to lose its slot. A change that not all were told yet can no more be told by
 * its name: the watchers are told to look at everything. */
void lock_leaves_untold(struct host *host, struct place at);
/* Its word says that it is watched, which may be over: then the word does not say so any more. */
void lock_watched_changed(struct host *host, struct place at);
int32_t watch_add(struct host *host, uint32_t client, const struct hfi_text *prefix);
void watch_drop(struct host *host, uint32_t client);
/* Whether anybody watches this name. */
bool watched(const struct host *host, uint32_t space, const uint8_t *name, size_t size);
void poke(struct host *host, uint32_t client);
void poke_all(struct host *host);
void notify_work(struct host *host, struct host_actions *actions);
/* Tells a client that it missed changes. */
void notify_lagged(struct host *host, uint32_t client, struct host_actions *actions);
/* HF_EACCES, or 0: the client may use (admin: administer) the namespace of that name. */
int32_t rights_check(const struct host *host, uint32_t client, uint32_t space, uint32_t right);

#endif
