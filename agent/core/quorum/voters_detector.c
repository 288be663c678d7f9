/*
 * The failure detector: the suspicion timeout. See voters.h.
 *
 * If all voters run without delay, the timeout is QUORUM_TAKEOVER_MS: four heartbeats fit into it.
 * On hosts with more work than processors, or with slow links, heartbeats and rounds take longer
 * although no voter has failed. A voter that suspects others in such a case makes things worse:
 * take-overs need the same processors, and each one undoes what the last had prepared. So a voter
 * measures how long it waited for each answer that did come in the end, and uses twice that time.
 * (Chandra and Toueg 1996, section 9: if the timeout grows whenever it proved too short, wrong
 * suspicions end in time.)
 *
 * Each voter measures by its own clock:
 *
 *   of each other voter   when the other voter echoes a newer heartbeat of this voter, the age of
 *                         the heartbeat that the other voter echoed before. The age includes the
 *                         times when either process did not run, the delay of the link, and
 *                         silence
 *   of its own rounds     how long a majority took to answer, also if the round was given up
 *
 * The timeout is made from the second-longest measurement of other voters. An event that happens
 * once (a process is stopped and continued, a cable is moved) does not predict the next one.
 * Measurements of rounds set only the age at which a round counts as stuck.
 *
 * For the timeout, only measurements of the fastest voters that form a majority with this voter are
 * used. So a minority that is slow or away does not change the timeout, and is replaced as fast as
 * ever. A measurement is forgotten after one to two windows. A voter whose link breaks is suspected
 * at once, without a timeout.
 */
#include "proto/check.h"
#include "voters_private.h"

enum {
    WINDOW_MS = 10000,
    FACTOR = 2,
    /* The log reports slow voters if the timeout is at least this long. */
    SLOW_MS = 2 * QUORUM_TAKEOVER_MS,
    /* The log reports that no voter is slow any more if the timeout is at most this long. */
    TIMELY_MS = QUORUM_TAKEOVER_MS + QUORUM_HEARTBEAT_MS,
    IDLE_MIN_MS = 1000, /* how long this voter coordinates nothing after a stuck round */
    IDLE_MAX_MS = 4000, /* the longest such time, if rounds get stuck again and again */
};

/* Returns the second-longest measurement of the two windows together. */
static int64_t usual_ns(const struct lag *lag)
{
    const int64_t *worst = lag->worst_ns;
    int64_t least_ns = worst[0] < worst[1] ? worst[0] : worst[1];
    int64_t second_ns = lag->second_ns[0] > lag->second_ns[1] ? lag->second_ns[0]
                                                              : lag->second_ns[1];
    return least_ns > second_ns ? least_ns : second_ns;
}

/* Returns whether a measurement is so long that it can make a timeout longer. */
static bool is_delay(int64_t took_ns)
{
    return FACTOR * took_ns > QUORUM_TAKEOVER_MS * MS_NS;
}

/* Adds a measurement. One silence delays several things: the echoes under way when it began, the
 * echoes after it, and all rounds. Their delays end together. So a delay that ends soon after
 * another delay, within half of its own length, is taken for the same silence.
 *
 * A shorter measurement is no delay, and shows no silence that the next delay could share: for
 * example a round that took a few milliseconds while another round waited, or a heartbeat without a
 * newer echo (0). If such a measurement set counted_ns, a delay that ends right after it would be
 * taken for the same silence, and would not count. */
