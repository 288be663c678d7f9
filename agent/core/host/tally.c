/* Counts the owners' answers to breaks: see tally.h. */
#include "tally.h"

#include "clients.h"
#include "routes.h"

enum {
    TALLY_HOLDS_MAX = HFI_FRAME_BROKEN_HOLDS_MAX,
    TALLY_NOTES_MAX = 512, /* bytes of the notes on all holds of a tally; others are left out */
};

/* An owner that the coordinator named, or an agent that has answered. */
struct tally_owner {
    struct message_agent agent;
    bool named;    /* the coordinator's last answer that arrived names the owner */
    bool has;      /* by that answer the owner still had its grant; if not, it may only report
                    * holds that it ended */
    bool counts;   /* a voter has named the owner, so the owner's answer counts */
    bool answered; /* the owner has reported which holds it ended */
    /* the owner's answer: */
    int32_t result;
    uint32_t total;
    int64_t closed_until_ns;
};

/* A hold that ended, and the agent that ended it. */
struct tally_hold {
    struct message_agent agent;
    struct message_hold hold; /* its note lies in `notes` of the tally, from note_at on */
    uint16_t note_at;
    bool counts;
};

struct tally {
    bool named; /* the coordinator has named the owners */
    struct message_order meant;
    /* the outcome of all answers that count: */
    int32_t result;
    int64_t closed_until_ns;
    uint32_t total; /* the number of holds that ended */
    uint32_t owner_count;
    uint32_t hold_count; /* the number of entries in `holds`, also those that do not count */
    uint32_t notes_used;
    /* what lies beyond owner_count, hold_count and notes_used is not initialised */
    struct tally_owner owners[MESSAGE_SHARES_MAX];
    struct tally_hold holds[TALLY_HOLDS_MAX];
    char notes[TALLY_NOTES_MAX];
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

static bool is_agent(const struct message_agent *one, const struct message_agent *other)
{
    return memcmp(one, other, sizeof(*one)) == 0;
}

/* Removes those holds of the agent that do not count. */
static void holds_forget(struct tally *tally, const struct message_agent *agent)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < tally->hold_count; i++) {
        if (tally->holds[i].counts || !is_agent(&tally->holds[i].agent, agent)) {
            tally->holds[kept++] = tally->holds[i];
        }
    }
    tally->hold_count = kept;
}

/*
 * Returns the agent's entry. Adds it if it is missing. If the table is full, the new entry replaces
 * one that was never named. If `names` is true, it may also replace one that the coordinator no
 * longer names. Returns NULL if no entry can be replaced.
 */
static struct tally_owner *owner_of(struct tally *tally, const struct message_agent *agent,
                                    bool names)
{
    struct tally_owner *left = NULL;
    for (uint32_t i = 0; i < tally->owner_count; i++) {
        struct tally_owner *owner = &tally->owners[i];
        if (is_agent(&owner->agent, agent)) {
            return owner;
        }
        bool may_go = names ? !owner->named : !owner->counts;
        left = may_go && (left == NULL || left->counts) ? owner : left;
    }
    if (tally->owner_count < MESSAGE_SHARES_MAX) {
        left = &tally->owners[tally->owner_count++];
    } else if (left != NULL) {
        holds_forget(tally, &left->agent);
    }
    if (left != NULL) {
        *left = (struct tally_owner){.agent = *agent};
    }
    return left;
}

static int64_t closed_until(const struct host *host, uint32_t closed_ms)
{
    return closed_ms > 0 ? host->now_ns + (int64_t)closed_ms * MS : 0;
}

static void note_closed(struct tally *tally, int64_t until_ns)
{
    tally->closed_until_ns = until_ns > tally->closed_until_ns ? until_ns : tally->closed_until_ns;
}

/* Adds the answer of a named owner to the outcome. */
static void count_answer(struct tally *tally, const struct tally_owner *owner)
{
    tally->result = tally->result == 0 ? owner->result : tally->result;
    tally->total += owner->total;
    note_closed(tally, owner->closed_until_ns);
    for (uint32_t i = 0; i < tally->hold_count; i++) {
        tally->holds[i].counts |= is_agent(&tally->holds[i].agent, &owner->agent);
    }
}

static void note_name(struct tally *tally, const struct message_agent *agent, bool has)
{
    struct tally_owner *owner = owner_of(tally, agent, true);
    if (owner == NULL) {
        return; /* cannot happen: the table has room for all names of one answer */
    }
    owner->named = true;
    owner->has = has;
    if (!owner->counts && owner->answered) {
        count_answer(tally, owner);
    }
    owner->counts = true;
}

static void note_names(struct tally *tally, const struct message_broken *broken)
{
    tally->named = true;
    tally->meant = broken->meant.ballot != 0 ? broken->meant : tally->meant;
    for (uint32_t i = 0; i < tally->owner_count; i++) {
        tally->owners[i].named = false;
    }
    for (uint32_t i = 0; i < broken->count; i++) {
        note_name(tally, &broken->items.owners[i], i < broken->total);
    }
}

