/*
 * Grants: what the host asks of the quorum for a lock, and what it does with the answers.
 *
 *   IDLE -> ASKING -> GRANTED (-> AMENDING -> GRANTED) -> RETURNING -> IDLE
 *   ADOPTED -> GRANTED
 *
 * The word is opened only by a grant that the quorum gave, and is out of use before a give-back is
 * sent. A grant is named by its version. Versions of one lock rise, so one number says which were
 * given back already: in every state but GRANTED and AMENDING the lock's version is the latest that
 * it returned, and no grant at or below it counts. A lock asks again only when its give-back was
 * acknowledged. So it does not matter in which order answers, recalls and their repeats arrive:
 *
 *   a grant is taken only as the answer to the request that is under way;
 *   one that nobody asked for is given back, unless something is under way, which settles it;
 *   a recall of an unknown version, repeated, ends the request that is under way, whose grant it
 *   may be about, and is answered with that version's give-back.
 *
 * ADOPTED: the agent before this one left the word in force, but only the quorum knows whether the
 * grant is still there. Holders keep what they have, nobody new gets in (the recall bit stands),
 * and the session, which goes on, asks for what it should have. See docs/DECISIONS.md.
 *
 * In a session that goes on, the agent before this one may have returned a grant by a message that
 * is still on its way: told it again, this process would put it in force, and lose it to another
 * host when that message arrives. So the first grant of a lock that was not in force when this
 * process came is taken only if it is fresh, made for this process's own request, or for one that
 * it goes on with (kept.c); any other goes back, and the lock is asked for anew. The same holds for
 * the locks of a namespace that was begun anew in this session (regions.c).
 *
 * A shared grant lets local readers in. Who waits to write makes the host give it back and ask for
 * an exclusive one. An exclusive grant that is recalled while readers are inside becomes a shared
 * one first: the host that waits may want no more than to read.
 *
 * From the moment when the word is shared, its token is that of the last hold that was exclusive
 * (or the first of the range, if there was none), and stays so. The AMEND says it, and it becomes
 * the token of all hosts' readers: none of them goes back, whichever host it is on and whether this
 * one has heard the answer yet or not. The message may be repeated, or overtaken by the end of this
 * process. So a word that was made shared is made exclusive again only with tokens above that one:
 * a grant that the quorum still takes for exclusive is made shared once more (stays_shared()), and
 * one whose word was shared when an agent came, and is not in force any more, goes back.
 *
 * In a cell that is being upgraded, a coordinator of the release before, or who passed the message
 * on, may not know what it says, and leaves the grant exclusive. Then the host asks for the range
 * above (if that is of another slot, the grant goes back when its readers have left), and for a
 * while it makes grants shared in the older way: the word's token becomes the last of its range,
 * and that is what the AMEND says. A range is never named in both ways: one that was
 * made shared under a token within it may be followed by one that has the same last token, and a
 * late message would make that shared while this host writes.
 */
#include "state.h"

/*
 * The longest lock-delay that any known handle of the lock asks for, also one of a client that hung
 * up: its process goes on with it until it has opened it again. Not those of the dead: the grant
 * that they held under covers them.
 */
static uint16_t longest_known(const struct host *host, struct lock_ref at, uint32_t at_least_ms)
{
    uint32_t longest_ms = at_least_ms;
    uint32_t handle = lock_at(host, at)->handles;
    for (uint32_t i = 0; handle != NONE && i <= host->config.limits.handles; i++) {
        const struct handle *who = &host->handles[handle];
        if (who->lock_delay_ms > longest_ms && handle_may_take(host, who)) {
            uint32_t delay_ms = handle_delay_ms(host, who);
            longest_ms = delay_ms > longest_ms ? delay_ms : longest_ms;
        }
        handle = who->lock_next;
    }
    return (uint16_t)longest_ms;
}

/* The same with the handles that clients of before have not opened again: who has one may take the
 * lock as soon as it is granted. */
