/*
 * etcd with one member and with three. The client is etcd's own Go client (etcd_client.go), built
 * as a library. Each worker loads the library after the fork, because Go's threads do not survive a
 * fork.
 *
 * All settings but ports and folders are etcd's defaults (heartbeat 100 ms, election 1 s, every
 * commit flushed). The bench asks each member over HTTP whether it is healthy and whether it leads.
 */
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kinds.h"
#include "tcp_ask.h"

enum { MEMBERS_MAX = 3, ENDPOINTS_MAX = 128, CLUSTER_MAX = 192, ANSWER_MAX = 2048 };

static const int64_t await_timeout_ns = INT64_C(30000000000);
static const int64_t look_ns = INT64_C(20000000);

/* ---- servers ---- */

static int library_path(char *path, size_t size)
{
    char self[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);
    if (length < 0) {
        return -1;
    }
    self[length] = '\0';
    *strrchr(self, '/') = '\0';
    int needed = snprintf(path, size, "%s/holdfast-peers-etcd.so", self);
    return needed > 0 && (size_t)needed < size && access(path, R_OK) == 0 ? 0 : -1;
}

static int etcd_missing(char why[PEER_WHY_MAX])
{
    char path[PATH_MAX];
    if (library_path(path, sizeof(path)) != 0) {
        snprintf(why, PEER_WHY_MAX,
                 "its Go client was not built (Debian: golang-go, golang-etcd-server-dev)");
        return 1;
    }
    return peer_needs_program("etcd", "etcd-server", why);
}

static int prepare_member(struct peer_run *run, size_t i, unsigned port, unsigned peer_port,
                          const char *cluster)
{
    struct server *server = &run->servers[i];
    char name[16];
    snprintf(name, sizeof(name), "member%zu", i);
    if (server_prepare(server, run->directory, name, NULL) != 0) {
        return -1;
    }
    server->port = port;
    int error = 0;
    error |= server_arg(server, "etcd");
    error |= server_arg(server, "--name=%s", name);
    error |= server_arg(server, "--data-dir=%s/data", server->directory);
    error |= server_arg(server, "--listen-client-urls=http://127.0.0.1:%u", server->port);
    error |= server_arg(server, "--advertise-client-urls=http://127.0.0.1:%u", server->port);
    error |= server_arg(server, "--listen-peer-urls=http://127.0.0.1:%u", peer_port);
    error |= server_arg(server, "--initial-advertise-peer-urls=http://127.0.0.1:%u", peer_port);
    error |= server_arg(server, "--initial-cluster=%s", cluster);
    error |= server_arg(server, "--initial-cluster-token=holdfast-peers");
    error |= server_arg(server, "--logger=zap");
    error |= server_arg(server, "--log-level=error");
    return error;
}

static int etcd_await(struct peer_run *run)
{
    const int64_t give_up_ns = now_ns() + await_timeout_ns;
    char answer[ANSWER_MAX];
    size_t healthy = 0;
    while (healthy < run->server_count && now_ns() < give_up_ns && !interrupted()) {
        for (healthy = 0; healthy < run->server_count; healthy++) {
            if (tcp_ask(run->servers[healthy].port,
                        "GET /health HTTP/1.0\r\nHost: localhost\r\n\r\n", answer,
                        sizeof(answer)) != 0 ||
                strstr(answer, "\"health\":\"true\"") == NULL) {
                break;
            }
        }
        if (healthy < run->server_count) {
            if (!server_lives(&run->servers[healthy])) {
                return complain("etcd member %zu has ended", healthy);
            }
            pause_ns(look_ns);
        }
    }
    return healthy == run->server_count ? 0 : complain("etcd is not healthy in time");
}

static int start_members(struct peer_run *run, size_t count)
{
    unsigned ports[2 * MEMBERS_MAX];
    char cluster[CLUSTER_MAX] = "";
    if (ports_choose(ports, 2 * count) != 0) {
        return -1;
    }
    size_t used = 0;
    for (size_t i = 0; i < count; i++) {
        used += (size_t)snprintf(cluster + used, sizeof(cluster) - used,
                                 "%smember%zu=http://127.0.0.1:%u", i > 0 ? "," : "", i,
                                 ports[count + i]);
    }
    for (size_t i = 0; i < count; i++) {
        run->server_count = i + 1;
        if (prepare_member(run, i, ports[i], ports[count + i], cluster) != 0 ||
            server_launch(&run->servers[i]) != 0) {
            return -1;
        }
    }
    return etcd_await(run);
}

static int etcd1_start(struct peer_run *run)
{
    return start_members(run, 1);
}

static int etcd3_start(struct peer_run *run)
{
    return start_members(run, MEMBERS_MAX);
}

static void etcd_stop(struct peer_run *run)
{
    for (size_t i = 0; i < run->server_count; i++) {
        server_kill(&run->servers[i]);
    }
}

/* Returns the number after "name":" in a JSON text, or 0 if the name is missing. */
static unsigned long long number_after(const char *text, const char *name)
{
    const char *at = strstr(text, name);
    return at == NULL ? 0 : strtoull(at + strlen(name), NULL, 10);
}

static int etcd_leader(struct peer_run *run, const char *name, size_t *out)
{
    (void)name; /* one leader coordinates all locks */
    for (size_t i = 0; i < run->server_count; i++) {
        char answer[ANSWER_MAX];
        if (tcp_ask(run->servers[i].port,
                    "POST /v3/maintenance/status HTTP/1.0\r\nHost: localhost\r\n"
                    "Content-Length: 2\r\n\r\n{}",
                    answer, sizeof(answer)) == 0) {
            unsigned long long leader = number_after(answer, "\"leader\":\"");
            if (leader != 0 && leader == number_after(answer, "\"member_id\":\"")) {
                *out = i;
                return 0;
            }
        }
    }
    return complain("no etcd member says that it leads");
}

