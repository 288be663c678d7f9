/* Work on the store of an agent that is stopped: see recover.h. */
#include "run/recover.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "fail.h"
#include "run/alive.h"
#include "run/record.h"
#include "run/start.h"

/* A recovery begins this many rounds above the highest round that the store knows. The lost voters
 * may have used rounds that the store does not know, but far fewer than this: each take-over of a
 * partition uses one. */
enum { ROUNDS_SKIPPED = 1 << 24 };

/* Opens the folders, and the store, which may be a backup. */
static int open_store(struct agent *agent, struct store_identity *identity)
{
    char path[PATH_MAX + 32];
    char error[STORE_ERROR_MAX];
    int code = agent_open_folders(agent);
    if (code != AGENT_EXIT_OK) {
        return code;
    }
    snprintf(path, sizeof(path), "%s/holdfast.db", agent->config.state_dir);
    if (access(path, F_OK) != 0) {
        return agent_fail(agent, AGENT_EXIT_UNAVAILABLE, "%s: %s", path, strerror(errno));
    }
    agent_store_identity(agent, identity);
    identity->takes_backup = true;
    agent->store = store_open(path, identity, &agent->meta, error);
    if (agent->store == NULL) {
        return agent_fail(agent, agent->meta.foreign ? AGENT_EXIT_CONFIG : AGENT_EXIT_SOFTWARE,
                          "%s", error);
    }
    if (agent->meta.session_epoch > identity->epoch) {
        identity->epoch = agent->meta.session_epoch;
    }
    return AGENT_EXIT_OK;
}

/* ---- Starting over ---- */

typedef bool replace_fn(const char *path, const struct store_identity *identity, char *kept,
                        char *error);

static int replace_store(struct agent *agent, replace_fn *replace, char *kept)
{
    char path[PATH_MAX + 32];
    char error[STORE_ERROR_MAX];
    struct store_identity identity;
    if (agent->config.observer) {
        return agent_fail(
            agent, AGENT_EXIT_CONFIG,
            "%s has the role observer: an observer does not vote, so it has nothing to start "
            "over with. If `holdfast member` on another host shows it as a voter, write "
            "role = voter into its file first",
            agent->config.agent);
    }
    if (agent->config.voter_count <= 1) {
        return agent_fail(agent, AGENT_EXIT_CONFIG,
                          "%s is the only voter of its cell: nobody else has what its store has",
                          agent->config.agent);
    }
    int code = agent_open_folders(agent);
    if (code != AGENT_EXIT_OK) {
        return code;
    }
    agent_store_identity(agent, &identity);
    snprintf(path, sizeof(path), "%s/holdfast.db", agent->config.state_dir);
    if (!replace(path, &identity, kept, error)) {
        return agent_fail(agent, AGENT_EXIT_SOFTWARE, "%s", error);
    }
    return AGENT_EXIT_OK;
}

int agent_start_over(struct agent *agent, char *kept)
{
    return replace_store(agent, store_start_over, kept);
}

int agent_undo_start_over(struct agent *agent, char *kept)
{
    return replace_store(agent, store_undo_start_over, kept);
}

/* ---- Recovery ---- */

/* Checks that a recovery with this store makes sense. */
static int check(struct agent *agent, const struct store_survey *survey)
{
    const struct message_voters *record = &agent->record;
    const char *path = agent->config.state_dir;
    if (agent->host_config.self == HOST_OBSERVER) {
        return agent_fail(agent, AGENT_EXIT_CONFIG,
                          "%s is no voter of record %" PRIu32
                          ": its store does not have what a cell needs; use the store of a voter",
                          agent->config.agent, record->number);
    }
    if (record->count == 1 && !agent->meta.backup) {
        return agent_fail(
            agent, AGENT_EXIT_CONFIG,
            "%s is the only voter of its cell, and has its store: there is nothing to "
            "recover%s; start its agent",
            agent->config.agent, agent->meta.recovery_wait_ms != 0 ? " any more" : "");
    }
    if (agent->meta.rejoin || !survey->voted) {
        return agent_fail(
            agent, AGENT_EXIT_CONFIG,
            "%s/holdfast.db: has never voted%s: the cell cannot begin anew with it", path,
            agent->meta.rejoin ? ", because it is starting over (its old store is kept "
                                 "beside it: holdfast member rejoin --undo)"
                               : "");
    }
    return AGENT_EXIT_OK;
}

