/*
 * TCP ports of the loopback for tests. No two tests get the same port, even if they run at the same
 * time.
 *
 * These ports are below the ports that the kernel gives to connecting sockets (from 32768 on).
 * Otherwise a connection of another test could occupy a port before its listener opens, or while
 * the listener is away, and a socket that dials a port without a listener could be connected to
 * itself. Each given port has a name in the abstract namespace of Unix sockets, which the kernel
 * removes when this process ends.
 */
#ifndef TESTS_FREE_PORT_H
#define TESTS_FREE_PORT_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { FREE_PORT_FIRST = 20000, FREE_PORT_COUNT = 10000 };

/* Reserves a port. Returns whether this process has the port now. The descriptor stays open until
 * the process ends. */
static inline bool free_port_reserve(unsigned port)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    int length = snprintf(name.sun_path + 1, sizeof(name.sun_path) - 1, "holdfast-test-port-%u",
                          port);
    socklen_t size = (socklen_t)(sizeof(sa_family_t) + 1 + (size_t)length);
    if (fd >= 0 && bind(fd, (struct sockaddr *)&name, size) == 0) {
        return true;
    }
    close(fd);
    return false;
}

/* Returns false if a process that has not reserved the port uses it. */
static inline bool free_port_is_unused(unsigned port)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((in_port_t)port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool bound = fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof(address)) == 0;
    close(fd);
    return bound;
}

/* Reserves a free port and returns it. Returns 0 if no port is free. */
static inline unsigned free_port_take(void)
{
    static unsigned tries;
    for (unsigned i = 0; i < FREE_PORT_COUNT; i++) {
        unsigned port = FREE_PORT_FIRST + ((unsigned)getpid() * 64 + tries++) % FREE_PORT_COUNT;
        if (free_port_reserve(port) && free_port_is_unused(port)) {
            return port;
        }
    }
    return 0;
}

#endif
