/*
 * The slow path of hf_acquire(): taking a lock when the fast path (fast.c) does not succeed at
 * once.
 *
 * A thread in the slow path first waits for the claim of the handle (client.h), under the handle's
 * mutex.
 *
 * A wait ends when the thread has the lock, at its time-out, or by hf_cancel(). The thread sleeps
 * on futexes in the region. If the session's lease runs out and the connection is down, the thread
 * connects to the agent again, and keeps its position in the queue. The thread gets a new
 * position only if the agent has made a new region.
 *
 * A polled take (start.c) makes the same steps, but never sleeps. Where a thread would sleep, its
 * step ends with TAKE_GOES_ON.
 */
#include "client.h"

#include <errno.h>
#include <sched.h>

#include "proto/probe.h"
#define SLICE_NS (20 * NS_PER_MS) /* the longest sleep of a try before it looks at the lock again */
#define LEASE_NAP_NS (250 * NS_PER_MS)
#define HANDSHAKE_NS (100 * NS_PER_MS) /* the longest wait for WELCOME in one attempt */
#define PACE_NS_MIN (50 * NS_PER_MS)
#define PACE_NS_MAX (500 * NS_PER_MS)

static int64_t sooner(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static bool canceled(const hf_lock *lock, const struct wait_limit *limit)
{
    /* seq_cst: pairs with hf_cancel(), which first adds 1 to cancel and then wakes */
    return atomic_load(&lock->cancel) != limit->cancel_seen;
}

/* Sleeps until the claim is free, or for timeout_ns. The caller holds lock->mutex. */
static void claim_sleep(hf_lock *lock, int64_t timeout_ns)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    int64_t until_ns = (int64_t)until.tv_sec * NS_PER_S + until.tv_nsec + timeout_ns;
    until = (struct timespec){.tv_sec = until_ns / NS_PER_S, .tv_nsec = until_ns % NS_PER_S};
    pthread_cond_timedwait(&lock->unclaimed, &lock->mutex, &until);
}

/* Returns the result of an acquire by a handle that already holds: 1 if the handle is reentrant and
 * its hold still counts, else an error. */
static int already(hf_lock *lock)
{
    struct hold_view view;
    enum hold_worth worth;
    if (hold_look(lock, boottime_ns(), &view, &worth) && worth == HOLD_LOST) {
        return HF_ELOST;
    }
    return lock->flags & HF_REENTRANT ? 1 : HF_EALREADY;
}

void give_way(unsigned *turns)
{
    if (++*turns < 100) {
        sched_yield();
    } else { /* the owner of the claim may have a lower priority than this thread */
        const struct timespec nap = {.tv_nsec = 50000};
        nanosleep(&nap, NULL);
    }
}

/* Begins a claim. The handle has none, and the caller holds lock->mutex. */
static void claim_begin(hf_lock *lock)
{
    lock->claimed = true;
    /* seq_cst (at least release): pairs with the load of claims after the swap in the fast path
     * (client.h, "Fast take") */
    atomic_fetch_add(&lock->claims, 1);
    /* relaxed: fast_binding is changed only under the claim */
    const struct binding *binding = atomic_load_explicit(&lock->fast_binding, memory_order_relaxed);
    if (binding != NULL) {
        struct hfi_region *region = &binding->map->region;
        /* seq_cst, both: the addition of 0 and a swap of the fast path change the same word (or
         * cell), so the later of the two synchronises with the earlier one */
        atomic_fetch_add(&region->words[binding->slot].word, 0);
        if (binding->seat != HFI_SEAT_NONE) {
            atomic_fetch_add(&hfi_seat(region, binding->seat)->reader, 0);
        }
    }
    for (size_t i = 0; i < LOCK_LANES; i++) {
        unsigned turns = 0;
        /* acquire: pairs with the release of 0 in lane_clear(). The thread of the lane has
         * published its hold, or undone its take, before it stores 0. */
        while (atomic_load_explicit(&lock->lanes[i].taking, memory_order_acquire) != 0) {
            give_way(&turns); /* the loop ends, because the thread of the lane waits for nothing */
        }
    }
}

