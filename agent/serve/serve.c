/*
 * Connects the socket and the driver: packets become events, and the host core's actions become
 * packets.
 *
 * A connection's first packet is HELLO. This file asks the kernel which process sent it, and looks
 * up the rights of that process's user. If a client breaks a rule, the agent sends DONE with the
 * error, if there is room, and closes the connection. Later packets are not read.
 */
#include "serve/serve.h"
#include "serve/backups.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "agent.h"
#include "driver/driver.h"
#include "holdfast/holdfast.h"
#include "io/clock.h"
#include "io/peer.h"
#include "observe/log.h"
#include "proto/check.h"
#include "serve/clients.h"
#include "serve/private.h"
#include "serve/processes.h"
#include "serve/regions.h"
#include "serve/rings.h"
#include "serve/users.h"
#include "turn.h"

static void log_rules(struct agent *agent, const struct connection *connection, const char *event,
                      const char *why)
{
    misuses_log(agent->serve->misuses, connection_peer(connection), LOG_LEVEL_WARN, event, why);
}

/* Logs and notes that a client's record could not be written, with errno. Leaves errno
 * unchanged. */
static void log_record(struct agent *agent, const struct connection *connection)
{
    int error = errno;
    agent->serve->record_failed_ns = clock_boottime_ns();
    agent->serve->record_failed_why = error;
    misuses_log(agent->serve->misuses, connection_peer(connection), LOG_LEVEL_ERROR,
                "record_failed", strerror(error));
    errno = error;
}

/* Detaches a connection from its client, because it is closed or about to be. Returns the client;
 * NULL if it has none. */
static struct agent_client *part(struct agent *agent, struct connection *connection)
{
    struct connection_note *note = connection_note(connection);
    struct agent_client *client = clients_find(agent, note->client);
    note->client = 0;
    if (client != NULL) {
        client->connection = 0;
    }
    return client;
}

static void notify_hangup(struct agent *agent, const struct agent_client *client)
{
    if (client != NULL) {
        struct host_event event = {.kind = HOST_HANGUP, .client = client->id};
        driver_event(agent->driver, &event);
    }
}

/* Closes the connection and notifies the host core. May be called from callbacks of the socket
 * only. */
static void hang_up(struct agent *agent, struct connection *connection)
{
    struct agent_client *client = part(agent, connection);
    socket_close(connection);
    notify_hangup(agent, client);
}

/* Sends DONE with the error, and hangs up. */
static void refuse(struct agent *agent, struct connection *connection, uint64_t request, int error,
                   const char *why)
{
    unsigned char bytes[64];
    struct hfi_frame frame = {.kind = HFI_FRAME_DONE, .request = request, .error = error};
    struct connection_output output = {.bytes = bytes, .fd = -1, .unasked = true};
    output.size = hfi_frame_encode(&frame, bytes, sizeof(bytes));
    log_rules(agent, connection, error == HF_EACCES ? "client_refused" : "client_broke_rules", why);
    if (output.size > 0) {
        (void)!connection_send(connection, &output);
    }
    hang_up(agent, connection);
}

/* ---- HELLO ---- */

/* Fills in the user's rights. Returns false if the user has none, or if the kernel does not report
 * the user's groups. */
static bool find_rights(struct agent *agent, const struct connection *connection,
                        struct host_peer *out)
{
    const struct peer *peer = connection_peer(connection);
    struct peer_groups groups;
    if (!peer_groups_of(connection_socket(connection), &groups)) {
        return false;
    }
    gid_t *all = realloc(groups.ids, (groups.count + 1) * sizeof(gid_t));
    if (all == NULL) {
        free(groups.ids);
        return false;
    }
    all[groups.count] = peer->gid;
    struct config_user user = {.uid = peer->uid, .groups = all, .group_count = groups.count + 1};
    bool any = false;
    bool every = true;
    for (uint32_t i = 0; i < agent->config.namespace_count; i++) {
        out->rights[i] = config_rights(&agent->config, i, agent->own, &user);
        any = any || out->rights[i] != 0;
        every = every && out->rights[i] != 0;
    }
    if (!every) { /* the user may be one whose name is not found yet */
        users_refused(agent, clock_boottime_ns());
    }
    free(all);
    return any;
}

