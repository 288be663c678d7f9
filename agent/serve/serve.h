/*
 * Turns packets of clients into events of the host core, and its actions into packets.
 */
#ifndef AGENT_SERVE_SERVE_H
#define AGENT_SERVE_SERVE_H

#include "agent.h"
#include "core/host.h"
#include "io/socket.h"

struct socket_handler serve_handler(struct agent *agent);
/* Writes the frame for a connection that is refused before anything is read from it. Returns its
 * size. */
size_t serve_refusal(unsigned char *bytes, size_t size);
void serve_act(void *arg, const struct host_action *action, const unsigned char *bytes);

#endif
