/*
 * Several processes take and release one lock as fast as they can, in no order, and do nothing
 * while they hold it. The figure compares Holdfast with HF_BARGING and a robust process-shared
 * pthread mutex.
 *
 * With each of these locks, a process that has just released the lock may take it again at once. So
 * one process may do most operations of a round. Only the sum of all processes is compared, not the
 * fairness.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent.h"
#include "crew.h"
#include "figures.h"
#include "subject.h"

static int holdfast_setup(const void *arg, uint32_t worker, void **state)
{
    (void)worker;
    const struct agent *agent = arg;
    struct subject *subject = calloc(1, sizeof(*subject));
    if (subject == NULL) {
        return complain("no memory");
    }
    *state = subject;
    return subject_open(subject, agent->socket, "bench-barging", HF_EXCLUSIVE, HF_BARGING);
}

static int64_t holdfast_work(void *state, crew_stop *stop)
{
    struct subject *subject = state;
    int64_t count = 0;
    /* relaxed: see run_rounds in crew.c */
    while (atomic_load_explicit(stop, memory_order_relaxed) == 0) {
        if (subject_acquire(subject) != 0 || subject_release(subject) != 0) {
            return -1;
        }
        count++;
    }
    return count;
}

/* arg points to a pointer to the mutex. The bench has initialised the mutex before the fork. */
static int mutex_setup(const void *arg, uint32_t worker, void **state)
{
    (void)worker;
    *state = *(pthread_mutex_t *const *)arg;
    return 0;
}

static int64_t mutex_work(void *state, crew_stop *stop)
{
    pthread_mutex_t *mutex = state;
    int64_t count = 0;
    /* relaxed: see run_rounds in crew.c */
    while (atomic_load_explicit(stop, memory_order_relaxed) == 0) {
        if (pthread_mutex_lock(mutex) != 0 || pthread_mutex_unlock(mutex) != 0) {
            return complain("the robust mutex failed");
        }
        count++;
    }
    return count;
}

static int robust_mutex_init(pthread_mutex_t *mutex)
{
    pthread_mutexattr_t attributes;
    int error = pthread_mutexattr_init(&attributes);
    if (error == 0) {
        error = pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    }
    if (error == 0) {
        error = pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    }
    if (error == 0) {
        error = pthread_mutex_init(mutex, &attributes);
    }
    return error == 0 ? 0 : complain("robust mutex: %s", strerror(error));
}

static int measure_barging(const struct bench *bench, struct figure *figure, uint32_t workers)
{
    struct agent agent = {.pid = 0};
    struct side *ours = figure_side(figure, "holdfast, HF_BARGING", "pairs/s", 0);
    struct side *peer = figure_side(figure, "robust process-shared mutex", "pairs/s", 0);
    pthread_mutex_t *mutex = crew_memory(sizeof(*mutex));
    const struct crew_job jobs[2] = {
        {holdfast_setup, holdfast_work, &agent, &ours->series, NULL, NULL},
        {mutex_setup, mutex_work, &mutex, &peer->series, NULL, NULL},
    };

    int result = mutex != NULL ? robust_mutex_init(mutex) : -1;
    if (result == 0) {
        result = agent_start(&agent, bench->directory);
    }
    if (result == 0) {
        result = crew_run(workers, jobs, bench->effort);
    }
    agent_stop(&agent);
    crew_memory_free(mutex, sizeof(*mutex));
    figure_verdict(figure, "holdfast / robust mutex",
                   series_median(&ours->series) / series_median(&peer->series), BOUND_AT_LEAST,
                   0.5);
    snprintf(figure->note, sizeof(figure->note),
             "throughput of all processes together; how they share it is not looked at");
    return result;
}

int figure_barging_2(const struct bench *bench, struct figure *figure)
{
    return measure_barging(bench, figure, 2);
}

int figure_barging_8(const struct bench *bench, struct figure *figure)
{
    return measure_barging(bench, figure, 8);
}
