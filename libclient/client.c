/*
 * The connection to the agent: how it is made, lost and made again, and how requests are answered.
 *
 * A connection begins with HELLO and WELCOME. A client that comes back names itself by the id and
 * the nonce of its first WELCOME. If the agent still knows the client (after a restart within the
 * lease, for example), the client's handles are opened again as they were, and its holds go on.
 * Otherwise the holds are lost, and the handles start anew. A call that needs the agent makes the
 * connection. The library has no thread in the background.
 */
#include "client.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum {
    RETRY_MS_MIN = 50,
    RETRY_MS_MAX = 500,
    RETRY_MS_MAX_VERSION = 30000, /* if the agent answered HF_EVERSION */
    DRAIN_MAX = 4096,
};

/* The paths of the sockets of possible agents, in the order in which the client tries them. */
struct socket_paths {
    char path[2][sizeof(((struct sockaddr_un *)0)->sun_path)];
    size_t count;
};

/* Finds the paths by the rule in holdfast.h (struct hf_options). Returns 0 or HF_EINVAL. */
static int socket_paths(hf_client *client, struct socket_paths *out)
{
    const size_t size = sizeof(out->path[0]);
    const char *chosen = secure_getenv("HOLDFAST_SOCKET");
    out->count = 1;
    if (chosen != NULL && *chosen != '\0') {
        if (snprintf(out->path[0], size, "%s", chosen) < (int)size) {
            return 0;
        }
        trouble_set(client, HF_EINVAL,
                    "HOLDFAST_SOCKET has %zu bytes, and a socket's path has at most %zu",
                    strlen(chosen), size - 1);
        return HF_EINVAL;
    }
    snprintf(out->path[0], size, "/run/holdfast/agent.sock");
    const char *runtime = secure_getenv("XDG_RUNTIME_DIR");
    if (runtime != NULL && *runtime == '/' &&
        snprintf(out->path[1], size, "%s/holdfast/agent.sock", runtime) < (int)size) {
        out->count = 2;
    }
    return 0;
}

static int connect_error_of(int number)
{
    switch (number) {
    case EACCES:
    case EPERM:
        return HF_EACCES;
    case EMFILE:
    case ENFILE:
    case ENOMEM:
    case ENOBUFS:
        return HF_ENOMEM;
    default:
        return HF_ENOAGENT;
    }
}

/* Returns the error for errno after a failed call, and keeps errno's text. */
static int connect_error(hf_client *client)
{
    int error = connect_error_of(errno);
    trouble_set(client, error, "%s", strerrordesc_np(errno));
    return error;
}

/* Finds this process's command line for HELLO. The agent shows the command line to people. Without
 * /proc it stays empty. */
static void command_find(hf_client *client)
{
    char words[2 * HFI_FRAME_COMMAND_MAX];
    int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return;
    }
    ssize_t got = read(fd, words, sizeof(words));
    close(fd);
    client->command_size = hfi_command_of(words, got > 0 ? (size_t)got : 0, client->command).size;
}

/* Returns the identity of the socket that is at the path now. */
static struct socket_identity socket_file(const hf_client *client)
{
    struct stat status;
    struct socket_identity file = {0};
    if (stat(client->path, &status) == 0) {
        file = (struct socket_identity){
            .device = status.st_dev, .inode = status.st_ino, .changed = status.st_ctim};
    }
    return file;
}

bool client_same_socket(const struct socket_identity *one, const struct socket_identity *other)
{
    return one->device == other->device && one->inode == other->inode &&
           one->changed.tv_sec == other->changed.tv_sec &&
           one->changed.tv_nsec == other->changed.tv_nsec;
}

/* Returns whether the socket at the path differs from the socket to which the last HELLO was sent.
 * If they differ, a new agent has made the socket at the path. */
static bool socket_is_new(const hf_client *client)
{
    struct socket_identity now = socket_file(client);
    return !client_same_socket(&client->greeted, &now);
}

/* Connects a socket to client->path. Returns 0 or an error. */
static int connect_to_path(hf_client *client, int *out)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    memcpy(address.sun_path, client->path, sizeof(address.sun_path));
    /* read before connect(), so that it is not the identity of a later socket at the path */
    client->greeted = socket_file(client);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        return connect_error(client);
    }
    if (connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0) {
        int error = connect_error(client);
        close(fd);
        return error;
    }
    *out = fd;
    return 0;
}

