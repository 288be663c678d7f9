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
 * The claim. Whoever makes hf_lock.claims odd, under lock->mutex, owns the handle's hold, its seat
 * and its place in the queue until it makes it even again: so of many threads that share a handle
 * one at a time does slow things for it, and a word that names the handle's holder id is the
 * claimant's own. The fast path takes and frees without a claim, which would cost as much again
 * as the lock word does:
 *
 *  - A handle has a few lanes. A lane belongs to one thread for ever and is written by it alone
 *    (with one exception, below). Only a thread that has a lane takes the fast path.
 *  - A hold has a number. The handle holds while hold.number != hold.ended. Whoever freed the word
 *    (the cell) of the hold stores ended, nobody else: that swap is what decides between two
 *    threads that release. Nobody publishes a new hold before it has seen ended catch up.
 *
 * Fast take.  F (a lane's thread): reads claims (even) and the place; lane.taking = what the word
 * will name; swaps the word; reads claims again. Claimant C: makes claims odd; touches the word
 * with a swap that changes nothing (fetch_add 0); waits until every lane.taking is 0. All changes
 * of a word are read-modify-writes, so of F's swap and C's touch the later one synchronises with
 * the earlier:
 *    F's first: C sees taking, and waits until F has published its hold or undone its take.
 *    C's first: F sees claims changed, and does not publish.
 * That claims is a count and not a flag makes F notice a claim that came and went. Both mean the
 * same word, because F takes at fast_place, which changes only under a claim; a handle whose place
 * has changed since goes the slow way. For a shared take the word is the reader's cell. This needs
 * no order but acquire and release of the words; x86 has it anyway.
 *
 * Two lanes exclude each other by the word, but the agent may take it from F1 before F1 has
 * published, and F2 may take it then. F2's swap comes after F1's, so it sees F1's taking; who sees
 * another lane taking undoes its take and claims.
 *
 * In the second case C may have met the word that F installed and taken it for its own (the word
 * names the handle). One swap of lane.taking decides: F makes it UNDOING, then releases the word,
 * then clears it; C, when it is named, makes it 0, and the word is C's; if it finds UNDOING it
 * waits. Then C looks at the word once more. (This is where somebody else writes a lane.) A
 * reader's cell is never taken for one's own: F undoes it and wakes C, which may have met it.
 *
 * Fast release.  F: lane.changing = the hold's number; frees the word; ended = number;
 * changing = 0. It needs no claim: a claimant that acquires does nothing while the handle holds,
 * and one that ends or changes the hold goes by the word, too. A word that does not show the hold
 * any more is read as "lost" only by who then finds no lane changing that number, and ended still
 * behind: what F stored before it freed the word is seen by who sees it freed.
 */
#ifndef LIBCLIENT_CLIENT_H
#define LIBCLIENT_CLIENT_H

#include "holdfast/holdfast.h"
#include "proto/frame.h"
#include "proto/locktake.h"

#include <pthread.h>
#include <sys/types.h>
#include <time.h>

/* What this version writes into the reserved words of hf_hold and hf_event: a program of a later
 * version reads 0, "not known", there, whether it has set them before or not. A test defines
 * another value, as if a later version of the library had filled them in. */
#ifndef HFI_RESERVED
#define HFI_RESERVED 0
#endif

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
    struct hfi_trust trust;   /* region.trust */
    void *memory;
    size_t size;
    hf_client *client;
    atomic_bool unheard; /* a ring failed, and the connection is not made again yet */
    dev_t device;        /* of the descriptor: the same incarnation must be the same file */
    ino_t inode;
    uint64_t incarnation;
    uint32_t number;     /* the agent's, valid for .connection only */
    uint64_t connection; /* which connection gave it last */
    struct region_map *next;
    /* For lease_in_force() in hold.c: the lease under which boot_offset_ns was taken. */
    _Atomic uint64_t clock_lease;
    _Atomic int64_t boot_offset_ns; /* BOOTTIME - MONOTONIC_COARSE, plus half a ttl */
};

