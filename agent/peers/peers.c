/* The other agents: see peers.h. */
#include "peers/peers.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent.h"
#include "driver/driver.h"
#include "io/clock.h"
#include "observe/log.h"
#include "peers/private.h"
#include "proto/check.h"
#include "proto/region.h"
#include "turn.h"

enum {
    BUFFER_SIZE = 64 * 1024,
    CLOSE_SECONDS = 1,
    OPEN_SECONDS = 30,
    PPM_OF_PERCENT = 10000,
};

static const int64_t minute_ns = 60000000000;
static const int64_t kept_pause_ns = 5000000000; /* after this pause the agent tries refused files
                                                  * again */

/* ---- what goes out ---- */

static unsigned char *take_buffer(struct peers *peers)
{
    return peers->kept_count > 0 ? peers->kept[--peers->kept_count] : malloc(BUFFER_SIZE);
}

static void leave_buffer(struct peers *peers, unsigned char *buffer)
{
    if (peers->kept_count < PEERS_BUFFERS_KEPT) {
        peers->kept[peers->kept_count++] = buffer;
    } else {
        free(buffer);
    }
}

/* Returns the version of the wire protocol that the peer reads; the oldest version while its link
 * is down. */
uint32_t peers_version_of(const struct peers *peers, const struct peer_agent *peer)
{
    return wire_greeted_version(transport_version(peers->transport, peer->link));
}

static void begin_packet(struct peers *peers, struct peer_agent *peer)
{
    const struct agent *agent = peers->agent;
    struct wire_header header = {.cell = agent->host_config.cell,
                                 .from = agent->host_config.agent,
                                 .membership = peers->membership,
                                 .store_id = {agent->meta.store_id[0], agent->meta.store_id[1]},
                                 .commit = peers->commit,
                                 .number = peers->number,
                                 .digest = peers->digest};
    peer->commit = peers->commit;
    peer->membership = peers->membership;
    peer->number = peers->number;
    peer->digest = peers->digest;
    wire_begin(&peer->writer, peer->buffer, BUFFER_SIZE, &header, peers_version_of(peers, peer));
}

static void send_packet(struct peers *peers, struct peer_agent *peer)
{
    size_t size = wire_end(&peer->writer);
    if (peer->writer.version > peers_version_of(peers, peer)) {
        peer->packets_dropped++;
        return; /* the link is new, and the agent at its other end may read older versions only */
    }
    /* The packet is lost if the peer is not connected or its queue is full. The cores send every
     * message that matters again. */
    bool sent = transport_send(peers->transport, peer->link, peer->buffer, size);
    peer->packets_sent += sent;
    peer->packets_dropped += !sent;
}

void peers_drop_buffer(struct peers *peers, struct peer_agent *peer)
{
    uint16_t index = (uint16_t)(peer - peers->peers);
    for (uint32_t i = 0; peer->buffer != NULL && i < peers->dirty_count; i++) {
        if (peers->dirty[i] == index) {
            peers->dirty[i] = peers->dirty[--peers->dirty_count];
            leave_buffer(peers, peer->buffer);
            peer->buffer = NULL;
        }
    }
}

/* Returns the peer `to`, with an open packet whose header has the newest commit. Returns NULL if
 * the agent cannot be reached. */
static struct peer_agent *open_packet(struct peers *peers, const struct message_agent *to)
{
    struct peer_agent *peer = peers_find(peers, to);
    if (peer == NULL || peer->link == TRANSPORT_PEER_NONE) {
        return NULL;
    }
    if (peer->buffer == NULL) {
        peer->buffer = take_buffer(peers);
        if (peer->buffer == NULL) {
            return NULL; /* no memory: the caller drops the message */
        }
        peers->dirty[peers->dirty_count++] = (uint16_t)(peer - peers->peers);
        begin_packet(peers, peer);
    } else if (peer->commit < peers->commit || peer->membership != peers->membership ||
               peer->number != peers->number || peer->digest != peers->digest) {
        /* The packet's header has the commit and the records of stores and voters of the packet's
         * first message. A message that carries a promise must not travel under older values, so a
         * new packet begins. */
        send_packet(peers, peer);
        begin_packet(peers, peer);
    }
    return peer;
}

