/*
 * The store's rows: how the columns of each table are written and read, as text and numbers that a
 * person can read.
 *
 * Ids of stores are 32 hexadecimal digits. The shares of a register are one text, "host-a 3
 * 65537.12, host-b 4 65537.13": agent, epoch, version (ballot.sequence). The form of each column is
 * checked when it is read. Its meaning is left to the quorum core.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "private.h"
#include "proto/check.h"
#include "proto/frame.h"

/* Room for the shares as text: each has an agent, three numbers, and separators. */
enum { SHARES_TEXT_MAX = MESSAGE_SHARES_MAX * (MESSAGE_AGENT_MAX + 48) };

static const char *const MODE_TEXT[] = {"free", "shared", "exclusive"};

void store_id_to_text(const uint64_t id[2], char text[STORE_ID_TEXT])
{
    snprintf(text, STORE_ID_TEXT, "%016" PRIx64 "%016" PRIx64, id[0], id[1]);
}

bool store_id_from_text(const char *text, uint64_t id[2])
{
    return strlen(text) == STORE_ID_TEXT - 1 &&
           strspn(text, "0123456789abcdef") == STORE_ID_TEXT - 1 &&
           sscanf(text, "%16" SCNx64 "%16" SCNx64, &id[0], &id[1]) == 2;
}

/* ---- Reading ---- */

static bool column_number(sqlite3_stmt *row, int at, uint64_t max, uint64_t *out)
{
    *out = (uint64_t)sqlite3_column_int64(row, at);
    return sqlite3_column_type(row, at) == SQLITE_INTEGER && *out <= max;
}

static bool column_agent(sqlite3_stmt *row, int at, struct message_agent *out)
{
    memset(out, 0, sizeof(*out));
    if (sqlite3_column_type(row, at) == SQLITE_NULL) {
        return true;
    }
    const void *text = sqlite3_column_text(row, at);
    int length = sqlite3_column_bytes(row, at);
    if (text == NULL || length < 1 || length > MESSAGE_AGENT_MAX) {
        return false;
    }
    message_agent_set(out, text, (size_t)length);
    return true;
}

static bool column_name(sqlite3_stmt *row, int at, const uint8_t **name, size_t *length)
{
    *name = (const uint8_t *)sqlite3_column_text(row, at);
    *length = (size_t)sqlite3_column_bytes(row, at);
    return *name != NULL && hfi_name_check((const char *)*name, *length) == 0;
}

static bool column_mode(sqlite3_stmt *row, int at, uint8_t *out)
{
    const char *text = (const char *)sqlite3_column_text(row, at);
    for (uint8_t mode = 0; text != NULL && mode < 3; mode++) {
        if (strcmp(text, MODE_TEXT[mode]) == 0) {
            *out = mode;
            return true;
        }
    }
    return false;
}

/* Reads a number that is followed by the character `end` (0: by the end of the text), and moves
 * *text behind that character. */
static bool text_number(const char **text, char end, uint64_t limit, uint64_t *out)
{
    char *behind = NULL;
    if (**text < '0' || **text > '9') {
        return false;
    }
    errno = 0;
    *out = strtoull(*text, &behind, 10);
    if (errno != 0 || *out >= limit || *behind != end) {
        return false;
    }
    *text = behind + (end != 0);
    return true;
}

/* Reads a share, such as "host-a 3 65537.12", and the ", " or the end of the text behind it. */
static bool text_share(const char **text, struct message_share *out)
{
    uint64_t epoch = 0;
    size_t length = strcspn(*text, " ");
    if (length == 0 || length > MESSAGE_AGENT_MAX || (*text)[length] != ' ') {
        return false;
    }
    message_agent_set(&out->agent, *text, length);
    *text += length + 1;
    if (!text_number(text, ' ', UINT64_C(1) << 32, &epoch) ||
        !text_number(text, '.', MESSAGE_BALLOT_LIMIT, &out->version.ballot)) {
        return false;
    }
    out->epoch = (uint32_t)epoch;
    bool last = strchr(*text, ',') == NULL;
    if (!text_number(text, last ? 0 : ',', MESSAGE_SEQUENCE_LIMIT, &out->version.sequence)) {
        return false;
    }
    if (last) {
        return true;
    }
    return *(*text)++ == ' ';
}

