/*
 * The step: one event, and what the core does because of it. The foundation of all other modules.
 *
 * An event brings the time and a random number; nothing else comes from outside, and no module
 * reads a clock. A module's wishes go into the driver's list of actions, in order: an
 * action to persist stands before every action to send that depends on it (docs/PROTOCOL.md, rule
 * 3).
 *
 * Invariants: time never falls from one step to the next. A step adds QUORUM_STEP_ACTIONS actions
 * at most; a module asks for room before it begins what needs several. The next tick is the
 * earliest time that any module scheduled since the last one.
 */
#ifndef QUORUM_STEP_H
#define QUORUM_STEP_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/arena.h"
#include "core/quorum.h"

#define MS_NS INT64_C(1000000)
#define NEVER INT64_MAX

enum {
    NONE = 0, /* as an index into a table: the first entry is never used */
};

/* The hub: one block of memory, in which each module has a struct that no other one looks into. */
struct quorum {
    struct quorum_config *config; /* never changes */
    struct names *names;          /* shared with the host core */
    struct step *step;
    struct agents *agents;
    struct records *records;
    struct registers *registers;
    struct voters *voters;
    struct sessions *sessions;
    struct ballots *ballots;
    struct queues *queues;
    struct sync *sync;
    struct members *members;
    struct bounds *bounds;
};

struct step *step_lay_out(struct arena *arena);
void step_init(struct quorum *quorum);

/* ---- The event ---- */

/* The room for its actions begins behind those that are in the list already. */
void step_begin(struct quorum *quorum, const struct quorum_event *event, struct actions *actions);
void step_end(struct quorum *quorum);
/* START came. */
bool step_started(const struct quorum *quorum);
void step_set_started(struct quorum *quorum);
/* The event's time, and its random number. Between two steps: those of the last one. */
int64_t step_now_ns(const struct quorum *quorum);
uint64_t step_random(const struct quorum *quorum);

/* ---- The next tick ---- */

/* A TICK is wanted at that time, or earlier. */
void step_schedule(struct quorum *quorum, int64_t when_ns);
int64_t step_next_tick_ns(const struct quorum *quorum);
/* All modules are about to say anew when they want one. */
void step_forget_ticks(struct quorum *quorum);

/* ---- Actions ---- */

bool step_has_room(const struct quorum *quorum, uint32_t actions);
/* The next action, zeroed but for its kind. There is room. */
struct action *step_emit(struct quorum *quorum, enum action_kind kind);
/* A message with its header filled in, to an agent; by way of the voter relay if that is not
 * ACTION_NO_RELAY. */
struct message *step_send(struct quorum *quorum, uint32_t to, enum message_kind kind);
struct message *step_send_by(struct quorum *quorum, uint32_t to, uint8_t relay,
                             enum message_kind kind);
/* Nobody waits for the message that was sent last: it may go later, with others. */
void step_send_later(struct quorum *quorum);
/* Whether this step has something to persist. */
bool step_persists(const struct quorum *quorum);

/* The bytes of a lock's name, as a message has them. */
void step_lock_name(const struct quorum *quorum, uint32_t name, struct message_name *out);

/* ---- Lines for people ---- */

/* event is static; agent may be NULL. Its text is added by the functions below, and cut off where
 * the room for it ends. */
struct action_log *step_log(struct quorum *quorum, const char *event,
                            const struct message_agent *agent, int64_t number);
void step_log_text(struct action_log *log, const char *text);
void step_log_agent(struct action_log *log, const struct message_agent *agent);
void step_log_number(struct action_log *log, uint64_t number);

/* Counts of this voter's doings since it began: each module counts its own. */
struct quorum_counts *step_counts(struct quorum *quorum);

#endif
