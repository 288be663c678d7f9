/* Membership: which store votes, which store is refused, and how a voter starts over. */
#include <check.h>
#include <string.h>

#include "../suite_main.h"
#include "quorum_cell.h"

static struct cell *cell;

static void setup(void)
{
    cell = cell_create(3, 1);
    cell->natural = true;
}

static void teardown(void)
{
    cell_destroy(cell);
}

static enum message_voter_status status(uint32_t node)
{
    return quorum_voter_status(cell->nodes[node].quorum);
}

static void expect_voting(void)
{
    for (uint32_t node = 0; node < cell->config.voter_count; node++) {
        ck_assert_msg(!cell->nodes[node].up || status(node) == MESSAGE_STATUS_VOTING,
                      "node %u: %d, %s", node, status(node), cell->nodes[node].log_text);
    }
}

static void kill_all(void)
{
    for (uint32_t node = 0; node < cell->config.voter_count; node++) {
        cell_kill(cell, node);
    }
}

/* Gets a grant through the name's coordinator. Returns its first token. */
static uint64_t use(const char *name, uint64_t id)
{
    uint32_t owner = cell_coordinator(cell, name);
    cell->nodes[owner].inbox_count = 0;
    cell_acquire(cell, owner, owner, name, id, 1, MESSAGE_MODE_EXCLUSIVE, 0);
    /* A voter that starts over prepares every partition with a new ballot, which ends the ballot of
     * the partition's owner. The owner learns of this during these 500 ms. */
    cell_run(cell, 500 * CELL_MS);
    const struct message *grant = cell_got(cell, owner, MESSAGE_GRANT);
    ck_assert_ptr_nonnull(grant);
    uint64_t first = grant->as.grant.token_first;
    struct message_order version = grant->as.grant.version;
    cell_give_back(cell, owner, owner, name, id + 1, 1, version, first);
    cell_run(cell, 50 * CELL_MS);
    ck_assert_ptr_nonnull(cell_got(cell, owner, MESSAGE_GIVE_BACK_ACK));
    return first;
}

START_TEST(record_is_made_when_all_are_there)
{
    cell_start(cell, 0);
    cell_start(cell, 1);
    cell_run(cell, 6000 * CELL_MS);
    ck_assert_int_eq(status(0), MESSAGE_STATUS_EMPTY);
    ck_assert_int_eq(status(1), MESSAGE_STATUS_EMPTY);
    ck_assert_str_eq(cell->nodes[0].last_log, "voter_waits");
    ck_assert_ptr_nonnull(strstr(cell->nodes[0].log_text, "missing: host-c"));
    ck_assert_ptr_nonnull(strstr(cell->nodes[1].log_text, "missing: host-c"));
    cell_start(cell, 2);
    cell_run(cell, 3000 * CELL_MS);
    expect_voting();
    for (uint32_t node = 0; node < 3; node++) {
        for (uint32_t i = 0; i < 3; i++) {
            ck_assert_uint_eq(cell->nodes[node].disk.members[i].generation, 1);
            ck_assert_uint_eq(cell->nodes[node].disk.members[i].store_id[1], i + 1);
        }
    }
    use("a", 1);
}
END_TEST

START_TEST(after_a_restart_of_all_they_vote)
{
    cell_start_all(cell);
    cell_run(cell, 1000 * CELL_MS);
    uint64_t first = use("a", 1);
    for (uint32_t i = 0; i < 3; i++) {
        kill_all();
        cell_start_all(cell);
        cell_run(cell, 1000 * CELL_MS);
        expect_voting();
    }
    ck_assert_uint_gt(use("a", 3), first);
}
END_TEST

/* A voter alone does not know whether its store is an old copy, so it needs a majority after a
 * start. */
START_TEST(needs_a_majority_after_a_start)
{
    cell_start_all(cell);
    cell_run(cell, 1000 * CELL_MS);
    kill_all();
    cell_start(cell, 0);
    cell_run(cell, 3000 * CELL_MS);
    ck_assert_int_eq(status(0), MESSAGE_STATUS_LISTED);
    cell_start(cell, 1);
    cell_run(cell, 1000 * CELL_MS);
    expect_voting();
}
END_TEST

