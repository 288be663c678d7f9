/*
 * The coordinator's ballots: which partitions are this voter's, and under which ballot a majority
 * has promised them to it.
 *
 *   OTHERS -> PREPARING   this voter is the preferred one of those that could coordinate, and
 *                         nobody whose beat counts claims the partition
 *          -> PREPARED    a majority promised: from here on it is claimed in the beats
 *          -> OTHERS      resigned: nobody hears this voter, a round got stuck, it is about to end,
 *                         or the preferred voter is back and has been well for a while
 *
 * The preferred voter is that of rendezvous hashing (Thaler and Ravishankar 1998): when one goes,
 * only its partitions move. Whoever is right about who is alive, safety is the ballots' affair.
 *
 * A round is durable before it is used, so a restarted coordinator never uses one again. What is
 * prepared at one time shares a ballot, and keeps it: preparing more does not disturb it. Proposals
 * of all ballots of a process are numbered by one counter.
 *
 * The own acceptor is asked last, when the others' promises make a majority with its own: a voter
 * that cannot take a partition over then spoils nothing for the one that has it. A PREPARE that
 * meets a higher promise is tried again under a higher round, one that meets a living owner under
 * the same one, each after a short random pause.
 */
#include "proto/check.h"
#include "state.h"

enum {
    PREPARE_MS = 50, /* an unanswered PREPARE is sent again */
    PAUSE_MIN_MS = 20,
    PAUSE_MAX_MS = 60,
    REFUSED_MS = 1000,
    /* So long after a take-over who gets connected is told of it: by then hosts asked anyway. */
    TOLD_AGAIN_MS = 1000,
};

