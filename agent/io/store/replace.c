/*
 * A voter starts over: store_start_over() replaces its database by an empty one, and
 * store_undo_start_over() takes that back.
 *
 * The new database is made complete and durable beside the old one. Then the old one gets a second
 * name, and the new one is renamed over the first name. So a process that is killed in between
 * leaves either the old database or the new one under the first name, never none. The log of a
 * damaged database is renamed first. A database that can be read leaves no log when it is closed.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "private.h"

enum { REPLACED_MAX = 10000 };

static bool exists(const char *path)
{
    struct stat status;
    return lstat(path, &status) == 0 || errno != ENOENT;
}

static bool say(char *error, const char *path, const char *what)
{
    snprintf(error, STORE_ERROR_MAX, "%.256s: %s: %s", path, what, strerror(errno));
    return false;
}

/* Reads from the old database which epoch, id and record of voters the new one needs. Then closes
 * the old database; SQLite merges the log into the database when it closes it. */
static bool read_old(const char *path, struct store_identity *identity, char *error)
{
    bool damaged = false;
    struct store_meta meta;
    struct store *old = store_open_checked(path, identity, &meta, error, &damaged);
    if (old == NULL) {
        return damaged; /* the epoch cannot be read, so identity->epoch is used */
    }
    bool found = false;
    if (!store_voters(old, &identity->voters, &found) || !found) {
        identity->voters.number = 0; /* the other voters send the record */
    }
    store_close(old);
    memcpy(identity->kept_id, meta.store_id, sizeof(identity->kept_id));
    if (meta.session_epoch > identity->epoch) {
        identity->epoch = meta.session_epoch;
    }
    return true;
}

/* Removes the files that a killed attempt left behind. */
bool store_clear(const char *path, char *error)
{
    static const char *const SUFFIX[] = {"", "-wal", "-shm", "-journal"};
    char name[STORE_KEPT_MAX];
    for (size_t i = 0; i < sizeof(SUFFIX) / sizeof(SUFFIX[0]); i++) {
        snprintf(name, sizeof(name), "%s%s", path, SUFFIX[i]);
        if (unlink(name) != 0 && errno != ENOENT) {
            return say(error, name, "cannot be removed");
        }
    }
    return true;
}

/* Returns the first N for which PATH.replaced-N is free, and writes that path to kept; 0 if there
 * is none. */
uint32_t store_choose_kept(const char *path, char *kept)
{
    char log[STORE_KEPT_MAX + 8];
    for (uint32_t n = 1; n < REPLACED_MAX; n++) {
        snprintf(kept, STORE_KEPT_MAX, "%s.replaced-%u", path, n);
        snprintf(log, sizeof(log), "%s-wal", kept);
        if (!exists(kept) && !exists(log)) {
            return n;
        }
    }
    errno = EEXIST;
    return 0;
}

/* Renames the log of a damaged database, and the log's index. */
static bool keep_log(const char *path, const char *kept, char *error)
{
    static const char *const SUFFIX[] = {"-wal", "-shm"};
    char from[STORE_KEPT_MAX + 8];
    char to[STORE_KEPT_MAX + 8];
    for (size_t i = 0; i < sizeof(SUFFIX) / sizeof(SUFFIX[0]); i++) {
        snprintf(from, sizeof(from), "%s%s", path, SUFFIX[i]);
        snprintf(to, sizeof(to), "%s%s", kept, SUFFIX[i]);
        if (rename(from, to) != 0 && errno != ENOENT) {
            return say(error, from, "cannot be renamed");
        }
    }
    return true;
}

bool store_put_in_place(const char *path, const char *made, char *kept, char *error)
{
    if (kept[0] != 0) {
        if (link(path, kept) != 0) {
            kept[0] = 0;
            return say(error, path, "cannot be kept under another name");
        }
        if (!keep_log(path, kept, error)) {
            return false;
        }
    }
    if (rename(made, path) != 0) {
        return say(error, path, "cannot be replaced");
    }
    return store_sync_folder(path) || say(error, path, "its folder cannot be made durable");
}

