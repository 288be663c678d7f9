/*
 * The items of all authors, kept within bounds.
 *
 * An item stands in a bucket of its author. Repair compares buckets, and item_find() finds an item
 * in its bucket. An item about a lock also stands in the list of its topic. Each item stands in a
 * list by age, too: the oldest items are evicted when room is short. An item that is still passed
 * on stands in the list of rumours with the same number of repeats. An item's body is stored in
 * chunks, encoded as in the packet.
 */
#include "state.h"

#include <string.h>

#include "holdfast/admin.h"
#include "proto/check.h"

/* ---- lists ---- */

static void list_append(struct gossip *gossip, struct item_list *list, int which, uint32_t index)
{
    gossip->items[index].links[which] = (struct link){0, list->last};
    if (list->last != 0) {
        gossip->items[list->last].links[which].next = index;
    } else {
        list->first = index;
    }
    list->last = index;
}

static void list_remove(struct gossip *gossip, struct item_list *list, int which, uint32_t index)
{
    struct link link = gossip->items[index].links[which];
    if (link.previous != 0) {
        gossip->items[link.previous].links[which].next = link.next;
    } else {
        list->first = link.next;
    }
    if (link.next != 0) {
        gossip->items[link.next].links[which].previous = link.previous;
    } else {
        list->last = link.previous;
    }
}

void item_rumour(struct gossip *gossip, uint32_t index, uint32_t repeats)
{
    struct item *item = &gossip->items[index];
    if (item->repeats > 0) {
        list_remove(gossip, &gossip->rumours[item->repeats], BY_RUMOUR, index);
    }
    item->repeats = (uint8_t)repeats;
    if (repeats > 0) {
        list_append(gossip, &gossip->rumours[repeats], BY_RUMOUR, index);
    }
}

/* ---- topics ---- */

const uint8_t *topic_name(const void *arg, uint32_t entry, size_t *size)
{
    const struct gossip *gossip = arg;
    return names_bytes(gossip->names, gossip->topics[entry].name, size);
}

uint32_t topic_find(const struct gossip *gossip, const void *name, size_t size)
{
    uint32_t id = size > 0 && size <= NAMES_LENGTH_MAX ? names_find(gossip->names, name, size)
                                                       : NAMES_NONE;
    return id == NAMES_NONE ? 0 : names_lock(gossip->names, id);
}

static void topic_free(struct gossip *gossip, uint32_t index)
{
    struct topic *topic = &gossip->topics[index];
    HF_CHECK(topic->items == 0 && topic->foreign == 0 && !topic->changed);
    names_set_lock(gossip->names, topic->name, NAMES_NONE);
    names_drop(gossip->names, topic->name);
    *topic = (struct topic){.name = gossip->topics_free};
    gossip->topics_free = index;
}

/* Removes the first entry of the list of changes and returns it. */
static uint32_t changed_take(struct gossip *gossip)
{
    uint32_t index = gossip->changed.first;
    struct topic *topic = &gossip->topics[index];
    gossip->changed.first = topic->changed_next;
    gossip->changed.last = gossip->changed.first == 0 ? 0 : gossip->changed.last;
    topic->changed = false;
    topic->changed_next = 0;
    return index;
}

/* Drops the list of changes, because its reader has not read it in time. Notes that changes were
 * missed. */
static void changed_drop(struct gossip *gossip)
{
    while (gossip->changed.first != 0) { /* each pass removes one entry */
        uint32_t index = changed_take(gossip);
        if (gossip->topics[index].items == 0) {
            topic_free(gossip, index);
        }
        gossip->missed = true;
    }
}

/* Makes a topic. Returns 0 if there is no room. */
static uint32_t topic_make(struct gossip *gossip, const struct message_name *name)
{
    uint32_t max = gossip->config.limits.items + gossip->config.limits.items / 4 + 64;
    if (gossip->topics_free == 0 && gossip->topics_used > max) {
        changed_drop(gossip);
    }
    if (gossip->topics_free == 0 && gossip->topics_used > max) {
        return 0;
    }
    uint32_t id = names_hold(gossip->names, name->bytes, name->length);
    if (id == NAMES_NONE) {
        return 0;
    }
    uint32_t index = gossip->topics_free;
    if (index != 0) {
        gossip->topics_free = gossip->topics[index].name;
    } else {
        index = gossip->topics_used++;
    }
    gossip->topics[index] = (struct topic){.name = id};
    names_set_lock(gossip->names, id, index);
    return index;
}

