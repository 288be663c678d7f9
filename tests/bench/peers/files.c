/*
 * flock(2) and the open file description locks of fcntl(2), which the kernel provides for the
 * processes of one host. A lock is a file, and its hold ends with its process. There is no server,
 * lease or token.
 *
 * These calls have no limit for their wait, so acquire() waits for ever unless its timeout is 0.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "kinds.h"

struct file_lock {
    int fd;
};

static int nothing_missing(char why[PEER_WHY_MAX])
{
    why[0] = '\0';
    return 0;
}

static int files_start(struct peer_run *run)
{
    (void)run; /* this peer needs nothing but the run's folder */
    return 0;
}

static void files_stop(struct peer_run *run)
{
    (void)run;
}

static int files_connect(struct peer_run *run, uint32_t host, void **out_client)
{
    (void)host;
    *out_client = run;
    return 0;
}

static void files_disconnect(void *client)
{
    (void)client;
}

static int files_open(void *client, const char *name, void **out_lock)
{
    const struct peer_run *run = client;
    char path[SERVER_PATH_MAX + PEER_NAME_MAX + 2];
    struct file_lock *lock = malloc(sizeof(*lock));
    snprintf(path, sizeof(path), "%s/%s", run->directory, name);
    if (lock != NULL) {
        lock->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    }
    if (lock == NULL || lock->fd < 0) {
        free(lock);
        return complain("%s: %s", path, strerror(errno));
    }
    *out_lock = lock;
    return 0;
}

static void files_close(void *lock)
{
    close(((struct file_lock *)lock)->fd);
    free(lock);
}

static int flock_acquire(void *lock, enum peer_mode mode, int64_t timeout_ns, uint64_t *out_token)
{
    int how = (mode == PEER_SHARED ? LOCK_SH : LOCK_EX) | (timeout_ns == 0 ? LOCK_NB : 0);
    *out_token = 0;
    while (flock(((struct file_lock *)lock)->fd, how) != 0) {
        if (errno == EWOULDBLOCK) {
            return PEER_NOT_IN_TIME;
        }
        if (errno != EINTR) {
            return complain("flock: %s", strerror(errno));
        }
    }
    return PEER_OK;
}

static int flock_release(void *lock)
{
    return flock(((struct file_lock *)lock)->fd, LOCK_UN) == 0
               ? PEER_OK
               : complain("flock: %s", strerror(errno));
}

static int ofd_acquire(void *lock, enum peer_mode mode, int64_t timeout_ns, uint64_t *out_token)
{
    struct flock range = {.l_type = mode == PEER_SHARED ? F_RDLCK : F_WRLCK, .l_whence = SEEK_SET};
    *out_token = 0;
    while (fcntl(((struct file_lock *)lock)->fd, timeout_ns == 0 ? F_OFD_SETLK : F_OFD_SETLKW,
                 &range) != 0) {
        if (errno == EAGAIN || errno == EACCES) {
            return PEER_NOT_IN_TIME;
        }
        if (errno != EINTR) {
            return complain("fcntl: %s", strerror(errno));
        }
    }
    return PEER_OK;
}

static int ofd_release(void *lock)
{
    struct flock range = {.l_type = F_UNLCK, .l_whence = SEEK_SET};
    return fcntl(((struct file_lock *)lock)->fd, F_OFD_SETLK, &range) == 0
               ? PEER_OK
               : complain("fcntl: %s", strerror(errno));
}

#define FILES                                                                                      \
    .durability = "none: dies with its process",                                                   \
    .fairness = "One host only. The kernel wakes its waiters.", .features = PEER_HAS_SHARED,       \
    .hosts = 1, .missing = nothing_missing, .start = files_start, .stop = files_stop,              \
    .connect = files_connect, .disconnect = files_disconnect, .open = files_open,                  \
    .close = files_close

const struct peer_kind peer_flock = {
    .name = "flock",
    .title = "flock(2)",
    .acquire = flock_acquire,
    .release = flock_release,
    FILES,
};

const struct peer_kind peer_ofd = {
    .name = "ofd",
    .title = "fcntl(2), OFD lock",
    .acquire = ofd_acquire,
    .release = ofd_release,
    FILES,
};
