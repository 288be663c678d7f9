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
 * decision depends on the rate. So this module enforces no rule. It finds out whether a clock keeps
 * to max_drift, on which rule 14 of docs/PROTOCOL.md rests.
 *
 * Invariants: if the voter does not lie, the rate of its clock lies between low_ppm and high_ppm.
 * Both bounds come from two readings of one process, which are at least a second apart.
 *
 * Pure. The caller owns the memory, which is all 0 at first. struct pace is opaque
 * (session/pace_private.h). struct recent and struct pace_watch are in this header because callers
 * embed them; only pace.c reads and writes their fields.
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
uint64_t recent_count(const struct recent *recent);
/* Returns how long the event took the last time; 0 if it never happened. */
int64_t recent_last_ns(const struct recent *recent);
/* Returns the larger of the two numbers in worst_ns; -1 if the event never happened. */
int64_t recent_worst_ns(const struct recent *recent);

struct pace;

/* How many millionths faster the other clock runs: low_ppm to high_ppm. */
struct pace_rate {
    bool measured; /* low_ppm and high_ppm are valid */
    int64_t low_ppm;
    int64_t high_ppm;
};

/* Whether a clock has been reported as differing. All 0 at first. */
struct pace_watch {
    int64_t since_ns; /* since when the clock differs, if it does */
    bool differs;
    bool logged;
};

enum pace_news { PACE_NOTHING_NEW, PACE_DIFFERS, PACE_WELL_AGAIN };

/* Adds a reading. Ignores a reading that is impossible in itself. A reading by which the voter's
 * clock ran backwards does not change the rate. */
void pace_add(struct pace *pace, uint64_t incarnation, const struct pace_reading *reading);

/* Returns how long the round trips took: from the sending of a renewal to its acknowledgement. */
const struct recent *pace_round_trip(const struct pace *pace);

struct pace_rate pace_rate(const struct pace *pace);

/* Returns by how many millionths the rates of the two clocks differ at least; 0 if the rate has not
 * been measured. */
int64_t pace_least_ppm(const struct pace *pace);

/* Returns PACE_DIFFERS once when the other agent's clock has certainly differed by more than
 * max_ppm for 10 s, and PACE_WELL_AGAIN once when it no longer does. (A shorter time would report
 * too early, because the first bounds rest on readings one second apart.) Call it about every
 * second. `answers` says whether the other agent answers now. If it does not answer, or its present
 * process has not been measured yet, nothing is known of its clock. */
enum pace_news pace_look(struct pace_watch *watch, const struct pace *pace, bool answers,
                         int64_t max_ppm, int64_t now_ns) __attribute__((warn_unused_result));

#endif
