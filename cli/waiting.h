/*
 * Says, while `holdfast lock` waits, why it waits.
 *
 * A thread asks the library (hf_why) beside the wait, because hf_acquire() does not return before
 * it has the lock. The agent may take seconds to answer, or not answer at all. So nothing ever
 * waits for that answer. When the wait is over, the thread writes no further line. If it is still
 * asking when holdfast ends, it is left to the end of the process, with what it uses.
 */
#ifndef HOLDFAST_CLI_WAITING_H
#define HOLDFAST_CLI_WAITING_H

#include <stdbool.h>

#include "environment.h"

enum waiting_lines {
    WAITING_ONE = 0, /* one line, after 1 s */
    WAITING_NONE,    /* -q */
    WAITING_ALL,     /* -v: a line at once, and one at each change */
};

struct waiting;

/* Begins. Returns NULL if there are to be no lines, or if there is no memory or thread for them.
 * The thread uses the client, the locks and the names of `held`, but not `held` itself. */
struct waiting *waiting_begin(const struct held *held, enum waiting_lines lines, bool json);

/* The wait is over: there is no further line when this returns. Does not wait for an answer of the
 * agent. waiting: may be NULL. */
void waiting_end(struct waiting *waiting);

/* Frees what waiting_begin() made, after waiting_end(). Returns false if the thread is still asking
 * the agent: the client, the locks and the names must then stay until the process ends. */
bool waiting_close(struct waiting *waiting) __attribute__((warn_unused_result));

#endif
