/*
 * An agent of the tests' own and two clients of it, for the tests of libholdfast: each program has
 * these variables for itself.
 */
#ifndef LIB_CLIENTS_H
#define LIB_CLIENTS_H

#include "lib_agent.h"

#include <check.h>
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
