/*
 * Coordinators in cells of three and five voters: the take-over when a coordinator dies, falls
 * silent, or has links that work in one direction only; resigning; handing back; and no endless
 * contest of two coordinators.
 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "../suite_main.h"
#include "quorum_cell.h"

static const enum message_mode X = MESSAGE_MODE_EXCLUSIVE;

static struct cell *start(uint32_t voters, uint64_t seed)
{
    struct cell *cell = cell_create(voters, seed);
    cell_start_all(cell);
    cell_run_ready(cell);
    return cell;
}

/* Returns how long it takes until the host gets the lock. */
static int64_t served_ns(struct cell *cell, uint32_t host, const char *name, uint64_t id)
{
    return cell_served_ns(cell, host, name, id, 10);
}

/* Returns how many of the nodes that are up claim to coordinate the partition. */
static uint32_t owners(const struct cell *cell, uint32_t partition)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < cell->config.voter_count; i++) {
        count += cell->nodes[i].up && cell_coordinator_of(cell, i, partition) == i;
    }
    return count;
}

static void every_partition_has_one_owner(const struct cell *cell)
{
    for (uint32_t p = 0; p < MESSAGE_PARTITIONS; p++) {
        ck_assert_uint_eq(owners(cell, p), 1);
    }
}

static uint64_t rounds_used(const struct cell *cell)
{
    uint64_t rounds = 0;
    for (uint32_t i = 0; i < cell->config.voter_count; i++) {
        rounds += cell->nodes[i].disk.round;
    }
    return rounds;
}

static void cut(struct cell *cell, uint32_t from, uint32_t to)
{
    cell->cut[from][to] = true;
}

static void cut_off(struct cell *cell, uint32_t node, bool in, bool out)
{
    for (uint32_t i = 0; i < cell->config.voter_count; i++) {
        if (i != node) {
            cell->cut[i][node] = cell->cut[i][node] || in;
            cell->cut[node][i] = cell->cut[node][i] || out;
        }
    }
}

START_TEST(preferred_at_first)
{
    uint32_t voters = 2 * (uint32_t)_i + 1;
    struct cell *cell = start(voters, 3);
    uint32_t of[CELL_NODES] = {0};
    cell_run(cell, 100 * CELL_MS);
    for (uint32_t p = 0; p < MESSAGE_PARTITIONS; p++) {
        uint32_t owner = quorum_preferred(cell->config.voters, voters, p);
        of[owner]++;
        /* the owner's own acceptor has promised, too, because the owner relies on that acceptor's
         * values */
        ck_assert_uint_eq(cell->nodes[owner].disk.promised[p] & 0xffff, owner + 1);
        for (uint32_t i = 0; i < voters; i++) {
            ck_assert_uint_eq(cell_coordinator_of(cell, i, p), owner);
        }
    }
    for (uint32_t i = 0; i < voters; i++) {
        ck_assert_uint_gt(of[i], MESSAGE_PARTITIONS / voters / 2);
    }
    cell_destroy(cell);
}
END_TEST

/* All other voters have promised. The coordinator also relies on the values of its own acceptor, so
 * it waits until its own acceptor has promised. */
START_TEST(nothing_is_prepared_without_the_own_promise)
{
    struct cell *cell = cell_create(3, 93);
    for (uint32_t node = 0; node < 3; node++) {
        cell->drop[node][node] = UINT64_C(1) << MESSAGE_PREPARE;
    }
    cell_start_all(cell);
    cell_run(cell, 1000 * CELL_MS);
    ck_assert_uint_gt(cell->sent[MESSAGE_PROMISE], 0);
    for (uint32_t node = 0; node < 3; node++) {
        ck_assert(!quorum_ready(cell->nodes[node].quorum));
    }
    /* no voter has to read the registers of its own partitions */
    ck_assert_uint_eq(cell->sent[MESSAGE_SYNC], 0);
    memset(cell->drop, 0, sizeof(cell->drop));
    cell_run_ready(cell);
    every_partition_has_one_owner(cell);
    cell_destroy(cell);
}
END_TEST

