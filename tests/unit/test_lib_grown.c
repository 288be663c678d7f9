/*
 * A program of today with a later library. The program is built with today's headers. It runs with
 * a libholdfast.so that lib.cmake builds: its structs have more fields, and it writes into words
 * that are reserved today. The program also runs with today's library. The macro HF_GROWN tells
 * which library the program runs with.
 */
#include "lib_clients.h"

#include "holdfast/admin.h"

#include <stdlib.h>
#include <string.h>

#include "../suite_main.h"

static bool grown;

static void setup(void)
{
    clients_create(LONG_TTL_NS);
}

/* A field of the program follows the struct that the library writes. */
struct guarded_hold {
    struct hf_hold hold;
    unsigned char guard[64];
};

struct guarded_event {
    struct hf_event event;
    unsigned char guard[64];
};

struct guarded_reason {
    struct hf_reason reason;
    unsigned char guard[64];
};

static bool is_filled(const uint64_t *reserved, size_t count)
{
    size_t filled = 0;
    for (size_t i = 0; i < count; i++) {
        filled += reserved[i] != 0;
    }
    ck_assert(filled == 0 || filled == count);
    return filled == count;
}

static void check_guard(const unsigned char *guard, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        ck_assert_uint_eq(guard[i], 0x5a);
    }
}

START_TEST(holds_and_events_are_as_they_were)
{
    hf_lock *locks[2] = {NULL, NULL};
    ck_assert_int_eq(hf_open(client, "a", NULL, &locks[0]), 0);
    ck_assert_int_eq(hf_open(client, "b", NULL, &locks[1]), 0);
    for (int i = 0; i < 3; i++) { /* first the slow path, then the fast path */
        struct guarded_hold got;
        memset(&got, 0x5a, sizeof(got));
        ck_assert_int_eq(hf_acquire(locks[0], HF_EXCLUSIVE, 0, &got.hold), 0);
        ck_assert(is_filled(got.hold.reserved, 6) == grown);
        ck_assert_int_gt(got.hold.deadline_ns, now_ns());
        check_guard(got.guard, sizeof(got.guard));
        ck_assert_int_eq(hf_release(locks[0]), 0);
    }
    struct hf_hold holds[3];
    memset(holds, 0x5a, sizeof(holds));
    ck_assert_int_eq(hf_acquire_all(locks, 2, HF_EXCLUSIVE, 0, holds), 0);
    ck_assert(is_filled(holds[0].reserved, 6) == grown && is_filled(holds[1].reserved, 6) == grown);
    check_guard((const unsigned char *)&holds[2], sizeof(holds[2]));
    struct guarded_event got;
    struct hfi_frame poke = {.kind = HFI_FRAME_POKE};
    ck_assert_int_ge(hf_event_fd(client), 0);
    ck_assert(agent_evict(&agent, "a", 0));
    agent_send(&agent, &poke);
    do { /* Check's timeout bounds this loop */
        memset(&got, 0x5a, sizeof(got));
    } while (hf_next_event(client, &got.event) != 1);
    ck_assert_int_eq(got.event.kind, HF_EVENT_LOST);
    ck_assert_ptr_eq(got.event.lock, locks[0]);
    ck_assert_str_eq(got.event.name, "a");
    ck_assert(is_filled(got.event.reserved, 5) == grown);
    check_guard(got.guard, sizeof(got.guard));
}
END_TEST

/* The size at the head of a struct says how many bytes of it the library reads. The bytes behind
 * them belong to the program, and are not 0 here. */
START_TEST(options_are_read_to_their_ends)
{
    struct {
        struct hf_options options;
        unsigned char guard[64];
    } connect = {.options = HF_OPTIONS_INIT};
    struct {
        struct hf_lock_options options;
        unsigned char guard[64];
    } open = {.options = HF_LOCK_OPTIONS_INIT};
    char why[200] = "";
    hf_client *other = NULL;
    hf_lock *lock = NULL;
    memset(connect.guard, 0x5a, sizeof(connect.guard));
    memset(open.guard, 0x5a, sizeof(open.guard));
    connect.options.socket = "/nonexistent/agent.sock";
    connect.options.connect_timeout_ns = MS;
    connect.options.why = why;
    connect.options.why_size = sizeof(why);
    ck_assert_int_eq(hf_connect(&connect.options, &other), HF_ENOAGENT);
    ck_assert_str_eq(why, hf_strerror(HF_ENOAGENT));
    open.options.lock_delay_ns = HF_NO_LOCK_DELAY;
    ck_assert_int_eq(hf_open(client, "a", &open.options, &lock), 0);
    ck_assert_int_eq(atomic_load(&agent.lock_delay_ns), 0);
}
END_TEST

START_TEST(a_reason_is_written_to_its_end)
{
    struct guarded_reason got = {.reason = HF_REASON_INIT};
    hf_lock *lock = NULL;
    memset(got.guard, 0x5a, sizeof(got.guard));
    ck_assert_int_eq(hf_open(client, "a", NULL, &lock), 0);
    ck_assert_int_eq(hf_why(lock, &got.reason), 0);
    ck_assert_int_eq(got.reason.kind, HF_WHY_HELD);
    ck_assert_str_eq(got.reason.command, "sleep 1");
    ck_assert_uint_eq(got.reason.size, sizeof(got.reason));
    check_guard(got.guard, sizeof(got.guard));
}
END_TEST

