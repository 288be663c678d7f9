/*
 * Packets between agents, over NNG: see io/transport.h.
 *
 * What NNG's threads do here is little. A received message goes into a ring; a link's pipe that
 * came or went is noted with its peer; trouble goes into a short list. All under one mutex, and
 * whoever makes the first of it writes an eventfd. transport_dispatch() takes everything over at
 * once and calls the handler with the mutex free.
 *
 * One receive is outstanding: with more of them, two messages of one link may be handed over by two
 * threads, the later one first. If it finds the ring full it is not started again until the ring
 * was emptied: then NNG keeps one message a link, and TCP's flow control holds back the rest.
 *
 * A link that breaks loses what was queued for it: a packet that arrives when the world has moved
 * on helps nobody.
 *
 * A host that vanished, or a link that was cut, must not hold up a link for as long as the kernel's
 * defaults do: they double the pause between two tries, so a link that was cut for a minute would
 * be back a minute late. So a little after a link came or went, and each second while one is
 * absent, bound_due() goes over the process's TCP sockets and bounds that.
 *
 * Closing: callbacks of ours are stopped first, then each socket is closed, which waits until no
 * callback of its pipes runs; only then is memory freed. Dialers and the listener are never closed
 * on their own.
 */
#include "io/transport.h"

#include <errno.h>
#include <nng/nng.h>
#include <nng/protocol/pipeline0/pull.h>
#include <nng/protocol/pipeline0/push.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "proto/check.h"
#include "transport_setup.h"
#include "transport_threads.h"

enum {
    RING_SIZE = 1024, /* messages */
    RING_BYTES_MAX = 16 * 1024 * 1024,
    SEND_QUEUE = 256, /* packets a peer */
    REDIAL_MIN_MS = 20,
    REDIAL_MAX_MS = 1000,
    TROUBLES_MAX = 16,
    REMOTES = 256, /* cached; a power of two */
    CHECK_MS_DEFAULT = 10000,
    BOUND_SOON_MS = 300,
    BOUND_EVERY_MS = 1000,
    CHECK_GRACE_MS = 5000, /* for the agent to reach its own inbox */
    TEXT_MAX = 160,
};

struct peer {
    struct transport *transport;
    uint32_t index;
    nng_socket socket;
    nng_dialer dialer;
    char address[TRANSPORT_ADDRESS_SIZE];
    /* Under the mutex: */
    uint32_t pipe; /* its number; 0: none */
    uint32_t gone; /* the number of the last pipe that went */
    uint32_t ups;  /* how often one came */
    bool noted;    /* is in transport.noted */
    /* The loop's: */
    uint32_t ups_told;
    bool up_told;
    uint64_t refused; /* by TLS, as far as reported */
};

struct trouble {
    const char *event;
    char address[TRANSPORT_ADDRESS_SIZE];
    char text[TEXT_MAX];
};

struct remote {
    uint32_t pipe;
    char text[TRANSPORT_REMOTE_MAX];
};

/* What a noted peer's link is now. */
struct news {
    struct peer *peer;
    bool up;
    uint32_t ups;
};

/* What waits for transport_dispatch(). */
struct inbox {
    uint32_t count;
    size_t bytes;
    nng_msg *messages[RING_SIZE];
};

struct transport {
    struct transport_handler handler;
    nng_socket socket; /* PULL */
    nng_listener listener;
    nng_tls_config *server; /* NULL: no TLS, both */
    nng_tls_config *client;
    nng_aio *receive;
    nng_aio *send; /* the loop's */
    nng_aio *bound;
    struct peer *self; /* of the listener's check */
    nng_aio *check;
    uint32_t check_ms;
    char listen[TRANSPORT_ADDRESS_SIZE];
    int event;

    pthread_mutex_t mutex;
    bool closing;          /* this and all down to deaf: under the mutex */
    bool signalled;        /* the descriptor is readable, or about to be */
    bool parked;           /* the receive was not started again */
    bool bounding;         /* bound_due() will come */
    uint32_t absent_count; /* of peers without a pipe */
    struct inbox *filling;
    uint32_t noted_count;
    struct peer *noted[TRANSPORT_PEERS_MAX]; /* their link came or went */
    uint32_t trouble_count;
    struct trouble troubles[TROUBLES_MAX];
    uint32_t checked_ups; /* of self, when its link was closed to be made anew */
    bool checking;        /* its link was closed, or was not there at the last look */
    bool deaf;            /* the listener, as reported */
    bool look;            /* it is time to look for peers that TLS refused */

