/* Compares a word with what is known of its lock: see words.h. */
#include "words.h"

#include "holds.h"
#include "locks.h"
#include "openings.h"
#include "ringing.h"
#include "spaces.h"
#include "watches.h"

enum {
    /* the longest time after the end of a lock-delay for which a give-back may have to wait: half
     * of the longest lock-delay, because max_drift is at most 50 % */
    WORD_MARGIN_MS = 30 * 1000
};

struct words {
    /* by namespace: how many repairs there were since the count was reset */
    uint64_t repairs[HOST_NAMESPACES_MAX];
};

struct words *words_lay_out(struct arena *arena)
{
    return arena_take(arena, 1, sizeof(struct words));
}

uint64_t words_repairs(const struct host *host, uint32_t space)
{
    return host->words->repairs[space];
}

void words_count_repair(struct host *host, uint32_t space)
{
    host->words->repairs[space]++;
}

void words_forget_repairs(struct host *host, uint32_t space)
{
    host->words->repairs[space] = 0;
}

/* A repair before START is not counted, because the previous agent may have been killed in the
 * middle of a change. */
void word_mended(struct host *host, struct lock_ref at)
{
    host->words->repairs[at.space] += host->started;
    host->counts.repairs += host->started;
}

/* Returns the mode that the word must have. */
static enum hfi_grant mode_in_force(const struct host *host, struct lock_ref at)
{
    bool in_force = lock_is_granted(host, at) ? lock_in_force(host, at)
                                              : lock_state(host, at) == LOCK_ADOPTED;
    return in_force ? lock_mode(host, at) : HFI_GRANT_NONE;
}

static struct hfi_range range_of(const struct host *host, struct lock_ref at)
{
    return (struct hfi_range){.floor = lock_floor(host, at),
                              .last = lock_token_last(host, at) & HFI_W_TOKEN};
}

uint64_t word_token_used(const struct host *host, struct lock_ref at)
{
    struct hfi_range range = range_of(host, at);
    uint64_t last = lock_token_last(host, at);
    uint64_t token = atomic_load(lock_word(host, at)) & HFI_W_TOKEN;
    return token >= range.floor && token <= range.last ? hfi_token(last, token) : last;
}

/* If the word's token is outside the grant's range, a process has written rubbish. Marks all tokens
 * of the range as used, and takes the lock from the holder that the word names. */
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
        lock_set_floor(host, at, word);
    }
}

/* Corrects the closed bit and the region's closing time. lock_closed_until_ns() says until when the
 * lock is closed. */
