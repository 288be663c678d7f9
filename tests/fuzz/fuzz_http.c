/*
 * The HTTP server between hostile clients and a hostile kernel. The server is agent/io/http/http.c.
 * Its sockets are in this file. Its clock, memory and libuv are in server_kernel.c.
 *
 * This file reads each request, too, in a simpler way, and so knows the right answer. That answer
 * must come however the request is cut into pieces, and however little of the answer the kernel
 * takes at a time. No client stays longer than it may, the number of clients stays within its
 * limit, and the server leaves nothing open.
 *
 * An input is a sequence of events: a client connects, sends something, leaves or reads nothing, or
 * time passes.
 */
#include "fuzz.h"
#include "server_kernel.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <strings.h>

#include "io/http.h"
#include "proto/check.h"

enum { INPUT_MAX = 1024, EVENTS_MAX = 300, CLIENTS = KERNEL_CLIENTS_MAX };
enum { SAID_MAX = HTTP_REQUEST_MAX, PENDING_MAX = 6000, BODY_MAX = 3000, ANSWER_MAX = 4096 };
#define MS INT64_C(1000000)

/* a client, whose descriptor is FIRST_FD plus its number */
struct http_client {
    bool open; /* the server has not closed it */
    bool gone; /* the client sends nothing more */
    bool reset;
    bool answered;
    bool shut; /* the server has shut it down for writing */
    int64_t accepted_ns;
    uint32_t window; /* how many bytes of an answer the kernel takes */
    struct kernel_end end;
    size_t pending_size;
    size_t pending_read;
    size_t said_size; /* how many bytes the server read until it answered */
    size_t answer_size;
    size_t body_size; /* the body's size, if the handler made the answer */
    uint8_t pending[PENDING_MAX];
    char said[SAID_MAX + 1];
    char answer[ANSWER_MAX];
};

static struct {
    struct http_server *server;
    bool turned; /* the handler was called in this turn */
    uint32_t connected;
    size_t body_size;
    char body[BODY_MAX];
    struct http_client clients[CLIENTS];
} world;

static struct http_client *client_of(int fd)
{
    HF_CHECK(fd >= FIRST_FD && fd < FIRST_FD + CLIENTS);
    struct http_client *client = &world.clients[fd - FIRST_FD];
    HF_CHECK(client->open);
    return client;
}

struct kernel_end *kernel_end_of(int fd)
{
    return &client_of(fd)->end;
}

/* ---- sockets ---- */

int fuzz_socket(int family, int type, int protocol)
{
    HF_CHECK(family == AF_INET && (type & SOCK_NONBLOCK) != 0 && protocol == 0);
    if (kernel_fails() != 0) {
        return -1;
    }
    kernel.listener_open = true;
    return LISTENER;
}

int fuzz_setsockopt(int fd, int level, int name, const void *value, socklen_t size)
{
    (void)level;
    (void)name;
    HF_CHECK(fd == LISTENER && value != NULL && size == sizeof(int));
    return kernel_fails();
}

int fuzz_bind(int fd, const struct sockaddr *address, socklen_t size)
{
    HF_CHECK(fd == LISTENER && address->sa_family == AF_INET && size == sizeof(struct sockaddr_in));
    return kernel_fails();
}

int fuzz_accept4(int fd, struct sockaddr *address, socklen_t *size, int flags)
{
    HF_CHECK(fd == LISTENER && address == NULL && size == NULL && (flags & SOCK_NONBLOCK) != 0);
    HF_CHECK(world.turned);
    int number = kernel_accept(CLIENTS);
    if (number < 0) {
        return -1;
    }
    struct http_client *client = &world.clients[number];
    world.connected++;
    memset(client, 0, offsetof(struct http_client, pending));
    client->open = true;
    client->accepted_ns = kernel.now_ns;
    client->window = UINT32_MAX;
    return FIRST_FD + number;
}

