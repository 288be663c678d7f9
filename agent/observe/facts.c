/*
 * The facts for `holdfast doctor`: the judgement about this agent with its reasons, and the state
 * of this agent, its host and its cell, as numbers and short texts by name. The frame TOLD carries
 * them. The command compares the facts with bounds and prints a remedy (cli/doctor_agent.c,
 * cli/doctor_cell.c, cli/doctor_host.c).
 *
 * Each fact is in memory, or the kernel gives it without waiting for a disk or another agent.
 */
#include "observe/facts.h"

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "agent.h"
#include "driver/disk.h"
#include "driver/driver.h"
#include "io/clock.h"
#include "observe/files.h"
#include "observe/judge.h"
#include "peers/peers.h"
#include "proto/check.h"
#include "proto/wire.h"
#include "run/record.h"
#include "serve/clients.h"
#include "serve/leftovers.h"
#include "serve/regions.h"
#include "turn.h"

static struct hfi_text text_of(const char *text)
{
    return (struct hfi_text){text, (uint32_t)strlen(text)};
}

/* Adds a fact, or leaves it out if there is no room for it. The facts of the largest cell fit: see
 * the sizes in proto/facts.c. */
static void add(struct hfi_facts_builder *builder, const struct message_agent *subject,
                const char *key, int64_t value, const char *text)
{
    struct hfi_fact_frame fact = {.key = text_of(key), .value = value};
    if (subject != NULL) {
        fact.subject = (struct hfi_text){subject->text, subject->length};
    }
    if (text != NULL) {
        fact.text = text_of(text);
    }
    (void)!hfi_facts_add(builder, &fact);
}

static void add_number(struct hfi_facts_builder *builder, const char *key, int64_t value)
{
    add(builder, NULL, key, value, NULL);
}

static void add_text(struct hfi_facts_builder *builder, const char *key, const char *text)
{
    add(builder, NULL, key, 0, text);
}

static int64_t to_int64(uint64_t value)
{
    return value > INT64_MAX ? INT64_MAX : (int64_t)value;
}

/* Returns how long ago at_ns was; -1 if at_ns is 0, which means never. */
static int64_t age_ns(int64_t at_ns)
{
    return at_ns == 0 ? -1 : clock_boottime_ns() - at_ns;
}

/* ---- the judgement ---- */

/* Each reason is a fact "reason_NAME". Its subject is a voter or a namespace, or empty. */
static void add_judgement(const struct agent *agent, struct hfi_facts_builder *builder)
{
    struct judgement judgement;
    judge(agent, &judgement);
    add(builder, NULL, "judgement", judgement.level, judgement_word(judgement.level));
    for (uint32_t i = 0; i < judgement.count; i++) {
        const struct reason *reason = &judgement.reasons[i];
        bool about = reason->subject[0] != '\0';
        struct message_agent subject;
        char key[64];
        snprintf(key, sizeof(key), "reason_%s", reason_name(reason->kind));
        if (about) {
            message_agent_set(&subject, reason->subject, strlen(reason->subject));
        }
        add(builder, about ? &subject : NULL, key, reason_level(reason->kind), reason->text);
    }
}

/* ---- the agent and its host ---- */

static void add_configuration(const struct agent *agent, struct hfi_facts_builder *builder)
{
    const struct config *config = &agent->config;
    add_text(builder, "version", HF_VERSION);
    add_text(builder, "role", agent->host_config.role);
    add_text(builder, "profile", config->profile->name);
    add_text(builder, "built_without", config_built_without());
    add_number(builder, "wire_version", WIRE_VERSION);
    add_number(builder, "pid", getpid());
    add_number(builder, "uptime_ns", age_ns(agent_seen(agent).began_ns));
    add_number(builder, "uid", agent->own);
    add_number(builder, "session_ttl_ns", config->session_ttl_ns);
    add_number(builder, "grace_ns", config->grace_ns);
    add_number(builder, "max_drift_percent", config->max_drift_percent);
    add_text(builder, "state_dir", config->state_dir);
    add_text(builder, "socket", config->socket);
    add_number(builder, "others_admitted", config_admits_others(config, agent->own));
    add_text(builder, "listen", config->listen);
    add_text(builder, "advertise", config->advertise);
}

