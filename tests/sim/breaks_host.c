/*
 * Breaks of locks by administrators, as the simulator sees them. Functions of the host core are
 * renamed for the simulator (real_X), and calls of them go through this file. It notes the holds
 * that a break ends, and breaks the rule ONE_OWNER.
 */
#include <string.h>

#include "host/breaks.h"
#include "host/holds.h"
#include "host/locks.h"
#include "host/seats.h"
#include "host/tally.h"
#include "sim.h"

bool real_hold_break(struct host *host, struct lock_ref at, uint32_t holder, uint64_t token,
                     uint32_t delay_ms, const struct hold_breaker *by,
                     struct host_actions *actions);
bool real_hold_break_reader(struct host *host, struct lock_ref at, uint32_t seat, uint32_t delay_ms,
                            const struct hold_breaker *by, struct host_actions *actions);
void real_break_here(struct host *host, struct lock_ref at, bool now, const struct hold_breaker *by,
                     struct message_broken *broken_lock, struct host_actions *actions);
bool real_break_asked(struct host *host, const struct message_break *breaking,
                      struct message_broken *broken_lock, struct host_actions *actions);
bool real_tally_note(struct host *host, uint32_t index, const struct message *message);

/* Notes that a break has ended the hold of that holder on this host. The notes have no hold of a
 * process that has not returned from its take yet. */
static void note_broken(const struct host *host, struct lock_ref at, uint32_t holder, bool now)
{
    for (uint32_t i = 0; i < world.process_count; i++) {
        const struct sim_process *process = &world.processes[i];
        bool here = process->alive && process->agent->name.length == host->config.agent.length &&
                    memcmp(&process->agent->name, &host->config.agent,
                           sizeof(host->config.agent)) == 0;
        for (uint32_t k = 0; here && k < HANDLES; k++) {
            const struct sim_handle *handle = &process->handles[k];
            if (handle->holds && handle->holder == holder && handle->slot == at.slot) {
                check_broken(handle->hold, now, host->now_ns);
            }
        }
    }
}

bool hold_break(struct host *host, struct lock_ref at, uint32_t holder, uint64_t token,
                uint32_t delay_ms, const struct hold_breaker *by, struct host_actions *actions)
{
    bool ended = real_hold_break(host, at, holder, token, delay_ms, by, actions);
    if (ended) {
        note_broken(host, at, holder, delay_ms == 0);
    }
    return ended;
}

bool hold_break_reader(struct host *host, struct lock_ref at, uint32_t seat, uint32_t delay_ms,
                       const struct hold_breaker *by, struct host_actions *actions)
{
    uint32_t holder = seat_holder(host, at.space, seat);
    bool ended = real_hold_break_reader(host, at, seat, delay_ms, by, actions);
    if (ended) {
        note_broken(host, at, holder, delay_ms == 0);
    }
    return ended;
}

/* Returns the number of that lock in the simulator. */
static uint32_t lock_of(const struct host *host, struct lock_ref at)
{
    struct message_name name;
    char text[32];
    lock_name(host, at, &name);
    for (uint32_t lock = 0; lock < world.lock_count; lock++) {
        lock_name_of(lock, text, sizeof(text));
        if (name.length == strlen(text) && memcmp(name.bytes, text, name.length) == 0) {
            return lock;
        }
    }
    sim_fail("a break of a lock without a number");
}

void break_here(struct host *host, struct lock_ref at, bool now, const struct hold_breaker *by,
                struct message_broken *broken_lock, struct host_actions *actions)
{
    check_breaking(lock_of(host, at), true, now);
    real_break_here(host, at, now, by, broken_lock, actions);
    check_breaking(lock_of(host, at), false, now);
}

bool break_asked(struct host *host, const struct message_break *breaking,
                 struct message_broken *broken_lock, struct host_actions *actions)
{
    struct lock_ref at = {0};
    bool known = lock_find(host, breaking->name.bytes, breaking->name.length, &at);
    uint32_t lock = known ? lock_of(host, at) : 0;
    if (known) {
        check_breaking(lock, true, breaking->now);
    }
    bool answered = real_break_asked(host, breaking, broken_lock, actions);
    if (known) {
        check_breaking(lock, false, breaking->now);
    }
    return answered;
}

/* ONE_OWNER: the answer of one owner counts as the answer of all owners. */
bool tally_note(struct host *host, uint32_t index, const struct message *message)
{
    bool noted = real_tally_note(host, index, message);
    if (broken == BREAK_ONE_OWNER && message->as.broken.part == MESSAGE_BROKEN_HOLDS) {
        struct message names;
        message_copy(&names, message);
        names.from = host->config.voters[0];
        names.as.broken.part = MESSAGE_BROKEN_OWNERS;
        names.as.broken.items.owners[0] = message->as.broken.owner;
        names.as.broken.count = 1;
        names.as.broken.total = 1;
        return real_tally_note(host, index, &names);
    }
    return noted;
}
