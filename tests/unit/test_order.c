/* The index of names in byte order, compared with a search through all names. */
#include <check.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../suite_main.h"
#include "core/base/order.h"
#include "hot_assert.h"

enum { ENTRIES = 500, ROUNDS = 20000 };

static char names[ENTRIES + 1][16];
static bool in[ENTRIES + 1];
static struct order_node nodes[ENTRIES + 1];

static const uint8_t *name_of(const void *arg, uint32_t entry, size_t *size)
{
    HOT_ASSERT(arg == names);
    *size = strlen(names[entry]);
    return (const uint8_t *)names[entry];
}

/* Finds, by a look at all names, the first name in the index after the given name; if `from` is
 * set, the given name itself can be the result. */
static uint32_t slow(const char *name, bool from)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i <= ENTRIES; i++) {
        int compared = strcmp(names[i], name);
        if (in[i] && (compared > 0 || (from && compared == 0)) &&
            (best == 0 || strcmp(names[i], names[best]) < 0)) {
            best = i;
        }
    }
    return best;
}

START_TEST(test_against_all)
{
    struct order order = {.nodes = nodes, .seed = 7, .name = name_of, .arg = names};
    uint64_t random = 88172645463325252u;
    uint32_t count = 0;
    for (uint32_t i = 1; i <= ENTRIES; i++) {
        snprintf(names[i], sizeof(names[i]), "%s/%u", i % 3 ? "a" : "aa", i * 7919 % 10007);
    }
    for (uint32_t i = 0; i < ROUNDS; i++) {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        uint32_t entry = (uint32_t)(random % ENTRIES) + 1;
        if (in[entry]) {
            order_remove(&order, entry);
        } else {
            order_insert(&order, entry);
        }
        in[entry] = !in[entry];
        count += in[entry] ? 1 : UINT32_MAX;
        const char *name = names[(random >> 32) % ENTRIES + 1];
        if (i % 16 == 0) {
            ck_assert_uint_eq(order_after(&order, name, strlen(name)), slow(name, false));
            ck_assert_uint_eq(order_from(&order, name, strlen(name)), slow(name, true));
        }
    }
    uint32_t walked = 0;
    for (uint32_t at = order_from(&order, "", 0); at != 0;
         at = order_after(&order, names[at], strlen(names[at]))) {
        walked++;
        ck_assert(in[at] && walked <= count);
    }
    ck_assert_uint_eq(walked, count);
}
END_TEST

START_TEST(test_bytes)
{
    ck_assert_int_lt(order_compare("a", 1, "ab", 2), 0);
    ck_assert_int_gt(order_compare("b", 1, "ab", 2), 0);
    ck_assert_int_gt(order_compare("\xc3\xbc", 2, "z", 1), 0); /* bytes compare as unsigned */
    ck_assert_int_eq(order_compare("", 0, NULL, 0), 0);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("order");
    tcase_add_test(tests, test_against_all);
    tcase_add_test(tests, test_bytes);
    return suite_main("order", tests);
}
