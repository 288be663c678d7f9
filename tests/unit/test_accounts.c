/*
 * The process that looks up names: names that become known later, a name service that blocks, an
 * agent that does not read, wrong answers, and the end of the process or of the agent. The test
 * plays the name service, whose state is in memory that the test and the process share.
 */
#include <check.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../suite_main.h"
#include "config/accounts.h"
#include "io/beside.h"

enum {
    BOB = 1002,
    CARL = 1003,
    STAFF = 2001,
    CREW = 2002,
    MANY = 1024, /* the number of names; the socket has room for fewer answers */
    GUARD_MS = 60000,
};

struct world {
    _Atomic bool blocks;
    _Atomic bool has_bob;
    _Atomic bool has_staff; /* the name service knows the group */
    _Atomic bool has_all;
    _Atomic bool rogue; /* the process sends `packet` before it answers anything */
    uint32_t packet[3];
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
    if (world->rogue) {
        const int fds[] = {0, 1};
        world->rogue = false;
        /* No ck_assert() here: Check would write into this process's descriptor 3. */
        (void)!beside_send(BESIDE_FD, world->packet, sizeof(world->packet), fds, 2);
    }
    *id = is_group ? STAFF : BOB;
    return world->has_all || (strcmp(name, "bob") == 0 && !is_group && world->has_bob) ||
           (strcmp(name, "staff") == 0 && is_group && world->has_staff);
}

static void write_file(const char *name, const char *text)
{
    char path[96];
    snprintf(path, sizeof(path), "%s/%s", suite_folder(), name);
    FILE *out = fopen(path, "we");
    ck_assert_ptr_nonnull(out);
    fputs(text, out);
    ck_assert_int_eq(fclose(out), 0);
}

static struct accounts *start(void)
{
    struct accounts *accounts = accounts_open(&config, suite_folder(), lookup, NULL);
    ck_assert_ptr_nonnull(accounts);
    return accounts;
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
    write_file("passwd", "");
    write_file("group", "");
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
    struct accounts *accounts = start();
    accounts_wait(accounts, &config, GUARD_MS);
    ck_assert_uint_eq(config_unknown_count(&config), 0);
    ck_assert_uint_eq(config.everywhere.users.count, 1);
    ck_assert_uint_eq(config.everywhere.users.ids[0], BOB);
    /* an admin with @, and an admin without @ */
    ck_assert_uint_eq(config.namespaces[0].access.admin_groups.count, 2);
    ck_assert_uint_eq(config.namespaces[0].access.admin_groups.ids[1], STAFF);
    ck_assert_uint_eq(config.namespaces[0].access.admin_users.count, 0);
    ck_assert_int_ne(world->pid, getpid());
    accounts_close(accounts);
}
END_TEST

START_TEST(what_is_made_later_is_found_when_it_is_asked_for)
{
    struct accounts *accounts = start();
    accounts_wait(accounts, &config, GUARD_MS);
    ck_assert_uint_eq(config_unknown_count(&config), 3);
    world->has_bob = true;
    accounts_ask(accounts);
    await_found(accounts, 1);
    ck_assert_uint_eq(config_unknown_count(&config), 2);
    /* waits until the process has looked for the other names */
    accounts_wait(accounts, &config, GUARD_MS);
    world->has_staff = true;
    accounts_ask(accounts);
    await_found(accounts, 3);
    ck_assert_uint_eq(config_unknown_count(&config), 0);
    accounts_close(accounts);
}
END_TEST

/* The caller waits no longer than it wants to, and repeated requests do not pile up. */
START_TEST(a_name_service_that_blocks_holds_nobody_up)
{
    world->blocks = world->has_bob = true;
    struct accounts *accounts = start();
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
    ck_assert_uint_eq(world->asked, 4); /* the name staff was looked up as a user and as a group */
    accounts_close(accounts);
}
END_TEST

START_TEST(the_process_ends_with_the_other_end)
{
    struct accounts *accounts = start();
    accounts_wait(accounts, &config, GUARD_MS);
    pid_t pid = world->pid;
    accounts_close(accounts);
    ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
}
END_TEST

