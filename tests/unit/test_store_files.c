/* The store's files: a log of many rows after a kill, the number of writes to it, writes that fail,
 * and pages that the disk lost. */
#include <check.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../suite_main.h"
#include "store_fixture.h"

static void teardown(void)
{
    char log[128];
    snprintf(log, sizeof(log), "%s-wal", path);
    unlink(log);
    unlink(path);
    ck_assert_int_eq(rmdir(folder), 0);
}

static bool put_register(struct store *store, const char *name, uint64_t sequence)
{
    static struct action action; /* static, because it is too large for the stack */
    struct quorum_register *reg = &action.as.reg;
    action.kind = ACTION_PERSIST_REGISTER;
    message_name_set(&reg->name, name, strlen(name));
    reg->accepted = (struct message_order){.ballot = 65537, .sequence = sequence};
    reg->value.version = reg->accepted;
    reg->value.token_first = 1;
    reg->value.token_last = 1 << 20;
    message_agent_set(&reg->value.owner, "host-b", 6);
    reg->value.epoch = 1;
    reg->value.permits = 1;
    reg->value.mode = MESSAGE_MODE_EXCLUSIVE;
    return store_put_action(store, &action);
}

/* Puts `count` rows in one commit. */
static bool put_many(struct store *store, uint32_t first, uint32_t count)
{
    uint64_t commit = 0;
    bool good = store_begin(store);
    for (uint32_t i = first; good && i < first + count; i++) {
        char name[32];
        /* spreads the rows over the whole order of names */
        snprintf(name, sizeof(name), "%08x/many", i * UINT32_C(0x9e3779b1));
        good = put_register(store, name, i + 1);
    }
    return good && store_commit(store, &commit);
}

static uint64_t told;

static bool count_register(void *arg, const struct quorum_register *reg)
{
    (void)reg;
    ++*(uint32_t *)arg;
    return true;
}

static void told_of_registers(void *arg, uint64_t count)
{
    ck_assert_uint_eq(*(uint32_t *)arg, 0); /* this call comes before any row is read */
    told = count;
}

static uint32_t count_registers(struct store *store)
{
    uint32_t count = 0;
    struct store_reader reader = {
        .arg = &count, .registers = told_of_registers, .reg = count_register};
    ck_assert_msg(store_load(store, &reader), "%s", store_error(store));
    ck_assert_uint_eq(told, count);
    return count;
}

/* A batch is larger than the buffer for writes and than SQLite's memory. SQLite then writes pages
 * before the commit, and some pages twice. The child is killed after that commit. */
START_TEST(killed_behind_a_large_batch)
{
    enum { LARGE = 20000, SMALL = 10 };
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        struct store *store = store_open(path, &identity, &meta, error);
        if (store == NULL || !put_many(store, 0, SMALL) || !put_many(store, SMALL, LARGE) ||
            !put_many(store, LARGE + SMALL, SMALL) || count_registers(store) != LARGE + 2 * SMALL) {
            _exit(1);
        }
        kill(getpid(), SIGKILL);
    }
    int status = 0;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFSIGNALED(status));
    struct store *store = open_store();
    ck_assert_uint_eq(count_registers(store), LARGE + 2 * SMALL);
    ck_assert(put_many(store, LARGE + 2 * SMALL, SMALL));
    store_close(store);
    store = open_store();
    ck_assert_uint_eq(count_registers(store), LARGE + 3 * SMALL);
    store_close(store);
}
END_TEST

/* Reads how many write calls this process has made. Returns false if the kernel does not count
 * them. */
static bool writes_so_far(uint64_t *out)
{
    char line[64];
    bool found = false;
    FILE *file = fopen("/proc/self/io", "r");
    while (file != NULL && !found && fgets(line, sizeof(line), file) != NULL) {
        found = sscanf(line, "syscw: %" SCNu64, out) == 1;
    }
    if (file != NULL) {
        fclose(file);
    }
    return found;
}

START_TEST(a_commit_is_one_write)
{
    enum { COMMITS = 50, ROWS = 4 };
    uint64_t before = 0;
    uint64_t after = 0;
    struct store *store = open_store();
    ck_assert(put_many(store, 0, 1));
    if (writes_so_far(&before)) {
        bool good = true; /* a single flag, because each assertion of Check is a write */
        for (uint32_t i = 1; i <= COMMITS; i++) {
            good = good && put_many(store, ROWS * i, ROWS);
        }
        ck_assert(writes_so_far(&after) && good);
        /* Now and then the file grows by a chunk, with four more writes. Growing page by page would
         * take more than 400 writes. */
        ck_assert_uint_le(after - before, COMMITS + COMMITS / 2);
    }
    store_close(store);
}
END_TEST

