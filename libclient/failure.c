/*
 * hf_error_text(): one sentence about a thread's last failed call, with the value that was wrong.
 *
 * Each thread has one text, as it has one errno. A call that fails writes the text of its own
 * thread, so no mutex is needed, and no other thread can replace a text while a program reads it. A
 * call that succeeds writes nothing: the fast path does not come here.
 *
 * A program that tries again and again fails often. So a failed acquire only notes what the text
 * needs (failure_acquire()), and hf_error_text() makes the text from that.
 *
 * A failure of the connection is found far below the call that returns it, perhaps by another
 * thread. trouble_set() keeps its cause in the client, and failure_ask() puts the cause into the
 * text.
 */
#include "client.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* enough for a lock's name, a socket's path and the cause of a failed connection together */
enum { FAILURE_TEXT_MAX = 1024 };

struct last_failure {
    const hf_client *client; /* NULL: the call had no client */
    int64_t client_made_ns;  /* distinguishes this client from a later one at the same address */
    /* 0: the text is made; else acquire_text() makes it from this field and the next three */
    int acquire_error;
    int64_t timeout_ns;
    uint64_t token;
    char name[HFI_NAME_MAX + 1];
    char text[FAILURE_TEXT_MAX];
};

static _Thread_local struct last_failure last;

static void mark(const hf_client *client)
{
    last.client = client;
    last.client_made_ns = client != NULL ? client->made_ns : 0;
    last.acquire_error = 0;
}

/* Writes the text, with a question mark for each control character and each byte that is not UTF-8:
 * paths and texts of the agent are arbitrary bytes, and a program shows the text to people. */
static void clean_copy(const char *from)
{
    size_t size = strlen(from);
    size_t used = 0;
    for (size_t at = 0; at < size;) {
        size_t good = hfi_utf8_size(from + at, size - at);
        size_t step = good > 0 ? good : 1;
        if (used + step >= sizeof(last.text)) {
            break;
        }
        memcpy(last.text + used, good > 0 ? from + at : "?", step);
        used += step;
        at += step;
    }
    last.text[used] = '\0';
}

int failure(const hf_client *client, int error, const char *format, ...)
{
    char text[FAILURE_TEXT_MAX];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    mark(client);
    clean_copy(text);
    return error;
}

int failure_null(const hf_client *client, const char *argument)
{
    return failure(client, HF_EINVAL, "the argument %s is NULL", argument);
}

int failure_forked(const hf_client *client)
{
    return failure(
        client, HF_EFORKED,
        "the client belongs to process %ld, and this process is its forked child; connect "
        "anew",
        (long)client->pid);
}

int failure_name(const hf_client *client, int error, const char *what, const char *name)
{
    size_t at = 0;
    size_t size = strlen(name);
    if (size == 0) {
        return failure(client, error, "the %s is empty, expected 1 to %d bytes", what,
                       HFI_NAME_MAX);
    }
    if (size > HFI_NAME_MAX) {
        return failure(client, error, "the %s has %zu bytes, expected at most %d: %.40s...", what,
                       size, HFI_NAME_MAX, name);
    }
    while (hfi_utf8_size(name + at, size - at) >
           0) { /* the loop ends at the malformed byte, or at the end */
        at += hfi_utf8_size(name + at, size - at);
    }
    return failure(client, error,
                   "the %s \"%s\" is malformed: byte %zu is 0x%02X, expected UTF-8 without control "
                   "characters",
                   what, name, at + 1, (unsigned)(unsigned char)name[at]);
}

int failure_options(const hf_client *client, const char *type, const void *given, size_t first_size)
{
    size_t size;
    memcpy(&size, given, sizeof(size));
    if (size < first_size) {
        return failure(client, HF_EINVAL,
                       "the size in struct %s is %zu, expected sizeof(struct %s), which the macro "
                       "HF_..._INIT sets",
                       type, size, type);
    }
    return failure(client, HF_EINVAL,
                   "struct %s has %zu bytes and sets an option that this library (version %s) does "
                   "not know",
                   type, size, HF_VERSION);
}

/* ---- the connection ---- */

void trouble_set(hf_client *client, int error, const char *format, ...)
{
    va_list arguments;
    pthread_mutex_lock(&client->list_mutex);
    client->trouble.error = error;
    va_start(arguments, format);
    vsnprintf(client->trouble.text, sizeof(client->trouble.text), format, arguments);
    va_end(arguments);
    pthread_mutex_unlock(&client->list_mutex);
}

void trouble_clear(hf_client *client)
{
    pthread_mutex_lock(&client->list_mutex);
    client->trouble.error = 0;
    pthread_mutex_unlock(&client->list_mutex);
}

int trouble_no_memory(hf_client *client)
{
    pthread_mutex_lock(&client->list_mutex);
    if (client->trouble.error == HF_ENOMEM) {
        client->trouble.error = 0;
    }
    pthread_mutex_unlock(&client->list_mutex);
    return HF_ENOMEM;
}

bool trouble_read(hf_client *client, int error, char *out, size_t size)
{
    pthread_mutex_lock(&client->list_mutex);
    bool known = client->trouble.error == error && error != 0;
    if (known) {
        snprintf(out, size, "%s", client->trouble.text);
    }
    pthread_mutex_unlock(&client->list_mutex);
    return known;
}

void failure_forget_client(void)
{
    mark(NULL);
}

