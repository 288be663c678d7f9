/*
 * A histogram of durations. Its buckets have fixed bounds: 10 us to 100 s, three to a decade. The
 * buckets are not cumulative. The code that shows the histogram in Prometheus's format adds them
 * up.
 *
 * Invariant: each duration is in one bucket, so `count` is the sum of all buckets.
 *
 * Zeroed at first. One thread.
 */
#ifndef CORE_HISTOGRAM_H
#define CORE_HISTOGRAM_H

#include <stdint.h>

enum { HISTOGRAM_BOUNDS = 22 };

struct histogram {
    uint64_t counts[HISTOGRAM_BOUNDS + 1]; /* the last bucket: above all bounds */
    uint64_t count;
    uint64_t sum_ns;
};

/* The upper bound (inclusive) of a bucket below HISTOGRAM_BOUNDS. */
int64_t histogram_bound_ns(uint32_t bucket);

/* Adds a duration. A negative duration is added as 0: one can arise because two clocks are read one
 * after the other. */
void histogram_add(struct histogram *histogram, int64_t duration_ns);

#endif
