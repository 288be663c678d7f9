/*
 * Draws from the seed: the cell, the kinds of faults, and how often each happens. This file also
 * makes the faults. At the end of a run all faults heal.
 *
 * struct run can override some of the draws, so that a failing run can be made smaller. This does
 * not change the other draws.
 */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "proto/check.h"
#include "shim_plan.h"
#include "sim.h"

/* A fault's name, and the place of its setting in struct faults. The setting is a chance, or a
 * flag: on or off. */
struct fault {
    const char *name;
    size_t offset;
    bool flag;
};

#define CHANCE(name)                                                                               \
    {                                                                                              \
#name, offsetof(struct faults, name), false                                                \
    }
#define FLAG(name)                                                                                 \
    {                                                                                              \
#name, offsetof(struct faults, name), true                                                 \
    }
static const struct fault table[] = {
    CHANCE(kill),    CHANCE(stop),     CHANCE(hang_up), CHANCE(cancel),  CHANCE(disturb),
    CHANCE(crash),   CHANCE(stall),    CHANCE(reboot),  CHANCE(recall),  CHANCE(crash_all),
    CHANCE(suspend), CHANCE(cut),      CHANCE(reset),   CHANCE(drift),   CHANCE(restore),
    CHANCE(lose),    CHANCE(fail),     CHANCE(loss),    CHANCE(repeat),  CHANCE(late),
    FLAG(reorder),   FLAG(slow_disk),  FLAG(shared),    FLAG(upgrade),   FLAG(downgrade),
    FLAG(barging),   FLAG(limits),     FLAG(no_delay),  FLAG(timeouts),  FLAG(high_tokens),
    FLAG(rest),      FLAG(long_delay), FLAG(older),     FLAG(rolling),   FLAG(starved),
    FLAG(orderly),   CHANCE(mistake),  CHANCE(spoil),   FLAG(wide),      CHANCE(held),
    FLAG(tries),     CHANCE(breaks),   CHANCE(change),  CHANCE(recover),
};
enum { FAULTS = sizeof(table) / sizeof(table[0]) };
_Static_assert(FAULTS <= 64, "a bit for each fault");

const char *fault_name(uint32_t index)
{
    return index < FAULTS ? table[index].name : NULL;
}

/* Turns a fault off or on; `on` makes a fault with a chance frequent. */
static void overrule(struct faults *faults, const struct fault *fault, bool on)
{
    /* a change has a high chance, because most requests for a change are refused */
    enum { OFTEN = 200, CHANGE_OFTEN = 20, RECOVER_OFTEN = 5000 };
    char *at = (char *)faults + fault->offset;
    if (fault->flag) {
        *(bool *)at = on;
    } else {
        bool change = fault->offset == offsetof(struct faults, change);
        bool recover = fault->offset == offsetof(struct faults, recover);
        *(uint32_t *)(void *)at = !on ? 0 : change ? CHANGE_OFTEN : recover ? RECOVER_OFTEN : OFTEN;
    }
}

bool faults_are_none(void)
{
    for (uint32_t i = 0; i < FAULTS; i++) {
        const char *at = (const char *)&world.faults + table[i].offset;
        if (!table[i].flag && *(const uint32_t *)(const void *)at != 0) {
            return false;
        }
    }
    return !world.faults.slow_disk && !world.faults.older && !world.faults.starved &&
           !world.faults.rest;
}

/* ---- draws ---- */

const uint64_t *sim_range_first(void)
{
    static const uint64_t narrow = 4;
    static const uint64_t wide = 1 << 12;
    return world.faults.wide ? &wide : &narrow;
}