/* Connects to the path at which this client first found an agent. A client that has not found one
 * yet connects to the first path at which an agent listens. So a client never moves from one
 * default path to the other, where an agent of another cell may listen. Returns 0 or an error. */
static int connect_to_agent(hf_client *client, int *out)
{
    struct socket_paths paths;
    if (client->path_fixed) {
        return connect_to_path(client, out);
    }
    int error = socket_paths(client, &paths);
    for (size_t i = 0; error == 0 && i < paths.count; i++) {
        memcpy(client->path, paths.path[i], sizeof(client->path));
        int result = connect_to_path(client, out);
        if (result != HF_ENOAGENT || i + 1 == paths.count) {
            return result;
        }
    }
    return error;
}

/* Connects the socket to the agent, and sends HELLO. */
static int greet(hf_client *client)
{
    int fd = -1;
    int error = connect_to_agent(client, &fd);
    if (error != 0) {
        return error;
    }
    client->greeted_ns = boottime_ns();
    struct hfi_frame hello = {
        .kind = HFI_FRAME_HELLO,
        .request = ++client->request,
        .hello = {.version = HFI_PROTOCOL_VERSION,
                  .pid = getpid(),
                  .client = client->id,
                  .nonce = client->nonce,
                  .library = text_of(HF_VERSION, strlen(HF_VERSION)),
                  .command = text_of(client->command, client->command_size)},
    };
    error = socket_up(client, fd, &hello);
    if (error == 0) {
        client->connection_state = CONNECTION_GREETING;
        client->connection++;
        events_connected(client);
    }
    return error;
}

static bool label_copy(char *out, struct hfi_text text)
{
    if (text.size > HFI_LABEL_MAX) {
        return false;
    }
    memcpy(out, text.bytes, text.size);
    out[text.size] = '\0';
    return true;
}

/*
 * Returns whether the agent reads the same CLOCK_BOOTTIME as this process, and not that of another
 * time namespace. The agent read its clock after HELLO was sent and before WELCOME came. So in one
 * namespace the agent's reading lies between those two times, however long a process stood still.
 * No tolerance is needed, because all processors share CLOCK_BOOTTIME. A namespace whose clock
 * differs by less than the greeting took is not noticed.
 */
static bool same_clock(hf_client *client, uint64_t agents_ns, int64_t now_ns)
{
    int64_t apart_ns = 0; /* the least possible difference between the two clocks */
    if (agents_ns > (uint64_t)now_ns) {
        apart_ns = agents_ns > INT64_MAX ? INT64_MIN : now_ns - (int64_t)agents_ns;
    } else if ((int64_t)agents_ns < client->greeted_ns) {
        apart_ns = client->greeted_ns - (int64_t)agents_ns;
    }
    if (apart_ns != 0) {
        trouble_set(client, HF_EPROTO,
                    "this process is in another time namespace than its agent: its CLOCK_BOOTTIME "
                    "is %s by %.6f s",
                    apart_ns < 0 ? "behind" : "ahead",
                    (double)(apart_ns < 0 ? -(apart_ns + 1) : apart_ns) / (double)NS_PER_S);
    }
    return apart_ns == 0;
}

/* Keeps the reason why the agent has no room for this connection. */
static void refusal_keep(hf_client *client, const struct hfi_frame *reason)
{
    char full[FULL_TEXT_MAX];
    client->refused = HF_EFULL;
    full_forget();
    if (reason != NULL && reason->error == HF_EFULL) {
        full_note(&reason->full);
    }
    if (reason != NULL && reason->error == HFI_DONE_DISK_FULL) {
        snprintf(client->refusal, sizeof(client->refusal),
                 "the agent's disk is full: make room where its state_dir is");
    } else if (full_text(full, sizeof(full))) {
        snprintf(client->refusal, sizeof(client->refusal),
                 "the agent has no room for one more connection: %s", full);
    } else {
        snprintf(client->refusal, sizeof(client->refusal),
                 "the agent has no room for one more connection: a table or its disk is full, or "
                 "it has no descriptors left; its log says which");
    }
}

