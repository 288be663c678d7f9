/*
 * How gossip spreads: the packets that are sent, and the effects of those that arrive.
 *
 * A digest is answered by a digest and by hashes. Hashes are answered by items. If some items did
 * not fit, the packets of items are answered by hashes again, at most REASKS_MAX times in each
 * EXCHANGE. A digest that is itself an answer gets no digest back. So no packets circulate for
 * ever, whatever a stranger sends.
 */
#include "state.h"

#include <string.h>

#include "proto/check.h"

/* ---- sending ---- */

/* Begins a packet in the output, which has room (GOSSIP_STEP_OUTPUT). */
static void packet_begin(struct gossip *gossip, struct gossip_actions *actions,
                         struct gossip_writer *writer, enum gossip_packet_kind kind)
{
    gossip_begin(writer, actions->output + actions->output_used,
                 actions->output_size - actions->output_used, kind,
                 gossip->authors[SELF].incarnation, gossip_heartbeat_ms(gossip));
}

static void send_bytes(struct gossip *gossip, struct gossip_actions *actions, uint16_t to,
                       size_t offset, size_t size)
{
    if (!author_reach(gossip, to, actions)) {
        return;
    }
    HF_CHECK(actions->count < actions->capacity);
    struct gossip_action *action = &actions->items[actions->count++];
    action->kind = GOSSIP_SEND;
    action->agent = gossip->authors[to].name;
    action->as.send.offset = (uint32_t)offset;
    action->as.send.size = (uint32_t)size;
}

/* Ends the packet, and sends it to each agent of `to`, unless it is empty. */
static void packet_send(struct gossip *gossip, struct gossip_actions *actions,
                        struct gossip_writer *writer, bool answer, const uint16_t *to,
                        uint32_t count)
{
    if (writer->count == 0) {
        return;
    }
    size_t size = gossip_end(writer, answer);
    for (uint32_t i = 0; i < count; i++) {
        send_bytes(gossip, actions, to[i], actions->output_used, size);
    }
    actions->output_used += size;
}

/* Chooses up to `wanted` different agents of the view at random. Returns how many. */
static uint32_t choose(struct gossip *gossip, uint32_t wanted, uint16_t *out)
{
    uint16_t left[GOSSIP_VIEW];
    uint32_t count = 0;
    memcpy(left, gossip->view, sizeof(left));
    for (uint32_t n = gossip->view_count; n > 0 && count < wanted; n--) {
        uint32_t at = (uint32_t)(gossip_random(gossip) % n);
        out[count++] = left[at];
        left[at] = left[n - 1];
    }
    return count;
}

static bool add_item(struct gossip *gossip, struct gossip_writer *writer, uint32_t index)
{
    uint8_t body[GOSSIP_BODY_MAX];
    struct gossip_stamp stamp;
    item_stamp(gossip, index, &stamp);
    return gossip_add_item(writer, &stamp, body, item_body(gossip, index, body));
}

/*
 * Stops passing on items that all peers of this agent have. When many items change at once, repairs
 * spread them faster than rumours do. Rumours would then go on for minutes with items that every
 * agent has.
 */
static void drop_known_rumours(struct gossip *gossip)
{
    uint32_t looked = 0;
    for (uint32_t repeats = GOSSIP_REPEATS; repeats > 0; repeats--) {
        uint32_t index = gossip->rumours[repeats].first;
        for (; index != 0 && looked < DROPS_MAX; looked++) {
            uint32_t next = gossip->items[index].links[BY_RUMOUR].next;
            if (author_is_known(gossip, &gossip->authors[gossip->items[index].author])) {
                item_rumour(gossip, index, 0);
            }
            index = next;
        }
    }
}

