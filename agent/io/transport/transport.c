/*
 * Packets between agents, over NNG: see io/transport.h.
 *
 * Everything here runs on the loop's thread. One epoll descriptor is readable when there is
 * something to do: a connection can receive, an operation on NNG's threads has ended (op.h), or a
 * timer is due. transport_dispatch() handles all three. link.c has the work of one connection. This
 * file decides which connections there are.
 *
 * A peer is dialled until there is a link. When the link breaks, its queued packets are lost (they
 * would arrive too late to help), and the peer is dialled again after a pause. The pause doubles
 * from 20 ms up to half a second. The transport closes a dial without an answer, and a connection
 * whose other end does not greet, after a few seconds.
 *
 * With TLS the handshake is part of the greeting. On a machine without free processor time the
 * handshake would never finish if it always began anew. So after each such failure a dialler waits
 * twice as long, up to six times the first wait. A listener waits six times as long from the
 * beginning, unless there are many strangers.
 *
 * A broken link is closed where the fault is noticed, and freed at the end of the dispatch: events
 * that epoll has returned may name it, and a handler may send on it.
 *
 * transport_close() ends the listener and the dialers first, then the links. Each end waits until
 * NNG's callback has run.
 */
#include "io/transport.h"

#include <errno.h>
#include <nng/nng.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#include "nng.h"
#include "private.h"
#include "proto/check.h"

enum {
    EVENTS_MAX = 64,    /* how many events are taken from epoll at once */
    TURN_OPS_MAX = 256, /* how many operations are handled in one dispatch */
    CHECK_MS_DEFAULT = 10000,
    GREET_MS_DEFAULT = 5000,
    GUEST_MS_DEFAULT = 60000,
    GREETS_MAX = 6, /* the longest wait for a TLS handshake, as a multiple of greet_ns */
    TEXT_MAX = 160,
};

static const int64_t ms_ns = 1000000;
static const int64_t redial_max_ns = 500000000;
static const int64_t accept_again_ns = 100000000;
static const int64_t check_grace_ns =
    5000000000; /* how long the agent may take to reach its own inbox */
static const int64_t check_late_ns =
    1000000000; /* if a check ends later than this, it reports nothing: this process stood still */

/* ---- reporting ---- */

static void log_link(struct transport *transport, const char *event, const char *address,
                     const char *text)
{
    transport->handler.trouble(transport->handler.arg, event, address, text);
}

/* Returns whether an event may be logged now. If so, forbids the next line for check_ns. */
static bool may_log(const struct transport *transport, int64_t *quiet_until_ns)
{
    int64_t now_ns = clock_boottime_ns();

    if (now_ns < *quiet_until_ns) {
        return false;
    }
    *quiet_until_ns = now_ns + transport->check_ns;
    return true;
}

/* Reports why a link broke, if a person should know it. peer: the peer that was dialled; NULL: the
 * other end dialled. */
static void log_broken(struct transport *transport, const struct transport_link *link,
                       struct transport_peer *peer)
{
    int64_t *quiet = peer != NULL ? &peer->quiet_until_ns : &transport->quiet_until_ns;
    char text[TEXT_MAX];

    if (link->reason != NULL) {
        const char *address = peer != NULL ? peer->address : link->remote;

        if (link->foreign) {
            snprintf(text, sizeof text, "%s: %u, this agent at most %u", link->reason,
                     link->version, link->newest);
        } else {
            snprintf(text, sizeof text, "%s", link->reason);
        }
        if (peer == NULL || may_log(transport, quiet)) {
            log_link(transport, "greeting_refused", address, text);
        }
    } else if (link->greet_by_ns != 0 && link->secure &&
               (link->error == NNG_EPEERAUTH || link->error == NNG_ECRYPTO) &&
               may_log(transport, quiet)) {
        if (peer != NULL) {
            snprintf(
                text, sizeof text,
                "its certificate is not %s%s of the cell's CA, or not valid now, or it refuses "
                "this agent's",
                peer->name[0] != '\0' ? "that of " : "one", peer->name);
        } else {
            snprintf(text, sizeof text,
                     "%s connected without a certificate of the cell's CA that is valid now, or "
                     "refuses this agent's",
                     link->remote);
        }
        log_link(transport, "tls_refused", peer != NULL ? peer->address : transport->listen, text);
    }
}