void faults_draw_cell(void)
{
    static const uint32_t voters[] = {1, 1, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 5, 5, 7, 3};
    const struct run *run = &world.run;
    world.voters = voters[sim_draw(16)];
    uint32_t observers = sim_draw(2) == 0 ? 0 : 1 + sim_draw(2);
    observers = sim_draw(40) == 0 ? 20 : observers;
    world.voters = run->voters != 0 ? run->voters : world.voters;
    world.agent_count = world.voters + (run->observers_set ? run->observers : observers);
    uint32_t some = 2 + sim_draw(6);
    uint32_t many = sim_draw(10) == 0 ? sim_draw(16) : 0;
    uint32_t locks = 1 + sim_draw(3);
    world.process_count = some + many;
    world.lock_count = sim_draw(8) == 0 ? LOCKS : locks;
    if (world.agent_count == 1) {
        world.process_count = 7;
        world.lock_count = 3;
    }
    world.gossip = sim_draw(4) == 0 && world.agent_count > 1;
    world.process_count = run->processes != 0 ? run->processes : world.process_count;
    world.lock_count = run->locks != 0 ? run->locks : world.lock_count;
    HF_CHECK(world.agent_count <= AGENTS && world.process_count <= PROCESSES &&
             world.lock_count <= LOCKS);
}

uint32_t faults_draw_beside(uint32_t what, uint32_t time, uint32_t limit)
{
    uint64_t mixed = world.run.seed * UINT64_C(0x9e3779b97f4a7c15) + what * UINT64_C(1000003) +
                     time;
    mixed = (mixed ^ mixed >> 31) * UINT64_C(0xbf58476d1ce4e5b9);
    mixed = (mixed ^ mixed >> 27) * UINT64_C(0x94d049bb133111eb);
    return (uint32_t)(mixed >> 33) % limit;
}

/* Draws the chance of a fault. Half of the faults are off. */
static uint32_t rarely(uint32_t in)
{
    return sim_draw(2) == 0 ? 0 : in / 2 + sim_draw(in * 2);
}

static void draw_between_hosts(struct faults *faults)
{
    static const int64_t delays[] = {100000, 1000000, 1000000, 8000000};
    faults->delay_ns_max = delays[sim_draw(4)];
    faults->cut_ns_max = (1 + sim_draw(4000)) * SIM_MS;
    faults->crash_all = sim_draw(4) == 0 ? 8000 + sim_draw(8000) : 0;
    faults->suspend = sim_draw(4) == 0 ? 6000 : 0;
    faults->cut = rarely(1500);
    faults->reset = rarely(1500);
    faults->drift = rarely(1000);
    faults->restore = sim_draw(4) == 0 ? 1000 : 0;
    faults->lose = sim_draw(4) == 0 ? 6000 : 0;
    faults->loss = sim_draw(2) == 0 ? 0 : 5 + sim_draw(200);
    faults->repeat = rarely(50);
    faults->late = rarely(100);
    faults->reorder = sim_draw(2) == 0;
    faults->rest = sim_draw(5) == 0;
    faults->long_delay = sim_draw(3) == 0;
    faults->older = faults_draw_beside(AGENTS, 0, 3) == 0;
    faults->rolling = faults_draw_beside(AGENTS, 1, 8) == 0;
    faults->starved = faults_draw_beside(AGENTS, 2, 8) == 0;
    faults->orderly = faults_draw_beside(AGENTS, 3, 2) == 0;
    faults->mistake = faults_draw_beside(AGENTS, 4, 6) == 0 ? 1500 : 0;
    faults->wide = faults_draw_beside(AGENTS, 6, 4) == 0;
    faults->tries = faults_draw_beside(AGENTS, 7, 2) == 0;
    faults->breaks = faults_draw_beside(AGENTS, 8, 2) == 0 ? 60 : 0;
    if (world.run.rolling) {
        faults->rolling = true;
        faults->orderly = world.run.rolling_orderly;
    }
    if (world.agent_count == 1) {
        faults->crash_all = faults->suspend = faults->cut = faults->reset = faults->drift = 0;
        faults->restore = faults->lose = faults->mistake = 0;
        faults->rest = faults->long_delay = faults->older = faults->rolling = false;
        faults->starved = faults->orderly = false;
    }
}

