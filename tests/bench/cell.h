/*
 * A cell of the bench's own: three agents, all voters, on the loopback. They speak TCP without TLS
 * on free ports, and each has its own store on the measured disk.
 */
#ifndef BENCH_CELL_H
#define BENCH_CELL_H

#include <holdfast/holdfast.h>

#include "agent.h"
#include "measure.h"

enum { CELL_HOSTS = 3, CELL_PORTS, CELL_NAME_SIZE = 48, CELL_CONFIG_MAX = 640 };

struct cell {
    struct agent agents[CELL_HOSTS];
    unsigned ports[CELL_PORTS]; /* the last port is for an agent that a bench adds later */
    const char *ttl;
    uint64_t names_used;
};

/* Starts the cell. Returns when every host can take locks of every coordinator, and the partitions
 * have had time to go to their preferred coordinators. ttl is a static text. Call cell_stop() after
 * a failure, too. */
int cell_start(struct cell *cell, const char *below, const char *ttl) MUST_CHECK;
/* Two steps of cell_start(): cell_launch() starts one agent, and cell_await() waits for the
 * cell. */
int cell_launch(struct cell *cell, uint32_t host) MUST_CHECK;
int cell_await(struct cell *cell) MUST_CHECK;
void cell_stop(struct cell *cell);

/* Connects to a host's agent. Returns NULL after complain(). */
hf_client *cell_connect(const struct cell *cell, uint32_t host);

/* Returns the host that coordinates a name while all hosts are alive. */
uint32_t cell_coordinator(const char *name);
/* Makes a name that was never used in this cell, and that the given host coordinates. */
void cell_new_name(struct cell *cell, uint32_t coordinator, char name[CELL_NAME_SIZE]);

/* Opens and acquires the lock; the caller releases and closes it. Returns NULL after complain(). */
hf_lock *cell_take(hf_client *client, const char *name);

/* An agent's messages and costs since its start. */
struct cell_traffic {
    uint64_t packets;
    uint64_t bytes;
    uint64_t renewals;   /* RENEW and its answers */
    uint64_t background; /* heartbeats, gossip, catch-up, hellos: messages that no lock causes */
    uint64_t for_locks;  /* all other messages */
    uint64_t commits;
    uint64_t token_ranges; /* token ranges that the coordinators leased to the host */
    uint64_t wakeups;      /* the wake-ups of the agent's threads */
    int64_t cpu_ns;        /* the agent's processor time */
};

/* Reads the traffic of one agent, or the sum of all agents. */
int cell_read_traffic(const struct cell *cell, uint32_t host, struct cell_traffic *out) MUST_CHECK;
int cell_traffic_sum(const struct cell *cell, struct cell_traffic *out) MUST_CHECK;

#endif