/* Where a handle's lock is. Immutable once published. */
struct place {
    struct region_map *map;
    uint32_t slot;
    uint32_t holder;
    uint32_t seat;     /* HFI_SEAT_NONE: none yet */
    bool shared_ready; /* the word's cells bit was set for this seat */
    struct place *older;
    struct hfi_region region; /* a copy of the map's, and what the fast path wants of it: fewer */
    struct hfi_aim aim;       /* loads on the way to the word */
};

/* How many threads of a process may take the fast path of one handle; further ones claim. */
enum { LOCK_LANES = 4 };

/* One thread's way through the fast path of a handle; see above. */
struct lock_lane {
    _Atomic uintptr_t thread;  /* whose; set once, by a claimant for itself. 0: free */
    _Atomic uint64_t taking;   /* 0, what the word names after the swap, or LANE_... */
    _Atomic uint64_t changing; /* 0, or the number of the hold that it ends */
};

#define LANE_SHARED (UINT64_C(1) << 62)  /* takes its reader's cell */
#define LANE_UNDOING (UINT64_C(1) << 63) /* releases what it took: leave it alone */

/*
 * The handle's hold, readable at any time from any thread and from a signal handler: written
 * between two changes of serial (odd: being written) by who took the lock. One cache line, but for
 * what only some holds have.
 */
struct hold {
    _Alignas(HFI_LINE) _Atomic uint64_t serial;
    _Atomic uint64_t number; /* counts holds of this handle */
    _Atomic uint64_t ended;  /* the number of the last hold that ended; number: nothing is held */
    _Atomic uint64_t lost;   /* the number of a hold that was told lost; never counts again */
    _Atomic uint64_t token;
    _Atomic int64_t deadline_ns;
    _Atomic(struct place *) place;
    _Atomic uint32_t epoch;
    _Atomic uint32_t mode;        /* enum hf_mode */
    _Atomic uint64_t cell;        /* of a shared hold */
    _Atomic int64_t lease_end_ns; /* with lease_ns: when the hold ends; else INT64_MAX */
};

/* A consistent copy of a hold. */
struct hold_view {
    struct hfi_held held;
    enum hf_mode mode;
    int64_t lease_end_ns;
    struct place *place;
    uint64_t number;
    uint64_t serial;
};

struct hf_lock {
    /* What the fast path touches: this line and the hold's. */
    const volatile uint32_t *alive;         /* 0 in a forked child */
    _Atomic uint64_t claims;                /* odd: claimed */
    _Atomic(struct place *) place;          /* NULL: nowhere, the agent does not have the handle */
    _Atomic(struct place *) fast_place;     /* .place at the end of the last claim */
    uint32_t flags;                         /* hf_lock_options.flags */
    _Atomic uint16_t lanes_used;            /* the first so many; changed under the claim */
    bool simple;                            /* no limit, not reentrant: threads may have lanes */
    struct lock_lane lanes[LOCK_LANES + 1]; /* the last is the claimant's, for .changing */
    struct hold hold;

    hf_client *client;
    _Atomic(struct place *) places; /* all there were, by .older; freed with the handle */
    int64_t lock_delay_ns;
    int64_t lease_ns;
    int64_t max_stall_ns;
    int64_t limit_ns; /* the smaller of the two; 0: none */
    uint32_t name_size;
    char name[HFI_NAME_MAX + 1];
    _Atomic(void *) data; /* the program's */

    _Atomic uint32_t cancel; /* counts hf_cancel; private futex */
    pthread_mutex_t mutex;   /* guards claimed, changes of claims, depth */
    pthread_cond_t unclaimed;
    bool claimed;
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

/* What tells a socket from that of the next agent at the same path. All 0: there is none. */
struct socket_file {
    dev_t device;
    ino_t inode;
    struct timespec changed;
};

struct hf_client {
    uint32_t *alive; /* a page that reads 0 in a forked child */
    pthread_mutex_t socket_mutex;
    pthread_mutex_t list_mutex;

