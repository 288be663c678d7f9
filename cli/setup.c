/*
 * `holdfast setup` writes the configuration of this host's agent: for a cell of one host, or of
 * several hosts with certificates.
 *
 * In a cell of several hosts, one host makes the CA, and for each host a folder with all files that
 * the host needs. `holdfast setup --from FOLDER` installs such a folder on its host. The host that
 * made the folders installs its own folder in the same way. `setup` writes no
 * configuration that holdfastd refuses.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "help.h"
#include "setup.h"
#include "setup_ask.h"
#include "setup_certificate.h"
#include "setup_fit.h"

static const char nothing_written[] = "nothing was written";

/* ---- a folder from another host ---- */

/* Finds the value of a key in a configuration that `setup` has written: "KEY = VALUE". */
static bool find_value(const char *text, const char *key, char *out, size_t size)
{
    const size_t length = strlen(key);

    for (const char *line = strchr(text, '\n'); line != NULL; line = strchr(line + 1, '\n')) {
        const char *equals = line + 1 + length;
        if (strncmp(line + 1, key, length) == 0 && strncmp(equals, " = ", 3) == 0) {
            return snprintf(out, size, "%.*s", (int)strcspn(equals + 3, "\n"), equals + 3) <
                   (int)size;
        }
    }
    return false;
}

static bool find_name(const char *text, char out[SETUP_LABEL_SIZE])
{
    char name[SETUP_LABEL_SIZE + 1];

    if (!find_value(text, "name", name, sizeof(name))) {
        return false;
    }
    name[strcspn(name, " ")] = '\0';
    return setup_label("name", name, out) == 0;
}

static struct setup_place place_of(const struct setup *setup)
{
    return (struct setup_place){.folder = setup->target.folder,
                                .state_dir = setup->state_dir[0] != '\0' ? setup->state_dir : NULL};
}

/* Checks that the agent can make the state_dir that the folder's configuration names: the host that
 * made the folder may have other folders than this host. */
static int check_state_dir(const struct setup *setup)
{
    char parent[SETUP_PATH_MAX];
    struct stat status;
    const char *slash = strrchr(setup->state_dir, '/');

    if (slash == NULL || slash == setup->state_dir) {
        return 0; /* holdfastd judges it */
    }
    snprintf(parent, sizeof(parent), "%.*s", (int)(slash - setup->state_dir), setup->state_dir);
    if (stat(parent, &status) == 0 || (errno != ENOENT && errno != ENOTDIR)) {
        return 0;
    }
    return cli_usage_error("setup",
                           "%s/holdfastd.ini: found state_dir %s, expected a folder in %s, which "
                           "this host lacks: give --state-dir DIR, or make %s; nothing was written",
                           setup->from, setup->state_dir, parent, parent);
}

/* Fits the configuration of a host's folder to this host, checks it, and installs it. */
static int install_from(struct setup *setup, const char *text, const char *name)
{
    const struct setup_place place = place_of(setup);
    char *fitted = setup_fit(text, name, &place);
    int status = 0;

    if (fitted == NULL) {
        return setup_file_failed(setup->target.output);
    }
    /* the folder of an agent that is no service */
    if (setup->state_dir[0] == '\0' &&
        find_value(fitted, "state_dir", setup->state_dir, sizeof(setup->state_dir))) {
        setup->target.service = false;
        status = check_state_dir(setup);
    }
    status = status != 0 ? status : setup_check(fitted, name, true);
    status = status != 0 ? status : setup_install(&setup->target, fitted, name, setup->from);
    free(fitted);
    return status;
}

static int run_from(struct setup *setup)
{
    char path[SETUP_PATH_MAX + 64];
    char name[SETUP_LABEL_SIZE];
    int status = setup_file_absent(setup->target.output, setup->target.force);

    if (status != 0) {
        return status;
    }
    snprintf(path, sizeof(path), "%.4000s/holdfastd.ini", setup->from);
    char *text = setup_file_read(path);
    if (text == NULL) {
        return setup_file_failed(path);
    }
    if (!find_name(text, name)) {
        fprintf(stderr, "holdfast setup: %s: found no name in [agent], expected one\n", path);
        status = CLI_USAGE;
    }
    status = status != 0 ? status : install_from(setup, text, name);
    free(text);
    if (status == 0) {
        setup_report_from(setup, name);
    }
    return status;
}

