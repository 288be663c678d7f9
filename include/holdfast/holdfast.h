/*
 * Holdfast: "only one of us at a time", for the processes of a host.
 *
 * A program connects to its own host's agent (hf_connect), opens a lock by name (hf_open), and
 * takes it (hf_acquire). Once a host has a lock, taking and releasing it is two atomic operations
 * in memory that the processes of the host share: no message, no system call.
 *
 * A hold is a lease. The agent renews it, so the program need not call anything. A hold never
 * counts beyond its deadline: hf_remaining_ns() says how long it still counts, without a system
 * call. A process that was stopped past its deadline does not know that until it asks. That is why
 * every hold has a fencing token, which rises from one exclusive hold to the next for ever. Give
 * the token (or the sequencer made from it) to the resource that you write to, and let the resource
 * refuse lower tokens.
 *
 * Rules that hold for every call, unless its comment says otherwise:
 *  - A call returns 0 for success, or one of the negative HF_E... below. No call prints or aborts.
 *    A null pointer in place of an object or a name is HF_EINVAL.
 *  - Many threads may use a client and its locks at once. hf_disconnect and hf_close are the
 *    exceptions: no other call on the same object may be running, or follow.
 *  - Durations and deadlines are nanoseconds. Deadlines are readings of CLOCK_BOOTTIME.
 *  - After fork() the child owns nothing: every call on an object of its parent is HF_EFORKED
 *    (hf_close and hf_disconnect then only free the child's memory). The child has to connect anew.
 *    After execve() the new program owns nothing either: the holds end as if the process had died.
 *    (If no agent runs at that moment, or if a forked child still has the descriptor of the
 *    connection, they end when the new program ends.)
 *  - A signal handler that runs during a call does not end the call: waits go on after EINTR until
 *    their own timeout. To end a wait from a handler, let the handler wake a thread that calls
 *    hf_cancel. Only hf_remaining_ns is async-signal-safe.
 *  - The library starts no thread, keeps no global state and handles no signal.
 *
 * holdfast/admin.h has the calls that look at the cell (lists of locks, the agent's status), and
 * the administrator's break.
 */
#ifndef HOLDFAST_HOLDFAST_H
#define HOLDFAST_HOLDFAST_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A connection to the agent of this host, with the locks opened through it. */
typedef struct hf_client hf_client;
/* A handle on one lock. It has at most one hold at a time, whichever thread took it. */
typedef struct hf_lock hf_lock;

/* Failures. The numbers never change. */
enum hf_error {
    HF_EBUSY = -1,         /* a try: held, awaited by others, closed, or unknown within 1 s */
    HF_ETIMEDOUT = -2,     /* the timeout passed first */
    HF_ECANCELED = -3,     /* another thread called hf_cancel */
    HF_ELOST = -4,         /* the hold had ended: by its lease or limit, or by a break */
    HF_ENOTHELD = -5,      /* this handle holds nothing */
    HF_EALREADY = -6,      /* this handle holds the lock already (see HF_REENTRANT) */
    HF_EDEADLK = -7,       /* the wait could never end */
    HF_EFORKED = -8,       /* the object belongs to the parent of this process */
    HF_ENOAGENT = -9,      /* no agent answers at the socket */
    HF_EACCES = -10,       /* the agent's configuration, or its socket's path, forbids the call */
    HF_EINVAL = -11,       /* an argument is out of its range */
    HF_ENAMETOOLONG = -12, /* a lock name of more than 255 bytes */
    HF_EFULL = -13,        /* the agent has no room: a full table or disk, or no descriptors */
    HF_EVERSION = -14,     /* library and agent speak different versions */
    HF_EPROTO = -15,       /* the agent answered something that makes no sense */
    HF_ENOMEM = -16,       /* no memory, or no file descriptor */
    HF_ESTALE = -17,       /* the sequencer's hold is over */
    HF_EUNKNOWN = -18,     /* the answer cannot be known now */
    HF_EUNSERVED = -19,    /* the agent gave this namespace up, and has not begun it anew yet */
};

enum hf_mode {
    HF_EXCLUSIVE = 0, /* one holder */
    HF_SHARED = 1,    /* many holders, none of them exclusive */
};

/* hf_lock_options.flags */
enum {
    HF_REENTRANT = 1, /* a handle that holds may acquire again; each acquire needs its release */
    HF_BARGING = 2,   /* faster under contention: a free lock goes to the first that tries */
};

