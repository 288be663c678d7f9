/*
 * Where an agent listens that is no voter of the configuration.
 *
 * It says so itself, and gossip says it of it, and either may be a lie. What is believed is bounded
 * by what can be seen: whether somebody answers there who greets as an agent does and, with TLS,
 * shows that agent's certificate.
 *
 *   home    the address that is sent to. It stays as long as its connection is there, whatever is
 *           said meanwhile: who says otherwise lies, or there are two agents of one name
 *   trial   another one that was said while nobody answered at home. If somebody answers there it
 *           is sent to, and becomes the home when home has not answered for PLACES_MOVE_MS; if home
 *           answers again it is forgotten
 *   guest   an agent whose home has never answered: the first that answers is its home
 *
 * A trial, and a guest, that nobody answers for is forgotten after PLACES_TRIAL_MS. Who says an
 * address is known by the host that he says it from. A host has PLACES_GUESTS_MAX trials and guests
 * at a time and PLACES_SAID_MAX places in all; after a trial of his that came to nothing he gets no
 * other one for the same agent for PLACES_AGAIN_MS. So whoever may speak as an agent can have
 * this one dial some addresses for a while; he neither fills the table nor takes from another the
 * place that he has.
 *
 * What is dialled is told by operations; time (BOOTTIME) comes with the calls. One thread.
 */
#ifndef AGENT_PLACES_H
#define AGENT_PLACES_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/message.h"

enum {
    PLACES_GUESTS_MAX = 64,
    PLACES_SAID_MAX = 1000, /* about half of what the transport has */
    PLACES_TRIAL_MS = 10000,
    PLACES_MOVE_MS = 60000,
    PLACES_AGAIN_MS = 60000,
    PLACES_FORGET_MS = 600000, /* an agent that was there, and does not answer for so long */
    PLACES_HOSTS = 256, /* those that are counted apart; hosts of one hash are counted as one */
};

#define PLACES_LINK_NONE UINT32_MAX

struct places_operations {
    void *arg;
    /* Dials from now on; PLACES_LINK_NONE: not possible. */
    uint32_t (*dial)(void *arg, const struct message_agent *agent, const char *address);
    void (*forget)(void *arg, uint32_t link);
    bool (*is_up)(void *arg, uint32_t link);
};

/* Of all agents. Zeroed but for operations at first. */
struct places {
    struct places_operations operations;
    uint16_t guests[PLACES_HOSTS]; /* and trials */
    uint16_t said[PLACES_HOSTS];   /* homes */
};

struct place_address {
    uint32_t link;
    uint64_t host;    /* who said it: a hash */
    int64_t since_ns; /* when */
    char text[MESSAGE_ADDRESS_MAX];
};

/* Of one agent. */
struct place {
    struct place_address home; /* link NONE: nothing is known */
    struct place_address trial;
    bool known;      /* no guest */
    int64_t down_ns; /* of home, since when, if it is */
    uint64_t refused_host;
    int64_t refused_until_ns;
};

enum place_verdict {
    PLACE_KEPT = 0, /* nothing new, or it has to wait */
    PLACE_DIALLED,
    PLACE_CONTRADICTED, /* the connection is there: another address is not taken */
    PLACE_FULL,         /* too many of that host, or it cannot be dialled */
};

/* Nothing is known. */
void place_init(struct place *place);
/* Somebody on that host says that the agent listens there. address: shorter than
 * MESSAGE_ADDRESS_MAX. */
enum place_verdict place_said(struct places *places, struct place *place,
                              const struct message_agent *agent, const char *address, uint64_t host,
                              int64_t now_ns) __attribute__((warn_unused_result));
bool place_has(const struct place *place, uint32_t link);
/* One of its links came up, or broke. */
void place_link(struct places *places, struct place *place, uint32_t link, bool up, int64_t now_ns);
/* Forgets what has had its time; once a second or so. false: now nothing is known any more. */
bool place_look(struct places *places, struct place *place, int64_t now_ns)
    __attribute__((warn_unused_result));
/* Where to send to now. */
const struct place_address *place_current(const struct places *places, const struct place *place);

#endif
