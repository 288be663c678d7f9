/*
 * The record of voters that this agent uses. See members.h, proto/voters.h, and docs/PROTOCOL.md,
 * "Changing the voters".
 *
 * An agent receives another record in a VOTERS message, which only contains a record that was
 * chosen. An agent that receives a message under a lower number sends VOTERS to the sender. An
 * agent that receives a message under a higher number asks for VOTERS. In both cases the message
 * itself does not count as a vote (members_admit()).
 *
 * When this agent switches to another record, the voters of that record replace those of the
 * configuration, in ascending order of their names. Tables that are indexed by voter are reordered,
 * so that each entry stays with its voter's name (reaction_follow()). Everything that was counted
 * is counted anew, because answers under different numbers are never counted together. A ballot
 * that a majority promised under the previous number may be used under the present one
 * (ballots_carry()), but under no later one.
 *
 * An agent that switches to a record sends that record to the other voters before any message under
 * it. A message that arrived earlier would not count as a vote there, and would have to be sent
 * again.
 */
#include <string.h>

#include "members_private.h"
#include "proto/check.h"
#include "reactions.h"

enum {
    TELL_MS = 100, /* an agent is sent VOTERS or ASK_VOTERS at most this often */
    ASK_MS = 1000, /* how often the others are asked whether the record is complete */
    /* how far a number may be above this agent's number; each change takes longer than a ttl */
    NUMBERS_FREE = 1 << 16,
};

void members_begin_voters(struct quorum *quorum)
{
    struct quorum_config *config = quorum->config;
    message_voters_begin(&quorum->members->voters, config->voters,
                         (const char(*)[MESSAGE_ADDRESS_MAX])config->addresses,
                         config->voter_count);
    quorum->members->voters_digest = message_voters_digest(&quorum->members->voters);
}

/* ---- Switching to a record ---- */

/* Maps the present voters to those of the next record. A name that was removed and added again
 * counts as a new voter, because it has another number in ballots. After a recovery all voters
 * count as new: even the surviving voter has another store. */
static void compare(const struct quorum *quorum, const struct message_voters *next,
                    struct succession *succession)
{
    const struct quorum_config *config = quorum->config;
    bool recovered = next->recoveries != quorum->members->voters.recoveries;
    succession_make(succession, config->voters, config->voter_count, next);
    for (uint32_t i = 0; i < next->count; i++) {
        uint32_t from = succession->from[i];
        if (from != SUCCESSION_NONE &&
            (recovered || config->ballot_ids[from] != next->of[i].ballot_id)) {
            succession->from[i] = SUCCESSION_NONE;
            succession->to[from] = SUCCESSION_NONE;
        }
    }
}

/* Puts the record's voters into the configuration. */
static void take_voters(struct quorum *quorum, const struct message_voters *voters)
{
    struct quorum_config *config = quorum->config;
    message_voters_copy(&quorum->members->voters, voters);
    quorum->members->voters_digest = message_voters_digest(voters);
    config->voter_count = voters->count;
    config->self = QUORUM_NO_VOTER;
    for (uint32_t i = 0; i < voters->count; i++) {
        config->voters[i] = voters->of[i].name;
        config->ballot_ids[i] = voters->of[i].ballot_id;
        memcpy(config->addresses[i], voters->of[i].address, sizeof(config->addresses[i]));
        if (memcmp(&config->voters[i], &config->name, sizeof(config->name)) == 0) {
            config->self = i;
        }
    }
}

/* Returns whether the table of agents has room for all voters of the record. */
static bool has_room(struct quorum *quorum, const struct message_voters *voters)
{
    uint32_t index = 0;
    for (uint32_t i = 0; i < voters->count; i++) {
        if (!agents_make(quorum, &voters->of[i].name, &index)) {
            return false;
        }
    }
    return true;
}

bool members_load_voters(struct quorum *quorum, const struct message_voters *voters)
{
    struct succession succession;
    HF_CHECK(!step_started(quorum));
    if (!voters_valid(voters) || !has_room(quorum, voters)) {
        return false;
    }
    compare(quorum, voters, &succession);
    take_voters(quorum, voters);
    reaction_follow(quorum, &succession);
    return true;
}

