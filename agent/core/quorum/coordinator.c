/*
 * The coordinator's ballots: which partitions are this voter's, and under which ballot a majority
 * has promised them to it.
 *
 * All partitions that are to be prepared share one ballot. A round is durable before it is used, so
 * a restarted coordinator never uses one again. A PREPARE that is refused is tried again under a
 * higher round after a random pause; an ACCEPT or READ that is refused means that another
 * coordinates the partition: this one resigns, and takes it up again only when told (QUORUM_OWN).
 */
#include "proto/check.h"
#include "state.h"

static uint64_t own_ballot(const struct quorum *quorum)
{
    return (uint64_t)quorum->round << 16 | (quorum->config.self + 1);
}

static uint64_t weight(const struct message_agent *voter, uint32_t partition)
{
    uint64_t hash = UINT64_C(0x9e3779b97f4a7c15) * (partition + 1);
    for (uint32_t i = 0; i < voter->length; i++) {
        hash = (hash ^ (uint8_t)voter->text[i]) * UINT64_C(0x100000001b3);
        hash ^= hash >> 29;
    }
    hash *= UINT64_C(0xd6e8feb86659fd93);
    return hash ^ hash >> 32;
}

uint32_t coordinator_preferred(const struct quorum *quorum, uint32_t partition)
{
    uint32_t best = 0;
    for (uint32_t voter = 1; voter < quorum->config.voter_count; voter++) {
        if (weight(&quorum->config.voters[voter], partition) >
            weight(&quorum->config.voters[best], partition)) {
            best = voter;
        }
    }
    return best;
}

/* Asks every voter for the promises that it has not given yet. */
static void ask(struct quorum *quorum)
{
    for (uint32_t voter = 0; voter < quorum->config.voter_count; voter++) {
        struct message_prepare prepare = {.ballot = own_ballot(quorum)};
        bool any = false;
        for (uint32_t p = 0; p < MESSAGE_PARTITIONS; p++) {
            const struct partition *partition = &quorum->partitions[p];
            if (partition->state == PARTITION_PREPARING && (partition->mask >> voter & 1) == 0) {
                message_partition_add(&prepare.partitions, p);
                any = true;
            }
        }
        if (any) {
            quorum_send(quorum, voter, MESSAGE_PREPARE)->as.prepare = prepare;
        }
    }
    quorum->prepare_ns = quorum->now_ns + RESEND_MS * MS_NS;
    quorum_schedule(quorum, quorum->prepare_ns);
}

/* A new round for all partitions that are being prepared. */
static void prepare(struct quorum *quorum)
{
    uint32_t highest = quorum->heard_round > quorum->round ? quorum->heard_round : quorum->round;
    if (highest == UINT32_MAX) {
        quorum->prepare_ns = NEVER; /* no round is left: nothing gets prepared any more */
        return;
    }
    quorum->round = highest + 1;
    quorum->sequence = 0;
    quorum->prepare_anew = false;
    quorum_emit(quorum, ACTION_PERSIST_ROUND)->as.round = quorum->round;
    for (uint32_t p = 0; p < MESSAGE_PARTITIONS; p++) {
        struct partition *partition = &quorum->partitions[p];
        if (partition->state == PARTITION_PREPARING) {
            partition->ballot = own_ballot(quorum);
            partition->mask = 0;
        }
    }
    ask(quorum);
}

/* The sequence starts anew with the round, so all partitions have the same ballot. */
static void prepare_all(struct quorum *quorum)
{
    bool any = false;
    for (uint32_t p = 0; p < MESSAGE_PARTITIONS; p++) {
        if (quorum->partitions[p].state != PARTITION_OTHERS) {
            quorum->partitions[p].state = PARTITION_PREPARING;
            any = true;
        }
    }
    if (any) {
        prepare(quorum);
    }
    work_ballots_changed(quorum);
}

