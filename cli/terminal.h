/*
 * The terminal that CMD may need. CMD runs in a process group of its own, so that the whole group
 * can be signalled. But a terminal sends keys only to its foreground group. If holdfast was in the
 * foreground with both stdin and stdout on the terminal, CMD's group gets the foreground from the
 * start. In a pipeline (`holdfast lock x -- make | less`) CMD's group gets it when CMD uses the
 * terminal: the kernel then stops CMD with SIGTTIN or SIGTTOU.
 *
 * The caller must block SIGTTOU, so that tcsetpgrp() works from the background.
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

/* Closes the terminal. If CMD's group has the foreground, holdfast's group gets it back. */
void terminal_close(struct terminal *terminal, pid_t group);

/* Returns whether holdfast's own process group is in the foreground. */
bool terminal_is_ours(const struct terminal *terminal);

/* Gives the foreground to a group, if holdfast's group has it. Returns true if the group has it
 * now. */
bool terminal_give(const struct terminal *terminal, pid_t group);

/* Takes the foreground back, if the group has it. */
void terminal_take_back(const struct terminal *terminal, pid_t group);

#endif
