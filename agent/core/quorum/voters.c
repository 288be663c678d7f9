/*
 * Heartbeats between voters. See voters.h.
 *
 * A heartbeat names the partitions that its sender has prepared, and echoes the receiver's last
 * heartbeat. From these echoes a voter knows whether a majority received its heartbeats lately. It
 * reports this in its own heartbeats.
 *
 * At the start no voter is suspected. Otherwise, in a cell whose voters start one after the other,
 * partitions would be taken over and handed back needlessly. But a voter that was added by a change
 * can coordinate only when its heartbeats say so. Until then the others keep its partitions.
 */
#include "voters.h"

#include <string.h>

#include "proto/check.h"
#include "reactions.h"
#include "voters_private.h"

enum {
    GAP_MS = 5, /* the least time between two heartbeats */
    /* a heartbeat whose number differs from the last one's by more than this is from another
     * process */
    JUMP_MAX = 1 << 20,
    LATE_MS = 20, /* a step that comes later than this means that this process did not run */
    /* after a late step, this voter reads messages for this long before it suspects others */
    EXCUSED_MS = 20,
    SLEPT_MS = QUORUM_TAKEOVER_MS - QUORUM_HEARTBEAT_MS,
    SETTLE_MIN_MS = 1000, /* how long a voter has to be able to coordinate before it gets its
                            * partitions back */
    /* the longest such time, for a voter that falls silent again and again */
    SETTLE_MAX_MS = 32000,
    /* voters_missing() counts a voter after this silence. It is longer than the shortest suspicion
     * timeout, because the display should not change with each late heartbeat. It is shorter than a
     * try for a lock (1 s), so that a failed try can report the reason. */
    MISSING_MS = 2 * QUORUM_TAKEOVER_MS,
    /* after a voter was able to coordinate for this long, SETTLE_MIN_MS is enough again */
    SETTLED_MS = 60000,
};
_Static_assert((int)HEARTBEATS_KEPT *(int)GAP_MS > (int)QUORUM_SUSPICION_MAX_MS, "none is missed");

struct voters *voters_lay_out(struct arena *arena)
{
    return arena_take(arena, 1, sizeof(struct voters));
}

void voters_init(struct quorum *quorum)
{
    struct voters *voters = quorum->voters;
    voters->next_ns = NEVER;
    voters->idle_until_ns = INT64_MIN;
}

static bool recent(const struct quorum *quorum, int64_t when_ns)
{
    return when_ns != INT64_MIN && step_now_ns(quorum) - when_ns <= quorum->voters->timeout_ns;
}

/* Returns whether the voter's process seems to run, and its link works. */
static bool alive(const struct quorum *quorum, const struct other_voter *other)
{
    return !other->broken &&
           (recent(quorum, other->seen_ns) || step_now_ns(quorum) < other->excused_ns);
}

/* Returns whether that voter can coordinate, as far as is known. A voter that has not reported a
 * majority yet gets time to find one: the cell may just be starting. */
static bool able(const struct quorum *quorum, const struct other_voter *other)
{
    if (!alive(quorum, other)) {
        return false;
    }
    if (other->joined) {
        return other->votes && other->majority;
    }
    if (other->number == 0) {
        return true; /* at the start no voter is suspected */
    }
    return (other->votes && other->majority) ||
           (!other->had_majority && recent(quorum, other->first_ns));
}

bool voters_claims_count(const struct quorum *quorum, uint32_t voter)
{
    const struct other_voter *other = &quorum->voters->others[voter];
    return voter != quorum->config->self && other->number != 0 && other->majority &&
           alive(quorum, other);
}

bool voters_majority(const struct quorum *quorum)
{
    uint32_t count = quorum->config->self != QUORUM_NO_VOTER;
    for (uint32_t voter = 0; voter < quorum->config->voter_count; voter++) {
        const struct other_voter *other = &quorum->voters->others[voter];
        count += voter != quorum->config->self && !other->broken && other->number != 0 &&
                 other->votes && recent(quorum, other->echoed_ns);
    }
    return count >= rules_majority(quorum);
}

