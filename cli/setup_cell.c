/*
 * The cell that `holdfast setup` writes configurations for: see setup_cell.h.
 */
#include "setup_cell.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

static const char scheme[] = "tls+tcp://";
static const char default_port[] = "7411"; /* the port of the examples in docs/ */

int setup_label(const char *option, const char *value, char out[SETUP_LABEL_SIZE])
{
    size_t size = strlen(value);

    if (size == 0 || size >= SETUP_LABEL_SIZE ||
        strspn(value, "abcdefghijklmnopqrstuvwxyz0123456789_-") != size) {
        return cli_usage_error(
            "setup", "%s: found the name \"%s\", expected 1 to 32 of a-z 0-9 _ -", option, value);
    }
    memcpy(out, value, size + 1);
    return 0;
}

int setup_value(const char *option, const char *value, char *out, size_t size)
{
    size_t length = strlen(value);

    for (const char *at = value; *at != '\0'; at++) {
        if ((unsigned char)*at < 0x20 || *at == 0x7f) {
            return cli_usage_error("setup", "%s: found a control character, expected none", option);
        }
    }
    if (length >= size) {
        return cli_usage_error("setup", "%s: found %zu bytes, expected at most %zu", option, length,
                               size - 1);
    }
    memcpy(out, value, length + 1);
    return 0;
}

/* Returns whether the text, without a scheme, ends with a port: a colon that is not part of an IPv6
 * address in brackets. */
static bool has_port(const char *text)
{
    const char *bracket = strrchr(text, ']');
    return strchr(bracket != NULL ? bracket : text, ':') != NULL;
}

static int read_address(const char *text, char out[SETUP_ADDRESS_SIZE])
{
    char value[SETUP_ADDRESS_SIZE - sizeof(scheme) - sizeof(default_port)];
    int status = setup_value("--host", text, value, sizeof(value));

    if (status == 0 && strstr(value, "://") != NULL) {
        snprintf(out, SETUP_ADDRESS_SIZE, "%s", value);
    } else if (status == 0) {
        snprintf(out, SETUP_ADDRESS_SIZE, "%s%s%s%s", scheme, value, has_port(value) ? "" : ":",
                 has_port(value) ? "" : default_port);
    }
    return status;
}

/* Adds a host of the command line or of the record. If the record has the host, marks it as
 * wanted. */
static int take_host(struct setup_cell *cell, const struct setup_host *host)
{
    for (size_t index = 0; index < cell->host_count; index++) {
        struct setup_host *other = &cell->hosts[index];
        bool same_address = strcmp(other->address, host->address) == 0;

        if (strcmp(other->name, host->name) == 0) {
            if (other->wanted) {
                return cli_usage_error("setup", "--host: found the name %s twice, expected it once",
                                       host->name);
            }
            if (!same_address) {
                return cli_usage_error("setup",
                                       "--host %s: found %s, expected %s, as when the cell was set "
                                       "up: the voters of a cell stay as they are",
                                       host->name, host->address, other->address);
            }
            other->wanted = true;
            return 0;
        }
        if (same_address) {
            return cli_usage_error("setup",
                                   "--host %s: found the address of %s, %s, expected another",
                                   host->name, other->name, host->address);
        }
    }
    if (cell->host_count == SETUP_HOSTS_MAX) {
        return cli_usage_error("setup", "--host: found more than %d hosts, expected fewer in a run",
                               SETUP_HOSTS_MAX);
    }
    cell->hosts[cell->host_count++] = *host;
    return 0;
}

int setup_cell_add(struct setup_cell *cell, const char *spec)
{
    struct setup_host host = {.wanted = true};
    const char *equals = strchr(spec, '=');
    char name[SETUP_LABEL_SIZE + 1];

    if (equals == NULL || equals[1] == '\0') {
        return cli_usage_error(
            "setup", "--host: found \"%s\", expected NAME=ADDRESS, such as host-a=10.0.0.1", spec);
    }
    snprintf(name, sizeof(name), "%.*s", (int)(equals - spec > 33 ? 33 : equals - spec), spec);
    int status = setup_label("--host", name, host.name);
    status = status != 0 ? status : read_address(equals + 1, host.address);
    return status != 0 ? status : take_host(cell, &host);
}

