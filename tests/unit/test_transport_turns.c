/*
 * Packets of other agents have a limited share of a turn of the loop, for any number of senders and
 * any cost of reading. The time of one dispatch is bounded, and each link has its turn.
 */
#include "transport_rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../suite_main.h"
#include "io/transport/private.h"

enum {
    LINKS = 20,
    PACKETS = 4,  /* how many packets of a link one receive returns */
    SIZE = 8000,  /* the size of a packet */
    COST_MS = 2,  /* the least cost of reading a packet */
    FIRST = 1000, /* the size of the packet by which the transport learns the link's agent */
    MOST = TRANSPORT_TURN_MS / COST_MS + PACKETS,
};

static bool costs;
static uint32_t known;
static uint32_t taken;
static uint32_t of[LINKS];

static struct transport_sender on_packet(void *arg, const void *bytes, size_t size,
                                         const char *certified, const char *remote)
{
    uint32_t link = *(const unsigned char *)bytes;
    int64_t end_ns = clock_boottime_ns() + COST_MS * INT64_C(1000000);

    (void)arg;
    (void)certified;
    (void)remote;
    ck_assert_uint_lt(link, LINKS);
    ck_assert_uint_eq(size, costs ? SIZE : FIRST);
    while (costs && clock_boottime_ns() < end_ns) {
    }
    known += !costs;
    taken += costs;
    of[link] += costs;
    return (struct transport_sender){.name = 1 + link};
}

static void on_link(void *arg, uint32_t peer, bool up)
{
    (void)arg;
    (void)peer;
    (void)up;
}

static void on_trouble(void *arg, const char *event, const char *address, const char *text)
{
    (void)arg;
    ck_abort_msg("%s %s %s", event, address, text);
}

static void send_packets(int fd, uint32_t link, uint32_t count, size_t size)
{
    static unsigned char frame[4 + SIZE];

    frame[2] = (unsigned char)(size >> 8);
    frame[3] = (unsigned char)size;
    frame[4] = (unsigned char)link;
    for (uint32_t i = 0; i < count; i++) {
        ck_assert_int_eq(send(fd, frame, 4 + size, MSG_NOSIGNAL), (ssize_t)(4 + size));
    }
}

static const char greeting[] = "holdfast\0\0\0\1\0\0\0\1"; /* the greeting of an agent that dials */
static int fds[LINKS];
static char address[ADDRESS_SIZE];

/* Makes all links. The transport learns the agent of each. */
static struct transport *open_links(void)
{
    char error[TRANSPORT_ERROR_MAX];
    struct transport_config config = {.listen = address, .packet_max = PACKET_MAX};
    const struct transport_handler handler = {
        .packet = on_packet, .link = on_link, .trouble = on_trouble};
    int64_t end_ms = now_ms() + GUARD_MS;

    free_address("tcp://", address);
    struct transport *transport = transport_open(&config, &handler, error);
    ck_assert_msg(transport != NULL, "%s", error);
    for (uint32_t i = 0; i < LINKS; i++) {
        fds[i] = connect_raw(address);
        ck_assert_int_eq(send(fds[i], greeting, 16, MSG_NOSIGNAL), 16);
        send_packets(fds[i], i, 1, FIRST);
    }
    while (known < LINKS && now_ms() < end_ms) {
        transport_dispatch(transport);
    }
    ck_assert_uint_eq(known, LINKS);
    costs = true;
    for (uint32_t i = 0; i < LINKS; i++) {
        send_packets(fds[i], i, PACKETS, SIZE);
    }
    return transport;
}

static void close_links(struct transport *transport)
{
    transport_close(transport);
    for (uint32_t i = 0; i < LINKS; i++) {
        close(fds[i]);
    }
}

START_TEST(a_dispatch_ends)
{
    struct transport *transport = open_links();
    int64_t end_ms = now_ms() + GUARD_MS;
    uint32_t most = 0;

    while (taken < LINKS * PACKETS && now_ms() < end_ms) {
        uint32_t before = taken;
        transport_dispatch(transport);
        most = taken - before > most ? taken - before : most;
    }
    ck_assert_uint_eq(taken, LINKS * PACKETS);
    ck_assert_uint_le(most, MOST);
    close_links(transport);
}
END_TEST

/* Each link always has more to send. No link waits until another link has sent everything. How many
 * links have a turn in one dispatch depends on the machine, so the packets are counted: while a
 * link waits for its first turn, another link may end its turn of that round and have one more. */
START_TEST(every_link_has_its_turn)
{
    enum { HAD_MOST = 2 * (PACKETS + 1) };
    struct transport *transport = open_links();
    int64_t end_ms = now_ms() + GUARD_MS;
    uint32_t waiting = LINKS; /* how many links have had no turn */

    while (waiting > 0) {
        uint32_t had[LINKS];
        ck_assert_msg(now_ms() < end_ms, "%u links had no turn", waiting);
        memcpy(had, of, sizeof had);
        transport_dispatch(transport);
        waiting = 0;
        for (uint32_t i = 0; i < LINKS; i++) {
            send_packets(fds[i], i, of[i] - had[i], SIZE);
            waiting += of[i] == 0;
        }
        for (uint32_t i = 0; i < LINKS && waiting > 0; i++) {
            ck_assert_msg(of[i] <= HAD_MOST, "link %u had %u packets, and %u links none", i, of[i],
                          waiting);
        }
    }
    close_links(transport);
}
END_TEST

/* A new link, accepted or dialled, has its first turn in the next round. Otherwise new links would
 * prolong the round for a link that had its turn already. */
START_TEST(who_comes_joins_with_the_next_round)
{
    char listener[ADDRESS_SIZE];
    struct transport *transport = open_links();
    uint32_t accepts = transport->accepts;
    uint32_t round = 0;
    int listening = listen_raw(listener);
    int fd = connect_raw(address);

    ck_assert_uint_gt(transport->round, 0);
    for (int64_t end_ms = now_ms() + GUARD_MS; transport->accepts == accepts;) {
        ck_assert_int_lt(now_ms(), end_ms);
        round = transport->round;
        transport_dispatch(transport);
    }
    ck_assert_uint_eq(transport->inbox.links[transport->inbox.count - 1]->round, round);
    ck_assert_uint_eq(transport_peer(transport, listener, ""), 0);
    for (int64_t end_ms = now_ms() + GUARD_MS; transport->peers[0]->link == NULL;) {
        ck_assert_int_lt(now_ms(), end_ms);
        round = transport->round;
        transport_dispatch(transport);
    }
    ck_assert_uint_eq(transport->peers[0]->link->round, round);
    close(fd);
    close(listening);
    close_links(transport);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("turns");

    tcase_set_timeout(tests, GUARD_MS / 1000.0);
    tcase_add_test(tests, a_dispatch_ends);
    tcase_add_test(tests, every_link_has_its_turn);
    tcase_add_test(tests, who_comes_joins_with_the_next_round);
    return suite_main("transport_turns", tests);
}
