/*
 * The terminal that CMD may need. CMD runs in a process group of its own, so that the whole group
 * can be signalled; a terminal reads keys for one group only, its foreground. If holdfast was in
 * the foreground with both stdin and stdout on the terminal, CMD's group gets it from the start;
 * in a pipeline (`holdfast lock x -- make | less`) it gets it when it asks, which the kernel
 * shows by stopping it with SIGTTIN or SIGTTOU.
 *
 * The caller blocks SIGTTOU: tcsetpgrp() from the background is then allowed.
 */
#ifndef HOLDFAST_CLI_TERMINAL_H
#define HOLDFAST_CLI_TERMINAL_H

#include <stdbool.h>
#include <sys/types.h>

struct terminal {
    int fd;          /* the controlling terminal; -1: there is none */
    bool from_start; /* CMD begins in the foreground */
};

void terminal_open(struct terminal *terminal);

/* Closes it; CMD's group loses the foreground, if it has it, to holdfast's group. */
void terminal_close(struct terminal *terminal, pid_t group);

/* True if holdfast's own process group is in the foreground. */
bool terminal_is_ours(const struct terminal *terminal);

/* Gives the foreground to a group, if it is ours. True: the group has it now. */
bool terminal_give(const struct terminal *terminal, pid_t group);

/* Takes the foreground back, if the group has it. */
void terminal_take_back(const struct terminal *terminal, pid_t group);

#endif
