/*
 * Voters with too little processor time, slow links, slow rounds. No voter is replaced for being
 * slow while a majority is no faster. A voter that is gone is replaced nevertheless.
 */
#include <check.h>
#include <string.h>

#include "../suite_main.h"
#include "quorum_cell.h"

static const int64_t SECOND = 1000 * CELL_MS;

static struct cell *start(uint32_t voters, uint64_t seed)
{
    struct cell *cell = cell_create(voters, seed);
    cell_start_all(cell);
    cell_run_ready(cell);
    return cell;
}

/* Makes each of the first `count` nodes run for 30 ms of each 500 ms; each begins at another
 * time. */
static void starve(struct cell *cell, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        cell->runs_ns[i] = 30 * CELL_MS;
        cell->of_ns[i] = 500 * CELL_MS;
        cell->shift_ns[i] = (int64_t)(cell_random(cell) % 500) * CELL_MS;
    }
}

static void feed(struct cell *cell)
{
    memset(cell->of_ns, 0, sizeof(cell->of_ns));
}

static uint64_t rounds_used(const struct cell *cell)
{
    uint64_t rounds = 0;
    for (uint32_t i = 0; i < cell->config.voter_count; i++) {
        rounds += cell->nodes[i].disk.round;
    }
    return rounds;
}

static uint64_t taken_over(const struct cell *cell)
{
    uint64_t count = 0;
    for (uint32_t i = 0; i < cell->config.voter_count; i++) {
        count += cell->nodes[i].up ? quorum_counts(cell->nodes[i].quorum)->taken_over : 0;
    }
    return count;
}

/* Returns how many partitions are not complete. */
static uint32_t incomplete(const struct cell *cell)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < cell->config.voter_count; i++) {
        struct quorum_survey survey;
        quorum_survey(cell->nodes[i].quorum, &survey);
        count += survey.incomplete;
    }
    return count;
}

/* Returns how many nodes claim to coordinate that name. */
static uint32_t owners(struct cell *cell, const char *name)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < cell->config.voter_count; i++) {
        count += cell->nodes[i].up && cell_coordinator_at(cell, i, name) == i;
    }
    return count;
}

/* Returns how long it takes until the host gets the lock. */
static int64_t served_ns(struct cell *cell, uint32_t host, const char *name, uint64_t id)
{
    return cell_served_ns(cell, host, name, id, 500);
}

/* Ends a voter silently. Returns how long the other voters count it as alive. */
static int64_t replaced_ns(struct cell *cell, uint32_t dead)
{
    char name[8] = "a";
    while (cell_coordinator(cell, name) != dead) {
        name[0]++;
        ck_assert_int_le(name[0], 'z');
    }
    cell->silent = true;
    cell_kill(cell, dead);
    int64_t began_ns = cell->now_ns;
    uint32_t looker = cell->config.voter_count - 1;
    while (cell_coordinator_at(cell, looker, name) == dead) {
        cell_run(cell, 10 * CELL_MS);
        ck_assert_int_lt(cell->now_ns - began_ns, 30 * SECOND);
    }
    return cell->now_ns - began_ns;
}

/* All voters are slow. There are one or two take-overs before the voters know that all are slow,
 * and no take-over afterwards. */
START_TEST(a_starved_cell_serves)
{
    uint32_t voters = _i % 2 == 0 ? 3 : 5;
    struct cell *cell = start(voters, 200 + (uint64_t)_i);
    cell->tick_first = _i % 4 >= 2;
    starve(cell, voters);
    cell_run(cell, 20 * SECOND);
    uint64_t rounds = rounds_used(cell);
    uint64_t taken = taken_over(cell);
    cell_run(cell, 20 * SECOND);
    ck_assert_uint_eq(rounds_used(cell), rounds);
    ck_assert_uint_eq(taken_over(cell), taken);
    ck_assert_uint_eq(incomplete(cell), 0);
    for (uint32_t i = 0; i < 20; i++) {
        char name[2] = {(char)('a' + i), '\0'};
        /* at most 8 periods of 500 ms: a request, the rounds of two voters, and an answer */
        ck_assert_int_lt(served_ns(cell, i % voters, name, i + 1), 8 * 500 * CELL_MS);
    }
    cell_destroy(cell);
}
END_TEST