static void save(struct cell_disk *copy, struct quorum_register *registers, uint32_t node)
{
    const struct cell_disk *disk = &cell->nodes[node].disk;
    ck_assert_uint_le(disk->register_count, 64);
    *copy = *disk;
    memcpy(registers, disk->registers, disk->register_count * sizeof(*registers));
}

static void restore(const struct cell_disk *copy, const struct quorum_register *registers,
                    uint32_t node)
{
    struct cell_disk *disk = &cell->nodes[node].disk;
    struct quorum_register *own = disk->registers;
    *disk = *copy;
    disk->registers = own;
    memcpy(own, registers, copy->register_count * sizeof(*own));
}

/* An old copy of a store is refused even if its voter starts again and again: the commits of these
 * starts do not make the copy look new. */
START_TEST(old_copy_of_a_disk_is_refused)
{
    static struct cell_disk copy;
    static struct quorum_register registers[64];
    cell_start_all(cell);
    cell_run(cell, 1000 * CELL_MS);
    use("a", 1);
    cell_kill(cell, 0);
    save(&copy, registers, 0);
    cell_start(cell, 0);
    cell_run(cell, 1500 * CELL_MS);
    for (uint32_t i = 0; i < 5; i++) {
        use("a", 10 + 2 * i);
        use("b", 30 + 2 * i);
        cell_run(cell, 1100 * CELL_MS);
    }
    cell_kill(cell, 0);
    restore(&copy, registers, 0);
    for (uint32_t i = 0; i < 12; i++) {
        cell_start(cell, 0);
        cell_run(cell, 300 * CELL_MS);
        ck_assert_int_eq(status(0), MESSAGE_STATUS_REFUSED);
        ck_assert_ptr_nonnull(strstr(cell->nodes[0].log_text, "is an old copy: commit"));
        ck_assert_ptr_nonnull(strstr(cell->nodes[0].log_text, "holdfast member rejoin"));
        cell_kill(cell, 0);
    }
    cell_run(cell, 1000 * CELL_MS);
    use("a", 100); /* the other voters still serve */
}
END_TEST

/* Starts that are killed before they ask another voter do not make the copy look new, either. A few
 * commits would be enough to look new, if they counted. */
START_TEST(old_copy_whose_starts_are_killed_is_refused)
{
    static struct cell_disk copy;
    static struct quorum_register registers[64];
    cell_start_all(cell);
    cell_run(cell, 1000 * CELL_MS);
    use("a", 1);
    save(&copy, registers, 0);
    use("a", 10);
    use("b", 30);
    /* meanwhile the other voters store which commits of this voter they saw */
    cell_run(cell, 2500 * CELL_MS);
    uint64_t seen = cell->nodes[1].disk.seen[0].commit;
    ck_assert_uint_gt(seen, copy.commits);
    cell_kill(cell, 0);
    restore(&copy, registers, 0);
    while (cell->nodes[0].disk.commits < seen + 2) {
        cell_start_killed(cell, 0);
    }
    cell_start(cell, 0);
    cell_run(cell, 1000 * CELL_MS);
    ck_assert_int_eq(status(0), MESSAGE_STATUS_REFUSED);
}
END_TEST

/* A copy from before the first commit of its store is refused, too. */
START_TEST(old_copy_without_a_commit_is_refused)
{
    static struct cell_disk copy;
    static struct quorum_register registers[64];
    cell->nodes[0].disk.commits = 0;
    save(&copy, registers, 0);
    cell_start_all(cell);
    cell_run(cell, 2500 * CELL_MS);
    expect_voting();
    use("a", 1);
    /* meanwhile the other voters store which commits of this voter they saw */
    cell_run(cell, 2500 * CELL_MS);
    uint64_t seen = cell->nodes[1].disk.seen[0].commit;
    ck_assert_uint_gt(seen, 0);
    cell_kill(cell, 0);
    restore(&copy, registers, 0);
    cell_start_killed(cell, 0);
    /* this start made more commits than the other voters have seen */
    cell->nodes[0].disk.commits = seen + 2;
    cell_start_killed(cell, 0);
    cell_start(cell, 0);
    cell_run(cell, 1000 * CELL_MS);
    ck_assert_int_eq(status(0), MESSAGE_STATUS_REFUSED);
}
END_TEST

