/*
 * Patience: how long this voter bears silence before it concludes anything from it.
 *
 * Where everything runs, the take-over timeout does: four beats fit into it. On hosts that have
 * more to do than processors (or on slow links) beats and rounds take longer than that though
 * nobody is gone, and whoever concludes so makes it worse: take-overs need the same processors, and
 * each one undoes what the last had prepared. So a voter notes how long it had to wait for what
 * came after all, and bears twice that. (Chandra and Toueg 1996, section 9: a time-out that grows
 * whenever it turns out to have been too short suspects nobody wrongly for ever.)
 *
 * What is measured, by this voter's clock:
 *
 *   of each other voter   how old the newest of the own beats that it had echoed was when it echoed
 *                         a newer one. All is in that: that either of the two did not run, what
 *                         stands between them, and that it was silent
 *   of the own rounds     how long a majority took to answer, be it after the round was given up
 *
 * The second worst counts: what happens once (a process that was stopped and goes on, a cable that
 * was moved) tells nothing about what comes.
 *
 * Of the others those count that are the fastest and make a majority with this voter: a minority
 * that is slow or away leaves the patience as it is, so it is replaced as fast as ever. What was
 * measured is forgotten after one to two windows. A link that breaks needs no patience.
 *
 * Nothing here decides what is safe: ballots do.
 */
#include "proto/check.h"
#include "state.h"

enum {
    WINDOW_MS = 10000,
    FACTOR = 2,
    SLOW_MS = 2 * QUORUM_TAKEOVER_MS,                /* from there on people are told, */
    TIMELY_MS = QUORUM_TAKEOVER_MS + QUORUM_BEAT_MS, /* and when it is over */
};

/* The second worst of both windows. */
static int64_t usual_ns(const struct lag *lag)
{
    const int64_t *worst = lag->worst_ns;
    int64_t least_ns = worst[0] < worst[1] ? worst[0] : worst[1];
    int64_t second_ns = lag->second_ns[0] > lag->second_ns[1] ? lag->second_ns[0]
                                                              : lag->second_ns[1];
    return least_ns > second_ns ? least_ns : second_ns;
}

/* One silence keeps several things waiting: the echoes that were on their way when it began and
 * those that follow, and all rounds. They end together. So what ends sooner than half its own time
 * after another is part of that one. */
static void note(const struct quorum *quorum, struct lag *lag, int64_t took_ns)
{
    bool same = step_now_ns(quorum) - lag->counted_ns < took_ns / 2;
    lag->counted_ns = same ? lag->counted_ns : step_now_ns(quorum);
    if (took_ns > lag->worst_ns[0]) {
        lag->second_ns[0] = same ? lag->second_ns[0] : lag->worst_ns[0];
        lag->worst_ns[0] = took_ns;
    } else if (took_ns > lag->second_ns[0] && !same) {
        lag->second_ns[0] = took_ns;
    }
}

static void turn_over(struct lag *lag)
{
    lag->worst_ns[1] = lag->worst_ns[0];
    lag->second_ns[1] = lag->second_ns[0];
    lag->worst_ns[0] = 0;
    lag->second_ns[0] = 0;
}

static int64_t patience_for(int64_t lag_ns)
{
    static const int64_t least_ns = QUORUM_TAKEOVER_MS * MS_NS;
    static const int64_t most_ns = QUORUM_PATIENCE_MAX_MS * MS_NS;
    int64_t patience_ns = lag_ns < most_ns ? FACTOR * lag_ns : most_ns;
    patience_ns = patience_ns < most_ns ? patience_ns : most_ns;
    return patience_ns > least_ns ? patience_ns : least_ns;
}