static void log_clock(const struct agent *agent, struct hfi_facts_builder *builder)
{
    const struct agent_seen seen = agent_seen(agent);
    int64_t ppm;
    if (clock_adjustment_ppm(&ppm)) {
        add_number(builder, "clock_ppm", ppm);
    }
    if (seen.interrupted_ns != 0) {
        add_number(builder, "interrupted_age_ns", age_ns(seen.interrupted_ns));
    }
    add_number(builder, "stalls", to_int64(seen.stalls));
    if (seen.stalls > 0) {
        add_number(builder, "stall_ns", seen.stall_ns);
        add_number(builder, "stall_age_ns", age_ns(seen.stalled_ns));
    }
}

static void add_room(struct hfi_facts_builder *builder, const char *key, int fd)
{
    struct statvfs room;
    if (fd >= 0 && fstatvfs(fd, &room) == 0) {
        add_number(builder, key, to_int64((uint64_t)room.f_bavail * room.f_frsize));
    }
}

static void add_memory(const struct agent *agent, struct hfi_facts_builder *builder)
{
    uint64_t size = 0;
    uint64_t used = 0;
    for (uint32_t i = 0; i < agent->config.namespace_count; i++) {
        const struct region_view region = regions_view(agent, i);
        struct stat status;
        if (fstat(region.fd, &status) == 0) {
            size += (uint64_t)status.st_size;
            used += (uint64_t)status.st_blocks * 512;
        }
        if (region.given_up) {
            add(builder, NULL, "region_rubbish", region.roomless ? 2 : 1,
                agent->config.namespaces[i].name);
        }
    }
    add_number(builder, "regions", agent->config.namespace_count);
    add_number(builder, "shm_size", to_int64(size));
    add_number(builder, "shm_used", to_int64(used));
    add_room(builder, "shm_free", regions_view(agent, 0).fd);
}

/* Adds what agents whose store was replaced have left in /dev/shm: how many folders, how much
 * memory, and when the last of them will be removed. */
static void add_leftovers(const struct agent *agent, struct hfi_facts_builder *builder)
{
    const struct leftovers_view view = leftovers_view(agent);
    if (view.count > 0) {
        add(builder, NULL, "leftovers", view.count, view.folder);
        add_number(builder, "leftovers_size", to_int64(view.bytes));
    }
    if (view.count > 0 && view.last_ns != INT64_MAX) {
        add_number(builder, "leftovers_go_ns", view.last_ns - clock_boottime_ns());
    }
}

/* Adds the number of unproven clients, and some of their names. The previous agent left these
 * clients, and this agent cannot know whether they live. */
static void log_unproven(const struct agent *agent, struct hfi_facts_builder *builder)
{
    char text[FILES_TEXT_MAX] = "";
    size_t used = 0;
    for (const struct agent_client *client = clients_next_unproven(agent, 0);
         client != NULL && used < 200; client = clients_next_unproven(agent, client->id)) {
        const struct host_peer *peer = host_peer_of(agent->host, client->id);
        if (peer != NULL) {
            used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%.40s (pid %d, uid %u)",
                                     used > 0 ? ", " : "", peer->command, (int)client->pid,
                                     (unsigned)client->uid);
        }
    }
    add(builder, NULL, "survivors_unproven", clients_unproven(agent), text);
}

static void add_files(const struct agent *agent, struct hfi_facts_builder *builder)
{
    char text[FILES_TEXT_MAX];
    uint32_t count = files_gone(agent, true, text);
    add(builder, NULL, "files_gone", count, text);
    if (files_config_is_loose(agent)) {
        add(builder, NULL, "config_loose", 1, agent->config_path);
    }
}

