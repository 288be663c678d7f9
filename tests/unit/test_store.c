/* The store: after a restart it has each committed batch, and no open batch. A value out of its
 * range is refused with an error that tells what was found, where, and what was expected. */
#include <check.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../suite_main.h"
#include "store_fixture.h"

static void teardown(void)
{
    static const char *const SUFFIX[] = {"", "-wal", "-shm", "-journal"};
    char name[128];
    for (size_t i = 0; i < 4; i++) {
        snprintf(name, sizeof(name), "%s%s", path, SUFFIX[i]);
        unlink(name);
    }
    ck_assert_int_eq(rmdir(folder), 0);
}

static void refused(const char *expected)
{
    struct store *store = store_open(path, &identity, &meta, error);
    ck_assert_ptr_null(store);
    ck_assert_msg(strstr(error, expected) != NULL, "\"%s\" has no \"%s\"", error, expected);
    ck_assert_msg(strncmp(error, path, strlen(path)) == 0, "\"%s\" does not say where", error);
}

static void sql(const char *text)
{
    sqlite3 *database = NULL;
    char *message = NULL;
    ck_assert_int_eq(sqlite3_open(path, &database), SQLITE_OK);
    int result = sqlite3_exec(database, text, NULL, NULL, &message);
    ck_assert_msg(result == SQLITE_OK, "%s", message);
    ck_assert_int_eq(sqlite3_close(database), SQLITE_OK);
}

static struct action sample_register(const char *name, uint64_t sequence)
{
    struct action action;
    memset(&action, 0, sizeof(action));
    action.kind = ACTION_PERSIST_REGISTER;
    struct quorum_register *reg = &action.as.reg;
    message_name_set(&reg->name, name, strlen(name));
    reg->accepted = (struct message_order){MESSAGE_BALLOT_LIMIT - 1, sequence};
    reg->value.version = (struct message_order){3 << 16 | 1, 9};
    reg->value.token_first = MESSAGE_TOKEN_LIMIT - 10;
    reg->value.token_last = MESSAGE_TOKEN_LIMIT - 1;
    message_agent_set(&reg->value.owner, "host-b", 6);
    reg->value.epoch = UINT32_MAX;
    reg->value.lock_delay_ms = 1234;
    reg->value.permits = 1;
    reg->value.mode = MESSAGE_MODE_EXCLUSIVE;
    return action;
}

struct loaded {
    struct quorum_promise promises[MESSAGE_PARTITIONS];
    struct quorum_register registers[8];
    struct message_session marks[8];
    char regions[256];
    char slots[256];
    struct quorum_checkpoint checkpoints[4];
    struct quorum_member members[MESSAGE_VOTERS_MAX];
    struct quorum_seen seen[MESSAGE_VOTERS_MAX];
    uint32_t checkpoint_count, member_count, seen_count;
    uint32_t promise_count, register_count, mark_count;
    bool refuse;
};

static bool on_promise(void *arg, const struct quorum_promise *promise)
{
    struct loaded *loaded = arg;
    loaded->promises[loaded->promise_count++] = *promise;
    return true;
}

static bool on_register(void *arg, const struct quorum_register *reg)
{
    struct loaded *loaded = arg;
    ck_assert_uint_lt(loaded->register_count, 8);
    loaded->registers[loaded->register_count++] = *reg;
    return !loaded->refuse;
}

static bool on_mark(void *arg, const struct message_session *mark)
{
    struct loaded *loaded = arg;
    loaded->marks[loaded->mark_count++] = *mark;
    return true;
}

static bool on_region(void *arg, const char *space, const char *shm_name)
{
    struct loaded *loaded = arg;
    size_t used = strlen(loaded->regions);
    snprintf(loaded->regions + used, sizeof(loaded->regions) - used, "%s=%s;", space, shm_name);
    return true;
}

static bool on_slot(void *arg, const struct store_slot *slot)
{
    struct loaded *loaded = arg;
    size_t used = strlen(loaded->slots);
    snprintf(loaded->slots + used, sizeof(loaded->slots) - used, "%s/%u=%.*s;", slot->space,
             slot->slot, (int)slot->length, (const char *)slot->name);
    return true;
}

static bool on_checkpoint(void *arg, const struct quorum_checkpoint *checkpoint)
{
    struct loaded *loaded = arg;
    ck_assert_uint_lt(loaded->checkpoint_count, 4);
    loaded->checkpoints[loaded->checkpoint_count++] = *checkpoint;
    return true;
}

static bool on_member(void *arg, const struct quorum_member *member)
{
    struct loaded *loaded = arg;
    ck_assert_uint_lt(loaded->member_count, MESSAGE_VOTERS_MAX);
    loaded->members[loaded->member_count++] = *member;
    return true;
}