void coordinator_own(struct quorum *quorum, const struct message_partitions *partitions)
{
    bool more = false;
    for (uint32_t p = 0; p < MESSAGE_PARTITIONS; p++) {
        struct partition *partition = &quorum->partitions[p];
        if (!message_partition_has(partitions, p)) {
            partition->state = PARTITION_OTHERS;
        } else if (partition->state == PARTITION_OTHERS) {
            partition->state = PARTITION_PREPARING;
            more = true;
        }
    }
    if (more) {
        prepare_all(quorum);
    } else {
        work_ballots_changed(quorum);
    }
}

static void note_round(struct quorum *quorum, uint64_t higher)
{
    uint32_t round = (uint32_t)(higher >> 16);
    if (round > quorum->heard_round) {
        quorum->heard_round = round;
    }
}

static bool refused(struct quorum *quorum, const struct message_promise *promise)
{
    bool any = false;
    for (uint32_t p = 0; p < MESSAGE_PARTITIONS; p++) {
        const struct partition *partition = &quorum->partitions[p];
        any = any ||
              (message_partition_has(&promise->refused, p) &&
               partition->state == PARTITION_PREPARING && partition->ballot == promise->ballot);
    }
    return any;
}

void coordinator_promise(struct quorum *quorum, const struct message *message)
{
    const struct message_promise *promise = &message->as.promise;
    uint32_t voter = 0;
    if (!quorum_from_voter(quorum, message, &voter)) {
        return;
    }
    bool prepared = false;
    for (uint32_t p = 0; p < MESSAGE_PARTITIONS; p++) {
        struct partition *partition = &quorum->partitions[p];
        if (partition->state != PARTITION_PREPARING || partition->ballot != promise->ballot ||
            !message_partition_has(&promise->promised, p)) {
            continue;
        }
        partition->mask |= (uint8_t)(1u << voter);
        if (mask_is_majority(quorum, partition->mask)) {
            partition->state = PARTITION_PREPARED;
            partition->prepared_ns = quorum->now_ns;
            prepared = true;
        }
    }
    if (refused(quorum, promise) && !quorum->prepare_anew) {
        int64_t pause_ns = (int64_t)(quorum->random % (2 * RESEND_MS * (uint64_t)MS_NS));
        quorum->prepare_anew = true;
        quorum->prepare_ns = quorum->now_ns + RESEND_MS * MS_NS / 2 + pause_ns;
        quorum_schedule(quorum, quorum->prepare_ns);
    }
    note_round(quorum, promise->higher);
    if (prepared) {
        work_ballots_changed(quorum);
    }
}

void coordinator_beaten(struct quorum *quorum, uint32_t p, uint64_t higher)
{
    struct partition *partition = &quorum->partitions[p];
    note_round(quorum, higher);
    if (higher > partition->ballot) {
        partition->state = PARTITION_OTHERS;
        work_ballots_changed(quorum);
    }
}

int64_t coordinator_tick(struct quorum *quorum)
{
    bool preparing = false;
    for (uint32_t p = 0; p < MESSAGE_PARTITIONS; p++) {
        preparing = preparing || quorum->partitions[p].state == PARTITION_PREPARING;
    }
    if (!preparing) {
        quorum->prepare_anew = false;
        return NEVER;
    }
    if (quorum->prepare_ns > quorum->now_ns) {
        return quorum->prepare_ns;
    }
    if (!quorum_has_room(quorum, MESSAGE_VOTERS_MAX + 1)) {
        return quorum->now_ns;
    }
    if (quorum->prepare_anew) {
        prepare_all(quorum);
    } else {
        ask(quorum);
    }
    return quorum->prepare_ns;
}

bool coordinator_next_order(struct quorum *quorum, uint32_t p, struct message_order *order)
{
    const struct partition *partition = &quorum->partitions[p];
    HF_CHECK(partition->state == PARTITION_PREPARED);
    if (quorum->sequence + 1 >= MESSAGE_SEQUENCE_LIMIT) {
        prepare_all(quorum);
        return false;
    }
    quorum->sequence++;
    *order = (struct message_order){.ballot = partition->ballot, .sequence = quorum->sequence};
    return true;
}
