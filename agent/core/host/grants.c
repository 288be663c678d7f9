/* Asking for grants, serving them and giving them back: see grants.h. */
#include "grants.h"

#include "clients.h"
#include "delays.h"
#include "full.h"
#include "handles.h"
#include "locks.h"
#include "openings.h"
#include "pending.h"
#include "polled.h"
#include "requests.h"
#include "ringing.h"
#include "spaces.h"
#include "words.h"

enum {
    UPGRADE_PAUSE_MS = 20,
    WHOLE_MS = 60 * 1000, /* see grants_name_whole_ranges() */
    MADE_KEPT = 16,       /* a voter's entry is reused at the earliest for the 16th voter that joins
                           * after it */
};

struct grants {
    /* By namespace: the time from which readers that want to write may make this host ask for an
     * upgrade again. Each namespace has its own time, so the readers of one namespace do not delay
     * the upgrades of another. */
    int64_t upgrade_due_ns[HOST_NAMESPACES_MAX];
    /* By voter: the version of a grant that was made for a request of this agent; ballot 0: none */
    struct message_order made[MADE_KEPT];
    /* until this time, an AMEND that makes a grant shared names the last token of the range */
    int64_t whole_until_ns;
};

struct grants *grants_lay_out(struct arena *arena)
{
    return arena_take(arena, 1, sizeof(struct grants));
}

void grants_name_whole_ranges(struct host *host)
{
    host->grants->whole_until_ns = host->now_ns + WHOLE_MS * MS;
}

/*
 * Includes the handles of a client that hung up, because its process uses them until it has opened
 * the lock again. Leaves out the handles of dead clients: if such a client held the lock, the grant
 * of that hold covers the handle's lock-delay.
 */
uint16_t grant_longest_known_ms(const struct host *host, struct lock_ref at, uint32_t at_least_ms)
{
    uint32_t longest_ms = at_least_ms;
    uint32_t handle = lock_handles(host, at);
    for (uint32_t i = 0; handle != NONE && i <= host->config.limits.handles; i++) {
        if (handle_delay_ms(host, handle) > longest_ms && handle_may_take(host, handle)) {
            uint32_t delay_ms = handle_noted_delay_ms(host, handle);
            longest_ms = delay_ms > longest_ms ? delay_ms : longest_ms;
        }
        handle = handle_next(host, handle);
    }
    return (uint16_t)longest_ms;
}

/* Also counts the handles that clients of the previous agent have not opened again. A process with
 * such a handle may take the lock as soon as the lock is granted. */
uint16_t grant_longest_delay_ms(const struct host *host, struct lock_ref at, uint32_t at_least_ms)
{
    uint32_t unknown_ms = clients_unknown(host) ? delay_noted_ms(host, at) : 0;
    return grant_longest_known_ms(host, at, at_least_ms > unknown_ms ? at_least_ms : unknown_ms);
}

bool grant_lacks_delay(const struct host *host, struct lock_ref at)
{
    return hfi_word_mode(atomic_load(lock_word(host, at))) == HFI_GRANT_NONE &&
           grant_longest_delay_ms(host, at, 0) > lock_covered_ms(host, at);
}

/* Returns whether the quorum may know grants of this host that this agent does not know. */
static bool has_unknown_grants(const struct host *host, struct lock_ref at)
{
    bool continued = host->lease.epoch == host->config.continued_epoch ||
                     space_is_anew(host, at.space);
    return continued && !space_grants_are_known(host, at.space);
}

/*
 * A grant that is not fresh may have been used before. In a continued session, the previous agent
 * may have returned the grant. In a namespace that was begun anew, the grant may have been in force
 * in the region that was given up. If the word is in force, or the last returned version is known,
 * there is no doubt.
 */
bool grant_is_doubtful(const struct host *host, struct lock_ref at)
{
    bool in_force = lock_state(host, at) == LOCK_ADOPTED && lock_mode(host, at) != HFI_GRANT_NONE;
    return has_unknown_grants(host, at) && !in_force && !lock_has_version(host, at);
}

