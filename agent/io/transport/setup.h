/* Checks and texts of addresses for the transport, before there is a link. Private to the
 * transport. */
#ifndef IO_TRANSPORT_SETUP_H
#define IO_TRANSPORT_SETUP_H

#include <nng/nng.h>
#include <stdbool.h>
#include <stddef.h>

#include "io/transport.h"

enum { TRANSPORT_ADDRESS_SIZE = 128 }; /* bytes of an address, with its final zero */

bool transport_is_tls(const char *address);

/* Checks the addresses. On failure error (TRANSPORT_ERROR_MAX bytes) says what is wrong or
 * missing. */
bool transport_config_check(const struct transport_config *config, char *error)
    __attribute__((warn_unused_result));

/* Writes the address by which an agent that listens at `listen` reaches itself: the same address,
 * or the loopback if `listen` is a wildcard. out: TRANSPORT_ADDRESS_SIZE bytes. */
void transport_own_address(const char *listen, char *out);

/* Writes an address such as "10.0.0.2:41234". out: TRANSPORT_REMOTE_MAX bytes. */
void transport_remote_text(const nng_sockaddr *address, char *out);

#endif
