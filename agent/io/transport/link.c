/* One connection between two agents: see link.h. */
#include "link.h"

#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "nng.h"
#include "proto/check.h"
#include "setup.h"
#include "tls.h"

enum {
    HEAD_SIZE = 4, /* bytes of a frame's head, which has the packet's size */
    MAGIC_SIZE = 8,
    ROLE_AT = MAGIC_SIZE,
    VERSION_AT = ROLE_AT + 4,
    GREETING_SIZE = VERSION_AT + 4,
    /* The role of an end. If both ends have the same role, the other end is not an agent: it is
     * this port itself, or an echo service. */
    ROLE_DIALLED = 1,
    ROLE_LISTENS = 2,
    IN_SIZE = 64 * 1024, /* bytes of the receive buffer at first */
    RECEIVES_MAX = 4,    /* how many receives in a row a link gets while each fills the buffer */
    OUT_SIZE_MIN = 16 * 1024,
};

static const unsigned char magic[MAGIC_SIZE] = "holdfast";

static void put_u32(unsigned char *out, uint32_t value)
{
    for (uint32_t i = 0; i < 4; i++) {
        out[i] = (unsigned char)(value >> (24 - 8 * i));
    }
}

static uint32_t get_u32(const unsigned char *in)
{
    return (uint32_t)in[0] << 24 | (uint32_t)in[1] << 16 | (uint32_t)in[2] << 8 | in[3];
}

void transport_link_break(struct transport_link *link, int error, const char *reason)
{
    if (link->state != TRANSPORT_LINK_BROKEN) {
        link->state = TRANSPORT_LINK_BROKEN;
        link->error = error;
        link->reason = reason;
    }
}

/* ---- bytes ---- */

static bool reserve(struct transport_bytes *bytes, size_t size, size_t capacity_min)
{
    size_t capacity = bytes->capacity > capacity_min ? bytes->capacity : capacity_min;
    unsigned char *data;

    while (capacity < size) {
        capacity *= 2;
    }
    if (capacity == bytes->capacity) {
        return true;
    }
    data = realloc(bytes->data, capacity);
    if (data == NULL) {
        return false;
    }
    bytes->data = data;
    bytes->capacity = capacity;
    return true;
}

static void release(struct transport_bytes *bytes)
{
    free(bytes->data);
    *bytes = (struct transport_bytes){.data = NULL};
}

static void append(struct transport_bytes *bytes, const void *data, size_t size)
{
    if (size > 0) { /* if size is 0, data may be NULL */
        memcpy(bytes->data + bytes->size, data, size);
        bytes->size += size;
    }
}

/* ---- sending ---- */

/* Gives the unsent bytes of `flying` to NNG, which sends them on its own threads. */
static void fly(struct transport_link *link)
{
    size_t size = link->flying.size - link->flown;
    nng_iov rest = {.iov_buf = link->flying.data + link->flown, .iov_len = size};

    HF_CHECK(nng_aio_set_iov(link->send.aio, 1, &rest) == 0);
    /* With TLS every packet is sent here. To save wake-ups, the loop is not notified when all bytes
     * were sent. */
    transport_op_begin(&link->send, link->secure ? size : 0);
    nng_stream_send(link->stream, link->send.aio);
}

/* Handles the end of a send. Begins the next send: the unsent bytes of `flying`, or the bytes in
 * `waiting`. */
static void flight_ended(struct transport_link *link)
{
    struct transport_bytes empty = link->flying;

    if (nng_aio_result(link->send.aio) != 0) {
        transport_link_break(link, nng_aio_result(link->send.aio), NULL);
        return;
    }
    link->flown += nng_aio_count(link->send.aio);
    HF_CHECK(link->flown <= link->flying.size);
    if (link->flown == link->flying.size) {
        link->flown = 0;
        empty.size = 0;
        link->flying = link->waiting;
        link->waiting = empty;
    }
    if (link->flying.size > 0) {
        fly(link);
    } else if (!link->secure) {
        release(&link->flying); /* all bytes were sent: the kernel keeps up, so the buffers are
                                 * freed */
        release(&link->waiting);
    }
}

/* Bytes in two pieces, which are sent one after the other. */
struct parts {
    const void *head;
    size_t head_size;
    const void *body;
    size_t body_size;
};

/* Appends the parts without their first `skip` bytes. The caller has made room. */
static void append_parts(struct transport_bytes *bytes, const struct parts *parts, size_t skip)
{
    if (skip < parts->head_size) {
        append(bytes, (const char *)parts->head + skip, parts->head_size - skip);
        append(bytes, parts->body, parts->body_size);
    } else {
        skip -= parts->head_size;
        append(bytes, (const char *)parts->body + skip, parts->body_size - skip);
    }
}

