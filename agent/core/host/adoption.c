/* Taking over what the previous agent left: see adoption.h. */
#include "adoption.h"

#include "attend.h"
#include "burials.h"
#include "clients.h"
#include "delays.h"
#include "grants.h"
#include "handles.h"
#include "kept.h"
#include "lease.h"
#include "locks.h"
#include "requests.h"
#include "ringing.h"
#include "seats.h"
#include "slots.h"
#include "spaces.h"
#include "words.h"

const char *host_add_region(struct host *host, uint32_t index, const struct hfi_region *base,
                            bool adopted)
{
    if (index >= host->config.namespace_count || space_is_used(host, index) ||
        space_is_leaving(host, index)) {
        return "no such namespace, or it has a region already";
    }
    if (base->slot_count != host->config.limits.locks ||
        base->block_count != host->config.limits.blocks ||
        base->holder_count != hub_id_end(&host->config)) {
        return "its size is not the one that [limits] ask for";
    }
    struct hfi_region region = *base;
    seats_attach(host, index, &region);
    space_begin(host, index, &region, adopted, ringing_kernel(host));
    return NULL;
}

bool host_load_slot(struct host *host, uint32_t index, uint32_t slot, const uint8_t *name,
                    size_t size)
{
    struct lock_ref at = {index, slot};
    if (index >= host->config.namespace_count || !space_is_used(host, index) ||
        slot >= space_region(host, index)->slot_count || lock_is_named(host, at) ||
        lock_find(host, name, size, &(struct lock_ref){0})) {
        return false;
    }
    return slot_load(host, at, name, size);
}

/*
 * Raises the word's token to the grant's range. The token is below that range if the previous agent
 * died before it put the grant in force. A process that holds the lock keeps its token.
 */
static void token_raise(struct host *host, struct lock_ref at, uint64_t token_first)
{
    _Atomic uint64_t *word = lock_word(host, at);
    uint64_t floor = (token_first - 1) & HFI_W_TOKEN;
    for (unsigned tries = 0; tries < 1000; tries++) {
        uint64_t seen = atomic_load(word);
        /* seq_cst, like every swap of the word. The swap fails if a client has changed the word. */
        if ((seen & HFI_W_HOLDER) || (seen & HFI_W_TOKEN) >= floor ||
            atomic_compare_exchange_strong(word, &seen, (seen & ~HFI_W_TOKEN) | floor)) {
            return;
        }
    }
}

/* Returns whether the value has a grant of the session that this agent continues. Sets *version to
 * the version of that grant. */
static bool own_grant(const struct host *host, const struct message_value *value,
                      struct message_order *version)
{
    const struct message_agent *agent = &host->config.agent;
    uint32_t epoch = host->config.continued_epoch;
    for (uint32_t i = 0; value->mode == MESSAGE_MODE_SHARED && i < value->share_count; i++) {
        const struct message_share *share = &value->shares[i];
        if (share->epoch == epoch && memcmp(&share->agent, agent, sizeof(*agent)) == 0) {
            *version = share->version;
            return true;
        }
    }
    *version = value->version;
    return value->mode == MESSAGE_MODE_EXCLUSIVE && value->epoch == epoch &&
           memcmp(&value->owner, agent, sizeof(*agent)) == 0;
}

void host_load_grant(struct host *host, const struct message_name *name,
                     const struct message_value *value)
{
    struct lock_ref at = {0};
    struct message_order version;
    if (!own_grant(host, value, &version) || !lock_find(host, name->bytes, name->length, &at) ||
        !space_grants_are_known(host, at.space)) {
        /* in a larger cell the value of this agent's own acceptor need not be the chosen value */
        return;
    }
    uint64_t top = atomic_load(&space_region(host, at.space)->slots[at.slot].token_top);
    if (top != 0 && top >> HFI_TOKEN_LOW_BITS != value->token_last >> HFI_TOKEN_LOW_BITS) {
        /* The previous agent died before it moved the lock to another slot, so no process has a
         * hold under these tokens. When this agent asks, the quorum answers with the same grant,
         * and the answer moves the lock (grant_move()). Until then this agent does not know the
         * grant, so that nothing puts it in force in this slot. */
        return;
    }
    bool shared = value->mode == MESSAGE_MODE_SHARED;
    lock_set_state(host, at, LOCK_GRANTED);
    lock_set_version(host, at, version);
    lock_set_covered_ms(host, at, value->lock_delay_ms);
    lock_set_mode(host, at, shared ? HFI_GRANT_SHARED : HFI_GRANT_EXCLUSIVE);
    lock_set_tokens(host, at, value->token_first, value->token_last);
    /* A token whose low bits are 0 is never handed out. Readers have the token that the word shows,
     * which is the first of their range. See grant_apply(). */
    bool next = shared || !(value->token_first & HFI_W_TOKEN);
    token_raise(host, at, value->token_first + next);
}

