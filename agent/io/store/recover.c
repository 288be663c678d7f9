/*
 * How a cell begins anew with one store: see io/store.h and docs/PROTOCOL.md, "Recovery".
 *
 * The new database has no register. A name without a register means a free lock whose tokens begin
 * above the floor of its partition, and the floors are above every earlier token. So it does not
 * matter which registers the lost voters had. For each agent that the old database knows, the new
 * database has the highest epoch, as the mark of an ended session. So an agent whose own store is
 * lost can ask for its epoch.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "private.h"

static bool say(char *error, const char *path, const char *what)
{
    snprintf(error, STORE_ERROR_MAX, "%.256s: %s: %s", path, what, strerror(errno));
    return false;
}

/* ---- What the store has ---- */

static void see_token(struct store_survey *survey, uint64_t token)
{
    uint64_t generation = token / MESSAGE_TOKEN_GENERATION;
    survey->generation = generation > survey->generation ? generation : survey->generation;
}

static void see_ballot(struct store_survey *survey, uint64_t ballot)
{
    uint32_t round = (uint32_t)(ballot >> 16);
    survey->round = round > survey->round ? round : survey->round;
}

static bool survey_promise(void *arg, const struct quorum_promise *promise)
{
    struct store_survey *survey = arg;
    survey->voted = true;
    see_ballot(survey, promise->ballot);
    return true;
}

static bool survey_register(void *arg, const struct quorum_register *reg)
{
    struct store_survey *survey = arg;
    survey->voted = true;
    survey->registers++;
    survey->held += reg->value.mode != MESSAGE_MODE_NONE;
    see_ballot(survey, reg->accepted.ballot);
    /* If a name has used up its tokens, its token_first is the first token of the next generation,
     * which was never issued. */
    see_token(survey, reg->value.token_first > 0 ? reg->value.token_first - 1 : 0);
    see_token(survey, reg->value.token_last);
    return true;
}

static bool survey_checkpoint(void *arg, const struct quorum_checkpoint *row)
{
    struct store_survey *survey = arg;
    see_ballot(survey, row->checkpoint.order.ballot);
    see_token(survey, row->checkpoint.floor);
    return true;
}

static bool survey_member(void *arg, const struct quorum_member *row)
{
    (void)row;
    ((struct store_survey *)arg)->voted = true;
    return true;
}

static bool survey_seen(void *arg, const struct quorum_seen *row)
{
    struct store_survey *survey = arg;
    if (survey->seen_count < MESSAGE_VOTERS_MAX) {
        survey->seen[survey->seen_count++] = *row;
    }
    return true;
}

bool store_survey(struct store *store, const struct store_meta *meta, struct store_survey *survey)
{
    struct store_reader reader = {.arg = survey,
                                  .promise = survey_promise,
                                  .reg = survey_register,
                                  .checkpoint = survey_checkpoint,
                                  .member = survey_member,
                                  .seen = survey_seen};
    *survey = (struct store_survey){.round = meta->round};
    return store_load(store, &reader);
}

/* ---- The new store ---- */

/* The agents' epochs, in a temporary table of the new database. */
struct epochs {
    struct store *store;
    sqlite3_stmt *put;
};

static bool put_epoch(struct epochs *epochs, const struct message_agent *agent, uint32_t epoch)
{
    store_bind_text(epochs->put, 1, agent->text, agent->length);
    store_bind_number(epochs->put, 2, epoch);
    bool done = epoch == 0 || agent->length == 0 || sqlite3_step(epochs->put) == SQLITE_DONE;
    sqlite3_reset(epochs->put);
    sqlite3_clear_bindings(epochs->put);
    return done;
}

static bool take_mark(void *arg, const struct message_session *mark)
{
    return put_epoch(arg, &mark->agent, mark->epoch);
}

static bool take_register(void *arg, const struct quorum_register *reg)
{
    bool done = put_epoch(arg, &reg->value.owner, reg->value.epoch);
    for (uint32_t i = 0; i < reg->value.share_count; i++) {
        const struct message_share *share = &reg->value.shares[i];
        done = done && put_epoch(arg, &share->agent, share->epoch);
    }
    return done;
}

