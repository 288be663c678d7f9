/* Peer credentials and pidfds: see io/peer.h. */
#include "io/peer.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "io/subids.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77 /* Linux 6.5 */
#endif

#define PIDFD_FILE_SYSTEM 0x50494446 /* pidfs, Linux 6.9 */

enum { GROUPS_FIRST = 64, GROUPS_MAX = 65536, STAT_SIZE = 1024, STAT_START = 22 };

bool peer_of(int socket, struct peer *out)
{
    struct ucred credentials;
    socklen_t size = sizeof(credentials);
    if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) {
        return false;
    }
    *out = (struct peer){.pid = credentials.pid,
                         .uid = credentials.uid,
                         .gid = credentials.gid,
                         .account = subids_account(credentials.uid)};
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
        size_t wanted = size / sizeof(gid_t); /* with ERANGE the kernel returns the number of
                                               * groups */
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
    /* in any other case errno is that of getsockopt() */
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

/* Returns the inode of the pidfd; 0: the kernel reuses its inodes. */
static uint64_t inode_of(int pidfd)
{
    struct statfs system;
    struct stat status;
    /* On a 32-bit kernel st_ino has only half of the inode's number. */
    if (sizeof(long) < sizeof(uint64_t) || fstatfs(pidfd, &system) != 0 ||
        system.f_type != PIDFD_FILE_SYSTEM || fstat(pidfd, &status) != 0) {
        return 0;
    }
    return status.st_ino;
}

/* Reads the stat file of the first thread, which has the same start time as /proc/PID/stat. For the
 * latter the kernel adds up the times of all threads, and there may be tens of thousands. The
 * lookup needs the locks of the process's folders in /proc, which that process can keep
 * (docs/SECURITY.md). */
uint64_t peer_start_of(pid_t pid)
{
    char path[64];
    char text[STAT_SIZE];
    snprintf(path, sizeof(path), "/proc/%d/task/%d/stat", (int)pid, (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return 0;
    }
    ssize_t got = read(fd, text, sizeof(text) - 1);
    close(fd);
    text[got > 0 ? got : 0] = '\0';
    /* The second field is the process's name in brackets. It may contain any character. */
    const char *at = strrchr(text, ')');
    for (int field = 2; at != NULL && field < STAT_START; field++) {
        at = strchr(at + 1, ' ');
    }
    return at != NULL ? strtoull(at, NULL, 10) : 0;
}

void peer_process_of(int pidfd, pid_t pid, struct peer_process *out)
{
    *out = (struct peer_process){.inode = inode_of(pidfd)};
    if (out->inode == 0 && pid > 0) {
        out->start = peer_start_of(pid);
    }
}

uint64_t peer_numbers(void)
{
    struct stat status;
    return stat("/proc/self/ns/pid", &status) == 0 ? status.st_ino : 0;
}
