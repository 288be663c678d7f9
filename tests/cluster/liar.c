/*
 * A peer that lies. Three real agents on the loopback are one cell. Their messages go through this
 * process, which passes them on unchanged. On connections of its own it lies, as a process with a
 * certificate of the cell could:
 *
 *   - It repeats old packets.
 *   - It sends packets of another cell, or in the name of invented agents.
 *   - It sends ballots, epochs and generations so high that no number can follow.
 *   - It sends renewals for other agents, rubbish, unfinished frames, and floods of large packets.
 *
 * At the same time processes on all three hosts take locks and record what they do. The record must
 * show that no two exclusive holds overlap and that tokens rise. No agent ends, exceeds its bound
 * of memory, or logs without end. When the lies stop, every host is served.
 *
 * Another test flips a few bits in copies of real packets. The result may be a voter's lie, against
 * which Paxos does not protect. So in this test the agents only have to stay alive and answer their
 * clients. In a third test an agent without a vote sends a give-back for another host's lock to
 * voters, which are to pass it on.
 */
#include <check.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../suite_main.h"
#include "agent_process.h"
#include "core/quorum.h"
#include "history.h"
#include "holdfast/holdfast.h"
#include "proto/wire.h"
#include "require.h"

enum {
    HOSTS = 3,
    WAYS = HOSTS * HOSTS,
    WORKERS = 2, /* on each host */
    LOCKS = 3,
    KEPT = 64,
    SMALL_MAX = 8192,
    HISTORY_MAX = 1 << 20,
    MEMORY_MORE_MAX_KB = 96 * 1024,
    LOG_MAX = 4 * 1024 * 1024,
};

enum lies { LIES_NONE, LIES_ALL, LIES_ALTERED };

struct packet {
    size_t size;
    unsigned char bytes[WIRE_PACKET_MAX];
};

/* The path of the packets from one agent to another. */
struct way {
    unsigned from, to;
    int listener;
    int own; /* the connection for lies, or -1 */
    uint64_t random;
    unsigned kept;
    struct packet *now; /* the packet that is passed on now */
    struct packet *old; /* the earlier packet that a lie is made of */
    struct packet *lie;
    pthread_mutex_t lock; /* protects `kept` and `before` */
    struct packet *before[KEPT];
};

static struct agent_process agents[HOSTS];
/* ports of the agents, and after them the ports at which the ways listen */
static unsigned ports[HOSTS + WAYS];
static struct way ways[WAYS];
static struct history *history;
static uint64_t rules_digest; /* a hash of the cell's configuration, which the liar knows */

/* Shared by all processes. */
static struct {
    _Atomic int lies;
    _Atomic bool end;
    _Atomic uint64_t told; /* the number of lies that were sent */
    _Atomic uint64_t turns[HOSTS][WORKERS];
} * shared;

static bool read_all(int fd, void *out, size_t size)
{
    for (size_t at = 0; at < size;) {
        ssize_t got = recv(fd, (char *)out + at, size - at, 0);
        if (got <= 0) {
            return false;
        }
        at += (size_t)got;
    }
    return true;
}

static bool write_all(int fd, const void *bytes, size_t size)
{
    for (size_t at = 0; at < size;) {
        ssize_t sent = send(fd, (const char *)bytes + at, size - at, MSG_NOSIGNAL);
        if (sent <= 0) {
            return false;
        }
        at += (size_t)sent;
    }
    return true;
}

static bool write_packet(int fd, const struct packet *packet)
{
    uint32_t size = htonl((uint32_t)packet->size);
    return write_all(fd, &size, sizeof(size)) && write_all(fd, packet->bytes, packet->size);
}

