/*
 * The transport: packets arrive complete and in order, or not at all. Links report when they come
 * and go. Strangers and damaged packets do no harm.
 *
 * The other process of a test is this program, run as `test_transport --echo LISTEN PEER`.
 */
#include "transport_rig.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../suite_main.h"

extern char **environ;

/* ---- packets ---- */

START_TEST(test_both_ways)
{
    struct node *a = node_plain();
    struct node *b = node_plain();
    uint32_t to_b = peer_up(a, b->address);
    uint32_t to_a = peer_up(b, a->address);
    static unsigned char bytes[PACKET_MAX];
    static const size_t sizes[] = {1, 2, 300, 4096, 65536, PACKET_MAX - 1, PACKET_MAX};

    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        memset(bytes, (int)('a' + i), sizes[i]);
        ck_assert(transport_send(a->transport, to_b, bytes, sizes[i]));
        PUMP_UNTIL(b->packets == i + 1);
        ck_assert_uint_eq(b->last_size, sizes[i]);
        ck_assert_mem_eq(b->last, bytes, sizes[i]);
        ck_assert(transport_send(b->transport, to_a, bytes, sizes[i]));
        PUMP_UNTIL(a->packets == i + 1);
        ck_assert_uint_eq(a->last_size, sizes[i]);
        ck_assert_mem_eq(a->last, bytes, sizes[i]);
    }
    ck_assert_int_eq(strncmp(b->remote, "127.0.0.1:", 10), 0);
    ck_assert_uint_eq(transport_counts(a->transport).packets_sent, 7);
    ck_assert_uint_eq(transport_counts(a->transport).packets_received, 7);
    ck_assert_uint_eq(transport_counts(a->transport).packets_lost, 0);
    ck_assert_uint_eq(transport_counts(b->transport).bytes_received,
                      transport_counts(a->transport).bytes_sent);
    ck_assert_uint_eq(transport_peer(a->transport, b->address, NULL), to_b);
    ck_assert_uint_eq(a->trouble_count + b->trouble_count, 0);
    nodes_close();
}
END_TEST

/* Returns false if this process was so slow that the kernel may have ended a link. */
static bool press_back(void)
{
    enum { SIZE = 20000, TRIES_MAX = 100000, BORNE_MS = 2000 };
    struct node *a = node_plain();
    struct node *b = node_plain();
    uint32_t to_b = peer_up(a, b->address);
    uint64_t sent = 0;
    uint32_t refused = 0;
    int64_t began_ms = now_ms();

    /* This must be quick: the kernel ends a link whose other end reads nothing for 3 s. */
    for (uint32_t tries = 0; refused < 20; tries++) {
        ck_assert_uint_lt(tries, TRIES_MAX);
        if (send_number(a, to_b, sent, SIZE)) {
            sent++;
        } else {
            refused++;
            usleep(1000);
        }
    }
    if (now_ms() - began_ms > BORNE_MS) {
        nodes_close();
        return false;
    }
    ck_assert_uint_gt(sent, 200); /* the queue's 4 MiB, and what the kernel buffers */
    ck_assert_uint_lt(sent, 5000);
    ck_assert_uint_eq(transport_counts(a->transport).packets_lost, refused);
    PUMP_UNTIL(b->packets == sent || a->downs[to_b] > 0);
    pump_for(100);
    if (a->downs[to_b] > 0 && now_ms() - began_ms > BORNE_MS) {
        nodes_close();
        return false;
    }
    ck_assert_uint_eq(a->downs[to_b], 0);
    ck_assert_uint_eq(b->packets, sent);
    ck_assert(!b->disorder);
    ck_assert(send_number(a, to_b, sent, 8));
    PUMP_UNTIL(b->packets == sent + 1);
    nodes_close();
    return true;
}

/* The receiver reads nothing. At some point sends fail, and no buffer grows further. When the
 * receiver reads again, the accepted packets arrive in order. */
START_TEST(test_back_pressure)
{
    bool pressed = false;

    for (uint32_t tries = 0; tries < 10 && !pressed; tries++) {
        pressed = press_back();
    }
    ck_assert(pressed);
}
END_TEST

