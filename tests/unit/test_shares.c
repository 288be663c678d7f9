/* Shared grants: each host has a share with its own version and its own end. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../suite_main.h"
#include "quorum_cell.h"

static const enum message_mode X = MESSAGE_MODE_EXCLUSIVE;
static const enum message_mode S = MESSAGE_MODE_SHARED;

static struct message_grant granted(struct cell *cell, uint32_t node, uint64_t id)
{
    const struct message *message = cell_got(cell, node, MESSAGE_GRANT);
    ck_assert_ptr_nonnull(message);
    ck_assert_uint_eq(message->as.grant.request_id, id);
    return message->as.grant;
}

static struct message_grant acquire(struct cell *cell, uint32_t node, uint64_t id,
                                    enum message_mode mode)
{
    cell_acquire(cell, node, cell_coordinator(cell, "a"), "a", id, 1, mode, 0);
    cell_settle(cell);
    return granted(cell, node, id);
}

static void ask(struct cell *cell, uint32_t node, uint64_t id, enum message_mode mode)
{
    cell_acquire(cell, node, cell_coordinator(cell, "a"), "a", id, 1, mode, 0);
    cell_settle(cell);
}

static void give_back(struct cell *cell, uint32_t node, uint64_t id, struct message_order version)
{
    cell_give_back(cell, node, cell_coordinator(cell, "a"), "a", id, 1, version, 0);
    cell_settle(cell);
    ck_assert_uint_eq(cell_got(cell, node, MESSAGE_GIVE_BACK_ACK)->as.version.request_id, id);
}

static bool waits(struct cell *cell, uint32_t node, uint64_t id)
{
    const struct message *message = cell_got(cell, node, MESSAGE_GRANT);
    return message == NULL || message->as.grant.request_id != id;
}

/* Returns the coordinator's value of a name. */
static struct message_value look(struct cell *cell, const char *name)
{
    struct cell_node *node = &cell->nodes[cell_coordinator(cell, name)];
    struct quorum_register reg = {.accepted = {0, 0}};
    uint32_t id = names_find(node->names, name, strlen(name));
    ck_assert(id != NAMES_NONE && quorum_look(node->quorum, id, &reg));
    return reg.value;
}

START_TEST(many_hosts_read_at_once)
{
    struct cell *cell = cell_ready(3);
    struct message_grant before = acquire(cell, 0, 1, X);
    cell_give_back(cell, 0, cell_coordinator(cell, "a"), "a", 2, 1, before.version, 41);
    cell_settle(cell);
    struct message_grant grants[3];
    for (uint32_t i = 0; i < 3; i++) {
        grants[i] = acquire(cell, i, 10 + i, S);
        ck_assert_uint_eq(grants[i].mode, S);
        /* each share's token is the last token that was used */
        ck_assert(grants[i].token_first == 41 && grants[i].token_last == 41);
    }
    ck_assert(!message_order_equal(grants[0].version, grants[1].version));
    ck_assert_uint_eq(look(cell, "a").share_count, 3);
    ck_assert_uint_eq(cell_got_count(cell, 0, MESSAGE_RECALL), 0);
    for (uint32_t i = 0; i < 3; i++) {
        give_back(cell, i, 20 + i, grants[i].version);
        ck_assert_uint_eq(look(cell, "a").share_count, 2 - i);
    }
    ck_assert_uint_eq(look(cell, "a").mode, MESSAGE_MODE_NONE);
    ck_assert_uint_eq(acquire(cell, 1, 30, X).token_first, 42);
    cell_destroy(cell);
}
END_TEST

/* If a name was never held exclusively, its readers get token 1, and its first writer gets token
 * 2. */
START_TEST(first_token_of_readers)
{
    struct cell *cell = cell_ready(1);
    struct message_grant grant = acquire(cell, 0, 1, S);
    ck_assert(grant.token_first == 1 && grant.token_last == 1);
    give_back(cell, 0, 2, grant.version);
    grant = acquire(cell, 0, 3, S);
    ck_assert_uint_eq(grant.token_first, 1);
    give_back(cell, 0, 4, grant.version);
    ck_assert_uint_eq(acquire(cell, 0, 5, X).token_first, 2);
    cell_destroy(cell);
}
END_TEST

/* Readers that waited behind one writer are granted together, by the ACCEPT that ends the writer's
 * grant. */