void topic_changed(struct gossip *gossip, uint32_t index)
{
    struct topic *topic = &gossip->topics[index];
    if (topic->changed) {
        return;
    }
    topic->changed = true;
    topic->changed_next = 0;
    if (gossip->changed.last != 0) {
        gossip->topics[gossip->changed.last].changed_next = index;
    } else {
        gossip->changed.first = index;
    }
    gossip->changed.last = index;
}

bool gossip_has_changed(const struct gossip *gossip)
{
    return gossip->missed || gossip->changed.first != 0;
}

bool gossip_changed(struct gossip *gossip, struct message_name *out)
{
    memset(out, 0, sizeof(*out));
    if (gossip->missed) {
        gossip->missed = false;
        return true;
    }
    if (gossip->changed.first == 0) {
        return false;
    }
    size_t size = 0;
    uint32_t index = changed_take(gossip);
    const uint8_t *bytes = topic_name(gossip, index, &size);
    out->length = (uint8_t)size;
    memcpy(out->bytes, bytes, size);
    if (gossip->topics[index].items == 0) {
        topic_free(gossip, index);
    }
    return true;
}

/* Adds `by` to topic->foreign: 1 for an item that came, -1 for an item that went. Called only for
 * items that counts_at_topic(). */
static void topic_count(struct gossip *gossip, uint32_t index, int by)
{
    struct topic *topic = &gossip->topics[index];
    if (topic->foreign == 0) {
        order_insert(&gossip->order, index);
    }
    topic->foreign += (uint32_t)by;
    if (topic->foreign == 0) {
        order_remove(&gossip->order, index);
    }
}

/* ---- bodies ---- */

static uint32_t chunks_of(size_t size)
{
    return (uint32_t)((size + CHUNK_BYTES - 1) / CHUNK_BYTES);
}

static uint32_t body_put(struct gossip *gossip, const uint8_t *bytes, size_t size)
{
    uint32_t first = 0;
    uint32_t *link = &first;
    for (size_t at = 0; at < size; at += CHUNK_BYTES) {
        uint32_t index = gossip->chunks_free;
        if (index != 0) {
            gossip->chunks_free = gossip->chunks[index].next;
        } else {
            index = gossip->chunks_used++;
        }
        gossip->chunks_left--;
        size_t part = size - at < CHUNK_BYTES ? size - at : CHUNK_BYTES;
        memcpy(gossip->chunks[index].bytes, bytes + at, part);
        gossip->chunks[index].next = 0;
        *link = index;
        link = &gossip->chunks[index].next;
    }
    return first;
}

static void body_free(struct gossip *gossip, uint32_t index)
{
    while (index != 0) { /* at most the chunks of one body */
        uint32_t next = gossip->chunks[index].next;
        gossip->chunks[index].next = gossip->chunks_free;
        gossip->chunks_free = index;
        gossip->chunks_left++;
        index = next;
    }
}

size_t item_body(const struct gossip *gossip, uint32_t index, uint8_t *bytes)
{
    const struct item *item = &gossip->items[index];
    uint32_t chunk = item->chunk;
    for (size_t at = 0; at < item->size; at += CHUNK_BYTES) {
        size_t part = item->size - at < CHUNK_BYTES ? item->size - at : CHUNK_BYTES;
        memcpy(bytes + at, gossip->chunks[chunk].bytes, part);
        chunk = gossip->chunks[chunk].next;
    }
    return item->size;
}

/* ---- items ---- */

uint64_t item_key(const struct gossip_item *item)
{
    switch (item->kind) {
    case GOSSIP_EXPIRED:
        return gossip_hash(item->kind, item->as.expired.agent.text, item->as.expired.agent.length);
    case GOSSIP_LOCK:
        return gossip_hash(item->kind, item->as.lock.name.bytes, item->as.lock.name.length);
    default:
        return gossip_hash(item->kind, "", 0);
    }
}

bool item_is_tombstone(const struct gossip_item *item)
{
    const struct gossip_lock *lock = &item->as.lock;
    return item->kind == GOSSIP_LOCK && lock->state == HF_STATE_FREE && lock->holder_total == 0 &&
           lock->waiter_total == 0 && lock->closed_ms == 0;
}

