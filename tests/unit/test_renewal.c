/* The host's side of its session: until when its lease is in force. The lease begins at the sending
 * of a renewal, not at the arrival of its answer (a bug of etcd's Go client). */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "../suite_main.h"
#include "core/base/message_check.h"
#include "core/session/renewal.h"

#define MS INT64_C(1000000)

static const int64_t TTL = 3000 * MS;
static const int64_t LEASE = 2700 * MS; /* shorter than the ttl by 10 % */
static const int64_t GRACE = 1000 * MS;

static struct renewal *renewal;
static struct action items[RENEWAL_ACTIONS];
static struct actions actions;
static int64_t now;

static bool asks_epoch;
/* the record of voters in the header of the test's answers; NULL: an older version */
static const struct message_voters *answering;

static void start(uint32_t voters, bool adopted)
{
    struct renewal_config config = {.voter_count = voters,
                                    .session_ttl_ns = TTL,
                                    .grace_period_ns = GRACE,
                                    .max_drift_percent = 10,
                                    .asks_epoch = asks_epoch,
                                    .rules = 4711,
                                    .advertise = "tcp://10.0.0.1:7411"};
    struct message header;
    memset(&header, 0, sizeof(header));
    message_agent_set(&header.from, "me", 2);
    for (uint32_t i = 0; i < voters; i++) {
        char text[2] = {'v', (char)('0' + i)};
        message_agent_set(&config.voters[i], text, 2);
    }
    now = 5000 * MS;
    answering = NULL;
    actions = (struct actions){.items = items, .capacity = RENEWAL_ACTIONS};
    free(renewal);
    renewal = renewal_init(malloc(renewal_size()), &config, &header);
    ck_assert_int_eq(renewal_next_tick_ns(renewal, now), INT64_MAX);
    renewal_start(renewal, 4, adopted, now, 12345, &actions);
}

/* Returns the id of the latest renewal to a voter, or 0 if there is none. Empties the list of
 * actions. */
static uint64_t sent(uint32_t voter)
{
    uint64_t id = 0;
    for (uint32_t i = 0; i < actions.count; i++) {
        const struct action *action = &items[i];
        ck_assert_int_eq(action->kind, ACTION_SEND);
        ck_assert(message_valid(&action->as.send.message));
        uint32_t epoch = action->as.send.message.as.renew.epoch;
        ck_assert(epoch == 4 || (asks_epoch && epoch == 0));
        ck_assert_uint_eq(action->as.send.message.as.renew.rules, 4711);
        ck_assert_str_eq(action->as.send.message.as.renew.advertise, "tcp://10.0.0.1:7411");
        if (action->as.send.to == (ACTION_VOTER | voter)) {
            id = action->as.send.message.as.renew.renewal_id;
        }
    }
    return id;
}

static void ack_as(uint32_t voter, uint64_t id, bool extended, uint32_t ended_epoch, uint32_t epoch)
{
    struct message message;
    char text[2] = {'v', (char)('0' + voter)};
    memset(&message, 0, sizeof(message));
    message.kind = MESSAGE_RENEW_ACK;
    message_agent_set(&message.from, text, 2);
    message_agent_set(&message.as.renew_ack.agent, "me", 2);
    message.as.renew_ack.epoch = epoch;
    message.as.renew_ack.renewal_id = id;
    message.as.renew_ack.echo.incarnation = 1;
    message.as.renew_ack.echo.issued_ns = now;
    message.as.renew_ack.extended = extended;
    message.as.renew_ack.ended_epoch = ended_epoch;
    if (answering != NULL) {
        message.number = answering->number;
        message.digest = message_voters_digest(answering);
    }
    renewal_acked(renewal, &message, now, &actions);
}

static void ack(uint32_t voter, uint64_t id, bool extended)
{
    ack_as(voter, id, extended, 0, 4);
}

static uint64_t next_round(uint32_t voter)
{
    now = renewal_next_tick_ns(renewal, now);
    actions.count = 0;
    renewal_tick(renewal, now, &actions);
    return sent(voter);
}