START_TEST(a_run_of_readers_goes_together)
{
    struct cell *cell = cell_ready(3);
    uint32_t to = cell_coordinator(cell, "a");
    struct message_grant writer = acquire(cell, 0, 1, X);
    ask(cell, 1, 1, S);
    ask(cell, 2, 1, S);
    ck_assert(waits(cell, 1, 1) && waits(cell, 2, 1));
    uint64_t commits = cell->nodes[to].disk.commits;
    give_back(cell, 0, 2, writer.version);
    granted(cell, 1, 1);
    granted(cell, 2, 1);
    ck_assert_uint_eq(cell->nodes[to].disk.commits, commits + 1);
    cell_destroy(cell);
}
END_TEST

/* Readers must not starve a writer. So a reader that comes after a waiting writer waits behind that
 * writer. */
START_TEST(a_waiting_writer_is_not_starved)
{
    struct cell *cell = cell_ready(3);
    struct message_grant reader = acquire(cell, 0, 1, S);
    ask(cell, 1, 1, X);
    const struct message *recall = cell_got(cell, 0, MESSAGE_RECALL);
    ck_assert_ptr_nonnull(recall);
    ck_assert(message_order_equal(recall->as.version.version, reader.version));
    ask(cell, 2, 1, S);
    ck_assert(waits(cell, 2, 1) && waits(cell, 1, 1));
    give_back(cell, 0, 2, reader.version);
    struct message_grant writer = granted(cell, 1, 1);
    ck_assert_uint_eq(writer.mode, X);
    ck_assert(waits(cell, 2, 1));
    give_back(cell, 1, 2, writer.version);
    ck_assert_uint_eq(granted(cell, 2, 1).mode, S);
    cell_destroy(cell);
}
END_TEST

/* Each host with a share gets a recall. The writer gets the lock when all shares are given back. A
 * give-back of one version ends no other share. */
START_TEST(every_share_is_recalled)
{
    struct cell *cell = cell_ready(3);
    struct message_grant first = acquire(cell, 0, 1, S);
    struct message_grant second = acquire(cell, 1, 1, S);
    ask(cell, 2, 1, X);
    for (uint32_t i = 0; i < 2; i++) {
        const struct message *recall = cell_got(cell, i, MESSAGE_RECALL);
        ck_assert_ptr_nonnull(recall);
        ck_assert(message_order_equal(recall->as.version.version,
                                      i == 0 ? first.version : second.version));
    }
    give_back(cell, 0, 2, first.version);
    ck_assert(waits(cell, 2, 1));
    give_back(cell, 0, 2, first.version);  /* a late copy of the same give-back */
    give_back(cell, 0, 3, second.version); /* a version of another host's share */
    ck_assert(waits(cell, 2, 1));
    give_back(cell, 1, 2, second.version);
    granted(cell, 2, 1);
    cell_destroy(cell);
}
END_TEST

/* A give-back of a host's previous share does not end its present share. */
START_TEST(old_versions_of_a_share)
{
    struct cell *cell = cell_ready(3);
    struct message_grant first = acquire(cell, 0, 1, S);
    acquire(cell, 1, 1, S);
    give_back(cell, 0, 2, first.version);
    struct message_grant second = acquire(cell, 0, 3, S);
    ck_assert(message_order_before(first.version, second.version));
    give_back(cell, 0, 4, first.version);
    ck_assert_uint_eq(look(cell, "a").share_count, 2);
    ck_assert(message_order_equal(acquire(cell, 0, 5, S).version, second.version));
    cell_destroy(cell);
}
END_TEST

/* The share of an expired session ends after its lock-delay. The shares of other hosts stay. */
START_TEST(a_share_ends_with_its_session)
{
    struct cell *cell = cell_ready(3);
    uint32_t to = cell_coordinator(cell, "a");
    uint32_t lives = to;
    uint32_t dies = (to + 1) % 3;
    uint32_t writer = (to + 2) % 3;
    cell_acquire(cell, dies, to, "a", 1, 1, S, 500);
    cell_settle(cell);
    struct message_grant share = acquire(cell, lives, 1, S);
    cell_acquire(cell, writer, to, "a", 1, 1, X, 0);
    for (uint32_t second = 0; second < 6; second++) {
        for (uint32_t i = 0; i < 3; i++) {
            cell_extend(cell, lives, i, 1);
        }
        cell_run(cell, 1000 * CELL_MS);
    }
    ck_assert(waits(cell, writer, 1));
    give_back(cell, lives, 2, share.version);
    granted(cell, writer, 1);
    cell_destroy(cell);
}
END_TEST

