/*
 * The lock word's protocol: how the processes of one host take, queue for, hand over and release a
 * lock in the region. libholdfast and the agent run the same code; so does the simulator. It makes
 * no system call of its own: the kernel is injected (struct hfi_kernel).
 *
 * Rules (docs/PROTOCOL.md; the model is tests/model/lockword.pml):
 *
 *  1. The process that the word names is the holder, and no other. Taking and handing over is one
 *     swap that installs holder and token together.
 *  2. A hold counts only while the header's epoch is the one read after the swap, its deadline is
 *     ahead, and the word (a reader: its cell) still shows it.
 *  3. Only a holder clears the waiters bit; then it scans the queue once more before it frees the
 *     lock. A waiter stores its cell, then makes sure of the bit: either it sees the bit cleared
 *     and sets it again, or the scan sees its cell (both sides seq_cst).
 *     Under a shared grant nobody can hold the word: the agent clears the bit, with the recall bit
 *     set from the clearing to the second look, so that nobody gets in.
 *  4. A waiter that leaves the queue without the lock marks its cell LEFT, then looks at the word.
 *     If the word names it, it passes the lock on; if the word is free with waiters, it serves
 *     them. A waiter that accepts the lock clears its cell. A handle whose cell is not clear takes
 *     the lock exclusively only through the queue. So a word that names a handle whose cell says
 *     LEFT or PASSED is nobody's.
 *  5. A process that hands the lock to a waiter first notes the waiter in its own holder record
 *     (handing_to) and looks at the cell again. After the swap it looks once more: if the cell says
 *     LEFT, it changes it to PASSED by a swap, and the process that made that swap passes the lock
 *     on. A waiter that joins again finds LEFT (then nobody will pass on a word that names it: the
 *     word is its own) or PASSED (then the word is not its own).
 *     The agent gives a dead client's holder id and seats to nobody while a record names that id.
 *  6. A reader stores its cell, then loads the word; a writer takes the word, then scans the cells
 *     (all seq_cst): one of them sees the other, and the reader backs out.
 *  7. Undoing a take is a release: the token stays used, waiters are served.
 *  8. Readers enter past the waiters bit if their ticket is at most slot.admit. A run of readers
 *     at the head of the queue is admitted together; the last of them to enter finds the writer
 *     behind them at the head and names it.
 */
#ifndef PROTO_LOCKWORD_H
#define PROTO_LOCKWORD_H

#include "proto/region.h"

/* The kernel's part of the protocol. arg is the first argument of each. */
struct hfi_kernel {
    /* Sleeps while *word == expected, at most timeout_ns (negative: no limit). May wake early. */
    void (*sleep)(void *arg, _Atomic uint32_t *word, uint32_t expected, int64_t timeout_ns);
    /* Wakes at most count sleepers on word. */
    void (*wake)(void *arg, _Atomic uint32_t *word, int count);
    /* CLOCK_BOOTTIME, ns. */
    int64_t (*now_ns)(void *arg);
    /* Rings for the agent to look at the slot; its dirty bit is set already. */
    void (*ring)(void *arg);
    void *arg;
};

/* The actor: a holder id in a region. */
struct hfi_actor {
    struct hfi_region *region;
    const struct hfi_kernel *kernel;
    uint32_t holder;
};

/* The outcome of a step of the protocol. */
enum hfi_outcome {
    HFI_HELD = 0,  /* taken; the hold counts */
    HFI_RELEASED,  /* released */
    HFI_OCCUPIED,  /* held by another or awaited by others */
    HFI_DRAINING,  /* the word is ours, readers are still inside */
    HFI_CLOSED,    /* closed by a lock-delay */
    HFI_UNGRANTED, /* the grant is not here, or is being recalled, or its tokens are used up */
    HFI_NO_LEASE,  /* the session is past its deadline */
    HFI_RETIRED,   /* the slot is used up: open the name again */
    HFI_GONE,      /* the word (the cell) no longer shows this hold */
    HFI_CANCELED,
    HFI_TIMED_OUT,
    HFI_DEADLOCK, /* an upgrade that another upgrade or writer already waits for */
    HFI_REFUSED,  /* a try: the agent says that the lock is in use on another host */
};

/* A hold as its holder remembers it. */
struct hfi_held {
    uint64_t token; /* full 63 bits */
    uint64_t cell;  /* a shared hold: the reader's cell as stored; exclusive: 0 */
    uint32_t epoch;
    int64_t deadline_ns; /* the earlier of the lease's deadline and the hold's own, as last known */
};

/* A handle's part in a take. */
struct hfi_request {
    uint32_t slot;
    uint32_t seat; /* HFI_SEAT_NONE: no seat; a seat is needed to wait, to share, and for a limit */
    int64_t limit_ns; /* the hold ends by itself after this time; 0: it does not */
    bool barging;
    bool trying; /* waits only for an idle grant to come from another host */
};

