/*
 * The fault "change": operators change the voters while the cell runs. They add an observer, remove
 * a voter, replace one (remove it, then add another), or move one, at any time. They may ask for
 * the next change before the previous one is complete.
 *
 * Checked from outside:
 *
 *   one record  All agents that use a number have the same record of it.
 *   one by one  A record appears only when the number before it is complete. It adds one voter,
 *               removes one, or moves one.
 *   durable     A vote names a number that is on its sender's disk, and its sender is a voter of
 *               that number.
 *   the end     After everything has healed, the newest number is complete, and all its voters
 *               vote.
 *
 * watch.c counts majorities of the records that are in use: a number is in use from its choice
 * until its successor is complete. A recovery (recovery.c) begins a new generation of the cell, and
 * no older record is in use any more. The messages of a voter that still has an older record are
 * checked by that record.
 */
#include <stdio.h>
#include <string.h>

#include "proto/check.h"
#include "sim.h"

enum { NUMBERS = 256 }; /* per generation */

static struct {
    struct message_voters record[GENERATIONS][NUMBERS]; /* count 0: no agent had it yet */
    uint32_t newest[GENERATIONS];                       /* 0: none */
    uint32_t generation;                                /* the newest generation */
    uint64_t requests;
} seen;

/* Returns the record of that number. Its count is 0 if no agent had it yet. */
static struct message_voters *record_at(uint32_t number)
{
    uint32_t generation = number / MESSAGE_NUMBERS;
    uint32_t at = number % MESSAGE_NUMBERS;
    HF_CHECK(generation < GENERATIONS && at < NUMBERS);
    return &seen.record[generation][at];
}

void voters_reset(void)
{
    struct message_agent names[MESSAGE_VOTERS_MAX];
    memset(&seen, 0, sizeof(seen));
    for (uint32_t i = 0; i < world.voters; i++) {
        names[i] = world.agents[i].name;
    }
    message_voters_begin(record_at(1), names, NULL, world.voters);
    record_at(1)->complete = true;
    seen.newest[0] = 1;
}

void voters_recovered(const struct message_voters *record)
{
    HF_CHECK(record->recoveries == seen.generation + 1 && record->recoveries < GENERATIONS);
    seen.generation = record->recoveries;
    seen.newest[seen.generation] = record->number;
    message_voters_copy(record_at(record->number), record);
}

/* If an agent's store has no record, the agent uses number 1, or the voters that an operator has
 * written into its configuration. A store that has voted stays with the voters with which it
 * began. */
const struct message_voters *voters_of(const struct sim_agent *agent)
{
    bool written = agent->written.count != 0 && !store_has_rows(agent);
    return agent->disk.voters.number != 0 ? &agent->disk.voters
           : written                      ? &agent->written
                                          : record_at(1);
}

bool voters_has(const struct message_voters *record, const struct sim_agent *agent)
{
    return message_voters_find(record, &agent->name) < record->count;
}

const struct message_voters *voters_written(const struct sim_agent *agent)
{
    return agent->written.count != 0 ? &agent->written : record_at(1);
}

const struct message_voters *voters_newest(void)
{
    return record_at(seen.newest[seen.generation]);
}

const struct message_voters *voters_numbered(uint32_t number)
{
    const struct message_voters *record = record_at(number == 0 ? 1 : number);
    return record->count != 0 ? record : NULL;
}

const struct message_voters *voters_after(const struct message_voters *record)
{
    if (record == NULL) {
        return record_at(1);
    }
    const struct message_voters *next = record_at(record->number + 1);
    if (next->count == 0 && record->recoveries < seen.generation) {
        next = record_at(message_voters_first(record->recoveries + 1));
    }
    return next->count != 0 ? next : NULL;
}

uint32_t voters_in_use_of(uint32_t generation, const struct message_voters *out[2])
{
    uint32_t count = 0;
    out[count++] = record_at(seen.newest[generation]);
    if (!out[0]->complete) {
        out[count++] = record_at(out[0]->number - 1);
    }
    return count;
}

