/* Counts and figures for people: what an operator's monitoring reads. Decides nothing. */
#include "state.h"

const struct quorum_counts *quorum_counts(const struct quorum *quorum)
{
    return &quorum->counts;
}

void quorum_survey(const struct quorum *quorum, struct quorum_survey *out)
{
    *out = (struct quorum_survey){.incomplete = quorum->incomplete,
                                  .registers = registers_count(quorum),
                                  .registers_max = quorum->config->limits.registers,
                                  .agents = agents_count(quorum),
                                  .votes = members_votes(quorum),
                                  .majority = voters_majority(quorum),
                                  .patience_ns = voters_timeout_ns(quorum)};
    for (uint32_t p = 0; p < MESSAGE_PARTITIONS; p++) {
        out->partitions += quorum->partitions[p].state == PARTITION_PREPARED;
    }
    for (uint32_t i = 0; i < agents_count(quorum); i++) {
        out->requests += quorum->quotas[i].acquires + quorum->quotas[i].others;
    }
}