/* Puts a mark for each agent that the old store knows. Called within a batch. */
static bool put_marks(struct store *store, struct store *old, const struct store_identity *identity)
{
    static const char make[] = "CREATE TEMP TABLE known(agent TEXT, epoch INTEGER)";
    static const char put[] = "INSERT INTO temp.known(agent, epoch) VALUES(?1, ?2)";
    char merge[160];
    struct epochs epochs = {.store = store};
    struct store_reader reader = {.arg = &epochs, .mark = take_mark, .reg = take_register};
    snprintf(merge, sizeof(merge),
             "INSERT INTO mark(agent, epoch, in_commit) SELECT agent, max(epoch), %" PRIu64
             " FROM temp.known GROUP BY agent",
             store->commit);
    if (!store_run(store, make, "cannot be made")) {
        return false;
    }
    bool done = sqlite3_prepare_v2(store->database, put, -1, &epochs.put, NULL) == SQLITE_OK;
    done = done && put_epoch(&epochs, &identity->agent, identity->epoch);
    if (!done) {
        store_fail_sqlite(store, put);
    } else if (!store_load(old, &reader)) {
        done = store_fail(store, "%.256s", store_error(old));
    }
    sqlite3_finalize(epochs.put);
    return done && store_run(store, merge, "cannot be made") &&
           store_run(store, "DROP TABLE temp.known", "cannot be made");
}

static bool put_floors(struct store *store, const struct store_recovery *recovery)
{
    const struct message_voter *voter = &recovery->voters.of[0];
    struct action action = {.kind = ACTION_PERSIST_CHECKPOINT};
    struct message_checkpoint *checkpoint = &action.as.checkpoint.checkpoint;
    checkpoint->order.ballot = (uint64_t)recovery->round << 16 | voter->ballot_id;
    checkpoint->order.sequence = 1;
    checkpoint->floor = recovery->generation * MESSAGE_TOKEN_GENERATION;
    bool done = true;
    for (uint32_t p = 0; done && p < MESSAGE_PARTITIONS; p++) {
        action.as.checkpoint.partition = p;
        done = store_put_action(store, &action);
    }
    return done;
}

static bool put_wait(struct store *store, uint32_t wait_ms)
{
    sqlite3_stmt *statement = store->statements[PUT_META];
    store_bind_text(statement, 1, "recovery_wait_ms", strlen("recovery_wait_ms"));
    store_bind_number(statement, 2, wait_ms);
    store_bind_number(statement, 3, store->commit);
    return store_change(store, PUT_META);
}

static bool fill(struct store *store, struct store *old, const struct store_identity *identity,
                 const struct store_recovery *recovery)
{
    uint64_t commit;
    const struct action round = {.kind = ACTION_PERSIST_ROUND, .as.round = recovery->round};
    return store_begin(store) && put_marks(store, old, identity) && put_floors(store, recovery) &&
           store_put_action(store, &round) && store_put_voters(store, &recovery->voters) &&
           put_wait(store, recovery->wait_ms) && store_commit(store, &commit);
}

/* Makes the new database, complete and durable. */
static bool make(const char *made, struct store *old, const struct store_identity *identity,
                 struct store_recovery *recovery, char *error)
{
    struct store_meta meta;
    struct store *store = store_open(made, identity, &meta, error);
    if (store == NULL) {
        return false;
    }
    memcpy(recovery->voters.of[0].store_id, meta.store_id, sizeof(meta.store_id));
    bool done = fill(store, old, identity, recovery);
    if (!done) {
        snprintf(error, STORE_ERROR_MAX, "%s", store_error(store));
    }
    store_close(store);
    return done;
}

bool store_recover(struct store *old, const struct store_identity *identity,
                   struct store_recovery *recovery, char *kept, char *error)
{
    char path[STORE_KEPT_MAX];
    char made[STORE_KEPT_MAX + 8];
    snprintf(path, sizeof(path), "%s", old->path);
    snprintf(made, sizeof(made), "%s.new", path);
    kept[0] = 0;
    bool done = strlen(path) + 32 <= STORE_KEPT_MAX;
    if (!done) {
        errno = ENAMETOOLONG;
        say(error, path, "cannot be replaced");
    }
    done = done && store_clear(made, error) && make(made, old, identity, recovery, error);
    store_close(old);
    if (done && store_choose_kept(path, kept) == 0) {
        kept[0] = 0;
        done = say(error, path, "cannot be kept under another name");
    }
    return done && store_put_in_place(path, made, kept, error);
}
