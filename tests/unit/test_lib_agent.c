/* libholdfast: an agent that answers nonsense, or nothing, causes an error and never a crash.
 * Rubbish that another process of the namespace writes into the region causes no crash, either. */
#include "lib_clients.h"

#include <fcntl.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../suite_main.h"
/* libholdfast's own header: its hooks let the test act between a swap and the next look */
#include "client.h"

#define FORGED_NS (100 * MS)

/* Connects. The timeout is short only for an agent that answers nothing. */
static int try_connect(void)
{
    hf_client *joined = NULL;
    bool silent = atomic_load(&agent.mood) == MOOD_SILENT;
    struct hf_options options = {.size = sizeof(options),
                                 .socket = agent.path,
                                 .connect_timeout_ns = silent ? S / 2 : 60 * S};
    int error = hf_connect(&options, &joined);
    if (error == 0) {
        client = joined;
    }
    return error;
}

static void setup(void)
{
    agent_create(&agent, LONG_TTL_NS);
    client = NULL;
}

static void teardown(void)
{
    hf_disconnect(client);
    agent_destroy(&agent);
}

START_TEST(a_bad_greeting_is_refused)
{
    static const struct {
        enum agent_mood mood;
        int error;
    } cases[] = {
        {MOOD_RUBBISH, HF_EPROTO}, {MOOD_WRONG_KIND, HF_EPROTO}, {MOOD_WRONG_NUMBER, HF_EPROTO},
        {MOOD_OLD, HF_EVERSION},   {MOOD_CLOCK, HF_EPROTO},      {MOOD_SILENT, HF_ENOAGENT},
        {MOOD_OTHER, HF_EVERSION},
    };
    atomic_store(&agent.mood, cases[_i].mood);
    ck_assert_int_eq(try_connect(), cases[_i].error);
    atomic_store(&agent.mood, MOOD_GOOD);
    ck_assert_int_eq(try_connect(), 0);
}
END_TEST

/* Writes the command line of this process as HELLO sends it. */
static void own_command(char shown[HFI_FRAME_COMMAND_MAX + 1])
{
    char words[4096];
    FILE *file = fopen("/proc/self/cmdline", "re");
    ck_assert_ptr_nonnull(file);
    struct hfi_text text = hfi_command_of(words, fread(words, 1, sizeof(words), file), shown);
    fclose(file);
    ck_assert_uint_gt(text.size, 0);
    shown[text.size] = '\0';
}

START_TEST(a_process_says_its_command_line)
{
    char shown[HFI_FRAME_COMMAND_MAX + 1];
    own_command(shown);
    ck_assert_int_eq(try_connect(), 0);
    ck_assert_str_eq(agent.command, shown);
}
END_TEST

/* A program may say which command it runs for its user. A text that does not fit is cut. */
START_TEST(a_process_says_the_command_that_it_was_given)
{
    char given[HFI_FRAME_COMMAND_MAX + 40];
    struct hf_options options = {
        .size = sizeof(options), .socket = agent.path, .command = "make \x1b report"};
    ck_assert_int_eq(hf_connect(&options, &client), 0);
    ck_assert_str_eq(agent.command, "make ? report");
    hf_disconnect(client);
    client = NULL;
    memset(given, 'x', sizeof(given));
    given[sizeof(given) - 1] = '\0';
    options.command = given;
    ck_assert_int_eq(hf_connect(&options, &client), 0);
    ck_assert_uint_eq(strlen(agent.command), HFI_FRAME_COMMAND_MAX);
}
END_TEST

static int count_lock(const struct hf_lock_info *info, void *arg)
{
    (void)info;
    ++*(int *)arg;
    return 0;
}

