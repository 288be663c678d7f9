/*
 * Between the socket and the driver: packets become events, the host core's actions become packets.
 *
 * A connection's first packet is HELLO; who it is and what it may do is found out here, of the
 * kernel. Whatever comes after a rule was broken is not looked at: the connection is closed, and if
 * there is room the client is told DONE with the error first.
 */
#include "serve/serve.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent.h"
#include "driver/driver.h"
#include "holdfast/holdfast.h"
#include "io/clock.h"
#include "io/peer.h"
#include "observe/facts.h"
#include "proto/check.h"
#include "serve/clients.h"
#include "serve/processes.h"
#include "serve/rings.h"
#include "turn.h"

static const int64_t minute_ns = 60000000000;

/* The place of what is said of that user; a new one takes that of who was told of longest ago. */
static struct complaint *find_complaint(struct agent *agent, uid_t account, const char *event)
{
    struct complaint *place = &agent->complaints[0];
    for (uint32_t i = 0; i < AGENT_COMPLAINTS; i++) {
        struct complaint *one = &agent->complaints[i];
        if (one->event != NULL && one->account == account && strcmp(one->event, event) == 0) {
            return one;
        }
        place = one->since_ns < place->since_ns ? one : place;
    }
    *place = (struct complaint){.account = account, .event = event, .since_ns = INT64_MIN / 2};
    return place;
}

/* Whether this minute's lines have that of that process already. */
static bool was_told(const struct complaint *complaint, pid_t pid, uint64_t why)
{
    for (uint32_t i = 0; i < complaint->told; i++) {
        if (complaint->of[i].pid == pid && complaint->of[i].why == why) {
            return true;
        }
    }
    return false;
}

/* What a local process does wrong: of one process the same is told once a minute, and of a user a
 * few lines, however often they do it. event: static. peer: NULL if it is not known who. */
static void complain(struct agent *agent, const struct peer *peer, enum log_level level,
                     const char *event, const char *why)
{
    struct complaint *complaint = find_complaint(agent, peer != NULL ? peer->account : (uid_t)-1,
                                                 event);
    int64_t now_ns = clock_boottime_ns();
    pid_t pid = peer != NULL ? peer->pid : -1;
    uint64_t hash = hfi_name_hash(why, strlen(why));
    uint32_t left_out = complaint->left_out;
    struct log_line line;
    if (now_ns - complaint->since_ns >= minute_ns) {
        complaint->since_ns = now_ns;
        complaint->told = 0;
    }
    if (complaint->told >= AGENT_COMPLAINTS_TOLD || was_told(complaint, pid, hash)) {
        complaint->left_out++;
        log_leave_out();
        return;
    }
    log_begin_limited(&line, level, event, &agent->rules_limit, now_ns);
    if (line.silent) { /* too many users at once: told with this one's next line */
        complaint->left_out++;
        return;
    }
    complaint->of[complaint->told].pid = pid;
    complaint->of[complaint->told].why = hash;
    complaint->told++;
    complaint->left_out = 0;
    if (peer != NULL) {
        log_number(&line, "pid", pid);
        log_number(&line, "uid", (int64_t)peer->uid);
    }
    log_text(&line, "why", why);
    if (left_out > 0) {
        log_unsigned(&line, "before", left_out);
    }
    log_end(&line);
}

static void log_rules(struct agent *agent, const struct connection *connection, const char *event,
                      const char *why)
{
    complain(agent, connection_peer(connection), LOG_LEVEL_WARN, event, why);
}

/* Of errno, which stays. */
static void log_record(struct agent *agent, const struct connection *connection)
{
    int error = errno;
    complain(agent, connection_peer(connection), LOG_LEVEL_ERROR, "record_failed", strerror(error));
    errno = error;
}

/* The client of a connection that is closed or about to be; NULL: it was not let in. */
static struct client *part(struct agent *agent, struct connection *connection)
{
    struct connection_note *note = connection_note(connection);
    struct client *client = note->client != 0 ? agent->by_id[note->client] : NULL;
    note->client = 0;
    if (client != NULL) {
        client->connection = 0;
    }
    return client;
}

