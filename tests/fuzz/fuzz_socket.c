/*
 * The agent's Unix socket between hostile processes and a hostile kernel. The server is
 * agent/io/socket/socket.c. Its sockets and descriptors are in this file. Its clock, memory and
 * libuv are in server_kernel.c.
 *
 * Clients send packets of any size with any number of descriptors, which the kernel refuses in some
 * inputs. Clients do not read, and leave. The handler answers, and closes this or another
 * connection. These rules must hold:
 *
 *  - No descriptor is leaked or closed twice.
 *  - Packets arrive in order, and the bytes that wait to be sent are bounded.
 *  - A silent connection does not stay.
 *  - The number of an ended connection names no other connection.
 *  - The agent never receives a packet with descriptors, never closes a socket that has such a
 *    packet, and never gets a copy of such a descriptor.
 *
 * An input is a sequence of events. The handler's actions are drawn from it at each call.
 */
#include "fuzz.h"
#include "server_kernel.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "io/closer.h"
#include "io/late_close.h"
#include "io/socket.h"
#include "proto/check.h"
#include "proto/frame.h"

enum { INPUT_MAX = 1024, EVENTS_MAX = 400, CLIENTS = 64, CONNECTIONS = 12, PENDING = 24 };
enum { TOLD_MAX = 800, SPARE = LISTENER + 1, OURS = 4000 };
#define MS INT64_C(1000000)

struct pending {
    uint32_t size;
    uint8_t fds;
    uint8_t what; /* the kind of its bytes, see fill() */
};

/* a client, whose descriptor is FIRST_FD plus its number here */
struct socket_client {
    bool open;
    bool gone; /* the client sends nothing more */
    bool reset;
    bool reset_told; /* the kernel has returned the reset as an error, which it does once */
    bool shut;       /* the agent has shut it down, so nothing can be sent to it */
    bool greeted;
    bool refused; /* the client got the answer that the agent has no room for it */
    int64_t accepted_ns;
    uint32_t number;
    uint32_t window; /* how many packets the kernel takes now */
    struct kernel_end end;
    uint32_t pending_count;
    uint32_t pending_read;
    struct pending pending[PENDING];
    uint32_t told; /* how many packets the handler gave to connection_send() */
    uint32_t sent; /* the number of the last packet that the client got */
    struct {
        uint32_t size;
        bool unasked;
    } packets[TOLD_MAX];
};

static struct {
    struct socket_server *server;
    struct socket_shares shares;
    bool spare_open;
    bool refuses;      /* the kernel refuses packets with descriptors */
    uint32_t closing;  /* how many sockets the closer has not closed yet */
    bool closer_ended; /* the closer has ended, so the server closes sockets itself */
    bool alone;        /* the server has reported the end of the closer */
    bool stuck;        /* the server must not accept a client */
    struct socket_client clients[CLIENTS];
} world;

static struct socket_client *client_of(int fd)
{
    HF_CHECK(fd >= FIRST_FD && fd < FIRST_FD + CLIENTS);
    struct socket_client *client = &world.clients[fd - FIRST_FD];
    HF_CHECK(client->open);
    return client;
}

struct kernel_end *kernel_end_of(int fd)
{
    return &client_of(fd)->end;
}

/* ---- descriptors ---- */

/* Receives or discards the next packet, which must have no descriptors. */
static void take_pending(struct socket_client *client)
{
    HF_CHECK(client->pending[client->pending_read % PENDING].fds == 0);
    client->pending_read++;
}

static void close_client(struct socket_client *client)
{
    HF_CHECK(client->end.events == 0); /* libuv requires that a closed descriptor is not polled */
    client->open = false;
}

int fuzz_close(int fd)
{
    if (fd == LISTENER) {
        HF_CHECK(kernel.listener_open && !kernel.listens);
        kernel.listener_open = false;
    } else if (fd == SPARE) {
        HF_CHECK(world.spare_open);
        world.spare_open = false;
    } else { /* every other descriptor is a client's connection */
        struct socket_client *client = client_of(fd);
        HF_CHECK(client->shut);
        while (client->pending_read < client->pending_count) { /* the kernel discards unread
                                                                * packets */
            HF_CHECK(world.refuses); /* this kernel refuses descriptors, so these packets have
                                      * none */
            take_pending(client);
        }
        close_client(client);
    }
    return 0;
}