/* The size of a buffer that any sequencer fits into, its final zero included. */
enum { HF_SEQUENCER_MAX = 1024 };

enum {
    HF_FOREVER = -1,       /* a timeout that never passes */
    HF_NO_LOCK_DELAY = -1, /* hf_lock_options.lock_delay_ns: the lock opens at once */
};

/*
 * An options struct begins with its size, so that it can grow. These macros set the size, and set
 * every other field to 0, which is its default:
 *
 *     struct hf_lock_options options = HF_LOCK_OPTIONS_INIT;
 *     options.lock_delay_ns = HF_NO_LOCK_DELAY;
 *
 * A call that gets a struct of zeroes returns HF_EINVAL, since the struct has no size.
 */
/* clang-format off */
#define HF_OPTIONS_INIT {sizeof(struct hf_options), NULL, 0, NULL, 0}
#define HF_LOCK_OPTIONS_INIT {sizeof(struct hf_lock_options), 0, 0, 0, 0, 0}
/* clang-format on */

/* For hf_connect. */
struct hf_options {
    size_t size;                /* sizeof(struct hf_options) */
    const char *socket;         /* default: $HOLDFAST_SOCKET if it is set, else
                                   /run/holdfast/agent.sock if an agent listens there, else
                                   $XDG_RUNTIME_DIR/holdfast/agent.sock. A client stays with the
                                   agent's socket that it has found */
    int64_t connect_timeout_ns; /* default 5 s; negative (HF_FOREVER): for ever */
    char *why;                  /* NULL, or the caller's buffer of why_size bytes. hf_connect writes
                                   one line into it: the text of hf_strerror for its result, or a
                                   more exact text */
    size_t why_size;
};

/* For hf_open. Durations in nanoseconds. */
struct hf_lock_options {
    size_t size;           /* sizeof(struct hf_lock_options) */
    uint32_t flags;        /* HF_REENTRANT, HF_BARGING */
    uint32_t permits;      /* 0 or 1; more (semaphores) is HF_EINVAL in this version */
    int64_t lock_delay_ns; /* for how long the lock stays closed after this handle's holder
                              vanished; default 1 s, at most 60 s, negative (HF_NO_LOCK_DELAY):
                              it opens at once */
    int64_t lease_ns;      /* a hold ends by itself this long after it began; default: the hold is
                              renewed without end. Less than 1 ms is HF_EINVAL */
    int64_t max_stall_ns;  /* a hold ends when hf_progress was not called for this long; default: no
                              limit. Less than 1 ms is HF_EINVAL */
};

/* A new hold, as hf_acquire reports it. The caller owns the struct, and need not set it before. */
struct hf_hold {
    /* The fencing token. The token of an exclusive hold is above that of every hold before it. The
     * token of a shared hold is not below that of any exclusive hold before it, and is below that
     * of every exclusive hold after it. No token is below that of a hold, on any host, whose
     * acquire returned before this hold's acquire was called. A shared hold's token need not be the
     * token of any exclusive hold. */
    uint64_t token;
    int64_t deadline_ns;  /* CLOCK_BOOTTIME, as known now; each renewal moves the deadline on */
    uint64_t reserved[6]; /* 0; a later version of the library may give these words a meaning */
};

enum hf_event_kind {
    HF_EVENT_GRANTED = 1, /* a wait ended with a hold */
    HF_EVENT_JEOPARDY,    /* the hold is past its deadline and does not count; it may count again */
    HF_EVENT_SAFE,        /* a hold in jeopardy counts again */
    HF_EVENT_LOST,        /* the hold is over; hf_release frees the handle for the next hold */
    HF_EVENT_CHANGED,     /* a lock under a watched prefix changed; name says which, lock is NULL */
};

/* Why a lock is not had, or why a hold ended. A later version may know more kinds: then a program
 * shows the text of hf_why. */