/* Returns whether this voter's heartbeats are to report a majority. A voter that must not
 * coordinate reports none. Then the others replace it at once, although its link still works. */
static bool may_coordinate(const struct quorum *quorum)
{
    return voters_majority(quorum) && !quorum->voters->resigned &&
           step_now_ns(quorum) >= quorum->voters->idle_until_ns;
}

static bool self_able(const struct quorum *quorum)
{
    return may_coordinate(quorum) && step_started(quorum) && reaction_votes(quorum);
}

bool voters_self_able(const struct quorum *quorum)
{
    return self_able(quorum);
}

uint8_t voters_leaving(const struct quorum *quorum)
{
    uint32_t own = reaction_leaves(quorum);
    uint32_t mask = own != 0 ? 1u << (own - 1) : 0;
    for (uint32_t voter = 0; voter < quorum->config->voter_count; voter++) {
        const struct other_voter *other = &quorum->voters->others[voter];
        if (voter != quorum->config->self && other->leaves != 0 && alive(quorum, other)) {
            mask |= 1u << (other->leaves - 1);
        }
    }
    return (uint8_t)mask;
}

uint8_t voters_able(const struct quorum *quorum)
{
    uint8_t mask = 0;
    for (uint32_t voter = 0; voter < quorum->config->voter_count; voter++) {
        bool good = voter == quorum->config->self ? self_able(quorum)
                                                  : able(quorum, &quorum->voters->others[voter]);
        mask |= (uint8_t)(good << voter);
    }
    uint8_t stay = (uint8_t)(mask & ~voters_leaving(quorum));
    return stay != 0 ? stay : mask;
}

static void forget(struct other_voter *other)
{
    other->number = 0;
    other->first_ns = INT64_MIN;
    other->echoed_ns = INT64_MIN;
    other->good_ns = NEVER;
    memset(&other->owned, 0, sizeof(other->owned));
    other->leaves = 0;
    other->votes = false;
    other->majority = false;
    other->had_majority = false;
    other->excused_ns = INT64_MIN;
    other->settle_ns = SETTLE_MIN_MS * MS_NS;
    other->passed_ns = INT64_MIN;
    memset(&other->lag, 0, sizeof(other->lag));
}

/* Notes that the voter cannot coordinate now. If it was able to coordinate for settle_ns, doubles
 * settle_ns. Without that, a voter that falls silent every few seconds would lose all its
 * partitions and get them back each time. */
static void spoil(struct quorum *quorum, struct other_voter *other)
{
    if (other->good_ns != NEVER && step_now_ns(quorum) - other->good_ns >= other->settle_ns) {
        other->settle_ns *= 2;
        if (other->settle_ns > SETTLE_MAX_MS * MS_NS) {
            other->settle_ns = SETTLE_MAX_MS * MS_NS;
        }
    }
    other->good_ns = NEVER;
}

bool voters_settled(const struct quorum *quorum, uint32_t voter)
{
    const struct other_voter *other = &quorum->voters->others[voter];
    return other->good_ns != NEVER && step_now_ns(quorum) - other->good_ns >= other->settle_ns;
}

void voters_start(struct quorum *quorum)
{
    quorum->voters->slept_ns = INT64_MIN;
    quorum->voters->next_ns = NEVER;
    voters_detector_start(quorum);
    quorum->voters->number = (step_random(quorum) >> 8) +
                             /* random and never 0, so that the numbers differ from those of the
                              * last process */
                             1;
    for (uint32_t i = 0; i < HEARTBEATS_KEPT; i++) {
        quorum->voters->sent_ns[i] = INT64_MIN;
    }
    for (uint32_t voter = 0; voter < quorum->config->voter_count; voter++) {
        forget(&quorum->voters->others[voter]);
        quorum->voters->others[voter].seen_ns = step_now_ns(quorum);
    }
    quorum->voters->last_ns = INT64_MIN;
    voters_heartbeat_soon(quorum);
}

