/* The quorum's answers: see answers.h. */
#include "answers.h"

#include "attend.h"
#include "grants.h"
#include "handles.h"
#include "limits.h"
#include "locks.h"
#include "openings.h"
#include "pending.h"
#include "requests.h"
#include "routes.h"
#include "slots.h"
#include "spaces.h"
#include "watches.h"
#include "words.h"

/*
 * The grant's tokens have other high bits than the slot's. Not opened before its new slot is
 * durable, or a crash would issue its tokens twice: the grant goes back, behind the row, and is
 * asked for again.
 */
static void grant_move(struct host *host, struct lock_ref at, const struct message_grant *grant,
                       struct host_actions *actions)
{
    /* Its tokens may have been used, by the agent before: the region's word for it is not taken. */
    bool fresh = lock_state(host, at) == LOCK_ASKING && grant->fresh;
    bool moved = slot_move(host, &at, actions);
    if (!moved) {
        lock_revoke(host, at, HFI_GRANT_NONE);
    }
    lock_set_full(host, at, !moved);
    grant_give_back(host, at, grant->version, fresh ? 0 : grant->token_last, actions);
    if (!moved) { /* not asked for at every ring, which would go on for ever: with a renewal */
        pending_resolve(host, at, HF_EFULL);
        attend_reclaim(host, at.space, actions);
    }
}

/* Whether its tokens have other high bits than the slot's. */
static bool is_of_other_slot(const struct host *host, struct lock_ref at,
                             const struct message_grant *grant)
{
    uint64_t top = atomic_load(&space_region(host, at.space)->slots[at.slot].token_top);
    if (lock_token_last(host, at) != 0) {
        top = lock_token_last(host, at); /* our own number, rather than the region's */
    }
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
    /* The grant was changed for one of the lock's readers, but a slot is left only when no hold is
     * inside: the readers go on as readers of this slot. */
    lock_set_state(host, at, LOCK_GRANTED);
    lock_set_covered_ms(host, at, grant->lock_delay_ms);
    if (!grant_lacks_delay(host, at)) {
        pending_resolve(host, at, 0);
    }
    grant_attend(host, at, actions);
}

/* Another host waits: from now on so many hand-overs more. */
static void recall_word(struct host *host, struct lock_ref at)
{
    hfi_recall(lock_actor(host, at), at.slot,
               lock_mode(host, at) == HFI_GRANT_SHARED ? 0 : GRANT_HANDOVERS);
}

/*
 * Whether the quorum takes for exclusive what this agent, or the one before it, has made shared:
 * then the message that says so may still arrive, and what it names was used of this range.
 */
static bool stays_shared(const struct host *host, struct lock_ref at,
                         const struct message_grant *grant)
{
    bool had = lock_state(host, at) == LOCK_AMENDING || lock_state(host, at) == LOCK_ADOPTED;
    uint64_t token = atomic_load(lock_word(host, at)) & HFI_W_TOKEN;
    return had && lock_mode(host, at) == HFI_GRANT_SHARED &&
           grant->mode == MESSAGE_MODE_EXCLUSIVE && token >= (grant->token_first & HFI_W_TOKEN);
}

/* Puts a grant, or a range of it, in force. If it stays shared it asks for that (GRANT_NAMES_USED),
 * or for the range above, with which it does not (GRANT_NAMES_LAST). No request is under way. */
static void grant_apply(struct host *host, struct lock_ref at, const struct message_grant *grant,
                        enum grant_naming naming, struct host_actions *actions)
{
    bool adopted = lock_state(host, at) == LOCK_ADOPTED;
    word_repair(host, at, actions); /* what is wrong with it is so by what was granted before */
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
               (lock_token_last(host, at) & HFI_W_TOKEN) !=
                   HFI_W_TOKEN) { /* else it needs another slot */
        grant_amend_mode(host, at, 0, MESSAGE_MODE_NONE, GRANT_NAMES_LAST, actions);
    }
    if (grant_longest_delay_ms(host, at, 0) > lock_covered_ms(host, at)) {
        /* A hold must not begin under a grant that does not cover its lock-delay: if the word is
         * not open yet, it is opened by the answer to this. Without a lease that waits for a
         * look. */
        grant_amend(host, at, 0, false, actions);
        if (grant_lacks_delay(host, at)) {
            return;
        }
    }
    bool covers = grant_longest_known_ms(host, at, 0) <= lock_covered_ms(host, at);
    /* A token whose low bits are 0 cannot be told by a word: the next one is the first. Readers
     * show the last token that was used, which is all that their range has. */
    bool next = lock_mode(host, at) == HFI_GRANT_SHARED || !(grant->token_first & HFI_W_TOKEN);
    uint64_t first = grant->token_first + next;
    word_put_in_force(host, at, first, actions);
    if (adopted) {
        /* A handle with a longer lock-delay may have been opened since, and its OPEN answered after
         * PENDING_ANSWER_MS. Then no new hold begins under this grant: the grant goes back, and
         * the lock is asked for anew. */
        uint64_t stays = covers ? 0 : HFI_W_RECALL;
        /* seq_cst: a change of the word like any other; then its waiters are woken */
        atomic_fetch_and(lock_word(host, at), ~HFI_W_RECALL | stays);
        hfi_rouse(lock_actor(host, at), at.slot);
        hfi_serve(lock_actor(host, at), at.slot);
    }
    if (lock_is_recalled(host, at) && !(atomic_load(lock_word(host, at)) & HFI_W_RECALL)) {
        /* It came before the word was in force: the turn is this host's all the same. */
        recall_word(host, at);
    }
    pending_resolve(host, at, 0);
    if (lock_is_recalled(host, at) || lock_mode(host, at) == HFI_GRANT_SHARED || adopted ||
        (atomic_load(lock_word(host, at)) & HFI_W_RECALL)) { /* it came while this was under way */
        grant_attend(host, at, actions);
    }
    limits_attend(host, at);
    watch_changed(host, at);
}