/* Sends as much of the parts as the kernel takes at once, and returns how many bytes that is. May
 * break the link. */
static size_t send_now(struct transport_link *link, const struct parts *parts)
{
    nng_aio *now = link->links->now;
    int result;
    nng_iov both[2] = {
        {.iov_buf = (void *)parts->head, .iov_len = parts->head_size},
        {.iov_buf = (void *)parts->body, .iov_len = parts->body_size},
    };

    HF_CHECK(nng_aio_set_iov(now, parts->body_size > 0 ? 2 : 1, both) == 0);
    nng_stream_send(link->stream, now);
    nng_aio_cancel(now); /* if nothing was sent, NNG must not send it later */
    nng_aio_wait(now);
    result = nng_aio_result(now);
    if (result == NNG_ECANCELED) {
        return 0;
    }
    if (result != 0) {
        transport_link_break(link, result, NULL);
        return 0;
    }
    return nng_aio_count(now);
}

/* Sends the parts, or queues them. Returns false if the parts are lost or the link is broken. */
static bool send_parts(struct transport_link *link, const struct parts *parts)
{
    size_t size = parts->head_size + parts->body_size;
    size_t sent = 0;

    if (!transport_op_running(&link->send)) {
        if (link->flying.size > 0) { /* the last send ended without a notice, or its notice is
                                      * queued */
            flight_ended(link);
        } else if (!link->secure) {
            sent = send_now(link, parts);
        }
    }
    if (link->state == TRANSPORT_LINK_BROKEN || sent == size) {
        return sent == size;
    }
    if (link->flying.size > 0) {
        if (link->waiting.size + size > TRANSPORT_LINK_QUEUE_MAX ||
            !reserve(&link->waiting, link->waiting.size + size, OUT_SIZE_MIN)) {
            return false;
        }
        append_parts(&link->waiting, parts, 0);
        return true;
    }
    if (!reserve(&link->flying, size - sent, OUT_SIZE_MIN)) {
        if (sent > 0) { /* half a packet was sent, so the receiver could not read any further
                         * packet */
            transport_link_break(link, NNG_ENOMEM, NULL);
        }
        return false;
    }
    append_parts(&link->flying, parts, sent);
    fly(link);
    return true;
}

bool transport_link_send(struct transport_link *link, const void *bytes, size_t size)
{
    unsigned char head[HEAD_SIZE];

    HF_CHECK(size > 0 && size <= UINT32_MAX);
    if (link->state != TRANSPORT_LINK_UP) {
        return false;
    }
    put_u32(head, (uint32_t)size);
    return send_parts(link, &(struct parts){head, sizeof head, bytes, size});
}

size_t transport_link_waiting(struct transport_link *link)
{
    size_t waiting = link->waiting.size + link->flying.size - link->flown;

    /* With TLS the last send may have ended without a notice. */
    if (link->flying.size > 0 && !transport_op_running(&link->send) &&
        nng_aio_result(link->send.aio) == 0) {
        waiting -= nng_aio_count(link->send.aio);
    }
    return waiting;
}

static void send_greeting(struct transport_link *link, uint32_t version)
{
    unsigned char greeting[GREETING_SIZE];

    memcpy(greeting, magic, MAGIC_SIZE);
    put_u32(greeting + ROLE_AT, link->dialled ? ROLE_DIALLED : ROLE_LISTENS);
    put_u32(greeting + VERSION_AT, version);
    (void)send_parts(link, &(struct parts){greeting, sizeof greeting, NULL, 0});
}

/* ---- receiving ---- */

/* Breaks the link because the two ends share no version. older: one end knows only the first
 * version. The dialler then dials again with that version, so no reason is logged. */
static void refuse_version(struct transport_link *link, bool older)
{
    link->older = older;
    link->foreign = !older;
    transport_link_break(link, NNG_EPROTO,
                         older ? NULL : "it speaks another version of the protocol");
}

/* Answers with the newest version that both ends know. If there is none, the listener answers with
 * its own newest version, so that both ends can log the reason. */
static void answer_greeting(struct transport_link *link)
{
    bool newer = link->version >= TRANSPORT_VERSION_SECOND;
    bool shared = link->version == TRANSPORT_VERSION_FIRST ||
                  (newer && link->newest >= TRANSPORT_VERSION_SECOND);
    uint32_t answer = shared && link->version < link->newest ? link->version : link->newest;

    send_greeting(link, answer);
    if (shared) {
        link->version = answer;
    } else {
        refuse_version(link, newer);
    }
}

