/*
 * A bound on what the RING frames of one user cost the agent.
 *
 * A RING frame (a ring) asks the agent to look at the dirty bits of some regions. It has no answer
 * of its own. Each ring adds to a debt of its user, which falls as time passes. If the debt is too
 * large, the user's rings wait until it has fallen. During this pause the agent notes the regions
 * that the user's clients ring for, and afterwards looks at all of them at once.
 *
 * The agent also stops reading each connection that rings during a pause, because receiving rings
 * costs time, too. If very many connections ring, the agent reads them again one by one,
 * RINGS_SLOT_US apart. While a connection is not read, the agent looks at all regions that the user
 * ever rang for, at the same intervals. So a ring waits for RINGS_DEBT_MS at most, whichever
 * connection it came on. Requests on the user's other connections do not wait.
 *
 * A ring has a cause if a lock in the regions has set its dirty bit since this user's previous
 * ring. Rings with a cause may cost RINGS_CAUSE_PERCENT of a processor, and rings without one
 * RINGS_NOTHING_PERCENT. The rings of a user may cost more only in bursts of some milliseconds. An
 * honest client also sends rings without a cause, when the look for its previous ring has already
 * found the change. So for each ring with a cause, one ring without a cause is charged like a ring
 * with a cause. A user whose rings cost less than half of a processor waits only if it sends too
 * many rings without a cause.
 */
#ifndef IO_RINGS_H
#define IO_RINGS_H

#include <stdbool.h>
#include <stdint.h>

enum {
    RINGS_CAUSE_PERCENT = 50,
    RINGS_NOTHING_PERCENT = 2,
    RINGS_BURST_MS = 20, /* up to this debt, rings are answered at once */
    RINGS_DEBT_MS = 60,  /* the largest debt; a pause ends when the debt has fallen to half of
                          * RINGS_BURST_MS */
    RINGS_CREDIT = 256,  /* the most rings without a cause that may still be charged like rings with
                          * a cause */
    RINGS_TURN_US = 20,  /* the cost of a turn of the loop that was begun only for a ring */
    RINGS_READ_US = 3,   /* the cost of receiving a ring in a turn that had begun anyway */
    RINGS_SLOT_US = 1000,
    RINGS_TOGETHER_MS = 10,
};

struct rings {
    int64_t debt_ns; /* the debt at as_of_ns */
    int64_t as_of_ns;
    int64_t resume_ns; /* when the user's rings are answered again; 0: they are answered at once */
    int64_t slot_ns;   /* when the last of the connections that rang is read again */
    uint64_t waiting;  /* a set of regions, by bits, that wait to be looked at */
    uint64_t rung;     /* a set: all regions that the user ever rang for */
    uint64_t causes;   /* how often locks of the regions in `rung` had asked for a look, at the last
                        * answer */
    uint32_t credit;
    uint32_t turn; /* the turn in which a ring was last charged */
    /* The user's rings since the last log line about the user. */
    uint64_t count;
    uint64_t nothings; /* how many of these rings had no cause */
    uint64_t pauses;
    int64_t logged_ns;
};

void rings_init(struct rings *rings);

/* Notes that the user rang for these regions. Returns true if the answer has to wait until
 * resume_ns. If it returns false, the caller answers the ring now. */
bool rings_wait(struct rings *rings, uint64_t regions, int64_t now_ns);

/* Returns until when the agent does not read a connection that rang during a pause, or whose ring
 * began the pause. */
int64_t rings_hold(struct rings *rings, int64_t now_ns);

/* Ends the user's pause. Returns the set of regions to look at now. */
uint64_t rings_resume(struct rings *rings, int64_t now_ns);

/* Charges the user for an answer that took took_ns, in that turn of the loop. `causes` is how often
 * locks of the regions in `rung` have asked for a look. Returns when the user's rings are answered
 * again (resume_ns); 0: at once. */
int64_t rings_answered(struct rings *rings, int64_t now_ns, int64_t took_ns, uint64_t causes,
                       uint32_t turn);

/* Returns whether rings of the user wait, or a pause of the user is not over, so that the user's
 * account must be kept. */
bool rings_owe(const struct rings *rings, int64_t now_ns);

/* rings_log_is_due() returns whether it is time to log that the user's rings were delayed.
 * rings_logged() starts the counts anew once that is logged. */
bool rings_log_is_due(const struct rings *rings, int64_t now_ns);
void rings_logged(struct rings *rings, int64_t now_ns);

#endif
