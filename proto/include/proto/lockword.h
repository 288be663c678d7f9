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
    /* Rings, so that the agent looks at the slot; its dirty bit is set already. */
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
    HFI_DRAINING,  /* the word names this actor, but readers still hold */
    HFI_CLOSED,    /* closed by a lock-delay */
    HFI_UNGRANTED, /* the host has no grant, or it is being recalled, or its tokens are used up */
    HFI_NO_LEASE,  /* the session is past its deadline */
    HFI_RETIRED,   /* the slot is used up: open the name again */
    HFI_GONE,      /* the word (the cell) no longer shows this hold */
    HFI_CANCELED,
    HFI_TIMED_OUT,
    HFI_DEADLOCK, /* an upgrade that another upgrade or writer already waits for */
    HFI_REFUSED,  /* a try: the agent has answered that the lock is in use on another host */
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
    bool trying; /* the handle waits only for an idle grant to come from another host */
};

/* Bounds what a wait may do. */
struct hfi_wait_limit {
    int64_t deadline_ns;            /* BOOTTIME; INT64_MAX: for ever */
    const _Atomic uint32_t *cancel; /* the wait ends once this differs from cancel_seen */
    uint32_t cancel_seen;
};

/*
 * Tries to take the lock exclusively, without waiting. Returns HFI_HELD, with *held filled in, or
 * why not. HFI_DRAINING means that the word names this actor, but readers still hold: go on with
 * hfi_wait_exclusive, or undo the take with hfi_release.
 */
enum hfi_outcome hfi_try_exclusive(const struct hfi_actor *actor, const struct hfi_request *request,
                                   struct hfi_held *held);

/* Does the same for a shared hold. It needs a seat, and the word's cells bit. */
enum hfi_outcome hfi_try_shared(const struct hfi_actor *actor, const struct hfi_request *request,
                                struct hfi_held *held);

/*
 * Waits in the queue and takes the lock. Returns HFI_HELD, or another outcome without a hold:
 * HFI_CANCELED, HFI_TIMED_OUT or HFI_RETIRED. HFI_NO_LEASE: the lease ran out or the region was
 * abandoned; the caller connects to the agent if necessary, and calls again. HFI_GONE: the agent
 * took the place in the queue away; the caller connects to the agent. The place in the queue is
 * kept in *place. The caller sets *place to 0 before the first call, and passes it to hfi_leave()
 * if it does not call again.
 *
 * A request with `trying` ends with HFI_REFUSED as soon as the agent refuses it. At its limit it
 * returns HFI_UNGRANTED and keeps its place, as with HFI_NO_LEASE; the caller decides whether to go
 * on.
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

/* Releases an exclusive hold, or undoes a take. Returns HFI_RELEASED or HFI_GONE. */
enum hfi_outcome hfi_release(const struct hfi_actor *actor, uint32_t slot, uint64_t token);

/* Releases a shared hold. Returns HFI_RELEASED; or HFI_GONE, if the cell was taken away. */
enum hfi_outcome hfi_release_shared(const struct hfi_actor *actor, uint32_t slot, uint32_t seat,
                                    uint64_t cell);

/* Changes an exclusive hold to a shared one, atomically. Changes *held. Returns HFI_HELD or
 * HFI_GONE. */
enum hfi_outcome hfi_downgrade(const struct hfi_actor *actor, const struct hfi_request *request,
                               struct hfi_held *held);

/*
 * Changes a shared hold to an exclusive one, after waiting until the other readers have gone.
 * Returns HFI_HELD, HFI_DEADLOCK, HFI_GONE, HFI_CANCELED, HFI_TIMED_OUT, or why the lock cannot be
 * taken now. The shared hold stays until HFI_HELD.
 */
enum hfi_outcome hfi_upgrade(const struct hfi_actor *actor, const struct hfi_request *request,
                             const struct hfi_wait_limit *limit, struct hfi_held *held);

/*
 * To be called if hfi_upgrade() returned HFI_UNGRANTED: asks the agent for a grant to write under,
 * and notes in the seat that this shared hold waits for it. The note lasts until the hold ends, or
 * until hfi_ask_no_upgrade(). A process that waits calls this again and again.
 */
void hfi_ask_upgrade(const struct hfi_actor *actor, const struct hfi_request *request,
                     const struct hfi_held *held);
void hfi_ask_no_upgrade(const struct hfi_actor *actor, const struct hfi_request *request,
                        const struct hfi_held *held);

/*
 * Returns how long the hold still counts at now_ns; 0 or less: it does not count. Makes no system
 * call. If gone is not NULL, *gone is set to whether that is final (another epoch, holder or cell).
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

/* Finds the queue of a slot in order, for display: the waiters that no newcomer overtakes. Writes
 * the numbers of the first `size` seats into seats[], and returns how many there are in all. */
size_t hfi_queue(const struct hfi_region *region, uint32_t slot, uint32_t *seats, size_t size);

/* Returns the grant that the first waiter of the queue needs: shared, exclusive, or none if nobody
 * waits. Bargers come behind all others. */
enum hfi_grant hfi_wanted(const struct hfi_region *region, uint32_t slot);

/* Which waiters of a slot's queue wait for a grant of another host. */
struct hfi_awaited {
    bool waits;    /* some wait until they get the lock */
    bool tries;    /* some only try, and have not been refused yet */
    uint32_t last; /* the last ticket of those that only try */
};

