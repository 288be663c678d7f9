/* Deletion of unused names: a majority deletes them at once, and a voter that was away deletes them
 * when it is back. Tokens of deleted names never come again, and no name in use is deleted with
 * them. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../suite_main.h"
#include "quorum_cell.h"

enum { NAMES_USED = 100, PARTITION = 7 };

static struct cell *cell;
static char names_used[NAMES_USED][32];

static void make_cell(uint32_t voters, uint64_t seed)
{
    cell = cell_create(voters, seed);
    cell->config.limits.registers = 500;
}

/* Makes a cell, and finds enough names of one partition for a checkpoint. */
static void setup(void)
{
    uint32_t found = 0;
    for (uint32_t i = 0; found < NAMES_USED; i++) {
        char name[32];
        int length = snprintf(name, sizeof(name), "jobs/%u", i);
        if (names_partition(name, (size_t)length) == PARTITION) {
            memcpy(names_used[found++], name, sizeof(name));
        }
    }
    make_cell(3, 1);
}

static void teardown(void)
{
    cell_destroy(cell);
}

static const struct message *granted(uint32_t node, const char *name)
{
    const struct message *message = cell_got(cell, node, MESSAGE_GRANT);
    ck_assert_ptr_nonnull(message);
    ck_assert_uint_eq(message->as.grant.name.length, strlen(name));
    ck_assert_int_eq(memcmp(message->as.grant.name.bytes, name, strlen(name)), 0);
    return message;
}

static uint32_t coordinator(void)
{
    return cell_coordinator(cell, names_used[0]);
}

/* Acquires a name for the node's host. Returns its first token. The acquire takes a little longer
 * if the coordinator asks a voter that does not answer. */
static uint64_t acquire(uint32_t node, const char *name, uint64_t id)
{
    cell->nodes[node].inbox_count = 0;
    cell_acquire(cell, node, coordinator(), name, id, 1, MESSAGE_MODE_EXCLUSIVE, 0);
    cell_run(cell, 20 * CELL_MS);
    if (cell_got(cell, node, MESSAGE_GRANT) == NULL) {
        cell_run(cell, 20 * CELL_MS);
    }
    return granted(node, name)->as.grant.token_first;
}

/* Acquires the name, and gives it back with `tokens` tokens used. Returns the first token. */
static uint64_t use(uint32_t node, const char *name, uint64_t id, uint64_t tokens)
{
    uint64_t first = acquire(node, name, id);
    struct message_order version = granted(node, name)->as.grant.version;
    cell_give_back(cell, node, coordinator(), name, id + 1, 1, version, first + tokens - 1);
    cell_run(cell, 20 * CELL_MS);
    ck_assert_ptr_nonnull(cell_got(cell, node, MESSAGE_GIVE_BACK_ACK));
    return first;
}

/* Uses each name. All names are held before the first one is given back, so no checkpoint is made
 * meanwhile. */
static void use_all(uint64_t tokens)
{
    struct message_order versions[NAMES_USED];
    uint32_t owner = coordinator();
    for (uint32_t i = 0; i < NAMES_USED; i++) {
        ck_assert_uint_eq(acquire(owner, names_used[i], 1000 + 2 * i), 1);
        versions[i] = granted(owner, names_used[i])->as.grant.version;
    }
    for (uint32_t i = 0; i < NAMES_USED; i++) {
        cell_give_back(cell, owner, owner, names_used[i], 1001 + 2 * i, 1, versions[i], tokens);
        cell_run(cell, CELL_MS); /* the coordinator has no room for all give-backs at once */
    }
    cell_run(cell, 20 * CELL_MS);
    uint32_t returned = 0;
    for (uint32_t i = 0; i < cell->nodes[owner].inbox_count; i++) {
        returned += cell->nodes[owner].inbox[i].kind == MESSAGE_GIVE_BACK_ACK;
    }
    ck_assert_uint_eq(returned, NAMES_USED);
}

static uint32_t rows(uint32_t node)
{
    return cell->nodes[node].disk.register_count;
}

static uint64_t floor_at(uint32_t node)
{
    return cell->nodes[node].disk.checkpoints[PARTITION].floor;
}

static void settle(void)
{
    cell_start_all(cell);
    cell_run(cell, 2000 * CELL_MS);
}

