/*
 * The report of `holdfast setup` at its end: see setup.h.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "json.h"
#include "setup.h"
#include "tool.h"

void setup_show_plan(const struct setup *setup)
{
    printf("The cell %s:\n", setup->cell.name);
    for (size_t index = 0; index < setup->cell.host_count; index++) {
        const struct setup_host *host = &setup->cell.hosts[index];
        printf("  %s at %s, %s%s\n", host->name, host->address, host->votes ? "votes" : "observes",
               host == setup->own ? ", this host" : "");
    }
}

/* Returns "sudo " if the user ran this command by sudo for the service, else "". The printed
 * commands for root begin with it. */
static const char *as_root(const struct setup *setup)
{
    return setup->state_dir[0] == '\0' && getenv("SUDO_USER") != NULL ? "sudo " : "";
}

static bool makes_folder(const struct setup *setup, size_t index)
{
    return setup->cell.hosts[index].wanted && &setup->cell.hosts[index] != setup->own &&
           setup->cell.hosts[index].address[0] != '\0';
}

static void report_json(const struct setup *setup, bool written)
{
    char path[SETUP_PATH_MAX + 64];
    struct json json;

    json_init(&json, stdout);
    json_open_object(&json, NULL);
    json_text(&json, "config", written ? setup->target.output : NULL);
    json_text(&json, "backup", setup->target.backup[0] != '\0' ? setup->target.backup : NULL);
    json_open_array(&json, "folders");
    for (size_t index = 0; index < setup->cell.host_count; index++) {
        if (makes_folder(setup, index)) {
            snprintf(path, sizeof(path), "%s/%s", setup->certificates,
                     setup->cell.hosts[index].name);
            json_text(&json, NULL, path);
        }
    }
    json_close_array(&json);
    json_close_object(&json);
    putchar('\n');
}

/* Starts the service after its first configuration was written, for a person on the terminal.
 * Returns whether it runs. A script starts the service itself, when it wants to. */
static bool start_service(const struct setup *setup)
{
    static const char *const words[] = {"systemctl", "enable", "--now", "holdfastd", NULL};
    char said[TOOL_SAID_MAX];

    if (!setup->asked || setup->state_dir[0] != '\0' || setup->target.backup[0] != '\0' ||
        strcmp(setup->target.output, SETUP_OUTPUT) != 0 ||
        access("/run/systemd/system", F_OK) != 0) {
        return false;
    }
    if (tool_run(words, NULL, said) == 0) {
        printf("Started it (systemctl enable --now holdfastd). Try it:\n"
               "  holdfast lock demo -- echo mine\n");
        return true;
    }
    fflush(stdout);
    fputs(said, stderr);
    return false;
}

/* Starts the agent with its new configuration, or says how to start it. */
static void report_start(const struct setup *setup)
{
    if (start_service(setup)) {
        return;
    }
    if (setup->target.backup[0] != '\0') {
        printf("The previous one is now %s\n", setup->target.backup);
    }
    printf("Next, on this host:\n");
    if (setup->state_dir[0] != '\0') {
        printf("  holdfastd --config %s\n  holdfast --socket %s/agent.sock status\n",
               setup->target.output, setup->state_dir);
    } else if (strcmp(setup->target.output, SETUP_OUTPUT) != 0) {
        printf("  holdfastd --config %s\n  holdfast status\n", setup->target.output);
    } else {
        printf("  %ssystemctl %s holdfastd\n  holdfast status\n", as_root(setup),
               setup->target.backup[0] != '\0' ? "restart" : "enable --now");
    }
}

/* Prints the command that installs the folder on its host. If the agent is not the service, a
 * person also has to start the agent there. */
static void report_install(const struct setup *setup, const char *host, const char *name)
{
    const char *output = setup->target.output;

    if (strcmp(output, SETUP_OUTPUT) == 0 && setup->state_dir[0] == '\0') {
        printf("  ssh -t %s 'sudo holdfast setup --from %s && sudo systemctl enable --now "
               "holdfastd'\n",
               host, name);
    } else {
        printf("  ssh -t %s holdfast setup --from %s --output %s\n", host, name, output);
    }
}

/* Prints the commands that bring the folders to the other hosts and install them. */
static void report_folders(const struct setup *setup)
{
    char address[SETUP_ADDRESS_SIZE];
    bool first = true;

    for (size_t index = 0; index < setup->cell.host_count; index++) {
        if (!makes_folder(setup, index)) {
            continue;
        }
        const char *name = setup->cell.hosts[index].name;
        const char *host = setup_host_part(&setup->cell.hosts[index], address);
        if (first) {
            printf("Next, for each other host, once Holdfast is installed there:\n");
            first = false;
        }
        printf("  %star -C %s -cf - %s | ssh %s tar -xf -\n", as_root(setup), setup->certificates,
               name, host);
        report_install(setup, host, name);
    }
    if (!first) {
        printf("These folders have keys. Remove the copies when the hosts have them.\n"
               "%s/ca.key is the key of the cell's CA: everybody who has it can join the cell.\n",
               setup->certificates);
    }
}

void setup_report_from(const struct setup *setup, const char *name)
{
    if (setup->cli->json) {
        report_json(setup, true);
        return;
    }
    printf("%s: the agent %s may start\n", setup->target.output, name);
    report_start(setup);
    printf("  rm -r %s   # the key is in it, too\n", setup->from);
}

void setup_report_one_host(const struct setup *setup)
{
    if (setup->cli->json) {
        report_json(setup, true);
        return;
    }
    printf("%s: %s, a cell of one host. ", setup->target.output, setup->own->name);
    if (setup->cell.users[0] != '\0') {
        printf("Root may take locks, and so may %s (`users` there)\n", setup->cell.users);
    } else { /* the text cannot say "nobody may", because "nobody" is a user */
        puts("Only root may take locks (`users` there names others)");
    }
    report_start(setup);
}

void setup_report_cell(const struct setup *setup)
{
    if (setup->cli->json) {
        report_json(setup, setup->own != NULL);
        return;
    }
    if (setup->own != NULL) {
        printf("%s: %s, of the cell %s\n", setup->target.output, setup->own->name,
               setup->cell.name);
        report_start(setup);
    }
    report_folders(setup);
}
