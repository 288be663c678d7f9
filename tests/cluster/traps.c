/*
 * Faults on one host that other lock services have had, each in a test of its own. (Faults across
 * hosts are in cell_traps.c and in the simulator.)
 */
#include "../emulation.h"
#include "../suite_main.h"
#include "actor.h"
#include "require.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LONG_DELAY_MS = 60000, SHORT_MS = 20 };

#define CONFIG(TTL)                                                                                \
    "[agent]\nname = host-a\ncell = test\nstate_dir = %D/state\nsocket = %D/agent.sock\n"          \
    "[cell]\nsession_ttl = " TTL "\ngrace_period = 1s\n"                                           \
    "[voters]\nhost-a = tcp://127.0.0.1:7411\n"                                                    \
    "[namespace.other]\nusers = root\n"                                                            \
    "[limits]\nlocks = 64\nblocks = 4\n"

static struct agent_process agent;
static struct actor one;
static struct actor two;
static struct actor three;

static void start_with(const char *config)
{
    agent_create(&agent, config);
    agent_start(&agent);
    actor_ready(&one, agent.socket);
    actor_ready(&two, agent.socket);
    actor_ready(&three, agent.socket);
}

static void start(void)
{
    start_with(CONFIG("5s"));
}

/* Starts the agent with a session that outlasts a restart of the agent, even on a slow machine. */
static void start_long(void)
{
    start_with(CONFIG("20s"));
}

static void stop(void)
{
    actor_end(&one);
    actor_end(&two);
    actor_end(&three);
    agent_destroy(&agent);
}

static void open_all(int64_t lock_delay_ms)
{
    ck_assert_int_eq(actor_open(&one, 0, "trap", lock_delay_ms), 0);
    ck_assert_int_eq(actor_open(&two, 0, "trap", lock_delay_ms), 0);
    ck_assert_int_eq(actor_open(&three, 0, "trap", lock_delay_ms), 0);
}

static void take(struct actor *who, struct hf_hold *hold)
{
    int result = actor_acquire(who, 0, HF_EXCLUSIVE, GUARD_MS, hold);
    REQUIRE(result == 0, "acquire: %s", hf_strerror(result));
}

static struct actor_reply served(struct actor *who)
{
    struct actor_reply reply;
    REQUIRE(actor_receive(who, &reply, GUARD_MS), "a waiter is stuck");
    REQUIRE(reply.result == 0, "a waiter got %s", hf_strerror(reply.result));
    return reply;
}

START_TEST(trap_fork_child_unlocks_parent)
{
    struct hf_hold hold;
    open_all(LONG_DELAY_MS);
    take(&one, &hold);
    struct actor_reply reply = actor_do(&one, &(struct actor_request){.kind = ACTOR_FORK});
    ck_assert_int_eq(reply.result, 0); /* the child got HF_EFORKED from every call */
    ck_assert(actor_remaining(&one, 0) > 0);
    ck_assert_int_eq(actor_acquire(&two, 0, HF_EXCLUSIVE, 0, NULL), HF_EBUSY);
    ck_assert_int_eq(actor_release(&one, 0), 0);
    take(&two, &hold);
}
END_TEST

START_TEST(trap_heartbeat_keeps_hung_holder_alive)
{
    struct actor_request request = {.kind = ACTOR_OPEN, .name = "trap"};
    struct hf_hold hold;
    open_all(SHORT_MS);
    request.lock = 1;
    request.options = (struct hf_lock_options){
        .size = sizeof(request.options), .max_stall_ns = 300 * MS, .lock_delay_ns = SHORT_MS * MS};
    ck_assert_int_eq(actor_do(&one, &request).result, 0);
    ck_assert_int_eq(actor_acquire(&one, 1, HF_EXCLUSIVE, GUARD_MS, &hold), 0);
    actor_signal(&one, SIGSTOP);
    actor_wait(&two, 0, HF_EXCLUSIVE);
    ck_assert(served(&two).hold.token > hold.token);
    actor_signal(&one, SIGCONT);
    ck_assert(actor_remaining(&one, 1) <= 0);
    ck_assert_int_eq(actor_release(&one, 1), HF_ELOST);
}
END_TEST

