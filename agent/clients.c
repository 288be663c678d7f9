/*
 * The processes that the host core knows: which of them live.
 *
 * A connected client is watched by a pidfd of who connected, which the kernel gives. One that hung
 * up lives on until its pidfd says otherwise, or until it no longer locks its lifeline: then it has
 * let go of everything (or called exec). A client of the agent before this one is found by its
 * lifeline and watched by a pidfd of whoever locks it. Where there is no pidfd (a foreign pid
 * namespace, before Linux 6.5) its lifeline is looked at with the first thing that it asks for, and
 * each quarter of the session's ttl: once it has been seen to lock it, not to lock it is its death.
 * (A process that it forked may keep its connection open; between WELCOME and the lock it lives.)
 *
 * Before Linux 6.5 a pidfd comes by the number that connected, so it may be another process's, if
 * the first one has ended meanwhile. That one then has no hold of this client's: it ended before it
 * was let in; who resumes locks its lifeline *after* the pidfd was opened, by that very number, so
 * the pidfd is right. The wrong one's end frees nothing that somebody holds by the rules, and its
 * life keeps nothing: the hang-up leads to the lifeline, which nobody locks.
 */
#include "agent.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "io/clock.h"
#include "io/lifeline.h"
#include "io/peer.h"
#include "proto/check.h"

static const int64_t look_soon_ns = 50 * INT64_C(1000000);

static void on_poll_gone(uv_handle_t *handle)
{
    free(handle);
}

/*
 * The poll handle goes before its descriptor does: libuv takes the descriptor's number out of its
 * epoll set whenever a poll handle stops or closes, and by then it may be another client's.
 */
static void stop_watching(struct client *client)
{
    if (client->poll != NULL) {
        uv_close((uv_handle_t *)client->poll, on_poll_gone);
        client->poll = NULL;
    }
    if (client->pidfd >= 0) {
        close(client->pidfd);
        client->pidfd = -1;
    }
}

static void client_destroy(struct client *client)
{
    struct agent *agent = client->agent;
    agent->by_id[client->id] = NULL;
    stop_watching(client);
    socket_share_leave(client->share);
    free(client);
}

static void died(struct client *client, const char *how)
{
    struct log_line line;
    client->dead = true;
    stop_watching(client);
    log_begin_limited(&line, LOG_LEVEL_INFO, "client_died", &client->agent->client_limit,
                      clock_boottime_ns());
    log_unsigned(&line, "client", client->id);
    log_text(&line, "how", how);
    log_end(&line);
    struct host_event event = {.kind = HOST_DIED, .client = client->id};
    driver_event(client->agent->driver, &event);
}

static void on_pidfd(uv_poll_t *poll, int status, int events)
{
    struct client *client = poll->data;
    (void)status;
    (void)events;
    agent_turn(client->agent, TURN_USERS);
    if (client->dead || !socket_share_turn(client->share, &client->round)) {
        return; /* it is as ready in the next turn */
    }
    struct socket_shares *shares = client->share->shares;
    uid_t uid = client->share->uid;
    int64_t began_ns = clock_boottime_ns();
    if (client->pidfd >= 0 && peer_pidfd_ended(client->pidfd)) {
        died(client, "its process has ended");
    }
    struct socket_share *share = socket_share_find(shares, uid); /* it may have been his last */
    if (share != NULL) {
        (void)socket_share_spend(share, clock_boottime_ns() - began_ns);
    }
}

/* Takes pidfd, which may be -1. NULL: no memory (then pidfd is closed). */
static struct client *client_create(struct agent *agent, uint32_t id, int pidfd)
{
    HF_CHECK(id > 0 && id < AGENT_CLIENT_IDS && agent->by_id[id] == NULL);
    const struct host_peer *peer = host_peer_of(agent->host, id);
    struct client *client = calloc(1, sizeof(*client));
    if (client != NULL) {
        client->share = socket_share_join(&agent->shares, peer != NULL ? (uid_t)peer->uid : 0,
                                          &client->round);
    }
    if (client == NULL || client->share == NULL) {
        free(client);
        if (pidfd >= 0) {
            close(pidfd);
        }
        errno = ENOMEM;
        return NULL;
    }
    client->agent = agent;
    client->id = id;
    client->pidfd = pidfd;
    client->poll = pidfd >= 0 ? calloc(1, sizeof(*client->poll)) : NULL;
    if (client->poll != NULL && uv_poll_init(&agent->loop, client->poll, pidfd) == 0) {
        client->poll->data = client;
        HF_CHECK(uv_poll_start(client->poll, UV_READABLE, on_pidfd) == 0);
    } else { /* its lifeline is looked at instead */
        free(client->poll);
        client->poll = NULL;
    }
    agent->by_id[id] = client;
    if (id > agent->id_high) {
        agent->id_high = id;
    }
    return client;
}