/* Returns the entry of the voter that has this ballot. */
static struct message_order *made_by(const struct host *host, uint64_t ballot)
{
    return &host->grants->made[(ballot & UINT16_MAX) % MADE_KEPT];
}

/* Keeps the first version that is noted for each voter. A voter that starts over counts its
 * proposals from 1 again, so a version with a lower sequence replaces the one that was kept. */
void grant_note_made(struct host *host, struct message_order version)
{
    struct message_order *made = made_by(host, version.ballot);
    bool same = (made->ballot & UINT16_MAX) == (version.ballot & UINT16_MAX);
    if (made->ballot == 0 || !same || version.sequence < made->sequence) {
        *made = version;
    }
}

/*
 * A voter's rounds rise. It numbers the proposals of all its ballots with one counter, and when
 * that counter begins again, the rounds are higher than before. So a version whose ballot and
 * sequence are both at least those of another version of the same voter was proposed later. After a
 * region was given up, the order of versions shows nothing, because the grants in that region may
 * have been made for this agent, too.
 */
bool grant_is_later(const struct host *host, struct lock_ref at, struct message_order version)
{
    const struct message_order *made = made_by(host, version.ballot);
    return made->ballot != 0 && !space_is_anew(host, at.space) &&
           (made->ballot & UINT16_MAX) == (version.ballot & UINT16_MAX) &&
           version.ballot >= made->ballot && version.sequence >= made->sequence;
}

void grant_returned(struct host *host, struct lock_ref at, bool stray)
{
    if (stray && has_unknown_grants(host, at)) {
        lock_set_version(host, at, (struct message_order){0});
    }
}

void grant_was_in_force(struct host *host, struct lock_ref at)
{
    struct message_order version = lock_version(host, at);
    /* This version is lower than that of any grant, but not 0: 0 means that no version is known. */
    version.sequence = 1;
    lock_set_version(host, at, version);
}

void grant_has_returned(struct host *host, struct lock_ref at, struct message_order version)
{
    /* If no version was returned, sets a version that is lower than that of any grant, but not
     * 0. */
    version.sequence += version.ballot == 0 && version.sequence == 0;
    lock_set_version(host, at, version);
}

/* ---- asking, amending, giving back ---- */

/* Returns the mode that the first process of the lock's queue needs; `otherwise` if no process
 * waits. */
static uint8_t wanted_mode(const struct host *host, struct lock_ref at, uint8_t otherwise)
{
    enum hfi_grant wanted = HFI_GRANT_NONE;
    if (atomic_load(lock_word(host, at)) & (HFI_W_WAITERS | HFI_W_BARGERS)) {
        wanted = hfi_wanted(space_region(host, at.space), at.slot);
    }
    return wanted == HFI_GRANT_NONE     ? otherwise
           : wanted == HFI_GRANT_SHARED ? MESSAGE_MODE_SHARED
                                        : MESSAGE_MODE_EXCLUSIVE;
}

/* Refuses the lock's request: its namespace asks for so many grants that other namespaces might
 * find no room at the coordinators. Coordinators know only hosts, not namespaces, so this host
 * refuses the request as a coordinator would. */
static void ask_refused(struct host *host, struct lock_ref at, struct host_actions *actions)
{
    lock_set_full(host, at, true); /* the host asks again after the next renewal */
    host->counts.refused[MESSAGE_REFUSED_QUOTA]++;
    lock_log(host, actions, "request_refused", at, 0, MESSAGE_REFUSED_QUOTA);
    pending_resolve(host, at, full(host, HFI_TABLE_REQUESTS, REQUEST_ASKS_MAX));
}