static void repair_closing(struct host *host, struct lock_ref at, struct host_actions *actions)
{
    _Atomic uint64_t *in_region = &space_region(host, at.space)->slots[at.slot].closed_until_ns;
    uint64_t word = atomic_load(lock_word(host, at));
    int64_t until_ns = lock_closed_until_ns(host, at);
    int64_t in_region_ns = (int64_t)(atomic_load(in_region) & INT64_MAX);
    int64_t now_ns = ringing_clock_ns(host); /* the clock that hfi_evict() uses */
    bool closed = until_ns > now_ns;
    if (in_region_ns != until_ns && (closed || in_region_ns > now_ns)) {
        /* The region may have a closing time although the closed bit is not set: a hold may have
         * ended by itself before the lock could be closed behind it. That is no damage. seq_cst:
         * the time is written before the bit. */
        atomic_store(in_region, (uint64_t)until_ns);
        if (word & HFI_W_CLOSED) {
            word_mended(host, at);
        }
    }
    if (closed && !(word & HFI_W_CLOSED)) {
        /* seq_cst, as in hfi_evict_reader() */
        atomic_fetch_or(lock_word(host, at), HFI_W_CLOSED);
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
    if (until_ns != 0 && until_ns < now_ns - WORD_MARGIN_MS * MS) {
        lock_close(host, at, 0); /* nothing needs this time, and it would come again: see locks.c */
    }
}

/* Sets the bits that the word must have, if a process has cleared one of them. */
static void repair_bits(struct host *host, struct lock_ref at)
{
    uint64_t bits = (lock_has_cells(host, at) ? HFI_W_CELLS : 0) |
                    (lock_is_watched(host, at) ? HFI_W_WATCHED : 0);
    if (lock_state(host, at) == LOCK_ADOPTED && lock_mode(host, at) != HFI_GRANT_NONE) {
        bits |= HFI_W_RECALL; /* so that no new hold begins */
    }
    if (bits & ~atomic_load(lock_word(host, at))) {
        atomic_fetch_or(lock_word(host, at), bits); /* seq_cst, as when the bits were first set */
        word_mended(host, at);
    }
}

void word_repair(struct host *host, struct lock_ref at, struct host_actions *actions)
{
    enum hfi_grant mode = lock_state(host, at) == LOCK_RETIRED ? HFI_GRANT_RETIRED
                                                               : mode_in_force(host, at);
    uint64_t word = atomic_load(lock_word(host, at));
    if (lock_state(host, at) == LOCK_FREE) {
        return;
    }
    if (mode == HFI_GRANT_NONE || mode == HFI_GRANT_RETIRED) {
        if (hfi_word_mode(word) != mode || (word & HFI_W_HOLDER)) {
            /* in these modes no process can hold the lock */
            lock_revoke(host, at, mode, HFI_ENDING_DAMAGE);
            word_mended(host, at);
        }
    } else {
        if (hfi_set_mode(lock_actor(host, at), at.slot, mode)) {
            word_mended(host, at);
        }
        if (lock_in_force(host, at)) {
            repair_token(host, at, actions);
        }
        word = atomic_load(lock_word(host, at));
        if (mode == HFI_GRANT_SHARED && (word & HFI_W_HOLDER)) { /* a shared word has no holder */
            hold_evict(host, at, hfi_word_holder(word), word & HFI_W_TOKEN,
                       hold_delay_ms(host, at, hfi_word_holder(word)), HOST_LOSS_DAMAGE, actions);
            word_mended(host, at);
        }
    }
    if (lock_is_named(host, at)) {
        repair_closing(host, at, actions);
        repair_bits(host, at);
    }
}

void word_adopt(struct host *host, struct lock_ref at, uint32_t delay_ms)
{
    (void)hfi_index_mend(space_region(host, at.space), at.slot, lock_hash(host, at));
    const struct hfi_slot *shared = &space_region(host, at.space)->slots[at.slot];
    uint64_t word = atomic_load(lock_word(host, at));
    enum hfi_grant mode = hfi_word_mode(word);
    int64_t until_ns = (int64_t)(atomic_load(&shared->closed_until_ns) & INT64_MAX);
    int64_t latest_ns = host->now_ns + (int64_t)delay_ms * MS;
    lock_forget_word(host, at);
    lock_set_in_force(host, at,
                      lock_is_granted(host, at) &&
                          (mode == HFI_GRANT_SHARED || mode == HFI_GRANT_EXCLUSIVE));
    if (word & HFI_W_CELLS) {
        lock_set_cells(host, at);
    }
    if (!(word & HFI_W_CLOSED)) {
        /* the lock is open, but a lock-delay that is over may still delay a give-back */
        latest_ns = host->now_ns;
        until_ns = until_ns > latest_ns ? 0 : until_ns;
    }
    if (until_ns > host->now_ns - WORD_MARGIN_MS * MS) {
        lock_close_and_write(host, at, until_ns < latest_ns ? until_ns : latest_ns);
    }
}

void word_put_in_force(struct host *host, struct lock_ref at, uint64_t token_first,
                       struct host_actions *actions)
{
    hfi_grant(lock_actor(host, at), at.slot, lock_mode(host, at), token_first,
              lock_token_last(host, at));
    lock_set_in_force(host, at, true);
    /* Until word_repair() sets the floor, it is 0: an adopted holder keeps its token, which may be
     * below the range. */
    lock_set_floor(host, at, 0);
    word_repair(host, at, actions);
}
