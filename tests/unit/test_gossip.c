/*
 * Gossip in whole cells, in virtual time: up to 143 agents on a network that delays and loses
 * packets. The tests check the promises of core/gossip.h by counting.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../suite_main.h"
#include "core/gossip.h"
#include "holdfast/admin.h"
#include "hot_assert.h"

#define MS INT64_C(1000000)

enum { AGENTS_MAX = 210, PACKETS_MAX = 65536, STEP_MS = 5, DELAY_MS_MAX = 20 };

struct packet {
    int64_t due_ns;
    uint16_t from;
    uint16_t to;
    uint16_t size;
    unsigned char *bytes;
};

struct agent {
    struct gossip *gossip; /* NULL: the agent does not run */
    void *memory;
    bool known[AGENTS_MAX]; /* by index: this agent's driver has a connection to that agent */
    int part;               /* packets pass only between agents of the same part */
    uint64_t sent;
    uint64_t bytes_sent;
    uint64_t received;
    uint64_t incarnation; /* the incarnation in the agent's latest packet */
    uint32_t connections;
};

static struct agent agents[AGENTS_MAX];
static uint32_t agent_count;
static uint32_t voter_count;
static struct packet *packets;
static uint32_t packet_count;
static int64_t now;
static uint64_t seed;
static uint32_t loss_percent;
static uint32_t limit_items;
static struct gossip_action action_items[GOSSIP_STEP_ACTIONS];
static unsigned char output[GOSSIP_STEP_OUTPUT];

static uint64_t random_next(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed;
}

static struct message_agent name_of(uint32_t index)
{
    struct message_agent name;
    memset(&name, 0, sizeof(name));
    char text[16];
    name.length = (uint8_t)snprintf(text, sizeof(text), index < voter_count ? "v%u" : "h%03u",
                                    index);
    memcpy(name.text, text, name.length);
    return name;
}

static uint32_t index_of(const struct message_agent *name)
{
    return (uint32_t)strtoul(name->text + 1, NULL, 10);
}

static void step(uint32_t index, struct gossip_event *event);

/* Sends a packet, which may get lost. A packet to an agent of another part always gets lost. */
static void send_packet(uint32_t from, const struct gossip_action *action)
{
    uint32_t to = index_of(&action->agent);
    struct agent *sender = &agents[from];
    HOT_ASSERT_UINT(to, <, agent_count);
    if (!sender->known[to]) {
        ck_abort_msg("v/h %u sends to %u without an address", from, to);
    }
    struct gossip_reader reader;
    HOT_ASSERT(gossip_open(&reader, output + action->as.send.offset, action->as.send.size));
    sender->incarnation = reader.incarnation;
    sender->sent++;
    sender->bytes_sent += action->as.send.size;
    if (random_next() % 100 < loss_percent || sender->part != agents[to].part) {
        return;
    }
    HOT_ASSERT_UINT(packet_count, <, PACKETS_MAX);
    struct packet *packet = &packets[packet_count++];
    packet->due_ns = now + (int64_t)(1 + random_next() % DELAY_MS_MAX) * MS;
    packet->from = (uint16_t)from;
    packet->to = (uint16_t)to;
    packet->size = (uint16_t)action->as.send.size;
    packet->bytes = malloc(packet->size);
    memcpy(packet->bytes, output + action->as.send.offset, packet->size);
}

static void step(uint32_t index, struct gossip_event *event)
{
    struct gossip_actions actions = {.items = action_items,
                                     .capacity = GOSSIP_STEP_ACTIONS,
                                     .output = output,
                                     .output_size = sizeof(output)};
    event->now_ns = now;
    event->random = random_next();
    gossip_step(agents[index].gossip, event, &actions);
    for (uint32_t i = 0; i < actions.count; i++) {
        if (action_items[i].kind == GOSSIP_SEND) {
            send_packet(index, &action_items[i]);
        } else {
            uint32_t other = index_of(&action_items[i].agent);
            HOT_ASSERT(strncmp(action_items[i].as.address, "tcp://", 6) == 0);
            agents[index].connections += !agents[index].known[other];
            agents[index].known[other] = true;
        }
    }
}

