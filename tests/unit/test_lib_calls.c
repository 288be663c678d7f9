/* libholdfast: arguments, acquire and release, waits, limits, several locks at once, sequencers. */
#include "lib_clients.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../emulation.h"
#include "../suite_main.h"

static void setup(void)
{
    clients_create(LONG_TTL_NS);
}

static hf_lock *open_lock(hf_client *of, const char *name, uint32_t flags)
{
    hf_lock *lock = NULL;
    struct hf_lock_options options = {.size = sizeof(options), .flags = flags};
    ck_assert_int_eq(hf_open(of, name, &options, &lock), 0);
    return lock;
}

START_TEST(every_code_has_a_text)
{
    for (int code = -19; code <= 0; code++) {
        ck_assert_str_ne(hf_strerror(code), "unknown error code");
        for (int earlier = -19; earlier < code; earlier++) {
            ck_assert_str_ne(hf_strerror(code), hf_strerror(earlier));
        }
    }
    ck_assert_str_eq(hf_strerror(-20), "unknown error code");
    ck_assert_str_eq(hf_strerror(1), "unknown error code");
    ck_assert_str_eq(hf_version(), HF_VERSION);
}
END_TEST

START_TEST(connect_checks_its_arguments)
{
    hf_client *none = NULL;
    char long_path[200];
    memset(long_path, 'x', sizeof(long_path));
    long_path[199] = '\0';
    struct {
        struct hf_options known;
        uint64_t tail;
    } grown = {.known = {.size = sizeof(grown), .socket = "/nonexistent", .connect_timeout_ns = MS},
               .tail = 0};
    struct hf_options options = {.size = sizeof(options), .socket = long_path};
    ck_assert_int_eq(hf_connect(NULL, NULL), HF_EINVAL);
    ck_assert_int_eq(hf_connect(&options, &none), HF_EINVAL);
    options.size = sizeof(options) - 1;
    ck_assert_int_eq(hf_connect(&options, &none), HF_EINVAL);
    ck_assert_int_eq(hf_connect(&grown.known, &none), HF_ENOAGENT);
    grown.tail = 1;
    ck_assert_int_eq(hf_connect(&grown.known, &none), HF_EINVAL);
    options = (struct hf_options){
        .size = sizeof(options), .socket = "/nonexistent", .connect_timeout_ns = 150 * MS};
    int64_t began = now_ns();
    int64_t began_served = served_ns();
    ck_assert_int_eq(hf_connect(&options, &none), HF_ENOAGENT);
    ck_assert_int_ge(now_ns() - began, 150 * MS);
    ck_assert_int_lt(served_ns() - began_served, 2 * S);
    ck_assert_ptr_null(none);
}
END_TEST

START_TEST(connect_finds_the_socket_by_the_environment)
{
    hf_client *found = NULL;
    ck_assert_int_eq(setenv("HOLDFAST_SOCKET", agent.path, 1), 0);
    ck_assert_int_eq(hf_connect(NULL, &found), 0);
    hf_disconnect(found);
}
END_TEST

START_TEST(open_checks_its_arguments)
{
    hf_lock *lock = NULL;
    char name[300];
    memset(name, 'n', sizeof(name));
    name[256] = '\0';
    ck_assert_int_eq(hf_open(client, name, NULL, &lock), HF_ENAMETOOLONG);
    name[255] = '\0';
    ck_assert_int_eq(hf_open(client, name, NULL, &lock), 0);
    ck_assert_int_eq(hf_open(client, "", NULL, &lock), HF_EINVAL);
    ck_assert_int_eq(hf_open(client, "a\nb", NULL, &lock), HF_EINVAL);
    ck_assert_int_eq(hf_open(client, "\xff", NULL, &lock), HF_EINVAL);
    ck_assert_int_eq(hf_open(client, NULL, NULL, &lock), HF_EINVAL);
    ck_assert_int_eq(hf_open(NULL, "x", NULL, &lock), HF_EINVAL);
    ck_assert_int_eq(hf_open(client, "x", NULL, NULL), HF_EINVAL);
    static const struct hf_lock_options bad[] = {
        {.size = sizeof(bad[0]), .flags = 4},
        {.size = sizeof(bad[0]), .permits = 2},
        {.size = sizeof(bad[0]), .lock_delay_ns = 60 * S + 1},
        {.size = sizeof(bad[0]), .lease_ns = -1},
        {.size = sizeof(bad[0]), .max_stall_ns = -1},
        {.size = sizeof(bad[0]), .lease_ns = 1},
        {.size = sizeof(bad[0]), .lease_ns = MS - 1},
        {.size = sizeof(bad[0]), .max_stall_ns = MS - 1},
        {.size = 8},
        {.size = 0},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        ck_assert_int_eq(hf_open(client, "x", &bad[i], &lock), HF_EINVAL);
    }
    struct hf_lock_options good = {.size = sizeof(good), .permits = 1, .lock_delay_ns = 60 * S};
    good.lease_ns = good.max_stall_ns = MS;
    ck_assert_int_eq(hf_open(client, "x", &good, &lock), 0);
    good.lock_delay_ns = -1;
    ck_assert_int_eq(hf_open(client, "x", &good, &lock), 0);
    atomic_store(&agent.mood, MOOD_REFUSES);
    ck_assert_int_eq(hf_open(client, "y", NULL, &lock), HF_EACCES);
}
END_TEST

/* A process without a free descriptor cannot get its region. */
START_TEST(open_needs_a_descriptor)
{
    hf_lock *lock = NULL;
    struct rlimit before;
    struct rlimit none = {0};
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
    none.rlim_max = before.rlim_max;
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
    int error = hf_open(client, "x", NULL, &lock);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
    ck_assert_int_eq(error, HF_ENOMEM);
    ck_assert_int_eq(hf_open(client, "x", NULL, &lock), 0);
}
END_TEST