static uint16_t longest_delay(const struct host *host, struct lock_ref at, uint32_t at_least_ms)
{
    uint32_t unknown_ms = handles_unknown(host) ? delay_noted_ms(host, at) : 0;
    return longest_known(host, at, at_least_ms > unknown_ms ? at_least_ms : unknown_ms);
}

bool lock_lacks_delay(const struct host *host, struct lock_ref at)
{
    return hfi_word_mode(atomic_load(lock_word(host, at))) == HFI_GRANT_NONE &&
           longest_delay(host, at, 0) > lock_at(host, at)->lock_delay_ms;
}

static struct message_order lock_version(const struct lock *lock)
{
    return (struct message_order){lock->ballot, lock->sequence};
}

/* Whether a grant that is not fresh may have been returned by the agent before this one, or put in
 * force in a region that was given up: nothing is known here of any grant of that lock. */
static bool lock_is_doubtful(const struct host *host, struct lock_ref at)
{
    const struct lock *lock = lock_at(host, at);
    bool continued = host->lease.epoch == host->config.continued_epoch ||
                     space_is_anew(host, at.space);
    bool in_force = lock->state == LOCK_ADOPTED && lock->mode != HFI_GRANT_NONE;
    return !grants_are_known(host, at.space) && continued && !in_force && lock->ballot == 0 &&
           lock->sequence == 0;
}

void lock_was_in_force(struct lock *lock)
{
    lock->sequence = 1; /* below any version, but not nothing */
}

static void set_version(struct lock *lock, struct message_order version)
{
    lock->ballot = version.ballot & (MESSAGE_BALLOT_LIMIT - 1);
    lock->sequence = version.sequence & (MESSAGE_SEQUENCE_LIMIT - 1);
}

void lock_has_returned(struct lock *lock, struct message_order version)
{
    set_version(lock, version);
    lock->sequence += lock->ballot == 0 && lock->sequence == 0; /* none, but not nothing */
}

/* What the give-back of a grant says that this process has not put in force: all tokens were used.
 * A process before it may have done so; nothing here knows, and there are tokens enough. */
static const uint64_t TOKENS_ALL = MESSAGE_TOKEN_LIMIT - 1;

/* ---- asking, amending, giving back ---- */

/* The mode that the first of the local queue needs; `otherwise` if nobody waits. */
static uint8_t wanted_mode(const struct host *host, struct lock_ref at, uint8_t otherwise)
{
    enum hfi_grant wanted = HFI_GRANT_NONE;
    if (atomic_load(lock_word(host, at)) & (HFI_W_WAITERS | HFI_W_BARGERS)) {
        wanted = hfi_wanted(&host->spaces[at.space].region, at.slot);
    }
    return wanted == HFI_GRANT_NONE     ? otherwise
           : wanted == HFI_GRANT_SHARED ? MESSAGE_MODE_SHARED
                                        : MESSAGE_MODE_EXCLUSIVE;
}

/* A namespace asks for so many that others might find no place with the coordinators, which know
 * hosts and no namespaces: as if one of them had said so. */
static void ask_refused(struct host *host, struct lock_ref at, struct host_actions *actions)
{
    lock_at(host, at)->full = 1; /* until the next renewal */
    host->counts.refused[MESSAGE_REFUSED_QUOTA]++;
    lock_log(host, actions, "request_refused", at, 0, MESSAGE_REFUSED_QUOTA);
    pending_resolve(host, at, HF_EFULL);
}

