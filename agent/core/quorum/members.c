/* Which voter may vote. */
#include "state.h"

bool members_votes(const struct quorum *quorum)
{
    return quorum->started;
}

bool members_rules_match(const struct quorum *quorum, uint64_t rules)
{
    (void)quorum;
    (void)rules;
    return true;
}
