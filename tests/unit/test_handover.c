/* A coordinator that stops coordinating while it still runs hands its waiting requests over to the
 * next coordinator. This is also a part of an orderly end. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "../suite_main.h"
#include "quorum_cell.h"

static const enum message_mode X = MESSAGE_MODE_EXCLUSIVE;
enum { MANY = 40, KEPT_MS = 1000 };

static void resign(struct cell *cell, uint32_t node)
{
    struct quorum_event event = {.kind = QUORUM_RESIGN, .now_ns = cell->now_ns};
    event.random = cell_random(cell);
    cell_step(cell, node, event);
}

static bool has_handed_over(const struct cell *cell, uint32_t node)
{
    return quorum_handed_over(cell->nodes[node].quorum);
}

static bool has_resigned(const struct cell *cell, uint32_t node)
{
    return quorum_resigned(cell->nodes[node].quorum);
}

/* Makes the node resign. Returns how long it takes until all its partitions are handed over. */
static int64_t resign_ns(struct cell *cell, uint32_t node)
{
    int64_t began_ns = cell->now_ns;
    resign(cell, node);
    for (uint32_t turn = 0; turn < KEPT_MS && !has_resigned(cell, node); turn++) {
        cell_run(cell, CELL_MS);
    }
    ck_assert(has_resigned(cell, node) && has_handed_over(cell, node));
    return cell->now_ns - began_ns;
}

static bool has(struct cell *cell, uint32_t node, uint64_t id)
{
    const struct message *message = cell_got(cell, node, MESSAGE_GRANT);
    return message != NULL && message->as.grant.request_id == id;
}

static uint32_t waiting_at(const struct cell *cell, uint32_t node)
{
    struct quorum_survey survey;
    quorum_survey(cell->nodes[node].quorum, &survey);
    return survey.requests;
}

/* The host of `holder` has "a". Other hosts wait for it, first the host of `owner`. */
struct scene {
    struct cell *cell;
    uint32_t owner;  /* the coordinator of "a" */
    uint32_t holder; /* the node whose host has the grant */
    uint32_t later;  /* the node whose host waits behind the host of `owner` */
    struct message_order version;
};

static struct scene set_scene(uint32_t voters)
{
    struct cell *cell = cell_ready(voters);
    struct scene scene = {.cell = cell, .owner = cell_coordinator(cell, "a")};
    scene.holder = (scene.owner + 1) % voters;
    scene.later = (scene.owner + 2) % voters;
    cell_acquire(cell, scene.holder, scene.owner, "a", 1, 1, X, 0);
    cell_settle(cell);
    scene.version = cell_got(cell, scene.holder, MESSAGE_GRANT)->as.grant.version;
    cell_acquire(cell, scene.owner, scene.owner, "a", 5, 1, X, 0);
    cell_settle(cell);
    cell_acquire(cell, scene.later, scene.owner, "a", 6, 1, X, 0);
    cell_settle(cell);
    return scene;
}

START_TEST(it_is_replaced_at_once_and_for_good)
{
    struct cell *cell = cell_ready(_i == 0 ? 3 : 5);
    uint32_t node = cell_coordinator(cell, "a");
    ck_assert_int_lt(resign_ns(cell, node), QUORUM_TAKEOVER_MS / 2 * CELL_MS);
    cell_run(cell, 5000 * CELL_MS); /* the preferred voter has been back for long enough */
    for (uint32_t p = 0; p < MESSAGE_PARTITIONS; p++) {
        for (uint32_t i = 0; i < cell->config.voter_count; i++) {
            ck_assert_uint_ne(cell_coordinator_of(cell, i, p), node);
        }
    }
    ck_assert_uint_eq(quorum_voter_status(cell->nodes[node].quorum), MESSAGE_STATUS_VOTING);
    cell_kill(cell, node);
    cell_start(cell, node); /* as another process */
    cell_run(cell, 3000 * CELL_MS);
    ck_assert_uint_eq(cell_coordinator_at(cell, node, "a"), node);
    cell_destroy(cell);
}
END_TEST

