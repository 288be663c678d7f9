/*
 * The clients: the process of each, and its record for the next agent.
 */
#ifndef AGENT_SERVE_CLIENTS_H
#define AGENT_SERVE_CLIENTS_H

#include "agent.h"

/* Loads the clients of the previous agent into the host core, if the session goes on. On failure
 * returns false with agent->error. */
bool clients_load(struct agent *agent) __attribute__((warn_unused_result));
/* After the start: removes the records of clients that the agent does not know. */
void clients_remove_records(struct agent *agent);
/* Returns whether that process is the client whose id and nonce its HELLO names. */
bool clients_resumes(const struct agent *agent, const struct hfi_hello *hello,
                     const struct peer *peer, const struct process *process);
/* The host core admitted the client (HOST_WELCOMED). Returns NULL, with errno, if its record could
 * not be written. */
struct agent_client *clients_welcome(struct agent *agent, const struct host_action *action,
                                     const struct peer *peer, struct process *process);
void clients_forget(struct agent *agent, uint32_t id);
/* The client's process has ended. Must not be called while an action is carried out. */
void clients_died(struct agent_client *client, const char *how);
void clients_close(struct agent *agent);

#endif
