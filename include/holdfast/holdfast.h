/*
 * Holdfast: "only one of us at a time", for the processes of a host.
 *
 * A program connects to its own host's agent (hf_connect), opens a lock by name (hf_open), and
 * takes it (hf_acquire). Once a host has a lock, taking and releasing it is two atomic operations
 * in memory that the processes of the host share: no message, no system call.
 *
 * A hold is a lease. The agent renews it; nobody has to call anything. It is never trusted beyond
 * its deadline: hf_remaining_ns() says how long it still counts, without a system call. A process
 * that was stopped past its deadline cannot know it until it asks. That is why every hold has a
 * fencing token, which rises from one exclusive hold to the next for ever: hand it (or the
 * sequencer made from it) to the resource that you write to, and let the resource refuse older
 * ones.
 *
 * Rules that hold for every call, unless its comment says otherwise:
 *  - 0 is success; a failure is one of the negative HF_E... below. Nothing prints, nothing aborts.
 *    A null pointer where an object or a name is wanted is HF_EINVAL.
 *  - A client and its locks may be used from many threads at once. hf_disconnect and hf_close are
 *    the exceptions: no other call on the same object may be running or follow.
 *  - Durations and deadlines are nanoseconds. Deadlines are readings of CLOCK_BOOTTIME.
 *  - After fork() the child owns nothing: every call on an object of its parent is HF_EFORKED
 *    (hf_close and hf_disconnect then only free the child's memory). The child connects anew.
 *    After execve() the new program owns nothing either: what was held ends as if the process had
 *    died. (If no agent runs at that moment, it ends when the new program does.)
 *  - A signal handler that runs during a call does not end it: waits go on after EINTR until their
 *    own timeout. To end a wait from a handler, let it wake a thread that calls hf_cancel. None of
 *    these functions is async-signal-safe except hf_remaining_ns.
 *  - The library starts no thread, keeps no global state and handles no signal.
 *
 * holdfast/admin.h has what looks at the cell (lists of locks, the agent's status), and the
 * administrator's break.
 */
#ifndef HOLDFAST_HOLDFAST_H
#define HOLDFAST_HOLDFAST_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A connection to the agent of this host, and what it opened. */
typedef struct hf_client hf_client;
/* A handle on one lock: at most one hold at a time, by whichever thread. */
typedef struct hf_lock hf_lock;

/* Failures. The numbers never change. */
enum hf_error {
    HF_EBUSY = -1,         /* a try: held, awaited by others, closed, or not known within 1 s */
    HF_ETIMEDOUT = -2,     /* the timeout passed first */
    HF_ECANCELED = -3,     /* another thread called hf_cancel */
    HF_ELOST = -4,         /* the hold ended before this call: its lease, its limit, or a break */
    HF_ENOTHELD = -5,      /* this handle holds nothing */
    HF_EALREADY = -6,      /* this handle holds already (see HF_REENTRANT) */
    HF_EDEADLK = -7,       /* waiting could never end */
    HF_EFORKED = -8,       /* the object belongs to the parent of this process */
    HF_ENOAGENT = -9,      /* no agent answers at the socket */
    HF_EACCES = -10,       /* the agent's configuration or its socket's path do not allow it */
    HF_EINVAL = -11,       /* an argument is out of its range */
    HF_ENAMETOOLONG = -12, /* a lock name of more than 255 bytes */
    HF_EFULL = -13,        /* the agent has no room: a full table or disk, or no descriptors */
    HF_EVERSION = -14,     /* library and agent speak different versions */
    HF_EPROTO = -15,       /* the agent answered something that makes no sense */
    HF_ENOMEM = -16,       /* no memory, or no file descriptor */
    HF_ESTALE = -17,       /* a sequencer that is not held now */
    HF_EUNKNOWN = -18,     /* cannot be known now */
    HF_EUNSERVED = -19,    /* the agent gave up this namespace, until it begins it anew */
};

enum hf_mode {
    HF_EXCLUSIVE = 0, /* one holder */
    HF_SHARED = 1,    /* many holders, none of them exclusive */
};

/* hf_lock_options.flags */
enum {
    HF_REENTRANT = 1, /* a handle that holds may acquire again; as many releases end the hold */
    HF_BARGING = 2,   /* faster under contention: the first that comes takes it, in no order */
};

/* The size of a buffer that any sequencer fits into, its final zero included. */
enum { HF_SEQUENCER_MAX = 1024 };

