/*
 * The event loop: one timer for everything that is due, the signals, and the orderly end.
 *
 * The loop never wakes without a reason: the timer is set to the earliest time that the cores, the
 * socket or systemd's watchdog asks for.
 */
#include "run/loop.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent.h"
#include "driver/disk.h"
#include "driver/driver.h"
#include "io/clock.h"
#include "io/notify.h"
#include "io/resident.h"
#include "observe/facts.h"
#include "observe/files.h"
#include "observe/judge.h"
#include "observe/log.h"
#include "observe/web.h"
#include "peers/peers.h"
#include "proto/check.h"
#include "proto/probe.h"
#include "run/door.h"
#include "run/keeper.h"
#include "run/record.h"
#include "run/start.h"
#include "serve/backups.h"
#include "serve/clients.h"
#include "serve/leftovers.h"
#include "serve/processes.h"
#include "serve/regions.h"
#include "serve/serve.h"
#include "serve/users.h"
#include "turn.h"

enum {
    DESCRIPTORS_OWN = 64 + 3 * HOST_NAMESPACES_MAX, /* descriptors for everything but clients */
    DESCRIPTORS_PER_CLIENT = 3,
    COMMITS_UNTIL_CHECKPOINT = 4096, /* after this many commits a checkpoint is made even without a
                                      * quiet moment */
    START_ROUNDS_MAX = 1000,
    TURN_SLOW_PART = 20,   /* a turn longer than session_ttl divided by this is logged */
    STOP_PART = 20,        /* after SIGCONT, a wake-up later than session_ttl divided by this is
                            * logged as a stall */
    RESIGN_MS = 1000,      /* how long an orderly end waits for other voters to take over this
                            * voter's partitions */
    SUSPECT_MS = 50,       /* after a longer turn the keeper looks whether a client held up the
                            * loop */
    KEEPER_LATE_PART = 20, /* a renewal later than session_ttl divided by this is left to the
                            * keeper */
};

struct loop {
    uv_loop_t uv;
    bool open; /* agent_close_loop() has not closed uv yet */
    uv_poll_t timer;
    uv_check_t check;
    uv_signal_t signals[4];
    int timer_fd;
    int64_t armed_ns; /* the time that the timer is set to; INT64_MAX: the timer is not set */
    bool fired;       /* the timer fired in this turn */
    bool in_turn;
    int64_t stops_ns; /* after SIGTERM: the latest time of the agent's end; 0: no SIGTERM came */
    bool ending;
    int exit_code;
    /* Turns. */
    int64_t turn_ns; /* when the present turn began; 0: the turn's duration is measured already */
    struct histogram turn;
    struct turns turns;
    /* The state of the upkeep and of systemd's watchdog. */
    int64_t upkeep_ns;
    int64_t trim_ns; /* when resident_trim() is due next; only with profile_small */
    bool checkpoint_due;
    uint64_t idle_commits;     /* the number of commits at the last checkpoint */
    uint64_t seen_commits;     /* the number of commits at the last upkeep */
    int64_t alive_interval_ns; /* how often to answer systemd's watchdog; 0: systemd expects no
                                * answers */
    int64_t alive_ns;
    /* Values for display and for log lines. */
    struct agent_seen seen;
    bool door_logged;    /* the log says why the socket's file is not made again */
    int64_t rate_ppm;    /* the clock's deviation in the last log line; 0: the clock is well */
    bool session_logged; /* the session's state was logged, and session_safe is set */
    bool session_safe;
    struct log_limit cell_limit;
    struct log_limit stall_limit;
};

/* The handler of SIGCONT sets this: the process may have been stopped, and runs again. Only SIGCONT
 * shows a short stop. But a process that was not stopped may get SIGCONT, too: systemd sends it
 * after SIGTERM. */
static volatile sig_atomic_t continued;

static void on_continue(int number)
{
    (void)number;
    continued = 1;
}

/* ---- turns ---- */