int fuzz_shutdown(int fd, int how)
{
    HF_CHECK(how == SHUT_RDWR);
    client_of(fd)->shut = true;
    return 0;
}

/* Answers SIOCOUTQ. In this kernel the client receives each sent packet at once. */
int fuzz_ioctl(int fd, unsigned long request, ...)
{
    va_list rest;
    (void)fd;
    (void)request;
    va_start(rest, request);
    *va_arg(rest, int *) = 0;
    va_end(rest);
    return 0;
}

int fuzz_setsockopt(int fd, int level, int name, const void *value, socklen_t size)
{
    enum { PASSRIGHTS = 83 };
    HF_CHECK(fd == LISTENER && level == SOL_SOCKET && size == sizeof(int) && !kernel.listens);
    if (name == PASSRIGHTS) {
        HF_CHECK(*(const int *)value == 0);
        world.refuses = draw_byte(&kernel.draw) % 2 == 0;
        errno = ENOPROTOOPT;
        return world.refuses ? 0 : -1;
    }
    HF_CHECK(name == SO_PASSCRED && *(const int *)value == 1);
    return kernel_fails();
}

/* ---- the closer ---- */

static struct closer *const closer = (struct closer *)&world;

void closer_give(struct closer *to, int socket, uid_t uid)
{
    HF_CHECK(to == closer && !world.refuses && world.closing < CONNECTIONS + 2);
    HF_CHECK(client_of(socket)->shut && (uid == 1000 || uid == 1001 || uid == (uid_t)-1));
    close_client(client_of(socket));
    world.closer_ended = world.closer_ended || draw_byte(&kernel.draw) == 253;
    world.closing++;
}

void closer_keep(struct closer *to, int socket)
{
    HF_CHECK(to == closer && !world.refuses && world.closing < CONNECTIONS + 2);
    HF_CHECK(socket == LISTENER && kernel.listener_open && !kernel.listens);
    kernel.listener_open = false;
    world.closing++;
}

bool closer_push(struct closer *to)
{
    HF_CHECK(to == closer);
    world.stuck = !world.closer_ended && draw_byte(&kernel.draw) % 8 == 7;
    world.closing = world.stuck ? world.closing : 0;
    return !world.stuck;
}

uid_t closer_most(const struct closer *to, uint32_t *count)
{
    HF_CHECK(to == closer && world.stuck);
    *count = 1;
    return 1000;
}

bool closer_ended(const struct closer *to)
{
    HF_CHECK(to == closer);
    return world.closer_ended;
}

/* The server calls this for a connection whose calls were slow. That cannot happen here, because no
 * call of this kernel takes time. */
void late_close(int fd, uid_t uid)
{
    (void)fd;
    (void)uid;
    HF_CHECK(!"a connection that cost much");
}

int fuzz_fcntl(int fd, int command, int argument)
{
    HF_CHECK(fd == LISTENER && command == F_DUPFD_CLOEXEC && argument == 0 && !world.spare_open);
    world.spare_open = true;
    return SPARE;
}

/* ---- the listener ---- */

int fuzz_socket(int family, int type, int protocol)
{
    HF_CHECK(family == AF_UNIX && (type & 0xf) == SOCK_SEQPACKET && protocol == 0);
    if (kernel_fails() != 0) {
        return -1;
    }
    kernel.listener_open = true;
    return LISTENER;
}

int fuzz_lstat(const char *path, struct stat *out)
{
    HF_CHECK(path[0] == '/');
    memset(out, 0, sizeof(*out));
    errno = kernel_fails() != 0 ? EACCES : ENOENT;
    return -1;
}

int fuzz_unlink(const char *path)
{
    HF_CHECK(path[0] == '/');
    return 0;
}

int fuzz_fchmod(int fd, mode_t mode)
{
    HF_CHECK(fd == LISTENER && (mode == 0600 || mode == 0666));
    return kernel_fails();
}

