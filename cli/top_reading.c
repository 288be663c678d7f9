/*
 * Takes a reading: see top_reading.h.
 */
#include "top_reading.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "lock_cells.h"

enum { CHUNK_SIZE = 65536 };

/* A sighting that is not this much newer than the last one does not replace it. Otherwise the same
 * report of another host, seen twice, could look like two sightings. */
static const int64_t sighting_least_ns = 50000000;

/* Without a newer sighting, the rate of the previous reading is kept for this long. */
static const int64_t sighting_kept_ns = 30000000000;

/* If a lock has moved to another host and its tokens have risen by at least the smallest range of a
 * grant, the rise may be a skipped rest of a range (docs/TIMEOUTS.md), so the rate is unknown. */
static const uint64_t gap_least = 4096;

/* No host begins a thousand million holds of a lock in a second. If a rate is higher than that, it
 * counts as unknown. */
static const double rate_milli_max = 1e12;

/* A piece of a reading's memory. */
struct top_chunk {
    struct top_chunk *next;
    size_t used;
    size_t size;
    max_align_t bytes[];
};

int64_t top_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_BOOTTIME, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* ---- memory ---- */

/* Returns memory for an object of any type, freed with the reading; NULL: no memory. */
static void *keep(struct top_reading *reading, size_t size)
{
    size_t aligned = (size + sizeof(max_align_t) - 1) / sizeof(max_align_t) * sizeof(max_align_t);
    struct top_chunk *chunk = reading->chunks;
    char *bytes;

    if (chunk == NULL || chunk->size - chunk->used < aligned) {
        size_t room = aligned > CHUNK_SIZE ? aligned : CHUNK_SIZE;

        chunk = malloc(sizeof(*chunk) + room);
        if (chunk == NULL) {
            return NULL;
        }
        *chunk = (struct top_chunk){.next = reading->chunks, .size = room};
        reading->chunks = chunk;
    }
    bytes = (char *)chunk->bytes + chunk->used;
    chunk->used += aligned;
    return bytes;
}

/* Copies a text, which may be NULL. Returns false if there is no memory. */
static bool keep_text(struct top_reading *reading, const char *text, const char **out)
{
    size_t size = text == NULL ? 0 : strlen(text) + 1;
    char *copy = NULL;

    if (text != NULL) {
        copy = keep(reading, size);
        if (copy == NULL) {
            return false;
        }
        memcpy(copy, text, size);
    }
    *out = copy;
    return true;
}

struct top_reading *top_reading_create(int64_t now_ns)
{
    struct top_reading *reading = calloc(1, sizeof(*reading));

    if (reading == NULL) {
        return NULL;
    }
    reading->at_ns = now_ns;
    reading->observers = -1;
    reading->holds_milli = -1;
    reading->hosts = calloc(TOP_HOSTS_MAX, sizeof(*reading->hosts));
    if (reading->hosts == NULL) {
        free(reading);
        return NULL;
    }
    return reading;
}

void top_reading_destroy(struct top_reading *reading)
{
    if (reading == NULL) {
        return;
    }
    for (struct top_chunk *chunk = reading->chunks; chunk != NULL;) {
        struct top_chunk *next = chunk->next;

        free(chunk);
        chunk = next;
    }
    free(reading->locks);
    free(reading->nested);
    free(reading->hosts);
    free(reading);
}

/* ---- hosts ---- */

