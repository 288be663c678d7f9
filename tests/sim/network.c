/*
 * The network between agents. It is at least as faulty as TCP streams: packets are lost, repeated,
 * late or out of order. A direction of a link may carry nothing for a while, and what is sent in
 * that time is lost, or arrives when the cut is over. Connections break.
 *
 * proto/ encodes and decodes each message, as in agent/peers/peers.c. The decoded message must
 * equal the sent one in every field. A packet has one message, or one part of gossip.
 *
 * Each agent dials each agent that it sends to. The dialling agent is notified when the connection
 * is up, and when the connection has broken. The end of an agent's process breaks its connections
 * at once. Peers notice the end of a whole host when the host is back. During a cut an agent
 * notices nothing, except sometimes by a time-out.
 */
#include <stdlib.h>
#include <string.h>

#include "proto/check.h"
#include "proto/gossip.h"
#include "proto/wire.h"
#include "sim.h"

enum { DIAL_MS = 50, BUFFER_SIZE = 64 * 1024 };

struct net_link {
    bool dialed;
    bool up;
    int64_t next_ns;      /* if the link is not up: the time at which the agent dials again */
    int64_t breaks_ns;    /* if the link is up: when a time-out breaks the link; 0: no time-out
                           * does */
    int64_t cut_until_ns; /* the time until which nothing gets through in this direction; 0: the
                           * direction is not cut */
    bool held;            /* messages that are sent during the cut arrive after it; otherwise
                           * they are lost */
    int64_t last_due_ns;  /* the arrival time of the last message that was sent in order */
};

static struct net_link links[AGENTS][AGENTS];
static struct net_packet *inbox[AGENTS]; /* each agent's packets, in the order of arrival */
static int64_t next_work_ns;
static unsigned char buffer[BUFFER_SIZE]; /* the packet that is being encoded */

static void net_free_of(uint32_t agent)
{
    while (inbox[agent] != NULL) {
        struct net_packet *packet = inbox[agent];
        inbox[agent] = packet->next;
        free(packet);
    }
}

void net_free(void)
{
    for (uint32_t i = 0; i < AGENTS; i++) {
        net_free_of(i);
    }
}

void net_reset(void)
{
    net_free();
    memset(links, 0, sizeof(links));
    next_work_ns = INT64_MAX;
}

static void work_at(int64_t at_ns)
{
    next_work_ns = at_ns < next_work_ns ? at_ns : next_work_ns;
}

static bool is_cut(uint32_t from, uint32_t to)
{
    return links[from][to].cut_until_ns > sim_now();
}

static void put(uint32_t to, struct net_packet *packet)
{
    struct net_packet **at = &inbox[to];
    while (*at != NULL && (*at)->due_ns <= packet->due_ns) {
        at = &(*at)->next;
    }
    packet->next = *at;
    *at = packet;
    fiber_wake_by(&world.agents[to].fiber, packet->due_ns);
}

static struct net_packet *packet_new(enum net_kind kind, uint32_t from, int64_t due_ns, size_t size)
{
    struct net_packet *packet = malloc(sizeof(struct net_packet) + size);
    HF_CHECK(packet != NULL);
    packet->kind = kind;
    packet->from = from;
    packet->due_ns = due_ns;
    packet->up = false;
    packet->size = size;
    return packet;
}

/* Notifies the agent `to` that its connection to a peer is up, or has broken. */
static void tell_link(uint32_t to, uint32_t peer, bool up, int64_t at_ns)
{
    struct net_packet *packet = packet_new(NET_LINK, peer, at_ns, 0);
    packet->up = up;
    put(to, packet);
}

static int64_t draw_ns(int64_t limit_ns)
{
    return (int64_t)(sim_random() % (uint64_t)limit_ns);
}

/* ---- sending ---- */

static void send_bytes(enum net_kind kind, uint32_t from, uint32_t to, const void *bytes,
                       size_t size)
{
    const struct faults *faults = &world.faults;
    struct net_link *link = &links[from][to];
    net_dial(from, to);
    world.messages++;
    if (!link->up || !world.agents[to].up || sim_chance(faults->loss) ||
        (is_cut(from, to) && !link->held)) {
        return;
    }
    uint32_t copies = sim_chance(faults->repeat) ? 2 : 1;
    for (uint32_t i = 0; i < copies; i++) {
        int64_t after_ns = faults->delay_ns_max / 4 + draw_ns(faults->delay_ns_max);
        if (sim_chance(faults->late)) {
            after_ns += draw_ns(400 * SIM_MS);
        }
        int64_t due_ns = (is_cut(from, to) ? link->cut_until_ns : sim_now()) + after_ns;
        if (!faults->reorder || sim_draw(4) != 0) {
            due_ns = due_ns > link->last_due_ns ? due_ns : link->last_due_ns;
            link->last_due_ns = due_ns;
        }
        struct net_packet *packet = packet_new(kind, from, due_ns, size);
        memcpy(packet->bytes, bytes, size);
        put(to, packet);
    }
}