/* ---- links ---- */

static void dial_later(struct transport_peer *peer)
{
    peer->dial_at_ns = clock_boottime_ns() + peer->pause_ns;
    peer->pause_ns = peer->pause_ns < redial_max_ns / 2 ? 2 * peer->pause_ns : redial_max_ns;
    transport_wake_at(peer->transport, peer->dial_at_ns);
}

/* Notes why a connection broke, or did not come up. */
static void note_broken(struct transport_peer *peer)
{
    const struct transport_link *link = peer->link;
    bool refused = link->secure && (link->error == NNG_EPEERAUTH || link->error == NNG_ECRYPTO);

    snprintf(peer->why, sizeof peer->why, "%s",
             refused                ? "no TLS handshake succeeds with it"
             : link->reason != NULL ? "it sends no greeting that this agent understands"
             : peer->up             ? "the connection was closed"
                                    : "it closes connections before it has sent a greeting");
}

static void peer_down(struct transport_peer *peer)
{
    struct transport *transport = peer->transport;
    bool logged = peer->up && peer != transport->self;

    log_broken(transport, peer->link, peer);
    note_broken(peer);
    peer->newest = peer->link->older ? TRANSPORT_VERSION_FIRST : transport->version;
    peer->pause_ns = peer->link->older ? TRANSPORT_REDIAL_MIN_NS : peer->pause_ns;
    transport_bury(transport, peer->link);
    peer->link = NULL;
    peer->up = false;
    dial_later(peer);
    if (logged) {
        transport->handler.link(transport->handler.arg, peer->index, false);
    }
}

static void peer_came(struct transport_peer *peer)
{
    struct transport *transport = peer->transport;

    peer->up = true;
    peer->why[0] = '\0';
    peer->ups++;
    peer->pause_ns = TRANSPORT_REDIAL_MIN_NS;
    peer->greet_ns = transport->greet_ns;
    peer->link->greet_by_ns = 0;
    if (peer != transport->self) {
        transport->handler.link(transport->handler.arg, peer->index, true);
    }
}

static void inbound_gone(struct transport *transport, struct transport_link *link)
{
    log_broken(transport, link, NULL);
    transport_inbox_remove(&transport->inbox, link);
    transport->full = false;
    transport_bury(transport, link);
}

static void log_full(struct transport *transport)
{
    if (!transport->full) {
        transport->full = true;
        log_link(transport, "inbox_full", transport->listen,
                 "all connections of the inbox are in use: further ones are closed");
    }
}

/* Handles a valid packet. If the packet made the link's sender known, another link may have to be
 * closed. */
static void inbound_received(struct transport *transport, struct transport_link *link)
{
    bool first = !link->known;
    struct transport_link *rival = NULL;

    link->received = false;
    link->seen_ns = clock_boottime_ns();
    if (first) {
        link->known = true;
        rival = transport_inbox_rival(&transport->inbox, link, link->seen_ns);
    }
    if (rival != NULL) {
        bool full = transport->full;
        transport_link_break(rival, NNG_ETIMEDOUT, NULL);
        inbound_gone(transport, rival);
        transport->full = full && rival == link;
    }
    if (rival == link) {
        log_full(transport);
    }
}

/* Handles what has happened to a link: it broke, came up, or received a valid packet. */
static void settle(struct transport *transport, struct transport_link *link)
{
    struct transport_peer *peer = link->owner;

    if (link->received && link->state != TRANSPORT_LINK_BROKEN) {
        inbound_received(transport, link);
        if (link->state == TRANSPORT_LINK_BROKEN) {
            return; /* the link got no place in the inbox */
        }
    }

    if (link->state == TRANSPORT_LINK_BROKEN) {
        if (peer != NULL) {
            peer_down(peer);
        } else {
            inbound_gone(transport, link);
        }
    } else if (link->state == TRANSPORT_LINK_UP && link->greet_by_ns != 0) {
        if (peer != NULL) {
            peer_came(peer);
        } else {
            link->greet_by_ns = 0;
            transport->inbox.strangers--;
            transport_wake_at(transport, link->seen_ns + transport->guest_ns);
        }
    }
}

