/*
 * How a voter starts over, with an empty store under a new id (MESSAGE_STATUS_REJOINING).
 *
 *   LEARN    More than half of the other voters send their records. This store's line gets a
 *            generation above this voter's generation in all of them.
 *   REPORT   More than half of the others have the new line, and the record of voters is complete.
 *            From then on the old store's votes do not count.
 *   PREPARE  More than half of the others promise a new ballot for every partition, and for the
 *            register of the next record of voters. Every value that the old store helped to choose
 *            is at one of these voters. The old store's promises cannot help to choose anything
 *            more.
 *   SYNC     This voter adopts all registers, checkpoints and marks of the voters that promised. It
 *            reads all of these voters at the same time: what it adopts does not depend on the
 *            order (docs/PROTOCOL.md, rule 26).
 *
 * The voter also waits for a full session time-to-live from the start. The old store may have
 * acknowledged a renewal just before it was lost. That lease must end before a majority has marked
 * its session. A mark may exist at only one other voter. Then SYNC makes the second copy here, and
 * two voters can be a majority.
 *
 * After SYNC this voter promises the ballot of PREPARE itself, durably, and votes. It coordinates
 * nothing under that ballot. More than half of the others are needed for this reason: a majority
 * that included the old store includes at least half of the others, so it has a voter in common
 * with every set of more than half of the others. A cell of one voter cannot start over this way.
 *
 * If the process is killed before the end, the next process begins with LEARN again. The new line
 * stays, unless some voter has a newer one.
 */
#include <string.h>

#include "members_private.h"
#include "proto/check.h"
#include "reactions.h"

enum { PREPARE_AGAIN_MS = 200, PAUSE_MIN_MS = 20, PAUSE_MAX_MS = 60 };

/* Returns the least number of voters that is more than half of the other voters. */
static uint32_t needed(const struct quorum *quorum)
{
    return (quorum->config->voter_count + 1) / 2;
}

static void wake_at(struct quorum *quorum, int64_t when_ns)
{
    quorum->members->rejoin.next_ns = when_ns;
    step_schedule(quorum, when_ns);
}

void rejoin_start(struct quorum *quorum)
{
    memset(&quorum->members->rejoin, 0, sizeof(quorum->members->rejoin));
    quorum->members->rejoin.phase = REJOIN_LEARN;
    quorum->members->rejoin.next_ns = NEVER;
}

/* Goes back to REPORT, because what REPORT and the later phases counted is no longer valid. */
void rejoin_recount(struct quorum *quorum)
{
    struct rejoin *rejoin = &quorum->members->rejoin;
    if (rejoin->phase != REJOIN_LEARN) {
        rejoin->phase = REJOIN_REPORT;
        rejoin->known = 0;
        rejoin->next_ns = NEVER;
    }
}

static void set_line(struct quorum *quorum, uint32_t generation)
{
    struct message_member line = {.generation = generation};
    memcpy(line.store_id, quorum->config->store_id, sizeof(line.store_id));
    quorum->members->rejoin.phase = REJOIN_REPORT;
    quorum->members->rejoin.known = 0;
    quorum->members->rejoin.next_ns = NEVER;
    members_set_line(quorum, quorum->config->self, &line);
    members_announce(quorum);
}

void rejoin_note_line(struct quorum *quorum, const struct message_member *line)
{
    const struct message_member *mine = &quorum->members->of[quorum->config->self].line;
    if (line->store_id[0] == quorum->config->store_id[0] &&
        line->store_id[1] == quorum->config->store_id[1]) {
        /* The others have this store's line with a higher generation than the store itself: this
         * store is an older copy of itself. */
        if (quorum->members->rejoin.phase != REJOIN_LEARN && line->generation > mine->generation) {
            set_line(quorum, line->generation);
        }
        return;
    }
    if (line->generation > quorum->members->rejoin.seen_generation) {
        quorum->members->rejoin.seen_generation = line->generation;
    }
    if (quorum->members->rejoin.phase != REJOIN_LEARN && line->generation >= mine->generation) {
        set_line(quorum, line->generation + 1);
    }
}