int fuzz_bind(int fd, const struct sockaddr *address, socklen_t size)
{
    HF_CHECK(fd == LISTENER && address->sa_family == AF_UNIX && size > 0);
    return kernel_fails();
}

int fuzz_accept4(int fd, struct sockaddr *address, socklen_t *size, int flags)
{
    HF_CHECK(fd == LISTENER && address == NULL && size == NULL && (flags & SOCK_NONBLOCK) != 0);
    HF_CHECK(!world.stuck);
    int number = kernel_accept(CLIENTS);
    if (number < 0) {
        return -1;
    }
    struct socket_client *client = &world.clients[number];
    memset(client, 0, offsetof(struct socket_client, pending));
    client->told = client->sent = 0;
    client->open = true;
    client->accepted_ns = kernel.now_ns;
    client->window = UINT32_MAX;
    return FIRST_FD + number;
}

bool fuzz_peer_of(int fd, struct peer *out)
{
    (void)client_of(fd);
    uid_t uid = 1000u + draw_byte(&kernel.draw) % 2;
    *out = (struct peer){.pid = 5, .uid = uid, .gid = 9, .account = uid};
    return draw_byte(&kernel.draw) != 255;
}

/* ---- packets ---- */

/* Makes the bytes of a packet: a frame of a client, or rubbish. */
static size_t fill(uint8_t *bytes, size_t room, const struct pending *packet)
{
    struct hfi_frame frame = {.kind = HFI_FRAME_STATUS, .request = 7};
    if (packet->what % 2 == 0) {
        return hfi_frame_encode(&frame, bytes, room);
    }
    memset(bytes, packet->what, packet->size < room ? packet->size : room);
    return packet->size;
}

/* Attaches the sender's credentials. The server must offer no space for anything else. */
static void attach(struct msghdr *message, const struct pending *packet)
{
    const struct ucred who = {.pid = 5};
    struct cmsghdr *header = CMSG_FIRSTHDR(message);
    HF_CHECK(message->msg_controllen == CMSG_SPACE(sizeof(who)));
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_CREDENTIALS;
    header->cmsg_len = CMSG_LEN(sizeof(who));
    memcpy(CMSG_DATA(header), &who, sizeof(who));
    message->msg_flags |= packet->fds > 0 ? MSG_CTRUNC : 0;
}

/* Returns the size of the client's next packet, or 0 or -1 like recv(2). */
static ssize_t next_size(struct socket_client *client)
{
    static uint8_t bytes[2 * HFI_FRAME_MAX];
    if (client->reset && !client->reset_told && draw_byte(&kernel.draw) % 2 == 0) {
        client->reset_told = true;
        errno = ECONNRESET;
        return -1;
    }
    if (client->pending_read == client->pending_count) {
        errno = EAGAIN;
        return client->gone || client->shut ? 0 : -1;
    }
    return (ssize_t)fill(bytes, sizeof(bytes), &client->pending[client->pending_read % PENDING]);
}

static void say(struct socket_client *client)
{
    uint8_t what = draw_byte(&kernel.draw);
    uint32_t count = what >= 248 ? PENDING : 1;
    for (uint32_t i = 0; i < count && client->pending_count - client->pending_read < PENDING; i++) {
        client->pending[client->pending_count++ % PENDING] = (struct pending){
            .size = what < 200 ? what % 25 * 8u : HFI_FRAME_MAX - 1u + what % 4,
            .fds = what % 16 < 12 || world.refuses ? 0 : (uint8_t)(what % 4),
            .what = what};
    }
}