void grant_ask(struct host *host, struct lock_ref at, uint32_t lock_delay_ms,
               struct host_actions *actions)
{
    bool adopted = lock_state(host, at) == LOCK_ADOPTED;
    struct request *request = request_of(host, at);
    bool asked = request != NULL && !request_is_kept(host, request);
    if ((lock_state(host, at) != LOCK_IDLE && !adopted) || asked || !hub_lease_is_safe(host)) {
        /* a request is under way, or the lease is not safe: the host asks when the lease is safe
         * again */
        return;
    }
    if (!adopted && requests_are_many(host, at.space)) {
        ask_refused(host, at, actions);
        return;
    }
    request = request != NULL ? request : request_start(host, at, MESSAGE_ACQUIRE);
    if (request == NULL) {
        ringing_look_later(host, at);
        return;
    }
    if (!adopted) {
        request_count_ask(host, request);
    }
    struct request_terms terms = {.mode = wanted_mode(host, at, MESSAGE_MODE_EXCLUSIVE)};
    /* The request for an adopted lock asks for the mode in which the lock's word is in force. */
    if (adopted && lock_mode(host, at) != HFI_GRANT_NONE) {
        terms.mode = lock_mode(host, at) == HFI_GRANT_SHARED ? MESSAGE_MODE_SHARED
                                                             : MESSAGE_MODE_EXCLUSIVE;
    } else {
        request_keep_note(host, request, !grant_is_doubtful(host, at));
    }
    terms.lock_delay_ms = grant_longest_delay_ms(host, at, lock_delay_ms);
    request_set_terms(request, &terms);
    if (!adopted) {
        lock_set_state(host, at, LOCK_ASKING);
    }
    request_send(host, request, actions);
}

/* The request under way may ask for another mode than the first process of the queue needs. The
 * OPEN for which it was sent does not say a mode, so the request asks for the exclusive grant, and
 * the first process may be a reader. The queue may also have changed. */
void grant_ask_anew(struct host *host, struct lock_ref at, struct host_actions *actions)
{
    struct request *request = request_of(host, at);
    if (request_kind(request) != MESSAGE_ACQUIRE || request_is_kept(host, request)) {
        return;
    }
    uint8_t mode = wanted_mode(host, at, request_terms(request)->mode);
    bool changed = lock_state(host, at) == LOCK_ASKING && mode != request_terms(request)->mode;
    if (changed) {
        request_set_mode(request, mode);
    }
    if (changed || request_is_behind(host, request)) {
        request_send(host, request, actions);
    }
}

void grant_is_in_use(struct host *host, struct request *request, struct host_actions *actions)
{
    struct lock_ref at = request_lock(request);
    bool only = request_terms(request)->tries == MESSAGE_TRIES_ONLY;
    request_refuse_tries(host, request);
    pending_give_up(host, at);
    if (!only || lock_state(host, at) != LOCK_ASKING || request_is_behind(host, request)) {
        /* Processes wait, or the coordinator may believe that they do. Sending the request again
         * tells the coordinator what the queue wants now. */
        request_send(host, request, actions);
        return;
    }
    request_end(host, request);
    lock_set_state(host, at, LOCK_IDLE);
    lock_set_recalled(host, at, false);
}

void grant_amend_mode(struct host *host, struct lock_ref at, uint32_t lock_delay_ms, uint8_t mode,
                      enum grant_naming naming, struct host_actions *actions)
{
    if (lock_state(host, at) != LOCK_GRANTED || !hub_lease_is_safe(host) ||
        (mode == MESSAGE_MODE_SHARED && !space_is_sound(host, at.space))) {
        return;
    }
    struct request *request = request_start(host, at, MESSAGE_AMEND);
    if (request == NULL) {
        ringing_look_later(host, at);
        return;
    }
    uint32_t delay_ms = grant_longest_delay_ms(host, at, lock_delay_ms);
    uint32_t covered_ms = lock_covered_ms(host, at);
    struct request_terms terms = {
        .version = lock_version(host, at),
        .mode = mode,
        .lock_delay_ms = (uint16_t)(delay_ms > covered_ms ? delay_ms : covered_ms),
        .has_used = naming == GRANT_NAMES_USED,
        .token = naming == GRANT_NAMES_USED   ? word_token_used(host, at)
                 : naming == GRANT_NAMES_LAST ? lock_token_last(host, at)
                                              : 0,
    };
    request_set_terms(request, &terms);
    lock_set_state(host, at, LOCK_AMENDING);
    request_send(host, request, actions);
}

void grant_amend(struct host *host, struct lock_ref at, uint32_t lock_delay_ms, bool tokens,
                 struct host_actions *actions)
{
    grant_amend_mode(host, at, lock_delay_ms, MESSAGE_MODE_NONE,
                     tokens ? GRANT_NAMES_LAST : GRANT_NAMES_NO_TOKEN, actions);
}

