/*
 * The record of voters, and the register in which the next one is decided: two texts in meta.
 *
 *   voters   number=2 complete=1 act=add changed=host-b recoveries=0 cell_id=0123...
 *            next_ballot_id=5 voters=host-a 1 0123... tcp://10.0.0.1:7411, host-b 2 0123... -
 *   change   number=3 promised=65537 accepted=0 next=
 *
 * act and changed say how the record differs from the previous one (begin and "-": it is the
 * first). A voter has its name, its number in ballots, the id of its store, and its address ("-":
 * not known). The record that was accepted stands behind `next=`, written like the record in
 * `voters`.
 *
 * From the second record on the store is of format STORE_FORMAT_CHANGED, so that an older release
 * does not start with it. Such a release would use the voters of the configuration.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "private.h"
#include "proto/check.h"

enum {
    VOTER_TEXT_MAX = MESSAGE_AGENT_MAX + MESSAGE_ADDRESS_MAX + STORE_ID_TEXT + 16,
    VOTERS_TEXT_MAX = 256 + MESSAGE_VOTERS_MAX * VOTER_TEXT_MAX,
    CHANGE_TEXT_MAX = 128 + VOTERS_TEXT_MAX,
};

static const char NONE[] = "-";
static const char *const ACT_TEXT[MESSAGE_MEMBER_END] = {"begin", "add", "remove", "move"};

/* ---- as text ---- */

static size_t voters_to_text(const struct message_voters *voters, char *text)
{
    char id[STORE_ID_TEXT];
    bool named = voters->changed.length > 0;
    HF_CHECK(voters->act < MESSAGE_MEMBER_END);
    store_id_to_text(voters->cell_id, id);
    int used = snprintf(text, VOTERS_TEXT_MAX,
                        "number=%" PRIu32 " complete=%d act=%s changed=%.*s recoveries=%" PRIu32
                        " cell_id=%s next_ballot_id=%u voters=",
                        voters->number, voters->complete, ACT_TEXT[voters->act],
                        named ? (int)voters->changed.length : 1,
                        named ? voters->changed.text : NONE, voters->recoveries, id,
                        voters->next_ballot_id);
    for (uint32_t i = 0; i < voters->count; i++) {
        const struct message_voter *voter = &voters->of[i];
        store_id_to_text(voter->store_id, id);
        used += snprintf(text + used, VOTERS_TEXT_MAX - (size_t)used, "%s%.*s %u %s %s",
                         i == 0 ? "" : ", ", (int)voter->name.length, voter->name.text,
                         voter->ballot_id, id, voter->address[0] != '\0' ? voter->address : NONE);
    }
    HF_CHECK(used > 0 && used < VOTERS_TEXT_MAX);
    return (size_t)used;
}

/* Reads the word that ends at `end`, and moves *text behind it. Returns false if it does not fit
 * into `size` bytes with a final zero. */
static bool take_word(const char **text, const char *end, char *word, size_t size)
{
    size_t length = strcspn(*text, end);
    if (length == 0 || length >= size) {
        return false;
    }
    memcpy(word, *text, length);
    word[length] = '\0';
    *text += length + ((*text)[length] != '\0');
    return true;
}

/* Reads "KEY=NUMBER" up to a space, and moves *text behind it. */
static bool take_number(const char **text, const char *key, uint64_t max, uint64_t *out)
{
    char word[24];
    char *end = NULL;
    size_t length = strlen(key);
    if (strncmp(*text, key, length) != 0) {
        return false;
    }
    *text += length;
    if (!take_word(text, " ", word, sizeof(word)) || word[0] < '0' || word[0] > '9') {
        return false;
    }
    *out = strtoull(word, &end, 10);
    return *end == '\0' && *out <= max;
}

static bool take_id(const char **text, uint64_t id[2])
{
    char word[STORE_ID_TEXT];
    return take_word(text, " ", word, sizeof(word)) && store_id_from_text(word, id);
}

/* Reads one voter, and the ", " behind it. */
static bool take_voter(const char **text, struct message_voter *out)
{
    char name[MESSAGE_AGENT_MAX + 1];
    char id[8];
    memset(out, 0, sizeof(*out));
    if (!take_word(text, " ", name, sizeof(name)) || !take_word(text, " ", id, sizeof(id)) ||
        !take_id(text, out->store_id) ||
        !take_word(text, ",", out->address, sizeof(out->address))) {
        return false;
    }
    message_agent_set(&out->name, name, strlen(name));
    out->ballot_id = (uint16_t)strtoul(id, NULL, 10);
    if (strcmp(out->address, NONE) == 0) {
        memset(out->address, 0, sizeof(out->address));
    }
    *text += **text == ' ';
    return true;
}