void lock_ask(struct host *host, struct lock_ref at, uint32_t lock_delay_ms,
              struct host_actions *actions)
{
    struct lock *lock = lock_at(host, at);
    bool adopted = lock->state == LOCK_ADOPTED;
    struct request *request = request_of(host, at);
    bool asked = request != NULL && !request_is_kept(host, request);
    if ((lock->state != LOCK_IDLE && !adopted) || asked || !hub_lease_is_safe(host)) {
        return; /* under way, or asked for as soon as the session is safe */
    }
    if (!adopted && requests_are_many(host, at.space)) {
        ask_refused(host, at, actions);
        return;
    }
    request = request != NULL ? request : request_start(host, at, MESSAGE_ACQUIRE);
    if (request == NULL) {
        lock_look_later(host, at);
        return;
    }
    if (!adopted) {
        request_count_ask(host, request);
    }
    struct request_terms terms = {.mode = wanted_mode(host, at, MESSAGE_MODE_EXCLUSIVE)};
    if (adopted && lock->mode != HFI_GRANT_NONE) { /* what it should have */
        terms.mode = lock->mode == HFI_GRANT_SHARED ? MESSAGE_MODE_SHARED : MESSAGE_MODE_EXCLUSIVE;
    } else {
        request_keep_note(host, request, !lock_is_doubtful(host, at));
    }
    terms.lock_delay_ms = longest_delay(host, at, lock_delay_ms);
    request_set_terms(request, &terms);
    if (!adopted) {
        lock_set_state(host, at, LOCK_ASKING);
    }
    request_send(host, request, actions);
}

/* Asked for already: for a writer (an OPEN does not tell), but a reader waits; or the reverse. */
void lock_ask_anew(struct host *host, struct lock_ref at, struct host_actions *actions)
{
    struct request *request = request_of(host, at);
    uint8_t mode = wanted_mode(host, at, request_terms(request)->mode);
    if (lock_at(host, at)->state == LOCK_ASKING && mode != request_terms(request)->mode) {
        request_set_mode(request, mode);
        request_send(host, request, actions);
    }
}

/* Which token an AMEND names: none; the last of the range; or the last one that was used. */
enum naming { NAMES_NO_TOKEN, NAMES_LAST, NAMES_USED };

static void amend(struct host *host, struct lock_ref at, uint32_t lock_delay_ms, uint8_t mode,
                  enum naming naming, struct host_actions *actions)
{
    struct lock *lock = lock_at(host, at);
    if (lock->state != LOCK_GRANTED || !hub_lease_is_safe(host) ||
        (mode == MESSAGE_MODE_SHARED && !region_is_sound(host, at.space))) {
        return;
    }
    struct request *request = request_start(host, at, MESSAGE_AMEND);
    if (request == NULL) {
        lock_look_later(host, at);
        return;
    }
    uint32_t delay_ms = longest_delay(host, at, lock_delay_ms);
    struct request_terms terms = {
        .version = lock_version(lock),
        .mode = mode,
        .lock_delay_ms = (uint16_t)(delay_ms > lock->lock_delay_ms ? delay_ms
                                                                   : lock->lock_delay_ms),
        .says_used = naming == NAMES_USED,
        .token = naming == NAMES_USED   ? lock_token_used(host, at)
                 : naming == NAMES_LAST ? lock->token_last
                                        : 0,
    };
    request_set_terms(request, &terms);
    lock_set_state(host, at, LOCK_AMENDING);
    request_send(host, request, actions);
}

void lock_amend(struct host *host, struct lock_ref at, uint32_t lock_delay_ms, bool tokens,
                struct host_actions *actions)
{
    amend(host, at, lock_delay_ms, MESSAGE_MODE_NONE, tokens ? NAMES_LAST : NAMES_NO_TOKEN,
          actions);
}

/* That version goes back; the word is out of use. There is room for a request. */
static void give_back(struct host *host, struct lock_ref at, struct message_order version,
                      uint64_t token_used, struct host_actions *actions)
{
    struct lock *lock = lock_at(host, at);
    if (!region_is_sound(host, at.space)) {
        if (lock->state != LOCK_IDLE) { /* until the region is given up, when this step is done */
            lock_set_state(host, at, LOCK_IDLE);
        }
        lock->recalled = 0;
        return;
    }
    struct request *request = request_start(host, at, MESSAGE_GIVE_BACK);
    HF_CHECK(request != NULL);
    request_set_terms(request, &(struct request_terms){.version = version, .token = token_used});
    set_version(lock, version);
    lock_guard(host, at)->in_force = 0;
    lock_set_state(host, at, LOCK_RETURNING);
    lock->recalled = 0;
    request_send(host, request, actions);
}

