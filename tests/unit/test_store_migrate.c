/*
 * A store of an older format: the agent first makes a copy, and then migrates the store. Whatever
 * happens meanwhile (no room, kill -9 before any call that changes a file), the store is unchanged
 * or completely migrated.
 *
 * This file has the first format as SQL, independent of the program's code for it.
 */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../emulation.h"
#include "../suite_main.h"
#include "store_fixture.h"

enum { REGISTERS = 150, KILLS_MAX = 2000 };

static char kept[128]; /* the path of the copy */
static char made[128]; /* the path of the copy while it is being written */

static void make_first_format(void)
{
    static const char text[] =
        "PRAGMA journal_mode=WAL; PRAGMA application_id=1212574820; PRAGMA user_version=1;"
        "CREATE TABLE meta(key TEXT PRIMARY KEY, value, in_commit INTEGER) WITHOUT ROWID;"
        "CREATE TABLE promise(partition INTEGER PRIMARY KEY, ballot INTEGER NOT NULL,"
        " in_commit INTEGER);"
        "CREATE TABLE register(name TEXT PRIMARY KEY, mode TEXT NOT NULL, owner TEXT,"
        " epoch INTEGER NOT NULL, token_first INTEGER NOT NULL, token_last INTEGER NOT NULL,"
        " lock_delay_ms INTEGER NOT NULL, permits INTEGER NOT NULL, successor TEXT,"
        " closing INTEGER NOT NULL, version_ballot INTEGER NOT NULL,"
        " version_sequence INTEGER NOT NULL, ballot INTEGER NOT NULL, sequence INTEGER NOT NULL,"
        " in_commit INTEGER) WITHOUT ROWID;"
        "CREATE TABLE mark(agent TEXT PRIMARY KEY, epoch INTEGER NOT NULL, in_commit INTEGER)"
        " WITHOUT ROWID;"
        "CREATE TABLE region(namespace TEXT PRIMARY KEY, shm_name TEXT NOT NULL,"
        " in_commit INTEGER) WITHOUT ROWID;"
        "CREATE TABLE slot(namespace TEXT, slot INTEGER, name TEXT NOT NULL, in_commit INTEGER,"
        " PRIMARY KEY(namespace, slot)) WITHOUT ROWID;"
        "INSERT INTO meta VALUES('store_id', '00112233445566778899aabbccddeeff', 1),"
        " ('cell', 'prod', 1), ('agent', 'host-a', 1), ('membership', 1, 1),"
        " ('session_epoch', 17, 1), ('round', 3, 1), ('commit', 1, 1);"
        "INSERT INTO region VALUES('default', '/holdfast.prod.host-a.0.default', 2);"
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 150)"
        "INSERT INTO register SELECT 'jobs/' || i, 'exclusive', 'host-a', 17, 1, 1048576, 1000, 1,"
        " NULL, 0, 65537, i, 65537, i, 3 FROM n;";
    sqlite3 *database = NULL;
    char *message = NULL;
    ck_assert_int_eq(sqlite3_open(path, &database), SQLITE_OK);
    ck_assert_msg(sqlite3_exec(database, text, NULL, NULL, &message) == SQLITE_OK, "%s", message);
    ck_assert_int_eq(sqlite3_close(database), SQLITE_OK);
    ck_assert_int_eq(chmod(path, 0600), 0);
}

static void remove_store(const char *name)
{
    static const char *const SUFFIX[] = {"", "-wal", "-shm", "-journal"};
    char file[160];
    for (size_t i = 0; i < 4; i++) {
        snprintf(file, sizeof(file), "%s%s", name, SUFFIX[i]);
        unlink(file);
    }
}

static void teardown(void)
{
    remove_store(path);
    remove_store(kept);
    remove_store(made);
    ck_assert_int_eq(rmdir(folder), 0);
}

static void begin(void)
{
    setup();
    snprintf(kept, sizeof(kept), "%s.v1.bak", path);
    snprintf(made, sizeof(made), "%s.v1.new", path);
    make_first_format();
}

/* Reads a number from a database file, without the store's code. */
static sqlite3_int64 number_in(const char *file, const char *query)
{
    sqlite3 *database = NULL;
    sqlite3_stmt *statement = NULL;
    ck_assert_int_eq(sqlite3_open(file, &database), SQLITE_OK);
    ck_assert_msg(sqlite3_prepare_v2(database, query, -1, &statement, NULL) == SQLITE_OK, "%s: %s",
                  file, sqlite3_errmsg(database));
    ck_assert_int_eq(sqlite3_step(statement), SQLITE_ROW);
    sqlite3_int64 number = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    ck_assert_int_eq(sqlite3_close(database), SQLITE_OK);
    return number;
}

static bool is_there(const char *file)
{
    return access(file, F_OK) == 0;
}

