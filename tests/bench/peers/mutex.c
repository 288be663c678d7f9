/*
 * A robust, process-shared pthread mutex of glibc in shared memory, for a program whose processes
 * trust each other and share one host. The next holder notices that the previous holder has died,
 * and repairs the mutex. There is no server, lease or token. The lock's name selects an entry of
 * the shared table.
 *
 * glibc keeps a list of pointers to the robust mutexes that a thread holds, so the table must stay
 * mapped. start() makes the mapping, and the workers inherit it.
 */
#include <errno.h>
#include <pthread.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "kinds.h"

enum { PLACES = 1 << 10 }; /* one run of all cases needs fewer entries; none is freed */

struct named_mutex {
    alignas(64) pthread_mutex_t mutex;
    alignas(64) char name[PEER_NAME_MAX]; /* "": the entry is free */
};

struct table {
    pthread_mutex_t mutex; /* protects the names */
    struct named_mutex places[PLACES];
};

static int mutex_missing(char why[PEER_WHY_MAX])
{
    why[0] = '\0';
    return 0;
}

static int init_robust(pthread_mutex_t *mutex)
{
    pthread_mutexattr_t attributes;
    if (pthread_mutexattr_init(&attributes) != 0) {
        return complain("pthread_mutexattr_init failed");
    }
    int error = pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    error = error != 0 ? error : pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    error = error != 0 ? error : pthread_mutex_init(mutex, &attributes);
    pthread_mutexattr_destroy(&attributes);
    return error == 0 ? 0 : complain("a robust mutex: %s", strerror(error));
}

static int mutex_start(struct peer_run *run)
{
    struct table *table = mmap(NULL, sizeof(*table), PROT_READ | PROT_WRITE,
                               MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (table == MAP_FAILED) {
        return complain("mmap: %s", strerror(errno));
    }
    run->state = table;
    return init_robust(&table->mutex);
}

static void mutex_stop(struct peer_run *run)
{
    if (run->state != NULL) {
        munmap(run->state, sizeof(struct table));
        run->state = NULL;
    }
}

static int mutex_connect(struct peer_run *run, uint32_t host, void **out_client)
{
    (void)host;
    *out_client = run->state;
    return 0;
}

static void mutex_disconnect(void *client)
{
    (void)client;
}

static uint32_t hash_of(const char *name)
{
    uint32_t hash = 2166136261u; /* FNV-1a */
    for (const char *c = name; *c != '\0'; c++) {
        hash = (hash ^ (uint8_t)*c) * 16777619u;
    }
    return hash;
}

/* Locks the mutex. If its holder is dead, makes the mutex consistent and takes it. */
static int lock_robust(pthread_mutex_t *mutex, bool wait)
{
    int error = wait ? pthread_mutex_lock(mutex) : pthread_mutex_trylock(mutex);
    if (error == EOWNERDEAD) {
        error = pthread_mutex_consistent(mutex);
    }
    return error;
}

/* Finds the name's entry, or makes one. */
static int mutex_open(void *client, const char *name, void **out_lock)
{
    struct table *table = client;
    uint32_t at = hash_of(name) % PLACES;
    int result = -1;
    if (lock_robust(&table->mutex, true) != 0) {
        return complain("the table's mutex cannot be had");
    }
    for (uint32_t tries = 0; tries < PLACES; tries++, at = (at + 1) % PLACES) {
        struct named_mutex *place = &table->places[at];
        if (place->name[0] == '\0' && init_robust(&place->mutex) == 0) {
            snprintf(place->name, sizeof(place->name), "%s", name);
        }
        if (strcmp(place->name, name) == 0) {
            *out_lock = &place->mutex;
            result = 0;
            break;
        }
    }
    pthread_mutex_unlock(&table->mutex);
    return result == 0 ? 0 : complain("no place for another mutex");
}

static void mutex_close(void *lock)
{
    (void)lock;
}

static int mutex_acquire(void *lock, enum peer_mode mode, int64_t timeout_ns, uint64_t *out_token)
{
    (void)mode;
    *out_token = 0;
    int error = lock_robust(lock, timeout_ns != 0);
    return error == 0       ? PEER_OK
           : error == EBUSY ? PEER_NOT_IN_TIME
                            : complain("pthread_mutex_lock: %s", strerror(error));
}

static int mutex_release(void *lock)
{
    int error = pthread_mutex_unlock(lock);
    return error == 0 ? PEER_OK : complain("pthread_mutex_unlock: %s", strerror(error));
}

const struct peer_kind peer_mutex = {
    .name = "mutex",
    .title = "robust pthread mutex",
    .durability = "none: in memory",
    .fairness = "One host and one mapping only. No names of its own: a table under a mutex of its "
                "own gives a name its place. Whoever runs may take it again (no order).",
    .features = PEER_NO_NAMES,
    .hosts = 1,
    .missing = mutex_missing,
    .start = mutex_start,
    .stop = mutex_stop,
    .connect = mutex_connect,
    .disconnect = mutex_disconnect,
    .open = mutex_open,
    .close = mutex_close,
    .acquire = mutex_acquire,
    .release = mutex_release,
};
