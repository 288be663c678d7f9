/* The names of locks in byte order: see listing.h. */
#include "listing.h"

#include "clients.h"
#include "core/base/order.h"
#include "core/gossip.h"
#include "locks.h"

static uint32_t listing_entry(const struct host *host, struct lock_ref at)
{
    return at.space * host->config.limits.locks + at.slot + 1;
}

static struct lock_ref listing_lock(const struct host *host, uint32_t entry)
{
    uint32_t locks = host->config.limits.locks;
    return (struct lock_ref){(entry - 1) / locks, (entry - 1) % locks};
}

static const uint8_t *entry_name(const void *arg, uint32_t entry, size_t *size)
{
    const struct host *host = arg;
    return lock_name_bytes(host, listing_lock(host, entry), size);
}

struct listing {
    struct order order; /* the locks that have a name, in the order of their names */
};

struct listing *listing_lay_out(struct arena *arena, const struct host_config *config)
{
    struct listing *listing = arena_take(arena, 1, sizeof(*listing));
    size_t locks = (size_t)config->limits.locks * config->namespace_count;
    ARENA_TAKE(arena, listing, order.nodes, locks + 1);
    return listing;
}

void listing_init(struct host *host)
{
    host->listing->order.seed = host->config.store_id[0];
    host->listing->order.name = entry_name;
    host->listing->order.arg = host;
}

void listing_add(struct host *host, struct lock_ref at)
{
    order_insert(&host->listing->order, listing_entry(host, at));
}

void listing_remove(struct host *host, struct lock_ref at)
{
    order_remove(&host->listing->order, listing_entry(host, at));
}

static bool may_see(const struct host *host, uint32_t client, uint32_t space)
{
    return client == LISTING_AGENT ||
           client_rights_error(host, client, space, HOST_MAY_USE | HOST_MAY_ADMIN) == 0;
}

static bool begins_with(const uint8_t *name, size_t size, const struct hfi_text *prefix)
{
    return size >= prefix->size &&
           (prefix->size == 0 || memcmp(name, prefix->bytes, prefix->size) == 0);
}

/* Sets *after to a name that follows all names of the namespace in which `name` is. No name has a
 * byte 0xff. */
static void skip_namespace(const struct host *host, uint32_t space, const uint8_t *name,
                           size_t size, struct message_name *after)
{
    message_name_set(after, name, size);
    if (space != 0) {
        size_t label = hub_text_size(host->config.namespaces[space], HFI_LABEL_MAX);
        after->bytes[label + 1] = 0xff; /* behind the label's slash */
        after->length = (uint8_t)(label + 2);
    }
}

static bool next_here(const struct host *host, uint32_t client, const struct hfi_list *list,
                      struct message_name after, struct message_name *out)
{
    const struct hfi_text *prefix = &list->prefix;
    uint64_t most = (uint64_t)host->config.limits.locks * host->config.namespace_count;
    for (uint64_t i = 0; i <= most; i++) {
        bool begins = order_compare(after.bytes, after.length, prefix->bytes, prefix->size) < 0;
        uint32_t entry = begins || after.length == 0
                             ? order_from(&host->listing->order, prefix->bytes, prefix->size)
                             : order_after(&host->listing->order, after.bytes, after.length);
        size_t size = 0;
        const uint8_t *name = entry != 0 ? entry_name(host, entry, &size) : NULL;
        if (name == NULL || !begins_with(name, size, prefix)) {
            return false;
        }
        uint32_t space = listing_lock(host, entry).space;
        if (may_see(host, client, space)) {
            message_name_set(out, name, size);
            return true;
        }
        skip_namespace(host, space, name, size, &after);
    }
    return false;
}

static bool next_elsewhere(const struct host *host, uint32_t client, const struct hfi_list *list,
                           struct message_name after, struct message_name *out)
{
    while (gossip_lock_after(host->gossip, list->prefix.bytes, list->prefix.size, after.bytes,
                             after.length, out)) { /* bounded by the number of names in gossip */
        uint32_t space = host_namespace(&host->config, (const char *)out->bytes, out->length);
        if (may_see(host, client, space)) {
            return true;
        }
        skip_namespace(host, space, out->bytes, out->length, &after);
    }
    return false;
}

bool listing_next(const struct host *host, uint32_t client, const struct hfi_list *list,
                  const struct message_name *after, struct message_name *out)
{
    struct message_name elsewhere;
    struct message_name behind = *after; /* a copy, because out may point to *after */
    bool here = next_here(host, client, list, behind, out);
    if (host->gossip == NULL || !next_elsewhere(host, client, list, behind, &elsewhere)) {
        return here;
    }
    if (!here || order_compare(elsewhere.bytes, elsewhere.length, out->bytes, out->length) < 0) {
        *out = elsewhere;
    }
    return true;
}

void listing_check(const struct host *host, uint32_t named)
{
    uint32_t listed = 0;
    struct message_name last = {0};
    uint32_t entry = order_from(&host->listing->order, "", 0);
    while (entry != 0) {
        struct lock_ref at = listing_lock(host, entry);
        HF_CHECK(lock_is_named(host, at) && ++listed <= named);
        lock_name(host, at, &last);
        entry = order_after(&host->listing->order, last.bytes, last.length);
    }
    HF_CHECK(listed == named);
}
