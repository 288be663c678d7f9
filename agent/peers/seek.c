/*
 * Where an agent is dialled besides its present address. A voter's home is its address in the
 * record of voters. While nothing answers there, the voter may also be dialled at a second address.
 * That lasts until SEEK_MS after the last of these events:
 *
 * - An operator moves the voter there, and the change is being decided (ACTION_SEEK). The voter's
 *   own vote is needed for that, and it runs at its new address already.
 * - [voters] of this host's configuration names another address than the record. So the voters of a
 *   cell whose hosts all got new addresses find each other again.
 *
 * In both cases an administrator of the cell gave the address. An address that the voter itself
 * announces is not used, because a copy of its machine would announce one, too. The agent at the
 * second address must show the voter's certificate (with TLS), and its store must be the one that
 * the cell knows.
 *
 * As soon as the home answers, packets go there again. The second address is forgotten when its
 * time is over.
 *
 * An operator may mistype an address. A change finds out by certain messages whether its voter is
 * there: by LEARN if the voter is added, and by CHANGE_PREPARE if it is moved. These messages go
 * only to the address that the operator gave. If a newcomer announces another address, it is
 * dialled there, too.
 */
#include <stdio.h>
#include <string.h>

#include "agent.h"
#include "io/clock.h"
#include "peers/private.h"

enum { SEEK_MS = 10000, PATIENCE_MS = 2000 };

static const int64_t ms_ns = 1000000;

static bool is_up(const struct peers *peers, const struct peer_address *address)
{
    return address->link != TRANSPORT_PEER_NONE && transport_is_up(peers->transport, address->link);
}

static void forget(struct peers *peers, struct peer_address *address)
{
    if (address->link != TRANSPORT_PEER_NONE) {
        transport_forget(peers->transport, address->link);
        address->link = TRANSPORT_PEER_NONE;
    }
}

void peers_voter_follow(struct peers *peers, struct peer_agent *peer)
{
    bool second = !is_up(peers, &peer->home) && is_up(peers, &peer->second);
    const struct peer_address *at = second ? &peer->second : &peer->home;
    bool moved = peer->address[0] != '\0' && strcmp(peer->address, at->text) != 0;
    peer->link = at->link;
    snprintf(peer->address, sizeof(peer->address), "%s", at->text);
    if (moved) {
        peers_log_moved(peers, peer);
    }
}

void peers_voter_home(struct peers *peers, struct peer_agent *peer, const char *address,
                      uint32_t link)
{
    if (peer->voter && strcmp(peer->home.text, address) == 0) {
        return;
    }
    if (!peer->voter && link != TRANSPORT_PEER_NONE) {
        peer->home.link = link;
        forget(peers, &peer->second);
    } else if (!peer->voter && strcmp(peer->second.text, address) != 0) {
        peer->home.link = TRANSPORT_PEER_NONE;
        forget(peers, &peer->second);
    } else if (!peer->voter) {
        peer->home.link = peer->second.link; /* the record has the address at which the agent was
                                              * sought */
        peer->second.link = TRANSPORT_PEER_NONE;
    } else if (peer->second.link != TRANSPORT_PEER_NONE &&
               strcmp(peer->second.text, address) == 0) {
        forget(peers, &peer->home);
        peer->home.link = peer->second.link;
        peer->second.link = TRANSPORT_PEER_NONE;
    } else {
        forget(peers, &peer->home);
    }
    if (peer->home.link == TRANSPORT_PEER_NONE) {
        peer->home.link = peers_dial_at(peers, &peer->name, address);
        peer->told = false;
    }
    peer->voter = true;
    peer->home_ns = clock_boottime_ns();
    peer->up_ns = peer->home_ns; /* the voter must answer renewals from now on */
    snprintf(peer->home.text, sizeof(peer->home.text), "%s", address);
    peers_voter_follow(peers, peer);
}

void peers_voter_leave(struct peers *peers, struct peer_agent *peer)
{
    forget(peers, &peer->second);
    peers_voter_follow(peers, peer);
    peer->voter = false;
}