bool store_start_over(const char *path, const struct store_identity *identity, char *kept,
                      char *error)
{
    struct store_identity fresh = *identity;
    struct store_meta meta;
    fresh.takes_backup = true; /* only the epoch, the id and the record of voters of the old store
                                * are used */
    char made[STORE_KEPT_MAX];
    kept[0] = 0;
    if (strlen(path) + 32 > sizeof(made)) {
        errno = ENAMETOOLONG;
        return say(error, path, "cannot be replaced");
    }
    bool old = exists(path);
    if (old && !read_old(path, &fresh, error)) {
        return false;
    }
    fresh.rejoin = true;
    if (old) {
        fresh.kept = store_choose_kept(path, kept);
        if (fresh.kept == 0) {
            kept[0] = 0;
            return say(error, path, "cannot be kept under another name");
        }
    }
    snprintf(made, sizeof(made), "%s.new", path);
    if (!store_clear(made, error)) {
        return false;
    }
    struct store *store = store_open(made, &fresh, &meta, error);
    if (store == NULL) {
        return false;
    }
    store_close(store);
    return store_put_in_place(path, made, kept, error);
}

/* ---- putting the old store back ---- */

struct own_line {
    const struct message_agent *agent;
    bool found;
};

static bool see_member(void *arg, const struct quorum_member *row)
{
    struct own_line *own = arg;
    own->found = own->found || memcmp(&row->voter, own->agent, sizeof(row->voter)) == 0;
    return true;
}

/* The database that was replaced. */
struct replaced {
    uint32_t number; /* the N of PATH.replaced-N; 0: none */
    uint64_t id[2];
};

static bool find_replaced(struct store *store, struct replaced *out, char *error)
{
    bool done = store_kept(store, &out->number, out->id);
    if (!done) {
        snprintf(error, STORE_ERROR_MAX, "%s", store_error(store));
    }
    return done;
}

/* Returns whether no other voter knows of a database that starts over. In that case its record of
 * stores has no line for this voter (core/quorum/members_rejoin.c: LEARN). */
static bool is_unknown(struct store *store, const char *path, const struct store_identity *identity,
                       char *error)
{
    struct own_line own = {.agent = &identity->agent};
    struct store_reader reader = {.arg = &own, .member = see_member};
    if (!store_load(store, &reader)) {
        snprintf(error, STORE_ERROR_MAX, "%s", store_error(store));
        return false;
    }
    if (own.found) {
        snprintf(error, STORE_ERROR_MAX,
                 "%.256s: other voters know that it starts over, and would refuse the old store: "
                 "start the agent, which goes on when more than half of all voters vote without it",
                 path);
    }
    return !own.found;
}

/* Checks that the present database may be replaced, and reads which database the present one has
 * replaced. */
static bool look_at_fresh(const char *path, const struct store_identity *identity,
                          struct store_meta *meta, struct replaced *replaced, char *error)
{
    if (!exists(path)) {
        return say(error, path, "there is none");
    }
    struct store *store = store_open(path, identity, meta, error);
    if (store == NULL) {
        return false;
    }
    bool done = meta->rejoin && is_unknown(store, path, identity, error) &&
                find_replaced(store, replaced, error);
    if (!meta->rejoin) {
        snprintf(error, STORE_ERROR_MAX,
                 "%.256s: does not start over, or has done so already: there is nothing to undo",
                 path);
    }
    store_close(store);
    return done;
}

/* Opens the database that the present one replaced. If that database was itself starting over, and
 * no other voter knows of that, the search continues with the database that it had replaced. */
