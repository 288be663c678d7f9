/* The lock-delays that the next agent assumes: see delays.h. */
#include "delays.h"

#include "locks.h"

struct delays {
    _Atomic uint16_t *notes_ms; /* borrowed, in memory that outlives the agent */
    uint32_t count;
    bool stale; /* some notes may be longer than their handles' lock-delays */
    /* by note: the longest lock-delay of the handles counted so far */
    uint16_t settled_ms[HOST_DELAYS_MAX];
    uint32_t hand; /* the first handle that is not counted yet; 0: no count is under way */
};

struct delays *delays_lay_out(struct arena *arena)
{
    return arena_take(arena, 1, sizeof(struct delays));
}

bool delays_are_noted(const struct host *host)
{
    return host->delays->count > 0;
}

void host_set_delays(struct host *host, _Atomic uint16_t *delays_ms, uint32_t count)
{
    HF_CHECK(!host->started && count <= HOST_DELAYS_MAX);
    host->delays->notes_ms = delays_ms;
    host->delays->count = count;
}

static uint32_t note_of(const struct host *host, struct lock_ref at)
{
    return (uint32_t)(lock_hash(host, at) % host->delays->count);
}

uint32_t delay_noted_ms(const struct host *host, struct lock_ref at)
{
    if (host->delays->count == 0 || !lock_is_named(host, at)) {
        return LOCK_DELAY_UNKNOWN_MS;
    }
    /* seq_cst, though no order with other processes is needed: no other process reads the note
     * while this process lives. The note only has to be written before the client has its
     * answer. */
    uint32_t noted_ms = atomic_load(&host->delays->notes_ms[note_of(host, at)]);
    noted_ms = noted_ms < MESSAGE_LOCK_DELAY_MAX_MS ? noted_ms : MESSAGE_LOCK_DELAY_MAX_MS;
    return noted_ms > LOCK_DELAY_UNKNOWN_MS ? noted_ms : LOCK_DELAY_UNKNOWN_MS;
}

uint32_t delays_longest_ms(const struct host *host)
{
    uint32_t longest_ms = LOCK_DELAY_UNKNOWN_MS;
    for (uint32_t i = 0; i < host->delays->count; i++) {
        /* seq_cst: see delay_noted_ms() */
        uint32_t noted_ms = atomic_load(&host->delays->notes_ms[i]);
        longest_ms = noted_ms > longest_ms ? noted_ms : longest_ms;
    }
    return host->delays->count > 0 && longest_ms < MESSAGE_LOCK_DELAY_MAX_MS
               ? longest_ms
               : MESSAGE_LOCK_DELAY_MAX_MS;
}

void delays_count(struct host *host, struct lock_ref at, uint32_t delay_ms)
{
    uint16_t *settled = &host->delays->settled_ms[note_of(host, at)];
    if (delay_ms > LOCK_DELAY_UNKNOWN_MS && delay_ms > *settled) {
        *settled = (uint16_t)delay_ms;
    }
}

void delay_note(struct host *host, struct lock_ref at, uint32_t delay_ms)
{
    if (host->delays->hand > 0 && lock_is_named(host, at)) {
        delays_count(host, at, delay_ms);
    }
    if (host->delays->count > 0 && delay_ms > delay_noted_ms(host, at)) {
        /* seq_cst: see delay_noted_ms() */
        atomic_store(&host->delays->notes_ms[note_of(host, at)], (uint16_t)delay_ms);
    }
}

void delay_gone(struct host *host, uint32_t delay_ms)
{
    host->delays->stale = host->delays->stale || delay_ms > LOCK_DELAY_UNKNOWN_MS;
}

void delays_adopt(struct host *host)
{
    for (uint32_t i = 0; host->config.continued_epoch == 0 && i < host->delays->count; i++) {
        /* In a new session no handle is left. seq_cst: see delay_noted_ms(). */
        atomic_store(&host->delays->notes_ms[i], 0);
    }
    host->delays->stale = true;
}

bool delays_count_begin(struct host *host, uint32_t *hand)
{
    struct delays *delays = host->delays;
    if (delays->count == 0 || (delays->hand == 0 && !delays->stale)) {
        return false;
    }
    if (delays->hand == 0) {
        memset(delays->settled_ms, 0, delays->count * sizeof(*delays->settled_ms));
        /* if a noted handle ends after this point, all handles have to be counted once more */
        delays->stale = false;
    }
    *hand = delays->hand;
    return true;
}

void delays_count_end(struct host *host, uint32_t hand)
{
    struct delays *delays = host->delays;
    delays->hand = hand;
    /* If the agent is killed in this loop, some notes stay too long, which is safe. seq_cst: see
     * delay_noted_ms(). */
    for (uint32_t i = 0; hand == 0 && i < delays->count; i++) {
        if (atomic_load(&delays->notes_ms[i]) != delays->settled_ms[i]) {
            atomic_store(&delays->notes_ms[i], delays->settled_ms[i]);
        }
    }
}
