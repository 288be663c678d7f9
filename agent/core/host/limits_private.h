/* The state of limits.c: when holds with a limit are looked at. limits.c and its test read it. */
#ifndef HOST_LIMITS_PRIVATE_H
#define HOST_LIMITS_PRIVATE_H

#include "limits.h"

/* the most handles that limits_end_due() looks at in one step */
enum { LIMITS_LOOK_MAX = 1 << 14 };

struct limits {
    uint64_t *groups; /* by group: a bit for each handle with a limit */
    /* by group: when to look at it; INT64_MAX: it has no handle with a limit */
    int64_t *group_due_ns;
    int64_t due_ns; /* the earliest time in group_due_ns */
    uint32_t count;
    uint32_t hand; /* the group with which the next step begins */
};

#endif