/* Two sessions expire together, and their lock-delays run at the same time. */
START_TEST(lock_delays_of_shares_run_together)
{
    struct cell *cell = cell_ready(3);
    uint32_t to = cell_coordinator(cell, "a");
    cell_acquire(cell, (to + 1) % 3, to, "a", 1, 1, S, 3000);
    cell_acquire(cell, (to + 2) % 3, to, "a", 1, 1, S, 3000);
    cell_settle(cell);
    ask(cell, to, 1, X);
    cell_run(cell, CELL_TTL_NS / 10 * 11 + 3300 * CELL_MS + 1000 * CELL_MS);
    granted(cell, to, 1);
    cell_destroy(cell);
}
END_TEST

/* After a session has expired, writers wait for the lock-delay of its share, but readers do not. */
START_TEST(a_dead_reader_keeps_no_reader_out)
{
    struct cell *cell = cell_ready(3);
    uint32_t to = cell_coordinator(cell, "a");
    for (uint32_t i = 0; i < 3; i++) {
        cell_extend(cell, 0, i, 1);
    }
    int64_t seen_ns = cell->now_ns;
    cell_acquire(cell, 0, to, "a", 1, 1, S, 2000);
    cell_settle(cell);
    cell_acquire(cell, 1, to, "a", 1, 1, X, 0);
    cell_run(cell, 100 * CELL_MS);
    int64_t earliest_ns = seen_ns - 20 * CELL_MS + CELL_TTL_NS / 10 * 11 + 2200 * CELL_MS;
    cell_run(cell, earliest_ns - cell->now_ns);
    ck_assert_ptr_null(cell_got(cell, 1, MESSAGE_GRANT));
    cell_run(cell, 1000 * CELL_MS);
    granted(cell, 1, 1);
    cell_destroy(cell);

    cell = cell_ready(3);
    to = cell_coordinator(cell, "a");
    cell_acquire(cell, 0, to, "a", 1, 1, S, 60000);
    cell_settle(cell);
    cell_run(cell, 2 * CELL_TTL_NS);
    granted(cell, 0, 1);
    acquire(cell, 1, 1, S);
    cell_destroy(cell);
}
END_TEST

/* A host that has a grant gets this grant as the answer to a request of any mode. To get another
 * mode, the host must first give the grant back. */
START_TEST(the_same_host_asks_for_the_other_mode)
{
    struct cell *cell = cell_ready(3);
    struct message_grant share = acquire(cell, 0, 1, S);
    struct message_grant again = acquire(cell, 0, 2, X);
    ck_assert_uint_eq(again.mode, S);
    ck_assert(message_order_equal(again.version, share.version));
    give_back(cell, 0, 3, share.version);
    struct message_grant exclusive = acquire(cell, 0, 4, X);
    ck_assert_uint_eq(exclusive.mode, X);
    again = acquire(cell, 0, 5, S);
    ck_assert_uint_eq(again.mode, X);
    ck_assert(message_order_equal(again.version, exclusive.version));
    ck_assert_uint_eq(again.token_first, exclusive.token_first);
    cell_destroy(cell);
}
END_TEST

/* The tokens that an AMEND names. An upgrade names token_last. A downgrade names token_used, or
 * token_last if the host is of an earlier release. */
struct naming {
    uint64_t token_last;
    uint64_t token_used;
};

static const struct message *amend_naming(struct cell *cell, uint32_t node, uint64_t id,
                                          const struct message_grant *grant, enum message_mode mode,
                                          struct naming naming)
{
    struct message message;
    cell_header(cell, node, MESSAGE_AMEND, &message);
    message.as.amend.agent = message.from;
    message.as.amend.epoch = 1;
    message.as.amend.request_id = id;
    message.as.amend.name = grant->name;
    message.as.amend.version = grant->version;
    message.as.amend.mode = (uint8_t)mode;
    message.as.amend.token_last = naming.token_last;
    message.as.amend.token_used = naming.token_used;
    cell_send(cell, node, cell_coordinator(cell, "a"), &message);
    cell_settle(cell);
    const struct message *amended = cell_got(cell, node, MESSAGE_AMENDED);
    bool answered = amended != NULL && amended->as.grant.request_id == id;
    return answered ? amended : cell_got(cell, node, MESSAGE_REFUSED);
}

