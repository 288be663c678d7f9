/*
 * Waiting for a lock: joining the queue, sleeping, draining readers and leaving the queue. Also
 * downgrade and upgrade.
 *
 * A waiter holds if and only if the word names it. It keeps its place in the queue until the hold
 * counts: the readers have left and the lease is in force. So a waiter still has its place if the
 * agent takes the word away before the hold counts.
 */
#include "lockword_private.h"

/* How often a waiter looks at the word before it sleeps. 100 looks take about as long as a
 * hand-over between two running processes; docs/results/method.md has the measurements. */
enum { SPINS = 100 };

/* How often in a row a waiter may begin again at once without a check of its limit. Without this
 * bound a waiter would loop for ever if a process kept overwriting the reader's cell, or the hold's
 * deadline with a past time. */
enum { HASTY_MAX = 100 };

static inline void spin_pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Makes sure that a bit of the word is set. */
static void ensure_bit(_Atomic uint64_t *word, uint64_t bit)
{
    /* seq_cst: this load follows the store of the wait cell; pairs with clear_waiters_bit() (rule
     * 3) */
    if (!(atomic_load(word) & bit)) {
        atomic_fetch_or(word, bit);
    }
}

static void release_if_named(const struct hfi_actor *actor, uint32_t slot)
{
    uint64_t word = atomic_load(word_of(actor, slot));
    if (hfi_word_holder(word) == actor->holder) {
        hfi_release(actor, slot, hfi_token(0, word));
    }
}

/* Takes a place in the queue. As soon as the cell says WAITING, no later waiter can overtake this
 * one. */
static void queue_join(const struct hfi_actor *actor, const struct hfi_request *request,
                       bool shared, uint64_t *place)
{
    struct hfi_region *region = actor->region;
    struct hfi_slot *slot = &region->slots[request->slot];
    struct hfi_seat *seat = hfi_seat(region, request->seat);
    _Atomic uint64_t *wait = hfi_seat_wait(region, request->seat);
    atomic_store_explicit(&seat->limit_ns, (uint64_t)request->limit_ns, memory_order_relaxed);
    atomic_store_explicit(&seat->since, since_now(actor->kernel->now_ns(actor->kernel->arg)),
                          /* relaxed, both: the store of the cell below publishes these values */
                          memory_order_relaxed);
    /* seq_cst: the tickets determine the order of the queue */
    uint64_t ticket = atomic_fetch_add(&slot->ticket_next, 1);
    uint64_t value = ticket << HFI_WAIT_TICKET_SHIFT | (shared ? HFI_WAIT_SHARED : 0) |
                     (request->barging ? HFI_WAIT_BARGING : 0) |
                     (request->trying ? HFI_WAIT_TRYING : 0) |
                     (request->polled ? HFI_WAIT_POLLED : 0);
    /* relaxed: the agent refuses only a place that it has read in the cell */
    atomic_store_explicit(&seat->refused, 0, memory_order_relaxed);
    /* seq_cst: the store of the cell comes before the loads of the waiters bit (rule 3) and of the
     * word (rule 5) */
    uint64_t before = atomic_exchange(wait, value | HFI_WAIT_JOINING);
    if (before & HFI_WAIT_PASSED) {
        /* another process is passing on a word that names this waiter, and this process helps it */
        release_if_named(actor, request->slot);
    }
    ensure_bit(word_of(actor, request->slot), request->barging ? HFI_W_BARGERS : HFI_W_WAITERS);
    *place = value | HFI_WAIT_WAITING;
    atomic_store(wait, *place);
}

void hfi_leave(const struct hfi_actor *actor, const struct hfi_request *request, uint64_t *place)
{
    if (!*place) {
        return;
    }
    /* a barging waiter is never handed the lock, so its cell need not say LEFT */
    bool barging = *place & HFI_WAIT_BARGING;
    uint64_t left = barging ? 0
                            : (*place & ~(uint64_t)(HFI_WAIT_WAITING | HFI_WAIT_JOINING)) |
                                  HFI_WAIT_LEFT;
    *place = 0;
    /* seq_cst: the store of the cell comes before the load of the word (rule 4) */
    atomic_store(hfi_seat_wait(actor->region, request->seat), left);
    uint64_t word = atomic_load(word_of(actor, request->slot));
    if (hfi_word_holder(word) == actor->holder) {
        hfi_release(actor, request->slot, hfi_token(0, word));
    } else if (word & HFI_W_WAITERS) {
        hfi_serve(actor, request->slot);
    }
    if (barging) { /* this waiter may have received the only wake-up, so it wakes another barger */
        wake_slot(actor, request->slot, 1);
    }
}

