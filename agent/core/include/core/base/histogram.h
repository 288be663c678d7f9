/*
 * How long something took, counted in buckets with fixed bounds: 10 us to 100 s, three to a decade.
 * It is Prometheus' histogram, but for the sums over the buckets, which the code that shows it
 * makes.
 *
 * Zeroed at first. One thread.
 */
#ifndef CORE_HISTOGRAM_H
#define CORE_HISTOGRAM_H

#include <stdint.h>

enum { HISTOGRAM_BOUNDS = 22 };

struct histogram {
    uint64_t counts[HISTOGRAM_BOUNDS + 1]; /* the last: beyond all bounds */
    uint64_t count;
    uint64_t sum_ns;
};

/* The upper end, included, of a bucket below HISTOGRAM_BOUNDS. */
int64_t histogram_bound_ns(uint32_t bucket);

/* A negative time (clocks are read in another order than things happen) counts as 0. */
void histogram_add(struct histogram *histogram, int64_t duration_ns);

#endif
