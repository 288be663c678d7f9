/*
 * The voters of a cell change while workers on every host use its locks. During the change a host
 * dies, a majority is cut off, or an agent starts with a copied store. crowd.h records and checks
 * the locks: no two processes hold a lock at the same time, no token goes back, and no waiter waits
 * for ever. members.c tests changes without other faults.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/wait.h>

#include "crowd.h"
#include "member.h"
#include "require.h"

/* Hosts a to c begin as voters, d as an observer. Host e has an agent in some tests only. */
enum { A, B, C, D, E, HOSTS, TTL_MS = 600, VOTERS = 3, CROWDED = 4, ABC = 7, ABCD = 15 };

static const struct crowd_plan plan = {.workers_per_host = 2,
                                       .locks = 8,
                                       .shared_percent = 25,
                                       .lock_delay_ms = 50,
                                       .hold_ms = 30,
                                       .long_ms = 1500,
                                       .seed = 3,
                                       .guard_ms = 60000};
static struct cell cell;
static struct crowd crowd;

static void start(void)
{
    cell_options.ttl_ms = TTL_MS;
    cell_options.grace_ms = TTL_MS;
    cell_make(&cell, VOTERS, HOSTS - VOTERS);
    cell.hosts = CROWDED; /* host e has no agent yet */
    cell_launch(&cell);
    cell_await(&cell);
    crowd_start(&crowd, &cell, &plan);
}

static void stop(void)
{
    cell.hosts = HOSTS;
    cell_stop(&cell);
}

/* ---- changes ---- */

enum act { ADD, MOVE, REMOVE, ACTS };

/* Returns, in a static buffer, the words with which `holdfast member` changes that host. */
static const char *words(enum act act, unsigned host)
{
    static const char *const verbs[] = {[ADD] = "add", [MOVE] = "move", [REMOVE] = "remove"};
    static char text[96];
    snprintf(text, sizeof(text), "%s host-%c %s", verbs[act], 'a' + (int)host,
             act == REMOVE ? "" : cell_address(&cell, host));
    return text;
}

/* Gives the command for the change on host `asked` again and again, until the change is complete.
 * If a command was interrupted, the next one continues the change. */
static void change(unsigned asked, enum act act, unsigned host)
{
    int64_t end_ns = boottime_now() + (int64_t)plan.guard_ms * MS;
    int status = -1;
    while (status != 0) {
        REQUIRE(boottime_now() < end_ns, "%s: exit %d: %s", words(act, host), status, member_said);
        status = member_run(&cell.agents[asked], "%s --wait 5s", words(act, host));
        sleep_ms(status == 0 ? 0 : 50);
    }
}

/* Returns the highest number of a record of voters with this event in the log of a host's agent, or
 * 0. */
static unsigned record_number(unsigned host, const char *event)
{
    unsigned number = 0;
    for (unsigned n = 2; n < 64; n++) {
        char text[64];
        snprintf(text, sizeof(text), "event=%s number=%u ", event, n);
        number = agent_logged(&cell.agents[host], text) > 0 ? n : number;
    }
    return number;
}

/* Returns the number of the last record of voters in a host's log, if the host is not among its
 * voters and the change to it is complete. Otherwise returns 0. */
static unsigned removal_number(unsigned host)
{
    char line[2048];
    char name[16];
    char complete[64];
    bool removed = false;
    FILE *log = fopen(cell.agents[host].log, "re");
    REQUIRE(log != NULL, "%s", cell.agents[host].log);
    snprintf(name, sizeof(name), "host-%c", 'a' + (int)host);
    while (fgets(line, sizeof(line), log) != NULL) {
        if (strstr(line, "event=voters_changed ") != NULL) {
            removed = strstr(line, name) == NULL;
        }
    }
    fclose(log);
    unsigned number = record_number(host, "voters_changed");
    snprintf(complete, sizeof(complete), "event=voters_complete number=%u ", number);
    return removed && agent_logged(&cell.agents[host], complete) > 0 ? number : 0;
}

/* Makes a removed voter empty its store. The voter's agent does so at its first start after it has
 * learnt that the removal is complete, which may take a while. So the function waits for that, and
 * restarts the agent if it has not emptied the store yet. */
