/* See hello.h: frames without the library. */
#include "hello.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

int hello_dial(const char *socket_path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    snprintf(address.sun_path, sizeof(address.sun_path), "%s", socket_path);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

bool hello_say(int fd, const struct hfi_frame *frame, int flags)
{
    static unsigned char bytes[HFI_FRAME_MAX];
    size_t size = hfi_frame_encode(frame, bytes, sizeof(bytes));
    return send(fd, bytes, size, MSG_NOSIGNAL | flags) == (ssize_t)size;
}

bool hello_receive(int fd, struct hfi_frame *frame, int *with)
{
    static unsigned char bytes[HFI_FRAME_MAX];
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(sizeof(int))];
    } control;
    struct iovec part = {.iov_base = bytes, .iov_len = sizeof(bytes)};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.space,
                             .msg_controllen = sizeof(control.space)};
    struct hfi_listed_cursor cursor;
    struct hfi_frame_error error;
    int came = -1;
    ssize_t got = recvmsg(fd, &message, MSG_CMSG_CLOEXEC);
    const struct cmsghdr *header = got > 0 ? CMSG_FIRSTHDR(&message) : NULL;
    if (header != NULL && header->cmsg_type == SCM_RIGHTS) {
        memcpy(&came, CMSG_DATA(header), sizeof(came));
    }
    if (with != NULL) {
        *with = came;
    } else if (came >= 0) {
        close(came);
    }
    return got > 0 && hfi_frame_decode(bytes, (size_t)got, frame, &cursor, &error) == 0;
}

bool hello_greet(int fd, const struct hello_as *as)
{
    struct hfi_frame frame = {.kind = HFI_FRAME_HELLO,
                              .request = 1,
                              .hello = {.version = HFI_PROTOCOL_VERSION,
                                        .pid = getpid(),
                                        .client = as->client,
                                        .nonce = as->nonce,
                                        .library = {.bytes = "1", .size = 1}}};
    return hello_say(fd, &frame, 0);
}

bool hello_welcome(int fd, struct hello_as *as)
{
    struct hfi_frame frame;
    if (!hello_greet(fd, as) || !hello_receive(fd, &frame, NULL) ||
        frame.kind != HFI_FRAME_WELCOME) {
        return false;
    }
    *as = (struct hello_as){.client = frame.welcome.client, .nonce = frame.welcome.nonce};
    return true;
}

int hello_enter(const char *socket_path, struct hello_as *as)
{
    struct hello_as stranger = {.client = 0};
    int fd = hello_dial(socket_path);
    if (fd >= 0 && !hello_welcome(fd, as != NULL ? as : &stranger)) {
        close(fd);
        return -1;
    }
    return fd;
}
