/*
 * Reads the command lines of `holdfast lock` and `holdfast hold`.
 *
 * `hold` has options and one NAME. `lock` has two forms. With `--`, the names stand before `--` and
 * CMD behind it; options may stand anywhere before it. Without `--` the words must have the order
 * of flock(1), so that they have only one meaning: options, one NAME, and then either CMD, which
 * must not begin with a dash, or -c STRING.
 */
#ifndef HOLDFAST_CLI_LOCK_ARGUMENTS_H
#define HOLDFAST_CLI_LOCK_ARGUMENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli.h"

enum { LOCK_HINT_SIZE = 512 };

/* The value of a duration that the user did not give. */
static const int64_t lock_unset_ns = INT64_MIN;

struct lock_arguments {
    const char *where; /* the command word, "lock" or "hold" */
    bool shared;
    bool exclusive;
    bool no_wait;
    bool nested;
    bool json; /* a copy of cli->json */
    bool verbose;
    bool quiet;
    bool close;   /* -o of flock(1), which has no effect here */
    bool no_fork; /* -F of flock(1), which is refused */
    bool unlock;  /* -u of flock(1), which is refused */
    int64_t wait_ns;
    int64_t lease_ns;
    int64_t lock_delay_ns;
    int64_t max_stall_ns;
    int64_t kill_after_ns;
    int not_now_status;
    const char *note; /* the TEXT of --note; NULL: none */
    const char *line; /* the STRING of -c; NULL: none */
    char **names;     /* points into argv */
    size_t name_count;
    char **command;  /* CMD, NULL-terminated; NULL before lock_arguments_check() */
    bool has_dashes; /* the command line has a `--` */
    /* The end of the message that CMD could not be executed. It names the words that were taken as
     * names of locks, if these may have been meant as CMD; else it is empty */
    char hint[LOCK_HINT_SIZE];
    char *shell[4]; /* the words of the shell that runs `line`; `command` then points here */
};

/* Reads argv. Returns 0, or CLI_USAGE after a line on stderr. */
int lock_arguments_read(struct cli *cli, int argc, char **argv, struct lock_arguments *out)
    __attribute__((warn_unused_result));

/* Checks the arguments, and sets `command`. Returns 0, or CLI_USAGE after a line on stderr. */
int lock_arguments_check(const struct cli *cli, struct lock_arguments *arguments)
    __attribute__((warn_unused_result));

/* Reads and checks the command line of `hold`, whose NAME becomes names[0]. Returns 0, or CLI_USAGE
 * after a line about the error. With --help it checks no more than the options. */
int hold_arguments_read(struct cli *cli, int argc, char **argv, struct lock_arguments *out)
    __attribute__((warn_unused_result));

/* Looks at the value of -s before cli_connect(), which may wait for an agent. If the user seems to
 * have meant flock(1)'s -s, which takes a shared lock, this function writes a hint. Returns 0 if an
 * agent may still make this socket. Returns CLI_NO_AGENT if the value is certainly no socket, so
 * that a wait would be in vain; then the hint is the only line, and with --json it is the sentence
 * of cli->no_agent. */
int lock_arguments_hint(const struct cli *cli) __attribute__((warn_unused_result));

#endif