static int dial(unsigned port, bool lies)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const struct timeval patience = {.tv_usec = 500000};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
    if (lies) { /* connects from an address that belongs to no agent */
        struct sockaddr_in elsewhere = {.sin_family = AF_INET,
                                        .sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1)};
        (void)bind(fd, (struct sockaddr *)&elsewhere, sizeof(elsewhere));
    }
    if (connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

/* Connects, and sends the greeting of an agent. */
static int dial_and_greet(unsigned port)
{
    unsigned char greeting[16] = "holdfast\0\0\0\1\0\0\0";
    unsigned char answer[16];
    const struct timeval patience = {.tv_sec = 5};
    int fd = dial(port, true);
    greeting[15] = WIRE_VERSION;
    if (fd >= 0) {
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    }
    if (fd >= 0 && write_all(fd, greeting, 16) && read_all(fd, answer, 16)) {
        return fd;
    }
    if (fd >= 0) {
        close(fd);
    }
    return -1;
}

static uint64_t draw(struct way *way, uint64_t below)
{
    way->random ^= way->random << 13;
    way->random ^= way->random >> 7;
    way->random ^= way->random << 17;
    return way->random % below;
}

/* ---- lies ---- */

static void name(struct message_agent *out, const char *text)
{
    message_agent_set(out, text, strlen(text));
}

/* Makes a message that a voter might send, with a number so high that no number can follow. */
static void impossible(struct way *way, struct message *message)
{
    const uint64_t ballot = (uint64_t)UINT32_MAX << 16 | (way->from + 1);
    switch (draw(way, 6)) {
    case 0:
        message->kind = MESSAGE_PREPARE;
        message->as.prepare.ballot = ballot;
        memset(&message->as.prepare.partitions, 0xff, sizeof(message->as.prepare.partitions));
        break;
    case 1:
        message->kind = MESSAGE_PROMISE;
        message->as.promise.ballot = 1 << 16 | (way->to + 1);
        message->as.promise.higher = ballot;
        memset(&message->as.promise.refused, 0xff, sizeof(message->as.promise.refused));
        break;
    case 2:
        message->kind = MESSAGE_ACCEPT;
        message->as.accept.order = (struct message_order){ballot, 1};
        message_name_set(&message->as.accept.name, "lock-0", 6);
        message->as.accept.value.token_first = 1;
        message->as.accept.value.permits = 1;
        break;
    case 3:
        message->kind = MESSAGE_MARK;
        name(&message->as.session.agent, "host-a");
        message->as.session.epoch = MESSAGE_EPOCH_LIMIT - 1;
        break;
    case 4:
        message->kind = MESSAGE_ACCEPTED;
        message->as.accepted.order = (struct message_order){1 << 16 | (way->to + 1), 1};
        message->as.accepted.higher = ballot;
        message_name_set(&message->as.accepted.name, "lock-1", 6);
        break;
    default:
        message->kind = MESSAGE_READ;
        message->as.read.ballot = ballot;
        message_name_set(&message->as.read.name, "lock-2", 6);
        break;
    }
}

/* Makes a renewal in the name of another agent. The renewal must neither prolong nor end that
 * agent's session. */
static void renewal(struct way *way, struct wire_header *header, struct message *message)
{
    static const char *const others[] = {"host-a", "host-b", "host-c", "host-z"};
    struct message_renew *renew = &message->as.renew;
    name(&header->from, others[draw(way, 4)]);
    message->from = header->from;
    message->kind = MESSAGE_RENEW;
    renew->agent = header->from;
    renew->epoch = draw(way, 2) == 0 ? MESSAGE_EPOCH_LIMIT - 1 : (uint32_t)draw(way, 3);
    renew->rules = rules_digest;
    renew->renewal_id = draw(way, UINT64_MAX);
    renew->echo.incarnation = draw(way, 2) * draw(way, UINT64_MAX);
    renew->echo.issued_ns = (int64_t)draw(way, INT64_MAX);
}

/* Invents a packet in way->lie, with the header of way->old. Returns false on failure. */
static bool invent(struct way *way)
{
    static _Thread_local struct message message;
    struct wire_reader reader;
    struct wire_writer writer;
    struct message_agent cell;
    name(&cell, "liar");
    if (wire_open(&reader, way->old->bytes, way->old->size, &cell) != WIRE_OK) {
        return false;
    }
    struct wire_header header = reader.header;
    memset(&message, 0, sizeof(message));
    message.from = header.from;
    impossible(way, &message);
    switch (draw(way, 4)) {
    case 0:
        name(&header.cell, "other");
        break;
    case 1:
        name(&header.from, "stranger");
        break;
    case 2:
        memset(&message, 0, sizeof(message));
        renewal(way, &header, &message);
        break;
    default:
        break;
    }
    wire_begin(&writer, way->lie->bytes, sizeof(way->lie->bytes), &header, reader.version);
    bool fits = wire_add(&writer, &message);
    way->lie->size = wire_end(&writer);
    return fits;
}

/* Flips a few bits of the packet way->old. */
static void alter(struct way *way)
{
    *way->lie = *way->old;
    for (uint64_t i = 1 + draw(way, 3); i > 0; i--) {
        way->lie->bytes[draw(way, way->lie->size)] ^= (unsigned char)(1 << draw(way, 8));
    }
}

static void rubbish(struct way *way)
{
    static const size_t sizes[] = {1, 100, 4000, WIRE_PACKET_MAX};
    way->lie->size = sizes[draw(way, 20) == 0 ? 3 : draw(way, 3)];
    memcpy(way->lie->bytes, way->old->bytes, way->old->size < 64 ? way->old->size : 64);
    for (size_t i = draw(way, 64); i < way->lie->size; i++) {
        way->lie->bytes[i] = (unsigned char)(way->random >> i % 57);
    }
}

static void hang_up(struct way *way)
{
    close(way->own);
    way->own = -1;
}

/* Copies a random earlier packet into way->old. Returns false if there is none yet. */
static bool choose(struct way *way)
{
    pthread_mutex_lock(&way->lock);
    unsigned count = way->kept < KEPT ? way->kept : KEPT;
    if (count > 0) {
        const struct packet *packet = way->before[draw(way, count)];
        way->old->size = packet->size;
        memcpy(way->old->bytes, packet->bytes, packet->size);
    }
    pthread_mutex_unlock(&way->lock);
    return count > 0;
}

/* Makes a lie in way->lie. Returns false if it could not make one. */
static bool make(struct way *way)
{
    uint64_t which = draw(way, 16);
    if (atomic_load(&shared->lies) == LIES_ALTERED) {
        alter(way);
        return true;
    }
    if (which < 6) { /* repeats the earlier packet, unchanged */
        *way->lie = *way->old;
        return true;
    }
    if (which < 14) {
        return invent(way);
    }
    rubbish(way);
    return true;
}

static void lie(struct way *way)
{
    if (way->own < 0) {
        way->own = dial_and_greet(ports[way->to]);
    }
    if (way->own < 0 || !choose(way) || !make(way)) {
        return;
    }
    if (draw(way, 64) == 0) { /* a frame that is too large, or whose end never comes */
        uint32_t size = htonl(draw(way, 2) == 0 ? UINT32_MAX : WIRE_PACKET_MAX);
        (void)write_all(way->own, &size, sizeof(size));
        hang_up(way);
    } else if (!write_packet(way->own, way->lie)) {
        hang_up(way);
    }
    atomic_fetch_add(&shared->told, 1);
}

static void *run_lies(void *arg)
{
    for (;;) {
        if (atomic_load(&shared->lies) != LIES_NONE) {
            lie(arg);
        }
        sleep_ms(5);
    }
    return NULL;
}

/* ---- passing packets on ---- */

static void keep(struct way *way)
{
    if (way->now->size <= SMALL_MAX) {
        pthread_mutex_lock(&way->lock);
        struct packet *packet = way->before[way->kept++ % KEPT];
        packet->size = way->now->size;
        memcpy(packet->bytes, way->now->bytes, way->now->size);
        pthread_mutex_unlock(&way->lock);
    }
}

static void carry(struct way *way, int in, int out)
{
    unsigned char greeting[16];
    uint32_t size;
    if (!read_all(in, greeting, 16) || !write_all(out, greeting, 16) ||
        !read_all(out, greeting, 16) || !write_all(in, greeting, 16)) {
        return;
    }
    while (read_all(in, &size, sizeof(size))) {
        way->now->size = ntohl(size);
        if (way->now->size > WIRE_PACKET_MAX || !read_all(in, way->now->bytes, way->now->size) ||
            !write_packet(out, way->now)) {
            return;
        }
        keep(way);
    }
}

static void *run_way(void *arg)
{
    struct way *way = arg;
    for (;;) {
        int in = accept(way->listener, NULL, NULL);
        int out = in < 0 ? -1 : dial(ports[way->to], false);
        if (out >= 0) {
            carry(way, in, out);
            close(out);
        }
        if (in >= 0) {
            close(in);
        }
    }
    return NULL;
}

static int listen_at(unsigned port)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const int on = 1;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    REQUIRE(bind(fd, (struct sockaddr *)&address, sizeof(address)) == 0 && listen(fd, 16) == 0,
            "port %u: %s", port, strerror(errno));
    return fd;
}

