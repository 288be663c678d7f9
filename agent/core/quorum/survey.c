/* Counts and figures for people: what an operator's monitoring reads. Decides nothing. */
#include "state.h"

const struct quorum_counts *quorum_counts(const struct quorum *quorum)
{
    return step_counts((struct quorum *)(uintptr_t)quorum);
}

void quorum_survey(const struct quorum *quorum, struct quorum_survey *out)
{
    *out = (struct quorum_survey){.partitions = ballots_count(quorum),
                                  .incomplete = ballots_incomplete(quorum),
                                  .registers = registers_count(quorum),
                                  .registers_max = quorum->config->limits.registers,
                                  .agents = agents_count(quorum),
                                  .requests = queues_request_count(quorum),
                                  .votes = members_votes(quorum),
                                  .majority = voters_majority(quorum),
                                  .patience_ns = voters_timeout_ns(quorum)};
}