enum {
    HF_FOREVER = -1,       /* a timeout that never passes */
    HF_NO_LOCK_DELAY = -1, /* hf_lock_options.lock_delay_ns: the lock opens at once */
};

/*
 * An options struct begins with its size, so that it can grow. These set the size, and every other
 * field to 0, which is its default:
 *
 *     struct hf_lock_options options = HF_LOCK_OPTIONS_INIT;
 *     options.lock_delay_ns = HF_NO_LOCK_DELAY;
 *
 * A struct that is all zeroes has no size, and is HF_EINVAL.
 */
/* clang-format off */
#define HF_OPTIONS_INIT {sizeof(struct hf_options), NULL, 0, NULL, 0}
#define HF_LOCK_OPTIONS_INIT {sizeof(struct hf_lock_options), 0, 0, 0, 0, 0}
/* clang-format on */

/* For hf_connect. */
struct hf_options {
    size_t size;                /* sizeof(struct hf_options) */
    const char *socket;         /* default: $HOLDFAST_SOCKET if it is set, else
                                   $XDG_RUNTIME_DIR/holdfast/agent.sock if it exists, else
                                   /run/holdfast/agent.sock */
    int64_t connect_timeout_ns; /* default 5 s; negative (HF_FOREVER): for ever */
    char *why;                  /* NULL, or the caller's buffer of why_size bytes. hf_connect writes
                                   one line into it: the text of hf_strerror, or more if more is
                                   known */
    size_t why_size;
};

/* For hf_open. Durations in nanoseconds. */
struct hf_lock_options {
    size_t size;           /* sizeof(struct hf_lock_options) */
    uint32_t flags;        /* HF_REENTRANT, HF_BARGING */
    uint32_t permits;      /* 0 or 1; more (semaphores) is HF_EINVAL in this version */
    int64_t lock_delay_ns; /* how long the lock stays closed when this handle's holder vanished;
                              default 1 s, at most 60 s, negative (HF_NO_LOCK_DELAY):
                              none */
    int64_t lease_ns;      /* a hold ends by itself this long after it began; default: renewed.
                              Less than 1 ms is HF_EINVAL */
    int64_t max_stall_ns;  /* a hold ends when hf_progress was not called for so long; default: no
                              limit. Less than 1 ms is HF_EINVAL */
};

/* What hf_acquire reports of a new hold. The struct is the caller's; it need not be set before. */
struct hf_hold {
    /* The fencing token. An exclusive hold's is above that of every hold before it. A shared hold's
     * is at least that of every exclusive hold before it and below that of every one after it; and
     * never below that of any hold, on any host, whose acquire returned before this one was called.
     * It need not be one that an exclusive hold had. */
    uint64_t token;
    int64_t deadline_ns;  /* CLOCK_BOOTTIME; as known now, renewal moves it on */
    uint64_t reserved[6]; /* 0; a later version of the library may give these words a meaning */
};

enum hf_event_kind {
    HF_EVENT_GRANTED = 1, /* a wait ended with a hold */
    HF_EVENT_JEOPARDY,    /* the hold is past its deadline: it does not count, it may come back */
    HF_EVENT_SAFE,        /* it counts again */
    HF_EVENT_LOST,        /* the hold is over; hf_release frees the handle for the next one */
    HF_EVENT_CHANGED,     /* a lock under a watched prefix changed; name says which, lock is NULL */
};

struct hf_event {
    enum hf_event_kind kind;
    hf_lock *lock; /* the caller's handle; hf_lock_data(lock) is what the caller has set */
    uint64_t token;
    char name[256];
    uint64_t reserved[6]; /* 0; a later version of the library may give these words a meaning */
};

/*
 * Connects to this host's agent. options may be NULL.
 * *out is the caller's, to be given to hf_disconnect.
 * HF_ENOAGENT: none answered within connect_timeout_ns; HF_EFULL: it has no room for one more
 * client (for one more connection: until connect_timeout_ns was over); HF_EVERSION; HF_EACCES;
 * HF_ENOMEM; HF_EINVAL: also a socket's path of more than 107 bytes; HF_EPROTO: the answer makes
 * no sense, or this process lives in another time namespace than its agent (their CLOCK_BOOTTIME
 * differ), where deadlines mean nothing: options->why then says so, and by how much. (Two that
 * differ by less than the greeting takes, well below a millisecond on an idle machine, are not
 * told apart.)
 */
