/* The bells of each namespace: for bells.c and its test. */
#ifndef HOST_BELLS_PRIVATE_H
#define HOST_BELLS_PRIVATE_H

#include "bells.h"

struct bell_space {
    bool dirty;        /* the bell rang */
    uint32_t hand;     /* where the next look at the dirty bits begins */
    uint32_t attended; /* pieces of that since the last tick */
    int64_t pause_ns;  /* none is looked at before: they took all that a tick has */
    uint64_t causes;   /* dirty bits that were found, ever */
};

struct bells {
    const struct hfi_kernel *outer; /* the driver's */
    struct hfi_kernel kernel;       /* on top of it: our own bell only sets `rang` */
    bool rang;
    bool ringing; /* a lock is looked at because its bell rang */
    struct bell_space spaces[HOST_NAMESPACES_MAX];
};

#endif
