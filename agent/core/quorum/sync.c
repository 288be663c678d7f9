/*
 * Reading what other voters have. See sync.h.
 *
 * A PULL asks for the registers behind a place of the other's list; the answers are one register
 * each, up to MESSAGE_PULL_BATCH of them, then one that says that there are MORE (and where), or
 * that this was the END. If the digests of both are equal, that is the only answer. An answer that
 * is lost or overtaken is seen from the answers' index; the same place is asked again then.
 *
 * A change that is just on its way makes two voters differ too, so a partition is read only when it
 * differs several times in a row, or at once after this voter was away.
 *
 * A checkpoint of the other that is above the own one is adopted at the end of a listing in which
 * it did not change: what the listing did not have is deleted (sync_deletion.c).
 */
#include "sync.h"

#include <string.h>

#include "proto/check.h"
#include "reactions.h"
#include "sync_private.h"

enum {
    PULL_RESEND_MS = 100,      /* at least, before the same place is asked again; */
    PULL_RESEND_MAX_MS = 1600, /* where no answer came at all, doubling up to that */
    PULL_TRIES_MAX = 20,
    PULL_SILENT_MAX = 6,    /* of these, without an answer at all */
    CATCH_UP_MS = 240,      /* between two looks at */
    CATCH_UP_AT_ONCE = 6,   /* so many partitions: all within about 10 s */
    SUSPECT_MAX = 4,        /* so often different in a row: something is missing */
    ANSWER_SCAN_MAX = 4096, /* agents that are looked at for one answer */
};

_Static_assert(MESSAGE_PULL_BATCH + 1 < 64, "the answers to a PULL are bits of one word");

struct sync *sync_lay_out(struct arena *arena)
{
    return arena_take(arena, 1, sizeof(struct sync));
}

