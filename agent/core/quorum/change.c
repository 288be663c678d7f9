/*
 * The register of the next record of voters: acceptor and proposer. See change.h.
 *
 * The code of this file enforces these rules of docs/PROTOCOL.md, which the model
 * tests/model/cell/members_record.pml checks: m1 (two majorities), m3 (one voter more or less), m7
 * (no change begins before the previous number is complete), m10 (a record that was read goes on),
 * m11 (the newcomer accepts first) and m17 (no number of a ballot is used again).
 */
#include "change.h"

#include <string.h>

#include "change_private.h"
#include "proto/check.h"
#include "reactions.h"

enum {
    PAUSE_MIN_MS = 20, /* PAUSE_MIN_MS to PAUSE_MAX_MS: the random pause before a new ballot */
    PAUSE_MAX_MS = 120,
    GIVE_UP_MS = 20000, /* a proposal is given up if it has no majority after this time */
    NAME_MS = 1000,     /* for this long, no silent voter is named */
    SILENT_MS = 5000,   /* a newcomer is given up if it reports nothing for this long */
    LEARN_MS = 500,     /* how often LEARN is repeated */
    LEAVE_MS = 1000,    /* how long a voter that is to be removed may hand its partitions over */
    LEAVE_LOOK_MS = 50,
    OLDER_TTLS = 3, /* an agent counts as older for so many ttls after its last message of an older
                     * version */
};

struct change *change_lay_out(struct arena *arena, const struct quorum_limits *limits)
{
    struct change *changes = arena_take(arena, 1, sizeof(*changes));
    ARENA_TAKE(arena, changes, older_ns, limits->agents);
    ARENA_TAKE(arena, changes, epochs, limits->agents);
    return changes;
}

static bool same_agent(const struct message_agent *a, const struct message_agent *b)
{
    return memcmp(a, b, sizeof(*a)) == 0;
}

/* ---- Acceptor ---- */

static bool ballot_fits(uint64_t ballot)
{
    return ballot < MESSAGE_BALLOT_LIMIT && (ballot == 0 || (ballot >> 16 != 0));
}

bool change_load(struct quorum *quorum, const struct quorum_change *row)
{
    bool has = row->accepted != 0;
    if (row->number != members_voters(quorum)->number + 1) {
        return true; /* the row's number has been decided meanwhile */
    }
    if (!ballot_fits(row->promised) || !ballot_fits(row->accepted) ||
        row->accepted > row->promised ||
        (has && (!voters_valid(&row->voters) || row->voters.number != row->number))) {
        return false;
    }
    quorum->changes->row = *row;
    ballots_note(quorum, row->promised);
    return true;
}

/* Returns whether the record is what the operator asked for. */
static bool is_wish(const struct proposal *proposal)
{
    const struct message_voters *record = &proposal->record;
    const struct message_member_asked *asked = &proposal->asked;
    uint32_t at = message_voters_find(record, &asked->voter);
    return record->act == asked->act && same_agent(&record->changed, &asked->voter) &&
           (at == record->count ||
            memcmp(record->of[at].address, asked->address, sizeof(asked->address)) == 0);
}

void change_follow(struct quorum *quorum)
{
    struct change *changes = quorum->changes;
    struct proposal *proposal = &changes->proposal;
    memset(&changes->row, 0, sizeof(changes->row));
    memset(&changes->completion, 0, sizeof(changes->completion));
    memset(changes->epochs, 0, agents_count(quorum) * sizeof(changes->epochs[0]));
    if (changes->learning.id != 0) {
        memset(&changes->learning, 0, sizeof(changes->learning));
    }
    if (proposal->stage == MESSAGE_CHANGE_LEARNS || proposal->stage == MESSAGE_CHANGE_DECIDES) {
        /* Another proposer may have read this voter's proposal from an acceptor, and have got a
         * majority for it. Then the change counts as chosen here, too. If this voter got the
         * majority itself, choose() sets CHOSEN afterwards. */
        struct proposal chosen = {.asked = proposal->asked, .record = *members_voters(quorum)};
        bool own = chosen.record.number == proposal->number && is_wish(&chosen);
        proposal->stage = own ? MESSAGE_CHANGE_CHOSEN : MESSAGE_CHANGE_REFUSED;
        proposal->reason = own ? MESSAGE_CHANGE_NONE : MESSAGE_CHANGE_RIVAL;
    }
    if (step_started(quorum)) {
        changes->completion.next_ns = step_now_ns(quorum);
        step_schedule(quorum, step_now_ns(quorum));
    }
}

