/*
 * The folders of an agent, and the locks that keep a second agent out of them.
 */
#ifndef AGENT_RUN_FOLDERS_H
#define AGENT_RUN_FOLDERS_H

#include "agent.h"

/* Opens and locks them. AGENT_EXIT_OK, or the exit code, and agent->error is one line. */
int folders_open(struct agent *agent) __attribute__((warn_unused_result));

/* For --check-config: looks at those that are there already, changes nothing. false: a start would
 * refuse one, by whichever user; agent->error is one line. Uses agent->config alone. */
bool folders_check(struct agent *agent) __attribute__((warn_unused_result));

#endif