/* A cell that starts while all its voters are slow serves within seconds. */
START_TEST(a_starved_cell_comes_up)
{
    uint32_t voters = _i % 2 == 0 ? 3 : 5;
    struct cell *cell = cell_create(voters, 210 + (uint64_t)_i);
    cell->natural = true;
    cell->tick_first = _i % 4 >= 2;
    starve(cell, voters);
    cell_start_all(cell);
    cell_run(cell, 5 * SECOND);
    ck_assert_int_lt(served_ns(cell, 0, "a", 1), 5 * SECOND);
    cell_destroy(cell);
}
END_TEST

/* A silent voter is replaced while all voters are slow, but later than usual. Once the voters are
 * fast again, a silent voter is replaced as soon as before. */
START_TEST(the_silent_are_replaced)
{
    struct cell *cell = start(3, 220 + (uint64_t)_i);
    starve(cell, 3);
    cell_run(cell, 10 * SECOND);
    if (_i % 2 == 0) {
        feed(cell);
        cell_run(cell, 30 * SECOND);
        ck_assert_str_eq(cell->nodes[2].last_log, "voters_timely");
        ck_assert_int_lt(replaced_ns(cell, 0), (QUORUM_TAKEOVER_MS + 200) * CELL_MS);
    } else {
        ck_assert_str_eq(cell->nodes[2].last_log, "voters_slow");
        ck_assert_int_lt(replaced_ns(cell, 0), (QUORUM_SUSPICION_MAX_MS + 1500) * CELL_MS);
    }
    cell_destroy(cell);
}
END_TEST

/* The voters that are not slow are a majority. The slow voters are replaced once, and no suspicion
 * timeout for another voter gets longer because of them. */
START_TEST(a_slow_minority_changes_nothing)
{
    uint32_t voters = _i % 2 == 0 ? 3 : 5;
    uint32_t slow = voters / 2;
    struct cell *cell = start(voters, 230 + (uint64_t)_i);
    starve(cell, slow);
    for (uint32_t i = 0; i < slow; i++) {
        cell->of_ns[i] = 900 * CELL_MS;
    }
    cell_run(cell, 10 * SECOND);
    uint64_t taken = taken_over(cell);
    cell_run(cell, 60 * SECOND);
    ck_assert_uint_eq(taken_over(cell), taken);
    for (uint32_t p = 0; p < MESSAGE_PARTITIONS; p++) {
        ck_assert_uint_ge(cell_coordinator_of(cell, voters - 1, p), slow);
    }
    if (voters == 5) {
        starve(cell, 1);
        cell->of_ns[1] = 0;
        cell_run(cell, 2 * SECOND);
        ck_assert_int_lt(replaced_ns(cell, 3), (QUORUM_TAKEOVER_MS + 200) * CELL_MS);
    }
    cell_destroy(cell);
}
END_TEST

/* A voter that falls silent for a moment every few seconds gets its partitions back later each
 * time. After it has been well for a long time, it gets them back as soon as the first time. */
START_TEST(who_falls_silent_again_and_again)
{
    struct cell *cell = start(3, 240 + (uint64_t)_i);
    cell->runs_ns[0] = 3 * SECOND;
    cell->of_ns[0] = 3700 * CELL_MS;
    cell_run(cell, 60 * SECOND);
    uint64_t taken = taken_over(cell);
    cell_run(cell, 120 * SECOND);
    ck_assert_uint_le(taken_over(cell), taken);
    feed(cell);
    cell_run(cell, 33 * SECOND);
    ck_assert_uint_gt(taken_over(cell), taken);
    cell_run(cell, 65 * SECOND);
    taken = taken_over(cell);
    cell->cut[0][1] = cell->cut[0][2] = true;
    cell_run(cell, SECOND);
    ck_assert_uint_gt(taken_over(cell), taken);
    taken = taken_over(cell);
    memset(cell->cut, 0, sizeof(cell->cut));
    cell_run(cell, 3 * SECOND);
    ck_assert_uint_gt(taken_over(cell), taken);
    cell_destroy(cell);
}
END_TEST

/* A voter that did not run reads the messages that came meanwhile, before it suspects other voters
 * because of their silence. */
START_TEST(who_wakes_up_takes_nothing_over)
{
    struct cell *cell = start(3, 250 + (uint64_t)_i);
    cell->tick_first = true;
    cell_run(cell, 5 * SECOND);
    uint64_t rounds[2] = {cell->nodes[1].disk.round, cell->nodes[2].disk.round};
    uint32_t own = cell->nodes[0].disk.round;
    cell->runs_ns[0] = SECOND / 2;
    cell->of_ns[0] = 4 * SECOND;
    cell_run(cell, 8 * SECOND);
    /* The other voters took over node 0's partitions. Node 0 took over none. */
    ck_assert_uint_gt(cell->nodes[1].disk.round + cell->nodes[2].disk.round, rounds[0] + rounds[1]);
    ck_assert_uint_eq(cell->nodes[0].disk.round, own);
    cell_destroy(cell);
}
END_TEST