void faults_draw(void)
{
    struct faults *faults = &world.faults;
    *faults = (struct faults){
        .kill = rarely(600),
        .stop = rarely(600),
        .hang_up = rarely(1500),
        .cancel = rarely(300),
        .disturb = rarely(100),
        .crash = rarely(1500),
        .stall = rarely(2000),
        .reboot = sim_draw(4) == 0 ? 6000 : 0,
        .recall = rarely(40),
        .down_ns_max = (1 + sim_draw(4000)) * SIM_MS,
        .stop_ns_max = (1 + sim_draw(3000)) * SIM_MS,
        .shared = sim_draw(2) == 0,
        .upgrade = sim_draw(2) == 0,
        .downgrade = sim_draw(2) == 0,
        .barging = sim_draw(3) == 0,
        .limits = sim_draw(3) == 0,
        .no_delay = sim_draw(2) == 0,
        .timeouts = sim_draw(2) == 0,
        .high_tokens = sim_draw(4) == 0,
        .fail = sim_draw(8) == 0 ? 200 : 0,
        .slow_disk = sim_draw(4) == 0,
    };
    draw_between_hosts(faults);
    faults->spoil = faults_draw_beside(AGENTS, 5, 6) == 0 ? 1500 : 0;
    for (uint32_t i = 0; i < FAULTS; i++) {
        if (((world.run.off | world.run.often) >> i & 1) != 0) {
            overrule(faults, &table[i], (world.run.off >> i & 1) == 0);
        }
    }
    if (faults->change != 0 || faults->recover != 0) {
        faults->older = false; /* while older agents run, no change of the voters is possible */
    }
}

/* ---- the faults ---- */

static int64_t draw_ns(int64_t limit_ns)
{
    return (int64_t)(sim_random() % (uint64_t)limit_ns);
}

void faults_kill_all_of(const struct sim_agent *agent)
{
    for (uint32_t i = 0; i < world.process_count; i++) {
        if (world.processes[i].agent == agent) {
            process_kill(&world.processes[i], sim_draw(100) * SIM_MS);
        }
    }
}

static void crash_all(int64_t most_ns)
{
    bool reboot = sim_draw(2) == 0;
    for (uint32_t i = 0; i < world.agent_count; i++) {
        if (reboot) {
            faults_kill_all_of(&world.agents[i]);
            agent_reboot(&world.agents[i], draw_ns(most_ns));
        } else {
            agent_crash(&world.agents[i], draw_ns(most_ns));
        }
    }
}

/* Stops a whole host, while its clock runs on. */
static void suspend(struct sim_agent *agent, int64_t for_ns)
{
    sim_tell("host %u is suspended for %lld us", agent->index, (long long)for_ns / 1000);
    if (agent->up) {
        agent->stalled_ns = agent->stalled_ns == 0 ? sim_now() : agent->stalled_ns;
        fiber_stop(&agent->fiber, for_ns);
    }
    for (uint32_t i = 0; i < world.process_count; i++) {
        if (world.processes[i].agent == agent && world.processes[i].alive) {
            fiber_stop(&world.processes[i].fiber, for_ns);
        }
    }
}

static void inject_processes(const struct faults *faults)
{
    struct sim_process *process = &world.processes[sim_draw(world.process_count)];
    if (sim_chance(faults->kill)) {
        process_kill(process, sim_draw(100) * SIM_MS);
    }
    if (sim_chance(faults->stop) && process->alive) {
        int64_t for_ns = draw_ns(faults->stop_ns_max);
        sim_tell("process %u is stopped for %lld us", process->index, (long long)for_ns / 1000);
        fiber_stop(&process->fiber, for_ns);
    }
    process->hung_up = process->hung_up || sim_chance(faults->hang_up);
    if (sim_chance(faults->cancel)) {
        process_cancel(process);
    }
    if (sim_chance(faults->disturb)) {
        fiber_disturb(&process->fiber);
    }
}

static void inject_agents(const struct faults *faults)
{
    struct sim_agent *agent = &world.agents[sim_draw(world.agent_count)];
    int64_t most_ns = sim_draw(2) == 0 ? faults->down_ns_max : 50 * SIM_MS;
    if (sim_chance(faults->crash)) {
        if (faults->orderly) {
            agent_stop(agent, draw_ns(most_ns));
        } else {
            agent_crash(agent, draw_ns(most_ns));
        }
    }
    if (sim_chance(faults->stall) && agent->up) {
        int64_t for_ns = draw_ns(faults->stop_ns_max);
        sim_tell("host %u: agent stands still for %lld us", agent->index, (long long)for_ns / 1000);
        agent->stalled_ns = agent->stalled_ns == 0 ? sim_now() : agent->stalled_ns;
        fiber_stop(&agent->fiber, for_ns);
    }
    if (sim_chance(faults->suspend)) {
        suspend(agent, draw_ns(faults->stop_ns_max));
    }
    if (sim_chance(faults->reboot)) {
        faults_kill_all_of(agent);
        agent_reboot(agent, sim_draw(200) * SIM_MS);
    }
    if (sim_chance(faults->crash_all)) {
        crash_all(most_ns);
    }
    if (sim_chance(faults->drift)) {
        clock_drift(agent);
    }
    if (sim_chance(faults->spoil)) {
        region_spoil(agent);
    }
}

