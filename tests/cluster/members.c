/*
 * The voters of a cell of real agents change while clients use locks: `holdfast member add`,
 * `remove`, `replace` and `move`. Meanwhile holders keep their locks, waiters are served, tokens
 * rise, and two processes never hold at once. The tests read the commands of the runbooks from
 * docs/OPERATIONS.md.
 */
#include <check.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../suite_main.h"
#include "actor.h"
#include "cell.h"
#include "member.h"
#include "member_load.h"
#include "require.h"
#include "runbook.h"

enum { A, B, C, D, E, HOSTS, TTL_MS = 2000, TTL_LONG_MS = 8000, WAIT_S = 60 };

static struct agent_process agents[HOSTS];
static unsigned ports[2 * HOSTS]; /* the second half is for hosts that move */
static unsigned ttl_ms;           /* session_ttl */
static unsigned made;             /* bits of the hosts that have an agent */
static const char *tls;           /* the folder with the certificates; NULL: no TLS */
static const char *scheme;        /* of all addresses */

/* ---- hosts ---- */

/* Writes the configuration of a host. voters: the hosts in [voters]; port: where it listens. */
static void describe(unsigned host, unsigned voters, unsigned port, const char *more, char *text,
                     size_t size)
{
    int used = snprintf(text, size,
                        "[agent]\nname = host-%c\ncell = members\nrole = %s\n"
                        "state_dir = %%D/state\nsocket = %%D/agent.sock\n"
                        "[cell]\nsession_ttl = %ums\nlisten = %s127.0.0.1:%u\n%s[voters]\n",
                        'a' + (int)host, voters >> host & 1 ? "voter" : "observer", ttl_ms, scheme,
                        port, more);
    for (unsigned i = 0; i < HOSTS; i++) {
        if (voters >> i & 1) {
            used += snprintf(text + used, size - (size_t)used, "host-%c = %s127.0.0.1:%u\n",
                             'a' + (int)i, scheme, i == host ? port : ports[i]);
        }
    }
    if (tls != NULL) {
        snprintf(text + used, size - (size_t)used,
                 "[tls]\nca = %s/ca.pem\ncert = %s/%c.pem\nkey = %s/%c.key\n", tls, tls,
                 'a' + (int)host, tls, 'a' + (int)host);
    }
}

/* Makes these hosts and starts their agents. Their files name the hosts of `voters`, which begin
 * the cell. */
static void make(unsigned hosts, unsigned voters, const char *more)
{
    char text[2048];
    if (made == 0) {
        agent_free_ports(ports, 2 * HOSTS);
    }
    for (unsigned i = 0; i < HOSTS; i++) {
        if (hosts >> i & 1) {
            describe(i, voters, ports[i], more, text, sizeof(text));
            agent_create(&agents[i], text);
            agent_launch(&agents[i]);
            made |= 1U << i;
        }
    }
    for (unsigned i = 0; i < HOSTS; i++) {
        if (hosts >> i & 1) {
            agent_await_socket(&agents[i]);
        }
    }
}

static void begin(void)
{
    ttl_ms = TTL_MS;
    made = 0;
    tls = NULL;
    scheme = "tcp://";
}

static void end(void)
{
    for (unsigned i = HOSTS; i-- > 0;) {
        if (made >> i & 1) {
            agent_destroy(&agents[i]);
        }
    }
}

/* ---- the command ---- */

static int member(unsigned host, const char *words)
{
    return member_run(&agents[host], "%s", words);
}

/* Runs a change; `words` has the verb and the host. If `place` is not negative, the address with
 * that index in ports[] follows. */
static int change(unsigned host, const char *words, int place)
{
    char line[256];
    int used = snprintf(line, sizeof(line), "%s", words);
    if (place >= 0) {
        used += snprintf(line + used, sizeof(line) - (size_t)used, " %s127.0.0.1:%u", scheme,
                         ports[place]);
    }
    snprintf(line + used, sizeof(line) - (size_t)used, " --wait %ds", WAIT_S);
    return member(host, line);
}

#define CHANGED(host, words, place)                                                                \
    do {                                                                                           \
        int status_ = change(host, words, place);                                                  \
        ck_assert_msg(status_ == 0, "%s: exit %d: %s", words, status_, member_said);               \
    } while (0)

/* Runs a line of a runbook on that host. In docs/OPERATIONS.md host-a is at 10.0.0.1, and moves to
 * 10.0.1.1; host-b is at 10.0.0.2, and so on. */