static void give_back(struct host *host, struct lock_ref at, const struct request_terms *terms,
                      struct host_actions *actions)
{
    if (!space_is_sound(host, at.space)) {
        /* The region is given up when this step is done. Until then this host asks for nothing for
         * the lock. */
        if (lock_state(host, at) != LOCK_IDLE) {
            lock_set_state(host, at, LOCK_IDLE);
        }
        lock_set_recalled(host, at, false);
        return;
    }
    struct request *request = request_start(host, at, MESSAGE_GIVE_BACK);
    HF_CHECK(request != NULL);
    request_set_terms(request, terms);
    lock_set_version(host, at, terms->version);
    lock_set_in_force(host, at, false);
    lock_set_state(host, at, LOCK_RETURNING);
    lock_set_recalled(host, at, false);
    request_send(host, request, actions);
}

/* The caller has taken the word out of use, and has seen that there is room for a request. */
void grant_give_back(struct host *host, struct lock_ref at, struct message_order version,
                     uint64_t token_used, struct host_actions *actions)
{
    give_back(host, at, &(struct request_terms){.version = version, .token = token_used}, actions);
}

/* If the lock is granted by now, or is being returned, nothing has to be done about that
 * version. */
void grant_give_back_unknown(struct host *host, const struct message_name *name,
                             struct message_order version, struct host_actions *actions)
{
    struct lock_ref at = {0};
    if (!lock_find(host, name->bytes, name->length, &at)) {
        request_orphan(host, name, version, GRANT_TOKENS_ALL, actions);
        return;
    }
    struct request *request = request_of(host, at);
    bool dormant = lock_state(host, at) == LOCK_ADOPTED && lock_mode(host, at) == HFI_GRANT_NONE;
    if ((lock_state(host, at) == LOCK_IDLE || lock_state(host, at) == LOCK_ASKING || dormant) &&
        message_order_before(lock_version(host, at), version)) {
        if (request != NULL) {
            request_end(host, request);
        } else if (!request_room(host)) {
            return; /* the quorum will recall the grant again */
        }
        const struct request_terms terms = {
            .version = version, .token = GRANT_TOKENS_ALL, .stray = true};
        give_back(host, at, &terms, actions);
    }
}

/* ---- a grant that is here ---- */

/*
 * Returns when a lock that was closed may be given back. The clock of the next holder's host may
 * run at another rate than this host's clock. So this host counts the lock-delay longer by
 * max_drift.
 */
static int64_t return_due_ns(const struct host *host, struct lock_ref at)
{
    int64_t delay_ns = (int64_t)lock_covered_ms(host, at) * MS;
    return lock_closed_until_ns(host, at) + delay_ns / 100 * host->config.max_drift_percent;
}

/* If only readers hold the lock, makes the exclusive grant a shared one. Returns false if that is
 * not possible. */
static bool share_with_readers(struct host *host, struct lock_ref at, struct host_actions *actions)
{
    bool whole = host->grants->whole_until_ns > host->now_ns;
    uint64_t first = whole ? lock_token_last(host, at) : lock_token_first(host, at);
    if (lock_mode(host, at) != HFI_GRANT_EXCLUSIVE || !hub_lease_is_safe(host) ||
        !hfi_share(lock_actor(host, at), at.slot, first)) {
        return false;
    }
    /* If this AMEND is lost, the quorum still says that the grant is exclusive. That does no harm.
     * If the host that waits wants to write, the recall is repeated, finds a shared grant here, and
     * lets no further reader in. */
    lock_set_mode(host, at, HFI_GRANT_SHARED);
    lock_set_recalled(host, at, false);
    grant_amend_mode(host, at, 0, MESSAGE_MODE_SHARED, whole ? GRANT_NAMES_LAST : GRANT_NAMES_USED,
                     actions);
    return true;
}

/* Refuses the tries of this host's own processes. They cannot get the lock now, because the grant
 * has to go back first, and it cannot go back while other processes hold the lock. */
