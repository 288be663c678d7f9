/* Addresses for the transport, settled before there is a link. Private to it. */
#ifndef IO_TRANSPORT_SETUP_H
#define IO_TRANSPORT_SETUP_H

#include <nng/nng.h>
#include <stdbool.h>
#include <stddef.h>

#include "io/transport.h"

enum { TRANSPORT_ADDRESS_SIZE = 128 }; /* bytes of an address, its final zero included */

bool transport_is_tls(const char *address);

/* false: error (TRANSPORT_ERROR_MAX bytes) says what is wrong with the address, or is missing. */
bool transport_config_check(const struct transport_config *config, char *error)
    __attribute__((warn_unused_result));

/* Where an agent that listens there reaches itself: the same, or the loopback address if it listens
 * on all. out: TRANSPORT_ADDRESS_SIZE bytes. */
void transport_own_address(const char *listen, char *out);

/* "10.0.0.2:41234"; out: TRANSPORT_REMOTE_MAX bytes. */
void transport_remote_text(const nng_sockaddr *address, char *out);

#endif
