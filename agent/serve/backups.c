/* Backups of this voter's store: see backups.h. */
#include "serve/backups.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "driver/disk.h"
#include "holdfast/admin.h"
#include "io/clock.h"
#include "io/store.h"
#include "observe/log.h"
#include "proto/check.h"
#include "proto/frame.h"
#include "turn.h"

enum {
    PIECE_MS = 1,      /* the pause between two pieces */
    FORGET_MS = 10000, /* a backup is dropped if its client has not asked for it for this long */
};

struct backups {
    struct agent *agent;
    uv_timer_t timer;   /* for the next piece, and for dropping a backup that is not wanted any
                         * more */
    uv_async_t checked; /* wakes the loop when the thread has ended */
    uint32_t connection;
    enum hf_backup_stage stage; /* 0: there is no backup */
    bool ordered;               /* a piece is under way */
    bool thread_runs;
    int64_t asked_ns; /* when the client last asked for the backup */
    bool dropped;     /* the backup is not wanted: the next piece ends the copying */
    uint64_t done;
    uint64_t total;
    /* The results of a piece. While a piece is under way, only the piece uses these fields. */
    struct {
        struct store_backup *copy;
        enum store_backup_result result;
        uint64_t done;
        uint64_t total;
    } made;
    pthread_t thread;
    struct store_identity identity;
    bool good; /* the thread has found the copy good */
    struct store_copied copied;
    int fd;
    char path[PATH_MAX + 32];
    char error[STORE_ERROR_MAX];
};

static void next(struct backups *backups);

/* ---- the end of a backup ---- */

/* Forgets the backup. The caller makes sure that neither a piece nor the thread is under way. */
static void forget(struct backups *backups)
{
    store_backup_close(backups->made.copy);
    backups->made.copy = NULL;
    store_backup_remove(backups->path);
    if (backups->fd >= 0) {
        close(backups->fd);
    }
    backups->fd = -1;
    backups->stage = 0;
    uv_timer_stop(&backups->timer);
}

static void fail(struct backups *backups)
{
    forget(backups);
    backups->stage = HF_BACKUP_FAILED;
    struct log_line line;
    log_begin(&line, LOG_LEVEL_WARN, "backup_failed");
    log_text(&line, "text", backups->error);
    log_end(&line);
}

/* Returns whether the client has not asked for the backup for FORGET_MS. */
static bool is_unwanted(const struct backups *backups)
{
    return clock_boottime_ns() - backups->asked_ns > FORGET_MS * INT64_C(1000000);
}

/* ---- the check ---- */

static void *check(void *arg)
{
    struct backups *backups = arg;
    backups->good = store_backup_check(backups->path, &backups->identity, &backups->copied,
                                       backups->error);
    uv_async_send(&backups->checked);
    return NULL;
}

static void begin_check(struct backups *backups)
{
    sigset_t all;
    sigset_t before;
    backups->stage = HF_BACKUP_CHECKS;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* only the loop's thread handles signals */
    int error = pthread_create(&backups->thread, NULL, check, backups);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    backups->thread_runs = error == 0;
    if (error != 0) {
        snprintf(backups->error, sizeof(backups->error), "no thread: %s", strerror(error));
        fail(backups);
    }
}

