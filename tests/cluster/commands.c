/*
 * Tests the command line tool with a real agent: every exit code that it promises, signals that it
 * passes on to CMD, the end of CMD when the hold is lost, and the formats of --json.
 */
#include "../suite_main.h"
#include "actor.h"
#include "require.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ARGUMENTS = 24, OUTPUT = 8192 };

static struct agent_process agent;
static struct actor other;
static char output[OUTPUT];
/* the command may not signal processes of other users, and its stderr goes into the output file */
static bool weak;
static bool mute; /* the command is started without standard output and standard error */

static void start(void)
{
    agent_create(&agent, NULL);
    agent_start(&agent);
    setenv("HOLDFAST_SOCKET", agent.socket, 1);
    actor_ready(&other, agent.socket);
    ck_assert_int_eq(actor_open(&other, 0, "job", 10), 0);
}

static void stop(void)
{
    actor_end(&other);
    agent_destroy(&agent);
}

/* Starts `holdfast` with the arguments in `words`, which are separated by |. Its output goes to a
 * file. */
static pid_t begin(const char *words)
{
    char path[128];
    snprintf(path, sizeof(path), "%s/output", agent.folder);
    close(open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600));
    pid_t pid = fork_tied();
    if (pid == 0) {
        char copy[512];
        char command[] = "holdfast";
        char *arguments[ARGUMENTS] = {command};
        char *rest = copy;
        int count = 1;
        snprintf(copy, sizeof(copy), "%s", words);
        int fd = open(path, O_WRONLY);
        int null = open("/dev/null", O_RDWR);
        dup2(null, 0);
        dup2(fd, 1);
        dup2(weak ? fd : null, 2);
        if (weak) {
            prctl(PR_CAPBSET_DROP, CAP_KILL, 0, 0, 0);
        }
        for (int closed = mute ? 1 : null + 1; closed <= null; closed++) {
            close(closed);
        }
        while (count < ARGUMENTS - 1 && (arguments[count] = strsep(&rest, "|")) != NULL) {
            count++;
        }
        execv(binary_path("holdfast"), arguments);
        _exit(125);
    }
    return pid;
}

/* Reads what the command has written so far into `output`. */
static void read_output(void)
{
    char path[128];
    snprintf(path, sizeof(path), "%s/output", agent.folder);
    int fd = open(path, O_RDONLY);
    ssize_t size = read(fd, output, sizeof(output) - 1);
    close(fd);
    output[size > 0 ? size : 0] = 0;
}