/* A cell of one voter sends no heartbeats and reads from no other voter. */
START_TEST(alone_it_sends_nothing)
{
    struct cell *cell = start(1, 3);
    cell_acquire(cell, 0, 0, "a", 1, 1, X, 0);
    cell_run(cell, 100 * CELL_MS);
    ck_assert_ptr_nonnull(cell_got(cell, 0, MESSAGE_GRANT));
    cell_run(cell, 60000 * CELL_MS);
    ck_assert_uint_eq(cell->sent[MESSAGE_HEARTBEAT], 0);
    ck_assert_uint_eq(cell->sent[MESSAGE_SYNC], 0);
    ck_assert_uint_eq(cell->sent[MESSAGE_READ], 0);
    ck_assert_uint_eq(cell->sent[MESSAGE_PREPARE], 1);
    ck_assert_uint_eq(cell->sent[MESSAGE_ACCEPT], 1);
    cell_destroy(cell);
}
END_TEST

static void no_answer_from(void *arg, uint32_t from, uint32_t to, const struct message *message)
{
    const uint32_t *stale = arg;
    (void)to;
    ck_assert(from != *stale ||
              (message->kind != MESSAGE_GRANT && message->kind != MESSAGE_AMENDED &&
               message->kind != MESSAGE_GIVE_BACK_ACK));
}

/*
 * A voter that has lost its partition, but does not know this, must not answer from its registers.
 * The asking host may have given its grant back to the new coordinator, and may have forgotten this
 * grant or have been restarted.
 */
START_TEST(stale_coordinator_answers_nobody)
{
    struct cell *cell = start(3, 5);
    uint32_t stale = cell_coordinator(cell, "a");
    uint32_t host = (stale + 1) % 3;
    uint32_t other = (stale + 2) % 3;
    (void)served_ns(cell, host, "a", 1);
    struct message_order version = cell->nodes[host].last_grant.version;
    cell_run(cell, 200 * CELL_MS);
    /* The links of voter `stale` break. The voter has not noticed this, and hosts still reach the
     * voter. */
    cut_off(cell, stale, true, true);
    for (uint32_t i = 0; i < 3; i++) {
        struct quorum_event event = {
            .kind = QUORUM_LINK, .now_ns = cell->now_ns, .random = cell_random(cell)};
        event.as.link.voter = stale;
        if (i != stale) {
            cell_step(cell, i, event);
        }
    }
    cell_run(cell, 60 * CELL_MS);
    uint32_t next = cell_coordinator_at(cell, host, "a");
    ck_assert_uint_ne(next, stale);
    cell_give_back(cell, host, next, "a", 2, 1, version, 1);
    cell_run(cell, 60 * CELL_MS);
    ck_assert_ptr_nonnull(cell_got(cell, host, MESSAGE_GIVE_BACK_ACK));
    (void)served_ns(cell, other, "a", 3);
    struct message_order newer = cell->nodes[other].last_grant.version;
    /* voter `stale` still believes that it is the coordinator */
    ck_assert_uint_eq(cell_coordinator_at(cell, stale, "a"), stale);
    cell->tap = no_answer_from;
    cell->tap_arg = &stale;
    memset(cell->cut[host], 0, sizeof(cell->cut[host]));
    memset(cell->cut[other], 0, sizeof(cell->cut[other]));
    cell->drop[host][stale] = cell->drop[other][stale] = ~((UINT64_C(1) << MESSAGE_ACQUIRE) |
                                                           (UINT64_C(1) << MESSAGE_GIVE_BACK));
    cell_acquire(cell, host, stale, "a", 4, 1, X, 0);
    cell_give_back(cell, other, stale, "a", 5, 1, newer, 7);
    cell_run(cell, 20 * CELL_MS);
    ck_assert_uint_eq(cell_coordinator_at(cell, stale, "a"), stale);
    cell_run(cell, 2000 * CELL_MS);
    cell_destroy(cell);
}
END_TEST

/* When the coordinator's connection breaks, another voter takes over at once: less than 200 ms pass
 * from the kill to the next grant. */
START_TEST(killed_coordinator)
{
    uint32_t voters = _i % 2 == 0 ? 3 : 5;
    struct cell *cell = start(voters, 10 + (uint64_t)_i);
    for (uint32_t kills = 0; kills < voters / 2; kills++) {
        uint32_t owner = cell_coordinator(cell, "a");
        uint32_t host = (owner + 1) % voters;
        while (!cell->nodes[host].up) {
            host = (host + 1) % voters;
        }
        (void)served_ns(cell, host, "a", 1 + kills);
        struct message_order version = cell->nodes[host].last_grant.version;
        cell_kill(cell, owner);
        ck_assert_int_lt(served_ns(cell, host, "a", 1 + kills), 200 * CELL_MS);
        ck_assert(message_order_equal(cell->nodes[host].last_grant.version, version));
        cell_run_ready(cell);
        every_partition_has_one_owner(cell);
        cell_give_back(cell, host, cell_coordinator_at(cell, host, "a"), "a", 90 + kills, 1,
                       version, 0);
        cell_run(cell, 100 * CELL_MS);
    }
    cell_destroy(cell);
}
END_TEST

