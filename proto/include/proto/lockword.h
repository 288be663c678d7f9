/*
 * The lock word's protocol: how the processes of one host take, queue for, hand over and release a
 * lock in the region. libholdfast, the agent and the simulator run the same code. The code makes no
 * system call itself: the caller supplies the calls in struct hfi_kernel.
 *
 * Rules (docs/PROTOCOL.md; the model is tests/model/lockword.pml):
 *
 *  1. The process that the word names is the only holder. To take a lock or to hand it over is one
 *     swap, which installs holder and token together.
 *  2. A hold counts only while three things are true: the header has the epoch that the take read
 *     after its swap, the header's deadline is in the future, and the word (or the reader's cell)
 *     still shows the hold.
 *  3. Only a holder clears the waiters bit, and scans the queue once more before it frees the lock.
 *     A waiter stores its cell, and then checks the bit. Either the waiter sees the bit cleared and
 *     sets it again, or the holder's scan sees the cell (both sides seq_cst). Under a shared grant
 *     no process can hold the word, so the agent clears the bit. The agent keeps the recall bit
 *     set from that moment until its second scan, so that no process takes the lock meanwhile.
 *  4. A waiter that leaves the queue without the lock marks its cell LEFT, then looks at the word.
 *     If the word names this waiter, the waiter passes the lock on. If the word is free and others
 *     wait, the waiter serves them. A waiter that accepts the lock clears its cell. A handle whose
 *     cell is not clear takes the lock exclusively only through the queue. So if a word names a
 *     handle whose cell says LEFT or PASSED, no process holds the lock.
 *  5. A process that hands the lock to a waiter first notes the waiter in its own holder record
 *     (handing_to) and looks at the cell again. After the swap of the word it looks at the cell a
 *     third time. If the cell says LEFT, the process swaps it to PASSED, and the process that
 *     succeeds with this swap passes the lock on. A waiter that joins the queue again finds LEFT or
 *     PASSED. After LEFT, nobody passes on a word that names the waiter, so the word is the
 *     waiter's own. After PASSED, the word is not the waiter's own. The agent does not reuse a dead
 *     client's holder id and seats while a holder record names that id.
 *  6. A reader stores its cell, then loads the word. A writer takes the word, then scans the cells
 *     (all seq_cst). So at least one of the two sees the other. A reader that sees a writer clears
 *     its cell again.
 *  7. To undo a take is a release: the token stays used, and waiters are served.
 *  8. A reader may enter in spite of the waiters bit if its ticket is at most slot.admit. A run of
 *     readers at the head of the queue is admitted together. The last of these readers that enters
 *     finds the next writer at the head of the queue, and hands the word to it.
 */
#ifndef PROTO_LOCKWORD_H
#define PROTO_LOCKWORD_H

#include "proto/region.h"

/* The system calls of the protocol. Each function gets arg as its first argument. */
struct hfi_kernel {
    /* Sleeps while *word == expected, at most timeout_ns (negative: no limit). May wake early. */
    void (*sleep)(void *arg, _Atomic uint32_t *word, uint32_t expected, int64_t timeout_ns);
    /* Wakes at most count sleepers on word. */
    void (*wake)(void *arg, _Atomic uint32_t *word, int count);
    /* CLOCK_BOOTTIME, ns. */
    int64_t (*now_ns)(void *arg);
    /* Sends a RING to the agent. The caller has set the slot's dirty bit. */
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
    HFI_HELD = 0, /* taken; the hold counts */
    HFI_RELEASED, /* released */
    HFI_OCCUPIED, /* another handle holds the lock, or other handles wait for it */
    HFI_DRAINING, /* the word names this actor, but readers still hold */
    HFI_CLOSED,   /* closed by a lock-delay */
    /* the host has no grant for this mode, or the grant is recalled, or its tokens are used up */
    HFI_UNGRANTED,
    HFI_NO_LEASE, /* the session is past its deadline */
    HFI_RETIRED,  /* the slot is used up: open the name again */
    HFI_GONE,     /* the word (or the reader's cell) no longer shows this hold */
    HFI_CANCELED,
    HFI_TIMED_OUT,
    HFI_DEADLOCK, /* of an upgrade: a writer or another upgrade waits until this reader leaves */
    HFI_REFUSED,  /* of a try: the agent has answered that the lock is in use on another host */
    HFI_POLLED,   /* of a polled wait: the wait goes on, and keeps its place in the queue */
};

/* A hold as its holder remembers it. */
struct hfi_held {
    uint64_t token; /* all 63 bits */
    /* the reader's cell of a shared hold, as the reader stored it; 0 for an exclusive one */
    uint64_t cell;
    uint32_t epoch;
    /* the earlier of the lease's deadline and the hold's own limit, when last read */
    int64_t deadline_ns;
};

