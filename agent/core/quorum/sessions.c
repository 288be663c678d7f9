/* The voter's side of sessions: renewals, polls, marks. See sessions.h. */
#include "sessions.h"

#include <string.h>

#include "proto/check.h"
#include "reactions.h"
#include "sessions_private.h"

struct sessions *sessions_lay_out(struct arena *arena, const struct quorum_limits *limits)
{
    struct sessions *sessions = arena_take(arena, 1, sizeof(*sessions));
    ARENA_TAKE(arena, sessions, of, limits->agents);
    return sessions;
}

void sessions_init(struct quorum *quorum)
{
    quorum->sessions->ending_ns = NEVER;
}

bool sessions_load_mark(struct quorum *quorum, const struct message_session *mark)
{
    uint32_t index = 0;
    if (!agent_name_valid(&mark->agent) || !agents_make(quorum, &mark->agent, &index)) {
        return false;
    }
    struct session *agent = &quorum->sessions->of[index];
    agent->marked = mark->epoch > agent->marked ? mark->epoch : agent->marked;
    return true;
}

void sessions_start(struct quorum *quorum)
{
    struct sessions *sessions = quorum->sessions;
    sessions->fresh_since_ns = step_now_ns(quorum);
    sessions->stamp_ns = step_now_ns(quorum);
    /* never 0: an echo of 0 means that there is no echo */
    sessions->incarnation = step_random(quorum) | 1;
}

void sessions_refresh(struct quorum *quorum)
{
    quorum->sessions->fresh_since_ns = step_now_ns(quorum);
}

void sessions_guard(struct quorum *quorum)
{
    sessions_refresh(quorum);
    quorum->sessions->guarded_until_ns = step_now_ns(quorum) +
                                         rules_long_ns(quorum, quorum->config->session_ttl_ns);
}

int64_t sessions_fresh_since_ns(const struct quorum *quorum)
{
    return quorum->sessions->fresh_since_ns;
}

uint64_t sessions_incarnation(const struct quorum *quorum)
{
    return quorum->sessions->incarnation;
}

void sessions_agent_named(struct quorum *quorum, uint32_t agent)
{
    quorum->sessions->of[agent] = (struct session){
        .seen_ns = INT64_MIN, .seen_older_ns = INT64_MIN, .echo_counted_ns = INT64_MIN};
}

bool sessions_is_unknown(const struct quorum *quorum, uint32_t agent)
{
    const struct session *session = &quorum->sessions->of[agent];
    return session->epoch == 0 && session->marked == 0 && session->seen_ns == INT64_MIN &&
           session->seen_older_ns == INT64_MIN && session->ended == 0 &&
           session->phase == ENDING_NOTHING;
}

uint32_t sessions_epoch(const struct quorum *quorum, uint32_t agent)
{
    return quorum->sessions->of[agent].epoch;
}

int64_t sessions_seen_ns(const struct quorum *quorum, uint32_t agent)
{
    int64_t seen_ns = quorum->sessions->of[agent].seen_ns;
    int64_t fresh_ns = quorum->sessions->fresh_since_ns;
    return seen_ns > fresh_ns ? seen_ns : fresh_ns;
}

uint32_t sessions_marked_epoch(const struct quorum *quorum, uint32_t agent)
{
    return quorum->sessions->of[agent].marked;
}

/* Returns the later of two times: when any epoch of the agent up to `epoch` was last extended, and
 * when all sessions were last taken for renewed (sessions_refresh()). */
static int64_t last_seen_ns(const struct quorum *quorum, const struct session *agent,
                            uint32_t epoch)
{
    int64_t seen_ns = quorum->sessions->fresh_since_ns;
    if (agent->seen_older_ns > seen_ns) {
        seen_ns = agent->seen_older_ns;
    }
    if (epoch >= agent->epoch && agent->seen_ns > seen_ns) {
        seen_ns = agent->seen_ns;
    }
    return seen_ns;
}

/* Returns in how many nanoseconds the session lapses, if nothing renews it; 0 if it has lapsed. */
static int64_t lapse_wait_ns(const struct quorum *quorum, const struct session *agent,
                             uint32_t epoch)
{
    int64_t lapse_ns = last_seen_ns(quorum, agent, epoch) +
                       rules_long_ns(quorum, quorum->config->session_ttl_ns);
    return step_now_ns(quorum) > lapse_ns ? 0 : lapse_ns - step_now_ns(quorum) + 1;
}

