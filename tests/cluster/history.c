/*
 * The log of history.h and its check.
 *
 * An append reserves a record by one addition, fills it and publishes it by storing its kind last.
 * The check copies the published records, sorts them by actor and time, and turns each actor's
 * events into holds with a certain beginning and a certain end. After that it looks at each lock's
 * holds in the order of their beginnings.
 *
 * The beginnings of two holds show which hold was first only if each process certainly held the
 * lock at that time. So a hold takes part in the checks of order (overlap and rising tokens) only
 * if it still counted when its ACQUIRED was logged: it was released while held, or its deadline was
 * still ahead. A token that was given twice is wrong in any order.
 */
#include "history.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

struct record {
    _Atomic uint32_t published; /* 0 until the event is complete, then the event's kind */
    struct history_event event;
};

struct history {
    uint64_t capacity;
    /* the index of the next free record; its excess over the capacity is the number of dropped
     * events */
    _Atomic uint64_t next;
    struct record records[];
};

static size_t history_size(size_t capacity)
{
    return sizeof(struct history) + capacity * sizeof(struct record);
}

static struct history *map_log(int fd, size_t size)
{
    int flags = MAP_SHARED | (fd < 0 ? MAP_ANONYMOUS : 0);
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, flags, fd, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

struct history *history_create(const char *path, size_t capacity)
{
    struct history *history = NULL;
    int fd = -1;
    if (path != NULL) {
        fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (fd < 0) {
            return NULL;
        }
    }
    if (fd < 0 || ftruncate(fd, (off_t)history_size(capacity)) == 0) {
        history = map_log(fd, history_size(capacity));
    }
    if (history != NULL) {
        history->capacity = capacity;
    }
    if (fd >= 0) {
        close(fd);
    }
    return history;
}

struct history *history_attach(const char *path)
{
    struct history *history = NULL;
    struct stat status;
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0) {
        return NULL;
    }
    if (fstat(fd, &status) == 0 && (size_t)status.st_size >= sizeof(*history)) {
        history = map_log(fd, (size_t)status.st_size);
    }
    if (history != NULL && (size_t)status.st_size != history_size(history->capacity)) {
        munmap(history, (size_t)status.st_size);
        history = NULL;
        errno = EINVAL;
    }
    close(fd);
    return history;
}

void history_destroy(struct history *history)
{
    if (history != NULL) {
        munmap(history, history_size(history->capacity));
    }
}

void history_add(struct history *history, struct history_event event)
{
    if (event.time_ns == 0) {
        struct timespec now;
        /* a direct call, so that faults.h cannot change the time */
        syscall(SYS_clock_gettime, CLOCK_BOOTTIME, &now);
        event.time_ns = (int64_t)now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
    }
    /* relaxed: the addition only hands out positions */
    uint64_t place = atomic_fetch_add_explicit(&history->next, 1, memory_order_relaxed);
    if (place >= history->capacity) {
        return;
    }
    struct record *record = &history->records[place];
    record->event = event;
    /* release: pairs with the acquire in copy_events; publishes the event */
    atomic_store_explicit(&record->published, (uint32_t)event.kind, memory_order_release);
}

size_t history_count(const struct history *history)
{
    /* relaxed: the value is only a count */
    uint64_t next = atomic_load_explicit(&history->next, memory_order_relaxed);
    return next < history->capacity ? next : history->capacity;
}

/* ---- From events to holds ------------------------------------------------------------------ */

enum { OPEN_MAX = 64 };

/* An event and its position in the log. The position orders events of the same nanosecond. */
struct step {
    struct history_event event;
    size_t place;
};

struct hold {
    uint32_t lock;
    uint32_t pid;
    enum history_mode mode;
    uint64_t token;
    int64_t attempt_ns; /* the time of ATTEMPT */
    int64_t begin_ns;   /* the time at which ACQUIRED was logged */
    int64_t end_ns;     /* the hold certainly lasted until this time */
    /* no other process may hold before this time: end_ns, or later if the holder vanished */
    int64_t closed_ns;
    bool ordered; /* the process certainly held at begin_ns */
    uint8_t host;
    size_t top; /* the index of the ordered hold with the highest token, among the holds of this
                 * lock that began no later than this one; NO_HOLD: there is none */
};

