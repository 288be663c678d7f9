/*
 * How long a namespace waits when its region is given up again and again.
 *
 * A process can keep the pages of a region that it spoils: it sends them with sendfile(2) to a
 * socket that nobody reads, or splices them into a pipe. The agent made these pages, so the kernel
 * counts them as the agent's memory until the process ends. No call of the kernel shows them to the
 * agent. So each region that is begun anew may cost the memory of one more region. The wait makes
 * new regions rarer for a namespace whose regions are spoilt often.
 *
 * The first RESPITE_FREE times there is no wait. After that the first wait is a minute, and each
 * further wait is twice as long, but at most an hour. After a day without a spoilt region the count
 * begins again.
 */
#ifndef SERVE_RESPITE_H
#define SERVE_RESPITE_H

#include <stdint.h>

enum { RESPITE_FREE = 8 };

struct respite {
    unsigned given_up; /* how often a region was given up since the count last began again */
    int64_t last_ns;
};

/* Counts that a region of the namespace is given up now. Returns how long the namespace has to wait
 * before it is begun anew, in ns. */
int64_t respite_count(struct respite *respite, int64_t now_ns);

#endif