/* Many small packets over one link: they arrive in the order of sending. */
START_TEST(test_many_small)
{
    enum { COUNT = 20000 };
    struct node *a = node_plain();
    struct node *b = node_plain();
    uint32_t to_b = peer_up(a, b->address);
    uint64_t sent = 0;

    /* The other end reads some packets now and then. On a busy machine this loop may take 3 s, and
     * the kernel would end a link whose other end reads nothing for so long. */
    while (sent < COUNT) {
        if (send_number(a, to_b, sent, 100)) {
            sent++;
        } else {
            pump(1);
        }
        if (sent % 500 == 0) {
            pump(0);
        }
    }
    while (b->packets < COUNT) { /* Check's timeout bounds this loop */
        uint64_t before = b->packets;

        PUMP_UNTIL(b->packets > before || a->downs[to_b] > 0);
        ck_assert_uint_eq(a->downs[to_b], 0);
    }
    ck_assert(!b->disorder);
    nodes_close();
}
END_TEST

/* A packet wakes only the loop's thread, at the sender and at the receiver. */
START_TEST(test_no_other_thread)
{
    enum { COUNT = 2000 };
    struct node *a = node_plain();
    struct node *b = node_plain();
    uint32_t to_b = peer_up(a, b->address);
    uint32_t threads;

    pump_for(300);
    int64_t began_ms = now_ms();
    uint64_t before = sleeps("nng:", &threads);
    ck_assert_uint_gt(threads, 1);
    for (uint64_t i = 0; i < COUNT; i++) {
        ck_assert(send_number(a, to_b, i, 100));
        PUMP_UNTIL(b->packets == i + 1);
    }
    /* NNG's threads have timers, which run out more often on a slower machine. */
    uint64_t timers = COUNT / 20 + 20 * (uint64_t)(now_ms() - began_ms) / 1000;
    ck_assert_uint_lt(sleeps("nng:", &threads) - before, timers);
    nodes_close();
}
END_TEST

/* A packet above the limit does not arrive, and breaks its link. The link then works again. */
START_TEST(test_too_large)
{
    char address[ADDRESS_SIZE];
    struct transport_config config = {.listen = address, .packet_max = 1000};
    struct node *a = node_plain();
    struct node *b;
    uint32_t to_b;

    free_address("tcp://", address);
    b = node_open(&config);
    to_b = peer_up(a, b->address);
    ck_assert(send_number(a, to_b, 0, 1000));
    PUMP_UNTIL(b->packets == 1);
    ck_assert(send_number(a, to_b, 1, 1001));
    PUMP_UNTIL(a->downs[to_b] == 1 && a->ups[to_b] == 2);
    ck_assert(send_number(a, to_b, 1, 1000));
    PUMP_UNTIL(b->packets == 2);
    ck_assert(!b->disorder);
    nodes_close();
}
END_TEST

/* ---- links ---- */

START_TEST(test_absent)
{
    char address[ADDRESS_SIZE];
    struct transport_config config = {.listen = address, .packet_max = PACKET_MAX};
    struct node *a = node_plain();
    struct node *b;
    uint32_t to_b;

    free_address("tcp://", address);
    to_b = transport_peer(a->transport, address, NULL);
    ck_assert_uint_ne(to_b, TRANSPORT_PEER_NONE);
    pump_for(200);
    ck_assert(!transport_is_up(a->transport, to_b));
    ck_assert(!send_number(a, to_b, 0, 8));
    ck_assert_uint_eq(a->ups[to_b] + a->downs[to_b], 0);
    b = node_open(&config);
    PUMP_UNTIL(a->ups[to_b] == 1);
    ck_assert(send_number(a, to_b, 0, 8));
    PUMP_UNTIL(b->packets == 1); /* the first packet was lost, and does not arrive now */
    ck_assert(!send_number(a, to_b + 1, 0, 8));
    ck_assert(!transport_is_up(a->transport, TRANSPORT_PEER_NONE));
    nodes_close();
}
END_TEST

/* A peer is forgotten while it is dialled, or while it is connected. No callback comes for it, and
 * another peer gets its index. */