/* Simulates a host that lacks processor time: stops the agent for rests_ns, again and again, and
 * lets it run for runs_ns in between. The two times are drawn for each agent, and stay the same in
 * the whole run. */
static int64_t starve(struct sim_agent *agent)
{
    uint32_t what = AGENTS + 1 + agent->index;
    int64_t runs_ns = (10 + faults_draw_beside(what, 1, 50)) * SIM_MS;
    int64_t rests_ns = (100 + faults_draw_beside(what, 2, 450)) * SIM_MS;
    if (!world.run.starved && faults_draw_beside(what, 0, 4) == 0) {
        return INT64_MAX; /* this host has enough processor time */
    }
    if (agent->starves_ns <= sim_now()) {
        if (agent->up) {
            agent->stalled_ns = agent->stalled_ns == 0 ? sim_now() : agent->stalled_ns;
            fiber_stop(&agent->fiber, rests_ns);
        }
        agent->starves_ns = sim_now() + rests_ns + runs_ns;
    }
    return agent->starves_ns;
}

int64_t faults_starve(void)
{
    int64_t next_ns = INT64_MAX;
    for (uint32_t i = 0; (world.faults.starved || world.run.starved) && i < world.agent_count;
         i++) {
        int64_t at_ns = starve(&world.agents[i]);
        next_ns = at_ns < next_ns ? at_ns : next_ns;
    }
    return next_ns;
}

/* ---- disks that are lost or replaced by old copies ---- */

/* Returns whether this voter's store is lost, replaced or starting over. Then no second store must
 * be lost. */
static bool is_lost(const struct sim_agent *agent)
{
    return agent->store != STORE_GOOD || agent->disk.rejoin || agent->rejoins_ns != 0 ||
           (agent->undoes_ns != 0 && agent->old_store != STORE_GOOD);
}

/*
 * Returns whether the cell tolerates that a voter's store is lost now. It does not if another store
 * is lost, because the protocol does not promise to survive two losses at a time. It does not if
 * the cell has one or two voters, or may soon have so few. Then the remaining voter would have to
 * run on without a restart, and no change could be decided (docs/PROTOCOL.md, rule 26). A record
 * counts as chosen here as soon as one voter has accepted it.
 */
static bool tolerates_loss(void)
{
    const struct message_voters *records[2];
    uint32_t count = voters_in_use(records);
    bool few = false;
    for (uint32_t i = 0; i < count; i++) {
        few = few || records[i]->count < 3;
        for (uint32_t k = 0; k < records[i]->count; k++) {
            const struct sim_agent *agent = voters_agent(records[i], k);
            const struct quorum_change *row = &agent->disk.change;
            bool next = row->accepted != 0 && row->number == voters_newest()->number + 1;
            few = few || (next && row->voters.count < 3);
            if (is_lost(agent)) {
                return false;
            }
        }
    }
    return !few;
}

/* Returns whether each possible majority of answers has a voter that notices the fault. If the
 * store was replaced by `copy`, such a voter knows that the real store is newer. If the store was
 * lost (copy NULL), such a voter knows the real store. left: a voter counts, too, if its record is
 * newer than that of the copy, because it refuses votes under the copy's record. */
