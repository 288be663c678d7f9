/*
 * One user has ten thousand connections. They send nothing, or a byte a second, or frames that are
 * too large or nested without end, or requests whose answers they never read. Another user's lock
 * is served all the time.
 *
 * The agent's descriptors and memory stay below the user's share, and a few lines of the log name
 * the user. The agent closes all these connections. When the user's processes end, it frees
 * everything that it used for them.
 */
#include <arpa/inet.h>
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "../suite_main.h"
#include "agent_process.h"
#include "holdfast/holdfast.h"
#include "proto/frame.h"
#include "require.h"

enum {
    NOBODY = 65534,
    PROCESSES = 5,
    EACH = 2000,            /* connections of each process */
    CLIENTS_OF_USER = 2048, /* half of [limits] clients, by default */
    SILENT_MAX = 128,       /* io/socket.h: SOCKET_GREETING_MAX_PER_USER */
    DESCRIPTORS_MORE_MAX = 3 * CLIENTS_OF_USER + SILENT_MAX + 64,
    /* For each client: 64 KiB of unsent bytes, up to 1,024 packets with 64 bytes of overhead each,
     * and 8 KiB for the client's own state. */
    MEMORY_MORE_MAX_KB = CLIENTS_OF_USER * (64 + 64 + 8),
    /* The log may grow by LOG_MORE_MAX, and by LOG_A_SECOND_MAX each second for lines about clients
     * that come and go. */
    LOG_MORE_MAX = 64 * 1024,
    LOG_A_SECOND_MAX = 2 * 1024,
    ANSWERS = 400,      /* requests of a client that does not read */
    LARGE = 100 * 1000, /* bytes of a large frame, and the depth of a nested frame */
};

/* The ways in which a connection breaks the rules. */
enum manner { SILENT, NEVER_READS, BYTE_BY_BYTE, TOO_LARGE, NESTED, MANNERS };

static struct agent_process agent;

static struct {
    _Atomic unsigned connected;                /* connections that were made */
    _Atomic unsigned refused;                  /* connections that could not be made */
    _Atomic unsigned done;                     /* processes that have made all their connections */
    _Atomic unsigned open[PROCESSES][MANNERS]; /* open connections at the last look */
} * shared;

/* ---- the flood ---- */

