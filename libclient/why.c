/*
 * hf_why(): why the program does not have a lock, or why it lost the lock.
 *
 * For a lock that the program does not have, the answers to SHOW and STATUS contain all that the
 * agent knows: SHOW has the holders, the waiters, the lock-delay and the ended hold that caused it,
 * STATUS has the session and the voters. For a lock that it lost, ended.c finds out why the hold
 * ended. Only this file chooses the reason and writes its text, so that the command and every
 * program give the same reason for the same case.
 */
#include "holdfast/admin.h"

#include "client.h"

#include "proto/ending.h"

#include <inttypes.h>
#include <pwd.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* The size of struct hf_reason in its first version. No program can have a smaller struct, so a
 * smaller size is a mistake of the program. */
enum {
    HFI_REASON_SIZE_MIN = offsetof(struct hf_reason, text) + sizeof(((struct hf_reason *)0)->text)
};

/* The reason as far as it is known. The callbacks for the agent's answers fill it in. */
struct inquiry {
    struct hf_reason reason;
    bool held_here; /* the first holder is on the agent's own host */
    /* HF_WHY_CLOSED: how the last hold ended, and who broke it */
    enum hf_ending ending;
    int64_t by_uid;
    char by_agent[HFI_LABEL_MAX + 1];
    const hf_lock *lock;
    size_t used; /* bytes of reason.text */
};

