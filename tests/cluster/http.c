/*
 * Tests the agents' answers by HTTP: the counters count what happens to locks, and the state of
 * health depends on the majority. A process that may connect can neither stop these answers nor use
 * up the agent's descriptors.
 */
#include "../suite_main.h"
#include "actor.h"
#include "hello.h"
#include "require.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pwd.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum {
    HOSTS = 3,
    OUTPUT = 65536,
    SILENT = 200,
    CONNECTIONS_MAX = 32,
    LOCK_DELAY_MS = 10,
    COPIES = 1000,
    SETS = 150,
    LOOP_MAX_MS = 15
};

static struct agent_process agents[HOSTS];
/* ports of the agents, and after them the ports of their HTTP servers */
static unsigned ports[2 * HOSTS];
static const char *shown = "figures"; /* the value of `show` in [http] for all agents */

static void stop(unsigned hosts)
{
    for (unsigned i = hosts; i > 0; i--) { /* in reverse order, because each janitor has
                                            * inherited the pipes of the earlier ones */
        agent_destroy(&agents[i - 1]);
    }
}

static int connect_to(unsigned host, int fd)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((in_port_t)ports[HOSTS + host]),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct timeval patience = {.tv_sec = GUARD_MS / 1000};
    REQUIRE(fd >= 0, "socket");
    REQUIRE(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) == 0, "timeout");
    if (connect(fd, (const struct sockaddr *)&address, sizeof(address)) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

static int dial(unsigned host)
{
    return connect_to(host, socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
}

/* Sends the request to that host's HTTP server. Returns the whole answer, in a static buffer.
 * Returns "" if the agent does not run. */
static const char *exchange(unsigned host, const char *request, size_t size)
{
    static char output[OUTPUT];
    size_t used = 0;
    int fd = dial(host);
    output[0] = '\0';
    if (fd < 0) {
        return output;
    }
    (void)!send(fd, request, size, MSG_NOSIGNAL);
    for (ssize_t got = 1; got > 0 && used<sizeof(output) - 1; used += got> 0 ? (size_t)got : 0) {
        got = recv(fd, output + used, sizeof(output) - 1 - used, 0);
    }
    output[used] = '\0';
    close(fd);
    return output;
}

static const char *get(unsigned host, const char *path)
{
    char request[128];
    int size = snprintf(request, sizeof(request), "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n",
                        path);
    return exchange(host, request, (size_t)size);
}

/* Returns the value of a metric's sample, or -1 if the page has no such sample. */
static double metric(unsigned host, const char *sample)
{
    char line[160];
    const char *text = get(host, "/metrics");
    snprintf(line, sizeof(line), "\n%s ", sample);
    const char *at = strstr(text, line);
    return at != NULL ? strtod(at + strlen(line), NULL) : -1;
}

static void await_metric(unsigned host, const char *sample, double least)
{
    int64_t end_ns = boottime_now() + GUARD_MS * MS;
    for (double value = -1; value < least;) {
        value = metric(host, sample);
        REQUIRE(boottime_now() < end_ns || value >= least, "%s is %g, expected %g", sample, value,
                least);
        sleep_ms(value < least ? 20 : 0);
    }
}

static void await_health(unsigned host, const char *status, const char *text)
{
    int64_t end_ns = boottime_now() + GUARD_MS * MS;
    for (;;) {
        const char *answer = get(host, "/healthz");
        if (strncmp(answer, status, strlen(status)) == 0 && strstr(answer, text) != NULL) {
            return;
        }
        REQUIRE(boottime_now() < end_ns, "expected %s %s, found %s", status, text, answer);
        sleep_ms(20);
    }
}

static void await_logged(unsigned host, const char *text)
{
    for (unsigned waited_ms = 0; agent_logged(&agents[host], text) == 0; waited_ms += 20) {
        REQUIRE(waited_ms < GUARD_MS, "not logged: %s", text);
        sleep_ms(20);
    }
}

static void start(unsigned hosts)
{
    char text[768];
    char voters[256] = "";
    agent_free_ports(ports, 2 * HOSTS);
    for (unsigned i = 0; i < hosts && hosts > 1; i++) {
        size_t used = strlen(voters);
        snprintf(voters + used, sizeof(voters) - used, "%shost-%c = tcp://127.0.0.1:%u\n",
                 i == 0 ? "[voters]\n" : "", 'a' + i, ports[i]);
    }
    for (unsigned i = 0; i < hosts; i++) {
        snprintf(text, sizeof(text),
                 "[agent]\nname = host-%c\ncell = http\nlog_level = debug\n"
                 "state_dir = %%D/state\n"
                 "socket = %%D/agent.sock\n[cell]\nsession_ttl = 5s\n%s"
                 "[http]\nlisten = http://127.0.0.1:%u\nshow = %s\n"
                 "advertise = http://host-%c.example/\n",
                 'a' + i, voters, ports[HOSTS + i], shown, 'a' + i);
        agent_create(&agents[i], text);
        agent_launch(&agents[i]);
    }
    for (unsigned i = 0; i < hosts; i++) {
        agent_await_socket(&agents[i]);
        await_health(i, "HTTP/1.1 200 ", "\r\n\r\nwell\n");
    }
}

START_TEST(counters_move_with_a_lock_from_host_to_host)
{
    struct actor one;
    struct actor other;
    struct actor_reply reply;
    struct hf_hold hold;
    start(HOSTS);
    actor_ready(&one, agents[0].socket);
    actor_ready(&other, agents[1].socket);
    ck_assert_int_eq(actor_open(&one, 0, "job/1", LOCK_DELAY_MS), 0);
    ck_assert_int_eq(actor_open(&other, 0, "job/1", LOCK_DELAY_MS), 0);
    ck_assert_int_eq(actor_acquire(&one, 0, HF_EXCLUSIVE, GUARD_MS, &hold), 0);
    await_metric(0, "holdfast_locks_held", 1);
    double handoffs = metric(0, "holdfast_handoffs_total");
    actor_wait(&other, 0, HF_EXCLUSIVE);
    await_metric(0, "holdfast_recalls_total", 1);
    await_metric(1, "holdfast_waiters", 1);
    ck_assert_int_eq(actor_release(&one, 0), 0);
    ck_assert(actor_receive(&other, &reply, GUARD_MS));
    await_metric(0, "holdfast_handoffs_total", handoffs + 1);
    await_metric(0, "holdfast_give_backs_total", 1);
    await_metric(1, "holdfast_grants_total", 1);
    await_metric(1, "holdfast_acquire_seconds_count", 1);
    ck_assert(metric(1, "holdfast_holds_lost_total{cause=\"death\"}") == 0);
    actor_kill(&other);
    await_metric(1, "holdfast_holds_lost_total{cause=\"death\"}", 1);
    double coordinated = 0;
    for (unsigned i = 0; i < HOSTS; i++) {
        ck_assert(metric(i, "holdfast_flush_seconds_count") > 0);
        ck_assert(metric(i, "holdfast_renewal_round_trip_seconds_count") > 0);
        ck_assert(metric(i, "holdfast_peer_packets_sent_total{peer=\"host-a\"}") != 0);
        coordinated += metric(i, "holdfast_partitions");
    }
    ck_assert(coordinated > 0);
    actor_end(&one);
    stop(HOSTS);
}
END_TEST

static const char *await_page(unsigned host, const char *text)
{
    int64_t end_ns = boottime_now() + GUARD_MS * MS;
    for (;;) {
        const char *page = get(host, "/");
        if (strstr(page, text) != NULL) {
            return page;
        }
        REQUIRE(boottime_now() < end_ns, "no %s in %s", text, page);
        sleep_ms(50);
    }
}

/* The page on each host shows the holds and waits of other hosts. It shows the names of locks and
 * holders only if `show` in [http] allows that. */
START_TEST(the_page_shows_the_cell)
{
    static const char *const words[] = {"figures", "locks", "holders"};
    static const char held[] = "<td class=\"number\">1</td><td class=\"number\">0</td>";
    struct actor one;
    struct actor other;
    struct hf_hold hold;
    char holder[64];
    shown = words[_i];
    start(HOSTS);
    actor_ready(&one, agents[0].socket);
    actor_ready(&other, agents[1].socket);
    ck_assert_int_eq(actor_open(&one, 0, "job/<1>", LOCK_DELAY_MS), 0);
    ck_assert_int_eq(actor_open(&other, 0, "job/<1>", LOCK_DELAY_MS), 0);
    ck_assert_int_eq(actor_acquire(&one, 0, HF_EXCLUSIVE, GUARD_MS, &hold), 0);
    actor_wait(&other, 0, HF_EXCLUSIVE);
    await_page(2, held);
    await_page(2, "<a rel=\"noreferrer\" href=\"http://host-a.example/\">host-a</a>");
    await_page(2, "<a rel=\"noreferrer\" href=\"http://host-b.example/\">host-b</a>");
    const char *page = await_page(2, "<dt>awaited</dt><dd>1</dd>");
    const struct passwd *user = getpwuid(getuid());
    if (user != NULL) {
        snprintf(holder, sizeof(holder), "process %d of user %s", (int)one.pid, user->pw_name);
    } else {
        snprintf(holder, sizeof(holder), "process %d of user %u", (int)one.pid, (unsigned)getuid());
    }
    ck_assert_int_eq(strstr(page, "job/&lt;1&gt;") != NULL, _i > 0);
    ck_assert_int_eq(strstr(page, "host-a for ") != NULL, _i > 0);
    ck_assert_int_eq(strstr(page, "1 on host-b<br>") != NULL, _i > 0);
    ck_assert_int_eq(strstr(page, holder) != NULL, _i > 1);
    ck_assert_int_eq(strstr(page, "<code><bdi>") != NULL, _i > 1);
    ck_assert_ptr_null(strstr(page, "job/<1>"));
    actor_kill(&other);
    actor_end(&one);
    stop(HOSTS);
    shown = words[0];
}
END_TEST

START_TEST(health_goes_and_comes_with_the_majority)
{
    static const char interruptions[] = "holdfast_session_interruptions_total";
    start(HOSTS);
    await_health(0, "HTTP/1.1 200 ", "\r\n\r\nwell\n");
    double before = metric(0, interruptions);
    agent_kill(&agents[1]);
    await_metric(0, "holdfast_voter_up{peer=\"host-c\"}", 1);
    await_health(0, "HTTP/1.1 200 ", "\r\n\r\ndegraded\nvoter_down host-b: it cannot be reached");
    await_metric(0, "holdfast_judgement{state=\"degraded\"}", 1);
    await_metric(0, "holdfast_reasons{state=\"degraded\",reason=\"voter_down\"}", 1);
    await_logged(0, "event=judgement_changed state=degraded reasons=\"voter_down host-b\"");
    agent_kill(&agents[2]);
    await_health(0, "HTTP/1.1 503 ", "\r\n\r\nfailing\nsession_jeopardy: in jeopardy: no majority");
    await_metric(0, interruptions, before + 1);
    await_metric(0, "holdfast_judgement{state=\"failing\"}", 1);
    await_logged(
        0, "event=judgement_changed state=failing reasons=\"session_jeopardy, voter_down host-b");
    agent_launch(&agents[1]);
    await_health(0, "HTTP/1.1 200 ", "\r\n\r\ndegraded\nvoter_down host-c: it cannot be reached");
    agent_launch(&agents[2]);
    await_health(0, "HTTP/1.1 200 ", "\r\n\r\nwell\n");
    stop(HOSTS);
}
END_TEST

/* Returns what a command of `holdfast` prints about that host's agent, in a static buffer. */
static const char *command(unsigned host, const char *words)
{
    static char output[OUTPUT];
    char line[256];
    snprintf(line, sizeof(line), "%s -s %s %s", binary_path("holdfast"), agents[host].socket,
             words);
    FILE *pipe = popen(line, "re");
    REQUIRE(pipe != NULL, "popen");
    output[fread(output, 1, sizeof(output) - 1, pipe)] = '\0';
    (void)pclose(pipe);
    return output;
}

static void expect(const char *where, const char *text, const char *expected)
{
    ck_assert_msg(strstr(text, expected) != NULL, "%s: no %s in %s", where, expected, text);
}

/* The page, /healthz, the metrics, `status` and `doctor` report the same state, in the same
 * words. */
START_TEST(a_refused_voter_is_told_everywhere_in_the_same_words)
{
    static const char reason[] = "it does not vote: its store is not the one that the cell knows, "
                                 "or an old copy";
    char expected[256];
    char line[256];
    start(HOSTS);
    expect("status", command(0, "status"), "\nstate    well\n");
    agent_kill(&agents[2]);
    snprintf(line, sizeof(line), "rm -r %s/state", agents[2].folder);
    ck_assert_int_eq(system(line), 0);
    agent_start(&agents[2]);
    snprintf(expected, sizeof(expected), "\r\n\r\ndegraded\nvoter_refused host-c: %s\n", reason);
    await_health(0, "HTTP/1.1 200 ", expected);
    snprintf(expected, sizeof(expected),
             "<code>voter_refused</code> <strong>host-c</strong>:<br>%s <small>(degraded)</small>",
             reason);
    expect("page", get(0, "/"), expected);
    ck_assert(metric(0, "holdfast_judgement{state=\"degraded\"}") == 1);
    ck_assert(metric(0, "holdfast_reasons{state=\"degraded\",reason=\"voter_refused\"}") == 1);
    snprintf(expected, sizeof(expected), "\nstate    degraded\nreason   voter_refused host-c: %s\n",
             reason);
    expect("status", command(0, "status"), expected);
    snprintf(expected, sizeof(expected),
             "\"judgement\":\"degraded\",\"reasons\":[{\"name\":"
             "\"voter_refused\",\"subject\":\"host-c\",\"level\":\"degraded\",\"text\":\"%s\"}",
             reason);
    expect("status --json", command(0, "status --json"), expected);
    expect("doctor", command(0, "doctor"), "judgement    degraded: voter_refused host-c\n");
    snprintf(expected, sizeof(expected), "error  voters       host-c: %s\n", reason);
    expect("doctor", command(0, "doctor"), expected);
    await_health(2, "HTTP/1.1 200 ",
                 "\r\n\r\ndegraded\nnot_voting: this voter does not vote: its "
                 "store is refused\n");
    stop(HOSTS);
}
END_TEST

/* Returns a socket that is bound to the HTTP port of that host. */
static int take_port(unsigned host)
{
    const int on = 1;
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((in_port_t)ports[HOSTS + host]),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    REQUIRE(fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0, "socket");
    REQUIRE(bind(fd, (const struct sockaddr *)&address, sizeof(address)) == 0 && listen(fd, 1) == 0,
            "the port is taken");
    return fd;
}

/* Another process has the agent's HTTP port. The agent serves locks without it, reports what is
 * missing, and takes the port once it is free. */
START_TEST(a_port_that_is_taken_is_tried_again)
{
    start(1);
    ck_assert_int_eq(agent_stop(&agents[0]), 0);
    int fd = take_port(0);
    agent_start(&agents[0]);
    expect("status", command(0, "status"),
           "\nstate    degraded\nreason   http_down: [http] does not "
           "listen: ");
    expect("doctor", command(0, "doctor"), "warn   http         [http] does not listen: ");
    await_logged(0, "event=judgement_changed state=degraded reasons=http_down");
    sleep_ms(3000); /* in this time the agent tries again, but logs the failure only once */
    ck_assert_uint_eq(agent_logged(&agents[0], "event=http_failed"), 1);
    close(fd);
    await_health(0, "HTTP/1.1 200 ", "\r\n\r\nwell\n");
    await_logged(0, "event=http_listens");
    expect("status", command(0, "status"), "\nstate    well\n");
    stop(1);
}
END_TEST

/* A lease ran out while no agent ran, and the session goes on within the grace period. The next
 * agent counts the interruption. */
START_TEST(a_lease_that_ran_out_without_an_agent_is_counted)
{
    start(1);
    double epoch = metric(0, "holdfast_session_epoch");
    ck_assert(metric(0, "holdfast_session_interruptions_total") == 0);
    agent_kill(&agents[0]);
    sleep_ms(5500);
    agent_start(&agents[0]);
    await_health(0, "HTTP/1.1 200 ", "\r\n\r\nwell\n");
    ck_assert(metric(0, "holdfast_session_interruptions_total") == 1 ||
              metric(0, "holdfast_session_epoch") > epoch); /* if the start took too long, there
                                                             * is a new session instead */
    stop(1);
}
END_TEST

START_TEST(what_is_no_request_for_a_page_is_refused)
{
    static char large[3 * 4096];
    static const struct {
        const char *request;
        const char *status;
    } cases[] = {
        {"GET /nothing HTTP/1.1\r\n\r\n", "HTTP/1.1 404 "},
        {"GET /metrics/ HTTP/1.1\r\n\r\n", "HTTP/1.1 404 "},
        {"GET /healthz?x=1 HTTP/1.0\r\n\r\n", "HTTP/1.1 200 "},
        {"POST /metrics HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", "HTTP/1.1 405 "},
        {"HEAD / HTTP/1.1\r\n\r\n", "HTTP/1.1 200 "},
        {"GET / HTTP/2\r\n\r\n", "HTTP/1.1 400 "},
        {"GET metrics HTTP/1.1\r\n\r\n", "HTTP/1.1 400 "},
        {"rubbish\n\n", "HTTP/1.1 400 "},
        {"\n\n", "HTTP/1.1 400 "},
        /* A browser sends this from a foreign page, whose host name resolves to this host's
         * address. */
        {"GET / HTTP/1.1\r\nHost: evil.example:7412\r\n\r\n", "HTTP/1.1 421 "},
        {"GET / HTTP/1.1\r\nA: b\r\nhost:  127.0.0.1.evil.example\r\n\r\n", "HTTP/1.1 421 "},
        {"HEAD / HTTP/1.1\r\nHost: \r\n\r\n", "HTTP/1.1 421 "},
        {"GET / HTTP/1.1\r\nHost: LOCALHOST:1\r\n\r\n", "HTTP/1.1 200 "},
        {"GET / HTTP/1.1\r\nHost: host-a\r\nX: y\r\n\r\n", "HTTP/1.1 200 "},
        {"GET / HTTP/1.1\r\nHost: [::1]:7412\r\n\r\n", "HTTP/1.1 200 "},
        {"GET / HTTP/1.1\r\nHost: 10.0.0.1\r\n\r\nHost: x\r\n", "HTTP/1.1 200 "},
    };
    start(1);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const char *answer = exchange(0, cases[i].request, strlen(cases[i].request));
        ck_assert_msg(strncmp(answer, cases[i].status, strlen(cases[i].status)) == 0, "%s: %s",
                      cases[i].request, answer);
    }
    ck_assert_ptr_nonnull(strstr(get(0, "/"), "<h1>host-a</h1>\n<p>voter of cell http, "));
    ck_assert_ptr_nonnull(strstr(get(0, "/"), "http-equiv=\"refresh\""));
    ck_assert_ptr_null(strstr(get(0, "/still"), "http-equiv=\"refresh\""));
    ck_assert_ptr_nonnull(strstr(get(0, "/"), "\r\nContent-Security-Policy: default-src 'none'; "));
    memset(large, 'a', sizeof(large));
    memcpy(large, "GET /", 5);
    ck_assert(strncmp(exchange(0, large, sizeof(large)), "HTTP/1.1 431 ", 13) == 0);
    ck_assert(strncmp(exchange(0, "GET /\0 HTTP/1.1\r\n\r\n", 19), "HTTP/1.1 400 ", 13) == 0);
    stop(1);
}
END_TEST

START_TEST(silent_connections_cost_little_and_stop_nobody)
{
    int silent[SILENT];
    start(1);
    await_health(0, "HTTP/1.1 200 ", "well");
    unsigned before = agent_descriptors(&agents[0]);
    for (unsigned i = 0; i < SILENT; i++) {
        silent[i] = dial(0);
        REQUIRE(silent[i] >= 0, "dial");
        (void)!send(silent[i], "GET /metrics HTT", 16, MSG_NOSIGNAL);
    }
    await_health(0, "HTTP/1.1 200 ", "well");
    ck_assert_uint_le(agent_descriptors(&agents[0]), before + CONNECTIONS_MAX);
    for (unsigned i = 0; i < SILENT; i++) {
        char byte;
        ck_assert_int_le(recv(silent[i], &byte, 1, 0), 0); /* the server closes the silent
                                                            * connections one by one */
        close(silent[i]);
    }
    await_health(0, "HTTP/1.1 200 ", "well");
    /* The server closes its end of a connection a moment after the client has closed the other
     * end. */
    for (int64_t end_ns = boottime_now() + GUARD_MS * MS;
         agent_descriptors(&agents[0]) > before + 1 && boottime_now() < end_ns;) {
        sleep_ms(10);
    }
    ck_assert_uint_le(agent_descriptors(&agents[0]), before + 1);
    stop(1);
}
END_TEST

/* The metrics count the lines that any limit kept out of the log. Some of these lines are about
 * processes that connect. */
START_TEST(lines_that_are_left_out_are_counted)
{
    /* The log takes the same text of one process only once. */
    enum { OFFENCES = 10, TOLD = 1, CONNECTS = 120 };
    static const char missing[] = "holdfast_log_lines_missing_total{reason=\"limit\"}";
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fds[CONNECTS];
    start(1);
    snprintf(address.sun_path, sizeof(address.sun_path), "%s", agents[0].socket);
    ck_assert(metric(0, missing) == 0);
    for (unsigned i = 0; i < OFFENCES; i++) {
        char byte;
        int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
        REQUIRE(connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0, "connect");
        (void)!send(fd, "rubbish", 7, MSG_NOSIGNAL);
        while (recv(fd, &byte, 1, 0) > 0) {
        }
        close(fd);
    }
    ck_assert(metric(0, missing) == OFFENCES - TOLD);
    /* All clients send HELLO before one of them reads its answer. If they took turns, a busy
     * machine could be so slow that the limit allows a line for each client. */
    for (unsigned i = 0; i < CONNECTS; i++) {
        fds[i] = hello_dial(agents[0].socket);
        ck_assert(fds[i] >= 0 && hello_greet(fds[i], &(struct hello_as){.client = 0}));
    }
    for (unsigned i = 0; i < CONNECTS; i++) {
        struct hfi_frame frame;
        ck_assert(hello_receive(fds[i], &frame, NULL));
        ck_assert_int_eq(frame.kind, HFI_FRAME_WELCOME);
        close(fds[i]);
    }
    ck_assert(metric(0, missing) > OFFENCES - TOLD);
    stop(1);
}
END_TEST

/* Returns the processor time of the agent's first thread, which runs its loop, in ns. */
static int64_t loop_spent_ns(void)
{
    char name[64];
    long long spent_ns = -1;
    snprintf(name, sizeof(name), "/proc/%d/task/%d/schedstat", (int)agents[0].pid,
             (int)agents[0].pid);
    FILE *file = fopen(name, "re");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_eq(fscanf(file, "%lld", &spent_ns), 1);
    fclose(file);
    return spent_ns;
}

/* A client watches its end of the connection by many epoll entries. The kernel walks them in the
 * thread that sends to the client. So that thread must not be the agent's loop. */
START_TEST(who_watches_its_end_often_costs_the_loop_nothing)
{
    static const char request[] = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";
    struct rlimit limit = {COPIES + SETS + 200, COPIES + SETS + 200};
    int copies[COPIES];
    char bytes[4096];
    unsigned size = 0;
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    start(1);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    for (unsigned i = 0; i < COPIES; i++) { /* an epoll set takes each descriptor only once */
        copies[i] = dup(fd);
        ck_assert_int_ge(copies[i], 0);
    }
    for (unsigned i = 0; i < COPIES * SETS; i++) {
        static int set;
        struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLET};
        set = i % COPIES == 0 ? epoll_create1(EPOLL_CLOEXEC) : set;
        ck_assert_int_eq(epoll_ctl(set, EPOLL_CTL_ADD, copies[i % COPIES], &event), 0);
    }
    ck_assert_int_eq(connect_to(0, fd), fd);
    int64_t spent_ns = loop_spent_ns();
    ck_assert_int_gt(send(fd, request, sizeof(request) - 1, MSG_NOSIGNAL), 0);
    for (ssize_t got; (got = recv(fd, bytes, sizeof(bytes), 0)) > 0;) {
        size += (unsigned)got;
    }
    spent_ns = loop_spent_ns() - spent_ns;
    printf("%u bytes: %.2f ms of the loop's processor time\n", size, (double)spent_ns / 1e6);
    ck_assert_uint_gt(size, 1000);
    ck_assert_int_lt(spent_ns, LOOP_MAX_MS * MS);
    stop(1);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("http");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, counters_move_with_a_lock_from_host_to_host);
    tcase_add_loop_test(tests, the_page_shows_the_cell, 0, 3);
    tcase_add_test(tests, health_goes_and_comes_with_the_majority);
    tcase_add_test(tests, a_refused_voter_is_told_everywhere_in_the_same_words);
    tcase_add_test(tests, a_port_that_is_taken_is_tried_again);
    tcase_add_test(tests, a_lease_that_ran_out_without_an_agent_is_counted);
    tcase_add_test(tests, what_is_no_request_for_a_page_is_refused);
    tcase_add_test(tests, silent_connections_cost_little_and_stop_nobody);
    tcase_add_test(tests, lines_that_are_left_out_are_counted);
    tcase_add_test(tests, who_watches_its_end_often_costs_the_loop_nothing);
    return suite_main("http", tests);
}