static void peer(uint32_t index, uint32_t other, bool up)
{
    char address[32];
    struct gossip_event event = {.kind = GOSSIP_PEER, .agent = name_of(other)};
    snprintf(address, sizeof(address), "tcp://10.0.0.%u:7411", other);
    event.as.peer.address = address;
    event.as.peer.up = up;
    agents[index].known[other] = true;
    step(index, &event);
}

/* Starts an agent. It knows the voters; the voters learn of it when it renews its session. */
static void agent_start(uint32_t index, uint32_t epoch)
{
    struct gossip_config config = {.limits = {256, limit_items, limit_items * 4},
                                   .self = name_of(index),
                                   .voter = index < voter_count,
                                   .silent_ns = 10000 * MS};
    snprintf(config.address, sizeof(config.address), "tcp://10.0.0.%u:7411", index);
    struct agent *agent = &agents[index];
    agent->memory = calloc(1, gossip_size(&config.limits));
    agent->gossip = gossip_init(agent->memory, &config, random_next());
    struct gossip_event event = {.kind = GOSSIP_START, .as.epoch = epoch};
    step(index, &event);
    for (uint32_t i = 0; i < voter_count; i++) {
        if (i != index) {
            peer(index, i, true);
            if (agents[i].gossip != NULL) {
                peer(i, index, true);
            }
        }
    }
}

static void agent_stop(uint32_t index)
{
    free(agents[index].memory);
    agents[index].memory = NULL;
    agents[index].gossip = NULL;
    for (uint32_t i = 0; i < agent_count; i++) {
        if (agents[i].gossip != NULL && agents[i].known[index]) {
            peer(i, index, false);
        }
    }
}

static void cell(uint32_t voters, uint32_t observers, uint32_t loss, uint32_t items)
{
    packets = packets ? packets : calloc(PACKETS_MAX, sizeof(*packets));
    memset(agents, 0, sizeof(agents));
    voter_count = voters;
    agent_count = voters + observers;
    loss_percent = loss;
    limit_items = items;
    packet_count = 0;
    seed = 88172645463325252u + voters + observers + loss;
    now = 1000 * MS;
    for (uint32_t i = 0; i < agent_count; i++) {
        agent_start(i, 1);
    }
}

static void cell_end(void)
{
    for (uint32_t i = 0; i < agent_count; i++) {
        if (agents[i].gossip != NULL) {
            gossip_check_invariants(agents[i].gossip);
        }
        free(agents[i].memory);
    }
    for (uint32_t i = 0; i < packet_count; i++) {
        free(packets[i].bytes);
    }
}

/* Lets time pass: packets arrive, and due ticks come. */
static void pass(int64_t duration_ns)
{
    for (int64_t end = now + duration_ns; now < end;) {
        now += STEP_MS * MS;
        for (uint32_t i = 0; i < packet_count;) {
            struct packet packet = packets[i];
            if (packet.due_ns > now) {
                i++;
                continue;
            }
            packets[i] = packets[--packet_count];
            struct gossip_event event = {.kind = GOSSIP_RECEIVED, .agent = name_of(packet.from)};
            event.as.received.bytes = packet.bytes;
            event.as.received.size = packet.size;
            if (agents[packet.to].gossip != NULL) {
                agents[packet.to].received++;
                step(packet.to, &event);
            }
            free(packet.bytes);
        }
        for (uint32_t i = 0; i < agent_count; i++) {
            struct gossip_event event = {.kind = GOSSIP_TICK};
            if (agents[i].gossip != NULL && gossip_next_tick_ns(agents[i].gossip) <= now) {
                step(i, &event);
            }
        }
    }
}

static void put(uint32_t index, const char *name, uint64_t token)
{
    struct gossip_lock lock = {.state = token ? HF_STATE_EXCLUSIVE : HF_STATE_FREE};
    lock.name.length = (uint8_t)strlen(name);
    memcpy(lock.name.bytes, name, lock.name.length);
    if (token != 0) {
        lock.holder_total = 1;
        lock.holder_count = 1;
        lock.holders[0] = (struct gossip_holder){
            .pid = 100 + index, .uid = 0, .token = token, .remaining_ms = -1, .command = "job"};
    }
    HOT_ASSERT(gossip_put_lock(agents[index].gossip, &lock, now));
}

