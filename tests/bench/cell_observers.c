/*
 * Gossip in a cell of 3 voters and 100 observers. The agents' gossip core runs in virtual time, on
 * a network that delays packets. The figure is the number of messages of one agent in one second,
 * at rest and with 20 changes a second. A cell of 3 voters and 25 observers is measured for
 * comparison.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/gossip.h"
#include "core/quorum.h"
#include "figures.h"
#include "holdfast/admin.h"

enum {
    VOTERS = 3,
    OBSERVERS = 100,
    OBSERVERS_FEW = 25,
    AGENTS = VOTERS + OBSERVERS,
    PACKETS_MAX = 16384,
    STEP_MS = 5,
    DELAY_MS_MAX = 20,
    ITEMS = 1024,
};

static const int64_t ms_ns = 1000000;

struct packet {
    int64_t due_ns;
    uint32_t from, to;
    size_t size;
    unsigned char *bytes;
};

struct village {
    struct gossip *gossips[AGENTS];
    uint64_t sent[AGENTS];
    uint32_t count;
    struct packet packets[PACKETS_MAX];
    uint32_t packet_count;
    int64_t now_ns;
    uint64_t seed;
    struct gossip_action items[GOSSIP_STEP_ACTIONS];
    unsigned char output[GOSSIP_STEP_OUTPUT];
};

static struct village village;

static uint64_t draw(void)
{
    village.seed ^= village.seed << 13;
    village.seed ^= village.seed >> 7;
    village.seed ^= village.seed << 17;
    return village.seed;
}

static struct message_agent name_of(uint32_t index)
{
    struct message_agent name;
    char text[16];
    int length = snprintf(text, sizeof(text), "h%03u", index);
    message_agent_set(&name, text, (size_t)length);
    return name;
}

static void send_packet(uint32_t from, const struct gossip_action *action)
{
    uint32_t to = (uint32_t)strtoul(action->agent.text + 1, NULL, 10);
    unsigned char *bytes = malloc(action->as.send.size);
    village.sent[from]++;
    if (bytes == NULL || village.packet_count == PACKETS_MAX) {
        free(bytes);
        return; /* the packet is lost, which gossip must bear */
    }
    memcpy(bytes, village.output + action->as.send.offset, action->as.send.size);
    village.packets[village.packet_count++] = (struct packet){
        .due_ns = village.now_ns + (int64_t)(1 + draw() % DELAY_MS_MAX) * ms_ns,
        .from = from,
        .to = to,
        .size = action->as.send.size,
        .bytes = bytes};
}

static void step(uint32_t index, struct gossip_event *event)
{
    struct gossip_actions actions = {.items = village.items,
                                     .capacity = GOSSIP_STEP_ACTIONS,
                                     .output = village.output,
                                     .output_size = sizeof(village.output)};
    event->now_ns = village.now_ns;
    event->random = draw();
    gossip_step(village.gossips[index], event, &actions);
    for (uint32_t i = 0; i < actions.count; i++) {
        if (village.items[i].kind == GOSSIP_SEND) {
            send_packet(index, &village.items[i]);
        }
    }
}

static void tell_of_peer(uint32_t index, uint32_t other)
{
    char address[32];
    struct gossip_event event = {.kind = GOSSIP_PEER, .agent = name_of(other)};
    snprintf(address, sizeof(address), "tcp://10.0.0.%u:7411", other);
    event.as.peer.address = address;
    event.as.peer.up = true;
    step(index, &event);
}

static bool start(uint32_t index)
{
    struct gossip_config config = {.limits = {256, ITEMS, ITEMS * 4},
                                   .self = name_of(index),
                                   .voter = index < VOTERS,
                                   .silent_ns = 10000 * ms_ns};
    struct gossip_event event = {.kind = GOSSIP_START, .as.epoch = 1};
    void *memory = calloc(1, gossip_size(&config.limits));
    if (memory == NULL) {
        return false;
    }
    snprintf(config.address, sizeof(config.address), "tcp://10.0.0.%u:7411", index);
    village.gossips[index] = gossip_init(memory, &config, draw());
    step(index, &event);
    for (uint32_t i = 0; i < VOTERS; i++) {
        if (i != index) {
            tell_of_peer(index, i);
        }
        if (i < index) {
            /* the session core reports a peer as soon as the peer renews its session */
            tell_of_peer(i, index);
        }
    }
    return true;
}

static void arrive(struct packet packet)
{
    struct gossip_event event = {.kind = GOSSIP_RECEIVED, .agent = name_of(packet.from)};
    event.as.received.bytes = packet.bytes;
    event.as.received.size = packet.size;
    step(packet.to, &event);
    free(packet.bytes);
}