    /* Under socket_mutex. */
    enum connection_state connection_state;
    int socket_fd;       /* stays the same from the first connection to the end: see socket.c */
    uint64_t connection; /* counts connections */
    uint64_t request;    /* the last request's number */
    int64_t greeted_ns;  /* when HELLO was sent */
    int64_t retry_ns;    /* no attempt to reconnect before */
    int64_t retry_gap_ns;
    struct socket_file greeted;          /* where HELLO was sent last */
    bool other_version;                  /* the answer was HF_EVERSION */
    char command[HFI_FRAME_COMMAND_MAX]; /* for people; set once */
    uint32_t command_size;
    int refused; /* HF_EFULL: an agent was there, and had no room for a connection; else 0 */
    bool path_fixed;
    char path[108];
    char why[192]; /* the last answer makes no sense, for people; empty: nothing is known */
    uint32_t id;   /* as WELCOME gave it */
    uint64_t nonce;
    int64_t grace_ns;
    int64_t ttl_ns; /* of the agent's session */
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

/* What tells the threads of this process apart. */
static inline uintptr_t thread_here(void)
{
#if defined(__x86_64__) && defined(__LP64__)
    uintptr_t self; /* the first word of a thread's control block is its own address */
    __asm__("movq %%fs:0, %0" : "=r"(self));
    return self;
#else
    return (uintptr_t)pthread_self();
#endif
}

/* ---- fork.c ---- */

/* A page whose first word is 1 here and 0 in a forked child. NULL: no memory. */
uint32_t *alive_create(void);
void alive_destroy(uint32_t *alive);

static inline bool alive_here(const volatile uint32_t *alive)
{
    return __builtin_expect(*alive != 0, 1);
}

/* Copies an option struct that begins with its size: known_size bytes here, first_size in the first
 * version. What an older program does not give is left as it is; false: not acceptable. */
bool options_copy(void *known, size_t known_size, size_t first_size,
                  const void *given) HFI_MUST_USE;

/* ---- socket.c: packets and descriptors. All under socket_mutex. ---- */

/* An answer's texts point into client->packet: they count until the mutex is let go. */
struct answer {
    struct hfi_frame frame;
    struct hfi_listed_cursor cursor;
    size_t size;            /* of the packet */
    int fd;                 /* -1: none. The receiver's to close */
    struct region_map *map; /* of the last REGION that came before the answer, or NULL */
};

/* Sends a frame. 0, or HF_ENOAGENT (and the connection is down), or HF_EINVAL: it does not fit a
 * packet. */
int socket_send(hf_client *client, const struct hfi_frame *frame) HFI_MUST_USE;

/* Receives one frame. 1; 0: none until deadline_ns; HF_ENOAGENT, HF_EPROTO (the connection is
 * down then). */
int socket_receive(hf_client *client, int64_t deadline_ns, struct answer *answer) HFI_MUST_USE;

/* Begins a connection with a socket that is connected, and says hello on it. socket is taken. 0, or
 * HF_ENOAGENT, HF_ENOMEM. */
int socket_up(hf_client *client, int socket, const struct hfi_frame *hello) HFI_MUST_USE;

/* Ends the connection; what depends on it finds out by client->down. */
void socket_down(hf_client *client);

void answer_close_fd(struct answer *answer);

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
static inline struct hfi_actor place_actor(struct place *place)
{
    return (struct hfi_actor){
        .region = &place->region, .kernel = &place->map->kernel, .holder = place->holder};
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

/* Whether the handle holds something, lost or not. */
static inline bool hold_held(const struct hold *hold)
{
    /* acquire, both: pair with the releases in hold_put_fields() and of who ends the hold */
    uint64_t ended = atomic_load_explicit(&hold->ended, memory_order_acquire);
    return atomic_load_explicit(&hold->number, memory_order_acquire) != ended;
}

/* By who took the lock, or changes the hold under the claim. */
static inline void hold_put_fields(struct hold *hold, struct place *place, enum hf_mode mode,
                                   const struct hfi_held *held, uint64_t number)
{
    /* relaxed: nobody else writes it now */
    uint64_t serial = atomic_load_explicit(&hold->serial, memory_order_relaxed);
    atomic_store_explicit(&hold->serial, serial + 1, memory_order_relaxed);
    /* release, all of them: pair with the acquire loads in hold_read(), which then sees the odd
     * serial too */
    atomic_store_explicit(&hold->token, held->token, memory_order_release);
    if (mode == HF_SHARED) {
        atomic_store_explicit(&hold->cell, held->cell, memory_order_release);
    }
    /* What is the same from hold to hold is not stored: the next swap waits for every store. */
    if (atomic_load_explicit(&hold->place, memory_order_relaxed) != place ||
        atomic_load_explicit(&hold->deadline_ns, memory_order_relaxed) != held->deadline_ns ||
        atomic_load_explicit(&hold->epoch, memory_order_relaxed) != held->epoch ||
        atomic_load_explicit(&hold->mode, memory_order_relaxed) != (uint32_t)mode) {
        atomic_store_explicit(&hold->epoch, held->epoch, memory_order_release);
        atomic_store_explicit(&hold->mode, (uint32_t)mode, memory_order_release);
        atomic_store_explicit(&hold->deadline_ns, held->deadline_ns, memory_order_release);
        atomic_store_explicit(&hold->place, place, memory_order_release);
    }
    atomic_store_explicit(&hold->number, number, memory_order_release);
    /* release: pairs with the first acquire load in hold_read() */
    atomic_store_explicit(&hold->serial, serial + 2, memory_order_release);
}

/* Remembers a new hold; nothing is held. */
static inline void hold_put(struct hold *hold, struct place *place, enum hf_mode mode,
                            const struct hfi_held *held)
{
    /* relaxed: only who took the lock writes it; see the fast take in the opening comment */
    hold_put_fields(hold, place, mode, held,
                    atomic_load_explicit(&hold->number, memory_order_relaxed) + 1);
}

static inline void hold_tell(const struct hfi_held *held, struct hf_hold *out)
{
    if (out != NULL) {
        out->token = held->token;
        out->deadline_ns = held->deadline_ns;
        /* One by one: of a memset gcc makes rep stos here, which costs a third of the pair. */
        out->reserved[0] = HFI_RESERVED;
        out->reserved[1] = HFI_RESERVED;
        out->reserved[2] = HFI_RESERVED;
        out->reserved[3] = HFI_RESERVED;
        out->reserved[4] = HFI_RESERVED;
        out->reserved[5] = HFI_RESERVED;
    }
}

/* A consistent copy of the last hold, ended or not. Async-signal-safe. false: none, or it is
 * being written. */
static inline bool hold_read(const struct hf_lock *lock, struct hold_view *view)
{
    const struct hold *hold = &lock->hold;
    /* acquire, all of them: pair with the releases in hold_put_fields() */
    view->serial = atomic_load_explicit(&hold->serial, memory_order_acquire);
    view->held.token = atomic_load_explicit(&hold->token, memory_order_acquire);
    view->held.epoch = atomic_load_explicit(&hold->epoch, memory_order_acquire);
    view->mode = (enum hf_mode)atomic_load_explicit(&hold->mode, memory_order_acquire);
    view->held.cell = view->mode == HF_SHARED
                          ? atomic_load_explicit(&hold->cell, memory_order_acquire)
                          : 0;
    view->held.deadline_ns = atomic_load_explicit(&hold->deadline_ns, memory_order_acquire);
    view->lease_end_ns = atomic_load_explicit(&hold->lease_end_ns, memory_order_acquire);
    view->place = atomic_load_explicit(&hold->place, memory_order_acquire);
    view->number = atomic_load_explicit(&hold->number, memory_order_acquire);
    /* relaxed: after the acquire loads above; a new value among them brings the odd serial */
    uint64_t after = atomic_load_explicit(&hold->serial, memory_order_relaxed);
    return view->serial == after && (after & 1) == 0 && view->place != NULL;
}

/* Whether a hold was told lost. */
static inline bool hold_marked_lost(const struct hf_lock *lock, uint64_t number)
{
    /* acquire: pairs with the release in hold_mark_lost() */
    return atomic_load_explicit(&lock->hold.lost, memory_order_acquire) == number;
}

/* Reads the exact clock, and remembers how far the coarse one is from it under this lease. */
bool lease_ahead(struct region_map *map, uint64_t lease, int64_t coarse_ns) HFI_MUST_USE;

/* Whether the lease of a hold's epoch is in force; cheap while more than half of a ttl is left,
 * which is always so where the agent renews it in time. hold.c says what is certain. */
static inline bool lease_in_force(const struct place *place, uint32_t epoch)
{
    struct region_map *map = place->map;
    /* seq_cst: before the word is looked at by the release that follows */
    uint64_t lease = atomic_load(&place->region.header->lease);
    if (hfi_lease_epoch(lease) != epoch) {
        return false;
    }
    struct timespec coarse;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &coarse);
    int64_t coarse_ns = (int64_t)coarse.tv_sec * NS_PER_S + coarse.tv_nsec;
    /* acquire: pairs with the release in lease_ahead(); the offset is as new as this lease */
    if (atomic_load_explicit(&map->clock_lease, memory_order_acquire) == lease) {
        int64_t offset_ns = atomic_load_explicit(&map->boot_offset_ns, memory_order_relaxed);
        if (coarse_ns + offset_ns < hfi_lease_deadline_ns(lease)) {
            return true;
        }
    }
    return lease_ahead(map, lease, coarse_ns);
}

/* By the owner of the claim. same_hold: the mode of the present hold changed. */
void hold_store(hf_lock *lock, struct place *place, enum hf_mode mode, const struct hfi_held *held,
                bool same_hold);

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

/* The release of hold `number` (0: the present one) by way of the claim. */
int release_slow(hf_lock *lock, uint64_t number) HFI_MUST_USE;

/* ---- acquire.c ---- */

/* How long and how a call may wait for a handle. */
struct patience {
    int64_t deadline_ns;
    bool try_only;
    uint32_t cancel_seen;
};

/* Makes the claim this thread's own: 0: nothing is held; 1: something is (reentrant handles only);
 * else an error, and it is not. */
int claim_take(hf_lock *lock, const struct patience *patience) HFI_MUST_USE;

/* The same to end or change the present hold, whatever it takes. HF_ENOTHELD. */
int claim_hold(hf_lock *lock) HFI_MUST_USE;

/* By who has lock->mutex and finds the handle not claimed: begins a claim, ends it. */
void claim_begin(hf_lock *lock);
void claim_end(hf_lock *lock);

/* claim_end() by who does not have the mutex. */
void claim_give(hf_lock *lock);

/* Gives way to a thread that is in the middle of a few instructions; *turns counts, from 0. */
void give_way(unsigned *turns);

/* hf_acquire() when the fast path did not do. */
int acquire_slow(hf_lock *lock, enum hf_mode mode, int64_t timeout_ns,
                 struct hf_hold *out) HFI_MUST_USE;

/* Wakes whoever of this process waits at that place, for nothing. */
void place_nudge(const struct place *place);

/* Waits a moment for something that the agent has to do; *pace_ns grows. HF_ECANCELED. */
int agent_await(hf_lock *lock, const struct patience *patience, const struct place *place,
                int64_t *pace_ns) HFI_MUST_USE;

/* Upgrade of a reentrant handle's shared hold, by the owner of the claim. */
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
/* Before it ends: what watches it is to forget it. Socket mutex. */
void events_disconnected(hf_client *client);
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
