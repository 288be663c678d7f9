/*
 * Reading what other voters have. See sync.h.
 *
 * A SYNC message (PULL in proto/SCHEMA.md) asks for the registers that come after a given register
 * in the other voter's list. (A SYNC can also ask for the marks of sessions.) The answers (SYNCED)
 * carry one register each, at most MESSAGE_SYNC_BATCH. A last answer reports MORE, and where the
 * list continues, or END. If the digests and the checkpoints of both voters are equal, SAME is the
 * only answer. The answers are numbered, so the reader notices that one is missing, and asks for
 * the same registers again.
 *
 * Two voters also differ while a change is under way. So a partition is read only when it differs
 * several times in a row. But after this voter was away, it reads each partition that another voter
 * coordinates at once.
 *
 * If the other voter's checkpoint is above this voter's, this voter adopts that checkpoint at the
 * end of a listing during which the checkpoint did not change. The registers that the listing lacks
 * are then deleted (sync_deletion.c).
 */
#include "sync.h"

#include <string.h>

#include "proto/check.h"
#include "reactions.h"
#include "sync_private.h"

enum {
    EXCHANGE_RESEND_MS = 100, /* the least time after which an unanswered SYNC is repeated */
    /* the longest time after which a SYNC is repeated: the time doubles with each SYNC that gets no
     * answer */
    EXCHANGE_RESEND_MAX_MS = 1600,
    EXCHANGE_TRIES_MAX = 20,
    EXCHANGE_SILENT_MAX = 6, /* the most tries in a row without any answer */
    CATCH_UP_MS = 240,       /* the time between two comparisons with coordinators */
    /* how many partitions are compared each time; all 256 are compared within about 10 s */
    CATCH_UP_AT_ONCE = 6,
    SUSPECT_MAX = 4,        /* a partition that differs this many times in a row is read */
    ANSWER_SCAN_MAX = 4096, /* the most agents to search for the answers to one SYNC */
    COMPARE_AGAIN_MS = 200, /* the pause after a comparison that found a difference */
    GATHER_AFTER = 3,       /* after so many differences in a row, this voter reads the other
                             * voter's registers */
    IN_VAIN_MS = 2000,      /* a partition is prepared again if, for this time, no voter that must
                             * be read answers */
};

_Static_assert(MESSAGE_SYNC_BATCH + 1 < 64, "the answers to a SYNC are bits of one word");

struct sync *sync_lay_out(struct arena *arena)
{
    return arena_take(arena, 1, sizeof(struct sync));
}

/* Returns whether sync_tick() has to compare registers from time to time. */
static bool has_ticks(const struct quorum *quorum)
{
    return quorum->config->voter_count > 1 || reaction_is_changing(quorum);
}

void sync_start(struct quorum *quorum)
{
    /* The first id is random, so that the ids differ from those of the last process. */
    quorum->sync->exchange_id = step_random(quorum) ^ step_random(quorum) >> 17;
    quorum->sync->catch_ns = NEVER;
    if (has_ticks(quorum)) {
        quorum->sync->catch_ns = step_now_ns(quorum);
        sync_behind(quorum);
    }
}

void sync_at_once(struct quorum *quorum)
{
    quorum->sync->catch_ns = quorum->sync->catch_ns != NEVER ? step_now_ns(quorum) : NEVER;
    step_schedule(quorum, quorum->sync->catch_ns);
}

void sync_behind(struct quorum *quorum)
{
    memset(&quorum->sync->behind, 0xff, sizeof(quorum->sync->behind));
}

void sync_follow(struct quorum *quorum)
{
    struct sync *sync = quorum->sync;
    for (uint32_t i = 0; i < EXCHANGES_MAX; i++) {
        sync->exchanges[i].purpose = EXCHANGE_NONE;
    }
    memset(sync->settling, 0, sizeof(sync->settling));
    sync->catch_ns = NEVER;
    if (step_started(quorum)) { /* sync_tick() stops again if there is nothing to compare */
        sync->catch_ns = step_now_ns(quorum);
        sync_behind(quorum);
        step_schedule(quorum, sync->catch_ns);
    }
}

