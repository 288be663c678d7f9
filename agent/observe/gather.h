/*
 * Gathers the contents of the status page (page.h) from the agent's parts, and writes the page.
 *
 * The loop makes the page, so each piece of work is bounded. The census (census.h) goes through all
 * locks of the cell, and there may be millions. It does so in pieces of about a millisecond, with
 * pauses, so it takes at most a twentieth of the loop's time. It begins when a client asks for the
 * page. In a small cell the first piece completes it. In a large cell, the page meanwhile shows the
 * last complete census with its age, or else the locks counted so far.
 */
#ifndef AGENT_OBSERVE_GATHER_H
#define AGENT_OBSERVE_GATHER_H

#include "agent.h"
#include "observe/page.h"

struct gather;

/* Returns NULL if there is no memory. */
struct gather *gather_create(struct agent *agent) __attribute__((warn_unused_result));
/* Called in each upkeep: adds to the history. */
void gather_look(struct gather *gather, int64_t now_ns);
/* Writes the page. still: it does not refresh itself. Sets *size. Returns the text, which stays
 * until the next call. */
const char *gather_page(struct gather *gather, const struct metrics *metrics, bool still,
                        size_t *size);
/* Ends the counting. Called before the loop is closed. */
void gather_shut(struct gather *gather);
/* Called after the loop is closed. */
void gather_destroy(struct gather *gather);

#endif
