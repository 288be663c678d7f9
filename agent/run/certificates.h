/*
 * The certificates for --check-config: they are judged as a running agent judges them
 * (observe/judgement.h), so the two never disagree. Only the words on standard error are made here.
 */
#ifndef AGENT_RUN_CERTIFICATES_H
#define AGENT_RUN_CERTIFICATES_H

#include <stdbool.h>

#include "peers/peers.h"

/* Writes one line for each thing that is wrong with the time of the certificates. Returns false if
 * one has ended. An agent starts with it all the same, because this host's clock may be what is
 * wrong. A certificate that is not valid yet causes only a warning: it becomes valid by itself.
 * path: the configuration's file, for the line. */
bool certificates_check(const struct peers_tls_times *times, const char *path)
    __attribute__((warn_unused_result));

#endif