/* ---- Answering ---- */

static struct message_synced *answer(struct quorum *quorum, uint32_t to,
                                     const struct message_sync *request, uint32_t *index,
                                     enum message_synced_kind kind)
{
    struct message_synced *synced = &step_send(quorum, to, MESSAGE_SYNCED)->as.synced;
    synced->what = request->what;
    synced->partition = request->partition;
    synced->kind = (uint8_t)kind;
    synced->id = request->id;
    synced->index = (*index)++;
    synced->checkpoint = *registers_checkpoint(quorum, request->partition);
    return synced;
}

static void answer_registers(struct quorum *quorum, uint32_t to, const struct message_sync *request)
{
    struct message_order order = registers_checkpoint(quorum, request->partition)->order;
    uint32_t index = 0;
    if (request->digest == registers_digest(quorum, request->partition) &&
        message_order_equal(request->checkpoint.order, order)) {
        answer(quorum, to, request, &index, MESSAGE_SYNCED_SAME);
        return;
    }
    if (request->after == MESSAGE_SYNC_PROBE) {
        answer(quorum, to, request, &index, MESSAGE_SYNCED_END);
        return;
    }
    uint32_t last = request->after;
    uint32_t at = registers_resume(quorum, request->partition, last);
    while (at != NONE && index < MESSAGE_SYNC_BATCH) {
        struct message_synced *synced = answer(quorum, to, request, &index,
                                               MESSAGE_SYNCED_REGISTER);
        const struct record *record = registers_at(quorum, at);
        step_lock_name(quorum, registers_name(quorum, at), &synced->name);
        synced->accepted = record_accepted(record);
        record_to_value(quorum, record, &synced->value);
        synced->next = at;
        last = at;
        at = registers_next(quorum, at);
    }
    answer(quorum, to, request, &index, at == NONE ? MESSAGE_SYNCED_END : MESSAGE_SYNCED_MORE)
        ->next = last;
}

/* In a listing of marks, `after` and `next` are an agent's index plus one. */
static void answer_marks(struct quorum *quorum, uint32_t to, const struct message_sync *request)
{
    uint32_t index = 0;
    uint32_t at = request->after;
    for (uint32_t i = 0; i < ANSWER_SCAN_MAX && at < agents_count(quorum); i++) {
        uint32_t marked = sessions_marked_epoch(quorum, at++);
        if (marked != 0) {
            struct message_synced *synced = answer(quorum, to, request, &index,
                                                   MESSAGE_SYNCED_MARK);
            synced->mark.agent = *agents_name(quorum, at - 1);
            synced->mark.epoch = marked;
            synced->next = at;
        }
        if (index == MESSAGE_SYNC_BATCH) {
            break;
        }
    }
    bool end = at >= agents_count(quorum);
    answer(quorum, to, request, &index, end ? MESSAGE_SYNCED_END : MESSAGE_SYNCED_MORE)->next = at;
}

void sync_request(struct quorum *quorum, const struct message *message)
{
    const struct message_sync *request = &message->as.sync;
    uint32_t agent = 0;
    if (!agents_guest(quorum, &message->from, &agent)) {
        return;
    }
    if (request->what == MESSAGE_SYNC_REGISTERS) {
        answer_registers(quorum, agent, request);
    } else if (reaction_lists_marks(quorum)) {
        answer_marks(quorum, agent, request);
    }
}

/* ---- Requests ---- */

/* Returns how long to wait for answers before the SYNC is repeated. When it is repeated, answers to
 * the earlier SYNC are dropped, because the list may have changed between the two SYNCs. So a voter
 * that has not answered at all, and may be slow, gets more time with each try. */
static int64_t pause_ns(const struct quorum *quorum, const struct exchange *exchange)
{
    static const int64_t most_ns = EXCHANGE_RESEND_MAX_MS * MS_NS;
    int64_t pause_ns = voters_trip_ns(quorum, exchange->voter);
    pause_ns = pause_ns > EXCHANGE_RESEND_MS * MS_NS ? pause_ns : EXCHANGE_RESEND_MS * MS_NS;
    for (uint32_t i = 0; i < exchange->silent && pause_ns < most_ns; i++) {
        pause_ns *= 2;
    }
    return pause_ns < most_ns ? pause_ns : most_ns;
}

