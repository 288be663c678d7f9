/*
 * What the files of libholdfast share: the client with its connection, its regions and its handles.
 *
 * How it works. A client has one socket to the agent and a mapping of every region that the agent
 * gave it. A handle (hf_lock) has a binding: the region and the slot of its lock, and the handle's
 * holder id in that region. A binding never changes. If the handle gets a seat, or if the agent
 * comes back with another region, the handle's atomic pointer is set to a new binding. Old bindings
 * live until the handle is closed, so that a thread in the fast path never reads freed memory. For
 * the same reason regions stay mapped until hf_disconnect().
 *
 * Locking. There are four kinds of mutex. A thread locks them in this order only, and holds none
 * while it sleeps on a futex:
 *   client->start_mutex   the pending calls of hf_acquire_start()
 *   lock->mutex           the claim of this handle (below); never held during a wait for the lock
 *   client->socket_mutex  the connection: one request and its answer
 *   client->list_mutex    handles, events, watches, regions; held for moments only
 * A thread that changes the list of handles, regions or watches holds both mutexes of the client. A
 * thread that reads a list holds one of them.
 *
 * The claim. The thread that makes hf_lock.claims odd, under lock->mutex, owns the handle's hold,
 * its seat and its position in the queue until it makes claims even again. So only one thread at a
 * time uses the slow path of a handle, and a word that names the handle's holder id is that
 * claimant's own. The fast path takes and frees the word without a claim, because a claim would
 * double the cost. It works like this:
 *
 *  - A handle has a few lanes. A lane belongs to one thread for ever. Only that thread writes it
 *    (with one exception, below). Only a thread that has a lane takes the fast path.
 *  - A hold has a number. The handle holds while hold.number != hold.ended. Only the thread whose
 *    swap freed the word (or the cell) of the hold stores ended. So if two threads release the
 *    hold, the swap decides between them. A thread publishes a new hold only after it has seen
 *    ended equal to number.
 *
 * Fast take. F (a lane's thread): reads claims (even) and the binding; lane.taking = what the word
 * will name; swaps the word; reads claims again. Claimant C: makes claims odd; touches the word
 * with a swap that changes nothing (fetch_add 0); waits until every lane.taking is 0. All changes
 * of a word are read-modify-writes. So whichever of F's swap and C's touch is later synchronises
 * with the earlier one:
 *    F's first: C sees taking, and waits until F has published its hold or undone its take.
 *    C's first: F sees claims changed, and does not publish.
 * Because claims is a count, not a flag, F also notices a claim that began and ended meanwhile. F
 * and C use the same word, because F uses fast_binding, which changes only under a claim. If the
 * handle's binding differs from fast_binding, F uses the slow path. In a shared take, F swaps the
 * reader's cell instead of the word. The argument needs only acquire and release on the words,
 * which cost nothing more on x86.
 *
 * The word also excludes two lanes, F1 and F2, from each other. But the agent may take the word
 * from F1 before F1 has published its hold, and then F2 may take it. F2's swap comes after F1's, so
 * F2 sees F1's taking. A thread that sees that another lane's taking is not 0 undoes its own take,
 * and takes the slow path.
 *
 * If C's touch was first, F swaps the word and must undo that take. Meanwhile C may find that the
 * word names the handle, and conclude that C itself has the lock. One swap of lane.taking decides
 * which of F and C has the word. F swaps taking to UNDOING, then releases the word, then clears
 * taking. C swaps taking to 0 if the word names its handle, and then has the word. If C finds
 * UNDOING, it waits until F clears taking, and then reads the word once more. (This is the
 * exception: C writes a lane that is not its own.) With a reader's cell this cannot happen: F frees
 * the cell that it took and wakes C, which may be waiting for that cell.
 *
 * Fast release. F: lane.changing = the hold's number; frees the word; ended = number; changing = 0.
 * A release needs no claim. A claimant that acquires does nothing while the handle holds, and a
 * claimant that ends or changes the hold must swap the word, too. A thread that finds a word
 * without the hold reports a loss only if no lane is changing the hold of that number and ended
 * differs from the number. This is safe, because a thread that sees the word freed also sees what F
 * stored before its swap.
 */
#ifndef LIBCLIENT_CLIENT_H
#define LIBCLIENT_CLIENT_H

#include "holdfast/admin.h"
#include "proto/frame.h"
#include "proto/locktake.h"

#include <pthread.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

/* The value that this version writes into the reserved words of hf_hold and hf_event. A program
 * built for a later version reads 0 there, which means "not known", whatever the words contained
 * before the call. A test builds the library with another value, to act as a later version. */
#ifndef HFI_RESERVED
#define HFI_RESERVED 0
#endif

#define HFI_PUBLIC __attribute__((visibility("default")))
#define HFI_MUST_USE __attribute__((warn_unused_result))

