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

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77 /* Linux 6.5 */
#endif

enum { GROUPS_FIRST = 64, GROUPS_MAX = 65536 };

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

int peer_pidfd(int socket, pid_t pid)
{
    int pidfd;
    socklen_t size = sizeof(pidfd);
    if (getsockopt(socket, SOL_SOCKET, SO_PEERPIDFD, &pidfd, &size) == 0) {
        return pidfd;
    }
    return errno == ENOPROTOOPT && pid > 0 ? peer_pidfd_open(pid) : -1;
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
