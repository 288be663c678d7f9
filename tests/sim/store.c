/*
 * Faults and repairs of an agent's whole store: it is lost, replaced by an old copy, or emptied,
 * and an operator makes its voter start over.
 */
#include <stdlib.h>
#include <string.h>

#include "proto/check.h"
#include "sim.h"

/* ---- a voter that was removed ---- */

bool store_has_rows(const struct sim_agent *agent)
{
    const struct disk *disk = &agent->disk;
    bool voted = false;
    for (uint32_t p = 0; p < MESSAGE_PARTITIONS; p++) {
        voted = voted || disk->promised[p] != 0 || disk->checkpoints[p].order.ballot != 0;
    }
    for (uint32_t i = 0; i < LOCKS; i++) {
        voted = voted || disk->registers[i].used;
    }
    for (uint32_t i = 0; i < AGENTS; i++) {
        voted = voted || disk->marks[i].epoch != 0 || disk->members[i].voter.length != 0 ||
                (i != agent->index && disk->seen[i].voter.length != 0);
    }
    return voted;
}

/* Returns whether the store has a row about a record that may be the next one after the agent's
 * own. */
static bool has_accepted_record(const struct sim_agent *agent)
{
    return agent->disk.change.number > voters_of(agent)->number;
}

bool store_has_voted(const struct sim_agent *agent)
{
    return store_has_rows(agent) || has_accepted_record(agent);
}

void store_retire(struct sim_agent *agent)
{
    struct disk *disk = &agent->disk;
    const struct message_voters *record = voters_of(agent);
    bool just = record->act == MESSAGE_MEMBER_REMOVE &&
                memcmp(&record->changed, &agent->name, sizeof(agent->name)) == 0;
    if (disk->voters.number == 0 || voters_has(record, agent) || (just && !record->complete) ||
        has_accepted_record(agent) || !store_has_rows(agent)) {
        return;
    }
    sim_tell("host %u: its store is emptied, because its voter was removed", agent->index);
    memset(disk->promised, 0, sizeof(disk->promised));
    memset(disk->checkpoints, 0, sizeof(disk->checkpoints));
    memset(disk->registers, 0, sizeof(disk->registers));
    memset(disk->marks, 0, sizeof(disk->marks));
    memset(disk->members, 0, sizeof(disk->members));
    struct quorum_seen opened = disk->seen[agent->index];
    if (opened.commit == 0) {
        quorum_opened_row(&agent->name, disk->store_id, disk->commit, &opened);
    }
    memset(disk->seen, 0, sizeof(disk->seen));
    disk->seen[agent->index] = opened;
    memset(&disk->change, 0, sizeof(disk->change));
    disk->round = 0;
    disk->rejoin = false;
    disk->commit++;
    watch_retired(agent);
}

/* ---- a disk that is lost, or replaced by an old copy ---- */

static void wrong_store(struct sim_agent *agent)
{
    agent->store = STORE_WRONG;
    agent->rejoins_ns = sim_now() + (500 + sim_draw(3000)) * SIM_MS;
    watch_forgot(agent);
}

/* Replaces the store by an empty one. The agent also loses its epoch, which is in the state
 * directory. */
void agent_lose_disk(struct sim_agent *agent)
{
    agent_crash(agent, sim_draw(200) * SIM_MS);
    sim_tell("host %u loses its disk", agent->index);
    disk_new(agent);
    agent->lease_file.valid = false;
    memset(agent->records, 0, sizeof(agent->records));
    wrong_store(agent);
}

/* Makes the commit by which an operator undoes a start-over (agent/io/store/replace.c). */
static void put_back(struct sim_agent *agent)
{
    struct quorum_seen *own = &agent->disk.seen[agent->index];
    if (own->commit == 0 && agent->disk.commit != 0) {
        own->voter = agent->name;
        own->commit = agent->disk.commit;
        memcpy(own->store_id, agent->disk.store_id, sizeof(own->store_id));
    }
    agent->disk.commit++;
}

void agent_restore_disk(struct sim_agent *agent)
{
    agent_crash(agent, sim_draw(200) * SIM_MS);
    sim_tell("host %u comes back with an old copy of its disk: commit %llu, it was %llu",
             agent->index, (unsigned long long)agent->copy->commit,
             (unsigned long long)agent->disk.commit);
    agent->disk = *agent->copy;
    agent->lease_file.valid = false; /* the lease ends before an operator can restore a copy */
    memset(agent->records, 0, sizeof(agent->records));
    agent->copied = false;
    /* Before the agent runs, the operator may start the store over and undo that, several times.
     * Each undoing is a commit. */
    for (uint32_t i = world.faults.mistake != 0 ? sim_draw(40) : 0; i > 0; i--) {
        put_back(agent);
    }
    agent->starts_again = sim_draw(2) == 0 ? 0 : sim_draw(12);
    wrong_store(agent);
}

void agent_rejoin(struct sim_agent *agent)
{
    struct message_voters record = agent->disk.voters;
    uint32_t epoch = agent->disk.epoch;
    agent_crash(agent, sim_draw(20) * SIM_MS);
    sim_tell("host %u is told to start over", agent->index);
    disk_new(agent);
    agent->disk.voters = record;
    agent->disk.epoch = epoch;
    agent->disk.rejoin = true;
    agent->store = STORE_GOOD;
    agent->starts_again = 0;
    agent->rejoins_ns = 0;
}

void agent_new_store(struct sim_agent *agent)
{
    struct message_voters record = *voters_of(agent);
    uint32_t epoch = agent->disk.epoch;
    agent_crash(agent, 2 * SIM_TTL_NS); /* its last lease is over when it starts again */
    sim_tell("host %u gets a new store", agent->index);
    disk_new(agent);
    agent->disk.epoch = epoch;
    agent->disk.voters = record;
    agent->lease_file.valid = false;
    memset(agent->records, 0, sizeof(agent->records));
    watch_forgot(agent);
}

void agent_rejoin_by_mistake(struct sim_agent *agent)
{
    if (agent->old == NULL) {
        agent->old = malloc(sizeof(*agent->old));
        HF_CHECK(agent->old != NULL);
    }
    *agent->old = agent->disk;
    agent->old_store = agent->store;
    watch_forgot(agent);
    agent_rejoin(agent);
    agent->undoes_ns = sim_now() + (sim_draw(2) == 0 ? 0 : sim_draw(4000)) * SIM_MS;
}

void agent_undo_rejoin(struct sim_agent *agent)
{
    uint32_t epoch = agent->disk.epoch;
    agent->undoes_ns = 0;
    if (!agent->disk.rejoin || agent->disk.members[agent->index].member.generation != 0) {
        sim_tell("host %u cannot have its store back: others may know of the new one",
                 agent->index);
        return;
    }
    agent_crash(agent, sim_draw(20) * SIM_MS);
    sim_tell("host %u has its store back", agent->index);
    agent->disk = *agent->old;
    agent->disk.epoch = 1 + (epoch > agent->disk.epoch ? epoch : agent->disk.epoch);
    put_back(agent);
    agent->store = agent->old_store;
    if (agent->store == STORE_WRONG) {
        wrong_store(agent);
    }
}