/* Returns whether the record names this agent with this store. The record of number 1 names no
 * stores. */
static bool names_this_store(const struct quorum *quorum)
{
    const struct quorum_config *config = quorum->config;
    const uint64_t *id = quorum->members->voters.of[config->self].store_id;
    return id[0] == config->store_id[0] && id[1] == config->store_id[1];
}

/* Moves the lines of the record of stores, and this agent's own entry, to the voters' indexes. */
static void follow_lines(struct quorum *quorum, const struct succession *succession, uint32_t self)
{
    struct members *members = quorum->members;
    struct member room[MESSAGE_VOTERS_MAX];
    struct member own = members->of[self];
    succession_move(succession, members->of, sizeof(members->of[0]), room);
    if (quorum->config->self == QUORUM_NO_VOTER ||
        succession->from[quorum->config->self] == SUCCESSION_NONE) {
        memset(&own.line, 0, sizeof(own.line));
        members->of[quorum->config->self] = own;
    }
}

/* Adds the line of each new voter. The record of voters names the store with which that voter
 * joined. */
static void add_lines(struct quorum *quorum, const struct succession *succession)
{
    const struct message_voters *voters = &quorum->members->voters;
    for (uint32_t i = 0; i < voters->count; i++) {
        const uint64_t *id = voters->of[i].store_id;
        if (succession->from[i] == SUCCESSION_NONE && (id[0] | id[1]) != 0) {
            struct message_member line = {.store_id = {id[0], id[1]}, .generation = 1};
            members_put_line(quorum, i, &line);
        }
    }
}

/* This agent may have had no quorum core while voters were removed, and added again with other
 * stores. So the lines of a store that never voted may be outdated. The other voters send the
 * present lines. */
void members_forget_lines(struct quorum *quorum)
{
    struct members *members = quorum->members;
    for (uint32_t i = 0; !members->voted && members->voters.number > 1 && i < MESSAGE_VOTERS_MAX;
         i++) {
        memset(&members->of[i].line, 0, sizeof(members->of[i].line));
    }
}

/*
 * The store keeps its rows from the time when it voted, as the store of a voter that was down does.
 * Its values have the orders of that time, and its promises and marks can only forbid something. If
 * the agent becomes a voter again, it gets another number in ballots. But another voter may have
 * been removed and added again meanwhile, with another store. So the lines of the record of stores
 * must come from the other voters.
 */
void members_learn_again(struct quorum *quorum)
{
    struct members *members = quorum->members;
    if (members->status != MESSAGE_STATUS_RETIRED || !members->voters.complete) {
        return;
    }
    members->status = MESSAGE_STATUS_LEARNING;
    for (uint32_t i = 0; i < MESSAGE_VOTERS_MAX; i++) {
        memset(&members->of[i].line, 0, sizeof(members->of[i].line));
    }
    members_recount(quorum);
    members_announce(quorum);
}

void members_add_lines(struct quorum *quorum)
{
    const struct message_voters *voters = &quorum->members->voters;
    for (uint32_t i = 0; i < voters->count; i++) {
        const uint64_t *id = voters->of[i].store_id;
        if (quorum->members->of[i].line.generation == 0 && (id[0] | id[1]) != 0) {
            struct message_member line = {.store_id = {id[0], id[1]}, .generation = 1};
            members_set_line(quorum, i, &line);
        }
    }
}

/* Returns whether this store waits for the reports of other voters about its commits, although
 * there is no other voter any more. */
static bool waits_for_nobody(const struct quorum *quorum)
{
    return members_status(quorum) == MESSAGE_STATUS_LISTED && quorum->config->voter_count == 1;
}

