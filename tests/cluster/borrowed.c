/*
 * What processes hand each other, and from where they come: a connected socket passed on to another
 * user, a process that becomes another user after it has connected, many users who may not come at
 * all, processes and agents with a /dev/shm of their own, and one that somebody fills. As root, who
 * can become somebody else; else there is nothing to try.
 */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../suite_main.h"
#include "actor.h"
#include "busy.h"
#include "holdfast/holdfast.h"
#include "proto/frame.h"
#include "require.h"

enum { NOBODY = 65534, DAEMON = 1 };

#define CONFIG(TTL)                                                                                \
    "[agent]\nname = host-a\ncell = test\nstate_dir = %D/state\n"                                  \
    "socket = %D/agent.sock\n[cell]\nsession_ttl = " TTL "\n"                                      \
    "[voters]\nhost-a = tcp://127.0.0.1:7411\n"                                                    \
    "[namespace.open]\nusers = nobody\n"                                                           \
    "[namespace.both]\nusers = root, nobody\n"                                                     \
    "[namespace.other]\nusers = daemon\n"

static struct agent_process agent;
static unsigned without; /* see agent_process.h */
static bool refuses;     /* the kernel refuses to send it descriptors */

static void start_with(const char *config)
{
    agent_create(&agent, config);
    agent_admit_all(&agent);
    agent.without = without;
    refuses = agent_refuses_descriptors(&agent);
    agent_start(&agent);
}

/* A busy machine is to end no session. */
static void start(void)
{
    start_with(CONFIG("10s"));
}

static void start_older(void)
{
    without = WITHOUT_PEERPIDFD | WITHOUT_PASSRIGHTS;
    start();
}

/* For a test that waits for the end of one. */
static void start_short(void)
{
    start_with(CONFIG("1s"));
}

static void stop(void)
{
    agent_destroy(&agent);
}

static void become(unsigned user)
{
    REQUIRE(setresgid(user, user, user) == 0 && setresuid(user, user, user) == 0, "user %u", user);
}

/* ---- a socket that another has connected ---- */

static int dial(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    snprintf(address.sun_path, sizeof(address.sun_path), "%s", agent.socket);
    REQUIRE(connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0, "connect");
    return fd;
}

/* false: the kernel refuses to send that descriptor, as it has to. */
static bool try_frame(int to, const struct hfi_frame *frame, int with)
{
    static unsigned char bytes[HFI_FRAME_MAX];
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(sizeof(int))];
    } control;
    struct iovec part = {.iov_base = bytes,
                         .iov_len = hfi_frame_encode(frame, bytes, sizeof(bytes))};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (with >= 0) {
        memset(&control, 0, sizeof(control));
        message.msg_control = control.space;
        message.msg_controllen = sizeof(control.space);
        control.header.cmsg_level = SOL_SOCKET;
        control.header.cmsg_type = SCM_RIGHTS;
        control.header.cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(&control.header), &with, sizeof(int));
    }
    ssize_t sent = sendmsg(to, &message, MSG_NOSIGNAL);
    if (with >= 0 && refuses) {
        REQUIRE(sent < 0 && errno == EPERM, "send: %s", strerror(errno));
        return false;
    }
    REQUIRE(sent > 0, "send: %s", strerror(errno));
    return true;
}

static void send_frame(int to, const struct hfi_frame *frame)
{
    REQUIRE(try_frame(to, frame, -1), "send");
}

static int own_pidfd(void)
{
    return (int)syscall(SYS_pidfd_open, getpid(), 0);
}

static bool try_hello(int fd, int with, const char *command)
{
    struct hfi_frame frame = {.kind = HFI_FRAME_HELLO,
                              .request = 1,
                              .hello = {.version = HFI_PROTOCOL_VERSION,
                                        .pid = getpid(),
                                        .library = {.bytes = "1", .size = 1},
                                        .command = {command, (uint32_t)strlen(command)}}};
    return try_frame(fd, &frame, with);
}

static void say_hello_as(int fd, const char *command)
{
    REQUIRE(try_hello(fd, -1, command), "send");
}

static void say_hello(int fd)
{
    say_hello_as(fd, "");
}

