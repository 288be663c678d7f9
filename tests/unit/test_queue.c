/* The queue of a name: the order of arrival, even across a take-over; repeats; recalls; breaks. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../suite_main.h"
#include "quorum_cell.h"

static const enum message_mode X = MESSAGE_MODE_EXCLUSIVE;
static const enum message_mode S = MESSAGE_MODE_SHARED;

static bool has(struct cell *cell, uint32_t node, uint64_t id)
{
    const struct message *message = cell_got(cell, node, MESSAGE_GRANT);
    return message != NULL && message->as.grant.request_id == id;
}

static bool has_grant(struct cell *cell, uint32_t node)
{
    return cell_got(cell, node, MESSAGE_GRANT) != NULL;
}

static struct message_grant granted(struct cell *cell, uint32_t node, uint64_t id)
{
    ck_assert(has(cell, node, id));
    return cell_got(cell, node, MESSAGE_GRANT)->as.grant;
}

/* Asks voter `to` for a name, with a request that has already waited for waited_ms. */
static void ask_for(struct cell *cell, uint32_t node, uint32_t to, const char *name, uint64_t id,
                    enum message_mode mode, uint32_t waited_ms)
{
    struct message message;
    cell_header(cell, node, MESSAGE_ACQUIRE, &message);
    message.as.acquire.agent = message.from;
    message.as.acquire.epoch = 1;
    message.as.acquire.request_id = id;
    message_name_set(&message.as.acquire.name, name, strlen(name));
    message.as.acquire.mode = (uint8_t)mode;
    message.as.acquire.waited_ms = waited_ms;
    cell_send(cell, node, to, &message);
}

static void ask(struct cell *cell, uint32_t node, uint32_t to, uint64_t id, enum message_mode mode,
                uint32_t waited_ms)
{
    ask_for(cell, node, to, "a", id, mode, waited_ms);
}

static void give_back(struct cell *cell, uint32_t node, uint32_t to, uint64_t id,
                      struct message_order version)
{
    cell_give_back(cell, node, to, "a", id, 1, version, 0);
    cell_settle(cell);
    ck_assert_uint_eq(cell_got(cell, node, MESSAGE_GIVE_BACK_ACK)->as.version.request_id, id);
}

START_TEST(who_has_waited_longer_is_first)
{
    struct cell *cell = cell_ready(5);
    uint32_t to = cell_coordinator(cell, "a");
    uint32_t hosts[4];
    for (uint32_t i = 0; i < 4; i++) {
        hosts[i] = (to + 1 + i) % 5;
    }
    ask(cell, hosts[0], to, 1, X, 0);
    cell_settle(cell);
    struct message_order version = granted(cell, hosts[0], 1).version;
    static const uint32_t waited_ms[4] = {0, 500, 90, 3000}; /* cell_settle() takes 20 ms */
    for (uint32_t i = 1; i < 4; i++) {
        ask(cell, hosts[i], to, 1, X, waited_ms[i]);
        cell_settle(cell);
    }
    static const uint32_t order[4] = {0, 3, 1, 2};
    for (uint32_t i = 0; i < 3; i++) {
        give_back(cell, hosts[order[i]], to, 2, version);
        for (uint32_t k = i + 2; k < 4; k++) {
            ck_assert(!has(cell, hosts[order[k]], 1));
        }
        version = granted(cell, hosts[order[i + 1]], 1).version;
    }
    cell_destroy(cell);
}
END_TEST

static bool decides_only(struct cell *cell, uint32_t node, const char *text)
{
    struct message_name name;
    message_name_set(&name, text, strlen(text));
    return quorum_decides_only(cell->nodes[node].quorum, &name);
}

START_TEST(a_voter_knows_whether_it_decides_about_one_name_only)
{
    struct cell *cell = cell_ready(3);
    uint32_t to = cell_coordinator(cell, "a");
    uint32_t other = (to + 1) % 3;
    ck_assert(decides_only(cell, to, "a") && decides_only(cell, to, "b"));
    ask(cell, to, to, 1, X, 0);
    cell_settle(cell);
    struct message_order version = granted(cell, to, 1).version;
    ck_assert(decides_only(cell, to, "b"));
    ask(cell, other, to, 1, X, 0); /* this request has to wait */
    cell_settle(cell);
    ck_assert(decides_only(cell, to, "a") && !decides_only(cell, to, "b"));
    ck_assert(decides_only(cell, other, "b"));
    char second[8] = "b";
    for (char digit = '0'; cell_coordinator(cell, second) != to; digit++) {
        ck_assert_int_le(digit, '9');
        snprintf(second, sizeof(second), "b%c", digit);
    }
    ask_for(cell, to, to, second, 3, X, 0);
    cell_settle(cell);
    ask_for(cell, other, to, second, 3, X, 0); /* now two names of the partition have a waiter */
    cell_settle(cell);
    ck_assert(!decides_only(cell, to, "a") && !decides_only(cell, to, second));
    ck_assert(!decides_only(cell, to, "c"));
    give_back(cell, to, to, 2, version);
    ck_assert(decides_only(cell, to, second) && !decides_only(cell, to, "a"));
    cell_destroy(cell);
}
END_TEST