void voters_follow(struct quorum *quorum, const struct succession *succession)
{
    struct voters *voters = quorum->voters;
    struct other_voter room[MESSAGE_VOTERS_MAX];
    succession_move(succession, voters->others, sizeof(voters->others[0]), room);
    for (uint32_t voter = 0; voter < succession->count; voter++) {
        voters->others[voter].leaves = 0;
        if (succession->from[voter] == SUCCESSION_NONE) {
            forget(&voters->others[voter]);
            voters->others[voter].seen_ns = step_now_ns(quorum);
            voters->others[voter].joined = true;
        }
    }
    memset(&voters->given_up, 0, sizeof(voters->given_up));
    voters_heartbeat_soon(quorum);
}

void voters_late(struct quorum *quorum, int64_t late_ns, int64_t now_ns)
{
    if (late_ns < LATE_MS * MS_NS) {
        return;
    }
    quorum->voters->slept_ns = late_ns >= SLEPT_MS * MS_NS ? now_ns : quorum->voters->slept_ns;
    for (uint32_t voter = 0; voter < quorum->config->voter_count; voter++) {
        struct other_voter *other = &quorum->voters->others[voter];
        if (voter != quorum->config->self && recent(quorum, other->seen_ns)) {
            other->excused_ns = now_ns + EXCUSED_MS * MS_NS;
        }
    }
}

bool voters_all_seen(const struct quorum *quorum)
{
    for (uint32_t voter = 0; voter < quorum->config->voter_count; voter++) {
        const struct other_voter *other = &quorum->voters->others[voter];
        if (voter != quorum->config->self && !other->broken && other->number == 0) {
            return false;
        }
    }
    return true;
}

void voters_heartbeat_soon(struct quorum *quorum)
{
    if (quorum->config->voter_count == 1) {
        return;
    }
    int64_t when_ns = step_now_ns(quorum);
    if (quorum->voters->last_ns != INT64_MIN &&
        when_ns < quorum->voters->last_ns + GAP_MS * MS_NS) {
        when_ns = quorum->voters->last_ns + GAP_MS * MS_NS;
    }
    if (when_ns < quorum->voters->next_ns) {
        quorum->voters->next_ns = when_ns;
        step_schedule(quorum, when_ns);
    }
}

static void send(struct quorum *quorum)
{
    struct message_heartbeat heartbeat = {
        .number = ++quorum->voters->number,
        .majority = may_coordinate(quorum),
    };
    reaction_fill_heartbeat(quorum, &heartbeat);
    quorum->voters->sent_ns[heartbeat.number % HEARTBEATS_KEPT] = step_now_ns(quorum);
    quorum->voters->last_ns = step_now_ns(quorum);
    for (uint32_t voter = 0; voter < quorum->config->voter_count; voter++) {
        if (voter != quorum->config->self && quorum->config->self != QUORUM_NO_VOTER) {
            heartbeat.echo = quorum->voters->others[voter].number;
            agents_send_voter(quorum, voter, MESSAGE_HEARTBEAT)->as.heartbeat = heartbeat;
        }
    }
}

int64_t voters_tick(struct quorum *quorum)
{
    if (quorum->config->voter_count == 1) {
        quorum->voters->next_ns = NEVER;
    }
    if (quorum->voters->next_ns > step_now_ns(quorum)) {
        return quorum->voters->next_ns;
    }
    if (!step_has_room(quorum, MESSAGE_VOTERS_MAX)) {
        return step_now_ns(quorum);
    }
    voters_detector_tick(quorum);
    for (uint32_t voter = 0; voter < quorum->config->voter_count; voter++) {
        struct other_voter *other = &quorum->voters->others[voter];
        if (!able(quorum, other)) {
            spoil(quorum, other);
        } else if (other->good_ns != NEVER &&
                   step_now_ns(quorum) - other->good_ns > SETTLED_MS * MS_NS) {
            other->settle_ns = SETTLE_MIN_MS * MS_NS;
        }
    }
    reaction_voters_changed(quorum); /* finds the voters that have fallen silent */
    send(quorum);
    quorum->voters->next_ns = step_now_ns(quorum) + QUORUM_HEARTBEAT_MS * MS_NS;
    return quorum->voters->next_ns;
}

