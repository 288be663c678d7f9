/*
 * A break by an administrator, at the coordinator. The host that breaks the lock counts the owners'
 * answers. The tests check which owners the coordinator names and asks: also when the break is
 * repeated, when owners give their grants back or are gone, and when another voter becomes
 * coordinator. (test_queue.c has breaks by hosts of earlier releases.)
 */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "../suite_main.h"
#include "quorum_cell.h"

static struct cell *cell;
static uint32_t to;     /* the coordinator */
static uint32_t first;  /* an owner */
static uint32_t second; /* another owner, which also breaks the lock */

static void setup(void)
{
    cell = cell_ready(3);
    to = cell_coordinator(cell, "a");
    first = (to + 1) % 3;
    second = (to + 2) % 3;
}

static void teardown(void)
{
    cell_destroy(cell);
}

static struct message_order acquire(uint32_t node, uint64_t id, enum message_mode mode)
{
    cell_acquire(cell, node, to, "a", id, 1, mode, 0);
    cell_settle(cell);
    const struct message *grant = cell_got(cell, node, MESSAGE_GRANT);
    ck_assert(grant != NULL && grant->as.grant.request_id == id);
    return grant->as.grant.version;
}

static void send_break(uint32_t voter, uint64_t id, struct message_order meant)
{
    struct message message;
    cell_header(cell, second, MESSAGE_BREAK, &message);
    message.as.break_lock.agent = message.from;
    message.as.break_lock.request_id = id;
    message.as.break_lock.counts = true;
    message.as.break_lock.meant = meant;
    message_name_set(&message.as.break_lock.name, "a", 1);
    cell_send(cell, second, voter, &message);
    cell_settle(cell);
}

/* Breaks the lock. Returns the coordinator's answer. */
static const struct message_broken *break_lock(uint64_t id)
{
    send_break(to, id, (struct message_order){0, 0});
    const struct message *broken = cell_got(cell, second, MESSAGE_BROKEN);
    ck_assert_ptr_nonnull(broken);
    ck_assert_uint_eq(broken->as.broken.request_id, id);
    ck_assert_int_eq(broken->as.broken.part, MESSAGE_BROKEN_OWNERS);
    return &broken->as.broken;
}

/* Lets another host wait for the lock as soon as the break's round has begun. */
static void acquire_when_asked(void *arg, uint32_t from, uint32_t to_node,
                               const struct message *message)
{
    struct cell *in = arg;
    (void)to_node;
    if (from == to && message->kind == MESSAGE_ACCEPT) {
        in->tap = NULL;
        cell_acquire(in, first, to, "a", 1, 1, MESSAGE_MODE_EXCLUSIVE, 0);
    }
}

static bool names(const struct message_broken *broken, uint32_t index, uint32_t node)
{
    return memcmp(&broken->items.owners[index], &cell->config.voters[node],
                  sizeof(broken->items.owners[index])) == 0;
}

static uint32_t asked(uint32_t node)
{
    return cell_got_count(cell, node, MESSAGE_BREAK_HOLD);
}

START_TEST(nobody_is_named_if_nobody_has_the_lock)
{
    const struct message_broken *broken = break_lock(7);
    ck_assert_uint_eq(broken->count, 0);
    ck_assert_uint_eq(broken->closed_ms, 0);
}
END_TEST

START_TEST(every_owner_is_named_and_asked_again)
{
    const struct message_order old = acquire(first, 1, MESSAGE_MODE_SHARED);
    const struct message_order new = acquire(second, 1, MESSAGE_MODE_SHARED);
    for (uint32_t copy = 1; copy <= 2; copy++) {
        const struct message_broken *broken = break_lock(7);
        ck_assert(broken->count == 2 && broken->total == 2);
        ck_assert(names(broken, 0, first) || names(broken, 1, first));
        ck_assert(names(broken, 0, second) || names(broken, 1, second));
        ck_assert(message_order_equal(broken->meant, new));
        ck_assert(asked(first) == copy && asked(second) == copy);
    }
    const struct message_break *hold = &cell_got(cell, first, MESSAGE_BREAK_HOLD)->as.break_lock;
    ck_assert(hold->counts && message_order_equal(hold->version, old) &&
              message_order_equal(hold->meant, new));
}
END_TEST

/* An owner gives its grant back before its report arrives. The coordinator asks it again for the
 * report, and the coordinator's answer says that this owner has no grant any more. A host that gets
 * the lock meanwhile is not asked. */
START_TEST(an_owner_that_gave_back_is_asked_for_its_report)
{
    const struct message_order version = acquire(first, 1, MESSAGE_MODE_EXCLUSIVE);
    ck_assert_uint_eq(break_lock(7)->total, 1);
    cell_give_back(cell, first, to, "a", 2, 1, version, 0);
    cell_settle(cell);
    (void)acquire(second, 3, MESSAGE_MODE_EXCLUSIVE);
    const struct message_broken *broken = break_lock(7);
    ck_assert(broken->count == 1 && broken->total == 0 && names(broken, 0, first));
    ck_assert(asked(first) == 2 && asked(second) == 0);
    broken = break_lock(8);
    ck_assert(broken->count == 1 && broken->total == 1 && names(broken, 0, second));
}
END_TEST

