/*
 * A cell of the bench's own: three agents, all voters, on this machine's loopback, tcp without TLS,
 * each with a store of its own on the measured disk, and with free ports.
 */
#ifndef BENCH_CELL_H
#define BENCH_CELL_H

#include <holdfast/holdfast.h>

#include "agent.h"
#include "measure.h"

enum { CELL_HOSTS = 3, CELL_NAME_SIZE = 48, CELL_CONFIG_MAX = 640 };

struct cell {
    struct agent agents[CELL_HOSTS];
    unsigned ports[CELL_HOSTS];
    const char *ttl;
    uint64_t names_used;
};

/* Starts it and returns when each agent's session is safe and every partition of the lock names has
 * its preferred coordinator. Call cell_stop() after a failure, too. ttl: static. */
int cell_start(struct cell *cell, const char *below, const char *ttl) MUST_CHECK;
/* cell_start() in three steps: directories and ports; the agents; waiting. */
int cell_prepare(struct cell *cell, const char *below, const char *ttl) MUST_CHECK;
int cell_launch(struct cell *cell, uint32_t host) MUST_CHECK;
int cell_await(struct cell *cell) MUST_CHECK;
void cell_stop(struct cell *cell);

/* Returns NULL after complain(). */
hf_client *cell_connect(const struct cell *cell, uint32_t host);

/* Returns the host that coordinates a name while all hosts are alive. */
uint32_t cell_coordinator(const char *name);
/* Makes a name that this cell never saw and that the given host coordinates. */
void cell_new_name(struct cell *cell, uint32_t coordinator, char name[CELL_NAME_SIZE]);

/* Opens and acquires; the caller releases and closes. Returns NULL after complain(). */
hf_lock *cell_take(hf_client *client, const char *name);

/* The messages that an agent has sent, and the resources that it has used, so far. */
struct cell_traffic {
    uint64_t packets;
    uint64_t bytes;
    uint64_t renewals;   /* RENEW and its answers */
    uint64_t background; /* heartbeats, gossip, pulls, hellos: messages without any lock */
    uint64_t for_locks;  /* all other messages */
    uint64_t commits;
    uint64_t token_ranges; /* ranges that were leased to the host */
    uint64_t wakeups;      /* of its threads */
    int64_t cpu_ns;        /* its processor time */
};

/* Reads the traffic of one agent, or of all together. */
int cell_read_traffic(const struct cell *cell, uint32_t host, struct cell_traffic *out) MUST_CHECK;
int cell_traffic_sum(const struct cell *cell, struct cell_traffic *out) MUST_CHECK;

#endif
