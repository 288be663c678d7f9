/*
 * The facts for `holdfast doctor`: how this agent, its host and its cell are, as numbers and short
 * texts by name (TOLD). This file judges nothing. The command compares the facts with bounds and
 * prints a remedy (cli/doctor_agent.c, cli/doctor_cell.c, cli/doctor_host.c).
 *
 * All of it is at hand, or asked of the kernel without waiting for a disk or another agent.
 */
#include "observe/facts.h"

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "agent.h"
#include "driver/driver.h"
#include "io/clock.h"
#include "observe/files.h"
#include "peers/peers.h"
#include "proto/check.h"
#include "proto/wire.h"
#include "turn.h"

static struct hfi_text text_of(const char *text)
{
    return (struct hfi_text){text, (uint32_t)strlen(text)};
}

/* A fact that finds no room is left out: see the sizes in told.c; no cell comes near. */
static void tell(struct hfi_told_builder *told, const struct message_agent *subject,
                 const char *key, int64_t value, const char *text)
{
    struct hfi_fact_frame fact = {.key = text_of(key), .value = value};
    if (subject != NULL) {
        fact.subject = (struct hfi_text){subject->text, subject->length};
    }
    if (text != NULL) {
        fact.text = text_of(text);
    }
    (void)!hfi_told_add(told, &fact);
}

static void tell_number(struct hfi_told_builder *told, const char *key, int64_t value)
{
    tell(told, NULL, key, value, NULL);
}

static void tell_text(struct hfi_told_builder *told, const char *key, const char *text)
{
    tell(told, NULL, key, 0, text);
}

static int64_t to_int64(uint64_t value)
{
    return value > INT64_MAX ? INT64_MAX : (int64_t)value;
}

/* -1: there was none. */
static int64_t age_ns(int64_t at_ns)
{
    return at_ns == 0 ? -1 : clock_boottime_ns() - at_ns;
}

/* ---- the agent and its host ---- */

static void tell_configuration(const struct agent *agent, struct hfi_told_builder *told)
{
    const struct config *config = &agent->config;
    tell_text(told, "version", HF_VERSION);
    tell_text(told, "role", agent->host_config.role);
    tell_number(told, "wire_version", WIRE_VERSION);
    tell_number(told, "pid", getpid());
    tell_number(told, "uid", agent->own);
    tell_number(told, "session_ttl_ns", config->session_ttl_ns);
    tell_number(told, "grace_ns", config->grace_ns);
    tell_number(told, "max_drift_percent", config->max_drift_percent);
    tell_text(told, "state_dir", config->state_dir);
    tell_text(told, "socket", config->socket);
    tell_number(told, "others_admitted", config_admits_others(config, agent->own));
    tell_text(told, "listen", config->listen);
    tell_text(told, "advertise", config->advertise);
}

static void tell_clock(const struct agent *agent, struct hfi_told_builder *told)
{
    int64_t ppm;
    if (clock_adjustment_ppm(&ppm)) {
        tell_number(told, "clock_ppm", ppm);
    }
    if (agent->interrupted_ns != 0) {
        tell_number(told, "interrupted_age_ns", age_ns(agent->interrupted_ns));
    }
    tell_number(told, "stalls", to_int64(agent->stalls));
    if (agent->stalls > 0) {
        tell_number(told, "stall_ns", agent->stall_ns);
        tell_number(told, "stall_age_ns", age_ns(agent->stalled_ns));
    }
}

static void tell_room(struct hfi_told_builder *told, const char *key, int fd)
{
    struct statvfs room;
    if (fd >= 0 && fstatvfs(fd, &room) == 0) {
        tell_number(told, key, to_int64((uint64_t)room.f_bavail * room.f_frsize));
    }
}

