/* Which sender may send which message: see private.h. */
#include <stdio.h>

#include "driver/private.h"

/* Returns whether any agent of the cell may send messages of this kind. Messages of all other kinds
 * come from voters only; driver_admits() has the exceptions. */
static bool is_anyones(enum message_kind kind)
{
    switch (kind) {
    case MESSAGE_RENEW:
    case MESSAGE_ACQUIRE:
    case MESSAGE_AMEND:
    case MESSAGE_GIVE_BACK:
    case MESSAGE_BREAK:
    case MESSAGE_HELLO:
    case MESSAGE_BROKEN:
    case MESSAGE_CHECK:
    case MESSAGE_CHECKED:
    case MESSAGE_MEMBER:
    case MESSAGE_ASK_VOTERS:
    /* A learner is no voter yet. The quorum core knows which agents learn. */
    case MESSAGE_SYNC:
    case MESSAGE_LEARNED:
    case MESSAGE_CHANGE_ACCEPTED:
        return true;
    default:
        return false;
    }
}

bool driver_is_written(const struct driver *driver, const struct message_agent *agent)
{
    for (uint32_t i = 0; i < driver->config.written_count; i++) {
        if (same_agent(agent, &driver->config.written[i])) {
            return true;
        }
    }
    return false;
}

/* Returns whether the message goes to the quorum core, although its sender is no voter (is_well()).
 * The core does not act on such a message. It only compares records of voters: it sends its own
 * record to the sender, or asks for the sender's. */
static bool is_to_compare(const struct driver *driver, const struct message *message)
{
    return driver->config.quorum != NULL && !message_is_for_host(message->kind);
}

/* Returns whether it is normal that this sender is no voter: it uses another record, or it is the
 * voter that was removed last, and still answers. */
static bool is_well(const struct driver *driver, const struct message *message)
{
    const struct message_voters *record = &driver->record;
    return (message->number != 0 && message->number != record->number) ||
           (record->act == MESSAGE_MEMBER_REMOVE && same_agent(&record->changed, &message->from));
}

/* Returns the agent for which a request is made; NULL if the message is not a request. */
static const struct message_agent *asker(const struct message *message)
{
    switch (message->kind) {
    case MESSAGE_ACQUIRE:
        return &message->as.acquire.agent;
    case MESSAGE_AMEND:
        return &message->as.amend.agent;
    case MESSAGE_GIVE_BACK:
        return &message->as.give_back.agent;
    case MESSAGE_BREAK:
        return &message->as.break_lock.agent;
    case MESSAGE_CHECK:
        return &message->as.check.agent;
    default:
        return NULL;
    }
}

/* Returns whether the sender may send this BROKEN. A host believes a BROKEN that a voter passes on,
 * so the voter has to check the sender. Only a voter names owners, and an owner reports only its
 * own holds. (tally.h) */
static bool is_own_report(const struct message *message, bool voter)
{
    const struct message_broken *broken = &message->as.broken;
    return broken->part == MESSAGE_BROKEN_OWNERS ? voter
           : broken->part == MESSAGE_BROKEN_HOLDS
               ? same_agent(&broken->owner, &message->from)
               : true; /* a host ignores a BROKEN of any other part if it was passed on */
}

static void log_refused(struct driver *driver, const struct message *message, const char *why)
{
    const struct driver_operations *operations = &driver->config.operations;
    struct action_log log = {.event = "message_refused", .agent = message->from};
    log.number = log_limits_add(&driver->refusals, &message->from, driver_clock_ns(driver));
    if (log.number == 0) {
        return;
    }
    snprintf(log.text, sizeof(log.text), "a message in this agent's name %s; it was dropped", why);
    operations->log(operations->arg, &log);
}

bool driver_admits(struct driver *driver, const struct message *message)
{
    bool voter = driver_find_voter(driver, &message->from) < driver->config.voter_count;
    bool for_another = message->to.length > 0 && !driver_is_self(driver, &message->to);
    const struct message_agent *who = asker(message);
    if (!voter && !is_anyones(message->kind)) {
        if (driver_is_of_record(message->kind) && driver_is_written(driver, &message->from)) {
            return true;
        }
        if (is_well(driver, message)) {
            return is_to_compare(driver, message);
        }
        log_refused(driver, message, "is of a kind that only a voter may send");
        return false;
    }
    if (who != NULL && !same_agent(who, &message->from) && (!voter || for_another)) {
        log_refused(driver, message, "makes a request in another agent's name");
        return false;
    }
    if (message->kind == MESSAGE_BROKEN && for_another && !is_own_report(message, voter)) {
        log_refused(driver, message, "answers a break in another agent's name");
        return false;
    }
    return true;
}
