/*
 * An agent of the bench's own: a one-host cell (`holdfastd --dev`), or a member of a cell with a
 * configuration. Its state lies below a given directory. The bench starts it for one figure, reads
 * about it in /proc, and stops it by its process id.
 *
 * The program is the holdfastd in the folder of the bench's own executable. An agent that ends
 * leaves its regions for its next start. After agent_stop() no start follows, so agent_stop()
 * removes the regions by name.
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
    struct agent_regions regions; /* the regions seen so far; agent_stop() removes them */
};

/* Starts an agent and returns when it answers. Call agent_stop() after a failure, too. */
int agent_start(struct agent *agent, const char *below) MUST_CHECK;

/*
 * The steps of agent_start(), for agents that need each other before they serve. agent_prepare()
 * makes the directory. agent_launch() starts the agent, also after agent_kill() or agent_end();
 * config is the text of an INI file, in which %D becomes the directory, or NULL for --dev.
 * agent_await_answer() waits until the agent answers.
 */
int agent_prepare(struct agent *agent, const char *below) MUST_CHECK;
int agent_launch(struct agent *agent, const char *config) MUST_CHECK;
int agent_await_answer(struct agent *agent) MUST_CHECK;

/* agent_kill() sends SIGKILL, and agent_end() SIGTERM. They keep the agent's files for its next
 * start. */
void agent_kill(struct agent *agent);
void agent_end(struct agent *agent);

/* Sends SIGTERM, and SIGKILL if the agent has not ended 10 s later. Then removes the agent's
 * files. */
void agent_stop(struct agent *agent);

/* Finds the path of a program of Holdfast, which lies in the folder of the bench's own program. */
int agent_program(const char *name, char *path, size_t size) MUST_CHECK;

/* The memory of an agent, in bytes. */
struct agent_memory {
    double rss;     /* as the kernel counts it, with the shared pages of its regions */
    double pss;     /* as the kernel counts it */
    double own;     /* memory without a file and changed pages of files, its regions excluded */
    double regions; /* the pages of its regions that the agent has touched */
};

int agent_memory_read(const struct agent *agent, struct agent_memory *out) MUST_CHECK;

/* Reads the processor time of all of the agent's threads until now, in ns. *out_resolution_ns is
 * the step in which the kernel counts that time. */
int agent_cpu_ns(const struct agent *agent, int64_t *out, int64_t *out_resolution_ns) MUST_CHECK;

/* Counts how often the agent's threads have been put to sleep and woken until now. */
int agent_wakeups(const struct agent *agent, uint64_t *out) MUST_CHECK;

#endif
