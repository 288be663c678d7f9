/* See new_locks.h: what new locks cost the agent. */
#include "new_locks.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    SAMPLES = 100000, /* the greatest number of samples */
    ENOUGH = 20,
    UNSERVED_MAX_MS = 5,
};

static int64_t costs_ns[SAMPLES];
static int64_t waits_ns[SAMPLES];
static unsigned count;
static unsigned unserved; /* samples that do not count, because their reader had no processor */

void new_locks_forget(void)
{
    count = 0;
    unserved = 0;
}

bool new_locks_ask(const struct agent_process *agent, hf_client *client, const char *name)
{
    hf_lock *lock;
    int64_t unserved_ns = process_unserved_ns(getpid());
    int64_t began_ns = boottime_now();
    int64_t loop_ns = agent_loop_ns(agent);
    int result = hf_open(client, name, NULL, &lock);
    if (result == HF_ENOAGENT) {
        return false;
    }
    ck_assert_int_eq(result, 0);
    ck_assert_int_eq(hf_acquire(lock, HF_EXCLUSIVE, 60000 * MS, NULL), 0);
    int64_t cost_ns = agent_loop_ns(agent) - loop_ns;
    int64_t wait_ns = boottime_now() - began_ns;
    if (process_unserved_ns(getpid()) - unserved_ns > UNSERVED_MAX_MS * MS) {
        unserved++;
    } else if (count < SAMPLES) {
        costs_ns[count] = cost_ns;
        waits_ns[count++] = wait_ns;
    }
    ck_assert_int_eq(hf_release(lock), 0);
    hf_close(lock);
    return true;
}

bool new_locks_are_enough(void)
{
    return count >= ENOUGH;
}

static int compare(const void *a, const void *b)
{
    int64_t first = *(const int64_t *)a;
    int64_t second = *(const int64_t *)b;
    return (first > second) - (first < second);
}

void new_locks_judge(const char *what, int64_t most_ms)
{
    ck_assert(new_locks_are_enough());
    unsigned most = count - 2 - count / 1000;
    qsort(costs_ns, count, sizeof(int64_t), compare);
    qsort(waits_ns, count, sizeof(int64_t), compare);
    printf("%-36s %5u new locks (%u more do not count): agent's time p50 %6.2f p99.9 %6.2f at most "
           "%6.2f ms, on the wall p50 %6.2f p99.9 %6.2f ms\n",
           what, count, unserved, (double)costs_ns[count / 2] / 1e6, (double)costs_ns[most] / 1e6,
           (double)costs_ns[count - 1] / 1e6, (double)waits_ns[count / 2] / 1e6,
           (double)waits_ns[most] / 1e6);
    fflush(stdout);
    ck_assert_msg(costs_ns[most] <= most_ms * MS, "%s: %.2f ms", what,
                  (double)costs_ns[most] / 1e6);
    new_locks_forget();
}