/* ---- clients of this agent ---- */

bool clients_resumes(struct agent *agent, const struct hfi_hello *hello, const struct peer *peer,
                     bool *resumes)
{
    struct lifeline lifeline;
    pid_t locker;
    *resumes = false;
    if (hello->client == 0 || hello->client >= AGENT_CLIENT_IDS ||
        agent->by_id[hello->client] == NULL || agent->by_id[hello->client]->dead) {
        return true;
    }
    if (!lifeline_read(agent->clients_fd, hello->client, &lifeline)) {
        return errno != EMFILE && errno != ENFILE && errno != ENOMEM;
    }
    bool nonce = lifeline.nonce == hello->nonce;
    bool user = lifeline.uid == peer->uid;
    lifeline_free(&lifeline);
    if (nonce && lifeline_look(agent->clients_fd, hello->client, &locker) == LIFELINE_LOCKED) {
        /* A process that has become another user since is still the one that holds. */
        *resumes = locker != 0 && peer->pid != 0 ? locker == peer->pid : user;
    }
    return true;
}

static bool make_lifeline(struct agent *agent, const struct host_action *action,
                          const struct peer *peer)
{
    const struct host_peer *known = host_peer_of(agent->host, action->client);
    struct lifeline lifeline = {.client = action->client,
                                .pid = peer->pid,
                                .uid = peer->uid,
                                .nonce = action->as.identity.nonce};
    snprintf(lifeline.command, sizeof(lifeline.command), "%s", known != NULL ? known->command : "");
    return lifeline_create(agent->clients_fd, &lifeline);
}

struct client *clients_welcome(struct agent *agent, const struct host_action *action,
                               const struct peer *peer, int pidfd)
{
    struct client *old = agent->by_id[action->client];
    struct client *client;
    struct connection *connection;
    if (!action->as.identity.resumed && !make_lifeline(agent, action, peer)) {
        int error = errno;
        if (pidfd >= 0) {
            close(pidfd);
        }
        errno = error;
        return NULL;
    }
    if (old != NULL) {
        connection = socket_find(agent->server, old->connection);
        if (connection != NULL) { /* it came back before its old connection was seen to be gone */
            connection_note(connection)->client = 0;
            socket_close(connection);
        }
        client_destroy(old);
    }
    client = client_create(agent, action->client, pidfd);
    if (client != NULL) {
        client->locked = action->as.identity.resumed; /* clients_resumes() has seen it */
    }
    return client;
}

void clients_forget(struct agent *agent, uint32_t id)
{
    struct client *client = id < AGENT_CLIENT_IDS ? agent->by_id[id] : NULL;
    struct connection *connection = client != NULL ? socket_find(agent->server, client->connection)
                                                   : NULL;
    if (connection != NULL) {
        connection_note(connection)->client = 0;
        socket_close(connection);
    }
    lifeline_remove(agent->clients_fd, id);
    if (client != NULL) {
        client_destroy(client);
    }
}

void clients_hung_up(struct agent *agent, struct client *client)
{
    client->connection = 0;
    int64_t soon_ns = clock_boottime_ns() + look_soon_ns;
    if (soon_ns < agent->look_ns) {
        agent->look_ns = soon_ns;
    }
}

void clients_heard(struct agent *agent, uint32_t id)
{
    struct client *client = agent->by_id[id];
    pid_t locker;
    if (client != NULL && client->poll == NULL && !client->locked) {
        client->locked = lifeline_look(agent->clients_fd, id, &locker) == LIFELINE_LOCKED;
    }
}