/* Fills in the state with which the cell begins anew. */
static int plan(struct agent *agent, const struct store_survey *survey,
                struct store_recovery *recovery)
{
    const struct message_voters *record = &agent->record;
    struct message_voters *voters = &recovery->voters;
    struct message_rules rules;
    struct message_rules stored;
    bool found = false;
    uint64_t generation = survey->generation > record->recoveries ? survey->generation
                                                                  : record->recoveries;
    memset(recovery, 0, sizeof(*recovery));
    if (generation + 1 >= MESSAGE_RECOVERIES_LIMIT ||
        survey->round > UINT32_MAX - 2 * (uint32_t)ROUNDS_SKIPPED) {
        return agent_fail(
            agent, AGENT_EXIT_CONFIG,
            "this cell was recovered %u times, and no cell can be recovered more often: begin "
            "another cell",
            MESSAGE_RECOVERIES_LIMIT - 1);
    }
    rules = (struct message_rules){.session_ttl_ns = agent->config.session_ttl_ns,
                                   .grace_ns = agent->config.grace_ns,
                                   .max_drift_percent = agent->config.max_drift_percent};
    if (!store_rules(agent->store, &stored, &found)) {
        return agent_fail(agent, AGENT_EXIT_SOFTWARE, "%s", store_error(agent->store));
    }
    /* Earlier sessions may have had longer durations than those in the present configuration. */
    if (found && stored.session_ttl_ns > rules.session_ttl_ns) {
        rules.session_ttl_ns = stored.session_ttl_ns;
    }
    if (found && stored.grace_ns > rules.grace_ns) {
        rules.grace_ns = stored.grace_ns;
    }
    if (found && stored.max_drift_percent > rules.max_drift_percent) {
        rules.max_drift_percent = stored.max_drift_percent;
    }
    voters->cell_id[0] = record->cell_id[0];
    voters->cell_id[1] = record->cell_id[1];
    voters->recoveries = (uint32_t)generation + 1;
    voters->number = message_voters_first(voters->recoveries);
    voters->next_ballot_id = record->next_ballot_id;
    voters->complete = true;
    voters->act = MESSAGE_MEMBER_ADD;
    voters->changed = agent->host_config.agent;
    voters->count = 1;
    voters->of[0] = record->of[agent->host_config.self];
    recovery->generation = generation + 1;
    recovery->round = survey->round + ROUNDS_SKIPPED;
    recovery->wait_ms = (uint32_t)((quorum_recovery_wait_ns(&rules) + 999999) / 1000000);
    if (voters->number <= record->number) {
        return agent_fail(agent, AGENT_EXIT_CONFIG,
                          "record %" PRIu32 " leaves no number for another", record->number);
    }
    return AGENT_EXIT_OK;
}

static void print_voters(const struct agent *agent, const char *between, bool self)
{
    bool any = false;
    for (uint32_t i = 0; i < agent->record.count; i++) {
        const struct message_agent *name = &agent->record.of[i].name;
        if (self || i != agent->host_config.self) {
            printf("%s%.*s", any ? between : "", (int)name->length, name->text);
            any = true;
        }
    }
}

/* Prints the last commit of that voter's store that this store has seen. */
static void print_seen(const struct message_agent *name, const struct store_survey *survey)
{
    for (uint32_t i = 0; i < survey->seen_count; i++) {
        const struct quorum_seen *seen = &survey->seen[i];
        if (memcmp(&seen->voter, name, sizeof(*name)) == 0) {
            printf("  %-12.*s after its commit %" PRIu64
                   ", the last commit that this store knows of\n",
                   (int)name->length, name->text, seen->commit);
            return;
        }
    }
    printf("  %-12.*s since an unknown time: this store knows of no commit of it\n",
           (int)name->length, name->text);
}

static void explain(const struct agent *agent, const struct store_survey *survey,
                    const struct store_recovery *recovery, const struct peers_asked *asked)
{
    const struct message_voters *record = &agent->record;
    printf("The cell %s begins anew with %s of %s, which becomes its only voter.\n\n",
           agent->config.cell, agent->meta.backup ? "a backup" : "the store", agent->config.agent);
    printf("Voters (record %" PRIu32 "): ", record->number);
    print_voters(agent, ", ", true);
    printf("\nThis store: commit %" PRIu64 ", %" PRIu64 " lock names, %" PRIu64
           " of them granted to a host\n",
           agent->meta.commit, survey->registers, survey->held);
    if (record->count > 1) {
        printf("\nWhat the other voters decided without this store is forgotten: which host holds "
               "which\nlock, and whether they changed the voters. The recovery loses what these "
               "voters decided:\n");
    }
    for (uint32_t i = 0; i < record->count; i++) {
        if (i != agent->host_config.self) {
            print_seen(&record->of[i].name, survey);
        }
    }
    alive_print(agent, asked);
    printf("\nDo this only if you are sure that the voters that were not reached do not run "
           "anywhere. Voters that\nrun follow this one as soon as they learn of it, and all their "
           "sessions and holds end.\n");
    printf("This is recovery %" PRIu32 " of the cell, as far as this store knows. If the cell was "
           "recovered\nafter this store was written, use a store from after that recovery.\n",
           recovery->voters.recoveries);
    printf("\nThis ends all sessions and all holds. No lock is granted in the first %" PRIu32
           " s after the agent's\nstart: until then a lock may still be held, or closed by a "
           "lock-delay. New tokens are higher\nthan all earlier ones. The other voters are refused "
           "for ever, with the stores that they have now.\n\n",
           (recovery->wait_ms + 999) / 1000);
}