/* Decides whether this store votes under the record that the agent uses now. */
static void set_status(struct quorum *quorum, const struct succession *succession)
{
    struct members *members = quorum->members;
    uint32_t self = quorum->config->self;
    if (self == QUORUM_NO_VOTER) {
        members->status = members->status == MESSAGE_STATUS_LEARNING ? MESSAGE_STATUS_LEARNING
                                                                     : MESSAGE_STATUS_RETIRED;
        return;
    }
    if (succession->from[self] != SUCCESSION_NONE) {
        if (waits_for_nobody(quorum)) {
            members_vote(quorum);
        }
        return;
    }
    if (members->status == MESSAGE_STATUS_LEARNING && names_this_store(quorum)) {
        /* This store may be an old copy, from before it joined. So it votes only when a majority
         * has seen no commit that it lacks (rule 25). */
        members->joins = true;
        members->status = MESSAGE_STATUS_LISTED;
        if (members->proven) {
            members_vote(quorum);
        }
    } else if (members->status == MESSAGE_STATUS_LEARNING && quorum->config->rejoin) {
        /* this store starts over, and learns only now that the cell has added it as a voter */
        members->status = MESSAGE_STATUS_REJOINING;
        rejoin_start(quorum);
    } else {
        members_refuse_other(quorum, &quorum->config->name);
    }
}

static void report(struct quorum *quorum)
{
    message_voters_copy(&step_emit(quorum, ACTION_VOTERS)->as.voters, &quorum->members->voters);
}

static void persist(struct quorum *quorum)
{
    message_voters_copy(&step_emit(quorum, ACTION_PERSIST_VOTERS)->as.voters,
                        &quorum->members->voters);
}

static void tell(struct quorum *quorum, uint32_t agent)
{
    struct message_told *told = &step_send(quorum, agent, MESSAGE_VOTERS)->as.told;
    message_voters_copy(&told->voters, &quorum->members->voters);
}

/* Sends the present record to its other voters. */
static void tell_voters(struct quorum *quorum)
{
    for (uint32_t i = 0; i < quorum->config->voter_count; i++) {
        if (i != quorum->config->self) {
            tell(quorum, agents_of_voter(quorum, i));
        }
    }
}

static void follow(struct quorum *quorum, const struct message_voters *voters)
{
    struct succession succession;
    uint32_t self = quorum->config->self;
    compare(quorum, voters, &succession);
    take_voters(quorum, voters);
    /* the record is durable before this agent acts on it, because its votes wait for the disk */
    persist(quorum);
    report(quorum);
    members_note_rules(quorum);
    follow_lines(quorum, &succession, self);
    reaction_follow(quorum, &succession);
    add_lines(quorum, &succession);
    tell_voters(quorum);
    members_count_votes_anew(quorum);
    ballots_carry(quorum);
    set_status(quorum, &succession);
    members_announce(quorum);
    voters_heartbeat_soon(quorum);
    ballots_review(quorum);
}

static void complete(struct quorum *quorum)
{
    quorum->members->voters.complete = true;
    persist(quorum);
    report(quorum);
}

/* Returns whether the record is of this cell, and may follow the present one. */
static bool may_follow(const struct quorum *quorum, const struct message_voters *voters)
{
    const struct message_voters *mine = &quorum->members->voters;
    /* A recovery begins with the first number of its generation. */
    uint32_t from = voters->recoveries > mine->recoveries ? message_voters_first(voters->recoveries)
                                                          : mine->number;
    return message_voters_same_cell(mine, voters) && voters->recoveries >= mine->recoveries &&
           voters->recoveries < MESSAGE_RECOVERIES_LIMIT && voters->number > mine->number &&
           voters->number - from <= NUMBERS_FREE;
}

/* ---- Messages ---- */

static void ask(struct quorum *quorum, uint32_t agent)
{
    step_send(quorum, agent, MESSAGE_ASK_VOTERS)->as.ask_voters.number =
        quorum->members->voters.number;
}

/* Returns whether this agent accepts a newer record from the sender. If any agent could send one,
 * an agent that is no voter could replace the cell's voters. */
static bool is_trusted(const struct quorum *quorum, const struct message *message)
{
    const struct quorum_config *config = quorum->config;
    uint32_t voter = 0;
    bool is = agents_voter(quorum, message, &voter);
    for (uint32_t i = 0; i < config->trusted_count && i < MESSAGE_VOTERS_MAX; i++) {
        is = is || memcmp(&config->trusted[i], &message->from, sizeof(message->from)) == 0;
    }
    return is;
}

/* Asks for the record of a higher number that the message names. If the sender is not trusted, asks
 * a voter of the present record instead. */
