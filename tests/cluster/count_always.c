/*
 * Linked into the agent of the build that counts lines (HF_COVERAGE) alone: the tests kill agents,
 * and a process that is killed would take its counts with it. So a thread of its own writes them
 * down twice a second. Counts between the writing and the reset are lost; the exact numbers do not
 * matter.
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
    while (nanosleep(&pause, NULL) == 0) { /* as long as the process lives */
        pthread_mutex_lock(&writing);
        __gcov_dump();
        __gcov_reset();
        pthread_mutex_unlock(&writing);
    }
    return arg;
}

/* Runs at the process's own exit, which writes the counts: the thread must not write them at the
 * same time. */
static void end(void)
{
    pthread_mutex_lock(&writing);
}

/* Blocks all signals in that thread, so that the agent's own threads get them. */
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