uint32_t item_find(const struct gossip *gossip, uint16_t author, const struct gossip_item *item)
{
    uint64_t key = item_key(item);
    uint32_t index = gossip->authors[author].first[key % GOSSIP_BUCKETS];
    while (index != 0) {
        const struct item *at = &gossip->items[index];
        if (at->key == key && at->kind == item->kind) {
            size_t size = 0;
            if (at->topic == 0) {
                /* An item without a topic is found by its hash alone. If two agents' names have the
                 * same hash, one agent's EXPIRED item replaces the other agent's. */
                return index;
            }
            const uint8_t *name = topic_name(gossip, at->topic, &size);
            if (size == item->as.lock.name.length &&
                memcmp(name, item->as.lock.name.bytes, size) == 0) {
                return index;
            }
        }
        index = at->bucket_next;
    }
    return 0;
}

/* Adds an item to its author's hashes, or takes it out. After that, no agent is known to have the
 * same items of the author as this agent. */
static void item_hash(struct gossip *gossip, const struct item *item)
{
    struct author *author = &gossip->authors[item->author];
    uint64_t hash = gossip_mix(item->key ^ gossip_mix(item->number));
    author->hash ^= hash;
    author->known = 0;
    author->hashes[item->key % GOSSIP_BUCKETS] ^= (uint32_t)(hash >> 32);
}

static bool counts_at_topic(const struct item *item)
{
    return item->topic != 0 && item->age_list == AGE_FOREIGN;
}

static void item_free(struct gossip *gossip, uint32_t index)
{
    struct item *item = &gossip->items[index];
    struct author *author = &gossip->authors[item->author];
    uint32_t *link = &author->first[item->key % GOSSIP_BUCKETS];
    while (*link != index) {
        link = &gossip->items[*link].bucket_next;
    }
    *link = item->bucket_next;
    author->item_count--;
    item_hash(gossip, item);
    item_rumour(gossip, index, 0);
    list_remove(gossip, &gossip->ages[item->age_list], BY_AGE, index);
    body_free(gossip, item->chunk);
    if (item->topic != 0) {
        struct topic *topic = &gossip->topics[item->topic];
        link = &topic->items;
        while (*link != index) {
            link = &gossip->items[*link].topic_next;
        }
        *link = item->topic_next;
        if (counts_at_topic(item)) {
            topic_count(gossip, item->topic, -1);
            topic_changed(gossip, item->topic);
        }
        if (topic->items == 0 && !topic->changed) {
            topic_free(gossip, item->topic);
        }
    }
    *item = (struct item){.chunk = gossip->items_free};
    gossip->items_free = index;
}

void items_of_author_free(struct gossip *gossip, uint16_t author)
{
    for (uint32_t i = 0; i < GOSSIP_BUCKETS && gossip->authors[author].item_count > 0; i++) {
        while (gossip->authors[author].first[i] != 0) { /* each pass frees an item */
            item_free(gossip, gossip->authors[author].first[i]);
        }
    }
}

/* Makes room for that many items and chunks. Does not free the item `keep`. Returns false if there
 * is no room. */
static bool make_room(struct gossip *gossip, uint32_t items, uint32_t chunks, uint32_t keep)
{
    for (;;) { /* each pass frees an item */
        bool item_left = items == 0 || gossip->items_free != 0 ||
                         gossip->items_used <= gossip->config.limits.items;
        if (item_left && gossip->chunks_left >= chunks) {
            return true;
        }
        uint32_t index = gossip->ages[AGE_FOREIGN_TOMBSTONE].first;
        index = index != 0 && index == keep ? gossip->items[index].links[BY_AGE].next : index;
        if (index == 0) {
            index = gossip->ages[AGE_FOREIGN].first;
            index = index != 0 && index == keep ? gossip->items[index].links[BY_AGE].next : index;
        }
        if (index == 0) {
            return false;
        }
        gossip->authors[gossip->items[index].author].full_until_ns = gossip->now_ns +
                                                                     FULL_MS * MS_NS;
        item_free(gossip, index);
    }
}

/* Makes an item without a body, and links it into its topic's list and its author's bucket. Returns
 * 0 if there is no room. */
