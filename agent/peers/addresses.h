/*
 * Where an agent listens that is no voter of the configuration.
 *
 * The agent announces it, gossip announces it, and either may be a lie. Belief is bounded by what
 * can be seen: whether somebody answers there that greets as an agent does and, with TLS, shows
 * that agent's certificate.
 *
 *   home    the address that packets go to. It stays as long as its connection is there, whatever
 *           is said meanwhile: another address is a lie then, or two agents have one name
 *   trial   another address that was said while nobody answered at home. If an agent answers there,
 *           packets go there. It becomes the home when home has not answered for
 *           ADDRESSES_MOVE_MS; it is forgotten when home answers again
 *   guest   an agent whose home has never answered: the first address that answers is its home
 *
 * A trial or a guest for which nobody answers is forgotten after ADDRESSES_TRIAL_MS. An address
 * counts for the host that said it. A host has ADDRESSES_GUESTS_MAX trials and guests at a time and
 * ADDRESSES_SAID_MAX entries in all. After a trial of a host that came to nothing, that host gets
 * no other one for the same agent for ADDRESSES_AGAIN_MS. So an agent that lies can have this one
 * dial some addresses for a while; it neither fills the table nor takes another agent's entry.
 */
#ifndef AGENT_ADDRESSES_H
#define AGENT_ADDRESSES_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/message.h"

enum {
    ADDRESSES_GUESTS_MAX = 64,
    ADDRESSES_SAID_MAX = 1000, /* about half of what the transport has */
    ADDRESSES_TRIAL_MS = 10000,
    ADDRESSES_MOVE_MS = 60000,
    ADDRESSES_AGAIN_MS = 60000,
    ADDRESSES_FORGET_MS = 600000, /* an agent that was there, and does not answer for so long */
    ADDRESSES_HOSTS = 256, /* those that are counted apart; hosts of one hash are counted as one */
};

#define ADDRESSES_LINK_NONE UINT32_MAX

struct addresses_operations {
    void *arg;
    /* Dials from now on; ADDRESSES_LINK_NONE: not possible. */
    uint32_t (*dial)(void *arg, const struct message_agent *agent, const char *address);
    void (*forget)(void *arg, uint32_t link);
    bool (*is_up)(void *arg, uint32_t link);
};

/* Of all agents. Zeroed but for operations at first. */
struct addresses {
    struct addresses_operations operations;
    uint16_t guests[ADDRESSES_HOSTS]; /* and trials */
    uint16_t said[ADDRESSES_HOSTS];   /* homes */
};

struct address_claim {
    uint32_t link;
    uint64_t host;    /* the host that announced it: a hash */
    int64_t since_ns; /* when */
    char text[MESSAGE_ADDRESS_MAX];
};

/* Of one agent. */
struct address_entry {
    struct address_claim home; /* link NONE: nothing is known */
    struct address_claim trial;
    bool known;      /* no guest */
    int64_t down_ns; /* of home, since when, if it is */
    uint64_t refused_host;
    int64_t refused_until_ns;
};

enum address_verdict {
    ADDRESS_KEPT = 0, /* nothing new, or it has to wait */
    ADDRESS_DIALLED,
    ADDRESS_CONTRADICTED, /* the connection is there: another address is not taken */
    ADDRESS_FULL,         /* too many of that host, or it cannot be dialled */
};

/* Nothing is known. */
void address_init(struct address_entry *entry);
/* Somebody on that host says that the agent listens there. address: shorter than
 * MESSAGE_ADDRESS_MAX. */
enum address_verdict address_said(struct addresses *addresses, struct address_entry *entry,
                                  const struct message_agent *agent, const char *address,
                                  uint64_t host, int64_t now_ns)
    __attribute__((warn_unused_result));
bool address_has(const struct address_entry *entry, uint32_t link);
/* One of its links came up, or broke. */
void address_link(struct addresses *addresses, struct address_entry *entry, uint32_t link, bool up,
                  int64_t now_ns);
/* Forgets what has had its time; once a second or so. false: now nothing is known any more. */
bool address_look(struct addresses *addresses, struct address_entry *entry, int64_t now_ns)
    __attribute__((warn_unused_result));
/* Where to send to now. */
const struct address_claim *address_current(const struct addresses *addresses,
                                            const struct address_entry *entry);

#endif
