/*
 * Three ZooKeeper servers: their configuration, their start, and their leader. The client is in
 * zookeeper_lock.c.
 *
 * The servers run from Debian's jar files (libzookeeper-java). All settings are defaults, except
 * ports, folders, a heap of 512 MiB, and a tick that permits the wanted session timeout (a session
 * lasts at least two ticks). forceSync is on: a server answers after a majority has flushed.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "actors.h"
#include "kinds.h"
#include "tcp_ask.h"
#include "zookeeper_lock.h"

enum { ZK_SERVERS = 3, ANSWER_MAX = 2048, TICKS_A_SESSION = 4, JAR_PATH_MAX = 64 };

/* Java has no default search path for jars. Debian's Java policy says where packages put jars. */
static const char *const jar_folders[] = {"/usr/share/java", "/usr/share/zookeeper",
                                          "/usr/share/zookeeper/lib"};
static const int64_t await_timeout_ns = INT64_C(60000000000);
static const int64_t warm_ns = INT64_C(3000000000);
static const int64_t look_ns = INT64_C(20000000);

/* Finds the jar in jar_folders. Returns -1 if there is no such jar. */
static int find_jar(const char *name, char path[JAR_PATH_MAX])
{
    for (size_t i = 0; i < sizeof(jar_folders) / sizeof(jar_folders[0]); i++) {
        snprintf(path, JAR_PATH_MAX, "%s/%s", jar_folders[i], name);
        if (access(path, R_OK) == 0) {
            return 0;
        }
    }
    return -1;
}

static int zookeeper_missing(char why[PEER_WHY_MAX])
{
    char path[JAR_PATH_MAX];
    if (find_jar("zookeeper.jar", path) != 0) {
        snprintf(why, PEER_WHY_MAX, "no zookeeper.jar here (Debian: libzookeeper-java)");
        return 1;
    }
    return peer_needs_program("java", "default-jre-headless", why);
}

static int write_file(const struct server *server, const char *name, const char *text)
{
    char path[SERVER_PATH_MAX + 16];
    snprintf(path, sizeof(path), "%s/%s", server->directory, name);
    FILE *file = fopen(path, "we");
    if (file == NULL || fputs(text, file) < 0 || fclose(file) != 0) {
        return complain("%s cannot be written", path);
    }
    return 0;
}

static int prepare_server(struct peer_run *run, size_t i, unsigned port, const char *members)
{
    struct server *server = &run->servers[i];
    char name[16];
    char text[SERVER_PATH_MAX + 768];
    snprintf(name, sizeof(name), "server%zu", i + 1);
    if (server_prepare(server, run->directory, name, NULL) != 0) {
        return -1;
    }
    server->port = port;
    snprintf(text, sizeof(text),
             "tickTime=%d\ninitLimit=20\nsyncLimit=10\ndataDir=%s\nclientPort=%u\n"
             "clientPortAddress=127.0.0.1\nmaxClientCnxns=0\nadmin.enableServer=false\n"
             "4lw.commands.whitelist=srvr\n%s",
             (int)(run->lease_ns / 1000000 / TICKS_A_SESSION), server->directory, server->port,
             members);
    if (write_file(server, "zoo.cfg", text) != 0) {
        return -1;
    }
    snprintf(text, sizeof(text), "%zu\n", i + 1);
    if (write_file(server, "myid", text) != 0) {
        return -1;
    }
    char jar[JAR_PATH_MAX];
    char silent_log[JAR_PATH_MAX];
    if (find_jar("zookeeper.jar", jar) != 0) {
        return complain("no zookeeper.jar");
    }
    /* Without a logger, the server logs that it has none. */
    const bool is_silent = find_jar("slf4j-nop.jar", silent_log) == 0;
    int error = 0;
    error |= server_arg(server, "java");
    error |= server_arg(server, "-Xmx512m");
    error |= server_arg(server, "-cp");
    error |= server_arg(server, "%s%s%s", jar, is_silent ? ":" : "", is_silent ? silent_log : "");
    error |= server_arg(server, "org.apache.zookeeper.server.quorum.QuorumPeerMain");
    error |= server_arg(server, "%s/zoo.cfg", server->directory);
    return error;
}

/* Asks a server for its mode (leader, follower). The mode is "" if the server does not serve. */
static void ask_mode(const struct server *server, char mode[16])
{
    char answer[ANSWER_MAX];
    mode[0] = '\0';
    if (tcp_ask(server->port, "srvr", answer, sizeof(answer)) == 0) {
        const char *at = strstr(answer, "Mode: ");
        if (at != NULL) {
            snprintf(mode, 16, "%.*s", (int)strcspn(at + 6, "\n"), at + 6);
        }
    }
}

static int zookeeper_await(struct peer_run *run)
{
    const int64_t give_up_ns = now_ns() + await_timeout_ns;
    while (now_ns() < give_up_ns && !interrupted()) {
        size_t serving = 0;
        for (size_t i = 0; i < run->server_count; i++) {
            char mode[16];
            ask_mode(&run->servers[i], mode);
            serving += mode[0] != '\0' ? 1 : 0;
            if (!server_lives(&run->servers[i])) {
                return complain("ZooKeeper server %zu has ended", i + 1);
            }
        }
        if (serving == run->server_count) {
            return 0;
        }
        pause_ns(look_ns);
    }
    return complain("ZooKeeper does not serve in time");
}

