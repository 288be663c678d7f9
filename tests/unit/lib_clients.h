/*
 * An agent of the tests' own and two clients of it, for the tests of libholdfast: each program has
 * these variables for itself.
 */
#ifndef LIB_CLIENTS_H
#define LIB_CLIENTS_H

#include "lib_agent.h"

#include <check.h>
#include <dirent.h>
#include <stdio.h>
#include <time.h>

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

/* How long a thread of this process was ready to run and had no processor; id: "self/task/N", say.
 * 0: the kernel does not tell, or it has ended. */
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

static _Atomic int64_t unserved_ended_ns; /* of threads that said so, see below */

/* To be called at the end of a thread for which served_ns() is read on. */
static inline void served_thread_ends(void)
{
    atomic_fetch_add(&unserved_ended_ns, unserved_ns("thread-self"));
}

/* A clock that stands still while a thread of this process is ready to run and has no processor, so
 * that a busy machine is not taken for a slow library. */
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

static void sleep_ms(int ms)
{
    struct timespec nap = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * MS};
    nanosleep(&nap, NULL);
}

static hf_client *join(void)
{
    hf_client *joined = NULL;
    struct hf_options options = {.size = sizeof(options), .socket = agent.path};
    ck_assert_int_eq(hf_connect(&options, &joined), 0);
    return joined;
}

/* With leases of that length. */
static void clients_create(int64_t ttl_ns)
{
    agent_create(&agent, ttl_ns);
    client = join();
    other = join();
}

static void clients_destroy(void)
{
    hf_disconnect(client);
    hf_disconnect(other);
    agent_destroy(&agent);
}

#endif