START_TEST(null_is_refused_not_followed)
{
    struct hf_event event;
    char buf[8];
    ck_assert_int_eq(hf_acquire(NULL, HF_EXCLUSIVE, 0, NULL), HF_EINVAL);
    ck_assert_int_eq(hf_release(NULL), HF_EINVAL);
    ck_assert_int_eq(hf_downgrade(NULL), HF_EINVAL);
    ck_assert_int_eq(hf_progress(NULL), HF_EINVAL);
    ck_assert_int_eq(hf_cancel(NULL), HF_EINVAL);
    ck_assert_int_eq(hf_acquire_all(NULL, 1, HF_EXCLUSIVE, 0, NULL), HF_EINVAL);
    ck_assert_int_eq(hf_remaining_ns(NULL), 0);
    ck_assert_int_eq(hf_sequencer(NULL, buf, sizeof(buf)), HF_EINVAL);
    ck_assert_int_eq(hf_check_sequencer(client, NULL), HF_EINVAL);
    ck_assert_int_eq(hf_check_sequencer_local(NULL, "x"), HF_EINVAL);
    ck_assert_int_eq(hf_watch(client, NULL), HF_EINVAL);
    ck_assert_int_eq(hf_unwatch(client, NULL), HF_EINVAL);
    ck_assert_int_eq(hf_unwatch(NULL, "x"), HF_EINVAL);
    ck_assert_int_eq(hf_unwatch(client, "\xff"), HF_EINVAL);
    ck_assert_int_eq(hf_event_fd(NULL), HF_EINVAL);
    ck_assert_int_eq(hf_next_event(NULL, &event), HF_EINVAL);
    ck_assert_int_eq(hf_next_event(client, NULL), HF_EINVAL);
    ck_assert_int_eq(hf_list(client, "", NULL, NULL), HF_EINVAL);
    ck_assert_int_eq(hf_show(client, "x", NULL, NULL), HF_EINVAL);
    ck_assert_int_eq(hf_status(client, NULL, NULL), HF_EINVAL);
    ck_assert_int_eq(hf_break(client, NULL, 0), HF_EINVAL);
    ck_assert_int_eq(hf_break(client, "x", 2), HF_EINVAL);
    hf_close(NULL);
    hf_disconnect(NULL);
}
END_TEST

START_TEST(exclusive_excludes_and_tokens_rise)
{
    hf_lock *mine = open_lock(client, "a", 0);
    hf_lock *theirs = open_lock(other, "a", 0);
    struct hf_hold hold;
    uint64_t token = 0;
    for (int i = 0; i < 100; i++) {
        ck_assert_int_eq(hf_acquire(mine, HF_EXCLUSIVE, 0, &hold), 0);
        ck_assert_uint_gt(hold.token, token);
        token = hold.token;
        ck_assert_int_gt(hold.deadline_ns, now_ns());
        ck_assert_int_gt(hf_remaining_ns(mine), 0);
        ck_assert_int_eq(hf_acquire(theirs, HF_EXCLUSIVE, 0, NULL), HF_EBUSY);
        ck_assert_int_eq(hf_acquire(theirs, HF_SHARED, 0, NULL), HF_EBUSY);
        ck_assert_int_eq(hf_remaining_ns(theirs), 0);
        ck_assert_int_eq(hf_acquire(mine, HF_EXCLUSIVE, 0, NULL), HF_EALREADY);
        ck_assert_int_eq(hf_acquire(mine, HF_SHARED, -1, NULL), HF_EALREADY);
        ck_assert_int_eq(hf_release(theirs), HF_ENOTHELD);
        ck_assert_int_eq(hf_release(mine), 0);
        ck_assert_int_eq(hf_release(mine), HF_ENOTHELD);
        ck_assert_int_eq(hf_remaining_ns(mine), 0);
    }
    ck_assert_int_eq(hf_acquire(mine, (enum hf_mode)2, 0, NULL), HF_EINVAL);
    ck_assert_int_eq(hf_downgrade(mine), HF_ENOTHELD);
    ck_assert_int_eq(hf_progress(mine), HF_ENOTHELD);
}
END_TEST

START_TEST(shared_shares_and_downgrade_lets_readers_in)
{
    hf_lock *mine = open_lock(client, "a", 0);
    hf_lock *theirs = open_lock(other, "a", 0);
    ck_assert_int_eq(hf_acquire(mine, HF_SHARED, 0, NULL), 0);
    ck_assert_int_eq(hf_acquire(theirs, HF_SHARED, 0, NULL), 0);
    ck_assert_int_eq(hf_downgrade(mine), 0);
    ck_assert_int_eq(hf_acquire(mine, HF_SHARED, 0, NULL), HF_EALREADY);
    ck_assert_int_eq(hf_release(mine), 0);
    ck_assert_int_eq(hf_acquire(mine, HF_EXCLUSIVE, 0, NULL), HF_EBUSY);
    ck_assert_int_eq(hf_release(theirs), 0);
    ck_assert_int_eq(hf_acquire(mine, HF_EXCLUSIVE, 0, NULL), 0);
    ck_assert_int_eq(hf_downgrade(mine), 0);
    ck_assert_int_gt(hf_remaining_ns(mine), 0);
    ck_assert_int_eq(hf_acquire(theirs, HF_SHARED, 0, NULL), 0);
    ck_assert_int_eq(hf_release(theirs), 0);
    ck_assert_int_eq(hf_release(mine), 0);
    ck_assert_int_eq(hf_release(mine), HF_ENOTHELD);
}
END_TEST

START_TEST(fast_path_sends_nothing)
{
    hf_lock *lock = open_lock(client, "a", 0);
    uint32_t before = atomic_load(&agent.requests);
    for (int i = 0; i < 1000; i++) {
        ck_assert_int_eq(hf_acquire(lock, HF_EXCLUSIVE, -1, NULL), 0);
        ck_assert_int_gt(hf_remaining_ns(lock), 0);
        ck_assert_int_eq(hf_release(lock), 0);
    }
    /* the first shared acquire asks the agent for a seat */
    ck_assert_int_eq(hf_acquire(lock, HF_SHARED, -1, NULL), 0);
    ck_assert_int_eq(hf_release(lock), 0);
    ck_assert_uint_eq(atomic_load(&agent.requests), before + 1);
    for (int i = 0; i < 1000; i++) {
        ck_assert_int_eq(hf_acquire(lock, HF_SHARED, -1, NULL), 0);
        ck_assert_int_eq(hf_release(lock), 0);
    }
    ck_assert_uint_eq(atomic_load(&agent.requests), before + 1);
}
END_TEST

