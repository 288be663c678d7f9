/*
 * The peers that the transport dials: see io/transport.h.
 *
 * Each peer has its own dialer of NNG until it is forgotten. A forgotten peer is freed at the end
 * of the dispatch: the handler that is running for its link may have forgotten it, and its dial may
 * still be queued.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nng.h"
#include "private.h"

enum { DIAL_MS = 3000 };

void transport_peer_dial(struct transport_peer *peer)
{
    peer->dialling = true;
    peer->dial_at_ns = INT64_MAX;
    transport_op_begin(&peer->dial, 0);
    nng_stream_dialer_dial(peer->dialer, peer->dial.aio);
}

/* Frees the peer. Waits until NNG's threads have left it. NULL is allowed. */
static void transport_peer_destroy(struct transport_peer *peer)
{
    if (peer == NULL) {
        return;
    }
    if (peer->dialer != NULL) {
        nng_stream_dialer_close(peer->dialer);
    }
    transport_op_stop(&peer->dial);
    if (peer->dialling &&
        nng_aio_result(peer->dial.aio) == 0) { /* the dial succeeded, and no one took its stream */
        nng_stream_close(nng_aio_get_output(peer->dial.aio, 0));
        nng_stream_free(nng_aio_get_output(peer->dial.aio, 0));
    }
    transport_op_fini(&peer->dial);
    if (peer->dialer != NULL) {
        nng_stream_dialer_free(peer->dialer);
    }
    transport_link_destroy(peer->link);
    free(peer);
}

/* Sets the credentials for the peer's later dials. On failure (no memory) returns false, and the
 * old ones stay. */
static bool transport_peer_secure(struct transport_peer *peer,
                                  const struct transport_credentials *credentials)
{
    const char *name = peer->name[0] != '\0' ? peer->name : NULL;
    nng_tls_config *config = transport_credentials_client(credentials, name);
    bool set = config != NULL &&
               nng_stream_dialer_set_ptr(peer->dialer, NNG_OPT_TLS_CONFIG, config) == 0;

    if (config != NULL) {
        nng_tls_config_free(config); /* the dialer keeps its own reference */
    }
    return set;
}

struct transport_peer *transport_peer_create(struct transport *transport, const char *address,
                                             const char *name, uint32_t index)
{
    struct transport_peer *peer = calloc(1, sizeof *peer);

    if (peer == NULL) {
        return NULL;
    }
    peer->transport = transport;
    peer->index = index;
    peer->pause_ns = TRANSPORT_REDIAL_MIN_NS;
    peer->greet_ns = transport->greet_ns;
    peer->newest = transport->version;
    peer->dial_at_ns = INT64_MAX;
    snprintf(peer->address, sizeof peer->address, "%s", address);
    snprintf(peer->name, sizeof peer->name, "%s", name != NULL ? name : "");
    if (!transport_op_init(&peer->dial, &transport->ops, TRANSPORT_OP_DIAL, peer) ||
        nng_stream_dialer_alloc(&peer->dialer, address) != 0 ||
        (transport_is_tls(address) && !transport_peer_secure(peer, transport->credentials))) {
        transport_peer_destroy(peer);
        return NULL;
    }
    nng_aio_set_timeout(peer->dial.aio, DIAL_MS);
    transport_peer_dial(peer);
    return peer;
}

static bool is_of(const struct transport_peer *peer, const char *address, const char *name)
{
    return strcmp(peer->address, address) == 0 && strcmp(peer->name, name != NULL ? name : "") == 0;
}

uint32_t transport_peer(struct transport *transport, const char *address, const char *name)
{
    uint32_t index = transport->peer_count;
    sigset_t before;
    struct transport_peer *peer;

    for (uint32_t i = 0; i < transport->peer_count; i++) {
        peer = transport->peers[i];
        if (peer == NULL) {
            index = i < index ? i : index;
        } else if (is_of(peer, address, name)) {
            return i;
        }
    }
    if (index == TRANSPORT_PEERS_MAX || transport_address_error(address) != NULL ||
        transport_is_tls(address) != (transport->credentials != NULL)) {
        return TRANSPORT_PEER_NONE;
    }
    transport_threads_deafen(&before);
    peer = transport_peer_create(transport, address, name, index);
    transport_threads_restore(&before);
    if (peer == NULL) {
        return TRANSPORT_PEER_NONE;
    }
    transport->peers[index] = peer;
    transport->peer_count += index == transport->peer_count;
    return index;
}

void transport_forget(struct transport *transport, uint32_t index)
{
    struct transport_peer *peer = transport->peers[index];

    transport->peers[index] = NULL;
    if (peer->link != NULL) {
        transport_link_break(peer->link, NNG_ECLOSED, NULL);
        transport_bury(transport, peer->link);
        peer->link = NULL;
    }
    peer->gone = true;
    peer->up = false;
    peer->dial_at_ns = INT64_MAX;
    peer->next = transport->peer_graves;
    transport->peer_graves = peer;
    transport_wake_at(transport, 0); /* transport_forget() may be called outside of a dispatch, and
                                      * the next dispatch frees the peer */
}

bool transport_peers_secure(struct transport *transport,
                            const struct transport_credentials *credentials)
{
    bool good = transport_peer_secure(transport->self, credentials);

    for (uint32_t i = 0; good && i < transport->peer_count; i++) {
        good = transport->peers[i] == NULL ||
               transport_peer_secure(transport->peers[i], credentials);
    }
    return good;
}

void transport_peers_bury(struct transport *transport)
{
    while (transport->peer_graves != NULL) {
        struct transport_peer *peer = transport->peer_graves;

        transport->peer_graves = peer->next;
        transport_peer_destroy(peer);
    }
}

void transport_peers_destroy(struct transport *transport)
{
    transport_peers_bury(transport);
    transport_peer_destroy(transport->self);
    for (uint32_t i = 0; i < transport->peer_count; i++) {
        transport_peer_destroy(transport->peers[i]);
    }
}

bool transport_is_up(const struct transport *transport, uint32_t peer)
{
    return peer < transport->peer_count && transport->peers[peer] != NULL &&
           transport->peers[peer]->up;
}

const char *transport_why_down(const struct transport *transport, uint32_t peer)
{
    return peer < transport->peer_count && transport->peers[peer] != NULL
               ? transport->peers[peer]->why
               : "";
}

void transport_peer_note(struct transport_peer *peer, int error)
{
    bool named = !transport_address_is_number(peer->address);
    const char *why = error == NNG_ECONNREFUSED          ? "nobody listens there"
                      : error == NNG_ETIMEDOUT && !named ? "nobody answers there"
                      : error == NNG_ETIMEDOUT ? "nobody answers there, or the name server does not"
                      : error == NNG_EUNREACHABLE ? "the network has no route to it"
                      : error == NNG_ENOFILES     ? "this agent has no descriptors left"
                      : error == NNG_ENOMEM       ? "this agent has no memory left"
                      : named                     ? "its name cannot be looked up"
                                                  : nng_strerror(error);

    snprintf(peer->why, sizeof peer->why, "%s", why);
}

uint32_t transport_version(const struct transport *transport, uint32_t peer)
{
    return transport_is_up(transport, peer) ? transport->peers[peer]->link->version : 0;
}

size_t transport_waiting(const struct transport *transport, uint32_t peer)
{
    struct transport_link *link = transport_is_up(transport, peer) ? transport->peers[peer]->link
                                                                   : NULL;
    return link == NULL ? 0 : transport_link_waiting(link);
}