/* Checks that the file has everything of the first format, and nothing of a later format. */
static void check_first_format(const char *file)
{
    ck_assert_int_eq(number_in(file, "PRAGMA user_version"), 1);
    ck_assert_int_eq(number_in(file, "SELECT count(*) FROM register"), REGISTERS);
    ck_assert_int_eq(number_in(file, "SELECT count(*) FROM meta"), 7);
    ck_assert_int_eq(number_in(file, "SELECT count(*) FROM sqlite_master"), 6);
    ck_assert_int_eq(number_in(file, "SELECT count(*) FROM pragma_integrity_check() "
                                     "WHERE integrity_check <> 'ok'"),
                     0);
}

static bool count_register(void *arg, const struct quorum_register *reg)
{
    uint32_t *count = arg;
    ++*count;
    return reg->value.epoch == 17 && reg->value.share_count == 0;
}

/* Opens the store as an agent does, and checks that it has all rows in the present format. */
static void check_opens(uint32_t from)
{
    uint32_t count = 0;
    struct store *store = open_store();
    struct store_reader reader = {.arg = &count, .reg = count_register};
    ck_assert_uint_eq(meta.migrated_from, from);
    ck_assert(!meta.rejoin);
    ck_assert_uint_eq(meta.session_epoch, 17);
    ck_assert_uint_eq(meta.commit, 3);
    ck_assert_uint_eq(meta.store_id[0], UINT64_C(0x0011223344556677));
    ck_assert_msg(store_load(store, &reader), "%s", store_error(store));
    ck_assert_uint_eq(count, REGISTERS);
    store_close(store);
    ck_assert_int_eq(number_in(path, "PRAGMA user_version"), STORE_FORMAT);
    check_first_format(kept);
}

START_TEST(a_copy_is_made_first)
{
    struct stat status;
    check_opens(1);
    ck_assert_int_eq(stat(kept, &status), 0);
    ck_assert_uint_eq(status.st_mode & 07777, 0600);
    ck_assert(!is_there(made));
    ck_assert_int_eq(unlink(kept), 0);
    store_close(open_store()); /* a second start finds nothing to migrate */
    ck_assert_uint_eq(meta.migrated_from, 0);
    ck_assert(!is_there(kept));
}
END_TEST

/* A copy from an earlier attempt is replaced, because an older agent may have changed the store
 * after that attempt. */
START_TEST(the_copy_is_of_what_is_migrated)
{
    FILE *file = fopen(kept, "w");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_gt(fputs("an old one", file), 0);
    ck_assert_int_eq(fclose(file), 0);
    /* the agent does not follow a link at the copy's path */
    ck_assert_int_eq(symlink(kept, made), 0);
    check_opens(1);
}
END_TEST

static bool refuse(void *arg, const char *space, const char *shm_name)
{
    ++*(uint32_t *)arg;
    ck_assert_str_eq(space, "default");
    ck_assert_str_eq(shm_name, "/holdfast.prod.host-a.0.default");
    return false;
}

START_TEST(what_may_not_be_migrated_is_left)
{
    uint32_t asked = 0;
    message_agent_set(&identity.agent, "host-b", 6);
    ck_assert_ptr_null(store_open(path, &identity, &meta, error));
    ck_assert(meta.foreign && !meta.held);
    message_agent_set(&identity.agent, "host-a", 6);
    identity.arg = &asked;
    identity.may_migrate = refuse;
    ck_assert_ptr_null(store_open(path, &identity, &meta, error));
    ck_assert(meta.held && asked == 1);
    check_first_format(path);
    ck_assert(!is_there(kept) && !is_there(made));
    identity.may_migrate = NULL;
    check_opens(1);
}
END_TEST

START_TEST(a_newer_one_says_who_wrote_it)
{
    sqlite3 *database = NULL;
    check_opens(1);
    ck_assert_int_eq(sqlite3_open(path, &database), SQLITE_OK);
    ck_assert_int_eq(sqlite3_exec(database,
                                  "PRAGMA user_version=7;"
                                  "UPDATE meta SET value='4.5.6' WHERE key='written_by'",
                                  NULL, NULL, NULL),
                     SQLITE_OK);
    ck_assert_int_eq(sqlite3_close(database), SQLITE_OK);
    ck_assert_ptr_null(store_open(path, &identity, &meta, error));
    ck_assert_ptr_nonnull(strstr(error, "has format 7, expected at most 3: it was written by "
                                        "Holdfast 4.5.6, this is " HF_VERSION));
    ck_assert_int_eq(number_in(path, "PRAGMA user_version"), 7);
}
END_TEST

/* ---- faults during the migration ---- */

