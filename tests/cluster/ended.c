/*
 * Three real agents on this machine's loopback are one cell. A hold of a living process ends in
 * each possible way. The process must learn the reason from the event LOST and from hf_why(), and
 * `holdfast lock` must print it in a line. The agent's log and metric report the same reason.
 */
#include "../suite_main.h"
#include "actor.h"
#include "agent_process.h"
#include "holdfast/admin.h"
#include "require.h"

#include <arpa/inet.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>

enum { HOSTS = 3, HERE = 1, OUTPUT = 65536 };

static struct agent_process agents[HOSTS];
/* ports of the agents, and after them the ports of their HTTP servers */
static unsigned ports[2 * HOSTS];
static hf_client *client; /* on host-b */
static hf_lock *lock;

static void start(void)
{
    char text[512];
    agent_free_ports(ports, 2 * HOSTS);
    for (int i = 0; i < HOSTS; i++) {
        snprintf(text, sizeof(text),
                 "[agent]\nname = host-%c\ncell = ended\nstate_dir = %%D/state\n"
                 "socket = %%D/agent.sock\n[cell]\nsession_ttl = 3s\ngrace_period = 500ms\n"
                 "[voters]\nhost-a = tcp://127.0.0.1:%u\nhost-b = tcp://127.0.0.1:%u\n"
                 "host-c = tcp://127.0.0.1:%u\n[http]\nlisten = http://127.0.0.1:%u\n",
                 'a' + i, ports[0], ports[1], ports[2], ports[HOSTS + i]);
        agent_create(&agents[i], text);
        agent_launch(&agents[i]);
    }
    for (int i = 0; i < HOSTS; i++) {
        agent_await_socket(&agents[i]);
    }
    struct hf_options options = HF_OPTIONS_INIT;
    options.socket = agents[HERE].socket;
    ck_assert_int_eq(hf_connect(&options, &client), 0);
    ck_assert_int_ge(hf_event_fd(client), 0);
}

static void stop(void)
{
    hf_disconnect(client);
    for (int i = HOSTS - 1; i >= 0; i--) {
        agent_destroy(&agents[i]);
    }
}

/* Opens and takes the lock on host-b. */
static void take(const struct hf_lock_options *options)
{
    ck_assert_int_eq(hf_open(client, "job", options, &lock), 0);
    ck_assert_int_eq(hf_acquire(lock, HF_EXCLUSIVE, GUARD_MS * MS, NULL), 0);
}

/* Waits for the event LOST, which must have the reason `kind`. Returns the result of hf_why(). */
static struct hf_reason lost_by(enum hf_reason_kind kind)
{
    struct hf_reason reason = HF_REASON_INIT;
    struct hf_event event = {.kind = HF_EVENT_GRANTED};
    struct pollfd polled = {.fd = hf_event_fd(client), .events = POLLIN};
    int64_t end_ns = boottime_now() + GUARD_MS * MS;
    while (event.kind != HF_EVENT_LOST) {
        REQUIRE(boottime_now() < end_ns, "the hold did not end");
        if (hf_next_event(client, &event) != 1) {
            poll(&polled, 1, 100);
        }
    }
    ck_assert_ptr_eq(event.lock, lock);
    ck_assert_int_eq(hf_why(lock, &reason), 0);
    REQUIRE(event.why == kind && reason.kind == kind, "%d, %d: %s", (int)event.why,
            (int)reason.kind, reason.text);
    return reason;
}

/* Returns host-b's page of metrics, in a static buffer. Returns "" if the agent does not answer. */
static const char *metrics(void)
{
    static const char request[] = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";
    static char output[OUTPUT];
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((in_port_t)ports[HOSTS + HERE]),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    size_t used = 0;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(fd, (const struct sockaddr *)&address, sizeof(address)) == 0 &&
        send(fd, request, sizeof(request) - 1, MSG_NOSIGNAL) > 0) {
        for (ssize_t got = 1; got > 0 && used < sizeof(output) - 1;) {
            got = recv(fd, output + used, sizeof(output) - 1 - used, 0);
            used += got > 0 ? (size_t)got : 0;
        }
    }
    close(fd);
    output[used] = '\0';
    return output;
}

/* Waits until a line of host-b's log contains `logged`, and the metric counts one hold lost by
 * `cause`. */
static void await_report(const char *logged, const char *cause)
{
    char sample[80];
    int64_t end_ns = boottime_now() + GUARD_MS * MS;
    snprintf(sample, sizeof(sample), "\nholdfast_holds_lost_total{cause=\"%s\"} 1\n", cause);
    while (agent_logged(&agents[HERE], logged) == 0 || strstr(metrics(), sample) == NULL) {
        REQUIRE(boottime_now() < end_ns, "no %s in the log, or not %s: %s", logged, sample,
                metrics());
        sleep_ms(20);
    }
}

