/*
 * The connections that other agents made to this agent, and which of them keep a place in the
 * inbox. Private to the transport.
 *
 * A link whose other end has sent no greeting is a *stranger*. A link whose other end has sent a
 * greeting but no valid packet is a *guest*. All other links are known by the name in their first
 * packet. Any program can send a greeting, so links can lose their places:
 *
 * - A stranger is closed after 5 s. With TLS, and no more than 128 strangers, it is closed after 30
 *   s. A guest is closed after a minute.
 * - In a full inbox a newcomer gets the place of the oldest stranger or guest. If there is none, it
 *   gets the place of the link that was silent for longest, if that is 10 s at least.
 * - Agents that are not voters leave some places free, so there is always a place where a voter can
 *   become known. A known voter keeps its place.
 * - One name has two places from one host, because an agent that has restarted may still have its
 *   earlier link, too. It has sixteen places from all hosts, so that a host that takes the name of
 *   another agent does not end that agent's links.
 *
 * The agent believes the sender that a packet names (see docs/TLS.md). So without TLS a process
 * that knows the cell's name can hold places, but not those of the voters.
 *
 * These functions close nothing. They name the link that the caller has to close.
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

/* Adds a link. The inbox must have room: count < max. */
void transport_inbox_add(struct transport_inbox *inbox, struct transport_link *link);
void transport_inbox_remove(struct transport_inbox *inbox, const struct transport_link *link);

/* Returns the link that must give its place to a newcomer; NULL if there is none, although the
 * inbox is full. Called only if the inbox is full or has too many strangers. */
struct transport_link *transport_inbox_victim(const struct transport_inbox *inbox, int64_t now_ns);

/* Called when `link` has just become known. Returns the link that has to be closed because of that,
 * which may be `link` itself, or NULL. */
struct transport_link *transport_inbox_rival(const struct transport_inbox *inbox,
                                             struct transport_link *link, int64_t now_ns);

#endif