static void say(struct inquiry *inquiry, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Appends to reason.text, and cuts off what does not fit. */
static void say(struct inquiry *inquiry, const char *format, ...)
{
    size_t room = sizeof(inquiry->reason.text) - inquiry->used;
    va_list arguments;
    va_start(arguments, format);
    int size = vsnprintf(inquiry->reason.text + inquiry->used, room, format, arguments);
    va_end(arguments);
    if (size > 0) {
        inquiry->used += (size_t)size < room ? (size_t)size : room - 1;
    }
}

static void say_duration(struct inquiry *inquiry, int64_t ns)
{
    if (ns < 10 * NS_PER_S) {
        say(inquiry, "%" PRId64 ".%" PRId64 " s", ns / NS_PER_S, ns % NS_PER_S / (NS_PER_S / 10));
    } else {
        say(inquiry, "%" PRId64 " s", ns / NS_PER_S);
    }
}

static void copy_text(char *out, size_t size, const char *text)
{
    snprintf(out, size, "%s", text == NULL ? "" : text);
}

/* Appends the name that the user's number has in /etc/passwd of this host, else the number. That is
 * so for users of other hosts, too, as in the listings of the command (cli/text.c): the hosts of a
 * cell usually have the same users. This function does not call getpwuid_r(), because a name
 * service may take minutes to answer, and hf_why() returns within seconds. */
static void say_user(struct inquiry *inquiry, int64_t uid)
{
    char room[4096];
    struct passwd entry;
    struct passwd *found = NULL;
    FILE *file = uid >= 0 && uid < UINT32_MAX ? fopen("/etc/passwd", "re") : NULL;
    if (file != NULL) {
        /* the loop ends with the file, or at a line that is too long */
        while (fgetpwent_r(file, &entry, room, sizeof(room), &found) == 0 &&
               found->pw_uid != (uid_t)uid) {
            found = NULL;
        }
        fclose(file);
    }
    if (found != NULL) {
        say(inquiry, "user %.64s", found->pw_name);
    } else {
        say(inquiry, "user %" PRId64, uid);
    }
}

static void note_holder(struct inquiry *inquiry, const struct hf_party *holder)
{
    struct hf_reason *reason = &inquiry->reason;
    reason->pid = holder->pid;
    reason->uid = holder->uid;
    reason->since_ns = holder->elapsed_ns;
    copy_text(reason->agent, sizeof(reason->agent), holder->agent);
    copy_text(reason->command, sizeof(reason->command), holder->command);
    copy_text(reason->note, sizeof(reason->note), holder->note);
}

/* Notes the ended hold for which the lock is closed. behind: NULL if the agent knows nothing about
 * it, or is of an earlier release. */
static void note_closed(struct inquiry *inquiry, const struct hf_behind *behind)
{
    struct hf_reason *reason = &inquiry->reason;
    reason->kind = HF_WHY_CLOSED;
    if (behind == NULL) {
        return;
    }
    reason->pid = behind->pid;
    reason->uid = behind->uid;
    reason->since_ns = behind->elapsed_ns;
    copy_text(reason->agent, sizeof(reason->agent), behind->agent);
    copy_text(reason->command, sizeof(reason->command), behind->command);
    copy_text(reason->note, sizeof(reason->note), behind->note);
    inquiry->ending = behind->ending;
    inquiry->by_uid = behind->by_uid;
    copy_text(inquiry->by_agent, sizeof(inquiry->by_agent), behind->by_agent);
}

/* The callback (hf_list_fn) for the answer to SHOW. */
static int on_lock(const struct hf_lock_info *info, void *arg)
{
    struct inquiry *inquiry = arg;
    struct hf_reason *reason = &inquiry->reason;
    reason->holders = info->holder_count;
    reason->waiters = info->waiter_count;
    if (info->holder_count > 0) {
        reason->kind = HF_WHY_HELD;
        note_holder(inquiry, info->holders[0]);
    } else if (info->closed_ns > 0) {
        note_closed(inquiry, info->behind);
        reason->closed_ns = info->closed_ns;
    } else if (info->age_ns < 0) {
        reason->kind = HF_WHY_UNKNOWN;
    } else {
        reason->kind = info->waiter_count > 0 ? HF_WHY_AWAITED : HF_WHY_NOTHING;
    }
    return 0;
}

static void say_missing(struct inquiry *inquiry, const struct hf_status *status)
{
    const char *comma = "";
    for (size_t i = 0; i < status->voter_count; i++) {
        const struct hf_voter_info *voter = status->voters[i];
        if (voter->state != HF_VOTER_UP) {
            say(inquiry, "%s%s%s", comma, voter->name == NULL ? "?" : voter->name,
                voter->state == HF_VOTER_REFUSED ? " (refused)" : "");
            comma = ", ";
        }
    }
}

/* The callback (hf_status_fn) for the answer to STATUS. Without a majority no holder on another
 * host can give the lock up. So the reason is then the missing majority, and not that holder. While
 * this host's session is safe, a holder on this host can give the lock up, so that holder stays the
 * reason. */
static void on_status(const struct hf_status *status, void *arg)
{
    struct inquiry *inquiry = arg;
    bool is_safe = status->session_state == HF_SESSION_SAFE;
    size_t up = 0;
    for (size_t i = 0; i < status->voter_count; i++) {
        up += status->voters[i]->state == HF_VOTER_UP;
    }
    inquiry->held_here = inquiry->reason.kind == HF_WHY_HELD && status->agent != NULL &&
                         strcmp(status->agent, inquiry->reason.agent) == 0;
    bool has_majority = 2 * up > status->voter_count;
    if (is_safe && (has_majority || inquiry->held_here)) {
        return;
    }
    inquiry->reason = (struct hf_reason){.kind = HF_WHY_NO_MAJORITY,
                                         .pid = -1,
                                         .uid = -1,
                                         .since_ns = -1,
                                         .holders = inquiry->reason.holders,
                                         .waiters = inquiry->reason.waiters};
    if (!is_safe && status->session_remaining_ns < 0) {
        inquiry->reason.since_ns = -status->session_remaining_ns;
    }
    if (has_majority) {
        say(inquiry, "no majority of the voters has renewed this host's session");
        return;
    }
    say(inquiry, "no majority of the voters answers: %zu of %zu; missing: ", up,
        status->voter_count);
    say_missing(inquiry, status);
}

/* Appends the process, its user, its command and its note, as far as they are known. `lead`: the
 * words before the process's number. */
static void say_process(struct inquiry *inquiry, const char *lead)
{
    const struct hf_reason *reason = &inquiry->reason;
    if (reason->pid >= 0) {
        say(inquiry, "%sprocess %" PRId64, lead, reason->pid);
    }
    if (reason->uid >= 0) {
        say(inquiry, " of ");
        say_user(inquiry, reason->uid);
    }
    if (reason->command[0] != '\0') {
        say(inquiry, " (%.200s)", reason->command);
    }
    if (reason->note[0] != '\0') {
        say(inquiry, ", note \"%.256s\"", reason->note);
    }
}

static void say_holder(struct inquiry *inquiry)
{
    const struct hf_reason *reason = &inquiry->reason;
    say(inquiry, "held");
    if (reason->agent[0] != '\0') {
        say(inquiry, " on %s", reason->agent);
    }
    if (reason->since_ns >= 0) {
        say(inquiry, " for ");
        say_duration(inquiry, reason->since_ns);
    }
    say_process(inquiry, " by ");
    if (reason->holders > 1) {
        say(inquiry, " and %" PRIu64 " more", reason->holders - 1);
    }
}

/* Appends who broke a hold, as far as it is known. */
static void say_breaker(struct inquiry *inquiry, const char *agent, int64_t uid)
{
    say(inquiry, "broken by ");
    if (uid >= 0) {
        say_user(inquiry, uid);
    } else {
        say(inquiry, "an administrator");
    }
    if (agent[0] != '\0') {
        say(inquiry, " on %s", agent);
    }
}

/* Takes from the region how the last hold ended, if the word is closed and the region has a note of
 * the end. To be called if the agent does not know the end, because it was restarted since. Any
 * process of the namespace may have written the note. */
static void read_closing(struct inquiry *inquiry)
{
    const struct binding *binding = atomic_load(&inquiry->lock->binding);
    struct hfi_ending ending = {.kind = HFI_ENDING_NONE};
    if (binding == NULL || (atomic_load(binding->aim.word) & HFI_W_CLOSED) == 0 ||
        !hfi_ending_last(&binding->map->region, binding->slot, &ending)) {
        return;
    }
    int64_t now_ns = boottime_ns();
    inquiry->ending = (enum hf_ending)ending.kind;
    inquiry->by_uid = ending.uid;
    copy_text(inquiry->by_agent, sizeof(inquiry->by_agent), ending.agent);
    if (ending.at_ns > 0 && ending.at_ns <= now_ns) {
        inquiry->reason.since_ns = now_ns - ending.at_ns;
    }
}

/* Appends how the hold ended for which a lock-delay keeps the lock closed. */
static void say_ending(struct inquiry *inquiry)
{
    const struct hf_reason *reason = &inquiry->reason;
    switch (inquiry->ending) {
    case HF_ENDING_PROCESS:
        say(inquiry, "the process that held it ended");
        break;
    case HF_ENDING_BROKEN:
        say(inquiry, "its last hold was ");
        say_breaker(inquiry, inquiry->by_agent, inquiry->by_uid);
        break;
    case HF_ENDING_LEASE:
        say(inquiry, "the lease of its last hold was over");
        break;
    case HF_ENDING_STALL:
        say(inquiry, "its last holder reported no progress");
        break;
    case HF_ENDING_SESSION:
        say(inquiry, "the session of %s, which had it, ended",
            reason->agent[0] != '\0' ? reason->agent : "the host");
        break;
    default:
        say(inquiry, "its last holder vanished, or its hold was ended");
        break;
    }
    if (reason->since_ns >= 0) {
        say(inquiry, ", ");
        say_duration(inquiry, reason->since_ns);
        say(inquiry, " ago");
    }
}

/* Appends whose hold it was for which a lock-delay keeps the lock closed, and how that hold
 * ended. */
static void say_closing(struct inquiry *inquiry)
{
    const struct hf_reason *reason = &inquiry->reason;
    bool host_gone = inquiry->ending == HF_ENDING_SESSION;
    if (inquiry->ending == HF_ENDING_UNKNOWN) {
        read_closing(inquiry);
    }
    say_ending(inquiry);
    if (reason->pid < 0 && (host_gone || reason->agent[0] == '\0')) {
        return; /* nothing more is known */
    }
    say(inquiry, "; last %sholder", host_gone ? "known " : "");
    if (reason->agent[0] != '\0') {
        say(inquiry, " on %s", reason->agent);
    }
    say_process(inquiry, ": ");
}

/* Appends why the hold ended. */
static void say_end(struct inquiry *inquiry)
{
    const struct hf_reason *reason = &inquiry->reason;
    switch (reason->kind) {
    case HF_WHY_BROKEN:
        say_breaker(inquiry, reason->agent, reason->uid);
        break;
    case HF_WHY_LEASE_OVER:
        say(inquiry, "its lease of ");
        say_duration(inquiry, inquiry->lock->lease_ns);
        say(inquiry, " is over");
        break;
    case HF_WHY_STALLED:
        say(inquiry, "no progress was reported for ");
        say_duration(inquiry, inquiry->lock->max_stall_ns);
        break;
    case HF_WHY_SESSION_LOST:
        say(inquiry, "this host's session was not renewed in time: no majority of the voters "
                     "answered, or the agent stood still");
        break;
    case HF_WHY_AGENT_GONE:
        say(inquiry, "this host's session was not renewed in time: the agent has ended");
        break;
    case HF_WHY_FORGOTTEN:
        say(inquiry, "the agent does not know this process any more");
        break;
    case HF_WHY_DAMAGED:
        say(inquiry,
            "the agent found invalid bytes in the memory that it shares with the processes "
            "of this namespace");
        break;
    default:
        say(inquiry, "the reason is not known");
        break;
    }
}

static void say_reason(struct inquiry *inquiry)
{
    const struct hf_reason *reason = &inquiry->reason;
    switch (reason->kind) {
    case HF_WHY_NOTHING:
        say(inquiry, "%s",
            atomic_load_explicit(&inquiry->lock->ungranted, memory_order_relaxed)
                ? "the voters did not grant it to this host in time, and nothing is known that "
                  "prevents it now"
                : "nothing is known that prevents it now");
        break;
    case HF_WHY_HELD:
        say_holder(inquiry);
        break;
    case HF_WHY_AWAITED:
        say(inquiry, "no holder is known, but processes wait for it");
        break;
    case HF_WHY_CLOSED:
        say(inquiry, "closed for another ");
        say_duration(inquiry, reason->closed_ns);
        say(inquiry, " (lock-delay): ");
        say_closing(inquiry);
        break;
    case HF_WHY_NO_AGENT:
        say(inquiry, "no agent answers on this host");
        break;
    case HF_WHY_UNKNOWN:
        say(inquiry, "a host that has reported nothing for too long may hold it");
        break;
    case HF_WHY_NO_MAJORITY: /* on_status() has written the text */
        break;
    default:
        say_end(inquiry);
        break;
    }
    if (reason->waiters > 0) {
        say(inquiry, "; waiting: %" PRIu64, reason->waiters);
    }
}

/* Copies as many bytes of the reason as the caller's struct has, and sets bytes of a larger struct
 * to 0. */
static void hand_out(const struct inquiry *inquiry, struct hf_reason *out)
{
    size_t size = out->size;
    size_t known = size < sizeof(inquiry->reason) ? size : sizeof(inquiry->reason);
    memcpy(out, &inquiry->reason, known);
    memset((char *)out + known, 0, size - known);
    out->size = size;
}

/* Copies the reason of the hold's end into the inquiry. */
static void note_end(struct inquiry *inquiry, const struct hold_end *end)
{
    struct hf_reason *reason = &inquiry->reason;
    int64_t now_ns = boottime_ns();
    reason->kind = end->kind;
    reason->uid = end->uid;
    reason->since_ns = end->at_ns >= 0 && end->at_ns <= now_ns ? now_ns - end->at_ns : -1;
    copy_text(reason->agent, sizeof(reason->agent), end->agent);
}

void why_end_text(const hf_lock *lock, const struct hold_end *end, char *out, size_t size)
{
    struct inquiry inquiry = {.lock = lock};
    note_end(&inquiry, end);
    say_reason(&inquiry);
    copy_text(out, size, inquiry.reason.text);
}

/* Checks the arguments of hf_why(). */
static int arguments_check(const hf_lock *lock, const struct hf_reason *out)
{
    if (lock == NULL || out == NULL) {
        return failure_null(lock != NULL ? lock->client : NULL, lock == NULL ? "lock" : "out");
    }
    if (out->size < HFI_REASON_SIZE_MIN) {
        return failure_options(lock->client, "hf_reason", out, HFI_REASON_SIZE_MIN);
    }
    return alive_here(lock->alive) ? 0 : failure_forked(lock->client);
}

HFI_PUBLIC int hf_why(hf_lock *lock, struct hf_reason *out)
{
    struct inquiry inquiry = {.reason = {.pid = -1, .uid = -1, .since_ns = -1}, .lock = lock};
    struct hold_end end;
    int error = arguments_check(lock, out);
    if (error != 0) {
        return error;
    }
    if (ended_last(lock, &end)) {
        note_end(&inquiry, &end);
        say_reason(&inquiry);
        hand_out(&inquiry, out);
        return 0;
    }
    error = show_unsaid(lock->client, lock->name, on_lock, &inquiry);
    if (error == 0) {
        error = status_unsaid(lock->client, on_status, &inquiry);
    }
    if (error == HF_ENOAGENT) {
        inquiry = (struct inquiry){
            .reason = {.kind = HF_WHY_NO_AGENT, .pid = -1, .uid = -1, .since_ns = -1},
            .lock = lock};
    } else if (error != 0) {
        return failure_ask(lock->client, error, "show the lock", lock->name);
    }
    say_reason(&inquiry);
    hand_out(&inquiry, out);
    return 0;
}
