/*
 * The fault "recover": the stores of a majority are lost for good, and an operator lets the cell
 * begin anew with the store of one voter that is left (docs/PROTOCOL.md, "Recovery"). This file
 * makes the new store by the rules of agent/io/store/recover.c, because the simulator's stores are
 * structs.
 *
 * An operator may only recover a cell when no majority of its earlier voters runs, or will run
 * again. (Otherwise that majority would go on as the cell.) This file obeys the rule. So when the
 * fault happens, each voter of a record in use has one of these fates, except for the survivor:
 *
 *   off         Its host is down until after the recovery, and then comes back with its old store.
 *   runs on     Its agent runs on as before.
 *   empty       Its store is lost. Its agent starts again with an empty store and its old
 *               configuration.
 *   reinstalled Its host comes back after the recovery with an empty store, and a configuration
 *               that names the survivor.
 *
 * Before the recovery, the running voters and the survivor together are no majority. After it, the
 * voters with their old stores are no majority.
 */
#include <stdlib.h>
#include <string.h>

#include "proto/check.h"
#include "sim.h"

/* The same number as in agent/run/recover.c. */
enum { ROUNDS_SKIPPED = 1 << 24 };

static struct {
    int64_t due_ns; /* when the operator recovers the cell; 0: no recovery is under way */
    struct sim_agent *survivor;
    uint32_t generation; /* how many recoveries there were */
} plan;

void recovery_reset(void)
{
    memset(&plan, 0, sizeof(plan));
}

bool recovery_is_planned(void)
{
    return plan.due_ns != 0;
}

/* ---- The new store ---- */

