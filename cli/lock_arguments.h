/*
 * The words of `holdfast lock`.
 *
 * With a `--`, the names stand before it and CMD behind it. Options may stand anywhere before it.
 * Without one, a call is understood only if it can mean one thing, in the order of flock(1):
 * options, one NAME, and then CMD, which begins with no dash; or one NAME with -c STRING.
 */
#ifndef HOLDFAST_CLI_LOCK_ARGUMENTS_H
#define HOLDFAST_CLI_LOCK_ARGUMENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli.h"

/* A duration that was not given. */
static const int64_t lock_unset_ns = INT64_MIN;

struct lock_arguments {
    bool shared;
    bool exclusive;
    bool no_wait;
    bool nested;
    bool json; /* of cli */
    bool verbose;
    bool quiet;
    bool close; /* -o of flock(1), which has no meaning here */
    int64_t wait_ns;
    int64_t lease_ns;
    int64_t lock_delay_ns;
    int64_t max_stall_ns;
    int64_t kill_after_ns;
    int not_now_status;
    const char *line; /* -c; NULL: none */
    char **names;     /* points into argv */
    size_t name_count;
    char **command;  /* CMD, NULL-terminated; NULL: there is none yet */
    bool has_dashes; /* there was a `--` */
    char *shell[4];  /* what command points to if there is a line */
};

/* Reads argv. Returns 0 or, with a line on stderr, CLI_USAGE. */
int lock_arguments_read(struct cli *cli, int argc, char **argv, struct lock_arguments *out)
    __attribute__((warn_unused_result));

/* Checks what was read, and sets command. As above. */
int lock_arguments_check(const struct cli *cli, struct lock_arguments *arguments)
    __attribute__((warn_unused_result));

/* Adds a line on stderr if -s seems to have been meant as that of flock(1). */
void lock_arguments_hint(const struct cli *cli);

#endif