ssize_t fuzz_recv(int fd, void *buffer, size_t size, int flags)
{
    struct http_client *client = client_of(fd);
    HF_CHECK(world.turned && size > 0 && (flags & MSG_DONTWAIT) != 0);
    if (client->reset) {
        errno = ECONNRESET;
        return -1;
    }
    size_t left = client->pending_size - client->pending_read;
    if (left == 0) {
        errno = EAGAIN;
        return client->gone ? 0 : -1;
    }
    uint8_t most = draw_byte(&kernel.draw);
    size = left < size ? left : size;
    size = most > 0 && most < size ? most : size;
    memcpy(buffer, client->pending + client->pending_read, size);
    if (!client->answered) {
        HF_CHECK(client->said_size + size <= SAID_MAX);
        memcpy(client->said + client->said_size, buffer, size);
        client->said_size += size;
    }
    client->pending_read += size;
    return (ssize_t)size;
}

static void check_answer(const struct http_client *client, bool whole);

ssize_t fuzz_send(int fd, const void *buffer, size_t size, int flags)
{
    struct http_client *client = client_of(fd);
    HF_CHECK(world.turned && size > 0 && (flags & MSG_NOSIGNAL) != 0 && !client->shut);
    client->body_size = client->answered ? client->body_size : world.body_size;
    client->answered = true;
    if (client->reset) {
        errno = EPIPE;
        return -1;
    }
    if (client->window == 0) {
        errno = draw_byte(&kernel.draw) == 255 ? EINTR : EAGAIN;
        return -1;
    }
    size = size < client->window ? size : client->window;
    client->window -= client->window != UINT32_MAX ? (uint32_t)size : 0;
    HF_CHECK(client->answer_size + size <= sizeof(client->answer));
    memcpy(client->answer + client->answer_size, buffer, size);
    client->answer_size += size;
    check_answer(client, false);
    return (ssize_t)size;
}

int fuzz_shutdown(int fd, int how)
{
    struct http_client *client = client_of(fd);
    HF_CHECK(how == SHUT_WR && !client->shut && client->answer_size > 0);
    check_answer(client, true);
    client->shut = true;
    return 0;
}

int fuzz_close(int fd)
{
    if (fd == LISTENER) {
        HF_CHECK(kernel.listener_open && !kernel.listens);
        kernel.listener_open = false;
        return 0;
    }
    struct http_client *client = client_of(fd);
    HF_CHECK(client->end.events == 0); /* libuv requires that a closed descriptor is not polled */
    client->open = false;
    world.connected--;
    return 0;
}

/* ---- the expected answer ---- */

static bool has(const char *bytes, size_t size, const char *what)
{
    return memmem(bytes, size, what, strlen(what)) != NULL;
}

static int status_of_path(const char *path, size_t size)
{
    if (size == 8 && memcmp(path, "/metrics", 8) == 0) {
        return 200;
    }
    return size == 8 && memcmp(path, "/healthz", 8) == 0 ? 503 : 404;
}

/* Returns whether the value of a Host line, up to a blank, is neither an IP address nor a name of
 * this host. */
static bool is_another(const char *value, size_t size)
{
    char text[80] = "";
    struct in6_addr number;
    if (size >= sizeof(text)) {
        return true;
    }
    memcpy(text, value, size);
    bool six = text[0] == '[';
    char *end = strchr(text, six ? ']' : ':');
    if (end != NULL) {
        *end = '\0';
    }
    return six ? inet_pton(AF_INET6, text + 1, &number) != 1
               : inet_pton(AF_INET, text, &number) != 1 && strcasecmp(text, "localhost") != 0 &&
                     strcasecmp(text, "host-x") != 0;
}

/* Returns whether a Host line in the head names another host (see is_another()). The head ends at
 * its first empty line. */
static bool names_another(const char *head, size_t size)
{
    const char *end = head + size;
    const char *line = memchr(head, '\n', size);
    while (line != NULL && line + 1 < end && line[1] != '\r' && line[1] != '\n') {
        const char *at = line + 1;
        line = memchr(at, '\n', (size_t)(end - at));
        const char *stop = line != NULL ? line : end;
        if (stop - at < 5 || strncasecmp(at, "host:", 5) != 0) {
            continue;
        }
        for (at += 5; at < stop && (*at == ' ' || *at == '\t');) {
            at++;
        }
        const char *blank = at;
        while (blank < stop && strchr(" \t\r", *blank) == NULL) {
            blank++;
        }
        if (is_another(at, (size_t)(blank - at))) {
            return true;
        }
    }
    return false;
}