static void on_packet(void *arg, struct transport_link *link, const void *bytes, size_t size)
{
    struct transport *transport = arg;
    struct transport_sender sender;

    transport->counts.packets_received++;
    transport->counts.bytes_received += size;
    sender = transport->handler.packet(transport->handler.arg, bytes, size, link->certified,
                                       link->remote);
    link->received = link->received || sender.name != 0;
    link->sender = link->sender.name == 0 ? sender : link->sender;
}

/* ---- accepting ---- */

static void accept_begin(struct transport *transport)
{
    transport->accepting = true;
    transport->accept_at_ns = INT64_MAX;
    transport_op_begin(&transport->accept, 0);
    nng_stream_listener_accept(transport->listener, transport->accept.aio);
}

/* If there is no room for a newcomer, closes a link to make room. Returns false if no link may be
 * closed for that. */
static bool make_room(struct transport *transport)
{
    struct transport_inbox *inbox = &transport->inbox;
    struct transport_link *victim;

    if (inbox->count < inbox->max && inbox->strangers < TRANSPORT_STRANGERS_MAX) {
        return true;
    }
    victim = transport_inbox_victim(inbox, clock_boottime_ns());
    if (victim == NULL) {
        return false;
    }
    transport_link_break(
        victim, NNG_ETIMEDOUT,
        victim->sender.name == 0 ? "it sent nothing, and other senders want to connect" : NULL);
    inbound_gone(transport, victim);
    return true;
}

static void inbound_came(struct transport *transport, nng_stream *stream)
{
    struct transport_link *link;

    if (!make_room(transport)) {
        nng_stream_close(stream);
        nng_stream_free(stream);
        log_full(transport);
        return;
    }
    link = transport_link_create(
        &transport->links, stream,
        (struct transport_link_start){.secure = transport->secure, .newest = transport->version},
        NULL);
    if (link != NULL) {
        link->round = transport->round; /* so a new link gets no turn in the present round */
        link->seen_ns = clock_boottime_ns();
        link->greet_by_ns = link->seen_ns + transport->greet_ns;
        transport_inbox_add(&transport->inbox, link);
        transport_wake_at(transport, link->greet_by_ns);
        settle(transport, link);
    }
}

static void accept_done(struct transport *transport)
{
    nng_aio *aio = transport->accept.aio;

    transport->accepting = false;
    if (nng_aio_result(aio) != 0) { /* for example, no descriptor is free */
        transport->accept_at_ns = clock_boottime_ns() + accept_again_ns;
        transport_wake_at(transport, transport->accept_at_ns);
        return;
    }
    nng_stream *stream = nng_aio_get_output(aio, 0);
    transport->accepts++;
    accept_begin(transport);
    inbound_came(transport, stream);
}

/* ---- peers ---- */

static void dial_done(struct transport_peer *peer)
{
    struct transport *transport = peer->transport;
    nng_aio *aio = peer->dial.aio;
    int result = nng_aio_result(aio);

    peer->dialling = false;
    if (result == 0) {
        peer->link = transport_link_create(
            &transport->links, nng_aio_get_output(aio, 0),
            (struct transport_link_start){
                .dialled = true, .secure = transport_is_tls(peer->address), .newest = peer->newest},
            peer);
    }
    if (peer->link == NULL) {
        transport_peer_note(peer, result != 0 ? result : NNG_ENOMEM);
        peer->newest = transport->version; /* an agent that comes back may be a newer release */
        dial_later(peer);
        return;
    }
    peer->link->round = transport->round;
    peer->link->greet_by_ns = clock_boottime_ns() + peer->greet_ns;
    transport_wake_at(transport, peer->link->greet_by_ns);
    settle(transport, peer->link);
}

bool transport_is_deaf(const struct transport *transport)
{
    return transport->deaf;
}

bool transport_send(struct transport *transport, uint32_t index, const void *bytes, size_t size)
{
    struct transport_link *link = transport_is_up(transport, index) ? transport->peers[index]->link
                                                                    : NULL;
    bool sent = link != NULL && transport_link_send(link, bytes, size);

    if (link != NULL && link->state == TRANSPORT_LINK_BROKEN) {
        transport_wake_at(transport, 0); /* the next dispatch reports the broken link, because a
                                          * send must not call the handler */
    }
    if (!sent) {
        transport->counts.packets_lost++;
        return false;
    }
    transport->counts.packets_sent++;
    transport->counts.bytes_sent += size;
    return true;
}

