/*
 * Text for people: see text.h. Only this file reads the wall clock, to show the time now, and
 * since when a lock is held. No decision depends on the wall clock.
 */
#include "text.h"

#include <inttypes.h>
#include <limits.h>
#include <pwd.h>
#include <string.h>
#include <time.h>

#include "text/utf8.h"

enum { LINE_COMMAND_COLUMNS = 60 };

const char *text_duration(char out[TEXT_DURATION_SIZE], int64_t value_ns)
{
    int64_t ms = value_ns / 1000000;
    int64_t seconds = ms / 1000;

    if (value_ns == -1) {
        snprintf(out, TEXT_DURATION_SIZE, "?");
    } else if (value_ns <= 0) {
        snprintf(out, TEXT_DURATION_SIZE, "0 s");
    } else if (ms == 0) {
        snprintf(out, TEXT_DURATION_SIZE, "<1 ms");
    } else if (ms < 1000) {
        snprintf(out, TEXT_DURATION_SIZE, "%" PRId64 " ms", ms);
    } else if (seconds < 60) {
        snprintf(out, TEXT_DURATION_SIZE, "%" PRId64 ".%" PRId64 " s", seconds, ms % 1000 / 100);
    } else if (seconds < 3600) {
        snprintf(out, TEXT_DURATION_SIZE, "%" PRId64 " m %02" PRId64 " s", seconds / 60,
                 seconds % 60);
    } else if (seconds < 86400) {
        snprintf(out, TEXT_DURATION_SIZE, "%" PRId64 " h %02" PRId64 " m", seconds / 3600,
                 seconds % 3600 / 60);
    } else {
        snprintf(out, TEXT_DURATION_SIZE, "%" PRId64 " d %02" PRId64 " h", seconds / 86400,
                 seconds % 86400 / 3600);
    }
    return out;
}

size_t text_write_clean(FILE *out, const char *text, size_t columns_max)
{
    struct hfi_utf8 unit = hfi_utf8_next(text, strnlen(text, HFI_UTF8_MAX));
    size_t columns = 0;

    for (; unit.size > 0; unit = hfi_utf8_next(text, strnlen(text, HFI_UTF8_MAX))) {
        if (columns_max > 0 && columns == columns_max) {
            fputs("...", out);
            return columns + 3;
        }
        if (!unit.valid || hfi_utf8_is_control(unit.code_point) ||
            hfi_utf8_is_unseen(unit.code_point)) {
            fputc('?', out);
        } else {
            fwrite(text, 1, unit.size, out);
        }
        text += unit.size;
        columns++;
    }
    return columns;
}

const char *text_mode(enum hf_mode mode)
{
    return mode == HF_SHARED ? "shared" : "exclusive";
}

const char *text_state(enum hf_state state)
{
    switch (state) {
    case HF_STATE_EXCLUSIVE:
        return "exclusive";
    case HF_STATE_SHARED:
        return "shared";
    case HF_STATE_FREE:
        break;
    }
    return "free";
}

const char *text_state_seen(const struct hf_lock_info *info)
{
    bool unsure = info->state == HF_STATE_FREE && info->closed_ns <= 0 && info->age_ns < 0;

    return unsure ? "free?" : text_state(info->state);
}

/* Returns the user's name, or NULL if it has none. The result is valid until the next call. The
 * last user is remembered, because a listing asks for the same user again and again, and a
 * directory service may answer slowly. */
static const char *user_name(int64_t uid)
{
    static char name[LOGIN_NAME_MAX];
    static int64_t known = -1;

    if (uid != known) {
        const struct passwd *user = getpwuid((uid_t)uid);

        (void)snprintf(name, sizeof(name), "%s", user != NULL ? user->pw_name : "");
        known = uid;
    }
    return name[0] != '\0' ? name : NULL;
}

const char *text_session(enum hf_session_state state)
{
    switch (state) {
    case HF_SESSION_SAFE:
        return "safe";
    case HF_SESSION_JEOPARDY:
        return "jeopardy";
    case HF_SESSION_LOST:
        break;
    }
    return "lost";
}

const char *text_voter(enum hf_voter_state state)
{
    switch (state) {
    case HF_VOTER_UP:
        return "up";
    case HF_VOTER_REFUSED:
        return "refused";
    case HF_VOTER_DOWN:
        break;
    }
    return "down";
}

const char *text_user(int64_t uid)
{
    return uid >= 0 ? user_name(uid) : NULL;
}