START_TEST(idle_names_go_and_their_tokens_do_not_come_again)
{
    settle();
    use_all(5);
    cell_run(cell, 3000 * CELL_MS);
    for (uint32_t node = 0; node < 3; node++) {
        ck_assert_uint_lt(rows(node), NAMES_USED);
        ck_assert_uint_eq(floor_at(node), 5);
    }
    /* The tokens of a deleted name, and of a name that never existed, start above the partition's
     * floor. */
    ck_assert_uint_gt(use(coordinator(), names_used[0], 5000, 1), 5);
    char fresh[] = "jobs/4711";
    uint32_t partition = names_partition(fresh, strlen(fresh));
    uint64_t first = use(cell_coordinator(cell, fresh), fresh, 5002, 1);
    ck_assert(partition == PARTITION ? first > 5 : first == 1);
}
END_TEST

START_TEST(what_is_held_stays)
{
    settle();
    uint64_t held = acquire(coordinator(), names_used[0], 1);
    struct message_order version = granted(coordinator(), names_used[0])->as.grant.version;
    for (uint32_t i = 1; i < NAMES_USED; i++) {
        use(coordinator(), names_used[i], 1000 + 2 * i, 1);
    }
    cell_run(cell, 3000 * CELL_MS);
    ck_assert_uint_gt(floor_at(coordinator()), 0);
    cell->nodes[coordinator()].inbox_count = 0;
    /* the coordinator repeats the same grant */
    ck_assert_uint_eq(acquire(coordinator(), names_used[0], 9001), held);
    ck_assert(
        message_order_equal(granted(coordinator(), names_used[0])->as.grant.version, version));
}
END_TEST

/* A voter that missed the deletion must not bring the names back. */
START_TEST(voter_that_was_away_does_not_bring_them_back)
{
    settle();
    uint32_t owner = coordinator();
    uint32_t away = (owner + 1) % 3;
    uint32_t third = (owner + 2) % 3;
    /* The voter `away` has seen one used token of each name. The host uses more tokens while that
     * voter is away. */
    use_all(1);
    ck_assert_uint_eq(floor_at(away), 0);
    cell_kill(cell, away);
    cell_run(cell, 1000 * CELL_MS);
    for (uint32_t i = 0; i < NAMES_USED; i++) {
        use(coordinator(), names_used[i], 3000 + 2 * i, 100);
    }
    cell_run(cell, 3000 * CELL_MS);
    uint64_t floor = floor_at(coordinator());
    ck_assert_uint_gt(floor, 100);
    ck_assert_uint_gt(rows(away), 0);
    /* The voter `away` comes back, and the coordinator is killed. From then on, `away` is part of
     * every majority. */
    cell_start(cell, away);
    cell_run(cell, 50 * CELL_MS);
    cell_kill(cell, owner);
    cell_run(cell, 3000 * CELL_MS);
    ck_assert_uint_ne(coordinator(), owner);
    for (uint32_t i = 0; i < 5; i++) {
        ck_assert_uint_gt(use(coordinator(), names_used[i], 7000 + 2 * i, 1), floor);
    }
    ck_assert_uint_ge(floor_at(third), floor);
    cell_run(cell, 15000 * CELL_MS);
    /* the voter has caught up, and has followed the deletion */
    ck_assert_uint_ge(floor_at(away), floor);
    ck_assert_uint_lt(rows(away), NAMES_USED / 2);
}
END_TEST

START_TEST(restart_of_all_remembers_the_floor)
{
    settle();
    use_all(9);
    cell_run(cell, 3000 * CELL_MS);
    uint64_t floor = floor_at(0);
    ck_assert_uint_ge(floor, 9);
    for (uint32_t node = 0; node < 3; node++) {
        cell_kill(cell, node);
    }
    settle();
    ck_assert_uint_gt(use(coordinator(), names_used[3], 5000, 1), floor);
}
END_TEST

/* A row that is still on the disk, but is older than its partition's checkpoint, is treated as
 * deleted. */
