/*
 * The start of a voter, HELLO, and what was seen of other stores. This file gives messages and
 * ticks to the other files of members. See members.h.
 */
#include "members.h"

#include <string.h>

#include "members_private.h"
#include "proto/check.h"

enum {
    HURRY_MS = 100, /* pause between HELLOs while this store does not vote yet */
    HELLO_MS = 500, /* pause between HELLOs to a voter that does not vote or has another record */
    SETTLED_MS = 5000,
    /* for how long a voter that was heard is taken to run beside a sender with an older commit */
    COPY_MS = 2000,
    SEEN_MS = 1000, /* commits of other stores are persisted at most this often */
    WAIT_LOG_MS = 5000,
    WAIT_LOG_AGAIN_MS = 60000,
};

static bool id_equal(const uint64_t a[2], const uint64_t b[2])
{
    return a[0] == b[0] && a[1] == b[1];
}

void members_init(struct quorum *quorum)
{
    members_begin_voters(quorum);
    members_renumber(quorum);
}

static void refuse_copy(struct quorum *quorum, const struct message_agent *by, uint64_t commit)
{
    struct action_log *log = members_refuse(quorum, by, (int64_t)commit);
    step_log_text(log, " is an old copy: commit ");
    step_log_number(log, members_opened_commit(quorum));
    step_log_text(log, ", but ");
    step_log_agent(log, by);
    step_log_text(log, " has seen commit ");
    step_log_number(log, commit);
    step_log_text(log, ". The voter does not vote. On this host, with the agent stopped: holdfast "
                       "member rejoin");
}

static void refuse_used(struct quorum *quorum)
{
    struct action_log *log = members_refuse(quorum, NULL, 0);
    step_log_text(log,
                  " has promises or locks, but no record of a cell of several voters: it was in "
                  "use in another cell. The voter does not vote. On this host, with the agent "
                  "stopped: holdfast member rejoin");
}

/* ---- HELLO ---- */

/* Returns the index of a voter that another voter's rules name; voter_count if it is no voter in
 * this configuration. */
static uint32_t voter_named(const struct quorum *quorum, const struct message_agent *name)
{
    uint32_t at = 0;
    while (at < quorum->config->voter_count &&
           memcmp(&quorum->config->voters[at], name, sizeof(*name)) != 0) {
        at++;
    }
    return at;
}

/* Writes that voter's line of the record, for a HELLO. Without a record, the line has the store id
 * from the voter's own HELLO, and generation 0. This sets each field by itself, because a copy of
 * the struct might put bytes of other memory into its padding. */
static void report_line(const struct quorum *quorum, uint32_t voter, struct message_member *line)
{
    const struct member *member = &quorum->members->of[voter];
    bool recorded = members_have_record(quorum);
    const uint64_t *id = recorded ? member->line.store_id : member->store_id;
    line->store_id[0] = id[0];
    line->store_id[1] = id[1];
    line->generation = recorded ? member->line.generation : 0;
}

static void fill(const struct quorum *quorum, uint32_t voter, struct message_hello *hello)
{
    hello->status = quorum->members->status;
    hello->incarnation = quorum->members->nonce;
    hello->bootstrapped = members_have_record(quorum);
    quorum_rules(quorum->config, &hello->rules);
    for (uint32_t i = 0; i < hello->rules.voter_count; i++) {
        report_line(quorum, voter_named(quorum, &hello->rules.voters[i]), &hello->members[i]);
    }
    memcpy(hello->advertise, quorum->config->advertise, sizeof(hello->advertise));
    if (voter < quorum->config->voter_count) {
        const struct member *member = &quorum->members->of[voter];
        hello->seen.store_id[0] = member->seen_id[0];
        hello->seen.store_id[1] = member->seen_id[1];
        hello->seen.generation = member->line.generation;
        hello->seen_commit = member->seen_commit;
    }
}

static void send_hello(struct quorum *quorum, uint32_t voter)
{
    struct message_hello *hello = &agents_send_voter(quorum, voter, MESSAGE_HELLO)->as.hello;
    fill(quorum, voter, hello);
}