static bool on_seen(void *arg, const struct quorum_seen *seen)
{
    struct loaded *loaded = arg;
    ck_assert_uint_lt(loaded->seen_count, MESSAGE_VOTERS_MAX);
    loaded->seen[loaded->seen_count++] = *seen;
    return true;
}

static bool load(struct store *store, struct loaded *loaded)
{
    struct store_reader reader = {.arg = loaded,
                                  .promise = on_promise,
                                  .reg = on_register,
                                  .mark = on_mark,
                                  .region = on_region,
                                  .slot = on_slot,
                                  .checkpoint = on_checkpoint,
                                  .member = on_member,
                                  .seen = on_seen};
    bool refuse = loaded->refuse;
    memset(loaded, 0, sizeof(*loaded));
    loaded->refuse = refuse;
    return store_load(store, &reader);
}

static uint64_t put_all(struct store *store)
{
    struct action action = sample_register("orders/ä", 7);
    uint64_t commit = 0;
    ck_assert(store_begin(store) && store_put_action(store, &action));
    memset(&action, 0, sizeof(action));
    action.kind = ACTION_PERSIST_PROMISE;
    message_partition_add(&action.as.promise.partitions, 0);
    message_partition_add(&action.as.promise.partitions, 255);
    action.as.promise.ballot = MESSAGE_BALLOT_LIMIT - 1;
    ck_assert(store_put_action(store, &action));
    memset(&action, 0, sizeof(action));
    action.kind = ACTION_PERSIST_MARK;
    message_agent_set(&action.as.mark.agent, "host-c", 6);
    action.as.mark.epoch = UINT32_MAX;
    ck_assert(store_put_action(store, &action));
    action.kind = ACTION_PERSIST_ROUND;
    action.as.round = UINT32_MAX;
    ck_assert(store_put_action(store, &action));
    ck_assert(store_put_session_epoch(store, 17));
    ck_assert(store_put_region(store, "default", "/holdfast.x"));
    ck_assert(store_put_slot(store, &(struct store_slot){"default", 3, (const uint8_t *)"a", 1}));
    ck_assert(store_put_slot(store, &(struct store_slot){"default", 4, (const uint8_t *)"b", 1}));
    ck_assert(store_commit(store, &commit));
    return commit;
}

START_TEST(created_with_an_id_of_its_own)
{
    struct store *store = open_store();
    ck_assert(meta.membership == 1 && meta.session_epoch == 0 && meta.round == 0);
    ck_assert(meta.store_id[0] != 0 && meta.store_id[1] != 0);
    struct store_meta first = meta;
    struct stat stat_of_file;
    ck_assert_int_eq(stat(path, &stat_of_file), 0);
    ck_assert_uint_eq(stat_of_file.st_mode & 0777, 0600);
    store_close(store);
    store = open_store();
    ck_assert_int_eq(memcmp(meta.store_id, first.store_id, sizeof(first.store_id)), 0);
    store_close(store);
}
END_TEST

START_TEST(committed_is_there_again)
{
    struct store *store = open_store();
    uint64_t commit = put_all(store);
    store_close(store);
    sql("UPDATE meta SET value = 2 WHERE key = 'membership'");
    store = open_store();
    ck_assert_uint_eq(meta.commit, commit);
    ck_assert(meta.round == UINT32_MAX && meta.session_epoch == 17 && meta.membership == 2);
    struct loaded loaded = {.refuse = false};
    ck_assert_msg(load(store, &loaded), "%s", store_error(store));
    struct action expected = sample_register("orders/ä", 7);
    ck_assert_uint_eq(loaded.register_count, 1);
    ck_assert_int_eq(memcmp(&loaded.registers[0], &expected.as.reg, sizeof(expected.as.reg)), 0);
    ck_assert(loaded.promise_count == 2 && loaded.mark_count == 1);
    ck_assert(message_partition_has(&loaded.promises[1].partitions, 255));
    ck_assert_uint_eq(loaded.promises[1].ballot, MESSAGE_BALLOT_LIMIT - 1);
    ck_assert_uint_eq(loaded.marks[0].epoch, UINT32_MAX);
    ck_assert_str_eq(loaded.regions, "default=/holdfast.x;");
    ck_assert_str_eq(loaded.slots, "default/3=a;default/4=b;");
    store_close(store);
}
END_TEST

START_TEST(the_log_is_longer_than_what_is_in_it)
{
    struct stat status;
    char log[512];
    uint64_t commit;
    struct store *store = open_store();
    ck_assert(store_begin(store) && store_put_session_epoch(store, 7) &&
              store_commit(store, &commit));
    snprintf(log, sizeof(log), "%s-wal", path);
    ck_assert_int_eq(stat(log, &status), 0);
    ck_assert_int_ge(status.st_size, 256 * 1024);
    store_close(store);
}
END_TEST