/* Logs and counts a stall. measure: the key of took_ns in the log line. */
static void note_stall(struct agent *agent, const char *measure, int64_t took_ns)
{
    struct log_line line;
    continued = 0;
    agent->loop->seen.stalls++;
    agent->loop->seen.stalled_ns = clock_boottime_ns();
    log_begin_limited(&line, LOG_LEVEL_WARN, "stalled", &agent->loop->stall_limit,
                      agent->loop->seen.stalled_ns);
    log_seconds(&line, measure, took_ns);
    log_end(&line);
    agent->loop->seen.stall_ns = took_ns;
}

/* Only logs and counts. The driver decides what follows from a stall. */
static void on_stalled(void *arg, int64_t turn_ns)
{
    note_stall(arg, "turn", turn_ns);
}

/* If this process may have been stopped, lets the driver react, and returns true. late_ns: how late
 * the timer woke the loop. Without SIGCONT, only a delay of more than a third of session_ttl counts
 * as a stop, because a busy machine also wakes processes late. With SIGCONT, the stop is logged and
 * counted only if the delay is longer than session_ttl divided by STOP_PART. */
static bool react_to_stop(struct agent *agent, int64_t late_ns)
{
    int64_t ttl_ns = agent->config.session_ttl_ns;
    bool signalled = continued;
    if (!signalled && late_ns <= ttl_ns / 3) {
        return false;
    }
    continued = 0;
    if (late_ns > ttl_ns / (signalled ? STOP_PART : 3)) {
        note_stall(agent, "late", late_ns);
    }
    driver_stalled(agent->driver);
    return true;
}

void agent_turn(struct agent *agent, enum turn_part part)
{
    turns_part(&agent->loop->turns, part);
    if (agent->loop->in_turn) {
        return;
    }
    agent->loop->in_turn = true;
    agent->loop->turn_ns = agent->loop->turns.began_ns;
    serve_turn(agent, agent->loop->turns.began_ns, agent->loop->turns.cpu_ns);
    int64_t late_ns = agent->loop->armed_ns == INT64_MAX
                          ? 0
                          : agent->loop->turn_ns - agent->loop->armed_ns;
    if (react_to_stop(agent, late_ns)) {
        late_ns = 0;
    }
    driver_turn(agent->driver, agent->loop->turn_ns - (late_ns > 0 ? late_ns : 0));
    regions_watch(agent, agent->loop->turn_ns);
}

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Measures the turn that ends, and sets the timer for the next one. now_ns: when the driver last
 * looked for work. If the process stops after that time, the timer fires late, and the next turn
 * notices the stall. */
static void arm_timer(struct agent *agent, int64_t now_ns)
{
    int64_t due_ns = driver_next_ns(agent->driver);
    due_ns = earlier(due_ns, serve_next_ns(agent));
    due_ns = earlier(due_ns, regions_next_ns(agent));
    if (agent->loop->alive_interval_ns != 0) {
        due_ns = earlier(due_ns, agent->loop->alive_ns);
    }
    due_ns = agent->loop->stops_ns != 0 ? earlier(due_ns, agent->loop->stops_ns) : due_ns;
    if (agent->loop->turn_ns != 0) {
        histogram_add(&agent->loop->turn, now_ns - agent->loop->turn_ns);
        if (now_ns - agent->loop->turn_ns > SUSPECT_MS * INT64_C(1000000)) {
            keeper_suspect(agent, now_ns);
        }
        agent->loop->turn_ns = 0;
    }
    turns_end(&agent->loop->turns, now_ns, agent->config.session_ttl_ns / TURN_SLOW_PART,
              serve_most(agent));
    keeper_turned(agent, now_ns);
    /* The keeper expects a renewal within a third of session_ttl, even if the driver's next renewal
     * is due later: the driver may move it forward. */
    int64_t renewal_ns = earlier(driver_renewal_ns(agent->driver),
                                 now_ns + agent->config.session_ttl_ns / 3);
    keeper_expect(agent,
                  later(renewal_ns, now_ns) + agent->config.session_ttl_ns / KEEPER_LATE_PART);
    due_ns = due_ns > now_ns
                 ? due_ns
                 : now_ns; /* work that is overdue already must not make the next turn look late */
    if (due_ns != agent->loop->armed_ns) {
        clock_timer_set(agent->loop->timer_fd, due_ns);
        agent->loop->armed_ns = due_ns;
    }
}

