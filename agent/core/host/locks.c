/*
 * Locks: what is known of the lock in each slot of a region: its name, its state, until when it is
 * closed. The grant stays here when the last hold ends, until another host wants it or nobody has
 * had the lock open for long: that is what makes the next one cost no message.
 */
#include "hub.h"
#include "state.h"

enum { SPACE_SHIFT = 22 };

/*
 * Which state may follow which. A grant is in force in GRANTED and AMENDING only, and both are left
 * by an answer of the quorum, by a give-back (RETURNING), or with the session. So no lock is free,
 * and no name gets another slot, while its word lets anybody in.
 */
#define TO(state) (1U << (state))
static const uint8_t transitions[] = {
    [LOCK_FREE] = TO(LOCK_IDLE) | TO(LOCK_RETIRED),
    [LOCK_IDLE] = TO(LOCK_FREE) | TO(LOCK_ASKING) | TO(LOCK_RETURNING) |
                  TO(LOCK_GRANTED) | /* before START: the own store knows it */
                  TO(LOCK_ADOPTED),
    [LOCK_ASKING] = TO(LOCK_IDLE) | TO(LOCK_GRANTED) | TO(LOCK_RETURNING) | TO(LOCK_RETIRED),
    [LOCK_GRANTED] = TO(LOCK_IDLE) | TO(LOCK_AMENDING) | TO(LOCK_RETURNING),
    [LOCK_AMENDING] = TO(LOCK_IDLE) | TO(LOCK_GRANTED) | TO(LOCK_RETURNING) | TO(LOCK_RETIRED),
    [LOCK_RETURNING] = TO(LOCK_IDLE),
    [LOCK_RETIRED] = TO(LOCK_FREE),
    [LOCK_ADOPTED] = TO(LOCK_IDLE) | TO(LOCK_GRANTED) | TO(LOCK_RETURNING) | TO(LOCK_RETIRED),
};

void lock_set_state(struct host *host, struct lock_ref at, enum lock_state to)
{
    struct lock *lock = lock_at(host, at);
    HF_CHECK(transitions[lock->state] & TO(to));
    lock->state = to;
}

void lock_name(const struct host *host, struct lock_ref at, struct message_name *out)
{
    size_t size = 0;
    const uint8_t *bytes = names_bytes(host->names, lock_at(host, at)->name, &size);
    memset(out, 0, sizeof(*out));
    out->length = (uint8_t)size;
    memcpy(out->bytes, bytes, size);
}

uint64_t lock_hash(const struct host *host, struct lock_ref at)
{
    size_t size = 0;
    const uint8_t *bytes = names_bytes(host->names, lock_at(host, at)->name, &size);
    return hfi_name_hash((const char *)bytes, size);
}

bool lock_find(const struct host *host, const uint8_t *name, size_t size, struct lock_ref *at)
{
    uint32_t id = names_find(host->names, name, size);
    uint32_t packed = id == NAMES_NONE ? 0 : names_lock(host->names, id);
    if (packed == 0) {
        return false;
    }
    *at = (struct lock_ref){(packed - 1) >> SPACE_SHIFT,
                            (packed - 1) & ((UINT32_C(1) << SPACE_SHIFT) - 1)};
    return host->spaces[at->space].used; /* else it is being left: regions.c */
}

/* ---- closed ---- */

/*
 * Until when a lock is closed is the agent's own number, in units of 2^17 ns whose low bits are
 * kept: what lies up to two minutes ahead or behind can be told, a lock-delay has a minute at most,
 * and what is over is forgotten by the next pass over all locks. The region's number is what the
 * next agent goes on with; nothing here reads it but adoption.
 */
enum { CLOSED_SHIFT = 17, CLOSED_BITS = 21 };
static const int64_t CLOSED_AHEAD_MAX_MS = MESSAGE_LOCK_DELAY_MAX_MS + 1000;

/* The next moment that can be told; it is never sooner. */
static uint64_t closed_units(int64_t until_ns)
{
    uint64_t units = ((uint64_t)until_ns + (UINT64_C(1) << CLOSED_SHIFT) - 1) >> CLOSED_SHIFT;
    return units + !(units & ((UINT64_C(1) << CLOSED_BITS) - 1)); /* 0 is "not closed" */
}

int64_t lock_closed_until_ns(const struct host *host, struct lock_ref at)
{
    const uint32_t above = 32 - CLOSED_BITS;
    uint32_t closed = lock_guard(host, at)->closed;
    uint64_t now = (uint64_t)host->now_ns >> CLOSED_SHIFT;
    int64_t ahead = (int32_t)((closed - (uint32_t)now) << above) / (1 << above);
    if (closed == 0 || ahead > (CLOSED_AHEAD_MAX_MS * MS) >> CLOSED_SHIFT) {
        return 0; /* of long ago: the agent stood still meanwhile */
    }
    return ((int64_t)now + ahead) << CLOSED_SHIFT;
}

void lock_close(struct host *host, struct lock_ref at, int64_t until_ns)
{
    const uint64_t mask = (UINT64_C(1) << CLOSED_BITS) - 1;
    lock_guard(host, at)->closed = until_ns > 0 ? closed_units(until_ns) & mask : 0;
}

void lock_revoke(struct host *host, struct lock_ref at, enum hfi_grant mode)
{
    lock_guard(host, at)->in_force = 0;
    hfi_revoke(lock_actor(host, at), at.slot, mode);
    lock_close_told(host, at, 0);
}

void lock_log(struct host *host, struct host_actions *actions, const char *event,
              struct lock_ref at, uint64_t token, int64_t number)
{
    struct host_action *action = hub_emit(actions, HOST_LOG);
    action->as.log.event = event;
    action->as.log.region = at.space;
    action->as.log.slot = at.slot;
    action->as.log.token = token;
    action->as.log.number = number;
    if (lock_is_named(lock_at(host, at))) {
        lock_name(host, at, &action->as.log.name);
    }
}

/* The region says what is so. */
void lock_tell_closing(struct host *host, struct lock_ref at)
{
    atomic_store(&host->spaces[at.space].region.slots[at.slot].closed_until_ns,
                 (uint64_t)lock_closed_until_ns(host, at));
}

void lock_close_told(struct host *host, struct lock_ref at, int64_t until_ns)
{
    lock_close(host, at, until_ns);
    lock_tell_closing(host, at);
}

int64_t lock_closing_end_ns(int64_t until_ns)
{
    return (int64_t)(closed_units(until_ns) << CLOSED_SHIFT);
}

uint32_t lock_pack(struct lock_ref at)
{
    return (at.space << SPACE_SHIFT | at.slot) + 1;
}

struct message_order lock_version(const struct lock *lock)
{
    return (struct message_order){lock->ballot, lock->sequence};
}

void lock_set_version(struct lock *lock, struct message_order version)
{
    lock->ballot = version.ballot & (MESSAGE_BALLOT_LIMIT - 1);
    lock->sequence = version.sequence & (MESSAGE_SEQUENCE_LIMIT - 1);
}