bool sessions_has_lapsed(const struct quorum *quorum, uint32_t agent, uint32_t epoch)
{
    return lapse_wait_ns(quorum, &quorum->sessions->of[agent], epoch) == 0;
}

static bool echo_is_fresh(const struct quorum *quorum, const struct session *agent,
                          const struct message_echo *echo)
{
    return echo->incarnation == quorum->sessions->incarnation &&
           echo->issued_ns <= quorum->sessions->stamp_ns &&
           echo->issued_ns > agent->echo_counted_ns &&
           step_now_ns(quorum) - echo->issued_ns < quorum->config->session_ttl_ns;
}

static void follow_epoch(struct session *agent, uint32_t epoch, const uint64_t store_id[2])
{
    if (epoch <= agent->epoch) {
        return;
    }
    agent->store_id[0] = store_id[0];
    agent->store_id[1] = store_id[1];
    agent->twice_logged = false;
    if (agent->seen_ns > agent->seen_older_ns) {
        agent->seen_older_ns = agent->seen_ns;
    }
    agent->seen_ns = INT64_MIN;
    agent->epoch = epoch;
}

/*
 * Returns whether another agent of the same name has this session, for example because a
 * configuration was copied to a second host. Without this check both agents could be granted the
 * same lock. Each voter acknowledges only the agent whose renewal it received first, so at most one
 * of the two has a majority.
 */
static bool is_twin(struct quorum *quorum, struct session *agent, const struct message *message)
{
    if (message->as.renew.epoch != agent->epoch || (message->store_id[0] == agent->store_id[0] &&
                                                    message->store_id[1] == agent->store_id[1])) {
        return false;
    }
    if (!agent->twice_logged) {
        struct action_log *log = step_log(quorum, "agent_twice", &message->from,
                                          message->as.renew.epoch);
        step_log_text(log,
                      "two agents have this name, with two stores: one of them gets no session");
        agent->twice_logged = true;
    }
    return true;
}

/* Returns the agent's highest epoch that is known here. If the agent still has a grant, every
 * majority has a voter that knows the epoch of that grant. */
static uint32_t highest_epoch(const struct quorum *quorum, uint32_t index)
{
    const struct session *agent = &quorum->sessions->of[index];
    uint32_t granted = records_granted_epoch(quorum, index);
    uint32_t epoch = agent->epoch > agent->marked ? agent->epoch : agent->marked;
    epoch = agent->ended > epoch ? agent->ended : epoch;
    return granted > epoch ? granted : epoch;
}

void sessions_renew(struct quorum *quorum, const struct message *message)
{
    const struct message_renew *renew = &message->as.renew;
    uint32_t index = 0;
    if (!agents_guest(quorum, &renew->agent, &index)) {
        struct message *refused = step_send(quorum, ACTION_STRANGER, MESSAGE_REFUSED);
        refused->as.refused.agent = renew->agent;
        refused->as.refused.epoch = renew->epoch;
        refused->as.refused.reason = MESSAGE_REFUSED_FULL;
        return;
    }
    struct session *agent = &quorum->sessions->of[index];
    if (!reaction_may_renew(quorum, index, renew)) {
        return;
    }
    if (renew->epoch == 0 && highest_epoch(quorum, index) == 0 &&
        step_now_ns(quorum) <= quorum->sessions->guarded_until_ns) {
        return; /* the voters of the previous record may know an epoch of this agent */
    }
    bool ended = renew->epoch <= agent->marked;
    bool extended = false;
    if (!ended && renew->epoch != 0) {
        bool fresh = echo_is_fresh(quorum, agent, &renew->echo);
        if (fresh) {
            follow_epoch(agent, renew->epoch, message->store_id);
        }
        bool twin = is_twin(quorum, agent, message);
        if (twin && !sessions_has_lapsed(quorum, index, agent->epoch)) {
            return;
        }
        if (twin) {
            /* The other agent is gone. This agent begins the next epoch when the session has ended.
             * The session does not end while another voter extends it for this agent. In that case
             * this agent gives the session up (give_up_barren() in session/renewal.c). */
            sessions_want_end(quorum, index, agent->epoch, false);
        }
        extended = fresh && !twin && renew->epoch == agent->epoch;
    }
    if (extended) {
        agent->seen_ns = step_now_ns(quorum);
        agent->echo_counted_ns = renew->echo.issued_ns;
        if (agent->marked + 1 < renew->epoch && agent->ended + 1 < renew->epoch) {
            sessions_want_end(quorum, index, renew->epoch - 1, true);
        }
    }
    /* Each stamp is above the one before, even if the clock shows the same time. */
    quorum->sessions->stamp_ns = step_now_ns(quorum) > quorum->sessions->stamp_ns
                                     ? step_now_ns(quorum)
                                     : quorum->sessions->stamp_ns + 1;
    struct message_renew_ack *ack = &step_send(quorum, index, MESSAGE_RENEW_ACK)->as.renew_ack;
    ack->agent = renew->agent;
    ack->epoch = renew->epoch;
    ack->renewal_id = renew->renewal_id;
    ack->echo.incarnation = quorum->sessions->incarnation;
    ack->echo.issued_ns = quorum->sessions->stamp_ns;
    ack->extended = extended;
    ack->ended_epoch = renew->epoch == 0 ? highest_epoch(quorum, index) : agent->marked;
    memcpy(ack->release, quorum->config->release, sizeof(ack->release));
    memcpy(ack->page, quorum->config->page, sizeof(ack->page));
}

