/* libholdfast: hf_error_text(), the text about the last failure of a thread. */
#include "lib_clients.h"

#include <pthread.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "../emulation.h"
#include "../suite_main.h"
/* libholdfast's own header, to simulate failures of system calls */
#include "client.h"

static void setup(void)
{
    clients_create(LONG_TTL_NS);
}

static hf_lock *open_with(const char *name, const struct hf_lock_options *options)
{
    hf_lock *lock = NULL;
    ck_assert_int_eq(REACHED(hf_open(client, name, options, &lock)), 0);
    return lock;
}

static hf_lock *open_lock(const char *name)
{
    return open_with(name, NULL);
}

/* Expects that the call failed with the code, and that the text contains each of these texts. */
#define FAILS(call, code, ...)                                                                     \
    do {                                                                                           \
        static const char *const words_[] = {__VA_ARGS__};                                         \
        ck_assert_int_eq(call, code);                                                              \
        for (size_t w_ = 0; w_ < sizeof(words_) / sizeof(words_[0]); w_++) {                       \
            ck_assert_msg(strstr(hf_error_text(NULL), words_[w_]) != NULL, "no \"%s\" in: %s",     \
                          words_[w_], hf_error_text(NULL));                                        \
        }                                                                                          \
    } while (0)

START_TEST(a_bad_name_is_described)
{
    hf_lock *lock = NULL;
    char name[302];
    memset(name, 'n', sizeof(name));
    name[300] = '\0';
    FAILS(hf_open(client, name, NULL, &lock), HF_ENAMETOOLONG, "300 bytes", "at most 255");
    FAILS(hf_open(client, "", NULL, &lock), HF_EINVAL, "name is empty");
    FAILS(hf_open(client, "ab\x1b", NULL, &lock), HF_EINVAL, "\"ab?\"", "byte 3 is 0x1B");
    FAILS(hf_open(client, "\xff", NULL, &lock), HF_EINVAL, "\"?\"", "byte 1 is 0xFF");
    FAILS(hf_open(client, NULL, NULL, &lock), HF_EINVAL, "argument name is NULL");
    FAILS(hf_watch(client, "a\n"), HF_EINVAL, "prefix \"a?\"", "byte 2 is 0x0A");
    FAILS(hf_break(client, name, 0), HF_ENAMETOOLONG, "300 bytes");
    FAILS(hf_break(client, "a", 8), HF_EINVAL, "flags are 0x8");
}
END_TEST

START_TEST(a_bad_option_is_named)
{
    static const struct {
        struct hf_lock_options options;
        const char *option;
        const char *value;
    } bad[] = {
        {{.size = sizeof(bad[0].options), .flags = 4}, ".flags", "0x4"},
        {{.size = sizeof(bad[0].options), .permits = 2}, ".permits", "is 2"},
        {{.size = sizeof(bad[0].options), .lock_delay_ns = 60 * S + 1},
         ".lock_delay_ns",
         "60000000001"},
        {{.size = sizeof(bad[0].options), .lease_ns = -1}, ".lease_ns", "is -1"},
        {{.size = sizeof(bad[0].options), .max_stall_ns = 999}, ".max_stall_ns", "is 999"},
        {{.size = 8}, "struct hf_lock_options", "is 8"},
    };
    hf_lock *lock = NULL;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        ck_assert_int_eq(hf_open(client, "x", &bad[i].options, &lock), HF_EINVAL);
        const char *text = hf_error_text(client);
        ck_assert_msg(strstr(text, bad[i].option) && strstr(text, bad[i].value), "%s", text);
    }
    hf_client *none = NULL;
    FAILS(hf_connect(&(struct hf_options){0}, &none), HF_EINVAL, "struct hf_options is 0");
    FAILS(hf_acquire(open_lock("a"), 7, 0, NULL), HF_EINVAL, "mode for \"a\" is 7");
}
END_TEST