/* Lets the loop end after this turn; the agent exits with exit_code. */
static void agent_end(struct agent *agent, int exit_code)
{
    agent->loop->exit_code = exit_code;
    /* uv_stop() is not called. A turn may end outside of uv_run(), and then the stop would hit the
     * later uv_run() that closes the handles. */
    agent->loop->ending = true;
}

static void end_if_failed(struct agent *agent)
{
    /* There is no driver if there was no memory for it. */
    const char *why = agent->driver != NULL ? driver_failed(agent->driver) : NULL;
    if (why != NULL && agent->loop->exit_code == AGENT_EXIT_OK) { /* only once */
        log_simple(LOG_LEVEL_ERROR, "failed", why);
        agent_end(agent, AGENT_EXIT_SOFTWARE);
    }
}

static void checkpoint_if_due(struct agent *agent)
{
    if (agent->loop->checkpoint_due && driver_failed(agent->driver) == NULL) {
        disk_idle(agent);
        agent->loop->idle_commits = driver_commits(agent->driver);
        agent->loop->checkpoint_due = false;
    }
}

/* Ends the agent after SIGTERM, once other voters coordinate its partitions or stops_ns is
 * reached. */
static void end_if_resigned(struct agent *agent)
{
    int64_t now_ns = clock_boottime_ns();
    if (agent->loop->stops_ns == 0 || agent->loop->ending ||
        (!driver_resigned(agent->driver) && now_ns < agent->loop->stops_ns)) {
        return;
    }
    bool done = driver_handed_over(agent->driver);
    struct log_line line;
    log_begin(&line, done ? LOG_LEVEL_INFO : LOG_LEVEL_WARN,
              done ? "handed_over" : "not_handed_over");
    log_seconds(&line, "took", now_ns - agent->loop->stops_ns + RESIGN_MS * INT64_C(1000000));
    if (!done) {
        log_text(
            &line, "text",
            "no other voter took over this voter's partitions in time: waiters of this host may "
            "be passed over while it is away");
    }
    log_end(&line);
    agent_end(agent, AGENT_EXIT_OK);
}

void agent_turn_end(struct agent *agent)
{
    turns_part(&agent->loop->turns, TURN_END);
    driver_flush(agent->driver);
    peers_follow_record(agent);
    disk_follow_record(agent);
    regions_see(agent);
    driver_flush(agent->driver);
    peers_flush(agent);
    checkpoint_if_due(agent);
    int64_t now_ns = clock_boottime_ns();
    if (driver_turn(agent->driver, 0)) {
        driver_flush(agent->driver);
        peers_flush(agent);
    }
    end_if_failed(agent);
    end_if_resigned(agent);
    if (!agent->loop->ending) {
        arm_timer(agent, now_ns);
    }
    agent->loop->in_turn = false;
}

/* ---- what is due ---- */

/* Checks whether the kernel adjusts the rate of its clock by more than max_drift. Logs a change,
 * and informs the driver. */
static void look_at_rate(struct agent *agent)
{
    int64_t ppm;
    int64_t bound_ppm = (int64_t)agent->config.max_drift_percent * 10000;
    if (!clock_adjustment_ppm(&ppm)) {
        return;
    }
    bool beyond = ppm > bound_ppm || ppm < -bound_ppm;
    if (beyond ? ppm != agent->loop->rate_ppm : agent->loop->rate_ppm != 0) {
        /* The holds of an agent that is alone in its cell do not depend on the rate: see
         * driver_clock(). */
        bool alone = record_is_alone(agent);
        struct log_line line;
        log_begin(&line, beyond ? LOG_LEVEL_WARN : LOG_LEVEL_INFO, "clock_rate");
        log_number(&line, "ppm", ppm);
        log_number(&line, "max_ppm", bound_ppm);
        log_text(
            &line, "text",
            !beyond ? "the clock is well again"
            : alone
                ? "the kernel adjusts its clock by more than max_drift: the holds of this host "
                  "depend on this one clock and go on, but no session of another host is ended "
                  "until the clock is well"
                : "the kernel adjusts its clock by more than max_drift: no lease can be measured "
                  "with it, and no hold of this host counts until the clock is well");
        log_end(&line);
    }
    agent->loop->rate_ppm = beyond ? ppm : 0;
    driver_clock(agent->driver, beyond);
}