void clients_look(struct agent *agent)
{
    /* By id: what the host core does about one that died may take others away. */
    for (uint32_t id = 1; id <= agent->id_high; id++) {
        struct client *client = agent->by_id[id];
        pid_t locker;
        if (client == NULL || client->dead || (client->connection != 0 && client->poll != NULL)) {
            continue;
        }
        if (lifeline_look(agent->clients_fd, id, &locker) == LIFELINE_LOCKED) {
            client->locked = true;
        } else if (client->connection == 0 || client->locked) {
            died(client, "its lifeline is not locked any more");
        }
    }
}

/* ---- clients of the agent before this one ---- */

/* A pidfd of the process that locks the lifeline; -1: it cannot be seen. *gone: nobody does. */
static int locker_pidfd(struct agent *agent, uint32_t id, bool *gone)
{
    pid_t locker;
    pid_t again;
    *gone = lifeline_look(agent->clients_fd, id, &locker) != LIFELINE_LOCKED;
    if (*gone || locker == 0) {
        return -1;
    }
    int pidfd = peer_pidfd_open(locker);
    *gone = lifeline_look(agent->clients_fd, id, &again) != LIFELINE_LOCKED;
    if (pidfd >= 0 && (*gone || again != locker)) {
        close(pidfd); /* of another process that has the number now */
        pidfd = -1;
    }
    return pidfd;
}

static bool announce(struct agent *agent, const struct lifeline *lifeline)
{
    struct host_peer peer = {.pid = lifeline->pid, .uid = lifeline->uid};
    struct config_user user = {.uid = lifeline->uid}; /* its groups come with its next HELLO */
    snprintf(peer.command, sizeof(peer.command), "%s", lifeline->command);
    for (uint32_t i = 0; i < agent->config.namespace_count; i++) {
        peer.rights[i] = config_rights(&agent->config, i, agent->own, &user);
    }
    for (uint32_t i = 0; i < lifeline->holder_count; i++) {
        if (!host_load_survivor(agent->host, lifeline->client, lifeline->holders[i],
                                lifeline->nonce, &peer)) {
            return false;
        }
    }
    return true;
}

static void load_one(void *arg, uint32_t id)
{
    struct agent *agent = arg;
    struct lifeline lifeline;
    bool gone;
    int pidfd = locker_pidfd(agent, id, &gone);
    bool known = lifeline_read(agent->clients_fd, id, &lifeline);
    if (gone) { /* the host core takes ids that it does not know for dead */
        struct log_line line;
        log_begin_limited(&line, LOG_LEVEL_INFO, "client_died", &agent->client_limit,
                          clock_boottime_ns());
        log_unsigned(&line, "client", id);
        log_number(&line, "pid", known ? lifeline.pid : 0);
        log_text(&line, "how", "its lifeline was not locked when this agent came");
        log_end(&line);
        if (known) {
            lifeline_free(&lifeline);
        }
        return;
    }
    if (known && announce(agent, &lifeline) && client_create(agent, id, pidfd) != NULL) {
        agent->survivors++;
        agent->look_ns = 0;
    } else {
        struct log_line line;
        log_begin(&line, LOG_LEVEL_WARN, "survivor_not_loaded");
        log_unsigned(&line, "client", id);
        log_text(&line, "text", known ? "found no room for it" : "found a damaged lifeline");
        log_end(&line);
    }
    if (known) {
        lifeline_free(&lifeline);
    }
}

static void remove_one(void *arg, uint32_t id)
{
    struct agent *agent = arg;
    if (agent->by_id[id] == NULL) {
        lifeline_remove(agent->clients_fd, id);
    }
}

bool clients_load(struct agent *agent)
{
    agent->look_ns = INT64_MAX;
    if (agent->adopted && !lifeline_each(agent->clients_fd, load_one, agent)) {
        snprintf(agent->error, sizeof(agent->error), "clients: cannot be read: %s",
                 strerror(errno));
        return false;
    }
    return true;
}

void clients_sweep(struct agent *agent)
{
    if (!lifeline_each(agent->clients_fd, remove_one, agent)) {
        log_simple(LOG_LEVEL_WARN, "lifelines_left", strerror(errno));
    }
}

void clients_close(struct agent *agent)
{
    for (uint32_t id = 1; id <= agent->id_high; id++) {
        if (agent->by_id[id] != NULL) {
            client_destroy(agent->by_id[id]);
        }
    }
}