struct hfi_awaited hfi_awaited(const struct hfi_region *region, uint32_t slot);

/* Returns whether any reader's cell of the slot counts, except that of seat `except`. */
bool hfi_has_readers(const struct hfi_region *region, uint32_t slot, uint32_t except);

/* Returns whether a reader of the slot waits for a grant to write under. */
bool hfi_has_upgrades(const struct hfi_region *region, uint32_t slot);

/* Calls of the agent alone. Each is one step after which the agent may be killed. */

/*
 * Ends an exclusive hold, or the hold of a dead holder: closes the lock until closed_until_ns. If
 * that time is not in the future, passes the lock on instead. Returns false if the word did not
 * name that holder.
 */
bool hfi_evict(const struct hfi_actor *agent, uint32_t slot, uint32_t holder, uint64_t token,
               int64_t closed_until_ns);

/* Does the same for a reader's cell. cell: ends only this hold; 0: ends any hold. Returns false if
 * nobody reads there, or if it is another hold. */
bool hfi_evict_reader(const struct hfi_actor *agent, uint32_t slot, uint32_t seat, uint64_t cell,
                      int64_t closed_until_ns);

/* Opens a closed lock and serves it. */
void hfi_open(const struct hfi_actor *agent, uint32_t slot);

/* Takes a dead client out of the queue, by marking its place LEFT. */
void hfi_bury_waiter(const struct hfi_actor *agent, uint32_t seat);

/* Passes the lock on if its word names this holder although the holder's cell says that it has
 * left: the process that was handing the lock over ended at that moment. Returns false if there is
 * nothing to do. */
bool hfi_pass_on(const struct hfi_actor *agent, uint32_t slot, uint32_t holder, uint32_t seat);

/* Wakes every sleeper on the slot, since a process that ended may not have woken a sleeper that it
 * had to wake. */
void hfi_rouse(const struct hfi_actor *agent, uint32_t slot);

/* Sets the recall bit; at most `handovers` local hand-overs come before the give-back. */
void hfi_recall(const struct hfi_actor *agent, uint32_t slot, uint32_t handovers);

/* Clears the waiters bit under a shared grant if nobody waits: no process can hold the word there
 * and clear the bit. Otherwise bargers would never get in. */
void hfi_forget_waiters(const struct hfi_actor *agent, uint32_t slot);

/* Changes an exclusive grant that only readers use to a shared one, and clears the recall bit. The
 * word's token becomes token_first, which lies in its range, unless it is higher already. Returns
 * false if the lock is held exclusively or closed, or if nobody reads. */
bool hfi_share(const struct hfi_actor *agent, uint32_t slot, uint64_t token_first);

/* Takes an idle, recalled lock out of use (mode none). Returns false if it is in use or closed. */
bool hfi_retract(const struct hfi_actor *agent, uint32_t slot);

/*
 * Puts a grant in force: mode, and tokens first .. last of the same 2^40 block. The word's token
 * becomes first - 1 unless it is higher already, and last if it is above that.
 */
void hfi_grant(const struct hfi_actor *agent, uint32_t slot, enum hfi_grant mode,
               uint64_t token_first, uint64_t token_last);

/* The range in which a word's token should be, as the agent knows it (low bits). */
struct hfi_range {
    uint64_t floor;
    uint64_t last;
};

/*
 * To be called for a word whose token may be outside of the range because a process wrote over it.
 * If the token is outside, the whole range counts as used, and the process that the word names
 * holds nothing: the lock is closed until closed_until_ns, if that is in the future. Returns false
 * if the token is in the range. *before: the word as it was.
 */
bool hfi_use_up(const struct hfi_actor *agent, uint32_t slot, const struct hfi_range *range,
                int64_t closed_until_ns, uint64_t *before);

/* Gives the word the mode that it should have. Returns false if it has it already. */
bool hfi_set_mode(const struct hfi_actor *agent, uint32_t slot, enum hfi_grant mode);

/* Makes sure that the next ticket comes behind that ticket, which is in the queue, and that no
 * ticket is admitted that was not drawn yet. Returns false if nothing had to be changed. */
bool hfi_order_queue(const struct hfi_actor *agent, uint32_t slot, uint32_t last_ticket);

/* Refuses the tries up to that ticket: the lock is in use on another host. */
void hfi_refuse_tries(const struct hfi_actor *agent, uint32_t slot, uint32_t last_ticket);

/* Wakes any sleeper on a seat, even if nothing shows that there is one. */
void hfi_wake_named(const struct hfi_actor *agent, uint32_t seat);

/* Takes the lock out of use, whether it is held or not, because its session is over. Waiters
 * stay. */
void hfi_revoke(const struct hfi_actor *agent, uint32_t slot, enum hfi_grant mode);

/* Publishes the lease. The caller has changed the words before. Wakes the sleepers on the lease if
 * `before` has run out, since honest processes sleep only then. `before` is the lease that the
 * agent published here last; 0: none yet. */
void hfi_publish(const struct hfi_actor *agent, int64_t deadline_ns, uint32_t epoch,
                 uint64_t before);

/* Prolongs the published lease until that time, if it has that epoch and ends sooner. Wakes the
 * sleepers if it had run out. Any thread of the agent may call this, also while another thread
 * publishes. */
void hfi_prolong(struct hfi_header *header, const struct hfi_kernel *kernel, int64_t deadline_ns,
                 uint32_t epoch);

#endif
