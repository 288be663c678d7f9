/*
 * A client of namespace bad spoils the namespace's region and ends: it breaks the chain of seats,
 * takes memory away, rewrites the header, or truncates the object. The tests do this across a
 * restart of the agent, and while the agent runs.
 *
 * Namespace good is not affected: the session goes on, a holder holds, and a waiter waits and is
 * served in its turn. The agent repairs some faults from its own copies, and then the spoilt
 * namespace goes on as well. After any other fault no process gets bad/a before the last deadline
 * of its holder and the lock-delay are over. Then the agent serves the namespace again by itself,
 * with higher tokens, and the agent's successor adopts the new region.
 */
#include <check.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../suite_main.h"
#include "actor.h"
#include "faults.h"
#include "proto/region.h"
#include "require.h"
#include "served_first.h"

enum {
    TTL_MS = 4000, /* a busy disk may keep the agent from a renewal for two seconds */
    QUICK_TTL_MS = 500,
    DELAY_MS = 700,
    CLOSED_MS = 6000,
    RESPITE_FREE = 8
};

enum fault { CHAIN, PUNCHED, COMMIT, HEADER, CUT, CUT_IN_HALF, FAULTS };

static struct agent_process agent;
static char region_path[300]; /* the region of namespace bad */
static int kept_fd = -1;      /* a descriptor of that region, which the test keeps */
static struct actor holder;   /* holds good/a */
static struct actor waiter;   /* waits for good/a */
static struct actor victim;   /* holds bad/a */
static struct hf_hold good_hold;
static struct hf_hold bad_hold;

/* ---- how the region is spoilt ---- */

static void write_at(int fd, size_t offset, const void *bytes, size_t size)
{
    ck_assert_int_eq(pwrite(fd, bytes, size, (off_t)offset), (ssize_t)size);
}

static void spoil(enum fault fault)
{
    static const uint32_t chain = 77;
    static const uint64_t commit = UINT64_C(1) << 40;
    static const char other[] = "other";
    struct hfi_header header;
    struct stat status;
    int fd = open(region_path, O_RDWR | O_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(fstat(fd, &status), 0);
    ck_assert_int_eq(pread(fd, &header, sizeof(header), 0), (ssize_t)sizeof(header));
    switch (fault) {
    case CHAIN:
        for (unsigned slot = 0; slot < 4; slot++) { /* bad/a has one of these slots */
            write_at(fd,
                     header.slots_offset + slot * sizeof(struct hfi_slot) +
                         offsetof(struct hfi_slot, blocks),
                     &chain, sizeof(chain));
        }
        break;
    case PUNCHED:
        ck_assert_int_eq(
            fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, status.st_size), 0);
        break;
    case COMMIT:
        write_at(fd, offsetof(struct hfi_header, commit), &commit, sizeof(commit));
        break;
    case HEADER:
        write_at(fd, 0, "\xff\xff\xff", 3);
        write_at(fd, offsetof(struct hfi_header, cell), other, sizeof(other));
        break;
    default:
        ck_assert_int_eq(ftruncate(fd, fault == CUT ? 0 : status.st_size / 2), 0);
    }
    close(fd);
}

/* ---- holders and their locks ---- */

static bool was_told(struct actor *actor, enum hf_event_kind kind)
{
    const struct actor_request request = {.kind = ACTOR_EVENT};
    for (;;) {
        struct actor_reply reply = actor_do(actor, &request);
        if (reply.result <= 0) {
            return false;
        }
        if (reply.event.kind == kind) {
            return true;
        }
    }
}

static void neighbours_are_well(void)
{
    struct actor_reply reply;
    ck_assert_int_gt(actor_remaining(&holder, 0), 0);
    ck_assert(!was_told(&holder, HF_EVENT_LOST) && !was_told(&holder, HF_EVENT_JEOPARDY));
    ck_assert(!actor_receive(&waiter, &reply, 0));
}

/* A new client takes bad/a as soon as the agent serves the namespace again. Returns the time at
 * which the client has the lock. */
