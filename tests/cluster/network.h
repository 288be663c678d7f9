/*
 * The hosts of a cell. Each host is a network namespace on one machine with one clock. A bridge in
 * a namespace of its own joins them. Links can be cut in one direction, lose packets, and be slow.
 *
 * The namespaces have no names. Each belongs to a process that does nothing else and dies with the
 * test, so nothing stays behind, however the test ends. A host also has a mount namespace, for file
 * systems of its own. All this needs root. Another user becomes root in a user namespace, if the
 * kernel allows that.
 *
 * A failure in these functions ends the caller (require.h). Only the test's main process may call
 * them.
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
    pid_t keepers[NETWORK_HOSTS_MAX]; /* the processes whose namespaces are the hosts */
    pid_t relay;             /* the process that carries the packets instead of the bridge; 0: the
                              * bridge carries them */
    struct relay_plan rough; /* the faults of the links that the relay carries */
    /* The percentage of packets that are lost, [from][to]. 100 means that the link is cut. */
    uint8_t loss[NETWORK_HOSTS_MAX][NETWORK_HOSTS_MAX];
};

/* Must be called first in main(). If namespaces cannot be made, it prints the reason and ends the
 * program with NETWORK_SKIPPED. */
void network_need(void);

/* Makes `hosts` hosts, numbered from 0. All of them reach each other. */
void network_make(struct network *network, unsigned hosts);
void network_unmake(struct network *network);

/* Returns a host's IPv4 address, in a static buffer. */
const char *network_address(unsigned host);

/* Moves the calling process, which must be a child of the test, into the namespaces that `keeper`
 * keeps. */
void network_enter(pid_t keeper);

/* Makes the network lose `percent` of the packets from one host to another. */
void network_lose(struct network *network, unsigned from, unsigned to, uint8_t percent);
/* Makes the network lose `percent` of the packets on all links, in both directions. */
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

/* Delays every packet by delay_ms. 0 ends the delay. */
void network_delay(struct network *network, unsigned delay_ms);

/* Mounts an empty file system of that size at the state folder of that host. Must be called before
 * the first start of the host's agent. */
void network_small_disk(struct network *network, unsigned host, const char *folder,
                        unsigned kilobytes);

#endif