/* Returns the token of the lock, held by `holder`, that agent `index` shows; 0 if it shows the lock
 * as free or does not know it. */
static uint64_t shown(uint32_t index, uint32_t holder, const char *name)
{
    struct gossip_view view;
    struct message_agent who = name_of(holder);
    uint32_t at = 0;
    while (gossip_lock_next(agents[index].gossip, name, strlen(name), now, &at, &view)) {
        if (memcmp(&view.agent, &who, sizeof(who)) == 0 && view.valid &&
            view.lock.holder_count > 0) {
            return view.lock.holders[0].token;
        }
    }
    return 0;
}

static uint32_t count_showing(uint32_t holder, const char *name, uint64_t token)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < agent_count; i++) {
        count += i != holder && agents[i].gossip != NULL && shown(i, holder, name) == token;
    }
    return count;
}

/* Returns how long it takes until all other agents show the change, but at most limit_ns. */
static int64_t spread_ns(uint32_t holder, const char *name, uint64_t token, int64_t limit_ns)
{
    int64_t from = now;
    while (count_showing(holder, name, token) < agent_count - 1 && now - from < limit_ns) {
        pass(STEP_MS * MS);
    }
    return now - from;
}

/* Returns whether all agents show `each` locks of each agent, with that token. */
static bool all_show(uint32_t each, uint64_t token)
{
    for (uint32_t holder = 0; holder < agent_count; holder++) {
        for (uint32_t i = 0; i < each; i++) {
            char name[32];
            snprintf(name, sizeof(name), "lock/%u/%u", holder, i);
            if (count_showing(holder, name, token) != agent_count - 1) {
                return false;
            }
        }
    }
    return true;
}

static void count_reset(void)
{
    for (uint32_t i = 0; i < agent_count; i++) {
        agents[i].sent = agents[i].bytes_sent = agents[i].received = 0;
    }
}

/* Returns the messages per second of the agent that sent most. *received: the messages per second
 * of the agent that got most. */
static double busiest(double seconds, double *received)
{
    uint64_t most = 0;
    uint64_t most_received = 0;
    for (uint32_t i = 0; i < agent_count; i++) {
        most = agents[i].sent > most ? agents[i].sent : most;
        most_received = agents[i].received > most_received ? agents[i].received : most_received;
    }
    *received = (double)most_received / seconds;
    return (double)most / seconds;
}

static double mean(double seconds, double *bytes)
{
    uint64_t sent = 0;
    uint64_t size = 0;
    for (uint32_t i = 0; i < agent_count; i++) {
        sent += agents[i].sent;
        size += agents[i].bytes_sent;
    }
    *bytes = (double)size / seconds / agent_count;
    return (double)sent / seconds / agent_count;
}

static const uint32_t losses[] = {20, 0};
#ifdef HF_SANITIZED /* with a sanitizer, hundreds of agents take several times as long */
enum { LOSSES = 1, SIZES = 1 };
#else
enum { LOSSES = 2, SIZES = 3 };
#endif

/* A change is known everywhere within a second, with 0 % and 20 % loss. */
START_TEST(test_within_a_second)
{
    int64_t worst = 0;
    cell(3, 100, losses[_i], 4096);
    pass(15000 * MS);
    for (uint32_t i = 0; i < 40; i++) {
        char name[32];
        uint32_t holder = (uint32_t)(random_next() % agent_count);
        snprintf(name, sizeof(name), "job/%u", i / 2);
        int64_t took = spread_ns((put(holder, name, 10 + i), holder), name, 10 + i, 1000 * MS);
        worst = took > worst ? took : worst;
        ck_assert_msg(took < 1000 * MS, "change %u: %u of %u agents after %ld ms", i,
                      count_showing(holder, name, 10 + i), agent_count - 1, (long)(took / MS));
        put(holder, name, 0);
        pass(100 * MS);
    }
    printf("gossip: 103 agents, %u %% loss: a change was everywhere within %ld ms\n", losses[_i],
           (long)(worst / MS));
    cell_end();
}
END_TEST