START_TEST(test_forgotten)
{
    char nowhere[ADDRESS_SIZE];
    struct node *a = node_plain();
    struct node *b = node_plain();
    uint32_t to_b = peer_up(a, b->address);

    free_address("tcp://", nowhere);
    for (uint32_t i = 0; i < 20; i++) {
        uint32_t peer = transport_peer(a->transport, nowhere, "nobody");

        ck_assert_uint_eq(peer, to_b + 1);
        if (i % 2 == 0) {
            pump_for(i);
        }
        transport_forget(a->transport, peer);
        ck_assert(!transport_is_up(a->transport, peer));
        ck_assert_uint_eq(transport_waiting(a->transport, peer), 0);
    }
    ck_assert(send_number(a, to_b, 0, 8));
    transport_forget(a->transport, to_b);
    ck_assert(!send_number(a, to_b, 1, 8));
    pump_for(100);
    ck_assert_uint_eq(a->ups[to_b], 1);
    ck_assert_uint_eq(a->downs[to_b], 0);
    a->ups[to_b] = 0;
    ck_assert_uint_eq(peer_up(a, b->address), to_b);
    ck_assert(send_number(a, to_b, 1, 8));
    uint64_t before = b->packets;
    PUMP_UNTIL(b->packets > before);
    /* two names at one address are two peers */
    ck_assert_uint_ne(transport_peer(a->transport, b->address, "another"), to_b);
    nodes_close();
}
END_TEST

/* The transport recognises a numeric address. NNG would look up any other address, even
 * "[name]". */
START_TEST(test_numbers)
{
    static const char *const numbers[] = {"tcp://127.0.0.1:1", "tcp://localhost:1", "tcp://[::1]:1",
                                          "tls+tcp://[2001:db8:11:22:33:44:255.255.255.255]:1"};
    static const char *const names[] = {
        "tcp://host-a:1", "tcp://10.0.0.256:1",  "tcp://127.1:1",  "tcp://[fade.be]:1",
        "tcp://[cafe]:1", "tcp://[127.0.0.1]:1", "tcp://[::1.]:1", "tcp://[1:2:3:4:5:6:7:8:9]:1"};

    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        ck_assert_msg(transport_address_is_number(numbers[i]), "%s", numbers[i]);
    }
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        ck_assert_ptr_null(transport_address_error(names[i]));
        ck_assert_msg(!transport_address_is_number(names[i]), "%s", names[i]);
    }
}
END_TEST

static pid_t spawn_echo(char *listen, char *peer)
{
    char *arguments[] = {(char[]){"test_transport"}, (char[]){"--echo"}, listen, peer, NULL};
    pid_t pid;

    ck_assert_int_eq(posix_spawn(&pid, "/proc/self/exe", NULL, NULL, arguments, environ), 0);
    return pid;
}

/* The peer is killed and comes back, several times. Each loss is reported, and packets flow again
 * each time. */
START_TEST(test_peer_killed)
{
    char address[ADDRESS_SIZE];
    struct node *a = node_plain();
    uint32_t to_b;

    free_address("tcp://", address);
    to_b = transport_peer(a->transport, address, NULL);
    for (uint32_t i = 0; i < 5; i++) {
        pid_t pid = spawn_echo(address, a->address);
        uint64_t before = a->packets;
        int status;

        PUMP_UNTIL(a->ups[to_b] == i + 1);
        /* the peer's own link may not be up yet */
        for (uint32_t j = 0; a->packets < before + 10; j++) {
            ck_assert_uint_lt(j, 10000);
            ck_assert(send_number(a, to_b, j, 300));
            pump(10);
        }
        kill(pid, i % 2 == 0 ? SIGKILL : SIGTERM);
        PUMP_UNTIL(a->downs[to_b] == i + 1);
        ck_assert(!send_number(a, to_b, 0, 8));
        ck_assert_int_eq(waitpid(pid, &status, 0), pid);
        ck_assert(i % 2 == 0 ? WIFSIGNALED(status) : WIFEXITED(status) && WEXITSTATUS(status) == 0);
        pump_for(200);
        ck_assert_uint_eq(a->ups[to_b], i + 1);
    }
    nodes_close();
}
END_TEST

/* Counts the TCP sockets of this process that have this state and this value of the option. *port:
 * the port of one of them. */
static uint32_t count_sockets(uint8_t state, int option, int wanted, in_port_t *port)
{
    uint32_t count = 0;

    for (int fd = 0; fd < 200; fd++) {
        struct sockaddr_in at = {.sin_port = 0};
        struct tcp_info info;
        socklen_t size = sizeof info;
        int value = 0;

        if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0 || info.tcpi_state != state) {
            continue;
        }
        size = sizeof value;
        ck_assert_int_eq(getsockopt(fd, IPPROTO_TCP, option, &value, &size), 0);
        count += value == wanted ? 1 : 0;
        size = sizeof at;
        ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&at, &size), 0);
        *port = at.sin_port;
    }
    return count;
}

