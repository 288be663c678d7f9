/* Round trips and clock rates of other agents: see core/session/pace.h. */
#include "pace_private.h"

static const int64_t second_ns = 1000000000;
static const int64_t minute_ns = 60000000000;
/* the least time between the two readings in `bases` */
static const int64_t base_ns = 30000000000;
static const int64_t watch_ns = 10000000000;
static const int64_t rate_max_ppm = 10000000;
static const int64_t reading_max_ns = INT64_MAX / 4;

void recent_add(struct recent *recent, int64_t now_ns, int64_t took_ns)
{
    if (now_ns - recent->minute_ns >= minute_ns) {
        recent->worst_ns[1] = recent->worst_ns[0];
        recent->worst_ns[0] = 0;
        recent->minute_ns = now_ns;
    }
    recent->count++;
    recent->last_ns = took_ns;
    if (took_ns > recent->worst_ns[0]) {
        recent->worst_ns[0] = took_ns;
    }
}

uint64_t recent_count(const struct recent *recent)
{
    return recent->count;
}

int64_t recent_last_ns(const struct recent *recent)
{
    return recent->last_ns;
}

int64_t recent_worst_ns(const struct recent *recent)
{
    int64_t worst_ns = recent->worst_ns[0] > recent->worst_ns[1] ? recent->worst_ns[0]
                                                                 : recent->worst_ns[1];
    return recent->count == 0 ? -1 : worst_ns;
}

/* Returns by how many millionths there_ns exceeds here_ns. here_ns is at least a second. */
static int64_t ppm_of(int64_t there_ns, int64_t here_ns)
{
    int64_t ppm = (there_ns - here_ns) / (here_ns / 1000000);
    return ppm > rate_max_ppm ? rate_max_ppm : ppm;
}

static void measure(struct pace *pace, const struct pace_reading *now)
{
    const struct pace_reading *base = &pace->bases[0];
    int64_t there_ns = now->there_ns - base->there_ns;
    int64_t least_ns = now->sent_ns - base->received_ns;
    int64_t most_ns = now->received_ns - base->sent_ns;
    if (least_ns < second_ns || there_ns < 0) {
        return; /* too early to tell, or an answer that arrived out of order */
    }
    pace->rate = (struct pace_rate){.measured = true,
                                    .low_ppm = ppm_of(there_ns, most_ns),
                                    .high_ppm = ppm_of(there_ns, least_ns)};
}

void pace_add(struct pace *pace, uint64_t incarnation, const struct pace_reading *reading)
{
    if (reading->received_ns < reading->sent_ns || reading->there_ns < 0 ||
        reading->there_ns > reading_max_ns) {
        return;
    }
    recent_add(&pace->round_trip, reading->received_ns, reading->received_ns - reading->sent_ns);
    if (incarnation != pace->incarnation || pace->base_count == 0) {
        /* This is the first reading of that process. Its host may have been booted since the last
         * reading. */
        pace->incarnation = incarnation;
        pace->rate.measured = false;
        pace->bases[0] = *reading;
        pace->base_count = 1;
        return;
    }
    measure(pace, reading);
    if (reading->sent_ns - pace->bases[pace->base_count - 1].received_ns >= base_ns) {
        pace->bases[0] = pace->bases[pace->base_count - 1];
        pace->bases[1] = *reading;
        pace->base_count = 2;
    }
}

const struct recent *pace_round_trip(const struct pace *pace)
{
    return &pace->round_trip;
}

struct pace_rate pace_rate(const struct pace *pace)
{
    return pace->rate;
}

int64_t pace_least_ppm(const struct pace *pace)
{
    const struct pace_rate *rate = &pace->rate;
    int64_t slower_ppm = rate->high_ppm < 0 ? -rate->high_ppm : 0;
    int64_t least_ppm = rate->low_ppm > 0 ? rate->low_ppm : slower_ppm;
    return rate->measured ? least_ppm : 0;
}

enum pace_news pace_look(struct pace_watch *watch, const struct pace *pace, bool answers,
                         int64_t max_ppm, int64_t now_ns)
{
    bool known = answers && pace->rate.measured;
    bool differs = known && pace_least_ppm(pace) > max_ppm;
    if (differs && !watch->differs) {
        watch->since_ns = now_ns;
    }
    watch->differs = differs;
    if (differs && !watch->logged && now_ns - watch->since_ns >= watch_ns) {
        watch->logged = true;
        return PACE_DIFFERS;
    }
    if (known && !differs && watch->logged) {
        watch->logged = false;
        return PACE_WELL_AGAIN;
    }
    return PACE_NOTHING_NEW;
}
