/* The state of watches.c. watches.c and its test read it. */
#ifndef HOST_WATCHES_PRIVATE_H
#define HOST_WATCHES_PRIVATE_H

#include "watches.h"

struct watch {
    bool used;
    uint32_t client;
    uint32_t size;
    char prefix[HFI_NAME_MAX + 1];
};

/* The changes in one namespace. */
struct watch_space {
    uint64_t *changed;   /* bits: the slots whose watchers have to be notified */
    uint32_t hand;       /* the slot whose watchers are notified next */
    uint32_t next_watch; /* the watch at which the notifications of that slot continue */
    bool notifying;      /* some bits of `changed` are set, or notifications are under way */
};

struct watches {
    struct watch *table;
    uint32_t count;
    uint32_t notified; /* pieces of notification work since the last tick */
    uint32_t hand;     /* the namespace with which the next step begins */
    struct watch_space spaces[HOST_NAMESPACES_MAX];
    uint32_t remote_watch; /* the watch that is compared next with remote_changed */
    /* the number of watches that are still to be compared with remote_changed */
    uint32_t remote_left;
    struct message_name remote_changed;
};

#endif