#define TRIM_EVERY_NS INT64_C(2000000000)

/* With profile_small, the agent unmaps the code that it does not use. */
static void trim(struct agent *agent, int64_t now_ns)
{
    if (agent->config.profile == &profile_small && now_ns >= agent->loop->trim_ns) {
        agent->loop->trim_ns = now_ns + TRIM_EVERY_NS;
        resident_trim();
    }
}

/* Does the upkeep, at most once in each quarter of session_ttl. The timer is not set for the
 * upkeep: it is done when the loop has woken for another reason, such as a renewal. */
static void upkeep(struct agent *agent, int64_t now_ns)
{
    if (now_ns < agent->loop->upkeep_ns) {
        return;
    }
    agent->loop->upkeep_ns = now_ns + agent->config.session_ttl_ns / 4;
    look_at_rate(agent);
    peers_look(agent);
    regions_look(agent);
    leftovers_look(agent, now_ns);
    files_look(agent);
    if (agent->loop->stops_ns == 0) {
        door_look(agent, &agent->loop->door_logged);
    }
    users_look(agent, now_ns);
    web_look(agent, now_ns);
    judge_look(agent, now_ns);
    trim(agent, now_ns);
    uint64_t commits = driver_commits(agent->driver);
    /* A checkpoint costs a flush or two, so it waits until no commit came since the last upkeep. */
    bool quiet = commits != agent->loop->idle_commits && commits == agent->loop->seen_commits;
    agent->loop->checkpoint_due = quiet ||
                                  commits - agent->loop->idle_commits > COMMITS_UNTIL_CHECKPOINT;
    agent->loop->seen_commits = commits;
}

void loop_notify_alive(struct agent *agent, int64_t now_ns)
{
    struct loop *loop = agent->loop;
    if (loop->alive_interval_ns != 0 && loop->alive_ns <= now_ns) {
        notify_alive();
        loop->alive_ns = now_ns + loop->alive_interval_ns;
    }
}

static void do_what_is_due(struct agent *agent)
{
    int64_t now_ns = clock_boottime_ns();
    driver_tick(agent->driver);
    upkeep(agent, now_ns);
    serve_tick(agent, now_ns);
    loop_notify_alive(agent, now_ns);
}

static void on_timer(uv_poll_t *poll, int status, int events)
{
    struct agent *agent = poll->data;
    (void)status;
    (void)events;
    agent_turn(agent, TURN_TIMER);
    clock_timer_drain(agent->loop->timer_fd);
    agent->loop->armed_ns = INT64_MAX; /* the timer has fired */
    agent->loop->fired = true;
}

/* Runs after all callbacks that were ready, so that received packets are handled before the timer's
 * work. If this process got no processor for a while, packets that other agents sent in time are
 * read before the timer's work could declare these agents silent, and this turn's packets answer
 * them. */
static void on_check(uv_check_t *check)
{
    struct agent *agent = check->data;
    if (agent->loop->fired) {
        agent->loop->fired = false;
        agent_turn(agent, TURN_TIMER);
        do_what_is_due(agent);
    }
    if (agent->loop->in_turn) {
        agent_turn_end(agent);
    }
    serve_turned(agent);
}

/* Begins the agent's end. A second signal ends the agent at once. So does the first signal if the
 * agent has nothing to hand over: it does not serve yet, or is the only voter or an observer. */
