/*
 * Recovery of a cell: two of its three voters are lost with their stores. The cell begins anew with
 * the third voter's store, or with a backup of it. This test reads the commands of runbooks 7 and 9
 * from docs/OPERATIONS.md, and runs them.
 *
 * The wait after a recovery is longer than a minute, so the test makes the hosts' clock run RATE
 * times as fast. It preloads the library of faults.c into agents and commands, for their
 * CLOCK_BOOTTIME. The test itself reads the true clock.
 */
#include "../suite_main.h"
#include "agent_process.h"
#include "faults.h"
#include "require.h"
#include "runbook.h"

#include <check.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    VOTERS = 3,
    HOSTS = 4, /* the last host is an observer */
    SURVIVOR = 2,
    OBSERVER = 3,
    RATE = 8,
    SESSION_S = 25,                      /* session_ttl + grace_period, by the hosts' clock */
    WAIT_S = (SESSION_S + 60) * 11 / 10, /* max_drift makes the wait longer */
    LATE_S = 300 * RATE,                 /* a generous bound, because a slow machine may be late */
    EXIT_LOST = 76,                      /* status of `holdfast lock` if the hold is lost */
    EXIT_NO_ANSWER = 69,                 /* status of `holdfast` if no agent answers */
    GENERATION_BITS = 52,                /* the low bits of a token; its generation is above them */
};

static struct agent_process agents[HOSTS];
static unsigned ports[HOSTS];
static char faults_path[] = "/tmp/recovery-clock.XXXXXX";

/* Writes the configuration of a host. The voters in it are `first` and the hosts after it, up to
 * the survivor. */
static void describe(int host, int first, char *text, size_t size)
{
    int used = snprintf(text, size,
                        "[agent]\nname = host-%c\ncell = prod\nstate_dir = %%D/state\n"
                        "socket = %%D/agent.sock\nrole = %s\n[cell]\nsession_ttl = 24s\n"
                        "grace_period = 1s\nlisten = tcp://127.0.0.1:%u\n[voters]\n",
                        'a' + host, host >= first && host <= SURVIVOR ? "voter" : "observer",
                        ports[host]);
    for (int i = first; i <= SURVIVOR; i++) {
        used += snprintf(text + used, size - (size_t)used, "host-%c = tcp://127.0.0.1:%u\n",
                         'a' + i, ports[i]);
    }
}

/* Makes one clock for all hosts. Every process that begins from now on has this clock. */
static void make_clock(void)
{
    int fd = mkstemp(faults_path);
    ck_assert_int_ge(fd, 0);
    close(fd);
    unlink(faults_path);
    struct faults *faults = faults_create(faults_path);
    ck_assert_ptr_nonnull(faults);
    faults->hosts[0].rate_ppm = (RATE - 1) * 1000000;
    faults->hosts[0].base_ns = boottime_now();
    setenv(FAULTS_FILE, faults_path, 1);
    setenv(FAULTS_HOST, "0", 1);
    setenv("LD_PRELOAD", binary_path("../tests/libholdfast_faults.so"), 1);
}

/* Returns how many seconds the hosts' clock has counted since start_ns, a time of the true
 * clock. */
static int64_t hosts_seconds_since(int64_t start_ns)
{
    return (boottime_now() - start_ns) / MS * RATE / 1000;
}

static void start(void)
{
    char text[512];
    char path[2 * PATH_MAX];
    snprintf(path, sizeof(path), "%s:%s", binary_path(""), getenv("PATH"));
    setenv("PATH", path, 1);
    make_clock();
    agent_free_ports(ports, HOSTS);
    for (int i = 0; i < HOSTS; i++) {
        describe(i, 0, text, sizeof(text));
        agent_create(&agents[i], text);
        agent_launch(&agents[i]);
    }
    for (int i = 0; i < HOSTS; i++) {
        agent_await_socket(&agents[i]);
    }
}

static void stop(void)
{
    for (int i = HOSTS - 1; i >= 0; i--) { /* in reverse order, because each janitor has inherited
                                            * the pipes of the earlier ones */
        agent_destroy(&agents[i]);
    }
    unlink(faults_path);
}