START_TEST(deleted_and_replaced)
{
    struct store *store = open_store();
    uint64_t commit = put_all(store);
    struct action action = sample_register("orders/ä", 8);
    struct loaded loaded = {.refuse = false};
    ck_assert(store_begin(store) && store_put_action(store, &action));
    ck_assert(store_del_slot(store, "default", 3) && store_commit(store, &commit));
    ck_assert(load(store, &loaded));
    ck_assert_uint_eq(loaded.registers[0].accepted.sequence, 8);
    ck_assert_str_eq(loaded.slots, "default/4=b;");
    ck_assert(store_begin(store) && store_del_region(store, "default"));
    ck_assert(store_commit(store, &commit) && load(store, &loaded));
    ck_assert_str_eq(loaded.slots, "");
    ck_assert_str_eq(loaded.regions, "");
    store_close(store);
    store_close(open_store());
    ck_assert_uint_eq(meta.commit, commit); /* the commit counts although it only deleted rows */
}
END_TEST

static void put(struct store *store, struct action action)
{
    uint64_t commit = 0;
    ck_assert(store_begin(store));
    ck_assert_msg(store_put_action(store, &action), "%s", store_error(store));
    ck_assert(store_commit(store, &commit));
}

START_TEST(shares_of_a_register)
{
    static const uint32_t COUNTS[] = {1, 2, MESSAGE_SHARES_MAX, 0};
    struct loaded loaded = {.refuse = false};
    for (size_t i = 0; i < sizeof(COUNTS) / sizeof(COUNTS[0]); i++) {
        struct action action = sample_register("a", i + 1);
        struct message_value *value = &action.as.reg.value;
        memset(&value->owner, 0, sizeof(value->owner));
        value->mode = COUNTS[i] > 0 ? MESSAGE_MODE_SHARED : MESSAGE_MODE_NONE;
        value->share_count = (uint8_t)COUNTS[i];
        for (uint32_t k = 0; k < COUNTS[i]; k++) {
            char name[MESSAGE_AGENT_MAX + 1];
            snprintf(name, sizeof(name), "an-agent-whose-name-is-long-%04u", k % 10000);
            message_agent_set(&value->shares[k].agent, name, MESSAGE_AGENT_MAX);
            value->shares[k].epoch = UINT32_MAX - k;
            value->shares[k].version = (struct message_order){MESSAGE_BALLOT_LIMIT - 1 - k,
                                                              MESSAGE_SEQUENCE_LIMIT - 1 - k};
        }
        struct store *store = open_store();
        put(store, action);
        store_close(store);
        store = open_store();
        ck_assert_msg(load(store, &loaded), "%s", store_error(store));
        ck_assert_uint_eq(loaded.register_count, 1);
        ck_assert_int_eq(memcmp(&loaded.registers[0], &action.as.reg, sizeof(action.as.reg)), 0);
        store_close(store);
    }
}
END_TEST

START_TEST(bad_shares_are_refused)
{
    static const char *const BAD[] = {
        "host-a",
        "host-a 3",
        "host-a 3 65537",
        "host-a 3 65537.12x",
        "host-a -3 1.1",
        "host-a 3 1.1,",
        "host-a 3 1.1,host-b 3 1.1",
        " 3 1.1",
        "host-a 3  1.1",
        "host-a 3 1.1, ,",
        "host-a 99999999999 1.1",
        "host-a 3 281474976710656.1",
    };
    struct store *store = open_store();
    struct loaded loaded = {.refuse = false};
    put(store, sample_register("a", 1));
    store_close(store);
    for (size_t i = 0; i < sizeof(BAD) / sizeof(BAD[0]); i++) {
        char text[128];
        snprintf(text, sizeof(text), "UPDATE register SET shares = '%s'", BAD[i]);
        sql(text);
        store = open_store();
        ck_assert_msg(!load(store, &loaded), "%s", BAD[i]);
        ck_assert_ptr_nonnull(strstr(store_error(store), "shares of the form"));
        store_close(store);
    }
}
END_TEST

