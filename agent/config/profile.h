/*
 * Profiles: sets of sizes for the agent's tables, chosen by `profile` in [agent].
 *
 * The sizes in struct host_limits have keys in [limits], and a key in the file overrides the
 * profile. The other sizes have no keys. A voter's tables (struct quorum_limits) bound what it can
 * store for the whole cell, not for its own host alone.
 */
#ifndef AGENT_CONFIG_PROFILE_H
#define AGENT_CONFIG_PROFILE_H

#include <stdint.h>

#include "core/gossip.h"
#include "core/host.h"
#include "core/quorum.h"

struct profile {
    const char *name;
    struct host_limits host;
    struct quorum_limits quorum;
    struct gossip_limits gossip;
};

/* The default: room for a server. Memory that no entry uses is never touched. */
extern const struct profile profile_standard;
/* For an embedded node. tests/cluster/small.c measures how much memory an agent takes with this
 * profile. */
extern const struct profile profile_small;

/* Returns the profile of that name; NULL: there is none. */
const struct profile *profile_find(const char *name);

#endif
