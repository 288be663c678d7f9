/*
 * hf_acquire_start(): an acquire for which no thread waits.
 *
 * A start is a polled take (acquire.c). It keeps the claim of its handle until it ends, so no other
 * thread takes or waits for the lock with this handle meanwhile. Its place in the queue says that
 * no thread sleeps. A process that hands the start the lock notifies the agent (hfi_ring()), and
 * the agent sends a POKE, which makes the descriptor of events readable. hf_next_event() then makes
 * a step of each pending start. So the start has the same rules of order, lease and death as a
 * thread that waits.
 *
 * A start on a free lock ends within hf_acquire_start(). Its handle holds from then on, before the
 * program reads the event. If the program ends the hold before, the event is dropped: an event must
 * not be about a hold that is gone.
 *
 * A timer of the client brings the next step where no process notifies the agent: at the time-out,
 * for a try, while the lease is over, and while no agent answers.
 */
#include "client.h"

#include "proto/probe.h"

#define TRY_STEP_NS (20 * NS_PER_MS)
#define LAPSED_STEP_NS (250 * NS_PER_MS)

static int64_t sooner(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Adds the start to the list of pending ones, or removes it. The caller holds start_mutex. */
static void start_list(hf_lock *lock, bool pending)
{
    struct hf_lock **at = &lock->client->starts;
    lock->start.pending = pending;
    if (pending) {
        lock->start.next = *at;
        *at = lock;
        return;
    }
    while (*at != lock) {
        at = &(*at)->start.next;
    }
    *at = lock->start.next;
}

/* Returns the latest time at which the pending start has to be looked at. */
static int64_t start_due_ns(const struct acquire_start *start)
{
    const struct take *take = &start->take;
    int64_t now_ns = boottime_ns();
    int64_t due_ns = start->limit.deadline_ns;
    if (start->limit.try_only) {
        due_ns = sooner(due_ns, now_ns + TRY_STEP_NS);
    }
    /* acquire: pairs with the releases in client.c and socket.c */
    bool down = atomic_load_explicit(&take->lock->client->down, memory_order_acquire);
    /* The lease may be in force again. A process that notified the agent meanwhile did so in vain,
     * because the step did not look at the lock. */
    if (down || take->ticket == 0 || take->binding == NULL || take->lapsed) {
        due_ns = sooner(due_ns, now_ns + LAPSED_STEP_NS);
    }
    return due_ns;
}

/* Makes one step of a pending start, and ends the start if it has the lock or has failed. The
 * caller holds start_mutex. */
static void start_step(hf_lock *lock)
{
    struct take *take = &lock->start.take;
    int result = take_run(take);
    if (result == TAKE_GOES_ON) {
        events_start(lock, start_due_ns(&lock->start));
        return;
    }
    uint64_t number = 0;
    if (result == 0) {
        take_store(take);
        /* relaxed: only the owner of the claim writes the hold now */
        number = atomic_load_explicit(&lock->hold.number, memory_order_relaxed);
    }
    /* relaxed: only the text of hf_why() depends on it */
    atomic_store_explicit(&lock->ungranted, take_was_ungranted(take, result), memory_order_relaxed);
    start_list(lock, false);
    events_start(lock, 0);
    HF_PROBE3(acquire_done, lock->name, result, take->held.token);
    claim_give(lock);
    if (result == 0) {
        events_granted(lock, number, take->held.token);
        return;
    }
    if (result == HF_EBUSY || result == HF_ETIMEDOUT) {
        ended_clear(lock);
    }
    events_failed(lock, result);
}

/* Makes the steps that hf_next_event() wants, unless another thread makes them. */
static void starts_run(hf_client *client)
{
    for (;;) { /* the loop ends when no thread has wanted a step since the last one began */
        pthread_mutex_lock(&client->list_mutex);
        bool due = client->events.starts_due;
        pthread_mutex_unlock(&client->list_mutex);
        if (!due || pthread_mutex_trylock(&client->start_mutex) != 0) {
            return; /* the thread that has the mutex calls this function when it has unlocked it */
        }
        pthread_mutex_lock(&client->list_mutex);
        client->events.starts_due = false;
        pthread_mutex_unlock(&client->list_mutex);
        hf_lock *next = NULL;
        for (hf_lock *lock = client->starts; lock != NULL; lock = next) {
            next = lock->start.next;
            start_step(lock);
        }
        pthread_mutex_unlock(&client->start_mutex);
    }
}

void starts_step(hf_client *client)
{
    pthread_mutex_lock(&client->list_mutex);
    bool any = client->events.start_count > 0;
    client->events.starts_due = any;
    pthread_mutex_unlock(&client->list_mutex);
    if (any) {
        starts_run(client);
    }
}

void start_drop(hf_lock *lock)
{
    hf_client *client = lock->client;
    pthread_mutex_lock(&client->start_mutex);
    if (lock->start.pending) {
        take_leave(&lock->start.take);
        start_list(lock, false);
        events_start(lock, 0);
        claim_give(lock);
    }
    pthread_mutex_unlock(&client->start_mutex);
    starts_run(client);
}

/* Begins a start. The caller holds start_mutex. */
static int start_begin(hf_lock *lock, enum hf_mode mode, int64_t timeout_ns)
{
    struct acquire_start *start = &lock->start;
    uint32_t cancel_seen = atomic_load(&lock->cancel);
    int error = claim_start(lock);
    if (error != 0) {
        return error;
    }
    HF_PROBE3(acquire_slow, lock->name, mode, timeout_ns);
    bool try_only = timeout_ns == 0;
    start->limit = (struct wait_limit){
        .deadline_ns = deadline_after(try_only ? TRY_MS * NS_PER_MS : timeout_ns),
        .try_only = try_only,
        .polled = true,
        .cancel_seen = cancel_seen};
    start->take = (struct take){.lock = lock, .mode = mode, .limit = &start->limit};
    start_list(lock, true);
    pthread_mutex_lock(&lock->client->list_mutex);
    events_forget(lock); /* an unread event of an earlier acquire would seem to be of this start */
    pthread_mutex_unlock(&lock->client->list_mutex);
    start_step(lock);
    return 0;
}

HFI_PUBLIC int hf_acquire_start(hf_lock *lock, enum hf_mode mode, int64_t timeout_ns)
{
    if (lock == NULL) {
        return failure_null(NULL, "lock");
    }
    hf_client *client = lock->client;
    if (!alive_here(lock->alive)) {
        return failure_forked(client);
    }
    if (mode != HF_EXCLUSIVE && mode != HF_SHARED) {
        return failure_mode(lock, mode);
    }
    int error = events_enable(client);
    if (error != 0) {
        return failure_events(client, error);
    }
    pthread_mutex_lock(&client->start_mutex);
    error = start_begin(lock, mode, timeout_ns);
    pthread_mutex_unlock(&client->start_mutex);
    starts_run(client);
    switch (error) {
    case 0:
        return 0;
    case HF_EBUSY:
        return failure_started(lock);
    case HF_EALREADY:
        return failure(
            client, error,
            "this handle of \"%s\" holds the lock already, and hf_acquire_start does not "
            "count a second hold",
            lock->name);
    default:
        return failure_acquire(lock, error, timeout_ns);
    }
}