/* Returns the row of the next number. A row of another number is of no use any more, so it is
 * cleared. */
static struct quorum_change *row_of_next(struct quorum *quorum)
{
    struct quorum_change *row = &quorum->changes->row;
    uint32_t next = members_voters(quorum)->number + 1;
    if (row->number != next) {
        memset(row, 0, sizeof(*row));
        row->number = next;
    }
    return row;
}

static void persist(struct quorum *quorum)
{
    const struct quorum_change *row = &quorum->changes->row;
    struct quorum_change *out = &step_emit(quorum, ACTION_PERSIST_CHANGE)->as.change;
    *out = *row;
}

/* Appends an answer to the proposer, which is a voter of the present number. */
static struct message_change *answer(struct quorum *quorum, uint32_t voter, enum message_kind kind,
                                     const struct message_change *asked)
{
    struct message_change *out = &agents_send_voter(quorum, voter, kind)->as.change;
    out->number = asked->number;
    out->ballot = asked->ballot;
    out->higher = 0;
    out->voters.count = 0;
    return out;
}

/* Makes the driver dial the agent at that address, too. LEARN and CHANGE_PREPARE go only to that
 * address, because their answers show the proposer whether the agent is there. */
static void seek_at(struct quorum *quorum, const struct message_agent *name,
                    const char address[MESSAGE_ADDRESS_MAX])
{
    struct quorum_seek *out = &step_emit(quorum, ACTION_SEEK)->as.seek;
    out->voter = *name;
    memcpy(out->address, address, sizeof(out->address));
}

/* The voter that the record moves may run at its new address already, while the other voters still
 * dial the old one. Its promise is needed, so it is also dialled at the new address as long as the
 * record is proposed. Its address does not decide which store votes for it. */
static void seek(struct quorum *quorum, const struct message_voters *record)
{
    const struct message_voters *now = members_voters(quorum);
    uint32_t at = message_voters_find(record, &record->changed);
    uint32_t here = message_voters_find(now, &record->changed);
    if (record->count > 0 && record->act == MESSAGE_MEMBER_MOVE && at < record->count &&
        here < now->count && here != quorum->config->self) {
        seek_at(quorum, &record->changed, record->of[at].address);
    }
}

void change_prepare(struct quorum *quorum, const struct message *message)
{
    const struct message_change *asked = &message->as.change;
    uint32_t voter = 0;
    if (!agents_proposer(quorum, message, asked->ballot, &voter)) {
        return;
    }
    struct quorum_change *row = row_of_next(quorum);
    seek(quorum, &asked->voters);
    ballots_note(quorum, asked->ballot);
    if (asked->ballot > row->promised) {
        row->promised = asked->ballot;
        persist(quorum);
    }
    struct message_change *out = answer(quorum, voter, MESSAGE_CHANGE_PROMISE, asked);
    out->higher = row->promised > asked->ballot ? row->promised : 0;
    out->accepted = row->accepted;
    if (row->accepted != 0) {
        message_voters_copy(&out->voters, &row->voters);
    }
}

/* Returns whether voter a of one record is voter b of another one, with the same store. */
static bool same_voter(const struct message_voter *a, const struct message_voter *b)
{
    return same_agent(&a->name, &b->name) && a->ballot_id == b->ballot_id &&
           a->store_id[0] == b->store_id[0] && a->store_id[1] == b->store_id[1];
}

/* Returns whether `next` follows the present record: one voter more, one less, or one moved (m3),
 * and the new voter has a number that no voter ever had (m17). */
static bool is_next(const struct quorum *quorum, const struct message_voters *next)
{
    const struct message_voters *now = members_voters(quorum);
    uint32_t more = next->act == MESSAGE_MEMBER_ADD;
    uint32_t less = next->act == MESSAGE_MEMBER_REMOVE;
    if (next->number != now->number + 1 || next->count + less != now->count + more ||
        next->recoveries != now->recoveries || next->next_ballot_id != now->next_ballot_id + more) {
        return false;
    }
    for (uint32_t i = 0; i < next->count; i++) {
        const struct message_voter *voter = &next->of[i];
        uint32_t at = message_voters_find(now, &voter->name);
        bool is_new = more == 1 && same_agent(&voter->name, &next->changed);
        if (is_new ? at != now->count || voter->ballot_id != now->next_ballot_id
                   : at == now->count || !same_voter(voter, &now->of[at])) {
            return false;
        }
    }
    return less == 0 || message_voters_find(now, &next->changed) < now->count;
}