START_TEST(a_bad_answer_is_an_error_and_the_next_is_good)
{
    static const enum agent_mood moods[] = {MOOD_RUBBISH, MOOD_WRONG_KIND, MOOD_WRONG_NUMBER};
    hf_lock *lock = NULL;
    hf_lock *another = NULL;
    int count = 0;
    ck_assert_int_eq(try_connect(), 0);
    ck_assert_int_eq(hf_open(client, "a", NULL, &lock), 0);
    ck_assert_int_eq(hf_acquire(lock, HF_EXCLUSIVE, 0, NULL), 0);
    for (int call = 0; call < 6; call++) {
        atomic_store(&agent.mood, moods[_i]);
        int error = call == 0   ? hf_open(client, "b", NULL, &another)
                    : call == 1 ? hf_list(client, "", count_lock, &count)
                    : call == 2 ? hf_show(client, "a", count_lock, &count)
                    : call == 3 ? hf_break(client, "a", 0)
                    : call == 4 ? hf_watch(client, "")
                                : hf_downgrade(lock);
        ck_assert_int_eq(error, HF_EPROTO);
        ck_assert_int_gt(hf_remaining_ns(lock), 0); /* frames of the agent cannot end a hold */
        atomic_store(&agent.mood, MOOD_GOOD);
        ck_assert_int_eq(REACHED(hf_show(client, "a", count_lock, &count)), 0);
    }
    ck_assert_int_eq(hf_release(lock), 0);
}
END_TEST

START_TEST(a_listing_that_never_ends_is_an_error)
{
    int count = 0;
    ck_assert_int_eq(try_connect(), 0);
    atomic_store(&agent.mood, MOOD_IN_CIRCLES);
    ck_assert_int_eq(hf_list(client, "", count_lock, &count), HF_EPROTO);
    ck_assert_int_eq(count, 3); /* the library counted a, b, and a again */
    atomic_store(&agent.mood, MOOD_GOOD);
    ck_assert_int_eq(REACHED(hf_list(client, "", count_lock, &count)), 0);
}
END_TEST

START_TEST(a_region_or_slot_that_is_none_is_refused)
{
    hf_lock *lock = NULL;
    ck_assert_int_eq(try_connect(), 0);
    atomic_store(&agent.mood, _i ? MOOD_WRONG_SLOT : MOOD_NO_REGION);
    ck_assert_int_eq(hf_open(client, "a", NULL, &lock), HF_EPROTO);
    ck_assert_ptr_null(lock);
    atomic_store(&agent.mood, MOOD_GOOD);
    ck_assert_int_eq(REACHED(hf_open(client, "a", NULL, &lock)), 0);
    ck_assert_int_eq(hf_acquire(lock, HF_SHARED, -1, NULL), 0);
}
END_TEST

START_TEST(a_silent_agent_is_given_up)
{
    hf_lock *lock = NULL;
    ck_assert_int_eq(try_connect(), 0);
    atomic_store(&agent.mood, MOOD_SILENT);
    int64_t began = now_ns();
    int64_t began_served = served_ns();
    ck_assert_int_eq(hf_open(client, "a", NULL, &lock), HF_ENOAGENT);
    ck_assert_int_ge(now_ns() - began, 5 * S);
    ck_assert_int_lt(served_ns() - began_served, 8 * S);
    atomic_store(&agent.mood, MOOD_GOOD);
    for (int tries = 0; tries < 10 && lock == NULL; tries++) {
        (void)!REACHED(hf_open(client, "a", NULL, &lock));
    }
    ck_assert_ptr_nonnull(lock);
}
END_TEST

START_TEST(words_out_of_turn_end_the_connection_only)
{
    hf_lock *lock = NULL;
    ck_assert_int_eq(try_connect(), 0);
    ck_assert_int_eq(hf_open(client, "a", NULL, &lock), 0);
    ck_assert_int_eq(hf_acquire(lock, HF_EXCLUSIVE, 0, NULL), 0);
    struct hfi_frame done = {.kind = HFI_FRAME_DONE, .request = 5};
    struct hf_event event;
    for (int i = 0; i < 20; i++) {
        agent_send(&agent, &done);
        ck_assert_int_eq(hf_next_event(client, &event), 0);
    }
    ck_assert_int_gt(hf_remaining_ns(lock), 0);
    hf_lock *another = NULL;
    ck_assert_int_eq(REACHED(hf_open(client, "b", NULL, &another)), 0);
    ck_assert_int_eq(hf_release(lock), 0);
}
END_TEST