/* Bounds what a wait may do. */
struct hfi_wait_limit {
    int64_t deadline_ns;            /* BOOTTIME; INT64_MAX: for ever */
    const _Atomic uint32_t *cancel; /* the wait ends once this differs from cancel_seen */
    uint32_t cancel_seen;
};

/*
 * Tries to take the lock exclusively, without waiting. Returns HFI_HELD, with *held filled in, or
 * why not. HFI_DRAINING means that the word is ours but readers are still inside: go on with
 * hfi_wait_exclusive, or undo it with hfi_release.
 */
enum hfi_outcome hfi_try_exclusive(const struct hfi_actor *actor, const struct hfi_request *request,
                                   struct hfi_held *held);

/* As hfi_try_exclusive(), for a shared hold. It needs a seat, and the word's cells bit. */
enum hfi_outcome hfi_try_shared(const struct hfi_actor *actor, const struct hfi_request *request,
                                struct hfi_held *held);

/*
 * Waits in the queue and takes the lock. HFI_HELD; or HFI_CANCELED, HFI_TIMED_OUT, HFI_RETIRED,
 * HFI_NO_LEASE (the lease ran out or the region was abandoned: see to the agent, then call again;
 * the place in the queue is kept in *place, which the caller sets to 0 before the first
 * call and gives to hfi_leave if it does not call again); HFI_GONE: the agent took the place away,
 * see to the agent. Then nothing is held.
 *
 * A request that is trying ends with HFI_REFUSED as soon as the agent says so. At its limit it gets
 * HFI_UNGRANTED and keeps its place, as with HFI_NO_LEASE: the caller looks whether to go on.
 */
enum hfi_outcome hfi_wait_exclusive(const struct hfi_actor *actor,
                                    const struct hfi_request *request,
                                    const struct hfi_wait_limit *limit, uint64_t *place,
                                    struct hfi_held *held);
enum hfi_outcome hfi_wait_shared(const struct hfi_actor *actor, const struct hfi_request *request,
                                 const struct hfi_wait_limit *limit, uint64_t *place,
                                 struct hfi_held *held);

/* Leaves the queue. If the lock was handed to this waiter meanwhile, passes it on. */
void hfi_leave(const struct hfi_actor *actor, const struct hfi_request *request, uint64_t *place);

/* Releases an exclusive hold, or undoes a take. HFI_RELEASED, or HFI_GONE. */
enum hfi_outcome hfi_release(const struct hfi_actor *actor, uint32_t slot, uint64_t token);

/* Releases a shared hold. HFI_RELEASED, or HFI_GONE: the cell was taken from it. */
enum hfi_outcome hfi_release_shared(const struct hfi_actor *actor, uint32_t slot, uint32_t seat,
                                    uint64_t cell);

/* Exclusive to shared, atomically. *held is changed. HFI_HELD or HFI_GONE. */
enum hfi_outcome hfi_downgrade(const struct hfi_actor *actor, const struct hfi_request *request,
                               struct hfi_held *held);

/*
 * Shared to exclusive, waiting until the other readers have gone: HFI_HELD, HFI_DEADLOCK, HFI_GONE,
 * HFI_CANCELED, HFI_TIMED_OUT, or why it cannot be taken now. The shared hold stays until HFI_HELD.
 */
enum hfi_outcome hfi_upgrade(const struct hfi_actor *actor, const struct hfi_request *request,
                             const struct hfi_wait_limit *limit, struct hfi_held *held);

/*
 * How long the hold still counts at now_ns; at most 0: it does not. No system call.
 * *gone, if not NULL, says whether that is for good (another epoch, holder or cell).
 */
int64_t hfi_remaining_ns(const struct hfi_region *region, const struct hfi_request *request,
                         uint32_t holder, const struct hfi_held *held, int64_t now_ns, bool *gone);

/*
 * Gives a free lock to the first waiter of its queue, and wakes readers that may enter. Any process
 * may call it at any time. The agent calls it after each death, opening and grant.
 */
void hfi_serve(const struct hfi_actor *actor, uint32_t slot);

/* Asks the agent to look at a slot. */
void hfi_ring(const struct hfi_actor *actor, uint32_t slot);

/* The queue of a slot in order, for showing it: the waiters that no newcomer overtakes. The first
 * `size` seats' numbers into seats[]; how many there are in all is returned. */
size_t hfi_queue(const struct hfi_region *region, uint32_t slot, uint32_t *seats, size_t size);

/* The grant that the first of the queue needs: a shared or an exclusive one, or none: nobody waits.
 * Bargers come behind all others. */
enum hfi_grant hfi_wanted(const struct hfi_region *region, uint32_t slot);

/* What the waiters of a slot's queue want of other hosts. */
struct hfi_awaited {
    bool waits;    /* some wait until they have the lock */
    bool tries;    /* some only try, and were not refused yet */
    uint32_t last; /* the last ticket of those */
};

struct hfi_awaited hfi_awaited(const struct hfi_region *region, uint32_t slot);