/* Notes an echo. If the echoed heartbeat is newer than the one that the voter echoed before,
 * returns the age of that earlier heartbeat in nanoseconds. Otherwise returns 0. */
static int64_t note_echo(struct quorum *quorum, struct other_voter *other, uint64_t echo)
{
    if (echo == 0 || echo > quorum->voters->number ||
        quorum->voters->number - echo >= HEARTBEATS_KEPT) {
        return 0;
    }
    int64_t before_ns = other->echoed_ns;
    int64_t sent_ns = quorum->voters->sent_ns[echo % HEARTBEATS_KEPT];
    other->echoed_ns = sent_ns > before_ns ? sent_ns : before_ns;
    return sent_ns > before_ns && before_ns != INT64_MIN ? step_now_ns(quorum) - before_ns : 0;
}

/* Returns whether the heartbeat's number shows another process than the last heartbeat's. */
static bool is_another(const struct other_voter *other, const struct message_heartbeat *heartbeat)
{
    return heartbeat->number > other->number + JUMP_MAX ||
           heartbeat->number + JUMP_MAX < other->number;
}

bool voters_is_another(const struct quorum *quorum, const struct message *message)
{
    uint32_t voter = 0;
    return agents_voter(quorum, message, &voter) &&
           is_another(&quorum->voters->others[voter], &message->as.heartbeat);
}

void voters_receive(struct quorum *quorum, const struct message *message)
{
    const struct message_heartbeat *heartbeat = &message->as.heartbeat;
    uint32_t voter = 0;
    if (!agents_voter(quorum, message, &voter) || voter == quorum->config->self) {
        return;
    }
    struct other_voter *other = &quorum->voters->others[voter];
    bool another = other->number == 0 || is_another(other, heartbeat);
    if (!another && heartbeat->number <= other->number) {
        return; /* a heartbeat that arrives late, or twice */
    }
    bool had_majority = voters_majority(quorum);
    bool was_able = able(quorum, other);
    bool counted = voters_claims_count(quorum, voter);
    if (another) {
        forget(other);
        other->first_ns = step_now_ns(quorum);
    }
    /* If the sender uses another record, that record may have removed the voter that was leaving.
     * That voter counts as leaving until this voter uses the record, too. */
    bool says = reaction_same_voters(quorum, message) &&
                heartbeat->leaves <= quorum->config->voter_count;
    uint32_t leaves = says ? heartbeat->leaves : other->leaves;
    bool same = counted == heartbeat->majority && other->leaves == leaves &&
                memcmp(&other->owned, &heartbeat->owned, sizeof(heartbeat->owned)) == 0;
    other->number = heartbeat->number;
    other->seen_ns = step_now_ns(quorum);
    other->votes = heartbeat->votes;
    other->majority = heartbeat->majority;
    other->had_majority = other->had_majority || heartbeat->majority;
    other->joined = other->joined && !(heartbeat->votes && heartbeat->majority);
    other->owned = heartbeat->owned;
    other->leaves = leaves;
    voters_detector_echoed(quorum, voter, note_echo(quorum, other, heartbeat->echo));
    bool good = able(quorum, other) && other->majority;
    if (!good) {
        spoil(quorum, other);
    } else if (other->good_ns == NEVER) {
        other->good_ns = step_now_ns(quorum);
    }
    if (!had_majority && voters_majority(quorum)) {
        voters_heartbeat_soon(quorum);
        reaction_majority_found(quorum);
        same = false;
    }
    if (!same || was_able != able(quorum, other)) {
        reaction_voters_changed(quorum);
        reaction_claims_changed(quorum, voter);
    }
}

