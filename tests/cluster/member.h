/*
 * `holdfast member`, which a test runs against one of its agents. A failure in these functions ends
 * the caller (require.h).
 */
#ifndef TESTS_CLUSTER_MEMBER_H
#define TESTS_CLUSTER_MEMBER_H

#include "actor.h"
#include "agent_process.h"

#include <stdio.h>

/* The output of the command that ended last: standard output and standard error. */
extern char member_said[4096];

/* Starts the command with these words. The command runs while the test goes on. */
FILE *member_begin(const struct agent_process *agent, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Waits for the command's end. Returns its exit status. */
int member_end(FILE *command);
/* Returns whether member_end() would return soon: the command has closed its outputs. */
bool member_has_ended(FILE *command);

/* Runs the command. Returns its exit status. */
int member_run(const struct agent_process *agent, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Waits until the agent lists exactly these voters, all of them up. voters: a bit for each host
 * of a cell (cell.h). */
void member_await_voters(const struct agent_process *agent, unsigned voters);
/* Waits until the agent's list of voters, or its log, contains the text. */
void member_await_listed(const struct agent_process *agent, const char *text);
void member_await_logged(const struct agent_process *agent, const char *text);
/* Waits until the agent's log contains the text more than that many times. */
void member_await_logged_more(const struct agent_process *agent, const char *text, unsigned times);

/* Restarts the agent beside an actor that holds lock 0 and keeps its hold. If the machine is so
 * slow that the session ends meanwhile, the actor takes the lock anew, and the agent is restarted
 * once more. */
void member_restart_beside(struct agent_process *agent, struct actor *holder, unsigned grace_ms);

#endif
