/* A page of LISTED: the cursor reads what was built. Parties that do not fit are left out, and the
 * page says so. */
#include "frame_samples.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "../suite_main.h"

enum { MANY = HFI_FRAME_PARTIES_MAX + 6 };

static unsigned char page[HFI_FRAME_MAX];
static struct hfi_frame frame;
static struct hfi_listed_cursor cursor;
static struct hfi_frame_error error;
static struct hfi_listed_builder builder;
static struct hfi_lock_frame lock;
static struct hfi_party_frame party;
static struct hfi_party_frame parties[2 * MANY];

static void finish_and_decode(bool more)
{
    size_t size = hfi_listed_finish(&builder, more);

    ck_assert_uint_le(size, builder.size);
    ck_assert_msg(hfi_frame_decode(page, size, &frame, &cursor, &error) == 0, "%s", error.text);
    ck_assert_int_eq(frame.kind, HFI_FRAME_LISTED);
    ck_assert_uint_eq(frame.request, 9);
    ck_assert_int_eq(frame.listed.more, more);
}

static struct hfi_lock_frame lock_named(const char *name)
{
    return (struct hfi_lock_frame){.name = sample_text(name), .age_ns = -1};
}

static void ck_assert_text_eq(struct hfi_text text, const char *expected)
{
    ck_assert_uint_eq(text.size, strlen(expected));
    ck_assert_mem_eq(text.bytes, expected, text.size);
}

/* Fills in parties; the pid of each is its index. */
static void fill_parties(const char *command)
{
    for (size_t i = 0; i < 2 * MANY; i++) {
        parties[i] = (struct hfi_party_frame){.pid = (int64_t)i,
                                              .uid = 1000,
                                              .elapsed_ns = 5,
                                              .remaining_ns = 6,
                                              .token = 7,
                                              .mode = 1,
                                              .agent = sample_text("host-a"),
                                              .command = sample_text(command)};
    }
}

START_TEST(test_read_back)
{
    struct hfi_lock_frame added = {.name = sample_text("db/x"),
                                   .state = 2,
                                   .closed_ns = 11,
                                   .age_ns = 12,
                                   .coordinator = sample_text("host-b"),
                                   .holder_count = 2,
                                   .waiter_count = 1,
                                   .more_parties = true};

    fill_parties("ls -l");
    hfi_listed_begin(&builder, page, sizeof page, 9);
    ck_assert(hfi_listed_add(&builder, &added, parties));
    added = lock_named("db/y");
    ck_assert(hfi_listed_add(&builder, &added, NULL));
    finish_and_decode(true);
    ck_assert_uint_eq(frame.listed.lock_count, 2);
    ck_assert(hfi_listed_next_lock(&cursor, &lock));
    ck_assert_text_eq(lock.name, "db/x");
    ck_assert_uint_eq(lock.state, 2);
    ck_assert_int_eq(lock.closed_ns, 11);
    ck_assert_int_eq(lock.age_ns, 12);
    ck_assert_text_eq(lock.coordinator, "host-b");
    ck_assert_uint_eq(lock.holder_count, 2);
    ck_assert_uint_eq(lock.waiter_count, 1);
    ck_assert(lock.more_parties);
    for (int i = 0; i < 3; i++) {
        ck_assert(hfi_listed_next_party(&cursor, &party));
        ck_assert_int_eq(party.pid, i);
        ck_assert_int_eq(party.uid, 1000);
        ck_assert_int_eq(party.elapsed_ns, 5);
        ck_assert_int_eq(party.remaining_ns, 6);
        ck_assert_uint_eq(party.token, 7);
        ck_assert_uint_eq(party.mode, 1);
        ck_assert_text_eq(party.agent, "host-a");
        ck_assert_text_eq(party.command, "ls -l");
    }
    ck_assert(!hfi_listed_next_party(&cursor, &party));
    ck_assert(hfi_listed_next_lock(&cursor, &lock));
    ck_assert_text_eq(lock.name, "db/y");
    ck_assert_int_eq(lock.age_ns, -1);
    ck_assert(!hfi_listed_next_party(&cursor, &party));
    ck_assert(!hfi_listed_next_lock(&cursor, &lock));
}
END_TEST

