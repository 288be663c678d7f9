/* See scenarios.h: the stepped client's calls in each scenario, and what the bystanders do. */
#include "scenarios.h"

#include "client.h" /* libclient's own header, for the holder id of a handle */
#include "require.h"

#include <pthread.h>
#include <sched.h>

/* ---- the bystanders ---- */

static void bystander_take(struct scene *scene, struct bystander *who, enum hf_mode mode)
{
    struct hf_hold hold;
    int result = actor_acquire(&who->actor, 0, mode, GUARD_MS, &hold);
    REQUIRE(result == 0, "%s: %s", scene->name, hf_strerror(result));
    who->doing = HOLDS;
    who->mode = mode;
    if (mode == HF_EXCLUSIVE) {
        REQUIRE(hold.token > scene->token, "token %llu after %llu", (unsigned long long)hold.token,
                (unsigned long long)scene->token);
        scene->token = hold.token;
    }
}

static void bystander_wait(struct scene *scene, struct bystander *who, enum hf_mode mode)
{
    struct bystander *looker = who == &scene->one ? &scene->two : &scene->one;
    size_t waiters = actor_show(&looker->actor, scene->name).waiters;
    actor_wait(&who->actor, 0, mode);
    who->doing = WAITS;
    who->mode = mode;
    /* The looker's process may wait for the lock, too, but another of its threads can look. */
    actor_await_waiters(&looker->actor, scene->name, waiters + 1);
}

void bystander_release(struct bystander *who)
{
    int result = actor_release(&who->actor, 0);
    REQUIRE(result == 0, "release: %s", hf_strerror(result));
    who->doing = IDLE;
}

/* ---- parts of the victim's calls ---- */

static int take(struct victim *victim, enum hf_mode mode, int64_t timeout_ms)
{
    struct hf_hold hold;
    int result = hf_acquire(victim->lock, mode, timeout_ms < 0 ? -1 : timeout_ms * MS, &hold);
    if (result == 0) {
        /* relaxed: the tracer reads the notes only while this process is stopped or dead */
        atomic_store_explicit(&victim->notes->token, hold.token, memory_order_relaxed);
        uint32_t holds = mode == HF_EXCLUSIVE ? 1 : 2;
        atomic_store_explicit(&victim->notes->holds, holds, memory_order_relaxed);
    }
    return result;
}

static void must_take(struct victim *victim, enum hf_mode mode)
{
    int result = take(victim, mode, -1);
    REQUIRE(result == 0, "acquire: %s", hf_strerror(result));
}

static void must_release(struct victim *victim)
{
    atomic_store_explicit(&victim->notes->holds, 0, memory_order_relaxed);
    int result = hf_release(victim->lock);
    REQUIRE(result == 0, "release: %s", hf_strerror(result));
}

static void nothing(struct victim *victim)
{
    (void)victim;
}

static void take_release(struct victim *victim)
{
    must_take(victim, HF_EXCLUSIVE);
    must_release(victim);
}

static void share_release(struct victim *victim)
{
    must_take(victim, HF_SHARED);
    must_release(victim);
}

static void taken(struct victim *victim)
{
    must_take(victim, HF_EXCLUSIVE);
}

static void shared(struct victim *victim)
{
    must_take(victim, HF_SHARED);
}

/* Waits until the timeout, and so gets a seat in the region for the handle. On a busy machine the
 * time may be over before the handle asks for its seat, so the wait is repeated. */
static void take_seat(struct victim *victim, enum hf_mode mode)
{
    do { /* the loop ends, because Check has a timeout */
        REQUIRE(take(victim, mode, 1) == HF_ETIMEDOUT, "the lock was to be held");
    } while (atomic_load(&victim->lock->binding)->seat == HFI_SEAT_NONE);
}

static void seated(struct victim *victim)
{
    take_seat(victim, HF_EXCLUSIVE);
}

static void seated_shared(struct victim *victim)
{
    take_seat(victim, HF_SHARED);
}

static void time_out(struct victim *victim)
{
    REQUIRE(take(victim, HF_EXCLUSIVE, 15) == HF_ETIMEDOUT, "the lock was to be held");
}

static void try_held(struct victim *victim)
{
    REQUIRE(take(victim, HF_EXCLUSIVE, 0) == HF_EBUSY, "the lock was to be held");
}