/* ---- a cell ---- */

/* Sets the users who may take locks: those of the command line, else those of the record, else the
 * user who ran sudo. */
static int choose_users(struct setup *setup)
{
    const char *users = setup->users;

    if (users == NULL && !setup->cell.recorded) {
        const char *sudo = getenv("SUDO_USER");
        users = geteuid() == 0 && sudo != NULL && strcmp(sudo, "root") != 0 ? sudo : "";
    }
    return users == NULL
               ? 0
               : setup_value("--users", users, setup->cell.users, sizeof(setup->cell.users));
}

/* Has holdfastd check the configuration of each wanted host. With --print also prints it. */
static int check_all(const struct setup *setup)
{
    const struct setup_place place = place_of(setup);
    const bool several = setup->cell.hosts[0].address[0] != '\0';

    for (size_t index = 0; index < setup->cell.host_count; index++) {
        const struct setup_host *host = &setup->cell.hosts[index];
        if (!host->wanted) {
            continue;
        }
        char *text = setup_cell_config(&setup->cell, host, &place);
        int status = text == NULL ? setup_file_failed(setup->target.output)
                                  : setup_check(text, host->name, several);
        if (status == 0 && setup->print) {
            if (several) {
                printf("; %s: %s\n", host->name,
                       host == setup->own ? setup->target.output : "its folder");
            }
            fputs(text, stdout);
        }
        free(text);
        if (status != 0) {
            return status;
        }
    }
    return 0;
}

static int run_one_host(struct setup *setup)
{
    struct setup_host *host = &setup->cell.hosts[0];
    const struct setup_place place = place_of(setup);
    int status = 0;

    setup->cell = (struct setup_cell){.host_count = 1};
    host->wanted = true;
    setup->own = host;
    (void)setup_host_name(host->name);
    if (setup->self != NULL) {
        status = setup_label("--self", setup->self, host->name);
    }
    status = status != 0 ? status
                         : setup_label("--cell", setup->name != NULL ? setup->name : "home",
                                       setup->cell.name);
    status = status != 0 ? status : choose_users(setup);
    status = status != 0 ? status : check_all(setup);
    if (status != 0 || setup->print) {
        return status;
    }
    status = setup_file_absent(setup->target.output, setup->target.force);
    if (status != 0) {
        return status;
    }
    char *text = setup_cell_config(&setup->cell, host, &place);
    status = text == NULL ? setup_file_failed(setup->target.output)
                          : setup_install(&setup->target, text, host->name, NULL);
    free(text);
    if (status == 0) {
        setup_report_one_host(setup);
    }
    return status;
}

/* Writes the path of the record of the cell (setup_cell.h). */
static void record_path(const struct setup *setup, char out[SETUP_PATH_MAX + 64])
{
    snprintf(out, SETUP_PATH_MAX + 64, "%s/cell", setup->certificates);
}

/* Reads the record of an earlier run, if there is one. */
static int read_record(struct setup *setup)
{
    char path[SETUP_PATH_MAX + 64];

    record_path(setup, path);
    char *text = setup_file_read(path);
    if (text == NULL) {
        return errno == ENOENT ? 0 : setup_file_failed(path);
    }
    bool good = setup_cell_read(&setup->cell, text);
    free(text);
    if (!good) {
        fprintf(stderr, "holdfast setup: %s: expected what an earlier `holdfast setup` wrote\n",
                path);
        return CLI_FAILED;
    }
    return 0;
}

/* Asks for the cell's name until the answer is a valid name. */
static int ask_name(struct setup *setup)
{
    char answer[SETUP_LABEL_SIZE + 1];
    int status;

    do {
        if (!setup_ask("Name of the cell", "prod", answer, sizeof(answer))) {
            return cli_usage_error("setup", "expected the name of the cell; %s", nothing_written);
        }
        status = setup_label("--cell", answer, setup->cell.name);
    } while (status == CLI_USAGE);
    return status;
}