/* A party may have a note. It is cut and cleaned, and a reader skips what a later release adds. */
START_TEST(test_note)
{
    struct hfi_lock_frame added = {.name = sample_text("n"), .holder_count = 1, .waiter_count = 1};
    char text[2 * HFI_FRAME_NOTE_MAX];
    size_t size;

    memset(text, 'n', sizeof text);
    text[3] = '\x1b';
    fill_parties("ls -l");
    parties[0].note = (struct hfi_text){text, sizeof text};
    hfi_listed_begin(&builder, page, sizeof page, 9);
    ck_assert(hfi_listed_add(&builder, &added, parties));
    finish_and_decode(false);
    ck_assert(hfi_listed_next_lock(&cursor, &lock));
    ck_assert(hfi_listed_next_party(&cursor, &party));
    ck_assert_uint_eq(party.note.size, HFI_FRAME_NOTE_MAX);
    ck_assert_mem_eq(party.note.bytes, "nnn?nn", 6);
    ck_assert(hfi_listed_next_party(&cursor, &party));
    ck_assert_uint_eq(party.note.size, 0);
    parties[0].note = sample_text("now");
    hfi_listed_begin(&builder, page, sizeof page, 9);
    added.waiter_count = 0;
    ck_assert(hfi_listed_add(&builder, &added, parties));
    size = hfi_listed_finish(&builder, false);
    for (size_t at = 0; at + 5 < size; at++) {
        if (page[at] == 0x99 && page[at + 1] == 0) { /* the party, whose pid is 0 */
            page[at]++;
        }
    }
    page[size] = 0x07;
    ck_assert_msg(hfi_frame_decode(page, size + 1, &frame, &cursor, &error) == 0, "%s", error.text);
    ck_assert(hfi_listed_next_lock(&cursor, &lock));
    ck_assert(hfi_listed_next_party(&cursor, &party));
    ck_assert_text_eq(party.note, "now");
    ck_assert_int_eq(hfi_frame_decode(page, size, &frame, &cursor, &error), -1);
}
END_TEST

/* A BROKEN has room for the most holds and agents with the longest texts. Notes are cut if there
 * are many holds. */
START_TEST(test_broken_fits)
{
    static char text[HFI_FRAME_NOTE_MAX];
    struct hfi_text agents[HFI_FRAME_BROKEN_SILENT_MAX];
    struct hfi_broken_frame broken = {
        .silent_count = HFI_FRAME_BROKEN_SILENT_MAX, .closed_ns = INT64_MAX, .more = UINT32_MAX};

    memset(text, 't', sizeof text);
    for (size_t i = 0; i < HFI_FRAME_BROKEN_SILENT_MAX; i++) {
        agents[i] = (struct hfi_text){text, 32};
    }
    for (size_t i = 0; i < HFI_FRAME_BROKEN_HOLDS_MAX; i++) {
        parties[i] = (struct hfi_party_frame){.pid = INT32_MAX,
                                              .uid = UINT32_MAX,
                                              .elapsed_ns = INT64_MAX,
                                              .remaining_ns = INT64_MAX,
                                              .token = UINT64_MAX,
                                              .agent = {text, 32},
                                              .command = {text, HFI_FRAME_COMMAND_MAX},
                                              .note = {text, HFI_FRAME_NOTE_MAX}};
    }
    for (broken.hold_count = 0; broken.hold_count <= HFI_FRAME_BROKEN_HOLDS_MAX;
         broken.hold_count++) {
        size_t size = hfi_broken_encode(&broken, parties, agents, 9, page, sizeof page);
        uint32_t most = broken.hold_count > HFI_FRAME_BROKEN_HOLDS_MAX / 2 ? HFI_FRAME_NOTE_MAX / 2
                                                                           : HFI_FRAME_NOTE_MAX;

        ck_assert_uint_gt(size, 0);
        ck_assert_int_eq(hfi_frame_decode(page, size, &frame, &cursor, &error), 0);
        while (hfi_listed_next_party(&cursor, &party)) {
            ck_assert_uint_eq(party.note.size, most);
        }
    }
}
END_TEST

static const struct hfi_behind_frame sample_behind = {
    .ending = 2,
    .elapsed_ns = 21,
    .pid = 22,
    .uid = 23,
    .agent = {"host-c", 6},
    .command = {"sleep 9", 7},
    .by_uid = 24,
    .by_agent = {"host-d", 6},
};

/* In a page, the `behind` of a lock follows its parties. The cursor skips parties and a `behind`
 * that the caller does not read. */
