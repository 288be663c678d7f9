/* The namespaces and their regions: see spaces.h. */
#include "hub.h"
#include "state.h"

void host_set_region_note(struct host *host, uint32_t space, struct host_region_note *note)
{
    HF_CHECK(!host->started && space < HOST_NAMESPACES_MAX);
    host->spaces[space].note = note;
}

void host_set_sound(struct host *host, host_sound_fn *sound, void *arg)
{
    HF_CHECK(!host->started);
    host->sound = sound;
    host->sound_arg = arg;
}

bool space_is_sound(const struct host *host, uint32_t space)
{
    return host->sound == NULL || host->sound(host->sound_arg, space);
}

/* The session of the grants: before START the one that goes on. */
uint32_t space_session(const struct host *host)
{
    return host->started ? host->lease.epoch : host->config.continued_epoch;
}

bool space_is_anew(const struct host *host, uint32_t space)
{
    /* seq_cst: written by this thread, or by the agent before */
    uint32_t epoch = atomic_load(&host->spaces[space].note->anew_epoch);
    return epoch != 0 && epoch == space_session(host);
}

bool space_grants_are_known(const struct host *host, uint32_t space)
{
    return host->config.voter_count == 1 && host->config.self != HOST_OBSERVER &&
           !space_is_anew(host, space);
}

bool space_bars_name(const struct host *host, const struct message_name *name)
{
    uint32_t space = host_namespace(&host->config, (const char *)name->bytes, name->length);
    return host->spaces[space].given_up;
}

int64_t space_counted_long_ns(const struct host *host, uint32_t delay_ms)
{
    return (int64_t)delay_ms * MS / 100 * host->config.max_drift_percent;
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
