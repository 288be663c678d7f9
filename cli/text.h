/*
 * Writes text for people: durations, texts without control characters, users, and a lock in one
 * line or in several.
 */
#ifndef HOLDFAST_CLI_TEXT_H
#define HOLDFAST_CLI_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <holdfast/admin.h>

enum { TEXT_DURATION_SIZE = 32, TEXT_TIME_SIZE = 64 };

/* Writes a text such as "350 ms", "4.9 s", "2 m 03 s", "5 h 10 m" or "3 d 04 h"; "?" for -1, which
 * means unknown. */
const char *text_duration(char out[TEXT_DURATION_SIZE], int64_t value_ns);

/* Writes text so that it cannot control a terminal or mislead a reader: a control character, an
 * invisible character (text/utf8.h) and a byte that is not UTF-8 become `?`. Writes at most
 * columns_max characters (0: all), and "..." if it leaves some out. Returns the number of
 * characters that it wrote. */
size_t text_write_clean(FILE *out, const char *text, size_t columns_max);

/* Writes the name that the user's number has on this host, or the number of a user without a name;
 * "?" for -1, which means unknown. The hosts of a cell usually have the same users, so users of
 * other hosts are shown in the same way. */
void text_write_user(FILE *out, int64_t uid);

/* Returns the user's name, in a static buffer; NULL if the user is not known or has no name. */
const char *text_user(int64_t uid);

/* Writes a text such as "pid 4242, user app, agent host-a". */
void text_write_process(FILE *out, const struct hf_party *party);

/* Writes a text such as ', note "migration 42"', with at most columns_max characters of the note
 * (0: all); nothing if note is NULL. */
void text_write_note(FILE *out, const char *note, size_t columns_max);

/* Writes a text such as "since 2026-01-31 13:05:59 (12.3 s)". */
void text_write_since(FILE *out, int64_t elapsed_ns);

/* Writes the local time elapsed_ns ago: "13:05:59" if that was today, else "2026-01-31 13:05"; "?"
 * for -1, which means unknown. */
const char *text_since(char out[TEXT_TIME_SIZE], int64_t elapsed_ns);

/* Writes the time now: "2026-01-31 13:05:59.123", or in UTC "2026-01-31T12:05:59.123Z". */
void text_write_now(FILE *out, bool utc);

const char *text_mode(enum hf_mode mode);
const char *text_state(enum hf_state state);

/* Returns the state of the lock for people: as text_state(), but "free?" if the lock looks free and
 * is open, and other hosts have reported nothing for too long, so that one of them may hold it. */
const char *text_state_seen(const struct hf_lock_info *info);

const char *text_session(enum hf_session_state state);
const char *text_voter(enum hf_voter_state state);

/* Describes a lock in several lines, for `holdfast show`. */
void text_write_lock(FILE *out, const struct hf_lock_info *info);

/* Describes a lock in one line, for `holdfast watch`. */
void text_write_lock_line(FILE *out, const struct hf_lock_info *info);

#endif
