/* Counts of the locks of the cell: see census.h. */
#include "observe/census.h"

#include <stddef.h>
#include <string.h>

#include "proto/region.h"

void census_begin(struct census *census)
{
    /* This writes only the entries that are used. Most pages of the table are never written, so
     * they take no memory. */
    for (uint32_t i = 0; i < CENSUS_HOSTS && census->host_count > 0; i++) {
        if (census->hosts[i].name.length > 0) {
            memset(&census->hosts[i], 0, sizeof(census->hosts[i]));
            census->host_count--;
        }
    }
    memset(census, 0, offsetof(struct census, hosts));
}

static bool same(const struct message_agent *one, const struct message_agent *other)
{
    return one->length == other->length && memcmp(one->text, other->text, one->length) == 0;
}

/* Returns the index of the host's entry, or of the free entry where it belongs. There is always a
 * free entry, because at most half of them are used. */
static uint32_t find(const struct census *census, const struct message_agent *name)
{
    uint32_t at = (uint32_t)hfi_name_hash(name->text, name->length) & (CENSUS_HOSTS - 1);
    while (census->hosts[at].name.length > 0 && !same(&census->hosts[at].name, name)) {
        at = (at + 1) & (CENSUS_HOSTS - 1);
    }
    return at;
}

const struct census_host *census_host(const struct census *census, const struct message_agent *name)
{
    const struct census_host *host = &census->hosts[find(census, name)];
    return host->name.length > 0 ? host : NULL;
}

static void count_part(struct census *census, const struct host_part *part)
{
    struct census_host *host = &census->hosts[find(census, &part->agent)];
    if (host->name.length == 0) {
        if (census->host_count >= CENSUS_HOSTS / 2) {
            return; /* this cannot happen: gossip knows fewer agents */
        }
        host->name = part->agent;
        census->host_count++;
    }
    host->held += part->holders > 0;
    host->waiters += part->waiters;
}

/* Returns whether the first lock is more important than the second one. */
static bool precedes(const struct host_overview *lock, const struct census_lock *other)
{
    if ((lock->waiters > 0) != (other->waiters > 0)) {
        return lock->waiters > 0;
    }
    if (lock->waiters > 0 && lock->wait_ns != other->wait_ns) {
        return lock->wait_ns > other->wait_ns;
    }
    if ((lock->closed_ns > 0) != (other->closed_ns > 0)) {
        return lock->closed_ns > 0;
    }
    return lock->hold_ns > other->hold_ns;
}

static void fill(const struct host_overview *lock, struct census_lock *out)
{
    *out = (struct census_lock){.name = lock->name,
                                .closed_ns = lock->closed_ns,
                                .holders = lock->holders,
                                .waiters = lock->waiters,
                                .shared = lock->shared,
                                .more = lock->more,
                                .hold_ns = lock->hold_ns,
                                .wait_ns = lock->wait_ns,
                                .part_count = lock->part_count};
    uint32_t kept = lock->part_count < CENSUS_PARTS ? lock->part_count : CENSUS_PARTS;
    memcpy(out->parts, lock->parts, kept * sizeof(out->parts[0]));
}

static void keep(struct census *census, const struct host_overview *lock)
{
    uint32_t at = census->kept;
    if (at == CENSUS_LOCKS && !precedes(lock, &census->locks[CENSUS_LOCKS - 1])) {
        return;
    }
    at = at < CENSUS_LOCKS ? census->kept++ : CENSUS_LOCKS - 1;
    for (; at > 0 && precedes(lock, &census->locks[at - 1]); at--) {
        census->locks[at] = census->locks[at - 1];
    }
    fill(lock, &census->locks[at]);
}

void census_add(struct census *census, const struct host_overview *lock)
{
    census->names++;
    if (lock->holders + lock->waiters == 0 && lock->closed_ns <= 0 && !lock->more) {
        return;
    }
    census->used++;
    census->held += lock->holders > 0;
    census->awaited += lock->waiters > 0;
    census->closed += lock->closed_ns > 0;
    census->waiters += lock->waiters;
    census->more = census->more || lock->more;
    for (uint32_t i = 0; i < lock->part_count; i++) {
        count_part(census, &lock->parts[i]);
    }
    keep(census, lock);
}
