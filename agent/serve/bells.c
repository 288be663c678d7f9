/* The bound on what bells cost: see bells.h. */
#include "serve/bells.h"

#define MS INT64_C(1000000)
#define TELL_PAUSES_MIN 100 /* some hundred milliseconds: a burst of work is nothing to tell */
#define TELL_NS (60 * INT64_C(1000000000))

void bell_init(struct bell *bell)
{
    *bell = (struct bell){.credit = BELL_CREDIT};
}

int64_t bell_answered(struct bell *bell, int64_t now_ns, int64_t took_ns, uint64_t causes)
{
    bool cause = causes != bell->causes;
    int percent = BELL_CAUSE_PERCENT;
    bell->causes = causes;
    bell->rings++;
    if (cause) {
        bell->credit += bell->credit < BELL_CREDIT;
    } else {
        bell->nothings++;
        percent = bell->credit > 0 ? BELL_CAUSE_PERCENT : BELL_NOTHING_PERCENT;
        bell->credit -= bell->credit > 0;
    }
    int64_t paid_ns = now_ns - bell->as_of_ns;
    bell->debt_ns = bell->debt_ns > paid_ns ? bell->debt_ns - paid_ns : 0;
    bell->as_of_ns = now_ns;
    bell->debt_ns += (took_ns + BELL_TURN_US * INT64_C(1000)) * 100 / percent;
    if (bell->read_ns > now_ns) { /* it may be readable all the time */
        bell->pauses++;
        bell->resume_ns = now_ns + BELL_LOOK_MS * MS;
        return bell->resume_ns;
    }
    if (bell->debt_ns <= BELL_BURST_MS * MS) {
        return 0;
    }
    if (bell->debt_ns > BELL_DEBT_MS * MS) {
        bell->debt_ns = BELL_DEBT_MS * MS;
    }
    bell->pauses++;
    bell->resume_ns = now_ns + bell->debt_ns - BELL_BURST_MS * MS / 2;
    return bell->resume_ns;
}

void bell_read(struct bell *bell, int64_t now_ns, int64_t cost_ns)
{
    if (cost_ns > BELL_READ_MS * MS) {
        bell->read_ns = now_ns + BELL_READ_TIMES * cost_ns;
    }
}

bool bell_is_to_be_told(const struct bell *bell, int64_t now_ns)
{
    return bell->pauses >= TELL_PAUSES_MIN &&
           (bell->told_ns == 0 || now_ns - bell->told_ns >= TELL_NS);
}

void bell_told(struct bell *bell, int64_t now_ns)
{
    bell->told_ns = now_ns;
    bell->rings = bell->nothings = bell->pauses = 0;
}
