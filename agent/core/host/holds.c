/* Taking holds away: see holds.h. */
#include "holds.h"

#include "behind.h"
#include "clients.h"
#include "delays.h"
#include "handles.h"
#include "locks.h"
#include "openings.h"
#include "polled.h"
#include "ringing.h"
#include "seats.h"
#include "spaces.h"
#include "watches.h"

#include "core/base/message_check.h"
#include "proto/ending.h"

uint32_t hold_delay_ms(const struct host *host, struct lock_ref at, uint32_t holder)
{
    uint32_t handle = handle_of(host, at, holder);
    return handle != NONE ? handle_delay_ms(host, handle) : lock_covered_ms(host, at);
}

/* Why a hold ends, and who broke it (NULL: it was not broken). */
struct cause {
    enum host_loss why;
    const struct hold_breaker *by;
};

/* Returns the reason as the log shows it. The strings are in a switch, not in a table, because a
 * table of strings is a writable variable, and the core has no writable variables. */
static const char *reason_of(enum host_loss why)
{
    switch (why) {
    case HOST_LOSS_DEATH:
        return "process";
    case HOST_LOSS_BREAK:
        return "broken";
    case HOST_LOSS_LEASE:
        return "lease_over";
    case HOST_LOSS_STALL:
        return "stalled";
    case HOST_LOSS_LAPSE:
        return "session_lost";
    case HOST_LOSS_DAMAGE:
    case HOST_LOSS_COUNT:
        break;
    }
    return "damaged";
}

static const enum hfi_ending_kind ending_kinds[HOST_LOSS_COUNT] = {
    [HOST_LOSS_DEATH] = HFI_ENDING_PROCESS, [HOST_LOSS_BREAK] = HFI_ENDING_BROKEN,
    [HOST_LOSS_LEASE] = HFI_ENDING_LEASE,   [HOST_LOSS_STALL] = HFI_ENDING_STALL,
    [HOST_LOSS_LAPSE] = HFI_ENDING_SESSION, [HOST_LOSS_DAMAGE] = HFI_ENDING_DAMAGE,
};

/* Returns the note for the hold's own process. */
static struct hfi_ending ending_of(const struct host *host, const struct cause *cause)
{
    struct hfi_ending ending = {.kind = ending_kinds[cause->why], .at_ns = host->now_ns, .uid = -1};
    if (cause->by != NULL) {
        ending.uid = cause->by->uid;
        memcpy(ending.agent, cause->by->agent.text, cause->by->agent.length);
    }
    return ending;
}

static void log_loss(struct host *host, struct lock_ref at, const struct cause *cause,
                     uint64_t token, uint32_t delay_ms, struct host_actions *actions)
{
    const char *event = cause->why == HOST_LOSS_BREAK ? "lock_broken"
                        : cause->why == HOST_LOSS_LEASE || cause->why == HOST_LOSS_STALL
                            ? "lease_ended"
                            : "lock_closed";
    host->counts.losses[cause->why]++;
    HF_PROBE4(hold_taken_away, at.space, at.slot, cause->why, token);
    struct host_action *action = lock_log(host, actions, event, at, token, delay_ms);
    action->as.log.reason = reason_of(cause->why);
    if (cause->by != NULL) {
        action->as.log.broken = true;
        action->as.log.by = cause->by->agent;
        action->as.log.uid = cause->by->uid;
    }
}

/* Returns the time now, for a hold that ends now. The time of the step may be too early, because
 * the step may have begun before the hold. */
static int64_t ends_now_ns(const struct host *host)
{
    int64_t now_ns = ringing_clock_ns(host);
    return now_ns > host->now_ns ? now_ns : host->now_ns;
}

/* Notes that the lock will be closed for delay_ms. The caller has not closed it yet. */
static void closing_note(const struct host *host, struct lock_ref at, uint32_t delay_ms)
{
    if (delays_are_noted(host) && delay_noted_ms(host, at) < delay_ms) {
        /* The lock's grant may cover more than any handle asked for. A lock-delay that is longer
         * than the noted one was never asked for. */
        delay_ms = delay_noted_ms(host, at);
    }
    if (delay_ms > 0) {
        space_note_closing(host, at.space,
                           ends_now_ns(host) + (int64_t)delay_ms * MS +
                               hub_counted_long_ns(host, delay_ms));
    }
}

/* Returns until when the lock stays closed if a hold ends now, or 0 if delay_ms is 0. Also notes
 * the closing (closing_note()). */
