/*
 * The agent's configuration: see config.h.
 *
 * inih calls take() for each key. The table keys lists most keys, and the function that reads each.
 * Functions beside the table read [voters], [namespace.NAME], and the lists of users, groups and
 * admins. inih cuts long lines and names, so read_line() checks the length of each line. inih
 * merges sections that occur twice, so was_seen() keeps a hash of each key to find a second one.
 */
#include "config/config.h"

#include <errno.h>
#include <ini.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "config/values.h"
#include "io/http.h"
#include "io/transport.h"
#include "proto/wire.h"

enum { SEEN_MAX = 1024, QUOTED_MAX = 80 };

static const int64_t millisecond_ns = 1000000;

/* State while the file is read. */
struct config_reading {
    struct config *config;
    const char *path;
    bool rejoins; /* see config_read() */
    FILE *file;
    int line;
    char *error; /* the first error; empty if there is none yet */
    int lacks;   /* errno of a failure of the system (no memory), not of the file; 0: none */
    uint32_t seen_count;
    uint64_t seen[SEEN_MAX]; /* hashes of section and key */
    /* The line numbers of these keys; 0: the file does not have the key. */
    int voters_line;
    int voter_lines[MESSAGE_VOTERS_MAX]; /* in the file's order; config->voters has the same order
                                          * until config_finish_voters() sorts it */
    int listen_line;
    int advertise_line;
    int tls_line;
    int http_line;
    int holders_line; /* the line of `holders`, or that of `clients` if it comes later */
};

/* ---- errors ---- */

/* Returns the value for an error message: in quotes, cut, and without control characters. */
static const char *quoted(const char *value, char out[QUOTED_MAX + 8])
{
    size_t length = 0;
    out[length++] = '"';
    for (; *value != '\0' && length < QUOTED_MAX; value++) {
        unsigned char byte = (unsigned char)*value;
        out[length++] = byte < 0x20 || byte == 0x7f ? '?' : (char)byte;
    }
    memcpy(out + length, *value != '\0' ? "...\"" : "\"", *value != '\0' ? 5 : 2);
    return out;
}

__attribute__((format(printf, 2, 3))) static bool wrong(struct config_reading *reading,
                                                        const char *format, ...)
{
    if (reading->error[0] == '\0') {
        int used = reading->line > 0
                       ? snprintf(reading->error, CONFIG_ERROR_MAX, "%s:%d: ", reading->path,
                                  reading->line)
                       : snprintf(reading->error, CONFIG_ERROR_MAX, "%s: ", reading->path);
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(reading->error + used, CONFIG_ERROR_MAX - (size_t)used, format, arguments);
        va_end(arguments);
        for (char *at = reading->error; *at != '\0'; at++) { /* the error is shown on a terminal */
            *at = (unsigned char)*at < 0x20 || *at == 0x7f ? '?' : *at;
        }
    }
    return false;
}

static bool bad_value(struct config_reading *reading, const char *section, const char *key,
                      const char *value, const char *expected)
{
    char found[QUOTED_MAX + 8];
    return wrong(reading, "[%s] %s: found %s, expected %s", section, key, quoted(value, found),
                 expected);
}

/* ---- the keys ---- */

struct key {
    const char *section;
    const char *name;
    bool (*read)(const char *value, void *out);
    size_t offset; /* offset in struct config of the field that read() fills in */
    const char *expected;
};

static const char label_expected[] = "1 to 32 of a-z 0-9 _ -";
static const char path_expected[] = "a path that begins with /";
static const char reachable_expected[] = "an address that the other agents can connect to";
static const char number_expected[] = "an IP address as HOST: names are looked up for voters only";
static const char http_expected[] = "http://HOST:PORT, with an IP address as HOST";
static const char address_expected[] = "tcp://HOST:PORT or tls+tcp://HOST:PORT";

#define FIELD(field) offsetof(struct config, field)