uint32_t voters_in_use(const struct message_voters *out[2])
{
    return voters_in_use_of(seen.generation, out);
}

struct sim_agent *voters_agent(const struct message_voters *record, uint32_t at)
{
    uint32_t index = agent_of_name(&record->of[at].name);
    HF_CHECK(at < record->count && index < AGENTS);
    return &world.agents[index];
}

bool voters_is_used(const struct sim_agent *agent)
{
    const struct message_voters *records[2];
    bool is = false;
    for (uint32_t i = voters_in_use(records); i > 0; i--) {
        is = is || voters_has(records[i - 1], agent);
    }
    return is;
}

/* Returns whether the agent's store has voted. */
bool voters_voted_with(const struct sim_agent *agent)
{
    return agent->disk.members[agent->index].voter.length != 0;
}

/* Returns whether the voters `yes` (by agent) are a majority of the record. */
bool voters_are_majority(const struct message_voters *record, const bool *yes)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < record->count; i++) {
        count += yes[agent_of_name(&record->of[i].name)];
    }
    return count > record->count / 2;
}

/* ---- checks ---- */

/* Returns by how many voters the two records differ. */
static uint32_t difference(const struct message_voters *a, const struct message_voters *b)
{
    uint32_t both = 0;
    for (uint32_t i = 0; i < a->count; i++) {
        uint32_t at = message_voters_find(b, &a->of[i].name);
        both += at < b->count && b->of[at].ballot_id == a->of[i].ballot_id;
    }
    return a->count + b->count - 2 * both;
}

/* Compares a record with all earlier ones of its generation. Other generations cannot clash,
 * because their ballots have other rounds. */
static void check_ids(const struct message_voters *record)
{
    uint32_t first = record->recoveries == 0 ? 1 : message_voters_first(record->recoveries);
    for (uint32_t number = first; number < record->number; number++) {
        const struct message_voters *old = record_at(number);
        for (uint32_t i = 0; i < record->count; i++) {
            for (uint32_t k = 0; k < old->count; k++) {
                bool same = memcmp(&record->of[i].name, &old->of[k].name,
                                   sizeof(old->of[k].name)) == 0;
                if (record->of[i].ballot_id == old->of[k].ballot_id && !same) {
                    sim_fail("two voters of numbers %u and %u have the same number in ballots",
                             number, record->number);
                }
            }
        }
    }
}

/* A record is compared only with those of its own generation. An agent that was stopped during the
 * recovery may store an old generation's record after the recovery. */
void voters_durable(const struct sim_agent *agent, const struct message_voters *record)
{
    struct message_voters *known = record_at(record->number);
    if (known->count == 0) {
        uint32_t generation = record->number / MESSAGE_NUMBERS;
        const struct message_voters *newest = record_at(seen.newest[generation]);
        if (record->number != newest->number + 1 || !newest->complete) {
            sim_fail("host %u uses number %u, but number %u is not complete, or not the newest",
                     agent->index, record->number, record->number - 1);
        }
        uint32_t moves = record->act == MESSAGE_MEMBER_MOVE;
        if (difference(record, newest) != 1 - moves) {
            sim_fail("number %u changes more than one voter", record->number);
        }
        sim_tell("number %u: act %u of %.*s, %u voters", record->number, record->act,
                 record->changed.length, record->changed.text, record->count);
        message_voters_copy(known, record);
        known->complete = false;
        seen.newest[generation] = record->number;
        check_ids(record);
    }
    if (message_voters_digest(known) != message_voters_digest(record)) {
        sim_fail("host %u uses another record of number %u than others", agent->index,
                 record->number);
    }
    if (record->complete && !known->complete) {
        known->complete = true;
        sim_tell("number %u is complete", record->number);
    }
}

