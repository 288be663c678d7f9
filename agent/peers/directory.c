/*
 * The table of the other agents by name, and the addresses at which they are dialled. A voter's
 * address is the one in the record of voters (seek.c). Any other agent announces its own address,
 * which is used within the bounds of addresses.h.
 */
#include <stdio.h>
#include <string.h>

#include "agent.h"
#include "driver/driver.h"
#include "io/clock.h"
#include "observe/log.h"
#include "peers/peers.h"
#include "peers/private.h"
#include "proto/region.h"

static const int64_t second_ns = 1000000000;
/* ---- by name ---- */

static uint16_t *find_bucket(struct peers *peers, const struct message_agent *name)
{
    uint64_t hash = hfi_name_hash(name->text, name->length);
    uint32_t at = (uint32_t)(hash & (PEERS_BUCKETS - 1));
    while (peers->buckets[at] != 0 &&
           memcmp(&peers->peers[peers->buckets[at] - 1].name, name, sizeof(*name)) != 0) {
        at = (at + 1) & (PEERS_BUCKETS - 1); /* the loop ends, because the table is at most half
                                              * full */
    }
    return &peers->buckets[at];
}

struct peer_agent *peers_find(struct peers *peers, const struct message_agent *name)
{
    uint16_t bucket = *find_bucket(peers, name);
    return bucket == 0 ? NULL : &peers->peers[bucket - 1];
}

/* Returns the index of a free entry; TRANSPORT_PEERS_MAX if there is none. */
static uint32_t free_index(const struct peers *peers)
{
    for (uint32_t i = 0; peers->free_count > 0 && i < peers->count; i++) {
        if (peers->peers[i].name.length == 0) {
            return i;
        }
    }
    return peers->count;
}

/* Returns the agent's entry, which may be new; NULL if the table is full. */
static struct peer_agent *make_peer(struct peers *peers, const struct message_agent *name)
{
    uint16_t *bucket = find_bucket(peers, name);
    if (*bucket == 0) {
        uint32_t index = free_index(peers);
        if (index == TRANSPORT_PEERS_MAX) {
            return NULL;
        }
        if (index == peers->count) {
            peers->count++;
        } else {
            peers->free_count--;
        }
        struct peer_agent *peer = &peers->peers[index];
        memset(peer, 0, sizeof(*peer));
        peer->name = *name;
        peer->link = TRANSPORT_PEER_NONE;
        peer->second.link = TRANSPORT_PEER_NONE;
        address_init(&peer->listens);
        *bucket = (uint16_t)(index + 1);
    }
    return &peers->peers[*bucket - 1];
}

/* Frees the entry, so that another agent can use it. */
static void remove_peer(struct peers *peers, struct peer_agent *peer)
{
    peers_drop_buffer(peers, peer);
    peers_other_forget(peers, peer);
    peer->name.length = 0;
    peers->free_count++;
    memset(peers->buckets, 0, sizeof(peers->buckets));
    for (uint32_t i = 0; i < peers->count; i++) {
        if (peers->peers[i].name.length > 0) {
            *find_bucket(peers, &peers->peers[i].name) = (uint16_t)(i + 1);
        }
    }
}

uint32_t peers_find_voter(const struct agent *agent, const struct message_agent *name)
{
    const struct host_config *config = &agent->host_config;
    uint32_t voter = 0;
    while (voter < config->voter_count &&
           memcmp(&config->voters[voter], name, sizeof(*name)) != 0) {
        voter++;
    }
    return voter;
}

/* ---- what is dialled ---- */

uint32_t peers_dial_at(struct peers *peers, const struct message_agent *name, const char *address)
{
    char text[MESSAGE_AGENT_MAX + 1];
    snprintf(text, sizeof(text), "%.*s", (int)name->length, name->text);
    return transport_peer(peers->transport, address, text);
}

static uint32_t dial(void *arg, const struct message_agent *name, const char *address)
{
    return peers_dial_at(arg, name, address);
}

static void forget(void *arg, uint32_t link)
{
    transport_forget(((struct peers *)arg)->transport, link);
}

static bool is_up(void *arg, uint32_t link)
{
    return transport_is_up(((struct peers *)arg)->transport, link);
}

void peers_directory_init(struct peers *peers)
{
    peers->addresses.operations = (struct addresses_operations){
        .arg = peers, .dial = dial, .forget = forget, .is_up = is_up};
}