static const struct key keys[] = {
    {"agent", "name", value_label, FIELD(agent), label_expected},
    {"agent", "cell", value_label, FIELD(cell), label_expected},
    {"agent", "role", value_role, FIELD(observer), "voter or observer"},
    {"agent", "state_dir", value_path, FIELD(state_dir), path_expected},
    {"agent", "socket", value_socket, FIELD(socket),
     "a path that begins with /, of at most 102 bytes"},
    {"agent", "seccomp", value_yes, FIELD(seccomp), "yes or no"},
    {"agent", "log_level", value_log_level, FIELD(log_debug), "info or debug"},
    {"agent", "profile", value_profile, FIELD(profile), "standard or small"},
    {"cell", "listen", value_address, FIELD(listen), address_expected},
    {"cell", "insecure", value_yes, FIELD(insecure), "yes or no"},
    {"cell", "advertise", value_address, FIELD(advertise), address_expected},
    {"cell", "session_ttl", value_ttl, FIELD(session_ttl_ns),
     "a duration of 300ms to 1h (ms, s, m or h)"},
    {"cell", "grace_period", value_grace, FIELD(grace_ns),
     "a duration of 0s to 1h (ms, s, m or h)"},
    {"cell", "max_drift", value_percent, FIELD(max_drift_percent), "a percentage of 0% to 50%"},
    {"cell", "protocol", value_protocol, FIELD(protocol), "3, 4 or 5"},
    {"tls", "ca", value_path, FIELD(tls_ca), path_expected},
    {"tls", "cert", value_path, FIELD(tls_cert), path_expected},
    {"tls", "key", value_path, FIELD(tls_key), path_expected},
    {"http", "listen", value_http, FIELD(http_listen), http_expected},
    {"http", "public", value_yes, FIELD(http_public), "yes or no"},
    {"http", "show", value_show, FIELD(http_show), "figures, locks or holders"},
    {"http", "advertise", value_page, FIELD(http_advertise),
     "http:// or https://, HOST or HOST:PORT (1 to 65535), and a path, without a query"},
    {"limits", "locks", value_locks, FIELD(limits.locks), "a number of 1 to 4194304"},
    {"limits", "clients", value_clients, FIELD(limits.clients), "a number of 1 to 16383"},
    {"limits", "handles", value_handles, FIELD(limits.handles), "a number of 1 to 16777216"},
    {"limits", "blocks", value_blocks, FIELD(limits.blocks), "a number of 1 to 1048576"},
    {"limits", "watches", value_watches, FIELD(limits.watches), "a number of 1 to 1048576"},
    {"limits", "holders", value_holders, FIELD(limits.holders), "a number of 1 to 65534"},
    {"limits", "subuids", value_path, FIELD(subuids), path_expected},
};

enum { KEY_COUNT = sizeof(keys) / sizeof(keys[0]) };

/* Returns the CMake option that the section needs, if this agent was built without that option.
 * Returns NULL if this agent has everything that the section needs. */
static const char *lacking_option(const char *section)
{
#ifndef HF_HAVE_TLS
    if (strcmp(section, "tls") == 0) {
        return "HOLDFAST_TLS";
    }
#endif
#ifndef HF_HAVE_HTTP
    if (strcmp(section, "http") == 0) {
        return "HOLDFAST_HTTP";
    }
#endif
    (void)section;
    return NULL;
}

const char *config_built_without(void)
{
    bool tls = lacking_option("tls") == NULL;
    bool http = lacking_option("http") == NULL;
    return tls && http ? "" : tls ? "HTTP" : http ? "TLS" : "TLS, HTTP";
}

