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
    char folder[SETUP_PATH_MAX]; /* its folder, also of the certificate */
    bool service; /* the service reads the configuration: its user owns the key if root installs */
    bool force;   /* existing files may be replaced */
    char backup[SETUP_PATH_MAX]; /* where the previous configuration is now, or "" */
};

/* Has holdfastd check the configuration of the agent `name`. alone: without the files that [tls]
 * names, which may be missing now. */
int setup_check(const char *text, const char *name, bool alone) __attribute__((warn_unused_result));

/* Installs the certificate of the agent `name` from the folder `from` (NULL: it has none), and then
 * the configuration if holdfastd accepts both. */
int setup_install(struct setup_target *target, const char *text, const char *name, const char *from)
    __attribute__((warn_unused_result));

#endif
