/* The driver's counters, for display: see driver.h. No decision depends on them. */
#include "driver/private.h"

void driver_count_action(struct driver *driver, const struct action *action)
{
    struct driver_counts *counts = &driver->counts;
    if (action->kind == ACTION_PERSIST_REGISTER) {
        counts->accepts++;
    } else if (action->kind == ACTION_PERSIST_PROMISE) {
        counts->promises++;
    } else if (action->kind == ACTION_SEND && action->as.send.message.kind == MESSAGE_REFUSED &&
               action->as.send.message.as.refused.request_id != 0) { /* request_id 0: the refusal
                                                                      * answers no request, and is
                                                                      * only a report */
        counts->refused[action->as.send.message.as.refused.reason]++;
    }
}

const struct driver_counts *driver_counts(const struct driver *driver)
{
    return &driver->counts;
}

void driver_queues(const struct driver *driver, struct driver_queues *out)
{
    const struct driver_batch *flying = driver->flying;
    *out = (struct driver_queues){.inbox = driver->quorum_inbox.count + driver->host_inbox.count,
                                  .records = driver->open->records.count,
                                  .flying = flying != NULL ? flying->records.count : 0,
                                  .waiting = driver->open->waiting.count +
                                             (flying != NULL ? flying->waiting.count : 0),
                                  .later = driver->later.waiting.count};
}

uint32_t driver_missing(const struct driver *driver)
{
    const struct driver_config *config = &driver->config;
    bool voter = driver_find_voter(driver, &config->self) < config->voter_count;
    return config->quorum != NULL && voter ? quorum_missing(config->quorum) : 0;
}

void driver_voters(const struct driver *driver, struct driver_voters *out)
{
    *out = (struct driver_voters){.up = driver->voters_answering & ~driver_missing(driver),
                                  .refused = driver->voters_refused};
}