/* Dials the agent at a second address, too. */
static void seek(struct peers *peers, struct peer_agent *peer, const char *address)
{
    int64_t until_ns = clock_boottime_ns() + SEEK_MS * ms_ns;
    bool same = peer->second.link != TRANSPORT_PEER_NONE && strcmp(peer->second.text, address) == 0;
    const char *first = peer->voter ? peer->home.text : peer->address;
    if (strcmp(first, address) == 0 || transport_address_error(address) != NULL) {
        return;
    }
    peer->second_until_ns = until_ns;
    if (!same) {
        forget(peers, &peer->second);
        snprintf(peer->second.text, sizeof(peer->second.text), "%s", address);
        peer->second.link = peers_dial_at(peers, &peer->name, address);
        if (peer->voter) {
            peers_voter_follow(peers, peer);
        }
    }
}

void peers_seek(void *arg, const struct message_agent *name, const char *address)
{
    struct peers *peers = ((struct agent *)arg)->peers;
    struct peer_agent *peer = peers != NULL ? peers_find(peers, name) : NULL;
    if (peer != NULL && address[0] != '\0') {
        peers->sought = *name;
        snprintf(peers->sought_at, sizeof(peers->sought_at), "%s", address);
        peers->sought_until_ns = clock_boottime_ns() + SEEK_MS * ms_ns;
        seek(peers, peer, address);
    }
}

bool peers_goes_there(const struct peers *peers, const struct peer_agent *peer,
                      enum message_kind kind, uint32_t *link)
{
    if ((kind != MESSAGE_LEARN && kind != MESSAGE_CHANGE_PREPARE) ||
        memcmp(&peers->sought, &peer->name, sizeof(peer->name)) != 0 ||
        clock_boottime_ns() > peers->sought_until_ns) {
        return false;
    }
    const char *first = peer->voter ? peer->home.text : peer->address;
    *link = TRANSPORT_PEER_NONE;
    if (strcmp(first, peers->sought_at) == 0) {
        *link = peer->voter ? peer->home.link : peer->link;
    } else if (strcmp(peer->second.text, peers->sought_at) == 0) {
        *link = peer->second.link;
    }
    return true;
}

void peers_other_forget(struct peers *peers, struct peer_agent *peer)
{
    forget(peers, &peer->second);
}

void peers_other_look(struct peers *peers, struct peer_agent *peer, int64_t now_ns)
{
    if (now_ns > peer->second_until_ns) {
        forget(peers, &peer->second);
    }
}

/* Returns the voter's address in the configuration; NULL if there is none. */
static const char *address_in_file(const struct config *config, const struct message_agent *name)
{
    for (uint32_t i = 0; i < config->voter_count; i++) {
        const struct config_voter *voter = &config->voters[i];
        if (strlen(voter->name) == name->length &&
            memcmp(voter->name, name->text, name->length) == 0) {
            return voter->address[0] != '\0' ? voter->address : NULL;
        }
    }
    return NULL;
}

void peers_voter_look(struct peers *peers, struct peer_agent *peer, int64_t now_ns)
{
    const char *written = address_in_file(&peers->agent->config, &peer->name);
    bool sought = peer->second.link != TRANSPORT_PEER_NONE;
    if (!peer->voter) {
        return; /* peers_follow_record() has not made the agent a voter yet */
    }
    if (is_up(peers, &peer->home)) {
        peer->home_ns = now_ns;
    } else if (written != NULL && now_ns - peer->home_ns > PATIENCE_MS * ms_ns &&
               (!sought || strcmp(peer->second.text, written) == 0)) {
        seek(peers, peer, written);
        sought = peer->second.link != TRANSPORT_PEER_NONE;
    }
    if (sought && now_ns > peer->second_until_ns) {
        forget(peers, &peer->second);
        peers_voter_follow(peers, peer);
    }
    peers_see_link(peers, peer);
}
