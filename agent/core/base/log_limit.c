/* How often the log says the same: see core/base/log_limit.h. */
#include "core/base/log_limit.h"

#include <stdbool.h>
#include <string.h>

#include "proto/check.h"

static const int64_t minute_ns = INT64_C(60000000000);

static bool is_due(const struct log_limit *limit, int64_t now_ns)
{
    return limit->said_ns == 0 || now_ns - limit->said_ns >= minute_ns;
}

uint32_t log_limit_add(struct log_limit *limit, int64_t now_ns)
{
    uint32_t count = limit->count < UINT32_MAX ? ++limit->count : limit->count;
    if (!is_due(limit, now_ns)) {
        return 0;
    }
    limit->said_ns = now_ns;
    limit->count = 0;
    return count;
}

/* The agent's limit; else that of an agent whose minute is over; NULL: there is none. */
static struct log_limit *find(struct log_limits *limits, const struct message_agent *agent,
                              int64_t now_ns)
{
    struct log_limit_agent *unused = NULL;
    for (uint32_t i = 0; i < LOG_LIMIT_AGENTS; i++) {
        struct log_limit_agent *one = &limits->agents[i];
        if (memcmp(&one->agent, agent, sizeof(*agent)) == 0) {
            return &one->limit;
        }
        if (unused == NULL && is_due(&one->limit, now_ns)) {
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
    return limit != NULL ? log_limit_add(limit, now_ns) : 0;
}

uint32_t log_limits_add_voter(struct log_limits *limits, uint32_t voter, int64_t now_ns)
{
    HF_CHECK(voter < MESSAGE_VOTERS_MAX);
    return log_limit_add(&limits->voters[voter], now_ns);
}