static int end(pid_t pid)
{
    int status = wait_for(pid);
    read_output();
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

static int run(const char *words)
{
    return end(begin(words));
}

/* Waits until the lock has a holder. */
static void await_held(const char *name)
{
    int64_t end_ns = boottime_now() + GUARD_MS * MS;
    while (actor_show(&other, name).state == HF_STATE_FREE) {
        REQUIRE(boottime_now() < end_ns, "%s is not taken", name);
        sleep_ms(2);
    }
}

/* Waits until the running command has written that text. */
static void await_output(const char *text)
{
    int64_t end_ns = boottime_now() + GUARD_MS * MS;
    do {
        REQUIRE(boottime_now() < end_ns, "%s is not written", text);
        sleep_ms(2);
        read_output();
    } while (strstr(output, text) == NULL);
}

START_TEST(exit_codes)
{
    ck_assert_int_eq(run("lock|job|--|true"), 0);
    ck_assert_int_eq(run("lock|job|--|sh|-c|exit 7"), 7);
    ck_assert_int_eq(run("lock|job|--|sh|-c|kill -KILL $$"), 128 + SIGKILL);
    ck_assert_int_eq(run("lock|job|--|/no/such/program"), 127);
    ck_assert_int_eq(run("lock|job|--|/etc/passwd"), 126);
    ck_assert_int_eq(run("lock|job"), 64);
    ck_assert_int_eq(run("lock|job|sh|-c|exit 5"), 5);
    ck_assert_int_eq(run("lock|-n|job|-c|exit 6"), 6);
    ck_assert_int_eq(run("lock|--nonsense|job|--|true"), 64);
    ck_assert_int_eq(run("lock||--|true"), 64);
    ck_assert_int_eq(run("-s|/nonexistent/agent.sock|lock|job|--|true"), 69);
    ck_assert_int_eq(run("-s|/nonexistent/agent.sock|status"), 69);
    ck_assert_int_eq(run("status"), 0);
}
END_TEST

/* A `holdfast lock` that CMD runs is refused a lock that an outer command holds. With --nested it
 * runs its own CMD under the outer hold. A process that CMD left behind can take the lock when the
 * outer hold is over. */
START_TEST(a_lock_within_a_lock)
{
    ck_assert_int_eq(run("lock|job|sh|-c|$HOLDFAST_BIN_DIR/holdfast lock job true"), 64);
    ck_assert_int_eq(run("lock|job|sh|-c|$HOLDFAST_BIN_DIR/holdfast lock other sh -c 'exit 3'"), 3);
    ck_assert_int_eq(
        run("lock|job|sh|-c|$HOLDFAST_BIN_DIR/holdfast lock --nested job sh -c 'exit 4'"), 4);
    /* The innermost command knows the holds of all commands around it. */
    ck_assert_int_eq(run("lock|job|sh|-c|$HOLDFAST_BIN_DIR/holdfast lock other "
                         "$HOLDFAST_BIN_DIR/holdfast lock job true"),
                     64);
    ck_assert_int_eq(run("lock|job|sh|-c|$HOLDFAST_BIN_DIR/holdfast lock other "
                         "$HOLDFAST_BIN_DIR/holdfast lock --nested job "
                         "sh -c 'echo $HOLDFAST_LOCK of $HOLDFAST_OUTER_LOCK; exit 5'"),
                     5);
    ck_assert_str_eq(output, "job of other job\n");
    ck_assert_int_eq(run("lock|job|env"), 0);
    for (char *line = strtok(output, "\n"); line != NULL; line = strtok(NULL, "\n")) {
        if (strncmp(line, "HOLDFAST_LOCK=", 14) == 0 ||
            strncmp(line, "HOLDFAST_SEQUENCER=", 19) == 0) {
            ck_assert_int_eq(putenv(strdup(line)), 0);
        }
    }
    ck_assert_ptr_nonnull(getenv("HOLDFAST_SEQUENCER"));
    pid_t pid = begin("lock|job|true");
    ck_assert_int_eq(end(pid), 0);
}
END_TEST

START_TEST(exit_codes_of_a_held_lock)
{
    /* First this host gets the grants of both locks, because a try waits at most a second for a
     * grant. */
    ck_assert_int_eq(actor_open(&other, 1, "other", 10), 0);
    ck_assert_int_eq(actor_acquire(&other, 1, HF_EXCLUSIVE, GUARD_MS, NULL), 0);
    ck_assert_int_eq(actor_release(&other, 1), 0);
    ck_assert_int_eq(actor_acquire(&other, 0, HF_EXCLUSIVE, GUARD_MS, NULL), 0);
    ck_assert_int_eq(run("lock|--no-wait|job|--|true"), 75);
    ck_assert_int_eq(run("lock|--wait|50ms|job|--|true"), 75);
    ck_assert_int_eq(run("lock|-E|42|--no-wait|job|--|true"), 42);
    ck_assert_int_eq(run("lock|--no-wait|other|job|--|true"), 75); /* the command takes all its
                                                                    * locks or none */
    ck_assert_int_eq(run("lock|--no-wait|other|--|true"), 0);
    ck_assert_int_eq(actor_release(&other, 0), 0);
    ck_assert_int_eq(run("lock|--no-wait|job|--|true"), 0);
}
END_TEST

START_TEST(child_sees_what_it_holds)
{
    ck_assert_int_eq(run("lock|a b|job|--|sh|-c|echo \"$HOLDFAST_LOCK\"; set -- $HOLDFAST_TOKEN;"
                         " echo $#; holdfast=$HOLDFAST_SEQUENCER; set -- $holdfast; echo $#"),
                     0);
    ck_assert_str_eq(output, "a%20b job\n2\n2\n");
}
END_TEST

/* The command runs without standard output and error. Its output must not go to another descriptor
 * that got the number 1 or 2, such as the connection to the agent. */
START_TEST(streams_that_are_closed)
{
    siginfo_t info = {.si_pid = 0};
    mute = true;
    pid_t pid = begin("watch");
    for (int64_t end_ns = boottime_now() + GUARD_MS * MS; info.si_pid == 0;) {
        ck_assert_int_lt(boottime_now(), end_ns);
        ck_assert_int_eq(actor_acquire(&other, 0, HF_EXCLUSIVE, GUARD_MS, NULL), 0);
        ck_assert_int_eq(actor_release(&other, 0), 0);
        sleep_ms(10);
        ck_assert_int_eq(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT), 0);
    }
    ck_assert_int_eq(end(pid), 0); /* the command ends as if its output had no reader */
    ck_assert(!agent_logged(&agent, "event=client_broke_rules"));
    /* the child's stderr is closed, too */
    ck_assert_int_eq(run("lock|job|--|sh|-c|[ ! -e /proc/$$/fd/2 ]"), 0);
    mute = false;
}
END_TEST

