/*
 * Checks and installs the configuration of this host's agent, with the agent's certificate.
 *
 * holdfastd says whether a configuration is good (--check-config), so that there is one parser and
 * one set of errors. The functions report a failure on stderr, and return an exit code.
 */
#ifndef HOLDFAST_CLI_SETUP_INSTALL_H
#define HOLDFAST_CLI_SETUP_INSTALL_H

#include <stdbool.h>

#include "setup_file.h"

/* Where the files go. The paths are absolute. */
struct setup_target {
    char output[SETUP_PATH_MAX]; /* the configuration */
    char folder[SETUP_PATH_MAX]; /* the folder of the configuration and of the certificate */
    bool service; /* the agent is the service: if root installs, the service's user owns the key */
    bool force;   /* existing files may be replaced */
    /* the previous configuration was renamed to this; "": there was none */
    char backup[SETUP_PATH_MAX];
};

/* Has holdfastd check the configuration of the agent `name`, and prints what holdfastd reports.
 * alone: the files that [tls] names may be missing now. */
int setup_check(const char *text, const char *name, bool alone) __attribute__((warn_unused_result));

/* Installs the certificate of the agent `name` from the folder `from`, and then the configuration
 * if holdfastd accepts it with this certificate. from: NULL if the agent has no certificate; the
 * caller has then checked the configuration. */
int setup_install(struct setup_target *target, const char *text, const char *name, const char *from)
    __attribute__((warn_unused_result));

#endif
