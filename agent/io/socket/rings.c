/* The bound on the cost of a user's rings: see io/rings.h. */
#include "io/rings.h"

#define MS INT64_C(1000000)
#define US INT64_C(1000)
#define LOG_PAUSES_MIN                                                                             \
    100 /* this many pauses take a second in all, at least; fewer are not worth a log line */
#define LOG_NS (60 * INT64_C(1000000000))

void rings_init(struct rings *rings)
{
    *rings = (struct rings){.credit = RINGS_CREDIT, .turn = UINT32_MAX};
}

static void owe(struct rings *rings, int64_t now_ns, int64_t cost_ns, int percent)
{
    int64_t paid_ns = now_ns - rings->as_of_ns;
    rings->debt_ns = rings->debt_ns > paid_ns ? rings->debt_ns - paid_ns : 0;
    rings->as_of_ns = now_ns;
    rings->debt_ns += cost_ns * 100 / percent;
    if (rings->debt_ns > RINGS_DEBT_MS * MS) {
        rings->debt_ns = RINGS_DEBT_MS * MS;
    }
}

bool rings_wait(struct rings *rings, uint64_t regions, int64_t now_ns)
{
    rings->count++;
    rings->rung |= regions;
    if (rings->resume_ns == 0) {
        return false;
    }
    rings->waiting |= regions;
    owe(rings, now_ns, RINGS_READ_US * US, RINGS_NOTHING_PERCENT);
    return true;
}

int64_t rings_hold(struct rings *rings, int64_t now_ns)
{
    int64_t from_ns = rings->slot_ns > now_ns ? rings->slot_ns : now_ns;
    rings->slot_ns = from_ns + RINGS_SLOT_US * US;
    /* Connections are read again in groups, because each call of socket_unpark() looks at all
     * connections. */
    int64_t until_ns = rings->slot_ns + RINGS_TOGETHER_MS * MS - 1;
    until_ns -= until_ns % (RINGS_TOGETHER_MS * MS);
    return until_ns > rings->resume_ns ? until_ns : rings->resume_ns;
}

uint64_t rings_resume(struct rings *rings, int64_t now_ns)
{
    /* The unread rings on held connections may be for any region, so all of the user's regions are
     * looked at. */
    uint64_t waiting = rings->slot_ns > now_ns ? rings->rung : rings->waiting;
    rings->resume_ns = 0;
    rings->waiting = 0;
    return waiting;
}

int64_t rings_answered(struct rings *rings, int64_t now_ns, int64_t took_ns, uint64_t causes,
                       uint32_t turn)
{
    int percent = RINGS_CAUSE_PERCENT;
    if (causes != rings->causes) {
        rings->credit += rings->credit < RINGS_CREDIT;
    } else {
        rings->nothings++;
        percent = rings->credit > 0 ? RINGS_CAUSE_PERCENT : RINGS_NOTHING_PERCENT;
        rings->credit -= rings->credit > 0;
    }
    owe(rings, now_ns, took_ns + (turn != rings->turn ? RINGS_TURN_US : RINGS_READ_US) * US,
        percent);
    rings->causes = causes;
    rings->turn = turn;
    if (rings->debt_ns > RINGS_BURST_MS * MS) {
        rings->pauses++;
        rings->resume_ns = now_ns + rings->debt_ns - RINGS_BURST_MS * MS / 2;
    } else if (rings->slot_ns > now_ns) {
        rings->resume_ns = now_ns + (RINGS_DEBT_MS - RINGS_BURST_MS) * MS;
    }
    return rings->resume_ns;
}

bool rings_owe(const struct rings *rings, int64_t now_ns)
{
    return rings->waiting != 0 || rings->resume_ns > now_ns;
}

bool rings_log_is_due(const struct rings *rings, int64_t now_ns)
{
    return rings->pauses >= LOG_PAUSES_MIN &&
           (rings->logged_ns == 0 || now_ns - rings->logged_ns >= LOG_NS);
}

void rings_logged(struct rings *rings, int64_t now_ns)
{
    rings->logged_ns = now_ns;
    rings->count = rings->nothings = rings->pauses = 0;
}
