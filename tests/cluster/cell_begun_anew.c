/*
 * A process spoils its namespace's region on one host of a cell, while the agent runs or while the
 * agent is down. A process on that host holds a lock of the namespace, and a process on another
 * host waits for the lock. The waiter gets the lock only after the holder's last deadline and its
 * lock-delay are over. The session goes on all the time, and the spoilt region's host gives the
 * lock back. The other namespace is not affected.
 */
#include <check.h>
#include <fcntl.h>
#include <stddef.h>
#include <sys/stat.h>
#include <unistd.h>

#include "actor.h"
#include "cell.h"
#include "proto/region.h"
#include "require.h"

enum { HOSTS = 3, TTL_MS = 6000, DELAY_MS = 700 };

enum fault { PUNCHED, CUT_IN_HALF, CHAIN, FAULTS };

static struct cell cell;
static struct actor here;  /* on host 0: holds good/a and bad/a */
static struct actor there; /* on host 1: waits for bad/a */
static struct actor beside;
static struct hf_hold bad_hold;
static char path[300];

static void start(void)
{
    cell_options.ttl_ms = TTL_MS;
    cell_options.grace_ms = 2 * TTL_MS;
    cell_options.sections = "[namespace.good]\n[namespace.bad]\n";
    cell_start(&cell, HOSTS, 0);
    actor_ready(&here, cell.agents[0].socket);
    actor_ready(&there, cell.agents[1].socket);
    actor_ready(&beside, cell.agents[1].socket);
    ck_assert_int_eq(actor_open(&here, 0, "good/a", DELAY_MS), 0);
    ck_assert_int_eq(actor_open(&here, 1, "bad/a", DELAY_MS), 0);
    ck_assert_int_eq(actor_acquire(&here, 0, HF_EXCLUSIVE, GUARD_MS, NULL), 0);
    ck_assert_int_eq(actor_acquire(&here, 1, HF_EXCLUSIVE, GUARD_MS, &bad_hold), 0);
    ck_assert_int_eq(actor_open(&beside, 0, "good/a", DELAY_MS), 0);
    ck_assert_int_eq(actor_open(&there, 0, "bad/a", DELAY_MS), 0);
    actor_wait(&beside, 0, HF_EXCLUSIVE);
    actor_wait(&there, 0, HF_EXCLUSIVE);
    actor_await_waiters(&here, "good/a", 1);
    actor_await_waiters(&here, "bad/a", 1);
    agent_region_path(&cell.agents[0], "bad", path, sizeof(path));
}

static void stop(void)
{
    actor_end(&here);
    actor_end(&there);
    actor_end(&beside);
    cell_stop(&cell);
}

static void spoil(enum fault fault)
{
    static const uint32_t chain = 77;
    struct hfi_header header;
    struct stat status;
    int fd = open(path, O_RDWR | O_CLOEXEC);
    REQUIRE(fd >= 0, "open %s", path);
    ck_assert_int_eq(fstat(fd, &status), 0);
    ck_assert_int_eq(pread(fd, &header, sizeof(header), 0), (ssize_t)sizeof(header));
    if (fault == PUNCHED) {
        ck_assert_int_eq(
            fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, status.st_size), 0);
    } else if (fault == CUT_IN_HALF) {
        ck_assert_int_eq(ftruncate(fd, status.st_size / 2), 0);
    } else {
        for (unsigned slot = 0; slot < 4; slot++) { /* bad/a has one of these slots */
            off_t at = (off_t)(header.slots_offset + slot * sizeof(struct hfi_slot) +
                               offsetof(struct hfi_slot, blocks));
            ck_assert_int_eq(pwrite(fd, &chain, sizeof(chain), at), sizeof(chain));
        }
    }
    close(fd);
}

/* Returns the earliest time at which the hold of bad/a and its lock-delay may be over. */
static int64_t end_of_hold(void)
{
    int64_t asked_ns = boottime_now(); /* read before the call, because the answer may come late */
    int64_t remaining_ns = actor_remaining(&here, 1);
    ck_assert_int_gt(remaining_ns, 0);
    return asked_ns + remaining_ns + DELAY_MS * MS;
}

static void taken_over_in_time(int64_t until_ns)
{
    struct actor late;
    struct actor_reply reply;
    int error = HF_EUNSERVED;
    REQUIRE(actor_receive(&there, &reply, GUARD_MS), "the other host waits for ever");
    ck_assert_msg(reply.result == 0, "%s", hf_strerror(reply.result));
    ck_assert_msg(reply.time_ns >= until_ns, "%lld ms too early",
                  (long long)((until_ns - reply.time_ns) / MS));
    ck_assert(reply.hold.token > bad_hold.token);
    ck_assert(!actor_receive(&beside, &reply, 0));
    ck_assert_int_gt(actor_remaining(&here, 0), 0); /* good/a is still held */
    ck_assert_uint_eq(agent_logged(&cell.agents[0], "event=region_rubbish namespace=bad"), 1);
    ck_assert_uint_eq(agent_logged(&cell.agents[0], "event=session_new"), 1);
    /* A client on host 0 gets bad/a again. */
    ck_assert_int_eq(actor_release(&there, 0), 0);
    actor_ready(&late, cell.agents[0].socket);
    for (int64_t late_ns = boottime_now() + (int64_t)GUARD_MS * MS;
         error == HF_EUNSERVED && boottime_now() < late_ns;) {
        error = actor_open(&late, 0, "bad/a", DELAY_MS);
        sleep_ms(20);
    }
    ck_assert_int_eq(error, 0);
    ck_assert_int_eq(actor_acquire(&late, 0, HF_EXCLUSIVE, GUARD_MS, NULL), 0);
    ck_assert_int_eq(actor_release(&here, 0), 0);
    REQUIRE(actor_receive(&beside, &reply, GUARD_MS), "the neighbour's waiter waits for ever");
    ck_assert_int_eq(reply.result, 0);
    actor_end(&late);
}

START_TEST(while_the_agent_runs)
{
    int64_t until_ns = end_of_hold();
    spoil((enum fault)_i);
    taken_over_in_time(until_ns);
}
END_TEST

START_TEST(over_a_restart)
{
    agent_kill(&cell.agents[0]);
    int64_t until_ns = end_of_hold();
    spoil((enum fault)_i);
    agent_start(&cell.agents[0]);
    ck_assert_uint_eq(agent_logged(&cell.agents[0], "event=session_continued"), 1);
    taken_over_in_time(until_ns);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("begun anew in a cell");
    tcase_add_checked_fixture(tests, start, stop);
    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, while_the_agent_runs, 0, CHAIN);
    tcase_add_loop_test(tests, over_a_restart, 0, FAULTS);
    return cell_main("begun anew in a cell", tests);
}