    struct inbox *emptying; /* the loop's, as all that follows */
    struct inbox inboxes[2];
    uint32_t peer_count;
    struct peer *peers[TRANSPORT_PEERS_MAX];
    struct news news[TRANSPORT_PEERS_MAX];
    struct remote remotes[REMOTES];
    struct transport_counts counts;
    uint64_t refused; /* connections to the listener, by TLS, as far as reported */
};

/* ---- telling the loop ---- */

/* With the mutex. true: the caller is to call wake() without it. */
static bool must_wake(struct transport *transport)
{
    bool first = !transport->signalled;

    transport->signalled = true;
    return first;
}

static void wake(struct transport *transport)
{
    uint64_t one = 1;

    HF_CHECK(write(transport->event, &one, sizeof one) == (ssize_t)sizeof one);
}

/* With the mutex. One that finds the list full is dropped: those before it say enough. */
static void note_trouble(struct transport *transport, const char *event, const char *address,
                         const char *text)
{
    struct trouble *trouble;

    if (transport->trouble_count == TROUBLES_MAX) {
        return;
    }
    trouble = &transport->troubles[transport->trouble_count++];
    trouble->event = event;
    snprintf(trouble->address, sizeof trouble->address, "%s", address);
    snprintf(trouble->text, sizeof trouble->text, "%s", text);
}

/* ---- on NNG's threads ---- */

static void received(void *arg)
{
    struct transport *transport = arg;
    int result = nng_aio_result(transport->receive);
    nng_msg *message = result == 0 ? nng_aio_get_msg(transport->receive) : NULL;
    struct inbox *inbox;
    bool again;
    bool first;

    if (result == NNG_ECLOSED || result == NNG_ECANCELED) {
        return;
    }
    pthread_mutex_lock(&transport->mutex);
    inbox = transport->filling;
    if (message != NULL) {
        HF_CHECK(inbox->count < RING_SIZE);
        inbox->messages[inbox->count++] = message;
        inbox->bytes += nng_msg_len(message);
    }
    /* Without a message: no memory, or the like; tried again when the loop comes by. */
    again = message != NULL && !transport->closing && inbox->count < RING_SIZE &&
            inbox->bytes < RING_BYTES_MAX;
    transport->parked = !again;
    first = must_wake(transport);
    pthread_mutex_unlock(&transport->mutex);
    if (first) {
        wake(transport);
    }
    if (again) {
        nng_recv_aio(transport->socket, transport->receive);
    }
}

/* Lets bound_due() come. */
static void bound_soon(struct transport *transport)
{
    bool start;

    pthread_mutex_lock(&transport->mutex);
    start = !transport->bounding && !transport->closing;
    transport->bounding = transport->bounding || start;
    pthread_mutex_unlock(&transport->mutex);
    if (start) {
        nng_sleep_aio(BOUND_SOON_MS, transport->bound);
    }
}

static void bound_due(void *arg)
{
    struct transport *transport = arg;
    bool again;

    if (nng_aio_result(transport->bound) != 0) {
        return; /* closing */
    }
    /* What changes from here on begins anew, or is seen below. */
    pthread_mutex_lock(&transport->mutex);
    again = transport->absent_count > 0 && !transport->closing;
    transport->bounding = again;
    pthread_mutex_unlock(&transport->mutex);
    transport_bound_waiting();
    if (again) {
        nng_sleep_aio(BOUND_EVERY_MS, transport->bound);
    }
}

/* A link's pipe came or went. Its going may overtake its coming. */
static void link_changed(nng_pipe pipe, nng_pipe_ev event, void *arg)
{
    struct peer *peer = arg;
    struct transport *transport = peer->transport;
    uint32_t id = (uint32_t)nng_pipe_id(pipe);
    bool first = false;

    pthread_mutex_lock(&transport->mutex);
    if (event == NNG_PIPE_EV_ADD_POST && peer->gone != id) {
        transport->absent_count -= peer->pipe == 0 ? 1 : 0;
        peer->pipe = id;
        peer->ups++;
    } else if (event == NNG_PIPE_EV_REM_POST) {
        transport->absent_count += peer->pipe == id ? 1 : 0;
        peer->gone = id;
        peer->pipe = peer->pipe == id ? 0 : peer->pipe;
    }
    if (peer != transport->self && !peer->noted) {
        peer->noted = true;
        transport->noted[transport->noted_count++] = peer;
        first = must_wake(transport);
    }
    pthread_mutex_unlock(&transport->mutex);
    if (first) {
        wake(transport);
    }
    bound_soon(transport);
}

