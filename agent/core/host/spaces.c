/* The region of each namespace: see spaces.h. */
#include "spaces_private.h"

struct spaces *spaces_lay_out(struct arena *arena)
{
    return arena_take(arena, 1, sizeof(struct spaces));
}

void spaces_init(struct host *host)
{
    for (uint32_t i = 0; i < HOST_NAMESPACES_MAX; i++) {
        host->spaces->table[i].note = &host->spaces->table[i].own_note;
    }
}

static struct space *space_at(const struct host *host, uint32_t space)
{
    return &host->spaces->table[space];
}

void host_set_region_note(struct host *host, uint32_t space, struct host_region_note *note)
{
    HF_CHECK(!host->started && space < HOST_NAMESPACES_MAX);
    space_at(host, space)->note = note;
}

void host_set_sound(struct host *host, host_sound_fn *sound, void *arg)
{
    HF_CHECK(!host->started);
    host->spaces->sound = sound;
    host->spaces->sound_arg = arg;
}

/* ---- the region ---- */

void space_begin(struct host *host, uint32_t space, const struct hfi_region *region, bool adopted,
                 const struct hfi_kernel *kernel)
{
    struct space *own = space_at(host, space);
    own->used = true;
    own->given_up = false;
    own->birth++;
    own->adopted = adopted;
    own->region = *region;
    own->incarnation = region->header->incarnation;
    own->actor = (struct hfi_actor){
        .region = &own->region, .kernel = kernel, .holder = HFI_HOLDER_AGENT};
    if (host->started && !host->lease.lost && host->lease.deadline_ns > 0) {
        space_publish(host, space);
    }
}

void space_move(struct host *host, uint32_t space, const struct hfi_region *region)
{
    struct space *own = space_at(host, space);
    HF_CHECK(own->used && own->region.size == region->size);
    own->region = *region;
}

bool space_is_used(const struct host *host, uint32_t space)
{
    return space_at(host, space)->used;
}

bool space_is_adopted(const struct host *host, uint32_t space)
{
    return space_at(host, space)->adopted;
}

const struct hfi_region *space_region(const struct host *host, uint32_t space)
{
    return &space_at(host, space)->region;
}

const struct hfi_actor *space_actor(const struct host *host, uint32_t space)
{
    return &space_at(host, space)->actor;
}

uint64_t space_incarnation(const struct host *host, uint32_t space)
{
    return space_at(host, space)->incarnation;
}

uint32_t space_birth(const struct host *host, uint32_t space)
{
    return space_at(host, space)->birth;
}

bool space_is_sound(const struct host *host, uint32_t space)
{
    return host->spaces->sound == NULL || host->spaces->sound(host->spaces->sound_arg, space);
}

/* ---- the lease that the region shows ---- */

uint64_t space_lease(const struct host *host, uint32_t space)
{
    return space_at(host, space)->lease;
}

void space_publish(struct host *host, uint32_t space)
{
    struct space *own = space_at(host, space);
    const struct host_lease *lease = &host->lease;
    uint64_t before = own->lease;
    own->lease = hfi_lease(lease->deadline_ns, lease->epoch);
    hfi_publish(&own->actor, lease->deadline_ns, lease->epoch, before);
}

void space_end_lease(struct host *host, uint32_t space)
{
    struct space *own = space_at(host, space);
    uint64_t before = own->lease;
    if (hfi_lease_deadline_ns(before) > host->now_ns) {
        own->lease = hfi_lease(host->now_ns, hfi_lease_epoch(before));
        hfi_publish(&own->actor, host->now_ns, hfi_lease_epoch(before), before);
    }
}

bool space_mend_lease(struct host *host, uint32_t space)
{
    const struct space *own = space_at(host, space);
    if (own->lease == 0 || atomic_load(&own->region.header->lease) == own->lease) {
        return false;
    }
    hfi_publish(&own->actor, hfi_lease_deadline_ns(own->lease), hfi_lease_epoch(own->lease),
                own->lease);
    return true;
}

/* ---- giving up ---- */

bool space_give_up(struct host *host, uint32_t space, int64_t until_ns)
{
    struct space *own = space_at(host, space);
    /* seq_cst: this agent may be killed between two stores. If the next agent finds given_up set,
     * the stores before it were made. */
    atomic_store(&own->note->closed_ns, until_ns);
    atomic_store(&own->note->anew_epoch, hub_session(host));
    atomic_store(&own->note->given_up, 1);
    own->given_up = true;
    if (!own->used) {
        return false;
    }
    own->used = false;
    own->leaving = true;
    own->leave_slot = 0;
    return true;
}

bool space_is_given_up(const struct host *host, uint32_t space)
{
    return space_at(host, space)->given_up;
}

bool space_is_leaving(const struct host *host, uint32_t space)
{
    return space_at(host, space)->leaving;
}

uint32_t space_left_slots(const struct host *host, uint32_t space)
{
    return space_at(host, space)->leave_slot;
}

uint32_t space_leave_slot(struct host *host, uint32_t space)
{
    return space_at(host, space)->leave_slot++;
}

void space_has_left(struct host *host, uint32_t space)
{
    struct space *own = space_at(host, space);
    own->leave_slot = 0;
    own->leaving = false;
    own->lease = 0;
}

int64_t space_closed_until_ns(const struct host *host, uint32_t space)
{
    /* seq_cst: as in space_note_closing() */
    return atomic_load(&space_at(host, space)->note->closed_ns);
}

void space_note_closing(const struct host *host, uint32_t space, int64_t until_ns)
{
    struct host_region_note *note = space_at(host, space)->note;
    /* seq_cst: no other process reads the note while this process lives. The note only has to be
     * written before the word is closed. */
    if (atomic_load(&note->closed_ns) < until_ns) {
        atomic_store(&note->closed_ns, until_ns);
    }
}

/* ---- what is known of a namespace's grants ---- */

bool space_is_anew(const struct host *host, uint32_t space)
{
    /* seq_cst: only this thread, or the previous agent, has written the epoch */
    uint32_t epoch = atomic_load(&space_at(host, space)->note->anew_epoch);
    return epoch != 0 && epoch == hub_session(host);
}

bool space_grants_are_known(const struct host *host, uint32_t space)
{
    return host->config.voter_count == 1 && host->config.self != HOST_OBSERVER &&
           !space_is_anew(host, space);
}

bool space_bars_name(const struct host *host, const struct message_name *name)
{
    uint32_t space = host_namespace(&host->config, (const char *)name->bytes, name->length);
    return space_is_given_up(host, space);
}

uint32_t host_namespace(const struct host_config *config, const char *name, size_t size)
{
    const char *slash = memchr(name, '/', size);
    size_t length = slash ? (size_t)(slash - name) : 0;
    for (uint32_t i = 1; length > 0 && i < config->namespace_count; i++) {
        if (length <= HFI_LABEL_MAX && config->namespaces[i][length] == '\0' &&
            memcmp(config->namespaces[i], name, length) == 0) {
            return i;
        }
    }
    return 0;
}