static void stop(struct agent *agent, int number)
{
    struct log_line line;
    bool first = agent->loop->stops_ns == 0;
    log_begin(&line, LOG_LEVEL_INFO, "stopping");
    log_text(&line, "signal", strsignal(number));
    log_text(&line, "text", "holds stay as they are; an agent that starts in time continues them");
    log_end(&line);
    if (first && serve_is_open(agent) && agent->quorum != NULL && !record_is_alone(agent)) {
        agent->loop->stops_ns = clock_boottime_ns() + RESIGN_MS * INT64_C(1000000);
        driver_resign(agent->driver);
    } else {
        agent_end(agent, AGENT_EXIT_OK);
    }
}

static void on_signal(uv_signal_t *handle, int number)
{
    struct agent *agent = handle->data;
    agent_turn(agent, TURN_SIGNALS);
    if (number == SIGUSR1) {
        peers_log_traffic(agent);
        return;
    }
    if (number == SIGHUP && !agent->config.dev) {
        peers_renew_certificates(agent);
        return;
    }
    stop(agent, number);
}

/* ---- the session, as the driver reports it ---- */

static void on_promise(void *arg, uint32_t epoch, int64_t deadline_ns)
{
    struct agent *agent = arg;
    struct lease_record record = {.epoch = epoch, .deadline_ns = deadline_ns};
    agent_epoch_known(agent);
    regions_promised(agent, deadline_ns);
    memcpy(record.boot_id, agent->boot_id, sizeof(record.boot_id));
    lease_file_write(&agent->lease_file, &record);
}

/* Counts interruptions of the session. An adopted session is taken for safe until its first report:
 * if the lease ran out while no agent ran, the processes were interrupted. */
static void see_interruption(struct agent *agent, bool safe)
{
    int64_t now_ns = clock_boottime_ns();
    bool first = agent->adopted && !agent->loop->session_logged;
    bool was_safe = first || agent->loop->session_safe;
    bool ran_out = first && now_ns > agent->left.deadline_ns;
    agent->loop->seen.interruptions += was_safe && (!safe || ran_out);
    if (safe && agent->loop->seen.interruptions > 0 && (!was_safe || ran_out)) {
        agent->loop->seen.interrupted_ns = now_ns;
    }
    agent->loop->session_logged = true;
    agent->loop->session_safe = safe;
}

static void on_session(void *arg, enum renewal_state state, uint32_t epoch)
{
    static const char *const names[] = {"safe", "jeopardy", "lost"};
    struct agent *agent = arg;
    struct log_line line;
    see_interruption(agent, state == RENEWAL_SAFE);
    if (state == RENEWAL_SAFE) {
        HF_PROBE1(session_safe, epoch);
    } else if (state == RENEWAL_JEOPARDY) {
        HF_PROBE1(session_jeopardy, epoch);
    } else {
        HF_PROBE1(session_lost, epoch);
    }
    log_begin(&line, state == RENEWAL_SAFE ? LOG_LEVEL_INFO : LOG_LEVEL_WARN, "session_state");
    log_text(&line, "state", names[state]);
    log_unsigned(&line, "epoch", epoch);
    log_end(&line);
}

static void on_log(void *arg, const struct action_log *log)
{
    struct agent *agent = arg;
    struct log_line line;
    /* The text may come from another agent, and without TLS from a stranger. So these lines are
     * limited. */
    bool well = log->text[0] == '\0' || log->well;
    log_begin_limited(&line, well ? LOG_LEVEL_INFO : LOG_LEVEL_WARN, log->event,
                      &agent->loop->cell_limit, clock_boottime_ns());
    if (log->agent.length > 0) {
        log_bytes(&line, "agent", log->agent.text, log->agent.length);
    }
    if (log->number != 0) {
        log_number(&line, "number", log->number);
    }
    if (log->text[0] != '\0') {
        log_text(&line, "text", log->text);
    }
    log_end(&line);
}

static int64_t now_for_driver(void *arg)
{
    (void)arg;
    return clock_boottime_ns();
}

static uint64_t random_for_driver(void *arg)
{
    (void)arg;
    return clock_random();
}