/* The request of a handle. */
struct hfi_request {
    uint32_t slot;
    /* HFI_SEAT_NONE: none. A handle needs a seat to wait, to share, and for a limit */
    uint32_t seat;
    int64_t limit_ns; /* the hold ends by itself after this time; 0: no limit */
    bool barging;
    bool trying; /* the handle waits only for an idle grant to come from another host */
    /* the wait never sleeps: where another wait would sleep, it ends with HFI_POLLED. Never
     * barging */
    bool polled;
};

/* The limits that end a wait without the lock. */
struct hfi_wait_limit {
    int64_t deadline_ns;            /* CLOCK_BOOTTIME; INT64_MAX: no limit */
    const _Atomic uint32_t *cancel; /* the wait ends once this differs from cancel_seen */
    uint32_t cancel_seen;
    uint64_t *rung; /* of a polled wait: the lock word at its last hfi_ring(); else NULL */
};

/*
 * Tries to take the lock exclusively, without waiting. Returns HFI_HELD with *held filled in, or
 * why it could not take the lock. HFI_DRAINING means that the word names this actor, but readers
 * still hold. The caller must then call hfi_wait_exclusive(), or undo the take with hfi_release().
 */
enum hfi_outcome hfi_try_exclusive(const struct hfi_actor *actor, const struct hfi_request *request,
                                   struct hfi_held *held);

/* Tries to take the lock shared, without waiting. The handle needs a seat, and the word needs its
 * cells bit. */
enum hfi_outcome hfi_try_shared(const struct hfi_actor *actor, const struct hfi_request *request,
                                struct hfi_held *held);

/*
 * Waits in the queue and takes the lock. Returns HFI_HELD, or another outcome without a hold:
 * HFI_CANCELED, HFI_TIMED_OUT or HFI_RETIRED. HFI_NO_LEASE: the lease ran out or the region was
 * abandoned; the caller connects to the agent if necessary, and calls again. HFI_GONE: the agent
 * took the place in the queue away; the caller connects to the agent. *place is the place in the
 * queue. The caller sets *place to 0 before the first call, and passes it to hfi_leave() if it does
 * not call again.
 *
 * A request with `trying` ends with HFI_REFUSED as soon as the agent refuses it. When its time is
 * over, the call returns HFI_UNGRANTED and keeps the place in the queue, as after HFI_NO_LEASE. The
 * caller decides whether to call again.
 *
 * A request with `polled` never sleeps. It returns HFI_POLLED and keeps the place in the queue. A
 * process calls hfi_ring() when it hands this waiter the lock, admits it, or leaves as the last
 * reader. The agent then finds the waiter by hfi_polled_may_go_on(), and pokes its client, which
 * calls again. If the agent ends the hold before that call, it also takes the place away.
 */
enum hfi_outcome hfi_wait_exclusive(const struct hfi_actor *actor,
                                    const struct hfi_request *request,
                                    const struct hfi_wait_limit *limit, uint64_t *place,
                                    struct hfi_held *held);
enum hfi_outcome hfi_wait_shared(const struct hfi_actor *actor, const struct hfi_request *request,
                                 const struct hfi_wait_limit *limit, uint64_t *place,
                                 struct hfi_held *held);

/* Leaves the queue. If another process has handed the lock to this waiter, passes the lock on. */
void hfi_leave(const struct hfi_actor *actor, const struct hfi_request *request, uint64_t *place);

/* Releases an exclusive hold, or undoes a take. Returns HFI_RELEASED or HFI_GONE. */
enum hfi_outcome hfi_release(const struct hfi_actor *actor, uint32_t slot, uint64_t token);

/* Releases a shared hold. Returns HFI_RELEASED, or HFI_GONE if the agent has taken the cell
 * away. */
enum hfi_outcome hfi_release_shared(const struct hfi_actor *actor, uint32_t slot, uint32_t seat,
                                    uint64_t cell);

/* Changes an exclusive hold to a shared one in such a way that no other exclusive hold comes in
 * between. Sets *held to the shared hold. Returns HFI_HELD or HFI_GONE. */
enum hfi_outcome hfi_downgrade(const struct hfi_actor *actor, const struct hfi_request *request,
                               struct hfi_held *held);

/*
 * Waits until the other readers have left, and changes a shared hold to an exclusive one. Returns
 * HFI_HELD, HFI_DEADLOCK, HFI_GONE, HFI_CANCELED, HFI_TIMED_OUT, or why the lock cannot be taken
 * now. After all outcomes except HFI_HELD and HFI_GONE the shared hold goes on.
 */
