/*
 * A bound on what a namespace's bell costs the agent.
 *
 * A bell is a FIFO that every process of its namespace may write to, and it does not say who did.
 * So the namespace is charged: each answer is a debt that time pays off, and a namespace whose debt
 * is too large is not listened to until it has paid a part of it. What it has asked for meanwhile
 * is found then.
 *
 * A ring has a cause if a lock had asked to be looked at since the ring before (a bit in the
 * region). Rings with one may cost BELL_CAUSE_PERCENT of a processor, those without
 * BELL_NOTHING_PERCENT; more than that only in bursts of some milliseconds. An honest namespace has
 * rings without a cause, too: what rang was seen with the ring before. So as many as there were
 * rings with one count as such. Below half of a processor no bell is ever late.
 *
 * Who reads a FIFO that was full calls all epoll entries by which processes watch its other end
 * (io/socket_share.h has the same for sockets). After a read that cost much it is not read for
 * BELL_READ_TIMES as long, and what asks to be looked at is found without it, every BELL_LOOK_MS.
 */
#ifndef AGENT_BELLS_H
#define AGENT_BELLS_H

#include <stdbool.h>
#include <stdint.h>

enum {
    BELL_CAUSE_PERCENT = 50,
    BELL_NOTHING_PERCENT = 2,
    BELL_BURST_MS = 20,   /* a debt that has no consequence */
    BELL_DEBT_MS = 60,    /* none is larger: nobody waits longer than this less half the burst */
    BELL_CREDIT = 256,    /* rings without a cause that count as ones with */
    BELL_READ_MS = 2,     /* of processor time, a read of the FIFO; an honest one takes some us */
    BELL_READ_TIMES = 20, /* so long it is not read after one that took longer */
    BELL_LOOK_MS = 50,    /* so often its locks are looked at meanwhile */
    BELL_TURN_US = 20,    /* what a turn of the loop costs that nothing but a ring began */
};

struct bell {
    int64_t debt_ns; /* at as_of_ns */
    int64_t as_of_ns;
    int64_t resume_ns; /* listened to again then; 0: it is listened to */
    int64_t read_ns;   /* the FIFO is not read before */
    uint64_t causes;   /* as seen with the last ring */
    uint32_t credit;
    /* Since the last line about it. */
    uint64_t rings;
    uint64_t nothings; /* of them, without a cause */
    uint64_t pauses;
    int64_t told_ns;
};

void bell_init(struct bell *bell);

/* It was answered, which took so long. causes: how many locks of the namespace were looked at.
 * When it is to be listened to again; 0: it goes on. */
int64_t bell_answered(struct bell *bell, int64_t now_ns, int64_t took_ns, uint64_t causes);

/* It was read, which cost so much processor time. */
void bell_read(struct bell *bell, int64_t now_ns, int64_t cost_ns);

/* Whether it is time to say that it was not listened to; then the counts begin anew afterwards. */
bool bell_is_to_be_told(const struct bell *bell, int64_t now_ns);
void bell_told(struct bell *bell, int64_t now_ns);

#endif