START_TEST(lease_ends_the_child)
{
    ck_assert_int_eq(run("lock|--lease|300ms|--lock-delay|50ms|job|--|sleep|600"), 76);
    ck_assert_int_eq(run("lock|--wait|30s|job|--|true"), 0);
}
END_TEST

/* This program as CMD: it leaves the process group that it leads, and ignores SIGTERM. */
static _Noreturn void leave_group(void)
{
    (void)signal(SIGTERM, SIG_IGN);
    if (setpgid(0, getpgid(getppid())) != 0 || getpgrp() == getpid()) {
        _exit(1);
    }
    for (;;) {
        pause();
    }
}

START_TEST(lease_ends_a_child_that_left_its_group)
{
    char path[256];
    char words[512];
    ssize_t size = readlink("/proc/self/exe", path, sizeof(path) - 1);
    ck_assert_int_gt(size, 0);
    path[size] = '\0';
    snprintf(words, sizeof(words), "lock|--lease|300ms|--lock-delay|500ms|job|--|%s|leave", path);
    ck_assert_int_eq(run(words), 76);
}
END_TEST

START_TEST(break_ends_the_child)
{
    pid_t pid = begin("lock|--lock-delay|50ms|job|--|sleep|600");
    await_held("job");
    struct actor_request request = {.kind = ACTOR_BREAK, .name = "job"};
    ck_assert_int_eq(actor_do(&other, &request).result, 0);
    ck_assert_int_eq(end(pid), 76);
}
END_TEST

/* Starts `holdfast` with a CMD that runs a process of another user, and waits until this process
 * has written "left" and its pid. Breaks the lock, and checks that `holdfast` reports that the
 * process goes on. Then kills the process, because `holdfast` waits for its end. */
static void leaves_alone(const char *words)
{
    struct actor_request request = {.kind = ACTOR_BREAK, .name = "job"};
    pid_t pid = begin(words);
    await_output("left ");
    pid_t left = (pid_t)strtol(strstr(output, "left ") + strlen("left "), NULL, 10);
    REQUIRE(left > 1, "%s", output);
    ck_assert_int_eq(actor_do(&other, &request).result, 0);
    await_output("goes on WITHOUT the lock");
    ck_assert_int_eq(kill(left, SIGKILL), 0);
    ck_assert_int_eq(end(pid), 76);
}

/* CMD runs as another user, like a command behind sudo. `holdfast lock` cannot end CMD, and says
 * so. */
START_TEST(a_child_of_another_user_is_told_of)
{
    if (geteuid() != 0) {
        return;
    }
    weak = true;
    leaves_alone("lock|--lock-delay|50ms|job|--|setpriv|--reuid=65534|--clear-groups"
                 "|sh|-c|echo left $$; exec sleep 60");
    /* `holdfast lock` ends the process of its own user, but not the process of the other user. */
    leaves_alone("lock|--lock-delay|50ms|job|--|sh|-c|setpriv --reuid=65534 --clear-groups"
                 " sh -c 'echo left $$; exec sleep 60' & wait");
    ck_assert_int_eq(run("lock|--lease|1500ms|--lock-delay|50ms|job|--|sleep|600"), 76);
    ck_assert_ptr_null(strstr(output, "WITHOUT"));
    weak = false;
}
END_TEST

/* Consul's issue 9788: the child went on for minutes after the hold was lost. Here a timer of
 * `holdfast lock` ends CMD, although no agent runs. */
