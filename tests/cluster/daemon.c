/*
 * Tests how the agent starts and ends: it refuses bad command lines, its state outlives a stop, and
 * a name's first acquire costs one commit.
 */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../suite_main.h"
#include "actor.h"
#include "agent_process.h"
#include "holdfast/holdfast.h"
#include "io/store.h"
#include "require.h"

enum { NAMES = 50 };

static struct agent_process agent;

static hf_client *connect_to(const struct agent_process *to)
{
    hf_client *client;
    struct hf_options options = {.size = sizeof(options), .socket = to->socket};
    ck_assert_int_eq(hf_connect(&options, &client), 0);
    return client;
}

static hf_lock *take(hf_client *client, const char *name, struct hf_hold *hold)
{
    hf_lock *lock;
    ck_assert_int_eq(hf_open(client, name, NULL, &lock), 0);
    ck_assert_int_eq(hf_acquire(lock, HF_EXCLUSIVE, GUARD_MS * MS, hold), 0);
    return lock;
}

/* Runs holdfastd with these arguments. Returns its exit code, and writes its standard output and
 * error to `said`. */
static int run(const char *const *arguments, char *said, size_t size)
{
    int ends[2];
    ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
    pid_t pid = fork_tied();
    if (pid == 0) {
        dup2(ends[1], STDERR_FILENO);
        dup2(ends[1], STDOUT_FILENO);
        execv(binary_path("holdfastd"), (char *const *)(uintptr_t)arguments);
        _exit(127);
    }
    close(ends[1]);
    size_t used = 0;
    ssize_t got;
    while ((got = read(ends[0], said + used, size - 1 - used)) > 0) {
        used += (size_t)got;
    }
    said[used] = '\0';
    close(ends[0]);
    int status = wait_for(pid);
    ck_assert(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    fputs(text, file);
    ck_assert_int_eq(fclose(file), 0);
}

START_TEST(usage)
{
    static const char *const cases[][5] = {
        {"holdfastd", NULL},
        {"holdfastd", "--nonsense", NULL},
        {"holdfastd", "--dev", "extra", NULL},
        {"holdfastd", "--dev", "--config", "/x", NULL},
        {"holdfastd", "--config", NULL},
        {"holdfastd", "--config", "/x", "--state-dir=/y", NULL},
        {"holdfastd", "--check-config", NULL},
        {"holdfastd", "--config", "/x", "--rejoin", NULL}, /* without --yes */
        {"holdfastd", "--config", "/x", "--undo", NULL},
        {"holdfastd", "--config", "/x", "--yes", NULL},
        {"holdfastd", "--dev", "--rejoin", "--yes", NULL},
    };
    char said[4096];
    const char *arguments[8] = {NULL};
    memcpy(arguments, cases[_i], sizeof(cases[_i]));
    ck_assert_int_eq(run(arguments, said, sizeof(said)), 64);
    ck_assert_ptr_nonnull(strstr(said, "expected"));
    ck_assert_ptr_eq(strchr(said, '\n'), said + strlen(said) - 1); /* the message is one line */
}
END_TEST

START_TEST(help_and_version)
{
    char said[8192];
    const char *const help[] = {"holdfastd", "--help", NULL};
    const char *const version[] = {"holdfastd", "--version", NULL};
    ck_assert_int_eq(run(help, said, sizeof(said)), 0);
    ck_assert_ptr_nonnull(strstr(said, "--state-dir DIR"));
    ck_assert_int_eq(run(version, said, sizeof(said)), 0);
    ck_assert_int_eq(strncmp(said, "holdfastd ", 10), 0);
}
END_TEST

START_TEST(check_config)
{
    char path[128];
    char store[128];
    char text[512];
    char said[4096];
    agent_create(&agent, NULL);
    snprintf(path, sizeof(path), "%s/c.ini", agent.folder);
    const char *const arguments[] = {"holdfastd", "--config", path, "--check-config", NULL};
    write_file(path, "[agent]\nname = a\ncell = c\n");
    ck_assert_int_eq(run(arguments, said, sizeof(said)), 0);
    write_file(path, "[agent]\nname = a\ncell = c\nfoo = 1\n");
    ck_assert_int_eq(run(arguments, said, sizeof(said)), 78);
    ck_assert_ptr_nonnull(strstr(said, "c.ini:4: [agent] foo: found an unknown key"));
    /* two voters cannot begin a cell: --check-config fails if the agent has no store, and only
     * warns if it has one */
    snprintf(text, sizeof(text),
             "[agent]\nname = a\ncell = c\nstate_dir = %s/s\n[cell]\nlisten = tcp://127.0.0.1:1\n"
             "[voters]\na = tcp://127.0.0.1:1\nb = tcp://127.0.0.1:2\n",
             agent.folder);
    write_file(path, text);
    ck_assert_int_eq(run(arguments, said, sizeof(said)), 78);
    ck_assert_ptr_nonnull(strstr(said, "[voters]: found 2 of them, expected 1, 3, 5 or 7"));
    snprintf(store, sizeof(store), "%s/s", agent.folder);
    ck_assert_int_eq(mkdir(store, 0700), 0);
    snprintf(store, sizeof(store), "%s/s/holdfast.db", agent.folder);
    write_file(store, "");
    ck_assert_int_eq(run(arguments, said, sizeof(said)), 0);
    ck_assert_ptr_nonnull(strstr(said, "warning: "));
    ck_assert_ptr_nonnull(strstr(said, "with an empty state_dir it would not start"));
    const char *const missing[] = {"holdfastd", "--config", "/nonexistent", NULL};
    ck_assert_int_eq(run(missing, said, sizeof(said)), 78);
    unlink(path);
    agent_destroy(&agent);
}
END_TEST

static void write_folders_config(const char *path, const char *state_dir, const char *socket)
{
    char text[512];
    snprintf(text, sizeof(text), "[agent]\nname = a\ncell = c\nstate_dir = %s/%s\nsocket = %s/%s\n",
             agent.folder, state_dir, agent.folder, socket);
    write_file(path, text);
}

/* If the agent would refuse a folder at its start, --check-config refuses the folder with the same
 * text. Both accept the folder after the change that the text asks for. */
START_TEST(a_folder_that_others_may_write_to)
{
    char config[160];
    char folder[160];
    char checked[4096];
    char said[4096];
    struct stat status;
    agent_create(&agent, NULL);
    snprintf(config, sizeof(config), "%s/c.ini", agent.folder);
    snprintf(folder, sizeof(folder), "%s/f", agent.folder);
    const char *const start[] = {"holdfastd", "--config", config, NULL};
    const char *const check[] = {"holdfastd", "--config", config, "--check-config", NULL};
    static const struct {
        const char *state_dir;
        const char *socket;
        mode_t mode;
        const char *expected; /* NULL: the folder is accepted */
    } cases[] = {
        {"f", "f/agent.sock", 0777, "/f: found owner "},
        {"f", "f/agent.sock", 01777, "/f: found owner "},
        {"f/", "agent.sock", 0777, "/f/: found owner "},
        {"f", "f/agent.sock", 0770, "/f: found owner "},
        {"f/state", "agent.sock", 0777, "or the sticky bit"},
        {"state", "f/agent.sock", 0777, "or the sticky bit"},
        {"f/state", "agent.sock", 01777, NULL},
        {"state", "f/agent.sock", 01777, NULL},
        {"f", "f/agent.sock", 0700, NULL},
    };
    ck_assert_int_eq(mkdir(folder, 0700), 0);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        ck_assert_int_eq(chmod(folder, cases[i].mode), 0);
        write_folders_config(config, cases[i].state_dir, cases[i].socket);
        if (cases[i].expected == NULL) {
            REQUIRE(run(check, checked, sizeof(checked)) == 0, "case %zu: %s", i, checked);
            continue;
        }
        REQUIRE(run(start, said, sizeof(said)) == 69, "case %zu: %s", i, said);
        REQUIRE(run(check, checked, sizeof(checked)) == 69, "case %zu: %s", i, checked);
        const char *last = strstr(said, "holdfastd: ");
        REQUIRE(last != NULL && strcmp(last, checked) == 0, "case %zu: %s, %s", i, said, checked);
        REQUIRE(strstr(said, cases[i].expected) != NULL, "case %zu: %s", i, said);
    }
    write_folders_config(config, "missing", "nor/agent.sock");
    ck_assert_int_eq(run(check, checked, sizeof(checked)), 0);
    snprintf(folder, sizeof(folder), "%s/missing", agent.folder);
    ck_assert_int_ne(stat(folder, &status), 0); /* --check-config has made no folder */
    agent_destroy(&agent);
}
END_TEST