static int see_lock(const struct hf_lock_info *info, void *arg)
{
    static const int64_t pids[] = {4711, 4712, 4713, 4714};
    int *seen = arg;
    ck_assert_uint_eq(info->holder_count, 2);
    ck_assert_uint_eq(info->waiter_count, 2);
    for (size_t i = 0; i < 2; i++) {
        ck_assert_int_eq(info->holders[i]->pid, pids[i]);
        ck_assert_uint_eq(info->holders[i]->token, 9);
        ck_assert_int_eq(info->waiters[i]->pid, pids[2 + i]);
        ck_assert_ptr_null(info->waiters[i]->command);
    }
    ck_assert_str_eq(info->holders[1]->command, "sleep 2");
    ++*seen;
    return 0;
}

static void see_status(const struct hf_status *status, void *arg)
{
    int *seen = arg;
    ck_assert_uint_eq(status->voter_count, 2);
    ck_assert_str_eq(status->voters[0]->name, "fake");
    ck_assert_str_eq(status->voters[1]->name, "other");
    ck_assert_str_eq(status->voters[1]->address, "tcp://b:1");
    ck_assert_int_eq(status->voters[1]->state, HF_VOTER_DOWN);
    ++*seen;
}

static int see_fact(const struct hf_fact *fact, void *arg)
{
    int *seen = arg;
    ck_assert(fact->value == -7 || strcmp(fact->text, "words") == 0);
    ++*seen;
    return 0;
}

START_TEST(lists_are_read_to_their_ends)
{
    /* more names than one page of a listing has */
    static const char *const names[] = {"a", "b", "c", "d", "e"};
    int seen = 0;
    for (size_t i = 0; i < 5; i++) {
        hf_lock *lock = NULL;
        ck_assert_int_eq(hf_open(client, names[i], NULL, &lock), 0);
    }
    ck_assert_int_eq(hf_list(client, "", see_lock, &seen), 0);
    ck_assert_int_eq(seen, 5);
    ck_assert_int_eq(hf_show(client, "c", see_lock, &seen), 0);
    ck_assert_int_eq(hf_status(client, see_status, &seen), 0);
    ck_assert_int_eq(hf_facts(client, see_fact, &seen), 0);
    ck_assert_int_eq(seen, 9);
}
END_TEST

static void see_break(const struct hf_break_info *info, void *arg)
{
    int *seen = arg;
    ck_assert_uint_eq(info->ended_count, 2);
    ck_assert_str_eq(info->ended[0]->agent, "host-a");
    ck_assert_str_eq(info->ended[1]->agent, "host-b");
    ck_assert_uint_eq(info->ended[1]->token, 11);
    ck_assert_uint_eq(info->more, 5);
    ck_assert_uint_eq(info->silent_count, 1);
    ck_assert_str_eq(info->silent[0], "host-c");
    ++*seen;
}

static void see_change(const struct hf_member_info *info, void *arg)
{
    int *seen = arg;
    ck_assert_int_eq(info->stage, HF_MEMBER_CHOSEN);
    ck_assert_int_eq(info->reason, HF_MEMBER_SILENT);
    ck_assert_str_eq(info->subject, "other");
    ck_assert_uint_eq(info->total, 2);
    ++*seen;
}

static void see_backup(const struct hf_backup_info *info, void *arg)
{
    int *seen = arg;
    ck_assert_int_eq(info->stage, HF_BACKUP_COPIES);
    ck_assert_uint_eq(info->total, 300);
    ck_assert_uint_eq(info->locks, 412);
    ++*seen;
}

START_TEST(outcomes_are_read_to_their_ends)
{
    struct {
        struct hf_member_change change;
        unsigned char guard[64];
    } got = {.change = {.act = HF_MEMBER_REMOVE, .name = "other"}};
    int seen = 0;
    int fd = 0;
    ck_assert_int_eq(hf_break_report(client, "a", 0, see_break, &seen), 0);
    memset(got.guard, 0x5a, sizeof(got.guard));
    ck_assert_int_eq(hf_member(client, &got.change, see_change, &seen), 0);
    ck_assert_uint_eq(got.change.number, 3);
    ck_assert_uint_ne(got.change.id, 0);
    check_guard(got.guard, sizeof(got.guard));
    atomic_store(&agent.backup, HF_BACKUP_COPIES);
    ck_assert_int_eq(hf_backup(client, &fd, see_backup, &seen), 0);
    ck_assert_int_eq(fd, -1);
    ck_assert_int_eq(seen, 3);
}
END_TEST

int main(void)
{
    const char *which = getenv("HF_GROWN");
    grown = which != NULL && strcmp(which, "1") == 0;
    TCase *tests = tcase_create("grown");
    tcase_set_timeout(tests, 60);
    tcase_add_checked_fixture(tests, setup, clients_destroy);
    tcase_add_test(tests, holds_and_events_are_as_they_were);
    tcase_add_test(tests, options_are_read_to_their_ends);
    tcase_add_test(tests, a_reason_is_written_to_its_end);
    tcase_add_test(tests, lists_are_read_to_their_ends);
    tcase_add_test(tests, outcomes_are_read_to_their_ends);
    return suite_main("lib_grown", tests);
}
