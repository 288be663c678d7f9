/* A process beside the agent: see io/beside.h. */
#include "io/beside.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    AGAIN_S = 1,
    INHERITED_MAX = 65536, /* without close_range(), close_others() closes the descriptors below
                            * this number */
};

union control {
    struct cmsghdr header;
    char space[CMSG_SPACE(BESIDE_FDS * sizeof(int))];
};

bool beside_send(int socket, const void *bytes, size_t size, const int *fds, unsigned count)
{
    struct iovec part = {.iov_base = (void *)bytes, .iov_len = size};
    union control control;
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    memset(&control, 0, sizeof(control));
    if (count > 0) {
        control.header.cmsg_level = SOL_SOCKET;
        control.header.cmsg_type = SCM_RIGHTS;
        control.header.cmsg_len = CMSG_LEN(count * sizeof(int));
        memcpy(CMSG_DATA(&control.header), fds, count * sizeof(int));
        message.msg_control = control.space;
        message.msg_controllen = CMSG_SPACE(count * sizeof(int));
    }
    return sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)size;
}

ssize_t beside_receive(int socket, void *bytes, size_t size, int fds[BESIDE_FDS])
{
    struct iovec part = {.iov_base = bytes, .iov_len = size};
    union control control;
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.space,
                             .msg_controllen = sizeof(control.space)};
    fds[0] = fds[1] = -1;
    ssize_t received = recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    const struct cmsghdr *header = received >= 0 ? CMSG_FIRSTHDR(&message) : NULL;
    if (header != NULL && header->cmsg_type == SCM_RIGHTS &&
        header->cmsg_len <= CMSG_LEN(BESIDE_FDS * sizeof(int))) {
        memcpy(fds, CMSG_DATA(header), header->cmsg_len - CMSG_LEN(0));
    }
    return received;
}

/* ---- in the process ---- */

void beside_reap(void (*ended)(pid_t pid))
{
    pid_t pid;
    while ((pid = waitpid(-1, NULL, WNOHANG)) > 0) { /* one iteration per child that has ended */
        ended(pid);
    }
}

bool beside_wait(bool takes, bool again)
{
    const struct timespec soon = {.tv_sec = AGAIN_S};
    struct pollfd pollfd = {.fd = BESIDE_FD, .events = takes ? POLLIN : 0};
    sigset_t all_but_one;
    sigfillset(&all_but_one);
    sigdelset(&all_but_one, SIGCHLD);
    return ppoll(&pollfd, 1, again ? &soon : NULL, &all_but_one) > 0;
}

static void on_child(int number)
{
    (void)number; /* the handler does nothing: it exists so that the end of a child interrupts
                   * ppoll() */
}

/* Closes all descriptors that the agent was started with, and the agent's end of the socket pair.
 * If that end stayed open here, this process would never notice that the agent has ended. */
static void close_others(void)
{
    if (syscall(SYS_close_range, BESIDE_FD + 1, UINT_MAX, 0) == 0) {
        return;
    }
    for (int fd = BESIDE_FD + 1; fd < INHERITED_MAX; fd++) { /* before Linux 5.9 there is no
                                                              * close_range() */
        close(fd);
    }
}

static void take_name(const char *name, char **arguments)
{
    (void)prctl(PR_SET_NAME, name);
    if (arguments != NULL) {
        char *last = arguments[0];
        for (char **each = arguments; *each != NULL; each++) {
            last = *each + strlen(*each); /* the arguments follow each other in memory */
        }
        size_t room = (size_t)(last - arguments[0]);
        size_t size = strlen(name) + 1;
        memset(arguments[0], 0, room);
        memcpy(arguments[0], name, room < size ? room : size);
    }
}

/* Gives up the agent's standard streams, signals, working folder, process name and system calls,
 * and does the work of the process. */
__attribute__((noreturn)) static void become(const struct beside *process, int fd, char **arguments)
{
    const struct sigaction action = {.sa_handler = on_child};
    sigset_t blocked;
    sigfillset(&blocked);
    if (process->signal != 0) {
        sigdelset(&blocked, process->signal);
    }
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (sigprocmask(SIG_SETMASK, &blocked, NULL) != 0 || sigaction(SIGCHLD, &action, NULL) != 0 ||
        !process->prepare() || null < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0 ||
        dup2(null, 2) < 0 || dup2(fd, BESIDE_FD) < 0 || chdir("/") != 0) {
        _exit(1);
    }
    close_others();
    take_name(process->name, arguments);
    (void)process->filter();
    process->serve();
    _exit(1);
}

/* ---- the agent's side ---- */

int beside_start(const struct beside *process, char **arguments)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
        return -1;
    }
    pid_t pid = fork();
    if (pid == 0) {
        become(process, ends[1], arguments);
    }
    int error = errno;
    close(ends[1]);
    if (pid < 0) {
        close(ends[0]);
        errno = error;
        return -1;
    }
    return ends[0];
}