/* Asks for the entries after exchange->after. */
static void ask(struct quorum *quorum, struct exchange *exchange)
{
    exchange->id = ++quorum->sync->exchange_id;
    exchange->got = 0;
    exchange->answers = 0;
    exchange->resend_ns = step_now_ns(quorum) + pause_ns(quorum, exchange);
    step_schedule(quorum, exchange->resend_ns);
    struct message_sync *message =
        &agents_send_voter(quorum, exchange->voter, MESSAGE_SYNC)->as.sync;
    message->what = exchange->what;
    message->partition = exchange->partition;
    message->id = exchange->id;
    message->after = exchange->after;
    message->digest = registers_digest(quorum, exchange->partition);
    message->checkpoint = *registers_checkpoint(quorum, exchange->partition);
}

static void restart(struct quorum *quorum, struct exchange *exchange)
{
    bool compares = exchange->purpose == EXCHANGE_PROBE || exchange->purpose == EXCHANGE_COMPARE;
    exchange->after = compares ? MESSAGE_SYNC_PROBE : 0;
    exchange->began = false;
    exchange->lacking = false;
    exchange->listing = ++quorum->sync->listing;
    ask(quorum, exchange);
}

/* Returns a free entry for another listing; NULL if too many listings are being read already.
 * EXCHANGES_AT_ONCE listings may be read at a time. A voter that starts over has to read
 * everything, so it may read that many from each voter. */
static struct exchange *free_slot(struct quorum *quorum, enum exchange_purpose purpose,
                                  uint32_t voter)
{
    struct exchange *slot = NULL;
    uint32_t count = 0;
    for (uint32_t i = 0; i < EXCHANGES_MAX; i++) {
        struct exchange *exchange = &quorum->sync->exchanges[i];
        if (exchange->purpose == EXCHANGE_NONE) {
            slot = slot == NULL ? exchange : slot;
        } else if (purpose != EXCHANGE_REJOIN || exchange->voter == voter) {
            count++;
        }
    }
    return count < EXCHANGES_AT_ONCE ? slot : NULL;
}

/* Returns false if too many listings are being read already, or the step has no room. */
static bool start(struct quorum *quorum, enum exchange_purpose purpose, uint32_t voter,
                  enum message_sync_what what, uint32_t partition)
{
    struct exchange *exchange = free_slot(quorum, purpose, voter);
    if (exchange == NULL || !step_has_room(quorum, MESSAGE_VOTERS_MAX)) {
        return false;
    }
    *exchange = (struct exchange){
        .purpose = (uint8_t)purpose,
        .voter = (uint8_t)voter,
        .what = (uint8_t)what,
        .partition = (uint8_t)partition,
        .ballot = ballots_of(quorum, partition),
    };
    restart(quorum, exchange);
    return true;
}

static bool marks_are_read(const struct quorum *quorum, uint32_t voter)
{
    for (uint32_t i = 0; i < EXCHANGES_MAX; i++) {
        const struct exchange *exchange = &quorum->sync->exchanges[i];
        if (exchange->purpose != EXCHANGE_NONE && exchange->what == MESSAGE_SYNC_MARKS &&
            exchange->voter == voter) {
            return true;
        }
    }
    return false;
}

/* Returns whether a listing of the partition is being read. At most one may be read at a time: a
 * register keeps the number of one listing only, and adopting a checkpoint deletes registers with
 * any other number. */
static bool is_exchanged(const struct quorum *quorum, uint32_t partition)
{
    for (uint32_t i = 0; i < EXCHANGES_MAX; i++) {
        const struct exchange *exchange = &quorum->sync->exchanges[i];
        if (exchange->purpose != EXCHANGE_NONE && exchange->what == MESSAGE_SYNC_REGISTERS &&
            exchange->partition == partition) {
            return true;
        }
    }
    return false;
}

