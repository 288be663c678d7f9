/*
 * A census counts the locks of the cell, by host, for the status page. It keeps the few locks that
 * a person should look at first.
 *
 * Its memory is bounded: it keeps CENSUS_LOCKS locks, each with CENSUS_PARTS hosts, and counts for
 * CENSUS_HOSTS hosts. The locks with the longest waits come first, then locks that are closed, then
 * those with the longest holds.
 *
 * Pure: the caller goes through the locks (host_overview_next()), perhaps in several pieces.
 */
#ifndef AGENT_OBSERVE_CENSUS_H
#define AGENT_OBSERVE_CENSUS_H

#include <stdbool.h>
#include <stdint.h>

#include "core/host.h"

enum {
    CENSUS_LOCKS = 20,
    CENSUS_PARTS = 6,
    CENSUS_HOSTS = 8192, /* a power of two; entries of a hash table, at most half of them used */
};

struct census_lock {
    struct message_name name;
    int64_t closed_ns;
    uint32_t holders;
    uint32_t waiters;
    bool shared;
    bool more; /* there are more holders or waiters than are counted */
    int64_t hold_ns;
    int64_t wait_ns;
    uint32_t part_count; /* hosts with a part in the lock, of which CENSUS_PARTS are kept */
    struct host_part parts[CENSUS_PARTS];
};

struct census_host {
    struct message_agent name; /* length 0: the entry is free */
    uint64_t held;             /* locks that processes of the host hold */
    uint64_t waiters;          /* processes of the host that wait */
};

struct census {
    uint64_t names; /* names that were looked at */
    uint64_t held;  /* locks that a process holds */
    uint64_t awaited;
    uint64_t closed;
    uint64_t waiters; /* processes that wait */
    uint64_t used;    /* locks that are held, awaited or closed */
    bool more;        /* there are more holders or waiters than are counted */
    uint32_t kept;
    struct census_lock locks[CENSUS_LOCKS]; /* the most important first */
    uint32_t host_count;
    struct census_host hosts[CENSUS_HOSTS];
};

/* Empties a census. A new census must be zeroed memory. */
void census_begin(struct census *census);
/* Counts one lock. */
void census_add(struct census *census, const struct host_overview *lock);
/* Returns the counts of a host; NULL: it has no part in any lock. */
const struct census_host *census_host(const struct census *census,
                                      const struct message_agent *name);

#endif