START_TEST(reentrant_counts)
{
    hf_lock *mine = open_lock(client, "a", HF_REENTRANT);
    hf_lock *theirs = open_lock(other, "a", HF_REENTRANT);
    struct hf_hold first;
    struct hf_hold second;
    ck_assert_int_eq(hf_release(mine), HF_ENOTHELD);
    ck_assert_int_eq(hf_acquire(mine, HF_EXCLUSIVE, 0, &first), 0);
    ck_assert_int_eq(hf_acquire(mine, HF_EXCLUSIVE, 0, &second), 0);
    ck_assert_uint_eq(first.token, second.token);
    ck_assert_int_eq(hf_acquire(mine, HF_SHARED, 0, NULL), 0);
    ck_assert_int_eq(hf_release(mine), 0);
    ck_assert_int_eq(hf_release(mine), 0);
    ck_assert_int_gt(hf_remaining_ns(mine), 0);
    ck_assert_int_eq(hf_acquire(theirs, HF_EXCLUSIVE, 0, NULL), HF_EBUSY);
    ck_assert_int_eq(hf_release(mine), 0);
    ck_assert_int_eq(hf_release(mine), HF_ENOTHELD);
    ck_assert_int_eq(hf_acquire(theirs, HF_EXCLUSIVE, 0, NULL), 0);
    ck_assert_int_eq(hf_release(theirs), 0);
}
END_TEST

START_TEST(reentrant_upgrade)
{
    hf_lock *mine = open_lock(client, "a", HF_REENTRANT);
    hf_lock *theirs = open_lock(other, "a", HF_REENTRANT);
    struct hf_hold hold;
    ck_assert_int_eq(hf_acquire(mine, HF_SHARED, 0, NULL), 0);
    ck_assert_int_eq(hf_acquire(theirs, HF_SHARED, 0, NULL), 0);
    ck_assert_int_eq(hf_acquire(mine, HF_EXCLUSIVE, 0, NULL), HF_EBUSY);
    ck_assert_int_eq(hf_acquire(mine, HF_EXCLUSIVE, 20 * MS, NULL), HF_ETIMEDOUT);
    ck_assert_int_gt(hf_remaining_ns(mine), 0);
    ck_assert_int_eq(hf_release(theirs), 0);
    ck_assert_int_eq(hf_acquire(mine, HF_EXCLUSIVE, 0, &hold), 0);
    ck_assert_int_eq(hf_acquire(theirs, HF_SHARED, 0, NULL), HF_EBUSY);
    ck_assert_int_eq(hf_release(mine), 0);
    ck_assert_int_eq(hf_release(mine), 0);
    ck_assert_int_eq(hf_acquire(theirs, HF_SHARED, 0, NULL), 0);
    ck_assert_int_eq(hf_release(theirs), 0);
}
END_TEST

START_TEST(second_upgrader_is_told_of_the_deadlock)
{
    hf_lock *mine = open_lock(client, "a", HF_REENTRANT);
    hf_lock *theirs = open_lock(other, "a", HF_REENTRANT);
    ck_assert_int_eq(hf_acquire(mine, HF_SHARED, 0, NULL), 0);
    ck_assert_int_eq(hf_acquire(theirs, HF_SHARED, 0, NULL), 0);
    struct attempt attempt = {.lock = mine, .mode = HF_EXCLUSIVE, .timeout_ns = -1};
    pthread_t thread;
    pthread_create(&thread, NULL, attempt_run, &attempt);
    AWAIT(hfi_word_holder(agent_word(&agent, "a")) != 0);
    ck_assert_int_eq(hf_acquire(theirs, HF_EXCLUSIVE, -1, NULL), HF_EDEADLK);
    ck_assert_int_eq(hf_release(theirs), 0);
    pthread_join(thread, NULL);
    ck_assert_int_eq(attempt.result, 0);
}
END_TEST

static void ignore_status(const struct hf_status *status, void *arg)
{
    (void)status;
    (void)arg;
}

/* Returns how many rings the agent has received, including all rings that were sent before this
 * call. */
static uint32_t rings_so_far(void)
{
    /* the agent answers only after it has received the rings before this request */
    ck_assert_int_eq(hf_status(client, ignore_status, NULL), 0);
    return atomic_load(&agent.rings);
}

/* The host has a shared grant. A reader that wants to write rings the agent, and waits until the
 * grant is exclusive. Its seat has the note of this wish only during the wait: otherwise each later
 * ring of the lock would count as this reader's. */
START_TEST(a_reader_writes_once_its_host_may)
{
    struct hf_hold hold;
    atomic_store(&agent.ungranted, true);
    hf_lock *mine = open_lock(client, "a", HF_REENTRANT);
    hfi_grant(&agent.actor, agent_slot(&agent, "a"), HFI_GRANT_SHARED, 1, 100);
    ck_assert_int_eq(hf_acquire(mine, HF_SHARED, 0, NULL), 0);
    uint32_t before = rings_so_far();
    ck_assert_int_eq(hf_acquire(mine, HF_EXCLUSIVE, 20 * MS, NULL), HF_ETIMEDOUT);
    ck_assert_uint_gt(rings_so_far(), before);
    ck_assert_int_gt(hf_remaining_ns(mine), 0);
    ck_assert(!hfi_has_upgrades(&agent.region, agent_slot(&agent, "a")));

    struct attempt attempt = {.lock = mine, .mode = HF_EXCLUSIVE, .timeout_ns = -1};
    pthread_t thread;
    pthread_create(&thread, NULL, attempt_run, &attempt);
    AWAIT(hfi_has_upgrades(&agent.region, agent_slot(&agent, "a")));
    cancel_and_join(&attempt, thread);
    ck_assert_int_gt(hf_remaining_ns(mine), 0);
    ck_assert(!hfi_has_upgrades(&agent.region, agent_slot(&agent, "a")));

    pthread_create(&thread, NULL, attempt_run, &attempt);
    AWAIT(hfi_has_upgrades(&agent.region, agent_slot(&agent, "a")));
    hfi_grant(&agent.actor, agent_slot(&agent, "a"), HFI_GRANT_EXCLUSIVE, 2, 100);
    pthread_join(thread, NULL);
    ck_assert_int_eq(attempt.result, 0);
    ck_assert_int_eq(hf_acquire(mine, HF_EXCLUSIVE, 0, &hold), 0);
    ck_assert_uint_eq(hold.token, 2);
    ck_assert_int_eq(hf_release(mine), 0);
    ck_assert_int_eq(hf_release(mine), 0);
    ck_assert_int_eq(hf_release(mine), 0);
    ck_assert_int_eq(hf_release(mine), HF_ENOTHELD);
}
END_TEST