ssize_t fuzz_recvmsg(int fd, struct msghdr *message, int flags)
{
    struct socket_client *client = client_of(fd);
    bool peek = (flags & MSG_PEEK) != 0;
    HF_CHECK((flags & ~MSG_PEEK) == (MSG_TRUNC | MSG_DONTWAIT));
    HF_CHECK(!peek || (!world.refuses && message->msg_iovlen == 0));
    ssize_t size = next_size(client);
    if (size < 0 || client->pending_read == client->pending_count) {
        message->msg_controllen = 0;
        if (size < 0 && errno == EAGAIN && draw_byte(&kernel.draw) % 16 == 15) {
            say(client); /* another packet arrives just after the server saw none */
            errno = EAGAIN;
        }
        return size;
    }
    const struct pending *packet = &client->pending[client->pending_read % PENDING];
    attach(message, packet);
    if (message->msg_iovlen > 0) {
        size_t room = message->msg_iov->iov_len;
        static uint8_t bytes[2 * HFI_FRAME_MAX];
        (void)fill(bytes, sizeof(bytes), packet);
        memcpy(message->msg_iov->iov_base, bytes, (size_t)size < room ? (size_t)size : room);
    }
    if (!peek) {
        take_pending(client);
    }
    return size;
}

ssize_t fuzz_sendmsg(int fd, const struct msghdr *message, int flags)
{
    static const int refusals[] = {EAGAIN, EINTR, ENOBUFS};
    struct socket_client *client = client_of(fd);
    size_t size = message->msg_iov->iov_len;
    uint32_t number;
    HF_CHECK((flags & MSG_DONTWAIT) != 0 && (flags & MSG_NOSIGNAL) != 0);
    if (client->reset) {
        errno = EPIPE;
        return -1;
    }
    if (client->window == 0) {
        errno = refusals[draw_byte(&kernel.draw) % 3];
        return -1;
    }
    client->window -= client->window != UINT32_MAX;
    HF_CHECK(!client->refused);
    memcpy(&number, message->msg_iov->iov_base, sizeof(number));
    if (number == UINT32_MAX) { /* the server refused the client before the handler saw it, and
                                 * closes it now */
        HF_CHECK(size == sizeof(number) && !client->greeted && message->msg_controllen == 0);
        client->refused = true;
        return (ssize_t)size;
    }
    HF_CHECK(number > client->sent && number <= client->told);
    HF_CHECK(client->packets[number].size == size);
    while (++client->sent < number) { /* answers must not be left out */
        HF_CHECK(client->packets[client->sent].unasked);
    }
    if (message->msg_controllen > 0) {
        struct cmsghdr *header = CMSG_FIRSTHDR(message);
        for (size_t i = 0; i < (header->cmsg_len - CMSG_LEN(0)) / sizeof(int); i++) {
            int passed;
            memcpy(&passed, CMSG_DATA(header) + i * sizeof(int), sizeof(int));
            HF_CHECK(passed == OURS);
        }
    }
    return (ssize_t)size;
}

/* ---- the handler ---- */

static struct socket_client *client_with(const struct connection *connection)
{
    return client_of(connection_socket(connection));
}

/* Makes the handler send a packet, whose first bytes are its number. */
static void tell(struct connection *connection, bool unasked)
{
    static uint8_t bytes[HFI_FRAME_MAX];
    struct socket_client *client = client_with(connection);
    uint8_t what = draw_byte(&kernel.draw);
    uint32_t number = client->told + 1;
    struct connection_output output = {.bytes = bytes, .fd = -1, .unasked = unasked};
    if (number == TOLD_MAX) {
        return;
    }
    output.size = what < 200 ? 16 : what < 240 ? 5000 : sizeof(bytes);
    if (what % 4 == 2) {
        output.fd = OURS;
    }
    memcpy(bytes, &number, sizeof(number));
    client->packets[number].size = (uint32_t)output.size;
    client->packets[number].unasked = unasked;
    client->told = number;
    if (!connection_send(connection, &output)) {
        socket_close(connection);
        return;
    }
    /* The bytes of packets that have not arrived are bounded. Packets that no client asked for may
     * be dropped. */
    uint32_t waiting = 0;
    for (uint32_t i = client->sent + 1; i <= client->told; i++) {
        waiting += client->packets[i].unasked ? 0 : client->packets[i].size;
    }
    HF_CHECK(waiting <= SOCKET_OUTPUT_MAX);
}