/* ---- the client, in a worker ---- */

/* The functions that etcd_client.go exports. */
struct go_client {
    int (*connect)(const char *endpoints, int ttl_s, uintptr_t *out);
    void (*disconnect)(uintptr_t client);
    uintptr_t (*open)(uintptr_t client, const char *name);
    void (*close)(uintptr_t lock);
    int (*acquire)(uintptr_t lock, int64_t timeout_ns, uint64_t *out_token);
    int (*release)(uintptr_t lock);
    int (*held)(uintptr_t lock);
};

/* Each worker process has its own copy. */
static struct go_client go;

/* memcpy() replaces a cast: POSIX guarantees that a function's address fits into a data pointer,
 * but ISO C has no cast between them. */
static int load_one(void *library, const char *name, void *out_function)
{
    void *address = dlsym(library, name);
    memcpy(out_function, &address, sizeof(address));
    return address == NULL ? complain("%s: not in the library", name) : 0;
}

static int load_client(void)
{
    char path[PATH_MAX];
    void *library = NULL;
    if (library_path(path, sizeof(path)) == 0) {
        library = dlopen(path,
                         RTLD_NOW | RTLD_LOCAL); /* never unloaded, because Go does not allow it */
    }
    if (library == NULL) {
        return complain("etcd's client: %s", dlerror());
    }
    int error = 0;
    error |= load_one(library, "etcd_connect", &go.connect);
    error |= load_one(library, "etcd_disconnect", &go.disconnect);
    error |= load_one(library, "etcd_open", &go.open);
    error |= load_one(library, "etcd_close", &go.close);
    error |= load_one(library, "etcd_acquire", &go.acquire);
    error |= load_one(library, "etcd_release", &go.release);
    error |= load_one(library, "etcd_held", &go.held);
    return error;
}

/* Go's handle is a small number. It is stored in allocated memory, because a cast of a number to a
 * pointer would be needed otherwise. */
struct handle {
    uintptr_t value;
};

static int make_handle(uintptr_t value, void **out)
{
    struct handle *handle = malloc(sizeof(*handle));
    if (handle == NULL) {
        return complain("no memory");
    }
    handle->value = value;
    *out = handle;
    return 0;
}

static int etcd_connect(struct peer_run *run, uint32_t host, void **out_client)
{
    static const int64_t second_ns = INT64_C(1000000000);
    char endpoints[ENDPOINTS_MAX] = "";
    size_t used = 0;
    /* the list begins with the member on the client's own host */
    for (size_t i = 0; i < run->server_count; i++) {
        size_t at = (host + i) % run->server_count;
        used += (size_t)snprintf(endpoints + used, sizeof(endpoints) - used, "%s127.0.0.1:%u",
                                 i > 0 ? "," : "", run->servers[at].port);
    }
    uintptr_t client;
    if ((go.connect == NULL && load_client() != 0) ||
        go.connect(endpoints, (int)((run->lease_ns + second_ns - 1) / second_ns), &client) != 0) {
        return -1;
    }
    return make_handle(client, out_client);
}

static void etcd_disconnect(void *client)
{
    go.disconnect(((struct handle *)client)->value);
    free(client);
}

static int etcd_open(void *client, const char *name, void **out_lock)
{
    return make_handle(go.open(((struct handle *)client)->value, name), out_lock);
}

static void etcd_close(void *lock)
{
    go.close(((struct handle *)lock)->value);
    free(lock);
}

static int etcd_acquire(void *lock, enum peer_mode mode, int64_t timeout_ns, uint64_t *out_token)
{
    (void)mode; /* etcd's lock has no shared mode */
    return go.acquire(((struct handle *)lock)->value, timeout_ns, out_token);
}

static int etcd_release(void *lock)
{
    return go.release(((struct handle *)lock)->value);
}

static int etcd_held(void *lock)
{
    return go.held(((struct handle *)lock)->value);
}

#define ETCD_COMMON                                                                                \
    .durability = "a majority flushed (etcd's default)",                                           \
    .fairness = "Its own Go package concurrency: Session and Mutex; the token is the revision. "   \
                "A waiter watches the one before it. The TTL is in whole seconds, at least 2.",    \
    .packages = "etcd-server golang-go golang-etcd-server-dev", .hosts = 3,                        \
    .missing = etcd_missing, .stop = etcd_stop, .await = etcd_await, .connect = etcd_connect,      \
    .disconnect = etcd_disconnect, .open = etcd_open, .close = etcd_close,                         \
    .acquire = etcd_acquire, .release = etcd_release, .held = etcd_held

const struct peer_kind peer_etcd1 = {
    .name = "etcd1",
    .title = "etcd 3.4, one member",
    .features = PEER_ACROSS_HOSTS | PEER_HAS_TOKEN | PEER_HAS_LEASE | PEER_IS_SERVICE,
    .start = etcd1_start,
    ETCD_COMMON,
};

const struct peer_kind peer_etcd3 = {
    .name = "etcd3",
    .title = "etcd 3.4, three members",
    .features = PEER_ACROSS_HOSTS | PEER_HAS_TOKEN | PEER_HAS_LEASE | PEER_IS_SERVICE |
                PEER_HAS_LEADER,
    .start = etcd3_start,
    .leader = etcd_leader,
    ETCD_COMMON,
};