/* Reads the frame with which an agent reports why it has no room. An agent that sends no such frame
 * hangs up, so this wait is short. */
static void refusal_read(hf_client *client)
{
    struct answer answer;
    int got = socket_receive(client, boottime_ns() + REFUSAL_MS * NS_PER_MS, &answer);
    bool reason = got == 1 && answer.frame.kind == HFI_FRAME_DONE && answer.frame.request == 0;
    refusal_keep(client, reason ? &answer.frame : NULL);
    if (got == 1) {
        answer_close_fd(&answer);
    }
    trouble_set(client, HF_ENOAGENT, "%s", client->refusal);
}

/* Handles the answer to HELLO. Keeps the cause of a failure if its error code does not say it. */
static int welcome_take(hf_client *client, const struct answer *answer, bool *resumed)
{
    const struct hfi_frame *frame = &answer->frame;
    const struct hfi_welcome *welcome = &frame->welcome;
    if (frame->kind == HFI_FRAME_DONE && frame->request == 0 && frame->error == HF_EFULL) {
        /* the agent had no room for this connection, and did not read HELLO; it may have room
         * soon */
        refusal_read(client);
        return HF_ENOAGENT;
    }
    if (frame->request == client->request && frame->kind == HFI_FRAME_DONE &&
        frame->error == HF_EFULL) {
        refusal_keep(client, frame);
        trouble_set(client, HF_EFULL, "%s", client->refusal);
        return HF_EFULL;
    }
    if (frame->request == client->request && frame->kind == HFI_FRAME_DONE && frame->error < 0) {
        trouble_set(client, frame->error, "the agent refuses this process: %s",
                    hf_strerror(frame->error));
        return frame->error;
    }
    if (frame->request != client->request || frame->kind != HFI_FRAME_WELCOME) {
        trouble_set(client, HF_EPROTO, "the agent did not answer the greeting");
        return HF_EPROTO;
    }
    if (welcome->version != HFI_PROTOCOL_VERSION) {
        trouble_set(client, HF_EVERSION,
                    "the agent speaks version %llu of the socket's protocol, expected %d",
                    (unsigned long long)welcome->version, HFI_PROTOCOL_VERSION);
        return HF_EVERSION;
    }
    if (!same_clock(client, welcome->boottime_ns, boottime_ns())) {
        return HF_EPROTO;
    }
    *resumed = client->id != 0 && welcome->resumed && welcome->client == client->id;
    if (client->id == 0) {
        if (!label_copy(client->cell, welcome->cell) ||
            !label_copy(client->agent, welcome->agent)) {
            return HF_EPROTO;
        }
    } else if (strlen(client->cell) != welcome->cell.size ||
               memcmp(client->cell, welcome->cell.bytes, welcome->cell.size) != 0) {
        trouble_set(client, HF_EPROTO, "this is now an agent of the cell %.*s, expected %s",
                    (int)welcome->cell.size, welcome->cell.bytes, client->cell);
        return HF_EPROTO;
    }
    client->id = welcome->client;
    client->nonce = welcome->nonce;
    client->grace_ns = welcome->grace_ns;
    client->ttl_ns = welcome->session_ttl_ns;
    return 0;
}

/* To be called on a new connection: opens the handles again, and asks the agent again for events
 * and watches. */
static int resume(hf_client *client, bool resumed)
{
    client->connection_state = CONNECTION_UP;
    client->path_fixed = true;
    if (!resumed) {
        for (hf_lock *lock = client->locks; lock != NULL; lock = lock->next) {
            lock_orphan(lock);
        }
    }
    pthread_mutex_lock(&client->list_mutex);
    namespaces_forget(client);
    pthread_mutex_unlock(&client->list_mutex);
    int error = events_resume(client);
    for (hf_lock *lock = client->locks; lock != NULL && error == 0; lock = lock->next) {
        error = lock_open(lock, resumed);
        if (error != HF_ENOAGENT && error != HF_EPROTO) {
            error = 0; /* the agent refused the handle; its next use asks again */
        }
    }
    /* After RESUMED the agent closes every handle that this client has not opened again: the
     * program closed such handles while no agent ran. */
    if (error == 0 && resumed) {
        struct hfi_frame frame = {.kind = HFI_FRAME_RESUMED};
        struct answer answer;
        error = client_ask(client, &frame, HFI_FRAME_DONE, &answer);
    }
    if (error != 0) {
        socket_down(client);
        return error;
    }
    client->retry_gap_ns = 0;
    trouble_clear(client);
    /* release: pairs with the acquire load of `down` in other threads, which then lock
     * socket_mutex */
    atomic_store_explicit(&client->down, false, memory_order_release);
    events_look(client);
    return 0;
}

