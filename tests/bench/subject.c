/*
 * One client and one lock, used as an ordinary program uses them: hf_acquire() fills in the hold,
 * because a program needs the token in the hold, and every result is checked.
 */
#include "subject.h"

#include <string.h>

int subject_open(struct subject *subject, const char *socket, const char *name, enum hf_mode mode,
                 uint32_t flags)
{
    *subject = (struct subject){.mode = mode};
    struct hf_options options = {.size = sizeof(options), .socket = socket};
    int error = hf_connect(&options, &subject->client);
    if (error != 0) {
        return complain("connecting to %s: %s", socket, hf_strerror(error));
    }
    struct hf_lock_options lock_options = {.size = sizeof(lock_options), .flags = flags};
    error = hf_open(subject->client, name, &lock_options, &subject->lock);
    if (error != 0) {
        return complain("opening %s: %s", name, hf_strerror(error));
    }
    return 0;
}

void subject_close(struct subject *subject)
{
    hf_close(subject->lock);
    hf_disconnect(subject->client);
    *subject = (struct subject){0};
}

int subject_acquire(struct subject *subject)
{
    struct hf_hold hold;
    int error = hf_acquire(subject->lock, subject->mode, -1, &hold);
    return error == 0 ? 0 : complain("acquiring: %s", hf_strerror(error));
}

int subject_release(struct subject *subject)
{
    int error = hf_release(subject->lock);
    return error == 0 ? 0 : complain("releasing: %s", hf_strerror(error));
}

int subject_repeat(void *arg, uint64_t times)
{
    struct subject *subject = arg;
    for (uint64_t i = 0; i < times; i++) {
        if (subject_acquire(subject) != 0 || subject_release(subject) != 0) {
            return -1;
        }
    }
    return 0;
}
