/* The quorum's answers: see answers.h. */
#include "answers.h"

#include "attend.h"
#include "behind.h"
#include "full.h"
#include "grants.h"
#include "handles.h"
#include "limits.h"
#include "locks.h"
#include "openings.h"
#include "pending.h"
#include "polled.h"
#include "requests.h"
#include "routes.h"
#include "slots.h"
#include "spaces.h"
#include "watches.h"
#include "words.h"

/*
 * The grant's tokens have other high bits than the slot's tokens, so the lock moves to another
 * slot. The grant is not put in force in the new slot at once. If this agent crashed before the row
 * of the new slot is durable, the next agent would issue the tokens a second time. So the grant
 * goes back. The GIVE_BACK leaves when the row is durable, and then the host asks for a grant
 * again.
 */
static void grant_move(struct host *host, struct lock_ref at, const struct message_grant *grant,
                       struct host_actions *actions)
{
    /* If the grant is not fresh, the previous agent may have handed out some of the grant's tokens.
     * Only the region says which tokens, and clients can write to the region. So all tokens of the
     * grant count as used. */
    bool fresh = lock_state(host, at) == LOCK_ASKING && grant->fresh;
    bool moved = slot_move(host, &at, actions);
    if (!moved) {
        lock_revoke(host, at, HFI_GRANT_NONE, HFI_ENDING_SESSION);
    }
    lock_set_full(host, at, !moved);
    grant_give_back(host, at, grant->version, fresh ? 0 : grant->token_last, actions);
    /* If no slot is free, the host asks for the lock again only at the next renewal. If it asked
     * each time a process rings the agent, it would ask without end. */
    if (!moved) {
        (void)full(host, HFI_TABLE_LOCKS, host->config.limits.locks);
        full_last(host)->space = at.space;
        pending_resolve(host, at, HF_EFULL);
        attend_reclaim(host, at.space, actions);
    }
}

/* Returns whether the grant's tokens have other high bits than the slot's tokens. */
static bool is_of_other_slot(const struct host *host, struct lock_ref at,
                             const struct message_grant *grant)
{
    uint64_t top = slot_token_top(host, at);
    return top != 0 && top >> HFI_TOKEN_LOW_BITS != grant->token_last >> HFI_TOKEN_LOW_BITS;
}

static void grant_elsewhere(struct host *host, struct lock_ref at,
                            const struct message_grant *grant, struct host_actions *actions)
{
    if (lock_state(host, at) != LOCK_AMENDING || lock_mode(host, at) != HFI_GRANT_SHARED ||
        !hfi_has_readers(lock_actor(host, at)->region, at.slot, HFI_SEAT_NONE)) {
        grant_move(host, at, grant, actions);
        return;
    }
    /* The quorum made the grant exclusive, because a reader asked to write. The new tokens need
     * another slot, but a lock changes its slot only while no process holds it, and readers hold it
     * now. So this host keeps using the grant as a shared one, in the present slot. */
    lock_set_state(host, at, LOCK_GRANTED);
    lock_set_covered_ms(host, at, grant->lock_delay_ms);
    if (!grant_lacks_delay(host, at)) {
        pending_resolve(host, at, 0);
    }
    grant_attend(host, at, actions);
}

/* Sets the recall bit of a lock that another host waits for, and limits how often the lock may
 * still be handed over within this host. */
static void recall_word(struct host *host, struct lock_ref at)
{
    hfi_recall(lock_actor(host, at), at.slot,
               lock_mode(host, at) == HFI_GRANT_SHARED ? 0 : GRANT_HANDOVERS);
}

/*
 * Returns whether this agent, or the previous agent, has made the grant shared, but the quorum
 * still says that the grant is exclusive. In that case the AMEND that makes the grant shared may
 * still arrive at the coordinator. The token that this AMEND names was used, and is in this range.
 */
