/* The record of voters in the store, and the register of the next one: both survive a restart, and
 * the store refuses a text that no agent writes. */
#include <check.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "../suite_main.h"
#include "core/base/message_check.h"
#include "store_fixture.h"

static void teardown(void)
{
    char command[160];
    snprintf(command, sizeof(command), "rm -rf %s", folder);
    ck_assert_int_eq(system(command), 0);
}

static struct message_voters record_of(uint32_t number, uint32_t count)
{
    static const char *const names[] = {"host-a",
                                        "host-b",
                                        "host-c",
                                        "host-d",
                                        "host-e",
                                        "host-f",
                                        "a-name-of-32-bytes-which-is-most"};
    static char addresses[MESSAGE_VOTERS_MAX][MESSAGE_ADDRESS_MAX];
    struct message_agent agents[MESSAGE_VOTERS_MAX];
    struct message_voters record;
    memset(addresses, 0, sizeof(addresses));
    for (uint32_t i = 0; i < count; i++) {
        message_agent_set(&agents[i], names[i], strlen(names[i]));
        snprintf(addresses[i], MESSAGE_ADDRESS_MAX, "tls+tcp://[2001:db8::%u]:7411", i);
    }
    memset(addresses[1], 0, MESSAGE_ADDRESS_MAX); /* not known */
    message_voters_begin(&record, agents, (const char(*)[MESSAGE_ADDRESS_MAX])addresses, count);
    record.number = number;
    record.complete = number % 2 == 0;
    if (number > 1) {
        record.act = (uint8_t)(number - 1); /* add, remove, move */
        record.changed = agents[count - 1];
        if (record.act == MESSAGE_MEMBER_REMOVE) {
            message_agent_set(&record.changed, "host-x", 6);
        }
    }
    record.recoveries = number == 1 ? 0 : 3;
    record.cell_id[0] = number == 1 ? 0 : UINT64_MAX;
    record.cell_id[1] = number == 1 ? 0 : 1;
    record.next_ballot_id = number == 1 ? record.next_ballot_id : UINT16_MAX;
    for (uint32_t i = 0; i < count && number > 1; i++) {
        record.of[i].store_id[0] = UINT64_MAX - i;
        record.of[i].store_id[1] = i;
    }
    if (count == MESSAGE_VOTERS_MAX) {
        memset(record.of[0].address, 'x', MESSAGE_ADDRESS_MAX - 1);
        memcpy(record.of[0].address, "tcp://", 6);
    }
    return record;
}

static void put(struct store *store, enum action_kind kind, const struct message_voters *voters,
                const struct quorum_change *change)
{
    static struct action action;
    uint64_t commit = 0;
    action.kind = kind;
    if (change != NULL) {
        action.as.change = *change;
    } else {
        action.as.voters = *voters;
    }
    ck_assert(store_begin(store));
    ck_assert(store_put_action(store, &action));
    ck_assert(store_commit(store, &commit));
}

static void check_record(struct store *store, const struct message_voters *expected)
{
    struct message_voters found;
    bool is_found = false;
    ck_assert_msg(store_voters(store, &found, &is_found), "%s", store_error(store));
    ck_assert(is_found == (expected != NULL));
    if (expected != NULL) {
        ck_assert_mem_eq(&found, expected, sizeof(found));
    }
}

static int64_t format(void)
{
    sqlite3 *database = NULL;
    sqlite3_stmt *row = NULL;
    ck_assert_int_eq(sqlite3_open(path, &database), SQLITE_OK);
    ck_assert_int_eq(sqlite3_prepare_v2(database, "PRAGMA user_version", -1, &row, NULL),
                     SQLITE_OK);
    ck_assert_int_eq(sqlite3_step(row), SQLITE_ROW);
    int64_t version = sqlite3_column_int64(row, 0);
    sqlite3_finalize(row);
    ck_assert_int_eq(sqlite3_close(database), SQLITE_OK);
    return version;
}

static void set_text(const char *key, const char *text)
{
    char sql[512];
    sqlite3 *database = NULL;
    snprintf(sql, sizeof(sql), "REPLACE INTO meta VALUES('%s', '%s', 1)", key, text);
    ck_assert_int_eq(sqlite3_open(path, &database), SQLITE_OK);
    ck_assert_int_eq(sqlite3_exec(database, sql, NULL, NULL, NULL), SQLITE_OK);
    ck_assert_int_eq(sqlite3_close(database), SQLITE_OK);
}

