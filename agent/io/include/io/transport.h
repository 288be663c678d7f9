/*
 * Packets between agents, over NNG.
 *
 * One kind of link only: this agent's inbox is one listener, and each peer that it talks to has one
 * dialer here, made once and kept for the life of the process; packets go from the agent that
 * dialled to the one that listens. Sending never blocks: a packet for a peer that is absent or full
 * is lost (transport_send says so), and the cores survive that by design. Of NNG its byte streams
 * are used, tcp and TLS alike, not its sockets: a packet then wakes no thread but the receiver's
 * loop (over TLS: one or two of NNG's on each side). This works with NNG 1.5.2, which Debian 12
 * has, and 1.10.
 *
 * All is done on the thread of the loop, in transport_dispatch(), when transport_fd() is readable;
 * so while that is not called nobody is accepted or dialled, either.
 *
 * Both ends have to greet at once (proto/SCHEMA.md). The agent refuses, and logs, a stranger and an
 * agent with which it shares no version. It refuses one that sends nothing after 5 s; with TLS,
 * whose handshake takes its time on a starved machine, after up to 30 s, if there are not too many
 * of them. A link is there when both have greeted. Of 4,096 connections that others make none keeps
 * a place for nothing: one that greets and then sends no packet that makes sense is closed after 60
 * s, and before, if there is no room for a newcomer (inbox.h).
 *
 * tcp://HOST:PORT, or tls+tcp://HOST:PORT with mutual TLS: the handshake refuses a peer without a
 * certificate of the cell's CA. The listener must show the certificate of the agent as which it is
 * dialled. A packet comes with the name of its sender's certificate where NNG shows it (1.10, not
 * 1.5): see docs/TLS.md. The files may be replaced while the transport is open:
 * transport_tls_renew().
 *
 * The agent is its own peer too, out of sight: every check_ms it dials its own inbox anew, so that
 * a listener that no longer accepts is found, and reported, although all links that are there still
 * work. One that accepts, and whose handshake is slow, is not taken for deaf for a minute.
 */
#ifndef IO_TRANSPORT_H
#define IO_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct transport;

#define TRANSPORT_PEER_NONE UINT32_MAX

/*
 * A greeting has the newest version of the packets' contents that its agent speaks, and the older
 * of both is spoken on that connection. The first number stands for the version of the releases
 * that did not know that: they hang up on any other one, and are dialled again with it.
 */
enum { TRANSPORT_VERSION_FIRST = 1, TRANSPORT_VERSION_SECOND = 4 };

enum {
    TRANSPORT_TURN_MS =
        20, /* of packets in one transport_dispatch(), and what one receive brings */
    TRANSPORT_ERROR_MAX = 512,
    TRANSPORT_PEERS_MAX = 2048,
    TRANSPORT_NAME_SIZE = 65,  /* bytes of a name in a certificate, its zero included */
    TRANSPORT_REMOTE_MAX = 64, /* bytes of "[2001:db8::1]:41234", its zero included */
};

struct transport_tls {
    const char *ca; /* PEM files; all three or none */
    const char *cert;
    const char *key;
};

struct transport_config {
    const char *listen;       /* borrowed for transport_open */
    struct transport_tls tls; /* its paths are borrowed until transport_close() */
    const char *name;         /* of this agent, as certificates must have it; NULL: any */
    size_t packet_max;        /* larger ones are refused while they arrive: their link is closed */
    uint32_t check_ms;        /* how often the listener is tried; 0: the default, 10 s */
    uint32_t inbound_max;     /* connections to the listener at once; 0: the default, 4096 */
    uint32_t greet_ms;        /* a greeting without TLS; 0: the default, 5 s */
    uint32_t guest_ms;        /* for a peer that greeted and then sent nothing of use; 0: the
                               * default, 60 s */
    uint32_t version;         /* the newest that is spoken; 0: TRANSPORT_VERSION_FIRST */
};

/* The kind of a packet's sender, by its own account. */
struct transport_sender {
    uint64_t name; /* a hash of the agent's name; 0: it makes no sense, or is not of this cell */
    bool voter;
};

/* All on the thread that calls transport_dispatch(). They may call transport_send(),
 * transport_peer() and transport_forget(). */
