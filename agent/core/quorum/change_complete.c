/*
 * Finds out when a number is complete. See change.h.
 *
 * Each voter checks the following by itself, and begins anew when it restarts:
 *
 *   1. A majority of the previous number uses the present one, so no majority votes under the
 *      previous number any more. A message that waited for its sender's disk shows which number the
 *      sender uses.
 *   2. A majority of the present number is guarded (m14): it ends no session whose lease a majority
 *      of the previous number may have extended. A voter is guarded when it has counted every
 *      session as just renewed after it knew that 1 holds, or when a session time-to-live, counted
 *      long, has passed since it knew that. It lists its marks under an incomplete number only when
 *      it is guarded.
 *   3. Every partition was prepared at a majority of the present number under a ballot that began
 *      under it, and what that majority held is at a majority of the present number (m8). The
 *      coordinators find that out (sync.c) and report it in their heartbeats.
 *   4. The marks of sessions are settled (m15): for each epoch that any voter has marked, a
 *      majority has the mark, or a majority of guarded voters has reported under the present number
 *      that it has no mark. If neither is so, this voter asks the others to mark that epoch, too.
 *      They do so only if the session has lapsed by their own clocks.
 *
 * If every session counts as just renewed, a session that is over ends up to one time-to-live
 * later. If each of many changes did this, such a session would never end. So a voter does it for
 * at most two changes (a replacement is two changes) within any three time-to-lives. For further
 * changes it waits.
 */
#include <string.h>

#include "change_private.h"
#include "proto/check.h"
#include "reactions.h"

enum {
    LOOK_MS = 100,
    ASK_MS = 500,  /* how often lists of marks are read again, and MARK is repeated */
    PUSH_MAX = 16, /* the most epochs to push in one step */
    GUARD_TTLS = 3,
};

/* Returns whether this present voter was a voter of the previous number, too. All were, except the
 * voter that ADD added. */
static bool was_voter(const struct message_voters *now, uint32_t voter)
{
    return now->act != MESSAGE_MEMBER_ADD ||
           memcmp(&now->of[voter].name, &now->changed, sizeof(now->changed)) != 0;
}

static uint32_t count_before(const struct message_voters *now)
{
    return now->act == MESSAGE_MEMBER_ADD      ? now->count - 1
           : now->act == MESSAGE_MEMBER_REMOVE ? now->count + 1
                                               : now->count;
}

/* m7, first part: returns whether a majority of the previous number uses the present number. */
static bool majority_knows(const struct quorum *quorum)
{
    const struct message_voters *now = members_voters(quorum);
    const struct completion *completion = &quorum->changes->completion;
    uint32_t count = now->act == MESSAGE_MEMBER_REMOVE && completion->removed_knows;
    for (uint32_t voter = 0; voter < now->count; voter++) {
        count += was_voter(now, voter) && (completion->knows >> voter & 1) != 0;
    }
    return count >= count_before(now) / 2 + 1;
}

static void note_version(struct quorum *quorum, const struct message *message)
{
    uint32_t agent = 0;
    if (agents_find(quorum, &message->from, &agent)) {
        quorum->changes->older_ns[agent] = message->number == 0 ? step_now_ns(quorum) : 0;
    }
}

/* Counts every session as just renewed, unless this voter has done so for two changes lately. */
static void guard(struct quorum *quorum)
{
    int64_t *guarded_ns = quorum->changes->guarded_ns;
    int64_t long_ns = GUARD_TTLS * rules_long_ns(quorum, quorum->config->session_ttl_ns);
    if (guarded_ns[0] == 0 || step_now_ns(quorum) - guarded_ns[0] > long_ns) {
        guarded_ns[0] = guarded_ns[1];
        guarded_ns[1] = step_now_ns(quorum);
        quorum->changes->completion.guarded = true;
        sessions_guard(quorum);
    }
}

bool change_is_guarded(const struct quorum *quorum)
{
    const struct completion *completion = &quorum->changes->completion;
    return members_voters(quorum)->complete || completion->guarded ||
           (completion->since_ns != 0 && step_now_ns(quorum) - completion->since_ns >
                                             rules_long_ns(quorum, quorum->config->session_ttl_ns));
}