START_TEST(two_renewals_make_it_safe)
{
    start(1, false);
    ck_assert_int_eq(renewal_state(renewal, now), RENEWAL_JEOPARDY);
    uint64_t first = sent(0);
    actions.count = 0;
    now += 10 * MS;
    ack(0, first, false);
    ck_assert_uint_eq(actions.count, 1);
    ck_assert_int_eq(items[0].as.send.message.as.renew.echo.issued_ns, now);
    uint64_t second = sent(0);
    ck_assert_uint_ne(second, first);
    int64_t sent_ns = now;
    actions.count = 0;
    now += 700 * MS;
    ack(0, second, true);
    ck_assert_uint_eq(actions.count, 0);
    ck_assert_int_eq(renewal_deadline_ns(renewal), sent_ns + LEASE);
    ck_assert_int_eq(renewal_state(renewal, sent_ns + LEASE - 1), RENEWAL_SAFE);
    ck_assert_int_eq(renewal_state(renewal, sent_ns + LEASE), RENEWAL_JEOPARDY);
    ck_assert_int_eq(renewal_state(renewal, sent_ns + LEASE + GRACE - 1), RENEWAL_JEOPARDY);
    ck_assert_int_eq(renewal_state(renewal, sent_ns + LEASE + GRACE), RENEWAL_LOST);
    ck_assert(renewal_voter_up(renewal, 0, now));
    ck_assert(!renewal_voter_up(renewal, 0, now + TTL + 1));
}
END_TEST

START_TEST(lease_is_what_a_majority_extended)
{
    start(3, false);
    int64_t first_ns = now;
    uint64_t first = sent(0);
    ack(0, first, true);
    ck_assert_int_eq(renewal_deadline_ns(renewal), 0);
    ack(1, first, true);
    ck_assert_int_eq(renewal_deadline_ns(renewal), first_ns + LEASE);
    uint64_t second = next_round(2);
    int64_t second_ns = now;
    ck_assert_int_eq(second_ns, first_ns + TTL / 3);
    ack(2, second, true);
    ck_assert_int_eq(renewal_deadline_ns(renewal), first_ns + LEASE);
    ack(2, second, true); /* a second answer of the same voter makes no majority */
    ck_assert_int_eq(renewal_deadline_ns(renewal), first_ns + LEASE);
    ack(1, second, false); /* this voter received the renewal, but did not extend the session */
    ck_assert_int_eq(renewal_deadline_ns(renewal), first_ns + LEASE);
    ack(0, second, true);
    ck_assert_int_eq(renewal_deadline_ns(renewal), second_ns + LEASE);
}
END_TEST

START_TEST(who_is_not_safe_tries_more_often)
{
    start(3, false);
    int64_t first_ns = now;
    (void)next_round(0); /* the other voters are not connected yet */
    ck_assert_int_eq(now, first_ns + TTL / 12);
    ack(0, sent(0), true);
    ack(1, sent(1), true);
    ck_assert_int_eq(renewal_state(renewal, now), RENEWAL_SAFE);
    ck_assert_int_eq(renewal_next_tick_ns(renewal, now), now + TTL / 3);
}
END_TEST

START_TEST(strange_answers_count_for_nothing)
{
    start(1, false);
    uint64_t id = sent(0);
    ack(0, id + 1, true);
    ack(0, id - 1, true);
    ack_as(0, id, true, 0, 3);
    ack_as(0, id, true, 0, 5);
    ack(7, id, true);
    ck_assert_int_eq(renewal_deadline_ns(renewal), 0);
    ack(0, id, true);
    ck_assert_int_ne(renewal_deadline_ns(renewal), 0);
}
END_TEST

/* A voter that never extends the lease gets at most one early renewal in each round. */
START_TEST(hurries_once_a_round)
{
    start(1, false);
    uint64_t id = sent(0);
    actions.count = 0;
    ack(0, id, false);
    ck_assert_uint_eq(actions.count, 1);
    id = sent(0);
    actions.count = 0;
    ack(0, id, false);
    ck_assert_uint_eq(actions.count, 0);
    id = next_round(0);
    actions.count = 0;
    ack(0, id, false);
    ck_assert_uint_eq(actions.count, 1);
}
END_TEST