START_TEST(wait_times_out_and_is_handed_over)
{
    hf_lock *mine = open_lock(client, "a", 0);
    hf_lock *theirs = open_lock(other, "a", 0);
    ck_assert_int_eq(hf_acquire(mine, HF_EXCLUSIVE, 0, NULL), 0);
    int64_t began = now_ns();
    int64_t began_served = served_ns();
    ck_assert_int_eq(hf_acquire(theirs, HF_EXCLUSIVE, 60 * MS, NULL), HF_ETIMEDOUT);
    ck_assert_int_ge(now_ns() - began, 60 * MS);
    ck_assert_int_lt(served_ns() - began_served, 2 * S);
    struct attempt attempt = {
        .lock = theirs, .mode = _i ? HF_SHARED : HF_EXCLUSIVE, .timeout_ns = -1};
    pthread_t thread;
    pthread_create(&thread, NULL, attempt_run, &attempt);
    AWAIT(is_waited_for("a"));
    ck_assert_int_eq(hf_release(mine), 0);
    pthread_join(thread, NULL);
    ck_assert_int_eq(attempt.result, 0);
    ck_assert_int_gt(hf_remaining_ns(theirs), 0);
    ck_assert_int_eq(hf_acquire(mine, HF_EXCLUSIVE, 0, NULL), HF_EBUSY);
    ck_assert_int_eq(hf_release(theirs), 0);
    ck_assert_int_eq(hf_acquire(mine, HF_EXCLUSIVE, 0, NULL), 0);
}
END_TEST

START_TEST(cancel_ends_every_wait_on_the_handle)
{
    hf_lock *mine = open_lock(client, "a", 0);
    hf_lock *theirs = open_lock(other, "a", 0);
    ck_assert_int_eq(hf_cancel(theirs), 0); /* nobody waits, so this does not end the next wait */
    ck_assert_int_eq(hf_acquire(mine, HF_EXCLUSIVE, 0, NULL), 0);
    struct attempt attempts[2] = {
        {.lock = theirs, .mode = HF_EXCLUSIVE, .timeout_ns = -1},
        /* this attempt waits for the handle's claim, not in the queue */
        {.lock = theirs, .mode = HF_SHARED, .timeout_ns = 60 * S},
    };
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) {
        pthread_create(&threads[i], NULL, attempt_run, &attempts[i]);
        await_waiting(&attempts[i]);
    }
    int64_t began = served_ns();
    ck_assert_int_eq(hf_cancel(theirs), 0);
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
        ck_assert_int_eq(attempts[i].result, HF_ECANCELED);
    }
    ck_assert_int_lt(served_ns() - began, S);
    ck_assert_int_eq(hf_release(mine), 0);
    ck_assert_int_eq(hf_acquire(theirs, HF_EXCLUSIVE, 0, NULL), 0); /* the queue still works */
}
END_TEST

START_TEST(second_waiter_of_a_handle_finds_it_held)
{
    hf_lock *mine = open_lock(client, "a", 0);
    hf_lock *theirs = open_lock(other, "a", 0);
    ck_assert_int_eq(hf_acquire(mine, HF_EXCLUSIVE, 0, NULL), 0);
    struct attempt attempts[2] = {{.lock = theirs, .timeout_ns = -1},
                                  {.lock = theirs, .timeout_ns = -1}};
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) {
        pthread_create(&threads[i], NULL, attempt_run, &attempts[i]);
        await_waiting(&attempts[i]);
    }
    ck_assert_int_eq(hf_acquire(theirs, HF_EXCLUSIVE, 0, NULL), HF_EBUSY);
    ck_assert_int_eq(hf_acquire(theirs, HF_EXCLUSIVE, 20 * MS, NULL), HF_ETIMEDOUT);
    ck_assert_int_eq(hf_release(theirs), HF_ENOTHELD);
    ck_assert_int_eq(hf_release(mine), 0);
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    ck_assert_int_eq(attempts[0].result + attempts[1].result, HF_EALREADY);
    ck_assert_int_eq(attempts[0].result * attempts[1].result, 0);
}
END_TEST

/* Threads share one handle. The word and the claim let only one thread hold the lock at a time. */
struct crowd {
    hf_lock *lock;
    bool shared_too;
    _Atomic int inside;
    _Atomic int holds;
    _Atomic int wrong;
};

static void *crowd_run(void *arg)
{
    struct crowd *crowd = arg;
    for (int i = 0; i < 3000; i++) {
        enum hf_mode mode = crowd->shared_too && i % 3 == 0 ? HF_SHARED : HF_EXCLUSIVE;
        int result = hf_acquire(crowd->lock, mode, i % 7 == 0 ? MS : 0, NULL);
        if (result == 0) {
            atomic_fetch_add(&crowd->wrong, atomic_fetch_add(&crowd->inside, 1) != 0);
            atomic_fetch_add(&crowd->holds, 1);
            atomic_fetch_add(&crowd->wrong, hf_remaining_ns(crowd->lock) <= 0);
            atomic_fetch_sub(&crowd->inside, 1);
            int released = hf_release(crowd->lock);
            atomic_fetch_add(&crowd->wrong, released != 0);
        } else {
            atomic_fetch_add(&crowd->wrong,
                             result != HF_EALREADY && result != HF_EBUSY && result != HF_ETIMEDOUT);
        }
    }
    return NULL;
}

