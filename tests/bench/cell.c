/*
 * See cell.h. The bench reads from an agent's log how much the agent has sent: an agent logs its
 * traffic when it gets SIGUSR1 (docs/LOG.md).
 */
#include "cell.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/base/names.h"
#include "core/quorum.h"

static const int64_t millisecond_ns = 1000000;
static const int64_t settle_ns = INT64_C(1500000000);
static const int64_t take_timeout_ns = INT64_C(20000000000);

/* Finds ports that no process uses. All sockets stay open until the last port is found, so that the
 * ports differ. */
static int choose_ports(struct cell *cell)
{
    int fds[CELL_PORTS];
    int result = 0;
    for (uint32_t i = 0; i < CELL_PORTS; i++) {
        struct sockaddr_in address = {.sin_family = AF_INET};
        socklen_t size = sizeof(address);
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fds[i] < 0 || bind(fds[i], (struct sockaddr *)&address, size) != 0 ||
            getsockname(fds[i], (struct sockaddr *)&address, &size) != 0) {
            result = complain("no port on the loopback: %s", strerror(errno));
        }
        cell->ports[i] = ntohs(address.sin_port);
    }
    for (uint32_t i = 0; i < CELL_PORTS; i++) {
        close(fds[i]);
    }
    return result;
}

/* Makes directories and chooses ports. */
static int cell_prepare(struct cell *cell, const char *below, const char *ttl)
{
    *cell = (struct cell){.ttl = ttl};
    for (uint32_t i = 0; i < CELL_HOSTS; i++) {
        if (agent_prepare(&cell->agents[i], below) != 0) {
            return -1;
        }
    }
    return choose_ports(cell);
}

int cell_launch(struct cell *cell, uint32_t host)
{
    char config[CELL_CONFIG_MAX];
    snprintf(config, sizeof(config),
             "[agent]\nname = host-%c\ncell = bench\nstate_dir = %%D/state\n"
             "socket = %%D/agent.sock\n"
             "[cell]\nsession_ttl = %s\n"
             "[voters]\nhost-a = tcp://127.0.0.1:%u\nhost-b = tcp://127.0.0.1:%u\n"
             "host-c = tcp://127.0.0.1:%u\n",
             'a' + (int)host, cell->ttl, cell->ports[0], cell->ports[1], cell->ports[2]);
    return agent_launch(&cell->agents[host], config);
}

uint32_t cell_coordinator(const char *name)
{
    struct message_agent voters[CELL_HOSTS];
    for (uint32_t i = 0; i < CELL_HOSTS; i++) {
        char text[8];
        snprintf(text, sizeof(text), "host-%c", 'a' + (int)i);
        message_agent_set(&voters[i], text, strlen(text));
    }
    return quorum_preferred(voters, CELL_HOSTS, names_partition(name, strlen(name)));
}

void cell_new_name(struct cell *cell, uint32_t coordinator, char name[CELL_NAME_SIZE])
{
    do { /* the loop ends soon, because the host coordinates about every third name */
        snprintf(name, CELL_NAME_SIZE, "bench/cell/%llu", (unsigned long long)cell->names_used++);
    } while (cell_coordinator(name) != coordinator);
}

hf_client *cell_connect(const struct cell *cell, uint32_t host)
{
    hf_client *client = NULL;
    struct hf_options options = {.size = sizeof(options), .socket = cell->agents[host].socket};
    int error = hf_connect(&options, &client);
    if (error != 0) {
        complain("connecting to host %u: %s", host, hf_strerror(error));
        return NULL;
    }
    return client;
}

hf_lock *cell_take(hf_client *client, const char *name)
{
    hf_lock *lock = NULL;
    int error = hf_open(client, name, NULL, &lock);
    if (error == 0) {
        error = hf_acquire(lock, HF_EXCLUSIVE, take_timeout_ns, NULL);
    }
    if (error != 0) {
        complain("%s: %s", name, hf_strerror(error));
        hf_close(lock);
        return NULL;
    }
    return lock;
}

/* Waits until every host can take a lock of every coordinator. Then waits another 1.5 s, in which
 * each partition goes to its preferred voter. */
int cell_await(struct cell *cell)
{
    for (uint32_t i = 0; i < CELL_HOSTS; i++) {
        if (agent_await_answer(&cell->agents[i]) != 0) {
            return -1;
        }
    }
    for (uint32_t i = 0; i < CELL_HOSTS * CELL_HOSTS; i++) {
        char name[CELL_NAME_SIZE];
        hf_client *client = cell_connect(cell, i % CELL_HOSTS);
        hf_lock *lock = NULL;
        cell_new_name(cell, i / CELL_HOSTS, name);
        if (client != NULL) {
            lock = cell_take(client, name);
        }
        bool taken = lock != NULL && hf_release(lock) == 0;
        hf_close(lock);
        hf_disconnect(client);
        if (!taken) {
            return complain("the cell does not serve");
        }
    }
    pause_ns(settle_ns);
    return interrupted() ? complain("interrupted") : 0;
}

