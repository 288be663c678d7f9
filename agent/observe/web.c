/* The agent's answers by HTTP: see web.h. */
#include "observe/web.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent.h"
#include "driver/driver.h"
#include "io/clock.h"
#include "io/http_thread.h"
#include "observe/gather.h"
#include "observe/judge.h"
#include "observe/log.h"
#include "observe/metrics.h"
#include "peers/peers.h"
#include "serve/regions.h"
#include "serve/serve.h"
#include "turn.h"

/* Requests within this time get the same figures, because counting every lock is costly. */
static const int64_t survey_every_ns = 1000000000;
static const int64_t retry_min_ns = 1000000000;
static const int64_t retry_max_ns = 60000000000;

struct web {
    struct http_thread *server; /* NULL: the agent does not listen for HTTP now */
    char error[HTTP_ERROR_MAX]; /* why the agent does not listen */
    int64_t retry_ns;           /* when the agent tries again to listen */
    int64_t pause_ns;           /* the pause before retry_ns; it doubles with each failure */
    int64_t surveyed_ns;        /* when `here` and `voting` were last counted; 0: never */
    struct host_survey here;
    struct quorum_survey voting;
    struct metrics metrics;
    struct judgement judgement;
    struct gather *gather;
    char text[METRICS_TEXT_MAX];
};

static void collect_voters(const struct agent *agent, int64_t now_ns, struct metrics *metrics)
{
    const struct host_config *config = &agent->host_config;
    struct peers_figures links[MESSAGE_VOTERS_MAX];
    struct driver_voters voters;
    peers_figures(agent, links, &metrics->others);
    driver_voters(agent->driver, &voters);
    metrics->voter_count = config->voter_count;
    for (uint32_t i = 0; i < config->voter_count; i++) {
        int64_t answered_ns = renewal_answered_ns(agent->renewal, i);
        metrics->voters[i] = (struct metrics_voter){
            .name = agent->voter_names[i],
            .self = i == config->self,
            .up = (voters.up >> i & 1) != 0,
            .refused = (voters.refused >> i & 1) != 0,
            .answer_age_ns = answered_ns != 0 ? now_ns - answered_ns : -1,
            .link = links[i]};
    }
    for (uint32_t why = 0; why < PEERS_REFUSAL_COUNT; why++) {
        metrics->strangers[why] = peers_refused(agent, (enum peers_refusal)why);
    }
}

static void survey(struct web *web, struct agent *agent, int64_t now_ns)
{
    if (web->surveyed_ns != 0 && now_ns - web->surveyed_ns < survey_every_ns) {
        return;
    }
    agent_lend(agent);
    host_survey(agent->host, now_ns, &web->here);
    agent_take_back(agent);
    if (agent->quorum != NULL) {
        quorum_survey(agent->quorum, &web->voting);
    }
    web->surveyed_ns = now_ns;
}

static void collect(struct agent *agent)
{
    const struct agent_seen seen = agent_seen(agent);
    const struct regions_counts counts = regions_counts(agent);
    struct web *web = agent->web;
    int64_t now_ns = clock_boottime_ns();
    int64_t deadline_ns = renewal_deadline_ns(agent->renewal);
    survey(web, agent, now_ns);
    judge(agent, &web->judgement);
    web->metrics = (struct metrics){
        .version = HF_VERSION,
        .cell = agent->config.cell,
        .agent = agent->config.agent,
        .role = agent->host_config.role,
        .uptime_ns = now_ns - seen.began_ns,
        .session = renewal_state(agent->renewal, now_ns),
        .was_safe = deadline_ns != 0,
        .judgement = &web->judgement,
        .epoch = renewal_epoch(agent->renewal),
        .remaining_ns = deadline_ns != 0 ? deadline_ns - now_ns : 0,
        .astray = seen.clock_astray,
        .tls_end_s = agent->peers != NULL ? peers_view(agent).tls.end_s : 0,
        .host = host_counts(agent->host),
        .here = &web->here,
        .quorum = agent->quorum != NULL ? quorum_counts(agent->quorum) : NULL,
        .voting = agent->quorum != NULL ? &web->voting : NULL,
        .driver = driver_counts(agent->driver),
        .commits = driver_commits(agent->driver),
        .round_trip = renewal_round_trips(agent->renewal),
        .turn = seen.turn,
        .interruptions = seen.interruptions,
        .stalls = seen.stalls,
        .slow_turns = seen.slow_turns,
        .costly = serve_costly(agent),
        .regions_given_up = (uint32_t)__builtin_popcountll(regions_given_up(agent)),
        .given_up = counts.given_up,
        .begun_anew = counts.begun_anew,
        .log = log_missing(),
    };
    driver_queues(agent->driver, &web->metrics.queues);
    collect_voters(agent, now_ns, &web->metrics);
}

