/* Shared by the files of peers.h: the table of the other agents, and the addresses at which they
 * are dialled. */
#ifndef AGENT_PEERS_PRIVATE_H
#define AGENT_PEERS_PRIVATE_H

#include <uv.h>

#include "core/session/pace.h"
#include "io/transport.h"
#include "observe/log.h"
#include "peers/addresses.h"
#include "peers/peers.h"
#include "proto/wire.h"

enum {
    PEERS_BUCKETS = 2 * TRANSPORT_PEERS_MAX, /* a power of two */
    PEERS_BUFFERS_KEPT = 64,                 /* at most this many unused buffers are kept; further
                                              * ones are freed */
    PEERS_REMOTE_MAX = 64,
    PEERS_REFUSED_MAX = 64,
};

/* An address at which a voter is dialled. */
struct peer_address {
    uint32_t link; /* TRANSPORT_PEER_NONE: it is not dialled there */
    char text[MESSAGE_ADDRESS_MAX];
};

struct peer_agent {
    struct message_agent name; /* length 0: this entry is free */
    bool voter;
    bool up;                      /* whether the connection is up, as last reported to the driver */
    bool told;                    /* the driver was notified of this link since the agent became a
                                   * voter */
    struct address_entry listens; /* the addresses of an agent that is not a voter */
    struct peer_address home;     /* for a voter (seek.c): its address in the record */
    struct peer_address second;   /* another address at which the agent is sought (seek.c) */
    int64_t second_until_ns;      /* until when the agent is sought at `second` */
    int64_t home_ns;              /* when the link to `home` was last seen up, or was made */
    char address[MESSAGE_ADDRESS_MAX]; /* the present address and link */
    uint32_t link;                     /* the link's number in the transport */
    unsigned char *buffer;             /* the packet that is being filled; NULL: none */
    struct wire_writer writer;
    uint64_t commit;     /* the commit in the open packet's header */
    uint32_t membership; /* the version of the record of stores in the open packet's
                                        * header */
    uint32_t number;     /* the record of voters in the open packet's header */
    uint64_t digest;
    char release[MESSAGE_RELEASE_MAX]; /* the release of Holdfast that the agent announced last; "":
                                        * none yet */
    char page[MESSAGE_ADDRESS_MAX];    /* the URL of the agent's status page; "": none is known */
    int64_t up_ns;                     /* when the connection last came up or broke */
    bool silent;                       /* the log says that the voter is connected, but silent for
                                        * too long */
    bool starts_over;                  /* the log says that the voter starts over */
    bool unreachable;                  /* the log says that the voter had no connection for too
                                        * long */
    struct pace_watch clock;           /* what the log says about this voter's clock */
    struct log_limit kept_limit;       /* limits log lines about refused addresses of this agent */
    uint64_t packets_sent;
    uint64_t packets_dropped;
    uint64_t packets_received;
};

/* A remote whose packet was refused lately. */
struct peers_refused_host {
    uint64_t remote; /* a hash; 0: this entry is free */
    struct log_limit limit;
};

struct peers {
    struct agent *agent;
    struct transport *transport;
    uv_poll_t poll;
    bool started;
    struct addresses addresses;
    int64_t looked_ns;   /* when peers_directory_look() last looked for entries to forget */
    uint64_t host;       /* a hash of the sender's host while its packet is read; otherwise 0 */
    uint32_t count;      /* how many entries are in use or free again */
    uint32_t free_count; /* how many of these entries are free again */
    struct log_limit not_added_limit;
    struct peer_agent peers[TRANSPORT_PEERS_MAX];
    /* 1 + an index of `peers`, at the bucket of the name's hash; 0: none */
    uint16_t buckets[PEERS_BUCKETS];
    uint32_t dirty_count;
    uint16_t dirty[TRANSPORT_PEERS_MAX]; /* indices of peers with a buffer */
    unsigned char *kept[PEERS_BUFFERS_KEPT];
    uint32_t kept_count;
    uint64_t files_sum; /* the result of sum_of_files() when the files of [tls] were last read */
    int64_t files_ns;   /* when the files were last looked at */
    bool files_kept;    /* the present files were refused; they may become valid later */
    char kept_text[TRANSPORT_ERROR_MAX]; /* why the present files were refused */
    uint64_t commit;                     /* the commit of the newest message */
    uint32_t membership;
    uint32_t number; /* the record of voters of the newest message */
    uint64_t digest;
    bool record_new; /* peers_follow_record() has to dial the voters of a new record */
    /* The agent that a change adds or moves, and the address at which it must answer (seek.c). */
    struct message_agent sought;
    char sought_at[MESSAGE_ADDRESS_MAX];
    int64_t sought_until_ns;
    struct peers_refused_host refused[PEERS_REFUSED_MAX];
    int64_t refused_ns; /* for display: when a peer was last refused; 0: never */
    char refused_text[PEERS_REMOTE_MAX + 256];
    struct log_limit link_limit;
    struct log_limit refused_limit;
    struct log_limit trouble_limit;
    struct message message; /* the message that is being read */
    /* For display: how many messages of each kind; index 0 counts gossip. */
    uint64_t sent[MESSAGE_KIND_END];
    uint64_t received[MESSAGE_KIND_END];
    uint64_t strangers; /* packets from agents that are not in the table */
    uint64_t refusals[PEERS_REFUSAL_COUNT];
};

