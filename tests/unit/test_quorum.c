/* The coordinator with its voters: the requests of a host and their answers, with one voter and
 * with three. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../suite_main.h"
#include "quorum_cell.h"

static const enum message_mode X = MESSAGE_MODE_EXCLUSIVE;

static const struct message_grant *granted(struct cell *cell, uint32_t node, uint64_t id)
{
    const struct message *message = cell_got(cell, node, MESSAGE_GRANT);
    ck_assert_ptr_nonnull(message);
    ck_assert_uint_eq(message->as.grant.request_id, id);
    return &message->as.grant;
}

static const struct message_refused *refused(struct cell *cell, uint32_t node, uint64_t id)
{
    const struct message *message = cell_got(cell, node, MESSAGE_REFUSED);
    ck_assert_ptr_nonnull(message);
    ck_assert_uint_eq(message->as.refused.request_id, id);
    return &message->as.refused;
}

START_TEST(first_touch_is_one_commit)
{
    struct cell *cell = cell_ready(1);
    uint64_t commits = cell->nodes[0].disk.commits;
    cell_acquire(cell, 0, 0, "a", 1, 1, X, 1000);
    cell_settle(cell);
    const struct message_grant *grant = granted(cell, 0, 1);
    ck_assert_uint_eq(grant->token_first, 1);
    ck_assert_uint_eq(grant->token_last, 4096);
    ck_assert_uint_eq(grant->mode, X);
    ck_assert_uint_eq(grant->lock_delay_ms, 1000);
    ck_assert_uint_eq(cell->nodes[0].disk.commits, commits + 1);
    cell_destroy(cell);
}
END_TEST

START_TEST(asked_twice_answered_the_same)
{
    struct cell *cell = cell_ready(3);
    uint32_t to = cell_coordinator(cell, "a");
    cell_acquire(cell, 0, to, "a", 1, 1, X, 1000);
    cell_settle(cell);
    struct message_grant first = *granted(cell, 0, 1);
    cell_acquire(cell, 0, to, "a", 1, 1, X, 1000);
    cell_settle(cell);
    ck_assert_uint_eq(cell_got_count(cell, 0, MESSAGE_GRANT), 2);
    ck_assert_int_eq(memcmp(granted(cell, 0, 1), &first, sizeof(first)), 0);
    ck_assert(first.fresh);
    /* After its restart the coordinator gives the same answer, but it does not know any more for
     * which request the grant was made. */
    first.fresh = false;
    cell_kill(cell, to);
    cell_start(cell, to);
    cell_run_ready(cell);
    cell->nodes[0].inbox_count = 0;
    cell_acquire(cell, 0, cell_coordinator(cell, "a"), "a", 1, 1, X, 1000);
    cell_settle(cell);
    ck_assert_int_eq(memcmp(granted(cell, 0, 1), &first, sizeof(first)), 0);
    cell_destroy(cell);
}
END_TEST

/* A request is repeated after its grant was given back. The repeated answer is as fresh as the
 * first answer was. */
START_TEST(told_again_a_grant_is_as_fresh_as_it_was)
{
    struct cell *cell = cell_ready(1);
    cell_acquire(cell, 0, 0, "a", 1, 1, X, 0);
    cell_settle(cell);
    ck_assert(granted(cell, 0, 1)->fresh);
    cell_acquire(cell, 0, 0, "a", 2, 1, X, 0);
    cell_settle(cell);
    ck_assert(!granted(cell, 0, 2)->fresh);
    cell_give_back(cell, 0, 0, "a", 3, 1, granted(cell, 0, 2)->version, 41);
    cell_settle(cell);
    uint32_t told = cell_got_count(cell, 0, MESSAGE_GRANT);
    cell_acquire(cell, 0, 0, "a", 2, 1, X, 0);
    cell_settle(cell);
    ck_assert_uint_eq(cell_got_count(cell, 0, MESSAGE_GRANT), told + 1);
    ck_assert(!granted(cell, 0, 2)->fresh);
    cell_destroy(cell);
}
END_TEST

START_TEST(given_back_says_how_many_tokens)
{
    struct cell *cell = cell_ready(1);
    cell_acquire(cell, 0, 0, "a", 1, 1, X, 0);
    cell_settle(cell);
    struct message_order version = granted(cell, 0, 1)->version;
    cell_give_back(cell, 0, 0, "a", 2, 1, version, 41);
    cell_settle(cell);
    ck_assert_uint_eq(cell_got(cell, 0, MESSAGE_GIVE_BACK_ACK)->as.version.request_id, 2);
    cell_acquire(cell, 0, 0, "a", 3, 1, X, 0);
    cell_settle(cell);
    ck_assert_uint_eq(granted(cell, 0, 3)->token_first, 42);
    ck_assert(message_order_before(version, granted(cell, 0, 3)->version));
    /* A late copy of the first give-back is acknowledged, and the new grant stays. */
    cell_give_back(cell, 0, 0, "a", 2, 1, version, 41);
    cell_settle(cell);
    ck_assert_uint_eq(cell_got_count(cell, 0, MESSAGE_GIVE_BACK_ACK), 2);
    struct message_order kept = granted(cell, 0, 3)->version;
    cell_acquire(cell, 0, 0, "a", 4, 1, X, 0);
    cell_settle(cell);
    ck_assert(message_order_equal(granted(cell, 0, 4)->version, kept));
    cell_destroy(cell);
}
END_TEST

