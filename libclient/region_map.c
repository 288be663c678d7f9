/*
 * The regions that the agent gave to this client, and the system calls that the lock word's
 * protocol needs. Each region is mapped once, until hf_disconnect().
 *
 * Futexes in a region are shared between processes, so they are never FUTEX_PRIVATE. Their
 * time-outs run on CLOCK_MONOTONIC, which stands still during a suspend. So a thread that has slept
 * reads CLOCK_BOOTTIME again.
 *
 * After a reconnection the agent sends its regions again. If a region has the file and the
 * incarnation of an existing mapping, the client keeps that mapping.
 *
 * When the agent has to look at a lock, the client sets the lock's dirty bit and rings: it sends a
 * RING frame. A ring needs no mutex and never waits. It is allowed in a signal handler, and while
 * another thread has a request on the same socket, because each packet is one frame. A lost
 * ring only costs time, because the dirty bit stays set. A ring may be lost for three reasons:
 *  - The connection is down, or has no WELCOME yet. On the next connection the agent sends all
 *    regions again, and looks at the dirty bits of each region that it sends. A thread whose ring
 *    failed, and that then waits, makes that connection before it sleeps (kernel_sleep()).
 *  - The socket is full (EAGAIN). At most one of the unread frames is a request, because a thread
 *    that asks waits for its answer. The other unread frames are RING or CLOSE. The agent reads
 *    them after the bit was set, and each of them makes it look at all regions of this client.
 *  - The agent dies before it has read the ring. Each agent looks at all dirty bits five times in a
 *    ttl.
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
    RING_MAX = 16,        /* the most bytes of a RING frame */
    CONNECT_MS = 100,     /* the longest wait for WELCOME in one attempt */
    RING_FAILED_MS = 250, /* how long a thread whose ring failed sleeps before the next attempt */
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

/* Connects again if the connection is down, so that the agent looks at this client's regions.
 * Returns true if there is no connection afterwards. Also returns true, and does nothing, if
 * another thread is using the connection, because that thread itself notices the loss of the
 * connection. */
static bool is_cut_off(struct region_map *map)
{
    hf_client *client = map->client;
    if (pthread_mutex_trylock(&client->socket_mutex) != 0) {
        return true;
    }
    atomic_store_explicit(&map->ring_failed, false, memory_order_relaxed);
    client_drain(client); /* notices whether the agent closed the connection */
    bool cut = client_reconnect(client, boottime_ns() + CONNECT_MS * NS_PER_MS) != 0;
    if (cut) {
        atomic_store_explicit(&map->ring_failed, true, memory_order_relaxed);
    }
    pthread_mutex_unlock(&client->socket_mutex);
    return cut;
}

/* The caller holds no mutex of the client. */
static void kernel_sleep(void *arg, _Atomic uint32_t *word, uint32_t expected, int64_t timeout_ns)
{
    struct region_map *map = arg;
    /* relaxed: only a ring of this thread must be seen here; another thread whose ring failed
     * reconnects itself, or wakes this thread */
    if (atomic_load_explicit(&map->ring_failed, memory_order_relaxed) && is_cut_off(map) &&
        (timeout_ns < 0 || timeout_ns > RING_FAILED_MS * NS_PER_MS)) {
        timeout_ns = RING_FAILED_MS * NS_PER_MS;
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

static void kernel_ring(void *arg)
{
    struct region_map *map = arg;
    const struct hfi_frame ring = {.kind = HFI_FRAME_RING};
    unsigned char bytes[RING_MAX];
    int saved = errno;
    size_t size = hfi_frame_encode(&ring, bytes, sizeof(bytes));
    if (send(map->client->socket_fd, bytes, size, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 &&
        errno != EAGAIN) {
        /* after EAGAIN the agent looks at the region in any case: see "The socket is full" above */
        atomic_store_explicit(&map->ring_failed, true, memory_order_relaxed);
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

/* Maps the region of the descriptor. The caller keeps the descriptor. On failure returns NULL and
 * sets *error. */
static struct region_map *region_create(hf_client *client, int fd, const struct stat *status,
                                        int *error)
{
    struct region_map *map = calloc(1, sizeof(*map));
    *error = HF_ENOMEM;
    if (map == NULL) {
        *error = trouble_no_memory(client);
        return NULL;
    }
    map->client = client;
    map->size = (size_t)status->st_size;
    map->device = status->st_dev;
    map->inode = status->st_ino;
    map->memory = mmap(NULL, map->size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (map->memory == MAP_FAILED) {
        trouble_set(client, *error, "the shared memory (%zu bytes) cannot be mapped: %s", map->size,
                    strerrordesc_np(errno));
        map->memory = NULL;
        region_unmap(map);
        return NULL;
    }
    const char *flaw = hfi_region_attach(map->memory, map->size, &map->region);
    if (flaw != NULL) {
        region_unmap(map);
        *error = HF_EPROTO;
        trouble_set(client, *error, "the agent's shared memory is invalid: %s", flaw);
        return NULL;
    }
    map->kernel = (struct hfi_kernel){.sleep = kernel_sleep,
                                      .wake = kernel_wake,
                                      .now_ns = kernel_now_ns,
                                      .ring = kernel_ring,
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

/* relaxed, all: hfi_lease_counts() explains why that is enough */
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
