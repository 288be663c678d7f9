/*
 * How long a namespace waits when its region is given up again and again.
 *
 * A process can keep the pages of a region that it spoils: it sends them with sendfile(2) to a
 * socket that nobody reads, or splices them into a pipe. The kernel counts such pages as the
 * agent's memory, because the agent made them, until the process ends. No call of the kernel tells
 * the agent of them. So each region begun anew may cost the memory of one more, and a namespace
 * whose regions are spoilt often gets them less and less often.
 *
 * RESPITE_FREE times there is no wait. Then the first wait is a minute, each further one twice as
 * long, at most an hour. A day without a spoilt region forgets them all.
 */
#ifndef SERVE_RESPITE_H
#define SERVE_RESPITE_H

#include <stdint.h>

enum { RESPITE_FREE = 8 };

struct respite {
    unsigned given_up; /* how often, since it was forgotten */
    int64_t last_ns;
};

/* Counts a region of the namespace that is given up now. Returns the shortest time until it is
 * begun anew, in ns. */
int64_t respite_count(struct respite *respite, int64_t now_ns);

#endif