/* Returns the status that must answer the client's request "METHOD PATH HTTP/1.x", or 0 if the
 * request is not complete. */
static int expected_status(const struct http_client *client, bool *head)
{
    const char *at = client->said;
    const char *end = at + client->said_size;
    *head = false;
    if (memchr(at, 0, client->said_size) != NULL) {
        return 400;
    }
    if (!has(at, client->said_size, "\r\n\r\n") && !has(at, client->said_size, "\n\n")) {
        return client->said_size == HTTP_REQUEST_MAX ? 431 : 0;
    }
    const char *line = at;
    while (line < end && *line != '\r' && *line != '\n') {
        line++;
    }
    const char *path = memchr(at, ' ', (size_t)(line - at));
    const char *version = path != NULL ? memchr(path + 1, ' ', (size_t)(line - path - 1)) : NULL;
    if (version == NULL || path[1] != '/' || line - version < 8 ||
        memcmp(version, " HTTP/1.", 8) != 0) {
        return 400;
    }
    *head = path - at == 4 && memcmp(at, "HEAD", 4) == 0;
    if (names_another(at, client->said_size)) {
        return 421;
    }
    if (!*head && (path - at != 3 || memcmp(at, "GET", 3) != 0)) {
        return 405;
    }
    const char *query = memchr(path + 1, '?', (size_t)(version - path - 1));
    return status_of_path(path + 1, (size_t)((query != NULL ? query : version) - path - 1));
}

/* Checks the part of the answer that the client has received. If `whole` is set, the answer must be
 * complete. */
static void check_answer(const struct http_client *client, bool whole)
{
    char first[32];
    bool head;
    int status = expected_status(client, &head);
    HF_CHECK(status != 0);
    size_t size = (size_t)snprintf(first, sizeof(first), "HTTP/1.1 %d ", status);
    HF_CHECK(memcmp(client->answer, first,
                    size < client->answer_size ? size : client->answer_size) == 0);
    if (!whole) {
        return;
    }
    const char *end = memmem(client->answer, client->answer_size, "\r\n\r\n", 4);
    const char *length = memmem(client->answer, client->answer_size, "\r\nContent-Length: ", 18);
    HF_CHECK(end != NULL && length != NULL && length < end);
    HF_CHECK(has(client->answer, client->answer_size, "\r\nConnection: close\r\n"));
    size_t body = (size_t)(client->answer + client->answer_size - end - 4);
    size_t told = strtoul(length + 18, NULL, 10);
    HF_CHECK(body == (head ? 0 : told));
    bool ours = status == 200 || status == 503;
    HF_CHECK(!ours || (told == client->body_size && memcmp(end + 4, world.body, body) == 0));
}

static void on_request(void *arg, const char *path, struct http_answer *out)
{
    int status = status_of_path(path, strlen(path));
    HF_CHECK(arg == &world && path[0] == '/' && strpbrk(path, " ?\r\n") == NULL);
    HF_CHECK(out->status == 404);
    if (status == 404) {
        return;
    }
    out->status = status;
    out->type = "text/plain";
    out->body = world.body;
    out->size = world.body_size;
}

static void on_turn(void *arg)
{
    HF_CHECK(arg == &world);
    world.turned = true;
}

/* ---- events ---- */

static struct http_client *draw_client(void)
{
    if (kernel.accepted == 0) {
        return NULL;
    }
    struct http_client *client = &world.clients[draw_byte(&kernel.draw) % kernel.accepted];
    return client->open ? client : NULL;
}

static void add(struct http_client *client, const void *bytes, size_t size)
{
    size_t room = PENDING_MAX - client->pending_size;
    size = size < room ? size : room;
    memcpy(client->pending + client->pending_size, bytes, size);
    client->pending_size += size;
}