/* Hosts that renew their sessions with the new coordinator learn from this coordinator which
 * partitions it has now. A voter that has just started does not know which hosts renew their
 * sessions with it. */
enum { RENEWED, YOUNG, SILENT, TOLD_CASES };
START_TEST(hosts_are_told)
{
    struct cell *cell = start(3, 5);
    uint32_t owner = cell_coordinator(cell, "a");
    uint32_t host = (owner + 1) % 3;
    uint32_t third = (owner + 2) % 3;
    cell_run(cell, _i == YOUNG ? 0 : 2 * CELL_TTL_NS);
    if (_i == RENEWED) {
        cell_extend(cell, host, third, 1);
        cell_extend(cell, third, host, 1);
    }
    cell->nodes[host].inbox_count = 0;
    cell->nodes[third].inbox_count = 0;
    cell_kill(cell, owner);
    cell_run(cell, 200 * CELL_MS);
    uint32_t now = cell_coordinator_at(cell, host, "a");
    uint32_t partition = names_partition("a", 1);
    for (uint32_t i = 0; i < 3; i++) {
        bool told = false;
        for (uint32_t k = 0; k < cell->nodes[i].inbox_count; k++) {
            const struct message *message = &cell->nodes[i].inbox[k];
            told = told ||
                   (message->kind == MESSAGE_OWNER &&
                    memcmp(&message->from, &cell->config.voters[now], sizeof(message->from)) == 0 &&
                    message_partition_has(&message->as.owner.partitions, partition));
        }
        ck_assert(told == (_i == SILENT ? i == now : i != owner));
    }
    cell_destroy(cell);
}
END_TEST

/* Connects the node to an agent. Returns how often the node then announces to the agent that it
 * coordinates the partition. */
static uint32_t told_when_reached(struct cell *cell, uint32_t node, const char *name, uint32_t p)
{
    struct message_agent agent;
    struct quorum_event event = {.kind = QUORUM_REACHED, .now_ns = cell->now_ns};
    message_agent_set(&agent, name, strlen(name));
    event.as.reached = &agent;
    uint32_t before = cell->other_count;
    cell_step(cell, node, event);
    cell_run(cell, 5 * CELL_MS);
    uint32_t told = 0;
    for (uint32_t i = before; i < cell->other_count; i++) {
        const struct message *message = &cell->others[i % CELL_INBOX];
        told += message->kind == MESSAGE_OWNER &&
                message_partition_has(&message->as.owner.partitions, p);
    }
    return told;
}

/* An announcement to an agent without a connection is lost. So the voter announces its partitions
 * when the agent connects, unless so much time has passed that the agent's host asked another
 * voter. */
START_TEST(who_is_reached_later_is_told)
{
    struct cell *cell = start(3, 7);
    uint32_t owner = cell_coordinator(cell, "a");
    uint32_t partition = names_partition("a", 1);
    for (uint32_t i = 0; i < 3; i++) {
        cell_other_acquire(cell, "observer", i, "a", 1, 1, X);
    }
    cell_run(cell, 2000 * CELL_MS);
    ck_assert_uint_eq(told_when_reached(cell, owner, "observer", partition), 0);
    cell_kill(cell, owner);
    cell_run(cell, 200 * CELL_MS);
    uint32_t now = cell_coordinator_at(cell, (owner + 1) % 3, "a");
    uint32_t third = 3 - owner - now;
    ck_assert_uint_eq(told_when_reached(cell, now, "observer", partition), 1);
    ck_assert_uint_eq(told_when_reached(cell, third, "observer", partition), 0);
    ck_assert_uint_eq(told_when_reached(cell, now, "stranger", partition), 0);
    cell_run(cell, 1000 * CELL_MS);
    ck_assert_uint_eq(told_when_reached(cell, now, "observer", partition), 0);
    cell_destroy(cell);
}
END_TEST

/* No node learns of a broken link: the coordinator is only silent. Another voter takes over after
 * the take-over timeout, not before. */
