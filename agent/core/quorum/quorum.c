/*
 * The top of the quorum core: its memory, its start, the dispatch of each event to the module that
 * handles it, and the calls from modules to modules above them (reactions.h). The modules, from the
 * lowest to the highest:
 *
 *   step       time, randomness, actions, log lines
 *   rules      what follows from the configuration alone
 *   agents     the table of agents
 *   record     values as they are kept, and the pool of shares
 *   registers  what an acceptor keeps: promises, values, checkpoints, floors
 *   voters     the other voters: heartbeats, failure detector
 *   sessions   leases: renewals, polls, marks; ending a session
 *   ballots    which partitions this voter coordinates and has prepared
 *   queues     requests of hosts, and the operations that decide them
 *   sync       anti-entropy: reading what others have; deletion
 *   members    with which store a voter votes; starting over
 *   change     changing the voters: the record's register, completion, learning
 *   bounds     the highest numbers that a message may name
 *
 * Each module has a header, MODULE.h, and a struct that no other module looks into.
 * MODULE_private.h is for the module's own files. A module calls only modules that stand before it
 * in this list. Calls to modules that stand after it are in reactions.h.
 *
 * Memory is one block: the hub, then the tables of each module, sized by the limits. Indexes begin
 * with 1, so that zeroed memory is an empty table. (Indexes of agents begin with 0; the voters come
 * first.)
 */
#include "core/quorum.h"

#include <string.h>

#include "agents.h"
#include "ballots.h"
#include "bounds.h"
#include "change.h"
#include "core/base/arena.h"
#include "members.h"
#include "proto/check.h"
#include "queues.h"
#include "reactions.h"
#include "record.h"
#include "registers.h"
#include "rules.h"
#include "sessions.h"
#include "step.h"
#include "sync.h"
#include "voters.h"

/* Lays out the block. This function alone lists what the block holds. */
static struct quorum *lay_out(struct arena *arena, const struct quorum_limits *limits)
{
    struct quorum *quorum = arena_take(arena, 1, sizeof(*quorum));
    struct quorum nowhere;
    struct quorum *into = quorum != NULL ? quorum : &nowhere;
    into->config = arena_take(arena, 1, sizeof(struct quorum_config));
    into->step = step_lay_out(arena);
    into->agents = agents_lay_out(arena, limits);
    into->records = records_lay_out(arena, limits);
    into->registers = registers_lay_out(arena, limits);
    into->voters = voters_lay_out(arena);
    into->ballots = ballots_lay_out(arena);
    into->sessions = sessions_lay_out(arena, limits);
    into->queues = queues_lay_out(arena, limits);
    into->sync = sync_lay_out(arena);
    into->members = members_lay_out(arena, limits);
    into->changes = change_lay_out(arena, limits);
    into->bounds = bounds_lay_out(arena, limits);
    return quorum;
}

size_t quorum_size(const struct quorum_limits *limits)
{
    struct arena arena = {0};
    (void)lay_out(&arena, limits);
    return arena.used;
}

static uint16_t ballot_id(const struct quorum_config *config, uint32_t voter)
{
    return config->ballot_ids[voter] != 0 ? config->ballot_ids[voter] : (uint16_t)(voter + 1);
}