/* Makes a hold of "a" under an agent that then ends. The next agent runs in that mood. */
static hf_lock *hold_over_an_agent(enum agent_mood mood)
{
    hf_lock *lock = NULL;
    ck_assert_int_eq(try_connect(), 0);
    ck_assert_int_eq(hf_open(client, "a", NULL, &lock), 0);
    ck_assert_int_eq(hf_acquire(lock, HF_EXCLUSIVE, 0, NULL), 0);
    agent_stop(&agent);
    atomic_store(&agent.mood, mood);
    agent_start(&agent, true);
    return lock;
}

/* An agent's nonsense is no refusal of the handle: the hold goes on, and still exists when a proper
 * agent answers. */
START_TEST(nonsense_while_it_connects_again_takes_no_hold)
{
    hf_lock *lock = hold_over_an_agent(MOOD_NO_REGION);
    hf_lock *another = NULL;
    ck_assert_int_eq(REACHED(hf_open(client, "b", NULL, &another)), HF_EPROTO);
    ck_assert_int_gt(hf_remaining_ns(lock), 0);
    atomic_store(&agent.mood, MOOD_GOOD);
    ck_assert_int_eq(REACHED(hf_open(client, "b", NULL, &another)), 0);
    ck_assert_int_eq(hf_release(lock), 0);
}
END_TEST

/* An agent of another version keeps that version until it is restarted. The library greets it less
 * and less often, but greets the next agent at once. */
START_TEST(another_version_is_not_asked_again_and_again)
{
    hf_lock *lock = hold_over_an_agent(MOOD_OTHER);
    hf_lock *another = NULL;
    for (int i = 0; i < 12; i++) {
        client->retry_ns = 0; /* as if the library had waited */
        ck_assert_int_eq(REACHED(hf_open(client, "b", NULL, &another)), HF_EVERSION);
    }
    uint64_t requests = atomic_load(&agent.requests);
    ck_assert_int_ge(client->retry_ns, now_ns() + 20 * S);
    for (int i = 0; i < 100; i++) {
        struct hf_event event;
        ck_assert_int_eq(hf_next_event(client, &event), 0);
        ck_assert_int_eq(hf_open(client, "b", NULL, &another), HF_EVERSION);
    }
    ck_assert_uint_eq(atomic_load(&agent.requests), requests);
    ck_assert_int_gt(hf_remaining_ns(lock), 0);
    agent_stop(&agent);
    atomic_store(&agent.mood, MOOD_GOOD);
    agent_start(&agent, true);
    ck_assert_int_eq(REACHED(hf_open(client, "b", NULL, &another)), 0);
    ck_assert_int_eq(hf_release(lock), 0);
}
END_TEST

static void *wait_for_lock(void *lock)
{
    return hf_acquire(lock, HF_EXCLUSIVE, -1, NULL) == 0 ? lock : NULL;
}

/*
 * An agent treats a living waiter as dead, and gives its seat away. The agent ends before the
 * waiter can ask for another seat. The waiter must not wait in the old seat again, where no agent
 * would serve it.
 */