/* Returns how many stalls the hosts' agents have logged. */
static unsigned count_stalls(void)
{
    unsigned count = 0;
    for (int i = 0; i < HOSTS; i++) {
        count += agent_logged(&agents[i], "event=stalled");
    }
    return count;
}

/* Runs a shell command on a host. The variable HERE has the path of that agent's folder. Returns
 * the exit status. The hosts' clock is fast, so a command stops waiting for its agent, and a
 * session ends, RATE times too early. On a busy machine this can spoil a command: the agent does
 * not answer in time, or a hold is lost while an agent stands still. Such a command is repeated. */
static int run(int host, const char *words)
{
    char command[2048];
    int code;
    bool spoilt;
    int64_t end_ns = boottime_now() + 2 * GUARD_MS * MS;
    snprintf(command, sizeof(command),
             "HERE=%s HOLDFAST_SOCKET=%s; export HERE HOLDFAST_SOCKET; exec >>%s 2>&1; %s",
             agents[host].folder, agents[host].socket, agents[host].log, words);
    do {
        unsigned stalls = count_stalls();
        int status = system(command);
        REQUIRE(WIFEXITED(status), "%s: %x", words, (unsigned)status);
        code = WEXITSTATUS(status);
        spoilt = (code == EXIT_NO_ANSWER && agents[host].pid != 0) ||
                 (code == EXIT_LOST && count_stalls() > stalls);
    } while (spoilt && boottime_now() < end_ns);
    return code;
}

static void run_well(int host, const char *words)
{
    int status = run(host, words);
    REQUIRE(status == 0, "%s: %d", words, status);
}

/* Runs a line of a runbook on that host. */
static void do_line(int host, const char *line)
{
    char words[RUNBOOK_LINE_MAX];
    snprintf(words, sizeof(words), "%s", line);
    runbook_replace(words, "/etc/holdfast/holdfastd.ini", "$HERE/holdfast.conf");
    runbook_replace(words, "/var/backups/holdfast.db", "$HERE/backup");
    if (strcmp(line, "systemctl stop holdfastd") == 0) {
        if (agents[host].pid != 0) {
            ck_assert_int_eq(agent_stop(&agents[host]), 0);
        }
    } else if (strcmp(line, "systemctl start holdfastd") == 0) {
        agent_start(&agents[host]);
    } else {
        run_well(host, words);
    }
}

/* Runs the commands of a runbook, of which there are `count`. */
static void do_runbook(int host, const char *heading, unsigned count)
{
    struct runbook runbook;
    runbook_read(&runbook, heading, count);
    for (unsigned i = 0; i < count; i++) {
        do_line(host, runbook.lines[i].text);
    }
}

/* Takes the lock on that host once, and returns its token. */
static uint64_t take(int host, const char *name)
{
    char words[256];
    unsigned long long token = 0;
    snprintf(words, sizeof(words),
             "timeout 40 holdfast lock %s -- sh -c 'echo $HOLDFAST_TOKEN >$HERE/token'", name);
    run_well(host, words);
    snprintf(words, sizeof(words), "%s/token", agents[host].folder);
    FILE *file = fopen(words, "r");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_eq(fscanf(file, "%llu", &token), 1);
    fclose(file);
    return token;
}

/* Starts a process on that host that waits for the lock. Once it holds the lock, it writes the
 * token to the file `name`. */
static pid_t wait_for_lock(int host, const char *name, const char *words)
{
    char command[512];
    pid_t pid = fork_tied();
    if (pid == 0) {
        snprintf(command, sizeof(command),
                 "echo $HOLDFAST_TOKEN >%s/%s.new; mv %s/%s.new %s/%s; %s", agents[host].folder,
                 name, agents[host].folder, name, agents[host].folder, name, words);
        execlp("holdfast", "holdfast", "-s", agents[host].socket, "lock", "--lock-delay", "60s",
               "job", "--", "sh", "-c", command, (char *)NULL);
        _exit(127);
    }
    return pid;
}

static bool has_lock(int host, const char *name)
{
    char path[128];
    snprintf(path, sizeof(path), "%s/%s", agents[host].folder, name);
    return access(path, F_OK) == 0;
}

static uint64_t token_of(int host, const char *name)
{
    char path[128];
    unsigned long long token = 0;
    snprintf(path, sizeof(path), "%s/%s", agents[host].folder, name);
    FILE *file = fopen(path, "r");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_eq(fscanf(file, "%llu", &token), 1);
    fclose(file);
    return token;
}