static bool stays_shared(const struct host *host, struct lock_ref at,
                         const struct message_grant *grant)
{
    bool had = lock_state(host, at) == LOCK_AMENDING || lock_state(host, at) == LOCK_ADOPTED;
    uint64_t token = atomic_load(lock_word(host, at)) & HFI_W_TOKEN;
    return had && lock_mode(host, at) == HFI_GRANT_SHARED &&
           grant->mode == MESSAGE_MODE_EXCLUSIVE && token >= (grant->token_first & HFI_W_TOKEN);
}

/*
 * Puts a grant, or its next range, in force. If the grant stays_shared(), also asks the quorum to
 * make it shared (`naming` is GRANT_NAMES_USED), or asks for the next range, with which the grant
 * can be exclusive (GRANT_NAMES_LAST). The caller has ended the lock's request.
 */
static void grant_apply(struct host *host, struct lock_ref at, const struct message_grant *grant,
                        enum grant_naming naming, struct host_actions *actions)
{
    bool adopted = lock_state(host, at) == LOCK_ADOPTED;
    /* word_repair() comes first, because it compares the word with the tokens of the last grant. */
    word_repair(host, at, actions);
    if (is_of_other_slot(host, at, grant)) {
        grant_elsewhere(host, at, grant, actions);
        return;
    }
    bool stays = stays_shared(host, at, grant);
    bool shared = stays || grant->mode == MESSAGE_MODE_SHARED;
    lock_set_version(host, at, grant->version);
    lock_set_covered_ms(host, at, grant->lock_delay_ms);
    lock_set_mode(host, at, shared ? HFI_GRANT_SHARED : HFI_GRANT_EXCLUSIVE);
    host->counts.ranges += !shared && lock_token_last(host, at) != grant->token_last;
    lock_set_tokens(host, at, grant->token_first, grant->token_last);
    lock_set_state(host, at, LOCK_GRANTED);
    if (stays && naming == GRANT_NAMES_USED) {
        grant_amend_mode(host, at, 0, MESSAGE_MODE_SHARED, GRANT_NAMES_USED, actions);
    } else if (stays && naming == GRANT_NAMES_LAST &&
               (lock_token_last(host, at) & HFI_W_TOKEN) != HFI_W_TOKEN) {
        /* This range does not end at the slot's last token, so the next range fits the slot. */
        grant_amend_mode(host, at, 0, MESSAGE_MODE_NONE, GRANT_NAMES_LAST, actions);
    }
    if (grant_longest_delay_ms(host, at, 0) > lock_covered_ms(host, at)) {
        /* A hold must not begin under a grant that does not cover the lock-delay of the hold's
         * handle. So the agent asks the quorum to cover more. If the word is not in force yet, it
         * is put in force when the answer arrives. If the lease is not safe now, nothing is sent,
         * and the next look at the lock asks. */
        grant_amend(host, at, 0, false, actions);
        if (grant_lacks_delay(host, at)) {
            return;
        }
    }
    bool covers = grant_longest_known_ms(host, at, 0) <= lock_covered_ms(host, at);
    /* `first` is the next token to hand out. The word shows the token before it. Readers have the
     * token that the word shows, so a shared word has to show token_first. A token whose low bits
     * are 0 is never handed out, so it is skipped. */
    bool next = lock_mode(host, at) == HFI_GRANT_SHARED || !(grant->token_first & HFI_W_TOKEN);
    uint64_t first = grant->token_first + next;
    word_put_in_force(host, at, first, actions);
    if (adopted) {
        /* A handle with a longer lock-delay may have been opened while the request was under way,
         * and its OPEN may have been answered after PENDING_ANSWER_MS. Then no new hold begins
         * under this grant: the grant goes back, and the host asks for the lock anew. */
        uint64_t stays = covers ? 0 : HFI_W_RECALL;
        /* seq_cst, like every change of the word; hfi_rouse() then wakes the waiters */
        atomic_fetch_and(lock_word(host, at), ~HFI_W_RECALL | stays);
        hfi_rouse(lock_actor(host, at), at.slot);
        hfi_serve(lock_actor(host, at), at.slot);
    }
    polled_attend(host, at);
    if (lock_is_recalled(host, at) && !(atomic_load(lock_word(host, at)) & HFI_W_RECALL)) {
        /* The recall came before the word was in force. If the grant is exclusive, this host may
         * still hand the lock over GRANT_HANDOVERS times before the grant goes back. */
        recall_word(host, at);
    }
    pending_resolve(host, at, 0);
    if (lock_is_recalled(host, at) || lock_mode(host, at) == HFI_GRANT_SHARED || adopted ||
        /* the recall bit may have been set while the request was under way */
        (atomic_load(lock_word(host, at)) & HFI_W_RECALL)) {
        grant_attend(host, at, actions);
    }
    limits_attend(host, at);
    watch_changed(host, at);
}

