/*
 * The driver's batches and their way into the store.
 *
 * In a cell of more than one voter, a committer thread writes them (io/commit.h), and the loop
 * sends proposals and answers other agents meanwhile. But if the lock name of the batch is all that
 * is under way (driver_is_alone()), there is nothing to answer. In that case the loop's thread
 * itself writes the batch when its turn is over, because a change of threads would cost more than
 * it gains. In a cell of one voter a batch is written within the turn, so it is durable before the
 * turn goes on.
 */
#include "driver/disk.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent.h"
#include "driver/driver.h"
#include "io/clock.h"
#include "io/commit.h"
#include "observe/log.h"
#include "peers/peers.h"
#include "proto/check.h"
#include "turn.h"

/* How many batches disk_settle() may write: each may release messages that lead to another
 * batch. */
enum { DISK_ROUNDS_MAX = 16 };

struct agent_disk {
    struct committer *committer; /* NULL: batches are written within the turn */
    uv_poll_t poll;
    bool may_write;                       /* set by disk_may_write() */
    bool given_up;                        /* the committer could not be opened */
    const struct driver_batch *unwritten; /* the batch to write after the turn; NULL: none */
    int64_t begun_ns;                     /* when the batch that is being written began; 0: none
                                           * is */
    struct recent took;                   /* how long batches took */
    void (*piece_done)(void *arg);        /* see disk_piece(); NULL: there is no piece */
    void *piece_arg;
};

static bool put_slot(struct agent *agent, struct store *store, const struct driver_record *record)
{
    const char *space = agent->config.namespaces[record->as.slot.region].name;
    if (record->kind == DRIVER_NO_SLOT) {
        return store_del_slot(store, space, record->as.slot.slot);
    }
    struct store_slot slot = {.space = space,
                              .slot = record->as.slot.slot,
                              .name = record->as.slot.name.bytes,
                              .length = record->as.slot.name.length};
    return store_put_slot(store, &slot);
}

static bool put_record(struct agent *agent, struct store *store, const struct driver_record *record)
{
    switch (record->kind) {
    case DRIVER_ACTION:
        return store_put_action(store, &record->as.action);
    case DRIVER_SLOT:
    case DRIVER_NO_SLOT:
        return put_slot(agent, store, record);
    case DRIVER_EPOCH:
        return store_put_session_epoch(store, record->as.epoch);
    }
    HF_CHECK(!"a record of no kind");
    return false;
}

/* Puts the records of a batch into the store. If there is a committer, the committer calls this
 * function, on the loop's thread or on its own thread. This function reads nothing of the agent
 * except the names of the namespaces, which do not change. */
static bool put_batch(void *arg, struct store *store, const void *batch)
{
    const struct driver_record *record;
    size_t at = 0;
    while ((record = driver_batch_next(batch, &at)) != NULL) {
        if (!put_record(arg, store, record)) {
            return false;
        }
    }
    return true;
}

static void log_checkpoint(const char *error)
{
    if (error != NULL) {
        log_simple(LOG_LEVEL_WARN, "checkpoint_failed", error);
    }
}

/* Records how long the batch took. Called before the driver is notified, because the driver may
 * then hand over the next batch at once. */
static void note_flush(struct agent *agent)
{
    int64_t now_ns = clock_boottime_ns();
    recent_add(&agent->disk->took, now_ns, now_ns - agent->disk->begun_ns);
    agent->disk->begun_ns = 0;
}

/* Notifies the driver if the batch that was being written is durable, or has failed. */
static void disk_done(struct agent *agent)
{
    uint64_t commit;
    const char *error;
    if (committer_finish(agent->disk->committer, &commit, &error)) {
        if (error == NULL) {
            lease_file_note_commit(&agent->lease_file, commit);
        }
        note_flush(agent);
        driver_committed(agent->driver, commit, error);
    }
}

/* When a piece is done, calls its `done` function. That function may order the next piece. */
static void see_piece(struct agent *agent)
{
    struct agent_disk *disk = agent->disk;
    if (disk->piece_done != NULL && committer_piece_done(disk->committer)) {
        void (*done)(void *arg) = disk->piece_done;
        disk->piece_done = NULL;
        done(disk->piece_arg);
    }
}

void disk_piece(struct agent *agent, void (*piece)(void *arg), void (*done)(void *arg), void *arg)
{
    struct agent_disk *disk = agent->disk;
    HF_CHECK(disk->piece_done == NULL);
    if (disk->committer == NULL) {
        piece(arg);
        done(arg);
        return;
    }
    disk->piece_done = done;
    disk->piece_arg = arg;
    committer_piece(disk->committer, piece, arg);
}

static void on_done(uv_poll_t *poll, int status, int events)
{
    struct agent *agent = poll->data;
    (void)status;
    (void)events;
    agent_turn(agent, TURN_DISK);
    disk_done(agent);
    see_piece(agent);
    log_checkpoint(committer_idle_error(agent->disk->committer));
}