bool peers_dial(struct peers *peers, const struct message_agent *name, const char *address)
{
    struct peer_agent *peer = make_peer(peers, name);
    if (peer != NULL) {
        peers_voter_home(peers, peer, address, TRANSPORT_PEER_NONE);
        peer->told = true;
    }
    return peer != NULL && peer->link != TRANSPORT_PEER_NONE;
}

void peers_log_moved(struct peers *peers, const struct peer_agent *peer)
{
    struct log_line line;
    log_begin_limited(&line, LOG_LEVEL_INFO, "peer_moved", &peers->link_limit, clock_boottime_ns());
    log_bytes(&line, "agent", peer->name.text, peer->name.length);
    log_text(&line, "address", peer->address);
    log_end(&line);
}

/* Sends packets for the agent to its current address from now on. */
static void follow(struct peers *peers, struct peer_agent *peer)
{
    const struct address_claim *current = address_current(&peers->addresses, &peer->listens);
    bool moved = peer->address[0] != '\0' && strcmp(peer->address, current->text) != 0;
    peer->link = current->link;
    snprintf(peer->address, sizeof(peer->address), "%s", current->text);
    if (moved) {
        peers_log_moved(peers, peer);
    }
}

static void log_address(struct peers *peers, const char *event, const struct message_agent *name,
                        const char *address, const char *text)
{
    struct log_line line;
    log_begin_limited(&line, LOG_LEVEL_WARN, event, &peers->trouble_limit, clock_boottime_ns());
    log_bytes(&line, "agent", name->text, name->length);
    log_text(&line, "address", address);
    log_text(&line, "text", text);
    log_end(&line);
}

/* Returns why an announced address is refused; NULL if it is accepted. */
static const char *address_error(const struct agent *agent, const char *address)
{
    const struct host_config *config = &agent->host_config;
    const char *error = transport_address_error(address);
    if (error == NULL && !transport_address_is_number(address)) {
        /* Names are not looked up here, because a slow name server would delay the lookups of the
         * voters too. */
        error = "expected an IP address: names are looked up only for voters";
    }
    for (uint32_t i = 0; error == NULL && i < config->voter_count; i++) {
        bool same = config->addresses[i] != NULL && config_is_same(config->addresses[i], address);
        error = same ? "the address is that of a voter" : NULL;
    }
    return error;
}

static void contradicted(struct peers *peers, struct peer_agent *peer, const char *address)
{
    char text[MESSAGE_ADDRESS_MAX + 128];
    if (log_limit_add(&peer->kept_limit, &log_once_a_minute, clock_boottime_ns()) > 0) {
        snprintf(
            text, sizeof(text),
            "it is connected at %s and stays there: two agents have this name, or a sender uses a "
            "false name",
            peer->address);
        log_address(peers, "peer_address_refused", &peer->name, address, text);
    }
}

/* Logs an announced address that is refused. It logs one such address a minute, because such an
 * agent may announce any number of addresses. */
static void not_added(struct peers *peers, const struct message_agent *name, const char *address,
                      const char *why)
{
    if (log_limit_add(&peers->not_added_limit, &log_once_a_minute, clock_boottime_ns()) > 0) {
        log_address(peers, "peer_not_added", name, address, why);
    }
}

void peers_address(void *arg, const struct message_agent *name, const char *address)
{
    struct agent *agent = arg;
    struct peers *peers = agent->peers;
    if (peers == NULL || memcmp(name, &agent->host_config.agent, sizeof(*name)) == 0 ||
        peers_find_voter(agent, name) < agent->host_config.voter_count) {
        return;
    }
    struct peer_agent *peer = peers_find(peers, name);
    if (peer != NULL && strcmp(peer->address, address) == 0) {
        return;
    }
    const char *error = address_error(agent, address);
    peer = peer == NULL && error == NULL ? make_peer(peers, name) : peer;
    if (error != NULL || peer == NULL) {
        not_added(peers, name, address, error != NULL ? error : "too many agents");
        return;
    }
    switch (address_announced(&peers->addresses, &peer->listens, name, address, peers->host,
                              clock_boottime_ns())) {
    case ADDRESS_KEPT:
        break;
    case ADDRESS_DIALLED:
        follow(peers, peer);
        break;
    case ADDRESS_CONTRADICTED:
        contradicted(peers, peer, address);
        break;
    case ADDRESS_FULL:
        not_added(peers, name, address, "too many agents of one host that nobody can connect to");
        if (peer->listens.home.link == ADDRESSES_LINK_NONE) {
            remove_peer(peers, peer);
        }
        break;
    }
}