static bool are_knowing(const struct message_voters *record, const struct sim_agent *agent,
                        const struct disk *copy, bool left)
{
    uint32_t knowing = 0;
    uint32_t asked = record->count / 2; /* the number of answers that the voter needs for a
                                         * majority with itself */
    for (uint32_t i = 0; i < record->count; i++) {
        const struct sim_agent *other = voters_agent(record, i);
        const struct message_member *member = &other->disk.members[agent->index].member;
        const struct quorum_seen *seen = &other->disk.seen[agent->index];
        bool listed = memcmp(member->store_id, agent->disk.store_id, sizeof(member->store_id)) == 0;
        bool newer = memcmp(seen->store_id, agent->disk.store_id, sizeof(seen->store_id)) == 0 &&
                     copy != NULL && seen->commit > copy->commit;
        newer = newer || (left && other->disk.voters.number > copy->voters.number);
        knowing += other != agent && ((listed && copy == NULL) || newer);
    }
    return record->count > 1 && knowing >= record->count - asked;
}

/* Returns whether the cell would certainly notice that the voter lost its store (copy NULL), or got
 * an old copy of it. At its start the voter asks the other voters of the copy's record. If too few
 * voters know the real store, the old copy may pass for it. A copy that was made while the voter
 * was alone may also pass for it. The protocol cannot prevent that (DECISIONS.md), so the simulator
 * does not do it. The function also returns false if the cell does not tolerate a loss now. */
static bool found_out(const struct sim_agent *agent, const struct disk *copy)
{
    const struct message_voters *records[2];
    bool found = voters_is_used(agent) && tolerates_loss();
    for (uint32_t i = voters_in_use(records); i > 0; i--) {
        found = found && (!voters_has(records[i - 1], agent) ||
                          are_knowing(records[i - 1], agent, copy, false));
    }
    return found &&
           (copy == NULL || are_knowing(voters_numbered(copy->voters.number), agent, copy, true));
}

/* Keeps a copy of a disk, and later replaces the disk by the copy, but only if other voters would
 * notice that the copy is old. */
static void inject_copies(const struct faults *faults, struct sim_agent *agent)
{
    bool same = agent->copied && memcmp(agent->copy->store_id, agent->disk.store_id,
                                        sizeof(agent->disk.store_id)) == 0;
    if (same && agent->restores_ns <= sim_now() && found_out(agent, agent->copy) &&
        sim_draw(4) == 0) {
        agent_restore_disk(agent);
    } else if (!same && sim_chance(faults->restore)) {
        if (agent->copy == NULL) {
            agent->copy = malloc(sizeof(*agent->copy));
            HF_CHECK(agent->copy != NULL);
        }
        *agent->copy = agent->disk;
        agent->copied = true;
        agent->restores_ns = sim_now() + (sim_draw(2) == 0 ? 0 : draw_ns(8000 * SIM_MS));
    }
}

/* Returns whether the voter may start over without need. The protocol does not promise to survive a
 * start-over and a lost store at the same time. */
static bool may_mistake(const struct sim_agent *agent)
{
    const struct message_voters *records[2];
    bool lost = agent->disk.rejoin;
    bool changing = voters_newest()->count < 3;
    for (uint32_t i = voters_in_use(records); i > 0; i--) {
        const struct message_voters *record = records[i - 1];
        for (uint32_t k = 0; k < record->count; k++) {
            const struct sim_agent *other = voters_agent(record, k);
            lost = lost || other->store != STORE_GOOD || other->rejoins_ns != 0 ||
                   (other->undoes_ns != 0 && other->old_store != STORE_GOOD);
            changing = changing || (world.faults.change != 0 && other->disk.change.accepted != 0);
        }
        changing = changing || !record->complete;
    }
    return !lost && !changing;
}

static void inject_disks(const struct faults *faults)
{
    uint32_t drawn = sim_draw(voters_newest()->count);
    struct sim_agent *agent = voters_agent(voters_newest(), drawn);
    if (recovery_is_planned()) {
        return;
    }
    inject_copies(faults, agent);
    /* Kills the agent in some of its starts with an old copy. The commits of these starts must not
     * make an old copy look as new as the lost store. */
    if (agent->starts_again > 0 && agent->up && sim_draw(8) == 0) {
        agent->starts_again--;
        agent_crash(agent, sim_draw(20) * SIM_MS);
    }
    if (sim_chance(faults->lose) && found_out(agent, NULL)) {
        agent_lose_disk(agent);
    }
    /* Lets voters start over without need, and perhaps several at the same time. A voter that
     * cannot finish gets its old store back. */
    if (sim_chance(faults->mistake) && may_mistake(agent)) {
        agent_rejoin_by_mistake(agent);
    }
}

