/*
 * Tests how the agent knows which clients live, even if the clients are hostile, across kill -9 and
 * restarts of the agent. A process that got the pid of a dead client does not deceive the agent.
 *
 * An attacker splits one POSIX lock into many pieces, which the kernel walks whenever a process
 * looks at the file's locks or closes the file. The attacker does so on each file that it shares
 * with the agent: the files that the agent gave it, and its own pidfd. The test measures the
 * processor time of the agent's loop, which does not depend on how busy the machine is.
 */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../suite_main.h"
#include "actor.h"
#include "holdfast/holdfast.h"
#include "proto/frame.h"
#include "require.h"

enum {
    PIECES = 100000,  /* pieces of a lock; one walk over them takes ten ms or more */
    CONNECTIONS = 15, /* the attacker gets other files on each connection */
    RESUMES = 400,
    FILES_MAX = 64,
    CONNECTS = 500,
    DELAY_MS = 300,
    /* Limits of the processor time of the agent's loop. If the loop made the kernel walk the pieces
     * of a lock, it would take several times as long. */
    GREETINGS_MS_MAX = 1500,
    LOOKS_MS_MAX = 250,
};

static struct agent_process agent;

/* While `older` is set, the processes of this test act as clients of the previous release: their
 * HELLO has that release's protocol version (see send()). */
static struct {
    _Atomic bool older;
} * shared;

static void start(void)
{
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert(shared != MAP_FAILED);
    agent_create(&agent, "[agent]\nname = host-a\ncell = test\nstate_dir = %D/state\n"
                         "socket = %D/agent.sock\n[cell]\nsession_ttl = 8s\n"
                         "[voters]\nhost-a = tcp://127.0.0.1:7411\n");
    agent_start(&agent);
}

static void stop(void)
{
    agent_destroy(&agent);
    munmap(shared, sizeof(*shared));
}

/* ---- a client without the library ---- */

struct raw {
    int socket;
    uint32_t client;
    uint64_t nonce;
};

/* the descriptors that the agent sent to this process */
static int files[FILES_MAX];
static unsigned file_count;

static int dial(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    snprintf(address.sun_path, sizeof(address.sun_path), "%s", agent.socket);
    REQUIRE(connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0, "connect: %s",
            strerror(errno));
    return fd;
}

static void say(int fd, const struct hfi_frame *frame)
{
    static unsigned char bytes[HFI_FRAME_MAX];
    size_t size = hfi_frame_encode(frame, bytes, sizeof(bytes));
    REQUIRE(send(fd, bytes, size, MSG_NOSIGNAL) == (ssize_t)size, "send: %s", strerror(errno));
}

/* Receives the next frame. Stores descriptors that come with it in `files`, if there is room. */
static void receive(int fd, struct hfi_frame *frame)
{
    static unsigned char bytes[HFI_FRAME_MAX];
    struct hfi_listed_cursor cursor;
    struct hfi_frame_error error;
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(2 * sizeof(int))];
    } control;
    struct iovec part = {.iov_base = bytes, .iov_len = sizeof(bytes)};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.space,
                             .msg_controllen = sizeof(control.space)};
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    REQUIRE(poll(&ready, 1, GUARD_MS) == 1, "no answer");
    ssize_t size = recvmsg(fd, &message, MSG_CMSG_CLOEXEC);
    REQUIRE(size > 0, "the agent hung up");
    REQUIRE(hfi_frame_decode(bytes, (size_t)size, frame, &cursor, &error) == 0, "%s", error.text);
    const struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    for (size_t i = 0; header != NULL && i < (header->cmsg_len - CMSG_LEN(0)) / sizeof(int); i++) {
        int one;
        memcpy(&one, CMSG_DATA(header) + i * sizeof(int), sizeof(int));
        if (file_count < FILES_MAX) {
            files[file_count++] = one;
        } else {
            close(one);
        }
    }
}

/* Sends HELLO with the identity in *raw. */
static void greet(struct raw *raw)
{
    struct hfi_frame frame = {.kind = HFI_FRAME_HELLO,
                              .request = 1,
                              .hello = {.version = HFI_PROTOCOL_VERSION,
                                        .pid = getpid(),
                                        .client = raw->client,
                                        .nonce = raw->nonce,
                                        .library = {.bytes = "1", .size = 1}}};
    raw->socket = dial();
    say(raw->socket, &frame);
    receive(raw->socket, &frame);
    REQUIRE(frame.kind == HFI_FRAME_WELCOME, "not welcomed: %s", hf_strerror(frame.error));
    raw->client = frame.welcome.client;
    raw->nonce = frame.welcome.nonce;
}