void change_note(struct quorum *quorum, const struct message *message)
{
    const struct message_voters *now = members_voters(quorum);
    struct completion *completion = &quorum->changes->completion;
    uint32_t voter = 0;
    note_version(quorum, message);
    if (now->complete || !quorum_waits_for_disk(message->kind) || message->number == 0 ||
        !members_same_voters(quorum, message)) {
        return;
    }
    if (agents_voter(quorum, message, &voter)) {
        completion->knows |= (uint8_t)(1u << voter);
    } else if (now->act == MESSAGE_MEMBER_REMOVE &&
               memcmp(&message->from, &now->changed, sizeof(message->from)) == 0) {
        completion->removed_knows = true;
    }
    if (completion->since_ns == 0 && majority_knows(quorum)) {
        completion->since_ns = step_now_ns(quorum);
        guard(quorum);
        completion->next_ns = step_now_ns(quorum);
        step_schedule(quorum, step_now_ns(quorum));
    }
}

void change_count_anew(struct quorum *quorum)
{
    struct completion *completion = &quorum->changes->completion;
    if (completion->since_ns != 0) {
        completion->since_ns = step_now_ns(quorum);
    }
    if (completion->guarded) {
        sessions_guard(quorum);
    }
}

void change_heartbeat(struct quorum *quorum, const struct message *message)
{
    struct completion *completion = &quorum->changes->completion;
    uint32_t voter = 0;
    if (members_voters(quorum)->complete || message->number == 0 ||
        !members_same_voters(quorum, message) || !agents_voter(quorum, message, &voter)) {
        return;
    }
    for (uint32_t i = 0; i < MESSAGE_PARTITIONS / 64; i++) {
        completion->settled.bits[i] |= message->as.heartbeat.settled.bits[i];
    }
}

static bool all_settled(struct quorum *quorum)
{
    struct completion *completion = &quorum->changes->completion;
    bool all = true;
    for (uint32_t p = 0; p < MESSAGE_PARTITIONS; p++) {
        if (sync_is_settled(quorum, p)) {
            message_partition_add(&completion->settled, p);
        }
        all = all && message_partition_has(&completion->settled, p);
    }
    return all;
}

/* ---- Marks ---- */

static void note_mark(struct quorum *quorum, uint32_t voter, const struct message_agent *name,
                      uint32_t epoch)
{
    uint32_t agent = 0;
    if (!agents_make(quorum, name, &agent)) {
        quorum->changes->completion.lacking |= (uint8_t)(1u << voter);
    } else if (epoch > quorum->changes->epochs[agent][voter]) {
        quorum->changes->epochs[agent][voter] = epoch;
    }
}

void change_agent_named(struct quorum *quorum, uint32_t agent)
{
    struct change *changes = quorum->changes;
    changes->older_ns[agent] = 0;
    for (uint32_t voter = 0; voter < MESSAGE_VOTERS_MAX; voter++) {
        if (changes->epochs[agent][voter] != 0) {
            changes->epochs[agent][voter] = 0;
            changes->completion.listed = 0; /* what was read about the agent that had this index is
                                             * lost */
        }
    }
}

void change_mark_seen(struct quorum *quorum, uint32_t voter, const struct message_session *mark)
{
    note_mark(quorum, voter, &mark->agent, mark->epoch);
}

void change_marks_read(struct quorum *quorum, uint32_t voter)
{
    struct completion *completion = &quorum->changes->completion;
    uint8_t bit = (uint8_t)(1u << voter);
    completion->listed |= bit & (uint8_t)~completion->lacking;
    completion->lacking &= (uint8_t)~bit;
    completion->next_ns = step_now_ns(quorum);
    step_schedule(quorum, step_now_ns(quorum));
}