static void downgrade_release(struct victim *victim)
{
    atomic_store_explicit(&victim->notes->holds, 2, memory_order_relaxed);
    int result = hf_downgrade(victim->lock);
    REQUIRE(result == 0, "downgrade: %s", hf_strerror(result));
    must_release(victim);
}

static void taken_after_downgrade(struct victim *victim)
{
    must_take(victim, HF_EXCLUSIVE);
    downgrade_release(victim);
    must_take(victim, HF_EXCLUSIVE);
}

static void upgrade_release(struct victim *victim)
{
    must_take(victim, HF_EXCLUSIVE);
    REQUIRE(hf_release(victim->lock) == 0, "release of the upgrade"); /* the handle still has its
                                                                       * exclusive hold */
    must_release(victim);
}

static void progress_release(struct victim *victim)
{
    must_take(victim, HF_EXCLUSIVE);
    REQUIRE(hf_progress(victim->lock) == 0, "progress");
    must_release(victim);
}

static void started(struct victim *victim)
{
    struct hf_event event;
    REQUIRE(hf_acquire_start(victim->lock, HF_EXCLUSIVE, -1) == 0, "start");
    REQUIRE(hf_next_event(victim->client, &event) == 0, "the lock was to be held");
}

/* hf_acquire_start() has got the lock. The victim is killed before, while and after it reads the
 * event. */
static void read_release(struct victim *victim)
{
    struct hf_event event;
    while (hf_next_event(victim->client, &event) == 0) { /* the loop ends when the event is read */
    }
    REQUIRE(event.kind == HF_EVENT_GRANTED, "event %d", (int)event.kind);
    atomic_store_explicit(&victim->notes->token, event.token, memory_order_relaxed);
    atomic_store_explicit(&victim->notes->holds, 1, memory_order_relaxed);
    must_release(victim);
}

static void *cancel_when_told(void *arg)
{
    struct victim *victim = arg;
    while (!atomic_load_explicit(&victim->notes->cancel, memory_order_relaxed)) {
        sleep_ms(1);
    }
    int ignored = hf_cancel(victim->lock);
    (void)ignored;
    return NULL;
}

static void *wait_for_lock(void *arg)
{
    struct victim *victim = arg;
    atomic_store_explicit(&victim->notes->waiting, 1, memory_order_relaxed);
    int ignored = hf_acquire(victim->lock, HF_EXCLUSIVE, -1, NULL);
    (void)ignored; /* the wait ends with HF_ECANCELED, or by the process's death */
    return NULL;
}

static void with_canceller(struct victim *victim)
{
    pthread_t thread;
    seated(victim);
    REQUIRE(pthread_create(&thread, NULL, cancel_when_told, victim) == 0, "no thread");
}

static void with_waiter(struct victim *victim)
{
    pthread_t thread;
    seated(victim);
    REQUIRE(pthread_create(&thread, NULL, wait_for_lock, victim) == 0, "no thread");
    while (!atomic_load_explicit(&victim->notes->waiting, memory_order_relaxed)) {
        sched_yield();
    }
}

static void wait_canceled(struct victim *victim)
{
    int result = take(victim, HF_EXCLUSIVE, -1);
    REQUIRE(result == HF_ECANCELED, "a canceled wait: %s", hf_strerror(result));
}

static void cancel(struct victim *victim)
{
    REQUIRE(hf_cancel(victim->lock) == 0, "cancel");
}

/* ---- what the bystanders do ---- */

static void one_takes(struct scene *scene)
{
    bystander_take(scene, &scene->one, HF_EXCLUSIVE);
}

static void one_reads(struct scene *scene)
{
    bystander_take(scene, &scene->one, HF_SHARED);
}

static void both_wait(struct scene *scene)
{
    bystander_wait(scene, &scene->one, HF_EXCLUSIVE);
    bystander_wait(scene, &scene->two, HF_EXCLUSIVE);
}

static void readers_wait(struct scene *scene)
{
    bystander_wait(scene, &scene->one, HF_SHARED);
    bystander_wait(scene, &scene->two, HF_SHARED);
}

