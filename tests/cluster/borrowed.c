/*
 * Tests of what processes pass to each other: a process passes its connected socket on to another
 * user; a process sends descriptors to the agent; a process becomes another user after it has
 * connected; users without any right connect, and the log counts their refusals. The tests need
 * root, to become another user. Otherwise they are skipped.
 */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../emulation.h"
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
/* the socket options that the test hides from the agent (agent_process.h) */
static unsigned without;
static bool refuses; /* the kernel refuses to pass descriptors to the agent */

static void start_with(const char *config)
{
    agent_create(&agent, config);
    agent_admit_all(&agent);
    agent.without = without;
    refuses = agent_refuses_descriptors(&agent);
    agent_start(&agent);
}

/* Starts the agent with a long session_ttl, so that no session ends on a busy machine. */
static void start(void)
{
    start_with(CONFIG("10s"));
}

static void start_older(void)
{
    without = WITHOUT_PEERPIDFD | WITHOUT_PASSRIGHTS;
    start();
}

static void stop(void)
{
    agent_destroy(&agent);
}

static void become(unsigned user)
{
    REQUIRE(setresgid(user, user, user) == 0 && setresuid(user, user, user) == 0, "user %u", user);
}

/* ---- a connected socket that another process uses ---- */

static int dial(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    snprintf(address.sun_path, sizeof(address.sun_path), "%s", agent.socket);
    REQUIRE(connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0, "connect");
    return fd;
}

/* Sends a frame with the descriptor `with`. Returns false if the kernel refuses to pass the
 * descriptor on. It must refuse that if `refuses` is set. */
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

/* Receives a frame. Returns the error in it if it is a DONE, otherwise its kind, or 0 if the agent
 * hung up. Closes the descriptors that come with the frame. */
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

/* ---- a descriptor that blocks every process that reads its fdinfo ---- */

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

/* A client sends the descriptor of an epoll set whose mutex stays locked. The agent must neither
 * examine the descriptor nor receive it, because both could block the agent on the mutex. */
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

/* ---- pidfds whose close blocks ---- */

static bool try_status(int fd, int with)
{
    struct hfi_frame frame = {.kind = HFI_FRAME_STATUS, .request = 1};
    return try_frame(fd, &frame, with);
}

enum pidfd_way { WITH_HELLO, WRONG_FRAME, BEHIND_WELCOME, UNREAD, HUNG_UP, PIDFD_WAYS };

/* Sends a pidfd that the busy set watches. This process closes its copy of the pidfd while the
 * agent is stopped, so the agent gets the last copy. If the kernel refuses to pass the pidfd, this
 * process keeps it open. */
static void send_busy(enum pidfd_way way, int pidfd)
{
    bool hello = way == WITH_HELLO || way == HUNG_UP;
    int fd = way == BEHIND_WELCOME ? welcomed() : dial();
    agent_pause(&agent);
    if (way == UNREAD) { /* the agent refuses the first frame and hangs up, so it never reads the
                          * second frame */
        REQUIRE(try_status(fd, -1), "send");
    }
    bool sent = hello ? try_hello(fd, pidfd, "") : try_status(fd, pidfd);
    if (sent) {
        close(pidfd);
    }
    if (way == HUNG_UP) {
        close(fd);
    }
    agent_continue(&agent);
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

/* A process that holds an epoll set's mutex delays each close of a file in the set. The agent's
 * loop must not close a pidfd that was sent to it, neither when it receives the pidfd nor when it
 * closes the connection or the client. */
START_TEST(a_pidfd_whose_close_waits)
{
    int pidfd = own_pidfd();
    if (!busy_open(&pidfd, 1)) {
        close(pidfd);
        return;
    }
    send_busy((enum pidfd_way)_i, pidfd);
    is_welcome();
    is_welcome();
    busy_close();
    if (refuses) {
        close(pidfd);
    }
}
END_TEST

/* Starts a process of the user nobody. The process leaves the last descriptors of `count` pidfds to
 * the agent. A close of any of these pidfds blocks. Returns 0 if this machine cannot make a close
 * block. */
static pid_t start_stuck(unsigned count, unsigned each_time)
{
    int ends[2];
    char byte = 'n';
    REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0, "socketpair");
    pid_t nobody = fork_tied();
    if (nobody == 0) {
        struct rlimit limit;
        int *pidfds = calloc(count, sizeof(int));
        REQUIRE(pidfds != NULL && getrlimit(RLIMIT_NOFILE, &limit) == 0, "getrlimit");
        limit.rlim_cur = limit.rlim_max;
        REQUIRE(setrlimit(RLIMIT_NOFILE, &limit) == 0, "setrlimit");
        for (unsigned i = 0; i < count; i++) {
            pidfds[i] = own_pidfd();
        }
        bool can = busy_open(pidfds, count);
        /* The agent sees the effective user of a process that connects. The real user stays root,
         * so that the process may stop the agent. The system call is made directly, because libc's
         * setresuid() would wait for all threads, and one of them is blocked (busy.h). */
        REQUIRE(syscall(SYS_setresuid, 0, NOBODY, 0) == 0, "nobody");
        for (unsigned i = 0; i < count && can; i++) {
            if (i % each_time == 0) {
                agent_pause(&agent);
            }
            int fd = dial();
            if (try_hello(fd, pidfds[i], "")) {
                close(pidfds[i]);
            }
            /* Waits until the agent has received these pidfds and has hung up. Waits at most 3 s,
             * because an agent without room for further blocked closes receives nothing. */
            if ((i + 1) % each_time == 0) {
                struct pollfd pollfd = {.fd = fd, .events = POLLRDHUP};
                agent_continue(&agent);
                (void)!poll(&pollfd, 1, 3000);
            }
            close(fd);
        }
        byte = can ? 'y' : 'n';
        REQUIRE(write(ends[1], &byte, 1) == 1, "write");
        sleep_ms(10 * GUARD_MS);
        _exit(1);
    }
    close(ends[1]);
    REQUIRE(read(ends[0], &byte, 1) == 1, "read");
    close(ends[0]);
    if (byte == 'n') {
        kill_process(nobody);
    }
    return byte == 'y' ? nobody : 0;
}

