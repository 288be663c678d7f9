/*
 * A cell of real agents, each on a host of its own (network.h). Host 0 is host-a, host 1 is host-b,
 * and so on. session_ttl and grace_period are one second, unless cell_options says otherwise. A
 * failure here ends the caller (require.h).
 */
#ifndef TESTS_CLUSTER_CELL_H
#define TESTS_CLUSTER_CELL_H

#include "agent_process.h"
#include "network.h"

#include <check.h>

enum { CELL_TTL_MS = 1000, CELL_GRACE_MS = 1000 };

/* The agents' configuration; to be changed before cell_make(). */
struct cell_options {
    unsigned ttl_ms;
    unsigned grace_ms;
    const char *sections; /* more sections for the configuration; NULL: none */
    const char *tls;      /* the folder of cell_certify(); NULL: no TLS */
};
extern struct cell_options cell_options;

/* Makes a CA in that folder, and a certificate for each possible host. */
void cell_certify(const char *folder);

struct cell {
    struct network network;
    unsigned hosts;
    unsigned voters; /* the first hosts are voters, the others observers */
    struct agent_process agents[NETWORK_HOSTS_MAX];
};

/* Makes hosts and starts their agents; returns when all take connections. */
void cell_start(struct cell *cell, unsigned voters, unsigned observers);
/* cell_start() in two steps, so that the test can change the hosts in between. */
void cell_make(struct cell *cell, unsigned voters, unsigned observers);
void cell_launch(struct cell *cell);
/* Waits until all agents that were launched take connections. */
void cell_await(struct cell *cell);
/* Ends the cell, and leaves nothing behind. */
void cell_stop(struct cell *cell);

/* Kills all agents at once (SIGKILL), and starts them again. */
void cell_kill_all(struct cell *cell);
/* Kills one agent (SIGKILL), and starts it again. */
void cell_restart(struct cell *cell, unsigned host);

/* Stops a host's agent, and continues it. */
void cell_pause(struct cell *cell, unsigned host);
void cell_continue(struct cell *cell, unsigned host);

/* Returns the host that coordinates the lock, as `looker` knows it. Waits until that is a host
 * whose agent runs. */
unsigned cell_coordinator(struct cell *cell, unsigned looker, const char *lock);

/* Waits until the log of a host's agent has that text. */
void cell_await_logged(struct cell *cell, unsigned host, const char *text);

/* Returns the path of a file in the state folder of a host's agent, as the test sees it, whatever
 * is mounted there on the host. Static buffer. */
const char *cell_state_path(const struct cell *cell, unsigned host, const char *file);

/* The main() of a test program on cells. It needs namespaces, and runs each test with a cell of its
 * own. */
int cell_main(const char *name, TCase *tests);

#endif
