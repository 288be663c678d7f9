/*
 * `holdfast setup` finds out this host's name and addresses by itself, and asks a person on a
 * terminal for the rest.
 */
#ifndef HOLDFAST_CLI_SETUP_ASK_H
#define HOLDFAST_CLI_SETUP_ASK_H

#include "setup_cell.h"

/* Returns a name for this host's agent: the first part of the host name, in lower case. A character
 * that is not allowed in such a name becomes `-`. */
const char *setup_host_name(char out[SETUP_LABEL_SIZE]);

/* Returns the wanted host of the cell that has this host's name. If there is none, returns the
 * wanted host that has an address of this host (no loopback address). NULL: no wanted host has
 * such an address, or several have. */
const struct setup_host *setup_host_guess(const struct setup_cell *cell);

/*
 * Asks the question, and writes the answer, without blanks around it, to out. An empty line stands
 * for `usual` ("": there is no usual answer). Asks again if the answer is too long. Returns false
 * at the end of the input.
 */
bool setup_ask(const char *question, const char *usual, char *out, size_t size)
    __attribute__((warn_unused_result));

#endif