START_TEST(the_end_of_the_process_is_noticed)
{
    struct accounts *accounts = start();
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

/* The name service hangs for the first name. Names in the files are found nevertheless. An admin
 * without @ is looked up in the files as a user only, because the name service may know a user of
 * that name. */
START_TEST(a_name_that_hangs_does_not_hide_those_in_the_files)
{
    static char carl[] = "carl";
    static char crew[] = "crew";
    static char at_crew[] = "@crew";
    static char plus[] = "+";
    static struct config_account more[] = {
        {.name = bob, .space = CONFIG_EVERYWHERE, .list = CONFIG_USERS},
        {.name = carl, .space = CONFIG_EVERYWHERE, .list = CONFIG_USERS},
        {.name = crew, .space = 0, .list = CONFIG_GROUPS},
        {.name = carl, .space = 0, .list = CONFIG_ADMINS},
        {.name = at_crew, .space = 0, .list = CONFIG_ADMINS},
        {.name = crew, .space = 0, .list = CONFIG_ADMINS},
        {.name = plus, .space = 0, .list = CONFIG_ADMINS},
    };
    config.accounts = more;
    config.account_count = sizeof(more) / sizeof(more[0]);
    write_file("passwd", "alice:x:1001:1001::/:/bin/sh\ncarl:x:1003:1003::/:/bin/sh\n"
                         "carl:x:9:9::/:/bin/sh\n+::::::\n");
    write_file("group", "crew:x:2002:carl\nbob:x:7:\n");
    world->blocks = true;
    struct accounts *accounts = start();
    await_found(accounts, 4);
    ck_assert_uint_eq(config_unknown_count(&config), 3); /* the unknown names are bob, and the
                                                          * admins crew and + */
    ck_assert_uint_eq(config.everywhere.users.count, 1);
    ck_assert_uint_eq(config.everywhere.users.ids[0], CARL);
    ck_assert_uint_eq(config.namespaces[0].access.groups.ids[0], CREW);
    ck_assert_uint_eq(config.namespaces[0].access.admin_users.ids[0], CARL);
    ck_assert_uint_eq(config.namespaces[0].access.admin_groups.count, 1);
    ck_assert_uint_eq(config.namespaces[0].access.admin_groups.ids[0], CREW);
    accounts_close(accounts);
}
END_TEST

/* Fills in MANY accounts, spread over all namespaces, whose lists of users have room for them. */
static void fill_many(struct config_account *many)
{
    for (unsigned i = 0; i < MANY; i++) {
        many[i] = (struct config_account){
            .name = bob, .space = i % HOST_NAMESPACES_MAX, .list = CONFIG_USERS};
    }
    ck_assert_uint_le(MANY, HOST_NAMESPACES_MAX * CONFIG_IDS_MAX);
    config.accounts = many;
    config.account_count = MANY;
}

/* Waits until the process has no more room for answers, or has looked for all names. */
static void await_standstill(void)
{
    unsigned before;
    do {
        before = world->asked;
        (void)poll(NULL, 0, 200);
    } while (before == 0 || world->asked != before);
}

/* The process waits for the agent, however late the agent reads. Each accounts_take() takes a part
 * of the answers. The agent may ask again afterwards. */
START_TEST(an_agent_that_does_not_read_loses_nothing)
{
    static struct config_account many[MANY];
    fill_many(many);
    world->has_all = true;
    struct accounts *accounts = start();
    await_standstill();
    accounts_take(accounts, &config, on_found, &config);
    ck_assert_uint_ge(found_count, 1);
    ck_assert_uint_le(found_count, ACCOUNTS_TAKE_MAX);
    await_found(accounts, MANY);
    ck_assert_uint_eq(config_unknown_count(&config), 0);
    /* waits until the process reports that it has looked for all names */
    accounts_wait(accounts, &config, GUARD_MS);
    accounts_ask(accounts);
    struct pollfd pollfd = {.fd = accounts_fd(accounts), .events = POLLIN};
    ck_assert_int_eq(poll(&pollfd, 1, GUARD_MS), 1); /* the process has looked again */
    ck_assert(!accounts_ended(accounts));
    accounts_close(accounts);
}
END_TEST

/* The process waits for room, and ends when the agent ends without reading. */
START_TEST(a_process_that_waits_for_the_agent_ends_with_it)
{
    static struct config_account many[MANY];
    fill_many(many);
    world->has_all = true;
    struct accounts *accounts = start();
    await_standstill();
    accounts_close(accounts);
    ck_assert_int_eq(waitpid(world->pid, NULL, 0), world->pid);
}
END_TEST

/* Answers that an agent refuses: the index of a name that does not exist (twice), a kind that is
 * neither user nor group, and a number that no user has. */
static const uint32_t wrong_packets[][3] = {
    {3, 0, BOB}, {UINT32_MAX - 1, 0, BOB}, {0, 2, BOB}, {0, 0, UINT32_MAX}};

static unsigned descriptors(void)
{
    unsigned count = 0;
    for (int fd = 0; fd < 1024; fd++) {
        count += fcntl(fd, F_GETFD) >= 0;
    }
    return count;
}

START_TEST(a_wrong_answer_ends_the_process_and_not_the_agent)
{
    memcpy(world->packet, wrong_packets[_i], sizeof(world->packet));
    world->rogue = world->has_bob = true;
    struct accounts *accounts = start();
    unsigned open = descriptors();
    accounts_wait(accounts, &config, GUARD_MS);
    ck_assert_uint_eq(config_unknown_count(&config), 3);
    ck_assert(accounts_ended(accounts));
    ck_assert(accounts_wrong(accounts));
    ck_assert_uint_eq(descriptors(), open);
    struct pollfd pollfd = {.fd = accounts_fd(accounts), .events = POLLIN};
    /* the descriptor becomes readable, so the loop notices the end of the process */
    ck_assert_int_eq(poll(&pollfd, 1, 0), 1);
    ck_assert_int_eq(waitpid(world->pid, NULL, 0), world->pid);
    accounts_close(accounts);
}
END_TEST

/* A right answer comes with descriptors. The agent closes these descriptors, and takes the answer
 * once. */
START_TEST(descriptors_in_an_answer_are_closed)
{
    const uint32_t right[3] = {0, 0, BOB};
    memcpy(world->packet, right, sizeof(right));
    world->rogue = true;
    struct accounts *accounts = start();
    unsigned open = descriptors();
    accounts_wait(accounts, &config, GUARD_MS);
    ck_assert_uint_eq(config.everywhere.users.count, 1);
    ck_assert(!accounts_wrong(accounts));
    ck_assert_uint_eq(descriptors(), open);
    accounts_close(accounts);
}
END_TEST

START_TEST(the_same_answer_twice_is_wrong)
{
    const uint32_t right[3] = {0, 0, BOB};
    memcpy(world->packet, right, sizeof(right));
    world->rogue = world->has_bob = true;
    struct accounts *accounts = start();
    accounts_wait(accounts, &config, GUARD_MS);
    ck_assert_uint_eq(config.everywhere.users.count, 1);
    ck_assert(accounts_wrong(accounts));
    accounts_close(accounts);
}
END_TEST

/* A start waits for a quarter of the lease, and at most 2 s. So the lease (at least 300 ms) lasts
 * longer than the wait. */
START_TEST(a_start_waits_for_a_part_of_the_lease)
{
    ck_assert_int_eq(accounts_patience_ms(INT64_C(300000000)), 75);
    ck_assert_int_eq(accounts_patience_ms(INT64_C(5000000000)), 1250);
    ck_assert_int_eq(accounts_patience_ms(INT64_C(8000000000)), 2000);
    ck_assert_int_eq(accounts_patience_ms(INT64_C(3600000000000)), 2000);
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
    tcase_set_timeout(tests, GUARD_MS / 1000);
    tcase_add_test(tests, what_is_known_is_there_at_once);
    tcase_add_test(tests, what_is_made_later_is_found_when_it_is_asked_for);
    tcase_add_test(tests, a_name_service_that_blocks_holds_nobody_up);
    tcase_add_test(tests, the_process_ends_with_the_other_end);
    tcase_add_test(tests, the_end_of_the_process_is_noticed);
    tcase_add_test(tests, a_name_that_hangs_does_not_hide_those_in_the_files);
    tcase_add_test(tests, an_agent_that_does_not_read_loses_nothing);
    tcase_add_test(tests, a_process_that_waits_for_the_agent_ends_with_it);
    tcase_add_loop_test(tests, a_wrong_answer_ends_the_process_and_not_the_agent, 0,
                        sizeof(wrong_packets) / sizeof(wrong_packets[0]));
    tcase_add_test(tests, descriptors_in_an_answer_are_closed);
    tcase_add_test(tests, the_same_answer_twice_is_wrong);
    tcase_add_test(tests, a_start_waits_for_a_part_of_the_lease);
    tcase_add_test(tests, the_host_knows_its_own);
    return suite_main("accounts", tests);
}