/*
 * An adopted lock is closed for the longest lock-delay there is, and a handle that this agent made
 * for a found hold may have that lock-delay. This function shortens both to the lock-delay that the
 * grant covers. The grant covers the lock-delay of every handle by which the lock may have been
 * held, for two reasons: a word is put in force only if its grant covers all handles, and an OPEN
 * with a longer lock-delay is answered only after the quorum was asked to cover that.
 */
static void closing_hasten(struct host *host, struct lock_ref at, const struct message_grant *grant)
{
    int64_t latest_ns = host->now_ns + (int64_t)grant->lock_delay_ms * MS;
    if (lock_closed_until_ns(host, at) > latest_ns) {
        lock_close_and_write(host, at, latest_ns);
        opening_add(host, at, latest_ns);
    }
    uint32_t handle = lock_handles(host, at);
    for (uint32_t i = 0; handle != NONE && i <= host->config.limits.handles; i++) {
        if ((handle_flags(host, handle) & HANDLE_FOUND) &&
            handle_delay_ms(host, handle) > grant->lock_delay_ms) {
            handle_set_delay_ms(host, handle, grant->lock_delay_ms);
        }
        handle = handle_next(host, handle);
    }
}

/* For an ADOPTED lock: puts the quorum's grant in force. It may be the previous agent's grant or a
 * new one. */
static void grant_confirm(struct host *host, struct lock_ref at, const struct message_grant *grant,
                          struct host_actions *actions)
{
    uint64_t word = atomic_load(lock_word(host, at));
    closing_hasten(host, at, grant);
    if (grant->mode == MESSAGE_MODE_SHARED && (word & HFI_W_HOLDER)) {
        /* a shared word names no holder, so a process wrote rubbish into the word */
        lock_revoke(host, at, HFI_GRANT_NONE, HFI_ENDING_DAMAGE);
    }
    grant_apply(host, at, grant, GRANT_NAMES_USED, actions);
}

static bool is_of_session(const struct host *host, uint32_t epoch)
{
    return epoch == host->lease.epoch && !host->lease.lost;
}

static void granted(struct host *host, const struct message_grant *grant,
                    struct host_actions *actions)
{
    struct request *request = request_answered(host, grant->request_id, MESSAGE_ACQUIRE,
                                               &grant->name);
    if (!is_of_session(host, grant->epoch)) {
        return; /* the grant is of a session that is over, and ended with it */
    }
    if (request == NULL) {
        /* This answer is late: its request has ended. If the host has the lock, or another request
         * for it is under way, the late grant needs nothing. Otherwise no process here wants the
         * grant, and it goes back. */
        struct lock_ref at = {0};
        if (!lock_find(host, grant->name.bytes, grant->name.length, &at) ||
            lock_state(host, at) == LOCK_IDLE) {
            grant_give_back_unknown(host, &grant->name, grant->version, actions);
        }
        return;
    }
    struct lock_ref at = request_lock(request);
    if (!message_order_before(lock_version(host, at), grant->version)) {
        /* this host has given that version back since it asked; the request will get another
         * answer */
        return;
    }
    behind_forget(host, &grant->name);
    histogram_add(&host->counts.acquire, host->now_ns - request_since_ns(request));
    if (grant->fresh && !request_is_continued(request)) {
        grant_note_made(host, grant->version);
    }
    request_end(host, request);
    if (!grant->fresh && grant_is_doubtful(host, at) && !grant_is_later(host, at, grant->version)) {
        closing_hasten(host, at, grant);
        grant_give_back(host, at, grant->version, GRANT_TOKENS_ALL, actions);
        return;
    }
    host->counts.grants++;
    HF_PROBE3(granted, grant->name.bytes, grant->name.length, grant->token_first);
    if (lock_state(host, at) == LOCK_ADOPTED) {
        grant_confirm(host, at, grant, actions);
    } else {
        grant_apply(host, at, grant, GRANT_NAMES_USED, actions);
    }
}