/* Ends the claim. The caller holds lock->mutex. */
static void claim_end(hf_lock *lock)
{
    lock->claimed = false;
    /* The load is acquire: it pairs with binding_publish(). The store is relaxed: the change of
     * claims below publishes it. */
    struct binding *binding = atomic_load_explicit(&lock->binding, memory_order_acquire);
    atomic_store_explicit(&lock->fast_binding, binding, memory_order_relaxed);
    /* seq_cst (at least release): pairs with the acquire load of claims before the swap in the fast
     * path */
    atomic_fetch_add(&lock->claims, 1);
    pthread_cond_broadcast(&lock->unclaimed);
}

/* Looks at the claim once, with lock->mutex held. Returns 0, 1 or an error like claim_take(), or 2
 * if another thread has the claim. */
static int claim_once(hf_lock *lock)
{
    if (lock->started) { /* a pending hf_acquire_start() has the claim */
        return HF_EBUSY;
    }
    /* If the handle holds and is not reentrant, already() has the result. Otherwise the thread
     * waits for the claim, because the claim's owner may be about to hold. */
    if (lock->claimed) {
        bool answered = hold_held(&lock->hold) && (lock->flags & HF_REENTRANT) == 0;
        return answered ? already(lock) : 2;
    }
    int result = hold_held(&lock->hold) ? already(lock) : 0;
    if (result < 0) {
        return result;
    }
    claim_begin(lock);
    /* a thread in the fast path may have taken the lock first */
    bool held = hold_held(&lock->hold);
    if (held == (result == 1)) {
        return result;
    }
    result = held ? already(lock) : 0;
    if (result < 0) {
        claim_end(lock);
    }
    return result;
}

/* Claims the handle for this thread. Returns 0 if the handle does not hold, or 1 if it holds
 * (reentrant handles only). On an error the thread has no claim. */
static int claim_take(hf_lock *lock, const struct wait_limit *limit)
{
    int result;
    pthread_mutex_lock(&lock->mutex);
    for (;;) { /* the loop ends with the claim, an error or the time-out */
        result = claim_once(lock);
        if (result != 2) {
            break;
        }
        int64_t left_ns = limit->deadline_ns - boottime_ns();
        if (canceled(lock, limit)) {
            result = HF_ECANCELED;
            break;
        }
        if (left_ns <= 0) {
            result = limit->try_only ? HF_EBUSY : HF_ETIMEDOUT;
            break;
        }
        /* wakes each second to read CLOCK_BOOTTIME, which goes on during a suspend */
        claim_sleep(lock, sooner(left_ns, NS_PER_S));
    }
    pthread_mutex_unlock(&lock->mutex);
    return result;
}

int claim_start(hf_lock *lock)
{
    int result = HF_EBUSY;
    pthread_mutex_lock(&lock->mutex);
    if (!lock->claimed) {
        result = hold_held(&lock->hold) ? already(lock) : claim_once(lock);
        result = result == 1 ? HF_EALREADY : result;
        lock->started = result == 0;
    }
    pthread_mutex_unlock(&lock->mutex);
    return result;
}

bool claim_is_started(hf_lock *lock)
{
    pthread_mutex_lock(&lock->mutex);
    bool started = lock->started;
    pthread_mutex_unlock(&lock->mutex);
    return started;
}

int claim_hold(hf_lock *lock)
{
    int result = HF_ENOTHELD;
    pthread_mutex_lock(&lock->mutex);
    /* this wait is no longer than the other thread's claim */
    while (lock->claimed && hold_held(&lock->hold)) {
        pthread_cond_wait(&lock->unclaimed, &lock->mutex);
    }
    if (!lock->claimed && hold_held(&lock->hold)) {
        claim_begin(lock);
        result = 0;
        if (!hold_held(&lock->hold)) {
            claim_end(lock);
            result = HF_ENOTHELD;
        }
    }
    pthread_mutex_unlock(&lock->mutex);
    return result;
}

