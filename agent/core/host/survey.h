/*
 * Survey: counts and figures for people and their monitoring.
 *
 * Invariants: a survey decides nothing, and changes nothing but histograms. A figure that is read
 * from a region is bounded: a time that cannot be true is taken for 0.
 *
 * Most holds begin and end in shared memory, where the agent neither sees nor counts them. That is
 * why they are cheap. So the agent knows of them only what it finds in the words at two moments: at
 * each renewal, when it looks at every word anyway (survey_ages()), and when somebody asks for the
 * figures (host_survey()).
 */
#ifndef HOST_SURVEY_H
#define HOST_SURVEY_H

#include "hub.h"

/* Adds the ages of the lock's hold and of its first wait to the histograms, if the lock has
 * them. */
void survey_ages(struct host *host, struct lock_ref at);

#endif
