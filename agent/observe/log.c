/* The agent's log: see log.h. */
#include "observe/log.h"

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "text/utf8.h"

enum { ESCAPED_MAX = HFI_UTF8_MAX * 4 + 1 };

static int log_fd = STDERR_FILENO;
static bool log_with_time;
static enum log_level log_least = LOG_LEVEL_INFO;
static struct log_missing missing;

void log_open(int fd, bool with_time)
{
    log_fd = fd;
    log_with_time = with_time;
}

void log_set_level(enum log_level least)
{
    log_least = least;
}

void log_open_stderr(void)
{
    /* JOURNAL_STREAM has device:inode of the socket that systemd gave as standard error. */
    const char *journal = getenv("JOURNAL_STREAM");
    struct stat status;
    unsigned long long device;
    unsigned long long inode;
    bool to_journal = journal != NULL && sscanf(journal, "%llu:%llu", &device, &inode) == 2 &&
                      fstat(STDERR_FILENO, &status) == 0 && status.st_dev == (dev_t)device &&
                      status.st_ino == (ino_t)inode;
    log_open(STDERR_FILENO, !to_journal);
}

/* Appends the bytes that fit, and leaves one byte free for the newline that log_end() adds. */
static void put(struct log_line *line, const char *bytes, size_t size)
{
    size_t room = sizeof(line->text) - 1 - line->used;
    size_t taken = size < room ? size : room;
    memcpy(line->text + line->used, bytes, taken);
    line->used += taken;
}

static void put_text(struct log_line *line, const char *text)
{
    put(line, text, strlen(text));
}

static void put_key(struct log_line *line, const char *key)
{
    if (line->used > 0) {
        put_text(line, " ");
    }
    put_text(line, key);
    put_text(line, "=");
}

struct log_missing log_missing(void)
{
    return missing;
}

void log_leave_out(void)
{
    missing.left_out++;
}

void log_begin(struct log_line *line, enum log_level level, const char *event)
{
    static const char *const names[] = {"debug", "info", "warn", "error"};
    line->used = 0;
    line->silent = level < log_least;
    if (log_with_time) {
        struct timespec now;
        struct tm parts;
        char text[40];
        char stamp[64];
        clock_gettime(CLOCK_REALTIME, &now);
        gmtime_r(&now.tv_sec, &parts);
        strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &parts);
        snprintf(stamp, sizeof(stamp), "%s.%03ldZ", text, now.tv_nsec / 1000000);
        put_key(line, "time");
        put_text(line, stamp);
    }
    put_key(line, "level");
    put_text(line, names[level]);
    put_key(line, "event");
    put_text(line, event);
}

void log_begin_limited(struct log_line *line, enum log_level level, const char *event,
                       struct log_limit *limit, int64_t now_ns)
{
    static const struct log_rate rate = {.interval_ns = LOG_INTERVAL_MS * INT64_C(1000000),
                                         .burst = LOG_BURST};
    log_begin(line, level, event);
    if (line->silent) {
        return;
    }
    uint32_t count = log_limit_add(limit, &rate, now_ns);
    if (count == 0) {
        line->silent = true;
        missing.left_out++;
    } else if (count > 1) {
        log_unsigned(line, "left_out", count - 1);
    }
}

/* Returns whether the log escapes the character: it is not valid UTF-8, it is a control character,
 * or a terminal may show nothing for it. */
static bool is_escaped(const struct hfi_utf8 *unit)
{
    return !unit->valid || hfi_utf8_is_control(unit->code_point) ||
           hfi_utf8_is_unseen(unit->code_point);
}

static bool is_plain(const char *bytes, size_t size)
{
    for (size_t i = 0; i < size;) {
        struct hfi_utf8 unit = hfi_utf8_next(bytes + i, size - i);
        if (is_escaped(&unit) || strchr(" \"\\=", bytes[i]) != NULL) {
            return false;
        }
        i += unit.size;
    }
    return size > 0;
}

/* Writes the character in the form that it has in a quoted value. */
static void escape(char escaped[ESCAPED_MAX], const char *bytes, const struct hfi_utf8 *unit)
{
    if (bytes[0] == '"' || bytes[0] == '\\') {
        snprintf(escaped, ESCAPED_MAX, "\\%c", bytes[0]);
    } else if (bytes[0] == '\n') {
        snprintf(escaped, ESCAPED_MAX, "\\n");
    } else if (bytes[0] == '\t') {
        snprintf(escaped, ESCAPED_MAX, "\\t");
    } else if (is_escaped(unit)) {
        for (size_t i = 0; i < unit->size; i++) {
            snprintf(escaped + 4 * i, ESCAPED_MAX - 4 * i, "\\x%02x", (unsigned char)bytes[i]);
        }
    } else {
        snprintf(escaped, ESCAPED_MAX, "%.*s", (int)unit->size, bytes);
    }
}

void log_bytes(struct log_line *line, const char *key, const void *value, size_t size)
{
    const char *bytes = value;
    put_key(line, key);
    if (is_plain(bytes, size)) {
        put(line, value, size);
        return;
    }
    put_text(line, "\"");
    for (size_t i = 0; i < size;) {
        char escaped[ESCAPED_MAX];
        struct hfi_utf8 unit = hfi_utf8_next(bytes + i, size - i);
        escape(escaped, bytes + i, &unit);
        if (line->used + strlen(escaped) + 2 > sizeof(line->text) - 1) {
            break; /* room is needed for the closing quote */
        }
        put_text(line, escaped);
        i += unit.size;
    }
    put_text(line, "\"");
}

void log_text(struct log_line *line, const char *key, const char *value)
{
    log_bytes(line, key, value, strlen(value));
}

void log_number(struct log_line *line, const char *key, int64_t value)
{
    char text[24];
    snprintf(text, sizeof(text), "%" PRId64, value);
    put_key(line, key);
    put_text(line, text);
}

void log_unsigned(struct log_line *line, const char *key, uint64_t value)
{
    char text[24];
    snprintf(text, sizeof(text), "%" PRIu64, value);
    put_key(line, key);
    put_text(line, text);
}

void log_seconds(struct log_line *line, const char *key, int64_t value_ns)
{
    char text[32];
    int64_t ms = value_ns / 1000000;
    const char *sign = ms < 0 ? "-" : "";
    uint64_t size_ms = ms < 0 ? -(uint64_t)ms : (uint64_t)ms;
    snprintf(text, sizeof(text), "%s%" PRIu64 ".%03u", sign, size_ms / 1000,
             (unsigned)(size_ms % 1000));
    put_key(line, key);
    put_text(line, text);
}

void log_end(struct log_line *line)
{
    if (line->silent) {
        return;
    }
    line->text[line->used++] = '\n';
    /* The log's reader may stand still (a pager, a full pipe), and leases must not wait for it. So
     * the line is dropped unless poll() reports room. Pipes that poll() reports as writable have
     * room for a whole line. */
    struct pollfd room = {.fd = log_fd, .events = POLLOUT};
    if (poll(&room, 1, 0) != 1 || !(room.revents & POLLOUT)) {
        missing.lost++;
        return;
    }
    if (write(log_fd, line->text, line->used) != (ssize_t)line->used) { /* fails if a disk is full,
                                                                         * for example */
        missing.lost++;
    }
}

void log_simple(enum log_level level, const char *event, const char *text)
{
    struct log_line line;
    log_begin(&line, level, event);
    log_text(&line, "text", text);
    log_end(&line);
}