static bool column_shares(sqlite3_stmt *row, int at, struct message_value *value)
{
    const char *text = (const char *)sqlite3_column_text(row, at);
    value->share_count = 0;
    while (text != NULL && *text != 0) {
        if (value->share_count == MESSAGE_SHARES_MAX ||
            !text_share(&text, &value->shares[value->share_count])) {
            return false;
        }
        value->share_count++;
    }
    return true;
}

static bool column_store_id(sqlite3_stmt *row, int at, uint64_t id[2])
{
    const char *text = (const char *)sqlite3_column_text(row, at);
    return text != NULL && store_id_from_text(text, id);
}

/* Gives one row to the reader. Returns NULL, or what the row was expected to have. */
typedef const char *row_fn(const struct store_reader *reader, sqlite3_stmt *row);

static const char NO_FIT[] = "a value that this agent writes and has room for";

static const char *read_promise(const struct store_reader *reader, sqlite3_stmt *row)
{
    struct quorum_promise promise = {.ballot = 0};
    uint64_t partition = 0;
    if (!column_number(row, 0, MESSAGE_PARTITIONS - 1, &partition) ||
        !column_number(row, 1, MESSAGE_BALLOT_LIMIT - 1, &promise.ballot)) {
        return "a partition from 0 to 255 and a ballot below 2^48";
    }
    message_partition_add(&promise.partitions, (uint32_t)partition);
    return reader->promise(reader->arg, &promise) ? NULL : NO_FIT;
}

static const char *read_register(const struct store_reader *reader, sqlite3_stmt *row)
{
    struct quorum_register reg;
    struct message_value *value = &reg.value;
    const uint8_t *name = NULL;
    size_t length = 0;
    uint64_t epoch = 0;
    uint64_t delay = 0;
    uint64_t permits = 0;
    uint64_t closing = 0;
    memset(&reg, 0, sizeof(reg));
    if (!column_name(row, 0, &name, &length)) {
        return "a name of 1 to 255 bytes of UTF-8";
    }
    message_name_set(&reg.name, name, length);
    if (!column_mode(row, 1, &value->mode) || !column_agent(row, 2, &value->owner)) {
        return "a mode free, shared or exclusive and an owner of at most 32 bytes";
    }
    if (!column_number(row, 3, UINT32_MAX, &epoch) ||
        !column_number(row, 4, MESSAGE_TOKEN_LIMIT, &value->token_first) ||
        !column_number(row, 5, MESSAGE_TOKEN_LIMIT - 1, &value->token_last) ||
        !column_number(row, 6, MESSAGE_LOCK_DELAY_MAX_MS, &delay) ||
        !column_number(row, 7, UINT16_MAX, &permits) || !column_agent(row, 8, &value->successor) ||
        !column_number(row, 9, UINT8_MAX, &closing)) {
        return "epoch, tokens, lock_delay_ms, permits and closing within their limits";
    }
    if (!column_number(row, 10, MESSAGE_BALLOT_LIMIT - 1, &value->version.ballot) ||
        !column_number(row, 11, MESSAGE_SEQUENCE_LIMIT - 1, &value->version.sequence) ||
        !column_number(row, 12, MESSAGE_BALLOT_LIMIT - 1, &reg.accepted.ballot) ||
        !column_number(row, 13, MESSAGE_SEQUENCE_LIMIT - 1, &reg.accepted.sequence)) {
        return "ballots below 2^48 and sequences below 2^40";
    }
    if (!column_shares(row, 14, value)) {
        return "at most 64 shares of the form \"host-a 3 65537.12\"";
    }
    value->epoch = (uint32_t)epoch;
    value->lock_delay_ms = (uint16_t)delay;
    value->permits = (uint16_t)permits;
    value->closing = (uint8_t)closing;
    return reader->reg(reader->arg, &reg) ? NULL : NO_FIT;
}