/* The error of the DONE that comes, or the kind of another frame; 0: it hung up. Descriptors that
 * come with it are lost. */
static int answer(int fd)
{
    unsigned char bytes[HFI_FRAME_MAX];
    struct pollfd pollfd = {.fd = fd, .events = POLLIN};
    struct hfi_frame frame;
    struct hfi_listed_cursor cursor;
    struct hfi_frame_error error;
    REQUIRE(poll(&pollfd, 1, GUARD_MS) == 1, "no answer");
    ssize_t size = recv(fd, bytes, sizeof(bytes), 0);
    if (size <= 0) {
        return 0;
    }
    REQUIRE(hfi_frame_decode(bytes, (size_t)size, &frame, &cursor, &error) == 0, "frame");
    return frame.kind == HFI_FRAME_DONE ? frame.error : (int)frame.kind;
}

static int ask_for(int fd, const char *name)
{
    struct hfi_frame frame = {.kind = HFI_FRAME_SHOW,
                              .request = 9,
                              .text = {.bytes = name, .size = (uint32_t)strlen(name)}};
    send_frame(fd, &frame);
    return answer(fd);
}

/* ---- a descriptor that lets nobody look at it ---- */

static int welcomed(void)
{
    int fd = dial();
    say_hello(fd);
    REQUIRE(answer(fd) == HFI_FRAME_WELCOME, "not welcomed");
    return fd;
}

static void is_welcome(void)
{
    close(welcomed());
}

/* The agent must not ask it what it is, nor have it at all: both may wait for that mutex. */
START_TEST(a_descriptor_that_lets_nobody_look_at_it)
{
    if (!busy_open(NULL, 0)) {
        return;
    }
    int fd = dial();
    if (try_hello(fd, busy.set, "")) {
        ck_assert_int_eq(answer(fd), 0);
    }
    close(fd);
    is_welcome();
    busy_close();
}
END_TEST

/* ---- pidfds whose close waits ---- */

static bool try_status(int fd, int with)
{
    struct hfi_frame frame = {.kind = HFI_FRAME_STATUS, .request = 1};
    return try_frame(fd, &frame, with);
}

enum pidfd_way { WITH_HELLO, WRONG_FRAME, BEHIND_WELCOME, UNREAD, HUNG_UP, PIDFD_WAYS };

/* Sends a pidfd that the busy set has. The last one is the agent's: ours is closed while it stands
 * still. (What the kernel refuses is closed here when the process ends.) */
static void send_busy(enum pidfd_way way, int pidfd)
{
    bool hello = way == WITH_HELLO || way == HUNG_UP;
    int fd = way == BEHIND_WELCOME ? welcomed() : dial();
    REQUIRE(kill(agent.pid, SIGSTOP) == 0, "SIGSTOP");
    if (way == UNREAD) { /* it hangs up for the first, and never reads the second */
        REQUIRE(try_status(fd, -1), "send");
    }
    bool sent = hello ? try_hello(fd, pidfd, "") : try_status(fd, pidfd);
    if (sent) {
        close(pidfd);
    }
    if (way == HUNG_UP) {
        close(fd);
    }
    REQUIRE(kill(agent.pid, SIGCONT) == 0, "SIGCONT");
    if (way == UNREAD) {
        REQUIRE(answer(fd) == HF_EPROTO, "not refused");
    }
    if (way != HUNG_UP) {
        REQUIRE(!sent || answer(fd) == 0, "not hung up on");
        close(fd);
    }
}

static void wait_for_log(const char *text)
{
    for (unsigned ms = 0; ms < GUARD_MS && !agent_logged(&agent, text); ms += 10) {
        sleep_ms(10);
    }
    REQUIRE(agent_logged(&agent, text), "the log has no %s", text);
}

/* Whoever keeps an epoll set's mutex keeps who closes what the set has. The agent's loop closes no
 * pidfd that came to it: not when it was received, nor with a connection or a client. */
START_TEST(a_pidfd_whose_close_waits)
{
    int pidfd = own_pidfd();
    if (!busy_open(&pidfd, 1)) {
        close(pidfd);
        return;
    }
    send_busy((enum pidfd_way)_i, pidfd);
    is_welcome();
    wait_for_log("event=client_died"); /* its own pidfd of that one is closed by then */
    is_welcome();
    busy_close();
    if (refuses) {
        close(pidfd);
    }
}
END_TEST

