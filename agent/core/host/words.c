/* A word against what is known of its lock: see words.h. */
#include "words.h"

#include "bells.h"
#include "holds.h"
#include "openings.h"
#include "state.h"
#include "watches.h"

enum {
    WORD_MARGIN_MS = 10 * 1000
}; /* behind a lock-delay, in which it may count for a give-back */

/* What is adopted need not be as it should: the agent before was stopped at any moment. */
void word_mended(struct host *host, struct lock_ref at)
{
    host->spaces[at.space].repairs += host->started;
    host->counts.repairs += host->started;
}

/* What the word's mode has to be. */
static enum hfi_grant mode_in_force(const struct host *host, struct lock_ref at)
{
    const struct lock *lock = lock_at(host, at);
    bool in_force = lock_is_granted(lock) ? lock_guard(host, at)->in_force
                                          : lock->state == LOCK_ADOPTED;
    return in_force ? (enum hfi_grant)lock->mode : HFI_GRANT_NONE;
}

static struct hfi_range range_of(const struct host *host, struct lock_ref at)
{
    return (struct hfi_range){.floor = lock_guard(host, at)->floor,
                              .last = lock_at(host, at)->token_last & HFI_W_TOKEN};
}

uint64_t word_token_used(const struct host *host, struct lock_ref at)
{
    struct hfi_range range = range_of(host, at);
    uint64_t last = lock_at(host, at)->token_last;
    uint64_t token = atomic_load(lock_word(host, at)) & HFI_W_TOKEN;
    return token >= range.floor && token <= range.last ? hfi_token(last, token) : last;
}

/* A token that was not handed out: whoever had the lock has lost it, by whoever wrote that. */
static void repair_token(struct host *host, struct lock_ref at, struct host_actions *actions)
{
    struct hfi_range range = range_of(host, at);
    uint64_t word = atomic_load(lock_word(host, at));
    if ((word & HFI_W_TOKEN) < range.floor || (word & HFI_W_TOKEN) > range.last) {
        uint32_t holder = hfi_word_holder(word);
        uint32_t delay_ms = holder == 0 ? 0 : hold_delay_ms(host, at, holder);
        if (hold_use_up(host, at, &range, delay_ms, actions)) {
            word_mended(host, at);
        }
    }
    word = atomic_load(lock_word(host, at)) & HFI_W_TOKEN;
    if (word >= range.floor && word <= range.last) {
        lock_guard(host, at)->floor = word;
    }
}

/* Closed is what the agent closed, and for as long as it did. */
static void repair_closing(struct host *host, struct lock_ref at, struct host_actions *actions)
{
    _Atomic uint64_t *told = &host->spaces[at.space].region.slots[at.slot].closed_until_ns;
    uint64_t word = atomic_load(lock_word(host, at));
    int64_t until_ns = lock_closed_until_ns(host, at);
    int64_t told_ns = (int64_t)(atomic_load(told) & INT64_MAX);
    int64_t now_ns = bells_clock_ns(host); /* as hfi_evict() goes by */
    bool closed = until_ns > now_ns;
    if (told_ns != until_ns && (closed || told_ns > now_ns)) {
        /* Told without the bit by a closing that came to nothing, too: a hold that ended by itself.
         * seq_cst: before the bit. */
        atomic_store(told, (uint64_t)until_ns);
        if (word & HFI_W_CLOSED) {
            word_mended(host, at);
        }
    }
    if (closed && !(word & HFI_W_CLOSED)) {
        atomic_fetch_or(lock_word(host, at), HFI_W_CLOSED); /* as hfi_evict_reader() does */
        word_mended(host, at);
    }
    if (closed && !opening_is_due(host, at)) {
        opening_add(host, at, until_ns);
    } else if (!closed && (word & HFI_W_CLOSED)) {
        hfi_open(lock_actor(host, at), at.slot);
        if (until_ns != 0) {
            lock_log(host, actions, "lock_opened", at, 0, 0);
        } else {
            word_mended(host, at);
        }
        watch_changed(host, at);
    }
}