static const char *read_mark(const struct store_reader *reader, sqlite3_stmt *row)
{
    struct message_session mark;
    uint64_t epoch = 0;
    if (!column_agent(row, 0, &mark.agent) || !column_number(row, 1, UINT32_MAX, &epoch)) {
        return "an agent of at most 32 bytes and an epoch below 2^32";
    }
    mark.epoch = (uint32_t)epoch;
    return reader->mark(reader->arg, &mark) ? NULL : NO_FIT;
}

static const char *read_region(const struct store_reader *reader, sqlite3_stmt *row)
{
    const char *space = (const char *)sqlite3_column_text(row, 0);
    const char *shm_name = (const char *)sqlite3_column_text(row, 1);
    if (space == NULL || shm_name == NULL) {
        return "a namespace and a shm_name";
    }
    return reader->region(reader->arg, space, shm_name) ? NULL : NO_FIT;
}

static const char *read_slot(const struct store_reader *reader, sqlite3_stmt *row)
{
    struct store_slot slot = {.space = (const char *)sqlite3_column_text(row, 0)};
    uint64_t number = 0;
    if (slot.space == NULL || !column_number(row, 1, UINT32_MAX, &number) ||
        !column_name(row, 2, &slot.name, &slot.length)) {
        return "a namespace, a slot below 2^32 and a name of 1 to 255 bytes of UTF-8";
    }
    slot.slot = (uint32_t)number;
    return reader->slot(reader->arg, &slot) ? NULL : NO_FIT;
}

static const char *read_checkpoint(const struct store_reader *reader, sqlite3_stmt *row)
{
    struct quorum_checkpoint out = {.partition = 0};
    uint64_t partition = 0;
    if (!column_number(row, 0, MESSAGE_PARTITIONS - 1, &partition) ||
        !column_number(row, 1, MESSAGE_BALLOT_LIMIT - 1, &out.checkpoint.order.ballot) ||
        !column_number(row, 2, MESSAGE_SEQUENCE_LIMIT - 1, &out.checkpoint.order.sequence) ||
        !column_number(row, 3, MESSAGE_TOKEN_LIMIT - 1, &out.checkpoint.floor)) {
        return "a partition from 0 to 255, a ballot below 2^48, a sequence below 2^40, a floor";
    }
    out.partition = (uint32_t)partition;
    return reader->checkpoint(reader->arg, &out) ? NULL : NO_FIT;
}

static const char *read_member(const struct store_reader *reader, sqlite3_stmt *row)
{
    struct quorum_member out;
    uint64_t generation = 0;
    if (!column_agent(row, 0, &out.voter) || !column_store_id(row, 1, out.member.store_id) ||
        !column_number(row, 2, UINT32_MAX, &generation)) {
        return "a voter of at most 32 bytes, a store id of 32 hexadecimal digits, a generation";
    }
    out.member.generation = (uint32_t)generation;
    return reader->member(reader->arg, &out) ? NULL : NO_FIT;
}

static const char *read_seen(const struct store_reader *reader, sqlite3_stmt *row)
{
    struct quorum_seen out;
    if (!column_agent(row, 0, &out.voter) || !column_store_id(row, 1, out.store_id) ||
        !column_number(row, 2, INT64_MAX, &out.commit)) {
        return "a voter of at most 32 bytes, a store id of 32 hexadecimal digits, a commit";
    }
    return reader->seen(reader->arg, &out) ? NULL : NO_FIT;
}

/* The first column of the previous row. */
struct row_key {
    uint8_t text[MESSAGE_NAME_MAX];
    int length; /* bytes of text; -1: there is no previous row */
    sqlite3_int64 number;
};

/*
 * Returns whether a row has a larger key than the previous row, and puts its key into *before. Rows
 * are read in the order of their pages. If a disk wrote a page in place of another page, the rows
 * of the written page are read twice, and SQLite's own check does not notice that. Only in the
 * table slot may the first column repeat.
 */
