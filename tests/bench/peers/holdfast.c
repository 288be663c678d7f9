/*
 * Holdfast itself, through its public library. One peer is one host, a cell of one voter. The other
 * peer is three hosts on the loopback, each with an agent that is a voter. Locks are first come,
 * first served, with the default lock-delay.
 */
#include <holdfast/holdfast.h>

#include <stdio.h>
#include <stdlib.h>

#include "../agent.h"
#include "../cell.h"
#include "kinds.h"

struct hosts {
    struct cell cell; /* with a single host, only agents[0] is used */
    char ttl[24];
    char config[CELL_CONFIG_MAX]; /* the configuration of a single host */
};

static int holdfast_missing(char why[PEER_WHY_MAX])
{
    why[0] = '\0'; /* this peer is always built */
    return 0;
}

static struct hosts *make_hosts(struct peer_run *run)
{
    struct hosts *hosts = calloc(1, sizeof(*hosts));
    if (hosts == NULL) {
        complain("no memory for a cell");
        return NULL;
    }
    snprintf(hosts->ttl, sizeof(hosts->ttl), "%lldms", (long long)(run->lease_ns / 1000000));
    run->state = hosts;
    return hosts;
}

static void note_pids(struct peer_run *run, size_t count)
{
    struct hosts *hosts = run->state;
    run->server_count = count;
    for (size_t i = 0; i < count; i++) {
        run->servers[i].pid = hosts->cell.agents[i].pid;
    }
}

static int one_start(struct peer_run *run)
{
    struct hosts *hosts = make_hosts(run);
    unsigned port;
    if (hosts == NULL || ports_choose(&port, 1) != 0) {
        return -1;
    }
    snprintf(hosts->config, sizeof(hosts->config),
             "[agent]\nname = host-a\ncell = bench\nstate_dir = %%D/state\n"
             "socket = %%D/agent.sock\n[cell]\nsession_ttl = %s\n"
             "[voters]\nhost-a = tcp://127.0.0.1:%u\n",
             hosts->ttl, port);
    struct agent *agent = &hosts->cell.agents[0];
    int result = agent_prepare(agent, run->directory);
    if (result == 0) {
        result = agent_launch(agent, hosts->config);
    }
    if (result == 0) {
        result = agent_await_answer(agent);
    }
    note_pids(run, 1);
    return result;
}

static int three_start(struct peer_run *run)
{
    struct hosts *hosts = make_hosts(run);
    if (hosts == NULL) {
        return -1;
    }
    int result = cell_start(&hosts->cell, run->directory, hosts->ttl);
    note_pids(run, CELL_HOSTS);
    return result;
}

static void hosts_stop(struct peer_run *run)
{
    struct hosts *hosts = run->state;
    for (size_t i = 0; hosts != NULL && i < run->server_count; i++) {
        agent_stop(&hosts->cell.agents[i]);
        run->servers[i].pid = 0;
    }
    free(hosts);
    run->state = NULL;
}

static int three_leader(struct peer_run *run, const char *name, size_t *out)
{
    (void)run;
    *out = cell_coordinator(name);
    return 0;
}

static void hosts_kill_server(struct peer_run *run, size_t server, bool clean)
{
    struct hosts *hosts = run->state;
    if (clean) {
        agent_end(&hosts->cell.agents[server]);
    } else {
        agent_kill(&hosts->cell.agents[server]);
    }
    run->servers[server].pid = 0;
}

static int hosts_start_server(struct peer_run *run, size_t server)
{
    struct hosts *hosts = run->state;
    int result = run->server_count == 1 ? agent_launch(&hosts->cell.agents[0], hosts->config)
                                        : cell_launch(&hosts->cell, (uint32_t)server);
    run->servers[server].pid = hosts->cell.agents[server].pid;
    return result;
}

static int one_await(struct peer_run *run)
{
    return agent_await_answer(&((struct hosts *)run->state)->cell.agents[0]);
}

static int three_await(struct peer_run *run)
{
    return cell_await(&((struct hosts *)run->state)->cell);
}

