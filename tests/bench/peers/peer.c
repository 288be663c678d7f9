/*
 * The list of peers, and the part of starting and stopping that is the same for each peer.
 */
#include "peer.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "kinds.h"

int peer_needs_program(const char *program, const char *package, char why[PEER_WHY_MAX])
{
    if (program_exists(program)) {
        return 0;
    }
    snprintf(why, PEER_WHY_MAX, "no %s here (Debian: %s)", program, package);
    return 1;
}

const struct peer_kind *peer_find(const char *name)
{
    for (size_t i = 0; peer_kinds[i] != NULL; i++) {
        if (strcmp(peer_kinds[i]->name, name) == 0) {
            return peer_kinds[i];
        }
    }
    return NULL;
}

int peer_start(struct peer_run *run, const struct peer_kind *kind, const char *below,
               int64_t lease_ns)
{
    *run = (struct peer_run){.kind = kind, .lease_ns = lease_ns};
    int size = snprintf(run->directory, sizeof(run->directory), "%s/%s", below, kind->name);
    if (size < 0 || (size_t)size >= sizeof(run->directory) || mkdir(run->directory, 0755) != 0) {
        run->directory[0] = '\0';
        return complain("%s/%s: %s", below, kind->name, strerror(errno));
    }
    return kind->start(run);
}

void peer_stop(struct peer_run *run)
{
    if (run->directory[0] == '\0') {
        return; /* the server was never started */
    }
    run->kind->stop(run);
    directory_remove(run->directory);
    run->directory[0] = '\0';
}

void peer_kill_server(struct peer_run *run, size_t server, bool clean)
{
    if (run->kind->kill_server != NULL) {
        run->kind->kill_server(run, server, clean);
    } else if (clean) {
        server_end(&run->servers[server], SIGTERM);
    } else {
        server_kill(&run->servers[server]);
    }
}

int peer_start_server(struct peer_run *run, size_t server)
{
    return run->kind->start_server != NULL ? run->kind->start_server(run, server)
                                           : server_launch(&run->servers[server]);
}

int64_t peer_cpu_ns(const struct peer_run *run)
{
    int64_t sum_ns = 0;
    for (size_t i = 0; i < run->server_count; i++) {
        sum_ns += process_cpu_ns(run->servers[i].pid);
    }
    return sum_ns;
}

int64_t peer_memory(const struct peer_run *run)
{
    int64_t sum = 0;
    if (run->kind->memory != NULL) {
        return run->kind->memory(run);
    }
    for (size_t i = 0; i < run->server_count; i++) {
        sum += process_memory(run->servers[i].pid);
    }
    return sum;
}
