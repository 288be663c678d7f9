/*
 * The coordinator's side of a session's end. See sessions.h.
 *
 * The coordinator first polls the voters, so that a minority does not mark a session that lives. If
 * a majority answers that the session has lapsed, the coordinator asks the voters to mark it. A
 * majority of marks ends the session. The coordinator asks only if a request waits for a lock that
 * the session holds, if a newer session of the same agent lives, or if two agents use the session
 * (is_twin() in sessions.c).
 *
 * The lock-delays of the session's grants begin when the coordinator learns of the session's end. A
 * coordinator that restarted asks the voters again and gets their answers at once; then the
 * lock-delays begin anew.
 */
#include "sessions.h"

#include "proto/check.h"
#include "reactions.h"
#include "sessions_private.h"

enum { WANTED_MS = 4 * RECALL_MS };

static void ask_at(struct quorum *quorum, struct session *agent, int64_t when_ns)
{
    agent->next_ns = when_ns;
    quorum->sessions->ending_ns = when_ns < quorum->sessions->ending_ns
                                      ? when_ns
                                      : quorum->sessions->ending_ns;
    step_schedule(quorum, when_ns);
}

static void ask(struct quorum *quorum, struct session *agent, enum message_kind kind)
{
    for (uint32_t voter = 0; voter < quorum->config->voter_count; voter++) {
        if ((agent->mask >> voter & 1) != 0) {
            continue;
        }
        struct message_session *session = &agents_send_voter(quorum, voter, kind)->as.session;
        session->agent = *agents_name(quorum, (uint32_t)(agent - quorum->sessions->of));
        session->epoch = agent->target;
    }
    ask_at(quorum, agent, step_now_ns(quorum) + RESEND_MS * MS_NS);
}

void sessions_want_end(struct quorum *quorum, uint32_t index, uint32_t epoch, bool superseded)
{
    struct session *agent = &quorum->sessions->of[index];
    if (epoch <= agent->ended) {
        return;
    }
    agent->wanted_ns = step_now_ns(quorum);
    /* Only one session of an agent is ended at a time, the oldest first, because a newer session
     * may live on for ever. If the newer session is being marked already, its mark covers the older
     * session too. */
    if (agent->phase != ENDING_NOTHING && (agent->target <= epoch || agent->phase == ENDING_MARK)) {
        agent->superseded = agent->superseded || (superseded && agent->target == epoch);
        return;
    }
    if (agent->phase == ENDING_NOTHING) {
        quorum->sessions->endings++;
    }
    agent->phase = ENDING_POLL;
    agent->target = epoch;
    agent->mask = 0;
    agent->superseded = superseded;
    if (step_has_room(quorum, MESSAGE_VOTERS_MAX + MESSAGE_SHARES_MAX)) {
        ask(quorum, agent, MESSAGE_POLL);
    } else {
        /* many owners can block one request, so the step may have no room for all polls */
        ask_at(quorum, agent, step_now_ns(quorum));
    }
}

/* Returns the agent that an answer is about; NULL if the answer does not belong to the current
 * phase. */
static struct session *asked(struct quorum *quorum, const struct message *message,
                             enum ending phase, uint32_t *voter, uint32_t *index)
{
    const struct message_session_answer *answer = &message->as.session_answer;
    if (!agents_voter(quorum, message, voter) || !agents_find(quorum, &answer->agent, index)) {
        return NULL;
    }
    struct session *agent = &quorum->sessions->of[*index];
    return agent->phase == phase && agent->target == answer->epoch ? agent : NULL;
}

/* Polls again after wait_ns. By that time the session may have lapsed at the voter that answered
 * no. */
static void poll_later(struct quorum *quorum, struct session *agent, int64_t wait_ns)
{
    int64_t longest_ns = rules_long_ns(quorum, quorum->config->session_ttl_ns);
    wait_ns = wait_ns > longest_ns ? longest_ns : wait_ns;
    agent->phase = ENDING_POLL;
    ask_at(quorum, agent, step_now_ns(quorum) + (wait_ns < MS_NS ? MS_NS : wait_ns));
}

/* Counts an answer of that phase. Returns the agent's sessions if a majority of the voters has
 * answered yes now, else NULL. */
