/*
 * The certificates of a cell, which `holdfast setup` makes with the commands of docs/TLS.md.
 *
 * The folder of the certificates has the CA (ca.pem, ca.key), and for each host a folder with the
 * files that the host needs: ca.pem, NAME.key and NAME.pem. Existing files stay as they are.
 * NAME.pem gets its name last, so a folder with NAME.pem has all three files.
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
