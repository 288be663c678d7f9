/* The state of limits.c: when holds with a limit are looked at. limits.c and its test read it. */
#ifndef HOST_LIMITS_PRIVATE_H
#define HOST_LIMITS_PRIVATE_H

#include "limits.h"

enum { LIMITS_LOOK_MAX = 1 << 14 }; /* the most handles that a step looks at */

struct limits {
    uint64_t *groups;      /* bits: handles with a limit, LIMITED_GROUP in each */
    int64_t *group_due_ns; /* when to look at each group that has such handles */
    int64_t due_ns;        /* the earliest time in group_due_ns */
    uint32_t count;
    uint32_t hand; /* the group with which the next step begins */
};

#endif