/* A voter has a longer suspicion timeout than the others. They replaced it while it did not run. It
 * learns this from the new coordinators' claims, not only when its own round fails. */
START_TEST(who_was_replaced_in_its_sleep_resigns)
{
    struct cell *cell = start(3, 260 + (uint64_t)_i);
    char name[2] = "a";
    while (cell_coordinator(cell, name) != 0) {
        name[0]++;
    }
    starve(cell, 1);
    cell->of_ns[0] = 900 * CELL_MS;
    uint32_t both = 0;
    for (uint32_t turn = 0; turn < 2000; turn++) {
        cell_run(cell, 5 * CELL_MS);
        both += owners(cell, name) > 1;
    }
    /* a voter that does not run does not change which voters it believes alive */
    ck_assert_uint_lt(both * 5, 1000);
    cell_destroy(cell);
}
END_TEST

/* A round trip takes longer than the take-over timeout. Each voter still keeps its majority. */
START_TEST(slow_links)
{
    uint32_t voters = _i % 2 == 0 ? 3 : 5;
    struct cell *cell = start(voters, 270 + (uint64_t)_i);
    cell->delay_max_ns = 500 * CELL_MS;
    cell_run(cell, 20 * SECOND);
    uint64_t rounds = rounds_used(cell);
    cell_run(cell, 20 * SECOND);
    ck_assert_uint_eq(rounds_used(cell), rounds);
    ck_assert_uint_eq(incomplete(cell), 0);
    for (uint32_t i = 0; i < 10; i++) {
        char name[2] = {(char)('a' + i), '\0'};
        ck_assert_int_lt(served_ns(cell, i % voters, name, i + 1), 4 * SECOND);
    }
    cell_destroy(cell);
}
END_TEST

/* Heartbeats come in time, but rounds are slow, because disks are slow. The coordinator of the
 * first slow round pauses. From then on the voters know that rounds are slow. */
START_TEST(slow_rounds)
{
    struct cell *cell = start(3, 280 + (uint64_t)_i);
    uint64_t id = 0;
    cell->late_kinds = UINT64_C(1) << MESSAGE_ACCEPTED;
    cell->late_ns = 700 * CELL_MS;
    for (uint32_t i = 0; i < 10; i++) {
        char name[2] = {(char)('a' + i), '\0'};
        (void)served_ns(cell, i % 3, name, ++id);
    }
    uint64_t rounds = rounds_used(cell);
    for (uint32_t i = 0; i < 5; i++) {
        char name[2] = {(char)('k' + i), '\0'};
        ck_assert_int_lt(served_ns(cell, i % 3, name, ++id), 1600 * CELL_MS);
    }
    ck_assert_uint_eq(rounds_used(cell), rounds);
    cell_destroy(cell);
}
END_TEST

/* A single delay does not make the suspicion timeout longer, however many echoes it delayed. */
START_TEST(one_silence_changes_nothing)
{
    struct cell *cell = start(3, 290 + (uint64_t)_i);
    cell_run(cell, 12 * SECOND + (int64_t)(cell_random(cell) % 200) * CELL_MS);
    int64_t until_ns = cell->now_ns + 3 * SECOND;
    if (_i % 2 == 0) { /* the observing node does not run for a while */
        cell->of_ns[2] = 1000 * SECOND;
        cell->runs_ns[2] = 997 * SECOND;
        cell->shift_ns[2] = cell->runs_ns[2] - cell->now_ns;
        cell_run(cell, 4 * SECOND);
        feed(cell);
    } else { /* all links stand still for a while */
        cell->late_kinds = ~UINT64_C(0);
        while (cell->now_ns < until_ns) {
            cell->late_ns = until_ns - cell->now_ns;
            cell_run(cell, 5 * CELL_MS);
        }
        cell->late_kinds = 0;
    }
    cell_run(cell, 5 * SECOND);
    ck_assert_int_lt(replaced_ns(cell, 0), (QUORUM_TAKEOVER_MS + 200) * CELL_MS);
    cell_destroy(cell);
}
END_TEST

/* Returns for how long another voter may be silent before that node suspects it. */
static int64_t suspicion_ns(const struct cell *cell, uint32_t node)
{
    struct quorum_survey survey;
    quorum_survey(cell->nodes[node].quorum, &survey);
    return survey.suspicion_ns;
}