enum { REST_S = 10 };
static const uint32_t sizes[] = {20, 60, 140};

/* The messages per second and the connections of an agent do not depend on the number of agents. */
START_TEST(test_messages_do_not_grow)
{
    double bytes;
    double received;
    cell(3, sizes[_i], 0, 4096);
    pass(REST_S * 1000 * MS);
    count_reset();
    pass(REST_S * 1000 * MS);
    double rest = mean(REST_S, &bytes);
    double rest_most = busiest(REST_S, &received);
    printf("gossip: %u agents, in rest: %.1f messages/s an agent (busiest sends %.1f, gets %.1f), "
           "%.0f bytes/s\n",
           agent_count, rest, rest_most, received, bytes);
    ck_assert_double_lt(rest, 10);
    ck_assert_double_lt(rest_most, 16);
    ck_assert_double_lt(received, 16);
    count_reset();
    for (uint32_t i = 0; i < 100; i++) {
        char name[32];
        snprintf(name, sizeof(name), "job/%u", i % 10);
        put((uint32_t)(i % agent_count), name, i + 1);
        pass(50 * MS);
    }
    double busy = mean(5, &bytes);
    double busy_most = busiest(5, &received);
    printf("gossip: %u agents, 20 changes/s: %.1f messages/s an agent (busiest sends %.1f, gets "
           "%.1f), %.0f bytes/s\n",
           agent_count, busy, busy_most, received, bytes);
    ck_assert_double_lt(busy_most, 38 + 8 * (1 + GOSSIP_REPAIR_PACKETS));
    ck_assert_double_lt(busy, 60);
    for (uint32_t i = 0; i < agent_count; i++) {
        ck_assert_uint_le(agents[i].connections, 4 * GOSSIP_VIEW);
    }
    cell_end();
}
END_TEST

/* An agent that starts late, or was cut off, learns everything. It does not show items that were
 * removed meanwhile. */
START_TEST(test_repair)
{
    cell(3, 7, 20, 16384);
    pass(3000 * MS);
    agents[9].part = 1;
    for (uint32_t holder = 0; holder < 9; holder++) {
        for (uint32_t i = 0; i < 300; i++) {
            char name[32];
            snprintf(name, sizeof(name), "lock/%u/%u", holder, i);
            put(holder, name, 5);
        }
    }
    pass(8000 * MS);
    ck_assert_uint_eq(shown(9, 0, "lock/0/7"), 0);
    agents[9].part = 0;
    for (uint32_t i = 0; i < 300; i++) {
        char name[32];
        snprintf(name, sizeof(name), "lock/9/%u", i);
        put(9, name, 5);
    }
    for (uint32_t i = 0; i < 100 && !all_show(300, 5); i++) {
        pass(500 * MS);
    }
    ck_assert(all_show(300, 5));
    agents[8].part = 1;
    put(3, "lock/3/7", 0);
    pass(5000 * MS);
    /* the agent was cut off for less than 10 s, so it still shows the item */
    ck_assert_uint_eq(shown(8, 3, "lock/3/7"), 5);
    agents[8].part = 0;
    for (uint32_t i = 0; i < 20 && shown(8, 3, "lock/3/7") != 0; i++) {
        pass(500 * MS);
    }
    ck_assert_uint_eq(shown(8, 3, "lock/3/7"), 0);
    cell_end();
}
END_TEST

/* Repairs spread many locks at once. An item that every agent already has is not sent as a rumour
 * as well. */
