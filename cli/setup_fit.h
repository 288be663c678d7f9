/*
 * Fits the configuration in a host's folder to the place where `holdfast setup --from` installs it.
 *
 * The host that made the folder could only guess the other host's paths: it wrote its own paths.
 * The certificate and the key are installed beside the configuration, so [tls] has to name them
 * there.
 */
#ifndef HOLDFAST_CLI_SETUP_FIT_H
#define HOLDFAST_CLI_SETUP_FIT_H

#include "setup_cell.h"

/* Returns the configuration `text` of the agent `name` for that place, which the caller frees;
 * NULL: no memory.
 *
 * In [tls], the files that setup installs (ca.pem, NAME.pem and NAME.key) get the folder of the
 * place. A key of [tls] that names another file was edited by a person, and stays. If the place has
 * a state_dir, state_dir and socket in [agent] follow it; otherwise they stay. */
char *setup_fit(const char *text, const char *name, const struct setup_place *place);

#endif