static void tell_hangup(struct agent *agent, const struct client *client)
{
    if (client != NULL) {
        struct host_event event = {.kind = HOST_HANGUP, .client = client->id};
        driver_event(agent->driver, &event);
    }
}

/* From a callback of the socket. */
static void hang_up(struct agent *agent, struct connection *connection)
{
    struct client *client = part(agent, connection);
    socket_close(connection);
    tell_hangup(agent, client);
}

/* Tells DONE and hangs up. */
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

/* Who it is, and what it may do. false: nothing, or the kernel does not tell. */
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
    for (uint32_t i = 0; i < agent->config.namespace_count; i++) {
        out->rights[i] = config_rights(&agent->config, i, agent->own, &user);
        any = any || out->rights[i] != 0;
    }
    free(all);
    return any;
}

/* As the client says it, which is for people: to read its memory might wait for it. The frame's
 * decoder has seen to it that it is short and text. */
static void take_command(const struct hfi_hello *hello, const struct peer *peer,
                         struct host_peer *out)
{
    if (hello->command.size > 0) {
        HF_CHECK(hello->command.size < sizeof(out->command));
        memcpy(out->command, hello->command.bytes, hello->command.size);
        out->command[hello->command.size] = '\0';
    } else { /* it has no /proc */
        peer_name(peer->pid, out->command);
    }
}

/* To who is not welcomed since there is no room: it may be there in a moment. */
static void say_full(struct connection *connection)
{
    unsigned char bytes[64];
    struct connection_output output = {.bytes = bytes, .fd = -1, .unasked = true};
    output.size = serve_refusal(bytes, sizeof(bytes));
    (void)!connection_send(connection, &output);
}

/* Who it is cannot be had now, which is not its fault. */
static void lack(struct agent *agent, struct connection *connection, int error)
{
    log_rules(agent, connection, "connection_refused",
              error == ENOMEM  ? "out of memory"
              : error == EBUSY ? "too many processes of this user have ended just now"
                               : socket_no_descriptors);
    say_full(connection);
    hang_up(agent, connection);
}

/* The process that connected, of which the client's life is. NULL: it is refused. */
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
               "found no namespace that this user may use");
        return;
    }
    struct process *process = find_process(agent, connection, frame->request);
    if (process == NULL) {
        return;
    }
    take_command(&frame->hello, peer, &host_peer);
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
        if (note->client != 0) { /* else its regions are looked at when it gets them */
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
    tell_hangup(agent, part(agent, connection));
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
    complain(arg, peer, LOG_LEVEL_WARN, "connection_refused", why);
}

static void on_costly(void *arg, struct connection *connection, int64_t cost_ns)
{
    struct agent *agent = arg;
    char why[160];
    agent->costly++;
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
               "holdfastd-close was killed: a socket that cannot be closed stops this agent");
}

size_t serve_refusal(unsigned char *bytes, size_t size)
{
    const struct hfi_frame frame = {.kind = HFI_FRAME_DONE, .error = HF_EFULL};
    return hfi_frame_encode(&frame, bytes, size);
}

struct socket_handler serve_handler(struct agent *agent)
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

/* ---- the host core's actions ---- */

static struct connection *connection_of(struct agent *agent, const struct host_action *action)
{
    const struct client *client = action->client > 0 && action->client < AGENT_CLIENT_IDS
                                      ? agent->by_id[action->client]
                                      : NULL;
    if (client != NULL && client->connection != 0) {
        return socket_find(agent->server, client->connection);
    }
    struct connection *connection = socket_find(agent->server, action->connection);
    /* One that belongs to a client by now is found through it. */
    return connection != NULL && connection_note(connection)->client == 0 ? connection : NULL;
}

/* From within an action: the host core is told afterwards. */
static void drop(struct agent *agent, struct connection *connection)
{
    const struct client *client = part(agent, connection);
    socket_close(connection);
    if (client != NULL) {
        driver_post(agent->driver, HOST_HANGUP, client->id);
    }
}