/* An agent that is started without standard streams must not write its log into a file that it
 * opens for another purpose. */
START_TEST(no_standard_streams)
{
    struct agent_process bare;
    agent_create(&bare, NULL);
    pid_t pid = fork_tied();
    if (pid == 0) {
        const char *program = binary_path("holdfastd");
        close(STDIN_FILENO);
        close(STDOUT_FILENO);
        close(STDERR_FILENO);
        execl(program, program, "--dev", "--state-dir", bare.folder, (char *)NULL);
        _exit(127);
    }
    bare.pid = pid;
    agent_await_socket(&bare);
    for (int fd = 0; fd <= STDERR_FILENO; fd++) {
        char path[64];
        char target[64] = "";
        snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)pid, fd);
        ck_assert_int_gt(readlink(path, target, sizeof(target) - 1), 0);
        ck_assert_str_eq(target, "/dev/null");
    }
    ck_assert_int_eq(agent_stop(&bare), 0);
    agent_destroy(&bare);
}
END_TEST

START_TEST(a_second_agent_is_refused)
{
    char said[4096];
    char path[128];
    char text[512];
    agent_create(&agent, NULL);
    agent_start(&agent);
    const char *const same_folder[] = {"holdfastd", "--dev", "--state-dir", agent.folder, NULL};
    ck_assert_int_eq(run(same_folder, said, sizeof(said)), 70);
    ck_assert_ptr_nonnull(strstr(said, "in use by another agent"));
    ck_assert_ptr_nonnull(strstr(said, agent.folder));
    snprintf(path, sizeof(path), "%s/c.ini", agent.folder);
    snprintf(text, sizeof(text), "[agent]\nname = a\ncell = c\nstate_dir = %s/other\nsocket = %s\n",
             agent.folder, agent.socket);
    write_file(path, text);
    const char *const same_socket[] = {"holdfastd", "--config", path, NULL};
    ck_assert_int_eq(run(same_socket, said, sizeof(said)), 70);
    ck_assert_ptr_nonnull(strstr(said, "in use by another agent"));
    ck_assert_ptr_nonnull(strstr(said, agent.socket));
    hf_disconnect(connect_to(&agent)); /* the first agent still accepts connections */
    ck_assert_int_eq(agent_stop(&agent), 0);
    agent_destroy(&agent);
}
END_TEST

