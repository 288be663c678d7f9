/*
 * `holdfastd --recover` asks the other voters. If a majority of the voters lives, it refuses,
 * changes nothing, and every hold goes on. It recovers the cell if the majority is down, or if the
 * agents that answer have no vote. (recovery.c has the recovery itself.)
 */
#include <arpa/inet.h>
#include <check.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../suite_main.h"
#include "actor.h"
#include "cell.h"
#include "member.h"
#include "require.h"

enum { A, B, C, D, HOSTS, ABC = 7, ELSEWHERE = HOSTS, PORTS };

static struct agent_process agents[HOSTS];
static unsigned ports[PORTS];
static unsigned ttl_s;   /* session_ttl */
static unsigned made;    /* bits of the hosts that have an agent */
static const char *tls;  /* the folder with the certificates; NULL: no TLS */
static char said[16384]; /* what --recover printed last, on both of its outputs */

static const char *scheme(void)
{
    return tls != NULL ? "tls+tcp://" : "tcp://";
}

/* Writes the configuration of a host of a cell, which host-a to host-c begin. */
static void describe(const char *cell, unsigned host, unsigned port, char *text, size_t size)
{
    int used = snprintf(text, size,
                        "[agent]\nname = host-%c\ncell = %s\nrole = %s\n"
                        "state_dir = %%D/state\nsocket = %%D/agent.sock\n"
                        "[cell]\nsession_ttl = %us\nlisten = %s127.0.0.1:%u\n[voters]\n",
                        'a' + (int)host, cell, (ABC >> host & 1) != 0 ? "voter" : "observer", ttl_s,
                        scheme(), port);
    for (unsigned i = A; i <= C; i++) {
        used += snprintf(text + used, size - (size_t)used, "host-%c = %s127.0.0.1:%u\n",
                         'a' + (int)i, scheme(), i == host ? port : ports[i]);
    }
    if (tls != NULL) {
        snprintf(text + used, size - (size_t)used,
                 "[tls]\nca = %s/ca.pem\ncert = %s/%c.pem\nkey = %s/%c.key\n", tls, tls,
                 'a' + (int)host, tls, 'a' + (int)host);
    }
}

static void configure(const char *cell, unsigned host, unsigned port)
{
    char text[2048];
    describe(cell, host, port, text, sizeof(text));
    agent_configure(&agents[host], text);
}

static void make(unsigned hosts)
{
    char text[2048];
    if (made == 0) {
        agent_free_ports(ports, PORTS);
    }
    for (unsigned i = A; i < HOSTS; i++) {
        if ((hosts >> i & 1) != 0) {
            describe("prod", i, ports[i], text, sizeof(text));
            agent_create(&agents[i], text);
            agent_launch(&agents[i]);
            made |= 1U << i;
        }
    }
    for (unsigned i = A; i < HOSTS; i++) {
        if ((hosts >> i & 1) != 0) {
            agent_await_socket(&agents[i]);
        }
    }
}

static void begin(void)
{
    ttl_s = 5;
    made = 0;
    tls = NULL;
}

static void end(void)
{
    for (unsigned i = HOSTS; i-- > 0;) {
        if ((made >> i & 1) != 0) {
            agent_destroy(&agents[i]);
        }
    }
}

/* Runs a shell command, in which $HERE is that agent's folder. Returns its exit status, and copies
 * its output to `said`. */
static int run(unsigned host, const char *words)
{
    char line[1024];
    snprintf(line, sizeof(line), "{ HERE=%s; %s; } 2>&1", agents[host].folder, words);
    FILE *pipe = popen(line, "re");
    REQUIRE(pipe != NULL, "popen");
    size_t size = fread(said, 1, sizeof(said) - 1, pipe);
    said[size] = '\0';
    int status = pclose(pipe);
    REQUIRE(WIFEXITED(status), "%s: %x: %s", words, (unsigned)status, said);
    return WEXITSTATUS(status);
}

static void run_well(unsigned host, const char *words)
{
    int status = run(host, words);
    REQUIRE(status == 0, "%s: %d: %s", words, status, said);
}

static int recover(unsigned host)
{
    char words[512];
    snprintf(words, sizeof(words), "%s --config $HERE/holdfast.conf --recover=prod",
             binary_path("holdfastd"));
    return run(host, words);
}