enum hf_reason_kind {
    HF_WHY_NOTHING = 0, /* nothing is known to stand in the way now; of an event: not known */
    /* why a lock is not had */
    HF_WHY_HELD,        /* agent, pid, uid, command and since_ns describe the first holder */
    HF_WHY_AWAITED,     /* no holder is known, and other handles wait for the lock */
    HF_WHY_CLOSED,      /* a lock-delay goes on for closed_ns more */
    HF_WHY_NO_MAJORITY, /* no majority of the voters answers this host; text names the missing
                           ones; since_ns: for how long this host has had no session */
    HF_WHY_NO_AGENT,    /* no agent answers on this host */
    HF_WHY_UNKNOWN,     /* a host that has reported nothing for too long may hold it */
    /* why a hold ended; since_ns: how long ago */
    HF_WHY_BROKEN,       /* an administrator broke it: user uid of the host of `agent` */
    HF_WHY_LEASE_OVER,   /* lease_ns was over */
    HF_WHY_STALLED,      /* no progress was reported for max_stall_ns */
    HF_WHY_SESSION_LOST, /* this host's session was not renewed: no majority of the voters answered
                            in time, or the agent stood still */
    HF_WHY_AGENT_GONE,   /* this host had no agent that could renew the session */
    HF_WHY_FORGOTTEN,    /* the agent does not know this process any more */
    HF_WHY_DAMAGED, /* the agent found wrong bytes in the memory that it shares with processes */
    HF_WHY_ENDED,   /* the reason is not known */
};

struct hf_event {
    enum hf_event_kind kind;
    hf_lock *lock; /* the caller's handle; hf_lock_data(lock) returns the caller's pointer */
    uint64_t token;
    char name[256];
    enum hf_reason_kind why; /* of HF_EVENT_LOST: why the hold ended; hf_why says more. Else 0 */
    uint32_t unused;         /* 0 */
    uint64_t reserved[5];    /* 0; a later version of the library may give these words a meaning */
};

/* For hf_why. The caller sets the size (HF_REASON_INIT), and the library everything else. An
 * unknown number is -1, an unknown text is empty. */
struct hf_reason {
    size_t size; /* sizeof(struct hf_reason) */
    enum hf_reason_kind kind;
    uint32_t reserved; /* 0 */
    int64_t since_ns;  /* for how long this has been so, or how long ago the hold ended */
    int64_t closed_ns; /* for how long the lock stays closed; 0: it is not closed */
    int64_t pid;
    int64_t uid;
    uint64_t holders;  /* how many hold the lock, as far as is known */
    uint64_t waiters;  /* how many wait for it, this handle included if it waits */
    char agent[40];    /* the host of the holder, or of who broke the hold, by its agent's name */
    char command[512]; /* the holder's command line, maybe cut off */
    char text[1024];   /* all of it in one English line, without the lock's name; it may contain
                          bytes of other users' command lines: clean it for a terminal */
};

/* clang-format off */
#define HF_REASON_INIT {sizeof(struct hf_reason), HF_WHY_NOTHING, 0, 0, 0, 0, 0, 0, 0, "", "", ""}
/* clang-format on */

/*
 * Connects to this host's agent. options may be NULL. The caller owns *out, and passes it to
 * hf_disconnect in the end.
 * HF_ENOAGENT: no agent answered within connect_timeout_ns. HF_EFULL: the agent has no room for one
 * more client, or had no room for one more connection until connect_timeout_ns was over. HF_EINVAL:
 * also a socket's path of more than 107 bytes. HF_EPROTO: the answer makes no sense, or this
 * process is in another time namespace than the agent. Their readings of CLOCK_BOOTTIME differ
 * then, so deadlines would mean nothing; options->why says so, and by how much. (A difference
 * smaller than the time that the greeting takes, well below a millisecond on an idle machine, is
 * not noticed.) HF_EVERSION, HF_EACCES, HF_ENOMEM.
 */
int hf_connect(const struct hf_options *options, hf_client **out);

/* Releases all holds, closes every lock, and frees the client. NULL is allowed. */
void hf_disconnect(hf_client *client);

/*
 * Opens a handle on the lock of that name. The name has 1 to 255 bytes of UTF-8 without control
 * characters, and need not have been used before. options may be NULL. The caller owns *out, and
 * passes it to hf_close or leaves it to hf_disconnect. The first use of a new name costs one
 * durable write of the agent.
 * HF_EINVAL, HF_ENAMETOOLONG, HF_EACCES, HF_EFULL, HF_ENOAGENT, HF_EUNSERVED, HF_ENOMEM.
 */
int hf_open(hf_client *client, const char *name, const struct hf_lock_options *options,
            hf_lock **out);

/* Releases the handle's hold if it has one, and frees the handle. NULL is allowed. */
void hf_close(hf_lock *lock);

/* Returns the name that the handle was opened with. The string belongs to the handle and lives as
 * long as it does, also in a forked child. NULL for NULL. */
