/*
 * Notes which agent was asked: see asked.h.
 */
#include "asked.h"

#include <stdio.h>
#include <string.h>

#include "socket_path.h"
#include "text.h"

static struct {
    struct socket_path socket; /* from is NULL until asked_note() */
    char cell[64];             /* "": not known */
    char text[SOCKET_PATH_TEXT_MAX + 256];
} asked;

static void note_cell(const struct hf_status *status, void *arg)
{
    (void)arg;
    snprintf(asked.cell, sizeof(asked.cell), "%s", status->cell);
}

void asked_note(const struct cli *cli, hf_client *client)
{
    (void)socket_path_used(cli, hf_socket(client), &asked.socket);
    bool own = strcmp(asked.socket.path, SYSTEM_SOCKET) != 0;

    asked.cell[0] = asked.text[0] = '\0';
    if ((own || cli->json) && hf_status(client, note_cell, NULL) != 0) {
        asked.cell[0] = '\0';
    }
    if (own) {
        snprintf(asked.text, sizeof(asked.text), " (asked: %s, %s%s%s)", asked.socket.path,
                 asked.socket.from, asked.cell[0] != '\0' ? ", cell " : "", asked.cell);
    }
}

const char *asked_text(void)
{
    return asked.text;
}

void asked_json(struct json *json)
{
    if (asked.socket.from == NULL) {
        return;
    }
    json_text(json, "socket", asked.socket.path);
    json_text(json, "socket_why", asked.socket.from);
    json_text(json, "cell", asked.cell[0] != '\0' ? asked.cell : NULL);
}