/* Waits until the process has the lock. Checks that the process got it only after the whole wait of
 * WAIT_S, which began at start_ns. */
static void await_wait(int64_t start_ns)
{
    while (!has_lock(SURVIVOR, "waiter")) {
        REQUIRE(hosts_seconds_since(start_ns) < WAIT_S + LATE_S, "no lock after the wait");
        sleep_ms(20);
    }
    ck_assert_int_ge(hosts_seconds_since(start_ns), WAIT_S);
}

/* Makes that host a voter of the recovered cell. */
static void add(int host)
{
    char words[128];
    snprintf(words, sizeof(words), "timeout 60 holdfast member add host-%c tcp://127.0.0.1:%u",
             'a' + host, ports[host]);
    run_well(SURVIVOR, words);
}

START_TEST(two_of_three_are_gone)
{
    pid_t holder = wait_for_lock(0, "holder", "sleep 1000");
    while (!has_lock(0, "holder")) {
        sleep_ms(20);
    }
    pid_t waiter = wait_for_lock(SURVIVOR, "waiter", "true");
    pid_t far = wait_for_lock(OBSERVER, "far", "true");
    for (unsigned i = 0; i < 10; i++) { /* a voter stores others' commit numbers once a second */
        (void)take((int)i % VOTERS, "other");
        sleep_ms(200);
    }
    uint64_t before = token_of(0, "holder");

    agent_kill(&agents[0]);
    agent_kill(&agents[1]);
    run_well(1, "mv $HERE/state $HERE/old-state");
    run_well(0, "rm -r $HERE/state");
    /* the command is refused while the agent runs, and without the right name */
    ck_assert_int_eq(run(SURVIVOR, "holdfastd --config $HERE/holdfast.conf --recover=prod"), 70);
    ck_assert_int_eq(agent_stop(&agents[SURVIVOR]), 0);
    ck_assert_int_eq(run(SURVIVOR, "holdfastd --config $HERE/holdfast.conf --recover=test"), 64);
    ck_assert_int_eq(run(SURVIVOR, "holdfastd --config $HERE/holdfast.conf --recover </dev/null"),
                     64);
    ck_assert(agent_logged(&agents[SURVIVOR], "Voters (record 1): host-a, host-b, host-c") > 0);
    ck_assert(agent_logged(&agents[SURVIVOR], "host-b       after its commit") > 0);
    int64_t start_ns = boottime_now();
    do_runbook(SURVIVOR, "7. Two of three are gone", 3);
    ck_assert(agent_logged(&agents[SURVIVOR], "event=recovery_waits") > 0);
    ck_assert_int_eq(run(SURVIVOR, "holdfast status"), 75);

    sleep_ms(2000); /* a restart begins the wait anew */
    agent_kill(&agents[SURVIVOR]);
    start_ns = boottime_now();
    agent_start(&agents[SURVIVOR]);
    await_wait(start_ns);
    ck_assert_uint_eq(agent_logged(&agents[SURVIVOR], "event=cell_recovered"), 1);
    ck_assert_int_eq(WEXITSTATUS(wait_for(waiter)), 0);
    ck_assert_uint_gt(token_of(SURVIVOR, "waiter"), before);
    ck_assert_uint_eq(token_of(SURVIVOR, "waiter") >> GENERATION_BITS, 1);
    /* a waiter of another host, which has waited since before the failure */
    ck_assert_int_eq(WEXITSTATUS(wait_for(far)), 0);
    ck_assert_uint_gt(token_of(OBSERVER, "far"), before);
    ck_assert_uint_eq(token_of(OBSERVER, "far") >> GENERATION_BITS, 1);
    uint64_t other = take(SURVIVOR, "other");
    ck_assert_uint_eq(other >> GENERATION_BITS, 1);
    ck_assert_int_eq(run(SURVIVOR, "holdfast status"), 0);
    /* a second recovery of the same cell is refused */
    agent_kill(&agents[SURVIVOR]);
    ck_assert_int_eq(run(SURVIVOR, "holdfastd --config $HERE/holdfast.conf --recover=prod"), 78);
    agent_start(&agents[SURVIVOR]);

    /* A lost voter comes back with its old store. It does not vote, and does not disturb the
     * cell. */
    unsigned voted = agent_logged(&agents[1], "event=voter_votes");
    run_well(1, "mv $HERE/old-state $HERE/state");
    agent_start(&agents[1]);
    uint64_t next = take(1, "other"); /* the recovered cell serves its host */
    ck_assert_uint_gt(next, other);
    for (int64_t end_ns = boottime_now() + GUARD_MS * MS;
         agent_logged(&agents[1], "event=voters_changed number=1048576") == 0;) {
        REQUIRE(boottime_now() < end_ns, "host-b does not learn the new voters");
        sleep_ms(20);
    }
    sleep_ms(2000);
    ck_assert_uint_eq(agent_logged(&agents[1], "event=voter_votes"), voted);
    ck_assert_uint_gt(take(SURVIVOR, "other"), next);

    /* The observer becomes a voter of the recovered cell. */
    add(OBSERVER);
    ck_assert_uint_gt(take(OBSERVER, "other"), next);
    ck_assert_int_eq(run(SURVIVOR, "holdfast status"), 0);

    /* Step 5 of the runbook: host-a, whose store is lost, begins as a new host. Its file names the
     * survivor as the only voter. With three voters, the cell bears the loss of one. */
    char text[512];
    describe(0, SURVIVOR, text, sizeof(text));
    agent_configure(&agents[0], text);
    agent_start(&agents[0]);
    ck_assert_uint_gt(take(0, "other"), next);
    add(0);
    agent_kill(&agents[SURVIVOR]);
    ck_assert_uint_gt(take(0, "job"), token_of(OBSERVER, "far"));
    kill_process(holder);
}
END_TEST