const char *hf_lock_name(const hf_lock *lock);

/*
 * A handle keeps one pointer for the program. With it a program finds its own object for the lock
 * of an event (hf_event.lock). The library never follows the pointer and never frees it.
 * hf_lock_data returns NULL until a pointer is set. A thread that reads the pointer also sees
 * everything that the setting thread had written before it set the pointer.
 */
void hf_lock_set_data(hf_lock *lock, void *data);
void *hf_lock_data(const hf_lock *lock);

/*
 * Takes the lock. A negative timeout_ns waits for ever, and 0 only tries. out may be NULL.
 * HF_EBUSY: a try failed. HF_EDEADLK: a handle with HF_REENTRANT holds shared and asks for
 * exclusive, and another holder of this host waits for the same already. (Two such holders on two
 * hosts wait for each other until their timeouts: give one.) HF_ELOST: the handle's last hold was
 * lost; call hf_release first. HF_ENOAGENT or HF_EUNSERVED: from a try only; a wait goes on until
 * an agent is back, or serves the namespace again. HF_ETIMEDOUT, HF_ECANCELED, HF_EALREADY,
 * HF_EFULL.
 */
int hf_acquire(hf_lock *lock, enum hf_mode mode, int64_t timeout_ns, struct hf_hold *out);

/*
 * Ends the hold. The lock goes at once to the waiter that has waited longest, with no lock-delay.
 * This also happens if the hold's lease has just ended and the agent has not taken the hold away
 * yet; the call then returns HF_ELOST.
 * 0: the hold counted until its release. HF_ENOTHELD: this handle holds nothing. HF_ELOST: the hold
 * had ended before. The handle is free for the next acquire. HF_EINVAL, HF_EFORKED.
 *
 * The result HF_ELOST is certain. The result 0 is less certain: while more than half of the agent's
 * session_ttl is left (2.5 s by default), this call reads the kernel's coarse clock, because that
 * is cheap. So the call can return 0 for a lease that is over in two cases. The coarse clock stood
 * still for longer than that half (the processor that keeps the time was stalled). Or the machine
 * was suspended, and the agent has not run since. Where that matters, first call hf_remaining_ns,
 * which reads the exact clock, and let the resource check the token.
 */
int hf_release(hf_lock *lock);

/*
 * Turns an exclusive hold into a shared one. No exclusive hold comes between the two. A shared hold
 * stays as it is. The call may have to ask the agent, once for each handle.
 * HF_ENOTHELD, HF_ELOST, HF_ENOAGENT, HF_EFULL, HF_EINVAL, HF_EFORKED.
 */
int hf_downgrade(hf_lock *lock);

/*
 * Reports progress: if the handle has max_stall_ns, its hold goes on for that long from now, but
 * not beyond its lease_ns. If the handle has no max_stall_ns, the call only checks whether the hold
 * counts. It makes no system call. HF_ENOTHELD. HF_ELOST: the hold does not count any more.
 */
int hf_progress(hf_lock *lock);

/*
 * Ends the waits of other threads on this handle: their calls return HF_ECANCELED. Any thread may
 * call it. It ends only waits for this lock that have begun. (hf_acquire_all waits for its locks
 * one after the other, so a wait for this lock may begin later.) It does not end the wait of a
 * thread that is just about to call hf_acquire. So to stop such a thread, a program first sets a
 * flag of its own, and then calls hf_cancel until the thread has noticed the flag:
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
 * Says why this lock is not had: after hf_acquire has returned HF_EBUSY or HF_ETIMEDOUT, or from
 * another thread while a call waits. The caller owns *out, and sets out->size. The answer is what
 * the agent knows at this moment, so it may have changed since the failure. The call asks the agent
 * (1 s at most for a connection, then 5 s for each of two answers). An agent that does not answer
 * is a reason, HF_WHY_NO_AGENT, and no failure. The text has the names of users that are in
 * /etc/passwd, and else their numbers: the call does not wait for a name service.
 *
 * If the handle's last hold was lost, or does not count now, the call says why, and does not ask
 * the agent: after HF_EVENT_LOST or HF_ELOST, until the handle takes the lock again or hf_acquire
 * returns HF_EBUSY or HF_ETIMEDOUT. Users of the lock's namespace could forge that reason, but not
 * the loss.
 * HF_EINVAL: also a struct without its size. HF_EACCES, HF_EPROTO, HF_ENOMEM, HF_EFORKED.
 */