/* Reads "act=ACT changed=AGENT ". */
static bool take_act(const char **text, struct message_voters *out)
{
    static const char act[] = "act=";
    static const char changed[] = "changed=";
    char word[MESSAGE_AGENT_MAX + 1];
    if (strncmp(*text, act, sizeof(act) - 1) != 0) {
        return false;
    }
    *text += sizeof(act) - 1;
    if (!take_word(text, " ", word, sizeof(word)) ||
        strncmp(*text, changed, sizeof(changed) - 1) != 0) {
        return false;
    }
    while (out->act < MESSAGE_MEMBER_END && strcmp(word, ACT_TEXT[out->act]) != 0) {
        out->act++;
    }
    *text += sizeof(changed) - 1;
    if (out->act == MESSAGE_MEMBER_END || !take_word(text, " ", word, sizeof(word))) {
        return false;
    }
    if (strcmp(word, NONE) != 0) {
        message_agent_set(&out->changed, word, strlen(word));
    }
    return true;
}

static bool voters_from_text(const char *text, struct message_voters *out)
{
    static const char cell_id[] = "cell_id=";
    static const char voters[] = "voters=";
    uint64_t number = 0;
    uint64_t complete = 0;
    uint64_t recoveries = 0;
    uint64_t next = 0;
    memset(out, 0, sizeof(*out));
    if (!take_number(&text, "number=", UINT32_MAX, &number) ||
        !take_number(&text, "complete=", 1, &complete) || !take_act(&text, out) ||
        !take_number(&text, "recoveries=", UINT32_MAX, &recoveries) ||
        strncmp(text, cell_id, sizeof(cell_id) - 1) != 0) {
        return false;
    }
    text += sizeof(cell_id) - 1;
    if (!take_id(&text, out->cell_id) ||
        !take_number(&text, "next_ballot_id=", UINT16_MAX, &next) ||
        strncmp(text, voters, sizeof(voters) - 1) != 0) {
        return false;
    }
    text += sizeof(voters) - 1;
    out->number = (uint32_t)number;
    out->complete = complete != 0;
    out->recoveries = (uint32_t)recoveries;
    out->next_ballot_id = (uint16_t)next;
    while (*text != '\0') {
        if (out->count == MESSAGE_VOTERS_MAX || !take_voter(&text, &out->of[out->count])) {
            return false;
        }
        out->count++;
    }
    return voters_valid(out);
}

static bool change_from_text(const char *text, struct quorum_change *out)
{
    static const char next[] = "next=";
    uint64_t number = 0;
    memset(out, 0, sizeof(*out));
    if (!take_number(&text, "number=", UINT32_MAX, &number) ||
        !take_number(&text, "promised=", MESSAGE_BALLOT_LIMIT - 1, &out->promised) ||
        !take_number(&text, "accepted=", MESSAGE_BALLOT_LIMIT - 1, &out->accepted) ||
        strncmp(text, next, sizeof(next) - 1) != 0) {
        return false;
    }
    text += sizeof(next) - 1;
    out->number = (uint32_t)number;
    if ((out->accepted != 0) != (*text != '\0')) {
        return false;
    }
    return out->accepted == 0 ||
           (voters_from_text(text, &out->voters) && out->voters.number == out->number);
}

/* ---- rows ---- */

bool store_voters(struct store *store, struct message_voters *voters, bool *found)
{
    sqlite3_stmt *row = NULL;
    const char *text;
    bool done = store_find_meta(store, "voters", &row, &text);
    *found = done && text != NULL && voters_from_text(text, voters);
    if (done && text != NULL && !*found) {
        done = store_fail(store, "damaged: meta has voters \"%.256s\"", text);
    }
    sqlite3_finalize(row);
    return done;
}

bool store_change_of_voters(struct store *store, struct quorum_change *change, bool *found)
{
    sqlite3_stmt *row = NULL;
    const char *text;
    bool done = store_find_meta(store, "change", &row, &text);
    *found = done && text != NULL && change_from_text(text, change);
    if (done && text != NULL && !*found) {
        done = store_fail(store, "damaged: meta has change \"%.256s\"", text);
    }
    sqlite3_finalize(row);
    return done;
}

