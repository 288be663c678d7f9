/* proto/ending.h: the notes that say why a hold was taken away. */
#include "proto/ending.h"

#include <check.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "../suite_main.h"
#include "proto/lockword.h"

enum { SLOT = 1, SEAT = 2, TOKEN = 7 };

static const struct hfi_region_sizes sizes = {.slot_count = 4, .holder_count = 8, .block_count = 2};
static const struct hfi_ending broken = {
    .kind = HFI_ENDING_BROKEN, .at_ns = 55, .uid = 1000, .agent = "host-b"};
static void *memory;
static struct hfi_region region;

static void setup(void)
{
    const struct hfi_region_identity identity = {.cell = "c", .agent = "a", .namespace_name = "n"};
    uint64_t size = hfi_region_size(&sizes);
    memory = aligned_alloc(HFI_HEADER_SIZE, size);
    ck_assert_ptr_nonnull(memory);
    memset(memory, 0, size);
    hfi_region_format(memory, &sizes, &identity);
    ck_assert_ptr_null(hfi_region_attach(memory, size, &region));
}

static void teardown(void)
{
    free(memory);
}

static bool read_writer(uint64_t token, struct hfi_ending *out)
{
    memset(out, 0x5a, sizeof(*out));
    return hfi_ending_read(&region, SLOT, HFI_SEAT_NONE, token, 0, out);
}

static bool read_reader(uint64_t cell, struct hfi_ending *out)
{
    memset(out, 0x5a, sizeof(*out));
    return hfi_ending_read(&region, SLOT, SEAT, TOKEN, cell, out);
}

START_TEST(a_region_of_an_earlier_release_has_no_note)
{
    struct hfi_ending ending;
    ck_assert(!read_writer(TOKEN, &ending));
    ck_assert_int_eq(ending.kind, HFI_ENDING_NONE);
    ck_assert_int_eq(ending.uid, -1);
    ck_assert_str_eq(ending.agent, "");
    ck_assert(!read_writer(0, &ending));
    ck_assert(!read_reader(1, &ending));
    ck_assert(!hfi_ending_last(&region, SLOT, &ending));
}
END_TEST

START_TEST(a_note_is_of_one_hold)
{
    struct hfi_ending ending;
    hfi_ending_note(&region, SLOT, TOKEN | HFI_W_MODE, &broken);
    ck_assert(read_writer(TOKEN, &ending));
    ck_assert_int_eq(ending.kind, HFI_ENDING_BROKEN);
    ck_assert_int_eq(ending.at_ns, 55);
    ck_assert_int_eq(ending.uid, 1000);
    ck_assert_str_eq(ending.agent, "host-b");
    ck_assert(!read_writer(TOKEN + 1, &ending));
    ck_assert(!read_reader(1, &ending));
    ck_assert(hfi_ending_last(&region, SLOT, &ending));
    ck_assert(!hfi_ending_last(&region, SLOT + 1, &ending));
}
END_TEST

START_TEST(a_note_holds_the_longest_name_and_every_user)
{
    struct hfi_ending full = broken;
    struct hfi_ending ending;
    memset(full.agent, 'z', HFI_LABEL_MAX);
    full.agent[HFI_LABEL_MAX] = '\0';
    full.uid = UINT32_MAX;
    hfi_ending_note(&region, SLOT, TOKEN, &full);
    ck_assert(read_writer(TOKEN, &ending));
    ck_assert_str_eq(ending.agent, full.agent);
    ck_assert_int_eq(ending.uid, UINT32_MAX);
    full.uid = 0;
    hfi_ending_note(&region, SLOT, TOKEN, &full);
    ck_assert(read_writer(TOKEN, &ending));
    ck_assert_int_eq(ending.uid, 0);
}
END_TEST

/* One break takes two readers' holds away. A third reader's hold ends later for another reason. */
START_TEST(readers_have_notes_of_their_own)
{
    const struct hfi_ending later = {.kind = HFI_ENDING_LEASE, .at_ns = 99, .uid = -1};
    struct hfi_ending ending;
    hfi_ending_note_reader(&region, SLOT, SEAT, 33, &broken);
    hfi_ending_note_reader(&region, SLOT, SEAT + 1, 34, &broken);
    ck_assert(read_reader(33, &ending));
    ck_assert_int_eq(ending.kind, HFI_ENDING_BROKEN);
    ck_assert_str_eq(ending.agent, "host-b");
    ck_assert(!read_reader(34, &ending));
    ck_assert(!read_writer(0, &ending));
    hfi_ending_note_reader(&region, SLOT, SEAT + 2, 35, &later);
    ck_assert(read_reader(33, &ending));
    ck_assert_int_eq(ending.kind, HFI_ENDING_BROKEN);
    ck_assert_int_eq(ending.uid, 1000);
    ck_assert_str_eq(ending.agent, "");
}
END_TEST

