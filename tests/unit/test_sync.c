/*
 * Completeness and anti-entropy: which registers a coordinator must read, and what a voter that was
 * away gets from the other voters.
 */
#include <check.h>
#include <stdio.h>
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

static void acquire_covering(struct cell *cell, uint32_t host, const char *name, uint64_t id,
                             uint16_t lock_delay_ms)
{
    cell->nodes[host].inbox_count = 0;
    for (uint32_t turn = 0; turn < 1000; turn++) {
        uint32_t to = cell_coordinator_at(cell, host, name);
        if (to < cell->config.voter_count) {
            cell_acquire(cell, host, to, name, id, 1, X, lock_delay_ms);
        }
        cell_run(cell, 20 * CELL_MS);
        const struct message *grant = cell_got(cell, host, MESSAGE_GRANT);
        if (grant != NULL && grant->as.grant.request_id == id) {
            return;
        }
        cell->nodes[host].inbox_count = 0;
    }
    ck_abort_msg("nobody answers");
}

static void acquire(struct cell *cell, uint32_t host, const char *name, uint64_t id)
{
    acquire_covering(cell, host, name, id, 0);
}

/* Returns a digest of a disk's contents. It does not depend on the order of the rows, so two voters
 * with the same contents have the same digest. */
static uint64_t disk_digest(const struct cell *cell, uint32_t node)
{
    const struct cell_disk *disk = &cell->nodes[node].disk;
    uint64_t digest = disk->register_count;
    for (uint32_t i = 0; i < disk->register_count; i++) {
        const struct quorum_register *reg = &disk->registers[i];
        uint64_t hash = 14695981039346656037u;
        const struct message_order *orders[2] = {&reg->accepted, &reg->value.version};
        for (uint32_t k = 0; k < reg->name.length; k++) {
            hash = (hash ^ reg->name.bytes[k]) * 1099511628211u;
        }
        for (uint32_t k = 0; k < 2; k++) {
            hash = (hash ^ orders[k]->ballot) * 1099511628211u;
            hash = (hash ^ orders[k]->sequence) * 1099511628211u;
        }
        hash = (hash ^ reg->value.token_first) * 1099511628211u;
        digest += (hash ^ reg->value.owner.text[5]) * 1099511628211u;
    }
    return digest;
}

static bool all_equal(const struct cell *cell)
{
    for (uint32_t i = 1; i < cell->config.voter_count; i++) {
        if (disk_digest(cell, i) != disk_digest(cell, 0)) {
            return false;
        }
    }
    return true;
}

/* Finds the n-th name of a partition. */
static void name_in(uint32_t partition, uint32_t n, char name[16])
{
    for (uint32_t i = 0;; i++) {
        snprintf(name, 16, "n%u", i);
        if (names_partition(name, strlen(name)) == partition && n-- == 0) {
            return;
        }
    }
}

/* A new name costs one round of ACCEPT: the coordinator asks no voter whether it knows the name. */
START_TEST(new_name_is_one_accept)
{
    uint32_t voters = 2 * (uint32_t)_i + 1;
    struct cell *cell = start(voters, 1);
    memset(cell->sent, 0, sizeof(cell->sent));
    for (uint32_t i = 0; i < 20; i++) {
        char name[16];
        snprintf(name, sizeof(name), "new%u", i);
        acquire(cell, i % voters, name, 1 + i);
    }
    ck_assert_uint_eq(cell->sent[MESSAGE_READ], 0);
    ck_assert_uint_eq(cell->sent[MESSAGE_ACCEPT], 20 * voters);
    /* a majority is asked; the other voters get only the result */
    ck_assert_uint_eq(cell->sent[MESSAGE_ACCEPTED], 20 * (voters / 2 + 1));
    ck_assert_uint_eq(cell->sent[MESSAGE_PREPARE], 0);
    cell_destroy(cell);
}
END_TEST

/* After a take-over the next coordinator reads each name before it uses it, until it has read all
 * registers of the partition. From then on, a new name costs one ACCEPT. */
