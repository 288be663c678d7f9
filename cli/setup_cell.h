/*
 * The cell that `holdfast setup` writes configurations for: its name, its hosts, and the text of
 * each host's configuration.
 *
 * The voters of a cell do not change. So a file beside the certificates, the record, keeps the
 * cell's name and voters, for a later run that adds a host. Only names and addresses are checked
 * here, because files and folders get these names; holdfastd checks the rest.
 */
#ifndef HOLDFAST_CLI_SETUP_CELL_H
#define HOLDFAST_CLI_SETUP_CELL_H

#include <stdbool.h>
#include <stddef.h>

enum {
    SETUP_LABEL_SIZE = 33, /* with the final zero */
    SETUP_ADDRESS_SIZE = 160,
    SETUP_USERS_SIZE = 192,
    SETUP_HOSTS_MAX = 96,
    SETUP_VOTERS_MAX = 7,
};

struct setup_host {
    char name[SETUP_LABEL_SIZE];
    char address[SETUP_ADDRESS_SIZE]; /* "tls+tcp://HOST:PORT"; "" in a cell of one host */
    bool votes;
    bool wanted; /* this run writes its configuration; else it is only in the record */
};

struct setup_cell {
    char name[SETUP_LABEL_SIZE];
    char users[SETUP_USERS_SIZE]; /* who may take locks, besides root: "" for nobody */
    bool recorded;                /* the voters come from the record */
    size_t host_count;
    struct setup_host hosts[SETUP_HOSTS_MAX];
};

/* The absolute paths that depend on where the agent runs. */
struct setup_place {
    const char *folder;    /* the folder of the configuration and of the agent's certificate */
    const char *state_dir; /* NULL: the service's folders */
};

/* Copies a value given as `option`, if it is a name of a cell or an agent, else returns CLI_USAGE
 * with a line on stderr. */
int setup_label(const char *option, const char *value, char out[SETUP_LABEL_SIZE])
    __attribute__((warn_unused_result));

/* Copies a value that has neither control characters nor too many bytes, like setup_label(). */
int setup_value(const char *option, const char *value, char *out, size_t size)
    __attribute__((warn_unused_result));

/* Adds the host of a text NAME=ADDRESS, where ADDRESS is HOST, HOST:PORT or tls+tcp://HOST:PORT.
 * A voter of the record becomes wanted. Returns 0 or CLI_USAGE. */
int setup_cell_add(struct setup_cell *cell, const char *spec) __attribute__((warn_unused_result));

/* Makes voters of the first hosts of a new cell, of as many as may vote: 1, 3, 5 or 7. Warns on
 * stderr of a host that is left over. */
void setup_cell_elect(struct setup_cell *cell);

/* Returns the wanted host of that name, or NULL. */
const struct setup_host *setup_cell_find(const struct setup_cell *cell, const char *name);

/* Returns HOST of the host's address, in out. */
const char *setup_host_part(const struct setup_host *host, char out[SETUP_ADDRESS_SIZE]);

/* Returns the text of the host's configuration, which the caller frees; NULL: no memory. */
char *setup_cell_config(const struct setup_cell *cell, const struct setup_host *host,
                        const struct setup_place *place);

/* Returns the text of the record, which the caller frees; NULL: no memory. */
char *setup_cell_record(const struct setup_cell *cell);

/* Reads the text of a record, and changes it. Returns false if `setup` has not written it so. */
bool setup_cell_read(struct setup_cell *cell, char *text);

#endif