/* Sends the message alone, over that link, if it is up. */
static void send_alone(struct peers *peers, struct peer_agent *peer, uint32_t link,
                       const struct message *message)
{
    struct peer_agent there = *peer;
    there.link = link;
    there.buffer = link != TRANSPORT_PEER_NONE && transport_is_up(peers->transport, link)
                       ? take_buffer(peers)
                       : NULL;
    if (there.buffer != NULL) {
        begin_packet(peers, &there);
        if (wire_add(&there.writer, message)) {
            send_packet(peers, &there);
        }
        leave_buffer(peers, there.buffer);
    }
    peer->packets_sent = there.packets_sent;
    peer->packets_dropped = there.packets_dropped;
}

void peers_send(void *arg, const struct message_agent *to, const struct message *message)
{
    struct peers *peers = ((struct agent *)arg)->peers;
    if (peers == NULL) {
        return; /* this agent does not listen, so it has no peers */
    }
    peers->commit = message->commit > peers->commit ? message->commit : peers->commit;
    peers->membership = message->membership;
    peers->number = message->number;
    peers->digest = message->digest;
    peers->sent[message->kind]++;
    struct peer_agent *peer = peers_find(peers, to);
    uint32_t link = TRANSPORT_PEER_NONE;
    if (peer != NULL && peers_goes_there(peers, peer, message->kind, &link)) {
        send_alone(peers, peer, link, message);
        return;
    }
    peer = open_packet(peers, to);
    if (peer == NULL || wire_add(&peer->writer, message)) {
        return;
    }
    send_packet(peers, peer);
    begin_packet(peers, peer);
    HF_CHECK(wire_add(&peer->writer, message));
}

void peers_send_gossip(void *arg, const struct message_agent *to, const void *bytes, size_t size)
{
    struct peers *peers = ((struct agent *)arg)->peers;
    struct peer_agent *peer = peers == NULL ? NULL : open_packet(peers, to);
    if (peer == NULL) {
        return;
    }
    peers->sent[0]++;
    if (wire_add_gossip(&peer->writer, bytes, size)) {
        return;
    }
    send_packet(peers, peer);
    begin_packet(peers, peer);
    HF_CHECK(wire_add_gossip(&peer->writer, bytes, size));
}

void peers_flush(struct agent *agent)
{
    struct peers *peers = agent->peers;
    for (uint32_t i = 0; peers != NULL && i < peers->dirty_count; i++) {
        struct peer_agent *peer = &peers->peers[peers->dirty[i]];
        send_packet(peers, peer);
        leave_buffer(peers, peer->buffer);
        peer->buffer = NULL;
    }
    if (peers != NULL) {
        peers->dirty_count = 0;
    }
}

/* ---- what comes in ---- */

static uint64_t hash_host(const char *remote)
{
    const char *colon = strrchr(remote, ':');
    size_t size = colon != NULL ? (size_t)(colon - remote) : strlen(remote);
    return hfi_name_hash(remote, size) | 1;
}

/* Returns whether a line about this remote may be logged: one line a minute for each remote. A new
 * remote takes the entry of the remote that was logged longest ago. */
static bool may_log(struct peers *peers, const char *remote)
{
    uint64_t hash = hash_host(remote);
    struct peers_refused_host *entry = &peers->refused[0];
    for (uint32_t i = 0; i < PEERS_REFUSED_MAX; i++) {
        struct peers_refused_host *refused = &peers->refused[i];
        if (refused->remote == hash) {
            entry = refused;
            break;
        }
        entry = refused->limit.regained_ns < entry->limit.regained_ns ? refused : entry;
    }
    if (entry->remote != hash) {
        *entry = (struct peers_refused_host){.remote = hash};
    }
    return log_limit_add(&entry->limit, &log_once_a_minute, clock_boottime_ns()) > 0;
}

static void note_refused(struct peers *peers, const char *remote, const char *text)
{
    peers->refused_ns = clock_boottime_ns();
    snprintf(peers->refused_text, sizeof(peers->refused_text), "%s: %s", remote, text);
}