/* A voter that connects again may be a new process, which knows no session and no observer's
 * address. So it gets a renewal at once, not a third of a ttl later. It gets only one in each
 * round: a link that comes and goes must not displace the other renewals under way. */
START_TEST(who_is_connected_anew_is_renewed_with)
{
    start(3, false);
    for (uint32_t voter = 0; voter < 3; voter++) {
        ack(voter, sent(voter), true);
    }
    for (uint32_t round = 0; round < 2; round++) {
        actions.count = 0;
        renewal_link(renewal, 1, true, now, &actions);
        ck_assert_uint_eq(actions.count, 1);
        ck_assert_uint_ne(sent(1), 0);
        ack(1, sent(1), false);
        ck_assert_uint_eq(actions.count, 2);
        ack(1, sent(1), true);
        renewal_link(renewal, 1, true, now, &actions);
        ck_assert_uint_eq(actions.count, 2);
        do {
            (void)next_round(1);
            /* before the round with all three, only this voter gets a renewal */
        } while (actions.count != 3);
    }
    /* In jeopardy all voters get a renewal as soon as any voter connects. */
    now = renewal_deadline_ns(renewal);
    actions.count = 0;
    renewal_tick(renewal, now, &actions);
    actions.count = 0;
    renewal_link(renewal, 1, true, now, &actions);
    ck_assert_uint_eq(actions.count, 0);
    renewal_tick(renewal, now, &actions);
    ck_assert_uint_eq(actions.count, 3);
}
END_TEST

/* An answer from before the present connection does not show that a voter is up. After a voter
 * connects, the host soon and repeatedly sends that voter a renewal, but not for ever. */
START_TEST(up_is_who_answered_since_it_was_connected)
{
    start(3, false);
    for (uint32_t voter = 0; voter < 3; voter++) {
        ack(voter, sent(voter), true);
    }
    ck_assert(renewal_voter_up(renewal, 1, now));
    int64_t round_ns = renewal_next_tick_ns(renewal, now);
    now += 1 * MS;
    int64_t connected_ns = now;
    renewal_link(renewal, 1, true, now, &actions);
    ck_assert(!renewal_voter_up(renewal, 1, now));
    ck_assert(renewal_voter_up(renewal, 2, now));
    for (int64_t count = 1; now + TTL / 12 < round_ns; count++) {
        ck_assert_uint_ne(next_round(1), 0);
        ck_assert_uint_eq(actions.count, 1); /* no other voter gets a renewal */
        ck_assert_int_eq(now, connected_ns + count * TTL / 12);
    }
    ck_assert(!renewal_voter_up(renewal, 1, now));
    ack(1, sent(1), true);
    ck_assert(renewal_voter_up(renewal, 1, now));
    ck_assert_int_eq(renewal_next_tick_ns(renewal, now), round_ns);
    /* A voter that never answers gets early renewals for one ttl. A voter that is not connected
     * gets none. */
    renewal_link(renewal, 1, true, now, &actions);
    connected_ns = now;
    uint32_t alone = 0;
    while (now < connected_ns + 2 * TTL) {
        (void)next_round(1);
        alone += actions.count == 1 && sent(1) != 0;
        ack(0, sent(0), true);
        ack(2, sent(2), true);
    }
    ck_assert_uint_ge(alone, 8);
    ck_assert_uint_le(alone, 12);
    ck_assert_int_gt(renewal_next_tick_ns(renewal, now), now + TTL / 12);
    renewal_link(renewal, 1, true, now, &actions);
    renewal_link(renewal, 1, false, now, &actions);
    ck_assert_int_gt(renewal_next_tick_ns(renewal, now), now + TTL / 12);
}
END_TEST

