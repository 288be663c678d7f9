/*
 * Clients break the rules of a real agent, in one way at a time. Each of these clients harms only
 * itself: after every attack an honest client takes and releases a lock, and the agent has no more
 * descriptors than before. The attacks with descriptors are repeated with an agent whose kernel
 * seems to have no option to refuse descriptors.
 */
#include <check.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "../emulation.h"
#include "../suite_main.h"
#include "agent_process.h"
#include "busy.h"
#include "holdfast/holdfast.h"
#include "proto/frame.h"
#include "require.h"

enum { DESCRIPTORS_MAX = 253, SILENT = 100, FLOOD = 20000, LINGERING = 40 };
/* the value of SOCKET_GREETING_MAX_PER_USER in io/socket.h */
enum { PER_USER = 128 };

static struct agent_process agent;
static unsigned descriptors_before;
static bool refuses; /* the kernel refuses to pass descriptors to the agent */

/* Checks that an honest client is served. */
static void honest(void)
{
    hf_client *client;
    hf_lock *lock;
    struct hf_options options = {.size = sizeof(options), .socket = agent.socket};
    ck_assert_int_eq(hf_connect(&options, &client), 0);
    ck_assert_int_eq(hf_open(client, "honest", NULL, &lock), 0);
    ck_assert_int_eq(hf_acquire(lock, HF_EXCLUSIVE, 15000 * MS, NULL), 0);
    ck_assert_int_eq(hf_release(lock), 0);
    hf_close(lock);
    hf_disconnect(client);
}

static void start_without(unsigned without)
{
    agent_create(&agent, NULL);
    agent.without = without;
    refuses = agent_refuses_descriptors(&agent);
    agent_start(&agent);
    honest();
    sleep_ms(200);
    descriptors_before = agent_descriptors(&agent);
}

static void set_up(void)
{
    start_without(0);
}

static void set_up_older(void)
{
    start_without(WITHOUT_PEERPIDFD | WITHOUT_PASSRIGHTS);
}

/* Checks that the agent lives, serves an honest client, and keeps no descriptor of the attack. */
static void tear_down(void)
{
    honest();
    unsigned now = 0;
    for (unsigned waited_ms = 0; waited_ms < GUARD_MS; waited_ms += 50) {
        now = agent_descriptors(&agent);
        if (now <= descriptors_before) {
            break;
        }
        sleep_ms(50);
    }
    ck_assert_uint_le(now, descriptors_before);
    ck_assert_int_eq(agent_stop(&agent), 0);
    agent_destroy(&agent);
}