static void log_refused(struct peers *peers, const struct wire_reader *reader,
                        enum wire_error error, const char *remote)
{
    const struct wire_header *header = &reader->header;
    struct log_line line;
    char text[256];
    peers->refusals[PEERS_REFUSED_PACKET]++;
    if (error == WIRE_OTHER_CELL) {
        snprintf(text, sizeof(text), "it belongs to cell %.*s, this agent to %s",
                 (int)header->cell.length, header->cell.text, peers->agent->config.cell);
    } else if (error == WIRE_OTHER_VERSION) {
        snprintf(text, sizeof(text), "it speaks version %u of the protocol, this agent %d to %u",
                 reader->version, WIRE_VERSION_OLDEST, peers->agent->config.protocol);
    } else {
        snprintf(text, sizeof(text), "%s%s%s%s%s", wire_error_text(error),
                 reader->bad_kind != NULL ? ": " : "",
                 reader->bad_kind != NULL ? reader->bad_kind : "",
                 reader->bad_field != NULL ? ", field " : "",
                 reader->bad_field != NULL ? reader->bad_field : "");
    }
    note_refused(peers, remote, text);
    if (!may_log(peers, remote)) {
        return;
    }
    log_begin_limited(&line, LOG_LEVEL_WARN, "peer_refused", &peers->refused_limit,
                      clock_boottime_ns());
    log_text(&line, "remote", remote);
    if (header->from.length > 0) {
        log_bytes(&line, "agent", header->from.text, header->from.length);
    }
    log_text(&line, "text", text);
    log_end(&line);
}

static void log_impostor(struct peers *peers, const struct wire_header *header,
                         const char *certified, const char *remote)
{
    struct log_line line;
    char text[128];
    snprintf(text, sizeof(text), "its certificate is that of %s", certified);
    note_refused(peers, remote, text);
    if (!may_log(peers, remote)) {
        return;
    }
    log_begin_limited(&line, LOG_LEVEL_WARN, "peer_refused", &peers->refused_limit,
                      clock_boottime_ns());
    log_text(&line, "remote", remote);
    log_bytes(&line, "agent", header->from.text, header->from.length);
    log_text(&line, "text", text);
    log_end(&line);
}

static struct transport_sender sender_of(const struct agent *agent,
                                         const struct message_agent *from)
{
    return (struct transport_sender){
        .name = hfi_name_hash(from->text, from->length) | 1,
        .voter = peers_find_voter(agent, from) < agent->host_config.voter_count,
    };
}

/* Notes the sender's release of Holdfast, which renewals and their acknowledgements carry. */
static void note_release(struct peers *peers, const struct message *message, uint32_t version)
{
    const char *release = message->kind == MESSAGE_RENEW       ? message->as.renew.release
                          : message->kind == MESSAGE_RENEW_ACK ? message->as.renew_ack.release
                                                               : "";
    struct peer_agent *peer = release[0] != '\0' ? peers_find(peers, &message->from) : NULL;
    if (peer == NULL || strcmp(peer->release, release) == 0) {
        return;
    }
    memcpy(peer->release, release, MESSAGE_RELEASE_MAX);
    struct log_line line;
    log_begin_limited(&line, LOG_LEVEL_INFO, "peer_release", &peers->link_limit,
                      clock_boottime_ns());
    log_bytes(&line, "agent", peer->name.text, peer->name.length);
    log_text(&line, "version", release);
    log_unsigned(&line, "protocol", version);
    log_end(&line);
}

bool peers_is_certified(const struct wire_header *header, const char *certified)
{
    return certified[0] == '\0' || (strlen(certified) == header->from.length &&
                                    memcmp(certified, header->from.text, header->from.length) == 0);
}

/* Notes the URL of the sender's status page. A URL to which no page may link is not noted. */
static void note_page(struct peers *peers, const struct message *message)
{
    const char *page = message->kind == MESSAGE_RENEW       ? message->as.renew.page
                       : message->kind == MESSAGE_RENEW_ACK ? message->as.renew_ack.page
                                                            : NULL;
    struct peer_agent *peer = page != NULL ? peers_find(peers, &message->from) : NULL;
    if (peer != NULL) {
        snprintf(peer->page, sizeof(peer->page), "%s", config_is_page(page) ? page : "");
    }
}