START_TEST(row_below_the_checkpoint_is_not_there)
{
    settle();
    use_all(3);
    struct cell_disk saved = cell->nodes[0].disk;
    struct quorum_register *old = calloc(saved.register_count, sizeof(*old));
    ck_assert_ptr_nonnull(old);
    uint32_t count = saved.register_count;
    memcpy(old, saved.registers, count * sizeof(*old));
    cell_run(cell, 3000 * CELL_MS);
    uint64_t floor = floor_at(0);
    for (uint32_t node = 0; node < 3; node++) {
        cell_kill(cell, node);
    }
    ck_assert_uint_ge(floor, 3);
    struct cell_disk *disk = &cell->nodes[0].disk;
    struct message_order order = disk->checkpoints[PARTITION].order;
    uint32_t put = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (!message_order_before(order, old[i].accepted)) {
            uint32_t at = 0;
            while (at < disk->register_count &&
                   memcmp(&disk->registers[at].name, &old[i].name, sizeof(old[i].name)) != 0) {
                at++;
            }
            if (at == disk->register_count) {
                disk->registers[disk->register_count++] = old[i];
                put++;
            }
        }
    }
    free(old);
    ck_assert_uint_gt(put, 0);
    uint32_t before = rows(0);
    settle();
    ck_assert_uint_lt(rows(0), before); /* the node has deleted these rows */
    ck_assert_uint_gt(use(coordinator(), names_used[3], 5000, 1), floor);
}
END_TEST

START_TEST(one_voter_deletes_too)
{
    cell_destroy(cell);
    make_cell(1, 1);
    settle();
    use_all(4);
    /* the coordinator looks for names to delete only after some operations */
    for (uint32_t i = 0; i < 8; i++) {
        char other[32];
        snprintf(other, sizeof(other), "other/%u", i);
        use(0, other, 8000 + 2 * i, 1);
        cell_run(cell, 300 * CELL_MS);
    }
    ck_assert_uint_eq(floor_at(0), 4);
    ck_assert_uint_gt(use(0, names_used[0], 9000, 1), 4);
}
END_TEST

/* A voter follows a deletion only if that voter has all names that are in use. */
START_TEST(voter_that_lacks_what_is_held_does_not_follow)
{
    settle();
    uint32_t owner = coordinator();
    uint32_t lacking = (owner + 1) % 3;
    cell_run(cell, 11000 * CELL_MS);
    cell->drop[owner][lacking] = UINT64_C(1) << MESSAGE_ACCEPT | UINT64_C(1) << MESSAGE_SYNCED;
    uint64_t held = acquire(owner, names_used[0], 1);
    cell->drop[owner][lacking] = UINT64_C(1) << MESSAGE_SYNCED;
    for (uint32_t i = 1; i < NAMES_USED; i++) {
        use(owner, names_used[i], 1000 + 2 * i, 1);
    }
    cell_run(cell, 3000 * CELL_MS);
    ck_assert_uint_gt(floor_at(owner), 0);
    ck_assert_uint_eq(floor_at(lacking), 0);
    cell->drop[owner][lacking] = 0;
    cell_run(cell, 15000 * CELL_MS);
    ck_assert_uint_gt(floor_at(lacking), 0);
    ck_assert_uint_eq(acquire(owner, names_used[0], 9001), held);
}
END_TEST

static struct message late; /* a CHECKPOINT that was on its way to voter late_to */
static uint32_t late_to;

static void keep_checkpoint(void *arg, uint32_t from, uint32_t to, const struct message *message)
{
    (void)arg;
    (void)from;
    if (message->kind == MESSAGE_CHECKPOINT && to == late_to) {
        message_copy(&late, message);
    }
}

/* A voter that accepted a value after the checkpoint keeps the value, even if the name is idle
 * again. */
START_TEST(checkpoint_that_comes_late_takes_nothing)
{
    settle();
    uint32_t owner = coordinator();
    late_to = (owner + 1) % 3;
    cell_run(cell, 11000 * CELL_MS);
    cell->tap = keep_checkpoint;
    cell->drop[owner][late_to] = UINT64_C(1) << MESSAGE_CHECKPOINT | UINT64_C(1) << MESSAGE_SYNCED;
    use_all(1);
    cell_run(cell, 1000 * CELL_MS);
    ck_assert_int_eq(late.kind, MESSAGE_CHECKPOINT);
    cell->tap = NULL;
    use(owner, names_used[0], 9000, 1);
    uint32_t before = rows(late_to);
    struct quorum_event event = {
        .kind = QUORUM_MESSAGE, .now_ns = cell->now_ns, .random = cell_random(cell)};
    event.as.message = &late;
    cell_step(cell, late_to, event);
    ck_assert_uint_eq(rows(late_to), before);
    ck_assert_uint_eq(floor_at(late_to), 0);
}
END_TEST

/* Messages get lost, and voters die, while names are used and deleted: the tokens of a name only
 * rise. */
