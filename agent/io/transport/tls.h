/*
 * The files of [tls], read and checked, and what NNG is given of them. Private to the transport.
 *
 * A certificate's name is the name of the agent that it is for: its common name (CN), or, if it has
 * any, one of its alternative names (DNS). Who dials an agent of a name checks that it is shown
 * that agent's certificate. Who is dialled can check it only where NNG tells whose certificate it
 * was shown, which 1.5.2 does not: see docs/TLS.md.
 */
#ifndef IO_TRANSPORT_TLS_H
#define IO_TRANSPORT_TLS_H

#include <nng/nng.h>
#include <nng/supplemental/tls/tls.h>
#include <stdint.h>

#include "io/transport.h"

struct transport_credentials;

/*
 * Reads the three files. NULL: error (TRANSPORT_ERROR_MAX bytes) says which file and what of it: it
 * cannot be read, it is not what it should be, others may read the key, the certificate is of
 * another CA, not for agent `name` (NULL: whoever), not for the key, or of a kind that no handshake
 * succeeds with (a weak key or hash, for servers only); errno is EINVAL then, and another one if it
 * may be well the next time (no memory, no descriptor, a disk that does not read). One that is out
 * of date is taken: a clock may be wrong.
 */
struct transport_credentials *transport_credentials_load(const struct transport_tls *tls,
                                                         const char *name, char *error)
    __attribute__((warn_unused_result));
/* NULL is allowed. The key is wiped. */
void transport_credentials_free(struct transport_credentials *credentials);

/* What the listener is to use; the credentials'. */
nng_tls_config *transport_credentials_server(const struct transport_credentials *credentials);
/* What a dialer of agent `name` (NULL: whoever) is to use; the caller frees it. NULL: no memory. */
nng_tls_config *transport_credentials_client(const struct transport_credentials *credentials,
                                             const char *name);
/* From when until when the certificate and what it rests on are good: it ends with the CA that it
 * is of, whatever others are in that file. Seconds since 1970. */
int64_t transport_credentials_begin_s(const struct transport_credentials *credentials);
int64_t transport_credentials_end_s(const struct transport_credentials *credentials);

/* Whether they are neither out of date nor of a later one, by seconds since 1970. */
bool transport_credentials_are_good(const struct transport_credentials *credentials, int64_t now_s);

/* Whose certificate the other end of a stream showed; "": NNG does not tell. out:
 * TRANSPORT_NAME_SIZE bytes. */
void transport_certified(nng_stream *stream, char *out);

#endif