/* A line when it begins and one when it is over, for people. */
static void tell(struct quorum *quorum)
{
    bool slow = quorum->patience_ns >= SLOW_MS * MS_NS;
    bool timely = quorum->patience_ns <= TIMELY_MS * MS_NS;
    if ((quorum->patience_told ? !timely : !slow) || !step_has_room(quorum, 1)) {
        return;
    }
    quorum->patience_told = slow;
    struct action_log *log = step_log(quorum, slow ? "voters_slow" : "voters_timely", NULL,
                                      quorum->patience_ns / MS_NS);
    if (slow) {
        step_log_text(log,
                      "even the fastest majority of the voters answers late (too little processor "
                      "time here or there, or slow links): who falls silent is replaced after so "
                      "many milliseconds, not 400");
    }
}

/* The fastest of those that are heard, so many that they are a majority with this voter: by the
 * slowest of these. Whoever is not heard, or only since a moment ago, is not measured; if too few
 * are, it stays as it was. */
static void judge(struct quorum *quorum)
{
    int64_t sorted[MESSAGE_VOTERS_MAX];
    uint32_t count = 0;
    uint32_t wanted = rules_majority(quorum) - 1;
    for (uint32_t voter = 0; voter < quorum->config->voter_count; voter++) {
        int64_t lag_ns = usual_ns(&quorum->peers[voter].lag);
        if (!quorum_hears(quorum, voter) || voter == quorum->config->self || lag_ns == 0) {
            continue;
        }
        uint32_t at = count++;
        for (; at > 0 && sorted[at - 1] > lag_ns; at--) {
            sorted[at] = sorted[at - 1];
        }
        sorted[at] = lag_ns;
    }
    if (wanted > 0 && count >= wanted) {
        quorum->patience_ns = patience_for(sorted[wanted - 1]);
        tell(quorum);
    }
}

void patience_start(struct quorum *quorum)
{
    quorum->patience_ns = QUORUM_TAKEOVER_MS * MS_NS;
    quorum->window_ns = step_now_ns(quorum) + WINDOW_MS * MS_NS;
}

void patience_echoed(struct quorum *quorum, uint32_t voter, int64_t age_ns)
{
    struct lag *lag = &quorum->peers[voter].lag;
    int64_t before_ns = usual_ns(lag);
    note(quorum, lag, age_ns);
    if (usual_ns(lag) > before_ns) {
        judge(quorum);
    }
}

int64_t patience_trip_ns(const struct quorum *quorum, uint32_t voter)
{
    /* What is due to the pauses between beats (and to one that was lost) is not its. */
    return usual_ns(&quorum->peers[voter].lag) / 2 - QUORUM_BEAT_MS * MS_NS;
}

void patience_tick(struct quorum *quorum)
{
    if (step_now_ns(quorum) < quorum->window_ns) {
        return;
    }
    quorum->window_ns = step_now_ns(quorum) + WINDOW_MS * MS_NS;
    turn_over(&quorum->round_lag);
    for (uint32_t voter = 0; voter < quorum->config->voter_count; voter++) {
        turn_over(&quorum->peers[voter].lag);
    }
    judge(quorum);
}

/* ---- Rounds ---- */

int64_t patience_round_ns(const struct quorum *quorum)
{
    int64_t own_ns = patience_for(usual_ns(&quorum->round_lag));
    return own_ns > quorum->patience_ns ? own_ns : quorum->patience_ns;
}

void patience_round(struct quorum *quorum, int64_t took_ns)
{
    note(quorum, &quorum->round_lag, took_ns);
}

void patience_gave_up(struct quorum *quorum, const struct given_up *round)
{
    quorum->given_up = *round;
}

void patience_late(struct quorum *quorum, uint32_t voter, struct message_order order)
{
    struct given_up *round = &quorum->given_up;
    HF_CHECK(voter < quorum->config->voter_count);
    if (round->order.ballot == 0 || !message_order_equal(round->order, order)) {
        return;
    }
    round->mask |= (uint8_t)(1u << voter);
    if (rules_is_majority(quorum, round->mask) && (round->mask >> quorum->config->self & 1) != 0) {
        note(quorum, &quorum->round_lag, step_now_ns(quorum) - round->began_ns);
        round->order.ballot = 0;
    }
}
