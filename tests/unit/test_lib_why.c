/* libholdfast: hf_why(), which tells why a lock could not be taken. */
#include "lib_clients.h"

#include <stdatomic.h>
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

START_TEST(why_names_the_holder)
{
    struct hf_reason reason = HF_REASON_INIT;
    hf_lock *lock = open_lock(client, "a");
    memset((char *)&reason + sizeof(reason.size), 0xff, sizeof(reason) - sizeof(reason.size));
    ck_assert_int_eq(hf_why(lock, &reason), 0);
    ck_assert_int_eq(reason.kind, HF_WHY_HELD);
    ck_assert_str_eq(reason.agent, "fake");
    ck_assert_str_eq(reason.command, "sleep 1");
    ck_assert_int_eq(reason.pid, 4711);
    ck_assert_int_eq(reason.uid, -1);
    ck_assert_int_eq(reason.since_ns, 5);
    ck_assert_int_eq(reason.closed_ns, 0);
    ck_assert_uint_eq(reason.holders, 2);
    ck_assert_uint_eq(reason.waiters, 2);
    ck_assert_uint_eq(reason.reserved, 0);
    ck_assert_uint_eq(reason.size, sizeof(reason));
    ck_assert_str_eq(reason.text,
                     "held on fake for 0.0 s by process 4711 (sleep 1) and 1 more; waiting: 2");
    hf_close(lock);
}
END_TEST

/* The note of the holder, or of the last holder of a closed lock. */
START_TEST(why_has_the_note)
{
    struct hf_reason reason = HF_REASON_INIT;
    hf_lock *lock = open_lock(client, "a");
    memset((char *)&reason + sizeof(reason.size), 0xff, sizeof(reason) - sizeof(reason.size));
    ck_assert_int_eq(hf_why(lock, &reason), 0);
    ck_assert_str_eq(reason.note, "");
    atomic_store(&agent.noted, true);
    ck_assert_int_eq(hf_why(lock, &reason), 0);
    ck_assert_str_eq(reason.note, "trial 7");
    ck_assert_str_eq(reason.text, "held on fake for 0.0 s by process 4711 (sleep 1), note \"trial "
                                  "7\" and 1 more; waiting: 2");
    /* a program that was built before the member existed */
    reason.size = offsetof(struct hf_reason, note);
    memset(reason.note, 'x', sizeof(reason.note));
    ck_assert_int_eq(hf_why(lock, &reason), 0);
    ck_assert_int_eq(reason.note[0], 'x');
    atomic_store(&agent.closed, 1 + HF_ENDING_PROCESS);
    reason.size = sizeof(reason);
    ck_assert_int_eq(hf_why(lock, &reason), 0);
    ck_assert_str_eq(reason.note, "trial 8");
    ck_assert_ptr_nonnull(strstr(reason.text, "process 4715 (sleep 3), note \"trial 8\""));
    hf_close(lock);
}
END_TEST

START_TEST(why_names_the_missing_voters)
{
    struct hf_reason reason = HF_REASON_INIT;
    hf_lock *lock = open_lock(client, "a");
    atomic_store(&agent.session_state, HF_SESSION_JEOPARDY);
    ck_assert_int_eq(hf_why(lock, &reason), 0);
    ck_assert_int_eq(reason.kind, HF_WHY_NO_MAJORITY);
    ck_assert_str_eq(reason.agent, "");
    ck_assert_str_eq(reason.text,
                     "no majority of the voters answers: 1 of 2; missing: other; waiting: 2");
    hf_close(lock);
}
END_TEST

START_TEST(why_has_room_to_grow)
{
    struct {
        struct hf_reason known;
        uint64_t later[2];
    } grown;
    hf_lock *lock = open_lock(client, "a");
    memset(&grown, 0xff, sizeof(grown));
    grown.known.size = sizeof(grown);
    ck_assert_int_eq(hf_why(lock, &grown.known), 0);
    ck_assert_uint_eq(grown.known.size, sizeof(grown));
    ck_assert_uint_eq(grown.later[0] | grown.later[1], 0);
    grown.known.size = 0;
    ck_assert_int_eq(hf_why(lock, &grown.known), HF_EINVAL);
    ck_assert_int_eq(hf_why(lock, NULL), HF_EINVAL);
    ck_assert_int_eq(hf_why(NULL, &grown.known), HF_EINVAL);
    hf_close(lock);
}
END_TEST

START_TEST(why_without_an_agent_is_a_reason)
{
    struct hf_reason reason = HF_REASON_INIT;
    hf_lock *lock = open_lock(client, "a");
    agent_stop(&agent);
    ck_assert_int_eq(hf_why(lock, &reason), 0);
    ck_assert_int_eq(reason.kind, HF_WHY_NO_AGENT);
    ck_assert_int_eq(reason.pid, -1);
    ck_assert_str_eq(reason.text, "no agent answers on this host");
    agent_start(&agent, true);
    hf_close(lock);
}
END_TEST