static void start_ways(void)
{
    for (unsigned i = 0; i < WAYS; i++) {
        struct way *way = &ways[i];
        pthread_t thread;
        if (i / HOSTS == i % HOSTS) {
            continue;
        }
        *way = (struct way){.from = i / HOSTS, .to = i % HOSTS, .own = -1, .random = 77 + i};
        way->listener = listen_at(ports[HOSTS + i]);
        way->now = calloc(1, sizeof(*way->now));
        way->old = calloc(1, sizeof(*way->old));
        way->lie = calloc(1, sizeof(*way->lie));
        pthread_mutex_init(&way->lock, NULL);
        for (unsigned k = 0; k < KEPT; k++) {
            way->before[k] = calloc(1, sizeof(struct packet)); /* untouched pages take no memory */
        }
        REQUIRE(pthread_create(&thread, NULL, run_way, way) == 0 &&
                    pthread_create(&thread, NULL, run_lies, way) == 0,
                "thread");
    }
}

/* ---- the cell and its processes ---- */

static void know_the_rules(void)
{
    struct message_rules rules = {.voter_count = HOSTS,
                                  .session_ttl_ns = 10000 * MS,
                                  .grace_ns = 10000 * MS,
                                  .max_drift_percent = 10};
    for (unsigned i = 0; i < HOSTS; i++) {
        const char voter[] = {'h', 'o', 's', 't', '-', (char)('a' + i), 0};
        name(&rules.voters[i], voter);
    }
    rules_digest = message_rules_digest(&rules);
}

