/*
 * The addresses of agents that are not voters.
 *
 * An agent announces its own address, and gossip announces the addresses of other agents. Either
 * may be a lie. So this agent sends packets to an address only after it has checked that an agent
 * answers there: the program at the address sends the greeting of an agent and, with TLS, shows the
 * certificate of the agent that was announced.
 *
 *   home    the address that packets go to. It stays while its connection is up. If another address
 *           is announced meanwhile, that is a lie, or two agents have one name
 *   trial   another address, which was announced while the home did not answer. If an agent answers
 *           at the trial, packets go to the trial. The trial becomes the home when the home has not
 *           answered for ADDRESSES_MOVE_MS. The trial is forgotten when the home answers again
 *   guest   an agent whose home has never answered: the first address that answers is its home
 *
 * A trial or a guest that has not answered for ADDRESSES_TRIAL_MS is forgotten. An address counts
 * against the quota of the host that announced it. A host may have ADDRESSES_GUESTS_MAX trials and
 * guests at a time, and ADDRESSES_ANNOUNCED_MAX entries in all. After a host's trial has failed,
 * the same host gets no other trial for the same agent for ADDRESSES_AGAIN_MS. So a lying agent can
 * make this agent dial some addresses for a while, but it can neither fill the table nor take over
 * another agent's entry.
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
    ADDRESSES_FORGET_MS = 600000, /* a known agent is forgotten after this time without an answer */
    ADDRESSES_HOSTS = 256,        /* the quotas are counted per hash of the host, modulo this
                                   * number */
};

#define ADDRESSES_LINK_NONE UINT32_MAX

struct addresses_operations {
    void *arg;
    /* Begins to dial an address, and keeps dialling it. Returns the link, or ADDRESSES_LINK_NONE if
     * the address cannot be dialled. */
    uint32_t (*dial)(void *arg, const struct message_agent *agent, const char *address);
    void (*forget)(void *arg, uint32_t link);
    bool (*is_up)(void *arg, uint32_t link);
};

/* The state that all entries share. The caller sets operations, and zeroes everything else. */
struct addresses {
    struct addresses_operations operations;
    uint16_t guests[ADDRESSES_HOSTS];    /* how many guests and trials, by host */
    uint16_t announced[ADDRESSES_HOSTS]; /* how many homes, by host */
};

struct address_claim {
    uint32_t link;
    uint64_t host;    /* a hash of the host that announced this address */
    int64_t since_ns; /* when this address was first dialled */
    char text[MESSAGE_ADDRESS_MAX];
};

/* The state of one agent. */
struct address_entry {
    struct address_claim home; /* if home.link is ADDRESSES_LINK_NONE, no home is known */
    struct address_claim trial;
    bool known;      /* the home has answered once, so this agent is no guest */
    int64_t down_ns; /* since when the home has not answered; 0: it answers */
    uint64_t refused_host;
    int64_t refused_until_ns;
};

enum address_verdict {
    ADDRESS_KEPT = 0, /* the address is not new, or it has to wait */
    ADDRESS_DIALLED,
    /* the agent is connected at another address, so this address is refused */
    ADDRESS_CONTRADICTED,
    ADDRESS_FULL, /* the host's quota is used up, or the address cannot be dialled */
};

/* Sets up an entry without any address. */
void address_init(struct address_entry *entry);
/* Decides whether to dial an address, and dials it. A packet from `host` has announced that `agent`
 * listens at `address` (shorter than MESSAGE_ADDRESS_MAX). */
enum address_verdict address_announced(struct addresses *addresses, struct address_entry *entry,
                                       const struct message_agent *agent, const char *address,
                                       uint64_t host, int64_t now_ns)
    __attribute__((warn_unused_result));
bool address_has(const struct address_entry *entry, uint32_t link);
/* Notes that one of the entry's links has come up or has broken. If an agent answers at the trial
 * before it has ever answered at its home, the trial becomes the home. */
void address_link(struct addresses *addresses, struct address_entry *entry, uint32_t link, bool up,
                  int64_t now_ns);
/* Forgets a home or a trial whose time is over. Called about once a second. Returns false if the
 * entry has no address left. */
bool address_look(struct addresses *addresses, struct address_entry *entry, int64_t now_ns)
    __attribute__((warn_unused_result));
/* For an agent that was a voter until now: makes the link that is dialled already the entry's home.
 * The entry must have no address. */
void address_take(struct addresses *addresses, struct address_entry *entry, uint32_t link,
                  const char *address, bool up, int64_t now_ns);
/* For an agent that becomes a voter, so that the caller dials it from now on: drops the entry's
 * addresses. If the entry has a link to `address`, returns that link, which the caller then
 * owns. */
uint32_t address_leave(struct addresses *addresses, struct address_entry *entry,
                       const char *address);
/* Returns the address to which packets go now. */
const struct address_claim *address_current(const struct addresses *addresses,
                                            const struct address_entry *entry);

#endif
