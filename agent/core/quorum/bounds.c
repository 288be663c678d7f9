/*
 * The numbers that a message may name. See bounds.h.
 *
 * Each bound is used up only after hundreds of such jumps, each with a restart in between.
 *
 * One voter may have been driven to its bound where another one's is a little lower, which then
 * does not hear it. So for each second in which such messages come the bound rises somewhat, until
 * they are read. It does not rise by itself: voters that started at different times would allow
 * different numbers, and a number in between would part them for as long as that.
 *
 * A voter that starts over knows nothing, and the others name rounds to it: half of all there are,
 * until it votes.
 */
#include "bounds.h"

#include <string.h>

#include "core/base/log_limit.h"
#include "proto/check.h"

enum {
    ROUNDS_FREE = 1 << 24,      /* of 2^32 */
    ROUNDS_A_SECOND = 64,       /* in which there were some beyond */
    EPOCHS_FREE = 1 << 20,      /* of 2^24; and one for each such second */
    GENERATIONS_FREE = 1 << 16, /* of 2^31: how often an operator had a store start over */
    AGAIN_MS = 30000,           /* between two messages that come one after the other */
};

/* The numbers known when this voter started, or began to vote. */
struct bounds {
    uint32_t round;
    uint32_t generations[MESSAGE_VOTERS_MAX];
    int64_t pressed_ns; /* for how long messages beyond came, one after the other */
    int64_t refused_ns; /* when the last of them came; INT64_MIN: none did */
    struct log_limits told;
    uint32_t *epochs_before; /* by agent: the highest known at this voter's start */
};

struct bounds *bounds_lay_out(struct arena *arena, const struct quorum_limits *limits)
{
    struct bounds nowhere;
    struct bounds *bounds = arena_take(arena, 1, sizeof(*bounds));
    struct bounds *into = bounds != NULL ? bounds : &nowhere;
    into->epochs_before = arena_take(arena, limits->agents, sizeof(uint32_t));
    return bounds;
}

static uint32_t round_of(uint64_t ballot)
{
    return (uint32_t)(ballot >> 16);
}

void bounds_rounds(struct quorum *quorum)
{
    struct bounds *bounds = quorum->bounds;
    bounds->round = ballots_round(quorum);
    for (uint32_t p = 0; p < MESSAGE_PARTITIONS; p++) {
        uint32_t promised = round_of(registers_promised(quorum, p));
        bounds->round = promised > bounds->round ? promised : bounds->round;
    }
    bounds->pressed_ns = 0;
}

void bounds_start(struct quorum *quorum)
{
    quorum->bounds->refused_ns = INT64_MIN;
    bounds_rounds(quorum);
    for (uint32_t i = 0; i < agents_count(quorum); i++) {
        uint32_t marked = sessions_marked_epoch(quorum, i);
        uint32_t granted = records_granted_epoch(quorum, i);
        quorum->bounds->epochs_before[i] = marked > granted ? marked : granted;
    }
    for (uint32_t i = 0; i < quorum->config->voter_count; i++) {
        quorum->bounds->generations[i] = members_generation(quorum, i);
    }
}

static uint64_t seconds(const struct quorum *quorum)
{
    return (uint64_t)quorum->bounds->pressed_ns / (1000 * (uint64_t)MS_NS);
}

/* A message is beyond. Honest agents repeat what is not answered, far more often than this. */
static void press(struct quorum *quorum)
{
    struct bounds *bounds = quorum->bounds;
    bool again = bounds->refused_ns != INT64_MIN &&
                 step_now_ns(quorum) - bounds->refused_ns < AGAIN_MS * MS_NS;
    bounds->pressed_ns += again ? step_now_ns(quorum) - bounds->refused_ns : 0;
    bounds->refused_ns = step_now_ns(quorum);
}

