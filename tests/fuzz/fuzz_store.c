/*
 * A store that a bad disk or another program has changed: bytes of the whole file, or values of its
 * rows. The agent refuses the store with a line of text. Otherwise all values that the agent reads
 * could have been written by this program, and the cores accept them.
 *
 * The first byte of an input says what is changed (bytes or rows), and which format the store had
 * before. The changes follow. A change of a byte has three bytes for the offset and one for the
 * value. A change of rows has the table and column, the rows, and the kind of the value and the
 * value. A store of the first format is migrated when the agent opens it.
 */
#include "draw.h"
#include "fuzz.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/store.h"
#include "proto/check.h"
#include "proto/frame.h"

enum { STORE_BYTES_MAX = 400, CHANGES_MAX = 40, FILE_MAX = 1 << 18 };

static char folder[64];
static char path[96];
static struct store_identity identity;
static struct whole {
    uint8_t bytes[FILE_MAX];
    size_t size;
} whole, first; /* `first` is a store of the first format */
static void *quorum_memory;
static void *names_memory;
static struct quorum *quorum;
static const struct quorum_limits limits = {100, 20, 10, 64};
enum { NAMES = 200 };

static void remove_files(void)
{
    static const char *const suffixes[] = {"", "-wal", "-shm", "-journal", ".v1.bak", ".v1.new"};
    char name[128];
    for (unsigned i = 0; i < sizeof(suffixes) / sizeof(suffixes[0]); i++) {
        snprintf(name, sizeof(name), "%s%s", path, suffixes[i]);
        unlink(name);
    }
}

static void remove_folder(void)
{
    remove_files();
    rmdir(folder);
}

/* ---- the unchanged store ---- */

static struct store *open_store(char *error)
{
    struct store_meta meta;
    memset(error, 'x', STORE_ERROR_MAX);
    return store_open(path, &identity, &meta, error);
}

static void put(struct store *store, struct action *action, enum action_kind kind)
{
    action->kind = kind;
    HF_CHECK(store_put_action(store, action));
}

static void put_register(struct store *store, struct action *action, const char *name,
                         enum message_mode mode)
{
    struct quorum_register *reg = &action->as.reg;
    memset(reg, 0, sizeof(*reg));
    message_name_set(&reg->name, name, strlen(name));
    reg->accepted = (struct message_order){65537, 7};
    reg->value.version = reg->accepted;
    reg->value.token_first = 5;
    reg->value.permits = 1;
    reg->value.mode = (uint8_t)mode;
    if (mode == MESSAGE_MODE_EXCLUSIVE) {
        reg->value.token_last = 1 << 20;
        message_agent_set(&reg->value.owner, "host-b", 6);
        reg->value.epoch = 3;
    } else if (mode == MESSAGE_MODE_SHARED) {
        reg->value.token_last = 5;
        reg->value.share_count = 2;
        for (unsigned i = 0; i < 2; i++) {
            reg->value.shares[i].version = (struct message_order){65537, 7 - i};
            reg->value.shares[i].epoch = 1 + i;
            message_agent_set(&reg->value.shares[i].agent, i == 0 ? "host-a" : "host-c", 6);
        }
    }
    put(store, action, ACTION_PERSIST_REGISTER);
}

static void put_voters(struct store *store, struct action *action)
{
    struct message_agent voter;
    message_agent_set(&voter, "host-b", 6);
    action->as.member = (struct quorum_member){voter, {{1, 2}, 3}};
    put(store, action, ACTION_PERSIST_MEMBER);
    action->as.seen = (struct quorum_seen){voter, {1, 2}, 99};
    put(store, action, ACTION_PERSIST_SEEN);
    action->as.mark = (struct message_session){voter, 2};
    put(store, action, ACTION_PERSIST_MARK);
}