static uint64_t own_ballot(const struct quorum *quorum)
{
    return (uint64_t)quorum->round << 16 | (quorum->config->self + 1);
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

void coordinator_init(struct quorum *quorum)
{
    quorum->prepare_ns = NEVER;
    quorum->retry_ns = NEVER;
    for (uint32_t p = 0; p < MESSAGE_PARTITIONS; p++) {
        uint8_t *order = quorum->partitions[p].order;
        quorum->partitions[p].refused_ns = INT64_MIN / 2;
        quorum->partitions[p].left_ns = INT64_MIN / 2;
        quorum->partitions[p].spent = true;
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

/* The preferred of those voters; voter_count: there is none. */
static uint32_t preferred_of(const struct quorum *quorum, uint32_t p, uint8_t able)
{
    for (uint32_t i = 0; i < quorum->config->voter_count; i++) {
        uint32_t voter = quorum->partitions[p].order[i];
        if ((able >> voter & 1) != 0) {
            return voter;
        }
    }
    return quorum->config->voter_count;
}

void coordinator_start(struct quorum *quorum)
{
    bool alone = quorum->config->voter_count == 1;
    quorum->begin_ns = alone ? INT64_MIN : step_now_ns(quorum) + 3 * QUORUM_BEAT_MS / 2 * MS_NS;
}

bool coordinator_claimed(const struct quorum *quorum, uint32_t p, uint32_t except)
{
    return voters_claimant(quorum, p, except) < quorum->config->voter_count;
}

bool coordinator_is_owned(const struct quorum *quorum, uint32_t p, uint32_t voter)
{
    const struct partition *partition = &quorum->partitions[p];
    bool own = voter != quorum->config->self && partition->state == PARTITION_PREPARED &&
               voters_majority(quorum);
    return own || coordinator_claimed(quorum, p, voter);
}

/* ---- States ---- */

static void set_state(struct quorum *quorum, uint32_t p, enum partition_state state)
{
    struct partition *partition = &quorum->partitions[p];
    quorum->preparing -= partition->state == PARTITION_PREPARING;
    quorum->incomplete -= partition->state == PARTITION_PREPARED && !partition->complete;
    quorum->counts.left += partition->state == PARTITION_PREPARED && state != PARTITION_PREPARED;
    quorum->counts.taken_over += partition->state != PARTITION_PREPARED &&
                                 state == PARTITION_PREPARED;
    if (partition->state == PARTITION_PREPARED && state != PARTITION_PREPARED) {
        partition->left_ns = step_now_ns(quorum);
    }
    partition->state = (uint8_t)state;
    partition->complete = false;
    partition->pulled = 0;
    partition->anew = false;
    quorum->preparing += state == PARTITION_PREPARING;
    quorum->incomplete += state == PARTITION_PREPARED;
}

static void look_again_at(struct quorum *quorum, int64_t when_ns)
{
    if (when_ns < quorum->retry_ns) {
        quorum->retry_ns = when_ns;
        step_schedule(quorum, when_ns);
    }
}

static void prepare_at(struct quorum *quorum, int64_t when_ns)
{
    if (when_ns < quorum->prepare_ns) {
        quorum->prepare_ns = when_ns;
        step_schedule(quorum, when_ns);
    }
}

static int64_t pause_ns(const struct quorum *quorum)
{
    uint64_t range_ns = (PAUSE_MAX_MS - PAUSE_MIN_MS) * (uint64_t)MS_NS;
    return PAUSE_MIN_MS * MS_NS + (int64_t)(step_random(quorum) % range_ns);
}

/* ---- Preparing ---- */

static uint32_t others_of(const struct quorum *quorum, const struct partition *partition)
{
    return rules_count((uint8_t)(partition->mask & ~(1u << quorum->config->self)));
}

/* Whether that voter is to be asked for its promise now. */
static bool is_asked(const struct quorum *quorum, const struct partition *partition, uint32_t voter)
{
    return partition->state == PARTITION_PREPARING && !partition->anew &&
           (partition->mask >> voter & 1) == 0 &&
           (voter != quorum->config->self ||
            others_of(quorum, partition) + 1 >= rules_majority(quorum));
}

/* The lowest ballot above that one for which the voter is to be asked; 0: there is none. */
static uint64_t ballot_above(const struct quorum *quorum, uint32_t voter, uint64_t ballot)
{
    uint64_t next = 0;
    for (uint32_t p = 0; p < MESSAGE_PARTITIONS; p++) {
        const struct partition *partition = &quorum->partitions[p];
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
        struct message_prepare *prepare = &step_send(quorum, voter, MESSAGE_PREPARE)->as.prepare;
        prepare->ballot = ballot;
        for (uint32_t p = 0; p < MESSAGE_PARTITIONS; p++) {
            if (quorum->partitions[p].ballot == ballot &&
                is_asked(quorum, &quorum->partitions[p], voter)) {
                message_partition_add(&prepare->partitions, p);
            }
        }
    }
}

static void ask(struct quorum *quorum)
{
    quorum->prepare_ns = NEVER;
    for (uint32_t voter = 0; voter < quorum->config->voter_count; voter++) {
        ask_voter(quorum, voter);
    }
    prepare_at(quorum, step_now_ns(quorum) + PREPARE_MS * MS_NS);
}

/* A new round for the partitions that need one. */
static void new_round(struct quorum *quorum)
{
    bool any = false;
    for (uint32_t p = 0; p < MESSAGE_PARTITIONS; p++) {
        any = any ||
              (quorum->partitions[p].state == PARTITION_PREPARING && quorum->partitions[p].anew);
    }
    uint32_t highest = quorum->heard_round > quorum->round ? quorum->heard_round : quorum->round;
    if (!any || highest == UINT32_MAX) {
        return; /* no round is left: nothing gets prepared any more */
    }
    quorum->round = highest + 1;
    step_emit(quorum, ACTION_PERSIST_ROUND)->as.round = quorum->round;
    for (uint32_t p = 0; p < MESSAGE_PARTITIONS; p++) {
        struct partition *partition = &quorum->partitions[p];
        if (partition->state == PARTITION_PREPARING && partition->anew) {
            partition->ballot = own_ballot(quorum);
            partition->mask = 0;
            partition->anew = false;
            partition->spent = false;
        }
    }
}

static void begin(struct quorum *quorum, uint32_t p)
{
    struct partition *partition = &quorum->partitions[p];
    set_state(quorum, p, PARTITION_PREPARING);
    if (step_now_ns(quorum) - partition->refused_ns > REFUSED_MS * MS_NS) {
        partition->began_ns = step_now_ns(quorum); /* else this is one more try of the same */
    }
    partition->anew = true;
}

/* The numbers are used up: they start anew under a new ballot, the same for all partitions. */
static void prepare_all(struct quorum *quorum)
{
    for (uint32_t p = 0; p < MESSAGE_PARTITIONS; p++) {
        if (quorum->partitions[p].state != PARTITION_OTHERS) {
            begin(quorum, p);
        }
    }
    quorum->sequence = 0;
    new_round(quorum);
    ask(quorum);
    work_ballots_changed(quorum);
}

void coordinator_recount(struct quorum *quorum)
{
    bool any = false;
    for (uint32_t p = 0; p < MESSAGE_PARTITIONS; p++) {
        quorum->partitions[p].spent = true;
        if (quorum->partitions[p].state != PARTITION_OTHERS) {
            begin(quorum, p);
            any = true;
        }
    }
    if (any) {
        prepare_at(quorum, step_now_ns(quorum));
        voters_heartbeat_soon(quorum);
        work_ballots_changed(quorum);
    }
}

static void resign(struct quorum *quorum, uint32_t p)
{
    set_state(quorum, p, PARTITION_OTHERS);
    quorum->partitions[p].retry_ns = 0;
}

/* Another claims what this voter has prepared. One of the two does not know yet that it was taken
 * over from: whoever did not run for a while since. */
static bool replaced(const struct quorum *quorum, uint32_t p)
{
    return quorum->partitions[p].prepared_ns < voters_slept_ns(quorum) &&
           coordinator_claimed(quorum, p, quorum->config->self);
}

/* What becomes of one partition. true: its state changed. */
static bool review_one(struct quorum *quorum, uint32_t p, uint8_t able)
{
    struct partition *partition = &quorum->partitions[p];
    uint32_t self = quorum->config->self;
    bool self_able = (able >> self & 1) != 0;
    uint32_t best = preferred_of(quorum, p, able);
    switch ((enum partition_state)partition->state) {
    case PARTITION_PREPARED:
        if (self_able && best != self) {
            if (!voters_settled(quorum, best)) {
                return false;
            }
        } else if (self_able && !replaced(quorum, p)) {
            return false;
        }
        resign(quorum, p);
        return true;
    case PARTITION_PREPARING:
        if (best == self && !coordinator_claimed(quorum, p, self)) {
            return false;
        }
        resign(quorum, p);
        return true;
    case PARTITION_OTHERS:
        break;
    }
    if (best != self || coordinator_claimed(quorum, p, self)) {
        return false;
    }
    int64_t begin_ns = partition->retry_ns > quorum->begin_ns ? partition->retry_ns
                                                              : quorum->begin_ns;
    if (step_now_ns(quorum) < begin_ns) {
        look_again_at(quorum, begin_ns);
        return false;
    }
    bool again = step_now_ns(quorum) - partition->refused_ns <= REFUSED_MS * MS_NS &&
                 !partition->spent;
    begin(quorum, p);
    partition->anew = !again; /* else what was promised holds */
    return true;
}

void coordinator_review(struct quorum *quorum)
{
    if (!step_started(quorum)) {
        return;
    }
    if (!step_has_room(quorum, 2 * MESSAGE_VOTERS_MAX + 1)) {
        look_again_at(quorum, step_now_ns(quorum));
        return;
    }
    if (step_now_ns(quorum) < quorum->begin_ns && voters_all_heard(quorum)) {
        quorum->begin_ns = step_now_ns(quorum);
    }
    uint8_t able = voters_able(quorum);
    bool begun = false;
    bool changed = false;
    bool released = false;
    quorum->retry_ns = NEVER;
    for (uint32_t p = 0; p < MESSAGE_PARTITIONS; p++) {
        bool owned = quorum->partitions[p].state == PARTITION_PREPARED;
        if (review_one(quorum, p, able)) {
            changed = true;
            begun = begun || quorum->partitions[p].state == PARTITION_PREPARING;
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
    if (released) {
        voters_heartbeat_soon(quorum);
    }
    if (changed) {
        work_ballots_changed(quorum);
    }
}

/* ---- Answers ---- */

static void note_round(struct quorum *quorum, uint64_t higher)
{
    uint32_t round = (uint32_t)(higher >> 16);
    if (round > quorum->heard_round) {
        quorum->heard_round = round;
    }
}

/* That partition's PREPARE was refused. true: it is given up for now. */
static bool refused(struct quorum *quorum, uint32_t p, bool owned)
{
    struct partition *partition = &quorum->partitions[p];
    if (owned) {
        partition->refused_ns = step_now_ns(quorum);
    }
    if (owned && step_now_ns(quorum) - partition->began_ns > QUORUM_TAKEOVER_MS * MS_NS) {
        /* Somebody coordinates it, whom this voter does not hear. */
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

/* With its own promise: what its own acceptor has is part of what it reads (sweep.c), so that must
 * not take lower ballots any more. */
static bool has_majority(const struct quorum *quorum, const struct partition *partition)
{
    return (partition->mask >> quorum->config->self & 1) != 0 &&
           rules_is_majority(quorum, partition->mask);
}

static void prepared(struct quorum *quorum, uint32_t p)
{
    struct partition *partition = &quorum->partitions[p];
    set_state(quorum, p, PARTITION_PREPARED);
    partition->spent = true;
    partition->prepared_ns = step_now_ns(quorum);
    if (quorum->config->voter_count == 1) {
        partition->complete = true;
        quorum->incomplete--;
        return;
    }
    message_partition_add(&quorum->announce, p);
    quorum->announce_next = 0;
    quorum->announcing = true;
    quorum->announce_ballot = partition->ballot > quorum->announce_ballot ? partition->ballot
                                                                          : quorum->announce_ballot;
    step_schedule(quorum, step_now_ns(quorum));
}

void coordinator_promise(struct quorum *quorum, const struct message *message)
{
    const struct message_promise *promise = &message->as.promise;
    uint32_t voter = 0;
    if (!agents_voter(quorum, message, &voter)) {
        return;
    }
    note_round(quorum, promise->higher);
    bool changed = false;
    bool any_prepared = false;
    for (uint32_t p = 0; p < MESSAGE_PARTITIONS; p++) {
        struct partition *partition = &quorum->partitions[p];
        if (partition->state == PARTITION_OTHERS || partition->ballot != promise->ballot ||
            partition->anew) {
            continue;
        }
        if (message_partition_has(&promise->promised, p)) {
            partition->mask |= (uint8_t)(1u << voter);
            if (partition->state == PARTITION_PREPARING && has_majority(quorum, partition)) {
                prepared(quorum, p);
                any_prepared = true;
            }
        } else if (partition->state == PARTITION_PREPARING &&
                   (message_partition_has(&promise->refused, p) ||
                    message_partition_has(&promise->owned, p))) {
            changed |= refused(quorum, p, message_partition_has(&promise->owned, p));
        }
    }
    if (voter != quorum->config->self && quorum->preparing > 0) {
        ask_voter(quorum, quorum->config->self);
    }
    if (any_prepared) {
        voters_heartbeat_soon(quorum);
        quorum->catch_ns = quorum->catch_ns != NEVER ? step_now_ns(quorum)
                                                     : NEVER; /* sweep at once */
        step_schedule(quorum, quorum->catch_ns);
    }
    if (any_prepared || changed) {
        work_ballots_changed(quorum);
    }
}

void coordinator_beaten(struct quorum *quorum, uint32_t p, uint64_t higher)
{
    struct partition *partition = &quorum->partitions[p];
    note_round(quorum, higher);
    if (higher <= partition->ballot || partition->state == PARTITION_OTHERS) {
        return;
    }
    if (partition->state == PARTITION_PREPARED) {
        begin(quorum, p); /* again, unless whoever has it now says so meanwhile */
        prepare_at(quorum, step_now_ns(quorum) + pause_ns(quorum));
        (void)review_one(quorum, p, voters_able(quorum));
        voters_heartbeat_soon(quorum);
        work_ballots_changed(quorum);
    }
}

void coordinator_round_age(struct quorum *quorum, const struct voters_round *round)
{
    if (voters_round_stuck(quorum, round)) {
        look_again_at(quorum, step_now_ns(quorum));
    }
}

/* ---- Telling the hosts ---- */

/* Whether that agent's host is to be told: it has a session here, as far as this process can know
 * (it may be younger than the pause between two renewals), or is this one's own. */
static bool is_told(const struct quorum *quorum, uint32_t agent)
{
    int64_t heard_ns = sessions_heard_ns(quorum, agent);
    return agent == quorum->config->self ||
           step_now_ns(quorum) - heard_ns <= rules_long_ns(quorum, quorum->config->session_ttl_ns);
}

static int64_t announce(struct quorum *quorum)
{
    if (!quorum->announcing) {
        return NEVER;
    }
    while (quorum->announce_next < agents_count(quorum)) {
        if (!step_has_room(quorum, 2 * MESSAGE_VOTERS_MAX)) {
            return step_now_ns(quorum);
        }
        uint32_t agent = quorum->announce_next++;
        if (is_told(quorum, agent)) {
            struct message_owner *owner = &step_send(quorum, agent, MESSAGE_OWNER)->as.owner;
            owner->ballot = quorum->announce_ballot;
            owner->partitions = quorum->announce;
        }
    }
    quorum->announcing = false;
    quorum->announce = (struct message_partitions){{0}};
    return NEVER;
}

void coordinator_reached(struct quorum *quorum, const struct message_agent *name)
{
    uint32_t agent = 0;
    struct message_owner owner = {0};
    if (quorum->config->voter_count == 1 || !agents_find(quorum, name, &agent) ||
        !is_told(quorum, agent) || !step_has_room(quorum, 1)) {
        return; /* for want of room: its host asks at its next pause */
    }
    for (uint32_t p = 0; p < MESSAGE_PARTITIONS; p++) {
        const struct partition *partition = &quorum->partitions[p];
        if (partition->state == PARTITION_PREPARED &&
            step_now_ns(quorum) - partition->prepared_ns < TOLD_AGAIN_MS * MS_NS) {
            message_partition_add(&owner.partitions, p);
            owner.ballot = partition->ballot > owner.ballot ? partition->ballot : owner.ballot;
        }
    }
    if (owner.ballot != 0) {
        step_send(quorum, agent, MESSAGE_OWNER)->as.owner = owner;
    }
}

int64_t coordinator_tick(struct quorum *quorum)
{
    int64_t next_ns = NEVER;
    if (quorum->retry_ns <= step_now_ns(quorum)) {
        coordinator_review(quorum);
    }
    if (quorum->preparing == 0) {
        quorum->prepare_ns = NEVER;
    } else if (quorum->prepare_ns <= step_now_ns(quorum)) {
        if (!step_has_room(quorum, 2 * MESSAGE_VOTERS_MAX + 1)) {
            return step_now_ns(quorum);
        }
        new_round(quorum);
        ask(quorum);
    }
    next_ns = announce(quorum);
    next_ns = quorum->prepare_ns < next_ns ? quorum->prepare_ns : next_ns;
    return quorum->retry_ns < next_ns ? quorum->retry_ns : next_ns;
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

/* ---- Public ---- */

uint32_t quorum_coordinator(const struct quorum *quorum, uint32_t p)
{
    const struct partition *partition = &quorum->partitions[p];
    uint32_t count = quorum->config->voter_count;
    if (partition->state != PARTITION_OTHERS) {
        return quorum->config->self;
    }
    uint32_t last = count; /* who claims it, though its beat does not count here */
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

bool quorum_ready(const struct quorum *quorum)
{
    return step_started(quorum) && quorum->preparing == 0 && quorum->incomplete == 0 &&
           voters_majority(quorum);
}
