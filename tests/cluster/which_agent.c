/*
 * A host has two agents: the system's at /run/holdfast/agent.sock, and one of --dev below
 * XDG_RUNTIME_DIR. The tests check which of them a program uses. The test has a /run of its own.
 */
#include <check.h>
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../suite_main.h"
#include "agent_process.h"
#include "holdfast/admin.h"
#include "holdfast/holdfast.h"
#include "require.h"

static const char system_socket[] = "/run/holdfast/agent.sock";
static const char dev_socket[] = "/run/user/holdfast/agent.sock";

/* Runs a shell command. Returns its output, in a static buffer. */
static const char *run(const char *command)
{
    static char said[8192];
    FILE *pipe = popen(command, "re");
    ck_assert_ptr_nonnull(pipe);
    size_t size = fread(said, 1, sizeof(said) - 1, pipe);
    said[size] = '\0';
    (void)pclose(pipe);
    return said;
}

static void own_run(void)
{
    REQUIRE(unshare(CLONE_NEWNS) == 0, "unshare: %s", strerror(errno));
    REQUIRE(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0, "mount: %s", strerror(errno));
    REQUIRE(mount("holdfast", "/run", "tmpfs", 0, "mode=0755") == 0, "mount: %s", strerror(errno));
    REQUIRE(mkdir("/run/user", 0700) == 0, "mkdir: %s", strerror(errno));
    setenv("XDG_RUNTIME_DIR", "/run/user", 1);
    unsetenv("HOLDFAST_SOCKET");
    setenv("BIN", getenv("HOLDFAST_BIN_DIR"), 1);
}

/* Starts `holdfastd --dev` and waits until it listens. Returns its pid. */
static pid_t start_dev(const char *log)
{
    pid_t pid = fork_tied();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        REQUIRE(freopen(log, "w", stderr) != NULL, "%s", log);
        execl(binary_path("holdfastd"), "holdfastd", "--dev", (char *)NULL);
        _exit(127);
    }
    for (int64_t end_ns = boottime_now() + GUARD_MS * MS; access(dev_socket, F_OK) != 0;) {
        ck_assert_int_lt(boottime_now(), end_ns);
        sleep_ms(10);
    }
    return pid;
}

static void end(pid_t pid, int signal)
{
    ck_assert_int_eq(kill(pid, signal), 0);
    ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
}

static void expect_socket(const char *path)
{
    hf_client *client;
    ck_assert_int_eq(hf_connect(NULL, &client), 0);
    ck_assert_str_eq(hf_socket(client), path);
    hf_disconnect(client);
}

