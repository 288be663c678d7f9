/*
 * Writes the lines about reasons: see why.h.
 */
#include "why.h"

#include <stdio.h>
#include <stdlib.h>

#include "asked.h"
#include "cli.h"
#include "json.h"
#include "text.h"

/* Returns the word for the kind in JSON. docs/LOG.md, "Reasons", lists these words. */
static const char *kind_word(enum hf_reason_kind kind)
{
    static const char *const words[] = {
        [HF_WHY_NOTHING] = "nothing",
        [HF_WHY_HELD] = "held",
        [HF_WHY_AWAITED] = "awaited",
        [HF_WHY_CLOSED] = "closed",
        [HF_WHY_NO_MAJORITY] = "no_majority",
        [HF_WHY_NO_AGENT] = "no_agent",
        [HF_WHY_UNKNOWN] = "unknown",
        [HF_WHY_BROKEN] = "broken",
        [HF_WHY_LEASE_OVER] = "lease_over",
        [HF_WHY_STALLED] = "stalled",
        [HF_WHY_SESSION_LOST] = "session_lost",
        [HF_WHY_AGENT_GONE] = "agent_gone",
        [HF_WHY_FORGOTTEN] = "forgotten",
        [HF_WHY_DAMAGED] = "damaged",
        [HF_WHY_ENDED] = "ended",
    };

    return (size_t)kind < sizeof(words) / sizeof(words[0]) ? words[kind] : NULL;
}

static const char *text_or_null(const char *text)
{
    return text[0] != '\0' ? text : NULL;
}

static void write_reason(struct json *json, const struct hf_reason *reason)
{
    json_open_object(json, "why");
    json_text(json, "kind", kind_word(reason->kind));
    json_text(json, "agent", text_or_null(reason->agent));
    json_signed_or_null(json, "pid", reason->pid);
    json_signed_or_null(json, "uid", reason->uid);
    json_text(json, "command", text_or_null(reason->command));
    json_text(json, "note", text_or_null(reason->note));
    json_ms_or_null(json, "since_ms", reason->since_ns);
    json_ms_or_null(json, "closed_ms", reason->closed_ns);
    json_unsigned(json, "holders", reason->holders);
    json_unsigned(json, "waiters", reason->waiters);
    json_text(json, "text", reason->text);
    json_close_object(json);
}

/* A line for people on stderr, or an object for cli_json_stream(), collected in memory. One write()
 * outputs the whole line, because CMD may write to the same stream at the same time. */
struct line {
    FILE *stream;
    FILE *out;
    char *text;
    size_t size;
};

static void line_begin(struct line *line, FILE *stream)
{
    *line = (struct line){.stream = stream};
    line->out = open_memstream(&line->text, &line->size);
    if (line->out == NULL) {
        line->out = stream; /* without memory the line is written in pieces */
    }
}

static void line_end(struct line *line)
{
    fputc('\n', line->out);
    if (line->out != line->stream && fclose(line->out) == 0) {
        (void)!fwrite(line->text, 1, line->size, line->stream);
    }
    (void)fflush(line->stream);
    free(line->text);
}

/* Writes a JSON object in one line. reason: NULL if the reason is not known. */
static void write_object(const char *event, const char *name, const char *error,
                         const struct hf_reason *reason)
{
    struct line line;
    struct json json;

    line_begin(&line, cli_json_stream());
    json_init(&json, line.out);
    json_open_object(&json, NULL);
    json_text(&json, "event", event);
    json_text(&json, "name", name);
    json_text(&json, "error", error);
    if (reason != NULL) {
        write_reason(&json, reason);
    } else {
        json_null(&json, "why");
    }
    asked_json(&json);
    json_close_object(&json);
    line_end(&line);
}

size_t why_find(const struct held *held, struct hf_reason *out)
{
    size_t found = held->count;

    for (size_t index = 0; index < held->count; index++) {
        struct hf_reason reason = HF_REASON_INIT;

        if (hf_remaining_ns(held->locks[index]) > 0 || hf_why(held->locks[index], &reason) != 0) {
            continue;
        }
        if (reason.kind == HF_WHY_HELD && hf_remaining_ns(held->locks[index]) > 0) {
            continue; /* this process has got the lock meanwhile, and is the holder */
        }
        if (found == held->count || reason.kind != HF_WHY_NOTHING) {
            *out = reason;
            found = index;
        }
        if (reason.kind != HF_WHY_NOTHING) {
            break;
        }
    }
    return found;
}

/* Writes a line about a lock, for people. */
static void write_line(const char *where, const char *name, const char *what,
                       const struct hf_reason *reason)
{
    struct line line;

    line_begin(&line, stderr);
    fprintf(line.out, "holdfast %s: ", where);
    (void)text_write_clean(line.out, name, 0);
    fprintf(line.out, ": %s: ", what);
    (void)text_write_clean(line.out, reason->text, 0);
    (void)text_write_clean(line.out, asked_text(), 0);
    line_end(&line);
}

void why_waiting(const struct held *held, size_t index, const struct hf_reason *reason, bool json)
{
    if (json) {
        write_object("waiting", held->names[index], NULL, reason);
        return;
    }
    write_line(held->where, held->names[index], "waiting", reason);
}

int why_not_had(const struct held *held, int error, int not_now_status, bool json)
{
    struct hf_reason reason = HF_REASON_INIT;
    size_t found = why_find(held, &reason);
    bool known = found < held->count;

    if (json) {
        write_object("not_had", known || held->count == 1 ? held->names[known ? found : 0] : NULL,
                     hf_strerror(error), known ? &reason : NULL);
    } else if (!known) {
        (void)cli_fail(held->where, held->count == 1 ? held->names[0] : "taking all of the locks",
                       error);
    } else {
        write_line(held->where, held->names[found], hf_strerror(error), &reason);
    }
    return known && reason.kind == HF_WHY_NO_MAJORITY ? CLI_NO_MAJORITY : not_now_status;
}

void why_no_agent(const struct held *held, int status, const char *sentence)
{
    struct hf_reason reason = HF_REASON_INIT;
    bool silent = status == CLI_NO_AGENT;

    reason.kind = HF_WHY_NO_AGENT;
    reason.pid = -1;
    reason.uid = -1;
    reason.since_ns = -1;
    reason.closed_ns = -1;
    snprintf(reason.text, sizeof(reason.text), "%s", sentence);
    write_object("not_had", held->count == 1 ? held->names[0] : NULL,
                 silent ? hf_strerror(HF_ENOAGENT) : sentence, silent ? &reason : NULL);
}

void why_lost(const struct held *held, size_t index, const char *so, bool json)
{
    struct hf_reason reason = HF_REASON_INIT;
    /* While a hold does not count, hf_why() finds the reason without the agent. If the hold counted
     * again, hf_why() would ask the agent, and CMD's end must not wait for an answer. */
    bool known = hf_remaining_ns(held->locks[index]) <= 0 &&
                 hf_why(held->locks[index], &reason) == 0 && reason.kind >= HF_WHY_BROKEN;
    struct line line;

    if (json) {
        write_object("lost", held->names[index], NULL, known ? &reason : NULL);
        return;
    }
    line_begin(&line, stderr);
    fprintf(line.out, "holdfast %s: the hold of ", held->where);
    (void)text_write_clean(line.out, held->names[index], 0);
    fputs(" ended", line.out);
    if (known) {
        fputs(": ", line.out);
        (void)text_write_clean(line.out, reason.text, 0);
    }
    fputs(so, line.out);
    (void)text_write_clean(line.out, asked_text(), 0);
    line_end(&line);
}
