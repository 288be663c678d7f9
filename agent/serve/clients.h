/*
 * The clients: the process of each, and its record for the next agent.
 *
 * Invariants: a client that the host core knows has a record in state_dir/clients from before it
 * was welcomed until it is forgotten. A client has at most one process, and one whose process has
 * ended has none.
 */
#ifndef AGENT_SERVE_CLIENTS_H
#define AGENT_SERVE_CLIENTS_H

#include "agent.h"
#include "io/peer.h"

enum { CLIENT_IDS = HFI_HOLDER_MAX + 1 };

/* A client that the host core knows: connected, disconnected, or left by the previous agent.
 * serve.c writes connection, processes.c writes next and process, and clients.c writes the rest. */
struct agent_client {
    struct agent *agent;
    struct agent_client *next; /* the next client of the same process */
    struct process *process;   /* NULL: the process cannot be seen from here, or has ended */
    struct peer_process is;
    uint64_t nonce;
    uint32_t id;         /* its first holder id */
    uint32_t connection; /* 0: none */
    pid_t pid;           /* 0: the process has no number that this agent sees */
    uid_t uid;
    bool unproven; /* it is from before this agent, which cannot know whether its process lives */
    bool dead;     /* the host core has received HOST_DIED */
};

/* Returns false if there is no memory. */
bool clients_create(struct agent *agent) __attribute__((warn_unused_result));
void clients_destroy(struct agent *agent);
/* Returns NULL if no client has that id. */
struct agent_client *clients_find(const struct agent *agent, uint32_t id);

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
/* Frees all clients. */
void clients_close(struct agent *agent);
/* For display: how many clients are connected. */
uint32_t clients_with_connection(const struct agent *agent);
/* For display: how many clients the previous agent left; for how many of them this agent does not
 * know whether they live; and the one of the latter with the lowest id above `after`, or NULL. */
uint32_t clients_survivors(const struct agent *agent);
uint32_t clients_unproven(const struct agent *agent);
const struct agent_client *clients_next_unproven(const struct agent *agent, uint32_t after);

#endif