static const size_t NO_HOLD = SIZE_MAX;

enum stage { STAGE_NONE, STAGE_WAITING, STAGE_HOLDING, STAGE_RELEASED };

/* what one actor does at one lock */
struct relation {
    uint32_t lock;
    enum stage stage;
    int64_t attempt_ns;
    int64_t sure_ns;     /* the last time at which the actor certainly held, whatever ended the
                          * hold */
    int64_t deadline_ns; /* 0: not known */
    int64_t delay_ns;
    /* the time of RELEASED, when the holder had finished; INT64_MAX: it logged no RELEASED */
    int64_t logged_ns;
    bool firm;
    struct hold hold;
};

struct actor {
    uint32_t pid;
    bool kill_sent;
    int64_t kill_sent_ns;
    struct relation relations[OPEN_MAX];
    size_t relation_count;
};

struct check {
    struct history_report *report;
    struct hold *holds;
    size_t hold_count;
    struct actor actor;
};

__attribute__((format(printf, 3, 4))) static void found(struct history_report *report,
                                                        size_t *counter, const char *format, ...)
{
    ++*counter;
    if (report->first[0] == '\0') {
        va_list args;
        va_start(args, format);
        vsnprintf(report->first, sizeof(report->first), format, args);
        va_end(args);
    }
}

static void emit_hold(struct check *check, struct relation *relation, int64_t end_ns, bool released)
{
    struct hold *hold = &relation->hold;
    hold->end_ns = end_ns;
    hold->closed_ns = released ? end_ns : end_ns + relation->delay_ns;
    if (hold->closed_ns > relation->logged_ns) {
        hold->closed_ns = relation->logged_ns > end_ns ? relation->logged_ns : end_ns;
    }
    hold->ordered = released || relation->deadline_ns == 0 ||
                    hold->begin_ns < relation->deadline_ns;
    check->holds[check->hold_count++] = *hold;
    relation->stage = STAGE_NONE;
}

/* Ends a released hold. No LOST followed the release, so the release found the lock held. (Even if
 * LOST follows, the release may have ended the hold: see history.h.) */
static void settle_release(struct check *check, struct relation *relation)
{
    if (relation->stage == STAGE_RELEASED) {
        emit_hold(check, relation, relation->hold.end_ns, true);
    }
}

/* Returns the current actor's relation to that lock, or NULL if the actor has relations to too many
 * locks. */
static struct relation *find_relation(struct check *check, uint32_t lock)
{
    struct actor *actor = &check->actor;
    for (size_t i = 0; i < actor->relation_count; i++) {
        if (actor->relations[i].lock == lock) {
            return &actor->relations[i];
        }
    }
    struct relation *relation = NULL;
    if (actor->relation_count < OPEN_MAX) {
        relation = &actor->relations[actor->relation_count++];
    }
    for (size_t i = 0; i < OPEN_MAX && relation == NULL; i++) {
        struct relation *old = &actor->relations[i];
        settle_release(check, old); /* no LOST came while the actor used many other locks, so
                                     * none will come */
        relation = old->stage == STAGE_NONE ? old : NULL;
    }
    if (relation != NULL) {
        *relation = (struct relation){.lock = lock};
    }
    return relation;
}

static void on_acquired(struct check *check, struct relation *relation,
                        const struct history_event *event)
{
    int64_t waited_ns = event->time_ns - relation->attempt_ns;
    if (waited_ns > check->report->longest_wait_ns) {
        check->report->longest_wait_ns = waited_ns;
    }
    relation->stage = STAGE_HOLDING;
    relation->sure_ns = event->time_ns;
    relation->deadline_ns = event->deadline_ns;
    relation->firm = event->firm;
    relation->delay_ns = event->mode == HISTORY_EXCLUSIVE ? event->delay_ns : 0;
    relation->logged_ns = INT64_MAX;
    relation->hold = (struct hold){
        .lock = event->lock,
        .pid = event->pid,
        .host = event->host,
        .mode = event->mode,
        .token = event->token,
        .attempt_ns = relation->attempt_ns,
        .begin_ns = event->time_ns,
    };
}