const char *host_check_region(struct host *host, uint32_t index)
{
    if (space_is_used(host, index) && space_is_adopted(host, index) && !seats_adopt(host, index)) {
        return "its seats are not at the positions that its slots name";
    }
    return NULL;
}

/*
 * Returns the client record for an id that no living process has. With the record, the id's seats
 * are buried like those of any dead client. Without a record, the id would be given to another
 * client while its seats are still there. Returns NONE if the table has no room. All such ids share
 * one record, because after many deaths the table may not have room for a record for each id.
 * *ghost is the record's first id (0: there is no record yet).
 */
static uint32_t ghost_of(struct host *host, uint32_t id, uint32_t *ghost)
{
    uint32_t client = client_of_id(host, id);
    if (client == NONE) {
        const struct host_peer nobody = {.pid = -1, .uid = -1, .account = -1};
        if (!host_load_survivor(host, *ghost ? *ghost : id, id, 0, &nobody)) {
            return NONE;
        }
        *ghost = *ghost ? *ghost : id;
        client = client_of_id(host, id);
        burial_client_known(host, client);
        client_set(host, client, CLIENT_DEAD);
    }
    return client;
}

/* Ends the holds and the waits of dead processes in the seats of one lock. */
static void adopt_seats(struct host *host, struct lock_ref at, uint32_t *ghost,
                        struct host_actions *actions)
{
    struct seat_walk walk = seats_of(host, at);
    while (seats_next(&walk)) {
        uint32_t id = seat_holder(host, at.space, walk.seat);
        uint32_t client = client_of_id(host, id);
        if (id == 0 || (client != NONE && client_lives(host, client))) {
            continue;
        }
        client = ghost_of(host, id, ghost);
        if (client == NONE) {
            hfi_bury_waiter(space_actor(host, at.space), walk.seat);
        } else if (hub_has_room(actions)) {
            burial_of_seat(host, client, at, walk.seat, actions);
        } else { /* no room for more actions: the remaining losses get no log line */
            uint32_t count = actions->count;
            burial_of_seat(host, client, at, walk.seat, actions);
            actions->count = count;
        }
    }
}

/*
 * Adopts a lock of a continued session. Only the quorum knows which grant the lock has. If the word
 * is in force, no new hold begins until the quorum has answered. If a process holds the lock, the
 * agent asks the quorum at once. Otherwise it asks when a process wants the lock.
 */
static void adopt_unknown(struct host *host, struct lock_ref at, uint32_t *ghost,
                          struct host_actions *actions)
{
    const struct hfi_actor *actor = lock_actor(host, at);
    enum hfi_grant mode = hfi_word_mode(atomic_load(lock_word(host, at)));
    lock_set_state(host, at, LOCK_ADOPTED);
    mode = mode == HFI_GRANT_SHARED || mode == HFI_GRANT_EXCLUSIVE ? mode : HFI_GRANT_NONE;
    lock_set_mode(host, at, mode);
    /* Assumes the longest lock-delay there is, until the grant's own lock-delay is known. */
    lock_set_covered_ms(host, at, MESSAGE_LOCK_DELAY_MAX_MS);
    word_adopt(host, at, MESSAGE_LOCK_DELAY_MAX_MS);
    if (mode != HFI_GRANT_NONE) {
        /* The recall bit is set before adopt_seats() and hfi_retract() look for holds, so that no
         * hold begins after they have looked. */
        hfi_recall(actor, at.slot, 0);
    }
    adopt_seats(host, at, ghost, actions);
    if (mode == HFI_GRANT_NONE) {
        if (atomic_load(lock_word(host, at)) & HFI_W_HOLDER) {
            lock_revoke(host, at, HFI_GRANT_NONE, HFI_ENDING_SESSION);
        }
    } else if (hfi_retract(actor, at.slot)) {
        lock_set_mode(host, at, HFI_GRANT_NONE);
        if (mode == HFI_GRANT_EXCLUSIVE) {
            /* The word was in force, so an exclusive grant was not given back and is not doubtful.
             * A shared grant stays doubtful, because the AMEND that made it shared may still be on
             * its way (rule 22, grants.h). */
            grant_was_in_force(host, at);
        }
    }
}