void peers_directory_look(struct peers *peers)
{
    int64_t now_ns = clock_boottime_ns();
    if (now_ns - peers->looked_ns < second_ns) {
        return;
    }
    peers->looked_ns = now_ns;
    for (uint32_t i = 0; i < peers->count; i++) {
        struct peer_agent *peer = &peers->peers[i];
        if (peer->voter || peer->name.length == 0) {
            continue;
        }
        peers_other_look(peers, peer, now_ns);
        if (address_look(&peers->addresses, &peer->listens, now_ns)) {
            follow(peers, peer);
            continue;
        }
        const struct message_agent name = peer->name;
        remove_peer(peers, peer);
        driver_unreachable(peers->agent->driver, &name);
    }
}

/* ---- another record of voters ---- */

/* Makes an agent a voter that is dialled at that address. Keeps a link that leads there already. */
static void make_voter(struct peers *peers, const struct message_agent *name, const char *address)
{
    struct peer_agent *peer = make_peer(peers, name);
    if (peer == NULL) {
        not_added(peers, name, address, "too many agents");
        return;
    }
    uint32_t link = peer->voter ? TRANSPORT_PEER_NONE
                                : address_leave(&peers->addresses, &peer->listens, address);
    peer->told = peer->told && peer->voter;
    peers_voter_home(peers, peer, address, link);
}

/* Makes a removed voter an agent like any other. Its link is kept, because this agent still has to
 * notify it that it is no voter any more. */
static void make_other(struct peers *peers, struct peer_agent *peer)
{
    peers_voter_leave(peers, peer);
    peer->told = true;
    peer->silent = false;
    peer->starts_over = false;
    peer->unreachable = false;
    address_take(&peers->addresses, &peer->listens, peer->link, peer->address, peer->up,
                 clock_boottime_ns());
}

void peers_record(struct agent *agent)
{
    if (agent->peers != NULL) {
        agent->peers->record_new = true;
    }
}

void peers_follow_record(struct agent *agent)
{
    struct peers *peers = agent->peers;
    const struct host_config *config = &agent->host_config;
    if (peers == NULL || !peers->record_new || !peers->started) {
        return;
    }
    peers->record_new = false;
    for (uint32_t i = 0; i < peers->count; i++) {
        struct peer_agent *peer = &peers->peers[i];
        if (peer->voter && peers_find_voter(agent, &peer->name) == config->voter_count) {
            make_other(peers, peer);
        }
    }
    for (uint32_t i = 0; i < config->voter_count; i++) {
        if (i != config->self && config->addresses[i] != NULL) {
            make_voter(peers, &config->voters[i], config->addresses[i]);
        }
    }
    for (uint32_t i = 0; i < peers->count; i++) {
        struct peer_agent *peer = &peers->peers[i];
        if (peer->name.length > 0 && !peer->told) {
            peer->told = true;
            peer->up = transport_is_up(peers->transport, peer->link);
            driver_link(agent->driver, &peer->name, peer->up);
        }
    }
}

/* ---- links ---- */

static void log_link(struct peers *peers, const struct peer_agent *peer, bool up)
{
    struct log_line line;
    log_begin_limited(&line, LOG_LEVEL_INFO, up ? "peer_connected" : "peer_disconnected",
                      &peers->link_limit, clock_boottime_ns());
    log_bytes(&line, "agent", peer->name.text, peer->name.length);
    log_text(&line, "address", peer->address);
    if (up) {
        log_unsigned(&line, "protocol", peers_version_of(peers, peer));
    }
    log_end(&line);
}

void peers_see_link(struct peers *peers, struct peer_agent *peer)
{
    bool up = transport_is_up(peers->transport, peer->link);
    if (up != peer->up) {
        peer->up = up;
        peer->up_ns = clock_boottime_ns();
        log_link(peers, peer, up);
        driver_link(peers->agent->driver, &peer->name, up);
    }
}

void peers_link(void *arg, uint32_t link, bool up)
{
    struct agent *agent = arg;
    struct peers *peers = agent->peers;
    struct peer_agent *peer = NULL;
    for (uint32_t i = 0; i < peers->count && peer == NULL; i++) {
        struct peer_agent *one = &peers->peers[i];
        bool its = one->voter ? one->home.link == link || one->second.link == link
                              : one->name.length > 0 && address_has(&one->listens, link);
        peer = its ? one : NULL;
    }
    if (peer == NULL) {
        return;
    }
    if (peer->voter) {
        peers_voter_follow(peers, peer);
    } else {
        address_link(&peers->addresses, &peer->listens, link, up, clock_boottime_ns());
        follow(peers, peer);
    }
    peers_see_link(peers, peer);
}