/* Each owner dies just after it got the lock. The next waiter must still wake and get the lock. */
START_TEST(trap_lost_wakeup_owner_dies)
{
    enum { CHAIN = 12 };
    struct actor chain[CHAIN];
    struct hf_hold hold;
    open_all(SHORT_MS);
    take(&one, &hold);
    for (unsigned i = 0; i < CHAIN; i++) {
        actor_ready(&chain[i], agent.socket);
        ck_assert_int_eq(actor_open(&chain[i], 0, "trap", SHORT_MS), 0);
        actor_wait(&chain[i], 0, HF_EXCLUSIVE);
        actor_await_waiters(&two, "trap", i + 1);
    }
    actor_kill(&one);
    for (unsigned i = 0; i < CHAIN; i++) {
        struct actor_reply reply = served(&chain[i]);
        ck_assert(reply.hold.token > hold.token);
        hold = reply.hold;
        actor_end(&chain[i]);
    }
    take(&two, &hold);
}
END_TEST

/* Lets all actors wait for the lock. If all seats are taken, an actor asks again, because the agent
 * frees the seats of dead waiters within a second or so. */
static void await_seats(struct actor *actors, unsigned count)
{
    int64_t end_ns = boottime_now() + GUARD_MS * MS;
    for (unsigned i = 0; i < count; i++) {
        actor_wait(&actors[i], 0, HF_EXCLUSIVE);
    }
    while (actor_show(&three, "trap").waiters != count) {
        REQUIRE(boottime_now() < end_ns, "the seats of dead waiters stay taken");
        for (unsigned i = 0; i < count; i++) {
            struct actor_reply reply;
            if (actor_receive(&actors[i], &reply, 0)) {
                REQUIRE(reply.result == HF_EFULL, "a waiter got %s", hf_strerror(reply.result));
                actor_wait(&actors[i], 0, HF_EXCLUSIVE);
            }
        }
        sleep_ms(20);
    }
}

/* Dead waiters must not cost other waiters a lock-delay. Their seats are used again. */
START_TEST(trap_dead_waiters_fill_slots)
{
    enum { DEAD = 36, AT_ONCE = 6 }; /* more waiters than the 28 seats */
    struct hf_hold hold;
    open_all(LONG_DELAY_MS);
    take(&one, &hold);
    for (unsigned i = 0; i < DEAD; i += AT_ONCE) {
        struct actor dead[AT_ONCE];
        for (unsigned j = 0; j < AT_ONCE; j++) {
            actor_ready(&dead[j], agent.socket);
            ck_assert_int_eq(actor_open(&dead[j], 0, "trap", LONG_DELAY_MS), 0);
        }
        await_seats(dead, AT_ONCE);
        for (unsigned j = 0; j < AT_ONCE; j++) {
            actor_end(&dead[j]);
        }
        actor_await_waiters(&three, "trap", 0);
    }
    actor_wait(&two, 0, HF_EXCLUSIVE);
    actor_await_waiters(&three, "trap", 1);
    ck_assert_int_eq(actor_release(&one, 0), 0);
    ck_assert(served(&two).hold.token > hold.token);
}
END_TEST

/* Readers overlap without end. A writer must still get its turn. */
START_TEST(trap_readers_starve_writers)
{
    open_all(SHORT_MS);
    ck_assert_int_eq(actor_acquire(&one, 0, HF_SHARED, GUARD_MS, NULL), 0);
    actor_wait(&three, 0, HF_EXCLUSIVE);
    actor_await_waiters(&two, "trap", 1);
    /* a new reader must not pass the waiting writer */
    ck_assert_int_eq(actor_acquire(&two, 0, HF_SHARED, 0, NULL), HF_EBUSY);
    actor_wait(&two, 0, HF_SHARED);
    actor_await_waiters(&one, "trap", 2);
    ck_assert_int_eq(actor_release(&one, 0), 0);
    served(&three);
    struct actor_reply reply;
    ck_assert(!actor_receive(&two, &reply, 0));
    ck_assert_int_eq(actor_release(&three, 0), 0);
    served(&two);
}
END_TEST