static bool take_key(struct config_reading *reading, const struct key *key, const char *value)
{
    const char *option = lacking_option(key->section);
    if (option != NULL) {
        return wrong(reading,
                     "[%s] %s: found it, expected no [%s]: this agent was built with -D%s=OFF",
                     key->section, key->name, key->section, option);
    }
    if (!key->read(value, (char *)reading->config + key->offset)) {
        return bad_value(reading, key->section, key->name, value, key->expected);
    }
    if (strcmp(key->section, "tls") == 0) {
        reading->tls_line = reading->line;
    } else if (key->offset == FIELD(advertise)) {
        reading->advertise_line = reading->line;
    } else if (strcmp(key->section, "http") == 0) {
        bool listen = key->offset == FIELD(http_listen);
        reading->http_line = listen || reading->http_line == 0 ? reading->line : reading->http_line;
    } else if (key->offset == FIELD(listen)) {
        reading->listen_line = reading->line;
    } else if (key->offset == FIELD(limits.holders) || key->offset == FIELD(limits.clients)) {
        reading->holders_line = reading->line;
    }
    return true;
}

/* ---- users and groups ---- */

/* Returns the number of names in this list, which may stand in several lines of the file. */
static uint32_t list_length(const struct config *config, uint32_t space, enum config_list list)
{
    uint32_t length = 0;
    for (uint32_t i = 0; i < config->account_count; i++) {
        length += config->accounts[i].space == space && config->accounts[i].list == list;
    }
    return length;
}

/* Returns false if there is no memory. */
static bool add_account(struct config *config, uint32_t space, enum config_list list,
                        const char *name)
{
    size_t size = (config->account_count + 1) * sizeof(*config->accounts);
    struct config_account *more = realloc(config->accounts, size);
    config->accounts = more != NULL ? more : config->accounts;
    char *copy = more != NULL ? strdup(name) : NULL;
    if (copy == NULL) {
        return false;
    }
    config->accounts[config->account_count++] = (struct config_account){
        .name = copy, .space = space, .list = list};
    return true;
}

static enum config_list list_of(const char *key)
{
    return strcmp(key, "users") == 0    ? CONFIG_USERS
           : strcmp(key, "groups") == 0 ? CONFIG_GROUPS
                                        : CONFIG_ADMINS;
}

static struct config_access *access_of(struct config *config, uint32_t space)
{
    return space == CONFIG_EVERYWHERE ? &config->everywhere : &config->namespaces[space].access;
}

static bool take_access(struct config_reading *reading, uint32_t space, const char *section,
                        const char *key, const char *value)
{
    struct config *config = reading->config;
    enum config_list names = list_of(key);
    char list[512];
    char *rest = list;
    char *word;
    if (strlen(value) >= sizeof(list)) {
        return bad_value(reading, section, key, value, "a shorter list");
    }
    memcpy(list, value, strlen(value) + 1);
    while ((word = strsep(&rest, ",")) != NULL) {
        word += strspn(word, " \t");
        size_t length = strcspn(word, " \t");
        if (length == 0 || word[length + strspn(word + length, " \t")] != '\0') {
            return bad_value(reading, section, key, value, "names separated by commas");
        }
        word[length] = '\0';
        if (names == CONFIG_ADMINS && strcmp(word, "@") == 0) {
            return bad_value(reading, section, key, word, "users, groups or @groups");
        }
        if (list_length(config, space, names) == CONFIG_IDS_MAX) {
            return bad_value(reading, section, key, word, "at most 64 of them: use a group");
        }
        if (!add_account(config, space, names, word)) {
            reading->lacks = ENOMEM;
            return wrong(reading, "%s", strerror(ENOMEM));
        }
    }
    if (names != CONFIG_ADMINS) {
        access_of(config, space)->limited = true;
    }
    return true;
}

/* ---- sections ---- */

static bool is_access_key(const char *key)
{
    return strcmp(key, "users") == 0 || strcmp(key, "groups") == 0 || strcmp(key, "admins") == 0;
}

