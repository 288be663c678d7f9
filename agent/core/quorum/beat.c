/*
 * Beats: what voters tell each other all the time, so that each knows who is there, who
 * coordinates what, and who is heard by a majority.
 *
 * Nothing here decides what is safe: ballots do. It decides who tries. A beat says which
 * partitions its sender has prepared, and echoes the receiver's last one. From the echoes a voter
 * knows that a majority has heard it lately; it says so in its own beats, and only then its claims
 * count for others. So a voter that sends but hears nothing, or hears but is not heard, claims
 * nothing for long.
 *
 * At the start everybody counts as heard, so that a cell whose voters come up one after the other
 * does not hand everything back and forth. A link that breaks ends that at once, and all claims.
 */
#include <string.h>

#include "proto/check.h"
#include "state.h"

enum {
    BEAT_GAP_MS = 5,         /* at least between two beats */
    BEAT_JUMP_MAX = 1 << 20, /* a number further away is another process's */
    LATE_MS = 20,            /* a step that comes later: this process did not run */
    EXCUSED_MS = 20,         /* so long it reads then before it judges */
    SLEPT_MS = QUORUM_TAKEOVER_MS - QUORUM_BEAT_MS,
    SETTLE_MIN_MS = 1000,  /* so long a voter has to be well, to get back what it coordinated */
    SETTLE_MAX_MS = 32000, /* if it was well and fell silent again and again */
    SETTLED_MS = 60000,    /* and so long to be as good as any */
};
_Static_assert((int)BEATS_KEPT *(int)BEAT_GAP_MS > (int)QUORUM_PATIENCE_MAX_MS, "none is missed");

static bool recent(const struct quorum *quorum, int64_t when_ns)
{
    return when_ns != INT64_MIN && step_now_ns(quorum) - when_ns <= quorum->patience_ns;
}

/* Its process is there, as far as can be known, and its link works. */
static bool alive(const struct quorum *quorum, const struct peer *peer)
{
    return !peer->broken &&
           (recent(quorum, peer->heard_ns) || step_now_ns(quorum) < peer->excused_ns);
}

/* Who never had a majority is given the time to find one: the cell may just be starting. */
static bool able(const struct quorum *quorum, const struct peer *peer)
{
    if (!alive(quorum, peer)) {
        return false;
    }
    if (peer->number == 0) {
        return true; /* heard at the start, by courtesy */
    }
    return (peer->votes && peer->majority) ||
           (!peer->had_majority && recent(quorum, peer->first_ns));
}

bool beat_counts(const struct quorum *quorum, uint32_t voter)
{
    const struct peer *peer = &quorum->peers[voter];
    return voter != quorum->config->self && peer->number != 0 && peer->majority &&
           alive(quorum, peer);
}

bool beat_majority(const struct quorum *quorum)
{
    uint32_t count = 1;
    for (uint32_t voter = 0; voter < quorum->config->voter_count; voter++) {
        const struct peer *peer = &quorum->peers[voter];
        count += voter != quorum->config->self && !peer->broken && peer->number != 0 &&
                 peer->votes && recent(quorum, peer->echoed_ns);
    }
    return count >= rules_majority(quorum);
}

/* What the own beats call a majority: a voter that says so and has none any more is replaced at
 * once, its link still there. */
static bool may_coordinate(const struct quorum *quorum)
{
    return beat_majority(quorum) && !quorum->resigned &&
           step_now_ns(quorum) >= quorum->idle_until_ns;
}

static bool self_able(const struct quorum *quorum)
{
    return may_coordinate(quorum) && step_started(quorum) && members_votes(quorum);
}

uint8_t beat_able(const struct quorum *quorum)
{
    uint8_t mask = 0;
    for (uint32_t voter = 0; voter < quorum->config->voter_count; voter++) {
        bool good = voter == quorum->config->self ? self_able(quorum)
                                                  : able(quorum, &quorum->peers[voter]);
        mask |= (uint8_t)(good << voter);
    }
    return mask;
}

static void forget(struct peer *peer)
{
    peer->number = 0;
    peer->first_ns = INT64_MIN;
    peer->echoed_ns = INT64_MIN;
    peer->good_ns = NEVER;
    memset(&peer->owned, 0, sizeof(peer->owned));
    peer->votes = false;
    peer->majority = false;
    peer->had_majority = false;
    peer->excused_ns = INT64_MIN;
    peer->settle_ns = SETTLE_MIN_MS * MS_NS;
    peer->passed_ns = INT64_MIN;
    memset(&peer->lag, 0, sizeof(peer->lag));
}