/* So many that all would have to wait if one did: more than may be closing at a time. */
START_TEST(closes_that_wait_keep_only_their_users)
{
    enum { TIMES = 1100, STUCK = 4 };
    int ends[2];
    char byte;
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    pid_t nobody = fork_tied();
    if (nobody == 0) {
        int pidfds[STUCK];
        for (unsigned i = 0; i < STUCK; i++) {
            pidfds[i] = own_pidfd();
        }
        bool can = busy_open(pidfds, STUCK);
        /* He connects, and root may stop the agent. This thread only: the C library would wait for
         * the one that is in the page. */
        REQUIRE(syscall(SYS_setresuid, 0, NOBODY, 0) == 0, "nobody");
        for (unsigned i = 0; i < STUCK && can; i++) {
            send_busy(WRONG_FRAME, pidfds[i]);
        }
        REQUIRE(write(ends[1], "x", 1) == 1, "write");
        sleep_ms(10 * GUARD_MS);
        _exit(1);
    }
    ck_assert_int_eq(read(ends[0], &byte, 1), 1);
    for (unsigned i = 0; i < TIMES; i++) {
        int fd = dial();
        if (try_hello(fd, ends[0], "")) {
            ck_assert_int_eq(answer(fd), 0);
        }
        close(fd);
    }
    is_welcome();
    ck_assert(!agent_logged(&agent, "event=closings_stuck"));
    kill_process(nobody);
    close(ends[0]);
    close(ends[1]);
}
END_TEST

/* ---- a process that lets nobody look at it ---- */

/* The command line that the lifeline has of the only client. */
static void lifeline_says(const char *expected)
{
    char path[256];
    char line[512] = "";
    snprintf(path, sizeof(path), "%s/state/clients/1", agent.folder);
    FILE *file = fopen(path, "re");
    REQUIRE(file != NULL, "%s: %s", path, strerror(errno));
    while (fgets(line, sizeof(line), file) != NULL && strncmp(line, "command ", 8) != 0) {
    }
    fclose(file);
    line[strcspn(line, "\n")] = '\0';
    REQUIRE(strcmp(line + strlen("command "), expected) == 0, "%s: expected %s", line, expected);
}

/* Tells the kernel that this process's command line lies there. false: it does not allow that. */
static bool put_command_line(uint64_t start)
{
    enum { FIELDS = 51 }; /* of proc(5), from 1 */
    static char text[4096];
    uint64_t fields[FIELDS + 1] = {0};
    FILE *file = fopen("/proc/self/stat", "re");
    REQUIRE(file != NULL && fgets(text, sizeof(text), file) != NULL, "stat");
    fclose(file);
    char *at = strrchr(text, ')') + 4; /* behind the state */
    for (unsigned i = 4; i <= FIELDS; i++) {
        fields[i] = strtoull(at, &at, 10);
    }
    struct prctl_mm_map map = {.start_code = fields[26],
                               .end_code = fields[27],
                               .start_stack = fields[28],
                               .start_data = fields[45],
                               .end_data = fields[46],
                               .start_brk = fields[47],
                               .brk = (uintptr_t)sbrk(0),
                               .arg_start = start,
                               .arg_end = start + 64,
                               .env_start = fields[50],
                               .env_end = fields[51],
                               .exe_fd = (uint32_t)-1};
    return prctl(PR_SET_MM, PR_SET_MM_MAP, &map, sizeof(map), 0) == 0;
}

/* What it says of itself is what people are told; of who says nothing, the name. Its memory is not
 * read: this one's command line lies in the page that nobody brings. */
START_TEST(a_process_that_lets_nobody_read_its_command_line)
{
    pid_t other = fork_tied();
    if (other == 0) {
        if (!busy_open(NULL, 0)) {
            _exit(0);
        }
        if (!put_command_line((uintptr_t)busy.page)) {
            _exit(0);
        }
        prctl(PR_SET_NAME, "just\na name");
        int fd = dial();
        say_hello_as(fd, _i == 0 ? "" : "make all");
        REQUIRE(answer(fd) == HFI_FRAME_WELCOME, "not welcomed");
        lifeline_says(_i == 0 ? "just?a name" : "make all");
        _exit(0);
    }
    ck_assert_int_eq(wait_for(other), 0);
}
END_TEST

