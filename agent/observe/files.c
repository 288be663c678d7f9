/*
 * Checks whether the files that the agent has open still have their names. If a person removes
 * state_dir, the store or a region, the agent goes on with the open files, and everything in them
 * is lost when it ends. If the socket's name is removed, the agent serves connected clients, and no
 * other can connect. So the agent logs a missing name while something can be done about it.
 *
 * Upkeep looks at open descriptors only, because looking up a name may wait for a disk that stands
 * still.
 */
#include "observe/files.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent.h"

struct list {
    char *text;
    size_t used;
};

static void add(struct list *list, const char *what, const char *name)
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

/* Returns whether the path that this folder was opened by now leads to another folder, or to none.
 */
static bool is_elsewhere(int fd, const char *path)
{
    struct stat here;
    struct stat there;
    return fstat(fd, &here) == 0 &&
           (stat(path, &there) != 0 || here.st_dev != there.st_dev || here.st_ino != there.st_ino);
}

void files_open(struct agent *agent)
{
    agent->store_fd = openat(agent->state_fd, "holdfast.db", O_PATH | O_CLOEXEC | O_NOFOLLOW);
}

void files_open_socket(struct agent *agent)
{
    char folder[CONFIG_SOCKET_MAX];
    snprintf(folder, sizeof(folder), "%s", agent->config.socket);
    *strrchr(folder, '/') = '\0'; /* the path begins with one */
    if (agent->door_fd >= 0) {
        close(agent->door_fd);
    }
    agent->door_fd = open(agent->config.socket, O_PATH | O_CLOEXEC | O_NOFOLLOW);
    if (agent->door_folder_fd < 0) {
        agent->door_folder_fd = open(folder[0] != '\0' ? folder : "/",
                                     O_PATH | O_CLOEXEC | O_DIRECTORY);
    }
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
    struct list list = {.text = text};
    uint32_t count = 0;
    text[0] = '\0';
    if (is_unlinked(agent->state_fd) ||
        (by_name && is_elsewhere(agent->state_fd, agent->config.state_dir))) {
        add(&list, "the folder ", agent->config.state_dir);
        count++;
    } else if (is_unlinked(agent->store_fd)) {
        add(&list, agent->config.state_dir, "/holdfast.db");
        count++;
    }
    for (uint32_t i = 0; i < agent->config.namespace_count; i++) {
        if ((agent->rubbish >> i & 1) == 0 && is_unlinked(agent->regions[i].fd)) {
            add(&list, "/dev/shm", agent->regions[i].shm_name);
            count++;
        }
    }
    return count;
}

bool files_socket_gone(const struct agent *agent)
{
    return is_unlinked(agent->door_fd);
}

uint32_t files_gone(const struct agent *agent, bool by_name, char *text)
{
    uint32_t count = files_state_gone(agent, by_name, text);
    struct list list = {.text = text, .used = strlen(text)};
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
    if (count > agent->files_gone) {
        struct log_line line;
        log_begin(&line, LOG_LEVEL_ERROR, "files_gone");
        log_text(&line, "files", text);
        log_text(&line, "text",
                 "somebody removed them while this agent uses them. The agent goes on, but their "
                 "contents are lost when it ends, and without its socket no further process can "
                 "connect");
        log_end(&line);
    }
    agent->files_gone = count;
}