void spread_rumours(struct gossip *gossip, struct gossip_actions *actions)
{
    uint16_t to[GOSSIP_FANOUT];
    uint32_t notified[GOSSIP_ENTRIES_MAX];
    uint32_t notified_count = 0;
    drop_known_rumours(gossip);
    struct gossip_writer writer;
    uint32_t peers = choose(gossip, GOSSIP_FANOUT, to);
    if (peers == 0) {
        return;
    }
    packet_begin(gossip, actions, &writer, GOSSIP_ITEMS);
    bool room = true;
    for (uint32_t repeats = GOSSIP_REPEATS; repeats > 0 && room; repeats--) {
        uint32_t index = gossip->rumours[repeats].first;
        for (; index != 0 && room; index = gossip->items[index].links[BY_RUMOUR].next) {
            room = add_item(gossip, &writer, index);
            if (room) {
                notified[notified_count++] = index;
            }
        }
    }
    for (uint32_t i = 0; i < notified_count; i++) {
        item_rumour(gossip, notified[i], gossip->items[notified[i]].repeats - 1u);
    }
    packet_send(gossip, actions, &writer, false, to, peers);
    gossip->round_due_ns = gossip->now_ns + GOSSIP_ROUND_MS * MS_NS;
}

static bool add_digest(struct gossip *gossip, struct gossip_writer *writer, uint16_t index)
{
    const struct author *author = &gossip->authors[index];
    struct gossip_digest digest = {.author = author->name,
                                   .incarnation = author->incarnation,
                                   .heartbeat_ms = author->heartbeat_ms,
                                   .age_ms = gossip_age_ms(gossip->now_ns, author->seen_ns),
                                   .hash = author->hash};
    if (index == SELF) {
        digest.heartbeat_ms = gossip_heartbeat_ms(gossip);
        digest.age_ms = 0;
    } else if (author->incarnation == 0 || digest.age_ms > GOSSIP_FORGET_MS) {
        return true; /* nothing to send about this author */
    }
    return gossip_add_digest(writer, &digest);
}

/* Returns a random agent that is connected but has been silent for long. If the cell was split, its
 * halves meet again through such an agent. Returns NOBODY if there is no such agent, which is the
 * usual case. */
static uint16_t silent_peer(struct gossip *gossip)
{
    uint16_t chosen = NOBODY;
    uint32_t count = 0;
    for (uint32_t i = SELF + 1; i < gossip->authors_used; i++) {
        const struct author *author = &gossip->authors[i];
        if (author->name.length > 0 && author->peer && !author->down && author->silent &&
            gossip_random(gossip) % ++count == 0) {
            chosen = (uint16_t)i;
        }
    }
    return chosen;
}

void spread_digests(struct gossip *gossip, struct gossip_actions *actions)
{
    uint16_t to[GOSSIP_EXCHANGE_PEERS + 2];
    struct gossip_writer writer;
    uint32_t count = choose(gossip, GOSSIP_EXCHANGE_PEERS, to);
    uint16_t silent = ++gossip->exchanges % SILENT_EVERY == 0 ? silent_peer(gossip) : NOBODY;
    uint16_t others[] = {gossip->greet, silent};
    gossip->greet = NOBODY;
    for (uint32_t i = 0; i < 2; i++) {
        bool new = others[i] != NOBODY;
        for (uint32_t j = 0; j < count; j++) {
            new = new &&to[j] != others[i];
        }
        if (new) {
            to[count++] = others[i];
        }
    }
    if (count == 0) {
        return;
    }
    packet_begin(gossip, actions, &writer, GOSSIP_DIGEST);
    bool room = add_digest(gossip, &writer, SELF);
    uint32_t others_count = gossip->authors_used - 1;
    for (uint32_t i = 0; i < others_count && room; i++) {
        uint32_t at = gossip->digest_at % others_count;
        room = add_digest(gossip, &writer, (uint16_t)(SELF + 1 + at));
        gossip->digest_at = room ? at + 1 : at;
    }
    packet_send(gossip, actions, &writer, false, to, count);
}

/* ---- receiving ---- */

static int64_t then_of(const struct gossip *gossip, uint32_t age_ms)
{
    return gossip->now_ns - (int64_t)age_ms * MS_NS;
}