static void refuse_own_tries(struct host *host, struct lock_ref at)
{
    struct hfi_awaited awaited = hfi_awaited(space_region(host, at.space), at.slot);
    if (awaited.tries) {
        hfi_refuse_tries(lock_actor(host, at), at.slot, awaited.last);
        polled_attend(host, at);
    }
}

void grant_attend_recalled(struct host *host, struct lock_ref at, struct host_actions *actions)
{
    const struct hfi_actor *actor = lock_actor(host, at);
    if (lock_state(host, at) != LOCK_GRANTED) {
        return;
    }
    if (return_due_ns(host, at) > host->now_ns) {
        opening_add(host, at, return_due_ns(host, at));
    } else if (!request_room(host)) {
        ringing_look_later(host, at);
    } else if (hfi_retract(actor, at.slot)) {
        host->counts.handoffs += lock_is_recalled(host, at);
        grant_give_back(host, at, lock_version(host, at), word_token_used(host, at), actions);
    } else if (!lock_is_recalled(host, at) || !share_with_readers(host, at, actions)) {
        refuse_own_tries(host, at);
    }
}

static bool has_readers(const struct host *host, struct lock_ref at)
{
    return (atomic_load(lock_word(host, at)) & HFI_W_CELLS) &&
           hfi_has_readers(space_region(host, at.space), at.slot, HFI_SEAT_NONE);
}

/* Returns whether the lock is used, not counting readers that hold it. */
static bool is_used_to_write(const struct host *host, struct lock_ref at)
{
    struct hfi_awaited awaited = hfi_awaited(space_region(host, at.space), at.slot);
    return (atomic_load(lock_word(host, at)) & (HFI_W_HOLDER | HFI_W_CLOSED)) ||
           return_due_ns(host, at) > host->now_ns || awaited.waits || awaited.tries ||
           pending_is_for(host, at);
}

bool grant_is_used(const struct host *host, struct lock_ref at)
{
    return is_used_to_write(host, at) || has_readers(host, at);
}

enum grant_lending grant_lend(struct host *host, struct lock_ref at, bool to_read,
                              struct host_actions *actions)
{
    const struct hfi_actor *actor = lock_actor(host, at);
    bool in_force = lock_state(host, at) == LOCK_GRANTED &&
                    hfi_word_mode(atomic_load(lock_word(host, at))) != HFI_GRANT_NONE;
    bool reads = has_readers(host, at);
    if (is_used_to_write(host, at) || (reads && !(to_read && in_force))) {
        return GRANT_IN_USE;
    }
    if (!in_force || !request_room(host)) {
        return GRANT_UNSETTLED;
    }
    if (reads) {
        return share_with_readers(host, at, actions) ? GRANT_LENT : GRANT_IN_USE;
    }
    /* The recall bit keeps processes out until hfi_retract() has swapped the word. */
    bool recalled = lock_is_recalled(host, at) || (atomic_load(lock_word(host, at)) & HFI_W_RECALL);
    if (!recalled) {
        hfi_recall(actor, at.slot, 0);
    }
    if (hfi_retract(actor, at.slot)) {
        host->counts.recalls++;
        host->counts.handoffs++;
        grant_give_back(host, at, lock_version(host, at), word_token_used(host, at), actions);
        return GRANT_LENT;
    }
    /* The lock was taken before the recall bit was set. Processes that saw the bit and sleep have
     * to look again. */
    if (!recalled) {
        /* seq_cst, like every change of the word */
        atomic_fetch_and(lock_word(host, at), ~HFI_W_RECALL);
        hfi_rouse(actor, at.slot);
        hfi_serve(actor, at.slot);
        polled_attend(host, at);
    }
    return GRANT_IN_USE;
}

/* Returns whether the processes that want to write only try, and have to be refused because readers
 * hold the lock. Also returns true if no process wants to write any more. */
static bool is_tried_in_vain(const struct host *host, struct lock_ref at)
{
    const struct hfi_region *region = space_region(host, at.space);
    struct hfi_awaited awaited = hfi_awaited(region, at.slot);
    return !awaited.waits && (!awaited.tries || hfi_has_readers(region, at.slot, HFI_SEAT_NONE));
}