/* A link waits for a silent host for less time than with the kernel's defaults: existing and later
 * links, and a dial without an answer. */
START_TEST(test_waiting_is_bounded)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0x7f000001)};
    struct node *a = node_plain();
    struct node *b = node_plain();
    char silent[ADDRESS_SIZE];
    in_port_t port = 0;
    in_port_t first;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    (void)peer_up(a, b->address); /* this link has two ends; the nodes' own links have four */
    PUMP_UNTIL(count_sockets(TCP_ESTABLISHED, TCP_USER_TIMEOUT, 3000, &port) == 6);
    (void)peer_up(b, a->address);
    PUMP_UNTIL(count_sockets(TCP_ESTABLISHED, TCP_USER_TIMEOUT, 3000, &port) == 8);
    ck_assert_uint_eq(count_sockets(TCP_ESTABLISHED, TCP_NODELAY, 1, &port), 8);
    /* The queue of unaccepted connections is full, so the kernel answers no further connections. */
    free_address("tcp://", silent);
    at.sin_port = htons((uint16_t)atoi(strrchr(silent, ':') + 1));
    ck_assert_int_eq(bind(listener, (struct sockaddr *)&at, sizeof at), 0);
    ck_assert_int_eq(listen(listener, 0), 0);
    for (uint32_t i = 0; i < 3; i++) {
        int filler = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

        (void)connect(filler, (struct sockaddr *)&at, sizeof at);
        usleep(10000);
        close(filler); /* the closed connection stays in the queue */
    }
    (void)transport_peer(a->transport, silent, NULL);
    PUMP_UNTIL(count_sockets(TCP_SYN_SENT, TCP_NODELAY, 0, &first) > 0);
    /* the first dial was abandoned, and a new one has begun */
    PUMP_UNTIL(count_sockets(TCP_SYN_SENT, TCP_NODELAY, 0, &port) > 0 && port != first);
    close(listener);
    nodes_close();
}
END_TEST

/* ---- strangers ---- */

#define GREETING "holdfast\0\0\0\1\0\0\0\1"

/* The bytes that a stranger sends: nothing, a part of a greeting, other protocols, a wrong
 * greeting; or a good greeting with a part of a packet, an empty packet, or a huge length. */
static const struct {
    const char *bytes;
    size_t size;
} rubbish[] = {
    {"", 0},
    {"holdf", 5},
    {"GET / HTTP/1.1\r\nHost: x\r\n\r\n", 27},
    {"\0SP\0\0\x50\0\0", 8},
    {"holdfast\0\0\0\2\0\0\0\1", 16},
    {"holdfast\0\0\0\1\0\0\0\2", 16},
    {GREETING "\0\0\0\x05rubb", 24},
    {GREETING "\0\0\0\0", 20},
    {GREETING "\xff\xff\xff\xff", 20},
};

START_TEST(test_rubbish)
{
    enum { STRANGERS = 200 };
    struct node *a = node_plain();
    struct node *b = node_plain();
    uint32_t to_b = peer_up(a, b->address);
    struct node *c;
    uint32_t late;
    int fds[STRANGERS];

    for (uint32_t i = 0; i < STRANGERS; i++) {
        uint32_t kind = i % (sizeof rubbish / sizeof rubbish[0]);
        struct linger reset = {.l_onoff = 1};

        fds[i] = connect_raw(b->address);
        ck_assert_int_eq(send(fds[i], rubbish[kind].bytes, rubbish[kind].size, MSG_NOSIGNAL),
                         (ssize_t)rubbish[kind].size);
        if (i % 3 == 0) {
            setsockopt(fds[i], SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
        }
        if (i % 4 != 0) { /* some connections stay open */
            close(fds[i]);
        }
        if (i % 16 == 0) {
            ck_assert(send_number(a, to_b, i, 300));
        }
        pump(i % 16 == 0 ? 5 : 0);
    }
    c = node_plain();
    late = peer_up(c, b->address);
    ck_assert(send_number(c, late, 1, 777));
    PUMP_UNTIL(b->last_size == 777);
    ck_assert(send_number(a, to_b, 1, 778));
    PUMP_UNTIL(b->last_size == 778);
    ck_assert_uint_eq(a->downs[to_b], 0);
    for (uint32_t i = 0; i < STRANGERS; i += 4) {
        close(fds[i]);
    }
    nodes_close();
}
END_TEST

/* Returns how often the node reported that event with that text. */
static uint32_t told(const struct node *node, const char *event, const char *text)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < node->trouble_count && i < TROUBLES_KEPT; i++) {
        count += strcmp(node->events[i], event) == 0 && strstr(node->texts[i], text) != NULL;
    }
    return count;
}