static void ask_about(struct quorum *quorum, const struct message *message, uint32_t agent)
{
    uint32_t count = quorum->config->voter_count;
    uint32_t voter = (uint32_t)(step_random(quorum) % count);
    if (!is_trusted(quorum, message)) {
        agent = agents_of_voter(quorum,
                                voter == quorum->config->self ? (voter + 1) % count : voter);
    }
    ask(quorum, agent);
}

/* Finds the sender. An agent that announces itself gets an entry in the table. */
static bool find_sender(struct quorum *quorum, const struct message *message, uint32_t *agent)
{
    return message->kind == MESSAGE_RENEW || message->kind == MESSAGE_HELLO
               ? agents_guest(quorum, &message->from, agent)
               : agents_find(quorum, &message->from, agent);
}

/* Logs that another agent has another record of the same number. In one cell no two records of one
 * number are chosen, so the two agents belong to different cells. */
static void note_conflict(struct quorum *quorum, const struct message_agent *from, uint32_t number,
                          uint64_t digest)
{
    struct members *members = quorum->members;
    if (number < 2 || number != members->voters.number || digest == members->voters_digest ||
        !step_has_room(quorum, 2) ||
        log_limit_add(&members->conflict_limit, &log_once_a_minute, step_now_ns(quorum)) == 0) {
        return;
    }
    struct action_log *log = step_log(quorum, "voters_conflict", from, number);
    step_log_agent(log, from);
    step_log_text(log, " uses other voters under the same number: it is of another cell, and was "
                       "perhaps recovered as well. Neither counts the votes of the other. Stop one "
                       "of the two, and remove its store");
}

void members_compare(struct quorum *quorum, const struct message *message)
{
    struct members *members = quorum->members;
    uint32_t agent = 0;
    note_conflict(quorum, &message->from, message->number, message->digest);
    if (message->number == 0 || message->number == members->voters.number ||
        message->kind == MESSAGE_VOTERS || message->kind == MESSAGE_ASK_VOTERS ||
        memcmp(&message->from, &quorum->config->name, sizeof(message->from)) == 0 ||
        !find_sender(quorum, message, &agent) || !step_has_room(quorum, 1)) {
        return;
    }
    int64_t told_ns = members->told_ns[agent];
    if (told_ns != 0 && step_now_ns(quorum) - told_ns < TELL_MS * MS_NS) {
        return;
    }
    members->told_ns[agent] = step_now_ns(quorum);
    if (message->number < members->voters.number) {
        tell(quorum, agent);
    } else {
        ask_about(quorum, message, agent);
    }
}

void members_asked(struct quorum *quorum, const struct message *message)
{
    uint32_t agent = 0;
    if (message->as.ask_voters.number <= quorum->members->voters.number &&
        agents_guest(quorum, &message->from, &agent)) {
        tell(quorum, agent);
    }
}

void members_choose(struct quorum *quorum, const struct message_voters *voters)
{
    uint32_t agent = 0;
    follow(quorum, voters);
    if (voters->act == MESSAGE_MEMBER_REMOVE && agents_find(quorum, &voters->changed, &agent) &&
        memcmp(&voters->changed, &quorum->config->name, sizeof(voters->changed)) != 0) {
        tell(quorum, agent);
    }
}

void members_complete(struct quorum *quorum)
{
    complete(quorum);
    tell_voters(quorum);
}

void members_told(struct quorum *quorum, const struct message *message)
{
    const struct message_voters *voters = &message->as.told.voters;
    struct members *members = quorum->members;
    if (!is_trusted(quorum, message)) {
        return;
    }
    note_conflict(quorum, &message->from, voters->number, message_voters_digest(voters));
    if (voters->number == members->voters.number) {
        if (voters->complete && !members->voters.complete &&
            message_voters_digest(voters) == members->voters_digest) {
            complete(quorum);
        }
    } else if (may_follow(quorum, voters) && has_room(quorum, voters)) {
        follow(quorum, voters);
    }
}

/* A voter that does not know that its record is complete asks all voters of the record, itself
 * included. An answer waits for the disk of its sender, so it shows that the sender uses the record
 * (change_complete.c). */