/* Takes the command from HELLO, for display only. If the client gives none, the command stays
 * empty, because reading /proc might wait for that process. The frame's decoder has checked that
 * the command is short and is text. */
static void take_command(const struct hfi_hello *hello, struct host_peer *out)
{
    HF_CHECK(hello->command.size < sizeof(out->command));
    if (hello->command.size > 0) {
        memcpy(out->command, hello->command.bytes, hello->command.size);
    }
    out->command[hello->command.size] = '\0';
}

/* Writes the frame that refuses a connection before anything is read from it. Returns its size. */
static size_t write_refusal(unsigned char *bytes, size_t size)
{
    const struct hfi_frame frame = {.kind = HFI_FRAME_DONE, .error = HF_EFULL};
    return hfi_frame_encode(&frame, bytes, size);
}

/* Writes the frame that follows write_refusal()'s, and says why there is no room. Returns its
 * size. */
static size_t write_reason(unsigned char *bytes, size_t size, int why)
{
    bool disk = why == ENOSPC || why == EDQUOT;
    struct hfi_frame frame = {.kind = HFI_FRAME_DONE,
                              .error = disk ? HFI_DONE_DISK_FULL : HF_EFULL};
    if (!disk) {
        struct rlimit limit = {0};
        bool descriptors = why == EMFILE || why == ENFILE;
        frame.full.table = why == ENOMEM   ? HFI_TABLE_MEMORY
                           : why == EBUSY  ? HFI_TABLE_ENDED
                           : why == EAGAIN ? HFI_TABLE_GREETINGS
                           : why == EUSERS ? HFI_TABLE_CLIENTS
                           : descriptors   ? HFI_TABLE_DESCRIPTORS
                                           : HFI_TABLE_UNKNOWN;
        if (why == EMFILE && getrlimit(RLIMIT_NOFILE, &limit) == 0) {
            frame.full.room = limit.rlim_cur;
        }
        frame.full.pid = -1;
    }
    return hfi_frame_encode(&frame, bytes, size);
}

/* Refuses a connection because there is no room. A later attempt may succeed. `why` is an errno. */
static void send_full(struct connection *connection, int why)
{
    unsigned char bytes[64];
    struct connection_output output = {.bytes = bytes, .fd = -1, .unasked = true};
    output.size = write_refusal(bytes, sizeof(bytes));
    if (connection_send(connection, &output)) {
        output.size = write_reason(bytes, sizeof(bytes), why);
        (void)!connection_send(connection, &output);
    }
}

/* Refuses a connection because the agent lacks the resources to identify the client. That is not
 * the client's fault. */
static void lack(struct agent *agent, struct connection *connection, int error)
{
    log_rules(agent, connection, "connection_refused",
              error == ENOMEM  ? "out of memory"
              : error == EBUSY ? "too many processes of this user have ended just now"
                               : socket_no_descriptors);
    send_full(connection, error);
    hang_up(agent, connection);
}

/* Finds the process that connected: the client lives as long as this process. Returns NULL after it
 * has refused the connection. */
static struct process *find_process(struct agent *agent, struct connection *connection,
                                    uint64_t request)
{
    struct process *process;
    switch (process_of_peer(agent->processes, connection_socket(connection),
                            connection_peer(connection), &process)) {
    case PROCESS_FOUND:
        return process;
    case PROCESS_GONE:
        refuse(agent, connection, request, HF_EPROTO,
               "HELLO: found that the process that connected has ended");
        break;
    case PROCESS_UNSEEN:
        refuse(agent, connection, request, HF_EACCES,
               "HELLO: found a process of a pid namespace that this agent does not see, expected "
               "one that it sees, or Linux 6.5 or newer: run the agent in the host's pid namespace "
               "(hostPID, --pid=host), or on a newer kernel");
        break;
    default:
        lack(agent, connection, errno);
    }
    return NULL;
}

