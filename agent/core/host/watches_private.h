/* The table of watches: for watches.c and its test. */
#ifndef HOST_WATCHES_PRIVATE_H
#define HOST_WATCHES_PRIVATE_H

#include "watches.h"

struct watch {
    bool used;
    uint32_t client;
    uint32_t size;
    char prefix[HFI_NAME_MAX + 1];
};

/* What has changed in one namespace. */
struct watch_space {
    uint64_t *changed;   /* bits: slots whose watchers are to be told */
    uint32_t hand;       /* the slot where telling goes on */
    uint32_t next_watch; /* the watch to be told next, of the slot that is being told */
    bool telling;        /* changed bits are set */
};

struct watches {
    struct watch *table;
    uint32_t count;
    uint32_t told; /* changes, since the last tick */
    uint32_t hand; /* the namespace that is the next step's first */
    struct watch_space spaces[HOST_NAMESPACES_MAX];
    uint32_t remote_watch; /* the watch to be told next of remote_changed */
    uint32_t remote_left;  /* so many have to be looked at for it */
    struct message_name remote_changed;
};

#endif
