/*
 * Included before some files of the simulated quorum core: what they ask other files can be
 * answered wrongly on purpose (breaks_change.c). The build says which file it is.
 */
#include "../../agent/core/quorum/members.h"
#include "../../agent/core/quorum/rules.h"
#include "../../agent/core/quorum/sync.h"

#if defined(SIM_CHANGE)
const struct message_voters *sim_change_voters(const struct quorum *quorum);
bool sim_change_is_majority(const struct quorum *quorum, uint8_t mask);
#define members_voters sim_change_voters
#define rules_is_majority sim_change_is_majority
#elif defined(SIM_COMPLETE)
int64_t sim_complete_long_ns(const struct quorum *quorum, int64_t duration_ns);
bool sim_complete_is_settled(const struct quorum *quorum, uint32_t partition);
bool sim_complete_is_majority(const struct quorum *quorum, uint8_t mask);
#define rules_long_ns sim_complete_long_ns
#define sync_is_settled sim_complete_is_settled
#define rules_is_majority sim_complete_is_majority
#elif defined(SIM_REJOIN)
uint32_t sim_rejoin_count(uint8_t mask);
#define rules_count sim_rejoin_count
#endif