static void take_hello(struct agent *agent, struct connection *connection,
                       const struct hfi_frame *frame, pid_t sender)
{
    struct connection_note *note = connection_note(connection);
    const struct peer *peer = connection_peer(connection);
    struct host_peer host_peer = {
        .pid = peer->pid, .uid = (int64_t)peer->uid, .account = (int64_t)peer->account};
    if (frame->hello.version != HFI_PROTOCOL_VERSION) {
        char why[96];
        snprintf(why, sizeof(why), "HELLO: found version %u of the socket's protocol, expected %d",
                 frame->hello.version, HFI_PROTOCOL_VERSION);
        refuse(agent, connection, frame->request, HF_EVERSION, why);
        return;
    }
    if (sender != peer->pid) {
        refuse(agent, connection, frame->request, HF_EPROTO,
               "HELLO: found another process, expected the one that connected");
        return;
    }
    if (!find_rights(agent, connection, &host_peer)) {
        refuse(agent, connection, frame->request, HF_EACCES,
               agent->accounts == NULL
                   ? "found no namespace that this user may use"
                   : "found no namespace that this user may use; names that this host does not "
                     "know are looked up again (account_unknown)");
        return;
    }
    struct process *process = find_process(agent, connection, frame->request);
    if (process == NULL) {
        return;
    }
    take_command(&frame->hello, &host_peer);
    note->asked = true;
    note->process = process->name.key;
    note->process_serial = process->name.serial;
    struct host_event event = {
        .kind = HOST_CONNECTED,
        .as.connected = {.peer = &host_peer,
                         .hello = &frame->hello,
                         .request = frame->request,
                         .connection = connection_number(connection),
                         .resumed = clients_resumes(agent, &frame->hello, peer, process)}};
    driver_event(agent->driver, &event);
}

/* ---- packets ---- */

static void on_packet(void *arg, struct connection *connection, const unsigned char *bytes,
                      size_t size, pid_t sender)
{
    struct agent *agent = arg;
    struct connection_note *note = connection_note(connection);
    struct hfi_frame frame;
    struct hfi_listed_cursor cursor;
    struct hfi_frame_error error;
    if (hfi_frame_decode(bytes, size, &frame, &cursor, &error) != 0) {
        refuse(agent, connection, 0, HF_EPROTO, error.text);
    } else if (note->client == 0 && frame.kind == HFI_FRAME_HELLO && !note->asked) {
        take_hello(agent, connection, &frame, sender);
    } else if (frame.kind == HFI_FRAME_RING && (note->client != 0 || note->asked)) {
        if (note->client !=
            0) { /* before WELCOME the ring has no effect: the client's regions are looked at after
                  * WELCOME */
            rings_take(agent, connection);
        }
    } else if (note->client == 0) {
        refuse(agent, connection, 0, HF_EPROTO,
               "found a frame before WELCOME, expected HELLO and nothing else");
    } else if (frame.kind == HFI_FRAME_HELLO) {
        refuse(agent, connection, 0, HF_EPROTO, "found a second HELLO");
    } else {
        struct host_event event = {
            .kind = HOST_FRAME, .client = note->client, .as.frame.frame = &frame};
        driver_event(agent->driver, &event);
    }
}

static void on_closed(void *arg, struct connection *connection, const char *why)
{
    struct agent *agent = arg;
    if (why != NULL) {
        log_rules(agent, connection, "client_broke_rules", why);
    }
    notify_hangup(agent, part(agent, connection));
}

static void on_drained(void *arg, struct connection *connection)
{
    struct agent *agent = arg;
    struct connection_note *note = connection_note(connection);
    if (note->client != 0) {
        struct host_event event = {.kind = HOST_DRAINED, .client = note->client};
        driver_event(agent->driver, &event);
    }
}

static void on_socket(void *arg)
{
    agent_turn(arg, TURN_USERS);
}

static void on_refused(void *arg, const struct peer *peer, const char *why)
{
    struct agent *agent = arg;
    misuses_log(agent->serve->misuses, peer, LOG_LEVEL_WARN, "connection_refused", why);
}

