/*
 * The other agents of the cell, by name: where they listen, and what is on its way to them.
 *
 * The voters' addresses are the configuration's; where any other agent listens it says itself
 * (driver_operations.address), and is believed: a wrong address loses only messages.
 *
 * All that goes to one agent in one turn of the loop is one packet; peers_flush() sends them. What
 * arrives is checked whole (proto/wire.h), then given to the driver, item by item. Packets of
 * another cell, another protocol version, or that make no sense are refused; that is logged once a
 * minute for each remote.
 *
 * An agent that does not listen has none of this (agent->peers is NULL): a cell of one host.
 */
#ifndef AGENT_PEERS_H
#define AGENT_PEERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/config.h"
#include "proto/message.h"

struct agent;
struct peers;

/* Whether the files that [tls] names can be used, if it names any. Else error says which cannot,
 * and errno is not EINVAL if it may be well the next time (no memory, say). */
bool peers_check_tls(const struct config *config, char error[CONFIG_ERROR_MAX])
    __attribute__((warn_unused_result));

/* Opens the transport; AGENT_EXIT_OK, or the exit code and agent->error. Nothing if the agent does
 * not listen. */
int peers_open(struct agent *agent) __attribute__((warn_unused_result));
/* Begins to dial the voters and to take what arrives; the driver has been started. */
bool peers_start(struct agent *agent) __attribute__((warn_unused_result));
void peers_close(struct agent *agent);

/* driver_operations: arg is the agent. */
void peers_send(void *arg, const struct message_agent *to, const struct message *message);
void peers_send_gossip(void *arg, const struct message_agent *to, const void *bytes, size_t size);
void peers_address(void *arg, const struct message_agent *agent, const char *address);

/* Reads the files of [tls] again; logs what came of it. */
void peers_renew_certificates(struct agent *agent);

/* The end of a turn: sends what has collected. */
void peers_flush(struct agent *agent);

/* Called now and then: logs voters that are connected but do not answer; takes new certificates. */
void peers_look(struct agent *agent);

/* For people: whether the connection to that agent is there. */
bool peers_connected(const struct agent *agent, const struct message_agent *name);
struct peers_view {
    bool deaf;            /* the inbox takes no connections */
    int64_t tls_begin_s;  /* from when all certificates are good */
    int64_t tls_end_s;    /* when a certificate ends, seconds since 1970; 0: no TLS */
    const char *tls_kept; /* why the files as they are now were refused; NULL: they were not */
    int64_t refused_ns;   /* when somebody was refused last; 0: never */
    const char *refused_text;
};
/* For people: why it is not there; "": it is, or nothing is known. */
const char *peers_why_down(const struct agent *agent, const struct message_agent *name);
/* For people: the release of Holdfast that it runs; "": not known. */
const char *peers_release(const struct agent *agent, const struct message_agent *name);
/* For people: how the links stand. Only if there are peers. */
struct peers_view peers_view(const struct agent *agent);

/* For people: one other voter, or all agents together that are none. */
struct peers_figures {
    uint64_t agents;    /* of which the address is known */
    uint64_t connected; /* of them, those whose link is there */
    uint64_t packets_sent;
    uint64_t packets_dropped; /* not sent: the link was not there, or too much waited */
    uint64_t packets_received;
    uint64_t waiting_bytes;
};
/* Why somebody was not listened to. */
enum peers_refusal {
    PEERS_REFUSED_PACKET = 0, /* of another cell or version, or nonsense */
    PEERS_REFUSED_GREETING,
    PEERS_REFUSED_TLS,
    PEERS_REFUSED_FULL, /* there is no room for another connection */
    PEERS_REFUSAL_COUNT,
};
/* voters: MESSAGE_VOTERS_MAX of them, by index; this agent's own stays empty. */
void peers_figures(const struct agent *agent, struct peers_figures *voters,
                   struct peers_figures *others);
/* How often, in all; by enum peers_refusal. An agent that does not listen has 0. */
uint64_t peers_refused(const struct agent *agent, enum peers_refusal why);

/* For people: messages to other agents and from them since the start, by kind. */
void peers_log_traffic(struct agent *agent);

#endif