/* Handles the listener's answer. The answer's version is the version in use, unless this dialler
 * does not know it: then the two ends share none. */
static void take_answer(struct transport_link *link)
{
    bool newer = link->newest >= TRANSPORT_VERSION_SECOND;

    if (link->version == TRANSPORT_VERSION_FIRST && newer) {
        refuse_version(link, true); /* the listener has hung up already */
    } else if (link->version > link->newest ||
               (newer && link->version < TRANSPORT_VERSION_SECOND) || link->version == 0) {
        refuse_version(link, false);
    }
}

/* Handles received bytes that are a greeting, or the beginning of one. Returns how many bytes it
 * used. */
static size_t take_greeting(struct transport_link *link, const unsigned char *bytes, size_t size)
{
    uint32_t role = link->dialled ? ROLE_LISTENS : ROLE_DIALLED;

    if (memcmp(bytes, magic, size < MAGIC_SIZE ? size : MAGIC_SIZE) != 0 ||
        (size >= VERSION_AT && get_u32(bytes + ROLE_AT) != role)) {
        transport_link_break(link, NNG_EPROTO, "it does not send what an agent sends");
        return 0;
    }
    if (size < GREETING_SIZE) {
        return 0;
    }
    link->version = get_u32(bytes + VERSION_AT);
    if (link->dialled) {
        take_answer(link);
    } else {
        answer_greeting(link);
    }
    if (link->state == TRANSPORT_LINK_GREETING) {
        link->state = TRANSPORT_LINK_UP;
    }
    return GREETING_SIZE;
}

/* Gives complete packets to the handler. Returns how many bytes they had. Sets *wanted to the size
 * of the next frame; 0: not known yet. */
static size_t take_packets(struct transport_link *link, const unsigned char *bytes, size_t size,
                           size_t *wanted)
{
    const struct transport_links *links = link->links;
    size_t at = 0;

    *wanted = 0;
    while (size - at >= HEAD_SIZE) {
        uint32_t packet_size = get_u32(bytes + at);

        if (packet_size == 0 || packet_size > links->packet_max || link->dialled) {
            transport_link_break(link, NNG_EPROTO,
                                 link->dialled ? "it sends packets on a connection that it accepted"
                                               : "it sends a packet that is empty or too large");
            return at;
        }
        if (size - at - HEAD_SIZE < packet_size) {
            *wanted = HEAD_SIZE + packet_size;
            return at;
        }
        links->packet(links->arg, link, bytes + at + HEAD_SIZE, packet_size);
        at += HEAD_SIZE + packet_size;
    }
    return at;
}

/* Handles `more` bytes that were received into the buffer. */
static void take_in(struct transport_link *link, size_t more)
{
    struct transport_bytes *in = &link->in;
    size_t wanted = 0;
    size_t used = 0;

    in->size += more;
    if (link->state == TRANSPORT_LINK_GREETING) {
        used = take_greeting(link, in->data, in->size);
    }
    if (link->state == TRANSPORT_LINK_UP) {
        used += take_packets(link, in->data + used, in->size - used, &wanted);
    }
    in->size -= used;
    memmove(in->data, in->data + used, in->size);
    if (in->size == 0 && in->capacity > IN_SIZE) {
        release(in);
    }
    if (!reserve(in, wanted > IN_SIZE ? wanted : IN_SIZE, IN_SIZE)) {
        transport_link_break(link, NNG_ENOMEM, NULL);
    }
}

/* Returns the free part of the buffer, where the next receive writes. */
static nng_iov room(const struct transport_link *link)
{
    return (nng_iov){.iov_buf = link->in.data + link->in.size,
                     .iov_len = link->in.capacity - link->in.size};
}

static void receive_later(struct transport_link *link)
{
    nng_iov iov = room(link);

    HF_CHECK(nng_aio_set_iov(link->receive.aio, 1, &iov) == 0);
    transport_op_begin(&link->receive, 0);
    nng_stream_recv(link->stream, link->receive.aio);
}

