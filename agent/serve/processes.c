/* The processes behind clients: see processes.h. */
#include "serve/processes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent.h"
#include "io/clock.h"
#include "io/late_close.h"
#include "io/subids.h"
#include "proto/check.h"
#include "serve/clients.h"
#include "serve/private.h"
#include "turn.h"

enum { HASH_SIZE = 4096 };

#define KEY_OF_INODE (UINT64_C(1) << 32) /* larger than every pid */
#define KEY_OF_NOTHING (UINT64_C(1) << 63)

struct processes {
    struct agent *agent;
    uint64_t last_serial;
    uint32_t idle_count;
    struct process *idle_first; /* the process that lost its last client most recently */
    struct process *idle_last;
    struct process *ended; /* the process that ended first */
    struct process **ended_end;
    struct process *hash[HASH_SIZE];
    struct process *by_serial[HASH_SIZE];
};

/* ---- the processes that are known ---- */

static struct process **bucket_of(struct processes *all, uint64_t key)
{
    return &all->hash[key * UINT64_C(0x9e3779b97f4a7c15) >> 52];
}

static struct process **serial_bucket(struct processes *all, uint64_t serial)
{
    return &all->by_serial[serial % HASH_SIZE];
}

static struct process *find_serial(const struct processes *all, uint64_t serial)
{
    struct process *process = all->by_serial[serial % HASH_SIZE];
    while (process != NULL && process->name.serial != serial) {
        process = process->next_serial;
    }
    return process;
}

static void serial_add(struct process *process)
{
    struct process **head = serial_bucket(process->all, process->name.serial);
    process->next_serial = *head;
    *head = process;
}

static void serial_remove(struct process *process)
{
    struct process **link = serial_bucket(process->all, process->name.serial);
    while (*link != process) {
        link = &(*link)->next_serial;
    }
    *link = process->next_serial;
}

static void hash_add(struct process *process)
{
    struct process **head = bucket_of(process->all, process->name.key);
    process->next = *head;
    *head = process;
}

static void hash_remove(struct process *process)
{
    struct process **link = bucket_of(process->all, process->name.key);
    while (*link != process) {
        link = &(*link)->next;
    }
    *link = process->next;
}

/* Returns the key by which the process can be found again; 0 if it has neither a pid nor an
 * inode. */
static uint64_t key_of(pid_t pid, const struct peer_process *is)
{
    return pid > 0 ? (uint64_t)pid : is->inode != 0 ? KEY_OF_INODE + is->inode : 0;
}

static struct process *find_key(const struct processes *all, uint64_t key)
{
    struct process *process = *bucket_of((struct processes *)(uintptr_t)all, key);
    while (process != NULL && process->name.key != key) { /* at most one iteration per client */
        process = process->next;
    }
    return process;
}

struct process *process_find(const struct processes *all, struct process_name name)
{
    return find_serial(all, name.serial);
}

static void idle_add(struct process *process)
{
    struct processes *all = process->all;
    process->newer = NULL;
    process->older = all->idle_first;
    *(all->idle_first != NULL ? &all->idle_first->newer : &all->idle_last) = process;
    all->idle_first = process;
    all->idle_count++;
}

static void idle_remove(struct process *process)
{
    struct processes *all = process->all;
    *(process->newer != NULL ? &process->newer->older : &all->idle_first) = process->older;
    *(process->older != NULL ? &process->older->newer : &all->idle_last) = process->newer;
    all->idle_count--;
}

static void ended_add(struct process *process)
{
    struct processes *all = process->all;
    process->next_ended = NULL;
    process->ended = all->ended_end;
    *all->ended_end = process;
    all->ended_end = &process->next_ended;
}

static void ended_remove(struct process *process)
{
    struct process *next = process->next_ended;
    *process->ended = next;
    *(next != NULL ? &next->ended : &process->all->ended_end) = process->ended;
    process->ended = NULL;
}

static void process_destroy(struct process *process)
{
    HF_CHECK(process->clients == NULL);
    if (process->ended != NULL) {
        ended_remove(process);
    }
    hash_remove(process);
    serial_remove(process);
    idle_remove(process);
    socket_share_leave(process->share);
    deaths_forget(process->watch, process->account);
    free(process);
}