static int64_t take_anew(struct actor *actor, struct hf_hold *hold)
{
    int error = HF_EUNSERVED;
    int64_t late_ns = boottime_now() + (int64_t)GUARD_MS * MS;
    actor_ready(actor, agent.socket);
    while (error == HF_EUNSERVED) {
        ck_assert_msg(boottime_now() < late_ns, "the namespace is not served again");
        neighbours_are_well();
        error = actor_open(actor, 0, "bad/a", DELAY_MS);
        sleep_ms(20);
    }
    ck_assert_msg(error == 0, "open: %s", hf_strerror(error));
    error = actor_acquire(actor, 0, HF_EXCLUSIVE, GUARD_MS, hold);
    ck_assert_msg(error == 0, "acquire: %s", hf_strerror(error));
    return boottime_now();
}

static void neighbours_go_on(void)
{
    struct actor_reply reply;
    neighbours_are_well();
    ck_assert_int_eq(actor_release(&holder, 0), 0);
    REQUIRE(actor_receive(&waiter, &reply, GUARD_MS), "the waiter is not served");
    ck_assert_int_eq(reply.result, 0);
    ck_assert(reply.hold.token > good_hold.token);
    ck_assert_int_eq(actor_release(&waiter, 0), 0);
}

/* Restarts the agent, and checks that the new agent adopts the region of its predecessor. */
static void next_agent_goes_on(struct actor *actor)
{
    unsigned given_up = agent_logged(&agent, "event=region_rubbish");
    agent_kill(&agent);
    agent_start(&agent);
    ck_assert_int_gt(actor_remaining(actor, 0), 0);
    ck_assert(!agent_logged(&agent, "event=session_new why=") ||
              agent_logged(&agent, "event=session_new") == 1);
    ck_assert_uint_eq(agent_logged(&agent, "event=region_rubbish"), given_up);
    ck_assert_int_eq(actor_release(actor, 0), 0);
    ck_assert_int_eq(actor_acquire(actor, 0, HF_EXCLUSIVE, GUARD_MS, NULL), 0);
}

/* Checks that the region's fault cost the victim nothing: the victim still holds its lock, and new
 * clients are served. */
static void victim_goes_on(void)
{
    struct actor late;
    neighbours_are_well();
    ck_assert_int_gt(actor_remaining(&victim, 0), 0);
    actor_ready(&late, agent.socket);
    int64_t late_ns = boottime_now() + (int64_t)GUARD_MS * MS;
    while (actor_open(&late, 0, "bad/b", DELAY_MS) != 0) { /* the agent may not have repaired the
                                                            * header yet */
        ck_assert(boottime_now() < late_ns);
        sleep_ms(20);
    }
    ck_assert_int_eq(actor_acquire(&late, 0, HF_EXCLUSIVE, GUARD_MS, NULL), 0);
    ck_assert_int_eq(actor_release(&victim, 0), 0);
    ck_assert_int_eq(actor_acquire(&victim, 0, HF_EXCLUSIVE, GUARD_MS, NULL), 0);
    ck_assert_uint_eq(agent_logged(&agent, "event=region_rubbish"), 0);
    neighbours_go_on();
    actor_end(&late);
}

/* A process that keeps a descriptor of an abandoned region must not keep the region's memory,
 * because many such regions would add up. */
static void old_region_is_empty(void)
{
    struct stat status;
    ck_assert_int_eq(fstat(kept_fd, &status), 0);
    for (unsigned ms = 0; ms < GUARD_MS && status.st_blocks * 512 > HFI_HEADER_SIZE; ms += 10) {
        sleep_ms(10);
        ck_assert_int_eq(fstat(kept_fd, &status), 0);
    }
    ck_assert_int_eq(status.st_nlink, 0);
    ck_assert_int_le(status.st_blocks * 512, HFI_HEADER_SIZE);
}

/* Checks that the agent serves the spoilt namespace again, and that no process gets bad/a before
 * until_ns. */
static void namespace_is_begun_anew(int64_t until_ns)
{
    struct actor late;
    struct hf_hold hold;
    int64_t taken_ns = take_anew(&late, &hold);
    ck_assert_msg(taken_ns >= until_ns, "taken %lld ms too early",
                  (long long)((until_ns - taken_ns) / MS));
    ck_assert(hold.token > bad_hold.token);
    ck_assert_uint_eq(agent_logged(&agent, "event=region_rubbish namespace=bad"), 1);
    ck_assert_uint_eq(agent_logged(&agent, "event=region_begun_anew namespace=bad"), 1);
    old_region_is_empty();
    neighbours_go_on();
    next_agent_goes_on(&late);
    actor_end(&late);
}

