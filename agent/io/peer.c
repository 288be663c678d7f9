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

/* The number of its process here; 0: it has none here, < 0: the process has ended. false: no pidfd,
 * or it cannot be looked at. */
static bool pidfd_number(int pidfd, long *out)
{
    char path[64];
    char text[1024];
    snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", pidfd);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return false;
    }
    ssize_t size = read(fd, text, sizeof(text) - 1);
    close(fd);
    text[size > 0 ? size : 0] = '\0';
    const char *found = strstr(text, "\nPid:");
    if (found != NULL) {
        *out = strtol(found + strlen("\nPid:"), NULL, 10);
    }
    return found != NULL;
}

const char *peer_pidfd_own(int foreign, pid_t pid, int *own)
{
    static const char ended[] = "found a pidfd of a process that has ended";
    long named;
    *own = -1;
    if (!peer_is_pidfd(foreign)) {
        return peer_no_pidfd;
    }
    if (!pidfd_number(foreign, &named)) {
        return "its pidfd cannot be looked at in /proc/self/fdinfo";
    }
    if (named < 0 || peer_pidfd_ended(foreign)) {
        return ended;
    }
    if (named != pid) {
        return "found a pidfd of another process, expected one of the process that connected";
    }
    if (pid == 0) {
        return NULL;
    }
    *own = peer_pidfd_open(pid);
    if (*own < 0) {
        return errno == ESRCH ? ended : "no pidfd of its process can be had";
    }
    /* It lives still, so the number was its own all the time: this one is of the same process. */
    if (peer_pidfd_ended(foreign)) {
        close(*own);
        *own = -1;
        return ended;
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
