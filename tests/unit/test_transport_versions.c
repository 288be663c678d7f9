/*
 * Agents of different versions of the protocol. By their greetings, two agents agree on a version
 * for a connection, or refuse the connection with a clear text. This file also tests the reported
 * reasons why a peer is not connected.
 */
#include "transport_rig.h"

#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../suite_main.h"

static struct node *node_speaking(uint32_t version)
{
    char address[ADDRESS_SIZE];
    struct transport_config config = {.listen = address,
                                      .packet_max = PACKET_MAX,
                                      .greet_ms = 2 * GUARD_MS,
                                      .check_ms = 2 * GUARD_MS,
                                      .version = version};

    free_address("tcp://", address);
    return node_open(&config);
}

enum { V1 = TRANSPORT_VERSION_FIRST, V4 = TRANSPORT_VERSION_SECOND };

/* Two agents use the newest version that both know, whichever of them dials. Nothing is reported,
 * and packets arrive. */
START_TEST(test_versions_side_by_side)
{
    static const uint32_t pairs[][3] = {{V4, V4, V4},
                                        {V4, V1, V1},
                                        {V1, V4, V1},
                                        {V4 + 1, V4, V4},
                                        {V4, V4 + 1, V4},
                                        {V4 + 1, V1, V1},
                                        {V4 + 1, V4 + 1, V4 + 1}};
    struct node *a = node_speaking(pairs[_i][0]);
    struct node *b = node_speaking(pairs[_i][1]);
    uint32_t peer = peer_up(a, b->address);

    ck_assert_uint_eq(transport_version(a->transport, peer), pairs[_i][2]);
    ck_assert_uint_eq(a->ups[peer], 1);
    ck_assert(send_number(a, peer, 0, 100));
    PUMP_UNTIL(b->packets == 1);
    ck_assert_uint_eq(a->trouble_count + b->trouble_count, 0);
    ck_assert_uint_eq(transport_version(a->transport, peer + 1), 0);
    nodes_close();
}
END_TEST

/* Returns the version in the first bytes of the other end. role: 1 if that end dialled, 2 if it
 * listens. */
static uint32_t greeting_of(int fd, unsigned char role)
{
    unsigned char said[16];
    size_t size = 0;

    for (int64_t until_ms = now_ms() + GUARD_MS; size < sizeof said;) {
        ssize_t got = recv(fd, said + size, sizeof said - size, MSG_DONTWAIT);

        ck_assert(now_ms() < until_ms && got != 0);
        size += got > 0 ? (size_t)got : 0;
        pump(5);
    }
    ck_assert_mem_eq(said, "holdfast\0\0\0", 11);
    ck_assert_uint_eq(said[11], role);
    return (uint32_t)said[14] << 8 | said[15];
}

static int accept_dial(int listener)
{
    int fd = -1;

    for (int64_t until_ms = now_ms() + GUARD_MS; fd < 0; fd = accept(listener, NULL, NULL)) {
        ck_assert(now_ms() < until_ms);
        pump(5);
    }
    return fd;
}

/* An agent that knows only the first version hangs up on any other version. That agent is dialled
 * again with the first version. When that connection ends, the newest version is tried again,
 * because the agent may have been upgraded. */
START_TEST(test_older_is_dialled_again)
{
    struct node *a = node_speaking(V4);
    char address[ADDRESS_SIZE];
    int listener = listen_raw(address);
    uint32_t peer = transport_peer(a->transport, address, NULL);
    static const uint32_t dials[] = {V4, V1, V4};
    int fd = -1;

    for (size_t i = 0; i < sizeof dials / sizeof dials[0]; i++) {
        fd = accept_dial(listener);
        ck_assert_uint_eq(greeting_of(fd, 1), dials[i]);
        ck_assert_int_eq(send(fd, "holdfast\0\0\0\2\0\0\0\1", 16, MSG_NOSIGNAL), 16);
        if (dials[i] == V1) {
            PUMP_UNTIL(transport_version(a->transport, peer) == V1);
        }
        close(fd);
    }
    PUMP_UNTIL(!transport_is_up(a->transport, peer));
    ck_assert_uint_eq(a->ups[peer], 1);
    ck_assert_uint_eq(a->trouble_count, 0);
    close(listener);
    nodes_close();
}
END_TEST

/* An agent with no common version is refused and logged, whichever end dials. A dialler learns the
 * versions of this end. */
START_TEST(test_no_version_is_shared)
{
    struct node *a = node_speaking(V4);
    char address[ADDRESS_SIZE];
    int listener = listen_raw(address);
    int fd = connect_raw(a->address);

    ck_assert_int_eq(send(fd, "holdfast\0\0\0\1\0\0\0\3", 16, MSG_NOSIGNAL), 16);
    ck_assert_uint_eq(greeting_of(fd, 2), V4);
    PUMP_UNTIL(a->trouble_count == 1);
    ck_assert_str_eq(a->events[0], "greeting_refused");
    ck_assert_str_eq(a->texts[0],
                     "it speaks another version of the protocol: 3, this agent at most 4");
    close(fd);
    (void)transport_peer(a->transport, address, NULL);
    fd = accept_dial(listener);
    ck_assert_uint_eq(greeting_of(fd, 1), V4);
    ck_assert_int_eq(send(fd, "holdfast\0\0\0\2\0\0\0\7", 16, MSG_NOSIGNAL), 16);
    PUMP_UNTIL(a->trouble_count == 2);
    ck_assert_str_eq(a->texts[1],
                     "it speaks another version of the protocol: 7, this agent at most 4");
    close(fd);
    close(listener);
    nodes_close();
}
END_TEST

/* ---- reasons for a missing connection ---- */

static void ends_why(const struct node *node, uint32_t peer, const char *why)
{
    PUMP_UNTIL(strstr(transport_why_down(node->transport, peer), why) != NULL);
}

/* The transport reports why a peer is not connected, and an empty text when it is connected. */
START_TEST(test_why_down)
{
    struct node *a = node_plain();
    struct node *b = node_plain();
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    char free_port[ADDRESS_SIZE];
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    uint32_t to_b = peer_up(a, b->address);

    ck_assert_str_eq(transport_why_down(a->transport, to_b), "");
    /* the socket is bound, but does not listen */
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&address, size), 0);
    ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&address, &size), 0);
    snprintf(free_port, sizeof free_port, "tcp://127.0.0.1:%d", ntohs(address.sin_port));
    ends_why(a, transport_peer(a->transport, free_port, NULL), "nobody listens there");
    ends_why(a, transport_peer(a->transport, "tcp://no-such-host.invalid:1", NULL), " name ");
    ck_assert_str_eq(transport_why_down(a->transport, to_b), "");
    close(fd);
    nodes_close();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("transport_versions");
    TCase *tcase = tcase_create("transport_versions");

    tcase_set_timeout(tcase, 120);
    tcase_add_loop_test(tcase, test_versions_side_by_side, 0, 7);
    tcase_add_test(tcase, test_older_is_dialled_again);
    tcase_add_test(tcase, test_no_version_is_shared);
    tcase_add_test(tcase, test_why_down);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