/* The copy is from before the store's first vote, but the store has voted since. */
START_TEST(old_copy_of_a_store_that_started_over_is_refused)
{
    static struct cell_disk copy;
    static struct quorum_register registers[64];
    cell_start_all(cell);
    cell_run(cell, 1000 * CELL_MS);
    use("a", 1);
    cell_kill(cell, 0);
    cell_wipe(cell, 0, true);
    cell_start(cell, 0);
    cell_run(cell, 300 * CELL_MS);
    ck_assert_int_eq(status(0), MESSAGE_STATUS_REJOINING);
    save(&copy, registers, 0);
    cell_run(cell, 6000 * CELL_MS);
    expect_voting();
    use("a", 10);
    cell_run(cell, 2500 * CELL_MS);
    cell_kill(cell, 0);
    restore(&copy, registers, 0);
    cell_start(cell, 0);
    cell_run(cell, 6000 * CELL_MS);
    ck_assert_int_eq(status(0), MESSAGE_STATUS_REFUSED);
}
END_TEST

/* The disk of a voter lacks the voter's own line in the record of stores, as if it had lost the
 * last commit of its first start. The other voters have that line. The voter starts over with that
 * line. */
START_TEST(starts_over_with_the_line_that_the_others_have)
{
    static struct cell_disk copy;
    static struct quorum_register registers[64];
    cell_start_all(cell);
    cell_run(cell, 1000 * CELL_MS);
    use("a", 1);
    cell_kill(cell, 0);
    cell_wipe(cell, 0, true);
    save(&copy, registers, 0);
    cell_start(cell, 0);
    cell_run(cell, 1000 * CELL_MS);
    ck_assert_uint_eq(cell->nodes[1].disk.members[0].generation, 2);
    cell_kill(cell, 0);
    restore(&copy, registers, 0);
    cell_start(cell, 0);
    cell_run(cell, 8000 * CELL_MS);
    expect_voting();
}
END_TEST

START_TEST(lost_store_is_refused_until_it_starts_over)
{
    cell_start_all(cell);
    cell_run(cell, 1000 * CELL_MS);
    uint64_t first = use("a", 1);
    cell_kill(cell, 2);
    cell_wipe(cell, 2, false);
    cell_start(cell, 2);
    cell_run(cell, 2000 * CELL_MS);
    ck_assert_int_eq(status(2), MESSAGE_STATUS_REFUSED);
    ck_assert_ptr_nonnull(strstr(cell->nodes[2].log_text, "is not the one that the cell knows"));
    ck_assert_uint_gt(use("a", 3), first);
    cell_kill(cell, 2);
    cell_wipe(cell, 2, true);
    cell_start(cell, 2);
    cell_run(cell, 5000 * CELL_MS);
    expect_voting();
    ck_assert(!cell->nodes[2].disk.rejoin);
    for (uint32_t node = 0; node < 3; node++) {
        ck_assert_uint_eq(cell->nodes[node].disk.members[2].generation, 2);
    }
    /* The voter that started over has every register, and still votes after another restart. */
    ck_assert_uint_eq(cell->nodes[2].disk.register_count, cell->nodes[0].disk.register_count);
    kill_all();
    cell_start_all(cell);
    cell_run(cell, 1000 * CELL_MS);
    expect_voting();
}
END_TEST

/* The replaced store is refused if it appears again. */
START_TEST(store_that_was_replaced_is_refused)
{
    static struct cell_disk copy;
    static struct quorum_register registers[64];
    cell_start_all(cell);
    cell_run(cell, 1000 * CELL_MS);
    use("a", 1);
    cell_kill(cell, 1);
    save(&copy, registers, 1);
    cell_wipe(cell, 1, true);
    cell_start(cell, 1);
    cell_run(cell, 5000 * CELL_MS);
    expect_voting();
    cell_kill(cell, 1);
    restore(&copy, registers, 1);
    cell_start(cell, 1);
    cell_run(cell, 2000 * CELL_MS);
    ck_assert_int_eq(status(1), MESSAGE_STATUS_REFUSED);
}
END_TEST

/* Only one other voter has the newest value, which the lost store helped to choose. Starting over
 * must find that value. */
