/* Processes that carry out requests over a socket pair, and reply with the results: see actor.h. */
#include "actor.h"

#include "require.h"

#include <errno.h>
#include <grp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

/* The state of an actor's process. */
struct stage {
    int fd;
    hf_client *client;
    hf_lock *locks[ACTOR_LOCKS];
};

struct job {
    struct stage *stage;
    struct actor_request request;
};

static uint32_t lock_number(const struct stage *stage, const hf_lock *lock)
{
    for (uint32_t i = 0; lock && i < ACTOR_LOCKS; i++) {
        if (stage->locks[i] == lock) {
            return i;
        }
    }
    return UINT32_MAX;
}

static int note_show(const struct hf_lock_info *info, void *arg)
{
    struct actor_show *show = arg;
    show->state = info->state;
    show->closed_ns = info->closed_ns;
    show->holders = info->holder_count;
    show->waiters = info->waiter_count;
    snprintf(show->coordinator, sizeof(show->coordinator), "%s",
             info->coordinator ? info->coordinator : "");
    if (info->holder_count > 0) {
        show->holder_pid = info->holders[0]->pid;
        show->holder_uid = info->holders[0]->uid;
        show->holder_token = info->holders[0]->token;
    }
    for (size_t i = 0; i < info->waiter_count && i < 64; i++) {
        show->waiter_pids[i] = info->waiters[i]->pid;
    }
    return 0;
}

static int note_list(const struct hf_lock_info *info, void *arg)
{
    struct actor_reply *reply = arg;
    size_t used = strlen(reply->text);
    snprintf(reply->text + used, sizeof(reply->text) - used, "%s%s", used ? " " : "", info->name);
    reply->number++;
    return 0;
}

static void note_status(const struct hf_status *status, void *arg)
{
    struct actor_reply *reply = arg;
    reply->number = status->session_state;
}

/* Makes a child of this process call the library with its parent's objects. The result is 0 if each
 * call fails as it must in a child. */
static void try_in_child(struct stage *stage, uint32_t number, struct actor_reply *reply)
{
    hf_lock *lock = stage->locks[number];
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        struct hf_event event;
        hf_lock *other = NULL;
        char text[HF_SEQUENCER_MAX];
        bool dead = hf_acquire(lock, HF_EXCLUSIVE, 0, NULL) == HF_EFORKED &&
                    hf_release(lock) == HF_EFORKED && hf_cancel(lock) == HF_EFORKED &&
                    hf_downgrade(lock) == HF_EFORKED && hf_progress(lock) == HF_EFORKED &&
                    hf_remaining_ns(lock) <= 0 &&
                    hf_sequencer(lock, text, sizeof(text)) == HF_EFORKED &&
                    hf_open(stage->client, "other", NULL, &other) == HF_EFORKED &&
                    hf_event_fd(stage->client) == HF_EFORKED &&
                    hf_next_event(stage->client, &event) == HF_EFORKED;
        hf_close(lock);
        hf_disconnect(stage->client);
        _exit(dead ? 0 : 1);
    }
    int status = wait_for(pid);
    reply->result = WIFEXITED(status) ? WEXITSTATUS(status) : -1000;
}

static void next_event(struct stage *stage, int64_t timeout_ns, struct actor_reply *reply)
{
    struct hf_event event;
    int64_t deadline_ns = boottime_now() + timeout_ns;
    int64_t left_ns = timeout_ns;
    reply->result = hf_next_event(stage->client, &event);
    /* waits by polling the descriptor, which must become readable when there is an event */
    while (reply->result == 0 && left_ns > 0) {
        struct pollfd wait = {.fd = hf_event_fd(stage->client), .events = POLLIN};
        poll(&wait, 1, (int)(left_ns / MS) + 1);
        reply->result = hf_next_event(stage->client, &event);
        left_ns = deadline_ns - boottime_now();
    }
    if (reply->result == 1) {
        reply->event.kind = event.kind;
        reply->event.lock = lock_number(stage, event.lock);
        reply->event.token = event.token;
        reply->event.error = event.error;
        memcpy(reply->event.name, event.name, sizeof(event.name));
    }
}