/* Returns whether this agent is the voter that the record adds, and has learned enough to join. */
static bool may_join(const struct quorum *quorum, const struct message_voters *record)
{
    const uint64_t *id = quorum->config->store_id;
    uint32_t at = message_voters_find(record, &quorum->config->name);
    return at < record->count && record->act == MESSAGE_MEMBER_ADD &&
           same_agent(&record->changed, &quorum->config->name) &&
           record->of[at].store_id[0] == id[0] && record->of[at].store_id[1] == id[1] &&
           learning_is_ready(quorum);
}

void change_accept(struct quorum *quorum, const struct message *message)
{
    const struct message_change *asked = &message->as.change;
    uint32_t voter = 0;
    if (!agents_proposer(quorum, message, asked->ballot, &voter) ||
        !is_next(quorum, &asked->voters) ||
        !(members_votes(quorum) || may_join(quorum, &asked->voters))) {
        return;
    }
    struct quorum_change *row = row_of_next(quorum);
    seek(quorum, &asked->voters);
    bool accepts = asked->ballot >= row->promised;
    if (accepts) {
        ballots_note(quorum, asked->ballot);
    }
    if (accepts && asked->ballot != row->accepted) {
        row->promised = asked->ballot;
        row->accepted = asked->ballot;
        message_voters_copy(&row->voters, &asked->voters);
        persist(quorum); /* the answer waits until this is durable */
    }
    struct message_change *out = answer(quorum, voter, MESSAGE_CHANGE_ACCEPTED, asked);
    out->higher = accepts ? 0 : row->promised;
}

/* A store that starts over adopts the newest record that the others have accepted, because the lost
 * store may have helped to choose it (docs/PROTOCOL.md, rule 26). */
void change_read(struct quorum *quorum, const struct message *message)
{
    const struct message_change *promise = &message->as.change;
    struct quorum_change *row = row_of_next(quorum);
    if (promise->number == row->number && promise->accepted > row->accepted) {
        row->accepted = promise->accepted;
        message_voters_copy(&row->voters, &promise->voters);
    }
}

void change_rejoined(struct quorum *quorum, uint64_t ballot)
{
    struct quorum_change *row = row_of_next(quorum);
    row->promised = ballot > row->promised ? ballot : row->promised;
    persist(quorum);
}

/* ---- What an operator asks for ---- */

static void refuse(struct proposal *proposal, enum message_change_reason reason,
                   const struct message_agent *subject)
{
    proposal->stage = MESSAGE_CHANGE_REFUSED;
    proposal->reason = (uint8_t)reason;
    memset(&proposal->subject, 0, sizeof(proposal->subject));
    if (subject != NULL) {
        proposal->subject = *subject;
    }
}

/* Returns an agent whose version of the wire protocol has no changes of the voters; NULL if there
 * is none. */
static const struct message_agent *older_agent(const struct quorum *quorum)
{
    int64_t long_ns = OLDER_TTLS * quorum->config->session_ttl_ns;
    for (uint32_t i = 0; i < agents_count(quorum); i++) {
        int64_t older_ns = quorum->changes->older_ns[i];
        if (older_ns != 0 && step_now_ns(quorum) - older_ns < long_ns) {
            return agents_name(quorum, i);
        }
    }
    return NULL;
}

/* Refuses a change for which too few voters answer. */
static bool voters_answer(const struct quorum *quorum, struct proposal *proposal)
{
    const struct message_agent *subject = NULL;
    enum message_change_reason reason = change_lacks(quorum, proposal, &subject);
    if (reason != MESSAGE_CHANGE_NONE) {
        refuse(proposal, reason, subject);
    }
    return reason == MESSAGE_CHANGE_NONE;
}

/* Returns the index of another voter that has the requested address; now->count if none has. Of two
 * voters with one address, only one could be reached. To give one of them another address again,
 * the cell might then need the vote of the voter that cannot be reached. */
static uint32_t taken_by(const struct message_voters *now, const struct message_member_asked *asked)
{
    uint32_t at = 0;
    while (at < now->count &&
           (asked->act == MESSAGE_MEMBER_REMOVE || same_agent(&now->of[at].name, &asked->voter) ||
            memcmp(now->of[at].address, asked->address, sizeof(asked->address)) != 0)) {
        at++;
    }
    return at;
}

