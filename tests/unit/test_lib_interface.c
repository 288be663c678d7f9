/* libholdfast: the parts of holdfast.h that let it grow. */
#include "lib_clients.h"

#include <string.h>

#include "../suite_main.h"

static void setup(void)
{
    clients_create(LONG_TTL_NS);
}

static hf_lock *open_lock(hf_client *of, const char *name)
{
    hf_lock *lock = NULL;
    ck_assert_int_eq(REACHED(hf_open(of, name, NULL, &lock)), 0);
    return lock;
}

static bool are_zero(const uint64_t *words, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (words[i] != 0) {
            return false;
        }
    }
    return true;
}

/* A program of a later version reads what an unset variable had in it, if they stayed as they are.
 * The first acquire of a thread goes the slow way, the second the fast one. */
START_TEST(reserved_words_of_a_hold_are_zero)
{
    hf_lock *lock = open_lock(client, "a");
    for (int i = 0; i < 4; i++) {
        struct hf_hold hold;
        memset(&hold, 0x5a, sizeof(hold));
        enum hf_mode mode = i < 2 ? HF_EXCLUSIVE : HF_SHARED;
        ck_assert_int_eq(hf_acquire(lock, mode, 0, &hold), 0);
        ck_assert_uint_gt(hold.token, 0);
        ck_assert(are_zero(hold.reserved, 6));
        ck_assert_int_eq(hf_release(lock), 0);
    }
    hf_lock *locks[] = {lock, open_lock(client, "b")};
    struct hf_hold holds[2];
    memset(holds, 0x5a, sizeof(holds));
    ck_assert_int_eq(hf_acquire_all(locks, 2, HF_EXCLUSIVE, 0, holds), 0);
    ck_assert(are_zero(holds[0].reserved, 6) && are_zero(holds[1].reserved, 6));
}
END_TEST

START_TEST(reserved_words_of_an_event_are_zero)
{
    struct hf_event event;
    hf_lock *lock = open_lock(client, "a");
    ck_assert_int_ge(hf_event_fd(client), 0);
    ck_assert_int_eq(hf_acquire(lock, HF_EXCLUSIVE, 0, NULL), 0);
    ck_assert(agent_evict(&agent, "a", 0));
    struct hfi_frame poke = {.kind = HFI_FRAME_POKE};
    agent_send(&agent, &poke);
    do { /* ends: the test's guard */
        memset(&event, 0x5a, sizeof(event));
    } while (hf_next_event(client, &event) != 1);
    ck_assert_int_eq(event.kind, HF_EVENT_LOST);
    ck_assert(are_zero(event.reserved, 6));
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("interface");
    tcase_set_timeout(tests, 60);
    tcase_add_checked_fixture(tests, setup, clients_destroy);
    tcase_add_test(tests, reserved_words_of_a_hold_are_zero);
    tcase_add_test(tests, reserved_words_of_an_event_are_zero);
    return suite_main("lib_interface", tests);
}