START_TEST(a_seat_that_was_taken_away_is_not_waited_in_again)
{
    hf_lock *held = NULL;
    hf_lock *wanted = NULL;
    uint32_t seat = 0;
    pthread_t thread;
    void *got = NULL;
    ck_assert_int_eq(try_connect(), 0);
    other = join();
    ck_assert_int_eq(hf_open(client, "a", NULL, &held), 0);
    ck_assert_int_eq(hf_open(other, "a", NULL, &wanted), 0);
    ck_assert_int_eq(hf_acquire(held, HF_EXCLUSIVE, 0, NULL), 0);
    pthread_create(&thread, NULL, wait_for_lock, wanted);
    uint32_t slot = agent_slot(&agent, "a");
    AWAIT(hfi_queue(&agent.region, slot, &seat, 1) == 1);
    agent_publish(&agent, 60 * S); /* a waiter does not look for its agent before that lease ends */
    agent_stop(&agent);
    hfi_bury_waiter(&agent.actor, seat);
    _Atomic uint32_t *wake = &hfi_seat(&agent.region, seat)->wake;
    atomic_fetch_add(wake, 2);
    agent.kernel.wake(agent.kernel.arg, wake, 1);
    for (int i = 0; i < 400; i++) { /* this loop takes longer than a call tries to reach an agent */
        sleep_ms(5);
        ck_assert_uint_eq(hfi_queue(&agent.region, slot, &seat, 1), 0);
    }
    agent_start(&agent, true);
    ck_assert_int_eq(hf_release(held), 0);
    pthread_join(thread, &got);
    ck_assert_ptr_eq(got, wanted);
    ck_assert_int_eq(hf_release(wanted), 0);
    hf_disconnect(other);
}
END_TEST

/* Another process overwrites a hold's deadline with the lowest possible time, just when the hold
 * begins. The library does not compute the end of the lease from that time. */
START_TEST(a_deadline_before_all_time_makes_no_lease_that_never_ends)
{
    hf_lock *lock = NULL;
    const struct hf_lock_options options = {
        .size = sizeof(options), .lease_ns = 9 * S, .max_stall_ns = 3 * S};
    ck_assert_int_eq(try_connect(), 0);
    ck_assert_int_eq(hf_open(client, "a", &options, &lock), 0);
    ck_assert_int_eq(hf_acquire(lock, HF_EXCLUSIVE, 0, NULL), 0);
    struct binding *binding = atomic_load(&lock->binding);
    struct hold_view view;
    ck_assert(hold_read(lock, &view));
    atomic_store(&hfi_seat(&binding->map->region, binding->seat)->deadline_ns, UINT64_C(1) << 63);
    hold_store(lock, binding, HF_EXCLUSIVE, &view.held, false);
    ck_assert(hold_read(lock, &view));
    ck_assert_int_eq(view.lease_end_ns, options.lease_ns);
    ck_assert_int_eq(hf_progress(lock), HF_ELOST);
}
END_TEST

/* A connection is refused if the two clocks differ by more than the time that the greeting took. */
START_TEST(a_clock_that_is_apart_is_refused_either_way)
{
    static const int64_t apart_ns[] = {-20 * MS, 20 * MS, -4 * S, 4 * S};
    char why[160];
    struct hf_options options = {
        .size = sizeof(options), .socket = agent.path, .why = why, .why_size = sizeof(why)};
    atomic_store(&agent.mood, MOOD_CLOCK);
    atomic_store(&agent.clock_apart_ns, apart_ns[_i]);
    int64_t far_ns = apart_ns[_i] < 0 ? -apart_ns[_i] : apart_ns[_i];
    int error = 0;
    for (int64_t guard_ns = boottime_ns() + 60 * S; error == 0 && boottime_ns() < guard_ns;) {
        int64_t before_ns = boottime_ns();
        error = hf_connect(&options, &client);
        if (error == 0) {
            ck_assert_int_ge(boottime_ns() - before_ns, far_ns);
            hf_disconnect(client);
            client = NULL;
        }
    }
    ck_assert_int_eq(error, HF_EPROTO);
    ck_assert_msg(strstr(why, "another time namespace") != NULL, "%s", why);
    /* the agent's clock is ahead, so this process's clock is behind */
    ck_assert_msg(strstr(why, apart_ns[_i] > 0 ? "is behind by " : "is ahead by ") != NULL, "%s",
                  why);
    atomic_store(&agent.mood, MOOD_GOOD);
    ck_assert_int_eq(hf_connect(&options, &client), 0);
}
END_TEST

