/*
 * Rules of changing the voters that the simulator breaks on purpose: see breaks_core.c. Some rules
 * are in the middle of a function of change.c. To break these, shim_change.h replaces a function
 * that change.c calls. The rules about when a record is complete are broken in the models only: the
 * simulator would need thousands of seeds to show such a fault.
 */
#include "quorum/change_private.h"
#include "sim.h"

const struct message_voters *sim_change_voters(const struct quorum *quorum);
void real_change_accept(struct quorum *quorum, const struct message *message);
void real_ballots_carry(struct quorum *quorum);

/* ---- change.c ---- */

/* CHANGE_STEP: one change adds a voter and removes another one. CHANGE_IDS: the number of a voter
 * that was removed is used again in ballots. CHANGE_EARLY: the next change begins before the
 * present change is complete. */
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

/* CHANGE_ACCEPTED: a voter uses a record as soon as it has accepted it. */
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

/* ---- ballots.c ---- */

/* BALLOT_KEPT: a coordinator keeps its ballots when the number of the voters' record rises. */
void ballots_carry(struct quorum *quorum)
{
    if (broken != BREAK_BALLOT_KEPT) {
        real_ballots_carry(quorum);
    }
}
