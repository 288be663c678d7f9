/*
 * Which partitions this voter coordinates, and under which ballot. See ballots.h.
 *
 * Partitions that are prepared at the same time share a ballot. They keep that ballot when more
 * partitions are prepared later. One counter numbers the proposals of all ballots of a process.
 *
 * If a voter refuses a PREPARE because of a higher promise, this voter tries again under a higher
 * round. If a voter refuses because another voter coordinates the partition, this voter tries again
 * under the same round. Before each try it waits for a short random time.
 *
 * When the record of voters changes, a prepared partition stays prepared under its ballot for one
 * more number: it is *carried* (docs/PROTOCOL.md, rule 44). Meanwhile this voter asks the voters of
 * the new record to promise the same ballot. Once a majority of them has, the partition is as if it
 * had been prepared under the new number.
 */
#include "ballots.h"

#include "ballots_private.h"
#include "proto/check.h"
#include "reactions.h"

enum {
    PREPARE_MS = 50, /* how long to wait before sending an unanswered PREPARE again */
    PAUSE_MIN_MS = 20,
    PAUSE_MAX_MS = 60,
    REFUSED_MS = 1000,
    /* An agent that connects within this time after a take-over is sent OWNER. An agent that
     * connects later does not need it: its host has sent its requests again meanwhile. */
    OWNER_AGAIN_MS = 1000,
    /* A partition that is yielded is given up after this time, if no voter has taken it over. */
    YIELD_MS = 1000,
};

struct ballots *ballots_lay_out(struct arena *arena)
{
    return arena_take(arena, 1, sizeof(struct ballots));
}

