/*
 * `holdfast setup` looks at this host, and asks a person: see setup_ask.h.
 */
#include "setup_ask.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

const char *setup_host_name(char out[SETUP_LABEL_SIZE])
{
    char name[256] = "";
    size_t size = 0;

    if (gethostname(name, sizeof(name) - 1) != 0) {
        name[0] = '\0';
    }
    for (const char *at = name; *at != '\0' && *at != '.' && size < SETUP_LABEL_SIZE - 1; at++) {
        char letter = *at >= 'A' && *at <= 'Z' ? (char)(*at - 'A' + 'a') : *at;
        bool good = strchr("abcdefghijklmnopqrstuvwxyz0123456789_-", letter) != NULL;
        out[size++] = good ? letter : '-';
    }
    out[size] = '\0';
    if (size == 0) {
        snprintf(out, SETUP_LABEL_SIZE, "host");
    }
    return out;
}

/* Returns whether a network interface other than the loopback has the address. */
static bool is_own_address(const struct ifaddrs *list, const char *address)
{
    for (const struct ifaddrs *at = list; at != NULL; at = at->ifa_next) {
        char text[INET6_ADDRSTRLEN] = "";

        if (at->ifa_addr == NULL || (at->ifa_flags & IFF_LOOPBACK) != 0) {
            continue;
        }
        if (at->ifa_addr->sa_family == AF_INET) {
            struct sockaddr_in ip;
            memcpy(&ip, at->ifa_addr, sizeof(ip));
            (void)inet_ntop(AF_INET, &ip.sin_addr, text, sizeof(text));
        } else if (at->ifa_addr->sa_family == AF_INET6) {
            struct sockaddr_in6 ip;
            memcpy(&ip, at->ifa_addr, sizeof(ip));
            (void)inet_ntop(AF_INET6, &ip.sin6_addr, text, sizeof(text));
        }
        if (strcmp(text, address) == 0) {
            return true;
        }
    }
    return false;
}

const struct setup_host *setup_host_guess(const struct setup_cell *cell)
{
    char name[SETUP_LABEL_SIZE];
    char address[SETUP_ADDRESS_SIZE];
    struct ifaddrs *list = NULL;
    const struct setup_host *found = setup_cell_find(cell, setup_host_name(name));
    size_t count = found != NULL ? 1 : 0;

    if (found != NULL || getifaddrs(&list) != 0) {
        return found;
    }
    for (size_t index = 0; index < cell->host_count; index++) {
        const struct setup_host *host = &cell->hosts[index];
        if (host->wanted && is_own_address(list, setup_host_part(host, address))) {
            found = host;
            count++;
        }
    }
    freeifaddrs(list);
    return count == 1 ? found : NULL;
}

bool setup_ask(const char *question, const char *usual, char *out, size_t size)
{
    char line[4096];

    for (;;) {
        printf(usual[0] != '\0' ? "%s [%s]: " : "%s: ", question, usual);
        if (fflush(stdout) != 0 || fgets(line, sizeof(line), stdin) == NULL) {
            putchar('\n');
            return false;
        }
        size_t begin = strspn(line, " \t");
        size_t end = strlen(line);
        while (end > begin && strchr(" \t\r\n", line[end - 1]) != NULL) {
            end--;
        }
        line[end] = '\0';
        if (snprintf(out, size, "%s", end > begin ? line + begin : usual) < (int)size) {
            return true;
        }
        printf("Found %zu bytes, expected at most %zu\n", end - begin, size - 1);
    }
}