/* Whoever greets must be the process that connected. */
START_TEST(a_socket_that_was_not_greeted_is_of_no_use_to_another)
{
    int fd = dial(); /* as root, who may use everything */
    pid_t other = fork_tied();
    if (other == 0) {
        become(NOBODY);
        say_hello(fd);
        REQUIRE(answer(fd) == HF_EPROTO, "a stranger was welcomed");
        REQUIRE(answer(fd) == 0, "it did not hang up");
        _exit(0);
    }
    ck_assert_int_eq(wait_for(other), 0);
    close(fd);
}
END_TEST

static void is_refused_as(unsigned user, unsigned times)
{
    pid_t other = fork_tied();
    if (other == 0) {
        become(user);
        for (unsigned i = 0; i < times; i++) {
            int fd = dial();
            say_hello(fd);
            REQUIRE(answer(fd) == HF_EACCES, "user %u was let in", user);
            close(fd);
        }
        _exit(0);
    }
    ck_assert_int_eq(wait_for(other), 0);
}

/* How many refusals of that user the log tells of: its lines, and those that they say were left
 * out. *lines: only these. */
static unsigned refusals_told(unsigned user, unsigned *lines)
{
    char line[2048];
    char words[32];
    unsigned told = 0;
    FILE *log = fopen(agent.log, "re");
    REQUIRE(log != NULL, "%s", agent.log);
    snprintf(words, sizeof(words), " uid=%u ", user);
    *lines = 0;
    while (fgets(line, sizeof(line), log) != NULL) {
        if (strstr(line, "event=client_refused") != NULL && strstr(line, words) != NULL) {
            const char *before = strstr(line, " before=");
            told += before != NULL ? (unsigned)strtoul(before + strlen(" before="), NULL, 10) : 0;
            *lines += 1;
        }
    }
    fclose(log);
    return told + *lines;
}

/* So many users that lines are left out for being too many: the next line of a user counts his. */
START_TEST(refusals_that_the_log_left_out_are_counted)
{
    enum { FIRST = 20000, USERS = 40, EACH = 4 };
    unsigned lines = 0;
    unsigned last = FIRST + USERS;
    for (unsigned user = FIRST; user < last; user++) {
        is_refused_as(user, EACH);
    }
    is_refused_as(last, EACH - 1);
    sleep_ms(1000); /* there is room for five lines again */
    is_refused_as(last, 1);
    ck_assert_uint_eq(refusals_told(last, &lines), EACH);
    ck_assert_uint_ge(lines, 1);
}
END_TEST

/* Who hands on a connection hands on what its maker may do, and nothing else. */
START_TEST(a_connection_that_is_passed_on_is_still_its_makers)
{
    int ends[2];
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    pid_t maker = fork_tied();
    if (maker == 0) {
        become(NOBODY);
        int fd = dial();
        say_hello(fd);
        REQUIRE(answer(fd) == HFI_FRAME_WELCOME, "no welcome");
        pid_t other = fork_tied(); /* it has the connection */
        if (other == 0) {
            REQUIRE(ask_for(fd, "open/a") == HFI_FRAME_LISTED, "open/a");
            REQUIRE(ask_for(fd, "other/a") == HF_EACCES, "other/a");
            REQUIRE(ask_for(fd, "both/a") == HFI_FRAME_LISTED, "both/a");
            _exit(0);
        }
        REQUIRE(wait_for(other) == 0, "the other one");
        REQUIRE(write(ends[0], "x", 1) == 1, "write");
        sleep_ms(10 * GUARD_MS);
        _exit(1);
    }
    char byte;
    ck_assert_int_eq(read(ends[1], &byte, 1), 1);
    kill_process(maker);
    close(ends[0]);
    close(ends[1]);
}
END_TEST

/* ---- a process that becomes somebody else ---- */