/* Returns the earliest time at which the actor's hold and its lock-delay may be over. The clock is
 * read first, so the actor's answer may take any time. */
static int64_t end_of_hold(struct actor *actor)
{
    int64_t now_ns = boottime_now();
    int64_t remaining_ns = actor_remaining(actor, 0);
    ck_assert_int_gt(remaining_ns, 0);
    return now_ns + remaining_ns + DELAY_MS * MS;
}

START_TEST(over_a_restart)
{
    agent_kill(&agent);
    int64_t until_ns = end_of_hold(&victim);
    spoil((enum fault)_i);
    agent_start(&agent);
    ck_assert_uint_eq(agent_logged(&agent, "event=session_continued"), 1);
    if (_i == COMMIT) {
        victim_goes_on();
    } else {
        namespace_is_begun_anew(until_ns);
    }
}
END_TEST

START_TEST(while_the_agent_runs)
{
    int64_t until_ns = end_of_hold(&victim);
    spoil((enum fault)_i);
    if (_i == COMMIT || _i == CHAIN || _i == HEADER) { /* the agent repairs these faults from its
                                                        * own copies */
        sleep_ms(TTL_MS / 4 + 500);
        victim_goes_on();
        ck_assert_uint_eq(agent_logged(&agent, "event=region_mended"), _i == HEADER);
    } else {
        namespace_is_begun_anew(until_ns);
    }
}
END_TEST

/* The agent is killed again while it waits for the end of the spoilt namespace's holds. Its
 * successor waits longer, because the agent renewed the lease between the two kills, which moved
 * the deadlines of the holds. */
START_TEST(over_two_restarts)
{
    agent_kill(&agent);
    spoil(CHAIN);
    agent_start(&agent);
    /* in this time the agent renews the lease, which moves the deadlines of all holds */
    sleep_ms(TTL_MS / 3 + 200);
    agent_kill(&agent);
    int64_t until_ns = end_of_hold(&holder);
    agent_start(&agent);
    ck_assert_uint_eq(agent_logged(&agent, "event=session_continued"), 2);
    struct actor late;
    struct hf_hold hold;
    ck_assert(take_anew(&late, &hold) >= until_ns);
    ck_assert(hold.token > bad_hold.token);
    neighbours_go_on();
    actor_end(&late);
}
END_TEST

/* The lock of a dead holder stays closed for the lock-delay, even if no process has the lock open
 * any more. */
START_TEST(a_lock_that_was_closed)
{
    struct actor dead;
    actor_ready(&dead, agent.socket);
    ck_assert_int_eq(actor_open(&dead, 0, "bad/closed", CLOSED_MS), 0);
    ck_assert_int_eq(actor_acquire(&dead, 0, HF_EXCLUSIVE, GUARD_MS, NULL), 0);
    actor_kill(&dead);
    int64_t until_ns = boottime_now() + (int64_t)CLOSED_MS * MS;
    for (unsigned ms = 0; ms < GUARD_MS && !agent_logged(&agent, "event=lock_closed"); ms += 10) {
        sleep_ms(10);
    }
    ck_assert(agent_logged(&agent, "event=lock_closed"));
    spoil(PUNCHED);
    struct actor late;
    struct hf_hold hold;
    int64_t taken_ns = take_anew(&late, &hold);
    ck_assert(taken_ns >= until_ns);
    neighbours_go_on();
    actor_end(&late);
    actor_end(&dead);
}
END_TEST

/* A waiter in the spoilt namespace goes on waiting. It is served once the agent serves the
 * namespace again. */