/* Connects to an agent that refuses. Repeats this while the agent, which this process plays, does
 * not answer in time. */
static int connect_refused(const struct hf_options *options)
{
    hf_client *none = NULL;
    int64_t guard_ns = now_ns() + 60 * S;
    int error;
    do {
        error = hf_connect(options, &none);
    } while (error == HF_ENOAGENT && now_ns() < guard_ns);
    return error;
}

/* There is no client yet, so the text is asked for with NULL. */
START_TEST(a_failed_connect_names_the_socket)
{
    hf_client *none = NULL;
    struct hf_options options = HF_OPTIONS_INIT;
    options.socket = "/nonexistent/agent.sock";
    options.connect_timeout_ns = MS;
    FAILS(hf_connect(&options, &none), HF_ENOAGENT, "/nonexistent/agent.sock",
          "No such file or directory");
    ck_assert_str_eq(hf_error_text(client), "");
    atomic_store(&agent.mood, MOOD_OLD);
    options.socket = agent.path;
    options.connect_timeout_ns = 50 * MS;
    FAILS(connect_refused(&options), HF_EVERSION, "version", "expected 5");
    atomic_store(&agent.mood, MOOD_RUBBISH);
    FAILS(connect_refused(&options), HF_EPROTO, "invalid frame");
    atomic_store(&agent.mood, MOOD_FULL);
    FAILS(connect_refused(&options), HF_EFULL, "no room for one more connection");
    atomic_store(&agent.mood, MOOD_DISK_FULL);
    FAILS(connect_refused(&options), HF_EFULL, "disk is full");
    atomic_store(&agent.mood, MOOD_SILENT);
    FAILS(hf_connect(&options, &none), HF_ENOAGENT, "does not answer");
    atomic_store(&agent.mood, MOOD_GOOD);
}
END_TEST

START_TEST(an_answer_of_the_agent_is_described)
{
    hf_lock *lock = NULL;
    char uid[32];
    snprintf(uid, sizeof(uid), "uid %ld", (long)geteuid());
    atomic_store(&agent.mood, MOOD_REFUSES);
    FAILS(hf_open(client, "prod/x", NULL, &lock), HF_EACCES, "open the lock \"prod/x\"",
          "does not allow this user");
    ck_assert_ptr_nonnull(strstr(hf_error_text(client), uid));
    atomic_store(&agent.mood, MOOD_GOOD);
    agent_stop(&agent);
    FAILS(hf_open(client, "y", NULL, &lock), HF_ENOAGENT, "no agent answers at ", "agent.sock: ");
    ck_assert_ptr_nonnull(strstr(hf_error_text(client), agent.path));
    trouble_set(client, HF_EACCES, "as if connect() had failed with EACCES");
    agent_start(&agent, true);
    ck_assert_int_eq(REACHED(hf_open(client, "y", NULL, &lock)), 0);
    /* the refusal's text must not name the cause of the earlier broken connection */
    atomic_store(&agent.mood, MOOD_REFUSES);
    FAILS(hf_open(client, "z", NULL, &lock), HF_EACCES, "open the lock \"z\"");
}
END_TEST