static void put_all(struct store *store)
{
    static struct action action;
    struct store_slot slot = {"default", 1, (const uint8_t *)"a", 1};
    struct message_rules rules = {.voter_count = 3,
                                  .voters = {{6, "host-a"}, {6, "host-b"}, {6, "host-c"}},
                                  .session_ttl_ns = 5000000000,
                                  .grace_ns = 5000000000,
                                  .max_drift_percent = 10};
    uint64_t commit;
    HF_CHECK(store_begin(store) && store_put_session_epoch(store, 4));
    HF_CHECK(store_put_rules(store, &rules));
    action.as.round = 3;
    put(store, &action, ACTION_PERSIST_ROUND);
    memset(&action.as.promise.partitions, 0x11, sizeof(action.as.promise.partitions));
    action.as.promise.ballot = 3 * 65536 + 1;
    put(store, &action, ACTION_PERSIST_PROMISE);
    put_register(store, &action, "a", MESSAGE_MODE_EXCLUSIVE);
    put_register(store, &action, "b/b", MESSAGE_MODE_SHARED);
    put_register(store, &action, "c", MESSAGE_MODE_NONE);
    put_voters(store, &action);
    action.as.checkpoint = (struct quorum_checkpoint){9, {{65537, 1}, 8}};
    put(store, &action, ACTION_PERSIST_CHECKPOINT);
    HF_CHECK(store_put_region(store, "default", "/holdfast.c.a.0.default"));
    HF_CHECK(store_put_slot(store, &slot) && store_commit(store, &commit));
}

static void read_file(struct whole *into)
{
    FILE *file = fopen(path, "rb");
    HF_CHECK(file != NULL);
    into->size = fread(into->bytes, 1, sizeof(into->bytes), file);
    HF_CHECK(fclose(file) == 0 && into->size > 0 && into->size < sizeof(into->bytes));
}

/* Removes what the second format added to the first. */
static void take_back(void)
{
    static const char steps[] = "ALTER TABLE register DROP COLUMN shares; DROP TABLE checkpoint;"
                                "DROP TABLE member; DROP TABLE seen;"
                                "DELETE FROM meta WHERE key = 'rejoin'; PRAGMA user_version = 1;";
    sqlite3 *database = NULL;
    HF_CHECK(sqlite3_open(path, &database) == SQLITE_OK);
    HF_CHECK(sqlite3_exec(database, steps, NULL, NULL, NULL) == SQLITE_OK);
    HF_CHECK(sqlite3_close(database) == SQLITE_OK);
}

static void make_whole(void)
{
    char error[STORE_ERROR_MAX];
    const char *base = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    if (whole.size > 0) {
        return;
    }
    snprintf(folder, sizeof(folder), "%s/holdfast-fuzz.XXXXXX", base);
    HF_CHECK(mkdtemp(folder) != NULL && atexit(remove_folder) == 0);
    snprintf(path, sizeof(path), "%s/holdfast.db", folder);
    message_agent_set(&identity.cell, "prod", 4);
    message_agent_set(&identity.agent, "host-a", 6);
    struct store *store = open_store(error);
    HF_CHECK(store != NULL);
    put_all(store);
    store_close(store);
    read_file(&whole);
    take_back();
    read_file(&first);
    store = open_store(error); /* this start must migrate the store, and not refuse it */
    HF_CHECK(store != NULL);
    store_close(store);
    quorum_memory = calloc(1, quorum_size(&limits));
    names_memory = calloc(1, names_size(NAMES));
    HF_CHECK(quorum_memory != NULL && names_memory != NULL);
}

static size_t store_seed(size_t index, uint8_t *bytes, size_t size)
{
    uint64_t state = 77 + index;
    if (index >= 18 || size < 64) {
        return 0;
    }
    for (size_t i = 0; i < 8 + 3 * index; i++) {
        state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        bytes[i] = (uint8_t)(state >> 56);
    }
    bytes[0] = (uint8_t)(index < 12 ? index : 190 + index);
    return 8 + 3 * index;
}

/* ---- changes ---- */

static void change_bytes(struct draw *draw, uint8_t *file, size_t *size)
{
    for (unsigned i = 0; i < CHANGES_MAX && draw->left > 0; i++) {
        uint32_t at = draw_byte(draw);
        at = (at << 8 | draw_byte(draw)) << 3 | (draw_byte(draw) & 7);
        file[at % *size] = draw_byte(draw);
    }
    if (draw_byte(draw) == 7) {
        *size = *size / 2;
    }
}

