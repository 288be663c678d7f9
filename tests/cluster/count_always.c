/*
 * This file is linked only into the agent of the build that counts executed lines (HF_COVERAGE).
 * The tests kill agents, and a killed process would lose its counts. So a thread of the agent
 * writes the counts to disk twice a second. Counts between a write and the reset after it are lost,
 * but the exact numbers do not matter.
 */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

void __gcov_dump(void);
void __gcov_reset(void);

static pthread_mutex_t writing = PTHREAD_MUTEX_INITIALIZER;

static void *count(void *arg)
{
    const struct timespec pause = {.tv_nsec = 500000000};
    while (nanosleep(&pause, NULL) == 0) { /* the loop runs as long as the process lives */
        pthread_mutex_lock(&writing);
        __gcov_dump();
        __gcov_reset();
        pthread_mutex_unlock(&writing);
    }
    return arg;
}

/* Runs when the process exits. The exit also writes the counts, and the thread must not write them
 * at the same time. So this function keeps the mutex. */
static void end(void)
{
    pthread_mutex_lock(&writing);
}

/* The new thread starts with all signals blocked, so that the agent's own threads receive them. */
__attribute__((constructor)) static void begin(void)
{
    pthread_t thread;
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    if (atexit(end) != 0 || pthread_sigmask(SIG_SETMASK, &all, &before) != 0 ||
        pthread_create(&thread, NULL, count, NULL) != 0 ||
        pthread_sigmask(SIG_SETMASK, &before, NULL) != 0) {
        abort();
    }
}
