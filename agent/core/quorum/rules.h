/*
 * Rules that follow from the configuration alone: what a majority is, and how durations are
 * counted.
 *
 * A majority is more than half of all voters, be they there or not: any two have a voter in common
 * (Lamport 1998, "The part-time parliament"). Clocks differ by max_drift at most. A voter counts
 * the leases of others long by it, a holder counts its own short (docs/PROTOCOL.md, rule 14).
 *
 * No state of its own.
 */
#ifndef QUORUM_RULES_H
#define QUORUM_RULES_H

#include "step.h"

enum {
    RESEND_MS = 200, /* a message to voters that is not answered is sent again */
    RECALL_MS = 500, /* what is in an operation's way is asked to go again */
};

uint32_t rules_majority(const struct quorum *quorum);

/* A duration as the others' clocks may count it at most. */
int64_t rules_long_ns(const struct quorum *quorum, int64_t duration_ns);

/*
 * For how long a lock is closed behind a session that ended. Long, as above, and so long that nine
 * tenths of the lock-delay are over by the slowest clock there may be when this one is the fastest:
 * within them `holdfast lock` has killed its command, and it does not know max_drift. Up to a drift
 * of 10 % that is no longer, at 50 % it is 2.7 times the lock-delay.
 */
int64_t rules_closed_ns(const struct quorum *quorum, int64_t lock_delay_ns);

/* How many voters a mask has. (The builtin calls the compiler's library on some machines.) */
static inline uint32_t rules_count(uint8_t mask)
{
    uint32_t count = 0;
    for (uint32_t voter = 0; voter < MESSAGE_VOTERS_MAX; voter++) {
        count += mask >> voter & 1;
    }
    return count;
}

static inline bool rules_is_majority(const struct quorum *quorum, uint8_t mask)
{
    return rules_count(mask) >= rules_majority(quorum);
}

#endif
