/*
 * What the files of libholdfast share: the client, its connection, its regions, its handles.
 *
 * How it works. A client has one socket to the agent and a mapping of every region that the agent
 * handed it. A handle (hf_lock) has a place: where in which region its lock is and which holder id
 * it has there. Places are immutable; a handle whose place changes (a seat was added, the agent
 * came back with another region) gets a new one behind its atomic pointer, and old ones live until
 * the handle is closed, so that a thread in the fast path never meets freed memory. For the same
 * reason regions stay mapped until hf_disconnect.
 *
 * Locking. Three kinds of mutex, always taken in this order, none while asleep on a futex:
 *   lock->mutex           who waits for this handle's claim (below); never held during a wait
 *   client->socket_mutex  the connection: one request and its answer; the lists' writers
 *   client->list_mutex    handles, events, watches, regions; held for moments only
 * Changing the list of handles, regions or watches takes both of the client's; reading takes one.
 *
 * The claim (hf_lock.state). FREE -> TAKING -> HELD -> CHANGING -> FREE. Whoever makes the state
 * TAKING or CHANGING, by a swap, owns the handle's hold, its seat and its place in the queue until
 * it stores the next state. So of many threads that share a handle one acts for it at a time, in
 * the fast path too, and a word that names the handle's holder id is always the claimant's own.
 */
#ifndef LIBCLIENT_CLIENT_H
#define LIBCLIENT_CLIENT_H

#include "holdfast/holdfast.h"
#include "proto/frame.h"
#include "proto/lockword.h"

#include <pthread.h>
#include <sys/types.h>
#include <time.h>

#define HFI_PUBLIC __attribute__((visibility("default")))
#define HFI_MUST_USE __attribute__((warn_unused_result))

enum {
    CHANGED_RING = 1024, /* changed names kept for hf_next_event */
    ANSWER_MS = 5000,    /* an agent that takes longer for an answer is taken for dead */
    REACH_MS = 1000,     /* how long a call that cannot wait tries to reach a dead agent */
    TRY_MS = 1000,       /* how long a try waits for the host's grant */
};

#define NS_PER_MS INT64_C(1000000)
#define NS_PER_S INT64_C(1000000000)

/* A region as this client maps it. Lives until hf_disconnect. */
struct region_map {
    struct hfi_region region;
    struct hfi_kernel kernel; /* arg is this region_map */
    void *memory;
    size_t size;
    int bell_fd;
    dev_t device; /* of the descriptor: the same incarnation must be the same file */
    ino_t inode;
    uint64_t incarnation;
    uint32_t number;     /* the agent's, valid for .connection only */
    uint64_t connection; /* which connection gave it last */
    struct region_map *next;
    /* For release_in_time() in hold.c: the lease that boot_offset_ns was taken under. */
    _Atomic uint64_t clock_lease;
    _Atomic int64_t boot_offset_ns; /* BOOTTIME - MONOTONIC_COARSE */
};

/* Where a handle's lock is. Immutable once published. */
struct place {
    struct region_map *map;
    uint32_t slot;
    uint32_t holder;
    uint32_t seat;     /* HFI_SEAT_NONE: none yet */
    bool shared_ready; /* the word's cells bit was set for this seat */
    struct place *older;
};

enum claim_state { STATE_FREE = 0, STATE_TAKING, STATE_HELD, STATE_CHANGING };

/*
 * The handle's hold, readable at any time from any thread and from a signal handler: written by
 * the owner of the claim between two increments of serial (odd: being written).
 */
struct hold {
    _Atomic uint64_t serial;
    _Atomic uint64_t token;
    _Atomic uint64_t cell;
    _Atomic uint32_t epoch;
    _Atomic uint32_t mode; /* enum hf_mode */
    _Atomic int64_t deadline_ns;
    _Atomic int64_t lease_end_ns; /* with lease_ns: when the hold ends; else INT64_MAX */
    _Atomic(struct place *) place;
    _Atomic uint64_t number; /* counts holds of this handle */
    _Atomic uint64_t lost;   /* the number of a hold that was told lost; never counts again */
};

/* A consistent copy of a hold. */
struct hold_view {
    struct hfi_held held;
    enum hf_mode mode;
    int64_t lease_end_ns;
    struct place *place;
    uint64_t number;
};

struct hf_lock {
    /* What the fast path touches first. */
    const volatile uint32_t *alive; /* 0 in a forked child */
    _Atomic uint32_t state;         /* enum claim_state */
    bool simple;                    /* no limit, not reentrant: the fast path may be taken */
    _Atomic(struct place *) place;  /* NULL: nowhere, the agent does not have the handle */
    struct hold hold;
    _Atomic(struct place *) places; /* all there were, by .older; freed with the handle */

