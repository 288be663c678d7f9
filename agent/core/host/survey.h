/*
 * Survey: counts and figures for people, which an operator's monitoring reads. It decides nothing.
 *
 * Most holds begin and end in shared memory, and the agent neither sees nor counts them: that is
 * what makes them cheap. What it knows of them is what it finds when it looks at the words anyway,
 * at each renewal (survey_ages()), or when somebody asks (host_survey()).
 */
#ifndef HOST_SURVEY_H
#define HOST_SURVEY_H

#include "hub.h"

/* Counts how old the hold and the first wait of that lock are, if there are any. */
void survey_ages(struct host *host, struct lock_ref at);

#endif
