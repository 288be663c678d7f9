/* Backups of the store, and the store that a recovery of the cell makes from a store or a
 * backup. */
#include <check.h>
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../suite_main.h"
#include "store_fixture.h"

static char copy[112];
static struct store_copied copied;

static void setup_both(void)
{
    setup();
    snprintf(copy, sizeof(copy), "%s/copy", folder);
}

static void teardown(void)
{
    DIR *files = opendir(folder);
    struct dirent *entry;
    while ((entry = readdir(files)) != NULL) {
        unlinkat(dirfd(files), entry->d_name, 0);
    }
    closedir(files);
    ck_assert_int_eq(rmdir(folder), 0);
}

static void commit(struct store *store)
{
    uint64_t number;
    ck_assert_msg(store_commit(store, &number), "%s", store_error(store));
}

static void put(struct store *store, const struct action *action)
{
    ck_assert_msg(store_put_action(store, action), "%s", store_error(store));
}

static void put_register(struct store *store, const char *name, const char *owner, uint32_t epoch,
                         uint64_t token)
{
    struct action action;
    memset(&action, 0, sizeof(action));
    action.kind = ACTION_PERSIST_REGISTER;
    struct quorum_register *reg = &action.as.reg;
    message_name_set(&reg->name, name, strlen(name));
    reg->accepted = (struct message_order){5 << 16 | 1, 1};
    reg->value.version = reg->accepted;
    reg->value.token_first = token;
    reg->value.permits = 1;
    if (owner != NULL) {
        message_agent_set(&reg->value.owner, owner, strlen(owner));
        reg->value.epoch = epoch;
        reg->value.mode = MESSAGE_MODE_EXCLUSIVE;
        reg->value.token_last = token + 10;
    }
    put(store, &action);
}

static void put_mark(struct store *store, const char *agent, uint32_t epoch)
{
    struct action action = {.kind = ACTION_PERSIST_MARK, .as.mark.epoch = epoch};
    message_agent_set(&action.as.mark.agent, agent, strlen(agent));
    put(store, &action);
}

/* Fills a store with many locks, of which some are held, and with the other rows of a voter. */
static struct store *used_store(uint32_t registers)
{
    struct store *store = open_store();
    char name[32];
    struct action action = {.kind = ACTION_PERSIST_ROUND, .as.round = 9};
    ck_assert(store_begin(store));
    for (uint32_t i = 0; i < registers; i++) {
        snprintf(name, sizeof(name), "lock-%06u", i);
        put_register(store, name, i % 2 == 0 ? "host-b" : NULL, 4, 1000 + i);
    }
    put_mark(store, "host-b", 3);
    put_mark(store, "host-c", 8);
    put(store, &action);
    action = (struct action){.kind = ACTION_PERSIST_SEEN, .as.seen.commit = 77};
    message_agent_set(&action.as.seen.voter, "host-b", 6);
    put(store, &action);
    ck_assert(store_put_session_epoch(store, 5));
    commit(store);
    return store;
}

static void check_copy(void)
{
    ck_assert_msg(store_backup_check(copy, &identity, &copied, error), "%s", error);
}

/* Makes a backup. Commits a change after each step if `load` is set. Returns how many steps it
 * took. */
static uint32_t back_up(struct store *store, bool load)
{
    uint32_t steps = 0;
    enum store_backup_result result = STORE_BACKUP_MORE;
    struct store_backup *backup = store_backup_open(store, copy, error);
    ck_assert_msg(backup != NULL, "%s", error);
    for (; result == STORE_BACKUP_MORE; steps++) {
        result = store_backup_step(backup, error);
        if (load && result == STORE_BACKUP_MORE) {
            char name[32];
            ck_assert(store_begin(store));
            snprintf(name, sizeof(name), "lock-%06u", steps);
            put_register(store, name, "host-d", 6, 5000);
            put_register(store, "zzz", "host-d", 6, 5000 + steps);
            commit(store);
        }
    }
    ck_assert_msg(result == STORE_BACKUP_DONE, "%s", error);
    store_backup_close(backup);
    return steps;
}

START_TEST(backup_has_what_was_committed_while_it_was_made)
{
    struct stat status;
    struct store *store = used_store(20000);
    uint32_t steps = back_up(store, true);
    ck_assert_uint_gt(steps, 4);
    check_copy();
    ck_assert_uint_eq(copied.registers, 20001);
    ck_assert_uint_eq(copied.commit, 2 + steps - 1); /* no commit followed the last step */
    ck_assert_int_eq(stat(copy, &status), 0);
    ck_assert_int_eq(status.st_mode & 07777, 0600);
    ck_assert_uint_eq(copied.bytes, (uint64_t)status.st_size);
    ck_assert(store_begin(store));
    put_mark(store, "host-e", 2);
    commit(store); /* the store still works */
    store_close(store);
    strcat(copy, "-wal");
    ck_assert_int_ne(access(copy, F_OK), 0);
}
END_TEST