static void adopt_lock(struct host *host, struct lock_ref at, uint32_t *ghost,
                       struct host_actions *actions)
{
    const struct hfi_actor *actor = lock_actor(host, at);
    if (!space_grants_are_known(host, at.space) && host->config.continued_epoch != 0) {
        adopt_unknown(host, at, ghost, actions);
    } else {
        word_adopt(host, at, lock_is_granted(host, at) ? lock_covered_ms(host, at) : 0);
        adopt_seats(host, at, ghost, actions);
    }
    uint64_t word = atomic_load(lock_word(host, at));
    if (!lock_is_granted(host, at) && lock_state(host, at) != LOCK_ADOPTED) {
        if (hfi_word_mode(word) != HFI_GRANT_NONE || (word & HFI_W_HOLDER)) {
            lock_revoke(host, at, HFI_GRANT_NONE, HFI_ENDING_SESSION);
        }
        if (hub_has_room(actions)) {
            /* the previous agent may have been killed within a break, which closes the word */
            word_repair(host, at, actions);
        }
        return;
    }
    if (lock_is_granted(host, at) &&
        /* a grant that lacks a lock-delay was never put in force: see grant_apply() */
        !grant_lacks_delay(host, at)) {
        word_put_in_force(host, at, 1, actions);
    }
    if (hub_has_room(actions)) {
        attend_lock(host, at, actions);
    } else { /* this step has no room for more actions: a later step looks at the lock */
        ringing_look_soon(host, at);
    }
    hfi_rouse(actor, at.slot);
}

/*
 * Returns whether this agent continues the note's request. Three things are needed: the slot still
 * has a lock of that name (the configured namespaces may have changed), this agent knows no grant
 * of the lock, and a process waits for the lock. Such a lock is ADOPTED. In a cell of one voter,
 * where this agent knows all grants, it is IDLE.
 */
static bool goes_on(const struct host *host, const struct kept_note *note)
{
    struct lock_ref at = note->at;
    if (note->since_ns <= 0 || note->since_ns > host->now_ns ||
        at.space >= host->config.namespace_count || !space_is_used(host, at.space) ||
        at.slot >= locks_end(host, at.space)) {
        return false;
    }
    bool open = lock_state(host, at) == LOCK_IDLE || lock_state(host, at) == LOCK_ADOPTED;
    return open && lock_mode(host, at) == HFI_GRANT_NONE && lock_request(host, at) == 0 &&
           lock_hash(host, at) == note->name_hash && attend_is_awaited(host, at);
}

/* Continues the note's request. The note stays unchanged until the request is sent. If there is no
 * room for the request, removes the note. */
static void go_on(struct host *host, uint32_t index, const struct kept_note *note)
{
    struct lock_ref at = note->at;
    if (note->known) {
        grant_has_returned(host, at, note->returned);
    }
    if (request_keep(host, at, index, note->id, note->since_ns) == NULL) {
        kept_forget(host, index);
    } else if (lock_state(host, at) != LOCK_ADOPTED) {
        /* An IDLE lock becomes ADOPTED too, so that the agent asks for its grant. */
        lock_set_state(host, at, LOCK_ADOPTED);
    }
}

/* Continues the requests of the previous agent. */
static void adopt_kept(struct host *host)
{
    bool continued = host->config.continued_epoch != 0 && requests_count(host) == 0;
    for (uint32_t i = 0; i < kept_count(host); i++) {
        struct kept_note note;
        if (!kept_read(host, i, &note)) {
            continue;
        }
        if (continued && goes_on(host, &note)) {
            go_on(host, i, &note);
        } else {
            kept_forget(host, i);
        }
    }
}

void adoption_start(struct host *host, struct host_actions *actions)
{
    uint32_t live = 0;
    uint32_t ghost = 0;
    delays_adopt(host);
    for (uint32_t i = 0; i < clients_capacity(&host->config); i++) {
        live += (client_flags(host, i) & CLIENT_SURVIVOR) != 0;
    }
    for (uint32_t i = 0; i < host->config.namespace_count; i++) {
        for (uint32_t slot = 0; space_is_used(host, i) && slot < locks_end(host, i); slot++) {
            struct lock_ref at = {i, slot};
            if (lock_is_named(host, at)) {
                adopt_lock(host, at, &ghost, actions);
            } else {
                slot_adopt_unnamed(host, at);
            }
        }
    }
    adopt_kept(host);
    lease_mark_wanted(host);
    for (uint32_t i = 0; i < clients_capacity(&host->config); i++) {
        if ((client_flags(host, i) & CLIENT_DEAD) && !handles_has_any(host, i) &&
            hub_has_room(actions)) {
            burial_forget_if_done(host, i, actions);
        }
    }
    hub_log(actions, "adopted", live);
}