void processes_destroy(struct processes *all)
{
    deaths_stop();
    for (uint32_t i = 0; all != NULL && i < HASH_SIZE; i++) {
        for (struct process *each = all->hash[i]; each != NULL;) {
            struct process *next = each->next;
            HF_CHECK(each->clients == NULL);
            socket_share_leave(each->share);
            deaths_forget(each->watch, each->account);
            free(each);
            each = next;
        }
    }
    free(all);
}

void process_add(struct process *process, struct agent_client *client)
{
    HF_CHECK(client->process == NULL);
    if (process->clients == NULL) {
        idle_remove(process);
    }
    client->process = process;
    client->next = process->clients;
    process->clients = client;
}

void process_remove(struct agent_client *client)
{
    struct process *process = client->process;
    struct agent_client **link = &process->clients;
    while (*link != client) { /* at most one iteration per client of the process */
        link = &(*link)->next;
    }
    *link = client->next;
    client->process = NULL;
    client->next = NULL;
    if (process->clients == NULL) {
        idle_add(process);
    }
}

/* ---- how they end ---- */

/* Reports to the host core, for each client of the process, that the process has ended. Each report
 * lets the host core change the list of clients, so the loop takes the first client anew each time.
 * It stops when the user's share of the turn is spent. */
static void process_ended(struct process *process)
{
    bool left = true;
    while (process->clients != NULL && left) {
        int64_t began_ns = clock_boottime_ns();
        clients_died(process->clients, "its process has ended");
        left = socket_share_spend(process->share, clock_boottime_ns() - began_ns);
    }
    if (process->clients == NULL) { /* otherwise the process stays on the list of ended processes */
        process_destroy(process);
    }
}

/* Handles the ended processes whose users have time left in this turn. The other processes follow
 * in the next turn. */
static bool on_ended(void *arg, const uint64_t *tags, uint32_t count)
{
    struct processes *all = arg;
    agent_turn(all->agent, TURN_USERS);
    for (uint32_t i = 0; i < count; i++) {
        struct process *process = find_serial(all, tags[i]);
        /* NULL: it was closed to make room for another process */
        if (process != NULL && process->ended == NULL) {
            ended_add(process);
        }
    }
    for (struct process *each = all->ended; each != NULL;) {
        struct process *next = each->next_ended;
        if (socket_share_turn(each->share, &each->round)) {
            process_ended(each);
        }
        each = next;
    }
    return all->ended != NULL;
}

struct processes *processes_create(struct agent *agent)
{
    struct processes *all = calloc(1, sizeof(*all));
    if (all != NULL) {
        all->agent = agent;
        all->ended_end = &all->ended;
        if (!deaths_start(agent_uv(agent), on_ended, all)) {
            free(all);
            return NULL;
        }
    }
    return all;
}

/* ---- how they become known ---- */

/* If there are too many processes without a client, closes the one that has had none for the
 * longest time. Only process_create() calls this: elsewhere the caller may be about to use the
 * process that is closed. */
static void make_room(struct processes *all)
{
    struct process *oldest = all->idle_count >= PROCESSES_IDLE_MAX ? all->idle_last : NULL;
    struct process *next = oldest != NULL ? oldest->newer : NULL;
    if (oldest != NULL) {
        process_destroy(oldest);
    }
    if (next != NULL && all->idle_count >= PROCESSES_IDLE_MAX) {
        process_destroy(next); /* two at a time, so that the list shrinks even if many processes
                                * lose their last client at once */
    }
}

/* Makes a process. Takes ownership of pidfd. Returns NULL if there is no memory. */
static struct process *process_create(struct processes *all, pid_t pid, uid_t account,
                                      const struct peer_process *is, int pidfd)
{
    struct process *process = calloc(1, sizeof(*process));
    uint32_t round = 0;
    make_room(all);
    struct socket_share *share = socket_share_join(&all->agent->serve->shares, account, &round);
    struct death_watch *watch = process != NULL && share != NULL
                                    ? deaths_watch(pidfd, all->last_serial + 1)
                                    : NULL;
    if (watch == NULL) {
        socket_share_leave(share);
        free(process);
        late_close(pidfd, account);
        errno = ENOMEM;
        return NULL;
    }
    uint64_t key = key_of(pid, is);
    *process = (struct process){.all = all,
                                .watch = watch,
                                .share = share,
                                .round = round,
                                .is = *is,
                                .pid = pid,
                                .account = account,
                                .pidfd = pidfd};
    process->name.serial = ++all->last_serial;
    process->name.key = key != 0 ? key : KEY_OF_NOTHING + process->name.serial;
    hash_add(process);
    serial_add(process);
    idle_add(process);
    return process;
}