START_TEST(cell_rows_are_there_again)
{
    struct store *store = open_store();
    struct action action = {.kind = ACTION_PERSIST_CHECKPOINT};
    struct loaded loaded = {.refuse = false};
    action.as.checkpoint = (struct quorum_checkpoint){
        .partition = 255,
        .checkpoint = {{MESSAGE_BALLOT_LIMIT - 1, MESSAGE_SEQUENCE_LIMIT - 1},
                       MESSAGE_TOKEN_LIMIT - 1}};
    put(store, action);
    memset(&action, 0, sizeof(action));
    action.kind = ACTION_PERSIST_MEMBER;
    message_agent_set(&action.as.member.voter, "host-b", 6);
    action.as.member.member = (struct message_member){{UINT64_MAX, 1}, 1};
    put(store, action);
    action.as.member.member = (struct message_member){{UINT64_MAX, 2}, UINT32_MAX};
    put(store, action);
    memset(&action, 0, sizeof(action));
    action.kind = ACTION_PERSIST_SEEN;
    message_agent_set(&action.as.seen.voter, "host-c", 6);
    action.as.seen.store_id[1] = 7;
    action.as.seen.commit = INT64_MAX;
    put(store, action);
    uint64_t commit = 0;
    put(store, sample_register("gone", 1));
    memset(&action, 0, sizeof(action));
    action.kind = ACTION_PERSIST_DELETED;
    message_name_set(&action.as.deleted, "gone", 4);
    ck_assert(store_begin(store) && store_put_action(store, &action));
    message_name_set(&action.as.deleted, "never there", 11);
    ck_assert(store_put_action(store, &action) && store_commit(store, &commit));
    store_close(store);
    store = open_store();
    ck_assert_uint_eq(meta.commit, commit);
    ck_assert_msg(load(store, &loaded), "%s", store_error(store));
    ck_assert(loaded.checkpoint_count == 1 && loaded.checkpoints[0].partition == 255);
    ck_assert_uint_eq(loaded.checkpoints[0].checkpoint.order.sequence, MESSAGE_SEQUENCE_LIMIT - 1);
    ck_assert_uint_eq(loaded.checkpoints[0].checkpoint.floor, MESSAGE_TOKEN_LIMIT - 1);
    ck_assert(loaded.member_count == 1 && loaded.members[0].member.generation == UINT32_MAX);
    ck_assert_uint_eq(loaded.members[0].member.store_id[1], 2);
    ck_assert(loaded.seen_count == 1 && loaded.seen[0].store_id[1] == 7);
    ck_assert_uint_eq(loaded.seen[0].commit, INT64_MAX);
    ck_assert_uint_eq(loaded.register_count, 0);
    store_close(store);
}
END_TEST

START_TEST(rules_are_kept)
{
    struct store *store = open_store();
    struct message_rules rules;
    struct message_rules read;
    bool found = true;
    uint64_t commit = 0;
    ck_assert(store_rules(store, &read, &found) && !found);
    memset(&rules, 0, sizeof(rules));
    rules.voter_count = MESSAGE_VOTERS_MAX;
    for (uint32_t i = 0; i < MESSAGE_VOTERS_MAX; i++) {
        char name[MESSAGE_AGENT_MAX + 1];
        snprintf(name, sizeof(name), "a-voter-with-a-name-of-32-byt-%02u", i % 100);
        message_agent_set(&rules.voters[i], name, MESSAGE_AGENT_MAX);
    }
    rules.session_ttl_ns = INT64_C(3600000000000);
    rules.grace_ns = INT64_C(5000000001);
    rules.max_drift_percent = 10;
    ck_assert(store_begin(store) && store_put_rules(store, &rules));
    ck_assert(store_commit(store, &commit));
    store_close(store);
    store = open_store();
    ck_assert_msg(store_rules(store, &read, &found), "%s", store_error(store));
    ck_assert(found && message_rules_digest(&read) == message_rules_digest(&rules));
    store_close(store);
    sql("UPDATE meta SET value = 'session_ttl_ns=5' WHERE key = 'rules'");
    store = open_store();
    ck_assert(!store_rules(store, &read, &found));
    ck_assert_ptr_nonnull(strstr(store_error(store), "damaged: meta has rules"));
    store_close(store);
}
END_TEST

static bool start_over(char *kept)
{
    return store_start_over(path, &identity, kept, error);
}

static void remove_kept(const char *kept)
{
    char name[STORE_KEPT_MAX + 8];
    ck_assert_int_eq(unlink(kept), 0);
    snprintf(name, sizeof(name), "%s-wal", kept);
    unlink(name);
    snprintf(name, sizeof(name), "%s-shm", kept);
    unlink(name);
}

