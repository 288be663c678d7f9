/*
 * Included before change.c of the simulated quorum core: what it asks other files can be answered
 * wrongly on purpose (breaks_change.c).
 */
#include "../../agent/core/quorum/members.h"

const struct message_voters *sim_change_voters(const struct quorum *quorum);
#define members_voters sim_change_voters
