/*
 * What makes sense in a message, whoever sent it (core/quorum.h: message_valid). Only what the
 * core would trip over is checked: whether the sender may say so is the transport's affair, whether
 * it is true the protocol's.
 */
#include <string.h>

#include "core/quorum.h"
#include "proto/check.h"
#include "state.h"

void message_name_set(struct message_name *name, const void *bytes, size_t length)
{
    HF_CHECK(length > 0 && length <= MESSAGE_NAME_MAX);
    memset(name, 0, sizeof(*name));
    name->length = (uint8_t)length;
    memcpy(name->bytes, bytes, length);
}

void message_agent_set(struct message_agent *agent, const void *text, size_t length)
{
    HF_CHECK(length > 0 && length <= MESSAGE_AGENT_MAX);
    memset(agent, 0, sizeof(*agent));
    agent->length = (uint8_t)length;
    memcpy(agent->text, text, length);
}

/* The characters that CONTRACTS allows, zero-padded. */
bool agent_name_valid(const struct message_agent *agent)
{
    if (agent->length == 0 || agent->length > MESSAGE_AGENT_MAX) {
        return false;
    }
    for (uint32_t i = 0; i < MESSAGE_AGENT_MAX; i++) {
        char c = agent->text[i];
        bool word = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
        if (i < agent->length ? !word : c != 0) {
            return false;
        }
    }
    return true;
}

static bool ballot_valid(uint64_t ballot)
{
    uint64_t voter = ballot & 0xffff;
    return ballot < MESSAGE_BALLOT_LIMIT && ballot >> 16 != 0 && voter != 0;
}

bool order_valid(struct message_order order)
{
    return ballot_valid(order.ballot) && order.sequence > 0 &&
           order.sequence < MESSAGE_SEQUENCE_LIMIT;
}

static bool higher_valid(uint64_t higher)
{
    return higher == 0 || ballot_valid(higher);
}

static bool grant_valid(const struct message_value *value)
{
    return agent_name_valid(&value->owner) && value->epoch > 0 &&
           (value->mode == MESSAGE_MODE_SHARED || value->mode == MESSAGE_MODE_EXCLUSIVE) &&
           order_valid(value->version) && value->token_first < MESSAGE_TOKEN_LIMIT &&
           value->token_last >= value->token_first &&
           value->token_last <= message_token_range_last(value->token_first);
}

bool value_valid(const struct message_value *value)
{
    if (value->token_first == 0 || value->token_first > MESSAGE_TOKEN_LIMIT ||
        value->lock_delay_ms > MESSAGE_LOCK_DELAY_MAX_MS || value->closing != 0 ||
        value->permits != 1 || value->successor.length != 0) {
        return false;
    }
    if (value->mode == MESSAGE_MODE_NONE) {
        return value->owner.length == 0 && value->token_last == 0 &&
               ((value->version.ballot == 0 && value->version.sequence == 0) ||
                order_valid(value->version));
    }
    return grant_valid(value);
}

/* A request of a host: who asks, and for which name. */
static bool request_valid(const struct message *message, const struct message_agent *agent,
                          uint32_t epoch, const struct message_name *name)
{
    return agent_name_valid(agent) && memcmp(agent, &message->from, sizeof(*agent)) == 0 &&
           epoch > 0 && name->length > 0;
}

static bool session_valid(const struct message_agent *agent, uint32_t epoch)
{
    return agent_name_valid(agent) && epoch > 0;
}

static bool round_valid(const struct message *message)
{
    switch (message->kind) {
    case MESSAGE_PREPARE:
        return ballot_valid(message->as.prepare.ballot);
    case MESSAGE_PROMISE:
        return ballot_valid(message->as.promise.ballot) && higher_valid(message->as.promise.higher);
    case MESSAGE_READ:
        return ballot_valid(message->as.read.ballot) && message->as.read.name.length > 0;
    case MESSAGE_VALUE:
        return ballot_valid(message->as.value.ballot) && higher_valid(message->as.value.higher) &&
               message->as.value.name.length > 0 &&
               (!message->as.value.known ||
                (order_valid(message->as.value.accepted) && value_valid(&message->as.value.value)));
    case MESSAGE_ACCEPT:
        return order_valid(message->as.accept.order) && message->as.accept.name.length > 0 &&
               value_valid(&message->as.accept.value);
    case MESSAGE_ACCEPTED:
        return order_valid(message->as.accepted.order) &&
               higher_valid(message->as.accepted.higher) && message->as.accepted.name.length > 0;
    default:
        return false;
    }
}