/* Adds the names of users and groups in the configuration that this host does not know. */
static void add_unknown(const struct agent *agent, struct hfi_facts_builder *builder)
{
    const struct config *config = &agent->config;
    char text[FILES_TEXT_MAX] = "";
    char location[CONFIG_LOCATION_MAX];
    size_t used = 0;
    for (uint32_t i = 0; i < config->account_count && used < 200; i++) {
        const struct config_account *account = &config->accounts[i];
        if (!account->found) {
            used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s: %.32s",
                                     used > 0 ? ", " : "",
                                     config_location(config, account, location), account->name);
        }
    }
    add(builder, NULL, "accounts_unknown", config_unknown_count(config), text);
}

static void add_limits(const struct agent *agent, struct hfi_facts_builder *builder)
{
    struct rlimit limit;
    /* dup() returns the lowest free descriptor number, which is about the number of descriptors in
     * use. */
    int lowest = dup(agent->state_fd);
    if (lowest >= 0) {
        close(lowest);
        add_number(builder, "descriptors_used", lowest);
    }
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        add_number(builder, "descriptors_max", to_int64(limit.rlim_cur));
    }
    add_number(builder, "descriptors_wanted", agent_descriptors_wanted(agent));
    add_number(builder, "clients_max", agent->config.limits.clients);
    add_number(builder, "locks_max", agent->config.limits.locks);
}

static void add_disk(const struct agent *agent, struct hfi_facts_builder *builder)
{
    struct stat status;
    if (fstat(agent->state_fd, &status) == 0) {
        add_number(builder, "state_dir_mode", status.st_mode & 07777);
        add_number(builder, "state_dir_uid", status.st_uid);
    }
    add_room(builder, "state_dir_free", agent->state_fd);
    const struct recent *took = disk_took(agent);
    add_number(builder, "flushes", to_int64(recent_count(took)));
    if (recent_count(took) > 0) {
        add_number(builder, "flush_last_ns", recent_last_ns(took));
        add_number(builder, "flush_worst_ns", recent_worst_ns(took));
    }
    add_number(builder, "flush_pending_ns", age_ns(disk_begun_ns(agent)));
}

/* ---- the cell ---- */

/* Adds what is known of the record of voters. voters_differ: [voters] of the configuration differs
 * from the record. removed: its subject is an agent, and the record was made by removing that
 * voter. */
static void add_record(const struct agent *agent, struct hfi_facts_builder *builder)
{
    char text[8];
    add_number(builder, "voters_number", agent->record.number);
    add_number(builder, "voters_complete", agent->record.complete);
    add_number(builder, "voters_differ", record_differs(agent, text, sizeof(text)));
    if (agent->record.act == MESSAGE_MEMBER_REMOVE) {
        add(builder, &agent->record.changed, "removed", 1, NULL);
    }
}

static void add_store(const struct agent *agent, struct hfi_facts_builder *builder)
{
    if (agent->host_config.self != HOST_OBSERVER && agent->quorum != NULL) {
        bool votes = quorum_voter_status(agent->quorum) == MESSAGE_STATUS_VOTING;
        add(builder, NULL, "votes", votes, judge_vote(agent));
    }
}

/* Counts the partitions that each voter coordinates, by its heartbeats. The only voter of a cell
 * sends no heartbeats, so all partitions are counted for it. */
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

static void add_voter(const struct agent *agent, uint32_t voter, struct hfi_facts_builder *builder)
{
    const struct message_agent *name = &agent->host_config.voters[voter];
    const struct pace *pace = renewal_pace(agent->renewal, voter);
    const struct recent *round_trip = pace_round_trip(pace);
    const struct pace_rate rate = pace_rate(pace);
    bool self = voter == agent->host_config.self;
    add(builder, name, "self", self, NULL);
    add(builder, name, "answered_age_ns", age_ns(renewal_answered_ns(agent->renewal, voter)), NULL);
    add(builder, name, "rules_differ", driver_rules_differ(agent->driver, voter), NULL);
    add(builder, name, "starts_over", driver_starts_over(agent->driver, voter), NULL);
    if (recent_count(round_trip) > 0) {
        add(builder, name, "round_trip_ns", recent_last_ns(round_trip), NULL);
        add(builder, name, "round_trip_worst_ns", recent_worst_ns(round_trip), NULL);
    }
    if (!self) {
        add(builder, name, "connected", peers_connected(agent, name), peers_why_down(agent, name));
        add(builder, name, "version", 0, peers_release(agent, name));
    }
    if (!self && rate.measured) {
        add(builder, name, "clock_low_ppm", rate.low_ppm, NULL);
        add(builder, name, "clock_high_ppm", rate.high_ppm, NULL);
    }
}

