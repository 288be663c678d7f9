/* The heap of times: whatever was moved or removed, its first item is the earliest. */
#include <check.h>
#include <stdlib.h>

#include "../suite_main.h"
#include "core/base/heap.h"

enum { ITEMS = 200 };

static struct heap_entry entries[ITEMS];
static uint32_t indexes[ITEMS];
static struct heap heap;
/* the expected contents of the heap; INT64_MAX: the item is not in the heap */
static int64_t when_ns[ITEMS];

static void setup(void)
{
    heap = (struct heap){.entries = entries, .indexes = indexes};
    for (uint32_t i = 0; i < ITEMS; i++) {
        indexes[i] = 0;
        when_ns[i] = INT64_MAX;
    }
}

static void compare(void)
{
    int64_t first_ns = INT64_MAX;
    uint32_t count = 0;
    heap_check_invariants(&heap);
    /* checked once at the end, because each of Check's assertions costs a system call */
    bool same = true;
    for (uint32_t i = 0; i < ITEMS; i++) {
        first_ns = when_ns[i] < first_ns ? when_ns[i] : first_ns;
        count += when_ns[i] != INT64_MAX;
        same = same && heap_when_ns(&heap, i) == when_ns[i] &&
               heap_has(&heap, i) == (when_ns[i] != INT64_MAX);
    }
    ck_assert(same);
    ck_assert_uint_eq(heap_count(&heap), count);
    ck_assert_int_eq(heap_first_ns(&heap), first_ns);
    if (count == 0) {
        ck_assert_uint_eq(heap_first(&heap), HEAP_NONE);
    } else {
        ck_assert_int_eq(when_ns[heap_first(&heap)], first_ns);
    }
}

START_TEST(the_first_is_the_first)
{
    uint32_t random = 1;
    for (int step = 0; step < 5000; step++) {
        random = random * 1664525 + 1013904223;
        uint32_t item = (random >> 8) % ITEMS;
        if ((random >> 30) == 0) {
            heap_remove(&heap, item);
            when_ns[item] = INT64_MAX;
        } else {
            when_ns[item] = random >> 16 & 63; /* many items have the same time */
            heap_set(&heap, item, when_ns[item]);
        }
        compare();
    }
}
END_TEST

START_TEST(everything_comes_out_in_order)
{
    int64_t last_ns = 0;
    for (uint32_t i = 0; i < ITEMS; i++) {
        when_ns[i] = i * 7919 % ITEMS;
        heap_set(&heap, i, when_ns[i]);
    }
    compare();
    while (heap_first(&heap) != HEAP_NONE) {
        uint32_t item = heap_first(&heap);
        ck_assert_int_ge(when_ns[item], last_ns);
        last_ns = when_ns[item];
        when_ns[item] = INT64_MAX;
        heap_remove(&heap, item);
        compare();
    }
    heap_remove(&heap, 0); /* removing an item that is not in the heap does nothing */
    compare();
}
END_TEST

/* Keeps the items whose numbers the divisor divides. */
static bool is_multiple(const void *arg, uint32_t item)
{
    return item % *(const uint32_t *)arg == 0;
}

START_TEST(a_filter_leaves_what_stays_in_order)
{
    static const uint32_t divisors[] = {1, 3, 7, ITEMS + 1};
    for (uint32_t i = 0; i < ITEMS; i++) {
        when_ns[i] = i * 7919 % ITEMS / 2;
        heap_set(&heap, i, when_ns[i]);
    }
    for (unsigned at = 0; at < sizeof(divisors) / sizeof(divisors[0]); at++) {
        heap_filter(&heap, is_multiple, &divisors[at]);
        for (uint32_t i = 0; i < ITEMS; i++) {
            when_ns[i] = is_multiple(&divisors[at], i) ? when_ns[i] : INT64_MAX;
        }
        compare();
    }
    ck_assert_uint_eq(heap_first(&heap), 0); /* every divisor divides 0 */
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("heap");
    TCase *tests = tcase_create("heap");
    tcase_add_checked_fixture(tests, setup, NULL);
    tcase_add_test(tests, the_first_is_the_first);
    tcase_add_test(tests, everything_comes_out_in_order);
    tcase_add_test(tests, a_filter_leaves_what_stays_in_order);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