static void amend(struct cell *cell, const struct message_grant *grant, uint64_t id,
                  uint16_t lock_delay_ms, uint64_t token_last, enum message_mode mode)
{
    struct message message;
    cell_header(cell, 0, MESSAGE_AMEND, &message);
    message.as.amend.agent = message.from;
    message.as.amend.epoch = 1;
    message.as.amend.request_id = id;
    message.as.amend.name = grant->name;
    message.as.amend.version = grant->version;
    message.as.amend.lock_delay_ms = lock_delay_ms;
    message.as.amend.token_last = token_last;
    message.as.amend.mode = (uint8_t)mode;
    cell_send(cell, 0, 0, &message);
    cell_settle(cell);
}

START_TEST(amended_keeps_its_version)
{
    struct cell *cell = cell_ready(1);
    cell_acquire(cell, 0, 0, "a", 1, 1, X, 5);
    cell_settle(cell);
    struct message_grant grant = *granted(cell, 0, 1);
    amend(cell, &grant, 2, 700, 0, X);
    struct message_grant amended = cell_got(cell, 0, MESSAGE_AMENDED)->as.grant;
    ck_assert(message_order_equal(amended.version, grant.version));
    ck_assert_uint_eq(amended.lock_delay_ms, 700);
    ck_assert_uint_eq(amended.mode, X);
    ck_assert_uint_eq(amended.token_first, grant.token_first);
    for (uint32_t i = 0; i < 2; i++) { /* the second request is a repeat of the first */
        amend(cell, &grant, 3, 6, grant.token_last, MESSAGE_MODE_NONE);
        amended = cell_got(cell, 0, MESSAGE_AMENDED)->as.grant;
        ck_assert_uint_eq(amended.lock_delay_ms, 700);
        ck_assert_uint_eq(amended.token_first, grant.token_last + 1);
    }
    cell_give_back(cell, 0, 0, "a", 4, 1, grant.version, amended.token_first);
    cell_settle(cell);
    amend(cell, &grant, 5, 6, 0, MESSAGE_MODE_NONE);
    ck_assert_uint_eq(refused(cell, 0, 5)->reason, MESSAGE_REFUSED_VERSION);
    cell_destroy(cell);
}
END_TEST

/* docs/TIMEOUTS.md, "How long tokens last": a lost range costs at most a quarter of the tokens used
 * before, plus 13,312. */
START_TEST(ranges_grow_while_they_are_used_up)
{
    static const uint64_t sizes[] = {4096, 8192, 16384, 20480, 25600, 32000};
    struct cell *cell = cell_ready(1);
    cell_acquire(cell, 0, 0, "a", 1, 1, X, 0);
    cell_settle(cell);
    struct message_grant grant = *granted(cell, 0, 1);
    uint64_t before = 0;
    uint64_t id = 2;
    for (uint64_t size = 0; size < 1 << 24; before += size, id++) {
        size = grant.token_last - grant.token_first + 1;
        ck_assert_uint_eq(grant.token_first, before + 1);
        ck_assert(id - 2 >= sizeof(sizes) / sizeof(sizes[0]) || size == sizes[id - 2]);
        ck_assert_uint_le(size, before / 4 + 13312);
        amend(cell, &grant, id, 0, grant.token_last, MESSAGE_MODE_NONE);
        grant = cell_got(cell, 0, MESSAGE_AMENDED)->as.grant;
    }
    /* ranges do not grow beyond this size */
    ck_assert_uint_eq(grant.token_last - grant.token_first + 1, 1 << 24);
    ck_assert_uint_lt(id, 50);
    /* The unused tokens are granted again, and the next grant gets a small range. */
    cell_give_back(cell, 0, 0, "a", id, 1, grant.version, grant.token_first + 9);
    cell_acquire(cell, 0, 0, "a", id + 1, 1, X, 0);
    cell_settle(cell);
    ck_assert_uint_eq(granted(cell, 0, id + 1)->token_first, grant.token_first + 10);
    ck_assert_uint_eq(granted(cell, 0, id + 1)->token_last, grant.token_first + 10 + 4095);
    cell_destroy(cell);
}
END_TEST

/* The top 11 bits of a token are its generation; only an operator begins a new one. So no range
 * crosses into the next generation. */
START_TEST(no_range_leaves_its_generation)
{
    struct cell *cell = cell_ready(1);
    struct quorum_register reg = {.accepted = {.ballot = 1 << 16 | 1, .sequence = 1}};
    message_name_set(&reg.name, "a", 1);
    reg.value.token_first = MESSAGE_TOKEN_GENERATION - 5;
    reg.value.permits = 1;
    cell_kill(cell, 0);
    cell->nodes[0].disk.registers[0] = reg;
    cell->nodes[0].disk.register_count = 1;
    cell_start(cell, 0);
    cell_acquire(cell, 0, 0, "a", 1, 1, X, 0);
    cell_settle(cell);
    struct message_grant grant = *granted(cell, 0, 1);
    ck_assert_uint_eq(grant.token_last, MESSAGE_TOKEN_GENERATION - 1);
    amend(cell, &grant, 2, 0, grant.token_last, MESSAGE_MODE_NONE);
    ck_assert_uint_eq(refused(cell, 0, 2)->reason, MESSAGE_REFUSED_TOKENS);
    cell_give_back(cell, 0, 0, "a", 3, 1, grant.version, grant.token_last);
    cell_acquire(cell, 0, 0, "a", 4, 1, X, 0);
    cell_settle(cell);
    ck_assert_uint_eq(refused(cell, 0, 4)->reason, MESSAGE_REFUSED_TOKENS);
    cell_acquire(cell, 0, 0, "a", 5, 1, MESSAGE_MODE_SHARED, 0); /* readers need no new token */
    cell_settle(cell);
    ck_assert_uint_eq(granted(cell, 0, 5)->token_first, MESSAGE_TOKEN_GENERATION - 1);
    amend(cell, granted(cell, 0, 5), 6, 0, MESSAGE_TOKEN_GENERATION - 1, X);
    ck_assert_uint_eq(refused(cell, 0, 6)->reason, MESSAGE_REFUSED_TOKENS);
    cell_destroy(cell);
}
END_TEST

