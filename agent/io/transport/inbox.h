/*
 * The connections that others made to this agent, and which may have a place. Private to the
 * transport.
 *
 * A stranger has not greeted; a guest has, and has sent no packet that makes sense; the others are
 * known by the name that their first packet gave. Anybody can greet, so places are given up:
 *
 *   who has not greeted after 5 s (with TLS, and no more than 128 strangers: 30 s), or not sent a
 *   packet that makes sense a minute later, is closed;
 *   in a full inbox a newcomer gets the place of the stranger or guest that came first, else that
 *   of who was silent for longest, 10 s at least;
 *   agents that are no voters leave some places free, so there is always a guest's place from which
 *   a voter becomes known; and a voter that is known keeps its place;
 *   of one name two connections from one host have a place: an agent that came back may be there
 *   twice; and sixteen in all: who takes another's name elsewhere does not end that agent's links.
 *
 * The agent believes the sender that a packet names (see docs/TLS.md). So without TLS a process
 * that knows the cell's name can still have places, but the voters' are not among them.
 *
 * Nothing here closes anything: the functions name the link that is to be closed.
 */
#ifndef IO_TRANSPORT_INBOX_H
#define IO_TRANSPORT_INBOX_H

#include <stdbool.h>
#include <stdint.h>

#include "link.h"

enum {
    TRANSPORT_INBOUND_MAX = 2 * TRANSPORT_PEERS_MAX,
    TRANSPORT_STRANGERS_MAX = 256,
    TRANSPORT_STRANGERS_FEW = TRANSPORT_STRANGERS_MAX / 2,
};

struct transport_inbox {
    uint32_t max;
    uint32_t count;
    uint32_t strangers;
    struct transport_link *links[TRANSPORT_INBOUND_MAX];
};

/* There is room: count < max. */
void transport_inbox_add(struct transport_inbox *inbox, struct transport_link *link);
void transport_inbox_remove(struct transport_inbox *inbox, const struct transport_link *link);

/* The link whose place a newcomer gets; NULL: none, although the inbox is full. Only if it is full,
 * or there are too many strangers. */
struct transport_link *transport_inbox_victim(const struct transport_inbox *inbox, int64_t now_ns);

/* The link that has to go because that link became known just now, maybe itself; NULL: none. */
struct transport_link *transport_inbox_rival(const struct transport_inbox *inbox,
                                             struct transport_link *link, int64_t now_ns);

#endif
