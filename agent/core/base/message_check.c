/* Checks of messages: see core/base/message_check.h. */
#include "core/base/message_check.h"

#include <string.h>

#include "proto/check.h"

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

/* Returns whether the name has only characters that a configuration allows, and zeros after its
 * length. */
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

static bool order_or_none_valid(struct message_order order)
{
    return (order.ballot == 0 && order.sequence == 0) || order_valid(order);
}

static bool higher_valid(uint64_t higher)
{
    return higher == 0 || ballot_valid(higher);
}

static bool checkpoint_valid(const struct message_checkpoint *checkpoint)
{
    bool none = checkpoint->order.ballot == 0 && checkpoint->order.sequence == 0;
    return (none || order_valid(checkpoint->order)) && checkpoint->floor < MESSAGE_TOKEN_LIMIT;
}

/* Checks the first and the last token of a grant. An exclusive grant has a range of tokens, a
 * shared grant has one token. */
static bool tokens_valid(uint8_t mode, uint64_t first, uint64_t last)
{
    if (first == 0 || first >= MESSAGE_TOKEN_LIMIT) {
        return false;
    }
    return mode == MESSAGE_MODE_SHARED
               ? last == first
               : last >= first && last <= message_token_range_last(first, MESSAGE_TOKEN_RANGE);
}

static bool mode_valid(uint8_t mode)
{
    return mode == MESSAGE_MODE_SHARED || mode == MESSAGE_MODE_EXCLUSIVE;
}

static bool epoch_valid(uint32_t epoch)
{
    return epoch > 0 && epoch < MESSAGE_EPOCH_LIMIT;
}

/* Checks the shares of a shared value. A host has at most one share. The value's version is the
 * highest version of its shares. */
static bool shares_valid(const struct message_value *value)
{
    bool newest = false;
    if (value->share_count == 0 || value->share_count > MESSAGE_SHARES_MAX) {
        return false;
    }
    for (uint32_t i = 0; i < value->share_count; i++) {
        const struct message_share *share = &value->shares[i];
        if (!agent_name_valid(&share->agent) || !epoch_valid(share->epoch) ||
            !order_valid(share->version) || message_order_before(value->version, share->version)) {
            return false;
        }
        newest = newest || message_order_equal(share->version, value->version);
        for (uint32_t k = 0; k < i; k++) {
            if (memcmp(&share->agent, &value->shares[k].agent, sizeof(share->agent)) == 0) {
                return false;
            }
        }
    }
    return newest;
}

bool value_valid(const struct message_value *value)
{
    if (value->token_first == 0 || value->token_first > MESSAGE_TOKEN_LIMIT ||
        value->lock_delay_ms > MESSAGE_LOCK_DELAY_MAX_MS || value->closing != 0 ||
        value->permits != 1 || value->successor.length != 0) {
        return false;
    }
    switch (value->mode) {
    case MESSAGE_MODE_NONE:
        return value->owner.length == 0 && value->share_count == 0 && value->token_last == 0 &&
               ((value->version.ballot == 0 && value->version.sequence == 0) ||
                order_valid(value->version));
    case MESSAGE_MODE_SHARED:
        return value->owner.length == 0 && value->epoch == 0 && shares_valid(value) &&
               tokens_valid(value->mode, value->token_first, value->token_last);
    case MESSAGE_MODE_EXCLUSIVE:
        return agent_name_valid(&value->owner) && epoch_valid(value->epoch) &&
               value->share_count == 0 && order_valid(value->version) &&
               tokens_valid(value->mode, value->token_first, value->token_last);
    default:
        return false;
    }
}

static bool session_valid(const struct message_agent *agent, uint32_t epoch)
{
    return agent_name_valid(agent) && epoch_valid(epoch);
}

static bool address_valid(const char *address)
{
    return address[MESSAGE_ADDRESS_MAX - 1] == 0;
}