START_TEST(range_ends_before_a_block)
{
    ck_assert_uint_eq(message_token_range_last(MESSAGE_TOKEN_BLOCK - 5, 10),
                      MESSAGE_TOKEN_BLOCK - 1);
    ck_assert_uint_eq(message_token_range_last(MESSAGE_TOKEN_BLOCK, 10), MESSAGE_TOKEN_BLOCK + 9);
    struct cell *cell = cell_ready(1);
    struct quorum_register reg = {.accepted = {.ballot = 1 << 16 | 1, .sequence = 1}};
    message_name_set(&reg.name, "a", 1);
    reg.value.token_first = MESSAGE_TOKEN_BLOCK - 5;
    reg.value.permits = 1;
    cell_kill(cell, 0);
    cell->nodes[0].disk.registers[0] = reg;
    message_name_set(&reg.name, "b", 1);
    reg.value.token_first = MESSAGE_TOKEN_LIMIT;
    cell->nodes[0].disk.registers[1] = reg;
    cell->nodes[0].disk.register_count = 2;
    cell_start(cell, 0);
    cell_acquire(cell, 0, 0, "a", 1, 1, X, 0);
    cell_settle(cell);
    ck_assert_uint_eq(granted(cell, 0, 1)->token_first, MESSAGE_TOKEN_BLOCK - 5);
    ck_assert_uint_eq(granted(cell, 0, 1)->token_last, MESSAGE_TOKEN_BLOCK - 1);
    amend(cell, granted(cell, 0, 1), 2, 0, MESSAGE_TOKEN_BLOCK - 1, MESSAGE_MODE_NONE);
    ck_assert_uint_eq(cell_got(cell, 0, MESSAGE_AMENDED)->as.grant.token_first,
                      MESSAGE_TOKEN_BLOCK);
    cell_acquire(cell, 0, 0, "b", 3, 1, X, 0);
    cell_settle(cell);
    ck_assert_uint_eq(refused(cell, 0, 3)->reason, MESSAGE_REFUSED_TOKENS);
    cell_destroy(cell);
}
END_TEST

START_TEST(recalled_when_another_waits_and_passed_on_in_one_accept)
{
    struct cell *cell = cell_ready(3);
    uint32_t to = cell_coordinator(cell, "a");
    for (uint32_t i = 0; i < 3; i++) {
        cell_extend(cell, 0, i, 1);
    }
    cell_acquire(cell, 0, to, "a", 1, 1, X, 1000);
    cell_settle(cell);
    struct message_grant grant = *granted(cell, 0, 1);
    ck_assert_uint_eq(cell_got_count(cell, 0, MESSAGE_RECALL), 0);
    cell_acquire(cell, 1, to, "a", 1, 1, X, 1000);
    cell_settle(cell);
    const struct message *recall = cell_got(cell, 0, MESSAGE_RECALL);
    ck_assert_ptr_nonnull(recall);
    ck_assert(message_order_equal(recall->as.version.version, grant.version));
    ck_assert_ptr_null(cell_got(cell, 1, MESSAGE_GRANT));
    uint64_t commits = cell->nodes[to].disk.commits;
    cell_give_back(cell, 0, to, "a", 2, 1, grant.version, 9);
    cell_settle(cell);
    ck_assert_ptr_nonnull(cell_got(cell, 0, MESSAGE_GIVE_BACK_ACK));
    ck_assert_uint_eq(granted(cell, 1, 1)->token_first, 10);
    ck_assert_uint_eq(cell->nodes[to].disk.commits, commits + 1);
    cell_destroy(cell);
}
END_TEST

START_TEST(first_come_first_served)
{
    struct cell *cell = cell_ready(3);
    uint32_t to = cell_coordinator(cell, "a");
    cell_acquire(cell, 0, to, "a", 1, 1, X, 0);
    cell_settle(cell);
    struct message_order version = granted(cell, 0, 1)->version;
    cell_acquire(cell, 2, to, "a", 1, 1, X, 0);
    cell_settle(cell);
    cell_acquire(cell, 1, to, "a", 1, 1, X, 0);
    cell_settle(cell);
    cell_give_back(cell, 0, to, "a", 2, 1, version, 0);
    cell_settle(cell);
    ck_assert_ptr_null(cell_got(cell, 1, MESSAGE_GRANT));
    version = granted(cell, 2, 1)->version;
    cell_give_back(cell, 2, to, "a", 2, 1, version, 0);
    cell_settle(cell);
    granted(cell, 1, 1);
    cell_destroy(cell);
}
END_TEST

/* The lock-delay begins when the coordinator knows that the session has expired. The coordinator
 * waits longer than the lock-delay, because clocks differ. */
