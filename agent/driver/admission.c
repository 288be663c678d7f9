/* Which sender may send which message: see private.h. */
#include <stdio.h>

#include "driver/private.h"

/* Those that any agent of the cell may send; all others are a voter's. */
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
        return true;
    default:
        return false;
    }
}

/* In whose name a request is made; NULL: it is none. */
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

static void tell(struct driver *driver, const struct message *message, const char *why)
{
    const struct driver_operations *operations = &driver->config.operations;
    struct action_log log = {.event = "message_refused", .agent = message->from};
    log.number = log_limits_add(&driver->refusals, &message->from, driver_clock_ns(driver));
    if (log.number == 0) {
        return;
    }
    snprintf(log.text, sizeof(log.text), "what says to be this agent %s: not read", why);
    operations->log(operations->arg, &log);
}

bool driver_may_say(struct driver *driver, const struct message *message)
{
    bool voter = driver_find_voter(driver, &message->from) < driver->config.voter_count;
    bool for_another = message->to.length > 0 && !driver_is_self(driver, &message->to);
    const struct message_agent *who = asker(message);
    if (!voter && !is_anyones(message->kind)) {
        tell(driver, message, "says what only a voter may");
        return false;
    }
    if (who != NULL && !same_agent(who, &message->from) && (!voter || for_another)) {
        tell(driver, message, "asks in another one's name");
        return false;
    }
    return true;
}
