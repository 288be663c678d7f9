/* Reads the text of an address of the configuration: see config.h. */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "config/config.h"

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

/* An IPv4 address such as 127.0.0.2 counts as loopback; the name 127.example.org does not. */
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

enum { IP_SIZE = 16 };

static size_t host_length(const char *host)
{
    return (size_t)(strrchr(host, ':') - host);
}

/* Reads the host as an IPv6 address. An IPv4 address becomes its IPv4-mapped form. Returns false if
 * the host is a name. */
static bool read_ip(const char *host, unsigned char ip[IP_SIZE])
{
    char text[INET6_ADDRSTRLEN + sizeof("::ffff:[]")] = "::ffff:";
    bool bracketed = host[0] == '[';
    size_t at = bracketed ? 0 : strlen(text);
    size_t length = host_length(host) - (bracketed ? 2 : 0);
    if (length >= sizeof(text) - at) {
        return false;
    }
    memcpy(text + at, host + (bracketed ? 1 : 0), length);
    text[at + length] = '\0';
    return inet_pton(AF_INET6, text, ip) == 1;
}

bool config_is_same(const char *one, const char *other)
{
    const char *hosts[] = {host_of(one), host_of(other)};
    unsigned char ips[2][IP_SIZE];
    size_t length = host_length(hosts[0]);
    if (strtoul(hosts[0] + length + 1, NULL, 10) != strtoul(strrchr(hosts[1], ':') + 1, NULL, 10)) {
        return false;
    }
    bool numbers[] = {read_ip(hosts[0], ips[0]), read_ip(hosts[1], ips[1])};
    if (numbers[0] && numbers[1]) {
        return memcmp(ips[0], ips[1], IP_SIZE) == 0;
    }
    return length == host_length(hosts[1]) && strncasecmp(hosts[0], hosts[1], length) == 0;
}

/* Returns whether the URL's host has no port, or one of 1 to 65535. An IPv6 address has brackets.
 */
static bool is_port_right(const char *host)
{
    size_t length = strcspn(host, "/");
    const char *colon = memchr(host, ':', length);
    const char *bracket = host[0] == '[' ? memchr(host, ']', length) : NULL;
    if (bracket != NULL) {
        colon = bracket[1] == ':' ? bracket + 1 : NULL;
    }
    if (colon == NULL) {
        return host[0] != '[' || (bracket != NULL && bracket + 1 == host + length);
    }
    size_t digits = strspn(colon + 1, "0123456789");
    unsigned long port = digits > 0 && digits <= 5 ? strtoul(colon + 1, NULL, 10) : 0;
    return colon + 1 + digits == host + length && port >= 1 && port <= 65535;
}

bool config_is_page(const char *url)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    static const char others[] = "-._~:/[]%";
    char allowed[sizeof(letters) + sizeof(others)];
    const char *host = begins(url, "http://") || begins(url, "https://") ? host_of(url) : "";
    snprintf(allowed, sizeof(allowed), "%s%s", letters, others);
    return (strcspn(host, letters) == 0 || host[0] == '[') && host[0] != '\0' &&
           strlen(url) < MESSAGE_ADDRESS_MAX && host[strspn(host, allowed)] == '\0' &&
           is_port_right(host);
}

void config_page(const struct config *config, char out[MESSAGE_ADDRESS_MAX])
{
    const char *listen = config->http_listen;
    const char *page = config->http_advertise;
    if (page[0] == '\0' && listen[0] != '\0' && !config_is_anywhere(listen) &&
        !config_is_local(listen)) {
        page = listen;
    }
    snprintf(out, MESSAGE_ADDRESS_MAX, "%s", page);
}
