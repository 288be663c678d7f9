/*
 * Answers to people about the cell, from gossip; and, for tests, a check of gossip's state.
 */
#include "state.h"

#include <string.h>

#include "proto/check.h"

bool gossip_owner(const struct gossip *gossip, uint32_t partition, struct message_agent *out)
{
    const struct author *best = NULL;
    for (uint32_t i = 0; i < gossip->authors_used; i++) {
        const struct author *author = &gossip->authors[i];
        if (author->name.length > 0 && author->owned_counts && (i == SELF || !author->silent) &&
            message_partition_has(&author->owned, partition) &&
            (best == NULL || author->owned_ns > best->owned_ns)) {
            best = author;
        }
    }
    if (best != NULL) {
        *out = best->name;
    }
    return best != NULL;
}

bool gossip_lock_after(const struct gossip *gossip, const void *prefix, size_t prefix_size,
                       const void *after, size_t after_size, struct message_name *out)
{
    size_t size = 0;
    bool begins = after_size == 0 || order_compare(after, after_size, prefix, prefix_size) < 0;
    uint32_t entry = begins ? order_from(&gossip->order, prefix, prefix_size)
                            : order_after(&gossip->order, after, after_size);
    const uint8_t *name = entry != 0 ? topic_name(gossip, entry, &size) : NULL;
    if (name == NULL || size < prefix_size ||
        (prefix_size > 0 && memcmp(name, prefix, prefix_size) != 0)) {
        return false;
    }
    memset(out, 0, sizeof(*out));
    out->length = (uint8_t)size;
    memcpy(out->bytes, name, size);
    return true;
}

/* Corrects the times in a lock's item, which were true age_ms ago. Adds age_ms to the times since
 * something began or ended, and subtracts it from the times that remain. */
static void lock_age(struct gossip_lock *lock, int64_t age_ms)
{
    lock->closed_ms -= lock->closed_ms > age_ms ? age_ms : lock->closed_ms;
    for (uint32_t i = 0; i < lock->holder_count; i++) {
        struct gossip_holder *holder = &lock->holders[i];
        holder->held_ms += holder->held_ms >= 0 && holder->held_ms < INT64_MAX / 2 ? age_ms : 0;
        if (holder->remaining_ms >= 0) {
            holder->remaining_ms = holder->remaining_ms > age_ms ? holder->remaining_ms - age_ms
                                                                 : 0;
        }
    }
    for (uint32_t i = 0; i < lock->waiter_count; i++) {
        struct gossip_waiter *waiter = &lock->waiters[i];
        waiter->waited_ms += waiter->waited_ms >= 0 && waiter->waited_ms < INT64_MAX / 2 ? age_ms
                                                                                         : 0;
    }
    lock->last.ended_ms += lock->last.ended_ms >= 0 && lock->last.ended_ms < INT64_MAX / 2 ? age_ms
                                                                                           : 0;
}

bool gossip_lock_next(const struct gossip *gossip, const void *name, size_t size, int64_t now_ns,
                      uint32_t *at, struct gossip_view *out)
{
    uint8_t body[GOSSIP_BODY_MAX];
    struct gossip_item item;
    uint32_t topic = *at == 0 ? topic_find(gossip, name, size) : 0;
    uint32_t index = topic != 0 ? gossip->topics[topic].items
                     : *at != 0 ? gossip->items[*at].topic_next
                                : 0;
    while (index != 0 && gossip->items[index].author == SELF) {
        index = gossip->items[index].topic_next;
    }
    if (index == 0) {
        return false;
    }
    *at = index;
    const struct author *author = &gossip->authors[gossip->items[index].author];
    HF_CHECK(gossip_body_decode(body, item_body(gossip, index, body), &item));
    out->agent = author->name;
    out->age_ns = author->seen_ns == NEVER_SEEN ? -1 : now_ns - author->seen_ns;
    out->valid = author_is_valid(gossip, author) && !author_is_silent(gossip, author, now_ns);
    out->lock = item.as.lock;
    lock_age(&out->lock, gossip_age_ms(now_ns, gossip->items[index].put_ns));
    return true;
}

int64_t gossip_age_ns(const struct gossip *gossip, int64_t now_ns)
{
    int64_t age_ns = -1;
    for (uint32_t i = SELF + 1; i < gossip->authors_used; i++) {
        const struct author *author = &gossip->authors[i];
        if (author->name.length > 0 && author->seen_ns != NEVER_SEEN &&
            author_is_valid(gossip, author) && !author_is_silent(gossip, author, now_ns) &&
            now_ns - author->seen_ns > age_ns) {
            age_ns = now_ns - author->seen_ns;
        }
    }
    return age_ns;
}

