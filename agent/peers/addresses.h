/*
 * The addresses of agents that are no voters of the configuration.
 *
 * An agent announces its own address, and gossip announces addresses of others. Either may be a
 * lie. So this agent uses an address only after it has checked it: a program there answers with an
 * agent's greeting and, with TLS, shows that agent's certificate.
 *
 *   home    the address that packets go to. It stays as long as its connection is up. Another
 *           address that is announced meanwhile is a lie, or two agents have one name
 *   trial   another address that was announced while the home did not answer. If an agent answers
 *           at the trial, packets go there. The trial becomes the home when the home has not
 *           answered for ADDRESSES_MOVE_MS. It is forgotten when the home answers again
 *   guest   an agent whose home has never answered: the first address that answers is its home
 *
 * A trial or a guest for which nobody answers is forgotten after ADDRESSES_TRIAL_MS. An address
 * counts against the quota of the host that announced it. A host has ADDRESSES_GUESTS_MAX trials
 * and guests at a time and ADDRESSES_ANNOUNCED_MAX entries in all. After a trial that a host
 * announced has failed, that host gets no other trial for the same agent for ADDRESSES_AGAIN_MS. So
 * a lying agent can make this one dial some addresses for a while, but it can neither fill the
 * table nor take over another agent's entry.
 */
#ifndef AGENT_ADDRESSES_H
#define AGENT_ADDRESSES_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/message.h"

enum {
    ADDRESSES_GUESTS_MAX = 64,
    ADDRESSES_ANNOUNCED_MAX = 1000, /* about half of TRANSPORT_PEERS_MAX */
    ADDRESSES_TRIAL_MS = 10000,
    ADDRESSES_MOVE_MS = 60000,
    ADDRESSES_AGAIN_MS = 60000,
    ADDRESSES_FORGET_MS = 600000, /* a known agent that has not answered for so long is forgotten */
    ADDRESSES_HOSTS = 256,        /* the quotas are kept by a hash of the host, modulo this */
};

#define ADDRESSES_LINK_NONE UINT32_MAX

struct addresses_operations {
    void *arg;
    /* Dials an address from now on. Returns the link, or ADDRESSES_LINK_NONE if that is not
     * possible. */
    uint32_t (*dial)(void *arg, const struct message_agent *agent, const char *address);
    void (*forget)(void *arg, uint32_t link);
    bool (*is_up)(void *arg, uint32_t link);
};

/* The state of all agents together. At first only operations is set; the rest is zero. */
struct addresses {
    struct addresses_operations operations;
    uint16_t guests[ADDRESSES_HOSTS];    /* guests and trials, by host */
    uint16_t announced[ADDRESSES_HOSTS]; /* homes, by host */
};

struct address_claim {
    uint32_t link;
    uint64_t host;    /* a hash of the host that announced it */
    int64_t since_ns; /* when it was dialled */
    char text[MESSAGE_ADDRESS_MAX];
};

/* The state of one agent. */
struct address_entry {
    struct address_claim home; /* if its link is NONE, no home is known */
    struct address_claim trial;
    bool known;      /* its home has answered once: it is no guest */
    int64_t down_ns; /* since when the home has not answered; 0: it answers */
    uint64_t refused_host;
    int64_t refused_until_ns;
};

enum address_verdict {
    ADDRESS_KEPT = 0, /* the address is not new, or has to wait */
    ADDRESS_DIALLED,
    ADDRESS_CONTRADICTED, /* the connection is up, so another address is refused */
    ADDRESS_FULL,         /* the host's quota is used up, or the address cannot be dialled */
};

/* Makes an entry without any address. */
void address_init(struct address_entry *entry);
/* A packet from that host announces that the agent listens at address (shorter than
 * MESSAGE_ADDRESS_MAX). */
enum address_verdict address_announced(struct addresses *addresses, struct address_entry *entry,
                                       const struct message_agent *agent, const char *address,
                                       uint64_t host, int64_t now_ns)
    __attribute__((warn_unused_result));
bool address_has(const struct address_entry *entry, uint32_t link);
/* One of the entry's links came up or broke. */
void address_link(struct addresses *addresses, struct address_entry *entry, uint32_t link, bool up,
                  int64_t now_ns);
/* Forgets a home or a trial whose time is over. To be called about once a second. Returns false if
 * the entry has no address any more. */
bool address_look(struct addresses *addresses, struct address_entry *entry, int64_t now_ns)
    __attribute__((warn_unused_result));
/* The address to which packets go now. */
const struct address_claim *address_current(const struct addresses *addresses,
                                            const struct address_entry *entry);

#endif
