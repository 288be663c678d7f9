/* A host core in a cell of several voters (host_cell.h). */
#include "host_cell.h"

#include <check.h>

#include "core/quorum.h"

struct rig *rig;
uint32_t client;
uint32_t other;
uint32_t owner;

void cell_start(uint32_t self, uint32_t requests)
{
    rig = rig_create_cell(RIG_LOCKS, VOTERS, self, requests);
    rig_begin(rig);
    client = rig_connect(rig, HOST_MAY_USE | HOST_MAY_ADMIN);
    other = rig_connect(rig, HOST_MAY_USE);
    owner = quorum_preferred(rig->config.voters, VOTERS, names_partition("a", 1));
}

void cell_setup(void)
{
    cell_start(HOST_OBSERVER, 0);
}

void cell_teardown(void)
{
    rig_destroy(rig);
}

TCase *cell_case(Suite *suite, const char *name)
{
    TCase *tests = tcase_create(name);
    tcase_add_checked_fixture(tests, cell_setup, cell_teardown);
    suite_add_tcase(suite, tests);
    return tests;
}

enum hfi_outcome cell_try(const struct hfi_opened *opened, struct hfi_held *held)
{
    struct hfi_actor actor = rig_actor(rig, opened->holder);
    struct hfi_request request = {.slot = opened->slot, .seat = opened->seat};
    return hfi_try_exclusive(&actor, &request, held);
}

enum hfi_outcome cell_read(const struct hfi_opened *opened, struct hfi_held *held)
{
    struct hfi_actor actor = rig_actor(rig, opened->holder);
    struct hfi_request request = {.slot = opened->slot, .seat = opened->seat};
    return hfi_try_shared(&actor, &request, held);
}

void cell_release(const struct hfi_opened *opened, const struct hfi_held *held)
{
    struct hfi_actor actor = rig_actor(rig, opened->holder);
    enum hfi_outcome outcome = held->cell ? hfi_release_shared(&actor, opened->slot, opened->seat,
                                                               held->cell)
                                          : hfi_release(&actor, opened->slot, held->token);
    ck_assert_int_eq(outcome, HFI_RELEASED);
    rig_ring(rig);
}

struct hfi_opened cell_opened_by(uint32_t who)
{
    struct rig_reply *reply = rig_find(rig, who, HFI_FRAME_OPENED);
    ck_assert_ptr_nonnull(reply);
    return reply->frame.opened;
}

struct hfi_opened cell_open_granted(uint32_t who)
{
    return rig_open_granted(rig, who, "a", 0);
}

const struct host_send *cell_way(void)
{
    ck_assert_uint_gt(rig->send_count, 0);
    return &rig->ways[rig->send_count - 1];
}

void cell_wait_in_queue(struct hfi_opened *opened, uint32_t who, bool shared)
{
    opened->seat = rig_seat(rig, who, opened->handle, shared);
    *hfi_seat_wait(&rig->region,
                   opened->seat) = (uint64_t)rig->region.slots[opened->slot].ticket_next++
                                       << HFI_WAIT_TICKET_SHIFT |
                                   HFI_WAIT_WAITING | (shared ? HFI_WAIT_SHARED : 0);
    rig->region.words[opened->slot].word |= HFI_W_WAITERS;
    struct hfi_actor actor = rig_actor(rig, opened->holder);
    hfi_ring(&actor, opened->slot);
    rig_ring(rig);
}