static void do_line(unsigned host, const char *line)
{
    char words[RUNBOOK_LINE_MAX];
    char from[32];
    char to[32];
    snprintf(words, sizeof(words), "%s", line);
    for (unsigned i = 0; i < 2 * HOSTS; i++) {
        snprintf(from, sizeof(from), "10.0.%u.%u:7411", i / HOSTS, i % HOSTS + 1);
        snprintf(to, sizeof(to), "127.0.0.1:%u", ports[i]);
        runbook_replace(words, from, to);
    }
    if (strcmp(words, "systemctl restart holdfastd") == 0) {
        agent_stop(&agents[host]);
        agent_launch(&agents[host]);
        return;
    }
    ck_assert_msg(strncmp(words, "holdfast member ", 16) == 0, "%s", line);
    int status = member(host, words + 16);
    ck_assert_msg(status == 0, "%s: exit %d: %s", line, status, member_said);
}

/* Waits until the agent shows exactly these voters ("ab": host-a and host-b), all of them up. */
static void await_voters(unsigned host, const char *letters)
{
    char expected[512] = "";
    int64_t end_ns = boottime_now() + GUARD_MS * MS;
    do {
        char line[64];
        bool good = member(host, "list") == 0;
        size_t count = 0;
        for (const char *at = member_said; (at = strchr(at, '\n')) != NULL; at++) {
            count++;
        }
        good = good && count == strlen(letters);
        for (size_t i = 0; good && letters[i] != '\0'; i++) {
            snprintf(line, sizeof(line), "host-%c up at %s127.0.0.1:", letters[i], scheme);
            good = strstr(member_said, line) != NULL;
        }
        if (good) {
            return;
        }
        snprintf(expected, sizeof(expected), "%s", letters);
        sleep_ms(50);
    } while (boottime_now() < end_ns);
    ck_abort_msg("host %u: expected %s, found %s", host, expected, member_said);
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

/* ---- tests ---- */

/* The runbook "from one host to three", and its way back. During the changes a holder keeps its
 * lock. A waiter is served, and with three voters the first host may fail. */
START_TEST(from_one_host_to_three)
{
    const unsigned all = 1U << A | 1U << B | 1U << C;
    struct actor holder;
    struct actor waiter;
    struct actor_reply reply;
    struct hf_hold hold;
    struct runbook runbook;
    runbook_read(&runbook, "14. From one host to three", 4);
    make(all, 1U << A, "");
    actor_ready(&holder, agents[C].socket);
    actor_ready(&waiter, agents[B].socket);
    ck_assert_int_eq(actor_open(&holder, 0, "job", 10), 0);
    ck_assert_int_eq(actor_open(&waiter, 0, "job", 10), 0);
    ck_assert_int_eq(actor_acquire(&holder, 0, HF_EXCLUSIVE, GUARD_MS, &hold), 0);
    (void)actor_wait(&waiter, 0, HF_EXCLUSIVE);
    member_load_start(agents, all);
    member_load_await();
    do_line(A, runbook.lines[0].text);
    member_load_await();
    /* host-c is no voter yet, so its agent must refuse the change */
    ck_assert_int_eq(change(C, "add host-c", C), 77);
    ck_assert_msg(strstr(member_said, "only voters may change the voters") != NULL, "%s",
                  member_said);
    do_line(A, runbook.lines[1].text);
    member_load_await();
    member_load_end();
    for (unsigned i = A; i <= C; i++) {
        await_voters(i, "abc");
    }
    ck_assert_int_gt(actor_remaining(&holder, 0), 0);
    ck_assert_int_eq(actor_release(&holder, 0), 0);
    ck_assert(actor_receive(&waiter, &reply, GUARD_MS));
    ck_assert_int_eq(reply.result, 0);
    ck_assert_uint_gt(reply.hold.token, hold.token);
    agent_kill(&agents[A]);
    uint64_t token = take(C, "another");
    ck_assert_int_gt(actor_remaining(&waiter, 0), 0);
    agent_start(&agents[A]); /* its file still names it as the only voter */
    ck_assert(agent_logged(&agents[A], "event=voters_differ number=3") > 0);
    await_voters(A, "abc");
    ck_assert_uint_gt(take(A, "another"), token);
    ck_assert_uint_eq(runbook.lines[2].block, 1);
    member_load_start(agents, all);
    do_line(A, runbook.lines[2].text);
    member_load_await();
    do_line(A, runbook.lines[3].text);
    member_load_await();
    member_load_end();
    agent_kill(&agents[C]);
    await_voters(B, "a");
    ck_assert_int_gt(actor_remaining(&waiter, 0), 0);
    ck_assert_uint_gt(take(B, "another"), token);
    actor_end(&holder);
    actor_end(&waiter);
}
END_TEST

/* The runbook "replace a dead host". The dead host comes back with its old store and file. */
START_TEST(replace_a_dead_host)
{
    struct runbook runbook;
    runbook_read(&runbook, "15. Replace a dead host", 1);
    make(1U << A | 1U << B | 1U << C, 1U << A | 1U << B | 1U << C, "");
    make(1U << D, 1U << A, "");
    uint64_t token = take(A, "job");
    member_load_start(agents, 1U << A | 1U << B | 1U << D);
    member_load_await();
    agent_kill(&agents[C]);
    member_load_await();
    do_line(A, runbook.lines[0].text);
    do_line(B, runbook.lines[0].text); /* nothing is left to change */
    member_load_await();
    member_load_end();
    await_voters(A, "abd");
    agent_start(&agents[C]);
    await_voters(C, "abd"); /* an observer now */
    agent_kill(&agents[B]);
    ck_assert_uint_gt(take(C, "job"), token);
    ck_assert_uint_gt(take(D, "job"), token);
}
END_TEST

/* The coordinator of a lock in use is removed. A holder on its host keeps the lock, and the host
 * goes on as an observer. After a restart it may become a voter again. */
START_TEST(a_removed_voter_comes_back)
{
    struct actor holder;
    make(1U << A | 1U << B | 1U << C | 1U << D, 1U << B | 1U << C | 1U << D, "");
    CHANGED(B, "add host-a", A); /* for a time the cell has four voters */
    member_load_start(agents, 1U << A | 1U << B | 1U << C | 1U << D);
    for (unsigned host = A; host <= B; host++) {
        char words[32];
        snprintf(words, sizeof(words), "remove host-%c", 'a' + (int)host);
        member_load_await();
        CHANGED(D, words, -1);
        member_load_await();
    }
    await_voters(B, "cd");
    member_load_end();
    actor_ready(&holder, agents[A].socket);
    ck_assert_int_eq(actor_open(&holder, 0, "job", 10), 0);
    ck_assert_int_eq(actor_acquire(&holder, 0, HF_EXCLUSIVE, GUARD_MS, NULL), 0);
    for (int i = 0; i < 2; i++) { /* the second start finds the store empty, without any holds */
        member_restart_beside(&agents[A], &holder, ttl_ms);
    }
    ck_assert_uint_eq(agent_logged(&agents[A], "event=store_retired"), 1);
    CHANGED(D, "add host-a", A);
    ck_assert_int_eq(actor_release(&holder, 0), 0);
    actor_end(&holder);
    await_voters(A, "acd");
    agent_kill(&agents[C]);
    ck_assert_uint_gt(take(A, "job"), 0);
}
END_TEST

/* Runs a shell command. In it, $HERE is the folder of the host's agent. */
static void run_there(unsigned host, const char *words)
{
    char line[1024];
    snprintf(line, sizeof(line), "HERE=%s; export HERE; exec >>%s 2>&1; %s", agents[host].folder,
             agents[host].log, words);
    int status = system(line);
    ck_assert_msg(status == 0, "%s: %x", words, (unsigned)status);
}

/* A voter is removed and added again while its agent runs. It keeps its store, and its vote counts
 * again. The holder on its host keeps its lock. */
START_TEST(a_removed_voter_is_added_again_in_place)
{
    const unsigned all = 1U << A | 1U << B | 1U << C;
    struct actor holder;
    make(all, all, "");
    actor_ready(&holder, agents[C].socket);
    ck_assert_int_eq(actor_open(&holder, 0, "held", 10), 0);
    ck_assert_int_eq(actor_acquire(&holder, 0, HF_EXCLUSIVE, GUARD_MS, NULL), 0);
    uint64_t token = take(A, "job");
    for (int round = 0; round < 2; round++) {
        member_load_start(agents, all);
        member_load_await();
        CHANGED(A, "remove host-c", -1);
        member_load_await();
        CHANGED(B, "add host-c", C);
        member_load_await();
        member_load_end();
    }
    ck_assert_int_gt(actor_remaining(&holder, 0), 0);
    ck_assert_uint_eq(agent_logged(&agents[C], "event=store_retired"), 0);
    ck_assert_uint_eq(agent_logged(&agents[C], "event=session_lost"), 0);
    agent_kill(&agents[B]); /* without host c's vote there is no majority now */
    ck_assert_uint_gt(take(A, "job"), token);
    ck_assert_int_eq(actor_release(&holder, 0), 0);
    actor_end(&holder);
    agent_start(&agents[B]);
    await_voters(B, "abc");
}
END_TEST

/* A removed voter is added again under the same name with another store. Afterwards the cell
 * refuses the old store. */
START_TEST(a_removed_voter_is_added_again_with_another_store)
{
    const unsigned all = 1U << A | 1U << B | 1U << C;
    make(all, all, "");
    uint64_t token = take(C, "job");
    CHANGED(A, "remove host-c", -1);
    await_voters(C, "ab");
    agent_stop(&agents[C]);
    run_there(C, "mv $HERE/state $HERE/old-state");
    agent_start(&agents[C]); /* its file says that it begins a cell with host-a and host-b */
    await_voters(C, "ab");
    CHANGED(B, "add host-c", C);
    await_voters(C, "abc");
    agent_stop(&agents[C]);
    /* After its restart, host-b's agent no longer knows with which store host-c renewed its
     * session. */
    agent_kill(&agents[B]);
    agent_start(&agents[B]);
    run_there(C, "mv $HERE/state $HERE/new-state; mv $HERE/old-state $HERE/state");
    unsigned votes = agent_logged(&agents[C], "event=voter_votes");
    agent_start(&agents[C]);
    ck_assert_uint_gt(take(C, "job"), token); /* the other voters serve host-c */
    member_await_logged(&agents[C], "event=voter_refused");
    ck_assert_uint_eq(agent_logged(&agents[C], "event=voter_votes"), votes);
    agent_stop(&agents[C]);
    run_there(C, "rm -r $HERE/state; mv $HERE/new-state $HERE/state");
    agent_start(&agents[C]);
    await_voters(C, "abc");
}
END_TEST

/* An observer was added as a voter, but its file still calls it an observer. It loses its store.
 * The record that it then learns names the lost store. So it does not vote, but its host is served,
 * and it may start over, with four voters in its file. Second turn: with an empty state_dir. Third
 * turn: it has an old copy of its store, from before it was added. */
START_TEST(an_observer_that_the_record_names_with_another_store)
{
    char text[2048];
    char words[512];
    const unsigned all = 1U << A | 1U << B | 1U << C;
    make(all, all, "");
    make(1U << D, 1U << A, "");
    uint64_t token = take(D, "job");
    if (_i == 2) {
        agent_stop(&agents[D]);
        run_there(D, "cp -a $HERE/state $HERE/old-state");
        agent_start(&agents[D]);
    }
    CHANGED(A, "add host-d", D);
    await_voters(A, "abcd");
    agent_stop(&agents[D]);
    run_there(D, "rm -r $HERE/state");
    if (_i == 2) {
        run_there(D, "mv $HERE/old-state $HERE/state");
    }
    if (_i != 1) {
        unsigned votes = agent_logged(&agents[D], "event=voter_votes");
        agent_start(&agents[D]);
        ck_assert_uint_gt(take(D, "job"), token);
        member_await_logged(&agents[D], "event=voter_refused");
        member_await_listed(&agents[A], "host-d refused");
        ck_assert_uint_eq(agent_logged(&agents[D], "event=voter_votes"), votes);
        agent_stop(&agents[D]);
    }
    describe(D, all | 1U << D, ports[D], "", text, sizeof(text));
    agent_configure(&agents[D], text);
    snprintf(words, sizeof(words), "%s --config $HERE/holdfast.conf --rejoin --yes",
             binary_path("holdfastd"));
    run_there(D, words);
    agent_start(&agents[D]);
    await_voters(A, "abcd");
    agent_kill(&agents[B]); /* three of four are a majority */
    ck_assert_uint_gt(take(A, "job"), token);
}
END_TEST

/* By mistake the stores of two survivors are recovered. When the two cells meet, both log the
 * conflict, and neither follows the other. */
START_TEST(two_recovered_cells_meet)
{
    char words[512];
    const unsigned all = 1U << A | 1U << B | 1U << C;
    make(all, all, "");
    (void)take(A, "job");
    for (unsigned host = A; host <= C; host++) {
        agent_stop(&agents[host]);
    }
    for (unsigned host = A; host <= B; host++) {
        snprintf(words, sizeof(words), "%s --config $HERE/holdfast.conf --recover=members",
                 binary_path("holdfastd"));
        run_there(host, words); /* the recovery would ask a running agent */
    }
    for (unsigned host = A; host <= B; host++) {
        agent_launch(&agents[host]);
    }
    for (unsigned host = A; host <= B; host++) {
        int64_t end_ns = boottime_now() + GUARD_MS * MS;
        agent_await_socket(&agents[host]);
        while (agent_logged(&agents[host], "event=voters_conflict") == 0) {
            ck_assert_msg(boottime_now() < end_ns, "host %u does not notice", host);
            sleep_ms(20);
        }
    }
    for (unsigned host = A; host <= B; host++) {
        ck_assert_int_eq(member(host, "list"), 0);
        snprintf(words, sizeof(words), "host-%c ", 'a' + (int)host);
        ck_assert_msg(strstr(member_said, words) == member_said &&
                          strchr(member_said, '\n') == strrchr(member_said, '\n'),
                      "%s", member_said);
        ck_assert_uint_eq(agent_logged(&agents[host], "event=voters_changed"), 0);
    }
}
END_TEST

/* A voter and an observer were down during two changes. Both learn the last record of voters. */
START_TEST(who_missed_two_changes)
{
    make(1U << A | 1U << B | 1U << C | 1U << D | 1U << E, 1U << A | 1U << B | 1U << C, "");
    uint64_t token = take(E, "job");
    CHANGED(A, "add host-d", D);
    agent_kill(&agents[C]);
    agent_kill(&agents[E]);
    CHANGED(B, "remove host-a", -1);
    CHANGED(B, "move host-b", B); /* host-b has this address already, so nothing changes */
    CHANGED(D, "remove host-c", -1);
    agent_start(&agents[E]);
    await_voters(E, "bd");
    agent_start(&agents[C]);
    await_voters(C, "bd");
    ck_assert_uint_gt(take(E, "job"), token);
    ck_assert_uint_gt(take(C, "job"), token);
}
END_TEST

/* The runbook "move a voter". A holder on the host that moves keeps its lock. */
START_TEST(a_voter_moves)
{
    char text[2048];
    struct actor holder;
    struct runbook runbook;
    const unsigned all = 1U << A | 1U << B | 1U << C;
    runbook_read(&runbook, "6. Move a voter", 2);
    /* longer than the time in which host-b has no agent, even on a slow machine */
    ttl_ms = TTL_LONG_MS;
    make(all, all, "");
    actor_ready(&holder, agents[B].socket);
    ck_assert_int_eq(actor_open(&holder, 0, "held", 10), 0);
    ck_assert_int_eq(actor_acquire(&holder, 0, HF_EXCLUSIVE, GUARD_MS, NULL), 0);
    uint64_t token = take(B, "job");
    describe(B, all, ports[HOSTS + B], "", text, sizeof(text));
    agent_configure(&agents[B], text);
    do_line(B, runbook.lines[0].text);
    do_line(A, runbook.lines[1].text);
    agent_await_socket(&agents[B]);
    await_voters(B, "abc");
    await_voters(C, "abc");
    snprintf(text, sizeof(text), "host-b up at tcp://127.0.0.1:%u\n", ports[HOSTS + B]);
    member_await_listed(&agents[C], text);
    agent_kill(&agents[A]);
    ck_assert_uint_gt(take(C, "job"), token);
    ck_assert_int_eq(actor_release(&holder, 0), 0);
    actor_end(&holder);
}
END_TEST

/* Stops the agent, and gives it another port in its own file. */
static void take_elsewhere(unsigned host, unsigned voters)
{
    char text[2048];
    agent_stop(&agents[host]);
    describe(host, voters, ports[HOSTS + host], "", text, sizeof(text));
    agent_configure(&agents[host], text);
}

/* A voter runs at its new address already, and the others have no majority without it. Either one
 * of three voters is down, or there are only two voters. */
START_TEST(a_voter_moves_that_runs_at_its_new_address)
{
    char text[64];
    unsigned all = _i == 0 ? 1U << A | 1U << B | 1U << C : 1U << A | 1U << B;
    make(all, _i == 0 ? all : 1U << A, "");
    if (_i == 0) {
        agent_kill(&agents[C]);
    } else {
        CHANGED(A, "add host-b", B);
    }
    uint64_t token = take(B, "job");
    take_elsewhere(B, all);
    agent_launch(&agents[B]); /* its session is not safe yet */
    agent_await_socket(&agents[B]);
    CHANGED(A, "move host-b", HOSTS + B);
    ck_assert_uint_gt(take(A, "job"), token);
    ck_assert_uint_gt(take(B, "job"), token);
    snprintf(text, sizeof(text), "host-b up at tcp://127.0.0.1:%u\n", ports[HOSTS + B]);
    member_await_listed(&agents[A], text);
}
END_TEST

/* A move to an address at which no agent answers fails, and changes nothing. */
START_TEST(a_voter_that_is_not_there_does_not_move)
{
    make(1U << A | 1U << B, 1U << A, "");
    CHANGED(A, "add host-b", B);
    agent_stop(&agents[B]);
    ck_assert_int_eq(change(A, "move host-b", HOSTS + B), 75);
    ck_assert_msg(strstr(member_said, "host-b does not answer") != NULL, "%s", member_said);
    agent_start(&agents[B]);
    await_voters(A, "ab");
    CHANGED(A, "remove host-b", -1);
    ck_assert_uint_gt(take(B, "job"), 0);
}
END_TEST

/* The operator mistypes an address. The change is refused while the voter, or the newcomer, answers
 * at its real address. The cell goes on. */
START_TEST(an_address_is_tried_before_it_counts)
{
    char text[64];
    make(1U << A | 1U << B | 1U << C, 1U << A, "");
    ck_assert_int_eq(change(A, "add host-b", HOSTS + B), 75);
    snprintf(text, sizeof(text), "host-b does not answer at %s127.0.0.1:%u", scheme,
             ports[HOSTS + B]);
    ck_assert_msg(strstr(member_said, text) != NULL, "%s", member_said);
    CHANGED(A, "add host-b", B);
    CHANGED(B, "add host-c", C);
    uint64_t token = take(C, "job");
    ck_assert_int_eq(change(A, "move host-b", HOSTS + B), 75);
    ck_assert_msg(strstr(member_said, text) != NULL, "%s", member_said);
    ck_assert_int_eq(change(C, "move host-b", D), 75); /* no agent listens there */
    ck_assert_uint_gt(take(B, "job"), token);
    CHANGED(A, "remove host-b", -1);
}
END_TEST

/* All hosts get new addresses at once. The configuration files have them, so the voters find each
 * other. The cell's record has the old addresses until each host is moved. */
START_TEST(all_hosts_move_at_once)
{
    char text[2048];
    const unsigned all = 1U << A | 1U << B | 1U << C;
    make(all, 1U << A, "");
    CHANGED(A, "add host-b", B);
    CHANGED(A, "add host-c", C);
    uint64_t token = take(B, "job");
    for (unsigned host = A; host <= C; host++) {
        agent_stop(&agents[host]);
    }
    for (unsigned host = A; host <= C; host++) {
        ports[host] = ports[HOSTS + host];
    }
    for (unsigned host = A; host <= C; host++) {
        describe(host, all, ports[host], "", text, sizeof(text));
        agent_configure(&agents[host], text);
        agent_launch(&agents[host]);
    }
    for (unsigned host = A; host <= C; host++) {
        agent_await_socket(&agents[host]);
        ck_assert(agent_logged(&agents[host], "event=voters_differ number=3") > 0);
    }
    ck_assert_uint_gt(take(C, "job"), token);
    CHANGED(A, "move host-a", A);
    CHANGED(B, "move host-b", B);
    CHANGED(A, "move host-c", C);
    await_voters(C, "abc");
    snprintf(text, sizeof(text), "host-b up at tcp://127.0.0.1:%u\n", ports[B]);
    member_await_listed(&agents[C], text);
}
END_TEST

/* Two operators ask for different changes at once. Both changes take place, one after the other. */
START_TEST(two_operators_at_once)
{
    char line[128];
    make(1U << A | 1U << B | 1U << C | 1U << D, 1U << B, "");
    CHANGED(B, "add host-c", C);
    snprintf(line, sizeof(line), "add host-a tcp://127.0.0.1:%u --wait %ds", ports[A], WAIT_S);
    FILE *one = member_begin(&agents[B], "%s", line);
    snprintf(line, sizeof(line), "add host-d tcp://127.0.0.1:%u --wait %ds", ports[D], WAIT_S);
    FILE *other = member_begin(&agents[C], "%s", line);
    int status = member_end(one);
    ck_assert_msg(status == 0, "%d: %s", status, member_said);
    status = member_end(other);
    ck_assert_msg(status == 0, "%d: %s", status, member_said);
    await_voters(C, "abcd");
}
END_TEST

/* A change that would leave no majority is refused, and the error names the host to start. */
START_TEST(what_is_refused)
{
    make(1U << A | 1U << B | 1U << C, 1U << A | 1U << B | 1U << C, "");
    ck_assert_int_eq(change(A, "add host-d", D), 75); /* no agent of host-d runs */
    ck_assert_msg(strstr(member_said, "host-d does not answer") != NULL, "%s", member_said);
    ck_assert_int_eq(change(A, "move host-e", E), 70);
    ck_assert_msg(
        strstr(member_said, "host-e is no voter, expected one of host-a, host-b, host-c; ") != NULL,
        "%s", member_said);
    ck_assert_int_eq(change(A, "replace host-e host-d", D), 70); /* host-d is not added, either */
    ck_assert_msg(
        strstr(member_said, "host-e is no voter, expected one of host-a, host-b, host-c ") != NULL,
        "%s", member_said);
    await_voters(A, "abc");
    make(1U << D, 1U << A, "");
    agent_pause(&agents[C]);
    member_await_listed(&agents[A], "host-c down at "); /* host-a notices that host-c is silent */
    ck_assert_int_eq(change(A, "add host-d", D), 75);
    ck_assert_msg(strstr(member_said, "host-c does not answer") != NULL, "%s", member_said);
    ck_assert_int_eq(change(A, "remove host-b", -1), 75); /* only one of two voters would answer */
    ck_assert_msg(strstr(member_said, "host-c does not answer") != NULL, "%s", member_said);
    agent_continue(&agents[C]);
    await_voters(A, "abc");
    CHANGED(A, "remove host-b", -1);
    CHANGED(A, "remove host-c", -1);
    ck_assert_int_eq(change(A, "remove host-a", -1), 70);
    ck_assert_msg(strstr(member_said, "the only voter") != NULL, "%s", member_said);
    await_voters(D, "a");
    ck_assert_uint_gt(take(D, "job"), 0);
    /* this completes a `replace` that was interrupted after the removal */
    CHANGED(A, "replace host-c host-d", D);
    await_voters(D, "ad");
}
END_TEST

/* An operator asks for a change while a majority is paused. The change takes place when the
 * majority is back. */
START_TEST(a_change_while_a_majority_is_away)
{
    char line[128];
    make(1U << A | 1U << B | 1U << C, 1U << A | 1U << B | 1U << C, "");
    make(1U << D, 1U << A, "");
    uint64_t token = take(D, "job");
    agent_pause(&agents[B]);
    agent_pause(&agents[C]);
    snprintf(line, sizeof(line), "add host-d tcp://127.0.0.1:%u --wait 3s", ports[D]);
    ck_assert_int_eq(member(A, line), 75);
    agent_continue(&agents[B]);
    agent_continue(&agents[C]);
    CHANGED(A, "add host-d", D); /* the change is under way, or already complete */
    await_voters(C, "abcd");
    ck_assert_uint_gt(take(D, "job"), token);
}
END_TEST

/* A cell in which an agent speaks an older version of the wire refuses changes, and says which
 * host that is. */
START_TEST(a_cell_of_two_versions)
{
    char text[2048];
    make(1U << A | 1U << B | 1U << C, 1U << A | 1U << B | 1U << C, "");
    make(1U << D, 1U << A, "");
    agent_stop(&agents[C]);
    describe(C, 1U << A | 1U << B | 1U << C, ports[C], "protocol = 4\n", text, sizeof(text));
    agent_configure(&agents[C], text);
    agent_start(&agents[C]);
    await_voters(A, "abc");
    ck_assert_int_eq(change(A, "add host-d", D), 75);
    ck_assert_msg(strstr(member_said, "host-c runs a release that cannot change voters") != NULL,
                  "%s", member_said);
    ck_assert_uint_gt(take(D, "job"), 0);
}
END_TEST

/* Returns whether the agent's program has TLS. */
static bool has_tls(void)
{
    char line[256];
    char version[256] = "";
    snprintf(line, sizeof(line), "%s --version", binary_path("holdfastd"));
    FILE *pipe = popen(line, "re");
    REQUIRE(pipe != NULL, "popen");
    version[fread(version, 1, sizeof(version) - 1, pipe)] = '\0';
    (void)pclose(pipe);
    return strstr(version, "built without TLS") == NULL;
}

/* host-d was an observer, so the voters know its address. There an agent with host-e's certificate
 * answers. The voters refuse this certificate, and host-d does not become a voter. */
START_TEST(a_new_voter_shows_its_certificate)
{
    const unsigned all = 1U << A | 1U << B | 1U << C;
    char text[2048];
    if (!has_tls()) {
        return;
    }
    tls = suite_folder();
    scheme = "tls+tcp://";
    cell_certify(tls);
    make(all, all, "");
    make(1U << D, 1U << A, "");
    (void)take(D, "job"); /* the voters know host-d now */
    agent_stop(&agents[D]);
    describe(E, 1U << A, ports[D], "", text, sizeof(text));
    agent_create(&agents[E], text);
    made |= 1U << E;
    agent_start(&agents[E]);
    ck_assert_int_eq(change(A, "add host-d", D), 75);
    ck_assert_msg(strstr(member_said, "host-d does not answer") != NULL, "%s", member_said);
    snprintf(text, sizeof(text),
             "event=tls_refused address=%s127.0.0.1:%u "
             "text=\"its certificate is not that of host-d ",
             scheme, ports[D]);
    ck_assert_msg(agent_logged(&agents[A], text) > 0, "%s lacks %s", agents[A].log, text);
    await_voters(A, "abc");
    agent_stop(&agents[E]);
    unsigned connected = agent_logged(&agents[A], "event=peer_connected agent=host-d");
    agent_start(&agents[D]);
    member_await_logged_more(&agents[A], "event=peer_connected agent=host-d", connected);
    CHANGED(A, "add host-d", D);
    await_voters(D, "abcd");
}
END_TEST

/* Only root and the administrators of the cell may change the voters. */
START_TEST(who_may_change_the_voters)
{
    char line[512];
    if (geteuid() != 0) {
        return; /* only root can act as another user */
    }
    made = 1U << B;
    agent_free_ports(ports, 2 * HOSTS);
    snprintf(line, sizeof(line),
             "[agent]\nname = host-b\ncell = members\nstate_dir = %%D/state\n"
             "socket = %%D/agent.sock\nusers = 65534\n[cell]\nlisten = tcp://127.0.0.1:%u\n"
             "[namespace.x]\nadmins = 65534\n",
             ports[B]);
    agent_create(&agents[B], line);
    agent_admit_all(&agents[B]);
    agent_start(&agents[B]);
    /* The user may enter the agent's folder, but perhaps not the folder of the programs. */
    snprintf(line, sizeof(line),
             "cd %s && install -m 755 %s . && exec setpriv --reuid 65534 --regid 65534 "
             "--clear-groups ./holdfast -s %s member add host-a tcp://127.0.0.1:%u 2>&1",
             agents[B].folder, binary_path("holdfast"), agents[B].socket, ports[A]);
    FILE *pipe = popen(line, "re");
    REQUIRE(pipe != NULL, "popen");
    int status = member_end(pipe);
    bool refused = strstr(member_said, "does not allow this user") != NULL;
    ck_assert_msg(status == 77 && refused, "%d: %s", status, member_said);
}
END_TEST

int main(int argc, char **argv)
{
    TCase *tests = tcase_create("members");
    tcase_add_checked_fixture(tests, begin, end);
    tcase_set_timeout(tests, 240); /* a guard against a test that hangs; each test takes seconds */
    if (argc > 1 && strcmp(argv[1], "places") == 0) {
        tcase_add_test(tests, a_removed_voter_comes_back);
        tcase_add_test(tests, a_removed_voter_is_added_again_in_place);
        tcase_add_test(tests, a_removed_voter_is_added_again_with_another_store);
        tcase_add_loop_test(tests, an_observer_that_the_record_names_with_another_store, 0, 3);
        tcase_add_test(tests, two_recovered_cells_meet);
        tcase_add_test(tests, a_voter_moves);
        tcase_add_loop_test(tests, a_voter_moves_that_runs_at_its_new_address, 0, 2);
        tcase_add_test(tests, a_voter_that_is_not_there_does_not_move);
        tcase_add_test(tests, an_address_is_tried_before_it_counts);
        tcase_add_test(tests, all_hosts_move_at_once);
        return suite_main("members' stores and addresses", tests);
    }
    tcase_add_test(tests, from_one_host_to_three);
    tcase_add_test(tests, replace_a_dead_host);
    tcase_add_test(tests, who_missed_two_changes);
    tcase_add_test(tests, two_operators_at_once);
    tcase_add_test(tests, what_is_refused);
    tcase_add_test(tests, a_change_while_a_majority_is_away);
    tcase_add_test(tests, a_cell_of_two_versions);
    tcase_add_test(tests, a_new_voter_shows_its_certificate);
    tcase_add_test(tests, who_may_change_the_voters);
    return suite_main("members", tests);
}
