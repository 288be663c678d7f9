/* The namespaces: for spaces.c, and for the simulator, which spoils a region under the agent. */
#ifndef HOST_SPACES_PRIVATE_H
#define HOST_SPACES_PRIVATE_H

#include "spaces.h"

struct space {
    bool used;
    bool adopted;
    bool given_up;
    bool leaving;
    uint32_t leave_slot;
    uint32_t birth;
    struct host_region_note *note;    /* the driver's note; if there is none, own_note */
    struct host_region_note own_note; /* used without a driver's note; does not outlive the agent */
    struct hfi_region region;
    struct hfi_actor actor;
    uint64_t incarnation;
    uint64_t lease;
};

struct spaces {
    struct space table[HOST_NAMESPACES_MAX];
    host_sound_fn *sound; /* NULL: every region is sound */
    void *sound_arg;
};

#endif