static void amended(struct host *host, const struct message_grant *grant,
                    struct host_actions *actions)
{
    struct request *request = request_answered(host, grant->request_id, MESSAGE_AMEND,
                                               &grant->name);
    if (request != NULL && grant->epoch == host->lease.epoch &&
        message_order_equal(request_terms(request)->version, grant->version)) {
        struct lock_ref at = request_lock(request);
        /* If an AMEND with token_used leaves the grant exclusive, then the coordinator, or the
         * voter that passed the AMEND on, is of a release that does not know token_used. */
        enum grant_naming naming = request_terms(request)->mode != MESSAGE_MODE_SHARED
                                       ? GRANT_NAMES_USED
                                   : request_terms(request)->has_used ? GRANT_NAMES_LAST
                                                                      : GRANT_NAMES_NO_TOKEN;
        if (naming == GRANT_NAMES_LAST && grant->mode == MESSAGE_MODE_EXCLUSIVE) {
            grants_name_whole_ranges(host);
        }
        request_end(host, request);
        grant_apply(host, at, grant, naming, actions);
    }
}

/* Handles an acknowledgement: the quorum no longer has the version that was given back. */
static void returned(struct host *host, struct request *request, struct host_actions *actions)
{
    struct lock_ref at = request_lock(request);
    bool stray = request_terms(request)->stray;
    request_end(host, request);
    host->counts.give_backs++;
    if (at.slot == NONE) {
        return;
    }
    grant_returned(host, at, stray);
    lock_set_state(host, at, LOCK_IDLE);
    lock_set_mode(host, at, HFI_GRANT_NONE);
    lock_log(host, actions, "grant_returned", at, 0, 0);
    attend_unwanted(host, at, actions);
    if (lock_is_named(host, at)) {
        /* if the lock lost its name, no process had it open, and watchers see no change */
        watch_changed(host, at);
    }
}

/* Handles a recall on behalf of a host that waits. The grant goes back as soon as it is not in
 * use. */
