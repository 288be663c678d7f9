/*
 * Holdfast: "only one of us at a time", for the processes of a host.
 *
 * A program connects to its own host's agent (hf_connect), opens a lock by name (hf_open), and
 * takes it (hf_acquire). Once the host has a grant for the lock, taking and releasing it needs two
 * atomic operations in memory that the processes of the host share, no message and no system call.
 *
 * A hold is a lease. The agent renews the lease, so the program need not call anything for that. A
 * hold never counts beyond its deadline: hf_remaining_ns() says how long it still counts, without a
 * system call. A process that was stopped until after the deadline does not notice that by itself.
 * That is why every hold has a fencing token, which rises from each exclusive hold to the next for
 * ever. Give the token (or the sequencer made from it) to the resource that you write to, and let
 * the resource refuse lower tokens.
 *
 * These rules apply to every call, except where its comment says otherwise:
 *  - A call returns 0 for success, or one of the negative HF_E... below. No call prints or aborts.
 *    A null pointer in place of an object or a name is HF_EINVAL.
 *  - Many threads may use a client and its locks at once. hf_disconnect and hf_close are the
 *    exceptions: while or after one of them runs, a program must not make another call on the same
 *    object.
 *  - Durations and deadlines are nanoseconds. Deadlines are readings of CLOCK_BOOTTIME.
 *  - After fork() the child owns nothing. Every call on an object of its parent returns HF_EFORKED,
 *    but hf_close and hf_disconnect free the child's memory. The child has to connect anew. After
 *    execve() the new program owns nothing either: the old program's holds end as if the process
 *    had died. (If no agent runs at that moment, or if a forked child still has the descriptor of
 *    the connection, these holds end when the new program ends.)
 *  - A signal handler that runs during a call does not end the call: after the handler a wait goes
 *    on until its timeout. To end a wait from a handler, let the handler wake a thread that calls
 *    hf_cancel. Only hf_remaining_ns is async-signal-safe.
 *  - The library starts no thread, handles no signal, and keeps no global state but the text of
 *    each thread's last failure (hf_error_text).
 *
 * holdfast/admin.h has the calls that show locks, the cell and the agent's status, and the call by
 * which an administrator breaks a hold.
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
/* A handle on one lock. A handle has at most one hold at a time, which belongs to all threads. */
typedef struct hf_lock hf_lock;

/* Failures. The numbers never change. */
enum hf_error {
    /* a try failed: held, awaited, closed, or no answer within 1 s; or an hf_acquire_start of this
     * handle has not ended */
    HF_EBUSY = -1,
    HF_ETIMEDOUT = -2,     /* the timeout was over first; of hf_break: no answer within 2 s */
    HF_ECANCELED = -3,     /* another thread called hf_cancel */
    HF_ELOST = -4,         /* the hold has ended: by its lease or limit, or by a break */
    HF_ENOTHELD = -5,      /* this handle holds nothing */
    HF_EALREADY = -6,      /* this handle holds the lock already (see HF_REENTRANT) */
    HF_EDEADLK = -7,       /* two upgrades on this host would wait for each other for ever */
    HF_EFORKED = -8,       /* the object belongs to the parent of this process */
    HF_ENOAGENT = -9,      /* no agent answers at the socket */
    HF_EACCES = -10,       /* the agent's configuration or its socket's permissions forbid it */
    HF_EINVAL = -11,       /* an argument is out of its range */
    HF_ENAMETOOLONG = -12, /* a lock name of more than 255 bytes */
    HF_EFULL = -13,        /* the agent has no room: hf_error_text says of what, and what helps */
    HF_EVERSION = -14,     /* library and agent have no version of the protocol in common */
    HF_EPROTO = -15,       /* the agent's answer is invalid */
    HF_ENOMEM = -16,       /* no memory, or no file descriptor */
    HF_ESTALE = -17,       /* the sequencer's hold is over */
    HF_EUNKNOWN = -18,     /* the answer cannot be found out now */
    HF_EUNSERVED = -19,    /* the agent has given this namespace up, and may serve it later */
};

enum hf_mode {
    HF_EXCLUSIVE = 0, /* one holder */
    HF_SHARED = 1,    /* many holders, none of them exclusive */
};

/* hf_lock_options.flags */
enum {
    HF_REENTRANT = 1, /* a handle that holds may acquire again; each acquire needs its release */
    HF_BARGING = 2,   /* faster under contention: the handle may overtake those that wait */
};