void setup_cell_elect(struct setup_cell *cell)
{
    size_t voters = cell->host_count > SETUP_VOTERS_MAX ? SETUP_VOTERS_MAX : cell->host_count;

    voters -= voters % 2 == 0 ? 1 : 0;
    for (size_t index = 0; index < cell->host_count; index++) {
        cell->hosts[index].votes = index < voters;
    }
    if (cell->host_count == 2) {
        fprintf(stderr,
                "holdfast setup: warning: of two hosts only %s votes, because a cell has 1, 3, 5 "
                "or 7 voters. While it is down, no host gets a lock. With a third host, any one "
                "may be down\n",
                cell->hosts[0].name);
    } else if (cell->host_count > voters) {
        fprintf(stderr,
                "holdfast setup: warning: only the first %zu hosts vote, because a cell has 1, 3, "
                "5 or 7 voters; %s%s does not\n",
                voters, cell->hosts[voters].name,
                cell->host_count > voters + 1 ? " and each host after it" : "");
    }
}

const struct setup_host *setup_cell_find(const struct setup_cell *cell, const char *name)
{
    for (size_t index = 0; index < cell->host_count; index++) {
        if (cell->hosts[index].wanted && strcmp(cell->hosts[index].name, name) == 0) {
            return &cell->hosts[index];
        }
    }
    return NULL;
}

const char *setup_host_part(const struct setup_host *host, char out[SETUP_ADDRESS_SIZE])
{
    const char *begin = strstr(host->address, "://");
    const char *colon;

    begin = begin == NULL ? host->address : begin + strlen("://");
    colon = strrchr(begin, ':');
    begin += begin[0] == '[' ? 1 : 0;
    size_t size = colon == NULL ? strlen(begin) : (size_t)(colon - begin);
    size -= size > 0 && begin[size - 1] == ']' ? 1 : 0;
    snprintf(out, SETUP_ADDRESS_SIZE, "%.*s", (int)size, begin);
    return out;
}

static void write_voters(FILE *out, const struct setup_cell *cell)
{
    fputs("\n[voters]\n", out);
    for (size_t index = 0; index < cell->host_count; index++) {
        if (cell->hosts[index].votes) {
            fprintf(out, "%s = %s\n", cell->hosts[index].name, cell->hosts[index].address);
        }
    }
}

char *setup_cell_config(const struct setup_cell *cell, const struct setup_host *host,
                        const struct setup_place *place)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);

    if (out == NULL) {
        return NULL;
    }
    fprintf(out,
            "; Written by `holdfast setup`. holdfastd.ini(5) has every key.\n"
            "[agent]\nname = %s\ncell = %s\n",
            host->name, cell->name);
    if (host->address[0] != '\0') {
        fprintf(out, "role = %s\n", host->votes ? "voter" : "observer");
    }
    if (cell->users[0] != '\0') {
        fprintf(out, "users = %s\n", cell->users);
    }
    if (place->state_dir != NULL) {
        fprintf(out, "state_dir = %s\nsocket = %s/agent.sock\n", place->state_dir,
                place->state_dir);
    }
    if (host->address[0] != '\0') {
        fprintf(out, "\n[cell]\nlisten = %s\n", host->address);
        write_voters(out, cell);
        fprintf(out, "\n[tls]\nca = %s/ca.pem\ncert = %s/%s.pem\nkey = %s/%s.key\n", place->folder,
                place->folder, host->name, place->folder, host->name);
    }
    return fclose(out) == 0 ? text : NULL;
}

char *setup_cell_record(const struct setup_cell *cell)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);

    if (out == NULL) {
        return NULL;
    }
    fprintf(out,
            "; The cell whose certificates are here, for `holdfast setup`.\n"
            "cell = %s\n",
            cell->name);
    if (cell->users[0] != '\0') {
        fprintf(out, "users = %s\n", cell->users);
    }
    write_voters(out, cell);
    return fclose(out) == 0 ? text : NULL;
}

/* Reads a line "KEY = VALUE" of the record. */
static bool read_line(struct setup_cell *cell, char *line)
{
    struct setup_host host = {.votes = true};
    char *value = strstr(line, " =");

    if (value == NULL) {
        return false;
    }
    *value = '\0';
    value += strlen(" =");
    value += *value == ' ' ? 1 : 0;
    if (strcmp(line, "cell") == 0 && cell->host_count == 0) {
        return setup_label("cell", value, cell->name) == 0;
    }
    if (strcmp(line, "users") == 0 && cell->host_count == 0) {
        return setup_value("users", value, cell->users, sizeof(cell->users)) == 0;
    }
    return setup_label("voters", line, host.name) == 0 &&
           setup_value("voters", value, host.address, sizeof(host.address)) == 0 &&
           take_host(cell, &host) == 0;
}

bool setup_cell_read(struct setup_cell *cell, char *text)
{
    char *rest = NULL;

    for (char *line = strtok_r(text, "\n", &rest); line != NULL;
         line = strtok_r(NULL, "\n", &rest)) {
        if (line[0] != ';' && line[0] != '[' && !read_line(cell, line)) {
            return false;
        }
    }
    cell->recorded = true;
    return cell->name[0] != '\0' && cell->host_count > 0;
}
