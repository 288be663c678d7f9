/*
 * The table of agents: which agents are known, which are alive, and to which agents this agent
 * sends.
 */
#include "state.h"

#include <string.h>

#include "proto/check.h"

static uint16_t *head_of(const struct gossip *gossip, const struct message_agent *name)
{
    uint64_t hash = gossip_hash(2, name->text, name->length);
    return &gossip->author_heads[hash & (gossip->author_heads_count - 1)];
}

static bool same_agent(const struct message_agent *a, const struct message_agent *b)
{
    return a->length == b->length && memcmp(a->text, b->text, a->length) == 0;
}

uint16_t author_find(const struct gossip *gossip, const struct message_agent *name)
{
    uint16_t index = *head_of(gossip, name);
    while (index != NOBODY && !same_agent(&gossip->authors[index].name, name)) {
        index = gossip->authors[index].hash_next;
    }
    return index;
}

static void author_free(struct gossip *gossip, uint16_t index)
{
    struct author *author = &gossip->authors[index];
    uint16_t *link = head_of(gossip, &author->name);
    items_of_author_free(gossip, index);
    while (*link != index) {
        link = &gossip->authors[*link].hash_next;
    }
    *link = author->hash_next;
    memset(author, 0, sizeof(*author));
    gossip->greet = gossip->greet == index ? NOBODY : gossip->greet;
    gossip->view_stale = true;
}

/* For a full table: frees the entry of the agent that has been silent for longest. Leaves out the
 * peers. Returns NOBODY if no other agent has been silent for too long. */
static uint16_t author_evict(struct gossip *gossip)
{
    uint16_t oldest = NOBODY;
    for (uint16_t i = SELF + 1; i < gossip->authors_used; i++) {
        const struct author *author = &gossip->authors[i];
        if (!author->peer && author_is_silent(gossip, author, gossip->now_ns) &&
            (oldest == NOBODY || author->seen_ns < gossip->authors[oldest].seen_ns)) {
            oldest = i;
        }
    }
    if (oldest != NOBODY) {
        author_free(gossip, oldest);
    }
    return oldest;
}

static uint16_t author_take(struct gossip *gossip)
{
    if (gossip->authors_used < gossip->config.limits.agents) {
        return (uint16_t)gossip->authors_used++;
    }
    for (uint16_t i = SELF + 1; i < gossip->authors_used; i++) {
        if (gossip->authors[i].name.length == 0) {
            return i;
        }
    }
    return author_evict(gossip);
}

uint16_t author_make(struct gossip *gossip, const struct message_agent *name)
{
    uint16_t index = author_take(gossip);
    if (index == NOBODY) {
        return NOBODY;
    }
    struct author *author = &gossip->authors[index];
    uint16_t *head = head_of(gossip, name);
    author->name = *name;
    author->seen_ns = NEVER_SEEN;
    author->made_ns = gossip->now_ns;
    author->hash_next = *head;
    *head = index;
    return index;
}

void author_begin(struct gossip *gossip, uint64_t generation)
{
    const uint64_t mask = (UINT64_C(1) << GENERATION_SHIFT) - 1;
    gossip->authors[SELF].incarnation = (generation & UINT32_MAX) << GENERATION_SHIFT |
                                        (gossip_random(gossip) & mask) | 1;
}

/* Takes an incarnation above `incarnation`, and publishes all own items anew. `incarnation` is that
 * of another process of this agent, and higher than that of this process. */
static void outbid(struct gossip *gossip, uint64_t incarnation)
{
    uint64_t generation = incarnation >> GENERATION_SHIFT;
    if (generation == UINT32_MAX) {
        return; /* no real agent reaches such a number, so the incarnation is forged */
    }
    author_begin(gossip, generation + 1);
    gossip->authors[SELF].known = 0;
    for (uint32_t i = 0; i < GOSSIP_BUCKETS; i++) {
        for (uint32_t index = gossip->authors[SELF].first[i]; index != 0;
             index = gossip->items[index].bucket_next) {
            item_rumour(gossip, index, GOSSIP_REPEATS);
        }
    }
}

bool author_refresh(struct gossip *gossip, uint16_t index, uint64_t incarnation,
                    uint64_t heartbeat_ms, int64_t then_ns)
{
    struct author *author = &gossip->authors[index];
    if (index == SELF) {
        if (incarnation > author->incarnation) {
            outbid(gossip, incarnation);
        }
        return incarnation == author->incarnation;
    }
    if (incarnation < author->incarnation) {
        return false;
    }
    if (incarnation > author->incarnation) {
        items_of_author_free(gossip, index);
        author->known = 0;
        author->incarnation = incarnation;
        author->heartbeat_ms = heartbeat_ms;
        author->seen_ns = then_ns;
        author->owned_counts = false;
    } else if (heartbeat_ms > author->heartbeat_ms || author->seen_ns == NEVER_SEEN) {
        author->heartbeat_ms = heartbeat_ms;
        author->seen_ns = then_ns > author->seen_ns ? then_ns : author->seen_ns;
    }
    return true;
}

void author_known_by(struct gossip *gossip, uint16_t index, uint16_t by)
{
    for (uint32_t i = 0; i < gossip->view_count; i++) {
        if (gossip->view[i] == by) {
            gossip->authors[index].known |= (uint16_t)(1u << i);
        }
    }
}