bool sync_read(struct quorum *quorum, uint32_t voter, enum message_sync_what what,
               uint32_t partition)
{
    bool busy = what == MESSAGE_SYNC_MARKS ? marks_are_read(quorum, voter)
                                           : is_exchanged(quorum, partition);
    return busy || start(quorum, EXCHANGE_REJOIN, voter, what, partition);
}

/* ---- Whether a majority of a new record's voters has everything ---- */

/* Returns whether this voter has to find out whether that partition is settled. */
static bool may_settle(const struct quorum *quorum, uint32_t p)
{
    return reaction_is_changing(quorum) && ballots_state(quorum, p) == PARTITION_PREPARED &&
           ballots_is_complete(quorum, p) && !ballots_is_carried(quorum, p);
}

bool sync_is_settled(const struct quorum *quorum, uint32_t p)
{
    const struct settling *settling = &quorum->sync->settling[p];
    return may_settle(quorum, p) && settling->ballot == ballots_of(quorum, p) &&
           rules_is_majority(quorum, settling->alike);
}

/* Returns the voter to compare with next; voter_count if there is none. This voter compares with
 * its own disk, too, because a value that is only in its memory may be lost. */
static uint32_t voter_to_compare(struct quorum *quorum, uint32_t p)
{
    struct settling *settling = &quorum->sync->settling[p];
    uint32_t count = quorum->config->voter_count;
    if (!may_settle(quorum, p) || is_exchanged(quorum, p)) {
        return count;
    }
    if (settling->ballot != ballots_of(quorum, p)) {
        *settling = (struct settling){.ballot = ballots_of(quorum, p)};
    }
    if (sync_is_settled(quorum, p) || step_now_ns(quorum) < settling->next_ns) {
        return count;
    }
    uint32_t first = (quorum->config->self + settling->unlike) % count;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t voter = (first + i) % count;
        if ((settling->alike >> voter & 1) == 0 && voters_vote(quorum, voter)) {
            return voter;
        }
    }
    return count;
}

static void start_compare(struct quorum *quorum)
{
    for (uint32_t i = 0; i < MESSAGE_PARTITIONS && reaction_is_changing(quorum); i++) {
        uint32_t p = quorum->sync->settle_next;
        uint32_t voter = voter_to_compare(quorum, p);
        if (voter != quorum->config->voter_count &&
            !start(quorum, EXCHANGE_COMPARE, voter, MESSAGE_SYNC_REGISTERS, p)) {
            return;
        }
        quorum->sync->settle_next = (p + 1) % MESSAGE_PARTITIONS;
    }
}

static void compared(struct quorum *quorum, uint32_t p, uint32_t voter, bool same)
{
    struct settling *settling = &quorum->sync->settling[p];
    if (same) {
        settling->alike |= (uint8_t)(1u << voter);
        settling->unlike = 0;
        return;
    }
    /* The other voter reads by itself what it lacks. But it may have something that this voter
     * lacks. */
    settling->unlike++;
    settling->next_ns = step_now_ns(quorum) + COMPARE_AGAIN_MS * MS_NS;
    if (voter != quorum->config->self && settling->unlike % GATHER_AFTER == 0) {
        (void)start(quorum, EXCHANGE_GATHER, voter, MESSAGE_SYNC_REGISTERS, p);
    }
}

void sync_read_marks(struct quorum *quorum, uint32_t voter)
{
    if (!marks_are_read(quorum, voter)) {
        (void)start(quorum, EXCHANGE_MARKS, voter, MESSAGE_SYNC_MARKS, 0);
    }
}

