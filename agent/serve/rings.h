/*
 * Rings of clients: locks of their regions ask to be looked at. What that may cost is bounded by
 * user (io/rings.h).
 */
#ifndef AGENT_SERVE_RINGS_H
#define AGENT_SERVE_RINGS_H

#include "agent.h"

/* A welcomed client sent RING. */
void rings_take(struct agent *agent, struct connection *connection);

/* Answers what waited and waits no more; agent->rings_ns says when that is due. */
void rings_tick(struct agent *agent, int64_t now_ns);

#endif