bool author_is_known(const struct gossip *gossip, const struct author *author)
{
    return author->known == (1u << gossip->view_count) - 1;
}

/* Reports the author's locks as changed. */
static void author_changed(struct gossip *gossip, uint16_t index)
{
    for (uint32_t i = 0; i < GOSSIP_BUCKETS; i++) {
        for (uint32_t item = gossip->authors[index].first[i]; item != 0;
             item = gossip->items[item].bucket_next) {
            if (gossip->items[item].topic != 0) {
                topic_changed(gossip, gossip->items[item].topic);
            }
        }
    }
}

void author_expired(struct gossip *gossip, const struct gossip_expired *expired)
{
    uint16_t index = author_find(gossip, &expired->agent);
    index = index == NOBODY ? author_make(gossip, &expired->agent) : index;
    if (index != NOBODY && gossip->authors[index].ended_epoch < expired->epoch) {
        gossip->authors[index].ended_epoch = expired->epoch;
        author_changed(gossip, index);
    }
}

void author_set_address(struct gossip *gossip, uint16_t index, const char *address)
{
    struct author *author = &gossip->authors[index];
    const char *end = memchr(address, '\0', MESSAGE_ADDRESS_MAX);
    size_t size = end ? (size_t)(end - address) : MESSAGE_ADDRESS_MAX - 1;
    if (memcmp(author->address, address, size) == 0 && author->address[size] == '\0') {
        return;
    }
    memset(author->address, 0, sizeof(author->address));
    memcpy(author->address, address, size);
    author->notified = false;
    gossip->view_stale = true;
}

bool author_is_silent(const struct gossip *gossip, const struct author *author, int64_t now_ns)
{
    int64_t last_ns = author->seen_ns > author->made_ns ? author->seen_ns : author->made_ns;
    return now_ns - last_ns > gossip->config.silent_ns;
}

bool author_is_valid(const struct gossip *gossip, const struct author *author)
{
    return author == &gossip->authors[SELF] ||
           (!author->silent && (author->ended_epoch == 0 || author->epoch > author->ended_epoch));
}

void authors_expire(struct gossip *gossip)
{
    for (uint16_t i = SELF + 1; i < gossip->authors_used; i++) {
        struct author *author = &gossip->authors[i];
        if (author->name.length == 0) {
            continue;
        }
        bool silent = author_is_silent(gossip, author, gossip->now_ns);
        if (silent != author->silent) {
            bool was_valid = author_is_valid(gossip, author);
            author->silent = silent;
            gossip->view_stale = true;
            if (was_valid != author_is_valid(gossip, author)) {
                author_changed(gossip, i);
            }
        }
        int64_t last_ns = author->seen_ns > author->made_ns ? author->seen_ns : author->made_ns;
        if (silent && gossip_age_ms(gossip->now_ns, last_ns) > GOSSIP_FORGET_MS) {
            if (author->peer && !author->down) {
                items_of_author_free(gossip, i);
            } else {
                author_free(gossip, i);
            }
        }
    }
}

/* ---- the agents to send to ---- */

struct candidate {
    bool silent;
    uint64_t rank;
    uint16_t index;
};

static bool better(const struct candidate *a, const struct candidate *b)
{
    return a->silent != b->silent ? b->silent : a->rank > b->rank;
}

bool author_reach(struct gossip *gossip, uint16_t index, struct gossip_actions *actions)
{
    struct author *author = &gossip->authors[index];
    if (author->notified || author->address[0] == '\0') {
        return author->notified || author->peer;
    }
    HF_CHECK(actions->count < actions->capacity);
    struct gossip_action *action = &actions->items[actions->count++];
    action->kind = GOSSIP_ADDRESS;
    action->agent = author->name;
    memcpy(action->as.address, author->address, sizeof(action->as.address));
    author->notified = true;
    return true;
}

void view_refresh(struct gossip *gossip, struct gossip_actions *actions)
{
    struct candidate best[GOSSIP_VIEW];
    uint32_t count = 0;
    if (!gossip->view_stale) {
        return;
    }
    gossip->view_stale = false;
    const struct message_agent *self = &gossip->config.self;
    uint64_t seed = gossip_hash(3, self->text, self->length);
    for (uint16_t i = SELF + 1; i < gossip->authors_used; i++) {
        const struct author *author = &gossip->authors[i];
        if (author->name.length == 0 || author->down ||
            (!author->peer && author->address[0] == '\0')) {
            continue;
        }
        struct candidate candidate = {author_is_silent(gossip, author, gossip->now_ns),
                                      gossip_hash(seed, author->name.text, author->name.length), i};
        uint32_t at = count < GOSSIP_VIEW ? count++ : GOSSIP_VIEW;
        for (; at > 0 && better(&candidate, &best[at - 1]); at--) {
            if (at < GOSSIP_VIEW) {
                best[at] = best[at - 1];
            }
        }
        if (at < GOSSIP_VIEW) {
            best[at] = candidate;
        }
    }
    for (uint32_t i = 0; i < gossip->authors_used; i++) {
        gossip->authors[i].known = 0; /* each bit of `known` was about an agent of the old view */
    }
    gossip->view_count = count;
    for (uint32_t i = 0; i < count; i++) {
        gossip->view[i] = best[i].index;
        (void)author_reach(gossip, best[i].index, actions);
    }
}
