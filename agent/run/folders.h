/*
 * The folders of an agent, and the locks that keep a second agent out of them.
 *
 * The agent writes nothing in a folder before it has locked the folder. The locks are released
 * last, when everything else is closed.
 */
#ifndef AGENT_RUN_FOLDERS_H
#define AGENT_RUN_FOLDERS_H

#include "agent.h"

struct folders_locks {
    int state_fd;  /* the lock of state_dir */
    int socket_fd; /* the lock of the socket */
};

/* Sets all descriptors to -1: nothing is open. */
void folders_init(struct agent *agent, struct folders_locks *locks);
/* Opens and locks the folders, and sets state_fd and clients_fd of the agent. Returns
 * AGENT_EXIT_OK, or an exit code with one line in agent->error. */
int folders_open(struct agent *agent, struct folders_locks *locks)
    __attribute__((warn_unused_result));
void folders_close(struct agent *agent, struct folders_locks *locks);

/* Takes the lock beside the socket. Returns its descriptor, or -1 with one line in agent->error. A
 * second call is allowed only if somebody removed the lock's file. */
int folders_lock_socket(struct agent *agent) __attribute__((warn_unused_result));

/* For --check-config: checks the folders that exist, and changes nothing. Returns false, with one
 * line in agent->error, if an agent of any user would refuse one of them at its start. It needs
 * only agent->config, and sets agent->own. */
bool folders_check(struct agent *agent) __attribute__((warn_unused_result));

#endif
