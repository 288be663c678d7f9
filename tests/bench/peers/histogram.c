/*
 * See histogram.h. A value's highest bit chooses a group of buckets. Its eleven highest bits choose
 * the bucket within that group.
 */
#include "histogram.h"

static const int64_t value_max = (INT64_C(1) << HISTOGRAM_VALUE_BITS) - 1;

/* Returns how often a value must be halved until it fits into HISTOGRAM_SUB_BITS bits. */
static uint32_t halvings(int64_t value_ns)
{
    uint32_t bits = 64 - (uint32_t)__builtin_clzll((uint64_t)value_ns | 1);
    return bits <= HISTOGRAM_SUB_BITS ? 0 : bits - HISTOGRAM_SUB_BITS;
}

uint32_t histogram_index(int64_t value_ns)
{
    int64_t value = value_ns < 0 ? 0 : value_ns > value_max ? value_max : value_ns;
    uint32_t shift = halvings(value);
    return shift * HISTOGRAM_HALF + (uint32_t)(value >> shift);
}

int64_t histogram_highest(uint32_t index)
{
    uint32_t shift = index < 2 * HISTOGRAM_HALF ? 0 : index / HISTOGRAM_HALF - 1;
    int64_t sub = (int64_t)index - (int64_t)shift * HISTOGRAM_HALF;
    return ((sub + 1) << shift) - 1;
}

void histogram_record(struct histogram *histogram, int64_t value_ns)
{
    histogram->counts[histogram_index(value_ns)]++;
    histogram->total++;
    histogram->max_ns = value_ns > histogram->max_ns ? value_ns : histogram->max_ns;
}

void histogram_add(struct histogram *to, const struct histogram *from)
{
    for (uint32_t i = 0; i < HISTOGRAM_BUCKETS; i++) {
        to->counts[i] += from->counts[i];
    }
    to->total += from->total;
    to->max_ns = from->max_ns > to->max_ns ? from->max_ns : to->max_ns;
}

int64_t histogram_at(const struct histogram *histogram, double share)
{
    uint64_t wanted = (uint64_t)(share * (double)histogram->total + 0.5);
    uint64_t seen = 0;
    wanted = wanted == 0 ? 1 : wanted;
    for (uint32_t i = 0; i < HISTOGRAM_BUCKETS; i++) {
        seen += histogram->counts[i];
        if (seen >= wanted) {
            int64_t value = histogram_highest(i);
            return value < histogram->max_ns ? value : histogram->max_ns;
        }
    }
    return 0;
}