static int dial(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    REQUIRE(fd >= 0, "socket: %s", strerror(errno));
    snprintf(address.sun_path, sizeof(address.sun_path), "%s", agent.socket);
    if (connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

static void greet(int fd)
{
    static unsigned char bytes[HFI_FRAME_MAX];
    struct hfi_frame frame = {.kind = HFI_FRAME_HELLO,
                              .request = 1,
                              .hello = {.version = HFI_PROTOCOL_VERSION,
                                        .pid = getpid(),
                                        .library = {.bytes = "1", .size = 1}}};
    (void)!send(fd, bytes, hfi_frame_encode(&frame, bytes, sizeof(bytes)), MSG_NOSIGNAL);
}

/* Sends an OPEN whose name is an array in an array, and so on. */
static void nest(int fd, size_t depth)
{
    static unsigned char bytes[LARGE];
    memset(bytes, 0x91, sizeof(bytes)); /* an array of one element */
    bytes[0] = 0x9b;                    /* an array of eleven elements: kind, request, nine
                                         * fields */
    bytes[1] = HFI_FRAME_OPEN;
    bytes[2] = 1;
    (void)!send(fd, bytes, depth, MSG_NOSIGNAL);
}

/* Returns whether the connection is still open, without reading answers. */
static bool is_open(int fd)
{
    struct pollfd pollfd = {.fd = fd, .events = POLLRDHUP};
    return poll(&pollfd, 1, 0) == 0;
}

static void ask_and_never_read(int fd)
{
    unsigned char bytes[64];
    for (unsigned i = 0; i < ANSWERS; i++) {
        struct hfi_frame frame = {.kind = HFI_FRAME_STATUS, .request = i + 1};
        size_t size = hfi_frame_encode(&frame, bytes, sizeof(bytes));
        if (send(fd, bytes, size, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
            return;
        }
    }
}

/* Only a few connections send requests and never read, because each of them costs the agent as much
 * as all other connections together. */
static enum manner manner_of(unsigned number)
{
    static const enum manner others[] = {SILENT, BYTE_BY_BYTE, TOO_LARGE, NESTED};
    return number % 20 == 1 ? NEVER_READS : others[number % 4];
}

static void misbehave(int fd, enum manner manner, unsigned number)
{
    static unsigned char large[LARGE];
    if (manner != SILENT) {
        greet(fd);
    }
    if (manner == NEVER_READS) {
        ask_and_never_read(fd);
    } else if (manner == BYTE_BY_BYTE) {
        (void)!send(fd, "\x93", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
    } else if (manner == TOO_LARGE) {
        (void)!send(fd, large, sizeof(large), MSG_NOSIGNAL | MSG_DONTWAIT);
    } else if (manner == NESTED) {
        nest(fd, number % 8 == 3 ? HFI_FRAME_MAX : LARGE);
    }
}

static void look(unsigned process, const int fds[EACH])
{
    unsigned open[MANNERS] = {0};
    for (unsigned i = 0; i < EACH; i++) {
        open[manner_of(i)] += fds[i] >= 0 && is_open(fds[i]);
    }
    for (unsigned i = 0; i < MANNERS; i++) {
        atomic_store(&shared->open[process][i], open[i]);
    }
}

static void flood(unsigned process)
{
    static int fds[EACH];
    struct rlimit limit;
    REQUIRE(getrlimit(RLIMIT_NOFILE, &limit) == 0, "limit");
    limit.rlim_cur = limit.rlim_max;
    REQUIRE(setrlimit(RLIMIT_NOFILE, &limit) == 0, "limit");
    if (geteuid() == 0) {
        REQUIRE(setresgid(NOBODY, NOBODY, NOBODY) == 0 && setresuid(NOBODY, NOBODY, NOBODY) == 0,
                "nobody");
    }
    for (unsigned i = 0; i < EACH; i++) {
        fds[i] = dial();
        atomic_fetch_add(fds[i] >= 0 ? &shared->connected : &shared->refused, 1);
        if (fds[i] >= 0) {
            misbehave(fds[i], manner_of(i), i);
        }
    }
    look(process, fds);
    atomic_fetch_add(&shared->done, 1);
    for (;;) {
        for (unsigned i = 0; i < EACH; i++) {
            if (fds[i] >= 0 && manner_of(i) == BYTE_BY_BYTE) {
                (void)!send(fds[i], "\x01", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
            } else if (fds[i] >= 0 && manner_of(i) == NEVER_READS && is_open(fds[i])) {
                ask_and_never_read(fds[i]);
            }
        }
        sleep_ms(1000);
        look(process, fds);
    }
}

/* ---- the client that the agent must serve during the flood ---- */

struct most {
    unsigned descriptors;
    unsigned long memory_kb;
    int64_t wait_ns;
};

static hf_client *honest;

/* Opens and takes a lock with a new name, so the agent has to grant it. */
static void serve_one(struct most *most)
{
    static unsigned locks;
    char name[32];
    hf_lock *lock;
    int64_t begin_ns = boottime_now();
    snprintf(name, sizeof(name), "honest/%u", locks++);
    /* If the agent gets no processor for long, the library reports HF_ENOAGENT, and the test tries
     * again. */
    int result = hf_open(honest, name, NULL, &lock);
    for (int64_t end_ns = begin_ns + 60000 * MS;
         result == HF_ENOAGENT && boottime_now() < end_ns;) {
        sleep_ms(50);
        result = hf_open(honest, name, NULL, &lock);
    }
    ck_assert_int_eq(result, 0);
    ck_assert_int_eq(hf_acquire(lock, HF_EXCLUSIVE, 60000 * MS, NULL), 0);
    ck_assert_int_eq(hf_release(lock), 0);
    hf_close(lock);
    int64_t wait_ns = boottime_now() - begin_ns;
    unsigned now = agent_descriptors(&agent);
    unsigned long now_kb = agent_private_kb(&agent);
    most->wait_ns = wait_ns > most->wait_ns ? wait_ns : most->wait_ns;
    most->descriptors = now > most->descriptors ? now : most->descriptors;
    most->memory_kb = now_kb > most->memory_kb ? now_kb : most->memory_kb;
}

static void start(void)
{
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(shared, MAP_FAILED);
    agent_create(&agent, "[agent]\nname = host-a\ncell = flood\nstate_dir = %D/state\n"
                         "socket = %D/agent.sock\n[voters]\nhost-a = tcp://127.0.0.1:7411\n"
                         "[namespace.open]\nusers = nobody\n[namespace.honest]\nusers = root\n");
    agent_admit_all(&agent);
    agent_start(&agent);
    struct hf_options options = {.size = sizeof(options), .socket = agent.socket};
    ck_assert_int_eq(hf_connect(&options, &honest), 0);
}

static void stop(void)
{
    hf_disconnect(honest);
    agent_destroy(&agent);
}

static void await_descriptors(unsigned most)
{
    for (int64_t end_ns = boottime_now() + (int64_t)GUARD_MS * 3 * MS;
         agent_descriptors(&agent) > most;) {
        ck_assert_msg(boottime_now() < end_ns, "%u descriptors, expected %u",
                      agent_descriptors(&agent), most);
        sleep_ms(100);
    }
}

static unsigned open_now(enum manner manner)
{
    unsigned count = 0;
    for (unsigned i = 0; i < PROCESSES; i++) {
        count += atomic_load(&shared->open[i][manner]);
    }
    return count;
}

static unsigned open_in_all(void)
{
    unsigned count = 0;
    for (unsigned i = 0; i < MANNERS; i++) {
        count += open_now((enum manner)i);
    }
    return count;
}

START_TEST(ten_thousand_connections)
{
    pid_t pids[PROCESSES];
    struct most before = {0};
    struct most most = {0};
    serve_one(&before);
    long log_before = agent_log_size(&agent);
    int64_t begin_ns = boottime_now();
    for (unsigned i = 0; i < PROCESSES; i++) {
        pids[i] = fork_tied();
        if (pids[i] == 0) {
            flood(i);
        }
    }
    while (atomic_load(&shared->done) < PROCESSES) {
        serve_one(&most);
    }
    /* The agent has a million requests to read before it has closed all connections. The test only
     * checks that the number of open connections falls. */
    unsigned fewest = UINT_MAX;
    int64_t end_ns = 0;
    for (unsigned open = open_in_all(); open > 0; open = open_in_all()) {
        if (open < fewest) {
            fewest = open;
            end_ns = boottime_now() + (int64_t)GUARD_MS * 3 * MS;
        }
        ck_assert_msg(boottime_now() < end_ns, "open: %u %u %u %u %u", open_now(SILENT),
                      open_now(NEVER_READS), open_now(BYTE_BY_BYTE), open_now(TOO_LARGE),
                      open_now(NESTED));
        serve_one(&most);
        sleep_ms(50);
    }
    printf("%u connections, %u refused; descriptors %u, before %u; %lu kB, before %lu; "
           "log %ld bytes; an open and a lock at most %lld ms\n",
           atomic_load(&shared->connected), atomic_load(&shared->refused), most.descriptors,
           before.descriptors, most.memory_kb, before.memory_kb,
           agent_log_size(&agent) - log_before, (long long)(most.wait_ns / MS));
    fflush(stdout);
    ck_assert_uint_eq(atomic_load(&shared->connected) + atomic_load(&shared->refused),
                      PROCESSES * EACH);
    ck_assert_uint_le(most.descriptors, before.descriptors + DESCRIPTORS_MORE_MAX);
    ck_assert_uint_le(most.memory_kb, before.memory_kb + MEMORY_MORE_MAX_KB);
    ck_assert_int_le(agent_log_size(&agent) - log_before,
                     LOG_MORE_MAX + LOG_A_SECOND_MAX * ((boottime_now() - begin_ns) / (1000 * MS)));
    /* The log has at most four lines a minute for each kind of offence, and not one line for each
     * connection. */
    unsigned told = agent_logged(&agent, "event=client_broke_rules");
    ck_assert_uint_ge(told, 1);
    ck_assert_uint_le(told, 4 * (2 + (unsigned)((boottime_now() - begin_ns) / (60000 * MS))));
    for (unsigned i = 0; i < PROCESSES; i++) {
        kill_process(pids[i]);
    }
    await_descriptors(before.descriptors + 2);
    ck_assert(!agent_logged(&agent, "event=bug"));
    serve_one(&most);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("flood");
    tcase_add_checked_fixture(tests, start, stop);
    tcase_set_timeout(tests, 300);
    tcase_add_test(tests, ten_thousand_connections);
    return suite_main("flood", tests);
}