static void say(struct http_client *client)
{
    static const char *const pieces[] = {"GET ",
                                         "HEAD ",
                                         "POST ",
                                         "/",
                                         "/metrics",
                                         "/healthz",
                                         "?a=1 b",
                                         " ",
                                         " HTTP/1.1",
                                         " HTTP/1.",
                                         "\r\n",
                                         "\n",
                                         "\r",
                                         "\r\n\r\n",
                                         "\r\nHost: x",
                                         "\nhost:host-x:1\r",
                                         "\nHOST: [::1]:7412\n",
                                         "Host: 127.0.0.1",
                                         "GET / HTTP/1.0\n\n",
                                         "GET /metrics HTTP/1.1\r\n\r\n"};
    static const uint8_t zero = 0;
    char run[1500];
    uint8_t what = draw_byte(&kernel.draw);
    if (what < 200) {
        const char *piece = pieces[what % (sizeof(pieces) / sizeof(pieces[0]))];
        add(client, piece, strlen(piece));
    } else if (what < 210) {
        add(client, &zero, 1);
    } else if (what < 230) {
        memset(run, 'a', sizeof(run));
        add(client, run, what < 220 ? sizeof(run) : draw_byte(&kernel.draw));
    } else {
        for (uint8_t left = what % 16; left > 0 && kernel.draw.left > 0; left--) {
            uint8_t byte = draw_byte(&kernel.draw);
            add(client, &byte, 1);
        }
    }
}

/* Makes the call that libuv would make for the client, if one is due. */
static void call(struct http_client *client, int status)
{
    bool readable = client->gone || client->reset || client->pending_read < client->pending_size;
    bool writable = client->window > 0 || client->reset;
    int events = (readable ? UV_READABLE : 0) | (writable ? UV_WRITABLE : 0);
    if (client->end.events == 0 || ((events & client->end.events) == 0 && status == 0)) {
        return;
    }
    client->end.callback(client->end.poll, status, events & client->end.events);
}

static void change(struct http_client *client, uint8_t what)
{
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
        client->window = draw_byte(&kernel.draw);
        break;
    case 4:
        client->window = UINT32_MAX;
        break;
    case 5:
        call(client, what > 128 ? UV_EBADF : 0);
        break;
    default:
        call(client, 0);
    }
}

static void accept_some(uint8_t what)
{
    static const int errors[] = {EMFILE, ENFILE, ENOMEM, EINTR, ECONNABORTED, EAGAIN, ENOBUFS, 0};
    kernel.waiting += what % 16 == 15 ? 40 : 1;
    kernel.accept_error = what >= 192 ? errors[what / 16 % 8] : 0;
    if (kernel.listens) {
        kernel.on_listener(kernel.listener, 0, UV_READABLE);
    }
}

static void pass(uint8_t what)
{
    static const int64_t spans_ms[] = {1, 20, 101, 400, 1000, 1001, 4999, HTTP_TIMEOUT_MS};
    kernel.now_ns += spans_ms[what % 8] * MS;
    if (http_next_tick_ns(world.server) > kernel.now_ns) {
        return;
    }
    http_tick(world.server, kernel.now_ns);
    HF_CHECK(http_next_tick_ns(world.server) > kernel.now_ns);
    for (uint32_t i = 0; i < kernel.accepted; i++) {
        const struct http_client *client = &world.clients[i];
        HF_CHECK(!client->open || client->accepted_ns + HTTP_TIMEOUT_MS * MS > kernel.now_ns);
    }
}

static void play_event(void)
{
    uint8_t what = draw_byte(&kernel.draw);
    struct http_client *client = NULL;
    world.turned = false;
    switch (what % 8) {
    case 0:
        accept_some(draw_byte(&kernel.draw));
        break;
    case 1:
    case 2:
    case 3:
    case 4:
        client = draw_client();
        if (client != NULL) {
            say(client);
            if (what >= 64) {
                call(client, 0);
            }
        }
        break;
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
        } else if (what > 200) {
            world.body_size = draw_below(&kernel.draw, BODY_MAX + 1);
        } else {
            pass(what / 8);
        }
    }
    if (what & 32) {
        kernel_finish_closing();
    }
    HF_CHECK(world.connected <= HTTP_CONNECTIONS_MAX);
}

/* ---- addresses ---- */