/* Checks the operator's request against the present record. */
static bool wish_fits(const struct quorum *quorum, struct proposal *proposal)
{
    const struct message_voters *now = members_voters(quorum);
    const struct message_member_asked *asked = &proposal->asked;
    uint32_t at = message_voters_find(now, &asked->voter);
    uint32_t taken = taken_by(now, asked);
    bool adds = asked->act == MESSAGE_MEMBER_ADD;
    enum message_change_reason reason = MESSAGE_CHANGE_NONE;
    if (asked->number != 0 && asked->number != now->number) {
        reason = MESSAGE_CHANGE_NUMBER;
    } else if (!now->complete) {
        reason = MESSAGE_CHANGE_INCOMPLETE; /* m7 */
    } else if (adds && at < now->count) {
        reason = MESSAGE_CHANGE_IS_VOTER;
    } else if (!adds && at == now->count) {
        reason = MESSAGE_CHANGE_NO_VOTER;
    } else if (adds && now->count == MESSAGE_VOTERS_MAX) {
        reason = MESSAGE_CHANGE_MOST;
    } else if ((adds && now->next_ballot_id == UINT16_MAX) ||
               (now->number + 1) % MESSAGE_NUMBERS == 0) {
        reason = MESSAGE_CHANGE_IDS; /* the next number would be of the cell's next generation */
    } else if (asked->act == MESSAGE_MEMBER_REMOVE && now->count == 1) {
        reason = MESSAGE_CHANGE_LAST;
    } else if (asked->act == MESSAGE_MEMBER_MOVE &&
               memcmp(now->of[at].address, asked->address, sizeof(asked->address)) == 0) {
        reason = MESSAGE_CHANGE_SAME;
    } else if (taken < now->count) {
        reason = MESSAGE_CHANGE_TAKEN;
    }
    if (reason != MESSAGE_CHANGE_NONE) {
        refuse(proposal, reason,
               reason == MESSAGE_CHANGE_TAKEN ? &now->of[taken].name : &asked->voter);
    }
    return reason == MESSAGE_CHANGE_NONE;
}

/* Returns whether the change may begin. If it may not, *proposal says why. An agent that is no
 * voter may not ask for a change. Otherwise it could make itself a voter, and the whole cell
 * believes its voters (docs/SECURITY.md). */
static bool may_begin(const struct quorum *quorum, const struct message *message,
                      struct proposal *proposal)
{
    const struct message_agent *older = older_agent(quorum);
    uint32_t voter = 0;
    if (!members_votes(quorum)) {
        refuse(proposal, MESSAGE_CHANGE_NOT_VOTING, NULL);
        return false;
    }
    if (!agents_voter(quorum, message, &voter)) {
        refuse(proposal, MESSAGE_CHANGE_OBSERVER, &quorum->config->name);
        return false;
    }
    if (!wish_fits(quorum, proposal)) {
        return false;
    }
    if (older != NULL) {
        refuse(proposal, MESSAGE_CHANGE_OLDER, older);
        return false;
    }
    return voters_answer(quorum, proposal);
}

/* Fills in the next record with the present voters. The caller then applies the change to them. */
static void begin_record(const struct quorum *quorum, const struct message_member_asked *asked,
                         struct message_voters *out)
{
    message_voters_copy(out, members_voters(quorum));
    out->number++;
    out->complete = false;
    out->act = asked->act;
    out->changed = asked->voter;
}

static void set_address(struct message_voters *record, const struct message_member_asked *asked)
{
    uint32_t at = message_voters_find(record, &asked->voter);
    memcpy(record->of[at].address, asked->address, sizeof(record->of[at].address));
}

/* Makes the record that the operator's request asks for. */
static void make_record(const struct quorum *quorum, const struct proposal *proposal,
                        struct message_voters *out)
{
    const struct message_member_asked *asked = &proposal->asked;
    begin_record(quorum, asked, out);
    uint32_t at = message_voters_find(out, &asked->voter);
    if ((out->cell_id[0] | out->cell_id[1]) == 0) { /* the cell's first change draws the cell's
                                                     * id */
        out->cell_id[0] = step_random(quorum) ^ proposal->ballot;
        out->cell_id[1] = step_random(quorum) * UINT64_C(0x9e3779b97f4a7c15) | 1;
    }
    if (asked->act == MESSAGE_MEMBER_REMOVE) {
        memmove(&out->of[at], &out->of[at + 1], (out->count - at - 1) * sizeof(out->of[0]));
        memset(&out->of[--out->count], 0, sizeof(out->of[0]));
        return;
    }
    if (asked->act == MESSAGE_MEMBER_ADD) {
        for (at = out->count++;
             at > 0 && message_agent_before(&asked->voter, &out->of[at - 1].name); at--) {
            out->of[at] = out->of[at - 1];
        }
        memset(&out->of[at], 0, sizeof(out->of[at]));
        out->of[at].name = asked->voter;
        out->of[at].ballot_id = out->next_ballot_id++; /* m17 */
        memcpy(out->of[at].store_id, proposal->store_id, sizeof(out->of[at].store_id));
    }
    set_address(out, asked);
}