START_TEST(all_holds_of_a_slot_get_a_note)
{
    const struct hfi_ending session = {.kind = HFI_ENDING_SESSION, .at_ns = 5, .uid = -1};
    struct hfi_ending ending;
    hfi_ending_note_all(&region, SLOT, &session);
    ck_assert(!hfi_ending_last(&region, SLOT, &ending)); /* nobody holds the lock */
    region.words[SLOT].word = UINT64_C(3) << HFI_W_HOLDER_SHIFT | TOKEN;
    hfi_ending_note_all(&region, SLOT, &session);
    ck_assert(read_writer(TOKEN, &ending));
    ck_assert_int_eq(ending.kind, HFI_ENDING_SESSION);
    region.words[SLOT].word = HFI_W_CELLS | TOKEN;
    region.slots[SLOT].blocks = 1;
    hfi_seat(&region, SEAT)->reader = 33;
    hfi_ending_note_all(&region, SLOT, &session);
    ck_assert(read_reader(33, &ending));
    ck_assert_int_eq(ending.kind, HFI_ENDING_SESSION);
    ck_assert(!read_writer(TOKEN, &ending));
}
END_TEST

/* The number of the hold that was noted last: the token of an exclusive hold, and the cell of a
 * reader's hold. No number comes twice. Holds with an even number ended as in `broken`, holds with
 * an odd number as in `other`. */
static _Atomic uint64_t noted_last;
static _Atomic bool noted_enough;
static const struct hfi_ending other = {
    .kind = HFI_ENDING_BROKEN, .at_ns = 99, .uid = 77, .agent = "another-host-c"};

/* Writes the notes of one hold after another, each over the notes of the previous hold. */
static void *write_over(void *arg)
{
    (void)arg;
    for (uint64_t number = 2; !atomic_load(&noted_enough); number++) {
        const struct hfi_ending *ending = number % 2 == 0 ? &broken : &other;
        hfi_ending_note(&region, SLOT, number, ending);
        atomic_store(&noted_last, number);
        hfi_ending_note_reader(&region, SLOT, SEAT, number, ending);
    }
    return NULL;
}

/* If a note is overwritten while read_writer() or read_reader() reads it, the call finds no note,
 * rather than the note of another hold. */
START_TEST(a_note_that_is_written_over_is_not_known)
{
    enum { READS = 200000 };
    struct hfi_ending ending;
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, write_over, NULL), 0);
    for (int i = 0; i < READS; i++) {
        uint64_t number = atomic_load(&noted_last);
        const struct hfi_ending *noted = number % 2 == 0 ? &broken : &other;
        if (read_writer(number, &ending)) {
            ck_assert_int_eq(ending.uid, noted->uid);
            ck_assert_int_eq(ending.at_ns, noted->at_ns);
            ck_assert_str_eq(ending.agent, noted->agent);
        } else {
            ck_assert_int_eq(ending.uid, -1);
            ck_assert_str_eq(ending.agent, "");
        }
        if (number != 0 && read_reader(number, &ending)) {
            ck_assert_int_eq(ending.uid, noted->uid);
        }
    }
    atomic_store(&noted_enough, true);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
}
END_TEST

/* Every process of the namespace can write into the notes. */
START_TEST(forged_notes_are_refused_or_cleaned)
{
    struct hfi_ending ending;
    hfi_ending_note(&region, SLOT, TOKEN, &broken);
    region.words[SLOT].ending.what = HFI_ENDING_COUNT;
    ck_assert(!read_writer(TOKEN, &ending));
    ck_assert_int_eq(ending.kind, HFI_ENDING_NONE);
    hfi_ending_note(&region, SLOT, TOKEN, &broken);
    memset((void *)region.words[SLOT].ending.agent, '\033', HFI_LABEL_MAX);
    region.words[SLOT].ending.at_ns = UINT64_MAX;
    ck_assert(read_writer(TOKEN, &ending));
    ck_assert_str_eq(ending.agent, "");
    ck_assert_int_ge(ending.at_ns, 0);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("ending");
    tcase_set_timeout(tests, 60);
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, a_region_of_an_earlier_release_has_no_note);
    tcase_add_test(tests, a_note_is_of_one_hold);
    tcase_add_test(tests, a_note_holds_the_longest_name_and_every_user);
    tcase_add_test(tests, readers_have_notes_of_their_own);
    tcase_add_test(tests, all_holds_of_a_slot_get_a_note);
    tcase_add_test(tests, a_note_that_is_written_over_is_not_known);
    tcase_add_test(tests, forged_notes_are_refused_or_cleaned);
    return suite_main("ending", tests);
}