static struct config_namespace *find_namespace(struct config_reading *reading, const char *name)
{
    struct config *config = reading->config;
    for (uint32_t i = 0; i < config->namespace_count; i++) {
        if (strcmp(config->namespaces[i].name, name) == 0) {
            return &config->namespaces[i];
        }
    }
    if (config->namespace_count == HOST_NAMESPACES_MAX) {
        wrong(reading, "[namespace.%s]: found one more, expected at most %d namespaces", name,
              HOST_NAMESPACES_MAX);
        return NULL;
    }
    struct config_namespace *space = &config->namespaces[config->namespace_count++];
    snprintf(space->name, sizeof(space->name), "%s", name);
    return space;
}

static bool take_namespace(struct config_reading *reading, const char *section, const char *key,
                           const char *value)
{
    if (!is_access_key(key)) {
        return wrong(reading, "[%s] %s: found an unknown key, expected users, groups or admins",
                     section, key);
    }
    struct config_namespace *space = find_namespace(reading, section + strlen("namespace."));
    return space != NULL && take_access(reading, (uint32_t)(space - reading->config->namespaces),
                                        section, key, value);
}

static bool take_voter(struct config_reading *reading, const char *name, const char *value)
{
    struct config *config = reading->config;
    if (!hfi_label_check(name, strlen(name))) {
        return wrong(reading, "[voters] %s: found no agent name, expected %s", name,
                     label_expected);
    }
    if (config->voter_count == MESSAGE_VOTERS_MAX) {
        return wrong(reading, "[voters] %s: found one more, expected 1, 3, 5 or 7 voters", name);
    }
    struct config_voter *voter = &config->voters[config->voter_count];
    if (!value_address(value, voter->address)) {
        return bad_value(reading, "voters", name, value, address_expected);
    }
    if (config_is_anywhere(voter->address)) {
        return bad_value(reading, "voters", name, value, reachable_expected);
    }
    for (uint32_t i = 0; i < config->voter_count; i++) {
        if (config_is_same(config->voters[i].address, voter->address)) {
            return wrong(reading, "[voters] %s: found the address of %s, expected another", name,
                         config->voters[i].name);
        }
    }
    snprintf(voter->name, sizeof(voter->name), "%s", name);
    reading->voters_line = reading->voters_line == 0 ? reading->line : reading->voters_line;
    reading->voter_lines[config->voter_count++] = reading->line;
    return true;
}

/* Writes the section's keys as "key, key, key"; an empty text if the section is unknown. */
static void list_keys(const char *section, char *out, size_t size)
{
    size_t used = 0;
    out[0] = '\0';
    for (size_t i = 0; i < KEY_COUNT; i++) {
        if (strcmp(keys[i].section, section) == 0) {
            int wrote = snprintf(out + used, size - used, "%s%s", used > 0 ? ", " : "",
                                 keys[i].name);
            used += (size_t)wrote;
        }
    }
    if (strcmp(section, "agent") == 0) {
        snprintf(out + used, size - used, ", users, groups, admins");
    }
}

static bool unknown(struct config_reading *reading, const char *section, const char *key)
{
    char known[256];
    list_keys(section, known, sizeof(known));
    if (known[0] != '\0') {
        return wrong(reading, "[%s] %s: found an unknown key, expected one of: %s", section, key,
                     known);
    }
    if (section[0] == '\0') {
        return wrong(reading, "%s: found a key before any section, expected [agent] first", key);
    }
    return wrong(reading,
                 "[%s]: found an unknown section, expected agent, cell, voters, tls, http, limits "
                 "or namespace.NAME",
                 section);
}

static bool was_seen(struct config_reading *reading, const char *section, const char *key)
{
    /* Section and key are hashed separately, because no buffer is certain to have room for both. */
    uint64_t hash = hfi_name_hash(section, strlen(section)) * UINT64_C(0x100000001b3) ^
                    hfi_name_hash(key, strlen(key));
    for (uint32_t i = 0; i < reading->seen_count; i++) {
        if (reading->seen[i] == hash) {
            return true;
        }
    }
    if (reading->seen_count < SEEN_MAX) {
        reading->seen[reading->seen_count++] = hash;
    }
    return false;
}