static void act_on_lock(struct stage *stage, const struct actor_request *request,
                        struct actor_reply *reply)
{
    hf_lock *lock = stage->locks[request->lock];
    switch (request->kind) {
    case ACTOR_OPEN:
        reply->result = hf_open(stage->client, request->name, &request->options,
                                &stage->locks[request->lock]);
        break;
    case ACTOR_CLOSE:
        hf_close(lock);
        stage->locks[request->lock] = NULL;
        break;
    case ACTOR_ACQUIRE:
        reply->result = hf_acquire(lock, request->mode, request->timeout_ns, &reply->hold);
        break;
    case ACTOR_START:
        reply->result = hf_acquire_start(lock, request->mode, request->timeout_ns);
        break;
    case ACTOR_RELEASE:
        reply->result = hf_release(lock);
        break;
    case ACTOR_DOWNGRADE:
        reply->result = hf_downgrade(lock);
        break;
    case ACTOR_PROGRESS:
        reply->result = hf_progress(lock);
        break;
    case ACTOR_CANCEL:
        reply->result = hf_cancel(lock);
        break;
    case ACTOR_REMAINING:
        reply->number = hf_remaining_ns(lock);
        break;
    case ACTOR_SEQUENCER:
        reply->result = hf_sequencer(lock, reply->text, sizeof(reply->text));
        break;
    default:
        try_in_child(stage, request->lock, reply);
        break;
    }
    if ((request->kind == ACTOR_OPEN || request->kind == ACTOR_ACQUIRE) && reply->result < 0) {
        snprintf(reply->text, sizeof(reply->text), "%s", hf_error_text(NULL));
    }
}

static void act_on_cell(struct stage *stage, const struct actor_request *request,
                        struct actor_reply *reply)
{
    switch (request->kind) {
    case ACTOR_CHECK:
        reply->result = hf_check_sequencer(stage->client, request->name);
        break;
    case ACTOR_CHECK_LOCAL:
        reply->result = hf_check_sequencer_local(stage->client, request->name);
        break;
    case ACTOR_WATCH:
        reply->result = hf_watch(stage->client, request->name);
        break;
    case ACTOR_EVENTS:
        reply->result = hf_event_fd(stage->client) >= 0 ? 0 : -1;
        break;
    case ACTOR_EVENT:
        next_event(stage, request->timeout_ns, reply);
        break;
    case ACTOR_SHOW:
        reply->result = hf_show(stage->client, request->name, note_show, &reply->show);
        break;
    case ACTOR_LIST:
        reply->result = hf_list(stage->client, request->name, note_list, reply);
        break;
    case ACTOR_BREAK:
        reply->result = hf_break(stage->client, request->name, request->flags);
        break;
    case ACTOR_STATUS:
        reply->result = hf_status(stage->client, note_status, reply);
        break;
    case ACTOR_EXEC:
        execlp("sleep", "sleep", "600", (char *)NULL);
        reply->result = -1;
        break;
    default:
        hf_disconnect(stage->client);
        stage->client = NULL;
        break;
    }
}

static void *job_run(void *arg)
{
    struct job *job = arg;
    struct actor_reply reply = {.tag = job->request.tag};
    if (job->request.kind <= ACTOR_SEQUENCER || job->request.kind == ACTOR_FORK) {
        act_on_lock(job->stage, &job->request, &reply);
    } else {
        act_on_cell(job->stage, &job->request, &reply);
    }
    reply.time_ns = boottime_now();
    if (send(job->stage->fd, &reply, sizeof(reply), MSG_NOSIGNAL) != sizeof(reply)) {
        _exit(0); /* the test has ended */
    }
    free(job);
    return NULL;
}

