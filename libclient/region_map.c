/*
 * The regions that the agent handed to this client: mapped by descriptor, one mapping a region for
 * the life of the client, and the kernel's services that the lock word's protocol needs on them.
 *
 * Futexes in a region are shared between processes, so they are never FUTEX_PRIVATE. Their
 * timeouts run on CLOCK_MONOTONIC; whoever sleeps reads CLOCK_BOOTTIME again afterwards.
 *
 * After a reconnection the agent sends its regions again. The same file under the same incarnation
 * is the mapping that is there already.
 *
 * A lock that asks to be looked at by the agent sets its dirty bit and rings: a RING frame, sent
 * beside whatever another thread is asking on the same socket (a packet is a frame), without a lock
 * and without waiting, also from a signal handler. It may be lost, which costs time and nothing
 * else, since the bit stays:
 *  - The connection is down, or not yet greeted: the agent looks at the bits of each region that it
 *    sends, and it sends all of them anew over the next connection. A thread that rang in vain and
 *    then waits makes that connection before it sleeps (kernel_sleep).
 *  - The socket is full (EAGAIN). Of what lies there unread one frame at most has an answer, since
 *    whoever asks waits for it. The others are RING or CLOSE, and each makes the agent look at all
 *    regions of this client when it has read it, which is after the bit was set.
 *  - The agent dies, or loses it otherwise: an agent looks at all bits five times in each ttl.
 */
#include "client.h"

#include <errno.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    RING_MAX = 16,    /* bytes of a RING frame, at most */
    CONNECT_MS = 100, /* for one attempt; the next one goes on with the same greeting */
    UNHEARD_MS = 250, /* so long a thread sleeps that rang in vain, before the next attempt */
};

static void futex_sleep(_Atomic uint32_t *word, uint32_t expected, int64_t timeout_ns,
                        int operation)
{
    struct timespec timeout = {.tv_sec = timeout_ns / NS_PER_S, .tv_nsec = timeout_ns % NS_PER_S};
    syscall(SYS_futex, word, operation, expected, timeout_ns < 0 ? NULL : &timeout, NULL, 0);
}

void futex_sleep_shared(_Atomic uint32_t *word, uint32_t expected, int64_t timeout_ns)
{
    futex_sleep(word, expected, timeout_ns, FUTEX_WAIT);
}

void futex_sleep_private(_Atomic uint32_t *word, uint32_t expected, int64_t timeout_ns)
{
    futex_sleep(word, expected, timeout_ns, FUTEX_WAIT_PRIVATE);
}

void futex_wake_private(_Atomic uint32_t *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
}

/* Connects again, so that the agent looks at this client's regions. Not if another thread has to do
 * with the connection: it finds out by itself. true: there is no connection. */
static bool is_cut_off(struct region_map *map)
{
    hf_client *client = map->client;
    if (pthread_mutex_trylock(&client->socket_mutex) != 0) {
        return true;
    }
    atomic_store_explicit(&map->unheard, false, memory_order_relaxed);
    client_drain(client); /* finds out whether the agent hung up */
    bool cut = client_reconnect(client, boottime_ns() + CONNECT_MS * NS_PER_MS) != 0;
    if (cut) {
        atomic_store_explicit(&map->unheard, true, memory_order_relaxed);
    }
    pthread_mutex_unlock(&client->socket_mutex);
    return cut;
}

/* The caller has no mutex of the client's. */
static void kernel_sleep(void *arg, _Atomic uint32_t *word, uint32_t expected, int64_t timeout_ns)
{
    struct region_map *map = arg;
    /* relaxed: this thread rang itself, or another one that wakes it or reconnects in its turn */
    if (atomic_load_explicit(&map->unheard, memory_order_relaxed) && is_cut_off(map) &&
        (timeout_ns < 0 || timeout_ns > UNHEARD_MS * NS_PER_MS)) {
        timeout_ns = UNHEARD_MS * NS_PER_MS;
    }
    futex_sleep_shared(word, expected, timeout_ns);
}

static void kernel_wake(void *arg, _Atomic uint32_t *word, int count)
{
    (void)arg;
    syscall(SYS_futex, word, FUTEX_WAKE, count, NULL, NULL, 0);
}

static int64_t kernel_now_ns(void *arg)
{
    (void)arg;
    return boottime_ns();
}