START_TEST(test_what_all_know_is_no_rumour)
{
    enum { LOCKS = 3000 };
    double bytes;
    cell(3, 0, 0, 16384);
    pass(3000 * MS);
    for (uint32_t holder = 0; holder < agent_count; holder++) {
        for (uint32_t i = 0; i < LOCKS; i++) {
            char name[32];
            snprintf(name, sizeof(name), "lock/%u/%u", holder, i);
            put(holder, name, 5);
        }
    }
    for (uint32_t i = 0; i < 100 && !all_show(LOCKS, 5); i++) {
        pass(500 * MS);
    }
    ck_assert(all_show(LOCKS, 5));
    pass(3000 * MS); /* agents exchange digests, and drop the rumours that a digest confirms */
    count_reset();
    pass(5000 * MS);
    (void)mean(5, &bytes);
    ck_assert_double_lt(bytes, 5000);
    put(0, "lock/0/7", 0); /* a new change still goes out as a rumour */
    pass(4 * GOSSIP_ROUND_MS * MS);
    ck_assert_uint_eq(shown(1, 0, "lock/0/7"), 0);
    ck_assert_uint_eq(shown(2, 0, "lock/0/7"), 0);
    cell_end();
}
END_TEST

/* The cell is cut in two: each half shows the other half's locks as unknown. Then the halves meet
 * again. */
START_TEST(test_halves_meet_again)
{
    cell(3, 57, 0, 1024);
    pass(10000 * MS);
    put(5, "x", 3);
    for (uint32_t i = 0; i < agent_count; i++) {
        agents[i].part = i % 2;
    }
    pass(15000 * MS);
    ck_assert_uint_eq(shown(7, 5, "x"), 3);
    ck_assert_uint_eq(shown(6, 5, "x"), 0); /* agent 5 was silent for longer than ttl and grace */
    put(5, "y", 4);
    for (uint32_t i = 0; i < agent_count; i++) {
        agents[i].part = 0;
    }
    ck_assert_int_lt(spread_ns(5, "y", 4, 20000 * MS), 20000 * MS);
    ck_assert_int_lt(spread_ns(5, "x", 3, 20000 * MS), 20000 * MS);
    cell_end();
}
END_TEST

/* An agent that restarts publishes everything anew. The items of its earlier process disappear,
 * even though the epoch, and with it the first choice of an incarnation, is the same. */
START_TEST(test_restart_same_epoch)
{
    for (uint32_t round = 0; round < 6; round++) {
        cell(3, 2, 0, 1024);
        seed += round * 977;
        pass(3000 * MS);
        put(4, "before", 3);
        put(4, "both", 4);
        pass(1000 * MS);
        ck_assert_uint_eq(count_showing(4, "before", 3), 4);
        agent_stop(4);
        pass(200 * MS);
        agent_start(4, 1);
        put(4, "both", 6);
        pass(4000 * MS);
        ck_assert_uint_eq(count_showing(4, "before", 0), 4);
        ck_assert_uint_eq(count_showing(4, "both", 6), 4);
        cell_end();
    }
}
END_TEST

/* An agent that died is not shown any more: at once if a voter reports that its session has ended,
 * otherwise after ttl and grace. Its next session is shown. */
START_TEST(test_the_dead_are_not_shown)
{
    struct message_name changed;
    struct gossip_event over = {.kind = GOSSIP_SESSION};
    cell(3, 3, 0, 1024);
    pass(3000 * MS);
    put(4, "x", 3);
    put(5, "y", 4);
    pass(1000 * MS);
    while (gossip_changed(agents[3].gossip, &changed)) {
    }
    agent_stop(4);
    agent_stop(5);
    over.agent = name_of(4);
    over.as.session.epoch = 1;
    over.as.session.state = GOSSIP_LOST;
    step(1, &over);
    pass(1000 * MS);
    ck_assert_uint_eq(shown(3, 4, "x"), 0);
    ck_assert_uint_eq(shown(3, 5, "y"), 4);
    ck_assert(gossip_changed(agents[3].gossip, &changed));
    ck_assert_uint_eq(changed.bytes[0], 'x');
    ck_assert(!gossip_has_changed(agents[3].gossip));
    pass(10000 * MS);
    ck_assert_uint_eq(shown(3, 5, "y"), 0);
    ck_assert(gossip_changed(agents[3].gossip, &changed));
    ck_assert_uint_eq(changed.bytes[0], 'y');
    agent_start(4, 2);
    put(4, "x", 9);
    pass(2000 * MS);
    ck_assert_uint_eq(shown(3, 4, "x"), 9);
    step(4, &over); /* agent 4 learns that its old session has ended; its present session goes on */
    pass(2000 * MS);
    ck_assert_uint_eq(shown(3, 4, "x"), 9);
    cell_end();
}
END_TEST