enum hfi_outcome hfi_upgrade(const struct hfi_actor *actor, const struct hfi_request *request,
                             const struct hfi_wait_limit *limit, struct hfi_held *held);

/*
 * To be called if hfi_upgrade() returned HFI_UNGRANTED: asks the agent for an exclusive grant, and
 * notes in the seat that this shared hold waits for one. The note lasts until the hold ends, or
 * until hfi_ask_no_upgrade(). A process that waits calls this again and again.
 */
void hfi_ask_upgrade(const struct hfi_actor *actor, const struct hfi_request *request,
                     const struct hfi_held *held);
void hfi_ask_no_upgrade(const struct hfi_actor *actor, const struct hfi_request *request,
                        const struct hfi_held *held);

/*
 * Returns for how long the hold still counts at now_ns; 0 or less if it does not count. Makes no
 * system call. If gone is not NULL, sets *gone to whether the hold can never count again, because
 * the epoch, the holder or the cell has changed, or because the hold's own limit is over.
 */
int64_t hfi_remaining_ns(const struct hfi_region *region, const struct hfi_request *request,
                         uint32_t holder, const struct hfi_held *held, int64_t now_ns, bool *gone);

/*
 * Gives a free lock to the first waiter of its queue. If that waiter is a reader, admits and wakes
 * the readers at the head of the queue. Any process may call it at any time. The agent calls it
 * after each death, opening and grant.
 */
void hfi_serve(const struct hfi_actor *actor, uint32_t slot);

/* Sets the slot's dirty bit and rings, so that the agent looks at the slot. */
void hfi_ring(const struct hfi_actor *actor, uint32_t slot);

/* Lists the queue of a slot in order, for display. The list has the waiters that no later waiter
 * can overtake. Writes the first `size` seat numbers into seats[], and returns the number of all
 * such waiters. */
size_t hfi_queue(const struct hfi_region *region, uint32_t slot, uint32_t *seats, size_t size);

/* Returns the grant that the first waiter of the queue needs: shared, exclusive, or none if nobody
 * waits. Bargers come after all other waiters. */
enum hfi_grant hfi_wanted(const struct hfi_region *region, uint32_t slot);

/* Which waiters of a slot's queue still want a grant from other hosts. */
struct hfi_awaited {
    bool waits;    /* a waiter waits until it gets the lock */
    bool tries;    /* a waiter only tries, and has not been refused yet */
    uint32_t last; /* the highest ticket of the waiters that only try */
};

struct hfi_awaited hfi_awaited(const struct hfi_region *region, uint32_t slot);

/* Returns whether a reader's cell of the slot shows a hold, apart from the cell of seat
 * `except`. */
bool hfi_has_readers(const struct hfi_region *region, uint32_t slot, uint32_t except);

/* Returns whether a reader of the slot waits for an exclusive grant (hfi_ask_upgrade()). */
bool hfi_has_upgrades(const struct hfi_region *region, uint32_t slot);

/* Only the agent calls the functions below. If it is killed within one of them, the next agent can
 * go on from the state of the region. */

/*
 * Ends the exclusive hold of that holder and closes the lock until closed_until_ns. If that time is
 * not in the future, passes the lock on instead. Returns false if the word does not name that
 * holder with that token.
 */
bool hfi_evict(const struct hfi_actor *agent, uint32_t slot, uint32_t holder, uint64_t token,
               int64_t closed_until_ns);

/* Ends a reader's hold as hfi_evict() ends an exclusive one. cell: only the hold with this cell; 0:
 * any hold. Returns false if the seat has no such hold. */
bool hfi_evict_reader(const struct hfi_actor *agent, uint32_t slot, uint32_t seat, uint64_t cell,
                      int64_t closed_until_ns);

/* Opens a closed lock and serves it. */
void hfi_open(const struct hfi_actor *agent, uint32_t slot);

/*
 * To be called before hfi_evict(), if that holder has a seat. A process that has not noticed yet
 * that the lock was handed to it still has its place in the queue. Takes this place away, so that
 * the lock is not handed to the process again, ahead of processes that can run. Does nothing if the
 * process has noticed its hold, even if it has another place by now.
 */
void hfi_unseat(const struct hfi_actor *agent, uint32_t slot, uint32_t seat, uint32_t holder,
                uint64_t token);

/* Removes a dead client from the queue, by marking the seat's wait cell LEFT. */
void hfi_bury_waiter(const struct hfi_actor *agent, uint32_t seat);

/* Returns whether a waiter has its place in this seat. A process that has the lock, and has noticed
 * it, has no place. */
bool hfi_is_queued(const struct hfi_region *region, uint32_t seat);