START_TEST(jeopardy_ends_in_time_or_never)
{
    start(1, false);
    ack(0, sent(0), true);
    int64_t deadline_ns = renewal_deadline_ns(renewal);
    uint64_t id = 0;
    int64_t sent_ns = 0;
    while (now < deadline_ns) {
        if (next_round(0) != 0) {
            id = sent(0);
            sent_ns = now;
        }
    }
    ck_assert_int_eq(renewal_state(renewal, now), RENEWAL_JEOPARDY);
    ack(0, id, true);
    ck_assert_int_eq(renewal_state(renewal, now), RENEWAL_SAFE);
    ck_assert_int_eq(renewal_deadline_ns(renewal), sent_ns + LEASE);
    id = next_round(0);
    now = renewal_deadline_ns(renewal) + GRACE;
    ack(0, id, true); /* the answer comes too late, and extends nothing */
    ck_assert_int_eq(renewal_state(renewal, now), RENEWAL_LOST);
    actions.count = 0;
    renewal_tick(renewal, now + TTL, &actions);
    ck_assert_uint_eq(actions.count, 0);
    ck_assert_int_eq(renewal_state(renewal, 5000 * MS), RENEWAL_LOST);
}
END_TEST

START_TEST(ended_when_a_majority_has_marked)
{
    start(3, false);
    uint64_t id = sent(0);
    for (uint32_t i = 0; i < 3; i++) {
        ack(i, id, true);
    }
    id = next_round(0);
    ack_as(0, id, false, 4, 4);
    ck_assert_int_eq(renewal_state(renewal, now), RENEWAL_SAFE);
    ack_as(1, id, false, 3, 4); /* the voter reports that it has marked an older epoch */
    ck_assert_int_eq(renewal_state(renewal, now), RENEWAL_SAFE);
    ack_as(1, id, false, 4, 4);
    ck_assert_int_eq(renewal_state(renewal, now), RENEWAL_LOST);
    ck_assert_int_eq(renewal_next_tick_ns(renewal, now), INT64_MAX);
}
END_TEST

START_TEST(adopted_session_is_lost_if_nobody_renews_it)
{
    start(1, true);
    ck_assert_int_eq(renewal_state(renewal, now + TTL + GRACE - 1), RENEWAL_JEOPARDY);
    ck_assert_int_eq(renewal_state(renewal, now + TTL + GRACE), RENEWAL_LOST);
    start(1, false);
    ck_assert_int_eq(renewal_state(renewal, now + 100 * TTL), RENEWAL_JEOPARDY);
}
END_TEST

/* An agent whose store was lost, or is an old copy, must not begin a session with the epoch of an
 * earlier session. So it first asks a majority for the highest epoch. */
START_TEST(an_epoch_that_the_voters_know_is_not_begun_again)
{
    asks_epoch = true;
    start(3, false);
    uint64_t id = sent(0);
    ck_assert_uint_eq(items[0].as.send.message.as.renew.epoch, 0);
    ack_as(0, id, false, 4, 0);
    ack_as(0, id, false, 9, 0); /* a second answer of the same voter makes no majority */
    ck_assert_int_eq(renewal_state(renewal, now), RENEWAL_JEOPARDY);
    /* this is an answer about epoch 4, not about the highest epoch */
    ack_as(1, id, true, 0, 4);
    ck_assert_int_eq(renewal_state(renewal, now), RENEWAL_JEOPARDY);
    ack_as(2, id, false, 1, 0);
    ck_assert_int_eq(renewal_state(renewal, now), RENEWAL_LOST);
    ck_assert_uint_eq(renewal_epoch(renewal), 9);
    actions.count = 0;
    /* this process began the epoch, so it need not ask */
    renewal_start(renewal, 10, false, now, 1, &actions);
    ck_assert_uint_eq(items[0].as.send.message.as.renew.epoch, 10);
    asks_epoch = false;
}
END_TEST

START_TEST(an_epoch_that_nobody_knows_begins_when_a_majority_said_so)
{
    asks_epoch = true;
    start(3, false);
    ack_as(0, sent(0), false, 3, 0);
    uint64_t id = next_round(2); /* no other voter answered, so the host asks again */
    ck_assert_uint_eq(items[0].as.send.message.as.renew.epoch, 0);
    actions.count = 0;
    ack_as(2, id, false, 2, 0);
    id = sent(0);
    ck_assert_uint_eq(items[0].as.send.message.as.renew.epoch, 4);
    ck_assert_int_eq(items[0].as.send.message.as.renew.echo.issued_ns, 5000 * MS);
    ack(0, id, true);
    ack(2, id, true);
    ck_assert_int_eq(renewal_state(renewal, now), RENEWAL_SAFE);
    asks_epoch = false;
    start(3, true);
    ck_assert_uint_eq(items[0].as.send.message.as.renew.epoch, 4);
}
END_TEST