START_TEST(a_dead_socket_is_replaced_a_file_is_not)
{
    char said[4096];
    struct stat status;
    agent_create(&agent, NULL);
    agent_start(&agent);
    agent_kill(&agent);
    ck_assert_int_eq(lstat(agent.socket, &status), 0);
    agent_start(&agent);
    hf_disconnect(connect_to(&agent));
    ck_assert_int_eq(agent_stop(&agent), 0);
    ck_assert_int_ne(lstat(agent.socket, &status), 0); /* a clean stop removes the socket */
    write_file(agent.socket, "precious");
    const char *const arguments[] = {"holdfastd", "--dev", "--state-dir", agent.folder, NULL};
    ck_assert_int_eq(run(arguments, said, sizeof(said)), 70);
    ck_assert_ptr_nonnull(strstr(said, "found a file that is no socket"));
    ck_assert_int_eq(lstat(agent.socket, &status), 0);
    unlink(agent.socket);
    agent_destroy(&agent);
}
END_TEST

START_TEST(nothing_is_open_to_others)
{
    static const char *const files[] = {"agent.sock", "agent.sock.lock", "holdfast.db", "lease",
                                        "lock"};
    char path[512];
    struct stat status;
    umask(0);
    agent_create(&agent, NULL);
    agent_start(&agent);
    hf_client *client = connect_to(&agent);
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        snprintf(path, sizeof(path), "%s/%s", agent.folder, files[i]);
        ck_assert_int_eq(lstat(path, &status), 0);
        ck_assert_msg((status.st_mode & 0777) == 0600, "%s has mode %o", path, status.st_mode);
    }
    snprintf(path, sizeof(path), "%s/clients/1", agent.folder);
    ck_assert_int_eq(lstat(path, &status), 0);
    ck_assert_uint_eq(status.st_mode & 0777, 0600);
    agent_region_path(&agent, "default", path, sizeof(path));
    ck_assert_int_eq(lstat(path, &status), 0);
    ck_assert_uint_eq(status.st_mode & 0777, 0600);
    for (unsigned i = 0; i < 2; i++) { /* first the region's folder, then the agent's folder */
        *strrchr(path, '/') = '\0';
        ck_assert_int_eq(lstat(path, &status), 0);
        ck_assert_uint_eq(status.st_mode & 07777, 0700);
    }
    hf_disconnect(client);
    ck_assert_int_eq(agent_stop(&agent), 0);
    agent_destroy(&agent);
}
END_TEST

/* A hold outlives SIGTERM and SIGKILL of the agent. The lease is long enough for a busy machine. */
START_TEST(a_hold_outlives_the_agent)
{
    static const char config[] = "[agent]\nname = a\ncell = c\nstate_dir = %D\n"
                                 "socket = %D/agent.sock\n"
                                 "[cell]\nsession_ttl = 12s\n";
    agent_create(&agent, config);
    agent_start(&agent);
    hf_client *client = connect_to(&agent);
    struct hf_hold hold;
    hf_lock *lock = take(client, "kept", &hold);
    ck_assert_int_eq(agent_stop(&agent), 0);
    ck_assert_int_gt(hf_remaining_ns(lock), 0);
    agent_start(&agent);
    ck_assert(agent_logged(&agent, "event=session_continued"));
    agent_kill(&agent);
    int64_t remaining_ns = hf_remaining_ns(lock);
    /* the lease ends at this time if no new agent renews it */
    int64_t left_ns = boottime_now() + remaining_ns;
    int64_t renewed_ns = 0;
    agent_start(&agent);
    /* The loop ends when the new agent has renewed the lease. The test fails if the lease runs
     * out. */
    while (renewed_ns < left_ns + 1000 * MS) {
        sleep_ms(10);
        renewed_ns = boottime_now();
        remaining_ns = hf_remaining_ns(lock);
        ck_assert_int_gt(remaining_ns, 0);
        renewed_ns += remaining_ns;
    }
    ck_assert_int_eq(hf_release(lock), 0);
    hf_disconnect(client);
    agent_destroy(&agent);
}
END_TEST