START_TEST(starting_over_forgets_nothing)
{
    cell_start_all(cell);
    cell_run(cell, 1000 * CELL_MS);
    uint32_t owner = cell_coordinator(cell, "a");
    uint32_t lost = (owner + 1) % 3;
    uint32_t away = (owner + 2) % 3;
    cell_kill(cell, away);
    cell_run(cell, 1000 * CELL_MS);
    uint64_t first = use("a", 1); /* `owner` and `lost` chose the value of this grant */
    cell_kill(cell, lost);
    cell_wipe(cell, lost, true);
    cell_start(cell, lost);
    cell_run(cell, 3000 * CELL_MS);
    ck_assert_int_eq(status(lost), MESSAGE_STATUS_REJOINING); /* both other voters are needed */
    cell_start(cell, away);
    cell_run(cell, 5000 * CELL_MS);
    expect_voting();
    cell_kill(cell, owner);
    cell_run(cell, 2000 * CELL_MS);
    ck_assert_uint_gt(use("a", 3), first);
}
END_TEST

/* Which steps voter 2 has begun: its new line in the record, its PREPARE, its SYNC. */
static struct {
    bool line, prepare, sync;
} begun;

static void note_begun(void *arg, uint32_t from, uint32_t to, const struct message *message)
{
    (void)arg;
    (void)to;
    begun.prepare = begun.prepare || (from == 2 && message->kind == MESSAGE_PREPARE);
    begun.sync = begun.sync || (from == 2 && message->kind == MESSAGE_SYNC);
}

#define KIND(kind) (UINT64_C(1) << (kind))

/*
 * Each step of starting over needs N/2 + 1 of the other voters: in a cell of three, both. In one
 * step (_i % 4) one of them (_i / 4) cannot be reached. In step 0 voter 2 needs that voter's
 * record, in step 1 that voter's report that it has the new line, in step 2 that voter's promises,
 * in step 3 that voter's registers. The next step does not begin while that voter cannot be
 * reached, and begins afterwards.
 */
START_TEST(each_step_of_starting_over_needs_more_than_half_of_the_others)
{
    static const uint64_t dropped[] = {KIND(MESSAGE_HELLO), 0, KIND(MESSAGE_PROMISE),
                                       KIND(MESSAGE_SYNCED)};
    uint32_t away = (uint32_t)_i / 4;
    int step = _i % 4;
    memset(&begun, 0, sizeof(begun));
    cell_start_all(cell);
    cell_run(cell, 1000 * CELL_MS);
    cell_kill(cell, 2);
    cell_wipe(cell, 2, true);
    cell->drop[away][2] = dropped[step];
    cell->tap = note_begun;
    cell_start(cell, 2);
    while (step == 1 && cell->nodes[2].disk.members[2].generation == 0) {
        cell_run(cell, CELL_MS / 100);
    }
    /* the voter `away` is down when the line is sent, and gets it from no voter afterwards */
    if (step == 1) {
        cell_kill(cell, away);
        cell->cut[2][away] = cell->cut[1 - away][away] = true;
        cell_run(cell, 100 * CELL_MS);
        cell_start(cell, away);
    }
    cell_run(cell, 4 * CELL_TTL_NS);
    begun.line = cell->nodes[2].disk.members[2].generation != 0;
    ck_assert_int_eq(status(2), MESSAGE_STATUS_REJOINING);
    ck_assert(begun.line == (step > 0) && begun.prepare == (step > 1) && begun.sync == (step > 2));
    cell->drop[away][2] = 0;
    cell->cut[2][away] = cell->cut[1 - away][away] = false;
    cell_run(cell, 4 * CELL_TTL_NS);
    expect_voting();
}
END_TEST

static void see_mark(void *arg, uint32_t from, uint32_t to, const struct message *message)
{
    int64_t *first_ns = arg;
    (void)to;
    if (from == 2 && message->kind == MESSAGE_MARKED && message->as.session_answer.yes &&
        *first_ns == 0) {
        *first_ns = cell->now_ns;
    }
}

/* Voter 1 alone has marked a session that the two other voters extend. When voter 2 starts over, it
 * gets that mark, so a majority has it. Voter 2 acknowledges the mark only after the session's last
 * lease has ended. */
