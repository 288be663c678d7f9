/*
 * The gossip core: its memory, its events and ticks, and the items that this agent publishes.
 */
#include "state.h"

#include <string.h>

#include "core/base/arena.h"
#include "holdfast/holdfast.h"
#include "proto/check.h"

enum { AUTHORS_MAX = 65000 };

/* Returns how many topics there may be. A topic exists while it has an item, or while its last
 * change is still to be reported. */
static uint32_t topics_max(const struct gossip_limits *limits)
{
    return limits->items + limits->items / 4 + 64;
}

static uint32_t heads_count(const struct gossip_limits *limits)
{
    uint32_t count = 16;
    while (count < limits->agents) {
        count *= 2;
    }
    return count;
}

static struct gossip *lay_out(struct arena *arena, const struct gossip_limits *limits)
{
    struct gossip *gossip = arena_take(arena, 1, sizeof(*gossip));
    uint32_t topics = topics_max(limits);
    ARENA_TAKE(arena, gossip, authors, limits->agents);
    ARENA_TAKE(arena, gossip, author_heads, heads_count(limits));
    ARENA_TAKE(arena, gossip, items, (size_t)limits->items + 1);
    ARENA_TAKE(arena, gossip, chunks, (size_t)limits->chunks + 1);
    ARENA_TAKE(arena, gossip, topics, (size_t)topics + 1);
    ARENA_TAKE(arena, gossip, order.nodes, (size_t)topics + 1);
    struct names *names = arena_take(arena, 1, names_size(topics));
    if (gossip != NULL) {
        gossip->names = names;
    }
    return gossip;
}

size_t gossip_size(const struct gossip_limits *limits)
{
    struct arena arena = {0};
    (void)lay_out(&arena, limits);
    return arena.used + ARENA_ALIGNMENT;
}

struct gossip *gossip_init(void *memory, const struct gossip_config *config, uint64_t seed)
{
    struct arena arena = {.base = memory};
    HF_CHECK(config->limits.agents >= 2 && config->limits.agents <= AUTHORS_MAX);
    HF_CHECK(config->limits.items >= 16 && config->limits.chunks >= 256);
    struct gossip *gossip = lay_out(&arena, &config->limits);
    gossip->config = *config;
    gossip->random = seed;
    gossip->names = names_init(gossip->names, topics_max(&config->limits), gossip_random(gossip));
    gossip->order.seed = gossip_random(gossip);
    gossip->order.name = topic_name;
    gossip->order.arg = gossip;
    gossip->author_heads_count = heads_count(&config->limits);
    memset(gossip->author_heads, 0xff, gossip->author_heads_count * sizeof(uint16_t));
    gossip->items_used = 1;
    gossip->chunks_used = 1;
    gossip->topics_used = 1;
    gossip->chunks_left = config->limits.chunks;
    gossip->greet = NOBODY;
    uint16_t self = author_make(gossip, &config->self);
    HF_CHECK(self == SELF);
    return gossip;
}

/* ---- what this agent publishes ---- */

/* Publishes an own item. Does nothing if the item has not changed. Returns false if there is no
 * room. */
static bool put_own(struct gossip *gossip, const struct gossip_item *item, uint64_t content)
{
    uint8_t body[GOSSIP_BODY_MAX];
    uint32_t index = item_find(gossip, SELF, item);
    if (index != 0 ? gossip->items[index].content == content : item_is_tombstone(item)) {
        return true;
    }
    size_t size = gossip_body_encode(item, body, sizeof(body));
    if (size == 0) {
        return true; /* not a valid item, for example a name from a damaged store */
    }
    struct gossip_stamp stamp = {.author = gossip->config.self,
                                 .incarnation = gossip->authors[SELF].incarnation,
                                 .number = gossip->number + 1};
    if (!item_put(gossip, SELF, index, item, &stamp, body, size)) {
        return false;
    }
    gossip->number++;
    gossip->items[item_find(gossip, SELF, item)].content = content;
    return true;
}

static uint64_t content_of(const struct gossip_item *item)
{
    uint8_t body[GOSSIP_BODY_MAX];
    return gossip_hash(1, body, gossip_body_encode(item, body, sizeof(body)));
}