static void start(void)
{
    know_the_rules();
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    history = history_create(NULL, HISTORY_MAX);
    ck_assert_ptr_nonnull(history);
    agent_free_ports(ports, HOSTS + WAYS);
    for (unsigned i = 0; i < HOSTS; i++) {
        char text[1024];
        int used = snprintf(text, sizeof(text),
                            "[agent]\nname = host-%c\ncell = liar\nstate_dir = %%D/state\n"
                            "socket = %%D/agent.sock\n[cell]\nsession_ttl = 10s\n[voters]\n",
                            (char)('a' + i));
        for (unsigned k = 0; k < HOSTS; k++) {
            used += snprintf(text + used, sizeof(text) - (size_t)used,
                             "host-%c = tcp://127.0.0.1:%u\n", (char)('a' + k),
                             i == k ? ports[i] : ports[HOSTS + i * HOSTS + k]);
        }
        agent_create(&agents[i], text);
        agent_launch(&agents[i]);
    }
    start_ways();
    for (unsigned i = 0; i < HOSTS; i++) {
        agent_await_socket(&agents[i]);
    }
}

static void stop(void)
{
    for (int i = HOSTS - 1; i >= 0; i--) {
        agent_destroy(&agents[i]);
    }
    history_destroy(history);
}

static void note(enum history_kind kind, unsigned lock, const struct hf_hold *hold)
{
    history_add(history,
                (struct history_event){.kind = kind,
                                       .pid = (uint32_t)getpid(),
                                       .lock = lock,
                                       .token = hold != NULL ? hold->token : 0,
                                       .deadline_ns = hold != NULL ? hold->deadline_ns : 0});
}