static void empty(unsigned host)
{
    unsigned number;
    int64_t end_ns = boottime_now() + GUARD_MS * MS;
    while ((number = removal_number(host)) == 0) {
        REQUIRE(boottime_now() < end_ns, "host %u does not learn of its removal", host);
        sleep_ms(20);
    }
    if (record_number(host, "store_retired") >= number) {
        return;
    }
    agent_stop(&cell.agents[host]);
    agent_start(&cell.agents[host]);
    REQUIRE(record_number(host, "store_retired") >= number, "host %u keeps its store", host);
}

static void retire(unsigned asked, unsigned host)
{
    change(asked, REMOVE, host);
    empty(host);
}

/* ---- any one agent is killed at each step ---- */

/* The steps of a change at which an agent is killed. In a move, host d does not run at its new
 * address at LEARNS: the voters look for it. At LEARNED it has just begun to run there. */
enum step { ASKED, LEARNS, LEARNED, CHOSEN, SETTLES, STEPS };

/* Waits until the change that `command` asked for has reached this step, or `command` has ended. */
static void await_step(FILE *command, enum act act, enum step step, unsigned number,
                       uint64_t random)
{
    char chosen[48];
    unsigned learning = agent_logged(&cell.agents[D], "event=learning");
    snprintf(chosen, sizeof(chosen), "event=voters_changed number=%u ", number);
    bool there = step == ASKED || (act == MOVE && step <= LEARNED);
    while (!there && !member_has_ended(command)) {
        there = step <= LEARNED && agent_logged(&cell.agents[D], "event=learning") > learning;
        for (unsigned host = A; host <= D; host++) {
            there = there || agent_logged(&cell.agents[host], chosen) > 0;
        }
        sleep_ms(1);
    }
    /* the kill comes at a random moment within the step */
    sleep_ms(step == LEARNED   ? 20 + (int64_t)(random % 400)
             : step == SETTLES ? 50 + (int64_t)(random % (2 * TTL_MS))
                               : (int64_t)(random % 20));
}

/* Asks for a change of host d, kills the victim's agent at that step of it, and returns the command
 * that asked. */
static FILE *ask_and_kill(unsigned asked, enum act act, unsigned victim, enum step step,
                          uint64_t random)
{
    unsigned number = record_number(asked, "voters_changed") + 1;
    /* host d moves before the command, before the kill, or after it */
    enum step starts = act == MOVE && step <= LEARNED ? step : ASKED;
    if (act == MOVE) {
        agent_stop(&cell.agents[D]);
        cell_move(&cell, D, cell.ports[D] == CELL_PORT ? CELL_PORT + 1 : CELL_PORT);
        if (starts == ASKED) {
            agent_start(&cell.agents[D]);
        }
    }
    FILE *command = member_begin(&cell.agents[asked], "%s --wait 60s", words(act, D));
    if (starts == LEARNED) {
        agent_launch(&cell.agents[D]);
    }
    await_step(command, act, step, number < 2 ? 2 : number, random);
    if (starts != LEARNS || victim != D) {
        agent_kill(&cell.agents[victim]);
    }
    if (starts == LEARNS && victim != D) {
        agent_launch(&cell.agents[D]);
    }
    if (starts != ASKED && victim != D) {
        agent_await_socket(&cell.agents[D]);
    }
    return command;
}

/* Adds host d, moves it to another port or back, and removes it. In each of the three changes,
 * kills the victim's agent at that step and starts it again a little later. The command runs on
 * another host. */
static void change_and_kill(unsigned victim, enum step step, uint64_t *random)
{
    unsigned asked = (victim + 1) % VOTERS;
    for (enum act act = ADD; act < ACTS; act++) {
        FILE *command = ask_and_kill(asked, act, victim, step, crowd_draw(random, 1U << 20));
        sleep_ms((int64_t)crowd_draw(random, 2) * (act == MOVE ? TTL_MS : 4 * TTL_MS));
        crowd_await_others(&crowd, victim, act == MOVE ? 1 : 3);
        agent_start(&cell.agents[victim]);
        member_end(command); /* the change may have been refused, because the victim was down */
        change(asked, act, D);
        crowd_await_all(&crowd, act == MOVE ? 1 : 5);
        member_await_voters(&cell.agents[victim], act == REMOVE ? ABC : ABCD);
        if (act != REMOVE) {
            char listed[96];
            snprintf(listed, sizeof(listed), "host-d up at %s\n", cell_address(&cell, D));
            member_await_listed(&cell.agents[victim], listed);
        }
    }
    retire(asked, D);
}