/* hf_why() on a closed lock describes the last hold, for each way in which it can have ended. */
START_TEST(why_says_behind_whom_it_is_closed)
{
    static const struct {
        int closed; /* see struct agent */
        const char *text;
    } rows[] = {
        {HF_ENDING_UNKNOWN,
         "its last holder vanished, or its hold was ended, 1.7 s ago; last holder "
         "on gone: process 4715 (sleep 3)"},
        {HF_ENDING_PROCESS,
         "the process that held it ended, 1.7 s ago; last holder on gone: process "
         "4715 (sleep 3)"},
        {HF_ENDING_BROKEN, "its last hold was broken by user 4294967288 on other, 1.7 s ago; last "
                           "holder on gone: process 4715 (sleep 3)"},
        {HF_ENDING_LEASE, "the lease of its last hold was over, 1.7 s ago; last holder on gone: "
                          "process 4715 (sleep 3)"},
        {HF_ENDING_STALL, "its last holder reported no progress, 1.7 s ago; last holder on gone: "
                          "process 4715 (sleep 3)"},
        {HF_ENDING_SESSION,
         "the session of gone, which had it, ended, 1.7 s ago; last known holder "
         "on gone: process 4715 (sleep 3)"},
        {99, "its last holder vanished, or its hold was ended, 1.7 s ago; last holder on gone: "
             "process 4715 (sleep 3)"},                          /* an ending of a later release */
        {-2, "its last holder vanished, or its hold was ended"}, /* the agent knows nothing more */
    };
    struct hf_reason reason = HF_REASON_INIT;
    char text[512];
    hf_lock *lock = open_lock(client, "a");
    atomic_store(&agent.closed, rows[_i].closed + 1);
    ck_assert_int_eq(hf_why(lock, &reason), 0);
    snprintf(text, sizeof(text), "closed for another 2.3 s (lock-delay): %s; waiting: 1",
             rows[_i].text);
    ck_assert_str_eq(reason.text, text);
    ck_assert_int_eq(reason.kind, HF_WHY_CLOSED);
    ck_assert_int_eq(reason.closed_ns, INT64_C(2300000000));
    bool known = rows[_i].closed >= 0;
    ck_assert_str_eq(reason.agent, known ? "gone" : "");
    ck_assert_str_eq(reason.command, known ? "sleep 3" : "");
    ck_assert_int_eq(reason.pid, known ? 4715 : -1);
    ck_assert_int_eq(reason.since_ns, known ? INT64_C(1700000000) : -1);
    ck_assert_int_eq(reason.uid, -1);
    hf_close(lock);
}
END_TEST

struct question {
    hf_lock *lock;
    _Atomic bool over;
};

static void *ask(void *arg)
{
    struct question *question = arg;
    struct hf_reason reason = HF_REASON_INIT;
    (void)hf_why(question->lock, &reason);
    atomic_store(&question->over, true);
    return NULL;
}

/* The agent does not answer hf_why() for seconds. Meanwhile another thread reads events, as a
 * program does that watches its holds. */
START_TEST(events_do_not_wait_for_the_answer)
{
    struct question question = {.lock = open_lock(client, "a")};
    struct hf_event event;
    pthread_t thread;
    int fd = hf_event_fd(client);
    ck_assert_int_ge(fd, 0);
    atomic_store(&agent.mood, MOOD_SILENT);
    ck_assert_int_eq(pthread_create(&thread, NULL, ask, &question), 0);
    while (atomic_load(&agent.last_kind) != HFI_FRAME_SHOW) {
        usleep(1000);
    }
    ck_assert_int_eq(hf_event_fd(client), fd);
    (void)hf_next_event(client, &event);
    ck_assert(!atomic_load(&question.over));
    atomic_store(&agent.mood, MOOD_GOOD);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    hf_close(question.lock);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("why");
    tcase_set_timeout(tests, 60);
    tcase_add_checked_fixture(tests, setup, clients_destroy);
    tcase_add_test(tests, why_names_the_holder);
    tcase_add_test(tests, why_has_the_note);
    tcase_add_loop_test(tests, why_says_behind_whom_it_is_closed, 0, 8);
    tcase_add_test(tests, why_names_the_missing_voters);
    tcase_add_test(tests, why_has_room_to_grow);
    tcase_add_test(tests, why_without_an_agent_is_a_reason);
    tcase_add_test(tests, events_do_not_wait_for_the_answer);
    return suite_main("lib_why", tests);
}
