/*
 * Checks and installs the configuration of this host's agent: see setup_install.h.
 */
#include "setup_install.h"

#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli.h"
#include "setup_cell.h"
#include "text.h"
#include "tool.h"

/* the exit status of holdfastd --check-config if a file or a folder is at fault */
enum { AGENT_UNAVAILABLE = 69 };

static const char service_user[] = "holdfast";

/* Returns the first line of a message of holdfastd, without its name, and without the position in
 * the file /proc/self/fd/0, which the user cannot look at. Changes the message. */
static const char *without_place(char *said)
{
    static const char place[] = "/proc/self/fd/0:";
    char *at = strstr(said, place);

    said[strcspn(said, "\n")] = '\0';
    if (at == NULL) {
        return strncmp(said, "holdfastd: ", 11) == 0 ? said + 11 : said;
    }
    at += strlen(place);
    at += strspn(at, "0123456789");
    at += at[0] == ':' ? 1 : 0;
    return at + strspn(at, " ");
}

int setup_check(const char *text, const char *name, bool alone)
{
    char said[TOOL_SAID_MAX];
    const char *words[] = {tool_agent(), "--config", "/proc/self/fd/0", "--check-config", NULL};
    int status = tool_run(words, text, said);

    if (status < 0) {
        fprintf(stderr, "holdfast setup: holdfastd cannot be run: %s\n", strerror(errno));
        return CLI_NO_AGENT;
    }
    if (status == 0 || (alone && status == AGENT_UNAVAILABLE)) {
        if (status == 0 && said[0] != '\0') {
            fputs("holdfast setup: ", stderr);
            (void)text_write_clean(stderr, without_place(said), 0);
            fputc('\n', stderr);
        }
        return 0;
    }
    fprintf(
        stderr,
        "holdfast setup: not written, because holdfastd refuses the configuration of %s: ", name);
    (void)text_write_clean(stderr, without_place(said), 0);
    fputc('\n', stderr);
    return status == AGENT_UNAVAILABLE ? CLI_NO_AGENT : CLI_USAGE;
}

/* Fills in the owner of a file that only the agent may read. */
static void give_to_agent(const struct setup_target *target, struct setup_file *file)
{
    if (geteuid() != 0 || !target->service) {
        return; /* the agent runs as the user that runs this program */
    }
    const struct passwd *user = getpwnam(service_user);
    if (user == NULL) {
        fprintf(stderr,
                "holdfast setup: warning: this host has no user %s yet, as whom the service runs. "
                "Make it (systemd-sysusers), then: chown %s: %s\n",
                service_user, service_user, file->path);
        return;
    }
    file->owner = user->pw_uid;
    file->group = user->pw_gid;
}

/* A file that was copied, so that the copy can be undone. */
struct copied {
    char path[SETUP_PATH_MAX + 64];
    char backup[SETUP_PATH_MAX]; /* the new path of the replaced file; "": none was replaced */
    bool made;                   /* false: a file with the same text was there before */
};

/* Removes what was copied, and puts back what it replaced. */
static void undo_copies(const struct copied *files, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (files[i].made && files[i].backup[0] != '\0') {
            (void)rename(files[i].backup, files[i].path);
        } else if (files[i].made) {
            (void)unlink(files[i].path);
        }
    }
}

/* Copies a file of the folder `from` to the folder of the configuration. */
static int install_file(const struct setup_target *target, const char *from, const char *name,
                        bool secret, struct copied *copied)
{
    char source[SETUP_PATH_MAX + 64];
    const char *path = copied->path;
    struct stat before = {0};
    struct stat after = {0};

    snprintf(source, sizeof(source), "%s/%s", from, name);
    snprintf(copied->path, sizeof(copied->path), "%s/%s", target->folder, name);
    char *text = setup_file_read(source);
    if (text == NULL) {
        return setup_file_failed(source);
    }
    struct setup_file file = {.path = path,
                              .text = text,
                              .mode = secret ? 0600 : 0644,
                              .owner = (uid_t)-1,
                              .group = (gid_t)-1};
    if (secret) {
        give_to_agent(target, &file);
    }
    bool there = lstat(path, &before) == 0;
    int status = setup_file_write(&file, target->force, copied->backup);
    copied->made = lstat(path, &after) == 0 && (!there || before.st_ino != after.st_ino);
    free(text);
    return status;
}

int setup_install(struct setup_target *target, const char *text, const char *name, const char *from)
{
    enum { COPIES = 3 };
    char file[SETUP_LABEL_SIZE + 8];
    struct copied *copies = calloc(COPIES, sizeof(*copies));
    if (copies == NULL) {
        return cli_fail("setup", "files", HF_ENOMEM);
    }
    int status = setup_folder_make(target->folder, 0755);

    if (status == 0 && from != NULL) {
        status = install_file(target, from, "ca.pem", false, &copies[0]);
        snprintf(file, sizeof(file), "%s.key", name);
        status = status != 0 ? status : install_file(target, from, file, true, &copies[1]);
        snprintf(file, sizeof(file), "%s.pem", name);
        status = status != 0 ? status : install_file(target, from, file, false, &copies[2]);
        status = status != 0 ? status : setup_check(text, name, false);
    }
    const struct setup_file config = {
        .path = target->output, .text = text, .mode = 0644, .owner = (uid_t)-1, .group = (gid_t)-1};
    status = status != 0 ? status : setup_file_write(&config, target->force, target->backup);
    if (status != 0) {
        undo_copies(copies, COPIES); /* a key without its configuration is of no use */
    }
    free(copies);
    return status;
}