void members_answer(struct quorum *quorum, uint32_t agent, const struct message_hello *asked)
{
    uint32_t voter = agents_as_voter(quorum, agent);
    /* a RETIRED or LEARNING store belongs to no voter, but its agent has a quorum core, and that
     * core asks */
    bool core = voter < quorum->config->voter_count ||
                (asked != NULL && asked->status >= MESSAGE_STATUS_RETIRED);
    enum message_kind kind = core ? MESSAGE_HELLO : MESSAGE_HELLO_ACK;
    struct message_hello *hello = &step_send(quorum, agent, kind)->as.hello;
    fill(quorum, voter, hello);
    hello->answer = true;
    hello->echo = asked != NULL ? asked->incarnation : 0;
}

/* Notes the store of a voter that sent HELLO while there is no record. If the voter's store is
 * another store than before, earlier answers about the stores are dropped. */
static void note_store(struct quorum *quorum, uint32_t voter, const uint64_t id[2])
{
    struct member *member = &quorum->members->of[voter];
    if (id_equal(member->store_id, id)) {
        return;
    }
    if ((member->store_id[0] | member->store_id[1]) != 0) {
        quorum->members->nonce += 2;
    }
    member->store_id[0] = id[0];
    member->store_id[1] = id[1];
    for (uint32_t i = 0; i < quorum->config->voter_count; i++) {
        quorum->members->of[i].agrees = false;
    }
    members_announce(quorum);
}

static bool reports_the_same(const struct quorum *quorum, const struct message_hello *hello)
{
    bool same = true;
    for (uint32_t i = 0; i < hello->rules.voter_count; i++) {
        uint32_t voter = voter_named(quorum, &hello->rules.voters[i]);
        const uint64_t *id = quorum->members->of[voter].store_id;
        same = same && (id[0] | id[1]) != 0 && id_equal(hello->members[i].store_id, id);
    }
    return same;
}

/* EMPTY: makes the record, if all other voters agree about the stores. */
static void bootstrap(struct quorum *quorum)
{
    if (quorum->members->voters.number != 1) {
        return; /* the cell has changed its voters, so it is not new */
    }
    for (uint32_t i = 0; i < quorum->config->voter_count; i++) {
        if (i != quorum->config->self && !quorum->members->of[i].agrees) {
            return;
        }
    }
    for (uint32_t i = 0; i < quorum->config->voter_count; i++) {
        struct message_member line = {.generation = 1};
        memcpy(line.store_id, quorum->members->of[i].store_id, sizeof(line.store_id));
        members_set_line(quorum, i, &line);
    }
    members_vote(quorum);
}

/* EMPTY: takes over the record of a voter that sent HELLO. */
static void take_record(struct quorum *quorum, const struct message *message)
{
    const struct message_hello *hello = &message->as.hello;
    const struct message_member *line = NULL;
    for (uint32_t i = 0; i < hello->rules.voter_count; i++) {
        if (voter_named(quorum, &hello->rules.voters[i]) == quorum->config->self) {
            line = &hello->members[i];
        }
        if (hello->members[i].generation == 0) {
            return; /* an incomplete record */
        }
    }
    if (line == NULL || !id_equal(line->store_id, quorum->config->store_id)) {
        members_refuse_other(quorum, &message->from);
        return;
    }
    for (uint32_t i = 0; i < hello->rules.voter_count; i++) {
        members_set_line(quorum, voter_named(quorum, &hello->rules.voters[i]), &hello->members[i]);
    }
    quorum->members->status = MESSAGE_STATUS_LISTED;
    members_announce(quorum);
}

static void note_own_line(struct quorum *quorum, const struct message *message,
                          const struct message_member *line)
{
    const struct message_member *mine = &members_own(quorum)->line;
    if (quorum->members->status == MESSAGE_STATUS_REJOINING) {
        rejoin_note_line(quorum, line);
        return;
    }
    if (quorum->members->status != MESSAGE_STATUS_REFUSED && line->generation >= mine->generation &&
        !id_equal(line->store_id, quorum->config->store_id)) {
        members_refuse_other(quorum, &message->from);
    }
}

/* Adopts each line of the message that has a higher generation than the line that this voter has
 * for the same voter. */