bool gossip_agent_next(const struct gossip *gossip, int64_t now_ns, uint32_t *at,
                       struct gossip_agent_view *out)
{
    while (*at < gossip->authors_used && gossip->authors[*at].name.length == 0) {
        (*at)++;
    }
    if (*at >= gossip->authors_used) {
        return false;
    }
    const struct author *author = &gossip->authors[*at];
    bool self = *at == SELF;
    (*at)++;
    *out = (struct gossip_agent_view){
        .name = author->name,
        .age_ns = self                            ? 0
                  : author->seen_ns == NEVER_SEEN ? -1
                                                  : now_ns - author->seen_ns,
        .silent = !self && author_is_silent(gossip, author, now_ns),
        .expired = author->ended_epoch > 0 && author->epoch <= author->ended_epoch,
        .agent = {.voter = self ? gossip->config.voter : author->voter,
                  .epoch = author->epoch,
                  .state = author->state}};
    memcpy(out->agent.address, self ? gossip->config.address : author->address,
           MESSAGE_ADDRESS_MAX);
    return true;
}

/* ---- for tests ---- */

static uint32_t check_item(const struct gossip *gossip, uint16_t author, uint32_t bucket,
                           uint32_t index)
{
    uint8_t body[GOSSIP_BODY_MAX];
    struct gossip_item content;
    const struct item *item = &gossip->items[index];
    HF_CHECK(item->author == author && item->key % GOSSIP_BUCKETS == bucket);
    HF_CHECK(gossip_body_decode(body, item_body(gossip, index, body), &content));
    HF_CHECK(item_key(&content) == item->key && content.kind == item->kind);
    HF_CHECK(item_find(gossip, author, &content) == index);
    HF_CHECK((item->topic != 0) == (content.kind == GOSSIP_LOCK));
    bool tombstone = item->age_list == AGE_OWN_TOMBSTONE || item->age_list == AGE_FOREIGN_TOMBSTONE;
    HF_CHECK(tombstone == item_is_tombstone(&content));
    HF_CHECK((author == SELF) ==
             (item->age_list == AGE_OWN || item->age_list == AGE_OWN_TOMBSTONE));
    return (item->size + CHUNK_BYTES - 1u) / CHUNK_BYTES;
}

static uint32_t list_length(const struct gossip *gossip, const struct item_list *list, int which)
{
    uint32_t count = 0;
    uint32_t previous = 0;
    for (uint32_t index = list->first; index != 0; count++) {
        HF_CHECK(gossip->items[index].links[which].previous == previous);
        previous = index;
        index = gossip->items[index].links[which].next;
    }
    HF_CHECK(list->last == previous);
    return count;
}

void gossip_check_invariants(const struct gossip *gossip)
{
    uint32_t items = 0;
    uint32_t chunks = 0;
    for (uint32_t i = 0; i < gossip->authors_used; i++) {
        const struct author *author = &gossip->authors[i];
        uint64_t hash = 0;
        uint32_t count = 0;
        for (uint32_t bucket = 0; bucket < GOSSIP_BUCKETS; bucket++) {
            uint32_t bucket_hash = 0;
            for (uint32_t index = author->first[bucket]; index != 0; count++) {
                const struct item *item = &gossip->items[index];
                uint64_t one = gossip_mix(item->key ^ gossip_mix(item->number));
                chunks += check_item(gossip, (uint16_t)i, bucket, index);
                hash ^= one;
                bucket_hash ^= (uint32_t)(one >> 32);
                index = item->bucket_next;
            }
            HF_CHECK(bucket_hash == author->hashes[bucket]);
        }
        HF_CHECK(hash == author->hash && count == author->item_count);
        HF_CHECK(author->name.length > 0 || count == 0);
        HF_CHECK(author->name.length == 0 || author_find(gossip, &author->name) == i);
        items += count;
    }
    uint32_t by_age = 0;
    for (uint32_t i = 0; i < AGE_LISTS; i++) {
        by_age += list_length(gossip, &gossip->ages[i], BY_AGE);
    }
    for (uint32_t i = 1; i <= GOSSIP_REPEATS; i++) {
        (void)list_length(gossip, &gossip->rumours[i], BY_RUMOUR);
    }
    HF_CHECK(by_age == items && items <= gossip->config.limits.items);
    HF_CHECK(chunks + gossip->chunks_left == gossip->config.limits.chunks);
}