START_TEST(starting_over_ends_no_session_that_lives)
{
    int64_t first_ns = 0;
    cell_start_all(cell);
    cell_run(cell, 1000 * CELL_MS);
    cell_kill(cell, 1);
    struct cell_disk *disk = &cell->nodes[1].disk;
    disk->marks[disk->mark_count++] = (struct message_session){.agent = cell->config.voters[0],
                                                               .epoch = 1};
    cell_start(cell, 1);
    cell_run(cell, 1000 * CELL_MS);
    cell_extend(cell, 0, 0, 1);
    cell_extend(cell, 0, 2, 1);
    int64_t extended_ns = cell->now_ns;
    cell->tap = see_mark;
    cell->tap_arg = &first_ns;
    cell_kill(cell, 2);
    cell_wipe(cell, 2, true);
    cell_start(cell, 2);
    for (uint32_t i = 0; i < 100; i++) {
        struct message message;
        cell_header(cell, 0, MESSAGE_MARK, &message);
        message.as.session.agent = cell->config.voters[0];
        message.as.session.epoch = 1;
        cell_send(cell, 0, 2, &message);
        cell_run(cell, 50 * CELL_MS);
    }
    expect_voting();
    ck_assert_int_gt(first_ns, extended_ns + CELL_TTL_NS);
}
END_TEST

START_TEST(killed_while_it_starts_over)
{
    cell_destroy(cell);
    cell = cell_create(5, 100 + (uint64_t)_i);
    cell->natural = true;
    cell_start_all(cell);
    cell_run(cell, 1500 * CELL_MS);
    uint64_t first = use("a", 1);
    cell_kill(cell, 3);
    cell_wipe(cell, 3, true);
    for (uint32_t i = 0; i < 10; i++) {
        cell_start(cell, 3);
        cell_run(cell, (int64_t)(cell_random(cell) % 60) * CELL_MS);
        cell_kill(cell, 3);
    }
    cell_start(cell, 3);
    cell_run(cell, 6000 * CELL_MS);
    expect_voting();
    ck_assert_uint_gt(use("a", 3), first);
}
END_TEST

START_TEST(two_different_configurations)
{
    cell_start(cell, 0);
    cell_start(cell, 1);
    cell->config.session_ttl_ns += 1000 * CELL_MS;
    cell_start(cell, 2);
    cell_run(cell, 3000 * CELL_MS);
    ck_assert_int_eq(status(0), MESSAGE_STATUS_EMPTY);
    ck_assert_str_eq(cell->nodes[0].last_log, "rules_differ");
    ck_assert_ptr_nonnull(strstr(cell->nodes[0].log_text, "session_ttl: 3s here, 4s there"));
    ck_assert_ptr_nonnull(strstr(cell->nodes[2].log_text, "session_ttl: 4s here, 3s there"));
}
END_TEST

/* A store of a cell of one host is used in a cell of three. */
START_TEST(used_store_without_a_record)
{
    struct cell_disk *disk = &cell->nodes[0].disk;
    disk->promised[5] = UINT64_C(1) << 16 | 1;
    cell_start_all(cell);
    cell_run(cell, 2000 * CELL_MS);
    ck_assert_int_eq(status(0), MESSAGE_STATUS_REFUSED);
    ck_assert_ptr_nonnull(strstr(cell->nodes[0].log_text, "no record of a cell"));
    ck_assert_int_eq(status(1), MESSAGE_STATUS_EMPTY);
}
END_TEST

START_TEST(loss_and_reordering)
{
    cell_destroy(cell);
    cell = cell_create(_i % 2 == 0 ? 3 : 5, 500 + (uint64_t)_i);
    cell->natural = true;
    cell->loss_percent = 20;
    cell->repeat_percent = 20;
    cell->delay_max_ns = 30 * CELL_MS;
    cell_start_all(cell);
    cell_run(cell, 8000 * CELL_MS);
    cell_kill(cell, 1);
    cell_wipe(cell, 1, true);
    cell_start(cell, 1);
    cell_run(cell, 60000 * CELL_MS);
    cell->loss_percent = 0;
    cell->repeat_percent = 0;
    cell_run(cell, 10000 * CELL_MS);
    expect_voting();
}
END_TEST

/* An empty store does not accept a record that names another store for its voter. */
START_TEST(record_of_another_store_is_not_taken)
{
    cell_start_all(cell);
    cell_run(cell, 1000 * CELL_MS);
    cell_kill(cell, 2);
    cell_wipe(cell, 2, false);
    cell_start(cell, 2);
    for (uint32_t i = 0; i < 200 && status(2) == MESSAGE_STATUS_EMPTY; i++) {
        cell_run(cell, CELL_MS);
    }
    ck_assert_int_eq(status(2), MESSAGE_STATUS_REFUSED);
    for (uint32_t i = 0; i < 3; i++) {
        ck_assert_uint_eq(cell->nodes[2].disk.members[i].generation, 0);
    }
}
END_TEST