/* An answer is lost, and the host repeats its request. The repeat gets no second place in the
 * queue, and no second grant. */
START_TEST(asked_again_while_it_waits)
{
    struct cell *cell = cell_ready(3);
    uint32_t to = cell_coordinator(cell, "a");
    uint32_t other = (to + 1) % 3;
    ask(cell, to, to, 1, X, 0);
    cell_settle(cell);
    for (uint32_t i = 0; i < 5; i++) { /* a repeat says how long the request has waited so far */
        ask(cell, other, to, 1, X, i * 1000);
        cell_settle(cell);
    }
    struct message_order version = granted(cell, to, 1).version;
    give_back(cell, to, to, 2, version);
    granted(cell, other, 1);
    ck_assert_uint_eq(cell_got_count(cell, other, MESSAGE_GRANT), 1);
    ask(cell, other, to, 1, X, 5000);
    cell_settle(cell);
    ck_assert_uint_eq(cell_got_count(cell, other, MESSAGE_GRANT), 2);
    cell_destroy(cell);
}
END_TEST

/* An agent was restarted twice, so two requests of its host wait. The grant is made for the first
 * request while the second one waits, so the grant is fresh for both requests. It is not fresh for
 * a later request. */
START_TEST(a_grant_is_fresh_for_all_of_the_host_that_wait)
{
    static const enum message_mode modes[] = {X, S};
    for (uint32_t i = 0; i < 2; i++) {
        struct cell *cell = cell_ready(3);
        uint32_t to = cell_coordinator(cell, "a");
        uint32_t other = (to + 1) % 3;
        ask(cell, to, to, 1, X, 0);
        cell_settle(cell);
        ask(cell, other, to, 11, modes[i], 900);
        ask(cell, other, to, 12, modes[i], 800);
        cell_settle(cell);
        give_back(cell, to, to, 2, granted(cell, to, 1).version);
        struct message_grant second = granted(cell, other, 12);
        ck_assert(second.fresh);
        ck_assert_uint_eq(cell_got_count(cell, other, MESSAGE_GRANT), 2);
        ask(cell, other, to, 13, modes[i], 700);
        cell_settle(cell);
        struct message_grant third = granted(cell, other, 13);
        ck_assert(!third.fresh && message_order_equal(third.version, second.version));
        cell_destroy(cell);
    }
}
END_TEST

/* A late repeat of a request, whose grant was already given back, gets the same answer as before.
 * It causes no recall and no new grant. */
START_TEST(asked_again_after_it_was_given_back)
{
    struct cell *cell = cell_ready(3);
    uint32_t to = cell_coordinator(cell, "a");
    uint32_t other = (to + 1) % 3;
    ask(cell, to, to, 1, X, 0);
    cell_settle(cell);
    struct message_grant first = granted(cell, to, 1);
    give_back(cell, to, to, 2, first.version);
    ask(cell, to, to, 1, X, 0);
    cell_settle(cell);
    struct message_grant again = granted(cell, to, 1);
    ck_assert(message_order_equal(again.version, first.version));
    ck_assert_uint_eq(again.token_first, first.token_first);
    ask(cell, other, to, 1, X, 0);
    cell_settle(cell);
    ck_assert_uint_eq(granted(cell, other, 1).token_first, first.token_first);
    ask(cell, to, to, 1, X, 0);
    cell_settle(cell);
    ck_assert_ptr_null(cell_got(cell, other, MESSAGE_RECALL));
    /* If the host has a newer grant when it repeats the old request, the answer does not name the
     * newer grant. */
    give_back(cell, other, to, 2, granted(cell, other, 1).version);
    ask(cell, to, to, 3, X, 0);
    cell_settle(cell);
    struct message_grant second = granted(cell, to, 3);
    ask(cell, to, to, 1, X, 0);
    cell_settle(cell);
    ck_assert(message_order_equal(granted(cell, to, 1).version, first.version));
    ask(cell, to, to, 3, X, 0);
    cell_settle(cell);
    ck_assert(message_order_equal(granted(cell, to, 3).version, second.version));
    /* The same id for another name is another request. */
    char name[8] = "other0";
    while (cell_coordinator(cell, name) != to) {
        name[5]++;
    }
    cell_acquire(cell, to, to, name, 1, 1, X, 0);
    cell_settle(cell);
    again = granted(cell, to, 1);
    ck_assert_uint_eq(again.name.length, strlen(name));
    ck_assert(!message_order_equal(again.version, first.version));
    cell_destroy(cell);
}
END_TEST

/* Sends an AMEND that asks for a longer lock-delay. */
static void amend(struct cell *cell, uint32_t node, uint32_t to, uint64_t id,
                  struct message_order version, uint16_t lock_delay_ms)
{
    struct message message;
    cell_header(cell, node, MESSAGE_AMEND, &message);
    message.as.amend.agent = message.from;
    message.as.amend.epoch = 1;
    message.as.amend.request_id = id;
    message_name_set(&message.as.amend.name, "a", 1);
    message.as.amend.version = version;
    message.as.amend.lock_delay_ms = lock_delay_ms;
    cell_send(cell, node, to, &message);
}

