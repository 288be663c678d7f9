/*
 * A client does not receive the descriptors that the agent sends to it. The kernel counts them as
 * the agent's. Once they are as many as the agent's limit of open files, the kernel lets the agent
 * send no descriptor to any client. So the agent lets each user have only a few unread descriptors,
 * on open and on closed connections, and other users get their regions. The test needs root, for
 * two users.
 */
#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../suite_main.h"
#include "agent_process.h"
#include "hello.h"
#include "holdfast/holdfast.h"
#include "require.h"

enum {
    NOBODY = 65534,
    FILES = 600,      /* the agent's limit of open files */
    CONNECTIONS = 80, /* connections in each of the ROUNDS; the client never reads any of them */
    ROUNDS = 10,
    ASKED = 200, /* requests on each connection, or fewer if its socket is full */
    KEPT_MAX = CONNECTIONS * ROUNDS,
    CLIENTS = 90,
};

static struct agent_process agent;

static struct hfi_frame map_request(uint64_t request)
{
    return (struct hfi_frame){
        .kind = HFI_FRAME_MAP, .request = request, .text = {.bytes = "open/a", .size = 6}};
}

/* Asks for the region again and again and reads nothing, on one connection after another. It keeps
 * its own ends open, even if the agent closes its ends. */
static void hoard(int told)
{
    struct rlimit limit = {KEPT_MAX + 100, KEPT_MAX + 100};
    unsigned kept = 0;
    REQUIRE(setrlimit(RLIMIT_NOFILE, &limit) == 0 && setresgid(NOBODY, NOBODY, NOBODY) == 0 &&
                setresuid(NOBODY, NOBODY, NOBODY) == 0,
            "cannot become nobody");
    for (unsigned i = 0; i < KEPT_MAX; i++) {
        int fd = hello_enter(agent.socket, NULL);
        for (unsigned asked = 0; fd >= 0 && asked < ASKED; asked++) {
            struct hfi_frame frame = map_request(2 + asked);
            if (!hello_say(fd, &frame, MSG_DONTWAIT)) {
                break;
            }
        }
        kept += fd >= 0;
    }
    REQUIRE(write(told, &kept, sizeof(kept)) == sizeof(kept), "write");
    for (;;) {
        pause();
    }
}

/* Checks that a new process of root gets the region of its own namespace, and a lock in it. */
static void expect_served(void)
{
    struct hf_options options = {.size = sizeof(options), .socket = agent.socket};
    hf_client *client;
    hf_lock *lock;
    ck_assert_int_eq(hf_connect(&options, &client), 0);
    ck_assert_int_eq(hf_open(client, "honest/lock", NULL, &lock), 0);
    ck_assert_int_eq(hf_acquire(lock, HF_EXCLUSIVE, (int64_t)GUARD_MS * MS, NULL), 0);
    ck_assert_int_eq(hf_release(lock), 0);
    hf_disconnect(client);
}

static void start(void)
{
    char text[512];
    snprintf(text, sizeof(text),
             "[agent]\nname = host-a\ncell = unread\nstate_dir = %%D/state\n"
             "socket = %%D/agent.sock\n[voters]\nhost-a = tcp://127.0.0.1:7411\n"
             "[limits]\nclients = %d\n[namespace.open]\nusers = nobody\n[namespace.honest]\n",
             CLIENTS);
    agent_create(&agent, text);
    agent_admit_all(&agent);
    agent_start(&agent);
    struct rlimit limit = {FILES, FILES};
    ck_assert_int_eq(prlimit(agent.pid, RLIMIT_NOFILE, &limit, NULL), 0);
}

START_TEST(who_receives_no_regions_keeps_none_from_others)
{
    int ends[2];
    unsigned kept = 0;
    if (geteuid() != 0) {
        return;
    }
    start();
    ck_assert_int_eq(pipe(ends), 0);
    pid_t pid = fork_tied();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        hoard(ends[1]);
    }
    ck_assert_int_eq(read(ends[0], &kept, sizeof(kept)), sizeof(kept));
    printf("%u connections of a user that reads nothing\n", kept);
    expect_served();
    ck_assert_uint_eq(agent_logged(&agent, "Too many references"), 0);
    ck_assert_uint_gt(agent_logged(&agent, "it does not read its answers"), 0);
    kill_process(pid);
    /* When the hoarder has ended, the agent closes the descriptors of its connections. */
    for (int64_t end_ns = boottime_now() + GUARD_MS * MS; agent_descriptors(&agent) > CLIENTS;) {
        ck_assert_int_lt(boottime_now(), end_ns);
        sleep_ms(20);
    }
    expect_served();
    agent_destroy(&agent);
}
END_TEST

/* A client that reads late receives every frame that was sent, and after them the end of the
 * connection. From then on the agent admits another connection in its place. */
START_TEST(what_was_sent_is_received)
{
    struct hfi_frame frame;
    unsigned regions = 0;
    int fd;
    int region;
    start();
    fd = hello_enter(agent.socket, NULL);
    ck_assert_int_ge(fd, 0);
    for (unsigned asked = 0; asked < 10; asked++) {
        frame = map_request(2 + asked);
        (void)hello_say(fd, &frame, MSG_DONTWAIT);
    }
    while (agent_logged(&agent, "it does not read its answers") == 0) {
        sleep_ms(1);
    }
    while (hello_receive(fd, &frame, &region)) {
        regions += region >= 0;
        close(region);
    }
    ck_assert_uint_eq(regions, 2);
    close(fd);
    expect_served();
    agent_destroy(&agent);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("unread");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, who_receives_no_regions_keeps_none_from_others);
    tcase_add_test(tests, what_was_sent_is_received);
    return suite_main("unread", tests);
}
