/*
 * A liar, which other agents accept as an agent, announces false addresses. A real voter and a real
 * observer are on the loopback. From another loopback address the liar announces, in the observer's
 * name, that the observer listens elsewhere, and it invents agents as fast as it can.
 *
 * The observer's host is served all the time, with locks that the voter has to grant. The voter's
 * descriptors, memory and log stay bounded, and some time after the lies they are as before. An
 * observer that restarts at another address is served at that address.
 */
#include <arpa/inet.h>
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../suite_main.h"
#include "agent_process.h"
#include "holdfast/holdfast.h"
#include "proto/wire.h"
#include "require.h"

enum {
    VOTER,
    OBSERVER,
    ELSEWHERE, /* the observer's second address */
    NOWHERE,   /* an address without a listener */
    PORTS,
    TIMES = 40,
    LIES = 50, /* how many lies the liar sends at once */
    INVENTED = 20000,
    LINKS_MORE_MAX =
        64 + 8, /* ADDRESSES_GUESTS_MAX of agent/peers/addresses.h, and 8 descriptors of clients */
    /* The memory for invented agents: gossip keeps at most 4,096 agents, and the quorum 1,024. The
     * voter dials at most 64 of them. */
    MEMORY_MORE_MAX_KB = 16 * 1024,
    LOG_MORE_MAX = 64 * 1024,
};

static struct agent_process voter;
static struct agent_process observer;
static unsigned ports[PORTS];
static int liar = -1;
static int listener = -1; /* listens at the address that the liar announces for the observer */
static unsigned listener_port;

static void dial_and_greet(void)
{
    unsigned char greeting[16] = "holdfast\0\0\0\1\0\0\0";
    const struct timeval patience = {.tv_sec = 10};
    struct sockaddr_in elsewhere = {.sin_family = AF_INET,
                                    .sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1)};
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)ports[VOTER]),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    greeting[15] = WIRE_VERSION;
    liar = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    setsockopt(liar, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    setsockopt(liar, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
    ck_assert_int_eq(bind(liar, (struct sockaddr *)&elsewhere, sizeof(elsewhere)), 0);
    ck_assert_int_eq(connect(liar, (struct sockaddr *)&address, sizeof(address)), 0);
    ck_assert_int_eq(send(liar, greeting, 16, MSG_NOSIGNAL), 16);
    ck_assert_int_eq(recv(liar, greeting, 16, MSG_WAITALL), 16);
}

/* Sends a renewal in the name of the agent `name`, with `address` as that agent's address. */
static void say(const char *name, const char *address)
{
    static unsigned char bytes[4 + WIRE_PACKET_MAX];
    static struct message message;
    struct wire_writer writer;
    struct wire_header header = {.store_id = {1, 2}};
    memcpy(header.cell.text, "told", 4);
    header.cell.length = 4;
    header.from.length = (uint8_t)strlen(name);
    memcpy(header.from.text, name, header.from.length);
    memset(&message, 0, sizeof(message));
    message.kind = MESSAGE_RENEW;
    message.from = header.from;
    message.as.renew.agent = header.from;
    message.as.renew.epoch = 1;
    message.as.renew.renewal_id = 1;
    snprintf(message.as.renew.advertise, sizeof(message.as.renew.advertise), "%s", address);
    wire_begin(&writer, bytes + 4, WIRE_PACKET_MAX, &header, WIRE_VERSION);
    ck_assert(wire_add(&writer, &message));
    uint32_t size = htonl((uint32_t)wire_end(&writer));
    memcpy(bytes, &size, 4);
    ck_assert_int_eq(send(liar, bytes, ntohl(size) + 4, MSG_NOSIGNAL), ntohl(size) + 4);
}

static void say_port(const char *name, unsigned port)
{
    char address[64];
    snprintf(address, sizeof(address), "tcp://127.0.0.2:%u", port);
    say(name, address);
}

/* Checks that the observer's host gets a new lock, which only the voter can grant. */
static void observer_is_served(void)
{
    static unsigned locks;
    char name[32];
    hf_client *client;
    hf_lock *lock;
    struct hf_options options = {.size = sizeof(options), .socket = observer.socket};
    snprintf(name, sizeof(name), "lock-%u", locks++);
    ck_assert_int_eq(hf_connect(&options, &client), 0);
    ck_assert_int_eq(hf_open(client, name, NULL, &lock), 0);
    ck_assert_int_eq(hf_acquire(lock, HF_EXCLUSIVE, 60000 * MS, NULL), 0);
    ck_assert_int_eq(hf_release(lock), 0);
    hf_disconnect(client);
}

/* Accepts the connections that wait at `listener`, sends an agent's greeting on each, and keeps the
 * connections until the test ends. Returns how many it accepted. */
static unsigned answer_as_an_agent(void)
{
    unsigned char greeting[16] = "holdfast\0\0\0\1\0\0\0";
    unsigned count = 0;
    greeting[15] = WIRE_VERSION;
    for (;; count++) {
        int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0) {
            return count;
        }
        (void)!send(fd, greeting, 16, MSG_NOSIGNAL);
    }
}

static void configure(struct agent_process *agent, const char *name, unsigned port)
{
    char text[512];
    snprintf(text, sizeof(text),
             "[agent]\nname = %s\ncell = told\nrole = %s\nstate_dir = %%D/state\n"
             "socket = %%D/agent.sock\n[cell]\nlisten = tcp://127.0.0.1:%u\n[voters]\n"
             "voter = tcp://127.0.0.1:%u\n",
             name, agent == &voter ? "voter" : "observer", port, ports[VOTER]);
    if (agent->folder[0] == '\0') {
        agent_create(agent, text);
    } else {
        agent_configure(agent, text);
    }
}