START_TEST(a_full_table_is_named)
{
    hf_lock *lock = NULL;
    struct hf_options options = HF_OPTIONS_INIT;
    char why[512];
    options.socket = agent.path;
    options.connect_timeout_ns = 50 * MS;
    options.why = why;
    options.why_size = sizeof(why);
    agent.full = (struct hfi_full){
        .table = HFI_TABLE_LOCKS, .room = 512, .pid = 4711, .handles = 300};
    FAILS(hf_open(client, "a", NULL, &lock), HF_EFULL, "no room to open the lock \"a\"",
          "all 512 places for locks of this namespace are in use", "process 4711", "300",
          "raise locks in [limits] of holdfastd.ini");
    agent.full = (struct hfi_full){
        .table = HFI_TABLE_HANDLES, .room = 50, .share = true, .pid = -1};
    FAILS(hf_open(client, "a", NULL, &lock), HF_EFULL, "this user has its 50", "raise handles");
    ck_assert_ptr_null(strstr(hf_error_text(client), "process"));
    agent.full = (struct hfi_full){
        .table = HFI_TABLE_VOTER_VALUES, .room = 1024, .pid = -1, .voter = {"host-b", 6}};
    FAILS(hf_open(client, "a", NULL, &lock), HF_EFULL, "at the voter host-b", "all 1024",
          "profile = standard");
    for (uint32_t table = 1; table < HFI_TABLE_END; table++) { /* checks that each table has a
                                                                * text */
        agent.full = (struct hfi_full){.table = table, .pid = -1};
        FAILS(hf_open(client, "a", NULL, &lock), HF_EFULL, "no room to open", "; ");
        ck_assert_ptr_null(strstr(hf_error_text(client), "(null)"));
    }
    agent.full.table = HFI_TABLE_END; /* a table of a later release */
    FAILS(hf_open(client, "a", NULL, &lock), HF_EFULL, "one of its tables is full");
    agent.full = (struct hfi_full){.table = HFI_TABLE_CLIENTS, .room = 64, .pid = -1};
    atomic_store(&agent.mood, MOOD_FULL);
    FAILS(connect_refused(&options), HF_EFULL, "all 64 places for connected processes",
          "raise clients");
    ck_assert_ptr_nonnull(strstr(why, "raise clients"));
    agent.full = (struct hfi_full){0};
    atomic_store(&agent.mood, MOOD_GOOD);
    ck_assert_int_eq(hf_open(client, "a", NULL, &lock), 0);
}
END_TEST

/* An agent uses the same error if it began no break and if it could not end all holds. The texts
 * differ. */
START_TEST(a_break_that_could_not_end_all_holds_is_described)
{
    atomic_store(&agent.break_error, HF_EFULL);
    FAILS(hf_break(client, "job/a", 0), HF_EFULL,
          "a host has more holds of the lock \"job/a\" than it can end at once",
          "break the lock again");
    agent.full = (struct hfi_full){.table = HFI_TABLE_QUESTIONS, .room = 64, .pid = -1};
    FAILS(hf_break(client, "job/a", 0), HF_EFULL, "no room to break the lock \"job/a\"",
          "all 64 places for breaks", "try again soon");
    agent.full = (struct hfi_full){0};
    atomic_store(&agent.break_error, HF_EUNSERVED);
    FAILS(hf_break(client, "job/a", 0), HF_EUNSERVED, "break the lock \"job/a\"");
    ck_assert_ptr_null(strstr(hf_error_text(NULL), "more holds"));
    atomic_store(&agent.break_error, 0);
    ck_assert_int_eq(hf_break(client, "job/a", 0), 0);
}
END_TEST

START_TEST(a_failed_acquire_is_described)
{
    hf_lock *mine = open_lock("job/a");
    hf_lock *theirs = open_lock("job/a");
    struct hf_hold hold;
    char token[64];
    FAILS(hf_release(mine), HF_ENOTHELD, "\"job/a\" holds nothing");
    FAILS(hf_progress(mine), HF_ENOTHELD, "\"job/a\" holds nothing");
    FAILS(hf_downgrade(mine), HF_ENOTHELD, "\"job/a\" holds nothing");
    for (int i = 0; i < 3; i++) { /* the second round releases by the fast path */
        ck_assert_int_eq(hf_acquire(mine, HF_EXCLUSIVE, 0, &hold), 0);
        ck_assert_int_eq(hf_release(mine), 0);
        FAILS(hf_release(mine), HF_ENOTHELD, "\"job/a\" holds nothing");
    }
    ck_assert_int_eq(hf_acquire(mine, HF_EXCLUSIVE, 0, &hold), 0);
    FAILS(hf_acquire(theirs, HF_EXCLUSIVE, 0, NULL), HF_EBUSY, "\"job/a\" cannot be taken");
    FAILS(hf_acquire(theirs, HF_SHARED, 5 * MS, NULL), HF_ETIMEDOUT, "0.005 s", "\"job/a\"");
    FAILS(hf_acquire(mine, HF_EXCLUSIVE, 0, NULL), HF_EALREADY, "\"job/a\"", "HF_REENTRANT");
    snprintf(token, sizeof(token), "token %llu,", (unsigned long long)hold.token);
    ck_assert_msg(strstr(hf_error_text(client), token) != NULL, "%s", hf_error_text(client));
    char small[4];
    FAILS(hf_sequencer(mine, small, sizeof(small)), HF_EINVAL, "has 4 bytes", "1024");
}
END_TEST