START_TEST(threads_share_a_handle)
{
    struct crowd crowd = {.lock = open_lock(client, "a", 0), .shared_too = _i == 1};
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) {
        pthread_create(&threads[i], NULL, crowd_run, &crowd);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
    }
    ck_assert_int_eq(atomic_load(&crowd.wrong), 0);
    /* there are usually far more holds: their number depends on the machine */
    ck_assert_int_gt(atomic_load(&crowd.holds), 300);
    ck_assert_int_eq(hf_acquire(crowd.lock, HF_EXCLUSIVE, 0, NULL), 0);
}
END_TEST

START_TEST(fork_child_owns_nothing)
{
    hf_lock *lock = open_lock(client, "a", 0);
    hf_lock *further = open_lock(client, "b", 0);
    ck_assert_int_eq(hf_acquire(lock, HF_EXCLUSIVE, 0, NULL), 0);
    uint64_t word = agent_word(&agent, "a");
    uint32_t requests = atomic_load(&agent.requests);
    pid_t child = fork();
    if (child == 0) {
        struct hf_event event;
        char buf[HF_SEQUENCER_MAX];
        hf_lock *locks[] = {lock};
        hf_lock *out = NULL;
        bool good = hf_release(lock) == HF_EFORKED &&
                    hf_acquire(further, HF_EXCLUSIVE, 0, NULL) == HF_EFORKED &&
                    hf_acquire_all(locks, 1, HF_EXCLUSIVE, 0, NULL) == HF_EFORKED &&
                    hf_downgrade(lock) == HF_EFORKED && hf_progress(lock) == HF_EFORKED &&
                    hf_cancel(lock) == HF_EFORKED && hf_remaining_ns(lock) == 0 &&
                    strcmp(hf_lock_name(lock), "a") == 0 &&
                    hf_open(client, "c", NULL, &out) == HF_EFORKED &&
                    hf_sequencer(lock, buf, sizeof(buf)) == HF_EFORKED &&
                    hf_event_fd(client) == HF_EFORKED &&
                    hf_next_event(client, &event) == HF_EFORKED &&
                    hf_watch(client, "") == HF_EFORKED && hf_unwatch(client, "") == HF_EFORKED;
        hf_close(further);
        hf_disconnect(client);
        _exit(good ? 0 : 1);
    }
    int status = -1;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    ck_assert_uint_eq(agent_word(&agent, "a"), word);
    ck_assert_uint_eq(atomic_load(&agent.requests), requests);
    ck_assert_int_gt(hf_remaining_ns(lock), 0);
    ck_assert_int_eq(hf_release(lock), 0);
    ck_assert_int_eq(hf_acquire(further, HF_EXCLUSIVE, 0, NULL), 0);
}
END_TEST

START_TEST(eviction_is_told_as_loss)
{
    hf_lock *lock = open_lock(client, "a", _i == 1 ? HF_REENTRANT : 0);
    ck_assert_int_eq(hf_acquire(lock, HF_EXCLUSIVE, 0, NULL), 0);
    ck_assert(agent_evict(&agent, "a", 0));
    ck_assert_int_eq(hf_remaining_ns(lock), 0);
    ck_assert_int_eq(hf_acquire(lock, HF_EXCLUSIVE, 0, NULL), HF_ELOST);
    ck_assert_int_eq(hf_progress(lock), HF_ELOST);
    ck_assert_int_eq(hf_downgrade(lock), HF_ELOST);
    ck_assert_int_eq(hf_release(lock), HF_ELOST);
    ck_assert_int_eq(hf_release(lock), HF_ENOTHELD);
    ck_assert_int_eq(hf_acquire(lock, HF_EXCLUSIVE, 0, NULL), 0);
    ck_assert_int_eq(hf_release(lock), 0);
}
END_TEST

START_TEST(closed_lock_is_busy_until_opened)
{
    hf_lock *mine = open_lock(client, "a", 0);
    hf_lock *theirs = open_lock(other, "a", 0);
    ck_assert_int_eq(hf_acquire(mine, HF_EXCLUSIVE, 0, NULL), 0);
    ck_assert(agent_evict(&agent, "a", 60 * S));
    ck_assert_int_eq(hf_acquire(theirs, HF_EXCLUSIVE, 0, NULL), HF_EBUSY);
    struct attempt attempt = {.lock = theirs, .timeout_ns = -1};
    pthread_t thread;
    pthread_create(&thread, NULL, attempt_run, &attempt);
    await_waiting(&attempt);
    hfi_open(&agent.actor, agent_slot(&agent, "a"));
    pthread_join(thread, NULL);
    ck_assert_int_eq(attempt.result, 0);
}
END_TEST

START_TEST(fixed_lease_ends_by_itself)
{
    hf_lock *lock = NULL;
    struct hf_lock_options options = {.size = sizeof(options), .lease_ns = 80 * MS};
    enum hf_mode mode = _i ? HF_SHARED : HF_EXCLUSIVE;
    ck_assert_int_eq(hf_open(client, "a", &options, &lock), 0);
    struct hf_hold hold;
    int64_t began = now_ns();
    ck_assert_int_eq(hf_acquire(lock, mode, 0, &hold), 0);
    ck_assert_int_le(hold.deadline_ns, now_ns() + 80 * MS);
    int64_t remaining_ns = hf_remaining_ns(lock);
    int progress = hf_progress(lock); /* a progress report does not prolong a lease */
    if (now_ns() - began < 80 * MS) { /* otherwise the lease may have ended */
        ck_assert_int_gt(remaining_ns, 0);
        ck_assert_int_eq(progress, 0);
    }
    ck_assert_int_le(remaining_ns, 80 * MS);
    sleep_ms(90);
    ck_assert_int_eq(hf_remaining_ns(lock), 0);
    ck_assert_int_eq(hf_progress(lock), HF_ELOST);
    ck_assert_int_eq(hf_release(lock), HF_ELOST);
    ck_assert_uint_eq(hfi_word_holder(agent_word(&agent, "a")), 0);
    began = now_ns();
    /* the lock was freed, although the hold was lost */
    ck_assert_int_eq(hf_acquire(lock, mode, 0, NULL), 0);
    int released = hf_release(lock);
    bool late = now_ns() - began >= 80 * MS;
    ck_assert(released == 0 || (late && released == HF_ELOST));
}
END_TEST