static struct message_agent cell_name(void)
{
    struct message_agent cell;
    message_agent_set(&cell, "sim", 3);
    return cell;
}

/* Returns the version of messages that two agents use: the older of their two newest versions. An
 * agent that was never started receives nothing, so its version does not matter. */
static uint32_t version_between(uint32_t from, uint32_t to)
{
    uint32_t a = world.agents[from].version;
    uint32_t b = world.agents[to].version;
    uint32_t older = a < b ? a : b;
    return older != 0 ? older : (uint32_t)WIRE_VERSION_OLDEST;
}

/* Clears the fields that do not exist in `version` of the messages. */
static void forget_newer(struct message *message, uint32_t version)
{
    if (version < 5) {
        message->number = 0;
        message->digest = 0;
        if (message->kind == MESSAGE_RENEW) {
            message->as.renew.durations = 0;
        } else if (message->kind == MESSAGE_ACQUIRE) {
            message->as.acquire.made = (struct message_order){0};
        } else if (message->kind == MESSAGE_HEARTBEAT) {
            memset(&message->as.heartbeat.settled, 0, sizeof(message->as.heartbeat.settled));
            message->as.heartbeat.leaves = 0;
        } else if ((message->kind == MESSAGE_HELLO || message->kind == MESSAGE_HELLO_ACK) &&
                   message->as.hello.status >= MESSAGE_STATUS_RETIRED) {
            message->as.hello.status = MESSAGE_STATUS_OBSERVER;
        }
    }
    if (version < 4 && message->kind == MESSAGE_RENEW) {
        memset(message->as.renew.release, 0, sizeof(message->as.renew.release));
    } else if (version < 4 && message->kind == MESSAGE_RENEW_ACK) {
        memset(message->as.renew_ack.release, 0, sizeof(message->as.renew_ack.release));
    } else if (version < 4 && message->kind == MESSAGE_AMEND) {
        message->as.amend.token_used = 0;
        message->as.amend.in_use = false;
    } else if (version < 4 && message->kind == MESSAGE_ACQUIRE) {
        message->as.acquire.tries = MESSAGE_TRIES_NONE;
    } else if (version < 4 && message->kind == MESSAGE_RECALL) {
        message->as.version.recall = MESSAGE_RECALL_WAITS;
    } else if (version < 4 &&
               (message->kind == MESSAGE_BREAK || message->kind == MESSAGE_BREAK_HOLD)) {
        struct message_break *breaking = &message->as.break_lock;
        breaking->user = 0;
        breaking->counts = false;
        breaking->meant = (struct message_order){0, 0};
    } else if (version < 4 && message->kind == MESSAGE_REFUSED) {
        message->as.refused.closed_ms = 0;
    } else if (version < 4 && message->kind == MESSAGE_BROKEN) {
        /* a struct message_outcome cannot be copied here: its padding has the newer fields */
        size_t newer = offsetof(struct message_broken, part);
        memset((char *)&message->as.broken + newer, 0, sizeof(struct message_broken) - newer);
    }
}

/* Writes the packet's header. The header names the agent that sends the packet, even if that agent
 * only passes on another agent's message. */
static void begin_packet(struct wire_writer *writer, uint32_t from, uint32_t to,
                         const struct message *message)
{
    const struct sim_agent *agent = &world.agents[from];
    struct wire_header header = {.cell = cell_name(),
                                 .from = agent->name,
                                 .membership = message->membership,
                                 .store_id = {agent->disk.store_id[0], agent->disk.store_id[1]},
                                 .commit = message->commit,
                                 .number = message->number,
                                 .digest = message->digest};
    wire_begin(writer, buffer, sizeof(buffer), &header, version_between(from, to));
}

