/*
 * The step: one event, and what the core does because of it. All other modules build on it.
 *
 * Everything from outside comes with the event, also the time and a random number. No module reads
 * a clock. A module appends the actions that it wants to the driver's list. The order of the
 * actions matters: an action to persist stands before every send that depends on it
 * (docs/PROTOCOL.md, rule 3).
 *
 * Invariants: time never falls from one step to the next. A step emits at most QUORUM_STEP_ACTIONS
 * actions; a module asks for room before it begins something that needs several. The next tick is
 * the earliest time that any module has scheduled since the last tick.
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
    NONE = 0, /* as an index into a table: no entry; index 0 is never used */
};

/* The hub: a pointer to each module's struct. No module looks into the struct of another module. */
struct quorum {
    struct quorum_config *config; /* only members_voters.c changes it, when the voters change */
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
    struct change *changes;
    struct bounds *bounds;
};

struct step *step_lay_out(struct arena *arena);
void step_init(struct quorum *quorum);

/* ---- The event ---- */

/* Begins a step. Its actions are appended to those that the list has already. */
void step_begin(struct quorum *quorum, const struct quorum_event *event, struct actions *actions);
void step_end(struct quorum *quorum);
/* Returns whether START came. */
bool step_started(const struct quorum *quorum);
void step_set_started(struct quorum *quorum);
/* The event's time in nanoseconds, and its random number. Between two steps they are those of the
 * last step. */
int64_t step_now_ns(const struct quorum *quorum);
uint64_t step_random(const struct quorum *quorum);

/* ---- The next tick ---- */

/* Asks for a TICK at that time, or earlier. */
void step_schedule(struct quorum *quorum, int64_t when_ns);
int64_t step_next_tick_ns(const struct quorum *quorum);
/* Forgets all scheduled times. The caller lets every module schedule its times anew in this step.
 */
void step_forget_ticks(struct quorum *quorum);

/* ---- Actions ---- */

bool step_has_room(const struct quorum *quorum, uint32_t actions);
/* Appends an action of that kind. Its bytes are zero, except an array of shares or the voters of a
 * record, which are not initialised. The list must have room for the action. */
struct action *step_emit(struct quorum *quorum, enum action_kind kind);
/* Appends a message to an agent, with its header filled in; the caller fills in the rest. relay is
 * the voter that passes the message on, or ACTION_NO_RELAY. */
struct message *step_send(struct quorum *quorum, uint32_t to, enum message_kind kind);
struct message *step_send_by(struct quorum *quorum, uint32_t to, uint8_t relay,
                             enum message_kind kind);
/* Marks the last message as not urgent: the driver may delay it and send it together with
 * others. */
void step_send_later(struct quorum *quorum);
/* Returns whether this step has emitted anything to persist. */
bool step_persists(const struct quorum *quorum);

/* Writes the lock's name into a field of a message. */
void step_lock_name(const struct quorum *quorum, uint32_t name, struct message_name *out);

/* ---- Log lines ---- */

/* Appends a log line. event must be a static string; agent may be NULL. The functions below append
 * to the line's text, which is cut off at the end of its array. */
struct action_log *step_log(struct quorum *quorum, const char *event,
                            const struct message_agent *agent, int64_t number);
void step_log_text(struct action_log *log, const char *text);
void step_log_agent(struct action_log *log, const struct message_agent *agent);
void step_log_number(struct action_log *log, uint64_t number);

/* Counters since this process began. Each module adds to its own. */
struct quorum_counts *step_counts(struct quorum *quorum);

#endif
