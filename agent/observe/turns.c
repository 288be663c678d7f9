/* The watchdog of the loop's turns: see turns.h. */
#include "observe/turns.h"

#include <string.h>

#include "io/clock.h"
#include "observe/log.h"

static const struct log_rate rate = {.interval_ns = 1000000000, .burst = 1};

void turns_part(struct turns *turns, enum turn_part part)
{
    int64_t now_ns = clock_boottime_ns();
    if (turns->began_ns == 0) {
        turns->began_ns = now_ns;
        turns->cpu_ns = clock_thread_ns();
        memset(turns->spent_ns, 0, sizeof(turns->spent_ns));
    } else {
        turns->spent_ns[turns->part] += now_ns - turns->since_ns;
    }
    turns->part = part;
    turns->since_ns = now_ns;
}

static void log_turn(struct turns *turns, int64_t took_ns, int64_t cpu_ns, struct turns_user user,
                     uint32_t before)
{
    static const char *const names[TURN_PARTS] = {"none",  "users", "timer",   "disk",
                                                  "peers", "web",   "signals", "end"};
    enum turn_part most = TURN_NONE;
    struct log_line line;
    for (unsigned i = 1; i < TURN_PARTS; i++) {
        most = turns->spent_ns[i] > turns->spent_ns[most] ? (enum turn_part)i : most;
    }
    bool ran = cpu_ns >= took_ns / 2;
    log_begin(&line, LOG_LEVEL_WARN, "turn_slow");
    log_seconds(&line, "took", took_ns);
    log_seconds(&line, "cpu", cpu_ns);
    log_text(&line, "part", names[most]);
    log_seconds(&line, "part_took", turns->spent_ns[most]);
    if (ran && most == TURN_USERS && user.took_ns > 0) {
        log_number(&line, "uid", (int64_t)user.uid);
        log_seconds(&line, "uid_took", user.took_ns);
    }
    if (!ran) {
        log_text(&line, "text",
                 "the agent did not run for most of that time: it was stopped, got no processor, "
                 "or waited for the disk or for memory");
    }
    if (before > 0) {
        log_unsigned(&line, "before", before);
    }
    log_end(&line);
}

void turns_end(struct turns *turns, int64_t now_ns, int64_t slow_ns, struct turns_user user)
{
    int64_t took_ns = now_ns - turns->began_ns;
    if (turns->began_ns == 0) {
        return;
    }
    turns->began_ns = 0;
    if (took_ns <= slow_ns) {
        return;
    }
    turns->slow++;
    turns->spent_ns[turns->part] += now_ns - turns->since_ns;
    uint32_t count = log_limit_add(&turns->limit, &rate, now_ns);
    if (count == 0) {
        log_leave_out();
        return;
    }
    log_turn(turns, took_ns, clock_thread_ns() - turns->cpu_ns, user, count - 1);
}