START_TEST(starts_over_and_keeps_the_old_one)
{
    char kept[2][STORE_KEPT_MAX];
    struct store *store = open_store();
    put_all(store);
    uint64_t first = meta.store_id[0];
    ck_assert(!start_over(kept[0])); /* the store is in use */
    ck_assert_ptr_nonnull(strstr(error, "in use by another agent"));
    store_close(store);
    ck_assert_msg(start_over(kept[0]), "%s", error);
    ck_assert_ptr_nonnull(strstr(kept[0], "holdfast.db.replaced-1"));
    store = open_store();
    ck_assert(meta.rejoin && meta.store_id[0] != first);
    ck_assert_uint_eq(meta.session_epoch, 17); /* the session epoch never falls */
    struct loaded loaded = {.refuse = false};
    ck_assert(load(store, &loaded) && loaded.register_count == 0 && loaded.promise_count == 0);
    put(store, (struct action){.kind = ACTION_PERSIST_REJOINED});
    store_close(store);
    store_close(open_store());
    ck_assert(!meta.rejoin);
    ck_assert_msg(start_over(kept[1]), "%s", error);
    ck_assert_ptr_nonnull(strstr(kept[1], "holdfast.db.replaced-2"));
    /* The old store is complete. */
    char own[sizeof(path)];
    memcpy(own, path, sizeof(path));
    ck_assert_uint_lt(strlen(kept[0]), sizeof(path));
    memcpy(path, kept[0], strlen(kept[0]) + 1);
    store = open_store();
    ck_assert(meta.store_id[0] == first && load(store, &loaded) && loaded.register_count == 1);
    store_close(store);
    memcpy(path, own, sizeof(path));
    remove_kept(kept[0]);
    remove_kept(kept[1]);
}
END_TEST

START_TEST(starts_over_without_a_readable_one)
{
    char kept[STORE_KEPT_MAX];
    identity.epoch = 1000;
    ck_assert_msg(start_over(kept), "%s", error);
    ck_assert_str_eq(kept, "");
    identity.epoch = 0;
    store_close(open_store());
    ck_assert(meta.rejoin && meta.session_epoch == 1000);
    FILE *file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    for (int i = 0; i < 4096; i++) {
        fputs("no database ", file);
    }
    ck_assert_int_eq(fclose(file), 0);
    identity.epoch = 2000;
    ck_assert_msg(start_over(kept), "%s", error);
    store_close(open_store());
    ck_assert(meta.rejoin && meta.session_epoch == 2000);
    remove_kept(kept);
    /* The store of another agent is not replaced. */
    message_agent_set(&identity.agent, "host-b", 6);
    ck_assert(!start_over(kept));
    ck_assert_ptr_nonnull(strstr(error, "belongs to agent \"host-a\""));
    message_agent_set(&identity.agent, "host-a", 6);
    identity.epoch = 0;
    store_close(open_store());
    ck_assert_uint_eq(meta.session_epoch, 2000);
}
END_TEST

static bool undo(char *kept)
{
    return store_undo_start_over(path, &identity, kept, error);
}

static void put_own_line(void)
{
    struct store *store = open_store();
    struct action action = {.kind = ACTION_PERSIST_MEMBER};
    action.as.member.voter = identity.agent;
    action.as.member.member = (struct message_member){.generation = 2};
    memcpy(action.as.member.member.store_id, meta.store_id, sizeof(meta.store_id));
    put(store, action);
    store_close(store);
}

START_TEST(a_start_over_is_taken_back_while_nobody_knows_of_it)
{
    char kept[2][STORE_KEPT_MAX];
    struct loaded loaded = {.refuse = false};
    struct store *store = open_store();
    put_all(store);
    uint64_t first = meta.store_id[0];
    store_close(store);
    ck_assert(!undo(kept[0]));
    ck_assert_ptr_nonnull(strstr(error, "does not start over"));
    ck_assert_msg(start_over(kept[0]), "%s", error);
    /* the store starts over again, although no agent has started with it */
    ck_assert_msg(start_over(kept[1]), "%s", error);
    store = open_store();
    ck_assert(!undo(kept[0]));
    ck_assert_ptr_nonnull(strstr(error, "in use by another agent"));
    uint64_t commit;
    ck_assert(store_begin(store) && store_put_session_epoch(store, 40) &&
              store_commit(store, &commit));
    store_close(store);
    ck_assert_msg(undo(kept[0]), "%s", error);
    ck_assert_ptr_nonnull(strstr(kept[0], "holdfast.db.replaced-1"));
    store = open_store();
    ck_assert(!meta.rejoin && meta.store_id[0] == first);
    /* the epoch is higher than in both stores, so no earlier session continues */
    ck_assert_uint_eq(meta.session_epoch, 41);
    ck_assert(load(store, &loaded) && loaded.register_count == 1);
    store_close(store);
    ck_assert_int_ne(access(kept[0], F_OK), 0);
    ck_assert(!undo(kept[0])); /* nothing is left to put back */
    remove_kept(kept[1]);
}
END_TEST

/* Undo puts back the very store that was replaced, whatever files are beside it, and whenever they
 * were changed. */