void text_write_user(FILE *out, int64_t uid)
{
    const char *name = text_user(uid);

    if (name != NULL) {
        (void)text_write_clean(out, name, 0);
    } else if (uid >= 0) {
        fprintf(out, "%" PRId64, uid);
    } else {
        fputc('?', out);
    }
}

static void write_process(FILE *out, int64_t pid, int64_t uid, const char *agent)
{
    if (pid >= 0) {
        fprintf(out, "pid %" PRId64, pid);
    } else {
        fputs("pid ?", out);
    }
    if (uid >= 0) {
        fputs(", user ", out);
        text_write_user(out, uid);
    }
    if (agent != NULL) {
        fputs(", agent ", out);
        text_write_clean(out, agent, 0);
    }
}

void text_write_process(FILE *out, const struct hf_party *party)
{
    write_process(out, party->pid, party->uid, party->agent);
}

const char *text_since(char out[TEXT_TIME_SIZE], int64_t elapsed_ns)
{
    time_t now = time(NULL);
    time_t start = now - (time_t)(elapsed_ns / 1000000000);
    struct tm today;
    struct tm local;

    snprintf(out, TEXT_TIME_SIZE, "?");
    if (elapsed_ns >= 0 && localtime_r(&now, &today) != NULL &&
        localtime_r(&start, &local) != NULL) {
        bool same = today.tm_year == local.tm_year && today.tm_yday == local.tm_yday;

        if (strftime(out, TEXT_TIME_SIZE, same ? "%H:%M:%S" : "%Y-%m-%d %H:%M", &local) == 0) {
            snprintf(out, TEXT_TIME_SIZE, "?");
        }
    }
    return out;
}

void text_write_now(FILE *out, bool utc)
{
    struct timespec now;
    struct tm parts;
    char text[TEXT_TIME_SIZE];

    clock_gettime(CLOCK_REALTIME, &now);
    if ((utc ? gmtime_r(&now.tv_sec, &parts) : localtime_r(&now.tv_sec, &parts)) == NULL ||
        strftime(text, sizeof(text), utc ? "%Y-%m-%dT%H:%M:%S" : "%Y-%m-%d %H:%M:%S", &parts) ==
            0) {
        fputc('?', out);
        return;
    }
    fprintf(out, "%s.%03ld%s", text, now.tv_nsec / 1000000, utc ? "Z" : "");
}

void text_write_since(FILE *out, int64_t elapsed_ns)
{
    char duration[TEXT_DURATION_SIZE];
    char when[64];
    time_t start;
    struct tm local;

    if (elapsed_ns < 0) {
        fputs("since ?", out);
        return;
    }
    start = time(NULL) - (time_t)(elapsed_ns / 1000000000);
    if (localtime_r(&start, &local) == NULL ||
        strftime(when, sizeof(when), "%Y-%m-%d %H:%M:%S", &local) == 0) {
        fprintf(out, "for %s", text_duration(duration, elapsed_ns));
        return;
    }
    fprintf(out, "since %s (%s)", when, text_duration(duration, elapsed_ns));
}

void text_write_note(FILE *out, const char *note, size_t columns_max)
{
    if (note != NULL) {
        fputs(", note \"", out);
        text_write_clean(out, note, columns_max);
        fputc('"', out);
    }
}

/* Writes the lines of the command and the note, if they are known. Each begins with a newline. */
static void write_texts(FILE *out, const char *command, const char *note)
{
    if (command != NULL) {
        fputs("\n  command    ", out);
        text_write_clean(out, command, 0);
    }
    if (note != NULL) {
        fputs("\n  note       ", out);
        text_write_clean(out, note, 0);
    }
}

static void write_holder(FILE *out, const struct hf_party *holder)
{
    char left[TEXT_DURATION_SIZE];

    fputs("holder       ", out);
    text_write_process(out, holder);
    write_texts(out, holder->command, holder->note);
    fputs("\n  held       ", out);
    text_write_since(out, holder->elapsed_ns);
    fprintf(out, "\n  token      %" PRIu64 "\n  lease left %s\n", holder->token,
            text_duration(left, holder->remaining_ns));
}