/* If no agent runs until deadline and grace period are over, the session ends, and the next token
 * is higher. */
START_TEST(too_late_is_a_new_session)
{
    static const char config[] = "[agent]\nname = a\ncell = c\nstate_dir = %D\n"
                                 "socket = %D/agent.sock\n"
                                 "[cell]\nsession_ttl = 1s\ngrace_period = 500ms\n";
    agent_create(&agent, config);
    agent_start(&agent);
    hf_client *client = connect_to(&agent);
    struct hf_hold hold;
    struct hf_hold later;
    hf_lock *lock = take(client, "lost", &hold);
    agent_kill(&agent);
    sleep_ms(2000);
    ck_assert_int_le(hf_remaining_ns(lock), 0);
    agent_start(&agent);
    ck_assert(agent_logged(&agent, "event=session_new epoch=2"));
    ck_assert_int_eq(hf_release(lock), HF_ELOST);
    ck_assert_int_eq(hf_acquire(lock, HF_EXCLUSIVE, GUARD_MS * MS, &later), 0);
    ck_assert_uint_gt(later.token, hold.token);
    hf_disconnect(client);
    agent_destroy(&agent);
}
END_TEST

static uint64_t commits_so_far(void)
{
    char path[128];
    char error[STORE_ERROR_MAX];
    struct store_meta meta;
    struct store_identity identity = {.cell = {.length = 3, .text = "dev"},
                                      .agent = {.length = 3, .text = "dev"}};
    snprintf(path, sizeof(path), "%s/holdfast.db", agent.folder);
    struct store *store = store_open(path, &identity, &meta, error);
    ck_assert_msg(store != NULL, "%s", error);
    store_close(store);
    return meta.commit;
}

static uint64_t commits_of_a_run(unsigned names, const char *prefix)
{
    char name[64];
    agent_start(&agent);
    hf_client *client = connect_to(&agent);
    for (unsigned i = 0; i < names; i++) {
        snprintf(name, sizeof(name), "%s%u", prefix, i);
        ck_assert_int_eq(hf_release(take(client, name, NULL)), 0);
    }
    hf_disconnect(client);
    ck_assert_int_eq(agent_stop(&agent), 0);
    return commits_so_far();
}

START_TEST(the_first_acquire_of_a_name_is_one_commit)
{
    agent_create(&agent, NULL);
    (void)commits_of_a_run(1, "a");
    uint64_t begin = commits_of_a_run(0, "");
    uint64_t start = commits_of_a_run(0, "") - begin; /* the commits of a start without any
                                                       * acquire */
    uint64_t before = commits_so_far();
    uint64_t after = commits_of_a_run(NAMES, "b");
    ck_assert_uint_eq(after - before - start, NAMES);
    before = after;
    after = commits_of_a_run(NAMES, "b"); /* the agent knows these names, so it writes nothing */
    ck_assert_uint_eq(after - before - start, 0);
    agent_destroy(&agent);
}
END_TEST

/* ---- files that somebody removes while the agent uses them ---- */

static void start_alone(char *state, size_t size)
{
    agent_create(&agent, "[agent]\nname = alone\ncell = alone\nstate_dir = %D/state\n"
                         "socket = %D/agent.sock\n");
    agent_start(&agent);
    snprintf(state, size, "%s/state", agent.folder);
}

/* Runs `holdfast` with these words. Returns its exit status, and its output in `said`. */
static int run_command(const char *words, char *said, size_t size)
{
    char command[256];
    snprintf(command, sizeof(command), "%s %s -s %s 2>&1", binary_path("holdfast"), words,
             agent.socket);
    FILE *pipe = popen(command, "r");
    REQUIRE(pipe != NULL, "popen");
    size_t used = fread(said, 1, size - 1, pipe);
    said[used] = '\0';
    return WEXITSTATUS(pclose(pipe));
}

