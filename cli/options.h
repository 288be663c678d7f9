/*
 * The command line, word by word: options with their values, names, durations. Written by hand
 * instead of with getopt, so that every error is one line that says what, where, and what was
 * expected.
 *
 * An option is `--name VALUE`, `--name=VALUE`, `-x VALUE` or `-xVALUE`. Options and plain words may
 * be mixed; `--` ends the options.
 */
#ifndef HOLDFAST_CLI_OPTIONS_H
#define HOLDFAST_CLI_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli.h"

enum option_kind {
    OPTION_FLAG,     /* no value; bool: set to true */
    OPTION_TEXT,     /* const char *: borrowed from argv */
    OPTION_DURATION, /* int64_t: nanoseconds */
    OPTION_STATUS,   /* int: an exit status, 0 to 255 */
};

struct option_spec {
    const char *name; /* without the dashes */
    char letter;      /* '\0': none */
    enum option_kind kind;
    void *value; /* where it goes; its type follows from kind */
};

/* The words of a command line that are no options. Both arrays point into argv. */
struct words {
    char **plain;
    size_t plain_count;
    char **after; /* the words after `--`; NULL: there was none */
    size_t after_count;
};

/*
 * Reads all of argv: the options of `specs` and those that every command has (into cli). The plain
 * words are moved to the front of argv. Returns 0 or, with a line on stderr, CLI_USAGE.
 */
int options_parse(struct cli *cli, const char *where, const struct option_spec *specs,
                  size_t spec_count, int argc, char **argv, struct words *out)
    __attribute__((warn_unused_result));

/*
 * Reads the options that stand before the command word; *index is moved to the first word that is
 * none. Returns 0 or CLI_USAGE.
 */
int options_parse_leading(struct cli *cli, int argc, char **argv, int *index)
    __attribute__((warn_unused_result));

enum duration_result {
    DURATION_GOOD,
    DURATION_NONE,      /* the text is no duration */
    DURATION_TOO_LARGE, /* for an int64_t of nanoseconds */
};

/* "90s" to nanoseconds: a decimal integer and ms, s, m or h. */
enum duration_result duration_parse(const char *text, int64_t *out_ns)
    __attribute__((warn_unused_result));

/* Checks a lock name. 0, or CLI_USAGE with a line on stderr. */
int name_check(const char *where, const char *name) __attribute__((warn_unused_result));

/* Checks a prefix of lock names: as a name, but it may be empty. */
int prefix_check(const char *where, const char *prefix) __attribute__((warn_unused_result));

/*
 * For commands that take plain words only: joins what stands after `--` to them and checks their
 * number. Returns 0 or CLI_USAGE; expected is for the message, for example "one NAME".
 */
int words_expect(const char *where, struct words *words, size_t least, size_t most,
                 const char *expected) __attribute__((warn_unused_result));

#endif