/* Returns the name of the test's user, as the library writes it: its number if it has no name. */
static const char *own_name(void)
{
    static char number[16];
    const struct passwd *self = getpwuid(getuid());
    snprintf(number, sizeof(number), "%d", (int)getuid());
    return self != NULL ? self->pw_name : number;
}

static void run_break(int host)
{
    char command[256];
    snprintf(command, sizeof(command), "exec %s -s %s break job", binary_path("holdfast"),
             agents[host].socket);
    int status = system(command);
    ck_assert(WIFEXITED(status));
    ck_assert_int_eq(WEXITSTATUS(status), 0);
}

START_TEST(broken_from_another_host)
{
    char expected[64];
    take(NULL);
    run_break(0);
    struct hf_reason reason = lost_by(HF_WHY_BROKEN);
    ck_assert_str_eq(reason.agent, "host-a");
    ck_assert_int_eq(reason.uid, getuid());
    ck_assert_int_ge(reason.since_ns, 0);
    snprintf(expected, sizeof(expected), "broken by user %s on host-a", own_name());
    ck_assert_str_eq(reason.text, expected);
    snprintf(expected, sizeof(expected), " reason=broken by=host-a uid=%d", (int)getuid());
    await_report(expected, "break");
    ck_assert_int_eq(hf_release(lock), HF_ELOST);
    ck_assert_int_eq(hf_why(lock, &reason), 0);
    ck_assert_int_eq(reason.kind, HF_WHY_BROKEN);
}
END_TEST

/* After a break the lock is closed for its lock-delay. In that time a wait by another handle of the
 * same client learns that the hold was broken. */
START_TEST(closed_behind_a_broken_hold)
{
    char expected[128];
    struct hf_reason reason = HF_REASON_INIT;
    struct hf_lock_options options = HF_LOCK_OPTIONS_INIT;
    hf_lock *second = NULL;
    options.lock_delay_ns = GUARD_MS * MS;
    take(&options);
    run_break(0);
    ck_assert_int_eq(hf_open(client, "job", &options, &second), 0);
    ck_assert_int_eq(hf_acquire(second, HF_EXCLUSIVE, MS, NULL), HF_ETIMEDOUT);
    ck_assert_int_eq(hf_why(second, &reason), 0);
    ck_assert_int_eq(reason.kind, HF_WHY_CLOSED);
    ck_assert_int_gt(reason.closed_ns, 0);
    snprintf(expected, sizeof(expected),
             " (lock-delay): its last hold was broken by user %s on "
             "host-a",
             own_name());
    REQUIRE(strstr(reason.text, "closed for another ") == reason.text &&
                strstr(reason.text, expected) != NULL,
            "%s", reason.text);
    const char *ago = strstr(reason.text, expected) + strlen(expected);
    REQUIRE(strncmp(ago, ", ", 2) == 0 && strstr(ago, " s ago") != NULL, "%s", reason.text);
    ck_assert(reason.since_ns >= 0 && reason.since_ns < GUARD_MS * MS);
}
END_TEST

/* A process of this host dies, so the lock is closed for its lock-delay. */
START_TEST(closed_behind_a_dead_process)
{
    struct actor holder;
    struct hf_reason reason = HF_REASON_INIT;
    actor_ready(&holder, agents[HERE].socket);
    ck_assert_int_eq(actor_open(&holder, 0, "job", GUARD_MS), 0);
    ck_assert_int_eq(actor_acquire(&holder, 0, HF_EXCLUSIVE, GUARD_MS, NULL), 0);
    actor_kill(&holder);
    int64_t killed_ns = boottime_now();
    ck_assert_int_eq(hf_open(client, "job", NULL, &lock), 0);
    while (reason.kind != HF_WHY_CLOSED) {
        REQUIRE(boottime_now() < killed_ns + GUARD_MS * MS, "%s", reason.text);
        ck_assert_int_eq(hf_why(lock, &reason), 0);
        sleep_ms(10);
    }
    REQUIRE(strstr(reason.text, ": the process that held it ended, 0.") != NULL ||
                reason.since_ns >= 1000 * MS,
            "%s", reason.text);
    ck_assert_int_ge(reason.since_ns, 0);
    ck_assert_int_le(reason.since_ns, boottime_now() - killed_ns + 1000 * MS);
}
END_TEST