START_TEST(trap_upgrade_deadlock)
{
    struct actor_request request = {.kind = ACTOR_OPEN, .name = "trap"};
    request.options = (struct hf_lock_options){.size = sizeof(request.options),
                                               .flags = HF_REENTRANT};
    ck_assert_int_eq(actor_do(&one, &request).result, 0);
    ck_assert_int_eq(actor_do(&two, &request).result, 0);
    ck_assert_int_eq(actor_acquire(&one, 0, HF_SHARED, GUARD_MS, NULL), 0);
    ck_assert_int_eq(actor_acquire(&two, 0, HF_SHARED, GUARD_MS, NULL), 0);
    actor_wait(&one, 0, HF_EXCLUSIVE);
    actor_await_waiters(&three, "trap", 1); /* the first upgrade waits before the second is
                                             * requested */
    ck_assert_int_eq(actor_acquire(&two, 0, HF_EXCLUSIVE, 10 * GUARD_MS, NULL), HF_EDEADLK);
    ck_assert(actor_remaining(&two, 0) > 0); /* the second holder still has its shared hold */
    ck_assert_int_eq(actor_release(&two, 0), 0);
    served(&one);
}
END_TEST

/* Restarts the agent in one of three situations. 1: the agent has no pid for any client (peer
 * credentials say pid 0), and the clients have no pid for each other. 2: the agent's kernel gives
 * no pidfd of the process that connected. 3: both. Returns false if this machine does not allow
 * that. */
static bool start_apart(int how)
{
    if (geteuid() != 0 || (how >= 2 && !agent_can_be_without("no pidfd of who connected"))) {
        return false; /* only root may make a pid namespace, which the tests need */
    }
    agent_kill(&agent);
    agent.own_pids = how % 2 == 1;
    agent.without = how >= 2 ? WITHOUT_PEERPIDFD : 0;
    agent_start(&agent);
    return true;
}

/* Returns whether the agent admits clients in situation `how`. In situation 3 it refuses them,
 * because it could not watch them. */
static bool is_let_in(int how)
{
    return how != 3;
}

/* An agent watches a client by its pidfd, so a reused pid does not deceive it. An agent that has no
 * pid for a client of its predecessor cannot watch that client until the client connects again. */
START_TEST(trap_pid_reused_or_other_namespace)
{
    struct actor foreign;
    const struct actor_who who = {.other_pids = true};
    struct hf_hold hold;
    if (!start_apart(_i)) {
        return;
    }
    actor_start(&foreign, agent.socket, &who);
    if (!is_let_in(_i)) {
        ck_assert_int_eq(foreign.connected, HF_EACCES);
        ck_assert(agent_logged(&agent, "event=client_refused"));
        ck_assert(agent_logged(&agent, "expected one that it sees, or Linux 6.5 or newer"));
        actor_end(&foreign);
        return;
    }
    ck_assert_int_eq(foreign.connected, 0);
    ck_assert_int_eq(actor_open(&foreign, 0, "trap", 400), 0);
    open_all(SHORT_MS);
    take(&foreign, &hold);
    agent_kill(&agent);
    agent_start(&agent);
    ck_assert_uint_eq(agent_logged(&agent, "event=survivors_unproven number=") > 0, _i == 1);
    ck_assert(actor_remaining(&foreign, 0) > 0);
    if (_i == 1) { /* the client connects again, and from then on the agent watches it */
        ck_assert_int_eq(actor_open(&foreign, 1, "another", 400), 0);
        ck_assert(agent_logged(&agent, " resumed=yes"));
    }
    actor_wait(&two, 0, HF_EXCLUSIVE);
    actor_await_waiters(&three, "trap", 1);
    int64_t killed_ns = boottime_now();
    actor_end(&foreign);
    struct actor_reply reply = served(&two);
    ck_assert(reply.time_ns >= killed_ns + 400 * MS);
    ck_assert(reply.hold.token > hold.token);
}
END_TEST

