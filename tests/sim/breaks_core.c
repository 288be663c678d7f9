/*
 * Rules of the protocol between hosts that the simulator breaks on purpose. Functions of the quorum
 * core, of the renewal and of the host core are renamed for the simulator (real_X), and calls of
 * them go through this file. This file changes the core's private state, which no other file
 * outside of the core does.
 */
#include <string.h>

#include "quorum/members.h"
#include "quorum/queues_private.h"
#include "quorum/sessions_private.h"
#include "session/renewal_private.h"
#include "sim.h"

uint32_t real_rules_majority(const struct quorum *quorum);
int64_t real_rules_long_ns(const struct quorum *quorum, int64_t duration_ns);
int64_t real_rules_closed_ns(const struct quorum *quorum, int64_t lock_delay_ns);
bool real_members_votes(const struct quorum *quorum);
bool real_members_admit(const struct quorum *quorum, const struct message *message);
bool real_ballots_is_complete(const struct quorum *quorum, uint32_t partition);
bool real_registers_adopt(struct quorum *quorum, const struct message_accept *value);
void real_sessions_renew(struct quorum *quorum, const struct message *message);
void real_sessions_mark(struct quorum *quorum, const struct message *message);
void real_handover_look(struct quorum *quorum, struct operation *operation);
void real_queues_request(struct quorum *quorum, const struct message *message);
void real_renewal_acked(struct renewal *renewal, const struct message *message, int64_t now_ns,
                        struct actions *actions);

/* MAJORITY: one vote less than a majority suffices. */
uint32_t rules_majority(const struct quorum *quorum)
{
    uint32_t majority = real_rules_majority(quorum);
    return broken == BREAK_MAJORITY && majority > 1 ? majority - 1 : majority;
}

/* LAPSE: a voter treats a session as lapsed too early. */
int64_t rules_long_ns(const struct quorum *quorum, int64_t duration_ns)
{
    bool session = duration_ns == quorum->config->session_ttl_ns;
    return session && broken == BREAK_LAPSE ? duration_ns / 4
                                            : real_rules_long_ns(quorum, duration_ns);
}

/* DEATH_DELAY: a coordinator does not wait for the lock-delay. */
int64_t rules_closed_ns(const struct quorum *quorum, int64_t lock_delay_ns)
{
    return broken == BREAK_DEATH_DELAY ? 0 : real_rules_closed_ns(quorum, lock_delay_ns);
}

/* OLD_STORE: a voter votes with an empty store, or with an old copy. */
bool members_votes(const struct quorum *quorum)
{
    return broken == BREAK_OLD_STORE || real_members_votes(quorum);
}

bool members_admit(const struct quorum *quorum, const struct message *message)
{
    return broken == BREAK_OLD_STORE || real_members_admit(quorum, message);
}

/* READ: a coordinator treats a name that is missing in its store as a name without a value, and
 * asks no majority. */
bool ballots_is_complete(const struct quorum *quorum, uint32_t partition)
{
    return broken == BREAK_READ || real_ballots_is_complete(quorum, partition);
}

/* ADOPT: an acceptor takes over another acceptor's value even if its own value is newer. */
bool registers_adopt(struct quorum *quorum, const struct message_accept *value)
{
    uint32_t name = names_find(quorum->names, value->name.bytes, value->name.length);
    struct record *record = name == NAMES_NONE
                                ? NULL
                                : (struct record *)(uintptr_t)registers_find(quorum, name);
    if (broken == BREAK_ADOPT && record != NULL) {
        record_set_accepted(record, (struct message_order){0, 0});
    }
    return real_registers_adopt(quorum, value);
}

/* ACK: a voter acknowledges a renewal of a session that it has marked. */
void sessions_renew(struct quorum *quorum, const struct message *message)
{
    uint32_t index = 0;
    if (broken != BREAK_ACK || !agents_find(quorum, &message->as.renew.agent, &index)) {
        real_sessions_renew(quorum, message);
        return;
    }
    uint32_t marked = quorum->sessions->of[index].marked;
    quorum->sessions->of[index].marked = 0;
    real_sessions_renew(quorum, message);
    quorum->sessions->of[index].marked = marked;
}