START_TEST(no_agent_starts_with_a_backup)
{
    struct store *store = used_store(10);
    back_up(store, false);
    store_close(store);
    check_copy();
    ck_assert_ptr_null(store_open(copy, &identity, &meta, error));
    ck_assert_msg(strstr(error, "is a backup (of host-a in the cell prod): no agent starts with "
                                "it") != NULL,
                  "%s", error);
    ck_assert_ptr_nonnull(strstr(error, "--recover"));
    identity.takes_backup = true;
    store = store_open(copy, &identity, &meta, error);
    ck_assert_msg(store != NULL, "%s", error);
    ck_assert(meta.backup);
    store_close(store);
}
END_TEST

START_TEST(backup_replaces_no_file)
{
    struct store *store = used_store(1);
    FILE *file = fopen(copy, "w");
    ck_assert_ptr_nonnull(file);
    fclose(file);
    ck_assert_ptr_null(store_backup_open(store, copy, error));
    ck_assert_ptr_nonnull(strstr(error, "File exists"));
    store_close(store);
}
END_TEST

START_TEST(damaged_copy_is_found)
{
    struct store *store = used_store(20000);
    uint8_t rubbish[4096];
    struct stat status;
    back_up(store, false);
    store_close(store);
    int file = open(copy, O_RDWR);
    ck_assert_int_ge(file, 0);
    ck_assert_int_eq(fstat(file, &status), 0);
    memset(rubbish, 0x5a, sizeof(rubbish));
    ck_assert_int_eq(pwrite(file, rubbish, sizeof(rubbish), status.st_size / 4096 / 2 * 4096),
                     sizeof(rubbish));
    close(file);
    ck_assert(!store_backup_check(copy, &identity, &copied, error));
    ck_assert_msg(strstr(error, "damaged") != NULL, "%s", error);
}
END_TEST

START_TEST(copy_of_another_agent_is_refused)
{
    struct store *store = used_store(1);
    back_up(store, false);
    store_close(store);
    message_agent_set(&identity.agent, "host-b", 6);
    ck_assert(!store_backup_check(copy, &identity, &copied, error));
    ck_assert_ptr_nonnull(strstr(error, "belongs to agent"));
}
END_TEST

/* ---- Recovery ---- */

struct found {
    uint32_t promises, registers, checkpoints, members, marks;
    struct message_session mark[8];
    struct message_checkpoint checkpoint;
};

static bool on_promise(void *arg, const struct quorum_promise *row)
{
    (void)row;
    ((struct found *)arg)->promises++;
    return true;
}

static bool on_register(void *arg, const struct quorum_register *row)
{
    (void)row;
    ((struct found *)arg)->registers++;
    return true;
}

static bool on_member(void *arg, const struct quorum_member *row)
{
    (void)row;
    ((struct found *)arg)->members++;
    return true;
}

static bool on_mark(void *arg, const struct message_session *row)
{
    struct found *found = arg;
    ck_assert_uint_lt(found->marks, 8);
    found->mark[found->marks++] = *row;
    return true;
}

static bool on_checkpoint(void *arg, const struct quorum_checkpoint *row)
{
    struct found *found = arg;
    ck_assert(found->checkpoints == 0 ||
              memcmp(&found->checkpoint, &row->checkpoint, sizeof(row->checkpoint)) == 0);
    found->checkpoint = row->checkpoint;
    found->checkpoints++;
    return true;
}

static uint32_t marked(const struct found *found, const char *agent)
{
    for (uint32_t i = 0; i < found->marks; i++) {
        if (strncmp(found->mark[i].agent.text, agent, sizeof(found->mark[i].agent.text)) == 0) {
            return found->mark[i].epoch;
        }
    }
    return 0;
}

