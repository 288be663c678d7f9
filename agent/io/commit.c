/* The commit thread: see io/commit.h. */
#include "io/commit.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "proto/check.h"

struct committer {
    struct committer_config config;
    int done_fd;
    pthread_t thread;
    pthread_mutex_t mutex; /* of what follows */
    pthread_cond_t changed;
    const void *batch; /* to be written, or being written */
    bool begun;        /* and committer_finish() has not told yet */
    bool done;
    bool idle;
    bool idle_failed;
    bool end;
    uint64_t commit;
    bool failed;
    char error[STORE_ERROR_MAX];
    char idle_error[STORE_ERROR_MAX];
};

static void keep_error(struct committer *committer, char *error)
{
    const char *text = store_error(committer->config.store);
    size_t length = strnlen(text, STORE_ERROR_MAX - 1);
    memcpy(error, text, length);
    error[length] = '\0';
}

/* With the mutex held, which is given up meanwhile. */
static void write_batch(struct committer *committer)
{
    const struct committer_config *config = &committer->config;
    const void *batch = committer->batch;
    uint64_t commit = 0;
    uint64_t one = 1;
    pthread_mutex_unlock(&committer->mutex);
    bool good = store_begin(config->store) && config->put(config->arg, config->store, batch) &&
                store_commit(config->store, &commit);
    pthread_mutex_lock(&committer->mutex);
    if (!good) {
        committer->failed = true;
        keep_error(committer, committer->error);
    }
    committer->commit = commit;
    committer->batch = NULL;
    committer->done = true;
    pthread_cond_broadcast(&committer->changed);
    HF_CHECK(write(committer->done_fd, &one, sizeof(one)) == sizeof(one));
}

static void make_checkpoint(struct committer *committer)
{
    pthread_mutex_unlock(&committer->mutex);
    bool good = store_idle(committer->config.store);
    pthread_mutex_lock(&committer->mutex);
    if (!good) {
        committer->idle_failed = true;
        keep_error(committer, committer->idle_error);
    }
    committer->idle = false;
}

static void *run(void *arg)
{
    struct committer *committer = arg;
    pthread_mutex_lock(&committer->mutex);
    while (committer->batch != NULL || !committer->end) {
        if (committer->batch != NULL) {
            write_batch(committer);
        } else if (committer->idle) {
            make_checkpoint(committer);
        } else {
            pthread_cond_wait(&committer->changed, &committer->mutex);
        }
    }
    pthread_mutex_unlock(&committer->mutex);
    return NULL;
}

/* With all signals blocked there: they are the loop's. */
static bool start_thread(struct committer *committer)
{
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    if (pthread_sigmask(SIG_SETMASK, &all, &before) != 0) {
        return false;
    }
    int error = pthread_create(&committer->thread, NULL, run, committer);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = error;
    return error == 0;
}

struct committer *committer_open(const struct committer_config *config)
{
    struct committer *committer = calloc(1, sizeof(*committer));
    if (committer == NULL) {
        return NULL;
    }
    committer->config = *config;
    committer->done_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (committer->done_fd < 0) {
        free(committer);
        return NULL;
    }
    pthread_mutex_init(&committer->mutex, NULL);
    pthread_cond_init(&committer->changed, NULL);
    if (!start_thread(committer)) {
        int error = errno;
        pthread_cond_destroy(&committer->changed);
        pthread_mutex_destroy(&committer->mutex);
        close(committer->done_fd);
        free(committer);
        errno = error;
        return NULL;
    }
    return committer;
}

void committer_close(struct committer *committer)
{
    if (committer == NULL) {
        return;
    }
    pthread_mutex_lock(&committer->mutex);
    committer->end = true;
    pthread_cond_broadcast(&committer->changed);
    pthread_mutex_unlock(&committer->mutex);
    pthread_join(committer->thread, NULL);
    pthread_cond_destroy(&committer->changed);
    pthread_mutex_destroy(&committer->mutex);
    close(committer->done_fd);
    free(committer);
}

int committer_fd(const struct committer *committer)
{
    return committer->done_fd;
}

void committer_begin(struct committer *committer, const void *batch)
{
    pthread_mutex_lock(&committer->mutex);
    HF_CHECK(!committer->begun && batch != NULL);
    committer->batch = batch;
    committer->begun = true;
    committer->done = false;
    pthread_mutex_unlock(&committer->mutex);
    pthread_cond_broadcast(&committer->changed); /* it finds the mutex free */
}

bool committer_finish(struct committer *committer, uint64_t *commit, const char **error)
{
    uint64_t count;
    pthread_mutex_lock(&committer->mutex);
    bool told = committer->begun && committer->done;
    if (told) {
        committer->begun = false;
        *commit = committer->commit;
        *error = committer->failed ? committer->error : NULL;
        (void)!read(committer->done_fd, &count, sizeof(count)); /* not readable any more */
    }
    pthread_mutex_unlock(&committer->mutex);
    return told;
}

bool committer_wait(struct committer *committer)
{
    pthread_mutex_lock(&committer->mutex);
    bool begun = committer->begun;
    while (begun && !committer->done) {
        pthread_cond_wait(&committer->changed, &committer->mutex);
    }
    pthread_mutex_unlock(&committer->mutex);
    return begun;
}

void committer_idle(struct committer *committer)
{
    pthread_mutex_lock(&committer->mutex);
    committer->idle = true;
    pthread_cond_broadcast(&committer->changed);
    pthread_mutex_unlock(&committer->mutex);
}

const char *committer_idle_error(struct committer *committer)
{
    pthread_mutex_lock(&committer->mutex);
    bool failed = committer->idle_failed;
    committer->idle_failed = false;
    pthread_mutex_unlock(&committer->mutex);
    return failed ? committer->idle_error : NULL;
}
