/* What follows from the configuration alone: see rules.h. */
#include "rules.h"

#include "state.h"

uint32_t rules_majority(const struct quorum *quorum)
{
    return quorum->config->voter_count / 2 + 1;
}

int64_t rules_long_ns(const struct quorum *quorum, int64_t duration_ns)
{
    return duration_ns + duration_ns / 100 * quorum->config->max_drift_percent;
}

int64_t rules_closed_ns(const struct quorum *quorum, int64_t lock_delay_ns)
{
    int64_t drift = quorum->config->max_drift_percent;
    int64_t killed = (90 * (100 + drift) + (99 - drift)) / (100 - drift); /* rounded up */
    return lock_delay_ns / 100 * (killed > 100 + drift ? killed : 100 + drift);
}