/* Blocked closes do not delay other clients: the agent closes the descriptors that other clients
 * send, and admits every client. The agent can also end, and its successor serves at once. */
START_TEST(closes_that_wait_keep_nobody)
{
    enum { TIMES = 100, STUCK = 600 };
    struct actor holder;
    actor_ready(&holder, agent.socket);
    ck_assert_int_eq(actor_open(&holder, 0, "both/a", 10), 0);
    ck_assert_int_eq(actor_acquire(&holder, 0, HF_EXCLUSIVE, GUARD_MS, NULL), 0);
    pid_t nobody = start_stuck(STUCK, 100);
    int other = open("/dev/null", O_RDONLY | O_CLOEXEC);
    for (unsigned i = 0; i < TIMES; i++) {
        int fd = dial();
        if (try_hello(fd, other, "")) {
            ck_assert_int_eq(answer(fd), 0);
        }
        close(fd);
    }
    is_welcome();
    ck_assert(!agent_logged(&agent, "event=closings_stuck"));
    ck_assert_int_eq(agent_stop(&agent), 0);
    agent_start(&agent);
    is_welcome();
    ck_assert_int_gt(actor_remaining(&holder, 0), 0);
    ck_assert_int_eq(actor_release(&holder, 0), 0);
    if (nobody != 0) {
        kill_process(nobody);
    }
    actor_end(&holder);
    close(other);
}
END_TEST

/* More closes block than the agent has room for. The agent admits no new client, but serves the
 * connected ones. It has room again when the culprit ends, or when the agent is restarted. */
START_TEST(more_closes_that_wait_than_there_is_room_for)
{
    enum { STUCK = 5000 };
    struct actor holder;
    hf_client *client;
    struct hf_options options = {
        .size = sizeof(options), .socket = agent.socket, .connect_timeout_ns = 300 * MS};
    actor_ready(&holder, agent.socket);
    ck_assert_int_eq(actor_open(&holder, 0, "both/a", 10), 0);
    ck_assert_int_eq(actor_acquire(&holder, 0, HF_EXCLUSIVE, GUARD_MS, NULL), 0);
    pid_t nobody = start_stuck(STUCK, 1000);
    if (nobody != 0) {
        wait_for_log("event=closings_stuck");
        ck_assert(agent_logged(&agent, " uid=65534"));
        ck_assert_int_eq(hf_connect(&options, &client), HF_ENOAGENT);
    }
    ck_assert_int_eq(actor_open(&holder, 1, "both/b", 10), 0);
    ck_assert_int_eq(actor_acquire(&holder, 1, HF_EXCLUSIVE, GUARD_MS, NULL), 0);
    if (_i == 0) {
        ck_assert_int_eq(agent_stop(&agent), 0);
        agent_start(&agent);
        is_welcome();
    }
    if (nobody != 0) {
        kill_process(nobody);
    }
    is_welcome();
    ck_assert_int_gt(actor_remaining(&holder, 0), 0);
    ck_assert_int_eq(actor_release(&holder, 0), 0);
    actor_end(&holder);
}
END_TEST

/* ---- a process whose memory blocks every process that reads it ---- */

/* Checks the command line in the record of the only client. */
static void record_says(const char *expected)
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

/* Tells the kernel that this process's command line begins at the address `start`. Returns false if
 * the kernel does not allow that. */