static void on_packet(void *arg, struct connection *connection, const unsigned char *bytes,
                      size_t size, pid_t sender)
{
    struct hfi_frame frame;
    struct hfi_frame_error error;
    struct socket_client *client = client_with(connection);
    struct connection *other;
    HF_CHECK(arg == &world && size > 0 && size <= HFI_FRAME_MAX && sender == 5);
    bool good = hfi_frame_decode(bytes, size, &frame, NULL, &error) == 0;
    client->number = connection_number(connection);
    switch (draw_byte(&kernel.draw) % 8) {
    case 0:
    case 1:
        connection_greeted(connection);
        client->greeted = true;
        break;
    case 2:
    case 3:
        tell(connection, draw_bool(&kernel.draw));
        break;
    case 5:
        other = socket_find(world.server, world.clients[draw_byte(&kernel.draw) % CLIENTS].number);
        if (other != NULL) {
            socket_close(other);
        }
        break;
    default:
        if (!good) {
            socket_close(connection);
        }
    }
}

static void on_closed(void *arg, struct connection *connection, const char *why)
{
    HF_CHECK(arg == &world && (why == NULL || why[0] != '\0'));
    HF_CHECK(client_with(connection)->open);
    if (draw_byte(&kernel.draw) % 8 == 7) { /* the handler may close the ended connection itself */
        socket_close(connection);
    }
}

static void on_drained(void *arg, struct connection *connection)
{
    HF_CHECK(arg == &world);
    tell(connection, true);
}

static void on_refused(void *arg, const struct peer *peer, const char *why)
{
    HF_CHECK(arg == &world && (peer == NULL || peer->pid == 5) && why[0] != '\0');
}

static void on_stuck(void *arg, uid_t uid, uint32_t count)
{
    HF_CHECK(arg == &world && uid == 1000 && count > 0);
}

static void on_alone(void *arg)
{
    HF_CHECK(arg == &world && world.closer_ended && !world.alone);
    world.alone = true;
}

/* ---- events ---- */

static struct socket_client *draw_client(void)
{
    if (kernel.accepted == 0) {
        return NULL;
    }
    struct socket_client *client = &world.clients[draw_byte(&kernel.draw) % kernel.accepted];
    return client->open ? client : NULL;
}

static void call(struct socket_client *client, int status)
{
    bool readable = client->gone || client->reset || client->pending_read < client->pending_count;
    bool writable = client->window > 0 || client->reset;
    int events = (readable ? UV_READABLE : 0) | (writable ? UV_WRITABLE : 0);
    if (client->end.events == 0 || ((events & client->end.events) == 0 && status == 0)) {
        return;
    }
    socket_shares_turned(
        &world.shares); /* in the next turn the server serves clients that it accepted
                                  * in this turn */
    client->end.callback(client->end.poll, status, status != 0 ? 0 : events & client->end.events);
}

static void change(struct socket_client *client, uint8_t what)
{
    struct connection *connection = socket_find(world.server, client->number);
    switch (what % 8) {
    case 0:
        client->gone = true;
        break;
    case 1:
        client->reset = true;
        break;
    case 2:
        client->window = 0;
        break;
    case 3:
        client->window = draw_byte(&kernel.draw) % 8;
        break;
    case 4:
        client->window = UINT32_MAX;
        break;
    case 5:
        call(client, what > 128 ? UV_EBADF : 0);
        break;
    case 6:
        for (uint32_t i = 0; i < what / 8u && connection != NULL; i++) {
            tell(connection, what >= 128);
            connection = socket_find(world.server, client->number);
        }
        break;
    default:
        call(client, 0);
    }
}

static void accept_some(uint8_t what)
{
    static const int errors[] = {EMFILE, ENFILE, ENOMEM, EINTR, ECONNABORTED, EAGAIN, ENOBUFS, 0};
    kernel.waiting += what % 16 == 15 ? 20 : 1;
    kernel.accept_error = what >= 192 ? errors[what / 16 % 8] : 0;
    if (kernel.listens) {
        kernel.on_listener(kernel.listener, 0, UV_READABLE);
    }
}

