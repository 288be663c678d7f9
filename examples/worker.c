/*
 * A program with one thread and one poll loop, which waits for several locks at once.
 *
 *     worker SOCKET NAME...
 *
 * It starts to take each of the locks, and goes on with its loop meanwhile: here it reads lines
 * from standard input and answers each one. As soon as it has one of the locks, it does that lock's
 * work, and releases the lock. It ends when it has had each lock once.
 *
 * A program that calls hf_acquire_start() has to read its events: once it is this program's turn to
 * take a lock, the others wait for it.
 */
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <holdfast/holdfast.h>

static void must(int result, const char *what)
{
    if (result < 0) {
        fprintf(stderr, "worker: %s: %s\n", what, hf_error_text(NULL));
        exit(1);
    }
}

/* Reads the events that are there. Returns how many locks this program has had and released. */
static int read_events(hf_client *client)
{
    struct hf_event event;
    int done = 0;
    int got;
    while ((got = hf_next_event(client, &event)) == 1) {
        if (event.kind == HF_EVENT_GRANTED) {
            printf("%s: mine, token %" PRIu64 "\n", event.name, event.token);
            must(hf_release(event.lock), "hf_release");
            done++;
        } else if (event.kind == HF_EVENT_FAILED) {
            fprintf(stderr, "worker: %s: %s\n", event.name, hf_strerror(event.error));
            exit(1);
        }
    }
    must(got, "hf_next_event");
    fflush(stdout);
    return done;
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        fprintf(stderr, "usage: worker SOCKET NAME...\n");
        return 64;
    }
    struct hf_options options = HF_OPTIONS_INIT;
    hf_client *client = NULL;
    options.socket = argv[1];
    must(hf_connect(&options, &client), "hf_connect");
    for (int i = 2; i < argc; i++) {
        hf_lock *lock = NULL;
        must(hf_open(client, argv[i], NULL, &lock), "hf_open");
        must(hf_acquire_start(lock, HF_EXCLUSIVE, HF_FOREVER), "hf_acquire_start");
    }
    struct pollfd polled[2] = {{.fd = hf_event_fd(client), .events = POLLIN},
                               {.fd = STDIN_FILENO, .events = POLLIN}};
    must(polled[0].fd, "hf_event_fd");
    for (int left = argc - 2; left > 0;) {
        char line[256];
        left -= read_events(client);
        if (left == 0 || poll(polled, 2, -1) < 0) {
            break;
        }
        if (polled[1].revents != 0) {
            ssize_t size = read(STDIN_FILENO, line, sizeof(line) - 1);
            if (size <= 0) {
                polled[1].fd = -1; /* the input has ended, and the waits go on */
                continue;
            }
            line[size] = '\0';
            printf("still waiting for %d: %s", left, line);
            fflush(stdout);
        }
    }
    hf_disconnect(client);
    return 0;
}
