/*
 * This file sends and receives frames on the agent's socket. Each packet is one frame. The agent
 * sends a descriptor with some frames; a client sends none.
 *
 * The number of the socket's descriptor never changes. Threads ring on it without the mutex
 * (region_map.c), so the kernel must not give that number to another file. When a connection ends,
 * its socket is shut down but stays open, until dup2() puts the next socket in its place or
 * hf_disconnect() closes it. HELLO is sent before dup2(), so that no ring precedes HELLO. A forked
 * child shares the socket. It may close its descriptor, but must not shut the socket down.
 *
 * SEND_ROOM bounds the unread bytes in the socket, because the agent may delay the frames of this
 * user: a request must not wait behind hundreds of rings.
 *
 * The socket is non-blocking, and a waiting thread polls it. A hang-up, a time-out or an invalid
 * frame ends the connection (socket_down()). The next call that needs the agent connects again.
 */
#include "client.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* The value for SO_SNDBUF, which the kernel doubles. The kernel counts some 800 bytes for a small
 * packet. The largest frame of a client, CHECK, has about 1000 bytes. */
enum { SEND_ROOM = 8192 };

int socket_up(hf_client *client, int socket, const struct hfi_frame *hello)
{
    const int room = SEND_ROOM;
    size_t size = hfi_frame_encode(hello, client->outgoing, sizeof(client->outgoing));
    int error = HF_ENOAGENT;
    (void)setsockopt(socket, SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
    if (size == 0 || send(socket, client->outgoing, size, MSG_NOSIGNAL) != (ssize_t)size) {
        trouble_set(client, error, "%s", strerrordesc_np(errno));
        goto failed;
    }
    if (client->socket_fd < 0) {
        client->socket_fd = socket;
        return 0;
    }
    if (dup3(socket, client->socket_fd, O_CLOEXEC) < 0) {
        error = HF_ENOMEM;
        trouble_set(client, error, "%s", strerrordesc_np(errno));
        goto failed;
    }
    close(socket);
    return 0;
failed:
    close(socket);
    return error;
}

void socket_down(hf_client *client)
{
    if (client->connection_state != CONNECTION_DOWN) {
        /* Otherwise the epoll set would report the hang-up of the old socket until the client has
         * the next connection. */
        events_disconnected(client);
        shutdown(client->socket_fd, SHUT_RDWR);
        client->connection_state = CONNECTION_DOWN;
        client->retry_ns = 0;
        /* release: pairs with the acquire load of `down` in other threads, which then lock
         * socket_mutex */
        atomic_store_explicit(&client->down, true, memory_order_release);
        events_look(client);
    }
}

void answer_close_fd(struct answer *answer)
{
    if (answer->fd >= 0) {
        close(answer->fd);
        answer->fd = -1;
    }
}

/* Polls the socket for the events `what`. Returns false if none came until deadline_ns. */
static bool socket_wait(hf_client *client, short what, int64_t deadline_ns)
{
    for (;;) { /* the loop ends by the deadline */
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
            /* the caller's next call on the socket fails with this error and reports it */
            return true;
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
    for (;;) { /* the loop ends by the deadline */
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
        trouble_set(client, HF_ENOAGENT, "the agent does not read: %s", strerrordesc_np(errno));
        socket_down(client);
        return HF_ENOAGENT;
    }
}

/* Takes the descriptor of a message. If there are several, keeps only the first, and returns false.
 * *lost: a descriptor came, but this process has no room for one more. */
static bool take_fds(struct msghdr *message, struct answer *answer, bool *lost)
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
            if (count < 1) {
                answer->fd = fd;
            } else {
                close(fd);
            }
        }
    }
    *lost = count == 0 && (message->msg_flags & MSG_CTRUNC);
    return count <= 1 && !(message->msg_flags & (MSG_TRUNC | MSG_CTRUNC));
}

/* Calls recvmsg() once. Returns 1 for a frame, 0 if no packet is there, HF_ENOAGENT or
 * HF_EPROTO. */
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
    answer->fd = -1;
    ssize_t got = recvmsg(client->socket_fd, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
        return 0;
    }
    if (got < 0) {
        trouble_set(client, HF_ENOAGENT, "%s", strerrordesc_np(errno));
        return HF_ENOAGENT;
    }
    bool good = take_fds(&message, answer, &client->no_descriptor);
    if (got == 0 && good && answer->fd < 0) {
        trouble_set(client, HF_ENOAGENT, "the agent hung up");
        return HF_ENOAGENT;
    }
    struct hfi_frame_error error = {"a frame with a lost or unexpected descriptor"};
    if (!good ||
        hfi_frame_decode(client->packet, (size_t)got, &answer->frame, &answer->cursor, &error) !=
            0 ||
        answer->frame.kind < HFI_FRAME_WELCOME) {
        answer_close_fd(answer);
        trouble_set(client, HF_EPROTO, "the agent sent an invalid frame: %s", error.text);
        return HF_EPROTO;
    }
    answer->size = (size_t)got;
    return 1;
}

int socket_receive(hf_client *client, int64_t deadline_ns, struct answer *answer)
{
    for (;;) { /* the loop ends by the deadline */
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