/* While a round is under way, an amendment and then a give-back of the same grant arrive. The
 * coordinator decides them together. */
START_TEST(amended_and_given_back_at_once)
{
    const enum message_mode mode = _i == 0 ? X : S;
    struct cell *cell = cell_ready(3);
    uint32_t to = cell_coordinator(cell, "a");
    ask(cell, to, to, 1, mode, 0);
    cell_settle(cell);
    struct message_order version = granted(cell, to, 1).version;
    cell->cut[to][(to + 1) % 3] = cell->cut[to][(to + 2) % 3] = true;
    amend(cell, to, to, 2, version, 2000);
    cell_settle(cell);
    amend(cell, to, to, 3, version, 3000);
    cell_settle(cell);
    cell_give_back(cell, to, to, "a", 4, 1, version, 0);
    cell_settle(cell);
    cell->cut[to][(to + 1) % 3] = cell->cut[to][(to + 2) % 3] = false;
    cell_run(cell, 250 * CELL_MS); /* the coordinator sends the round again */
    const struct message *refused = cell_got(cell, to, MESSAGE_REFUSED);
    const struct message *given = cell_got(cell, to, MESSAGE_GIVE_BACK_ACK);
    ck_assert(refused != NULL && refused->as.refused.request_id == 3);
    ck_assert_uint_eq(refused->as.refused.reason, MESSAGE_REFUSED_VERSION);
    ck_assert(given != NULL && given->as.version.request_id == 4);
    ask(cell, (to + 1) % 3, to, 1, X, 0);
    cell_settle(cell);
    ck_assert(has(cell, (to + 1) % 3, 1));
    cell_destroy(cell);
}
END_TEST

START_TEST(old_versions_given_back)
{
    struct cell *cell = cell_ready(3);
    uint32_t to = cell_coordinator(cell, "a");
    uint32_t other = (to + 1) % 3;
    struct message_order versions[3];
    for (uint32_t i = 0; i < 3; i++) {
        ask(cell, to, to, 10 + i, X, 0);
        cell_settle(cell);
        versions[i] = granted(cell, to, 10 + i).version;
        if (i < 2) {
            give_back(cell, to, to, 20 + i, versions[i]);
        }
    }
    for (uint32_t i = 0; i < 2; i++) {
        give_back(cell, to, to, 30 + i, versions[i]);
    }
    /* `other` gives back a version that is the present grant of the host `to`: nothing changes */
    cell_give_back(cell, other, to, "a", 40, 1, versions[2], 0);
    ask(cell, other, to, 41, X, 0);
    cell_settle(cell);
    ck_assert(!has(cell, other, 41));
    give_back(cell, to, to, 42, versions[2]);
    granted(cell, other, 41);
    cell_destroy(cell);
}
END_TEST

/* One host had the lock, and others waited, when a new coordinator took over. The host that repeats
 * its request first is not served before a host that has waited longer. */
static void take_over(bool given_back_alone)
{
    struct cell *cell = cell_ready(5);
    uint32_t to = cell_coordinator(cell, "a");
    uint32_t owner = (to + 1) % 5;
    uint32_t early = (to + 2) % 5;
    uint32_t late = (to + 3) % 5;
    ask(cell, owner, to, 1, X, 0);
    cell_settle(cell);
    struct message_order version = granted(cell, owner, 1).version;
    cell_kill(cell, to);
    uint32_t next = to;
    for (uint32_t i = 0; i < 1000 && next == to; i++) {
        cell_run(cell, 2 * CELL_MS);
        next = cell_coordinator_at(cell, owner, "a");
        next = next < 5 && cell_coordinator_at(cell, next, "a") == next ? next : to;
    }
    ck_assert_uint_ne(next, to);
    if (given_back_alone) {
        cell_give_back(cell, owner, next, "a", 2, 1, version, 0);
        cell_run(cell, 10 * CELL_MS);
        ask(cell, late, next, 1, X, 50);
    } else {
        ask(cell, late, next, 1, X, 50);
        cell_run(cell, 5 * CELL_MS);
        cell_give_back(cell, owner, next, "a", 2, 1, version, 0);
    }
    cell_run(cell, 10 * CELL_MS);
    ck_assert(!has(cell, late, 1) && !has(cell, early, 1));
    ask(cell, early, next, 1, X, 400);
    cell_run(cell, 200 * CELL_MS);
    ck_assert(has(cell, early, 1) && !has(cell, late, 1));
    give_back(cell, early, next, 2, granted(cell, early, 1).version);
    granted(cell, late, 1);
    cell_destroy(cell);
}