struct transport_handler {
    void *arg;
    /* A packet arrived; bytes are the transport's, until this returns. certified: the name of its
     * sender's certificate, or "": not known. remote: "10.0.0.2:41234", for the log. The answer
     * decides which connections keep their places if there are many. */
    struct transport_sender (*packet)(void *arg, const void *bytes, size_t size,
                                      const char *certified, const char *remote);
    /* The link to a peer is there, or gone: a packet that is sent to it now is lost. */
    void (*link)(void *arg, uint32_t peer, bool up);
    /* Something a person should know: a peer that was refused, by TLS (of the listener and each
     * peer once in check_ms) or by the greeting; a listener that no longer accepts, and that it
     * does again; no room for another connection. event: static, as docs/LOG.md has it. */
    void (*trouble)(void *arg, const char *event, const char *address, const char *text);
};

/* error: TRANSPORT_ERROR_MAX bytes. NULL: error says what, where and what was expected (a bad
 * address, a file of TLS that cannot be read, an address that is in use); errno is not EINVAL if it
 * may be well the next time (no memory, no descriptors). */
struct transport *transport_open(const struct transport_config *config,
                                 const struct transport_handler *handler, char *error)
    __attribute__((warn_unused_result));
/* NULL is allowed. Packets that were not sent are lost. Waits until NNG's threads are done with
 * it. */
void transport_close(struct transport *transport);

/* Readable when transport_dispatch() has something to do. */
int transport_fd(const struct transport *transport);
void transport_dispatch(struct transport *transport);

/* The peer of that address and name; its dialer is made if there is none yet, and dials until it is
 * forgotten, with growing pauses of at most a second. With TLS it must show the certificate of
 * agent `name` (NULL: any; newer mbedTLS refuses that). TRANSPORT_PEER_NONE: too many, no address,
 * or one with TLS where there is none, or without where there is. */
uint32_t transport_peer(struct transport *transport, const char *address, const char *name);
/* Hangs up, and dials it no more; its number may become another's. No callback comes of it. */
void transport_forget(struct transport *transport, uint32_t peer);
/* Whether what is sent to it now has a chance. */
bool transport_is_up(const struct transport *transport, uint32_t peer);
/* Why there is no connection to it, for people; "": there is one, or none was tried to the end.
 * Good until the next call that dispatches. */
const char *transport_why_down(const struct transport *transport, uint32_t peer);
/* Whether its own inbox was found to take no connections (listener_deaf). */
bool transport_is_deaf(const struct transport *transport);
/* The version that is spoken with it, by its greeting; 0: the link is not there. */
uint32_t transport_version(const struct transport *transport, uint32_t peer);
/* Bytes that wait to be sent to it. */
size_t transport_waiting(const struct transport *transport, uint32_t peer);
/* At least one byte; copied if need be. false: lost, the peer is absent or too much waits for it
 * (4 MiB). */
bool transport_send(struct transport *transport, uint32_t peer, const void *bytes, size_t size);

/* Ever sent and received: for status, tests and figures. */
struct transport_counts {
    uint64_t packets_sent, packets_lost, packets_received, bytes_sent, bytes_received;
};
struct transport_counts transport_counts(const struct transport *transport);

/* Reads the files again: connections that are made from now on use them, those that are there stay.
 * false: error names the file and its fault; the files in use stay. true if there is no TLS. */
bool transport_tls_renew(struct transport *transport, char *error)
    __attribute__((warn_unused_result));
/* From when until when the certificate and its CA are good; seconds since 1970. 0: no TLS. */
int64_t transport_tls_begin_s(const struct transport *transport);
int64_t transport_tls_end_s(const struct transport *transport);
/* Whether the three files (not NULL) can be used by agent `name`; else error says what is wrong,
 * and errno is not EINVAL if it may be well the next time (no memory, say). */
bool transport_tls_check(const struct transport_tls *tls, const char *name, char *error)
    __attribute__((warn_unused_result));

/* NULL, or what is wrong with an address of the configuration (static): which schemes there are. */
const char *transport_address_error(const char *address);
/* Whether nobody has to be asked for it: an IP address, or localhost. The address is a good one. */
bool transport_address_is_number(const char *address);

#endif
