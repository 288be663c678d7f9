/*
 * Rules broken on purpose. Some functions of the lock word are renamed for the simulator
 * (real_X) and pass through here; breaking one must make a check fail, or the check is worthless.
 */
#include <string.h>

#include "sim.h"

enum breaking broken;
const char *const break_names[] = {"nothing", "lock-delay", "tokens",  "dead-holders",
                                   "wake",    "commit",     "readers", NULL};

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

bool real_evict(const struct hfi_actor *agent, uint32_t slot, uint32_t holder, uint64_t token,
                int64_t closed_until_ns);
void real_grant(const struct hfi_actor *agent, uint32_t slot, enum hfi_grant mode,
                uint64_t token_first, uint64_t token_last);
bool real_has_readers(const struct hfi_region *region, uint32_t slot, uint32_t except);

bool hfi_evict(const struct hfi_actor *agent, uint32_t slot, uint32_t holder, uint64_t token,
               int64_t closed_until_ns)
{
    return real_evict(agent, slot, holder, token, broken == BREAK_LOCK_DELAY ? 0 : closed_until_ns);
}

void hfi_grant(const struct hfi_actor *agent, uint32_t slot, enum hfi_grant mode,
               uint64_t token_first, uint64_t token_last)
{
    real_grant(agent, slot, mode, broken == BREAK_TOKENS ? 1 : token_first, token_last);
}

bool hfi_has_readers(const struct hfi_region *region, uint32_t slot, uint32_t except)
{
    return broken != BREAK_READERS && real_has_readers(region, slot, except);
}
