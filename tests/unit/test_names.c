/* The table of names: names are found, counted and reused, and take no more memory than the design
 * says. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../suite_main.h"
#include "core/base/names.h"

static struct names *make(uint32_t count_max, void **memory)
{
    *memory = calloc(1, names_size(count_max));
    ck_assert_ptr_nonnull(*memory);
    return names_init(*memory, count_max, 0x1234567);
}

static size_t number_name(char *out, uint32_t number, size_t length)
{
    int written = snprintf(out, 256, "%08u", number);
    memset(out + written, 'x', 256 - (size_t)written);
    return length;
}

static uint32_t count_names(const struct names *names)
{
    uint32_t count = 0;
    for (uint32_t id = names_next(names, NAMES_NONE); id != NAMES_NONE;
         id = names_next(names, id)) {
        count++;
    }
    return count;
}

START_TEST(found_until_dropped)
{
    void *memory = NULL;
    struct names *names = make(100, &memory);
    uint32_t a = names_hold(names, "a", 1);
    uint32_t b = names_hold(names, "ab", 2);
    ck_assert_uint_ne(a, NAMES_NONE);
    ck_assert_uint_ne(a, b);
    ck_assert_uint_eq(names_hold(names, "a", 1), a);
    ck_assert_uint_eq(names_find(names, "ab", 2), b);
    ck_assert_uint_eq(names_find(names, "b", 1), NAMES_NONE);
    names_set_register(names, a, 7);
    names_set_lock(names, a, 8);
    ck_assert_uint_eq(names_register(names, a), 7);
    ck_assert_uint_eq(names_lock(names, a), 8);
    names_set_register(names, a, NAMES_NONE);
    names_set_lock(names, a, NAMES_NONE);
    names_drop(names, a);
    ck_assert_uint_eq(names_find(names, "a", 1), a);
    names_drop(names, a);
    ck_assert_uint_eq(names_find(names, "a", 1), NAMES_NONE);
    ck_assert_uint_eq(count_names(names), 1);
    free(memory);
}
END_TEST

/* A table behaves the same whatever number of names names_expect() has announced. */
START_TEST(more_or_fewer_than_expected)
{
    static const uint64_t EXPECTED[] = {0, 1, 2, 3, 5, 64, 999, 1000, 1001, UINT64_MAX};
    char text[256];
    for (size_t k = 0; k < sizeof(EXPECTED) / sizeof(EXPECTED[0]); k++) {
        void *memory = NULL;
        struct names *names = make(1000, &memory);
        uint32_t ids[1000];
        names_expect(names, EXPECTED[k]);
        for (uint32_t i = 0; i < 1000; i++) {
            ids[i] = names_hold(names, text, number_name(text, i, 9 + i % 40));
            ck_assert_uint_ne(ids[i], NAMES_NONE);
            names_expect(names, 1000); /* too late: the table already has names */
        }
        for (uint32_t i = 0; i < 1000; i += 2) {
            names_drop(names, ids[i]);
        }
        for (uint32_t i = 0; i < 1000; i++) {
            ck_assert_uint_eq(names_find(names, text, number_name(text, i, 9 + i % 40)),
                              i % 2 == 0 ? NAMES_NONE : ids[i]);
        }
        ck_assert_uint_eq(count_names(names), 500);
        free(memory);
    }
}
END_TEST

START_TEST(full_is_an_answer)
{
    void *memory = NULL;
    struct names *names = make(3, &memory);
    char text[256];
    for (uint32_t i = 0; i < 3; i++) {
        ck_assert_uint_ne(names_hold(names, text, number_name(text, i, 255)), NAMES_NONE);
    }
    ck_assert_uint_eq(names_hold(names, "more", 4), NAMES_NONE);
    uint32_t first = names_find(names, text, 255);
    ck_assert_uint_eq(names_hold(names, text, 255), first);
    names_drop(names, first);
    names_drop(names, first);
    ck_assert_uint_ne(names_hold(names, "more", 4), NAMES_NONE);
    free(memory);
}
END_TEST