/* Returns the time until which a hold that was not released certainly lasted. until_ns is the time
 * when the loss was reported, or the end of the record. */
static int64_t certain_end(const struct relation *relation, int64_t until_ns)
{
    int64_t end_ns = relation->sure_ns;
    if (relation->firm && relation->deadline_ns != 0) {
        end_ns = relation->deadline_ns < until_ns ? relation->deadline_ns : until_ns;
    }
    return end_ns > relation->sure_ns ? end_ns : relation->sure_ns;
}

/*
 * Ends the waits and the holds of an actor that was killed. A hold lasted at least until the kill
 * was sent, or until its last known deadline if that was earlier. A RELEASED event proves nothing,
 * because the actor may have died within the call, or before it could log LOST.
 */
static void on_killed(struct check *check)
{
    struct actor *actor = &check->actor;
    for (size_t i = 0; i < actor->relation_count; i++) {
        struct relation *relation = &actor->relations[i];
        if (relation->stage == STAGE_RELEASED) {
            relation->delay_ns = 0; /* no lock-delay: the holder may have released */
            emit_hold(check, relation, relation->sure_ns, false);
        } else if (relation->stage == STAGE_HOLDING) {
            int64_t end_ns = actor->kill_sent ? actor->kill_sent_ns : relation->sure_ns;
            if (relation->deadline_ns != 0 && relation->deadline_ns < end_ns) {
                end_ns = relation->deadline_ns;
            }
            emit_hold(check, relation, end_ns > relation->sure_ns ? end_ns : relation->sure_ns,
                      false);
        }
    }
    actor->relation_count = 0;
    actor->kill_sent = false;
}

/* Returns whether an event of that kind may come while the actor is at that stage of the lock. */
static bool may_follow(enum stage stage, enum history_kind kind)
{
    switch (kind) {
    case HISTORY_ATTEMPT:
        return stage == STAGE_NONE || stage == STAGE_RELEASED;
    case HISTORY_ACQUIRED:
    case HISTORY_GAVE_UP:
        return stage == STAGE_WAITING;
    case HISTORY_HELD:
    case HISTORY_RELEASED:
        return stage == STAGE_HOLDING;
    case HISTORY_LOST:
        return stage == STAGE_HOLDING || stage == STAGE_RELEASED;
    case HISTORY_KILL_SENT:
    case HISTORY_KILLED:
        return true;
    }
    return false;
}

static void on_lock_event(struct check *check, const struct history_event *event)
{
    struct relation *relation = find_relation(check, event->lock);
    if (relation == NULL || !may_follow(relation->stage, event->kind)) {
        found(check->report, &check->report->malformed,
              "malformed: pid %u, lock %u, event %d at %" PRId64 " cannot follow what was before",
              event->pid, event->lock, (int)event->kind, event->time_ns);
        return;
    }
    switch (event->kind) {
    case HISTORY_ATTEMPT:
        settle_release(check, relation);
        relation->stage = STAGE_WAITING;
        relation->attempt_ns = event->time_ns;
        break;
    case HISTORY_ACQUIRED:
        on_acquired(check, relation, event);
        break;
    case HISTORY_HELD:
        relation->sure_ns = event->time_ns;
        relation->deadline_ns = event->deadline_ns;
        break;
    case HISTORY_RELEASED:
        relation->stage = STAGE_RELEASED;
        relation->logged_ns = event->time_ns;
        relation->hold.end_ns = event->time_ns;
        break;
    case HISTORY_LOST:
        emit_hold(check, relation, certain_end(relation, event->time_ns), false);
        break;
    case HISTORY_GAVE_UP:
        relation->stage = STAGE_NONE;
        break;
    case HISTORY_KILL_SENT:
    case HISTORY_KILLED:
        break; /* this event is not about a lock */
    }
}