static const char *const columns[] = {
    "meta.value",
    "meta.key",
    "promise.partition",
    "promise.ballot",
    "register.name",
    "register.mode",
    "register.owner",
    "register.epoch",
    "register.token_first",
    "register.token_last",
    "register.lock_delay_ms",
    "register.permits",
    "register.successor",
    "register.closing",
    "register.version_ballot",
    "register.version_sequence",
    "register.ballot",
    "register.sequence",
    "register.shares",
    "mark.agent",
    "mark.epoch",
    "region.namespace",
    "region.shm_name",
    "slot.namespace",
    "slot.slot",
    "slot.name",
    "checkpoint.partition",
    "checkpoint.ballot",
    "checkpoint.sequence",
    "checkpoint.floor",
    "member.voter",
    "member.store_id",
    "member.generation",
    "seen.voter",
    "seen.store_id",
    "seen.last_commit",
};
enum { COLUMNS = sizeof(columns) / sizeof(columns[0]) };

static void bind_value(struct draw *draw, sqlite3_stmt *statement)
{
    static const char *const texts[] = {"",
                                        "a",
                                        "host-b",
                                        "exclusive",
                                        "shared",
                                        "none",
                                        "HOST A",
                                        "default",
                                        "a\n",
                                        "host-a 1 65537 7",
                                        "9999999999999999999999",
                                        "-1",
                                        "0x10",
                                        "\xff\xfe",
                                        "host-a:1:65537:7 host-b:1:65537:6",
                                        "00000000000000010000000000000002"};
    char text[64];
    uint8_t kind = draw_byte(draw);
    size_t length = kind / 8;
    switch (kind % 6) {
    case 0:
        sqlite3_bind_int64(statement, 1, (sqlite3_int64)draw_number(draw));
        break;
    case 1:
        sqlite3_bind_int64(statement, 1, -(sqlite3_int64)(draw_number(draw) >> 1));
        break;
    case 2:
        sqlite3_bind_text(statement, 1, texts[draw_byte(draw) % 16], -1, SQLITE_STATIC);
        break;
    case 3:
        for (size_t i = 0; i < length; i++) {
            text[i] = (char)draw_byte(draw);
        }
        sqlite3_bind_text(statement, 1, text, (int)length, SQLITE_TRANSIENT);
        break;
    case 4:
        sqlite3_bind_null(statement, 1);
        break;
    default:
        sqlite3_bind_double(statement, 1, 0.5 * (double)draw_number(draw));
    }
}

static void change_rows(struct draw *draw)
{
    sqlite3 *database = NULL;
    HF_CHECK(sqlite3_open(path, &database) == SQLITE_OK);
    HF_CHECK(sqlite3_exec(database, "PRAGMA synchronous=OFF", NULL, NULL, NULL) == SQLITE_OK);
    for (unsigned i = 0; i < CHANGES_MAX && draw->left > 0; i++) {
        char sql[200];
        sqlite3_stmt *statement = NULL;
        const char *column = columns[draw_byte(draw) % COLUMNS];
        size_t table = strcspn(column, ".");
        uint8_t which = draw_byte(draw);
        /* Changes one row or all rows. The schema may refuse the value, and then nothing is
         * changed. */
        snprintf(sql, sizeof(sql), "UPDATE OR IGNORE %.*s SET %s = ?1 WHERE %s", (int)table, column,
                 column + table + 1,
                 which < 128 ? "1"
                 : which & 1 ? "in_commit > 1"
                             : "rowid % 2");
        if (sqlite3_prepare_v2(database, sql, -1, &statement, NULL) == SQLITE_OK) {
            bind_value(draw, statement);
            (void)sqlite3_step(statement);
        }
        sqlite3_finalize(statement);
    }
    sqlite3_close(database);
}

/* ---- reading the store ---- */

static bool take_promise(void *arg, const struct quorum_promise *promise)
{
    (void)arg;
    return quorum_load_promise(quorum, promise);
}

static bool take_register(void *arg, const struct quorum_register *reg)
{
    (void)arg;
    HF_CHECK(reg->name.length > 0 && reg->value.share_count <= MESSAGE_SHARES_MAX);
    HF_CHECK(hfi_name_check((const char *)reg->name.bytes, reg->name.length) == 0);
    return quorum_load_register(quorum, reg);
}

static bool take_mark(void *arg, const struct message_session *mark)
{
    (void)arg;
    return quorum_load_mark(quorum, mark);
}

static bool take_region(void *arg, const char *space, const char *shm_name)
{
    (void)arg;
    HF_CHECK(space != NULL && shm_name != NULL);
    return true;
}

