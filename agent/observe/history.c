/* Computes the points of the status page's charts: see history.h. */
#include "observe/history.h"

#include <string.h>

void history_init(struct history *history, int64_t session_ttl_ns)
{
    const int64_t least_ns = INT64_C(1000000) * HISTORY_POINT_MS;
    *history = (struct history){.interval_ns = session_ttl_ns > least_ns ? session_ttl_ns
                                                                         : least_ns};
}

static void append(struct history *history, const struct history_point *point)
{
    if (history->count == HISTORY_POINTS) {
        history->count--;
        memmove(history->points, history->points + 1, history->count * sizeof(*point));
    }
    history->points[history->count++] = *point;
}

static struct history_point point_of(const struct history_counters *from,
                                     const struct history_counters *to)
{
    uint64_t looks = to->looks - from->looks;
    uint64_t handovers = to->handovers - from->handovers;
    uint64_t awaited = to->awaited - from->awaited;
    if (looks == 0) {
        return (struct history_point){.known = false};
    }
    awaited = awaited / looks + (awaited % looks != 0);
    return (struct history_point){.known = true,
                                  .handovers = handovers < UINT32_MAX ? (uint32_t)handovers
                                                                      : UINT32_MAX,
                                  .awaited = awaited < UINT32_MAX ? (uint32_t)awaited : UINT32_MAX};
}

void history_note(struct history *history, int64_t now_ns, const struct history_counters *counters)
{
    const struct history_point gap = {.known = false};
    if (history->end_ns == 0) {
        history->end_ns = now_ns;
        history->last = *counters;
        return;
    }
    int64_t over = (now_ns - history->end_ns) / history->interval_ns;
    if (over <= 0) {
        return;
    }
    for (int64_t i = 1; i < over && i < HISTORY_POINTS; i++) {
        append(history, &gap);
    }
    struct history_point point = point_of(&history->last, counters);
    append(history, &point);
    history->end_ns += over * history->interval_ns;
    history->last = *counters;
}
