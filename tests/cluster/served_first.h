/*
 * The priority of a test whose leases or time limits are too short for a busy machine.
 *
 * On such a machine an ordinary process can wait for a processor for longer than these leases last,
 * even with a high nice value: the kernel shares the processors between sessions first.
 */
#ifndef TESTS_CLUSTER_SERVED_FIRST_H
#define TESTS_CLUSTER_SERVED_FIRST_H

#include <sched.h>

/* Gives this process, and all processes that it starts from now on, a processor before ordinary
 * processes. None of them may be busy for long. Without the right to do that, the process keeps its
 * priority. */
static inline void be_served_first(void)
{
    const struct sched_param lowest = {.sched_priority = 1};
    (void)sched_setscheduler(0, SCHED_RR, &lowest);
}

#endif
