/*
 * A voter starts over (store_start_over): its database is replaced by an empty one.
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