/* The largest number as limit means no limit. */
START_TEST(the_longest_limit_is_none)
{
    hf_lock *lock = NULL;
    struct hf_lock_options options = {.size = sizeof(options),
                                      .lease_ns = _i == 0 ? INT64_MAX : 0,
                                      .max_stall_ns = _i == 1 ? INT64_MAX : 0};
    for (enum hf_mode mode = HF_EXCLUSIVE; mode <= HF_SHARED; mode++) {
        ck_assert_int_eq(hf_open(client, "a", &options, &lock), 0);
        ck_assert_int_eq(hf_acquire(lock, mode, 0, NULL), 0);
        ck_assert_int_eq(hf_progress(lock), 0);
        ck_assert_int_gt(hf_remaining_ns(lock), 0);
        ck_assert_int_eq(hf_release(lock), 0);
        hf_close(lock);
    }
}
END_TEST

/* Reports progress until the lease, which lasts 3 * stall_ns, has ended. Returns false if this
 * thread once got no processor for stall_ns, and so lost the hold. */
static bool progress_to_the_end(int64_t stall_ns)
{
    hf_lock *lock = NULL;
    struct hf_lock_options options = {
        .size = sizeof(options), .lease_ns = 3 * stall_ns, .max_stall_ns = stall_ns};
    ck_assert_int_eq(hf_open(client, "a", &options, &lock), 0);
    int64_t began = now_ns();
    int64_t told_ns = began; /* a time before the last report: the stall counts from that report */
    int result = hf_acquire(lock, HF_EXCLUSIVE, 0, NULL);
    int64_t over_ns = now_ns() + 3 * stall_ns; /* the lease ends at this time, or earlier */
    ck_assert_int_eq(result, 0);
    while (result == 0 && now_ns() < over_ns - 100 * MS) {
        sleep_ms(20);
        int64_t telling_ns = now_ns();
        result = hf_progress(lock);
        int64_t ended_ns = now_ns();
        bool late = ended_ns - told_ns >= stall_ns || ended_ns - began >= 3 * stall_ns;
        ck_assert(result == 0 || (late && result == HF_ELOST));
        told_ns = telling_ns;
        int64_t remaining_ns = hf_remaining_ns(lock);
        ck_assert(remaining_ns == 0 || telling_ns + remaining_ns <= over_ns);
    }
    while (now_ns() <= over_ns) {
        sleep_ms(20);
    }
    ck_assert_int_eq(hf_progress(lock), HF_ELOST);
    ck_assert_int_eq(hf_release(lock), HF_ELOST);
    ck_assert_int_eq(hf_acquire(lock, HF_EXCLUSIVE, 0, NULL), 0);
    sleep_ms((int)(stall_ns / MS) + 20); /* no progress for longer than the stall */
    ck_assert_int_eq(hf_remaining_ns(lock), 0);
    ck_assert_int_eq(hf_release(lock), HF_ELOST);
    hf_close(lock);
    return result == 0;
}

/* If the machine is too busy for this thread to report in time, the test repeats with twice the
 * times. */
START_TEST(progress_keeps_the_hold_until_its_lease_ends)
{
    bool kept = false;
    for (int64_t stall_ns = 300 * MS; stall_ns < 10 * S && !kept; stall_ns *= 2) {
        kept = progress_to_the_end(stall_ns);
    }
    ck_assert(kept);
}
END_TEST

START_TEST(all_or_none)
{
    hf_lock *mine[] = {open_lock(client, "c", 0), open_lock(client, "a", 0),
                       open_lock(client, "b", 0)};
    hf_lock *theirs = open_lock(other, "b", 0);
    hf_lock *again = open_lock(client, "a", 0);
    hf_lock *same[] = {mine[0], mine[1], again};
    hf_lock *mixed[] = {mine[0], theirs};
    struct hf_hold holds[3] = {{0}};
    ck_assert_int_eq(hf_acquire_all(mine, 0, HF_EXCLUSIVE, 0, NULL), HF_EINVAL);
    ck_assert_int_eq(hf_acquire_all(same, 3, HF_EXCLUSIVE, 0, NULL), HF_EINVAL);
    ck_assert_int_eq(hf_acquire_all(mixed, 2, HF_EXCLUSIVE, 0, NULL), HF_EINVAL);
    ck_assert_int_eq(hf_acquire(theirs, HF_EXCLUSIVE, 0, NULL), 0);
    ck_assert_int_eq(hf_acquire_all(mine, 3, HF_EXCLUSIVE, 0, holds), HF_EBUSY);
    ck_assert_int_eq(hf_acquire_all(mine, 3, HF_EXCLUSIVE, 30 * MS, holds), HF_ETIMEDOUT);
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(hf_release(mine[i]), HF_ENOTHELD);
    }
    /* "a" was taken and released again, because "b" was not free. "c", the next lock in the order
     * of names, was not touched. */
    ck_assert_uint_eq(agent_word(&agent, "a") & HFI_W_TOKEN, 2);
    ck_assert_uint_eq(agent_word(&agent, "c") & HFI_W_TOKEN, 0);
    ck_assert_int_eq(hf_release(theirs), 0);
    ck_assert_int_eq(hf_acquire(mine[0], HF_EXCLUSIVE, 0, NULL), 0);
    ck_assert_int_eq(hf_release(mine[0]), 0);
    ck_assert_int_eq(hf_acquire_all(mine, 3, HF_EXCLUSIVE, 0, holds), 0);
    ck_assert_uint_eq(holds[0].token, 2); /* the token of c, which is first in the caller's order */
    ck_assert_uint_eq(holds[1].token, 3);
    for (int i = 0; i < 3; i++) {
        ck_assert_int_gt(hf_remaining_ns(mine[i]), 0);
        ck_assert_int_eq(hf_release(mine[i]), 0);
    }
}
END_TEST