static bool host_valid(const struct message *message)
{
    const struct message_acquire *acquire = &message->as.acquire;
    const struct message_amend *amend = &message->as.amend;
    const struct message_give_back *give_back = &message->as.give_back;
    const struct message_renew *renew = &message->as.renew;

    switch (message->kind) {
    case MESSAGE_RENEW:
        return session_valid(&renew->agent, renew->epoch) &&
               memcmp(&renew->agent, &message->from, sizeof(renew->agent)) == 0 &&
               renew->advertise[MESSAGE_ADDRESS_MAX - 1] == 0;
    case MESSAGE_ACQUIRE:
        return request_valid(message, &acquire->agent, acquire->epoch, &acquire->name) &&
               (acquire->mode == MESSAGE_MODE_SHARED || acquire->mode == MESSAGE_MODE_EXCLUSIVE) &&
               acquire->lock_delay_ms <= MESSAGE_LOCK_DELAY_MAX_MS;
    case MESSAGE_AMEND:
        return request_valid(message, &amend->agent, amend->epoch, &amend->name) &&
               amend->mode <= MESSAGE_MODE_EXCLUSIVE && order_valid(amend->version) &&
               amend->lock_delay_ms <= MESSAGE_LOCK_DELAY_MAX_MS &&
               amend->token_last < MESSAGE_TOKEN_LIMIT;
    case MESSAGE_GIVE_BACK:
        return request_valid(message, &give_back->agent, give_back->epoch, &give_back->name) &&
               order_valid(give_back->version) && give_back->token_used < MESSAGE_TOKEN_LIMIT;
    default:
        return false;
    }
}

bool message_valid(const struct message *message)
{
    if (!agent_name_valid(&message->from)) {
        return false;
    }
    switch (message->kind) {
    case MESSAGE_PREPARE:
    case MESSAGE_PROMISE:
    case MESSAGE_READ:
    case MESSAGE_VALUE:
    case MESSAGE_ACCEPT:
    case MESSAGE_ACCEPTED:
        return round_valid(message);
    case MESSAGE_POLL:
    case MESSAGE_MARK:
        return session_valid(&message->as.session.agent, message->as.session.epoch);
    case MESSAGE_POLLED:
    case MESSAGE_MARKED:
        return session_valid(&message->as.session_answer.agent, message->as.session_answer.epoch) &&
               message->as.session_answer.wait_ns >= 0;
    case MESSAGE_RENEW:
    case MESSAGE_ACQUIRE:
    case MESSAGE_AMEND:
    case MESSAGE_GIVE_BACK:
        return host_valid(message);
    case MESSAGE_RENEW_ACK:
        return session_valid(&message->as.renew_ack.agent, message->as.renew_ack.epoch);
    case MESSAGE_GRANT:
    case MESSAGE_AMENDED:
        return session_valid(&message->as.grant.agent, message->as.grant.epoch) &&
               message->as.grant.name.length > 0 && order_valid(message->as.grant.version) &&
               message->as.grant.token_first > 0 &&
               message->as.grant.token_first < MESSAGE_TOKEN_LIMIT &&
               message->as.grant.token_last >= message->as.grant.token_first &&
               message->as.grant.token_last <=
                   message_token_range_last(message->as.grant.token_first) &&
               (message->as.grant.mode == MESSAGE_MODE_SHARED ||
                message->as.grant.mode == MESSAGE_MODE_EXCLUSIVE) &&
               message->as.grant.lock_delay_ms <= MESSAGE_LOCK_DELAY_MAX_MS;
    case MESSAGE_GIVE_BACK_ACK:
    case MESSAGE_RECALL:
        return session_valid(&message->as.version.agent, message->as.version.epoch) &&
               message->as.version.name.length > 0 && order_valid(message->as.version.version);
    case MESSAGE_REFUSED:
        return session_valid(&message->as.refused.agent, message->as.refused.epoch) &&
               message->as.refused.reason >= MESSAGE_REFUSED_FULL &&
               message->as.refused.reason <= MESSAGE_REFUSED_TOKENS;
    default:
        return false;
    }
}
