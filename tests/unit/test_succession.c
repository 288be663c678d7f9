/* When one record of voters follows another, entries that are kept by index move with the voters'
 * names. */
#include <check.h>
#include <string.h>

#include "../suite_main.h"
#include "core/base/message_check.h"
#include "core/base/succession.h"

static struct message_agent names[MESSAGE_VOTERS_MAX];
static uint32_t count;
static struct message_voters next;
static struct succession succession;

/* Each letter is the name of a voter. */
static void change(const char *from, const char *to)
{
    struct message_agent new_names[MESSAGE_VOTERS_MAX];
    count = (uint32_t)strlen(from);
    for (uint32_t i = 0; i < count; i++) {
        message_agent_set(&names[i], &from[i], 1);
    }
    for (uint32_t i = 0; to[i] != '\0'; i++) {
        message_agent_set(&new_names[i], &to[i], 1);
    }
    message_voters_begin(&next, new_names, NULL, (uint32_t)strlen(to));
    succession_make(&succession, names, count, &next);
}

START_TEST(a_newcomer_that_sorts_first_moves_all)
{
    uint16_t array[MESSAGE_VOTERS_MAX] = {11, 12, 13, 99, 99, 99, 99};
    uint16_t room[MESSAGE_VOTERS_MAX];
    change("bcd", "abcd");
    ck_assert_uint_eq(succession.count, 4);
    ck_assert_uint_eq(succession.from[0], SUCCESSION_NONE);
    ck_assert_uint_eq(succession.from[1], 0);
    ck_assert_uint_eq(succession.to[2], 3);
    ck_assert_uint_eq(succession_mask(&succession, 5, false), 10);
    ck_assert_uint_eq(succession_mask(&succession, 5, true), 11);
    succession_move(&succession, array, sizeof(array[0]), room);
    static const uint16_t moved[] = {0, 11, 12, 13, 0, 0, 0};
    ck_assert_mem_eq(array, moved, sizeof(moved));
}
END_TEST

START_TEST(a_removed_voter_leaves_nothing)
{
    uint8_t array[MESSAGE_VOTERS_MAX] = {1, 2, 3, 4};
    uint8_t room[MESSAGE_VOTERS_MAX];
    change("abcd", "acd");
    ck_assert_uint_eq(succession.to[1], SUCCESSION_NONE);
    ck_assert_uint_eq(succession.to[3], 2);
    /* a set may have bits of indexes without a voter: before the first event all bits are set */
    ck_assert_uint_eq(succession_mask(&succession, UINT32_MAX, false), 7);
    ck_assert_uint_eq(succession_mask(&succession, 2, true), 0);
    succession_move(&succession, array, 1, room);
    static const uint8_t moved[] = {1, 3, 4, 0, 0, 0, 0};
    ck_assert_mem_eq(array, moved, sizeof(moved));
}
END_TEST

START_TEST(the_same_voters_stay_where_they_are)
{
    change("abcdefg", "abcdefg");
    ck_assert_uint_eq(succession_mask(&succession, 0x55, true), 0x55);
    change("abc", "xyz");
    ck_assert_uint_eq(succession_mask(&succession, 7, false), 0);
    ck_assert_uint_eq(succession_mask(&succession, 0, true), 7);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("succession");
    tcase_add_test(tests, a_newcomer_that_sorts_first_moves_all);
    tcase_add_test(tests, a_removed_voter_leaves_nothing);
    tcase_add_test(tests, the_same_voters_stay_where_they_are);
    return suite_main("succession", tests);
}
