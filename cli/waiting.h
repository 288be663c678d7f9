/*
 * Reports why `holdfast lock` or `hold` waits, while it waits.
 *
 * A second thread calls hf_why(), because the main thread waits for the lock and for signals.
 * The agent may take seconds to answer, or may not answer at all. So the main thread never waits
 * for the second thread. When the wait is over, the second thread writes no further line. If the
 * second thread is still in hf_why() when the command is over, the client, the locks and the names
 * must stay until the process ends.
 */
#ifndef HOLDFAST_CLI_WAITING_H
#define HOLDFAST_CLI_WAITING_H

#include <stdbool.h>

#include "environment.h"

enum waiting_lines {
    WAITING_ONE = 0, /* one line, after a wait of 1 s */
    WAITING_NONE,    /* -q */
    WAITING_ALL,     /* -v: a line at once, and a line at each change of the reason */
};

struct waiting;

/* Starts the thread. Returns NULL if `lines` is WAITING_NONE, or if there is no memory or no
 * thread. The thread uses the client, the locks and the names of `held`, but not `held` itself. */
struct waiting *waiting_begin(const struct held *held, enum waiting_lines lines, bool json);

/* Ends the reports: the thread writes no line after the return of this call. To be called when the
 * wait is over. Does not wait for the agent's answer. waiting may be NULL. */
void waiting_end(struct waiting *waiting);

/* To be called after waiting_end(). If the thread is not asking the agent, joins it, frees
 * `*waiting` and sets it to NULL. Returns whether it is NULL now. */
bool waiting_join(struct waiting **waiting);

/* To be called after waiting_end(). Frees `waiting`. Returns false if the thread is still asking
 * the agent. In that case the client, the locks and the names must stay until the process ends. */
bool waiting_close(struct waiting *waiting) __attribute__((warn_unused_result));

#endif
