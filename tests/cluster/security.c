/*
 * Tests of rights: namespaces with users, groups and admins. A client sees, opens and breaks only
 * the locks that it may. The tests need root, to become another user. Otherwise they are skipped.
 */
#include "../suite_main.h"
#include "actor.h"
#include "require.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { NOBODY = 65534, DAEMON = 1 };

static const char config[] = "[agent]\nname = host-a\ncell = test\nstate_dir = %D/state\n"
                             "socket = %D/agent.sock\n"
                             "[voters]\nhost-a = tcp://127.0.0.1:7411\n"
                             "[namespace.open]\nusers = nobody, daemon\n"
                             "[namespace.secret]\nusers = root\n"
                             "[namespace.team]\ngroups = daemon\nadmins = daemon\n";

static struct agent_process agent;
static struct actor root;
static struct actor nobody;
static struct actor member;

static void start(void)
{
    const struct actor_who as_nobody = {.uid = NOBODY, .gid = NOBODY};
    const struct actor_who as_daemon = {.uid = DAEMON, .gid = DAEMON};
    agent_create(&agent, config);
    agent_admit_all(&agent);
    agent_start(&agent);
    actor_ready(&root, agent.socket);
    actor_start(&nobody, agent.socket, &as_nobody);
    actor_start(&member, agent.socket, &as_daemon);
    ck_assert_int_eq(nobody.connected, 0);
    ck_assert_int_eq(member.connected, 0);
}

static void stop(void)
{
    actor_end(&root);
    actor_end(&nobody);
    actor_end(&member);
    agent_destroy(&agent);
}

static int ask(struct actor *who, enum actor_kind kind, const char *name)
{
    struct actor_request request = {.kind = kind};
    snprintf(request.name, sizeof(request.name), "%s", name);
    return actor_do(who, &request).result;
}

static const char *list(struct actor *who)
{
    static char text[HF_SEQUENCER_MAX];
    struct actor_reply reply = actor_do(who, &(struct actor_request){.kind = ACTOR_LIST});
    ck_assert_int_eq(reply.result, 0);
    memcpy(text, reply.text, sizeof(text));
    return text;
}

START_TEST(only_who_may_opens)
{
    ck_assert_int_eq(actor_open(&nobody, 0, "open/a", 10), 0);
    ck_assert_int_eq(actor_acquire(&nobody, 0, HF_EXCLUSIVE, GUARD_MS, NULL), 0);
    ck_assert_int_eq(actor_open(&nobody, 1, "secret/a", 10), HF_EACCES);
    ck_assert_int_eq(actor_open(&nobody, 1, "team/a", 10), HF_EACCES);
    /* the default of [agent] applies to this namespace */
    ck_assert_int_eq(actor_open(&nobody, 1, "plain", 10), HF_EACCES);
    ck_assert_int_eq(actor_open(&member, 0, "team/a", 10), 0);
    ck_assert_int_eq(actor_open(&member, 1, "secret/a", 10), HF_EACCES);
    ck_assert_int_eq(actor_open(&root, 0, "secret/a", 10), 0);
    ck_assert_int_eq(actor_open(&root, 1, "team/a", 10), 0);
}
END_TEST