START_TEST(expired_session_then_lock_delay_then_next)
{
    struct cell *cell = cell_ready(3);
    uint32_t to = cell_coordinator(cell, "a");
    for (uint32_t i = 0; i < 3; i++) {
        cell_extend(cell, 0, i, 1);
    }
    int64_t seen_ns = cell->now_ns;
    cell_acquire(cell, 0, to, "a", 1, 1, X, 2000);
    cell_settle(cell);
    uint64_t last = granted(cell, 0, 1)->token_last;
    cell_acquire(cell, 1, to, "a", 1, 1, X, 0);
    int64_t earliest_ns = seen_ns - 20 * CELL_MS + CELL_TTL_NS / 10 * 11 + 2200 * CELL_MS;
    cell_run(cell, earliest_ns - cell->now_ns);
    ck_assert_ptr_null(cell_got(cell, 1, MESSAGE_GRANT));
    cell_run(cell, 1000 * CELL_MS);
    ck_assert_uint_eq(granted(cell, 1, 1)->token_first, last + 1);
    /* If the agent of the expired session comes back, it learns that its session has ended. */
    cell_acquire(cell, 0, to, "a", 3, 1, X, 0);
    cell_settle(cell);
    ck_assert_uint_eq(refused(cell, 0, 3)->reason, MESSAGE_REFUSED_SESSION);
    cell_destroy(cell);
}
END_TEST

/* The dead holder's host may have the slowest clock, and the coordinator the fastest one. Even so,
 * nine tenths of the lock-delay pass on the host's clock before the lock opens. In that time
 * `holdfast lock` kills its command. */
START_TEST(a_lock_delay_outlasts_nine_tenths_of_it_by_the_slowest_clock)
{
    static const struct {
        uint32_t drift;
        int64_t closed_ms; /* the time in ms that a lock-delay of 2000 ms takes */
    } rows[] = {{0, 2000}, {10, 2200}, {20, 2700}, {50, 5400}};
    struct cell *cell = cell_create(3, 1);
    cell->config.max_drift_percent = rows[_i].drift;
    cell_start_all(cell);
    cell_run_ready(cell);
    uint32_t to = cell_coordinator(cell, "a");
    for (uint32_t i = 0; i < 3; i++) {
        cell_extend(cell, 0, i, 1);
    }
    int64_t dead_ns = cell->now_ns + CELL_TTL_NS / 100 * (100 + rows[_i].drift);
    cell_acquire(cell, 0, to, "a", 1, 1, X, 2000);
    cell_settle(cell);
    cell_acquire(cell, 1, to, "a", 1, 1, X, 0);
    cell_run(cell, dead_ns + (rows[_i].closed_ms - 20) * CELL_MS - cell->now_ns);
    ck_assert_ptr_null(cell_got(cell, 1, MESSAGE_GRANT));
    cell_run(cell, 1000 * CELL_MS);
    granted(cell, 1, 1);
    cell_destroy(cell);
}
END_TEST

/* While the coordinator's clock runs at a wrong rate, the lock stays closed. Afterwards a whole
 * lock-delay follows. */
START_TEST(a_lock_delay_is_counted_by_a_clock_that_is_well)
{
    struct cell *cell = cell_ready(3);
    uint32_t to = cell_coordinator(cell, "a");
    cell_acquire(cell, 0, to, "a", 1, 1, X, 2000);
    cell_settle(cell);
    granted(cell, 0, 1);
    cell_acquire(cell, 1, to, "a", 1, 1, X, 0);
    cell_run(cell, CELL_TTL_NS / 10 * 11 + 500 * CELL_MS); /* the session expires */
    cell_step(cell, to, (struct quorum_event){.kind = QUORUM_ASTRAY, .now_ns = cell->now_ns});
    cell_run(cell, 2100 * CELL_MS);
    ck_assert_ptr_null(cell_got(cell, 1, MESSAGE_GRANT));
    cell_run(cell, 1000 * CELL_MS);
    granted(cell, 1, 1);
    cell_destroy(cell);
}
END_TEST

/* A session that its agent renews is never ended, even if other hosts wait. */
START_TEST(living_session_keeps_its_grant)
{
    struct cell *cell = cell_ready(3);
    uint32_t to = cell_coordinator(cell, "a");
    cell_acquire(cell, 0, to, "a", 1, 1, X, 0);
    cell_settle(cell);
    cell_acquire(cell, 1, to, "a", 1, 1, X, 0);
    for (uint32_t round = 0; round < 20; round++) {
        cell->nodes[0].inbox_count = 0;
        for (uint32_t i = 0; i < 2; i++) { /* a majority of the voters is enough */
            cell_extend(cell, 0, i, 1);
        }
        cell_run(cell, 1000 * CELL_MS);
    }
    ck_assert_ptr_null(cell_got(cell, 1, MESSAGE_GRANT));
    cell_destroy(cell);
}
END_TEST

/* A grant of an earlier session of the same host does not belong to the host's present session (the
 * bug Curator 1121). */
START_TEST(older_epoch_of_the_same_agent)
{
    struct cell *cell = cell_ready(1);
    cell_extend(cell, 0, 0, 1);
    cell_acquire(cell, 0, 0, "a", 1, 1, X, 1000);
    cell_settle(cell);
    uint64_t last = granted(cell, 0, 1)->token_last;
    cell_kill(cell, 0);
    cell->nodes[0].inbox_count = 0;
    cell_start(cell, 0);
    int64_t started_ns = cell->now_ns;
    cell_acquire(cell, 0, 0, "a", 2, 2, X, 1000);
    cell_run(cell, CELL_TTL_NS / 10 * 11 + 1100 * CELL_MS - 10 * CELL_MS);
    ck_assert_ptr_null(cell_got(cell, 0, MESSAGE_GRANT));
    ck_assert_ptr_null(cell_got(cell, 0, MESSAGE_RECALL));
    cell_run(cell, started_ns + CELL_TTL_NS / 10 * 11 + 1200 * CELL_MS - cell->now_ns);
    ck_assert_uint_eq(granted(cell, 0, 2)->token_first, last + 1);
    ck_assert_uint_eq(cell->nodes[0].disk.mark_count, 1);
    ck_assert_uint_eq(cell->nodes[0].disk.marks[0].epoch, 1);
    cell_destroy(cell);
}
END_TEST