static int64_t closing_end(const struct host *host, struct lock_ref at, uint32_t delay_ms)
{
    closing_note(host, at, delay_ms);
    int64_t until_ns = ends_now_ns(host) + (int64_t)delay_ms * MS;
    int64_t before_ns = lock_closed_until_ns(host, at);
    until_ns = lock_closing_end_ns(until_ns);
    return delay_ms == 0 ? 0 : until_ns > before_ns ? until_ns : before_ns;
}

/* A hold that ends: the holder id of its process, and its mark (handle_mark_of_word()). */
struct ended_hold {
    uint32_t holder;
    uint64_t mark;
};

/* Records, for display, which hold has ended. until_ns: the end of the lock-delay; 0: there is
 * none. */
static void behind_note(struct host *host, struct lock_ref at, struct ended_hold hold,
                        const struct hfi_ending *ending, int64_t until_ns)
{
    struct behind_note note = {
        .until_ns = until_ns > 0 ? until_ns : ending->at_ns + (int64_t)BEHIND_BROKEN_MS * MS,
        .open = until_ns == 0,
        .at_ns = ending->at_ns,
        .last = {.agent = host->config.agent,
                 .pid = -1,
                 .uid = -1,
                 .ending = ending->kind,
                 .by_uid = ending->uid},
    };
    struct message_name name;
    uint32_t client = client_of_id(host, hold.holder);
    uint32_t handle = handle_of(host, at, hold.holder);
    if (handle != NONE) {
        struct hfi_text text = handle_note(host, handle, hold.mark);
        if (text.size > 0) {
            memcpy(note.last.note, text.bytes, text.size);
        }
    }
    if (client != NONE) {
        const struct host_peer *peer = client_peer(host, client);
        note.last.pid = peer->pid > 0 ? peer->pid : -1;
        note.last.uid = peer->uid;
        memcpy(note.last.command, peer->command, sizeof(note.last.command));
    }
    if (ending->agent[0] != '\0') {
        message_agent_set(&note.last.by_agent, ending->agent,
                          hub_text_size(ending->agent, HFI_LABEL_MAX));
    }
    lock_name(host, at, &name);
    behind_keep(host, &name, &note);
}

/* Closes the lock after that hold. until_ns is the closing time in the region. It was computed
 * before the hold ended, so this computes the end of the lock-delay again. A broken hold is
 * recorded even if until_ns is 0, because otherwise the lock would only look free. */
static void closing_begin(struct host *host, struct lock_ref at, struct ended_hold hold,
                          const struct hfi_ending *ending, int64_t until_ns, uint32_t delay_ms)
{
    if (until_ns > 0) {
        int64_t counted_ns = closing_end(host, at, delay_ms);
        lock_close(host, at, until_ns);
        if (counted_ns > until_ns && (atomic_load(lock_word(host, at)) & HFI_W_CLOSED)) {
            until_ns = counted_ns;
            lock_close_and_write(host, at, until_ns);
        }
        opening_add(host, at, until_ns);
    }
    if (until_ns > 0 || ending->kind == HFI_ENDING_BROKEN) {
        behind_note(host, at, hold, ending, until_ns);
    }
}

/* Returns whether a hold ended. */
static bool evict(struct host *host, struct lock_ref at, uint32_t holder, uint64_t token,
                  uint32_t delay_ms, const struct cause *cause, struct host_actions *actions)
{
    const struct hfi_ending ending = ending_of(host, cause);
    int64_t until_ns = closing_end(host, at, delay_ms);
    uint32_t handle = handle_of(host, at, holder);
    uint32_t seat = handle != NONE ? handle_seat(host, handle) : HFI_SEAT_NONE;
    if (seat != HFI_SEAT_NONE) {
        hfi_unseat(lock_actor(host, at), at.slot, seat, holder, token);
    }
    hfi_ending_note(space_region(host, at.space), at.slot, token, &ending);
    if (!hfi_evict(lock_actor(host, at), at.slot, holder, token, until_ns)) {
        /* The hold ended by itself. hfi_evict() may have written a closing time into the region;
         * lock_write_closing() writes the time that the agent has recorded. */
        lock_write_closing(host, at);
        return false;
    }
    closing_begin(host, at, (struct ended_hold){holder, handle_mark_of_word(token)}, &ending,
                  until_ns, delay_ms);
    uint64_t top = lock_token_last(host, at);
    log_loss(host, at, cause, hfi_token(top, token), delay_ms, actions);
    uint32_t client = client_of_id(host, holder);
    if (client != NONE) {
        client_poke(host, client);
    }
    watch_changed(host, at);
    return true;
}