START_TEST(what_was_replaced_is_put_back_and_no_other)
{
    char kept[3][STORE_KEPT_MAX];
    store_close(open_store());
    ck_assert_msg(start_over(kept[0]), "%s", error);
    struct store *store = open_store();
    put(store, (struct action){.kind = ACTION_PERSIST_REJOINED});
    uint64_t second = meta.store_id[0];
    store_close(store);
    ck_assert_msg(start_over(kept[1]), "%s", error);
    /* now the inode of kept[0] changed last, and the undo must still put kept[1] back */
    ck_assert_int_eq(chmod(kept[0], 0600), 0);
    ck_assert_msg(undo(kept[2]), "%s", error);
    ck_assert_str_eq(kept[2], kept[1]);
    store_close(open_store());
    ck_assert_uint_eq(meta.store_id[0], second);
    /* Another file under the name of the replaced store is not put back. */
    ck_assert_msg(start_over(kept[1]), "%s", error);
    ck_assert_int_eq(rename(kept[0], kept[1]), 0);
    ck_assert(!undo(kept[2]));
    ck_assert_ptr_nonnull(strstr(error, "is not the store that was replaced"));
    /* A new store that other voters know of is not replaced by the old one. */
    put_own_line();
    ck_assert_msg(start_over(kept[0]), "%s", error);
    ck_assert(!undo(kept[2]));
    ck_assert_ptr_nonnull(strstr(error, "other voters know that it starts over"));
    remove_kept(kept[0]);
    remove_kept(kept[1]);
    /* An undo refuses a senseless value in the row that names the replaced store. */
    sql("UPDATE meta SET value = '1' WHERE key = 'kept'");
    ck_assert(!undo(kept[2]));
    ck_assert_ptr_nonnull(strstr(error, "damaged: meta has kept \"1\""));
    sql("UPDATE meta SET value = '99999999999 0' WHERE key = 'kept'");
    ck_assert(!undo(kept[2]));
    ck_assert_ptr_nonnull(strstr(error, "damaged: meta has kept"));
    /* If there was no store to replace, an undo finds no store to put back. */
    ck_assert_int_eq(unlink(path), 0);
    ck_assert_msg(start_over(kept[0]), "%s", error);
    ck_assert_str_eq(kept[0], "");
    ck_assert(!undo(kept[2]));
    ck_assert_ptr_nonnull(strstr(error, "replaced-N: found none"));
}
END_TEST

/* When an undo puts a store back, it adds to the store's seen commits the last commit that this
 * store had before. Otherwise an old copy could look as new as the commit that other voters have
 * seen (core/quorum/members_stores.c). */
START_TEST(what_the_store_had_is_kept_when_a_start_over_is_taken_back)
{
    char kept[STORE_KEPT_MAX];
    store_close(open_store());
    uint64_t commit = meta.commit;
    for (int i = 0; i < 3; i++) {
        struct loaded loaded = {.refuse = false};
        ck_assert_msg(start_over(kept) && undo(kept), "%s", error);
        struct store *store = open_store();
        ck_assert_uint_gt(meta.commit, commit);
        ck_assert(load(store, &loaded) && loaded.seen_count == 1);
        ck_assert_uint_eq(loaded.seen[0].commit, commit);
        ck_assert_uint_eq(loaded.seen[0].store_id[0], meta.store_id[0]);
        store_close(store);
    }
}
END_TEST

START_TEST(a_start_over_is_not_taken_back_when_it_may_be_known_or_nothing_was_kept)
{
    char kept[STORE_KEPT_MAX];
    char back[STORE_KEPT_MAX];
    ck_assert(!undo(back));
    ck_assert_ptr_nonnull(strstr(error, "there is none"));
    store_close(open_store());
    ck_assert_msg(start_over(kept), "%s", error);
    FILE *file = fopen(kept, "r+");
    ck_assert_ptr_nonnull(file);
    fputs("no database", file);
    ck_assert_int_eq(fclose(file), 0);
    ck_assert(!undo(back));
    ck_assert_ptr_nonnull(strstr(error, "damaged"));
    remove_kept(kept);
    ck_assert(!undo(back));
    ck_assert_ptr_nonnull(strstr(error, "replaced-N: found none"));
    uint64_t fresh = meta.store_id[0];
    store_close(open_store());
    ck_assert(meta.rejoin && meta.store_id[0] != fresh); /* the failed undo has changed nothing */
    put_own_line();
    ck_assert(!undo(back));
    ck_assert_ptr_nonnull(strstr(error, "other voters know that it starts over"));
    store_close(open_store());
    ck_assert(meta.rejoin);
}
END_TEST