/* Sets the cell's name, which comes from the record, the command line or a person's answer. */
static int choose_name(struct setup *setup, bool asks)
{
    if (asks && !setup->cell.recorded && setup->name == NULL) {
        return ask_name(setup);
    }
    if (!setup->cell.recorded) {
        return setup_label("--cell", setup->name != NULL ? setup->name : "prod", setup->cell.name);
    }
    if (setup->name == NULL || strcmp(setup->name, setup->cell.name) == 0) {
        return 0;
    }
    return cli_usage_error(
        "setup",
        "--cell: found %s, expected %s, whose certificates are in %s; or another "
        "folder: --certificates DIR",
        setup->name, setup->cell.name, setup->certificates);
}

/* Notes which of the hosts is this host: `self`, or none if self is "-". */
static int set_own(struct setup *setup, const char *self)
{
    if (strcmp(self, "-") == 0) {
        return 0;
    }
    setup->own = setup_cell_find(&setup->cell, self);
    return setup->own != NULL ? 0
                              : cli_usage_error("setup",
                                                "--self: found \"%s\", expected the NAME of a "
                                                "--host, or -",
                                                self);
}

/* Asks which of the hosts is this one, until the answer is one of them. */
static int ask_own(struct setup *setup)
{
    char answer[SETUP_LABEL_SIZE + 1];
    int status;

    do {
        if (!setup_ask("Which of them is this host (- for none)", setup->cell.hosts[0].name, answer,
                       sizeof(answer))) {
            return cli_usage_error("setup", "expected the name of a host; %s", nothing_written);
        }
        status = set_own(setup, answer);
    } while (status == CLI_USAGE);
    return status;
}

/* Finds out which of the hosts is this one. */
static int choose_own(struct setup *setup, bool asks)
{
    if (setup->self != NULL) {
        return set_own(setup, setup->self);
    }
    setup->own = setup_host_guess(&setup->cell);
    if (setup->own == NULL && asks) {
        return ask_own(setup);
    }
    if (setup->own != NULL || setup->cell.recorded) {
        return 0; /* an added host is usually not this host */
    }
    return cli_usage_error("setup", "no host has this host's name or address: expected --self "
                                    "NAME, or --self - if this host is none of them");
}

/* Writes the folder with the certificates, and in it the record and the folder of each wanted
 * host. */
static int write_certificates(const struct setup *setup)
{
    const struct setup_place place = place_of(setup);
    char path[SETUP_PATH_MAX + 128];
    char backup[SETUP_PATH_MAX];
    struct setup_file file = {.path = path, .mode = 0600, .owner = (uid_t)-1, .group = (gid_t)-1};
    int status = setup_folder_make(setup->target.folder, 0755);

    status = status != 0 ? status : setup_folder_make(setup->certificates, 0700);
    status = status != 0 ? status : setup_folder_is_own(setup->certificates);
    status = status != 0 ? status : setup_ca_make(setup->certificates, setup->cell.name);
    for (size_t index = 0; status == 0 && index < setup->cell.host_count; index++) {
        const struct setup_host *host = &setup->cell.hosts[index];
        if (!host->wanted) {
            continue;
        }
        status = setup_certificate_make(setup->certificates, host->name);
        if (status == 0 && host != setup->own) {
            char *text = setup_cell_config(&setup->cell, host, &place);
            snprintf(path, sizeof(path), "%s/%s/holdfastd.ini", setup->certificates, host->name);
            file.text = text;
            status = text == NULL ? setup_file_failed(path)
                                  : setup_file_write(&file, setup->target.force, backup);
            free(text);
        }
    }
    if (status == 0 && !setup->cell.recorded) {
        char *text = setup_cell_record(&setup->cell);
        record_path(setup, path);
        file.text = text;
        status = text == NULL ? setup_file_failed(path)
                              : setup_file_write(&file, setup->target.force, backup);
        free(text);
    }
    return status;
}

/* Installs the certificate and the configuration of this host, if it is a wanted host of the
 * cell. */
static int install_own(struct setup *setup)
{
    const struct setup_place place = place_of(setup);
    char from[SETUP_PATH_MAX + 64];

    if (setup->own == NULL) {
        return 0;
    }
    char *text = setup_cell_config(&setup->cell, setup->own, &place);
    snprintf(from, sizeof(from), "%s/%s", setup->certificates, setup->own->name);
    int status = text == NULL ? setup_file_failed(setup->target.output)
                              : setup_install(&setup->target, text, setup->own->name, from);
    free(text);
    return status;
}

