/*
 * See zookeeper_lock.h. This is the recipe of ZooKeeper's documentation ("Locks", "Shared Locks").
 * A client that wants a lock makes an ephemeral sequential node below the lock's node, and lists
 * the nodes below the lock's node. It has the lock if no node that excludes its own comes before
 * its own. Otherwise it watches the last such node and waits.
 *
 * A node's name begins with the mode (w, r), followed by session and handle. So a client that lost
 * the connection, and with it the answer, can find the node that it made. The first client makes
 * the lock's node and its own node in one transaction. It has the lock without listing the nodes.
 *
 * The C client has two threads of its own. They notify the worker's thread by a counter of events.
 */
#include "zookeeper_lock.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <zookeeper/zookeeper.h>

enum { PATH_SIZE = 192, SEQUENCE_DIGITS = 10, HOSTS_MAX = 128, PREFIX_SIZE = 48 };

static const int64_t connect_timeout_ns = INT64_C(20000000000);
static const int64_t release_timeout_ns = INT64_C(20000000000);
static const int64_t for_ever_ns = INT64_C(1) << 61;
static const int64_t look_ns = INT64_C(10000000);

struct zookeeper_session {
    zhandle_t *zookeeper;
    char hosts[HOSTS_MAX];
    int session_ms;
    uint32_t locks; /* how many locks were opened so far */
    /* Sessions are numbered from 1, and this is the number of the present session. A node belongs
     * to the present session if lock->session is equal to this number. */
    uint32_t sessions;
    pthread_mutex_t mutex;
    pthread_cond_t happened;
    uint64_t events; /* protected by the mutex */
    bool expired;    /* protected by the mutex */
};

struct lock {
    struct zookeeper_session *client;
    char parent[PATH_SIZE];
    char node[PATH_SIZE]; /* "": the lock has no node */
    uint32_t id;
    uint32_t session;
    bool parent_known;
};

/* ---- the session ---- */

/* Counts an event, and notes whether the session has expired. Called on a thread of the C
 * client. */
static void notice(zhandle_t *zookeeper, int type, int state, const char *path, void *context)
{
    struct zookeeper_session *client = context;
    (void)zookeeper;
    (void)path;
    pthread_mutex_lock(&client->mutex);
    client->events++;
    client->expired |= type == ZOO_SESSION_EVENT && state == ZOO_EXPIRED_SESSION_STATE;
    pthread_cond_broadcast(&client->happened);
    pthread_mutex_unlock(&client->mutex);
}

static uint64_t events_so_far(struct zookeeper_session *client)
{
    pthread_mutex_lock(&client->mutex);
    uint64_t events = client->events;
    pthread_mutex_unlock(&client->mutex);
    return events;
}

static bool is_expired(struct zookeeper_session *client)
{
    pthread_mutex_lock(&client->mutex);
    bool expired = client->expired;
    pthread_mutex_unlock(&client->mutex);
    return expired;
}

/* Waits until the event counter passes `seen`, or until wait_ns is over. */
static void await_event(struct zookeeper_session *client, uint64_t seen, int64_t wait_ns)
{
    static const int64_t second_ns = INT64_C(1000000000);
    static const int64_t longest_ns = INT64_C(1000000000);
    struct timespec until;
    /* at most a second, because a watch may be lost, and then its event never comes */
    wait_ns = wait_ns < longest_ns ? wait_ns : longest_ns;
    clock_gettime(CLOCK_MONOTONIC, &until);
    int64_t end_ns = until.tv_nsec + wait_ns;
    until.tv_sec += (time_t)(end_ns / second_ns);
    until.tv_nsec = (long)(end_ns % second_ns);
    pthread_mutex_lock(&client->mutex);
    int error = 0;
    while (client->events == seen && error == 0) {
        error = pthread_cond_timedwait(&client->happened, &client->mutex, &until);
    }
    pthread_mutex_unlock(&client->mutex);
}

/* Waits until the session is connected. Returns false if the session has expired or until_ns is
 * past. */
static bool await_connection(struct zookeeper_session *client, int64_t until_ns)
{
    while (zoo_state(client->zookeeper) != ZOO_CONNECTED_STATE) {
        if (is_expired(client) || now_ns() >= until_ns) {
            return false;
        }
        await_event(client, events_so_far(client), look_ns);
    }
    return true;
}

