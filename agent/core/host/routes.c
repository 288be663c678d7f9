/* Routes: who coordinates which partition. See routes.h. */
#include "routes.h"

#include "core/quorum.h"

struct routes {
    /* by partition: the index of the voter that this host takes for the coordinator */
    uint8_t owner[MESSAGE_PARTITIONS];
    uint32_t up;        /* bit by voter */
    uint32_t answering; /* bit by voter: the voter is shown as up */
    uint32_t refused;
};

struct routes *routes_lay_out(struct arena *arena)
{
    return arena_take(arena, 1, sizeof(struct routes));
}

void routes_init(struct host *host)
{
    host->routes->up = UINT32_MAX;
    for (uint32_t i = 0; i < MESSAGE_PARTITIONS; i++) {
        host->routes->owner[i] = (uint8_t)quorum_preferred(host->config.voters,
                                                           host->config.voter_count, i);
    }
}

uint32_t route_voter(const struct host *host, const struct message_agent *agent)
{
    for (uint32_t i = 0; i < host->config.voter_count; i++) {
        if (memcmp(&host->config.voters[i], agent, sizeof(*agent)) == 0) {
            return i;
        }
    }
    return NONE;
}

void route_learn(struct host *host, uint32_t partition, const struct message_agent *agent)
{
    uint32_t voter = route_voter(host, agent);
    if (voter != NONE) {
        host->routes->owner[partition] = (uint8_t)voter;
    }
}

uint32_t route_owner(const struct host *host, uint32_t partition)
{
    return host->routes->owner[partition];
}

uint32_t routes_voters(struct host *host, uint32_t up, uint32_t answering, uint32_t refused)
{
    struct routes *routes = host->routes;
    uint32_t again = up & ~routes->up;
    routes->up = up;
    routes->answering = answering;
    routes->refused = refused;
    return again;
}

void routes_record(struct host *host, const struct succession *succession,
                   struct message_partitions *orphaned)
{
    struct routes *routes = host->routes;
    memset(orphaned, 0, sizeof(*orphaned));
    routes->up = succession_mask(succession, routes->up, true);
    routes->answering = succession_mask(succession, routes->answering, false);
    routes->refused = succession_mask(succession, routes->refused, false);
    for (uint32_t i = 0; i < MESSAGE_PARTITIONS; i++) {
        uint8_t owner = succession->to[routes->owner[i]];
        if (owner == SUCCESSION_NONE) {
            owner = (uint8_t)quorum_preferred(host->config.voters, host->config.voter_count, i);
            message_partition_add(orphaned, i);
        }
        routes->owner[i] = owner;
    }
}

bool route_answers(const struct host *host, uint32_t voter)
{
    return voter == host->config.self || (host->routes->answering >> voter & 1);
}

bool route_is_refused(const struct host *host, uint32_t voter)
{
    return host->routes->refused >> voter & 1;
}

bool route_is_up(const struct host *host, uint32_t voter)
{
    return voter == host->config.self || (host->routes->up >> voter & 1);
}

/* Returns another voter that is up, which may be this agent if `self` is set. `turn` selects one of
 * them. NONE: there is none. */
static uint32_t route_other(const struct host *host, uint32_t voter, uint32_t turn, bool self)
{
    uint32_t count = host->config.voter_count;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t other = (voter + 1 + (turn + i) % count) % count;
        if (other != voter && (self || other != host->config.self) && route_is_up(host, other)) {
            return other;
        }
    }
    return NONE;
}

/* The first copy of a request goes straight to the coordinator. The second copy goes to the
 * coordinator through another voter. The third copy goes to another voter, which passes it on to
 * the voter that it takes for the coordinator; so does the first copy if the coordinator cannot be
 * reached. So neither a link that is cut in one direction nor a wrong belief delays a request for
 * long. */
struct route route_choose(const struct host *host, uint32_t partition, uint32_t tries,
                          uint32_t turn)
{
    uint32_t owner = host->routes->owner[partition];
    uint32_t phase = tries % 3;
    struct route straight = {owner, HOST_NO_RELAY};
    if (phase == 0 && !route_is_up(host, owner)) {
        phase = 2;
    }
    if (phase == 1 && owner != host->config.self) {
        uint32_t relay = route_other(host, owner, turn, false);
        return relay == NONE ? straight : (struct route){owner, (uint8_t)relay};
    }
    uint32_t other = phase == 0 ? NONE : route_other(host, owner, turn, true);
    return other == NONE ? straight : (struct route){other, HOST_NO_RELAY};
}