/* Returns whether the listing is still of use, and its voter still answers. */
static bool is_wanted(const struct quorum *quorum, const struct exchange *exchange)
{
    bool learns = quorum->config->self == QUORUM_NO_VOTER; /* a learner gets no heartbeats */
    if ((!learns && !voters_heartbeats_arrive(quorum, exchange->voter)) ||
        exchange->tries > EXCHANGE_TRIES_MAX || exchange->silent > EXCHANGE_SILENT_MAX) {
        return false;
    }
    switch ((enum exchange_purpose)exchange->purpose) {
    case EXCHANGE_COMPLETE:
        return ballots_is_read(quorum, exchange->partition) &&
               ballots_of(quorum, exchange->partition) == exchange->ballot;
    case EXCHANGE_CATCH_UP:
    case EXCHANGE_PROBE:
        return ballots_state(quorum, exchange->partition) == PARTITION_OTHERS;
    case EXCHANGE_COMPARE:
    case EXCHANGE_GATHER:
        return may_settle(quorum, exchange->partition) &&
               ballots_of(quorum, exchange->partition) == exchange->ballot;
    case EXCHANGE_MARKS:
        return reaction_is_changing(quorum);
    case EXCHANGE_REJOIN:
        return true;
    case EXCHANGE_NONE:
        break;
    }
    return false;
}

/* The partition must become complete while the voters are being changed. If none of the voters that
 * promised and must still be read has answered for IN_VAIN_MS, prepares the partition again, with
 * the promises of other voters. */
static void read_in_vain(struct quorum *quorum, uint32_t p)
{
    struct settling *settling = &quorum->sync->settling[p];
    if (!reaction_is_changing(quorum) || !voters_majority(quorum) ||
        !step_has_room(quorum, 8 * MESSAGE_VOTERS_MAX)) {
        return;
    }
    if (settling->ballot != ballots_of(quorum, p)) {
        *settling = (struct settling){.ballot = ballots_of(quorum, p),
                                      .next_ns = step_now_ns(quorum) + IN_VAIN_MS * MS_NS};
    } else if (step_now_ns(quorum) >= settling->next_ns) {
        ballots_prepare_again(quorum, p);
    }
}

/* Returns the voter to read next for the partition to become complete; voter_count if there is
 * none, or if a voter is being read already. */
static uint32_t voter_to_read(struct quorum *quorum, uint32_t p)
{
    uint32_t count = quorum->config->voter_count;
    uint8_t wanted = ballots_to_read(quorum, p);
    if (wanted == 0 || is_exchanged(quorum, p)) {
        return count;
    }
    for (uint32_t voter = 0; voter < count; voter++) {
        if ((wanted >> voter & 1) != 0 && voters_vote(quorum, voter)) {
            return voter;
        }
    }
    read_in_vain(quorum, p);
    return count;
}

static void start_complete(struct quorum *quorum)
{
    for (uint32_t i = 0; i < MESSAGE_PARTITIONS && ballots_incomplete(quorum) > 0; i++) {
        uint32_t p = quorum->sync->complete_next;
        uint32_t voter = voter_to_read(quorum, p);
        if (voter == quorum->config->voter_count) {
            quorum->sync->complete_next = (p + 1) % MESSAGE_PARTITIONS;
        } else if (!start(quorum, EXCHANGE_COMPLETE, voter, MESSAGE_SYNC_REGISTERS, p)) {
            return;
        }
    }
}

/* Returns the voter to catch up with, which is the partition's coordinator; voter_count if there is
 * none. */
static uint32_t leader_of(const struct quorum *quorum, uint32_t p)
{
    uint32_t count = quorum->config->voter_count;
    if (!reaction_votes(quorum) || ballots_state(quorum, p) != PARTITION_OTHERS) {
        return count;
    }
    for (uint32_t voter = 0; voter < count; voter++) {
        if (voters_claims_count(quorum, voter) && voters_claim(quorum, voter, p)) {
            return voter;
        }
    }
    return count;
}

static void start_catch_up(struct quorum *quorum)
{
    for (uint32_t p = 0; p < MESSAGE_PARTITIONS; p++) {
        uint32_t voter = message_partition_has(&quorum->sync->behind, p)
                             ? leader_of(quorum, p)
                             : quorum->config->voter_count;
        if (voter != quorum->config->voter_count && !is_exchanged(quorum, p) &&
            !start(quorum, EXCHANGE_CATCH_UP, voter, MESSAGE_SYNC_REGISTERS, p)) {
            return;
        }
    }
}

/* Begins to read the listings that are due, as long as entries are free. */
static void more(struct quorum *quorum)
{
    start_complete(quorum);
    start_catch_up(quorum);
    start_compare(quorum);
}

