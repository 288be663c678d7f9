/*
 * The history of at least the last ten minutes, which the status page draws as charts. For each
 * interval it has two numbers: how many locks this host handed over to other hosts, and for how
 * many of its locks a process waited.
 *
 * The agent makes the points in its upkeep, so the history never wakes an agent that is at rest. A
 * point covers five seconds, or session_ttl if that is longer: the agent looks at its locks three
 * times in each session_ttl. If the agent did not look in an interval, the chart has a gap there,
 * not a zero.
 *
 * Invariant: points[0 .. count-1] are consecutive intervals, the oldest first, and the last one
 * ends at `end_ns`.
 *
 * Pure: the time and the counters come from the caller.
 */
#ifndef AGENT_OBSERVE_HISTORY_H
#define AGENT_OBSERVE_HISTORY_H

#include <stdbool.h>
#include <stdint.h>

enum { HISTORY_POINTS = 120, HISTORY_POINT_MS = 5000 };

/* Counters since the agent started. */
struct history_counters {
    uint64_t handovers; /* grants given back because another host waits for the lock */
    uint64_t looks;     /* how many times the agent looked at all locks */
    uint64_t awaited;   /* the locks for which a process waited, summed over all these looks */
};

struct history_point {
    bool known; /* false: the agent did not look in this interval */
    uint32_t handovers;
    uint32_t awaited; /* the mean of the looks in this interval, rounded up */
};

struct history {
    int64_t interval_ns;
    int64_t end_ns;               /* when the last point ended; 0: no counters were noted yet */
    struct history_counters last; /* the counters at end_ns */
    uint32_t count;
    struct history_point points[HISTORY_POINTS];
};

/* Begins an empty history. */
void history_init(struct history *history, int64_t session_ttl_ns);
/* Notes the counters as they are at now_ns. Makes a point if an interval is over. If several
 * intervals are over, all but the last one become gaps. */
void history_note(struct history *history, int64_t now_ns, const struct history_counters *counters);

#endif
