/*
 * The clients: the process of each, and its record for the next agent.
 *
 * Invariants:
 * - A client that the host core knows has a record in state_dir/clients, from before it is welcomed
 *   until it is forgotten.
 * - A client has at most one process. A client whose process has ended has none.
 */
#ifndef AGENT_SERVE_CLIENTS_H
#define AGENT_SERVE_CLIENTS_H

#include "agent.h"
#include "io/peer.h"

enum { CLIENT_IDS = HFI_HOLDER_MAX + 1 };

/* A client that the host core knows: connected, disconnected, or left by the previous agent.
 * serve.c writes connection, processes.c writes next and process, and clients.c writes all other
 * fields. */
struct agent_client {
    struct agent *agent;
    struct agent_client *next; /* the next client of the same process */
    struct process *process;   /* NULL: the process cannot be seen from here, or has ended */
    struct peer_process is;
    uint64_t nonce;
    uint32_t id;         /* the client's first holder id */
    uint32_t connection; /* 0: none */
    pid_t pid;           /* 0: the process has no pid in this agent's pid namespace */
    uid_t uid;
    bool unproven; /* from the previous agent; this agent cannot know whether the client's process
                    * lives */
    bool dead;     /* the host core has received HOST_DIED */
};

/* Returns false if there is no memory. */
bool clients_create(struct agent *agent) __attribute__((warn_unused_result));
void clients_destroy(struct agent *agent);
/* Returns NULL if no client has that id. */
struct agent_client *clients_find(const struct agent *agent, uint32_t id);

/* If the previous session goes on, loads its clients into the host core. On failure returns false
 * with agent->error. */
bool clients_load(struct agent *agent) __attribute__((warn_unused_result));
/* Removes the records of clients that the agent does not know. Called after the start. */
void clients_remove_records(struct agent *agent);
/* Returns whether the process is that of the client whose id and nonce are in the HELLO. */
bool clients_resumes(const struct agent *agent, const struct hfi_hello *hello,
                     const struct peer *peer, const struct process *process);
/* Makes the client and its record. If the client has come back, gives it the process that connected
 * instead. Called when the host core has admitted the client (HOST_WELCOMED). Returns NULL, with
 * errno, on failure. */
struct agent_client *clients_welcome(struct agent *agent, const struct host_action *action,
                                     const struct peer *peer, struct process *process);
void clients_forget(struct agent *agent, uint32_t id);
/* Reports to the host core that the client's process has ended. Must not be called while an action
 * is carried out. */
void clients_died(struct agent_client *client, const char *how);
/* Frees all clients. */
void clients_close(struct agent *agent);
/* For display: how many clients are connected. */
uint32_t clients_with_connection(const struct agent *agent);
/* For display: how many clients the previous agent left, and how many of these are unproven (the
 * agent cannot know whether they live). clients_next_unproven() returns the unproven client with
 * the lowest id above `after`; NULL if there is none. */
uint32_t clients_survivors(const struct agent *agent);
uint32_t clients_unproven(const struct agent *agent);
const struct agent_client *clients_next_unproven(const struct agent *agent, uint32_t after);

#endif
