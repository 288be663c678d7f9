/*
 * The process that looks names up: names that are known later, a name service that blocks, and the
 * end of either side. The lookup is the test's own; its state is in memory that both share.
 */
#include <check.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../suite_main.h"
#include "config/accounts.h"

enum { BOB = 1002, STAFF = 2001, GUARD_MS = 60000 };

struct world {
    _Atomic bool blocks;
    _Atomic bool has_bob;
    _Atomic bool has_staff; /* a group */
    _Atomic unsigned asked;
    _Atomic pid_t pid;
};

static struct world *world;
static struct config config;
static struct config_account names[3];
static char bob[] = "bob";
static char staff[] = "staff";
static char at_staff[] = "@staff";

static bool lookup(const char *name, bool is_group, uint32_t *id)
{
    world->pid = getpid();
    world->asked++;
    while (world->blocks) {
        (void)poll(NULL, 0, 1);
    }
    *id = is_group ? STAFF : BOB;
    return (strcmp(name, "bob") == 0 && !is_group && world->has_bob) ||
           (strcmp(name, "staff") == 0 && is_group && world->has_staff);
}

static void set_up(void)
{
    world = mmap(NULL, sizeof(*world), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(world, MAP_FAILED);
    config_defaults(&config);
    names[0] = (struct config_account){
        .name = bob, .space = CONFIG_EVERYWHERE, .list = CONFIG_USERS};
    names[1] = (struct config_account){.name = staff, .space = 0, .list = CONFIG_ADMINS};
    names[2] = (struct config_account){.name = at_staff, .space = 0, .list = CONFIG_ADMINS};
    config.accounts = names;
    config.account_count = 3;
}

static void tear_down(void)
{
    munmap(world, sizeof(*world));
}

static unsigned found_count;

static void on_found(void *arg, const struct config_account *account)
{
    ck_assert_ptr_eq(arg, &config);
    ck_assert(account->found);
    found_count++;
}

static void await_found(struct accounts *accounts, unsigned count)
{
    while (found_count < count) {
        struct pollfd pollfd = {.fd = accounts_fd(accounts), .events = POLLIN};
        ck_assert_int_eq(poll(&pollfd, 1, GUARD_MS), 1);
        accounts_take(accounts, &config, on_found, &config);
        ck_assert(!accounts_ended(accounts));
    }
}

START_TEST(what_is_known_is_there_at_once)
{
    world->has_bob = world->has_staff = true;
    struct accounts *accounts = accounts_open(&config, lookup, NULL);
    ck_assert_ptr_nonnull(accounts);
    accounts_wait(accounts, &config, GUARD_MS);
    ck_assert_uint_eq(config_unknown_count(&config), 0);
    ck_assert_uint_eq(config.everywhere.users.count, 1);
    ck_assert_uint_eq(config.everywhere.users.ids[0], BOB);
    ck_assert_uint_eq(config.namespaces[0].access.admin_groups.count, 2); /* with @ and without */
    ck_assert_uint_eq(config.namespaces[0].access.admin_groups.ids[1], STAFF);
    ck_assert_uint_eq(config.namespaces[0].access.admin_users.count, 0);
    ck_assert_int_ne(world->pid, getpid());
    accounts_close(accounts);
}
END_TEST

START_TEST(what_is_made_later_is_found_when_it_is_asked_for)
{
    struct accounts *accounts = accounts_open(&config, lookup, NULL);
    accounts_wait(accounts, &config, GUARD_MS);
    ck_assert_uint_eq(config_unknown_count(&config), 3);
    world->has_bob = true;
    accounts_ask(accounts);
    await_found(accounts, 1);
    ck_assert_uint_eq(config_unknown_count(&config), 2);
    accounts_wait(accounts, &config, GUARD_MS); /* until it has looked for the others */
    world->has_staff = true;
    accounts_ask(accounts);
    await_found(accounts, 3);
    ck_assert_uint_eq(config_unknown_count(&config), 0);
    accounts_close(accounts);
}
END_TEST

/* The caller waits no longer than it wants to, and orders do not pile up. */
START_TEST(a_name_service_that_blocks_holds_nobody_up)
{
    world->blocks = world->has_bob = true;
    struct accounts *accounts = accounts_open(&config, lookup, NULL);
    accounts_wait(accounts, &config, 50);
    ck_assert_uint_eq(config_unknown_count(&config), 3);
    for (unsigned i = 0; i < 10000; i++) {
        accounts_ask(accounts);
    }
    accounts_take(accounts, &config, NULL, NULL);
    ck_assert(!accounts_ended(accounts));
    world->blocks = false;
    accounts_wait(accounts, &config, GUARD_MS);
    ck_assert_uint_eq(config_unknown_count(&config), 2);
    ck_assert_uint_eq(world->asked, 4); /* staff was looked up as a user and as a group */
    accounts_close(accounts);
}
END_TEST

START_TEST(the_process_ends_with_the_other_end)
{
    struct accounts *accounts = accounts_open(&config, lookup, NULL);
    accounts_wait(accounts, &config, GUARD_MS);
    pid_t pid = world->pid;
    accounts_close(accounts);
    ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
}
END_TEST

START_TEST(the_end_of_the_process_is_noticed)
{
    struct accounts *accounts = accounts_open(&config, lookup, NULL);
    accounts_wait(accounts, &config, GUARD_MS);
    ck_assert_int_eq(kill(world->pid, SIGKILL), 0);
    ck_assert_int_eq(waitpid(world->pid, NULL, 0), world->pid);
    ck_assert(!accounts_ended(accounts));
    accounts_take(accounts, &config, NULL, NULL);
    ck_assert(accounts_ended(accounts));
    accounts_ask(accounts); /* a further request does no harm */
    accounts_close(accounts);
}
END_TEST

START_TEST(the_host_knows_its_own)
{
    uint32_t id = 1;
    ck_assert(accounts_of_host("root", false, &id));
    ck_assert_uint_eq(id, 0);
    ck_assert(accounts_of_host("root", true, &id));
    ck_assert(accounts_of_host("4294967294", true, &id));
    ck_assert_uint_eq(id, 4294967294);
    ck_assert(!accounts_of_host("4294967295", false, &id));
    ck_assert(!accounts_of_host("no-such-user", false, &id));
    ck_assert(!accounts_of_host("12x", false, &id));
    ck_assert(!accounts_of_host("", false, &id));
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("accounts");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, what_is_known_is_there_at_once);
    tcase_add_test(tests, what_is_made_later_is_found_when_it_is_asked_for);
    tcase_add_test(tests, a_name_service_that_blocks_holds_nobody_up);
    tcase_add_test(tests, the_process_ends_with_the_other_end);
    tcase_add_test(tests, the_end_of_the_process_is_noticed);
    tcase_add_test(tests, the_host_knows_its_own);
    return suite_main("accounts", tests);
}
