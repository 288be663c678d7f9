/*
 * Which voter coordinates which partition, as far as this host knows.
 *
 * At first the one that rendezvous hashing prefers. Afterwards whoever says so itself (OWNER),
 * answered a request, or was named by one that is not it any more. A wrong belief costs a detour:
 * every voter passes a request on to whom it takes for the coordinator.
 */
#include "state.h"

void routes_init(struct host *host)
{
    for (uint32_t i = 0; i < MESSAGE_PARTITIONS; i++) {
        host->routes[i] = (uint8_t)quorum_preferred(host->config.voters, host->config.voter_count,
                                                    i);
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

bool route_learn(struct host *host, uint32_t partition, const struct message_agent *agent)
{
    uint32_t voter = route_voter(host, agent);
    if (voter == NONE || host->routes[partition] == voter) {
        return false;
    }
    host->routes[partition] = (uint8_t)voter;
    return true;
}

bool route_is_up(const struct host *host, uint32_t voter)
{
    return voter == host->config.self || (host->voters_up >> voter & 1);
}

uint32_t route_other(const struct host *host, uint32_t voter, uint32_t turn, bool self)
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

/* First to whom it belongs, then by way of another voter, then to another one, which passes it on:
 * so a link that is cut one way, or a belief that is wrong, holds nothing up for long. */
struct route route_choose(const struct host *host, uint32_t partition, uint32_t tries,
                          uint32_t turn)
{
    uint32_t owner = host->routes[partition];
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