/* Opens the transport that the configuration describes; it listens. On failure returns NULL, with
 * error (TRANSPORT_ERROR_MAX bytes) and errno as transport_open() sets them. */
struct transport *peers_transport(const struct config *config,
                                  const struct transport_handler *handler, char *error)
    __attribute__((warn_unused_result));
/* Returns whether the connection's certificate names the agent that the packet gives as its sender.
 * Returns true if NNG does not show the certificate's name. */
bool peers_is_certified(const struct wire_header *header, const char *certified);

/* Returns NULL if the agent is not in the table. */
struct peer_agent *peers_find(struct peers *peers, const struct message_agent *name);
/* Returns the index of the voter of that name; voter_count if there is none. */
uint32_t peers_find_voter(const struct agent *agent, const struct message_agent *name);
/* Returns the version of the wire protocol that the peer reads; the oldest version while its link
 * is down. */
uint32_t peers_version_of(const struct peers *peers, const struct peer_agent *peer);
/* Begins to dial a voter. Returns false if there is no memory. */
bool peers_dial(struct peers *peers, const struct message_agent *name, const char *address);
void peers_directory_init(struct peers *peers);
/* Forgets addresses at which no agent answers any more. Called once a second. */
void peers_directory_look(struct peers *peers);
/* Drops the peer's open packet. */
void peers_drop_buffer(struct peers *peers, struct peer_agent *peer);
/* Dials that agent. Returns the link, or TRANSPORT_PEER_NONE if it cannot be dialled. */
uint32_t peers_dial_at(struct peers *peers, const struct message_agent *name, const char *address);
/* Notifies the driver if the connection to that agent has come up or broken. */
void peers_see_link(struct peers *peers, struct peer_agent *peer);
void peers_log_moved(struct peers *peers, const struct peer_agent *peer);

/* ---- seek.c: the addresses of a voter ---- */

/* Sends packets for the voter to its current address from now on. */
void peers_voter_follow(struct peers *peers, struct peer_agent *peer);
/* Notes that the agent is a voter at that address from now on. It may have been a voter at another
 * address before. link: if the agent was no voter, a link that it already has to that address, or
 * TRANSPORT_PEER_NONE. */
void peers_voter_home(struct peers *peers, struct peer_agent *peer, const char *address,
                      uint32_t link);
/* Notes that the agent is no voter any more. Sets peer->link and peer->address to those of its
 * home. */
void peers_voter_leave(struct peers *peers, struct peer_agent *peer);
/* Begins or ends the search for a voter that does not answer. Called in each upkeep. */
void peers_voter_look(struct peers *peers, struct peer_agent *peer, int64_t now_ns);
/* For an agent that is no voter: ends the search for it if the time for that is over. */
void peers_other_look(struct peers *peers, struct peer_agent *peer, int64_t now_ns);
/* Call it before the entry of an agent is freed. */
void peers_other_forget(struct peers *peers, struct peer_agent *peer);
/* Returns whether a message of that kind must go only to the address at which the agent is sought.
 * If so, sets *link to the link to that address; TRANSPORT_PEER_NONE if there is none. */
bool peers_goes_there(const struct peers *peers, const struct peer_agent *peer,
                      enum message_kind kind, uint32_t *link);
/* For struct transport_handler: called when a link has come up or broken. arg is the agent. */
void peers_link(void *arg, uint32_t link, bool up);

#endif