/* ---- Answers ---- */

static void remove_partition(struct message_partitions *set, uint32_t partition)
{
    set->bits[partition / 64] &= ~(UINT64_C(1) << (partition % 64));
}

/* Notes the result of a comparison. A partition that differs is compared again soon, because it may
 * differ only by a change that is under way. */
static void probed(struct quorum *quorum, uint32_t p, bool same)
{
    quorum->sync->suspect[p] = same ? 0 : (uint8_t)(quorum->sync->suspect[p] + 1);
    if (quorum->sync->suspect[p] >= SUSPECT_MAX) {
        quorum->sync->suspect[p] = 0;
        message_partition_add(&quorum->sync->behind, p);
    } else if (!same) {
        quorum->sync->catch_next = p;
    }
}

/* Ends a listing that was read to its end, or that is equal to the registers here. Returns false if
 * the listing has to be read again. */
static bool finish(struct quorum *quorum, struct exchange *exchange, bool same)
{
    uint32_t p = exchange->partition;
    enum exchange_purpose purpose = (enum exchange_purpose)exchange->purpose;
    bool wanted = is_wanted(quorum, exchange) && !exchange->lacking;
    exchange->purpose = EXCHANGE_NONE;
    if (purpose == EXCHANGE_PROBE) {
        probed(quorum, p, same);
        return true;
    }
    if (!wanted) {
        return false;
    }
    if (purpose == EXCHANGE_COMPARE) {
        compared(quorum, p, exchange->voter, same);
        return true;
    }
    if (purpose == EXCHANGE_MARKS) {
        reaction_marks_read(quorum, exchange->voter);
        return true;
    }
    if (!same && exchange->what == MESSAGE_SYNC_REGISTERS &&
        message_order_before(registers_checkpoint(quorum, p)->order, exchange->checkpoint.order) &&
        !sync_adopt_checkpoint(quorum, p, &exchange->checkpoint, exchange->listing)) {
        return false; /* registers that are deleted at the other voter are still here */
    }
    if (purpose == EXCHANGE_COMPLETE) {
        ballots_note_read(quorum, p, exchange->voter);
    } else if (purpose == EXCHANGE_CATCH_UP) {
        remove_partition(&quorum->sync->behind, p);
    } else if (purpose == EXCHANGE_GATHER) {
        quorum->sync->settling[p].next_ns = step_now_ns(quorum);
    } else {
        reaction_listing_read(quorum, exchange->voter, (enum message_sync_what)exchange->what, p);
    }
    return true;
}

static void take_register(struct quorum *quorum, struct exchange *exchange,
                          const struct message_synced *synced)
{
    if (names_partition(synced->name.bytes, synced->name.length) != exchange->partition) {
        exchange->lacking = true;
        return;
    }
    struct message_accept value = {.order = synced->accepted, .name = synced->name};
    message_value_copy(&value.value, &synced->value);
    if (!registers_adopt(quorum, &value)) {
        exchange->lacking = true;
        return;
    }
    registers_set_listing(quorum, &value.name, exchange->listing);
}

static struct exchange *exchange_of(struct quorum *quorum, const struct message *message)
{
    const struct message_synced *synced = &message->as.synced;
    uint32_t voter = 0;
    if (!agents_voter(quorum, message, &voter)) {
        return NULL;
    }
    for (uint32_t i = 0; i < EXCHANGES_MAX; i++) {
        struct exchange *exchange = &quorum->sync->exchanges[i];
        if (exchange->purpose != EXCHANGE_NONE && exchange->id == synced->id &&
            exchange->voter == voter && exchange->what == synced->what &&
            exchange->partition == synced->partition && synced->index <= MESSAGE_SYNC_BATCH) {
            return exchange;
        }
    }
    return NULL;
}

/* Asks for more, or ends the listing. Call it when all answers to one SYNC have arrived. */
static void batch_read(struct quorum *quorum, struct exchange *exchange)
{
    if (exchange->last == MESSAGE_SYNCED_MORE) {
        exchange->after = exchange->next;
        exchange->tries = 0;
        ask(quorum, exchange);
        return;
    }
    if (finish(quorum, exchange, exchange->last == MESSAGE_SYNCED_SAME)) {
        more(quorum);
    }
}