/*
 * An adopted lock is closed for as long as any lock-delay may be. Now it is known how long it is:
 * the grant covers every handle under which its word was taken, since a word is opened only for
 * such a grant, and a longer lock-delay is asked for before the OPEN is answered. The same is so
 * for a hold that was found and whose client has not opened it again.
 */
static void closing_hasten(struct host *host, struct lock_ref at, const struct message_grant *grant)
{
    int64_t latest_ns = host->now_ns + (int64_t)grant->lock_delay_ms * MS;
    if (lock_closed_until_ns(host, at) > latest_ns) {
        lock_close_told(host, at, latest_ns);
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

/* The quorum knows the grant of the agent before this one, or has given a new one. */
static void grant_confirm(struct host *host, struct lock_ref at, const struct message_grant *grant,
                          struct host_actions *actions)
{
    uint64_t word = atomic_load(lock_word(host, at));
    closing_hasten(host, at, grant);
    if (grant->mode == MESSAGE_MODE_SHARED && (word & HFI_W_HOLDER)) {
        lock_revoke(host, at, HFI_GRANT_NONE); /* somebody wrote over it */
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
        return; /* of a session that is over: its death ends it */
    }
    if (request == NULL) {
        /* Late: no process here wants the grant any more, or what is under way settles it. */
        struct lock_ref at = {0};
        if (!lock_find(host, grant->name.bytes, grant->name.length, &at) ||
            lock_state(host, at) == LOCK_IDLE) {
            grant_give_back_unknown(host, &grant->name, grant->version, actions);
        }
        return;
    }
    struct lock_ref at = request_lock(request);
    if (!message_order_before(lock_version(host, at), grant->version)) {
        return; /* given back since; the request is answered with another one */
    }
    histogram_add(&host->counts.acquire, host->now_ns - request_since_ns(request));
    request_end(host, request);
    if (!grant->fresh && grant_is_doubtful(host, at)) {
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
        /* If it is exclusive all the same, the coordinator, or who passed the request on, is of a
         * release that knows no token_used. */
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

/* The quorum no longer has the version that was given back. */
static void returned(struct host *host, struct request *request, struct host_actions *actions)
{
    struct lock_ref at = request_lock(request);
    request_end(host, request);
    host->counts.give_backs++;
    if (at.slot == NONE) {
        return;
    }
    lock_set_state(host, at, LOCK_IDLE);
    lock_set_mode(host, at, HFI_GRANT_NONE);
    lock_log(host, actions, "grant_returned", at, 0, 0);
    attend_unwanted(host, at, actions);
    if (lock_is_named(host, at)) {
        watch_changed(host, at); /* else no process had it open, and nothing changed for watchers */
    }
}

/* A recall for one that waits: the grant goes back as soon as it is not in use. */
static void recalled_for_waiter(struct host *host, struct lock_ref at,
                                const struct message_version *recall, struct host_actions *actions)
{
    struct request *request = request_of(host, at);
    if (lock_state(host, at) == LOCK_RETURNING) {
        request_send(host, request, actions); /* it did not arrive */
    } else if (lock_state(host, at) == LOCK_ADOPTED && lock_mode(host, at) != HFI_GRANT_NONE) {
        lock_set_recalled(host, at, true); /* seen to when it is known what it has */
    } else if (lock_state(host, at) == LOCK_ADOPTED && request != NULL &&
               message_order_before(lock_version(host, at), recall->version)) {
        /* The answer to the request that is under way brings that grant, or has brought it: the
         * recall came by a shorter way. If the grant is fresh, or no doubt is possible, it is the
         * host's turn; else the grant goes back then. */
        return;
    } else if (lock_state(host, at) == LOCK_ASKING && !lock_is_recalled(host, at) &&
               message_order_before(lock_version(host, at), recall->version)) {
        /* It has overtaken its grant, and does not cost the host its turn. Repeated, the grant may
         * be lost, or made for another mode than is asked for by now: it goes back. */
        lock_set_recalled(host, at, true);
    } else if (!lock_is_granted(host, at)) {
        grant_give_back_unknown(host, &recall->name, recall->version, actions);
    } else if (!message_order_before(recall->version, lock_version(host, at))) {
        /* Counted once: a recall is repeated, and may have come to the agent before this one. */
        bool counted = lock_is_recalled(host, at) ||
                       (atomic_load(lock_word(host, at)) & HFI_W_RECALL);
        lock_set_recalled(host, at, true);
        if (!counted) {
            host->counts.recalls++;
            HF_PROBE2(recalled, recall->name.bytes, recall->name.length);
            if (hfi_word_mode(atomic_load(lock_word(host, at))) != HFI_GRANT_NONE) {
                recall_word(host, at);
            } /* else when it is: under the bit it would be handed to nobody, and go back unused */
        }
        attend_lock(host, at, actions);
    }
}

/* Answers a recall: the grant is in use. Only the time at which a try elsewhere is answered depends
 * on this message (docs/PROTOCOL.md, rule 35). */
static void tell_in_use(struct host *host, const struct message_version *recall,
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

/* A recall for those who only try: the grant goes back if it is idle; else it stays as it is, and
 * this host tells the coordinator at once. If it does not know yet, it says nothing, and they ask
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
        request_send(host, request_of(host, at), actions); /* it did not arrive */
    } else if (lock_is_granted(host, at)) {
        in_use = !message_order_before(recall->version, lock_version(host, at)) &&
                 grant_lend(host, at, to_read, actions) == GRANT_IN_USE;
    } else if (adopted || (lock_state(host, at) == LOCK_ASKING && ahead)) {
        in_use = grant_is_used(host, at); /* it is on its way, or not confirmed yet */
    } else {
        grant_give_back_unknown(host, &recall->name, recall->version, actions);
    }
    if (in_use) {
        tell_in_use(host, recall, actions);
    }
}

static void recalled(struct host *host, const struct message_version *recall,
                     struct host_actions *actions)
{
    struct lock_ref at = {0};
    if (!is_of_session(host, recall->epoch)) {
        return; /* what a session had that is over is ended by its death, and the lock-delay */
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
    if (recall->recall == MESSAGE_RECALL_TELLS && lock_state(host, at) != LOCK_IDLE &&
        lock_state(host, at) != LOCK_RETURNING && grant_is_used(host, at)) {
        tell_in_use(host, recall, actions);
    }
}

/* An AMEND was refused. The recall may have come while it was under way. A grant that is not in
 * force for want of the AMEND goes back as it is: attended to, the host would ask for the same
 * again at once, without end. */
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

static void refused(struct host *host, const struct message_refused *refused,
                    struct host_actions *actions)
{
    static const enum message_kind kinds[] = {MESSAGE_ACQUIRE, MESSAGE_AMEND, MESSAGE_GIVE_BACK};
    struct request *request = NULL;
    for (uint32_t i = 0; request == NULL && i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        request = request_answered(host, refused->request_id, kinds[i], &refused->name);
    }
    if (request == NULL || request_is_kept(host, request)) { /* which the process before had sent */
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
        return; /* asked again at its time, until the session is over */
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
        lock_revoke(host, at, HFI_GRANT_NONE); /* it is not ours any more */
        lock_set_state(host, at, LOCK_IDLE);
        lock_set_recalled(host, at, false);
    } else if (lock_state(host, at) == LOCK_AMENDING) {
        lock_set_state(host, at, LOCK_GRANTED);
        attend_refused(host, at, actions);
    }
    if (!amends_mode) { /* one that goes on may be held: who opens it again waits himself */
        pending_resolve(host, at, lock_state(host, at) == LOCK_ADOPTED ? 0 : HF_EFULL);
    }
}

/* Whether it is for this host; learns from it who coordinates the name. */
static bool answers(struct host *host, const struct message *message,
                    const struct message_agent *agent, const struct message_name *name)
{
    bool ours = memcmp(agent, &host->config.agent, sizeof(*agent)) == 0;
    if (ours && message->kind != MESSAGE_REFUSED) {
        route_learn(host, names_partition(name->bytes, name->length), &message->from);
    }
    /* An answer to a give-back counts: the host sent it before it gave the namespace up. */
    bool settled = message->kind == MESSAGE_GIVE_BACK_ACK || message->kind == MESSAGE_REFUSED;
    return ours && (settled || !space_bars_name(host, name));
}

void answers_message(struct host *host, const struct message *message, struct host_actions *actions)
{
    const struct message_grant *grant = &message->as.grant;
    const struct message_version *version = &message->as.version;
    struct request *request = NULL;
    if (host->lease.deadline_ns == 0) {
        /* Nothing of this session yet, and its epoch may turn out to be another one's, under which
         * processes of before still hold: nothing of theirs is given back. */
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