static int confirm(const struct setup *setup)
{
    char answer[16];

    setup_show_plan(setup);
    while (setup_ask("Write its certificates and configurations", "yes", answer, sizeof(answer)) &&
           strcmp(answer, "no") != 0 && strcmp(answer, "n") != 0) {
        if (strcmp(answer, "yes") == 0 || strcmp(answer, "y") == 0) {
            return 0;
        }
        printf("Found \"%s\", expected yes or no\n", answer);
    }
    return cli_usage_error("setup", "%s", nothing_written);
}

/* Fills in the cell from its record, and from the hosts on the command line or in a person's
 * answer. */
static int read_hosts(struct setup *setup)
{
    setup->cell = (struct setup_cell){.host_count = 0};
    int status = read_record(setup);

    for (size_t index = 0; status == 0 && index < setup->hosts.count; index++) {
        status = setup_cell_add(&setup->cell, setup->hosts.items[index]);
    }
    return status;
}

static int run_cell(struct setup *setup, bool asks)
{
    int status = asks ? 0 : read_hosts(setup); /* if `asks`, ask_hosts() has read the hosts */

    status = status != 0 ? status : choose_name(setup, asks);
    status = status != 0 ? status : choose_users(setup);
    status = status != 0 ? status : choose_own(setup, asks);
    if (status == 0 && !setup->cell.recorded) {
        setup_cell_elect(&setup->cell);
    }
    status = status != 0 ? status : check_all(setup);
    if (status != 0 || setup->print) {
        return status;
    }
    status = setup->own == NULL ? 0 : setup_file_absent(setup->target.output, setup->target.force);
    status = status != 0 ? status : setup_openssl_find();
    status = status == 0 && asks ? confirm(setup) : status;
    status = status != 0 ? status : write_certificates(setup);
    status = status != 0 ? status : install_own(setup);
    if (status == 0) {
        setup_report_cell(setup);
    }
    return status;
}

/* ---- the command line ---- */

static int absolute(const char *path, char out[SETUP_PATH_MAX])
{
    char here[SETUP_PATH_MAX] = "";
    char value[SETUP_PATH_MAX];
    int status = setup_value("a path", path, value, sizeof(value));

    if (status != 0) {
        return status;
    }
    if (path[0] != '/' && getcwd(here, sizeof(here)) == NULL) {
        return setup_file_failed(path);
    }
    /* leaves room for longer paths that begin with this one */
    if (snprintf(out, SETUP_PATH_MAX, "%s%s%s", here, here[0] != '\0' ? "/" : "", value) >=
        SETUP_PATH_MAX - 160) {
        return cli_usage_error("setup", "%s: expected a shorter path", path);
    }
    return 0;
}

static int find_paths(struct setup *setup, const char *output, const char *certificates,
                      const char *state_dir)
{
    char below[SETUP_PATH_MAX + 32];
    int status = absolute(output != NULL ? output : SETUP_OUTPUT, setup->target.output);

    if (status != 0) {
        return status;
    }
    size_t length = (size_t)(strrchr(setup->target.output, '/') - setup->target.output);
    memcpy(setup->target.folder, setup->target.output, length);
    setup->target.folder[length] = '\0';
    if (length == 0) {
        setup->target.folder[length++] = '/';
        setup->target.folder[length] = '\0';
    }
    snprintf(below, sizeof(below), "%s/certificates", setup->target.folder);
    status = absolute(certificates != NULL ? certificates : below, setup->certificates);
    setup->target.service = state_dir == NULL;
    return status != 0 || state_dir == NULL ? status : absolute(state_dir, setup->state_dir);
}

/* Takes the hosts of an answer, separated by blanks or commas, into the cell. */
static int take_hosts(struct setup *setup, char *answer)
{
    char *rest = NULL;

    setup->hosts.count = 0;
    for (char *word = strtok_r(answer, " ,\t", &rest); word != NULL;
         word = strtok_r(NULL, " ,\t", &rest)) {
        if (setup->hosts.count == OPTION_LIST_MAX) {
            return cli_usage_error("setup", "found more than %d hosts, expected fewer in a run",
                                   OPTION_LIST_MAX);
        }
        setup->hosts.items[setup->hosts.count++] = word;
    }
    return setup->hosts.count > 0 ? read_hosts(setup) : 0;
}