/* A grant of which only the version is known, and which this host does not have in force. */
static void give_back_unknown(struct host *host, const struct message_name *name,
                              struct message_order version, struct host_actions *actions)
{
    struct lock_ref at = {0};
    if (!lock_find(host, name->bytes, name->length, &at)) {
        request_orphan(host, name, version, TOKENS_ALL, actions);
        return;
    }
    struct lock *lock = lock_at(host, at);
    struct request *request = request_of(host, at);
    bool dormant = lock->state == LOCK_ADOPTED && lock->mode == HFI_GRANT_NONE;
    if ((lock->state == LOCK_IDLE || lock->state == LOCK_ASKING || dormant) &&
        message_order_before(lock_version(lock), version)) {
        if (request != NULL) {
            request_end(host, request);
        } else if (!request_room(host)) {
            return; /* the quorum recalls it again */
        }
        give_back(host, at, version, TOKENS_ALL, actions);
    }
}

/* ---- a grant that is here ---- */

/*
 * When a lock may be given back behind a lock-delay. Here its end is known by the clock that its
 * holder had; whoever gets it next has another one, so it is counted long by what those may differ.
 */
static int64_t return_due_ns(const struct host *host, struct lock_ref at)
{
    int64_t delay_ns = (int64_t)lock_at(host, at)->lock_delay_ms * MS;
    return lock_closed_until_ns(host, at) + delay_ns / 100 * host->config.max_drift_percent;
}

/* Somebody else wants it. */
static void attend_recalled(struct host *host, struct lock_ref at, struct host_actions *actions)
{
    struct lock *lock = lock_at(host, at);
    const struct hfi_actor *actor = lock_actor(host, at);
    if (lock->state != LOCK_GRANTED) {
        return;
    }
    bool whole = host->whole_until_ns > host->now_ns;
    uint64_t first = whole ? lock->token_last : host->spaces[at.space].token_first[at.slot];
    if (return_due_ns(host, at) > host->now_ns) {
        opening_add(host, at, return_due_ns(host, at));
    } else if (!request_room(host)) {
        lock_look_later(host, at);
    } else if (hfi_retract(actor, at.slot)) {
        host->counts.handoffs += lock->recalled;
        give_back(host, at, lock_version(lock), lock_token_used(host, at), actions);
    } else if (lock->recalled && lock->mode == HFI_GRANT_EXCLUSIVE && hub_lease_is_safe(host) &&
               hfi_share(actor, at.slot, first)) {
        /* The quorum may still think it exclusive if this is lost: no harm. If the other waits to
         * write, the next recall finds a shared grant, and lets no reader in any more. */
        lock->mode = HFI_GRANT_SHARED;
        lock->recalled = 0;
        amend(host, at, 0, MESSAGE_MODE_SHARED, whole ? NAMES_LAST : NAMES_USED, actions);
    }
}

/*
 * A shared grant. Readers are served; a writer needs another one. A ring that comes while only
 * readers are inside and nobody waits may be one that wants to write as well (hfi_upgrade): it
 * cannot leave for that, so the grant is changed, if no other host shares it. Not if the next
 * tokens need another slot, which nobody can move to who is inside.
 */
static void attend_shared(struct host *host, struct lock_ref at, struct host_actions *actions)
{
    const struct hfi_actor *actor = lock_actor(host, at);
    hfi_serve(actor, at.slot);
    hfi_forget_waiters(actor, at.slot);
    uint8_t wanted = wanted_mode(host, at, MESSAGE_MODE_NONE);
    if (wanted == MESSAGE_MODE_EXCLUSIVE) {
        hfi_recall(actor, at.slot, 0); /* readers who come now wait behind the writer */
        attend_recalled(host, at, actions);
    } else if (wanted == MESSAGE_MODE_NONE && host->ringing &&
               host->now_ns >= host->upgrade_due_ns &&
               (lock_at(host, at)->token_last & HFI_W_TOKEN) != HFI_W_TOKEN &&
               (atomic_load(lock_word(host, at)) & HFI_W_CELLS) &&
               hfi_has_readers(actor->region, at.slot, HFI_SEAT_NONE)) {
        host->upgrade_due_ns = host->now_ns + UPGRADE_PAUSE_MS * MS; /* most rings are no such */
        amend(host, at, 0, MESSAGE_MODE_EXCLUSIVE, NAMES_LAST, actions);
    }
}