/* Makes the agent send the region. */
static void map(const struct raw *raw)
{
    struct hfi_frame frame = {
        .kind = HFI_FRAME_MAP, .request = 2, .text = {.bytes = "name", .size = 4}};
    say(raw->socket, &frame);
    receive(raw->socket, &frame);
    REQUIRE(frame.kind == HFI_FRAME_REGION, "no region");
    receive(raw->socket, &frame);
}

/* ---- locks in many pieces ---- */

static void break_lock(int fd)
{
    struct flock lock = {.l_type = F_RDLCK, .l_whence = SEEK_SET, .l_start = 1};
    if (fcntl(fd, F_SETLK, &lock) != 0) {
        lock.l_type = F_WRLCK; /* a write lock is possible only if the descriptor is open for
                                * writing */
        if (fcntl(fd, F_SETLK, &lock) != 0) {
            return;
        }
    }
    lock.l_type = F_UNLCK;
    lock.l_len = 1;
    for (off_t i = PIECES; i > 0; i--) { /* in descending order, because then the kernel finds
                                          * each piece at once */
        lock.l_start = 2 * i;
        REQUIRE(fcntl(fd, F_SETLK, &lock) == 0, "unlock: %s", strerror(errno));
    }
}

/* A child of the attacker splits the locks and lives on. After that the attacker takes the lock
 * that a client of an older release takes. The kernel finds that lock only after all pieces. */
static void break_locks(const struct raw *raws)
{
    int ends[2];
    char byte;
    REQUIRE(pipe(ends) == 0, "pipe");
    pid_t attacker = getpid();
    if (fork_tied() == 0) {
        for (unsigned i = 0; i < CONNECTIONS; i++) {
            close(raws[i].socket); /* so that the attacker's connections end when the attacker
                                    * closes them */
        }
        int pidfd = (int)syscall(SYS_pidfd_open, attacker, 0);
        REQUIRE(pidfd >= 0, "pidfd: %s", strerror(errno));
        break_lock(pidfd);
        for (unsigned i = 0; i < file_count; i++) {
            break_lock(files[i]);
        }
        REQUIRE(write(ends[1], "x", 1) == 1, "write");
        pause();
        _exit(0);
    }
    REQUIRE(read(ends[0], &byte, 1) == 1, "read");
    for (unsigned i = 0; i < file_count; i++) {
        struct flock lock = {.l_type = F_RDLCK, .l_whence = SEEK_SET, .l_len = 1};
        (void)fcntl(files[i], F_SETLK, &lock);
    }
}

/* Returns the processor time of the agent's loop, in ns. */
static int64_t loop_ns(void)
{
    char path[64];
    long long ns = 0;
    snprintf(path, sizeof(path), "/proc/%d/task/%d/schedstat", (int)agent.pid, (int)agent.pid);
    FILE *file = fopen(path, "re");
    REQUIRE(file != NULL && fscanf(file, "%lld", &ns) == 1, "%s: %s", path, strerror(errno));
    fclose(file);
    return ns;
}

struct attacker {
    pid_t pid;
    int fd;
};

static void tell(int fd)
{
    REQUIRE(write(fd, "x", 1) == 1, "write");
}

static void await(int fd)
{
    char byte;
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    REQUIRE(poll(&ready, 1, 3 * GUARD_MS) == 1 && read(fd, &byte, 1) == 1, "nothing received");
}

/* Starts an attacker. It reports when it is ready, attacks on request, reports again, and lives
 * on. */
static struct attacker attack(void (*worst)(struct raw *raws))
{
    struct attacker attacker;
    int ends[2];
    REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0, "socketpair");
    attacker.pid = fork_tied();
    if (attacker.pid == 0) {
        static struct raw raws[CONNECTIONS];
        for (unsigned i = 0; i < CONNECTIONS; i++) {
            greet(&raws[i]);
        }
        map(&raws[0]);
        break_locks(raws);
        tell(ends[1]);
        await(ends[1]);
        worst(raws);
        tell(ends[1]);
        pause();
        _exit(0);
    }
    close(ends[1]);
    attacker.fd = ends[0];
    await(attacker.fd);
    return attacker;
}

static void attack_end(const struct attacker *attacker)
{
    kill_process(attacker->pid);
    close(attacker->fd);
}

static void resume_again_and_again(struct raw *raws)
{
    for (unsigned i = 0; i < RESUMES; i++) {
        struct raw again = raws[0];
        greet(&again);
        close(again.socket);
    }
}

static void hang_up(struct raw *raws)
{
    for (unsigned i = 0; i < CONNECTIONS; i++) {
        close(raws[i].socket);
    }
}

