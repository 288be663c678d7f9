/*
 * The session as the driver keeps it, and which voters are there: see private.h. The renewal
 * (core/session/renewal.h) has the state of the session; this file notifies the host core of it.
 */
#include "driver/private.h"

/* ---- the session ---- */

static void tell_lease(struct driver *driver, const struct host_lease *lease)
{
    const struct driver_operations *operations = &driver->config.operations;
    if (!lease->lost) {
        operations->promise(operations->arg, lease->epoch, lease->deadline_ns);
    }
    driver->told = *lease;
    struct host_event event = {.kind = HOST_LEASE, .as.lease = *lease};
    driver_step_host(driver, &event);
}

void driver_see_session(struct driver *driver)
{
    const struct driver_operations *operations = &driver->config.operations;
    const struct renewal *renewal = driver->config.renewal;
    if (!driver->started || driver->next_epoch != 0) {
        return;
    }
    enum renewal_state state = renewal_state(renewal, driver_clock_ns(driver));
    struct host_lease lease = {.epoch = renewal_epoch(renewal),
                               .deadline_ns = renewal_deadline_ns(renewal),
                               .lost = state == RENEWAL_LOST};
    if (state != driver->told_state) {
        operations->session(operations->arg, state, lease.epoch);
        driver->told_state = state;
        driver_gossip_session(driver, &driver->config.self, lease.epoch,
                              state == RENEWAL_SAFE       ? GOSSIP_SAFE
                              : state == RENEWAL_JEOPARDY ? GOSSIP_JEOPARDY
                                                          : GOSSIP_LOST);
    }
    bool changed = lease.epoch != driver->told.epoch ||
                   lease.deadline_ns != driver->told.deadline_ns || lease.lost != driver->told.lost;
    if (changed && (lease.lost || lease.deadline_ns != 0)) { /* 0: there is nothing to report yet */
        tell_lease(driver, &lease);
    }
    if (lease.lost && lease.epoch + 1 >= MESSAGE_EPOCH_LIMIT) {
        driver_fail(driver, "session",
                    "its number is the last one that there is, and it was lost: the agent's name "
                    "is used up (docs/OPERATIONS.md, \"Session numbers\")");
    } else if (lease.lost && driver_failed(driver) == NULL) {
        driver->next_epoch = lease.epoch + 1;
        driver_kept(driver, batch_add_epoch(driver->open, driver->next_epoch));
    }
}

void driver_start_session(struct driver *driver, uint32_t epoch, bool adopted)
{
    renewal_start(driver->config.renewal, epoch, adopted, driver_clock_ns(driver),
                  driver_draw(driver), &driver->quorum_actions);
    driver_take_actions(driver);
}

/* ---- which voters there are ---- */

/* That voter's status by its own account, if it may not vote. A voter that started over is not down
 * between that and its first answer. One that is gone is down, whatever it was. */
static enum message_standing standing_told(const struct driver *driver, uint32_t voter)
{
    const struct quorum *quorum = driver->config.quorum;
    enum message_standing standing = MESSAGE_STANDING_OBSERVER;
    if ((driver->links_down >> voter & 1) != 0) {
        return standing;
    }
    if (quorum != NULL) {
        standing = quorum_standing_of(quorum, voter);
    }
    bool hindered = standing == MESSAGE_STANDING_REFUSED || standing == MESSAGE_STANDING_REJOINING;
    return hindered ? standing : (enum message_standing)driver->standings[voter];
}

void driver_see_standing(struct driver *driver, uint32_t voter)
{
    if (voter < driver->config.voter_count &&
        quorum_standing_of(driver->config.quorum, voter) == MESSAGE_STANDING_REJOINING) {
        driver->standings[voter] = MESSAGE_STANDING_REJOINING;
    }
    driver_see_voters(driver);
}

bool driver_starts_over(const struct driver *driver, uint32_t voter)
{
    return standing_told(driver, voter) == MESSAGE_STANDING_REJOINING;
}

/* Which voters may not vote (yet), by what they say, and which refuse this agent. */
static uint32_t refused_voters(const struct driver *driver)
{
    uint32_t refused = driver->refusing & ~driver->links_down;
    for (uint32_t i = 0; i < driver->config.voter_count; i++) {
        enum message_standing standing = standing_told(driver, i);
        refused |= (uint32_t)(standing == MESSAGE_STANDING_REFUSED ||
                              standing == MESSAGE_STANDING_REJOINING)
                   << i;
    }
    return refused;
}

/* A voter that never answered has the time of a lease to do so: it may be asked, but is not shown
 * as up. */
void driver_see_voters(struct driver *driver)
{
    const struct driver_config *config = &driver->config;
    int64_t now_ns = driver_clock_ns(driver);
    bool young = now_ns - driver->started_ns < config->renewal->config.session_ttl_ns;
    uint32_t up = 0;
    uint32_t heard = 0;
    uint32_t refused = refused_voters(driver);
    for (uint32_t i = 0; i < config->voter_count; i++) {
        bool self = driver_is_self(driver, &config->voters[i]);
        bool linked = (driver->links_down >> i & 1) == 0;
        bool answers = renewal_voter_up(config->renewal, i, now_ns);
        up |= (uint32_t)(self || (linked && (answers || young))) << i;
        heard |= (uint32_t)(self || (linked && answers)) << i;
    }
    if (driver_failed(driver) != NULL ||
        (up == driver->voters_up && heard == driver->voters_heard &&
         refused == driver->voters_refused)) {
        return;
    }
    struct host_event event = {.kind = HOST_VOTERS};
    event.as.voters.up = driver->voters_up = up;
    event.as.voters.heard = driver->voters_heard = heard;
    event.as.voters.refused = driver->voters_refused = refused;
    driver_step_host(driver, &event);
}

/* A voter with other rules acknowledges nothing: that is said once, until it does. */
static void compare_rules(struct driver *driver, const struct message *message)
{
    const struct driver_operations *operations = &driver->config.operations;
    const struct message_rules *here = &driver->config.rules;
    uint32_t voter = driver_find_voter(driver, &message->from);
    struct action_log log = {.event = "rules_differ", .agent = message->from};
    if ((driver->refusing >> voter & 1) != 0 || here->voter_count == 0 ||
        !message_rules_differ(here, &message->as.hello.rules, log.text, sizeof(log.text))) {
        return;
    }
    driver->refusing |= 1U << voter;
    operations->log(operations->arg, &log);
    driver_see_voters(driver);
}

bool driver_rules_differ(const struct driver *driver, uint32_t voter)
{
    return (driver->refusing >> voter & 1) != 0;
}

void driver_take_answer(struct driver *driver, const struct message *message)
{
    uint32_t voter = driver_find_voter(driver, &message->from);
    if (voter == driver->config.voter_count) {
        return;
    }
    if (message->kind == MESSAGE_HELLO_ACK) {
        driver->standings[voter] = message->as.hello.standing;
        driver_see_voters(driver);
        compare_rules(driver, message);
        return;
    }
    driver->refusing &= ~(1U << voter);
    driver->standings[voter] = 0;
    renewal_acked(driver->config.renewal, message, driver_clock_ns(driver),
                  &driver->quorum_actions);
    driver_take_actions(driver);
    driver_see_session(driver);
    driver_see_voters(driver);
}