/* ---- Proposer ---- */

static void wake_at(struct quorum *quorum, int64_t when_ns)
{
    quorum->changes->proposal.next_ns = when_ns;
    step_schedule(quorum, when_ns);
}

static bool is_newcomer(const struct message_voters *record, const struct message_agent *name)
{
    return record->act == MESSAGE_MEMBER_ADD && same_agent(&record->changed, name);
}

/* Returns the voter that is to be moved, if the proposal lacks its promise or its accept; NULL if
 * the proposal lacks neither. */
static const struct message_agent *lacking(const struct quorum *quorum,
                                           const struct proposal *proposal)
{
    uint8_t there = proposal->accepting ? proposal->accepted : proposal->promised;
    uint32_t voter = message_voters_find(members_voters(quorum), &proposal->asked.voter);
    return proposal->asked.act == MESSAGE_MEMBER_MOVE && (there >> voter & 1) == 0
               ? &proposal->asked.voter
               : NULL;
}

static void send_prepare(struct quorum *quorum)
{
    struct proposal *proposal = &quorum->changes->proposal;
    if (lacking(quorum, proposal) != NULL) {
        seek_at(quorum, &proposal->asked.voter, proposal->asked.address);
    }
    for (uint32_t voter = 0; voter < quorum->config->voter_count; voter++) {
        if ((proposal->promised >> voter & 1) == 0) {
            struct message_change *out =
                &agents_send_voter(quorum, voter, MESSAGE_CHANGE_PREPARE)->as.change;
            out->number = proposal->number;
            out->ballot = proposal->ballot;
            out->voters.count = 0;
            if (proposal->asked.act == MESSAGE_MEMBER_MOVE) {
                begin_record(quorum, &proposal->asked, &out->voters);
                set_address(&out->voters, &proposal->asked);
            }
        }
    }
    wake_at(quorum, step_now_ns(quorum) + RESEND_MS * MS_NS);
}

static void fill_accept(const struct proposal *proposal, struct message_change *out)
{
    out->number = proposal->number;
    out->ballot = proposal->ballot;
    message_voters_copy(&out->voters, &proposal->record);
}

static void send_accept(struct quorum *quorum)
{
    struct proposal *proposal = &quorum->changes->proposal;
    const struct message_voters *record = &proposal->record;
    uint32_t agent = 0;
    bool adds = record->act == MESSAGE_MEMBER_ADD;
    if (adds && !proposal->newcomer_has && agents_find(quorum, &record->changed, &agent)) {
        fill_accept(proposal, &step_send(quorum, agent, MESSAGE_CHANGE_ACCEPT)->as.change);
    }
    /* m11: the newcomer accepts before the voters of n do. If the record was read from a voter of
     * n, the newcomer has accepted it already. */
    for (uint32_t voter = 0; voter < quorum->config->voter_count; voter++) {
        if ((proposal->accepted >> voter & 1) == 0 &&
            (!adds || proposal->newcomer_has || proposal->read)) {
            fill_accept(proposal,
                        &agents_send_voter(quorum, voter, MESSAGE_CHANGE_ACCEPT)->as.change);
        }
    }
    wake_at(quorum, step_now_ns(quorum) + RESEND_MS * MS_NS);
}

static void begin_ballot(struct quorum *quorum)
{
    struct proposal *proposal = &quorum->changes->proposal;
    uint64_t ballot = ballots_next(quorum);
    proposal->stage = MESSAGE_CHANGE_DECIDES;
    proposal->accepting = false;
    proposal->read = false;
    proposal->best = 0;
    proposal->promised = 0;
    proposal->accepted = 0;
    proposal->newcomer_has = false;
    memset(&proposal->record, 0, sizeof(proposal->record));
    proposal->ballot = ballot;
    if (ballot == 0) {
        refuse(proposal, MESSAGE_CHANGE_IDS, NULL);
        return;
    }
    send_prepare(quorum);
}

/* Another ballot is higher than this one. Tries again under a still higher one, after a random
 * pause. */