const char *quorum_config_error(const struct quorum_config *config)
{
    const struct quorum_limits *limits = &config->limits;
    uint32_t voters = config->voter_count;
    if (voters == 0 || voters > MESSAGE_VOTERS_MAX) {
        return "a cell has 1 to 7 voters";
    }
    if (config->self >= voters &&
        (config->self != QUORUM_NO_VOTER || !agent_name_valid(&config->name))) {
        return "this agent is not among the voters, and has no valid name";
    }
    for (uint32_t i = 0; i < voters; i++) {
        if (!agent_name_valid(&config->voters[i])) {
            return "a voter's name is not of the form [a-z0-9_-]{1,32}";
        }
        for (uint32_t k = 0; k < i; k++) {
            if (memcmp(&config->voters[i], &config->voters[k], sizeof(config->voters[i])) == 0) {
                return "a voter is named twice";
            }
            if (ballot_id(config, i) == ballot_id(config, k)) {
                return "two voters have the same number in their ballots";
            }
        }
    }
    if (config->session_ttl_ns < 100 * MS_NS || config->session_ttl_ns > 3600 * 1000 * MS_NS) {
        return "session_ttl is not from 100ms to 1h";
    }
    if (config->max_drift_percent > 50) {
        return "max_drift is not from 0% to 50%";
    }
    if (limits->agents < voters || limits->agents > QUORUM_AGENTS_MAX) {
        return "the limit of agents is not from the number of voters to 65000";
    }
    if (limits->registers == 0 || limits->registers > NAMES_COUNT_MAX || limits->requests == 0 ||
        limits->requests > NAMES_COUNT_MAX) {
        return "the limits of registers and requests are not from 1 to 2^25";
    }
    if (limits->shares < MESSAGE_SHARES_MAX || limits->shares > NAMES_COUNT_MAX) {
        return "the limit of shares is not from 64 to 2^25";
    }
    return NULL;
}

struct quorum *quorum_init(void *memory, const struct quorum_config *config, struct names *names)
{
    HF_CHECK(memory != NULL && (uintptr_t)memory % 8 == 0 && names != NULL);
    HF_CHECK(quorum_config_error(config) == NULL);
    struct arena arena = {.base = memory};
    struct quorum *quorum = lay_out(&arena, &config->limits);
    *quorum->config = *config;
    for (uint32_t i = 0; i < config->voter_count; i++) {
        quorum->config->ballot_ids[i] = ballot_id(config, i);
    }
    if (config->self != QUORUM_NO_VOTER) {
        quorum->config->name = config->voters[config->self];
    }
    quorum->names = names;
    sessions_init(quorum);
    step_init(quorum);
    voters_init(quorum);
    ballots_init(quorum);
    members_init(quorum);
    agents_init(quorum);
    return quorum;
}

/* ---- Reactions ---- */

void reaction_fill_header(const struct quorum *quorum, enum message_kind kind,
                          struct message *message)
{
    quorum_header(quorum, kind, message);
}

void reaction_agent_named(struct quorum *quorum, uint32_t agent)
{
    sessions_agent_named(quorum, agent);
    queues_agent_named(quorum, agent);
    change_agent_named(quorum, agent);
}

bool reaction_agent_is_unknown(const struct quorum *quorum, uint32_t agent)
{
    return sessions_is_unknown(quorum, agent) && records_granted_epoch(quorum, agent) == 0 &&
           queues_is_unknown(quorum, agent);
}

bool reaction_is_owned(const struct quorum *quorum, uint32_t partition, uint32_t voter)
{
    return ballots_is_owned(quorum, partition, voter);
}

void reaction_preempted(struct quorum *quorum, uint32_t partition, uint64_t ballot)
{
    ballots_preempted(quorum, partition, ballot);
}

bool reaction_votes(const struct quorum *quorum)
{
    return members_votes(quorum);
}

void reaction_fill_heartbeat(const struct quorum *quorum, struct message_heartbeat *heartbeat)
{
    heartbeat->votes = members_votes(quorum);
    heartbeat->leaves = change_leaves(quorum);
    for (uint32_t p = 0; p < MESSAGE_PARTITIONS; p++) {
        if (ballots_claims(quorum, p)) {
            message_partition_add(&heartbeat->owned, p);
        }
        if (reaction_is_changing(quorum) && sync_is_settled(quorum, p)) {
            message_partition_add(&heartbeat->settled, p);
        }
    }
}

uint32_t reaction_leaves(const struct quorum *quorum)
{
    return change_leaves(quorum);
}

bool reaction_same_voters(const struct quorum *quorum, const struct message *message)
{
    return members_same_voters(quorum, message);
}

void reaction_voters_changed(struct quorum *quorum)
{
    ballots_review(quorum);
}