    hf_client *client;
    uint32_t flags; /* hf_lock_options.flags */
    int64_t lock_delay_ns;
    int64_t lease_ns;
    int64_t max_stall_ns;
    int64_t limit_ns; /* the smaller of the two; 0: none */
    uint32_t name_size;
    char name[HFI_NAME_MAX + 1];

    _Atomic uint32_t cancel; /* counts hf_cancel; private futex */
    pthread_mutex_t mutex;   /* guards claimed, depth */
    pthread_cond_t unclaimed;
    bool claimed; /* a thread owns TAKING or CHANGING for as long as a wait */
    uint32_t depth;

    /* Under socket_mutex. */
    uint32_t handle; /* the agent's number, valid for .connection only */
    uint64_t connection;
    struct hf_lock *next;
    struct hf_lock *previous;

    /* Under list_mutex: what was told of hold number told_number. */
    uint64_t told_number;
    uint32_t told; /* TOLD_... */
    bool granted;  /* GRANTED is to be told */
    uint64_t granted_token;
};

struct watch {
    struct watch *next;
    uint32_t size;
    char prefix[HFI_NAME_MAX + 1];
};

/* The region of the names with this text before their first '/'. */
struct namespace_entry {
    struct namespace_entry *next;
    struct region_map *map;
    uint32_t size;
    char prefix[HFI_NAME_MAX + 1];
};

enum connection_state { CONNECTION_DOWN = 0, CONNECTION_GREETING, CONNECTION_UP };

/* Names under watched prefixes that changed, oldest first. */
struct changed_ring {
    char (*names)[HFI_NAME_MAX + 1]; /* CHANGED_RING of them, allocated by the first hf_watch */
    uint32_t first;
    uint32_t count;
};

struct events {
    bool enabled;
    int epoll_fd;
    int timer_fd; /* BOOTTIME, absolute: the next moment that may end a hold, or a reconnection */
    int wake_fd;  /* readable while something is queued or is to be looked at */
    int64_t armed_ns;
    bool look;              /* the holds are to be looked at */
    uint32_t granted_count; /* handles whose GRANTED is to be told */
    struct changed_ring changed;
};

struct hf_client {
    uint32_t *alive; /* a page that reads 0 in a forked child */
    pthread_mutex_t socket_mutex;
    pthread_mutex_t list_mutex;

    /* Under socket_mutex. */
    enum connection_state connection_state;
    int socket_fd;
    int pidfd;
    uint64_t connection; /* counts connections */
    uint64_t request;    /* the last request's number */
    int64_t greeted_ns;  /* when HELLO was sent */
    int64_t retry_ns;    /* no attempt to reconnect before */
    int64_t retry_gap_ns;
    bool path_fixed;
    char path[108];
    uint32_t id; /* as WELCOME gave it */
    uint64_t nonce;
    int64_t grace_ns;
    int *lifelines; /* never closed before the end: see lifeline_keep() */
    size_t lifeline_count;
    unsigned char packet[HFI_FRAME_MAX];
    unsigned char outgoing[HFI_FRAME_MAX];

    /* Set once by the first WELCOME. */
    char cell[HFI_LABEL_MAX + 1];
    char agent[HFI_LABEL_MAX + 1];

    _Atomic bool down; /* a copy of "not CONNECTION_UP" that needs no mutex */

    /* Under both mutexes for a change, either for reading. */
    struct hf_lock *locks;
    struct region_map *maps;
    struct watch *watches;

    /* Under list_mutex. */
    struct namespace_entry *namespaces;
    struct events events;
    _Atomic uint64_t events_connection; /* .connection as events.c last saw it */
};

/* ---- time.h-like helpers ---- */

/* CLOCK_BOOTTIME, by the vDSO. */
static inline int64_t boottime_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return (int64_t)now.tv_sec * NS_PER_S + now.tv_nsec;
}

static inline int64_t add_saturated(int64_t a, int64_t b)
{
    int64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? INT64_MAX : sum;
}

/* The deadline of a timeout as the API has it: negative is for ever. */
static inline int64_t deadline_after(int64_t timeout_ns)
{
    return timeout_ns < 0 ? INT64_MAX : add_saturated(boottime_ns(), timeout_ns);
}

/* ---- fork.c ---- */

/* A page whose first word is 1 here and 0 in a forked child. NULL: no memory. */
uint32_t *alive_create(void);
void alive_destroy(uint32_t *alive);

static inline bool alive_here(const volatile uint32_t *alive)
{
    return __builtin_expect(*alive != 0, 1);
}

/* Copies an option struct of known_size bytes that begins with its size; false: not acceptable. */
bool options_copy(void *known, size_t known_size, const void *given) HFI_MUST_USE;

/* ---- socket.c: packets and descriptors. All under socket_mutex. ---- */