/* Returns an entry for one more hold; NULL: there is none. If the table is full and `counts` is
 * true, reuses the entry of a hold that does not count. */
static struct tally_hold *hold_room(struct tally *tally, bool counts)
{
    if (tally->hold_count < TALLY_HOLDS_MAX) {
        return &tally->holds[tally->hold_count++];
    }
    for (uint32_t i = 0; counts && i < TALLY_HOLDS_MAX; i++) {
        if (!tally->holds[i].counts) {
            return &tally->holds[i];
        }
    }
    return NULL;
}

/* Keeps the note on the hold of that index, if there is room for it. */
static void keep_note(struct tally *tally, struct tally_hold *hold,
                      const struct message_broken *broken, uint32_t index)
{
    uint32_t size = hold->hold.note_size;
    if (size > TALLY_NOTES_MAX - tally->notes_used) {
        size = 0;
    }
    hold->hold.note_size = (uint16_t)size;
    hold->note_at = (uint16_t)tally->notes_used;
    memcpy(tally->notes + tally->notes_used, message_broken_note(broken, index), size);
    tally->notes_used += size;
}

/* Records the answer of an agent. Only its first answer counts, because later ones repeat it. It
 * counts once the coordinator has named the agent. */
static void note_holds(const struct host *host, struct tally *tally,
                       const struct message_agent *agent, const struct message_broken *broken)
{
    struct tally_owner *owner = owner_of(tally, agent, false);
    if (owner == NULL || owner->answered) {
        return;
    }
    bool known = broken->result <= 0 && broken->result >= HF_EUNKNOWN;
    owner->answered = true;
    owner->result = known ? broken->result : HF_EPROTO;
    if (broken->part == MESSAGE_BROKEN_HOLDS) {
        owner->total = broken->total < UINT16_MAX ? broken->total : UINT16_MAX;
        owner->closed_until_ns = closed_until(host, broken->closed_ms);
        for (uint32_t i = 0; i < broken->count; i++) {
            struct tally_hold *room = hold_room(tally, owner->counts);
            if (room != NULL) {
                *room = (struct tally_hold){
                    .agent = *agent, .hold = broken->items.holds[i], .counts = owner->counts};
                keep_note(tally, room, broken, i);
            }
        }
    }
    if (owner->counts) {
        count_answer(tally, owner);
    }
}

/*
 * The sender has to be checked, because questions are numbered one after the other, so any agent
 * can guess the numbers. Only a voter may name owners, and say which grants the break concerns. An
 * owner may report only its own holds, directly or through a voter. The report of an owner of an
 * earlier release does not name that owner, so it counts only if it comes directly.
 */
bool tally_note(struct host *host, uint32_t index, const struct message *message)
{
    struct tally *tally = tally_at(host, index);
    const struct message_broken *broken = &message->as.broken;
    bool voter = route_voter(host, &message->from) != NONE;
    bool own = is_agent(&broken->owner, &message->from);
    switch ((enum message_broken_part)broken->part) {
    case MESSAGE_BROKEN_OWNERS:
        if (!voter) {
            return false;
        }
        note_names(tally, broken);
        note_closed(tally, closed_until(host, broken->closed_ms));
        return true;
    case MESSAGE_BROKEN_HOLDS:
        if (message->relayed ? !voter : !own) {
            return false;
        }
        note_holds(host, tally, &broken->owner, broken);
        return true;
    default:
        if (message->relayed) {
            return false;
        }
        note_holds(host, tally, &message->from, broken);
        return true;
    }
}

void tally_note_own(struct host *host, uint32_t index, const struct message_broken *broken)
{
    struct tally *tally = tally_at(host, index);
    tally->named = true;
    note_name(tally, &host->config.agent, true);
    note_holds(host, tally, &host->config.agent, broken);
}

/* Returns whether all named owners that still had their grants have answered. If `all` is true, the
 * named owners that have given their grants back must have answered, too. */
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

static struct hfi_party_frame party_of(const struct tally *tally, const struct tally_hold *ended)
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
        .note = {tally->notes + ended->note_at, hold->note_size},
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
    struct hfi_broken_frame frame = {0};
    bool done = is_answered(tally, false);
    int64_t closed_ns = tally->closed_until_ns - host->now_ns;
    frame.error = !done ? HF_ETIMEDOUT : tally->result;
    frame.closed_ns = closed_ns > 0 ? closed_ns : 0;
    for (uint32_t i = 0; i < tally->hold_count; i++) {
        if (tally->holds[i].counts) {
            holds[frame.hold_count++] = party_of(tally, &tally->holds[i]);
        }
    }
    frame.more = tally->total - frame.hold_count;
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