START_TEST(a_waiter_waits_on)
{
    struct actor patient;
    struct actor_reply reply;
    actor_ready(&patient, agent.socket);
    ck_assert_int_eq(actor_open(&patient, 0, "bad/a", DELAY_MS), 0);
    actor_wait(&patient, 0, HF_EXCLUSIVE);
    actor_await_waiters(&holder, "bad/a", 1);
    int64_t until_ns = end_of_hold(&victim);
    spoil(_i == 0 ? PUNCHED : CHAIN);
    if (_i == 1) {
        agent_kill(&agent);
        agent_start(&agent);
    }
    for (unsigned ms = 0; ms < GUARD_MS && !agent_logged(&agent, "region_rubbish"); ms += 10) {
        sleep_ms(10);
    }
    pid_t command_pid = fork_tied();
    if (command_pid == 0) { /* a client that connects during the repair and waits is served, too */
        execl(binary_path("holdfast"), "holdfast", "-s", agent.socket, "lock", "--wait", "20s",
              "bad/c", "--", "true", NULL);
        _exit(127);
    }
    REQUIRE(actor_receive(&patient, &reply, GUARD_MS), "it is not served");
    ck_assert_msg(reply.result == 0, "%s", hf_strerror(reply.result));
    ck_assert(reply.time_ns >= until_ns);
    ck_assert(reply.hold.token > bad_hold.token);
    int status = wait_for(command_pid);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    neighbours_go_on();
    ck_assert_int_eq(actor_release(&victim, 0), HF_ELOST);
    actor_end(&patient);
}
END_TEST

static struct faults *faults;

/* The agent makes a new region. However long that takes, clients of the other namespace connect,
 * take locks and keep their leases. */
START_TEST(others_go_on_while_it_is_made)
{
    struct faults_host *host = &faults->hosts[agent.host];
    struct actor other;
    atomic_store(&host->making_stalled, 1);
    spoil(CUT);
    for (unsigned ms = 0; ms < GUARD_MS && atomic_load(&host->making) == 0; ms += 10) {
        sleep_ms(10);
    }
    ck_assert_uint_eq(atomic_load(&host->making), 1);
    /* no lease lasts so long without a renewal */
    int64_t end_ns = boottime_now() + 2 * TTL_MS * MS;
    actor_ready(&other, agent.socket);
    do {
        ck_assert_int_eq(actor_open(&other, 0, "good/other", DELAY_MS), 0);
        ck_assert_int_eq(actor_acquire(&other, 0, HF_EXCLUSIVE, GUARD_MS, NULL), 0);
        ck_assert_int_eq(actor_release(&other, 0), 0);
        neighbours_are_well();
        ck_assert_uint_eq(atomic_load(&host->making), 1);
        sleep_ms(20);
    } while (boottime_now() < end_ns);
    ck_assert_uint_eq(agent_logged(&agent, "event=region_begun_anew"), 0);
    if (_i == 1) { /* The agent ends while it makes the region. Its successor must find nothing
                    * of the unfinished region. */
        kill(agent.pid, SIGTERM);
        sleep_ms(100);
        atomic_store(&host->making_stalled, 0);
        int status = wait_for(agent.pid);
        agent.pid = 0;
        ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        agent_start(&agent);
    }
    atomic_store(&host->making_stalled, 0);
    struct actor late;
    struct hf_hold hold;
    (void)take_anew(&late, &hold);
    neighbours_go_on();
    actor_end(&late);
    actor_end(&other);
}
END_TEST

static void await_logged(const char *text, unsigned count)
{
    for (unsigned ms = 0; ms < GUARD_MS && agent_logged(&agent, text) < count; ms += 10) {
        sleep_ms(10);
    }
    ck_assert_uint_eq(agent_logged(&agent, text), count);
}

START_TEST(who_spoils_again_and_again_waits_longer)
{
    struct actor other;
    for (unsigned i = 1; i <= RESPITE_FREE; i++) {
        agent_region_path(&agent, "bad", region_path, sizeof(region_path));
        spoil(CUT);
        await_logged("event=region_begun_anew namespace=bad", i);
    }
    agent_region_path(&agent, "bad", region_path, sizeof(region_path));
    spoil(CUT);
    await_logged("event=region_rubbish namespace=bad", RESPITE_FREE + 1);
    ck_assert_uint_eq(agent_logged(&agent, "event=region_rubbish namespace=bad anew_in=60.000"), 1);
    sleep_ms(5 * QUICK_TTL_MS);
    ck_assert_uint_eq(agent_logged(&agent, "event=region_begun_anew"), RESPITE_FREE);
    actor_ready(&other, agent.socket);
    ck_assert_int_eq(actor_open(&other, 0, "bad/a", DELAY_MS), HF_EUNSERVED);
    ck_assert_int_eq(actor_open(&other, 1, "good/other", DELAY_MS), 0);
    ck_assert_int_eq(actor_acquire(&other, 1, HF_EXCLUSIVE, GUARD_MS, NULL), 0);
    actor_end(&other);
}
END_TEST