/* Connects again while the agent, which this process plays, does not answer in time. */
static int connect_in_time(const struct hf_options *options)
{
    int64_t guard_ns = boottime_ns() + 60000 * MS;
    int error;
    do {
        error = hf_connect(options, &client);
    } while (error == HF_ENOAGENT && boottime_ns() < guard_ns);
    return error;
}

/* A user must learn that the disk is full, because only making room helps then. */
START_TEST(a_full_disk_is_named)
{
    char why[160];
    struct hf_options options = {.size = sizeof(options),
                                 .socket = agent.path,
                                 .connect_timeout_ns = 50 * MS,
                                 .why = why,
                                 .why_size = sizeof(why)};
    atomic_store(&agent.mood, MOOD_DISK_FULL);
    ck_assert_int_eq(connect_in_time(&options), HF_EFULL);
    ck_assert_str_eq(why, "the agent's disk is full: make room where its state_dir is");
    atomic_store(&agent.mood, MOOD_FULL);
    ck_assert_int_eq(connect_in_time(&options), HF_EFULL);
    ck_assert_str_eq(why, "the agent has no room for one more connection: a table or its "
                          "disk is full, or it has no descriptors left; its log says which");
    atomic_store(&agent.mood, MOOD_GOOD);
    ck_assert_int_eq(connect_in_time(&options), 0);
}
END_TEST

/* A program that was built with the first version of the struct passes a smaller size. */
START_TEST(options_of_an_older_program_are_taken)
{
    struct hf_options options = {.size = offsetof(struct hf_options, why), .socket = agent.path};
    options.why = (char *)(uintptr_t)1; /* a field behind the end of the smaller struct */
    options.why_size = 100;
    ck_assert_int_eq(hf_connect(&options, &client), 0);
    options.size--;
    ck_assert_int_eq(hf_connect(&options, &client), HF_EINVAL);
}
END_TEST

/* Writes a lease as another process of the namespace could, while no agent runs that corrects
 * it. */
static void forge_lease(int64_t ahead_ns)
{
    uint32_t epoch = hfi_lease_epoch(atomic_load(&agent.region.header->lease));
    atomic_store(&agent.region.header->lease, hfi_lease(boottime_ns() + ahead_ns, epoch));
}

/* Writes a lease that ends beyond the ttl by FORGED_NS, and looks at a hold during this time. Later
 * the lease would look right by its deadline alone. So if this thread got no processor for so long,
 * the lease is written anew. */
static void forge_and_look(const hf_lock *held)
{
    int64_t guard_ns = boottime_ns() + 60 * S;
    int64_t right_ns;
    int64_t remaining_ns;
    do {
        ck_assert_int_lt(boottime_ns(), guard_ns);
        right_ns = boottime_ns() + FORGED_NS;
        forge_lease(LONG_TTL_NS + FORGED_NS);
        remaining_ns = hf_remaining_ns(held);
    } while (boottime_ns() >= right_ns);
    ck_assert_int_eq(remaining_ns, 0);
}

