/*
 * Rules of changing the voters, of starting over and of a recovery that the simulator breaks on
 * purpose: see breaks_core.c. Some rules stand in the middle of a function. They are broken by
 * other answers to what that file asks: calls of its file only are renamed (sim_X).
 */
#include <string.h>

#include "quorum/change_private.h"
#include "quorum/members_private.h"
#include "session/renewal_private.h"
#include "sim.h"

const struct message_voters *sim_change_voters(const struct quorum *quorum);
bool sim_change_is_majority(const struct quorum *quorum, uint8_t mask);
int64_t sim_complete_long_ns(const struct quorum *quorum, int64_t duration_ns);
bool sim_complete_is_settled(const struct quorum *quorum, uint32_t partition);
bool sim_complete_is_majority(const struct quorum *quorum, uint8_t mask);
uint32_t sim_rejoin_count(uint8_t mask);
void real_change_accept(struct quorum *quorum, const struct message *message);
void real_change_promise(struct quorum *quorum, const struct message *message);
void real_change_read(struct quorum *quorum, const struct message *message);
void real_change_rejoined(struct quorum *quorum, uint64_t ballot);
void real_ballots_recount(struct quorum *quorum);
void real_members_learn_again(struct quorum *quorum);
void real_renewal_set_voters(struct renewal *renewal, const struct message_voters *voters,
                             int64_t now_ns, struct actions *actions);

/* ---- change.c ---- */

/* CHANGE_STEP: one voter more and one less in one step. CHANGE_IDS: the number of a voter that was
 * removed is used again in ballots. CHANGE_EARLY: the next change begins before this one is
 * complete. */
const struct message_voters *sim_change_voters(const struct quorum *quorum)
{
    static struct message_voters other;
    const struct message_voters *now = members_voters(quorum);
    if (broken != BREAK_CHANGE_STEP && broken != BREAK_CHANGE_IDS && broken != BREAK_CHANGE_EARLY) {
        return now;
    }
    message_voters_copy(&other, now);
    if (broken == BREAK_CHANGE_STEP && other.count > 2) {
        other.count--;
    } else if (broken == BREAK_CHANGE_IDS) {
        other.next_ballot_id = 0;
        for (uint32_t i = 0; i < other.count; i++) {
            uint16_t id = other.of[i].ballot_id;
            other.next_ballot_id = id >= other.next_ballot_id ? id + 1 : other.next_ballot_id;
        }
    } else if (broken == BREAK_CHANGE_EARLY) {
        other.complete = true;
    }
    return &other;
}

/* CHANGE_MAJORITY: a single voter of the record before suffices. */
bool sim_change_is_majority(const struct quorum *quorum, uint8_t mask)
{
    return (broken == BREAK_CHANGE_MAJORITY && mask != 0) || rules_is_majority(quorum, mask);
}

/* CHANGE_ACCEPTED: a voter goes by a record as soon as it has accepted it. */
void change_accept(struct quorum *quorum, const struct message *message)
{
    struct message_voters record;
    real_change_accept(quorum, message);
    const struct quorum_change *row = &quorum->changes->row;
    if (broken == BREAK_CHANGE_ACCEPTED && members_votes(quorum) &&
        row->number == members_voters(quorum)->number + 1 &&
        row->accepted == message->as.change.ballot) {
        message_voters_copy(&record, &row->voters);
        members_choose(quorum, &record);
    }
}

/* CHANGE_OVER: a proposer replaces a record that an acceptor reports. */
void change_promise(struct quorum *quorum, const struct message *message)
{
    struct message changed;
    if (broken != BREAK_CHANGE_OVER) {
        real_change_promise(quorum, message);
        return;
    }
    message_copy(&changed, message);
    changed.as.change.accepted = 0;
    real_change_promise(quorum, &changed);
}

/* REJOIN_CHANGE: a store that starts over does not ask for the next record of voters. */
void change_read(struct quorum *quorum, const struct message *message)
{
    if (broken != BREAK_REJOIN_CHANGE) {
        real_change_read(quorum, message);
    }
}

void change_rejoined(struct quorum *quorum, uint64_t ballot)
{
    if (broken != BREAK_REJOIN_CHANGE) {
        real_change_rejoined(quorum, ballot);
    }
}

/* ---- change_complete.c ---- */

/* COMPLETE_TTL: a number is complete without a ttl. */
int64_t sim_complete_long_ns(const struct quorum *quorum, int64_t duration_ns)
{
    return broken == BREAK_COMPLETE_TTL ? 0 : rules_long_ns(quorum, duration_ns);
}

/* COMPLETE_SETTLED: a number is complete although partitions were not prepared. */
bool sim_complete_is_settled(const struct quorum *quorum, uint32_t partition)
{
    return broken == BREAK_COMPLETE_SETTLED || sync_is_settled(quorum, partition);
}

/* COMPLETE_MARKS: a number is complete although marks are not settled. */
bool sim_complete_is_majority(const struct quorum *quorum, uint8_t mask)
{
    return broken == BREAK_COMPLETE_MARKS || rules_is_majority(quorum, mask);
}

/* ---- ballots.c, members_rejoin.c, members_voters.c, renewal.c ---- */

/* BALLOT_KEPT: a coordinator goes on with its ballots under the next number. */
void ballots_recount(struct quorum *quorum)
{
    if (broken != BREAK_BALLOT_KEPT) {
        real_ballots_recount(quorum);
    }
}

/* REJOIN_ONE: for a store that starts over, one other voter suffices. */
uint32_t sim_rejoin_count(uint8_t mask)
{
    return broken == BREAK_REJOIN_ONE && mask != 0 ? MESSAGE_VOTERS_MAX : rules_count(mask);
}

/* AGAIN: a voter that was removed and learns again keeps the lines of the record of stores. */
void members_learn_again(struct quorum *quorum)
{
    struct member kept[MESSAGE_VOTERS_MAX];
    memcpy(kept, quorum->members->of, sizeof(kept));
    bool learned = members_status(quorum) == MESSAGE_STATUS_LEARNING;
    real_members_learn_again(quorum);
    if (broken == BREAK_AGAIN && !learned && members_status(quorum) == MESSAGE_STATUS_LEARNING) {
        memcpy(quorum->members->of, kept, sizeof(kept));
    }
}

/* RECOVERY_SESSION: a host that learns of a recovery goes on with its session. */
void renewal_set_voters(struct renewal *renewal, const struct message_voters *voters,
                        int64_t now_ns, struct actions *actions)
{
    bool recovered = voters->number / MESSAGE_NUMBERS != renewal->header.number / MESSAGE_NUMBERS;
    if (broken == BREAK_RECOVERY_SESSION && recovered) {
        renewal->header.number = message_voters_first(voters->recoveries);
    }
    real_renewal_set_voters(renewal, voters, now_ns, actions);
}
