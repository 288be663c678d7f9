/*
 * Reads the command line word by word: options with their values, names, durations. It does not use
 * getopt(), so that every error is one line that says what was found, where, and what was expected.
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
    OPTION_LIST,     /* struct option_list: may be given several times */
    OPTION_DURATION, /* int64_t: nanoseconds */
    OPTION_SECONDS,  /* int64_t: nanoseconds, from a decimal number of seconds */
    OPTION_STATUS,   /* int: an exit status, 0 to 255 */
    OPTION_COUNT,    /* int64_t: a whole number, 1 to 1,000,000,000 */
};

enum { OPTION_LIST_MAX = 64 };

struct option_list {
    size_t count;
    const char *items[OPTION_LIST_MAX]; /* borrowed from argv */
};

struct option_spec {
    const char *name; /* without the dashes */
    char letter;      /* '\0': none */
    enum option_kind kind;
    void *value; /* where to store the value; `kind` determines its type */
};

/* The words of a command line that are not options. Both arrays point into argv. */
struct arguments {
    char **plain;
    size_t plain_count;
    char **after; /* the words after `--`; NULL: there is no `--` */
    size_t after_count;
};

/*
 * Reads all of argv: the options of `specs`, and the common options, which it stores in *cli. Moves
 * the plain words to the front of argv. Returns 0, or CLI_USAGE after a line on stderr.
 */
int options_parse(struct cli *cli, const char *where, const struct option_spec *specs,
                  size_t spec_count, int argc, char **argv, struct arguments *out)
    __attribute__((warn_unused_result));

/*
 * Like options_parse(), but reads only the options from argv[*index] to the first plain word. Sets
 * *index to the index of that word, or to argc if there is none. Does not change argv.
 */
int options_parse_front(struct cli *cli, const char *where, const struct option_spec *specs,
                        size_t spec_count, int argc, char **argv, int *index)
    __attribute__((warn_unused_result));

/*
 * Reads the options before the command word, and moves *index to that word. Returns 0 or CLI_USAGE.
 */
int options_parse_leading(struct cli *cli, int argc, char **argv, int *index)
    __attribute__((warn_unused_result));

enum duration_result {
    DURATION_GOOD,
    DURATION_NONE,      /* the text is not a duration */
    DURATION_TOO_LARGE, /* an int64_t of nanoseconds cannot hold it */
};

/* Converts a text such as "90s" to nanoseconds: a decimal integer with ms, s, m or h. */
enum duration_result duration_parse(const char *text, int64_t *out_ns)
    __attribute__((warn_unused_result));

/* Checks a lock name. Returns 0, or CLI_USAGE with a line on stderr. */
int name_check(const char *where, const char *name) __attribute__((warn_unused_result));

/* Checks a prefix of lock names: a name, or an empty text. */
int prefix_check(const char *where, const char *prefix) __attribute__((warn_unused_result));

/*
 * For commands that take plain words only: appends the words after `--` to the plain words, and
 * checks their number. expected is a text for the error line, for example "one NAME". Returns 0 or
 * CLI_USAGE.
 */
int words_expect(const char *where, struct arguments *words, size_t least, size_t most,
                 const char *expected) __attribute__((warn_unused_result));

#endif