static void pass(uint8_t what)
{
    static const int64_t spans_ms[] = {1, 20, 101, 400, 1000, 1001, 4999, SOCKET_GREETING_MS};
    kernel.now_ns += spans_ms[what % 8] * MS;
    if (socket_next_tick_ns(world.server) > kernel.now_ns) {
        return;
    }
    socket_tick(world.server, kernel.now_ns);
    HF_CHECK(socket_next_tick_ns(world.server) > kernel.now_ns);
    for (uint32_t i = 0; i < kernel.accepted; i++) {
        const struct socket_client *client = &world.clients[i];
        HF_CHECK(!client->open || client->greeted ||
                 client->accepted_ns + SOCKET_GREETING_MS * MS > kernel.now_ns);
    }
}

static void play_event(void)
{
    uint8_t what = draw_byte(&kernel.draw);
    struct socket_client *client = NULL;
    uint32_t open = 0;
    switch (what % 8) {
    case 0:
        accept_some(draw_byte(&kernel.draw));
        break;
    case 1:
    case 2:
    case 3:
        client = draw_client();
        if (client != NULL) {
            say(client);
            if (what >= 64) {
                call(client, 0);
            }
        }
        break;
    case 4:
    case 5:
    case 6:
        client = draw_client();
        if (client != NULL) {
            change(client, draw_byte(&kernel.draw));
        }
        break;
    default:
        if (what > 240) {
            kernel.memory_fails = true;
        } else {
            pass(what / 8);
        }
    }
    if (what & 32) {
        kernel_finish_closing();
    }
    for (uint32_t i = 0; i < kernel.accepted; i++) {
        open += world.clients[i].open;
        HF_CHECK(world.clients[i].open ||
                 socket_find(world.server, world.clients[i].number) == NULL);
    }
    HF_CHECK(open <= CONNECTIONS);
}

/* ---- one input ---- */

static size_t socket_seed(size_t index, uint8_t *bytes, size_t size)
{
    uint64_t state = 51 + index;
    size_t used = 30 + 25 * index;
    if (index >= 24 || used > size) {
        return 0;
    }
    for (size_t i = 0; i < used; i++) {
        state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        bytes[i] = (uint8_t)(state >> 56);
    }
    memset(bytes, 0, 10); /* with these zeros the server listens */
    bytes[5] = index % 2; /* half of the seeds have a kernel that refuses descriptors */
    return used;
}

static void socket_entry(const uint8_t *bytes, size_t size)
{
    char error[SOCKET_ERROR_MAX] = "";
    const struct socket_config config = {.path = "/run/fuzz.sock",
                                         .for_all = true,
                                         .connections_max = CONNECTIONS,
                                         .closer = closer,
                                         .shares = &world.shares,
                                         .handler = {.packet = on_packet,
                                                     .closed = on_closed,
                                                     .drained = on_drained,
                                                     .refused = on_refused,
                                                     .stuck = on_stuck,
                                                     .alone = on_alone,
                                                     .arg = &world},
                                         .refusal = {0xff, 0xff, 0xff, 0xff},
                                         .refusal_size = 4};
    memset(&world, 0, offsetof(__typeof__(world), clients));
    kernel = (struct kernel){.draw = {bytes, size}, .now_ns = 1000000 * MS};
    for (uint32_t i = 0; i < CLIENTS; i++) {
        world.clients[i].number = 0;
    }
    world.server = socket_open(NULL, &config, error);
    if (world.server == NULL) {
        HF_CHECK(error[0] != '\0' && !kernel.listener_open && kernel.blocks == 0);
        return;
    }
    for (uint32_t i = 0; i < EVENTS_MAX && kernel.draw.left > 0; i++) {
        play_event();
    }
    socket_shut(world.server);
    kernel_finish_closing();
    socket_shares_forget(&world.shares);
    for (uint32_t i = 0; i < kernel.accepted; i++) {
        HF_CHECK(!world.clients[i].open);
    }
    HF_CHECK(world.alone == world.closer_ended);
    HF_CHECK(!kernel.listener_open && kernel.blocks == 0);
    HF_CHECK(!world.spare_open);
}

const struct fuzz_target fuzz_target = {"socket", socket_entry, socket_seed, INPUT_MAX};
