/* How long a note stays, and how many there is room for. test_host_gossip.c has the tests of what
 * other hosts show. */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "../suite_main.h"
#include "host_rig.h"

enum { HANDLES = 8192 };

static struct rig *rig;

static void setup(void)
{
    rig = rig_create(256, 8, HANDLES, 16);
    rig->unchecked = true;
    rig_begin(rig);
}

static void teardown(void)
{
    rig_destroy(rig);
}

/* Sends NOTE. Returns the error in the answer. */
static int32_t set_note(uint32_t client, uint32_t handle, uint32_t flags, const char *text)
{
    struct hfi_frame frame = {
        .kind = HFI_FRAME_NOTE,
        .note = {.handle = handle, .flags = flags, .note = {text, (uint32_t)strlen(text)}}};
    int32_t error = rig_ask(rig, client, &frame)->frame.error;
    rig->reply_count = 0;
    return error;
}

static struct rig_reply *show(uint32_t client, const char *name, struct hfi_lock_frame *lock)
{
    struct rig_reply *reply = rig_text(rig, client, HFI_FRAME_SHOW, name);
    ck_assert(hfi_listed_next_lock(&reply->cursor, lock));
    rig->reply_count = 0;
    return reply;
}

/* While the connection was broken, the process took its note away. So it sends none when it opens
 * the handle again. */
START_TEST(a_handle_that_is_opened_again_has_no_old_note)
{
    uint32_t client = rig_connect(rig, HOST_MAY_USE);
    uint64_t nonce = rig_find(rig, client, HFI_FRAME_WELCOME)->frame.welcome.nonce;
    uint32_t looker = rig_connect(rig, HOST_MAY_USE);
    struct hfi_opened opened = rig_open_granted(rig, client, "x", 0);
    ck_assert_int_eq(set_note(client, opened.handle, 0, "old"), 0);
    (void)rig_take(rig, &opened);
    struct hfi_lock_frame shown;
    struct hfi_party_frame party;
    struct rig_reply *reply = show(looker, "x", &shown);
    ck_assert(hfi_listed_next_party(&reply->cursor, &party));
    ck_assert_uint_eq(party.note.size, 3);
    rig_hang_up(rig, client);
    rig_connect_again(rig, client, nonce);
    const struct rig_reply *again = rig_resume(rig, client, "x", &opened);
    ck_assert_int_eq(again->frame.kind, HFI_FRAME_OPENED);
    opened = again->frame.opened;
    (void)show(looker, "x", &shown);
    if (shown.holder_count == 0) { /* the hold has ended with the connection */
        (void)rig_take(rig, &opened);
    }
    reply = show(looker, "x", &shown);
    ck_assert_uint_eq(shown.holder_count, 1);
    ck_assert(hfi_listed_next_party(&reply->cursor, &party));
    ck_assert_uint_eq(party.note.size, 0);
}
END_TEST

/* A user other than root may have half of the notes. A note that finds no room is dropped, the
 * handle works, and the log names the table once. */
START_TEST(notes_have_a_limit)
{
    enum { LOCKS = 128, NOTES = HANDLES / 16 };
    char name[16];
    struct hfi_frame frame = {.kind = HFI_FRAME_NOTE};
    struct hfi_opened opened = {0};
    rig->uid = 1000;
    uint32_t client = rig_connect(rig, HOST_MAY_USE);
    ck_assert_int_eq(set_note(client, 7, 0, "no handle"), HF_EINVAL);
    for (uint32_t i = 0; i < NOTES / 2; i++) {
        snprintf(name, sizeof(name), "n%u", i % LOCKS);
        opened = i < LOCKS ? rig_open_granted(rig, client, name, 0)
                           : rig_open(rig, client, name, 0)->frame.opened;
        rig->reply_count = rig->send_count = 0;
        ck_assert_int_eq(set_note(client, opened.handle, 0, "note"), 0);
        ck_assert_int_eq(set_note(client, opened.handle, 0, "another"), 0);
    }
    uint32_t last = opened.handle;
    opened = rig_open(rig, client, "n0", 0)->frame.opened;
    frame.note.handle = opened.handle;
    frame.note.note = (struct hfi_text){"note", 4};
    struct rig_reply *reply = rig_ask(rig, client, &frame);
    ck_assert_int_eq(reply->frame.error, HF_EFULL);
    ck_assert_uint_eq(reply->frame.full.table, HFI_TABLE_NOTES);
    ck_assert(reply->frame.full.share);
    ck_assert_uint_eq(reply->frame.full.room, NOTES / 2);
    rig->uid = 1001;
    uint32_t another = rig_connect(rig, HOST_MAY_USE);
    opened = rig_open(rig, another, "n1", 0)->frame.opened;
    rig->reply_count = 0;
    ck_assert_int_eq(set_note(another, opened.handle, 0, "note"), 0);
    ck_assert_int_eq(set_note(another, last, 0, "not its handle"), HF_EINVAL);
    /* a closed handle, or an empty note, makes room */
    rig_close(rig, client, last);
    ck_assert_int_eq(set_note(client, frame.note.handle, 0, "note"), 0);
    ck_assert_int_eq(set_note(client, frame.note.handle, 0, ""), 0);
    ck_assert_int_eq(set_note(client, frame.note.handle, 0, "note"), 0);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("notes");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, a_handle_that_is_opened_again_has_no_old_note);
    tcase_add_test(tests, notes_have_a_limit);
    return suite_main("host_notes", tests);
}