/* A process forks and dies. Its child still has the connection, but the hold must end. */
START_TEST(trap_child_keeps_the_connection)
{
    int ends[2];
    char byte;
    if (!is_let_in(_i % 4) || !start_apart(_i % 4)) {
        return;
    }
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    pid_t process = fork_tied();
    if (process == 0) {
        hf_client *client;
        hf_lock *lock;
        struct hf_options options = {.size = sizeof(options), .socket = agent.socket};
        struct hf_lock_options short_one = {.size = sizeof(short_one),
                                            .lock_delay_ns = SHORT_MS * MS};
        close(ends[0]);
        REQUIRE(hf_connect(&options, &client) == 0, "connect");
        REQUIRE(hf_open(client, "trap", &short_one, &lock) == 0, "open");
        REQUIRE(hf_acquire(lock, HF_EXCLUSIVE, GUARD_MS * MS, NULL) == 0, "acquire");
        pid_t child = fork();
        if (child != 0) {
            REQUIRE(write(ends[1], "x", 1) == 1, "write");
            sleep_ms(10 * GUARD_MS);
        }
        (void)!read(ends[1], &byte, 1); /* waits until the test closes its end */
        _exit(0);
    }
    close(ends[1]);
    ck_assert_int_eq(read(ends[0], &byte, 1), 1);
    if (_i < 4) {
        open_all(SHORT_MS);
        sleep_ms(2500); /* the process lives, so its hold must last */
        ck_assert_int_eq(actor_acquire(&one, 0, HF_EXCLUSIVE, 0, NULL), HF_EBUSY);
    }
    kill_process(process);
    if (_i >= 4) {
        open_all(SHORT_MS);
    }
    ck_assert_int_eq(actor_acquire(&one, 0, HF_EXCLUSIVE, GUARD_MS, NULL), 0);
    close(ends[0]);
}
END_TEST

/* Curator 1121: a process found an entry that its own expired session had left, and took it for its
 * hold. */
START_TEST(trap_own_entry_left_by_expired_session)
{
    struct hf_hold before;
    struct hf_hold after;
    open_all(SHORT_MS);
    take(&one, &before);
    agent_kill(&agent);
    sleep_ms(7500); /* longer than session_ttl and grace period, so the session is over */
    agent_start(&agent);
    ck_assert_int_eq(actor_release(&one, 0), HF_ELOST);
    take(&one, &after);
    ck_assert(after.token > before.token);
    ck_assert_int_eq(actor_release(&one, 0), 0);
    take(&two, &after);
}
END_TEST

/* etcd 11456: a waiter's lease ran out while it waited, and it still got the lock. */
START_TEST(trap_granted_after_lease_ran_out_while_waiting)
{
    struct actor_request request = {.kind = ACTOR_OPEN, .name = "trap"};
    struct hf_hold hold;
    open_all(SHORT_MS);
    request.lock = 1;
    request.options = (struct hf_lock_options){
        .size = sizeof(request.options), .lease_ns = 3000 * MS, .lock_delay_ns = SHORT_MS * MS};
    ck_assert_int_eq(actor_do(&one, &request).result, 0);
    take(&two, &hold);
    actor_wait(&one, 1, HF_EXCLUSIVE);
    actor_await_waiters(&three, "trap", 1);
    actor_signal(&one, SIGSTOP);
    actor_wait(&three, 0, HF_EXCLUSIVE);
    /* this hands the lock to the stopped process */
    ck_assert_int_eq(actor_release(&two, 0), 0);
    struct actor_reply third = served(&three); /* the third process gets the lock after the lease of
                                                * the stopped process has ended */
    ck_assert_int_eq(actor_release(&three, 0), 0);
    actor_signal(&one, SIGCONT);
    struct actor_reply reply = served(&one);
    ck_assert(reply.hold.token > third.hold.token);
    ck_assert(reply.hold.deadline_ns > reply.time_ns || actor_remaining(&one, 1) <= 0);
}
END_TEST

