/*
 * Shared by the transport's files: the peers that are dialled (peers.c), and all else
 * (transport.c). All on the loop's thread.
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
#include "setup.h"
#include "tls.h"
#include "work.h"

enum { TRANSPORT_REDIAL_MIN_NS = 20000000 }; /* the first pause between two dials */

struct transport_peer {
    struct transport *transport;
    uint32_t index;
    nng_stream_dialer *dialer;
    struct transport_work dial;
    bool dialling;
    int64_t dial_at_ns; /* INT64_MAX: it is dialling, or there is a link */
    int64_t pause_ns;
    int64_t greet_ns;            /* how long the next greeting may take */
    uint32_t says;               /* the next greeting */
    struct transport_link *link; /* NULL: none */
    bool up;                     /* it has greeted, and the handler knows */
    uint32_t ups;
    int64_t quiet_until_ns; /* its refusal was logged lately */
    char address[TRANSPORT_ADDRESS_SIZE];
    char name[TRANSPORT_NAME_SIZE]; /* the name of the certificate that it must show; "": any */
    char why[64];                   /* it is not connected, for people; "": it is */
    bool gone;                      /* forgotten: it waits for the end of the dispatch */
    struct transport_peer *next;    /* in the graves */
};

struct transport {
    struct transport_handler handler;
    nng_stream_listener *listener;
    struct transport_work accept;
    bool accepting;
    int64_t accept_at_ns; /* again, if it failed */
    uint32_t accepts;     /* connections that came */
    struct transport_tls tls;
    struct transport_credentials *credentials; /* NULL: no TLS */
    char name[TRANSPORT_NAME_SIZE];            /* of this agent; "": any */
    bool secure;
    uint32_t version; /* the newest that is spoken */
    char listen[TRANSPORT_ADDRESS_SIZE];

    int epoll;
    uint32_t round; /* of turns: each link that is ready has one */
    bool busy;      /* the time of the last dispatch was over */
    int timer;
    int64_t timer_ns; /* when it fires; INT64_MAX: never */
    struct transport_works works;
    struct transport_links links;
    struct transport_link *graves;      /* broken ones, until the end of the dispatch */
    struct transport_peer *peer_graves; /* forgotten ones, so long too */

    struct transport_peer *self; /* of the listener's check */
    int64_t check_ns;            /* how often */
    int64_t check_at_ns;
    uint32_t checked_ups;     /* of self, when its link was closed to be made anew */
    uint32_t checked_accepts; /* then */
    int64_t checked_ns;       /* when that was */
    bool checking;
    bool deaf; /* the listener, as reported */

    int64_t greet_ns; /* of a greeting, where there is no reason to bear more */
    int64_t guest_ns;
    bool full; /* the inbox, as reported */
    int64_t quiet_until_ns;
    struct transport_inbox inbox;
    uint32_t peer_count;                               /* places that were ever taken */
    struct transport_peer *peers[TRANSPORT_PEERS_MAX]; /* NULL: forgotten */
    struct transport_counts counts;
};

/* The dispatch looks at everything that has a time then. */
static inline void transport_wake_at(struct transport *transport, int64_t due_ns)
{
    if (due_ns < transport->timer_ns) {
        transport->timer_ns = due_ns;
        clock_timer_set(transport->timer, due_ns);
    }
}

/* A broken link is freed at the end of the dispatch: events that epoll returned may be about it. */
static inline void transport_bury(struct transport *transport, struct transport_link *link)
{
    link->next = transport->graves;
    transport->graves = link;
}

/* It dials from now on; index: NONE for the agent itself. NULL: NNG would not. */
struct transport_peer *transport_peer_create(struct transport *transport, const char *address,
                                             const char *name, uint32_t index);
/* NULL is allowed. Waits until NNG's thread has left it. */
void transport_peer_destroy(struct transport_peer *peer);
void transport_peer_dial(struct transport_peer *peer);
/* Notes why a dial came to nothing: NNG's error. */
void transport_peer_note(struct transport_peer *peer, int error);
/* Sets the credentials with which it dials from now on. false: no memory; it keeps the ones that it
 * has. */
bool transport_peer_secure(struct transport_peer *peer,
                           const struct transport_credentials *credentials);
/* All of them. false: no memory; some have the new ones. */
bool transport_peers_secure(struct transport *transport,
                            const struct transport_credentials *credentials);
/* The end of a dispatch: the forgotten ones are freed. */
void transport_peers_bury(struct transport *transport);
/* All of them. */
void transport_peers_destroy(struct transport *transport);

#endif