static void ask_as(struct cell *cell, const char *agent, uint64_t id, uint32_t waited_ms)
{
    struct message message;
    cell_header(cell, 0, MESSAGE_ACQUIRE, &message);
    message_agent_set(&message.from, agent, strlen(agent));
    message.as.acquire.agent = message.from;
    message.as.acquire.epoch = 1;
    message.as.acquire.request_id = id;
    message_name_set(&message.as.acquire.name, "a", 1);
    message.as.acquire.mode = MESSAGE_MODE_EXCLUSIVE;
    message.as.acquire.waited_ms = waited_ms;
    cell_send(cell, 0, 0, &message);
}

/* The only voter is restarted. Its own host asks at once, while observers first have to connect to
 * the voter. */
START_TEST(order_survives_a_restart_of_the_only_voter)
{
    struct cell *cell = cell_ready(1);
    ask_as(cell, "x", 1, 0);
    cell_settle(cell);
    struct message_order version = cell_other_got(cell, "x", MESSAGE_GRANT)->as.grant.version;
    cell_kill(cell, 0);
    cell_start(cell, 0);
    cell_run_ready(cell);
    ask(cell, 0, 0, 1, X, 50);
    cell_other_give_back(cell, "x", 0, "a", 2, 1, version);
    cell_run(cell, 600 * CELL_MS);
    ck_assert(!has(cell, 0, 1));
    ask_as(cell, "y", 3, 1500);
    cell_run(cell, 200 * CELL_MS);
    const struct message *grant = cell_other_got(cell, "y", MESSAGE_GRANT);
    ck_assert(grant != NULL && !has(cell, 0, 1));
    cell_other_give_back(cell, "y", 0, "a", 4, 1, grant->as.grant.version);
    cell_settle(cell);
    (void)granted(cell, 0, 1);
    cell_destroy(cell);
}
END_TEST

START_TEST(order_survives_a_take_over)
{
    take_over(false);
}
END_TEST

START_TEST(order_survives_a_take_over_with_nobody_queued)
{
    take_over(true);
}
END_TEST

/* If no host had the name before the take-over, a request is granted at once, without a wait for
 * the repeated requests of other hosts. */
START_TEST(free_names_are_granted_at_once)
{
    struct cell *cell = cell_ready(3);
    uint32_t to = cell_coordinator(cell, "a");
    uint32_t host = (to + 1) % 3;
    ask(cell, host, to, 1, X, 0);
    cell_settle(cell);
    give_back(cell, host, to, 2, granted(cell, host, 1).version);
    cell_kill(cell, to);
    uint32_t next = to;
    for (uint32_t i = 0; i < 1000 && next == to; i++) {
        cell_run(cell, 2 * CELL_MS);
        next = cell_coordinator_at(cell, host, "a");
        next = next < 3 && cell_coordinator_at(cell, next, "a") == next ? next : to;
    }
    ask(cell, host, next, 3, X, 0);
    cell_settle(cell);
    granted(cell, host, 3);
    cell_destroy(cell);
}
END_TEST

static uint32_t recalls(struct cell *cell, uint32_t node, bool relayed)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < cell->nodes[node].inbox_count; i++) {
        const struct message *message = &cell->nodes[node].inbox[i];
        count += message->kind == MESSAGE_RECALL && message->relayed == relayed;
    }
    return count;
}

/* The coordinator repeats a recall, and sends every second one through another voter. */
START_TEST(recalls_go_two_ways)
{
    struct cell *cell = cell_ready(3);
    uint32_t to = cell_coordinator(cell, "a");
    uint32_t owner = (to + 1) % 3;
    uint32_t other = (to + 2) % 3;
    ask(cell, owner, to, 1, X, 0);
    cell_settle(cell);
    ask(cell, other, to, 1, X, 0);
    cell_run(cell, 2250 * CELL_MS);
    ck_assert_uint_eq(recalls(cell, owner, false), 3);
    ck_assert_uint_eq(recalls(cell, owner, true), 2);
    /* A host that the coordinator cannot reach directly gets the recall through the other voter. */
    cell->cut[to][owner] = true;
    uint32_t before = recalls(cell, owner, true);
    cell_run(cell, 1000 * CELL_MS);
    ck_assert_uint_gt(recalls(cell, owner, true), before);
    cell_destroy(cell);
}
END_TEST

/* A host that gets the lock while others wait gets a recall at once, not only with the next
 * repeat. */
START_TEST(each_next_owner_is_recalled_at_once)
{
    struct cell *cell = cell_ready(5);
    uint32_t to = cell_coordinator(cell, "a");
    for (uint32_t i = 0; i < 5; i++) {
        ask(cell, i, to, 1, X, 0);
        cell_settle(cell);
    }
    uint32_t owner = 0;
    for (uint32_t i = 0; i < 4; i++) {
        ck_assert_uint_eq(recalls(cell, owner, false), 1);
        struct message_order version = granted(cell, owner, 1).version;
        const struct message *recall = cell_got(cell, owner, MESSAGE_RECALL);
        ck_assert(message_order_equal(recall->as.version.version, version));
        give_back(cell, owner, to, 2, version);
        owner++;
    }
    granted(cell, 4, 1);
    ck_assert_uint_eq(recalls(cell, 4, false), 0); /* no host waits any more */
    cell_destroy(cell);
}
END_TEST