START_TEST(try_of_an_ungranted_lock_waits_for_the_grant)
{
    atomic_store(&agent.ungranted, true);
    hf_lock *lock = open_lock(client, "a", 0);
    int64_t began = now_ns();
    int64_t began_served = served_ns();
    ck_assert_int_eq(hf_acquire(lock, HF_EXCLUSIVE, 0, NULL), HF_EBUSY); /* no agent answered */
    ck_assert_int_ge(now_ns() - began, S - MS);
    ck_assert_int_lt(served_ns() - began_served, 3 * S);
    struct attempt attempt = {.lock = lock, .timeout_ns = 0};
    pthread_t thread;
    began = now_ns();
    pthread_create(&thread, NULL, attempt_run, &attempt);
    sleep_ms(100);
    hfi_grant(&agent.actor, agent_slot(&agent, "a"), HFI_GRANT_EXCLUSIVE, 1, 100);
    bool in_time = now_ns() - began < S - 50 * MS; /* false: this thread ran too late to grant */
    pthread_join(thread, NULL);
    ck_assert(attempt.result == 0 || (!in_time && attempt.result == HF_EBUSY));
}
END_TEST

START_TEST(sequencers)
{
    hf_lock *lock = open_lock(client, "a b/%", 0);
    hf_lock *theirs = open_lock(other, "a b/%", 0);
    char first[HF_SEQUENCER_MAX];
    char second[HF_SEQUENCER_MAX];
    char foreign[HF_SEQUENCER_MAX];
    ck_assert_int_eq(hf_sequencer(lock, first, sizeof(first)), HF_ENOTHELD);
    ck_assert_int_eq(hf_acquire(lock, HF_EXCLUSIVE, 0, NULL), 0);
    ck_assert_int_eq(hf_sequencer(lock, first, 10), HF_EINVAL);
    ck_assert_int_eq(hf_sequencer(lock, first, sizeof(first)), 0);
    ck_assert_int_eq(hf_sequencer(lock, second, strlen(first)), HF_EINVAL);
    ck_assert_int_eq(hf_sequencer(lock, second, strlen(first) + 1), 0);
    ck_assert_str_eq(first, second);
    ck_assert_uint_eq(strspn(first, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                                    "0123456789._~%:/-"),
                      strlen(first));
    ck_assert_int_eq(hf_check_sequencer_local(client, first), 0);
    ck_assert_int_eq(hf_check_sequencer(client, first), HF_ESTALE); /* the agent's answer */
    uint32_t requests = atomic_load(&agent.requests);
    ck_assert_int_eq(hf_release(lock), 0);
    /* the local check cannot know of a release */
    ck_assert_int_eq(hf_check_sequencer_local(client, first), 0);
    ck_assert_int_eq(hf_acquire(theirs, HF_EXCLUSIVE, 0, NULL), 0);
    ck_assert_int_eq(hf_sequencer(theirs, second, sizeof(second)), 0);
    ck_assert_int_eq(hf_check_sequencer_local(client, first), HF_ESTALE);
    ck_assert_int_eq(hf_check_sequencer_local(client, second), 0);
    /* the agent was asked once; the later checks read the shared memory */
    ck_assert_uint_eq(atomic_load(&agent.requests), requests);
    ck_assert_int_eq(hf_check_sequencer_local(client, "rubbish"), HF_EINVAL);
    ck_assert_int_eq(hf_check_sequencer(client, ""), HF_EINVAL);
    struct hfi_sequencer parsed;
    ck_assert_int_eq(hfi_sequencer_parse(first, strlen(first), &parsed), 0);
    strcpy(parsed.cell, "elsewhere");
    foreign[hfi_sequencer_format(&parsed, foreign, sizeof(foreign) - 1)] = '\0';
    ck_assert_int_eq(hf_check_sequencer(client, foreign), HF_EINVAL);
    ck_assert_int_eq(hf_check_sequencer_local(client, foreign), HF_EINVAL);
}
END_TEST

START_TEST(closing_releases_and_tells_the_agent)
{
    hf_lock *mine = open_lock(client, "a", 0);
    hf_lock *theirs = open_lock(other, "a", 0);
    ck_assert_int_eq(hf_acquire(mine, HF_EXCLUSIVE, 0, NULL), 0);
    hf_close(mine);
    ck_assert_int_eq(hf_acquire(theirs, HF_EXCLUSIVE, 0, NULL), 0);
    hf_disconnect(other);
    other = NULL;
    hf_lock *next = open_lock(client, "a", 0);
    ck_assert_int_eq(hf_acquire(next, HF_EXCLUSIVE, 0, NULL), 0);
    AWAIT(atomic_load(&agent.closes) >= 2);
    ck_assert_uint_eq(atomic_load(&agent.closes), 2);
}
END_TEST

static int tell_name(const struct hf_lock_info *info, void *arg)
{
    strcat(arg, info->name);
    ck_assert_uint_eq(info->holder_count, 2);
    ck_assert_int_eq(info->holders[0]->pid, 4711);
    ck_assert_int_eq(info->holders[0]->uid, -1);
    ck_assert_str_eq(info->holders[0]->agent, "fake");
    ck_assert_str_eq(info->holders[0]->command, "sleep 1");
    ck_assert_int_eq(info->holders[1]->pid, 4712);
    ck_assert_uint_eq(info->waiter_count, 2);
    ck_assert_int_eq(info->waiters[0]->pid, 4713);
    ck_assert_int_eq(info->waiters[1]->pid, 4714);
    return strcmp(info->name, "x4") == 0 ? 42 : 0;
}

static void tell_status(const struct hf_status *status, void *arg)
{
    ck_assert_str_eq(status->agent, "fake");
    ck_assert_uint_eq(status->voter_count, 2);
    ck_assert_ptr_null(status->voters[0]->address);
    *(bool *)arg = true;
}