static void on_costly(void *arg, struct connection *connection, int64_t cost_ns)
{
    struct agent *agent = arg;
    char why[160];
    agent->serve->costly++;
    snprintf(why, sizeof(why),
             "a packet cost %u ms of this agent's processor time: its socket has very many epoll "
             "entries, or receivers of its signals",
             (unsigned)(cost_ns / 1000000));
    log_rules(agent, connection, "client_costly", why);
}

static void on_stuck(void *arg, uid_t uid, uint32_t count)
{
    struct log_line line;
    (void)arg;
    log_begin(&line, LOG_LEVEL_WARN, "closings_stuck");
    log_unsigned(&line, "count", count);
    log_number(&line, "uid", uid != (uid_t)-1 ? (int64_t)uid : -1);
    log_end(&line);
}

static void on_alone(void *arg)
{
    (void)arg;
    log_simple(LOG_LEVEL_WARN, "closer_ended",
               "holdfastd-close was killed: a socket whose close does not return now stops this "
               "agent");
}

static struct socket_handler handler(struct agent *agent)
{
    return (struct socket_handler){.begins = on_socket,
                                   .packet = on_packet,
                                   .closed = on_closed,
                                   .drained = on_drained,
                                   .refused = on_refused,
                                   .stuck = on_stuck,
                                   .alone = on_alone,
                                   .costly = on_costly,
                                   .arg = agent};
}

bool serve_create(struct agent *agent)
{
    agent->serve = calloc(1, sizeof(*agent->serve));
    if (agent->serve == NULL) {
        return false;
    }
    agent->serve->rings_ns = INT64_MAX;
    agent->serve->misuses = misuses_create();
    return agent->serve->misuses != NULL;
}

void serve_destroy(struct agent *agent)
{
    if (agent->serve != NULL) {
        misuses_destroy(agent->serve->misuses);
        free(agent->serve);
        agent->serve = NULL;
    }
}

bool serve_open(struct agent *agent, uint32_t connections_max, char error[SOCKET_ERROR_MAX])
{
    struct serve *serve = agent->serve;
    struct socket_config config = {.path = agent->config.socket,
                                   .for_all = config_admits_others(&agent->config, agent->own),
                                   .connections_max = connections_max,
                                   .closer = agent->closer,
                                   .shares = &serve->shares,
                                   .handler = handler(agent)};
    config.refusal_size = write_refusal(config.refusal, sizeof(config.refusal));
    config.refusal_reason = write_reason;
    serve->server = socket_open(agent_uv(agent), &config, error);
    return serve->server != NULL;
}

bool serve_listen_again(struct agent *agent, char error[SOCKET_ERROR_MAX])
{
    return socket_listen_again(agent->serve->server, error);
}

void serve_shut(struct agent *agent)
{
    socket_shut(agent->serve->server);
    agent->serve->server = NULL;
}

void serve_forget(struct agent *agent)
{
    socket_shares_forget(&agent->serve->shares);
}

bool serve_is_open(const struct agent *agent)
{
    return agent->serve->server != NULL;
}

int64_t serve_record_failed_ns(const struct agent *agent, int *why)
{
    *why = agent->serve->record_failed_why;
    return agent->serve->record_failed_ns;
}

uint64_t serve_costly(const struct agent *agent)
{
    return agent->serve->costly;
}

/* ---- turns ---- */

void serve_turn(struct agent *agent, int64_t now_ns, int64_t cpu_ns)
{
    socket_shares_begin(&agent->serve->shares, now_ns, cpu_ns);
}

struct turns_user serve_most(const struct agent *agent)
{
    const struct socket_shares *shares = &agent->serve->shares;
    return (struct turns_user){.uid = shares->most_uid, .took_ns = shares->most_ns};
}

void serve_turned(struct agent *agent)
{
    socket_shares_turned(&agent->serve->shares);
}

void serve_tick(struct agent *agent, int64_t now_ns)
{
    rings_tick(agent, now_ns);
    if (agent->serve->server != NULL) {
        socket_tick(agent->serve->server, now_ns);
    }
}

int64_t serve_next_ns(const struct agent *agent)
{
    const struct serve *serve = agent->serve;
    int64_t socket_ns = serve->server != NULL ? socket_next_tick_ns(serve->server) : INT64_MAX;
    return socket_ns < serve->rings_ns ? socket_ns : serve->rings_ns;
}