/* `_i` is the victim: one of the three voters, or host d, which is added. */
START_TEST(any_voter_is_killed_at_each_step_of_a_change)
{
    uint64_t random = plan.seed + (unsigned)_i;
    for (enum step step = ASKED; step < STEPS; step++) {
        snprintf(require_context, sizeof(require_context), "(victim %d, step %d)", _i, (int)step);
        change_and_kill((unsigned)_i, step, &random);
    }
    crowd_finish(&crowd, "killed at a step of a change");
}
END_TEST

/* ---- other tests ---- */

/* A voter that coordinates a lock in use is removed, then serves its own host as an observer,
 * empties its store, and is added again. This repeats with the next coordinator. */
START_TEST(a_removed_coordinator_under_load)
{
    change(A, ADD, D);
    cell.voters = CROWDED;
    for (int round = 0; round < 3; round++) {
        unsigned victim = cell_coordinator(&cell, A, crowd_lock(0));
        unsigned other = (victim + 1) % VOTERS;
        change(other, REMOVE, victim);
        member_await_voters(&cell.agents[victim], ABCD & ~(1U << victim));
        REQUIRE(cell_coordinator(&cell, other, crowd_lock(0)) != victim, "host %u coordinates",
                victim);
        crowd_await_all(&crowd, 10);
        empty(victim);
        change(other, ADD, victim);
        crowd_await_all(&crowd, 10);
    }
    crowd_finish(&crowd, "coordinator removed");
}
END_TEST

/* While a majority of the voters is cut off, a change is refused or waits. No host carries out any
 * part of it. The change takes place when the links work again. On a busy machine the change may be
 * complete before the links are cut. Then the test cuts them during another change. */
START_TEST(a_change_while_a_majority_is_cut_off)
{
    enum { EARLY_MAX = 5 };
    int early = 0;
    /* first the links are cut before the change, and then during a change */
    for (int later = 0; later < 2;) {
        FILE *command = NULL;
        unsigned before = record_number(A, "voters_changed");
        if (later) {
            command = member_begin(&cell.agents[A], "%s --wait 3s", words(ADD, D));
            sleep_ms(20);
        }
        network_isolate(&cell.network, B);
        network_isolate(&cell.network, C);
        if (!later) {
            sleep_ms(2 * TTL_MS); /* by now host a knows that no other voter answers */
            command = member_begin(&cell.agents[A], "%s --wait 3s", words(ADD, D));
        }
        int status = member_end(command);
        bool was_early = later && status == 0 &&
                         (record_number(B, "voters_changed") > before ||
                          record_number(C, "voters_changed") > before);
        early += was_early;
        REQUIRE(status == 75 || (was_early && early <= EARLY_MAX), "exit %d: %s", status,
                member_said);
        bool chosen = record_number(A, "voters_changed") > 0 ||
                      record_number(B, "voters_changed") > 0 ||
                      record_number(C, "voters_changed") > 0;
        REQUIRE(later || !chosen, "the change was decided without a majority");
        REQUIRE(record_number(A, "voters_complete") == 0 || chosen, "it is complete");
        network_heal(&cell.network);
        crowd_await_all(&crowd, 5);
        change(B, ADD, D);
        for (unsigned host = A; host <= D; host++) {
            member_await_voters(&cell.agents[host], ABCD);
        }
        retire(C, D);
        crowd_await_all(&crowd, 5);
        later += !was_early;
    }
    crowd_finish(&crowd, "majority cut off");
}
END_TEST

/* While a voter is cut off, another voter and then the voter itself are removed. When the links
 * work again, the voter learns of both removals and serves its host as an observer. */
