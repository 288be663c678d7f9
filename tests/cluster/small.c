/*
 * The profile `small`. The tests measure the memory of its region and its agent, with empty tables
 * and with full ones. They also check that agents with this profile are full members of a cell.
 * ./dev test also runs this program with an agent built with the preset small, which refuses the
 * keys of [tls] and [http].
 */
#include "actor.h"
#include "cell.h"
#include "require.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "../emulation.h"
#include "../suite_main.h"

enum {
    RESIDENT_KB_MAX = 4096,          /* for a build with the preset small */
    RESIDENT_KB_MAX_COMPLETE = 4608, /* for a build with TLS and HTTP */
    REGION_BYTES_MAX = 1 << 20,
    LOCKS = 512, /* `locks` of the profile */
    ACTORS = 8,
    PER_ACTOR = LOCKS / ACTORS,
    NAME_SIZE = 40,
    SETTLED_MS = 30000, /* longer than two intervals between calls of resident_trim() */
};

_Static_assert((int)PER_ACTOR <= (int)ACTOR_LOCKS, "an actor has room for its locks");

static const char config[] = "[agent]\nname = host-a\ncell = test\nstate_dir = %D/state\n"
                             "socket = %D/agent.sock\nprofile = small\n";

static struct agent_process agent;

/* Returns Rss of the agent in KiB: all its resident pages, also those of libraries. The kernel
 * counts them for this call. VmRSS is inexact before Linux 6.2: each thread keeps up to 63 pages
 * for itself before it adds them to the process's count. */
static unsigned long resident_kb(const struct agent_process *of)
{
    char path[64];
    char line[256];
    unsigned long kb = 0;
    snprintf(path, sizeof(path), "/proc/%d/smaps_rollup", (int)of->pid);
    FILE *file = fopen(path, "re");
    REQUIRE(file, "%s", path);
    while (fgets(line, sizeof(line), file) != NULL && sscanf(line, "Rss: %lu kB", &kb) != 1) {
    }
    fclose(file);
    REQUIRE(kb > 0, "%s has no Rss", path);
    return kb;
}

/* Returns whether the agent's program was built without TLS and HTTP. */
static bool is_reduced(void)
{
    char command[512];
    char version[128] = "";
    snprintf(command, sizeof(command), "%s --version", binary_path("holdfastd"));
    FILE *out = popen(command, "re");
    REQUIRE(out && fgets(version, sizeof(version), out), "%s", command);
    pclose(out);
    return strstr(version, "(built without TLS, HTTP)") != NULL;
}

/* Waits until the agent has stayed within the bound for two seconds. An agent that has just worked
 * has more code resident, until it releases that memory. */
static void check_resident(const struct agent_process *of, const char *when)
{
    enum { LOOKS = 20 };
    const unsigned long bound_kb = is_reduced() ? RESIDENT_KB_MAX : RESIDENT_KB_MAX_COMPLETE;
    unsigned long most_kb = 0;
    unsigned within = 0;
    if (!resident_is_its_own("cluster_small", of->pid, binary_path("holdfastd"))) {
        return;
    }
    int64_t end_ns = boottime_now() + SETTLED_MS * MS;
    while (within < LOOKS && (within > 0 || boottime_now() < end_ns)) {
        unsigned long kb = resident_kb(of);
        within = kb <= bound_kb ? within + 1 : 0;
        most_kb = within <= 1 || kb > most_kb ? kb : most_kb;
        sleep_ms(100);
    }
    printf("%s: %lu KiB resident, %lu of them its own\n", when, most_kb, agent_private_kb(of));
    ck_assert_msg(within == LOOKS, "%s: %lu KiB resident, expected at most %lu", when, most_kb,
                  bound_kb);
}

static void check_region(const struct agent_process *of)
{
    char path[512];
    struct stat status;
    agent_region_path(of, "default", path, sizeof(path));
    ck_assert_int_eq(stat(path, &status), 0);
    printf("region: %lld bytes\n", (long long)status.st_size);
    ck_assert_int_le(status.st_size, REGION_BYTES_MAX);
    ck_assert_int_le((long long)status.st_blocks * 512, REGION_BYTES_MAX);
}

static void start(void)
{
    agent_create(&agent, config);
    agent_start(&agent);
}

static void stop(void)
{
    agent_destroy(&agent);
}