/* Decodes the packet in the buffer: a message, or gossip. The gossip stays in the buffer. */
static enum wire_item_kind read_packet(size_t packet_size, struct message *message,
                                       const unsigned char **gossip, size_t *size)
{
    const struct message_agent cell = cell_name();
    enum wire_item_kind kind = WIRE_MESSAGE;
    struct wire_reader reader;
    if (wire_open(&reader, buffer, packet_size, &cell) != WIRE_OK || reader.left != 1 ||
        !wire_next(&reader, &kind, message, gossip, size)) {
        sim_fail("a packet cannot be read: %s, field %s",
                 reader.bad_kind != NULL ? reader.bad_kind : "its header",
                 reader.bad_field != NULL ? reader.bad_field : "unknown");
    }
    return kind;
}

/* Returns whether the message arrives as it was sent, apart from fields that the version does not
 * have. */
static bool same_message(const struct message *arrives, const struct message *sent,
                         uint32_t version)
{
    static struct message known;
    message_copy(&known, sent);
    forget_newer(&known, version);
    return message_size(arrives) == message_size(&known) &&
           memcmp(arrives, &known, message_size(&known)) == 0;
}

void net_send(uint32_t from, uint32_t to, const struct message *message)
{
    static struct message arrives;
    struct wire_writer writer;
    const unsigned char *gossip = NULL;
    size_t size = 0;
    if (!wire_has_kind(version_between(from, to), message->kind)) {
        return;
    }
    begin_packet(&writer, from, to, message);
    HF_CHECK(wire_add(&writer, message));
    if (read_packet(wire_end(&writer), &arrives, &gossip, &size) != WIRE_MESSAGE ||
        !same_message(&arrives, message, version_between(from, to))) {
        sim_fail("message %s of host %u arrives as something else", wire_kind_text(message->kind),
                 from);
    }
    send_bytes(NET_MESSAGE, from, to, &arrives, message_size(&arrives));
}

void net_send_gossip(uint32_t from, uint32_t to, const void *bytes, size_t size)
{
    static struct message ignored;
    struct message none;
    struct wire_writer writer;
    const unsigned char *arrives = NULL;
    size_t arrives_size = 0;
    static unsigned char narrow[GOSSIP_PACKET_MAX];
    message_zero(&none);
    begin_packet(&writer, from, to, &none);
    HF_CHECK(wire_add_gossip(&writer, bytes, size));
    if (version_between(from, to) < WIRE_VERSION_GROWN) {
        size = gossip_narrow(bytes, size, narrow);
        bytes = narrow;
    }
    if (read_packet(wire_end(&writer), &ignored, &arrives, &arrives_size) != WIRE_GOSSIP ||
        arrives_size != size || memcmp(arrives, bytes, size) != 0) {
        sim_fail("gossip of host %u arrives as something else", from);
    }
    send_bytes(NET_GOSSIP, from, to, arrives, arrives_size);
}

struct net_packet *net_take(uint32_t agent)
{
    struct net_packet *packet = inbox[agent];
    if (packet == NULL || packet->due_ns > sim_now()) {
        return NULL;
    }
    inbox[agent] = packet->next;
    return packet;
}

int64_t net_due_ns(uint32_t agent)
{
    return inbox[agent] == NULL ? INT64_MAX : inbox[agent]->due_ns;
}

/* ---- connections ---- */

void net_dial(uint32_t from, uint32_t to)
{
    struct net_link *link = &links[from][to];
    if (!link->dialed) {
        link->dialed = true;
        link->up = false;
        link->next_ns = sim_now() + draw_ns(SIM_MS);
        work_at(link->next_ns);
    }
}

static void break_link(uint32_t from, uint32_t to, int64_t told_ns)
{
    struct net_link *link = &links[from][to];
    link->up = false;
    link->breaks_ns = 0;
    link->last_due_ns = 0;
    link->next_ns = told_ns + draw_ns(DIAL_MS * SIM_MS);
    work_at(link->next_ns);
    tell_link(from, to, false, told_ns);
}

void net_gone(uint32_t agent, bool quiet)
{
    net_free_of(agent);
    for (uint32_t i = 0; i < world.agent_count; i++) {
        links[agent][i].dialed = false; /* the agent's next process dials again */
        links[agent][i].up = false;
        links[agent][i].breaks_ns = 0;
        if (!links[i][agent].up || !world.agents[i].up) {
            continue;
        }
        int64_t told_ns = sim_now() + draw_ns(3 * SIM_MS);
        if (quiet && world.agents[agent].starts_ns > told_ns) {
            told_ns = world.agents[agent].starts_ns;
        }
        if (is_cut(agent, i) && links[agent][i].cut_until_ns > told_ns) {
            told_ns = links[agent][i].cut_until_ns;
        }
        break_link(i, agent, told_ns);
    }
}