static void merge(struct quorum *quorum, const struct message *message)
{
    const struct message_hello *hello = &message->as.hello;
    bool changed = false;
    for (uint32_t i = 0; i < hello->rules.voter_count; i++) {
        const struct message_member *line = &hello->members[i];
        uint32_t voter = voter_named(quorum, &hello->rules.voters[i]);
        if (voter == quorum->config->self) {
            note_own_line(quorum, message, line);
        } else if (line->generation > quorum->members->of[voter].line.generation) {
            members_set_line(quorum, voter, line);
            quorum->members->of[voter].differs_logged = false;
            changed = true;
        }
    }
    if (changed) {
        members_announce(quorum);
    }
}

/* Returns whether another voter has seen a commit of this store that the store lacks. If so, the
 * store is refused. */
static bool is_old_copy(struct quorum *quorum, const struct message *message)
{
    const struct message_hello *hello = &message->as.hello;
    if (!id_equal(hello->seen.store_id, quorum->config->store_id) ||
        hello->seen_commit <= members_opened_commit(quorum)) {
        return false;
    }
    refuse_copy(quorum, &message->from, hello->seen_commit);
    return true;
}

/* LISTED: checks that this store has every commit that the sender has seen of it. If this is so for
 * a majority of the voters, itself included, this voter votes. */
static void check_seen(struct quorum *quorum, uint32_t voter, const struct message *message)
{
    const struct message_hello *hello = &message->as.hello;
    if (hello->status != MESSAGE_STATUS_VOTING && hello->status != MESSAGE_STATUS_LISTED) {
        return;
    }
    if (is_old_copy(quorum, message)) {
        return;
    }
    quorum->members->of[voter].answered = true;
    uint32_t count = 1;
    for (uint32_t i = 0; i < quorum->config->voter_count; i++) {
        count += quorum->members->of[i].answered;
    }
    if (count >= rules_majority(quorum)) {
        members_vote(quorum);
    }
}

static bool same_record(const struct quorum *quorum, const struct message_hello *hello)
{
    bool same = hello->bootstrapped && members_have_record(quorum);
    for (uint32_t i = 0; i < hello->rules.voter_count; i++) {
        const struct message_member *line = &hello->members[i];
        uint32_t voter = voter_named(quorum, &hello->rules.voters[i]);
        const struct message_member *mine = &quorum->members->of[voter].line;
        same = same && line->generation == mine->generation &&
               id_equal(line->store_id, mine->store_id);
    }
    return same;
}

static void note_voter(struct quorum *quorum, uint32_t voter, const struct message *message)
{
    const struct message_hello *hello = &message->as.hello;
    struct member *member = &quorum->members->of[voter];
    member->status = hello->status;
    if (!members_have_record(quorum) && !hello->bootstrapped) {
        note_store(quorum, voter, message->store_id);
    }
    if (hello->bootstrapped) {
        if (quorum->members->status == MESSAGE_STATUS_EMPTY) {
            take_record(quorum, message);
        } else if (quorum->members->status != MESSAGE_STATUS_REFUSED ||
                   members_have_record(quorum)) {
            merge(quorum, message);
        }
    }
    member->same = same_record(quorum, hello);
    if (!hello->answer || hello->echo != quorum->members->nonce) {
        return;
    }
    if (quorum->members->status == MESSAGE_STATUS_EMPTY) {
        member->agrees = hello->status == MESSAGE_STATUS_EMPTY && !hello->bootstrapped &&
                         reports_the_same(quorum, hello);
        bootstrap(quorum);
    } else if (quorum->members->status == MESSAGE_STATUS_LISTED) {
        if (member->same) {
            check_seen(quorum, voter, message);
        }
    } else if (quorum->members->status == MESSAGE_STATUS_REJOINING &&
               /* A copy from before the store voted is refused; it must not start over. */
               !is_old_copy(quorum, message)) {
        rejoin_answered(quorum, voter, hello);
    }
}

/* Returns whether the sender's rules contradict this voter's. Logs each contradiction once, when it
 * begins. */