static struct store *open_kept(const char *path, const struct store_identity *identity,
                               struct replaced replaced, struct store_meta *meta, char *kept,
                               char *error)
{
    for (uint32_t tries = 0; tries < REPLACED_MAX && replaced.number != 0; tries++) {
        snprintf(kept, STORE_KEPT_MAX, "%s.replaced-%" PRIu32, path, replaced.number);
        if (!exists(kept)) {
            break;
        }
        struct store *store = store_open(kept, identity, meta, error);
        if (store == NULL) {
            return NULL;
        }
        if (memcmp(meta->store_id, replaced.id, sizeof(replaced.id)) != 0) {
            snprintf(error, STORE_ERROR_MAX, "%.256s: is not the store that was replaced", kept);
        } else if (!meta->rejoin) {
            return store;
        } else if (is_unknown(store, kept, identity, error) &&
                   find_replaced(store, &replaced, error)) {
            store_close(store);
            continue;
        }
        store_close(store);
        return NULL;
    }
    snprintf(error, STORE_ERROR_MAX,
             "%.256s.replaced-N: found none: the store that was replaced is not in this folder",
             path);
    return NULL;
}

/* Looks for the store's own row in `seen`. That row has the commit that the store had when an agent
 * opened it without voting. */
static bool see_opened(void *arg, const struct quorum_seen *row)
{
    struct own_line *own = arg;
    own->found = own->found ||
                 (memcmp(&row->voter, own->agent, sizeof(row->voter)) == 0 && row->commit != 0);
    return true;
}

/*
 * Ends the old store's session, because an agent that ran after the store was replaced may have
 * promised more. This makes a new commit, which must not make an old copy of the store look newer.
 * So the store's own row in `seen` keeps the commit that the store had before
 * (core/quorum/members_stores.c, members_keep_opened_commit).
 */
static bool end_session(struct store *store, const struct store_identity *identity,
                        const struct store_meta *meta, uint32_t epoch)
{
    uint64_t commit;
    struct own_line own = {.agent = &identity->agent};
    struct store_reader reader = {.arg = &own, .seen = see_opened};
    struct action opened = {.kind = ACTION_PERSIST_SEEN};
    uint32_t next = epoch < MESSAGE_EPOCH_LIMIT - 1 ? epoch + 1 : epoch;
    quorum_opened_row(&identity->agent, meta->store_id, meta->commit, &opened.as.seen);
    return store_load(store, &reader) && store_begin(store) &&
           (own.found || store_put_action(store, &opened)) &&
           store_put_session_epoch(store, next) && store_commit(store, &commit);
}

/* Returns whether there is a log beside the path. SQLite would read it as the log of any database
 * that gets that path. */
static bool has_log(const char *path, char *error)
{
    char log[STORE_KEPT_MAX + 8];
    snprintf(log, sizeof(log), "%s-wal", path);
    if (!exists(log)) {
        return false;
    }
    snprintf(error, STORE_ERROR_MAX, "%.256s: could not be merged into its database", log);
    return true;
}

bool store_undo_start_over(const char *path, const struct store_identity *identity, char *kept,
                           char *error)
{
    struct store_meta fresh;
    struct store_meta meta;
    struct replaced replaced;
    if (strlen(path) + 32 > STORE_KEPT_MAX) {
        errno = ENAMETOOLONG;
        return say(error, path, "cannot be put back");
    }
    if (!look_at_fresh(path, identity, &fresh, &replaced, error)) {
        return false;
    }
    struct store *store = open_kept(path, identity, replaced, &meta, kept, error);
    if (store == NULL) {
        return false;
    }
    uint32_t epoch = meta.session_epoch > fresh.session_epoch ? meta.session_epoch
                                                              : fresh.session_epoch;
    bool ended = end_session(store, identity, &meta, epoch);
    if (!ended) {
        snprintf(error, STORE_ERROR_MAX, "%s", store_error(store));
    }
    store_close(store);
    if (!ended || has_log(kept, error) || has_log(path, error)) {
        return false;
    }
    if (rename(kept, path) != 0) {
        return say(error, kept, "cannot be put back");
    }
    return store_sync_folder(path) || say(error, path, "its folder cannot be made durable");
}