static uint64_t higher(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static void know_epoch(struct disk *disk, const struct message_agent *agent, uint32_t epoch)
{
    uint32_t index = agent_of_name(agent);
    if (epoch != 0 && index < AGENTS && disk->marks[index].epoch < epoch) {
        disk->marks[index] = (struct message_session){.agent = *agent, .epoch = epoch};
    }
}

/* Sets a mark for each agent that the old store knows. */
static void put_marks(struct disk *disk, const struct disk *old, const struct sim_agent *agent)
{
    know_epoch(disk, &agent->name, old->epoch);
    for (uint32_t i = 0; i < AGENTS; i++) {
        know_epoch(disk, &old->marks[i].agent, old->marks[i].epoch);
    }
    for (uint32_t i = 0; i < LOCKS; i++) {
        const struct message_value *value = &old->registers[i].reg.value;
        for (uint32_t k = 0; old->registers[i].used && k < value->share_count; k++) {
            know_epoch(disk, &value->shares[k].agent, value->shares[k].epoch);
        }
        if (old->registers[i].used) {
            know_epoch(disk, &value->owner, value->epoch);
        }
    }
}

static uint64_t generation_of(const struct disk *old)
{
    uint64_t generation = old->voters.recoveries;
    for (uint32_t i = 0; i < LOCKS; i++) {
        const struct message_value *value = &old->registers[i].reg.value;
        if (old->registers[i].used) {
            uint64_t first = value->token_first > 0 ? value->token_first - 1 : 0;
            generation = higher(generation, first / MESSAGE_TOKEN_GENERATION);
            generation = higher(generation, value->token_last / MESSAGE_TOKEN_GENERATION);
        }
    }
    for (uint32_t p = 0; p < MESSAGE_PARTITIONS; p++) {
        generation = higher(generation, old->checkpoints[p].floor / MESSAGE_TOKEN_GENERATION);
    }
    return generation;
}

static uint32_t round_of(const struct disk *old)
{
    uint64_t round = old->round;
    for (uint32_t p = 0; p < MESSAGE_PARTITIONS; p++) {
        round = higher(round, old->promised[p] >> 16);
        round = higher(round, old->checkpoints[p].order.ballot >> 16);
    }
    for (uint32_t i = 0; i < LOCKS; i++) {
        round = higher(round,
                       old->registers[i].used ? old->registers[i].reg.accepted.ballot >> 16 : 0);
    }
    return (uint32_t)round;
}

static void put_record(struct sim_agent *agent, const struct message_voters *before,
                       uint32_t generation)
{
    struct message_voters *voters = &agent->disk.voters;
    memset(voters, 0, sizeof(*voters));
    memcpy(voters->cell_id, before->cell_id, sizeof(voters->cell_id));
    voters->recoveries = generation;
    voters->number = message_voters_first(generation);
    voters->next_ballot_id = before->next_ballot_id;
    voters->complete = true;
    voters->act = MESSAGE_MEMBER_ADD;
    voters->changed = agent->name;
    voters->count = 1;
    voters->of[0] = before->of[message_voters_find(before, &agent->name)];
    memcpy(voters->of[0].store_id, agent->disk.store_id, sizeof(voters->of[0].store_id));
}

static void make_store(struct sim_agent *agent)
{
    struct disk *old = malloc(sizeof(*old));
    HF_CHECK(old != NULL);
    *old = agent->disk;
    struct message_voters before = *voters_of(agent);
    uint32_t generation = (uint32_t)generation_of(old) + 1;
    struct message_rules rules = {.session_ttl_ns = SIM_TTL_NS,
                                  .grace_ns = SIM_GRACE_NS,
                                  .max_drift_percent = SIM_DRIFT_PERCENT};
    disk_new(agent);
    struct disk *disk = &agent->disk;
    disk->epoch = old->epoch;
    disk->round = round_of(old) + ROUNDS_SKIPPED;
    put_record(agent, &before, generation);
    for (uint32_t p = 0; p < MESSAGE_PARTITIONS; p++) {
        struct message_checkpoint *checkpoint = &disk->checkpoints[p];
        checkpoint->order.ballot = (uint64_t)disk->round << 16 | disk->voters.of[0].ballot_id;
        checkpoint->order.sequence = 1;
        checkpoint->floor = broken == BREAK_RECOVERY_FLOOR
                                ? 1
                                : (uint64_t)generation * MESSAGE_TOKEN_GENERATION;
    }
    put_marks(disk, old, agent);
    disk->recovery_wait_ns = broken == BREAK_RECOVERY_WAIT ? 0 : quorum_recovery_wait_ns(&rules);
    free(old);
}

/* ---- The operator ---- */

/* Returns whether the operator may choose that agent's store. Its agent must be a voter of every
 * record in use. Otherwise it could learn of its removal before the operator acts. */
static bool may_survive(const struct sim_agent *agent)
{
    const struct message_voters *record = voters_of(agent);
    const struct message_voters *records[2];
    for (uint32_t i = voters_in_use(records); i > 0; i--) {
        if (!voters_has(records[i - 1], agent)) {
            return false;
        }
    }
    return voters_has(record, agent) && record->count > 1 &&
           record->recoveries == plan.generation && voters_voted_with(agent) &&
           agent->store == STORE_GOOD && !agent->disk.rejoin && agent->rejoins_ns == 0 &&
           agent->undoes_ns == 0;
}

/* Returns whether a voter has accepted the next record, and that agent is no voter of that record,
 * or its only one. Then the record may be chosen already, and a voter may use it before the
 * operator acts. */
static bool may_be_of_no_use(const struct sim_agent *agent)
{
    for (uint32_t i = 0; i < world.agent_count; i++) {
        const struct quorum_change *row = &world.agents[i].disk.change;
        if (row->accepted != 0 && row->number == voters_newest()->number + 1 &&
            (!voters_has(&row->voters, agent) || row->voters.count == 1)) {
            return true;
        }
    }
    return false;
}

/* Writes the survivor as the only voter into every agent's configuration, and restarts the agents
 * that would not learn of it otherwise. */
static void write_configurations(const struct sim_agent *survivor)
{
    for (uint32_t i = 0; i < world.agent_count; i++) {
        struct sim_agent *agent = &world.agents[i];
        message_voters_begin(&agent->written, &survivor->name, NULL, 1);
        if (agent != survivor && !voters_has(voters_of(agent), survivor)) {
            agent_crash(agent, sim_draw(2000) * SIM_MS);
        }
    }
}

static void recover(void)
{
    struct sim_agent *agent = plan.survivor;
    plan.due_ns = 0;
    HF_CHECK(may_survive(agent));
    agent_crash(agent, sim_draw(200) * SIM_MS);
    sim_tell("the cell is recovered with the store of host %u", agent->index);
    make_store(agent);
    plan.generation = agent->disk.voters.recoveries;
    voters_recovered(&agent->disk.voters);
    watch_recovered(agent);
    write_configurations(agent);
}

int64_t recovery_due(void)
{
    if (plan.due_ns != 0 && plan.due_ns <= sim_now()) {
        recover();
    }
    return plan.due_ns != 0 ? plan.due_ns : INT64_MAX;
}

void recovery_heal(void)
{
    if (plan.due_ns != 0) {
        recover();
    }
}

void recovery_follow(struct sim_agent *agent)
{
    const struct message_voters *record = &agent->disk.voters;
    bool removed = !agent->lost && !voters_has(record, agent);
    if (removed || (agent->lost && record->recoveries == plan.generation)) {
        agent->lost = false;
        agent->store = STORE_GOOD;
        agent->rejoins_ns = 0;
        agent->undoes_ns = 0;
    }
}

bool recovery_needs(const struct sim_agent *agent)
{
    return plan.due_ns != 0 && plan.survivor == agent;
}

/* ---- The loss ---- */

/* For each record in use: how many voters keep their stores, and how many run until the recovery.
 * Both include the survivor. */
struct left {
    const struct message_voters *records[2];
    uint32_t count;
    uint32_t kept[2];
    uint32_t run[2];
};

static bool may_keep(const struct left *left, const struct sim_agent *agent)
{
    bool may = agent->store == STORE_GOOD && !agent->disk.rejoin && agent->rejoins_ns == 0 &&
               agent->undoes_ns == 0;
    for (uint32_t i = 0; i < left->count; i++) {
        may = may &&
              (!voters_has(left->records[i], agent) || left->kept[i] < left->records[i]->count / 2);
    }
    return may;
}

static bool may_run(const struct left *left, const struct sim_agent *agent)
{
    bool may = true;
    for (uint32_t i = 0; i < left->count; i++) {
        may = may &&
              (!voters_has(left->records[i], agent) || left->run[i] < left->records[i]->count / 2);
    }
    return may;
}

static void count(struct left *left, const struct sim_agent *agent, bool keeps, bool runs)
{
    for (uint32_t i = 0; i < left->count; i++) {
        bool has = voters_has(left->records[i], agent);
        left->kept[i] += has && keeps;
        left->run[i] += has && runs;
    }
}

static void lose_store(struct sim_agent *agent)
{
    disk_new(agent);
    agent->lease_file.valid = false;
    memset(agent->records, 0, sizeof(agent->records));
    agent->store = STORE_WRONG;
    agent->lost = true;
    agent->starts_again = 0;
    agent->copied = false;
    watch_forgot(agent);
}

/* Stops the agent until after the recovery, and in some runs the whole host. */
static void turn_off(struct sim_agent *agent)
{
    int64_t down_ns = plan.due_ns - sim_now() + (1 + sim_draw(4000)) * SIM_MS;
    if (sim_draw(2) == 0) {
        faults_kill_all_of(agent);
        agent_reboot(agent, down_ns);
    } else {
        agent_crash(agent, down_ns);
    }
    agent->starts_ns = sim_now() + down_ns;
}

/* Returns whether the configuration of that agent names the survivor as a voter. An agent with an
 * empty store finds the voters there. */
static bool is_written(const struct sim_agent *agent)
{
    return voters_has(voters_written(agent), plan.survivor);
}

static void lose(struct left *left, struct sim_agent *agent)
{
    static const char *const fates[] = {"runs on", "is off", "has an empty store",
                                        "is reinstalled"};
    uint32_t fate = sim_draw(4);
    bool keeps = may_keep(left, agent);
    fate = fate == 0 && !(keeps && may_run(left, agent)) ? 1 : fate;
    fate = fate == 1 && !keeps ? 2 : fate;
    fate = fate == 2 && !is_written(agent) ? 3 : fate;
    sim_tell("host %u %s", agent->index, fates[fate]);
    count(left, agent, fate <= 1, fate == 0);
    agent->rejoins_ns = 0;
    agent->undoes_ns = 0;
    if (fate == 1 || fate == 3) {
        turn_off(agent);
    } else if (fate == 2) {
        agent_crash(agent, sim_draw(200) * SIM_MS);
    }
    if (fate >= 2) {
        lose_store(agent);
    }
}

void recovery_inject(void)
{
    struct left left = {.count = 0};
    struct sim_agent *survivor = &world.agents[sim_draw(world.agent_count)];
    if (plan.due_ns != 0 || plan.generation + 1 >= GENERATIONS || !may_survive(survivor) ||
        may_be_of_no_use(survivor)) {
        return;
    }
    sim_tell("a majority is lost for good, host %u is left", survivor->index);
    plan.survivor = survivor;
    plan.due_ns = sim_now() + (1 + sim_draw(3000)) * SIM_MS;
    left.count = voters_in_use(left.records);
    count(&left, survivor, false, true);
    uint32_t first = sim_draw(world.agent_count);
    for (uint32_t i = 0; i < world.agent_count; i++) {
        struct sim_agent *agent = &world.agents[(first + i) % world.agent_count];
        if (agent != survivor && voters_is_used(agent)) {
            lose(&left, agent);
        }
    }
}