/* ---- the host core's actions ---- */

static struct connection *connection_of(struct agent *agent, const struct host_action *action)
{
    const struct agent_client *client = clients_find(agent, action->client);
    if (client != NULL && client->connection != 0) {
        return socket_find(agent->serve->server, client->connection);
    }
    struct connection *connection = socket_find(agent->serve->server, action->connection);
    /* The action is for a connection without a client. If the connection has a client by now, the
     * action is dropped. */
    return connection != NULL && connection_note(connection)->client == 0 ? connection : NULL;
}

/* Closes a connection while an action is carried out. So the host core gets the hang-up as a later
 * event. */
static void drop(struct agent *agent, struct connection *connection)
{
    const struct agent_client *client = part(agent, connection);
    socket_close(connection);
    if (client != NULL) {
        driver_post(agent->driver, HOST_HANGUP, client->id);
    }
}

/* Closes a connection to which an answer could not be sent. If the client closed it or ended after
 * its request, that is not the client's fault, and is not logged. */
static void drop_unsent(struct agent *agent, struct connection *connection)
{
    const char *why = connection_unsent(connection);
    if (why != NULL) {
        log_rules(agent, connection, "client_hung_up", why);
    }
    drop(agent, connection);
}

static void reply(struct agent *agent, const struct host_action *action, const unsigned char *bytes)
{
    struct connection *connection = connection_of(agent, action);
    struct connection_output output = {.bytes = bytes,
                                       .size = action->as.reply.size,
                                       .fd = -1,
                                       .unasked = action->as.reply.unasked};
    if (connection == NULL) {
        return; /* the connection is gone */
    }
    if (action->as.reply.fds == HOST_FD_REGION) {
        uint32_t space = action->as.reply.region;
        HF_CHECK(space < agent->config.namespace_count);
        output.fd = regions_view(agent, space).fd;
    }
    if (!connection_send(connection, &output)) {
        drop_unsent(agent, connection);
    }
}

static void welcomed(struct agent *agent, const struct host_action *action)
{
    struct connection *connection = socket_find(agent->serve->server, action->connection);
    HF_CHECK(action->client > 0 && action->client < CLIENT_IDS);
    struct agent_client *client = NULL;
    if (connection != NULL) {
        struct connection_note *note = connection_note(connection);
        const struct peer *peer = connection_peer(connection);
        const struct process_name name = {note->process, note->process_serial};
        struct process *process = process_find(agent->processes, name);
        client = process != NULL ? clients_welcome(agent, action, peer, process) : NULL;
        if (client != NULL) {
            note->client = action->client;
            agent->serve->record_failed_ns = 0;
            client->connection = connection_number(connection);
            connection_greeted(connection);
            return;
        }
        if (process != NULL) {
            log_record(agent, connection);
            send_full(connection, errno);
        }
        socket_close(connection);
    }
    /* The connection closed meanwhile, or the client's record could not be written. A client that
     * resumed is still known and has its process, so it is not dead. */
    driver_post(agent->driver, HOST_HANGUP, action->client);
    if (clients_find(agent, action->client) == NULL) {
        driver_post(agent->driver, HOST_DIED, action->client);
    }
}

static void alias(struct agent *agent, const struct host_action *action)
{
    if (!client_record_add(agent->clients_fd, action->client, action->as.identity.holder)) {
        /* Without the record the next agent would not know that this id is the client's, so the
         * client must not use the id. */
        struct connection *connection = connection_of(agent, action);
        if (connection != NULL) {
            log_record(agent, connection);
            drop(agent, connection);
        }
    }
}