/* Returns the memory of the agents, with the pages of their regions that are in use. */
static int64_t hosts_memory(const struct peer_run *run)
{
    const struct hosts *hosts = run->state;
    double sum = 0;
    for (size_t i = 0; i < run->server_count; i++) {
        struct agent_memory memory;
        if (agent_memory_read(&hosts->cell.agents[i], &memory) == 0) {
            sum += memory.own + memory.regions;
        }
    }
    return (int64_t)sum;
}

/* ---- a client ---- */

static int holdfast_connect(struct peer_run *run, uint32_t host, void **out_client)
{
    const struct hosts *hosts = run->state;
    hf_client *client = cell_connect(&hosts->cell, (uint32_t)(host % run->server_count));
    *out_client = client;
    return client != NULL ? 0 : -1;
}

static void holdfast_disconnect(void *client)
{
    hf_disconnect(client);
}

static int holdfast_open(void *client, const char *name, void **out_lock)
{
    hf_lock *lock = NULL;
    int error = hf_open(client, name, NULL, &lock);
    *out_lock = lock;
    return error == 0 ? 0 : complain("hf_open(%s): %s", name, hf_strerror(error));
}

static void holdfast_close(void *lock)
{
    hf_close(lock);
}

static int holdfast_acquire(void *lock, enum peer_mode mode, int64_t timeout_ns,
                            uint64_t *out_token)
{
    struct hf_hold hold;
    int error = hf_acquire(lock, mode == PEER_SHARED ? HF_SHARED : HF_EXCLUSIVE, timeout_ns, &hold);
    if (error == 0) {
        *out_token = hold.token;
        return PEER_OK;
    }
    if (error == HF_ETIMEDOUT || error == HF_EBUSY) {
        return PEER_NOT_IN_TIME;
    }
    return complain("hf_acquire: %s", hf_strerror(error));
}

static int holdfast_release(void *lock)
{
    int error = hf_release(lock);
    return error == 0          ? PEER_OK
           : error == HF_ELOST ? PEER_LOST
                               : complain("hf_release: %s", hf_strerror(error));
}

static int holdfast_held(void *lock)
{
    return hf_remaining_ns(lock) > 0 ? PEER_OK : PEER_LOST;
}

const struct peer_kind peer_holdfast1 = {
    .name = "holdfast1",
    .title = "Holdfast, one host",
    .durability = "grant: one flush; holds of a name that is there: memory that survives processes",
    .fairness = "First come, first served.",
    .features = PEER_HAS_SHARED | PEER_HAS_TOKEN | PEER_HAS_LEASE | PEER_IS_SERVICE,
    .lock_delay_ns = INT64_C(1000000000),
    .hosts = 1,
    .missing = holdfast_missing,
    .start = one_start,
    .stop = hosts_stop,
    .kill_server = hosts_kill_server,
    .start_server = hosts_start_server,
    .await = one_await,
    .memory = hosts_memory,
    .connect = holdfast_connect,
    .disconnect = holdfast_disconnect,
    .open = holdfast_open,
    .close = holdfast_close,
    .acquire = holdfast_acquire,
    .release = holdfast_release,
    .held = holdfast_held,
};

const struct peer_kind peer_holdfast3 = {
    .name = "holdfast3",
    .title = "Holdfast, three hosts",
    .durability = "grant: flushed by two of three; holds of a name that is there: memory that "
                  "survives processes",
    .fairness = "First come, first served, on each host and between hosts.",
    .features = PEER_HAS_SHARED | PEER_ACROSS_HOSTS | PEER_HAS_TOKEN | PEER_HAS_LEASE |
                PEER_IS_SERVICE | PEER_HAS_LEADER | PEER_HOST_SERVERS,
    .lock_delay_ns = INT64_C(1000000000),
    .hosts = 3,
    .missing = holdfast_missing,
    .start = three_start,
    .stop = hosts_stop,
    .leader = three_leader,
    .kill_server = hosts_kill_server,
    .start_server = hosts_start_server,
    .await = three_await,
    .memory = hosts_memory,
    .connect = holdfast_connect,
    .disconnect = holdfast_disconnect,
    .open = holdfast_open,
    .close = holdfast_close,
    .acquire = holdfast_acquire,
    .release = holdfast_release,
    .held = holdfast_held,
};