/* inih's handler for one key. Returns 0 if the key or its value is wrong. */
static int take(void *arg, const char *section, const char *key, const char *value)
{
    struct config_reading *reading = arg;
    if (reading->error[0] != '\0') {
        return 1; /* only the first error is reported */
    }
    if (was_seen(reading, section, key)) {
        return wrong(reading,
                     "[%s] %s: found it twice (or a line that begins with a space), expected once",
                     section, key);
    }
    if (strncmp(section, "namespace.", strlen("namespace.")) == 0) {
        return take_namespace(reading, section, key, value);
    }
    if (strcmp(section, "voters") == 0) {
        return take_voter(reading, key, value);
    }
    if (strcmp(section, "agent") == 0 && is_access_key(key)) {
        return take_access(reading, CONFIG_EVERYWHERE, section, key, value);
    }
    for (size_t i = 0; i < KEY_COUNT; i++) {
        if (strcmp(keys[i].section, section) == 0 && strcmp(keys[i].name, key) == 0) {
            return take_key(reading, &keys[i], value);
        }
    }
    return unknown(reading, section, key);
}

static bool is_known_section(const char *section)
{
    char known[256];
    list_keys(section, known, sizeof(known));
    return known[0] != '\0' || strcmp(section, "voters") == 0;
}

/* Checks the section's name where its line is read, because inih does not report a section that has
 * no keys. */
static void take_section(struct config_reading *reading, const char *line)
{
    char section[64];
    size_t length = strcspn(line + 1, "]");
    if (line[1 + length] != ']' || reading->error[0] != '\0') {
        return; /* inih reports an incomplete section line */
    }
    snprintf(section, sizeof(section), "%.*s", (int)length, line + 1);
    if (strncmp(section, "namespace.", strlen("namespace.")) == 0) {
        const char *name = section + strlen("namespace.");
        if (!hfi_label_check(name, strlen(name))) {
            char found[QUOTED_MAX + 8];
            wrong(reading, "[%s]: found namespace %s, expected %s", section, quoted(name, found),
                  label_expected);
        } else {
            (void)find_namespace(reading, name);
        }
    } else if (!is_known_section(section)) {
        unknown(reading, section, "");
    }
}

/* inih's reader: fgets() that counts lines, refuses lines that would be cut, and checks the names
 * of sections. */
static char *read_line(char *line, int size, void *stream)
{
    struct config_reading *reading = stream;
    if (fgets(line, size, reading->file) == NULL) {
        return NULL;
    }
    reading->line++;
    size_t length = strlen(line);
    if (length + 1 == (size_t)size && line[length - 1] != '\n') {
        wrong(reading, "found a line of more than %d bytes, expected a shorter one", size - 2);
        return NULL;
    }
    if (line[0] == '[') {
        take_section(reading, line);
    }
    return line;
}

/* ---- checks of the whole file ---- */

void config_defaults(struct config *config)
{
    memset(config, 0, sizeof(*config));
    snprintf(config->state_dir, sizeof(config->state_dir), "%s", "/var/lib/holdfast");
    snprintf(config->socket, sizeof(config->socket), "%s", "/run/holdfast/agent.sock");
    snprintf(config->subuids, sizeof(config->subuids), "%s", "/etc/subuid");
    config->session_ttl_ns = 5000 * millisecond_ns;
    config->grace_ns = -1; /* becomes session_ttl_ns in check_whole() */
    config->max_drift_percent = 10;
    config->seccomp = true;
    config->protocol = WIRE_VERSION;
    config->profile = &profile_standard;
    config->namespace_count = 1;
    snprintf(config->namespaces[0].name, sizeof(config->namespaces[0].name), "%s", "default");
}

