/* Shared by the files of peers.h: the other agents, and where they are dialled. */
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
    PEERS_BUFFERS_KEPT = 64,                 /* more than so many at once are freed again */
    PEERS_REMOTE_MAX = 64,
    PEERS_REFUSED_MAX = 64,
};

struct peer_agent {
    struct message_agent name; /* length 0: this place is free */
    bool voter;
    bool up;                      /* as the driver has it */
    struct address_entry listens; /* where it listens, if it is no voter */
    char address[MESSAGE_ADDRESS_MAX];
    uint32_t link;         /* the transport's number of it */
    unsigned char *buffer; /* NULL: nothing is on its way */
    struct wire_writer writer;
    uint64_t commit; /* as the packet's header says */
    uint32_t membership;
    char release[MESSAGE_RELEASE_MAX]; /* of Holdfast, as it said last; "": not yet */
    int64_t up_ns;                     /* since when the connection is there, or is not */
    bool silent;                       /* for too long, and that was said */
    bool starts_over;                  /* this was said, too */
    bool unreachable;                  /* the same, without a connection */
    struct pace_watch clock;           /* a voter's: its clock, as it was logged */
    int64_t kept_ns;                   /* when the refusal of another address was last logged */
    uint64_t packets_sent;
    uint64_t packets_dropped;
    uint64_t packets_received;
};

/* Remotes whose packets were refused lately. */
struct peers_refused_host {
    uint64_t remote; /* a hash; 0: nobody */
    int64_t told_ns;
};

struct peers {
    struct agent *agent;
    struct transport *transport;
    uv_poll_t poll;
    bool started;
    struct addresses addresses;
    int64_t looked_ns; /* when it was last looked whose time is over */
    uint64_t host;     /* a hash of where the packet came from that is read just now; 0: none is */
    uint32_t count;    /* places that were ever taken */
    uint32_t free_count; /* of them, those that are free again */
    int64_t not_added_ns;
    struct peer_agent peers[TRANSPORT_PEERS_MAX];
    uint16_t buckets[PEERS_BUCKETS]; /* index + 1, by the name's hash; 0: none */
    uint32_t dirty_count;
    uint16_t dirty[TRANSPORT_PEERS_MAX]; /* those with a buffer */
    unsigned char *kept[PEERS_BUFFERS_KEPT];
    uint32_t kept_count;
    uint64_t files_sum; /* of [tls]: see sum_of_files() */
    int64_t files_ns;   /* when they were looked at */
    bool files_kept;    /* they were not taken then; the same ones may be good later */
    char kept_text[TRANSPORT_ERROR_MAX]; /* why */
    uint64_t commit;                     /* of the last message */
    uint32_t membership;
    struct peers_refused_host refused[PEERS_REFUSED_MAX];
    int64_t refused_ns; /* when somebody was refused last; 0: never. For people, with the text: */
    char refused_text[PEERS_REMOTE_MAX + 256];
    struct log_limit link_limit;
    struct log_limit refused_limit;
    struct log_limit trouble_limit;
    struct message message; /* while it is read */
    /* For people: how many there were of each kind; 0: gossip. */
    uint64_t sent[MESSAGE_KIND_END];
    uint64_t received[MESSAGE_KIND_END];
    uint64_t strangers; /* packets of agents that this one knows no address of */
    uint64_t refusals[PEERS_REFUSAL_COUNT];
};

/* NULL: it is not known. */
struct peer_agent *peers_find(struct peers *peers, const struct message_agent *name);
/* Which voter an agent is; voter_count: none. */
uint32_t peers_find_voter(const struct agent *agent, const struct message_agent *name);
/* Which version the peer reads; the oldest while its link is not there. */
uint32_t peers_version_of(const struct peers *peers, const struct peer_agent *peer);
/* Dials a voter, for good. false: no memory. */
bool peers_dial(struct peers *peers, const struct message_agent *name, const char *address);
void peers_places_init(struct peers *peers);
/* Forgets where nobody answers any more, once a second. */
void peers_places_look(struct peers *peers);
/* Messages on their way to it are lost. */
void peers_drop_buffer(struct peers *peers, struct peer_agent *peer);
/* Of struct transport_handler; arg is the agent. */
void peers_link(void *arg, uint32_t link, bool up);

#endif