static struct transport_sender on_packet(void *arg, const void *bytes, size_t size,
                                         const char *certified, const char *remote)
{
    struct agent *agent = arg;
    struct peers *peers = agent->peers;
    struct wire_reader reader;
    enum wire_item_kind kind;
    const unsigned char *gossip;
    size_t gossip_size;
    enum wire_error error = wire_open(&reader, bytes, size, &agent->host_config.cell);
    if (error == WIRE_OK && reader.version > agent->config.protocol) {
        error = WIRE_OTHER_VERSION;
    }
    if (error != WIRE_OK) {
        log_refused(peers, &reader, error, remote);
        return (struct transport_sender){.name = 0};
    }
    if (!peers_is_certified(&reader.header, certified)) {
        log_impostor(peers, &reader.header, certified, remote);
        return (struct transport_sender){.name = 0};
    }
    struct peer_agent *from = peers_find(peers, &reader.header.from);
    *(from != NULL ? &from->packets_received : &peers->strangers) += 1;
    peers->host = hash_host(remote);
    while (wire_next(&reader, &kind, &peers->message, &gossip, &gossip_size)) {
        peers->received[kind == WIRE_MESSAGE ? peers->message.kind : 0]++;
        if (kind == WIRE_MESSAGE) {
            note_release(peers, &peers->message, reader.version);
            note_page(peers, &peers->message);
            driver_received(agent->driver, &peers->message);
        } else {
            driver_received_gossip(agent->driver, &reader.header.from, gossip, gossip_size);
        }
    }
    peers->host = 0;
    return sender_of(agent, &reader.header.from);
}

static void count_trouble(struct peers *peers, const char *event)
{
    static const char *const events[PEERS_REFUSAL_COUNT] = {
        [PEERS_REFUSED_PACKET] = "", /* log_refused() and log_impostor() count these */
        [PEERS_REFUSED_GREETING] = "greeting_refused",
        [PEERS_REFUSED_TLS] = "tls_refused",
        [PEERS_REFUSED_FULL] = "inbox_full",
    };
    for (uint32_t why = 0; why < PEERS_REFUSAL_COUNT; why++) {
        peers->refusals[why] += strcmp(event, events[why]) == 0;
    }
}

static void on_trouble(void *arg, const char *event, const char *address, const char *text)
{
    struct peers *peers = ((struct agent *)arg)->peers;
    struct log_line line;
    if (strcmp(event, "tls_refused") == 0 || strcmp(event, "greeting_refused") == 0) {
        note_refused(peers, address != NULL ? address : "?", text);
    }
    count_trouble(peers, event);
    if (strcmp(event, "greeting_refused") == 0 && !may_log(peers, address)) {
        return; /* not logged again: a port scanner, or a program on an agent's port, may connect
                 * often */
    }
    log_begin_limited(&line, LOG_LEVEL_WARN, event, &peers->trouble_limit, clock_boottime_ns());
    if (address != NULL) {
        log_text(&line, "address", address);
    }
    log_text(&line, "text", text);
    log_end(&line);
}

void peers_receive(struct agent *agent)
{
    if (agent->peers != NULL) {
        transport_dispatch(agent->peers->transport);
    }
}

int peers_fd(const struct agent *agent)
{
    return agent->peers != NULL ? transport_fd(agent->peers->transport) : -1;
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
    struct agent *agent = poll->data;
    (void)status;
    (void)events;
    agent_turn(agent, TURN_PEERS);
    driver_receiving(agent->driver, true);
    peers_receive(agent);
    driver_receiving(agent->driver, false);
    peers_directory_look(agent->peers);
}

/* Returns a hash of the identities and times of change of the three files, which changes when a
 * file changes. Returns 0 if a file cannot be looked at. */
static uint64_t sum_of_files(const struct config *config)
{
    const char *const paths[] = {config->tls_ca, config->tls_cert, config->tls_key};
    uint64_t sum = 0;
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        struct stat status;
        if (stat(paths[i], &status) != 0) {
            return 0;
        }
        const int64_t parts[] = {(int64_t)sum, (int64_t)status.st_ino, status.st_size,
                                 status.st_mtim.tv_sec, status.st_mtim.tv_nsec};
        sum = hfi_name_hash((const char *)parts, sizeof(parts)) | 1;
    }
    return sum;
}