static void reader_then_writer_wait(struct scene *scene)
{
    bystander_wait(scene, &scene->one, HF_SHARED);
    bystander_wait(scene, &scene->two, HF_EXCLUSIVE);
}

static void writer_then_reader_wait(struct scene *scene)
{
    bystander_wait(scene, &scene->one, HF_EXCLUSIVE);
    bystander_wait(scene, &scene->two, HF_SHARED);
}

static void two_waits_behind_waiter(struct scene *scene)
{
    actor_await_waiters(&scene->two.actor, scene->name, 1);
    bystander_wait(scene, &scene->two, HF_EXCLUSIVE);
}

static void two_queues(struct scene *scene)
{
    bystander_wait(scene, &scene->two, HF_EXCLUSIVE);
}

static void two_queues_one_releases(struct scene *scene)
{
    bystander_wait(scene, &scene->two, HF_EXCLUSIVE);
    bystander_release(&scene->one);
}

static void one_releases(struct scene *scene)
{
    bystander_release(&scene->one);
}

static void two_queues_cancel(struct scene *scene)
{
    bystander_wait(scene, &scene->two, HF_EXCLUSIVE);
    atomic_store_explicit(&scene->notes->cancel, 1, memory_order_relaxed);
}

const struct scenario scenarios[] = {
    {.name = "take and release, nobody else", .prepare = take_release, .act = take_release},
    {.name = "the first take of a handle", .prepare = nothing, .act = take_release},
    {.name = "a try of a held lock", .before = one_takes, .prepare = nothing, .act = try_held},
    {.name = "first wait, for a place and the lock",
     .before = one_takes,
     .prepare = nothing,
     .asleep = two_queues_one_releases,
     .act = take_release},
    {.name = "wait, take, hand over",
     .before = one_takes,
     .prepare = seated,
     .asleep = two_queues_one_releases,
     .act = take_release},
    {.name = "a start whose turn has come, its event, release",
     .before = one_takes,
     .prepare = started,
     .joined = two_queues_one_releases,
     .act = read_release},
    {.name = "release to two writers", .prepare = taken, .joined = both_wait, .act = must_release},
    {.name = "release to two readers",
     .prepare = taken,
     .joined = readers_wait,
     .act = must_release},
    {.name = "release to a reader and a writer",
     .prepare = taken,
     .joined = reader_then_writer_wait,
     .act = must_release},
    {.name = "wait that times out",
     .before = one_takes,
     .prepare = seated,
     .joined = two_queues,
     .act = time_out},
    {.name = "wait that is canceled",
     .threaded = true,
     .before = one_takes,
     .prepare = with_canceller,
     .asleep = two_queues_cancel,
     .act = wait_canceled},
    {.name = "cancel of another thread's wait",
     .threaded = true,
     .before = one_takes,
     .prepare = with_waiter,
     .joined = two_waits_behind_waiter,
     .act = cancel},
    {.name = "share and release, nobody else", .prepare = share_release, .act = share_release},
    {.name = "wait for a writer, share, release",
     .before = one_takes,
     .prepare = seated_shared,
     .asleep = two_queues_one_releases,
     .act = share_release},
    {.name = "the last reader leaves to a writer",
     .prepare = shared,
     .joined = writer_then_reader_wait,
     .act = must_release},
    {.name = "a writer that waits for a reader to leave",
     .before = one_reads,
     .prepare = seated,
     .asleep = two_queues_one_releases,
     .act = take_release},
    {.name = "downgrade and release",
     .prepare = taken_after_downgrade,
     .joined = reader_then_writer_wait,
     .act = downgrade_release},
    {.name = "upgrade and release",
     .flags = HF_REENTRANT,
     .prepare = shared,
     .act = upgrade_release},
    {.name = "upgrade that waits for a reader",
     .flags = HF_REENTRANT,
     .before = one_reads,
     .prepare = shared,
     .asleep = one_releases,
     .act = upgrade_release},
    {.name = "barging wait and release",
     .flags = HF_BARGING,
     .before = one_takes,
     .prepare = seated,
     .asleep = one_releases,
     .act = take_release},
    {.name = "a limit, progress, release",
     .max_stall_ms = 20000,
     .prepare = take_release,
     .act = progress_release},
};

const size_t scenario_count = sizeof(scenarios) / sizeof(scenarios[0]);