/* Returns whether a polled waiter has its place in this seat. */
bool hfi_is_polled(const struct hfi_region *region, uint32_t seat);

/* Returns whether a polled waiter has its place in this seat of the slot, and has to call again:
 * the word names it, it may enter as a reader, its try is refused, or the slot is used up. */
bool hfi_polled_may_go_on(const struct hfi_region *region, uint32_t slot, uint32_t seat);

/* Passes the lock on if its word names this holder although the holder's wait cell says that it has
 * left the queue. This happens if a process ends while it is handing the lock over. Returns false
 * if there is nothing to do. */
bool hfi_pass_on(const struct hfi_actor *agent, uint32_t slot, uint32_t holder, uint32_t seat);

/* Wakes every process that waits for the lock, because a process may have ended before it woke a
 * waiter that it had to wake. */
void hfi_rouse(const struct hfi_actor *agent, uint32_t slot);

/* Sets the recall bit. At most `handovers` more local hand-overs may follow before the grant goes
 * back. */
void hfi_recall(const struct hfi_actor *agent, uint32_t slot, uint32_t handovers);

/* Clears the waiters bit under a shared grant if nobody waits. No process can do that, because
 * under such a grant no process can hold the word (rule 3). With the bit set, bargers could never
 * take the lock. */
void hfi_forget_waiters(const struct hfi_actor *agent, uint32_t slot);

/* Changes an exclusive grant that only readers use to a shared one, and clears the recall bit. The
 * word's token becomes token_first, which is in the grant's range, if it is lower. Returns false if
 * the lock is held exclusively or closed, or if nobody reads. */
bool hfi_share(const struct hfi_actor *agent, uint32_t slot, uint64_t token_first);

/* Sets the mode of an idle, recalled lock to none, so that no process can take it. Returns false if
 * the lock is in use or closed. */
bool hfi_retract(const struct hfi_actor *agent, uint32_t slot);

/*
 * Puts a grant in force: its mode, and its tokens from token_first to token_last, which are in one
 * block of 2^40. The word's token is raised to token_first - 1 if it is lower, and reduced to
 * token_last if it is higher. A word that names a holder keeps its token.
 */
void hfi_grant(const struct hfi_actor *agent, uint32_t slot, enum hfi_grant mode,
               uint64_t token_first, uint64_t token_last);

/* The range in which a word's token should be, by the agent's own knowledge (low 40 bits). */
struct hfi_range {
    uint64_t floor;
    uint64_t last;
};

/*
 * To be called for a word whose token may be outside of the range because a process has overwritten
 * the word. If the token is in the range, returns false. Otherwise the whole range counts as used.
 * If the word names a process, the hold of that process ends, and the lock is closed until
 * closed_until_ns, if that is in the future. *before: the word before the change.
 */
bool hfi_use_up(const struct hfi_actor *agent, uint32_t slot, const struct hfi_range *range,
                int64_t closed_until_ns, uint64_t *before);

/* Sets the word's mode. Returns false if the word has this mode already. */
bool hfi_set_mode(const struct hfi_actor *agent, uint32_t slot, enum hfi_grant mode);

/* Repairs the tickets of a slot: makes the next ticket higher than last_ticket, which is in the
 * queue, and makes `admit` lower than every ticket that is not drawn yet. Returns false if both
 * numbers were right already. */
bool hfi_order_queue(const struct hfi_actor *agent, uint32_t slot, uint32_t last_ticket);

/* Refuses the tries with tickets up to last_ticket, because the lock is in use on another host. */
void hfi_refuse_tries(const struct hfi_actor *agent, uint32_t slot, uint32_t last_ticket);

/* Wakes a sleeper on the seat, even if the seat does not show one. */
void hfi_wake_named(const struct hfi_actor *agent, uint32_t seat);

/* Ends all holds of the lock, because its session is over, and sets the word's mode. Waiters stay
 * in the queue. */
void hfi_revoke(const struct hfi_actor *agent, uint32_t slot, enum hfi_grant mode);

/* Publishes the lease. The caller must have changed the words before. `before` is the lease that
 * the agent last published in this region; 0: none. Honest processes sleep on the lease only after
 * it has run out, so the call wakes sleepers only if `before` has run out. */
void hfi_publish(const struct hfi_actor *agent, int64_t deadline_ns, uint32_t epoch,
                 uint64_t before);

/* Prolongs the published lease until deadline_ns, if it has that epoch and ends sooner. Wakes the
 * sleepers if the lease had run out. Any thread of the agent may call this function, also while
 * another thread publishes. */
void hfi_prolong(struct hfi_header *header, const struct hfi_kernel *kernel, int64_t deadline_ns,
                 uint32_t epoch);

#endif
