/*
 * A program as users wrote it for an earlier holdfast.h, which had no admin.h, no reserved words
 * and no HF_..._INIT. program.sh compiles it unchanged, so do not bring it up to date. It uses
 * every call and struct of that header, except those for listing.
 */
#include <holdfast/holdfast.h>

#include <stdio.h>
#include <string.h>

static int told(const char *what, int error)
{
    if (error != 0) {
        fprintf(stderr, "%s: %s (%d)\n", what, hf_strerror(error), error);
    }
    return error;
}

static int hear(hf_client *client)
{
    struct hf_event event;
    int got;
    while ((got = hf_next_event(client, &event)) == 1) {
        switch (event.kind) {
        case HF_EVENT_GRANTED:
        case HF_EVENT_SAFE:
        case HF_EVENT_JEOPARDY:
        case HF_EVENT_LOST:
            printf("%s %d %llu\n", event.name, event.lock != NULL, (unsigned long long)event.token);
            break;
        case HF_EVENT_CHANGED:
            printf("%.255s\n", event.name);
            break;
        }
    }
    return got;
}

static int take(hf_client *client, hf_lock *lock)
{
    struct hf_hold unset;
    struct hf_hold zero = {0};
    struct hf_hold token = {.token = 1};
    char sequencer[HF_SEQUENCER_MAX];
    int error = hf_acquire(lock, HF_EXCLUSIVE, -1, &unset);
    if (error == 0 && hf_remaining_ns(lock) <= 0) {
        error = HF_ELOST;
    }
    if (error == 0) {
        error = hf_sequencer(lock, sequencer, sizeof(sequencer));
    }
    if (error == 0) {
        error = hf_check_sequencer(client, sequencer);
    }
    if (error == 0) {
        error = hf_check_sequencer_local(client, sequencer);
    }
    if (error == 0) {
        error = hf_progress(lock);
    }
    if (error == 0) {
        error = hf_downgrade(lock);
    }
    if (error == 0) {
        error = hf_release(lock);
    }
    if (error == 0) {
        error = hf_acquire(lock, HF_SHARED, 0, &zero);
    }
    if (error == 0) {
        error = hf_release(lock);
    }
    if (error == 0) {
        error = hf_acquire_all(&lock, 1, HF_EXCLUSIVE, 1000000000, &token);
    }
    printf("%llu %lld\n", (unsigned long long)token.token, (long long)token.deadline_ns);
    return error;
}

int main(int argc, char **argv)
{
    struct hf_options options = {.size = sizeof(options), .connect_timeout_ns = 1000000000};
    struct hf_options set_later;
    const struct hf_lock_options in_order = {
        sizeof(in_order), HF_REENTRANT | HF_BARGING, 1, -1, 0, 0};
    hf_client *client = NULL;
    hf_lock *lock = NULL;
    hf_lock *other = NULL;
    memset(&set_later, 0, sizeof(set_later));
    set_later.size = sizeof(set_later);
    set_later.socket = argc > 1 ? argv[1] : NULL;
    printf("%s\n", hf_version());
    int error = told("connect", hf_connect(argc > 1 ? &set_later : &options, &client));
    if (error == 0) {
        error = told("open", hf_open(client, "of/before", NULL, &lock));
    }
    if (error == 0) {
        error = told("open", hf_open(client, "of/others", &in_order, &other));
    }
    if (error == 0) {
        error = told("watch", hf_watch(client, ""));
    }
    if (error == 0 && hf_event_fd(client) < 0) {
        error = HF_ENOMEM;
    }
    if (error == 0) {
        error = told("take", take(client, lock));
    }
    if (error == 0) {
        error = told("events", hear(client));
    }
    if (other != NULL) {
        error = hf_cancel(other);
        hf_close(other);
    }
    hf_disconnect(client);
    return error == 0 ? 0 : error == HF_ENOAGENT ? 69 : 70;
}