/* An open handle keeps its slot, whatever other locks are opened and closed. */
START_TEST(trap_old_handle_hits_recycled_slot)
{
    struct hf_hold hold;
    open_all(SHORT_MS);
    take(&one, &hold);
    ck_assert_int_eq(actor_release(&one, 0), 0);
    for (unsigned i = 0; i < 300; i++) { /* many times the 64 slots of the table */
        char name[32];
        snprintf(name, sizeof(name), "passing/%u", i);
        int result;
        int64_t end_ns = boottime_now() + GUARD_MS * MS;
        while ((result = actor_open(&three, 1, name, SHORT_MS)) == HF_EFULL &&
               boottime_now() < end_ns) {
            sleep_ms(1);
        }
        ck_assert_int_eq(result, 0);
        ck_assert_int_eq(actor_acquire(&three, 1, HF_EXCLUSIVE, GUARD_MS, NULL), 0);
        actor_do(&three, &(struct actor_request){.kind = ACTOR_CLOSE, .lock = 1});
    }
    take(&one, &hold);
    ck_assert_int_eq(actor_open(&three, 2, "trap", SHORT_MS), 0);
    ck_assert_int_eq(actor_acquire(&three, 2, HF_EXCLUSIVE, 0, NULL), HF_EBUSY);
}
END_TEST

/* All clients of a region trust each other. Rubbish in one region neither stops the agent nor harms
 * another region. */
START_TEST(trap_mapped_client_forges_lock_words)
{
    char path[256];
    struct stat status;
    struct hf_hold hold;
    open_all(SHORT_MS);
    take(&one, &hold);
    ck_assert_int_eq(actor_open(&two, 1, "other/safe", LONG_DELAY_MS), 0);
    ck_assert_int_eq(actor_acquire(&two, 1, HF_EXCLUSIVE, GUARD_MS, NULL), 0);
    agent_region_path(&agent, "default", path, sizeof(path));
    int fd = open(path, O_RDWR | O_CLOEXEC);
    ck_assert(fd >= 0 && fstat(fd, &status) == 0);
    unsigned char *memory = mmap(NULL, (size_t)status.st_size, PROT_READ | PROT_WRITE, MAP_SHARED,
                                 fd, 0);
    ck_assert(memory != MAP_FAILED);
    uint64_t random = 0x1234567;
    for (size_t at = 4096; at < (size_t)status.st_size; at++) { /* the whole region except the
                                                                 * header */
        random = random * 6364136223846793005u + 1442695040888963407u;
        memory[at] = (unsigned char)(random >> 56);
    }
    munmap(memory, (size_t)status.st_size);
    close(fd);
    actor_kill(&one); /* the death makes the agent look at the region */
    for (unsigned i = 0; i < 20; i++) {
        actor_do(&three, &(struct actor_request){.kind = ACTOR_SHOW, .name = "trap"});
        ck_assert(actor_remaining(&two, 1) > 0);
        sleep_ms(20);
    }
    ck_assert_int_eq(actor_release(&two, 1), 0);
    ck_assert_int_eq(actor_acquire(&two, 1, HF_EXCLUSIVE, GUARD_MS, NULL), 0);
    ck_assert_int_eq(kill(agent.pid, 0), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("traps");
    TCase *tests = tcase_create("traps");
    TCase *longer = tcase_create("restarts beside a hold");
    tcase_add_checked_fixture(tests, start, stop);
    tcase_set_timeout(tests, 120);
    tcase_add_checked_fixture(longer, start_long, stop);
    tcase_set_timeout(longer, 120);
    if (fork_is_wiped("trap_fork_child_unlocks_parent")) {
        tcase_add_test(tests, trap_fork_child_unlocks_parent);
    }
    tcase_add_test(tests, trap_heartbeat_keeps_hung_holder_alive);
    tcase_add_test(tests, trap_lost_wakeup_owner_dies);
    tcase_add_test(tests, trap_dead_waiters_fill_slots);
    tcase_add_test(tests, trap_readers_starve_writers);
    tcase_add_test(tests, trap_upgrade_deadlock);
    tcase_add_loop_test(longer, trap_pid_reused_or_other_namespace, 0, 4);
    tcase_add_loop_test(tests, trap_child_keeps_the_connection, 0, 8);
    tcase_add_test(tests, trap_own_entry_left_by_expired_session);
    tcase_add_test(tests, trap_granted_after_lease_ran_out_while_waiting);
    tcase_add_test(tests, trap_old_handle_hits_recycled_slot);
    tcase_add_test(tests, trap_mapped_client_forges_lock_words);
    suite_add_tcase(suite, tests);
    suite_add_tcase(suite, longer);
    return suite_run(suite);
}
