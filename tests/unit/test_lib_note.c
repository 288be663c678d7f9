/* libholdfast: hf_set_note(), which says for what a handle holds its lock. */
#include "lib_clients.h"

#include <stdatomic.h>
#include <string.h>

#include "../suite_main.h"

static void setup(void)
{
    clients_create(LONG_TTL_NS);
}

static hf_lock *open_noted(const char *note)
{
    struct hf_lock_options options = HF_LOCK_OPTIONS_INIT;
    hf_lock *lock = NULL;
    options.note = note;
    ck_assert_int_eq(REACHED(hf_open(client, "a", &options, &lock)), 0);
    return lock;
}

/* Checks how many NOTEs the agent got, and the last one. */
static void check_note(uint32_t count, const char *text, uint32_t flags)
{
    ck_assert_uint_eq(atomic_load(&agent.notes), count);
    pthread_mutex_lock(&agent.mutex);
    ck_assert_str_eq(agent.note, text);
    pthread_mutex_unlock(&agent.mutex);
    ck_assert_uint_eq(atomic_load(&agent.note_flags), flags);
}

START_TEST(a_note_goes_to_the_agent_when_it_is_set)
{
    hf_lock *lock = open_noted(NULL);
    ck_assert_uint_eq(atomic_load(&agent.notes), 0);
    ck_assert_int_eq(hf_set_note(lock, "first"), 0);
    check_note(1, "first", 0);
    uint32_t requests = atomic_load(&agent.requests);
    for (int i = 0; i < 3; i++) { /* first the slow path, then the fast path */
        ck_assert_int_eq(hf_acquire(lock, HF_EXCLUSIVE, 0, NULL), 0);
        ck_assert_int_eq(hf_release(lock), 0);
    }
    ck_assert_uint_eq(atomic_load(&agent.requests), requests);
    ck_assert_int_eq(hf_set_note(lock, NULL), 0);
    check_note(2, "", 0);
    hf_close(lock);
    lock = open_noted("option");
    check_note(3, "option", HFI_NOTE_NOW);
    hf_close(lock);
    lock = open_noted("");
    check_note(3, "option", HFI_NOTE_NOW); /* nothing was sent */
    hf_close(lock);
}
END_TEST

START_TEST(a_note_is_cleaned)
{
    hf_lock *lock = open_noted("a\x1b[31m\xff \xc3\xbc");
    check_note(1, "a?[31m? \xc3\xbc", HFI_NOTE_NOW);
    hf_close(lock);
}
END_TEST

START_TEST(a_note_has_a_limit)
{
    char text[HF_NOTE_MAX + 2];
    struct hf_lock_options options = HF_LOCK_OPTIONS_INIT;
    hf_lock *lock = open_noted(NULL);
    hf_lock *none = NULL;
    memset(text, 'n', sizeof(text));
    text[HF_NOTE_MAX] = '\0';
    ck_assert_int_eq(hf_set_note(lock, text), 0);
    check_note(1, text, 0);
    text[HF_NOTE_MAX] = 'n';
    text[HF_NOTE_MAX + 1] = '\0';
    ck_assert_int_eq(hf_set_note(lock, text), HF_EINVAL);
    ck_assert_str_eq(hf_error_text(client), "the note has 257 bytes, expected at most 256");
    options.note = text;
    ck_assert_int_eq(hf_open(client, "b", &options, &none), HF_EINVAL);
    ck_assert_str_eq(hf_error_text(client),
                     "hf_lock_options.note has 257 bytes, expected at most 256");
    ck_assert_int_eq(hf_set_note(NULL, "x"), HF_EINVAL);
    ck_assert_uint_eq(atomic_load(&agent.notes), 1);
    hf_close(lock);
}
END_TEST