/* ---- Between voters ---- */

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
               checkpoint_valid(&message->as.value.checkpoint) &&
               message->as.value.name.length > 0 &&
               (!message->as.value.known ||
                (order_valid(message->as.value.accepted) && value_valid(&message->as.value.value)));
    case MESSAGE_ACCEPT:
        return order_valid(message->as.accept.order) && message->as.accept.name.length > 0 &&
               value_valid(&message->as.accept.value);
    case MESSAGE_ACCEPTED:
        return order_valid(message->as.accepted.order) &&
               higher_valid(message->as.accepted.higher) && message->as.accepted.name.length > 0;
    case MESSAGE_CHECKPOINT:
        return ballot_valid(message->as.checkpoint.ballot) &&
               order_valid(message->as.checkpoint.checkpoint.order) &&
               checkpoint_valid(&message->as.checkpoint.checkpoint);
    case MESSAGE_CHECKPOINTED:
        return ballot_valid(message->as.checkpointed.ballot) &&
               order_valid(message->as.checkpointed.order) &&
               higher_valid(message->as.checkpointed.higher);
    default:
        return false;
    }
}

static bool synced_valid(const struct message_synced *synced)
{
    if (!checkpoint_valid(&synced->checkpoint)) {
        return false;
    }
    switch (synced->kind) {
    case MESSAGE_SYNCED_REGISTER:
        return synced->what == MESSAGE_SYNC_REGISTERS && synced->name.length > 0 &&
               order_valid(synced->accepted) && value_valid(&synced->value);
    case MESSAGE_SYNCED_MARK:
        return synced->what == MESSAGE_SYNC_MARKS &&
               session_valid(&synced->mark.agent, synced->mark.epoch);
    case MESSAGE_SYNCED_SAME:
    case MESSAGE_SYNCED_MORE:
    case MESSAGE_SYNCED_END:
        return synced->what == MESSAGE_SYNC_REGISTERS || synced->what == MESSAGE_SYNC_MARKS;
    default:
        return false;
    }
}

static bool rules_valid(const struct message_rules *rules)
{
    if (rules->voter_count == 0 || rules->voter_count > MESSAGE_VOTERS_MAX) {
        return false;
    }
    for (uint32_t i = 0; i < rules->voter_count; i++) {
        if (!agent_name_valid(&rules->voters[i])) {
            return false;
        }
    }
    return true;
}

/* A voter persists the commit and the generations of a HELLO. So each of them must be below its
 * limit. Otherwise the voter could not load its store again. */
static bool stores_valid(const struct message_hello *hello)
{
    bool valid = hello->seen_commit < MESSAGE_COMMIT_LIMIT &&
                 hello->seen.generation < MESSAGE_GENERATION_LIMIT;
    for (uint32_t i = 0; i < hello->rules.voter_count; i++) {
        valid = valid && hello->members[i].generation < MESSAGE_GENERATION_LIMIT;
    }
    return valid;
}

/* Checks a message in which a voter reports about itself. */
static bool voter_valid(const struct message *message)
{
    const struct message_hello *hello = &message->as.hello;
    const struct message_sync *sync = &message->as.sync;

    switch (message->kind) {
    case MESSAGE_HEARTBEAT:
        return true;
    case MESSAGE_HELLO:
    case MESSAGE_HELLO_ACK:
        return hello->status < MESSAGE_STATUS_END && rules_valid(&hello->rules) &&
               address_valid(hello->advertise) && stores_valid(hello);
    case MESSAGE_SYNC:
        return (sync->what == MESSAGE_SYNC_REGISTERS || sync->what == MESSAGE_SYNC_MARKS) &&
               checkpoint_valid(&sync->checkpoint);
    case MESSAGE_SYNCED:
        return synced_valid(&message->as.synced);
    case MESSAGE_POLL:
    case MESSAGE_MARK:
        return session_valid(&message->as.session.agent, message->as.session.epoch);
    case MESSAGE_POLLED:
    case MESSAGE_MARKED:
        return session_valid(&message->as.session_answer.agent, message->as.session_answer.epoch) &&
               message->as.session_answer.wait_ns >= 0;
    case MESSAGE_OWNER:
        return ballot_valid(message->as.owner.ballot);
    default:
        return false;
    }
}

/* ---- Changing the voters ---- */

