/*
 * A client has memory that never comes (fuse_page.h). With that memory it makes every possible call
 * on each descriptor that it has from the agent (docs/SECURITY.md, "Locks of the kernel that a
 * client can keep"). The test needs root, to have such memory and to become another user. Otherwise
 * it is skipped.
 */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../suite_main.h"
#include "agent_process.h"
#include "fuse_page.h"
#include "holdfast/holdfast.h"
#include "proto/frame.h"
#include "require.h"

enum { NOBODY = 65534, GOT_MAX = 4, CULPRITS_MAX = 64, SERVED_MS = 1500 };

static struct fuse_page page;

/* ---- the memory that never comes ---- */

static pid_t start_writer(int to)
{
    pid_t pid = fork_tied();
    REQUIRE(pid >= 0, "%s", strerror(errno));
    if (pid == 0) {
        _exit(write(to, page.memory, 1) == -1 && errno == EFAULT ? 3 : 4);
    }
    return pid;
}

/* A process that writes from such memory waits until it is killed, or until the server ends. */
START_TEST(such_memory_keeps_its_writer)
{
    int status = 0;
    int ends[2];
    ck_assert_int_eq(pipe(ends), 0);
    pid_t writer = start_writer(ends[1]);
    fuse_page_await(&page);
    sleep_ms(50);
    ck_assert_int_eq(waitpid(writer, &status, WNOHANG), 0);
    kill_process(writer);
    writer = start_writer(ends[1]);
    sleep_ms(50);
    fuse_page_abort(&page);
    ck_assert_int_eq(wait_for(writer), 3 << 8);
    close(ends[0]);
    close(ends[1]);
}
END_TEST

/* ---- the descriptors that a client has from its agent ---- */

static struct agent_process agent;
/* the client's end of the connection, and the descriptors that it received */
static int got[GOT_MAX];
static unsigned got_count;

static void say(int fd, const struct hfi_frame *frame)
{
    unsigned char bytes[512];
    size_t size = hfi_frame_encode(frame, bytes, sizeof(bytes));
    REQUIRE(send(fd, bytes, size, MSG_NOSIGNAL) == (ssize_t)size, "send: %s", strerror(errno));
}

/* Receives a frame and returns its kind. Adds the descriptors that come with it to `got`. */
static enum hfi_frame_kind receive(int fd)
{
    static unsigned char bytes[HFI_FRAME_MAX];
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(GOT_MAX * sizeof(int))];
    } control;
    struct iovec part = {.iov_base = bytes, .iov_len = sizeof(bytes)};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.space,
                             .msg_controllen = sizeof(control.space)};
    struct hfi_frame frame;
    struct hfi_frame_error error;
    ssize_t size = recvmsg(fd, &message, 0);
    REQUIRE(size > 0 && hfi_frame_decode(bytes, (size_t)size, &frame, NULL, &error) == 0,
            "no answer");
    const struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    if (header != NULL && header->cmsg_type == SCM_RIGHTS) {
        size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        REQUIRE(count + got_count <= GOT_MAX, "%zu descriptors", count);
        memcpy(got + got_count, CMSG_DATA(header), count * sizeof(int));
        got_count += (unsigned)count;
    }
    return frame.kind;
}

/* Connects, and fills `got` with every kind of descriptor that a client can have. */
static void enter(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const struct hfi_frame hello = {.kind = HFI_FRAME_HELLO,
                                    .request = 1,
                                    .hello = {.version = HFI_PROTOCOL_VERSION,
                                              .pid = getpid(),
                                              .library = {.bytes = "1", .size = 1}}};
    const struct hfi_frame open_lock = {
        .kind = HFI_FRAME_OPEN, .request = 2, .open = {.name = {.bytes = "open/a", .size = 6}}};
    int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
    snprintf(address.sun_path, sizeof(address.sun_path), "%s", agent.socket);
    REQUIRE(connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0, "connect");
    got[0] = fd;
    got_count = 1;
    say(fd, &hello);
    REQUIRE(receive(fd) == HFI_FRAME_WELCOME, "not welcomed");
    say(fd, &open_lock);
    REQUIRE(receive(fd) == HFI_FRAME_REGION && receive(fd) == HFI_FRAME_OPENED, "not opened");
    REQUIRE(got_count > 1, "no region");
}

static void call_write(int fd)
{
    (void)!write(fd, page.memory, 3);
}

static void call_pwritev(int fd)
{
    struct iovec part = {.iov_base = page.memory, .iov_len = 4096};
    (void)!pwritev(fd, &part, 1, 0);
}

static void call_send(int fd)
{
    (void)!send(fd, page.memory, 3, MSG_NOSIGNAL);
}

static void call_sendmsg(int fd)
{
    char byte = 0;
    struct iovec part = {.iov_base = &byte, .iov_len = 1};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = page.memory,
                             .msg_controllen = CMSG_SPACE(sizeof(int))};
    (void)!sendmsg(fd, &message, MSG_NOSIGNAL);
}

static void call_sendfile(int fd)
{
    off_t at = 0;
    (void)!sendfile(fd, page.file, &at, 3);
}

static void call_read(int fd)
{
    (void)!read(fd, page.memory, 4096);
}

static void call_recv(int fd)
{
    (void)!recv(fd, page.memory, 4096, 0);
}

static void call_ioctl(int fd)
{
    (void)!ioctl(fd, FIONREAD, page.memory);
}

/* Keeps the lock of an epoll set that contains the descriptor. Returns only if the set cannot
 * contain the descriptor. */
