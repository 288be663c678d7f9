/*
 * The agent that this process asks, for its reports. A user with an agent of their own beside the
 * system's agent sees from each report which of the two was asked.
 */
#ifndef HOLDFAST_CLI_ASKED_H
#define HOLDFAST_CLI_ASKED_H

#include "cli.h"
#include "json.h"

/* Notes the agent that cli_connect() has connected to. Until then the functions below write
 * nothing. */
void asked_note(const struct cli *cli, hf_client *client);

/* Returns " (asked: PATH, WHY THAT PATH, cell NAME)". Returns "" for the system's agent, because
 * every user of the host has that one unless another one is chosen. */
const char *asked_text(void);

/* Writes the members socket, socket_why and cell. */
void asked_json(struct json *json);

#endif