static bool contradicts(struct quorum *quorum, const struct message *message, bool *logged)
{
    struct message_rules rules;
    char text[sizeof(((struct action_log *)NULL)->text)];
    quorum_rules(quorum->config, &rules);
    if (!message_rules_differ(&rules, &message->as.hello.rules, text, sizeof(text))) {
        *logged = false;
        return false;
    }
    if (!*logged) {
        struct action_log *log = step_log(quorum, "rules_differ", &message->from, 0);
        step_log_text(log, "the configuration of ");
        step_log_agent(log, &message->from);
        step_log_text(log, " contradicts this one: ");
        step_log_text(log, text);
        *logged = true;
    }
    return true;
}

void members_hello(struct quorum *quorum, const struct message *message)
{
    const struct message_hello *hello = &message->as.hello;
    uint32_t agent = 0;
    uint32_t voter = 0;
    if (memcmp(&message->from, &quorum->config->name, sizeof(message->from)) == 0) {
        return;
    }
    if (!agents_voter(quorum, message, &voter)) {
        if (!hello->answer && agents_guest(quorum, &message->from, &agent)) {
            members_answer(quorum, agent, hello);
        }
        return;
    }
    struct member *member = &quorum->members->of[voter];
    /* A HELLO under another record lists the voters of that record, so its contents are of no use
     * here. */
    bool same_number = message->number == 0 || message->number == quorum->members->voters.number;
    if (same_number && !members_is_from_copy(quorum, message)) {
        member->differs = contradicts(quorum, message, &member->differs_logged);
        if (!member->differs) {
            note_voter(quorum, voter, message);
        }
    }
    if (!hello->answer) {
        members_answer(quorum, agents_of_voter(quorum, voter), hello);
    }
}

/* ---- What was seen of other stores ---- */

void members_learn(struct quorum *quorum, const struct message *message)
{
    uint32_t voter = 0;
    if (!agents_voter(quorum, message, &voter) || voter == quorum->config->self ||
        (message->store_id[0] | message->store_id[1]) == 0) {
        return;
    }
    struct member *member = &quorum->members->of[voter];
    if (member->line.generation != 0 && !id_equal(member->line.store_id, message->store_id)) {
        return; /* the message is not from the store whose votes count */
    }
    if (!id_equal(member->seen_id, message->store_id)) {
        member->seen_id[0] = message->store_id[0];
        member->seen_id[1] = message->store_id[1];
        member->seen_commit = 0;
        member->kept_commit = 0;
    }
    if (message->commit >= member->seen_commit) {
        member->seen_commit = message->commit;
        member->seen_ns = step_now_ns(quorum);
    }
}

/* The commits of one process never fall, and those of a restarted voter are not lower. A late
 * message is mistaken for a copy's, which does no harm: the voter sends the same again. */
bool members_is_from_copy(const struct quorum *quorum, const struct message *message)
{
    uint32_t voter = 0;
    if (!agents_voter(quorum, message, &voter)) {
        return false;
    }
    const struct member *member = &quorum->members->of[voter];
    return id_equal(member->seen_id, message->store_id) && message->commit < member->seen_commit &&
           member->seen_ns != 0 && step_now_ns(quorum) - member->seen_ns <= COPY_MS * MS_NS;
}

/* Persists the commits seen of other stores. Persisting them makes a commit of this store, which
 * the other voters would see and persist in turn, without end. So nothing is persisted until the
 * seen commit of some store is at least `behind` commits above the persisted one. `behind` is two,
 * or one if something else is committed anyway. */
static void keep_seen(struct quorum *quorum, uint64_t behind)
{
    struct members *members = quorum->members;
    bool any = false;
    for (uint32_t i = 0; i < quorum->config->voter_count; i++) {
        any = any || (i != quorum->config->self &&
                      members->of[i].seen_commit >= members->of[i].kept_commit + behind);
    }
    if (!any || !members_have_record(quorum)) {
        return;
    }
    members->seen_ns = step_now_ns(quorum) + SEEN_MS * MS_NS;
    for (uint32_t i = 0; i < quorum->config->voter_count; i++) {
        struct member *member = &members->of[i];
        if (i == quorum->config->self || member->seen_commit <= member->kept_commit) {
            continue;
        }
        struct quorum_seen *row = &step_emit(quorum, ACTION_PERSIST_SEEN)->as.seen;
        row->voter = quorum->config->voters[i];
        row->store_id[0] = member->seen_id[0];
        row->store_id[1] = member->seen_id[1];
        row->commit = member->seen_commit;
        member->kept_commit = member->seen_commit;
    }
}