static bool is_in_order(sqlite3_stmt *row, struct row_key *before, bool may_repeat)
{
    int order = 1;
    if (sqlite3_column_type(row, 0) == SQLITE_INTEGER) {
        sqlite3_int64 number = sqlite3_column_int64(row, 0);
        bool behind = before->length < 0 || number > before->number;
        before->number = number;
        before->length = 0;
        return behind;
    }
    const void *text = sqlite3_column_text(row, 0);
    int length = sqlite3_column_bytes(row, 0);
    if (text == NULL || length > MESSAGE_NAME_MAX) {
        return true; /* the row's reader reports this fault */
    }
    if (before->length >= 0) {
        int common = length < before->length ? length : before->length;
        order = memcmp(text, before->text, (size_t)common);
        order = order != 0 ? order : length - before->length;
    }
    memcpy(before->text, text, (size_t)length);
    before->length = length;
    return order > 0 || (order == 0 && may_repeat);
}

static bool load_table(struct store *store, const struct store_reader *reader, const char *table,
                       const char *columns, row_fn *read)
{
    char sql[256];
    sqlite3_stmt *row = NULL;
    snprintf(sql, sizeof(sql), "SELECT %s FROM %s ORDER BY 1, 2", columns, table);
    if (sqlite3_prepare_v2(store->database, sql, -1, &row, NULL) != SQLITE_OK) {
        return store_fail_sqlite(store, table);
    }
    bool done = true;
    uint64_t count = 0;
    struct row_key before = {.length = -1};
    int result = sqlite3_step(row);
    for (; done && result == SQLITE_ROW; result = done ? sqlite3_step(row) : SQLITE_DONE) {
        const char *expected =
            is_in_order(row, &before, read == read_slot)
                ? read(reader, row)
                : "a row whose key follows that of the previous row: two pages are mixed up";
        count++;
        if (expected != NULL) {
            const char *key = (const char *)sqlite3_column_text(row, 0);
            done = store_fail(store,
                              "table %s, row %" PRIu64 " (\"%.64s\"): does not fit; expected %s",
                              table, count, key != NULL ? key : "", expected);
        }
    }
    if (done && result != SQLITE_DONE) {
        done = store_fail_sqlite(store, table);
    }
    sqlite3_finalize(row);
    return done;
}

bool store_load(struct store *store, const struct store_reader *reader)
{
    const struct {
        bool wanted;
        const char *table;
        const char *columns;
        row_fn *read;
    } tables[] = {
        {reader->promise != NULL, "promise", "partition, ballot", read_promise},
        {reader->reg != NULL, "register",
         "name, mode, owner, epoch, token_first, token_last, lock_delay_ms, permits, successor,"
         " closing, version_ballot, version_sequence, ballot, sequence, shares",
         read_register},
        {reader->mark != NULL, "mark", "agent, epoch", read_mark},
        {reader->region != NULL, "region", "namespace, shm_name", read_region},
        {reader->slot != NULL, "slot", "namespace, slot, name", read_slot},
        {reader->checkpoint != NULL, "checkpoint", "partition, ballot, sequence, floor",
         read_checkpoint},
        {reader->member != NULL, "member", "voter, store_id, generation", read_member},
        {reader->seen != NULL, "seen", "voter, store_id, last_commit", read_seen},
    };
    sqlite3_int64 registers = 0;
    if (reader->registers != NULL) {
        if (!store_query_number(store, "SELECT count(*) FROM register", &registers)) {
            return false;
        }
        reader->registers(reader->arg, (uint64_t)registers);
    }
    for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++) {
        if (tables[i].wanted &&
            !load_table(store, reader, tables[i].table, tables[i].columns, tables[i].read)) {
            return false;
        }
    }
    return true;
}

/* ---- The rules of the cell, in meta ---- */

enum { RULES_TEXT_MAX = 128 + MESSAGE_VOTERS_MAX * (MESSAGE_AGENT_MAX + 1) };

/* Reads rules from one line: "session_ttl_ns=5000000000 grace_period_ns=5000000000
 * max_drift_percent=10 voters=host-a,host-b". */
