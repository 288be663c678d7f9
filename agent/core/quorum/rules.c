/* Rules that follow from the configuration alone: see rules.h. */
#include "rules.h"

#include <string.h>

uint32_t rules_majority(const struct quorum *quorum)
{
    return quorum->config->voter_count / 2 + 1;
}

int64_t rules_long_ns(const struct quorum *quorum, int64_t duration_ns)
{
    return duration_ns + duration_ns / 100 * quorum->config->max_drift_percent;
}

static int64_t closed_ns(int64_t lock_delay_ns, int64_t drift)
{
    int64_t killed = (90 * (100 + drift) + (99 - drift)) / (100 - drift); /* rounded up */
    return lock_delay_ns / 100 * (killed > 100 + drift ? killed : 100 + drift);
}

int64_t rules_closed_ns(const struct quorum *quorum, int64_t lock_delay_ns)
{
    return closed_ns(lock_delay_ns, quorum->config->max_drift_percent);
}

int64_t quorum_recovery_wait_ns(const struct message_rules *rules)
{
    int64_t session_ns = rules->session_ttl_ns + rules->grace_ns;
    return session_ns / 100 * (100 + rules->max_drift_percent) +
           closed_ns(MESSAGE_LOCK_DELAY_MAX_MS * MS_NS, rules->max_drift_percent);
}

void quorum_rules(const struct quorum_config *config, struct message_rules *rules)
{
    memset(rules, 0, sizeof(*rules));
    rules->session_ttl_ns = config->session_ttl_ns;
    rules->grace_ns = config->grace_ns;
    rules->max_drift_percent = config->max_drift_percent;
    for (uint32_t i = 0; i < config->voter_count; i++) {
        uint32_t at = rules->voter_count++;
        for (; at > 0 && message_agent_before(&config->voters[i], &rules->voters[at - 1]); at--) {
            rules->voters[at] = rules->voters[at - 1];
        }
        rules->voters[at] = config->voters[i];
    }
}