static int tell_fact(const struct hf_fact *fact, void *arg)
{
    uint32_t *count = arg;
    if ((*count)++ == 0) {
        ck_assert_ptr_null(fact->subject);
        ck_assert_str_eq(fact->key, "first");
        ck_assert_int_eq(fact->value, -7);
        ck_assert_ptr_null(fact->text);
        return 0;
    }
    ck_assert_str_eq(fact->subject, "fake");
    ck_assert_str_eq(fact->key, "second");
    ck_assert_int_eq(fact->value, 8);
    ck_assert_str_eq(fact->text, "words");
    return 43;
}

START_TEST(facts_are_told_one_by_one)
{
    uint32_t count = 0;
    ck_assert_int_eq(hf_facts(client, tell_fact, &count), 43);
    ck_assert_uint_eq(count, 2);
    ck_assert_int_eq(hf_facts(client, NULL, NULL), HF_EINVAL);
    ck_assert_int_eq(hf_facts(NULL, tell_fact, &count), HF_EINVAL);
}
END_TEST

START_TEST(listing_goes_through_its_pages)
{
    const char *names[] = {"a0", "a1", "a2", "a3", "a4", "a5", "a6", "x4", "x5"};
    char told[256] = "";
    bool stated = false;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        open_lock(client, names[i], 0);
    }
    ck_assert_int_eq(hf_list(client, "a", tell_name, told), 0);
    ck_assert_str_eq(told, "a0a1a2a3a4a5a6");
    told[0] = '\0';
    ck_assert_int_eq(hf_list(client, "", tell_name, told), 42);
    ck_assert_str_eq(told, "a0a1a2a3a4a5a6x4");
    told[0] = '\0';
    ck_assert_int_eq(hf_show(client, "x5", tell_name, told), 0);
    ck_assert_str_eq(told, "x5");
    ck_assert_int_eq(hf_status(client, tell_status, &stated), 0);
    ck_assert(stated);
    ck_assert_int_eq(hf_break(client, "a0", HF_BREAK_NOW), 0);
    ck_assert_uint_eq(atomic_load(&agent.last_kind), HFI_FRAME_BREAK);
}
END_TEST

static void tell_break(const struct hf_break_info *info, void *arg)
{
    uint32_t *calls = arg;
    ck_assert_str_eq(info->name, "a0");
    ck_assert_int_eq(info->error, 0);
    ck_assert_uint_eq(info->ended_count, 2);
    ck_assert_str_eq(info->ended[0]->agent, "host-a");
    ck_assert_str_eq(info->ended[0]->command, "job");
    ck_assert_int_eq(info->ended[0]->pid, 7);
    ck_assert_int_eq(info->ended[0]->mode, HF_SHARED);
    ck_assert_uint_eq(info->ended[1]->token, 11);
    ck_assert_ptr_null(info->ended[1]->command);
    ck_assert_int_eq(info->ended[1]->elapsed_ns, -1);
    ck_assert_uint_eq(info->more, 5);
    ck_assert_int_eq(info->closed_ns, 12);
    ck_assert_uint_eq(info->silent_count, 1);
    ck_assert_str_eq(info->silent[0], "host-c");
    (*calls)++;
}

START_TEST(a_break_is_reported)
{
    uint32_t calls = 0;
    ck_assert_int_eq(hf_break_report(client, "a0", 0, tell_break, &calls), 0);
    ck_assert_uint_eq(calls, 1);
    ck_assert_int_eq(hf_break(client, "a0", 0), 0);
    ck_assert_int_eq(hf_break_report(client, "a0", 0, NULL, NULL), HF_EINVAL);
    ck_assert_int_eq(hf_break_report(client, "a0", 2, tell_break, &calls), HF_EINVAL);
    ck_assert_int_eq(hf_break_report(client, "", 0, tell_break, &calls), HF_EINVAL);
    ck_assert_uint_eq(calls, 1);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("calls");
    tcase_set_timeout(tests, 60);
    tcase_add_checked_fixture(tests, setup, clients_destroy);
    tcase_add_test(tests, facts_are_told_one_by_one);
    tcase_add_test(tests, a_break_is_reported);
    tcase_add_test(tests, every_code_has_a_text);
    tcase_add_test(tests, connect_checks_its_arguments);
    tcase_add_test(tests, connect_finds_the_socket_by_the_environment);
    tcase_add_test(tests, open_checks_its_arguments);
    tcase_add_test(tests, open_needs_a_descriptor);
    tcase_add_test(tests, null_is_refused_not_followed);
    tcase_add_test(tests, exclusive_excludes_and_tokens_rise);
    tcase_add_test(tests, shared_shares_and_downgrade_lets_readers_in);
    tcase_add_test(tests, fast_path_sends_nothing);
    tcase_add_test(tests, reentrant_counts);
    tcase_add_test(tests, reentrant_upgrade);
    tcase_add_test(tests, second_upgrader_is_told_of_the_deadlock);
    tcase_add_test(tests, a_reader_writes_once_its_host_may);
    tcase_add_loop_test(tests, wait_times_out_and_is_handed_over, 0, 2);
    tcase_add_test(tests, cancel_ends_every_wait_on_the_handle);
    tcase_add_test(tests, second_waiter_of_a_handle_finds_it_held);
    tcase_add_loop_test(tests, threads_share_a_handle, 0, 2);
    if (fork_is_wiped("fork_child_owns_nothing")) {
        tcase_add_test(tests, fork_child_owns_nothing);
    }
    tcase_add_loop_test(tests, eviction_is_told_as_loss, 0, 2);
    tcase_add_test(tests, closed_lock_is_busy_until_opened);
    tcase_add_loop_test(tests, fixed_lease_ends_by_itself, 0, 2);
    tcase_add_loop_test(tests, the_longest_limit_is_none, 0, 2);
    tcase_add_test(tests, progress_keeps_the_hold_until_its_lease_ends);
    tcase_add_test(tests, all_or_none);
    tcase_add_test(tests, try_of_an_ungranted_lock_waits_for_the_grant);
    tcase_add_test(tests, sequencers);
    tcase_add_test(tests, closing_releases_and_tells_the_agent);
    tcase_add_test(tests, listing_goes_through_its_pages);
    return suite_main("lib_calls", tests);
}
