/*
 * The clients: which process each one is, and its record for the next agent.
 */
#ifndef AGENT_SERVE_CLIENTS_H
#define AGENT_SERVE_CLIENTS_H

#include "agent.h"

/* Announces to the host core whoever is left of the agent before; what may stay in folder clients
 * if the session does not go on is removed. false: agent->error. */
bool clients_load(struct agent *agent) __attribute__((warn_unused_result));
/* Removes the records of the dead, after the start. */
void clients_sweep(struct agent *agent);
/* Whether that process is the client that its HELLO says it was. */
bool clients_resumes(const struct agent *agent, const struct hfi_hello *hello,
                     const struct peer *peer, const struct process *process);
/* The host core let it in (HOST_WELCOMED). NULL: it could not be noted, errno says why. */
struct client *clients_welcome(struct agent *agent, const struct host_action *action,
                               const struct peer *peer, struct process *process);
void clients_forget(struct agent *agent, uint32_t id);
/* Its process has ended. Not within an action. */
void clients_died(struct client *client, const char *how);
void clients_close(struct agent *agent);

#endif