static bool make_driver(struct agent *agent)
{
    struct driver_config config = {.host = agent->host,
                                   .quorum = agent->quorum,
                                   .renewal = agent->renewal,
                                   .gossip = agent->gossip,
                                   .self = agent->host_config.agent,
                                   .store_id = {agent->meta.store_id[0], agent->meta.store_id[1]},
                                   .record = agent->record,
                                   .voter_count = agent->host_config.voter_count,
                                   .rules = *agent_rules(agent),
                                   .operations = {.act = serve_act,
                                                  .send = peers_send,
                                                  .send_gossip = peers_send_gossip,
                                                  .address = peers_address,
                                                  .seek = peers_seek,
                                                  .commit = disk_commit,
                                                  .log = on_log,
                                                  .promise = on_promise,
                                                  .record = record_changed,
                                                  .complete = record_complete,
                                                  .learn = agent_learn,
                                                  .session = on_session,
                                                  .stalled = on_stalled,
                                                  .lend = keeper_lend,
                                                  .take_back = keeper_take_back,
                                                  .prolong = keeper_prolong,
                                                  .now_ns = now_for_driver,
                                                  .random = random_for_driver,
                                                  .arg = agent}};
    memcpy(config.voters, agent->host_config.voters, sizeof(config.voters));
    config.record_unsure = record_is_unsure(agent);
    for (uint32_t i = 0; i < agent->config.voter_count; i++) {
        const char *name = agent->config.voters[i].name;
        message_agent_set(&config.written[config.written_count++], name, strlen(name));
    }
    agent->driver = driver_create(&config);
    return agent->driver != NULL;
}

/* ---- for the other parts of the agent ---- */

uv_loop_t *agent_uv(struct agent *agent)
{
    return &agent->loop->uv;
}

int agent_exit_code(const struct agent *agent)
{
    return agent->loop != NULL ? agent->loop->exit_code : AGENT_EXIT_OK;
}

struct agent_seen agent_seen(const struct agent *agent)
{
    struct agent_seen seen = agent->loop->seen;
    seen.slow_turns = agent->loop->turns.slow;
    seen.turn = &agent->loop->turn;
    seen.clock_astray = agent->loop->rate_ppm != 0;
    return seen;
}

size_t agent_facts(struct agent *agent, uint64_t request, unsigned char *buffer)
{
    return facts_write(agent, request, buffer);
}

/* ---- setting up ---- */

bool loop_create(struct agent *agent)
{
    agent->loop = calloc(1, sizeof(*agent->loop));
    if (agent->loop == NULL) {
        return false;
    }
    agent->loop->timer_fd = -1;
    agent->loop->open = uv_loop_init(&agent->loop->uv) == 0;
    return agent->loop->open;
}

void loop_destroy(struct agent *agent)
{
    if (agent->loop != NULL && agent->loop->timer_fd >= 0) {
        close(agent->loop->timer_fd);
    }
    free(agent->loop);
    agent->loop = NULL;
}

bool agent_poll(struct agent *agent, uv_poll_t *poll, int fd, uv_poll_cb callback)
{
    if (uv_poll_init(&agent->loop->uv, poll, fd) != 0) {
        return false;
    }
    poll->data = agent;
    return uv_poll_start(poll, UV_READABLE, callback) == 0;
}

static bool set_up_loop(struct agent *agent)
{
    static const int numbers[] = {SIGTERM, SIGINT, SIGHUP, SIGUSR1};
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    struct sigaction resume = {.sa_handler = on_continue, .sa_flags = SA_RESTART};
    agent->loop->timer_fd = clock_timer_open();
    bool good = agent->loop->timer_fd >= 0 && sigaction(SIGPIPE, &ignore, NULL) == 0 &&
                sigaction(SIGCONT, &resume, NULL) == 0 &&
                agent_poll(agent, &agent->loop->timer, agent->loop->timer_fd, on_timer) &&
                regions_set_up(agent) && users_start(agent) &&
                uv_check_init(&agent->loop->uv, &agent->loop->check) == 0 &&
                uv_check_start(&agent->loop->check, on_check) == 0;
    agent->loop->check.data = agent;
    for (size_t i = 0; good && i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        agent->loop->signals[i].data = agent;
        good = uv_signal_init(&agent->loop->uv, &agent->loop->signals[i]) == 0 &&
               uv_signal_start(&agent->loop->signals[i], on_signal, numbers[i]) == 0;
    }
    return good;
}

