/*
 * Work on the store of an agent that is stopped: starting over, a backup, and the recovery of the
 * cell (docs/PROTOCOL.md, "Recovery"). Each of these functions is called instead of
 * agent_prepare(), and agent_release() frees what they made. They return an AGENT_EXIT code, with
 * one line in agent->error if it is not AGENT_EXIT_OK.
 */
#ifndef AGENT_RUN_RECOVER_H
#define AGENT_RUN_RECOVER_H

#include <stdbool.h>

#include "agent.h"
#include "io/store.h"

/* Replaces this voter's store by an empty one that starts over (store_start_over()). kept
 * (STORE_KEPT_MAX bytes) receives the path of the replaced store. */
int agent_start_over(struct agent *agent, char *kept) __attribute__((warn_unused_result));
/* Undoes agent_start_over() (store_undo_start_over()). */
int agent_undo_start_over(struct agent *agent, char *kept) __attribute__((warn_unused_result));
/* Lets the cell begin anew with this store. Before that, explains on standard output what that
 * means, and asks for the cell's name. `cell` is the name that the operator gave; NULL: it is read
 * from the terminal. */
int agent_recover(struct agent *agent, const char *cell) __attribute__((warn_unused_result));

/* Writes a backup of the store to the path. Replaces a file there only if `force` is true. */
int agent_back_up(struct agent *agent, const char *path, bool force, struct store_copied *copied)
    __attribute__((warn_unused_result));

#endif
