/*
 * Counts of durations in nanoseconds, exact to three significant digits, from 1 ns to 137 s.
 *
 * The buckets are those of HdrHistogram (Tene) with three significant digits and lowest value 1:
 * 2,048 buckets of width 1, then 1,024 buckets for each doubling. A duration above 137 s counts as
 * 137 s.
 */
#ifndef PEERS_HISTOGRAM_H
#define PEERS_HISTOGRAM_H

#include <stdint.h>

enum {
    HISTOGRAM_SUB_BITS = 11, /* 2,048 sub-buckets: 3 significant digits */
    HISTOGRAM_HALF = 1 << (HISTOGRAM_SUB_BITS - 1),
    HISTOGRAM_VALUE_BITS = 37,
    HISTOGRAM_BUCKETS = (HISTOGRAM_VALUE_BITS - HISTOGRAM_SUB_BITS + 2) * HISTOGRAM_HALF,
};

struct histogram {
    uint64_t total;
    int64_t max_ns;
    uint64_t counts[HISTOGRAM_BUCKETS];
};

/* Negative values count as 0. */
void histogram_record(struct histogram *histogram, int64_t value_ns);
void histogram_add(struct histogram *to, const struct histogram *from);

/* Returns the least value v such that the fraction `share` of all values is at most v (0.5: the
 * median). Returns 0 if there are no values. */
int64_t histogram_at(const struct histogram *histogram, double share);

/* histogram_index() returns the index of a value's bucket. histogram_highest() returns the largest
 * value of a bucket. */
uint32_t histogram_index(int64_t value_ns);
int64_t histogram_highest(uint32_t index);

#endif
