/* Whether a majority of the voters is alive, by what they answered to --recover (run/alive.h). */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "../suite_main.h"
#include "core/base/message_check.h"
#include "run/alive.h"

static struct message_voters record;
static struct peers_asked asked;
static struct alive_own own;

/* Makes a record of that number. Each letter stands for a voter: `a` for host-a. */
static void make_record(struct message_voters *out, uint32_t number, const char *letters)
{
    struct message_agent names[MESSAGE_VOTERS_MAX];
    char addresses[MESSAGE_VOTERS_MAX][MESSAGE_ADDRESS_MAX];
    uint32_t count = (uint32_t)strlen(letters);
    memset(addresses, 0, sizeof(addresses));
    for (uint32_t i = 0; i < count; i++) {
        char name[] = {'h', 'o', 's', 't', '-', letters[i]};
        message_agent_set(&names[i], name, sizeof(name));
        snprintf(addresses[i], sizeof(addresses[i]), "tcp://10.0.0.%d:7411", letters[i] - 'a' + 1);
    }
    message_voters_begin(out, names, (const char(*)[MESSAGE_ADDRESS_MAX])addresses, count);
    out->number = number;
    out->recoveries = number / MESSAGE_NUMBERS;
}

/* The store is that of host-c, of record 4: host-a, host-b and host-c. */
static void setup(void)
{
    memset(&asked, 0, sizeof(asked));
    make_record(&record, 4, "abc");
    own = (struct alive_own){.record = &record, .advertise = "tcp://10.0.0.3:7411"};
    message_agent_set(&own.name, "host-c", 6);
}

/* host-LETTER has answered that it has this status, under the record `by`. */
static struct peers_answer *answer(char letter, enum message_voter_status status,
                                   const struct message_voters *by)
{
    struct peers_answer *out = &asked.of[asked.count++];
    char name[] = {'h', 'o', 's', 't', '-', letter};
    *out = (struct peers_answer){.connected = true,
                                 .heard = true,
                                 .status = (uint8_t)status,
                                 .number = by->number,
                                 .digest = message_voters_digest(by)};
    message_agent_set(&out->name, name, sizeof(name));
    return out;
}

static void judged(enum alive_verdict expected)
{
    ck_assert_int_eq((int)alive_judge(&own, &asked), (int)expected);
}

START_TEST(nobody_answers)
{
    judged(ALIVE_NO);
    answer('a', MESSAGE_STATUS_VOTING, &record)->heard = false;
    answer('b', MESSAGE_STATUS_VOTING, &record)->heard = false;
    judged(ALIVE_NO); /* these agents may belong to another cell */
}
END_TEST

START_TEST(one_of_three_and_this_store)
{
    answer('a', MESSAGE_STATUS_VOTING, &record);
    judged(ALIVE_WITH_OWN);
    own.backup = true;
    judged(ALIVE_NO);
    answer('b', MESSAGE_STATUS_LISTED, &record);
    judged(ALIVE_WITHOUT_OWN);
    own.backup = false;
    judged(ALIVE_WITH_OWN);
}
END_TEST

START_TEST(one_of_five_and_this_store)
{
    make_record(&record, 4, "abcde");
    answer('a', MESSAGE_STATUS_VOTING, &record);
    judged(ALIVE_NO);
    answer('b', MESSAGE_STATUS_VOTING, &record);
    judged(ALIVE_WITH_OWN);
    make_record(&record, 4, "abcd"); /* two of four voters are no majority */
    asked.count = 0;
    answer('a', MESSAGE_STATUS_VOTING, &record);
    judged(ALIVE_NO);
}
END_TEST

/* Half of an even number of voters is enough for the others to start over, if all of the half vote.
 * A voter that was restarted waits for a majority, as this store's voter would. */
START_TEST(half_of_the_voters)
{
    make_record(&record, 4, "cd");
    own.backup = true;
    judged(ALIVE_NO);
    answer('d', MESSAGE_STATUS_VOTING, &record);
    judged(ALIVE_HALF);
    asked.of[0].status = MESSAGE_STATUS_LISTED;
    judged(ALIVE_NO);
    asked.count = 0;
    make_record(&record, 4, "abcd");
    answer('a', MESSAGE_STATUS_VOTING, &record)->refuses = true;
    own.backup = false;
    judged(ALIVE_NO);
    answer('b', MESSAGE_STATUS_VOTING, &record);
    judged(ALIVE_HALF);
    answer('d', MESSAGE_STATUS_REFUSED, &record);
    judged(ALIVE_HALF);
    asked.of[2].status = MESSAGE_STATUS_LISTED;
    judged(ALIVE_WITHOUT_OWN);
    make_record(&record, 4, "abcde"); /* three of five are a majority, and two are not enough */
    asked.count = 2;
    judged(ALIVE_NO);
}
END_TEST