struct transport_counts transport_counts(const struct transport *transport)
{
    return transport->counts;
}

/* ---- due times ---- */

static int64_t min_ns(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Returns whether the listener accepts and only the check's TLS handshake is slow: the handshake is
 * under way, or the last one took too long. In this case the check goes on. */
static bool check_is_slow(const struct transport *transport, int64_t now_ns)
{
    const struct transport_peer *self = transport->self;
    bool greeting = self->link != NULL && self->link->greet_by_ns != 0;

    return transport->secure && transport->accepts != transport->checked_accepts &&
           (greeting || self->greet_ns > transport->greet_ns) &&
           now_ns - transport->checked_ns < 2 * GREETS_MAX * transport->greet_ns;
}

/* Begins or ends a check. To begin it, closes the agent's link to itself, which is then dialled
 * anew. To end it, a grace period later, looks whether that link is up. */
static void check_due(struct transport *transport, int64_t now_ns)
{
    struct transport_peer *self = transport->self;
    int64_t late_ns = now_ns - transport->check_at_ns;

    transport->check_at_ns = now_ns + check_grace_ns;
    if (!transport->checking) {
        transport->checking = true;
        transport->checked_ns = now_ns;
        transport->checked_ups = self->ups;
        transport->checked_accepts = transport->accepts;
        if (self->link != NULL) {
            transport_link_break(self->link, NNG_ECLOSED, NULL);
        }
    } else if (self->up && self->ups != transport->checked_ups) {
        transport->checking = false;
        transport->check_at_ns = now_ns + transport->check_ns;
        if (transport->deaf) {
            transport->deaf = false;
            log_link(transport, "inbox_reachable", transport->listen, "it accepts again");
        }
    } else if (!transport->deaf && late_ns < check_late_ns && !check_is_slow(transport, now_ns)) {
        transport->deaf = true;
        log_link(transport, "inbox_unreachable", transport->listen,
                 transport->secure
                     ? "the agent cannot reach its own inbox; expected an answer within 5 s, or a "
                       "minute if it accepts"
                     : "the agent cannot reach its own inbox; expected an answer within 5 s");
    }
}

/* Does everything that is due for the peer. Returns when something will be due next. */
static int64_t peer_due(struct transport_peer *peer, int64_t now_ns)
{
    struct transport_link *link = peer->link;

    if (peer->dial_at_ns <= now_ns) {
        transport_peer_dial(peer);
    }
    if (link != NULL && link->greet_by_ns != 0 && link->greet_by_ns <= now_ns) {
        transport_link_break(link, NNG_ETIMEDOUT,
                             NULL); /* no reason to log: the other end may be stopped, or far
                                     * away */
        if (link->secure) {
            peer->greet_ns = min_ns(2 * peer->greet_ns, GREETS_MAX * peer->transport->greet_ns);
        }
    }
    if (link != NULL && link->state == TRANSPORT_LINK_BROKEN) {
        peer_down(peer);
    }
    if (peer->link != NULL && peer->link->greet_by_ns != 0) {
        return peer->link->greet_by_ns;
    }
    return peer->dial_at_ns;
}

/* Closes links that did not greet in time, and links that sent no valid packet in time. Returns
 * when to look again. The timer also fires greet_ns after each newcomer, so a large number of
 * strangers is noticed soon. */
static int64_t inbound_due(struct transport *transport, int64_t now_ns)
{
    struct transport_inbox *inbox = &transport->inbox;
    bool patient = transport->secure && inbox->strangers <= TRANSPORT_STRANGERS_FEW;
    const int64_t greet_ns = (patient ? GREETS_MAX : 1) * transport->greet_ns;
    const char *mute = patient ? "it sent nothing that an agent sends, for 30 s"
                               : "it sent nothing that an agent sends, for 5 s";
    int64_t next_ns = INT64_MAX;
    uint32_t i = 0;

    while (i < inbox->count) {
        struct transport_link *link = inbox->links[i];
        bool stranger = link->greet_by_ns != 0;
        int64_t due_ns = link->seen_ns + (stranger ? greet_ns : transport->guest_ns);

        if (!stranger && link->known) {
            i++;
        } else if (due_ns <= now_ns) {
            transport_link_break(link, NNG_ETIMEDOUT,
                                 stranger ? mute : "it greeted, and then sent no valid packet");
            inbound_gone(transport, link); /* links[i] is another link now */
        } else {
            next_ns = min_ns(next_ns, due_ns);
            i++;
        }
    }
    return next_ns;
}

static void timer_due(struct transport *transport)
{
    int64_t now_ns = clock_boottime_ns();
    int64_t next_ns;

    clock_timer_drain(transport->timer);
    transport->timer_ns = INT64_MAX;
    if (transport->accept_at_ns <= now_ns) {
        accept_begin(transport);
    }
    if (transport->check_at_ns <= now_ns) {
        check_due(transport, now_ns);
    }
    next_ns = min_ns(min_ns(transport->accept_at_ns, transport->check_at_ns),
                     inbound_due(transport, now_ns));
    next_ns = min_ns(next_ns, peer_due(transport->self, now_ns));
    for (uint32_t i = 0; i < transport->peer_count; i++) {
        if (transport->peers[i] != NULL) {
            next_ns = min_ns(next_ns, peer_due(transport->peers[i], now_ns));
        }
    }
    transport_wake_at(transport, next_ns);
}

/* ---- dispatching ---- */

static void link_worked(struct transport *transport, struct transport_op *op)
{
    struct transport_link *link = op->owner;

    if (link->state != TRANSPORT_LINK_BROKEN) { /* a broken link is freed at the end of a
                                                 * dispatch */
        transport_link_worked(link, op->kind);
        settle(transport, link);
    }
}

/* Handles operations that have ended. Those that are left stay queued for the next dispatch. */
static void ops_done(struct transport *transport, int64_t end_ns)
{
    for (uint32_t i = 0; i < TURN_OPS_MAX && (i == 0 || clock_boottime_ns() < end_ns); i++) {
        struct transport_op *op = transport_ops_take(&transport->ops);

        if (op == NULL) {
            return;
        }
        switch (op->kind) {
        case TRANSPORT_OP_ACCEPT:
            accept_done(transport);
            break;
        case TRANSPORT_OP_DIAL:
            if (!((struct transport_peer *)op->owner)->gone) {
                dial_done(op->owner);
            }
            break;
        case TRANSPORT_OP_RECEIVE:
        case TRANSPORT_OP_SEND:
            link_worked(transport, op);
            break;
        }
    }
}

static void links_bury(struct transport *transport)
{
    while (transport->graves != NULL) {
        struct transport_link *link = transport->graves;

        transport->graves = link->next;
        transport_link_destroy(link);
    }
}

/* Gives each link that is ready a turn, until the time is over. In one round every link has one
 * turn before any link has a second. If the last dispatch ran out of time, each link receives only
 * once. */
void transport_dispatch(struct transport *transport)
{
    struct epoll_event events[EVENTS_MAX];
    int64_t end_ns = clock_boottime_ns() + TRANSPORT_TURN_MS * ms_ns;
    int count = epoll_wait(transport->epoll, events, EVENTS_MAX, 0);
    bool busy = transport->busy;
    bool over = false;
    bool timer = false;
    bool left = false;

    for (int i = 0; i < count; i++) {
        struct transport_link *link = events[i].data.ptr;

        if (events[i].data.ptr == &transport->timer) {
            timer = true; /* handled last, so that packets that came in time are read before time
                           * limits are checked */
        } else if (events[i].data.ptr == &transport->ops) {
            ops_done(transport, end_ns);
        } else if (link->round == transport->round || link->state == TRANSPORT_LINK_BROKEN) {
            continue;
        } else if (over) {
            left = true;
        } else {
            link->round = transport->round;
            transport_link_ready(link, events[i].events, busy);
            settle(transport, link);
            over = clock_boottime_ns() >= end_ns;
        }
    }
    transport->busy = over;
    transport->round += !left;
    if (timer) {
        timer_due(transport);
    }
    links_bury(transport);
    transport_peers_bury(transport);
}

int transport_fd(const struct transport *transport)
{
    return transport->epoll;
}

/* ---- opening, closing ---- */

/* Writes the error text. Returns false, with errno as transport_open() documents it. */
static bool failed(char *error, const char *address, int result)
{
    errno = result == NNG_ENOMEM || result == NNG_ENOFILES ? ENOMEM : EINVAL;
    /* EINVAL: an IPv6 address with local scope; without its interface, no socket can have it */
    bool foreign = result == NNG_EADDRINVAL || result == NNG_EINVAL;
    snprintf(error, TRANSPORT_ERROR_MAX, "%s: %s%s", address,
             foreign ? "no such address: expected an address of this host (see ip address), or "
                       "0.0.0.0 or [::] for all of them"
                     : nng_strerror(result),
             result == NNG_EADDRINUSE ? ": does another agent run here?" : "");
    return false;
}

/* Makes the epoll descriptor that the loop waits for. */
static bool events_init(struct transport *transport, char *error)
{
    struct epoll_event timer = {.events = EPOLLIN, .data = {.ptr = &transport->timer}};
    struct epoll_event ops = {.events = EPOLLIN, .data = {.ptr = &transport->ops}};

    bool made = transport_ops_init(&transport->ops);
    transport->epoll = epoll_create1(EPOLL_CLOEXEC);
    transport->timer = clock_timer_open();
    if (!made || transport->epoll < 0 || transport->timer < 0 ||
        epoll_ctl(transport->epoll, EPOLL_CTL_ADD, transport->timer, &timer) != 0 ||
        epoll_ctl(transport->epoll, EPOLL_CTL_ADD, transport->ops.event, &ops) != 0) {
        snprintf(error, TRANSPORT_ERROR_MAX, "descriptors for events: %s", strerror(errno));
        return false;
    }
    return true;
}

static bool listen_start(struct transport *transport, const char *listen, char *error)
{
    int result = nng_stream_listener_alloc(&transport->listener, listen);

    if (result == 0 && transport->secure) {
        result = nng_stream_listener_set_ptr(transport->listener, NNG_OPT_TLS_CONFIG,
                                             transport_credentials_server(transport->credentials));
    }
    if (result == 0) {
        result = nng_stream_listener_listen(transport->listener);
    }
    if (result == 0 &&
        !transport_op_init(&transport->accept, &transport->ops, TRANSPORT_OP_ACCEPT, transport)) {
        result = NNG_ENOMEM;
    }
    if (result != 0) {
        return failed(error, listen, result);
    }
    accept_begin(transport);
    return true;
}

static bool links_init(struct transport *transport, const struct transport_config *config,
                       char *error)
{
    char own[TRANSPORT_ADDRESS_SIZE];

    transport->links = (struct transport_links){
        .ops = &transport->ops,
        .epoll = transport->epoll,
        .packet_max = config->packet_max,
        .arg = transport,
        .packet = on_packet,
    };
    transport_own_address(config->listen, own);
    if (nng_aio_alloc(&transport->links.now, NULL, NULL) != 0) {
        return failed(error, own, NNG_ENOMEM);
    }
    transport->self = transport_peer_create(transport, own, config->name, TRANSPORT_PEER_NONE);
    return transport->self != NULL || failed(error, own, NNG_ENOMEM);
}

bool transport_tls_renew(struct transport *transport, char *error)
{
    const char *name = transport->name[0] != '\0' ? transport->name : NULL;
    const int64_t now_s = (int64_t)time(NULL);
    struct transport_credentials *fresh;
    bool good;

    if (transport->credentials == NULL) {
        return true;
    }
    fresh = transport_credentials_load(&transport->tls, name, error);
    if (fresh == NULL) {
        return false;
    }
    if (!transport_credentials_are_good(fresh, now_s) &&
        transport_credentials_are_good(transport->credentials, now_s)) {
        snprintf(error, TRANSPORT_ERROR_MAX,
                 "%.200s: found a certificate that is out of date (or not valid yet), and the one "
                 "in use is valid",
                 transport->tls.cert);
        transport_credentials_free(fresh);
        return false;
    }
    good = nng_stream_listener_set_ptr(transport->listener, NNG_OPT_TLS_CONFIG,
                                       transport_credentials_server(fresh)) == 0 &&
           transport_peers_secure(transport, fresh);
    if (!good) { /* some dialers have the new files and some the old ones, and both work */
        snprintf(error, TRANSPORT_ERROR_MAX, "TLS: out of memory");
    }
    transport_credentials_free(transport->credentials);
    transport->credentials = fresh;
    nng_aio_cancel(transport->accept.aio); /* the accept was begun with the old files, so it is
                                            * begun anew */
    return good;
}

struct transport_tls_times transport_tls_times(const struct transport *transport)
{
    return transport->credentials == NULL ? (struct transport_tls_times){.end_s = 0}
                                          : transport_credentials_times(transport->credentials);
}

struct transport *transport_open(const struct transport_config *config,
                                 const struct transport_handler *handler, char *error)
{
    struct transport *transport;
    sigset_t before;
    bool opened;

    if (!transport_config_check(config, error)) {
        errno = EINVAL;
        return NULL;
    }
    transport = calloc(1, sizeof *transport);
    if (transport == NULL) {
        (void)failed(error, config->listen, NNG_ENOMEM);
        return NULL;
    }
    transport->handler = *handler;
    transport->secure = transport_is_tls(config->listen);
    transport->version = config->version != 0 ? config->version : TRANSPORT_VERSION_FIRST;
    transport->inbox.max = config->inbound_max != 0 && config->inbound_max < TRANSPORT_INBOUND_MAX
                               ? config->inbound_max
                               : TRANSPORT_INBOUND_MAX;
    transport->greet_ns = (config->greet_ms != 0 ? config->greet_ms : GREET_MS_DEFAULT) * ms_ns;
    transport->guest_ns = (config->guest_ms != 0 ? config->guest_ms : GUEST_MS_DEFAULT) * ms_ns;
    transport->check_ns = (config->check_ms != 0 ? config->check_ms : CHECK_MS_DEFAULT) * ms_ns;
    transport->check_at_ns = clock_boottime_ns() + transport->check_ns;
    transport->timer_ns = INT64_MAX;
    snprintf(transport->listen, sizeof transport->listen, "%s", config->listen);
    transport->tls = config->tls;
    snprintf(transport->name, sizeof transport->name, "%s",
             config->name != NULL ? config->name : "");
    transport_threads_deafen(&before);
    opened = events_init(transport, error) &&
             (config->tls.ca == NULL || (transport->credentials = transport_credentials_load(
                                             &config->tls, config->name, error)) != NULL) &&
             listen_start(transport, config->listen, error) && links_init(transport, config, error);
    int why = errno;
    transport_threads_hold();
    transport_threads_restore(&before);
    if (!opened) {
        transport_close(transport);
        errno = why;
        return NULL;
    }
    transport_wake_at(transport, transport->check_at_ns);
    return transport;
}

static void listen_stop(struct transport *transport)
{
    struct transport_op *accept = &transport->accept;

    if (transport->listener == NULL) {
        return;
    }
    nng_stream_listener_close(transport->listener);
    transport_op_stop(accept);
    if (transport->accepting &&
        nng_aio_result(accept->aio) == 0) { /* the accept succeeded, and no one took its stream */
        nng_stream_close(nng_aio_get_output(accept->aio, 0));
        nng_stream_free(nng_aio_get_output(accept->aio, 0));
    }
    transport_op_fini(accept);
    nng_stream_listener_free(transport->listener);
}

void transport_close(struct transport *transport)
{
    if (transport == NULL) {
        return;
    }
    listen_stop(transport);
    links_bury(transport);
    transport_peers_destroy(transport);
    for (uint32_t i = 0; i < transport->inbox.count; i++) {
        transport_link_destroy(transport->inbox.links[i]);
    }
    nng_aio_free(transport->links.now);
    transport_credentials_free(transport->credentials);
    transport_ops_fini(&transport->ops);
    if (transport->timer >= 0) {
        close(transport->timer);
    }
    if (transport->epoll >= 0) {
        close(transport->epoll);
    }
    transport_threads_release();
    free(transport);
}