static int zookeeper_connect(struct peer_run *run, uint32_t host, void **out_client)
{
    char hosts[128] = "";
    size_t used = 0;
    /* the list begins with the server on the client's own host */
    for (size_t i = 0; i < run->server_count; i++) {
        size_t at = (host + i) % run->server_count;
        used += (size_t)snprintf(hosts + used, sizeof(hosts) - used, "%s127.0.0.1:%u",
                                 i > 0 ? "," : "", run->servers[at].port);
    }
    return zookeeper_lock_connect(hosts, (int)(run->lease_ns / 1000000), out_client);
}

/* An actor that takes locks; every third pair uses a lock that exists already, as the cases do. */
static int warm_plays(struct peer_run *run, void *stage, uint32_t index)
{
    const int64_t until_ns = now_ns() + warm_ns;
    void *client;
    (void)stage;
    int result = zookeeper_connect(run, index, &client);
    for (uint32_t i = 0; result == PEER_OK && now_ns() < until_ns; i++) {
        char name[PEER_NAME_MAX];
        void *lock;
        uint64_t ignored;
        snprintf(name, sizeof(name), "warm-%u-%u", index, i % 3 == 0 ? 0 : i);
        result = zookeeper_lock_open(client, name, &lock);
        if (result == 0) {
            result = zookeeper_lock_acquire(lock, PEER_EXCLUSIVE, await_timeout_ns / 2, &ignored);
            result = result == PEER_OK ? zookeeper_lock_release(lock) : result;
            zookeeper_lock_close(lock);
        }
    }
    return result;
}

/* Lets clients take locks for warm_ns: a JVM is many times slower in its first seconds, which the
 * cases must not measure. */
static int warm_up(struct peer_run *run)
{
    struct actors actors = {.run = run};
    int result = 0;
    for (uint32_t i = 0; result == 0 && i < ZK_SERVERS; i++) {
        result = actors_add(&actors, warm_plays);
    }
    if (result == 0) {
        result = actors_join(&actors, await_timeout_ns);
    }
    actors_kill_all(&actors);
    return result;
}

static int zookeeper_start(struct peer_run *run)
{
    unsigned ports[3 * ZK_SERVERS];
    char members[256] = "";
    if (ports_choose(ports, 3 * (size_t)ZK_SERVERS) != 0) {
        return -1;
    }
    size_t used = 0;
    for (size_t i = 0; i < ZK_SERVERS; i++) {
        used += (size_t)snprintf(members + used, sizeof(members) - used,
                                 "server.%zu=127.0.0.1:%u:%u\n", i + 1, ports[ZK_SERVERS + i],
                                 ports[2 * (size_t)ZK_SERVERS + i]);
    }
    for (size_t i = 0; i < ZK_SERVERS; i++) {
        run->server_count = i + 1;
        if (prepare_server(run, i, ports[i], members) != 0 ||
            server_launch(&run->servers[i]) != 0) {
            return -1;
        }
    }
    return zookeeper_await(run) == 0 ? warm_up(run) : -1;
}

static void zookeeper_stop(struct peer_run *run)
{
    for (size_t i = 0; i < run->server_count; i++) {
        server_kill(&run->servers[i]);
    }
}

static int zookeeper_leader(struct peer_run *run, const char *name, size_t *out)
{
    (void)name; /* one leader for all locks */
    for (size_t i = 0; i < run->server_count; i++) {
        char mode[16];
        ask_mode(&run->servers[i], mode);
        if (strcmp(mode, "leader") == 0) {
            *out = i;
            return 0;
        }
    }
    return complain("no ZooKeeper server says that it leads");
}

const struct peer_kind peer_zookeeper3 = {
    .name = "zookeeper3",
    .title = "ZooKeeper 3.8, three servers",
    .durability = "a majority flushed (forceSync, the default)",
    .fairness = "The lock recipe on the C client: an ephemeral sequential node, a watch on the one "
                "before; a new lock's node is made in one transaction with its first contender. "
                "The token is the sequence number.",
    .packages = "libzookeeper-java libzookeeper-mt-dev default-jre-headless",
    .features = PEER_HAS_SHARED | PEER_ACROSS_HOSTS | PEER_HAS_TOKEN | PEER_HAS_LEASE |
                PEER_IS_SERVICE | PEER_HAS_LEADER,
    .hosts = 3,
    .missing = zookeeper_missing,
    .start = zookeeper_start,
    .stop = zookeeper_stop,
    .leader = zookeeper_leader,
    .await = zookeeper_await,
    .connect = zookeeper_connect,
    .disconnect = zookeeper_lock_disconnect,
    .open = zookeeper_lock_open,
    .close = zookeeper_lock_close,
    .acquire = zookeeper_lock_acquire,
    .release = zookeeper_lock_release,
    .held = zookeeper_lock_held,
};