/* A new session makes the voters mark older sessions of the agent even if no host waits for them,
 * so that no host has to wait later. */
START_TEST(superseded_epoch_is_marked)
{
    struct cell *cell = cell_ready(1);
    cell_extend(cell, 0, 0, 5);
    ck_assert_uint_eq(cell->nodes[0].disk.mark_count, 0);
    cell_run(cell, CELL_TTL_NS / 10 * 11 + 100 * CELL_MS);
    ck_assert_uint_eq(cell->nodes[0].disk.mark_count, 1);
    ck_assert_uint_eq(cell->nodes[0].disk.marks[0].epoch, 4);
    cell_run(cell, 1000 * CELL_MS);
    ck_assert_int_eq(quorum_next_tick_ns(cell->nodes[0].quorum), INT64_MAX);
    cell_destroy(cell);
}
END_TEST

START_TEST(full_tables_are_answers)
{
    struct cell *cell = cell_ready(1);
    char name[8] = "n000";
    uint32_t granted_count = 0;
    for (uint32_t i = 0; i < 100; i++) {
        name[2] = (char)('0' + i / 10);
        name[3] = (char)('0' + i % 10);
        cell_acquire(cell, 0, 0, name, i, 1, X, 0);
        cell_settle(cell);
        granted_count = cell_got_count(cell, 0, MESSAGE_GRANT);
        ck_assert_uint_eq(granted_count + cell_got_count(cell, 0, MESSAGE_REFUSED), i + 1);
    }
    ck_assert_uint_eq(granted_count, cell->config.limits.registers);
    ck_assert_uint_eq(refused(cell, 0, 99)->reason, MESSAGE_REFUSED_FULL);
    cell_acquire(cell, 0, 0, "n000", 200, 1, X, 0);
    cell_settle(cell);
    granted(cell, 0, 200);
    cell_destroy(cell);
}
END_TEST

/* An agent sends more requests for one lock than may wait. The surplus is refused. */
START_TEST(too_many_requests)
{
    struct cell *cell = cell_ready(3);
    uint32_t to = cell_coordinator(cell, "a");
    cell_acquire(cell, 0, to, "a", 1, 1, X, 0);
    cell_settle(cell);
    for (uint32_t i = 0; i < 70; i++) {
        cell_acquire(cell, 1, to, "a", 100 + i, 1, X, 0);
    }
    cell_settle(cell);
    ck_assert_uint_eq(cell_got_count(cell, 1, MESSAGE_REFUSED), 70 - 8);
    ck_assert_uint_eq(cell_got(cell, 1, MESSAGE_REFUSED)->as.refused.reason, MESSAGE_REFUSED_QUOTA);
    ck_assert_str_eq(cell->nodes[to].last_log, "requests_refused");
    struct message_order version = granted(cell, 0, 1)->version;
    ck_assert_ptr_null(cell_got(cell, 1, MESSAGE_GRANT));
    cell_give_back(cell, 0, to, "a", 2, 1, version, 0);
    cell_settle(cell);
    ck_assert_ptr_null(cell_got(cell, 0, MESSAGE_REFUSED));
    ck_assert_uint_eq(cell_got(cell, 0, MESSAGE_GIVE_BACK_ACK)->as.version.request_id, 2);
    cell_destroy(cell);
}
END_TEST

/* Makes a name that the coordinator `to` coordinates; each number gives another name. */
static void name_of(const struct cell *cell, uint32_t to, uint32_t number, char name[16])
{
    uint32_t found = 0;
    for (uint32_t i = 0; found <= number; i++) {
        snprintf(name, 16, "n%u", i);
        found += cell_coordinator(cell, name) == to;
    }
}

/* Hosts flood a coordinator, one after the other, with requests for many names or with waiters of
 * one lock. Every other host still finds the entries that it is guaranteed, and a flooding host can
 * still give back. */
START_TEST(a_flood_keeps_nobody_else_out)
{
    const bool names = _i == 1;
    struct cell *cell = cell_create(3, 1);
    /* 64 entries: for each agent 2 for acquires and 2 for other requests, and 32 more */
    cell->config.limits.agents = 8;
    cell->config.limits.registers = 200;
    cell_start_all(cell);
    cell_run_ready(cell);
    uint32_t to = cell_coordinator(cell, "a");
    char name[16] = "a";
    cell_other_acquire(cell, "flood-0", to, "a", 1, 1, X);
    cell_settle(cell);
    struct message_grant first = cell_other_got(cell, "flood-0", MESSAGE_GRANT)->as.grant;
    /* No round can end, so even requests for other names wait. */
    cell->drop[(to + 1) % 3][to] = cell->drop[(to + 2) % 3][to] = UINT64_C(1) << MESSAGE_ACCEPTED;
    for (uint32_t host = 0; host < 4; host++) {
        char agent[] = {'f', 'l', 'o', 'o', 'd', '-', (char)('0' + host), 0};
        for (uint32_t i = 0; i < 40; i++) {
            if (names) {
                name_of(cell, to, host * 40 + i, name);
            }
            cell_other_acquire(cell, agent, to, name, 100 + i, 1, X);
        }
        cell_run(cell, 2 * CELL_MS);
        const struct message *told = cell_other_got(cell, agent, MESSAGE_REFUSED);
        ck_assert_uint_eq(told->as.refused.reason, MESSAGE_REFUSED_QUOTA);
    }
    for (uint32_t i = 0; i < 2; i++) {
        cell_acquire(cell, (to + 1) % 3, to, i == 0 ? "a" : name, 1 + i, 1, X, 0);
    }
    cell_other_give_back(cell, "flood-0", to, "a", 2, 1, first.version);
    cell_run(cell, 2 * CELL_MS);
    ck_assert_ptr_null(cell_got(cell, (to + 1) % 3, MESSAGE_REFUSED));
    cell->drop[(to + 1) % 3][to] = cell->drop[(to + 2) % 3][to] = 0;
    cell_run(cell, 300 * CELL_MS);
    ck_assert_uint_eq(cell_other_got(cell, "flood-0", MESSAGE_GIVE_BACK_ACK)->as.version.request_id,
                      2);
    ck_assert_ptr_null(cell_got(cell, (to + 1) % 3, MESSAGE_REFUSED));
    quorum_check_invariants(cell->nodes[to].quorum);
    cell_destroy(cell);
}
END_TEST

