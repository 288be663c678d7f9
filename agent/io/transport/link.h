/*
 * One connection between two agents: the greeting, packets in frames, what waits to be sent.
 * Private to the transport; all on the loop's thread.
 *
 * proto/SCHEMA.md says what is on the wire. The dialler sends packets, the other end receives them.
 * The receiver sends its half of the greeting, and nothing else.
 *
 * Without TLS no thread but the loop's has to do with a packet. The loop waits on the connection's
 * own descriptor, and then has NNG receive into a buffer, which is done in place because something
 * is there. NNG does not hand out the descriptor; it is found by its two addresses, once the
 * dialler has greeted. Before that, and with TLS, one receive of NNG's is always under way, and its
 * end is queued (work.h).
 *
 * A send is tried in place. Bytes that the kernel does not take at once are copied and go on as a
 * work. Further packets are collected behind it, within a bound, and then go as one.
 */
#ifndef IO_TRANSPORT_LINK_H
#define IO_TRANSPORT_LINK_H

#include <nng/nng.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "io/transport.h"
#include "work.h"

enum {
    TRANSPORT_LINK_QUEUE_MAX = 4 * 1024 * 1024, /* bytes that wait behind a send */
};

struct transport_bytes {
    unsigned char *data; /* NULL: nothing yet */
    size_t capacity;
    size_t size;
};

enum transport_link_state {
    TRANSPORT_LINK_GREETING,
    TRANSPORT_LINK_UP, /* both have greeted */
    TRANSPORT_LINK_BROKEN,
};

struct transport_link;

/* Settings that all links of a transport share. */
struct transport_links {
    struct transport_works *works;
    int epoll;
    size_t packet_max;
    nng_aio *now; /* without a callback: done in place, or not at all */
    void *arg;
    void (*packet)(void *arg, struct transport_link *link, const void *bytes, size_t size);
};

struct transport_link {
    struct transport_links *links;
    void *owner; /* the caller's, as place and next */
    uint32_t place;
    uint32_t round;                 /* the caller's: in which it had its turn last */
    int64_t greet_by_ns;            /* 0: it has */
    int64_t heard_ns;               /* the caller's: when it came, or the last packet of use did */
    bool heard;                     /* a packet came that heard_ns does not have yet */
    bool known;                     /* one came, and that was seen to */
    struct transport_sender sender; /* the first packet's; name 0: none was of use yet */
    struct transport_link *next;
    nng_stream *stream;
    enum transport_link_state state;
    bool dialled; /* by this agent */
    bool secure;
    int fd;             /* watched by the epoll descriptor with this link as its data; -1: none */
    int error;          /* why it is broken: NNG's number, */
    const char *reason; /* or what it said; NULL: it is gone, that is all */
    uint32_t says;      /* the newest version that this end's greeting may name */
    uint32_t version;   /* in the greeting that was received; UP: the version in use */
    bool older;         /* broken because one of both knows only TRANSPORT_VERSION_FIRST */
    bool foreign;       /* broken because no version is shared */
    struct transport_work receive;
    struct transport_work send;
    struct transport_bytes in;
    struct transport_bytes flying; /* the bytes of `send`, from `flown` on */
    size_t flown;
    struct transport_bytes waiting;
    char remote[TRANSPORT_REMOTE_MAX];
    char certified[TRANSPORT_NAME_SIZE]; /* the name of its certificate; "": not known */
};

/* How a connection begins. */
struct transport_link_start {
    bool dialled; /* by this agent */
    bool secure;
    uint32_t says;
};

/* Takes the stream, and begins: the dialler greets. NULL: no memory; the stream is closed. It may
 * be broken already. */
struct transport_link *transport_link_create(struct transport_links *links, nng_stream *stream,
                                             struct transport_link_start start, void *owner);
/* Closes it. NULL is allowed. */
void transport_link_destroy(struct transport_link *link);

/* Its descriptor is ready: epoll's events. Calls packet() for what has arrived; once: no more than
 * what one receive brings. */
void transport_link_ready(struct transport_link *link, uint32_t events, bool once);
/* Its receive or its send is done. */
void transport_link_worked(struct transport_link *link, enum transport_work_kind kind);

/* It is of no use any more; the first reason counts. */
void transport_link_break(struct transport_link *link, int error, const char *reason);

/* A packet of 1 to packet_max bytes, copied if need be. false: it is lost, since too much waits or
 * the link is broken (by this, maybe). */
bool transport_link_send(struct transport_link *link, const void *bytes, size_t size);
/* Bytes that were to be sent and have not gone. */
size_t transport_link_waiting(struct transport_link *link);

#endif
