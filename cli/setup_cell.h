/*
 * The cell that `holdfast setup` writes configurations for: its name, its hosts, and the text of
 * each host's configuration.
 *
 * A later run that adds a host does not change the voters. So a file beside the certificates, the
 * record, keeps the cell's name and voters for that run. Only names and addresses are checked
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
    /* this run writes the host's configuration; false: the host is only in the record */
    bool wanted;
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
    const char *state_dir; /* the folder of the state and the socket; NULL: the service's folders */
};

/* Copies `value`, the value of the option `option`, if a cell or an agent can have it as its name.
 * Otherwise returns CLI_USAGE with a line on stderr. */
int setup_label(const char *option, const char *value, char out[SETUP_LABEL_SIZE])
    __attribute__((warn_unused_result));

/* Like setup_label(), but accepts any text without control characters that fits into `size`
 * bytes. */
int setup_value(const char *option, const char *value, char *out, size_t size)
    __attribute__((warn_unused_result));

/* Adds the host of a text NAME=ADDRESS, where ADDRESS is HOST, HOST:PORT or tls+tcp://HOST:PORT. If
 * the host is a voter of the record, marks it as wanted. Returns 0 or CLI_USAGE. */
int setup_cell_add(struct setup_cell *cell, const char *spec) __attribute__((warn_unused_result));

/* Makes the first hosts of a new cell its voters: 1, 3, 5 or 7 hosts, as many as possible. If a
 * host is left over, writes a warning to stderr. */
void setup_cell_elect(struct setup_cell *cell);

/* Returns the wanted host of that name, or NULL. */
const struct setup_host *setup_cell_find(const struct setup_cell *cell, const char *name);

/* Writes the HOST part of the host's address to out, and returns out. */
const char *setup_host_part(const struct setup_host *host, char out[SETUP_ADDRESS_SIZE]);

/* Returns the text of the host's configuration, which the caller frees; NULL: no memory. */
char *setup_cell_config(const struct setup_cell *cell, const struct setup_host *host,
                        const struct setup_place *place);

/* Returns the text of the record, which the caller frees; NULL: no memory. */
char *setup_cell_record(const struct setup_cell *cell);

/* Reads the text of a record, and overwrites the text. Returns false if the text does not have the
 * form that setup_cell_record() writes. */
bool setup_cell_read(struct setup_cell *cell, char *text);

#endif
