/*
 * A cell of real agents, each on a host of its own (network.h). Host 0 is host-a, host 1 is host-b,
 * and so on. session_ttl and grace_period are one second, if cell_options has no other values. A
 * failure in these functions ends the caller (require.h).
 */
#ifndef TESTS_CLUSTER_CELL_H
#define TESTS_CLUSTER_CELL_H

#include "agent_process.h"
#include "network.h"

#include <check.h>

enum { CELL_TTL_MS = 1000, CELL_GRACE_MS = 1000, CELL_PORT = 7411 };

/* The agents' configuration. A test changes it before cell_make(). */
struct cell_options {
    unsigned ttl_ms;
    unsigned grace_ms;
    const char *sections; /* more sections for the configuration; NULL: none */
    const char *tls;      /* the folder of cell_certify(); NULL: no TLS */
};
extern struct cell_options cell_options;

/* Makes a certificate authority in that folder, and a certificate for each host that a cell may
 * have. */
void cell_certify(const char *folder);

struct cell {
    struct network network;
    unsigned hosts;
    unsigned voters; /* how many hosts are voters: the first hosts; the others are observers */
    struct agent_process agents[NETWORK_HOSTS_MAX];
    unsigned ports[NETWORK_HOSTS_MAX];
};

/* Makes the hosts and starts their agents. Returns when all agents take connections. */
void cell_start(struct cell *cell, unsigned voters, unsigned observers);
/* cell_start() in two steps, so that the test can change the hosts in between. */
void cell_make(struct cell *cell, unsigned voters, unsigned observers);
void cell_launch(struct cell *cell);
/* Waits until all agents that were launched take connections. */
void cell_await(struct cell *cell);
/* Returns the address at which other agents reach that host's agent, in the form that a
 * configuration uses. The result is in a static buffer. */
const char *cell_address(const struct cell *cell, unsigned host);
/* Writes another port into the configuration of a host, whose agent uses it from its next start
 * on. */
void cell_move(struct cell *cell, unsigned host, unsigned port);
/* Ends the cell, and removes its hosts and folders. */
void cell_stop(struct cell *cell);

/* Kills all agents at once (SIGKILL). */
void cell_kill_all(struct cell *cell);
/* Kills one agent (SIGKILL), and starts it again. */
void cell_restart(struct cell *cell, unsigned host);

/* cell_pause() stops a host's agent with SIGSTOP; cell_continue() continues it. */
void cell_pause(struct cell *cell, unsigned host);
void cell_continue(struct cell *cell, unsigned host);

/* Returns the host that coordinates the lock, as the agent of host `looker` reports it. Waits until
 * the reported host is a voter whose agent runs. */
unsigned cell_coordinator(struct cell *cell, unsigned looker, const char *lock);

/* Waits until the log of a host's agent has that text. */
void cell_await_logged(struct cell *cell, unsigned host, const char *text);

/* Returns the path, in a static buffer, of a file in the state folder of a host's agent. The test
 * can use the path, even if the host has another file system mounted there. */
const char *cell_state_path(const struct cell *cell, unsigned host, const char *file);

/* The main() of a test program on cells. It skips the tests where namespaces are missing. */
int cell_main(const char *name, TCase *tests);

#endif