int cell_start(struct cell *cell, const char *below, const char *ttl)
{
    if (cell_prepare(cell, below, ttl) != 0) {
        return -1;
    }
    for (uint32_t i = 0; i < CELL_HOSTS; i++) {
        if (cell_launch(cell, i) != 0) {
            return -1;
        }
    }
    return cell_await(cell);
}

void cell_stop(struct cell *cell)
{
    for (uint32_t i = 0; i < CELL_HOSTS; i++) {
        agent_stop(&cell->agents[i]);
    }
}

/* ---- what was sent ---- */

/* Returns the number after " key=", or 0 if the key is missing. */
static uint64_t field(const char *line, const char *key)
{
    char pattern[64];
    snprintf(pattern, sizeof(pattern), " %s=", key);
    const char *at = strstr(line, pattern);
    return at == NULL ? 0 : strtoull(at + strlen(pattern), NULL, 10);
}

/* Reads the counts of messages in a line "traffic_sent", and adds them to *out by their purpose. */
static void read_kinds(const char *line, struct cell_traffic *out)
{
    static const char *const renewals[] = {"RENEW", "RENEW_ACK"};
    static const char *const background[] = {"gossip",  "BEAT",       "PULL",        "PULLED",
                                             "HELLO",   "HELLO_ACK",  "OWNER",       "PREPARE",
                                             "PROMISE", "CHECKPOINT", "CHECKPOINTED"};
    uint64_t all = 0;
    const char *at = strstr(line, " gossip=");
    while (at != NULL && *at != '\0') {
        const char *number = strchr(at, '=');
        all += number == NULL ? 0 : strtoull(number + 1, NULL, 10);
        at = strchr(at + 1, ' ');
    }
    out->commits = field(line, "commits");
    for (size_t i = 0; i < sizeof(renewals) / sizeof(renewals[0]); i++) {
        out->renewals += field(line, renewals[i]);
    }
    for (size_t i = 0; i < sizeof(background) / sizeof(background[0]); i++) {
        out->background += field(line, background[i]);
    }
    out->for_locks = all - out->commits - out->renewals - out->background;
}

/* Reads the log from offset `from` on. Returns whether the log has the last line of a report. */
static bool read_report(const char *path, long from, struct cell_traffic *out)
{
    char line[4096];
    bool whole = false;
    FILE *log = fopen(path, "re");
    *out = (struct cell_traffic){.packets = 0};
    if (log == NULL || fseek(log, from, SEEK_SET) != 0) {
        if (log != NULL) {
            fclose(log);
        }
        return false;
    }
    while (fgets(line, sizeof(line), log) != NULL) {
        if (strstr(line, "event=traffic_sent ") != NULL) {
            read_kinds(line, out);
        } else if (strstr(line, "event=traffic ") != NULL && strchr(line, '\n') != NULL) {
            out->packets = field(line, "packets_sent");
            out->bytes = field(line, "bytes_sent");
            out->token_ranges = field(line, "token_ranges");
            whole = true;
        }
    }
    fclose(log);
    return whole;
}

int cell_read_traffic(const struct cell *cell, uint32_t host, struct cell_traffic *out)
{
    const struct agent *agent = &cell->agents[host];
    char path[AGENT_PATH_MAX + 16];
    snprintf(path, sizeof(path), "%s/agent.log", agent->directory);
    FILE *log = fopen(path, "re");
    if (log == NULL || fseek(log, 0, SEEK_END) != 0) {
        return complain("%s: %s", path, strerror(errno));
    }
    long from = ftell(log);
    fclose(log);
    kill(agent->pid, SIGUSR1);
    for (int waited_ms = 0; waited_ms < 5000; waited_ms++) {
        if (read_report(path, from, out)) {
            int64_t resolution_ns;
            return agent_cpu_ns(agent, &out->cpu_ns, &resolution_ns) == 0
                       ? agent_wakeups(agent, &out->wakeups)
                       : -1;
        }
        pause_ns(millisecond_ns);
    }
    return complain("%s: no traffic was logged on SIGUSR1", path);
}

int cell_traffic_sum(const struct cell *cell, struct cell_traffic *out)
{
    *out = (struct cell_traffic){.packets = 0};
    for (uint32_t i = 0; i < CELL_HOSTS; i++) {
        struct cell_traffic one;
        if (cell_read_traffic(cell, i, &one) != 0) {
            return -1;
        }
        out->packets += one.packets;
        out->bytes += one.bytes;
        out->renewals += one.renewals;
        out->background += one.background;
        out->for_locks += one.for_locks;
        out->commits += one.commits;
        out->token_ranges += one.token_ranges;
        out->wakeups += one.wakeups;
        out->cpu_ns += one.cpu_ns;
    }
    return 0;
}
