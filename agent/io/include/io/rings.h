/*
 * A bound on what the RING frames of one user cost the agent.
 *
 * A ring asks for a look at the dirty bits of some regions, and has no answer. Each is a debt of
 * its user that time pays off. A user whose debt is too large is not answered until it has paid a
 * part of it: what its clients ring meanwhile is noted, by region, and answered at once then. Each
 * connection that rings meanwhile is not read until then either, since to receive rings costs
 * something, too; if very many ring, they are read again one by one, RINGS_SLOT_US apart. As long
 * as one is not read, all regions that the user ever rang are looked at in the same intervals. So a
 * ring waits for RINGS_DEBT_MS at most, on whichever connection, and what the user's other
 * connections ask for does not wait.
 *
 * A ring has a cause if a lock of the regions had asked to be looked at since this user's ring
 * before (a bit in the region). Rings with one may cost RINGS_CAUSE_PERCENT of a processor, those
 * without RINGS_NOTHING_PERCENT; more than that only in bursts of some milliseconds. An honest
 * client has rings without a cause, too: what rang was seen with the ring before. So as many as
 * there were rings with one count as such. Below half of a processor nobody's ring is ever late.
 */
#ifndef IO_RINGS_H
#define IO_RINGS_H

#include <stdbool.h>
#include <stdint.h>

enum {
    RINGS_CAUSE_PERCENT = 50,
    RINGS_NOTHING_PERCENT = 2,
    RINGS_BURST_MS = 20, /* a debt that has no consequence */
    RINGS_DEBT_MS = 60,  /* none is larger: nobody waits longer than this less half the burst */
    RINGS_CREDIT = 256,  /* rings without a cause that count as ones with */
    RINGS_TURN_US = 20,  /* what a turn of the loop costs that nothing but a ring began */
    RINGS_READ_US = 3,   /* and to receive one in a turn that began already */
    RINGS_SLOT_US = 1000,
    RINGS_TOGETHER_MS = 10,
};

struct rings {
    int64_t debt_ns; /* at as_of_ns */
    int64_t as_of_ns;
    int64_t resume_ns; /* it is answered again then; 0: it is answered at once */
    int64_t slot_ns;   /* when the last of the connections that ring is read again */
    uint64_t waiting;  /* bits: the regions that it rang meanwhile */
    uint64_t rung;     /* bits: all that it ever rang */
    uint64_t causes;   /* of those, as seen with the last answer */
    uint32_t credit;
    uint32_t turn; /* in which a ring was charged last */
    /* Since the last line about it. */
    uint64_t count;
    uint64_t nothings; /* of them, without a cause */
    uint64_t pauses;
    int64_t told_ns;
};

void rings_init(struct rings *rings);

/* Notes that the user rang these regions. Returns whether that waits until resume_ns; else the
 * caller is to answer it now. */
bool rings_wait(struct rings *rings, uint64_t regions, int64_t now_ns);

/* Returns until when a connection is not read that rang, and made or met a pause. */
int64_t rings_hold(struct rings *rings, int64_t now_ns);

/* Returns the regions, as bits, that are to be answered now. The user's pause is over. */
uint64_t rings_resume(struct rings *rings, int64_t now_ns);

/* Charges the user for an answer that took took_ns, in that turn of the loop. `causes` is how often
 * locks of the regions in .rung were looked at. Returns resume_ns, when the user is answered again;
 * 0: at once. */
int64_t rings_answered(struct rings *rings, int64_t now_ns, int64_t took_ns, uint64_t causes,
                       uint32_t turn);

/* Returns whether the user has a debt or waiting rings, which must not be forgotten. */
bool rings_owe(const struct rings *rings, int64_t now_ns);

/* Return whether it is time to log that the user's rings were delayed; and begin the counts anew
 * once that is logged. */
bool rings_are_to_be_told(const struct rings *rings, int64_t now_ns);
void rings_told(struct rings *rings, int64_t now_ns);

#endif