START_TEST(what_is_moved_or_removed_is_told)
{
    char state[128];
    char away[160];
    char path[160];
    char said[8192];
    start_alone(state, sizeof(state));
    snprintf(away, sizeof(away), "%s.away", state);
    (void)run_command("doctor", said, sizeof(said));
    ck_assert_ptr_null(strstr(said, "moved or removed"));
    ck_assert_int_eq(rename(state, away), 0);
    ck_assert_int_eq(run_command("doctor", said, sizeof(said)), 2);
    REQUIRE(strstr(said, "moved or removed: the folder ") != NULL, "%s", said);
    ck_assert_int_eq(rename(away, state), 0);
    (void)run_command("doctor", said, sizeof(said));
    ck_assert_ptr_null(strstr(said, "moved or removed"));
    ck_assert(!agent_logged(&agent, "files_gone"));
    snprintf(path, sizeof(path), "%s/holdfast.db", state);
    ck_assert_int_eq(unlink(path), 0);
    ck_assert_int_eq(run_command("doctor", said, sizeof(said)), 2);
    REQUIRE(strstr(said, "/state/holdfast.db") != NULL, "%s", said);
    agent_region_path(&agent, "default", path, sizeof(path));
    ck_assert_int_eq(unlink(path), 0);
    ck_assert_int_eq(run_command("doctor", said, sizeof(said)), 2);
    REQUIRE(strstr(said, path) != NULL, "no %s in %s", path, said);
    int64_t end_ns = boottime_now() + GUARD_MS * MS;
    while (!agent_logged(&agent, path)) { /* the agent checks its files from time to time */
        REQUIRE(boottime_now() < end_ns, "the log does not name %s", path);
        sleep_ms(20);
    }
    ck_assert(agent_logged(&agent, "event=files_gone"));
    snprintf(said, sizeof(said), "the socket %s", agent.socket);
    /* An agent makes a removed socket again, but not in a folder that others may list. */
    ck_assert_int_eq(chmod(agent.folder, 0755), 0);
    ck_assert_int_eq(unlink(agent.socket), 0);
    end_ns = boottime_now() + GUARD_MS * MS;
    while (!agent_logged(&agent, said)) {
        REQUIRE(boottime_now() < end_ns, "the log does not tell of %s", said);
        sleep_ms(20);
    }
    ck_assert_int_eq(run_command("doctor", said, sizeof(said)), 69);
    REQUIRE(strstr(said, "there is no such file") != NULL, "%s", said);
    agent_destroy(&agent);
}
END_TEST

static void await_log(const char *text, unsigned count)
{
    int64_t end_ns = boottime_now() + GUARD_MS * MS;
    while (agent_logged(&agent, text) < count) {
        REQUIRE(boottime_now() < end_ns, "the log does not tell of %s", text);
        sleep_ms(20);
    }
}

/* Somebody removes the socket, alone or together with the lock file beside it. The socket is in a
 * folder in memory that other users cannot list, so the agent makes it again. Connected clients
 * notice nothing, and the agent still keeps a second agent out. */
START_TEST(a_removed_socket_is_made_again)
{
    char lock[160];
    char said[8192];
    char state[128];
    struct actor actor;
    struct stat status;
    setenv("HOLDFAST_TEST_BASE", "/dev/shm", 1);
    start_alone(state, sizeof(state));
    snprintf(lock, sizeof(lock), "%s.lock", agent.socket);
    actor_ready(&actor, agent.socket);
    ck_assert_int_eq(actor_open(&actor, 0, "x", 0), 0);
    ck_assert_int_eq(actor_acquire(&actor, 0, HF_EXCLUSIVE, GUARD_MS, NULL), 0);
    unsigned descriptors = agent_descriptors(&agent);
    for (unsigned i = 1; i <= 3; i++) {
        ck_assert_int_eq(unlink(agent.socket), 0);
        ck_assert_int_eq(i > 1 ? unlink(lock) : 0, 0);
        await_log("event=socket_made_again", i);
        ck_assert_int_eq(run_command("show --json x", said, sizeof(said)), 0);
        ck_assert_ptr_nonnull(strstr(said, "\"exclusive\""));
        ck_assert_int_eq(stat(agent.socket, &status), 0);
        ck_assert_uint_eq(status.st_mode & 0777, 0600);
    }
    /* A thread of the agent closes the descriptors of the commands that have ended. */
    for (unsigned ms = 0; ms < GUARD_MS && agent_descriptors(&agent) > descriptors; ms += 10) {
        sleep_ms(10);
    }
    ck_assert_uint_le(agent_descriptors(&agent), descriptors);
    ck_assert_int_eq(actor_release(&actor, 0), 0);
    /* An agent with the same socket and another state folder still finds that the first agent holds
     * the lock file. */
    snprintf(lock, sizeof(lock), "%s/other.ini", agent.folder);
    snprintf(said, sizeof(said), "[agent]\nname = b\ncell = c\nstate_dir = %s/other\nsocket = %s\n",
             agent.folder, agent.socket);
    write_file(lock, said);
    const char *const other[] = {"holdfastd", "--config", lock, NULL};
    ck_assert_int_eq(run(other, said, sizeof(said)), 70);
    ck_assert_ptr_nonnull(strstr(said, "in use by another agent"));
    /* Other users may list the folder now. The agent makes no socket there, logs that once, and
     * reports that it is failing. */
    ck_assert_int_eq(chmod(agent.folder, 0755), 0);
    ck_assert_int_eq(unlink(agent.socket), 0);
    await_log("event=socket_gone", 1);
    await_log("event=judgement_changed state=failing reasons=socket_gone", 1);
    ck_assert_int_eq(chmod(agent.folder, 0711), 0);
    await_log("event=socket_made_again", 4);
    await_log("event=judgement_changed state=well", 1);
    ck_assert_uint_eq(agent_logged(&agent, "event=socket_gone"), 1);
    actor_end(&actor);
    agent_destroy(&agent);
    unsetenv("HOLDFAST_TEST_BASE");
}
END_TEST