static void add_gossip(const struct agent *agent, struct hfi_facts_builder *builder)
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
    add_number(builder, "agents_known", known);
    add_number(builder, "agents_silent", silent);
}

static bool is_observer(const struct agent *agent, const struct gossip_agent_view *view)
{
    const struct host_config *config = &agent->host_config;
    bool voter = view->agent.voter;
    for (uint32_t i = 0; i < config->voter_count; i++) {
        voter = voter || memcmp(&config->voters[i], &view->name, sizeof(view->name)) == 0;
    }
    return !voter;
}

/* Adds the number of observers, and then one fact for each as long as there is room. The value is
 * 1, or 0 if the observer is down: silent for too long, or without a session. The text is its
 * address. */
static void add_observers(const struct agent *agent, struct hfi_facts_builder *builder)
{
    struct gossip_agent_view view;
    int64_t now_ns = clock_boottime_ns();
    int64_t count = 0;
    uint32_t at = 0;
    if (agent->gossip == NULL) {
        add_number(builder, "observers", 0);
        return;
    }
    while (gossip_agent_next(agent->gossip, now_ns, &at, &view)) {
        count += is_observer(agent, &view);
    }
    add_number(builder, "observers", count);
    at = 0;
    while (gossip_agent_next(agent->gossip, now_ns, &at, &view)) {
        bool down = view.silent || view.expired || view.age_ns < 0;
        if (is_observer(agent, &view)) {
            add(builder, &view.name, "observer", !down, view.agent.address);
        }
    }
}

static void add_peers(const struct agent *agent, struct hfi_facts_builder *builder)
{
    if (agent->peers == NULL) {
        return;
    }
    struct peers_view view = peers_view(agent);
    add_number(builder, "inbox_unreachable", view.deaf);
    add_number(builder, "listens_local", config_is_local(agent->config.listen));
    add_number(builder, "tls", view.tls.end_s != 0);
    if (view.tls.end_s != 0) {
        add_number(builder, "tls_begin_s", view.tls.begin_s);
        add_number(builder, "tls_end_s", view.tls.end_s);
    }
    if (view.tls_kept != NULL) {
        add(builder, NULL, "tls_kept", 1, view.tls_kept);
    }
    if (view.refused_ns != 0) {
        add(builder, NULL, "refused_age_ns", age_ns(view.refused_ns), view.refused_text);
    }
}

size_t facts_write(struct agent *agent, uint64_t request, unsigned char *buffer)
{
    struct hfi_facts_builder builder;
    uint32_t partitions[MESSAGE_VOTERS_MAX];
    hfi_facts_begin(&builder, buffer, HFI_FRAME_MAX, request);
    add_judgement(agent, &builder);
    add_configuration(agent, &builder);
    log_clock(agent, &builder);
    add_memory(agent, &builder);
    add_leftovers(agent, &builder);
    add_unknown(agent, &builder);
    add_limits(agent, &builder);
    add_disk(agent, &builder);
    add_files(agent, &builder);
    log_unproven(agent, &builder);
    add_store(agent, &builder);
    add_record(agent, &builder);
    count_partitions(agent, partitions);
    for (uint32_t i = 0; i < agent->host_config.voter_count; i++) {
        add_voter(agent, i, &builder);
        add(&builder, &agent->host_config.voters[i], "partitions", partitions[i], NULL);
    }
    add_gossip(agent, &builder);
    add_peers(agent, &builder);
    add_observers(agent, &builder); /* added last, because there may be no room for all observers */
    return hfi_facts_finish(&builder);
}
