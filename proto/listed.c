/*
 * A page of LISTED, which the agent builds lock by lock, and the client reads with a cursor.
 *
 *   [kind, request, more, [lock...]]
 *   lock  = [name, state, closed_ns, age_ns, coordinator, holder_count, more_parties, [party...],
 *            behind]
 *   party = [pid, uid, elapsed_ns, remaining_ns, token, mode, agent, command, note]
 *   behind = [ending, elapsed_ns, pid, uid, agent, command, by_uid, by_agent, note]
 *
 * The parties of a lock are its holders, then its waiters in the order of the queue. `behind` is
 * optional: an agent that knows none of its values leaves it out. A `note` is optional, too. A
 * reader skips further elements of a lock, a party and of `behind`, which a later release may add.
 * The number of locks is known only at
 * the end. So the head of the array of locks always has the form with a 16-bit count, and the
 * builder overwrites the page's head at the end.
 *
 * The agent takes the values from regions and from /proc, where other processes can write any
 * bytes. So the builder corrects values that are out of range instead of refusing them. Times below
 * -1 become 0, and an impossible pid or uid becomes -1. Commands are cut, and '?' replaces control
 * characters, because a command line must not control the terminal that shows it.
 */
#include "fields.h"

#include "holdfast/admin.h"
#include "proto/check.h"

#include <string.h>

enum {
    PAGE_FIELDS = 4,
    LOCK_ELEMENTS = 8, /* counts the array of parties, but not the optional elements */
    LOCK_ELEMENTS_MAX = 16,
    PARTY_ELEMENTS = 8, /* without the note */
    PARTY_ELEMENTS_MAX = 16,
    BEHIND_ELEMENTS = 8,
    BEHIND_ELEMENTS_MAX = 16,
    /* room for the page's head (15 bytes) and the largest lock without parties (320 bytes, and 530
     * more for `behind`) */
    PAGE_SIZE_MIN = 1024,
};

static const struct hfi_field lock_fields[] = {
    HFI_TEXT(hfi_lock_frame, name, HFI_TEXT_NAME),
    HFI_INTEGER(hfi_lock_frame, state, HF_STATE_FREE, HF_STATE_SHARED),
    HFI_INTEGER(hfi_lock_frame, closed_ns, -1, INT64_MAX),
    HFI_INTEGER(hfi_lock_frame, age_ns, -1, INT64_MAX),
    HFI_TEXT(hfi_lock_frame, coordinator, HFI_TEXT_LABEL_OR_NONE),
    HFI_INTEGER(hfi_lock_frame, holder_count, 0, HFI_FRAME_PARTIES_MAX),
    HFI_BOOL(hfi_lock_frame, more_parties),
};

static const struct hfi_field party_fields[] = {
    HFI_INTEGER(hfi_party_frame, pid, -1, INT32_MAX),
    HFI_INTEGER(hfi_party_frame, uid, -1, UINT32_MAX),
    HFI_INTEGER(hfi_party_frame, elapsed_ns, -1, INT64_MAX),
    HFI_INTEGER(hfi_party_frame, remaining_ns, -1, INT64_MAX),
    HFI_INTEGER(hfi_party_frame, token, 0, UINT64_MAX),
    HFI_INTEGER(hfi_party_frame, mode, HF_EXCLUSIVE, HF_SHARED),
    HFI_TEXT(hfi_party_frame, agent, HFI_TEXT_LABEL_OR_NONE),
    HFI_TEXT(hfi_party_frame, command, HFI_TEXT_COMMAND),
};

