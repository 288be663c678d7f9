/*
 * Limits how many requests one agent may have waiting at a coordinator, so that a host that floods
 * the coordinator with names or with waiters keeps no other host out.
 *
 * Half of the entries for requests are guaranteed. They are divided evenly among all agents for
 * which the table of agents has room. Half of an agent's entries are for acquires, half for its
 * other requests (a give-back must get through, because other hosts may wait for it). No other
 * agent ever gets these entries. The other half is a pool. An agent may take from the pool up to
 * POOL_SHARE times what is left of it. A lone agent gets three quarters of the pool. The more
 * agents there are the less each gets, but some entries are always left for an agent that has
 * fewer.
 * (Thresholds that follow the free space: Choudhury and Hahne, "Dynamic queue length thresholds for
 * shared-memory packet switches", 1998.)
 *
 * In the queue of one name an agent may have QUEUED_MAX requests of each kind. One of them is under
 * way; others may be left from earlier processes of the agent that were killed. The limit also
 * bounds the search: each arriving request is compared with the whole queue.
 *
 * So a request is refused for the sake of others only if its agent has used its guaranteed entries
 * and its part of the pool. Within QUEUED_MAX, an agent that has a guaranteed entry free always
 * gets that entry.
 */
#include "proto/check.h"
#include "queues_private.h"

enum { POOL_SHARE = 3, QUEUED_MAX = 8 };

void queues_agent_named(struct quorum *quorum, uint32_t agent)
{
    quorum->queues->quotas[agent] = (struct quota){0};
}

bool queues_is_unknown(const struct quorum *quorum, uint32_t agent)
{
    const struct quota *quota = &quorum->queues->quotas[agent];
    return quota->waiting == NONE && quota->acquires == 0 && quota->others == 0;
}

/* Returns how many entries each agent is guaranteed for its acquires; it has as many for its other
 * requests. */
static uint32_t guaranteed(const struct quorum *quorum)
{
    return quorum->config->limits.requests / (4 * quorum->config->limits.agents);
}

static uint32_t pool_size(const struct quorum *quorum)
{
    return quorum->config->limits.requests - 2 * guaranteed(quorum) * quorum->config->limits.agents;
}

static uint32_t *used_by(struct quorum *quorum, const struct queued_request *request)
{
    struct quota *agent = &quorum->queues->quotas[request->agent];
    return request->kind == MESSAGE_ACQUIRE ? &agent->acquires : &agent->others;
}

static uint32_t above(uint32_t used, uint32_t limit)
{
    return used > limit ? used - limit : 0;
}

static uint32_t pooled(const struct quorum *quorum, const struct quota *agent)
{
    uint32_t own = guaranteed(quorum);
    return above(agent->acquires, own) + above(agent->others, own);
}

static void log_refused(struct quorum *quorum, uint32_t agent)
{
    struct quota *quota = &quorum->queues->quotas[agent];
    if (log_limit_add(&quota->refused, &log_once_a_minute, step_now_ns(quorum)) == 0) {
        return;
    }
    struct action_log *log = step_log(quorum, "requests_refused", agents_name(quorum, agent),
                                      (int64_t)quota->acquires + quota->others);
    step_log_text(log, "this many of the agent's requests wait here; when many requests wait, one "
                       "agent may have ");
    step_log_number(log, guaranteed(quorum));
    step_log_text(log, " of them and a part of a shared pool; further requests are refused");
}

bool quota_admits(struct quorum *quorum, const struct queued_request *request, uint32_t queued)
{
    struct quota *agent = &quorum->queues->quotas[request->agent];
    uint32_t left = pool_size(quorum) - quorum->queues->request_pooled;
    if (queued < QUEUED_MAX && (*used_by(quorum, request) < guaranteed(quorum) ||
                                pooled(quorum, agent) < POOL_SHARE * left)) {
        return true;
    }
    log_refused(quorum, request->agent);
    return false;
}

void quota_take(struct quorum *quorum, const struct queued_request *request)
{
    uint32_t *used = used_by(quorum, request);
    quorum->queues->request_pooled += *used >= guaranteed(quorum);
    *used += 1;
}

void quota_leave(struct quorum *quorum, const struct queued_request *request)
{
    uint32_t *used = used_by(quorum, request);
    HF_CHECK(*used > 0);
    *used -= 1;
    quorum->queues->request_pooled -= *used >= guaranteed(quorum);
}

uint32_t queues_request_count(const struct quorum *quorum)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < agents_count(quorum); i++) {
        count += quorum->queues->quotas[i].acquires + quorum->queues->quotas[i].others;
    }
    return count;
}

void quota_check_invariants(const struct quorum *quorum)
{
    uint32_t sum = 0;
    for (uint32_t i = 0; i < agents_count(quorum); i++) {
        sum += pooled(quorum, &quorum->queues->quotas[i]);
    }
    HF_CHECK(sum == quorum->queues->request_pooled && sum <= pool_size(quorum));
}