static const struct message *amend(struct cell *cell, uint32_t node, uint64_t id,
                                   const struct message_grant *grant, enum message_mode mode,
                                   uint64_t token_last)
{
    return amend_naming(cell, node, id, grant, mode, (struct naming){.token_last = token_last});
}

static const struct message *share(struct cell *cell, uint32_t node, uint64_t id,
                                   const struct message_grant *grant, uint64_t token_used)
{
    return amend_naming(cell, node, id, grant, S, (struct naming){.token_used = token_used});
}

START_TEST(only_share_becomes_exclusive)
{
    struct cell *cell = cell_ready(3);
    struct message_grant first = acquire(cell, 0, 1, S);
    struct message_grant second = acquire(cell, 1, 1, S);
    const struct message *answer = amend(cell, 0, 2, &first, X, first.token_last);
    ck_assert_uint_eq(answer->kind, MESSAGE_REFUSED);
    ck_assert_uint_eq(answer->as.refused.reason, MESSAGE_REFUSED_VERSION);
    /* The other host may have its share without a reader. So its recall asks for the share only if
     * the share is idle. */
    const struct message *recall = cell_got(cell, 1, MESSAGE_RECALL);
    ck_assert_ptr_nonnull(recall);
    ck_assert_uint_eq(recall->as.version.recall, MESSAGE_RECALL_IF_IDLE);
    ck_assert(message_order_equal(recall->as.version.version, second.version));
    ck_assert_ptr_null(cell_got(cell, 0, MESSAGE_RECALL));
    give_back(cell, 1, 2, second.version);
    for (uint32_t i = 0; i < 2; i++) { /* the second AMEND is a repeat */
        answer = amend(cell, 0, 3, &first, X, first.token_last);
        ck_assert_uint_eq(answer->kind, MESSAGE_AMENDED);
        ck_assert_uint_eq(answer->as.grant.mode, X);
        ck_assert(message_order_equal(answer->as.grant.version, first.version));
        ck_assert_uint_eq(answer->as.grant.token_first, first.token_last + 1);
    }
    ask(cell, 1, 3, S);
    ck_assert(waits(cell, 1, 3));
    cell_destroy(cell);
}
END_TEST

/* A process that waits for an upgrade makes its host send 20 requests a second. The other hosts get
 * a recall at once, and further recalls every RECALL_MS. */
START_TEST(an_upgrade_that_waits_recalls_shares_now_and_then)
{
    enum { ASK_MS = 50, TIMES = 40, RECALL_MS = 500 };
    struct cell *cell = cell_ready(3);
    struct message_grant first = acquire(cell, 0, 1, S);
    struct message_grant second = acquire(cell, 1, 1, S);
    int64_t began_ns = cell->now_ns;
    for (uint32_t i = 0; i < TIMES; i++) {
        const struct message *answer = amend(cell, 0, 2 + i, &first, X, first.token_last);
        ck_assert_uint_eq(answer->as.refused.reason, MESSAGE_REFUSED_VERSION);
        ck_assert_uint_ge(cell_got_count(cell, 1, MESSAGE_RECALL), 1);
        cell_run(cell, ASK_MS * CELL_MS);
    }
    uint32_t got = cell_got_count(cell, 1, MESSAGE_RECALL);
    ck_assert_uint_ge(got, 2); /* the recall comes again, because the share may have become idle
                                * meanwhile */
    ck_assert_int_le(got, (cell->now_ns - began_ns) / (RECALL_MS * CELL_MS) + 1);
    ck_assert_uint_eq(cell_got(cell, 1, MESSAGE_RECALL)->as.version.request_id, 0);
    give_back(cell, 1, 2, second.version);
    ck_assert_uint_eq(amend(cell, 0, 2 + TIMES, &first, X, first.token_last)->kind,
                      MESSAGE_AMENDED);
    cell_destroy(cell);
}
END_TEST

