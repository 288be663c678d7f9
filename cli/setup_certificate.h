/*
 * The certificates of a cell, which `holdfast setup` makes with the commands of docs/TLS.md.
 *
 * The folder of the certificates has the CA (ca.pem, ca.key), and a folder for each host that has
 * what this host needs: ca.pem, NAME.pem and NAME.key. Whatever is there already stays as it is. A
 * NAME.pem is the last file that its host's folder gets, so a folder with this file is complete.
 */
#ifndef HOLDFAST_CLI_SETUP_CERTIFICATE_H
#define HOLDFAST_CLI_SETUP_CERTIFICATE_H

/* Returns 0 if openssl can be run, else CLI_NO_AGENT with a line on stderr. */
int setup_openssl_find(void) __attribute__((warn_unused_result));

/* Makes the CA of the cell if the folder has none. Returns an exit code. */
int setup_ca_make(const char *folder, const char *cell) __attribute__((warn_unused_result));

/* Makes the folder and the certificate of a host if they are missing. Returns an exit code. */
int setup_certificate_make(const char *folder, const char *name)
    __attribute__((warn_unused_result));

#endif