/* It cannot coordinate now. If it could for long enough to have got back what is its own, it will
 * take twice as long the next time: else a voter that falls silent every few seconds has all its
 * partitions change hands twice each time. */
static void spoil(struct quorum *quorum, struct peer *peer)
{
    if (peer->good_ns != NEVER && step_now_ns(quorum) - peer->good_ns >= peer->settle_ns) {
        peer->settle_ns *= 2;
        if (peer->settle_ns > SETTLE_MAX_MS * MS_NS) {
            peer->settle_ns = SETTLE_MAX_MS * MS_NS;
        }
    }
    peer->good_ns = NEVER;
}

bool beat_settled(const struct quorum *quorum, uint32_t voter)
{
    const struct peer *peer = &quorum->peers[voter];
    return peer->good_ns != NEVER && step_now_ns(quorum) - peer->good_ns >= peer->settle_ns;
}

void beat_start(struct quorum *quorum)
{
    quorum->slept_ns = INT64_MIN;
    quorum->beat_ns = NEVER;
    quorum->begin_ns = INT64_MIN;
    patience_start(quorum);
    if (quorum->config->voter_count == 1) {
        return;
    }
    quorum->beat_number = (step_random(quorum) >> 8) + 1; /* other than those of the last process */
    for (uint32_t i = 0; i < BEATS_KEPT; i++) {
        quorum->beat_sent_ns[i] = INT64_MIN;
    }
    for (uint32_t voter = 0; voter < quorum->config->voter_count; voter++) {
        forget(&quorum->peers[voter]);
        quorum->peers[voter].heard_ns = step_now_ns(quorum);
    }
    quorum->beat_last_ns = INT64_MIN;
    quorum->begin_ns = step_now_ns(quorum) + 3 * QUORUM_BEAT_MS / 2 * MS_NS;
    beat_soon(quorum);
}

void beat_late(struct quorum *quorum, int64_t late_ns, int64_t now_ns)
{
    if (late_ns < LATE_MS * MS_NS) {
        return;
    }
    quorum->slept_ns = late_ns >= SLEPT_MS * MS_NS ? now_ns : quorum->slept_ns;
    for (uint32_t voter = 0; voter < quorum->config->voter_count; voter++) {
        struct peer *peer = &quorum->peers[voter];
        if (voter != quorum->config->self && recent(quorum, peer->heard_ns)) {
            peer->excused_ns = now_ns + EXCUSED_MS * MS_NS;
        }
    }
}

bool beat_all_heard(const struct quorum *quorum)
{
    for (uint32_t voter = 0; voter < quorum->config->voter_count; voter++) {
        const struct peer *peer = &quorum->peers[voter];
        if (voter != quorum->config->self && !peer->broken && peer->number == 0) {
            return false;
        }
    }
    return true;
}

void beat_soon(struct quorum *quorum)
{
    if (quorum->config->voter_count == 1) {
        return;
    }
    int64_t when_ns = step_now_ns(quorum);
    if (quorum->beat_last_ns != INT64_MIN && when_ns < quorum->beat_last_ns + BEAT_GAP_MS * MS_NS) {
        when_ns = quorum->beat_last_ns + BEAT_GAP_MS * MS_NS;
    }
    if (when_ns < quorum->beat_ns) {
        quorum->beat_ns = when_ns;
        step_schedule(quorum, when_ns);
    }
}

static void send(struct quorum *quorum)
{
    struct message_beat beat = {
        .number = ++quorum->beat_number,
        .majority = may_coordinate(quorum),
        .votes = members_votes(quorum),
    };
    quorum->beat_sent_ns[beat.number % BEATS_KEPT] = step_now_ns(quorum);
    quorum->beat_last_ns = step_now_ns(quorum);
    for (uint32_t p = 0; p < MESSAGE_PARTITIONS; p++) {
        const struct partition *partition = &quorum->partitions[p];
        if (partition->state == PARTITION_PREPARED) {
            message_partition_add(&beat.owned, p);
        }
    }
    for (uint32_t voter = 0; voter < quorum->config->voter_count; voter++) {
        if (voter != quorum->config->self) {
            beat.echo = quorum->peers[voter].number;
            step_send(quorum, voter, MESSAGE_BEAT)->as.beat = beat;
        }
    }
}

