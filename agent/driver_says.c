/* Who may say what to whom: see driver_private.h. */
#include <string.h>

#include "driver_private.h"

/* Those that may be passed on for others: requests of hosts, and their answers. */
static bool is_relayed(enum message_kind kind)
{
    switch (kind) {
    case MESSAGE_ACQUIRE:
    case MESSAGE_AMEND:
    case MESSAGE_GIVE_BACK:
    case MESSAGE_BREAK:
    case MESSAGE_GRANT:
    case MESSAGE_AMENDED:
    case MESSAGE_GIVE_BACK_ACK:
    case MESSAGE_RECALL:
    case MESSAGE_REFUSED:
    case MESSAGE_BREAK_HOLD:
    case MESSAGE_BROKEN:
    case MESSAGE_CHECK:
    case MESSAGE_CHECKED:
        return true;
    default:
        return false;
    }
}

bool driver_is_anyones(enum message_kind kind)
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

bool driver_may_pass_on(const struct message *message)
{
    const struct message_agent *who = asker(message);
    return !message->relayed && is_relayed(message->kind) &&
           (who == NULL || memcmp(who, &message->from, sizeof(*who)) == 0);
}