enum {
    CHANGED_RING = 1024, /* changed names kept for hf_next_event */
    ANSWER_MS = 5000,    /* an agent that answers later than this counts as absent */
    REFUSAL_MS = 100,    /* within this time a refusing agent reports the reason */
    REACH_MS = 1000,     /* how long a call without a time-out tries to reach the agent */
    TRY_MS = 1000,       /* how long a try waits for the agent's grant */
};

#define NS_PER_MS INT64_C(1000000)
#define NS_PER_S INT64_C(1000000000)

/* A region as this client maps it. It stays mapped until hf_disconnect(). */
struct region_map {
    struct hfi_region region;
    struct hfi_kernel kernel; /* kernel.arg is this region_map */
    struct hfi_trust trust;   /* region.trust points to this member */
    void *memory;
    size_t size;
    hf_client *client;
    atomic_bool ring_failed; /* a ring failed, and the client has not reconnected since */
    /* identify the descriptor's file: an incarnation must always come with the same file */
    dev_t device;
    ino_t inode;
    uint64_t incarnation;
    uint32_t number;     /* the agent's number for this region on the connection below */
    uint64_t connection; /* the connection on which the agent last sent the number */
    struct region_map *next;
    /* For lease_in_force(): the lease for which boot_offset_ns was measured. */
    _Atomic uint64_t clock_lease;
    _Atomic int64_t boot_offset_ns; /* BOOTTIME - MONOTONIC_COARSE, plus half a ttl */
};

/* Where a handle's lock is: region, slot, holder id and seat. A published binding never
 * changes. */
struct binding {
    struct region_map *map;
    uint32_t slot;
    uint32_t holder;
    uint32_t seat;     /* HFI_SEAT_NONE: none yet */
    bool shared_ready; /* the word's cells bit is set for this seat */
    struct binding *older;
    struct hfi_region region; /* a copy of map->region, which saves the fast path a load */
    struct hfi_aim aim;       /* the addresses that the fast path uses, computed in advance */
    const _Atomic uint64_t
        *wait; /* the seat's wait cell, its place in the queue; without a seat a private word that
                * is 0 */
};

/* The number of lanes of a handle. A thread without a lane uses the slow path. */
enum { LOCK_LANES = 4 };

/* One thread's state in the fast path of a handle: see "The claim" at the top of this file. */
struct lock_lane {
    _Atomic uintptr_t thread;  /* the owner, by thread_here(); set once, under the claim; 0: none */
    _Atomic uint64_t taking;   /* 0, or the holder and token that the word gets, or LANE_... */
    _Atomic uint64_t changing; /* 0, or the number of the hold that the thread ends or changes */
};

/* the take is shared: it swaps the reader's cell, not the word */
#define LANE_SHARED (UINT64_C(1) << 62)
#define LANE_UNDOING (UINT64_C(1) << 63) /* the thread undoes its take; a claimant waits */

/*
 * The handle's hold. Any thread may read it at any time, and so may a signal handler. The thread
 * that took the lock, or the claimant that changes the hold, writes it. While serial is odd, the
 * fields other than ended, lost and lease_end_ns are being written. The fields that every hold uses
 * lie in one cache line.
 */
struct hold {
    _Alignas(HFI_LINE) _Atomic uint64_t serial;
    _Atomic uint64_t number; /* the number of the handle's latest hold */
    /* the number of the last hold that ended; equal to number: nothing is held */
    _Atomic uint64_t ended;
    /* the number of a hold that was reported lost, which never counts again */
    _Atomic uint64_t lost;
    _Atomic uint64_t token;
    _Atomic int64_t deadline_ns;
    _Atomic(struct binding *) binding;
    _Atomic uint32_t epoch;
    _Atomic uint32_t mode;        /* enum hf_mode */
    _Atomic uint64_t cell;        /* the reader's cell of a shared hold */
    _Atomic int64_t lease_end_ns; /* when the hold ends, if lease_ns is set; else INT64_MAX */
};

/* A consistent copy of a hold. */
struct hold_view {
    struct hfi_held held;
    enum hf_mode mode;
    int64_t lease_end_ns;
    struct binding *binding;
    uint64_t number;
    uint64_t serial;
};

/* Why a hold ended: ended.c. */
struct hold_end {
    uint64_t number; /* the number of the hold; 0: no end is known */
    enum hf_reason_kind kind;
    int64_t at_ns; /* CLOCK_BOOTTIME; -1: not known */
    /* of HF_WHY_BROKEN: the user who broke the hold, on the host of `agent`; -1: not known */
    int64_t uid;
    char agent[HFI_LABEL_MAX + 1];
};

/* The limits of one acquire's wait. */
struct wait_limit {
    int64_t deadline_ns;
    bool try_only;
    bool polled; /* no thread sleeps for this wait: see start.c */
    uint32_t cancel_seen;
};

