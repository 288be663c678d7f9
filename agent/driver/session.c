/*
 * The session as the driver keeps it, and which voters answer: see private.h. The renewal
 * (core/session/renewal.h) has the state of the session; this file notifies the host core of the
 * session's changes.
 */
#include "driver/private.h"

/* ---- the session ---- */

static void notify_lease(struct driver *driver, const struct host_lease *lease)
{
    const struct driver_operations *operations = &driver->config.operations;
    if (!lease->lost) {
        driver->promised_ns = lease->deadline_ns;
        operations->promise(operations->arg, lease->epoch, lease->deadline_ns);
    }
    driver->notified = *lease;
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
    if (state != driver->notified_state) {
        operations->session(operations->arg, state, lease.epoch);
        driver->notified_state = state;
        driver_gossip_session(driver, &driver->config.self, lease.epoch,
                              state == RENEWAL_SAFE       ? GOSSIP_SAFE
                              : state == RENEWAL_JEOPARDY ? GOSSIP_JEOPARDY
                                                          : GOSSIP_LOST);
    }
    bool changed = lease.epoch != driver->notified.epoch ||
                   lease.deadline_ns != driver->notified.deadline_ns ||
                   lease.lost != driver->notified.lost;
    /* deadline 0: there is no lease to report yet */
    if (changed && (lease.lost || lease.deadline_ns != 0)) {
        notify_lease(driver, &lease);
    }
    if (lease.lost && lease.epoch + 1 >= MESSAGE_EPOCH_LIMIT) {
        driver_fail(
            driver, "session",
            "the session with the highest possible number was lost: the agent's name is used "
            "up (docs/OPERATIONS.md, \"Session numbers\")");
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

void driver_clock(struct driver *driver, bool astray)
{
    const struct driver_config *config = &driver->config;
    if (driver_has_failed(driver) || !driver->started || (!astray && !driver->astray)) {
        return;
    }
    struct quorum_event event = {.kind = QUORUM_ASTRAY};
    driver->astray = astray;
    driver_step_quorum(driver, &event);
    /* the only voter measures both sides of its session with one clock, so the clock's rate does
     * not matter */
    if (config->voter_count > 1 || config->quorum == NULL) {
        renewal_clock(config->renewal, astray, driver_clock_ns(driver));
        driver_see_session(driver);
    }
    driver_drain(driver);
}

/* ---- which voters answer ---- */

/* Returns the status of a voter that has reported that it may not vote. Without such a report,
 * returns MESSAGE_STATUS_OBSERVER or 0, which mean the same to the callers. Until its first answer,
 * a voter that has just started over is shown as starting over, not as down. A voter whose link
 * broke is shown as down, whatever it reported. */
static enum message_voter_status status_reported(const struct driver *driver, uint32_t voter)
{
    const struct quorum *quorum = driver->config.quorum;
    enum message_voter_status status = MESSAGE_STATUS_OBSERVER;
    if ((driver->links_down >> voter & 1) != 0) {
        return status;
    }
    if (quorum != NULL) {
        status = quorum_voter_status_of(quorum, voter);
    }
    bool hindered = status == MESSAGE_STATUS_REFUSED || status == MESSAGE_STATUS_REJOINING;
    return hindered ? status : (enum message_voter_status)driver->statuses[voter];
}

void driver_note_status(struct driver *driver, uint32_t voter)
{
    if (voter < driver->config.voter_count &&
        quorum_voter_status_of(driver->config.quorum, voter) == MESSAGE_STATUS_REJOINING) {
        driver->statuses[voter] = MESSAGE_STATUS_REJOINING;
    }
    driver_see_voters(driver);
}

bool driver_starts_over(const struct driver *driver, uint32_t voter)
{
    return status_reported(driver, voter) == MESSAGE_STATUS_REJOINING;
}

/* Returns the voters that report that they may not vote (yet), and those that refuse this agent. */
static uint32_t refused_voters(const struct driver *driver)
{
    uint32_t refused = driver->refusing & ~driver->links_down;
    for (uint32_t i = 0; i < driver->config.voter_count; i++) {
        enum message_voter_status status = status_reported(driver, i);
        refused |=
            (uint32_t)(status == MESSAGE_STATUS_REFUSED || status == MESSAGE_STATUS_REJOINING) << i;
    }
    return refused;
}

/* A voter that has not answered yet gets one session_ttl to do so, from the start of this agent or
 * from when it became a voter. Meanwhile requests may go to it (up). It is shown as answering only
 * if it has become a voter since the start, because such a voter has just learned everything that
 * the others know. */
void driver_see_voters(struct driver *driver)
{
    const struct driver_config *config = &driver->config;
    driver->voters_later = driver->receiving;
    if (driver->receiving) {
        return;
    }
    int64_t now_ns = driver_clock_ns(driver);
    uint32_t up = 0;
    uint32_t answering = 0;
    uint32_t refused = refused_voters(driver);
    for (uint32_t i = 0; i < config->voter_count; i++) {
        bool self = driver_is_self(driver, &config->voters[i]);
        bool linked = (driver->links_down >> i & 1) == 0;
        bool answers = renewal_voter_up(config->renewal, i, now_ns);
        bool young = now_ns - driver->voters_since_ns[i] < renewal_ttl_ns(config->renewal);
        bool joined = young && driver->voters_since_ns[i] != driver->started_ns;
        up |= (uint32_t)(self || (linked && (answers || young))) << i;
        answering |= (uint32_t)(self || (linked && (answers || joined))) << i;
    }
    if (driver_failed(driver) != NULL ||
        (!driver->record_new && driver->links_new == 0 && up == driver->voters_up &&
         answering == driver->voters_answering && refused == driver->voters_refused)) {
        return;
    }
    struct host_event event = {.kind = HOST_VOTERS};
    event.as.voters.up = driver->voters_up = up;
    event.as.voters.answering = driver->voters_answering = answering;
    event.as.voters.refused = driver->voters_refused = refused;
    event.as.voters.linked = driver->links_new;
    driver->links_new = 0;
    driver_step_host(driver, &event);
}

/* Logs that a voter's rules differ from this agent's; logs it once, until the voter acknowledges a
 * renewal. A voter whose rules differ acknowledges none. */
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
        driver->statuses[voter] = message->as.hello.status;
        driver_see_voters(driver);
        compare_rules(driver, message);
        return;
    }
    driver->refusing &= ~(1U << voter);
    driver->statuses[voter] = 0;
    renewal_acked(driver->config.renewal, message, driver_clock_ns(driver),
                  &driver->quorum_actions);
    driver_take_actions(driver);
    driver_see_session(driver);
    driver_see_voters(driver);
}