/* An AMEND for an upgrade recalls other shares only if the host that sends it still has a share. */
START_TEST(an_amend_of_a_share_that_is_gone_recalls_nothing)
{
    struct cell *cell = cell_ready(3);
    struct message_grant first = acquire(cell, 0, 1, S);
    acquire(cell, 1, 1, S);
    give_back(cell, 0, 2, first.version);
    const struct message *answer = amend(cell, 0, 3, &first, X, first.token_last);
    ck_assert_uint_eq(answer->as.refused.reason, MESSAGE_REFUSED_VERSION);
    ck_assert_uint_eq(cell_got_count(cell, 1, MESSAGE_RECALL), 0);
    cell_destroy(cell);
}
END_TEST

/* A share has the last token that was used. The other tokens of the range are granted again. */
START_TEST(a_share_has_the_last_token_that_was_used)
{
    struct cell *cell = cell_ready(3);
    struct message_grant grant = acquire(cell, 0, 1, X);
    ask(cell, 1, 1, S);
    uint64_t used = grant.token_first + 6;
    const struct message *answer = share(cell, 0, 2, &grant, used);
    ck_assert_uint_eq(answer->as.grant.mode, S);
    ck_assert(message_order_equal(answer->as.grant.version, grant.version));
    ck_assert(answer->as.grant.token_first == used && answer->as.grant.token_last == used);
    struct message_grant other = granted(cell, 1, 1);
    ck_assert(other.token_first == used && other.token_last == used);
    answer = share(cell, 0, 2, &grant, used); /* a repeat: the grant is already shared */
    ck_assert(answer->as.grant.mode == S && answer->as.grant.token_first == used);
    give_back(cell, 1, 2, other.version);
    answer = amend(cell, 0, 3, &grant, X, used);
    ck_assert_uint_eq(answer->as.grant.mode, X);
    ck_assert_uint_eq(answer->as.grant.token_first, used + 1);
    ck_assert_uint_eq(answer->as.grant.token_last, used + 4096);
    cell_destroy(cell);
}
END_TEST

/* The grant is made exclusive again, and then a late copy of the downgrade arrives. The copy
 * changes nothing, even if its range ends where the new range ends. */
START_TEST(a_late_downgrade_changes_nothing)
{
    struct cell *cell = cell_ready(3);
    struct message_grant grant = acquire(cell, 0, 1, X);
    const struct message *answer = amend(cell, 0, 2, &grant, MESSAGE_MODE_NONE, grant.token_last);
    struct message_grant more = answer->as.grant;
    uint64_t used = more.token_last - 4096; /* with this value the next range ends at the same
                                             * token */
    ck_assert_uint_eq(share(cell, 0, 3, &grant, used)->as.grant.mode, S);
    answer = amend(cell, 0, 4, &grant, X, used);
    ck_assert_uint_eq(answer->as.grant.mode, X);
    ck_assert_uint_eq(answer->as.grant.token_last, more.token_last);
    ck_assert_uint_eq(share(cell, 0, 3, &grant, used)->as.grant.mode, X);
    ck_assert_uint_eq(share(cell, 0, 5, &grant, used)->as.grant.mode, X);
    ck_assert_uint_eq(share(cell, 0, 6, &grant, more.token_last + 1)->as.grant.mode, X);
    ck_assert_uint_eq(share(cell, 0, 7, &grant, used + 1)->as.grant.mode, S);
    cell_destroy(cell);
}
END_TEST

/* The host is of an earlier release, which does not say which tokens were used. So the coordinator
 * treats the whole range as used. */
START_TEST(exclusive_becomes_a_share)
{
    struct cell *cell = cell_ready(3);
    struct message_grant grant = acquire(cell, 0, 1, X);
    ask(cell, 1, 1, S);
    ck_assert(waits(cell, 1, 1));
    const struct message *answer = amend(cell, 0, 2, &grant, S, grant.token_last);
    ck_assert_uint_eq(answer->as.grant.mode, S);
    ck_assert(message_order_equal(answer->as.grant.version, grant.version));
    /* this token is not below any token that the host used */
    ck_assert_uint_eq(answer->as.grant.token_first, grant.token_last);
    struct message_grant other = granted(cell, 1, 1);
    give_back(cell, 1, 2, other.version);
    /* The grant is made exclusive again. A late copy of the downgrade then changes nothing. */
    answer = amend(cell, 0, 3, &grant, X, grant.token_last);
    ck_assert_uint_eq(answer->as.grant.mode, X);
    answer = amend(cell, 0, 2, &grant, S, grant.token_last);
    ck_assert_uint_eq(answer->as.grant.mode, X);
    ask(cell, 1, 3, S);
    ck_assert(waits(cell, 1, 3));
    cell_destroy(cell);
}
END_TEST