/* The state of one take. Its thread owns the claim. */
struct take {
    struct hf_lock *lock;
    enum hf_mode mode;
    const struct wait_limit *limit; /* the time-out; that of a try is TRY_MS */
    struct binding *binding;        /* the present binding */
    struct binding *lost;           /* a binding with which this take must not wait any more; NULL:
                                     * none */
    uint64_t ticket;                /* the position in the queue of binding->slot; 0: none */
    uint64_t rung;                  /* for hfi_wait_limit.rung of a polled take */
    int64_t pace_ns;
    bool waited;
    bool lapsed; /* the lease was over in the last step of this take */
    struct hfi_held held;
};

/* The hf_acquire_start() of a handle: start.c. Protected by start_mutex. */
struct acquire_start {
    bool pending;
    struct hf_lock *next; /* the next handle with a pending start */
    struct take take;
    struct wait_limit limit;
};

struct hf_lock {
    /* Of the handle, the fast path uses only this cache line, the lanes and the hold. */
    const volatile uint32_t *alive;         /* *alive is 0 in a forked child */
    _Atomic uint64_t claims;                /* odd: claimed */
    _Atomic(struct binding *) binding;      /* NULL: the agent does not have the handle */
    _Atomic(struct binding *) fast_binding; /* the binding when the last claim ended */
    uint32_t flags;                         /* hf_lock_options.flags */
    _Atomic uint16_t lanes_used;            /* lanes that have an owner; changed under the claim */
    bool simple; /* the handle has no limit and is not reentrant: lanes are allowed */
    /* The last lane belongs to the thread that has the claim. Only its field `changing` is used. */
    struct lock_lane lanes[LOCK_LANES + 1];
    struct hold hold;

    hf_client *client;
    _Atomic(struct binding *)
        bindings; /* every binding so far, linked by older; freed with the handle */
    int64_t lock_delay_ns;
    int64_t lease_ns;
    int64_t max_stall_ns;
    int64_t limit_ns; /* the smaller of lease_ns and max_stall_ns; 0: none */
    uint32_t name_size;
    char name[HFI_NAME_MAX + 1];
    _Atomic(void *) data; /* for the program */

    _Atomic uint32_t cancel; /* how often hf_cancel() was called; a private futex */
    pthread_mutex_t mutex;   /* protects claimed, started, changes of claims, and depth */
    pthread_cond_t unclaimed;
    bool claimed;
    bool started; /* a pending hf_acquire_start() has the claim */
    struct acquire_start start;
    uint32_t depth;

    /* Protected by socket_mutex: */
    uint32_t handle; /* the agent's number for this handle on the connection below */
    uint64_t connection;
    uint32_t note_size; /* 0: no note */
    char note[HFI_FRAME_NOTE_MAX];
    struct hf_lock *next;
    struct hf_lock *previous;

    /* Protected by list_mutex. `reported`: which events of hold reported_number were reported. */
    uint64_t reported_number;
    uint32_t reported; /* REPORTED_... bits (events.c) */
    bool granted;      /* HF_EVENT_GRANTED is queued */
    uint64_t granted_token;
    uint64_t granted_number; /* the hold that HF_EVENT_GRANTED is about */
    int failed;              /* the error of a queued HF_EVENT_FAILED; 0: none is queued */
    int64_t start_due_ns;    /* when a pending start must be looked at; 0: none is pending */
    struct hold_end end;     /* why the last hold that was reported lost ended */
    /* the last acquire failed because this host did not get the lock's grant in time */
    atomic_bool ungranted;
};

struct watched_prefix {
    struct watched_prefix *next;
    uint32_t size;
    char prefix[HFI_NAME_MAX + 1];
};

/* A known answer of the agent: the region of all names that have `prefix` before their first
 * '/'. */
struct namespace_entry {
    struct namespace_entry *next;
    struct region_map *map;
    uint32_t size;
    char prefix[HFI_NAME_MAX + 1];
};

enum connection_state { CONNECTION_DOWN = 0, CONNECTION_GREETING, CONNECTION_UP };

/* Changed names under watched prefixes, the oldest first. */
struct changed_ring {
    char (*names)[HFI_NAME_MAX + 1]; /* CHANGED_RING entries, allocated by the first hf_watch() */
    uint32_t first;
    uint32_t count;
};

struct events {
    bool enabled;
    int epoll_fd;
    /* CLOCK_BOOTTIME, absolute: fires when a hold may end, or when an attempt to reconnect is
     * due */
    int timer_fd;
    int wake_fd; /* an eventfd, readable while an event is queued or `look` is set */
    int64_t armed_ns;
    bool look;             /* the holds must be looked at */
    uint32_t queued_count; /* queued HF_EVENT_GRANTED and HF_EVENT_FAILED */
    uint32_t start_count;  /* handles with a pending start */
    bool starts_due;       /* the pending starts must be looked at */
    struct changed_ring changed;
};

/* The identity of a socket file. It shows whether there is a new agent, because each agent
 * makes a new file at the path. All 0: there is no file. */
struct socket_identity {
    dev_t device;
    ino_t inode;
    struct timespec changed;
};