START_TEST(silent_coordinator)
{
    uint32_t voters = _i % 2 == 0 ? 3 : 5;
    struct cell *cell = start(voters, 20 + (uint64_t)_i);
    cell->silent = true;
    uint32_t owner = cell_coordinator(cell, "a");
    uint32_t host = (owner + 1) % voters;
    (void)served_ns(cell, host, "a", 1);
    cell_kill(cell, owner);
    int64_t took_ns = served_ns(cell, host, "a", 1);
    ck_assert_int_gt(took_ns, (QUORUM_TAKEOVER_MS - QUORUM_HEARTBEAT_MS - 10) * CELL_MS);
    ck_assert_int_lt(took_ns, (QUORUM_TAKEOVER_MS + 2 * QUORUM_HEARTBEAT_MS + 100) * CELL_MS);
    cell_run_ready(cell);
    every_partition_has_one_owner(cell);
    cell_destroy(cell);
}
END_TEST

/* The owner gets all messages but no voter gets the owner's, or the other way round. The owner
 * resigns, another voter takes over, and each host is served. */
START_TEST(messages_pass_in_one_direction_only)
{
    uint32_t voters = _i / 2 % 2 == 0 ? 3 : 5;
    struct cell *cell = start(voters, 30 + (uint64_t)_i);
    uint32_t owner = cell_coordinator(cell, "a");
    uint32_t host = (owner + 1) % voters;
    cut_off(cell, owner, _i % 2 == 0, _i % 2 != 0);
    ck_assert_int_lt(served_ns(cell, host, "a", 1), 2000 * CELL_MS);
    uint32_t next = cell_coordinator_at(cell, host, "a");
    ck_assert_uint_ne(next, owner);
    cell_run(cell, 2000 * CELL_MS);
    ck_assert_uint_ne(cell_coordinator_at(cell, owner, "a"), owner);
    ck_assert_uint_eq(cell_coordinator_at(cell, host, "a"), next);
    /* The owner gets its partition back after it has been reachable for a while. */
    memset(cell->cut, 0, sizeof(cell->cut));
    cell_run(cell, 3000 * CELL_MS);
    ck_assert_uint_eq(cell_coordinator_at(cell, host, "a"), owner);
    every_partition_has_one_owner(cell);
    cell_destroy(cell);
}
END_TEST

/* Returns the voter that gets the partition when its owner is gone. */
static uint32_t heir(const struct cell *cell, uint32_t owner, uint32_t partition)
{
    struct message_agent rest[CELL_NODES];
    uint32_t count = 0;
    for (uint32_t i = 0; i < cell->config.voter_count; i++) {
        if (i != owner) {
            rest[count++] = cell->config.voters[i];
        }
    }
    uint32_t at = quorum_preferred(rest, count, partition);
    return at < owner ? at : at + 1;
}

/* A single voter does not get the owner's messages, or the owner does not get that voter's
 * messages. That voter does not take over the partition, because the other voters name the
 * owner. */
START_TEST(one_voter_does_not_receive_its_messages)
{
    uint32_t voters = _i / 3 % 2 == 0 ? 3 : 5;
    struct cell *cell = start(voters, 40 + (uint64_t)_i);
    uint32_t owner = cell_coordinator(cell, "a");
    uint32_t other = heir(cell, owner, names_partition("a", 1));
    uint32_t host = (owner + 1) % voters != other ? (owner + 1) % voters : (owner + 2) % voters;
    if (_i % 3 != 1) {
        cut(cell, owner, other);
    }
    if (_i % 3 != 0) {
        cut(cell, other, owner);
    }
    for (uint64_t id = 1; id < 20; id++) {
        ck_assert_int_lt(served_ns(cell, host, "a", 1), 200 * CELL_MS);
        ck_assert_uint_eq(cell_coordinator_at(cell, host, "a"), owner);
        cell_run(cell, 250 * CELL_MS);
    }
    ck_assert_uint_ne(cell_coordinator_at(cell, other, "a"), other);
    memset(cell->cut, 0, sizeof(cell->cut));
    cell_run(cell, 3000 * CELL_MS);
    every_partition_has_one_owner(cell);
    uint64_t rounds = rounds_used(cell);
    cell_run(cell, 5000 * CELL_MS);
    ck_assert_uint_eq(rounds_used(cell), rounds);
    cell_destroy(cell);
}
END_TEST

/* Several voters take over partitions at the same time, because they disagree about which voters
 * are alive. This contest ends. */