static void create_agent(unsigned ttl_ms)
{
    char config[600];
    snprintf(config, sizeof(config),
             "[agent]\nname = host-a\ncell = anew\nstate_dir = %%D/state\n"
             "socket = %%D/agent.sock\n[cell]\nsession_ttl = %ums\n"
             "[voters]\nhost-a = tcp://127.0.0.1:7411\n[namespace.good]\n[namespace.bad]\n",
             ttl_ms);
    agent_create(&agent, config);
}

static void start_agent(bool with_faults)
{
    static char path[128];
    /* a restarted agent must renew its session within TTL_MS, so it needs the processor first */
    be_served_first();
    create_agent(TTL_MS);
    if (with_faults) {
        snprintf(path, sizeof(path), "%s/faults", agent.folder);
        faults = faults_create(path);
        ck_assert_ptr_nonnull(faults);
        agent.faults = path;
    }
    agent_start(&agent);
    actor_ready(&holder, agent.socket);
    actor_ready(&waiter, agent.socket);
    actor_ready(&victim, agent.socket);
    ck_assert_int_eq(actor_do(&holder, &(struct actor_request){.kind = ACTOR_EVENTS}).result, 0);
    ck_assert_int_eq(actor_open(&holder, 0, "good/a", DELAY_MS), 0);
    ck_assert_int_eq(actor_acquire(&holder, 0, HF_EXCLUSIVE, GUARD_MS, &good_hold), 0);
    ck_assert_int_eq(actor_open(&waiter, 0, "good/a", DELAY_MS), 0);
    actor_wait(&waiter, 0, HF_EXCLUSIVE);
    actor_await_waiters(&holder, "good/a", 1);
    agent_region_path(&agent, "bad", region_path, sizeof(region_path));
    kept_fd = open(region_path, O_RDONLY | O_CLOEXEC);
    ck_assert_int_ge(kept_fd, 0);
    ck_assert_int_eq(actor_open(&victim, 0, "bad/a", DELAY_MS), 0);
    ck_assert_int_eq(actor_acquire(&victim, 0, HF_EXCLUSIVE, GUARD_MS, &bad_hold), 0);
}

static void start(void)
{
    start_agent(false);
}

static void start_with_faults(void)
{
    start_agent(true);
}

static void start_quick(void)
{
    create_agent(QUICK_TTL_MS);
    agent_start(&agent);
}

static void stop(void)
{
    actor_end(&holder);
    actor_end(&waiter);
    actor_end(&victim);
    agent_destroy(&agent);
}

static void stop_quick(void)
{
    agent_destroy(&agent);
}

int main(void)
{
    TCase *tests = tcase_create("begun anew");
    tcase_add_checked_fixture(tests, start, stop);
    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, over_a_restart, 0, FAULTS);
    tcase_add_loop_test(tests, while_the_agent_runs, 0, FAULTS);
    tcase_add_test(tests, over_two_restarts);
    tcase_add_test(tests, a_lock_that_was_closed);
    tcase_add_loop_test(tests, a_waiter_waits_on, 0, 2);
    TCase *making = tcase_create("making");
    tcase_add_checked_fixture(making, start_with_faults, stop);
    tcase_set_timeout(making, 120);
    tcase_add_loop_test(making, others_go_on_while_it_is_made, 0, 2);
    TCase *again = tcase_create("again");
    tcase_add_checked_fixture(again, start_quick, stop_quick);
    tcase_set_timeout(again, 120);
    tcase_add_test(again, who_spoils_again_and_again_waits_longer);
    Suite *suite = suite_create("begun anew");
    suite_add_tcase(suite, tests);
    suite_add_tcase(suite, making);
    suite_add_tcase(suite, again);
    return suite_run(suite);
}
