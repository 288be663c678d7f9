/*
 * A connection between agents receives any bytes, in pieces of any size. The tested code is the
 * greeting and the frames of agent/io/transport/link.c, which is compiled into this file. A stream
 * in this file replaces NNG's. A second, simpler reading of the same bytes gives the expected
 * result, which must not depend on the pieces.
 *
 * The first byte of an input has flags (see the enum), and the second byte says how the bytes after
 * it are cut into pieces. The other end sends these bytes.
 */
#include "fuzz.h"

#include "io/transport/link.h"
#include "io/transport/nng.h"
#include "io/transport/setup.h"
#include "io/transport/tls.h"
#include "proto/check.h"

#include <string.h>
#include <sys/epoll.h>

enum {
    HOW_DIALLED = 1, /* this end dialled, so it greets first, and accepts no packets */
    HOW_STUCK = 2,   /* the kernel takes nothing that this end sends */
    HOW_READY = 4,   /* once both greetings have arrived, the code uses the descriptor's events */
    HOW_SECURE = 8,
    HOW_NEWER = 16, /* this end has a newer version, and offers it on its first connection */
    NEWER = TRANSPORT_VERSION_SECOND + 2,
    INPUT_HEAD = 2,
    PACKET_MAX = 300,
    GREETING_SIZE = 16,
    SAID_MAX = 64,
};

/* ---- the result ---- */

struct outcome {
    uint64_t hash; /* a hash of the packets and their sizes, in order */
    uint32_t packets;
    bool broken;
};

static void add_packet(struct outcome *outcome, const void *bytes, size_t size)
{
    const uint8_t *at = bytes;

    HF_CHECK(size >= 1 && size <= PACKET_MAX);
    outcome->packets++;
    outcome->hash = (outcome->hash ^ size) * UINT64_C(0x100000001b3);
    for (size_t i = 0; i < size; i++) {
        outcome->hash = (outcome->hash ^ at[i]) * UINT64_C(0x100000001b3);
    }
}