void claim_give(hf_lock *lock)
{
    pthread_mutex_lock(&lock->mutex);
    lock->started = false;
    claim_end(lock);
    pthread_mutex_unlock(&lock->mutex);
}

/* Returns whether a wait goes on after this error. A wait goes on if the agent is down or does not
 * serve the namespace, because the agent may serve the namespace later. */
static bool will_pass(int error)
{
    return error == HF_ENOAGENT || error == HF_EUNSERVED;
}

/* To be called when the agent is down. Makes one attempt to reach it, and sleeps for a while if the
 * attempt fails. If another thread uses the connection, that thread makes the attempt, and the
 * caller's thread only sleeps: hf_cancel() can end a sleep, but not the wait for a mutex. */
static int agent_reconnect(hf_lock *lock, const struct wait_limit *limit, int64_t *pace_ns)
{
    hf_client *client = lock->client;
    int64_t now_ns = boottime_ns();
    int error = HF_ENOAGENT;
    if (pthread_mutex_trylock(&client->socket_mutex) == 0) {
        error = client_reconnect(client, sooner(limit->deadline_ns, now_ns + HANDSHAKE_NS));
        pthread_mutex_unlock(&client->socket_mutex);
    }
    if (error == HF_EVERSION || error == HF_EACCES) {
        return error; /* waiting cannot change this error */
    }
    if (error != 0) {
        *pace_ns = *pace_ns == 0 ? PACE_NS_MIN : sooner(*pace_ns * 2, PACE_NS_MAX);
        int64_t left_ns = limit->deadline_ns - boottime_ns();
        if (left_ns > 0) {
            futex_sleep_private(&lock->cancel, limit->cancel_seen, sooner(*pace_ns, left_ns));
        }
    }
    return 0;
}

/* Called when the take cannot go on without the agent: the agent is down, the handle has no
 * binding, or the lease is over. Tries to connect or to get a binding, and sleeps for a moment.
 * *pace_ns is the sleep after a failed attempt to connect; it doubles with each failure. Returns 0,
 * or an error that ends the wait. A polled take does not sleep; for it the result can be
 * TAKE_GOES_ON. */
static int agent_await(hf_lock *lock, const struct wait_limit *limit, const struct binding *binding,
                       int64_t *pace_ns)
{
    hf_client *client = lock->client;
    if (pthread_mutex_trylock(&client->socket_mutex) == 0) {
        client_drain(client); /* notices whether the agent closed the connection */
        pthread_mutex_unlock(&client->socket_mutex);
    }
    /* acquire: pairs with the releases in client.c and socket.c */
    if (atomic_load_explicit(&client->down, memory_order_acquire)) {
        /* hf_next_event() connects again for a polled take */
        return limit->polled ? TAKE_GOES_ON : agent_reconnect(lock, limit, pace_ns);
    }
    int64_t left_ns = sooner(limit->deadline_ns - boottime_ns(), LEASE_NAP_NS);
    if (binding == NULL || atomic_load(&binding->map->region.header->abandoned)) {
        int error = lock_renew(lock, binding);
        if (error != 0 && (!will_pass(error) || (error == HF_EUNSERVED && limit->try_only))) {
            return error;
        }
        if (limit->polled) {
            return atomic_load(&lock->binding) == binding ? TAKE_GOES_ON : 0;
        }
        if (atomic_load(&lock->binding) == binding && left_ns > 0) {
            futex_sleep_private(&lock->cancel, limit->cancel_seen, left_ns);
        }
        return 0;
    }
    if (limit->polled) {
        return TAKE_GOES_ON;
    }
    struct hfi_header *header = binding->map->region.header;
    /* seq_cst: this thread first counts itself in lease_sleepers, then reads the lease.
     * hfi_publish() first publishes the lease, then reads lease_sleepers. So this thread sees the
     * new lease, or hfi_publish() sees this thread. */
    atomic_fetch_add(&header->lease_sleepers, 1);
    uint32_t seen = atomic_load(&header->lease_wake);
    int64_t lease_ns = hfi_lease_left_ns(&binding->map->trust, atomic_load(&header->lease),
                                         boottime_ns());
    if (lease_ns <= 0 && left_ns > 0 && !canceled(lock, limit)) {
        futex_sleep_shared(&header->lease_wake, seen, left_ns);
    }
    atomic_fetch_sub(&header->lease_sleepers, 1);
    return 0;
}

