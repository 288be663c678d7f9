/*
 * Taking a lock when the fast path does not succeed at once.
 *
 * The fast path is in fast.c. What comes here has the claim of the handle (client.h), which it
 * waits for under the handle's mutex.
 *
 * A wait ends by itself, by its patience, or by hf_cancel. It sleeps on futexes in the region; when
 * the lease runs out it sees to the agent, connects again if it has to, and goes on in its place
 * of the queue, or in a new one if the agent came back with another region.
 */
#include "client.h"

#include <errno.h>
#include <sched.h>

#include "proto/probe.h"
#define SLICE_NS (20 * NS_PER_MS) /* a try looks this often whether another took the lock */
#define LEASE_NAP_NS (250 * NS_PER_MS)
#define HANDSHAKE_NS (100 * NS_PER_MS) /* one attempt; the next goes on with the same greeting */
#define PACE_NS_MIN (50 * NS_PER_MS)
#define PACE_NS_MAX (500 * NS_PER_MS)

static int64_t sooner(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static bool canceled(const hf_lock *lock, const struct patience *patience)
{
    /* seq_cst: pairs with hf_cancel(), which counts first and wakes afterwards */
    return atomic_load(&lock->cancel) != patience->cancel_seen;
}

/* Sleeps on the handle's claim; lock->mutex is held. */
static void claim_sleep(hf_lock *lock, int64_t timeout_ns)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    int64_t until_ns = (int64_t)until.tv_sec * NS_PER_S + until.tv_nsec + timeout_ns;
    until = (struct timespec){.tv_sec = until_ns / NS_PER_S, .tv_nsec = until_ns % NS_PER_S};
    pthread_cond_timedwait(&lock->unclaimed, &lock->mutex, &until);
}

/* What a handle that holds already answers to a further acquire. 1: it may count. */
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
    } else { /* it may be of a lower priority than we are */
        const struct timespec nap = {.tv_nsec = 50000};
        nanosleep(&nap, NULL);
    }
}

void claim_begin(hf_lock *lock)
{
    lock->claimed = true;
    /* seq_cst (release: pairs with the load after F's swap, by way of the word; see client.h) */
    atomic_fetch_add(&lock->claims, 1);
    /* relaxed: changed under the claim only */
    const struct place *place = atomic_load_explicit(&lock->fast_place, memory_order_relaxed);
    if (place != NULL) {
        struct hfi_region *region = &place->map->region;
        /* seq_cst, both: synchronise with the swaps of threads in the fast path, either way */
        atomic_fetch_add(&region->words[place->slot].word, 0);
        if (place->seat != HFI_SEAT_NONE) {
            atomic_fetch_add(&hfi_seat(region, place->seat)->reader, 0);
        }
    }
    for (size_t i = 0; i < LOCK_LANES; i++) {
        unsigned turns = 0;
        /* acquire: pairs with the release of 0: the hold is published, or the take undone */
        while (atomic_load_explicit(&lock->lanes[i].taking, memory_order_acquire) != 0) {
            give_way(&turns); /* ends: it waits for nothing */
        }
    }
}

void claim_end(hf_lock *lock)
{
    lock->claimed = false;
    /* acquire: pairs with place_publish(); relaxed: published with claims */
    struct place *place = atomic_load_explicit(&lock->place, memory_order_acquire);
    atomic_store_explicit(&lock->fast_place, place, memory_order_relaxed);
    /* seq_cst (release: pairs with the acquire before F's swap) */
    atomic_fetch_add(&lock->claims, 1);
    pthread_cond_broadcast(&lock->unclaimed);
}

/* One look at the claim, lock->mutex held. 0 and 1 as claim_take; 2: not now; an error. */
static int claim_once(hf_lock *lock)
{
    if (lock->claimed) { /* one that holds has its answer; another may have it soon */
        bool answered = hold_held(&lock->hold) && (lock->flags & HF_REENTRANT) == 0;
        return answered ? already(lock) : 2;
    }
    int result = hold_held(&lock->hold) ? already(lock) : 0;
    if (result < 0) {
        return result;
    }
    claim_begin(lock);
    bool held = hold_held(&lock->hold); /* a thread in the fast path came first */
    if (held == (result == 1)) {
        return result;
    }
    result = held ? already(lock) : 0;
    if (result < 0) {
        claim_end(lock);
    }
    return result;
}