static hf_lock *open_lock(hf_client *client, const char *name, int expected)
{
    hf_lock *lock = NULL;
    int result = hf_open(client, name, NULL, &lock);
    REQUIRE(result == expected, "%s: %s, expected %s", name, hf_strerror(result),
            hf_strerror(expected));
    return lock;
}

/* What a process may is found out when it connects; and it keeps what it holds over the agent's
 * restart, for it is the same process. */
START_TEST(a_process_that_gives_up_its_user)
{
    int ends[2];
    char byte;
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    pid_t process = fork_tied();
    if (process == 0) {
        hf_client *client;
        struct hf_options options = {.size = sizeof(options), .socket = agent.socket};
        struct hf_hold hold;
        REQUIRE(hf_connect(&options, &client) == 0, "connect");
        hf_lock *lock = open_lock(client, "both/held", 0);
        REQUIRE(hf_acquire(lock, HF_EXCLUSIVE, (int64_t)GUARD_MS * MS, &hold) == 0, "acquire");
        hf_lock *roots = open_lock(client, "other/held", 0);
        REQUIRE(hf_acquire(roots, HF_EXCLUSIVE, (int64_t)GUARD_MS * MS, NULL) == 0, "acquire");
        become(NOBODY);
        hf_close(open_lock(client, "other/a", 0)); /* root was let in */
        REQUIRE(write(ends[0], "x", 1) == 1 && read(ends[0], &byte, 1) == 1, "the test");
        /* The agent is another one; once it was asked, it is known who asks. */
        int result = 0;
        for (int64_t end_ns = boottime_now() + (int64_t)GUARD_MS * MS; result != HF_EACCES;) {
            hf_lock *other = NULL;
            result = hf_open(client, "other/b", NULL, &other);
            REQUIRE(boottime_now() < end_ns, "other/b: %s", hf_strerror(result));
            sleep_ms(20);
        }
        REQUIRE(hf_remaining_ns(lock) > 0, "the hold is lost");
        REQUIRE(hf_release(lock) == 0, "release");
        REQUIRE(hf_acquire(lock, HF_EXCLUSIVE, (int64_t)GUARD_MS * MS, &hold) == 0, "again");
        result = hf_release(roots);
        REQUIRE(result == 0 || result == HF_ELOST, "%s", hf_strerror(result));
        REQUIRE(hf_acquire(roots, HF_EXCLUSIVE, 0, NULL) == HF_EACCES, "it is not his any more");
        REQUIRE(write(ends[0], "x", 1) == 1 && read(ends[0], &byte, 1) == 1, "the test");
        _exit(0);
    }
    ck_assert_int_eq(read(ends[1], &byte, 1), 1);
    agent_kill(&agent);
    agent_start(&agent);
    ck_assert_int_eq(write(ends[1], "x", 1), 1);
    ck_assert_int_eq(read(ends[1], &byte, 1), 1);
    struct actor root;
    actor_ready(&root, agent.socket);
    ck_assert_int_eq(actor_open(&root, 0, "other/held", 10), 0);
    ck_assert_int_eq(actor_acquire(&root, 0, HF_EXCLUSIVE, 4 * GUARD_MS, NULL), 0);
    actor_end(&root);
    ck_assert_int_eq(write(ends[1], "x", 1), 1);
    ck_assert_int_eq(wait_for(process), 0);
    close(ends[0]);
    close(ends[1]);
}
END_TEST

/* ---- another /dev/shm ---- */

/* From here on this process has a /dev/shm of its own, which is empty. */
static void leave_shared_memory(const char *options)
{
    REQUIRE(unshare(CLONE_NEWNS | CLONE_NEWNET) == 0 &&
                mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
                mount("tmpfs", "/dev/shm", "tmpfs", 0, options) == 0,
            "mount namespace: %s", strerror(errno));
}