START_TEST(complete_after_take_over)
{
    struct cell *cell = start(3, 2);
    uint32_t owner = cell_coordinator(cell, "a");
    uint32_t host = (owner + 1) % 3;
    acquire(cell, host, "a", 1);
    struct message_order version = cell->nodes[host].last_grant.version;
    cell->drop[host][(owner + 2) % 3] = UINT64_C(1) << MESSAGE_SYNC;
    cell->drop[(owner + 2) % 3][host] = UINT64_C(1) << MESSAGE_SYNC;
    cell_kill(cell, owner);
    cell_run(cell, 300 * CELL_MS);
    uint32_t next = cell_coordinator_at(cell, host, "a");
    ck_assert_uint_ne(next, owner);
    ck_assert(!quorum_ready(cell->nodes[next].quorum));
    memset(cell->sent, 0, sizeof(cell->sent));
    acquire(cell, host, "a", 1);
    ck_assert(message_order_equal(cell->nodes[host].last_grant.version, version));
    ck_assert_uint_gt(cell->sent[MESSAGE_READ], 0);
    memset(cell->drop, 0, sizeof(cell->drop));
    cell_run_ready(cell);
    /* the voter `next` has the register of "a" already, so the test kills that voter and lets
     * another one coordinate */
    cell_kill(cell, next);
    cell_start(cell, owner);
    cell_run(cell, 2500 * CELL_MS);
    cell_run_ready(cell);
    memset(cell->sent, 0, sizeof(cell->sent));
    host = host == next ? (owner + 2) % 3 : host;
    acquire(cell, host, "a", 7);
    acquire(cell, host, "never", 8);
    ck_assert_uint_eq(cell->sent[MESSAGE_READ], 0);
    cell_destroy(cell);
}
END_TEST

/* A voter was away while much changed. Within seconds its disk has all changes. */
START_TEST(who_was_away_catches_up)
{
    uint32_t voters = _i % 2 == 0 ? 3 : 5;
    struct cell *cell = start(voters, 30 + (uint64_t)_i);
    cell->loss_percent = _i < 4 ? 0 : 30;
    cell->repeat_percent = cell->loss_percent;
    uint32_t away = (uint32_t)(_i / 2) % voters;
    for (uint32_t i = 0; i < 10; i++) {
        char name[16];
        snprintf(name, sizeof(name), "before%u", i);
        acquire(cell, (away + 1) % voters, name, 1 + i);
    }
    cell_kill(cell, away);
    for (uint32_t i = 0; i < 30; i++) {
        char name[16];
        snprintf(name, sizeof(name), i < 10 ? "before%u" : "after%u", i);
        acquire_covering(cell, (away + 1) % voters, name, 100 + i, 500);
    }
    uint32_t had = cell->nodes[away].disk.register_count;
    cell_start(cell, away);
    cell_run(cell, (_i < 4 ? 3000 : 15000) * CELL_MS);
    ck_assert_uint_gt(cell->nodes[away].disk.register_count, had);
    cell->loss_percent = 0;
    cell_run(cell, 15000 * CELL_MS);
    ck_assert(all_equal(cell));
    cell_destroy(cell);
}
END_TEST

/* A value that a voter lacks because a message got lost is found too, without a restart. */
START_TEST(lost_accept_is_caught_up)
{
    struct cell *cell = start(3, 4);
    uint32_t owner = cell_coordinator(cell, "a");
    uint32_t other = (owner + 1) % 3;
    cell_run(cell, 15000 * CELL_MS); /* long enough that no voter lacks anything */
    cell->drop[owner][other] = UINT64_C(1) << MESSAGE_ACCEPT;
    acquire(cell, owner, "a", 1);
    ck_assert_uint_eq(cell->nodes[other].disk.register_count, 0);
    cell_run(cell, 12000 * CELL_MS);
    ck_assert(all_equal(cell));
    cell_destroy(cell);
}
END_TEST

/* A listing needs more than one SYNC, and its answers get lost, repeated or overtaken. */
START_TEST(long_listing)
{
    struct cell *cell = start(3, 5 + (uint64_t)_i);
    uint32_t partition = 17;
    uint32_t owner = cell_coordinator_of(cell, 0, partition);
    uint32_t away = (owner + 1) % 3;
    cell_kill(cell, away);
    cell_run_ready(cell);
    owner = cell_coordinator_of(cell, owner, partition);
    for (uint32_t i = 0; i < 60; i++) {
        char name[16];
        name_in(partition, i, name);
        acquire(cell, owner, name, 1 + i);
    }
    cell->loss_percent = _i == 0 ? 0 : 20;
    cell->repeat_percent = _i == 0 ? 0 : 20;
    cell->delay_max_ns = _i == 0 ? 0 : 20 * CELL_MS;
    memset(cell->sent, 0, sizeof(cell->sent));
    cell_start(cell, away);
    cell_run(cell, (_i == 0 ? 900 : 10000) * CELL_MS);
    ck_assert_uint_eq(cell->nodes[away].disk.register_count, 60);
    if (_i == 0) {
        ck_assert(all_equal(cell));
        ck_assert_uint_le(cell->sent[MESSAGE_SYNC], 3 * MESSAGE_PARTITIONS);
        ck_assert_uint_le(cell->sent[MESSAGE_SYNCED], 3 * MESSAGE_PARTITIONS + 62);
    }
    cell_destroy(cell);
}
END_TEST