/* A round asks only a majority: the coordinator, and the agent of the host that gets the lock if
 * this agent is a voter. (This agent has to write a row anyway.) The other voters get the chosen
 * value later, and send no answer. */
START_TEST(a_round_asks_a_majority)
{
    struct cell *cell = cell_ready(3);
    uint32_t owner = cell_coordinator(cell, "a");
    uint32_t host = (owner + 1) % 3;
    uint32_t third = (owner + 2) % 3;
    uint64_t asked = cell->sent[MESSAGE_ACCEPT];
    uint64_t answers = cell->sent[MESSAGE_ACCEPTED];
    cell_acquire(cell, host, owner, "a", 1, 1, X, 0);
    cell_settle(cell);
    granted(cell, host, 1);
    ck_assert_uint_eq(cell->later[host], 0);
    ck_assert_uint_eq(cell->later[third], 1);
    ck_assert_uint_eq(cell->sent[MESSAGE_ACCEPT], asked + 3);
    ck_assert_uint_eq(cell->sent[MESSAGE_ACCEPTED], answers + 2);
    ck_assert_uint_eq(cell->nodes[third].disk.register_count, 1);
    cell_give_back(cell, host, owner, "a", 2, 1, granted(cell, host, 1)->version, 5);
    cell_settle(cell);
    memset(cell->later, 0, sizeof(cell->later));
    cell_acquire(cell, third, owner, "a", 1, 1, X, 0);
    cell_settle(cell);
    granted(cell, third, 1);
    ck_assert_uint_eq(cell->later[host], 1);
    ck_assert_uint_eq(cell->later[third], 0);
    cell_give_back(cell, third, owner, "a", 2, 1, granted(cell, third, 1)->version, 5);
    cell_settle(cell);
    /* The round does not need the dead voter, but needs both other voters. */
    memset(cell->later, 0, sizeof(cell->later));
    cell_kill(cell, host);
    cell_settle(cell);
    cell_acquire(cell, owner, owner, "a", 1, 1, X, 0);
    cell_settle(cell);
    granted(cell, owner, 1);
    ck_assert_uint_eq(cell->later[host], 1);
    ck_assert_uint_eq(cell->later[third], 0);
    cell_destroy(cell);
}
END_TEST

/* If a voter that was asked does not answer, the coordinator asks the other voters after a
 * moment. */
START_TEST(a_round_that_takes_long_asks_all)
{
    struct cell *cell = cell_ready(3);
    uint32_t owner = cell_coordinator(cell, "a");
    uint32_t host = (owner + 1) % 3;
    uint64_t asked = cell->sent[MESSAGE_ACCEPT];
    cell->drop[host][owner] = UINT64_C(1) << MESSAGE_ACCEPTED;
    cell_acquire(cell, host, owner, "a", 1, 1, X, 0);
    cell_run(cell, 15 * CELL_MS);
    ck_assert_uint_eq(cell->sent[MESSAGE_ACCEPT], asked + 2);
    ck_assert_uint_eq(cell_got_count(cell, host, MESSAGE_GRANT), 0);
    cell_run(cell, 15 * CELL_MS);
    ck_assert_uint_eq(cell->sent[MESSAGE_ACCEPT], asked + 3);
    granted(cell, host, 1);
    for (uint32_t i = 0; i < 3; i++) {
        /* no message to this voter could be delayed, because its answer was needed */
        ck_assert_uint_eq(cell->later[i], 0);
    }
    cell_destroy(cell);
}
END_TEST

/* A voter's proposals for one name: their number, and the orders of the first and the last one. */
struct proposals {
    uint32_t voter;
    uint32_t count;
    struct message_order first, last;
};

static void note_proposal(void *arg, uint32_t from, uint32_t to, const struct message *message)
{
    struct proposals *of = arg;
    const struct message_order *order = &message->as.accept.order;
    (void)to;
    if (message->kind == MESSAGE_ACCEPT && from == of->voter &&
        !message_order_equal(*order, of->last)) {
        of->first = of->count == 0 ? *order : of->first;
        of->last = *order;
        of->count++;
    }
}

/* While a value of a name is under way, the coordinator proposes no other value for the name.
 * Otherwise it could make grants to two hosts from the same free value. */
