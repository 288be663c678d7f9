/* The values of keys: see values.h. */
#include "config/values.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "config/config.h"
#include "io/http.h"
#include "proto/wire.h"

static const int64_t millisecond_ns = 1000000;

bool value_label(const char *value, void *out)
{
    if (!hfi_label_check(value, strlen(value))) {
        return false;
    }
    snprintf(out, HFI_LABEL_MAX + 1, "%s", value);
    return true;
}

/* Reads a decimal integer at the start of text. Sets *end to the first character behind it. */
static bool read_integer(const char *text, uint64_t limit, uint64_t *out, const char **end)
{
    uint64_t value = 0;
    const char *at = text;
    for (; *at >= '0' && *at <= '9'; at++) {
        value = value * 10 + (uint64_t)(*at - '0');
        if (value > limit) {
            return false;
        }
    }
    *out = value;
    *end = at;
    return at != text;
}

static bool read_duration(const char *value, int64_t *out)
{
    static const struct {
        const char *unit;
        int64_t size_ms;
    } units[] = {{"ms", 1}, {"s", 1000}, {"m", 60000}, {"h", 3600000}};
    uint64_t count;
    const char *unit;
    if (!read_integer(value, 1000000000, &count, &unit)) {
        return false;
    }
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        if (strcmp(unit, units[i].unit) == 0) {
            *out = (int64_t)count * units[i].size_ms * millisecond_ns;
            return true;
        }
    }
    return false;
}

bool value_ttl(const char *value, void *out)
{
    int64_t duration_ns;
    if (!read_duration(value, &duration_ns) || duration_ns < 300 * millisecond_ns ||
        duration_ns > 3600000 * millisecond_ns) {
        return false;
    }
    *(int64_t *)out = duration_ns;
    return true;
}

bool value_grace(const char *value, void *out)
{
    int64_t duration_ns;
    if (!read_duration(value, &duration_ns) || duration_ns > 3600000 * millisecond_ns) {
        return false;
    }
    *(int64_t *)out = duration_ns;
    return true;
}

bool value_percent(const char *value, void *out)
{
    uint64_t percent;
    const char *end;
    if (!read_integer(value, 50, &percent, &end) || strcmp(end, "%") != 0) {
        return false;
    }
    *(uint32_t *)out = (uint32_t)percent;
    return true;
}

bool value_protocol(const char *value, void *out)
{
    uint64_t version;
    const char *end;
    if (!read_integer(value, WIRE_VERSION, &version, &end) || *end != '\0' ||
        version < WIRE_VERSION_OLDEST) {
        return false;
    }
    *(uint32_t *)out = (uint32_t)version;
    return true;
}

static bool read_count(const char *value, uint64_t limit, void *out)
{
    uint64_t count;
    const char *end;
    if (!read_integer(value, limit, &count, &end) || *end != '\0' || count == 0) {
        return false;
    }
    *(uint32_t *)out = (uint32_t)count;
    return true;
}

bool value_locks(const char *value, void *out)
{
    return read_count(value, 1 << 22, out);
}

bool value_clients(const char *value, void *out)
{
    return read_count(value, 16383, out);
}

bool value_handles(const char *value, void *out)
{
    return read_count(value, 1 << 24, out);
}

bool value_blocks(const char *value, void *out)
{
    return read_count(value, 1 << 20, out);
}

bool value_watches(const char *value, void *out)
{
    return read_count(value, 1 << 20, out);
}

bool value_holders(const char *value, void *out)
{
    return read_count(value, HOST_HOLDERS_MAX, out);
}

bool value_profile(const char *value, void *out)
{
    const struct profile *profile = profile_find(value);
    *(const struct profile **)out = profile;
    return profile != NULL;
}

bool value_path(const char *value, void *out)
{
    if (value[0] != '/' || strlen(value) >= PATH_MAX - 64) {
        return false;
    }
    snprintf(out, PATH_MAX, "%s", value);
    return true;
}

bool value_socket(const char *value, void *out)
{
    if (value[0] != '/' || strlen(value) >= CONFIG_SOCKET_MAX - 5) { /* room for ".lock" */
        return false;
    }
    snprintf(out, CONFIG_SOCKET_MAX, "%s", value);
    return true;
}

/* Checks the form SCHEME://HOST:PORT. HOST is not looked up here. */
static bool is_address(const char *value, const char *const *schemes)
{
    for (; *schemes != NULL; schemes++) {
        size_t length = strlen(*schemes);
        if (strncmp(value, *schemes, length) != 0) {
            continue;
        }
        const char *host = value + length;
        const char *colon = strrchr(host, ':');
        uint64_t port;
        const char *end;
        return strlen(value) < MESSAGE_ADDRESS_MAX && colon != NULL && colon != host &&
               strpbrk(host, "/ \t") == NULL && read_integer(colon + 1, 65535, &port, &end) &&
               *end == '\0' && port > 0;
    }
    return false;
}

bool value_address(const char *value, void *out)
{
    static const char *const schemes[] = {"tcp://", "tls+tcp://", NULL};
    if (!is_address(value, schemes)) {
        return false;
    }
    snprintf(out, MESSAGE_ADDRESS_MAX, "%s", value);
    return true;
}

bool value_http(const char *value, void *out)
{
    struct http_address address;
    snprintf(out, MESSAGE_ADDRESS_MAX, "%s", value);
    return strlen(value) < MESSAGE_ADDRESS_MAX && http_address_read(value, &address);
}

bool value_page(const char *value, void *out)
{
    snprintf(out, MESSAGE_ADDRESS_MAX, "%s", value);
    return config_is_page(value);
}

bool value_show(const char *value, void *out)
{
    static const char *const words[] = {"figures", "locks", "holders"};
    for (unsigned i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (strcmp(value, words[i]) == 0) {
            *(enum config_show *)out = (enum config_show)i;
            return true;
        }
    }
    return false;
}

bool value_yes(const char *value, void *out)
{
    *(bool *)out = strcmp(value, "yes") == 0;
    return strcmp(value, "yes") == 0 || strcmp(value, "no") == 0;
}

bool value_log_level(const char *value, void *out)
{
    *(bool *)out = strcmp(value, "debug") == 0;
    return strcmp(value, "debug") == 0 || strcmp(value, "info") == 0;
}

bool value_role(const char *value, void *out)
{
    *(bool *)out = strcmp(value, "observer") == 0;
    return strcmp(value, "voter") == 0 || strcmp(value, "observer") == 0;
}