/* Waits until the other end has hung up. Returns how many bytes the other end sent before. */
static size_t await_end(int fd, char *out, size_t size)
{
    size_t used = 0;
    ssize_t got = -1;
    int64_t until_ms = now_ms() + GUARD_MS;

    while (got != 0) {
        ck_assert(now_ms() < until_ms);
        pump(20);
        got = recv(fd, out + used, size - used, MSG_DONTWAIT);
        used += got > 0 ? (size_t)got : 0;
        ck_assert_uint_lt(used, size);
        if (got < 0 && errno == ECONNRESET) {
            break;
        }
    }
    close(fd);
    return used;
}

/* A peer that connects and sends something else, another version, or nothing is logged, and the
 * transport hangs up. A peer of another version gets this end's version. */
START_TEST(test_strangers_are_told)
{
    static const char other_version[] = "holdfast\0\0\0\1\0\0\0\3";
    static const char answer[] = "holdfast\0\0\0\2\0\0\0\1";
    struct node *a = node_plain();
    char said[64];
    int fd = connect_raw(a->address);

    ck_assert_int_eq(send(fd, "GET / HTTP", 10, MSG_NOSIGNAL), 10);
    ck_assert_uint_eq(await_end(fd, said, sizeof said), 0);
    ck_assert_uint_eq(told(a, "greeting_refused", "does not send what an agent sends"), 1);
    ck_assert_int_eq(strncmp(a->addresses[0], "127.0.0.1:", 10), 0);
    fd = connect_raw(a->address);
    ck_assert_int_eq(send(fd, other_version, 16, MSG_NOSIGNAL), 16);
    ck_assert_uint_eq(await_end(fd, said, sizeof said), 16);
    ck_assert_mem_eq(said, answer, 16);
    ck_assert_uint_eq(told(a, "greeting_refused", "another version of the protocol: 3"), 1);
    fd = connect_raw(a->address);
    ck_assert_uint_eq(await_end(fd, said, sizeof said), 0);
    ck_assert_uint_eq(told(a, "greeting_refused", "sent nothing that an agent sends"), 1);
    /* a connection that only checks whether the port is open is not logged */
    fd = connect_raw(a->address);
    close(fd);
    pump_for(200);
    ck_assert_uint_eq(a->trouble_count, 3);
    nodes_close();
}
END_TEST

/* The transport searches for a connection's descriptor only after the peer has greeted. Otherwise a
 * flood of connections would keep the loop busy. */
START_TEST(test_strangers_are_not_looked_for)
{
    /* descriptors of the timer, of NNG's finished operations, and of the node's own link (two) */
    enum { WATCHED = 4 };
    char address[ADDRESS_SIZE];
    /* The timeouts are so long that the node's own link and the stranger both stay. */
    struct transport_config config = {.listen = address,
                                      .packet_max = PACKET_MAX,
                                      .check_ms = 2 * GUARD_MS,
                                      .greet_ms = 2 * GUARD_MS};

    free_address("tcp://", address);
    struct node *a = node_open(&config);
    PUMP_UNTIL(watched(a) == WATCHED);
    uint32_t before = WATCHED;
    int fd = connect_raw(a->address);
    ck_assert_int_eq(send(fd, GREETING, 15, MSG_NOSIGNAL), 15);
    pump_for(300);
    ck_assert_uint_eq(watched(a), before);
    ck_assert_int_eq(send(fd, &GREETING[15], 1, MSG_NOSIGNAL), 1);
    PUMP_UNTIL(watched(a) == before + 1);
    ck_assert_int_eq(send(fd, "\0\0\0\1x", 5, MSG_NOSIGNAL), 5);
    PUMP_UNTIL(a->packets == 1);
    close(fd);
    PUMP_UNTIL(watched(a) == before);
    nodes_close();
}
END_TEST

