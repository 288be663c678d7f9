/* Making and destroying the driver: see driver.h. */
#include <stdlib.h>

#include "driver/private.h"

enum { QUORUM_ROOM = 2 * QUORUM_STEP_ACTIONS };

struct driver *driver_create(const struct driver_config *config)
{
    struct driver *driver = calloc(1, sizeof(*driver));
    if (driver == NULL) {
        return NULL;
    }
    driver->config = *config;
    driver->record = config->record;
    driver->open = &driver->batches[0];
    driver->quorum_actions.capacity = QUORUM_ROOM;
    driver->quorum_actions.items = calloc(QUORUM_ROOM, sizeof(struct action));
    driver->host_actions.capacity = HOST_STEP_ACTIONS;
    driver->host_actions.items = calloc(HOST_STEP_ACTIONS, sizeof(struct host_action));
    driver->host_actions.output_size = HOST_STEP_OUTPUT;
    driver->host_actions.output = malloc(HOST_STEP_OUTPUT);
    driver->gossip_actions.capacity = GOSSIP_STEP_ACTIONS;
    driver->gossip_actions.items = calloc(GOSSIP_STEP_ACTIONS, sizeof(struct gossip_action));
    driver->gossip_actions.output_size = GOSSIP_STEP_OUTPUT;
    driver->gossip_actions.output = malloc(GOSSIP_STEP_OUTPUT);
    if (driver->quorum_actions.items == NULL || driver->host_actions.items == NULL ||
        driver->host_actions.output == NULL || driver->gossip_actions.items == NULL ||
        driver->gossip_actions.output == NULL) {
        driver_destroy(driver);
        return NULL;
    }
    return driver;
}

void driver_destroy(struct driver *driver)
{
    if (driver == NULL) {
        return;
    }
    fifo_release(&driver->quorum_inbox);
    fifo_release(&driver->host_inbox);
    fifo_release(&driver->kept_inbox);
    fifo_release(&driver->kept_links);
    batch_release(&driver->batches[0]);
    batch_release(&driver->batches[1]);
    batch_release(&driver->later);
    free(driver->quorum_actions.items);
    free(driver->host_actions.items);
    free(driver->host_actions.output);
    free(driver->gossip_actions.items);
    free(driver->gossip_actions.output);
    free(driver);
}