START_TEST(nobody_sees_what_is_not_his)
{
    ck_assert_int_eq(actor_open(&root, 0, "secret/a", 10), 0);
    ck_assert_int_eq(actor_acquire(&root, 0, HF_EXCLUSIVE, GUARD_MS, NULL), 0);
    ck_assert_int_eq(actor_open(&root, 1, "open/a", 10), 0);
    ck_assert_int_eq(actor_acquire(&root, 1, HF_EXCLUSIVE, GUARD_MS, NULL), 0);
    ck_assert_str_eq(list(&root), "open/a secret/a");
    ck_assert_str_eq(list(&nobody), "open/a");
    ck_assert_int_eq(ask(&nobody, ACTOR_SHOW, "secret/a"), HF_EACCES);
    ck_assert_int_eq(ask(&nobody, ACTOR_SHOW, "open/a"), 0);
    ck_assert_int_eq(actor_do(&nobody, &(struct actor_request){.kind = ACTOR_EVENTS}).result, 0);
    ck_assert_int_eq(ask(&nobody, ACTOR_WATCH, ""), 0); /* the watch covers only the locks that
                                                         * the user may see */
    ck_assert_int_eq(actor_release(&root, 0), 0);
    ck_assert_int_eq(actor_release(&root, 1), 0);
    ck_assert_int_eq(actor_acquire(&root, 0, HF_EXCLUSIVE, GUARD_MS, NULL), 0);
    /* The user gets events only of locks that it may see, although other locks changed before and
     * after. */
    struct actor_request next = {.kind = ACTOR_EVENT, .timeout_ns = GUARD_MS * MS};
    struct actor_reply event = actor_do(&nobody, &next);
    ck_assert_int_eq(event.result, 1);
    next.timeout_ns = 300 * MS;
    for (; event.result == 1; event = actor_do(&nobody, &next)) {
        ck_assert_str_eq(event.event.name, "open/a");
    }
    struct actor_request sequencer = {.kind = ACTOR_SEQUENCER};
    struct actor_reply reply = actor_do(&root, &sequencer);
    ck_assert_int_eq(reply.result, 0);
    ck_assert_int_eq(ask(&root, ACTOR_CHECK, reply.text), 0);
    ck_assert_int_eq(ask(&nobody, ACTOR_CHECK, reply.text), HF_EACCES);
    ck_assert_int_eq(ask(&nobody, ACTOR_CHECK_LOCAL, reply.text), HF_EACCES);
}
END_TEST

START_TEST(break_needs_an_admin)
{
    ck_assert_int_eq(actor_open(&nobody, 0, "open/a", 10), 0);
    ck_assert_int_eq(actor_acquire(&nobody, 0, HF_EXCLUSIVE, GUARD_MS, NULL), 0);
    ck_assert_int_eq(ask(&nobody, ACTOR_BREAK, "open/a"), HF_EACCES); /* an admin's right is
                                                                       * needed even for a lock
                                                                       * that the user may use */
    ck_assert_int_eq(ask(&member, ACTOR_BREAK, "open/a"), HF_EACCES);
    ck_assert(actor_remaining(&nobody, 0) > 0);
    ck_assert_int_eq(ask(&root, ACTOR_BREAK, "open/a"), 0);
    ck_assert(actor_remaining(&nobody, 0) <= 0);
    ck_assert_int_eq(actor_open(&root, 1, "team/a", 10), 0);
    ck_assert_int_eq(actor_acquire(&root, 1, HF_EXCLUSIVE, GUARD_MS, NULL), 0);
    ck_assert_int_eq(ask(&member, ACTOR_BREAK, "team/a"), 0);
    ck_assert(actor_remaining(&root, 1) <= 0);
}
END_TEST

/* Only the agent's user has access to regions, records and state. */
START_TEST(nothing_is_open_to_the_world)
{
    static const char *const spaces[] = {"default", "open", "secret", "team"};
    char path[300];
    struct stat status;
    for (unsigned i = 0; i < 4; i++) {
        agent_region_path(&agent, spaces[i], path, sizeof(path));
        ck_assert_int_eq(stat(path, &status), 0);
        ck_assert_int_eq(status.st_mode & 0777, 0600);
    }
    snprintf(path, sizeof(path), "%s/state", agent.folder);
    ck_assert_int_eq(stat(path, &status), 0);
    ck_assert_int_eq(status.st_mode & 0777, 0700);
}
END_TEST

/* Only root and the agent's own user may connect to an agent with --dev. */
START_TEST(a_development_agent_is_ones_own)
{
    struct agent_process own;
    struct stat status;
    agent_create(&own, NULL);
    agent_start(&own);
    ck_assert_int_eq(stat(own.socket, &status), 0);
    ck_assert_int_eq(status.st_mode & 0077, 0);
    ck_assert_int_eq(stat(own.folder, &status), 0);
    ck_assert_int_eq(status.st_mode & 0077, 0);
    agent_destroy(&own);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("security");
    tcase_add_checked_fixture(tests, start, stop);
    tcase_set_timeout(tests, 90);
    if (geteuid() == 0) {
        tcase_add_test(tests, only_who_may_opens);
        tcase_add_test(tests, nobody_sees_what_is_not_his);
        tcase_add_test(tests, break_needs_an_admin);
        tcase_add_test(tests, nothing_is_open_to_the_world);
        tcase_add_test(tests, a_development_agent_is_ones_own);
    }
    return suite_main("security", tests);
}
