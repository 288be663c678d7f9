/*
 * Messages to systemd: see io/notify.h.
 *
 * The protocol is one datagram of text to the socket that NOTIFY_SOCKET names. libsystemd would
 * bring six more libraries, which take a megabyte of memory, for this one datagram.
 */
#include "io/notify.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { STATUS_MAX = 128 };

/* The longest watchdog time that counts as valid: a year. */
static const int64_t watchdog_max_us = INT64_C(365) * 24 * 3600 * 1000000;

static void notify(const char *text)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const char *path = getenv("NOTIFY_SOCKET");
    size_t length = path != NULL ? strlen(path) : 0;
    if (length < 2 || length > sizeof(address.sun_path) || (path[0] != '/' && path[0] != '@')) {
        return;
    }
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return;
    }
    memcpy(address.sun_path, path, length);
    if (path[0] == '@') { /* the name of an abstract socket begins with a zero byte */
        address.sun_path[0] = '\0';
    }
    (void)!sendto(fd, text, strlen(text), MSG_NOSIGNAL, (const struct sockaddr *)&address,
                  (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length));
    close(fd);
}

void notify_ready(const char *status)
{
    char text[STATUS_MAX];
    snprintf(text, sizeof(text), "READY=1\nSTATUS=%s", status);
    notify(text);
}

void notify_stopping(void)
{
    notify("STOPPING=1");
}

void notify_alive(void)
{
    notify("WATCHDOG=1");
}

/* Reads a decimal number above 0 of an environment variable. Returns 0 if there is none. */
static int64_t number_of(const char *variable)
{
    const char *text = getenv(variable);
    size_t length = text != NULL ? strspn(text, "0123456789") : 0;
    return length > 0 && length <= 18 && text[length] == '\0' ? strtoll(text, NULL, 10) : 0;
}

int64_t notify_alive_interval_ns(void)
{
    int64_t limit_us = number_of("WATCHDOG_USEC");
    bool mine = getenv("WATCHDOG_PID") == NULL || number_of("WATCHDOG_PID") == getpid();
    if (!mine || limit_us > watchdog_max_us) {
        return 0;
    }
    return limit_us / 3 * 1000; /* a third of the limit, so that one notice may be late */
}