/* A dialled peer gets no packet, and is logged, if it is no agent, has another version, or
 * echoes. */
START_TEST(test_dialled_stranger_is_told)
{
    static const struct {
        const char *answer, *text;
    } kinds[] = {
        {"220 mail.example", "does not send what an agent sends"},
        {"holdfast\0\0\0\2\0\0\0\x63", "another version of the protocol: 99, this agent at most 1"},
        {"holdfast\0\0\0\1\0\0\0\1", "does not send what an agent sends"},
    };
    struct node *a = node_plain();
    char address[ADDRESS_SIZE];
    char said[64];
    int listener = listen_raw(address);
    uint32_t peer = transport_peer(a->transport, address, NULL);
    int fd = -1;

    for (int64_t until_ms = now_ms() + GUARD_MS; fd < 0; fd = accept(listener, NULL, NULL)) {
        ck_assert(now_ms() < until_ms);
        pump(20);
    }
    ck_assert_int_eq(send(fd, kinds[_i].answer, 16, MSG_NOSIGNAL), 16);
    ck_assert_uint_eq(await_end(fd, said, sizeof said), 16);
    ck_assert_mem_eq(said, GREETING, 16);
    ck_assert_uint_eq(told(a, "greeting_refused", kinds[_i].text), 1);
    ck_assert_str_eq(a->addresses[0], address);
    ck_assert_uint_eq(a->ups[peer], 0);
    close(listener);
    nodes_close();
}
END_TEST

/* Returns whether the other end has hung up. */
static bool is_closed(int fd)
{
    char said[64];
    ssize_t got = recv(fd, said, sizeof said, MSG_DONTWAIT);

    /* reads again, because the first read may end after the greeting */
    got = got > 0 ? recv(fd, said, sizeof said, MSG_DONTWAIT) : got;
    return got == 0 || (got < 0 && errno != EAGAIN);
}

/* Connects and sends a greeting. The other end may close the connection before that. */
static int connect_greeting(const struct node *to)
{
    int fd = connect_raw(to->address);

    (void)!send(fd, GREETING, 16, MSG_NOSIGNAL);
    return fd;
}

/* Makes a connection that greets and sends a packet of two bytes. Waits for the packet. Tries again
 * if the node closes the connection because it has no room. */
static int connect_guest(const struct node *to, const char *packet)
{
    char frame[6] = "\0\0\0\2";
    uint64_t before = to->packets;

    memcpy(frame + 4, packet, 2);
    for (uint32_t tries = 0; tries < 1000; tries++) {
        int fd = connect_greeting(to);

        (void)!send(fd, frame, 6, MSG_NOSIGNAL);
        PUMP_UNTIL(to->packets > before || is_closed(fd));
        if (to->packets > before) {
            return fd;
        }
        close(fd);
    }
    ck_abort_msg("no packet arrives");
    return -1;
}

static uint32_t closed_count(const int *fds, uint32_t count)
{
    uint32_t closed = 0;

    for (uint32_t i = 0; i < count; i++) {
        closed += is_closed(fds[i]);
    }
    return closed;
}

static void close_all(const int *fds, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        close(fds[i]);
    }
}

static struct node *node_with(uint32_t inbound_max, uint32_t guest_ms)
{
    char address[ADDRESS_SIZE];
    struct transport_config config = {.listen = address,
                                      .packet_max = PACKET_MAX,
                                      .inbound_max = inbound_max,
                                      .guest_ms = guest_ms};

    free_address("tcp://", address);
    return node_open(&config);
}

/* Hundreds of peers greet and send nothing more. Connected agents stay, and further agents still
 * get in. */
