/*
 * Packets between agents, over NNG.
 *
 * There is one kind of link: this agent's inbox is one listener, and each peer to which it sends
 * has one dialer, made once and kept until the peer is forgotten. Packets go from the agent that
 * dialled to the agent that listens. Sending never blocks: a packet for a peer that is absent, or
 * whose queue is full, is lost (transport_send() returns false); the cores are designed for that.
 *
 * The transport uses NNG's byte streams, for tcp and TLS alike, and not its sockets, so that a
 * packet wakes only the thread of the receiver's loop (over TLS it also wakes one or two of NNG's
 * threads on each side). This works with NNG 1.5.2 (Debian 12) and 1.10.
 *
 * Everything happens on the loop's thread, in transport_dispatch(), which has to be called when
 * transport_fd() is readable. Without that call no connection is accepted or dialled, either.
 *
 * Both ends have to send a greeting at once (proto/SCHEMA.md). The agent refuses and logs a program
 * that sends another greeting, and an agent with which it shares no version. It closes a connection
 * that sends nothing for 5 s. With TLS it waits for up to 30 s, if there are not too many such
 * connections, because the handshake takes longer on a machine without free processor time. A link
 * is up when both ends have greeted. The inbox has 4,096 places: a connection that greets and then
 * sends no valid packet is closed after 60 s, or sooner if a newcomer needs its place (inbox.h).
 *
 * An address is tcp://HOST:PORT, or tls+tcp://HOST:PORT with mutual TLS: the handshake refuses a
 * peer without a certificate of the cell's CA. The listener must show the certificate of the agent
 * that the dialler expects there. A packet comes with the name in its sender's certificate where
 * NNG shows it (1.10, not 1.5): see docs/TLS.md. The files of TLS may be replaced while the
 * transport is open: transport_tls_renew().
 *
 * The agent is a hidden peer of itself: every check_ms it dials its own inbox anew. So it finds and
 * reports a listener that no longer accepts, even while the existing links still work. If the
 * listener accepts and only the TLS handshake is slow, that is not reported for a minute.
 */
#ifndef IO_TRANSPORT_H
#define IO_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct transport;

#define TRANSPORT_PEER_NONE UINT32_MAX

/*
 * A greeting has the newest version of the packets' contents that its agent knows. The connection
 * uses the older of the two ends' versions. TRANSPORT_VERSION_FIRST is the version of the oldest
 * releases, which knew only one version. They hang up on any other version; the agent then dials
 * again with TRANSPORT_VERSION_FIRST.
 */
enum { TRANSPORT_VERSION_FIRST = 1, TRANSPORT_VERSION_SECOND = 4 };

enum {
    TRANSPORT_TURN_MS = 20, /* time for packets in one transport_dispatch(); one receive may exceed
                             * it */
    TRANSPORT_ERROR_MAX = 512,
    TRANSPORT_PEERS_MAX = 2048,
    TRANSPORT_NAME_SIZE = 65,  /* bytes of a name in a certificate, with its final zero */
    TRANSPORT_REMOTE_MAX = 64, /* bytes of "[2001:db8::1]:41234", with its final zero */
};

struct transport_tls {
    const char *ca; /* paths of PEM files; all three are given, or all are NULL */
    const char *cert;
    const char *key;
};

struct transport_config {
    const char *listen;       /* borrowed during transport_open() */
    struct transport_tls tls; /* its paths are borrowed until transport_close() */
    const char *name;         /* this agent's name, which its certificate must have; NULL: any
                               * name */
    size_t packet_max;        /* a larger packet closes its link */
    uint32_t check_ms;        /* the pause between checks of the listener; 0: 10 s */
    uint32_t inbound_max;     /* the most connections to the listener; 0: 4096 */
    uint32_t greet_ms;        /* how long an end without TLS may take to greet; 0: 5 s */
    uint32_t guest_ms;        /* how long a peer may take to send a valid packet; 0: 60 s */
    uint32_t version;         /* the newest version to speak; 0: TRANSPORT_VERSION_FIRST */
};

/* The sender of a packet, as the packet names it. */
struct transport_sender {
    uint64_t name; /* a hash of the agent's name; 0: the packet is invalid, or of another cell */
    bool voter;
};

/* Functions of the owner, which are called on the thread that calls transport_dispatch(). They may
 * call transport_send(), transport_peer() and transport_forget(). */
struct transport_handler {
    void *arg;
    /* Called when a packet has arrived. bytes are valid during the call. certified: the name in the
     * sender's certificate; "": not known. remote: for the log, such as "10.0.0.2:41234". The
     * result decides which connections keep their places if there are many. */
    struct transport_sender (*packet)(void *arg, const void *bytes, size_t size,
                                      const char *certified, const char *remote);
    /* Called when the link to a peer has come up or has broken. A packet that is sent while the
     * link is down is lost. */
    void (*link)(void *arg, uint32_t peer, bool up);
    /* Reports something that a person should know: the TLS handshake with a peer failed (reported
     * once in check_ms for the listener and for each peer), or the greeting did; the listener no
     * longer accepts, or accepts again; there is no room for another connection. event: static, as
     * in docs/LOG.md. */
    void (*trouble)(void *arg, const char *event, const char *address, const char *text);
};