/* The doctor reports why no agent answers, if it can find that out. It also reports users that may
 * write to the configuration. */
START_TEST(the_doctor_tells_who_is_silent)
{
    char state[128];
    char path[160];
    char said[8192];
    start_alone(state, sizeof(state));
    (void)run_command("doctor", said, sizeof(said));
    REQUIRE(strstr(said, "may write to") == NULL, "%s", said);
    snprintf(path, sizeof(path), "%s/holdfast.conf", agent.folder);
    ck_assert_int_eq(chmod(path, 0664), 0);
    (void)run_command("doctor", said, sizeof(said));
    REQUIRE(strstr(said, "may write to") != NULL && strstr(said, path) != NULL, "%s", said);
    agent_pause(&agent);
    ck_assert_int_eq(run_command("doctor", said, sizeof(said)), 69);
    agent_continue(&agent);
    REQUIRE(strstr(said, "a process listens there but does not answer") != NULL, "%s", said);
    agent_kill(&agent);
    ck_assert_int_eq(run_command("doctor", said, sizeof(said)), 69);
    REQUIRE(strstr(said, "the agent that listened there has ended") != NULL, "%s", said);
    agent_destroy(&agent);
}
END_TEST

/* Returns whether the lock file beside the agent's socket is in the kernel's list of locks. */
static bool lock_is_listed(void)
{
    char path[160];
    char line[256];
    char wanted[64];
    struct stat status;
    bool listed = false;
    FILE *locks = fopen("/proc/locks", "re");
    snprintf(path, sizeof(path), "%s.lock", agent.socket);
    if (locks == NULL || stat(path, &status) != 0) {
        return false;
    }
    snprintf(wanted, sizeof(wanted), ":%ju ", (uintmax_t)status.st_ino);
    while (!listed && fgets(line, sizeof(line), locks) != NULL) {
        listed = strstr(line, "FLOCK") != NULL && strstr(line, wanted) != NULL;
    }
    fclose(locks);
    return listed;
}

/* A voter of a new cell has no socket while it waits for the other voters. The doctor must not
 * report that the agent is not started. */
START_TEST(the_doctor_sees_an_agent_that_starts)
{
    char text[1024];
    char said[8192];
    unsigned ports[3];
    agent_free_ports(ports, 3);
    snprintf(text, sizeof(text),
             "[agent]\nname = a\ncell = alone\nstate_dir = %%D/state\nsocket = %%D/agent.sock\n"
             "[cell]\nsession_ttl = 1h\n[voters]\na = tcp://127.0.0.1:%u\n"
             "b = tcp://127.0.0.1:%u\nc = tcp://127.0.0.1:%u\n",
             ports[0], ports[1], ports[2]);
    agent_create(&agent, text);
    agent_launch(&agent);
    int64_t end_ns = boottime_now() + GUARD_MS * MS;
    while (!agent_logged(&agent, "event=session_new")) {
        REQUIRE(boottime_now() < end_ns, "it does not start");
        sleep_ms(20);
    }
    agent_note_regions(&agent);
    ck_assert_int_eq(run_command("doctor", said, sizeof(said)), 69);
    if (lock_is_listed()) {
        REQUIRE(strstr(said, "has the agent's lock: it is still starting") != NULL, "%s", said);
        snprintf(text, sizeof(text), "process %d has", (int)agent.pid);
        REQUIRE(strstr(said, text) != NULL, "%s", said);
    }
    REQUIRE(strstr(said, "there is no such file") != NULL, "%s", said);
    REQUIRE(strstr(said, "still starting") != NULL, "%s", said);
    agent_kill(&agent);
    ck_assert_int_eq(run_command("doctor", said, sizeof(said)), 69);
    REQUIRE(strstr(said, "has the agent's lock") == NULL, "%s", said);
    REQUIRE(strstr(said, "no agent was started there") != NULL, "%s", said);
    agent_destroy(&agent);
}
END_TEST

/* The agent cannot make a file for a new client, as on a full disk. The client must get the error
 * of the full disk, and not the error that no agent runs. */