enum { FULL_TEXT_MAX = 448 }; /* the size of the text about a full table, with its final zero */

/* Why the last attempt to connect, or the last connection, failed. error 0: no failure is known. */
struct trouble {
    int error;
    char text[FULL_TEXT_MAX + 64];
};

struct hf_client {
    uint32_t *alive; /* a page that reads 0 in a forked child */
    pid_t pid;       /* the process that made this client */
    int64_t made_ns; /* when: CLOCK_BOOTTIME */
    pthread_mutex_t start_mutex;
    pthread_mutex_t socket_mutex;
    pthread_mutex_t list_mutex;

    struct hf_lock *starts; /* handles with a pending start; protected by start_mutex */

    /* Protected by socket_mutex: */
    enum connection_state connection_state;
    int socket_fd;       /* keeps its number in all connections: see socket.c */
    uint64_t connection; /* the number of the present connection */
    uint64_t request;    /* the number of the last request */
    int64_t greeted_ns;  /* when HELLO was sent */
    int64_t retry_ns;    /* no attempt to reconnect before this time */
    int64_t retry_gap_ns;
    struct socket_identity greeted;      /* the identity of the socket that the last HELLO was sent
                                          * to */
    struct socket_identity noteless;     /* the identity of the socket of an agent that hung up
                                          * when it got a NOTE; it gets no more of them */
    bool other_version;                  /* the last agent answered HF_EVERSION */
    char command[HFI_FRAME_COMMAND_MAX]; /* this process's command line for HELLO; set once */
    uint32_t command_size;
    int refused; /* HF_EFULL: an agent had no room for this connection; else 0 */
    char refusal[FULL_TEXT_MAX + 64]; /* with HF_EFULL: the agent's reason */
    /* the last packet had a descriptor, but this process already has as many as it may have */
    bool no_descriptor;
    bool path_fixed;
    char path[108];
    uint32_t id; /* from WELCOME */
    uint64_t nonce;
    int64_t grace_ns;
    int64_t ttl_ns; /* the ttl of the agent's session */
    unsigned char packet[HFI_FRAME_MAX];
    unsigned char outgoing[HFI_FRAME_MAX];

    /* Set once by the first WELCOME. */
    char cell[HFI_LABEL_MAX + 1];
    char agent[HFI_LABEL_MAX + 1];

    _Atomic bool down; /* the connection is not up; readable without a mutex */

    /* A thread that changes one of these lists holds both mutexes; a thread that reads one holds
     * either. */
    struct hf_lock *locks;
    struct region_map *maps;
    struct watched_prefix *watches;

    /* Protected by list_mutex: */
    struct namespace_entry *namespaces;
    struct events events;
    struct trouble trouble;
    _Atomic uint64_t events_connection; /* the connection that events.c last saw */
};

/* CLOCK_BOOTTIME in ns, read through the vDSO. */
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

/* Returns the deadline for a timeout of the public API. A negative timeout means for ever. */
static inline int64_t deadline_after(int64_t timeout_ns)
{
    return timeout_ns < 0 ? INT64_MAX : add_saturated(boottime_ns(), timeout_ns);
}

/* Returns a number that no other living thread of this process has. */
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

/* Maps a page whose first word is 1 in this process and 0 in a forked child. Returns NULL if there
 * is no memory. */
uint32_t *alive_create(void);
void alive_destroy(uint32_t *alive);

static inline bool alive_here(const volatile uint32_t *alive)
{
    return __builtin_expect(*alive != 0, 1);
}

/* Copies the option struct `given`, which begins with its size, to `known`. known_size is the
 * struct's size in this version of the library, first_size its size in the first version. Members
 * that an older program does not have keep their values in `known`. Returns false if `given` is
 * smaller than first_size, or sets a member that this version does not know. */
bool options_copy(void *known, size_t known_size, size_t first_size,
                  const void *given) HFI_MUST_USE;

/* ---- failure.c: hf_error_text(). Each function failure...() writes the text of this thread's
 * last failure, and returns the failure's code. No caller holds list_mutex. ---- */