START_TEST(duels_end)
{
    struct cell *cell = start(5, 60 + (uint64_t)_i);
    for (uint32_t cuts = 0; cuts < 6; cuts++) {
        cut(cell, (uint32_t)(cell_random(cell) % 5), (uint32_t)(cell_random(cell) % 5));
    }
    cell->silent = cell_random(cell) % 2 == 0;
    cell_kill(cell, (uint32_t)(cell_random(cell) % 5));
    cell_run(cell, 3000 * CELL_MS);
    uint64_t rounds = rounds_used(cell);
    cell_run(cell, 10000 * CELL_MS);
    ck_assert_uint_le(rounds_used(cell) - rounds, 20);
    memset(cell->cut, 0, sizeof(cell->cut));
    cell_run(cell, 3000 * CELL_MS);
    every_partition_has_one_owner(cell);
    cell_destroy(cell);
}
END_TEST

/* A partition is handed back to its preferred voter once, after a second. Partitions of other
 * voters are not prepared anew meanwhile. */
START_TEST(handed_back_once)
{
    uint32_t voters = _i % 2 == 0 ? 3 : 5;
    struct cell *cell = start(voters, 80 + (uint64_t)_i);
    uint32_t owner = cell_coordinator(cell, "a");
    uint32_t host = (owner + 1) % voters;
    cell_kill(cell, owner);
    cell_run_ready(cell);
    uint64_t own_round = cell->nodes[owner].disk.round;
    uint64_t rounds = rounds_used(cell);
    cell_start(cell, owner);
    cell_run(cell, 900 * CELL_MS);
    ck_assert_uint_ne(cell_coordinator_at(cell, host, "a"), owner);
    ck_assert_uint_eq(rounds_used(cell), rounds);
    cell_run(cell, 1000 * CELL_MS);
    ck_assert_uint_eq(cell_coordinator_at(cell, host, "a"), owner);
    every_partition_has_one_owner(cell);
    uint64_t others = rounds_used(cell) - cell->nodes[owner].disk.round;
    ck_assert_uint_eq(others, rounds - own_round);
    rounds = rounds_used(cell);
    cell_run(cell, 10000 * CELL_MS);
    ck_assert_uint_eq(rounds_used(cell), rounds);
    cell_destroy(cell);
}
END_TEST

/* Heartbeats arrive, but no round gets an answer: the owner resigns, and tries again later. */
START_TEST(stuck_round_makes_it_resign)
{
    struct cell *cell = start(3, 90);
    uint32_t owner = cell_coordinator(cell, "a");
    cell_acquire(cell, owner, owner, "a", 1, 1, X, 0);
    cell_run(cell, 50 * CELL_MS);
    for (uint32_t i = 0; i < 3; i++) {
        cell->drop[i][owner] = UINT64_C(1) << MESSAGE_ACCEPTED;
    }
    cell_acquire(cell, owner, owner, "a", 2, 1, X, 500);
    bool resigned = false;
    for (uint32_t turn = 0; turn < 100; turn++) {
        cell_run(cell, 10 * CELL_MS);
        resigned = resigned || cell_coordinator_at(cell, owner, "a") != owner;
    }
    ck_assert(resigned);
    ck_assert_int_lt(served_ns(cell, (owner + 1) % 3, "b", 3), 1000 * CELL_MS);
    memset(cell->drop, 0, sizeof(cell->drop));
    cell_run(cell, 4000 * CELL_MS);
    ck_assert_uint_eq(cell_coordinator_at(cell, (owner + 1) % 3, "a"), owner);
    every_partition_has_one_owner(cell);
    cell_destroy(cell);
}
END_TEST

/* A majority is gone: the remaining voters claim no partition until a majority is there again. */
START_TEST(minority_claims_nothing)
{
    struct cell *cell = start(3, 91);
    cell_kill(cell, 1);
    cell_kill(cell, 2);
    cell_run(cell, 1000 * CELL_MS);
    for (uint32_t p = 0; p < MESSAGE_PARTITIONS; p++) {
        ck_assert_uint_eq(owners(cell, p), 0);
    }
    ck_assert(!quorum_ready(cell->nodes[0].quorum));
    cell_start(cell, 1);
    cell_run(cell, 1500 * CELL_MS);
    cell_run_ready(cell);
    every_partition_has_one_owner(cell);
    cell_destroy(cell);
}
END_TEST

