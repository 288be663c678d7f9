/*
 * A store that learns, because its agent may become a voter. See change.h.
 *
 * It copies the registers and checkpoints of the voter that proposes, partition by partition,
 * again and again until it joins: without a pause until it is ready, and then once a second.
 * Without that pause the two stores would compare their registers as fast as they can for as long
 * as the voters cannot decide. It copies no marks: a voter marks a session only by its own clock
 * (m15). Safety does not depend on how much it has copied: its answers do not count yet, and a
 * number is complete only when a majority of its voters has everything. The more it has copied,
 * the sooner the larger cell has all its voters up to date.
 */
#include <string.h>

#include "change_private.h"

enum {
    REPORT_MS = 200,
    FORGET_MS = 10000, /* this store ceases to learn if no LEARN came for this long */
    REST_MS = 1000,    /* a store that is ready begins a pass so long after its last one */
    PASSES = 2,        /* after so many passes this store has everything except what changed during
                        * the last pass */
};

bool learning_is_ready(const struct quorum *quorum)
{
    return members_status(quorum) == MESSAGE_STATUS_LEARNING && quorum->changes->learning.id != 0 &&
           quorum->changes->learning.passes >= PASSES;
}

void change_learn(struct quorum *quorum, const struct message *message)
{
    const struct message_told *told = &message->as.told;
    struct learning *learning = &quorum->changes->learning;
    uint32_t voter = 0;
    if (!members_same_voters(quorum, message) || !agents_voter(quorum, message, &voter)) {
        return;
    }
    if (told->learn) {
        members_learn_again(quorum);
    }
    if (members_status(quorum) != MESSAGE_STATUS_LEARNING) {
        return;
    }
    if (!told->learn) {
        memset(learning, 0, sizeof(*learning));
        return;
    }
    if (learning->id != told->id) {
        memset(learning, 0, sizeof(*learning));
        learning->id = told->id;
        learning->proposer = message->from;
    }
    learning->until_ns = step_now_ns(quorum) + FORGET_MS * MS_NS;
    learning->next_ns = step_now_ns(quorum);
    step_schedule(quorum, step_now_ns(quorum));
}

void change_listing_read(struct quorum *quorum, uint32_t partition)
{
    struct learning *learning = &quorum->changes->learning;
    if (learning->id == 0 || message_partition_has(&learning->read, partition)) {
        return;
    }
    message_partition_add(&learning->read, partition);
    if (++learning->copied == MESSAGE_PARTITIONS) {
        learning->passes++;
        learning->copied = 0;
        memset(&learning->read, 0, sizeof(learning->read));
        if (learning_is_ready(quorum)) {
            learning->rest_ns = step_now_ns(quorum) + REST_MS * MS_NS;
        }
    }
    learning->next_ns = step_now_ns(quorum);
    step_schedule(quorum, step_now_ns(quorum));
}

static void report(struct quorum *quorum, uint32_t proposer)
{
    const struct learning *learning = &quorum->changes->learning;
    struct message_learned *out = &agents_send_voter(quorum, proposer, MESSAGE_LEARNED)->as.learned;
    out->id = learning->id;
    out->ready = learning_is_ready(quorum);
    out->copied = out->ready ? MESSAGE_PARTITIONS : learning->copied;
    out->total = MESSAGE_PARTITIONS;
}

int64_t learning_tick(struct quorum *quorum)
{
    struct learning *learning = &quorum->changes->learning;
    uint32_t agent = 0;
    if (learning->id == 0 || members_status(quorum) != MESSAGE_STATUS_LEARNING) {
        return NEVER;
    }
    if (learning->next_ns > step_now_ns(quorum)) {
        return learning->next_ns;
    }
    uint32_t voter = agents_find(quorum, &learning->proposer, &agent)
                         ? agents_as_voter(quorum, agent)
                         : quorum->config->voter_count;
    if (voter == quorum->config->voter_count || learning->until_ns < step_now_ns(quorum)) {
        memset(learning, 0, sizeof(*learning));
        return NEVER;
    }
    if (!step_has_room(quorum, 4 * MESSAGE_VOTERS_MAX)) {
        return step_now_ns(quorum);
    }
    bool rests = learning->rest_ns > step_now_ns(quorum);
    for (uint32_t p = 0; p < MESSAGE_PARTITIONS && !rests; p++) {
        if (!message_partition_has(&learning->read, p) &&
            !sync_read(quorum, voter, MESSAGE_SYNC_REGISTERS, p)) {
            break;
        }
    }
    report(quorum, voter);
    learning->next_ns = step_now_ns(quorum) + REPORT_MS * MS_NS;
    return learning->next_ns;
}
