/*
 * The numbers that a message may name. See bounds.h.
 *
 * To use a number up, a liar would have to drive it to its bound many times (16 times for an epoch,
 * 256 times for a round), with a restart of this voter after each time.
 *
 * A bound can keep honest voters apart: one voter uses numbers up to its own bound, the bound of
 * another voter is a little lower, and so the second voter drops messages of the first. Therefore a
 * bound rises by a little for each second in which such messages arrive, until they are within the
 * bound. A bound does not rise by time alone, because then voters that started at different times
 * would have different bounds.
 *
 * A voter that starts over knows no rounds, and learns them from the others. Until it votes, its
 * bound is half of all rounds that exist.
 */
#include "bounds.h"

#include <string.h>

#include "core/base/log_limit.h"
#include "proto/check.h"

enum {
    ROUNDS_FREE = 1 << 24, /* how far a round may be above the known rounds; there are 2^32 */
    ROUNDS_A_SECOND = 64,  /* added to ROUNDS_FREE for each second with messages beyond a bound */
    /* how far an epoch may be above the known epochs; there are 2^24; each second of refused
     * messages adds 1 */
    EPOCHS_FREE = 1 << 20,
    /* how far a generation may be above the known generations; there are 2^31; a start-over uses
     * one */
    GENERATIONS_FREE = 1 << 16,
    AGAIN_MS = 30000, /* messages beyond a bound form one series if they are no further apart */
};

/* round, generations and epochs_before are the highest numbers that were known when this voter
 * started. A voter that starts over sets round again when it begins to vote. */
struct bounds {
    uint32_t round;
    uint32_t generations[MESSAGE_VOTERS_MAX + 1]; /* by voter; the last entry: this agent, if it is
                                                   * no voter */
    int64_t pressed_ns; /* the sum of the lengths of all series of messages beyond a bound */
    int64_t refused_ns; /* when the last message beyond a bound came; INT64_MIN: none came */
    struct log_limits limits;
    uint32_t *epochs_before; /* by agent: the highest epoch known when this voter started */
};

struct bounds *bounds_lay_out(struct arena *arena, const struct quorum_limits *limits)
{
    struct bounds *bounds = arena_take(arena, 1, sizeof(*bounds));
    ARENA_TAKE(arena, bounds, epochs_before, limits->agents);
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
    bounds_follow(quorum);
}

void bounds_follow(struct quorum *quorum)
{
    for (uint32_t i = 0; i < quorum->config->voter_count; i++) {
        quorum->bounds->generations[i] = members_generation(quorum, i);
    }
}

static uint64_t seconds(const struct quorum *quorum)
{
    return (uint64_t)quorum->bounds->pressed_ns / (1000 * (uint64_t)MS_NS);
}

/* Notes that a message beyond a bound came. Honest agents repeat an unanswered message far more
 * often than every AGAIN_MS, so their messages form one series. */
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

/* Returns the highest of the ballots in the message that count: those that this voter would store,
 * and those that its own next ballot would have to exceed. */
static uint64_t ballot_of(const struct message *message)
{
    const struct message_read_value *read = &message->as.value;
    const struct message_synced *synced = &message->as.synced;
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
    case MESSAGE_CHANGE_PREPARE:
    case MESSAGE_CHANGE_ACCEPT:
        return message->as.change.ballot;
    case MESSAGE_CHANGE_PROMISE:
        return higher(message->as.change.higher, message->as.change.accepted);
    case MESSAGE_CHANGE_ACCEPTED:
        return message->as.change.higher;
    case MESSAGE_CHECKPOINT:
        return higher(message->as.checkpoint.ballot,
                      message->as.checkpoint.checkpoint.order.ballot);
    case MESSAGE_CHECKPOINTED:
        return message->as.checkpointed.higher;
    case MESSAGE_SYNCED:
        return higher(synced->checkpoint.order.ballot,
                      synced->kind == MESSAGE_SYNCED_REGISTER
                          ? higher(synced->accepted.ballot, synced->value.version.ballot)
                          : 0);
    default:
        return 0;
    }
}

static bool round_possible(const struct quorum *quorum, uint32_t round)
{
    if (members_status(quorum) == MESSAGE_STATUS_REJOINING) {
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

/* Returns an epoch of the value that is beyond its bound; 0 if none is. */
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

/* Returns an epoch of the message that is beyond its bound; 0 if none is. A voter's messages to
 * itself are exempt (nobody else can send them: driver_received()). Their epochs come from its own
 * store, or from messages that passed this check. The only voter of a cell must believe its own
 * host's epoch, or it would never serve again. */
static uint32_t wrong_epoch(const struct quorum *quorum, const struct message *message)
{
    const struct message_synced *synced = &message->as.synced;
    const struct message_agent *self = &quorum->config->name;
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
    case MESSAGE_SYNCED:
        if (synced->kind == MESSAGE_SYNCED_MARK) {
            return wrong_session(quorum, &synced->mark.agent, synced->mark.epoch);
        }
        return synced->kind == MESSAGE_SYNCED_REGISTER ? wrong_in_value(quorum, &synced->value) : 0;
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
        uint32_t agent = 0;
        bool known = agents_find(quorum, &hello->rules.voters[i], &agent);
        uint32_t voter = known ? agents_as_voter(quorum, agent) : quorum->config->voter_count;
        if (voter < quorum->config->voter_count &&
            hello->members[i].generation > quorum->bounds->generations[voter] + GENERATIONS_FREE) {
            return hello->members[i].generation;
        }
    }
    return hello->seen.generation >
                   quorum->bounds->generations[quorum->config->self] + GENERATIONS_FREE
               ? hello->seen.generation
               : 0;
}

static void log_refused(struct quorum *quorum, const struct message *message, const char *what,
                        uint32_t number)
{
    struct log_limits *limits = &quorum->bounds->limits;
    const struct message_agent *from = &message->from;
    uint32_t voter = 0;
    uint32_t count = agents_voter(quorum, message, &voter)
                         ? log_limits_add_voter(limits, voter, step_now_ns(quorum))
                         : log_limits_add(limits, from, step_now_ns(quorum));
    if (count == 0) {
        return;
    }
    struct action_log *log = step_log(quorum, "message_impossible", &message->from, number);
    step_log_text(log, "a message in this agent's name has ");
    step_log_text(log, what);
    step_log_text(log, " that no cell reaches; it was dropped");
}

bool bounds_allow(struct quorum *quorum, const struct message *message)
{
    uint32_t round = round_of(ballot_of(message));
    uint32_t epoch = wrong_epoch(quorum, message);
    uint32_t generation = wrong_generation(quorum, message);
    if (!round_possible(quorum, round)) {
        log_refused(quorum, message, "a ballot", round);
    } else if (epoch != 0) {
        log_refused(quorum, message, "an epoch", epoch);
    } else if (generation != 0) {
        log_refused(quorum, message, "a generation of a store", generation);
    } else {
        return true;
    }
    press(quorum);
    return false;
}