/* Logs that a table is full. The host core limits these lines. */
static void log_full(const struct agent *agent, const struct host_action *action)
{
    struct log_line line;
    log_begin(&line, LOG_LEVEL_WARN, action->as.log.event);
    log_text(&line, "table", action->as.log.table);
    if (action->as.log.share) {
        log_unsigned(&line, "room_of_one_user", action->as.log.room);
    } else if (action->as.log.room > 0) {
        log_unsigned(&line, "room", action->as.log.room);
    }
    if (action->as.log.whole) {
        log_text(&line, "namespace", agent->config.namespaces[action->as.log.region].name);
    }
    if (action->as.log.by.length > 0) {
        log_bytes(&line, "voter", action->as.log.by.text, action->as.log.by.length);
    }
    if (action->as.log.handles > 0) {
        log_number(&line, "most_pid", action->as.log.pid);
        log_number(&line, "most_uid", action->as.log.uid);
        log_unsigned(&line, "most_handles", action->as.log.handles);
    }
    log_number(&line, "number", action->as.log.number);
    log_end(&line);
}

static void log_action(struct agent *agent, const struct host_action *action)
{
    struct log_line line;
    if (action->as.log.table != NULL) {
        log_full(agent, action);
        return;
    }
    log_begin_limited(&line, LOG_LEVEL_INFO, action->as.log.event, &agent->serve->lock_limit,
                      clock_boottime_ns());
    if (action->as.log.name.length > 0) {
        log_bytes(&line, "lock", action->as.log.name.bytes, action->as.log.name.length);
    }
    if (action->as.log.slot != UINT32_MAX || action->as.log.whole) {
        log_text(&line, "namespace", agent->config.namespaces[action->as.log.region].name);
    }
    if (action->as.log.slot != UINT32_MAX) {
        log_unsigned(&line, "slot", action->as.log.slot);
    }
    if (action->as.log.token != 0) {
        log_unsigned(&line, "token", action->as.log.token);
    }
    log_number(&line, "number", action->as.log.number);
    if (action->as.log.reason != NULL) {
        log_text(&line, "reason", action->as.log.reason);
    }
    if (action->as.log.broken) {
        log_bytes(&line, "by", action->as.log.by.text, action->as.log.by.length);
        if (action->as.log.uid >= 0) {
            log_number(&line, "uid", action->as.log.uid);
        }
    }
    log_end(&line);
}

static void send_facts(struct agent *agent, const struct host_action *action)
{
    unsigned char bytes[HFI_FRAME_MAX];
    struct connection *connection = connection_of(agent, action);
    struct connection_output output = {.bytes = bytes, .fd = -1};
    if (connection == NULL) {
        return; /* the connection is gone */
    }
    output.size = agent_facts(agent, action->as.request, bytes);
    if (!connection_send(connection, &output)) {
        drop_unsent(agent, connection);
    }
}

static void send_backup(struct agent *agent, const struct host_action *action)
{
    unsigned char bytes[HFI_FRAME_MAX];
    struct connection *connection = connection_of(agent, action);
    if (connection == NULL) {
        return; /* the connection is gone */
    }
    struct backups_answer answer = backups_ask(agent->backups, action->connection,
                                               action->as.request, bytes);
    struct connection_output output = {
        .bytes = bytes, .size = answer.size, .fd = answer.fd, .lends_fd = true};
    bool sent = connection_send(connection, &output);
    if (answer.fd >= 0) {
        close(answer.fd);
    }
    if (!sent) {
        drop_unsent(agent, connection);
    }
}

void serve_act(void *arg, const struct host_action *action, const unsigned char *bytes)
{
    struct agent *agent = arg;
    struct connection *connection;
    switch (action->kind) {
    case HOST_REPLY:
        reply(agent, action, bytes);
        break;
    case HOST_WELCOMED:
        welcomed(agent, action);
        break;
    case HOST_HANG_UP:
        connection = connection_of(agent, action);
        if (connection != NULL) {
            log_rules(agent, connection, "client_broke_rules", action->as.text);
            drop(agent, connection);
        }
        break;
    case HOST_FORGET:
        clients_forget(agent, action->client);
        break;
    case HOST_ALIAS:
        alias(agent, action);
        break;
    case HOST_LOG:
        log_action(agent, action);
        break;
    case HOST_FACTS:
        send_facts(agent, action);
        break;
    case HOST_BACKUP:
        send_backup(agent, action);
        break;
    default:
        HF_CHECK(!"an action that the driver carries out itself");
    }
}