/* Of three voters, one knows the epoch from another store, and another one extends the session.
 * Both answer, but the agent gets no lease. After a ttl it gives the epoch up. It does not do so
 * while only a minority answers, because the agent of the other store may have a majority. */
START_TEST(an_epoch_that_gets_no_lease_is_given_up)
{
    for (int majority = 0; majority < 2; majority++) {
        start(3, false);
        int64_t began_ns = now;
        uint64_t id = sent(0);
        while (renewal_state(renewal, now) != RENEWAL_LOST && now < began_ns + 4 * TTL) {
            ack(0, id, true);
            if (majority) {
                ack(1, id, false);
            }
            id = next_round(0);
        }
        bool lost = renewal_state(renewal, now) == RENEWAL_LOST;
        ck_assert_int_eq(lost, majority);
        ck_assert(!lost || (now >= began_ns + TTL && now < began_ns + TTL + TTL / 3));
    }
}
END_TEST

/* For a long time no voter answered. Then their first answers extend nothing. That alone does not
 * make the agent give its epoch up. */
START_TEST(an_epoch_outlasts_the_absence_of_the_voters)
{
    start(3, false);
    for (int64_t began_ns = now; now < began_ns + 3 * TTL;) {
        next_round(0);
    }
    uint64_t id = next_round(0);
    ack(0, id, false);
    ack(1, id, false);
    id = next_round(0);
    ck_assert_int_eq(renewal_state(renewal, now), RENEWAL_JEOPARDY);
    ack(0, id, true);
    ack(1, id, true);
    ck_assert_int_eq(renewal_state(renewal, now), RENEWAL_SAFE);
}
END_TEST

/* A host must not trust a lease that it measures by a clock whose rate is outside of max_drift. */
START_TEST(a_clock_that_is_astray_ends_the_lease)
{
    start(1, false);
    ack(0, sent(0), false);
    uint64_t id = sent(0);
    ack(0, id, true);
    ck_assert_int_eq(renewal_state(renewal, now), RENEWAL_SAFE);
    now += 100 * MS;
    renewal_clock(renewal, true, now);
    ck_assert_int_eq(renewal_state(renewal, now), RENEWAL_JEOPARDY);
    ck_assert_int_eq(renewal_deadline_ns(renewal), now);
    ck_assert_int_eq(renewal_next_tick_ns(renewal, now), now);
    id = next_round(0); /* the voters still get renewals from this host */
    ck_assert_uint_ne(id, 0);
    actions.count = 0;
    now += 10 * MS;
    ack(0, id, true);
    ck_assert_int_eq(renewal_state(renewal, now), RENEWAL_JEOPARDY);
    id = next_round(0);
    renewal_clock(renewal, false, now + 10 * MS);
    now += 20 * MS;
    ack(0, id, true); /* the renewal was sent before the clock was well again */
    ck_assert_int_eq(renewal_state(renewal, now), RENEWAL_JEOPARDY);
    id = next_round(0);
    int64_t sent_ns = now;
    ack(0, id, true);
    ck_assert_int_eq(renewal_deadline_ns(renewal), sent_ns + LEASE);
    renewal_clock(renewal, true, now + MS);
    ck_assert_int_eq(renewal_state(renewal, now + MS + GRACE - 1), RENEWAL_JEOPARDY);
    ck_assert_int_eq(renewal_state(renewal, now + MS + GRACE), RENEWAL_LOST);
}
END_TEST

/* ---- another record of voters ---- */

/* Makes the record of that number. Each voter is "v" and one of the letters. */
static struct message_voters record_of(uint32_t number, const char *letters)
{
    struct message_agent names[MESSAGE_VOTERS_MAX];
    struct message_voters record;
    uint32_t count = (uint32_t)strlen(letters);
    for (uint32_t i = 0; i < count; i++) {
        char text[2] = {'v', letters[i]};
        message_agent_set(&names[i], text, 2);
    }
    message_voters_begin(&record, names, NULL, count);
    record.number = number;
    return record;
}