void grant_attend(struct host *host, struct lock_ref at, struct host_actions *actions)
{
    struct lock *lock = lock_at(host, at);
    const struct hfi_actor *actor = lock_actor(host, at);
    uint64_t word = atomic_load(lock_word(host, at));
    if (lock->state == LOCK_AMENDING && hfi_word_mode(word) == HFI_GRANT_NONE) {
        return; /* not in force before it covers every handle's lock-delay */
    }
    if (hfi_word_mode(word) == HFI_GRANT_NONE) {
        /* Not in force yet either: there was no lease to amend it by, and the handle that it did
         * not cover may be gone by now. (Or somebody wrote over it.) The answer says where its
         * tokens begin. */
        lock_amend(host, at, 0, false, actions);
        return;
    }
    if (lock->recalled && !(word & HFI_W_RECALL)) { /* somebody wrote over it */
        hfi_recall(actor, at.slot, 0);
        word |= HFI_W_RECALL;
    }
    if (!(word & HFI_W_RECALL) && lock_lacks_delay(host, at)) { /* it was refused, or no lease */
        lock_amend(host, at, 0, false, actions);
        return;
    }
    bool shared = lock->mode == HFI_GRANT_SHARED;
    bool used_up = !shared && (word & HFI_W_TOKEN) >= (lock->token_last & HFI_W_TOKEN);
    if (used_up && (lock->token_last & HFI_W_TOKEN) == HFI_W_TOKEN && !(word & HFI_W_RECALL)) {
        /* The next tokens need another slot, and a slot is left only when nobody is inside: the
         * grant goes back as if it were recalled, and is asked for again. */
        hfi_recall(actor, at.slot, 0);
        word |= HFI_W_RECALL;
    }
    if (word & HFI_W_RECALL) {
        attend_recalled(host, at, actions);
    } else if (used_up) {
        lock_amend(host, at, 0, true, actions);
    } else if (shared) {
        attend_shared(host, at, actions);
    } else {
        hfi_serve(actor, at.slot);
    }
}

/* ---- what the quorum says ---- */

/*
 * The grant's tokens have other high bits than the slot's. Not opened before its new slot is
 * durable, or a crash would issue its tokens twice: the grant goes back, behind the row, and is
 * asked for again.
 */
static void grant_move(struct host *host, struct lock_ref at, const struct message_grant *grant,
                       struct host_actions *actions)
{
    /* Its tokens may have been used, by the agent before: the region's word for it is not taken. */
    bool fresh = lock_at(host, at)->state == LOCK_ASKING && grant->fresh;
    bool moved = lock_move(host, &at, actions);
    if (!moved) {
        lock_revoke(host, at, HFI_GRANT_NONE);
    }
    lock_at(host, at)->full = !moved;
    give_back(host, at, grant->version, fresh ? 0 : grant->token_last, actions);
    if (!moved) { /* not asked for at every ring, which would go on for ever: with a renewal */
        pending_resolve(host, at, HF_EFULL);
        locks_reclaim(host, at.space, actions);
    }
}

/* Whether its tokens have other high bits than the slot's. */
static bool is_of_other_slot(const struct host *host, struct lock_ref at,
                             const struct message_grant *grant)
{
    uint64_t top = atomic_load(&host->spaces[at.space].region.slots[at.slot].token_top);
    if (lock_at(host, at)->token_last != 0) {
        top = lock_at(host, at)->token_last; /* our own number, rather than the region's */
    }
    return top != 0 && top >> HFI_TOKEN_LOW_BITS != grant->token_last >> HFI_TOKEN_LOW_BITS;
}