void voters_voted(const struct sim_agent *from, const struct message *message)
{
    const struct message_voters *record = voters_numbered(message->number);
    uint32_t durable = voters_of(from)->number;
    if (world.faults.older || message->number == 0) {
        return;
    }
    if (message->number > durable) {
        sim_fail("host %u sends kind %d under number %u, but has number %u on its disk",
                 from->index, message->kind, message->number, durable);
    }
    if (record == NULL || !voters_has(record, from)) {
        sim_fail("host %u sends kind %d under number %u, of which it is no voter", from->index,
                 message->kind, message->number);
    }
}

/* Returns whether the newest number is complete, and all its voters vote under it. */
bool voters_are_done(void)
{
    for (uint32_t i = 0; i < world.agent_count; i++) {
        const struct sim_agent *agent = &world.agents[i];
        if (voters_has(voters_newest(), agent) &&
            (!agent->up || agent->quorum == NULL ||
             quorum_voter_status(agent->quorum) != MESSAGE_STATUS_VOTING ||
             quorum_voters(agent->quorum)->number != voters_newest()->number ||
             !quorum_voters(agent->quorum)->complete)) {
            return false;
        }
    }
    return true;
}

void voters_tell(void)
{
    for (uint32_t i = 0; i < world.agent_count; i++) {
        const struct sim_agent *agent = &world.agents[i];
        sim_tell("host %u: up %d, number %u on disk, status %d, uses %u", i, agent->up,
                 voters_of(agent)->number,
                 agent->up && agent->quorum != NULL ? (int)quorum_voter_status(agent->quorum) : -1,
                 agent->up && agent->quorum != NULL ? quorum_voters(agent->quorum)->number : 0);
    }
}

/* ---- operators ---- */

/* Asks a voter for a change. The answer does not matter, because the voter goes on with the change
 * by itself. */
static void ask(struct sim_agent *from, const struct sim_agent *to, enum message_member_act act,
                const struct sim_agent *voter)
{
    struct message message;
    message_copy(&message, renewal_header(from->renewal));
    memset(&message.as, 0, MESSAGE_BASE_SIZE - offsetof(struct message, as));
    message.kind = MESSAGE_MEMBER;
    message.as.member.agent = from->name;
    message.as.member.request_id = ++seen.requests << 16 | 1;
    message.as.member.act = (uint8_t)act;
    message.as.member.voter = voter->name;
    if (act != MESSAGE_MEMBER_REMOVE) {
        int ignored = snprintf(message.as.member.address, MESSAGE_ADDRESS_MAX, "sim://%llu",
                               (unsigned long long)seen.requests);
        (void)ignored;
    }
    sim_tell("host %u asks host %u for act %u of host %u", from->index, to->index, act,
             voter->index);
    if (from == to) {
        return;
    }
    net_send(from->index, to->index, &message);
}

void voters_inject(void)
{
    struct sim_agent *from = &world.agents[sim_draw(world.agent_count)];
    struct sim_agent *to = &world.agents[sim_draw(world.agent_count)];
    struct sim_agent *subject = &world.agents[sim_draw(world.agent_count)];
    bool votes = voters_has(voters_newest(), subject);
    uint32_t count = voters_newest()->count;
    if (!from->up || from->driver == NULL || !to->up || !voters_has(voters_newest(), to)) {
        return;
    }
    if (votes && sim_draw(4) == 0) {
        ask(from, to, MESSAGE_MEMBER_MOVE, subject);
    } else if (votes && (count > 3 || sim_draw(3) == 0)) {
        ask(from, to, MESSAGE_MEMBER_REMOVE, subject);
    } else if (!votes && (count < 5 || sim_draw(3) == 0)) {
        /* On some hosts a removed voter comes back with a new store, on others with its own
         * store. */
        if (voters_voted_with(subject) && voters_newest()->complete && subject->index % 2 == 0 &&
            !recovery_is_planned()) {
            agent_new_store(subject);
            return;
        }
        ask(from, to, MESSAGE_MEMBER_ADD, subject);
    }
}
