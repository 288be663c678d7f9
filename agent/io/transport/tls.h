/*
 * The files of [tls], read and checked, and NNG's configurations made from them. Private to the
 * transport.
 *
 * A certificate names the agent that it is for. If it has alternative names (DNS), one of them must
 * be the agent's name; otherwise its common name (CN) must be. A dialler checks that the other end
 * shows the certificate of the agent that it dials. A listener can check a certificate only where
 * NNG shows its name, which 1.5.2 does not: see docs/TLS.md.
 */
#ifndef IO_TRANSPORT_TLS_H
#define IO_TRANSPORT_TLS_H

#include <nng/nng.h>
#include <nng/supplemental/tls/tls.h>
#include <stdint.h>

#include "io/transport.h"

struct transport_credentials;

/*
 * Reads and checks the three files. On failure returns NULL, and error (TRANSPORT_ERROR_MAX bytes)
 * names the file and its fault: it cannot be read or parsed, others may read the key, or the
 * certificate is unusable. An unusable certificate is of another CA, not for agent `name` (NULL:
 * any), not for the key, or of a kind with which no handshake succeeds (a weak key or hash, for
 * servers only).
 *
 * errno is EINVAL if the files are wrong. With any other errno (no memory, no descriptor, a read
 * error) a later call may succeed. A certificate that is out of date is accepted, because a clock
 * may be wrong.
 */
struct transport_credentials *transport_credentials_load(const struct transport_tls *tls,
                                                         const char *name, char *error)
    __attribute__((warn_unused_result));
/* Wipes the key, and frees the credentials. NULL is allowed. */
void transport_credentials_free(struct transport_credentials *credentials);

/* Returns the listener's configuration. It belongs to the credentials. */
nng_tls_config *transport_credentials_server(const struct transport_credentials *credentials);
/* Returns a new configuration to dial agent `name` (NULL: any), which the caller frees. Returns
 * NULL if there is no memory. */
nng_tls_config *transport_credentials_client(const struct transport_credentials *credentials,
                                             const char *name);
/* Returns from when and until when the certificate is valid. The validity ends at the latest with
 * the validity of the certificate's own CA, whatever other CAs the file has. */
struct transport_tls_times
transport_credentials_times(const struct transport_credentials *credentials);

/* Returns whether the certificate and its CA are valid at now_s (seconds since 1970). */
bool transport_credentials_are_good(const struct transport_credentials *credentials, int64_t now_s);

/* Writes the name in the certificate of a stream's other end; "" if NNG does not show it. out:
 * TRANSPORT_NAME_SIZE bytes. */
void transport_certified(nng_stream *stream, char *out);

#endif