int hf_why(hf_lock *lock, struct hf_reason *out);

/*
 * Takes all of the locks or none. It takes them in byte order of their names, whatever the order of
 * the array, so two callers never wait for each other. out may be NULL; else it has count elements
 * in the order of the array. HF_EINVAL: also a repeated name, or locks of two clients. Other errors
 * as hf_acquire.
 */
int hf_acquire_all(hf_lock *const *locks, size_t count, enum hf_mode mode, int64_t timeout_ns,
                   struct hf_hold *out);

/*
 * Returns for how many nanoseconds from now on the hold still counts, as far as is known now. 0
 * means that no hold counts: the handle has taken nothing, its hold is lost or in jeopardy, or this
 * is a forked child. The result is never negative, and never an error code. The call reads the
 * exact clock, makes no system call (where the vDSO has the clock) and takes no mutex. A signal
 * handler may call it.
 */
int64_t hf_remaining_ns(const hf_lock *lock);

/*
 * Writes the hold's sequencer, a zero-terminated word of [A-Za-z0-9._~%:/-], into buf. Give the
 * sequencer to the resource that this hold protects. HF_EINVAL: buf is too short (HF_SEQUENCER_MAX
 * is enough).
 * HF_ENOTHELD, HF_ELOST.
 */
int hf_sequencer(hf_lock *lock, char *buf, size_t size);

/*
 * Asks the agent whether the sequencer's hold is held now. 0: yes. HF_ESTALE: no. HF_EUNKNOWN: it
 * cannot be known now. HF_EINVAL: the text is no sequencer of this cell. HF_EACCES, HF_ENOAGENT.
 * The answer is true when it leaves the agent, and may be outdated when it arrives. So a resource
 * that must never accept an old holder also remembers the highest token that it has accepted, and
 * refuses lower ones.
 */
int hf_check_sequencer(hf_client *client, const char *sequencer);

/*
 * Returns HF_ESTALE if this host has seen a higher token of that lock, else 0. 0 does not mean that
 * the hold counts. The call needs no message and no system call, once this client has used the
 * lock's namespace; the first use asks the agent for it. HF_EINVAL, HF_EACCES, HF_ENOAGENT.
 */
int hf_check_sequencer_local(hf_client *client, const char *sequencer);

/*
 * Asks for an HF_EVENT_CHANGED whenever a lock changes whose name begins with prefix ("" is every
 * lock that this user may see). To watch a prefix twice is the same as once. HF_EINVAL, HF_EACCES,
 * HF_EFULL, HF_ENOAGENT, HF_ENOMEM, HF_EFORKED.
 */
int hf_watch(hf_client *client, const char *prefix);

/*
 * Ends the hf_watch of exactly that prefix. After this call hf_next_event reports no change because
 * of this prefix, not even a change that came before. It still reports locks under other watched
 * prefixes. The call succeeds if the prefix is not watched. It also succeeds if the agent does not
 * answer: the next connection begins without the watch. HF_EINVAL, HF_EFORKED.
 */
int hf_unwatch(hf_client *client, const char *prefix);

/*
 * Returns a descriptor that polls readable when hf_next_event may have an event. The descriptor
 * belongs to the client: the program neither reads nor closes it. The library reports events of
 * holds from the first call of this function or of hf_next_event on. HF_ENOMEM, HF_EINVAL,
 * HF_EFORKED.
 */
int hf_event_fd(hf_client *client);

/*
 * Takes the next event, and never waits. 1: the call filled in the caller's *out. 0: there is no
 * event now; poll the descriptor again. The descriptor may become readable without an event. For
 * one hold JEOPARDY, SAFE and LOST come at most once each. JEOPARDY and LOST come by the client's
 * own timer, whether an agent runs or not. An event reports the present state of a hold, so a
 * jeopardy that began and ended since the last call is left out. A loss is always reported: by this
 * call, or earlier by hf_release. HF_ENOMEM, HF_EINVAL, HF_EFORKED.
 */
int hf_next_event(hf_client *client, struct hf_event *out);

/* Returns a short English text for a code. The text is static, and never NULL. */
const char *hf_strerror(int error);

/* Returns the version of the library, such as "0.1.0". The text is static. */
const char *hf_version(void);

#ifdef __cplusplus
}
#endif

#endif
