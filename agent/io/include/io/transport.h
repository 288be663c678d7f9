/*
 * Packets between agents, over NNG.
 *
 * One kind of link only: this agent's inbox is one PULL listener, and each peer that it talks to
 * has one PUSH dialer here, opened once and kept for the life of the process. Sending never blocks:
 * a packet for a peer that is absent or full is lost (transport_send says so), and the cores
 * survive that by design. Nothing else of NNG is used: DESIGN.md names what was wrong with the
 * rest in the version that Debian 12 has (1.5.2); this works with 1.10 too.
 *
 * NNG calls back on its own threads. What it says is queued there under a mutex and a descriptor
 * is made readable; transport_dispatch() hands it to the handler on the loop's thread.
 *
 * tcp://HOST:PORT, or tls+tcp://HOST:PORT with mutual TLS: whoever has no certificate of the cell's
 * CA is refused by the handshake. Names in certificates are not compared with anything: NNG 1.5
 * does not tell whose certificate it was. So the CA must be the cell's own, and whoever has a
 * certificate of it is trusted to be any agent of the cell.
 *
 * The agent is its own peer too, out of sight: every LISTENER_CHECK it dials its own inbox anew, so
 * that a listener that no longer accepts is found, and reported, although all links that are there
 * still work.
 */
#ifndef IO_TRANSPORT_H
#define IO_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct transport;

#define TRANSPORT_PEER_NONE UINT32_MAX

enum {
    TRANSPORT_ERROR_MAX = 512,
    TRANSPORT_PEERS_MAX = 2048,
    TRANSPORT_REMOTE_MAX = 64, /* bytes of "[2001:db8::1]:41234", its zero included */
};

struct transport_tls {
    const char *ca; /* PEM files; all three or none */
    const char *cert;
    const char *key;
};

struct transport_config {
    const char *listen; /* borrowed for transport_open */
    struct transport_tls tls;
    size_t packet_max; /* larger ones are refused while they arrive: their link is closed */
    uint32_t check_ms; /* how often the listener is tried; 0: the default, 10 s */
};

/* All on the thread that calls transport_dispatch(). They may call transport_send() and
 * transport_peer(). */
struct transport_handler {
    void *arg;
    /* A packet arrived; bytes are the transport's, until this returns. remote: "10.0.0.2:41234",
     * for the log. */
    void (*packet)(void *arg, const void *bytes, size_t size, const char *remote);
    /* The link to a peer is there, or gone: what is sent to it now is lost. */
    void (*link)(void *arg, uint32_t peer, bool up);
    /* Something a person should know, once per occurrence: a peer refused by TLS, a listener that
     * no longer accepts (and that it does again). event: static, as docs/LOG.md has it. */
    void (*trouble)(void *arg, const char *event, const char *address, const char *text);
};

/* error: TRANSPORT_ERROR_MAX bytes. NULL: error says what, where and what was expected (a bad
 * address, a file of TLS that cannot be read, an address that is in use). */
struct transport *transport_open(const struct transport_config *config,
                                 const struct transport_handler *handler, char *error)
    __attribute__((warn_unused_result));
/* NULL is allowed. Waits until NNG's threads are done with it. */
void transport_close(struct transport *transport);

/* Readable when transport_dispatch() has something to do. */
int transport_fd(const struct transport *transport);
void transport_dispatch(struct transport *transport);

/* The peer of that address; its dialer is made if there is none yet, and dials until the end, with
 * growing pauses of at most a second. TRANSPORT_PEER_NONE: too many, or no address. */
uint32_t transport_peer(struct transport *transport, const char *address);
/* Whether what is sent to it now has a chance. */
bool transport_is_up(const struct transport *transport, uint32_t peer);
/* Copies the bytes. false: lost, the peer is absent or its queue full. */
bool transport_send(struct transport *transport, uint32_t peer, const void *bytes, size_t size);

/* Ever sent and received: for status, tests and figures. */
struct transport_counts {
    uint64_t packets_sent, packets_lost, packets_received, bytes_sent, bytes_received;
};
struct transport_counts transport_counts(const struct transport *transport);

/* Whether the three files (not NULL) can be used; else error says what is wrong with which. */
bool transport_tls_check(const struct transport_tls *tls, char *error)
    __attribute__((warn_unused_result));

/* NULL, or what is wrong with an address of the configuration (static): which schemes there are. */
const char *transport_address_error(const char *address);

#endif
