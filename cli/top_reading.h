/*
 * One reading of `holdfast top`: what the agent reports of itself, of the cell and of the locks.
 *
 * A reading copies all that the library passes to the callbacks, because the library's memory is
 * valid only within a call. So a reading made in one thread can be shown in another one.
 *
 * A reading is bounded: it asks for at most TOP_LOCKS_MAX locks. The agent answers with 32 locks at
 * a time, so a reading is at most 514 requests, between which the agent serves its other clients.
 *
 * Holds a second. The agent does not count takes (docs/METRICS.md, "Acquires are not counted"). But
 * each exclusive hold of a lock has a token of its own, and tokens are given out without gaps while
 * grants end cleanly (docs/TIMEOUTS.md, "How long tokens last"). Two readings may see two exclusive
 * holders of a lock. The difference of their tokens is the number of exclusive holds that began in
 * between. If a grant ends uncleanly, the rest of its range of tokens is skipped; such a difference
 * does not count as holds (see rate_milli() in top_reading.c).
 */
#ifndef HOLDFAST_CLI_TOP_READING_H
#define HOLDFAST_CLI_TOP_READING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <holdfast/admin.h>

#include "judged.h"

enum { TOP_LOCKS_MAX = 16384, TOP_HOSTS_MAX = 1024 };

/* An exclusive holder that a reading has found. */
struct top_sighting {
    int64_t at_ns; /* when the lock had this holder; 0: there was no exclusive holder */
    uint64_t token;
    const char *agent; /* NULL: unknown */
};

struct top_lock {
    struct hf_lock_info info;     /* the memory that it points to belongs to the reading */
    struct top_sighting sighting; /* the last sighting, from this reading or an earlier one */
    /* exclusive holds in 1000 s, computed from the last two sightings; -1: unknown */
    int64_t holds_milli;
    int64_t oldest_hold_ns;  /* -1: none, or unknown */
    int64_t longest_wait_ns; /* the longest wait of the listed waiters; -1: none, or unknown */
    bool in_use;             /* held, awaited, closed, or maybe held by a host that is not seen */
};

enum top_role { TOP_VOTER, TOP_OBSERVER, TOP_UNKNOWN };

struct top_host {
    const char *name;
    const char *address; /* NULL: unknown */
    enum top_role role;
    /* The state of an observer: down if it has been silent for too long, or if its session is over.
     * The state of a host of unknown role: not known. */
    enum hf_voter_state state;
    int64_t partitions;    /* how many partitions this voter coordinates; -1: unknown */
    int64_t round_trip_ns; /* the round trip of the last acknowledged renewal; -1: unknown */
    size_t holds;          /* this host's holders and waiters in this reading */
    size_t waits;
};

/* A process that waits because a process within its CMD waits (top_nested.h). */
struct top_nested {
    size_t lock;                  /* the index of the lock for which `inner` waits */
    const struct hf_party *inner; /* the waiter */
    const struct hf_party *outer; /* only the agent and the pid of `outer` are known */
};

struct top_reading {
    struct top_chunk *chunks; /* memory of all texts and parties */
    int64_t at_ns;            /* CLOCK_BOOTTIME, when the reading began */
    int64_t took_ns;
    struct hf_status status; /* has an empty list of voters: the voters are in `hosts` */
    struct judged judged;
    int64_t observers; /* how many observers the agent knows; -1: it is older, and does not say */
    struct top_host *hosts; /* in the order of their names */
    size_t host_count;
    struct top_lock *locks; /* in the order of their names, as the agent lists them */
    size_t lock_count;
    size_t lock_capacity;
    struct top_nested *nested;
    size_t nested_count;
    size_t nested_capacity;
    bool cut; /* there are more locks than TOP_LOCKS_MAX */
    size_t in_use, held, awaited, closed;
    int64_t holds_milli; /* the sum of the known rates of all locks; -1: none is known */
};

/* Begins an empty reading. Returns NULL if there is no memory. */
struct top_reading *top_reading_create(int64_t now_ns) __attribute__((warn_unused_result));

/* reading may be NULL. */
void top_reading_destroy(struct top_reading *reading);

/* The callbacks of hf_status(), hf_facts() and hf_list() call these functions. The status comes
 * first, then the facts, then the locks. A result other than 0 is an HF_E..., or TOP_FULL if the
 * reading has TOP_LOCKS_MAX locks. now_ns of top_reading_lock() is the present time. `info` shows
 * the lock as it was info->age_ns before that time. */
enum { TOP_FULL = 1 };
int top_reading_status(struct top_reading *reading, const struct hf_status *status)
    __attribute__((warn_unused_result));
int top_reading_fact(struct top_reading *reading, const struct hf_fact *fact)
    __attribute__((warn_unused_result));
int top_reading_lock(struct top_reading *reading, const struct hf_lock_info *info, int64_t now_ns)
    __attribute__((warn_unused_result));

/* Adds a wait of the process outer_pid of this host, which waits as long as `waiter` waits for the
 * lock. To be called after the last top_reading_lock(). */
int top_reading_nested(struct top_reading *reading, size_t lock, const struct hf_party *waiter,
                       int64_t outer_pid) __attribute__((warn_unused_result));

/* Computes the totals, and the rates by the tokens in the previous reading `before` (NULL:
 * none). */
void top_reading_finish(struct top_reading *reading, const struct top_reading *before);

/* Asks the agent for a whole reading. `before` is only read. Returns 0 and *out, or an HF_E... */
int top_reading_take(hf_client *client, const char *prefix, const struct top_reading *before,
                     struct top_reading **out) __attribute__((warn_unused_result));

/* Returns the time of CLOCK_BOOTTIME. */
int64_t top_now_ns(void);

#endif