void members_end_step(struct quorum *quorum)
{
    if (quorum->config->voter_count > 1 && step_now_ns(quorum) >= quorum->members->seen_ns &&
        step_has_room(quorum, MESSAGE_VOTERS_MAX) && step_persists(quorum)) {
        keep_seen(quorum, 1);
    }
}

/* ---- Loading and starting ---- */

static bool is_own_name(const struct quorum *quorum, const struct message_agent *name)
{
    return memcmp(name, &quorum->config->name, sizeof(*name)) == 0;
}

bool members_load(struct quorum *quorum, const struct quorum_member *row)
{
    HF_CHECK(!step_started(quorum));
    uint32_t voter = voter_named(quorum, &row->voter);
    quorum->members->voted = quorum->members->voted || is_own_name(quorum, &row->voter);
    if (voter == quorum->config->voter_count) {
        /* the row is valid if its voter may have been removed */
        return quorum->members->voters.number > 1;
    }
    quorum->members->of[voter].line = row->member;
    return row->member.generation != 0;
}

bool members_load_seen(struct quorum *quorum, const struct quorum_seen *row)
{
    HF_CHECK(!step_started(quorum));
    uint32_t voter = voter_named(quorum, &row->voter);
    if (voter == quorum->config->voter_count && is_own_name(quorum, &row->voter)) {
        members_own(quorum)->kept_commit = row->commit; /* members_vote() deletes the row */
        return true;
    }
    if (voter == quorum->config->voter_count) {
        return quorum->members->voters.number > 1;
    }
    struct member *member = &quorum->members->of[voter];
    member->seen_id[0] = row->store_id[0];
    member->seen_id[1] = row->store_id[1];
    member->seen_commit = row->commit;
    member->kept_commit = row->commit;
    return true;
}

/* Returns whether the store has ever voted: it has registers, promises, or marks. */
static bool was_used(const struct quorum *quorum)
{
    bool used = registers_count(quorum) != 0;
    for (uint32_t p = 0; p < MESSAGE_PARTITIONS; p++) {
        used = used || registers_promised(quorum, p) != 0;
    }
    for (uint32_t i = 0; i < agents_count(quorum); i++) {
        used = used || sessions_marked_epoch(quorum, i) != 0;
    }
    return used;
}

void members_start(struct quorum *quorum)
{
    struct members *members = quorum->members;
    members_note_rules(quorum);
    members_forget_lines(quorum);
    members->nonce = sessions_incarnation(quorum);
    members_renumber(quorum);
    members->since_ns = step_now_ns(quorum);
    members->wait_log_ns = step_now_ns(quorum) + WAIT_LOG_MS * MS_NS;
    memcpy(members_own(quorum)->store_id, quorum->config->store_id,
           sizeof(members_own(quorum)->store_id));
    if (quorum->config->self == QUORUM_NO_VOTER) {
        members->status = members->voted ? MESSAGE_STATUS_RETIRED : MESSAGE_STATUS_LEARNING;
        members_keep_opened_commit(quorum);
        members_announce(quorum);
        return;
    }
    if (!quorum->config->rejoin) {
        members_add_lines(quorum);
    }
    if (quorum->config->voter_count == 1) {
        if (!members_have_record(quorum)) {
            struct message_member line = {.generation = 1};
            memcpy(line.store_id, quorum->config->store_id, sizeof(line.store_id));
            members_set_line(quorum, 0, &line);
        }
        if (recover_start(quorum)) {
            members->status = MESSAGE_STATUS_LISTED;
        } else {
            members_vote(quorum);
        }
        members_announce(quorum);
        return;
    }
    members_keep_opened_commit(quorum);
    if (quorum->config->rejoin) {
        members->status = MESSAGE_STATUS_REJOINING;
        rejoin_start(quorum);
    } else if (!members_have_record(quorum) && was_used(quorum)) {
        refuse_used(quorum);
    } else if (!members_have_record(quorum)) {
        members->status = MESSAGE_STATUS_EMPTY;
    } else {
        members->status = MESSAGE_STATUS_LISTED;
    }
    members_announce(quorum);
}