/* Checks that the last command printed `before`, the host's name and address, and `after`. */
static void assert_said(const char *before, unsigned host, const char *after)
{
    char text[512];
    snprintf(text, sizeof(text), "%shost-%c at %s127.0.0.1:%u%s", before, 'a' + (int)host, scheme(),
             ports[host], after);
    ck_assert_msg(strstr(said, text) != NULL, "expected %s, found %s", text, said);
}

static void assert_answered(unsigned host, const char *what)
{
    char text[512];
    snprintf(text, sizeof(text), "  host-%c       %s127.0.0.1:%u: %s\n", 'a' + (int)host, scheme(),
             ports[host], what);
    ck_assert_msg(strstr(said, text) != NULL, "expected %s, found %s", text, said);
}

#define ASSERT_SAID(text) ck_assert_msg(strstr(said, text) != NULL, "%s", said)

/* Checks that the recovery is refused, and that it has changed nothing on that host. */
static void assert_refused(unsigned host, int code)
{
    run_well(host, "ls -l --time-style=full-iso $HERE/state/holdfast.db*");
    char before[sizeof(said)];
    snprintf(before, sizeof(before), "%s", said);
    run_well(host, "cp $HERE/state/holdfast.db $HERE/before");
    int status = recover(host);
    char found[sizeof(said)];
    snprintf(found, sizeof(found), "%s", said);
    ck_assert_msg(status == code, "%d: %s", status, said);
    ck_assert_msg(strstr(said, "nothing was done: ") != NULL, "%s", said);
    ck_assert_msg(strstr(said, "begins anew") == NULL, "%s", said);
    run_well(host, "cmp $HERE/state/holdfast.db $HERE/before");
    run_well(host, "ls -l --time-style=full-iso $HERE/state/holdfast.db*");
    ck_assert_str_eq(said, before);
    snprintf(said, sizeof(said), "%s", found);
}

static uint64_t take(unsigned host, const char *name)
{
    struct actor actor;
    struct hf_hold hold;
    actor_ready(&actor, agents[host].socket);
    ck_assert_int_eq(actor_open(&actor, 0, name, 10), 0);
    int error = actor_acquire(&actor, 0, HF_EXCLUSIVE, GUARD_MS, &hold);
    ck_assert_msg(error == 0, "host %u: %d", host, error);
    ck_assert_int_eq(actor_release(&actor, 0), 0);
    actor_end(&actor);
    return hold.token;
}

/* Takes a lock on that host, and keeps it. */
static void hold(struct actor *actor, unsigned host, const char *name)
{
    struct hf_hold got;
    actor_ready(actor, agents[host].socket);
    ck_assert_int_eq(actor_open(actor, 0, name, 10), 0);
    ck_assert_int_eq(actor_acquire(actor, 0, HF_EXCLUSIVE, GUARD_MS, &got), 0);
}

/* Restarts that voter's agent with an empty store. The other voters' agents still run, and refuse
 * the empty store. */
static void lose_store(unsigned host)
{
    agent_kill(&agents[host]);
    run_well(host, "rm -r $HERE/state");
    agent_start(&agents[host]);
    int64_t end_ns = boottime_now() + GUARD_MS * MS;
    while (agent_logged(&agents[host], "event=voter_refused") == 0) {
        ck_assert_msg(boottime_now() < end_ns, "host %u is not refused", host);
        sleep_ms(20);
    }
}