static void on_request(void *arg, const char *path, struct http_answer *out)
{
    struct agent *agent = arg;
    struct web *web = agent->web;
    out->body = web->text;
    if (strcmp(path, "/metrics") == 0) {
        collect(agent);
        out->status = 200;
        out->type = "text/plain; version=0.0.4; charset=utf-8";
        out->size = metrics_text(&web->metrics, web->text);
    } else if (strcmp(path, "/healthz") == 0) {
        judge(agent, &web->judgement);
        out->status = web->judgement.level < JUDGEMENT_FAILING ? 200 : 503;
        out->size = judgement_text(&web->judgement, web->text, sizeof(web->text));
    } else if (strcmp(path, "/") == 0 || strcmp(path, "/still") == 0) {
        collect(agent);
        out->status = 200;
        out->type = "text/html; charset=utf-8";
        out->body = gather_page(web->gather, &web->metrics, path[1] != '\0', &out->size);
    }
}

static void on_turn(void *arg)
{
    agent_turn(arg, TURN_WEB);
}

static void log_failure(const struct agent *agent, const char *why)
{
    struct log_line line;
    log_begin(&line, LOG_LEVEL_ERROR, "http_failed");
    log_text(&line, "listen", agent->config.http_listen);
    log_text(&line, "text", why);
    log_end(&line);
}

/* Begins to listen. Returns false, with web->error, on failure. */
static bool begin(struct agent *agent)
{
    const struct http_handler handler = {
        .name = agent->config.agent, .answer = on_request, .turn = on_turn, .arg = agent};
    struct web *web = agent->web;
    struct http_address address;
    if (!http_address_read(agent->config.http_listen, &address)) {
        snprintf(web->error, sizeof(web->error), "no such address");
        return false;
    }
    web->server = http_thread_open(agent_uv(agent), &address, &handler, web->error);
    return web->server != NULL;
}

void web_open(struct agent *agent)
{
    if (agent->config.http_listen[0] == '\0') {
        return;
    }
    agent->web = calloc(1, sizeof(*agent->web));
    struct gather *gather = agent->web != NULL ? gather_create(agent) : NULL;
    if (gather == NULL) {
        log_failure(agent, "out of memory");
        free(agent->web);
        agent->web = NULL;
        return;
    }
    agent->web->gather = gather;
    if (!begin(agent)) {
        log_failure(agent, agent->web->error);
        agent->web->pause_ns = retry_min_ns;
        agent->web->retry_ns = clock_boottime_ns() + retry_min_ns;
    }
}

void web_look(struct agent *agent, int64_t now_ns)
{
    struct web *web = agent->web;
    char before[HTTP_ERROR_MAX];
    if (web == NULL) {
        return;
    }
    gather_look(web->gather, now_ns);
    if (web->server != NULL || now_ns < web->retry_ns) {
        return;
    }
    memcpy(before, web->error, sizeof(before));
    if (begin(agent)) {
        struct log_line line;
        log_begin(&line, LOG_LEVEL_INFO, "http_listens");
        log_text(&line, "listen", agent->config.http_listen);
        log_end(&line);
        return;
    }
    if (strcmp(before, web->error) != 0) { /* the same failure is logged only once */
        log_failure(agent, web->error);
    }
    web->pause_ns = web->pause_ns * 2 < retry_max_ns ? web->pause_ns * 2 : retry_max_ns;
    web->retry_ns = now_ns + web->pause_ns;
}

const char *web_down(const struct agent *agent)
{
    bool down = agent->web != NULL && agent->web->server == NULL;
    return down ? agent->web->error : NULL;
}

void web_shut(struct agent *agent)
{
    if (agent->web != NULL) {
        http_thread_shut(agent->web->server);
        gather_shut(agent->web->gather);
    }
}

void web_close(struct agent *agent)
{
    if (agent->web != NULL) {
        http_thread_close(agent->web->server);
        gather_destroy(agent->web->gather);
    }
    free(agent->web);
    agent->web = NULL;
}