/* Regions come over the socket: it is the same lock. */
START_TEST(a_client_with_a_shm_of_its_own)
{
    struct actor here;
    actor_ready(&here, agent.socket);
    ck_assert_int_eq(actor_open(&here, 0, "both/a", 10), 0);
    ck_assert_int_eq(actor_acquire(&here, 0, HF_EXCLUSIVE, GUARD_MS, NULL), 0);
    for (unsigned i = 0; i < 2; i++) {
        pid_t there = fork_tied();
        if (there == 0) {
            hf_client *client;
            struct hf_options options = {.size = sizeof(options), .socket = agent.socket};
            leave_shared_memory(NULL);
            REQUIRE(hf_connect(&options, &client) == 0, "connect");
            hf_lock *lock = open_lock(client, "both/a", 0);
            int result = hf_acquire(lock, HF_EXCLUSIVE, i == 0 ? 0 : (int64_t)GUARD_MS * MS, NULL);
            REQUIRE(result == (i == 0 ? HF_EBUSY : 0), "%s", hf_strerror(result));
            hf_disconnect(client);
            _exit(0);
        }
        ck_assert_int_eq(wait_for(there), 0);
        if (i == 0) {
            ck_assert_int_eq(actor_release(&here, 0), 0);
        }
    }
    actor_end(&here);
}
END_TEST

/* An agent that cannot see the regions of the one before: nobody is granted a lock beside who holds
 * it in the region that is there still; he is told that it is lost. */
START_TEST(an_agent_with_a_shm_of_its_own)
{
    int ready[2];
    char byte;
    struct actor before;
    struct actor after;
    struct hf_hold old;
    struct hf_hold new;
    actor_ready(&before, agent.socket);
    ck_assert_int_eq(actor_open(&before, 0, "both/a", 10), 0);
    ck_assert_int_eq(actor_acquire(&before, 0, HF_EXCLUSIVE, GUARD_MS, &old), 0);
    ck_assert_int_eq(pipe2(ready, O_CLOEXEC), 0);
    pid_t keeper = fork_tied();
    if (keeper == 0) {
        leave_shared_memory(NULL);
        REQUIRE(write(ready[1], "x", 1) == 1, "write");
        for (;;) {
            pause();
        }
    }
    ck_assert_int_eq(read(ready[0], &byte, 1), 1);
    agent_kill(&agent);
    int64_t remaining_ns = actor_remaining(&before, 0);
    int64_t end_ns = boottime_now() + remaining_ns;
    agent.keeper = keeper;
    agent_start(&agent);
    actor_ready(&after, agent.socket);
    ck_assert_int_eq(actor_open(&after, 0, "both/a", 10), 0);
    struct actor_request acquire = {
        .kind = ACTOR_ACQUIRE, .mode = HF_EXCLUSIVE, .timeout_ns = (int64_t)3 * GUARD_MS * MS};
    struct actor_reply reply = actor_do(&after, &acquire);
    ck_assert_int_eq(reply.result, 0);
    new = reply.hold;
    ck_assert_int_ge(reply.time_ns, end_ns);
    ck_assert_uint_gt(new.token, old.token);
    ck_assert_int_le(actor_remaining(&before, 0), 0);
    ck_assert_int_eq(actor_release(&before, 0), HF_ELOST);
    actor_end(&after);
    actor_end(&before);
    agent_kill(&agent); /* its regions go with the namespace */
    kill_process(keeper);
    agent.keeper = 0;
    close(ready[0]);
    close(ready[1]);
}
END_TEST

/* ---- a /dev/shm that somebody fills ---- */

static pid_t keeper;  /* of the agent's /dev/shm */
static int keeper_fd; /* 'f': it is filled; 'e': it is emptied */

static void fill_shared_memory(void)
{
    static char bytes[1 << 16];
    size_t size = sizeof(bytes);
    become(NOBODY);
    int fd = open("/dev/shm/filler", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    REQUIRE(fd >= 0, "filler: %s", strerror(errno));
    for (unsigned i = 0; size > 0 && i < 100000; i++) {
        size = write(fd, bytes, size) > 0 ? size : size / 2;
    }
    REQUIRE(size == 0, "it is not full");
    _exit(0);
}

static void keep_shared_memory(int fd)
{
    char order;
    leave_shared_memory("mode=1777,size=40M");
    REQUIRE(write(fd, "x", 1) == 1, "write");
    while (read(fd, &order, 1) == 1) {
        pid_t nobody = order == 'f' ? fork_tied() : 0;
        if (order == 'f' && nobody == 0) {
            fill_shared_memory();
        }
        REQUIRE(order == 'f' ? wait_for(nobody) == 0 : unlink("/dev/shm/filler") == 0, "%c", order);
        REQUIRE(write(fd, "x", 1) == 1, "write");
    }
    _exit(0);
}

static void have_keeper_do(const char *order)
{
    char byte;
    REQUIRE(*order == '\0' || write(keeper_fd, order, 1) == 1, "keeper");
    REQUIRE(read(keeper_fd, &byte, 1) == 1, "keeper");
}

static void start_in_little_room(void)
{
    int ends[2];
    agent_create(&agent, CONFIG("10s") "[limits]\nlocks = 4096\nblocks = 2048\n");
    agent_admit_all(&agent);
    REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0, "socketpair");
    keeper = fork_tied();
    if (keeper == 0) {
        keep_shared_memory(ends[1]);
    }
    keeper_fd = ends[0];
    have_keeper_do("");
    agent.keeper = keeper;
    agent_start(&agent);
}