/* Reads the files of [tls] again. changed: the files are new, or SIGHUP asked for this. If changed
 * is false, the agent has refused and logged the same files before. */
static void renew_certificates(struct agent *agent, bool changed)
{
    struct peers *peers = agent->peers;
    char *error = peers->kept_text;
    peers->files_sum = sum_of_files(&agent->config);
    peers->files_ns = clock_boottime_ns();
    peers->files_kept = !transport_tls_renew(peers->transport, error);
    if (!peers->files_kept) {
        log_simple(LOG_LEVEL_INFO, "tls_renewed",
                   "connections that are made from now on use the files as they are now");
    } else if (changed) {
        log_simple(LOG_LEVEL_WARN, "tls_kept", error);
    }
}

void peers_renew_certificates(struct agent *agent)
{
    if (agent->peers == NULL || agent->config.tls_ca[0] == '\0') {
        log_simple(LOG_LEVEL_INFO, "tls_kept", "there is no [tls]: nothing is read again");
        return;
    }
    renew_certificates(agent, true);
}

/* Looks from time to time whether the files of [tls] were replaced. Files that were refused are
 * tried again sooner, because the reason may be gone: a missing file, a wrong mode, a certificate
 * that was not valid yet, or no memory. */
static void look_at_files(struct agent *agent)
{
    struct peers *peers = agent->peers;
    int64_t now_ns = clock_boottime_ns();
    int64_t pause_ns = peers->files_kept ? kept_pause_ns : minute_ns;
    if (agent->config.tls_ca[0] == '\0' || now_ns - peers->files_ns < pause_ns) {
        return;
    }
    bool changed = sum_of_files(&agent->config) != peers->files_sum;
    peers->files_ns = now_ns;
    if (changed || peers->files_kept) {
        renew_certificates(agent, changed);
    }
}

static void log_voter(const struct peer_agent *peer, enum log_level level, const char *event,
                      const char *text)
{
    struct log_line line;
    log_begin(&line, level, event);
    log_bytes(&line, "agent", peer->name.text, peer->name.length);
    log_text(&line, "address", peer->address);
    log_text(&line, "text", text);
    log_end(&line);
}

/* Logs when a voter's clock begins to run at a wrong rate, and when it is well again. Each renewal
 * measures that rate, and leases rely on it. */
static void look_at_clock_of(const struct agent *agent, struct peer_agent *peer, uint32_t voter,
                             bool answers, int64_t now_ns)
{
    const struct pace *pace = renewal_pace(agent->renewal, voter);
    int64_t max_ppm = (int64_t)agent->config.max_drift_percent * PPM_OF_PERCENT;
    enum pace_news news = pace_look(&peer->clock, pace, answers, max_ppm, now_ns);
    char text[192];
    if (news == PACE_DIFFERS) {
        snprintf(text, sizeof(text),
                 "its clock runs %s than this host's, by %lld ppm at least; max_drift allows for "
                 "%lld, and leases rest on that",
                 pace_rate(pace).low_ppm > 0 ? "faster" : "slower", (long long)pace_least_ppm(pace),
                 (long long)max_ppm);
        log_voter(peer, LOG_LEVEL_WARN, "clock_differs", text);
    } else if (news == PACE_WELL_AGAIN) {
        log_voter(peer, LOG_LEVEL_INFO, "clock_differs", "its clock is well again");
    }
}