START_TEST(test_silent_guests_make_room)
{
    enum { GUESTS = 400 };
    static int fds[GUESTS];
    struct node *a = node_plain();
    struct node *b = node_with(8, 0);
    uint32_t to_b = peer_up(a, b->address);

    ck_assert(send_number(a, to_b, 0, 100));
    PUMP_UNTIL(b->packets == 1);
    for (uint32_t i = 0; i < GUESTS / 2; i++) {
        fds[i] = connect_greeting(b);
        pump(1);
    }
    int voter = connect_guest(b, "@V");
    int observer = connect_guest(b, "@o");
    for (uint32_t i = GUESTS / 2; i < GUESTS; i++) {
        fds[i] = connect_greeting(b);
        pump(1);
    }
    PUMP_UNTIL(closed_count(fds, GUESTS) >= GUESTS - 8);
    pump_for(200);
    ck_assert(!is_closed(voter) && !is_closed(observer));
    ck_assert(send_number(a, to_b, 3, 100));
    PUMP_UNTIL(b->packets == 4);
    ck_assert_uint_eq(a->downs[to_b], 0);
    ck_assert_uint_eq(told(b, "inbox_full", ""), 0);
    close_all(fds, GUESTS);
    close(voter);
    close(observer);
    nodes_close();
}
END_TEST

/* There are as many agents as possible, and each has just sent something. They stay, and another
 * agent is refused. A voter still gets in, and stays. */
START_TEST(test_inbox_full)
{
    enum { AGENTS = 7, MORE = 5 };
    int fds[AGENTS];
    int more[MORE];
    struct node *b = node_with(AGENTS + 1, 0);

    for (uint32_t i = 0; i < AGENTS; i++) {
        char name[] = {'@', (char)('a' + i), 0};
        fds[i] = connect_guest(b, name);
    }
    for (uint32_t i = 0; i < MORE; i++) {
        char name[] = {'@', (char)('n' + i), 0};
        more[i] = connect_guest(b, name);
        PUMP_UNTIL(is_closed(more[i]));
    }
    ck_assert_uint_eq(closed_count(fds, AGENTS), 0);
    ck_assert_uint_ge(told(b, "inbox_full", ""), 1);
    int voter = connect_guest(b, "@V");
    PUMP_UNTIL(b->packets == AGENTS + MORE + 1);
    pump_for(200);
    ck_assert(!is_closed(voter));
    ck_assert_uint_eq(closed_count(fds, AGENTS), 0);
    close_all(fds, AGENTS);
    close_all(more, MORE);
    close(voter);
    nodes_close();
}
END_TEST

/* A peer that greets but sends no valid packet is closed after a while. Other peers stay. */
START_TEST(test_guests_expire)
{
    enum { GUESTS = 300 };
    static int fds[GUESTS];
    struct node *b = node_with(0, 500);
    int agent = connect_guest(b, "@a");

    for (uint32_t i = 0; i < GUESTS; i++) {
        fds[i] = i % 2 == 0 ? connect_greeting(b) : connect_guest(b, "?!");
    }
    PUMP_UNTIL(closed_count(fds, GUESTS) == GUESTS);
    pump_for(700);
    ck_assert(!is_closed(agent));
    ck_assert_uint_gt(told(b, "greeting_refused", "sent no valid packet"), 0);
    close_all(fds, GUESTS);
    close(agent);
    nodes_close();
}
END_TEST

/* An agent that came back may have two connections. A third connection under that name replaces the
 * one that was silent for longest. */
START_TEST(test_namesakes)
{
    struct node *b = node_with(0, 0);
    int fds[3];

    for (uint32_t i = 0; i < 3; i++) {
        ck_assert_uint_eq(closed_count(fds, i), 0);
        fds[i] = connect_guest(b, "@a");
        pump_for(20);
    }
    PUMP_UNTIL(is_closed(fds[0]));
    pump_for(100);
    ck_assert(!is_closed(fds[1]) && !is_closed(fds[2]));
    close_all(fds, 3);
    nodes_close();
}
END_TEST

/* ---- the listener's check of itself ---- */

START_TEST(test_listener_checked)
{
    char address[ADDRESS_SIZE];
    struct transport_config config = {.listen = address, .packet_max = PACKET_MAX, .check_ms = 50};
    struct node *a = node_plain();
    struct node *b;
    uint32_t to_b;

    snprintf(address, sizeof address, "tcp://0.0.0.0:%u", free_port());
    b = node_open(&config);
    snprintf(address, sizeof address, "tcp://127.0.0.1:%s", strrchr(b->address, ':') + 1);
    to_b = peer_up(a, address);
    pump_for(6000); /* at least one complete check */
    ck_assert_uint_eq(b->trouble_count, 0);
    ck_assert_uint_eq(a->downs[to_b], 0);
    nodes_close();
}
END_TEST