int failure_reach(hf_client *client, int error)
{
    char cause[sizeof(client->trouble.text)];
    bool known = trouble_read(client, error, cause, sizeof(cause));
    if (!known) {
        snprintf(cause, sizeof(cause), "%s", hf_strerror(error));
    }
    const char *path = client->path[0] != '\0' ? client->path : "its socket";
    return error == HF_ENOAGENT
               ? failure(client, error, "no agent answers at %s: %s", path, cause)
               : failure(client, error, "no connection to the agent at %s: %s", path, cause);
}

/* Writes the text for an error that the agent itself has answered. */
static int failure_answer(const hf_client *client, int error, const char *action,
                          const char *object)
{
    char full[FULL_TEXT_MAX];
    switch (error) {
    case HF_EACCES:
        return failure(client, error,
                       "the agent's configuration does not allow this user (uid %ld) to %s \"%s\"",
                       (long)geteuid(), action, object);
    case HF_EFULL:
        if (!full_text(full, sizeof(full))) {
            snprintf(full, sizeof(full), "one of its tables is full, and its log may say which");
        }
        return failure(client, error, "the agent has no room to %s \"%s\": %s", action, object,
                       full);
    case HF_EUNSERVED:
        return failure(client, error,
                       "the agent cannot %s \"%s\" now: it has given the namespace up, and may "
                       "serve it again soon",
                       action, object);
    case HF_ETIMEDOUT:
        return failure(client, error, "no answer came in time to the request to %s \"%s\"", action,
                       object);
    default:
        return failure(client, error, "the request to %s \"%s\" failed: %s", action, object,
                       hf_strerror(error));
    }
}

int failure_ask(hf_client *client, int error, const char *action, const char *object)
{
    char cause[sizeof(client->trouble.text)];
    bool broken = error == HF_ENOAGENT || error == HF_EPROTO || error == HF_EVERSION;
    /* the agent refuses a whole connection with some of the errors that a request can have */
    if (broken || trouble_read(client, error, cause, sizeof(cause))) {
        return failure_reach(client, error);
    }
    return failure_answer(client, error, action, object);
}

/* ---- a lock ---- */

int failure_lost(hf_lock *lock)
{
    struct hold_end end;
    struct hold_view view;
    char why[512] = "the reason is not known";
    if (ended_last(lock, &end)) {
        why_end_text(lock, &end, why, sizeof(why));
    }
    unsigned long long token = hold_read(lock, &view) ? (unsigned long long)view.held.token : 0;
    return failure(lock->client, HF_ELOST, "the hold of \"%s\" with token %llu does not count: %s",
                   lock->name, token, why);
}

int failure_unheld(hf_lock *lock)
{
    return failure(lock->client, HF_ENOTHELD, "the handle of \"%s\" holds nothing", lock->name);
}

int failure_mode(const hf_lock *lock, enum hf_mode mode)
{
    return failure(lock->client, HF_EINVAL,
                   "the mode for \"%s\" is %d, expected HF_EXCLUSIVE (0) or HF_SHARED (1)",
                   lock->name, (int)mode);
}

int failure_acquire(hf_lock *lock, int error, int64_t timeout_ns)
{
    struct hold_view view;
    switch (error) {
    case HF_EBUSY:
    case HF_ETIMEDOUT:
    case HF_ECANCELED:
    case HF_EALREADY:
        mark(lock->client);
        last.acquire_error = error;
        last.timeout_ns = timeout_ns;
        last.token = error == HF_EALREADY && hold_read(lock, &view) ? view.held.token : 0;
        memcpy(last.name, lock->name, lock->name_size + 1);
        return error;
    case HF_EDEADLK:
        return failure(lock->client, error,
                       "the upgrade of the hold of \"%s\" would never end: another holder of this "
                       "host waits for the same upgrade, and neither lets go of its shared hold",
                       lock->name);
    case HF_ELOST:
        return failure_lost(lock);
    default:
        return failure_ask(lock->client, error, "take the lock", lock->name);
    }
}

int failure_started(const hf_lock *lock)
{
    return failure(lock->client, HF_EBUSY,
                   "an hf_acquire_start of \"%s\" has not ended on this handle: wait for its "
                   "event, or end it with hf_cancel",
                   lock->name);
}

/* Makes the text from the values that failure_acquire() noted. */
static void acquire_text(void)
{
    switch (last.acquire_error) {
    case HF_EBUSY:
        snprintf(last.text, sizeof(last.text),
                 "the lock \"%s\" cannot be taken now: it is held, awaited or closed, or no "
                 "majority of the voters answered within 1 s (hf_why says which)",
                 last.name);
        break;
    case HF_ETIMEDOUT:
        snprintf(last.text, sizeof(last.text),
                 "the timeout of %" PRId64 ".%03" PRId64 " s was over before the lock \"%s\" was "
                 "free (hf_why says why)",
                 last.timeout_ns / NS_PER_S, last.timeout_ns % NS_PER_S / NS_PER_MS, last.name);
        break;
    case HF_ECANCELED:
        snprintf(last.text, sizeof(last.text), "hf_cancel ended the wait for the lock \"%s\"",
                 last.name);
        break;
    default: /* HF_EALREADY */
        snprintf(last.text, sizeof(last.text),
                 "this handle of \"%s\" holds the lock already, with token %" PRIu64
                 ", and was opened without HF_REENTRANT",
                 last.name, last.token);
        break;
    }
    last.acquire_error = 0;
}

HFI_PUBLIC const char *hf_error_text(const hf_client *client)
{
    if (client != NULL && (last.client != client || last.client_made_ns != client->made_ns)) {
        return "";
    }
    if (last.acquire_error != 0) {
        acquire_text();
    }
    return last.text;
}
