/*
 * Deletion of idle registers (mode NONE). See sync.h.
 *
 * A checkpoint is a proposal like any other. It proposes "no register" for every idle name of a
 * partition, with one order for all. The coordinator makes a checkpoint when the partition is
 * complete and has no round under way. From then on the coordinator starts new names above the
 * floor, whether the checkpoint succeeds or not. An acceptor accepts the checkpoint only if its
 * live registers are exactly the coordinator's (by their digest), and it has no register above the
 * checkpoint's order. So a later read of a majority finds each live register, and learns from the
 * checkpoint that all other registers are deleted, even if one of the voters was away. A voter that
 * cannot accept the checkpoint says so in its answer, and catches up.
 *
 * An idle register at or below its partition's checkpoint is deleted, even if its row is still on
 * the disk. Rows for which a step has no room are deleted in later steps, or at the next start.
 */
#include "sync.h"

#include "proto/check.h"
#include "reactions.h"
#include "sync_private.h"

/* The simulator sets a shorter time. */
#ifndef CHECKPOINT_REST_MS
#define CHECKPOINT_REST_MS (10 * 60 * 1000)
#endif

enum {
    CHECK_MS = 250,    /* the time between two searches for a partition that needs a checkpoint */
    AGAIN_MS = 1000,   /* the least time between two checkpoints of a partition */
    GIVE_UP_MS = 2000, /* the age at which a checkpoint without a majority is given up */
    IDLE_MIN = 64,     /* a partition gets a checkpoint only with more idle registers than this */
    IDLE_PART = 4,     /* a partition gets a checkpoint only if more than one in this many registers
                        * is idle */
    /* a partition with any idle register gets a checkpoint, too, if it has not changed for this
     * time */
    REST_MS = CHECKPOINT_REST_MS,
    ROOM = 64, /* the room for actions that a step leaves to other modules */
};

static bool is_above(const struct record *record, struct message_order order)
{
    return message_order_before(order, record_accepted(record));
}

/* Deletes the register. Its row on the disk is deleted at once if the step has room, otherwise
 * later. */
static void take_away(struct quorum *quorum, uint32_t partition, uint32_t index)
{
    if (!step_has_room(quorum, 1 + ROOM)) {
        registers_delete_later(quorum, partition, index);
        return;
    }
    registers_delete(quorum, partition, index);
}

static void take_idle(struct quorum *quorum, uint32_t p, struct message_order order)
{
    uint32_t next = NONE;
    for (uint32_t at = registers_first(quorum, p); at != NONE; at = next) {
        next = registers_next(quorum, at);
        if (registers_at(quorum, at)->mode == MESSAGE_MODE_NONE &&
            !is_above(registers_at(quorum, at), order)) {
            take_away(quorum, p, at);
        }
    }
}

void sync_deletion_start(struct quorum *quorum)
{
    for (uint32_t p = 0; p < MESSAGE_PARTITIONS; p++) {
        struct message_order order = registers_checkpoint(quorum, p)->order;
        if (order.ballot != 0) {
            take_idle(quorum, p, order);
        }
        quorum->sync->checkpoints.changed_ns[p] = step_now_ns(quorum);
    }
}

/* ---- The acceptor's side ---- */

/* Returns whether this acceptor can accept the checkpoint. */
static bool can_follow(const struct quorum *quorum, const struct message_delete *asked)
{
    uint32_t p = asked->partition;
    if (registers_live_digest(quorum, p) != asked->live || queues_busy(quorum, p)) {
        return false;
    }
    for (uint32_t at = registers_first(quorum, p); at != NONE; at = registers_next(quorum, at)) {
        if (is_above(registers_at(quorum, at), asked->checkpoint.order)) {
            return false;
        }
    }
    return true;
}

void sync_checkpoint(struct quorum *quorum, const struct message *message)
{
    const struct message_delete *asked = &message->as.checkpoint;
    uint32_t voter = 0;
    if (!agents_proposer(quorum, message, asked->ballot, &voter) ||
        asked->checkpoint.order.ballot != asked->ballot) {
        return;
    }
    uint32_t p = asked->partition;
    uint64_t promised = registers_promised(quorum, p);
    struct message_order order = registers_checkpoint(quorum, p)->order;
    struct message_deleted answer = {
        .ballot = asked->ballot, .partition = asked->partition, .order = asked->checkpoint.order};
    if (asked->ballot < promised) {
        answer.higher = promised;
    } else if (message_order_before(asked->checkpoint.order, order)) {
        return; /* this voter has a newer checkpoint */
    } else if (!message_order_equal(asked->checkpoint.order, order)) {
        if (asked->ballot > promised) {
            registers_promise_one(quorum, p, asked->ballot);
        }
        answer.missing = !can_follow(quorum, asked);
        if (!answer.missing) {
            registers_keep_checkpoint(quorum, p, &asked->checkpoint);
            take_idle(quorum, p, asked->checkpoint.order);
        } else if (voter != quorum->config->self) {
            message_partition_add(&quorum->sync->behind, p);
        }
    }
    agents_send_voter(quorum, voter, MESSAGE_CHECKPOINTED)->as.checkpointed = answer;
}