/* Gives the renewal the answer of the voter with that letter. */
static void ack_of(char letter, uint64_t id)
{
    ack((uint32_t)(letter - '0'), id, true);
}

static void go_by(const struct message_voters *record)
{
    actions.count = 0;
    answering = record;
    renewal_set_voters(renewal, record, now, &actions);
}

/* The recovered voter knows no hold from before the recovery. So no renewal may extend a session
 * that had such a hold. */
START_TEST(a_recovery_of_the_cell_ends_the_session)
{
    const struct message_voters next = record_of(MESSAGE_NUMBERS - 1, "0");
    const struct message_voters recovered = record_of(MESSAGE_NUMBERS, "0");
    start(3, false);
    uint64_t first = sent(0);
    ack_of('0', first);
    ack_of('1', first);
    ck_assert_int_eq(renewal_state(renewal, now), RENEWAL_SAFE);
    go_by(&next);
    ck_assert_int_eq(renewal_state(renewal, now), RENEWAL_SAFE);
    go_by(&recovered);
    ck_assert_int_eq(renewal_state(renewal, now), RENEWAL_LOST);
    ck_assert_int_eq(renewal_deadline_ns(renewal), now); /* the lease had lasted longer before the
                                                          * recovery */
    ck_assert_uint_eq(actions.count, 0);                 /* the session is not renewed again */
}
END_TEST

/* There are three voters, then four, then three. The fourth voter sorts first, so every index
 * moves. */
START_TEST(a_lease_outlives_a_change_of_the_voters)
{
    const struct message_voters four = record_of(2, "-012");
    const struct message_voters three = record_of(3, "-12");
    start(3, false);
    int64_t first_ns = now;
    uint64_t first = sent(0);
    ack_of('0', first);
    ack_of('1', first);
    ck_assert_int_eq(renewal_deadline_ns(renewal), first_ns + LEASE);

    now += 100 * MS;
    go_by(&four);
    ck_assert_int_eq(renewal_deadline_ns(renewal), first_ns + LEASE);
    ck_assert_int_eq(renewal_state(renewal, now), RENEWAL_SAFE);
    ck_assert_uint_eq(actions.count, 4); /* a round to all voters, at once */
    ck_assert_uint_eq(items[0].as.send.message.number, 2);
    ck_assert_uint_eq(items[0].as.send.message.digest, message_voters_digest(&four));
    ck_assert_uint_eq(items[0].as.send.message.as.renew.echo.incarnation, 0); /* the newcomer */
    ck_assert_uint_eq(items[1].as.send.message.as.renew.echo.incarnation, 1);
    ck_assert_uint_eq(items[3].as.send.message.as.renew.echo.incarnation, 0); /* never answered */
    int64_t second_ns = now;
    uint64_t second = sent(3);
    ack_of('0', second);
    ack_of('1', second);
    ck_assert_int_eq(renewal_deadline_ns(renewal), first_ns + LEASE); /* 2 of 4: no majority */
    ack_of('-', second);
    ck_assert_int_eq(renewal_deadline_ns(renewal), second_ns + LEASE);
    ck_assert_int_eq(renewal_answered_ns(renewal, 0), now);
    ck_assert_int_eq(renewal_answered_ns(renewal, 3), 0);

    now += 100 * MS;
    go_by(&three);
    ck_assert_uint_eq(actions.count, 3);
    ck_assert_int_eq(renewal_deadline_ns(renewal), second_ns + LEASE);
    uint64_t third = sent(2);
    ack_of('0', third); /* the removed voter does not count any more */
    ack_of('2', third);
    ck_assert_int_eq(renewal_deadline_ns(renewal), second_ns + LEASE);
    ack_of('-', third);
    ck_assert_int_eq(renewal_deadline_ns(renewal), now + LEASE);
}
END_TEST