/* The agent does not keep notes across its restart, and a note can be set without an agent. */
START_TEST(a_note_is_sent_again_to_the_next_agent)
{
    struct hf_reason reason = HF_REASON_INIT;
    hf_lock *lock = open_noted("first");
    ck_assert_int_eq(hf_acquire(lock, HF_EXCLUSIVE, 0, NULL), 0);
    agent_stop(&agent);
    agent_start(&agent, true);
    ck_assert_int_eq(REACHED(hf_why(lock, &reason)), 0);
    check_note(2, "first", HFI_NOTE_NOW);
    ck_assert_int_gt(hf_remaining_ns(lock), 0);
    agent_stop(&agent);
    ck_assert_int_eq(hf_set_note(lock, "second"), 0);
    agent_start(&agent, true);
    ck_assert_int_eq(REACHED(hf_why(lock, &reason)), 0);
    check_note(3, "second", HFI_NOTE_NOW);
    ck_assert_int_eq(hf_release(lock), 0);
    hf_close(lock);
}
END_TEST

/* An agent of an earlier release hangs up when it gets a NOTE. The library then sends it no further
 * one, and the locks work. */
START_TEST(an_agent_may_not_know_notes)
{
    atomic_store(&agent.mood, MOOD_NOTELESS);
    hf_lock *lock = open_noted("first");
    ck_assert_uint_eq(atomic_load(&agent.notes), 1);
    ck_assert_int_eq(hf_acquire(lock, HF_EXCLUSIVE, 0, NULL), 0);
    ck_assert_int_eq(hf_set_note(lock, "second"), 0);
    ck_assert_uint_eq(atomic_load(&agent.notes), 1);
    ck_assert_int_eq(hf_release(lock), 0);
    /* the next agent knows notes */
    agent_stop(&agent);
    atomic_store(&agent.mood, MOOD_GOOD);
    agent_start(&agent, true);
    struct hf_reason reason = HF_REASON_INIT;
    ck_assert_int_eq(REACHED(hf_why(lock, &reason)), 0);
    check_note(2, "second", HFI_NOTE_NOW);
    hf_close(lock);
}
END_TEST

START_TEST(an_agent_may_have_no_room_for_notes)
{
    atomic_store(&agent.mood, MOOD_NO_ROOM);
    hf_lock *lock = open_noted("first");
    ck_assert_int_eq(hf_set_note(lock, "second"), 0);
    ck_assert_int_eq(hf_acquire(lock, HF_EXCLUSIVE, 0, NULL), 0);
    ck_assert_int_eq(hf_release(lock), 0);
    hf_close(lock);
}
END_TEST

static int see_notes(const struct hf_lock_info *info, void *arg)
{
    int *seen = arg;
    ck_assert_str_eq(info->holders[0]->note, "trial 7");
    ck_assert_ptr_null(info->holders[1]->note);
    ck_assert_ptr_null(info->waiters[0]->note);
    ++*seen;
    return 0;
}

static int see_behind(const struct hf_lock_info *info, void *arg)
{
    int *seen = arg;
    ck_assert_str_eq(info->behind->note, "trial 8");
    ++*seen;
    return 0;
}

START_TEST(listings_have_notes)
{
    int seen = 0;
    hf_lock *lock = open_noted(NULL);
    atomic_store(&agent.noted, true);
    ck_assert_int_eq(hf_show(client, "a", see_notes, &seen), 0);
    ck_assert_int_eq(hf_list(client, "", see_notes, &seen), 0);
    atomic_store(&agent.closed, 1 + HF_ENDING_BROKEN);
    ck_assert_int_eq(hf_show(client, "a", see_behind, &seen), 0);
    ck_assert_int_eq(seen, 3);
    hf_close(lock);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("note");
    tcase_set_timeout(tests, 60);
    tcase_add_checked_fixture(tests, setup, clients_destroy);
    tcase_add_test(tests, a_note_goes_to_the_agent_when_it_is_set);
    tcase_add_test(tests, a_note_is_cleaned);
    tcase_add_test(tests, a_note_has_a_limit);
    tcase_add_test(tests, a_note_is_sent_again_to_the_next_agent);
    tcase_add_test(tests, an_agent_may_not_know_notes);
    tcase_add_test(tests, an_agent_may_have_no_room_for_notes);
    tcase_add_test(tests, listings_have_notes);
    return suite_main("lib_note", tests);
}