/* Another agent sent an item whose author is this agent, with a higher number than this agent's own
 * item has. Such an item comes from an earlier process of this agent, or is forged. Publishes the
 * own item again, with a still higher number. If the item is about a lock, and this agent has no
 * such item, publishes a tombstone. */
static void spread_defend(struct gossip *gossip, const struct gossip_stamp *stamp,
                          const struct gossip_item *item)
{
    uint32_t index = item_find(gossip, SELF, item);
    if (index != 0 && gossip->items[index].number >= stamp->number) {
        return;
    }
    if (gossip->number < stamp->number && stamp->number < INT64_MAX / 2) {
        gossip->number = stamp->number;
    }
    if (index != 0) {
        item_renumber(gossip, index);
    } else if (item->kind == GOSSIP_LOCK && !item_is_tombstone(item)) {
        struct gossip_lock gone = {.name = item->as.lock.name};
        struct gossip_item tombstone = {.kind = GOSSIP_LOCK, .as.lock = gone};
        struct gossip_stamp own = {.number = gossip->number + 1};
        uint8_t body[GOSSIP_BODY_MAX];
        size_t size = gossip_body_encode(&tombstone, body, sizeof(body));
        if (item_put(gossip, SELF, 0, &tombstone, &own, body, size)) {
            gossip->number++;
        }
    }
}

/* Updates the table of agents from an item of the author that was just stored. */
static void item_applied(struct gossip *gossip, uint16_t index, const struct gossip_item *item,
                         int64_t then_ns)
{
    struct author *author = &gossip->authors[index];
    switch (item->kind) {
    case GOSSIP_AGENT:
        author->voter = item->as.agent.voter;
        author->epoch = item->as.agent.epoch;
        author->state = item->as.agent.state;
        author_set_address(gossip, index, item->as.agent.address);
        break;
    case GOSSIP_OWNED:
        author->owned = item->as.owned;
        author->owned_ns = then_ns;
        author->owned_counts = true;
        break;
    case GOSSIP_EXPIRED:
        author_expired(gossip, &item->as.expired);
        break;
    default:
        break;
    }
}

/* Returns the author of an item that arrived; NOBODY if there is no room for the author. */
static uint16_t author_of(struct gossip *gossip, const struct message_agent *name, uint32_t age_ms)
{
    uint16_t index = author_find(gossip, name);
    if (index == NOBODY && age_ms < GOSSIP_FORGET_MS) {
        index = author_make(gossip, name);
    }
    return index;
}

static void receive_item(struct gossip *gossip, const struct gossip_stamp *stamp,
                         const struct gossip_item *item, const void *body, size_t size)
{
    uint16_t index = author_of(gossip, &stamp->author, stamp->age_ms);
    int64_t then_ns = then_of(gossip, stamp->age_ms);
    if (index == NOBODY || !author_refresh(gossip, index, stamp->incarnation, 0, then_ns)) {
        return;
    }
    if (index == SELF) {
        spread_defend(gossip, stamp, item);
        return;
    }
    uint32_t old = item_find(gossip, index, item);
    if (old != 0 ? gossip->items[old].number >= stamp->number
                 : item_is_tombstone(item) && stamp->age_ms >= GOSSIP_TOMBSTONE_MS) {
        return;
    }
    if (item_put(gossip, index, old, item, stamp, body, size)) {
        struct author *author = &gossip->authors[index];
        author->seen_ns = then_ns > author->seen_ns ? then_ns : author->seen_ns;
        item_applied(gossip, index, item, then_ns);
    } else {
        gossip->authors[index].full_until_ns = gossip->now_ns + FULL_MS * MS_NS;
    }
}

static void receive_items(struct gossip *gossip, struct gossip_reader *reader)
{
    struct gossip_stamp stamp;
    struct gossip_item item;
    const unsigned char *body;
    size_t size;
    while (gossip_next_item(reader, &stamp, &item, &body, &size)) { /* bounded by the packet */
        receive_item(gossip, &stamp, &item, body, size);
    }
}