/* For some seconds all processes close their handles and rest. So all names are deleted, and used
 * again later. Sometimes all agents are killed in the last second: then only the disks still tell
 * which tokens were used. */
static void inject_rest(const struct faults *faults)
{
    if (!faults->rest) {
        return;
    }
    if (world.rests_until_ns < sim_now() && sim_chance(2000)) {
        world.rests_until_ns = sim_now() + (2000 + sim_draw(6000)) * SIM_MS;
    }
    if (world.rests_until_ns - sim_now() < 1000 * SIM_MS && world.rests_until_ns > sim_now() &&
        sim_chance(100)) {
        crash_all(200 * SIM_MS);
    }
}

void faults_inject(void)
{
    const struct faults *faults = &world.faults;
    inject_rest(faults);
    inject_processes(faults);
    inject_agents(faults);
    inject_disks(faults);
    if (sim_chance(faults->change)) {
        voters_inject();
    }
    if (sim_chance(faults->recover)) {
        recovery_inject();
    }
    if (sim_chance(faults->cut)) {
        net_cut();
    }
    if (sim_chance(faults->reset)) {
        net_break();
    }
}

int64_t faults_start_due(void)
{
    int64_t next_ns = recovery_due();
    for (uint32_t i = 0; i < world.agent_count; i++) {
        struct sim_agent *agent = &world.agents[i];
        if (agent->rejoins_ns != 0 && agent->rejoins_ns <= sim_now()) {
            if (!voters_is_used(agent)) {
                agent->rejoins_ns = 0; /* its voter was removed meanwhile */
            } else if (world.faults.mistake != 0 && sim_draw(4) != 0) {
                agent_rejoin_by_mistake(agent);
            } else {
                agent_rejoin(agent);
            }
        } else if (agent->rejoins_ns != 0) {
            next_ns = agent->rejoins_ns < next_ns ? agent->rejoins_ns : next_ns;
        }
        if (agent->undoes_ns != 0 && agent->undoes_ns <= sim_now()) {
            agent_undo_rejoin(agent);
        } else if (agent->undoes_ns != 0) {
            next_ns = agent->undoes_ns < next_ns ? agent->undoes_ns : next_ns;
        }
        if (!agent->up && agent->starts_ns <= sim_now()) {
            agent_start(agent);
        } else if (!agent->up) {
            next_ns = agent->starts_ns < next_ns ? agent->starts_ns : next_ns;
        }
    }
    for (uint32_t i = 0; i < world.process_count; i++) {
        struct sim_process *process = &world.processes[i];
        if (!process->alive && process->starts_ns <= sim_now()) {
            process_start(process);
        } else if (!process->alive) {
            next_ns = process->starts_ns < next_ns ? process->starts_ns : next_ns;
        }
    }
    return next_ns;
}

/* ---- the end of all faults ---- */

void faults_heal(void)
{
    int64_t delay_ns = world.faults.delay_ns_max;
    sim_tell("everything heals");
    recovery_heal();
    world.healing = true;
    world.healed_ns = sim_now();
    /* A cell whose tokens are soon used up has no rolling restart: a host gives a lock's grant back
     * if its slot is used up, and requests the lock anew, which changes the order. */
    world.rolling = world.faults.rolling && !world.faults.high_tokens;
    world.orderly = world.faults.orderly;
    world.faults = (struct faults){.delay_ns_max = delay_ns};
    net_heal();
    for (uint32_t i = 0; i < world.process_count; i++) {
        struct sim_process *process = &world.processes[i];
        process->fiber.resumes_ns = sim_now();
        process->starts_ns = sim_now();
        for (uint32_t k = 0; k < HANDLES; k++) {
            process->handles[k].served = false;
        }
        process_cancel(process);
    }
    for (uint32_t i = 0; i < world.agent_count; i++) {
        struct sim_agent *agent = &world.agents[i];
        agent->fiber.resumes_ns = sim_now();
        agent->starts_ns = sim_now();
        agent->rejoins_ns = agent->rejoins_ns == 0 ? 0 : sim_now() + 1000 * SIM_MS;
        agent->undoes_ns = agent->undoes_ns == 0 ? 0 : sim_now() + 1000 * SIM_MS;
    }
}