static void one_turn(hf_lock *const *locks, unsigned lock)
{
    struct hf_hold hold;
    note(HISTORY_ATTEMPT, lock, NULL);
    int result = hf_acquire(locks[lock], HF_EXCLUSIVE, GUARD_MS * MS, &hold);
    REQUIRE(result == 0, "acquire: %s", hf_strerror(result));
    note(HISTORY_ACQUIRED, lock, &hold);
    sleep_ms(1);
    if (hf_remaining_ns(locks[lock]) > 0) {
        note(HISTORY_HELD, lock, &hold);
    }
    note(HISTORY_RELEASED, lock, NULL);
    if (hf_release(locks[lock]) != 0) {
        note(HISTORY_LOST, lock, NULL);
    }
}

static void work(unsigned host, unsigned worker)
{
    hf_client *client;
    hf_lock *locks[LOCKS];
    struct hf_options options = {.size = sizeof(options), .socket = agents[host].socket};
    REQUIRE(hf_connect(&options, &client) == 0, "connect");
    for (unsigned i = 0; i < LOCKS; i++) {
        char lock[16];
        snprintf(lock, sizeof(lock), "lock-%u", i);
        int result = hf_open(client, lock, NULL, &locks[i]);
        REQUIRE(result == 0, "open: %s", hf_strerror(result));
    }
    for (unsigned turn = 0; !atomic_load(&shared->end); turn++) {
        one_turn(locks, (turn + worker) % LOCKS);
        atomic_fetch_add(&shared->turns[host][worker], 1);
    }
    hf_disconnect(client);
    _exit(0);
}

static void start_workers(pid_t pids[HOSTS * WORKERS])
{
    for (unsigned i = 0; i < HOSTS * WORKERS; i++) {
        pids[i] = fork_tied();
        if (pids[i] == 0) {
            work(i / WORKERS, i % WORKERS);
        }
    }
}

/* Waits until each worker has had `more` further turns. */
static void await_turns(uint64_t more)
{
    uint64_t before[HOSTS * WORKERS];
    for (unsigned i = 0; i < HOSTS * WORKERS; i++) {
        before[i] = atomic_load(&shared->turns[i / WORKERS][i % WORKERS]);
    }
    int64_t end_ns = boottime_now() + GUARD_MS * MS;
    for (unsigned i = 0; i < HOSTS * WORKERS; i++) {
        while (atomic_load(&shared->turns[i / WORKERS][i % WORKERS]) < before[i] + more) {
            ck_assert_msg(boottime_now() < end_ns, "worker %u of host %u is not served",
                          i % WORKERS, i / WORKERS);
            sleep_ms(10);
        }
    }
}

static void look_at_agents(const unsigned long before_kb[HOSTS])
{
    for (unsigned i = 0; i < HOSTS; i++) {
        struct stat status;
        ck_assert_msg(waitpid(agents[i].pid, NULL, WNOHANG) == 0, "the agent of host %u ended", i);
        unsigned long now_kb = agent_private_kb(&agents[i]);
        ck_assert_msg(now_kb < before_kb[i] + MEMORY_MORE_MAX_KB, "host %u: %lu kB, before %lu", i,
                      now_kb, before_kb[i]);
        ck_assert_int_eq(stat(agents[i].log, &status), 0);
        ck_assert_int_lt(status.st_size, LOG_MAX);
        ck_assert(!agent_logged(&agents[i], "event=bug"));
    }
}

