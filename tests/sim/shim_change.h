/*
 * Included before change.c of the simulated quorum core. It replaces a function that change.c
 * calls, so that breaks_change.c can return wrong results on purpose.
 */
#include "../../agent/core/quorum/members.h"

const struct message_voters *sim_change_voters(const struct quorum *quorum);
#define members_voters sim_change_voters
