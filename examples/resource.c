/*
 * A resource that refuses stale holders.
 *
 *     resource none|token|local SOCKET
 *
 * There are three processes: a server that keeps one text, and two clients, A and B, that write the
 * text under the lock "text", with a lease of one second. A takes the lock and checks that it still
 * holds the lock. At exactly that moment A is stopped, as by a debugger, a swapping machine or a
 * paused container. A's lease ends, and B gets the lock and writes. Then A continues, and writes.
 *
 * No lock service can prevent A's late write, and A cannot notice that it is late. But the server
 * can refuse the write, by the rule "token" or the rule "local":
 *
 *   token  The server remembers the highest token that it has accepted and refuses lower ones. This
 *          rule needs no library and no agent, and works wherever the server runs.
 *   local  The server asks hf_check_sequencer_local() whether this host has seen a higher token of
 *          this lock. For this rule the server need not remember anything, so it may be restarted.
 *          The check sends no message. It refuses A as soon as B has taken the lock, but only if B
 *          is on the server's host.
 *   none   The server has no rule and accepts A's stale write. This is the fault that the rules
 *          "token" and "local" prevent.
 *
 * Exit status: 0 the server accepted or refused A's write as described here, 1 it did not.
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <holdfast/holdfast.h>

enum rule { RULE_NONE, RULE_TOKEN, RULE_LOCAL };

/* A write request. The server answers with one byte, which is 1 if it has accepted the write. */
struct write_request {
    uint64_t token;
    char sequencer[HF_SEQUENCER_MAX];
    char text[64];
};

static _Noreturn void fail(const char *what)
{
    fprintf(stderr, "resource: %s: %s\n", what, strerror(errno));
    _exit(1);
}

static void must(int error, const char *what)
{
    if (error != 0) {
        fprintf(stderr, "resource: %s: %s (%d)\n", what, hf_error_text(NULL), error);
        _exit(1);
    }
}

static struct sockaddr_un address_of(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    if (strlen(path) >= sizeof(address.sun_path)) {
        errno = ENAMETOOLONG;
        fail(path);
    }
    memcpy(address.sun_path, path, strlen(path));
    return address;
}

/* ---- the server ------------------------------------------------------------------------- */

struct server {
    enum rule rule;
    hf_client *client;      /* for RULE_LOCAL */
    uint64_t highest_token; /* for RULE_TOKEN; a real server stores it with its data */
    char text[64];
};

static bool accepts(struct server *server, const struct write_request *request)
{
    switch (server->rule) {
    case RULE_TOKEN:
        if (request->token < server->highest_token) {
            return false;
        }
        server->highest_token = request->token;
        return true;
    case RULE_LOCAL:
        return hf_check_sequencer_local(server->client, request->sequencer) == 0;
    case RULE_NONE:
        break;
    }
    return true;
}

static _Noreturn void serve(struct server *server, int listener)
{
    must(hf_connect(NULL, &server->client), "server: connect");
    for (;;) {
        struct write_request request;
        unsigned char answer = 0;
        int fd = accept(listener, NULL, NULL);

        if (fd < 0) {
            fail("accept");
        }
        if (recv(fd, &request, sizeof(request), 0) == (ssize_t)sizeof(request)) {
            request.sequencer[HF_SEQUENCER_MAX - 1] = '\0';
            request.text[sizeof(request.text) - 1] = '\0';
            answer = accepts(server, &request);
            if (answer) {
                memcpy(server->text, request.text, sizeof(server->text));
            }
            printf("server: \"%s\" with token %" PRIu64 ": %s; the text is \"%s\"\n", request.text,
                   request.token, answer ? "accepted" : "REFUSED", server->text);
            fflush(stdout);
            (void)send(fd, &answer, 1, MSG_NOSIGNAL);
        }
        close(fd);
    }
}

static pid_t server_start(enum rule rule, const char *path)
{
    struct server server = {.rule = rule};
    struct sockaddr_un address = address_of(path);
    int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    pid_t pid;

    if (listener < 0 || bind(listener, (struct sockaddr *)&address, sizeof(address)) != 0 ||
        listen(listener, 8) != 0) {
        fail(path);
    }
    pid = fork();
    if (pid < 0) {
        fail("fork");
    }
    if (pid == 0) {
        serve(&server, listener);
    }
    /* a client can connect now, because connections wait in the queue of the listening socket */
    close(listener);
    return pid;
}

