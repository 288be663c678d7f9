/*
 * CMD's descendants, wherever they are: `timeout` and shells with job control put what they start
 * into process groups of their own, which signals to CMD's group do not reach.
 *
 * Who is whose child is read from /proc, all processes at each look, since not every kernel lists
 * children. A number may be another process's by the time that it is used. So a process is known
 * by its number and the time at which it began, and it is opened (pidfd) and looked at again
 * before it is believed to be a child of who is its parent, and before each signal. CMD's own
 * number is nobody else's: the caller does not reap CMD.
 *
 * Who was found once stays known when its parent dies. Where that cannot be done (no pidfds, a
 * /proc of other numbers than ours), nobody is found.
 */
#ifndef HOLDFAST_CLI_TREE_H
#define HOLDFAST_CLI_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct tree {
    pid_t command; /* CMD and its process group; ended perhaps, but not reaped. 0: it is reaped */
    bool adopts;   /* all children that the caller has are CMD, and orphans of it */
    size_t count;  /* who was found by the last look, and lived */
    bool more;     /* somebody whom no look before had found: he may have started others */
    bool stopped;  /* all who were found were, so that they start nobody */
    bool refused;  /* one is another user's, who cannot be signalled */
};

/* Looks once for who is in CMD's process group, or descends from CMD or from who was found before;
 * CMD is not counted. Reaps the caller's children among them. One tree in a process; from the main
 * thread, as below. */
void tree_look(struct tree *tree);

/* Signals who was found. elsewhere: none of those that are in CMD's process group. */
void tree_signal(struct tree *tree, int signal_number, bool elsewhere);

#endif