static void start(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1)};
    socklen_t size = sizeof(at);
    agent_free_ports(ports, PORTS);
    configure(&voter, "voter", ports[VOTER]);
    configure(&observer, "observer", ports[OBSERVER]);
    agent_start(&voter);
    agent_start(&observer);
    listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    ck_assert_int_eq(bind(listener, (struct sockaddr *)&at, size), 0);
    ck_assert_int_eq(listen(listener, 64), 0);
    ck_assert_int_eq(getsockname(listener, (struct sockaddr *)&at, &size), 0);
    listener_port = ntohs(at.sin_port);
    observer_is_served();
    dial_and_greet();
}

static void stop(void)
{
    close(liar);
    close(listener);
    agent_destroy(&observer);
    agent_destroy(&voter);
}

/* Checks that the voter has logged `event` since since_ns: at least once, and at most once in each
 * minute. */
static void told_by_the_minute(const char *event, int64_t since_ns)
{
    for (int64_t end_ns = boottime_now() + (int64_t)GUARD_MS * MS;
         agent_logged(&voter, event) == 0;) {
        ck_assert_msg(boottime_now() < end_ns, "no %s", event);
        sleep_ms(20);
    }
    ck_assert_int_le(agent_logged(&voter, event), 1 + (boottime_now() - since_ns) / (60000 * MS));
}

START_TEST(an_observer_that_is_there_stays_where_it_is)
{
    int64_t begin_ns = boottime_now();
    for (unsigned i = 0; i < TIMES; i++) {
        for (unsigned k = 0; k < LIES; k++) {
            say_port("observer", k % 2 == 0 ? listener_port : ports[NOWHERE]);
        }
        observer_is_served();
    }
    ck_assert_uint_eq(answer_as_an_agent(), 0); /* the voter did not connect to the announced
                                                 * address */
    told_by_the_minute("event=peer_address_refused", begin_ns);
    /* An observer must not announce these addresses: a voter's own, however it is written, or a
     * name that the agent would have to look up. */
    char address[64];
    snprintf(address, sizeof(address), "tcp://[::ffff:127.0.0.1]:%u", ports[VOTER]);
    say("nobody-1", address);
    observer_is_served();
    told_by_the_minute("event=peer_not_added", begin_ns);
    ck_assert_int_eq(agent_logged(&voter, address), 1);
    snprintf(address, sizeof(address), "tcp://127.0.0.1:%u", ports[VOTER]);
    say("nobody-2", address);
    say("nobody-3", "tcp://example.invalid:7411");
    observer_is_served();
}
END_TEST

/* While the observer is away the liar answers in its place. */
START_TEST(an_observer_that_comes_back_is_served)
{
    ck_assert_int_eq(agent_stop(&observer), 0);
    for (unsigned tries = 0; answer_as_an_agent() == 0; tries++) {
        ck_assert_uint_lt(tries, GUARD_MS / 20);
        say_port("observer", listener_port);
        sleep_ms(20);
    }
    agent_start(&observer);
    observer_is_served();
    for (unsigned k = 0; k < LIES; k++) {
        say_port("observer", listener_port);
    }
    observer_is_served();
}
END_TEST

START_TEST(an_observer_that_moves_is_served)
{
    ck_assert_int_eq(agent_stop(&observer), 0);
    configure(&observer, "observer", ports[ELSEWHERE]);
    agent_start(&observer);
    observer_is_served();
    ck_assert_uint_ge(agent_logged(&voter, "event=peer_moved"), 1);
}
END_TEST

START_TEST(agents_that_there_are_not)
{
    unsigned before = agent_descriptors(&voter);
    unsigned most = before;
    long log_before = agent_log_size(&voter);
    unsigned long memory_before = agent_private_kb(&voter);
    int64_t begin_ns = boottime_now();
    for (unsigned i = 0; i < INVENTED; i++) {
        char name[32];
        snprintf(name, sizeof(name), "nobody-%u", i);
        say_port(name, i % 2 == 0 ? listener_port : ports[NOWHERE]);
        if (i % 500 == 0) {
            observer_is_served();
            unsigned now = agent_descriptors(&voter);
            most = now > most ? now : most;
        }
    }
    observer_is_served();
    printf("%u agents that there are not: %u descriptors, before %u; %lu kB, before %lu\n",
           INVENTED, most, before, agent_private_kb(&voter), memory_before);
    ck_assert_uint_le(most, before + LINKS_MORE_MAX);
    ck_assert_uint_le(agent_private_kb(&voter), memory_before + MEMORY_MORE_MAX_KB);
    ck_assert_int_le(agent_log_size(&voter), log_before + LOG_MORE_MAX);
    told_by_the_minute("event=peer_not_added", begin_ns);
    for (int64_t end_ns = boottime_now() + (int64_t)GUARD_MS * 2 * MS;
         agent_descriptors(&voter) > before;) {
        ck_assert_msg(boottime_now() < end_ns, "%u descriptors, before %u",
                      agent_descriptors(&voter), before);
        sleep_ms(200);
    }
    observer_is_served();
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("addresses");
    tcase_add_checked_fixture(tests, start, stop);
    tcase_set_timeout(tests, 180);
    tcase_add_test(tests, an_observer_that_is_there_stays_where_it_is);
    tcase_add_test(tests, an_observer_that_comes_back_is_served);
    tcase_add_test(tests, an_observer_that_moves_is_served);
    tcase_add_test(tests, agents_that_there_are_not);
    return suite_main("addresses", tests);
}