int64_t members_voters_tick(struct quorum *quorum)
{
    struct members *members = quorum->members;
    if (members->voters.complete) {
        return NEVER;
    }
    if (members->ask_ns <= step_now_ns(quorum)) {
        uint32_t agent = 0;
        members->ask_ns = step_now_ns(quorum) + ASK_MS * MS_NS;
        for (uint32_t i = 0; i < quorum->config->voter_count; i++) {
            ask(quorum, agents_of_voter(quorum, i));
        }
        if (members->voters.act == MESSAGE_MEMBER_REMOVE &&
            agents_find(quorum, &members->voters.changed, &agent)) {
            ask(quorum, agent);
        }
    }
    return members->ask_ns;
}

/* ---- Which messages count ---- */

static bool is_vote(enum message_kind kind)
{
    return kind == MESSAGE_PROMISE || kind == MESSAGE_VALUE || kind == MESSAGE_ACCEPTED ||
           kind == MESSAGE_POLLED || kind == MESSAGE_MARKED || kind == MESSAGE_CHECKPOINTED ||
           kind == MESSAGE_SYNCED || kind == MESSAGE_CHANGE_PROMISE ||
           kind == MESSAGE_CHANGE_ACCEPTED;
}

static bool asks_for_vote(enum message_kind kind)
{
    return kind == MESSAGE_PREPARE || kind == MESSAGE_READ || kind == MESSAGE_ACCEPT ||
           kind == MESSAGE_POLL || kind == MESSAGE_MARK || kind == MESSAGE_CHECKPOINT ||
           kind == MESSAGE_SYNC || kind == MESSAGE_CHANGE_PREPARE || kind == MESSAGE_CHANGE_ACCEPT;
}

/* Returns whether the sender uses a record from before the last recovery of the cell. Its sessions
 * are over, and its votes are refused for ever (docs/PROTOCOL.md, "Recovery"). */
static bool is_from_before(const struct quorum *quorum, const struct message *message)
{
    return message->number < message_voters_first(quorum->members->voters.recoveries);
}

bool members_admit(const struct quorum *quorum, const struct message *message)
{
    uint32_t voter = 0;
    uint32_t number = message->number != 0 ? message->number : 1;
    if (is_from_before(quorum, message)) {
        return message->kind == MESSAGE_HELLO || message->kind == MESSAGE_VOTERS ||
               message->kind == MESSAGE_ASK_VOTERS;
    }
    if (message->kind == MESSAGE_RENEW) {
        if (number != quorum->members->voters.number ||
            (number > 1 && !members_same_voters(quorum, message))) {
            return false;
        }
        /* REFUSED and REJOINING: the voter does not acknowledge, but it sends an answer */
        return members_votes(quorum) || members_status(quorum) == MESSAGE_STATUS_REFUSED ||
               members_status(quorum) == MESSAGE_STATUS_REJOINING;
    }
    bool asks = asks_for_vote(message->kind);
    if (!asks && !is_vote(message->kind)) {
        return true;
    }
    if (!members_same_voters(quorum, message)) {
        return false;
    }
    bool of_voter = agents_voter(quorum, message, &voter);
    if (!of_voter && (message->kind == MESSAGE_SYNC || message->kind == MESSAGE_CHANGE_ACCEPTED)) {
        /* A learner reads the registers that it needs, and accepts the record that adds it. */
        return members_votes(quorum);
    }
    if (!of_voter || quorum->members->of[voter].differs) {
        return false;
    }
    if (asks) {
        return members_votes(quorum) || (message->kind == MESSAGE_CHANGE_ACCEPT &&
                                         quorum->members->status == MESSAGE_STATUS_LEARNING);
    }
    uint8_t status = quorum->members->status;
    bool rejoining = (status == MESSAGE_STATUS_REJOINING &&
                      (message->kind == MESSAGE_PROMISE || message->kind == MESSAGE_SYNCED ||
                       message->kind == MESSAGE_CHANGE_PROMISE)) ||
                     (status == MESSAGE_STATUS_LEARNING && message->kind == MESSAGE_SYNCED);
    return message->membership == quorum->members->number && (members_votes(quorum) || rejoining);
}