START_TEST(no_room_for_a_new_client_is_told)
{
    char state[128];
    char path[160];
    char said[8192];
    start_alone(state, sizeof(state));
    snprintf(path, sizeof(path), "%s/clients", state);
    ck_assert_int_eq(rmdir(path), 0);
    ck_assert_int_eq(run_command("status", said, sizeof(said)), 70);
    REQUIRE(strstr(said, "disk") != NULL, "%s", said);
    ck_assert_int_eq(run_command("doctor", said, sizeof(said)), 69);
    REQUIRE(strstr(said, "make room where state_dir is") != NULL, "%s", said);
    ck_assert(agent_logged(&agent, "level=error event=record_failed pid="));
    await_log("event=judgement_changed state=failing reasons=records_fail", 1);
    long size = agent_log_size(&agent);
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(run_command("status", said, sizeof(said)), 70);
    }
    ck_assert_int_lt(agent_log_size(&agent) - size, 600);
    agent_kill(&agent);
    agent_start(&agent); /* the agent makes its folder in shared memory again */
    ck_assert_int_eq(run_command("status", said, sizeof(said)), 0);
    REQUIRE(strstr(said, "\nstate    well\n") != NULL, "%s", said);
    agent_destroy(&agent);
}
END_TEST

/* The agent reports a disk that is nearly full before it has to write to it. On a file system that
 * is really full, a new process learns that the disk is the cause. */
START_TEST(a_full_disk_is_named_to_the_user)
{
    char state[128];
    char command[256];
    char said[8192] = "";
    agent_create(&agent, "[agent]\nname = alone\ncell = alone\nstate_dir = %D/state\n"
                         "socket = %D/agent.sock\n");
    snprintf(state, sizeof(state), "%s/state", agent.folder);
    ck_assert_int_eq(mkdir(state, 0700), 0);
    REQUIRE(unshare(CLONE_NEWNS) == 0 && mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
                mount("holdfast", state, "tmpfs", 0, "mode=0700,size=8M") == 0,
            "mount namespace: %s", strerror(errno));
    agent_start(&agent);
    int64_t end_ns = boottime_now() + GUARD_MS * MS;
    do {
        REQUIRE(boottime_now() < end_ns, "the disk is not judged: %s", said);
        ck_assert_int_eq(run_command("status", said, sizeof(said)), 0);
    } while (strstr(said, " MiB are free under ") == NULL);
    snprintf(command, sizeof(command), "cat /dev/zero >%s/ballast 2>/dev/null", state);
    int full = system(command);
    REQUIRE(WEXITSTATUS(full) == 1, "the disk is not full");
    ck_assert_int_eq(run_command("status", said, sizeof(said)), 70);
    REQUIRE(strstr(said, ": the agent's disk is full: make room where its state_dir is\n"), "%s",
            said);
    agent_kill(&agent); /* the agent would end by itself at its next write to the full disk */
    agent_destroy(&agent);
}
END_TEST

/* 203.0.113.0/24 is for documentation, so this host has no such address. */
START_TEST(an_address_that_this_host_does_not_have)
{
    char command[256];
    char said[1024];
    agent_create(&agent, "[agent]\nname = alone\ncell = alone\nstate_dir = %D/state\n"
                         "socket = %D/agent.sock\n[cell]\ninsecure = yes\n[voters]\n"
                         "alone = tcp://203.0.113.7:7411\n"
                         "b = tcp://127.0.0.1:1\nc = tcp://127.0.0.1:2\n");
    snprintf(command, sizeof(command), "%s --config %s/holdfast.conf 2>&1",
             binary_path("holdfastd"), agent.folder);
    FILE *pipe = popen(command, "re");
    REQUIRE(pipe != NULL, "popen");
    said[fread(said, 1, sizeof(said) - 1, pipe)] = '\0';
    ck_assert_int_eq(WEXITSTATUS(pclose(pipe)), 70);
    REQUIRE(strstr(said,
                   "tcp://203.0.113.7:7411: no such address: expected an address of this host "
                   "(see ip address), or 0.0.0.0 or [::] for all of them") != NULL,
            "%s", said);
    agent_destroy(&agent);
}
END_TEST

/* Waits until the service manager's socket receives these words. */
static void await_word(int inbox, const char *words)
{
    char said[256];
    for (;;) {
        struct pollfd ready = {.fd = inbox, .events = POLLIN};
        REQUIRE(poll(&ready, 1, GUARD_MS) == 1, "nobody says %s", words);
        ssize_t size = recv(inbox, said, sizeof(said) - 1, 0);
        ck_assert_int_gt(size, 0);
        said[size] = '\0';
        if (strstr(said, words) != NULL) {
            return;
        }
    }
}

/* The agent notifies the service manager when it begins to serve, again and again while it lives,
 * and when it ends. */