static void work_link(uint32_t from, uint32_t to)
{
    struct net_link *link = &links[from][to];
    if (!link->dialed || !world.agents[from].up) {
        return;
    }
    if (link->up && link->breaks_ns != 0) {
        if (link->breaks_ns <= sim_now()) {
            break_link(from, to, sim_now());
        } else {
            work_at(link->breaks_ns);
        }
    } else if (!link->up && link->next_ns <= sim_now()) {
        if (world.agents[to].up && !is_cut(from, to) && !is_cut(to, from)) {
            link->up = true;
            tell_link(from, to, true, sim_now() + draw_ns(SIM_MS));
        } else {
            link->next_ns = sim_now() + (1 + sim_draw(10)) * DIAL_MS * SIM_MS;
            work_at(link->next_ns);
        }
    } else if (!link->up) {
        work_at(link->next_ns);
    }
}

int64_t net_work(void)
{
    if (next_work_ns > sim_now()) {
        return next_work_ns;
    }
    next_work_ns = INT64_MAX;
    for (uint32_t from = 0; from < world.agent_count; from++) {
        for (uint32_t to = 0; to < world.agent_count; to++) {
            work_link(from, to);
        }
    }
    return next_work_ns;
}

/* ---- faults ---- */

static void cut_one(uint32_t from, uint32_t to, int64_t for_ns, bool held)
{
    struct net_link *link = &links[from][to];
    link->cut_until_ns = sim_now() + for_ns;
    link->held = held;
    if (link->up && sim_draw(3) == 0) { /* as if keep-alive found the cut, or a reset got through */
        link->breaks_ns = sim_now() + draw_ns(for_ns);
        work_at(link->breaks_ns);
    }
}

/* Returns whether the agents a and b are on different sides. `side` has the bits of the agents on
 * one side. */
static bool apart(uint64_t side, uint32_t a, uint32_t b)
{
    return ((side >> a ^ side >> b) & 1) != 0;
}

void net_cut(void)
{
    if (world.agent_count < 2) {
        return;
    }
    enum { BOTH_WAYS = 0, INTO, OUT_OF, WAYS };
    uint32_t way = sim_draw(WAYS);
    bool held = sim_draw(2) == 0;
    int64_t for_ns = 1 + draw_ns(world.faults.cut_ns_max);
    uint64_t side = UINT64_C(1) << sim_draw(world.agent_count); /* cuts one agent off */
    uint32_t only = AGENTS; /* only this agent's links are cut; AGENTS: no such limit */
    if (sim_draw(3) == 0) {
        side = sim_random(); /* splits the cell into two random parts */
    } else if (sim_draw(2) == 0) {
        only = sim_draw(world.agent_count); /* cuts the agent of `side` off from one random agent
                                             * only */
    }
    for (uint32_t a = 0; a < world.agent_count; a++) {
        for (uint32_t b = 0; b < world.agent_count; b++) {
            bool hit = apart(side, a, b) && (only == AGENTS || a == only || b == only);
            bool out = (side >> a & 1) != 0; /* this direction goes from the agents of `side` to the
                                              * others */
            if (hit && (way == BOTH_WAYS || (way == OUT_OF) == out)) {
                cut_one(a, b, for_ns, held);
            }
        }
    }
    sim_tell("cut for %lld us: side %llx, only %u, way %u%s", (long long)for_ns / 1000,
             (unsigned long long)side, only, way, held ? ", held back" : "");
}

void net_break(void)
{
    uint32_t from = sim_draw(world.agent_count);
    uint32_t to = sim_draw(world.agent_count);
    if (!links[from][to].up) {
        return;
    }
    sim_tell("the connection from %u to %u breaks", from, to);
    struct net_packet **at = &inbox[to];
    while (*at != NULL) {
        struct net_packet *packet = *at;
        if (packet->from == from && packet->kind != NET_LINK) {
            *at = packet->next;
            free(packet);
        } else {
            at = &packet->next;
        }
    }
    break_link(from, to, sim_now());
}

void net_heal(void)
{
    for (uint32_t a = 0; a < world.agent_count; a++) {
        for (uint32_t b = 0; b < world.agent_count; b++) {
            links[a][b].cut_until_ns = 0;
            links[a][b].breaks_ns = 0;
        }
    }
}
