/* Addresses for the transport: see setup.h. */
#include "setup.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PORT_MAX = 65535 };

static const char plain[] = "tcp://";
static const char secured[] = "tls+tcp://";

/* ---- addresses ---- */

bool transport_is_tls(const char *address)
{
    return strncmp(address, secured, sizeof secured - 1) == 0;
}

/* Returns the text behind the scheme; NULL if the scheme is neither tcp nor tls+tcp. */
static const char *host_of(const char *address)
{
    if (transport_is_tls(address)) {
        return address + sizeof secured - 1;
    }
    return strncmp(address, plain, sizeof plain - 1) == 0 ? address + sizeof plain - 1 : NULL;
}

static bool port_valid(const char *port)
{
    size_t length = strspn(port, "0123456789");
    unsigned long number = length > 0 && length <= 5 ? strtoul(port, NULL, 10) : 0;

    return port[length] == '\0' && number > 0 && number <= PORT_MAX;
}

const char *transport_address_error(const char *address)
{
    const char *host = host_of(address);
    const char *colon = host != NULL ? strrchr(host, ':') : NULL;
    size_t length = colon != NULL ? (size_t)(colon - host) : 0;

    if (strlen(address) >= TRANSPORT_ADDRESS_SIZE) {
        return "longer than 127 characters";
    }
    if (host == NULL) {
        return "expected tcp://HOST:PORT or tls+tcp://HOST:PORT";
    }
    if (colon == NULL || !port_valid(colon + 1)) {
        return "expected a port from 1 to 65535 behind the last colon";
    }
    if (host[0] == '[' && length > 2) { /* an IPv6 address */
        bool whole = host[length - 1] == ']' &&
                     strspn(host + 1, "0123456789abcdefABCDEF:.") == length - 2;
        return whole ? NULL : "expected an IPv6 address between [ and ]";
    }
    if (length == 0 || strcspn(host, ":/?#@[]* ") < length) {
        return "expected a host name or an address between // and the port";
    }
    return NULL;
}

bool transport_address_is_number(const char *address)
{
    const char *host = host_of(address);
    const char *colon = host != NULL ? strrchr(host, ':') : NULL;
    size_t length = colon != NULL ? (size_t)(colon - host) : 0;
    char text[INET6_ADDRSTRLEN + 2] = "";
    unsigned char number[sizeof(struct in6_addr)];

    if (length == 0 || length >= sizeof text) {
        return false;
    }
    memcpy(text, host, length);
    if (text[0] == '[') { /* NNG would also look up a name between brackets */
        text[length - 1] = '\0';
        return inet_pton(AF_INET6, text + 1, number) == 1;
    }
    return strcmp(text, "localhost") == 0 || inet_pton(AF_INET, text, number) == 1;
}

bool transport_config_check(const struct transport_config *config, char *error)
{
    const struct transport_tls *tls = &config->tls;
    const char *wrong = transport_address_error(config->listen);
    bool any = tls->ca != NULL || tls->cert != NULL || tls->key != NULL;
    bool all = tls->ca != NULL && tls->cert != NULL && tls->key != NULL;

    if (wrong != NULL) {
        snprintf(error, TRANSPORT_ERROR_MAX, "%.*s: %s", TRANSPORT_ADDRESS_SIZE, config->listen,
                 wrong);
        return false;
    }
    if (any && !all) {
        snprintf(error, TRANSPORT_ERROR_MAX, "TLS: expected all of ca, cert and key");
        return false;
    }
    if (!any && transport_is_tls(config->listen)) {
        snprintf(error, TRANSPORT_ERROR_MAX, "%s: expected ca, cert and key for TLS",
                 config->listen);
        return false;
    }
    return true;
}

void transport_own_address(const char *listen, char *out)
{
    const char *host = host_of(listen);
    const char *colon = strrchr(listen, ':');
    int scheme = (int)(host - listen);

    if (strncmp(host, "0.0.0.0:", 8) == 0) {
        snprintf(out, TRANSPORT_ADDRESS_SIZE, "%.*s127.0.0.1%s", scheme, listen, colon);
    } else if (strncmp(host, "[::]:", 5) == 0) {
        snprintf(out, TRANSPORT_ADDRESS_SIZE, "%.*s[::1]%s", scheme, listen, colon);
    } else {
        snprintf(out, TRANSPORT_ADDRESS_SIZE, "%s", listen);
    }
}

void transport_remote_text(const nng_sockaddr *address, char *out)
{
    char host[INET6_ADDRSTRLEN] = "?";

    if (address->s_family == NNG_AF_INET) {
        inet_ntop(AF_INET, &address->s_in.sa_addr, host, sizeof host);
        snprintf(out, TRANSPORT_REMOTE_MAX, "%s:%u", host, ntohs(address->s_in.sa_port));
    } else if (address->s_family == NNG_AF_INET6) {
        inet_ntop(AF_INET6, address->s_in6.sa_addr, host, sizeof host);
        snprintf(out, TRANSPORT_REMOTE_MAX, "[%s]:%u", host, ntohs(address->s_in6.sa_port));
    } else {
        snprintf(out, TRANSPORT_REMOTE_MAX, "?");
    }
}
