/*
 * The cost of an agent that serves no client: its share of one processor in windows of 1 s (12 of
 * them, 3 in a quick run), and its resident memory. Meanwhile the agent renews its own session.
 */
#include "agent.h"
#include "figures.h"

#include <stdio.h>

static const int64_t second_ns = INT64_C(1000000000);
static const double mib = 1024.0 * 1024.0;
enum { WINDOWS = 12, WINDOWS_QUICK = 3 };

/* Fills the series with one value for each window. *mean is the share over all windows together. */
static int measure_windows(const struct agent *agent, size_t windows, struct series *out,
                           double *mean, int64_t *resolution_ns)
{
    int64_t cpu_before_ns;
    if (agent_cpu_ns(agent, &cpu_before_ns, resolution_ns) != 0) {
        return -1;
    }
    const int64_t cpu_first_ns = cpu_before_ns;
    const int64_t first_ns = now_ns();
    int64_t before_ns = first_ns;
    for (size_t i = 0; i < windows; i++) {
        int64_t cpu_ns;
        pause_ns(second_ns);
        if (interrupted()) {
            return complain("interrupted");
        }
        if (agent_cpu_ns(agent, &cpu_ns, resolution_ns) != 0) {
            return -1;
        }
        int64_t after_ns = now_ns();
        series_add(out, 100.0 * (double)(cpu_ns - cpu_before_ns) / (double)(after_ns - before_ns));
        before_ns = after_ns;
        cpu_before_ns = cpu_ns;
    }
    *mean = 100.0 * (double)(cpu_before_ns - cpu_first_ns) / (double)(before_ns - first_ns);
    return 0;
}

int figure_idle(const struct bench *bench, struct figure *figure)
{
    struct agent agent;
    struct agent_memory memory = {0};
    double mean = 0.0;
    int64_t resolution_ns = 0;
    size_t windows = bench->effort.quick ? WINDOWS_QUICK : WINDOWS;
    struct side *cpu = figure_side(figure, "processor, windows of 1 s", "% of a core", 4);
    struct side *rss = figure_side(figure, "resident (RSS)", "MiB", 2);
    struct side *pss = figure_side(figure, "proportional (PSS)", "MiB", 2);

    int result = agent_start(&agent, bench->directory);
    if (result == 0) {
        pause_ns(2 * second_ns); /* the agent's start is not idleness */
        result = measure_windows(&agent, windows, &cpu->series, &mean, &resolution_ns);
    }
    if (result == 0) {
        result = agent_memory_read(&agent, &memory);
    }
    agent_stop(&agent);
    series_add(&rss->series, memory.rss / mib);
    series_add(&pss->series, memory.pss / mib);
    figure_verdict(figure, "mean % of a core", mean, BOUND_AT_MOST, 0.2);
    figure_verdict(figure, "MiB resident", memory.rss / mib, BOUND_AT_MOST, 25.0);
    snprintf(figure->note, sizeof(figure->note),
             "no client connected; %zu s of measuring; processor time is known to %g ms", windows,
             (double)resolution_ns / 1e6);
    return result;
}