static void call_epoll(int fd)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT};
    int set = epoll_create1(0);
    if (epoll_ctl(set, EPOLL_CTL_ADD, fd, &event) == 0) {
        (void)!epoll_wait(set, (struct epoll_event *)(void *)page.memory, 1, -1);
    }
}

static const struct {
    const char *name;
    void (*call)(int fd);
    bool waits; /* whether the call blocks on every descriptor */
} calls[] = {{"write", call_write, true},        {"pwritev", call_pwritev, false},
             {"send", call_send, false},         {"sendmsg", call_sendmsg, false},
             {"sendfile", call_sendfile, false}, {"read", call_read, true},
             {"recv", call_recv, false},         {"ioctl", call_ioctl, false},
             {"epoll_wait", call_epoll, false}};

enum { CALLS = sizeof(calls) / sizeof(calls[0]) };

/* Starts a process of another user for each call on each descriptor. Returns when all these calls
 * are under way. */
static unsigned start_culprits(pid_t pids[CULPRITS_MAX])
{
    unsigned count = 0;
    for (unsigned i = 0; i < CALLS; i++) {
        for (unsigned k = 0; k < got_count; k++) {
            pid_t pid = fork_tied();
            REQUIRE(pid >= 0 && count < CULPRITS_MAX, "fork");
            if (pid == 0) {
                calls[i].call(got[k]);
                while (!calls[i].waits) {
                    pause();
                }
                _exit(0);
            }
            pids[count++] = pid;
        }
    }
    return count;
}

/* Starts a process that has every descriptor, and whose children make the calls all the time. */
static pid_t start_client(void)
{
    int ends[2];
    char begun;
    REQUIRE(pipe(ends) == 0, "pipe");
    pid_t pid = fork_tied();
    REQUIRE(pid >= 0, "fork");
    if (pid == 0) {
        pid_t pids[CULPRITS_MAX];
        REQUIRE(setresgid(NOBODY, NOBODY, NOBODY) == 0 && setresuid(NOBODY, NOBODY, NOBODY) == 0,
                "nobody");
        enter();
        unsigned count = start_culprits(pids);
        sleep_ms(200);
        for (unsigned i = 0; i < count; i++) {
            REQUIRE(waitpid(pids[i], NULL, WNOHANG) == 0, "culprit %u has ended", i);
        }
        REQUIRE(write(ends[1], "x", 1) == 1, "write");
        pause();
    }
    close(ends[1]);
    REQUIRE(read(ends[0], &begun, 1) == 1, "the client has ended");
    close(ends[0]);
    return pid;
}

static void expect_served(hf_client *honest)
{
    static unsigned locks;
    for (int64_t end_ns = boottime_now() + SERVED_MS * MS; boottime_now() < end_ns;) {
        char name[32];
        hf_lock *lock;
        snprintf(name, sizeof(name), "honest/%u", locks++);
        ck_assert_int_eq(hf_open(honest, name, NULL, &lock), 0);
        ck_assert_int_eq(hf_acquire(lock, HF_EXCLUSIVE, GUARD_MS * MS, NULL), 0);
        ck_assert_int_eq(hf_release(lock), 0);
        hf_close(lock);
        sleep_ms(1);
    }
}

/* The client blocks only itself. The agent serves other clients, and can end. The next agent starts
 * and keeps the holds of the other clients. */
START_TEST(it_keeps_nothing_from_the_agent)
{
    hf_client *honest;
    hf_lock *kept;
    agent_create(&agent, "[agent]\nname = host-a\ncell = page\nstate_dir = %D/state\n"
                         "socket = %D/agent.sock\n[voters]\nhost-a = tcp://127.0.0.1:7411\n"
                         "[cell]\nsession_ttl = 10s\n"
                         "[namespace.open]\nusers = nobody\n[namespace.honest]\nusers = root\n");
    agent_admit_all(&agent);
    agent_start(&agent);
    struct hf_options options = {.size = sizeof(options), .socket = agent.socket};
    ck_assert_int_eq(hf_connect(&options, &honest), 0);
    ck_assert_int_eq(hf_open(honest, "honest/kept", NULL, &kept), 0);
    ck_assert_int_eq(hf_acquire(kept, HF_EXCLUSIVE, -1, NULL), 0);
    pid_t client = start_client();
    expect_served(honest);
    ck_assert_int_eq(agent_stop(&agent), 0);
    agent_start(&agent);
    expect_served(honest);
    ck_assert_int_gt(hf_remaining_ns(kept), 0);
    ck_assert_uint_eq(agent_logged(&agent, "event=session_continued"), 1);
    ck_assert_uint_eq(agent_logged(&agent, "state=jeopardy"), 0);
    ck_assert_int_eq(waitpid(client, NULL, WNOHANG), 0);
    fuse_page_abort(&page);
    kill_process(client);
    hf_disconnect(honest);
    ck_assert_int_eq(agent_stop(&agent), 0);
    agent_destroy(&agent);
}
END_TEST

static void have_page(void)
{
    ck_assert(fuse_page_create(&page));
}

static void leave_page(void)
{
    fuse_page_destroy(&page);
}

int main(void)
{
    if (geteuid() != 0) {
        fprintf(stderr, "skipped: only root can have memory of a FUSE server of its own\n");
        return 77;
    }
    if (!fuse_page_create(&page)) {
        return 77;
    }
    fuse_page_destroy(&page);
    TCase *tests = tcase_create("page_never_comes");
    tcase_add_checked_fixture(tests, have_page, leave_page);
    tcase_set_timeout(tests, 120);
    tcase_add_test(tests, such_memory_keeps_its_writer);
    tcase_add_test(tests, it_keeps_nothing_from_the_agent);
    return suite_main("page_never_comes", tests);
}