/* The write to the log fails in the commit, so the commit fails before any answer is sent. */
START_TEST(a_log_that_cannot_be_written_fails_the_commit)
{
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        struct store *store = store_open(path, &identity, &meta, error);
        struct rlimit limit = {.rlim_cur = 300 * 1024, .rlim_max = 300 * 1024};
        uint32_t count = 0;
        signal(SIGXFSZ, SIG_IGN);
        if (store == NULL || setrlimit(RLIMIT_FSIZE, &limit) != 0) {
            _exit(1);
        }
        while (count < 1000 && put_many(store, count, 1)) {
            count++;
        }
        /* The log has room for some commits. Then one commit fails, and so does each later one. */
        bool good = count > 10 && count < 1000 && strstr(store_error(store), "COMMIT") != NULL &&
                    !store_begin(store);
        _exit(good ? (int)(count % 200) + 10 : 1);
    }
    int status = 0;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) >= 10);
    struct store *store = open_store();
    ck_assert_uint_eq(count_registers(store) % 200 + 10, (uint32_t)WEXITSTATUS(status));
    store_close(store);
}
END_TEST

enum { PAGE = 2048 };

static void damage(unsigned char *page, const unsigned char *other, uint32_t how)
{
    switch (how) {
    case 0: /* the page was never written */
        memset(page, 0, PAGE);
        break;
    case 1: /* rubbish */
        memset(page, 0x5a, PAGE);
        break;
    case 2: /* the write of another page went here */
        memcpy(page, other, PAGE);
        break;
    case 3: /* the last rows or branches of the page are missing */
        page[3] = 0;
        page[4] /= 2;
        break;
    default: /* only one half of the page was written */
        memcpy(page + PAGE / 2, other + PAGE / 2, PAGE / 2);
        break;
    }
}

/* Opens and loads the store. Returns whether it reports damage. If it reports no damage, all
 * `expected` rows must be there. */
static bool is_refused(uint32_t expected)
{
    uint32_t count = 0;
    struct store_reader reader = {.arg = &count, .reg = count_register};
    struct store *store = store_open(path, &identity, &meta, error);
    bool loaded = store != NULL && store_load(store, &reader);
    if (store != NULL && !loaded) {
        snprintf(error, sizeof(error), "%s", store_error(store));
    }
    store_close(store);
    ck_assert_msg(loaded || strstr(error, "damaged") != NULL || strstr(error, "fit") != NULL ||
                      strstr(error, "is no Holdfast store") != NULL ||
                      strstr(error, "has format") != NULL,
                  "\"%s\"", error);
    ck_assert_msg(!loaded || count == expected, "%u of %u registers are there", count, expected);
    return !loaded;
}

/* Each page of the database is damaged, in each way in which disks lose pages. Either the store
 * reports a clear error, or no row is missing. */
START_TEST(no_damaged_page_loses_a_row)
{
    enum { ROWS = 1500, WAYS = 5 };
    static unsigned char pages[256][PAGE];
    struct store *store = open_store();
    ck_assert(put_many(store, 0, ROWS));
    store_close(store);
    FILE *file = fopen(path, "r+");
    ck_assert_ptr_nonnull(file);
    size_t count = fread(pages, PAGE, 256, file);
    ck_assert_uint_gt(count, 40);
    ck_assert_uint_lt(count, 256);
    ck_assert(!is_refused(ROWS));
    uint32_t refused_count = 0;
    for (size_t i = 0; i < count; i++) {
        for (uint32_t how = 0; how < WAYS; how++) {
            unsigned char page[PAGE];
            memcpy(page, pages[i], PAGE);
            damage(page, pages[i > count / 2 ? i - 7 : i + 7], how);
            ck_assert_int_eq(fseek(file, (long)i * PAGE, SEEK_SET), 0);
            ck_assert(fwrite(page, PAGE, 1, file) == 1 && fflush(file) == 0);
            refused_count += is_refused(ROWS);
            ck_assert_int_eq(fseek(file, (long)i * PAGE, SEEK_SET), 0);
            ck_assert(fwrite(pages[i], PAGE, 1, file) == 1 && fflush(file) == 0);
        }
    }
    ck_assert_int_eq(fclose(file), 0);
    ck_assert_uint_gt(refused_count, count * (WAYS - 1));
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("files");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, killed_behind_a_large_batch);
    tcase_add_test(tests, a_commit_is_one_write);
    tcase_add_test(tests, a_log_that_cannot_be_written_fails_the_commit);
    tcase_add_test(tests, no_damaged_page_loses_a_row);
    tcase_set_timeout(tests, 120);
    return suite_main("store_files", tests);
}
