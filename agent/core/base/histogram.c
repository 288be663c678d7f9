/* Durations in buckets: see core/base/histogram.h. */
#include "core/base/histogram.h"

#include "proto/check.h"

#define US INT64_C(1000)

static const int64_t bounds_ns[HISTOGRAM_BOUNDS] = {
    10 * US,       25 * US,       50 * US,       100 * US,      250 * US,     500 * US,
    1000 * US,     2500 * US,     5000 * US,     10000 * US,    25000 * US,   50000 * US,
    100000 * US,   250000 * US,   500000 * US,   1000000 * US,  2500000 * US, 5000000 * US,
    10000000 * US, 25000000 * US, 50000000 * US, 100000000 * US};

int64_t histogram_bound_ns(uint32_t bucket)
{
    HF_CHECK(bucket < HISTOGRAM_BOUNDS);
    return bounds_ns[bucket];
}

void histogram_add(struct histogram *histogram, int64_t duration_ns)
{
    uint32_t bucket = 0;
    duration_ns = duration_ns > 0 ? duration_ns : 0;
    while (bucket < HISTOGRAM_BOUNDS && duration_ns > bounds_ns[bucket]) {
        bucket++;
    }
    histogram->counts[bucket]++;
    histogram->count++;
    histogram->sum_ns += (uint64_t)duration_ns;
}
