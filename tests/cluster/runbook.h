/*
 * The commands of a runbook of docs/OPERATIONS.md: the lines between ```sh and ``` below its
 * heading. A test runs them as the page has them. A failure in these functions ends the caller
 * (require.h).
 */
#ifndef TESTS_CLUSTER_RUNBOOK_H
#define TESTS_CLUSTER_RUNBOOK_H

enum { RUNBOOK_LINES_MAX = 16, RUNBOOK_LINE_MAX = 256 };

struct runbook {
    unsigned count;
    struct {
        unsigned block; /* 0: the first lines between ```sh and ```, 1: the next ones */
        char text[RUNBOOK_LINE_MAX];
    } lines[RUNBOOK_LINES_MAX];
};

/* Reads the commands of a runbook, for example "9. Backups". There must be `count` of them, or the
 * page has changed and the test has to be looked at. */
void runbook_read(struct runbook *runbook, const char *heading, unsigned count);

/* Replaces the first `from` in the text (RUNBOOK_LINE_MAX) by `to`, if it is there. */
void runbook_replace(char *text, const char *from, const char *to);

#endif