static void kernel_bell(void *arg)
{
    struct region_map *map = arg;
    const struct hfi_frame ring = {.kind = HFI_FRAME_RING};
    unsigned char bytes[RING_MAX];
    int saved = errno;
    size_t size = hfi_frame_encode(&ring, bytes, sizeof(bytes));
    if (send(map->client->socket_fd, bytes, size, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 &&
        errno != EAGAIN) { /* see above */
        atomic_store_explicit(&map->unheard, true, memory_order_relaxed);
    }
    errno = saved;
}

static void region_unmap(struct region_map *map)
{
    if (map->memory != NULL) {
        munmap(map->memory, map->size);
    }
    free(map);
}

/* Maps the descriptor; the caller still owns fd. NULL and *error: why not. */
static struct region_map *region_create(hf_client *client, int fd, const struct stat *status,
                                        int *error)
{
    struct region_map *map = calloc(1, sizeof(*map));
    *error = HF_ENOMEM;
    if (map == NULL) {
        return NULL;
    }
    map->client = client;
    map->size = (size_t)status->st_size;
    map->device = status->st_dev;
    map->inode = status->st_ino;
    map->memory = mmap(NULL, map->size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (map->memory == MAP_FAILED) {
        map->memory = NULL;
        region_unmap(map);
        return NULL;
    }
    if (hfi_region_attach(map->memory, map->size, &map->region) != NULL) {
        region_unmap(map);
        *error = HF_EPROTO;
        return NULL;
    }
    map->kernel = (struct hfi_kernel){.sleep = kernel_sleep,
                                      .wake = kernel_wake,
                                      .now_ns = kernel_now_ns,
                                      .bell = kernel_bell,
                                      .arg = map};
    map->trust.now_ns = kernel_now_ns;
    map->region.trust = &map->trust;
    *error = 0;
    return map;
}

static struct region_map *region_find(hf_client *client, const struct stat *status,
                                      uint64_t incarnation)
{
    for (struct region_map *map = client->maps; map != NULL; map = map->next) {
        if (map->incarnation == incarnation && map->device == status->st_dev &&
            map->inode == status->st_ino) {
            return map;
        }
    }
    return NULL;
}

/* relaxed, all: see hfi_lease_counts() */
static void trust_set(struct hfi_trust *trust, int64_t ttl_ns)
{
    if (atomic_load_explicit(&trust->ahead_max_ns, memory_order_relaxed) != ttl_ns) {
        atomic_store_explicit(&trust->ahead_max_ns, ttl_ns, memory_order_relaxed);
        atomic_store_explicit(&trust->disbelieved, 0, memory_order_relaxed);
    }
}

struct region_map *region_take(hf_client *client, struct answer *answer, int *error)
{
    const struct hfi_region_frame *frame = &answer->frame.region;
    struct stat status;
    struct region_map *map = NULL;
    bool fresh = false;
    *error = HF_EPROTO;
    if (answer->fd < 0 || fstat(answer->fd, &status) != 0 || status.st_size < HFI_HEADER_SIZE) {
        goto done;
    }
    map = region_find(client, &status, frame->incarnation);
    if (map == NULL) {
        map = region_create(client, answer->fd, &status, error);
        fresh = true;
    }
    if (map == NULL) {
        goto done;
    }
    *error = 0;
    trust_set(&map->trust, client->ttl_ns);
    map->incarnation = frame->incarnation;
    map->number = frame->region;
    map->connection = client->connection;
    if (fresh) {
        pthread_mutex_lock(&client->list_mutex);
        map->next = client->maps;
        client->maps = map;
        pthread_mutex_unlock(&client->list_mutex);
        events_arm(client, hfi_lease_deadline_ns(atomic_load_explicit(&map->region.header->lease,
                                                                      memory_order_relaxed)));
    }
done:
    answer_close_fd(answer);
    return map;
}

struct region_map *region_by_number(hf_client *client, uint32_t number)
{
    for (struct region_map *map = client->maps; map != NULL; map = map->next) {
        if (map->number == number && map->connection == client->connection) {
            return map;
        }
    }
    return NULL;
}

void regions_destroy(hf_client *client)
{
    while (client->maps != NULL) {
        struct region_map *map = client->maps;
        client->maps = map->next;
        region_unmap(map);
    }
}