static void look_at_voter(struct agent *agent, uint32_t voter, int64_t now_ns)
{
    struct peers *peers = agent->peers;
    struct peer_agent *peer = peers_find(peers, &agent->host_config.voters[voter]);
    if (peer == NULL) {
        return; /* this agent has no entry for itself */
    }
    peers_voter_look(peers, peer, now_ns);
    bool up = transport_is_up(peers->transport, peer->link);
    /* While this agent stood still it received nothing. So a voter's silence is counted from the
     * end of the stall. */
    const struct agent_seen seen = agent_seen(agent);
    bool stood = seen.stall_ns > agent->config.session_ttl_ns / 3;
    int64_t since_ns = stood && seen.stalled_ns > peer->up_ns ? seen.stalled_ns : peer->up_ns;
    bool long_so = now_ns - since_ns > agent->config.session_ttl_ns;
    bool answers = renewal_voter_up(agent->renewal, voter, now_ns);
    bool starts_over = up && !answers && driver_starts_over(agent->driver, voter);
    /* A voter that was silent before the stall is still taken for silent. */
    bool silent = up && !answers && !starts_over && (long_so || peer->silent);
    bool unreachable = !up && (long_so || peer->unreachable);
    if (silent && !peer->silent) {
        log_voter(peer, LOG_LEVEL_WARN, "voter_silent",
                  "connected, but it answers no renewal: see the log of that agent");
    }
    if (starts_over && !peer->starts_over) {
        log_voter(peer, LOG_LEVEL_INFO, "voter_starts_over",
                  "it does not vote before it has read what the other voters know: stop none of "
                  "them until it votes");
    } else if (peer->starts_over && answers) {
        log_voter(peer, LOG_LEVEL_INFO, "voter_starts_over", "it is done, and votes");
    }
    if (unreachable && !peer->unreachable) {
        log_voter(peer, LOG_LEVEL_WARN, "voter_unreachable",
                  transport_why_down(peers->transport, peer->link));
    }
    peer->silent = silent;
    peer->starts_over = starts_over;
    peer->unreachable = unreachable;
    look_at_clock_of(agent, peer, voter, answers, now_ns);
}

void peers_look(struct agent *agent)
{
    int64_t now_ns = clock_boottime_ns();
    for (uint32_t i = 0; agent->peers != NULL && i < agent->host_config.voter_count; i++) {
        look_at_voter(agent, i, now_ns);
    }
    if (agent->peers != NULL) {
        look_at_files(agent);
    }
}

bool peers_connected(const struct agent *agent, const struct message_agent *name)
{
    struct peers *peers = agent->peers;
    const struct peer_agent *peer = peers == NULL ? NULL : peers_find(peers, name);
    return peer != NULL && transport_is_up(peers->transport, peer->link);
}

const char *peers_why_down(const struct agent *agent, const struct message_agent *name)
{
    const struct peers *peers = agent->peers;
    const struct peer_agent *peer = peers == NULL ? NULL : peers_find(agent->peers, name);
    return peer == NULL ? "" : transport_why_down(peers->transport, peer->link);
}

const char *peers_page(const struct agent *agent, const struct message_agent *name)
{
    const struct peer_agent *peer = agent->peers != NULL ? peers_find(agent->peers, name) : NULL;
    return peer == NULL ? "" : peer->page;
}

const char *peers_release(const struct agent *agent, const struct message_agent *name)
{
    const struct peer_agent *peer = agent->peers == NULL ? NULL : peers_find(agent->peers, name);
    return peer == NULL ? "" : peer->release;
}

static struct peers_tls_times times_from(struct transport_tls_times times)
{
    return (struct peers_tls_times){.begin_s = times.begin_s,
                                    .soon_s = times.soon_s,
                                    .end_s = times.end_s,
                                    .soon_end_s = times.soon_end_s,
                                    .soon_ca = times.soon_ca,
                                    .end_ca = times.end_ca};
}

struct peers_view peers_view(const struct agent *agent)
{
    const struct peers *peers = agent->peers;
    return (struct peers_view){.deaf = transport_is_deaf(peers->transport),
                               .tls = times_from(transport_tls_times(peers->transport)),
                               .tls_kept = peers->files_kept ? peers->kept_text : NULL,
                               .refused_ns = peers->refused_ns,
                               .refused_text = peers->refused_text};
}

static void add_figures(const struct peers *peers, const struct peer_agent *peer,
                        struct peers_figures *out)
{
    out->agents++;
    out->connected += transport_is_up(peers->transport, peer->link);
    out->packets_sent += peer->packets_sent;
    out->packets_dropped += peer->packets_dropped;
    out->packets_received += peer->packets_received;
    out->waiting_bytes += transport_waiting(peers->transport, peer->link);
}