void take_leave(struct take *take)
{
    if (take->ticket != 0) {
        struct hfi_actor actor = binding_actor(take->binding);
        struct hfi_request request = binding_request(take->lock, take->binding);
        hfi_leave(&actor, &request, &take->ticket);
    }
}

/* Sets take->binding to the handle's present binding. If the binding has changed, leaves the queue
 * of the old binding's slot. */
static void take_binding(struct take *take)
{
    struct binding *binding = atomic_load(&take->lock->binding);
    if (binding != take->binding) {
        take_leave(take);
        take->binding = binding;
    }
}

static enum hfi_outcome take_try(struct take *take)
{
    struct hfi_actor actor = binding_actor(take->binding);
    struct hfi_request request = binding_request(take->lock, take->binding);
    if (take->mode == HF_SHARED) {
        return hfi_try_shared(&actor, &request, &take->held);
    }
    enum hfi_outcome outcome = hfi_try_exclusive(&actor, &request, &take->held);
    if (outcome == HFI_DRAINING) {
        /* the word is taken, but readers still hold, and a try does not wait for them */
        hfi_release(&actor, request.slot, take->held.token);
        return HFI_OCCUPIED;
    }
    return outcome;
}

/*
 * Returns whether the claimant has the lock, when the word names its handle. A thread in the fast
 * path may have made the swap of the word. In this case a swap of that thread's lane.taking decides
 * which of the two threads has the lock.
 */
static bool take_ours(const struct take *take)
{
    const struct binding *binding = take->binding;
    uint64_t named = (uint64_t)binding->holder << HFI_W_HOLDER_SHIFT |
                     (take->held.token & HFI_W_TOKEN);
    for (size_t i = 0; i < LOCK_LANES; i++) {
        _Atomic uint64_t *taking = &take->lock->lanes[i].taking;
        uint64_t seen = named;
        unsigned turns = 0;
        /* seq_cst: pairs with the swap to UNDOING in fast_undo(). If this swap succeeds, the lock
         * is the claimant's. */
        if (!atomic_compare_exchange_strong(taking, &seen, 0)) {
            while (atomic_load(taking) & LANE_UNDOING) {
                /* the loop ends when the lane's thread has released the word */
                give_way(&turns);
            }
        }
    }
    uint64_t word = atomic_load(&binding->map->region.words[binding->slot].word);
    return hfi_word_names(word, binding->holder, take->held.token);
}

static enum hfi_outcome take_wait(struct take *take)
{
    struct hfi_actor actor = binding_actor(take->binding);
    struct hfi_request request = binding_request(take->lock, take->binding);
    struct hfi_wait_limit limit = {.deadline_ns = take->limit->deadline_ns,
                                   .cancel = &take->lock->cancel,
                                   .cancel_seen = take->limit->cancel_seen};
    request.trying = take->limit->try_only;
    if (take->limit->polled) {
        request.polled = true;
        request.barging = false; /* no process notifies the agent for a barging waiter */
        limit.rung = &take->rung;
    } else if (take->limit->try_only) {
        limit.deadline_ns = sooner(limit.deadline_ns, boottime_ns() + SLICE_NS);
    }
    take->waited = true;
    return take->mode == HF_SHARED
               ? hfi_wait_shared(&actor, &request, &limit, &take->ticket, &take->held)
               : hfi_wait_exclusive(&actor, &request, &limit, &take->ticket, &take->held);
}