static const char *reader(uint32_t index)
{
    static char name[16];
    snprintf(name, sizeof(name), "reader-%u", index);
    return name;
}

/* A lock has as many shares as it can have. The step that recalls all shares, and the step that
 * breaks all shares, stay within the limits of a step (cell_step() checks this). The hosts give
 * back one by one. */
START_TEST(as_many_shares_as_there_may_be)
{
    struct cell *cell = cell_ready(5);
    uint32_t to = cell_coordinator(cell, "a");
    struct message_order versions[MESSAGE_SHARES_MAX];
    for (uint32_t i = 0; i < MESSAGE_SHARES_MAX; i++) {
        cell_other_acquire(cell, reader(i), to, "a", 1, 1, S);
        cell_settle(cell);
        const struct message *grant = cell_other_got(cell, reader(i), MESSAGE_GRANT);
        ck_assert_ptr_nonnull(grant);
        versions[i] = grant->as.grant.version;
    }
    ck_assert_uint_eq(look(cell, "a").share_count, MESSAGE_SHARES_MAX);
    cell_other_acquire(cell, reader(64), to, "a", 1, 1, S);
    cell_settle(cell);
    ck_assert_uint_eq(cell_other_got(cell, reader(64), MESSAGE_REFUSED)->as.refused.reason,
                      MESSAGE_REFUSED_FULL);
    cell->other_count = 0;
    cell_acquire(cell, to, to, "a", 1, 1, X, 0);
    cell_settle(cell);
    ck_assert_uint_eq(cell->other_count, MESSAGE_SHARES_MAX);
    for (uint32_t i = 0; i < cell->other_count; i++) {
        ck_assert_uint_eq(cell->others[i].kind, MESSAGE_RECALL);
    }
    struct message message;
    cell_header(cell, to, MESSAGE_BREAK, &message);
    message.as.break_lock.agent = message.from;
    message_name_set(&message.as.break_lock.name, "a", 1);
    cell->other_count = 0;
    /* A round is under way meanwhile, so the coordinator decides all these requests together. */
    for (uint32_t i = 0; i < 5; i++) {
        cell->cut[to][i] = i != to;
    }
    cell_other_give_back(cell, reader(0), to, "a", 2, 1, versions[0]);
    cell_run(cell, 5 * CELL_MS);
    for (uint32_t i = 0; i < 6; i++) {
        message.as.break_lock.request_id = 7 + i;
        cell_send(cell, to, to, &message);
    }
    cell_run(cell, 5 * CELL_MS);
    memset(cell->cut, 0, sizeof(cell->cut));
    cell_run(cell, 250 * CELL_MS);
    ck_assert_uint_ge(cell->other_count, 6 * (MESSAGE_SHARES_MAX - 1));
    for (uint32_t i = 1; i < MESSAGE_SHARES_MAX; i++) {
        ck_assert_ptr_null(cell_got(cell, to, MESSAGE_GRANT));
        cell_other_give_back(cell, reader(i), to, "a", 2, 1, versions[i]);
        cell_settle(cell);
    }
    granted(cell, to, 1);
    cell_destroy(cell);
}
END_TEST

/* The sessions of all hosts with a share expire at once. Then the writer gets the lock. */
START_TEST(all_sharers_die)
{
    struct cell *cell = cell_ready(1);
    for (uint32_t i = 0; i < MESSAGE_SHARES_MAX; i++) {
        cell_other_acquire(cell, reader(i), 0, "a", 1, 1, S);
    }
    cell_settle(cell);
    ck_assert_uint_eq(look(cell, "a").share_count, MESSAGE_SHARES_MAX);
    cell_extend(cell, 0, 0, 1);
    cell_acquire(cell, 0, 0, "a", 1, 1, X, 0);
    for (uint32_t second = 0; second < 5; second++) {
        cell_extend(cell, 0, 0, 1);
        cell_run(cell, 1000 * CELL_MS);
    }
    granted(cell, 0, 1);
    cell_destroy(cell);
}
END_TEST

