/*
 * Rules that the simulator breaks on purpose. Some functions of the lock word are renamed for the
 * simulator (real_X), and calls of them go through this file. If a rule is broken and no check
 * fails, the check is worthless. Rules between hosts are in breaks_core.c and breaks_change.c; some
 * others are in disk.c and recovery.c.
 */
#include <string.h>

#include "sim.h"

bool sim_waits_for_disk(enum message_kind kind, bool own);

enum breaking broken;
const char *const break_names[] = {
    "nothing",     "lock-delay",   "tokens",          "dead-holders",
    "wake",        "commit",       "readers",         "told-first",
    "own-vote",    "promise",      "ballot",          "majority",
    "read",        "adopt",        "old-store",       "lapse",
    "mark",        "ack",          "lease",           "version",
    "death-delay", "floor",        "order",           "waited",
    "queue",       "fresh",        "opened",          "place",
    "hand-overs",  "notes",        "resign",          "successor",
    "downgrade",   "late-share",   "barred",          "anew",
    "sound",       "in-use",       "one-owner",       "change-step",
    "change-ids",  "change-early", "change-accepted", "change-durable",
    "change-told", "ballot-kept",  "recovery-floor",  "recovery-wait",
    NULL};

bool breaks_choose(const char *name)
{
    for (uint32_t i = 0; break_names[i] != NULL; i++) {
        if (strcmp(break_names[i], name) == 0) {
            broken = (enum breaking)i;
            return true;
        }
    }
    return false;
}

bool real_hfi_evict(const struct hfi_actor *agent, uint32_t slot, uint32_t holder, uint64_t token,
                    int64_t closed_until_ns);
void real_hfi_grant(const struct hfi_actor *agent, uint32_t slot, enum hfi_grant mode,
                    uint64_t token_first, uint64_t token_last);
enum hfi_outcome real_hfi_release(const struct hfi_actor *actor, uint32_t slot, uint64_t token);
bool real_hfi_has_readers(const struct hfi_region *region, uint32_t slot, uint32_t except);

bool hfi_evict(const struct hfi_actor *agent, uint32_t slot, uint32_t holder, uint64_t token,
               int64_t closed_until_ns)
{
    return real_hfi_evict(agent, slot, holder, token,
                          broken == BREAK_LOCK_DELAY ? 0 : closed_until_ns);
}

void hfi_grant(const struct hfi_actor *agent, uint32_t slot, enum hfi_grant mode,
               uint64_t token_first, uint64_t token_last)
{
    real_hfi_grant(agent, slot, mode, broken == BREAK_TOKENS ? 1 : token_first, token_last);
}

/* HAND_OVERS: a host may hand over without end. Each release adds the one hand-over that it uses,
 * because the agent would correct a count that is too high. */
enum hfi_outcome hfi_release(const struct hfi_actor *actor, uint32_t slot, uint64_t token)
{
    _Atomic uint32_t *left = &actor->region->slots[slot].handovers_left;
    if (broken == BREAK_HAND_OVERS && atomic_load(left) > 0) {
        atomic_fetch_add(left, 1);
    }
    return real_hfi_release(actor, slot, token);
}

/* TOLD_FIRST, CHANGE_TOLD, OWN_VOTE: votes are sent, or counted, before they are durable. */
bool sim_waits_for_disk(enum message_kind kind, bool own)
{
    bool vote = kind == MESSAGE_ACCEPTED || kind == MESSAGE_PROMISE;
    bool change = kind == MESSAGE_CHANGE_ACCEPTED || kind == MESSAGE_CHANGE_PROMISE;
    if (change && !own && broken == BREAK_CHANGE_TOLD) {
        return false;
    }
    if (vote && broken == (own ? BREAK_OWN_VOTE : BREAK_TOLD_FIRST)) {
        return false;
    }
    return quorum_waits_for_disk(kind);
}

bool hfi_has_readers(const struct hfi_region *region, uint32_t slot, uint32_t except)
{
    return broken != BREAK_READERS && real_hfi_has_readers(region, slot, except);
}