static void silent(hf_client *client)
{
    trouble_set(client, HF_ENOAGENT, "the agent accepts the connection and does not answer");
}

/* Doubles the pause before the next attempt. */
static void retry_later(hf_client *client)
{
    int64_t most_ns = (client->other_version ? RETRY_MS_MAX_VERSION : RETRY_MS_MAX) * NS_PER_MS;
    client->retry_gap_ns *= 2;
    if (client->retry_gap_ns < RETRY_MS_MIN * NS_PER_MS) {
        client->retry_gap_ns = RETRY_MS_MIN * NS_PER_MS;
    } else if (client->retry_gap_ns > most_ns) {
        client->retry_gap_ns = most_ns;
    }
    client->retry_ns = boottime_ns() + client->retry_gap_ns;
}

int client_reconnect(hf_client *client, int64_t deadline_ns)
{
    int error = 0;
    if (client->connection_state == CONNECTION_UP) {
        return 0;
    }
    if (client->connection_state == CONNECTION_DOWN) {
        if (client->other_version && socket_is_new(client)) {
            client->other_version = false;
            client->retry_ns = client->retry_gap_ns = 0; /* a new agent has made the socket */
        }
        if (boottime_ns() < client->retry_ns) {
            return client->other_version ? HF_EVERSION : HF_ENOAGENT;
        }
        error = greet(client);
    }
    struct answer answer;
    bool resumed = false;
    if (error == 0) {
        int64_t hung_ns = client->greeted_ns + ANSWER_MS * NS_PER_MS;
        int got = socket_receive(client, deadline_ns < hung_ns ? deadline_ns : hung_ns, &answer);
        if (got == 0 && boottime_ns() < hung_ns) {
            /* no WELCOME yet: the next attempt waits for WELCOME on this connection */
            silent(client);
            return HF_ENOAGENT;
        }
        if (got == 0) {
            silent(client);
        }
        error = got == 1 ? welcome_take(client, &answer, &resumed) : got == 0 ? HF_ENOAGENT : got;
        if (got == 1) {
            answer_close_fd(&answer);
        }
    }
    if (error == 0) {
        error = resume(client, resumed);
    }
    client->other_version = error == HF_EVERSION;
    if (error != 0) {
        socket_down(client);
        retry_later(client);
    }
    return error;
}

/* Sleeps until the next attempt is due. */
static void retry_sleep(const hf_client *client, int64_t deadline_ns)
{
    int64_t until_ns = client->retry_ns < deadline_ns ? client->retry_ns : deadline_ns;
    struct timespec until = {.tv_sec = until_ns / NS_PER_S, .tv_nsec = until_ns % NS_PER_S};
    clock_nanosleep(CLOCK_BOOTTIME, TIMER_ABSTIME, &until, NULL);
}

int client_reach(hf_client *client)
{
    int64_t deadline_ns = boottime_ns() + REACH_MS * NS_PER_MS;
    for (;;) { /* the loop ends by the deadline */
        int error = client_reconnect(client, deadline_ns);
        if (error != HF_ENOAGENT || boottime_ns() >= deadline_ns) {
            return error;
        }
        retry_sleep(client, deadline_ns);
    }
}

/* Handles a frame that answers no request: CHANGED, POKE or REGION. Returns 0 if the frame was one
 * of these and is handled, 1 if it is of another kind, or an error. */
static int take_unasked(hf_client *client, struct answer *answer)
{
    int error = 0;
    switch (answer->frame.kind) {
    case HFI_FRAME_CHANGED:
        events_changed(client, answer->frame.text.bytes, answer->frame.text.size);
        break;
    case HFI_FRAME_POKE:
        events_look(client);
        break;
    case HFI_FRAME_REGION:
        answer->map = region_take(client, answer, &error);
        break;
    default:
        return 1;
    }
    answer_close_fd(answer);
    return error;
}