/* Returns the order of a name's row on the node's disk; its ballot is 0 if there is no row. */
static struct message_order row_of(uint32_t node, const struct message_name *name)
{
    const struct cell_disk *disk = &cell->nodes[node].disk;
    for (uint32_t i = 0; i < disk->register_count; i++) {
        if (memcmp(&disk->registers[i].name, name, sizeof(*name)) == 0) {
            return disk->registers[i].accepted;
        }
    }
    return (struct message_order){0};
}

/* Before its first vote, a voter that starts over has all registers and marks of the others. There
 * are more marks than one answer to a SYNC has room for. */
enum { MARKS = MESSAGE_SYNC_BATCH + 8 };
START_TEST(who_starts_over_votes_with_everything)
{
    cell_start_all(cell);
    cell_run(cell, 1000 * CELL_MS);
    for (uint64_t i = 0; i < 20; i++) {
        char name[] = {'n', (char)('a' + i), '\0'};
        use(name, 1 + 2 * i);
    }
    kill_all();
    for (uint32_t i = 0; i < MARKS; i++) {
        char agent[] = {'g', 'o', 'n', 'e', '-', (char)('a' + i / 10), (char)('0' + i % 10)};
        struct message_session *mark = &cell->nodes[1].disk.marks[i];
        message_agent_set(&mark->agent, agent, sizeof(agent));
        mark->epoch = 7;
    }
    cell->nodes[1].disk.mark_count = MARKS;
    cell_wipe(cell, 2, true);
    cell_start_all(cell);
    for (uint32_t i = 0; i < 5000 && status(2) != MESSAGE_STATUS_VOTING; i++) {
        cell_run(cell, CELL_MS);
    }
    expect_voting();
    const struct cell_disk *disk = &cell->nodes[2].disk;
    for (uint32_t i = 0; i < cell->nodes[0].disk.register_count; i++) {
        const struct quorum_register *reg = &cell->nodes[0].disk.registers[i];
        ck_assert(!message_order_before(row_of(2, &reg->name), reg->accepted));
    }
    ck_assert_uint_eq(disk->mark_count, MARKS);
    for (uint32_t p = 0; p < MESSAGE_PARTITIONS; p++) {
        ck_assert_uint_ne(disk->promised[p], 0); /* the other voters have promised this ballot */
    }
}
END_TEST

/* voters: the voters (bits) that voter 2 has asked for the registers of each partition. count: for
 * how many partitions it has asked each voter. */
static struct {
    uint8_t voters[MESSAGE_PARTITIONS];
    uint32_t count[CELL_NODES];
} read_of;

static void note_read(void *arg, uint32_t from, uint32_t to, const struct message *message)
{
    (void)arg;
    if (from != 2 || message->kind != MESSAGE_SYNC ||
        message->as.sync.what != MESSAGE_SYNC_REGISTERS) {
        return;
    }
    uint8_t *voters = &read_of.voters[message->as.sync.partition];
    read_of.count[to] += (*voters >> to & 1) == 0;
    *voters |= (uint8_t)(1u << to);
}

/* A voter that starts over reads, at the same time, from all voters that have promised its ballot:
 * eight partitions from each voter, and each partition from one voter only. It reads further
 * partitions as answers arrive. */
START_TEST(who_starts_over_reads_the_others_at_once)
{
    cell_destroy(cell);
    cell = cell_create(5, 1);
    cell->natural = true;
    memset(&read_of, 0, sizeof(read_of));
    cell_start_all(cell);
    cell_run(cell, 1000 * CELL_MS);
    cell_kill(cell, 2);
    cell_wipe(cell, 2, true);
    for (uint32_t node = 0; node < 5; node++) {
        cell->drop[node][2] = KIND(MESSAGE_SYNCED);
    }
    cell->tap = note_read;
    cell_start(cell, 2);
    for (uint32_t i = 0; i < 5000 && read_of.count[0] + read_of.count[1] == 0; i++) {
        cell_run(cell, CELL_MS);
    }
    cell_run(cell, 50 * CELL_MS);
    uint32_t voters = 0;
    for (uint32_t node = 0; node < 5; node++) {
        ck_assert(read_of.count[node] == 0 || read_of.count[node] == 8);
        voters += read_of.count[node] > 0;
        cell->drop[node][2] = 0;
    }
    ck_assert_uint_eq(voters, 3);
    for (uint32_t p = 0; p < MESSAGE_PARTITIONS; p++) {
        ck_assert((read_of.voters[p] & (read_of.voters[p] - 1)) == 0);
    }
    for (uint32_t i = 0; i < 5000 && status(2) != MESSAGE_STATUS_VOTING; i++) {
        cell_run(cell, CELL_MS);
    }
    expect_voting();
    for (uint32_t node = 0; node < 5; node++) {
        ck_assert(read_of.count[node] == 0 || read_of.count[node] == MESSAGE_PARTITIONS);
    }
}
END_TEST