static bool is_safe(const struct agent *agent)
{
    bool ready = !record_is_alone(agent) || quorum_ready(agent->quorum);
    return ready && renewal_state(agent->renewal, clock_boottime_ns()) == RENEWAL_SAFE;
}

#define START_TIMEOUT_MAX_NS INT64_C(10000000000)

/*
 * Runs the loop until the first lease is safe. Returns false if a signal ended the agent, or if the
 * only voter of a cell cannot make its lease safe. If a majority is missing, the wait ends after a
 * while and the agent serves: its clients get the state of the session, and wait for locks.
 */
static bool wait_until_safe(struct agent *agent)
{
    /* After a recovery the only voter grants nothing for a while, but its agent serves clients. */
    bool alone = record_is_alone(agent) && agent->meta.recovery_wait_ms == 0;
    /* The wait must be shorter than the time that systemd waits for a start, even if session_ttl is
     * long. */
    int64_t timeout_ns = agent->config.session_ttl_ns < START_TIMEOUT_MAX_NS
                             ? agent->config.session_ttl_ns
                             : START_TIMEOUT_MAX_NS;
    int64_t end_ns = clock_boottime_ns() + timeout_ns;
    agent->loop->in_turn = true;
    if (!alone) {
        agent_epoch_known(agent); /* other voters may learn of the epoch from now on */
    }
    driver_start(agent->driver, agent_epoch(agent), agent->adopted);
    look_at_rate(agent);
    agent_turn_end(agent);
    for (unsigned i = 0; (!alone || i < START_ROUNDS_MAX) && !agent->loop->ending; i++) {
        if (is_safe(agent)) {
            return true;
        }
        if (!alone && clock_boottime_ns() >= end_ns) {
            log_simple(LOG_LEVEL_WARN, "no_majority",
                       "no majority of the voters answers: locks are served when one does");
            return true;
        }
        uv_run(&agent->loop->uv, UV_RUN_ONCE);
    }
    return false;
}

int64_t agent_descriptors_wanted(const struct agent *agent)
{
    return DESCRIPTORS_OWN +
           DESCRIPTORS_PER_CLIENT * ((int64_t)agent->config.limits.clients + SOCKET_GREETING_MAX);
}

/* HTTP is opened first, so that a monitor gets the answer "not healthy" during the wait. */
static bool open_and_wait(struct agent *agent)
{
    web_open(agent);
    return wait_until_safe(agent);
}

static bool begin_to_serve(struct agent *agent)
{
    char error[SOCKET_ERROR_MAX];
    long descriptors = sysconf(_SC_OPEN_MAX);
    long room = (descriptors - DESCRIPTORS_OWN) / DESCRIPTORS_PER_CLIENT;
    long wanted = (long)agent->config.limits.clients + SOCKET_GREETING_MAX;
    long clients = wanted < SOCKET_CONNECTIONS_MAX ? wanted : SOCKET_CONNECTIONS_MAX;
    if (descriptors > 0 && room < clients) {
        clients = room > 16 ? room : 16;
        struct log_line line;
        log_begin(&line, LOG_LEVEL_WARN, "few_descriptors");
        log_number(&line, "connections", clients);
        log_text(&line, "text", "RLIMIT_NOFILE allows fewer connections than [limits] clients");
        log_end(&line);
    }
    if (!serve_open(agent, (uint32_t)clients, error)) {
        log_simple(LOG_LEVEL_ERROR, "failed", error);
        return false;
    }
    files_open_socket(agent);
    agent->loop->alive_interval_ns = notify_alive_interval_ns();
    agent->loop->alive_ns = 0;
    return true;
}

static void log_serving(const struct agent *agent)
{
    struct log_line line;
    log_begin(&line, LOG_LEVEL_INFO, "serving");
    log_text(&line, "socket", agent->config.socket);
    log_text(&line, "cell", agent->config.cell);
    log_text(&line, "agent", agent->config.agent);
    log_text(&line, "role", agent->host_config.role);
    if (agent->config.listen[0] != '\0') {
        log_text(&line, "listen", agent->config.listen);
    }
    log_unsigned(&line, "epoch", renewal_epoch(agent->renewal));
    log_unsigned(&line, "survivors", clients_survivors(agent));
    log_text(&line, "version", HF_VERSION);
    log_text(&line, "profile", agent->config.profile->name);
    log_end(&line);
}