void config_finish_limits(struct config *config)
{
    const struct host_limits *chosen = &config->profile->host;
    struct host_limits *limits = &config->limits;
    limits->locks = limits->locks != 0 ? limits->locks : chosen->locks;
    limits->clients = limits->clients != 0 ? limits->clients : chosen->clients;
    limits->handles = limits->handles != 0 ? limits->handles : chosen->handles;
    limits->blocks = limits->blocks != 0 ? limits->blocks : chosen->blocks;
    limits->watches = limits->watches != 0 ? limits->watches : chosen->watches;
    limits->holders = limits->holders != 0 ? limits->holders : chosen->holders;
}

/* Returns the index of the voter of that name; voter_count if there is none. */
static uint32_t find_voter(const struct config *config, const char *name)
{
    uint32_t voter = 0;
    while (voter < config->voter_count && strcmp(config->voters[voter].name, name) != 0) {
        voter++;
    }
    return voter;
}

/* Returns whether the agent has a store. In a cell that has begun, the store says who votes, and
 * [voters] may list the voters before or after a change. */
static bool has_store(const struct config *config)
{
    char path[PATH_MAX + 16];
    snprintf(path, sizeof(path), "%s/holdfast.db", config->state_dir);
    return access(path, F_OK) == 0;
}

const char *config_voters_error(const struct config *config, bool rejoins)
{
    bool listed = find_voter(config, config->agent) < config->voter_count;
    bool even = config->voter_count % 2 == 0;
    return config->observer && listed ? "found this agent, whose role is observer"
           : config->observer         ? NULL
           : even && !rejoins         ? "expected 1, 3, 5 or 7 of them to begin a cell with"
           : listed                   ? NULL
                                      : "found no line for this agent, whose role is voter";
}

const char *config_voters_warning(const struct config *config)
{
    return has_store(config) ? config_voters_error(config, false) : NULL;
}

static bool check_voters(struct config_reading *reading)
{
    const struct config *config = reading->config;
    bool listed = find_voter(config, config->agent) < config->voter_count;
    reading->line = reading->voters_line > 0 ? reading->voters_line : reading->line;
    if (config->voter_count == 0) {
        return !config->observer ||
               wrong(reading, "[agent] role: found observer without [voters], expected the cell's "
                              "voters there");
    }
    if (has_store(config)) {
        return true;
    }
    if (!config->observer && config->voter_count % 2 == 0 && !reading->rejoins) {
        return wrong(reading, "[voters]: found %u of them, expected 1, 3, 5 or 7",
                     config->voter_count);
    }
    if (config->observer && listed) {
        return wrong(reading, "[voters]: found %s, whose role is observer, expected voters only",
                     config->agent);
    }
    return config->observer || listed ||
           wrong(reading, "[voters]: found no %s, expected the name of [agent], or role = observer",
                 config->agent);
}

/* Fills in listen and advertise as far as the file does not have them, and checks them. A voter
 * uses its address in [voters] for both. Any other agent must have a listen in the file, and uses
 * it as its advertise. */
static bool check_addresses(struct config_reading *reading)
{
    struct config *config = reading->config;
    uint32_t self = find_voter(config, config->agent);
    bool voter = self < config->voter_count;
    bool other = !voter && config->voter_count > 0; /* an observer, or a voter that was removed */
    if (voter && config->listen[0] == '\0' && config->voter_count > 1) {
        memcpy(config->listen, config->voters[self].address, sizeof(config->listen));
    }
    if (other && config->listen[0] == '\0') {
        return wrong(reading, "[cell] listen: found none, expected %s: the voters answer there",
                     address_expected);
    }
    if (config->advertise[0] == '\0') {
        memcpy(config->advertise, voter ? config->voters[self].address : config->listen,
               sizeof(config->advertise));
        reading->line = reading->listen_line;
    } else {
        reading->line = reading->advertise_line;
    }
    if (config->listen[0] == '\0') {
        return config->advertise[0] == '\0' || voter ||
               wrong(reading, "[cell] advertise: found it without listen, expected both");
    }
    if (config_is_anywhere(config->advertise)) {
        return bad_value(reading, "cell", "advertise", config->advertise, reachable_expected);
    }
    if (other && !transport_address_is_number(config->advertise)) {
        return bad_value(reading, "cell", "advertise", config->advertise, number_expected);
    }
    return !voter || strcmp(config->advertise, config->voters[self].address) == 0 ||
           wrong(reading, "[cell] advertise: found \"%s\", expected \"%s\" as in [voters]",
                 config->advertise, config->voters[self].address);
}