/* Receives once, without waiting. Returns true if more bytes may have arrived. */
static bool receive_now(struct transport_link *link, uint32_t events)
{
    nng_aio *now = link->links->now;
    nng_iov iov = room(link);
    int result;

    HF_CHECK(nng_aio_set_iov(now, 1, &iov) == 0);
    nng_stream_recv(link->stream, now);
    nng_aio_cancel(now);
    nng_aio_wait(now);
    result = nng_aio_result(now);
    if (result == NNG_ECANCELED) { /* nothing has arrived */
        if ((events & (EPOLLHUP | EPOLLERR)) != 0) {
            transport_link_break(link, NNG_ECLOSED, NULL); /* NNG has closed the stream */
        }
        return false;
    }
    if (result != 0) {
        transport_link_break(link, result, NULL);
        return false;
    }
    size_t count = nng_aio_count(now);
    take_in(link, count);
    return count == iov.iov_len && link->state != TRANSPORT_LINK_BROKEN;
}

void transport_link_ready(struct transport_link *link, uint32_t events, bool once)
{
    uint32_t receives = 1;

    while (link->state != TRANSPORT_LINK_BROKEN && receive_now(link, events) && !once &&
           receives < RECEIVES_MAX) {
        receives++;
    }
}

/* Finds the link's descriptor, sets its options, and adds it to the epoll set. The search goes
 * through all descriptors of the process. So the end that was dialled searches only after the
 * greeting: otherwise a stranger could cause searches at no cost. */
static void watch(struct transport_link *link)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP, .data = {.ptr = link}};
    int fd = transport_find_fd(link->stream);

    if (fd >= 0) {
        transport_bound_waiting(fd);
        if (!link->secure && epoll_ctl(link->links->epoll, EPOLL_CTL_ADD, fd, &event) == 0) {
            link->fd = fd;
        }
    }
}

void transport_link_worked(struct transport_link *link, enum transport_op_kind kind)
{
    const struct transport_op *op = kind == TRANSPORT_OP_RECEIVE ? &link->receive : &link->send;

    if (link->state == TRANSPORT_LINK_BROKEN) {
        return;
    }
    if (kind == TRANSPORT_OP_SEND) {
        /* transport_link_send() may have noticed the end already, and have begun the next send. */
        if (!transport_op_running(&link->send) && link->flying.size > 0) {
            flight_ended(link);
        }
        return;
    }
    if (nng_aio_result(op->aio) != 0) {
        transport_link_break(link, nng_aio_result(op->aio), NULL);
        return;
    }
    bool stranger = link->state == TRANSPORT_LINK_GREETING && !link->dialled;
    if (stranger && link->secure) {
        transport_certified(link->stream, link->certified); /* the handshake is complete */
    }
    take_in(link, nng_aio_count(op->aio));
    if (stranger && link->state == TRANSPORT_LINK_UP) {
        watch(link);
    }
    if (link->state != TRANSPORT_LINK_BROKEN && link->fd < 0) {
        receive_later(link);
    }
}

/* ---- making, closing ---- */
struct transport_link *transport_link_create(struct transport_links *links, nng_stream *stream,
                                             struct transport_link_start start, void *owner)
{
    struct transport_link *link = calloc(1, sizeof *link);
    nng_sockaddr remote;

    if (link == NULL) {
        nng_stream_close(stream);
        nng_stream_free(stream);
        return NULL;
    }
    link->links = links;
    link->owner = owner;
    link->stream = stream;
    link->dialled = start.dialled;
    link->secure = start.secure;
    link->newest = start.newest;
    link->fd = -1;
    if (!reserve(&link->in, IN_SIZE, IN_SIZE) ||
        !transport_op_init(&link->receive, links->ops, TRANSPORT_OP_RECEIVE, link) ||
        !transport_op_init(&link->send, links->ops, TRANSPORT_OP_SEND, link)) {
        transport_link_destroy(link);
        return NULL;
    }
    if (nng_stream_get_addr(stream, NNG_OPT_REMADDR, &remote) != 0) {
        remote.s_family = NNG_AF_UNSPEC; /* the other end is gone already */
    }
    transport_remote_text(&remote, link->remote);
    if (link->dialled) {
        watch(link);
        send_greeting(link, link->newest);
    }
    if (link->fd < 0) {
        receive_later(link);
    }
    return link;
}

void transport_link_destroy(struct transport_link *link)
{
    if (link == NULL) {
        return;
    }
    if (link->fd >= 0) {
        (void)epoll_ctl(link->links->epoll, EPOLL_CTL_DEL, link->fd, NULL);
    }
    nng_stream_close(link->stream); /* this ends both operations */
    transport_op_fini(&link->receive);
    transport_op_fini(&link->send);
    nng_stream_free(link->stream);
    release(&link->in);
    release(&link->flying);
    release(&link->waiting);
    free(link);
}
