/*
 * A lock that does nothing. It measures the cost of the harness's own loop, and is in no table.
 */
#include "load.h"

static int nothing_connect(struct peer_run *run, uint32_t host, void **out_client)
{
    (void)host;
    *out_client = run;
    return 0;
}

static void nothing_leave(void *handle)
{
    (void)handle;
}

static int nothing_open(void *client, const char *name, void **out_lock)
{
    (void)name;
    *out_lock = client;
    return 0;
}

static int nothing_acquire(void *lock, enum peer_mode mode, int64_t timeout_ns, uint64_t *out_token)
{
    (void)lock;
    (void)mode;
    (void)timeout_ns;
    *out_token = 0;
    return PEER_OK;
}

static int nothing_release(void *lock)
{
    (void)lock;
    return PEER_OK;
}

static const struct peer_kind nothing = {
    .name = "nothing",
    .title = "nothing",
    .hosts = 1,
    .connect = nothing_connect,
    .disconnect = nothing_leave,
    .open = nothing_open,
    .close = nothing_leave,
    .acquire = nothing_acquire,
    .release = nothing_release,
};

double load_loop_cost_ns(void)
{
    static struct load_result result; /* static, because it is too large for the stack */
    struct peer_run run = {.kind = &nothing};
    const struct load load = {
        .workers = 1,
        .hosts = 1,
        .names = LOAD_OWN,
        .warm_ns = 20000000,
        .measure_ns = 100000000,
        .tag = "nothing",
    };
    if (load_run(&run, &load, &result) != 0 || result.pairs == 0) {
        return -1;
    }
    return (double)result.took_ns / (double)result.pairs;
}