void sync_start(struct quorum *quorum)
{
    quorum->sync->pull_id = step_random(quorum) ^
                            step_random(quorum) >> 17; /* other than the last process's */
    quorum->sync->catch_ns = NEVER;
    if (quorum->config->voter_count > 1) {
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

/* ---- Answering ---- */

static struct message_pulled *answer(struct quorum *quorum, uint32_t voter,
                                     const struct message_pull *pull, uint32_t *index,
                                     enum message_pulled_kind kind)
{
    struct message_pulled *pulled = &step_send(quorum, voter, MESSAGE_PULLED)->as.pulled;
    pulled->what = pull->what;
    pulled->partition = pull->partition;
    pulled->kind = (uint8_t)kind;
    pulled->id = pull->id;
    pulled->index = (*index)++;
    pulled->checkpoint = *registers_checkpoint(quorum, pull->partition);
    return pulled;
}

static void answer_registers(struct quorum *quorum, uint32_t voter, const struct message_pull *pull)
{
    struct message_order order = registers_checkpoint(quorum, pull->partition)->order;
    uint32_t index = 0;
    if (pull->digest == registers_digest(quorum, pull->partition) &&
        message_order_equal(pull->checkpoint.order, order)) {
        answer(quorum, voter, pull, &index, MESSAGE_PULLED_SAME);
        return;
    }
    if (pull->after == MESSAGE_PULL_PROBE) {
        answer(quorum, voter, pull, &index, MESSAGE_PULLED_END);
        return;
    }
    uint32_t last = pull->after;
    uint32_t at = registers_resume(quorum, pull->partition, last);
    while (at != NONE && index < MESSAGE_PULL_BATCH) {
        struct message_pulled *pulled = answer(quorum, voter, pull, &index,
                                               MESSAGE_PULLED_REGISTER);
        const struct record *record = registers_at(quorum, at);
        step_lock_name(quorum, registers_name(quorum, at), &pulled->name);
        pulled->accepted = record_accepted(record);
        record_to_value(quorum, record, &pulled->value);
        pulled->next = at;
        last = at;
        at = registers_next(quorum, at);
    }
    answer(quorum, voter, pull, &index, at == NONE ? MESSAGE_PULLED_END : MESSAGE_PULLED_MORE)
        ->next = last;
}

/* Places are indexes of agents plus one. */
static void answer_marks(struct quorum *quorum, uint32_t voter, const struct message_pull *pull)
{
    uint32_t index = 0;
    uint32_t at = pull->after;
    for (uint32_t i = 0; i < ANSWER_SCAN_MAX && at < agents_count(quorum); i++) {
        uint32_t marked = sessions_marked_epoch(quorum, at++);
        if (marked != 0) {
            struct message_pulled *pulled = answer(quorum, voter, pull, &index,
                                                   MESSAGE_PULLED_MARK);
            pulled->mark.agent = *agents_name(quorum, at - 1);
            pulled->mark.epoch = marked;
            pulled->next = at;
        }
        if (index == MESSAGE_PULL_BATCH) {
            break;
        }
    }
    bool end = at >= agents_count(quorum);
    answer(quorum, voter, pull, &index, end ? MESSAGE_PULLED_END : MESSAGE_PULLED_MORE)->next = at;
}

void sync_pull(struct quorum *quorum, const struct message *message)
{
    const struct message_pull *pull = &message->as.pull;
    uint32_t voter = 0;
    if (!agents_voter(quorum, message, &voter)) {
        return;
    }
    if (pull->what == MESSAGE_PULL_REGISTERS) {
        answer_registers(quorum, voter, pull);
    } else {
        answer_marks(quorum, voter, pull);
    }
}

/* ---- Asking ---- */

/* Answers to what was asked before do not count when it is asked again: they may be of another
 * list. So who has not answered at all, and may be slow, is given more time with each try. */
static int64_t pause_ns(const struct quorum *quorum, const struct pull *pull)
{
    static const int64_t most_ns = PULL_RESEND_MAX_MS * MS_NS;
    int64_t pause_ns = voters_trip_ns(quorum, pull->voter);
    pause_ns = pause_ns > PULL_RESEND_MS * MS_NS ? pause_ns : PULL_RESEND_MS * MS_NS;
    for (uint32_t i = 0; i < pull->silent && pause_ns < most_ns; i++) {
        pause_ns *= 2;
    }
    return pause_ns < most_ns ? pause_ns : most_ns;
}

/* Asks for what follows the place that was reached. */
static void ask(struct quorum *quorum, struct pull *pull)
{
    pull->id = ++quorum->sync->pull_id;
    pull->got = 0;
    pull->answers = 0;
    pull->resend_ns = step_now_ns(quorum) + pause_ns(quorum, pull);
    step_schedule(quorum, pull->resend_ns);
    struct message_pull *message = &step_send(quorum, pull->voter, MESSAGE_PULL)->as.pull;
    message->what = pull->what;
    message->partition = pull->partition;
    message->id = pull->id;
    message->after = pull->after;
    message->digest = registers_digest(quorum, pull->partition);
    message->checkpoint = *registers_checkpoint(quorum, pull->partition);
}

static void restart(struct quorum *quorum, struct pull *pull)
{
    pull->after = pull->purpose == PULL_PROBE ? MESSAGE_PULL_PROBE : 0;
    pull->began = false;
    pull->lacking = false;
    pull->listing = ++quorum->sync->listing;
    ask(quorum, pull);
}

/* false: no slot is free, or the step has no room. */
static bool start(struct quorum *quorum, enum pull_purpose purpose, uint32_t voter,
                  enum message_pull_what what, uint32_t partition)
{
    struct pull *pull = NULL;
    for (uint32_t i = 0; i < PULLS_MAX && pull == NULL; i++) {
        pull = quorum->sync->pulls[i].purpose == PULL_NONE ? &quorum->sync->pulls[i] : NULL;
    }
    if (pull == NULL || !step_has_room(quorum, MESSAGE_VOTERS_MAX)) {
        return false;
    }
    *pull = (struct pull){
        .purpose = (uint8_t)purpose,
        .voter = (uint8_t)voter,
        .what = (uint8_t)what,
        .partition = (uint8_t)partition,
        .ballot = ballots_of(quorum, partition),
    };
    restart(quorum, pull);
    return true;
}

static bool marks_are_read(const struct quorum *quorum, uint32_t voter)
{
    for (uint32_t i = 0; i < PULLS_MAX; i++) {
        const struct pull *pull = &quorum->sync->pulls[i];
        if (pull->purpose != PULL_NONE && pull->what == MESSAGE_PULL_MARKS &&
            pull->voter == voter) {
            return true;
        }
    }
    return false;
}

/* A partition is read from one voter at a time: a register bears the number of one listing, and a
 * checkpoint takes away what bears another's. */
static bool is_pulled(const struct quorum *quorum, uint32_t partition)
{
    for (uint32_t i = 0; i < PULLS_MAX; i++) {
        const struct pull *pull = &quorum->sync->pulls[i];
        if (pull->purpose != PULL_NONE && pull->what == MESSAGE_PULL_REGISTERS &&
            pull->partition == partition) {
            return true;
        }
    }
    return false;
}

bool sync_read(struct quorum *quorum, uint32_t voter, enum message_pull_what what,
               uint32_t partition)
{
    bool busy = what == MESSAGE_PULL_MARKS ? marks_are_read(quorum, voter)
                                           : is_pulled(quorum, partition);
    return busy || start(quorum, PULL_REJOIN, voter, what, partition);
}

/* Whether what is being read is still wanted. */
static bool is_wanted(const struct quorum *quorum, const struct pull *pull)
{
    if (!voters_hear(quorum, pull->voter) || pull->tries > PULL_TRIES_MAX ||
        pull->silent > PULL_SILENT_MAX) {
        return false;
    }
    switch ((enum pull_purpose)pull->purpose) {
    case PULL_COMPLETE:
        return ballots_is_read(quorum, pull->partition) &&
               ballots_of(quorum, pull->partition) == pull->ballot;
    case PULL_CATCH_UP:
    case PULL_PROBE:
        return ballots_state(quorum, pull->partition) == PARTITION_OTHERS;
    case PULL_REJOIN:
        return true;
    case PULL_NONE:
        break;
    }
    return false;
}

/* The next voter that has to be read before the partition is complete; voter_count: none, or one is
 * being read. */
static uint32_t voter_to_read(const struct quorum *quorum, uint32_t p)
{
    uint32_t count = quorum->config->voter_count;
    uint8_t wanted = ballots_to_read(quorum, p);
    if (wanted == 0 || is_pulled(quorum, p)) {
        return count;
    }
    for (uint32_t voter = 0; voter < count; voter++) {
        if ((wanted >> voter & 1) != 0 && voters_hear(quorum, voter)) {
            return voter;
        }
    }
    return count;
}

static void start_complete(struct quorum *quorum)
{
    for (uint32_t i = 0; i < MESSAGE_PARTITIONS && ballots_incomplete(quorum) > 0; i++) {
        uint32_t p = quorum->sync->complete_next;
        uint32_t voter = voter_to_read(quorum, p);
        if (voter == quorum->config->voter_count) {
            quorum->sync->complete_next = (p + 1) % MESSAGE_PARTITIONS;
        } else if (!start(quorum, PULL_COMPLETE, voter, MESSAGE_PULL_REGISTERS, p)) {
            return;
        }
    }
}

/* The voter whose registers of the partition are to be caught up with; voter_count: none. */
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
        if (voter != quorum->config->voter_count && !is_pulled(quorum, p) &&
            !start(quorum, PULL_CATCH_UP, voter, MESSAGE_PULL_REGISTERS, p)) {
            return;
        }
    }
}

