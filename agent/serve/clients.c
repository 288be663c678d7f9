/*
 * The clients that the host core knows: the process of each, and its record.
 *
 * A client lives as long as its process. The process's pidfd tells when the process ends
 * (processes.h). When only the connection ends, the client's holds end, but the client keeps its
 * ids. Until the client returns, this file keeps its nonce and its process, so that a client that
 * resumes needs no look at /proc.
 *
 * The next agent finds the process by the client's record (io/client_record.h). If the next agent
 * cannot see the process, or cannot distinguish it from others, the client is taken for alive. The
 * client keeps its holds until a process that may be its process ends, until the holds are broken
 * (holdfast break), or until the session ends. When the client connects again, its process is
 * known. The log has the number of such clients, and doctor names them.
 */
#include "serve/clients.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent.h"
#include "driver/driver.h"
#include "io/client_record.h"
#include "io/clock.h"
#include "io/subids.h"
#include "observe/log.h"
#include "proto/check.h"
#include "serve/private.h"
#include "serve/processes.h"

struct agent_clients {
    struct agent_client *by_id[CLIENT_IDS];
    uint32_t id_high;   /* the highest id that a client has had */
    uint32_t unproven;  /* number of clients with unproven set */
    uint32_t survivors; /* number of clients that the previous agent left */
    struct log_limit limit;
};

bool clients_create(struct agent *agent)
{
    agent->clients = calloc(1, sizeof(*agent->clients));
    return agent->clients != NULL;
}

void clients_destroy(struct agent *agent)
{
    free(agent->clients);
    agent->clients = NULL;
}

struct agent_client *clients_find(const struct agent *agent, uint32_t id)
{
    return id > 0 && id < CLIENT_IDS ? agent->clients->by_id[id] : NULL;
}

static void prove(struct agent_client *client)
{
    client->agent->clients->unproven -= client->unproven;
    client->unproven = false;
}

static void client_destroy(struct agent_client *client)
{
    if (client->process != NULL) {
        process_remove(client);
    }
    prove(client);
    client->agent->clients->by_id[client->id] = NULL;
    free(client);
}

/* Returns NULL if there is no memory. */
static struct agent_client *client_create(struct agent *agent, uint32_t id, struct process *process)
{
    HF_CHECK(id > 0 && id < CLIENT_IDS && agent->clients->by_id[id] == NULL);
    struct agent_client *client = calloc(1, sizeof(*client));
    if (client == NULL) {
        return NULL;
    }
    client->agent = agent;
    client->id = id;
    if (process != NULL) {
        process_add(process, client);
    }
    agent->clients->by_id[id] = client;
    if (id > agent->clients->id_high) {
        agent->clients->id_high = id;
    }
    return client;
}

void clients_died(struct agent_client *client, const char *how)
{
    struct agent *agent = client->agent;
    struct log_line line;
    HF_CHECK(!client->dead);
    client->dead = true;
    process_remove(client);
    prove(client);
    log_begin_limited(&line, LOG_LEVEL_INFO, "client_died", &agent->clients->limit,
                      clock_boottime_ns());
    log_unsigned(&line, "client", client->id);
    log_text(&line, "how", how);
    log_end(&line);
    struct host_event event = {.kind = HOST_DIED, .client = client->id};
    driver_event(agent->driver, &event);
}

/* ---- clients of this agent ---- */

/* Returns whether the process that connects is the process of the client. */
static bool is_of(const struct agent_client *client, const struct process *process, uid_t uid)
{
    if (client->process == process) {
        return true;
    }
    if (client->process != NULL && peer_pidfd_ended(client->process->pidfd)) {
        return false; /* another process may have the client's pid by now */
    }
    if (client->is.inode != 0 && process->is.inode != 0) {
        return client->is.inode == process->is.inode;
    }
    if (client->pid != 0) {
        bool started = client->is.start == 0 || process->is.start == 0 ||
                       client->is.start == process->is.start;
        return client->process == NULL && client->pid == process->pid && started;
    }
    return client->uid == uid; /* the client knows the nonce, and no other proof exists */
}