/*
 * The listener's check, one step each check_ms or CHECK_GRACE_MS: closes the own link, so that it
 * is dialled anew; a grace later looks whether it is there again.
 */
static void check_due(void *arg)
{
    struct transport *transport = arg;
    struct peer *self = transport->self;
    uint32_t pipe = 0;
    bool first = false;
    uint32_t pause_ms = CHECK_GRACE_MS;

    if (nng_aio_result(transport->check) != 0) {
        return; /* closing */
    }
    pthread_mutex_lock(&transport->mutex);
    if (!transport->checking) {
        pipe = self->pipe;
        transport->checking = true;
        transport->checked_ups = pipe != 0 ? self->ups : self->ups - 1;
    } else if (self->ups != transport->checked_ups && self->pipe != 0) {
        transport->checking = false;
        pause_ms = transport->check_ms;
        if (transport->deaf) {
            transport->deaf = false;
            note_trouble(transport, "listener_hears", transport->listen, "it accepts again");
        }
    } else if (!transport->deaf) {
        transport->deaf = true;
        note_trouble(transport, "listener_deaf", transport->listen,
                     "the agent cannot reach its own inbox; expected an answer within 5 s");
    }
    transport->look = true;
    first = must_wake(transport);
    pthread_mutex_unlock(&transport->mutex);
    if (first) {
        wake(transport);
    }
    if (pipe != 0) {
        nng_pipe_close((nng_pipe){pipe});
    }
    nng_sleep_aio((nng_duration)pause_ms, transport->check);
}

/* ---- peers ---- */

/* Opened and dialling; index: NONE for the agent itself. NULL: NNG would not. */
static struct peer *peer_create(struct transport *transport, const char *address, uint32_t index)
{
    struct peer *peer = calloc(1, sizeof *peer);

    if (peer == NULL) {
        return NULL;
    }
    peer->transport = transport;
    peer->index = index;
    snprintf(peer->address, sizeof peer->address, "%s", address);
    if (nng_push0_open(&peer->socket) != 0) {
        free(peer);
        return NULL;
    }
    if (index == TRANSPORT_PEER_NONE) {
        transport->self = peer; /* before its link can come */
    }
    pthread_mutex_lock(&transport->mutex);
    transport->absent_count++;
    pthread_mutex_unlock(&transport->mutex);
    if (nng_socket_set_int(peer->socket, NNG_OPT_SENDBUF, SEND_QUEUE) != 0 ||
        nng_socket_set_ms(peer->socket, NNG_OPT_RECONNMINT, REDIAL_MIN_MS) != 0 ||
        nng_socket_set_ms(peer->socket, NNG_OPT_RECONNMAXT, REDIAL_MAX_MS) != 0 ||
        nng_pipe_notify(peer->socket, NNG_PIPE_EV_ADD_POST, link_changed, peer) != 0 ||
        nng_pipe_notify(peer->socket, NNG_PIPE_EV_REM_POST, link_changed, peer) != 0 ||
        nng_dialer_create(&peer->dialer, peer->socket, address) != 0 ||
        (transport_is_tls(address) &&
         nng_dialer_set_ptr(peer->dialer, NNG_OPT_TLS_CONFIG, transport->client) != 0) ||
        nng_dialer_start(peer->dialer, NNG_FLAG_NONBLOCK) != 0) {
        nng_close(peer->socket);
        transport->self = transport->self == peer ? NULL : transport->self;
        pthread_mutex_lock(&transport->mutex);
        transport->absent_count--;
        pthread_mutex_unlock(&transport->mutex);
        free(peer);
        return NULL;
    }
    bound_soon(transport);
    return peer;
}

/* NNG's threads must not take the signals that the loop waits for: they are made with all blocked
 * and inherit that. */
static void signals_block(sigset_t *before)
{
    sigset_t all;

    sigfillset(&all);
    HF_CHECK(pthread_sigmask(SIG_SETMASK, &all, before) == 0);
}

static void signals_restore(const sigset_t *before)
{
    HF_CHECK(pthread_sigmask(SIG_SETMASK, before, NULL) == 0);
}