void sync_answer(struct quorum *quorum, const struct message *message)
{
    const struct message_synced *synced = &message->as.synced;
    struct exchange *exchange = exchange_of(quorum, message);
    if (exchange == NULL || (exchange->got >> synced->index & 1) != 0) {
        return;
    }
    if (!is_wanted(quorum, exchange)) {
        exchange->purpose = EXCHANGE_NONE;
        more(quorum);
        return;
    }
    if (exchange->began &&
        !message_order_equal(exchange->checkpoint.order, synced->checkpoint.order)) {
        restart(quorum,
                exchange); /* registers that were listed earlier may have been deleted since */
        return;
    }
    exchange->began = true;
    exchange->checkpoint = synced->checkpoint;
    exchange->got |= UINT64_C(1) << synced->index;
    switch ((enum message_synced_kind)synced->kind) {
    case MESSAGE_SYNCED_REGISTER:
        take_register(quorum, exchange, synced);
        break;
    case MESSAGE_SYNCED_MARK:
        if (exchange->purpose == EXCHANGE_MARKS) {
            reaction_mark_seen(quorum, exchange->voter, &synced->mark);
            break;
        }
        exchange->lacking = !sessions_adopt_mark(quorum, &synced->mark) || exchange->lacking;
        break;
    case MESSAGE_SYNCED_SAME:
    case MESSAGE_SYNCED_MORE:
    case MESSAGE_SYNCED_END:
        exchange->last = synced->kind;
        exchange->next = synced->next;
        exchange->answers = synced->index + 1;
        break;
    }
    if (exchange->answers != 0 && exchange->got == (UINT64_C(1) << exchange->answers) - 1) {
        batch_read(quorum, exchange);
    }
}

/* ---- Time ---- */

/* Compares this voter's registers of the next partition with those of the partition's
 * coordinator. */
static void probe(struct quorum *quorum)
{
    uint32_t p = quorum->sync->catch_next;
    uint32_t voter = leader_of(quorum, p);
    quorum->sync->catch_next = (p + 1) % MESSAGE_PARTITIONS;
    if (voter != quorum->config->voter_count && !is_exchanged(quorum, p) &&
        !message_partition_has(&quorum->sync->behind, p)) {
        /* if too many listings are being read, the partition is compared 10 s later */
        (void)start(quorum, EXCHANGE_PROBE, voter, MESSAGE_SYNC_REGISTERS, p);
    }
}

int64_t sync_tick(struct quorum *quorum)
{
    int64_t next_ns = NEVER;
    for (uint32_t i = 0; i < EXCHANGES_MAX; i++) {
        struct exchange *exchange = &quorum->sync->exchanges[i];
        if (exchange->purpose == EXCHANGE_NONE) {
            continue;
        }
        if (exchange->resend_ns <= step_now_ns(quorum)) {
            if (!step_has_room(quorum, MESSAGE_VOTERS_MAX)) {
                return step_now_ns(quorum);
            }
            exchange->tries++;
            exchange->silent = exchange->got == 0 ? exchange->silent + 1 : 0;
            if (is_wanted(quorum, exchange)) {
                ask(quorum, exchange);
            } else {
                exchange->purpose = EXCHANGE_NONE;
                continue;
            }
        }
        next_ns = exchange->resend_ns < next_ns ? exchange->resend_ns : next_ns;
    }
    if (!has_ticks(quorum)) {
        quorum->sync->catch_ns = NEVER;
    } else if (quorum->sync->catch_ns <= step_now_ns(quorum)) {
        quorum->sync->catch_ns = step_now_ns(quorum) + CATCH_UP_MS * MS_NS;
        more(quorum);
        /* several partitions each time, because SYNCs to the same voter share a packet */
        for (uint32_t i = 0; i < CATCH_UP_AT_ONCE; i++) {
            probe(quorum);
        }
    }
    return quorum->sync->catch_ns < next_ns ? quorum->sync->catch_ns : next_ns;
}