/* ---- the writers ------------------------------------------------------------------------ */

/* A client that writes: its lock and its hold. */
struct writer {
    hf_client *client;
    hf_lock *lock;
    struct write_request request; /* token and sequencer of the hold */
};

static void writer_take(struct writer *writer)
{
    /* A lease of one second, which is never renewed, so that B can get the lock although the
     * stopped A still exists. (A renewed hold would stay with A as long as A exists, unless
     * max_stall_ns is set.) After the lease B also waits for the lock-delay. */
    struct hf_lock_options options = HF_LOCK_OPTIONS_INIT;
    struct hf_hold hold;

    options.lease_ns = 1000000000;
    options.lock_delay_ns = 200000000;
    must(hf_connect(NULL, &writer->client), "connect");
    must(hf_open(writer->client, "text", &options, &writer->lock), "open");
    must(hf_acquire(writer->lock, HF_EXCLUSIVE, 30000000000, &hold), "acquire");
    must(hf_sequencer(writer->lock, writer->request.sequencer, HF_SEQUENCER_MAX), "sequencer");
    writer->request.token = hold.token;
}

/* Returns true if the server accepted the write. */
static bool writer_write(struct writer *writer, const char *path, const char *text)
{
    struct sockaddr_un address = address_of(path);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    unsigned char answer = 0;

    snprintf(writer->request.text, sizeof(writer->request.text), "%s", text);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0 ||
        send(fd, &writer->request, sizeof(writer->request), MSG_NOSIGNAL) < 0 ||
        recv(fd, &answer, 1, 0) != 1) {
        fail("asking the server");
    }
    close(fd);
    return answer == 1;
}

/* Exit status 0: the stale write was accepted; 3: it was refused. */
static _Noreturn void writer_a(const char *path)
{
    struct writer writer = {.lock = NULL};

    writer_take(&writer);
    if (!writer_write(&writer, path, "first by A") || hf_remaining_ns(writer.lock) <= 0) {
        _exit(1);
    }
    /* "I still hold it, so I may write": exactly here A is stopped. */
    raise(SIGSTOP);
    _exit(writer_write(&writer, path, "late by A") ? 0 : 3);
}

static int play(enum rule rule, const char *path)
{
    struct writer b = {.lock = NULL};
    int expected = rule == RULE_NONE ? 0 : 3;
    int status;
    pid_t a = fork();

    if (a < 0) {
        fail("fork");
    }
    if (a == 0) {
        writer_a(path);
    }
    if (waitpid(a, &status, WUNTRACED) != a || !WIFSTOPPED(status)) {
        fprintf(stderr, "resource: A ended before it was stopped\n");
        return 1;
    }
    printf("A is stopped; B waits for A's lease to end and the lock-delay to pass\n");
    fflush(stdout);
    writer_take(&b);
    if (!writer_write(&b, path, "by B")) {
        fprintf(stderr, "resource: B's write was refused\n");
        expected = -1;
    }
    /* also releases B's hold; the rules must refuse A even if the lock is free again */
    hf_disconnect(b.client);
    kill(a, SIGCONT);
    if (waitpid(a, &status, 0) != a || !WIFEXITED(status) || WEXITSTATUS(status) != expected) {
        fprintf(stderr, "resource: A's late write: not as expected\n");
        return 1;
    }
    printf("A's late write was %s\n",
           expected == 0 ? "accepted: the text is wrong now" : "refused: the text is B's");
    return 0;
}

int main(int argc, char **argv)
{
    static const char *const rules[] = {"none", "token", "local"};
    int rule = -1;
    pid_t server;
    int status;

    for (int index = 0; argc == 3 && index < 3; index++) {
        rule = strcmp(argv[1], rules[index]) == 0 ? index : rule;
    }
    if (rule < 0) {
        fprintf(stderr, "usage: resource none|token|local SOCKET\n");
        return 1;
    }
    printf("--- rule: %s\n", rules[rule]);
    fflush(stdout);
    server = server_start((enum rule)rule, argv[2]);
    status = play((enum rule)rule, argv[2]);
    kill(server, SIGKILL);
    (void)waitpid(server, NULL, 0);
    (void)unlink(argv[2]);
    return status;
}