bool rejoin_has(const struct quorum *quorum, uint32_t voter)
{
    const struct rejoin *rejoin = &quorum->members->rejoin;
    uint8_t mask = rejoin->phase == REJOIN_LEARN     ? rejoin->seen
                   : rejoin->phase == REJOIN_REPORT  ? rejoin->known
                   : rejoin->phase == REJOIN_PREPARE ? rejoin->promised_all
                                                     : rejoin->synced_all;
    return (mask >> voter & 1) != 0;
}

/* ---- PREPARE ---- */

static void ask(struct quorum *quorum)
{
    struct rejoin *rejoin = &quorum->members->rejoin;
    for (uint32_t voter = 0; voter < quorum->config->voter_count; voter++) {
        if (voter == quorum->config->self || (rejoin->promised_all >> voter & 1) != 0) {
            continue;
        }
        struct message_prepare *prepare =
            &agents_send_voter(quorum, voter, MESSAGE_PREPARE)->as.prepare;
        prepare->ballot = rejoin->ballot;
        prepare->rejoin = true;
        memset(&prepare->partitions, 0xff, sizeof(prepare->partitions));
        struct message_change *change =
            &agents_send_voter(quorum, voter, MESSAGE_CHANGE_PREPARE)->as.change;
        change->number = members_voters(quorum)->number + 1;
        change->ballot = rejoin->ballot;
    }
    wake_at(quorum, step_now_ns(quorum) + PREPARE_AGAIN_MS * MS_NS);
}

static void prepare(struct quorum *quorum)
{
    struct rejoin *rejoin = &quorum->members->rejoin;
    uint64_t ballot = ballots_next(quorum);
    if (ballot == 0) {
        return;
    }
    rejoin->phase = REJOIN_PREPARE;
    rejoin->ballot = ballot;
    rejoin->promised_all = 0;
    rejoin->promised_change = 0;
    rejoin->anew = false;
    memset(rejoin->promised, 0, sizeof(rejoin->promised));
    ask(quorum);
}

static void start_exchanges(struct quorum *quorum)
{
    struct rejoin *rejoin = &quorum->members->rejoin;
    rejoin->phase = REJOIN_SYNC;
    rejoin->synced_all = 0;
    memset(rejoin->next_sync, 0, sizeof(rejoin->next_sync));
    memset(rejoin->synced, 0, sizeof(rejoin->synced));
    rejoin->synced_marks = 0;
    wake_at(quorum, step_now_ns(quorum));
}

/* Returns whether a promise of that ballot is awaited from the sender. */
static bool awaits_promise(const struct quorum *quorum, const struct message *message,
                           uint64_t ballot, uint32_t *voter)
{
    const struct rejoin *rejoin = &quorum->members->rejoin;
    return agents_voter(quorum, message, voter) && *voter != quorum->config->self &&
           rejoin->phase == REJOIN_PREPARE && ballot == rejoin->ballot && !rejoin->anew;
}

/* Call it when a voter has answered. Depending on the answers so far, this tries again under a
 * higher ballot, begins SYNC, or waits for other answers. */
static void count_promise(struct quorum *quorum, uint32_t voter, bool all)
{
    struct rejoin *rejoin = &quorum->members->rejoin;
    if (rejoin->anew) {
        uint64_t range_ns = (PAUSE_MAX_MS - PAUSE_MIN_MS) * (uint64_t)MS_NS;
        wake_at(quorum, step_now_ns(quorum) + PAUSE_MIN_MS * MS_NS +
                            (int64_t)(step_random(quorum) % range_ns));
    } else if (all && (rejoin->promised_change >> voter & 1) != 0) {
        rejoin->promised_all |= (uint8_t)(1u << voter);
        if (rules_count(rejoin->promised_all) >= needed(quorum)) {
            start_exchanges(quorum);
        }
    }
}