/* The age of an idle agent's entries is the time since that agent's last packet. It is never more
 * than some seconds. */
START_TEST(test_ages)
{
    struct gossip_view view;
    uint32_t at = 0;
    cell(3, 2, 0, 1024);
    pass(2000 * MS);
    put(4, "x", 3);
    pass(30000 * MS);
    ck_assert(gossip_lock_next(agents[3].gossip, "x", 1, now, &at, &view));
    ck_assert_int_lt(view.age_ns, 2000 * MS);
    ck_assert_int_ge(view.lock.holders[0].held_ms, 29900);
    ck_assert_int_le(view.lock.holders[0].held_ms, 30000);
    ck_assert_int_lt(gossip_age_ns(agents[3].gossip, now), 3000 * MS);
    ck_assert(!gossip_lock_next(agents[3].gossip, "x", 1, now, &at, &view));
    at = 0;
    /* an agent does not show its own lock as another agent's */
    ck_assert(!gossip_lock_next(agents[4].gossip, "x", 1, now, &at, &view));
    agent_stop(4);
    pass(5000 * MS);
    at = 0;
    ck_assert(gossip_lock_next(agents[3].gossip, "x", 1, now, &at, &view));
    ck_assert_int_ge(view.age_ns, 4800 * MS);
    cell_end();
}
END_TEST

/* A full table drops other agents' tombstones first, then other agents' items. The agent's own
 * items stay. */
START_TEST(test_full)
{
    char name[32];
    cell(3, 0, 0, 64);
    pass(1000 * MS);
    for (uint32_t i = 0; i < 30; i++) {
        snprintf(name, sizeof(name), "own/%u", i);
        put(0, name, 1);
    }
    for (uint32_t i = 0; i < 50; i++) {
        snprintf(name, sizeof(name), "other/%u", i);
        put(1, name, 1);
        pass(200 * MS);
    }
    for (uint32_t i = 0; i < agent_count; i++) {
        gossip_check_invariants(agents[i].gossip);
    }
    uint32_t own = 0;
    uint32_t others = 0;
    for (uint32_t i = 0; i < 50; i++) {
        snprintf(name, sizeof(name), "other/%u", i);
        others += shown(0, 1, name) == 1;
    }
    /* 64 entries, less the agent's own 30 locks and some other items */
    ck_assert_uint_ge(others, 20);
    ck_assert_uint_lt(others, 34);
    struct gossip_lock lock = {.state = HF_STATE_EXCLUSIVE, .holder_total = 1};
    for (; own < 200; own++) {
        lock.name.length = (uint8_t)snprintf((char *)lock.name.bytes, 32, "more/%u", own);
        if (!gossip_put_lock(agents[0].gossip, &lock, now)) {
            break;
        }
    }
    ck_assert_uint_gt(own, 20);
    /* the agent's own items fill the table, and a further one is refused */
    ck_assert_uint_lt(own, 64);
    pass(2000 * MS);
    cell_end();
}
END_TEST

/* Tombstones disappear everywhere after a minute, and do not come back. */
START_TEST(test_tombstones_go)
{
    struct gossip_view view;
    cell(3, 3, 20, 1024);
    pass(2000 * MS);
    put(4, "x", 3);
    pass(2000 * MS);
    put(4, "x", 0);
    pass(50000 * MS);
    uint32_t at = 0;
    ck_assert(gossip_lock_next(agents[3].gossip, "x", 1, now, &at, &view));
    ck_assert_uint_eq(view.lock.holder_total, 0);
    pass(15000 * MS);
    for (uint32_t i = 0; i < agent_count; i++) {
        at = 0;
        ck_assert(!gossip_lock_next(agents[i].gossip, "x", 1, now, &at, &view));
    }
    cell_end();
}
END_TEST