/* A cell that never changes keeps the format that older releases know. */
START_TEST(a_record_is_there_after_a_restart)
{
    static const uint32_t counts[] = {3, 4, 7, 1};
    struct store *store = open_store();
    check_record(store, NULL);
    for (uint32_t i = 0; i < 4; i++) {
        const struct message_voters record = record_of(i + 1, counts[i]);
        put(store, ACTION_PERSIST_VOTERS, &record, NULL);
        check_record(store, &record);
        store_close(store);
        ck_assert_int_eq(format(), i == 0 ? STORE_FORMAT : STORE_FORMAT_CHANGED);
        store = open_store();
        check_record(store, &record);
    }
    store_close(store);
}
END_TEST

START_TEST(the_register_of_the_next_record_is_there_after_a_restart)
{
    struct quorum_change change = {.number = 2, .promised = MESSAGE_BALLOT_LIMIT - 1};
    struct quorum_change found;
    bool is_found = true;
    struct store *store = open_store();
    ck_assert(store_change_of_voters(store, &found, &is_found));
    ck_assert(!is_found);
    for (uint32_t i = 0; i < 2; i++) {
        put(store, ACTION_PERSIST_CHANGE, NULL, &change);
        store_close(store);
        ck_assert_int_eq(format(), STORE_FORMAT_CHANGED);
        store = open_store();
        ck_assert_msg(store_change_of_voters(store, &found, &is_found), "%s", store_error(store));
        ck_assert(is_found);
        ck_assert_mem_eq(&found, &change, sizeof(found));
        change.accepted = 65537;
        change.voters = record_of(2, 7);
    }
    check_record(store, NULL);
    store_close(store);
}
END_TEST

START_TEST(an_open_batch_leaves_the_old_record)
{
    const struct message_voters one = record_of(1, 3);
    const struct message_voters two = record_of(2, 4);
    struct store *store = open_store();
    put(store, ACTION_PERSIST_VOTERS, &one, NULL);
    ck_assert(store_begin(store));
    ck_assert(store_put_voters(store, &two));
    store_close(store);
    ck_assert_int_eq(format(), STORE_FORMAT);
    store = open_store();
    check_record(store, &one);
    store_close(store);
}
END_TEST

#define NO_ID "00000000000000000000000000000000"
#define BEGIN "number=2 complete=1 act=add changed=host-a recoveries=0 "

START_TEST(a_text_that_nobody_writes_is_refused)
{
    static const char *const texts[] = {
        "",
        "number=2",
        "number=2 complete=2 act=add changed=host-a recoveries=0 cell_id=" NO_ID
        " next_ballot_id=2 voters=host-a 1 " NO_ID " -",
        "number=0 complete=1 act=add changed=host-a recoveries=0 cell_id=" NO_ID
        " next_ballot_id=2 voters=host-a 1 " NO_ID " -",
        "number=2 complete=1 act=swap changed=host-a recoveries=0 cell_id=" NO_ID
        " next_ballot_id=2 voters=host-a 1 " NO_ID " -",
        BEGIN "cell_id=x" NO_ID " next_ballot_id=2 voters=host-a 1 " NO_ID " -",
        BEGIN "cell_id=" NO_ID " next_ballot_id=2 voters=",
        BEGIN "cell_id=" NO_ID " next_ballot_id=2 voters=host-a 2 " NO_ID " -",
        BEGIN "cell_id=" NO_ID " next_ballot_id=3 voters=host-b 1 " NO_ID " -, host-a 2 " NO_ID
              " -",
        BEGIN "cell_id=" NO_ID " next_ballot_id=3 voters=host-a 1 " NO_ID,
    };
    struct message_voters found;
    struct quorum_change change;
    bool is_found = false;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        store_close(open_store());
        set_text("voters", texts[i]);
        struct store *store = open_store();
        ck_assert_msg(!store_voters(store, &found, &is_found), "%s", texts[i]);
        ck_assert_ptr_nonnull(strstr(store_error(store), "damaged: meta has voters"));
        store_close(store);
    }
    set_text("change", "number=2 promised=1 accepted=1 next=");
    struct store *store = open_store();
    ck_assert(!store_change_of_voters(store, &change, &is_found));
    ck_assert_ptr_nonnull(strstr(store_error(store), "damaged: meta has change"));
    store_close(store);
}
END_TEST