/* Returns why a wait has to end now, or HFI_HELD if it may go on. */
static enum hfi_outcome wait_over(const struct hfi_wait_limit *limit, int64_t now_ns)
{
    if (limit->cancel && atomic_load(limit->cancel) != limit->cancel_seen) {
        return HFI_CANCELED;
    }
    return now_ns >= limit->deadline_ns ? HFI_TIMED_OUT : HFI_HELD;
}

/* Returns whether the region is not abandoned and its lease is in force. *left_ns: for how long the
 * lease is in force. */
static bool in_force(const struct hfi_region *region, uint64_t lease, int64_t now_ns,
                     int64_t *left_ns)
{
    *left_ns = hfi_lease_left_ns(region->trust, lease, now_ns);
    return *left_ns > 0 && !atomic_load(&region->header->abandoned);
}

/*
 * A polled waiter looks at the lock only while the lease is in force. Without a lease it could not
 * get the lock, but it could notify the agent, because it serves the polled readers ahead of it or
 * changes a watched word. Then the agent would poke the client, which would look again at once, and
 * so on until the lease is renewed.
 */
static bool lease_is_in_force(const struct hfi_actor *actor)
{
    int64_t left_ns = 0;
    return in_force(actor->region, atomic_load(&actor->region->header->lease),
                    actor->kernel->now_ns(actor->kernel->arg), &left_ns);
}