/* A waiting request is answered on the way by which its latest copy came. */
START_TEST(answered_by_the_latest_way)
{
    struct cell *cell = cell_ready(3);
    uint32_t to = cell_coordinator(cell, "a");
    uint32_t host = (to + 1) % 3;
    uint32_t other = (to + 2) % 3;
    ask(cell, to, to, 1, X, 0);
    cell_settle(cell);
    ask(cell, host, to, 1, X, 0);
    cell_settle(cell);
    cell->cut[to][host] = true;
    cell_run(cell, 250 * CELL_MS); /* a host waits for so long before it tries another way */
    ask(cell, host, other, 1, X, 290);
    cell_run(cell, 5 * CELL_MS);
    give_back(cell, to, to, 2, granted(cell, to, 1).version);
    granted(cell, host, 1);
    cell_destroy(cell);
}
END_TEST

/* If a request's way changes during the round, recall and grant still go the same way. Otherwise
 * the recall could overtake the grant. */
START_TEST(a_recall_goes_the_way_of_its_grant)
{
    struct cell *cell = cell_ready(3);
    uint32_t to = cell_coordinator(cell, "a");
    uint32_t host = (to + 1) % 3;
    uint32_t other = (to + 2) % 3;
    ask(cell, to, to, 1, X, 0);
    cell_settle(cell);
    ask(cell, host, to, 1, X, 0);
    cell_settle(cell);
    ask(cell, other, to, 1, X, 0);
    cell_settle(cell);
    cell->drop[host][to] = UINT64_C(1) << MESSAGE_ACCEPTED;
    cell->drop[other][to] = UINT64_C(1) << MESSAGE_ACCEPTED;
    cell_give_back(cell, to, to, "a", 2, 1, granted(cell, to, 1).version, 0);
    cell_run(cell, 175 * CELL_MS);
    ask(cell, host, other, 1, X, 215);
    cell_run(cell, 5 * CELL_MS);
    cell->cut[to][host] = true;
    cell->drop[other][to] = 0;
    cell_run(cell, 100 * CELL_MS); /* the coordinator sends the round again */
    granted(cell, host, 1);
    ck_assert_ptr_nonnull(cell_got(cell, host, MESSAGE_RECALL));
    cell_destroy(cell);
}
END_TEST

static void break_lock(struct cell *cell, uint32_t node, uint32_t to, uint64_t id)
{
    struct message message;
    cell_header(cell, node, MESSAGE_BREAK, &message);
    message.as.break_lock.agent = message.from;
    message.as.break_lock.request_id = id;
    message.as.break_lock.now = true;
    message_name_set(&message.as.break_lock.name, "a", 1);
    cell_send(cell, node, to, &message);
    cell_settle(cell);
}

START_TEST(breaks_go_to_the_owners)
{
    struct cell *cell = cell_ready(3);
    uint32_t to = cell_coordinator(cell, "a");
    uint32_t owner = (to + 1) % 3;
    uint32_t other = (to + 2) % 3;
    break_lock(cell, other, to, 7);
    const struct message *broken = cell_got(cell, other, MESSAGE_BROKEN);
    ck_assert_ptr_nonnull(broken);
    ck_assert(broken->as.outcome.request_id == 7 && broken->as.outcome.result == 0);
    ask(cell, owner, to, 1, X, 0);
    cell_settle(cell);
    ask(cell, to, to, 1, X, 0);
    cell_settle(cell);
    /* the voter `owner` is not the coordinator, and passes the break on to the coordinator */
    break_lock(cell, other, owner, 8);
    const struct message *hold = cell_got(cell, owner, MESSAGE_BREAK_HOLD);
    ck_assert_ptr_nonnull(hold);
    ck_assert(hold->as.break_lock.request_id == 8 && hold->as.break_lock.now);
    ck_assert_int_eq(memcmp(&hold->as.break_lock.agent, &cell->config.voters[other],
                            sizeof(hold->as.break_lock.agent)),
                     0);
    ck_assert_uint_eq(cell_got_count(cell, other, MESSAGE_BROKEN), 1);
    ck_assert_uint_eq(cell_got_count(cell, to, MESSAGE_BREAK_HOLD), 0);
    ck_assert(!has(cell, to, 1)); /* the break ends only the owner's hold */
    cell_destroy(cell);
}
END_TEST

/* The outcome of a break got lost, or the owner gave the lock back by itself. When the break is
 * repeated, another host has the lock. The break must not end that host's hold. */