/* The next coordinator knows who waits, although no host repeats its request. */
START_TEST(the_next_one_knows_who_waits)
{
    struct scene scene = set_scene(_i == 0 ? 3 : 5);
    struct cell *cell = scene.cell;
    (void)resign_ns(cell, scene.owner);
    cell_kill(cell, scene.owner);
    cell_run(cell, 200 * CELL_MS);
    uint32_t next = cell_coordinator_at(cell, scene.holder, "a");
    ck_assert_uint_ne(next, scene.owner);
    ck_assert_uint_eq(waiting_at(cell, next), 2);
    cell_give_back(cell, scene.holder, next, "a", 2, 1, scene.version, 0);
    cell_run(cell, 1000 * CELL_MS);
    ck_assert(!has(cell, scene.later, 6)); /* the host of `owner`, which is away, comes first */
    cell_start(cell, scene.owner);
    cell_run(cell, 100 * CELL_MS);
    cell_acquire(cell, scene.owner, next, "a", 7, 1, X, 0);
    cell_settle(cell);
    ck_assert(has(cell, scene.owner, 7));
    ck_assert(!has(cell, scene.later, 6));
    cell_destroy(cell);
}
END_TEST

START_TEST(more_than_one_turn_of_answers)
{
    struct scene scene = set_scene(3);
    struct cell *cell = scene.cell;
    for (uint32_t i = 0; i < MANY; i++) {
        char agent[] = {'o', (char)('a' + i / 10), (char)('0' + i % 10), '\0'};
        cell_other_acquire(cell, agent, scene.owner, "a", 1, 1, X);
    }
    cell_settle(cell);
    ck_assert_uint_eq(waiting_at(cell, scene.owner), MANY + 2);
    (void)resign_ns(cell, scene.owner);
    ck_assert_uint_eq(waiting_at(cell, scene.owner), 0);
    ck_assert_uint_eq(waiting_at(cell, cell_coordinator_at(cell, scene.holder, "a")), MANY + 2);
    cell_destroy(cell);
}
END_TEST

/* Makes a cell in which the first coordinator of "a" is dead, and the host of the next coordinator
 * holds "a". */
static struct cell *cell_taken_over(uint32_t *owner, uint32_t *next, struct message_order *version)
{
    struct cell *cell = cell_ready(3);
    *owner = cell_coordinator(cell, "a");
    cell_kill(cell, *owner);
    cell_run(cell, 1000 * CELL_MS);
    *next = cell_coordinator_at(cell, (*owner + 1) % 3, "a");
    cell_acquire(cell, *next, *next, "a", 1, 1, X, 0);
    cell_settle(cell);
    *version = cell_got(cell, *next, MESSAGE_GRANT)->as.grant.version;
    return cell;
}

/* Waiting requests are handed over, too, when the preferred voter takes its partitions back. */
START_TEST(handed_back_with_its_queues)
{
    uint32_t owner;
    uint32_t next;
    struct message_order version;
    struct cell *cell = cell_taken_over(&owner, &next, &version);
    uint32_t other = 3 - owner - next;
    cell_acquire(cell, other, next, "a", 5, 1, X, 0);
    cell_settle(cell);
    cell_start(cell, owner);
    cell_run(cell, 3000 * CELL_MS);
    ck_assert_uint_eq(cell_coordinator_at(cell, other, "a"), owner);
    cell_give_back(cell, next, owner, "a", 2, 1, version, 0);
    cell_settle(cell);
    ck_assert(has(cell, other, 5));
    cell_destroy(cell);
}
END_TEST

/* The coordinator ends while it proposes a grant. The next coordinator proposes that grant anew. It
 * learns from the previous one for which request the grant was made. So the host need not give the
 * grant back as doubtful. */