static void pass(int64_t duration_ns)
{
    int64_t end_ns = village.now_ns + duration_ns;
    while (village.now_ns < end_ns) {
        village.now_ns += STEP_MS * ms_ns;
        for (uint32_t i = 0; i < village.packet_count;) {
            struct packet packet = village.packets[i];
            if (packet.due_ns > village.now_ns) {
                i++;
                continue;
            }
            village.packets[i] = village.packets[--village.packet_count];
            arrive(packet);
        }
        for (uint32_t i = 0; i < village.count; i++) {
            struct gossip_event event = {.kind = GOSSIP_TICK};
            if (gossip_next_tick_ns(village.gossips[i]) <= village.now_ns) {
                step(i, &event);
            }
        }
    }
}

static void change(uint32_t number)
{
    uint32_t index = number % village.count;
    struct gossip_lock lock = {.state = HF_STATE_EXCLUSIVE, .holder_total = 1, .holder_count = 1};
    lock.name.length = (uint8_t)snprintf((char *)lock.name.bytes, sizeof(lock.name.bytes), "job/%u",
                                         number % 10);
    lock.holders[0] = (struct gossip_holder){
        .pid = 100, .token = number + 1, .remaining_ms = -1, .command = "job"};
    (void)!gossip_put_lock(village.gossips[index], &lock, village.now_ns);
}

/* Counts the messages of the last duration_ns, and clears the counts. Returns messages per second:
 * *mean for the mean of all agents, *busiest for the busiest agent. */
static void count_sent(int64_t duration_ns, double *mean, double *busiest)
{
    uint64_t sum = 0;
    uint64_t most = 0;
    for (uint32_t i = 0; i < village.count; i++) {
        sum += village.sent[i];
        most = village.sent[i] > most ? village.sent[i] : most;
        village.sent[i] = 0;
    }
    double seconds = (double)duration_ns / 1e9;
    *mean = (double)sum / village.count / seconds;
    *busiest = (double)most / seconds;
}

/* Fills in rest and busy with two values each: the mean of all agents, and the busiest agent's. */
static int run_village(uint32_t observers, double rest[2], double busy[2])
{
    const int64_t second_ns = 1000 * ms_ns;
    int result = 0;
    memset(&village, 0, sizeof(village));
    village.seed = UINT64_C(88172645463325252) + observers;
    village.now_ns = second_ns;
    village.count = VOTERS + observers;
    for (uint32_t i = 0; i < village.count && result == 0; i++) {
        result = start(i) ? 0 : complain("no memory");
    }
    if (result == 0) {
        pass(15 * second_ns);
        count_sent(second_ns, &rest[0], &rest[1]);
        pass(10 * second_ns);
        count_sent(10 * second_ns, &rest[0], &rest[1]);
        for (uint32_t i = 0; i < 100; i++) {
            change(i);
            pass(50 * ms_ns);
        }
        count_sent(5 * second_ns, &busy[0], &busy[1]);
    }
    for (uint32_t i = 0; i < village.packet_count; i++) {
        free(village.packets[i].bytes);
    }
    for (uint32_t i = 0; i < village.count; i++) {
        free(village.gossips[i]);
    }
    return result;
}

int figure_cell_observers(const struct bench *bench, struct figure *figure)
{
    double rest[2];
    double busy[2];
    double few_rest[2];
    double few_busy[2];
    (void)bench;
    if (run_village(OBSERVERS_FEW, few_rest, few_busy) != 0 ||
        run_village(OBSERVERS, rest, busy) != 0) {
        return -1;
    }
    series_add(&figure_side(figure, "in rest, an agent", "/s", 1)->series, rest[0]);
    series_add(&figure_side(figure, "in rest, the busiest agent", "/s", 1)->series, rest[1]);
    series_add(&figure_side(figure, "20 changes a second, an agent", "/s", 1)->series, busy[0]);
    series_add(&figure_side(figure, "20 changes a second, the busiest", "/s", 1)->series, busy[1]);
    series_add(&figure_side(figure, "with 25 observers: in rest, an agent", "/s", 1)->series,
               few_rest[0]);
    series_add(&figure_side(figure, "  20 changes a second, an agent", "/s", 1)->series,
               few_busy[0]);
    figure_verdict(figure, "in rest, 103 agents / 28 agents", rest[0] / few_rest[0], BOUND_AT_MOST,
                   1.5);
    figure_verdict(figure, "20 changes/s, 103 agents / 28 agents", busy[0] / few_busy[0],
                   BOUND_AT_MOST, 1.5);
    snprintf(
        figure->note, sizeof(figure->note),
        "gossip messages, in virtual time; besides, at a session_ttl of 5 s an agent sends 1.8 "
        "renewals a second, and a voter answers %.0f",
        0.6 * AGENTS);
    return 0;
}