void change_marked(struct quorum *quorum, const struct message *message)
{
    const struct message_session_answer *marked = &message->as.session_answer;
    uint32_t voter = 0;
    if (!members_voters(quorum)->complete && marked->yes && agents_voter(quorum, message, &voter)) {
        note_mark(quorum, voter, &marked->agent, marked->epoch);
    }
}

/* Returns an epoch of the agent for which the marks are not settled; 0 if there is none. */
static uint32_t unsettled(const struct quorum *quorum, uint32_t agent)
{
    const uint32_t *epochs = quorum->changes->epochs[agent];
    uint8_t listed = quorum->changes->completion.listed;
    for (uint32_t i = 0; i < quorum->config->voter_count; i++) {
        uint8_t marked = 0;
        uint8_t none = 0;
        for (uint32_t voter = 0; epochs[i] != 0 && voter < quorum->config->voter_count; voter++) {
            uint8_t bit = (uint8_t)(1u << voter);
            marked |= epochs[voter] >= epochs[i] ? bit : 0;
            none |= epochs[voter] < epochs[i] && (listed & bit) != 0 ? bit : 0;
        }
        if (epochs[i] != 0 && !rules_is_majority(quorum, marked) &&
            !rules_is_majority(quorum, none)) {
            return epochs[i];
        }
    }
    return 0;
}

/* Asks the voters that have not marked the epoch to do so, if it has lapsed by their clocks. */
static void push(struct quorum *quorum, uint32_t agent, uint32_t epoch)
{
    for (uint32_t voter = 0; voter < quorum->config->voter_count; voter++) {
        if (quorum->changes->epochs[agent][voter] < epoch) {
            struct message_session *session =
                &agents_send_voter(quorum, voter, MESSAGE_MARK)->as.session;
            session->agent = *agents_name(quorum, agent);
            session->epoch = epoch;
        }
    }
}

/* Returns whether the marks of all voters that answer were read. A store that starts over does not
 * answer, and waits for the number to be complete. */
static bool all_listed(const struct quorum *quorum)
{
    uint8_t listed = quorum->changes->completion.listed;
    for (uint32_t voter = 0; voter < quorum->config->voter_count; voter++) {
        if ((listed >> voter & 1) == 0 && voters_vote(quorum, voter)) {
            return false;
        }
    }
    return rules_is_majority(quorum, listed);
}

/* Returns whether the marks of all agents are settled. If not, pushes some of those that are
 * not. */
static bool marks_are_settled(struct quorum *quorum)
{
    uint32_t pushed = 0;
    bool all = all_listed(quorum);
    for (uint32_t agent = 0; all && agent < agents_count(quorum) && pushed < PUSH_MAX; agent++) {
        uint32_t epoch = unsettled(quorum, agent);
        if (epoch != 0 && step_has_room(quorum, 4 * MESSAGE_VOTERS_MAX)) {
            push(quorum, agent, epoch);
        }
        pushed += epoch != 0;
    }
    return all && pushed == 0;
}

static void read_marks(struct quorum *quorum)
{
    for (uint32_t voter = 0; voter < quorum->config->voter_count; voter++) {
        if ((quorum->changes->completion.listed >> voter & 1) == 0) {
            sync_read_marks(quorum, voter);
        }
    }
}

/* ---- Time ---- */

int64_t completion_tick(struct quorum *quorum)
{
    struct completion *completion = &quorum->changes->completion;
    if (members_voters(quorum)->complete || !members_votes(quorum)) {
        return NEVER;
    }
    if (completion->next_ns > step_now_ns(quorum)) {
        return completion->next_ns;
    }
    if (!step_has_room(quorum, 8 * MESSAGE_VOTERS_MAX)) {
        return step_now_ns(quorum);
    }
    bool settled = all_settled(quorum);
    completion->next_ns = step_now_ns(quorum) + LOOK_MS * MS_NS;
    if (settled && majority_knows(quorum) && change_is_guarded(quorum)) {
        completion->next_ns = step_now_ns(quorum) + ASK_MS * MS_NS;
        read_marks(quorum);
        if (marks_are_settled(quorum)) {
            members_complete(quorum);
            return NEVER;
        }
    }
    return completion->next_ns;
}
