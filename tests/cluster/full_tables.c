/*
 * [limits] makes every table small. A call that finds its table full fails with HF_EFULL. No lock
 * or hold is lost, and there is room again when a client closes a lock.
 */
#include "actor.h"
#include "require.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "../suite_main.h"

enum { LOCKS = 20, CLIENTS = 6, HANDLES = 40, BLOCKS = 2 };

static const char config[] = "[agent]\nname = host-a\ncell = test\nstate_dir = %D/state\n"
                             "socket = %D/agent.sock\n"
                             "[voters]\nhost-a = tcp://127.0.0.1:7411\n"
                             "[limits]\nlocks = 20\nclients = 6\nhandles = 40\nblocks = 2\n";

static struct agent_process agent;
static struct actor actors[CLIENTS];
static unsigned actor_count;

static struct actor *new_actor(void)
{
    struct actor *actor = &actors[actor_count++];
    actor_ready(actor, agent.socket);
    return actor;
}

static void start(void)
{
    actor_count = 0;
    agent_create(&agent, config);
    agent_start(&agent);
}

static void stop(void)
{
    for (unsigned i = 0; i < actor_count; i++) {
        actor_end(&actors[i]);
    }
    agent_destroy(&agent);
}

static int open_numbered(struct actor *actor, uint32_t lock, const char *format, unsigned number)
{
    char name[64];
    snprintf(name, sizeof(name), format, number);
    return actor_open(actor, lock, name, 10);
}

static void close_lock(struct actor *actor, uint32_t lock)
{
    actor_do(actor, &(struct actor_request){.kind = ACTOR_CLOSE, .lock = lock});
}

/* Repeats the open until it succeeds, because the agent frees a closed entry a moment after the
 * close. */
static int open_eventually(struct actor *actor, uint32_t lock, const char *format, unsigned number)
{
    int64_t end_ns = boottime_now() + GUARD_MS * MS;
    int result;
    while ((result = open_numbered(actor, lock, format, number)) == HF_EFULL &&
           boottime_now() < end_ns) {
        sleep_ms(10);
    }
    return result;
}

/* Expects that the open or acquire fails, and that the library's error message contains each of the
 * texts. */
static void expect_full(struct actor *actor, const struct actor_request *request,
                        const char *const *texts)
{
    struct actor_reply reply = actor_do(actor, request);
    ck_assert_int_eq(reply.result, HF_EFULL);
    for (; *texts != NULL; texts++) {
        ck_assert_msg(strstr(reply.text, *texts) != NULL, "no \"%s\" in: %s", *texts, reply.text);
    }
}

static void expect_open_full(struct actor *actor, uint32_t lock, const char *name,
                             const char *const *texts)
{
    struct actor_request request = {
        .kind = ACTOR_OPEN, .lock = lock, .options = {.size = sizeof(request.options)}};
    snprintf(request.name, sizeof(request.name), "%s", name);
    expect_full(actor, &request, texts);
}

START_TEST(locks_full)
{
    struct actor *actor = new_actor();
    struct hf_hold hold;
    ck_assert_int_eq(open_numbered(actor, 0, "held", 0), 0);
    ck_assert_int_eq(actor_acquire(actor, 0, HF_EXCLUSIVE, GUARD_MS, &hold), 0);
    for (uint32_t i = 1; i < LOCKS; i++) {
        ck_assert_int_eq(open_numbered(actor, i, "name/%u", i), 0);
    }
    char process[64];
    snprintf(process, sizeof(process), "process %d has most open handles, 20", actor->pid);
    expect_open_full(actor, LOCKS, "one more",
                     (const char *const[]){"to open the lock \"one more\"",
                                           "all 20 places for locks of this namespace", process,
                                           "raise locks in [limits]", NULL});
    ck_assert_uint_eq(agent_logged(&agent, "table=locks room=20 namespace=default"), 1);
    ck_assert(actor_remaining(actor, 0) > 0);
    for (uint32_t i = 1; i < LOCKS; i++) { /* each open lock works */
        ck_assert_int_eq(actor_acquire(actor, i, HF_EXCLUSIVE, GUARD_MS, NULL), 0);
        ck_assert_int_eq(actor_release(actor, i), 0);
    }
    for (uint32_t i = 1; i < LOCKS; i++) {
        close_lock(actor, i);
    }
    for (uint32_t i = 1; i < LOCKS; i++) {
        ck_assert_int_eq(open_eventually(actor, i, "other/%u", i), 0);
        ck_assert_int_eq(actor_acquire(actor, i, HF_EXCLUSIVE, GUARD_MS, NULL), 0);
    }
    ck_assert(actor_remaining(actor, 0) > 0);
    ck_assert_int_eq(actor_release(actor, 0), 0);
}
END_TEST

START_TEST(handles_full)
{
    struct actor *actor = new_actor();
    for (uint32_t i = 0; i < HANDLES; i++) {
        ck_assert_int_eq(open_numbered(actor, i, "same/%u", i % 10), 0);
    }
    ck_assert_int_eq(open_numbered(actor, HANDLES, "same", 0), HF_EFULL);
    struct actor *other = new_actor();
    expect_open_full(other, 0, "same/1",
                     (const char *const[]){"all 40 handles of open locks", "most open handles, 40",
                                           "raise handles in [limits]", NULL});
    ck_assert_int_eq(actor_acquire(actor, 0, HF_EXCLUSIVE, GUARD_MS, NULL), 0);
    for (uint32_t i = 1; i < HANDLES; i++) {
        close_lock(actor, i);
    }
    ck_assert_int_eq(open_eventually(other, 0, "same/%u", 0), 0);
    ck_assert_int_eq(actor_acquire(other, 0, HF_EXCLUSIVE, 0, NULL), HF_EBUSY);
    ck_assert_int_eq(actor_release(actor, 0), 0);
    ck_assert_int_eq(actor_acquire(other, 0, HF_EXCLUSIVE, GUARD_MS, NULL), 0);
}
END_TEST

