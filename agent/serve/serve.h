/*
 * Turns packets of clients into events of the host core, and the host core's actions into packets.
 *
 * A connection has at most one client, and a client has at most one connection. An action for a
 * client goes to the connection that the client has when the action is carried out. It is dropped
 * if the client has none.
 */
#ifndef AGENT_SERVE_SERVE_H
#define AGENT_SERVE_SERVE_H

#include "agent.h"
#include "core/host.h"
#include "io/socket.h"
#include "observe/turns.h"

/* Returns false if there is no memory. serve_destroy() must be called in both cases. */
bool serve_create(struct agent *agent) __attribute__((warn_unused_result));
void serve_destroy(struct agent *agent);

/* Opens the socket. On failure returns false with a line in error. */
bool serve_open(struct agent *agent, uint32_t connections_max, char error[SOCKET_ERROR_MAX])
    __attribute__((warn_unused_result));
/* Makes the socket's file again: see socket_listen_again(). */
bool serve_listen_again(struct agent *agent, char error[SOCKET_ERROR_MAX])
    __attribute__((warn_unused_result));
/* Closes the socket and all connections. Called before the loop is closed. */
void serve_shut(struct agent *agent);
/* Frees the shares of all users. Called after the loop has run its close callbacks. */
void serve_forget(struct agent *agent);
bool serve_is_open(const struct agent *agent);

/* serve_turn() begins a turn of the users' shares, and serve_turned() ends it. Called in each turn,
 * even before the socket is open. cpu_ns: the processor time that this thread had used at
 * now_ns. */
void serve_turn(struct agent *agent, int64_t now_ns, int64_t cpu_ns);
void serve_turned(struct agent *agent);
/* Returns the user whose requests took most of this turn. */
struct turns_user serve_most(const struct agent *agent);
/* Does everything that is due by now_ns. serve_next_ns() returns when the next call is due;
 * INT64_MAX: nothing waits. */
void serve_tick(struct agent *agent, int64_t now_ns);
int64_t serve_next_ns(const struct agent *agent);

/* The function for driver_operations.act: arg is the agent. */
void serve_act(void *arg, const struct host_action *action, const unsigned char *bytes);
/* For display: when a client's record last could not be written, with its errno in *why; 0: never,
 * or a record was written since. */
int64_t serve_record_failed_ns(const struct agent *agent, int *why);
/* For display: how often a client was logged as costly. */
uint64_t serve_costly(const struct agent *agent);

#endif