START_TEST(the_next_one_knows_what_was_made)
{
    struct cell *cell = cell_ready(3);
    uint32_t owner = cell_coordinator(cell, "a");
    uint32_t host = (owner + 1) % 3;
    for (uint32_t i = 0; i < 3; i++) {
        cell->drop[i][owner] = UINT64_C(1) << MESSAGE_ACCEPTED;
    }
    cell_acquire(cell, host, owner, "a", 1, 1, X, 0);
    cell_run(cell, 10 * CELL_MS);
    ck_assert(!has(cell, host, 1));
    resign(cell, owner);
    cell_run(cell, 500 * CELL_MS);
    ck_assert_uint_ne(cell_coordinator_at(cell, host, "a"), owner);
    ck_assert(has(cell, host, 1));
    ck_assert(cell_got(cell, host, MESSAGE_GRANT)->as.grant.fresh);
    cell_destroy(cell);
}
END_TEST

/* One waiting host renews its session, and another has died. The coordinator does not hand over the
 * dead host's request, which would be a new request for the next coordinator. */
START_TEST(a_lapsed_session_is_not_handed_on)
{
    uint32_t owner;
    uint32_t next;
    struct message_order version;
    struct cell *cell = cell_taken_over(&owner, &next, &version);
    uint32_t other = 3 - owner - next;
    cell_other_acquire(cell, "dead", next, "a", 5, 1, X);
    cell_settle(cell);
    cell_acquire(cell, other, next, "a", 6, 1, X, 0);
    for (uint32_t half = 0; half < 2; half++) {
        cell_run(cell, 6 * CELL_TTL_NS / 10);
        cell_extend(cell, next, next, 1);
        cell_extend(cell, next, other, 1);
        cell_extend(cell, other, next, 1);
        cell_extend(cell, other, other, 1);
    }
    ck_assert_uint_eq(waiting_at(cell, next), 2);
    cell_start(cell, owner);
    cell_run(cell, 3000 * CELL_MS);
    ck_assert_uint_eq(cell_coordinator_at(cell, other, "a"), owner);
    ck_assert_uint_eq(waiting_at(cell, next), 0);
    ck_assert_uint_eq(waiting_at(cell, owner), 1);
    cell_give_back(cell, next, owner, "a", 2, 1, version, 0);
    cell_settle(cell);
    ck_assert(has(cell, other, 6));
    cell_destroy(cell);
}
END_TEST

/* No voter takes over: in the end the requests are refused, and the resigning voter waits no longer
 * than its limit. */
START_TEST(nobody_takes_over)
{
    struct scene scene = set_scene(3);
    struct cell *cell = scene.cell;
    for (uint32_t from = 0; from < 3; from++) {
        for (uint32_t to = 0; to < 3; to++) {
            cell->drop[from][to] = UINT64_C(1) << MESSAGE_PROMISE;
        }
    }
    resign(cell, scene.owner);
    cell_run(cell, (KEPT_MS - 100) * CELL_MS);
    ck_assert_ptr_null(cell_got(cell, scene.later, MESSAGE_REFUSED));
    cell_run(cell, 200 * CELL_MS);
    ck_assert_uint_eq(cell_got(cell, scene.later, MESSAGE_REFUSED)->as.refused.reason,
                      MESSAGE_REFUSED_NOT_OWNER);
    ck_assert_uint_eq(waiting_at(cell, scene.owner), 0);
    ck_assert(!has_resigned(cell, scene.owner));
    cell_destroy(cell);
}
END_TEST

/* A voter that cannot reach the coordinator tries to coordinate again and again. It keeps a request
 * only for a bounded time, not for as long as it tries. */