static int begin_session(struct zookeeper_session *client)
{
    if (client->zookeeper != NULL) {
        zookeeper_close(client->zookeeper);
    }
    client->expired = false; /* this needs no mutex: no thread of the C client runs now */
    client->sessions++;
    client->zookeeper = zookeeper_init(client->hosts, notice, client->session_ms, NULL, client, 0);
    if (client->zookeeper == NULL) {
        return complain("zookeeper_init failed");
    }
    return await_connection(client, now_ns() + connect_timeout_ns)
               ? 0
               : complain("ZooKeeper does not answer");
}

int zookeeper_lock_connect(const char *hosts, int session_ms, void **out_client)
{
    pthread_condattr_t attributes;
    struct zookeeper_session *client = calloc(1, sizeof(*client));
    if (client == NULL) {
        return complain("no memory");
    }
    pthread_mutex_init(&client->mutex, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&client->happened, &attributes);
    pthread_condattr_destroy(&attributes);
    snprintf(client->hosts, sizeof(client->hosts), "%s", hosts);
    client->session_ms = session_ms;
    zoo_set_debug_level((ZooLogLevel)0); /* silent */
    zoo_deterministic_conn_order(1);
    if (begin_session(client) != 0) {
        zookeeper_lock_disconnect(client);
        return -1;
    }
    int error = zoo_create(client->zookeeper, "/locks", NULL, -1, &ZOO_OPEN_ACL_UNSAFE, 0, NULL, 0);
    if (error != ZOK && error != ZNODEEXISTS) {
        zookeeper_lock_disconnect(client);
        return complain("ZooKeeper: %s", zerror(error));
    }
    *out_client = client;
    return 0;
}

void zookeeper_lock_disconnect(void *client)
{
    struct zookeeper_session *mine = client;
    if (mine->zookeeper != NULL) {
        zookeeper_close(mine->zookeeper);
    }
    pthread_cond_destroy(&mine->happened);
    pthread_mutex_destroy(&mine->mutex);
    free(mine);
}

int zookeeper_lock_open(void *client, const char *name, void **out_lock)
{
    struct lock *lock = calloc(1, sizeof(*lock));
    if (lock == NULL) {
        return complain("no memory");
    }
    lock->client = client;
    lock->id = lock->client->locks++;
    snprintf(lock->parent, sizeof(lock->parent), "/locks/%s", name);
    *out_lock = lock;
    return 0;
}

void zookeeper_lock_close(void *lock)
{
    free(lock);
}

/* ---- the recipe ---- */

static bool connection_failed(int error)
{
    return error == ZCONNECTIONLOSS || error == ZOPERATIONTIMEOUT;
}

static bool session_failed(int error)
{
    return error == ZSESSIONEXPIRED || error == ZINVALIDSTATE || error == ZCLOSING;
}

static const char *last_part(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash == NULL ? path : slash + 1;
}

static uint64_t sequence_of(const char *node)
{
    size_t length = strlen(node);
    return length < SEQUENCE_DIGITS ? 0 : strtoull(node + length - SEQUENCE_DIGITS, NULL, 10);
}

static void own_prefix(const struct lock *lock, enum peer_mode mode, char prefix[PREFIX_SIZE])
{
    snprintf(prefix, PREFIX_SIZE, "%c-%llx-%x-", mode == PEER_SHARED ? 'r' : 'w',
             (unsigned long long)zoo_client_id(lock->client->zookeeper)->client_id, lock->id);
}

/*
 * Must be called after an answer was lost. Sets lock->node to the node that the server made for the
 * lost request, or to "" if this server knows no such node. The node may exist nevertheless, and
 * the caller then makes a second one. So if the server knows several nodes of this lock, the
 * function keeps the first and deletes the others. Otherwise the lock would wait for a node of its
 * own.
 */
