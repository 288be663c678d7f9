/*
 * Samples of the status page, for its unit tests and for the test in a browser.
 */
#ifndef TESTS_UNIT_PAGE_SAMPLES_H
#define TESTS_UNIT_PAGE_SAMPLES_H

#include "observe/page.h"

enum page_sample_kind {
    PAGE_SAMPLE_WELL,
    PAGE_SAMPLE_DEGRADED,
    PAGE_SAMPLE_FAILING,
    PAGE_SAMPLE_HOSTILE, /* names and commands that try to inject HTML into the page */
    PAGE_SAMPLE_FULL,    /* the maximum number of rows, each of maximum length */
    PAGE_SAMPLE_EMPTY,   /* an agent that has just started */
    PAGE_SAMPLES,
};

struct page_sample {
    struct page_view page;
    struct metrics metrics;
    struct judgement judgement;
    struct host_counts host;
    struct host_survey here;
    struct quorum_survey voting;
    struct census census;
    struct history history;
    struct page_agent agents[PAGE_AGENTS_MAX];
};

/* Returns the name of the sample, such as "well". */
const char *page_sample_name(enum page_sample_kind kind);
/* Fills in the sample, whose pointers point into the sample itself. */
void page_sample_fill(enum page_sample_kind kind, struct page_sample *out);

/* Adds one lock to the census of the sample. `holder` has held it for hold_ms, and `waiters`
 * (names, separated by spaces) have waited for wait_ms. -1: nobody holds it, or waits. */
void page_sample_lock(struct page_sample *sample, const char *name, const char *holder,
                      int64_t hold_ms, const char *command, const char *waiters, int64_t wait_ms);

#endif
