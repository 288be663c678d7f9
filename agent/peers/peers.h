/*
 * The other agents of the cell, by name: where they listen, and the packets that wait to be sent to
 * them.
 *
 * The record of voters has the voters' addresses; a voter that does not answer there may be sought
 * at another one (seek.c). Any other agent announces its own address
 * (driver_operations.address). This agent uses such an address within the bounds of addresses.h; a
 * wrong address only loses messages.
 *
 * All messages to one agent in one turn of the loop make one packet; peers_flush() sends these
 * packets. A packet that arrives is checked whole (proto/wire.h), then given to the driver, item by
 * item. A packet is refused if it is malformed, or of another cell or protocol version. A refusal
 * is logged once a minute for each remote.
 *
 * In an agent that does not listen (the cell of one host) agent->peers is NULL.
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

/* The period in which the certificates are valid, in seconds since 1970. */
struct peers_tls_times {
    int64_t begin_s;
    int64_t soon_s; /* from this time on one of them counts as ending soon */
    int64_t end_s;
    int64_t soon_end_s; /* the end of the certificate that soon_s is about */
    bool soon_ca;       /* soon_s is about the CA's certificate, not this agent's */
    bool end_ca;        /* end_s is the end of the CA's certificate, not of this agent's */
};

/* Returns whether the files that [tls] names can be used; true if there is no [tls]. Sets *times to
 * the period in which the certificates are valid; without [tls] all times are 0. On failure error
 * names the file, and errno is EINVAL if the file itself is wrong. With any other errno (no memory,
 * say) a later call may succeed. */
bool peers_check_tls(const struct config *config, struct peers_tls_times *times,
                     char error[CONFIG_ERROR_MAX]) __attribute__((warn_unused_result));

/* Opens the transport. Returns AGENT_EXIT_OK, or an exit code with one line in agent->error. Does
 * nothing if the agent does not listen. */
int peers_open(struct agent *agent) __attribute__((warn_unused_result));
/* Begins to dial the voters and to receive packets. The driver must exist. */
bool peers_start(struct agent *agent) __attribute__((warn_unused_result));
void peers_close(struct agent *agent);

/* Functions for struct driver_operations; arg is the agent. */
void peers_send(void *arg, const struct message_agent *to, const struct message *message);
void peers_send_gossip(void *arg, const struct message_agent *to, const void *bytes, size_t size);
void peers_address(void *arg, const struct message_agent *agent, const char *address);
/* Lets the agent also dial the voter at that address, for a while: see seek.c. */
void peers_seek(void *arg, const struct message_agent *voter, const char *address);

/* Call it when the agent uses another record of voters (agent->host_config). */
void peers_record(struct agent *agent);
/* After peers_record(): dials the voters of the new record, and makes the removed voters agents
 * like any other. Notifies the driver which of the new voters are connected. Called in each turn,
 * when no step of the driver is under way. */
void peers_follow_record(struct agent *agent);

/* Reads the files of [tls] again, and logs the result. */
void peers_renew_certificates(struct agent *agent);

/* Gives the packets that have arrived to the driver. Does nothing if the agent does not listen. */
void peers_receive(struct agent *agent);
/* Returns a descriptor that is readable when packets may have arrived; -1: the agent does not
 * listen. */
int peers_fd(const struct agent *agent);

/* Sends the packets that this turn has filled. Called at the end of each turn. */
void peers_flush(struct agent *agent);

/* Called in each upkeep: logs voters that are connected but do not answer, and reads replaced
 * certificate files again. */
void peers_look(struct agent *agent);

/* For display: returns whether the connection to that agent is up. */
bool peers_connected(const struct agent *agent, const struct message_agent *name);
struct peers_view {
    bool deaf;                  /* the listener accepts no connections */
    struct peers_tls_times tls; /* the times of the certificates in use; without TLS all are 0 */
    const char *tls_kept;       /* why the present files of [tls] were refused; NULL: the agent uses
                           * them */
    int64_t refused_ns;         /* when a peer was last refused; 0: never */
    const char *refused_text;
};
/* For display: why the connection is down; "" if it is up or the reason is not known. */
const char *peers_why_down(const struct agent *agent, const struct message_agent *name);
/* For display: the release of Holdfast that the agent runs; "" if it is not known. */
const char *peers_release(const struct agent *agent, const struct message_agent *name);
/* For display: the URL of the agent's status page; "" if none is known. The agent announced it, and
 * config_is_page() is true for it. */
const char *peers_page(const struct agent *agent, const struct message_agent *name);
/* For display: the state of the links. agent->peers must not be NULL. */
struct peers_view peers_view(const struct agent *agent);

/* For display: the figures of one other voter, or of all agents together that are not voters. */
struct peers_figures {
    uint64_t agents;    /* agents whose address is known */
    uint64_t connected; /* how many of these agents have a connection */
    uint64_t packets_sent;
    uint64_t packets_dropped; /* packets not sent, because of no connection or a full queue */
    uint64_t packets_received;
    uint64_t waiting_bytes;
};
/* Why a packet or a connection was refused. */
enum peers_refusal {
    PEERS_REFUSED_PACKET = 0, /* the packet is malformed, or of another cell or version */
    PEERS_REFUSED_GREETING,
    PEERS_REFUSED_TLS,
    PEERS_REFUSED_FULL, /* no room for another connection */
    PEERS_REFUSAL_COUNT,
};
/* Writes the other voters' figures to `voters` (MESSAGE_VOTERS_MAX entries, by the voter's index),
 * and those of all other agents together to `others`. The entry of this agent stays empty. */
void peers_figures(const struct agent *agent, struct peers_figures *voters,
                   struct peers_figures *others);
/* Returns how often a sender was refused for this reason since the start; 0 if the agent does not
 * listen. */
uint64_t peers_refused(const struct agent *agent, enum peers_refusal why);

/* For display: logs how many messages of each kind were sent and received since the start. */
void peers_log_traffic(struct agent *agent);

#endif
