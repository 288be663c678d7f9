/* See torture.h: one round, from a new cell to the check of its record and its stores. */
#include "torture.h"

#include "require.h"

#include <fcntl.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

enum { DRIFT_PPM_MAX = 99000, PAUSE_MS_MIN = 50, PAUSE_MS_MAX = 900, HOLDS_AFTER = 5 };
/* A busy machine delays agents by most of a second. Such a delay must not end every session. */
enum { TTL_MS = 3000, GRACE_MS = 2000, SERVED_MS = 60000 };

/* Chooses how often each kind of fault comes. Some kinds do not come at all, so that a frequent
 * kind cannot hide the defects that others would show. */
static void choose_weights(struct torture *torture)
{
    static const unsigned usual[TORTURE_FAULTS] = {
        [TORTURE_KILL] = 8,        [TORTURE_TERMINATE] = 4,   [TORTURE_STOP] = 6,
        [TORTURE_KILL_WORKER] = 8, [TORTURE_STOP_WORKER] = 6, [TORTURE_ISOLATE] = 5,
        [TORTURE_ONE_WAY] = 4,     [TORTURE_LOSE] = 3,        [TORTURE_SLOW_LINKS] = 3,
        [TORTURE_ROUGH_LINKS] = 4, [TORTURE_ALTER] = 6,       [TORTURE_STALL_DISK] = 5,
        [TORTURE_SLOW_DISK] = 3,   [TORTURE_FLUSH_ERROR] = 3, [TORTURE_WRITE_ERROR] = 2,
        [TORTURE_FULL_DISK] = 2,   [TORTURE_NO_MEMORY] = 3,   [TORTURE_NO_FILES] = 3,
        [TORTURE_KILL_ALL] = 2,    [TORTURE_ROLL] = 1,        [TORTURE_UPGRADE] = 1,
        [TORTURE_MEMBERS] = 6,
    };
    for (unsigned i = 0; i < TORTURE_FAULTS; i++) {
        torture->weights[i] = torture_draw(torture, 4) == 0 ? 0 : usual[i];
    }
    torture->weights[TORTURE_ALTER] = torture->tls ? usual[TORTURE_ALTER] : 0;
    /* this kind always remains */
    torture->weights[TORTURE_KILL_WORKER] = usual[TORTURE_KILL_WORKER];
    for (unsigned i = 0; torture->plan->only != 0 && i < TORTURE_FAULTS; i++) {
        torture->weights[i] = torture->plan->only >> i & 1 ? usual[i] : 0;
    }
    unsigned minority = (torture->cell.voters - 1) / 2;
    torture->hurt_max = torture_draw(torture, 3) == 0 ? torture->cell.hosts : minority;
}

/* Gives each host a clock rate of its own in half of the rounds. */
static void choose_clocks(struct torture *torture)
{
    uint32_t only = torture->plan->only;
    if (torture_draw(torture, 2) == 0 || (only != 0 && !(only >> TORTURE_CLOCK & 1))) {
        return;
    }
    for (unsigned i = 0; i < torture->cell.hosts; i++) {
        struct faults_host *clock = &torture->faults->hosts[i];
        clock->base_ns = boottime_now();
        clock->rate_ppm = (int64_t)torture_draw(torture, 2 * DRIFT_PPM_MAX + 1) - DRIFT_PPM_MAX;
        torture_tell(torture, "the clock of host %u is %+.1f %% off", i,
                     (double)clock->rate_ppm / 10000);
        atomic_fetch_add(&torture->plan->totals->faults[TORTURE_CLOCK], 1);
    }
}

/* Gives the agents TLS in a third of the rounds. */
static void choose_tls(struct torture *torture)
{
    torture->tls = torture_draw(torture, 3) == 0;
    if (torture->tls) {
        cell_certify(torture->plan->folder);
        cell_options.tls = torture->plan->folder;
        torture_tell(torture, "TLS between agents");
    }
}

static void begin(struct torture *torture)
{
    static char history_path[96];
    char path[96];
    const struct torture_plan *plan = torture->plan;
    static char faults_path[96];
    unsigned voters = plan->voters != 0 ? plan->voters : 3 + 2 * torture_draw(torture, 2);
    unsigned observers = 1 + torture_draw(torture, 2);
    snprintf(faults_path, sizeof(faults_path), "%s/faults", plan->folder);
    snprintf(torture->program, sizeof(torture->program), "%s/holdfastd", plan->folder);
    torture->faults = faults_create(faults_path);
    REQUIRE(torture->faults, "%s", faults_path);
    torture_install(torture);
    cell_options = (struct cell_options){.ttl_ms = TTL_MS, .grace_ms = GRACE_MS};
    choose_tls(torture);
    cell_make(&torture->cell, voters, observers);
    torture->change.voters = (1U << voters) - 1;
    choose_weights(torture);
    choose_clocks(torture);
    torture_tell(torture, "%u voters, %u observers, at most %u of them in trouble at once", voters,
                 observers, torture->hurt_max);
    for (unsigned i = 0; i < torture->cell.hosts; i++) {
        torture->cell.agents[i].program = torture->program;
        torture->cell.agents[i].faults = faults_path;
        torture->cell.agents[i].host = i;
        snprintf(path, sizeof(path), "%s/host-%c", plan->folder, 'a' + (int)i);
        REQUIRE(symlink(torture->cell.agents[i].folder, path) == 0, "%s", path);
    }
    cell_launch(&torture->cell);
    cell_await(&torture->cell);
    snprintf(history_path, sizeof(history_path), "%s/history", plan->folder);
    const struct crowd_plan crowd = {.workers_per_host = 2,
                                     .locks = 6 + torture_draw(torture, 10),
                                     .shared_percent = 25,
                                     .lock_delay_ms = 20 + torture_draw(torture, 200),
                                     .hold_ms = 30,
                                     .long_ms = 4000, /* some holds are longer than a lease */
                                     .seed = plan->seed,
                                     .faults = torture->faults,
                                     .history_path = history_path,
                                     .guard_ms = SERVED_MS,
                                     .starved = true};
    crowd_start(&torture->crowd, &torture->cell, &crowd);
}