/* Returns whether any reader's cell of the slot counts, except that of seat `except`. */
bool hfi_has_readers(const struct hfi_region *region, uint32_t slot, uint32_t except);

/* Calls of the agent alone. Each is one step after which the agent may be killed. */

/*
 * Takes an exclusive hold or a dead holder's word away: closes the lock until closed_until_ns
 * (now or earlier: does not close it but passes it on). false: the word did not name it.
 */
bool hfi_evict(const struct hfi_actor *agent, uint32_t slot, uint32_t holder, uint64_t token,
               int64_t closed_until_ns);

/* As hfi_evict(), for a reader's cell. cell: only this hold; 0: any hold. Returns false if nobody
 * reads there, or if it is another hold. */
bool hfi_evict_reader(const struct hfi_actor *agent, uint32_t slot, uint32_t seat, uint64_t cell,
                      int64_t closed_until_ns);

/* Opens a closed lock and serves it. */
void hfi_open(const struct hfi_actor *agent, uint32_t slot);

/* Takes a dead client's place in the queue away, by marking it LEFT. */
void hfi_bury_waiter(const struct hfi_actor *agent, uint32_t seat);

/* Passes the lock on if its word names this holder although its cell says that it has left: the
 * process that was handing it over died at that moment. false: nothing to do. */
bool hfi_pass_on(const struct hfi_actor *agent, uint32_t slot, uint32_t holder, uint32_t seat);

/* Wakes every sleeper on the slot: the process that died may not have woken a sleeper that it had
 * to wake. */
void hfi_rouse(const struct hfi_actor *agent, uint32_t slot);

/* Sets the recall bit; at most handovers local hand-overs go first. */
void hfi_recall(const struct hfi_actor *agent, uint32_t slot, uint32_t handovers);

/* Under a shared grant nobody can hold the word to clear its waiters bit: takes it away if nobody
 * waits, else bargers would never get in. */
void hfi_forget_waiters(const struct hfi_actor *agent, uint32_t slot);

/* Makes an exclusive grant that only readers use a shared one, and takes the recall bit away. The
 * word's token becomes token_first, of its range, unless it is higher already. false: somebody
 * holds it exclusively, it is closed, or nobody reads. */
bool hfi_share(const struct hfi_actor *agent, uint32_t slot, uint64_t token_first);

/* Takes an idle, recalled lock out of use: mode none. false: it is in use, or closed. */
bool hfi_retract(const struct hfi_actor *agent, uint32_t slot);

/*
 * Puts a grant in force: mode, and tokens first .. last of the same 2^40 block. The word's token
 * becomes first - 1 unless it is higher already, and last if it is above that.
 */
void hfi_grant(const struct hfi_actor *agent, uint32_t slot, enum hfi_grant mode,
               uint64_t token_first, uint64_t token_last);

/* The range that a word's token should be in, as the agent knows it (low bits). */
struct hfi_range {
    uint64_t floor;
    uint64_t last;
};

/*
 * The word's token is none of the range: somebody wrote over it. All of the range counts as used,
 * and the process that the word names holds nothing: the lock closes until then (now or earlier:
 * does not). false: it is one of the range. *before: the word as it was.
 */
bool hfi_use_up(const struct hfi_actor *agent, uint32_t slot, const struct hfi_range *range,
                int64_t closed_until_ns, uint64_t *before);

/* Gives the word the mode that it should have. false: it has. */
bool hfi_set_mode(const struct hfi_actor *agent, uint32_t slot, enum hfi_grant mode);

/* The next ticket comes behind that one, which is in the queue, and nobody is let in past the queue
 * whose ticket was not drawn yet. false: so it was. */
bool hfi_order_queue(const struct hfi_actor *agent, uint32_t slot, uint32_t last_ticket);

/* Tells those who only try, up to that ticket, that the lock is in use on another host. */
void hfi_refuse_tries(const struct hfi_actor *agent, uint32_t slot, uint32_t last_ticket);

/* Wakes any sleeper on a seat, even if nothing shows that there is one. */
void hfi_wake_named(const struct hfi_actor *agent, uint32_t seat);

/* Takes the lock out of use, held or not: its session is over. Waiters stay. */
void hfi_revoke(const struct hfi_actor *agent, uint32_t slot, enum hfi_grant mode);

/* Publishes the lease. Words are changed before. It wakes the sleepers on it if `before`, which the
 * agent published here last (0: nothing yet), has run out: nobody else sleeps there. */
void hfi_publish(const struct hfi_actor *agent, int64_t deadline_ns, uint32_t epoch,
                 uint64_t before);

/* Makes the published lease last until then, if it is of that epoch and ends sooner; wakes the
 * sleepers if it had run out. By any thread of the agent, also while another one publishes. */
void hfi_prolong(struct hfi_header *header, const struct hfi_kernel *kernel, int64_t deadline_ns,
                 uint32_t epoch);

#endif