/* Checks what the record says about its difference from the previous record. */
static bool act_valid(const struct message_voters *voters)
{
    if (voters->number == 1) {
        return voters->act == 0 && voters->changed.length == 0;
    }
    bool named = message_voters_find(voters, &voters->changed) < voters->count;
    return voters->act >= MESSAGE_MEMBER_ADD && voters->act < MESSAGE_MEMBER_END &&
           agent_name_valid(&voters->changed) && named == (voters->act != MESSAGE_MEMBER_REMOVE);
}

bool voters_valid(const struct message_voters *voters)
{
    if (voters->count == 0 || voters->count > MESSAGE_VOTERS_MAX || voters->number == 0 ||
        !act_valid(voters)) {
        return false;
    }
    for (uint32_t i = 0; i < voters->count; i++) {
        const struct message_voter *voter = &voters->of[i];
        if (!agent_name_valid(&voter->name) || voter->ballot_id == 0 ||
            voter->ballot_id >= voters->next_ballot_id || !address_valid(voter->address) ||
            (i > 0 && !message_agent_before(&voters->of[i - 1].name, &voter->name))) {
            return false;
        }
        for (uint32_t k = 0; k < i; k++) {
            if (voters->of[k].ballot_id == voter->ballot_id) {
                return false;
            }
        }
    }
    return true;
}

/* Checks a message about the register in which a record of voters is decided. The header has the
 * number of the previous record. */
static bool change_valid(const struct message *message)
{
    const struct message_change *change = &message->as.change;
    bool valid = ballot_valid(change->ballot) && higher_valid(change->higher) &&
                 change->number > 1 && change->number == message->number + 1;
    switch (message->kind) {
    case MESSAGE_CHANGE_PREPARE:
        return valid && (change->voters.count == 0 || (voters_valid(&change->voters) &&
                                                       change->voters.number == change->number));
    case MESSAGE_CHANGE_PROMISE:
        return valid && higher_valid(change->accepted) &&
               (change->accepted == 0 ||
                (voters_valid(&change->voters) && change->voters.number == change->number));
    case MESSAGE_CHANGE_ACCEPT:
        return valid && voters_valid(&change->voters) && change->voters.number == change->number;
    default:
        return valid;
    }
}

static bool member_asked_valid(const struct message_member_asked *asked)
{
    bool has_address = asked->address[0] != 0;
    return agent_name_valid(&asked->agent) && agent_name_valid(&asked->voter) &&
           address_valid(asked->address) && asked->act >= MESSAGE_MEMBER_ADD &&
           asked->act < MESSAGE_MEMBER_END && (asked->act == MESSAGE_MEMBER_REMOVE) != has_address;
}

static bool voters_message_valid(const struct message *message)
{
    const struct message_membered *membered = &message->as.membered;

    switch (message->kind) {
    case MESSAGE_CHANGE_PREPARE:
    case MESSAGE_CHANGE_PROMISE:
    case MESSAGE_CHANGE_ACCEPT:
    case MESSAGE_CHANGE_ACCEPTED:
        return change_valid(message);
    case MESSAGE_MEMBER:
        return member_asked_valid(&message->as.member) &&
               memcmp(&message->as.member.agent, &message->from, sizeof(message->from)) == 0;
    case MESSAGE_LEARNED:
        return message->as.learned.copied <= message->as.learned.total;
    case MESSAGE_VOTERS:
    case MESSAGE_LEARN:
        return voters_valid(&message->as.told.voters);
    case MESSAGE_ASK_VOTERS:
        return true;
    case MESSAGE_MEMBERED:
        return agent_name_valid(&membered->agent) && membered->stage >= MESSAGE_CHANGE_REFUSED &&
               membered->stage < MESSAGE_CHANGE_END &&
               membered->reason < MESSAGE_CHANGE_REASON_END &&
               (membered->stage != MESSAGE_CHANGE_REFUSED || membered->reason != 0) &&
               (membered->subject.length == 0 || agent_name_valid(&membered->subject));
    default:
        return false;
    }
}

/* ---- From and to hosts ---- */

/* Checks a request, its agent and its name. A RENEW must come from its agent. For all other
 * requests the receiver decides whether the sender may send a request of that agent: a voter may,
 * because voters forward requests. */