int failure(const hf_client *client, int error, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
int failure_null(const hf_client *client, const char *argument);
int failure_forked(const hf_client *client);
/* `what` names the text that should be a lock's name, or the beginning of one. */
int failure_name(const hf_client *client, int error, const char *what, const char *name);
/* Writes the text for an options struct that options_copy() refused. */
int failure_options(const hf_client *client, const char *type, const void *given,
                    size_t first_size);
/* Writes the text for a client that has no connection. */
int failure_reach(hf_client *client, int error);
/* To be called after a failure of a client that is then freed: the text stays, without a client. */
void failure_forget_client(void);
/* Writes the text for a request to the agent to do `action` with `object`. */
int failure_ask(hf_client *client, int error, const char *action, const char *object);
/* Keep and forget which table the agent has called full, for this thread. full_text() makes a text
 * of it; it returns false if the agent has not said which. */
void full_note(const struct hfi_full *full);
void full_forget(void);
bool full_text(char *out, size_t size);
int failure_mode(const hf_lock *lock, enum hf_mode mode);
int failure_acquire(hf_lock *lock, int error, int64_t timeout_ns);
/* Writes the text for a handle with a pending start. */
int failure_started(const hf_lock *lock);
/* Write the texts for a hold that does not count, and for a handle without a hold. */
int failure_lost(hf_lock *lock);
int failure_unheld(hf_lock *lock);

/* trouble_set() keeps the cause of a failed connection. trouble_clear() forgets it, when a
 * connection is up. trouble_read() copies it, if it is the cause of that error. */
void trouble_set(hf_client *client, int error, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void trouble_clear(hf_client *client);
/* To be called where an allocation fails. Returns HF_ENOMEM. Forgets the cause of an earlier
 * HF_ENOMEM, such as a process without descriptors, which would be taken for the cause of this
 * one. */
int trouble_no_memory(hf_client *client);
bool trouble_read(hf_client *client, int error, char *out, size_t size) HFI_MUST_USE;

/* ---- socket.c: packets and descriptors. All under socket_mutex. ---- */

/* An answer. Its texts point into client->packet, and are valid until socket_mutex is unlocked. */
struct answer {
    struct hfi_frame frame;
    struct hfi_listed_cursor cursor;
    size_t size;            /* of the packet */
    int fd;                 /* -1: none; the receiver closes it */
    struct region_map *map; /* the last REGION before the answer, or NULL */
};

/* Sends a frame. Returns 0, HF_ENOAGENT (after which the connection is down), or HF_EINVAL if the
 * frame does not fit a packet. */
int socket_send(hf_client *client, const struct hfi_frame *frame) HFI_MUST_USE;

/* Receives one frame. Returns 1 for a frame, 0 if no frame came until deadline_ns, or HF_ENOAGENT
 * or HF_EPROTO. After these two errors the connection is down. */
int socket_receive(hf_client *client, int64_t deadline_ns, struct answer *answer) HFI_MUST_USE;

/* Begins a connection on a connected socket, which it takes over, and sends HELLO. Returns 0,
 * HF_ENOAGENT or HF_ENOMEM. */
int socket_up(hf_client *client, int socket, const struct hfi_frame *hello) HFI_MUST_USE;

/* Ends the connection. Other threads notice that by client->down. */
void socket_down(hf_client *client);

void answer_close_fd(struct answer *answer);

/* ---- client.c: the connection ---- */

/*
 * Makes one attempt to connect, if one is due, and waits for the agent's greeting until deadline_ns
 * (0: it does not wait, and the next attempt goes on with the same greeting). A new connection
 * opens every handle again, and marks holds that did not survive. Returns 0 if the connection is
 * up; HF_ENOAGENT if no agent answers; HF_EVERSION, HF_EACCES, HF_EFULL, HF_EPROTO or HF_ENOMEM if
 * the agent refuses or this process fails.
 */
int client_reconnect(hf_client *client, int64_t deadline_ns) HFI_MUST_USE;

/* Returns whether both are the identity of the same socket file. */
bool client_same_socket(const struct socket_identity *one, const struct socket_identity *other);

/* Repeats client_reconnect() until it succeeds, or for REACH_MS. */
int client_reach(hf_client *client) HFI_MUST_USE;

/*
 * Sends a request on the present connection and waits for its answer, which must be of kind
 * `expected` or DONE. Returns 0, the error of DONE, or HF_ENOAGENT if the connection is down or
 * breaks.
 */
int client_ask(hf_client *client, struct hfi_frame *frame, enum hfi_frame_kind expected,
               struct answer *answer) HFI_MUST_USE;

/* Calls client_reach() and client_ask(). If the connection breaks, calls both once more. */
int client_request(hf_client *client, struct hfi_frame *frame, enum hfi_frame_kind expected,
                   struct answer *answer) HFI_MUST_USE;

/* Handles the frames that have arrived and answer no request. Does not wait. */
void client_drain(hf_client *client);

/* ---- region_map.c ---- */

/* Maps the region of a REGION frame, and takes ownership of the frame's descriptor. On failure
 * returns NULL and sets *error. The caller holds socket_mutex. */
struct region_map *region_take(hf_client *client, struct answer *answer, int *error);
struct region_map *region_by_number(hf_client *client, uint32_t number);
void regions_destroy(hf_client *client);

/* Futex calls. The shared ones are for words in regions, the private ones for words of this
 * process. */
void futex_sleep_shared(_Atomic uint32_t *word, uint32_t expected, int64_t timeout_ns);
void futex_sleep_private(_Atomic uint32_t *word, uint32_t expected, int64_t timeout_ns);
void futex_wake_private(_Atomic uint32_t *word);

/* ---- lock.c ---- */

/* Frees the memory of the handle, and does nothing else. */
void lock_free(hf_lock *lock);

/* Opens the handle with the agent on the present connection, and publishes its binding. resume: the
 * agent still knows this client and the handle from an earlier connection. The caller holds
 * socket_mutex. */
int lock_open(hf_lock *lock, bool resume) HFI_MUST_USE;

/* To be called if the agent has forgotten this client. Ends the handle's hold as lost, and removes
 * its binding. The caller holds socket_mutex. */
void lock_orphan(hf_lock *lock);

/* Makes sure that the handle has a seat. shared: the cell of the seat must be usable, too. The
 * caller owns the claim. */
int lock_seat(hf_lock *lock, bool shared) HFI_MUST_USE;

/* Opens the name again if the handle's binding is still `stale`. The caller owns the claim. */
int lock_renew(hf_lock *lock, const struct binding *stale) HFI_MUST_USE;

/* The actor for the lock word's protocol: a handle with its binding. */
static inline struct hfi_actor binding_actor(struct binding *binding)
{
    return (struct hfi_actor){
        .region = &binding->region, .kernel = &binding->map->kernel, .holder = binding->holder};
}

static inline struct hfi_request binding_request(const struct hf_lock *lock,
                                                 const struct binding *binding)
{
    return (struct hfi_request){.slot = binding->slot,
                                .seat = binding->seat,
                                .limit_ns = lock->limit_ns,
                                .barging = (lock->flags & HF_BARGING) != 0};
}

/* ---- hold.c ---- */

/* Whether a hold counts: HOLD_COUNTS now, HOLD_JEOPARDY not now but perhaps again, HOLD_LOST never
 * again. */
enum hold_worth { HOLD_COUNTS, HOLD_JEOPARDY, HOLD_LOST };

/* Returns whether the handle has a hold, lost or not. */
static inline bool hold_held(const struct hold *hold)
{
    /* acquire, both: pair with the release stores of number in hold_put_fields() and of ended in
     * fast.c and hold.c */
    uint64_t ended = atomic_load_explicit(&hold->ended, memory_order_acquire);
    return atomic_load_explicit(&hold->number, memory_order_acquire) != ended;
}

/* Returns whether the handle has the hold with that number, lost or not. */
static inline bool hold_has(const struct hold *hold, uint64_t number)
{
    /* acquire, both: as in hold_held() */
    return atomic_load_explicit(&hold->ended, memory_order_acquire) != number &&
           atomic_load_explicit(&hold->number, memory_order_acquire) == number;
}

/* Publishes the hold's fields in one change of serial. To be called by the thread that took the
 * lock, or by the thread that changes the hold under the claim. */
static inline void hold_put_fields(struct hold *hold, struct binding *binding, enum hf_mode mode,
                                   const struct hfi_held *held, uint64_t number)
{
    /* relaxed: no other thread writes serial now */
    uint64_t serial = atomic_load_explicit(&hold->serial, memory_order_relaxed);
    atomic_store_explicit(&hold->serial, serial + 1, memory_order_relaxed);
    /* release, all of them: pair with the acquire loads in hold_read(). A thread that reads one of
     * these values also sees the odd serial. */
    atomic_store_explicit(&hold->token, held->token, memory_order_release);
    if (mode == HF_SHARED) {
        atomic_store_explicit(&hold->cell, held->cell, memory_order_release);
    }
    /* Unchanged fields are not stored, because the next swap waits for every store. */
    if (atomic_load_explicit(&hold->binding, memory_order_relaxed) != binding ||
        atomic_load_explicit(&hold->deadline_ns, memory_order_relaxed) != held->deadline_ns ||
        atomic_load_explicit(&hold->epoch, memory_order_relaxed) != held->epoch ||
        atomic_load_explicit(&hold->mode, memory_order_relaxed) != (uint32_t)mode) {
        atomic_store_explicit(&hold->epoch, held->epoch, memory_order_release);
        atomic_store_explicit(&hold->mode, (uint32_t)mode, memory_order_release);
        atomic_store_explicit(&hold->deadline_ns, held->deadline_ns, memory_order_release);
        atomic_store_explicit(&hold->binding, binding, memory_order_release);
    }
    atomic_store_explicit(&hold->number, number, memory_order_release);
    /* release: pairs with the first acquire load in hold_read() */
    atomic_store_explicit(&hold->serial, serial + 2, memory_order_release);
}

/* Publishes a new hold. The handle must not have one. */
static inline void hold_put(struct hold *hold, struct binding *binding, enum hf_mode mode,
                            const struct hfi_held *held)
{
    /* relaxed: only the thread that took the lock writes this field; see the fast take in the
     * opening comment */
    hold_put_fields(hold, binding, mode, held,
                    atomic_load_explicit(&hold->number, memory_order_relaxed) + 1);
}

static inline void hold_report(const struct hfi_held *held, struct hf_hold *out)
{
    if (out != NULL) {
        out->token = held->token;
        out->deadline_ns = held->deadline_ns;
        /* Clears the words one by one: gcc turns a memset into `rep stos` here, which takes a third
         * of the time of an acquire and release. */
        out->reserved[0] = HFI_RESERVED;
        out->reserved[1] = HFI_RESERVED;
        out->reserved[2] = HFI_RESERVED;
        out->reserved[3] = HFI_RESERVED;
        out->reserved[4] = HFI_RESERVED;
        out->reserved[5] = HFI_RESERVED;
    }
}

/* Makes a consistent copy of the handle's last hold, whether it has ended or not.
 * Async-signal-safe. Returns false if the handle never had a hold, or if a thread is writing
 * one. */
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
    view->binding = atomic_load_explicit(&hold->binding, memory_order_acquire);
    view->number = atomic_load_explicit(&hold->number, memory_order_acquire);
    /* relaxed: the acquire loads above keep this load behind them. If one of them read a newer
     * value, this serial is odd or differs from view->serial. */
    uint64_t after = atomic_load_explicit(&hold->serial, memory_order_relaxed);
    return view->serial == after && (after & 1) == 0 && view->binding != NULL;
}

/* Returns whether the hold was reported lost. */
static inline bool hold_marked_lost(const struct hf_lock *lock, uint64_t number)
{
    /* acquire: pairs with the release in hold_mark_lost() */
    return atomic_load_explicit(&lock->hold.lost, memory_order_acquire) == number;
}

/* Returns whether the lease is in force by the exact clock. Stores the offset between the exact and
 * the coarse clock for this lease. */
bool lease_ahead(struct region_map *map, uint64_t lease, int64_t coarse_ns) HFI_MUST_USE;

/* Returns whether the lease of a hold's epoch is in force. The test by the coarse clock suffices
 * while more than half of a ttl is left, which is always the case if the agent renews in time. The
 * comment at the top of hold.c says how certain the answer is. */
static inline bool lease_in_force(const struct binding *binding, uint32_t epoch)
{
    struct region_map *map = binding->map;
    /* seq_cst: a release reads the lease before it reads the word */
    uint64_t lease = atomic_load(&binding->region.header->lease);
    if (hfi_lease_epoch(lease) != epoch) {
        return false;
    }
    struct timespec coarse;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &coarse);
    int64_t coarse_ns = (int64_t)coarse.tv_sec * NS_PER_S + coarse.tv_nsec;
    /* acquire: pairs with the release in lease_ahead(), so that boot_offset_ns belongs to this
     * lease */
    if (atomic_load_explicit(&map->clock_lease, memory_order_acquire) == lease) {
        int64_t offset_ns = atomic_load_explicit(&map->boot_offset_ns, memory_order_relaxed);
        if (coarse_ns + offset_ns < hfi_lease_deadline_ns(lease)) {
            return true;
        }
    }
    return lease_ahead(map, lease, coarse_ns);
}