/* Gets a seat for the handle, if the next step needs one. Returns 0 if the handle has a seat or
 * needs none, 1 if the take must begin its step again, or an error. */
static int take_seat(struct take *take, bool waits)
{
    bool shared = take->mode == HF_SHARED;
    bool needed = waits || shared || take->lock->limit_ns != 0;
    if (!needed ||
        (take->binding->seat != HFI_SEAT_NONE && (!shared || take->binding->shared_ready))) {
        return 0;
    }
    int error = HF_ENOAGENT;
    /* acquire: pairs with the releases in client.c and socket.c */
    if (!atomic_load_explicit(&take->lock->client->down, memory_order_acquire)) {
        error = lock_seat(take->lock, shared);
    }
    if (will_pass(error) || error == HF_EPROTO) {
        error = agent_await(take->lock, take->limit, take->binding, &take->pace_ns);
    }
    return error == 0 ? 1 : error;
}

/* Returns whether the word is free and only lacks the grant that this take needs. A try waits for
 * the agent to get such a grant. */
static bool take_ungranted(const struct take *take)
{
    const struct binding *binding = take->binding;
    uint64_t word = atomic_load(&binding->map->region.words[binding->slot].word);
    enum hfi_grant grant = hfi_word_mode(word);
    return (word & (HFI_W_CLOSED | HFI_W_HOLDER)) == 0 &&
           (grant == HFI_GRANT_NONE || (word & HFI_W_RECALL) != 0 ||
            (grant == HFI_GRANT_SHARED && take->mode == HF_EXCLUSIVE));
}

/*
 * Gets a new binding for a handle that does not own its seat any more, because the agent concluded
 * that the client's process has ended, or gave the slot to another lock. Without a new binding the
 * take cannot go on: a waiter in a seat without an owner is never served. Returns 1 if the take
 * must begin its step again, or an error.
 */
static int take_anew(struct take *take)
{
    int error = lock_renew(take->lock, take->binding);
    if (error == 0) {
        take->lost = NULL;
    } else if (will_pass(error)) {
        error = agent_await(take->lock, take->limit, take->binding, &take->pace_ns);
    }
    return error == 0 ? 1 : error;
}

/* Makes one step of a take. Returns 0 if the take has the lock, 1 if it must go on at once,
 * TAKE_GOES_ON if a polled take must go on later, or an error. When the call begins, *outcome is
 * the outcome of the previous step; when it returns, that of this step. */
static int take_step(struct take *take, enum hfi_outcome *outcome)
{
    bool try_only = take->limit->try_only;
    bool waits = *outcome != HFI_HELD;
    if (take->binding == take->lost) {
        return take_anew(take);
    }
    int ready = take_seat(take, waits);
    if (ready != 0) {
        return ready;
    }
    take->lapsed = false;
    *outcome = waits ? take_wait(take) : take_try(take);
    if (waits && *outcome == HFI_HELD && take->mode == HF_EXCLUSIVE && !take_ours(take)) {
        return 1; /* a thread in the fast path had the word: the take waits again */
    }
    switch (*outcome) {
    case HFI_HELD:
        return 0;
    case HFI_CANCELED:
        return HF_ECANCELED;
    /* the wait ran out of time, or a try took the word while readers still hold */
    case HFI_TIMED_OUT:
        return try_only ? HF_EBUSY : HF_ETIMEDOUT;
    case HFI_REFUSED:
        return HF_EBUSY;
    case HFI_UNGRANTED:
        /* if a try was in take_wait(), one SLICE_NS is over, and the try keeps its position in the
         * queue */
        return waits && try_only && !take_ungranted(take) ? HF_EBUSY : 1;
    case HFI_RETIRED:
    /* the agent concluded that the client's process has ended, and took it out of the queue */
    case HFI_GONE:
        *outcome = HFI_HELD;
        take->lost = take->binding;
        return take_anew(take);
    case HFI_NO_LEASE:
        take->lapsed = true;
        if (take->ticket == 0) {
            *outcome = HFI_HELD;
        }
        ready = agent_await(take->lock, take->limit, take->binding, &take->pace_ns);
        return ready == 0 ? 1 : ready;
    case HFI_POLLED:
        return !try_only || take_ungranted(take) ? TAKE_GOES_ON : HF_EBUSY;
    case HFI_OCCUPIED:
    case HFI_CLOSED:
        return !try_only || take_ungranted(take) ? 1 : HF_EBUSY;
    default:
        return 1;
    }
}