/* A request for one share too many is refused. Existing shares can be given back, and their entries
 * are used again. */
START_TEST(a_full_pool_is_an_answer)
{
    struct cell *cell = cell_ready(1);
    uint32_t limit = cell->config.limits.shares;
    struct message_order version = {0, 0};
    char name[8] = "n00";
    uint32_t count = 0;
    for (uint32_t i = 0; i < limit + 3; i++) {
        name[1] = (char)('0' + i / 64);
        cell_other_acquire(cell, reader(i % 64), 0, name, 1 + i, 1, S);
        cell_settle(cell);
        const struct message *grant = cell_other_got(cell, reader(i % 64), MESSAGE_GRANT);
        if (grant != NULL && grant->as.grant.request_id == 1 + i) {
            version = grant->as.grant.version;
            count++;
        } else {
            const struct message *no = cell_other_got(cell, reader(i % 64), MESSAGE_REFUSED);
            ck_assert_uint_eq(no->as.refused.request_id, 1 + i);
            ck_assert_uint_eq(no->as.refused.reason, MESSAGE_REFUSED_FULL);
        }
    }
    ck_assert_uint_eq(count, limit);
    name[1] = (char)('0' + (limit - 1) / 64);
    cell_other_give_back(cell, reader((limit - 1) % 64), 0, name, 900, 1, version);
    cell_settle(cell);
    cell_other_acquire(cell, reader(70), 0, name, 901, 1, S);
    cell_settle(cell);
    ck_assert_ptr_nonnull(cell_other_got(cell, reader(70), MESSAGE_GRANT));
    cell_destroy(cell);
}
END_TEST

/* After a take-over the next coordinator has the same grants, with the same versions. */
START_TEST(shares_survive_a_take_over)
{
    struct cell *cell = cell_ready(3);
    uint32_t to = cell_coordinator(cell, "a");
    uint32_t first = (to + 1) % 3;
    uint32_t second = (to + 2) % 3;
    struct message_grant grants[2] = {acquire(cell, first, 1, S), acquire(cell, second, 1, S)};
    cell_kill(cell, to);
    cell_run(cell, 1000 * CELL_MS);
    for (uint32_t i = 0; i < 2; i++) {
        struct message_grant again = acquire(cell, i == 0 ? first : second, 2, S);
        ck_assert(message_order_equal(again.version, grants[i].version));
    }
    ck_assert_uint_eq(look(cell, "a").share_count, 2);
    cell_start(cell, to);
    cell_run(cell, 3000 * CELL_MS);
    ck_assert_uint_eq(look(cell, "a").share_count, 2);
    give_back(cell, first, 3, grants[0].version);
    give_back(cell, second, 3, grants[1].version);
    ck_assert_uint_eq(look(cell, "a").mode, MESSAGE_MODE_NONE);
    cell_destroy(cell);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("shares");
    tcase_add_test(tests, many_hosts_read_at_once);
    tcase_add_test(tests, first_token_of_readers);
    tcase_add_test(tests, a_run_of_readers_goes_together);
    tcase_add_test(tests, a_waiting_writer_is_not_starved);
    tcase_add_test(tests, every_share_is_recalled);
    tcase_add_test(tests, old_versions_of_a_share);
    tcase_add_test(tests, lock_delays_of_shares_run_together);
    tcase_add_test(tests, a_share_ends_with_its_session);
    tcase_add_test(tests, a_dead_reader_keeps_no_reader_out);
    tcase_add_test(tests, the_same_host_asks_for_the_other_mode);
    tcase_add_test(tests, only_share_becomes_exclusive);
    tcase_add_test(tests, an_upgrade_that_waits_recalls_shares_now_and_then);
    tcase_add_test(tests, an_amend_of_a_share_that_is_gone_recalls_nothing);
    tcase_add_test(tests, a_share_has_the_last_token_that_was_used);
    tcase_add_test(tests, a_late_downgrade_changes_nothing);
    tcase_add_test(tests, exclusive_becomes_a_share);
    tcase_add_test(tests, as_many_shares_as_there_may_be);
    tcase_add_test(tests, all_sharers_die);
    tcase_add_test(tests, a_full_pool_is_an_answer);
    tcase_add_test(tests, shares_survive_a_take_over);
    tcase_set_timeout(tests, 300);
    return suite_main("shares", tests);
}