/* Sets whether the heartbeats of that node to the others are lost. */
static void lose_heartbeats(struct cell *cell, uint32_t node, bool lost)
{
    for (uint32_t to = 0; to < cell->config.voter_count; to++) {
        cell->drop[node][to] = lost ? UINT64_C(1) << MESSAGE_HEARTBEAT : 0;
    }
}

/* A node's heartbeats come in time, but they echo nothing new, because its link in the other
 * direction loses heartbeats for most of a second. A heartbeat without a newer echo is no delay. So
 * each of these silences counts for itself, and the second one makes the timeout longer. */
START_TEST(a_slow_link_in_one_direction)
{
    struct cell *cell = start(3, 300 + (uint64_t)_i);
    for (uint32_t silence = 0; silence < 3; silence++) {
        lose_heartbeats(cell, 2, true);
        cell_run(cell, 700 * CELL_MS);
        lose_heartbeats(cell, 2, false);
        cell_run(cell, 800 * CELL_MS);
    }
    ck_assert_int_lt(cell->now_ns, 9 * SECOND); /* the first window of measurements has not ended */
    ck_assert_int_gt(suspicion_ns(cell, 2), 2 * 700 * CELL_MS);
    cell_destroy(cell);
}
END_TEST

/* Makes node 0 propose a value. From now on, the voters' answers take late_ns longer. */
static void propose(struct cell *cell, const char *name, uint64_t id, int64_t late_ns)
{
    cell->late_kinds = UINT64_C(1) << MESSAGE_ACCEPTED;
    cell->late_ns = late_ns;
    cell_acquire(cell, 0, 0, name, id, 1, MESSAGE_MODE_EXCLUSIVE, 0);
    cell_settle(cell);
}

/* Sets `name` to the next name, in alphabetical order, that node 0 coordinates. */
static void next_of_node_0(struct cell *cell, char *name)
{
    do {
        name[0]++;
        ck_assert_int_le(name[0], 'z');
    } while (cell_coordinator(cell, name) != 0);
}

/* Several rounds of a node are under way at once: some take long, the others do not. A short round
 * that ends right before a long one is no delay. So each long round counts for itself, and after
 * two of them no round is given up at that age. */
START_TEST(long_rounds_among_short_ones)
{
    struct cell *cell = start(3, 310 + (uint64_t)_i);
    char name[2] = "`"; /* the character before 'a' */
    uint64_t id = 0;
    for (uint32_t round = 0; round < 3; round++) {
        next_of_node_0(cell, name);
        propose(cell, name, ++id, 350 * CELL_MS);
        cell_run(cell, 300 * CELL_MS);
        next_of_node_0(cell, name);
        propose(cell, name, ++id, 0);
        ck_assert_uint_eq(cell_got_count(cell, 0, MESSAGE_GRANT), 2 * round + 1);
        cell_run(cell, 100 * CELL_MS);
        ck_assert_uint_eq(cell_got_count(cell, 0, MESSAGE_GRANT), 2 * round + 2);
        cell_run(cell, SECOND);
    }
    uint64_t rounds = rounds_used(cell);
    next_of_node_0(cell, name);
    propose(cell, name, ++id, 600 * CELL_MS);
    cell_run(cell, 2 * SECOND);
    ck_assert_uint_eq(rounds_used(cell), rounds);
    cell_destroy(cell);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("suspicion");
    tcase_add_loop_test(tests, a_starved_cell_serves, 0, 8);
    tcase_add_loop_test(tests, a_starved_cell_comes_up, 0, 8);
    tcase_add_loop_test(tests, the_silent_are_replaced, 0, 6);
    tcase_add_loop_test(tests, a_slow_minority_changes_nothing, 0, 4);
    tcase_add_loop_test(tests, who_falls_silent_again_and_again, 0, 2);
    tcase_add_loop_test(tests, who_wakes_up_takes_nothing_over, 0, 4);
    tcase_add_loop_test(tests, who_was_replaced_in_its_sleep_resigns, 0, 4);
    tcase_add_loop_test(tests, slow_links, 0, 4);
    tcase_add_loop_test(tests, slow_rounds, 0, 4);
    tcase_add_loop_test(tests, one_silence_changes_nothing, 0, 12);
    tcase_add_loop_test(tests, a_slow_link_in_one_direction, 0, 4);
    tcase_add_loop_test(tests, long_rounds_among_short_ones, 0, 4);
    tcase_set_timeout(tests, 120);
    return suite_main("suspicion", tests);
}