static void on_event(struct check *check, const struct history_event *event)
{
    if (event->kind == HISTORY_KILL_SENT) {
        check->actor.kill_sent = true;
        check->actor.kill_sent_ns = event->time_ns;
    } else if (event->kind == HISTORY_KILLED) {
        on_killed(check);
    } else {
        on_lock_event(check, event);
    }
}

static void end_actor(struct check *check)
{
    struct actor *actor = &check->actor;
    for (size_t i = 0; i < actor->relation_count; i++) {
        struct relation *relation = &actor->relations[i];
        settle_release(check, relation);
        if (relation->stage == STAGE_HOLDING) {
            emit_hold(check, relation, certain_end(relation, INT64_MAX), false);
        } else if (relation->stage == STAGE_WAITING) {
            found(check->report, &check->report->unserved,
                  "never served: pid %u waits for lock %u since %" PRId64, actor->pid,
                  relation->lock, relation->attempt_ns);
        }
    }
    *actor = (struct actor){.pid = 0};
}

static int compare(uint64_t left, uint64_t right)
{
    return (left > right) - (left < right);
}

static int compare_times(int64_t left_ns, int64_t right_ns)
{
    return (left_ns > right_ns) - (left_ns < right_ns);
}

static int compare_steps(const void *left, const void *right)
{
    const struct step *a = left;
    const struct step *b = right;
    int order = compare(a->event.pid, b->event.pid);
    order = order != 0 ? order : compare_times(a->event.time_ns, b->event.time_ns);
    return order != 0 ? order : compare(a->place, b->place);
}

/* ---- From holds to violations -------------------------------------------------------------- */

static int compare_holds_by_time(const void *left, const void *right)
{
    const struct hold *a = left;
    const struct hold *b = right;
    int order = compare(a->lock, b->lock);
    order = order != 0 ? order : compare_times(a->begin_ns, b->begin_ns);
    return order != 0 ? order : compare(a->token, b->token);
}

static int compare_holds_by_token(const void *left, const void *right)
{
    const struct hold *a = left;
    const struct hold *b = right;
    int order = compare(a->lock, b->lock);
    order = order != 0 ? order : compare(a->mode, b->mode);
    return order != 0 ? order : compare(a->token, b->token);
}

static void report_overlap(struct check *check, const struct hold *first, const struct hold *second)
{
    if (second->begin_ns < first->end_ns) {
        found(check->report, &check->report->overlaps,
              "overlap: lock %u, pid %u on host %u (token %" PRIu64 ") until %" PRId64
              ", pid %u on host %u (token %" PRIu64 ") from %" PRId64,
              first->lock, first->pid, first->host, first->token, first->end_ns, second->pid,
              second->host, second->token, second->begin_ns);
    }
}

static void report_delay(struct check *check, const struct hold *first, const struct hold *second)
{
    if (second->begin_ns >= first->end_ns && second->begin_ns < first->closed_ns) {
        found(check->report, &check->report->delay_faults,
              "lock-delay: lock %u, pid %u on host %u (token %" PRIu64
              ") vanished not before %" PRId64 ", pid %u on host %u (token %" PRIu64
              ") from %" PRId64 ", %" PRId64 " ns too early",
              first->lock, first->pid, first->host, first->token, first->end_ns, second->pid,
              second->host, second->token, second->begin_ns, first->closed_ns - second->begin_ns);
    }
}

static void report_token(struct check *check, const struct hold *first, const struct hold *second)
{
    found(check->report, &check->report->token_faults,
          "token: lock %u, pid %u on host %u had %" PRIu64 " at %" PRId64
          ", later pid %u on host %u had %" PRIu64 " at %" PRId64,
          first->lock, first->pid, first->host, first->token, first->begin_ns, second->pid,
          second->host, second->token, second->begin_ns);
}