START_TEST(clients_full)
{
    struct actor refused;
    for (unsigned i = 0; i < CLIENTS; i++) {
        new_actor();
    }
    ck_assert_int_eq(open_numbered(&actors[0], 0, "held", 0), 0);
    ck_assert_int_eq(actor_acquire(&actors[0], 0, HF_EXCLUSIVE, GUARD_MS, NULL), 0);
    actor_start(&refused, agent.socket, NULL);
    ck_assert_int_eq(refused.connected, HF_EFULL);
    actor_end(&refused);
    char why[512];
    hf_client *client;
    struct hf_options options = {.size = sizeof(options),
                                 .socket = agent.socket,
                                 .connect_timeout_ns = GUARD_MS * MS,
                                 .why = why,
                                 .why_size = sizeof(why)};
    ck_assert_int_eq(hf_connect(&options, &client), HF_EFULL);
    ck_assert_msg(strstr(why, "all 6 places for connected processes are in use") != NULL, "%s",
                  why);
    ck_assert_ptr_nonnull(strstr(why, "raise clients in [limits]"));
    ck_assert(actor_remaining(&actors[0], 0) > 0);
    actor_end(&actors[--actor_count]);
    int64_t end_ns = boottime_now() + GUARD_MS * MS;
    do {
        actor_start(&actors[actor_count], agent.socket, NULL);
        if (actors[actor_count].connected != 0) {
            actor_end(&actors[actor_count]);
            sleep_ms(5);
        }
        REQUIRE(boottime_now() < end_ns, "no room after a client has gone");
    } while (actors[actor_count].connected != 0);
    actor_count++;
    ck_assert_int_eq(actor_release(&actors[0], 0), 0);
}
END_TEST

/* A lock with waiters or readers needs a block of seats. Two blocks are enough for two such locks,
 * and a third one gets HF_EFULL. */
START_TEST(blocks_full)
{
    struct actor *holder = new_actor();
    struct actor *waiter = new_actor();
    for (uint32_t i = 0; i < BLOCKS + 1; i++) {
        ck_assert_int_eq(open_numbered(holder, i, "lock/%u", i), 0);
        ck_assert_int_eq(open_numbered(waiter, i, "lock/%u", i), 0);
        ck_assert_int_eq(actor_acquire(holder, i, HF_EXCLUSIVE, GUARD_MS, NULL), 0);
    }
    for (uint32_t i = 0; i < BLOCKS; i++) { /* once the waiter is shown, the lock has its block */
        char name[32];
        struct actor_reply waited;
        snprintf(name, sizeof(name), "lock/%u", i);
        actor_wait(waiter, i, HF_EXCLUSIVE);
        actor_await_waiters(holder, name, 1);
        ck_assert_int_eq(actor_release(holder, i), 0);
        ck_assert(actor_receive(waiter, &waited, GUARD_MS));
        ck_assert_int_eq(waited.result, 0);
        ck_assert_int_eq(actor_release(waiter, i), 0);
        ck_assert_int_eq(actor_acquire(holder, i, HF_EXCLUSIVE, GUARD_MS, NULL), 0);
    }
    expect_full(waiter,
                &(struct actor_request){
                    .kind = ACTOR_ACQUIRE, .lock = BLOCKS, .mode = HF_EXCLUSIVE, .timeout_ns = -1},
                (const char *const[]){"to take the lock \"lock/2\"", "all 2 blocks of seats",
                                      "raise blocks in [limits]", NULL});
    for (uint32_t i = 0; i < BLOCKS + 1; i++) { /* no lock is lost */
        ck_assert(actor_remaining(holder, i) > 0);
        ck_assert_int_eq(actor_release(holder, i), 0);
        ck_assert_int_eq(actor_acquire(waiter, i, HF_EXCLUSIVE, 0, NULL), 0);
        ck_assert_int_eq(actor_release(waiter, i), 0);
    }
    /* A lock that already has a block still takes waiters. */
    ck_assert_int_eq(actor_acquire(holder, 0, HF_EXCLUSIVE, GUARD_MS, NULL), 0);
    actor_wait(waiter, 0, HF_EXCLUSIVE);
    actor_await_waiters(holder, "lock/0", 1);
    ck_assert_int_eq(actor_release(holder, 0), 0);
    struct actor_reply reply;
    ck_assert(actor_receive(waiter, &reply, GUARD_MS));
    ck_assert_int_eq(reply.result, 0);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("full");
    tcase_add_checked_fixture(tests, start, stop);
    tcase_set_timeout(tests, 90);
    tcase_add_test(tests, locks_full);
    tcase_add_test(tests, handles_full);
    tcase_add_test(tests, clients_full);
    tcase_add_test(tests, blocks_full);
    return suite_main("full_tables", tests);
}
