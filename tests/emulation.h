/*
 * Features of a kernel that qemu's user mode lacks, and without which some tests cannot run. Each
 * function tries one feature. If the feature is missing, the function prints which part of which
 * test is left out (tests/platform/arm64.sh lists these parts).
 */
#ifndef TESTS_EMULATION_H
#define TESTS_EMULATION_H

#include <errno.h>
#include <linux/if_packet.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* Returns whether pages that are marked MADV_WIPEONFORK are wiped in the child of a fork
 * (libclient/fork.c). qemu accepts the mark and ignores it. what: the test that asks. */
static inline bool fork_is_wiped(const char *what)
{
    size_t size = (size_t)sysconf(_SC_PAGESIZE);
    int status = 0;
    volatile char *page = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
                               0);
    if (page == MAP_FAILED || madvise((void *)page, size, MADV_WIPEONFORK) != 0) {
        return true; /* the emulation is not at fault, so the test must run */
    }
    page[0] = 1;
    pid_t child = fork();
    if (child == 0) {
        _exit(page[0]);
    }
    bool left = child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) &&
                WEXITSTATUS(status) == 1;
    munmap((void *)page, size);
    if (left) {
        printf("left out: %s: MADV_WIPEONFORK does nothing here\n", what);
    }
    return !left;
}

/* Returns whether MADV_POPULATE_WRITE fills the holes of an object (since Linux 5.14). qemu accepts
 * the call and does nothing. what: the test that asks. */
static inline bool holes_can_be_filled(const char *what)
{
    size_t size = (size_t)sysconf(_SC_PAGESIZE);
    struct stat status = {0};
    int fd = memfd_create("holes", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, (off_t)size) != 0) {
        return true; /* the emulation is not at fault, so the test must run */
    }
    void *page = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    bool empty = page != MAP_FAILED &&
                 (madvise(page, size, MADV_POPULATE_WRITE) == 0 || errno == EINVAL) &&
                 fstat(fd, &status) == 0 && status.st_blocks == 0;
    if (page != MAP_FAILED) {
        munmap(page, size);
    }
    close(fd);
    if (empty) {
        printf("left out: %s: MADV_POPULATE_WRITE does nothing here\n", what);
    }
    return !empty;
}

/* Returns whether descriptors that arrive over a socket are closed if the reader has no room for
 * them. qemu gives the kernel more room than the reader has, and leaves those descriptors open.
 * what: the test that asks. The call itself may leave such descriptors open. */
static inline bool surplus_descriptors_are_closed(const char *what)
{
    enum { SENT = 4 };
    union {
        struct cmsghdr align;
        char space[CMSG_SPACE(SENT * sizeof(int))];
    } control;
    int pair[2];
    int sent[SENT];
    char byte = 0;
    struct iovec vector = {.iov_base = &byte, .iov_len = 1};
    struct msghdr message = {.msg_iov = &vector,
                             .msg_iovlen = 1,
                             .msg_control = control.space,
                             .msg_controllen = sizeof(control.space)};
    if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair) != 0) {
        return true;
    }
    int first_free = dup(pair[0]);
    close(first_free);
    for (int i = 0; i < SENT; i++) {
        sent[i] = pair[0];
    }
    memset(&control, 0, sizeof(control));
    control.align = (struct cmsghdr){
        .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(sent))};
    memcpy(CMSG_DATA(&control.align), sent, sizeof(sent));
    bool passed = sendmsg(pair[0], &message, 0) == 1;
    message.msg_controllen = CMSG_SPACE(sizeof(int)); /* room for 2 descriptors, due to padding */
    passed = passed && recvmsg(pair[1], &message, 0) == 1;
    int after = dup(pair[0]);
    close(after);
    close(pair[0]);
    close(pair[1]);
    if (passed && after - first_free > 2) {
        printf("left out: %s: descriptors that find no room stay open here\n", what);
        return false;
    }
    return true;
}

/* Returns whether orphans can be adopted (PR_SET_CHILD_SUBREAPER, since Linux 3.4), which qemu
 * refuses. A test that needs another feature which qemu lacks, and which is hard to try, may ask
 * this instead. what: the test that asks; why: the reason that is printed. */
static inline bool orphans_are_adopted(const char *what, const char *why)
{
    bool adopted = prctl(PR_SET_CHILD_SUBREAPER, 1) == 0;
    (void)prctl(PR_SET_CHILD_SUBREAPER, 0);
    if (!adopted) {
        printf("left out: %s: %s\n", what, why);
    }
    return adopted;
}

/* Returns whether the resident memory of another process has only that process's own pages. Under
 * an emulator it also has the code that the emulator generated, which grows while the process runs.
 * program: the name by which the process was started; what: the test that asks. */
static inline bool resident_is_its_own(const char *what, pid_t pid, const char *program)
{
    char link[64];
    char running[4096];
    snprintf(link, sizeof(link), "/proc/%d/exe", (int)pid);
    ssize_t size = readlink(link, running, sizeof(running) - 1);
    if (size <= 0) {
        return true;
    }
    running[size] = '\0';
    const char *name = strrchr(running, '/');
    const char *meant = strrchr(program, '/');
    bool own = name == NULL || strcmp(name, meant != NULL ? meant : program) == 0;
    if (!own) {
        printf("left out: %s: how much memory it has: %s runs it\n", what, running);
    }
    return own;
}

/* Returns whether a process can be traced, which qemu does not emulate. what: the test that
 * asks. */
static inline bool processes_are_traced(const char *what)
{
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        _exit(ptrace(PTRACE_TRACEME, 0, NULL, NULL) == 0 ? 0 : 1);
    }
    bool untraced = child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) &&
                    WEXITSTATUS(status) == 1;
    if (untraced) {
        printf("left out: %s: nothing is traced here\n", what);
    }
    return !untraced;
}

/* Returns whether packet sockets have the options that the tests' switch needs (cluster/relay.c),
 * which qemu lacks. what: the test that asks. The caller must be allowed to open packet sockets. */
static inline bool packet_options_are_known(const char *what)
{
    int on = 1;
    int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
    bool unknown = fd >= 0 && setsockopt(fd, SOL_PACKET, PACKET_VNET_HDR, &on, sizeof(on)) != 0 &&
                   errno == ENOPROTOOPT;
    if (fd >= 0) {
        close(fd);
    }
    if (unknown) {
        printf("left out: %s: packet sockets have no options here\n", what);
    }
    return !unknown;
}

#endif