/* While names of all lengths come and go, the table has the same contents as a simple array. */
START_TEST(survives_churn)
{
    enum { COUNT = 4000, STEPS = 60000 };
    void *memory = NULL;
    struct names *names = make(COUNT, &memory);
    uint32_t *ids = calloc(COUNT, sizeof(*ids));
    uint64_t random = 99;
    uint32_t live = 0;
    for (uint32_t step = 0; step < STEPS; step++) {
        random = random * UINT64_C(6364136223846793005) + 1442695040888963407u;
        uint32_t number = (uint32_t)(random >> 33) % COUNT;
        char text[256];
        size_t length = number_name(text, number, 8 + number % 248);
        ck_assert_uint_eq(names_find(names, text, length), ids[number]);
        if (ids[number] != NAMES_NONE) {
            names_drop(names, ids[number]);
            ids[number] = NAMES_NONE;
            live--;
        } else {
            ids[number] = names_hold(names, text, length);
            ck_assert_uint_ne(ids[number], NAMES_NONE);
            live++;
        }
    }
    uint32_t walked = 0;
    for (uint32_t id = names_next(names, NAMES_NONE); id != NAMES_NONE;
         id = names_next(names, id)) {
        size_t length = 0;
        const uint8_t *bytes = names_bytes(names, id, &length);
        uint32_t number = (uint32_t)strtoul((const char *)bytes, NULL, 10);
        ck_assert_uint_eq(ids[number], id);
        walked++;
    }
    ck_assert_uint_eq(walked, live);
    free(ids);
    free(memory);
}
END_TEST

/* The space of a deleted name serves a name of the same size, or a shorter one if there is no other
 * space. So the names of forty full tables, one table after the other, fit into the space of one
 * table. */
START_TEST(space_is_used_again)
{
    void *memory = NULL;
    struct names *names = make(64, &memory);
    char text[256];
    for (uint32_t round = 0; round < 40; round++) {
        uint32_t ids[64];
        size_t length = round < 20 ? 255 : 100;
        for (uint32_t i = 0; i < 64; i++) {
            ids[i] = names_hold(names, text, number_name(text, i, length));
            ck_assert_uint_ne(ids[i], NAMES_NONE);
        }
        for (uint32_t i = 0; i < 64; i++) {
            names_drop(names, ids[i]);
        }
    }
    ck_assert_uint_eq(count_names(names), 0);
    free(memory);
}
END_TEST

/* 100,000 names of 32 bytes touch at most 56 bytes each, including the bucket table. */
START_TEST(costs_what_the_design_gives)
{
    enum { COUNT = 100000 };
    size_t size = names_size(COUNT);
    unsigned char *memory = malloc(size);
    ck_assert_ptr_nonnull(memory);
    memset(memory, 0, size);
    struct names *names = names_init(memory, COUNT, 1);
    char text[256];
    for (uint32_t i = 0; i < COUNT; i++) {
        ck_assert_uint_ne(names_hold(names, text, number_name(text, i, 32)), NAMES_NONE);
    }
    size_t end = size;
    while (end > 0 && memory[end - 1] == 0) {
        end--;
    }
    ck_assert_uint_le(end / COUNT, 56);
    free(memory);
}
END_TEST

START_TEST(partition_never_changes)
{
    /* Fixed values: every host with any version must compute the same partition. */
    ck_assert_uint_eq(names_partition("default", 7), 192);
    ck_assert_uint_eq(names_partition("orders/2024-11-21", 17), 171);
    uint32_t counts[256] = {0};
    char text[256];
    for (uint32_t i = 0; i < 25600; i++) {
        counts[names_partition(text, number_name(text, i, 20))]++;
    }
    for (uint32_t p = 0; p < 256; p++) {
        ck_assert_uint_ge(counts[p], 50);
        ck_assert_uint_le(counts[p], 160);
    }
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("names");
    tcase_add_test(tests, found_until_dropped);
    tcase_add_test(tests, more_or_fewer_than_expected);
    tcase_add_test(tests, full_is_an_answer);
    tcase_add_test(tests, survives_churn);
    tcase_add_test(tests, space_is_used_again);
    tcase_add_test(tests, costs_what_the_design_gives);
    tcase_add_test(tests, partition_never_changes);
    tcase_set_timeout(tests, 60);
    return suite_main("names", tests);
}