static bool rules_from_text(const char *text, struct message_rules *rules)
{
    char voters[MESSAGE_VOTERS_MAX * (MESSAGE_AGENT_MAX + 1) + 1];
    memset(rules, 0, sizeof(*rules));
    if (sscanf(text,
               "session_ttl_ns=%18" SCNd64 " grace_period_ns=%18" SCNd64
               " max_drift_percent=%3" SCNu32 " voters=%231s",
               &rules->session_ttl_ns, &rules->grace_ns, &rules->max_drift_percent, voters) != 4) {
        return false;
    }
    for (const char *at = voters; *at != 0;) {
        size_t length = strcspn(at, ",");
        if (length == 0 || length > MESSAGE_AGENT_MAX || rules->voter_count == MESSAGE_VOTERS_MAX) {
            return false;
        }
        message_agent_set(&rules->voters[rules->voter_count++], at, length);
        at += length + (at[length] == ',');
    }
    return rules->voter_count > 0;
}

bool store_find_meta(struct store *store, const char *key, sqlite3_stmt **row, const char **text)
{
    *text = NULL;
    if (sqlite3_prepare_v2(store->database, "SELECT value FROM meta WHERE key = ?1", -1, row,
                           NULL) != SQLITE_OK) {
        return store_fail_sqlite(store, key);
    }
    store_bind_text(*row, 1, key, strlen(key));
    int result = sqlite3_step(*row);
    if (result == SQLITE_ROW) {
        *text = (const char *)sqlite3_column_text(*row, 0);
        *text = *text != NULL ? *text : "";
    }
    return result == SQLITE_ROW || result == SQLITE_DONE || store_fail_sqlite(store, key);
}

bool store_rules(struct store *store, struct message_rules *rules, bool *found)
{
    sqlite3_stmt *row = NULL;
    const char *text;
    bool done = store_find_meta(store, "rules", &row, &text);
    *found = text != NULL && rules_from_text(text, rules);
    if (text != NULL && !*found) {
        done = store_fail(store, "damaged: meta has rules \"%.128s\"", text);
    }
    sqlite3_finalize(row);
    return done;
}

bool store_kept(struct store *store, uint32_t *number, uint64_t id[2])
{
    sqlite3_stmt *row = NULL;
    const char *text;
    char *end = NULL;
    bool done = store_find_meta(store, "kept", &row, &text);
    unsigned long value = text != NULL ? strtoul(text, &end, 10) : 0;
    if (text != NULL &&
        (value == 0 || value > UINT32_MAX || *end != ' ' || !store_id_from_text(end + 1, id))) {
        done = store_fail(store,
                          "damaged: meta has kept \"%.64s\", expected a number and 32 hexadecimal "
                          "digits",
                          text);
    }
    *number = (uint32_t)value;
    sqlite3_finalize(row);
    return done;
}

bool store_put_rules(struct store *store, const struct message_rules *rules)
{
    char text[RULES_TEXT_MAX];
    int used = snprintf(text, sizeof(text),
                        "session_ttl_ns=%" PRId64 " grace_period_ns=%" PRId64
                        " max_drift_percent=%" PRIu32 " voters=",
                        rules->session_ttl_ns, rules->grace_ns, rules->max_drift_percent);
    for (uint32_t i = 0; i < rules->voter_count; i++) {
        used += snprintf(text + used, sizeof(text) - (size_t)used, "%s%.*s", i == 0 ? "" : ",",
                         (int)rules->voters[i].length, rules->voters[i].text);
    }
    HF_CHECK(used > 0 && (size_t)used < sizeof(text));
    sqlite3_stmt *statement = store->statements[PUT_META];
    store_bind_text(statement, 1, "rules", 5);
    store_bind_text(statement, 2, text, (size_t)used);
    store_bind_number(statement, 3, store->commit);
    return store_change(store, PUT_META);
}

/* ---- Writing ---- */

static bool put_promise(struct store *store, const struct quorum_promise *promise)
{
    sqlite3_stmt *statement = store->statements[PUT_PROMISE];
    for (uint32_t partition = 0; partition < MESSAGE_PARTITIONS; partition++) {
        if (!message_partition_has(&promise->partitions, partition)) {
            continue;
        }
        store_bind_number(statement, 1, partition);
        store_bind_number(statement, 2, promise->ballot);
        store_bind_number(statement, 3, store->commit);
        if (!store_change(store, PUT_PROMISE)) {
            return false;
        }
    }
    return true;
}

