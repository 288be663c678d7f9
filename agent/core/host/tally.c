/* Counts the owners' answers to breaks: see tally.h. */
#include "tally.h"

#include "clients.h"
#include "routes.h"

enum { TALLY_HOLDS_MAX = HFI_FRAME_BROKEN_HOLDS_MAX };

/* An owner that the coordinator named, or that has answered. */
struct tally_owner {
    struct message_agent agent;
    bool named;    /* in the coordinator's last answer that arrived */
    bool has;      /* it had its grant then; otherwise it may only have something to report */
    bool answered; /* it has reported what it ended */
};

/* A hold that ended, and the agent that ended it. */
struct tally_hold {
    struct message_agent agent;
    struct message_hold hold;
};

struct tally {
    bool named; /* the coordinator has named the owners */
    int32_t result;
    struct message_order meant;
    int64_t closed_until_ns;
    uint32_t total; /* the holds that ended */
    uint32_t owner_count;
    uint32_t hold_count;
    /* the items from the counts on are not initialised */
    struct tally_owner owners[MESSAGE_SHARES_MAX];
    struct tally_hold holds[TALLY_HOLDS_MAX];
};

struct tallies {
    struct tally *of;
};

struct tallies *tallies_lay_out(struct arena *arena, uint32_t count)
{
    struct tallies *tallies = arena_take(arena, 1, sizeof(*tallies));
    ARENA_TAKE(arena, tallies, of, count);
    return tallies;
}

static struct tally *tally_at(const struct host *host, uint32_t index)
{
    return &host->tallies->of[index];
}

void tally_begin(struct host *host, uint32_t index)
{
    memset(tally_at(host, index), 0, offsetof(struct tally, owners));
}

struct message_order tally_meant(const struct host *host, uint32_t index)
{
    return tally_at(host, index)->meant;
}

/* ---- answers ---- */

/* Returns the owner's entry, which it makes if there is none. If the table is full, another entry
 * has to go: one that the coordinator no longer names. Returns NULL if there is none. */
static struct tally_owner *owner_of(struct tally *tally, const struct message_agent *agent)
{
    struct tally_owner *left = NULL;
    for (uint32_t i = 0; i < tally->owner_count; i++) {
        struct tally_owner *owner = &tally->owners[i];
        if (memcmp(&owner->agent, agent, sizeof(*agent)) == 0) {
            return owner;
        }
        left = owner->named ? left : owner;
    }
    if (tally->owner_count < MESSAGE_SHARES_MAX) {
        left = &tally->owners[tally->owner_count++];
    }
    if (left != NULL) {
        *left = (struct tally_owner){.agent = *agent};
    }
    return left;
}

static void note_closed(const struct host *host, struct tally *tally, uint32_t closed_ms)
{
    int64_t until_ns = host->now_ns + (int64_t)closed_ms * MS;
    if (closed_ms > 0 && until_ns > tally->closed_until_ns) {
        tally->closed_until_ns = until_ns;
    }
}

static void note_names(struct tally *tally, const struct message_broken *broken)
{
    tally->named = true;
    for (uint32_t i = 0; i < tally->owner_count; i++) {
        tally->owners[i].named = false;
    }
    for (uint32_t i = 0; i < broken->count; i++) {
        struct tally_owner *owner = owner_of(tally, &broken->items.owners[i]);
        if (owner != NULL) { /* there is room for as many names as one answer has */
            owner->named = true;
            owner->has = i < broken->total;
        }
    }
}

/* Notes what an owner reports. Only its first answer counts; the others repeat it. */
static void note_holds(struct tally *tally, const struct message_agent *agent,
                       const struct message_broken *broken)
{
    struct tally_owner *owner = owner_of(tally, agent);
    if (owner == NULL || owner->answered) {
        return;
    }
    owner->answered = true;
    bool known = broken->result <= 0 && broken->result >= HF_EUNKNOWN;
    if (tally->result == 0) {
        tally->result = known ? broken->result : HF_EPROTO;
    }
    if (broken->part != MESSAGE_BROKEN_HOLDS) {
        return;
    }
    tally->total += broken->total < UINT16_MAX ? broken->total : UINT16_MAX;
    for (uint32_t i = 0; i < broken->count && tally->hold_count < TALLY_HOLDS_MAX; i++) {
        tally->holds[tally->hold_count++] = (struct tally_hold){*agent, broken->items.holds[i]};
    }
}