/* Stores a hold. The caller owns the claim. same_hold: the present hold only changed its mode. */
void hold_store(hf_lock *lock, struct binding *binding, enum hf_mode mode,
                const struct hfi_held *held, bool same_hold);

/* Returns whether the hold counts at now_ns. *remaining_ns (which may be NULL): for how long it
 * still counts. */
enum hold_worth hold_judge(const struct hf_lock *lock, const struct hold_view *view, int64_t now_ns,
                           int64_t *remaining_ns);

/* Reads the hold, and whether it counts. Returns false if the handle does not hold, or if a thread
 * is ending or changing the hold. */
bool hold_look(const struct hf_lock *lock, int64_t now_ns, struct hold_view *view,
               enum hold_worth *worth) HFI_MUST_USE;

/* Returns when the hold's own limit (lease_ns, max_stall_ns) ends it; INT64_MAX if it has no
 * limit. */
int64_t hold_own_end_ns(const struct hf_lock *lock, const struct hold_view *view);

/* Marks a hold as lost, so that it never counts again. */
void hold_mark_lost(struct hf_lock *lock, uint64_t number);

/* Releases the handle's hold at once, even if it was acquired several times. No other thread may
 * use the handle. */
void hold_drop(hf_lock *lock);

/* Takes the claim and releases hold `number` (0: the present hold). release_unsaid() writes no text
 * for hf_error_text(). */