static bool check_tls(struct config_reading *reading)
{
    const struct config *config = reading->config;
    bool given = reading->tls_line != 0;
    reading->line = reading->tls_line;
    if (given &&
        (config->tls_ca[0] == '\0' || config->tls_cert[0] == '\0' || config->tls_key[0] == '\0')) {
        return wrong(reading, "[tls]: found no %s, expected ca, cert and key",
                     config->tls_ca[0] == '\0'     ? "ca"
                     : config->tls_cert[0] == '\0' ? "cert"
                                                   : "key");
    }
    const char *expected = given ? "tls+tcp:// everywhere, as there is a [tls]"
                           : lacking_option("tls") != NULL
                               ? "tcp://: this agent was built with -DHOLDFAST_TLS=OFF"
                               : "[tls] with ca, cert and key for tls+tcp://";
    reading->line = reading->listen_line > 0 ? reading->listen_line : reading->voters_line;
    if (config->listen[0] != '\0' && config_is_tls(config->listen) != given) {
        return bad_value(reading, "cell", "listen", config->listen, expected);
    }
    if (config->listen[0] != '\0' && config_is_tls(config->advertise) != given) {
        return bad_value(reading, "cell", "advertise", config->advertise, expected);
    }
    for (uint32_t i = 0; i < config->voter_count && config->listen[0] != '\0'; i++) {
        reading->line = reading->voter_lines[i];
        if (config_is_tls(config->voters[i].address) != given) {
            return bad_value(reading, "voters", config->voters[i].name, config->voters[i].address,
                             expected);
        }
    }
    return true;
}

/* Without TLS the agent believes any process that reaches its port, so the file must explicitly
 * allow an address beyond the loopback without TLS. */
static bool check_exposed(struct config_reading *reading)
{
    const struct config *config = reading->config;
    reading->line = reading->listen_line > 0 ? reading->listen_line : reading->voters_line;
    return config->listen[0] == '\0' || config_is_tls(config->listen) || config->insecure ||
           config_is_local(config->listen) ||
           bad_value(
               reading, "cell", "listen", config->listen,
               "tls+tcp:// with [tls], or an address of the loopback (127.0.0.1, [::1]), or "
               "insecure = yes in [cell]: without TLS the agent believes everybody that reaches "
               "it");
}

/* HTTP answers everybody that can connect, so an address beyond the loopback needs public = yes. */
static bool check_http(struct config_reading *reading)
{
    const struct config *config = reading->config;
    struct http_address address;
    reading->line = reading->http_line > 0 ? reading->http_line : reading->line;
    if (config->http_listen[0] == '\0') {
        const char *alone = config->http_public                 ? "public"
                            : config->http_show                 ? "show"
                            : config->http_advertise[0] != '\0' ? "advertise"
                                                                : NULL;
        return alone == NULL ||
               wrong(reading, "[http] %s: found it without listen, expected both", alone);
    }
    return (http_address_read(config->http_listen, &address) && address.loopback) ||
           config->http_public ||
           bad_value(reading, "http", "listen", config->http_listen,
                     "an address of loopback (127.0.0.1, [::1]), or public = yes beside it: "
                     "the agent answers everybody that can connect there");
}

/* Each client needs a holder id of its own. */
static bool check_limits(struct config_reading *reading)
{
    const struct host_limits *limits = &reading->config->limits;
    reading->line = reading->holders_line > 0 ? reading->holders_line : reading->line;
    return limits->holders >= limits->clients ||
           wrong(reading, "[limits] holders: found %u, expected at least %u, as many as `clients`",
                 limits->holders, limits->clients);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct config_voter *)a)->name, ((const struct config_voter *)b)->name);
}