START_TEST(the_service_manager_is_told)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int inbox = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    agent_create(&agent, NULL);
    snprintf(address.sun_path, sizeof(address.sun_path), "%s/manager", agent.folder);
    ck_assert_int_eq(bind(inbox, (const struct sockaddr *)&address, sizeof(address)), 0);
    agent.manager = address.sun_path;
    agent_start(&agent);
    await_word(inbox, "READY=1");
    await_word(inbox, "WATCHDOG=1");
    await_word(inbox, "WATCHDOG=1"); /* the agent repeats WATCHDOG=1 */
    ck_assert_int_eq(agent_stop(&agent), 0);
    await_word(inbox, "STOPPING=1");
    close(inbox);
    agent.manager = NULL;
    agent_destroy(&agent);
}
END_TEST

/* systemd sends SIGCONT after SIGTERM, and `timeout` sends it as well. SIGCONT alone is no sign of
 * a stall: the agent logs a stall only if it lost time. */
START_TEST(sigcont_alone_is_no_stall)
{
    enum {
        STOP_MS = 3000
    }; /* longer than the time to the next renewal, and than a twentieth of session_ttl */
    agent_create(&agent, NULL);
    agent_start(&agent);
    for (unsigned i = 0; i < 5; i++) {
        agent_continue(&agent);
        hf_disconnect(connect_to(&agent)); /* the next turn of the agent's loop sees the signal */
    }
    ck_assert_uint_eq(agent_logged(&agent, "event=stalled"), 0);
    agent_pause(&agent);
    sleep_ms(STOP_MS);
    agent_continue(&agent);
    await_log("event=stalled", 1);
    agent_continue(&agent); /* the turn of the loop that handles SIGTERM sees this SIGCONT, too */
    ck_assert_int_eq(kill(agent.pid, SIGTERM), 0);
    int status = wait_for(agent.pid);
    agent.pid = 0;
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    ck_assert_uint_eq(agent_logged(&agent, "event=stalled"), 1);
    agent_destroy(&agent);
}
END_TEST

/* Calls of `holdfast` leave no line in the log, unless the configuration asks for them. */
START_TEST(calls_are_in_the_log_if_wanted)
{
    static const char *const levels[] = {"", "log_level = debug\n"};
    char text[512];
    char command[300];
    snprintf(text, sizeof(text),
             "[agent]\nname = a\ncell = calls\nstate_dir = %%D/state\nsocket = %%D/agent.sock\n%s"
             /* a long session_ttl, so that the agent logs no turn of its loop as slow */
             "[cell]\nsession_ttl = 60s\n",
             levels[_i]);
    agent_create(&agent, text);
    agent_start(&agent);
    unsigned before = agent_logged(&agent, "level=");
    snprintf(command, sizeof(command), "%s -s %s lock x -- true", binary_path("holdfast"),
             agent.socket);
    for (unsigned i = 0; i < 3; i++) {
        ck_assert_int_eq(system(command), 0);
    }
    ck_assert_uint_eq(agent_logged(&agent, "level="), before + (_i == 0 ? 0 : 3));
    ck_assert_uint_eq(agent_logged(&agent, "level=debug event=client_connected client="),
                      _i == 0 ? 0 : 3);
    agent_destroy(&agent);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("daemon");
    TCase *ends = tcase_create("ends");
    tcase_set_timeout(ends, 60);
    tcase_add_loop_test(ends, usage, 0, 11);
    tcase_add_test(ends, help_and_version);
    tcase_add_test(ends, check_config);
    tcase_add_test(ends, a_folder_that_others_may_write_to);
    tcase_add_test(ends, no_standard_streams);
    tcase_add_test(ends, a_second_agent_is_refused);
    tcase_add_test(ends, a_dead_socket_is_replaced_a_file_is_not);
    tcase_add_test(ends, nothing_is_open_to_others);
    tcase_add_test(ends, sigcont_alone_is_no_stall);
    tcase_add_loop_test(ends, calls_are_in_the_log_if_wanted, 0, 2);
    tcase_add_test(ends, the_service_manager_is_told);
    tcase_add_test(ends, a_hold_outlives_the_agent);
    tcase_add_test(ends, too_late_is_a_new_session);
    tcase_add_test(ends, what_is_moved_or_removed_is_told);
    tcase_add_test(ends, a_removed_socket_is_made_again);
    tcase_add_test(ends, no_room_for_a_new_client_is_told);
    tcase_add_test(ends, a_full_disk_is_named_to_the_user);
    tcase_add_test(ends, an_address_that_this_host_does_not_have);
    tcase_add_test(ends, the_doctor_tells_who_is_silent);
    tcase_add_test(ends, the_doctor_sees_an_agent_that_starts);
    tcase_add_test(ends, the_first_acquire_of_a_name_is_one_commit);
    suite_add_tcase(suite, ends);
    return suite_run(suite);
}