static void is_served(void)
{
    struct actor honest;
    actor_ready(&honest, agent.socket);
    ck_assert_int_eq(actor_open(&honest, 0, "honest", 10), 0);
    ck_assert_int_eq(actor_acquire(&honest, 0, HF_EXCLUSIVE, GUARD_MS, NULL), 0);
    actor_do(&honest, &(struct actor_request){.kind = ACTOR_DISCONNECT});
    actor_end(&honest);
}

START_TEST(who_resumes_again_and_again)
{
    struct attacker attacker = attack(resume_again_and_again);
    int64_t before_ns = loop_ns();
    tell(attacker.fd);
    await(attacker.fd);
    int64_t took_ns = loop_ns() - before_ns;
    is_served();
    printf("%d greetings: %lld us of the agent's loop\n", (int)RESUMES, (long long)took_ns / 1000);
    ck_assert_int_lt(took_ns, GREETINGS_MS_MAX * MS);
    attack_end(&attacker);
}
END_TEST

START_TEST(clients_that_hang_up_and_live)
{
    struct attacker attacker = attack(hang_up);
    int64_t before_ns = loop_ns();
    tell(attacker.fd);
    await(attacker.fd);
    /* in this time the agent checks its clients several times, every quarter of session_ttl */
    sleep_ms(6500);
    is_served();
    int64_t took_ns = loop_ns() - before_ns;
    printf("clients that hang up: %lld us of the agent's loop\n", (long long)took_ns / 1000);
    ck_assert_int_lt(took_ns, LOOKS_MS_MAX * MS);
    attack_end(&attacker);
}
END_TEST

/* The agent is restarted while clients have hung up and live on. Also prints how long the kernel
 * takes to close the files of an agent that ends. */
START_TEST(a_restart_beside_clients_that_hang_up_and_live)
{
    agent_kill(&agent);
    agent_start(&agent);
    int64_t alone_ns = loop_ns();
    struct attacker attacker = attack(hang_up);
    tell(attacker.fd);
    await(attacker.fd);
    int64_t begin_ns = boottime_now();
    agent_kill(&agent);
    int64_t killed_ns = boottime_now();
    agent_start(&agent);
    int64_t took_ns = loop_ns() - alone_ns;
    is_served();
    printf("restart: the old one gone after %lld ms, %lld us more of the new one's loop\n",
           (long long)((killed_ns - begin_ns) / MS), (long long)took_ns / 1000);
    ck_assert_int_lt(took_ns, LOOKS_MS_MAX * MS);
    attack_end(&attacker);
}
END_TEST

/* ---- files that a client keeps ---- */

/* A process connects again and again, and keeps every descriptor that it gets. None of these files
 * may be on the store's file system, because they would fill it in time. */
START_TEST(nothing_that_a_client_keeps_is_where_the_store_is)
{
    char path[128];
    struct stat store;
    struct stat memory;
    snprintf(path, sizeof(path), "%s/state", agent.folder);
    ck_assert_int_eq(stat(path, &store), 0);
    ck_assert_int_eq(stat("/dev/shm", &memory), 0);
    if (store.st_dev == memory.st_dev) {
        printf("skipped: /dev/shm is where the store is\n");
        return;
    }
    pid_t collector = fork_tied();
    if (collector == 0) {
        unsigned there = 0;
        for (unsigned i = 0; i < CONNECTS; i++) {
            struct raw raw = {.client = 0};
            unsigned first = file_count = file_count < FILES_MAX / 2 ? file_count : 0;
            greet(&raw);
            if (i == 0) {
                map(&raw);
            }
            say(raw.socket, &(struct hfi_frame){.kind = HFI_FRAME_BYE, .request = 3});
            close(raw.socket);
            for (unsigned at = first; at < file_count; at++) {
                struct stat one;
                REQUIRE(fstat(files[at], &one) == 0, "fstat");
                there += one.st_dev == store.st_dev;
            }
        }
        REQUIRE(there == 0, "%u files of the store's file system", there);
        _exit(0);
    }
    ck_assert_int_eq(wait_for(collector), 0);
}
END_TEST

/* ---- which process has a pid ---- */

enum change { TRUE_INODE, OTHER_INODE, TRUE_START, OTHER_START, OTHER_BOOT, OLDER, CHANGES };

static long long start_of(pid_t pid)
{
    char path[64];
    char text[1024];
    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "re");
    REQUIRE(file != NULL && fgets(text, sizeof(text), file) != NULL, "%s", path);
    fclose(file);
    char *at = strrchr(text, ')') + 2;
    for (int field = 3; field < 22; field++) {
        at = strchr(at, ' ') + 1;
    }
    return atoll(at);
}