START_TEST(the_systems_agent_comes_first)
{
    struct agent_process agent;
    hf_client *client;
    hf_lock *lock;
    if (geteuid() != 0) {
        return;
    }
    own_run();
    agent_create(&agent, "[agent]\nname = host-a\ncell = home\nstate_dir = %D/state\n"
                         "socket = /run/holdfast/agent.sock\n[voters]\n"
                         "host-a = tcp://127.0.0.1:7411\n");
    snprintf(agent.socket, sizeof(agent.socket), "%s", system_socket);
    pid_t dev = start_dev("/run/dev.log");
    expect_socket(dev_socket); /* this host has no other agent yet */
    ck_assert_ptr_nonnull(strstr(run("$BIN/holdfast status"), "cell dev"));
    end(dev, SIGTERM);
    agent_start(&agent);
    dev = start_dev("/run/dev.log");
    expect_socket(system_socket);
    ck_assert_ptr_nonnull(
        strstr(run("$BIN/holdfast status"), "socket   /run/holdfast/agent.sock (the default)"));
    ck_assert_ptr_nonnull(strstr(run("cat /run/dev.log"), "event=dev_beside_system"));
    ck_assert_ptr_nonnull(strstr(
        run("HOLDFAST_SOCKET=/run/user/holdfast/agent.sock $BIN/holdfast status"), "cell dev"));
    ck_assert_ptr_nonnull(
        strstr(run("$BIN/holdfast -s /run/user/holdfast/agent.sock status"), "cell dev"));

    /* A client stays with the agent that it has. New clients skip the socket of an agent that is
     * gone. */
    ck_assert_int_eq(hf_connect(NULL, &client), 0);
    ck_assert_int_eq(hf_open(client, "x", NULL, &lock), 0);
    agent_kill(&agent);
    ck_assert_int_eq(access(system_socket, F_OK), 0);
    expect_socket(dev_socket);
    const char *said = run("$BIN/holdfast status 2>&1");
    ck_assert_ptr_nonnull(strstr(said, "asking /run/user/holdfast/agent.sock, maybe of another "
                                       "cell: the agent of /run/holdfast/agent.sock does not "
                                       "run\n"));
    ck_assert_ptr_nonnull(strstr(said, "cell dev"));
    /* with --json the line is an object, which does not stand before the answer on stdout */
    said = run("$BIN/holdfast status --json 2>/dev/null");
    REQUIRE(strstr(said, "{\"agent\":\"dev\",") == said, "%s", said);
    said = run("$BIN/holdfast status --json 2>&1 >/dev/null");
    REQUIRE(
        strstr(said, "{\"event\":\"notice\",\"command\":\"status\",\"text\":\"asking /run/user/") ==
            said,
        "%s", said);
    said = run("$BIN/holdfast lock --json x -- true 2>&1");
    REQUIRE(
        strstr(said, "{\"event\":\"notice\",\"command\":\"lock\",\"text\":\"asking /run/user/") ==
            said,
        "%s", said);
    hf_lock *other;
    ck_assert_int_eq(hf_open(client, "y", NULL, &other), HF_ENOAGENT);
    agent_start(&agent);
    ck_assert_int_eq(hf_acquire(lock, HF_EXCLUSIVE, HF_FOREVER, NULL), 0);
    ck_assert_str_eq(hf_socket(client), system_socket);
    ck_assert_ptr_nonnull(strstr(run("$BIN/holdfast show x"), "exclusive"));
    hf_disconnect(client);

    /* The system's agent is stopped by SIGSTOP, but its socket is there. So the library looks for
     * no other agent, and the error does not mention the agent of --dev. */
    ck_assert_int_eq(kill(agent.pid, SIGSTOP), 0);
    said = run("$BIN/holdfast lock --no-wait x true 2>&1");
    REQUIRE(strstr(said, ": /run/holdfast/agent.sock (the default): ") != NULL, "%s", said);
    ck_assert_int_eq(kill(agent.pid, SIGCONT), 0);

    /* The system's agent has exited after SIGTERM, so its socket is gone. Its configuration says
     * that this host has such an agent. */
    agent_stop(&agent);
    ck_assert_int_ne(access(system_socket, F_OK), 0);
    const bool own_etc = mount("holdfast", "/etc", "tmpfs", 0, "mode=0755") == 0;
    REQUIRE(own_etc && mkdir("/etc/holdfast", 0755) == 0, "%s", strerror(errno));
    ck_assert_ptr_null(strstr(run("$BIN/holdfast status 2>&1"), "maybe of another cell"));
    ck_assert_int_eq(mknod("/etc/holdfast/holdfastd.ini", S_IFREG | 0644, 0), 0);
    said = run("$BIN/holdfast status 2>&1");
    REQUIRE(strstr(said,
                   "asking /run/user/holdfast/agent.sock, maybe of another cell: the agent of "
                   "/run/holdfast/agent.sock does not run\n") != NULL,
            "%s", said);
    ck_assert_int_eq(umount("/etc"), 0);
    agent_start(&agent);

    end(dev, SIGTERM);
    agent_kill(&agent);
    said = run("$BIN/holdfast status 2>&1");
    REQUIRE(strstr(said, ": /run/holdfast/agent.sock (the default): ") != NULL, "%s", said);
    ck_assert_int_eq(unlink(system_socket), 0);
    said = run("$BIN/holdfast status 2>&1");
    REQUIRE(strstr(said, "/run/holdfast/agent.sock (the default; there is no holdfast/agent.sock "
                         "below XDG_RUNTIME_DIR either): ") != NULL,
            "%s", said);
    agent_destroy(&agent);
}
END_TEST