static void recalled_for_waiter(struct host *host, struct lock_ref at,
                                const struct message_version *recall, struct host_actions *actions)
{
    struct request *request = request_of(host, at);
    if (lock_state(host, at) == LOCK_RETURNING) {
        request_send(host, request, actions); /* the give-back has not arrived yet, or was lost */
    } else if (lock_state(host, at) == LOCK_ADOPTED && lock_mode(host, at) != HFI_GRANT_NONE) {
        /* the recall takes effect when the quorum has confirmed the grant */
        lock_set_recalled(host, at, true);
    } else if (lock_state(host, at) == LOCK_ADOPTED && request != NULL &&
               message_order_before(lock_version(host, at), recall->version)) {
        /* The recall is about the grant for the request under way, and arrived before that grant.
         * If the grant is fresh, or not doubtful, this host may use it once it arrives. Otherwise
         * the grant goes back when it arrives. */
        return;
    } else if (lock_state(host, at) == LOCK_ASKING && !lock_is_recalled(host, at) &&
               message_order_before(lock_version(host, at), recall->version)) {
        /* The recall has overtaken its grant. This first recall changes nothing: the host may use
         * the grant once it arrives. If the recall is repeated, the GRANT message may be lost, or
         * the grant may have another mode than the host asks for now. So a repeated recall makes
         * the grant go back. */
        lock_set_recalled(host, at, true);
    } else if (!lock_is_granted(host, at)) {
        grant_give_back_unknown(host, &recall->name, recall->version, actions);
    } else if (!message_order_before(recall->version, lock_version(host, at))) {
        /* Each recall is counted once, although recalls are repeated. The previous agent may have
         * counted this recall. */
        bool counted = lock_is_recalled(host, at) ||
                       (atomic_load(lock_word(host, at)) & HFI_W_RECALL);
        lock_set_recalled(host, at, true);
        if (!counted) {
            host->counts.recalls++;
            HF_PROBE2(recalled, recall->name.bytes, recall->name.length);
            /* If the word is not in force yet, grant_apply() sets the recall bit later. If the bit
             * were set now, no process would get the lock, and the grant would go back unused. */
            if (hfi_word_mode(atomic_load(lock_word(host, at))) != HFI_GRANT_NONE) {
                recall_word(host, at);
            }
        }
        attend_lock(host, at, actions);
    }
}

/* Answers a recall: the grant is in use. Only the time at which another host's try is answered
 * depends on this message (docs/PROTOCOL.md, rule 35). */
static void report_in_use(struct host *host, const struct message_version *recall,
                          struct host_actions *actions)
{
    uint32_t partition = names_partition(recall->name.bytes, recall->name.length);
    struct route route = route_choose(host, partition, 0, 0);
    struct message_amend *amend =
        &hub_send(actions, MESSAGE_AMEND, route.to, route.relay)->as.amend;
    amend->agent = host->config.agent;
    amend->epoch = recall->epoch;
    amend->request_id = recall->request_id;
    amend->name = recall->name;
    amend->version = recall->version;
    amend->in_use = true;
}

/* Handles a recall on behalf of hosts that only try the lock. If the grant is idle, it goes back.
 * If only readers hold the lock, and the other host tries to read, the grant becomes shared. If the
 * grant is in use otherwise, it stays, and this host tells the coordinator so at once. If this host
 * does not know yet whether the grant is in use, it sends nothing, and the hosts that try ask
 * again. */
static void recalled_if_idle(struct host *host, struct lock_ref at,
                             const struct message_version *recall, struct host_actions *actions)
{
    bool ahead = message_order_before(lock_version(host, at), recall->version);
    bool adopted = lock_state(host, at) == LOCK_ADOPTED &&
                   (lock_mode(host, at) != HFI_GRANT_NONE || request_of(host, at) != NULL);
    bool to_read = recall->recall == MESSAGE_RECALL_TO_READ;
    bool in_use = false;
    if (lock_state(host, at) == LOCK_RETURNING) {
        request_send(host, request_of(host, at), actions); /* the give-back has not arrived yet, or
                                                            * was lost */
    } else if (lock_is_granted(host, at)) {
        in_use = !message_order_before(recall->version, lock_version(host, at)) &&
                 grant_lend(host, at, to_read, actions) == GRANT_IN_USE;
    } else if (adopted || (lock_state(host, at) == LOCK_ASKING && ahead)) {
        in_use = grant_is_used(host, at); /* the grant is on its way, or not confirmed yet */
    } else {
        grant_give_back_unknown(host, &recall->name, recall->version, actions);
    }
    if (in_use && recall->request_id != 0) { /* 0: the coordinator wants no answer */
        report_in_use(host, recall, actions);
    }
}