void reaction_claims_changed(struct quorum *quorum, uint32_t voter)
{
    queues_claims_changed(quorum, voter);
    change_claims_changed(quorum);
}

/* Refuses an agent whose rules differ from this voter's, see members_rules_match(). */
static void refuse_rules(struct quorum *quorum, uint32_t agent, const struct message_renew *renew)
{
    struct message_refused *refused = &step_send(quorum, agent, MESSAGE_REFUSED)->as.refused;
    refused->agent = renew->agent;
    refused->epoch = renew->epoch;
    refused->reason = MESSAGE_REFUSED_RULES;
    members_answer(quorum, agent, NULL);
}

bool reaction_may_renew(struct quorum *quorum, uint32_t agent, const struct message_renew *renew)
{
    if (!members_rules_match(quorum, renew)) {
        refuse_rules(quorum, agent, renew);
        return false;
    }
    if (!members_votes(quorum)) {
        /* with this answer the agent can show its operators why its renewal is not acknowledged */
        members_answer(quorum, agent, NULL);
        return false;
    }
    return true;
}

void reaction_session_ended(struct quorum *quorum, uint32_t agent)
{
    queues_session_ended(quorum, agent);
}

void reaction_ballots_changed(struct quorum *quorum)
{
    queues_ballots_changed(quorum);
}

void reaction_prepared(struct quorum *quorum)
{
    sync_at_once(quorum);
    change_claims_changed(quorum);
}

void reaction_listing_read(struct quorum *quorum, uint32_t voter, enum message_sync_what what,
                           uint32_t partition)
{
    members_listing_read(quorum, voter, what, partition);
    if (members_status(quorum) == MESSAGE_STATUS_LEARNING && what == MESSAGE_SYNC_REGISTERS) {
        change_listing_read(quorum, partition);
    }
}

void reaction_rejoined(struct quorum *quorum, uint64_t ballot)
{
    change_rejoined(quorum, ballot);
    bounds_rounds(quorum);
}

void reaction_follow(struct quorum *quorum, const struct succession *succession)
{
    agents_follow(quorum);
    voters_follow(quorum, succession);
    ballots_follow(quorum, members_voters(quorum)->number);
    queues_follow(quorum, succession);
    queues_count_anew(quorum);
    sync_follow(quorum);
    change_follow(quorum);
    bounds_follow(quorum);
}

bool reaction_lists_marks(const struct quorum *quorum)
{
    return change_is_guarded(quorum);
}

bool reaction_is_changing(const struct quorum *quorum)
{
    return !members_voters(quorum)->complete && members_votes(quorum);
}

void reaction_mark_seen(struct quorum *quorum, uint32_t voter, const struct message_session *mark)
{
    change_mark_seen(quorum, voter, mark);
}

void reaction_marks_read(struct quorum *quorum, uint32_t voter)
{
    change_marks_read(quorum, voter);
}

void reaction_majority_found(struct quorum *quorum)
{
    sync_behind(quorum);
}

/* ---- Interface ---- */

bool quorum_ready(const struct quorum *quorum)
{
    return ballots_ready(quorum);
}

bool quorum_handed_over(const struct quorum *quorum)
{
    return queues_handed_over(quorum);
}

bool quorum_resigned(const struct quorum *quorum)
{
    return queues_resigned(quorum);
}

bool quorum_decides_only(const struct quorum *quorum, const struct message_name *name)
{
    return queues_decide_only(quorum, name);
}

const struct message_voters *quorum_voters(const struct quorum *quorum)
{
    return members_voters(quorum);
}

bool quorum_load_voters(struct quorum *quorum, const struct message_voters *voters)
{
    HF_CHECK(!step_started(quorum));
    return members_load_voters(quorum, voters);
}

bool quorum_load_change(struct quorum *quorum, const struct quorum_change *change)
{
    HF_CHECK(!step_started(quorum));
    return change_load(quorum, change);
}