static int find_own(struct lock *lock, const char *prefix)
{
    struct String_vector children = {0, NULL};
    zhandle_t *zookeeper = lock->client->zookeeper;
    int error = zoo_get_children(zookeeper, lock->parent, 0, &children);
    const char *first = NULL;
    for (int32_t i = 0; error == ZOK && i < children.count; i++) {
        const char *each = children.data[i];
        if (strncmp(each, prefix, strlen(prefix)) == 0 &&
            (first == NULL || sequence_of(each) < sequence_of(first))) {
            first = each;
        }
    }
    for (int32_t i = 0; error == ZOK && i < children.count; i++) {
        const char *each = children.data[i];
        if (each != first && strncmp(each, prefix, strlen(prefix)) == 0) {
            char path[PATH_SIZE];
            snprintf(path, sizeof(path), "%.90s/%.90s", lock->parent, each);
            int gone = zoo_delete(zookeeper, path, -1);
            error = gone == ZNONODE ? ZOK : gone;
        }
    }
    lock->node[0] = '\0';
    if (error == ZOK && first != NULL) {
        snprintf(lock->node, sizeof(lock->node), "%.90s/%.90s", lock->parent, first);
    }
    if (children.data != NULL) {
        deallocate_String_vector(&children);
    }
    return error == ZNONODE ? ZOK : error;
}

/* Tries once to make lock->node. Sets *out_alone if lock->parent was made in the same
 * transaction. */
static int try_to_queue(struct lock *lock, const char *prefix, bool *out_alone)
{
    /* the value of ZOO_EPHEMERAL_SEQUENTIAL; the library has it in a variable, not in a constant */
    static const int sequential = 3;
    zhandle_t *zookeeper = lock->client->zookeeper;
    char path[PATH_SIZE];
    snprintf(path, sizeof(path), "%.90s/%s", lock->parent, prefix);
    *out_alone = false;
    if (lock->parent_known) {
        int error = zoo_create(zookeeper, path, NULL, -1, &ZOO_OPEN_ACL_UNSAFE, sequential,
                               lock->node, sizeof(lock->node));
        lock->parent_known = error != ZNONODE;
        return error;
    }
    zoo_op_t both[2];
    zoo_op_result_t results[2];
    char parent[PATH_SIZE];
    zoo_create_op_init(&both[0], lock->parent, NULL, -1, &ZOO_OPEN_ACL_UNSAFE, 0, parent,
                       sizeof(parent));
    zoo_create_op_init(&both[1], path, NULL, -1, &ZOO_OPEN_ACL_UNSAFE, sequential, lock->node,
                       sizeof(lock->node));
    int error = zoo_multi(zookeeper, 2, both, results);
    *out_alone = error == ZOK;
    lock->parent_known = error == ZOK || error == ZNODEEXISTS;
    return error;
}

/* Makes lock->node. Begins a new session if the old one has ended. */
static int queue_up(struct lock *lock, enum peer_mode mode, int64_t until_ns, bool *out_alone)
{
    struct zookeeper_session *client = lock->client;
    bool answer_lost = false;
    int error = ZNONODE;
    while (now_ns() < until_ns || error == ZNONODE || error == ZNODEEXISTS) {
        char prefix[PREFIX_SIZE];
        if (is_expired(client) && begin_session(client) != 0) {
            return -1;
        }
        lock->session = client->sessions;
        own_prefix(lock, mode, prefix);
        error = try_to_queue(lock, prefix, out_alone);
        if (error == ZOK && answer_lost) {
            *out_alone = false;
            error = find_own(lock, prefix);
            error = error == ZOK && lock->node[0] == '\0' ? ZCONNECTIONLOSS : error;
        }
        if (connection_failed(error)) {
            answer_lost = true;
            do { /* the loop ends when until_ns is past or the session has expired */
                await_connection(client, until_ns);
                error = find_own(lock, prefix);
            } while (connection_failed(error) && now_ns() < until_ns);
            error = error == ZOK && lock->node[0] == '\0' ? ZCONNECTIONLOSS : error;
        }
        if (error == ZOK) {
            return PEER_OK;
        }
        if (!connection_failed(error) && !session_failed(error) && error != ZNONODE &&
            error != ZNODEEXISTS) {
            return complain("ZooKeeper: %s: %s", lock->parent, zerror(error));
        }
    }
    return PEER_NOT_IN_TIME;
}

/* Finds the name of the last node that comes before lock->node and whose mode excludes the mode of
 * lock->node; "" if there is none. Returns ZNONODE if lock->node is gone. */
