/*
 * A process that uses locks as the test requests. It is connected to an agent, and the test drives
 * it over a socket pair: one request, one reply. The actor can be stopped and killed like any other
 * process.
 *
 * A request with `background` set runs in a thread of its own in the actor. Its reply comes when
 * the call is done, perhaps after replies to later requests, and has the request's tag. The test
 * numbers the locks of each actor.
 */
#ifndef TESTS_CLUSTER_ACTOR_H
#define TESTS_CLUSTER_ACTOR_H

#include "agent_process.h"
#include "holdfast/admin.h"

enum { ACTOR_LOCKS = 64 };

enum actor_kind {
    /* takes: name, options; replies: text, why the call failed (also for ACTOR_ACQUIRE) */
    ACTOR_OPEN = 1,
    ACTOR_CLOSE,
    ACTOR_ACQUIRE, /* takes: mode, timeout_ns */
    ACTOR_START,   /* takes: mode, timeout_ns */
    ACTOR_RELEASE,
    ACTOR_DOWNGRADE,
    ACTOR_PROGRESS,
    ACTOR_CANCEL,
    ACTOR_REMAINING, /* replies: number */
    ACTOR_SEQUENCER, /* replies: text */
    ACTOR_CHECK,     /* takes: name, a sequencer */
    ACTOR_CHECK_LOCAL,
    ACTOR_WATCH,  /* takes: name, a prefix */
    ACTOR_EVENTS, /* calls hf_event_fd() */
    ACTOR_EVENT,  /* waits for an event, at most timeout_ns; replies: result 1 and event, or
                   * result 0 */
    ACTOR_SHOW,   /* takes: name; replies: show */
    ACTOR_LIST,   /* takes: name, a prefix; replies: number of locks; text, their names */
    ACTOR_BREAK,  /* takes: name, flags */
    ACTOR_STATUS, /* replies: number, the session's state */
    /* replies: result, 0 if each library call of a child failed as it must (try_in_child in
     * actor.c) */
    ACTOR_FORK,
    ACTOR_DISCONNECT,
    ACTOR_EXEC, /* the actor becomes another program, sleep(1); it does not reply */
};

struct actor_request {
    enum actor_kind kind;
    uint32_t tag;
    uint32_t lock;
    bool background;
    enum hf_mode mode;
    unsigned flags;
    int64_t timeout_ns;
    struct hf_lock_options options;
    char name[HF_SEQUENCER_MAX];
};

struct actor_show {
    enum hf_state state;
    int64_t closed_ns;
    size_t holders;
    size_t waiters;
    int64_t holder_pid;
    int64_t holder_uid;
    uint64_t holder_token;
    int64_t waiter_pids[64];
    char coordinator[33]; /* "" if the coordinator is unknown */
};

struct actor_reply {
    uint32_t tag;
    int result;
    int64_t time_ns; /* CLOCK_BOOTTIME, just after the call */
    struct hf_hold hold;
    int64_t number;
    struct actor_show show;
    struct {
        enum hf_event_kind kind;
        uint32_t lock; /* the lock's number; UINT32_MAX if the event is not about a lock */
        uint64_t token;
        int error;
        char name[256];
    } event;
    char text[HF_SEQUENCER_MAX];
};

struct actor {
    pid_t pid;
    int fd;
    uint32_t last_tag;
    int connected; /* the result of hf_connect() */
};

/* The user that an actor runs as, and its pid namespace. Zeros mean the user and the namespace of
 * the test. */
struct actor_who {
    uid_t uid;
    gid_t gid;
    bool other_pids; /* run in a new pid namespace (needs root) */
};

/* Starts an actor and lets it connect. actor->connected has the result. */
void actor_start(struct actor *actor, const char *socket, const struct actor_who *who);

/* Starts an actor and checks that it could connect. */
void actor_ready(struct actor *actor, const char *socket);

/* Sends a request. Returns the tag that its reply will have. */
uint32_t actor_send(struct actor *actor, const struct actor_request *request);

/* Receives the next reply within timeout_ms. Returns false if none came. */
bool actor_receive(struct actor *actor, struct actor_reply *reply, int64_t timeout_ms);

/* Sends a request and returns its reply, which must come. No reply to an earlier request may be
 * outstanding. */
struct actor_reply actor_do(struct actor *actor, const struct actor_request *request);

/* Short forms of common requests. actor_open(), actor_acquire() and actor_release() return the
 * library's error. */
int actor_open(struct actor *actor, uint32_t lock, const char *name, int64_t lock_delay_ms);
int actor_acquire(struct actor *actor, uint32_t lock, enum hf_mode mode, int64_t timeout_ms,
                  struct hf_hold *hold);
int actor_release(struct actor *actor, uint32_t lock);
int64_t actor_remaining(struct actor *actor, uint32_t lock);
struct actor_show actor_show(struct actor *actor, const char *name);

/* Sends ACTOR_ACQUIRE without a timeout. The reply comes when the actor has the lock. */
uint32_t actor_wait(struct actor *actor, uint32_t lock, enum hf_mode mode);

/* Waits until the lock has this many waiters, as `looker` sees it. */
void actor_await_waiters(struct actor *looker, const char *name, size_t waiters);

/* Waits until `waiter` is among the lock's waiters, as `looker` sees it. */
void actor_await_waiter(struct actor *looker, const char *name, const struct actor *waiter);

void actor_signal(const struct actor *actor, int signal_number);
void actor_kill(struct actor *actor);

/* Kills the actor without a disconnect, if it still runs, and closes its socket. */
void actor_end(struct actor *actor);

#endif
