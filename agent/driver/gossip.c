/* The driver's events and actions of gossip: see private.h. */
#include "driver/private.h"

/* Makes a step of gossip. Its messages wait for no batch, and no core waits for gossip. */
void driver_gossip_step(struct driver *driver, struct gossip_event *event)
{
    const struct driver_operations *operations = &driver->config.operations;
    struct gossip_actions *actions = &driver->gossip_actions;
    if (driver->config.gossip == NULL) {
        return;
    }
    event->now_ns = driver_clock_ns(driver);
    event->random = driver_draw(driver);
    gossip_step(driver->config.gossip, event, actions);
    for (uint32_t i = 0; i < actions->count; i++) {
        const struct gossip_action *action = &actions->items[i];
        if (action->kind == GOSSIP_SEND) {
            operations->send_gossip(operations->arg, &action->agent,
                                    actions->output + action->as.send.offset, action->as.send.size);
        } else {
            operations->address(operations->arg, &action->agent, action->as.address);
        }
    }
    actions->count = 0;
    actions->output_used = 0;
}

void driver_gossip_peer(struct driver *driver, const struct message_agent *agent,
                        const char *address, bool up)
{
    struct gossip_event event = {.kind = GOSSIP_PEER, .agent = *agent};
    event.as.peer.address = address;
    event.as.peer.up = up;
    driver_gossip_step(driver, &event);
}

void driver_unreachable(struct driver *driver, const struct message_agent *agent)
{
    struct gossip_event event = {.kind = GOSSIP_UNREACHABLE, .agent = *agent};
    if (driver->started) {
        driver_gossip_step(driver, &event);
    }
}

void driver_gossip_session(struct driver *driver, const struct message_agent *agent, uint32_t epoch,
                           enum gossip_session state)
{
    struct gossip_event event = {.kind = GOSSIP_SESSION, .agent = *agent};
    event.as.session.epoch = epoch;
    event.as.session.state = state;
    driver_gossip_step(driver, &event);
}

void driver_gossip_owned(struct driver *driver, const struct message *heartbeat)
{
    const struct message_partitions *owned = &heartbeat->as.heartbeat.owned;
    if (driver->config.gossip != NULL && memcmp(owned, &driver->owned, sizeof(*owned)) != 0) {
        driver->owned = *owned;
        gossip_put_owned(driver->config.gossip, owned, driver_clock_ns(driver));
    }
}

void driver_gossip_start(struct driver *driver, uint32_t epoch)
{
    const struct driver_config *config = &driver->config;
    struct gossip_event event = {.kind = GOSSIP_START, .agent = config->self, .as.epoch = epoch};
    driver_gossip_step(driver, &event);
    for (uint32_t i = 0; i < config->voter_count; i++) {
        if (!driver_is_self(driver, &config->voters[i])) {
            driver_gossip_peer(driver, &config->voters[i], NULL, true);
        }
    }
}

void driver_gossip_record(struct driver *driver, const struct succession *succession)
{
    const struct driver_config *config = &driver->config;
    bool voter = driver_find_voter(driver, &config->self) < config->voter_count;
    if (config->gossip == NULL || !driver->started) {
        return;
    }
    gossip_set_voter(config->gossip, voter, driver_clock_ns(driver));
    for (uint32_t i = 0; i < config->voter_count; i++) {
        if (succession->from[i] == SUCCESSION_NONE && !driver_is_self(driver, &config->voters[i])) {
            driver_gossip_peer(driver, &config->voters[i], NULL, true);
        }
    }
}