/* The coordinator is now another voter, which does not know the break. The host's message names the
 * newest grant that the break concerns. */
START_TEST(the_next_coordinator_asks_for_no_later_grant)
{
    const struct message_order old = acquire(first, 1, MESSAGE_MODE_SHARED);
    const struct message_order new = acquire(second, 1, MESSAGE_MODE_SHARED);
    ck_assert(message_order_before(old, new));
    send_break(to, 7, old); /* the first copy that reaches this coordinator */
    const struct message_broken *broken = &cell_got(cell, second, MESSAGE_BROKEN)->as.broken;
    ck_assert(broken->count == 1 && broken->total == 1 && names(broken, 0, first));
    ck_assert(message_order_equal(broken->meant, old));
    ck_assert(asked(first) == 1 && asked(second) == 0);
}
END_TEST

/* The owner is gone, and nobody waits for the lock. The repeated break makes the voters end the
 * owner's session. Then the coordinator names no owner, and reports the rest of the lock-delay. */
START_TEST(the_session_of_an_owner_that_is_gone_ends)
{
    cell_acquire(cell, first, to, "a", 1, 1, MESSAGE_MODE_EXCLUSIVE, 60000);
    cell_settle(cell);
    cell_run(cell, 2 * CELL_TTL_NS); /* the sessions lapse, because no agent of this cell renews its
                                      * session */
    ck_assert_uint_eq(break_lock(7)->total, 1);
    ck_assert_uint_eq(break_lock(7)->total, 1);
    cell_run(cell, 500 * CELL_MS);
    const struct message_broken *broken = break_lock(7);
    ck_assert_uint_eq(broken->count, 0);
    ck_assert_uint_gt(broken->closed_ms, 50000);
    ck_assert_uint_eq(asked(first), 2);
}
END_TEST

/* Returns whether the latest BREAK_HOLD that the node received came through another voter. */
static bool was_relayed(uint32_t node)
{
    const struct message *hold = cell_got(cell, node, MESSAGE_BREAK_HOLD);
    ck_assert_ptr_nonnull(hold);
    return hold->relayed;
}

/* Every second copy goes through another voter, so a broken link does not keep the break from an
 * owner. */
START_TEST(a_repeated_break_goes_two_ways)
{
    (void)acquire(first, 1, MESSAGE_MODE_EXCLUSIVE);
    for (uint32_t copy = 1; copy <= 4; copy++) {
        (void)break_lock(7);
        ck_assert_uint_eq(asked(first), copy);
        ck_assert_int_eq(was_relayed(first), copy % 2 == 0);
    }
    cell->cut[to][first] = true;
    for (uint32_t copy = 5; copy <= 6; copy++) {
        (void)break_lock(7);
        cell_run(cell, 200 * CELL_MS); /* the round may begin with the isolated voter */
    }
    ck_assert_uint_eq(asked(first), 5);
    ck_assert(was_relayed(first));
}
END_TEST

/* As many hosts as possible share the lock, and none of them answers. One step repeats the break to
 * all of them, asks for the ends of their sessions, and also sends all of them recalls, because a
 * host waits. All these actions must fit into one step, otherwise the cell fails. All sessions
 * end. */
START_TEST(a_break_of_all_shares_leaves_room_for_recalls)
{
    cell_destroy(cell);
    cell = cell_ready(7);
    to = cell_coordinator(cell, "a");
    first = (to + 1) % 7;
    second = (to + 2) % 7;
    for (uint32_t i = 0; i < MESSAGE_SHARES_MAX; i++) {
        char agent[16];
        snprintf(agent, sizeof(agent), "host-%u", i);
        cell_other_acquire(cell, agent, to, "a", 1, 1, MESSAGE_MODE_SHARED);
        cell_settle(cell);
    }
    cell_run(cell, 2 * CELL_TTL_NS);
    ck_assert_uint_eq(break_lock(7)->total, MESSAGE_SHARES_MAX);
    cell->tap = acquire_when_asked;
    cell->tap_arg = cell;
    ck_assert_uint_eq(break_lock(7)->total, MESSAGE_SHARES_MAX);
    ck_assert_ptr_null(cell->tap);
    cell_run(cell, 2000 * CELL_MS);
    ck_assert_uint_eq(break_lock(7)->count, 0);
    ck_assert_ptr_nonnull(cell_got(cell, first, MESSAGE_GRANT));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("breaks");
    TCase *tests = tcase_create("breaks");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, nobody_is_named_if_nobody_has_the_lock);
    tcase_add_test(tests, every_owner_is_named_and_asked_again);
    tcase_add_test(tests, an_owner_that_gave_back_is_asked_for_its_report);
    tcase_add_test(tests, the_next_coordinator_asks_for_no_later_grant);
    tcase_add_test(tests, a_repeated_break_goes_two_ways);
    tcase_add_test(tests, a_break_of_all_shares_leaves_room_for_recalls);
    tcase_add_test(tests, the_session_of_an_owner_that_is_gone_ends);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