int claim_take(hf_lock *lock, const struct patience *patience)
{
    int result;
    pthread_mutex_lock(&lock->mutex);
    for (;;) { /* ends by the claim, or by patience */
        result = claim_once(lock);
        if (result != 2) {
            break;
        }
        int64_t left_ns = patience->deadline_ns - boottime_ns();
        if (canceled(lock, patience)) {
            result = HF_ECANCELED;
            break;
        }
        if (left_ns <= 0) {
            result = patience->try_only ? HF_EBUSY : HF_ETIMEDOUT;
            break;
        }
        claim_sleep(lock, sooner(left_ns, NS_PER_S)); /* BOOTTIME is read again after it */
    }
    pthread_mutex_unlock(&lock->mutex);
    return result;
}

int claim_hold(hf_lock *lock)
{
    int result = HF_ENOTHELD;
    pthread_mutex_lock(&lock->mutex);
    while (lock->claimed && hold_held(&lock->hold)) { /* who claims a hold has its own patience */
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
    claim_end(lock);
    pthread_mutex_unlock(&lock->mutex);
}

/* Whether a wait outlives it: there will be an agent again, or one that serves the namespace. */
static bool will_pass(int error)
{
    return error == HF_ENOAGENT || error == HF_EUNSERVED;
}

/* The agent is down: one attempt to reach it, or a nap. */
static int agent_reconnect(hf_lock *lock, const struct patience *patience, int64_t *pace_ns)
{
    hf_client *client = lock->client;
    int64_t now_ns = boottime_ns();
    pthread_mutex_lock(&client->socket_mutex);
    int error = client_reconnect(client, sooner(patience->deadline_ns, now_ns + HANDSHAKE_NS));
    pthread_mutex_unlock(&client->socket_mutex);
    if (error == HF_EVERSION || error == HF_EACCES) {
        return error; /* waiting does not change it */
    }
    if (error != 0) {
        *pace_ns = *pace_ns == 0 ? PACE_NS_MIN : sooner(*pace_ns * 2, PACE_NS_MAX);
        int64_t left_ns = patience->deadline_ns - boottime_ns();
        if (left_ns > 0) {
            futex_sleep_private(&lock->cancel, patience->cancel_seen, sooner(*pace_ns, left_ns));
        }
    }
    return 0;
}

int agent_await(hf_lock *lock, const struct patience *patience, const struct place *place,
                int64_t *pace_ns)
{
    hf_client *client = lock->client;
    if (pthread_mutex_trylock(&client->socket_mutex) == 0) {
        client_drain(client); /* finds out whether the agent hung up */
        pthread_mutex_unlock(&client->socket_mutex);
    }
    /* acquire: pairs with the releases in client.c and socket.c */
    if (atomic_load_explicit(&client->down, memory_order_acquire)) {
        return agent_reconnect(lock, patience, pace_ns);
    }
    int64_t left_ns = sooner(patience->deadline_ns - boottime_ns(), LEASE_NAP_NS);
    if (place == NULL || atomic_load(&place->map->region.header->abandoned)) {
        int error = lock_renew(lock, place);
        if (error != 0 && (!will_pass(error) || (error == HF_EUNSERVED && patience->try_only))) {
            return error;
        }
        if (atomic_load(&lock->place) == place && left_ns > 0) {
            futex_sleep_private(&lock->cancel, patience->cancel_seen, left_ns);
        }
        return 0;
    }
    struct hfi_header *header = place->map->region.header;
    /* seq_cst: counted, then looked at; pairs with hfi_publish(), which publishes, then looks */
    atomic_fetch_add(&header->lease_sleepers, 1);
    uint32_t seen = atomic_load(&header->lease_wake);
    int64_t lease_ns = hfi_lease_left_ns(&place->map->trust, atomic_load(&header->lease),
                                         boottime_ns());
    if (lease_ns <= 0 && left_ns > 0 && !canceled(lock, patience)) {
        futex_sleep_shared(&header->lease_wake, seen, left_ns);
    }
    atomic_fetch_sub(&header->lease_sleepers, 1);
    return 0;
}

/* A take in progress, by the owner of the claim. */
struct take {
    hf_lock *lock;
    enum hf_mode mode;
    const struct patience *patience; /* a try's ends after TRY_MS */
    struct place *place;             /* where it is at present */
    struct place *lost;              /* where it may not wait any more; NULL: nowhere */
    uint64_t ticket;                 /* its place in the queue there, 0: none */
    int64_t pace_ns;
    bool waited;
    struct hfi_held held;
};

static void take_leave(struct take *take)
{
    if (take->ticket != 0) {
        struct hfi_actor actor = place_actor(take->place);
        struct hfi_request request = place_request(take->lock, take->place);
        hfi_leave(&actor, &request, &take->ticket);
    }
}

/* Looks whether the handle's place is another one by now. */
static void take_place(struct take *take)
{
    struct place *place = atomic_load(&take->lock->place);
    if (place != take->place) {
        take_leave(take);
        take->place = place;
    }
}

static enum hfi_outcome take_try(struct take *take)
{
    struct hfi_actor actor = place_actor(take->place);
    struct hfi_request request = place_request(take->lock, take->place);
    if (take->mode == HF_SHARED) {
        return hfi_try_shared(&actor, &request, &take->held);
    }
    enum hfi_outcome outcome = hfi_try_exclusive(&actor, &request, &take->held);
    if (outcome == HFI_DRAINING) { /* readers are inside: it has no place to wait for them yet */
        hfi_release(&actor, request.slot, take->held.token);
        return HFI_OCCUPIED;
    }
    return outcome;
}

/*
 * Whether the word that we accepted is ours. A thread in the fast path may have installed it; the
 * swap of its lane decides.
 */
static bool take_ours(const struct take *take)
{
    const struct place *place = take->place;
    uint64_t named = (uint64_t)place->holder << HFI_W_HOLDER_SHIFT |
                     (take->held.token & HFI_W_TOKEN);
    for (size_t i = 0; i < LOCK_LANES; i++) {
        _Atomic uint64_t *taking = &take->lock->lanes[i].taking;
        uint64_t seen = named;
        unsigned turns = 0;
        /* seq_cst: pairs with the swap to UNDOING in fast_undo(). Success: it is ours now. */
        if (!atomic_compare_exchange_strong(taking, &seen, 0)) {
            while (atomic_load(taking) & LANE_UNDOING) { /* ends: a release */
                give_way(&turns);
            }
        }
    }
    uint64_t word = atomic_load(&place->map->region.words[place->slot].word);
    return hfi_word_names(word, place->holder, take->held.token);
}

static enum hfi_outcome take_wait(struct take *take)
{
    struct hfi_actor actor = place_actor(take->place);
    struct hfi_request request = place_request(take->lock, take->place);
    struct hfi_patience patience = {.deadline_ns = take->patience->deadline_ns,
                                    .cancel = &take->lock->cancel,
                                    .cancel_seen = take->patience->cancel_seen};
    if (take->patience->try_only) {
        patience.deadline_ns = sooner(patience.deadline_ns, boottime_ns() + SLICE_NS);
    }
    take->waited = true;
    return take->mode == HF_SHARED
               ? hfi_wait_shared(&actor, &request, &patience, &take->ticket, &take->held)
               : hfi_wait_exclusive(&actor, &request, &patience, &take->ticket, &take->held);
}

/* Has the handle a seat if the next step needs one. 0: it has, or needs none; 1: look again. */
static int take_seat(struct take *take, bool waits)
{
    bool shared = take->mode == HF_SHARED;
    bool needed = waits || shared || take->lock->limit_ns != 0;
    if (!needed || (take->place->seat != HFI_SEAT_NONE && (!shared || take->place->shared_ready))) {
        return 0;
    }
    int error = HF_ENOAGENT;
    /* acquire: pairs with the releases in client.c and socket.c */
    if (!atomic_load_explicit(&take->lock->client->down, memory_order_acquire)) {
        error = lock_seat(take->lock, shared);
    }
    if (will_pass(error) || error == HF_EPROTO) {
        error = agent_await(take->lock, take->patience, take->place, &take->pace_ns);
    }
    return error == 0 ? 1 : error;
}

/* Whether only the agent's grant is missing: what a try waits for. */
static bool take_ungranted(const struct take *take)
{
    const struct place *place = take->place;
    uint64_t word = atomic_load(&place->map->region.words[place->slot].word);
    enum hfi_grant grant = hfi_word_mode(word);
    return (word & (HFI_W_CLOSED | HFI_W_HOLDER)) == 0 &&
           (grant == HFI_GRANT_NONE || (word & HFI_W_RECALL) != 0 ||
            (grant == HFI_GRANT_SHARED && take->mode == HF_EXCLUSIVE));
}

/*
 * The agent gave the handle's seat away: it took us for dead, or another took the slot. Nobody may
 * wait there before the agent has said where the handle is now: a cell in a seat that is nobody's
 * is never served. 1: look again; else an error.
 */
static int take_anew(struct take *take)
{
    int error = lock_renew(take->lock, take->place);
    if (error == 0) {
        take->lost = NULL;
    } else if (will_pass(error)) {
        error = agent_await(take->lock, take->patience, take->place, &take->pace_ns);
    }
    return error == 0 ? 1 : error;
}

/* One step of a take. 0: held; 1: go on; else an error. *outcome: how the last step ended. */
static int take_step(struct take *take, enum hfi_outcome *outcome)
{
    bool try_only = take->patience->try_only;
    bool waits = *outcome != HFI_HELD;
    if (take->place == take->lost) {
        return take_anew(take);
    }
    int ready = take_seat(take, waits);
    if (ready != 0) {
        return ready;
    }
    *outcome = waits ? take_wait(take) : take_try(take);
    if (waits && *outcome == HFI_HELD && take->mode == HF_EXCLUSIVE && !take_ours(take)) {
        return 1; /* from the beginning */
    }
    switch (*outcome) {
    case HFI_HELD:
        return 0;
    case HFI_CANCELED:
        return HF_ECANCELED;
    case HFI_TIMED_OUT: /* of a try: only a slice of it */
        *outcome = HFI_UNGRANTED;
        return !try_only ? HF_ETIMEDOUT : take_ungranted(take) ? 1 : HF_EBUSY;
    case HFI_RETIRED:
    case HFI_GONE: /* the agent took our place in the queue: it thought us dead */
        *outcome = HFI_HELD;
        take->lost = take->place;
        return take_anew(take);
    case HFI_NO_LEASE:
        if (take->ticket == 0) {
            *outcome = HFI_HELD;
        }
        ready = agent_await(take->lock, take->patience, take->place, &take->pace_ns);
        return ready == 0 ? 1 : ready;
    case HFI_OCCUPIED:
    case HFI_CLOSED:
        return !try_only || take_ungranted(take) ? 1 : HF_EBUSY;
    default: /* UNGRANTED: wait for it */
        return 1;
    }
}

/* What a try or a wait that ran out of time answers. */
static int take_over_time(const struct take *take)
{
    if (!take->patience->try_only) {
        return HF_ETIMEDOUT;
    }
    return atomic_load_explicit(&take->lock->client->down, memory_order_acquire) ? HF_ENOAGENT
                                                                                 : HF_EBUSY;
}

/* Takes the lock for the owner of the claim. */
static int take_run(struct take *take)
{
    enum hfi_outcome outcome = HFI_HELD; /* what the last step met; HELD: begin with a try */
    int result = 1;
    bool first = true;
    while (result == 1) { /* ends by patience */
        if (!first && canceled(take->lock, take->patience)) {
            result = HF_ECANCELED;
            break;
        }
        if (!first && boottime_ns() >= take->patience->deadline_ns) {
            result = take_over_time(take);
            break;
        }
        first = false;
        struct place *before = take->place;
        take_place(take);
        if (take->place == NULL) {
            outcome = HFI_HELD;
            result = agent_await(take->lock, take->patience, NULL, &take->pace_ns);
            result = result == 0 ? 1 : result;
            continue;
        }
        if (before != take->place && take->ticket == 0 && outcome == HFI_NO_LEASE) {
            outcome = HFI_HELD;
        }
        result = take_step(take, &outcome);
    }
    if (result != 0) {
        take_leave(take);
    }
    return result;
}

/* By the owner of the claim: gives this thread a lane if there is one left. */
static void lane_take(hf_lock *lock)
{
    uintptr_t self = thread_here();
    uint16_t i = 0;
    /* relaxed, all: changed under the claim only; a thread compares it with itself */
    uint16_t used = atomic_load_explicit(&lock->lanes_used, memory_order_relaxed);
    while (i < used && atomic_load_explicit(&lock->lanes[i].thread, memory_order_relaxed) != self) {
        i++;
    }
    if (i == used && i < LOCK_LANES && lock->simple) {
        atomic_store_explicit(&lock->lanes[i].thread, self, memory_order_relaxed);
        atomic_store_explicit(&lock->lanes_used, used + 1, memory_order_relaxed);
    }
}

/* A further acquire of a handle that holds, by the owner of the claim. */
static int acquire_again(hf_lock *lock, enum hf_mode mode, const struct patience *patience)
{
    struct hold_view view;
    int result = 0;
    if (!hold_read(lock, &view)) {
        return HF_ELOST;
    }
    if (mode == HF_EXCLUSIVE && view.mode == HF_SHARED) {
        /* release: pairs with the acquire in hold_changing() */
        atomic_store_explicit(&lock->lanes[LOCK_LANES].changing, view.number, memory_order_release);
        result = upgrade(lock, patience);
        atomic_store_explicit(&lock->lanes[LOCK_LANES].changing, 0, memory_order_release);
        /* Who looked while the hold was changing told no loss and knew no end of it. */
        events_look(lock->client);
    } else if (hold_judge(lock, &view, boottime_ns(), NULL) != HOLD_COUNTS) {
        result = HF_ELOST;
    }
    lock->depth += result == 0;
    return result;
}

int acquire_slow(hf_lock *lock, enum hf_mode mode, int64_t timeout_ns, struct hf_hold *out)
{
    struct patience patience = {.deadline_ns = deadline_after(timeout_ns),
                                .try_only = timeout_ns == 0,
                                .cancel_seen = atomic_load(&lock->cancel)};
    HF_PROBE3(acquire_slow, lock->name, mode, timeout_ns);
    int claim = claim_take(lock, &patience);
    if (claim < 0) {
        HF_PROBE3(acquire_done, lock->name, claim, 0);
        return claim;
    }
    struct take take = {.lock = lock, .mode = mode, .patience = &patience};
    struct hold_view view;
    int result;
    if (patience.try_only) {
        patience.deadline_ns = boottime_ns() + TRY_MS * NS_PER_MS;
    }
    if (claim == 1) {
        result = acquire_again(lock, mode, &patience);
    } else {
        result = take_run(&take);
        if (result == 0) {
            lane_take(lock);
            lock->depth = 1;
            hold_store(lock, take.place, mode, &take.held, false);
        }
    }
    if (result == 0 && claim == 0) {
        hold_tell(&take.held, out);
    } else if (result == 0 && hold_read(lock, &view)) {
        hold_tell(&view.held, out);
    }
    if (result == 0 && lock->limit_ns != 0 && hold_read(lock, &view)) {
        events_arm(lock->client, hold_own_end_ns(lock, &view));
    }
    claim_give(lock);
    if (result == 0 && take.waited) {
        events_granted(lock, take.held.token);
    }
    HF_PROBE3(acquire_done, lock->name, result, take.held.token);
    return result;
}

int upgrade(hf_lock *lock, const struct patience *patience)
{
    int64_t pace_ns = NS_PER_MS;
    for (;;) { /* ends by patience */
        struct hold_view view;
        if (!hold_read(lock, &view) || hold_judge(lock, &view, boottime_ns(), NULL) == HOLD_LOST) {
            return HF_ELOST;
        }
        struct hfi_actor actor = place_actor(view.place);
        struct hfi_request request = place_request(lock, view.place);
        struct hfi_patience waits = {.deadline_ns = patience->deadline_ns,
                                     .cancel = &lock->cancel,
                                     .cancel_seen = patience->cancel_seen};
        if (patience->try_only) {
            waits.deadline_ns = boottime_ns(); /* readers inside are reason enough to give up */
        }
        enum hfi_outcome outcome = hfi_upgrade(&actor, &request, &waits, &view.held);
        switch (outcome) {
        case HFI_HELD:
            hold_store(lock, view.place, HF_EXCLUSIVE, &view.held, true);
            return 0;
        case HFI_DEADLOCK:
            return HF_EDEADLK;
        case HFI_GONE:
        case HFI_RETIRED:
            return HF_ELOST;
        case HFI_CANCELED:
            return HF_ECANCELED;
        case HFI_TIMED_OUT:
            return patience->try_only ? HF_EBUSY : HF_ETIMEDOUT;
        case HFI_UNGRANTED: /* this host may only read: the agent asks for more */
            hfi_ring(&actor, request.slot);
            break;
        default: /* closed, or no lease: it may come back */
            if (patience->try_only) {
                return HF_EBUSY;
            }
            break;
        }
        int64_t left_ns = patience->deadline_ns - boottime_ns();
        if (left_ns <= 0) {
            return patience->try_only ? HF_EBUSY : HF_ETIMEDOUT;
        }
        futex_sleep_private(&lock->cancel, patience->cancel_seen, sooner(pace_ns, left_ns));
        if (canceled(lock, patience)) {
            return HF_ECANCELED;
        }
        pace_ns = sooner(pace_ns * 2, PACE_NS_MIN);
    }
}

void place_nudge(const struct place *place)
{
    struct hfi_region *region = &place->map->region;
    struct hfi_kernel *kernel = &place->map->kernel;
    if (place->seat != HFI_SEAT_NONE) {
        /* seq_cst: pairs with the fetch_or of who goes to sleep on the seat */
        atomic_fetch_add(&hfi_seat(region, place->seat)->wake, 2);
        kernel->wake(kernel->arg, &hfi_seat(region, place->seat)->wake, 1);
    }
    atomic_fetch_add(&region->slots[place->slot].wake, 1);
    kernel->wake(kernel->arg, &region->slots[place->slot].wake, INT32_MAX);
}

HFI_PUBLIC int hf_cancel(hf_lock *lock)
{
    if (lock == NULL) {
        return HF_EINVAL;
    }
    if (!alive_here(lock->alive)) {
        return HF_EFORKED;
    }
    /* seq_cst: counted before anybody is woken; who was about to sleep sees one or the other */
    atomic_fetch_add(&lock->cancel, 1);
    futex_wake_private(&lock->cancel);
    pthread_mutex_lock(&lock->mutex);
    pthread_cond_broadcast(&lock->unclaimed);
    pthread_mutex_unlock(&lock->mutex);
    /* acquire: pairs with the release in place_publish() */
    struct place *place = atomic_load_explicit(&lock->places, memory_order_acquire);
    for (; place != NULL; place = place->older) {
        struct hfi_region *region = &place->map->region;
        struct hfi_kernel *kernel = &place->map->kernel;
        place_nudge(place);
        atomic_fetch_add(&region->header->lease_wake, 1);
        kernel->wake(kernel->arg, &region->header->lease_wake, INT32_MAX);
    }
    return 0;
}