int64_t beat_tick(struct quorum *quorum)
{
    if (quorum->beat_ns > step_now_ns(quorum)) {
        return quorum->beat_ns;
    }
    if (!step_has_room(quorum, MESSAGE_VOTERS_MAX)) {
        return step_now_ns(quorum);
    }
    patience_tick(quorum);
    for (uint32_t voter = 0; voter < quorum->config->voter_count; voter++) {
        struct peer *peer = &quorum->peers[voter];
        if (!able(quorum, peer)) {
            spoil(quorum, peer);
        } else if (peer->good_ns != NEVER &&
                   step_now_ns(quorum) - peer->good_ns > SETTLED_MS * MS_NS) {
            peer->settle_ns = SETTLE_MIN_MS * MS_NS;
        }
    }
    coordinator_review(quorum); /* who fell silent shows here */
    send(quorum);
    quorum->beat_ns = step_now_ns(quorum) + QUORUM_BEAT_MS * MS_NS;
    return quorum->beat_ns;
}

/* Returns how old the newest of the own beats that it had echoed was, if it echoes a newer one;
 * else 0. */
static int64_t note_echo(struct quorum *quorum, struct peer *peer, uint64_t echo)
{
    if (echo == 0 || echo > quorum->beat_number || quorum->beat_number - echo >= BEATS_KEPT) {
        return 0;
    }
    int64_t before_ns = peer->echoed_ns;
    int64_t sent_ns = quorum->beat_sent_ns[echo % BEATS_KEPT];
    peer->echoed_ns = sent_ns > before_ns ? sent_ns : before_ns;
    return sent_ns > before_ns && before_ns != INT64_MIN ? step_now_ns(quorum) - before_ns : 0;
}

void beat_receive(struct quorum *quorum, const struct message *message)
{
    const struct message_beat *beat = &message->as.beat;
    uint32_t voter = 0;
    if (!agents_voter(quorum, message, &voter) || voter == quorum->config->self) {
        return;
    }
    struct peer *peer = &quorum->peers[voter];
    bool other = peer->number == 0 || beat->number > peer->number + BEAT_JUMP_MAX ||
                 beat->number + BEAT_JUMP_MAX < peer->number;
    if (!other && beat->number <= peer->number) {
        return; /* late, or again */
    }
    bool had_majority = beat_majority(quorum);
    bool was_able = able(quorum, peer);
    bool counted = beat_counts(quorum, voter);
    if (other) {
        forget(peer);
        peer->first_ns = step_now_ns(quorum);
    }
    bool same = counted == beat->majority &&
                memcmp(&peer->owned, &beat->owned, sizeof(beat->owned)) == 0;
    peer->number = beat->number;
    peer->heard_ns = step_now_ns(quorum);
    peer->votes = beat->votes;
    peer->majority = beat->majority;
    peer->had_majority = peer->had_majority || beat->majority;
    peer->owned = beat->owned;
    patience_echoed(quorum, voter, note_echo(quorum, peer, beat->echo));
    bool good = able(quorum, peer) && peer->majority;
    if (!good) {
        spoil(quorum, peer);
    } else if (peer->good_ns == NEVER) {
        peer->good_ns = step_now_ns(quorum);
    }
    if (!had_majority && beat_majority(quorum)) {
        beat_soon(quorum);
        sweep_behind(quorum); /* who knows how long it heard nobody */
        same = false;
    }
    if (!same || was_able != able(quorum, peer)) {
        coordinator_review(quorum);
        handover_claims(quorum, voter);
    }
}

void beat_link(struct quorum *quorum, uint32_t voter, bool up)
{
    if (voter >= quorum->config->voter_count || voter == quorum->config->self) {
        return;
    }
    struct peer *peer = &quorum->peers[voter];
    if (up) {
        if (peer->broken) {
            peer->broken = false;
            beat_soon(quorum);
        }
        return;
    }
    peer->broken = true;
    forget(peer);
    peer->heard_ns = INT64_MIN;
    coordinator_review(quorum);
}