uint32_t transport_peer(struct transport *transport, const char *address)
{
    sigset_t before;
    struct peer *peer;

    for (uint32_t i = 0; i < transport->peer_count; i++) {
        if (strcmp(transport->peers[i]->address, address) == 0) {
            return i;
        }
    }
    if (transport->peer_count == TRANSPORT_PEERS_MAX || transport_address_error(address) != NULL ||
        (transport_is_tls(address) && transport->client == NULL)) {
        return TRANSPORT_PEER_NONE;
    }
    signals_block(&before);
    peer = peer_create(transport, address, transport->peer_count);
    signals_restore(&before);
    if (peer == NULL) {
        return TRANSPORT_PEER_NONE;
    }
    transport->peers[transport->peer_count] = peer;
    return transport->peer_count++;
}

bool transport_is_up(const struct transport *transport, uint32_t peer)
{
    return peer < transport->peer_count && transport->peers[peer]->up_told;
}

bool transport_send(struct transport *transport, uint32_t index, const void *bytes, size_t size)
{
    nng_msg *message;

    if (!transport_is_up(transport, index) || nng_msg_alloc(&message, size) != 0) {
        transport->counts.packets_lost++;
        return false;
    }
    memcpy(nng_msg_body(message), bytes, size);
    /* As nng_sendmsg() would, but for an aio of its own each time, which costs a system call. */
    nng_aio_set_msg(transport->send, message);
    nng_send_aio(transport->peers[index]->socket, transport->send);
    nng_aio_wait(transport->send);
    if (nng_aio_result(transport->send) != 0) {
        nng_aio_set_msg(transport->send, NULL);
        nng_msg_free(message);
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

/* ---- dispatching ---- */

static const char *remote_of(struct transport *transport, nng_msg *message)
{
    nng_pipe pipe = nng_msg_get_pipe(message);
    uint32_t id = (uint32_t)nng_pipe_id(pipe);
    struct remote *remote = &transport->remotes[id % REMOTES];
    nng_sockaddr address;

    if (remote->pipe != id) {
        if (nng_pipe_get_addr(pipe, NNG_OPT_REMADDR, &address) != 0) {
            return "?"; /* it is gone already */
        }
        transport_remote_text(&address, remote->text);
        remote->pipe = id;
    }
    return remote->text;
}

static void deliver_packets(struct transport *transport)
{
    const struct transport_handler *handler = &transport->handler;
    struct inbox *inbox = transport->emptying;

    for (uint32_t i = 0; i < inbox->count; i++) {
        nng_msg *message = inbox->messages[i];
        size_t size = nng_msg_len(message);

        transport->counts.packets_received++;
        transport->counts.bytes_received += size;
        handler->packet(handler->arg, nng_msg_body(message), size, remote_of(transport, message));
        nng_msg_free(message);
    }
    inbox->count = 0;
    inbox->bytes = 0;
}

/* A link that went and came again between two looks is told as both. */
static void deliver_link(struct transport *transport, const struct news *news)
{
    const struct transport_handler *handler = &transport->handler;
    struct peer *peer = news->peer;

    if (peer->up_told && (!news->up || news->ups != peer->ups_told)) {
        peer->up_told = false;
        /* Made smaller, the queue drops what is in it. */
        (void)nng_socket_set_int(peer->socket, NNG_OPT_SENDBUF, 0);
        (void)nng_socket_set_int(peer->socket, NNG_OPT_SENDBUF, SEND_QUEUE);
        handler->link(handler->arg, peer->index, false);
    }
    if (!peer->up_told && news->up) {
        peer->up_told = true;
        peer->ups_told = news->ups;
        handler->link(handler->arg, peer->index, true);
    }
}

/* How many times TLS refused at a dialer or the listener, by NNG's count. */
static uint64_t refused_count(nng_stat *stat)
{
    nng_stat *refused = stat != NULL ? nng_stat_find(stat, "auth") : NULL;

    return refused != NULL ? nng_stat_value(refused) : 0;
}

/* NNG 1.5 logs nothing; what TLS refused is only in its counters. */
static void look_for_refused(struct transport *transport)
{
    const struct transport_handler *handler = &transport->handler;
    nng_stat *all;

    if (transport->server == NULL || nng_stats_get(&all) != 0) {
        return;
    }
    uint64_t count = refused_count(nng_stat_find_listener(all, transport->listener));
    if (count != transport->refused) {
        transport->refused = count;
        handler->trouble(handler->arg, "tls_refused", transport->listen,
                         "somebody connected without a certificate of the cell's CA");
    }
    for (uint32_t i = 0; i < transport->peer_count; i++) {
        struct peer *peer = transport->peers[i];

        count = refused_count(nng_stat_find_dialer(all, peer->dialer));
        if (count != peer->refused && !peer->up_told) {
            handler->trouble(handler->arg, "tls_refused", peer->address,
                             "its certificate is not of the cell's CA, or it refuses this agent's");
        }
        peer->refused = count;
    }
    nng_stats_free(all);
}

/* What the callbacks left, taken over in one go. */
struct taken {
    uint32_t news_count;
    uint32_t trouble_count;
    bool look;
    bool parked;
    struct trouble troubles[TROUBLES_MAX];
};

static void take_over(struct transport *transport, struct taken *taken)
{
    struct inbox *full;

    pthread_mutex_lock(&transport->mutex);
    full = transport->filling;
    transport->filling = transport->emptying;
    transport->emptying = full;
    taken->parked = transport->parked;
    transport->parked = false;
    taken->news_count = transport->noted_count;
    for (uint32_t i = 0; i < transport->noted_count; i++) {
        struct peer *peer = transport->noted[i];

        peer->noted = false;
        transport->news[i] = (struct news){.peer = peer, .up = peer->pipe != 0, .ups = peer->ups};
    }
    transport->noted_count = 0;
    taken->trouble_count = transport->trouble_count;
    memcpy(taken->troubles, transport->troubles, transport->trouble_count * sizeof(struct trouble));
    transport->trouble_count = 0;
    taken->look = transport->look;
    transport->look = false;
    transport->signalled = false;
    pthread_mutex_unlock(&transport->mutex);
}

void transport_dispatch(struct transport *transport)
{
    const struct transport_handler *handler = &transport->handler;
    struct taken taken;
    uint64_t value;

    if (read(transport->event, &value, sizeof value) < 0) {
        return; /* nothing was written: nothing is there */
    }
    take_over(transport, &taken);
    if (taken.parked) {
        nng_recv_aio(transport->socket, transport->receive);
    }
    deliver_packets(transport);
    for (uint32_t i = 0; i < taken.news_count; i++) {
        deliver_link(transport, &transport->news[i]);
    }
    for (uint32_t i = 0; i < taken.trouble_count; i++) {
        const struct trouble *trouble = &taken.troubles[i];

        handler->trouble(handler->arg, trouble->event, trouble->address, trouble->text);
    }
    if (taken.look) {
        look_for_refused(transport);
    }
}

int transport_fd(const struct transport *transport)
{
    return transport->event;
}

/* ---- opening, closing ---- */

static bool failed(char *error, const char *address, int result)
{
    snprintf(error, TRANSPORT_ERROR_MAX, "%s: %s%s", address, nng_strerror(result),
             result == NNG_EADDRINUSE ? ": does another agent run here?" : "");
    return false;
}

static bool listen_start(struct transport *transport, const struct transport_config *config,
                         char *error)
{
    int result = nng_pull0_open(&transport->socket);

    if (result != 0) {
        return failed(error, config->listen, result);
    }
    result = nng_socket_set_size(transport->socket, NNG_OPT_RECVMAXSZ, config->packet_max);
    if (result == 0) {
        result = nng_listener_create(&transport->listener, transport->socket, config->listen);
    }
    if (result == 0 && transport_is_tls(config->listen)) {
        result = nng_listener_set_ptr(transport->listener, NNG_OPT_TLS_CONFIG, transport->server);
    }
    if (result == 0) {
        result = nng_listener_start(transport->listener, 0);
    }
    return result == 0 || failed(error, config->listen, result);
}

/* The receive, the send and the listener's check. */
static bool callbacks_start(struct transport *transport, const char *listen, char *error)
{
    char own[TRANSPORT_ADDRESS_SIZE];

    if (nng_aio_alloc(&transport->receive, received, transport) != 0) {
        return failed(error, listen, NNG_ENOMEM);
    }
    nng_recv_aio(transport->socket, transport->receive);
    if (nng_aio_alloc(&transport->send, NULL, NULL) != 0 ||
        nng_aio_alloc(&transport->bound, bound_due, transport) != 0) {
        return failed(error, listen, NNG_ENOMEM);
    }
    nng_aio_set_timeout(transport->send, NNG_DURATION_ZERO); /* never blocks */
    transport_own_address(listen, own);
    if (peer_create(transport, own, TRANSPORT_PEER_NONE) == NULL ||
        nng_aio_alloc(&transport->check, check_due, transport) != 0) {
        return failed(error, own, NNG_ENOMEM);
    }
    nng_sleep_aio((nng_duration)transport->check_ms, transport->check);
    return true;
}

static bool config_check(const struct transport_config *config, char *error)
{
    const struct transport_tls *tls = &config->tls;
    const char *wrong = transport_address_error(config->listen);
    bool any = tls->ca != NULL || tls->cert != NULL || tls->key != NULL;
    bool all = tls->ca != NULL && tls->cert != NULL && tls->key != NULL;

    if (wrong != NULL) {
        snprintf(error, TRANSPORT_ERROR_MAX, "%.*s: %s", TRANSPORT_ADDRESS_SIZE, config->listen,
                 wrong);
        return false;
    }
    if (any && !all) {
        snprintf(error, TRANSPORT_ERROR_MAX, "TLS: expected all of ca, cert and key");
        return false;
    }
    if (!any && transport_is_tls(config->listen)) {
        snprintf(error, TRANSPORT_ERROR_MAX, "%s: expected ca, cert and key for TLS",
                 config->listen);
        return false;
    }
    return true;
}

struct transport *transport_open(const struct transport_config *config,
                                 const struct transport_handler *handler, char *error)
{
    struct transport *transport;
    sigset_t before;
    bool opened;

    if (!config_check(config, error)) {
        return NULL;
    }
    transport = calloc(1, sizeof *transport);
    if (transport == NULL) {
        (void)failed(error, config->listen, NNG_ENOMEM);
        return NULL;
    }
    transport->handler = *handler;
    transport->filling = &transport->inboxes[0];
    transport->emptying = &transport->inboxes[1];
    transport->check_ms = config->check_ms != 0 ? config->check_ms : CHECK_MS_DEFAULT;
    snprintf(transport->listen, sizeof transport->listen, "%s", config->listen);
    HF_CHECK(pthread_mutex_init(&transport->mutex, NULL) == 0);
    transport->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    signals_block(&before);
    if (transport->event < 0) {
        snprintf(error, TRANSPORT_ERROR_MAX, "eventfd: %s", strerror(errno));
        opened = false;
    } else {
        opened = (config->tls.ca == NULL || transport_tls_load(&config->tls, &transport->server,
                                                               &transport->client, error)) &&
                 listen_start(transport, config, error) &&
                 callbacks_start(transport, config->listen, error);
    }
    transport_threads_hold();
    signals_restore(&before);
    if (!opened) {
        transport_close(transport);
        return NULL;
    }
    return transport;
}

static void inbox_fini(struct inbox *inbox)
{
    for (uint32_t i = 0; i < inbox->count; i++) {
        nng_msg_free(inbox->messages[i]);
    }
}

static void peer_destroy(struct peer *peer)
{
    if (peer != NULL) {
        nng_close(peer->socket);
        free(peer);
    }
}

void transport_close(struct transport *transport)
{
    if (transport == NULL) {
        return;
    }
    pthread_mutex_lock(&transport->mutex);
    transport->closing = true;
    pthread_mutex_unlock(&transport->mutex);
    if (transport->check != NULL) {
        nng_aio_stop(transport->check);
    }
    if (transport->bound != NULL) {
        nng_aio_stop(transport->bound);
    }
    if (transport->receive != NULL) {
        nng_aio_stop(transport->receive);
    }
    peer_destroy(transport->self);
    for (uint32_t i = 0; i < transport->peer_count; i++) {
        peer_destroy(transport->peers[i]);
    }
    if (nng_socket_id(transport->socket) > 0) {
        nng_close(transport->socket);
    }
    nng_aio_free(transport->receive);
    nng_aio_free(transport->send);
    nng_aio_free(transport->bound);
    nng_aio_free(transport->check);
    inbox_fini(transport->filling);
    inbox_fini(transport->emptying);
    if (transport->server != NULL) {
        nng_tls_config_free(transport->server);
        nng_tls_config_free(transport->client);
    }
    if (transport->event >= 0) {
        close(transport->event);
    }
    transport_threads_release();
    pthread_mutex_destroy(&transport->mutex);
    free(transport);
}
