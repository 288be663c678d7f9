/*
 * Lock-delays that outlive the agent.
 *
 * A grant covers the longest lock-delay of the lock's handles. What handles there are is known only
 * when the clients of the agent before this one have opened theirs again; but what is granted until
 * then may be taken before that, by whoever has it open. So the longest lock-delay of a lock is
 * noted beside the regions before the OPEN that asks for it is answered, and counts until all
 * handles are known.
 *
 * There is no room for each lock: a note is that of all locks whose names' hashes fall on it. So
 * it may say more than a lock's handles ask for, never less; and it names neither slots nor
 * namespaces, which may be others for the next agent. Lock-delays that are counted with in any case
 * are not noted. Notes only rise, until all handles have been counted again: so many with each
 * renewal, when one of them is gone and none is unknown. What comes meanwhile counts with them.
 *
 * No client maps these notes. What is read in them is checked all the same.
 */
#include "state.h"

void host_set_delays(struct host *host, _Atomic uint16_t *delays_ms, uint32_t count)
{
    HF_CHECK(!host->started && count <= HOST_DELAYS_MAX);
    host->delays_ms = delays_ms;
    host->delay_count = count;
}

bool handle_may_take(const struct host *host, const struct handle *who)
{
    return (who->flags & HANDLE_USED) && !(who->flags & (HANDLE_FOUND | HANDLE_LEFT)) &&
           (!(who->flags & HANDLE_ZOMBIE) || client_may_use_closed(host, who->client));
}

static uint32_t note_of(const struct host *host, struct place at)
{
    return (uint32_t)(lock_hash(host, at) % host->delay_count);
}

uint32_t delay_noted_ms(const struct host *host, struct place at)
{
    if (host->delay_count == 0 || !lock_is_named(lock_at(host, at))) {
        return LOCK_DELAY_UNKNOWN_MS;
    }
    /* seq_cst: nobody else reads it while this process lives; what counts is that it is there
     * whenever the client has its answer. */
    uint32_t noted_ms = atomic_load(&host->delays_ms[note_of(host, at)]);
    noted_ms = noted_ms < MESSAGE_LOCK_DELAY_MAX_MS ? noted_ms : MESSAGE_LOCK_DELAY_MAX_MS;
    return noted_ms > LOCK_DELAY_UNKNOWN_MS ? noted_ms : LOCK_DELAY_UNKNOWN_MS;
}

uint32_t delays_longest_ms(const struct host *host)
{
    uint32_t longest_ms = LOCK_DELAY_UNKNOWN_MS;
    for (uint32_t i = 0; i < host->delay_count; i++) {
        uint32_t noted_ms = atomic_load(&host->delays_ms[i]); /* seq_cst: as above */
        longest_ms = noted_ms > longest_ms ? noted_ms : longest_ms;
    }
    return host->delay_count > 0 && longest_ms < MESSAGE_LOCK_DELAY_MAX_MS
               ? longest_ms
               : MESSAGE_LOCK_DELAY_MAX_MS;
}

uint32_t handle_delay_ms(const struct host *host, const struct handle *who)
{
    struct place at = {who->space, who->slot};
    uint32_t noted_ms = host->delay_count > 0 && (who->flags & HANDLE_ZOMBIE)
                            ? delay_noted_ms(host, at)
                            : UINT32_MAX;
    return who->lock_delay_ms < noted_ms ? who->lock_delay_ms : noted_ms;
}

/* The handles that are counted by now have that lock-delay among them. */
static void settle_with(struct host *host, struct place at, uint32_t delay_ms)
{
    uint16_t *settled = &host->delays_settled_ms[note_of(host, at)];
    if (delay_ms > LOCK_DELAY_UNKNOWN_MS && delay_ms > *settled) {
        *settled = (uint16_t)delay_ms;
    }
}

void delay_note(struct host *host, struct place at, uint32_t delay_ms)
{
    if (host->delays_hand > 0 && lock_is_named(lock_at(host, at))) {
        settle_with(host, at, delay_ms);
    }
    if (host->delay_count > 0 && delay_ms > delay_noted_ms(host, at)) {
        /* seq_cst: as above */
        atomic_store(&host->delays_ms[note_of(host, at)], (uint16_t)delay_ms);
    }
}

void delay_gone(struct host *host, uint32_t delay_ms)
{
    host->delays_stale = host->delays_stale || delay_ms > LOCK_DELAY_UNKNOWN_MS;
}

void delays_adopt(struct host *host)
{
    for (uint32_t i = 0; host->config.continued_epoch == 0 && i < host->delay_count; i++) {
        atomic_store(&host->delays_ms[i], 0); /* nobody has anything open; seq_cst: as above */
    }
    host->delays_stale = true;
}

void delays_settle(struct host *host)
{
    if (host->delay_count == 0 || handles_unknown(host) ||
        (host->delays_hand == 0 && !host->delays_stale)) {
        return;
    }
    uint16_t *settled_ms = host->delays_settled_ms;
    if (host->delays_hand == 0) {
        memset(settled_ms, 0, host->delay_count * sizeof(*settled_ms));
        host->delays_stale = false; /* what goes from now on is for the next count */
    }
    uint32_t end = host->delays_hand + HOST_DELAYS_PIECE;
    end = end < host->handles_used ? end : host->handles_used;
    for (uint32_t i = host->delays_hand; i < end; i++) {
        const struct handle *who = &host->handles[i];
        struct place at = {who->space, who->slot};
        if (who->lock_delay_ms > LOCK_DELAY_UNKNOWN_MS && handle_may_take(host, who) &&
            lock_is_named(lock_at(host, at))) {
            settle_with(host, at, handle_delay_ms(host, who));
        }
    }
    host->delays_hand = end < host->handles_used ? end : 0;
    /* A kill in between leaves notes that say too much. seq_cst: as above */
    for (uint32_t i = 0; host->delays_hand == 0 && i < host->delay_count; i++) {
        if (atomic_load(&host->delays_ms[i]) != settled_ms[i]) {
            atomic_store(&host->delays_ms[i], settled_ms[i]);
        }
    }
}
