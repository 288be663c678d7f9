/*
 * Rules that follow from the configuration alone: what a majority is, and how durations are
 * counted.
 *
 * A majority is more than half of all configured voters, whether they are there or not. Any two
 * majorities have a voter in common (Lamport 1998, "The part-time parliament"). Clock rates differ
 * by max_drift at most. So a voter counts other agents' leases longer by max_drift, and a holder
 * counts its own lease shorter by it (docs/PROTOCOL.md, rule 14).
 *
 * The module has no state.
 */
#ifndef QUORUM_RULES_H
#define QUORUM_RULES_H

#include "step.h"

enum {
    RESEND_MS = 200, /* a message to voters that is unanswered for so long is sent again */
    RECALL_MS = 500, /* RECALL is repeated so often while an owner is in an operation's way */
};

uint32_t rules_majority(const struct quorum *quorum);

/* The longest time, by this voter's clock, that the duration may take by another's clock. */
int64_t rules_long_ns(const struct quorum *quorum, int64_t duration_ns);

/*
 * How long a lock stays closed after its owner's session ended, by this voter's clock. At least as
 * long as rules_long_ns(), and long enough that nine tenths of the lock-delay have passed on the
 * slowest possible clock even if this clock is the fastest possible. Within those nine tenths
 * `holdfast lock` kills its command, and it does not know max_drift. Up to a drift of 10 % the
 * second rule adds nothing; at 50 % the result is 2.7 times the lock-delay.
 */
int64_t rules_closed_ns(const struct quorum *quorum, int64_t lock_delay_ns);

/* Returns the number of voters in a mask. (On some machines the builtin is a call into the
 * compiler's library.) */
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