static bool open_committer(struct agent *agent)
{
    struct committer_config config = {
        .store = agent->store, .put = put_batch, .loop = agent_loop, .arg = agent};
    struct agent_disk *disk = agent->disk;
    disk->committer = committer_open(&config);
    return disk->committer != NULL &&
           agent_poll(agent, &disk->poll, committer_fd(disk->committer), on_done);
}

bool disk_open(struct agent *agent)
{
    agent->disk = calloc(1, sizeof(*agent->disk));
    if (agent->disk == NULL || agent->host_config.voter_count == 1) {
        return agent->disk != NULL;
    }
    return open_committer(agent);
}

/* If there is no committer, the agent continues to write within the turn. */
void disk_follow_record(struct agent *agent)
{
    struct agent_disk *disk = agent->disk;
    if (disk->committer != NULL || disk->given_up || agent->host_config.voter_count == 1) {
        return;
    }
    disk->given_up = !open_committer(agent);
    if (disk->given_up) {
        log_simple(LOG_LEVEL_WARN, "no_committer", strerror(errno));
        committer_close(disk->committer);
        disk->committer = NULL;
    }
}

void disk_commit(void *arg, const struct driver_batch *batch)
{
    struct agent *agent = arg;
    uint64_t commit = 0;
    agent->disk->begun_ns = clock_boottime_ns();
    if (agent->disk->committer != NULL) {
        /* Sends proposals first, because the other voters' disks answer later than this voter's
         * disk. */
        peers_flush(agent);
        if (agent->disk->may_write && driver_is_alone(agent->driver, batch)) {
            agent->disk->unwritten = batch;
        } else {
            committer_begin(agent->disk->committer, batch);
        }
        return;
    }
    bool good = store_begin(agent->store) && put_batch(agent, agent->store, batch) &&
                store_commit(agent->store, &commit);
    if (good) {
        lease_file_note_commit(&agent->lease_file, commit);
    }
    note_flush(agent);
    driver_committed(agent->driver, commit, good ? NULL : store_error(agent->store));
}

void disk_may_write(struct agent *agent, bool may)
{
    agent->disk->may_write = may;
}

bool disk_has_batch(const struct agent *agent)
{
    return agent->disk->unwritten != NULL;
}

void disk_stand_by(struct agent *agent)
{
    committer_stand_by(agent->disk->committer);
}

bool disk_write(struct agent *agent)
{
    const struct driver_batch *batch = agent->disk->unwritten;
    if (batch == NULL) {
        return true;
    }
    agent->disk->unwritten = NULL;
    switch (committer_write(agent->disk->committer, batch)) {
    case COMMITTER_BUSY:
        committer_begin(agent->disk->committer, batch);
        break;
    case COMMITTER_WRITTEN:
        agent_turn(agent, TURN_DISK);
        disk_done(agent);
        agent_turn_end(agent);
        break;
    case COMMITTER_REPLACED:
        return false;
    }
    return true;
}

/* Called at the end of a turn, when no batch is open: no checkpoint can be made within a batch. */
void disk_idle(struct agent *agent)
{
    if (agent->disk->committer != NULL) {
        committer_idle(agent->disk->committer);
    } else if (!store_idle(agent->store)) {
        log_checkpoint(store_error(agent->store));
    }
}

void disk_settle(struct agent *agent)
{
    struct agent_disk *disk = agent->disk;
    if (disk == NULL) {
        return;
    }
    if (disk->unwritten != NULL) {
        committer_begin(disk->committer, disk->unwritten);
        disk->unwritten = NULL;
    }
    for (unsigned i = 0; i < DISK_ROUNDS_MAX && disk->committer != NULL; i++) {
        driver_flush(agent->driver);
        if (driver_failed(agent->driver) != NULL || !committer_wait(disk->committer)) {
            return;
        }
        disk_done(agent);
    }
}

void disk_close(struct agent *agent)
{
    if (agent->disk != NULL) {
        committer_close(agent->disk->committer);
        free(agent->disk);
        agent->disk = NULL;
    }
}

const struct recent *disk_took(const struct agent *agent)
{
    return &agent->disk->took;
}

int64_t disk_begun_ns(const struct agent *agent)
{
    return agent->disk->begun_ns;
}

bool disk_keep_opened(struct agent *agent)
{
    struct action action = {.kind = ACTION_PERSIST_SEEN};
    bool keeps = agent->quorum != NULL ? quorum_keep_opened(agent->quorum, &action.as.seen)
                                       : agent->opened.commit == 0;
    if (keeps && agent->quorum == NULL) {
        quorum_opened_row(&agent->host_config.agent, agent->meta.store_id, agent->meta.commit,
                          &agent->opened);
        action.as.seen = agent->opened;
    }
    return !keeps || store_put_action(agent->store, &action);
}

void disk_committed(struct agent *agent, uint64_t commit)
{
    agent->meta.commit = commit;
    lease_file_note_commit(&agent->lease_file, commit);
    if (agent->quorum != NULL) {
        quorum_set_commit(agent->quorum, commit);
    }
}