/* Sorts the voters, because all agents of a cell must have them in the same order. */
void config_finish_voters(struct config *config)
{
    if (config->voter_count == 0) {
        config->voter_count = 1;
        memcpy(config->voters[0].name, config->agent, sizeof(config->voters[0].name));
        memcpy(config->voters[0].address, config->advertise, sizeof(config->voters[0].address));
    }
    qsort(config->voters, config->voter_count, sizeof(config->voters[0]), by_name);
}

/* Makes the checks that need the whole file, and sets the defaults that depend on other keys. */
static bool check_whole(struct config_reading *reading)
{
    struct config *config = reading->config;
    if (config->agent[0] == '\0' || config->cell[0] == '\0') {
        reading->line = 0; /* a missing key has no line */
        return wrong(reading, "[agent] %s: found none, expected %s",
                     config->agent[0] == '\0' ? "name" : "cell", label_expected);
    }
    if (!check_voters(reading) || !check_addresses(reading) || !check_tls(reading) ||
        !check_exposed(reading) || !check_http(reading)) {
        return false;
    }
    config_finish_limits(config);
    if (!check_limits(reading)) {
        return false;
    }
    if (config->grace_ns < 0) {
        config->grace_ns = config->session_ttl_ns;
    }
    config_finish_voters(config);
    return true;
}

/* Returns whether this errno of opening or reading the file means that a person has to mend
 * something. */
static bool is_for_editor(int error)
{
    return error == ENOENT || error == EACCES || error == EPERM || error == EISDIR ||
           error == ENOTDIR || error == ELOOP || error == ENAMETOOLONG;
}

static enum config_result unreadable(const char *path, int why, char *error)
{
    static const char hint[] =
        ". Write it: `holdfast setup` asks and does; or by hand: [agent], name = NAME and cell = "
        "CELL, each on a line of its own, are enough for one host; holdfastd.ini(5) has every key";
    snprintf(error, CONFIG_ERROR_MAX, "%s: %s%s", path, strerror(why), why == ENOENT ? hint : "");
    return is_for_editor(why) ? CONFIG_WRONG : CONFIG_UNREADABLE;
}

static enum config_result read_all(struct config_reading *reading)
{
    int bad_line = ini_parse_stream(read_line, reading, take, reading);
    if (ferror(reading->file)) {
        return unreadable(reading->path, errno, reading->error);
    }
    if (bad_line != 0 && reading->error[0] == '\0') {
        reading->line = bad_line > 0 ? bad_line : reading->line;
        wrong(reading, "found neither, expected [section] or key = value");
    }
    if (reading->error[0] == '\0' && check_whole(reading)) {
        return CONFIG_OK;
    }
    return reading->lacks != 0 ? CONFIG_UNREADABLE : CONFIG_WRONG;
}

enum config_result config_read(struct config *config, const char *path, bool rejoins, char *error)
{
    struct config_reading *reading = calloc(1, sizeof(*reading));
    enum config_result result;
    error[0] = '\0';
    config_defaults(config);
    if (reading == NULL) {
        return unreadable(path, ENOMEM, error);
    }
    *reading = (struct config_reading){
        .config = config, .path = path, .rejoins = rejoins, .error = error};
    reading->file = fopen(path, "re");
    if (reading->file == NULL) {
        result = unreadable(path, errno, error);
    } else {
        result = read_all(reading);
        fclose(reading->file);
    }
    free(reading);
    if (result != CONFIG_OK) {
        config_free(config);
    }
    return result;
}

void config_free(struct config *config)
{
    for (uint32_t i = 0; i < config->account_count; i++) {
        free(config->accounts[i].name);
    }
    free(config->accounts);
    config->accounts = NULL;
    config->account_count = 0;
}
