/* Taking holds away: see holds.h. */
#include "holds.h"

#include "clients.h"
#include "delays.h"
#include "handles.h"
#include "locks.h"
#include "openings.h"
#include "seats.h"
#include "spaces.h"
#include "watches.h"

uint32_t hold_delay_ms(const struct host *host, struct lock_ref at, uint32_t holder)
{
    uint32_t handle = handle_of(host, at, holder);
    return handle != NONE ? handle_delay_ms(host, handle) : lock_covered_ms(host, at);
}

static void log_loss(struct host *host, struct lock_ref at, enum host_loss why, uint64_t token,
                     uint32_t delay_ms, struct host_actions *actions)
{
    const char *event = why == HOST_LOSS_DEATH   ? "lock_closed"
                        : why == HOST_LOSS_BREAK ? "lock_broken"
                                                 : "lease_ended";
    host->counts.losses[why]++;
    HF_PROBE4(hold_taken_away, at.space, at.slot, why, token);
    lock_log(host, actions, event, at, token, delay_ms);
}

/* Notes that the lock will be closed for delay_ms. The caller has not closed it yet. */
static void closing_note(const struct host *host, struct lock_ref at, uint32_t delay_ms)
{
    if (delays_are_noted(host) && delay_noted_ms(host, at) < delay_ms) {
        /* The lock's grant may cover more than any handle asked for. */
        delay_ms = delay_noted_ms(host, at);
    }
    if (delay_ms > 0) {
        space_note_closing(host, at.space,
                           host->now_ns + (int64_t)delay_ms * MS +
                               hub_counted_long_ns(host, delay_ms));
    }
}

/* Returns until when a lock is to be closed behind a hold that ends now, and notes that; 0: it does
 * not close. */
static int64_t closing_end(const struct host *host, struct lock_ref at, uint32_t delay_ms)
{
    closing_note(host, at, delay_ms);
    int64_t until_ns = host->now_ns + (int64_t)delay_ms * MS;
    int64_t before_ns = lock_closed_until_ns(host, at);
    until_ns = lock_closing_end_ns(until_ns);
    return delay_ms == 0 ? 0 : until_ns > before_ns ? until_ns : before_ns;
}

static void closing_begin(struct host *host, struct lock_ref at, int64_t until_ns)
{
    if (until_ns > 0) {
        lock_close(host, at, until_ns);
        opening_add(host, at, until_ns);
    }
}

void hold_evict(struct host *host, struct lock_ref at, uint32_t holder, uint64_t token,
                uint32_t delay_ms, enum host_loss why, struct host_actions *actions)
{
    int64_t until_ns = closing_end(host, at, delay_ms);
    if (!hfi_evict(lock_actor(host, at), at.slot, holder, token, until_ns)) {
        /* The hold ended by itself. hfi_evict() may have written a closing time, which this takes
         * back. */
        lock_tell_closing(host, at);
        return;
    }
    closing_begin(host, at, until_ns);
    uint64_t top = lock_token_last(host, at);
    log_loss(host, at, why, hfi_token(top, token), delay_ms, actions);
    uint32_t client = client_of_id(host, holder);
    if (client != NONE) {
        client_poke(host, client);
    }
    watch_changed(host, at);
}

void hold_evict_reader(struct host *host, struct lock_ref at, uint32_t seat, uint64_t cell,
                       uint32_t delay_ms, enum host_loss why, struct host_actions *actions)
{
    const struct hfi_seat *shared = hfi_seat(space_region(host, at.space), seat);
    int64_t until_ns = closing_end(host, at, delay_ms);
    uint64_t reader = atomic_load(&shared->reader);
    if (!(reader & HFI_CELL_COUNT) || (cell && reader != cell)) {
        return;
    }
    bool evicted = hfi_evict_reader(lock_actor(host, at), at.slot, seat, reader, until_ns);
    if (evicted || (atomic_load(lock_word(host, at)) & HFI_W_CLOSED)) {
        /* The reader may have left by itself while the closed bit was being set. */
        closing_begin(host, at, until_ns);
    }
    if (!evicted) {
        return;
    }
    log_loss(host, at, why, 0, delay_ms, actions);
    uint32_t client = client_of_id(host, seat_holder(host, at.space, seat));
    if (client != NONE) {
        client_poke(host, client);
    }
    watch_changed(host, at);
}

bool hold_use_up(struct host *host, struct lock_ref at, const struct hfi_range *range,
                 uint32_t delay_ms, struct host_actions *actions)
{
    int64_t until_ns = closing_end(host, at, delay_ms);
    uint64_t before = 0;
    if (!hfi_use_up(lock_actor(host, at), at.slot, range, until_ns, &before)) {
        return false;
    }
    if (before & HFI_W_HOLDER) {
        closing_begin(host, at, until_ns);
        log_loss(host, at, HOST_LOSS_DEATH, hfi_token(lock_token_last(host, at), before), delay_ms,
                 actions);
        uint32_t client = client_of_id(host, hfi_word_holder(before));
        if (client != NONE) {
            client_poke(host, client);
        }
        watch_changed(host, at);
    }
    return true;
}
