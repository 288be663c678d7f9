/* Peer credentials, pidfds and names: see io/peer.h. */
#include "io/peer.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { GROUPS_FIRST = 64, GROUPS_MAX = 65536 };

const char peer_no_pidfd[] =
    "found a descriptor that is no pidfd, expected a pidfd of the client's own";

bool peer_of(int socket, struct peer *out)
{
    struct ucred credentials;
    socklen_t size = sizeof(credentials);
    if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) {
        return false;
    }
    *out = (struct peer){.pid = credentials.pid, .uid = credentials.uid, .gid = credentials.gid};
    return true;
}

bool peer_groups_of(int socket, struct peer_groups *out)
{
    *out = (struct peer_groups){.ids = NULL};
    size_t room = GROUPS_FIRST;
    for (unsigned tries = 0; tries < 4; tries++) {
        gid_t *ids = realloc(out->ids, room * sizeof(gid_t));
        if (ids == NULL) {
            break;
        }
        out->ids = ids;
        socklen_t size = (socklen_t)(room * sizeof(gid_t));
        if (getsockopt(socket, SOL_SOCKET, SO_PEERGROUPS, ids, &size) == 0) {
            out->count = size / sizeof(gid_t);
            return true;
        }
        size_t wanted = size / sizeof(gid_t); /* ERANGE tells how many there are */
        if (errno != ERANGE || wanted <= room || wanted > GROUPS_MAX) {
            break;
        }
        room = wanted;
    }
    free(out->ids);
    *out = (struct peer_groups){.ids = NULL};
    return false;
}

/*
 * By the name that the kernel gives it: "anon_inode:[pidfd]", since Linux 6.9 "pidfd:[NUMBER]"; the
 * names of files begin with a slash. Reading the link asks the file for nothing. What fdinfo says,
 * however, is told by the file's own kind, and may wait: that of an epoll set for its mutex, which
 * a process holds for as long as it likes (epoll_wait(2) into a page that a FUSE server owes).
 */
bool peer_is_pidfd(int fd)
{
    static const char *const names[] = {"anon_inode:[pidfd]", "pidfd:["};
    char path[64];
    char name[64] = "";
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    return readlink(path, name, sizeof(name) - 1) > 0 &&
           (strcmp(name, names[0]) == 0 || strncmp(name, names[1], strlen(names[1])) == 0);
}

const char *peer_pidfd_error(int pidfd, pid_t pid)
{
    char path[64];
    char text[1024];
    if (!peer_is_pidfd(pidfd)) {
        return peer_no_pidfd;
    }
    snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", pidfd);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return "its pidfd cannot be looked at in /proc/self/fdinfo";
    }
    ssize_t size = read(fd, text, sizeof(text) - 1);
    close(fd);
    text[size > 0 ? size : 0] = '\0';
    const char *found = strstr(text, "\nPid:");
    if (found == NULL) {
        return peer_no_pidfd;
    }
    long named = strtol(found + strlen("\nPid:"), NULL, 10);
    if (named < 0 || peer_pidfd_ended(pidfd)) {
        return "found a pidfd of a process that has ended";
    }
    if (pid != 0 && named != pid) {
        return "found a pidfd of another process, expected one of the process that connected";
    }
    return NULL;
}

int peer_pidfd_open(pid_t pid)
{
    return (int)syscall(SYS_pidfd_open, pid, 0); /* a pidfd is always close-on-exec */
}

bool peer_pidfd_ended(int pidfd)
{
    struct pollfd pollfd = {.fd = pidfd, .events = POLLIN};
    return poll(&pollfd, 1, 0) == 1 && (pollfd.revents & POLLIN) != 0;
}

void peer_name(pid_t pid, char out[HFI_FRAME_COMMAND_MAX + 1])
{
    char path[64];
    char name[64];
    out[0] = '\0';
    if (pid <= 0) {
        return;
    }
    snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return;
    }
    ssize_t got = read(fd, name, sizeof(name));
    close(fd);
    size_t size = got > 0 ? (size_t)got : 0;
    size -= size > 0 && name[size - 1] == '\n' ? 1 : 0;
    out[hfi_command_of(name, size, out).size] = '\0';
}