static void hashes_of(const struct gossip *gossip, uint16_t index, struct gossip_hashes *out)
{
    const struct author *author = &gossip->authors[index];
    out->author = author->name;
    out->incarnation = author->incarnation;
    out->count = 0;
    for (uint32_t i = 0; i < GOSSIP_BUCKETS; i++) {
        if (author->hashes[i] != 0) {
            out->buckets[out->count].index = i;
            out->buckets[out->count].hash = author->hashes[i];
            out->count++;
        }
    }
}

/* For a packet of items from which some items were left out, because they did not fit. Sends this
 * agent's hashes again for each author in the packet, to ask for the items that are still
 * missing. */
static void ask_more(struct gossip *gossip, struct gossip_reader *reader, uint16_t from,
                     struct gossip_actions *actions)
{
    struct gossip_stamp stamp;
    struct gossip_item item;
    struct gossip_hashes hashes;
    struct gossip_writer writer;
    const unsigned char *body;
    size_t size;
    if (gossip->reasks == 0) {
        return;
    }
    gossip->reasks--;
    gossip->mark++;
    packet_begin(gossip, actions, &writer, GOSSIP_HASHES);
    while (gossip_next_item(reader, &stamp, &item, &body, &size)) {
        uint16_t index = author_find(gossip, &stamp.author);
        if (index == NOBODY || index == SELF || gossip->authors[index].mark == gossip->mark ||
            gossip->authors[index].full_until_ns > gossip->now_ns) {
            continue;
        }
        gossip->authors[index].mark = gossip->mark;
        hashes_of(gossip, index, &hashes);
        if (!gossip_add_hashes(&writer, &hashes)) {
            break;
        }
    }
    packet_send(gossip, actions, &writer, false, &from, 1);
}

/* Handles a digest. Sends hashes to ask for the items that this agent lacks. If the digest is not
 * itself an answer, also sends a digest of what the sender lacks. */
static void receive_digest(struct gossip *gossip, struct gossip_reader *reader, uint16_t from,
                           bool whole, struct gossip_actions *actions)
{
    unsigned char wanted[GOSSIP_PACKET_MAX];
    struct gossip_writer digest;
    struct gossip_writer asking;
    struct gossip_digest entry;
    struct gossip_hashes hashes;
    bool answers = !reader->answer;
    bool asks = true;
    gossip->mark++;
    packet_begin(gossip, actions, &digest, GOSSIP_DIGEST);
    gossip_begin(&asking, wanted, sizeof(wanted), GOSSIP_HASHES, gossip->authors[SELF].incarnation,
                 gossip_heartbeat_ms(gossip));
    while (gossip_next_digest(reader, &entry)) { /* bounded by the packet */
        uint16_t index = author_of(gossip, &entry.author, entry.age_ms);
        if (index == NOBODY) {
            continue;
        }
        struct author *author = &gossip->authors[index];
        author->mark = gossip->mark;
        bool same = author_refresh(gossip, index, entry.incarnation, entry.heartbeat_ms,
                                   then_of(gossip, entry.age_ms)) &&
                    author->hash == entry.hash;
        if (same) {
            author_known_by(gossip, index, from);
        }
        bool newer = author->incarnation > entry.incarnation ||
                     author->heartbeat_ms > entry.heartbeat_ms;
        if (answers && (index == SELF || !same || newer)) {
            answers = add_digest(gossip, &digest, index);
        }
        if (asks && !same && index != SELF && author->incarnation == entry.incarnation &&
            author->full_until_ns <= gossip->now_ns) {
            hashes_of(gossip, index, &hashes);
            asks = gossip_add_hashes(&asking, &hashes);
        }
    }
    for (uint32_t i = 0; whole && answers && i < gossip->authors_used; i++) {
        if (gossip->authors[i].name.length > 0 && gossip->authors[i].mark != gossip->mark) {
            answers = add_digest(gossip, &digest, (uint16_t)i);
        }
    }
    if (!reader->answer) {
        packet_send(gossip, actions, &digest, true, &from, 1);
    }
    if (asking.count > 0) {
        size_t size = gossip_end(&asking, false);
        memcpy(actions->output + actions->output_used, wanted, size);
        send_bytes(gossip, actions, from, actions->output_used, size);
        actions->output_used += size;
    }
}