START_TEST(trap_child_keeps_running_after_loss)
{
    pid_t pid = begin("lock|job|--|sleep|600");
    await_held("job");
    agent_kill(&agent);
    ck_assert_int_eq(end(pid), 76); /* cell_traps.c checks how soon CMD ends */
}
END_TEST

START_TEST(agent_back_in_time_leaves_the_child_alone)
{
    pid_t pid = begin("lock|job|--|sh|-c|sleep 1; exit 3");
    await_held("job");
    agent_kill(&agent);
    agent_start(&agent);
    ck_assert_int_eq(end(pid), 3);
}
END_TEST

START_TEST(signals_are_passed_on)
{
    pid_t pid = begin("lock|job|--|sh|-c|trap 'exit 9' TERM; echo up; "
                      "while :; do sleep 0.01; done");
    await_output("up"); /* the shell has set its trap */
    kill(pid, SIGTERM);
    ck_assert_int_eq(end(pid), 9);
}
END_TEST

/* `holdfast lock` is killed. CMD ends with it, and the lock stays closed for the lock-delay. */
START_TEST(command_killed)
{
    pid_t pid = begin("lock|--lock-delay|300ms|job|--|sleep|600");
    await_held("job");
    int64_t killed_ns = boottime_now();
    kill(pid, SIGKILL);
    ck_assert_int_eq(end(pid), 1000 + SIGKILL);
    ck_assert_int_eq(actor_acquire(&other, 0, HF_EXCLUSIVE, GUARD_MS, NULL), 0);
    ck_assert(boottime_now() >= killed_ns + 300 * MS);
}
END_TEST

START_TEST(json_shapes)
{
    static const char *const fields[] = {
        "\"name\"",        "\"mode\"",    "\"holders\"",      "\"waiters\"",  "\"closed_ms\"",
        "\"coordinator\"", "\"age_ms\"",  "\"pid\"",          "\"uid\"",      "\"command\"",
        "\"token\"",       "\"held_ms\"", "\"remaining_ms\"", "\"exclusive\""};
    static const char *const status[] = {
        "\"agent\"", "\"cell\"", "\"role\"",   "\"version\"", "\"session\"",    "\"state\"",
        "\"epoch\"", "\"safe\"", "\"voters\"", "\"clients\"", "\"locks_held\"", "\"waiters\""};
    ck_assert_int_eq(actor_acquire(&other, 0, HF_EXCLUSIVE, GUARD_MS, NULL), 0);
    ck_assert_int_eq(run("--json|show|job"), 0);
    for (unsigned i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        REQUIRE(strstr(output, fields[i]), "no %s in %s", fields[i], output);
    }
    ck_assert_int_eq(run("ls|--json"), 0);
    ck_assert_int_eq(output[0], '[');
    ck_assert_int_eq(run("lock|own|--|sh|-c|$HOLDFAST_BIN_DIR/holdfast show --json own"), 0);
    REQUIRE(strstr(output, "\"command\":\"sh -c $HOLDFAST_BIN_DIR/holdfast show --json own\""),
            "another command: %s", output);
    ck_assert_int_eq(run("status|--json"), 0);
    for (unsigned i = 0; i < sizeof(status) / sizeof(status[0]); i++) {
        REQUIRE(strstr(output, status[i]), "no %s in %s", status[i], output);
    }
    ck_assert_int_eq(run("show|--json|never used"), 0);
    ck_assert_ptr_nonnull(strstr(output, "\"free\""));
}
END_TEST

/* Two processes wait for each other, and `top` shows that. */
START_TEST(top_shows_a_circle)
{
    struct actor second;
    char expected[256];
    int64_t end_ns = boottime_now() + GUARD_MS * MS;

    actor_ready(&second, agent.socket);
    ck_assert_int_eq(actor_open(&other, 1, "two", 10), 0);
    ck_assert_int_eq(actor_open(&second, 0, "two", 10), 0);
    ck_assert_int_eq(actor_open(&second, 1, "job", 10), 0);
    ck_assert_int_eq(actor_acquire(&other, 0, HF_EXCLUSIVE, GUARD_MS, NULL), 0);
    ck_assert_int_eq(actor_acquire(&second, 0, HF_EXCLUSIVE, GUARD_MS, NULL), 0);
    (void)actor_wait(&other, 1, HF_EXCLUSIVE);
    (void)actor_wait(&second, 1, HF_EXCLUSIVE);
    do {
        REQUIRE(boottime_now() < end_ns, "no two processes wait in %s", output);
        ck_assert_int_eq(run("top|--once|--json"), 0);
    } while (strstr(output, "\"waiters\":2,\"judgement\"") == NULL);
    snprintf(expected, sizeof(expected),
             "{\"name\":\"two\",\"agent\":\"dev\",\"pid\":%d,\"mode\":", (int)other.pid);
    REQUIRE(strstr(output, expected) != NULL, "no %s in %s", expected, output);
    ck_assert_ptr_nonnull(strstr(output, "\"holder_waits_for\":\"job\",\"circle\":true}"));
    ck_assert_ptr_nonnull(strstr(output, "\"holder_waits_for\":\"two\",\"circle\":true}"));
    actor_kill(&second);
}
END_TEST