static struct session *agreed(struct quorum *quorum, const struct message *message,
                              enum ending phase, uint32_t *index)
{
    uint32_t voter = 0;
    struct session *agent = asked(quorum, message, phase, &voter, index);
    if (agent == NULL) {
        return NULL;
    }
    if (!message->as.session_answer.yes) {
        poll_later(quorum, agent, message->as.session_answer.wait_ns);
        return NULL;
    }
    agent->mask |= (uint8_t)(1u << voter);
    return rules_is_majority(quorum, agent->mask) ? agent : NULL;
}

void sessions_polled(struct quorum *quorum, const struct message *message)
{
    uint32_t index = 0;
    struct session *agent = agreed(quorum, message, ENDING_POLL, &index);
    if (agent != NULL) {
        agent->phase = ENDING_MARK;
        agent->mask = 0;
        ask(quorum, agent, MESSAGE_MARK);
    }
}

static void idle(struct quorum *quorum, struct session *agent)
{
    HF_CHECK(agent->phase != ENDING_NOTHING && quorum->sessions->endings > 0);
    agent->phase = ENDING_NOTHING;
    agent->superseded = false;
    quorum->sessions->endings--;
}

void sessions_marked(struct quorum *quorum, const struct message *message)
{
    uint32_t index = 0;
    struct session *agent = agreed(quorum, message, ENDING_MARK, &index);
    if (agent != NULL) {
        agent->ended = agent->target;
        step_counts(quorum)->sessions_ended++;
        agent->ended_ns = step_now_ns(quorum);
        idle(quorum, agent);
        reaction_session_ended(quorum, index);
    }
}

void sessions_recount(struct quorum *quorum)
{
    for (uint32_t i = 0; i < agents_count(quorum) && quorum->sessions->endings > 0; i++) {
        struct session *agent = &quorum->sessions->of[i];
        if (agent->phase != ENDING_NOTHING) {
            poll_later(quorum, agent, 0);
            agent->mask = 0;
        }
    }
}

void sessions_count_anew(struct quorum *quorum)
{
    for (uint32_t i = 0; i < agents_count(quorum); i++) {
        if (quorum->sessions->of[i].ended != 0) {
            quorum->sessions->of[i].ended_ns = step_now_ns(quorum);
        }
    }
}

int64_t sessions_tick(struct quorum *quorum)
{
    int64_t next_ns = NEVER;
    if (quorum->sessions->ending_ns > step_now_ns(quorum)) {
        /* there may be many agents, so they are searched only when one is due */
        return quorum->sessions->ending_ns;
    }
    for (uint32_t i = 0; i < agents_count(quorum); i++) {
        struct session *agent = &quorum->sessions->of[i];
        if (agent->phase == ENDING_NOTHING) {
            continue;
        }
        if (agent->next_ns <= step_now_ns(quorum)) {
            if (!agent->superseded && step_now_ns(quorum) - agent->wanted_ns > WANTED_MS * MS_NS) {
                idle(quorum, agent); /* no request waits for this end any more */
                continue;
            }
            if (!step_has_room(quorum, MESSAGE_VOTERS_MAX)) {
                quorum->sessions->ending_ns = step_now_ns(quorum);
                return step_now_ns(quorum);
            }
            if (agent->phase == ENDING_POLL) {
                agent->mask = 0;
            }
            ask(quorum, agent, agent->phase == ENDING_POLL ? MESSAGE_POLL : MESSAGE_MARK);
        }
        next_ns = agent->next_ns < next_ns ? agent->next_ns : next_ns;
    }
    quorum->sessions->ending_ns = next_ns;
    return next_ns;
}

bool sessions_has_ended(const struct quorum *quorum, uint32_t agent, uint32_t epoch)
{
    return epoch <= quorum->sessions->of[agent].ended;
}

int64_t sessions_ended_ns(const struct quorum *quorum, uint32_t agent)
{
    return quorum->sessions->of[agent].ended_ns;
}

void sessions_check_invariants(const struct quorum *quorum)
{
    uint32_t endings = 0;
    for (uint32_t i = 0; i < agents_count(quorum); i++) {
        endings += quorum->sessions->of[i].phase != ENDING_NOTHING;
    }
    HF_CHECK(endings == quorum->sessions->endings);
}