static struct message kept; /* the latest promise of host-b to host-a */

static void keep_promise(void *arg, uint32_t from, uint32_t to, const struct message *message)
{
    (void)arg;
    if (message->kind == MESSAGE_PROMISE && from == 1 && to == 0) {
        message_copy(&kept, message);
    }
}

static void deliver(uint32_t node, const struct message *message)
{
    struct quorum_event event = {
        .kind = QUORUM_MESSAGE, .now_ns = cell->now_ns, .random = cell_random(cell)};
    event.as.message = message;
    cell_step(cell, node, event);
}

static struct message listed;       /* the latest HELLO of host-c to host-a that is LISTED */
static struct message beats_before; /* the latest HEARTBEAT of host-c to host-a */

static void keep_listed(void *arg, uint32_t from, uint32_t to, const struct message *message)
{
    (void)arg;
    if (from != 2 || to != 0) {
        return;
    }
    if (message->kind == MESSAGE_HELLO && message->as.hello.status == MESSAGE_STATUS_LISTED) {
        message_copy(&listed, message);
    } else if (message->kind == MESSAGE_HEARTBEAT) {
        message_copy(&beats_before, message);
    }
}

/* Delivers to host-a what a copy of host-c's machine says, which does not vote and whose heartbeats
 * have numbers of their own. */
static void deliver_from_copy(void)
{
    deliver(0, &listed);
    beats_before.as.heartbeat.number += UINT64_C(1) << 40;
    beats_before.as.heartbeat.votes = false;
    deliver(0, &beats_before);
}

/* A copy of host-c's machine runs beside host-c, so it reports older commits. Its messages change
 * nothing of what host-a knows about host-c. If host-c is dead, they do after some seconds. */
START_TEST(what_a_copied_machine_says_is_not_true_of_its_voter)
{
    cell->tap = keep_listed;
    cell_start_all(cell);
    cell_run(cell, 1000 * CELL_MS);
    cell_kill(cell, 2);
    cell_start(cell, 2);
    cell_run(cell, 1000 * CELL_MS);
    cell->tap = NULL;
    ck_assert_int_eq(listed.kind, MESSAGE_HELLO);
    ck_assert_int_eq(beats_before.kind, MESSAGE_HEARTBEAT);
    for (uint32_t i = 0; i < 4; i++) {
        use("a", 10 + 2 * i);
        use("b", 30 + 2 * i);
    }
    const struct quorum *seen_by = cell->nodes[0].quorum;
    cell->drop[1][0] = KIND(MESSAGE_HEARTBEAT); /* so host-c's heartbeats make host-a's majority */
    cell_run(cell, 3000 * CELL_MS);
    for (uint32_t i = 0; i < 20; i++) {
        deliver_from_copy();
        ck_assert_int_eq(quorum_voter_status_of(seen_by, 2), MESSAGE_STATUS_VOTING);
        ck_assert(quorum_ready(seen_by));
        cell_run(cell, 20 * CELL_MS);
    }
    cell->drop[1][0] = 0;
    cell_kill(cell, 2);
    cell_run(cell, 3000 * CELL_MS);
    deliver_from_copy();
    ck_assert_int_eq(quorum_voter_status_of(seen_by, 2), MESSAGE_STATUS_LISTED);
}
END_TEST

