/*
 * One frame a packet over the agent's socket; descriptors come with some, none goes there.
 *
 * The socket is non-blocking; who waits polls it. Whatever is wrong with it or with what comes
 * (a hang-up, a timeout, rubbish) ends the connection: socket_down(). The next call that needs the
 * agent connects again.
 */
#include "client.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

void socket_down(hf_client *client)
{
    if (client->socket_fd >= 0) {
        close(client->socket_fd);
        client->socket_fd = -1;
    }
    if (client->connection_state != CONNECTION_DOWN) {
        client->connection_state = CONNECTION_DOWN;
        client->retry_ns = 0;
        /* release: pairs with the acquire of who sees to the agent; it then takes the mutex */
        atomic_store_explicit(&client->down, true, memory_order_release);
        events_look(client);
    }
}

void answer_close_fds(struct answer *answer)
{
    for (size_t i = 0; i < 2; i++) {
        if (answer->fds[i] >= 0) {
            close(answer->fds[i]);
            answer->fds[i] = -1;
        }
    }
}

/* Polls the socket. false: nothing happened until deadline_ns. */
static bool socket_wait(hf_client *client, short what, int64_t deadline_ns)
{
    for (;;) { /* ends by the deadline */
        int64_t left_ns = deadline_ns - boottime_ns();
        if (left_ns <= 0) {
            return false;
        }
        struct timespec timeout = {.tv_sec = left_ns / NS_PER_S, .tv_nsec = left_ns % NS_PER_S};
        struct pollfd pollfd = {.fd = client->socket_fd, .events = what};
        int ready = ppoll(&pollfd, 1, &timeout, NULL);
        if (ready > 0) {
            return true;
        }
        if (ready < 0 && errno != EINTR) {
            return true; /* the call that follows meets the error and tells it */
        }
    }
}

int socket_send(hf_client *client, const struct hfi_frame *frame)
{
    size_t size = hfi_frame_encode(frame, client->outgoing, sizeof(client->outgoing));
    if (size == 0) {
        return HF_EINVAL;
    }
    int64_t deadline_ns = boottime_ns() + ANSWER_MS * NS_PER_MS;
    for (;;) { /* ends by the deadline */
        ssize_t sent = send(client->socket_fd, client->outgoing, size, MSG_NOSIGNAL);
        if (sent == (ssize_t)size) {
            return 0;
        }
        if (sent < 0 && errno == EINTR) {
            continue;
        }
        if (sent < 0 && errno == EAGAIN && socket_wait(client, POLLOUT, deadline_ns)) {
            continue;
        }
        socket_down(client);
        return HF_ENOAGENT;
    }
}

/* Takes the descriptors out of a message; more than two are closed, and are an error. */
static bool take_fds(struct msghdr *message, struct answer *answer)
{
    size_t count = 0;
    for (struct cmsghdr *header = CMSG_FIRSTHDR(message); header != NULL;
         header = CMSG_NXTHDR(message, header)) {
        if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) {
            continue;
        }
        size_t here = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < here; i++, count++) {
            int fd;
            memcpy(&fd, CMSG_DATA(header) + i * sizeof(int), sizeof(int));
            if (count < 2) {
                answer->fds[count] = fd;
            } else {
                close(fd);
            }
        }
    }
    return count <= 2 && !(message->msg_flags & (MSG_TRUNC | MSG_CTRUNC));
}

/* One recvmsg. 1; 0: nothing there; HF_ENOAGENT; HF_EPROTO. */
static int receive_now(hf_client *client, struct answer *answer)
{
    struct iovec part = {.iov_base = client->packet, .iov_len = sizeof(client->packet)};
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(4 * sizeof(int))];
    } control;
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.space,
                             .msg_controllen = sizeof(control.space)};
    answer->fds[0] = answer->fds[1] = -1;
    ssize_t got = recvmsg(client->socket_fd, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    if (got < 0) {
        return errno == EAGAIN || errno == EINTR ? 0 : HF_ENOAGENT;
    }
    bool good = take_fds(&message, answer);
    if (got == 0 && good && answer->fds[0] < 0) {
        return HF_ENOAGENT; /* it hung up */
    }
    struct hfi_frame_error error;
    if (!good ||
        hfi_frame_decode(client->packet, (size_t)got, &answer->frame, &answer->cursor, &error) !=
            0 ||
        answer->frame.kind < HFI_FRAME_WELCOME) {
        answer_close_fds(answer);
        return HF_EPROTO;
    }
    answer->size = (size_t)got;
    return 1;
}

int socket_receive(hf_client *client, int64_t deadline_ns, struct answer *answer)
{
    for (;;) { /* ends by the deadline */
        int result = receive_now(client, answer);
        if (result < 0) {
            socket_down(client);
        }
        if (result != 0) {
            return result;
        }
        if (deadline_ns == 0 || !socket_wait(client, POLLIN, deadline_ns)) {
            return 0;
        }
    }
}