static bool put_command_line(uint64_t start)
{
    enum { FIELDS = 51 }; /* fields of proc(5)'s stat, counted from 1 */
    static char text[4096];
    uint64_t fields[FIELDS + 1] = {0};
    FILE *file = fopen("/proc/self/stat", "re");
    REQUIRE(file != NULL && fgets(text, sizeof(text), file) != NULL, "stat");
    fclose(file);
    char *at = strrchr(text, ')') + 4; /* the first field after the state */
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

/* The agent records the command line that a client sends, or none if the client sends none. It
 * never reads the client's memory. Here such a read would block, because the command line lies in a
 * page whose fault is not handled (busy.h). */
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
        /* the agent does not take the program's name from /proc, either */
        record_says(_i == 0 ? "" : "make all");
        _exit(0);
    }
    ck_assert_int_eq(wait_for(other), 0);
}
END_TEST

/* The process that sends HELLO must be the process that connected. */
START_TEST(a_socket_that_was_not_greeted_is_of_no_use_to_another)
{
    int fd = dial(); /* root may use every namespace */
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

/* Returns how many refusals of that user the log counts: one for each line about the user, plus the
 * refusals without a line, which the next line counts. *lines becomes the number of lines. */
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

/* So many users are refused that the log's limit leaves lines out. The next line about a user
 * counts the lines that were left out. */
START_TEST(refusals_that_the_log_left_out_are_counted)
{
    enum { FIRST = 20000, USERS = 40, EACH = 4 };
    unsigned lines = 0;
    unsigned last = FIRST + USERS;
    for (unsigned user = FIRST; user < last; user++) {
        is_refused_as(user, EACH);
    }
    is_refused_as(last, EACH - 1);
    sleep_ms(1000); /* after this time the limit allows five lines again */
    is_refused_as(last, 1);
    ck_assert_uint_eq(refusals_told(last, &lines), EACH);
    ck_assert_uint_ge(lines, 1);
}
END_TEST

/* The log has one line about a refused process, however often the process connects. Another process
 * of the same user gets a line of its own. */
START_TEST(a_process_that_is_refused_again_and_again_is_told_of_once)
{
    enum { USER = 21000, TIMES = 50 };
    unsigned lines = 0;
    is_refused_as(USER, TIMES);
    ck_assert_uint_eq(refusals_told(USER, &lines), 1);
    is_refused_as(USER, 1);
    ck_assert_uint_eq(refusals_told(USER, &lines), TIMES + 1);
    ck_assert_uint_eq(lines, 2);
}
END_TEST

/* A connection that is passed on has the rights of the process that made it, and no others. */
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
        pid_t other = fork_tied(); /* this process has inherited the connection */
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

/* ---- a process that becomes another user ---- */

static hf_lock *open_lock(hf_client *client, const char *name, int expected)
{
    hf_lock *lock = NULL;
    int result = hf_open(client, name, NULL, &lock);
    REQUIRE(result == expected, "%s: %s, expected %s", name, hf_strerror(result),
            hf_strerror(expected));
    return lock;
}

/* The agent looks up the rights of a process at the time when the process connects. The process
 * keeps its holds across a restart of the agent, because it is still the same process. */
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
        hf_close(open_lock(client, "other/a", 0)); /* root could use the namespace when it
                                                    * connected */
        REQUIRE(write(ends[0], "x", 1) == 1 && read(ends[0], &byte, 1) == 1, "the test");
        /* After the agent's restart the rights are those of the user nobody. The loop waits until
         * the library has connected again. */
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

static void add_descriptors(TCase *tests)
{
    tcase_add_test(tests, a_descriptor_that_lets_nobody_look_at_it);
    tcase_add_loop_test(tests, a_pidfd_whose_close_waits, 0, PIDFD_WAYS);
    if (surplus_descriptors_are_closed("closes_that_wait_keep_nobody")) {
        tcase_add_test(tests, closes_that_wait_keep_nobody);
    }
    tcase_add_test(tests, a_socket_that_was_not_greeted_is_of_no_use_to_another);
}

int main(void)
{
    Suite *suite = suite_create("borrowed");
    TCase *tests = tcase_create("borrowed");
    TCase *older = tcase_create("an older kernel");
    tcase_add_checked_fixture(tests, start, stop);
    tcase_set_timeout(tests, 120);
    tcase_add_checked_fixture(older, start_older, stop);
    tcase_set_timeout(older, 120);
    if (geteuid() == 0) {
        add_descriptors(tests);
        if (agent_can_be_without("descriptors as on an older kernel")) {
            add_descriptors(older);
            tcase_add_loop_test(older, more_closes_that_wait_than_there_is_room_for, 0, 2);
        }
        tcase_add_loop_test(tests, a_process_that_lets_nobody_read_its_command_line, 0, 2);
        tcase_add_test(tests, refusals_that_the_log_left_out_are_counted);
        tcase_add_test(tests, a_process_that_is_refused_again_and_again_is_told_of_once);
        tcase_add_test(tests, a_connection_that_is_passed_on_is_still_its_makers);
        tcase_add_test(tests, a_process_that_gives_up_its_user);
    }
    suite_add_tcase(suite, tests);
    suite_add_tcase(suite, older);
    return suite_run(suite);
}