static void on_walk(uv_handle_t *handle, void *arg)
{
    (void)arg;
    if (!uv_is_closing(handle)) {
        uv_close(handle, NULL);
    }
}

void agent_close_loop(struct agent *agent)
{
    if (agent->loop == NULL || !agent->loop->open) {
        return;
    }
    agent->loop->open = false;
    backups_shut(agent->backups);
    if (agent->serve != NULL) {
        serve_shut(agent);
    }
    web_shut(agent);
    clients_close(agent);
    processes_destroy(agent->processes);
    agent->processes = NULL;
    if (agent->regions != NULL) {
        regions_leave(agent);
    }
    uv_walk(&agent->loop->uv, on_walk, NULL);
    uv_run(&agent->loop->uv, UV_RUN_DEFAULT); /* only close callbacks are left */
    if (agent->serve != NULL) {
        serve_forget(agent);
    }
    HF_CHECK(uv_loop_close(&agent->loop->uv) == 0);
    web_close(agent);
}

bool agent_loop(void *arg)
{
    struct agent *agent = arg;
    while (!agent->loop->ending) {
        uv_run(&agent->loop->uv, disk_has_batch(agent) ? UV_RUN_NOWAIT : UV_RUN_ONCE);
        if (!disk_write(agent)) {
            return false;
        }
    }
    return true;
}

static void serve(struct agent *agent)
{
    log_serving(agent);
    notify_ready("serving");
    agent->loop->in_turn = true;
    agent_turn_end(agent);
    disk_may_write(agent, true);
    if (!keeper_open(agent)) {
        log_simple(LOG_LEVEL_WARN, "no_keeper", strerror(errno));
    }
    if (!agent_loop(agent)) {
        disk_stand_by(agent);
    }
    disk_may_write(agent, false);
    keeper_close(agent);
    notify_stopping();
}

/* Frees the memory of the regions of a --dev agent. A development cell often runs only once, and no
 * later agent removes its files in /dev/shm. So if no process uses its regions, their memory is
 * freed, and the next agent that adopts the regions allocates the memory again. The regions of
 * other cells keep their memory, so that a process that fills /dev/shm between two agents takes no
 * memory from them. */
static void slim_regions(const struct agent *agent)
{
    if (agent->config.dev && agent->loop->exit_code == AGENT_EXIT_OK && agent->host != NULL &&
        host_is_deserted(agent->host)) {
        regions_slim(agent);
    }
}

int agent_run(struct agent *agent)
{
    agent->loop->armed_ns = INT64_MAX;
    agent->loop->seen.began_ns = clock_boottime_ns();
    if (!make_driver(agent) || !set_up_loop(agent) || !disk_open(agent) || !peers_start(agent)) {
        log_simple(LOG_LEVEL_ERROR, "failed", "cannot set up the event loop");
        agent->loop->exit_code = AGENT_EXIT_UNAVAILABLE;
    } else if (open_and_wait(agent)) {
        clients_remove_records(agent);
        look_at_rate(agent);
        if (begin_to_serve(agent)) {
            serve(agent);
        } else {
            agent->loop->exit_code = AGENT_EXIT_SOFTWARE;
        }
    } else if (agent->loop->exit_code == AGENT_EXIT_OK && !agent->loop->ending) {
        log_simple(LOG_LEVEL_ERROR, "failed", "the first lease did not become safe");
        agent->loop->exit_code = AGENT_EXIT_SOFTWARE;
    }
    disk_settle(agent);
    peers_flush(agent);
    end_if_failed(agent);
    agent_close_loop(agent);
    peers_close(agent);
    disk_close(agent);
    slim_regions(agent);
    agent_give_epoch_back(agent);
    return agent->loop->exit_code;
}
