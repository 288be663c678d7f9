/*
 * A voter starts over (store_start_over): its database is replaced by an empty one. And how that is
 * taken back (store_undo_start_over).
 *
 * The new one is made complete and durable beside the old one. Then the old one gets a second name,
 * and the new one is renamed over the first: whoever is killed in between has either the old
 * database or the new one, never none. What belonged to a damaged one's log goes first; a readable
 * one has no log any more when it is closed.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "store_private.h"

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

/* What goes on from the old database. It is closed again, its log merged into it. */
static bool read_old(const char *path, struct store_identity *identity, char *error)
{
    bool damaged = false;
    struct store_meta meta;
    struct store *old = store_open_checked(path, identity, &meta, error, &damaged);
    if (old == NULL) {
        return damaged; /* its epoch is not known: identity->epoch has to do */
    }
    store_close(old);
    if (meta.session_epoch > identity->epoch) {
        identity->epoch = meta.session_epoch;
    }
    return true;
}

/* Removes what an attempt that was killed left behind. */
static bool clear(const char *path, char *error)
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

/* The first name that is free; false: there is none. */
static bool choose_kept(const char *path, char *kept)
{
    char log[STORE_KEPT_MAX + 8];
    for (uint32_t n = 1; n < REPLACED_MAX; n++) {
        snprintf(kept, STORE_KEPT_MAX, "%s.replaced-%u", path, n);
        snprintf(log, sizeof(log), "%s-wal", kept);
        if (!exists(kept) && !exists(log)) {
            return true;
        }
    }
    errno = EEXIST;
    return false;
}

/* The log of a damaged database, and its index. */
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

bool store_start_over(const char *path, const struct store_identity *identity, char *kept,
                      char *error)
{
    struct store_identity fresh = *identity;
    struct store_meta meta;
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
    snprintf(made, sizeof(made), "%s.new", path);
    if (!clear(made, error)) {
        return false;
    }
    struct store *store = store_open(made, &fresh, &meta, error);
    if (store == NULL) {
        return false;
    }
    store_close(store);
    if (old) {
        if (!choose_kept(path, kept) || link(path, kept) != 0) {
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

/* ---- taking it back ---- */

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

/* Whether the database is one that starts over and that no other voter knows: it has no line of its
 * own in the record (core/quorum/rejoin.c: LEARN). */
static bool is_unknown_yet(const char *path, const struct store_identity *identity,
                           struct store_meta *meta, char *error)
{
    struct own_line own = {.agent = &identity->agent};
    struct store_reader reader = {.arg = &own, .member = see_member};
    if (!exists(path)) {
        return say(error, path, "there is none");
    }
    struct store *store = store_open(path, identity, meta, error);
    if (store == NULL) {
        return false;
    }
    bool unknown = false;
    if (!meta->rejoin) {
        snprintf(error, STORE_ERROR_MAX,
                 "%.256s: does not start over, or is done with it: there is nothing to take back",
                 path);
    } else if (!store_load(store, &reader)) {
        snprintf(error, STORE_ERROR_MAX, "%s", store_error(store));
    } else if (own.found) {
        snprintf(error, STORE_ERROR_MAX,
                 "%.256s: other voters know of it already, and would refuse the old one: start the "
                 "agent, it goes on when more than half of all voters beside it vote",
                 path);
    } else {
        unknown = true;
    }
    store_close(store);
    return unknown;
}

static bool is_before(const struct timespec *a, const struct timespec *b)
{
    return a->tv_sec < b->tv_sec || (a->tv_sec == b->tv_sec && a->tv_nsec < b->tv_nsec);
}

/* Of those whose names changed before that moment, the last: when it was kept, or the next one put
 * into its place. *moment gets to be its own. */
static bool find_kept(const char *path, struct timespec *moment, char *kept)
{
    char name[STORE_KEPT_MAX];
    struct stat status;
    struct timespec last = {.tv_sec = 0};
    for (uint32_t n = 1; n < REPLACED_MAX; n++) {
        snprintf(name, sizeof(name), "%s.replaced-%u", path, n);
        if (lstat(name, &status) == 0 && is_before(&status.st_ctim, moment) &&
            is_before(&last, &status.st_ctim)) {
            last = status.st_ctim;
            memcpy(kept, name, sizeof(name));
        }
    }
    *moment = last;
    return last.tv_sec != 0;
}

/* Opens it. One that only began to start over itself is passed by. */
static struct store *open_kept(const char *path, const struct store_identity *identity,
                               struct store_meta *meta, char *kept, char *error)
{
    struct timespec moment = {.tv_sec = INT64_MAX};
    while (find_kept(path, &moment, kept)) {
        struct store *store = store_open(kept, identity, meta, error);
        if (store == NULL || !meta->rejoin) {
            return store;
        }
        store_close(store);
    }
    snprintf(error, STORE_ERROR_MAX,
             "%.256s.replaced-N: there is none: what this voter had is not kept here", path);
    return NULL;
}

/* The session of before ends: an agent that ran since may have made lifelines of its own. */
static bool end_session(struct store *store, uint32_t epoch)
{
    uint64_t commit;
    uint32_t next = epoch < MESSAGE_EPOCH_LIMIT - 1 ? epoch + 1 : epoch;
    return store_begin(store) && store_put_session_epoch(store, next) &&
           store_commit(store, &commit);
}

bool store_undo_start_over(const char *path, const struct store_identity *identity, char *kept,
                           char *error)
{
    struct store_meta fresh;
    struct store_meta meta;
    if (strlen(path) + 32 > STORE_KEPT_MAX) {
        errno = ENAMETOOLONG;
        return say(error, path, "cannot be put back");
    }
    if (!is_unknown_yet(path, identity, &fresh, error)) {
        return false;
    }
    struct store *store = open_kept(path, identity, &meta, kept, error);
    if (store == NULL) {
        return false;
    }
    uint32_t epoch = meta.session_epoch > fresh.session_epoch ? meta.session_epoch
                                                              : fresh.session_epoch;
    bool ended = end_session(store, epoch);
    if (!ended) {
        snprintf(error, STORE_ERROR_MAX, "%s", store_error(store));
    }
    store_close(store);
    if (!ended) {
        return false;
    }
    if (rename(kept, path) != 0) {
        return say(error, kept, "cannot be put back");
    }
    return store_sync_folder(path) || say(error, path, "its folder cannot be made durable");
}