static void put_self(struct gossip *gossip)
{
    const struct author *self = &gossip->authors[SELF];
    struct gossip_item item = {.kind = GOSSIP_AGENT};
    item.as.agent.voter = gossip->config.voter;
    item.as.agent.epoch = self->epoch;
    item.as.agent.state = self->state;
    memcpy(item.as.agent.address, gossip->config.address, MESSAGE_ADDRESS_MAX);
    (void)put_own(gossip, &item, content_of(&item)); /* the first item of all: there is room */
}

bool gossip_put_lock(struct gossip *gossip, const struct gossip_lock *lock, int64_t now_ns)
{
    struct gossip_item item = {.kind = GOSSIP_LOCK};
    HF_CHECK(gossip->started);
    gossip->now_ns = now_ns > gossip->now_ns ? now_ns : gossip->now_ns;
    item.as.lock = *lock;
    struct gossip_lock *aged = &item.as.lock;
    aged->closed_ms = aged->closed_ms > 0;
    for (uint32_t i = 0; i < aged->holder_count; i++) {
        aged->holders[i].held_ms = 0;
        aged->holders[i].remaining_ms = aged->holders[i].remaining_ms < 0 ? -1 : 0;
    }
    for (uint32_t i = 0; i < aged->waiter_count; i++) {
        aged->waiters[i].waited_ms = 0;
    }
    aged->last.ended_ms = aged->last.ended_ms < 0 ? -1 : 0;
    uint64_t content = content_of(&item);
    item.as.lock = *lock;
    return put_own(gossip, &item, content);
}

void gossip_put_owned(struct gossip *gossip, const struct message_partitions *owned, int64_t now_ns)
{
    struct gossip_item item = {.kind = GOSSIP_OWNED, .as.owned = *owned};
    struct author *self = &gossip->authors[SELF];
    HF_CHECK(gossip->started);
    gossip->now_ns = now_ns > gossip->now_ns ? now_ns : gossip->now_ns;
    if (self->owned_counts && memcmp(&self->owned, owned, sizeof(*owned)) == 0) {
        return;
    }
    self->owned = *owned;
    self->owned_ns = now_ns;
    self->owned_counts = true;
    (void)put_own(gossip, &item, content_of(&item));
}

void gossip_set_voter(struct gossip *gossip, bool voter, int64_t now_ns)
{
    static const struct message_partitions none;
    HF_CHECK(gossip->started);
    if (voter == gossip->config.voter) {
        return;
    }
    gossip->now_ns = now_ns > gossip->now_ns ? now_ns : gossip->now_ns;
    gossip->config.voter = voter;
    put_self(gossip);
    if (!voter && gossip->authors[SELF].owned_counts) {
        gossip_put_owned(gossip, &none, now_ns);
    }
}

/* ---- events ---- */

static void start(struct gossip *gossip, uint32_t epoch)
{
    struct author *self = &gossip->authors[SELF];
    HF_CHECK(!gossip->started);
    gossip->started = true;
    gossip->start_ns = gossip->now_ns;
    gossip->round_due_ns = gossip->now_ns;
    gossip->exchange_due_ns = gossip->now_ns;
    author_begin(gossip, epoch);
    self->epoch = epoch;
    self->state = GOSSIP_JEOPARDY;
    put_self(gossip);
}

static void session_changed(struct gossip *gossip, const struct gossip_event *event)
{
    struct author *self = &gossip->authors[SELF];
    uint32_t epoch = event->as.session.epoch;
    uint16_t index = author_find(gossip, &event->agent);
    if (index == SELF) {
        if (epoch >= self->epoch) { /* otherwise a voter marked an older session of this agent */
            self->epoch = epoch;
            self->state = event->as.session.state;
            put_self(gossip);
        }
        return;
    }
    struct gossip_item item = {.kind = GOSSIP_EXPIRED, .as.expired = {event->agent, epoch}};
    if (event->as.session.state != GOSSIP_LOST || epoch == 0 ||
        (index != NOBODY && gossip->authors[index].ended_epoch >= epoch)) {
        return;
    }
    /* if there is no room, people on other hosts see the end of the session later, when the agent
     * has been silent for too long */
    (void)put_own(gossip, &item, content_of(&item));
    author_expired(gossip, &item.as.expired);
}