static void unasked(hf_client *client)
{
    trouble_set(client, HF_EPROTO, "the agent sent an answer to another request");
}

int client_ask(hf_client *client, struct hfi_frame *frame, enum hfi_frame_kind expected,
               struct answer *answer)
{
    if (client->connection_state != CONNECTION_UP) {
        return HF_ENOAGENT;
    }
    frame->request = ++client->request;
    full_forget();
    int error = socket_send(client, frame);
    int64_t deadline_ns = boottime_ns() + ANSWER_MS * NS_PER_MS;
    answer->map = NULL;
    while (error == 0) {
        /* the loop ends soon after the deadline, however many unasked frames come */
        int got = socket_receive(client, deadline_ns, answer);
        if (got <= 0) {
            if (got == 0) {
                silent(client);
            }
            error = got == 0 ? HF_ENOAGENT : got;
            break;
        }
        error = take_unasked(client, answer);
        if (error <= 0) {
            error = error == 0 && boottime_ns() > deadline_ns ? HF_ENOAGENT : error;
            continue;
        }
        if (frame->kind != HFI_FRAME_BACKUP) { /* only a BACKUP's caller takes a descriptor */
            answer_close_fd(answer);
        }
        if (answer->frame.request != frame->request) {
            answer_close_fd(answer);
            unasked(client);
            error = HF_EPROTO;
            break;
        }
        if (answer->frame.kind != expected) {
            answer_close_fd(answer);
        }
        if (answer->frame.kind == HFI_FRAME_DONE &&
            (expected == HFI_FRAME_DONE || answer->frame.error < 0)) {
            full_note(&answer->frame.full);
            return answer->frame.error;
        }
        if (answer->frame.kind == expected) {
            return 0;
        }
        unasked(client);
        error = HF_EPROTO;
    }
    if (error == HF_ENOAGENT || error == HF_EPROTO) {
        socket_down(client);
    }
    return error;
}

int client_request(hf_client *client, struct hfi_frame *frame, enum hfi_frame_kind expected,
                   struct answer *answer)
{
    int error = HF_ENOAGENT;
    for (int attempt = 0; attempt < 2 && error == HF_ENOAGENT; attempt++) {
        error = client_reach(client);
        if (error != 0) {
            return error;
        }
        error = client_ask(client, frame, expected, answer);
    }
    return error;
}

void client_drain(hf_client *client)
{
    struct answer answer;
    for (int i = 0; i < DRAIN_MAX && client->connection_state == CONNECTION_UP; i++) {
        int got = socket_receive(client, 0, &answer);
        if (got <= 0) {
            return;
        }
        int error = take_unasked(client, &answer);
        if (error != 0) { /* a frame of another kind, or an invalid region */
            answer_close_fd(&answer);
            socket_down(client);
        }
    }
}

static void client_free(hf_client *client)
{
    if (client->socket_fd >= 0) {
        close(client->socket_fd);
    }
    events_destroy(client);
    namespaces_forget(client);
    regions_destroy(client);
    if (client->alive != NULL) {
        alive_destroy(client->alive);
    }
    pthread_mutex_destroy(&client->start_mutex);
    pthread_mutex_destroy(&client->socket_mutex);
    pthread_mutex_destroy(&client->list_mutex);
    free(client);
}

static hf_client *client_create(void)
{
    hf_client *client = calloc(1, sizeof(*client));
    if (client == NULL) {
        return NULL;
    }
    client->pid = getpid();
    client->made_ns = boottime_ns();
    client->socket_fd = -1;
    client->events.epoll_fd = client->events.timer_fd = client->events.wake_fd = -1;
    client->events.armed_ns = INT64_MAX;
    atomic_init(&client->down, true);
    pthread_mutex_init(&client->start_mutex, NULL);
    pthread_mutex_init(&client->socket_mutex, NULL);
    pthread_mutex_init(&client->list_mutex, NULL);
    client->alive = alive_create();
    if (client->alive == NULL) {
        client_free(client);
        return NULL;
    }
    command_find(client);
    return client;
}