/* The extremes among the holds of one lock that sweep_hold() has seen so far. */
struct sweep {
    const struct hold *last_exclusive; /* the exclusive hold that ends last */
    const struct hold *last_shared;    /* the shared hold that ends last */
    const struct hold *last_closed;    /* the hold that keeps the lock closed longest */
    const struct hold *top_exclusive;  /* the exclusive hold with the highest token */
    const struct hold *top_any;        /* the hold of any mode with the highest token */
};

static void sweep_hold(struct check *check, struct sweep *sweep, const struct hold *hold)
{
    const struct hold *below = hold->mode == HISTORY_EXCLUSIVE ? sweep->top_any
                                                               : sweep->top_exclusive;
    if (sweep->last_exclusive != NULL) {
        report_overlap(check, sweep->last_exclusive, hold);
    }
    if (sweep->last_closed != NULL) {
        report_delay(check, sweep->last_closed, hold);
    }
    if (sweep->last_shared != NULL && hold->mode == HISTORY_EXCLUSIVE) {
        report_overlap(check, sweep->last_shared, hold);
    }
    /* A shared hold has at least the token of every earlier exclusive hold. An exclusive hold has a
     * higher token than all earlier holds. */
    if (below != NULL && (hold->mode == HISTORY_EXCLUSIVE ? hold->token <= below->token
                                                          : hold->token < below->token)) {
        report_token(check, below, hold);
    }
    const struct hold **last = hold->mode == HISTORY_EXCLUSIVE ? &sweep->last_exclusive
                                                               : &sweep->last_shared;
    if (*last == NULL || hold->end_ns > (*last)->end_ns) {
        *last = hold;
    }
    if (sweep->last_closed == NULL || hold->closed_ns > sweep->last_closed->closed_ns) {
        sweep->last_closed = hold;
    }
    if (hold->mode == HISTORY_EXCLUSIVE &&
        (sweep->top_exclusive == NULL || hold->token > sweep->top_exclusive->token)) {
        sweep->top_exclusive = hold;
    }
    if (sweep->top_any == NULL || hold->token > sweep->top_any->token) {
        sweep->top_any = hold;
    }
}

static void check_order(struct check *check)
{
    struct sweep sweep = {.last_exclusive = NULL};
    qsort(check->holds, check->hold_count, sizeof(check->holds[0]), compare_holds_by_time);
    for (size_t i = 0; i < check->hold_count; i++) {
        const struct hold *hold = &check->holds[i];
        if (i > 0 && hold->lock != check->holds[i - 1].lock) {
            sweep = (struct sweep){.last_exclusive = NULL};
        }
        if (hold->ordered) {
            sweep_hold(check, &sweep, hold);
        }
    }
}

/*
 * Reports each shared hold with a lower token than an earlier shared hold: one whose acquire had
 * returned before the acquire of the reported hold was called. check_order() has already checked
 * the pairs with an exclusive hold more strictly. The holds must be in the order of their
 * beginnings.
 */
static void check_calls(struct check *check)
{
    size_t first = 0; /* the index of the lock's first hold */
    for (size_t i = 0; i < check->hold_count; i++) {
        struct hold *hold = &check->holds[i];
        first = i > 0 && hold->lock == hold[-1].lock ? first : i;
        size_t top = i > first ? hold[-1].top : NO_HOLD;
        bool higher = top == NO_HOLD || hold->token > check->holds[top].token;
        hold->top = hold->ordered && higher ? i : top;
        /* the index of the first hold that began after the acquire of `hold` was called */
        size_t low = first;
        for (size_t high = i; low < high;) {
            size_t middle = low + (high - low) / 2;
            bool before = check->holds[middle].begin_ns < hold->attempt_ns;
            low = before ? middle + 1 : low;
            high = before ? high : middle;
        }
        top = low > first ? check->holds[low - 1].top : NO_HOLD;
        if (hold->ordered && hold->mode == HISTORY_SHARED && top != NO_HOLD &&
            hold->token < check->holds[top].token &&
            check->holds[top].mode == HISTORY_SHARED) { /* other pairs are reported by
                                                         * check_order() */
            report_token(check, &check->holds[top], hold);
        }
    }
}