START_TEST(a_lease_beyond_the_ttl_counts_nowhere_and_never)
{
    hf_lock *held[2];
    hf_lock *free_one = NULL;
    char sequencer[HF_SEQUENCER_MAX];
    ck_assert_int_eq(try_connect(), 0);
    ck_assert_int_eq(hf_open(client, "a", NULL, &held[0]), 0);
    ck_assert_int_eq(hf_open(client, "b", NULL, &held[1]), 0);
    ck_assert_int_eq(hf_open(client, "c", NULL, &free_one), 0);
    for (int i = 0; i < 2; i++) { /* the handles get seats and lanes (client.h) for the fast path */
        ck_assert_int_eq(hf_acquire(free_one, i == 0 ? HF_EXCLUSIVE : HF_SHARED, 0, NULL), 0);
        ck_assert_int_eq(hf_release(free_one), 0);
    }
    ck_assert_int_eq(hf_acquire(held[0], HF_EXCLUSIVE, 0, NULL), 0);
    ck_assert_int_eq(hf_acquire(held[1], HF_SHARED, 0, NULL), 0);
    agent_stop(&agent);
    /* At the second look the forged lease would look right by its deadline alone. */
    forge_and_look(held[0]);
    for (int look = 0; look < 2; look++) {
        for (int i = 0; i < 2; i++) {
            ck_assert_int_le(hf_remaining_ns(held[i]), 0);
            ck_assert_int_ne(hf_sequencer(held[i], sequencer, sizeof(sequencer)), 0);
            ck_assert_int_ne(hf_acquire(free_one, i == 0 ? HF_EXCLUSIVE : HF_SHARED, 0, NULL), 0);
            ck_assert_int_eq(hf_acquire(free_one, i == 0 ? HF_EXCLUSIVE : HF_SHARED, 30 * MS, NULL),
                             HF_ETIMEDOUT);
        }
        sleep_ms(FORGED_NS / MS + 20);
    }
    forge_lease(LONG_TTL_NS); /* a lease that an agent could have published */
    ck_assert_int_gt(hf_remaining_ns(held[0]), 0);
    forge_lease(2 * LONG_TTL_NS);
    ck_assert_int_le(hf_remaining_ns(held[1]), 0);
    agent_start(&agent, true);
    agent_publish(&agent, LONG_TTL_NS);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_gt(hf_remaining_ns(held[i]), 0);
        ck_assert_int_eq(hf_release(held[i]), 0);
    }
    ck_assert_int_eq(REACHED(hf_acquire(free_one, HF_EXCLUSIVE, 10 * S, NULL)), 0);
}
END_TEST

/* A release under a forged lease reports that the hold was lost. */
START_TEST(a_release_under_a_forged_lease_says_that_it_was_lost)
{
    hf_lock *lock = NULL;
    ck_assert_int_eq(try_connect(), 0);
    ck_assert_int_eq(hf_open(client, "a", NULL, &lock), 0);
    ck_assert_int_eq(hf_acquire(lock, HF_EXCLUSIVE, 0, NULL), 0);
    agent_stop(&agent);
    forge_lease(2 * LONG_TTL_NS);
    ck_assert_int_eq(hf_release(lock), HF_ELOST);
    agent_start(&agent, true);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("agent");
    tcase_set_timeout(tests, 60);
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_loop_test(tests, a_bad_greeting_is_refused, 0, 7);
    tcase_add_test(tests, a_process_says_its_command_line);
    tcase_add_test(tests, a_process_says_the_command_that_it_was_given);
    tcase_add_loop_test(tests, a_bad_answer_is_an_error_and_the_next_is_good, 0, 3);
    tcase_add_test(tests, a_listing_that_never_ends_is_an_error);
    tcase_add_loop_test(tests, a_region_or_slot_that_is_none_is_refused, 0, 2);
    tcase_add_test(tests, a_silent_agent_is_given_up);
    tcase_add_test(tests, words_out_of_turn_end_the_connection_only);
    tcase_add_test(tests, nonsense_while_it_connects_again_takes_no_hold);
    tcase_add_test(tests, another_version_is_not_asked_again_and_again);
    tcase_add_test(tests, a_seat_that_was_taken_away_is_not_waited_in_again);
    tcase_add_test(tests, a_deadline_before_all_time_makes_no_lease_that_never_ends);
    tcase_add_loop_test(tests, a_clock_that_is_apart_is_refused_either_way, 0, 4);
    tcase_add_test(tests, options_of_an_older_program_are_taken);
    tcase_add_test(tests, a_full_disk_is_named);
    tcase_add_test(tests, a_lease_beyond_the_ttl_counts_nowhere_and_never);
    tcase_add_test(tests, a_release_under_a_forged_lease_says_that_it_was_lost);
    return suite_main("lib_agent", tests);
}