static bool begins(const char *line, const char *key)
{
    return strncmp(line, key, strlen(key)) == 0;
}

/* Rewrites the record of that process, with one field changed. Returns false if the record has no
 * inode of a pidfd. */
static bool forge(pid_t pid, enum change change)
{
    char path[160];
    char line[512];
    char text[4096] = "";
    char wanted[32];
    long long inode = 0;
    bool found = false;
    snprintf(wanted, sizeof(wanted), "pid %d\n", (int)pid);
    for (unsigned id = 1; id < 64 && !found; id++) {
        snprintf(path, sizeof(path), "%s/state/clients/%u", agent.folder, id);
        FILE *file = fopen(path, "re");
        while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
            size_t used = strlen(text);
            bool starts = change == TRUE_START || change == OTHER_START;
            found = found || strcmp(line, wanted) == 0;
            if (begins(line, "inode ")) {
                inode = atoll(line + strlen("inode "));
                snprintf(line, sizeof(line), "inode %lld\n",
                         starts ? 0 : inode + (change == OTHER_INODE));
            } else if (begins(line, "start ") && starts) {
                snprintf(line, sizeof(line), "start %lld\n",
                         start_of(pid) + (change == OTHER_START));
            } else if (begins(line, "boot ") && change == OTHER_BOOT) {
                line[strlen("boot ")] = line[strlen("boot ")] == '0' ? '1' : '0';
            }
            bool known_before = begins(line, "pid ") || begins(line, "uid ") ||
                                begins(line, "nonce ") || begins(line, "command ") ||
                                begins(line, "holder ");
            if (change != OLDER || known_before) {
                snprintf(text + used, sizeof(text) - used, "%s", line);
            }
        }
        if (file != NULL) {
            fclose(file);
        }
        if (!found) {
            text[0] = '\0';
        }
    }
    REQUIRE(found, "no record of %d", (int)pid);
    FILE *file = fopen(path, "we");
    REQUIRE(file != NULL && fputs(text, file) >= 0 && fclose(file) == 0, "%s", path);
    return inode != 0;
}

/* If another process has the pid of a record, the agent treats the client as dead. Otherwise the
 * client keeps its hold. */
START_TEST(the_record_says_whose_number_it_was)
{
    struct actor holder;
    struct actor waiter;
    enum change change = (enum change)_i;
    bool lives = change == TRUE_INODE || change == TRUE_START || change == OLDER;
    actor_ready(&holder, agent.socket);
    actor_ready(&waiter, agent.socket);
    ck_assert_int_eq(actor_open(&holder, 0, "life", DELAY_MS), 0);
    ck_assert_int_eq(actor_open(&waiter, 0, "life", DELAY_MS), 0);
    ck_assert_int_eq(actor_acquire(&holder, 0, HF_EXCLUSIVE, GUARD_MS, NULL), 0);
    agent_kill(&agent);
    bool inodes = forge(holder.pid, change);
    if (change == OTHER_INODE && !inodes) {
        printf("skipped: pidfds have no inodes here\n");
        lives = true;
    }
    agent_start(&agent);
    ck_assert_uint_eq(agent_logged(&agent, "event=survivors_unproven number=1"), change == OLDER);
    if (lives) {
        ck_assert_int_eq(actor_acquire(&waiter, 0, HF_EXCLUSIVE, (int64_t)2 * DELAY_MS, NULL),
                         HF_ETIMEDOUT);
        ck_assert_int_gt(actor_remaining(&holder, 0), 0);
        actor_kill(&holder); /* the agent watches the process and notices its death */
    }
    ck_assert_int_eq(actor_acquire(&waiter, 0, HF_EXCLUSIVE, GUARD_MS, NULL), 0);
    ck_assert_int_le(lives ? 0 : actor_remaining(&holder, 0), 0);
    actor_end(&holder);
    actor_end(&waiter);
}
END_TEST

/* Forks a process with that pid. Returns false if this machine does not allow that. */
static bool fork_as(pid_t pid, pid_t *made)
{
    struct clone_args arguments = {
        .exit_signal = SIGCHLD, .set_tid = (uintptr_t)&pid, .set_tid_size = 1};
    *made = (pid_t)syscall(SYS_clone3, &arguments, sizeof(arguments));
    if (*made == 0) {
        pause();
        _exit(0);
    }
    return *made == pid;
}

/* A holder dies while no agent runs. When the next agent starts, another process has the holder's
 * pid. */
