/*
 * CMD's descendants, wherever they are: `timeout` and shells with job control put what they start
 * into process groups of their own, which signals to CMD's group do not reach.
 *
 * Who is whose child is read from /proc, all processes at each look, since not every kernel lists
 * children. A number may be another process's by the time that it is signalled. So each is opened
 * first (pidfd), and then its parent is looked at again. Where that cannot be done (no pidfds, a
 * /proc of other numbers than ours), nobody is signalled.
 */
#ifndef HOLDFAST_CLI_TREE_H
#define HOLDFAST_CLI_TREE_H

#include <stdbool.h>
#include <sys/types.h>

struct tree {
    pid_t root;   /* whose descendants, itself never: the caller, or a child that is not reaped */
    bool refused; /* one is another user's, who cannot be signalled */
};

/*
 * SIGTERM and SIGCONT, once, to all but CMD and its process group. What begins meanwhile is left
 * out: it may be what somebody who was told to end does about it. From the main thread, as below.
 */
void tree_terminate(struct tree *tree, pid_t group);

/* SIGKILL to all. True: one of them may not be dead yet, or have left others. */
bool tree_kill(struct tree *tree);

#endif
