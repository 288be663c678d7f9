/* The facts for a judgement, and its line in the log: see judge.h. */
#include "observe/judge.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "driver/disk.h"
#include "driver/driver.h"
#include "io/clock.h"
#include "observe/files.h"
#include "observe/log.h"
#include "observe/web.h"
#include "peers/peers.h"
#include "serve/clients.h"
#include "serve/regions.h"
#include "serve/serve.h"
#include "turn.h"

static const int64_t room_every_ns = 30000000000;

enum { REASONS_TEXT_MAX = 512 };

struct judgement_log {
    int64_t room_ns;                /* when the disk's free space was last read; 0: never */
    int64_t disk_free;              /* -1: not known */
    int64_t disk_inodes;            /* -1: not known */
    char reasons[REASONS_TEXT_MAX]; /* the reasons of the last judgement that was logged */
    struct log_limit limit;
};

/* The texts that struct judgement_facts points to. */
struct texts {
    const char *namespaces[HOST_NAMESPACES_MAX];
    char files[FILES_TEXT_MAX];
    struct peers_view peers;
};

bool judge_create(struct agent *agent)
{
    agent->judged = calloc(1, sizeof(*agent->judged));
    if (agent->judged != NULL) {
        agent->judged->disk_free = agent->judged->disk_inodes = -1;
    }
    return agent->judged != NULL;
}

void judge_destroy(struct agent *agent)
{
    free(agent->judged);
    agent->judged = NULL;
}

static void collect_session(const struct agent *agent, int64_t now_ns,
                            struct judgement_facts *facts)
{
    int64_t deadline_ns = renewal_deadline_ns(agent->renewal);
    facts->session_ttl_ns = agent->config.session_ttl_ns;
    facts->max_drift_percent = agent->config.max_drift_percent;
    facts->session = renewal_state(agent->renewal, now_ns);
    facts->was_safe = deadline_ns != 0;
    facts->session_ended = host_counts(agent->host)->sessions_lost > 0;
    facts->remaining_ns = deadline_ns != 0 ? deadline_ns - now_ns : 0;
    facts->astray = agent_seen(agent).clock_astray;
}

const char *judge_vote(const struct agent *agent)
{
    static const char *const statuses[] = {
        [MESSAGE_STATUS_OBSERVER] = "observer", [MESSAGE_STATUS_EMPTY] = "empty",
        [MESSAGE_STATUS_LISTED] = "listed",     [MESSAGE_STATUS_VOTING] = "voting",
        [MESSAGE_STATUS_REFUSED] = "refused",   [MESSAGE_STATUS_REJOINING] = "rejoining",
        [MESSAGE_STATUS_RETIRED] = "retired",   [MESSAGE_STATUS_LEARNING] = "learning",
    };
    unsigned status = agent->quorum != NULL ? (unsigned)quorum_voter_status(agent->quorum)
                                            : MESSAGE_STATUS_OBSERVER;
    if (agent->quorum != NULL && quorum_recovery_left_ns(agent->quorum) > 0) {
        return "recovering";
    }
    return status < sizeof(statuses) / sizeof(statuses[0]) ? statuses[status] : NULL;
}

static void collect_voters(const struct agent *agent, int64_t now_ns, struct judgement_facts *facts)
{
    const struct host_config *config = &agent->host_config;
    const char *vote = judge_vote(agent);
    struct driver_voters voters;
    driver_voters(agent->driver, &voters);
    if (config->self != HOST_OBSERVER && vote != NULL && strcmp(vote, "voting") != 0) {
        facts->not_vote = vote;
    }
    facts->voter_count = config->voter_count;
    for (uint32_t i = 0; i < config->voter_count; i++) {
        const struct message_agent *name = &config->voters[i];
        const struct pace *pace = renewal_pace(agent->renewal, i);
        bool answers = renewal_voter_up(agent->renewal, i, now_ns);
        facts->voters[i] = (struct judgement_voter){
            .name = agent->voter_names[i],
            .self = i == config->self,
            .up = (voters.up >> i & 1) != 0,
            .refused = (voters.refused >> i & 1) != 0,
            .starts_over = driver_starts_over(agent->driver, i),
            .rules_differ = driver_rules_differ(agent->driver, i),
            .connected = peers_connected(agent, name),
            .why_down = peers_why_down(agent, name),
            .round_trip_worst_ns = recent_worst_ns(pace_round_trip(pace)),
            .clock_least_ppm = answers ? pace_least_ppm(pace) : 0,
        };
    }
}