/* Listing returns the names that begin with the prefix, in byte order, without tombstones. */
START_TEST(test_names_in_order)
{
    static const char *const expected[] = {"a/1", "a/10", "a/2", "a/\xc3\xbc"};
    struct message_name name = {0};
    cell(3, 0, 0, 1024);
    pass(1000 * MS);
    put(1, "a/2", 1);
    put(1, "b", 1);
    put(2, "a/10", 1);
    put(2, "a/1", 1);
    put(1, "a/\xc3\xbc", 1);
    put(1, "a/3", 1);
    put(1, "a/3", 0);
    put(1, "Z", 1);
    put(0, "a/11", 1); /* the agent's own lock */
    pass(1000 * MS);
    for (uint32_t i = 0; i < 4; i++) {
        ck_assert(gossip_lock_after(agents[0].gossip, "a/", 2, name.bytes, name.length, &name));
        ck_assert_uint_eq(name.length, strlen(expected[i]));
        ck_assert_int_eq(memcmp(name.bytes, expected[i], name.length), 0);
    }
    ck_assert(!gossip_lock_after(agents[0].gossip, "a/", 2, name.bytes, name.length, &name));
    ck_assert(gossip_lock_after(agents[0].gossip, "", 0, "", 0, &name));
    ck_assert_uint_eq(name.bytes[0], 'Z');
    cell_end();
}
END_TEST

/* If announcements name different coordinators of a partition, agents show the coordinator of the
 * latest announcement. */
START_TEST(test_owner)
{
    struct message_partitions owned = {{0xf0, 0, 0, 0}};
    struct message_agent owner;
    struct message_agent v1;
    struct message_agent v2;
    cell(3, 1, 0, 1024);
    v1 = name_of(1);
    v2 = name_of(2);
    pass(1000 * MS);
    ck_assert(!gossip_owner(agents[3].gossip, 4, &owner));
    gossip_put_owned(agents[1].gossip, &owned, now);
    pass(1000 * MS);
    ck_assert(gossip_owner(agents[3].gossip, 4, &owner));
    ck_assert_int_eq(memcmp(&owner, &v1, sizeof(v1)), 0);
    ck_assert(!gossip_owner(agents[3].gossip, 3, &owner));
    gossip_put_owned(agents[2].gossip, &owned, now);
    pass(1000 * MS);
    ck_assert(gossip_owner(agents[3].gossip, 4, &owner));
    ck_assert_int_eq(memcmp(&owner, &v2, sizeof(v2)), 0);
    cell_end();
}
END_TEST

/* A removed voter owns no partitions any more, and an agent that joins is shown as a voter. */
START_TEST(test_voters_change)
{
    struct message_partitions owned = {{0xf0, 0, 0, 0}};
    struct gossip_agent_view view;
    struct message_agent owner;
    uint32_t voters = 0;
    cell(3, 1, 0, 1024);
    pass(1000 * MS);
    gossip_put_owned(agents[1].gossip, &owned, now);
    pass(1000 * MS);
    ck_assert(gossip_owner(agents[0].gossip, 4, &owner));
    gossip_set_voter(agents[1].gossip, false, now);
    gossip_set_voter(agents[3].gossip, true, now);
    gossip_set_voter(agents[2].gossip, true, now); /* agent 2 is a voter already */
    pass(1000 * MS);
    ck_assert(!gossip_owner(agents[0].gossip, 4, &owner));
    struct message_agent removed = name_of(1);
    uint32_t at = 0;
    while (gossip_agent_next(agents[0].gossip, now, &at, &view)) {
        bool is_removed = memcmp(&view.name, &removed, sizeof(removed)) == 0;
        ck_assert(view.agent.voter == !is_removed);
        voters += view.agent.voter;
    }
    ck_assert_uint_eq(voters, 3);
    cell_end();
}
END_TEST