/* A voter that starts over keeps the record of its old store, but none of its promises and
 * accepts. */
START_TEST(a_store_that_starts_over_keeps_the_record)
{
    const struct message_voters record = record_of(2, 4);
    const struct quorum_change change = {.number = 3, .promised = 65537};
    struct quorum_change found;
    bool is_found = true;
    char kept[STORE_KEPT_MAX];
    struct store *store = open_store();
    put(store, ACTION_PERSIST_VOTERS, &record, NULL);
    put(store, ACTION_PERSIST_CHANGE, NULL, &change);
    store_close(store);
    ck_assert_msg(store_start_over(path, &identity, kept, error), "%s", error);
    ck_assert_int_eq(format(), STORE_FORMAT_CHANGED);
    store = open_store();
    ck_assert(meta.rejoin);
    check_record(store, &record);
    ck_assert(store_change_of_voters(store, &found, &is_found));
    ck_assert(!is_found);
    store_close(store);
    /* an unreadable record does not prevent a start-over, because the other voters know it */
    set_text("voters", "number=2");
    ck_assert_msg(store_start_over(path, &identity, kept, error), "%s", error);
    store = open_store();
    check_record(store, NULL);
    store_close(store);
}
END_TEST

/* After its removal, a voter's store is like that of an observer: it has no votes. It has the
 * commit that it had when it was opened (1: from an earlier start). */
START_TEST(a_retired_store_is_an_empty_one)
{
    const struct message_voters record = record_of(3, 4);
    const struct quorum_change change = {.number = 4, .promised = 65537};
    struct quorum_change found;
    struct action action = {.kind = ACTION_PERSIST_MARK};
    bool is_found = true;
    bool voted = true;
    uint64_t commit = 0;
    struct store *store = open_store();
    struct quorum_seen opened;
    struct action kept = {.kind = ACTION_PERSIST_SEEN};
    ck_assert(store_opened(store, &identity.agent, &opened));
    ck_assert_uint_eq(opened.commit, 0);
    quorum_opened_row(&identity.agent, meta.store_id, meta.commit, &kept.as.seen);
    if (_i == 1) {
        ck_assert(store_begin(store) && store_put_action(store, &kept) &&
                  store_commit(store, &commit));
    }
    ck_assert(store_has_voted(store, &identity.agent, &voted));
    ck_assert(!voted);
    put(store, ACTION_PERSIST_VOTERS, &record, NULL);
    put(store, ACTION_PERSIST_CHANGE, NULL, &change);
    message_agent_set(&action.as.mark.agent, "host-b", 6);
    ck_assert(store_begin(store) && store_put_action(store, &action) &&
              store_put_session_epoch(store, 7) && store_commit(store, &commit));
    ck_assert(store_has_voted(store, &identity.agent, &voted));
    ck_assert(voted);
    uint64_t id = meta.store_id[0];
    meta.commit = commit;
    ck_assert_msg(store_retire(store, &identity.agent, &meta), "%s", store_error(store));
    ck_assert_uint_eq(meta.commit, commit + 1);
    store_close(store);
    store = open_store();
    ck_assert_uint_eq(meta.store_id[0], id);
    ck_assert_uint_eq(meta.commit, commit + 1);
    ck_assert_uint_eq(meta.session_epoch, 7);
    ck_assert(store_has_voted(store, &identity.agent, &voted));
    ck_assert(!voted);
    check_record(store, &record);
    ck_assert(store_opened(store, &identity.agent, &opened));
    ck_assert_uint_eq(opened.commit, _i == 1 ? kept.as.seen.commit : commit);
    ck_assert_uint_eq(opened.store_id[0], id);
    ck_assert(store_change_of_voters(store, &found, &is_found));
    ck_assert(!is_found);
    store_close(store);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("store_voters");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, a_record_is_there_after_a_restart);
    tcase_add_test(tests, the_register_of_the_next_record_is_there_after_a_restart);
    tcase_add_test(tests, an_open_batch_leaves_the_old_record);
    tcase_add_test(tests, a_text_that_nobody_writes_is_refused);
    tcase_add_test(tests, a_store_that_starts_over_keeps_the_record);
    tcase_add_loop_test(tests, a_retired_store_is_an_empty_one, 0, 2);
    return suite_main("store_voters", tests);
}
