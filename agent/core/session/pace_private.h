/* The struct of pace.c. It is in a header because struct renewal embeds it, and because tests begin
 * with rates that they choose. */
#ifndef SESSION_PACE_PRIVATE_H
#define SESSION_PACE_PRIVATE_H

#include "core/session/pace.h"

struct pace {
    uint64_t incarnation; /* identifies the other agent's process */
    struct recent round_trip;
    struct pace_rate rate;
    uint32_t base_count;
    struct pace_reading bases[2]; /* an older reading and a newer one */
};

#endif