/* Returns the living process of that key, or NULL. A process of that key that has ended loses the
 * key. */
static struct process *known(struct processes *all, uint64_t key)
{
    struct process *process = key != 0 ? find_key(all, key) : NULL;
    if (process != NULL && peer_pidfd_ended(process->pidfd)) {
        hash_remove(process);
        process->name.key = KEY_OF_NOTHING + process->name.serial;
        hash_add(process);
        return NULL;
    }
    return process;
}

enum process_found process_of_peer(struct processes *all, int socket, const struct peer *peer,
                                   struct process **out)
{
    struct peer_process is = {0};
    *out = known(all, key_of(peer->pid, &is));
    if (*out != NULL) {
        return PROCESS_FOUND;
    }
    if (late_close_is_busy(peer->account)) {
        errno = EBUSY;
        return PROCESS_NO_ROOM;
    }
    int pidfd = peer_pidfd(socket, peer->pid);
    if (pidfd < 0) {
        return errno == EMFILE || errno == ENFILE || errno == ENOMEM ? PROCESS_NO_ROOM
               : errno == ENOPROTOOPT                                ? PROCESS_UNSEEN
                                                                     : PROCESS_GONE;
    }
    peer_process_of(pidfd, peer->pid, &is);
    *out = peer->pid == 0 ? known(all, key_of(0, &is)) : NULL;
    if (*out != NULL || peer_pidfd_ended(pidfd)) {
        late_close(pidfd, peer->account);
        return *out != NULL ? PROCESS_FOUND : PROCESS_GONE;
    }
    *out = process_create(all, peer->pid, peer->account, &is, pidfd);
    return *out != NULL ? PROCESS_FOUND : PROCESS_NO_ROOM;
}

/* Compares a record with the process that has its pid now. Called after *now was read: if the pidfd
 * still shows no end, the pid belonged to the pidfd's process when *now was read. */
static enum process_life compare(const struct client_record *record, const struct peer_process *now,
                                 int pidfd)
{
    const struct peer_process *then = &record->process;
    if (peer_pidfd_ended(pidfd)) {
        return PROCESS_ENDED;
    }
    if (then->inode != 0 && now->inode != 0) {
        return then->inode == now->inode ? PROCESS_LIVES : PROCESS_ENDED;
    }
    if (then->start != 0 && now->start != 0) {
        return then->start == now->start ? PROCESS_LIVES : PROCESS_ENDED;
    }
    return PROCESS_UNPROVEN;
}

enum process_life process_of_record(struct processes *all, const struct client_record *record,
                                    struct process **out)
{
    static const uint8_t none[sizeof(record->boot_id)];
    const struct agent *agent = all->agent;
    struct peer_process is = {0};
    *out = NULL;
    if (memcmp(record->boot_id, none, sizeof(none)) != 0 &&
        memcmp(record->boot_id, agent->boot_id, sizeof(none)) != 0) {
        return PROCESS_ENDED;
    }
    if (record->pid == 0 || (record->numbers != 0 && record->numbers != agent->numbers)) {
        return PROCESS_UNPROVEN;
    }
    struct process *process = find_key(all, key_of(record->pid, &is));
    if (process != NULL) { /* another record's client has the same process */
        enum process_life life = compare(record, &process->is, process->pidfd);
        *out = life != PROCESS_ENDED ? process : NULL;
        return life;
    }
    int pidfd = peer_pidfd_open(record->pid);
    if (pidfd < 0) {
        bool gone = errno == ESRCH || errno == EINVAL ||
                    errno == ENOENT; /* no process has the pid now; it may be a thread's number */
        return gone ? PROCESS_ENDED : PROCESS_UNPROVEN;
    }
    peer_process_of(pidfd, record->pid, &is);
    if (is.start == 0 && record->process.inode == 0 && record->process.start != 0) {
        is.start = peer_start_of(record->pid);
    }
    enum process_life life = compare(record, &is, pidfd);
    if (life == PROCESS_ENDED) {
        late_close(pidfd, subids_account(record->uid));
        return life;
    }
    *out = process_create(all, record->pid, subids_account(record->uid), &is, pidfd);
    return *out != NULL ? life : PROCESS_UNPROVEN;
}