static void recalled(struct host *host, const struct message_version *recall,
                     struct host_actions *actions)
{
    struct lock_ref at = {0};
    if (!is_of_session(host, recall->epoch)) {
        return; /* the session is over, and its grants end after their lock-delays */
    }
    if (!lock_find(host, recall->name.bytes, recall->name.length, &at)) {
        grant_give_back_unknown(host, &recall->name, recall->version, actions);
        return;
    }
    if (recall->recall >= MESSAGE_RECALL_IF_IDLE) {
        recalled_if_idle(host, at, recall, actions);
        return;
    }
    recalled_for_waiter(host, at, recall, actions);
    if (recall->recall == MESSAGE_RECALL_REPORTS && lock_state(host, at) != LOCK_IDLE &&
        lock_state(host, at) != LOCK_RETURNING && grant_is_used(host, at)) {
        report_in_use(host, recall, actions);
    }
}

/* An AMEND was refused. Handles the recall that arrived while the AMEND was under way, if there was
 * one. If the grant is not in force, because it needed the AMEND, it goes back at once. Otherwise
 * the host would send the same AMEND again and again. */
static void attend_refused(struct host *host, struct lock_ref at, struct host_actions *actions)
{
    if (!lock_is_recalled(host, at)) {
        return;
    }
    if (hfi_word_mode(atomic_load(lock_word(host, at))) == HFI_GRANT_NONE) {
        hfi_recall(lock_actor(host, at), at.slot, 0);
        grant_attend_recalled(host, at, actions);
    } else {
        grant_attend(host, at, actions);
    }
}

/* Records, for display, that a lock-delay keeps the lock closed because another host's session has
 * ended. The coordinator repeats its report; watchers are notified of the first one only. */
static void closed_elsewhere(struct host *host, const struct message_refused *refused)
{
    const struct message_name *name = &refused->name;
    struct lock_ref at = {0};
    const struct behind_note *note = behind_find(host, name->bytes, name->length);
    bool known = note != NULL && !note->open;
    behind_keep_elsewhere(host, name, &refused->owner, refused->closed_ms);
    if (!known && lock_find(host, name->bytes, name->length, &at)) {
        watch_changed(host, at);
    }
}

/* Records which table of which voter is full, for the answers to the OPENs that the refusal ends. A
 * voter of an earlier release does not report that. */
static void full_at_voter(struct host *host, const struct message_refused *refused)
{
    bool known = refused->reason == MESSAGE_REFUSED_FULL ||
                 refused->reason == MESSAGE_REFUSED_QUOTA;
    if (refused->reason == MESSAGE_REFUSED_TOKENS) {
        (void)full(host, HFI_TABLE_VOTER_TOKENS, 0);
    } else if (known && refused->table < HFI_TABLE_END) {
        (void)full(host, (enum hfi_table)refused->table, refused->room);
        full_last(host)->voter = refused->owner;
    } else {
        (void)full(host, HFI_TABLE_UNKNOWN, 0);
    }
}

