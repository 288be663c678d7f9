/* The functions of barrier.h. */
#include "barrier.h"

#include <limits.h>
#include <linux/futex.h>
#include <signal.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static const int64_t look_ns = 500000;
static const int64_t arrival_timeout_ns = INT64_C(60000000000);

void barrier_arrive_and_wait(struct barrier *barrier, uint32_t phase)
{
    /* release: pairs with the acquire in barrier_await; publishes the worker's results */
    atomic_fetch_add_explicit(&barrier->arrived, 1, memory_order_release);
    /* acquire: pairs with the release in barrier_open; sees the stop flag reset */
    while (atomic_load_explicit(&barrier->phase, memory_order_acquire) == phase) {
        syscall(SYS_futex, &barrier->phase, FUTEX_WAIT, phase, NULL, NULL, 0);
    }
}

int barrier_await(struct barrier *barrier, const pid_t *pids, uint32_t count)
{
    const int64_t give_up_ns = now_ns() + arrival_timeout_ns;
    /* acquire: pairs with the release in barrier_arrive_and_wait */
    while (atomic_load_explicit(&barrier->arrived, memory_order_acquire) < count) {
        for (uint32_t i = 0; i < count; i++) {
            siginfo_t ended = {.si_pid = 0};
            if (waitid(P_PID, (id_t)pids[i], &ended, WEXITED | WNOHANG | WNOWAIT) == 0 &&
                ended.si_pid != 0) {
                return complain("worker %u ended before its time", i);
            }
        }
        if (interrupted()) {
            return complain("interrupted");
        }
        if (now_ns() > give_up_ns) {
            return complain("a round did not end: a worker waits for ever");
        }
        pause_ns(look_ns);
    }
    return 0;
}

void barrier_open(struct barrier *barrier)
{
    /* relaxed, both stores: the workers sleep, and the release below publishes the values */
    atomic_store_explicit(&barrier->arrived, 0, memory_order_relaxed);
    atomic_store_explicit(&barrier->stop, 0, memory_order_relaxed);
    /* release: pairs with the acquire in barrier_arrive_and_wait */
    atomic_fetch_add_explicit(&barrier->phase, 1, memory_order_release);
    syscall(SYS_futex, &barrier->phase, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}