static bool take_slot(void *arg, const struct store_slot *slot)
{
    (void)arg;
    HF_CHECK(slot->space != NULL && slot->length >= 1 && slot->length <= MESSAGE_NAME_MAX);
    HF_CHECK(hfi_name_check((const char *)slot->name, slot->length) == 0);
    return true;
}

static bool take_checkpoint(void *arg, const struct quorum_checkpoint *checkpoint)
{
    (void)arg;
    HF_CHECK(checkpoint->partition < MESSAGE_PARTITIONS);
    return quorum_load_checkpoint(quorum, checkpoint);
}

static bool take_member(void *arg, const struct quorum_member *member)
{
    (void)arg;
    return quorum_load_member(quorum, member);
}

static bool take_seen(void *arg, const struct quorum_seen *seen)
{
    (void)arg;
    return quorum_load_seen(quorum, seen);
}

static void make_quorum(const struct store_meta *meta)
{
    struct quorum_config config = {.limits = limits,
                                   .membership = 1,
                                   .voter_count = 3,
                                   .voters = {{6, "host-a"}, {6, "host-b"}, {6, "host-c"}},
                                   .session_ttl_ns = 5000000000,
                                   .grace_ns = 5000000000,
                                   .max_drift_percent = 10,
                                   .rejoin = meta->rejoin};
    memcpy(config.store_id, meta->store_id, sizeof(config.store_id));
    memset(quorum_memory, 0, quorum_size(&limits));
    memset(names_memory, 0, names_size(NAMES));
    quorum = quorum_init(quorum_memory, &config, names_init(names_memory, NAMES, 5));
}

/* Starts the quorum core with the store, and lets it check its own state. */
static void start_quorum(const struct store_meta *meta)
{
    static struct action items[QUORUM_STEP_ACTIONS];
    struct actions actions = {.items = items, .capacity = QUORUM_STEP_ACTIONS};
    struct quorum_event event = {.kind = QUORUM_START, .now_ns = 1000000000, .random = 7};
    quorum_set_commit(quorum, meta->commit);
    quorum_step(quorum, &event, &actions);
    quorum_check_invariants(quorum);
}

static void read_store(void)
{
    static const struct store_reader reader = {.promise = take_promise,
                                               .reg = take_register,
                                               .mark = take_mark,
                                               .region = take_region,
                                               .slot = take_slot,
                                               .checkpoint = take_checkpoint,
                                               .member = take_member,
                                               .seen = take_seen};
    char error[STORE_ERROR_MAX];
    struct store_meta meta;
    struct message_rules rules;
    bool found = false;
    uint64_t commit = 0;
    memset(error, 'x', sizeof(error));
    struct store *store = store_open(path, &identity, &meta, error);
    if (store == NULL) {
        HF_CHECK(memchr(error, 0, sizeof(error)) != NULL && error[0] != 0);
        return;
    }
    HF_CHECK(meta.commit < MESSAGE_COMMIT_LIMIT && meta.session_epoch < MESSAGE_EPOCH_LIMIT);
    make_quorum(&meta);
    bool round = quorum_load_round(quorum, meta.round);
    if (!store_rules(store, &rules, &found) || !round || !store_load(store, &reader)) {
        HF_CHECK(!round || store_error(store)[0] != 0);
    } else {
        HF_CHECK(!found || rules.voter_count <= MESSAGE_VOTERS_MAX);
        start_quorum(&meta);
        if (store_begin(store) && store_put_session_epoch(store, meta.session_epoch + 1)) {
            (void)!store_commit(store, &commit);
        }
    }
    store_close(store);
}

static void store_entry(const uint8_t *bytes, size_t size)
{
    static uint8_t file[FILE_MAX];
    struct draw draw = {bytes, size};
    make_whole();
    remove_files();
    uint8_t what = draw_byte(&draw);
    bool rows = (what & 1) != 0;
    const struct whole *from = what >= 192 ? &first : &whole;
    size_t length = from->size;
    memcpy(file, from->bytes, length);
    if (!rows) {
        change_bytes(&draw, file, &length);
    }
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    HF_CHECK(fd >= 0 && write(fd, file, length) == (ssize_t)length && close(fd) == 0);
    if (rows) {
        change_rows(&draw);
    }
    read_store();
}

const struct fuzz_target fuzz_target = {"store", store_entry, store_seed, STORE_BYTES_MAX};
