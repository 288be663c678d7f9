/* One event, and what the core does because of it: see step.h. */
#include "step.h"

#include <string.h>

#include "proto/check.h"
#include "reactions.h"

struct step {
    bool started;
    int64_t now_ns;
    uint64_t random;
    int64_t tick_ns;
    struct actions *actions;
    uint32_t first; /* the index of this step's first action */
    uint32_t limit; /* the index at which this step's actions have to end */
    struct quorum_counts counts;
};

struct step *step_lay_out(struct arena *arena)
{
    return arena_take(arena, 1, sizeof(struct step));
}

void step_init(struct quorum *quorum)
{
    quorum->step->tick_ns = NEVER;
}

/* ---- The event ---- */

void step_begin(struct quorum *quorum, const struct quorum_event *event, struct actions *actions)
{
    struct step *step = quorum->step;
    step->now_ns = event->now_ns;
    step->random = event->random;
    step->actions = actions;
    step->first = actions->count;
    step->limit = actions->count + QUORUM_STEP_ACTIONS;
}

void step_end(struct quorum *quorum)
{
    quorum->step->actions = NULL;
}

bool step_started(const struct quorum *quorum)
{
    return quorum->step->started;
}

void step_set_started(struct quorum *quorum)
{
    quorum->step->started = true;
}

int64_t step_now_ns(const struct quorum *quorum)
{
    return quorum->step->now_ns;
}

uint64_t step_random(const struct quorum *quorum)
{
    return quorum->step->random;
}

/* ---- The next tick ---- */

void step_schedule(struct quorum *quorum, int64_t when_ns)
{
    if (when_ns < quorum->step->tick_ns) {
        quorum->step->tick_ns = when_ns;
    }
}

int64_t step_next_tick_ns(const struct quorum *quorum)
{
    return quorum->step->tick_ns;
}

void step_forget_ticks(struct quorum *quorum)
{
    quorum->step->tick_ns = NEVER;
}

/* ---- Actions ---- */

bool step_has_room(const struct quorum *quorum, uint32_t actions)
{
    return quorum->step->actions->count + actions <= quorum->step->limit;
}

/* The part of an action to zero: everything but the shares of a value and the voters of a
 * record. */
#define ACTION_BASE_SIZE (offsetof(struct action_send, message) + MESSAGE_BASE_SIZE)
_Static_assert(ACTION_BASE_SIZE >= offsetof(struct quorum_change, voters.of) &&
                   ACTION_BASE_SIZE >= offsetof(struct message_voters, of),
               "an action is zeroed up to the voters of a record");
_Static_assert(ACTION_BASE_SIZE >= offsetof(struct quorum_register, value.shares) &&
                   ACTION_BASE_SIZE >= sizeof(struct quorum_member) &&
                   ACTION_BASE_SIZE >= sizeof(struct action_log),
               "an action is zeroed up to its shares");

struct action *step_emit(struct quorum *quorum, enum action_kind kind)
{
    struct actions *actions = quorum->step->actions;
    HF_CHECK(step_has_room(quorum, 1));
    struct action *action = &actions->items[actions->count++];
    memset(action, 0, offsetof(struct action, as) + ACTION_BASE_SIZE);
    action->kind = kind;
    return action;
}

struct message *step_send_by(struct quorum *quorum, uint32_t to, uint8_t relay,
                             enum message_kind kind)
{
    struct action *action = step_emit(quorum, ACTION_SEND);
    action->as.send.to = to;
    action->as.send.relay = relay;
    reaction_fill_header(quorum, kind, &action->as.send.message);
    return &action->as.send.message;
}

struct message *step_send(struct quorum *quorum, uint32_t to, enum message_kind kind)
{
    return step_send_by(quorum, to, ACTION_NO_RELAY, kind);
}

void step_send_later(struct quorum *quorum)
{
    struct actions *actions = quorum->step->actions;
    HF_CHECK(actions->count > quorum->step->first);
    struct action *last = &actions->items[actions->count - 1];
    HF_CHECK(last->kind == ACTION_SEND);
    last->as.send.later = true;
}

bool step_persists(const struct quorum *quorum)
{
    const struct actions *actions = quorum->step->actions;
    for (uint32_t i = quorum->step->first; i < actions->count; i++) {
        enum action_kind kind = actions->items[i].kind;
        if (kind != ACTION_SEND && kind != ACTION_LOG && kind != ACTION_VOTERS &&
            kind != ACTION_SEEK) {
            return true;
        }
    }
    return false;
}

void step_lock_name(const struct quorum *quorum, uint32_t name, struct message_name *out)
{
    size_t length = 0;
    const uint8_t *bytes = names_bytes(quorum->names, name, &length);
    message_name_set(out, bytes, length);
}

struct quorum_counts *step_counts(struct quorum *quorum)
{
    return &quorum->step->counts;
}
