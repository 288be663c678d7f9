/* See cell.h: the agents on their hosts, their configuration, and restarts of whole agents. */
#include "cell.h"

#include "../suite_main.h"
#include "actor.h"
#include "require.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

enum { CONFIG_MAX = 4096 };

struct cell_options cell_options = {.ttl_ms = CELL_TTL_MS, .grace_ms = CELL_GRACE_MS};

const char *cell_address(const struct cell *cell, unsigned host)
{
    static char address[64];
    snprintf(address, sizeof(address), "%s://%s:%u", cell_options.tls ? "tls+tcp" : "tcp",
             network_address(host), cell->ports[host]);
    return address;
}

static void describe(const struct cell *cell, unsigned host, char *text, size_t size)
{
    const char *tls = cell_options.tls;
    int used = snprintf(text, size,
                        "[agent]\nname = host-%c\ncell = faults\nstate_dir = %%D/state\n"
                        "socket = %%D/agent.sock\nrole = %s\n"
                        "[cell]\nsession_ttl = %ums\ngrace_period = %ums\n"
                        "%slisten = %s\n[voters]\n",
                        'a' + (int)host, host < cell->voters ? "voter" : "observer",
                        cell_options.ttl_ms, cell_options.grace_ms, tls ? "" : "insecure = yes\n",
                        cell_address(cell, host));
    for (unsigned i = 0; i < cell->voters; i++) {
        used += snprintf(text + used, size - (size_t)used, "host-%c = %s\n", 'a' + (int)i,
                         cell_address(cell, i));
    }
    if (cell_options.sections == NULL || strstr(cell_options.sections, "[limits]") == NULL) {
        /* an agent looks at its whole index again and again, and a test has few locks */
        used += snprintf(text + used, size - (size_t)used, "[limits]\nlocks = 2048\n");
    }
    if (cell_options.sections != NULL) {
        used += snprintf(text + used, size - (size_t)used, "%s", cell_options.sections);
    }
    if (tls) {
        snprintf(text + used, size - (size_t)used,
                 "[tls]\nca = %s/ca.pem\ncert = %s/%c.pem\nkey = %s/%c.key\n", tls, tls,
                 'a' + (int)host, tls, 'a' + (int)host);
    }
}

void cell_certify(const char *folder)
{
    char command[1024];
    snprintf(command, sizeof(command),
             "cd %s && exec >openssl.log 2>&1\n"
             "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2"
             " -subj /CN=cell -keyout ca.key -out ca.pem || exit 1\n"
             "for host in a b c d e f g h; do\n"
             "echo subjectAltName=DNS:host-$host >names\n"
             "openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=host-$host"
             " -keyout $host.key -out $host.csr && openssl x509 -req -in $host.csr -CA ca.pem"
             " -CAkey ca.key -CAcreateserial -days 2 -extfile names -out $host.pem || exit 1\n"
             "done; chmod 600 *.key",
             folder);
    int status = system(command);
    REQUIRE(status == 0, "no certificates (%x): %s/openssl.log", (unsigned)status, folder);
}

void cell_make(struct cell *cell, unsigned voters, unsigned observers)
{
    char text[CONFIG_MAX];
    *cell = (struct cell){.hosts = voters + observers, .voters = voters};
    network_make(&cell->network, cell->hosts);
    for (unsigned i = 0; i < cell->hosts; i++) {
        cell->ports[i] = CELL_PORT;
    }
    for (unsigned i = 0; i < cell->hosts; i++) {
        describe(cell, i, text, sizeof(text));
        agent_create(&cell->agents[i], text);
        cell->agents[i].keeper = cell->network.keepers[i];
    }
}

void cell_move(struct cell *cell, unsigned host, unsigned port)
{
    char text[CONFIG_MAX];
    cell->ports[host] = port;
    describe(cell, host, text, sizeof(text));
    agent_configure(&cell->agents[host], text);
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
    for (unsigned i = cell->hosts; i-- > 0;) { /* in reverse order, because each janitor has
                                                * inherited the pipes of the earlier ones */
        agent_destroy(&cell->agents[i]);
    }
    network_unmake(&cell->network);
}

void cell_kill_all(struct cell *cell)
{
    for (unsigned i = 0; i < cell->hosts; i++) { /* the next loop waits for the agents */
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
    agent_pause(&cell->agents[host]);
}

void cell_continue(struct cell *cell, unsigned host)
{
    agent_continue(&cell->agents[host]);
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