START_TEST(idle)
{
    struct actor actor;
    actor_ready(&actor, agent.socket);
    ck_assert_int_eq(actor_open(&actor, 0, "a", 10), 0);
    ck_assert_int_eq(actor_acquire(&actor, 0, HF_EXCLUSIVE, GUARD_MS, NULL), 0);
    check_region(&agent);
    check_resident(&agent, "idle, one hold");
    agent_kill(&agent);
    agent_start(&agent); /* the next agent adopts the region */
    ck_assert_uint_eq(agent_logged(&agent, "session_continued"), 1);
    ck_assert(actor_remaining(&actor, 0) > 0);
    check_resident(&agent, "after a restart");
    actor_end(&actor);
}
END_TEST

/* Each handle of one process on one lock needs a holder id. A key in the file overrides the
 * profile. A change of the number of ids ends the session, because it changes the region's size. */
START_TEST(holders_full)
{
    enum { IDS = 3 };
    struct actor actor;
    char other[512];
    snprintf(other, sizeof(other), "[limits]\nclients = 2\nholders = %d\n%s", IDS, config);
    agent_kill(&agent);
    agent_configure(&agent, other);
    agent_start(&agent);
    ck_assert_uint_eq(agent_logged(&agent, "session_new"), 2);
    actor_ready(&actor, agent.socket);
    for (uint32_t i = 0; i < IDS; i++) {
        ck_assert_int_eq(actor_open(&actor, i, "same", 10), 0);
    }
    ck_assert_int_eq(actor_open(&actor, IDS, "same", 10), HF_EFULL);
    ck_assert_int_eq(actor_acquire(&actor, IDS - 1, HF_EXCLUSIVE, GUARD_MS, NULL), 0);
    check_region(&agent);
    actor_end(&actor);
}
END_TEST

/* Makes a name of usual length. tests/unit/test_profile.c adds up what the longest names take. */
static void name_lock(struct actor_request *request, char kind, unsigned actor, unsigned lock)
{
    memset(request->name, kind, NAME_SIZE);
    snprintf(request->name + NAME_SIZE, sizeof(request->name) - NAME_SIZE, "/%u/%u", actor, lock);
}

/* Lets all actors do the request for one of their locks each, at the same time. */
static void all_do(struct actor *actors, enum actor_kind kind, char name, unsigned lock)
{
    for (unsigned i = 0; i < ACTORS; i++) {
        struct actor_request request = {.kind = kind,
                                        .lock = lock,
                                        .mode = HF_EXCLUSIVE,
                                        .timeout_ns = GUARD_MS * MS,
                                        .options = {.size = sizeof(struct hf_lock_options)}};
        name_lock(&request, name, i, lock);
        actor_send(&actors[i], &request);
    }
    for (unsigned i = 0; i < ACTORS; i++) {
        struct actor_reply reply;
        REQUIRE(actor_receive(&actors[i], &reply, GUARD_MS), "no reply of actor %u", i);
        ck_assert_int_eq(reply.result, 0);
    }
}

/* The test first takes and releases as many other names as the region has locks. It then holds
 * every lock of the region. So both tables are full, that of locks and that of registers. */
START_TEST(full)
{
    struct actor actors[ACTORS];
    for (unsigned i = 0; i < ACTORS; i++) {
        actor_ready(&actors[i], agent.socket);
    }
    for (unsigned lock = 0; lock < PER_ACTOR; lock++) {
        all_do(actors, ACTOR_OPEN, 'x', lock);
        all_do(actors, ACTOR_ACQUIRE, 'x', lock);
        all_do(actors, ACTOR_RELEASE, 'x', lock);
        all_do(actors, ACTOR_CLOSE, 'x', lock);
    }
    for (unsigned lock = 0; lock < PER_ACTOR; lock++) {
        all_do(actors, ACTOR_OPEN, 'y', lock);
        all_do(actors, ACTOR_ACQUIRE, 'y', lock);
    }
    struct actor late;
    actor_ready(&late, agent.socket);
    ck_assert_int_eq(actor_open(&late, 0, "one too many", 10), HF_EFULL);
    check_resident(&agent, "full");
    for (unsigned i = 0; i < ACTORS; i++) {
        ck_assert(actor_remaining(&actors[i], PER_ACTOR - 1) > 0);
        actor_end(&actors[i]);
    }
    actor_end(&late);
}
END_TEST

/* A cell of a small voter, two voters with the standard profile, and a small observer: a lock goes
 * from host to host. */