static bool request_valid(const struct message *message)
{
    const struct message_acquire *acquire = &message->as.acquire;
    const struct message_amend *amend = &message->as.amend;
    const struct message_give_back *give_back = &message->as.give_back;
    const struct message_break *broken = &message->as.break_lock;
    const struct message_renew *renew = &message->as.renew;

    switch (message->kind) {
    case MESSAGE_RENEW:
        return agent_name_valid(&renew->agent) &&
               renew->epoch < MESSAGE_EPOCH_LIMIT && /* epoch 0 asks which epochs the agent had */
               memcmp(&renew->agent, &message->from, sizeof(renew->agent)) == 0 &&
               address_valid(renew->advertise);
    case MESSAGE_ACQUIRE:
        return session_valid(&acquire->agent, acquire->epoch) && acquire->name.length > 0 &&
               mode_valid(acquire->mode) && acquire->tries <= MESSAGE_TRIES_ONLY &&
               acquire->lock_delay_ms <= MESSAGE_LOCK_DELAY_MAX_MS;
    case MESSAGE_AMEND:
        return session_valid(&amend->agent, amend->epoch) && amend->name.length > 0 &&
               amend->mode <= MESSAGE_MODE_EXCLUSIVE && order_valid(amend->version) &&
               amend->lock_delay_ms <= MESSAGE_LOCK_DELAY_MAX_MS &&
               amend->token_last < MESSAGE_TOKEN_LIMIT && amend->token_used < MESSAGE_TOKEN_LIMIT;
    case MESSAGE_GIVE_BACK:
        return session_valid(&give_back->agent, give_back->epoch) && give_back->name.length > 0 &&
               order_valid(give_back->version) && give_back->token_used < MESSAGE_TOKEN_LIMIT;
    case MESSAGE_BREAK:
        return agent_name_valid(&broken->agent) && broken->name.length > 0 &&
               order_or_none_valid(broken->meant);
    case MESSAGE_BREAK_HOLD:
        return agent_name_valid(&broken->agent) && broken->name.length > 0 &&
               order_valid(broken->version) && order_or_none_valid(broken->meant);
    default:
        return false;
    }
}

static bool hold_valid(const struct message_hold *hold)
{
    return hold->pid >= -1 && hold->pid <= INT32_MAX && hold->uid >= -1 &&
           hold->uid <= UINT32_MAX && hold->held_ms >= -1 && hold->token < MESSAGE_TOKEN_LIMIT &&
           hold->command_size <= MESSAGE_COMMAND_MAX;
}

static bool broken_valid(const struct message_broken *broken)
{
    bool valid = agent_name_valid(&broken->agent) && broken->result <= 0 &&
                 broken->part < MESSAGE_BROKEN_END && order_or_none_valid(broken->meant) &&
                 broken->count <= message_broken_most((enum message_broken_part)broken->part) &&
                 (broken->part == MESSAGE_BROKEN_HOLDS) == (broken->owner.length > 0) &&
                 (broken->owner.length == 0 || agent_name_valid(&broken->owner)) &&
                 (broken->part != MESSAGE_BROKEN_HOLDS || broken->total >= broken->count);
    for (uint32_t i = 0; valid && i < broken->count; i++) {
        valid = broken->part == MESSAGE_BROKEN_OWNERS ? agent_name_valid(&broken->items.owners[i])
                                                      : hold_valid(&broken->items.holds[i]);
    }
    return valid && (broken->part != MESSAGE_BROKEN_HOLDS ||
                     message_broken_notes_size(broken) <= MESSAGE_NOTES_MAX);
}