void peers_figures(const struct agent *agent, struct peers_figures *voters,
                   struct peers_figures *others)
{
    const struct peers *peers = agent->peers;
    memset(voters, 0, MESSAGE_VOTERS_MAX * sizeof(*voters));
    memset(others, 0, sizeof(*others));
    for (uint32_t i = 0; peers != NULL && i < peers->count; i++) {
        uint32_t voter = peers_find_voter(agent, &peers->peers[i].name);
        bool is_voter = voter < agent->host_config.voter_count;
        add_figures(peers, &peers->peers[i], is_voter ? &voters[voter] : others);
    }
    others->packets_received += peers != NULL ? peers->strangers : 0;
}

uint64_t peers_refused(const struct agent *agent, enum peers_refusal why)
{
    return agent->peers != NULL ? agent->peers->refusals[why] : 0;
}

static void log_counts(const struct agent *agent, const char *event, const uint64_t *counts)
{
    struct log_line line;
    log_begin(&line, LOG_LEVEL_INFO, event);
    log_unsigned(&line, "gossip", counts[0]);
    for (enum message_kind kind = MESSAGE_PREPARE; kind < MESSAGE_KIND_END; kind++) {
        if (message_kind_valid(kind) && counts[kind] > 0) {
            log_unsigned(&line, wire_kind_text(kind), counts[kind]);
        }
    }
    log_unsigned(&line, "commits", driver_commits(agent->driver));
    log_end(&line);
}

void peers_log_traffic(struct agent *agent)
{
    const struct peers *peers = agent->peers;
    static const uint64_t none[MESSAGE_KIND_END];
    struct transport_counts counts = {.packets_sent = 0};
    struct log_line line;
    if (peers != NULL) {
        counts = transport_counts(peers->transport);
    }
    log_counts(agent, "traffic_sent", peers != NULL ? peers->sent : none);
    log_counts(agent, "traffic_received", peers != NULL ? peers->received : none);
    log_begin(&line, LOG_LEVEL_INFO, "traffic");
    log_unsigned(&line, "packets_sent", counts.packets_sent);
    log_unsigned(&line, "packets_lost", counts.packets_lost);
    log_unsigned(&line, "packets_received", counts.packets_received);
    log_unsigned(&line, "bytes_sent", counts.bytes_sent);
    log_unsigned(&line, "bytes_received", counts.bytes_received);
    log_unsigned(&line, "token_ranges", host_counts(agent->host)->ranges);
    log_end(&line);
}

/* ---- opening and closing ---- */

static struct transport_tls tls_of(const struct config *config)
{
    bool tls = config->tls_ca[0] != '\0';
    return (struct transport_tls){.ca = tls ? config->tls_ca : NULL,
                                  .cert = tls ? config->tls_cert : NULL,
                                  .key = tls ? config->tls_key : NULL};
}

static void give_up_opening(int number)
{
    static const char text[] = "holdfastd: NNG did not start in 30 s: is there memory for it?\n";
    (void)number;
    (void)!write(STDERR_FILENO, text, sizeof(text) - 1);
    _exit(AGENT_EXIT_UNAVAILABLE);
}

/* Sets an alarm for NNG's start: if NNG has no memory for all its threads, its start never
 * returns. */
static void open_in_time(struct sigaction *before)
{
    struct sigaction action = {.sa_handler = give_up_opening};
    sigaction(SIGALRM, &action, before);
    alarm(OPEN_SECONDS);
}

static void opened_in_time(const struct sigaction *before)
{
    alarm(0);
    sigaction(SIGALRM, before, NULL);
}

bool peers_check_tls(const struct config *config, struct peers_tls_times *times,
                     char error[CONFIG_ERROR_MAX])
{
    char wrong[TRANSPORT_ERROR_MAX];
    const struct transport_tls tls = tls_of(config);
    struct sigaction before;
    struct transport_tls_times found = {.end_s = 0};
    *times = times_from(found);
    if (tls.ca == NULL) {
        return true;
    }
    open_in_time(&before);
    bool good = transport_tls_check(&tls, config->agent, &found, wrong);
    int why = errno;
    opened_in_time(&before);
    if (good) {
        *times = times_from(found);
        return true;
    }
    snprintf(error, CONFIG_ERROR_MAX, "%s", wrong);
    errno = why;
    return false;
}

