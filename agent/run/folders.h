/*
 * The folders of an agent, and the locks that keep a second agent out of them.
 */
#ifndef AGENT_RUN_FOLDERS_H
#define AGENT_RUN_FOLDERS_H

#include "agent.h"

/* Opens and locks the folders. Returns AGENT_EXIT_OK, or the exit code with one line in
 * agent->error. */
int folders_open(struct agent *agent) __attribute__((warn_unused_result));

/* Takes the lock beside the socket: a descriptor, or -1 with one line in agent->error. To be called
 * again only if somebody removed the lock's file. */
int folders_lock_socket(struct agent *agent) __attribute__((warn_unused_result));

/* For --check-config: checks the folders that exist, and changes nothing. Returns false, with one
 * line in agent->error, if a start by any user would refuse one. Uses agent->config alone. */
bool folders_check(struct agent *agent) __attribute__((warn_unused_result));

#endif