bool quorum_load_member(struct quorum *quorum, const struct quorum_member *member)
{
    HF_CHECK(!step_started(quorum));
    return members_load(quorum, member);
}

bool quorum_load_seen(struct quorum *quorum, const struct quorum_seen *seen)
{
    HF_CHECK(!step_started(quorum));
    return members_load_seen(quorum, seen);
}

void quorum_opened_row(const struct message_agent *agent, const uint64_t store_id[2],
                       uint64_t commit, struct quorum_seen *row)
{
    members_opened_row(agent, store_id, commit, row);
}

bool quorum_keep_opened(struct quorum *quorum, struct quorum_seen *row)
{
    return members_keep_opened(quorum, row);
}

uint64_t quorum_reported_commit(const struct quorum *quorum)
{
    return members_reported_commit(quorum);
}

enum message_voter_status quorum_voter_status(const struct quorum *quorum)
{
    return members_status(quorum);
}

enum message_voter_status quorum_voter_status_of(const struct quorum *quorum, uint32_t voter)
{
    return members_status_of(quorum, voter);
}

int64_t quorum_recovery_left_ns(const struct quorum *quorum)
{
    return members_recovery_left_ns(quorum);
}

uint8_t quorum_missing(const struct quorum *quorum)
{
    return voters_missing(quorum);
}

void quorum_header(const struct quorum *quorum, enum message_kind kind, struct message *message)
{
    message_zero(message);
    message->kind = kind;
    message->membership = members_number(quorum);
    message->from = quorum->config->name;
    message->store_id[0] = quorum->config->store_id[0];
    message->store_id[1] = quorum->config->store_id[1];
    message->commit = members_reported_commit(quorum);
    message->number = members_voters(quorum)->number;
    message->digest = members_voters_digest(quorum);
}

const struct message_agent *quorum_agent_name(const struct quorum *quorum, uint32_t index)
{
    return agents_name(quorum, index);
}

bool quorum_load_round(struct quorum *quorum, uint32_t round)
{
    HF_CHECK(!step_started(quorum));
    ballots_load_round(quorum, round);
    return true;
}

bool quorum_load_promise(struct quorum *quorum, const struct quorum_promise *promise)
{
    HF_CHECK(!step_started(quorum));
    return registers_load_promise(quorum, promise);
}

bool quorum_load_register(struct quorum *quorum, const struct quorum_register *reg)
{
    HF_CHECK(!step_started(quorum));
    return registers_load(quorum, reg);
}

bool quorum_load_checkpoint(struct quorum *quorum, const struct quorum_checkpoint *row)
{
    HF_CHECK(!step_started(quorum));
    return registers_load_checkpoint(quorum, row);
}

bool quorum_load_mark(struct quorum *quorum, const struct message_session *mark)
{
    HF_CHECK(!step_started(quorum));
    return sessions_load_mark(quorum, mark);
}

bool quorum_look(const struct quorum *quorum, uint32_t name, struct quorum_register *out)
{
    const struct record *record = registers_find(quorum, name);
    if (record == NULL) {
        return false;
    }
    step_lock_name(quorum, name, &out->name);
    out->accepted = record_accepted(record);
    record_to_value(quorum, record, &out->value);
    return true;
}

void quorum_set_commit(struct quorum *quorum, uint64_t commit)
{
    members_set_commit(quorum, commit);
}

void quorum_committing(struct quorum *quorum)
{
    members_committing(quorum);
}

int64_t quorum_next_tick_ns(const struct quorum *quorum)
{
    return step_next_tick_ns(quorum);
}

/* ---- Events ---- */

static void start(struct quorum *quorum)
{
    HF_CHECK(!step_started(quorum));
    step_set_started(quorum);
    sessions_start(quorum);
    registers_raise_promises(quorum);
    ballots_start(quorum);
    bounds_start(quorum);
    sync_deletion_start(quorum);
    members_start(quorum);
    voters_start(quorum);
    sync_start(quorum);
    ballots_review(quorum);
}