START_TEST(a_lost_hold_is_named_with_the_reason)
{
    struct hf_lock_options options = HF_LOCK_OPTIONS_INIT;
    options.lease_ns = 20 * MS;
    hf_lock *lock = open_with("a", &options);
    struct hf_hold hold;
    char token[64];
    ck_assert_int_eq(hf_acquire(lock, HF_EXCLUSIVE, 0, &hold), 0);
    snprintf(token, sizeof(token), "token %llu ", (unsigned long long)hold.token);
    AWAIT(hf_remaining_ns(lock) == 0);
    FAILS(hf_progress(lock), HF_ELOST, "\"a\"", "its lease of 0.0 s is over");
    char buf[HF_SEQUENCER_MAX];
    FAILS(hf_sequencer(lock, buf, sizeof(buf)), HF_ELOST, "its lease");
    FAILS(hf_release(lock), HF_ELOST, "\"a\"", "its lease of 0.0 s is over");
    ck_assert_msg(strstr(hf_error_text(client), token) != NULL, "%s", hf_error_text(client));
}
END_TEST

/* The call releases the locks that it has taken, and these releases do not replace the text. */
START_TEST(acquiring_all_names_the_lock_that_failed)
{
    hf_lock *locks[] = {open_lock("a"), open_lock("b")};
    hf_lock *twice[] = {locks[0], open_lock("a")};
    hf_lock *theirs = open_lock("b");
    ck_assert_int_eq(hf_acquire(theirs, HF_EXCLUSIVE, 0, NULL), 0);
    FAILS(hf_acquire_all(locks, 2, HF_EXCLUSIVE, 0, NULL), HF_EBUSY, "\"b\" cannot");
    /* the hold of "a" ends before the wait for "b", so its release fails */
    struct hf_lock_options brief = HF_LOCK_OPTIONS_INIT;
    brief.lease_ns = 5 * MS;
    hf_lock *lost[] = {open_with("a", &brief), locks[1]};
    /* The handle gets its seat now. Otherwise the wait for the agent's answer could last for the
     * whole timeout, and the call would fail at "a". */
    ck_assert_int_eq(hf_acquire(lost[0], HF_EXCLUSIVE, HF_FOREVER, NULL), 0);
    (void)!hf_release(lost[0]); /* this call fails if the hold has ended */
    FAILS(hf_acquire_all(lost, 2, HF_EXCLUSIVE, 100 * MS, NULL), HF_ETIMEDOUT, "\"b\"",
          "timeout of 0.100 s");
    FAILS(hf_acquire_all(twice, 2, HF_EXCLUSIVE, 0, NULL), HF_EINVAL, "\"a\" twice");
    FAILS(hf_acquire_all(locks, 0, HF_EXCLUSIVE, 0, NULL), HF_EINVAL, "number of locks is 0");
    locks[1] = NULL;
    FAILS(hf_acquire_all(locks, 2, HF_EXCLUSIVE, 0, NULL), HF_EINVAL, "locks[1] is NULL");
}
END_TEST