static void tell_memory(const struct agent *agent, struct hfi_told_builder *told)
{
    uint64_t size = 0;
    uint64_t used = 0;
    for (uint32_t i = 0; i < agent->config.namespace_count; i++) {
        struct stat status;
        if (fstat(agent->regions[i].fd, &status) == 0) {
            size += (uint64_t)status.st_size;
            used += (uint64_t)status.st_blocks * 512;
        }
        if ((agent->rubbish >> i & 1) != 0) {
            int64_t why = (agent->roomless >> i & 1) != 0 ? 2 : 1;
            tell(told, NULL, "region_rubbish", why, agent->spaces[i]);
        }
    }
    tell_number(told, "regions", agent->config.namespace_count);
    tell_number(told, "shm_size", to_int64(size));
    tell_number(told, "shm_used", to_int64(used));
    tell_room(told, "shm_free", agent->regions[0].fd);
}

/* Clients of the agent before, of which this one cannot know whether they live: how many, and
 * some. */
static void tell_unproven(const struct agent *agent, struct hfi_told_builder *told)
{
    char text[FILES_TEXT_MAX] = "";
    size_t used = 0;
    uint32_t named = 0;
    for (uint32_t id = 1; id <= agent->id_high && named < agent->unproven && used < 200; id++) {
        const struct client *client = agent->by_id[id];
        const struct host_peer *peer = client != NULL && client->unproven
                                           ? host_peer_of(agent->host, id)
                                           : NULL;
        if (peer != NULL) {
            used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%.40s (pid %d, uid %u)",
                                     used > 0 ? ", " : "", peer->command, (int)client->pid,
                                     (unsigned)client->uid);
            named++;
        }
    }
    tell(told, NULL, "survivors_unproven", agent->unproven, text);
}

static void tell_files(const struct agent *agent, struct hfi_told_builder *told)
{
    char text[FILES_TEXT_MAX];
    uint32_t count = files_gone(agent, true, text);
    tell(told, NULL, "files_gone", count, text);
    if (files_config_is_loose(agent)) {
        tell(told, NULL, "config_loose", 1, agent->config_path);
    }
}

static void tell_limits(const struct agent *agent, struct hfi_told_builder *told)
{
    struct rlimit limit;
    int lowest = dup(agent->timer_fd); /* the lowest that is free: about as many are in use */
    if (lowest >= 0) {
        close(lowest);
        tell_number(told, "descriptors_used", lowest);
    }
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        tell_number(told, "descriptors_max", to_int64(limit.rlim_cur));
    }
    tell_number(told, "descriptors_wanted", agent_descriptors_wanted(agent));
    tell_number(told, "clients_max", agent->config.limits.clients);
    tell_number(told, "locks_max", agent->config.limits.locks);
}

static void tell_disk(const struct agent *agent, struct hfi_told_builder *told)
{
    struct stat status;
    if (fstat(agent->state_fd, &status) == 0) {
        tell_number(told, "state_dir_mode", status.st_mode & 07777);
        tell_number(told, "state_dir_uid", status.st_uid);
    }
    tell_room(told, "state_dir_free", agent->state_fd);
    tell_number(told, "flushes", to_int64(agent->flush.count));
    if (agent->flush.count > 0) {
        tell_number(told, "flush_last_ns", agent->flush.last_ns);
        tell_number(told, "flush_worst_ns", recent_worst_ns(&agent->flush));
    }
    tell_number(told, "flush_pending_ns", age_ns(agent->flush_begun_ns));
}

/* ---- the cell ---- */

static void tell_store(const struct agent *agent, struct hfi_told_builder *told)
{
    static const char *const standings[] = {
        [MESSAGE_STANDING_OBSERVER] = "observer", [MESSAGE_STANDING_EMPTY] = "empty",
        [MESSAGE_STANDING_LISTED] = "listed",     [MESSAGE_STANDING_VOTING] = "voting",
        [MESSAGE_STANDING_REFUSED] = "refused",   [MESSAGE_STANDING_REJOINING] = "rejoining",
    };
    if (agent->quorum == NULL) {
        return;
    }
    unsigned standing = (unsigned)quorum_standing(agent->quorum);
    tell(told, NULL, "votes", standing == MESSAGE_STANDING_VOTING,
         standing < sizeof(standings) / sizeof(standings[0]) ? standings[standing] : NULL);
}

/* How many partitions each voter coordinates, by its heartbeats. An only voter sends none: there is
 * no other. */