/* Only a backup is left, which was made while the cell was in use. */
START_TEST(only_a_backup_is_left)
{
    pid_t users[HOSTS];
    struct stat status;
    char path[128];
    for (int i = 0; i < HOSTS; i++) {
        users[i] = fork_tied();
        if (users[i] == 0) {
            execlp("sh", "sh", "-c",
                   "while :; do for n in 1 2 3 4 5; do holdfast -s \"$0\" lock load-$n -- true; "
                   "done; done",
                   agents[i].socket, (char *)NULL);
            _exit(127);
        }
    }
    (void)take(0, "other");
    uint64_t before = take(1, "other");
    do_runbook(SURVIVOR, "9. Backups", 1);
    ck_assert_int_eq(run(SURVIVOR, "holdfast member backup $HERE/backup"), 70);
    run_well(SURVIVOR, "holdfast member backup --force $HERE/backup");
    snprintf(path, sizeof(path), "%s/backup", agents[SURVIVOR].folder);
    ck_assert_int_eq(stat(path, &status), 0);
    ck_assert_int_eq(status.st_mode & 07777, 0600);
    (void)take(0, "other"); /* these holds are missing in the backup */
    (void)take(1, "other");
    for (int i = 0; i < HOSTS; i++) {
        kill_process(users[i]);
        agent_kill(&agents[i]);
    }
    run_well(SURVIVOR, "rm -r $HERE/state; mkdir -m 700 $HERE/state; "
                       "mv $HERE/backup $HERE/state/holdfast.db");
    /* no agent starts with the backup */
    ck_assert_int_eq(run(SURVIVOR, "timeout 20 holdfastd --config $HERE/holdfast.conf"), 78);
    ck_assert(agent_logged(&agents[SURVIVOR], "is a backup (of host-c in the cell prod)") > 0);
    int64_t start_ns = boottime_now();
    do_runbook(SURVIVOR, "7. Two of three are gone", 3);
    pid_t waiter = wait_for_lock(SURVIVOR, "waiter", "true");
    await_wait(start_ns);
    ck_assert_int_eq(WEXITSTATUS(wait_for(waiter)), 0);
    ck_assert_uint_gt(take(SURVIVOR, "other"), before);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("recovery");
    tcase_add_checked_fixture(tests, start, stop);
    tcase_add_test(tests, two_of_three_are_gone);
    tcase_add_test(tests, only_a_backup_is_left);
    tcase_set_timeout(tests, 600);
    return suite_main("recovery", tests);
}