START_TEST(answers_of_different_numbers_are_not_counted_together)
{
    const struct message_voters one = record_of(1, "012");
    const struct message_voters two = record_of(2, "0123");
    const struct message_voters rival = record_of(2, "01");
    start(3, false);
    go_by(&one); /* the same voters as in the beginning */
    uint64_t first = sent(0);
    int64_t first_ns = now;
    ack_of('0', first);
    ck_assert_int_eq(renewal_deadline_ns(renewal), 0);
    now += 10 * MS;
    go_by(&two);
    ack_of('1', first); /* voter 0 gave its answer under membership number 1 */
    ack_of('2', first);
    ck_assert_int_eq(renewal_deadline_ns(renewal), 0);
    answering = &one; /* late answers under number 1 */
    ack_of('0', first);
    ack_of('3', first);
    answering = &rival; /* answers under another record of number 2 */
    ack_of('0', first);
    ack_of('3', first);
    answering = NULL; /* answers of voters that speak an older version */
    ack_of('0', first);
    ack_of('3', first);
    ck_assert_int_eq(renewal_deadline_ns(renewal), 0);
    answering = &two; /* an earlier renewal may still be answered under number 2 */
    ack_of('0', first);
    ck_assert_int_eq(renewal_deadline_ns(renewal), first_ns + LEASE);
}
END_TEST

START_TEST(marks_of_different_numbers_are_not_counted_together)
{
    const struct message_voters two = record_of(2, "0123");
    start(3, false);
    uint64_t id = sent(0);
    ack_as(0, id, false, 4, 4);
    go_by(&two);
    id = sent(0);
    ack_as(1, id, false, 4, 4);
    ack_as(2, id, false, 4, 4);
    ck_assert_int_eq(renewal_state(renewal, now), RENEWAL_JEOPARDY);
    ack_as(0, id, false, 4, 4);
    ck_assert_int_eq(renewal_state(renewal, now), RENEWAL_LOST);
    go_by(&two);
    ck_assert_uint_eq(actions.count, 0); /* a lost session is not renewed */
}
END_TEST

/* A majority of the new number has to report which epochs this agent had. */
START_TEST(an_epoch_is_asked_for_anew_under_another_number)
{
    const struct message_voters two = record_of(2, "01234");
    asks_epoch = true;
    start(3, false);
    ack_as(0, sent(0), false, 3, 0);
    go_by(&two);
    uint64_t id = sent(0);
    ack_as(1, id, false, 2, 0);
    ack_as(2, id, false, 2, 0);
    ck_assert_uint_eq(items[0].as.send.message.as.renew.epoch, 0);
    actions.count = 0;
    ack_as(3, id, false, 2, 0);
    asks_epoch = false;
    ck_assert_uint_eq(actions.count, 5);
    ck_assert_uint_eq(items[0].as.send.message.as.renew.epoch, 4);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("renewal");
    tcase_add_test(tests, two_renewals_make_it_safe);
    tcase_add_test(tests, lease_is_what_a_majority_extended);
    tcase_add_test(tests, who_is_not_safe_tries_more_often);
    tcase_add_test(tests, strange_answers_count_for_nothing);
    tcase_add_test(tests, hurries_once_a_round);
    tcase_add_test(tests, who_is_connected_anew_is_renewed_with);
    tcase_add_test(tests, up_is_who_answered_since_it_was_connected);
    tcase_add_test(tests, jeopardy_ends_in_time_or_never);
    tcase_add_test(tests, ended_when_a_majority_has_marked);
    tcase_add_test(tests, adopted_session_is_lost_if_nobody_renews_it);
    tcase_add_test(tests, an_epoch_that_the_voters_know_is_not_begun_again);
    tcase_add_test(tests, an_epoch_that_nobody_knows_begins_when_a_majority_said_so);
    tcase_add_test(tests, an_epoch_that_gets_no_lease_is_given_up);
    tcase_add_test(tests, an_epoch_outlasts_the_absence_of_the_voters);
    tcase_add_test(tests, a_clock_that_is_astray_ends_the_lease);
    tcase_add_test(tests, a_recovery_of_the_cell_ends_the_session);
    tcase_add_test(tests, a_lease_outlives_a_change_of_the_voters);
    tcase_add_test(tests, answers_of_different_numbers_are_not_counted_together);
    tcase_add_test(tests, marks_of_different_numbers_are_not_counted_together);
    tcase_add_test(tests, an_epoch_is_asked_for_anew_under_another_number);
    return suite_main("renewal", tests);
}
