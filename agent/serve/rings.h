/*
 * Rings of clients: with a ring, a client asks the agent to look at locks of its regions. The cost
 * of rings is bounded for each user (io/rings.h).
 */
#ifndef AGENT_SERVE_RINGS_H
#define AGENT_SERVE_RINGS_H

#include "agent.h"
#include "io/socket.h"

/* Called when a welcomed client has sent RING. */
void rings_take(struct agent *agent, struct connection *connection);

/* Answers the rings whose wait is over; serve_next_ns() says when the next ones are due. */
void rings_tick(struct agent *agent, int64_t now_ns);

#endif