START_TEST(who_tries_in_vain_keeps_nothing)
{
    struct cell *cell = cell_ready(3);
    uint32_t owner = cell_coordinator(cell, "a");
    uint32_t kept = 0;
    for (uint32_t cut = 0; cut < 3; cut++) {
        if (cut == owner) {
            continue;
        }
        cell->cut[owner][cut] = cell->cut[cut][owner] = true;
        for (uint64_t id = 1; id < 2000; id++) {
            cell_other_acquire(cell, "obs", cut, "a", id, 1, X);
            cell_run(cell, CELL_MS);
            kept += waiting_at(cell, cut) > 0;
        }
        cell_run(cell, 2 * KEPT_MS * CELL_MS);
        ck_assert_uint_eq(cell_coordinator_at(cell, 3 - owner - cut, "a"), owner);
        ck_assert_uint_eq(waiting_at(cell, cut), 0);
        cell->cut[owner][cut] = cell->cut[cut][owner] = false;
        cell_run(cell, 1000 * CELL_MS);
    }
    ck_assert_uint_gt(kept, 0);
    cell_destroy(cell);
}
END_TEST

START_TEST(nobody_is_there)
{
    struct cell *cell = cell_ready(3);
    for (uint32_t node = 1; node < 3; node++) {
        cell_kill(cell, node);
    }
    cell_run(cell, 100 * CELL_MS);
    resign(cell, 0);
    ck_assert(has_resigned(cell, 0));
    ck_assert(!has_handed_over(cell, 0)); /* this voter reports no hand-over */
    cell_destroy(cell);
    cell = cell_ready(1);
    resign(cell, 0);
    ck_assert(has_resigned(cell, 0));
    cell_acquire(cell, 0, 0, "a", 1, 1, X, 0);
    cell_settle(cell);
    ck_assert(has(cell, 0, 1)); /* the only voter serves its host to the end */
    cell_destroy(cell);
}
END_TEST

/* All voters end at once: no voter waits for another. */
START_TEST(all_resign)
{
    struct cell *cell = cell_ready(3);
    for (uint32_t node = 0; node < 3; node++) {
        resign(cell, node);
    }
    cell_run(cell, 50 * CELL_MS);
    for (uint32_t node = 0; node < 3; node++) {
        ck_assert(has_resigned(cell, node));
        ck_assert(!has_handed_over(cell, node));
    }
    cell_destroy(cell);
}
END_TEST

/* A request came directly a moment ago, and comes again through another voter. The answer still
 * goes the direct way. */
START_TEST(a_detour_is_not_taken)
{
    struct scene scene = set_scene(5);
    struct cell *cell = scene.cell;
    uint32_t voter = (scene.owner + 3) % 5;
    struct message message;
    cell_header(cell, voter, MESSAGE_ACQUIRE, &message);
    message.as.acquire.agent = cell->config.voters[scene.owner];
    message.as.acquire.epoch = 1;
    message.as.acquire.request_id = 5;
    message.as.acquire.mode = (uint8_t)X;
    message_name_set(&message.as.acquire.name, "a", 1);
    cell_send(cell, voter, scene.owner, &message);
    cell_settle(cell);
    cell_kill(cell, voter);
    cell_give_back(cell, scene.holder, scene.owner, "a", 2, 1, scene.version, 0);
    cell_settle(cell);
    ck_assert(has(cell, scene.owner, 5));
    cell_destroy(cell);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("handover");
    tcase_add_loop_test(tests, it_is_replaced_at_once_and_for_good, 0, 2);
    tcase_add_loop_test(tests, the_next_one_knows_who_waits, 0, 2);
    tcase_add_test(tests, more_than_one_turn_of_answers);
    tcase_add_test(tests, handed_back_with_its_queues);
    tcase_add_test(tests, the_next_one_knows_what_was_made);
    tcase_add_test(tests, a_lapsed_session_is_not_handed_on);
    tcase_add_test(tests, nobody_takes_over);
    tcase_add_test(tests, who_tries_in_vain_keeps_nothing);
    tcase_add_test(tests, nobody_is_there);
    tcase_add_test(tests, all_resign);
    tcase_add_test(tests, a_detour_is_not_taken);
    return suite_main("handover", tests);
}