/* Returns the error of a try or a wait that ran out of time. */
static int take_over_time(const struct take *take)
{
    if (!take->limit->try_only) {
        return HF_ETIMEDOUT;
    }
    return atomic_load_explicit(&take->lock->client->down, memory_order_acquire) ? HF_ENOAGENT
                                                                                 : HF_EBUSY;
}

int take_run(struct take *take)
{
    /* the outcome of the last step; HELD: the next step is take_try() */
    enum hfi_outcome outcome = take->ticket != 0 ? HFI_POLLED : HFI_HELD;
    int result = 1;
    bool first = true;
    while (result == 1) { /* the loop ends with the time-out */
        if (!first && canceled(take->lock, take->limit)) {
            result = HF_ECANCELED;
            break;
        }
        if (!first && boottime_ns() >= take->limit->deadline_ns) {
            result = take_over_time(take);
            break;
        }
        first = false;
        struct binding *before = take->binding;
        take_binding(take);
        if (take->binding == NULL) {
            outcome = HFI_HELD;
            result = agent_await(take->lock, take->limit, NULL, &take->pace_ns);
            result = result == 0 ? 1 : result;
            continue;
        }
        if (before != take->binding && take->ticket == 0 && outcome == HFI_NO_LEASE) {
            outcome = HFI_HELD;
        }
        result = take_step(take, &outcome);
    }
    if (result == TAKE_GOES_ON && canceled(take->lock, take->limit)) {
        result = HF_ECANCELED;
    } else if (result == TAKE_GOES_ON && boottime_ns() >= take->limit->deadline_ns) {
        result = take_over_time(take);
    }
    if (result < 0) {
        take_leave(take);
    }
    return result;
}

/* Gives this thread a lane of the handle (client.h), if one is left. The caller owns the claim. */
static void lane_take(hf_lock *lock)
{
    uintptr_t self = thread_here();
    uint16_t i = 0;
    /* relaxed, all: these fields are changed under the claim only; other threads only compare
     * `thread` with their own number */
    uint16_t used = atomic_load_explicit(&lock->lanes_used, memory_order_relaxed);
    while (i < used && atomic_load_explicit(&lock->lanes[i].thread, memory_order_relaxed) != self) {
        i++;
    }
    if (i == used && i < LOCK_LANES && lock->simple) {
        atomic_store_explicit(&lock->lanes[i].thread, self, memory_order_relaxed);
        atomic_store_explicit(&lock->lanes_used, used + 1, memory_order_relaxed);
    }
}

bool take_was_ungranted(const struct take *take, int result)
{
    return (result == HF_EBUSY || result == HF_ETIMEDOUT) && take->binding != NULL &&
           take_ungranted(take);
}

void take_store(struct take *take)
{
    hf_lock *lock = take->lock;
    struct hold_view view;
    lane_take(lock);
    lock->depth = 1;
    hold_store(lock, take->binding, take->mode, &take->held, false);
    if (lock->limit_ns != 0 && hold_read(lock, &view)) {
        events_arm(lock->client, hold_own_end_ns(lock, &view));
    }
}