/*
 * The sender has to be checked, because questions are numbered one after the other, so an agent can
 * guess the numbers of other questions. Only a voter can name owners. An owner reports its own
 * holds, itself or through a voter. An owner of an earlier release does not say which one it is; so
 * only an answer that comes straight from it counts.
 */
bool tally_note(struct host *host, uint32_t index, const struct message *message)
{
    struct tally *tally = tally_at(host, index);
    const struct message_broken *broken = &message->as.broken;
    bool voter = route_voter(host, &message->from) != NONE;
    bool own = memcmp(&broken->owner, &message->from, sizeof(message->from)) == 0;
    switch ((enum message_broken_part)broken->part) {
    case MESSAGE_BROKEN_OWNERS:
        if (!voter) {
            return false;
        }
        note_names(tally, broken);
        break;
    case MESSAGE_BROKEN_HOLDS:
        if (message->relayed ? !voter : !own) {
            return false;
        }
        note_holds(tally, &broken->owner, broken);
        break;
    default:
        if (message->relayed) {
            return false;
        }
        note_holds(tally, &message->from, broken);
        return true;
    }
    tally->meant = broken->meant.ballot != 0 ? broken->meant : tally->meant;
    note_closed(host, tally, broken->closed_ms);
    return true;
}

void tally_note_own(struct host *host, uint32_t index, const struct message_broken *broken)
{
    struct tally *tally = tally_at(host, index);
    tally->named = true;
    note_holds(tally, &host->config.agent, broken);
    note_closed(host, tally, broken->closed_ms);
}

/* Returns whether the owners that were named have answered; `all`: also those that have given their
 * grants back, and have only something to report. */
static bool is_answered(const struct tally *tally, bool all)
{
    for (uint32_t i = 0; i < tally->owner_count; i++) {
        const struct tally_owner *owner = &tally->owners[i];
        if (owner->named && !owner->answered && (all || owner->has)) {
            return false;
        }
    }
    return tally->named;
}

bool tally_is_whole(const struct host *host, uint32_t index)
{
    return is_answered(tally_at(host, index), true);
}

/* ---- the answer to the client ---- */

static struct hfi_party_frame party_of(const struct tally_hold *ended)
{
    const struct message_hold *hold = &ended->hold;
    return (struct hfi_party_frame){
        .pid = hold->pid,
        .uid = hold->uid,
        .elapsed_ns = hold->held_ms >= 0 && hold->held_ms < INT64_MAX / MS ? hold->held_ms * MS
                                                                           : -1,
        .remaining_ns = 0,
        .token = hold->token,
        .mode = hold->shared ? HF_SHARED : HF_EXCLUSIVE,
        .agent = {ended->agent.text, ended->agent.length},
        .command = {hold->command, hold->command_size},
    };
}

bool tally_has_room(const struct host_actions *actions)
{
    return actions->output_size - actions->output_used >= HFI_FRAME_MAX;
}

void tally_reply(struct host *host, uint32_t index, uint32_t client, uint64_t request,
                 struct host_actions *actions)
{
    const struct tally *tally = tally_at(host, index);
    struct hfi_party_frame holds[TALLY_HOLDS_MAX];
    struct hfi_text silent[MESSAGE_SHARES_MAX];
    struct hfi_broken_frame frame = {.hold_count = tally->hold_count,
                                     .more = tally->total - tally->hold_count};
    bool done = is_answered(tally, false);
    int64_t closed_ns = tally->closed_until_ns - host->now_ns;
    frame.error = !done ? HF_ETIMEDOUT : tally->result;
    frame.closed_ns = closed_ns > 0 ? closed_ns : 0;
    for (uint32_t i = 0; i < tally->hold_count; i++) {
        holds[i] = party_of(&tally->holds[i]);
    }
    for (uint32_t i = 0; i < tally->owner_count; i++) {
        const struct tally_owner *owner = &tally->owners[i];
        if (!owner->answered && (done || (owner->named && owner->has))) {
            silent[frame.silent_count++] = (struct hfi_text){owner->agent.text,
                                                             owner->agent.length};
        }
    }
    HF_CHECK(tally_has_room(actions));
    size_t size = hfi_broken_encode(&frame, holds, silent, request,
                                    actions->output + actions->output_used, HFI_FRAME_MAX);
    client_reply_written(host, client, size, actions);
}