int hf_connect(const struct hf_options *options, hf_client **out);

/* Releases what is held, closes every lock, frees the client. NULL is allowed. */
void hf_disconnect(hf_client *client);

/*
 * Opens a handle on the lock of that name, which need not exist: 1 to 255 bytes of UTF-8 without
 * control characters. options may be NULL. *out is the caller's, to be given to hf_close or left
 * to hf_disconnect. The first opening of a name never used costs one durable write of the agent.
 * HF_EINVAL, HF_ENAMETOOLONG, HF_EACCES, HF_EFULL, HF_ENOAGENT, HF_EUNSERVED, HF_ENOMEM.
 */
int hf_open(hf_client *client, const char *name, const struct hf_lock_options *options,
            hf_lock **out);

/* Releases the handle's hold if it has one, and frees the handle. NULL is allowed. */
void hf_close(hf_lock *lock);

/* The name that the handle was opened with. It belongs to the handle and lives as long as the
 * handle, in a forked child, too. NULL for NULL. */
const char *hf_lock_name(const hf_lock *lock);

/*
 * A pointer of the program's own that the handle keeps for it: what finds the program's object for
 * the lock of an event (hf_event.lock). The library never follows the pointer and never frees it.
 * hf_lock_data is NULL until one is set. A thread that reads the pointer sees what another thread
 * wrote behind it before it set it.
 */
void hf_lock_set_data(hf_lock *lock, void *data);
void *hf_lock_data(const hf_lock *lock);

/*
 * Takes the lock. timeout_ns: negative waits for ever, 0 tries only. out may be NULL.
 * HF_EBUSY (a try), HF_ETIMEDOUT, HF_ECANCELED, HF_EALREADY, HF_EDEADLK (a handle with
 * HF_REENTRANT holds shared, asks for exclusive, and another holder already waits for it),
 * HF_ELOST (the handle's last hold was lost: hf_release first), HF_ENOAGENT or HF_EUNSERVED (a try
 * only; a wait goes on until an agent is back, or serves the namespace again), HF_EFULL.
 */
int hf_acquire(hf_lock *lock, enum hf_mode mode, int64_t timeout_ns, struct hf_hold *out);

/*
 * Ends the hold. The lock goes at once to the one that waits longest, with no lock-delay. That is
 * so too when the hold's lease is just over and the agent has not taken it away yet: then the call
 * returns HF_ELOST.
 * 0: the hold counted until its release. HF_ENOTHELD: this handle holds nothing. HF_ELOST: the hold
 * had ended before; the handle is free for the next acquire. HF_EINVAL, HF_EFORKED.
 *
 * HF_ELOST is certain. 0 is as good as the kernel's coarse clock: while more than half of the
 * agent's session_ttl is left (2.5 s by default), this call reads that clock, which is cheap. It
 * can return 0 for a lease that is over if the coarse clock stood still for longer than that (the
 * processor that keeps the time was stalled) or if the machine was suspended and the agent has not
 * run since. Where that matters, ask hf_remaining_ns before, which reads the exact clock; and let
 * the resource check the token.
 */
int hf_release(hf_lock *lock);

/*
 * Turns an exclusive hold into a shared one. No other exclusive hold comes between. A hold that is
 * shared already stays as it is. The call may have to ask the agent, once for a handle.
 * HF_ENOTHELD, HF_ELOST, HF_ENOAGENT, HF_EFULL, HF_EINVAL, HF_EFORKED.
 */
int hf_downgrade(hf_lock *lock);

/*
 * Says that the program makes progress: the hold of a handle with max_stall_ns goes on for so long
 * from now, but not beyond its lease_ns. With a handle that has no max_stall_ns it only asks
 * whether the hold counts. No system call. HF_ENOTHELD; HF_ELOST: the hold does not count any more.
 */
int hf_progress(hf_lock *lock);

/*
 * Ends the waits of other threads on this handle: their calls return HF_ECANCELED. It may be called
 * by any thread, and takes effect on the waits for this lock that have begun (hf_acquire_all waits
 * for one lock after the other). A wait that begins later, of a thread that was about to call, is
 * not canceled. So a program that stops sets a flag of its own first, and calls hf_cancel until the
 * thread has noticed:
 *
 *     the thread that waits                       the thread that stops it
 *     while (!stop) {                             stop = true;
 *         if (hf_acquire(...) == 0) {             while (!done) {
 *             if (!stop) { work(); }                  hf_cancel(lock);
 *             hf_release(lock);                       sleep for some milliseconds;
 *         }                                       }
 *     }                                           join the thread
 *     done = true;
 *
 * stop and done are atomic. HF_EINVAL, HF_EFORKED.
 */