static void write_ending(FILE *out, const struct hf_behind *behind)
{
    switch (behind->ending) {
    case HF_ENDING_PROCESS:
        fputs("its process ended", out);
        break;
    case HF_ENDING_BROKEN:
        fputs("broken by user ", out);
        text_write_user(out, behind->by_uid);
        if (behind->by_agent != NULL) {
            fputs(", agent ", out);
            text_write_clean(out, behind->by_agent, 0);
        }
        break;
    case HF_ENDING_LEASE:
        fputs("its lease was over", out);
        break;
    case HF_ENDING_STALL:
        fputs("it reported no progress", out);
        break;
    case HF_ENDING_SESSION:
        fputs("the session of its host ended", out);
        break;
    default:
        fputs("?", out);
        break;
    }
}

/* label: the word at the begin of the line, padded to the column of the other values. */
static void write_behind(FILE *out, const char *label, const struct hf_behind *behind)
{
    char duration[TEXT_DURATION_SIZE];

    fputs(label, out);
    write_process(out, behind->pid, behind->uid, behind->agent);
    write_texts(out, behind->command, behind->note);
    fputs("\n  ended      ", out);
    if (behind->elapsed_ns >= 0) {
        fprintf(out, "%s ago: ", text_duration(duration, behind->elapsed_ns));
    }
    write_ending(out, behind);
    fputc('\n', out);
}

void text_write_lock(FILE *out, const struct hf_lock_info *info)
{
    char duration[TEXT_DURATION_SIZE];

    fputs("name         ", out);
    text_write_clean(out, info->name, 0);
    fprintf(out, "\nmode         %s\n", text_state_seen(info));
    if (info->closed_ns > 0) {
        fprintf(out, "closed       for %s more (lock-delay)\n",
                text_duration(duration, info->closed_ns));
    }
    if (info->closed_ns > 0 && info->behind != NULL) {
        write_behind(out, "behind       ", info->behind);
    }
    for (size_t index = 0; index < info->holder_count; index++) {
        write_holder(out, info->holders[index]);
    }
    for (size_t index = 0; index < info->waiter_count; index++) {
        const struct hf_party *waiter = info->waiters[index];

        fprintf(out, "waiter %-5zu ", index + 1);
        text_write_process(out, waiter);
        fprintf(out, ", %s, waits %s\n", text_mode(waiter->mode),
                text_duration(duration, waiter->elapsed_ns));
    }
    if (info->closed_ns <= 0 && info->behind != NULL) {
        write_behind(out, "earlier hold ", info->behind);
    }
    if (info->coordinator != NULL) {
        fputs("coordinator  ", out);
        text_write_clean(out, info->coordinator, 0);
        fputc('\n', out);
    }
    if (info->age_ns > 0) {
        fprintf(out, "reported     %s ago\n", text_duration(duration, info->age_ns));
    } else if (info->age_ns < 0) {
        fputs("reported     nothing for too long: another host may hold it\n", out);
    }
}

void text_write_lock_line(FILE *out, const struct hf_lock_info *info)
{
    char duration[TEXT_DURATION_SIZE];

    text_write_clean(out, info->name, 0);
    fprintf(out, ": %s", text_state_seen(info));
    if (info->holder_count == 1) {
        const struct hf_party *holder = info->holders[0];

        fputs(", held by ", out);
        text_write_process(out, holder);
        fprintf(out, ", token %" PRIu64, holder->token);
        if (holder->command != NULL) {
            fputs(": ", out);
            text_write_clean(out, holder->command, LINE_COMMAND_COLUMNS);
        }
        text_write_note(out, holder->note, LINE_COMMAND_COLUMNS);
    } else if (info->holder_count > 1) {
        fprintf(out, ", %zu holders", info->holder_count);
    }
    if (info->waiter_count > 0) {
        fprintf(out, "; %zu waiting", info->waiter_count);
    }
    if (info->holder_count == 0 && info->closed_ns <= 0 && info->age_ns < 0) {
        fputs("; another host may hold it, and has reported nothing for too long", out);
    }
    if (info->closed_ns > 0) {
        fprintf(out, "; closed for %s", text_duration(duration, info->closed_ns));
        if (info->behind != NULL) {
            fputs(" behind ", out);
            write_process(out, info->behind->pid, info->behind->uid, info->behind->agent);
            if (info->behind->ending != HF_ENDING_UNKNOWN) {
                fputs(" (", out);
                write_ending(out, info->behind);
                fputc(')', out);
            }
        }
    } else if (info->behind != NULL && info->behind->ending == HF_ENDING_BROKEN) {
        fputs("; the hold of ", out);
        write_process(out, info->behind->pid, info->behind->uid, info->behind->agent);
        fputs(", was ", out);
        write_ending(out, info->behind);
    }
    fputc('\n', out);
}
