/* Of whom the log was told lately: see core/complaints.h. */
#include "core/complaints.h"

#include <stdbool.h>
#include <string.h>

#include "proto/check.h"

static const int64_t minute_ns = INT64_C(60000000000);

static bool is_over(const struct complained *complaint, int64_t now_ns)
{
    return complaint->agent.length == 0 || now_ns - complaint->told_ns >= minute_ns;
}

static void begin(struct complained *one, const struct message_agent *agent, int64_t now_ns)
{
    *one = (struct complained){.agent = *agent, .told_ns = now_ns - minute_ns};
}

/* The agent's place; else one whose minute is over; NULL: there is none. */
static struct complained *find(struct complaints *complaints, const struct message_agent *agent,
                               int64_t now_ns)
{
    struct complained *free_one = NULL;
    for (uint32_t i = 0; i < COMPLAINTS_AGENTS; i++) {
        struct complained *one = &complaints->of[i];
        if (memcmp(&one->agent, agent, sizeof(*agent)) == 0) {
            return one;
        }
        if (free_one == NULL && is_over(one, now_ns)) {
            free_one = one;
        }
    }
    if (free_one != NULL) {
        begin(free_one, agent, now_ns);
    }
    return free_one;
}

/* One more; how many are to be told, or 0. */
static uint32_t add(struct complained *one, int64_t now_ns)
{
    uint32_t count = one->count < UINT32_MAX ? ++one->count : one->count;
    if (!is_over(one, now_ns)) {
        return 0;
    }
    one->told_ns = now_ns;
    one->count = 0;
    return count;
}

uint32_t complaints_add(struct complaints *complaints, const struct message_agent *agent,
                        int64_t now_ns)
{
    struct complained *one = find(complaints, agent, now_ns);
    return one != NULL ? add(one, now_ns) : 0;
}

uint32_t complaints_add_voter(struct complaints *complaints, uint32_t voter,
                              const struct message_agent *agent, int64_t now_ns)
{
    HF_CHECK(voter < MESSAGE_VOTERS_MAX);
    struct complained *one = &complaints->voters[voter];
    if (one->agent.length == 0) {
        begin(one, agent, now_ns);
    }
    return add(one, now_ns);
}