int hf_cancel(hf_lock *lock);

/*
 * Takes all of the locks or none. They are taken in byte order of their names, whatever order
 * they are given in, so that two callers never wait for each other. out may be NULL, else it has
 * count elements in the caller's order. HF_EINVAL for a repeated name or locks of two clients;
 * else as hf_acquire.
 */
int hf_acquire_all(hf_lock *const *locks, size_t count, enum hf_mode mode, int64_t timeout_ns,
                   struct hf_hold *out);

/*
 * For how many nanoseconds from now on the hold still counts, by what is known now. 0: the handle
 * holds nothing that counts. That is so when it has taken nothing, when its hold is lost or in
 * jeopardy, and in a forked child. It is never negative, and never an error code. It reads the
 * exact clock, makes no system call (where the vDSO has the clock) and takes no mutex. It may be
 * called from a signal handler.
 */
int64_t hf_remaining_ns(const hf_lock *lock);

/*
 * Writes the hold's sequencer, a zero-terminated word of [A-Za-z0-9._~%:/-], into buf. Give it to
 * the resource that this hold protects. HF_EINVAL: buf is too short (HF_SEQUENCER_MAX is enough).
 * HF_ENOTHELD, HF_ELOST.
 */
int hf_sequencer(hf_lock *lock, char *buf, size_t size);

/*
 * Asks the agent whether the sequencer's hold is held now. 0 yes, HF_ESTALE no, HF_EUNKNOWN it
 * cannot be known now, HF_EINVAL it is no sequencer of this cell, HF_EACCES, HF_ENOAGENT.
 * "Now" ends when the answer leaves the agent: a resource that must never accept an old holder
 * remembers the highest token that it has accepted and refuses lower ones.
 */
int hf_check_sequencer(hf_client *client, const char *sequencer);

/*
 * HF_ESTALE if this host has seen a higher token of that lock, else 0. Promises only that. No
 * message and no system call once this client has used the lock's namespace (the first use asks
 * the agent for it). HF_EINVAL, HF_EACCES, HF_ENOAGENT.
 */
int hf_check_sequencer_local(hf_client *client, const char *sequencer);

/*
 * Asks for HF_EVENT_CHANGED whenever a lock changes whose name begins with prefix ("" is every lock
 * that this user may see). A prefix that is watched already stays watched once. HF_EINVAL,
 * HF_EACCES, HF_EFULL, HF_ENOAGENT, HF_ENOMEM, HF_EFORKED.
 */
int hf_watch(hf_client *client, const char *prefix);

/*
 * Ends the hf_watch of exactly that prefix. After this call hf_next_event reports no change on its
 * account, not even one that came before; a lock under another watched prefix is still reported. A
 * prefix that is not watched is no error, and neither is an agent that does not answer: its next
 * connection begins without the watch. HF_EINVAL, HF_EFORKED.
 */
int hf_unwatch(hf_client *client, const char *prefix);

/*
 * Returns a descriptor that polls readable when hf_next_event may have something. It belongs to the
 * client: the program neither reads nor closes it. The library reports the events of holds from the
 * first call of this function or of hf_next_event on. HF_ENOMEM, HF_EINVAL, HF_EFORKED.
 */
int hf_event_fd(hf_client *client);

/*
 * Takes the next event, and never waits. 1: *out, which is the caller's, is filled in. 0: there is
 * none now; poll the descriptor again, which may become readable without an event behind it. For
 * one hold JEOPARDY, SAFE and LOST come at most once each. JEOPARDY and LOST come by the client's
 * own timer, whether an agent runs or not. An event says how a hold stands now: a jeopardy that
 * began and ended since the last call is left out. A loss is always reported: by this call, or
 * earlier by hf_release. HF_ENOMEM, HF_EINVAL, HF_EFORKED.
 */
int hf_next_event(hf_client *client, struct hf_event *out);

/* A short English text for a code. Never NULL; static. */
const char *hf_strerror(int error);

/* "0.1.0": the version of the library. Static. */
const char *hf_version(void);

#ifdef __cplusplus
}
#endif

#endif
