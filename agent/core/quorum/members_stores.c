/*
 * The record of stores, this voter's status, and the commit that its messages report. See
 * members.h.
 *
 * Until a process votes with its store, its messages report the commit that the store had when it
 * was opened. That commit is persisted as the store's own row of `seen`, for this reason: a
 * process that starts and ends without voting makes commits too, and by such commits an old copy
 * of a store must not catch up with the commits that other voters have seen. So the first commit
 * that a process makes contains that row, whatever that commit is for and whatever the store's
 * status is (members_keep_opened, members_keep_opened_commit). The stores of observers and
 * learners have the row too: such a store may be a copy from before its agent became a voter. The
 * row is deleted when the store votes. Higher commits are reported only once the deletion is
 * durable. From then on the process reports each commit at once, also when its voter is removed.
 * So any message that shows a vote also shows a commit that contains that vote.
 */
#include "members.h"

#include <string.h>

#include "members_private.h"
#include "proto/check.h"

/* In the store's own row of `seen`: the store had no commit when it was opened. 0 would mean that
 * there is no such row. */
#define OPENED_EMPTY ((uint64_t)INT64_MAX)

struct members *members_lay_out(struct arena *arena, const struct quorum_limits *limits)
{
    struct members *members = arena_take(arena, 1, sizeof(*members));
    ARENA_TAKE(arena, members, told_ns, limits->agents);
    return members;
}

/* ---- What other files ask ---- */

struct member *members_own(struct quorum *quorum)
{
    return &quorum->members->of[quorum->config->self];
}

bool members_have_record(const struct quorum *quorum)
{
    uint32_t self = quorum->config->self;
    return quorum->members->of[self != QUORUM_NO_VOTER ? self : 0].line.generation != 0;
}

enum message_voter_status members_status(const struct quorum *quorum)
{
    return (enum message_voter_status)quorum->members->status;
}

enum message_voter_status members_status_of(const struct quorum *quorum, uint32_t voter)
{
    return voter == quorum->config->self
               ? members_status(quorum)
               : (enum message_voter_status)quorum->members->of[voter].status;
}

bool members_votes(const struct quorum *quorum)
{
    return quorum->members->status == MESSAGE_STATUS_VOTING;
}

const struct message_voters *members_voters(const struct quorum *quorum)
{
    return &quorum->members->voters;
}

uint64_t members_voters_digest(const struct quorum *quorum)
{
    return quorum->members->voters_digest;
}

bool members_same_voters(const struct quorum *quorum, const struct message *message)
{
    const struct members *members = quorum->members;
    if (message->number == 0) {
        return members->voters.number == 1; /* a header without a number: an older version of the
                                             * wire protocol */
    }
    return message->number == members->voters.number && message->digest == members->voters_digest;
}

bool members_rules_match(const struct quorum *quorum, const struct message_renew *renew)
{
    return quorum->members->voters.number == 1
               ? renew->rules == quorum->members->rules_digest
               : renew->durations == quorum->members->durations_digest;
}

void members_note_rules(struct quorum *quorum)
{
    struct message_rules rules;
    quorum_rules(quorum->config, &rules);
    quorum->members->rules_digest = message_rules_digest(&rules);
    quorum->members->durations_digest = message_durations_digest(&rules);
}

uint32_t members_generation(const struct quorum *quorum, uint32_t voter)
{
    return quorum->members->of[voter].line.generation;
}

uint32_t members_number(const struct quorum *quorum)
{
    return quorum->members->number;
}

/* ---- The record ---- */

/* The membership number: four configured bits, and four bits of each generation. Two voters have
 * the same number if they know the same generations. */
static uint32_t number_of(const struct quorum *quorum)
{
    uint32_t number = quorum->config->membership & 0xf;
    for (uint32_t i = 0; i < quorum->config->voter_count; i++) {
        uint32_t generation = quorum->members->of[i].line.generation;
        number |= (generation == 0 ? 0 : (generation - 1) & 0xf) << (4 * i + 4);
    }
    return number;
}

void members_renumber(struct quorum *quorum)
{
    quorum->members->number = number_of(quorum);
}

/* If the membership number has changed, asks again for everything that was counted under the old
 * number. */
static void recount(struct quorum *quorum)
{
    if (number_of(quorum) != quorum->members->number) {
        members_recount(quorum);
    }
}

void members_count_votes_anew(struct quorum *quorum)
{
    members_renumber(quorum);
    rejoin_recount(quorum);
    sessions_recount(quorum);
    sync_recount(quorum);
}

void members_recount(struct quorum *quorum)
{
    members_count_votes_anew(quorum);
    ballots_recount(quorum);
}

void members_put_line(struct quorum *quorum, uint32_t voter, const struct message_member *line)
{
    struct quorum_member *row = &step_emit(quorum, ACTION_PERSIST_MEMBER)->as.member;
    quorum->members->of[voter].line = *line;
    row->voter = quorum->config->voters[voter];
    row->member = *line;
}

void members_set_line(struct quorum *quorum, uint32_t voter, const struct message_member *line)
{
    members_put_line(quorum, voter, line);
    recount(quorum);
}