START_TEST(a_sequencer_is_described)
{
    hf_lock *lock = open_lock("a");
    char old[HF_SEQUENCER_MAX];
    FAILS(hf_check_sequencer(client, "no sequencer"), HF_EINVAL, "\"no sequencer\" is no");
    ck_assert_int_eq(hf_acquire(lock, HF_EXCLUSIVE, 0, NULL), 0);
    ck_assert_int_eq(hf_sequencer(lock, old, sizeof(old)), 0);
    ck_assert_int_eq(hf_release(lock), 0);
    ck_assert_int_eq(hf_acquire(lock, HF_EXCLUSIVE, 0, NULL), 0);
    FAILS(hf_check_sequencer_local(client, old), HF_ESTALE, "\"a\" has token ", "seen token ");
    FAILS(hf_check_sequencer(client, old), HF_ESTALE, "\"a\" with token ");
}
END_TEST

/* A success keeps the text, and the next failure replaces it, whatever its client. */
START_TEST(the_text_is_of_the_last_failure)
{
    hf_lock *lock = open_lock("a");
    ck_assert_str_eq(hf_error_text(NULL), "");
    ck_assert_str_eq(hf_error_text(client), "");
    FAILS(hf_release(lock), HF_ENOTHELD, "\"a\" holds nothing");
    char first[256];
    snprintf(first, sizeof(first), "%s", hf_error_text(client));
    ck_assert_int_eq(hf_acquire(lock, HF_EXCLUSIVE, 0, NULL), 0);
    ck_assert_str_eq(hf_error_text(client), first);
    FAILS(hf_watch(other, "\n"), HF_EINVAL, "prefix");
    ck_assert_str_eq(hf_error_text(client), "");
    ck_assert_str_ne(hf_error_text(other), "");
    hf_client *third = join();
    FAILS(hf_watch(third, NULL), HF_EINVAL, "prefix is NULL");
    hf_disconnect(third); /* the text of this client's failure stays */
    ck_assert_ptr_nonnull(strstr(hf_error_text(NULL), "prefix is NULL"));
}
END_TEST

static _Thread_local bool no_memory; /* calloc() fails in this thread */

void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);

void *__wrap_calloc(size_t count, size_t size)
{
    return no_memory ? NULL : __real_calloc(count, size);
}

static int ignore_it(const struct hf_lock_info *info, void *arg)
{
    (void)info;
    (void)arg;
    return 0;
}

static int without_descriptors(const char *name)
{
    hf_lock *lock = NULL;
    struct rlimit before;
    struct rlimit none = {0};
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
    none.rlim_max = before.rlim_max;
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
    int error = hf_open(client, name, NULL, &lock);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
    return error;
}

static int without_memory(int call)
{
    no_memory = true;
    int error = call == 0   ? hf_show(client, "a", ignore_it, NULL)
                : call == 1 ? hf_break(client, "a", 0)
                            : hf_watch(client, "a");
    no_memory = false;
    return error;
}

/* The process has no descriptor left, and later no memory. The second text is not about
 * descriptors. */
START_TEST(a_second_lack_of_memory_has_its_own_text)
{
    static const char *const actions[] = {"show the lock \"a\"", "break the lock \"a\"",
                                          "memory to watch \"a\""};
    FAILS(without_descriptors("a"), HF_ENOMEM, "no connection to the agent at ");
    ck_assert_int_eq(without_memory(_i), HF_ENOMEM);
    ck_assert_msg(strstr(hf_error_text(NULL), actions[_i]) != NULL &&
                      strstr(hf_error_text(NULL), "no connection") == NULL,
                  "%s", hf_error_text(NULL));
}
END_TEST

static int stop_at_once(const struct hf_lock_info *info, void *arg)
{
    (void)info;
    (void)arg;
    return HF_EBUSY;
}