static int64_t shorter(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Spins for a while, and then sleeps on the seat's futex. Returns as soon as the count of wakes in
 * seat->wake differs from that in `seen`. */
static void sleep_on_seat(const struct hfi_actor *actor, struct hfi_seat *seat, uint32_t seen,
                          int64_t timeout_ns)
{
    for (unsigned spin = 0; spin < SPINS; spin++) {
        if (atomic_load_explicit(&seat->wake, memory_order_relaxed) >> 1 != seen >> 1) {
            return; /* relaxed is enough: after this return the wait loop looks at the lock's word
                     * again, with seq_cst */
        }
        spin_pause();
    }
    /* seq_cst: pairs with the fetch_add in wake_seat(). Either the waker sees this bit, or this
     * thread sees the new count. */
    uint32_t before = atomic_fetch_or(&seat->wake, 1);
    if (before >> 1 == seen >> 1) {
        HF_PROBE3(park, seat, actor->holder, timeout_ns);
        actor->kernel->sleep(actor->kernel->arg, &seat->wake, before | 1, timeout_ns);
        HF_PROBE2(wake, seat, actor->holder);
    }
    atomic_fetch_and(&seat->wake, ~UINT32_C(1));
}

static void sleep_on_slot(const struct hfi_actor *actor, struct hfi_slot *slot, uint32_t seen,
                          int64_t timeout_ns)
{
    for (unsigned spin = 0; spin < SPINS; spin++) {
        if (atomic_load_explicit(&slot->wake, memory_order_relaxed) != seen) {
            return;
        }
        spin_pause();
    }
    actor->kernel->sleep(actor->kernel->arg, &slot->wake, seen, timeout_ns);
}

/*
 * To be called when the word names this actor. Waits until the readers have left and the lock is
 * open, and fills in *held. shared: the actor's own shared hold in an upgrade, else NULL. Returns
 * HFI_GONE if the agent has taken the word away, or if the shared hold has ended.
 */
static enum hfi_outcome drain(const struct hfi_actor *actor, const struct hfi_request *request,
                              const struct hfi_wait_limit *limit, const struct hfi_held *shared,
                              struct hfi_held *held)
{
    struct hfi_region *region = actor->region;
    struct hfi_slot *slot = &region->slots[request->slot];
    uint32_t except = shared ? request->seat : HFI_SEAT_NONE;
    uint64_t first = atomic_load(word_of(actor, request->slot));
    uint64_t top = atomic_load_explicit(&slot->token_top, memory_order_relaxed);
    for (;;) {
        /* the loop ends with HFI_HELD or HFI_GONE, or by the limit or the lease */
        /* seq_cst: this load comes before the loads of the cells and of the word below */
        uint32_t seen = atomic_load(&slot->wake);
        bool readers = (first & HFI_W_CELLS) && hfi_has_readers(region, request->slot, except);
        /* seq_cst: the lease and the word are loaded after the readers have left (rule 2) */
        uint64_t lease = atomic_load(&region->header->lease);
        uint64_t word = atomic_load(word_of(actor, request->slot));
        if (hfi_word_holder(word) != actor->holder || !hfi_word_names(word, actor->holder, first)) {
            return HFI_GONE;
        }
        int64_t now_ns = actor->kernel->now_ns(actor->kernel->arg);
        int64_t left_ns = 0;
        if (!in_force(region, lease, now_ns, &left_ns)) {
            return HFI_NO_LEASE;
        }
        if (shared) {
            bool gone = false;
            int64_t own_ns = hfi_remaining_ns(region, request, actor->holder, shared, now_ns,
                                              &gone);
            /* own_ns can be negative if the header's lease has become shorter since the check
             * above; a negative time-out would mean no limit */
            if (gone || own_ns <= 0) {
                return gone ? HFI_GONE : HFI_NO_LEASE;
            }
            left_ns = shorter(left_ns, own_ns);
        }
        if (!readers && !(word & HFI_W_CLOSED)) {
            held->token = hfi_token(top, word);
            held->cell = 0;
            held->epoch = hfi_lease_epoch(lease);
            held->deadline_ns = hfi_lease_deadline_ns(lease);
            if (request->limit_ns) {
                int64_t own_ns = (int64_t)atomic_load(
                    &hfi_seat(region, request->seat)->deadline_ns);
                held->deadline_ns = shorter(held->deadline_ns, own_ns);
            }
            /* The hold begins here, and not when this actor's id came into the word. relaxed:
             * `since` is only shown to people */
            atomic_store_explicit(&slot->since, since_now(now_ns), memory_order_relaxed);
            return HFI_HELD;
        }
        enum hfi_outcome why = wait_over(limit, now_ns);
        if (why != HFI_HELD || request->polled) {
            return why != HFI_HELD ? why : HFI_POLLED;
        }
        sleep_on_slot(actor, slot, seen, shorter(left_ns, limit->deadline_ns - now_ns));
    }
}

/*
 * Clears the wait cell of a waiter that holds the lock. Returns false if the agent has taken away
 * the place of a polled waiter. The agent does that if the hold's limit is over, or the hold was
 * broken, before the program has noticed the hold. The hold ends together with the place, so that
 * the lock is not handed to the same waiter again.
 */
static bool place_clear(const struct hfi_actor *actor, const struct hfi_request *request,
                        uint64_t *place)
{
    _Atomic uint64_t *wait = hfi_seat_wait(actor->region, request->seat);
    uint64_t mine = *place;
    *place = 0;
    if (request->polled) {
        /* seq_cst: pairs with the swap in hfi_bury_waiter(); one of the two succeeds */
        return atomic_compare_exchange_strong(wait, &mine, 0);
    }
    atomic_store(wait, 0);
    return true;
}

/* To be called when the word names this actor. Waits until the readers have left. Leaves the queue
 * when the actor has the hold, or when the wait's limit is over. */
static enum hfi_outcome settle(const struct hfi_actor *actor, const struct hfi_request *request,
                               const struct hfi_wait_limit *limit, uint64_t *place,
                               struct hfi_held *held)
{
    enum hfi_outcome outcome = drain(actor, request, limit, NULL, held);
    if (outcome == HFI_HELD) {
        if (!place_clear(actor, request, place)) {
            return HFI_GONE;
        }
        bool gone = false;
        int64_t now_ns = actor->kernel->now_ns(actor->kernel->arg);
        if (hfi_remaining_ns(actor->region, request, actor->holder, held, now_ns, &gone) <= 0) {
            /* the hold's own limit ended the hold before this process ran */
            hfi_release(actor, request->slot, held->token);
            return HFI_GONE;
        }
    } else if (outcome == HFI_CANCELED || outcome == HFI_TIMED_OUT) {
        hfi_leave(actor, request, place);
    }
    return outcome;
}

/* To be called when the limit of a wait is over, or when the agent has refused a try. Leaves the
 * queue. Exception: a try whose time is over keeps its place, because the agent may still answer
 * the try. */
static enum hfi_outcome end_wait(const struct hfi_actor *actor, const struct hfi_request *request,
                                 enum hfi_outcome why, uint64_t *place)
{
    if (why == HFI_TIMED_OUT && request->trying) {
        return HFI_UNGRANTED;
    }
    hfi_leave(actor, request, place);
    return why;
}

/* Ends the wait if its limit is over. Returns HFI_GONE if the wait goes on. The function checks the
 * limit only after HASTY_MAX calls without a check; *hasty counts these calls. */
static enum hfi_outcome give_up(const struct hfi_actor *actor, const struct hfi_request *request,
                                const struct hfi_wait_limit *limit, uint64_t *place,
                                unsigned *hasty)
{
    if (++*hasty <= HASTY_MAX) {
        return HFI_GONE;
    }
    *hasty = 0;
    enum hfi_outcome why = wait_over(limit, actor->kernel->now_ns(actor->kernel->arg));
    if (why == HFI_HELD) {
        return HFI_GONE;
    }
    return end_wait(actor, request, why, place);
}

/* Takes a free word for a barging waiter. Other bargers may still sleep, so the bargers bit stays
 * set. */
static bool barge(const struct hfi_actor *actor, const struct hfi_request *request, uint64_t seen)
{
    if (request->limit_ns) {
        int64_t end = actor->kernel->now_ns(actor->kernel->arg) + request->limit_ns;
        atomic_store(&hfi_seat(actor->region, request->seat)->deadline_ns, (uint64_t)end);
    }
    uint64_t mine = (seen + 1 + ((uint64_t)actor->holder << HFI_W_HOLDER_SHIFT)) | HFI_W_BARGERS;
    /* seq_cst (at least acquire): pairs with the release of the last holder's swap */
    bool taken = !(seen & HFI_W_WAITERS) &&
                 atomic_compare_exchange_strong(word_of(actor, request->slot), &seen, mine);
    if (taken && (request->limit_ns || (seen & HFI_W_WATCHED))) {
        /* the agent must learn of the hold's limit, to end the hold in time, and of every change of
         * a watched word */
        hfi_ring(actor, request->slot);
    }
    return taken;
}

/* Returns whether the agent has refused this try. seq_cst: the caller has read the seat's wake
 * count before this load. The agent stores its answer, and then raises the count. */
static bool is_refused(const struct hfi_region *region, const struct hfi_request *request,
                       uint64_t place)
{
    return request->trying && atomic_load(&hfi_seat(region, request->seat)->refused) == place;
}

/*
 * To be called for a waiter that cannot take the lock now. Makes sure that the word has the waiters
 * bit or the bargers bit, checks the lease and the waiter's limit, and sleeps. Returns HFI_HELD if
 * the waiter must look at the word again.
 */
static enum hfi_outcome wait_once(const struct hfi_actor *actor, const struct hfi_request *request,
                                  const struct hfi_wait_limit *limit, enum hfi_outcome obstacle,
                                  uint64_t place, uint32_t seat_seen, uint32_t slot_seen,
                                  uint64_t *rung)
{
    struct hfi_region *region = actor->region;
    _Atomic uint64_t *word = word_of(actor, request->slot);
    int64_t now_ns = actor->kernel->now_ns(actor->kernel->arg);
    int64_t left_ns = 0;
    if (!in_force(region, atomic_load(&region->header->lease), now_ns, &left_ns)) {
        return HFI_NO_LEASE;
    }
    enum hfi_outcome why = is_refused(region, request, place) ? HFI_REFUSED
                                                              : wait_over(limit, now_ns);
    if (why != HFI_HELD) {
        return why;
    }
    uint64_t bit = request->barging ? HFI_W_BARGERS : HFI_W_WAITERS;
    uint64_t seen = atomic_load(word);
    if (!(seen & bit)) {
        /* another process has cleared the bit, and may have freed the word since */
        atomic_fetch_or(word, bit);
        return HFI_HELD;
    }
    if (obstacle == HFI_UNGRANTED && *rung != seen) {
        *rung = seen;
        hfi_ring(actor, request->slot);
    }
    int64_t timeout_ns = shorter(left_ns, limit->deadline_ns - now_ns);
    if (request->barging) {
        sleep_on_slot(actor, &region->slots[request->slot], slot_seen, timeout_ns);
    } else if (request->polled) {
        return HFI_POLLED;
    } else {
        sleep_on_seat(actor, hfi_seat(region, request->seat), seat_seen, timeout_ns);
    }
    return HFI_HELD;
}

/* The outcome of a look at the lock. */
enum look {
    LOOK_END,   /* the wait ends, with the outcome in *why */
    LOOK_AGAIN, /* look again at once, because something changed during this look */
    LOOK_WAIT,  /* wait for the lock: *why is the obstacle */
};

/* look_exclusive() and look_shared() share no code: each of them loads and stores in the order that
 * the models and the litmus tests follow step by step. */
static enum look look_exclusive(const struct hfi_actor *actor, const struct hfi_request *request,
                                const struct hfi_wait_limit *limit, uint64_t *place,
                                struct hfi_held *held, enum hfi_outcome *why)
{
    struct hfi_region *region = actor->region;
    _Atomic uint64_t *word = word_of(actor, request->slot);
    uint64_t seen = atomic_load(word);
    if (hfi_word_holder(seen) == actor->holder) {
        *why = settle(actor, request, limit, place, held);
        return *why == HFI_GONE ? LOOK_AGAIN : LOOK_END;
    }
    *why = obstacle(region, request->slot, seen, false);
    if (*why == HFI_HELD && request->barging && !(seen & HFI_W_WAITERS)) {
        barge(actor, request, seen);
        return LOOK_AGAIN;
    }
    if (*why == HFI_HELD && (seen & HFI_W_WAITERS)) {
        /* hands the free word to the first waiter, which may be this one */
        hfi_serve(actor, request->slot);
        if (atomic_load(word) != seen) {
            return LOOK_AGAIN;
        }
        /* That call admitted the readers ahead of this waiter. The last of them to enter serves the
         * next waiter. */
    }
    return LOOK_WAIT;
}

static enum look look_shared(const struct hfi_actor *actor, const struct hfi_request *request,
                             uint64_t *place, struct hfi_held *held, enum hfi_outcome *why)
{
    _Atomic uint64_t *word = word_of(actor, request->slot);
    if (hfi_word_holder(atomic_load(word)) == actor->holder) {
        /* the word was handed to an earlier, exclusive wait of this handle (rule 5) */
        hfi_release(actor, request->slot, hfi_token(0, atomic_load(word)));
    }
    *why = try_shared_from(actor, request, *place, held);
    if (*why == HFI_HELD) {
        /* this call also serves the next waiter, if that waiter's turn has come */
        hfi_leave(actor, request, place);
        return LOOK_END;
    }
    if (*why == HFI_OCCUPIED && !request->barging) {
        /* the word is free, but this ticket is not admitted: serving the queue admits it */
        hfi_serve(actor, request->slot);
        if (admitted(actor->region, request->slot, atomic_load(word), *place) &&
            !(atomic_load(word) & HFI_W_HOLDER)) {
            return LOOK_AGAIN;
        }
    }
    return LOOK_WAIT;
}

/* Joins the queue, if this waiter is not in it. Then looks at the lock and sleeps by turns. */
static enum hfi_outcome wait_in_queue(const struct hfi_actor *actor,
                                      const struct hfi_request *request, bool shared,
                                      const struct hfi_wait_limit *limit, uint64_t *place,
                                      struct hfi_held *held)
{
    struct hfi_region *region = actor->region;
    struct hfi_seat *seat = hfi_seat(region, request->seat);
    uint64_t rung_here = 0;
    uint64_t *rung = limit->rung ? limit->rung : &rung_here;
    unsigned hasty = 0;
    for (;;) { /* the loop ends with an outcome, such as HFI_HELD, or by the limit or the lease */
        enum hfi_outcome why = give_up(actor, request, limit, place, &hasty);
        if (why != HFI_GONE) {
            return why;
        }
        if (!*place) {
            queue_join(actor, request, shared, place);
        } else if (atomic_load(hfi_seat_wait(region, request->seat)) != *place) {
            /* the agent took this place away, because it regards the process as ended */
            *place = 0;
            return HFI_GONE;
        }
        uint32_t seat_seen = atomic_load(&seat->wake); /* seq_cst: loaded before the word */
        uint32_t slot_seen = atomic_load(&region->slots[request->slot].wake);
        if (request->polled && !lease_is_in_force(actor)) {
            return HFI_NO_LEASE;
        }
        enum look look = shared ? look_shared(actor, request, place, held, &why)
                                : look_exclusive(actor, request, limit, place, held, &why);
        if (look == LOOK_END) {
            return why;
        }
        if (look == LOOK_AGAIN) {
            continue;
        }
        if (why == HFI_RETIRED) {
            hfi_leave(actor, request, place);
            return HFI_RETIRED;
        }
        why = wait_once(actor, request, limit, why, *place, seat_seen, slot_seen, rung);
        hasty = 0;
        if (why == HFI_CANCELED || why == HFI_TIMED_OUT || why == HFI_REFUSED) {
            return end_wait(actor, request, why, place);
        }
        if (why == HFI_NO_LEASE || why == HFI_POLLED) {
            return why;
        }
    }
}

enum hfi_outcome hfi_wait_exclusive(const struct hfi_actor *actor,
                                    const struct hfi_request *request,
                                    const struct hfi_wait_limit *limit, uint64_t *place,
                                    struct hfi_held *held)
{
    return wait_in_queue(actor, request, false, limit, place, held);
}

enum hfi_outcome hfi_wait_shared(const struct hfi_actor *actor, const struct hfi_request *request,
                                 const struct hfi_wait_limit *limit, uint64_t *place,
                                 struct hfi_held *held)
{
    return wait_in_queue(actor, request, true, limit, place, held);
}

enum hfi_outcome hfi_downgrade(const struct hfi_actor *actor, const struct hfi_request *request,
                               struct hfi_held *held)
{
    struct hfi_seat *seat = hfi_seat(actor->region, request->seat);
    if (!(atomic_load(word_of(actor, request->slot)) & HFI_W_CELLS)) {
        /* the cells bit is missing, although the agent sets it before it gives a reader a seat: the
         * word was damaged */
        return HFI_GONE;
    }
    uint64_t old = atomic_load(&seat->reader);
    uint64_t sequence = ((old >> HFI_CELL_SEQUENCE_SHIFT) + 1) & HFI_CELL_SEQUENCE;
    uint64_t cell = (uint64_t)held->epoch << HFI_CELL_EPOCH_SHIFT |
                    sequence << HFI_CELL_SEQUENCE_SHIFT | 1;
    int64_t now_ns = actor->kernel->now_ns(actor->kernel->arg);
    /* relaxed: `since` is only shown to people */
    atomic_store_explicit(&seat->since, since_now(now_ns), memory_order_relaxed);
    /* seq_cst: the cell is stored before the word is freed, so that no writer can take the lock in
     * between */
    if ((old & HFI_CELL_COUNT) || !atomic_compare_exchange_strong(&seat->reader, &old, cell)) {
        return HFI_GONE;
    }
    if (hfi_release(actor, request->slot, held->token) != HFI_RELEASED) {
        hfi_release_shared(actor, request->slot, request->seat, cell);
        return HFI_GONE;
    }
    held->cell = cell;
    return HFI_HELD;
}

/*
 * Takes the word for an upgrade. With LEFT in the wait cell any process could pass the hold on
 * (rule 4), so this function first clears the cell. If it cannot take the word, it restores LEFT,
 * because another process may still be handing the lock over to the wait that this handle has left.
 */
static enum hfi_outcome upgrade_take(const struct hfi_actor *actor,
                                     const struct hfi_request *request, uint64_t *mine)
{
    _Atomic uint64_t *word = word_of(actor, request->slot);
    _Atomic uint64_t *wait = hfi_seat_wait(actor->region, request->seat);
    /* seq_cst: the exchange of the cell comes before the loads of the word (rule 5) */
    uint64_t before = atomic_exchange(wait, 0);
    if (before & HFI_WAIT_PASSED) {
        release_if_named(actor, request->slot);
    }
    enum hfi_outcome why = HFI_HELD;
    for (;;) { /* the loop ends when the word names this actor, or is not free */
        uint64_t seen = atomic_load(word);
        *mine = seen;
        if (hfi_word_holder(seen) == actor->holder) {
            /* the lock was handed over to the wait that this handle had left, so the handle keeps
             * the lock */
            return HFI_HELD;
        }
        why = obstacle(actor->region, request->slot, seen, false);
        if (why != HFI_HELD) {
            break;
        }
        *mine = seen + 1 + ((uint64_t)actor->holder << HFI_W_HOLDER_SHIFT);
        if (atomic_compare_exchange_strong(word, &seen, *mine)) {
            return HFI_HELD;
        }
    }
    if (before) { /* seq_cst: the cell is stored before the word is loaded (rule 4) */
        atomic_store(wait, (before & ~(uint64_t)HFI_WAIT_PASSED) | HFI_WAIT_LEFT);
        release_if_named(actor, request->slot);
    }
    /* If another holder has the word, that holder waits until this reader's cell is clear, and this
     * reader would wait for the word. So neither could ever go on. */
    return why == HFI_OCCUPIED ? HFI_DEADLOCK : why;
}

enum hfi_outcome hfi_upgrade(const struct hfi_actor *actor, const struct hfi_request *request,
                             const struct hfi_wait_limit *limit, struct hfi_held *held)
{
    uint64_t mine = 0;
    enum hfi_outcome outcome = upgrade_take(actor, request, &mine);
    if (outcome != HFI_HELD) {
        return outcome;
    }
    struct hfi_held taken = {0};
    outcome = drain(actor, request, limit, held, &taken);
    if (outcome == HFI_HELD && !clear_cell(hfi_seat(actor->region, request->seat), held->cell)) {
        /* the agent has taken the cell away meanwhile, so other processes may have held the lock
         * since */
        outcome = HFI_GONE;
    }
    if (outcome != HFI_HELD) {
        hfi_release(actor, request->slot, hfi_token(0, mine));
        return outcome;
    }
    /* seq_cst: this load follows the change of the cell, as in hfi_free_shared(). The agent sets
     * the watched bit before it looks at the cell. So the agent sees the cleared cell, or this
     * process sees the bit and rings the agent. */
    if (atomic_load(word_of(actor, request->slot)) & HFI_W_WATCHED) {
        hfi_ring(actor, request->slot);
    }
    *held = taken;
    return HFI_HELD;
}

void hfi_ask_upgrade(const struct hfi_actor *actor, const struct hfi_request *request,
                     const struct hfi_held *held)
{
    struct hfi_seat *seat = hfi_seat(actor->region, request->seat);
    /* relaxed: the ring publishes the note */
    atomic_store_explicit(&seat->upgrade, upgrade_note(held->cell), memory_order_relaxed);
    hfi_ring(actor, request->slot);
}

void hfi_ask_no_upgrade(const struct hfi_actor *actor, const struct hfi_request *request,
                        const struct hfi_held *held)
{
    /* The swap changes only the note of this hold, because the seat may belong to another handle by
     * now. */
    uint32_t note = upgrade_note(held->cell);
    atomic_compare_exchange_strong(&hfi_seat(actor->region, request->seat)->upgrade, &note, 0);
}
