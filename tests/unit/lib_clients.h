/*
 * An agent and two clients of it, for the tests of libholdfast. The variables are static: each test
 * program has its own.
 */
#ifndef LIB_CLIENTS_H
#define LIB_CLIENTS_H

#include "lib_agent.h"

#include <check.h>
#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#define MS INT64_C(1000000)
#define S INT64_C(1000000000)

static struct agent agent;
static hf_client *client;
static hf_client *other;

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return now.tv_sec * S + now.tv_nsec;
}

/* Returns how long a thread of this process was ready to run but had no processor. `id` is
 * "self/task/N", for example. Returns 0 if the kernel has no figure, or the thread has ended. */
static inline int64_t unserved_ns(const char *id)
{
    char path[300];
    long long ran = 0;
    long long waited = 0;
    snprintf(path, sizeof(path), "/proc/%s/schedstat", id);
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return 0;
    }
    int fields = fscanf(file, "%lld %lld", &ran, &waited);
    fclose(file);
    return fields == 2 ? waited : 0;
}

/* the time without a processor of the threads that called served_thread_ends() */
static _Atomic int64_t unserved_ended_ns;

/* A thread calls this before it ends, because served_ns() cannot read the figure of a thread that
 * has ended. */
static inline void served_thread_ends(void)
{
    atomic_fetch_add(&unserved_ended_ns, unserved_ns("thread-self"));
}

/* Returns a clock that stands still while a thread of this process is ready to run but has no
 * processor. With this clock, a test does not take a busy machine for a slow library. */
static inline int64_t served_ns(void)
{
    DIR *tasks = opendir("/proc/self/task");
    int64_t unserved = atomic_load(&unserved_ended_ns);
    ck_assert_ptr_nonnull(tasks);
    for (struct dirent *task = readdir(tasks); task != NULL; task = readdir(tasks)) {
        char id[280];
        snprintf(id, sizeof(id), "self/task/%s", task->d_name);
        unserved += task->d_name[0] == '.' ? 0 : unserved_ns(id);
    }
    closedir(tasks);
    return now_ns() - unserved;
}

/*
 * Repeats a call that did not reach its agent (HF_ENOAGENT), and returns the call's result. The
 * library stops trying after one second. The call is repeated only if the threads of this process
 * together lacked a processor for more than 100 ms of that time.
 */
#define REACHED(call)                                                                              \
    ({                                                                                             \
        int reached_error;                                                                         \
        int64_t unserved_before_ns;                                                                \
        do { /* Check's timeout bounds this loop */                                                \
            unserved_before_ns = now_ns() - served_ns();                                           \
            reached_error = (call);                                                                \
        } while (reached_error == HF_ENOAGENT &&                                                   \
                 now_ns() - served_ns() - unserved_before_ns > 100 * MS);                          \
        reached_error;                                                                             \
    })

static inline void sleep_ms(int ms)
{
    struct timespec nap = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * MS};
    nanosleep(&nap, NULL);
}

/* Waits for a condition that must become true. Fails after a minute. */
#define AWAIT(condition)                                                                           \
    do {                                                                                           \
        int64_t until_ns = now_ns() + 60 * S;                                                      \
        while (!(condition)) {                                                                     \
            ck_assert_msg(now_ns() < until_ns, "never: %s", #condition);                           \
            sleep_ms(1);                                                                           \
        }                                                                                          \
    } while (0)

/* Returns whether any process is in the queue of that lock. */
static inline bool is_waited_for(const char *name)
{
    uint32_t seat = 0;
    return hfi_queue(&agent.region, agent_slot(&agent, name), &seat, 1) > 0;
}

/* A call of hf_acquire() on its own thread. */
struct attempt {
    hf_lock *lock;
    enum hf_mode mode;
    int64_t timeout_ns;
    int result;
    _Atomic pid_t thread;
    _Atomic bool over; /* the call has returned */
};

static inline void *attempt_run(void *arg)
{
    struct attempt *attempt = arg;
    atomic_store(&attempt->thread, gettid());
    attempt->result = hf_acquire(attempt->lock, attempt->mode, attempt->timeout_ns, NULL);
    atomic_store(&attempt->over, true);
    served_thread_ends();
    return NULL;
}

/* Returns the state of the attempt's thread in /proc: 'S' if it sleeps; 0 if it has not begun. */
static inline char state_of(const struct attempt *attempt)
{
    char path[64];
    char state = '\0';
    snprintf(path, sizeof(path), "/proc/self/task/%d/stat", (int)atomic_load(&attempt->thread));
    FILE *file = fopen(path, "re");
    if (file != NULL) {
        ck_assert_int_le(fscanf(file, "%*d (%*[^)]) %c", &state), 1);
        fclose(file);
    }
    return state;
}

/* Waits until the thread was seen asleep in hf_acquire(), so its wait has begun. The thread wakes
 * up now and then to look at the lock, so a later look may find it running. */
static inline void await_waiting(const struct attempt *attempt)
{
    AWAIT(state_of(attempt) == 'S');
}

/* Cancels the wait, once it has begun, by a single hf_cancel(). */
static inline void cancel_and_join(const struct attempt *attempt, pthread_t thread)
{
    await_waiting(attempt);
    ck_assert_int_eq(hf_cancel(attempt->lock), 0);
    pthread_join(thread, NULL);
    ck_assert_int_eq(attempt->result, HF_ECANCELED);
}

static inline hf_client *join(void)
{
    hf_client *joined = NULL;
    struct hf_options options = {.size = sizeof(options), .socket = agent.path};
    ck_assert_int_eq(hf_connect(&options, &joined), 0);
    return joined;
}

/* Makes the agent, whose leases last ttl_ns, and its clients. */
static inline void clients_create(int64_t ttl_ns)
{
    agent_create(&agent, ttl_ns);
    client = join();
    other = join();
}

static inline void clients_destroy(void)
{
    hf_disconnect(client);
    hf_disconnect(other);
    agent_destroy(&agent);
}

#endif