void voters_link(struct quorum *quorum, uint32_t voter, bool up)
{
    if (voter >= quorum->config->voter_count || voter == quorum->config->self) {
        return;
    }
    struct other_voter *other = &quorum->voters->others[voter];
    if (up) {
        if (other->broken) {
            other->broken = false;
            voters_heartbeat_soon(quorum);
        }
        return;
    }
    other->broken = true;
    forget(other);
    other->seen_ns = INT64_MIN;
    reaction_voters_changed(quorum);
}

/* ---- Questions of other modules ---- */

bool voters_heartbeats_arrive(const struct quorum *quorum, uint32_t voter)
{
    const struct other_voter *other = &quorum->voters->others[voter];
    return voter == quorum->config->self ||
           (!other->broken && other->number != 0 &&
            step_now_ns(quorum) - other->seen_ns <= quorum->voters->timeout_ns);
}

bool voters_vote(const struct quorum *quorum, uint32_t voter)
{
    const struct other_voter *other = &quorum->voters->others[voter];
    return voter == quorum->config->self ||
           (voters_heartbeats_arrive(quorum, voter) && (other->number == 0 || other->votes));
}

/* The silence is measured up to the last step, so a stop of this process makes no voter missing. */
static bool is_missing(const struct quorum *quorum, uint32_t voter)
{
    const struct other_voter *other = &quorum->voters->others[voter];
    return voter != quorum->config->self && !alive(quorum, other) &&
           (other->broken ||
            (other->number != 0 && step_now_ns(quorum) - other->seen_ns > MISSING_MS * MS_NS));
}

uint8_t voters_missing(const struct quorum *quorum)
{
    uint8_t missing = 0;
    uint32_t left = 0;
    for (uint32_t voter = 0; voter < quorum->config->voter_count; voter++) {
        bool gone = is_missing(quorum, voter);
        missing |= (uint8_t)(gone << voter);
        left += !gone;
    }
    return left < rules_majority(quorum) ? missing : 0;
}

int64_t voters_slept_ns(const struct quorum *quorum)
{
    return quorum->voters->slept_ns;
}

bool voters_claim(const struct quorum *quorum, uint32_t voter, uint32_t partition)
{
    return message_partition_has(&quorum->voters->others[voter].owned, partition);
}

uint32_t voters_claimant(const struct quorum *quorum, uint32_t partition, uint32_t except)
{
    uint32_t voter = 0;
    for (; voter < quorum->config->voter_count; voter++) {
        if (voter != except && voters_claims_count(quorum, voter) &&
            voters_claim(quorum, voter, partition)) {
            break;
        }
    }
    return voter;
}

bool voters_claimed(const struct quorum *quorum, uint32_t partition, uint32_t except)
{
    return voters_claimant(quorum, partition, except) < quorum->config->voter_count;
}

void voters_resign(struct quorum *quorum)
{
    quorum->voters->resigned = true;
}

bool voters_resigned(const struct quorum *quorum)
{
    return quorum->voters->resigned;
}

int64_t voters_idle_until_ns(const struct quorum *quorum)
{
    return quorum->voters->idle_until_ns;
}

void voters_note_passed(struct quorum *quorum, uint32_t voter)
{
    quorum->voters->others[voter].passed_ns = step_now_ns(quorum);
}

bool voters_echo_is_due(const struct quorum *quorum, uint32_t voter)
{
    const struct other_voter *other = &quorum->voters->others[voter];
    return voters_heartbeats_arrive(quorum, voter) && other->passed_ns != INT64_MIN &&
           other->echoed_ns <= other->passed_ns;
}