static void answer(struct quorum *quorum, uint32_t voter, enum message_kind kind,
                   const struct message_session *session, int64_t wait_ns)
{
    struct message_session_answer *out = &agents_send_voter(quorum, voter, kind)->as.session_answer;
    out->agent = session->agent;
    out->epoch = session->epoch;
    out->yes = wait_ns == 0;
    out->wait_ns = wait_ns;
}

/* Finds the voter and the agent that a message names. If the table has no room for the agent,
 * answers that the asking voter must wait; it will ask again. */
static bool named_agent(struct quorum *quorum, const struct message *message,
                        enum message_kind answer_kind, uint32_t *voter, uint32_t *index)
{
    if (!agents_voter(quorum, message, voter)) {
        return false;
    }
    if (!agents_make(quorum, &message->as.session.agent, index)) {
        answer(quorum, *voter, answer_kind, &message->as.session, quorum->config->session_ttl_ns);
        return false;
    }
    return true;
}

void sessions_poll(struct quorum *quorum, const struct message *message)
{
    const struct message_session *session = &message->as.session;
    uint32_t voter = 0;
    uint32_t index = 0;
    if (!named_agent(quorum, message, MESSAGE_POLLED, &voter, &index)) {
        return;
    }
    const struct session *agent = &quorum->sessions->of[index];
    bool marked = session->epoch <= agent->marked;
    answer(quorum, voter, MESSAGE_POLLED, session,
           marked ? 0 : lapse_wait_ns(quorum, agent, session->epoch));
}

void sessions_mark(struct quorum *quorum, const struct message *message)
{
    const struct message_session *session = &message->as.session;
    uint32_t voter = 0;
    uint32_t index = 0;
    if (!named_agent(quorum, message, MESSAGE_MARKED, &voter, &index)) {
        return;
    }
    struct session *agent = &quorum->sessions->of[index];
    int64_t wait_ns = 0;
    if (session->epoch > agent->marked) {
        wait_ns = lapse_wait_ns(quorum, agent, session->epoch);
        if (wait_ns == 0) {
            agent->marked = session->epoch;
            struct action *action = step_emit(quorum, ACTION_PERSIST_MARK);
            action->as.mark.agent = session->agent;
            action->as.mark.epoch = session->epoch;
        }
    }
    answer(quorum, voter, MESSAGE_MARKED, session, wait_ns);
}

bool sessions_adopt_mark(struct quorum *quorum, const struct message_session *mark)
{
    uint32_t index = 0;
    if (!agents_make(quorum, &mark->agent, &index)) {
        return false;
    }
    struct session *agent = &quorum->sessions->of[index];
    if (mark->epoch > agent->marked) {
        agent->marked = mark->epoch;
        step_emit(quorum, ACTION_PERSIST_MARK)->as.mark = *mark;
    }
    return true;
}
