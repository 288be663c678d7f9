/*
 * The status page shows the agent and its cell to a person with a browser. docs/METRICS.md, "The
 * status page", explains the page and each of its words.
 *
 * The page is one HTML document without scripts, which loads nothing. It works from 320 pixels
 * on, in light and dark, without colours, and for screen readers.
 *
 * Pure: the page depends only on struct page_view, which gather.c fills in. page.c writes the
 * document, and page_parts.h has its parts. Nothing that comes from outside is written without
 * html_text().
 */
#ifndef AGENT_OBSERVE_PAGE_H
#define AGENT_OBSERVE_PAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/config.h"
#include "observe/account_names.h"
#include "observe/census.h"
#include "observe/history.h"
#include "observe/metrics.h"

enum {
    PAGE_TEXT_MAX = 512 * 1024,
    PAGE_AGENTS_MAX = 100, /* the most agents that the page lists */
    PAGE_REFRESH_S = 5,
    PAGE_TIME_MAX = 32,
};

enum page_state { PAGE_UP, PAGE_JEOPARDY, PAGE_REFUSED, PAGE_DOWN };

struct page_agent {
    struct message_agent name;
    bool voter;
    bool self;
    enum page_state state;
    int64_t age_ns;                 /* the time since the last message from the agent; -1: there was
                                     * none */
    char page[MESSAGE_ADDRESS_MAX]; /* the URL of its status page, which config_is_page() accepts;
                                     * "": none is known */
    uint64_t held;                  /* locks that its processes hold */
    uint64_t waiters;
};

/* All pointers are borrowed. */
struct page_view {
    const struct metrics *metrics;
    enum config_show show;
    bool still;               /* the page does not refresh itself */
    char time[PAGE_TIME_MAX]; /* when the page was made, by the wall clock of this host */
    const struct census *census;
    bool counting;         /* the census is not complete yet */
    int64_t census_age_ns; /* how long ago the census was completed */
    int64_t gossip_age_ns; /* how old the information about other hosts may be; -1: there is no
                            * other host */
    const struct history *history;
    uint32_t agent_count;
    uint32_t agents_total; /* agents that are known, of which agent_count are listed */
    const struct page_agent *agents;
    const struct account_names *users; /* NULL: users have no names */
};

/* Writes the page to `out`, which has room for PAGE_TEXT_MAX bytes. Returns its size. */
size_t page_write(const struct page_view *page, char *out);

#endif