static void outbid(struct quorum *quorum, uint64_t higher)
{
    uint64_t range_ns = (PAUSE_MAX_MS - PAUSE_MIN_MS) * (uint64_t)MS_NS;
    struct proposal *proposal = &quorum->changes->proposal;
    ballots_note(quorum, higher);
    proposal->ballot = 0;
    wake_at(quorum,
            step_now_ns(quorum) + PAUSE_MIN_MS * MS_NS + (int64_t)(step_random(quorum) % range_ns));
}

void change_promise(struct quorum *quorum, const struct message *message)
{
    const struct message_change *change = &message->as.change;
    struct proposal *proposal = &quorum->changes->proposal;
    uint32_t voter = 0;
    if (!agents_voter(quorum, message, &voter) || proposal->stage != MESSAGE_CHANGE_DECIDES ||
        proposal->accepting || proposal->ballot == 0 || change->ballot != proposal->ballot) {
        return;
    }
    if (change->higher != 0) {
        outbid(quorum, change->higher);
        return;
    }
    proposal->promised |= (uint8_t)(1u << voter);
    if (change->accepted > proposal->best) { /* m10 */
        proposal->best = change->accepted;
        proposal->read = true;
        message_voters_copy(&proposal->record, &change->voters);
    }
    /* A voter that moves has to promise, too: CHANGE_PREPARE goes to its new address only, so its
     * promise shows that the address is right. */
    if (rules_is_majority(quorum, proposal->promised) &&
        (proposal->read || lacking(quorum, proposal) == NULL)) {
        proposal->accepting = true;
        if (!proposal->read) {
            make_record(quorum, proposal, &proposal->record);
        }
        send_accept(quorum);
    }
}

/* m1: returns whether a majority of n and a majority of n + 1 have accepted the record. */
static bool is_chosen(const struct quorum *quorum, const struct proposal *proposal)
{
    const struct message_voters *record = &proposal->record;
    uint32_t count = record->act == MESSAGE_MEMBER_ADD && proposal->newcomer_has;
    for (uint32_t voter = 0; voter < quorum->config->voter_count; voter++) {
        bool stays = message_voters_find(record, &quorum->config->voters[voter]) < record->count;
        count += stays && (proposal->accepted >> voter & 1) != 0;
    }
    return rules_is_majority(quorum, proposal->accepted) && count >= record->count / 2 + 1;
}

static void choose(struct quorum *quorum)
{
    struct proposal *proposal = &quorum->changes->proposal;
    struct message_voters record;
    bool wish = is_wish(proposal);
    message_voters_copy(&record, &proposal->record);
    record.complete = false;
    members_choose(quorum, &record);
    if (wish) {
        proposal->stage = MESSAGE_CHANGE_CHOSEN;
        proposal->reason = MESSAGE_CHANGE_NONE;
    }
}

void change_accepted(struct quorum *quorum, const struct message *message)
{
    const struct message_change *change = &message->as.change;
    struct proposal *proposal = &quorum->changes->proposal;
    uint32_t voter = 0;
    bool votes = agents_voter(quorum, message, &voter);
    if (proposal->stage != MESSAGE_CHANGE_DECIDES || !proposal->accepting ||
        proposal->ballot == 0 || change->ballot != proposal->ballot) {
        return;
    }
    if (change->higher != 0) {
        outbid(quorum, change->higher);
        return;
    }
    if (votes) {
        proposal->accepted |= (uint8_t)(1u << voter);
    } else if (is_newcomer(&proposal->record, &message->from)) {
        bool first = !proposal->newcomer_has && !proposal->read;
        proposal->newcomer_has = true;
        if (first) {
            send_accept(quorum);
        }
    }
    if (is_chosen(quorum, proposal)) {
        choose(quorum);
    }
}

/* ---- The newcomer learns ---- */

static void send_learn(struct quorum *quorum)
{
    struct proposal *proposal = &quorum->changes->proposal;
    uint32_t agent = 0;
    if (agents_find(quorum, &proposal->asked.voter, &agent)) {
        seek_at(quorum, &proposal->asked.voter, proposal->asked.address);
        struct message_told *told = &step_send(quorum, agent, MESSAGE_LEARN)->as.told;
        told->id = proposal->learn_id;
        told->learn = true;
        message_voters_copy(&told->voters, members_voters(quorum));
    }
    wake_at(quorum, step_now_ns(quorum) + LEARN_MS * MS_NS);
}

