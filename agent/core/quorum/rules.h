/*
 * Rules that follow from the configuration alone: what a majority is, and how durations are
 * counted.
 *
 * A majority is more than half of all configured voters, whether they run or not. Any two
 * majorities have a voter in common (Lamport 2001, "Paxos made simple", 2.2; docs/PROTOCOL.md, rule
 * 2). Clock rates differ by max_drift at most. So a voter counts other agents' leases longer by
 * max_drift, and a holder counts its own lease shorter by max_drift (docs/PROTOCOL.md, rule 14).
 *
 * Invariants: the module has no state, so its answers change only with the configuration.
 */
#ifndef QUORUM_RULES_H
#define QUORUM_RULES_H

#include "step.h"

enum {
    RESEND_MS = 200, /* the time after which an unanswered message to voters is sent again */
    /* the interval at which RECALL is repeated while a grant blocks an operation */
    RECALL_MS = 500,
};

uint32_t rules_majority(const struct quorum *quorum);

/* Returns the duration counted long: when this time has passed on this voter's clock, the duration
 * has passed on every other agent's clock. */
int64_t rules_long_ns(const struct quorum *quorum, int64_t duration_ns);

/*
 * Returns how long a lock stays closed after its owner's session ended, by this voter's clock. The
 * time is at least rules_long_ns(). It is also so long that nine tenths of the lock-delay have
 * passed on the slowest possible clock even if this clock is the fastest possible. `holdfast lock`
 * kills its command within these nine tenths, and does not know max_drift. Up to a drift of 10 %
 * the second condition adds nothing; at 50 % the result is 2.7 times the lock-delay.
 */
int64_t rules_closed_ns(const struct quorum *quorum, int64_t lock_delay_ns);

/* Returns the number of voters in a mask. It does without the compiler's builtin, which on some
 * machines calls the compiler's library. */
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