START_TEST(a_repeated_break_does_not_hit_the_next_owner)
{
    const enum message_mode mode = _i == 0 ? X : S;
    struct cell *cell = cell_ready(3);
    uint32_t to = cell_coordinator(cell, "a");
    uint32_t owner = (to + 1) % 3;
    uint32_t next = (to + 2) % 3;
    ask(cell, owner, to, 1, mode, 0);
    cell_settle(cell);
    struct message_order version = granted(cell, owner, 1).version;
    break_lock(cell, to, to, 7);
    const struct message *hold = cell_got(cell, owner, MESSAGE_BREAK_HOLD);
    ck_assert_ptr_nonnull(hold);
    ck_assert(message_order_equal(hold->as.break_lock.version, version));
    break_lock(cell, to, to, 7); /* the break is sent again, as if its outcome got lost */
    ck_assert_uint_eq(cell_got_count(cell, owner, MESSAGE_BREAK_HOLD), 2);
    ask(cell, next, to, 1, mode, 0);
    cell_settle(cell);
    give_back(cell, owner, to, 2, version);
    version = granted(cell, next, 1).version;
    break_lock(cell, to, to, 7);
    ck_assert_ptr_null(cell_got(cell, next, MESSAGE_BREAK_HOLD));
    ck_assert_uint_eq(cell_got(cell, to, MESSAGE_BROKEN)->as.outcome.request_id, 7);
    break_lock(cell, to, to, 8);
    hold = cell_got(cell, next, MESSAGE_BREAK_HOLD);
    ck_assert_ptr_nonnull(hold);
    ck_assert(message_order_equal(hold->as.break_lock.version, version));
    cell_destroy(cell);
}
END_TEST

/* The same ACCEPT ends the broken hold and grants the lock to another host. The break does not end
 * that host's hold. */
START_TEST(a_break_does_not_hit_the_next_owner)
{
    struct cell *cell = cell_ready(3);
    uint32_t to = cell_coordinator(cell, "a");
    uint32_t owner = (to + 1) % 3;
    uint32_t next = (to + 2) % 3;
    ask(cell, owner, to, 1, X, 0);
    cell_settle(cell);
    struct message_order version = granted(cell, owner, 1).version;
    ask(cell, next, to, 1, X, 0);
    cell_settle(cell);
    /* The other voters get nothing for a while, so the coordinator decides all these messages
     * together after its present round. */
    for (uint32_t i = 0; i < 3; i++) {
        cell->cut[to][i] = i != to;
    }
    struct message message;
    cell_header(cell, owner, MESSAGE_AMEND, &message);
    message.as.amend.agent = message.from;
    message.as.amend.epoch = 1;
    message.as.amend.request_id = 3;
    message_name_set(&message.as.amend.name, "a", 1);
    message.as.amend.version = version;
    message.as.amend.lock_delay_ms = 5;
    cell_send(cell, owner, to, &message);
    cell_run(cell, 10 * CELL_MS);
    cell_give_back(cell, owner, to, "a", 2, 1, version, 0);
    cell_run(cell, 5 * CELL_MS);
    cell_header(cell, to, MESSAGE_BREAK, &message);
    message.as.break_lock.agent = message.from;
    message.as.break_lock.request_id = 9;
    message_name_set(&message.as.break_lock.name, "a", 1);
    cell_send(cell, to, to, &message);
    cell_run(cell, 5 * CELL_MS);
    memset(cell->cut, 0, sizeof(cell->cut));
    cell_run(cell, 250 * CELL_MS);
    granted(cell, next, 1);
    ck_assert_ptr_null(cell_got(cell, next, MESSAGE_BREAK_HOLD));
    ck_assert_ptr_nonnull(cell_got(cell, to, MESSAGE_BROKEN));
    cell_destroy(cell);
}
END_TEST

/* One voter gets many requests for many names: entries are used again, and each request is
 * answered. */
START_TEST(every_slot_is_used_again)
{
    struct cell *cell = cell_ready(1);
    char name[8] = "q00";
    for (uint32_t round = 0; round < 20; round++) {
        for (uint32_t i = 0; i < 40; i++) {
            name[1] = (char)('0' + i / 10);
            name[2] = (char)('0' + i % 10);
            cell_acquire(cell, 0, 0, name, 100 * round + i, 1, round % 2 == 0 ? X : S, 0);
        }
        cell_settle(cell);
        ck_assert_uint_eq(cell_got_count(cell, 0, MESSAGE_GRANT), 40);
        ck_assert_ptr_null(cell_got(cell, 0, MESSAGE_REFUSED));
        for (uint32_t i = 0; i < cell->nodes[0].inbox_count; i++) {
            struct message_grant grant = cell->nodes[0].inbox[i].as.grant;
            name[1] = (char)grant.name.bytes[1];
            name[2] = (char)grant.name.bytes[2];
            cell_give_back(cell, 0, 0, name, 5000 + i, 1, grant.version, 0);
        }
        cell->nodes[0].inbox_count = 0;
        cell_settle(cell);
        ck_assert_uint_eq(cell_got_count(cell, 0, MESSAGE_GIVE_BACK_ACK), 40);
        cell->nodes[0].inbox_count = 0;
    }
    cell_run(cell, 1000 * CELL_MS);
    /* nothing is left to do */
    ck_assert_int_eq(quorum_next_tick_ns(cell->nodes[0].quorum), INT64_MAX);
    cell_destroy(cell);
}
END_TEST

/* Many operations wait, and end in another order than that in which they began. Each operation ends
 * in time. */