/*
 * Serves a shared grant. Readers are served; a writer needs another grant. A reader that wants to
 * write without releasing the lock first (hfi_upgrade) says so in its seat, and rings. For such a
 * reader, the quorum is asked to make the grant exclusive, which it does if no other host shares
 * the grant. The quorum is not asked if the next tokens need another slot, because a hold cannot
 * move to another slot.
 */
static void attend_shared(struct host *host, struct lock_ref at, struct host_actions *actions)
{
    const struct hfi_actor *actor = lock_actor(host, at);
    hfi_serve(actor, at.slot);
    hfi_forget_waiters(actor, at.slot);
    uint8_t wanted = wanted_mode(host, at, MESSAGE_MODE_NONE);
    if (wanted == MESSAGE_MODE_EXCLUSIVE && is_tried_in_vain(host, at)) {
        refuse_own_tries(host, at); /* the grant does not go back for tries */
    } else if (wanted == MESSAGE_MODE_EXCLUSIVE) {
        hfi_recall(actor, at.slot, 0); /* readers that come now wait behind the writer */
        grant_attend_recalled(host, at, actions);
    } else if (wanted == MESSAGE_MODE_NONE && ringing_is_cause(host) &&
               host->now_ns >= host->grants->upgrade_due_ns[at.space] &&
               (lock_token_last(host, at) & HFI_W_TOKEN) != HFI_W_TOKEN &&
               (atomic_load(lock_word(host, at)) & HFI_W_CELLS) &&
               hfi_has_upgrades(actor->region, at.slot)) {
        host->grants->upgrade_due_ns[at.space] = host->now_ns + UPGRADE_PAUSE_MS * MS;
        grant_amend_mode(host, at, 0, MESSAGE_MODE_EXCLUSIVE, GRANT_NAMES_LAST, actions);
    }
}

void grant_attend(struct host *host, struct lock_ref at, struct host_actions *actions)
{
    const struct hfi_actor *actor = lock_actor(host, at);
    uint64_t word = atomic_load(lock_word(host, at));
    if (lock_state(host, at) == LOCK_AMENDING && hfi_word_mode(word) == HFI_GRANT_NONE) {
        return; /* the grant is not in force before it covers every handle's lock-delay */
    }
    if (hfi_word_mode(word) == HFI_GRANT_NONE) {
        /* The grant is not in force. When it arrived, it did not cover some handle's lock-delay,
         * and the lease was not safe, so no AMEND was sent. That handle may have ended. (Or a
         * process wrote over the word.) The answer to this AMEND says where the grant's tokens
         * begin. */
        grant_amend(host, at, 0, false, actions);
        return;
    }
    if (lock_is_recalled(host, at) && !(word & HFI_W_RECALL)) { /* a process wrote over the bit */
        hfi_recall(actor, at.slot, 0);
        word |= HFI_W_RECALL;
    }
    /* The grant does not cover some handle's lock-delay: an AMEND was refused, or was not sent
     * because the lease was not safe. */
    if (!(word & HFI_W_RECALL) && grant_lacks_delay(host, at)) {
        grant_amend(host, at, 0, false, actions);
        return;
    }
    bool shared = lock_mode(host, at) == HFI_GRANT_SHARED;
    bool used_up = !shared && (word & HFI_W_TOKEN) >= (lock_token_last(host, at) & HFI_W_TOKEN);
    if (used_up && (lock_token_last(host, at) & HFI_W_TOKEN) == HFI_W_TOKEN &&
        !(word & HFI_W_RECALL)) {
        /* The next tokens need another slot, and a lock leaves its slot only when no process holds
         * it. So the grant goes back as if it were recalled, and the host asks for a grant
         * again. */
        hfi_recall(actor, at.slot, 0);
        word |= HFI_W_RECALL;
    }
    if (word & HFI_W_RECALL) {
        grant_attend_recalled(host, at, actions);
    } else if (used_up) {
        grant_amend(host, at, 0, true, actions);
    } else if (shared) {
        attend_shared(host, at, actions);
    } else {
        hfi_serve(actor, at.slot);
    }
}