/* A voter is down when the cell starts. The other voters wait for it only for the take-over
 * timeout. */
START_TEST(one_is_missing_at_the_start)
{
    struct cell *cell = cell_create(3, 92);
    cell_start(cell, 0);
    cell_start(cell, 1);
    cell_run(cell, (QUORUM_TAKEOVER_MS + 3 * QUORUM_HEARTBEAT_MS) * CELL_MS);
    cell_run_ready(cell);
    every_partition_has_one_owner(cell);
    cell_destroy(cell);
}
END_TEST

/* The order in the latest ACCEPT that the watched voter sent. */
static struct message_order proposed;

static void note_proposed(void *arg, uint32_t from, uint32_t to, const struct message *message)
{
    (void)to;
    if (message->kind == MESSAGE_ACCEPT && from == *(uint32_t *)arg) {
        proposed = message->as.accept.order;
    }
}

/* A coordinator proposes a grant, and meets a higher ballot before it learns that the grant was
 * chosen. It prepares the partition anew, finds the grant, and reports it as made for the host's
 * request. Otherwise an agent that was restarted meanwhile would doubt the grant, give it back, and
 * lose its turn. */
START_TEST(a_grant_stays_fresh_when_its_coordinator_has_to_prepare_anew)
{
    struct cell *cell = cell_ready(3);
    uint32_t to = cell_coordinator(cell, "a");
    uint32_t other = (to + 1) % 3;
    uint32_t third = (to + 2) % 3;
    cell_acquire(cell, to, to, "a", 1, 1, X, 0);
    cell_settle(cell);
    struct message_order first = cell_got(cell, to, MESSAGE_GRANT)->as.grant.version;
    cell_acquire(cell, other, to, "a", 11, 1, _i == 0 ? X : MESSAGE_MODE_SHARED, 0);
    cell_settle(cell);
    cell->drop[other][to] = cell->drop[third][to] = UINT64_C(1) << MESSAGE_ACCEPTED;
    cell->tap = note_proposed;
    cell->tap_arg = &to;
    cell_give_back(cell, to, to, "a", 2, 1, first, 0);
    cell_run(cell, 20 * CELL_MS);
    struct message_order made = proposed;
    ck_assert(message_order_before(first, made));
    ck_assert_ptr_null(cell_got(cell, other, MESSAGE_GRANT));
    cell->drop[other][to] = cell->drop[third][to] = 0;
    struct message refused;
    cell_header(cell, third, MESSAGE_ACCEPTED, &refused);
    refused.as.accepted.order = made;
    message_name_set(&refused.as.accepted.name, "a", 1);
    refused.as.accepted.higher = made.ballot + (UINT64_C(1) << 16) - to + third;
    cell_send(cell, third, to, &refused);
    cell_run(cell, 1000 * CELL_MS);
    ck_assert_ptr_nonnull(cell_got(cell, other, MESSAGE_GRANT));
    struct message_grant second = cell_got(cell, other, MESSAGE_GRANT)->as.grant;
    ck_assert(message_order_equal(second.version, made));
    ck_assert_uint_gt(proposed.ballot, made.ballot);
    ck_assert(second.fresh);
    cell_destroy(cell);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("takeover");
    tcase_add_test(tests, stale_coordinator_answers_nobody);
    tcase_add_loop_test(tests, preferred_at_first, 0, 4);
    tcase_add_test(tests, nothing_is_prepared_without_the_own_promise);
    tcase_add_test(tests, alone_it_sends_nothing);
    tcase_add_loop_test(tests, killed_coordinator, 0, 6);
    tcase_add_loop_test(tests, hosts_are_told, 0, TOLD_CASES);
    tcase_add_test(tests, who_is_reached_later_is_told);
    tcase_add_loop_test(tests, silent_coordinator, 0, 4);
    tcase_add_loop_test(tests, messages_pass_in_one_direction_only, 0, 4);
    tcase_add_loop_test(tests, one_voter_does_not_receive_its_messages, 0, 6);
    tcase_add_loop_test(tests, duels_end, 0, 8);
    tcase_add_loop_test(tests, handed_back_once, 0, 4);
    tcase_add_test(tests, stuck_round_makes_it_resign);
    tcase_add_test(tests, minority_claims_nothing);
    tcase_add_test(tests, one_is_missing_at_the_start);
    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, a_grant_stays_fresh_when_its_coordinator_has_to_prepare_anew, 0, 2);
    return suite_main("takeover", tests);
}