START_TEST(many_wait_for_their_times)
{
    struct cell *cell = cell_ready(1);
    struct message_order versions[40];
    char name[8] = "w00";
    for (uint32_t i = 0; i < 40; i++) {
        name[1] = (char)('0' + i / 10);
        name[2] = (char)('0' + i % 10);
        cell_other_acquire(cell, "holder", 0, name, 1 + i, 1, X);
        cell_settle(cell);
        const struct message *grant = cell_other_got(cell, "holder", MESSAGE_GRANT);
        ck_assert_uint_eq(grant->as.grant.request_id, 1 + i);
        versions[i] = grant->as.grant.version;
        cell_acquire(cell, 0, 0, name, 1 + i, 1, X, 0);
        cell_run(cell, (int64_t)(cell_random(cell) % 40) * CELL_MS);
    }
    for (uint32_t k = 0; k < 40; k++) {
        uint32_t i = k * 17 % 40;
        name[1] = (char)('0' + i / 10);
        name[2] = (char)('0' + i % 10);
        cell_other_give_back(cell, "holder", 0, name, 100 + i, 1, versions[i]);
        cell_settle(cell);
        bool served = false; /* the grant may have come before the give-back */
        for (uint32_t at = 0; at < cell->nodes[0].inbox_count; at++) {
            const struct message *message = &cell->nodes[0].inbox[at];
            served = served ||
                     (message->kind == MESSAGE_GRANT && message->as.grant.request_id == 1 + i);
        }
        ck_assert(served);
        cell->other_count = 0;
        cell_run(cell, (int64_t)(cell_random(cell) % 100) * CELL_MS);
    }
    cell_run(cell, 1000 * CELL_MS);
    ck_assert_ptr_null(cell_other_got(cell, "holder", MESSAGE_RECALL));
    cell_destroy(cell);
}
END_TEST

/* A name that waits for the end of a session is served as soon as the session has ended. */
START_TEST(served_as_soon_as_it_is_dead)
{
    struct cell *cell = cell_ready(3);
    uint32_t to = cell_coordinator(cell, "a");
    cell_acquire(cell, (to + 1) % 3, to, "a", 1, 1, X, 0);
    cell_settle(cell);
    ask(cell, to, to, 1, X, 0);
    for (uint32_t i = 0; i < 10000 && cell->nodes[to].disk.mark_count == 0; i++) {
        cell_run(cell, CELL_MS);
    }
    ck_assert(!has(cell, to, 1));
    cell_settle(cell);
    granted(cell, to, 1);
    cell_destroy(cell);
}
END_TEST

/* A waiting request that is not repeated any more is dropped: a grant would be useless. A host that
 * repeats its request, however seldom, keeps its place. */
START_TEST(a_host_that_fell_silent_has_no_place)
{
    const uint32_t each_s = _i == 0 ? 100 : 8;
    struct cell *cell = cell_ready(3);
    uint32_t to = cell_coordinator(cell, "a");
    uint32_t owner = (to + 1) % 3;
    uint32_t other = (to + 2) % 3;
    ask(cell, owner, to, 1, X, 0);
    cell_settle(cell);
    struct message_order version = granted(cell, owner, 1).version;
    for (uint32_t s = 0; s < 15; s++) {
        if (s % each_s == 0) {
            cell_other_acquire(cell, "gone", to, "a", 1, 1, X);
            cell_settle(cell);
        }
        ask(cell, other, to, 1, X, s * 1000);
        for (uint32_t voter = 0; voter < 3; voter++) {
            cell_extend(cell, owner, voter, 1);
        }
        cell_run(cell, 1000 * CELL_MS);
    }
    give_back(cell, owner, to, 2, version);
    /* if "gone" has got the lock, its session has to end before this grant */
    granted(cell, other, 1);
    ck_assert((cell_other_got(cell, "gone", MESSAGE_GRANT) != NULL) == (_i == 1));
    quorum_check_invariants(cell->nodes[to].quorum);
    cell_destroy(cell);
}
END_TEST

/* A mark that only the coordinator's own voter has does not end a session. Otherwise that voter
 * would refuse the host for ever, while the other voters keep its session alive. */
START_TEST(marked_by_a_minority_is_served)
{
    struct cell *cell = cell_ready(3);
    uint32_t to = cell_coordinator(cell, "a");
    uint32_t host = (to + 1) % 3;
    cell_kill(cell, to);
    struct cell_disk *disk = &cell->nodes[to].disk;
    disk->marks[disk->mark_count++] = (struct message_session){.agent = cell->config.voters[host],
                                                               .epoch = 1};
    cell_start(cell, to);
    cell_run(cell, 3000 * CELL_MS);
    cell_run_ready(cell);
    ck_assert_uint_eq(cell_coordinator(cell, "a"), to);
    ask(cell, host, to, 1, X, 0);
    cell_settle(cell);
    granted(cell, host, 1);
    cell_destroy(cell);
}
END_TEST