static uint64_t own_ballot(const struct quorum *quorum)
{
    HF_CHECK(quorum->config->self != QUORUM_NO_VOTER);
    return (uint64_t)quorum->ballots->round << 16 |
           quorum->config->ballot_ids[quorum->config->self];
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

uint32_t quorum_preferred(const struct message_agent *voters, uint32_t voter_count,
                          uint32_t partition)
{
    uint32_t best = 0;
    for (uint32_t voter = 1; voter < voter_count; voter++) {
        if (weight(&voters[voter], partition) > weight(&voters[best], partition)) {
            best = voter;
        }
    }
    return best;
}

void ballots_init(struct quorum *quorum)
{
    quorum->ballots->prepare_ns = NEVER;
    quorum->ballots->retry_ns = NEVER;
    for (uint32_t p = 0; p < MESSAGE_PARTITIONS; p++) {
        quorum->ballots->of[p].refused_ns = INT64_MIN / 2;
        quorum->ballots->of[p].left_ns = INT64_MIN / 2;
        quorum->ballots->of[p].spent = true;
    }
    ballots_follow(quorum, 1);
}

void ballots_follow(struct quorum *quorum, uint32_t number)
{
    quorum->ballots->number = number;
    for (uint32_t p = 0; p < MESSAGE_PARTITIONS; p++) {
        uint8_t *order = quorum->ballots->of[p].order;
        for (uint32_t voter = 0; voter < quorum->config->voter_count; voter++) {
            uint64_t own = weight(&quorum->config->voters[voter], p);
            uint32_t at = voter;
            while (at > 0 && weight(&quorum->config->voters[order[at - 1]], p) < own) {
                order[at] = order[at - 1];
                at--;
            }
            order[at] = (uint8_t)voter;
        }
    }
}

/* Returns the partition's preferred voter among those in the mask `able`; voter_count if the mask
 * is empty. */
static uint32_t preferred_of(const struct quorum *quorum, uint32_t p, uint8_t able)
{
    for (uint32_t i = 0; i < quorum->config->voter_count; i++) {
        uint32_t voter = quorum->ballots->of[p].order[i];
        if ((able >> voter & 1) != 0) {
            return voter;
        }
    }
    return quorum->config->voter_count;
}

void ballots_load_round(struct quorum *quorum, uint32_t round)
{
    struct ballots *ballots = quorum->ballots;
    ballots->round = round > ballots->round ? round : ballots->round;
}

void ballots_start(struct quorum *quorum)
{
    bool alone = quorum->config->voter_count == 1;
    quorum->ballots->begin_ns = alone ? INT64_MIN
                                      : step_now_ns(quorum) + 3 * QUORUM_HEARTBEAT_MS / 2 * MS_NS;
    for (uint32_t p = 0; p < MESSAGE_PARTITIONS; p++) {
        ballots_note(quorum, registers_promised(quorum, p));
    }
}

uint32_t ballots_round(const struct quorum *quorum)
{
    return quorum->ballots->round;
}

void ballots_note(struct quorum *quorum, uint64_t ballot)
{
    uint32_t round = (uint32_t)(ballot >> 16);
    if (round > quorum->ballots->seen_round) {
        quorum->ballots->seen_round = round;
    }
}

uint64_t ballots_next(struct quorum *quorum)
{
    struct ballots *ballots = quorum->ballots;
    uint32_t highest = ballots->seen_round > ballots->round ? ballots->seen_round : ballots->round;
    if (highest == UINT32_MAX) {
        return 0; /* rounds are used up: this voter never prepares again */
    }
    ballots->round = highest + 1;
    step_emit(quorum, ACTION_PERSIST_ROUND)->as.round = ballots->round;
    return own_ballot(quorum);
}

bool ballots_is_owned(const struct quorum *quorum, uint32_t p, uint32_t voter)
{
    const struct ballot *partition = &quorum->ballots->of[p];
    bool own = voter != quorum->config->self && partition->state == PARTITION_PREPARED &&
               !partition->yields && voters_majority(quorum);
    return own || voters_claimed(quorum, p, voter);
}

/* ---- States ---- */

static void set_state(struct quorum *quorum, uint32_t p, enum partition_state state)
{
    struct ballot *partition = &quorum->ballots->of[p];
    quorum->ballots->preparing -= partition->state == PARTITION_PREPARING;
    quorum->ballots->incomplete -= partition->state == PARTITION_PREPARED && !partition->complete;
    quorum->ballots->carried -= partition->carried;
    step_counts(quorum)->left += partition->state == PARTITION_PREPARED &&
                                 state != PARTITION_PREPARED;
    step_counts(quorum)->taken_over += partition->state != PARTITION_PREPARED &&
                                       state == PARTITION_PREPARED;
    if (partition->state == PARTITION_PREPARED && state != PARTITION_PREPARED) {
        partition->left_ns = step_now_ns(quorum);
    }
    partition->state = (uint8_t)state;
    partition->complete = false;
    partition->carried = false;
    partition->yields = false;
    partition->synced = 0;
    partition->anew = false;
    quorum->ballots->preparing += state == PARTITION_PREPARING;
    quorum->ballots->incomplete += state == PARTITION_PREPARED;
}

static void look_again_at(struct quorum *quorum, int64_t when_ns)
{
    if (when_ns < quorum->ballots->retry_ns) {
        quorum->ballots->retry_ns = when_ns;
        step_schedule(quorum, when_ns);
    }
}

static void prepare_at(struct quorum *quorum, int64_t when_ns)
{
    if (when_ns < quorum->ballots->prepare_ns) {
        quorum->ballots->prepare_ns = when_ns;
        step_schedule(quorum, when_ns);
    }
}

static int64_t pause_ns(const struct quorum *quorum)
{
    uint64_t range_ns = (PAUSE_MAX_MS - PAUSE_MIN_MS) * (uint64_t)MS_NS;
    return PAUSE_MIN_MS * MS_NS + (int64_t)(step_random(quorum) % range_ns);
}

/* ---- Preparing ---- */

static uint32_t others_of(const struct quorum *quorum, const struct ballot *partition)
{
    return rules_count((uint8_t)(partition->mask & ~(1u << quorum->config->self)));
}

/* Returns whether to ask that voter for its promise now. This voter's own acceptor comes last
 * (ballots.h), unless it has promised the ballot already. */
static bool is_asked(const struct quorum *quorum, const struct ballot *partition, uint32_t voter)
{
    bool prepares = partition->state == PARTITION_PREPARING && !partition->anew &&
                    (voter != quorum->config->self ||
                     others_of(quorum, partition) + 1 >= rules_majority(quorum));
    return (prepares || partition->carried) && (partition->mask >> voter & 1) == 0;
}

/* Returns the lowest ballot above `ballot` for which that voter is to be asked for a promise; 0 if
 * there is none. */
static uint64_t ballot_above(const struct quorum *quorum, uint32_t voter, uint64_t ballot)
{
    uint64_t next = 0;
    for (uint32_t p = 0; p < MESSAGE_PARTITIONS; p++) {
        const struct ballot *partition = &quorum->ballots->of[p];
        if (partition->ballot > ballot && is_asked(quorum, partition, voter) &&
            (next == 0 || partition->ballot < next)) {
            next = partition->ballot;
        }
    }
    return next;
}

/* Asks a voter for the promises that it has not given yet: one message for each ballot. */
static void ask_voter(struct quorum *quorum, uint32_t voter)
{
    uint64_t ballot = ballot_above(quorum, voter, 0);
    for (; ballot != 0; ballot = ballot_above(quorum, voter, ballot)) {
        if (!step_has_room(quorum, 1)) {
            prepare_at(quorum, step_now_ns(quorum));
            return;
        }
        struct message_prepare *prepare =
            &agents_send_voter(quorum, voter, MESSAGE_PREPARE)->as.prepare;
        prepare->ballot = ballot;
        for (uint32_t p = 0; p < MESSAGE_PARTITIONS; p++) {
            if (quorum->ballots->of[p].ballot == ballot &&
                is_asked(quorum, &quorum->ballots->of[p], voter)) {
                message_partition_add(&prepare->partitions, p);
            }
        }
    }
}

static void ask(struct quorum *quorum)
{
    quorum->ballots->prepare_ns = NEVER;
    for (uint32_t voter = 0; voter < quorum->config->voter_count; voter++) {
        ask_voter(quorum, voter);
    }
    prepare_at(quorum, step_now_ns(quorum) + PREPARE_MS * MS_NS);
}

/* Takes a new round for all partitions that need a new ballot. */
static void new_round(struct quorum *quorum)
{
    bool any = false;
    for (uint32_t p = 0; p < MESSAGE_PARTITIONS; p++) {
        any = any ||
              (quorum->ballots->of[p].state == PARTITION_PREPARING && quorum->ballots->of[p].anew);
    }
    uint64_t ballot = any ? ballots_next(quorum) : 0;
    if (ballot == 0) {
        return;
    }
    for (uint32_t p = 0; p < MESSAGE_PARTITIONS; p++) {
        struct ballot *partition = &quorum->ballots->of[p];
        if (partition->state == PARTITION_PREPARING && partition->anew) {
            partition->ballot = ballot;
            partition->mask = 0;
            partition->anew = false;
            partition->spent = false;
        }
    }
}

static void begin(struct quorum *quorum, uint32_t p)
{
    struct ballot *partition = &quorum->ballots->of[p];
    set_state(quorum, p, PARTITION_PREPARING);
    if (step_now_ns(quorum) - partition->refused_ns > REFUSED_MS * MS_NS) {
        /* a new take-over begins; otherwise this is another try of the last one */
        partition->began_ns = step_now_ns(quorum);
    }
    partition->anew = true;
}

/* Prepares all partitions of this voter under a new ballot, in which the sequence numbers start
 * again. Call it when the sequence numbers are used up. */
static void prepare_all(struct quorum *quorum)
{
    for (uint32_t p = 0; p < MESSAGE_PARTITIONS; p++) {
        if (quorum->ballots->of[p].state != PARTITION_OTHERS) {
            begin(quorum, p);
        }
    }
    quorum->ballots->sequence = 0;
    new_round(quorum);
    ask(quorum);
    reaction_ballots_changed(quorum);
}

/* Returns whether this voter may still use the partition's ballot under the present record. A
 * majority must have promised it under the previous record, and this voter's number in ballots must
 * be the same as under that record. */
static bool may_carry(const struct quorum *quorum, const struct ballot *partition)
{
    uint32_t self = quorum->config->self;
    return partition->state == PARTITION_PREPARED &&
           partition->number + 1 == quorum->ballots->number && self != QUORUM_NO_VOTER &&
           (partition->ballot & UINT16_MAX) == quorum->config->ballot_ids[self];
}

/* Prepares the partitions of this voter again, apart from those that it carries. */
static void prepare_anew(struct quorum *quorum, bool carries)
{
    bool any = false;
    for (uint32_t p = 0; p < MESSAGE_PARTITIONS; p++) {
        struct ballot *partition = &quorum->ballots->of[p];
        partition->spent = true;
        any = any || partition->state != PARTITION_OTHERS;
        if (carries && may_carry(quorum, partition)) {
            quorum->ballots->carried += !partition->carried;
            partition->carried = true;
            partition->mask = 0;
            partition->synced = 0;
        } else if (partition->state != PARTITION_OTHERS) {
            begin(quorum, p);
        }
    }
    if (any) {
        prepare_at(quorum, step_now_ns(quorum));
        voters_heartbeat_soon(quorum);
        reaction_ballots_changed(quorum);
    }
}

void ballots_recount(struct quorum *quorum)
{
    prepare_anew(quorum, false);
}

void ballots_carry(struct quorum *quorum)
{
    prepare_anew(quorum, true);
}

static void resign(struct quorum *quorum, uint32_t p)
{
    set_state(quorum, p, PARTITION_OTHERS);
    quorum->ballots->of[p].retry_ns = 0;
}

/* Returns whether another voter has taken over this partition while this process was stopped:
 * another voter claims it, and this process stopped for a while after it had prepared the
 * partition. */
static bool replaced(const struct quorum *quorum, uint32_t p)
{
    return quorum->ballots->of[p].prepared_ns < voters_slept_ns(quorum) &&
           voters_claimed(quorum, p, quorum->config->self);
}

/* Reviews a prepared partition whose preferred voter is `best`. Sets *yields if this voter has
 * begun, or has ceased, to yield the partition in this call. Returns true if this voter
 * resigned. */
static bool review_prepared(struct quorum *quorum, uint32_t p, uint32_t best, bool *yields)
{
    struct ballot *partition = &quorum->ballots->of[p];
    uint32_t self = quorum->config->self;
    int64_t end_ns = partition->yields_ns + YIELD_MS * MS_NS;
    bool leaves = self != QUORUM_NO_VOTER && (voters_leaving(quorum) >> self & 1) != 0;
    bool to_other = self != QUORUM_NO_VOTER && voters_self_able(quorum) && best != self;
    if (to_other && best < quorum->config->voter_count &&
        (leaves || partition->yields || voters_settled(quorum, best))) {
        if (!partition->yields) {
            partition->yields = true;
            partition->yields_ns = step_now_ns(quorum);
            *yields = true;
            look_again_at(quorum, step_now_ns(quorum) + YIELD_MS * MS_NS);
            return false;
        }
        if (step_now_ns(quorum) < end_ns && !voters_claimed(quorum, p, self)) {
            look_again_at(quorum, end_ns);
            return false;
        }
    } else if (to_other) {
        return false;
    } else if (best == self && !replaced(quorum, p)) {
        *yields = *yields || partition->yields;
        partition->yields = false;
        return false;
    }
    resign(quorum, p);
    return true;
}

/* Decides about one partition. Returns true if its state changed. */
static bool review_one(struct quorum *quorum, uint32_t p, uint8_t able, bool *yields)
{
    struct ballot *partition = &quorum->ballots->of[p];
    uint32_t self = quorum->config->self;
    uint32_t best = preferred_of(quorum, p, able);
    switch ((enum partition_state)partition->state) {
    case PARTITION_PREPARED:
        return review_prepared(quorum, p, best, yields);
    case PARTITION_PREPARING:
        if (best == self && !voters_claimed(quorum, p, self)) {
            return false;
        }
        resign(quorum, p);
        return true;
    case PARTITION_OTHERS:
        break;
    }
    if (best != self || voters_claimed(quorum, p, self)) {
        return false;
    }
    int64_t begin_ns = partition->retry_ns > quorum->ballots->begin_ns ? partition->retry_ns
                                                                       : quorum->ballots->begin_ns;
    if (step_now_ns(quorum) < begin_ns) {
        look_again_at(quorum, begin_ns);
        return false;
    }
    bool again = step_now_ns(quorum) - partition->refused_ns <= REFUSED_MS * MS_NS &&
                 !partition->spent;
    begin(quorum, p);
    partition->anew = !again; /* if `again` is set, the promises given for this ballot still hold */
    return true;
}

void ballots_review(struct quorum *quorum)
{
    if (!step_started(quorum)) {
        return;
    }
    if (!step_has_room(quorum, 2 * MESSAGE_VOTERS_MAX + 1)) {
        look_again_at(quorum, step_now_ns(quorum));
        return;
    }
    if (step_now_ns(quorum) < quorum->ballots->begin_ns && voters_all_seen(quorum)) {
        quorum->ballots->begin_ns = step_now_ns(quorum);
    }
    uint8_t able = voters_able(quorum);
    bool begun = false;
    bool changed = false;
    bool released = false;
    bool yields = false;
    quorum->ballots->retry_ns = NEVER;
    for (uint32_t p = 0; p < MESSAGE_PARTITIONS; p++) {
        bool owned = quorum->ballots->of[p].state == PARTITION_PREPARED;
        if (review_one(quorum, p, able, &yields)) {
            changed = true;
            begun = begun || quorum->ballots->of[p].state == PARTITION_PREPARING;
            released = released || owned;
        }
    }
    if (step_now_ns(quorum) < voters_idle_until_ns(quorum)) {
        look_again_at(quorum, voters_idle_until_ns(quorum));
    }
    if (begun) {
        new_round(quorum);
        ask(quorum);
    }
    if (released || yields) {
        voters_heartbeat_soon(quorum);
    }
    if (changed) {
        reaction_ballots_changed(quorum);
    }
}

/* ---- Answers ---- */

/* Handles a voter's refusal of that partition's PREPARE. Returns true if this voter gives up the
 * partition for now. */
static bool refused(struct quorum *quorum, uint32_t p, bool owned)
{
    struct ballot *partition = &quorum->ballots->of[p];
    if (owned) {
        partition->refused_ns = step_now_ns(quorum);
    }
    if (owned && step_now_ns(quorum) - partition->began_ns > QUORUM_TAKEOVER_MS * MS_NS) {
        /* The partition has a coordinator whose heartbeats this voter does not receive. */
        set_state(quorum, p, PARTITION_OTHERS);
        partition->retry_ns = step_now_ns(quorum) + RESEND_MS * MS_NS;
        look_again_at(quorum, partition->retry_ns);
        return true;
    }
    if (!owned) {
        partition->anew = true;
        partition->spent = true;
    }
    prepare_at(quorum, step_now_ns(quorum) + pause_ns(quorum));
    return false;
}

/* Returns whether a majority that includes this voter has promised. This voter's own promise is
 * needed, because its registers count as read (sync.c): from now on its acceptor must not accept
 * under lower ballots. */
static bool has_majority(const struct quorum *quorum, const struct ballot *partition)
{
    return (partition->mask >> quorum->config->self & 1) != 0 &&
           rules_is_majority(quorum, partition->mask);
}

static void prepared(struct quorum *quorum, uint32_t p)
{
    struct ballot *partition = &quorum->ballots->of[p];
    set_state(quorum, p, PARTITION_PREPARED);
    partition->spent = true;
    partition->number = quorum->ballots->number;
    partition->prepared_ns = step_now_ns(quorum);
    if (quorum->config->voter_count == 1) {
        partition->complete = true;
        quorum->ballots->incomplete--;
        return;
    }
    message_partition_add(&quorum->ballots->announce, p);
    quorum->ballots->announce_next = 0;
    quorum->ballots->announcing = true;
    quorum->ballots->announce_ballot = partition->ballot > quorum->ballots->announce_ballot
                                           ? partition->ballot
                                           : quorum->ballots->announce_ballot;
    step_schedule(quorum, step_now_ns(quorum));
}

/* Notes that a majority of the present record's voters has promised the carried ballot. */
static void confirmed(struct quorum *quorum, struct ballot *partition)
{
    partition->carried = false;
    quorum->ballots->carried--;
    partition->number = quorum->ballots->number;
    if (quorum->config->voter_count == 1 && !partition->complete) {
        partition->complete = true; /* before the change there were at most two voters, so this
                                     * voter was in every majority */
        quorum->ballots->incomplete--;
    }
}

/* Notes a promise for a partition that this voter has prepared, or is preparing. Returns true if
 * the partition may be used, or may be read, from now on. */
static bool promised(struct quorum *quorum, uint32_t p, uint32_t voter)
{
    struct ballot *partition = &quorum->ballots->of[p];
    bool open = ballots_is_open(quorum, p);
    partition->mask |= (uint8_t)(1u << voter);
    if (partition->state == PARTITION_PREPARING && has_majority(quorum, partition)) {
        prepared(quorum, p);
        return true;
    }
    if (partition->carried && has_majority(quorum, partition)) {
        confirmed(quorum, partition);
        return true;
    }
    return partition->state == PARTITION_PREPARED && !open && ballots_is_open(quorum, p);
}

void ballots_promise(struct quorum *quorum, const struct message *message)
{
    const struct message_promise *promise = &message->as.promise;
    uint32_t voter = 0;
    if (!agents_voter(quorum, message, &voter)) {
        return;
    }
    ballots_note(quorum, promise->higher);
    bool changed = false;
    bool any_prepared = false;
    for (uint32_t p = 0; p < MESSAGE_PARTITIONS; p++) {
        struct ballot *partition = &quorum->ballots->of[p];
        if (partition->state == PARTITION_OTHERS || partition->ballot != promise->ballot ||
            partition->anew) {
            continue;
        }
        if (message_partition_has(&promise->promised, p)) {
            any_prepared |= promised(quorum, p, voter);
        } else if (partition->carried && message_partition_has(&promise->refused, p)) {
            ballots_preempted(quorum, p, promise->higher);
        } else if (partition->state == PARTITION_PREPARING &&
                   (message_partition_has(&promise->refused, p) ||
                    message_partition_has(&promise->owned, p))) {
            changed |= refused(quorum, p, message_partition_has(&promise->owned, p));
        }
    }
    if (voter != quorum->config->self && quorum->ballots->preparing > 0) {
        ask_voter(quorum, quorum->config->self);
    }
    if (any_prepared) {
        voters_heartbeat_soon(quorum);
        reaction_prepared(quorum);
    }
    if (any_prepared || changed) {
        reaction_ballots_changed(quorum);
    }
}

void ballots_prepare_again(struct quorum *quorum, uint32_t p)
{
    /* the partition is prepared again, unless review_one() sees that another voter claims it */
    begin(quorum, p);
    prepare_at(quorum, step_now_ns(quorum) + pause_ns(quorum));
    bool yields = false;
    (void)review_one(quorum, p, voters_able(quorum), &yields);
    voters_heartbeat_soon(quorum);
    reaction_ballots_changed(quorum);
}

void ballots_preempted(struct quorum *quorum, uint32_t p, uint64_t higher)
{
    struct ballot *partition = &quorum->ballots->of[p];
    ballots_note(quorum, higher);
    if (higher <= partition->ballot || partition->state == PARTITION_OTHERS) {
        return;
    }
    if (partition->state == PARTITION_PREPARED) {
        ballots_prepare_again(quorum, p);
    }
}

void ballots_round_age(struct quorum *quorum, const struct voters_round *round)
{
    if (voters_round_stuck(quorum, round)) {
        look_again_at(quorum, step_now_ns(quorum));
    }
}

/* ---- Notifying the hosts ---- */

/* Returns whether to send OWNER to that agent: it has a session here, or it is this voter itself. A
 * process that has just started assumes that every agent has a session. */
static bool is_notified(const struct quorum *quorum, uint32_t agent)
{
    int64_t seen_ns = sessions_seen_ns(quorum, agent);
    return agent == agents_of_voter(quorum, quorum->config->self) ||
           step_now_ns(quorum) - seen_ns <= rules_long_ns(quorum, quorum->config->session_ttl_ns);
}

static int64_t announce(struct quorum *quorum)
{
    if (!quorum->ballots->announcing) {
        return NEVER;
    }
    while (quorum->ballots->announce_next < agents_count(quorum)) {
        if (!step_has_room(quorum, 2 * MESSAGE_VOTERS_MAX)) {
            return step_now_ns(quorum);
        }
        uint32_t agent = quorum->ballots->announce_next++;
        if (is_notified(quorum, agent)) {
            struct message_owner *owner = &step_send(quorum, agent, MESSAGE_OWNER)->as.owner;
            owner->ballot = quorum->ballots->announce_ballot;
            owner->partitions = quorum->ballots->announce;
        }
    }
    quorum->ballots->announcing = false;
    quorum->ballots->announce = (struct message_partitions){{0}};
    return NEVER;
}

void ballots_reached(struct quorum *quorum, const struct message_agent *name)
{
    uint32_t agent = 0;
    struct message_owner owner = {0};
    if (quorum->config->voter_count == 1 || !agents_find(quorum, name, &agent) ||
        !is_notified(quorum, agent) || !step_has_room(quorum, 1)) {
        return; /* not sending OWNER is harmless: the host repeats its request anyway */
    }
    for (uint32_t p = 0; p < MESSAGE_PARTITIONS; p++) {
        const struct ballot *partition = &quorum->ballots->of[p];
        if (partition->state == PARTITION_PREPARED &&
            step_now_ns(quorum) - partition->prepared_ns < OWNER_AGAIN_MS * MS_NS) {
            message_partition_add(&owner.partitions, p);
            owner.ballot = partition->ballot > owner.ballot ? partition->ballot : owner.ballot;
        }
    }
    if (owner.ballot != 0) {
        step_send(quorum, agent, MESSAGE_OWNER)->as.owner = owner;
    }
}

int64_t ballots_tick(struct quorum *quorum)
{
    int64_t next_ns = NEVER;
    if (quorum->ballots->retry_ns <= step_now_ns(quorum)) {
        ballots_review(quorum);
    }
    if (quorum->ballots->preparing + quorum->ballots->carried == 0) {
        quorum->ballots->prepare_ns = NEVER;
    } else if (quorum->ballots->prepare_ns <= step_now_ns(quorum)) {
        if (!step_has_room(quorum, 2 * MESSAGE_VOTERS_MAX + 1)) {
            return step_now_ns(quorum);
        }
        new_round(quorum);
        ask(quorum);
    }
    next_ns = announce(quorum);
    next_ns = quorum->ballots->prepare_ns < next_ns ? quorum->ballots->prepare_ns : next_ns;
    return quorum->ballots->retry_ns < next_ns ? quorum->ballots->retry_ns : next_ns;
}

bool ballots_next_order(struct quorum *quorum, uint32_t p, struct message_order *order)
{
    const struct ballot *partition = &quorum->ballots->of[p];
    HF_CHECK(partition->state == PARTITION_PREPARED);
    if (quorum->ballots->sequence + 1 >= MESSAGE_SEQUENCE_LIMIT) {
        prepare_all(quorum);
        return false;
    }
    quorum->ballots->sequence++;
    *order = (struct message_order){.ballot = partition->ballot,
                                    .sequence = quorum->ballots->sequence};
    return true;
}

/* ---- Questions of other modules ---- */

enum partition_state ballots_state(const struct quorum *quorum, uint32_t partition)
{
    return (enum partition_state)quorum->ballots->of[partition].state;
}

bool ballots_claims(const struct quorum *quorum, uint32_t partition)
{
    const struct ballot *at = &quorum->ballots->of[partition];
    return at->state == PARTITION_PREPARED && !at->yields;
}

uint64_t ballots_of(const struct quorum *quorum, uint32_t partition)
{
    return quorum->ballots->of[partition].ballot;
}

int64_t ballots_prepared_ns(const struct quorum *quorum, uint32_t partition)
{
    return quorum->ballots->of[partition].prepared_ns;
}

int64_t ballots_left_ns(const struct quorum *quorum, uint32_t partition)
{
    return quorum->ballots->of[partition].left_ns;
}

bool ballots_is_complete(const struct quorum *quorum, uint32_t partition)
{
    return quorum->ballots->of[partition].complete;
}

bool ballots_is_read(const struct quorum *quorum, uint32_t partition)
{
    const struct ballot *at = &quorum->ballots->of[partition];
    return at->state == PARTITION_PREPARED && !at->complete && !at->carried;
}

bool ballots_is_open(const struct quorum *quorum, uint32_t partition)
{
    const struct ballot *at = &quorum->ballots->of[partition];
    return at->state == PARTITION_PREPARED &&
           (!at->carried || (at->mask >> quorum->config->self & 1) != 0);
}

bool ballots_is_carried(const struct quorum *quorum, uint32_t partition)
{
    return quorum->ballots->of[partition].carried;
}

uint8_t ballots_to_read(const struct quorum *quorum, uint32_t partition)
{
    const struct ballot *at = &quorum->ballots->of[partition];
    return ballots_is_read(quorum, partition)
               ? (uint8_t)(at->mask & ~at->synced & ~(1u << quorum->config->self))
               : 0;
}

void ballots_note_read(struct quorum *quorum, uint32_t partition, uint32_t voter)
{
    struct ballot *at = &quorum->ballots->of[partition];
    HF_CHECK((at->mask >> quorum->config->self & 1) != 0 && !at->complete);
    at->synced |= (uint8_t)(1u << voter);
    if (rules_count(at->synced) + 1 >= rules_majority(quorum)) {
        at->complete = true;
        quorum->ballots->incomplete--;
    }
}

uint32_t ballots_count(const struct quorum *quorum)
{
    uint32_t count = 0;
    for (uint32_t p = 0; p < MESSAGE_PARTITIONS; p++) {
        count += quorum->ballots->of[p].state == PARTITION_PREPARED;
    }
    return count;
}

uint32_t ballots_incomplete(const struct quorum *quorum)
{
    return quorum->ballots->incomplete;
}

void ballots_check_invariants(const struct quorum *quorum)
{
    uint32_t preparing = 0;
    uint32_t incomplete = 0;
    uint32_t carried = 0;
    for (uint32_t p = 0; p < MESSAGE_PARTITIONS; p++) {
        const struct ballot *at = &quorum->ballots->of[p];
        HF_CHECK(!at->carried || at->state == PARTITION_PREPARED);
        carried += at->carried;
        preparing += at->state == PARTITION_PREPARING;
        incomplete += at->state == PARTITION_PREPARED && !at->complete;
    }
    HF_CHECK(preparing == quorum->ballots->preparing);
    HF_CHECK(incomplete == quorum->ballots->incomplete);
    HF_CHECK(carried == quorum->ballots->carried);
}

uint32_t ballots_coordinator(const struct quorum *quorum, uint32_t p)
{
    const struct ballot *partition = &quorum->ballots->of[p];
    uint32_t count = quorum->config->voter_count;
    if (partition->state != PARTITION_OTHERS) {
        return quorum->config->self;
    }
    uint32_t last = count; /* a voter that claims the partition, but whose claims this voter
                            * ignores */
    for (uint32_t voter = 0; voter < count; voter++) {
        if (voter != quorum->config->self && voters_claim(quorum, voter, p)) {
            if (voters_claims_count(quorum, voter)) {
                return voter;
            }
            last = voter;
        }
    }
    uint32_t best = preferred_of(quorum, p, voters_able(quorum));
    return best == quorum->config->self || best == count ? last : best;
}

bool ballots_ready(const struct quorum *quorum)
{
    return step_started(quorum) && quorum->ballots->preparing == 0 &&
           quorum->ballots->incomplete == 0 && voters_majority(quorum);
}