static void receive(struct quorum *quorum, const struct message *message)
{
    if (!message_valid(message) || !bounds_allow(quorum, message)) {
        return;
    }
    members_learn(quorum, message);
    members_compare(quorum, message);
    change_note(quorum, message);
    if (!members_admit(quorum, message)) {
        return;
    }
    switch (message->kind) {
    case MESSAGE_PREPARE:
        if (members_votes(quorum)) {
            registers_prepare(quorum, message);
        }
        break;
    case MESSAGE_PROMISE:
        if (members_status(quorum) == MESSAGE_STATUS_REJOINING) {
            members_promise(quorum, message);
        } else {
            ballots_promise(quorum, message);
        }
        break;
    case MESSAGE_HELLO:
        members_hello(quorum, message);
        break;
    case MESSAGE_CHECKPOINT:
        sync_checkpoint(quorum, message);
        break;
    case MESSAGE_CHECKPOINTED:
        sync_checkpointed(quorum, message);
        break;
    case MESSAGE_READ:
        if (members_votes(quorum)) {
            registers_read(quorum, message);
        }
        break;
    case MESSAGE_VALUE:
        queues_value(quorum, message);
        break;
    case MESSAGE_ACCEPT:
        if (members_votes(quorum)) {
            registers_accept(quorum, message);
        }
        break;
    case MESSAGE_ACCEPTED:
        queues_accepted(quorum, message);
        break;
    case MESSAGE_RENEW:
        sessions_renew(quorum, message);
        break;
    case MESSAGE_POLL:
        if (members_votes(quorum)) {
            sessions_poll(quorum, message);
        }
        break;
    case MESSAGE_POLLED:
        sessions_polled(quorum, message);
        break;
    case MESSAGE_MARK:
        if (members_votes(quorum)) {
            sessions_mark(quorum, message);
        }
        break;
    case MESSAGE_MARKED:
        sessions_marked(quorum, message);
        change_marked(quorum, message);
        break;
    case MESSAGE_SYNC:
        if (members_votes(quorum)) {
            sync_request(quorum, message);
        }
        break;
    case MESSAGE_SYNCED:
        sync_answer(quorum, message);
        break;
    case MESSAGE_HEARTBEAT:
        if (!voters_is_another(quorum, message) || !members_is_from_copy(quorum, message)) {
            voters_receive(quorum, message);
            change_heartbeat(quorum, message);
        }
        break;
    case MESSAGE_CHANGE_PREPARE:
        change_prepare(quorum, message);
        break;
    case MESSAGE_CHANGE_PROMISE:
        if (members_status(quorum) != MESSAGE_STATUS_REJOINING) {
            change_promise(quorum, message);
        } else if (members_promise_change(quorum, message)) {
            change_read(quorum, message);
        }
        break;
    case MESSAGE_CHANGE_ACCEPT:
        change_accept(quorum, message);
        break;
    case MESSAGE_CHANGE_ACCEPTED:
        change_accepted(quorum, message);
        break;
    case MESSAGE_MEMBER:
        change_member(quorum, message);
        break;
    case MESSAGE_LEARN:
        change_learn(quorum, message);
        break;
    case MESSAGE_LEARNED:
        change_learned(quorum, message);
        break;
    case MESSAGE_VOTERS:
        members_told(quorum, message);
        break;
    case MESSAGE_ASK_VOTERS:
        members_asked(quorum, message);
        break;
    case MESSAGE_ACQUIRE:
    case MESSAGE_AMEND:
    case MESSAGE_GIVE_BACK:
    case MESSAGE_BREAK:
        queues_request(quorum, message);
        break;
    /* Messages for the host core are ignored here. Only a mistake of the driver could bring such a
     * message here. */
    default:
        break;
    }
}