START_TEST(a_name_has_one_value_on_its_way)
{
    struct cell *cell = cell_ready(3);
    uint32_t owner = cell_coordinator(cell, "a");
    uint32_t host = (owner + 1) % 3;
    uint32_t third = (owner + 2) % 3;
    struct proposals proposals = {.voter = owner};
    cell->tap = note_proposal;
    cell->tap_arg = &proposals;
    cell->drop[host][owner] = cell->drop[third][owner] = UINT64_C(1) << MESSAGE_ACCEPTED;
    cell_acquire(cell, host, owner, "a", 1, 1, X, 0);
    cell_run(cell, 15 * CELL_MS);
    ck_assert_uint_eq(proposals.count, 1);
    cell_acquire(cell, third, owner, "a", 1, 1, X, 0);
    cell_acquire(cell, owner, owner, "a", 1, 1, X, 0);
    cell_run(cell, 100 * CELL_MS);
    ck_assert_uint_eq(proposals.count, 1);
    ck_assert_uint_eq(cell_got_count(cell, host, MESSAGE_GRANT), 0);
    cell->drop[host][owner] = cell->drop[third][owner] = 0;
    cell_run(cell, 300 * CELL_MS);
    ck_assert(message_order_equal(granted(cell, host, 1)->version, proposals.first));
    ck_assert_uint_eq(cell_got_count(cell, third, MESSAGE_GRANT), 0);
    ck_assert_uint_eq(cell_got_count(cell, owner, MESSAGE_GRANT), 0);
    cell_destroy(cell);
}
END_TEST

/* A round does not end by a majority without the coordinator's own acceptor: the coordinator makes
 * its next value from that acceptor's value. */
START_TEST(a_round_ends_when_the_own_acceptor_has_its_value)
{
    struct cell *cell = cell_ready(3);
    uint32_t owner = cell_coordinator(cell, "a");
    uint32_t host = (owner + 1) % 3;
    uint32_t third = (owner + 2) % 3;
    cell->drop[owner][owner] = UINT64_C(1) << MESSAGE_ACCEPT;
    cell_acquire(cell, host, owner, "a", 1, 1, X, 0);
    cell_run(cell, 10 * CELL_MS);
    cell_acquire(cell, third, owner, "a", 1, 1, X, 0);
    cell_run(cell, 100 * CELL_MS);
    ck_assert_uint_eq(cell->nodes[host].disk.register_count, 1);
    ck_assert_uint_eq(cell->nodes[third].disk.register_count, 1);
    ck_assert_uint_eq(cell_got_count(cell, host, MESSAGE_GRANT), 0);
    cell->drop[owner][owner] = 0;
    cell_run(cell, 300 * CELL_MS);
    granted(cell, host, 1);
    ck_assert_uint_eq(cell_got_count(cell, third, MESSAGE_GRANT), 0);
    cell_destroy(cell);
}
END_TEST

/* A voter that is not the coordinator passes a request on to the coordinator, and passes the answer
 * back. So a host is served even if the host and the coordinator cannot reach each other. */
START_TEST(passed_on_to_the_coordinator)
{
    struct cell *cell = cell_ready(3);
    uint32_t owner = cell_coordinator(cell, "a");
    uint32_t other = (owner + 1) % 3;
    uint32_t host = (owner + 2) % 3;
    cell->cut[host][owner] = true;
    cell->cut[owner][host] = true;
    cell_acquire(cell, host, other, "a", 1, 1, X, 0);
    cell_settle(cell);
    const struct message *grant = cell_got(cell, host, MESSAGE_GRANT);
    ck_assert_ptr_nonnull(grant);
    ck_assert_int_eq(memcmp(&grant->from, &cell->config.voters[owner], sizeof(grant->from)), 0);
    cell_give_back(cell, host, other, "a", 2, 1, grant->as.grant.version, 5);
    cell_settle(cell);
    ck_assert_ptr_nonnull(cell_got(cell, host, MESSAGE_GIVE_BACK_ACK));
    /* The host of a voter asks this voter, which passes the request on. */
    cell_acquire(cell, other, other, "a", 1, 1, X, 0);
    cell_settle(cell);
    ck_assert_uint_eq(granted(cell, other, 1)->token_first, 6);
    cell_destroy(cell);
}
END_TEST

/* A voter does not pass on a message that another voter has passed on. */
START_TEST(not_the_owner_names_it)
{
    struct cell *cell = cell_ready(3);
    uint32_t owner = cell_coordinator(cell, "a");
    uint32_t other = (owner + 1) % 3;
    uint32_t host = (owner + 2) % 3;
    struct message message;
    cell_header(cell, owner, MESSAGE_ACQUIRE, &message);
    message.as.acquire.agent = cell->config.voters[host];
    message.as.acquire.epoch = 1;
    message.as.acquire.request_id = 1;
    message.as.acquire.mode = MESSAGE_MODE_EXCLUSIVE;
    message_name_set(&message.as.acquire.name, "a", 1);
    cell_send(cell, owner, other, &message);
    cell_settle(cell);
    const struct message_refused *no = refused(cell, host, 1);
    ck_assert_uint_eq(no->reason, MESSAGE_REFUSED_NOT_OWNER);
    ck_assert_int_eq(memcmp(&no->owner, &cell->config.voters[owner], sizeof(no->owner)), 0);
    ck_assert_ptr_null(cell_got(cell, host, MESSAGE_GRANT));
    /* A stranger must not ask in the name of another host, either. */
    cell->nodes[host].inbox_count = 0;
    message_agent_set(&message.from, "stranger", 8);
    cell_send(cell, owner, owner, &message);
    cell_settle(cell);
    ck_assert_uint_eq(cell->nodes[host].inbox_count, 0);
    cell_destroy(cell);
}
END_TEST

/* Another voter takes over the partitions of a voter that is cut off. A grant keeps its version,
 * and the first voter learns of the new coordinator when it is reachable again. */