static void stage_run(int fd, const char *socket_path)
{
    struct stage stage = {.fd = fd};
    const struct hf_options options = {
        .size = sizeof(options), .socket = socket_path, .connect_timeout_ns = GUARD_MS * MS};
    struct actor_reply hello = {.result = hf_connect(&options, &stage.client)};
    if (send(fd, &hello, sizeof(hello), MSG_NOSIGNAL) != sizeof(hello)) {
        _exit(0);
    }
    for (;;) { /* the loop ends when the test closes its end of the socket pair */
        struct job *job = malloc(sizeof(*job));
        REQUIRE(job, "no memory");
        job->stage = &stage;
        if (recv(fd, &job->request, sizeof(job->request), 0) != sizeof(job->request)) {
            _exit(0); /* ends without hf_disconnect(), like a killed process */
        }
        if (job->request.background) {
            pthread_t thread;
            REQUIRE(pthread_create(&thread, NULL, job_run, job) == 0, "no thread");
            pthread_detach(thread);
        } else {
            job_run(job);
        }
    }
}

/* Makes the actor the first process of a new pid namespace. The actor's parent stays in the test's
 * pid namespace and waits. The test kills that parent, which it knows as the actor's pid. */
static void enter_other_pids(void)
{
    REQUIRE(unshare(CLONE_NEWPID) == 0, "unshare: %s", strerror(errno));
    pid_t inner = fork();
    REQUIRE(inner >= 0, "fork: %s", strerror(errno));
    if (inner > 0) {
        int status;
        waitpid(inner, &status, 0);
        _exit(0);
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
}

void actor_start(struct actor *actor, const char *socket_path, const struct actor_who *who)
{
    int pair[2];
    REQUIRE(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0, "socketpair");
    *actor = (struct actor){.fd = pair[0]};
    actor->pid = fork_tied();
    if (actor->pid == 0) {
        close(pair[0]);
        if (who && who->gid) {
            REQUIRE(setgroups(0, NULL) == 0 && setgid(who->gid) == 0, "setgid");
        }
        if (who && who->uid) {
            REQUIRE(setgroups(0, NULL) == 0 && setuid(who->uid) == 0, "setuid");
            prctl(PR_SET_PDEATHSIG, SIGKILL); /* a change of user clears this setting */
        }
        if (who && who->other_pids) {
            enter_other_pids();
        }
        stage_run(pair[1], socket_path);
    }
    close(pair[1]);
    struct actor_reply hello;
    REQUIRE(actor_receive(actor, &hello, 2 * GUARD_MS), "the actor did not start");
    actor->connected = hello.result;
}

void actor_ready(struct actor *actor, const char *socket_path)
{
    actor_start(actor, socket_path, NULL);
    REQUIRE(actor->connected == 0, "hf_connect: %s", hf_strerror(actor->connected));
}

uint32_t actor_send(struct actor *actor, const struct actor_request *request)
{
    struct actor_request copy = *request;
    copy.tag = ++actor->last_tag;
    REQUIRE(send(actor->fd, &copy, sizeof(copy), MSG_NOSIGNAL) == sizeof(copy), "actor %d: %s",
            (int)actor->pid, strerror(errno));
    return copy.tag;
}

bool actor_receive(struct actor *actor, struct actor_reply *reply, int64_t timeout_ms)
{
    struct pollfd wait = {.fd = actor->fd, .events = POLLIN};
    int ready = poll(&wait, 1, (int)timeout_ms);
    return ready == 1 && recv(actor->fd, reply, sizeof(*reply), 0) == sizeof(*reply);
}

struct actor_reply actor_do(struct actor *actor, const struct actor_request *request)
{
    struct actor_reply reply;
    uint32_t tag = actor_send(actor, request);
    REQUIRE(actor_receive(actor, &reply, 2 * GUARD_MS) && reply.tag == tag,
            "actor %d does not answer request %d on lock %u (%s)", (int)actor->pid,
            (int)request->kind, request->lock, request->name);
    return reply;
}

int actor_open(struct actor *actor, uint32_t lock, const char *name, int64_t lock_delay_ms)
{
    struct actor_request request = {.kind = ACTOR_OPEN, .lock = lock};
    request.options.size = sizeof(request.options);
    request.options.lock_delay_ns = lock_delay_ms * MS;
    snprintf(request.name, sizeof(request.name), "%s", name);
    return actor_do(actor, &request).result;
}

int actor_acquire(struct actor *actor, uint32_t lock, enum hf_mode mode, int64_t timeout_ms,
                  struct hf_hold *hold)
{
    const struct actor_request request = {
        .kind = ACTOR_ACQUIRE, .lock = lock, .mode = mode, .timeout_ns = timeout_ms * MS};
    struct actor_reply reply = actor_do(actor, &request);
    if (hold) {
        *hold = reply.hold;
    }
    return reply.result;
}

int actor_release(struct actor *actor, uint32_t lock)
{
    return actor_do(actor, &(struct actor_request){.kind = ACTOR_RELEASE, .lock = lock}).result;
}

int64_t actor_remaining(struct actor *actor, uint32_t lock)
{
    return actor_do(actor, &(struct actor_request){.kind = ACTOR_REMAINING, .lock = lock}).number;
}

struct actor_show actor_show(struct actor *actor, const char *name)
{
    struct actor_request request = {.kind = ACTOR_SHOW};
    snprintf(request.name, sizeof(request.name), "%s", name);
    struct actor_reply reply = actor_do(actor, &request);
    REQUIRE(reply.result == 0, "hf_show(%s): %s", name, hf_strerror(reply.result));
    return reply.show;
}

uint32_t actor_wait(struct actor *actor, uint32_t lock, enum hf_mode mode)
{
    const struct actor_request request = {
        .kind = ACTOR_ACQUIRE, .lock = lock, .mode = mode, .timeout_ns = -1, .background = true};
    return actor_send(actor, &request);
}

void actor_await_waiters(struct actor *looker, const char *name, size_t waiters)
{
    size_t seen = 0;
    int64_t end_ns = boottime_now() + GUARD_MS * MS;
    while ((seen = actor_show(looker, name).waiters) != waiters) {
        REQUIRE(boottime_now() < end_ns, "%s has %zu waiters, not %zu", name, seen, waiters);
        sleep_ms(1);
    }
}

void actor_await_waiter(struct actor *looker, const char *name, const struct actor *waiter)
{
    int64_t end_ns = boottime_now() + GUARD_MS * MS;
    for (;;) {
        struct actor_show show = actor_show(looker, name);
        for (size_t i = 0; i < show.waiters && i < 64; i++) {
            if (show.waiter_pids[i] == waiter->pid) {
                return;
            }
        }
        REQUIRE(boottime_now() < end_ns, "pid %d is no waiter of %s", (int)waiter->pid, name);
        sleep_ms(1);
    }
}

void actor_signal(const struct actor *actor, int signal_number)
{
    siginfo_t stopped;
    REQUIRE(kill(actor->pid, signal_number) == 0, "kill: %s", strerror(errno));
    /* Waits until all threads of the actor stand still. Otherwise, on a busy machine, a thread that
     * waits for a lock could still get the lock, and answer. */
    while (signal_number == SIGSTOP && waitid(P_PID, (id_t)actor->pid, &stopped, WSTOPPED) != 0) {
        REQUIRE(errno == EINTR, "waitid: %s", strerror(errno));
    }
}

void actor_kill(struct actor *actor)
{
    kill_process(actor->pid);
    actor->pid = 0;
}

void actor_end(struct actor *actor)
{
    if (actor->pid != 0) {
        actor_kill(actor);
    }
    close(actor->fd);
}