static uint64_t higher(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* The highest ballot that the message names, to be kept or to be outdone. */
static uint64_t ballot_of(const struct message *message)
{
    const struct message_read_value *read = &message->as.value;
    const struct message_pulled *pulled = &message->as.pulled;
    switch ((int)message->kind) {
    case MESSAGE_PREPARE:
        return message->as.prepare.ballot;
    case MESSAGE_PROMISE:
        return message->as.promise.higher;
    case MESSAGE_READ:
        return message->as.read.ballot;
    case MESSAGE_VALUE:
        return higher(higher(read->higher, read->checkpoint.order.ballot),
                      read->known ? higher(read->accepted.ballot, read->value.version.ballot) : 0);
    case MESSAGE_ACCEPT:
        return higher(message->as.accept.order.ballot, message->as.accept.value.version.ballot);
    case MESSAGE_ACCEPTED:
        return message->as.accepted.higher;
    case MESSAGE_CHECKPOINT:
        return higher(message->as.checkpoint.ballot,
                      message->as.checkpoint.checkpoint.order.ballot);
    case MESSAGE_CHECKPOINTED:
        return message->as.checkpointed.higher;
    case MESSAGE_PULLED:
        return higher(pulled->checkpoint.order.ballot,
                      pulled->kind == MESSAGE_PULLED_REGISTER
                          ? higher(pulled->accepted.ballot, pulled->value.version.ballot)
                          : 0);
    default:
        return 0;
    }
}

static bool round_possible(const struct quorum *quorum, uint32_t round)
{
    if (members_status(quorum) == MESSAGE_STANDING_REJOINING) {
        return round <= UINT32_MAX / 2 || round <= quorum->bounds->round;
    }
    uint64_t free = ROUNDS_FREE + ROUNDS_A_SECOND * seconds(quorum);
    return round <= quorum->bounds->round + free;
}

static bool epoch_possible(const struct quorum *quorum, const struct message_agent *name,
                           uint32_t epoch)
{
    uint32_t index = 0;
    uint64_t before = 0;
    if (agents_find(quorum, name, &index)) {
        before = quorum->bounds->epochs_before[index];
    }
    return epoch <= before + EPOCHS_FREE + seconds(quorum);
}

/* The highest epoch that makes no sense; 0: none. */
static uint32_t wrong_in_value(const struct quorum *quorum, const struct message_value *value)
{
    if (value->mode == MESSAGE_MODE_EXCLUSIVE) {
        return epoch_possible(quorum, &value->owner, value->epoch) ? 0 : value->epoch;
    }
    uint32_t count = value->mode == MESSAGE_MODE_SHARED ? value->share_count : 0;
    for (uint32_t i = 0; i < count; i++) {
        const struct message_share *share = &value->shares[i];
        if (!epoch_possible(quorum, &share->agent, share->epoch)) {
            return share->epoch;
        }
    }
    return 0;
}

static uint32_t wrong_session(const struct quorum *quorum, const struct message_agent *agent,
                              uint32_t epoch)
{
    return epoch_possible(quorum, agent, epoch) ? 0 : epoch;
}

/* A voter's messages to itself (nobody else can send them: driver_received()) come from its own
 * store, or from what it has read already. The only voter of a cell would never serve again if it
 * did not believe its own host's epoch. */
static uint32_t wrong_epoch(const struct quorum *quorum, const struct message *message)
{
    const struct message_pulled *pulled = &message->as.pulled;
    const struct message_agent *self = &quorum->config->voters[quorum->config->self];
    if (memcmp(&message->from, self, sizeof(*self)) == 0) {
        return 0;
    }
    switch ((int)message->kind) {
    case MESSAGE_RENEW:
        return wrong_session(quorum, &message->as.renew.agent, message->as.renew.epoch);
    case MESSAGE_POLL:
    case MESSAGE_MARK:
        return wrong_session(quorum, &message->as.session.agent, message->as.session.epoch);
    case MESSAGE_ACQUIRE:
        return wrong_session(quorum, &message->as.acquire.agent, message->as.acquire.epoch);
    case MESSAGE_ACCEPT:
        return wrong_in_value(quorum, &message->as.accept.value);
    case MESSAGE_VALUE:
        return message->as.value.known ? wrong_in_value(quorum, &message->as.value.value) : 0;
    case MESSAGE_PULLED:
        if (pulled->kind == MESSAGE_PULLED_MARK) {
            return wrong_session(quorum, &pulled->mark.agent, pulled->mark.epoch);
        }
        return pulled->kind == MESSAGE_PULLED_REGISTER ? wrong_in_value(quorum, &pulled->value) : 0;
    default:
        return 0;
    }
}

static uint32_t wrong_generation(const struct quorum *quorum, const struct message *message)
{
    const struct message_hello *hello = &message->as.hello;
    if (message->kind != MESSAGE_HELLO) {
        return 0;
    }
    for (uint32_t i = 0; i < hello->rules.voter_count; i++) {
        uint32_t voter = 0;
        if (agents_find(quorum, &hello->rules.voters[i], &voter) &&
            voter < quorum->config->voter_count &&
            hello->members[i].generation > quorum->bounds->generations[voter] + GENERATIONS_FREE) {
            return hello->members[i].generation;
        }
    }
    return hello->seen.generation >
                   quorum->bounds->generations[quorum->config->self] + GENERATIONS_FREE
               ? hello->seen.generation
               : 0;
}

static void tell(struct quorum *quorum, const struct message *message, const char *what,
                 uint32_t number)
{
    struct log_limits *told = &quorum->bounds->told;
    const struct message_agent *from = &message->from;
    uint32_t voter = 0;
    uint32_t count = agents_voter(quorum, message, &voter)
                         ? log_limits_add_voter(told, voter, step_now_ns(quorum))
                         : log_limits_add(told, from, step_now_ns(quorum));
    if (count == 0) {
        return;
    }
    struct action_log *log = step_log(quorum, "message_impossible", &message->from, number);
    step_log_text(log, "what says to be this agent names ");
    step_log_text(log, what);
    step_log_text(log, " that no cell gets to: not read");
}

bool bounds_allow(struct quorum *quorum, const struct message *message)
{
    uint32_t round = round_of(ballot_of(message));
    uint32_t epoch = wrong_epoch(quorum, message);
    uint32_t generation = wrong_generation(quorum, message);
    if (!round_possible(quorum, round)) {
        tell(quorum, message, "a ballot", round);
    } else if (epoch != 0) {
        tell(quorum, message, "an epoch", epoch);
    } else if (generation != 0) {
        tell(quorum, message, "a generation of a store", generation);
    } else {
        return true;
    }
    press(quorum);
    return false;
}