struct transport *peers_transport(const struct config *config,
                                  const struct transport_handler *handler, char *error)
{
    struct transport_config transport = {
        .listen = config->listen,
        .tls = tls_of(config),
        .name = config->agent,
        .packet_max = WIRE_PACKET_MAX,
        .version = wire_greeting(config->protocol),
    };
    struct sigaction before;
    open_in_time(&before);
    struct transport *opened = transport_open(&transport, handler, error);
    int why = errno;
    opened_in_time(&before);
    errno = why;
    return opened;
}

int peers_open(struct agent *agent)
{
    const struct config *config = &agent->config;
    const struct transport_handler handler = {
        .arg = agent, .packet = on_packet, .link = peers_link, .trouble = on_trouble};
    char error[TRANSPORT_ERROR_MAX];
    if (config->listen[0] == '\0') {
        return AGENT_EXIT_OK;
    }
    agent->peers = calloc(1, sizeof(*agent->peers));
    if (agent->peers == NULL) {
        snprintf(agent->error, sizeof(agent->error), "out of memory");
        return AGENT_EXIT_UNAVAILABLE;
    }
    agent->peers->agent = agent;
    peers_directory_init(agent->peers);
    agent->peers->files_sum = sum_of_files(config);
    agent->peers->files_ns = clock_boottime_ns();
    agent->peers->transport = peers_transport(config, &handler, error);
    if (agent->peers->transport == NULL) {
        int code = errno == EINVAL ? AGENT_EXIT_SOFTWARE : AGENT_EXIT_UNAVAILABLE;
        snprintf(agent->error, sizeof(agent->error), "%s", error);
        free(agent->peers);
        agent->peers = NULL;
        return code;
    }
    return AGENT_EXIT_OK;
}

bool peers_start(struct agent *agent)
{
    struct peers *peers = agent->peers;
    const struct host_config *config = &agent->host_config;
    if (peers == NULL) {
        return true;
    }
    for (uint32_t i = 0; i < config->voter_count; i++) {
        if (i != config->self && config->addresses[i] != NULL &&
            !peers_dial(peers, &config->voters[i], config->addresses[i])) {
            return false;
        }
    }
    /* dials voters that are in the configuration and not in the record: they may know a newer
     * record */
    for (uint32_t i = 0; i < agent->config.voter_count; i++) {
        const struct config_voter *written = &agent->config.voters[i];
        struct message_agent name;
        message_agent_set(&name, written->name, strlen(written->name));
        if (written->address[0] != '\0') {
            peers_address(agent, &name, written->address);
        }
    }
    peers->started = true;
    return agent_poll(agent, &peers->poll, transport_fd(peers->transport), on_readable);
}

static volatile sig_atomic_t exit_code_in_time;

static void give_up_closing(int number)
{
    (void)number;
    _exit(exit_code_in_time);
}

/*
 * Closing waits for NNG's threads. At this point everything is durable and sent, and the close only
 * frees memory. So an alarm kills the process after CLOSE_SECONDS, before the lease is over.
 */
static void close_in_time(struct agent *agent)
{
    struct sigaction action = {.sa_handler = give_up_closing};
    struct sigaction before;
    exit_code_in_time = agent_exit_code(agent);
    sigaction(SIGALRM, &action, &before);
    alarm(CLOSE_SECONDS);
    transport_close(agent->peers->transport);
    alarm(0);
    sigaction(SIGALRM, &before, NULL);
}

void peers_close(struct agent *agent)
{
    struct peers *peers = agent->peers;
    if (peers == NULL) {
        return;
    }
    close_in_time(agent);
    for (uint32_t i = 0; i < peers->count; i++) {
        free(peers->peers[i].buffer);
    }
    for (uint32_t i = 0; i < peers->kept_count; i++) {
        free(peers->kept[i]);
    }
    free(peers);
    agent->peers = NULL;
}