static uint32_t item_make(struct gossip *gossip, uint16_t author, const struct gossip_item *content)
{
    uint32_t topic = 0;
    if (content->kind == GOSSIP_LOCK) {
        const struct message_name *name = &content->as.lock.name;
        topic = topic_find(gossip, name->bytes, name->length);
        topic = topic == 0 ? topic_make(gossip, name) : topic;
        if (topic == 0) {
            return 0;
        }
    }
    uint32_t index = gossip->items_free;
    if (index != 0) {
        gossip->items_free = gossip->items[index].chunk;
    } else {
        index = gossip->items_used++;
    }
    struct author *who = &gossip->authors[author];
    uint64_t key = item_key(content);
    gossip->items[index] = (struct item){.key = key,
                                         .topic = topic,
                                         .bucket_next = who->first[key % GOSSIP_BUCKETS],
                                         .author = author,
                                         .kind = (uint8_t)content->kind};
    who->first[key % GOSSIP_BUCKETS] = index;
    who->item_count++;
    if (topic != 0) {
        gossip->items[index].topic_next = gossip->topics[topic].items;
        gossip->topics[topic].items = index;
    }
    return index;
}

bool item_put(struct gossip *gossip, uint16_t author, uint32_t index,
              const struct gossip_item *content, const struct gossip_stamp *stamp, const void *body,
              size_t size)
{
    uint32_t had = index != 0 ? chunks_of(gossip->items[index].size) : 0;
    uint32_t wanted = chunks_of(size);
    uint32_t more = wanted > had ? wanted - had : 0;
    if (!make_room(gossip, index == 0, more, index)) {
        return false;
    }
    if (index == 0) {
        index = item_make(gossip, author, content);
        if (index == 0) {
            return false;
        }
    } else {
        struct item *old = &gossip->items[index];
        item_hash(gossip, old);
        list_remove(gossip, &gossip->ages[old->age_list], BY_AGE, index);
        body_free(gossip, old->chunk);
        if (counts_at_topic(old)) {
            topic_count(gossip, old->topic, -1);
        }
    }
    struct item *item = &gossip->items[index];
    bool dead = item_is_tombstone(content);
    item->number = stamp->number;
    item->put_ns = gossip->now_ns - (int64_t)stamp->age_ms * MS_NS;
    item->size = (uint16_t)size;
    item->chunk = body_put(gossip, body, size);
    item->age_list = author == SELF ? (dead ? AGE_OWN_TOMBSTONE : AGE_OWN)
                                    : (dead ? AGE_FOREIGN_TOMBSTONE : AGE_FOREIGN);
    list_append(gossip, &gossip->ages[item->age_list], BY_AGE, index);
    item_hash(gossip, item);
    item_rumour(gossip, index, GOSSIP_REPEATS);
    if (counts_at_topic(item)) {
        topic_count(gossip, item->topic, 1);
    }
    if (item->topic != 0 && author != SELF) {
        topic_changed(gossip, item->topic);
    }
    return true;
}

void item_renumber(struct gossip *gossip, uint32_t index)
{
    struct item *item = &gossip->items[index];
    item_hash(gossip, item);
    item->number = ++gossip->number;
    item_hash(gossip, item);
    item_rumour(gossip, index, GOSSIP_REPEATS);
}

void item_stamp(const struct gossip *gossip, uint32_t index, struct gossip_stamp *out)
{
    const struct item *item = &gossip->items[index];
    const struct author *author = &gossip->authors[item->author];
    *out = (struct gossip_stamp){.author = author->name,
                                 .incarnation = author->incarnation,
                                 .number = item->number,
                                 .age_ms = gossip_age_ms(gossip->now_ns, item->put_ns)};
}

void tombstones_expire(struct gossip *gossip)
{
    static const enum age_list lists[] = {AGE_OWN_TOMBSTONE, AGE_FOREIGN_TOMBSTONE};
    for (uint32_t i = 0; i < 2; i++) {
        const struct item_list *list = &gossip->ages[lists[i]];
        for (uint32_t n = 0; n < SWEEP_ITEMS && list->first != 0; n++) {
            const struct item *item = &gossip->items[list->first];
            if (gossip_age_ms(gossip->now_ns, item->put_ns) < GOSSIP_TOMBSTONE_MS) {
                break;
            }
            item_free(gossip, list->first);
        }
    }
}
