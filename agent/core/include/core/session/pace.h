/*
 * How fast another agent answers, and how fast its clock runs. This is for people: no decision
 * depends on it.
 *
 * Each acknowledgement of a renewal carries a reading of the voter's clock. The reading was taken
 * between the sending of the renewal and the arrival of the acknowledgement. Two such readings
 * bound the rate of the voter's clock against this agent's clock, whatever the network did. Between
 * the readings the voter's clock advanced by a known time. By this agent's clock at most (later
 * arrival - earlier sending) passed, and at least (later sending - earlier arrival). The bound is
 * tight if the round trips are short against the time between the readings. That time is 30 s to a
 * minute, or longer if acknowledgements are rare.
 *
 * A voter that lies can make its clock seem to have any rate. The lie harms nobody, because no
 * decision depends on the rate.
 *
 * Pure. The caller owns the memory, which is all 0 at first.
 */
#ifndef CORE_PACE_H
#define CORE_PACE_H

#include <stdbool.h>
#include <stdint.h>

/* One acknowledgement: two times by this agent's clock, and one reading of the voter's clock. */
struct pace_reading {
    int64_t sent_ns;
    int64_t received_ns;
    int64_t there_ns;
};

/* How long an event took lately. All 0 at first. */
struct recent {
    uint64_t count;      /* how often the event happened, in all */
    int64_t last_ns;     /* how long the event took the last time */
    int64_t worst_ns[2]; /* the longest duration in this minute, and in the minute before */
    int64_t minute_ns;   /* when this minute began */
};

void recent_add(struct recent *recent, int64_t now_ns, int64_t took_ns);
/* Returns the larger of the two numbers in worst_ns; -1 if the event never happened. */
int64_t recent_worst_ns(const struct recent *recent);

struct pace {
    uint64_t incarnation; /* identifies the other agent's process */
    struct recent round_trip;
    bool measured;   /* low_ppm and high_ppm are valid */
    int64_t low_ppm; /* how many millionths faster the other clock runs: low_ppm to high_ppm */
    int64_t high_ppm;
    uint32_t base_count;
    struct pace_reading bases[2]; /* an older reading and a newer one */
};

/* Whether a clock has been reported as differing. All 0 at first. */
struct pace_watch {
    int64_t since_ns; /* since when the clock differs, if it does */
    bool differs;
    bool logged;
};

enum pace_news { PACE_NOTHING_NEW, PACE_DIFFERS, PACE_WELL_AGAIN };

/* Adds a reading. A reading that contradicts the earlier readings is ignored. */
void pace_add(struct pace *pace, uint64_t incarnation, const struct pace_reading *reading);

/* Returns by how many millionths the rates of the two clocks differ at least. Call it only if
 * pace->measured. */
int64_t pace_least_ppm(const struct pace *pace);

/* Returns PACE_DIFFERS once when the other agent's clock has certainly differed by more than
 * max_ppm for 10 s, and PACE_WELL_AGAIN once when it no longer does. (A shorter time would report
 * too early, because the first bounds rest on readings one second apart.) Call it about every
 * second. `answers` says whether the other agent answers now. If it does not answer, or its present
 * process has not been measured yet, nothing is known of its clock. */
enum pace_news pace_look(struct pace_watch *watch, const struct pace *pace, bool answers,
                         int64_t max_ppm, int64_t now_ns) __attribute__((warn_unused_result));

#endif