static void on_checked(uv_async_t *async)
{
    struct backups *backups = async->data;
    agent_turn(backups->agent, TURN_DISK);
    if (!backups->thread_runs) {
        return;
    }
    pthread_join(backups->thread, NULL);
    backups->thread_runs = false;
    if (backups->good) {
        backups->fd = open(backups->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
        backups->good = backups->fd >= 0;
        if (!backups->good) {
            snprintf(backups->error, sizeof(backups->error), "%.256s: cannot be opened: %s",
                     backups->path, strerror(errno));
        }
    }
    if (!backups->good) {
        fail(backups);
        return;
    }
    store_backup_remove(backups->path);
    backups->stage = HF_BACKUP_DONE;
}

/* ---- the copy ---- */

/* Copies a few pages, while nobody else uses the store. */
static void piece(void *arg)
{
    struct backups *backups = arg;
    if (backups->made.copy == NULL) {
        store_backup_remove(backups->path);
        backups->made.copy = store_backup_open(backups->agent->store, backups->path,
                                               backups->error);
    }
    backups->made.result = STORE_BACKUP_FAILED;
    if (backups->made.copy == NULL) {
        return;
    }
    backups->made.result = store_backup_step(backups->made.copy, backups->error);
    store_backup_progress(backups->made.copy, &backups->made.done, &backups->made.total);
    if (backups->made.result != STORE_BACKUP_MORE || backups->dropped) {
        store_backup_close(backups->made.copy);
        backups->made.copy = NULL;
    }
}

static void piece_done(void *arg)
{
    struct backups *backups = arg;
    backups->ordered = false;
    backups->done = backups->made.done;
    backups->total = backups->made.total;
    if (backups->made.result == STORE_BACKUP_FAILED) {
        fail(backups);
    } else if (backups->dropped) {
        forget(backups);
    } else if (backups->made.result == STORE_BACKUP_DONE) {
        begin_check(backups);
    }
}

static void on_timer(uv_timer_t *timer)
{
    struct backups *backups = timer->data;
    agent_turn(backups->agent, TURN_DISK);
    next(backups);
}

/* Takes the next step. Called by the timer. */
static void next(struct backups *backups)
{
    if (backups->stage == HF_BACKUP_COPIES) {
        if (!backups->ordered) {
            backups->ordered = true;
            backups->dropped = is_unwanted(backups);
            disk_piece(backups->agent, piece, piece_done, backups);
        }
    } else if (is_unwanted(backups) && !backups->thread_runs) {
        forget(backups);
    }
}

static void begin(struct backups *backups, uint32_t connection)
{
    backups->connection = connection;
    backups->stage = HF_BACKUP_COPIES;
    backups->error[0] = '\0';
    backups->done = 0;
    backups->total = 0;
    memset(&backups->made, 0, sizeof(backups->made));
    uv_timer_start(&backups->timer, on_timer, 0, PIECE_MS);
}

/* ---- answers ---- */

static void add(struct hfi_facts_builder *builder, const char *key, uint64_t value,
                const char *text)
{
    const struct hfi_fact_frame fact = {
        .key = {key, (uint32_t)strlen(key)},
        .value = value <= INT64_MAX ? (int64_t)value : INT64_MAX,
        .text = {text, (uint32_t)strlen(text)},
    };
    bool added = hfi_facts_add(builder, &fact);
    HF_CHECK(added); /* the frame has room for these facts */
}

static size_t fill(uint64_t request, const struct backups *backups, enum hf_backup_stage stage,
                   const char *text, unsigned char *bytes)
{
    struct hfi_facts_builder builder;
    hfi_facts_begin(&builder, bytes, HFI_FRAME_MAX, request);
    add(&builder, "stage", (uint64_t)stage, text);
    add(&builder, "done", backups->done, "");
    add(&builder, "total", backups->total, "");
    if (stage == HF_BACKUP_DONE) {
        add(&builder, "commit", backups->copied.commit, "");
        add(&builder, "locks", backups->copied.registers, "");
        add(&builder, "bytes", backups->copied.bytes, "");
    }
    return hfi_facts_finish(&builder);
}

static size_t refuse(struct backups *backups, uint64_t request, const char *why,
                     unsigned char *bytes)
{
    return fill(request, backups, HF_BACKUP_FAILED, why, bytes);
}

struct backups_answer backups_ask(struct backups *backups, uint32_t connection, uint64_t request,
                                  unsigned char *bytes)
{
    struct backups_answer answer = {.fd = -1};
    if (backups->agent->quorum == NULL) {
        answer.size = refuse(backups, request,
                             "this agent is no voter: its store has nothing of the cell", bytes);
        return answer;
    }
    if (backups->stage != 0 && backups->connection != connection && !is_unwanted(backups)) {
        answer.size = refuse(backups, request, "another backup is under way: try again", bytes);
        return answer;
    }
    backups->asked_ns = clock_boottime_ns();
    if (backups->stage == 0) {
        begin(backups, connection);
    }
    backups->connection = connection;
    answer.size = fill(request, backups, backups->stage,
                       backups->stage == HF_BACKUP_FAILED ? backups->error : "", bytes);
    if (backups->stage == HF_BACKUP_DONE) {
        answer.fd = backups->fd;
        backups->fd = -1;
        struct log_line line;
        log_begin(&line, LOG_LEVEL_INFO, "backup_made");
        log_number(&line, "commit", (int64_t)backups->copied.commit);
        log_end(&line);
    }
    if (backups->stage == HF_BACKUP_DONE || backups->stage == HF_BACKUP_FAILED) {
        forget(backups); /* the client gets this last answer */
    }
    return answer;
}

struct backups *backups_create(struct agent *agent)
{
    struct backups *backups = calloc(1, sizeof(*backups));
    if (backups == NULL || uv_timer_init(agent_uv(agent), &backups->timer) != 0 ||
        uv_async_init(agent_uv(agent), &backups->checked, on_checked) != 0) {
        free(backups);
        return NULL;
    }
    backups->agent = agent;
    backups->timer.data = backups;
    backups->checked.data = backups;
    backups->fd = -1;
    snprintf(backups->path, sizeof(backups->path), "%s/backup.new", agent->config.state_dir);
    message_agent_set(&backups->identity.cell, agent->config.cell, strlen(agent->config.cell));
    message_agent_set(&backups->identity.agent, agent->config.agent, strlen(agent->config.agent));
    return backups;
}

void backups_shut(struct backups *backups)
{
    if (backups != NULL && backups->thread_runs) {
        pthread_join(backups->thread, NULL);
        backups->thread_runs = false;
    }
}

void backups_destroy(struct backups *backups)
{
    if (backups != NULL && backups->stage != 0) {
        store_backup_close(backups->made.copy);
        store_backup_remove(backups->path);
    }
    if (backups != NULL && backups->fd >= 0) {
        close(backups->fd);
    }
    free(backups);
}