START_TEST(a_number_that_is_used_again)
{
    struct actor holder;
    struct actor waiter;
    pid_t other = 0;
    actor_ready(&holder, agent.socket);
    actor_ready(&waiter, agent.socket);
    ck_assert_int_eq(actor_open(&holder, 0, "life", DELAY_MS), 0);
    ck_assert_int_eq(actor_open(&waiter, 0, "life", DELAY_MS), 0);
    ck_assert_int_eq(actor_acquire(&holder, 0, HF_EXCLUSIVE, GUARD_MS, NULL), 0);
    agent_kill(&agent);
    pid_t number = holder.pid;
    actor_end(&holder);
    bool made = fork_as(number, &other);
    if (!made) {
        printf("skipped: no process can be given a number here (%s)\n", strerror(errno));
    }
    agent_start(&agent);
    ck_assert_int_eq(actor_acquire(&waiter, 0, HF_EXCLUSIVE, GUARD_MS, NULL), 0);
    if (made) {
        kill_process(other);
    }
    actor_end(&waiter);
}
END_TEST

/* ---- the previous release ---- */

/* Replaces the library's send(). While `older` is set, it writes the previous release's version
 * into HELLO, as the third item. */
ssize_t send(int fd, const void *bytes, size_t size, int flags)
{
    unsigned char copy[HFI_FRAME_MAX];
    const unsigned char hello[] = {0x98, HFI_FRAME_HELLO};
    if (shared != NULL && atomic_load(&shared->older) && size > 8 && size <= sizeof(copy) &&
        memcmp(bytes, hello, sizeof(hello)) == 0) {
        static const size_t sizes[] = {[0xcc - 0xcc] = 1, [0xcd - 0xcc] = 2, [0xce - 0xcc] = 4};
        memcpy(copy, bytes, size);
        size_t at = copy[2] < 0x80 ? 3 : copy[2] <= 0xce ? 3 + sizes[copy[2] - 0xcc] : 3;
        REQUIRE(copy[at] == HFI_PROTOCOL_VERSION, "another HELLO");
        copy[at] = HFI_PROTOCOL_VERSION - 1;
        bytes = copy;
    }
    return syscall(SYS_sendto, fd, bytes, size, flags, NULL, 0);
}

/* A client of the previous release keeps its hold across the upgrade, but cannot open new locks.
 * When it releases the lock or dies, a waiter of this release is served. */
START_TEST(clients_of_the_release_before)
{
    struct actor holder;
    struct actor waiter;
    actor_ready(&holder, agent.socket);
    ck_assert_int_eq(actor_open(&holder, 0, "life", DELAY_MS), 0);
    ck_assert_int_eq(actor_acquire(&holder, 0, HF_EXCLUSIVE, GUARD_MS, NULL), 0);
    agent_kill(&agent);
    (void)forge(holder.pid, OLDER);
    /* from here on, processes that connect again do so as clients of the previous release */
    atomic_store(&shared->older, true);
    agent_start(&agent);
    ck_assert_int_eq(actor_open(&holder, 1, "another", DELAY_MS), HF_EVERSION);
    ck_assert(agent_logged(&agent, "found version 4 of the socket's protocol, expected 5"));
    ck_assert_int_gt(actor_remaining(&holder, 0), 0);
    atomic_store(&shared->older, false);
    actor_ready(&waiter, agent.socket);
    atomic_store(&shared->older, true);
    ck_assert_int_eq(actor_open(&waiter, 0, "life", DELAY_MS), 0);
    actor_wait(&waiter, 0, HF_EXCLUSIVE);
    struct actor_reply reply;
    ck_assert(!actor_receive(&waiter, &reply, 1000));
    ck_assert_int_gt(actor_remaining(&holder, 0), 0);
    if (_i == 0) {
        ck_assert_int_eq(actor_release(&holder, 0), 0);
    } else {
        actor_kill(&holder);
    }
    ck_assert(actor_receive(&waiter, &reply, GUARD_MS));
    ck_assert_int_eq(reply.result, 0);
    actor_end(&holder);
    actor_end(&waiter);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("life");
    tcase_add_checked_fixture(tests, start, stop);
    tcase_set_timeout(tests, 120);
    tcase_add_test(tests, who_resumes_again_and_again);
    tcase_add_test(tests, clients_that_hang_up_and_live);
    tcase_add_test(tests, a_restart_beside_clients_that_hang_up_and_live);
    tcase_add_test(tests, nothing_that_a_client_keeps_is_where_the_store_is);
    tcase_add_loop_test(tests, the_record_says_whose_number_it_was, 0, CHANGES);
    tcase_add_test(tests, a_number_that_is_used_again);
    tcase_add_loop_test(tests, clients_of_the_release_before, 0, 2);
    return suite_main("life", tests);
}