bool clients_resumes(const struct agent *agent, const struct hfi_hello *hello,
                     const struct peer *peer, const struct process *process)
{
    const struct agent_client *client = clients_find(agent, hello->client);
    /* The uid is not compared: a process that has changed its user still has its holds. */
    return client != NULL && !client->dead && client->nonce == hello->nonce &&
           is_of(client, process, peer->uid);
}

static bool make_record(struct agent *agent, const struct host_action *action,
                        const struct peer *peer, const struct process *process)
{
    const struct host_peer *known = host_peer_of(agent->host, action->client);
    struct client_record record = {.client = action->client,
                                   .pid = peer->pid,
                                   .uid = peer->uid,
                                   .nonce = action->as.identity.nonce,
                                   .process = process->is,
                                   .numbers = agent->numbers};
    memcpy(record.boot_id, agent->boot_id, sizeof(record.boot_id));
    snprintf(record.command, sizeof(record.command), "%s", known != NULL ? known->command : "");
    return client_record_create(agent->clients_fd, &record);
}

/* Gives the returning client its process. The agent may not have noticed yet that the client's old
 * connection is gone. */
static void come_back(struct agent_client *client, struct process *process)
{
    struct connection *connection = socket_find(client->agent->serve->server, client->connection);
    if (connection != NULL) {
        connection_note(connection)->client = 0;
        socket_close(connection);
    }
    if (client->process != process) {
        if (client->process != NULL) {
            process_remove(client);
        }
        process_add(process, client);
    }
    prove(client);
}

static void log_connected(struct agent *agent, const struct host_action *action,
                          const struct peer *peer)
{
    struct log_line line;
    /* Each run of `holdfast` makes a new connection. Only a process that lives longer can resume
     * one. */
    enum log_level level = action->as.identity.resumed ? LOG_LEVEL_INFO : LOG_LEVEL_DEBUG;
    log_begin_limited(&line, level, "client_connected", &agent->clients->limit,
                      clock_boottime_ns());
    log_unsigned(&line, "client", action->client);
    log_number(&line, "pid", peer->pid);
    log_number(&line, "uid", (int64_t)peer->uid);
    log_text(&line, "resumed", action->as.identity.resumed ? "yes" : "no");
    log_end(&line);
}

struct agent_client *clients_welcome(struct agent *agent, const struct host_action *action,
                                     const struct peer *peer, struct process *process)
{
    struct agent_client *client = agent->clients->by_id[action->client];
    if (action->as.identity.resumed) {
        HF_CHECK(client != NULL);
        come_back(client, process);
    } else {
        HF_CHECK(client == NULL);
        client = make_record(agent, action, peer, process)
                     ? client_create(agent, action->client, process)
                     : NULL;
        if (client == NULL) {
            return NULL;
        }
    }
    client->is = process->is;
    client->nonce = action->as.identity.nonce;
    client->pid = process->pid;
    client->uid = peer->uid;
    log_connected(agent, action, peer);
    return client;
}

void clients_forget(struct agent *agent, uint32_t id)
{
    struct agent_client *client = clients_find(agent, id);
    struct connection *connection = client != NULL
                                        ? socket_find(agent->serve->server, client->connection)
                                        : NULL;
    if (connection != NULL) {
        connection_note(connection)->client = 0;
        socket_close(connection);
    }
    client_record_remove(agent->clients_fd, id);
    if (client != NULL) {
        client_destroy(client);
    }
}

/* ---- clients of the previous agent ---- */

static bool announce(struct agent *agent, const struct client_record *record)
{
    struct host_peer peer = {
        .pid = record->pid, .uid = record->uid, .account = subids_account(record->uid)};
    struct config_user user = {.uid = record->uid}; /* the groups come with the client's next
                                                     * HELLO */
    snprintf(peer.command, sizeof(peer.command), "%s", record->command);
    for (uint32_t i = 0; i < agent->config.namespace_count; i++) {
        peer.rights[i] = config_rights(&agent->config, i, agent->own, &user);
    }
    for (uint32_t i = 0; i < record->holder_count; i++) {
        if (!host_load_survivor(agent->host, record->client, record->holders[i], record->nonce,
                                &peer)) {
            return false;
        }
    }
    return true;
}

/* Logs that the process has ended. Nothing else is needed: the host core treats an id that was not
 * loaded as one whose process has ended. */