/* Two `holdfast lock` commands each run a second `holdfast lock` within their CMD. Each of the
 * inner commands waits for the lock that the other outer command holds. */
START_TEST(top_shows_a_circle_of_nested_commands)
{
    static const char circle[] = "\"circle\":true}";
    static const char both[] = "until [ -e $BOTH ]; do sleep 0.02; done; ";
    char path[128];
    char words[256];
    const char *first;

    snprintf(path, sizeof(path), "%s/both", agent.folder);
    setenv("BOTH", path, 1);
    snprintf(words, sizeof(words), "lock|d1|sh|-c|%s$HOLDFAST_BIN_DIR/holdfast lock d2 true", both);
    pid_t one = begin(words);
    snprintf(words, sizeof(words), "lock|d2|sh|-c|%s$HOLDFAST_BIN_DIR/holdfast lock d1 true", both);
    pid_t two = begin(words);
    await_held("d1");
    await_held("d2");
    /* from now on each inner command wants the other outer command's lock */
    close(open(path, O_WRONLY | O_CREAT, 0600));
    int64_t end_ns = boottime_now() + GUARD_MS * MS;
    do {
        REQUIRE(boottime_now() < end_ns, "no circle in %s", output);
        ck_assert_int_eq(run("top|--once|--json"), 0);
        first = strstr(output, circle);
    } while (first == NULL || strstr(first + 1, circle) == NULL);
    ck_assert_ptr_nonnull(strstr(output, "\"holder_waits_for\":\"d1\",\"circle\":true}"));
    ck_assert_ptr_nonnull(strstr(output, "\"holder_waits_for\":\"d2\",\"circle\":true}"));
    kill(one, SIGTERM);
    (void)end(one);
    (void)end(two);
}
END_TEST

/* Returns the greatest rate of holds in `output`, which has a line for each reading. */
static double greatest_rate(void)
{
    static const char key[] = "\"holds_per_s\":";
    double most = 0;

    for (const char *at = output; (at = strstr(at, key)) != NULL;) {
        at += strlen(key);
        double rate = strtod(at, NULL);
        most = rate > most ? rate : most;
    }
    return most;
}

/* Releases and takes the lock `times` times while `top` reads about every two seconds. Returns the
 * greatest rate that `top` prints, and how long `top` and the agent waited for a processor. */
static double rate_of(int times, int64_t *unserved_ns)
{
    double holds;

    *unserved_ns = -process_unserved_ns(agent.pid);
    pid_t pid = begin("top|--json|-d|2s");
    await_output("}\n");
    for (int i = 0; i < times; i++) {
        ck_assert_int_eq(actor_release(&other, 0), 0);
        ck_assert_int_eq(actor_acquire(&other, 0, HF_EXCLUSIVE, GUARD_MS, NULL), 0);
    }
    /* On a busy machine `top` may read before the first of these holds, or between two of them. */
    int64_t end_ns = boottime_now() + GUARD_MS * MS;
    do {
        REQUIRE(boottime_now() < end_ns, "no reading counts a hold: %s", output);
        sleep_ms(20);
        read_output();
        holds = greatest_rate();
    } while (holds == 0);
    *unserved_ns += process_unserved_ns(agent.pid) + process_unserved_ns(pid);
    kill(pid, SIGTERM);
    (void)end(pid);
    return holds;
}

/* `top` computes the rate from the tokens. So it also counts the holds that begin and end between
 * two readings. */