/* An answer's texts point into client->packet: they count until the mutex is let go. */
struct answer {
    struct hfi_frame frame;
    struct hfi_listed_cursor cursor;
    size_t size;            /* of the packet */
    int fds[2];             /* -1: none. The receiver's to close */
    struct region_map *map; /* of the last REGION that came before the answer, or NULL */
};

/* Sends a frame, with descriptor fd if it is not negative. 0, or HF_ENOAGENT (and the
 * connection is down), or HF_EINVAL: it does not fit a packet. */
int socket_send(hf_client *client, const struct hfi_frame *frame, int fd) HFI_MUST_USE;

/* Receives one frame. 1; 0: none until deadline_ns; HF_ENOAGENT, HF_EPROTO (the connection is
 * down then). */
int socket_receive(hf_client *client, int64_t deadline_ns, struct answer *answer) HFI_MUST_USE;

/* Closes the connection; what depends on it finds out by client->down. */
void socket_down(hf_client *client);

void answer_close_fds(struct answer *answer);

/* ---- client.c: the connection ---- */

/*
 * One attempt to have the connection up, if it is time for one; waits for the agent's greeting
 * until deadline_ns (0: not at all; the next attempt goes on from there). On the way it opens every
 * handle again and marks holds that did not survive. 0: it is up. HF_ENOAGENT; HF_EVERSION,
 * HF_EACCES, HF_EFULL, HF_EPROTO, HF_ENOMEM: the agent (or this process) would not have it.
 */
int client_reconnect(hf_client *client, int64_t deadline_ns) HFI_MUST_USE;

/* Attempts of client_reconnect until one succeeds or REACH_MS are over. */
int client_reach(hf_client *client) HFI_MUST_USE;

/*
 * Sends a request and waits for its answer, which must be of kind `expected` or DONE, on the
 * present connection. What DONE says is returned if DONE came. HF_ENOAGENT: it is down or broke.
 */
int client_ask(hf_client *client, struct hfi_frame *frame, enum hfi_frame_kind expected,
               struct answer *answer) HFI_MUST_USE;

/* The same, after client_reach(), and once more if the connection broke. */
int client_request(hf_client *client, struct hfi_frame *frame, enum hfi_frame_kind expected,
                   struct answer *answer) HFI_MUST_USE;

/* Takes every frame that is there without waiting for more: what comes unasked. */
void client_drain(hf_client *client);

/* ---- region_map.c ---- */

/* Takes in a REGION frame; its descriptors are taken. NULL and *error: why not. Socket mutex. */
struct region_map *region_take(hf_client *client, struct answer *answer, int *error);
struct region_map *region_by_number(hf_client *client, uint32_t number);
void regions_destroy(hf_client *client);

/* Futex calls, for words in regions (shared) and in this process (private). */
void futex_sleep_shared(_Atomic uint32_t *word, uint32_t expected, int64_t timeout_ns);
void futex_sleep_private(_Atomic uint32_t *word, uint32_t expected, int64_t timeout_ns);
void futex_wake_private(_Atomic uint32_t *word);

/* ---- lock.c ---- */

/* Frees the memory, and nothing else. */
void lock_free(hf_lock *lock);

/* Opens the handle with the agent on the present connection and publishes its place. resume: the
 * agent knows this client, and the handle, from before. Under socket_mutex. */
int lock_open(hf_lock *lock, bool resume) HFI_MUST_USE;

/* The agent has forgotten this client: the handle is nowhere, what it held is lost. Under
 * socket_mutex. */
void lock_orphan(hf_lock *lock);

/* By the owner of the claim: sees to it that the handle has a seat; shared: one that may read. */
int lock_seat(hf_lock *lock, bool shared) HFI_MUST_USE;

/* By the owner of the claim: opens the name again, unless its place is no longer `stale`. */
int lock_renew(hf_lock *lock, const struct place *stale) HFI_MUST_USE;

/* What the protocol needs to know of a handle at a place. */
static inline struct hfi_actor place_actor(const struct place *place)
{
    return (struct hfi_actor){
        .region = &place->map->region, .kernel = &place->map->kernel, .holder = place->holder};
}

static inline struct hfi_request place_request(const struct hf_lock *lock,
                                               const struct place *place)
{
    return (struct hfi_request){.slot = place->slot,
                                .seat = place->seat,
                                .limit_ns = lock->limit_ns,
                                .barging = (lock->flags & HF_BARGING) != 0};
}

/* ---- hold.c ---- */

/* What a hold is worth. */
enum hold_worth { HOLD_COUNTS, HOLD_JEOPARDY, HOLD_LOST };