static void bind_agent(sqlite3_stmt *statement, int at, const struct message_agent *agent)
{
    if (agent->length > 0) {
        store_bind_text(statement, at, agent->text, agent->length);
    }
}

/* Writes the shares as text (SHARES_TEXT_MAX bytes). Returns the length. */
static size_t shares_text(const struct message_value *value, char *text)
{
    size_t used = 0;
    for (uint32_t i = 0; i < value->share_count; i++) {
        const struct message_share *share = &value->shares[i];
        int length = snprintf(text + used, SHARES_TEXT_MAX - used,
                              "%s%.*s %" PRIu32 " %" PRIu64 ".%" PRIu64, i == 0 ? "" : ", ",
                              (int)share->agent.length, share->agent.text, share->epoch,
                              share->version.ballot, share->version.sequence);
        HF_CHECK(length > 0 && (size_t)length < SHARES_TEXT_MAX - used);
        used += (size_t)length;
    }
    return used;
}

static bool put_register(struct store *store, const struct quorum_register *reg)
{
    sqlite3_stmt *statement = store->statements[PUT_REGISTER];
    const struct message_value *value = &reg->value;
    char shares[SHARES_TEXT_MAX];
    HF_CHECK(value->mode < 3 && value->share_count <= MESSAGE_SHARES_MAX);
    store_bind_text(statement, 1, reg->name.bytes, reg->name.length);
    store_bind_text(statement, 2, MODE_TEXT[value->mode], strlen(MODE_TEXT[value->mode]));
    bind_agent(statement, 3, &value->owner);
    store_bind_number(statement, 4, value->epoch);
    store_bind_number(statement, 5, value->token_first);
    store_bind_number(statement, 6, value->token_last);
    store_bind_number(statement, 7, value->lock_delay_ms);
    store_bind_number(statement, 8, value->permits);
    bind_agent(statement, 9, &value->successor);
    store_bind_number(statement, 10, value->closing);
    store_bind_number(statement, 11, value->version.ballot);
    store_bind_number(statement, 12, value->version.sequence);
    store_bind_number(statement, 13, reg->accepted.ballot);
    store_bind_number(statement, 14, reg->accepted.sequence);
    store_bind_number(statement, 15, store->commit);
    if (value->share_count > 0) {
        store_bind_text(statement, 16, shares, shares_text(value, shares));
    }
    return store_change(store, PUT_REGISTER);
}

static bool put_mark(struct store *store, const struct message_session *mark)
{
    sqlite3_stmt *statement = store->statements[PUT_MARK];
    bind_agent(statement, 1, &mark->agent);
    store_bind_number(statement, 2, mark->epoch);
    store_bind_number(statement, 3, store->commit);
    return store_change(store, PUT_MARK);
}

static bool delete_register(struct store *store, const struct message_name *name)
{
    store->deleted = true;
    store_bind_text(store->statements[DEL_REGISTER], 1, name->bytes, name->length);
    return store_change(store, DEL_REGISTER);
}

static bool put_checkpoint(struct store *store, const struct quorum_checkpoint *checkpoint)
{
    sqlite3_stmt *statement = store->statements[PUT_CHECKPOINT];
    store_bind_number(statement, 1, checkpoint->partition);
    store_bind_number(statement, 2, checkpoint->checkpoint.order.ballot);
    store_bind_number(statement, 3, checkpoint->checkpoint.order.sequence);
    store_bind_number(statement, 4, checkpoint->checkpoint.floor);
    store_bind_number(statement, 5, store->commit);
    return store_change(store, PUT_CHECKPOINT);
}

/* Puts a row of member or seen: a voter, its store, a number. */
static bool put_voter(struct store *store, enum statement which, const struct message_agent *voter,
                      const uint64_t store_id[2], uint64_t number)
{
    sqlite3_stmt *statement = store->statements[which];
    char id[STORE_ID_TEXT];
    store_id_to_text(store_id, id);
    bind_agent(statement, 1, voter);
    store_bind_text(statement, 2, id, STORE_ID_TEXT - 1);
    store_bind_number(statement, 3, number);
    store_bind_number(statement, 4, store->commit);
    return store_change(store, which);
}