static bool promised_partitions(const struct rejoin *rejoin, uint32_t voter)
{
    bool all = true;
    for (uint32_t p = 0; p < MESSAGE_PARTITIONS; p++) {
        all = all && (rejoin->promised[p] >> voter & 1) != 0;
    }
    return all;
}

bool members_promise_change(struct quorum *quorum, const struct message *message)
{
    const struct message_change *promise = &message->as.change;
    struct rejoin *rejoin = &quorum->members->rejoin;
    uint32_t voter = 0;
    if (!awaits_promise(quorum, message, promise->ballot, &voter)) {
        return false;
    }
    ballots_note(quorum, promise->higher);
    if (promise->higher != 0) {
        rejoin->anew = true;
    } else {
        rejoin->promised_change |= (uint8_t)(1u << voter);
    }
    count_promise(quorum, voter, promised_partitions(rejoin, voter));
    return promise->higher == 0;
}

void members_promise(struct quorum *quorum, const struct message *message)
{
    const struct message_promise *promise = &message->as.promise;
    struct rejoin *rejoin = &quorum->members->rejoin;
    uint32_t voter = 0;
    if (!awaits_promise(quorum, message, promise->ballot, &voter)) {
        return;
    }
    ballots_note(quorum, promise->higher);
    if (message->number == 0) { /* the sender's wire protocol has no changes of the voters */
        rejoin->promised_change |= (uint8_t)(1u << voter);
    }
    bool all = true;
    for (uint32_t p = 0; p < MESSAGE_PARTITIONS; p++) {
        if (message_partition_has(&promise->promised, p)) {
            rejoin->promised[p] |= (uint8_t)(1u << voter);
        } else if (message_partition_has(&promise->refused, p)) {
            rejoin->anew = true;
        }
        all = all && (rejoin->promised[p] >> voter & 1) != 0;
    }
    count_promise(quorum, voter, all);
}

/* ---- LEARN, REPORT ---- */

void rejoin_answered(struct quorum *quorum, uint32_t voter, const struct message_hello *hello)
{
    struct rejoin *rejoin = &quorum->members->rejoin;
    const struct member *own = &quorum->members->of[quorum->config->self];
    if (!hello->bootstrapped ||
        (hello->status != MESSAGE_STATUS_VOTING && hello->status != MESSAGE_STATUS_LISTED)) {
        return; /* a voter of another status may itself lack a line of the record */
    }
    if (rejoin->phase == REJOIN_LEARN) {
        rejoin->seen |= (uint8_t)(1u << voter);
        if (rules_count(rejoin->seen) < needed(quorum)) {
            return;
        }
        if (!quorum->members->voters.complete) {
            return; /* no store starts over while the voters are being changed */
        }
        bool kept = own->line.generation > rejoin->seen_generation;
        set_line(quorum, kept ? own->line.generation : rejoin->seen_generation + 1);
    } else if (rejoin->phase == REJOIN_REPORT && quorum->members->of[voter].same) {
        rejoin->known |= (uint8_t)(1u << voter);
        /* A change of the voters may have begun meanwhile. A majority of the present voters has
         * everything that the earlier voters have chosen only when that change is complete. */
        if (rules_count(rejoin->known) >= needed(quorum) && quorum->members->voters.complete) {
            prepare(quorum);
        }
    }
}

/* ---- SYNC ---- */

static void finish(struct quorum *quorum)
{
    struct rejoin *rejoin = &quorum->members->rejoin;
    struct message_partitions lower = {{0}};
    bool any = false;
    for (uint32_t p = 0; p < MESSAGE_PARTITIONS; p++) {
        if (registers_promised(quorum, p) < rejoin->ballot) {
            message_partition_add(&lower, p);
            any = true;
        }
    }
    if (any) {
        registers_promise(quorum, &lower, rejoin->ballot);
    }
    step_emit(quorum, ACTION_PERSIST_REJOINED);
    rejoin->phase = REJOIN_NONE;
    reaction_rejoined(quorum, rejoin->ballot);
    members_vote(quorum);
}

