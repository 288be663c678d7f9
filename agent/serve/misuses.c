/* Log lines about mistakes of local processes: see misuses.h. */
#include "serve/misuses.h"

#include <stdlib.h>
#include <string.h>

#include "io/clock.h"
#include "proto/region.h"

static const int64_t minute_ns = 60000000000;

enum {
    USERS = 64, /* the number of (user, event) pairs that the table keeps */
    LOGGED = 4, /* lines a minute for each pair */
};

/* The latest log lines about one event of one user's processes. */
struct misuse {
    uid_t account;
    const char *event; /* static; NULL: this entry is free */
    int64_t since_ns;  /* when the pair's present minute began */
    uint32_t logged;   /* lines logged in this minute */
    uint32_t left_out; /* lines left out since the last one that was logged */
    struct {
        pid_t pid;
        uint64_t why; /* a hash of the line's text */
    } of[LOGGED];
};

struct misuses {
    struct misuse of[USERS];
    struct log_limit limit; /* the limit of all users together */
};

struct misuses *misuses_create(void)
{
    return calloc(1, sizeof(struct misuses));
}

void misuses_destroy(struct misuses *misuses)
{
    free(misuses);
}

/* Returns the entry of that user and event. A new entry replaces the entry whose minute began
 * first. */
static struct misuse *find(struct misuses *misuses, uid_t account, const char *event)
{
    struct misuse *oldest = &misuses->of[0];
    for (uint32_t i = 0; i < USERS; i++) {
        struct misuse *one = &misuses->of[i];
        if (one->event != NULL && one->account == account && strcmp(one->event, event) == 0) {
            return one;
        }
        oldest = one->since_ns < oldest->since_ns ? one : oldest;
    }
    *oldest = (struct misuse){.account = account, .event = event, .since_ns = INT64_MIN / 2};
    return oldest;
}

/* Returns whether the log already has this text about that process in this minute. */
static bool was_logged(const struct misuse *misuse, pid_t pid, uint64_t why)
{
    for (uint32_t i = 0; i < misuse->logged; i++) {
        if (misuse->of[i].pid == pid && misuse->of[i].why == why) {
            return true;
        }
    }
    return false;
}

void misuses_log(struct misuses *misuses, const struct peer *peer, enum log_level level,
                 const char *event, const char *why)
{
    struct misuse *misuse = find(misuses, peer != NULL ? peer->account : (uid_t)-1, event);
    int64_t now_ns = clock_boottime_ns();
    pid_t pid = peer != NULL ? peer->pid : -1;
    uint64_t hash = hfi_name_hash(why, strlen(why));
    uint32_t left_out = misuse->left_out;
    struct log_line line;
    if (now_ns - misuse->since_ns >= minute_ns) {
        misuse->since_ns = now_ns;
        misuse->logged = 0;
    }
    if (misuse->logged >= LOGGED || was_logged(misuse, pid, hash)) {
        misuse->left_out++;
        log_leave_out();
        return;
    }
    log_begin_limited(&line, level, event, &misuses->limit, now_ns);
    if (line.silent) { /* too many users at once: the user's next line includes this line in its
                        * count */
        misuse->left_out++;
        return;
    }
    misuse->of[misuse->logged].pid = pid;
    misuse->of[misuse->logged].why = hash;
    misuse->logged++;
    misuse->left_out = 0;
    if (peer != NULL) {
        log_number(&line, "pid", pid);
        log_number(&line, "uid", (int64_t)peer->uid);
    }
    log_text(&line, "why", why);
    if (left_out > 0) {
        log_unsigned(&line, "before", left_out);
    }
    log_end(&line);
}