/* An item in which only the age changed does not count as changed, and is not sent again. */
START_TEST(test_older_is_no_change)
{
    struct gossip_lock lock = {.state = HF_STATE_EXCLUSIVE, .name = {1, "x"}};
    lock.holder_total = lock.holder_count = lock.waiter_total = lock.waiter_count = 1;
    lock.closed_ms = 60000;
    cell(3, 0, 0, 1024);
    pass(3000 * MS);
    ck_assert(gossip_put_lock(agents[0].gossip, &lock, now));
    pass(3000 * MS);
    count_reset();
    for (uint32_t i = 0; i < 40; i++) {
        lock.closed_ms -= 100;
        lock.holders[0].held_ms += 100;
        lock.waiters[0].waited_ms += 100;
        ck_assert(gossip_put_lock(agents[0].gossip, &lock, now));
        pass(100 * MS);
    }
    ck_assert_uint_lt(agents[0].sent, 4 * 10); /* only digests */
    lock.holders[0].token = 1;
    ck_assert(gossip_put_lock(agents[0].gossip, &lock, now));
    pass(500 * MS);
    ck_assert_uint_eq(shown(1, 0, "x"), 1);
    cell_end();
}
END_TEST

/* In a cell of one host, nothing is sent and no tick is due. */
START_TEST(test_alone)
{
    cell(1, 0, 0, 1024);
    put(0, "x", 1);
    ck_assert(!gossip_active(agents[0].gossip));
    ck_assert_int_eq(gossip_next_tick_ns(agents[0].gossip), INT64_MAX);
    pass(10000 * MS);
    ck_assert_uint_eq(agents[0].sent, 0);
    cell_end();
}
END_TEST

/* False items in another agent's name do not stay, because each author corrects its own items. */
START_TEST(test_authors_defend_their_own)
{
    unsigned char bytes[GOSSIP_PACKET_MAX];
    unsigned char body[GOSSIP_BODY_MAX];
    struct gossip_writer writer;
    struct gossip_item item = {.kind = GOSSIP_LOCK};
    cell(3, 1, 0, 1024);
    pass(1000 * MS);
    put(1, "x", 7);
    pass(1000 * MS);
    struct gossip_view view;
    uint32_t at = 0;
    ck_assert(gossip_lock_next(agents[0].gossip, "x", 1, now, &at, &view));
    item.as.lock = view.lock;
    item.as.lock.holders[0].token = 99;
    item.as.lock.holders[0].pid = 1;
    /* the first false item has a higher number, the second one another incarnation */
    for (uint32_t i = 0; i < 2; i++) {
        struct gossip_stamp stamp = {.author = name_of(1), .number = 1000 + i};
        stamp.incarnation = agents[1].incarnation + (i == 0 ? 0 : UINT64_C(5) << 31);
        gossip_begin(&writer, bytes, sizeof(bytes), GOSSIP_ITEMS, 0, 0);
        size_t size = gossip_body_encode(&item, body, sizeof(body));
        ck_assert(gossip_add_item(&writer, &stamp, body, size));
        struct gossip_event event = {.kind = GOSSIP_RECEIVED, .agent = name_of(3)};
        event.as.received.bytes = bytes;
        event.as.received.size = gossip_end(&writer, false);
        step(0, &event);
        pass(4000 * MS);
        ck_assert_uint_eq(shown(0, 1, "x"), 7);
        ck_assert_uint_eq(shown(3, 1, "x"), 7);
    }
    cell_end();
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("gossip");
    tcase_set_timeout(tests, 240);
    tcase_add_loop_test(tests, test_within_a_second, 0, LOSSES);
    tcase_add_loop_test(tests, test_messages_do_not_grow, 0, SIZES);
    tcase_add_test(tests, test_repair);
    tcase_add_test(tests, test_what_all_know_is_no_rumour);
    tcase_add_test(tests, test_halves_meet_again);
    tcase_add_test(tests, test_restart_same_epoch);
    tcase_add_test(tests, test_the_dead_are_not_shown);
    tcase_add_test(tests, test_ages);
    tcase_add_test(tests, test_full);
    tcase_add_test(tests, test_tombstones_go);
    tcase_add_test(tests, test_names_in_order);
    tcase_add_test(tests, test_owner);
    tcase_add_test(tests, test_voters_change);
    tcase_add_test(tests, test_older_is_no_change);
    tcase_add_test(tests, test_alone);
    tcase_add_test(tests, test_authors_defend_their_own);
    return suite_main("gossip", tests);
}