int release_slow(hf_lock *lock, uint64_t number) HFI_MUST_USE;
int release_unsaid(hf_lock *lock, uint64_t number) HFI_MUST_USE;

/* ---- ended.c ---- */

/* ended_keep() and ended_note() are to be called when a loss is reported. They find out why the
 * hold ended, and keep the first reason for hf_why(). forgotten: the agent does not know the
 * client. The caller of ended_keep() holds list_mutex; ended_note() locks it. */
void ended_keep(struct hf_lock *lock, const struct hold_view *view, int64_t now_ns, bool forgotten);
void ended_note(struct hf_lock *lock, const struct hold_view *view, bool forgotten);
/* To be called when an acquire has failed. From then on hf_why() reports why the acquire failed,
 * and no longer why an earlier hold ended. */
void ended_clear(struct hf_lock *lock);
/* Returns true, and why in *out, if the handle's last hold was lost or does not count now. Returns
 * false while a thread waits for the lock. */
bool ended_last(struct hf_lock *lock, struct hold_end *out) HFI_MUST_USE;

/* ---- inspect.c ---- */

/* hf_show() and hf_status() for arguments that are known to be good. They write no text for
 * hf_error_text(). */
int show_unsaid(hf_client *client, const char *name, hf_list_fn *fn, void *arg) HFI_MUST_USE;
int status_unsaid(hf_client *client, hf_status_fn *fn, void *arg) HFI_MUST_USE;

