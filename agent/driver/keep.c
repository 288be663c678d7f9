/*
 * Keeps the session while the host core is held up: see driver.h, driver_keep_begin().
 *
 * While this code runs, the loop's thread may be at any instruction within host_step(). So nothing
 * here calls the host core or gossip, or any part of the quorum core that uses the table of names,
 * which both cores share.
 */
#include "driver/private.h"
#include "proto/check.h"

void driver_keep_begin(struct driver *driver)
{
    HF_CHECK(!driver->keeping && !driver->receiving);
    driver->keeping = true;
}

void driver_keep_end(struct driver *driver)
{
    driver->keeping = false;
}

static void renew_here(struct driver *driver, const struct message *message)
{
    struct quorum_event event = {.kind = QUORUM_MESSAGE, .as.message = message};
    if (driver->config.quorum != NULL) {
        event.now_ns = driver_clock_ns(driver);
        event.random = driver_draw(driver);
        quorum_renew(driver->config.quorum, &event, &driver->quorum_actions);
        driver_take_actions(driver);
    }
}

static void take(struct driver *driver, const struct message *message)
{
    if (message->kind == MESSAGE_RENEW) {
        renew_here(driver, message);
    } else if (message->kind == MESSAGE_RENEW_ACK) {
        renewal_acked(driver->config.renewal, message, driver_clock_ns(driver),
                      &driver->quorum_actions);
        driver_take_actions(driver);
    }
}

void driver_keep_received(struct driver *driver, const struct message *message)
{
    bool here = message->to.length == 0 || driver_is_self(driver, &message->to);
    bool voter = driver_find_voter(driver, &message->from) < driver->config.voter_count;
    if (here && (message->kind == MESSAGE_RENEW || voter)) {
        take(driver, message);
    }
}

void driver_keep_own(struct driver *driver, const struct message *message)
{
    void *item = fifo_push(&driver->kept_inbox, message_size(message));
    if (driver_kept(driver, item != NULL)) {
        message_copy(item, message);
    }
}

/* Handles the messages of this agent to itself. The loop ends, because a renewal is answered once,
 * and an answer causes at most one more renewal. */
static void take_own(struct driver *driver)
{
    const void *first;
    size_t size;
    while (!driver_has_failed(driver) && (first = fifo_first(&driver->kept_inbox, &size)) != NULL) {
        HF_CHECK(size <= sizeof(driver->message));
        memcpy(&driver->message, first, size);
        fifo_drop(&driver->kept_inbox);
        take(driver, &driver->message);
    }
}

/* Publishes a later deadline of the session that the host core knows. A new session is left to the
 * host core. */
static void report_deadline(struct driver *driver)
{
    const struct driver_operations *operations = &driver->config.operations;
    const struct renewal *renewal = driver->config.renewal;
    int64_t deadline_ns = renewal_deadline_ns(renewal);
    if (deadline_ns > driver->promised_ns && driver->notified.epoch == renewal_epoch(renewal) &&
        !driver->notified.lost && renewal_state(renewal, driver_clock_ns(driver)) == RENEWAL_SAFE) {
        driver->promised_ns = deadline_ns;
        operations->promise(operations->arg, renewal_epoch(renewal), deadline_ns);
        operations->prolong(operations->arg, renewal_epoch(renewal), deadline_ns);
    }
}

void driver_keep(struct driver *driver)
{
    struct renewal *renewal = driver->config.renewal;
    int64_t now_ns = driver_clock_ns(driver);
    HF_CHECK(driver->keeping);
    /* A lost session, and the session that follows it, are left to the loop's thread. */
    if (driver_has_failed(driver) || !driver->started || driver->next_epoch != 0 ||
        renewal_state(renewal, now_ns) == RENEWAL_LOST) {
        return;
    }
    if (renewal_next_tick_ns(renewal, now_ns) <= now_ns) {
        renewal_tick(renewal, now_ns, &driver->quorum_actions);
        driver_take_actions(driver);
    }
    take_own(driver);
    report_deadline(driver);
    driver->kept = true;
}

void driver_keep_link(struct driver *driver, const struct message_agent *agent, bool up)
{
    struct kept_link *link = fifo_push(&driver->kept_links, sizeof(*link));
    if (driver_kept(driver, link != NULL)) {
        *link = (struct kept_link){.agent = *agent, .up = up};
    }
}

void driver_take_kept_links(struct driver *driver)
{
    const struct kept_link *first;
    size_t size;
    while ((first = fifo_first(&driver->kept_links, &size)) != NULL) {
        struct kept_link link = *first;
        fifo_drop(&driver->kept_links);
        driver_link(driver, &link.agent, link.up);
    }
}