/* What `seen` says, as an agent looks for its own row. */
struct seen_rows {
    const struct message_agent *agent;
    struct quorum_seen *own; /* NULL: not wanted */
    bool others;
};

static bool look_at_seen(void *arg, const struct quorum_seen *row)
{
    struct seen_rows *rows = arg;
    bool own = memcmp(&row->voter, rows->agent, sizeof(row->voter)) == 0;
    rows->others = rows->others || !own;
    if (own && rows->own != NULL) {
        *rows->own = *row;
    }
    return true;
}

bool store_opened(struct store *store, const struct message_agent *agent, struct quorum_seen *row)
{
    struct seen_rows rows = {.agent = agent, .own = row};
    struct store_reader reader = {.arg = &rows, .seen = look_at_seen};
    memset(row, 0, sizeof(*row));
    return store_load(store, &reader);
}

bool store_has_voted(struct store *store, const struct message_agent *agent, bool *voted)
{
    sqlite3_int64 count = 0;
    struct seen_rows rows = {.agent = agent};
    struct store_reader reader = {.arg = &rows, .seen = look_at_seen};
    bool done = store_query_number(store,
                                   "SELECT (SELECT count(*) FROM promise)"
                                   " + (SELECT count(*) FROM member)"
                                   " + (SELECT count(*) FROM mark)"
                                   " + EXISTS(SELECT 1 FROM register)"
                                   " + EXISTS(SELECT 1 FROM checkpoint)",
                                   &count) &&
                store_load(store, &reader);
    *voted = count > 0 || rows.others;
    return done;
}

static bool put_text(struct store *store, const char *key, const char *text, size_t length)
{
    sqlite3_stmt *statement = store->statements[PUT_META];
    store_bind_text(statement, 1, key, strlen(key));
    store_bind_text(statement, 2, text, length);
    store_bind_number(statement, 3, store->commit);
    return store_change(store, PUT_META);
}

bool store_retire(struct store *store, const struct message_agent *agent, struct store_meta *meta)
{
    static const char emptied[] = "DELETE FROM promise; DELETE FROM register; DELETE FROM mark;"
                                  "DELETE FROM checkpoint; DELETE FROM member; DELETE FROM seen;"
                                  "DELETE FROM meta WHERE key = 'change';"
                                  "UPDATE meta SET value = 0 WHERE key IN ('round', 'rejoin');";
    uint64_t commit = 0;
    struct action opened = {.kind = ACTION_PERSIST_SEEN};
    struct quorum_seen *row = &opened.as.seen;
    if (!store_opened(store, agent, row) || !store_begin(store)) {
        return false;
    }
    if (row->commit == 0) {
        quorum_opened_row(agent, meta->store_id, meta->commit, row);
    }
    store->deleted = true;
    store->failed = !store_run(store, emptied, "cannot be emptied");
    if (!store_put_action(store, &opened) || !store_commit(store, &commit)) {
        return false;
    }
    meta->round = 0;
    meta->rejoin = false;
    meta->commit = commit;
    return true;
}

/* Makes sure that no older release starts with the store. Called within a transaction. */
static bool note_changed(struct store *store)
{
    char version[48];
    if (store->changed) {
        return true;
    }
    snprintf(version, sizeof(version), "PRAGMA user_version=%d;", (int)STORE_FORMAT_CHANGED);
    store->failed = store->failed || !store_run(store, version, "cannot be marked");
    store->changed = !store->failed;
    return store->changed;
}

bool store_put_voters(struct store *store, const struct message_voters *voters)
{
    char text[VOTERS_TEXT_MAX];
    size_t length = voters_to_text(voters, text);
    return put_text(store, "voters", text, length) && (voters->number < 2 || note_changed(store));
}

bool store_put_change(struct store *store, const struct quorum_change *change)
{
    char text[CHANGE_TEXT_MAX];
    int used = snprintf(text, sizeof(text),
                        "number=%" PRIu32 " promised=%" PRIu64 " accepted=%" PRIu64 " next=",
                        change->number, change->promised, change->accepted);
    size_t length = (size_t)used;
    if (change->accepted != 0) {
        length += voters_to_text(&change->voters, text + used);
    }
    return put_text(store, "change", text, length) && note_changed(store);
}