void hold_evict(struct host *host, struct lock_ref at, uint32_t holder, uint64_t token,
                uint32_t delay_ms, enum host_loss why, struct host_actions *actions)
{
    (void)evict(host, at, holder, token, delay_ms, &(struct cause){.why = why}, actions);
}

bool hold_break(struct host *host, struct lock_ref at, uint32_t holder, uint64_t token,
                uint32_t delay_ms, const struct hold_breaker *by, struct host_actions *actions)
{
    const struct cause cause = {.why = HOST_LOSS_BREAK, .by = by};
    return evict(host, at, holder, token, delay_ms, &cause, actions);
}

/* Returns whether a hold ended. */
static bool evict_reader(struct host *host, struct lock_ref at, uint32_t seat, uint64_t cell,
                         uint32_t delay_ms, const struct cause *cause, struct host_actions *actions)
{
    const struct hfi_ending ending = ending_of(host, cause);
    const struct hfi_seat *shared = hfi_seat(space_region(host, at.space), seat);
    int64_t until_ns = closing_end(host, at, delay_ms);
    uint64_t reader = atomic_load(&shared->reader);
    if (!(reader & HFI_CELL_COUNT) || (cell && reader != cell)) {
        return false;
    }
    hfi_ending_note_reader(space_region(host, at.space), at.slot, seat, reader, &ending);
    bool was_closed = atomic_load(lock_word(host, at)) & HFI_W_CLOSED;
    bool evicted = hfi_evict_reader(lock_actor(host, at), at.slot, seat, reader, until_ns);
    if (evicted || (!was_closed && (atomic_load(lock_word(host, at)) & HFI_W_CLOSED))) {
        /* The reader may have left by itself while the closed bit was being set. */
        closing_begin(
            host, at,
            (struct ended_hold){seat_holder(host, at.space, seat), handle_mark_of_cell(reader)},
            &ending, until_ns, delay_ms);
    }
    if (!evicted) {
        lock_write_closing(host, at); /* as in evict() */
        return false;
    }
    polled_attend(host, at); /* a writer may have waited for this reader only */
    log_loss(host, at, cause, 0, delay_ms, actions);
    uint32_t client = client_of_id(host, seat_holder(host, at.space, seat));
    if (client != NONE) {
        client_poke(host, client);
    }
    watch_changed(host, at);
    return true;
}

void hold_evict_reader(struct host *host, struct lock_ref at, uint32_t seat, uint64_t cell,
                       uint32_t delay_ms, enum host_loss why, struct host_actions *actions)
{
    (void)evict_reader(host, at, seat, cell, delay_ms, &(struct cause){.why = why}, actions);
}

bool hold_break_reader(struct host *host, struct lock_ref at, uint32_t seat, uint32_t delay_ms,
                       const struct hold_breaker *by, struct host_actions *actions)
{
    const struct cause cause = {.why = HOST_LOSS_BREAK, .by = by};
    return evict_reader(host, at, seat, 0, delay_ms, &cause, actions);
}

bool hold_use_up(struct host *host, struct lock_ref at, const struct hfi_range *range,
                 uint32_t delay_ms, struct host_actions *actions)
{
    const struct cause cause = {.why = HOST_LOSS_DAMAGE};
    const struct hfi_ending ending = ending_of(host, &cause);
    int64_t until_ns = closing_end(host, at, delay_ms);
    uint64_t before = atomic_load(lock_word(host, at));
    /* If the word's token is in the range, no hold ends, and no note is needed. */
    if ((before & HFI_W_HOLDER) &&
        ((before & HFI_W_TOKEN) < range->floor || (before & HFI_W_TOKEN) > range->last)) {
        hfi_ending_note(space_region(host, at.space), at.slot, before, &ending);
    }
    if (!hfi_use_up(lock_actor(host, at), at.slot, range, until_ns, &before)) {
        return false;
    }
    if (before & HFI_W_HOLDER) {
        closing_begin(host, at,
                      (struct ended_hold){hfi_word_holder(before), handle_mark_of_word(before)},
                      &ending, until_ns, delay_ms);
        log_loss(host, at, &cause, hfi_token(lock_token_last(host, at), before), delay_ms, actions);
        uint32_t client = client_of_id(host, hfi_word_holder(before));
        if (client != NONE) {
            client_poke(host, client);
        }
        watch_changed(host, at);
    }
    return true;
}