static bool change_meta(struct store *store, const char *key, uint32_t number)
{
    sqlite3_stmt *statement = store->statements[PUT_META];
    store_bind_text(statement, 1, key, strlen(key));
    store_bind_number(statement, 2, number);
    store_bind_number(statement, 3, store->commit);
    return store_change(store, PUT_META);
}

bool store_put_action(struct store *store, const struct action *action)
{
    switch (action->kind) {
    case ACTION_PERSIST_ROUND:
        return change_meta(store, "round", action->as.round);
    case ACTION_PERSIST_PROMISE:
        return put_promise(store, &action->as.promise);
    case ACTION_PERSIST_REGISTER:
        return put_register(store, &action->as.reg);
    case ACTION_PERSIST_MARK:
        return put_mark(store, &action->as.mark);
    case ACTION_PERSIST_DELETED:
        return delete_register(store, &action->as.deleted);
    case ACTION_PERSIST_CHECKPOINT:
        return put_checkpoint(store, &action->as.checkpoint);
    case ACTION_PERSIST_MEMBER:
        return put_voter(store, PUT_MEMBER, &action->as.member.voter,
                         action->as.member.member.store_id, action->as.member.member.generation);
    case ACTION_PERSIST_SEEN:
        return put_voter(store, PUT_SEEN, &action->as.seen.voter, action->as.seen.store_id,
                         action->as.seen.commit);
    case ACTION_PERSIST_REJOINED:
        return change_meta(store, "rejoin", 0);
    case ACTION_PERSIST_RECOVERED:
        return change_meta(store, "recovery_wait_ms", 0);
    case ACTION_PERSIST_VOTERS:
        return store_put_voters(store, &action->as.voters);
    case ACTION_PERSIST_CHANGE:
        return store_put_change(store, &action->as.change);
    case ACTION_VOTERS:
    case ACTION_SEEK:
    case ACTION_LOG:
    case ACTION_SEND:
        break;
    }
    HF_CHECK(!"only what is to be persisted is stored");
    return false;
}

bool store_put_session_epoch(struct store *store, uint32_t epoch)
{
    return change_meta(store, "session_epoch", epoch);
}

bool store_put_region(struct store *store, const char *space, const char *shm_name)
{
    sqlite3_stmt *statement = store->statements[PUT_REGION];
    store_bind_text(statement, 1, space, strlen(space));
    store_bind_text(statement, 2, shm_name, strlen(shm_name));
    store_bind_number(statement, 3, store->commit);
    return store_change(store, PUT_REGION);
}

bool store_del_slots(struct store *store, const char *space)
{
    store->deleted = true;
    store_bind_text(store->statements[DEL_REGION_SLOTS], 1, space, strlen(space));
    return store_change(store, DEL_REGION_SLOTS);
}

bool store_del_region(struct store *store, const char *space)
{
    if (!store_del_slots(store, space)) {
        return false;
    }
    store_bind_text(store->statements[DEL_REGION], 1, space, strlen(space));
    return store_change(store, DEL_REGION);
}

bool store_put_slot(struct store *store, const struct store_slot *slot)
{
    HF_CHECK(slot->length > 0 && slot->length <= MESSAGE_NAME_MAX);
    sqlite3_stmt *statement = store->statements[PUT_SLOT];
    store_bind_text(statement, 1, slot->space, strlen(slot->space));
    store_bind_number(statement, 2, slot->slot);
    store_bind_text(statement, 3, slot->name, slot->length);
    store_bind_number(statement, 4, store->commit);
    return store_change(store, PUT_SLOT);
}

bool store_del_slot(struct store *store, const char *space, uint32_t slot)
{
    store->deleted = true;
    store_bind_text(store->statements[DEL_SLOT], 1, space, strlen(space));
    store_bind_number(store->statements[DEL_SLOT], 2, slot);
    return store_change(store, DEL_SLOT);
}