/* Opens the store in a child process, whose files are limited to file_max bytes. */
static void child_opens(rlim_t file_max)
{
    struct rlimit limit = {.rlim_cur = file_max, .rlim_max = file_max};
    signal(SIGXFSZ, SIG_IGN);
    if (file_max != RLIM_INFINITY && setrlimit(RLIMIT_FSIZE, &limit) != 0) {
        _exit(2);
    }
    if (file_max == RLIM_INFINITY && ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0) {
        _exit(2);
    }
    if (file_max == RLIM_INFINITY) {
        raise(SIGSTOP);
    }
    struct store *store = store_open(path, &identity, &meta, error);
    _exit(store != NULL ? 0 : 1);
}

static void begin_again(void)
{
    remove_store(path);
    remove_store(kept);
    remove_store(made);
    make_first_format();
}

START_TEST(no_room_leaves_it_as_it_was)
{
    uint32_t failed = 0;
    bool done = false;
    for (rlim_t room = 0; !done && room < (1 << 20); room += 2048) {
        int status = 0;
        begin_again();
        pid_t child = fork();
        ck_assert_int_ge(child, 0);
        if (child == 0) {
            child_opens(room);
        }
        ck_assert_int_eq(waitpid(child, &status, 0), child);
        ck_assert(WIFEXITED(status) && WEXITSTATUS(status) <= 1);
        done = WEXITSTATUS(status) == 0;
        if (!done) {
            failed++;
            check_first_format(path);
            ck_assert(!is_there(made));
        }
        check_opens(done ? 0 : 1);
    }
    ck_assert(done);
    ck_assert_uint_gt(failed, 10);
}
END_TEST

/* Returns whether this system call changes a file or a folder, or makes a change durable. */
static bool changes_files(uint64_t call)
{
    switch (call) {
    case SYS_write:
    case SYS_pwrite64:
    case SYS_pwritev:
    case SYS_fsync:
    case SYS_fdatasync:
    case SYS_ftruncate:
    case SYS_fallocate:
    case SYS_openat:
    case SYS_renameat2:
    case SYS_unlinkat:
#ifdef SYS_rename
    case SYS_rename:
    case SYS_unlink:
#endif
        return true;
    default:
        return false;
    }
}

/* Kills the child before its `number`-th call that changes a file. Returns false if the child ended
 * before that. */
static bool killed_before(pid_t child, uint32_t number)
{
    int status = 0;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFSTOPPED(status));
    ck_assert_int_eq(
        ptrace(PTRACE_SETOPTIONS, child, NULL, (void *)(PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL)),
        0);
    for (;;) { /* the loop ends when the child ends */
        struct __ptrace_syscall_info info = {.op = 0};
        ck_assert_int_eq(ptrace(PTRACE_SYSCALL, child, NULL, NULL), 0);
        ck_assert_int_eq(waitpid(child, &status, 0), child);
        if (WIFEXITED(status)) {
            ck_assert_int_eq(WEXITSTATUS(status), 0);
            return false;
        }
        ck_assert(WIFSTOPPED(status));
        ck_assert_int_gt(ptrace(PTRACE_GET_SYSCALL_INFO, child, (void *)sizeof(info), &info), 0);
        if (info.op == PTRACE_SYSCALL_INFO_ENTRY && changes_files(info.entry.nr) && number-- == 0) {
            ck_assert_int_eq(kill(child, SIGKILL), 0);
            ck_assert_int_eq(waitpid(child, &status, 0), child);
            ck_assert(WIFSIGNALED(status));
            return true;
        }
    }
}

START_TEST(killed_before_any_change)
{
    uint32_t kills = 0;
    uint32_t before = 0; /* after how many kills the store had the first format */
    bool killed = true;
    while (killed && kills < KILLS_MAX) {
        begin_again();
        pid_t child = fork();
        ck_assert_int_ge(child, 0);
        if (child == 0) {
            child_opens(RLIM_INFINITY);
        }
        killed = killed_before(child, kills);
        kills += killed;
        bool first = number_in(path, "PRAGMA user_version") == 1;
        if (first) {
            check_first_format(path);
            before++;
        } else {
            check_first_format(kept); /* the store has a new format only if the copy exists */
        }
        check_opens(first ? 1 : 0);
    }
    ck_assert(!killed);
    ck_assert_uint_gt(before, 20);
    ck_assert_uint_gt(kills, before);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("store_migrate");
    TCase *tests = tcase_create("store_migrate");

    tcase_set_timeout(tests, 300);
    tcase_add_checked_fixture(tests, begin, teardown);
    tcase_add_test(tests, a_copy_is_made_first);
    tcase_add_test(tests, the_copy_is_of_what_is_migrated);
    tcase_add_test(tests, what_may_not_be_migrated_is_left);
    tcase_add_test(tests, a_newer_one_says_who_wrote_it);
    tcase_add_test(tests, no_room_leaves_it_as_it_was);
    if (processes_are_traced("killed_before_any_change")) {
        tcase_add_test(tests, killed_before_any_change);
    }
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