static int find_predecessor(struct lock *lock, enum peer_mode mode, char before[PATH_SIZE])
{
    struct String_vector children = {0, NULL};
    const char *own = last_part(lock->node);
    uint64_t last = 0;
    bool there = false;
    int error = zoo_get_children(lock->client->zookeeper, lock->parent, 0, &children);
    before[0] = '\0';
    for (int32_t i = 0; error == ZOK && i < children.count; i++) {
        const char *other = children.data[i];
        uint64_t sequence = sequence_of(other);
        there = there || strcmp(other, own) == 0;
        if (sequence < sequence_of(own) && (mode == PEER_EXCLUSIVE || other[0] == 'w') &&
            (before[0] == '\0' || sequence > last)) {
            last = sequence;
            snprintf(before, PATH_SIZE, "%.90s/%.90s", lock->parent, other);
        }
    }
    if (error == ZOK) {
        deallocate_String_vector(&children);
        return there ? ZOK : ZNONODE;
    }
    return error;
}

/* Waits until no node that comes before lock->node excludes lock->node. Returns PEER_LOST if the
 * session ended or lock->node is gone. */
static int await_turn(struct lock *lock, enum peer_mode mode, int64_t until_ns)
{
    struct zookeeper_session *client = lock->client;
    for (;;) { /* the loop ends when until_ns is past */
        char before[PATH_SIZE];
        uint64_t seen = events_so_far(client);
        int error = find_predecessor(lock, mode, before);
        if (error == ZOK && before[0] == '\0') {
            return PEER_OK;
        }
        if (now_ns() >= until_ns) {
            return PEER_NOT_IN_TIME;
        }
        if (error == ZOK) {
            struct Stat ignored;
            error = zoo_wexists(client->zookeeper, before, notice, client, &ignored);
            if (error == ZOK) {
                await_event(client, seen, until_ns - now_ns());
            }
        }
        if (error == ZNONODE && before[0] == '\0') {
            return PEER_LOST;
        }
        if (connection_failed(error)) {
            await_connection(client, until_ns);
        } else if (session_failed(error) || is_expired(client)) {
            return PEER_LOST;
        } else if (error != ZOK && error != ZNONODE) {
            return complain("ZooKeeper: %s: %s", lock->parent, zerror(error));
        }
    }
}

int zookeeper_lock_acquire(void *lock, enum peer_mode mode, int64_t timeout_ns, uint64_t *out_token)
{
    struct lock *mine = lock;
    int64_t until_ns = timeout_ns < 0 ? for_ever_ns : now_ns() + timeout_ns;
    int result = PEER_LOST;
    /* The loop ends: PEER_LOST is rare, so soon an attempt succeeds, or the timeout is over. */
    while (result == PEER_LOST) {
        bool alone;
        result = queue_up(mine, mode, until_ns, &alone);
        if (result == PEER_OK && !alone) {
            result = await_turn(mine, mode, until_ns);
            if (result == PEER_NOT_IN_TIME && zookeeper_lock_release(mine) < 0) {
                return -1;
            }
        }
    }
    *out_token = result == PEER_OK ? sequence_of(mine->node) + 1 : 0;
    return result;
}

int zookeeper_lock_release(void *lock)
{
    struct lock *mine = lock;
    struct zookeeper_session *client = mine->client;
    int64_t until_ns = now_ns() + release_timeout_ns;
    bool repeated = false;
    int error = ZCONNECTIONLOSS;
    while (mine->session == client->sessions && connection_failed(error) && now_ns() < until_ns) {
        error = zoo_delete(client->zookeeper, mine->node, -1);
        if (connection_failed(error)) {
            repeated = true;
            await_connection(client, until_ns);
        }
    }
    if (mine->session != client->sessions || session_failed(error) || is_expired(client)) {
        return PEER_LOST;
    }
    if (error == ZNONODE) {
        return repeated ? PEER_OK : PEER_LOST;
    }
    return error == ZOK ? PEER_OK : complain("ZooKeeper: %s: %s", mine->node, zerror(error));
}

/* A client that is not connected cannot know whether its session still exists. In that case this
 * function reports the hold as lost, as a careful user must assume. */
int zookeeper_lock_held(void *lock)
{
    const struct lock *mine = lock;
    return mine->session == mine->client->sessions && !is_expired(mine->client) &&
                   zoo_state(mine->client->zookeeper) == ZOO_CONNECTED_STATE
               ? PEER_OK
               : PEER_LOST;
}
