/*
 * The regions of the namespaces: adopted, given up, begun anew, one by one. The thread of the loop
 * does all of it, but for making a fresh one (serve/anew.h).
 */
#ifndef AGENT_SERVE_REGIONS_H
#define AGENT_SERVE_REGIONS_H

#include "agent.h"

enum regions_result {
    REGIONS_ADOPTED,
    REGIONS_AGAIN,  /* some cannot be: with new cores, again without them */
    REGIONS_OVER,   /* the session cannot go on: agent->error */
    REGIONS_FAILED, /* the store: agent->error */
};

/* Opens what the agent before left and loads what is known of it, into new cores. */
enum regions_result regions_adopt(struct agent *agent) __attribute__((warn_unused_result));
void regions_tell_of_holes(const struct agent *agent);
/* Forgets the notes, which are of the session before. The other binds them to this session. */
void regions_forget_notes(struct agent *agent);
void regions_take_notes(struct agent *agent);
/* With the loop, and before it is closed. */
bool regions_set_up(struct agent *agent) __attribute__((warn_unused_result));
void regions_leave(struct agent *agent);
/* Fresh ones for all. false: agent->error. */
bool regions_make(struct agent *agent) __attribute__((warn_unused_result));
/* host_sound_fn: arg is the agent. */
bool regions_are_sound(void *arg, uint32_t space);
/* When a turn begins, before anything of theirs is touched: gives up what is rubbish, if they were
 * not looked at for a while. */
void regions_watch(struct agent *agent);
/* At the end of a turn: gives up what is rubbish, begins anew what is due. */
void regions_see(struct agent *agent);
/* Each quarter of the ttl: looks whether they are what they were, at a constant cost. */
void regions_look(struct agent *agent);
/* When regions_see() has something to do; INT64_MAX: no time is known. */
int64_t regions_next_ns(const struct agent *agent);

#endif