/* Reports an exclusive token that two holds have. The order of the two holds does not matter, so
 * this check also covers the holds that check_order() leaves out. */
static void check_given_twice(struct check *check)
{
    qsort(check->holds, check->hold_count, sizeof(check->holds[0]), compare_holds_by_token);
    for (size_t i = 1; i < check->hold_count; i++) {
        const struct hold *first = &check->holds[i - 1];
        const struct hold *second = &check->holds[i];
        /* if both holds are ordered, check_order() has already reported them */
        bool both_ordered = first->ordered && second->ordered;
        if (first->lock == second->lock && first->mode == HISTORY_EXCLUSIVE &&
            second->mode == HISTORY_EXCLUSIVE && first->token == second->token && !both_ordered) {
            report_token(check, first, second);
        }
    }
}

/* Counts the shared holds whose token no exclusive hold of the lock has. The holds must be sorted
 * by lock and mode, exclusive ones first, and by token. */
static size_t count_apart(const struct check *check)
{
    size_t apart = 0;
    size_t next = 0; /* the index of the next exclusive hold to compare with */
    size_t last = 0; /* the index after the lock's last exclusive hold */
    for (size_t i = 0; i < check->hold_count; i++) {
        const struct hold *hold = &check->holds[i];
        next = i == 0 || hold->lock != hold[-1].lock ? i : next;
        last = hold->mode == HISTORY_EXCLUSIVE ? i + 1 : next > last ? next : last;
        if (hold->mode == HISTORY_SHARED) {
            while (next < last && check->holds[next].token < hold->token) {
                next++;
            }
            apart += next == last || check->holds[next].token != hold->token;
        }
    }
    return apart;
}

/* Copies the published records. Returns how many there are. */
static size_t copy_events(const struct history *history, struct step *steps)
{
    size_t count = 0;
    for (size_t i = 0; i < history_count(history); i++) {
        const struct record *record = &history->records[i];
        /* acquire: pairs with the release in history_add; the event is complete */
        if (atomic_load_explicit(&record->published, memory_order_acquire) != 0) {
            steps[count++] = (struct step){.event = record->event, .place = i};
        }
    }
    return count;
}

static void walk(struct check *check, const struct step *steps, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (i > 0 && steps[i].event.pid != steps[i - 1].event.pid) {
            end_actor(check);
        }
        check->actor.pid = steps[i].event.pid;
        on_event(check, &steps[i].event);
    }
    end_actor(check);
}

int history_check(const struct history *history, struct history_report *report)
{
    int result = -1;
    size_t room = history_count(history) + 1;
    struct check check = {.report = report};
    struct step *steps = calloc(room, sizeof(*steps));
    check.holds = calloc(room, sizeof(*check.holds)); /* at most one hold for each event */
    *report = (struct history_report){.overlaps = 0};
    if (steps != NULL && check.holds != NULL) {
        size_t count = copy_events(history, steps);
        qsort(steps, count, sizeof(*steps), compare_steps);
        walk(&check, steps, count);
        check_order(&check);
        check_calls(&check);
        check_given_twice(&check);
        report->holds = check.hold_count;
        report->apart = count_apart(&check);
        for (size_t i = 0; i < check.hold_count; i++) {
            report->exclusive_holds += check.holds[i].mode == HISTORY_EXCLUSIVE ? 1 : 0;
        }
        /* relaxed: no process appends now */
        uint64_t next = atomic_load_explicit(&history->next, memory_order_relaxed);
        report->dropped = next - history_count(history);
        if (report->dropped > 0 && report->first[0] == '\0') {
            snprintf(report->first, sizeof(report->first), "full: %zu events were dropped",
                     report->dropped);
        }
        result = report->first[0] == '\0' ? 0 : 1;
    }
    free(steps);
    free(check.holds);
    return result;
}