/* Returns whether the register is deleted: the listing lacked it, and the checkpoint covers it. */
static bool is_gone(const struct quorum *quorum, uint32_t index, struct message_order order,
                    uint32_t listing)
{
    return registers_listing(quorum, index) != listing &&
           !is_above(registers_at(quorum, index), order);
}

/* Removes deleted registers. With `idle`, removes all that are idle here. Otherwise removes those
 * that are live here, as many as the step has room for. */
static void take_gone(struct quorum *quorum, uint32_t p, struct message_order order,
                      uint32_t listing, bool idle)
{
    uint32_t next = NONE;
    for (uint32_t at = registers_first(quorum, p); at != NONE; at = next) {
        next = registers_next(quorum, at);
        bool is_idle = registers_at(quorum, at)->mode == MESSAGE_MODE_NONE;
        if (is_idle == idle && is_gone(quorum, at, order, listing) &&
            (idle || step_has_room(quorum, 1 + ROOM))) {
            take_away(quorum, p, at);
        }
    }
}

bool sync_adopt_checkpoint(struct quorum *quorum, uint32_t p,
                           const struct message_checkpoint *checkpoint, uint32_t listing)
{
    uint32_t live = 0;
    for (uint32_t at = registers_first(quorum, p); at != NONE; at = registers_next(quorum, at)) {
        live += is_gone(quorum, at, checkpoint->order, listing) &&
                registers_at(quorum, at)->mode != MESSAGE_MODE_NONE;
    }
    if (queues_busy(quorum, p)) {
        return false;
    }
    /* A register that is live here must be deleted from the disk before the checkpoint is stored,
     * or in the same commit. Deleting it earlier is safe: its name was idle when the checkpoint was
     * made, and a majority has either that idle register or the checkpoint. */
    bool all = step_has_room(quorum, live + 2 + ROOM);
    if (all) {
        registers_keep_checkpoint(quorum, p, checkpoint);
    }
    take_gone(quorum, p, checkpoint->order, listing, false);
    if (all) {
        take_gone(quorum, p, checkpoint->order, listing, true);
    }
    return all;
}

/* ---- The coordinator's side ---- */

static void send_round(struct quorum *quorum)
{
    struct checkpoints *checkpoints = &quorum->sync->checkpoints;
    for (uint32_t voter = 0; voter < quorum->config->voter_count; voter++) {
        if ((checkpoints->mask >> voter & 1) == 0) {
            agents_send_voter(quorum, voter, MESSAGE_CHECKPOINT)->as.checkpoint =
                checkpoints->asked;
        }
    }
    checkpoints->next_ns = step_now_ns(quorum) + RESEND_MS * MS_NS;
    step_schedule(quorum, checkpoints->next_ns);
}

/* Returns the floor for a checkpoint: no idle register has used a token above it. */
static uint64_t floor_of(const struct quorum *quorum, uint32_t p)
{
    uint64_t floor = registers_floor(quorum, p);
    for (uint32_t at = registers_first(quorum, p); at != NONE; at = registers_next(quorum, at)) {
        const struct record *record = registers_at(quorum, at);
        if (record->mode == MESSAGE_MODE_NONE && record->token_first - 1 > floor) {
            floor = record->token_first - 1;
        }
    }
    return floor;
}

static bool is_wanted(struct quorum *quorum, uint32_t p)
{
    struct checkpoints *checkpoints = &quorum->sync->checkpoints;
    uint32_t idle = registers_idle_of(quorum, p);
    uint64_t digest = registers_digest(quorum, p);
    if (digest != checkpoints->digest[p]) {
        checkpoints->digest[p] = digest;
        checkpoints->changed_ns[p] = step_now_ns(quorum);
    }
    if (ballots_state(quorum, p) != PARTITION_PREPARED || !ballots_is_complete(quorum, p) ||
        queues_busy(quorum, p) || step_now_ns(quorum) < checkpoints->again_ns[p]) {
        return false;
    }
    bool many = idle > IDLE_MIN && idle * IDLE_PART > registers_count_of(quorum, p);
    return many ||
           (idle > 0 && step_now_ns(quorum) - checkpoints->changed_ns[p] >= REST_MS * MS_NS);
}