/* Bits that stand for ever, or until they are taken away here. */
static void repair_bits(struct host *host, struct lock_ref at)
{
    const struct guard *guard = lock_guard(host, at);
    const struct lock *lock = lock_at(host, at);
    uint64_t bits = (guard->cells ? HFI_W_CELLS : 0) | (guard->watched ? HFI_W_WATCHED : 0);
    if (lock->state == LOCK_ADOPTED && lock->mode != HFI_GRANT_NONE) {
        bits |= HFI_W_RECALL; /* nobody new gets in */
    }
    if (bits & ~atomic_load(lock_word(host, at))) {
        atomic_fetch_or(lock_word(host, at), bits); /* seq_cst: as where they were set first */
        word_mended(host, at);
    }
}

void word_repair(struct host *host, struct lock_ref at, struct host_actions *actions)
{
    const struct lock *lock = lock_at(host, at);
    enum hfi_grant mode = lock->state == LOCK_RETIRED ? HFI_GRANT_RETIRED : mode_in_force(host, at);
    uint64_t word = atomic_load(lock_word(host, at));
    if (lock->state == LOCK_FREE) {
        return;
    }
    if (mode == HFI_GRANT_NONE || mode == HFI_GRANT_RETIRED) {
        if (hfi_word_mode(word) != mode || (word & HFI_W_HOLDER)) {
            lock_revoke(host, at, mode); /* nobody can have it */
            word_mended(host, at);
        }
    } else {
        if (hfi_set_mode(lock_actor(host, at), at.slot, mode)) {
            word_mended(host, at);
        }
        if (lock_guard(host, at)->in_force) {
            repair_token(host, at, actions);
        }
        word = atomic_load(lock_word(host, at));
        if (mode == HFI_GRANT_SHARED && (word & HFI_W_HOLDER)) { /* nobody can have that */
            hold_evict(host, at, hfi_word_holder(word), word & HFI_W_TOKEN,
                       hold_delay_ms(host, at, hfi_word_holder(word)), HOST_LOSS_DEATH, actions);
            word_mended(host, at);
        }
    }
    if (lock_is_named(lock)) {
        repair_closing(host, at, actions);
        repair_bits(host, at);
    }
}

void word_adopt(struct host *host, struct lock_ref at, uint32_t delay_ms)
{
    const struct lock *lock = lock_at(host, at);
    (void)hfi_index_mend(&host->spaces[at.space].region, at.slot, lock_hash(host, at));
    const struct hfi_slot *shared = &host->spaces[at.space].region.slots[at.slot];
    uint64_t word = atomic_load(lock_word(host, at));
    enum hfi_grant mode = hfi_word_mode(word);
    int64_t until_ns = (int64_t)(atomic_load(&shared->closed_until_ns) & INT64_MAX);
    int64_t latest_ns = host->now_ns + (int64_t)delay_ms * MS;
    *lock_guard(host, at) = (struct guard){
        .in_force = lock_is_granted(lock) &&
                    (mode == HFI_GRANT_SHARED || mode == HFI_GRANT_EXCLUSIVE),
        .cells = (word & HFI_W_CELLS) != 0,
    };
    if (!(word & HFI_W_CLOSED)) {
        latest_ns = host->now_ns; /* what is over may count for a give-back */
        until_ns = until_ns > latest_ns ? 0 : until_ns;
    }
    if (until_ns > host->now_ns - WORD_MARGIN_MS * MS) {
        lock_close_told(host, at, until_ns < latest_ns ? until_ns : latest_ns);
    }
}

void word_put_in_force(struct host *host, struct lock_ref at, uint64_t token_first,
                       struct host_actions *actions)
{
    const struct lock *lock = lock_at(host, at);
    struct guard *guard = lock_guard(host, at);
    hfi_grant(lock_actor(host, at), at.slot, (enum hfi_grant)lock->mode, token_first,
              lock->token_last);
    guard->in_force = 1;
    guard->floor = 0; /* a holder that was adopted keeps its token, which is of the range before */
    word_repair(host, at, actions);
}