static void grant_elsewhere(struct host *host, struct lock_ref at,
                            const struct message_grant *grant, struct host_actions *actions)
{
    struct lock *lock = lock_at(host, at);
    if (lock->state != LOCK_AMENDING || lock->mode != HFI_GRANT_SHARED ||
        !hfi_has_readers(lock_actor(host, at)->region, at.slot, HFI_SEAT_NONE)) {
        grant_move(host, at, grant, actions);
        return;
    }
    /* It was changed for one of its readers, but a slot is left only when nobody is inside: they go
     * on as readers of it. */
    lock_set_state(host, at, LOCK_GRANTED);
    lock->lock_delay_ms = grant->lock_delay_ms;
    if (!lock_lacks_delay(host, at)) {
        pending_resolve(host, at, 0);
    }
    grant_attend(host, at, actions);
}

/* Another host waits: from now on so many hand-overs more. */
static void recall_word(struct host *host, struct lock_ref at)
{
    hfi_recall(lock_actor(host, at), at.slot,
               lock_at(host, at)->mode == HFI_GRANT_SHARED ? 0 : HANDOVERS_BEFORE_RECALL);
}

/*
 * Whether the quorum takes for exclusive what this agent, or the one before it, has made shared:
 * then the message that says so may still arrive, and what it names was used of this range.
 */
static bool stays_shared(const struct host *host, struct lock_ref at,
                         const struct message_grant *grant)
{
    const struct lock *lock = lock_at(host, at);
    bool had = lock->state == LOCK_AMENDING || lock->state == LOCK_ADOPTED;
    uint64_t token = atomic_load(lock_word(host, at)) & HFI_W_TOKEN;
    return had && lock->mode == HFI_GRANT_SHARED && grant->mode == MESSAGE_MODE_EXCLUSIVE &&
           token >= (grant->token_first & HFI_W_TOKEN);
}

/* Puts a grant, or a range of it, in force. If it stays shared it asks for that (NAMES_USED), or
 * for the range above, with which it does not (NAMES_LAST). No request is under way. */