START_TEST(a_voter_that_missed_two_changes_under_load)
{
    for (unsigned victim = A; victim <= C; victim++) {
        unsigned asked = (victim + 1) % VOTERS;
        unsigned removed = (victim + 2) % VOTERS;
        change(asked, ADD, D);
        network_isolate(&cell.network, victim);
        change(asked, REMOVE, removed); /* three voters are left, and one of them is cut off */
        change(D, REMOVE, victim);
        crowd_await_others(&crowd, victim, 5);
        network_heal(&cell.network);
        member_await_voters(&cell.agents[victim], 1U << asked | 1U << D);
        crowd_await_all(&crowd, 5);
        empty(victim);
        empty(removed);
        change(asked, ADD, victim);
        change(victim, ADD, removed);
        retire(victim, D);
        crowd_await_all(&crowd, 5);
    }
    crowd_finish(&crowd, "two changes missed");
}
END_TEST

/* Operators on two hosts ask for different changes at the same time, and again when they are
 * refused. Both changes take place, one after the other. */
START_TEST(two_operators_at_once_under_load)
{
    for (int round = 0; round < 3; round++) {
        FILE *add = member_begin(&cell.agents[A], "%s --wait 60s", words(ADD, D));
        FILE *remove = member_begin(&cell.agents[B], "%s --wait 60s", words(REMOVE, C));
        int status = member_end(add);
        REQUIRE(status == 0, "add: exit %d: %s", status, member_said);
        status = member_end(remove);
        REQUIRE(status == 0, "remove: exit %d: %s", status, member_said);
        for (unsigned host = A; host <= D; host++) {
            member_await_voters(&cell.agents[host], 1U << A | 1U << B | 1U << D);
        }
        crowd_await_all(&crowd, 5);
        empty(C);
        add = member_begin(&cell.agents[A], "%s --wait 60s", words(ADD, C));
        remove = member_begin(&cell.agents[D], "%s --wait 60s", words(REMOVE, D));
        status = member_end(add);
        REQUIRE(status == 0, "add: exit %d: %s", status, member_said);
        status = member_end(remove);
        REQUIRE(status == 0, "remove: exit %d: %s", status, member_said);
        member_await_voters(&cell.agents[D], ABC);
        empty(D);
        crowd_await_all(&crowd, 5);
    }
    crowd_finish(&crowd, "two operators");
}
END_TEST

/* ---- copied stores ---- */

/* Makes host e a copy of the machine of host `from`, whose agent does not run: host e gets its
 * store, and a configuration like its own with that name and role. Host e has another address and,
 * as another machine has, another /dev/shm. */
static void copy_machine(unsigned from, unsigned name, const char *role)
{
    char text[1024];
    char command[256];
    pid_t pid = fork_tied();
    if (pid == 0) {
        network_enter(cell.network.keepers[E]);
        _exit(mount("shm", "/dev/shm", "tmpfs", 0, "mode=1777") != 0);
    }
    int status = wait_for(pid);
    REQUIRE(status == 0, "no /dev/shm of its own");
    snprintf(command, sizeof(command), "rm -rf %s/state && cp -a %s/state %s/state",
             cell.agents[E].folder, cell.agents[from].folder, cell.agents[E].folder);
    REQUIRE(system(command) == 0, "%s", command);
    int used = snprintf(text, sizeof(text),
                        "[agent]\nname = host-%c\ncell = faults\nstate_dir = %%D/state\n"
                        "socket = %%D/agent.sock\nrole = %s\n[cell]\nsession_ttl = %dms\n"
                        "grace_period = %dms\ninsecure = yes\nlisten = tcp://%s:%d\n[voters]\n",
                        'a' + (int)name, role, TTL_MS, TTL_MS, network_address(E), CELL_PORT);
    for (unsigned i = 0; i < VOTERS; i++) {
        used += snprintf(text + used, sizeof(text) - (size_t)used, "host-%c = tcp://%s:%d\n",
                         'a' + (int)i, network_address(i == name ? (unsigned)E : i), CELL_PORT);
    }
    agent_configure(&cell.agents[E], text);
}

/* Waits for the end of host e's agent, which must not start. Returns its exit status. */
static int refused_start(void)
{
    agent_launch(&cell.agents[E]);
    int status = wait_for(cell.agents[E].pid);
    cell.agents[E].pid = 0;
    REQUIRE(WIFEXITED(status), "ended with %x", (unsigned)status);
    return WEXITSTATUS(status);
}

/* The store of a voter that was removed, or still is one, is refused by an agent of another name,
 * whether that agent is a voter or an observer that shall become a voter. */