/* A process is killed (kill -9) within a batch: the store has each commit, but not the open
 * batch. */
START_TEST(killed_within_a_batch)
{
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        struct store *store = store_open(path, &identity, &meta, error);
        struct action action = sample_register("kept", 1);
        uint64_t commit = 0;
        if (store == NULL || !store_begin(store) || !store_put_action(store, &action) ||
            !store_commit(store, &commit)) {
            _exit(1);
        }
        action = sample_register("not kept", 1);
        if (!store_begin(store) || !store_put_action(store, &action)) {
            _exit(1);
        }
        kill(getpid(), SIGKILL);
    }
    int status = 0;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFSIGNALED(status));
    struct store *store = open_store();
    struct loaded loaded = {.refuse = false};
    ck_assert(load(store, &loaded));
    ck_assert_uint_eq(loaded.register_count, 1);
    ck_assert_uint_eq(loaded.registers[0].name.length, 4);
    store_close(store);
}
END_TEST

START_TEST(second_agent_is_refused)
{
    struct store *store = open_store();
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        struct store *second = store_open(path, &identity, &meta, error);
        _exit(second == NULL && strstr(error, "in use by another agent") != NULL ? 0 : 1);
    }
    int status = 1;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    put_all(store); /* the first process can still write */
    store_close(store);
    store_close(open_store());
}
END_TEST

START_TEST(of_another_agent_cell_or_format)
{
    store_close(open_store());
    message_agent_set(&identity.agent, "host-b", 6);
    refused("belongs to agent \"host-a\", expected agent \"host-b\"");
    message_agent_set(&identity.agent, "host-a", 6);
    message_agent_set(&identity.cell, "test", 4);
    refused("belongs to cell \"prod\", expected cell \"test\"");
    message_agent_set(&identity.cell, "prod", 4);
    sql("PRAGMA user_version=4");
    refused("has format 4, expected at most 3: it was written by Holdfast " HF_VERSION);
    sql("PRAGMA user_version=2; PRAGMA application_id=5");
    refused("is no Holdfast store: application_id 5");
}
END_TEST

START_TEST(damaged_is_refused)
{
    struct store *store = open_store();
    put_all(store);
    store_close(store);
    sql("UPDATE meta SET value = 'x' WHERE key = 'round'");
    refused("damaged: meta has round \"x\", expected a number up to 4294967295");
    sql("UPDATE meta SET value = 'two' || char(10, 27) || 'lines' WHERE key = 'round'");
    /* the error is a single line */
    refused("damaged: meta has round \"two  lines\", expected a number");
    sql("UPDATE meta SET value = 7 WHERE key = 'round'");
    /* no epoch could follow this epoch */
    sql("UPDATE meta SET value = 1 << 24 WHERE key = 'session_epoch'");
    refused("damaged: meta has");
    sql("UPDATE meta SET value = 1 WHERE key = 'session_epoch'");
    sql("DELETE FROM meta WHERE key = 'round'");
    refused("damaged: meta has no round");
    FILE *file = fopen(path, "r+");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_eq(fseek(file, 1024, SEEK_SET), 0);
    for (int i = 0; i < 8192; i++) {
        fputc(0x5a, file);
    }
    ck_assert_int_eq(fclose(file), 0);
    refused("damaged");
    file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    for (int i = 0; i < 4096; i++) {
        fputs("no database ", file);
    }
    ck_assert_int_eq(fclose(file), 0);
    refused("damaged");
}
END_TEST

START_TEST(bad_row_is_refused_by_name)
{
    static const char *const BAD[] = {
        "mode = 'none'",
        "epoch = -1",
        "token_first = 'x'",
        "lock_delay_ms = 60001",
        "owner = 'a name of an agent that is too long'",
        "ballot = 1 << 48",
    };
    struct store *store = open_store();
    put_all(store);
    store_close(store);
    for (size_t i = 0; i < sizeof(BAD) / sizeof(BAD[0]); i++) {
        char text[256];
        sql("CREATE TABLE saved AS SELECT * FROM register");
        snprintf(text, sizeof(text), "UPDATE register SET %s", BAD[i]);
        sql(text);
        struct loaded loaded = {.refuse = false};
        store = open_store();
        ck_assert_msg(!load(store, &loaded), "%s", BAD[i]);
        ck_assert_ptr_nonnull(strstr(store_error(store), "table register, row 1 (\"orders/ä\")"));
        store_close(store);
        sql("DELETE FROM register; INSERT INTO register SELECT * FROM saved; DROP TABLE saved");
    }
    struct loaded loaded = {.refuse = true};
    store = open_store();
    ck_assert(!load(store, &loaded));
    ck_assert_ptr_nonnull(strstr(store_error(store), "does not fit"));
    store_close(store);
}
END_TEST