/* A repair: items for one agent, in up to GOSSIP_REPAIR_PACKETS packets. */
struct gossip_repair {
    struct gossip_writer writer;
    uint16_t to;
    uint32_t packets; /* the number of packets begun so far */
    bool cut;
};

static void repair_bucket(struct gossip *gossip, struct gossip_repair *repair,
                          const struct author *author, uint32_t bucket,
                          struct gossip_actions *actions)
{
    for (uint32_t index = author->first[bucket]; index != 0 && !repair->cut;
         index = gossip->items[index].bucket_next) {
        if (add_item(gossip, &repair->writer, index)) {
            continue;
        }
        repair->cut = repair->packets == GOSSIP_REPAIR_PACKETS;
        if (!repair->cut) {
            packet_send(gossip, actions, &repair->writer, false, &repair->to, 1);
            packet_begin(gossip, actions, &repair->writer, GOSSIP_ITEMS);
            repair->packets++;
            HF_CHECK(add_item(gossip, &repair->writer, index));
        }
    }
}

static void receive_hashes(struct gossip *gossip, struct gossip_reader *reader, uint16_t from,
                           struct gossip_actions *actions)
{
    struct gossip_hashes hashes;
    struct gossip_repair repair = {.to = from, .packets = 1};
    packet_begin(gossip, actions, &repair.writer, GOSSIP_ITEMS);
    while (gossip_next_hashes(reader, &hashes)) { /* bounded by the packet */
        uint32_t theirs[GOSSIP_BUCKETS] = {0};
        uint16_t index = author_find(gossip, &hashes.author);
        if (index == NOBODY || gossip->authors[index].incarnation != hashes.incarnation) {
            continue;
        }
        const struct author *author = &gossip->authors[index];
        for (uint32_t i = 0; i < hashes.count; i++) {
            theirs[hashes.buckets[i].index] = hashes.buckets[i].hash;
        }
        /* Begins with a random bucket. If not all items fit, the next repair probably begins with
         * another bucket. */
        uint32_t at = (uint32_t)(gossip_random(gossip) % GOSSIP_BUCKETS);
        for (uint32_t i = 0; i < GOSSIP_BUCKETS && !repair.cut; i++) {
            uint32_t bucket = (at + i) % GOSSIP_BUCKETS;
            if (author->hashes[bucket] != theirs[bucket]) {
                repair_bucket(gossip, &repair, author, bucket, actions);
            }
        }
    }
    packet_send(gossip, actions, &repair.writer, repair.cut, &from, 1);
}

void spread_received(struct gossip *gossip, const struct gossip_event *event,
                     struct gossip_actions *actions)
{
    struct gossip_reader reader;
    const unsigned char *bytes = event->as.received.bytes;
    size_t size = event->as.received.size;
    if (!gossip_open(&reader, bytes, size)) {
        return;
    }
    uint16_t from = author_of(gossip, &event->agent, 0);
    if (from == NOBODY || from == SELF) {
        return;
    }
    if (reader.incarnation > 0) {
        (void)author_refresh(gossip, from, reader.incarnation, reader.heartbeat_ms, gossip->now_ns);
    }
    struct gossip_reader again = reader;
    switch (reader.kind) {
    case GOSSIP_ITEMS:
        receive_items(gossip, &reader);
        if (reader.answer) {
            ask_more(gossip, &again, from, actions);
        }
        break;
    case GOSSIP_DIGEST:
        receive_digest(gossip, &reader, from, size < GOSSIP_PACKET_MAX - 128, actions);
        break;
    case GOSSIP_HASHES:
        receive_hashes(gossip, &reader, from, actions);
        break;
    }
}
