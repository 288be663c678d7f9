/*
 * Checks the certificates for --check-config. The verdict is that of observe/judgement.h, as in a
 * running agent, so the two never disagree. This module only writes the lines on standard error.
 */
#ifndef AGENT_RUN_CERTIFICATES_H
#define AGENT_RUN_CERTIFICATES_H

#include <stdbool.h>

#include "peers/peers.h"

/* Writes one line for each thing that is wrong with the time of the certificates. Returns false if
 * one has expired. An agent starts with an expired certificate all the same, because this host's
 * clock may be wrong instead. A certificate that is not valid yet causes only a warning: it becomes
 * valid by itself. path: the configuration's file, for the line. */
bool certificates_check(const struct peers_tls_times *times, const char *path)
    __attribute__((warn_unused_result));

#endif
