/* The state of ringing.c: the rings of each namespace. ringing.c and its test read it. */
#ifndef HOST_RINGING_PRIVATE_H
#define HOST_RINGING_PRIVATE_H

#include "ringing.h"

struct ringing_space {
    bool dirty;        /* a ring arrived since all dirty bits were last looked at */
    uint32_t hand;     /* the slot with which the next look at the dirty bits begins */
    uint32_t attended; /* the looks since the last tick, in pieces of work */
    /* there is no look before this time, because the last tick had its full number of looks */
    int64_t pause_ns;
    uint64_t causes; /* the number of dirty bits that were ever found */
};

struct ringing {
    const struct hfi_kernel *outer; /* the driver's kernel */
    struct hfi_kernel kernel;       /* as *outer, but ring() only sets `rang` */
    bool rang;
    bool is_cause; /* a lock is being looked at because of its dirty bit */
    struct ringing_space spaces[HOST_NAMESPACES_MAX];
};

#endif