/* `systemctl start holdfastd` fails without a configuration, so `holdfast setup` comes first. */
START_TEST(the_first_step)
{
    static const char *const commands[] = {"$BIN/holdfast lock --no-wait x true 2>&1",
                                           "$BIN/holdfast doctor 2>&1"};
    if (geteuid() != 0) {
        return;
    }
    own_run();
    REQUIRE(mount("holdfast", "/etc", "tmpfs", 0, "mode=0755") == 0, "mount: %s", strerror(errno));
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
        const char *said = run(commands[i]);
        REQUIRE(strstr(said, "(holdfast setup)") != NULL, "%s", said);
        REQUIRE(strstr(said, "systemctl start") == NULL, "%s", said);
    }
    ck_assert_int_eq(mkdir("/etc/holdfast", 0755), 0);
    ck_assert_int_eq(mknod("/etc/holdfast/holdfastd.ini", S_IFREG | 0644, 0), 0);
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
        const char *said = run(commands[i]);
        REQUIRE(strstr(said, "holdfast setup") == NULL, "%s", said);
        REQUIRE(strstr(said, "start it (systemctl start holdfastd") != NULL, "%s", said);
    }

    /* With a wrong configuration the service does not start, and the doctor says why. */
    const char *said = run("$BIN/holdfast doctor 2>&1");
    REQUIRE(strstr(said, "error  config       holdfastd: /etc/holdfast/holdfastd.ini") != NULL,
            "%s", said);
    run("printf '[agent]\nname = a\ncell = b\n' >/etc/holdfast/holdfastd.ini");
    said = run("$BIN/holdfast doctor 2>&1");
    REQUIRE(strstr(said, "ok     config       holdfastd accepts /etc/holdfast/holdfastd.ini") !=
                NULL,
            "%s", said);
    REQUIRE(strstr(run("$BIN/holdfast doctor -s /run/other 2>&1"), " config ") == NULL, "config");
}
END_TEST

/* The user named the socket of an agent that is not the service's, and that agent was killed. So
 * the error must not advise the user to set up or start the service. */
START_TEST(a_named_socket_whose_agent_is_dead)
{
    static const char *const commands[] = {
        "$BIN/holdfast -s $NAMED status 2>&1", "$BIN/holdfast lock --no-wait -s $NAMED x true 2>&1",
        "HOLDFAST_SOCKET=$NAMED $BIN/holdfast ls 2>&1", "$BIN/holdfast -s $NAMED doctor 2>&1"};
    if (geteuid() != 0) {
        return;
    }
    own_run();
    REQUIRE(mount("holdfast", "/etc", "tmpfs", 0, "mode=0755") == 0, "mount: %s", strerror(errno));
    pid_t dev = start_dev("/run/dev.log");
    end(dev, SIGKILL);
    setenv("NAMED", dev_socket, 1);
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
        const char *said = run(commands[i]);
        const char *nobody = strstr(said, ": no agent answers at the socket");
        const char *which = strstr(said, "`ss -xlp src /run/user/holdfast/agent.sock`");
        REQUIRE(nobody != NULL && which != NULL && nobody < which, "%s", said);
        REQUIRE(strstr(said, "start the agent that has this path as `socket`") != NULL, "%s", said);
        REQUIRE(strstr(said, "holdfast setup") == NULL && strstr(said, "systemctl") == NULL, "%s",
                said);
    }
}
END_TEST

/* A user whom the agent refuses reads what to do. */
START_TEST(a_user_who_is_refused)
{
    if (geteuid() != 0) {
        return;
    }
    struct agent_process agent;
    agent_create(&agent, "[agent]\nname = host-a\ncell = home\nstate_dir = %D/state\n"
                         "socket = %D/agent.sock\nusers = daemon\n");
    agent_admit_all(&agent);
    agent_start(&agent);
    setenv("BIN", getenv("HOLDFAST_BIN_DIR"), 1);
    setenv("HOLDFAST_SOCKET", agent.socket, 1);
    const char *said = run(
        "setpriv --reuid=65534 --clear-groups $BIN/holdfast lock x true 2>&1; echo $?");
    REQUIRE(strstr(said, "; name this user in `users` of that configuration, or ask `holdfast "
                         "doctor` why\n77\n") != NULL,
            "%s", said);
    agent_destroy(&agent);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("which_agent");
    tcase_set_timeout(tests, 120);
    tcase_add_test(tests, the_systems_agent_comes_first);
    tcase_add_test(tests, the_first_step);
    tcase_add_test(tests, a_named_socket_whose_agent_is_dead);
    tcase_add_test(tests, a_user_who_is_refused);
    return suite_main("which_agent", tests);
}