START_TEST(test_behind)
{
    struct hfi_lock_frame added = lock_named("a");
    struct hfi_behind_frame behind;

    fill_parties("");
    added.holder_count = 1;
    added.waiter_count = 2;
    added.behind = &sample_behind;
    hfi_listed_begin(&builder, page, sizeof page, 9);
    ck_assert(hfi_listed_add(&builder, &added, parties));
    ck_assert(hfi_listed_add(&builder, &added, parties));
    added.behind = NULL;
    ck_assert(hfi_listed_add(&builder, &added, parties));
    finish_and_decode(false);
    ck_assert(hfi_listed_next_lock(&cursor, &lock));
    ck_assert(hfi_listed_next_party(&cursor, &party));
    ck_assert(hfi_listed_behind(&cursor, &behind));
    ck_assert_uint_eq(behind.ending, 2);
    ck_assert_int_eq(behind.elapsed_ns, 21);
    ck_assert_int_eq(behind.pid, 22);
    ck_assert_int_eq(behind.uid, 23);
    ck_assert_text_eq(behind.agent, "host-c");
    ck_assert_text_eq(behind.command, "sleep 9");
    ck_assert_int_eq(behind.by_uid, 24);
    ck_assert_text_eq(behind.by_agent, "host-d");
    ck_assert(!hfi_listed_behind(&cursor, &behind));
    ck_assert(!hfi_listed_next_party(&cursor, &party));
    ck_assert(hfi_listed_next_lock(&cursor, &lock)); /* the caller skips `behind` */
    ck_assert(hfi_listed_next_lock(&cursor, &lock));
    ck_assert_uint_eq(lock.waiter_count, 2);
    ck_assert(!hfi_listed_behind(&cursor, &behind));
    ck_assert(!hfi_listed_next_lock(&cursor, &lock));
}
END_TEST

/* The reader accepts a page of an earlier agent, which has no `behind`, and of a later one, in
 * which `behind` has more elements. */
START_TEST(test_behind_of_other_releases)
{
    static const char earlier[] = "\x94\x44\x09\xc2\xdc\x00\x01\x98\xa1n\x00\x07\x08\xa0\x00"
                                  "\xc2\x90";
    static const char later[] = "\x94\x44\x09\xc2\xdc\x00\x01\x9a\xa1n\x00\x07\x08\xa0\x00"
                                "\xc2\x90\x9a\x63\xff\xff\xff\xa0\xa0\xff\xa0\xa1n\x91\x05"
                                "\xa1z";
    struct hfi_behind_frame behind;

    hfi_listed_begin(&builder, page, sizeof page, 9);
    lock = lock_named("n");
    lock.closed_ns = 7;
    lock.age_ns = 8;
    ck_assert(hfi_listed_add(&builder, &lock, NULL));
    ck_assert_uint_eq(hfi_listed_finish(&builder, false), sizeof earlier - 1);
    ck_assert_mem_eq(page, earlier, sizeof earlier - 1);

    ck_assert_msg(hfi_frame_decode(later, sizeof later - 1, &frame, &cursor, &error) == 0, "%s",
                  error.text);
    ck_assert(hfi_listed_next_lock(&cursor, &lock));
    ck_assert_int_eq(lock.closed_ns, 7);
    ck_assert(hfi_listed_behind(&cursor, &behind));
    ck_assert_uint_eq(behind.ending, 0x63);
    ck_assert_int_eq(behind.pid, -1);
    ck_assert_text_eq(behind.agent, "");
    ck_assert_text_eq(behind.note, "n");
    ck_assert(!hfi_listed_next_lock(&cursor, &lock));
    ck_assert_int_ne(hfi_frame_decode(later, sizeof later - 3, &frame, &cursor, &error), 0);
}
END_TEST

