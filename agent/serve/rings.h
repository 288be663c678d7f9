/*
 * Rings of clients: with a ring, a client asks the agent to look at locks of its regions. The cost
 * of rings is bounded for each user (io/rings.h).
 */
#ifndef AGENT_SERVE_RINGS_H
#define AGENT_SERVE_RINGS_H

#include "agent.h"
#include "io/socket.h"

/* Answers the RING of a welcomed client, or lets it wait for rings_tick(). */
void rings_take(struct agent *agent, struct connection *connection);

/* Answers the rings whose wait is over; serve_next_ns() says when the next ones are due. */
void rings_tick(struct agent *agent, int64_t now_ns);

#endif
