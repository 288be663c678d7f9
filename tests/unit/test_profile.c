/* The test adds up the memory of the full tables of the profile small. The sizes are those of this
 * build, so the test is exact even where resident memory cannot be measured. */
#include <check.h>
#include <stdio.h>

#include "../suite_main.h"
#include "config/config.h"
#include "config/profile.h"
#include "core/base/names.h"
#include "core/session/renewal.h"
#include "proto/region.h"

enum {
    REGION_MAX = 1 << 20,
    TABLES_MAX = 5 << 19, /* 2.5 MiB, if each name has 255 bytes */
};

static uint64_t region_size(const struct host_limits *limits)
{
    const struct hfi_region_sizes sizes = {.slot_count = limits->locks,
                                           .holder_count = limits->holders + 1,
                                           .block_count = limits->blocks};
    return hfi_region_size(&sizes);
}

START_TEST(a_small_agent_fits)
{
    const struct profile *profile = &profile_small;
    const struct host_config host = {.limits = profile->host, .namespace_count = 1};
    size_t names = names_size(profile->quorum.registers + profile->host.locks);
    size_t tables = names + quorum_size(&profile->quorum) + host_size(&host) +
                    gossip_size(&profile->gossip) + renewal_size();
    printf("small: region %zu bytes, tables %zu bytes at most\n",
           (size_t)region_size(&profile->host), tables);
    ck_assert_uint_gt(region_size(&profile->host), 0);
    ck_assert_uint_le(region_size(&profile->host), REGION_MAX);
    ck_assert_uint_le(tables, TABLES_MAX);
}
END_TEST

/* docs/CONFIG.md names this size. */
START_TEST(a_standard_region_is_as_large_as_documented)
{
    ck_assert_uint_eq(region_size(&profile_standard.host), 28332032);
}
END_TEST

START_TEST(profiles_are_found_by_name)
{
    ck_assert_ptr_eq(profile_find("small"), &profile_small);
    ck_assert_ptr_eq(profile_find("standard"), &profile_standard);
    ck_assert_ptr_null(profile_find("smal"));
    ck_assert_ptr_null(profile_find(""));
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("profile");
    tcase_add_test(tests, a_small_agent_fits);
    tcase_add_test(tests, a_standard_region_is_as_large_as_documented);
    tcase_add_test(tests, profiles_are_found_by_name);
    return suite_main("profile", tests);
}