START_TEST(in_a_cell)
{
    enum { SMALL = 0, VOTER = 1, OBSERVER = 3, HOSTS = 4 };
    static struct cell cell;
    struct actor actors[HOSTS];
    cell_options.ttl_ms = 3000; /* so that no hold is lost because the machine is busy */
    cell_make(&cell, 3, 1);
    for (unsigned i = 0; i < HOSTS; i += OBSERVER) {
        char path[128];
        snprintf(path, sizeof(path), "%s/holdfast.conf", cell.agents[i].folder);
        FILE *file = fopen(path, "ae");
        REQUIRE(file && fputs("[agent]\nprofile = small\n", file) >= 0 && fclose(file) == 0, "%s",
                path);
    }
    cell_launch(&cell);
    cell_await(&cell);
    for (unsigned i = 0; i < HOSTS; i++) {
        actor_ready(&actors[i], cell.agents[i].socket);
        ck_assert_int_eq(actor_open(&actors[i], 0, "wandering", 10), 0);
        ck_assert_int_eq(actor_acquire(&actors[i], 0, HF_EXCLUSIVE, GUARD_MS, NULL), 0);
        ck_assert_int_eq(actor_release(&actors[i], 0), 0);
    }
    cell_pause(&cell, VOTER); /* now the small voter's vote is needed */
    ck_assert_int_eq(actor_acquire(&actors[OBSERVER], 0, HF_EXCLUSIVE, GUARD_MS, NULL), 0);
    cell_continue(&cell, VOTER);
    check_resident(&cell.agents[SMALL], "a small voter of four agents");
    check_resident(&cell.agents[OBSERVER], "a small observer");
    for (unsigned i = 0; i < HOSTS; i++) {
        actor_end(&actors[i]);
    }
    cell_stop(&cell);
}
END_TEST

/* Returns what `holdfastd --config FILE --check-config` prints for this text. */
static const char *checked(const char *text)
{
    static char said[1024];
    char command[512];
    char path[128];
    snprintf(path, sizeof(path), "%s/other.ini", agent.folder);
    FILE *file = fopen(path, "we");
    REQUIRE(file && fputs(text, file) >= 0 && fclose(file) == 0, "%s", path);
    snprintf(command, sizeof(command), "%s --config %s --check-config 2>&1",
             binary_path("holdfastd"), path);
    FILE *out = popen(command, "re");
    REQUIRE(out, "%s", command);
    size_t size = fread(said, 1, sizeof(said) - 1, out);
    said[size] = '\0';
    pclose(out);
    return said;
}

/* A build refuses a key that it cannot serve, and names the option of the build. */
START_TEST(parts_that_are_left_out)
{
    bool reduced = is_reduced();
    const char *http = checked("[agent]\nname = a\ncell = c\nstate_dir = /nowhere/x\n"
                               "socket = /nowhere/y\n[http]\nlisten = http://127.0.0.1:7412\n");
    const char *refused =
        "other.ini:7: [http] listen: found it, expected no [http]: this agent was "
        "built with -DHOLDFAST_HTTP=OFF\n";
    ck_assert_msg((strstr(http, refused) != NULL) == reduced, "%s", http);
    const char *tls = checked("[agent]\nname = a\ncell = c\n[tls]\nca = /x\ncert = /y\nkey = /z\n");
    refused = "other.ini:5: [tls] ca: found it, expected no [tls]: this agent was built with "
              "-DHOLDFAST_TLS=OFF\n";
    ck_assert_msg((strstr(tls, refused) != NULL) == reduced, "%s", tls);
    const char *address = checked("[agent]\nname = a\ncell = c\n[cell]\n"
                                  "listen = tls+tcp://127.0.0.1:7411\n");
    refused = "expected tcp://: this agent was built with -DHOLDFAST_TLS=OFF\n";
    ck_assert_msg((strstr(address, refused) != NULL) == reduced, "%s", address);
}
END_TEST

int main(void)
{
    network_need();
    TCase *tests = tcase_create("small");
    TCase *cells = tcase_create("cell");
    Suite *suite = suite_create("small");
    tcase_add_checked_fixture(tests, start, stop);
    tcase_set_timeout(tests, 120);
    tcase_add_test(tests, idle);
    tcase_add_test(tests, holders_full);
    tcase_add_test(tests, full);
    tcase_add_test(tests, parts_that_are_left_out);
    tcase_set_timeout(cells, 120);
    tcase_add_test(cells, in_a_cell);
    suite_add_tcase(suite, tests);
    suite_add_tcase(suite, cells);
    return suite_run(suite);
}