/* The other voters know that this host's store must not vote. */
START_TEST(this_store_is_refused)
{
    answer('a', MESSAGE_STATUS_VOTING, &record)->refuses = true;
    judged(ALIVE_NO);
    answer('b', MESSAGE_STATUS_VOTING, &record);
    judged(ALIVE_WITHOUT_OWN);
}
END_TEST

/* Agents that run but have no vote do not count. */
START_TEST(those_that_do_not_vote)
{
    static const enum message_voter_status statuses[] = {
        MESSAGE_STATUS_OBSERVER,  MESSAGE_STATUS_EMPTY,   MESSAGE_STATUS_REFUSED,
        MESSAGE_STATUS_REJOINING, MESSAGE_STATUS_RETIRED, MESSAGE_STATUS_LEARNING};
    for (size_t i = 0; i < sizeof(statuses) / sizeof(statuses[0]); i++) {
        asked.count = 0;
        answer('a', statuses[i], &record);
        answer('b', statuses[i], &record);
        judged(ALIVE_NO);
    }
}
END_TEST

/* Votes of another cell, of another generation, and of another record of one number do not count.
 * Votes of an older record count, because its voters will follow the newer record. */
START_TEST(those_of_another_record)
{
    struct message_voters other;
    make_record(&other, 3, "ab");
    answer('a', MESSAGE_STATUS_VOTING, &other);
    judged(ALIVE_WITH_OWN);
    asked.count = 0;
    make_record(&other, 4, "abd");
    answer('a', MESSAGE_STATUS_VOTING, &other);
    judged(ALIVE_NO);
    asked.count = 0;
    answer('a', MESSAGE_STATUS_VOTING, &record)->digest = 0; /* an older agent sends no digest */
    judged(ALIVE_WITH_OWN);
    make_record(&record, MESSAGE_NUMBERS + 1, "abc");
    judged(ALIVE_NO);
    asked.count = 0;
    answer('d', MESSAGE_STATUS_VOTING, &record); /* no voter */
    judged(ALIVE_NO);
}
END_TEST

/* The record of a voter that answers is newer than that of this store. */
START_TEST(the_newest_record_counts)
{
    make_record(&asked.newest, 6, "abd");
    answer('a', MESSAGE_STATUS_VOTING, &asked.newest);
    judged(ALIVE_NO); /* host-c is no voter any more */
    answer('b', MESSAGE_STATUS_VOTING, &record);
    judged(ALIVE_WITHOUT_OWN);
    asked.of[1].heard = false;
    answer('d', MESSAGE_STATUS_VOTING, &asked.newest);
    judged(ALIVE_WITHOUT_OWN);
}
END_TEST

START_TEST(a_recovery_that_this_store_missed)
{
    struct message_voters recovered;
    make_record(&recovered, MESSAGE_NUMBERS, "a");
    answer('b', MESSAGE_STATUS_RETIRED, &recovered);
    judged(ALIVE_RECOVERED);
    asked.of[0].heard = false;
    judged(ALIVE_NO);
}
END_TEST

/* The others know host-c at another address, so they send their answers there. */
START_TEST(at_another_address)
{
    own.advertise = "tcp://10.0.1.3:7411";
    answer('a', MESSAGE_STATUS_VOTING, &record)->heard = false;
    judged(ALIVE_UNSURE);
    own.backup = true;
    judged(ALIVE_NO);
    own.backup = false;
    asked.of[0].connected = false;
    judged(ALIVE_NO);
    asked.of[0].connected = true;
    record.of[2].address[0] = '\0'; /* it is unknown at which address the others know host-c */
    judged(ALIVE_NO);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("alive");
    tcase_add_checked_fixture(tests, setup, NULL);
    tcase_add_test(tests, nobody_answers);
    tcase_add_test(tests, one_of_three_and_this_store);
    tcase_add_test(tests, one_of_five_and_this_store);
    tcase_add_test(tests, half_of_the_voters);
    tcase_add_test(tests, this_store_is_refused);
    tcase_add_test(tests, those_that_do_not_vote);
    tcase_add_test(tests, those_of_another_record);
    tcase_add_test(tests, the_newest_record_counts);
    tcase_add_test(tests, a_recovery_that_this_store_missed);
    tcase_add_test(tests, at_another_address);
    return suite_main("alive", tests);
}
