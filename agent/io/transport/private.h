/*
 * What the transport's files share: peers.c has the peers that are dialled, transport.c everything
 * else. Only the loop's thread uses it.
 */
#ifndef IO_TRANSPORT_PRIVATE_H
#define IO_TRANSPORT_PRIVATE_H

#include <nng/nng.h>
#include <stdbool.h>
#include <stdint.h>

#include "inbox.h"
#include "io/clock.h"
#include "io/transport.h"
#include "link.h"
#include "op.h"
#include "setup.h"
#include "tls.h"

enum { TRANSPORT_REDIAL_MIN_NS = 20000000 }; /* the first pause between two dials */

struct transport_peer {
    struct transport *transport;
    uint32_t index;
    nng_stream_dialer *dialer;
    struct transport_op dial;
    bool dialling;
    int64_t dial_at_ns; /* when to dial; INT64_MAX: a dial is under way, or there is a link */
    int64_t pause_ns;
    int64_t greet_ns;            /* how long the next greeting may take */
    uint32_t newest;             /* the version that the next greeting offers */
    struct transport_link *link; /* NULL: there is no link */
    bool up;                     /* the peer has greeted, and the handler was notified */
    uint32_t ups;
    int64_t quiet_until_ns; /* until this time no refusal of the peer, or by the peer, is logged
                             * again */
    char address[TRANSPORT_ADDRESS_SIZE];
    char name[TRANSPORT_NAME_SIZE]; /* the name that the peer's certificate must have; "": any */
    char why[64];                   /* why the peer is not connected, as a text for people; "": it
                                     * is connected */
    bool gone;                      /* the peer is forgotten, and is freed at the end of the
                                     * dispatch */
    struct transport_peer *next;    /* the next in peer_graves */
};

struct transport {
    struct transport_handler handler;
    nng_stream_listener *listener;
    struct transport_op accept;
    bool accepting;
    int64_t accept_at_ns; /* when to accept again after a failure */
    uint32_t accepts;     /* connections accepted so far */
    struct transport_tls tls;
    struct transport_credentials *credentials; /* NULL: no TLS */
    char name[TRANSPORT_NAME_SIZE];            /* this agent's name in certificates; "": any */
    bool secure;
    uint32_t version; /* the newest version that this agent speaks */
    char listen[TRANSPORT_ADDRESS_SIZE];

    int epoll;
    uint32_t round; /* the present round, in which every link that is ready has one turn */
    bool busy;      /* the last dispatch used all its time */
    int timer;
    int64_t timer_ns; /* when the timer fires; INT64_MAX: never */
    struct transport_ops ops;
    struct transport_links links;
    struct transport_link *graves;      /* broken links, freed at the end of the dispatch */
    struct transport_peer *peer_graves; /* forgotten peers, freed at the end of the dispatch */

    struct transport_peer *self; /* this agent's own inbox as a peer, to check the listener */
    int64_t check_ns;            /* the pause between two checks */
    int64_t check_at_ns;
    uint32_t checked_ups;     /* the value of self->ups when the last check began */
    uint32_t checked_accepts; /* the value of `accepts` when the last check began */
    int64_t checked_ns;       /* when the last check began */
    bool checking;
    bool deaf; /* it was reported that the listener does not accept */

    int64_t greet_ns; /* how long a greeting may take, unless TLS needs longer */
    int64_t guest_ns;
    bool full; /* it was reported that the inbox is full */
    int64_t quiet_until_ns;
    struct transport_inbox inbox;
    uint32_t peer_count; /* entries of peers[] that are or were in use */
    struct transport_peer *peers[TRANSPORT_PEERS_MAX]; /* NULL: the peer was forgotten */
    struct transport_counts counts;
};

/* Makes the timer fire no later than due_ns. The dispatch then looks at everything that has a due
 * time. */
static inline void transport_wake_at(struct transport *transport, int64_t due_ns)
{
    if (due_ns < transport->timer_ns) {
        transport->timer_ns = due_ns;
        clock_timer_set(transport->timer, due_ns);
    }
}

/* Has a broken link freed at the end of the dispatch, because events that epoll has returned may
 * still name it. */
static inline void transport_bury(struct transport *transport, struct transport_link *link)
{
    link->next = transport->graves;
    transport->graves = link;
}

/* Makes a peer and begins to dial it. index: TRANSPORT_PEER_NONE for the agent itself. Returns NULL
 * if NNG fails. */
struct transport_peer *transport_peer_create(struct transport *transport, const char *address,
                                             const char *name, uint32_t index);
void transport_peer_dial(struct transport_peer *peer);
/* Notes why a dial failed. error: NNG's error number. */
void transport_peer_note(struct transport_peer *peer, int error);
/* Sets the credentials for the later dials of all peers. On failure (no memory) returns false, and
 * some peers may have the new ones. */
bool transport_peers_secure(struct transport *transport,
                            const struct transport_credentials *credentials);
/* Frees the forgotten peers. Called at the end of a dispatch. */
void transport_peers_bury(struct transport *transport);
void transport_peers_destroy(struct transport *transport);

#endif
