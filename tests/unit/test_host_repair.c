/*
 * What a region says against what the agent knows is put right: each test writes rubbish as a
 * client of the namespace could, and lets the culprit go. Others are not touched; the namespace
 * itself is well again within a quarter of session_ttl, or what was promised for it (a lock-delay).
 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "../suite_main.h"
#include "host/state.h"
#include "host_rig.h"

static struct rig *rig;
static uint32_t client; /* may administer */
static uint32_t other;

static void setup(void)
{
    rig = rig_create(RIG_LOCKS, 16, 64, 8);
    rig_add_orders(rig);
    rig_begin(rig);
    client = rig_connect(rig, HOST_MAY_USE | HOST_MAY_ADMIN);
    other = rig_connect(rig, HOST_MAY_USE);
}

static void teardown(void)
{
    rig_destroy(rig);
}

/* ---- records of hand-overs ---- */

/* One who dies waiting for that lock, whose id the record of a living one names. */
static void die_waiting(const char *name, struct hfi_region *culprits, uint32_t culprit)
{
    uint32_t victim = rig_connect(rig, HOST_MAY_USE);
    struct hfi_opened opened = rig_open_granted(rig, victim, name, 0);
    opened.seat = rig_seat(rig, victim, opened.handle, false);
    struct hfi_region *region = opened.region == 0 ? &rig->region : &rig->orders;
    region->slots[opened.slot].ticket_next++;
    *hfi_seat_wait(region, opened.seat) = HFI_WAIT_WAITING;
    culprits->holders[culprit].handing_to[3] = opened.holder;
    rig_die(rig, victim);
}

START_TEST(records_of_a_namespace_pin_its_own_dead_alone)
{
    struct hfi_opened mine = rig_open_granted(rig, client, "a", 0);
    uint32_t handles = rig->host->handle_count;
    die_waiting("orders/a", &rig->region, mine.holder);
    rig_pass(rig, 3000 * RIG_MS);
    ck_assert_uint_eq(rig->host->handle_count, handles);
    ck_assert_uint_eq(rig->forgotten, 1);
    /* Its own are pinned for as long as the process lives whose record it is. */
    die_waiting("a", &rig->region, mine.holder);
    rig_pass(rig, 3000 * RIG_MS);
    ck_assert_uint_eq(rig->host->handle_count, handles + 1);
    rig_die(rig, client);
    rig_pass(rig, 3000 * RIG_MS);
    ck_assert_uint_eq(rig->host->handle_count, 0);
    ck_assert_uint_eq(rig->forgotten, 3);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("repair");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, records_of_a_namespace_pin_its_own_dead_alone);
    return suite_main("host_repair", tests);
}