/* Begins what there is to be read, as far as there are slots. */
static void more(struct quorum *quorum)
{
    start_complete(quorum);
    start_catch_up(quorum);
}

/* ---- What was read ---- */

static void remove_partition(struct message_partitions *set, uint32_t partition)
{
    set->bits[partition / 64] &= ~(UINT64_C(1) << (partition % 64));
}

/* One that differs is looked at again soon: what was on its way is there then. */
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

/* The listing was read to its end, or is the same here. false: it has to be read again. */
static bool finish(struct quorum *quorum, struct pull *pull, bool same)
{
    uint32_t p = pull->partition;
    enum pull_purpose purpose = (enum pull_purpose)pull->purpose;
    bool wanted = is_wanted(quorum, pull) && !pull->lacking;
    pull->purpose = PULL_NONE;
    if (purpose == PULL_PROBE) {
        probed(quorum, p, same);
        return true;
    }
    if (!wanted) {
        return false;
    }
    if (!same && pull->what == MESSAGE_PULL_REGISTERS &&
        message_order_before(registers_checkpoint(quorum, p)->order, pull->checkpoint.order) &&
        !sync_adopt_checkpoint(quorum, p, &pull->checkpoint, pull->listing)) {
        return false; /* what is gone there is still here */
    }
    if (purpose == PULL_COMPLETE) {
        ballots_note_read(quorum, p, pull->voter);
    } else if (purpose == PULL_CATCH_UP) {
        remove_partition(&quorum->sync->behind, p);
    } else {
        reaction_listing_read(quorum, pull->voter, (enum message_pull_what)pull->what, p);
    }
    return true;
}

static void take_register(struct quorum *quorum, struct pull *pull,
                          const struct message_pulled *pulled)
{
    if (names_partition(pulled->name.bytes, pulled->name.length) != pull->partition) {
        pull->lacking = true;
        return;
    }
    struct message_accept value = {.order = pulled->accepted, .name = pulled->name};
    message_value_copy(&value.value, &pulled->value);
    if (!registers_adopt(quorum, &value)) {
        pull->lacking = true;
        return;
    }
    registers_set_listing(quorum, &value.name, pull->listing);
}