static void refused(struct host *host, const struct message_refused *refused,
                    struct host_actions *actions)
{
    static const enum message_kind kinds[] = {MESSAGE_ACQUIRE, MESSAGE_AMEND, MESSAGE_GIVE_BACK};
    struct request *request = NULL;
    if (refused->reason == MESSAGE_REFUSED_IN_USE && refused->closed_ms > 0) {
        closed_elsewhere(host, refused);
    }
    for (uint32_t i = 0; request == NULL && i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        request = request_answered(host, refused->request_id, kinds[i], &refused->name);
    }
    /* A kept request was not sent yet, so this refusal answers the previous agent's message. */
    if (request == NULL || request_is_kept(host, request)) {
        return;
    }
    host->counts.refused[refused->reason < MESSAGE_REFUSED_END ? refused->reason : 0]++;
    if (refused->reason == MESSAGE_REFUSED_IN_USE) {
        if (request_kind(request) == MESSAGE_ACQUIRE) {
            grant_is_in_use(host, request, actions);
        }
        return;
    }
    if (refused->reason == MESSAGE_REFUSED_NOT_OWNER) {
        request_redirect(host, request, &refused->owner, actions);
        return;
    }
    if (request_kind(request) == MESSAGE_GIVE_BACK || refused->reason == MESSAGE_REFUSED_RULES) {
        return; /* the request is sent again after its pause, until the session is over */
    }
    struct lock_ref at = request_lock(request);
    bool amends_mode = request_kind(request) == MESSAGE_AMEND &&
                       request_terms(request)->mode != MESSAGE_MODE_NONE;
    request_end(host, request);
    lock_log(host, actions, "request_refused", at, 0, refused->reason);
    if (lock_state(host, at) == LOCK_ASKING) {
        lock_set_state(host, at, LOCK_IDLE);
        lock_set_recalled(host, at, false);
    } else if (lock_state(host, at) == LOCK_AMENDING &&
               refused->reason == MESSAGE_REFUSED_VERSION && !amends_mode) {
        /* this host does not have the grant any more */
        lock_revoke(host, at, HFI_GRANT_NONE, HFI_ENDING_SESSION);
        lock_set_state(host, at, LOCK_IDLE);
        lock_set_recalled(host, at, false);
    } else if (lock_state(host, at) == LOCK_AMENDING) {
        lock_set_state(host, at, LOCK_GRANTED);
        attend_refused(host, at, actions);
    }
    /* An OPEN of an ADOPTED lock succeeds although its request was refused, because the client may
     * hold the lock. If the client wants the grant, it waits for it in the lock's queue. */
    if (!amends_mode) {
        full_at_voter(host, refused);
        pending_resolve(host, at, lock_state(host, at) == LOCK_ADOPTED ? 0 : HF_EFULL);
    }
}

/* Returns whether the answer is for this host and counts. Also notes that the sender coordinates
 * the name, unless the message is a refusal. */
static bool answers(struct host *host, const struct message *message,
                    const struct message_agent *agent, const struct message_name *name)
{
    bool ours = memcmp(agent, &host->config.agent, sizeof(*agent)) == 0;
    if (ours && message->kind != MESSAGE_REFUSED) {
        route_learn(host, names_partition(name->bytes, name->length), &message->from);
    }
    /* An acknowledgement or a refusal counts even if the namespace is given up, because it answers
     * a message that the host sent before it gave the namespace up. */
    bool settled = message->kind == MESSAGE_GIVE_BACK_ACK || message->kind == MESSAGE_REFUSED;
    return ours && (settled || !space_bars_name(host, name));
}

void answers_message(struct host *host, const struct message *message, struct host_actions *actions)
{
    const struct message_grant *grant = &message->as.grant;
    const struct message_version *version = &message->as.version;
    struct request *request = NULL;
    if (host->lease.deadline_ns == 0) {
        /* No majority has renewed this session's epoch yet. An earlier store of this agent may have
         * used the same epoch, and processes may still hold locks of that epoch (docs/PROTOCOL.md,
         * rule 19). So nothing is given back. */
        return;
    }
    switch ((int)message->kind) {
    case MESSAGE_GRANT:
        if (answers(host, message, &grant->agent, &grant->name)) {
            granted(host, grant, actions);
        }
        break;
    case MESSAGE_AMENDED:
        if (answers(host, message, &grant->agent, &grant->name)) {
            amended(host, grant, actions);
        }
        break;
    case MESSAGE_GIVE_BACK_ACK:
        request = request_answered(host, version->request_id, MESSAGE_GIVE_BACK, &version->name);
        if (answers(host, message, &version->agent, &version->name) && request != NULL &&
            message_order_equal(request_terms(request)->version, version->version)) {
            returned(host, request, actions);
        }
        break;
    case MESSAGE_RECALL:
        if (answers(host, message, &version->agent, &version->name)) {
            recalled(host, version, actions);
        }
        break;
    case MESSAGE_REFUSED:
        if (answers(host, message, &message->as.refused.agent, &message->as.refused.name)) {
            refused(host, &message->as.refused, actions);
        }
        break;
    case MESSAGE_OWNER:
        requests_owner(host, &message->as.owner.partitions, &message->from);
        break;
    default:
        break;
    }
}
