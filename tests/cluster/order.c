/*
 * First come, first served: no later waiter overtakes a waiter that is in the queue.
 *
 * Precisely: if waiter B begins its call after hf_show() has shown A in the queue (A's cell says
 * WAITING), B's hold has a higher token than A's. The rule also covers a process that only tries to
 * take the lock, and does not wait. If waiters were seen in the queue when its try began, the
 * process may get the lock only after all of them. A try that finds a range of tokens used up waits
 * in the queue for the next range, so such a try may be in the queue before these waiters. Waiters
 * join one by one, each after the previous waiter was seen in the queue. Other processes try all
 * the time.
 */
#include "../suite_main.h"
#include "actor.h"
#include "require.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { WAITERS = 8, TRIERS = 2, ROUNDS = 12, ROUNDS_DEEP = 200, TAKEN = 1 << 20 };

/* The tries that succeeded. */
struct taken {
    _Atomic uint32_t stop;
    _Atomic uint32_t count;
    _Atomic uint64_t tries;
    _Atomic uint64_t tokens[TAKEN];
    _Atomic int64_t began_ns[TAKEN]; /* when the try with this index began */
};

static struct agent_process agent;
static struct actor holder;
static struct actor waiters[WAITERS];
static struct taken *taken;
static pid_t triers[TRIERS];

static void trier_run(void)
{
    const struct hf_options options = {
        .size = sizeof(options), .socket = agent.socket, .connect_timeout_ns = GUARD_MS * MS};
    hf_client *client = NULL;
    hf_lock *lock = NULL;
    REQUIRE(hf_connect(&options, &client) == 0, "connect");
    REQUIRE(hf_open(client, "order", NULL, &lock) == 0, "open");
    while (!atomic_load(&taken->stop)) {
        struct hf_hold hold;
        int64_t began_ns = boottime_now();
        atomic_fetch_add(&taken->tries, 1);
        if (hf_acquire(lock, HF_EXCLUSIVE, 0, &hold) == 0) {
            uint32_t at = atomic_fetch_add(&taken->count, 1);
            atomic_store(&taken->began_ns[at % TAKEN], began_ns);
            atomic_store(&taken->tokens[at % TAKEN], hold.token);
            REQUIRE(hf_release(lock) == 0, "release");
        }
    }
    _exit(0);
}

static void start(void)
{
    agent_create(&agent, NULL);
    agent_start(&agent);
    taken = mmap(NULL, sizeof(*taken), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert(taken != MAP_FAILED);
    actor_ready(&holder, agent.socket);
    ck_assert_int_eq(actor_open(&holder, 0, "order", 10), 0);
    for (unsigned i = 0; i < WAITERS; i++) {
        actor_ready(&waiters[i], agent.socket);
        ck_assert_int_eq(actor_open(&waiters[i], 0, "order", 10), 0);
    }
    for (unsigned i = 0; i < TRIERS; i++) {
        triers[i] = fork_tied();
        if (triers[i] == 0) {
            trier_run();
        }
    }
}

static void stop(void)
{
    actor_end(&holder);
    for (unsigned i = 0; i < WAITERS; i++) {
        actor_end(&waiters[i]);
    }
    agent_destroy(&agent);
}

/* The holder takes the lock, exclusive or shared, and *first becomes its hold. Then all waiters
 * join, one after another. Returns the time at which the first waiter was seen in the queue. (If
 * the holder has the lock shared, a try may take it for a moment. Such a try must not be shown as a
 * waiter.) */
static int64_t join_all(unsigned round, struct hf_hold *first)
{
    int64_t seen_ns = 0;
    enum hf_mode held = round % 3 == 1 ? HF_SHARED : HF_EXCLUSIVE;
    ck_assert_int_eq(actor_acquire(&holder, 0, held, GUARD_MS, first), 0);
    for (unsigned i = 0; i < WAITERS; i++) {
        /* in every third round some waiters are readers, which may share the lock but must not pass
         * a writer */
        enum hf_mode mode = round % 3 == 2 && i % 3 != 0 ? HF_SHARED : HF_EXCLUSIVE;
        actor_wait(&waiters[i], 0, mode);
        actor_await_waiter(&holder, "order", &waiters[i]);
        seen_ns = i == 0 ? boottime_now() : seen_ns;
    }
    return seen_ns;
}

START_TEST(nobody_is_overtaken)
{
    unsigned rounds = test_is_deep() ? ROUNDS_DEEP : ROUNDS;
    for (unsigned round = 0; round < rounds; round++) {
        struct hf_hold first;
        int64_t seen_ns = join_all(round, &first);
        ck_assert_int_eq(actor_release(&holder, 0), 0);
        uint64_t last = first.token;
        for (unsigned i = 0; i < WAITERS; i++) {
            struct actor_reply reply;
            bool reader = round % 3 == 2 && i % 3 != 0;
            REQUIRE(actor_receive(&waiters[i], &reply, GUARD_MS), "round %u: waiter %u is stuck",
                    round, i);
            REQUIRE(reply.result == 0, "round %u: waiter %u: %s", round, i,
                    hf_strerror(reply.result));
            REQUIRE(reader ? reply.hold.token >= last : reply.hold.token > last,
                    "round %u: waiter %u has token %llu after %llu", round, i,
                    (unsigned long long)reply.hold.token, (unsigned long long)last);
            last = reply.hold.token;
            ck_assert_int_eq(actor_release(&waiters[i], 0), 0);
        }
        uint32_t count = atomic_load(&taken->count);
        for (uint32_t i = 0; i < count && i < TAKEN; i++) {
            uint64_t token = atomic_load(&taken->tokens[i]);
            REQUIRE(token == 0 || token <= first.token || token > last ||
                        atomic_load(&taken->began_ns[i]) < seen_ns,
                    "round %u: a try got token %llu in between %llu and %llu", round,
                    (unsigned long long)token, (unsigned long long)first.token,
                    (unsigned long long)last);
        }
        atomic_store(&taken->count, 0); /* makes room for the tries of the next round */
    }
    ck_assert_uint_gt(atomic_load(&taken->tries), 100);
    atomic_store(&taken->stop, 1);
    for (unsigned i = 0; i < TRIERS; i++) {
        ck_assert_int_eq(wait_for(triers[i]), 0);
    }
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("first come, first served");
    tcase_add_checked_fixture(tests, start, stop);
    tcase_set_timeout(tests, 150);
    tcase_add_test(tests, nobody_is_overtaken);
    return suite_main("order", tests);
}