void change_learned(struct quorum *quorum, const struct message *message)
{
    const struct message_learned *learned = &message->as.learned;
    struct proposal *proposal = &quorum->changes->proposal;
    if (proposal->stage != MESSAGE_CHANGE_LEARNS || learned->id != proposal->learn_id ||
        !same_agent(&message->from, &proposal->asked.voter) ||
        (message->store_id[0] | message->store_id[1]) == 0) {
        return;
    }
    proposal->learned_ns = step_now_ns(quorum);
    proposal->store_id[0] = message->store_id[0];
    proposal->store_id[1] = message->store_id[1];
    proposal->copied = learned->copied;
    proposal->total = learned->total;
    if (learned->ready && voters_answer(quorum, proposal)) {
        proposal->until_ns = step_now_ns(quorum) + GIVE_UP_MS * MS_NS;
        begin_ballot(quorum);
    }
}

/* ---- A voter that is to be removed hands its partitions over ---- */

uint32_t change_leaves(const struct quorum *quorum)
{
    const struct proposal *proposal = &quorum->changes->proposal;
    if (proposal->stage != MESSAGE_CHANGE_DECIDES || !proposal->parting) {
        return 0;
    }
    const struct message_voters *now = members_voters(quorum);
    uint32_t at = message_voters_find(now, &proposal->asked.voter);
    return at < now->count ? at + 1 : 0;
}

/* Returns whether the voter may be removed now: other voters coordinate its partitions, or it does
 * not answer, or it takes too long. */
static bool has_left(const struct quorum *quorum)
{
    uint32_t leaves = change_leaves(quorum);
    if (leaves == 0 || step_now_ns(quorum) >= quorum->changes->proposal.leaves_ns ||
        !change_answers(quorum, leaves - 1)) {
        return true;
    }
    for (uint32_t p = 0; p < MESSAGE_PARTITIONS; p++) {
        uint32_t self = quorum->config->self;
        bool own = self != leaves - 1 && ballots_claims(quorum, p);
        if (!own && !voters_claimed(quorum, p, leaves - 1)) {
            return false;
        }
    }
    return true;
}

void change_claims_changed(struct quorum *quorum)
{
    if (quorum->changes->proposal.leaves) {
        wake_at(quorum, step_now_ns(quorum));
    }
}

static void leave(struct quorum *quorum)
{
    struct proposal *proposal = &quorum->changes->proposal;
    if (has_left(quorum)) {
        proposal->leaves = false;
        begin_ballot(quorum);
        return;
    }
    wake_at(quorum, step_now_ns(quorum) + LEAVE_LOOK_MS * MS_NS);
}

static void begin(struct quorum *quorum)
{
    struct proposal *proposal = &quorum->changes->proposal;
    if (proposal->asked.act == MESSAGE_MEMBER_REMOVE) {
        proposal->stage = MESSAGE_CHANGE_DECIDES;
        proposal->until_ns = step_now_ns(quorum) + GIVE_UP_MS * MS_NS;
        proposal->leaves_ns = step_now_ns(quorum) + LEAVE_MS * MS_NS;
        proposal->leaves = true;
        proposal->parting = true;
        ballots_review(quorum);
        voters_heartbeat_soon(quorum);
        leave(quorum);
        return;
    }
    if (proposal->asked.act != MESSAGE_MEMBER_ADD) {
        proposal->until_ns = step_now_ns(quorum) + GIVE_UP_MS * MS_NS;
        begin_ballot(quorum);
        return;
    }
    proposal->stage = MESSAGE_CHANGE_LEARNS;
    proposal->learn_id = step_random(quorum) | 1;
    proposal->learned_ns = step_now_ns(quorum);
    send_learn(quorum);
}

/* ---- The operator's request ---- */

/* Returns the agent that the change waits for in that stage; NULL if it waits for none. In the
 * first second after the voters have begun to decide, this names only the voter that is moved,
 * because the others decide within that time. */
static const struct message_agent *awaited(const struct quorum *quorum,
                                           const struct proposal *proposal, uint8_t stage)
{
    bool decides = stage == MESSAGE_CHANGE_DECIDES;
    bool early = step_now_ns(quorum) < proposal->until_ns - (GIVE_UP_MS - NAME_MS) * MS_NS;
    const struct message_agent *silent = decides ? lacking(quorum, proposal) : NULL;
    if (silent != NULL || early || !(decides || stage == MESSAGE_CHANGE_CHOSEN)) {
        return silent;
    }
    bool adds = decides && proposal->accepting && proposal->record.act == MESSAGE_MEMBER_ADD;
    return adds && !proposal->newcomer_has && !proposal->read ? &proposal->record.changed
                                                              : change_awaits(quorum, proposal);
}