START_TEST(broken_on_the_same_host)
{
    char expected[128];
    snprintf(expected, sizeof(expected), "broken by user %s on host-b", own_name());
    take(NULL);
    run_break(HERE);
    ck_assert_str_eq(lost_by(HF_WHY_BROKEN).text, expected);
    await_report(" reason=broken by=host-b ", "break");
}
END_TEST

START_TEST(a_limit)
{
    struct hf_lock_options options = HF_LOCK_OPTIONS_INIT;
    *(_i == 0 ? &options.lease_ns : &options.max_stall_ns) = 700 * MS;
    take(&options);
    ck_assert_str_eq(lost_by(_i == 0 ? HF_WHY_LEASE_OVER : HF_WHY_STALLED).text,
                     _i == 0 ? "its lease of 0.7 s is over" : "no progress was reported for 0.7 s");
    await_report(_i == 0 ? "event=lease_ended lock=job" : " reason=stalled",
                 _i == 0 ? "lease" : "max_stall");
}
END_TEST

START_TEST(the_agent_is_gone)
{
    take(NULL);
    agent_kill(&agents[HERE]);
    struct hf_reason reason = lost_by(HF_WHY_AGENT_GONE);
    ck_assert_int_ge(reason.since_ns, 400 * MS); /* since_ns includes the grace period */
}
END_TEST

START_TEST(no_majority)
{
    take(NULL);
    agent_kill(&agents[0]);
    agent_kill(&agents[2]);
    (void)lost_by(HF_WHY_SESSION_LOST);
    await_report("event=holds_lost number=1 reason=session_lost", "lapse");
}
END_TEST

/* The agent is stopped for longer than the lease, and goes on. */
START_TEST(the_agent_was_stopped)
{
    take(NULL);
    agent_pause(&agents[HERE]);
    (void)lost_by(HF_WHY_SESSION_LOST);
    agent_continue(&agents[HERE]);
}
END_TEST

/* ---- the reasons that `holdfast lock` prints ---- */

static char line[8192]; /* what a command wrote to stderr */

/* Starts `holdfast lock OPTIONS job` on host-b. If `running` is set, waits until CMD runs. */
static pid_t run_holder(const char *options, bool running)
{
    char command[512];
    int64_t end_ns = boottime_now() + GUARD_MS * MS;
    snprintf(command, sizeof(command),
             "cd %s && rm -f up && exec %s -s %s lock %s job -- sh -c 'echo >up; exec sleep 1000' "
             "2>line",
             agents[HERE].folder, binary_path("holdfast"), agents[HERE].socket, options);
    pid_t pid = fork_tied();
    if (pid == 0) {
        execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(127);
    }
    snprintf(command, sizeof(command), "%s/up", agents[HERE].folder);
    while (running && access(command, F_OK) != 0) {
        REQUIRE(boottime_now() < end_ns, "the command does not run");
        sleep_ms(10);
    }
    return pid;
}

static void read_line(void)
{
    char path[128];
    snprintf(path, sizeof(path), "%s/line", agents[HERE].folder);
    FILE *file = fopen(path, "re");
    if (file == NULL) { /* the command has not written a line yet */
        line[0] = '\0';
        return;
    }
    line[fread(line, 1, sizeof(line) - 1, file)] = '\0';
    fclose(file);
}

/* Returns what the command wrote after the lines about its wait for the lock. The command writes
 * such a line if it has to wait for long, as on a busy machine. */
static const char *after_waiting(void)
{
    static const char *const waits[] = {"holdfast lock: job: waiting: ", "{\"event\":\"waiting\","};
    const char *at = line;
    while (strchr(at, '\n') != NULL && (strncmp(at, waits[0], strlen(waits[0])) == 0 ||
                                        strncmp(at, waits[1], strlen(waits[1])) == 0)) {
        at = strchr(at, '\n') + 1;
    }
    return at;
}

/* Waits until the process ends, and checks that it has written the expected line. The line ends
 * with the agent that the process asked. */
static void expect_lost(pid_t pid, const char *expected)
{
    char whole[512];
    int status = wait_for(pid);
    read_line();
    snprintf(whole, sizeof(whole), "%s (asked: %s, from --socket, cell ended)\n", expected,
             agents[HERE].socket);
    REQUIRE(WIFEXITED(status) && WEXITSTATUS(status) == 76, "status %x: %s", (unsigned)status,
            line);
    REQUIRE(strcmp(after_waiting(), whole) == 0, "%s", line);
}

START_TEST(a_command_whose_lock_is_broken)
{
    char expected[256];
    pid_t holder = run_holder("", true);
    run_break(0);
    snprintf(expected, sizeof(expected),
             "holdfast lock: the hold of job ended: broken by user %s on host-a: ending the "
             "command",
             own_name());
    expect_lost(holder, expected);
}
END_TEST

