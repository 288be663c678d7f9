/*
 * Measures acquire and release of a lock by one thread, when this host has the lock's grant and no
 * other process wants the lock. The figure compares this with a floor, the steps that every lock
 * with a lease needs: a compare-and-swap that takes the lock word, another that frees it, and one
 * reading of the clock, to compare with the deadline.
 */
#include <stdalign.h>
#include <stdatomic.h>

#include "agent.h"
#include "figures.h"
#include "subject.h"

struct floor {
    alignas(64) _Atomic uint64_t word;
    int64_t deadline_ns;
};

static int floor_repeat(void *arg, uint64_t times)
{
    struct floor *floor = arg;
    for (uint64_t i = 0; i < times; i++) {
        uint64_t was = 0;
        /* acquire: pairs with the release below, as in a real lock; no other thread uses the
         * word */
        if (!atomic_compare_exchange_strong_explicit(&floor->word, &was, 1, memory_order_acquire,
                                                     memory_order_relaxed)) {
            return complain("the floor's word was %llu", (unsigned long long)was);
        }
        if (now_ns() >= floor->deadline_ns) {
            return complain("the floor's deadline passed");
        }
        was = 1;
        /* release: pairs with the acquire above */
        if (!atomic_compare_exchange_strong_explicit(&floor->word, &was, 0, memory_order_release,
                                                     memory_order_relaxed)) {
            return complain("the floor's word was %llu", (unsigned long long)was);
        }
    }
    return 0;
}

static int measure_mode(const struct bench *bench, struct figure *figure, enum hf_mode mode,
                        double bound)
{
    struct agent agent;
    struct subject subject = {0};
    struct floor floor = {.deadline_ns = INT64_MAX};
    struct side *ours = figure_side(figure, "holdfast: acquire + release", "ns", 1);
    struct side *peer = figure_side(figure, "floor: 2 compare-and-swap + BOOTTIME", "ns", 1);
    struct contender contenders[2] = {
        {subject_repeat, &subject, &ours->series},
        {floor_repeat, &floor, &peer->series},
    };

    int result = agent_start(&agent, bench->directory);
    if (result == 0) {
        result = subject_open(&subject, agent.socket, "bench-uncontended", mode, 0);
    }
    if (result == 0) {
        result = measure_in_turns(contenders, bench->effort);
    }
    subject_close(&subject);
    agent_stop(&agent);
    figure_verdict(figure, "holdfast / floor",
                   series_median(&ours->series) / series_median(&peer->series), BOUND_AT_MOST,
                   bound);
    return result;
}

int figure_exclusive(const struct bench *bench, struct figure *figure)
{
    return measure_mode(bench, figure, HF_EXCLUSIVE, 1.5);
}

int figure_shared(const struct bench *bench, struct figure *figure)
{
    return measure_mode(bench, figure, HF_SHARED, 3.0);
}