static bool answer_valid(const struct message *message)
{
    const struct message_grant *grant = &message->as.grant;
    const struct message_version *version = &message->as.version;
    const struct message_refused *refused = &message->as.refused;
    const struct message_outcome *outcome = &message->as.outcome;
    const struct message_check *check = &message->as.check;

    switch (message->kind) {
    case MESSAGE_RENEW_ACK:
        return agent_name_valid(&message->as.renew_ack.agent) &&
               message->as.renew_ack.epoch < MESSAGE_EPOCH_LIMIT &&
               message->as.renew_ack.ended_epoch < MESSAGE_EPOCH_LIMIT;
    case MESSAGE_GRANT:
    case MESSAGE_AMENDED:
        return session_valid(&grant->agent, grant->epoch) && grant->name.length > 0 &&
               order_valid(grant->version) && mode_valid(grant->mode) &&
               tokens_valid(grant->mode, grant->token_first, grant->token_last) &&
               grant->lock_delay_ms <= MESSAGE_LOCK_DELAY_MAX_MS;
    case MESSAGE_GIVE_BACK_ACK:
    case MESSAGE_RECALL:
        return session_valid(&version->agent, version->epoch) && version->name.length > 0 &&
               order_valid(version->version) && version->recall < MESSAGE_RECALL_END;
    case MESSAGE_REFUSED: /* the epoch may be 0 in the answer to a BREAK */
        return agent_name_valid(&refused->agent) && refused->reason >= MESSAGE_REFUSED_FULL &&
               refused->reason < MESSAGE_REFUSED_END &&
               (refused->owner.length == 0 || agent_name_valid(&refused->owner));
    case MESSAGE_BROKEN:
        return broken_valid(&message->as.broken);
    case MESSAGE_CHECKED:
        return agent_name_valid(&outcome->agent) && outcome->result <= 0;
    case MESSAGE_CHECK:
        return agent_name_valid(&check->agent) && check->name.length > 0 && check->token > 0 &&
               check->token < MESSAGE_TOKEN_LIMIT && epoch_valid(check->epoch);
    default:
        return false;
    }
}

static bool envelope_valid(const struct message *message)
{
    return message->to.length == 0 ||
           (message_is_relayed(message->kind) && agent_name_valid(&message->to));
}

bool message_valid(const struct message *message)
{
    if (!agent_name_valid(&message->from) || !envelope_valid(message) ||
        message->commit >= MESSAGE_COMMIT_LIMIT) {
        return false;
    }
    switch (message->kind) {
    case MESSAGE_PREPARE:
    case MESSAGE_PROMISE:
    case MESSAGE_READ:
    case MESSAGE_VALUE:
    case MESSAGE_ACCEPT:
    case MESSAGE_ACCEPTED:
    case MESSAGE_CHECKPOINT:
    case MESSAGE_CHECKPOINTED:
        return round_valid(message);
    case MESSAGE_HEARTBEAT:
    case MESSAGE_HELLO:
    case MESSAGE_HELLO_ACK:
    case MESSAGE_SYNC:
    case MESSAGE_SYNCED:
    case MESSAGE_POLL:
    case MESSAGE_POLLED:
    case MESSAGE_MARK:
    case MESSAGE_MARKED:
    case MESSAGE_OWNER:
        return voter_valid(message);
    case MESSAGE_RENEW:
    case MESSAGE_ACQUIRE:
    case MESSAGE_AMEND:
    case MESSAGE_GIVE_BACK:
    case MESSAGE_BREAK:
    case MESSAGE_BREAK_HOLD:
        return request_valid(message);
    case MESSAGE_RENEW_ACK:
    case MESSAGE_GRANT:
    case MESSAGE_AMENDED:
    case MESSAGE_GIVE_BACK_ACK:
    case MESSAGE_RECALL:
    case MESSAGE_REFUSED:
    case MESSAGE_BROKEN:
    case MESSAGE_CHECK:
    case MESSAGE_CHECKED:
        return answer_valid(message);
    case MESSAGE_CHANGE_PREPARE:
    case MESSAGE_CHANGE_PROMISE:
    case MESSAGE_CHANGE_ACCEPT:
    case MESSAGE_CHANGE_ACCEPTED:
    case MESSAGE_MEMBER:
    case MESSAGE_LEARNED:
    case MESSAGE_VOTERS:
    case MESSAGE_ASK_VOTERS:
    case MESSAGE_LEARN:
    case MESSAGE_MEMBERED:
        return voters_message_valid(message);
    case MESSAGE_VOTER_END:
    case MESSAGE_KIND_END:
        return false;
    }
    return false;
}
