/*
 * The regions of the namespaces: each is adopted, given up and begun anew by itself. The loop's
 * thread makes all these calls. Only a fresh region is made on another (serve/anew.h).
 */
#ifndef AGENT_SERVE_REGIONS_H
#define AGENT_SERVE_REGIONS_H

#include "agent.h"

enum regions_result {
    REGIONS_ADOPTED,
    REGIONS_AGAIN,  /* some region cannot be adopted: repeat with new cores, without that region */
    REGIONS_OVER,   /* the session cannot go on; agent->error says why */
    REGIONS_FAILED, /* the store failed; agent->error says why */
};

/* Opens the regions that the previous agent left and loads their locks into the cores, which must
 * be new. */
enum regions_result regions_adopt(struct agent *agent) __attribute__((warn_unused_result));
void regions_log_holes(const struct agent *agent);
/* regions_forget_notes() clears the notes, which belong to the previous session.
 * regions_take_notes() finds each namespace's note, or begins one. */
void regions_forget_notes(struct agent *agent);
void regions_take_notes(struct agent *agent);
/* regions_set_up() is called when the loop exists, regions_leave() before it is closed. */
bool regions_set_up(struct agent *agent) __attribute__((warn_unused_result));
void regions_leave(struct agent *agent);
/* Makes fresh regions for all namespaces. On failure returns false with agent->error. */
bool regions_make(struct agent *agent) __attribute__((warn_unused_result));
/* A host_sound_fn: returns whether the region is usable. arg is the agent. */
bool regions_are_sound(void *arg, uint32_t space);
/* Called when a turn begins, before any region is touched: gives up those that are unusable, if the
 * last check was some time ago. */
void regions_watch(struct agent *agent);
/* Called at the end of a turn: gives up regions that are unusable, and begins those anew whose time
 * has come. */
void regions_see(struct agent *agent);
/* Called each quarter of session_ttl: checks that the regions are unchanged, at a constant cost. */
void regions_look(struct agent *agent);
/* Returns when regions_see() has something to do; INT64_MAX: no time is known. */
int64_t regions_next_ns(const struct agent *agent);

#endif
