/*
 * The agent's log: one line per event on standard error, as key=value pairs that both people and
 * programs read. docs/LOG.md lists all events.
 *
 *   level=info event=lock_opened lock="my lock" namespace=default slot=7 number=0
 *
 * Values that are not plain words are quoted. In quotes, \" \\ \n \t and \xHH stand for bytes that
 * would break the line, that are not UTF-8, or that are invisible. A line is one write of at most
 * LOG_LINE_MAX bytes; a longer line is cut. Each line begins with the wall clock's time (which only
 * people use), unless journald adds its own.
 *
 * A line that any stranger can cause goes through log_begin_limited(), so that a flood of such
 * lines cannot fill a disk. If lines were left out, the next line with the same limit reports their
 * number.
 *
 * Only the loop's thread may call these functions.
 */
#ifndef AGENT_LOG_H
#define AGENT_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/log_limit.h"

enum { LOG_LINE_MAX = 2048 };

/* LOG_LEVEL_DEBUG is for lines that every call of `holdfast` causes. */
enum log_level { LOG_LEVEL_DEBUG = 0, LOG_LEVEL_INFO, LOG_LEVEL_WARN, LOG_LEVEL_ERROR };

struct log_line {
    size_t used;
    bool silent;
    char text[LOG_LINE_MAX];
};

/* The limit of log_begin_limited(): a burst of lines of one kind, after that one line per
 * interval. */
enum { LOG_BURST = 50, LOG_INTERVAL_MS = 200 };

/* Sends lines to the descriptor fd. Without this call they go to standard error. with_time: each
 * line begins with the time. */
void log_open(int fd, bool with_time);
/* Sends lines to standard error. They begin with the time unless journald reads them. */
void log_open_stderr(void);

/* From now on no lines below that level are written. Nothing counts them as missing, and no limit
 * counts them. Without this call the level is LOG_LEVEL_INFO. */
void log_set_level(enum log_level least);

/* For display: the lines since the start that were not written. left_out: because of a limit; lost:
 * because nobody read the log fast enough, or a write failed. */
struct log_missing {
    uint64_t left_out;
    uint64_t lost;
};
struct log_missing log_missing(void);
/* Counts a line that the caller did not log because of a limit of its own. */
void log_leave_out(void);

void log_begin(struct log_line *line, enum log_level level, const char *event);
/* now_ns: a time of CLOCK_BOOTTIME. */
void log_begin_limited(struct log_line *line, enum log_level level, const char *event,
                       struct log_limit *limit, int64_t now_ns);
void log_text(struct log_line *line, const char *key, const char *value);
void log_bytes(struct log_line *line, const char *key, const void *value, size_t size);
void log_number(struct log_line *line, const char *key, int64_t value);
void log_unsigned(struct log_line *line, const char *key, uint64_t value);
/* Writes nanoseconds as seconds with three digits. */
void log_seconds(struct log_line *line, const char *key, int64_t value_ns);
void log_end(struct log_line *line);

/* Logs a line that has text=... and nothing else. */
void log_simple(enum log_level level, const char *event, const char *text);

#endif