START_TEST(tokens_rise_through_it_all)
{
    uint64_t highest[NAMES_USED] = {0};
    cell_destroy(cell);
    make_cell(3, 4000 + (uint64_t)_i);
    settle();
    for (uint32_t round = 0; round < 4; round++) {
        uint32_t victim = (uint32_t)(cell_random(cell) % 3);
        for (uint32_t i = 0; i < NAMES_USED; i++) {
            if (i == NAMES_USED / 2) {
                cell_kill(cell, victim);
                cell_run(cell, 1500 * CELL_MS);
            }
            uint32_t node = coordinator();
            uint64_t first = use(node, names_used[i], 10000 * (round + 1) + 2 * i, 1 + i % 3);
            ck_assert_uint_gt(first, highest[i]);
            highest[i] = first + i % 3;
        }
        cell_start(cell, victim);
        cell_run(cell, (int64_t)(cell_random(cell) % 3000) * CELL_MS);
    }
    ck_assert_uint_gt(floor_at(coordinator()), 0);
}
END_TEST

/* Returns the voter that takes over the names when their coordinator is gone. */
static uint32_t heir(void)
{
    struct message_agent others[MESSAGE_VOTERS_MAX];
    uint32_t owner = coordinator();
    uint32_t count = 0;
    for (uint32_t i = 0; i < cell->config.voter_count; i++) {
        if (i != owner) {
            others[count++] = cell->config.voters[i];
        }
    }
    uint32_t best = quorum_preferred(others, count, PARTITION);
    return best < owner ? best : best + 1;
}

static void drop_from(uint32_t node, enum message_kind kind, bool lost)
{
    for (uint32_t i = 0; i < cell->config.voter_count; i++) {
        cell->drop[node][i] = lost ? UINT64_C(1) << kind : 0;
    }
}

/* A coordinator that missed a deletion reads from several voters, and keeps each value that one of
 * them has. */
START_TEST(reading_two_voters_at_once_loses_nothing)
{
    enum { HELD = 20 };
    struct message_order versions[HELD];
    cell_destroy(cell);
    make_cell(5, 70 + (uint64_t)_i);
    settle();
    uint32_t owner = coordinator();
    uint32_t away = heir();
    uint32_t holder = (owner + 1) % 5 == away ? (owner + 2) % 5 : (owner + 1) % 5;
    cell_kill(cell, away);
    cell_run(cell, 1000 * CELL_MS);
    for (uint32_t i = 0; i < HELD; i++) {
        acquire(holder, names_used[i], 1 + i);
        versions[i] = granted(holder, names_used[i])->as.grant.version;
    }
    for (uint32_t i = HELD; i < NAMES_USED; i++) {
        use(owner, names_used[i], 1000 + 2 * i, 1);
    }
    cell_run(cell, 3000 * CELL_MS);
    ck_assert_uint_gt(floor_at(owner), 0);
    drop_from(away, MESSAGE_SYNC, true);
    cell_start(cell, away);
    cell_run(cell, 50 * CELL_MS);
    cell_kill(cell, owner);
    cell_run(cell, 800 * CELL_MS);
    ck_assert_uint_eq(coordinator(), away);
    ck_assert_uint_eq(floor_at(away), 0);
    drop_from(away, MESSAGE_SYNC, false);
    cell->delay_max_ns = 20 * CELL_MS; /* messages arrive in any order */
    cell_run(cell, 20000 * CELL_MS);
    cell->delay_max_ns = CELL_MS;
    ck_assert(quorum_ready(cell->nodes[away].quorum));
    ck_assert_uint_gt(floor_at(away), 0);
    for (uint32_t i = 0; i < HELD; i++) {
        /* the holder still has the lock, so the answer to this request is the same grant */
        acquire(holder, names_used[i], 9000 + i);
        ck_assert(
            message_order_equal(granted(holder, names_used[i])->as.grant.version, versions[i]));
    }
}
END_TEST

