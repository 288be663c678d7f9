/*
 * Survey: counts and figures for people and their monitoring. It decides nothing.
 *
 * Most holds begin and end in shared memory. The agent neither sees nor counts them, which is what
 * makes them cheap. It knows of them what it finds in the words: at each renewal, when it looks at
 * every word anyway (survey_ages()), and when the figures are asked for (host_survey()).
 */
#ifndef HOST_SURVEY_H
#define HOST_SURVEY_H

#include "hub.h"

/* Counts how old the hold and the first wait of that lock are, if there are any. */
void survey_ages(struct host *host, struct lock_ref at);

#endif
