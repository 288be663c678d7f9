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

void members_pulled(struct quorum *quorum, uint32_t voter, enum message_pull_what what,
                    uint32_t partition)
{
    (void)quorum;
    (void)voter;
    (void)what;
    (void)partition;
}

void members_answer(struct quorum *quorum, uint32_t agent, const struct message_hello *asked)
{
    (void)quorum;
    (void)agent;
    (void)asked;
}