/* Acquires once more for a handle that holds. The caller owns the claim. */
static int acquire_again(hf_lock *lock, enum hf_mode mode, const struct wait_limit *limit)
{
    struct hold_view view;
    int result = 0;
    if (!hold_read(lock, &view)) {
        return HF_ELOST;
    }
    if (mode == HF_EXCLUSIVE && view.mode == HF_SHARED) {
        /* release: pairs with the acquire in hold_changing() */
        atomic_store_explicit(&lock->lanes[LOCK_LANES].changing, view.number, memory_order_release);
        result = upgrade(lock, limit);
        atomic_store_explicit(&lock->lanes[LOCK_LANES].changing, 0, memory_order_release);
        /* While the hold is changing, events.c neither reports a loss nor knows the hold's
         * deadline. So events.c must look again. */
        events_look(lock->client);
    } else if (hold_judge(lock, &view, boottime_ns(), NULL) != HOLD_COUNTS) {
        result = HF_ELOST;
    }
    lock->depth += result == 0;
    return result;
}

int acquire_slow(hf_lock *lock, enum hf_mode mode, int64_t timeout_ns, struct hf_hold *out)
{
    struct wait_limit limit = {.deadline_ns = deadline_after(timeout_ns),
                               .try_only = timeout_ns == 0,
                               .cancel_seen = atomic_load(&lock->cancel)};
    HF_PROBE3(acquire_slow, lock->name, mode, timeout_ns);
    int claim = claim_take(lock, &limit);
    if (claim < 0) {
        HF_PROBE3(acquire_done, lock->name, claim, 0);
        return claim == HF_EBUSY && claim_is_started(lock)
                   ? failure_started(lock)
                   : failure_acquire(lock, claim, timeout_ns);
    }
    struct take take = {.lock = lock, .mode = mode, .limit = &limit};
    struct hold_view view;
    int result;
    if (limit.try_only) {
        limit.deadline_ns = boottime_ns() + TRY_MS * NS_PER_MS;
    }
    if (claim == 1) {
        result = acquire_again(lock, mode, &limit);
    } else {
        result = take_run(&take);
        if (result == 0) {
            take_store(&take);
        }
    }
    if (result == 0 && claim == 0) {
        hold_report(&take.held, out);
    } else if (result == 0 && hold_read(lock, &view)) {
        hold_report(&view.held, out);
    }
    if (result == 0 && claim == 1 && lock->limit_ns != 0 && hold_read(lock, &view)) {
        events_arm(lock->client, hold_own_end_ns(lock, &view));
    }
    bool ungranted = take_was_ungranted(&take, result);
    /* relaxed: only the owner of the claim writes the hold now */
    uint64_t number = atomic_load_explicit(&lock->hold.number, memory_order_relaxed);
    claim_give(lock);
    if (result == 0 && take.waited) {
        events_granted(lock, number, take.held.token);
    }
    if (result == HF_EBUSY || result == HF_ETIMEDOUT) {
        ended_clear(lock);
    }
    /* relaxed: only the text of hf_why() depends on it */
    atomic_store_explicit(&lock->ungranted, ungranted, memory_order_relaxed);
    HF_PROBE3(acquire_done, lock->name, result, take.held.token);
    return result == 0 ? 0 : failure_acquire(lock, result, timeout_ns);
}

/* Repeats hfi_upgrade() until it succeeds, the upgrade is impossible, or the limit is over. *asked:
 * the hold that the handle had when it last asked the agent for an exclusive grant; its binding is
 * NULL if the handle has not asked. */