START_TEST(an_old_store_under_a_new_name)
{
    static const char *const roles[] = {"voter", "observer"};
    change(A, ADD, D);
    agent_stop(&cell.agents[C]);
    for (int removed = 0; removed < 2; removed++) {
        for (int role = 0; role < 2; role++) {
            /* `role = voter` needs a name that is in [voters] */
            copy_machine(C, role == 0 ? B : E, roles[role]);
            int status = refused_start();
            REQUIRE(status == 78, "exit %d, log %s", status, cell.agents[E].log);
            REQUIRE(agent_logged(&cell.agents[E], "belongs to") > 0, "log %s", cell.agents[E].log);
            status = member_run(&cell.agents[A], "%s --wait 1s", words(ADD, E));
            REQUIRE(status == 75, "exit %d: %s", status, member_said);
        }
        if (!removed) {
            change(A, REMOVE, C);
        }
    }
    agent_start(&cell.agents[C]);
    member_await_voters(&cell.agents[C], ABCD & ~(1U << C));
    crowd_await_all(&crowd, 5);
    crowd_finish(&crowd, "old store, new name");
}
END_TEST

/* A copy of a voter's machine comes up beside the voter, at another address. It does so while the
 * voter votes, and again after the voter was removed. No client of the cell notices, and the
 * changes of voters that the test asks for take place. */
START_TEST(a_copied_machine)
{
    agent_stop(&cell.agents[C]);
    copy_machine(C, C, "voter");
    agent_start(&cell.agents[C]);
    crowd_await_all(&crowd, 5);
    agent_launch(&cell.agents[E]);
    sleep_ms(3 * TTL_MS);
    crowd_await_others(&crowd, C, 5); /* the copy may take the session of host c */
    change(A, ADD, D);
    change(B, REMOVE, C);
    crowd_await_others(&crowd, C, 5);
    sleep_ms(3 * TTL_MS);
    agent_kill(&cell.agents[E]);
    empty(C);
    change(B, ADD, C);
    crowd_await_all(&crowd, 5);
    for (unsigned host = A; host <= D; host++) {
        member_await_voters(&cell.agents[host], ABCD);
    }
    crowd_finish(&crowd, "copied machine");
}
END_TEST

/* The machine of a voter was copied before the voter was replaced. Only the copy comes up: it does
 * not vote, learns which agents do, and serves its host as an observer. */
START_TEST(a_copied_machine_of_a_removed_voter)
{
    change(A, ADD, D);
    agent_stop(&cell.agents[C]);
    copy_machine(C, C, "voter");
    change(B, REMOVE, C);
    agent_start(&cell.agents[E]);
    member_await_voters(&cell.agents[E], ABCD & ~(1U << C));
    crowd_await_others(&crowd, C, 5);
    agent_kill(&cell.agents[B]); /* two of three voters are left; the copy is not a voter */
    crowd_await_progress(&crowd, A, 5);
    crowd_await_progress(&crowd, D, 5);
    agent_kill(&cell.agents[E]);
    agent_start(&cell.agents[B]);
    agent_start(&cell.agents[C]);
    crowd_await_all(&crowd, 5);
    crowd_finish(&crowd, "copy of a removed voter");
}
END_TEST

int main(int argc, char **argv)
{
    TCase *tests = tcase_create("members");
    tcase_add_checked_fixture(tests, start, stop);
    if (argc > 1 && strcmp(argv[1], "kills") == 0) {
        /* two of the four hosts, which differ from run to run */
        int first = test_is_deep() ? A : A + (int)(boottime_now() / MS % 2);
        for (int host = first; host < E; host += test_is_deep() ? 1 : 2) {
            tcase_add_loop_test(tests, any_voter_is_killed_at_each_step_of_a_change, host,
                                host + 1);
        }
        return cell_main("member kills", tests);
    }
    tcase_add_test(tests, a_removed_coordinator_under_load);
    tcase_add_test(tests, a_change_while_a_majority_is_cut_off);
    tcase_add_test(tests, a_voter_that_missed_two_changes_under_load);
    tcase_add_test(tests, two_operators_at_once_under_load);
    tcase_add_test(tests, an_old_store_under_a_new_name);
    tcase_add_test(tests, a_copied_machine);
    tcase_add_test(tests, a_copied_machine_of_a_removed_voter);
    return cell_main("members", tests);
}