/* The first lock of a page always has room for its `behind`. If necessary, parties are left out. */
START_TEST(test_behind_always_fits)
{
    struct hfi_lock_frame added = lock_named("n");
    struct hfi_behind_frame behind = sample_behind;
    char longest[300];

    memset(longest, 'c', sizeof longest);
    memcpy(longest, "a\x1b", 2);
    behind.command = (struct hfi_text){longest, sizeof longest};
    behind.pid = -7;
    behind.uid = INT64_C(1) << 33;
    behind.elapsed_ns = INT64_MIN;
    behind.ending = 1000;
    fill_parties("some command");
    added.holder_count = 1;
    added.waiter_count = 64;
    added.behind = &behind;
    hfi_listed_begin(&builder, page, 1024, 9);
    ck_assert(hfi_listed_add(&builder, &added, parties));
    finish_and_decode(false);
    ck_assert(hfi_listed_next_lock(&cursor, &lock));
    ck_assert(lock.more_parties);
    ck_assert_uint_eq(lock.holder_count, 1);
    ck_assert_uint_gt(lock.waiter_count, 5);
    ck_assert(hfi_listed_behind(&cursor, &behind));
    ck_assert_int_eq(behind.pid, -1);
    ck_assert_int_eq(behind.uid, -1);
    ck_assert_int_eq(behind.elapsed_ns, 0);
    ck_assert_uint_eq(behind.ending, 0);
    ck_assert_uint_eq(behind.command.size, HFI_FRAME_COMMAND_MAX);
    ck_assert_mem_eq(behind.command.bytes, "a?ccc", 5);
}
END_TEST

/* The cursor skips parties that the caller does not read. */
START_TEST(test_skip_parties)
{
    struct hfi_lock_frame added = lock_named("a");

    fill_parties("");
    added.holder_count = 3;
    added.waiter_count = 2;
    hfi_listed_begin(&builder, page, sizeof page, 9);
    ck_assert(hfi_listed_add(&builder, &added, parties));
    added.name = sample_text("b");
    ck_assert(hfi_listed_add(&builder, &added, parties));
    finish_and_decode(false);
    ck_assert(hfi_listed_next_lock(&cursor, &lock));
    ck_assert(hfi_listed_next_party(&cursor, &party));
    ck_assert(hfi_listed_next_lock(&cursor, &lock));
    ck_assert_text_eq(lock.name, "b");
    ck_assert(!hfi_listed_next_lock(&cursor, &lock));
    ck_assert(!hfi_listed_next_party(&cursor, &party));
}
END_TEST

START_TEST(test_page_is_full)
{
    struct hfi_lock_frame added = lock_named("n");

    hfi_listed_begin(&builder, page, sizeof page, 9);
    for (int i = 0; i < HFI_FRAME_LOCKS_MAX; i++) {
        ck_assert(hfi_listed_add(&builder, &added, NULL));
    }
    ck_assert(!hfi_listed_add(&builder, &added, NULL));
    finish_and_decode(true);
    ck_assert_uint_eq(frame.listed.lock_count, HFI_FRAME_LOCKS_MAX);
}
END_TEST

/* A lock that does not fit behind the other locks of a page is left out with all its parties, and
 * the page stays unchanged. */
START_TEST(test_left_out_whole)
{
    struct hfi_lock_frame added = lock_named("n");
    size_t used;

    fill_parties("a command of some length that takes its room");
    added.waiter_count = 60;
    hfi_listed_begin(&builder, page, 6000, 9);
    ck_assert(hfi_listed_add(&builder, &added, parties));
    used = builder.used;
    ck_assert(!hfi_listed_add(&builder, &added, parties));
    ck_assert_uint_eq(builder.used, used);
    finish_and_decode(true);
    ck_assert_uint_eq(frame.listed.lock_count, 1);
    ck_assert(hfi_listed_next_lock(&cursor, &lock));
    ck_assert_uint_eq(lock.waiter_count, 60);
    ck_assert(!lock.more_parties);
}
END_TEST

/* The first lock of a page always fits: parties are left out, the last ones first, until the lock
 * fits. */
START_TEST(test_first_always_fits)
{
    struct hfi_lock_frame added = lock_named("n");
    char longest[HFI_FRAME_COMMAND_MAX + 1];
    uint32_t told = 0;

    memset(longest, 'c', HFI_FRAME_COMMAND_MAX);
    longest[HFI_FRAME_COMMAND_MAX] = '\0';
    fill_parties(longest);
    added.holder_count = (uint32_t)_i;
    added.waiter_count = 64;
    hfi_listed_begin(&builder, page, 4096, 9);
    ck_assert(hfi_listed_add(&builder, &added, parties));
    finish_and_decode(false);
    ck_assert(hfi_listed_next_lock(&cursor, &lock));
    ck_assert(lock.more_parties);
    /* there is room for about 20 parties */
    ck_assert_uint_gt(lock.holder_count + lock.waiter_count, 15);
    ck_assert_uint_eq(lock.holder_count, _i < 16 ? (uint32_t)_i : lock.holder_count);
    while (hfi_listed_next_party(&cursor, &party)) {
        ck_assert_int_eq(party.pid, told);
        told++;
    }
    ck_assert_uint_eq(told, lock.holder_count + lock.waiter_count);
}
END_TEST

