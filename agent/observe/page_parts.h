/*
 * The parts of the status page: see page.h.
 */
#ifndef AGENT_OBSERVE_PAGE_PARTS_H
#define AGENT_OBSERVE_PAGE_PARTS_H

#include "observe/html.h"
#include "observe/page.h"

/* Returns the style sheet. */
const char *page_style(void);
/* Returns drawings that the page uses by name: a shape for each state, so that no state is shown by
 * its colour alone. */
const char *page_shapes(void);

/* Adds the name of an agent. */
void page_name(struct html *html, const struct message_agent *agent);
void page_judgement(struct html *html, const struct judgement *judgement);
void page_session(struct html *html, const struct metrics *metrics);
void page_locks(struct html *html, const struct page_view *page);
void page_agents(struct html *html, const struct page_view *page);
void page_history(struct html *html, const struct history *history);

#endif