START_TEST(a_command_whose_lock_is_broken_in_json)
{
    pid_t holder = run_holder("--json", true);
    run_break(0);
    ck_assert_int_eq(WEXITSTATUS(wait_for(holder)), 76);
    read_line();
    REQUIRE(strstr(after_waiting(),
                   "{\"event\":\"lost\",\"name\":\"job\",\"error\":null,\"why\":{\"kind\":"
                   "\"broken\",\"agent\":\"host-a\",") == after_waiting(),
            "%s", line);
}
END_TEST

/* Runs `holdfast lock` with that lease, and stops it while CMD runs. Returns 0 if the lease ended
 * before the stop. */
static pid_t stop_holder(int lease_ms)
{
    char text[128];
    bool ended = false;
    int64_t end_ns = boottime_now() + GUARD_MS * MS;
    snprintf(text, sizeof(text), "--lease %dms", lease_ms);
    pid_t holder = run_holder(text, false);
    snprintf(text, sizeof(text), "%s/up", agents[HERE].folder);
    while (access(text, F_OK) != 0 && !ended) {
        REQUIRE(boottime_now() < end_ns, "the command does not run");
        ended = waitpid(holder, NULL, WNOHANG) == holder;
        sleep_ms(10);
    }
    if (!ended) {
        ck_assert_int_eq(kill(holder, SIGSTOP), 0);
        if (!agent_logged(&agents[HERE], "event=lease_ended")) {
            return holder;
        }
        kill_process(holder);
    }
    return 0;
}

/* The guard process ends CMD while `holdfast` itself is stopped. If the machine is so slow that the
 * lease ends before the stop, the test is repeated in a new cell, with a lease twice as long. */
START_TEST(a_command_that_is_stopped_beyond_its_lease)
{
    char expected[128];
    int lease_ms = 700;
    pid_t holder;
    while ((holder = stop_holder(lease_ms)) == 0) {
        lease_ms *= 2;
        ck_assert_int_lt(lease_ms, GUARD_MS);
        stop();
        start();
    }
    await_report("event=lease_ended lock=job", "lease");
    ck_assert_int_eq(kill(holder, SIGCONT), 0);
    snprintf(expected, sizeof(expected),
             "holdfast lock: the hold of job ended: its lease of %d.%d s is over: ending the "
             "command",
             lease_ms / 1000, lease_ms % 1000 / 100);
    expect_lost(holder, expected);
}
END_TEST

START_TEST(a_command_whose_agent_is_killed)
{
    pid_t holder = run_holder("", true);
    agent_kill(&agents[HERE]);
    expect_lost(holder, "holdfast lock: the hold of job ended: this host's session was not renewed "
                        "in time: the agent has ended: ending the command");
}
END_TEST

START_TEST(a_command_without_a_majority)
{
    pid_t holder = run_holder("", true);
    agent_kill(&agents[0]);
    agent_kill(&agents[2]);
    expect_lost(holder, "holdfast lock: the hold of job ended: this host's session was not renewed "
                        "in time: no majority of the voters answered, or the agent stood still: "
                        "ending the command");
}
END_TEST

START_TEST(a_command_that_waits)
{
    int64_t end_ns = boottime_now() + GUARD_MS * MS;
    take(NULL);
    pid_t waiter = run_holder("", false);
    do {
        REQUIRE(boottime_now() < end_ns, "no line");
        sleep_ms(50);
        read_line();
    } while (strchr(line, '\n') == NULL);
    REQUIRE(strncmp(line, "holdfast lock: job: waiting: held on host-b for ", 48) == 0, "%s", line);
    kill_process(waiter);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("ended");
    tcase_set_timeout(tests, 120);
    tcase_add_checked_fixture(tests, start, stop);
    tcase_add_test(tests, broken_from_another_host);
    tcase_add_test(tests, closed_behind_a_broken_hold);
    tcase_add_test(tests, closed_behind_a_dead_process);
    tcase_add_test(tests, broken_on_the_same_host);
    tcase_add_loop_test(tests, a_limit, 0, 2);
    tcase_add_test(tests, the_agent_is_gone);
    tcase_add_test(tests, no_majority);
    tcase_add_test(tests, the_agent_was_stopped);
    tcase_add_test(tests, a_command_whose_lock_is_broken);
    tcase_add_test(tests, a_command_whose_lock_is_broken_in_json);
    tcase_add_test(tests, a_command_that_is_stopped_beyond_its_lease);
    tcase_add_test(tests, a_command_whose_agent_is_killed);
    tcase_add_test(tests, a_command_without_a_majority);
    tcase_add_test(tests, a_command_that_waits);
    return suite_main("ended", tests);
}
