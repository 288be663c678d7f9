/* See cell.h: agents on hosts, their configuration, and what is done to a whole agent. */
#include "cell.h"

#include "../suite_main.h"
#include "actor.h"
#include "require.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

enum { CONFIG_MAX = 2048, PORT = 7411 };

struct cell_times cell_times = {.ttl_ms = CELL_TTL_MS, .grace_ms = CELL_GRACE_MS};

static void describe(const struct cell *cell, unsigned host, char *text, size_t size)
{
    int used = snprintf(text, size,
                        "[agent]\nname = host-%c\ncell = faults\nstate_dir = %%D/state\n"
                        "socket = %%D/agent.sock\nrole = %s\n"
                        "[cell]\nsession_ttl = %ums\ngrace_period = %ums\n"
                        "insecure = yes\nlisten = tcp://%s:%d\n[voters]\n",
                        'a' + (int)host, host < cell->voters ? "voter" : "observer",
                        cell_times.ttl_ms, cell_times.grace_ms, network_address(host), PORT);
    for (unsigned i = 0; i < cell->voters; i++) {
        used += snprintf(text + used, size - (size_t)used, "host-%c = tcp://%s:%d\n", 'a' + (int)i,
                         network_address(i), PORT);
    }
}

void cell_make(struct cell *cell, unsigned voters, unsigned observers)
{
    char text[CONFIG_MAX];
    *cell = (struct cell){.hosts = voters + observers, .voters = voters};
    network_make(&cell->network, cell->hosts);
    for (unsigned i = 0; i < cell->hosts; i++) {
        describe(cell, i, text, sizeof(text));
        agent_create(&cell->agents[i], text);
        cell->agents[i].keeper = cell->network.keepers[i];
    }
}

void cell_launch(struct cell *cell)
{
    for (unsigned i = 0; i < cell->hosts; i++) {
        agent_launch(&cell->agents[i]);
    }
}

void cell_await(struct cell *cell)
{
    for (unsigned i = 0; i < cell->hosts; i++) {
        agent_await_socket(&cell->agents[i]);
    }
}

void cell_start(struct cell *cell, unsigned voters, unsigned observers)
{
    cell_make(cell, voters, observers);
    cell_launch(cell);
    cell_await(cell);
}

void cell_stop(struct cell *cell)
{
    for (unsigned i = cell->hosts; i-- > 0;) { /* a janitor holds the pipes of those before it */
        agent_destroy(&cell->agents[i]);
    }
    network_unmake(&cell->network);
}

void cell_kill_all(struct cell *cell)
{
    for (unsigned i = 0; i < cell->hosts; i++) { /* all before anybody is waited for */
        if (cell->agents[i].pid != 0) {
            kill(cell->agents[i].pid, SIGKILL);
        }
    }
    for (unsigned i = 0; i < cell->hosts; i++) {
        agent_kill(&cell->agents[i]);
    }
}

void cell_restart(struct cell *cell, unsigned host)
{
    agent_kill(&cell->agents[host]);
    agent_start(&cell->agents[host]);
}

void cell_pause(struct cell *cell, unsigned host)
{
    REQUIRE(kill(cell->agents[host].pid, SIGSTOP) == 0, "kill: %s", strerror(errno));
}

void cell_continue(struct cell *cell, unsigned host)
{
    REQUIRE(kill(cell->agents[host].pid, SIGCONT) == 0, "kill: %s", strerror(errno));
}

unsigned cell_coordinator(struct cell *cell, unsigned looker, const char *lock)
{
    struct actor actor;
    struct actor_show show;
    unsigned host = cell->hosts;
    int64_t end_ns = boottime_now() + GUARD_MS * MS;
    actor_ready(&actor, cell->agents[looker].socket);
    do {
        REQUIRE(boottime_now() < end_ns, "host %u does not know who coordinates %s", looker, lock);
        sleep_ms(10);
        show = actor_show(&actor, lock);
        bool named = strncmp(show.coordinator, "host-", 5) == 0;
        host = named ? (unsigned)(show.coordinator[5] - 'a') : cell->hosts;
    } while (host >= cell->voters || cell->agents[host].pid == 0);
    actor_end(&actor);
    return host;
}

void cell_await_logged(struct cell *cell, unsigned host, const char *text)
{
    int64_t end_ns = boottime_now() + GUARD_MS * MS;
    while (!agent_logged(&cell->agents[host], text)) {
        REQUIRE(boottime_now() < end_ns, "host %u never logs: %s", host, text);
        sleep_ms(20);
    }
}

const char *cell_state_path(const struct cell *cell, unsigned host, const char *file)
{
    static char path[256];
    snprintf(path, sizeof(path), "/proc/%d/root%s/state/%s", (int)cell->network.keepers[host],
             cell->agents[host].folder, file);
    return path;
}

int cell_main(const char *name, TCase *tests)
{
    network_need();
    tcase_set_timeout(tests, 240); /* a guard against hanging; each test takes seconds */
    return suite_main(name, tests);
}