/* Waits until an agent listens at that host's address. */
static void await_listener(unsigned host)
{
    const struct sockaddr_in address = {.sin_family = AF_INET,
                                        .sin_port = htons((in_port_t)ports[host]),
                                        .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int64_t end_ns = boottime_now() + GUARD_MS * MS;
    for (bool listens = false; !listens;) {
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        listens = connect(fd, (const struct sockaddr *)&address, sizeof(address)) == 0;
        close(fd);
        ck_assert_msg(listens || boottime_now() < end_ns, "nobody listens on host %u", host);
        sleep_ms(listens ? 0 : 10);
    }
}

/* ---- refused ---- */

/* Both hosts' holds survive, and the survivor's agent continues its session. */
static void beside_a_living_majority(void)
{
    struct actor near;
    struct actor far;
    ttl_s = 20; /* longer than this host has no agent, even on a slow machine */
    make(ABC);
    hold(&near, C, "near");
    hold(&far, A, "far");
    ck_assert_int_eq(agent_stop(&agents[C]), 0);
    assert_refused(C, 70);
    assert_said(
        "nothing was done: with this store, a majority of the voters of record 1 is alive (", A,
        ", host-b at ");
    assert_said(", ", B, "): start this host's agent as usual");
    agent_start(&agents[C]);
    ck_assert_uint_eq(agent_logged(&agents[C], "event=session_continued"), 1);
    ck_assert_int_eq(actor_release(&near, 0), 0); /* the hold was not lost */
    ck_assert_int_eq(actor_release(&far, 0), 0);
    actor_end(&near);
    actor_end(&far);
    ck_assert_uint_gt(take(C, "far"), 0);
}

START_TEST(refused_beside_a_living_majority)
{
    beside_a_living_majority();
    /* the one living voter and the store of another voter are a majority */
    agent_kill(&agents[B]);
    ck_assert_int_eq(agent_stop(&agents[C]), 0);
    assert_refused(C, 70);
    assert_said(
        "nothing was done: with this store, a majority of the voters of record 1 is alive (", A,
        "): start this host's agent as usual");
    agent_start(&agents[C]);
    (void)take(C, "far");
}
END_TEST

START_TEST(refused_with_tls)
{
    char version[256] = "";
    char command[512];
    char folder[] = "/tmp/holdfast-alive.XXXXXX";
    snprintf(command, sizeof(command), "%s --version", binary_path("holdfastd"));
    FILE *pipe = popen(command, "re");
    REQUIRE(pipe != NULL, "popen");
    REQUIRE(fgets(version, sizeof(version), pipe) != NULL, "no version");
    pclose(pipe);
    if (strstr(version, "built without TLS") != NULL) {
        return;
    }
    REQUIRE(mkdtemp(folder) != NULL, "mkdtemp");
    cell_certify(folder);
    tls = folder;
    beside_a_living_majority();
    snprintf(command, sizeof(command), "rm -rf %s", folder);
    REQUIRE(system(command) == 0, "%s", command);
}
END_TEST

/* This host's store cannot vote, so it does not count. The other voters are a majority without
 * it. */
START_TEST(refused_with_a_backup)
{
    char words[512];
    make(ABC);
    uint64_t token = take(C, "job");
    ck_assert_int_eq(member_run(&agents[C], "backup %s/backup", agents[C].folder), 0);
    ck_assert_int_eq(agent_stop(&agents[C]), 0);
    run_well(C, "rm -r $HERE/state; mkdir -m 700 $HERE/state; "
                "mv $HERE/backup $HERE/state/holdfast.db");
    assert_refused(C, 70);
    assert_said("nothing was done: a majority of the voters of record 1 is alive (", A, ", host-b");
    ASSERT_SAID(") without this store, which cannot vote: ");
    ASSERT_SAID("let this voter start over (holdfast member rejoin)");
    snprintf(words, sizeof(words), "%s --config $HERE/holdfast.conf --rejoin --yes",
             binary_path("holdfastd"));
    run_well(C, words);
    agent_start(&agents[C]);
    ck_assert_uint_gt(take(C, "job"), token);
    member_await_voters(&agents[A], ABC);
}
END_TEST

/* The store is an old copy, which the others have noticed. So this store does not count, and there
 * is no majority once host-b is lost. */
START_TEST(an_old_copy_does_not_count)
{
    make(ABC);
    ck_assert_int_eq(agent_stop(&agents[C]), 0);
    run_well(C, "cp -a $HERE/state $HERE/old-state");
    agent_start(&agents[C]);
    for (unsigned i = 0; i < 10; i++) {
        (void)take(i % 3, "job");
    }
    ck_assert_int_eq(agent_stop(&agents[C]), 0);
    run_well(C, "rm -r $HERE/state; mv $HERE/old-state $HERE/state");
    assert_refused(C, 70);
    ASSERT_SAID(") without this store, which cannot vote: ");
    agent_kill(&agents[B]);
    int status = recover(C);
    ck_assert_msg(status == 0, "%d: %s", status, said);
    assert_answered(A, "it votes");
    assert_answered(B, "not reached: nobody listens there");
}
END_TEST

/* The cell has meanwhile replaced this host's voter. The command asks the cell's present voters,
 * and not those of this host's old record. */
START_TEST(refused_when_the_voters_have_changed)
{
    make(ABC);
    make(1U << D);
    uint64_t token = take(C, "job");
    ck_assert_int_eq(agent_stop(&agents[C]), 0);
    int status = member_run(&agents[A], "replace host-c host-d tcp://127.0.0.1:%u --wait 60s",
                            ports[D]);
    ck_assert_msg(status == 0, "%d: %s", status, member_said);
    agent_kill(&agents[B]); /* of the old record's voters only host-a is left */
    assert_refused(C, 70);
    assert_said("nothing was done: a majority of the voters of record 3 is alive (", A, ", host-d");
    ASSERT_SAID("and host-c is none of those voters: start this host's agent as usual");
    agent_start(&agents[C]);
    ck_assert_uint_gt(take(C, "job"), token);
}
END_TEST

START_TEST(refused_after_another_recovery)
{
    make(ABC);
    for (unsigned host = A; host <= C; host++) {
        ck_assert_int_eq(agent_stop(&agents[host]), 0);
    }
    ck_assert_int_eq(recover(A), 0);
    agent_start(&agents[A]);
    assert_refused(C, 70);
    assert_said("nothing was done: the cell was recovered, and this store is from before (", A,
                "): start this host's agent as usual, and it follows");
}
END_TEST

/* The survivor's host has another address than the one in the record, so nobody answers it. */
START_TEST(refused_at_another_address)
{
    make(ABC);
    make(1U << D);
    int status = member_run(&agents[A], "add host-d tcp://127.0.0.1:%u --wait 60s", ports[D]);
    ck_assert_msg(status == 0, "%d: %s", status, member_said);
    ck_assert_int_eq(agent_stop(&agents[C]), 0);
    configure("prod", C, ports[ELSEWHERE]);
    assert_refused(C, 70);
    assert_said("nothing was done: a majority of the voters of record 2 may be alive (", A, "");
    ASSERT_SAID("because they know host-c at tcp://");
    agent_stop(&agents[A]); /* the message demands these stops */
    agent_stop(&agents[B]);
    agent_stop(&agents[D]);
    status = recover(C);
    ck_assert_msg(status == 0, "%d: %s", status, said);
}
END_TEST

/* ---- done ---- */

START_TEST(done_when_the_majority_is_down)
{
    make(ABC);
    agent_kill(&agents[A]);
    agent_kill(&agents[B]);
    ck_assert_int_eq(agent_stop(&agents[C]), 0);
    int64_t start_ns = boottime_now();
    int status = recover(C);
    ck_assert_msg(status == 0, "%d: %s", status, said);
    ck_assert_int_lt(boottime_now() - start_ns, GUARD_MS * MS);
    assert_answered(A, "not reached: nobody listens there");
    assert_answered(B, "not reached: nobody listens there");
    ASSERT_SAID("the cell prod begins anew with host-c: start its agent");
    agent_start(&agents[C]);
    ck_assert(agent_logged(&agents[C], "event=recovery_waits") > 0);
}
END_TEST

/* The agents of the other voters run and answer, but their stores are lost. */
START_TEST(done_when_the_others_are_refused)
{
    make(ABC);
    (void)take(C, "job");
    lose_store(A);
    lose_store(B);
    ck_assert_int_eq(agent_stop(&agents[C]), 0);
    int status = recover(C);
    ck_assert_msg(status == 0, "%d: %s", status, said);
    assert_answered(A, "it runs, and does not vote: its store was refused");
    assert_answered(B, "it runs, and does not vote: its store was refused");
}
END_TEST

/* Another cell has taken the addresses of the lost voters. */
START_TEST(done_beside_another_cell)
{
    make(ABC);
    ck_assert_int_eq(agent_stop(&agents[C]), 0);
    for (unsigned host = A; host <= B; host++) {
        agent_kill(&agents[host]);
        run_well(host, "rm -r $HERE/state");
        configure("test", host, ports[host]);
        agent_launch(&agents[host]);
    }
    await_listener(A);
    int status = recover(C);
    ck_assert_msg(status == 0, "%d: %s", status, said);
    assert_answered(A, "an agent runs there, and does not answer: it may be an observer, or of "
                       "another cell");
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("recover beside living voters");
    tcase_add_checked_fixture(tests, begin, end);
    tcase_add_test(tests, refused_beside_a_living_majority);
    tcase_add_test(tests, refused_with_tls);
    tcase_add_test(tests, refused_with_a_backup);
    tcase_add_test(tests, an_old_copy_does_not_count);
    tcase_add_test(tests, refused_when_the_voters_have_changed);
    tcase_add_test(tests, refused_after_another_recovery);
    tcase_add_test(tests, refused_at_another_address);
    tcase_add_test(tests, done_when_the_majority_is_down);
    tcase_add_test(tests, done_when_the_others_are_refused);
    tcase_add_test(tests, done_beside_another_cell);
    tcase_set_timeout(tests, 240); /* a guard against hanging */
    return suite_main("recover beside living voters", tests);
}