START_TEST(top_counts_holds)
{
    enum { TIMES = 500, TRIES_MAX = 5 };
    int64_t unserved_ns;
    double holds;

    ck_assert_int_eq(actor_acquire(&other, 0, HF_EXCLUSIVE, GUARD_MS, NULL), 0);
    holds = rate_of(TIMES, &unserved_ns);
    /* On a busy machine a reading may be late, and the next reading may follow less than 1.8 s
     * later. Then the printed rate is too high. */
    for (int tries = 1; holds > TIMES / 1.8 && unserved_ns > 200 * MS && tries < TRIES_MAX;
         tries++) {
        holds = rate_of(TIMES, &unserved_ns);
    }
    REQUIRE(holds <= TIMES / 1.8, "%f holds a second", holds);
}
END_TEST

/* `top` goes on while the agent is away, and after it is back. */
START_TEST(top_outlives_the_agent)
{
    pid_t pid = begin("top|--json|-d|300ms|no such lock");

    await_output("\"error\":null");
    agent_kill(&agent);
    await_output("\"error\":\"");
    agent_start(&agent);
    int64_t end_ns = boottime_now() + GUARD_MS * MS;
    do {
        REQUIRE(boottime_now() < end_ns, "no answer after the restart: %s", output);
        sleep_ms(20);
        read_output();
    } while (strstr(strstr(output, "\"error\":\""), "\"error\":null") == NULL);
    kill(pid, SIGTERM);
    ck_assert_int_eq(end(pid), 1000 + SIGTERM);
}
END_TEST

START_TEST(check_answers_by_its_exit_code)
{
    char words[HF_SEQUENCER_MAX + 16];
    ck_assert_int_eq(actor_acquire(&other, 0, HF_EXCLUSIVE, GUARD_MS, NULL), 0);
    struct actor_reply reply = actor_do(&other, &(struct actor_request){.kind = ACTOR_SEQUENCER});
    snprintf(words, sizeof(words), "check|%s", reply.text);
    ck_assert_int_eq(run(words), 0);
    ck_assert_int_eq(actor_release(&other, 0), 0);
    ck_assert_int_eq(run(words), 1);
    ck_assert_int_eq(run("check|nonsense"), 64);
    weak = true; /* Now the error goes into `output`. It must have neither an escape sequence nor a
                  * second line. */
    ck_assert_int_eq(run("check|hf1/\x1b[31m\nholdfast check: well"), 64);
    ck_assert_ptr_null(strchr(output, '\x1b'));
    ck_assert_ptr_eq(strchr(output, '\n'), output + strlen(output) - 1);
    ck_assert_int_eq(run("-s|/nowhere/\x1b[31m|status"), 69);
    ck_assert_ptr_null(strchr(output, '\x1b'));
    weak = false;
}
END_TEST

int main(int argc, char **argv)
{
    TCase *tests;
    if (argc == 2 && strcmp(argv[1], "leave") == 0) {
        leave_group();
    }
    tests = tcase_create("the command");
    tcase_add_checked_fixture(tests, start, stop);
    tcase_set_timeout(tests, 90);
    tcase_add_test(tests, exit_codes);
    tcase_add_test(tests, a_lock_within_a_lock);
    tcase_add_test(tests, exit_codes_of_a_held_lock);
    tcase_add_test(tests, child_sees_what_it_holds);
    tcase_add_test(tests, streams_that_are_closed);
    tcase_add_test(tests, lease_ends_the_child);
    tcase_add_test(tests, lease_ends_a_child_that_left_its_group);
    tcase_add_test(tests, break_ends_the_child);
    tcase_add_test(tests, a_child_of_another_user_is_told_of);
    tcase_add_test(tests, trap_child_keeps_running_after_loss);
    tcase_add_test(tests, agent_back_in_time_leaves_the_child_alone);
    tcase_add_test(tests, signals_are_passed_on);
    tcase_add_test(tests, command_killed);
    tcase_add_test(tests, json_shapes);
    tcase_add_test(tests, top_shows_a_circle);
    tcase_add_test(tests, top_shows_a_circle_of_nested_commands);
    tcase_add_test(tests, top_counts_holds);
    tcase_add_test(tests, top_outlives_the_agent);
    tcase_add_test(tests, check_answers_by_its_exit_code);
    return suite_main("commands", tests);
}