static void report(struct quorum *quorum, uint32_t agent, const struct proposal *proposal)
{
    const struct message_voters *now = members_voters(quorum);
    struct message_membered *out = &step_send(quorum, agent, MESSAGE_MEMBERED)->as.membered;
    out->agent = proposal->asked.agent;
    out->request_id = proposal->asked.request_id;
    out->stage = proposal->stage;
    out->reason = proposal->reason;
    out->subject = proposal->subject;
    out->number = proposal->number;
    out->done = proposal->copied;
    out->total = proposal->total;
    if (proposal->stage == MESSAGE_CHANGE_CHOSEN &&
        (now->number > proposal->number || now->complete)) {
        out->stage = MESSAGE_CHANGE_COMPLETE;
    }
    const struct message_agent *silent = awaited(quorum, proposal, out->stage);
    if (silent != NULL) {
        out->reason = MESSAGE_CHANGE_SILENT;
        out->subject = *silent;
    }
}

/* Returns whether the present record is the one that the request asks for. The request may be a
 * repeat, to another voter or to a process that does not know it any more. */
static bool is_done(const struct quorum *quorum, const struct message_member_asked *asked)
{
    struct proposal proposal = {.asked = *asked, .record = *members_voters(quorum)};
    return asked->number != 0 && proposal.record.number == asked->number + 1 && is_wish(&proposal);
}

void change_member(struct quorum *quorum, const struct message *message)
{
    const struct message_member_asked *asked = &message->as.member;
    struct proposal *proposal = &quorum->changes->proposal;
    struct proposal other = {.asked = *asked, .number = members_voters(quorum)->number + 1};
    uint32_t agent = 0;
    bool same = proposal->stage != 0 && same_agent(&asked->agent, &proposal->asked.agent) &&
                asked->request_id == proposal->asked.request_id;
    bool busy = proposal->stage == MESSAGE_CHANGE_LEARNS ||
                proposal->stage == MESSAGE_CHANGE_DECIDES;
    if (!agents_guest(quorum, &message->from, &agent)) {
        return;
    }
    if (same) {
        report(quorum, agent, proposal);
        return;
    }
    if (busy) {
        refuse(&other, MESSAGE_CHANGE_BUSY, &proposal->asked.voter);
        report(quorum, agent, &other);
        return;
    }
    if (is_done(quorum, asked)) {
        other.stage = MESSAGE_CHANGE_CHOSEN;
        other.number--;
        report(quorum, agent, &other);
        return;
    }
    *proposal = other;
    if (may_begin(quorum, message, proposal)) {
        begin(quorum);
    }
    report(quorum, agent, proposal);
}

/* ---- Time ---- */

static int64_t proposal_tick(struct quorum *quorum)
{
    struct proposal *proposal = &quorum->changes->proposal;
    bool learns = proposal->stage == MESSAGE_CHANGE_LEARNS;
    if (!learns && proposal->stage != MESSAGE_CHANGE_DECIDES) {
        return NEVER;
    }
    if (proposal->next_ns > step_now_ns(quorum)) {
        return proposal->next_ns;
    }
    if (!step_has_room(quorum, 2 * MESSAGE_VOTERS_MAX)) {
        return step_now_ns(quorum);
    }
    if (!members_votes(quorum)) {
        refuse(proposal, MESSAGE_CHANGE_NOT_VOTING, NULL);
        return NEVER;
    }
    if (learns && step_now_ns(quorum) - proposal->learned_ns > SILENT_MS * MS_NS) {
        refuse(proposal, MESSAGE_CHANGE_SILENT, &proposal->asked.voter);
        return NEVER;
    }
    if (!learns && step_now_ns(quorum) > proposal->until_ns) {
        refuse(proposal, MESSAGE_CHANGE_SILENT, awaited(quorum, proposal, proposal->stage));
        return NEVER;
    }
    if (learns) {
        send_learn(quorum);
    } else if (proposal->leaves) {
        leave(quorum);
    } else if (proposal->ballot == 0) {
        begin_ballot(quorum);
    } else if (proposal->accepting) {
        send_accept(quorum);
    } else {
        send_prepare(quorum);
    }
    return proposal->stage == MESSAGE_CHANGE_REFUSED ? NEVER : proposal->next_ns;
}

int64_t change_tick(struct quorum *quorum)
{
    int64_t next_ns = proposal_tick(quorum);
    int64_t other_ns = completion_tick(quorum);
    next_ns = other_ns < next_ns ? other_ns : next_ns;
    other_ns = learning_tick(quorum);
    return other_ns < next_ns ? other_ns : next_ns;
}