/* In an idle cell each voter compares a partition now and then, by one message and its answer. */
START_TEST(at_rest_it_costs_little)
{
    struct cell *cell = start(3, 6);
    for (uint32_t i = 0; i < 40; i++) {
        char name[16];
        snprintf(name, sizeof(name), "x%u", i);
        acquire(cell, i % 3, name, 1 + i);
    }
    cell_run(cell, 20000 * CELL_MS);
    ck_assert(all_equal(cell));
    memset(cell->sent, 0, sizeof(cell->sent));
    cell_run(cell, 10000 * CELL_MS);
    ck_assert_uint_le(cell->sent[MESSAGE_SYNC], 3 * 250);
    ck_assert_uint_eq(cell->sent[MESSAGE_SYNCED], cell->sent[MESSAGE_SYNC]);
    ck_assert_uint_le(cell->sent[MESSAGE_HEARTBEAT], 3 * 2 * 101);
    cell_destroy(cell);
}
END_TEST

static void synced(struct cell *cell, uint32_t from, uint32_t to, uint64_t id, const char *name,
                   struct message_order accepted, uint64_t token)
{
    struct message message;
    cell_header(cell, from, MESSAGE_SYNCED, &message);
    message.as.synced.what = MESSAGE_SYNC_REGISTERS;
    message.as.synced.partition = (uint8_t)names_partition(name, strlen(name));
    message.as.synced.kind = MESSAGE_SYNCED_REGISTER;
    message.as.synced.id = id;
    message_name_set(&message.as.synced.name, name, strlen(name));
    message.as.synced.accepted = accepted;
    message.as.synced.value.token_first = token;
    message.as.synced.value.permits = 1;
    cell_send(cell, from, to, &message);
    cell_run(cell, 2 * CELL_MS);
}

struct tapped {
    struct cell *cell;
    uint64_t id;
    uint32_t node, partition;
    uint32_t to;
};

static void see_sync(void *arg, uint32_t from, uint32_t to, const struct message *message)
{
    struct tapped *tapped = arg;
    if (message->kind == MESSAGE_SYNC && from == tapped->node &&
        message->as.sync.partition == tapped->partition && tapped->id == 0) {
        tapped->id = message->as.sync.id;
        tapped->to = to;
        /* the real answer is dropped: the test answers instead */
        tapped->cell->drop[from][to] = UINT64_C(1) << MESSAGE_SYNC;
    }
}

/* A voter takes over nothing that is older than its own value, and nothing for which it did not
 * ask. */
START_TEST(adopts_only_what_is_newer)
{
    struct cell *cell = start(3, 7);
    struct tapped tapped = {.cell = cell, .partition = names_partition("a", 1)};
    uint32_t owner = cell_coordinator(cell, "a");
    uint32_t node = (owner + 1) % 3;
    cell_kill(cell, node);
    acquire(cell, (owner + 2) % 3, "a", 1);
    struct message_order version = cell->nodes[(owner + 2) % 3].last_grant.version;
    tapped.node = node;
    cell->tap = see_sync;
    cell->tap_arg = &tapped;
    cell_start(cell, node);
    for (uint32_t turn = 0; turn < 50 && tapped.id == 0; turn++) {
        cell_run(cell, 20 * CELL_MS);
    }
    ck_assert_uint_ne(tapped.id, 0);
    struct cell_disk *disk = &cell->nodes[node].disk;
    synced(cell, tapped.to, node, tapped.id + 1000, "a", version, 5);
    synced(cell, (tapped.to + 1) % 3, node, tapped.id, "a", version, 5);
    ck_assert_uint_eq(disk->register_count, 0);
    struct message_order newer = {version.ballot + (1 << 16), 3};
    synced(cell, tapped.to, node, tapped.id, "a", newer, 7);
    ck_assert_uint_eq(disk->register_count, 1);
    ck_assert_uint_eq(disk->registers[0].value.token_first, 7);
    ck_assert_uint_ge(disk->promised[tapped.partition], newer.ballot);
    tapped.id = 0;
    for (uint32_t turn = 0; turn < 50 && tapped.id == 0; turn++) {
        cell_run(cell, 20 * CELL_MS); /* the voter asks again, because an answer is missing */
    }
    synced(cell, tapped.to, node, tapped.id, "a", version, 9);
    ck_assert_uint_eq(disk->registers[0].value.token_first, 7);
    ck_assert(message_order_equal(disk->registers[0].accepted, newer));
    cell_destroy(cell);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("sync");
    tcase_add_loop_test(tests, new_name_is_one_accept, 0, 4);
    tcase_add_test(tests, complete_after_take_over);
    tcase_add_loop_test(tests, who_was_away_catches_up, 0, 8);
    tcase_add_test(tests, lost_accept_is_caught_up);
    tcase_add_loop_test(tests, long_listing, 0, 4);
    tcase_add_test(tests, at_rest_it_costs_little);
    tcase_add_test(tests, adopts_only_what_is_newer);
    tcase_set_timeout(tests, 120);
    return suite_main("sync", tests);
}