START_TEST(taken_over_by_a_higher_ballot)
{
    struct cell *cell = cell_ready(3);
    uint32_t owner = cell_coordinator(cell, "a");
    uint32_t host = (owner + 1) % 3;
    cell_acquire(cell, host, owner, "a", 1, 1, X, 0);
    cell_settle(cell);
    struct message_order version = granted(cell, host, 1)->version;
    for (uint32_t i = 0; i < 3; i++) {
        cell->cut[owner][i] = true;
        cell->cut[i][owner] = true;
    }
    cell_run(cell, 2000 * CELL_MS);
    uint32_t next = cell_coordinator_at(cell, host, "a");
    ck_assert_uint_ne(next, owner);
    cell_acquire(cell, host, next, "a", 2, 1, X, 0);
    cell_settle(cell);
    ck_assert(message_order_equal(granted(cell, host, 2)->version, version));
    memset(cell->cut, 0, sizeof(cell->cut));
    cell_run(cell, 300 * CELL_MS);
    cell_acquire(cell, owner, owner, "a", 4, 1, X, 0);
    cell_settle(cell);
    ck_assert_ptr_nonnull(cell_got(cell, host, MESSAGE_RECALL));
    cell_give_back(cell, host, owner, "a", 5, 1, version, 0);
    /* after a take-over, hosts get this time to repeat the requests that waited before */
    cell_run(cell, 100 * CELL_MS);
    ck_assert_ptr_nonnull(cell_got(cell, host, MESSAGE_GIVE_BACK_ACK));
    granted(cell, owner, 4);
    cell_destroy(cell);
}
END_TEST

/* A failed commit has sent nothing, and its round is not used again. */
START_TEST(failed_commit_sends_nothing)
{
    struct cell *cell = cell_ready(1);
    cell->nodes[0].fail_commit = true;
    cell_acquire(cell, 0, 0, "a", 1, 1, X, 0);
    cell_settle(cell);
    ck_assert(!cell->nodes[0].up);
    ck_assert_ptr_null(cell_got(cell, 0, MESSAGE_GRANT));
    uint32_t round = cell->nodes[0].disk.round;
    cell_start(cell, 0);
    ck_assert_uint_gt(cell->nodes[0].disk.round, round);
    cell_acquire(cell, 0, 0, "a", 1, 1, X, 0);
    cell_settle(cell);
    ck_assert_uint_eq(granted(cell, 0, 1)->token_first, 1);
    cell_destroy(cell);
}
END_TEST

START_TEST(no_majority_no_grant)
{
    struct cell *cell = cell_ready(3);
    uint32_t to = cell_coordinator(cell, "a");
    cell_kill(cell, (to + 1) % 3);
    cell_kill(cell, (to + 2) % 3);
    cell_acquire(cell, to, to, "a", 1, 1, X, 0);
    cell_run(cell, 5000 * CELL_MS);
    ck_assert_ptr_null(cell_got(cell, to, MESSAGE_GRANT));
    cell_start(cell, (to + 1) % 3);
    cell_run(cell, 1000 * CELL_MS);
    cell_acquire(cell, to, cell_coordinator_at(cell, to, "a"), "a", 1, 1, X, 0);
    cell_settle(cell);
    granted(cell, to, 1);
    cell_destroy(cell);
}
END_TEST

static Suite *quorum_suite(void)
{
    Suite *suite = suite_create("quorum");
    TCase *tests = tcase_create("quorum");
    tcase_add_test(tests, first_touch_is_one_commit);
    tcase_add_test(tests, asked_twice_answered_the_same);
    tcase_add_test(tests, told_again_a_grant_is_as_fresh_as_it_was);
    tcase_add_test(tests, given_back_says_how_many_tokens);
    tcase_add_test(tests, amended_keeps_its_version);
    tcase_add_test(tests, ranges_grow_while_they_are_used_up);
    tcase_add_test(tests, no_range_leaves_its_generation);
    tcase_add_test(tests, range_ends_before_a_block);
    tcase_add_test(tests, recalled_when_another_waits_and_passed_on_in_one_accept);
    tcase_add_test(tests, first_come_first_served);
    tcase_add_test(tests, expired_session_then_lock_delay_then_next);
    tcase_add_test(tests, a_lock_delay_is_counted_by_a_clock_that_is_well);
    tcase_add_loop_test(tests, a_lock_delay_outlasts_nine_tenths_of_it_by_the_slowest_clock, 0, 4);
    tcase_add_test(tests, living_session_keeps_its_grant);
    tcase_add_test(tests, older_epoch_of_the_same_agent);
    tcase_add_test(tests, superseded_epoch_is_marked);
    tcase_add_test(tests, full_tables_are_answers);
    tcase_add_test(tests, too_many_requests);
    tcase_add_loop_test(tests, a_flood_keeps_nobody_else_out, 0, 2);
    tcase_add_test(tests, a_round_asks_a_majority);
    tcase_add_test(tests, a_round_that_takes_long_asks_all);
    tcase_add_test(tests, a_name_has_one_value_on_its_way);
    tcase_add_test(tests, a_round_ends_when_the_own_acceptor_has_its_value);
    tcase_add_test(tests, passed_on_to_the_coordinator);
    tcase_add_test(tests, not_the_owner_names_it);
    tcase_add_test(tests, taken_over_by_a_higher_ballot);
    tcase_add_test(tests, failed_commit_sends_nothing);
    tcase_add_test(tests, no_majority_no_grant);
    tcase_set_timeout(tests, 60);
    suite_add_tcase(suite, tests);
    return suite;
}

int main(void)
{
    return suite_run(quorum_suite());
}
