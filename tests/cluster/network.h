/*
 * The hosts of a cell: each is a network namespace, and a bridge in a namespace of its own joins
 * them, on one machine with one clock. Links can be cut in one direction, lose packets, and be
 * slow.
 *
 * The namespaces have no names. Each belongs to a process that does nothing else and dies with the
 * test, so nothing stays behind, whatever ends the test. A host has a mount namespace, too, for
 * file systems of its own. This needs root; another user becomes root in a user namespace, if the
 * kernel allows that.
 *
 * A failure here ends the caller (require.h). Only the test's main process may call this.
 */
#ifndef TESTS_CLUSTER_NETWORK_H
#define TESTS_CLUSTER_NETWORK_H

#include "relay.h"

#include <stdint.h>
#include <sys/types.h>

enum { NETWORK_HOSTS_MAX = 8, NETWORK_SKIPPED = 77 };

struct network {
    unsigned hosts;
    pid_t bridge;                     /* the process whose namespace has the bridge */
    pid_t keepers[NETWORK_HOSTS_MAX]; /* the processes whose namespaces are the hosts' */
    pid_t relay;             /* the process that carries the packets instead of the bridge; 0: the
                              * bridge carries them */
    struct relay_plan rough; /* the relay's faults */
    /* The percentage of packets that are lost [from][to]; 100: the link is cut. */
    uint8_t loss[NETWORK_HOSTS_MAX][NETWORK_HOSTS_MAX];
};

/* To be called first in main(): checks that namespaces can be made. If not, it says so and ends the
 * program with NETWORK_SKIPPED. */
void network_need(void);

/* Makes so many hosts, numbered from 0, all of which reach each other. */
void network_make(struct network *network, unsigned hosts);
void network_unmake(struct network *network);

/* A host's IPv4 address. Static buffer. */
const char *network_address(unsigned host);

/* Moves the calling process into the namespaces that `keeper` keeps. To be called in a child
 * only. */
void network_enter(pid_t keeper);

/* Lets packets from one host to another be lost. */
void network_lose(struct network *network, unsigned from, unsigned to, uint8_t percent);
/* Lets packets be lost on all links, in both directions. */
void network_lose_everywhere(struct network *network, uint8_t percent);
/* network_cut() cuts one direction of a link, network_isolate() all links of a host. */
void network_cut(struct network *network, unsigned from, unsigned to);
void network_isolate(struct network *network, unsigned host);
/* Removes all faults of links. */
void network_heal(struct network *network);

/* Sets the faults of packets from one host to another, or on all links in both directions. A relay
 * then carries the packets (relay.h), and rough.counts counts the faults. */
void network_roughen(struct network *network, unsigned from, unsigned to,
                     const struct relay_link *link);
void network_roughen_everywhere(struct network *network, const struct relay_link *link);

/* Delays every packet by so much; 0: not at all. */
void network_delay(struct network *network, unsigned delay_ms);

/* Puts an empty file system of that size at the state folder of that host. To be called before its
 * agent's first start. */
void network_small_disk(struct network *network, unsigned host, const char *folder,
                        unsigned kilobytes);

#endif
