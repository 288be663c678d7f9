/*
 * Decides whether nothing is under way but one lock name, which the batch is about: see driver.h.
 * This is so when one client asks for one name and nobody else in the cell is active. In each agent
 * that takes part, the batch then has rows of that name only, and nothing else is under way.
 */
#include "driver/private.h"

/* Returns the lock name of a record; NULL if it has none. Clears *about_one if the record has no
 * lock name, and is not of a kind that may be in any batch. */
static const struct message_name *name_of(const struct driver_record *record, bool *about_one)
{
    if (record->kind == DRIVER_SLOT) {
        return &record->as.slot.name;
    }
    if (record->kind == DRIVER_ACTION && record->as.action.kind == ACTION_PERSIST_REGISTER) {
        return &record->as.action.as.reg.name;
    }
    /* Rows about the commits of other stores may be in any batch. */
    bool along = record->kind == DRIVER_ACTION && record->as.action.kind == ACTION_PERSIST_SEEN;
    *about_one = *about_one && along;
    return NULL;
}

static bool same(const struct message_name *a, const struct message_name *b)
{
    return a->length == b->length && memcmp(a->bytes, b->bytes, a->length) == 0;
}

bool driver_is_alone(const struct driver *driver, const struct driver_batch *batch)
{
    const struct message_name *name = NULL;
    const struct driver_record *record;
    bool about_one = true;
    size_t at = 0;
    while ((record = driver_batch_next(batch, &at)) != NULL && about_one) {
        const struct message_name *its = name_of(record, &about_one);
        if (its != NULL && name != NULL && !same(its, name)) {
            return false;
        }
        name = its != NULL ? its : name;
    }
    return about_one && name != NULL && host_asks_only(driver->config.host, name) &&
           (driver->config.quorum == NULL || quorum_decides_only(driver->config.quorum, name));
}