/* Returns the index of the first host whose name is not below `name`. */
static size_t host_position(const struct top_reading *reading, const char *name)
{
    size_t low = 0;
    size_t high = reading->host_count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (strcmp(reading->hosts[middle].name, name) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* Finds or adds the host of that name. *out is NULL if there are TOP_HOSTS_MAX others. Returns 0 or
 * HF_ENOMEM. The next call may move the hosts. */
static int host_find(struct top_reading *reading, const char *name, struct top_host **out)
{
    size_t at = host_position(reading, name);
    struct top_host *host = &reading->hosts[at];
    const char *kept;

    *out = host;
    if (at < reading->host_count && strcmp(host->name, name) == 0) {
        return 0;
    }
    if (reading->host_count == TOP_HOSTS_MAX) {
        *out = NULL;
        return 0;
    }
    if (!keep_text(reading, name, &kept)) {
        return HF_ENOMEM;
    }
    memmove(host + 1, host, (reading->host_count - at) * sizeof(*host));
    reading->host_count++;
    *host = (struct top_host){
        .name = kept, .role = TOP_UNKNOWN, .partitions = -1, .round_trip_ns = -1};
    return 0;
}

static int add_host(struct top_reading *reading, const char *name, const char *address,
                    enum top_role role, enum hf_voter_state state)
{
    struct top_host *host;
    int error = name == NULL ? 0 : host_find(reading, name, &host);

    if (name == NULL || error != 0 || host == NULL) {
        return error;
    }
    host->role = role;
    host->state = state;
    if (address != NULL && address[0] != '\0' && !keep_text(reading, address, &host->address)) {
        return HF_ENOMEM;
    }
    return 0;
}

/* ---- the status and the facts ---- */

int top_reading_status(struct top_reading *reading, const struct hf_status *status)
{
    struct hf_status *own = &reading->status;
    int error = 0;

    *own = *status;
    own->voters = NULL;
    own->voter_count = 0;
    if (!keep_text(reading, status->agent, &own->agent) ||
        !keep_text(reading, status->cell, &own->cell) ||
        !keep_text(reading, status->role, &own->role) ||
        !keep_text(reading, status->version, &own->version)) {
        return HF_ENOMEM;
    }
    for (size_t index = 0; index < status->voter_count && error == 0; index++) {
        const struct hf_voter_info *voter = status->voters[index];

        error = add_host(reading, voter->name, voter->address, TOP_VOTER, voter->state);
    }
    /* An agent does not list itself among the observers. */
    if (error == 0 && own->role != NULL && strcmp(own->role, "observer") == 0) {
        error = add_host(reading, own->agent, NULL, TOP_OBSERVER, HF_VOTER_UP);
    }
    return error;
}

int top_reading_fact(struct top_reading *reading, const struct hf_fact *fact)
{
    struct top_host *host;
    size_t at;

    judged_take(&reading->judged, fact);
    if (fact->key == NULL) {
        return 0;
    }
    if (strcmp(fact->key, "observers") == 0) {
        reading->observers = fact->value;
        return 0;
    }
    if (fact->subject == NULL) {
        return 0;
    }
    if (strcmp(fact->key, "observer") == 0) {
        return add_host(reading, fact->subject, fact->text, TOP_OBSERVER,
                        fact->value != 0 ? HF_VOTER_UP : HF_VOTER_DOWN);
    }
    at = host_position(reading, fact->subject);
    host = &reading->hosts[at];
    if (at == reading->host_count || strcmp(host->name, fact->subject) != 0) {
        return 0;
    }
    if (strcmp(fact->key, "partitions") == 0) {
        host->partitions = fact->value;
    } else if (strcmp(fact->key, "round_trip_ns") == 0) {
        host->round_trip_ns = fact->value;
    }
    return 0;
}

/* ---- the locks ---- */

static bool keep_parties(struct top_reading *reading, const struct hf_party *const *parties,
                         size_t count, const struct hf_party *const **out)
{
    const struct hf_party **list = keep(reading, (count + 1) * sizeof(*list));
    struct hf_party *copies = keep(reading, (count + 1) * sizeof(*copies));

    if (list == NULL || copies == NULL) {
        return false;
    }
    for (size_t index = 0; index < count; index++) {
        copies[index] = *parties[index];
        list[index] = &copies[index];
        if (!keep_text(reading, parties[index]->agent, &copies[index].agent) ||
            !keep_text(reading, parties[index]->command, &copies[index].command) ||
            !keep_text(reading, parties[index]->note, &copies[index].note)) {
            return false;
        }
    }
    *out = list;
    return true;
}

static bool keep_behind(struct top_reading *reading, const struct hf_behind *behind,
                        const struct hf_behind **out)
{
    struct hf_behind *copy;

    *out = NULL;
    if (behind == NULL) {
        return true;
    }
    copy = keep(reading, sizeof(*copy));
    if (copy == NULL) {
        return false;
    }
    *copy = *behind;
    *out = copy;
    return keep_text(reading, behind->agent, &copy->agent) &&
           keep_text(reading, behind->command, &copy->command) &&
           keep_text(reading, behind->note, &copy->note) &&
           keep_text(reading, behind->by_agent, &copy->by_agent);
}

static struct top_lock *lock_add(struct top_reading *reading)
{
    if (reading->lock_count == reading->lock_capacity) {
        size_t capacity = reading->lock_capacity == 0 ? 64 : reading->lock_capacity * 2;
        struct top_lock *locks = reallocarray(reading->locks, capacity, sizeof(*locks));

        if (locks == NULL) {
            return NULL;
        }
        reading->locks = locks;
        reading->lock_capacity = capacity;
    }
    return &reading->locks[reading->lock_count++];
}

static int64_t longest_wait_ns(const struct hf_lock_info *info)
{
    int64_t longest_ns = -1;

    for (size_t index = 0; index < info->waiter_count; index++) {
        int64_t elapsed_ns = info->waiters[index]->elapsed_ns;

        longest_ns = elapsed_ns > longest_ns ? elapsed_ns : longest_ns;
    }
    return longest_ns;
}

static struct top_sighting sighting_of(const struct hf_lock_info *info, int64_t now_ns)
{
    const struct hf_party *holder = info->holder_count == 1 ? info->holders[0] : NULL;

    if (holder == NULL || holder->mode != HF_EXCLUSIVE || holder->token == 0 || info->age_ns < 0) {
        return (struct top_sighting){.at_ns = 0};
    }
    return (struct top_sighting){
        .at_ns = now_ns - info->age_ns, .token = holder->token, .agent = holder->agent};
}

int top_reading_lock(struct top_reading *reading, const struct hf_lock_info *info, int64_t now_ns)
{
    struct top_lock *lock;

    if (reading->lock_count == TOP_LOCKS_MAX) {
        reading->cut = true;
        return TOP_FULL;
    }
    lock = lock_add(reading);
    if (lock == NULL) {
        return HF_ENOMEM;
    }
    *lock = (struct top_lock){.info = *info, .holds_milli = -1};
    lock->info.holders = NULL;
    lock->info.waiters = NULL;
    if (!keep_text(reading, info->name, &lock->info.name) ||
        !keep_text(reading, info->coordinator, &lock->info.coordinator) ||
        !keep_parties(reading, info->holders, info->holder_count, &lock->info.holders) ||
        !keep_parties(reading, info->waiters, info->waiter_count, &lock->info.waiters) ||
        !keep_behind(reading, info->behind, &lock->info.behind)) {
        return HF_ENOMEM;
    }
    lock->oldest_hold_ns = lock_oldest_hold_ns(&lock->info);
    lock->longest_wait_ns = longest_wait_ns(&lock->info);
    lock->sighting = sighting_of(&lock->info, now_ns);
    lock->in_use = info->state != HF_STATE_FREE || info->holder_count > 0 ||
                   info->waiter_count > 0 || info->closed_ns > 0 || info->age_ns < 0;
    return 0;
}

int top_reading_nested(struct top_reading *reading, size_t lock, const struct hf_party *waiter,
                       int64_t outer_pid)
{
    struct hf_party *outer = keep(reading, sizeof(*outer));

    if (outer == NULL) {
        return HF_ENOMEM;
    }
    if (reading->nested_count == reading->nested_capacity) {
        size_t capacity = 2 * reading->nested_capacity + 16;
        struct top_nested *more = reallocarray(reading->nested, capacity, sizeof(*more));

        if (more == NULL) {
            return HF_ENOMEM;
        }
        reading->nested = more;
        reading->nested_capacity = capacity;
    }
    *outer = (struct hf_party){.agent = waiter->agent, .pid = outer_pid};
    reading->nested[reading->nested_count++] = (struct top_nested){lock, waiter, outer};
    return 0;
}

/* ---- rates and totals, computed when the reading is complete ---- */

static bool is_same_text(const char *one, const char *other)
{
    return one != NULL && other != NULL && strcmp(one, other) == 0;
}

/* Returns the number of exclusive holds in 1000 s, computed from two sightings; -1: unknown. */
static int64_t rate_milli(const struct top_sighting *one, const struct top_sighting *other)
{
    uint64_t rise = other->token - one->token;
    double rate = (double)rise * 1e12 / (double)(other->at_ns - one->at_ns);

    if (other->token < one->token || rate > rate_milli_max) {
        return -1;
    }
    if (rise >= gap_least && !is_same_text(one->agent, other->agent)) {
        return -1;
    }
    return (int64_t)rate;
}

/* Sets the sighting and the rate of a lock. `before`: the lock in the previous reading. */
static int lock_compare(struct top_reading *reading, struct top_lock *lock,
                        const struct top_lock *before)
{
    const struct top_sighting *last = &before->sighting;
    bool newer = last->at_ns == 0 || lock->sighting.at_ns - last->at_ns >= sighting_least_ns;
    const char *agent = NULL;

    if (lock->sighting.at_ns != 0 && newer) {
        lock->holds_milli = last->at_ns == 0 ? -1 : rate_milli(last, &lock->sighting);
        return 0;
    }
    if (reading->at_ns - last->at_ns > sighting_kept_ns) {
        return 0;
    }
    /* the previous reading, which has the agent's name, is freed before this one */
    if (!keep_text(reading, last->agent, &agent)) {
        return HF_ENOMEM;
    }
    lock->sighting = *last;
    lock->sighting.agent = agent;
    lock->holds_milli = before->holds_milli;
    return 0;
}

static void count_hosts(struct top_reading *reading, const struct hf_party *const *parties,
                        size_t count, bool waiting)
{
    for (size_t index = 0; index < count; index++) {
        struct top_host *host;

        if (parties[index]->agent == NULL ||
            host_find(reading, parties[index]->agent, &host) != 0 || host == NULL) {
            continue;
        }
        *(waiting ? &host->waits : &host->holds) += 1;
    }
}

static void count_lock(struct top_reading *reading, const struct top_lock *lock)
{
    const struct hf_lock_info *info = &lock->info;

    reading->in_use += lock->in_use;
    reading->held += info->state != HF_STATE_FREE || info->holder_count > 0;
    reading->awaited += info->waiter_count > 0;
    reading->closed += info->closed_ns > 0;
    if (lock->holds_milli >= 0) {
        reading->holds_milli = (reading->holds_milli < 0 ? 0 : reading->holds_milli) +
                               lock->holds_milli;
    }
    count_hosts(reading, info->holders, info->holder_count, false);
    count_hosts(reading, info->waiters, info->waiter_count, true);
}

void top_reading_finish(struct top_reading *reading, const struct top_reading *before)
{
    /* an index of before->locks; both readings list the locks in the order of names */
    size_t at = 0;

    for (size_t index = 0; index < reading->lock_count; index++) {
        struct top_lock *lock = &reading->locks[index];

        while (before != NULL && at < before->lock_count &&
               strcmp(before->locks[at].info.name, lock->info.name) < 0) {
            at++;
        }
        if (before != NULL && at < before->lock_count &&
            strcmp(before->locks[at].info.name, lock->info.name) == 0) {
            /* the reading is still useful if there is no memory for this */
            (void)lock_compare(reading, lock, &before->locks[at]);
        }
        count_lock(reading, lock);
    }
}

/* ---- asking ---- */

/* The argument of the callbacks: the reading, and the error of on_status(), which cannot return
 * it. */
struct top_asking {
    struct top_reading *reading;
    int error;
};

static void on_status(const struct hf_status *status, void *arg)
{
    struct top_asking *asking = arg;

    asking->error = top_reading_status(asking->reading, status);
}

static int on_fact(const struct hf_fact *fact, void *arg)
{
    struct top_asking *asking = arg;

    return top_reading_fact(asking->reading, fact);
}

static int on_lock(const struct hf_lock_info *info, void *arg)
{
    struct top_asking *asking = arg;

    return top_reading_lock(asking->reading, info, top_now_ns());
}

int top_reading_take(hf_client *client, const char *prefix, const struct top_reading *before,
                     struct top_reading **out)
{
    struct top_asking asking = {.reading = top_reading_create(top_now_ns())};
    int error = asking.reading == NULL ? HF_ENOMEM : 0;

    *out = NULL;
    error = error != 0 ? error : hf_status(client, on_status, &asking);
    error = error != 0 ? error : asking.error;
    error = error != 0 ? error : hf_facts(client, on_fact, &asking);
    error = error != 0 ? error : hf_list(client, prefix, on_lock, &asking);
    if (error != 0 && error != TOP_FULL) {
        top_reading_destroy(asking.reading);
        return error;
    }
    asking.reading->took_ns = top_now_ns() - asking.reading->at_ns;
    top_reading_finish(asking.reading, before);
    *out = asking.reading;
    return 0;
}