static void stop_in_little_room(void)
{
    agent_kill(&agent);
    kill_process(keeper);
    close(keeper_fd);
    agent_destroy(&agent);
}

static void take_many(const char *format, unsigned count)
{
    pid_t process = fork_tied();
    if (process == 0) {
        hf_client *client;
        char name[64];
        struct hf_options options = {.size = sizeof(options), .socket = agent.socket};
        REQUIRE(hf_connect(&options, &client) == 0, "connect");
        for (unsigned i = 0; i < count; i++) {
            snprintf(name, sizeof(name), format, i);
            hf_lock *lock = open_lock(client, name, 0);
            int result = hf_acquire(lock, HF_EXCLUSIVE, (int64_t)GUARD_MS * MS, NULL);
            REQUIRE(result == 0, "%s: %s", name, hf_strerror(result));
        }
        hf_disconnect(client);
        _exit(0);
    }
    ck_assert_int_eq(wait_for(process), 0);
}

/* Pages that nobody has touched yet are there all the same. */
START_TEST(who_fills_shared_memory_harms_nobody)
{
    struct actor holder;
    actor_ready(&holder, agent.socket);
    ck_assert_int_eq(actor_open(&holder, 0, "both/a", 10), 0);
    ck_assert_int_eq(actor_acquire(&holder, 0, HF_EXCLUSIVE, GUARD_MS, NULL), 0);
    have_keeper_do("f");
    take_many("open/%u", 2000);
    take_many("both/%u", 100);
    ck_assert_int_eq(agent_stop(&agent), 0); /* the next one adopts what there is */
    agent_start(&agent);
    take_many("open/after/%u", 100);
    ck_assert_int_gt(actor_remaining(&holder, 0), 0);
    ck_assert_int_eq(actor_release(&holder, 0), 0);
    ck_assert(!agent_logged(&agent, "region_rubbish") && !agent_logged(&agent, "region_has_holes"));
    actor_end(&holder);
}
END_TEST

/* The exit status of `holdfast lock --no-wait NAME -- true`. */
static int run_lock(const char *name)
{
    pid_t process = fork_tied();
    if (process == 0) {
        execl(binary_path("holdfast"), "holdfast", "-s", agent.socket, "lock", "--no-wait", name,
              "--", "true", NULL);
        _exit(127);
    }
    int status = wait_for(process);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* As a release before left it, or a process of the namespace: where the seats are. */
static void punch_hole(const char *space)
{
    struct stat status;
    char region[300];
    char path[400];
    agent_region_path(&agent, space, region, sizeof(region));
    agent_kill(&agent);
    snprintf(path, sizeof(path), "/proc/%d/root%s", (int)keeper, region);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    ck_assert_int_eq(fstat(fd, &status), 0);
    ck_assert_int_eq(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                               status.st_size - 2048 * 512, 2048 * 512),
                     0);
    close(fd);
}

/* It is adopted, and is said to have a hole; whoever needs what is not there ends that namespace,
 * which is told so, and no other one. */