/* By the owner of the claim, when the serial is `serial` + 1 or becomes it here. */
static inline void hold_put_fields(struct hold *hold, struct place *place, enum hf_mode mode,
                                   const struct hfi_held *held, uint64_t serial)
{
    /* relaxed: only the owner of the claim writes it */
    uint64_t number = atomic_load_explicit(&hold->number, memory_order_relaxed);
    atomic_store_explicit(&hold->serial, serial + 1, memory_order_relaxed);
    /* release, all of them: pair with the acquire loads in hold_read(), which then sees the odd
     * serial too */
    atomic_store_explicit(&hold->token, held->token, memory_order_release);
    atomic_store_explicit(&hold->cell, held->cell, memory_order_release);
    atomic_store_explicit(&hold->epoch, held->epoch, memory_order_release);
    atomic_store_explicit(&hold->mode, (uint32_t)mode, memory_order_release);
    atomic_store_explicit(&hold->deadline_ns, held->deadline_ns, memory_order_release);
    atomic_store_explicit(&hold->place, place, memory_order_release);
    atomic_store_explicit(&hold->number, number + 1, memory_order_release);
    /* release: pairs with the first acquire load in hold_read() */
    atomic_store_explicit(&hold->serial, serial + 2, memory_order_release);
}

/* Remembers a new hold; by the owner of the claim. */
static inline void hold_put(struct hold *hold, struct place *place, enum hf_mode mode,
                            const struct hfi_held *held)
{
    hold_put_fields(hold, place, mode, held,
                    atomic_load_explicit(&hold->serial, memory_order_relaxed));
}

/* By the owner of the claim. same_hold: the mode of the present hold changed. */
void hold_store(hf_lock *lock, struct place *place, enum hf_mode mode, const struct hfi_held *held,
                bool same_hold);

/* A consistent copy of the last hold, ended or not. Async-signal-safe. false: none, or it is
 * being written. */
bool hold_read(const struct hf_lock *lock, struct hold_view *view) HFI_MUST_USE;

/* What the hold is worth at now_ns; *remaining_ns (may be NULL) how long it counts. */
enum hold_worth hold_judge(const struct hf_lock *lock, const struct hold_view *view, int64_t now_ns,
                           int64_t *remaining_ns);

/* Both, of a hold that is nobody's to change meanwhile. false: nothing is held, or it is being
 * changed. */
bool hold_look(const struct hf_lock *lock, int64_t now_ns, struct hold_view *view,
               enum hold_worth *worth) HFI_MUST_USE;

/* When the hold ends by its own limit; INT64_MAX: never. */
int64_t hold_own_end_ns(const struct hf_lock *lock, const struct hold_view *view);

/* Says that a hold is over, for good. */
void hold_mark_lost(struct hf_lock *lock, uint64_t number);

/* Releases whatever the handle holds, all depths. Nothing else may use the handle. */
void hold_drop(hf_lock *lock);

/* ---- acquire.c ---- */

/* How long and how a call may wait for a handle. */
struct patience {
    int64_t deadline_ns;
    bool try_only;
    uint32_t cancel_seen;
};

/* Makes the claim this thread's own: 0: from FREE, the state is TAKING now; 1: from HELD, it is
 * CHANGING (reentrant handles only); else an error. */
int claim_take(hf_lock *lock, const struct patience *patience) HFI_MUST_USE;

/* Lets the claim go and says what the handle's state is now. */
void claim_give(hf_lock *lock, enum claim_state state);

/* Waits a moment for something that the agent has to do; *pace_ns grows. HF_ECANCELED. */
int agent_await(hf_lock *lock, const struct patience *patience, const struct place *place,
                int64_t *pace_ns) HFI_MUST_USE;

/* Upgrade of a reentrant handle's shared hold; the state is CHANGING. */
int upgrade(hf_lock *lock, const struct patience *patience) HFI_MUST_USE;

/* ---- events.c ---- */

/* After a wait ended with a hold. */
void events_granted(hf_lock *lock, uint64_t token);
/* The hold may end at that moment: look at it then. */
void events_arm(hf_client *client, int64_t deadline_ns);
/* Something happened to the connection or the holds: look at all of them. */
void events_look(hf_client *client);
void events_changed(hf_client *client, const char *name, size_t size);
/* A new connection: registers its socket; asks again for EVENTS and the watches. Socket mutex. */
void events_connected(hf_client *client);
int events_resume(hf_client *client) HFI_MUST_USE;
void events_forget(hf_lock *lock); /* under list_mutex */
void events_destroy(hf_client *client);

/* ---- sequencer.c ---- */

void namespaces_forget(hf_client *client); /* under list_mutex */

/* hfi_text of a string. */
static inline struct hfi_text text_of(const char *bytes, size_t size)
{
    return (struct hfi_text){.bytes = bytes, .size = (uint32_t)size};
}

#endif
