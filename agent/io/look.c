/* Packets of a Unix socket that are looked at in their place: see io/look.h. */
#include "io/look.h"

#include <assert.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "io/peer.h"

enum { DRAIN_MAX = 64 };

void look_no_copies(int copies[CLOSER_COPIES])
{
    for (unsigned i = 0; i < CLOSER_COPIES; i++) {
        copies[i] = -1;
    }
}

static void take_copies(struct msghdr *message, int copies[CLOSER_COPIES])
{
    unsigned count = 0;
    for (struct cmsghdr *header = CMSG_FIRSTHDR(message); header != NULL;
         header = CMSG_NXTHDR(message, header)) {
        if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) {
            continue;
        }
        size_t here = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < here && count < CLOSER_COPIES; i++, count++) {
            memcpy(&copies[count], CMSG_DATA(header) + i * sizeof(int), sizeof(int));
        }
    }
}

struct look look_at_packet(int fd)
{
    /* The kernel makes as many copies as there is room for: two behind the sender's name. */
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(sizeof(struct ucred)) + CMSG_SPACE(2 * sizeof(int))];
    } control;
    static_assert((sizeof(control.space) - CMSG_LEN(0)) / sizeof(int) <= CLOSER_COPIES,
                  "if no name is given there is room for more");
    struct msghdr message = {.msg_control = control.space, .msg_controllen = sizeof(control.space)};
    struct look look = {.size = 0};
    look_no_copies(look.copies);
    look.size = recvmsg(fd, &message, MSG_PEEK | MSG_TRUNC | MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (look.size >= 0) {
        look.there = look.size > 0 || message.msg_controllen > 0;
        look.cut = (message.msg_flags & MSG_CTRUNC) != 0;
        take_copies(&message, look.copies);
    }
    return look;
}

bool look_has_descriptors(const struct look *look)
{
    return look->cut || look->copies[0] >= 0;
}

bool look_has_several(const struct look *look)
{
    return look->copies[1] >= 0 || (look->cut && look->copies[0] >= 0);
}

bool look_has_pidfd(const struct look *look)
{
    return look->copies[0] >= 0 && !look_has_several(look) && peer_is_pidfd(look->copies[0]);
}

static void drop_packet(int fd)
{
    char byte;
    (void)!recv(fd, &byte, sizeof(byte), MSG_DONTWAIT | MSG_TRUNC);
}

bool look_drain(int fd, int copies[CLOSER_COPIES])
{
    for (unsigned i = 0; i < DRAIN_MAX; i++) {
        struct look look = look_at_packet(fd);
        if (look.size < 0) {
            continue; /* an error of the socket is told once */
        }
        if (!look.there) {
            return true;
        }
        if (look_has_descriptors(&look)) {
            memcpy(copies, look.copies, sizeof(look.copies));
            return false;
        }
        drop_packet(fd);
    }
    return false;
}
