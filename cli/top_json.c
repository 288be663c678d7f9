/*
 * Writes a reading as JSON: see top_json.h.
 */
#include "top_json.h"

#include <stdlib.h>

#include "describe.h"
#include "json.h"
#include "text.h"

static int write_time(struct json *json)
{
    char *time = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&time, &size);

    if (out == NULL) {
        return HF_ENOMEM;
    }
    text_write_now(out, true);
    if (fclose(out) != 0) {
        free(time);
        return HF_ENOMEM;
    }
    json_text(json, "time", time);
    free(time);
    return 0;
}

static void write_status(struct json *json, const struct top_reading *reading)
{
    const struct hf_status *status = &reading->status;

    json_text(json, "agent", status->agent);
    json_text(json, "cell", status->cell);
    json_text(json, "role", status->role);
    json_text(json, "version", status->version);
    json_open_object(json, "session");
    json_text(json, "state", judged_session(&reading->judged, status->session_state));
    json_unsigned(json, "epoch", status->session_epoch);
    json_ms_or_null(json, "remaining_ms", status->session_remaining_ns);
    json_close_object(json);
    json_unsigned(json, "clients", status->clients);
    json_unsigned(json, "locks_held", status->locks_held);
    json_unsigned(json, "waiters", status->waiters);
}

static void write_host(struct json *json, const struct top_host *host)
{
    bool known = host->role != TOP_UNKNOWN;

    json_open_object(json, NULL);
    json_text(json, "name", host->name);
    json_text(json, "role", !known ? NULL : host->role == TOP_VOTER ? "voter" : "observer");
    json_text(json, "state", known ? text_voter(host->state) : NULL);
    json_text(json, "address", host->address);
    json_signed_or_null(json, "partitions", host->partitions);
    json_ms_or_null(json, "round_trip_ms", host->round_trip_ns);
    json_unsigned(json, "holds", host->holds);
    json_unsigned(json, "waits", host->waits);
    json_close_object(json);
}

static void write_locks(struct json *json, const struct top_rows *rows)
{
    json_open_array(json, "locks");
    for (size_t index = 0; index < rows->count; index++) {
        const struct top_lock *lock = rows->rows[index].lock;

        json_open_object(json, NULL);
        describe_lock_members(json, &lock->info);
        json_ms_or_null(json, "longest_wait_ms", lock->longest_wait_ns);
        json_thousandths_or_null(json, "holds_per_s", lock->holds_milli);
        json_close_object(json);
    }
    json_close_array(json);
}

static void write_process(struct json *json, const char *key, const struct hf_party *party)
{
    if (party == NULL) {
        json_null(json, key);
        return;
    }
    json_open_object(json, key);
    json_text(json, "agent", party->agent);
    json_signed_or_null(json, "pid", party->pid);
    json_signed_or_null(json, "uid", party->uid);
    json_text(json, "command", party->command);
    json_text(json, "note", party->note);
    json_close_object(json);
}

static void write_waits(struct json *json, const struct top_rows *rows)
{
    json_open_array(json, "waits");
    for (size_t index = 0; index < rows->count; index++) {
        const struct top_row *row = &rows->rows[index];
        const struct top_lock *further;
        bool circle;
        const struct hf_party *holder = top_wait_follow(rows, row, &further, &circle);

        json_open_object(json, NULL);
        json_text(json, "name", row->lock->info.name);
        json_text(json, "agent", row->waiter->agent);
        json_signed_or_null(json, "pid", row->waiter->pid);
        json_text(json, "mode", text_mode(row->waiter->mode));
        json_ms_or_null(json, "waited_ms", row->waiter->elapsed_ns);
        write_process(json, "holder", holder);
        json_text(json, "holder_waits_for", further != NULL ? further->info.name : NULL);
        json_bool(json, "circle", circle);
        json_close_object(json);
    }
    json_close_array(json);
}

/* Writes the rows of both tables of locks. */
static int write_rows(struct json *json, const struct top_reading *reading)
{
    struct top_rows rows;
    int error = top_rows_make(reading, TOP_LOCKS, TOP_BY_WAITERS, false, &rows);

    if (error != 0) {
        return error;
    }
    write_locks(json, &rows);
    top_rows_free(&rows);
    error = top_rows_make(reading, TOP_WAITS, TOP_BY_WAIT, false, &rows);
    if (error != 0) {
        return error;
    }
    write_waits(json, &rows);
    top_rows_free(&rows);
    return 0;
}

static int write_reading(struct json *json, const struct top_reading *reading)
{
    write_status(json, reading);
    judged_write_json(&reading->judged, json);
    json_signed_or_null(json, "observer_count", reading->observers);
    json_open_array(json, "hosts");
    for (size_t index = 0; index < reading->host_count; index++) {
        write_host(json, &reading->hosts[index]);
    }
    json_close_array(json);
    json_thousandths_or_null(json, "holds_per_s", reading->holds_milli);
    json_bool(json, "cut", reading->cut);
    return write_rows(json, reading);
}

int top_json_write(const struct top_news *news, FILE *out)
{
    struct json json;
    int error;

    json_init(&json, out);
    json_open_object(&json, NULL);
    error = write_time(&json);
    json_text(&json, "error", news->error != 0 ? hf_strerror(news->error) : NULL);
    if (error == 0 && news->error == 0 && news->reading != NULL) {
        error = write_reading(&json, news->reading);
    }
    json_close_object(&json);
    fputc('\n', out);
    return error;
}