static uint32_t read_u32(const uint8_t *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

/* Returns whether both ends accept that version in a greeting. It follows proto/SCHEMA.md, not the
 * code. */
static bool version_shared(uint32_t version, bool dialled, bool newer)
{
    if (version == 1) {
        return !(newer && dialled); /* a newer dialling agent hangs up and dials again with
                                     * version 1 */
    }
    return newer && version >= 4 && (!dialled || version <= NEWER);
}

/* Returns the version in this end's greeting. theirs: the version in the other end's greeting, or 0
 * if this end greets first. */
static uint32_t version_said(uint32_t theirs, bool newer)
{
    if (!newer) {
        return 1;
    }
    return theirs == 1 || (theirs >= 4 && theirs < NEWER) ? theirs : NEWER;
}

/* Computes the expected result of the bytes. It follows proto/SCHEMA.md, not the code. */
static struct outcome expected(const uint8_t *bytes, size_t size, bool dialled, bool newer)
{
    const uint8_t good[GREETING_SIZE] = {'h', 'o', 'l', 'd', 'f', 'a',
                                         's', 't', 0,   0,   0,   dialled ? 2 : 1};
    struct outcome outcome = {.hash = 1};
    size_t at = GREETING_SIZE;

    if (size < GREETING_SIZE) {
        /* A fault in the first eight bytes is noticed at once, and any other fault when the
         * greeting is complete. */
        size_t seen = size < 12 ? (size < 8 ? size : 8) : 12;
        outcome.broken = memcmp(bytes, good, seen) != 0;
        return outcome;
    }
    outcome.broken = memcmp(bytes, good, 12) != 0 ||
                     !version_shared(read_u32(bytes + 12), dialled, newer);
    while (!outcome.broken && size - at >= 4) {
        uint32_t packet = read_u32(bytes + at);

        outcome.broken = packet == 0 || packet > PACKET_MAX || dialled;
        if (outcome.broken || size - at - 4 < packet) {
            break;
        }
        add_packet(&outcome, bytes + at + 4, packet);
        at += 4 + packet;
    }
    return outcome;
}

/* ---- a stream that replaces NNG's ---- */

struct nng_aio {
    nng_iov iov[2];
    unsigned iov_count;
    int result;
    size_t count;
};

static struct {
    const uint8_t *bytes; /* the bytes that the other end has not sent yet */
    size_t size;
    uint64_t cuts;
    bool stuck;
    uint8_t said[SAID_MAX]; /* the bytes that this end has sent */
    size_t said_size;
    struct nng_aio receive, send, now;
} world;

static size_t next_piece(void)
{
    world.cuts = world.cuts * UINT64_C(6364136223846793005) + 1442695040888963407u;
    size_t most = (world.cuts >> 33) % 4 == 0 ? 1000 : 9;
    size_t piece = 1 + (world.cuts >> 40) % most;
    return piece < world.size ? piece : world.size;
}

int nng_aio_set_iov(nng_aio *aio, unsigned count, const nng_iov *iov)
{
    HF_CHECK(count >= 1 && count <= 2);
    memcpy(aio->iov, iov, count * sizeof *iov);
    aio->iov_count = count;
    return 0;
}

void nng_aio_cancel(nng_aio *aio)
{
    (void)aio;
}

void nng_aio_wait(nng_aio *aio)
{
    (void)aio;
}

int nng_aio_result(nng_aio *aio)
{
    return aio->result;
}

size_t nng_aio_count(nng_aio *aio)
{
    return aio->count;
}

/* Copies the next piece into the aio's buffer, and fills the rest of the buffer with rubbish. */
static void deliver(nng_aio *aio)
{
    size_t piece = next_piece();

    HF_CHECK(aio->iov_count == 1 && aio->iov[0].iov_len > 0);
    memset(aio->iov[0].iov_buf, 0xee, aio->iov[0].iov_len);
    piece = piece < aio->iov[0].iov_len ? piece : aio->iov[0].iov_len;
    memcpy(aio->iov[0].iov_buf, world.bytes, piece);
    world.bytes += piece;
    world.size -= piece;
    aio->result = 0;
    aio->count = piece;
}

void nng_stream_recv(nng_stream *stream, nng_aio *aio)
{
    (void)stream;
    if (aio != &world.now) {
        return; /* deliver() completes the read later */
    }
    aio->result = NNG_ECANCELED;
    if (world.size > 0) {
        deliver(aio);
    }
}

void nng_stream_send(nng_stream *stream, nng_aio *aio)
{
    (void)stream;
    aio->result = aio == &world.now && world.stuck ? NNG_ECANCELED : 0;
    aio->count = 0;
    for (unsigned i = 0; aio->result == 0 && i < aio->iov_count; i++) {
        HF_CHECK(world.said_size + aio->iov[i].iov_len <= SAID_MAX);
        if (aio->iov[i].iov_len > 0) {
            memcpy(world.said + world.said_size, aio->iov[i].iov_buf, aio->iov[i].iov_len);
        }
        world.said_size += aio->iov[i].iov_len;
        aio->count += aio->iov[i].iov_len;
    }
}

void nng_stream_close(nng_stream *stream)
{
    (void)stream;
}

void nng_stream_free(nng_stream *stream)
{
    (void)stream;
}

int nng_stream_get_addr(nng_stream *stream, const char *option, nng_sockaddr *address)
{
    (void)stream;
    (void)option;
    (void)address;
    return NNG_ECLOSED;
}

bool transport_op_init(struct transport_op *work, struct transport_ops *works,
                       enum transport_op_kind kind, void *owner)
{
    *work = (struct transport_op){.ops = works, .kind = kind, .owner = owner};
    work->aio = kind == TRANSPORT_OP_SEND ? &world.send : &world.receive;
    return true;
}

void transport_op_fini(struct transport_op *work)
{
    (void)work;
}

void transport_op_begin(struct transport_op *work, size_t quiet_size)
{
    (void)work;
    (void)quiet_size;
}

bool transport_op_running(struct transport_op *work)
{
    (void)work;
    return false;
}

int transport_find_fd(nng_stream *stream)
{
    (void)stream;
    return -1;
}

void transport_bound_waiting(int fd)
{
    (void)fd;
}

void transport_certified(nng_stream *stream, char *out)
{
    (void)stream;
    out[0] = '\0';
}

void transport_remote_text(const nng_sockaddr *address, char *out)
{
    (void)address;
    out[0] = '\0';
}

/* ---- the entry ---- */

static void on_packet(void *arg, struct transport_link *link, const void *bytes, size_t size)
{
    HF_CHECK(link->state == TRANSPORT_LINK_UP && !link->dialled);
    add_packet(arg, bytes, size);
}

/* Delivers all bytes that the other end sends. Stops early if the link is broken. */
static void converse(struct transport_link *link, uint8_t how)
{
    while (link->state != TRANSPORT_LINK_BROKEN && world.size > 0) {
        if ((how & HOW_READY) != 0 && link->state == TRANSPORT_LINK_UP) {
            transport_link_ready(link, EPOLLIN, false);
        } else {
            deliver(link->receive.aio);
            transport_link_worked(link, TRANSPORT_OP_RECEIVE);
        }
        if ((how & HOW_STUCK) != 0) {
            transport_link_worked(link, TRANSPORT_OP_SEND);
        }
    }
}

static void transport_entry(const uint8_t *bytes, size_t size)
{
    uint8_t says[GREETING_SIZE + 1] = "holdfast";
    struct outcome outcome = {.hash = 1};
    struct transport_links links = {
        .packet_max = PACKET_MAX, .now = &world.now, .arg = &outcome, .packet = on_packet};

    if (size < INPUT_HEAD) {
        return;
    }
    bool dialled = (bytes[0] & HOW_DIALLED) != 0;
    bool newer = (bytes[0] & HOW_NEWER) != 0;
    struct outcome wanted = expected(bytes + INPUT_HEAD, size - INPUT_HEAD, dialled, newer);
    memset(&world, 0, sizeof world);
    world.bytes = bytes + INPUT_HEAD;
    world.size = size - INPUT_HEAD;
    world.cuts = bytes[1];
    world.stuck = (bytes[0] & HOW_STUCK) != 0;
    says[11] = dialled ? 1 : 2;
    if (dialled || size >= INPUT_HEAD + GREETING_SIZE) {
        says[15] = (uint8_t)version_said(dialled ? 0 : read_u32(bytes + INPUT_HEAD + 12), newer);
    }
    const struct transport_link_start start = {.dialled = dialled,
                                               .secure = (bytes[0] & HOW_SECURE) != 0,
                                               .newest = newer ? NEWER : TRANSPORT_VERSION_FIRST};
    struct transport_link *link = transport_link_create(&links, NULL, start, NULL);
    HF_CHECK(link != NULL);
    converse(link, bytes[0]);
    HF_CHECK(outcome.packets == wanted.packets && outcome.hash == wanted.hash);
    HF_CHECK((link->state == TRANSPORT_LINK_BROKEN) == wanted.broken);
    HF_CHECK(!wanted.broken || link->reason != NULL || link->older);
    HF_CHECK(world.said_size == 0 || world.said_size == GREETING_SIZE);
    HF_CHECK(memcmp(world.said, says, world.said_size) == 0);
    HF_CHECK(link->state != TRANSPORT_LINK_UP || link->version == says[15] ||
             (dialled && link->version < says[15]));
    HF_CHECK(link->state != TRANSPORT_LINK_UP || world.said_size == GREETING_SIZE);
    transport_link_destroy(link);
}

/* Makes a seed: a correct greeting, and then frames, among them the largest and one that is too
 * large. */
static size_t transport_seed(size_t index, uint8_t *bytes, size_t size)
{
    static const size_t sizes[] = {1, 2, 7, PACKET_MAX, 40, PACKET_MAX + 1};
    size_t at = INPUT_HEAD;

    if (index >= 64) {
        return 0;
    }
    HF_CHECK(size >= 1024);
    bytes[0] = (uint8_t)(index % 16) | (index >= 32 ? HOW_NEWER : 0);
    bytes[1] = (uint8_t)(index * 7);
    memcpy(bytes + at, "holdfast\0\0\0\1\0\0\0\1", GREETING_SIZE);
    bytes[at + 11] = (bytes[0] & HOW_DIALLED) != 0 ? 2 : 1;
    bytes[at + 15] = index < 32 ? 1 : index % 16 < 8 ? 4 : NEWER;
    at += GREETING_SIZE;
    for (size_t i = 0; i < 5 + index / 16 % 2 && (bytes[0] & HOW_DIALLED) == 0; i++) {
        bytes[at] = bytes[at + 1] = 0;
        bytes[at + 2] = (uint8_t)(sizes[i] >> 8);
        bytes[at + 3] = (uint8_t)sizes[i];
        memset(bytes + at + 4, (int)('a' + i), sizes[i]);
        at += 4 + sizes[i];
    }
    return at;
}

const struct fuzz_target fuzz_target = {"transport", transport_entry, transport_seed, 8192};
