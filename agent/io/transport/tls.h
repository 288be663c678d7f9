/*
 * The files of [tls], read and checked, and what NNG is given of them. Private to the transport.
 *
 * A certificate's name is the name of the agent that it is for: its common name (CN), or, if it has
 * any, one of its alternative names (DNS). A dialler checks that the other end shows the
 * certificate of the agent that it dials. A listener can check a certificate only where NNG shows
 * it, which 1.5.2 does not: see docs/TLS.md.
 */
#ifndef IO_TRANSPORT_TLS_H
#define IO_TRANSPORT_TLS_H

#include <nng/nng.h>
#include <nng/supplemental/tls/tls.h>
#include <stdint.h>

#include "io/transport.h"

struct transport_credentials;

/*
 * Reads the three files. NULL: error (TRANSPORT_ERROR_MAX bytes) names the file and its fault: it
 * cannot be read, it is not what it should be, others may read the key, the certificate is of
 * another CA, not for agent `name` (NULL: any), not for the key, or of a kind that no handshake
 * succeeds with (a weak key or hash, for servers only); errno is EINVAL then, and another one if it
 * may be well the next time (no memory, no descriptor, a disk that does not read). One that is out
 * of date is taken: a clock may be wrong.
 */
struct transport_credentials *transport_credentials_load(const struct transport_tls *tls,
                                                         const char *name, char *error)
    __attribute__((warn_unused_result));
/* NULL is allowed. The key is wiped. */
void transport_credentials_free(struct transport_credentials *credentials);

/* The configuration for the listener; the credentials' own. */
nng_tls_config *transport_credentials_server(const struct transport_credentials *credentials);
/* The configuration for a dialer of agent `name` (NULL: any); the caller frees it. NULL: no
 * memory. */
nng_tls_config *transport_credentials_client(const struct transport_credentials *credentials,
                                             const char *name);
/* From when until when the certificate and what it rests on are good: it ends with the CA that it
 * is of, whatever others are in that file. Seconds since 1970. */
int64_t transport_credentials_begin_s(const struct transport_credentials *credentials);
int64_t transport_credentials_end_s(const struct transport_credentials *credentials);

/* Whether they are neither out of date nor of a later one, by seconds since 1970. */
bool transport_credentials_are_good(const struct transport_credentials *credentials, int64_t now_s);

/* The name of the certificate of a stream's other end; "": NNG does not show it. out:
 * TRANSPORT_NAME_SIZE bytes. */
void transport_certified(nng_stream *stream, char *out);

#endif
