/* One step of the host core: see hub.h. */
#include "hub.h"

struct host_action *hub_emit(struct host_actions *actions, enum host_action_kind kind)
{
    HF_CHECK(actions->count < actions->capacity);
    struct host_action *action = &actions->items[actions->count++];
    /* The message's array of shares is not zeroed, because no message of the host core has
     * shares. */
    memset(action, 0, offsetof(struct host_action, as.send.message) + MESSAGE_BASE_SIZE);
    action->kind = kind;
    return action;
}

struct message *hub_send(struct host_actions *actions, enum message_kind kind, uint32_t to,
                         uint8_t relay)
{
    struct host_action *action = hub_emit(actions, HOST_SEND);
    action->as.send.to = to;
    action->as.send.relay = relay;
    action->as.send.message.kind = kind;
    return &action->as.send.message;
}

struct host_action *hub_log(struct host_actions *actions, const char *event, int64_t number)
{
    struct host_action *action = hub_emit(actions, HOST_LOG);
    action->as.log.event = event;
    action->as.log.slot = UINT32_MAX;
    action->as.log.number = number;
    return action;
}

bool hub_has_room(const struct host_actions *actions)
{
    return actions->count + HUB_PIECE_ACTIONS <= actions->capacity &&
           actions->output_used + HUB_PIECE_OUTPUT <= actions->output_size;
}

bool hub_lease_is_safe(const struct host *host)
{
    return !host->lease.lost && host->lease.deadline_ns > host->now_ns;
}

uint32_t hub_session(const struct host *host)
{
    return host->started ? host->lease.epoch : host->config.continued_epoch;
}

int64_t hub_counted_long_ns(const struct host *host, uint32_t delay_ms)
{
    return (int64_t)delay_ms * MS / 100 * host->config.max_drift_percent;
}

void hub_walk(struct host *host, uint32_t looked_at)
{
    host->walked += looked_at;
}

uint32_t hub_pieces(struct host *host, uint32_t before)
{
    uint32_t pieces = 1 + (host->walked - before) / HUB_WALK_PIECE;
    host->walked = before;
    return pieces;
}

uint64_t hub_next_request(struct host *host)
{
    return ++host->last_request;
}

uint32_t hub_text_size(const char *text, size_t max)
{
    const char *end = memchr(text, '\0', max);
    return (uint32_t)(end ? (size_t)(end - text) : max);
}