/* Recovers the cell with the store at `path`, and checks the new cell's first state. */
static void recover(void)
{
    struct store_recovery recovery = {.generation = 3, .round = 1000, .wait_ms = 68000};
    struct message_voters *voters = &recovery.voters;
    struct message_voters read;
    struct found found = {.promises = 0};
    struct store_reader reader = {.arg = &found,
                                  .promise = on_promise,
                                  .reg = on_register,
                                  .mark = on_mark,
                                  .checkpoint = on_checkpoint,
                                  .member = on_member};
    char kept[STORE_KEPT_MAX];
    char expected[STORE_KEPT_MAX];
    bool known = false;
    struct store_meta old;
    message_voters_begin(voters, &identity.agent, NULL, 1);
    voters->recoveries = 3;
    voters->number = message_voters_first(3);
    voters->act = MESSAGE_MEMBER_ADD;
    voters->changed = identity.agent;
    identity.takes_backup = true;
    struct store *store = store_open(path, &identity, &old, error);
    ck_assert_msg(store != NULL, "%s", error);
    identity.epoch = old.session_epoch;
    ck_assert_msg(store_recover(store, &identity, &recovery, kept, error), "%s", error);
    snprintf(expected, sizeof(expected), "%s.replaced-1", path);
    ck_assert_str_eq(kept, expected);
    ck_assert_int_eq(access(kept, F_OK), 0);

    identity.takes_backup = false;
    store = open_store();
    ck_assert_msg(store_load(store, &reader), "%s", store_error(store));
    ck_assert(memcmp(meta.store_id, old.store_id, sizeof(old.store_id)) != 0);
    ck_assert_uint_eq(meta.recovery_wait_ms, 68000);
    ck_assert_uint_eq(meta.round, 1000);
    ck_assert_uint_eq(meta.session_epoch, 5);
    ck_assert_uint_eq(found.promises + found.registers + found.members, 0);
    ck_assert_uint_eq(found.checkpoints, MESSAGE_PARTITIONS);
    ck_assert_uint_eq(found.checkpoint.order.ballot, 1000 << 16 | 1);
    ck_assert_uint_eq(found.checkpoint.floor, 3 * MESSAGE_TOKEN_GENERATION);
    ck_assert_uint_eq(marked(&found, "host-a"), 5); /* the epoch of host-a's own session */
    ck_assert_uint_eq(marked(&found, "host-b"), 4); /* the epoch of host-b's grants */
    ck_assert_uint_eq(marked(&found, "host-c"), 8);
    ck_assert(store_voters(store, &read, &known) && known);
    ck_assert(memcmp(read.of[0].store_id, meta.store_id, sizeof(meta.store_id)) == 0);
    ck_assert_uint_eq(read.number, message_voters_first(3));
    ck_assert_uint_eq(read.recoveries, 3);

    struct action over = {.kind = ACTION_PERSIST_RECOVERED};
    ck_assert(store_begin(store));
    put(store, &over);
    commit(store);
    store_close(store);
    store_close(open_store());
    ck_assert_uint_eq(meta.recovery_wait_ms, 0);
}

START_TEST(recovery_ends_all_sessions_and_frees_all_locks)
{
    store_close(used_store(10));
    recover();
}
END_TEST

START_TEST(recovery_takes_a_backup)
{
    struct store *store = used_store(10);
    back_up(store, false);
    check_copy();
    store_close(store);
    ck_assert_int_eq(rename(copy, path), 0);
    recover();
}
END_TEST

START_TEST(survey_says_what_a_recovery_needs)
{
    struct store_survey survey;
    struct store *store = used_store(10);
    ck_assert(store_begin(store));
    /* This name has used up the tokens of its generation, so it has the first token of the next
     * one. */
    put_register(store, "used-up", NULL, 0, 5 * MESSAGE_TOKEN_GENERATION);
    commit(store);
    ck_assert(store_survey(store, &meta, &survey));
    ck_assert(survey.voted);
    ck_assert_uint_eq(survey.registers, 11);
    ck_assert_uint_eq(survey.held, 5);
    ck_assert_uint_eq(survey.generation, 4);
    ck_assert_uint_eq(survey.round, 5); /* the round of a ballot, which is above the store's own
                                         * round 0 in `meta` */
    ck_assert_uint_eq(survey.seen_count, 1);
    ck_assert_uint_eq(survey.seen[0].commit, 77);
    ck_assert(store_begin(store));
    put_register(store, "last", "host-b", 4, 7 * MESSAGE_TOKEN_GENERATION + 1);
    commit(store);
    ck_assert(store_survey(store, &meta, &survey));
    ck_assert_uint_eq(survey.generation, 7);
    store_close(store);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("store_recover");
    tcase_add_checked_fixture(tests, setup_both, teardown);
    tcase_add_test(tests, backup_has_what_was_committed_while_it_was_made);
    tcase_add_test(tests, no_agent_starts_with_a_backup);
    tcase_add_test(tests, backup_replaces_no_file);
    tcase_add_test(tests, damaged_copy_is_found);
    tcase_add_test(tests, copy_of_another_agent_is_refused);
    tcase_add_test(tests, recovery_ends_all_sessions_and_frees_all_locks);
    tcase_add_test(tests, recovery_takes_a_backup);
    tcase_add_test(tests, survey_says_what_a_recovery_needs);
    return suite_main("store_recover", tests);
}
