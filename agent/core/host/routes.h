/*
 * Routes: which voter coordinates which partition, as far as this host knows, and which voters can
 * be reached.
 *
 * At first this host believes that the coordinator is the voter that rendezvous hashing prefers.
 * Later it believes this of the voter that last announced itself (OWNER), answered a request, or
 * was named by another voter that refused a request.
 *
 * Invariants: for every partition, this host takes one voter for the coordinator. A wrong belief
 * costs a detour, never safety: each voter passes a request on to the voter that it takes for the
 * coordinator, and only the coordinator decides (docs/PROTOCOL.md, rules 1 and 2). The copies of a
 * request take different routes: straight, through another voter, and to another voter.
 */
#ifndef HOST_ROUTES_H
#define HOST_ROUTES_H

#include "core/base/arena.h"
#include "core/base/succession.h"
#include "hub.h"

struct routes;

/* The route of a message: the voter that gets it, and the voter that passes it on, or
 * HOST_NO_RELAY. */
struct route {
    uint32_t to;
    uint8_t relay;
};

struct routes *routes_lay_out(struct arena *arena);
void routes_init(struct host *host);

/* Returns the agent's index among the voters; NONE: the agent is no voter. */
uint32_t route_voter(const struct host *host, const struct message_agent *agent);
/* Returns the voter that this host takes for the partition's coordinator. */
uint32_t route_owner(const struct host *host, uint32_t partition);
/* Notes that `agent` coordinates the partition. */
void route_learn(struct host *host, uint32_t partition, const struct message_agent *agent);
/* Notes which voters can be reached, bit by voter: see HOST_VOTERS. Returns those of `up` that
 * could not be reached before. */
uint32_t routes_voters(struct host *host, uint32_t up, uint32_t answering, uint32_t refused);
/* Switches to another record of voters, which is in the configuration already. Sets *orphaned to
 * the partitions whose coordinator was removed. For these, this host now assumes the voter that
 * rendezvous hashing prefers. */
void routes_record(struct host *host, const struct succession *succession,
                   struct message_partitions *orphaned);
/* Returns whether the voter can be reached. */
bool route_is_up(const struct host *host, uint32_t voter);
/* Return whether the voter answers renewals, and whether it refuses this agent, as the last
 * HOST_VOTERS reported. Only answers to people use these functions; no route depends on them. */
bool route_answers(const struct host *host, uint32_t voter);
bool route_is_refused(const struct host *host, uint32_t voter);
/* Returns the route for the next copy of a request that was sent `tries` times before. If the route
 * needs another voter, `turn` selects that voter. */
struct route route_choose(const struct host *host, uint32_t partition, uint32_t tries,
                          uint32_t turn);

#endif