/* A store with an invalid name is refused, because the name would go into messages that other
 * agents refuse. */
START_TEST(name_that_is_none_is_refused)
{
    static const char *const BAD[] = {"''", "'a' || char(27)", "CAST(x'61ff' AS TEXT)"};
    struct store *store = open_store();
    put_all(store);
    store_close(store);
    for (size_t i = 0; i < sizeof(BAD) / sizeof(BAD[0]); i++) {
        char text[256];
        sql("CREATE TABLE saved AS SELECT * FROM slot");
        snprintf(text, sizeof(text), "UPDATE slot SET name = %s WHERE slot = 3", BAD[i]);
        sql(text);
        struct loaded loaded = {.refuse = false};
        store = open_store();
        ck_assert_msg(!load(store, &loaded), "%s", BAD[i]);
        ck_assert_ptr_nonnull(strstr(store_error(store), "table slot, row 1"));
        store_close(store);
        sql("DELETE FROM slot; INSERT INTO slot SELECT * FROM saved; DROP TABLE saved");
    }
}
END_TEST

/* A reader skips the tables for which it has no callback: a start reads some tables more than once,
 * and there may be a million registers. */
START_TEST(what_nobody_asks_for_is_not_read)
{
    struct store *store = open_store();
    put_all(store);
    store_close(store);
    sql("UPDATE register SET mode = 'none'");
    store = open_store();
    struct loaded loaded = {.refuse = false};
    struct store_reader slots = {.arg = &loaded, .slot = on_slot};
    ck_assert_msg(store_load(store, &slots), "%s", store_error(store));
    ck_assert_str_eq(loaded.slots, "default/3=a;default/4=b;");
    ck_assert(!load(store, &loaded));
    store_close(store);
}
END_TEST

START_TEST(folder_that_is_not_there)
{
    char kept[sizeof(path)];
    memcpy(kept, path, sizeof(path));
    snprintf(path, sizeof(path), "%s/none/holdfast.db", folder);
    refused("cannot be opened: No such file or directory");
    memcpy(path, kept, sizeof(path));
}
END_TEST

/* The write-ahead log is moved into the database on request, and also before it becomes too
 * large. */
START_TEST(log_is_checkpointed)
{
    struct store *store = open_store();
    uint64_t commit = 0;
    char log[128];
    struct stat before;
    struct stat after;
    snprintf(log, sizeof(log), "%s-wal", path);
    for (uint32_t round = 0; round < 3; round++) {
        for (uint64_t i = 1; i <= 300; i++) {
            struct action action = sample_register("a", round * 1000 + i);
            ck_assert(store_begin(store) && store_put_action(store, &action));
            ck_assert(store_commit(store, &commit));
        }
        ck_assert(store_idle(store));
        ck_assert_int_eq(stat(log, round == 0 ? &before : &after), 0);
    }
    ck_assert_int_le(after.st_size, before.st_size + 4096);
    store_close(store);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("store");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, created_with_an_id_of_its_own);
    tcase_add_test(tests, committed_is_there_again);
    tcase_add_test(tests, the_log_is_longer_than_what_is_in_it);
    tcase_add_test(tests, deleted_and_replaced);
    tcase_add_test(tests, shares_of_a_register);
    tcase_add_test(tests, bad_shares_are_refused);
    tcase_add_test(tests, cell_rows_are_there_again);
    tcase_add_test(tests, rules_are_kept);
    tcase_add_test(tests, starts_over_and_keeps_the_old_one);
    tcase_add_test(tests, starts_over_without_a_readable_one);
    tcase_add_test(tests, a_start_over_is_taken_back_while_nobody_knows_of_it);
    tcase_add_test(tests, what_was_replaced_is_put_back_and_no_other);
    tcase_add_test(tests, a_start_over_is_not_taken_back_when_it_may_be_known_or_nothing_was_kept);
    tcase_add_test(tests, what_the_store_had_is_kept_when_a_start_over_is_taken_back);
    tcase_add_test(tests, killed_within_a_batch);
    tcase_add_test(tests, second_agent_is_refused);
    tcase_add_test(tests, of_another_agent_cell_or_format);
    tcase_add_test(tests, damaged_is_refused);
    tcase_add_test(tests, bad_row_is_refused_by_name);
    tcase_add_test(tests, name_that_is_none_is_refused);
    tcase_add_test(tests, what_nobody_asks_for_is_not_read);
    tcase_add_test(tests, folder_that_is_not_there);
    tcase_add_test(tests, log_is_checkpointed);
    tcase_set_timeout(tests, 60);
    return suite_main("store", tests);
}
