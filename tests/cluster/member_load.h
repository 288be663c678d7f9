/*
 * Processes on several hosts that take one lock by turns while the voters of the cell change. Each
 * checks that it holds alone, that tokens rise, and that it loses no hold. A failure ends that
 * process, and member_load_end() reports it.
 */
#ifndef TESTS_CLUSTER_MEMBER_LOAD_H
#define TESTS_CLUSTER_MEMBER_LOAD_H

#include "agent_process.h"

enum { MEMBER_HOSTS_MAX = 8 };

/* Starts a process for each host in `hosts`, a bit for each index in `agents`. */
void member_load_start(const struct agent_process *agents, unsigned hosts);
/* Waits until each process has taken the lock three more times. */
void member_load_await(void);
void member_load_end(void);

#endif