START_TEST(breaks_of_the_dead)
{
    struct cell *cell = cell_ready(3);
    uint32_t to = cell_coordinator(cell, "a");
    uint32_t owner = (to + 1) % 3;
    cell_acquire(cell, owner, to, "a", 1, 1, X, 60000);
    cell_settle(cell);
    ask(cell, to, to, 1, X, 0);
    cell_run(cell, 2 * CELL_TTL_NS);
    break_lock(cell, to, to, 7);
    ck_assert_ptr_null(cell_got(cell, owner, MESSAGE_BREAK_HOLD));
    ck_assert_ptr_nonnull(cell_got(cell, to, MESSAGE_BROKEN));
    ck_assert(!has(cell, to, 1)); /* the lock-delay has not passed yet */
    cell_destroy(cell);
}
END_TEST

/* Node 1 has a value of a name, with sequence 3 of a ballot. Node 2 has a checkpoint up to sequence
 * checkpoint_sequence of that ballot, but not the name. Node 0 is down. The coordinator gets a
 * request for the name before it has read all registers. Returns the first token of the grant. */
static uint64_t first_token(uint32_t coordinator, uint64_t checkpoint_sequence, bool found)
{
    struct cell *cell = cell_ready(3);
    struct cell_disk *has = &cell->nodes[1].disk;
    struct cell_disk *deleted = &cell->nodes[2].disk;
    char name[8] = "a";
    for (uint32_t i = 0; i < 20; i++) {
        name[0] = (char)('a' + i);
        uint32_t p = names_partition(name, 1);
        struct message_agent voters[2] = {cell->config.voters[1], cell->config.voters[2]};
        if (1 + quorum_preferred(voters, 2, p) == coordinator) {
            break;
        }
    }
    uint32_t p = names_partition(name, 1);
    for (uint32_t node = 0; node < 3; node++) {
        cell_kill(cell, node);
    }
    uint64_t ballot = has->promised[p];
    struct quorum_register *reg = &has->registers[0];
    message_name_set(&reg->name, name, 1);
    reg->accepted = (struct message_order){ballot, 3};
    reg->value.token_first = 50;
    reg->value.permits = 1;
    has->register_count = found;
    deleted->checkpoints[p].order = (struct message_order){ballot, checkpoint_sequence};
    deleted->checkpoints[p].floor = 99;
    cell_start(cell, 1);
    cell_start(cell, 2);
    for (uint32_t i = 0; i < 5000 && !has_grant(cell, coordinator); i++) {
        cell_acquire(cell, coordinator, coordinator, name, 1, 1, X, 0);
        cell_run(cell, CELL_MS);
    }
    uint64_t first = granted(cell, coordinator, 1).token_first;
    cell_destroy(cell);
    return first;
}

START_TEST(deleted_is_what_the_highest_checkpoint_says)
{
    for (uint32_t coordinator = 1; coordinator < 3; coordinator++) {
        /* the checkpoint deleted the value */
        ck_assert_uint_eq(first_token(coordinator, 3, true), 100);
        ck_assert_uint_eq(first_token(coordinator, 4, true), 100);
        /* the value is newer than the checkpoint */
        ck_assert_uint_eq(first_token(coordinator, 2, true), 50);
        ck_assert_uint_eq(first_token(coordinator, 3, false), 100);
    }
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("queue");
    tcase_add_test(tests, who_has_waited_longer_is_first);
    tcase_add_test(tests, a_voter_knows_whether_it_decides_about_one_name_only);
    tcase_add_test(tests, asked_again_while_it_waits);
    tcase_add_test(tests, a_grant_is_fresh_for_all_of_the_host_that_wait);
    tcase_add_test(tests, asked_again_after_it_was_given_back);
    tcase_add_loop_test(tests, amended_and_given_back_at_once, 0, 2);
    tcase_add_test(tests, old_versions_given_back);
    tcase_add_test(tests, order_survives_a_restart_of_the_only_voter);
    tcase_add_test(tests, order_survives_a_take_over);
    tcase_add_test(tests, order_survives_a_take_over_with_nobody_queued);
    tcase_add_test(tests, free_names_are_granted_at_once);
    tcase_add_test(tests, recalls_go_two_ways);
    tcase_add_test(tests, each_next_owner_is_recalled_at_once);
    tcase_add_test(tests, answered_by_the_latest_way);
    tcase_add_test(tests, a_recall_goes_the_way_of_its_grant);
    tcase_add_test(tests, breaks_go_to_the_owners);
    tcase_add_loop_test(tests, a_repeated_break_does_not_hit_the_next_owner, 0, 2);
    tcase_add_test(tests, a_break_does_not_hit_the_next_owner);
    tcase_add_test(tests, many_wait_for_their_times);
    tcase_add_test(tests, served_as_soon_as_it_is_dead);
    tcase_add_loop_test(tests, a_host_that_fell_silent_has_no_place, 0, 2);
    tcase_add_test(tests, deleted_is_what_the_highest_checkpoint_says);
    tcase_add_test(tests, marked_by_a_minority_is_served);
    tcase_add_test(tests, breaks_of_the_dead);
    tcase_add_test(tests, every_slot_is_used_again);
    tcase_set_timeout(tests, 300);
    return suite_main("queue", tests);
}