START_TEST(test_too_many_parties)
{
    struct hfi_lock_frame added = lock_named("n");

    fill_parties("");
    added.holder_count = MANY;
    added.waiter_count = MANY;
    hfi_listed_begin(&builder, page, sizeof page, 9);
    ck_assert(hfi_listed_add(&builder, &added, parties));
    finish_and_decode(false);
    ck_assert(hfi_listed_next_lock(&cursor, &lock));
    ck_assert(lock.more_parties);
    ck_assert_uint_eq(lock.holder_count, HFI_FRAME_PARTIES_MAX);
    ck_assert_uint_eq(lock.waiter_count, HFI_FRAME_PARTIES_MAX);
    for (int i = 0; i < 2 * HFI_FRAME_PARTIES_MAX; i++) {
        ck_assert(hfi_listed_next_party(&cursor, &party));
        ck_assert_int_eq(party.pid, i < HFI_FRAME_PARTIES_MAX ? i : i + 6);
    }
}
END_TEST

/* Bytes that other processes could write, in a region or a command line, are made fit for a
 * frame. */
START_TEST(test_made_to_fit)
{
    struct hfi_lock_frame added = lock_named("n");
    char longest[300];

    memset(longest, 'c', sizeof longest);
    memcpy(longest + HFI_FRAME_COMMAND_MAX - 1, "\xc3\xa4", 2);
    fill_parties("a\x1b[2J\xff\xc3\xa4\n");
    parties[0].pid = -7;
    parties[0].uid = INT64_C(1) << 33;
    parties[0].elapsed_ns = INT64_MIN;
    parties[0].remaining_ns = -2;
    parties[1].pid = INT64_MAX;
    parties[1].command = (struct hfi_text){.bytes = longest, .size = sizeof longest};
    added.holder_count = 2;
    added.closed_ns = -5;
    added.age_ns = INT64_MIN;
    hfi_listed_begin(&builder, page, sizeof page, 9);
    ck_assert(hfi_listed_add(&builder, &added, parties));
    finish_and_decode(false);
    ck_assert(hfi_listed_next_lock(&cursor, &lock));
    ck_assert_int_eq(lock.closed_ns, 0);
    ck_assert_int_eq(lock.age_ns, 0);
    ck_assert(hfi_listed_next_party(&cursor, &party));
    ck_assert_int_eq(party.pid, -1);
    ck_assert_int_eq(party.uid, -1);
    ck_assert_int_eq(party.elapsed_ns, 0);
    ck_assert_int_eq(party.remaining_ns, 0);
    ck_assert_text_eq(party.command, "a?[2J?\xc3\xa4?");
    ck_assert(hfi_listed_next_party(&cursor, &party));
    ck_assert_int_eq(party.pid, -1);
    /* the cut leaves no half character */
    ck_assert_uint_eq(party.command.size, HFI_FRAME_COMMAND_MAX - 1);
}
END_TEST

/* If a packet changes while the cursor reads it, the reading ends. */
START_TEST(test_changed_packet)
{
    size_t size = sample_page(2, page);

    ck_assert_int_eq(hfi_frame_decode(page, size, &frame, &cursor, &error), 0);
    ck_assert(hfi_listed_next_lock(&cursor, &lock));
    memset(page, 0xc1, sizeof page);
    ck_assert(!hfi_listed_next_party(&cursor, &party));
    ck_assert(!hfi_listed_next_lock(&cursor, &lock));
    ck_assert(!hfi_listed_next_party(&cursor, &party));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("listed");
    TCase *tcase = tcase_create("listed");

    tcase_add_test(tcase, test_read_back);
    tcase_add_test(tcase, test_note);
    tcase_add_test(tcase, test_broken_fits);
    tcase_add_test(tcase, test_behind);
    tcase_add_test(tcase, test_behind_of_other_releases);
    tcase_add_test(tcase, test_behind_always_fits);
    tcase_add_test(tcase, test_skip_parties);
    tcase_add_test(tcase, test_page_is_full);
    tcase_add_test(tcase, test_left_out_whole);
    tcase_add_loop_test(tcase, test_first_always_fits, 0, 65);
    tcase_add_test(tcase, test_too_many_parties);
    tcase_add_test(tcase, test_made_to_fit);
    tcase_add_test(tcase, test_changed_packet);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