/* Nobody is to blame for answers to one that hung up, or died, behind what it asked. */
static void cannot_tell(struct agent *agent, struct connection *connection)
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
        return; /* it is gone */
    }
    if (action->as.reply.fds == HOST_FD_REGION) {
        uint32_t space = action->as.reply.region;
        HF_CHECK(space < agent->config.namespace_count);
        output.fd = agent->regions[space].fd;
    }
    if (!connection_send(connection, &output)) {
        cannot_tell(agent, connection);
    }
}

static void welcomed(struct agent *agent, const struct host_action *action)
{
    struct connection *connection = socket_find(agent->server, action->connection);
    HF_CHECK(action->client > 0 && action->client < AGENT_CLIENT_IDS);
    struct client *client = NULL;
    if (connection != NULL) {
        struct connection_note *note = connection_note(connection);
        const struct peer *peer = connection_peer(connection);
        const struct process_name name = {note->process, note->process_serial};
        struct process *process = process_find(agent->processes, name);
        client = process != NULL ? clients_welcome(agent, action, peer, process) : NULL;
        if (client != NULL) {
            struct log_line line;
            note->client = action->client;
            client->connection = connection_number(connection);
            connection_greeted(connection);
            log_begin_limited(&line, LOG_LEVEL_INFO, "client_connected", &agent->client_limit,
                              clock_boottime_ns());
            log_unsigned(&line, "client", action->client);
            log_number(&line, "pid", peer->pid);
            log_number(&line, "uid", (int64_t)peer->uid);
            log_text(&line, "resumed", action->as.identity.resumed ? "yes" : "no");
            log_end(&line);
            return;
        }
        if (process != NULL) {
            log_record(agent, connection);
            say_full(connection);
        }
        socket_close(connection);
    }
    /* It left meanwhile, or could not be noted. A resumed client may still be watched. */
    driver_post(agent->driver, HOST_HANGUP, action->client);
    if (agent->by_id[action->client] == NULL) {
        driver_post(agent->driver, HOST_DIED, action->client);
    }
}

static void alias(struct agent *agent, const struct host_action *action)
{
    if (!client_record_add(agent->clients_fd, action->client, action->as.identity.holder)) {
        /* The next agent would not know the id for this client's. It had better not use it. */
        struct connection *connection = connection_of(agent, action);
        if (connection != NULL) {
            log_record(agent, connection);
            drop(agent, connection);
        }
    }
}

static void log_action(struct agent *agent, const struct host_action *action)
{
    struct log_line line;
    log_begin_limited(&line, LOG_LEVEL_INFO, action->as.log.event, &agent->lock_limit,
                      clock_boottime_ns());
    if (action->as.log.name.length > 0) {
        log_bytes(&line, "lock", action->as.log.name.bytes, action->as.log.name.length);
    }
    if (action->as.log.slot != UINT32_MAX || action->as.log.whole) {
        log_text(&line, "namespace", agent->spaces[action->as.log.region]);
    }
    if (action->as.log.slot != UINT32_MAX) {
        log_unsigned(&line, "slot", action->as.log.slot);
    }
    if (action->as.log.token != 0) {
        log_unsigned(&line, "token", action->as.log.token);
    }
    log_number(&line, "number", action->as.log.number);
    log_end(&line);
}

static void tell_facts(struct agent *agent, const struct host_action *action)
{
    unsigned char bytes[HFI_FRAME_MAX];
    struct connection *connection = connection_of(agent, action);
    struct connection_output output = {.bytes = bytes, .fd = -1};
    if (connection == NULL) {
        return; /* it is gone */
    }
    output.size = facts_tell(agent, action->as.request, bytes);
    if (!connection_send(connection, &output)) {
        cannot_tell(agent, connection);
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
    case HOST_TELL:
        tell_facts(agent, action);
        break;
    default:
        HF_CHECK(!"an action that the driver carries out itself");
    }
}
