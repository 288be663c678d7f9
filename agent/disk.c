/*
 * The driver's batches on their way into the store.
 */
#include "agent.h"

#include "proto/check.h"

static bool put_slot(struct agent *agent, const struct driver_record *record)
{
    const char *space = agent->spaces[record->as.slot.region];
    if (record->kind == DRIVER_NO_SLOT) {
        return store_del_slot(agent->store, space, record->as.slot.slot);
    }
    struct store_slot slot = {.space = space,
                              .slot = record->as.slot.slot,
                              .name = record->as.slot.name.bytes,
                              .length = record->as.slot.name.length};
    return store_put_slot(agent->store, &slot);
}

static bool put_record(struct agent *agent, const struct driver_record *record)
{
    switch (record->kind) {
    case DRIVER_ACTION:
        return store_put_action(agent->store, &record->as.action);
    case DRIVER_SLOT:
    case DRIVER_NO_SLOT:
        return put_slot(agent, record);
    case DRIVER_EPOCH:
        return store_put_session_epoch(agent->store, record->as.epoch);
    }
    HF_CHECK(!"a record of no kind");
    return false;
}

/* NULL, or what the store says. */
static const char *write_batch(struct agent *agent, const struct driver_batch *batch,
                               uint64_t *commit)
{
    const struct driver_record *record;
    size_t at = 0;
    bool good = store_begin(agent->store);
    while (good && (record = driver_batch_next(batch, &at)) != NULL) {
        good = put_record(agent, record);
    }
    good = good && store_commit(agent->store, commit);
    return good ? NULL : store_error(agent->store);
}

void disk_commit(void *arg, const struct driver_batch *batch)
{
    struct agent *agent = arg;
    uint64_t commit = 0;
    const char *error = write_batch(agent, batch, &commit);
    driver_committed(agent->driver, commit, error);
}