/* Sends SIGTERM to all agents, and checks that they end and that their stores are intact. */
static void look_at_stores(struct torture *torture)
{
    for (unsigned i = 0; i < torture->cell.hosts; i++) {
        struct agent_process *agent = &torture->cell.agents[i];
        char path[128];
        sqlite3 *database = NULL;
        sqlite3_stmt *statement = NULL;
        int status = agent_stop(agent);
        REQUIRE(status == 0, "the agent of host %u ended with %x", i, (unsigned)status);
        REQUIRE(!agent_logged(agent, "event=bug"), "the agent of host %u logged a bug: %s", i,
                agent->log);
        snprintf(path, sizeof(path), "%s/state/holdfast.db", agent->folder);
        bool whole = sqlite3_open(path, &database) == SQLITE_OK &&
                     sqlite3_prepare_v2(database, "PRAGMA integrity_check", -1, &statement, NULL) ==
                         SQLITE_OK &&
                     sqlite3_step(statement) == SQLITE_ROW &&
                     strcmp((const char *)sqlite3_column_text(statement, 0), "ok") == 0;
        REQUIRE(whole, "%s is damaged: %s", path,
                statement ? (const char *)sqlite3_column_text(statement, 0)
                          : sqlite3_errmsg(database));
        sqlite3_finalize(statement);
        sqlite3_close(database);
    }
}

static void raise_to(_Atomic int64_t *highest, int64_t value)
{
    if (atomic_load(highest) < value) { /* no other process writes, because rounds do not overlap */
        atomic_store(highest, value);
    }
}

static void add_up(struct torture *torture)
{
    struct torture_totals *totals = torture->plan->totals;
    const struct crowd_result *result = &torture->crowd.result;
    const struct relay_counts *counts = torture->cell.network.rough.counts;
    atomic_fetch_add(&totals->holds, result->holds);
    atomic_fetch_add(&totals->lost, result->lost);
    atomic_fetch_add(&totals->gave_up, result->gave_up);
    raise_to(&totals->longest_wait_ns, result->longest_wait_ns);
    for (unsigned i = 0; i < torture->cell.hosts; i++) {
        const struct faults_host *disk = &torture->faults->hosts[i];
        atomic_fetch_add(&totals->flushes, atomic_load(&disk->flushes));
        atomic_fetch_add(&totals->slow_flushes, atomic_load(&disk->slow));
        atomic_fetch_add(&totals->failed_writes, atomic_load(&disk->failed));
    }
    atomic_fetch_add(&totals->packets.frames, atomic_load(&counts->frames));
    atomic_fetch_add(&totals->packets.lost, atomic_load(&counts->lost));
    atomic_fetch_add(&totals->packets.doubled, atomic_load(&counts->doubled));
    atomic_fetch_add(&totals->packets.late, atomic_load(&counts->late));
    atomic_fetch_add(&totals->packets.corrupted, atomic_load(&counts->corrupted));
    atomic_fetch_add(&totals->packets.altered, atomic_load(&counts->altered));
    atomic_fetch_add(&totals->packets.reset, atomic_load(&counts->reset));
}

void torture_round(const struct torture_plan *plan)
{
    static struct torture torture;
    torture = (struct torture){.plan = plan, .random = plan->seed * 0x9e3779b97f4a7c15 | 1};
    begin(&torture);
    int64_t end_ns = boottime_now() + plan->duration_s * 1000 * MS;
    while (boottime_now() < end_ns) {
        torture_disturb(&torture);
        crowd_look(&torture.crowd);
        sleep_ms(PAUSE_MS_MIN + torture_draw(&torture, PAUSE_MS_MAX));
    }
    torture_tell(&torture, "the end: all is well");
    torture_heal(&torture);
    torture_settle(&torture);
    int64_t healed_ns = boottime_now();
    crowd_await_all(&torture.crowd, HOLDS_AFTER);
    torture_tell(&torture, "everybody is served");
    raise_to(&plan->totals->healing_ns, boottime_now() - healed_ns);
    crowd_finish(&torture.crowd, "the round");
    add_up(&torture);
    torture_reap(&torture);
    look_at_stores(&torture);
    cell_stop(&torture.cell);
    exit(0);
}
