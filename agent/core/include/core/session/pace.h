/*
 * How fast another agent answers, and how fast its clock runs: for people; nothing is decided by
 * it.
 *
 * Each acknowledgement of a renewal brings a reading of the voter's clock, taken at some instant
 * between the sending of the renewal and the arrival of the acknowledgement. Two of them bound the
 * rate of that clock as seen by this one, whatever the network did: so much time passed there,
 * while here it was at most (later arrival - earlier sending) and at least (later sending - earlier
 * arrival). The bound is as tight as the round trips are short against the time in between, which
 * is 30 s to a minute and more if there are fewer acknowledgements.
 *
 * The clock of a liar may show any rate; it harms nobody that does not believe it.
 *
 * Pure; on the caller's storage, all 0 at first.
 */
#ifndef CORE_PACE_H
#define CORE_PACE_H

#include <stdbool.h>
#include <stdint.h>

/* One acknowledgement: two instants here, one reading there; ns. */
struct pace_reading {
    int64_t sent_ns;
    int64_t received_ns;
    int64_t there_ns;
};

/* How long something took of late; all 0 at first. */
struct recent {
    uint64_t count;      /* how often, ever */
    int64_t last_ns;     /* how long the last time */
    int64_t worst_ns[2]; /* at most: in this minute, and in the one before */
    int64_t minute_ns;   /* when this one began */
};

void recent_add(struct recent *recent, int64_t now_ns, int64_t took_ns);
/* The worst of the last one to two minutes in which there was any; -1: none yet. */
int64_t recent_worst_ns(const struct recent *recent);

struct pace {
    uint64_t incarnation; /* of the other's process */
    struct recent round_trip;
    bool measured;   /* there is a rate */
    int64_t low_ppm; /* the other's clock runs faster than this one by low to high millionths */
    int64_t high_ppm;
    uint32_t base_count;
    struct pace_reading bases[2]; /* an older one and a newer one */
};

/* Whether the log says that a clock is off; all 0 at first. */
struct pace_watch {
    int64_t since_ns; /* since when it is, if it is */
    bool differs;
    bool told;
};

enum pace_news { PACE_NOTHING_NEW, PACE_DIFFERS, PACE_WELL_AGAIN };

/* The readings; those that contradict each other count for nothing. */
void pace_heard(struct pace *pace, uint64_t incarnation, const struct pace_reading *reading);

/* By how many millionths the two clocks differ at least. Only if there is a rate. */
int64_t pace_least_ppm(const struct pace *pace);

/* To be called every second or so. answers: the other one does, now; of one that does not, or has
 * not been measured yet (another process, maybe on another boot), nothing is known, good or bad. A
 * clock differs when it has done so for 10 s by more than max_ppm for certain: the first bounds
 * rest on one second. */
enum pace_news pace_look(struct pace_watch *watch, const struct pace *pace, bool answers,
                         int64_t max_ppm, int64_t now_ns) __attribute__((warn_unused_result));

#endif