static int dial(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    snprintf(address.sun_path, sizeof(address.sun_path), "%s", agent.socket);
    ck_assert_int_eq(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    return fd;
}

static int own_pidfd(void)
{
    return (int)syscall(SYS_pidfd_open, getpid(), 0);
}

/* Sends one packet with `count` descriptors. */
static ssize_t send_all(int fd, const void *bytes, size_t size, const int *with, unsigned count)
{
    static union {
        struct cmsghdr header;
        char space[CMSG_SPACE(DESCRIPTORS_MAX * sizeof(int))];
    } control;
    struct iovec part = {.iov_base = (void *)(uintptr_t)bytes, .iov_len = size};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (count > 0) {
        memset(&control, 0, sizeof(control));
        message.msg_control = control.space;
        message.msg_controllen = CMSG_SPACE(count * sizeof(int));
        control.header.cmsg_level = SOL_SOCKET;
        control.header.cmsg_type = SCM_RIGHTS;
        control.header.cmsg_len = CMSG_LEN(count * sizeof(int));
        memcpy(CMSG_DATA(&control.header), with, count * sizeof(int));
    }
    return sendmsg(fd, &message, MSG_NOSIGNAL);
}

/* Returns whether the packet with descriptors was sent. If `refuses` is set, the kernel must refuse
 * to send it. */
static bool is_sent(ssize_t sent)
{
    if (refuses) {
        ck_assert_int_eq(sent, -1);
        ck_assert_int_eq(errno, EPERM);
    } else {
        ck_assert_int_ge(sent, 0);
    }
    return !refuses;
}

/* Sends one packet with `count` copies of descriptor `with`. */
static ssize_t send_with(int fd, const void *bytes, size_t size, int with, unsigned count)
{
    int all[DESCRIPTORS_MAX];
    for (unsigned i = 0; i < count; i++) {
        all[i] = with;
    }
    return send_all(fd, bytes, size, all, count);
}

static size_t hello_of(unsigned char *bytes, uint32_t version)
{
    struct hfi_frame frame = {
        .kind = HFI_FRAME_HELLO,
        .request = 7,
        .hello = {.version = version, .pid = getpid(), .library = {.bytes = "1", .size = 1}}};
    size_t size = hfi_frame_encode(&frame, bytes, HFI_FRAME_MAX);
    ck_assert_uint_gt(size, 0);
    return size;
}

/* Returns the agent's answer: the error of a DONE, or 1 for another frame, or 0 if the agent hung
 * up. */
static int answer(int fd, uint64_t *request)
{
    unsigned char bytes[HFI_FRAME_MAX];
    struct pollfd pollfd = {.fd = fd, .events = POLLIN};
    struct hfi_frame frame;
    struct hfi_listed_cursor cursor;
    struct hfi_frame_error error;
    ck_assert_int_eq(poll(&pollfd, 1, GUARD_MS), 1);
    ssize_t size = recv(fd, bytes, sizeof(bytes), 0);
    if (size <= 0) {
        return 0;
    }
    ck_assert_int_eq(hfi_frame_decode(bytes, (size_t)size, &frame, &cursor, &error), 0);
    if (request != NULL) {
        *request = frame.request;
    }
    return frame.kind == HFI_FRAME_DONE ? frame.error : 1;
}

/* Checks that the client gets that error, and that the agent then hangs up. */
static void is_refused(int fd, int error)
{
    ck_assert_int_eq(answer(fd, NULL), error);
    ck_assert_int_eq(answer(fd, NULL), 0);
    close(fd);
}

/* Returns a connection on which the agent has sent WELCOME. */
static int greeted(void)
{
    unsigned char bytes[HFI_FRAME_MAX];
    int fd = dial();
    ck_assert_int_gt(send(fd, bytes, hello_of(bytes, HFI_PROTOCOL_VERSION), 0), 0);
    ck_assert_int_eq(answer(fd, NULL), 1);
    return fd;
}

START_TEST(rubbish_before_hello)
{
    int fd = dial();
    ck_assert_int_gt(send(fd, "rubbish", 7, 0), 0);
    is_refused(fd, HF_EPROTO);
}
END_TEST

START_TEST(rubbish_after_hello)
{
    uint64_t request = 1;
    int fd = greeted();
    ck_assert_int_gt(send(fd, "\x93\xff\xff\xff", 4, 0), 0);
    ck_assert_int_eq(answer(fd, &request), HF_EPROTO);
    ck_assert_uint_eq(request, 0);
    ck_assert_int_eq(answer(fd, NULL), 0);
    close(fd);
}
END_TEST

START_TEST(a_packet_that_is_too_large)
{
    static unsigned char bytes[HFI_FRAME_MAX + 1];
    int fd = greeted();
    ck_assert_int_gt(send(fd, bytes, sizeof(bytes), 0), 0);
    ck_assert_int_eq(answer(fd, NULL), 0);
    close(fd);
}
END_TEST

/* If the kernel passes the descriptor, the agent hangs up and never receives the descriptor. If the
 * kernel refuses the packet, the client sends HELLO without the descriptor and gets its answer. */
START_TEST(a_hello_with_a_descriptor)
{
    unsigned char bytes[HFI_FRAME_MAX];
    size_t size = hello_of(bytes, HFI_PROTOCOL_VERSION);
    int fd = dial();
    int other = _i == 0 ? open("/dev/null", O_RDONLY | O_CLOEXEC) : own_pidfd();
    bool sent = is_sent(send_with(fd, bytes, size, other, 1));
    close(other);
    if (!sent) {
        ck_assert_int_gt(send(fd, bytes, size, 0), 0);
    }
    ck_assert_int_eq(answer(fd, NULL), sent ? 0 : 1);
    ck_assert_uint_eq(agent_logged(&agent, "found a descriptor with a packet"), sent);
    close(fd);
}
END_TEST

/* An older or newer library may send any bytes after the version. */
START_TEST(another_protocol_version)
{
    static const struct {
        const char *bytes;
        size_t size;
        const char *told;
    } hellos[] = {
        {"\x97\x01\x07\x01\x05\x00\x00\xa5"
         "0.1.0",
         13, "HELLO: found version 1 of the socket's protocol, expected 5"},
        {"\x95\x01\x07\x06\xc0\x81\x01\x02", 8,
         "HELLO: found version 6 of the socket's protocol, expected 5"},
        {"\x93\x01\x07\xce\xff\xff\xff\xff", 8, "HELLO: found version 4294967295 of"},
    };
    uint64_t request = 0;
    int fd = dial();
    ck_assert_int_gt(send(fd, hellos[_i].bytes, hellos[_i].size, 0), 0);
    ck_assert_int_eq(answer(fd, &request), HF_EVERSION);
    ck_assert_uint_eq(request, 7);
    ck_assert_int_eq(answer(fd, NULL), 0);
    close(fd);
    ck_assert_uint_eq(agent_logged(&agent, hellos[_i].told), 1);
}
END_TEST

START_TEST(a_second_hello)
{
    unsigned char bytes[HFI_FRAME_MAX];
    int fd = greeted();
    ck_assert_int_gt(send(fd, bytes, hello_of(bytes, HFI_PROTOCOL_VERSION), 0), 0);
    is_refused(fd, HF_EPROTO);
}
END_TEST

START_TEST(a_frame_before_hello)
{
    unsigned char bytes[64];
    struct hfi_frame frame = {.kind = HFI_FRAME_STATUS, .request = 1};
    int fd = dial();
    ck_assert_int_gt(send(fd, bytes, hfi_frame_encode(&frame, bytes, sizeof(bytes)), 0), 0);
    is_refused(fd, HF_EPROTO);
}
END_TEST

START_TEST(a_frame_that_only_an_agent_sends)
{
    unsigned char bytes[64];
    struct hfi_frame frame = {.kind = HFI_FRAME_DONE, .request = 1};
    int fd = greeted();
    ck_assert_int_gt(send(fd, bytes, hfi_frame_encode(&frame, bytes, sizeof(bytes)), 0), 0);
    ck_assert_int_eq(answer(fd, NULL), 0);
    close(fd);
}
END_TEST

/* Sends many descriptors, before and after HELLO. tear_down() counts the agent's descriptors. */
START_TEST(descriptors_that_nobody_asked_for)
{
    unsigned char bytes[HFI_FRAME_MAX];
    int other = open("/dev/null", O_RDONLY);
    struct hfi_frame frame = {.kind = HFI_FRAME_STATUS, .request = 1};
    for (unsigned i = 0; i < 20; i++) {
        int fd = dial();
        size_t size = hello_of(bytes, HFI_PROTOCOL_VERSION);
        if (is_sent(send_with(fd, bytes, size, other, i % 2 == 0 ? 2 : DESCRIPTORS_MAX))) {
            ck_assert_int_eq(answer(fd, NULL), 0);
        }
        close(fd);
        fd = greeted();
        size = hfi_frame_encode(&frame, bytes, sizeof(bytes));
        if (is_sent(send_with(fd, bytes, size, other, 1))) {
            ck_assert_int_eq(answer(fd, NULL), 0);
        }
        close(fd);
        /* The agent hangs up because of the packet "x", so it never reads the next packets. */
        fd = greeted();
        ck_assert_int_gt(send(fd, "x", 1, 0), 0);
        for (unsigned j = 0; j < 5; j++) {
            (void)!send_with(fd, "x", 1, other, 100);
        }
        close(fd);
    }
    close(other);
}
END_TEST

/* ---- descriptors whose close blocks ---- */

enum way { ALONE, EMPTY, SECOND, ONE_OF_MANY, BOTH_ENDS, UNREAD, BEHIND_EMPTY, REFUSED, WAYS };

/* Sends a descriptor whose close lingers, and closes its own copy. The agent must be stopped at
 * that time, so that it gets the last reference. Returns the connection. */
static int send_last_lingering(enum way way, int *reader)
{
    unsigned char bytes[HFI_FRAME_MAX];
    size_t size = hello_of(bytes, HFI_PROTOCOL_VERSION);
    int all[200];
    int other = way == SECOND ? own_pidfd() : open("/dev/null", O_RDONLY | O_CLOEXEC);
    unsigned count = way == SECOND || way == BOTH_ENDS ? 2 : way == ONE_OF_MANY ? 200 : 1;
    for (unsigned i = 0; i < count; i++) {
        all[i] = other;
    }
    int fd = dial();
    if (way == UNREAD || way == BEHIND_EMPTY) {
        ck_assert_int_eq(send(fd, "x", way == UNREAD, MSG_NOSIGNAL), way == UNREAD);
    }
    if (way == BEHIND_EMPTY) { /* the agent takes an empty packet for the client's hang-up */
        ck_assert_int_eq(send(fd, "", 0, MSG_NOSIGNAL), 0);
    }
    all[count - 1] = lingering(reader);
    all[0] = way == BOTH_ENDS ? *reader : all[0];
    if (!is_sent(send_all(fd, bytes, way == EMPTY ? 0 : size, all, count))) {
        close(*reader); /* otherwise the test's own close() of the socket would block */
        *reader = -1;
    }
    if (way == BOTH_ENDS && *reader >= 0) {
        close(*reader);
        *reader = -1;
    }
    close(all[count - 1]);
    close(other);
    return fd;
}

static int send_lingering(enum way way, int *reader)
{
    agent_pause(&agent);
    int fd = send_last_lingering(way, reader);
    agent_continue(&agent);
    return fd;
}

static hf_lock *hold_by(const struct hf_options *options, hf_client **client)
{
    hf_lock *lock;
    ck_assert_int_eq(hf_connect(options, client), 0);
    ck_assert_int_eq(hf_open(*client, "held", NULL, &lock), 0);
    ck_assert_int_eq(hf_acquire(lock, HF_EXCLUSIVE, 15000 * MS, NULL), 0);
    return lock;
}

/* Takes a lock with another client, whose hold must outlive the attack. */
static hf_lock *hold(hf_client **client)
{
    struct hf_options options = {.size = sizeof(options), .socket = agent.socket};
    return hold_by(&options, client);
}

static void still_holds(hf_client *client, hf_lock *lock)
{
    ck_assert_int_gt(hf_remaining_ns(lock), 0);
    ck_assert_int_eq(hf_release(lock), 0);
    hf_close(lock);
    hf_disconnect(client);
}

/* The agent closes descriptors whose close lingers, and does not wait until a close is done. */
START_TEST(descriptors_whose_close_waits)
{
    static const int errors[WAYS] = {[UNREAD] = HF_EPROTO, [REFUSED] = HF_EFULL};
    int silent[PER_USER];
    int readers[WAYS];
    hf_client *client;
    hf_lock *lock = hold(&client);
    for (enum way way = 0; way < WAYS; way++) {
        for (unsigned i = 0; i < PER_USER && way == REFUSED; i++) {
            silent[i] = dial();
        }
        int fd = send_lingering(way, &readers[way]);
        if (errors[way] != 0) { /* the agent answers and hangs up long before all sockets are
                                 * closed */
            ck_assert_int_eq(answer(fd, NULL), errors[way]);
        }
        if (errors[way] == HF_EFULL) { /* the second DONE has the reason */
            ck_assert_int_eq(answer(fd, NULL), HF_EFULL);
        }
        if (errors[way] != 0 || way == BEHIND_EMPTY || !refuses) {
            ck_assert_int_eq(answer(fd, NULL), 0);
        }
        close(fd);
        for (unsigned i = 0; i < PER_USER && way == REFUSED; i++) {
            close(silent[i]);
        }
        honest();
    }
    still_holds(client, lock);
    for (enum way way = 0; way < WAYS; way++) {
        close(readers[way]);
    }
}
END_TEST

/* More closes block than the closer can carry out at the same time. Other clients are served, the
 * agent ends at once and its successor serves at once, and no hold is lost. */
START_TEST(too_many_descriptors_whose_close_waits)
{
    hf_client *client;
    hf_lock *lock = hold(&client);
    int readers[LINGERING];
    int fds[LINGERING];
    agent_pause(&agent);
    for (unsigned i = 0; i < LINGERING; i++) {
        fds[i] = send_last_lingering(i % 2 == 0 ? ALONE : BOTH_ENDS, &readers[i]);
    }
    agent_continue(&agent);
    for (unsigned i = 0; i < LINGERING; i++) {
        ck_assert_int_eq(answer(fds[i], NULL), 0);
        close(fds[i]);
    }
    honest();
    ck_assert(!agent_logged(&agent, "closings_stuck"));
    if (_i == 0) {
        ck_assert_int_eq(agent_stop(&agent), 0);
    } else {
        agent_kill(&agent);
    }
    agent_start(&agent);
    honest();
    sleep_ms(200);
    descriptors_before = agent_descriptors(&agent);
    still_holds(client, lock);
    for (unsigned i = 0; i < LINGERING; i++) {
        close(readers[i]);
    }
}
END_TEST

/* Returns the agent's living child process holdfastd-close, or 0 if there is none. */
static pid_t find_closer(void)
{
    char line[256];
    pid_t found = 0;
    DIR *processes = opendir("/proc");
    const struct dirent *entry;
    ck_assert_ptr_nonnull(processes);
    while ((entry = readdir(processes)) != NULL) {
        char path[300];
        char state = 'Z';
        int parent = 0;
        snprintf(path, sizeof(path), "/proc/%s/stat", entry->d_name);
        FILE *file = entry->d_name[0] > '9' ? NULL : fopen(path, "re");
        if (file != NULL && fgets(line, sizeof(line), file) != NULL) {
            if (strstr(line, " (holdfastd-close) ") != NULL &&
                sscanf(strrchr(line, ')'), ") %c %d", &state, &parent) == 2 && state != 'Z' &&
                parent == (int)agent.pid) {
                found = (pid_t)strtol(entry->d_name, NULL, 10);
            }
        }
        if (file != NULL) {
            fclose(file);
        }
    }
    closedir(processes);
    return found;
}

/* Sends HELLO with a descriptor. The agent hangs up because of the descriptor. */
static void give_descriptor(int other)
{
    unsigned char bytes[HFI_FRAME_MAX];
    size_t size = hello_of(bytes, HFI_PROTOCOL_VERSION);
    int fd = dial();
    ck_assert_int_gt(send_with(fd, bytes, size, other, 1), 0);
    ck_assert_int_eq(answer(fd, NULL), 0);
    close(fd);
    honest();
}

/* The closer is killed. The agent logs that, and closes sockets by itself. */
START_TEST(the_process_that_closes_is_killed)
{
    char path[64];
    char name[32] = "";
    int other = open("/dev/null", O_RDONLY | O_CLOEXEC);
    pid_t closer = 0;
    /* waits until the closer has started and has taken its name, first as a thread, then as a
     * process */
    for (int64_t end_ns = boottime_now() + GUARD_MS * MS; strcmp(name, "holdfastd-close") != 0;) {
        ck_assert_msg(boottime_now() < end_ns, "closer %d, name %s", (int)closer, name);
        sleep_ms(10);
        closer = find_closer();
        snprintf(path, sizeof(path), "/proc/%d/cmdline", (int)closer);
        FILE *file = closer > 0 ? fopen(path, "re") : NULL;
        if (file != NULL) {
            (void)!fgets(name, sizeof(name), file);
            fclose(file);
        }
    }
    /* these signals may go to all processes of a terminal or a service */
    ck_assert_int_eq(kill(closer, SIGTERM), 0);
    ck_assert_int_eq(kill(closer, SIGINT), 0);
    give_descriptor(other);
    give_descriptor(other);
    ck_assert(!agent_logged(&agent, "event=closer_ended"));
    ck_assert_int_eq(kill(closer, SIGKILL), 0);
    /* The agent notices the closer's end only when the closer's last child, which may not have run
     * yet, has ended, too. */
    for (int64_t end_ns = boottime_now() + GUARD_MS * MS;
         !agent_logged(&agent, "event=closer_ended");) {
        ck_assert_int_lt(boottime_now(), end_ns);
        give_descriptor(other);
    }
    for (unsigned i = 0; i < 2; i++) {
        give_descriptor(other);
    }
    ck_assert_uint_eq(agent_logged(&agent, "event=closer_ended"), 1);
    close(other);
}
END_TEST

/* Waits until the agent's loop sleeps. By then it has closed the descriptors of earlier
 * connections. */
static void await_idle(void)
{
    char path[64];
    char state = ' ';
    snprintf(path, sizeof(path), "/proc/%d/stat", (int)agent.pid);
    for (int64_t end_ns = boottime_now() + GUARD_MS * MS; state != 'S'; sleep_ms(1)) {
        FILE *file = fopen(path, "re");
        ck_assert(file != NULL);
        ck_assert_int_eq(fscanf(file, "%*d %*s %c", &state), 1);
        fclose(file);
        ck_assert_int_lt(boottime_now(), end_ns);
    }
}

/* Allows the agent `more` descriptors beyond those that it has open. If `more` is -1, restores the
 * agent's former limit. */
static void allow_descriptors(int more)
{
    char path[64];
    struct rlimit limit;
    await_idle();
    ck_assert_int_eq(prlimit(agent.pid, RLIMIT_NOFILE, NULL, &limit), 0);
    /* the loop raises the limit until it allows `more` numbers that are still free */
    limit.rlim_cur = more < 0 ? limit.rlim_max : 0;
    for (int left = more; left >= 0 && limit.rlim_cur < limit.rlim_max; limit.rlim_cur++) {
        snprintf(path, sizeof(path), "/proc/%d/fd/%u", (int)agent.pid, (unsigned)limit.rlim_cur);
        if (faccessat(AT_FDCWD, path, F_OK, AT_SYMLINK_NOFOLLOW) != 0 && left-- == 0) {
            break;
        }
    }
    ck_assert_int_eq(prlimit(agent.pid, RLIMIT_NOFILE, &limit, NULL), 0);
}

/* If the agent lacks descriptors, its log and the client's error report that. They must not report
 * that the client broke the rules, or that no agent answers. */
START_TEST(without_descriptors_nobody_is_blamed)
{
    allow_descriptors(_i); /* 0: none; 1: one for the connection, but none for the client's pidfd */
    pid_t stranger = fork_tied();
    if (stranger == 0) { /* a process that the agent does not know yet */
        struct hf_options options = {
            .size = sizeof(options), .socket = agent.socket, .connect_timeout_ns = 500 * MS};
        hf_client *client;
        int result = HF_ENOAGENT; /* this error comes if the agent had no time for the connection
                                  * yet */
        for (int64_t end_ns = boottime_now() + GUARD_MS * MS;
             result == HF_ENOAGENT && boottime_now() < end_ns;) {
            result = hf_connect(&options, &client);
        }
        REQUIRE(result == HF_EFULL, "%s", hf_strerror(result));
        _exit(0);
    }
    ck_assert_int_eq(wait_for(stranger), 0);
    int64_t end_ns = boottime_now() + GUARD_MS * MS;
    while (!agent_logged(&agent, "event=connection_refused")) {
        ck_assert_int_lt(boottime_now(), end_ns);
        sleep_ms(20);
    }
    ck_assert(agent_logged(&agent, "no descriptors are left"));
    ck_assert(!agent_logged(&agent, "client_broke_rules"));
    allow_descriptors(-1);
}
END_TEST

/* A client connects again while the agent has no descriptor for its pidfd. The client keeps its
 * holds, and the agent asks it to try again. The test hides the socket's path while the agent
 * starts, so that the client cannot connect before the agent's descriptors are used up. */
START_TEST(without_descriptors_who_comes_back_keeps_its_hold)
{
    char way[128];
    struct hf_options options = {.size = sizeof(options), .socket = way};
    hf_client *client;
    hf_lock *other = NULL;
    int result = HF_ENOAGENT;
    snprintf(way, sizeof(way), "%s/way", agent.folder);
    ck_assert_int_eq(symlink(agent.socket, way), 0);
    hf_lock *lock = hold_by(&options, &client);
    agent_kill(&agent);
    ck_assert_int_eq(unlink(way), 0);
    agent_start(&agent);
    /* the agent knows the process from its record, for which it needs no descriptor */
    allow_descriptors(0);
    ck_assert_int_eq(symlink(agent.socket, way), 0);
    int64_t end_ns = boottime_now() + GUARD_MS * MS;
    while (result != 0) {
        ck_assert_msg(result == HF_ENOAGENT || result == HF_EFULL, "%s", hf_strerror(result));
        ck_assert_int_lt(boottime_now(), end_ns);
        if (agent_logged(&agent, "event=connection_refused")) {
            allow_descriptors(-1);
        }
        result = hf_open(client, "another", NULL, &other);
    }
    /* The agent did not take the client for another process. It admits the client once it has a
     * descriptor. */
    ck_assert(agent_logged(&agent, "event=connection_refused"));
    ck_assert(!agent_logged(&agent, "event=record_failed"));
    still_holds(client, lock);
    sleep_ms(200);
    descriptors_before = agent_descriptors(&agent);
}
END_TEST

/* Returns CLOCK_BOOTTIME less the time in which the agent or this process waited for a
 * processor. */
static int64_t served_now(void)
{
    return boottime_now() - process_unserved_ns(agent.pid) - process_unserved_ns(getpid());
}

static unsigned hung_up(const int *fds, unsigned count)
{
    unsigned ended = 0;
    for (unsigned i = 0; i < count; i++) {
        struct pollfd pollfd = {.fd = fds[i], .events = POLLIN};
        ended += poll(&pollfd, 1, 0) == 1;
    }
    return ended;
}

START_TEST(silent_connections_end)
{
    int fds[SILENT];
    int64_t begin_ns = boottime_now();
    int64_t begin_served_ns = served_now();
    for (unsigned i = 0; i < SILENT; i++) {
        fds[i] = dial();
    }
    honest();
    ck_assert_int_lt(served_now() - begin_served_ns, 4000 * MS);
    for (unsigned i = 0; i < SILENT; i++) {
        ck_assert_int_eq(answer(fds[i], NULL), 0);
        close(fds[i]);
    }
    ck_assert_int_ge(boottime_now() - begin_ns, 4500 * MS);
    ck_assert_int_lt(served_now() - begin_served_ns, 10000 * MS);
}
END_TEST

START_TEST(too_many_silent_connections)
{
    enum { TOO_MANY = 3 * SILENT - 128 };
    int fds[3 * SILENT];
    int64_t begin_ns = boottime_now();
    for (unsigned i = 0; i < 3 * SILENT; i++) {
        fds[i] = dial();
    }
    while (hung_up(fds, 3 * SILENT) < TOO_MANY) {
        ck_assert(boottime_now() < begin_ns + GUARD_MS * MS);
        sleep_ms(20);
    }
    sleep_ms(300);
    unsigned ended = hung_up(fds, 3 * SILENT);
    /* Five seconds after the start the agent closes the other silent connections, too. */
    ck_assert(ended == TOO_MANY || boottime_now() - begin_ns >= 4500 * MS);
    for (unsigned i = 0; i < 3 * SILENT; i++) {
        close(fds[i]);
    }
    sleep_ms(200);
}
END_TEST

/* The agent closes a client that sends requests and never reads. It does not keep that client's
 * answers. */
START_TEST(a_client_that_does_not_read)
{
    unsigned char bytes[64];
    int fd = greeted();
    bool hung_up = false;
    struct timeval patience = {.tv_sec = 10};
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
    for (unsigned i = 0; i < FLOOD && !hung_up; i++) {
        struct hfi_frame frame = {.kind = HFI_FRAME_STATUS, .request = i + 1};
        size_t size = hfi_frame_encode(&frame, bytes, sizeof(bytes));
        hung_up = send(fd, bytes, size, MSG_NOSIGNAL) < 0;
        if (i % 1000 == 0) {
            honest(); /* the agent serves other clients at the same time */
        }
    }
    ck_assert(hung_up);
    close(fd);
    ck_assert(agent_logged(&agent, "why=\"it does not read its answers\""));
}
END_TEST

/* The agent reads a request after its client has gone. The answer has no receiver, and the agent
 * logs no offence. */
START_TEST(a_client_that_ends_while_the_agent_stands_still)
{
    unsigned char bytes[64];
    struct hfi_frame frame = {.kind = HFI_FRAME_STATUS, .request = 7};
    size_t size = hfi_frame_encode(&frame, bytes, sizeof(bytes));
    int fd = greeted();
    agent_pause(&agent);
    ck_assert_int_eq(send(fd, bytes, size, MSG_NOSIGNAL), (ssize_t)size);
    close(fd);
    agent_continue(&agent);
    honest(); /* the agent reads requests in order, so now it has read the earlier one, too */
    ck_assert(!agent_logged(&agent, "client_hung_up"));
}
END_TEST

/* A client truncates its namespace's region, which other processes map, too. */
START_TEST(a_truncated_region)
{
    char path[512];
    agent_region_path(&agent, "default", path, sizeof(path));
    pid_t attacker = fork_tied(); /* the attack may kill the attacker itself */
    if (attacker == 0) {
        hf_client *client;
        hf_lock *lock;
        struct hf_options options = {.size = sizeof(options), .socket = agent.socket};
        REQUIRE(hf_connect(&options, &client) == 0, "connect");
        REQUIRE(truncate(path, 0) == 0, "truncate");
        (void)!hf_open(client, "any", NULL, &lock); /* makes the agent use the region */
        _exit(0);
    }
    (void)wait_for(attacker);
    for (unsigned waited_ms = 0; waited_ms < GUARD_MS && !agent_logged(&agent, "region_rubbish");
         waited_ms += 50) {
        sleep_ms(50);
    }
    ck_assert(agent_logged(&agent, "region_rubbish"));
    int fd = greeted(); /* the agent still serves */
    close(fd);
    /* The next agent makes a new region. */
    ck_assert_int_eq(agent_stop(&agent), 0);
    agent_start(&agent);
    honest(); /* from here on the agent has a record of this process */
    sleep_ms(200);
    descriptors_before = agent_descriptors(&agent);
}
END_TEST

static void add_descriptors(TCase *attacks, bool surplus_is_closed)
{
    if (surplus_is_closed) {
        tcase_add_loop_test(attacks, a_hello_with_a_descriptor, 0, 2);
        tcase_add_test(attacks, descriptors_that_nobody_asked_for);
        tcase_add_loop_test(attacks, without_descriptors_nobody_is_blamed, 0, 2);
        tcase_add_test(attacks, without_descriptors_who_comes_back_keeps_its_hold);
        tcase_add_test(attacks, descriptors_whose_close_waits);
    }
}

int main(void)
{
    const bool closed = surplus_descriptors_are_closed("what is done with descriptors");
    Suite *suite = suite_create("hostile clients");
    TCase *attacks = tcase_create("attacks");
    tcase_set_timeout(attacks, 60);
    tcase_add_checked_fixture(attacks, set_up, tear_down);
    tcase_add_test(attacks, rubbish_before_hello);
    tcase_add_test(attacks, rubbish_after_hello);
    tcase_add_test(attacks, a_packet_that_is_too_large);
    tcase_add_loop_test(attacks, another_protocol_version, 0, 3);
    tcase_add_test(attacks, a_second_hello);
    tcase_add_test(attacks, a_frame_before_hello);
    tcase_add_test(attacks, a_frame_that_only_an_agent_sends);
    tcase_add_test(attacks, silent_connections_end);
    tcase_add_test(attacks, too_many_silent_connections);
    tcase_add_test(attacks, a_client_that_does_not_read);
    tcase_add_test(attacks, a_client_that_ends_while_the_agent_stands_still);
    tcase_add_test(attacks, a_truncated_region);
    add_descriptors(attacks, closed);
    suite_add_tcase(suite, attacks);
    if (agent_can_be_without("descriptors as on an older kernel")) {
        TCase *older = tcase_create("an older kernel");
        tcase_set_timeout(older, 60);
        tcase_add_checked_fixture(older, set_up_older, tear_down);
        add_descriptors(older, closed);
        tcase_add_loop_test(older, too_many_descriptors_whose_close_waits, 0, 2);
        tcase_add_test(older, the_process_that_closes_is_killed);
        suite_add_tcase(suite, older);
    }
    return suite_run(suite);
}
