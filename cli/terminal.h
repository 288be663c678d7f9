/*
 * CMD may need the terminal. CMD runs in a process group of its own, so that holdfast can signal
 * the whole group. But only the foreground group of a terminal can read it and gets its signals. If
 * holdfast was in the foreground with both stdin and stdout on the terminal, CMD's group gets the
 * foreground from the start. Otherwise, as in a pipeline (`holdfast lock x -- make | less`), the
 * kernel stops CMD with SIGTTIN or SIGTTOU when CMD uses the terminal, and holdfast gives CMD's
 * group the foreground only then.
 *
 * The caller must block SIGTTOU, so that tcsetpgrp() works from the background.
 */
#ifndef HOLDFAST_CLI_TERMINAL_H
#define HOLDFAST_CLI_TERMINAL_H

#include <stdbool.h>
#include <sys/types.h>

struct terminal {
    int fd;          /* the controlling terminal; -1: there is none */
    bool from_start; /* CMD's group gets the foreground before CMD runs */
};

void terminal_open(struct terminal *terminal);

/* Closes the terminal. If CMD's group has the foreground, gives it back to holdfast's group
 * first. */
void terminal_close(struct terminal *terminal, pid_t group);

/* If holdfast's group has the foreground, gives it to `group`. Returns true if `group` has the
 * foreground now. */
bool terminal_give(const struct terminal *terminal, pid_t group);

/* If `group` has the foreground, gives it back to holdfast's group. */
void terminal_take_back(const struct terminal *terminal, pid_t group);

#endif