static void count_partitions(const struct agent *agent, uint32_t counts[MESSAGE_VOTERS_MAX])
{
    const struct host_config *config = &agent->host_config;
    memset(counts, 0, MESSAGE_VOTERS_MAX * sizeof(counts[0]));
    for (uint32_t i = 0; i < MESSAGE_PARTITIONS; i++) {
        struct message_agent owner = config->voters[0];
        bool known = agent->gossip == NULL || config->voter_count == 1 ||
                     gossip_owner(agent->gossip, i, &owner);
        for (uint32_t voter = 0; known && voter < config->voter_count; voter++) {
            counts[voter] += memcmp(&config->voters[voter], &owner, sizeof(owner)) == 0;
        }
    }
}

static void tell_voter(const struct agent *agent, uint32_t voter, struct hfi_told_builder *told)
{
    const struct message_agent *name = &agent->host_config.voters[voter];
    const struct pace *pace = renewal_pace(&agent->renewal, voter);
    bool self = voter == agent->host_config.self;
    tell(told, name, "self", self, NULL);
    tell(told, name, "answered_age_ns", age_ns(renewal_answered_ns(&agent->renewal, voter)), NULL);
    tell(told, name, "rules_differ", driver_rules_differ(agent->driver, voter), NULL);
    tell(told, name, "starts_over", driver_starts_over(agent->driver, voter), NULL);
    if (pace->round_trip.count > 0) {
        tell(told, name, "round_trip_ns", pace->round_trip.last_ns, NULL);
        tell(told, name, "round_trip_worst_ns", recent_worst_ns(&pace->round_trip), NULL);
    }
    if (!self) {
        tell(told, name, "connected", peers_connected(agent, name), peers_why_down(agent, name));
        tell(told, name, "version", 0, peers_release(agent, name));
    }
    if (!self && pace->measured) {
        tell(told, name, "clock_low_ppm", pace->low_ppm, NULL);
        tell(told, name, "clock_high_ppm", pace->high_ppm, NULL);
    }
}

static void tell_gossip(const struct agent *agent, struct hfi_told_builder *told)
{
    struct gossip_agent_view view;
    int64_t known = 0;
    int64_t silent = 0;
    uint32_t at = 0;
    while (agent->gossip != NULL &&
           gossip_agent_next(agent->gossip, clock_boottime_ns(), &at, &view)) {
        known++;
        silent += view.silent;
    }
    tell_number(told, "agents_known", known);
    tell_number(told, "agents_silent", silent);
}

static void tell_peers(const struct agent *agent, struct hfi_told_builder *told)
{
    if (agent->peers == NULL) {
        return;
    }
    struct peers_view view = peers_view(agent);
    tell_number(told, "listener_deaf", view.deaf);
    tell_number(told, "listens_local", config_is_local(agent->config.listen));
    tell_number(told, "tls", view.tls_end_s != 0);
    if (view.tls_end_s != 0) {
        tell_number(told, "tls_begin_s", view.tls_begin_s);
        tell_number(told, "tls_end_s", view.tls_end_s);
    }
    if (view.tls_kept != NULL) {
        tell(told, NULL, "tls_kept", 1, view.tls_kept);
    }
    if (view.refused_ns != 0) {
        tell(told, NULL, "refused_age_ns", age_ns(view.refused_ns), view.refused_text);
    }
}

size_t facts_tell(struct agent *agent, uint64_t request, unsigned char *buffer)
{
    struct hfi_told_builder told;
    uint32_t partitions[MESSAGE_VOTERS_MAX];
    hfi_told_begin(&told, buffer, HFI_FRAME_MAX, request);
    tell_configuration(agent, &told);
    tell_clock(agent, &told);
    tell_memory(agent, &told);
    tell_limits(agent, &told);
    tell_disk(agent, &told);
    tell_files(agent, &told);
    tell_unproven(agent, &told);
    tell_store(agent, &told);
    count_partitions(agent, partitions);
    for (uint32_t i = 0; i < agent->host_config.voter_count; i++) {
        tell_voter(agent, i, &told);
        tell(&told, &agent->host_config.voters[i], "partitions", partitions[i], NULL);
    }
    tell_gossip(agent, &told);
    tell_peers(agent, &told);
    return hfi_told_finish(&told);
}