static void begin(struct quorum *quorum, uint32_t p)
{
    struct checkpoints *checkpoints = &quorum->sync->checkpoints;
    struct message_delete *asked = &checkpoints->asked;
    uint64_t floor = floor_of(quorum, p);
    checkpoints->again_ns[p] = step_now_ns(quorum) + AGAIN_MS * MS_NS;
    /* If a name's tokens are used up, or nearly, its partition gets no checkpoint: new names would
     * have to start above that name's tokens. */
    uint64_t generation_first = floor & ~(MESSAGE_TOKEN_GENERATION - 1);
    if (floor - generation_first >= MESSAGE_TOKEN_GENERATION - MESSAGE_TOKEN_BLOCK ||
        !ballots_next_order(quorum, p, &asked->checkpoint.order)) {
        return;
    }
    asked->ballot = ballots_of(quorum, p);
    asked->partition = (uint8_t)p;
    asked->checkpoint.floor = floor;
    asked->live = registers_live_digest(quorum, p);
    registers_raise_floor(quorum, p, floor);
    checkpoints->active = true;
    checkpoints->mask = 0;
    checkpoints->missing = 0;
    checkpoints->began_ns = step_now_ns(quorum);
    send_round(quorum);
}

static void end(struct quorum *quorum)
{
    quorum->sync->checkpoints.active = false;
    /* consider the next partition at once */
    quorum->sync->checkpoints.next_ns = step_now_ns(quorum);
}

void sync_checkpointed(struct quorum *quorum, const struct message *message)
{
    const struct message_deleted *answer = &message->as.checkpointed;
    struct checkpoints *checkpoints = &quorum->sync->checkpoints;
    uint32_t voter = 0;
    if (!checkpoints->active || !agents_voter(quorum, message, &voter) ||
        answer->partition != checkpoints->asked.partition ||
        !message_order_equal(answer->order, checkpoints->asked.checkpoint.order)) {
        return;
    }
    if (answer->higher != 0) {
        end(quorum);
        ballots_preempted(quorum, answer->partition, answer->higher);
        return;
    }
    if (answer->missing) {
        checkpoints->missing |= (uint8_t)(1u << voter);
    } else {
        checkpoints->mask |= (uint8_t)(1u << voter);
    }
    uint32_t left = quorum->config->voter_count - rules_count(checkpoints->missing);
    if (left < rules_majority(quorum) ||
        rules_count(checkpoints->mask) == quorum->config->voter_count ||
        rules_count(checkpoints->mask | checkpoints->missing) == quorum->config->voter_count) {
        end(quorum);
    }
}

void sync_recount(struct quorum *quorum)
{
    quorum->sync->checkpoints.active = false;
}

static void continue_round(struct quorum *quorum)
{
    struct checkpoints *checkpoints = &quorum->sync->checkpoints;
    uint32_t p = checkpoints->asked.partition;
    if (ballots_state(quorum, p) != PARTITION_PREPARED ||
        ballots_of(quorum, p) != checkpoints->asked.ballot ||
        rules_is_majority(quorum, checkpoints->mask) ||
        step_now_ns(quorum) - checkpoints->began_ns >= GIVE_UP_MS * MS_NS) {
        end(quorum);
    } else {
        send_round(quorum);
    }
}

void sync_end_step(struct quorum *quorum)
{
    struct checkpoints *checkpoints = &quorum->sync->checkpoints;
    if (registers_have_rows(quorum)) {
        registers_delete_rows(quorum, ROOM);
        step_schedule(quorum, step_now_ns(quorum));
    }
    /* No deletion begins while the voters are being changed: everything that a majority of the
     * previous voters held must be found at the present voters. */
    if (step_now_ns(quorum) < checkpoints->next_ns || !reaction_votes(quorum) ||
        reaction_is_changing(quorum) || !step_has_room(quorum, 2 * MESSAGE_VOTERS_MAX + 2)) {
        return;
    }
    if (checkpoints->active) {
        continue_round(quorum);
        return;
    }
    checkpoints->next_ns = step_now_ns(quorum) + CHECK_MS * MS_NS;
    for (uint32_t i = 0; i < MESSAGE_PARTITIONS; i++) {
        uint32_t p = checkpoints->cursor;
        checkpoints->cursor = (p + 1) % MESSAGE_PARTITIONS;
        if (is_wanted(quorum, p)) {
            begin(quorum, p);
            return;
        }
    }
}

int64_t sync_deletion_tick(const struct quorum *quorum)
{
    if (registers_have_rows(quorum)) {
        return step_now_ns(quorum);
    }
    return quorum->sync->checkpoints.active ? quorum->sync->checkpoints.next_ns : NEVER;
}