/* MARK: a voter marks a session without a check that the session has lapsed. */
void sessions_mark(struct quorum *quorum, const struct message *message)
{
    uint32_t index = 0;
    if (broken == BREAK_MARK && agents_find(quorum, &message->as.session.agent, &index)) {
        struct session *agent = &quorum->sessions->of[index];
        int64_t seen_ns = agent->seen_ns;
        int64_t since_ns = quorum->sessions->fresh_since_ns;
        agent->seen_ns = agent->seen_older_ns = quorum->sessions->fresh_since_ns = INT64_MIN / 2;
        real_sessions_mark(quorum, message);
        agent->seen_ns = seen_ns;
        quorum->sessions->fresh_since_ns = since_ns;
        return;
    }
    real_sessions_mark(quorum, message);
}

/* ORDER: a coordinator serves the host that came last. WAITED: it ignores the waiting time that a
 * host reports. */
static void acquire(struct quorum *quorum, const struct message *message)
{
    struct message changed;
    message_copy(&changed, message);
    if (broken == BREAK_ORDER) {
        changed.as.acquire.waited_ms = (uint32_t)(2 * (step_now_ns(quorum) / SIM_MS));
    } else if (broken == BREAK_WAITED) {
        changed.as.acquire.waited_ms = 0;
    }
    order_request(quorum, message, &changed);
}

/*
 * DOWNGRADE: the whole range is treated as used when an exclusive grant becomes a shared one, as in
 * earlier releases. LATE_SHARE: an AMEND makes the grant shared even if it comes so late that its
 * last used token is not in the grant's range.
 */
static bool amend_broken(const struct message_amend *amend, const struct record *record,
                         struct message_amend *changed)
{
    bool shares = amend->mode == MESSAGE_MODE_SHARED && record != NULL &&
                  record->mode == MESSAGE_MODE_EXCLUSIVE &&
                  message_order_equal(record_version(record), amend->version);
    bool of_range = shares && amend->token_used >= record->token_first &&
                    amend->token_used <= record_token_last(record);
    if (!shares || (broken != BREAK_DOWNGRADE && broken != BREAK_LATE_SHARE)) {
        return false;
    }
    *changed = *amend;
    if (broken == BREAK_DOWNGRADE && of_range) {
        changed->token_used = record_token_last(record);
    } else if (broken == BREAK_LATE_SHARE && !of_range) {
        changed->token_used = record->token_first;
    }
    return true;
}

/* VERSION: a give-back ends the register's grant, whatever version it names. */
void queues_request(struct quorum *quorum, const struct message *message)
{
    if (message->kind == MESSAGE_ACQUIRE) {
        acquire(quorum, message);
        return;
    }
    const struct message_give_back *back = &message->as.give_back;
    bool amends = message->kind == MESSAGE_AMEND;
    const struct message_name *lock = amends ? &message->as.amend.name : &back->name;
    uint32_t name = amends || message->kind == MESSAGE_GIVE_BACK
                        ? names_find(quorum->names, lock->bytes, lock->length)
                        : NAMES_NONE;
    const struct record *record = name == NAMES_NONE ? NULL : registers_find(quorum, name);
    struct message changed;
    message_copy(&changed, message);
    if (amends && amend_broken(&message->as.amend, record, &changed.as.amend)) {
        real_queues_request(quorum, &changed);
        return;
    }
    if (broken == BREAK_IN_USE && amends && message->as.amend.in_use) {
        return;
    }
    if (broken == BREAK_VERSION && record != NULL && !amends) {
        changed.as.give_back.version = record_version(record);
        real_queues_request(quorum, &changed);
        return;
    }
    real_queues_request(quorum, message);
}

/* SUCCESSOR: a waiter is refused if another voter has become the coordinator. */
void handover_look(struct quorum *quorum, struct operation *operation)
{
    if (broken != BREAK_SUCCESSOR) {
        real_handover_look(quorum, operation);
        return;
    }
    answer_all(quorum, operation, OUTCOME_REFUSED_NOT_OWNER);
    if (operation->first != NONE) {
        wait_until(quorum, operation, step_now_ns(quorum));
    }
}

/* LEASE: the host counts the lease from the arrival of the answer. */
void renewal_acked(struct renewal *renewal, const struct message *message, int64_t now_ns,
                   struct actions *actions)
{
    uint64_t id = message->as.renew_ack.renewal_id;
    struct renewal_sent *sent = &renewal->sent[id % RENEWAL_REMEMBERED];
    if (broken == BREAK_LEASE && sent->id == id) {
        sent->sent_ns = now_ns;
    }
    real_renewal_acked(renewal, message, now_ns, actions);
}
