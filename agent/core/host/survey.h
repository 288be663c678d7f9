/*
 * Survey: counts and figures for people and their monitoring.
 *
 * Invariants: no decision depends on a survey, and it changes nothing but histograms. A time that
 * is read from a region and cannot be true counts as 0.
 *
 * Most holds begin and end in shared memory, and the agent neither sees nor counts them. The agent
 * looks at the holds only at two times: at each renewal, when it looks at every word anyway
 * (survey_ages()), and when somebody asks for the figures (host_survey()).
 */
#ifndef HOST_SURVEY_H
#define HOST_SURVEY_H

#include "hub.h"

/* Adds the ages of the lock's exclusive hold and of its first wait, if there are any, to the
 * histograms. */
void survey_ages(struct host *host, struct lock_ref at);

#endif