static int64_t lie_for_ms(void)
{
    return test_is_deep() ? 120000 : 4000;
}

static bool any_logged(const char *text)
{
    bool logged = false;
    for (unsigned i = 0; i < HOSTS; i++) {
        logged |= agent_logged(&agents[i], text);
    }
    return logged;
}

/* Waits until enough lies were sent, which takes longer on a busy machine. */
static void await_lies(void)
{
    int64_t end_ns = boottime_now() + GUARD_MS * MS;
    while (atomic_load(&shared->told) <= 50) {
        ck_assert_msg(boottime_now() < end_ns, "hardly any lies were told");
        sleep_ms(10);
    }
}

START_TEST(lies_harm_nobody)
{
    pid_t pids[HOSTS * WORKERS];
    unsigned long before_kb[HOSTS];
    struct history_report report;
    start_workers(pids);
    await_turns(5);
    for (unsigned i = 0; i < HOSTS; i++) {
        before_kb[i] = agent_private_kb(&agents[i]);
    }
    atomic_store(&shared->lies, LIES_ALL);
    sleep_ms(lie_for_ms());
    await_lies();
    await_turns(3); /* the liar goes on lying in this time */
    look_at_agents(before_kb);
    atomic_store(&shared->lies, LIES_NONE);
    await_turns(5);
    atomic_store(&shared->end, true);
    for (unsigned i = 0; i < HOSTS * WORKERS; i++) {
        ck_assert_int_eq(wait_for(pids[i]), 0);
    }
    look_at_agents(before_kb);
    int found = history_check(history, &report);
    printf("%llu lies, %zu holds, longest wait %lld ms\n",
           (unsigned long long)atomic_load(&shared->told), report.holds,
           (long long)(report.longest_wait_ns / MS));
    ck_assert_msg(found == 0, "%s", report.first);
    ck_assert(any_logged("event=message_impossible"));
    ck_assert(any_logged("event=peer_refused"));
}
END_TEST

START_TEST(altered_packets_end_no_agent)
{
    unsigned long before_kb[HOSTS];
    hf_client *clients[HOSTS];
    hf_lock *locks[HOSTS];
    for (unsigned i = 0; i < HOSTS; i++) {
        struct hf_options options = {.size = sizeof(options), .socket = agents[i].socket};
        ck_assert_int_eq(hf_connect(&options, &clients[i]), 0);
        ck_assert_int_eq(hf_open(clients[i], "lock-0", NULL, &locks[i]), 0);
        before_kb[i] = agent_private_kb(&agents[i]);
    }
    atomic_store(&shared->lies, LIES_ALTERED);
    int64_t end_ns = boottime_now() + lie_for_ms() * MS;
    for (unsigned i = 0; boottime_now() < end_ns; i = (i + 1) % HOSTS) {
        if (hf_acquire(locks[i], HF_EXCLUSIVE, 100 * MS, NULL) == 0) {
            (void)hf_release(locks[i]);
        }
    }
    await_lies();
    look_at_agents(before_kb);
    atomic_store(&shared->lies, LIES_NONE);
    for (unsigned i = 0; i < HOSTS; i++) { /* each agent still answers its client */
        (void)hf_check_sequencer_local(clients[i], "hf1/liar/x/1/host-a.1.1/lock-0");
        hf_disconnect(clients[i]);
        ck_assert_int_eq(hf_connect(&(struct hf_options){.size = sizeof(struct hf_options),
                                                         .socket = agents[i].socket},
                                    &clients[i]),
                         0);
        hf_disconnect(clients[i]);
    }
    look_at_agents(before_kb);
}
END_TEST

/* ---- an agent without a vote that sends messages in its own name ---- */

/* Adds give-backs of lock-0 to a packet, in host-a's name, one for each version that host-a's grant
 * may have. */