/* Without free descriptors no connection is accepted. The transport reports when this begins and
 * when it ends. */
START_TEST(test_inbox_unreachable)
{
    char address[ADDRESS_SIZE];
    struct transport_config config = {.listen = address, .packet_max = PACKET_MAX, .check_ms = 50};
    struct rlimit limit;
    struct rlimit none;
    struct node *a;

    free_address("tcp://", address);
    a = node_open(&config);
    pump(100);
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    none = (struct rlimit){.rlim_cur = 1, .rlim_max = limit.rlim_max};
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
    PUMP_UNTIL(a->trouble_count == 1);
    ck_assert_str_eq(a->events[0], "inbox_unreachable");
    ck_assert_str_eq(a->addresses[0], a->address);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    PUMP_UNTIL(a->trouble_count == 2);
    ck_assert_str_eq(a->events[1], "inbox_reachable");
    nodes_close();
}
END_TEST

/* ---- the other process ---- */

static volatile sig_atomic_t stopped;

static void stop(int number)
{
    (void)number;
    stopped = 1;
}

static struct transport *echoing;
static uint32_t echo_peer;

static struct transport_sender echo_packet(void *arg, const void *bytes, size_t size,
                                           const char *certified, const char *remote)
{
    (void)arg;
    (void)certified;
    (void)remote;
    (void)transport_send(echoing, echo_peer, bytes, size);
    return (struct transport_sender){.name = 1};
}

static void echo_link(void *arg, uint32_t peer, bool up)
{
    (void)arg;
    (void)peer;
    (void)up;
}

static void echo_trouble(void *arg, const char *event, const char *address, const char *text)
{
    (void)arg;
    fprintf(stderr, "echo: %s %s %s\n", event, address, text);
}

/* Sends back each packet until SIGTERM. Check's assertions do not work in this process. */
static int echo(const char *listen, const char *peer)
{
    struct transport_config config = {.listen = listen, .packet_max = PACKET_MAX};
    struct transport_handler handler = {
        .packet = echo_packet, .link = echo_link, .trouble = echo_trouble};
    char error[TRANSPORT_ERROR_MAX];

    signal(SIGTERM, stop);
    echoing = transport_open(&config, &handler, error);
    if (echoing == NULL) {
        fprintf(stderr, "echo: %s\n", error);
        return EXIT_FAILURE;
    }
    echo_peer = transport_peer(echoing, peer, NULL);
    for (int64_t until_ms = now_ms() + GUARD_MS; !stopped && now_ms() < until_ms;) {
        struct pollfd fd = {.fd = transport_fd(echoing), .events = POLLIN};

        if (poll(&fd, 1, 100) > 0) {
            transport_dispatch(echoing);
        }
    }
    transport_close(echoing);
    return stopped ? EXIT_SUCCESS : EXIT_FAILURE;
}

int main(int count, char **arguments)
{
    Suite *suite;
    TCase *tcase;

    if (count == 4 && strcmp(arguments[1], "--echo") == 0) {
        return echo(arguments[2], arguments[3]);
    }
    suite = suite_create("transport");
    tcase = tcase_create("transport");
    tcase_set_timeout(tcase, 2 * GUARD_MS / 1000);
    tcase_add_test(tcase, test_both_ways);
    tcase_add_test(tcase, test_back_pressure);
    tcase_add_test(tcase, test_many_small);
    tcase_add_found(tcase, test_no_other_thread);
    tcase_add_test(tcase, test_too_large);
    tcase_add_test(tcase, test_absent);
    tcase_add_test(tcase, test_forgotten);
    tcase_add_test(tcase, test_numbers);
    tcase_add_test(tcase, test_peer_killed);
    tcase_add_found(tcase, test_waiting_is_bounded);
    tcase_add_test(tcase, test_rubbish);
    tcase_add_test(tcase, test_strangers_are_told);
    tcase_add_found(tcase, test_strangers_are_not_looked_for);
    tcase_add_loop_test(tcase, test_dialled_stranger_is_told, 0, 3);
    tcase_add_test(tcase, test_silent_guests_make_room);
    tcase_add_test(tcase, test_inbox_full);
    tcase_add_test(tcase, test_guests_expire);
    tcase_add_test(tcase, test_namesakes);
    tcase_add_test(tcase, test_listener_checked);
    tcase_add_test(tcase, test_inbox_unreachable);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