static void grant_apply(struct host *host, struct lock_ref at, const struct message_grant *grant,
                        enum naming naming, struct host_actions *actions)
{
    struct lock *lock = lock_at(host, at);
    bool adopted = lock->state == LOCK_ADOPTED;
    repair_word(host, at, actions); /* what is wrong with it is so by what was granted before */
    if (is_of_other_slot(host, at, grant)) {
        grant_elsewhere(host, at, grant, actions);
        return;
    }
    bool stays = stays_shared(host, at, grant);
    bool shared = stays || grant->mode == MESSAGE_MODE_SHARED;
    set_version(lock, grant->version);
    lock->lock_delay_ms = grant->lock_delay_ms;
    lock->mode = shared ? HFI_GRANT_SHARED : HFI_GRANT_EXCLUSIVE;
    host->counts.ranges += !shared && lock->token_last != grant->token_last;
    lock->token_last = grant->token_last;
    host->spaces[at.space].token_first[at.slot] = grant->token_first;
    lock_set_state(host, at, LOCK_GRANTED);
    if (stays && naming == NAMES_USED) {
        amend(host, at, 0, MESSAGE_MODE_SHARED, NAMES_USED, actions);
    } else if (stays && naming == NAMES_LAST &&
               (lock->token_last & HFI_W_TOKEN) != HFI_W_TOKEN) { /* else it needs another slot */
        amend(host, at, 0, MESSAGE_MODE_NONE, NAMES_LAST, actions);
    }
    if (longest_delay(host, at, 0) > lock->lock_delay_ms) {
        /* A hold must not begin under a grant that does not cover its lock-delay: if the word is
         * not open yet, it is opened by the answer to this. Without a lease that waits for a
         * look. */
        lock_amend(host, at, 0, false, actions);
        if (lock_lacks_delay(host, at)) {
            return;
        }
    }
    bool covers = longest_known(host, at, 0) <= lock->lock_delay_ms;
    /* A token whose low bits are 0 cannot be told by a word: the next one is the first. Readers
     * show the last token that was used, which is all that their range has. */
    bool next = lock->mode == HFI_GRANT_SHARED || !(grant->token_first & HFI_W_TOKEN);
    uint64_t first = grant->token_first + next;
    lock_put_in_force(host, at, first, actions);
    if (adopted) {
        /* Opened since with a longer lock-delay, and answered for want of patience: nobody new gets
         * in under this grant. It goes back, and the lock is asked for anew. */
        uint64_t stays = covers ? 0 : HFI_W_RECALL;
        /* seq_cst: a change of the word like any other; then those who waited for it */
        atomic_fetch_and(lock_word(host, at), ~HFI_W_RECALL | stays);
        hfi_rouse(lock_actor(host, at), at.slot);
        hfi_serve(lock_actor(host, at), at.slot);
    }
    if (lock->recalled && !(atomic_load(lock_word(host, at)) & HFI_W_RECALL)) {
        /* It came before the word was in force: the turn is this host's all the same. */
        recall_word(host, at);
    }
    pending_resolve(host, at, 0);
    if (lock->recalled || lock->mode == HFI_GRANT_SHARED || adopted ||
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
    uint32_t handle = lock_at(host, at)->handles;
    for (uint32_t i = 0; handle != NONE && i <= host->config.limits.handles; i++) {
        struct handle *who = &host->handles[handle];
        if ((who->flags & HANDLE_FOUND) && who->lock_delay_ms > grant->lock_delay_ms) {
            who->lock_delay_ms = grant->lock_delay_ms;
        }
        handle = who->lock_next;
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
    grant_apply(host, at, grant, NAMES_USED, actions);
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
    if (request ==
        NULL) { /* late: nobody here wants it any more, or what is under way settles it */
        struct lock_ref at = {0};
        if (!lock_find(host, grant->name.bytes, grant->name.length, &at) ||
            lock_at(host, at)->state == LOCK_IDLE) {
            give_back_unknown(host, &grant->name, grant->version, actions);
        }
        return;
    }
    struct lock_ref at = request_lock(request);
    struct lock *lock = lock_at(host, at);
    if (!message_order_before(lock_version(lock), grant->version)) {
        return; /* given back since; the request is answered with another one */
    }
    histogram_add(&host->counts.acquire, host->now_ns - request_since_ns(request));
    request_end(host, request);
    if (!grant->fresh && lock_is_doubtful(host, at)) {
        closing_hasten(host, at, grant);
        give_back(host, at, grant->version, TOKENS_ALL, actions);
        return;
    }
    host->counts.grants++;
    HF_PROBE3(granted, grant->name.bytes, grant->name.length, grant->token_first);
    if (lock->state == LOCK_ADOPTED) {
        grant_confirm(host, at, grant, actions);
    } else {
        grant_apply(host, at, grant, NAMES_USED, actions);
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
        enum naming naming = request_terms(request)->mode != MESSAGE_MODE_SHARED ? NAMES_USED
                             : request_terms(request)->says_used                 ? NAMES_LAST
                                                                                 : NAMES_NO_TOKEN;
        if (naming == NAMES_LAST && grant->mode == MESSAGE_MODE_EXCLUSIVE) {
            host->whole_until_ns = host->now_ns + WHOLE_MS * MS;
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
    struct lock *lock = lock_at(host, at);
    lock_set_state(host, at, LOCK_IDLE);
    lock->mode = HFI_GRANT_NONE;
    lock_log(host, actions, "grant_returned", at, 0, 0);
    lock_unwanted(host, at, actions);
    if (lock_is_named(lock)) { /* else nobody had it here: for its watchers nothing has changed */
        watch_changed(host, at);
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
        give_back_unknown(host, &recall->name, recall->version, actions);
        return;
    }
    struct lock *lock = lock_at(host, at);
    struct request *request = request_of(host, at);
    if (lock->state == LOCK_RETURNING) {
        request_send(host, request, actions); /* it did not arrive */
    } else if (lock->state == LOCK_ADOPTED && lock->mode != HFI_GRANT_NONE) {
        lock->recalled = 1; /* seen to when it is known what it has */
    } else if (lock->state == LOCK_ADOPTED && request != NULL &&
               message_order_before(lock_version(lock), recall->version)) {
        /* What is under way is answered with that grant, or has been: this came by a shorter
         * way. If it is fresh, or no doubt is possible, it is the host's turn; else it goes back
         * then. */
        return;
    } else if (lock->state == LOCK_ASKING && !lock->recalled &&
               message_order_before(lock_version(lock), recall->version)) {
        /* It has overtaken its grant, and does not cost the host its turn. Repeated, the grant may
         * be lost, or made for another mode than is asked for by now: it goes back. */
        lock->recalled = 1;
    } else if (!lock_is_granted(lock)) {
        give_back_unknown(host, &recall->name, recall->version, actions);
    } else if (!message_order_before(recall->version, lock_version(lock))) {
        /* Counted once: a recall is repeated, and may have come to the agent before this one. */
        bool counted = lock->recalled || (atomic_load(lock_word(host, at)) & HFI_W_RECALL);
        lock->recalled = 1;
        if (!counted) {
            host->counts.recalls++;
            HF_PROBE2(recalled, recall->name.bytes, recall->name.length);
            if (hfi_word_mode(atomic_load(lock_word(host, at))) != HFI_GRANT_NONE) {
                recall_word(host, at);
            } /* else when it is: under the bit it would be handed to nobody, and go back unused */
        }
        lock_attend(host, at, actions);
    }
}

/* An amend was. The recall may have come while it was under way. What is not in force for want of
 * it goes back as it is: attended to, the same would be asked for again at once, without end. */
static void attend_refused(struct host *host, struct lock_ref at, struct host_actions *actions)
{
    if (!lock_at(host, at)->recalled) {
        return;
    }
    if (hfi_word_mode(atomic_load(lock_word(host, at))) == HFI_GRANT_NONE) {
        hfi_recall(lock_actor(host, at), at.slot, 0);
        attend_recalled(host, at, actions);
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
    host->counts.refused[refused->reason <= MESSAGE_REFUSED_QUOTA ? refused->reason : 0]++;
    if (refused->reason == MESSAGE_REFUSED_NOT_OWNER) {
        request_redirect(host, request, &refused->owner, actions);
        return;
    }
    if (request_kind(request) == MESSAGE_GIVE_BACK || refused->reason == MESSAGE_REFUSED_RULES) {
        return; /* asked again at its time, until the session is over */
    }
    struct lock_ref at = request_lock(request);
    struct lock *lock = lock_at(host, at);
    bool amends_mode = request_kind(request) == MESSAGE_AMEND &&
                       request_terms(request)->mode != MESSAGE_MODE_NONE;
    request_end(host, request);
    lock_log(host, actions, "request_refused", at, 0, refused->reason);
    if (lock->state == LOCK_ASKING) {
        lock_set_state(host, at, LOCK_IDLE);
        lock->recalled = 0;
    } else if (lock->state == LOCK_AMENDING && refused->reason == MESSAGE_REFUSED_VERSION &&
               !amends_mode) {
        lock_revoke(host, at, HFI_GRANT_NONE); /* it is not ours any more */
        lock_set_state(host, at, LOCK_IDLE);
        lock->recalled = 0;
    } else if (lock->state == LOCK_AMENDING) {
        lock_set_state(host, at, LOCK_GRANTED);
        attend_refused(host, at, actions);
    }
    if (!amends_mode) { /* one that goes on may be held: who opens it again waits himself */
        pending_resolve(host, at, lock->state == LOCK_ADOPTED ? 0 : HF_EFULL);
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
    /* What is said of a give-back is heard: it was sent before the namespace was given up. */
    bool settled = message->kind == MESSAGE_GIVE_BACK_ACK || message->kind == MESSAGE_REFUSED;
    return ours && (settled || !name_is_barred(host, name));
}

void lock_message(struct host *host, const struct message *message, struct host_actions *actions)
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