static void tick(struct quorum *quorum)
{
    step_forget_ticks(quorum);
    step_schedule(quorum, members_tick(quorum));
    step_schedule(quorum, sync_deletion_tick(quorum));
    step_schedule(quorum, voters_tick(quorum));
    step_schedule(quorum, ballots_tick(quorum));
    step_schedule(quorum, sync_tick(quorum));
    step_schedule(quorum, sessions_tick(quorum));
    step_schedule(quorum, queues_tick(quorum));
    step_schedule(quorum, change_tick(quorum));
}

/* Notes how long this process did not run although a tick was due. */
static void note_lateness(struct quorum *quorum, int64_t now_ns)
{
    int64_t due_ns = step_next_tick_ns(quorum);
    due_ns = due_ns > step_now_ns(quorum) ? due_ns : step_now_ns(quorum);
    if (step_started(quorum) && now_ns > due_ns) {
        voters_late(quorum, now_ns - due_ns, now_ns);
    }
}

void quorum_step(struct quorum *quorum, const struct quorum_event *event, struct actions *actions)
{
    HF_CHECK(actions->capacity - actions->count >= QUORUM_STEP_ACTIONS);
    HF_CHECK(event->now_ns >= step_now_ns(quorum));
    HF_CHECK(step_started(quorum) || event->kind == QUORUM_START);
    note_lateness(quorum, event->now_ns);
    step_begin(quorum, event, actions);
    switch (event->kind) {
    case QUORUM_START:
        start(quorum);
        break;
    case QUORUM_MESSAGE:
        receive(quorum, event->as.message);
        break;
    case QUORUM_TICK:
        tick(quorum);
        break;
    case QUORUM_STALLED:
        sessions_refresh(quorum);
        ballots_review(quorum);
        break;
    case QUORUM_ASTRAY: /* lock-delays counted so far may have been too short */
        sessions_refresh(quorum);
        sessions_count_anew(quorum);
        change_count_anew(quorum);
        members_count_anew(quorum);
        break;
    case QUORUM_RESIGN:
        queues_resign(quorum);
        break;
    case QUORUM_LINK:
        members_link(quorum, event->as.link.voter, event->as.link.up);
        voters_link(quorum, event->as.link.voter, event->as.link.up);
        break;
    case QUORUM_REACHED:
        ballots_reached(quorum, event->as.reached);
        break;
    }
    sync_end_step(quorum);
    members_end_step(quorum);
    step_end(quorum);
}

void quorum_renew(struct quorum *quorum, const struct quorum_event *event, struct actions *actions)
{
    const struct message *message = event->as.message;
    HF_CHECK(actions->capacity - actions->count >= QUORUM_STEP_ACTIONS);
    HF_CHECK(event->now_ns >= step_now_ns(quorum) && step_started(quorum));
    HF_CHECK(message->kind == MESSAGE_RENEW);
    step_begin(quorum, event, actions);
    if (bounds_allow(quorum, message)) {
        members_learn(quorum, message);
        members_compare(quorum, message);
        if (members_admit(quorum, message)) {
            sessions_renew(quorum, message);
        }
    }
    step_end(quorum);
}

/* ---- Facts and invariants ---- */

const struct quorum_counts *quorum_counts(const struct quorum *quorum)
{
    return step_counts((struct quorum *)(uintptr_t)quorum);
}

void quorum_survey(const struct quorum *quorum, struct quorum_survey *out)
{
    *out = (struct quorum_survey){.partitions = ballots_count(quorum),
                                  .incomplete = ballots_incomplete(quorum),
                                  .registers = registers_count(quorum),
                                  .registers_max = quorum->config->limits.registers,
                                  .agents = agents_count(quorum),
                                  .requests = queues_request_count(quorum),
                                  .votes = members_votes(quorum),
                                  .majority = voters_majority(quorum),
                                  .suspicion_ns = voters_timeout_ns(quorum)};
}

void quorum_check_invariants(const struct quorum *quorum)
{
    ballots_check_invariants(quorum);
    sessions_check_invariants(quorum);
    records_check_invariants(quorum, registers_check_invariants(quorum),
                             queues_share_count(quorum));
    queues_check_invariants(quorum);
}