static struct pull *pull_of(struct quorum *quorum, const struct message *message)
{
    const struct message_pulled *pulled = &message->as.pulled;
    uint32_t voter = 0;
    if (!agents_voter(quorum, message, &voter)) {
        return NULL;
    }
    for (uint32_t i = 0; i < PULLS_MAX; i++) {
        struct pull *pull = &quorum->sync->pulls[i];
        if (pull->purpose != PULL_NONE && pull->id == pulled->id && pull->voter == voter &&
            pull->what == pulled->what && pull->partition == pulled->partition &&
            pulled->index <= MESSAGE_PULL_BATCH) {
            return pull;
        }
    }
    return NULL;
}

/* All answers to one PULL are here. */
static void batch_read(struct quorum *quorum, struct pull *pull)
{
    if (pull->last == MESSAGE_PULLED_MORE) {
        pull->after = pull->next;
        pull->tries = 0;
        ask(quorum, pull);
        return;
    }
    if (finish(quorum, pull, pull->last == MESSAGE_PULLED_SAME)) {
        more(quorum);
    }
}

void sync_pulled(struct quorum *quorum, const struct message *message)
{
    const struct message_pulled *pulled = &message->as.pulled;
    struct pull *pull = pull_of(quorum, message);
    if (pull == NULL || (pull->got >> pulled->index & 1) != 0) {
        return;
    }
    if (!is_wanted(quorum, pull)) {
        pull->purpose = PULL_NONE;
        more(quorum);
        return;
    }
    if (pull->began && !message_order_equal(pull->checkpoint.order, pulled->checkpoint.order)) {
        restart(quorum, pull); /* what was listed before may be deleted by now */
        return;
    }
    pull->began = true;
    pull->checkpoint = pulled->checkpoint;
    pull->got |= UINT64_C(1) << pulled->index;
    switch ((enum message_pulled_kind)pulled->kind) {
    case MESSAGE_PULLED_REGISTER:
        take_register(quorum, pull, pulled);
        break;
    case MESSAGE_PULLED_MARK:
        pull->lacking = !sessions_adopt_mark(quorum, &pulled->mark) || pull->lacking;
        break;
    case MESSAGE_PULLED_SAME:
    case MESSAGE_PULLED_MORE:
    case MESSAGE_PULLED_END:
        pull->last = pulled->kind;
        pull->next = pulled->next;
        pull->answers = pulled->index + 1;
        break;
    }
    if (pull->answers != 0 && pull->got == (UINT64_C(1) << pull->answers) - 1) {
        batch_read(quorum, pull);
    }
}

/* ---- Time ---- */

/* One partition is compared with its coordinator's. */
static void probe(struct quorum *quorum)
{
    uint32_t p = quorum->sync->catch_next;
    uint32_t voter = leader_of(quorum, p);
    quorum->sync->catch_next = (p + 1) % MESSAGE_PARTITIONS;
    if (voter != quorum->config->voter_count && !is_pulled(quorum, p) &&
        !message_partition_has(&quorum->sync->behind, p)) {
        (void)start(quorum, PULL_PROBE, voter, MESSAGE_PULL_REGISTERS, p); /* or 10 s later */
    }
}

int64_t sync_tick(struct quorum *quorum)
{
    int64_t next_ns = NEVER;
    for (uint32_t i = 0; i < PULLS_MAX; i++) {
        struct pull *pull = &quorum->sync->pulls[i];
        if (pull->purpose == PULL_NONE) {
            continue;
        }
        if (pull->resend_ns <= step_now_ns(quorum)) {
            if (!step_has_room(quorum, MESSAGE_VOTERS_MAX)) {
                return step_now_ns(quorum);
            }
            pull->tries++;
            pull->silent = pull->got == 0 ? pull->silent + 1 : 0;
            if (is_wanted(quorum, pull)) {
                ask(quorum, pull);
            } else {
                pull->purpose = PULL_NONE;
                continue;
            }
        }
        next_ns = pull->resend_ns < next_ns ? pull->resend_ns : next_ns;
    }
    if (quorum->sync->catch_ns <= step_now_ns(quorum)) {
        quorum->sync->catch_ns = step_now_ns(quorum) + CATCH_UP_MS * MS_NS;
        more(quorum);
        for (uint32_t i = 0; i < CATCH_UP_AT_ONCE; i++) { /* those of one voter are one packet */
            probe(quorum);
        }
    }
    return quorum->sync->catch_ns < next_ns ? quorum->sync->catch_ns : next_ns;
}