static void collect_files(const struct agent *agent, struct texts *texts,
                          struct judgement_facts *facts)
{
    struct stat status;
    facts->namespace_count = agent->config.namespace_count;
    facts->namespaces = texts->namespaces;
    facts->down = regions_given_up(agent);
    facts->roomless = 0;
    for (uint32_t i = 0; i < agent->config.namespace_count; i++) {
        texts->namespaces[i] = agent->config.namespaces[i].name;
        facts->roomless |= (uint64_t)regions_view(agent, i).roomless << i;
    }
    facts->socket_gone = files_socket_gone(agent);
    facts->socket = agent->config.socket;
    if (files_state_gone(agent, false, texts->files) > 0) {
        facts->files_gone = texts->files;
    }
    facts->disk_free = agent->judged->disk_free;
    facts->disk_inodes = agent->judged->disk_inodes;
    int64_t begun_ns = disk_begun_ns(agent);
    facts->flush_worst_ns = recent_worst_ns(disk_took(agent));
    facts->flush_pending_ns = begun_ns != 0 ? clock_boottime_ns() - begun_ns : -1;
    facts->state_dir = agent->config.state_dir;
    facts->state_dir_open = fstat(agent->state_fd, &status) == 0 &&
                            ((status.st_mode & 022) != 0 || status.st_uid != agent->own);
}

static void collect_peers(const struct agent *agent, struct texts *texts,
                          struct judgement_facts *facts)
{
    struct timespec now;
    if (agent->peers == NULL) {
        return;
    }
    clock_gettime(CLOCK_REALTIME, &now);
    texts->peers = peers_view(agent);
    facts->deaf = texts->peers.deaf;
    facts->now_s = now.tv_sec;
    facts->tls_begin_s = texts->peers.tls.begin_s;
    facts->tls_soon_s = texts->peers.tls.soon_s;
    facts->tls_end_s = texts->peers.tls.end_s;
    facts->tls_soon_end_s = texts->peers.tls.soon_end_s;
    facts->tls_soon_ca = texts->peers.tls.soon_ca;
    facts->tls_end_ca = texts->peers.tls.end_ca;
    facts->tls_kept = texts->peers.tls_kept;
}

static void collect_limits(const struct agent *agent, struct judgement_facts *facts)
{
    struct rlimit limit;
    /* dup() returns the lowest free descriptor number, which is about the number of descriptors in
     * use. */
    int lowest = dup(agent->state_fd);
    if (lowest >= 0) {
        close(lowest);
        facts->descriptors_used = lowest;
    }
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur <= INT64_MAX) {
        facts->descriptors_max = (int64_t)limit.rlim_cur;
    }
    facts->clients = clients_with_connection(agent);
    int why;
    int64_t failed_ns = serve_record_failed_ns(agent, &why);
    if (failed_ns != 0) {
        facts->record_failed_age_ns = clock_boottime_ns() - failed_ns;
        facts->record_failed = strerror(why);
    }
    facts->clients_max = agent->config.limits.clients;
}

void judge(const struct agent *agent, struct judgement *out)
{
    struct judgement_facts facts;
    struct texts texts;
    int64_t now_ns = clock_boottime_ns();
    judgement_facts_init(&facts);
    collect_session(agent, now_ns, &facts);
    collect_voters(agent, now_ns, &facts);
    collect_files(agent, &texts, &facts);
    collect_peers(agent, &texts, &facts);
    collect_limits(agent, &facts);
    facts.http_down = web_down(agent);
    judgement_make(&facts, out);
}

/* ---- in the log ---- */

static void look_at_room(struct agent *agent, int64_t now_ns)
{
    struct statvfs room;
    if (agent->judged->room_ns != 0 && now_ns - agent->judged->room_ns < room_every_ns) {
        return;
    }
    bool known = fstatvfs(agent->state_fd, &room) == 0;
    uint64_t free_bytes = known ? (uint64_t)room.f_bavail * room.f_frsize : 0;
    agent->judged->room_ns = now_ns;
    agent->judged->disk_free = known && free_bytes <= INT64_MAX ? (int64_t)free_bytes : -1;
    /* Some file systems (btrfs) do not count inodes: they report 0 as the total. */
    agent->judged->disk_inodes = known && room.f_files > 0 && room.f_favail <= INT64_MAX
                                     ? (int64_t)room.f_favail
                                     : -1;
}

/* Names the reasons as "NAME SUBJECT, NAME". */
static void list_reasons(const struct judgement *judgement, char *out, size_t size)
{
    size_t used = 0;
    out[0] = '\0';
    for (uint32_t i = 0; i < judgement->count && used < size; i++) {
        const struct reason *reason = &judgement->reasons[i];
        used += (size_t)snprintf(out + used, size - used, "%s%s%s%s", used > 0 ? ", " : "",
                                 reason_name(reason->kind), reason->subject[0] != '\0' ? " " : "",
                                 reason->subject);
    }
}

void judge_look(struct agent *agent, int64_t now_ns)
{
    static const enum log_level levels[] = {LOG_LEVEL_INFO, LOG_LEVEL_WARN, LOG_LEVEL_ERROR};
    struct judgement judgement;
    char reasons[REASONS_TEXT_MAX];
    look_at_room(agent, now_ns);
    judge(agent, &judgement);
    list_reasons(&judgement, reasons, sizeof(reasons));
    if (strcmp(reasons, agent->judged->reasons) == 0) {
        return;
    }
    struct log_line line;
    log_begin_limited(&line, levels[judgement.level], "judgement_changed", &agent->judged->limit,
                      now_ns);
    log_text(&line, "state", judgement_word(judgement.level));
    log_text(&line, "reasons", reasons);
    log_end(&line);
    memcpy(agent->judged->reasons, reasons, sizeof(reasons));
}