static int upgrade_until(hf_lock *lock, const struct wait_limit *limit, struct hold_view *asked)
{
    int64_t pace_ns = NS_PER_MS;
    for (;;) { /* the loop ends with the time-out */
        struct hold_view view;
        if (!hold_read(lock, &view) || hold_judge(lock, &view, boottime_ns(), NULL) == HOLD_LOST) {
            return HF_ELOST;
        }
        struct hfi_actor actor = binding_actor(view.binding);
        struct hfi_request request = binding_request(lock, view.binding);
        struct hfi_wait_limit waits = {.deadline_ns = limit->deadline_ns,
                                       .cancel = &lock->cancel,
                                       .cancel_seen = limit->cancel_seen};
        if (limit->try_only) {
            waits.deadline_ns = boottime_ns(); /* a try does not wait for other readers */
        }
        const struct hold_view before = view;
        enum hfi_outcome outcome = hfi_upgrade(&actor, &request, &waits, &view.held);
        switch (outcome) {
        case HFI_HELD:
            hold_store(lock, view.binding, HF_EXCLUSIVE, &view.held, true);
            return 0;
        case HFI_DEADLOCK:
            return HF_EDEADLK;
        case HFI_GONE:
        case HFI_RETIRED:
            return HF_ELOST;
        case HFI_CANCELED:
            return HF_ECANCELED;
        case HFI_TIMED_OUT:
            return limit->try_only ? HF_EBUSY : HF_ETIMEDOUT;
        case HFI_UNGRANTED:
            /* the host has a shared grant only: the agent must ask for an exclusive one */
            *asked = before;
            hfi_ask_upgrade(&actor, &request, &before.held);
            break;
        default:
            /* the word is closed, or the lease is over; a wait goes on, because the word can open
             * and the lease can be renewed */
            if (limit->try_only) {
                return HF_EBUSY;
            }
            break;
        }
        int64_t left_ns = limit->deadline_ns - boottime_ns();
        if (left_ns <= 0) {
            return limit->try_only ? HF_EBUSY : HF_ETIMEDOUT;
        }
        futex_sleep_private(&lock->cancel, limit->cancel_seen, sooner(pace_ns, left_ns));
        if (canceled(lock, limit)) {
            return HF_ECANCELED;
        }
        pace_ns = sooner(pace_ns * 2, PACE_NS_MIN);
    }
}

int upgrade(hf_lock *lock, const struct wait_limit *limit)
{
    struct hold_view asked = {.binding = NULL};
    int result = upgrade_until(lock, limit, &asked);
    if (asked.binding != NULL) {
        struct hfi_actor actor = binding_actor(asked.binding);
        struct hfi_request request = binding_request(lock, asked.binding);
        hfi_ask_no_upgrade(&actor, &request, &asked.held);
    }
    return result;
}

void binding_nudge(const struct binding *binding)
{
    struct hfi_region *region = &binding->map->region;
    struct hfi_kernel *kernel = &binding->map->kernel;
    if (binding->seat != HFI_SEAT_NONE) {
        /* seq_cst: pairs with the fetch_or of a thread that goes to sleep on the seat */
        atomic_fetch_add(&hfi_seat(region, binding->seat)->wake, 2);
        kernel->wake(kernel->arg, &hfi_seat(region, binding->seat)->wake, 1);
    }
    atomic_fetch_add(&region->slots[binding->slot].wake, 1);
    kernel->wake(kernel->arg, &region->slots[binding->slot].wake, INT32_MAX);
}

HFI_PUBLIC int hf_cancel(hf_lock *lock)
{
    if (lock == NULL) {
        return failure_null(NULL, "lock");
    }
    if (!alive_here(lock->alive)) {
        return failure_forked(lock->client);
    }
    /* seq_cst: cancel grows before the wake. A thread that is about to sleep sees the new count, or
     * is asleep already and is woken. */
    atomic_fetch_add(&lock->cancel, 1);
    futex_wake_private(&lock->cancel);
    pthread_mutex_lock(&lock->mutex);
    pthread_cond_broadcast(&lock->unclaimed);
    bool started = lock->started;
    pthread_mutex_unlock(&lock->mutex);
    if (started) {
        events_look(lock->client); /* hf_next_event() notices the cancelled start */
    }
    /* acquire: pairs with the release in binding_publish() */
    struct binding *binding = atomic_load_explicit(&lock->bindings, memory_order_acquire);
    for (; binding != NULL; binding = binding->older) {
        struct hfi_region *region = &binding->map->region;
        struct hfi_kernel *kernel = &binding->map->kernel;
        binding_nudge(binding);
        atomic_fetch_add(&region->header->lease_wake, 1);
        kernel->wake(kernel->arg, &region->header->lease_wake, INT32_MAX);
    }
    return 0;
}