static void note(const struct quorum *quorum, struct lag *lag, int64_t took_ns)
{
    int64_t now_ns = step_now_ns(quorum);
    bool same = now_ns - lag->counted_ns < took_ns / 2;
    if (!same && is_delay(took_ns)) {
        lag->counted_ns = now_ns;
    }
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

static int64_t timeout_for(int64_t lag_ns)
{
    static const int64_t least_ns = QUORUM_TAKEOVER_MS * MS_NS;
    static const int64_t most_ns = QUORUM_SUSPICION_MAX_MS * MS_NS;
    int64_t timeout_ns = lag_ns < most_ns ? FACTOR * lag_ns : most_ns;
    timeout_ns = timeout_ns < most_ns ? timeout_ns : most_ns;
    return timeout_ns > least_ns ? timeout_ns : least_ns;
}

/* Logs when slowness begins and when it is over. */
static void log_slow(struct quorum *quorum)
{
    bool slow = quorum->voters->timeout_ns >= SLOW_MS * MS_NS;
    bool timely = quorum->voters->timeout_ns <= TIMELY_MS * MS_NS;
    if ((quorum->voters->slow_logged ? !timely : !slow) || !step_has_room(quorum, 1)) {
        return;
    }
    quorum->voters->slow_logged = slow;
    struct action_log *log = step_log(quorum, slow ? "voters_slow" : "voters_timely", NULL,
                                      quorum->voters->timeout_ns / MS_NS);
    if (slow) {
        step_log_text(log,
                      "even the fastest majority of the voters answers late (too little processor "
                      "time on this host or on theirs, or slow links): a silent voter is replaced "
                      "after this many milliseconds, not 400");
    }
}

/* Sets the timeout. Of the voters whose heartbeats arrive, only the fastest count, as many as form
 * a majority with this voter. The slowest of these sets the timeout. A voter whose heartbeats do
 * not arrive, or only just arrive again, has no measurement. If too few voters have a measurement,
 * the timeout stays as it is. */
static void judge(struct quorum *quorum)
{
    int64_t sorted[MESSAGE_VOTERS_MAX];
    uint32_t count = 0;
    uint32_t wanted = rules_majority(quorum) - 1;
    for (uint32_t voter = 0; voter < quorum->config->voter_count; voter++) {
        int64_t lag_ns = usual_ns(&quorum->voters->others[voter].lag);
        if (!voters_heartbeats_arrive(quorum, voter) || voter == quorum->config->self ||
            lag_ns == 0) {
            continue;
        }
        uint32_t at = count++;
        for (; at > 0 && sorted[at - 1] > lag_ns; at--) {
            sorted[at] = sorted[at - 1];
        }
        sorted[at] = lag_ns;
    }
    if (wanted > 0 && count >= wanted) {
        quorum->voters->timeout_ns = timeout_for(sorted[wanted - 1]);
        log_slow(quorum);
    }
}

void voters_detector_start(struct quorum *quorum)
{
    quorum->voters->timeout_ns = QUORUM_TAKEOVER_MS * MS_NS;
    quorum->voters->idle_ms = IDLE_MIN_MS;
    quorum->voters->window_ns = step_now_ns(quorum) + WINDOW_MS * MS_NS;
}

void voters_detector_echoed(struct quorum *quorum, uint32_t voter, int64_t age_ns)
{
    struct lag *lag = &quorum->voters->others[voter].lag;
    int64_t before_ns = usual_ns(lag);
    note(quorum, lag, age_ns);
    if (usual_ns(lag) > before_ns) {
        judge(quorum);
    }
}

int64_t voters_timeout_ns(const struct quorum *quorum)
{
    return quorum->voters->timeout_ns;
}

int64_t voters_trip_ns(const struct quorum *quorum, uint32_t voter)
{
    /* A measurement is about one round trip plus one pause between heartbeats, or two pauses if a
     * heartbeat was lost. So two pauses are subtracted, and the result is half of the rest. */
    return usual_ns(&quorum->voters->others[voter].lag) / 2 - QUORUM_HEARTBEAT_MS * MS_NS;
}

void voters_detector_tick(struct quorum *quorum)
{
    if (step_now_ns(quorum) < quorum->voters->window_ns) {
        return;
    }
    quorum->voters->window_ns = step_now_ns(quorum) + WINDOW_MS * MS_NS;
    turn_over(&quorum->voters->round_lag);
    for (uint32_t voter = 0; voter < quorum->config->voter_count; voter++) {
        turn_over(&quorum->voters->others[voter].lag);
    }
    judge(quorum);
}

/* ---- Rounds ---- */

/* Returns the age from which a round of this voter is taken for stuck. */
static int64_t round_limit_ns(const struct quorum *quorum)
{
    int64_t own_ns = timeout_for(usual_ns(&quorum->voters->round_lag));
    return own_ns > quorum->voters->timeout_ns ? own_ns : quorum->voters->timeout_ns;
}

void voters_round_done(struct quorum *quorum, int64_t took_ns)
{
    note(quorum, &quorum->voters->round_lag, took_ns);
}

bool voters_round_stuck(struct quorum *quorum, const struct voters_round *round)
{
    struct voters *voters = quorum->voters;
    int64_t now_ns = step_now_ns(quorum);
    if (quorum->config->voter_count == 1 || now_ns - round->began_ns <= round_limit_ns(quorum) ||
        now_ns < voters->idle_until_ns) {
        return false;
    }
    bool again = voters->idle_until_ns != INT64_MIN &&
                 now_ns - voters->idle_until_ns < 2 * IDLE_MAX_MS * MS_NS;
    voters->idle_ms = again ? 2 * voters->idle_ms : (uint32_t)IDLE_MIN_MS;
    voters->idle_ms = voters->idle_ms > IDLE_MAX_MS ? (uint32_t)IDLE_MAX_MS : voters->idle_ms;
    voters->idle_until_ns = now_ns + voters->idle_ms * MS_NS;
    voters->given_up = *round;
    voters_heartbeat_soon(quorum);
    return true;
}

void voters_round_late(struct quorum *quorum, uint32_t voter, struct message_order order)
{
    struct voters_round *round = &quorum->voters->given_up;
    HF_CHECK(voter < quorum->config->voter_count);
    if (round->order.ballot == 0 || !message_order_equal(round->order, order)) {
        return;
    }
    round->mask |= (uint8_t)(1u << voter);
    if (rules_is_majority(quorum, round->mask) && (round->mask >> quorum->config->self & 1) != 0) {
        note(quorum, &quorum->voters->round_lag, step_now_ns(quorum) - round->began_ns);
        round->order.ballot = 0;
    }
}
