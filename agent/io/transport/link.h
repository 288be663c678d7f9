/*
 * One connection between two agents: the greeting, packets in frames, and the queue of bytes to
 * send. Private to the transport. Only the loop's thread calls these functions.
 *
 * proto/SCHEMA.md describes the bytes on the wire. The dialler sends packets, and the other end
 * receives them. The receiver sends only its half of the greeting.
 *
 * Without TLS only the loop's thread handles a packet. The loop waits on the connection's own
 * descriptor. Then it calls NNG to receive into a buffer, and NNG does so at once, because the
 * bytes have arrived. NNG does not give the descriptor away, so the transport searches for the
 * descriptor by the connection's two addresses. The dialler searches at once, the other end when
 * the dialler has greeted. Before that, and with TLS, NNG always has a receive under way, and the
 * end of each receive is queued (op.h).
 *
 * A send is tried on the loop's thread. Bytes that the kernel does not take at once are copied, and
 * NNG sends them (op.h). Later packets are collected behind them, within a bound, and are then sent
 * together.
 */
#ifndef IO_TRANSPORT_LINK_H
#define IO_TRANSPORT_LINK_H

#include <nng/nng.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "io/transport.h"
#include "op.h"

enum {
    TRANSPORT_LINK_QUEUE_MAX = 4 * 1024 * 1024, /* how many bytes may wait behind a send */
};

struct transport_bytes {
    unsigned char *data; /* NULL: not allocated */
    size_t capacity;
    size_t size;
};

enum transport_link_state {
    TRANSPORT_LINK_GREETING,
    TRANSPORT_LINK_UP, /* both ends have greeted */
    TRANSPORT_LINK_BROKEN,
};

struct transport_link;

/* The state that all links of a transport share. */
struct transport_links {
    struct transport_ops *ops;
    int epoll;
    size_t packet_max;
    nng_aio *now; /* an aio without a callback, for operations that end at once or are cancelled */
    void *arg;
    void (*packet)(void *arg, struct transport_link *link, const void *bytes, size_t size);
};

struct transport_link {
    struct transport_links *links;
    void *owner; /* for the caller, as are `index` and `next` */
    uint32_t index;
    uint32_t round;      /* for the caller: the round in which the link last had its turn */
    int64_t greet_by_ns; /* until when the other end must greet; 0: it has greeted */
    int64_t seen_ns;     /* for the caller: when the link was made, or its last valid packet came */
    bool received;       /* a valid packet came, and seen_ns is not updated yet */
    bool known;          /* the first valid packet came, and the inbox knows its sender */
    struct transport_sender sender; /* the sender in the first valid packet; name 0: none came
                                     * yet */
    struct transport_link *next;
    nng_stream *stream;
    enum transport_link_state state;
    bool dialled; /* this agent dialled */
    bool secure;
    int fd;             /* the link's descriptor in the epoll set; -1: none, NNG wakes the loop */
    int error;          /* why the link is broken: NNG's error number */
    const char *reason; /* why the link is broken, as a text; NULL: the other end closed it, or
                         * `error` has the reason */
    uint32_t newest;    /* the newest version that this end may offer */
    uint32_t version;   /* the version in the received greeting; once UP, the version in use */
    bool older;         /* the link broke because one end knows only TRANSPORT_VERSION_FIRST */
    bool foreign;       /* the link broke because the ends share no version */
    struct transport_op receive;
    struct transport_op send;
    struct transport_bytes in;
    struct transport_bytes flying; /* the bytes being sent; those before `flown` are sent already */
    size_t flown;
    struct transport_bytes waiting;
    char remote[TRANSPORT_REMOTE_MAX];
    char certified[TRANSPORT_NAME_SIZE]; /* the name in the peer's certificate; "": not known */
};

/* How a connection begins. */
struct transport_link_start {
    bool dialled; /* this agent dialled */
    bool secure;
    uint32_t newest;
};

/* Makes a link of the stream; a dialler's link sends its greeting. If there is no memory, closes
 * the stream and returns NULL. The new link may be broken already. */
struct transport_link *transport_link_create(struct transport_links *links, nng_stream *stream,
                                             struct transport_link_start start, void *owner);
/* Closes and frees the link. NULL is allowed. */
void transport_link_destroy(struct transport_link *link);

/* Called when the link's descriptor is ready, with epoll's events: calls packet() for each packet
 * that has arrived. once: receives only once. */
void transport_link_ready(struct transport_link *link, uint32_t events, bool once);
/* Called when the link's receive or send has ended: takes in the bytes, or sends the next ones. */
void transport_link_worked(struct transport_link *link, enum transport_op_kind kind);

/* Marks the link broken. Keeps only the first reason. */
void transport_link_break(struct transport_link *link, int error, const char *reason);

/* Sends a packet of 1 to packet_max bytes, which is copied if necessary. Returns false if the
 * packet is lost: too many bytes wait, or the link is broken (perhaps by this call). */
bool transport_link_send(struct transport_link *link, const void *bytes, size_t size);
/* Returns the number of bytes that are not sent yet. */
size_t transport_link_waiting(struct transport_link *link);

#endif
