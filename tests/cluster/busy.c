/* See busy.h: an epoll set whose mutex stays locked. */
#include "busy.h"

#include "agent_process.h"
#include "require.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

struct busy busy;

static void *wait_in_page(void *arg)
{
    (void)arg;
    (void)!epoll_wait(busy.set, busy.page, 1, -1);
    return NULL;
}

bool busy_open(const int *also, unsigned count)
{
    const long size = sysconf(_SC_PAGESIZE);
    struct uffdio_api api = {.api = UFFD_API};
    struct epoll_event event = {.events = EPOLLIN};
    struct epoll_event none = {.events = 0};
    struct pollfd fault = {.events = POLLIN};
    busy.faults = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
    if (busy.faults < 0) {
        return false;
    }
    busy.page = mmap(NULL, (size_t)size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
                     0);
    REQUIRE(busy.page != MAP_FAILED, "mmap");
    struct uffdio_register range = {.range = {(uintptr_t)busy.page, (uint64_t)size},
                                    .mode = UFFDIO_REGISTER_MODE_MISSING};
    REQUIRE(ioctl(busy.faults, UFFDIO_API, &api) == 0 &&
                ioctl(busy.faults, UFFDIO_REGISTER, &range) == 0,
            "userfaultfd: %s", strerror(errno));
    busy.set = epoll_create1(EPOLL_CLOEXEC);
    busy.event = eventfd(1, EFD_CLOEXEC);
    REQUIRE(epoll_ctl(busy.set, EPOLL_CTL_ADD, busy.event, &event) == 0, "epoll_ctl");
    for (unsigned i = 0; i < count; i++) {
        REQUIRE(epoll_ctl(busy.set, EPOLL_CTL_ADD, also[i], &none) == 0, "epoll_ctl");
    }
    REQUIRE(pthread_create(&busy.waiter, NULL, wait_in_page, NULL) == 0, "pthread_create");
    fault.fd = busy.faults;
    REQUIRE(poll(&fault, 1, GUARD_MS) == 1, "no page fault");
    return true;
}

void busy_close(void)
{
    struct uffdio_zeropage zero = {
        .range = {(uintptr_t)busy.page, (uint64_t)sysconf(_SC_PAGESIZE)}};
    REQUIRE(ioctl(busy.faults, UFFDIO_ZEROPAGE, &zero) == 0, "userfaultfd: %s", strerror(errno));
    REQUIRE(pthread_join(busy.waiter, NULL) == 0, "pthread_join");
    close(busy.set);
    close(busy.event);
    close(busy.faults);
}

int lingering(int *reader)
{
    static char junk[1 << 20];
    const struct linger linger = {.l_onoff = 1, .l_linger = LINGER_S};
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(address);
    const int small = 1;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    REQUIRE(setsockopt(listener, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small)) == 0 &&
                bind(listener, (struct sockaddr *)&address, size) == 0 &&
                listen(listener, 1) == 0 &&
                getsockname(listener, (struct sockaddr *)&address, &size) == 0 &&
                connect(fd, (struct sockaddr *)&address, size) == 0,
            "a connection: %s", strerror(errno));
    *reader = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    REQUIRE(*reader >= 0, "accept4: %s", strerror(errno));
    close(listener);
    /* the loop ends when the socket's buffer is full */
    while (send(fd, junk, sizeof(junk), MSG_DONTWAIT | MSG_NOSIGNAL) > 0) {
    }
    REQUIRE(setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)) == 0, "SO_LINGER");
    return fd;
}