void rejoin_synced(struct quorum *quorum, uint32_t voter, enum message_sync_what what,
                   uint32_t partition)
{
    struct rejoin *rejoin = &quorum->members->rejoin;
    if (rejoin->phase != REJOIN_SYNC || (rejoin->promised_all >> voter & 1) == 0) {
        return;
    }
    uint8_t bit = (uint8_t)(1u << voter);
    if (what == MESSAGE_SYNC_MARKS) {
        rejoin->synced_marks |= bit;
    } else {
        rejoin->synced[partition] |= bit;
    }
    uint8_t all = rejoin->synced_marks;
    for (uint32_t p = 0; p < MESSAGE_PARTITIONS; p++) {
        all &= rejoin->synced[p];
    }
    rejoin->synced_all = all;
    /* read_others() begins the next listing, or finds that everything is read */
    wake_at(quorum, step_now_ns(quorum));
}

static bool all_synced(const struct rejoin *rejoin)
{
    return (rejoin->synced_all & rejoin->promised_all) == rejoin->promised_all;
}

/*
 * Begins as many listings of that voter as may run at once, and begins failed listings again. The
 * voter's marks come after its partitions. Only one voter's listing of a partition is read at a
 * time (sync.c), so the listings of each voter begin at a different partition. A partition that is
 * being read from another voter is tried again after the other partitions.
 */
static void read_voter(struct quorum *quorum, uint32_t voter)
{
    enum { OF_A_VOTER = MESSAGE_PARTITIONS + 1 };
    struct rejoin *rejoin = &quorum->members->rejoin;
    uint32_t first = voter * MESSAGE_PARTITIONS / quorum->config->voter_count;
    for (uint32_t i = 0; i < OF_A_VOTER; i++) {
        uint32_t at = rejoin->next_sync[voter];
        uint32_t partition = (first + at) % MESSAGE_PARTITIONS;
        bool marks = at == MESSAGE_PARTITIONS;
        uint8_t had = marks ? rejoin->synced_marks : rejoin->synced[partition];
        if ((had >> voter & 1) == 0 &&
            !sync_read(quorum, voter, marks ? MESSAGE_SYNC_MARKS : MESSAGE_SYNC_REGISTERS,
                       marks ? 0 : partition)) {
            return;
        }
        rejoin->next_sync[voter] = (uint16_t)((at + 1) % OF_A_VOTER);
    }
}

/* Reads from all voters that promised, at the same time. When everything is read, and a ttl has
 * passed since the start, finishes. */
static void read_others(struct quorum *quorum)
{
    struct rejoin *rejoin = &quorum->members->rejoin;
    int64_t lapsed_ns = quorum->members->since_ns +
                        rules_long_ns(quorum, quorum->config->session_ttl_ns);
    if (all_synced(rejoin)) {
        if (step_now_ns(quorum) < lapsed_ns) {
            wake_at(quorum, lapsed_ns);
        } else {
            finish(quorum);
        }
        return;
    }
    wake_at(quorum, step_now_ns(quorum) + PREPARE_AGAIN_MS * MS_NS);
    for (uint32_t voter = 0; voter < quorum->config->voter_count; voter++) {
        if ((rejoin->promised_all >> voter & 1) != 0) {
            read_voter(quorum, voter);
        }
    }
}

int64_t rejoin_tick(struct quorum *quorum)
{
    struct rejoin *rejoin = &quorum->members->rejoin;
    if (quorum->members->status != MESSAGE_STATUS_REJOINING) {
        return NEVER;
    }
    if (rejoin->next_ns > step_now_ns(quorum)) {
        return rejoin->next_ns;
    }
    if (!step_has_room(quorum, 2 * MESSAGE_VOTERS_MAX)) {
        return step_now_ns(quorum);
    }
    rejoin->next_ns = NEVER;
    if (rejoin->phase == REJOIN_PREPARE) {
        if (rejoin->anew) {
            prepare(quorum);
        } else {
            ask(quorum);
        }
    } else if (rejoin->phase == REJOIN_SYNC) {
        read_others(quorum);
    }
    return rejoin->next_ns;
}