/* Opens the transport. On failure returns NULL, and error (TRANSPORT_ERROR_MAX bytes) says what,
 * where and what was expected (a bad address, a TLS file that cannot be read, an address in use).
 * errno is EINVAL if the configuration is wrong. With any other errno (no memory, no descriptors) a
 * later call may succeed. */
struct transport *transport_open(const struct transport_config *config,
                                 const struct transport_handler *handler, char *error)
    __attribute__((warn_unused_result));
/* Closes the transport. Waits until NNG's threads are done. Packets that were not sent are lost.
 * NULL is allowed. */
void transport_close(struct transport *transport);

/* Returns a descriptor that is readable when transport_dispatch() has something to do. */
int transport_fd(const struct transport *transport);
void transport_dispatch(struct transport *transport);

/* Returns the peer of that address and name. If there is none yet, makes its dialer, which dials
 * until the peer is forgotten, with growing pauses of at most half a second. With TLS the peer must
 * show the certificate of agent `name` (NULL: any certificate; newer mbedTLS refuses that). Returns
 * TRANSPORT_PEER_NONE if there are too many peers, the address is invalid, or its scheme does not
 * fit the configuration of TLS. */
uint32_t transport_peer(struct transport *transport, const char *address, const char *name);
/* Hangs up, and stops dialling the peer. The number `peer` may mean another peer afterwards. Makes
 * no callback. */
void transport_forget(struct transport *transport, uint32_t peer);
/* Returns whether the link to the peer is up. */
bool transport_is_up(const struct transport *transport, uint32_t peer);
/* For display: returns why the peer is not connected; "" if the peer is connected, or if no attempt
 * has ended yet. Valid until the next transport_dispatch(). */
const char *transport_why_down(const struct transport *transport, uint32_t peer);
/* Returns whether it was reported that the agent's own inbox does not accept (event
 * inbox_unreachable). */
bool transport_is_deaf(const struct transport *transport);
/* Returns the version in use with the peer; 0 while the link is down. */
uint32_t transport_version(const struct transport *transport, uint32_t peer);
/* Returns the number of bytes that wait to be sent to the peer. */
size_t transport_waiting(const struct transport *transport, uint32_t peer);
/* Sends a packet of at least one byte; the bytes are copied if necessary. Returns false if the
 * packet is lost, because the link is down or more than 4 MiB wait already. */
bool transport_send(struct transport *transport, uint32_t peer, const void *bytes, size_t size);

/* Totals since the start: for status, tests and metrics. */
struct transport_counts {
    uint64_t packets_sent, packets_lost, packets_received, bytes_sent, bytes_received;
};
struct transport_counts transport_counts(const struct transport *transport);

/* Reads the files of TLS again. Later connections use the new files, and existing connections stay.
 * On failure returns false, error names the file and its fault, and the files in use stay. Returns
 * true if there is no TLS. */
bool transport_tls_renew(struct transport *transport, char *error)
    __attribute__((warn_unused_result));
enum { TRANSPORT_SOON_DAYS = 14 };
/* The period in which the certificate and its CA are valid, in seconds since 1970. From soon_s on,
 * one of them ends soon: in TRANSPORT_SOON_DAYS, or in a quarter of its own validity if that is
 * less. */
struct transport_tls_times {
    int64_t begin_s;
    int64_t soon_s;
    int64_t end_s;
    int64_t soon_end_s; /* the end of the certificate that soon_s is about */
    bool soon_ca;       /* soon_s is about the CA's certificate, not this agent's */
    bool end_ca;        /* end_s is the end of the CA's certificate, not of this agent's */
};
/* Returns the times of the files in use. Without TLS all are 0. */
struct transport_tls_times transport_tls_times(const struct transport *transport);
/* Returns whether agent `name` can use the three files (not NULL), and sets *times to their period
 * of validity. It does not matter here whether the present time is in that period, because the
 * clock may be wrong. times: may be NULL. On failure error says what is wrong. errno is EINVAL if
 * the files are wrong. With any other errno (no memory, say) a later call may succeed. */
bool transport_tls_check(const struct transport_tls *tls, const char *name,
                         struct transport_tls_times *times, char *error)
    __attribute__((warn_unused_result));

/* Returns what is wrong with an address of the configuration, as a static text; NULL if it is
 * valid. */
const char *transport_address_error(const char *address);
/* Returns whether the host of a valid address is an IP address or localhost, so that no name has to
 * be looked up. */
bool transport_address_is_number(const char *address);

#endif