static void read_address(const uint8_t *bytes, size_t size)
{
    struct http_address address;
    char text[128] = "http://";
    size_t start = strlen(text);
    size = size < sizeof(text) - start - 1 ? size : sizeof(text) - start - 1;
    memcpy(text + start, bytes, size);
    text[start + size] = '\0';
    if (!http_address_read(text, &address)) {
        return;
    }
    char again[128];
    char host[INET6_ADDRSTRLEN];
    const struct sockaddr_in *four = (const struct sockaddr_in *)&address.address;
    const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)&address.address;
    bool is_four = four->sin_family == AF_INET;
    HF_CHECK(address.size == (is_four ? sizeof(*four) : sizeof(*six)));
    HF_CHECK(inet_ntop(four->sin_family, is_four ? (const void *)&four->sin_addr : &six->sin6_addr,
                       host, sizeof(host)) != NULL);
    snprintf(again, sizeof(again), is_four ? "http://%s:%u" : "http://[%s]:%u", host,
             ntohs(four->sin_port));
    struct http_address second;
    HF_CHECK(http_address_read(again, &second) && second.loopback == address.loopback);
    HF_CHECK(memcmp(&second.address, &address.address, address.size) == 0);
}

/* ---- one input ---- */

/* Makes a seed: a client connects and sends the pieces that say() has under these numbers. The last
 * piece completes the request. */
static size_t request_seed(const uint8_t *pieces, size_t count, uint8_t *bytes)
{
    /* These zeros are the body's size, the kernel's results while the server begins to listen
     * (success), and one accepted connection. */
    size_t used = 9;
    memset(bytes, 0, used);
    for (size_t i = 0; i < count; i++) {
        bytes[used++] = i + 1 < count ? 1 : 65;
        bytes[used++] = 0;
        bytes[used++] = pieces[i];
    }
    return used;
}

static size_t http_seed(size_t index, uint8_t *bytes, size_t size)
{
    static const char *const addresses[] = {"127.0.0.1:7412", "localhost:1", "[::1]:65535",
                                            "[fe80::1]:80",   "0.0.0.0:0",   "[::1:99999"};
    static const uint8_t requests[][4] = {{0, 4, 8, 13}, {1, 5, 8, 13}, {0, 3, 8, 13},
                                          {1, 3, 8, 13}, {2, 3, 8, 13}, {0, 6, 8, 13}};
    uint64_t state = 31 + index;
    size_t used = 30 + 20 * index;
    if (index < 6) {
        bytes[0] = 255;
        memcpy(bytes + 1, addresses[index], strlen(addresses[index]));
        return 1 + strlen(addresses[index]);
    }
    if (index < 12) {
        return request_seed(requests[index - 6], 4, bytes);
    }
    if (index >= 30 || used > size) {
        return 0;
    }
    for (size_t i = 0; i < used; i++) {
        state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        bytes[i] = (uint8_t)(state >> 56);
    }
    memset(bytes, 0, 8); /* with these zeros the server listens */
    return used;
}

static void http_entry(const uint8_t *bytes, size_t size)
{
    const struct http_handler handler = {
        .name = "host-x", .answer = on_request, .turn = on_turn, .arg = &world};
    struct http_address address;
    char error[HTTP_ERROR_MAX] = "";
    if (size > 0 && bytes[0] == 255) {
        read_address(bytes + 1, size - 1);
        return;
    }
    memset(&world, 0, offsetof(__typeof__(world), clients));
    kernel = (struct kernel){.draw = {bytes, size}, .now_ns = 1000000 * MS};
    world.body_size = draw_byte(&kernel.draw);
    memset(world.body, 'b', sizeof(world.body));
    HF_CHECK(http_address_read("http://127.0.0.1:7412", &address));
    world.server = http_open(NULL, &address, &handler, error);
    if (world.server == NULL) {
        HF_CHECK(error[0] != '\0' && !kernel.listener_open && kernel.blocks == 0);
        return;
    }
    for (uint32_t i = 0; i < EVENTS_MAX && kernel.draw.left > 0; i++) {
        play_event();
    }
    http_shut(world.server);
    kernel_finish_closing();
    HF_CHECK(world.connected == 0 && !kernel.listener_open && kernel.blocks == 0);
}

const struct fuzz_target fuzz_target = {"http", http_entry, http_seed, INPUT_MAX};