/* A coordinator that missed deletions is complete only after it has followed them. */
START_TEST(deletion_that_cannot_be_followed_yet_is_followed_later)
{
    settle();
    uint32_t owner = coordinator();
    uint32_t away = heir();
    uint32_t third = 3 - owner - away;
    acquire(third, names_used[0], 1);
    struct message_order version = granted(third, names_used[0])->as.grant.version;
    cell_run(cell, 1000 * CELL_MS);
    cell_kill(cell, away);
    cell_run(cell, 1000 * CELL_MS);
    cell_give_back(cell, third, owner, names_used[0], 2, 1, version, 50);
    cell_run(cell, 100 * CELL_MS);
    for (uint32_t i = 1; i < NAMES_USED; i++) {
        use(owner, names_used[i], 1000 + 2 * i, 60);
    }
    cell_run(cell, 3000 * CELL_MS);
    uint64_t floor = floor_at(owner);
    ck_assert_uint_ge(floor, 60);
    drop_from(away, MESSAGE_SYNC, true);
    cell_start(cell, away);
    cell_run(cell, 50 * CELL_MS);
    cell_kill(cell, owner);
    cell_run(cell, 800 * CELL_MS);
    ck_assert_uint_eq(coordinator(), away);
    ck_assert_uint_eq(floor_at(away), 0);
    /* The reading of one name takes long. Meanwhile the anti-entropy of the partition ends. */
    drop_from(third, MESSAGE_VALUE, true);
    cell_acquire(cell, third, away, names_used[NAMES_USED - 1], 5000, 1, MESSAGE_MODE_EXCLUSIVE, 0);
    cell_run(cell, 20 * CELL_MS);
    drop_from(away, MESSAGE_SYNC, false);
    cell_run(cell, 250 * CELL_MS);
    drop_from(third, MESSAGE_VALUE, false);
    ck_assert_uint_gt(acquire(third, names_used[0], 6000), floor);
    cell_run(cell, 3000 * CELL_MS);
    ck_assert_uint_eq(floor_at(away), floor);
}
END_TEST

/* Returns how many rows of deleted names the node's disk has. */
static uint32_t rows_left(uint32_t node)
{
    const struct cell_node *at = &cell->nodes[node];
    uint32_t count = 0;
    for (uint32_t i = 0; i < at->disk.register_count; i++) {
        const struct message_name *name = &at->disk.registers[i].name;
        struct quorum_register reg;
        uint32_t id = names_find(at->names, name->bytes, name->length);
        count += id == NAMES_NONE || !quorum_look(at->quorum, id, &reg);
    }
    return count;
}

/* A voter follows the deletion of more registers than a step has room for. */
START_TEST(deletion_of_many_is_followed)
{
    enum { MANY = 300 };
    static struct message_order versions[MANY];
    static char names[MANY][32];
    uint32_t found = 0;
    for (uint32_t i = 0; found < MANY; i++) {
        int length = snprintf(names[found], sizeof(names[0]), "many/%u", i);
        found += names_partition(names[found], (size_t)length) == PARTITION;
    }
    settle();
    uint32_t owner = coordinator();
    uint32_t away = heir();
    for (uint32_t i = 0; i < MANY; i++) {
        acquire(owner, names[i], 1 + i);
        versions[i] = granted(owner, names[i])->as.grant.version;
    }
    cell_run(cell, 1000 * CELL_MS);
    cell_kill(cell, away);
    cell_run(cell, 1000 * CELL_MS);
    for (uint32_t i = 0; i < MANY; i++) {
        cell_give_back(cell, owner, owner, names[i], 1000 + i, 1, versions[i], 9);
        /* many give-backs are under way at a time */
        cell_run(cell, i < MANY - 4 ? CELL_MS / 2 : 100 * CELL_MS);
    }
    cell_run(cell, 4000 * CELL_MS);
    ck_assert_uint_ge(floor_at(owner), 9);
    ck_assert_uint_eq(rows_left(owner), 0);
    cell_start(cell, away);
    cell_run(cell, 20000 * CELL_MS);
    ck_assert_uint_eq(floor_at(away), floor_at(owner));
    ck_assert_uint_lt(rows(away), MANY / 2);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("checkpoint");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, idle_names_go_and_their_tokens_do_not_come_again);
    tcase_add_test(tests, what_is_held_stays);
    tcase_add_test(tests, voter_that_was_away_does_not_bring_them_back);
    tcase_add_test(tests, restart_of_all_remembers_the_floor);
    tcase_add_test(tests, row_below_the_checkpoint_is_not_there);
    tcase_add_test(tests, one_voter_deletes_too);
    tcase_add_loop_test(tests, reading_two_voters_at_once_loses_nothing, 0, 8);
    tcase_add_test(tests, deletion_that_cannot_be_followed_yet_is_followed_later);
    tcase_add_test(tests, deletion_of_many_is_followed);
    tcase_add_test(tests, voter_that_lacks_what_is_held_does_not_follow);
    tcase_add_test(tests, checkpoint_that_comes_late_takes_nothing);
    tcase_add_loop_test(tests, tokens_rise_through_it_all, 0, 6);
    tcase_set_timeout(tests, 300);
    return suite_main("checkpoint", tests);
}