START_TEST(a_result_of_the_programs_function_is_no_failure)
{
    hf_lock *lock = open_lock("a");
    FAILS(hf_release(lock), HF_ENOTHELD, "holds nothing");
    FAILS(hf_list(client, "", stop_at_once, NULL), HF_EBUSY, "holds nothing");
    FAILS(hf_show(client, "a", stop_at_once, NULL), HF_EBUSY, "holds nothing");
    FAILS(hf_list(client, NULL, stop_at_once, NULL), HF_EINVAL, "prefix is NULL");
    FAILS(hf_status(client, NULL, NULL), HF_EINVAL, "fn is NULL");
    atomic_store(&agent.mood, MOOD_WRONG_NUMBER);
    FAILS(hf_list(client, "", stop_at_once, NULL), HF_EPROTO, "answer to another request");
}
END_TEST

START_TEST(a_forked_child_is_told_whose_client_it_is)
{
    char parent[64];
    if (!fork_is_wiped("lib_failure")) {
        return;
    }
    snprintf(parent, sizeof(parent), "belongs to process %ld,", (long)getpid());
    hf_lock *lock = open_lock("a");
    pid_t child = fork();
    if (child == 0) {
        bool good = hf_acquire(lock, HF_EXCLUSIVE, 0, NULL) == HF_EFORKED &&
                    strstr(hf_error_text(client), parent) != NULL &&
                    hf_watch(client, "") == HF_EFORKED && hf_event_fd(client) == HF_EFORKED &&
                    strstr(hf_error_text(client), parent) != NULL;
        _exit(good ? 0 : 1);
    }
    int status = 1;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
}
END_TEST

/* Threads that share a client fail at the same time, and each of them reads its own text. */
static void *fail_often(void *arg)
{
    char name[16];
    char expected[32];
    snprintf(name, sizeof(name), "t%d", *(const int *)arg);
    snprintf(expected, sizeof(expected), "\"%s\"", name);
    hf_lock *lock = open_lock(name);
    ck_assert_str_eq(hf_error_text(client), "");
    for (int i = 0; i < 1000; i++) {
        int code = i % 2 == 0 ? hf_release(lock) : hf_acquire(lock, 5, 0, NULL);
        ck_assert_int_eq(code, i % 2 == 0 ? HF_ENOTHELD : HF_EINVAL);
        ck_assert_msg(strstr(hf_error_text(client), expected) != NULL, "%s", hf_error_text(client));
    }
    return NULL;
}

START_TEST(each_thread_has_its_own_text)
{
    static const int numbers[] = {0, 1, 2};
    pthread_t threads[3];
    for (size_t i = 0; i < 3; i++) {
        ck_assert_int_eq(pthread_create(&threads[i], NULL, fail_often, (void *)&numbers[i]), 0);
    }
    for (size_t i = 0; i < 3; i++) {
        pthread_join(threads[i], NULL);
    }
    ck_assert_str_eq(hf_error_text(client), "");
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("failure");
    tcase_set_timeout(tests, 60);
    tcase_add_checked_fixture(tests, setup, clients_destroy);
    tcase_add_test(tests, a_bad_name_is_described);
    tcase_add_test(tests, a_bad_option_is_named);
    tcase_add_test(tests, a_failed_connect_names_the_socket);
    tcase_add_test(tests, an_answer_of_the_agent_is_described);
    tcase_add_test(tests, a_full_table_is_named);
    tcase_add_test(tests, a_break_that_could_not_end_all_holds_is_described);
    tcase_add_test(tests, a_failed_acquire_is_described);
    tcase_add_test(tests, a_lost_hold_is_named_with_the_reason);
    tcase_add_test(tests, acquiring_all_names_the_lock_that_failed);
    tcase_add_test(tests, a_sequencer_is_described);
    tcase_add_test(tests, the_text_is_of_the_last_failure);
    tcase_add_loop_test(tests, a_second_lack_of_memory_has_its_own_text, 0, 3);
    tcase_add_test(tests, a_result_of_the_programs_function_is_no_failure);
    tcase_add_test(tests, a_forked_child_is_told_whose_client_it_is);
    tcase_add_test(tests, each_thread_has_its_own_text);
    return suite_main("lib_failure", tests);
}