static void add_give_backs(struct wire_writer *writer, unsigned to)
{
    static struct message message;
    struct message_give_back *given = &message.as.give_back;
    const char voter[] = {'h', 'o', 's', 't', '-', (char)('a' + to), 0};
    memset(&message, 0, sizeof(message));
    message.kind = MESSAGE_GIVE_BACK;
    name(&message.to, voter);
    name(&given->agent, "host-a");
    message_name_set(&given->name, "lock-0", 6);
    given->epoch = 1;
    for (uint64_t i = 0; i < 8 * HOSTS * 8; i++) {
        given->request_id = i + 1;
        given->version.ballot = (i / (HOSTS * 8) + 1) << 16 | (i / 8 % HOSTS + 1);
        given->version.sequence = i % 8 + 1;
        REQUIRE(wire_add(writer, &message), "too many messages");
    }
}

/* Sends a voter give-backs that the voter is to pass on to the agent `to`. */
static void send_give_backs(struct way *way, unsigned to)
{
    struct wire_reader reader;
    struct wire_writer writer;
    struct message_agent cell;
    name(&cell, "liar");
    for (int64_t end_ns = boottime_now() + GUARD_MS * MS; !choose(way);) {
        ck_assert_msg(boottime_now() < end_ns, "host %u sends host %u nothing", way->from, way->to);
        sleep_ms(10);
    }
    ck_assert_int_eq(wire_open(&reader, way->old->bytes, way->old->size, &cell), WIRE_OK);
    struct wire_header header = reader.header;
    name(&header.from, "stranger");
    wire_begin(&writer, way->lie->bytes, sizeof(way->lie->bytes), &header, reader.version);
    add_give_backs(&writer, to);
    way->lie->size = wire_end(&writer);
    for (int64_t end_ns = boottime_now() + GUARD_MS * MS; way->own < 0;) {
        ck_assert_msg(boottime_now() < end_ns, "host %u does not greet", way->to);
        way->own = dial_and_greet(ports[way->to]); /* waits for 5 s at most */
    }
    ck_assert(write_packet(way->own, way->lie));
}

START_TEST(nobody_gives_back_what_another_host_holds)
{
    hf_client *clients[2];
    hf_lock *locks[2];
    for (unsigned i = 0; i < 2; i++) {
        struct hf_options options = {.size = sizeof(options), .socket = agents[i].socket};
        ck_assert_int_eq(hf_connect(&options, &clients[i]), 0);
        ck_assert_int_eq(hf_open(clients[i], "lock-0", NULL, &locks[i]), 0);
        if (i == 0) {
            ck_assert_int_eq(hf_acquire(locks[0], HF_EXCLUSIVE, GUARD_MS * MS, NULL), 0);
        }
    }
    for (unsigned i = 0; i < WAYS; i++) {
        for (unsigned to = 0; i / HOSTS != i % HOSTS && to < HOSTS; to++) {
            if (to != ways[i].to) {
                send_give_backs(&ways[i], to);
                sleep_ms(50);
                hang_up(&ways[i]);
            }
        }
    }
    ck_assert_int_eq(hf_acquire(locks[1], HF_EXCLUSIVE, 2000 * MS, NULL), HF_ETIMEDOUT);
    ck_assert_int_gt(hf_remaining_ns(locks[0]), 0);
    ck_assert(any_logged("event=message_refused agent=stranger"));
    ck_assert_int_eq(hf_release(locks[0]), 0);
    ck_assert_int_eq(hf_acquire(locks[1], HF_EXCLUSIVE, GUARD_MS * MS, NULL), 0);
    hf_disconnect(clients[0]);
    hf_disconnect(clients[1]);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("liar");
    tcase_add_checked_fixture(tests, start, stop);
    tcase_set_timeout(tests, 280);
    tcase_add_test(tests, lies_harm_nobody);
    tcase_add_test(tests, altered_packets_end_no_agent);
    tcase_add_test(tests, nobody_gives_back_what_another_host_holds);
    return suite_main("liar", tests);
}