START_TEST(a_hole_that_is_wanted_when_shared_memory_is_full)
{
    struct actor both;
    hf_client *client;
    hf_lock *lock = NULL;
    struct hf_options options = {.size = sizeof(options), .socket = agent.socket};
    struct hf_lock_options limited = {.size = sizeof(limited), .lease_ns = 1000000000};
    actor_ready(&both, agent.socket);
    ck_assert_int_eq(actor_open(&both, 0, "both/a", 10), 0);
    ck_assert_int_eq(actor_open(&both, 1, "open/a", 10), 0);
    ck_assert_int_eq(actor_acquire(&both, 0, HF_EXCLUSIVE, GUARD_MS, NULL), 0);
    ck_assert_int_eq(actor_acquire(&both, 1, HF_EXCLUSIVE, GUARD_MS, NULL), 0);
    punch_hole("open");
    have_keeper_do("f");
    agent_start(&agent);
    ck_assert(agent_logged(&agent, "event=region_has_holes namespace=open number=1048576 "));
    ck_assert(agent_logged(&agent, "event=session_continued"));
    ck_assert_int_eq(run_lock("open/b"), 0);
    ck_assert_int_eq(hf_connect(&options, &client), 0);
    (void)hf_open(client, "open/c", &limited, &lock); /* a limit takes a seat */
    for (unsigned ms = 0; ms < GUARD_MS && !agent_logged(&agent, "region_rubbish"); ms += 10) {
        sleep_ms(10);
    }
    ck_assert(agent_logged(&agent, "a page of its region could not be had"));
    ck_assert_int_eq(hf_open(client, "open/d", NULL, &lock), HF_EUNSERVED);
    ck_assert_int_eq(run_lock("open/b"), 70);
    ck_assert_int_eq(run_lock("both/b"), 0);
    /* Who had locks of both goes on with the other's. */
    ck_assert_int_eq(actor_open(&both, 2, "both/c", 10), 0);
    ck_assert_int_eq(actor_open(&both, 3, "open/c", 10), HF_EUNSERVED);
    ck_assert_int_gt(actor_remaining(&both, 0), 0);
    ck_assert_int_eq(actor_release(&both, 0), 0);
    ck_assert_int_eq(actor_remaining(&both, 1), 0); /* lost */
    hf_disconnect(client);
    actor_end(&both);
}
END_TEST

static void add_descriptors(TCase *tests)
{
    tcase_add_test(tests, a_descriptor_that_lets_nobody_look_at_it);
    tcase_add_loop_test(tests, a_pidfd_whose_close_waits, 0, PIDFD_WAYS);
    tcase_add_test(tests, closes_that_wait_keep_only_their_users);
    tcase_add_test(tests, a_socket_that_was_not_greeted_is_of_no_use_to_another);
}

int main(void)
{
    Suite *suite = suite_create("borrowed");
    TCase *older = tcase_create("an older kernel");
    TCase *tests = tcase_create("borrowed");
    TCase *ends = tcase_create("a session ends");
    TCase *room = tcase_create("little room");
    tcase_add_checked_fixture(tests, start, stop);
    tcase_set_timeout(tests, 120);
    tcase_add_checked_fixture(older, start_older, stop);
    tcase_set_timeout(older, 120);
    tcase_add_checked_fixture(ends, start_short, stop);
    tcase_set_timeout(ends, 120);
    tcase_add_checked_fixture(room, start_in_little_room, stop_in_little_room);
    tcase_set_timeout(room, 120);
    if (geteuid() == 0) {
        add_descriptors(tests);
        if (agent_can_be_without("descriptors as on an older kernel")) {
            add_descriptors(older);
        }
        tcase_add_loop_test(tests, a_process_that_lets_nobody_read_its_command_line, 0, 2);
        tcase_add_test(tests, refusals_that_the_log_left_out_are_counted);
        tcase_add_test(tests, a_connection_that_is_passed_on_is_still_its_makers);
        tcase_add_test(tests, a_process_that_gives_up_its_user);
        tcase_add_test(tests, a_client_with_a_shm_of_its_own);
        tcase_add_test(ends, an_agent_with_a_shm_of_its_own);
        tcase_add_test(room, who_fills_shared_memory_harms_nobody);
        tcase_add_test(room, a_hole_that_is_wanted_when_shared_memory_is_full);
    }
    suite_add_tcase(suite, tests);
    suite_add_tcase(suite, older);
    suite_add_tcase(suite, ends);
    suite_add_tcase(suite, room);
    return suite_run(suite);
}