static void peer_changed(struct gossip *gossip, const struct gossip_event *event)
{
    uint16_t index = author_find(gossip, &event->agent);
    index = index == NOBODY ? author_make(gossip, &event->agent) : index;
    if (index == SELF || index == NOBODY) {
        return;
    }
    struct author *author = &gossip->authors[index];
    bool came = event->as.peer.up && (!author->peer || author->down);
    gossip->view_stale |= !author->peer || author->down == event->as.peer.up;
    author->peer = true;
    author->down = !event->as.peer.up;
    if (event->as.peer.address != NULL) {
        author_set_address(gossip, index, event->as.peer.address);
        author->notified = true; /* the driver itself gave this address */
    }
    if (came) {
        gossip->greet = index;
        gossip->exchange_due_ns = gossip->now_ns;
    }
}

static void unreachable(struct gossip *gossip, const struct gossip_event *event)
{
    uint16_t index = author_find(gossip, &event->agent);
    if (index != SELF && index != NOBODY) {
        gossip->authors[index].peer = false;
        gossip->authors[index].down = false;
        gossip->authors[index].notified = false;
        gossip->view_stale = true;
    }
}

static void tick(struct gossip *gossip, struct gossip_actions *actions)
{
    if (gossip->exchange_due_ns <= gossip->now_ns) {
        /* The pause varies by up to a tenth, so that agents that started together do not stay in
         * step. */
        int64_t jitter_ms = (int64_t)(gossip_random(gossip) % (GOSSIP_EXCHANGE_MS / 5 + 1)) -
                            GOSSIP_EXCHANGE_MS / 10;
        gossip->exchange_due_ns = gossip->now_ns + (GOSSIP_EXCHANGE_MS + jitter_ms) * MS_NS;
        gossip->reasks = REASKS_MAX;
        authors_expire(gossip);
        tombstones_expire(gossip);
        view_refresh(gossip, actions);
        spread_digests(gossip, actions);
    }
    if (gossip->round_due_ns <= gossip->now_ns) {
        spread_rumours(gossip, actions);
    }
}

void gossip_step(struct gossip *gossip, const struct gossip_event *event,
                 struct gossip_actions *actions)
{
    HF_CHECK(actions->count + GOSSIP_STEP_ACTIONS <= actions->capacity);
    HF_CHECK(actions->output_used + GOSSIP_STEP_OUTPUT <= actions->output_size);
    HF_CHECK(event->now_ns >= gossip->now_ns && gossip->started == (event->kind != GOSSIP_START));
    gossip->now_ns = event->now_ns;
    gossip->random ^= event->random;
    switch (event->kind) {
    case GOSSIP_START:
        start(gossip, event->as.epoch);
        break;
    case GOSSIP_TICK:
        tick(gossip, actions);
        break;
    case GOSSIP_RECEIVED:
        spread_received(gossip, event, actions);
        break;
    case GOSSIP_PEER:
        peer_changed(gossip, event);
        break;
    case GOSSIP_UNREACHABLE:
        unreachable(gossip, event);
        break;
    case GOSSIP_SESSION:
        session_changed(gossip, event);
        break;
    }
    view_refresh(gossip, actions);
}

bool gossip_active(const struct gossip *gossip)
{
    return gossip->view_count > 0;
}

static bool has_rumours(const struct gossip *gossip)
{
    for (uint32_t i = 1; i <= GOSSIP_REPEATS; i++) {
        if (gossip->rumours[i].first != 0) {
            return true;
        }
    }
    return false;
}

int64_t gossip_next_tick_ns(const struct gossip *gossip)
{
    if (!gossip->started || gossip->view_count == 0) {
        return INT64_MAX;
    }
    return gossip->round_due_ns < gossip->exchange_due_ns && has_rumours(gossip)
               ? gossip->round_due_ns
               : gossip->exchange_due_ns;
}
