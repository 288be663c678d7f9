/* What an address of the configuration is, by its text: see config.h. */
#include "config.h"

#include <string.h>

static const char *host_of(const char *address)
{
    return strstr(address, "://") + strlen("://");
}

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

bool config_is_tls(const char *address)
{
    return begins(address, "tls+");
}

bool config_is_anywhere(const char *address)
{
    const char *host = host_of(address);
    return begins(host, "0.0.0.0:") || begins(host, "[::]:") || host[0] == '*';
}

/* 127.x.y.z with four numbers; not 127.example.org. */
static bool is_loopback(const char *host)
{
    size_t length = strcspn(host, ":");
    return begins(host, "127.") && strspn(host, "0123456789.") == length;
}

bool config_is_local(const char *address)
{
    const char *host = host_of(address);
    return is_loopback(host) || begins(host, "[::1]:") || begins(host, "localhost:");
}
