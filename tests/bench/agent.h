/*
 * An agent of the bench's own: a one-host cell (`holdfastd --dev`), or a member of a cell with a
 * configuration, with its state below a given directory, started for one figure and stopped by its
 * process id; and what /proc says about it.
 *
 * The program is the holdfastd beside the bench's own executable. An agent leaves its regions for
 * the next start when it is ended; as there is none here, agent_stop removes them by name.
 */
#ifndef BENCH_AGENT_H
#define BENCH_AGENT_H

#include <sys/types.h>

#include "measure.h"

enum { AGENT_PATH_MAX = 512, AGENT_REGIONS_MAX = 16, AGENT_REGION_PATH_MAX = 272 };

/* The regions of one agent, by path. */
struct agent_regions {
    char paths[AGENT_REGIONS_MAX][AGENT_REGION_PATH_MAX];
    size_t count;
};

struct agent {
    pid_t pid; /* 0: none runs */
    char directory[AGENT_PATH_MAX];
    char socket[AGENT_PATH_MAX + 16];
    struct agent_regions regions; /* those known so far, to be removed at the end */
};

/* Starts an agent and returns when it answers. Call agent_stop() after a failure, too. */
int agent_start(struct agent *agent, const char *below) MUST_CHECK;

/*
 * These do the same in steps, for agents that need each other before they serve. The steps are:
 * making a directory; a start with a configuration (the text of an INI file, in which %D becomes
 * the directory; NULL: --dev), after agent_kill() or agent_end() again; and waiting until it
 * answers.
 */
int agent_prepare(struct agent *agent, const char *below) MUST_CHECK;
int agent_launch(struct agent *agent, const char *config) MUST_CHECK;
int agent_await_answer(struct agent *agent) MUST_CHECK;

/* agent_kill() sends SIGKILL, agent_end() SIGTERM. All that the agent left stays, for the next
 * start. */
void agent_kill(struct agent *agent);
void agent_end(struct agent *agent);

/* Sends SIGTERM, and SIGKILL if the agent has not ended 10 s later; then removes all that it
 * left. */
void agent_stop(struct agent *agent);

/* The memory of an agent, in bytes. */
struct agent_memory {
    double rss;     /* as the kernel counts it, the shared part of its region included */
    double pss;     /* as the kernel counts it */
    double own;     /* memory of the process that no file holds; its regions not */
    double regions; /* the pages of its regions that it has touched */
};

int agent_memory_read(const struct agent *agent, struct agent_memory *out) MUST_CHECK;

/* Reads the processor time of all of the agent's threads until now, in ns; *out_resolution_ns is
 * how exact it is. */
int agent_cpu_ns(const struct agent *agent, int64_t *out, int64_t *out_resolution_ns) MUST_CHECK;

/* Counts how often the agent's threads have been put to sleep and woken until now. */
int agent_wakeups(const struct agent *agent, uint64_t *out) MUST_CHECK;

#endif
