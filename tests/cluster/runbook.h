/*
 * The commands of a runbook in docs/OPERATIONS.md. They are the lines between ```sh and ``` below
 * its heading, and a test runs them as they are written. On a failure, these functions end the
 * caller (require.h).
 */
#ifndef TESTS_CLUSTER_RUNBOOK_H
#define TESTS_CLUSTER_RUNBOOK_H

enum { RUNBOOK_LINES_MAX = 16, RUNBOOK_LINE_MAX = 256 };

struct runbook {
    unsigned count;
    struct {
        unsigned block; /* the index of the block of ```sh, from 0 */
        char text[RUNBOOK_LINE_MAX];
    } lines[RUNBOOK_LINES_MAX];
};

/* Reads the commands of a runbook, for example "9. Backups". The number of commands must be
 * `count`. If it is not, the page has changed, and its test needs an update. */
void runbook_read(struct runbook *runbook, const char *heading, unsigned count);

/* Replaces the first `from` in the text (RUNBOOK_LINE_MAX) by `to`, if it is there. */
void runbook_replace(char *text, const char *from, const char *to);

#endif