static void log_ended(struct agent *agent, const struct client_record *record)
{
    struct log_line line;
    log_begin_limited(&line, LOG_LEVEL_INFO, "client_died", &agent->clients->limit,
                      clock_boottime_ns());
    log_unsigned(&line, "client", record->client);
    log_number(&line, "pid", record->pid);
    log_text(&line, "how", "its process had ended before this agent started");
    log_end(&line);
}

static void log_not_loaded(uint32_t id, const char *why)
{
    struct log_line line;
    log_begin(&line, LOG_LEVEL_WARN, "survivor_not_loaded");
    log_unsigned(&line, "client", id);
    log_text(&line, "text", why);
    log_end(&line);
}

static void load_record(struct agent *agent, const struct client_record *record)
{
    struct process *process;
    enum process_life life = process_of_record(agent->processes, record, &process);
    if (life == PROCESS_ENDED) {
        log_ended(agent, record);
        return;
    }
    struct agent_client *client = announce(agent, record)
                                      ? client_create(agent, record->client, process)
                                      : NULL;
    if (client == NULL) {
        log_not_loaded(record->client, "found no room for it in the table of clients");
        return;
    }
    bool seen = record->numbers == 0 || record->numbers == agent->numbers;
    client->is = record->process;
    client->nonce = record->nonce;
    client->pid = seen ? record->pid : 0;
    client->uid = record->uid;
    client->unproven = life == PROCESS_UNPROVEN;
    agent->clients->unproven += client->unproven;
    agent->clients->survivors++;
}

static void load_one(void *arg, uint32_t id)
{
    struct agent *agent = arg;
    struct client_record record;
    if (!client_record_read(agent->clients_fd, id, &record)) {
        log_not_loaded(id, "found a damaged record");
        return;
    }
    load_record(agent, &record);
    client_record_free(&record);
}

static void remove_one(void *arg, uint32_t id)
{
    struct agent *agent = arg;
    if (agent->clients->by_id[id] == NULL) {
        client_record_remove(agent->clients_fd, id);
    }
}

static void log_unproven(const struct agent *agent)
{
    struct log_line line;
    if (agent->clients->unproven == 0) {
        return;
    }
    log_begin(&line, LOG_LEVEL_WARN, "survivors_unproven");
    log_unsigned(&line, "number", agent->clients->unproven);
    log_text(
        &line, "text",
        "so many clients of the previous agent keep their holds, although this agent cannot see "
        "whether they live: other processes may have their numbers now, or they are in another "
        "pid namespace (holdfast doctor names them)");
    log_end(&line);
}

bool clients_load(struct agent *agent)
{
    if (agent->adopted && !client_record_each(agent->clients_fd, load_one, agent)) {
        snprintf(agent->error, sizeof(agent->error), "clients: cannot be read: %s",
                 strerror(errno));
        return false;
    }
    log_unproven(agent);
    return true;
}

void clients_remove_records(struct agent *agent)
{
    if (!client_record_each(agent->clients_fd, remove_one, agent)) {
        log_simple(LOG_LEVEL_WARN, "records_left", strerror(errno));
    }
}

void clients_close(struct agent *agent)
{
    for (uint32_t id = 1; agent->clients != NULL && id <= agent->clients->id_high; id++) {
        if (agent->clients->by_id[id] != NULL) {
            client_destroy(agent->clients->by_id[id]);
        }
    }
}

uint32_t clients_survivors(const struct agent *agent)
{
    return agent->clients->survivors;
}

uint32_t clients_with_connection(const struct agent *agent)
{
    uint32_t count = 0;
    for (uint32_t id = 1; id <= agent->clients->id_high; id++) {
        const struct agent_client *client = agent->clients->by_id[id];
        count += client != NULL && client->connection != 0;
    }
    return count;
}

uint32_t clients_unproven(const struct agent *agent)
{
    return agent->clients->unproven;
}

const struct agent_client *clients_next_unproven(const struct agent *agent, uint32_t after)
{
    for (uint32_t id = after + 1; id <= agent->clients->id_high; id++) {
        const struct agent_client *client = agent->clients->by_id[id];
        if (client != NULL && client->unproven) {
            return client;
        }
    }
    return NULL;
}