/* Asks for the hosts of the cell until the answer is good. `answer` keeps their texts. */
static int ask_hosts(struct setup *setup, char *answer, size_t size)
{
    int status;

    do {
        if (!setup_ask("Hosts that share the locks, each as NAME=ADDRESS (Enter: only this host)",
                       "", answer, size)) {
            return cli_usage_error("setup", "expected the hosts or an empty line; %s",
                                   nothing_written);
        }
        status = take_hosts(setup, answer);
    } while (status == CLI_USAGE);
    return status;
}

static int check_options(const struct setup *setup, const char *certificates)
{
    if (setup->one_host && (setup->hosts.count > 0 || certificates != NULL)) {
        return cli_usage_error("setup", "found --one-host and --host or --certificates, expected "
                                        "--one-host, or --host for each host of a cell");
    }
    if (setup->from != NULL &&
        (setup->one_host || setup->hosts.count > 0 || certificates != NULL || setup->name != NULL ||
         setup->self != NULL || setup->users != NULL || setup->print)) {
        return cli_usage_error("setup", "found --from and another option, expected only "
                                        "--output, --state-dir or --force with it");
    }
    return 0;
}

static int run(struct setup *setup)
{
    char answer[4096];
    bool asks = false;

    if (setup->from != NULL) {
        return run_from(setup);
    }
    if (!setup->one_host && setup->hosts.count == 0 && !setup->yes) {
        if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO)) {
            return cli_usage_error("setup", "expected --one-host, or --host NAME=ADDRESS for each "
                                            "host of a cell, or a terminal to ask on");
        }
        asks = setup->asked = true;
        int status = setup->print ? 0
                                  : setup_file_absent(setup->target.output, setup->target.force);
        status = status != 0 ? status : ask_hosts(setup, answer, sizeof(answer));
        if (status != 0) {
            return status;
        }
    }
    return setup->hosts.count > 0 ? run_cell(setup, asks) : run_one_host(setup);
}

int command_setup(struct cli *cli, int argc, char **argv)
{
    struct setup *setup = calloc(1, sizeof(*setup));
    const char *output = NULL;
    const char *certificates = NULL;
    const char *state_dir = NULL;

    if (setup == NULL) {
        return cli_fail("setup", "starting", HF_ENOMEM);
    }
    setup->cli = cli;
    const struct option_spec specs[] = {{"one-host", '\0', OPTION_FLAG, &setup->one_host},
                                        {"host", '\0', OPTION_LIST, &setup->hosts},
                                        {"cell", '\0', OPTION_TEXT, &setup->name},
                                        {"self", '\0', OPTION_TEXT, &setup->self},
                                        {"users", '\0', OPTION_TEXT, &setup->users},
                                        {"from", '\0', OPTION_TEXT, &setup->from},
                                        {"output", '\0', OPTION_TEXT, &output},
                                        {"certificates", '\0', OPTION_TEXT, &certificates},
                                        {"state-dir", '\0', OPTION_TEXT, &state_dir},
                                        {"force", '\0', OPTION_FLAG, &setup->target.force},
                                        {"print", '\0', OPTION_FLAG, &setup->print},
                                        {"yes", 'y', OPTION_FLAG, &setup->yes}};
    struct arguments words;
    int status = options_parse(cli, "setup", specs, sizeof(specs) / sizeof(specs[0]), argc, argv,
                               &words);
    bool help = status == 0 && help_is_wanted(cli);

    status = status != 0 || help ? status : words_expect("setup", &words, 0, 0, "options only");
    status = status != 0 || help ? status : check_options(setup, certificates);
    status = status != 0 || help ? status : find_paths(setup, output, certificates, state_dir);
    if (help) {
        status = help_answer(cli, "setup");
    } else if (status == 0) {
        (void)umask(077);
        status = run(setup);
    }
    free(setup);
    return status;
}