static const struct hfi_field behind_fields[] = {
    HFI_INTEGER(hfi_behind_frame, ending, 0, UINT8_MAX),
    HFI_INTEGER(hfi_behind_frame, elapsed_ns, -1, INT64_MAX),
    HFI_INTEGER(hfi_behind_frame, pid, -1, INT32_MAX),
    HFI_INTEGER(hfi_behind_frame, uid, -1, UINT32_MAX),
    HFI_TEXT(hfi_behind_frame, agent, HFI_TEXT_LABEL_OR_NONE),
    HFI_TEXT(hfi_behind_frame, command, HFI_TEXT_COMMAND),
    HFI_INTEGER(hfi_behind_frame, by_uid, -1, UINT32_MAX),
    HFI_TEXT(hfi_behind_frame, by_agent, HFI_TEXT_LABEL_OR_NONE),
};

static const struct hfi_field party_note_fields[] = {
    HFI_TEXT(hfi_party_frame, note, HFI_TEXT_NOTE),
};

static const struct hfi_field behind_note_fields[] = {
    HFI_TEXT(hfi_behind_frame, note, HFI_TEXT_NOTE),
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

_Static_assert(COUNT(lock_fields) + 1 == LOCK_ELEMENTS, "a lock's fields and its parties");
_Static_assert(COUNT(party_fields) == PARTY_ELEMENTS, "a party's fields");
_Static_assert(COUNT(behind_fields) == BEHIND_ELEMENTS, "the fields of `behind`");

/* ---- reading ---- */

bool hfi_read_lock(struct hfi_reader *reader, struct hfi_lock_frame *out, uint32_t *parties,
                   uint32_t *further)
{
    uint32_t length;

    if (!hfi_read_array(reader, 0, NULL, LOCK_ELEMENTS, LOCK_ELEMENTS_MAX, &length) ||
        !hfi_read_fields(reader, lock_fields, COUNT(lock_fields), 0, out) ||
        !hfi_read_array(reader, COUNT(lock_fields), "parties", out->holder_count,
                        out->holder_count + HFI_FRAME_PARTIES_MAX, parties)) {
        return false;
    }
    out->waiter_count = *parties - out->holder_count;
    out->behind = NULL;
    *further = length - LOCK_ELEMENTS;
    return true;
}

/* Skips elements that this release does not know. */
static bool skip_unknown(struct hfi_reader *reader, uint32_t field_index, uint32_t count)
{
    if (hfi_skip_items(reader, count)) {
        return true;
    }
    hfi_reader_fail(reader, field_index, NULL, "an incomplete element, or one of another type",
                    "elements of the protocol's types");
    return false;
}

/* Reads the note, which is the first element after `elements` others, and skips those after it. */
static bool read_optional(struct hfi_reader *reader, const struct hfi_field *note_field,
                          uint32_t elements, uint32_t length, void *out, struct hfi_text *note)
{
    *note = (struct hfi_text){NULL, 0};
    return length == elements || (hfi_read_fields(reader, note_field, 1, elements, out) &&
                                  skip_unknown(reader, elements + 1, length - elements - 1));
}

bool hfi_read_further(struct hfi_reader *reader, uint32_t further, struct hfi_behind_frame *out)
{
    uint32_t length;

    if (further == 0) {
        return true;
    }
    return hfi_read_array(reader, LOCK_ELEMENTS, "behind", BEHIND_ELEMENTS, BEHIND_ELEMENTS_MAX,
                          &length) &&
           hfi_read_fields(reader, behind_fields, COUNT(behind_fields), 0, out) &&
           read_optional(reader, behind_note_fields, BEHIND_ELEMENTS, length, out, &out->note) &&
           skip_unknown(reader, LOCK_ELEMENTS + 1, further - 1);
}

bool hfi_read_party(struct hfi_reader *reader, struct hfi_party_frame *out)
{
    uint32_t length;

    return hfi_read_array(reader, 0, NULL, PARTY_ELEMENTS, PARTY_ELEMENTS_MAX, &length) &&
           hfi_read_fields(reader, party_fields, COUNT(party_fields), 0, out) &&
           read_optional(reader, party_note_fields, PARTY_ELEMENTS, length, out, &out->note);
}

static struct hfi_reader reader_of(const struct hfi_listed_cursor *cursor)
{
    return (struct hfi_reader){.at = cursor->at, .end = cursor->end, .party_index = UINT32_MAX};
}

bool hfi_listed_next_party(struct hfi_listed_cursor *cursor, struct hfi_party_frame *out)
{
    struct hfi_reader reader = reader_of(cursor);

    if (cursor->parties_left == 0) {
        return false;
    }
    if (!hfi_read_party(&reader, out)) {
        /* the caller has changed the packet since hfi_frame_decode() checked it */
        memset(cursor, 0, sizeof *cursor);
        return false;
    }
    cursor->at = reader.at;
    cursor->parties_left--;
    return true;
}

bool hfi_listed_behind(struct hfi_listed_cursor *cursor, struct hfi_behind_frame *out)
{
    struct hfi_party_frame skipped;
    struct hfi_reader reader;
    uint32_t further;

    while (hfi_listed_next_party(cursor, &skipped)) {
        /* skips those parties of the lock that the caller has not read */
    }
    reader = reader_of(cursor);
    further = cursor->further_left;
    cursor->further_left = 0;
    if (further == 0) {
        return false;
    }
    if (!hfi_read_further(&reader, further, out)) {
        memset(cursor, 0, sizeof *cursor);
        return false;
    }
    cursor->at = reader.at;
    return true;
}

bool hfi_listed_next_lock(struct hfi_listed_cursor *cursor, struct hfi_lock_frame *out)
{
    struct hfi_behind_frame skipped;
    struct hfi_reader reader;

    (void)hfi_listed_behind(cursor, &skipped); /* skips what is left of the previous lock */
    if (cursor->locks_left == 0) {
        return false;
    }
    reader = reader_of(cursor);
    if (!hfi_read_lock(&reader, out, &cursor->parties_left, &cursor->further_left)) {
        memset(cursor, 0, sizeof *cursor);
        return false;
    }
    cursor->at = reader.at;
    cursor->locks_left--;
    return true;
}

/* ---- building ---- */

static void write_head(struct hfi_writer *writer, uint64_t request, bool more, uint32_t lock_count)
{
    const unsigned char locks[] = {0xdc, (unsigned char)(lock_count >> 8),
                                   (unsigned char)lock_count};

    hfi_write_array(writer, PAGE_FIELDS);
    hfi_write_unsigned(writer, HFI_FRAME_LISTED);
    hfi_write_unsigned(writer, request);
    hfi_write_bool(writer, more);
    hfi_write_raw(writer, locks, sizeof locks);
}

void hfi_listed_begin(struct hfi_listed_builder *builder, void *buffer, size_t size,
                      uint64_t request)
{
    struct hfi_writer writer = {.bytes = buffer,
                                .size = size < HFI_FRAME_MAX ? size : HFI_FRAME_MAX};

    HF_CHECK(size >= PAGE_SIZE_MIN);
    HF_CHECK(request > 0);
    write_head(&writer, request, false, 0);
    HF_CHECK(!writer.failed);
    *builder = (struct hfi_listed_builder){
        .buffer = buffer, .size = writer.size, .used = writer.used, .request = request};
}

static int64_t time_shown(int64_t time_ns)
{
    return time_ns < -1 ? 0 : time_ns;
}

/* Copies the text to `cleaned`, up to max bytes. '?' replaces bytes that are not text. */
static struct hfi_text text_shown(struct hfi_text text, uint32_t max, char *cleaned)
{
    size_t used = 0;
    size_t at = 0;

    while (at < text.size) {
        size_t size = hfi_utf8_size(text.bytes + at, text.size - at);
        size_t shown = size > 0 ? size : 1;

        if (used + shown > max) {
            break;
        }
        if (size > 0) {
            memcpy(cleaned + used, text.bytes + at, size);
        } else {
            cleaned[used] = '?';
        }
        used += shown;
        at += shown;
    }
    return (struct hfi_text){.bytes = cleaned, .size = (uint32_t)used};
}

struct hfi_text hfi_command_shown(struct hfi_text command, char *cleaned)
{
    return text_shown(command, HFI_FRAME_COMMAND_MAX, cleaned);
}

struct hfi_text hfi_note_shown(struct hfi_text note, uint32_t max, char *cleaned)
{
    return text_shown(note, max < HFI_FRAME_NOTE_MAX ? max : HFI_FRAME_NOTE_MAX, cleaned);
}

struct hfi_text hfi_command_of(const char *words, size_t size, char *cleaned)
{
    /* 4 bytes more than the limit, so that a character which crosses the limit is complete */
    char joined[HFI_FRAME_COMMAND_MAX + 4];
    size_t used = size < sizeof joined ? size : sizeof joined;
    struct hfi_text shown;

    for (size_t i = 0; i < used; i++) {
        joined[i] = words[i] == '\0' ? ' ' : words[i];
    }
    shown = hfi_command_shown((struct hfi_text){.bytes = joined, .size = (uint32_t)used}, cleaned);
    while (shown.size > 0 && cleaned[shown.size - 1] == ' ') {
        shown.size--;
    }
    return shown;
}

static int64_t number_shown(int64_t number, int64_t max)
{
    return number < -1 || number > max ? -1 : number;
}

void hfi_write_party(struct hfi_writer *writer, const struct hfi_party_frame *party,
                     uint32_t note_max)
{
    char cleaned[HFI_FRAME_COMMAND_MAX];
    char cleaned_note[HFI_FRAME_NOTE_MAX];
    struct hfi_party_frame shown = *party;

    HF_CHECK(party->mode <= HF_SHARED && hfi_text_fits(HFI_TEXT_LABEL_OR_NONE, party->agent));
    shown.pid = number_shown(party->pid, INT32_MAX);
    shown.uid = number_shown(party->uid, UINT32_MAX);
    shown.elapsed_ns = time_shown(party->elapsed_ns);
    shown.remaining_ns = time_shown(party->remaining_ns);
    shown.command = hfi_command_shown(party->command, cleaned);
    shown.note = hfi_note_shown(party->note, note_max, cleaned_note);
    hfi_write_array(writer, PARTY_ELEMENTS + (shown.note.size > 0 ? 1 : 0));
    hfi_write_fields(writer, party_fields, COUNT(party_fields), &shown);
    hfi_write_fields(writer, party_note_fields, shown.note.size > 0 ? 1 : 0, &shown);
}

static void write_behind(struct hfi_writer *writer, const struct hfi_behind_frame *behind)
{
    char cleaned[HFI_FRAME_COMMAND_MAX];
    char cleaned_note[HFI_FRAME_NOTE_MAX];
    struct hfi_behind_frame shown;

    if (behind == NULL) {
        return;
    }
    HF_CHECK(hfi_text_fits(HFI_TEXT_LABEL_OR_NONE, behind->agent) &&
             hfi_text_fits(HFI_TEXT_LABEL_OR_NONE, behind->by_agent));
    shown = *behind;
    shown.ending = behind->ending > UINT8_MAX ? 0 : behind->ending;
    shown.elapsed_ns = time_shown(behind->elapsed_ns);
    shown.pid = number_shown(behind->pid, INT32_MAX);
    shown.uid = number_shown(behind->uid, UINT32_MAX);
    shown.by_uid = number_shown(behind->by_uid, UINT32_MAX);
    shown.command = hfi_command_shown(behind->command, cleaned);
    shown.note = hfi_note_shown(behind->note, HFI_FRAME_NOTE_MAX, cleaned_note);
    hfi_write_array(writer, BEHIND_ELEMENTS + (shown.note.size > 0 ? 1 : 0));
    hfi_write_fields(writer, behind_fields, COUNT(behind_fields), &shown);
    hfi_write_fields(writer, behind_note_fields, shown.note.size > 0 ? 1 : 0, &shown);
}

/* Writes the lock and the head of its array of parties, without the parties. */
static void write_lock(struct hfi_writer *writer, const struct hfi_lock_frame *lock)
{
    struct hfi_lock_frame shown = *lock;

    shown.closed_ns = time_shown(lock->closed_ns);
    shown.age_ns = time_shown(lock->age_ns);
    hfi_write_array(writer, lock->behind != NULL ? LOCK_ELEMENTS + 1 : LOCK_ELEMENTS);
    hfi_write_fields(writer, lock_fields, COUNT(lock_fields), &shown);
    hfi_write_array(writer, shown.holder_count + shown.waiter_count);
}

/* Leaves out parties until the lock fits into `room` bytes: first waiters from the end, then
 * holders from the end. */
static void lock_cut(struct hfi_lock_frame *lock, const struct hfi_party_frame *holders,
                     const struct hfi_party_frame *waiters, size_t room)
{
    struct hfi_writer counter = {.size = room};
    uint32_t holder_count = 0;
    uint32_t waiter_count = 0;

    /* counts the bytes of the lock's head, which does not grow when parties are left out, and of
     * `behind` */
    write_lock(&counter, lock);
    write_behind(&counter, lock->behind);
    while (holder_count < lock->holder_count) {
        hfi_write_party(&counter, &holders[holder_count], HFI_FRAME_NOTE_MAX);
        if (counter.failed) {
            break;
        }
        holder_count++;
    }
    while (!counter.failed && waiter_count < lock->waiter_count) {
        hfi_write_party(&counter, &waiters[waiter_count], HFI_FRAME_NOTE_MAX);
        if (counter.failed) {
            break;
        }
        waiter_count++;
    }
    lock->more_parties = lock->more_parties || counter.failed;
    lock->holder_count = holder_count;
    lock->waiter_count = waiter_count;
}

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

bool hfi_listed_add(struct hfi_listed_builder *builder, const struct hfi_lock_frame *lock,
                    const struct hfi_party_frame *parties)
{
    struct hfi_writer writer = {
        .bytes = builder->buffer, .size = builder->size, .used = builder->used};
    const struct hfi_party_frame *waiters = lock->waiter_count > 0 ? parties + lock->holder_count
                                                                   : NULL;
    struct hfi_lock_frame shown = *lock;

    HF_CHECK(hfi_text_fits(HFI_TEXT_NAME, lock->name) && lock->state <= HF_STATE_SHARED);
    HF_CHECK(hfi_text_fits(HFI_TEXT_LABEL_OR_NONE, lock->coordinator));
    if (builder->lock_count == HFI_FRAME_LOCKS_MAX) {
        return false;
    }
    shown.holder_count = least(lock->holder_count, HFI_FRAME_PARTIES_MAX);
    shown.waiter_count = least(lock->waiter_count, HFI_FRAME_PARTIES_MAX);
    shown.more_parties = lock->more_parties || shown.holder_count < lock->holder_count ||
                         shown.waiter_count < lock->waiter_count;
    if (builder->lock_count == 0) {
        lock_cut(&shown, parties, waiters, builder->size - builder->used);
    }
    write_lock(&writer, &shown);
    for (uint32_t i = 0; i < shown.holder_count; i++) {
        hfi_write_party(&writer, &parties[i], HFI_FRAME_NOTE_MAX);
    }
    for (uint32_t i = 0; i < shown.waiter_count; i++) {
        hfi_write_party(&writer, &waiters[i], HFI_FRAME_NOTE_MAX);
    }
    write_behind(&writer, shown.behind);
    if (writer.failed) {
        return false;
    }
    builder->used = writer.used;
    builder->lock_count++;
    return true;
}

size_t hfi_listed_finish(struct hfi_listed_builder *builder, bool more)
{
    struct hfi_writer writer = {.bytes = builder->buffer, .size = builder->size};

    write_head(&writer, builder->request, more, builder->lock_count);
    HF_CHECK(!writer.failed);
    return builder->used;
}
