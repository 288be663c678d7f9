/* Rate limits of the log: see core/base/log_limit.h. */
#include "core/base/log_limit.h"

#include <stdbool.h>
#include <string.h>

#include "proto/check.h"

const struct log_rate log_once_a_minute = {.interval_ns = INT64_C(60000000000), .burst = 1};

/* Returns how many lines the limit has regained since regained_ns: one for each interval. If
 * nothing was logged yet, returns the whole burst. */
static int64_t regained(const struct log_limit *limit, const struct log_rate *rate, int64_t now_ns)
{
    return limit->regained_ns == 0 ? rate->burst
                                   : (now_ns - limit->regained_ns) / rate->interval_ns;
}

uint32_t log_limit_add(struct log_limit *limit, const struct log_rate *rate, int64_t now_ns)
{
    int64_t lines = regained(limit, rate, now_ns);
    if (lines > 0) {
        limit->spent -= (uint32_t)(lines < limit->spent ? lines : limit->spent);
        limit->regained_ns = now_ns;
    }
    limit->left_out += limit->left_out < UINT32_MAX;
    if (limit->spent >= rate->burst) {
        return 0;
    }
    uint32_t count = limit->left_out;
    limit->spent++;
    limit->left_out = 0;
    return count;
}

/* Returns the agent's limit. If the agent has none, gives it a free entry, or the entry of an agent
 * whose last line is over a minute old. Returns NULL if there is no such entry. */
static struct log_limit *find(struct log_limits *limits, const struct message_agent *agent,
                              int64_t now_ns)
{
    struct log_limit_agent *unused = NULL;
    for (uint32_t i = 0; i < LOG_LIMIT_AGENTS; i++) {
        struct log_limit_agent *one = &limits->agents[i];
        if (memcmp(&one->agent, agent, sizeof(*agent)) == 0) {
            return &one->limit;
        }
        if (unused == NULL && regained(&one->limit, &log_once_a_minute, now_ns) > 0) {
            unused = one;
        }
    }
    if (unused == NULL) {
        return NULL;
    }
    *unused = (struct log_limit_agent){.agent = *agent};
    return &unused->limit;
}

uint32_t log_limits_add(struct log_limits *limits, const struct message_agent *agent,
                        int64_t now_ns)
{
    struct log_limit *limit = find(limits, agent, now_ns);
    return limit != NULL ? log_limit_add(limit, &log_once_a_minute, now_ns) : 0;
}

uint32_t log_limits_add_voter(struct log_limits *limits, uint32_t voter, int64_t now_ns)
{
    HF_CHECK(voter < MESSAGE_VOTERS_MAX);
    return log_limit_add(&limits->voters[voter], &log_once_a_minute, now_ns);
}
