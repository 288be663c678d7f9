/*
 * Hosts of a cell, as far as a network is concerned: a network namespace each, joined by a bridge
 * in a namespace of its own, on one machine with one clock. Links can be cut in one direction, lose
 * packets, and be slow.
 *
 * The namespaces have no names: each is that of a process which does nothing else and dies with the
 * test, so nothing stays behind, whatever ends the test. A host has a mount namespace too, for file
 * systems of its own. It needs root; a user is root in a user namespace, where the kernel lets him.
 *
 * A failure here ends the caller (require.h). From the test's main process only.
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
    pid_t relay;                      /* carries the packets instead of the bridge; 0: the bridge */
    struct relay_plan rough;          /* the relay's faults */
    /* How many packets of a hundred are lost on the way [from][to]; 100: it is cut. */
    uint8_t loss[NETWORK_HOSTS_MAX][NETWORK_HOSTS_MAX];
};

/* The first thing in main(): makes sure that namespaces can be made. Where they cannot it says so
 * and ends the program with NETWORK_SKIPPED. */
void network_need(void);

/* Makes so many hosts, numbered from 0, that all reach each other. */
void network_make(struct network *network, unsigned hosts);
void network_unmake(struct network *network);

/* A host's IPv4 address. Static buffer. */
const char *network_address(unsigned host);

/* The calling process moves into the namespaces that `keeper` keeps. In a child only. */
void network_enter(pid_t keeper);

/* Packets from one host to another get lost. */
void network_lose(struct network *network, unsigned from, unsigned to, uint8_t percent);
/* On all links, both ways. */
void network_lose_everywhere(struct network *network, uint8_t percent);
/* Nothing passes any more. */
void network_cut(struct network *network, unsigned from, unsigned to);
void network_isolate(struct network *network, unsigned host);
/* All links are whole again, and fast. */
void network_heal(struct network *network);

/* The fate of packets from one host to another, or on all links both ways (from a relay that
 * carries them: relay.h). In rough.counts is how often it did. */
void network_roughen(struct network *network, unsigned from, unsigned to,
                     const struct relay_link *link);
void network_roughen_everywhere(struct network *network, const struct relay_link *link);

/* Every packet takes so long; 0: as fast as it goes. */
void network_delay(struct network *network, unsigned delay_ms);

/* The state folder of that host becomes a file system of its own of that size, empty. Before its
 * agent's first start. */
void network_small_disk(struct network *network, unsigned host, const char *folder,
                        unsigned kilobytes);

#endif
