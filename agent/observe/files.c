/*
 * Checks whether the files that the agent has open still have their names. If a person removes
 * state_dir, the store or a region, the agent goes on with the open files, and their contents are
 * lost when it ends. If a person removes the socket's name, the agent serves connected clients, and
 * no other process can connect. So the agent logs a missing name while a person can still mend it.
 *
 * Upkeep examines open descriptors only, because looking up a name may wait for a disk that does
 * not respond.
 */
#include "observe/files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent.h"
#include "observe/log.h"
#include "serve/regions.h"

struct files {
    int store_fd;  /* the store: O_PATH, for fstat() only; -1: not known */
    int door_fd;   /* the socket: O_PATH, for fstat() only; -1: not known, or its name did not
                    * exist */
    int folder_fd; /* the folder of the socket: O_PATH; -1: not known */
    bool no_door;  /* the socket's name did not exist when door_fd was to be opened */
    uint32_t gone; /* the number of missing files in the last log line */
};

struct missing_list {
    char *text;
    size_t used;
};

static void add(struct missing_list *list, const char *what, const char *name)
{
    int size = snprintf(list->text + list->used, FILES_TEXT_MAX - list->used, "%s%s%s",
                        list->used > 0 ? ", " : "", what, name);
    if (size > 0) {
        list->used += (size_t)size;
    }
    list->used = list->used < FILES_TEXT_MAX ? list->used : FILES_TEXT_MAX - 1;
}

static bool is_unlinked(int fd)
{
    struct stat status;
    return fd >= 0 && fstat(fd, &status) == 0 && status.st_nlink == 0;
}

/* Returns whether path, by which fd was opened, now leads to another folder or to none. */
static bool is_elsewhere(int fd, const char *path)
{
    struct stat here;
    struct stat there;
    return fstat(fd, &here) == 0 &&
           (stat(path, &there) != 0 || here.st_dev != there.st_dev || here.st_ino != there.st_ino);
}

bool files_open(struct agent *agent)
{
    agent->files = calloc(1, sizeof(*agent->files));
    if (agent->files == NULL) {
        return false;
    }
    agent->files->door_fd = agent->files->folder_fd = -1;
    agent->files->store_fd = openat(agent->state_fd, "holdfast.db",
                                    O_PATH | O_CLOEXEC | O_NOFOLLOW);
    return true;
}

void files_close(struct agent *agent)
{
    static const struct files none = {.store_fd = -1, .door_fd = -1, .folder_fd = -1};
    const struct files *files = agent->files != NULL ? agent->files : &none;
    const int fds[] = {files->store_fd, files->door_fd, files->folder_fd};
    for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++) {
        if (fds[i] >= 0) {
            close(fds[i]);
        }
    }
    free(agent->files);
    agent->files = NULL;
}

/* Opens the socket's file. openat() also fails if no descriptor is free. In that case it is unknown
 * whether the socket exists. */
static void open_door(struct files *files, int folder, const char *path)
{
    if (files->door_fd >= 0) {
        close(files->door_fd);
    }
    files->door_fd = openat(folder, path, O_PATH | O_CLOEXEC | O_NOFOLLOW);
    files->no_door = files->door_fd < 0 && errno == ENOENT;
}

void files_open_socket(struct agent *agent)
{
    char folder[CONFIG_SOCKET_MAX];
    snprintf(folder, sizeof(folder), "%s", agent->config.socket);
    *strrchr(folder, '/') = '\0'; /* the path begins with a slash */
    open_door(agent->files, AT_FDCWD, agent->config.socket);
    if (agent->files->folder_fd < 0) {
        agent->files->folder_fd = open(folder[0] != '\0' ? folder : "/",
                                       O_PATH | O_CLOEXEC | O_DIRECTORY);
    }
}

void files_open_socket_late(struct agent *agent)
{
    struct files *files = agent->files;
    if (!files_socket_known(agent)) {
        open_door(files, files->folder_fd, strrchr(agent->config.socket, '/') + 1);
    }
}

bool files_socket_known(const struct agent *agent)
{
    return agent->files->door_fd >= 0 || agent->files->no_door;
}

bool files_config_is_loose(const struct agent *agent)
{
    struct stat status;
    return agent->config_path != NULL && stat(agent->config_path, &status) == 0 &&
           ((status.st_mode & (S_IWGRP | S_IWOTH)) != 0 ||
            (status.st_uid != 0 && status.st_uid != agent->own));
}

uint32_t files_state_gone(const struct agent *agent, bool by_name, char *text)
{
    struct missing_list list = {.text = text};
    uint32_t count = 0;
    text[0] = '\0';
    if (is_unlinked(agent->state_fd) ||
        (by_name && is_elsewhere(agent->state_fd, agent->config.state_dir))) {
        add(&list, "the folder ", agent->config.state_dir);
        count++;
    } else if (is_unlinked(agent->files->store_fd)) {
        add(&list, agent->config.state_dir, "/holdfast.db");
        count++;
    }
    for (uint32_t i = 0; i < agent->config.namespace_count; i++) {
        const struct region_view region = regions_view(agent, i);
        if (!region.given_up && is_unlinked(region.fd)) {
            add(&list, "/dev/shm", region.shm_name);
            count++;
        }
    }
    return count;
}

int files_socket_folder(const struct agent *agent)
{
    return agent->files->folder_fd;
}

bool files_socket_gone(const struct agent *agent)
{
    return agent->files->no_door || is_unlinked(agent->files->door_fd);
}

uint32_t files_gone(const struct agent *agent, bool by_name, char *text)
{
    uint32_t count = files_state_gone(agent, by_name, text);
    struct missing_list list = {.text = text, .used = strlen(text)};
    if (files_socket_gone(agent)) {
        add(&list, "the socket ", agent->config.socket);
        count++;
    }
    return count;
}

void files_look(struct agent *agent)
{
    char text[FILES_TEXT_MAX];
    uint32_t count = files_gone(agent, false, text);
    if (count > agent->files->gone) {
        struct log_line line;
        log_begin(&line, LOG_LEVEL_ERROR, "files_gone");
        log_text(&line, "files", text);
        log_text(&line, "text",
                 "somebody removed them while this agent uses them. The agent goes on, but their "
                 "contents are lost when it ends, and without its socket no further process can "
                 "connect");
        log_end(&line);
    }
    agent->files->gone = count;
}