/* The size of a buffer that is large enough for any sequencer with its final zero. */
enum { HF_SEQUENCER_MAX = 1024 };

/* The most bytes of a note (hf_set_note), without its final zero. */
enum { HF_NOTE_MAX = 256 };

enum {
    HF_FOREVER = -1,       /* as a timeout: wait for ever */
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
#define HF_OPTIONS_INIT {sizeof(struct hf_options), NULL, 0, NULL, 0, NULL}
#define HF_LOCK_OPTIONS_INIT {sizeof(struct hf_lock_options), 0, 0, 0, 0, 0, NULL}
/* clang-format on */

/* For hf_connect. */
struct hf_options {
    size_t size; /* sizeof(struct hf_options) */
    /* the path of the agent's socket. Default: $HOLDFAST_SOCKET if it is set, else
     * /run/holdfast/agent.sock if an agent listens there, else
     * $XDG_RUNTIME_DIR/holdfast/agent.sock. A client that has found an agent keeps to that path. So
     * a client that is made while the system's agent does not run may use the user's own agent,
     * which may be of another cell: see hf_socket in admin.h */
    const char *socket;
    int64_t connect_timeout_ns; /* default 5 s; negative (HF_FOREVER): for ever */
    /* NULL, or a buffer of why_size bytes, into which hf_connect writes one line: the text of
     * hf_strerror for its result, or a more exact text. hf_error_text(NULL) says more */
    char *why;
    size_t why_size;
    /* the text that other users see as this process's command, as in `holdfast ls`, at most 160
     * bytes of it. Default: the command line of this process. hf_connect copies the text */
    const char *command;
};

/* For hf_open. Durations in nanoseconds. */
struct hf_lock_options {
    size_t size;      /* sizeof(struct hf_lock_options) */
    uint32_t flags;   /* HF_REENTRANT, HF_BARGING */
    uint32_t permits; /* 0 or 1; more (semaphores) is HF_EINVAL in this version */
    /* for how long the lock stays closed if the process vanishes while it holds; default 1 s, at
     * most 60 s. Negative (HF_NO_LOCK_DELAY): the lock opens at once */
    int64_t lock_delay_ns;
    /* the time from a hold's beginning until it ends by itself; default: no limit. Less than 1 ms
     * is HF_EINVAL */
    int64_t lease_ns;
    /* a hold ends if hf_progress has not been called for this time; default: no limit. Less than 1
     * ms is HF_EINVAL */
    int64_t max_stall_ns;
    /* NULL, or the note on the handle's holds: see hf_set_note. hf_open copies the text */
    const char *note;
};

/* A new hold. hf_acquire fills in this struct, which the caller owns and need not initialise. */
struct hf_hold {
    /* The fencing token. The token of an exclusive hold is above that of every hold before it. The
     * token of a shared hold is not below that of any exclusive hold before it, and is below that
     * of every exclusive hold after it. If the acquire of one hold returned, on any host, before
     * the acquire of another was called, the later hold's token is not below the earlier one's. A
     * shared hold's token need not be the token of any exclusive hold. Store 64 bits: hosts lease
     * ranges of tokens, so a token may be far above the one before it. */
    uint64_t token;
    /* CLOCK_BOOTTIME: the hold's deadline when it began. Each renewal of the lease moves the
     * deadline on, but this member stays the same */
    int64_t deadline_ns;
    uint64_t reserved[6]; /* 0; a later version of the library may give these words a meaning */
};

/* A later version may add kinds of events. A program ignores those that it does not know. */
enum hf_event_kind {
    /* a call that had to wait has got the lock, or an hf_acquire_start has got it, and hf_release
     * has not ended that hold yet */
    HF_EVENT_GRANTED = 1,
    /* the hold is past its deadline and does not count now, but it can count again */
    HF_EVENT_JEOPARDY,
    HF_EVENT_SAFE, /* a hold in jeopardy counts again */
    HF_EVENT_LOST, /* the hold is over; hf_release frees the handle for the next hold */
    /* a lock under a watched prefix has changed; name is its name, lock is NULL */
    HF_EVENT_CHANGED,
    HF_EVENT_FAILED, /* an hf_acquire_start has ended without the lock; error says why */
};

/* Why a handle does not get a lock, or why a hold ended. A later version may have more kinds. For a
 * kind that it does not know, a program can show the text of hf_why. */
enum hf_reason_kind {
    /* of hf_why: nothing is known that prevents a take now; of an event: the reason is not known */
    HF_WHY_NOTHING = 0,
    /* why a handle does not get the lock */
    HF_WHY_HELD,    /* agent, pid, uid, command, note and since_ns describe the first holder */
    HF_WHY_AWAITED, /* no holder is known, and other handles wait for the lock */
    /* a lock-delay keeps the lock closed, for closed_ns more; agent, pid, uid, command and note
     * describe the ended hold for which it is closed, as far as it is known; since_ns: how long ago
     * that hold ended */
    HF_WHY_CLOSED,
    /* no majority of the voters answers this host; text names the voters that do not; since_ns: for
     * how long this host has had no session */
    HF_WHY_NO_MAJORITY,
    HF_WHY_NO_AGENT, /* no agent answers on this host */
    HF_WHY_UNKNOWN,  /* a host that has reported nothing for too long may hold the lock */
    /* why a hold ended; since_ns: how long ago */
    HF_WHY_BROKEN,       /* an administrator broke the hold: the user uid on the host of `agent` */
    HF_WHY_LEASE_OVER,   /* lease_ns was over */
    HF_WHY_STALLED,      /* hf_progress was not called for max_stall_ns */
    HF_WHY_SESSION_LOST, /* this host's session was not renewed: no majority of the voters answered
                            in time, or the agent stood still */
    HF_WHY_AGENT_GONE,   /* this host had no agent that could renew the session */
    HF_WHY_FORGOTTEN,    /* the agent does not know this process any more */
    HF_WHY_DAMAGED, /* the agent found invalid bytes in the memory that it shares with processes */
    HF_WHY_ENDED,   /* the reason is not known */
};

struct hf_event {
    enum hf_event_kind kind;
    hf_lock *lock; /* the handle that the event is about; NULL for HF_EVENT_CHANGED */
    uint64_t token;
    char name[256];
    /* of HF_EVENT_LOST: why the hold ended (hf_why says more). Of other events: 0 */
    enum hf_reason_kind why;
    int32_t error;        /* of HF_EVENT_FAILED: one of the HF_E... codes. Of other events: 0 */
    uint64_t reserved[5]; /* 0; a later version of the library may give these words a meaning */
};

/* For hf_why. The caller sets the size (HF_REASON_INIT), and the library sets everything else. A
 * number that is not known is -1, and a text that is not known is empty. */
struct hf_reason {
    size_t size; /* sizeof(struct hf_reason) */
    enum hf_reason_kind kind;
    uint32_t reserved; /* 0 */
    int64_t since_ns;  /* for how long the reason has existed, or how long ago the hold ended */
    int64_t closed_ns; /* for how long the lock stays closed; 0: it is not closed */
    int64_t pid;
    int64_t uid;
    uint64_t holders; /* the number of known holders */
    uint64_t waiters; /* the number of known waiters, including this handle if it waits */
    /* the agent's name on the host of the holder (HF_WHY_CLOSED: of the last holder), or of the
     * user that broke the hold */
    char agent[40];
    char command[512]; /* the holder's command line, maybe cut off */
    /* the whole reason in one English line, without the lock's name; it may contain bytes of other
     * users' command lines and notes, so remove control characters before you print it */
    char text[1024];
    char note[264]; /* the holder's note (hf_set_note), maybe cut off */
};

/* clang-format off */
#define HF_REASON_INIT \
    {sizeof(struct hf_reason), HF_WHY_NOTHING, 0, 0, 0, 0, 0, 0, 0, "", "", "", ""}
/* clang-format on */

/*
 * Connects to this host's agent. options may be NULL. The caller owns *out, and must pass it to
 * hf_disconnect in the end.
 * HF_ENOAGENT: no agent answered within connect_timeout_ns. HF_EFULL: the agent has no room for one
 * more client, or had no room for one more connection until connect_timeout_ns was over; if the
 * agent's disk is full, options->why says so. HF_EINVAL: also if the socket's path has more than
 * 107 bytes. HF_EPROTO: the answer is invalid, or this process is in another time namespace than
 * the agent: the readings of CLOCK_BOOTTIME in the two namespaces differ, so deadlines would mean
 * nothing, and options->why has the difference. (The call does not notice a difference smaller than
 * the time of the greeting, which is well below a millisecond on an idle machine.) HF_EVERSION,
 * HF_EACCES, HF_ENOMEM.
 */
int hf_connect(const struct hf_options *options, hf_client **out);

/* Releases all holds, closes every lock, and frees the client. NULL is allowed. */
void hf_disconnect(hf_client *client);

/*
 * Opens a handle on the lock of that name. The name has 1 to 255 bytes of UTF-8 without control
 * characters, and need not have been used before. options may be NULL. The caller owns *out, and
 * either passes it to hf_close or leaves it to hf_disconnect. For the first use of a new name on
 * this host, the agent has to write to its disk.
 * HF_EINVAL, HF_ENAMETOOLONG, HF_EACCES, HF_EFULL, HF_ENOAGENT, HF_EUNSERVED, HF_ENOMEM.
 */
int hf_open(hf_client *client, const char *name, const struct hf_lock_options *options,
            hf_lock **out);

/* Releases the handle's hold if it has one, and frees the handle. NULL is allowed. */
void hf_close(hf_lock *lock);

/* Returns the name with which the handle was opened. The string belongs to the handle and lives as
 * long as the handle, also in a forked child. Returns NULL if lock is NULL. */
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
 * Sets the note that other users see beside this process's command while the handle holds the lock:
 * for what it is held, as in "migration 42, ask Ada". It counts from the handle's next acquire on,
 * until it is changed. A hold that the handle has now keeps the note that it began with. text has
 * at most HF_NOTE_MAX bytes of UTF-8; '?' replaces control characters and bytes that are not UTF-8.
 * NULL or "" takes the note away. The library copies the text, and sends it to the agent in this
 * call. So an acquire or a release sends no message because of a note.
 *
 * A note is only for people. Any user who may list the lock can read it. Without an agent the call
 * succeeds, and the library sends the note when it has opened the lock with an agent again. If the
 * agent has no room for one more note, the call succeeds, too. Then the hold is shown without the
 * note, and the agent's log says so (table_full). Any thread may call this function, which waits
 * for the agent's answer for at most 5 s.
 * HF_EINVAL: also if the text is too long. HF_EFORKED.
 */
int hf_set_note(hf_lock *lock, const char *text);

/*
 * Takes the lock. A negative timeout_ns waits for ever, and 0 only tries. out may be NULL.
 * HF_EBUSY: a try failed. HF_EDEADLK: a handle with HF_REENTRANT holds shared and asks for
 * exclusive, and another holder of this host is waiting for the same upgrade. (Two such holders on
 * two hosts wait for each other until their timeouts, so use a timeout for an upgrade.) HF_ELOST:
 * the handle's last hold was lost; call hf_release first. HF_ENOAGENT or HF_EUNSERVED: only a try
 * returns these; a wait goes on until an agent is back, or serves the namespace again.
 * HF_ETIMEDOUT, HF_ECANCELED, HF_EALREADY, HF_EFULL.
 */
int hf_acquire(hf_lock *lock, enum hf_mode mode, int64_t timeout_ns, struct hf_hold *out);

/*
 * Starts to take the lock, and does not wait for it. The start ends in an event: HF_EVENT_GRANTED
 * when the handle has the lock, also if it has it at once, or HF_EVENT_FAILED with the error that
 * hf_acquire would return (HF_ETIMEDOUT, HF_EBUSY, HF_ECANCELED, HF_EFULL). No thread is needed:
 * the program polls hf_event_fd, and hf_next_event ends the start. The call switches the events on,
 * and may have to ask the agent for a place in the queue. timeout_ns is as for hf_acquire.
 *
 * The start waits in the lock's queue, together with waiting threads and other starts: first come,
 * first served. (HF_BARGING has no effect on a start.) From its turn on, the others wait for the
 * program to call hf_next_event. So a program that starts must read its events. An exclusive hold
 * begins, and its lease_ns or max_stall_ns runs, from the turn on, not from the event. If the hold
 * ends while the start is pending, the start goes on at the end of the queue. Without such a limit
 * the others wait until the program calls hf_next_event, closes the handle or ends. A shared hold
 * begins when hf_next_event ends the start.
 *
 * While a start is pending, the handle has no hold: hf_acquire and a second start return HF_EBUSY,
 * hf_release returns HF_ENOTHELD. If the lock is free, the start is never pending: it ends within
 * this call. Otherwise it ends within a call of hf_next_event, which may return the event of
 * another handle first. From then on the handle has its hold, although the program has not read the
 * event: hf_acquire and a second start return HF_EALREADY, and hf_release ends the hold. The event
 * of a hold that hf_release has ended is dropped. So a program that does not want the lock any more
 * calls hf_release, and if that returns HF_ENOTHELD, hf_cancel.
 *
 * hf_cancel ends a pending start with HF_ECANCELED in its event, and hf_close or hf_disconnect end
 * it without an event. A forked child does not have the start. If the process ends, the lock goes
 * to the next waiter. The start goes on when the agent restarts, and while no agent answers.
 * HF_EBUSY: a start is pending, or another thread uses the handle to take the lock. HF_EALREADY:
 * the handle holds, also with HF_REENTRANT. HF_ELOST: the handle's last hold was lost; call
 * hf_release first. HF_ENOMEM, HF_EINVAL, HF_EFORKED.
 */
int hf_acquire_start(hf_lock *lock, enum hf_mode mode, int64_t timeout_ns);

/*
 * Ends the hold. The lock goes at once, without a lock-delay, to the waiter that has waited
 * longest. This also happens if the hold's lease has just ended and the agent has not taken the
 * hold away yet. The call returns HF_ELOST in that case.
 * 0: the hold counted until its release. HF_ENOTHELD: this handle holds nothing. HF_ELOST: the hold
 * had ended before the call. After each of these results the handle is free for the next acquire.
 * HF_EINVAL, HF_EFORKED.
 *
 * The result HF_ELOST is certain. The result 0 is less certain: while more than half of the agent's
 * session_ttl is left (2.5 s by default), this call reads the kernel's coarse clock, because that
 * is cheap. So the call can return 0 for a lease that is over in two cases. In the first case the
 * coarse clock stood still for longer than that half, because the processor that keeps the time was
 * stalled. In the second case the machine was suspended, and the agent has not run since. Where
 * such a result matters, first call hf_remaining_ns, which reads the exact clock, and let the
 * resource check the token.
 */
int hf_release(hf_lock *lock);

/*
 * Changes an exclusive hold to a shared one, and no other exclusive hold can come in between. A
 * shared hold stays as it is. The first call on a handle may have to ask the agent.
 * HF_ENOTHELD, HF_ELOST, HF_ENOAGENT, HF_EFULL, HF_EINVAL, HF_EFORKED.
 */
int hf_downgrade(hf_lock *lock);

/*
 * Reports progress. If the handle has max_stall_ns, its hold goes on for max_stall_ns from now, but
 * not beyond its lease_ns. If the handle has no max_stall_ns, the call only checks whether the hold
 * counts. The call makes no system call. HF_ENOTHELD. HF_ELOST: the hold does not count any more.
 */
int hf_progress(hf_lock *lock);

/*
 * Ends the waits of other threads on this handle: their calls return HF_ECANCELED. Also ends a
 * pending hf_acquire_start. Any thread may call this function. It ends only waits for this lock
 * that have already begun. (hf_acquire_all waits for its locks one after the other, so a wait for
 * this lock may begin later.) It does not end the wait of a thread that is just about to call
 * hf_acquire. To stop such a thread, a program first sets a flag of its own, and then calls
 * hf_cancel until the thread has noticed the flag:
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
 * Finds out why the handle does not get the lock. Call it after hf_acquire has returned HF_EBUSY or
 * HF_ETIMEDOUT, or from another thread while a call waits. The caller owns *out, and sets
 * out->size. The call asks the agent, and waits for at most 1 s for a connection and then for at
 * most 5 s for each of two answers. The result is what the agent knows now, which may have changed
 * since the acquire failed. If the agent does not answer, the call succeeds with the reason
 * HF_WHY_NO_AGENT. The text has the name of a user whose number is in /etc/passwd of this host, and
 * the number of any other user, because the call does not wait for a name service.
 *
 * If the handle's last hold was lost, or does not count now, the result is why that hold ended, and
 * the call does not ask the agent. This is so until the handle takes the lock again, or until
 * hf_acquire returns HF_EBUSY or HF_ETIMEDOUT. Users of the lock's namespace can forge the reason
 * of a loss, but not the loss.
 * HF_EINVAL: also if out->size is not set. HF_EACCES, HF_EPROTO, HF_ENOMEM, HF_EFORKED.
 */
int hf_why(hf_lock *lock, struct hf_reason *out);

/*
 * Takes all of the locks or none. It takes them in byte order of their names, whatever the order of
 * the array, so two callers never wait for each other. out is NULL, or has count elements in the
 * order of the array. HF_EINVAL: also if a name is repeated, or if the locks are of two clients. It
 * has the other errors of hf_acquire, too.
 */
int hf_acquire_all(hf_lock *const *locks, size_t count, enum hf_mode mode, int64_t timeout_ns,
                   struct hf_hold *out);

/*
 * Returns for how many nanoseconds from now the hold still counts, without the lease's next
 * renewal. 0 means that no hold counts: the handle has taken nothing, its hold is lost or in
 * jeopardy, or this is a forked child. The result is never negative, and never an error code. The
 * call reads the exact clock and locks no mutex. It makes no system call on a machine whose vDSO
 * has the clock. A signal handler may call it.
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
 * Asks the agent whether the sequencer's hold is held now. 0: yes. HF_ESTALE: no. HF_EUNKNOWN: the
 * agent cannot find that out now. HF_EINVAL: the text is not a sequencer of this cell. HF_EACCES,
 * HF_ENOAGENT. The answer is true when the agent sends it, and may be outdated when it arrives. So
 * a resource that must never accept an old holder has to remember the highest token that it has
 * accepted, and to refuse lower ones.
 */
int hf_check_sequencer(hf_client *client, const char *sequencer);

/*
 * Returns HF_ESTALE if this host has seen a higher token of that lock, else 0. 0 does not mean that
 * the hold counts. The first call for a namespace asks the agent. Later calls need no message and
 * no system call. HF_EINVAL, HF_EACCES, HF_ENOAGENT.
 */
int hf_check_sequencer_local(hf_client *client, const char *sequencer);

/*
 * From this call on, the client gets an HF_EVENT_CHANGED whenever a lock changes whose name begins
 * with prefix ("" is every lock that this user may see). A second hf_watch of the same prefix has
 * no effect. HF_EINVAL, HF_EACCES, HF_EFULL, HF_ENOAGENT, HF_ENOMEM, HF_EFORKED.
 */
int hf_watch(hf_client *client, const char *prefix);

/*
 * Ends the hf_watch of exactly that prefix. After this call hf_next_event reports only changes of
 * locks under other watched prefixes. This call drops queued changes for this prefix. The call also
 * succeeds if the prefix is not watched, and if the agent does not answer, because the next
 * connection begins without the watch. HF_EINVAL, HF_EFORKED.
 */
int hf_unwatch(hf_client *client, const char *prefix);

/*
 * Returns a descriptor that polls readable when hf_next_event may have an event. The descriptor
 * belongs to the client: the program neither reads nor closes it. The first call of this function
 * or of hf_next_event switches the events on; the library reports no earlier ones. HF_ENOMEM,
 * HF_EINVAL, HF_EFORKED.
 */
int hf_event_fd(hf_client *client);

/*
 * Takes the next event, and never waits. 1: the call filled in the caller's *out. 0: there is no
 * event now; poll the descriptor again. The descriptor may become readable without an event. For
 * one hold JEOPARDY, SAFE and LOST come at most once each. JEOPARDY and LOST come by a timer of the
 * client, whether an agent runs or not. An event reports the present state of a hold, so the call
 * does not report a jeopardy that began and ended since the last call. A loss is always reported:
 * by this call, or earlier by hf_release. HF_ENOMEM, HF_EINVAL, HF_EFORKED.
 */
int hf_next_event(hf_client *client, struct hf_event *out);

/* Returns a short English text for a code. The text is static, and never NULL. */
const char *hf_strerror(int error);

/*
 * Describes the calling thread's last failure in one English sentence, with the value that was
 * wrong: the option, the name with its length and the limit, the socket with the system's error,
 * the hold, or the user. The sentence has no final full stop and no control characters, and its
 * words may change with each version, so a program shows it to people and decides by the code.
 *
 * Each thread has one text, as it has one errno. A call of this library that returns a negative
 * code replaces it, and a call that succeeds leaves it as it is, so ask for it right after the
 * failed call, in the same thread. If client is NULL, the text is of the last failed call,
 * whatever its object was: a client, a lock, or none, as for a hf_connect that failed. If client
 * is not NULL, and the last failed call was about another client or none, the text is empty. The
 * text is also empty if no call of this thread has failed.
 *
 * The result is never NULL. It belongs to the thread, and lives until the next call of this
 * library in the same thread, or until the thread ends. The end of the client does not end it. The
 * text of HF_EBUSY and HF_ETIMEDOUT does not say who has the lock, because only the agent knows
 * that: hf_why asks it. (Calls that cannot return an error, such as hf_remaining_ns, have no text,
 * and neither has a result of the program's own function in hf_list, hf_show or hf_facts.)
 */
const char *hf_error_text(const hf_client *client);

/* Returns the version of the library, such as "0.1.0". The text is static. */
const char *hf_version(void);

#ifdef __cplusplus
}
#endif

#endif