/* Returns whether the operator has typed the cell's name. */
static bool confirmed(struct agent *agent, const char *cell)
{
    char typed[128];
    const char *name = cell;
    if (cell == NULL && isatty(STDIN_FILENO)) {
        printf("Type the name of the cell to do it: ");
        fflush(stdout);
        name = fgets(typed, sizeof(typed), stdin);
        if (name != NULL) {
            typed[strcspn(typed, "\r\n")] = '\0';
        }
    }
    fflush(stdout);
    if (name != NULL && strcmp(name, agent->config.cell) == 0) {
        return true;
    }
    if (name == NULL) {
        (void)agent_fail(
            agent, AGENT_EXIT_USAGE,
            "nothing was done: expected the name of the cell, typed on a terminal or as "
            "--recover=%s",
            agent->config.cell);
    } else {
        (void)agent_fail(
            agent, AGENT_EXIT_USAGE,
            "nothing was done: found the name \"%.64s\", expected that of the cell, \"%s\"", name,
            agent->config.cell);
    }
    return false;
}

int agent_recover(struct agent *agent, const char *cell)
{
    struct store_identity identity;
    struct store_survey survey;
    struct store_recovery recovery;
    struct peers_asked asked;
    char kept[STORE_KEPT_MAX];
    char error[STORE_ERROR_MAX];
    if (agent->config.observer) {
        return agent_fail(agent, AGENT_EXIT_CONFIG,
                          "%s is an observer: a cell begins anew with the store of a voter",
                          agent->config.agent);
    }
    int code = open_store(agent, &identity);
    if (code != AGENT_EXIT_OK) {
        return code;
    }
    agent->host_config.agent = identity.agent;
    agent->host_config.cell = identity.cell;
    code = record_begin(agent);
    if (code != AGENT_EXIT_OK) {
        return code;
    }
    if (!store_survey(agent->store, &agent->meta, &survey)) {
        return agent_fail(agent, AGENT_EXIT_SOFTWARE, "%s", store_error(agent->store));
    }
    code = check(agent, &survey);
    code = code == AGENT_EXIT_OK ? plan(agent, &survey, &recovery) : code;
    code = code == AGENT_EXIT_OK ? alive_check(agent, &asked) : code;
    if (code != AGENT_EXIT_OK) {
        return code;
    }
    explain(agent, &survey, &recovery, &asked);
    if (!confirmed(agent, cell)) {
        return AGENT_EXIT_USAGE;
    }
    struct store *old = agent->store;
    agent->store = NULL; /* store_recover() closes it */
    identity.takes_backup = false;
    if (!store_recover(old, &identity, &recovery, kept, error)) {
        return agent_fail(agent, AGENT_EXIT_SOFTWARE, "%s", error);
    }
    printf("the old store is now %s\n", kept);
    printf("the cell %s begins anew with %s: start its agent\n", agent->config.cell,
           agent->config.agent);
    return fflush(stdout) == 0 ? AGENT_EXIT_OK : AGENT_EXIT_SOFTWARE;
}

/* ---- Backup ---- */

static bool copy_all(struct agent *agent, const char *made, char *error)
{
    enum store_backup_result result = STORE_BACKUP_MORE;
    struct store_backup *backup = store_backup_open(agent->store, made, error);
    while (backup != NULL && result == STORE_BACKUP_MORE) { /* each step copies pages, so the loop
                                                             * ends */
        result = store_backup_step(backup, error);
    }
    store_backup_close(backup);
    return backup != NULL && result == STORE_BACKUP_DONE;
}

int agent_back_up(struct agent *agent, const char *path, bool force, struct store_copied *copied)
{
    char made[PATH_MAX];
    char error[STORE_ERROR_MAX];
    struct store_identity identity;
    int code = open_store(agent, &identity);
    if (code != AGENT_EXIT_OK) {
        return code;
    }
    if (agent->meta.backup) {
        return agent_fail(agent, AGENT_EXIT_CONFIG,
                          "%s/holdfast.db: is itself a backup: copy the file",
                          agent->config.state_dir);
    }
    if (snprintf(made, sizeof(made), "%s.new-backup", path) >= (int)sizeof(made)) {
        return agent_fail(agent, AGENT_EXIT_UNAVAILABLE, "%.256s: %s", path,
                          strerror(ENAMETOOLONG));
    }
    if (!force && access(path, F_OK) == 0) {
        return agent_fail(agent, AGENT_EXIT_UNAVAILABLE,
                          "%.256s: exists, and is left as it is: expected a new file, or --force",
                          path);
    }
    store_backup_remove(made);
    if (!copy_all(agent, made, error) || !store_backup_check(made, &identity, copied, error)) {
        store_backup_remove(made);
        return agent_fail(agent, AGENT_EXIT_SOFTWARE, "%s", error);
    }
    if (!store_backup_place(made, path, force, error)) {
        store_backup_remove(made);
        return agent_fail(agent, AGENT_EXIT_SOFTWARE, "%s", error);
    }
    return AGENT_EXIT_OK;
}