/* ---- Messages that arrive ---- */

void members_listing_read(struct quorum *quorum, uint32_t voter, enum message_sync_what what,
                          uint32_t partition)
{
    if (quorum->members->status == MESSAGE_STATUS_REJOINING) {
        rejoin_synced(quorum, voter, what, partition);
    }
}

void members_link(struct quorum *quorum, uint32_t voter, bool up)
{
    if (up && voter < quorum->config->voter_count) {
        quorum->members->of[voter].hello_ns = step_now_ns(quorum);
        step_schedule(quorum, step_now_ns(quorum));
    }
}

/* ---- Time ---- */

static int64_t hello_pause_ms(const struct quorum *quorum, const struct member *member)
{
    enum message_voter_status status = members_status(quorum);
    if (status != MESSAGE_STATUS_VOTING && status != MESSAGE_STATUS_REFUSED &&
        status != MESSAGE_STATUS_RETIRED) {
        return HURRY_MS;
    }
    return member->same && member->status == MESSAGE_STATUS_VOTING ? SETTLED_MS : HELLO_MS;
}

/* The tick of a voter that is alone in its cell. */
static int64_t tick_alone(struct quorum *quorum)
{
    if (!recover_waits(quorum)) {
        return NEVER;
    }
    if (!recover_is_over(quorum)) {
        return recover_tick(quorum);
    }
    sessions_refresh(quorum); /* no session may lapse because this voter waited */
    members_vote(quorum);
    ballots_review(quorum);
    return NEVER;
}

int64_t members_recovery_left_ns(const struct quorum *quorum)
{
    return recover_left_ns(quorum);
}

void members_count_anew(struct quorum *quorum)
{
    recover_anew(quorum);
}

/* REJOINING: returns, as bits, the voters that have done their part of the current phase. */
static uint8_t rejoin_there(const struct quorum *quorum)
{
    uint8_t mask = 0;
    for (uint32_t i = 0; i < quorum->config->voter_count; i++) {
        mask |= (uint8_t)(rejoin_has(quorum, i) << i);
    }
    return mask;
}

int64_t members_tick(struct quorum *quorum)
{
    struct members *members = quorum->members;
    int64_t next_ns = NEVER;
    if (quorum->config->voter_count == 1 && quorum->config->self == 0) {
        return tick_alone(quorum);
    }
    if (!step_has_room(quorum, 4 * MESSAGE_VOTERS_MAX)) {
        return step_now_ns(quorum);
    }
    for (uint32_t i = 0; i < quorum->config->voter_count; i++) {
        struct member *member = &members->of[i];
        if (i == quorum->config->self) {
            continue;
        }
        if (member->hello_ns <= step_now_ns(quorum)) {
            send_hello(quorum, i);
            member->hello_ns = step_now_ns(quorum) + hello_pause_ms(quorum, member) * MS_NS;
        }
        next_ns = member->hello_ns < next_ns ? member->hello_ns : next_ns;
    }
    if (members->seen_ns <= step_now_ns(quorum)) {
        members->seen_ns = step_now_ns(quorum) + SEEN_MS * MS_NS;
        keep_seen(quorum, 2);
    }
    if (!members_votes(quorum) && members->wait_log_ns <= step_now_ns(quorum)) {
        members->wait_log_ns = step_now_ns(quorum) + WAIT_LOG_AGAIN_MS * MS_NS;
        members_log_wait(quorum, rejoin_there(quorum));
    }
    next_ns = members->seen_ns < next_ns ? members->seen_ns : next_ns;
    int64_t voters_ns = members_voters_tick(quorum);
    next_ns = voters_ns < next_ns ? voters_ns : next_ns;
    int64_t rejoin_ns = rejoin_tick(quorum);
    return rejoin_ns < next_ns ? rejoin_ns : next_ns;
}