void members_announce(struct quorum *quorum)
{
    for (uint32_t i = 0; i < quorum->config->voter_count; i++) {
        quorum->members->of[i].hello_ns = step_now_ns(quorum);
    }
    step_schedule(quorum, step_now_ns(quorum));
}

/* ---- Commits ---- */

/* Returns the store's commit when it was opened. If an earlier process opened the store and never
 * voted, returns the lower commit that the store had then. */
uint64_t members_opened_commit(const struct quorum *quorum)
{
    uint64_t opened = quorum->members->opened_commit;
    uint64_t kept = quorum->members->of[quorum->config->self].kept_commit;
    if (kept == OPENED_EMPTY) {
        return 0;
    }
    return kept != 0 && kept < opened ? kept : opened;
}

uint64_t members_reported_commit(const struct quorum *quorum)
{
    const struct members *members = quorum->members;
    bool logged = members->proven && members->commit >= members->vote_commit;
    return logged ? members->commit : members_opened_commit(quorum);
}

void members_set_commit(struct quorum *quorum, uint64_t commit)
{
    struct members *members = quorum->members;
    members->commit = commit;
    members->committing = false;
    if (!step_started(quorum) && !members->opened) {
        members->opened = true;
        members->opened_commit = commit;
    }
}

void members_committing(struct quorum *quorum)
{
    quorum->members->committing = true;
}

void members_opened_row(const struct message_agent *agent, const uint64_t store_id[2],
                        uint64_t commit, struct quorum_seen *row)
{
    row->voter = *agent;
    row->store_id[0] = store_id[0];
    row->store_id[1] = store_id[1];
    row->commit = commit != 0 ? commit : OPENED_EMPTY;
}

static void fill_own_line(const struct quorum *quorum, uint64_t commit, struct quorum_seen *row)
{
    row->voter = quorum->config->name;
    row->store_id[0] = quorum->config->store_id[0];
    row->store_id[1] = quorum->config->store_id[1];
    row->commit = commit;
}

static void keep_own_commit(struct quorum *quorum, uint64_t commit)
{
    fill_own_line(quorum, commit, &step_emit(quorum, ACTION_PERSIST_SEEN)->as.seen);
    members_own(quorum)->kept_commit = commit;
}

bool members_keep_opened(struct quorum *quorum, struct quorum_seen *row)
{
    HF_CHECK(!step_started(quorum));
    uint64_t opened = members_opened_commit(quorum);
    bool alone = quorum->config->voter_count == 1 && quorum->config->self == 0;
    if (alone || members_own(quorum)->kept_commit != 0) {
        return false;
    }
    members_opened_row(&quorum->config->name, quorum->config->store_id, opened, row);
    members_own(quorum)->kept_commit = row->commit;
    return true;
}

/* Persists the commit that the store had when it was opened, in the first commit of this process.
 * Does nothing if an earlier process has persisted it. */
void members_keep_opened_commit(struct quorum *quorum)
{
    uint64_t opened = members_opened_commit(quorum);
    if (members_own(quorum)->kept_commit == 0) {
        keep_own_commit(quorum, opened != 0 ? opened : OPENED_EMPTY);
    }
}

/* ---- Voting or not ---- */

void members_vote(struct quorum *quorum)
{
    if (members_own(quorum)->kept_commit != 0) {
        quorum->members->opened_commit = members_opened_commit(quorum);
        keep_own_commit(quorum, 0);
        /* The next commit deletes the store's own row of `seen`. If a commit is under way now, the
         * commit after that one does. */
        quorum->members->vote_commit = quorum->members->commit +
                                       (quorum->members->committing ? 2 : 1);
    }
    if (quorum->members->joins) {
        /* from this instant on every session counts as just renewed here */
        sessions_refresh(quorum);
        quorum->members->joins = false;
    }
    quorum->members->status = MESSAGE_STATUS_VOTING;
    quorum->members->voted = true;
    quorum->members->proven = true;
    if (quorum->config->voter_count > 1) {
        step_log(quorum, "voter_votes", NULL, members_own(quorum)->line.generation);
        members_announce(quorum);
        voters_heartbeat_soon(quorum);
        ballots_review(quorum);
    }
}

struct action_log *members_refuse(struct quorum *quorum, const struct message_agent *by,
                                  int64_t number)
{
    quorum->members->status = MESSAGE_STATUS_REFUSED;
    members_announce(quorum);
    ballots_review(quorum); /* gives up the partitions that this voter coordinates */
    struct action_log *log = step_log(quorum, "voter_refused", by, number);
    step_log_text(log, "the store of ");
    step_log_agent(log, &quorum->config->name);
    return log;
}

void members_refuse_other(struct quorum *quorum, const struct message_agent *by)
{
    struct action_log *log = members_refuse(quorum, by, 0);
    step_log_text(log, " is not the one that the cell knows (reported by ");
    step_log_agent(log, by);
    step_log_text(log, "): the store was lost or replaced. The voter does not vote. On this host, "
                       "with the agent stopped: holdfast member rejoin");
}