/* ---- why.c ---- */

/* Writes why a hold of the handle ended, in one English line. */
void why_end_text(const hf_lock *lock, const struct hold_end *end, char *out, size_t size);

/* ---- acquire.c ---- */

enum { TAKE_GOES_ON = 2 };

/* Takes the lock. The caller owns the claim. Returns 0 or an error. A polled take may also return
 * TAKE_GOES_ON; the caller calls again, or calls take_leave(). */
int take_run(struct take *take) HFI_MUST_USE;
/* Leaves the queue, if the take is in it. */
void take_leave(struct take *take);
/* Returns whether a take with this result only lacked the host's grant. */
bool take_was_ungranted(const struct take *take, int result) HFI_MUST_USE;
/* Stores the hold that the take has. The caller owns the claim. */
void take_store(struct take *take);

/* Claims the handle for hf_acquire_start(), without waiting. Returns 0 or an error: HF_EBUSY if it
 * is claimed already. claim_is_started(): whether a start is pending. */
int claim_start(hf_lock *lock) HFI_MUST_USE;
bool claim_is_started(hf_lock *lock) HFI_MUST_USE;

/* Claims the handle to end or change its hold, and waits for the claim without a limit. Returns 0,
 * or HF_ENOTHELD without a claim. */
int claim_hold(hf_lock *lock) HFI_MUST_USE;

/* Ends the claim. The caller does not hold lock->mutex. */
void claim_give(hf_lock *lock);

/* Pauses for another thread that needs only a few more instructions. *turns counts the calls, from
 * 0. */
void give_way(unsigned *turns);

/* The slow path of hf_acquire(). */
int acquire_slow(hf_lock *lock, enum hf_mode mode, int64_t timeout_ns,
                 struct hf_hold *out) HFI_MUST_USE;

/* Wakes the thread of this process that waits in the binding's seat, so that it looks at the lock
 * again. */
void binding_nudge(const struct binding *binding);

/* Upgrades the shared hold of a reentrant handle. The caller owns the claim. */
int upgrade(hf_lock *lock, const struct wait_limit *limit) HFI_MUST_USE;

/* ---- start.c ---- */

/* Makes one step of each pending start. Does not wait for another thread that makes such steps:
 * that thread then makes them once more. */
void starts_step(hf_client *client);
/* Ends the pending start of a handle that is being closed, without an event. */
void start_drop(hf_lock *lock);

/* ---- events.c ---- */

/* Switches the events on at the first call. failure_events() writes the text of its failure. */
int events_enable(hf_client *client) HFI_MUST_USE;
int failure_events(const hf_client *client, int error);

/* To be called when a thread that had to wait, or a start, has got the lock. Queues
 * HF_EVENT_GRANTED for the hold with that number. hf_next_event() drops this event if the program
 * has ended the hold by then. */
void events_granted(hf_lock *lock, uint64_t number, uint64_t token);
/* Queues HF_EVENT_FAILED. */
void events_failed(hf_lock *lock, int error);
/* To be called when a pending start has to be looked at by due_ns, and with 0 when the start has
 * ended. */
void events_start(hf_lock *lock, int64_t due_ns);
/* To be called when a hold may end at deadline_ns. The descriptor of events becomes readable at
 * that time, and hf_next_event() then looks at all holds. */
void events_arm(hf_client *client, int64_t deadline_ns);
/* To be called when the connection or a hold has changed. The next hf_next_event() looks at all
 * holds. */
void events_look(hf_client *client);
void events_changed(hf_client *client, const char *name, size_t size);
/* To be called on a new connection. Adds its socket to the epoll set. The caller holds
 * socket_mutex. */
void events_connected(hf_client *client);
/* To be called before a connection ends: removes its socket from the epoll set. The caller holds
 * socket_mutex. */
void events_disconnected(hf_client *client);
int events_resume(hf_client *client) HFI_MUST_USE;
void events_forget(hf_lock *lock); /* under list_mutex */
void events_destroy(hf_client *client);

/* ---- sequencer.c ---- */

void namespaces_forget(hf_client *client); /* under list_mutex */

/* Returns a frame's text that points to the bytes. */
static inline struct hfi_text text_of(const char *bytes, size_t size)
{
    return (struct hfi_text){.bytes = bytes, .size = (uint32_t)size};
}

#endif