START_TEST(vote_under_another_record_does_not_count)
{
    struct message other;
    cell->drop[1][0] = cell->drop[2][0] = UINT64_C(1) << MESSAGE_PROMISE;
    cell->tap = keep_promise;
    cell_start_all(cell);
    cell_run(cell, 1000 * CELL_MS);
    expect_voting();
    ck_assert_int_eq(kept.kind, MESSAGE_PROMISE);
    message_copy(&other, &kept);
    other.membership += 1u << 8; /* host-b's line in this message has another generation */
    deliver(0, &other);
    cell_run(cell, 1000 * CELL_MS);
    ck_assert(!quorum_ready(cell->nodes[0].quorum));
    deliver(0, &kept);
    cell_run(cell, 1000 * CELL_MS);
    ck_assert(quorum_ready(cell->nodes[0].quorum));
}
END_TEST

/* A renewal of an agent that sends no rules is refused: its rules do not match. */
START_TEST(renewal_without_rules_is_refused)
{
    struct message message;
    cell_start_all(cell);
    cell_run(cell, 1000 * CELL_MS);
    cell_header(cell, 1, MESSAGE_RENEW, &message);
    message.as.renew.agent = message.from;
    message.as.renew.epoch = 1;
    message.as.renew.renewal_id = 1;
    cell->nodes[1].inbox_count = 0;
    cell_send(cell, 1, 0, &message);
    cell_run(cell, 10 * CELL_MS);
    ck_assert_ptr_null(cell_got(cell, 1, MESSAGE_RENEW_ACK));
    const struct message *refused = cell_got(cell, 1, MESSAGE_REFUSED);
    ck_assert_ptr_nonnull(refused);
    ck_assert_int_eq(refused->as.refused.reason, MESSAGE_REFUSED_RULES);
    cell_renew(cell, 1, 0, 1, 2, (struct message_echo){0});
    cell_run(cell, 10 * CELL_MS);
    ck_assert_ptr_nonnull(cell_got(cell, 1, MESSAGE_RENEW_ACK));
}
END_TEST

/* In an idle cell no voter makes a commit only to store which commits of others it saw. */
START_TEST(idle_cell_writes_nothing)
{
    cell_start_all(cell);
    cell_run(cell, 15000 * CELL_MS);
    uint64_t commits[3];
    for (uint32_t node = 0; node < 3; node++) {
        commits[node] = cell->nodes[node].disk.commits;
    }
    cell_run(cell, 30000 * CELL_MS);
    for (uint32_t node = 0; node < 3; node++) {
        ck_assert_uint_eq(cell->nodes[node].disk.commits, commits[node]);
    }
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("members");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, record_is_made_when_all_are_there);
    tcase_add_test(tests, after_a_restart_of_all_they_vote);
    tcase_add_test(tests, needs_a_majority_after_a_start);
    tcase_add_test(tests, old_copy_of_a_disk_is_refused);
    tcase_add_test(tests, old_copy_whose_starts_are_killed_is_refused);
    tcase_add_test(tests, old_copy_without_a_commit_is_refused);
    tcase_add_test(tests, old_copy_of_a_store_that_started_over_is_refused);
    tcase_add_test(tests, starts_over_with_the_line_that_the_others_have);
    tcase_add_test(tests, lost_store_is_refused_until_it_starts_over);
    tcase_add_test(tests, store_that_was_replaced_is_refused);
    tcase_add_test(tests, starting_over_forgets_nothing);
    tcase_add_loop_test(tests, each_step_of_starting_over_needs_more_than_half_of_the_others, 0, 8);
    tcase_add_test(tests, starting_over_ends_no_session_that_lives);
    tcase_add_loop_test(tests, killed_while_it_starts_over, 0, 10);
    tcase_add_test(tests, two_different_configurations);
    tcase_add_test(tests, used_store_without_a_record);
    tcase_add_loop_test(tests, loss_and_reordering, 0, 10);
    tcase_add_test(tests, record_of_another_store_is_not_taken);
    tcase_add_test(tests, who_starts_over_votes_with_everything);
    tcase_add_test(tests, who_starts_over_reads_the_others_at_once);
    tcase_add_test(tests, what_a_copied_machine_says_is_not_true_of_its_voter);
    tcase_add_test(tests, vote_under_another_record_does_not_count);
    tcase_add_test(tests, renewal_without_rules_is_refused);
    tcase_add_test(tests, idle_cell_writes_nothing);
    tcase_set_timeout(tests, 300);
    return suite_main("members", tests);
}