/* Makes the first connection. Repeats attempts until one succeeds or timeout_ns is over. */
static int connect_first(hf_client *client, int64_t timeout_ns)
{
    int64_t deadline_ns = deadline_after(timeout_ns);
    int error;
    pthread_mutex_lock(&client->socket_mutex);
    for (;;) { /* the loop ends by the deadline */
        error = client_reconnect(client, deadline_ns);
        if (error != HF_ENOAGENT || boottime_ns() >= deadline_ns) {
            break;
        }
        retry_sleep(client, deadline_ns);
    }
    if (error == HF_ENOAGENT && client->refused != 0) {
        error = client->refused;
        trouble_set(client, error, "%s", client->refusal);
    }
    pthread_mutex_unlock(&client->socket_mutex);
    return error;
}

static void why_write(const struct hf_options *options, const char *text)
{
    if (options->why != NULL && options->why_size > 0) {
        snprintf(options->why, options->why_size, "%s", text);
    }
}

/* Reports a failure that comes before the first attempt to connect. */
static int refuse(const struct hf_options *options, int error, const char *text)
{
    why_write(options, text);
    return failure(NULL, error, "%s", text);
}

/* Writes options->why and the text for hf_error_text() after the attempts to connect. */
static int connect_report(hf_client *client, const struct hf_options *options, int error)
{
    char cause[sizeof(client->trouble.text)];
    bool exact = (error == HF_EPROTO || error == HF_EFULL) &&
                 trouble_read(client, error, cause, sizeof(cause));
    why_write(options, exact ? cause : hf_strerror(error));
    if (error != 0) {
        failure_reach(client, error);
        failure_forget_client();
    }
    return error;
}

/* Reads the options of hf_connect(). */
static int options_take(const struct hf_options *given, struct hf_options *options)
{
    char text[160];
    const size_t size_max = sizeof(((hf_client *)0)->path) - 1;
    size_t first_size = offsetof(struct hf_options, why);
    if (given != NULL && !options_copy(options, sizeof(*options), first_size, given)) {
        return failure_options(NULL, "hf_options", given, first_size);
    }
    size_t size = options->socket != NULL ? strlen(options->socket) : 0;
    if (size > size_max) {
        snprintf(text, sizeof(text), "the socket's path has %zu bytes, expected at most %zu", size,
                 size_max);
        return refuse(options, HF_EINVAL, text);
    }
    return 0;
}

HFI_PUBLIC int hf_connect(const struct hf_options *given, hf_client **out)
{
    struct hf_options options = {.size = sizeof(options)};
    int error = out == NULL ? failure_null(NULL, "out") : options_take(given, &options);
    if (error != 0) {
        return error;
    }
    hf_client *client = client_create();
    if (client == NULL) {
        return refuse(&options, HF_ENOMEM, hf_strerror(HF_ENOMEM));
    }
    if (options.socket != NULL) {
        memcpy(client->path, options.socket, strlen(options.socket) + 1);
        client->path_fixed = true;
    }
    if (options.command != NULL) {
        client->command_size =
            hfi_command_of(options.command, strlen(options.command), client->command).size;
    }
    int64_t timeout_ns = options.connect_timeout_ns == 0 ? 5 * NS_PER_S
                                                         : options.connect_timeout_ns;
    error = connect_report(client, &options, connect_first(client, timeout_ns));
    if (error != 0) {
        client_free(client);
        return error;
    }
    *out = client;
    return 0;
}

/* Lets the agent reuse this client's ids before this process ends. */
static void send_goodbye(hf_client *client)
{
    pthread_mutex_lock(&client->socket_mutex);
    if (client->connection_state == CONNECTION_UP) {
        struct hfi_frame frame = {.kind = HFI_FRAME_BYE, .request = ++client->request};
        /* if the frame is lost, the ids stay in use until this process ends */
        int ignored = socket_send(client, &frame);
        (void)ignored;
    }
    pthread_mutex_unlock(&client->socket_mutex);
}

HFI_PUBLIC void hf_disconnect(hf_client *client)
{
    if (client == NULL) {
        return;
    }
    bool here = alive_here(client->alive);
    while (client->locks != NULL) {
        hf_lock *lock = client->locks;
        if (here) {
            hf_close(lock);
        } else {
            client->locks = lock->next;
            lock_free(lock);
        }
    }
    if (here) {
        send_goodbye(client);
    }
    client_free(client);
}
