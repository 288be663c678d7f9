/*
 * Declarations that the files of the tests' library share. cli_fake.c lists the settings, and has
 * the calls about locks. cli_fake_admin.c has the calls about the agent and the cell.
 */
#ifndef HOLDFAST_TESTS_CLI_FAKE_H
#define HOLDFAST_TESTS_CLI_FAKE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include <holdfast/admin.h>

enum { LOCKS_MAX = 16 };

struct hf_lock {
    hf_client *client;
    char name[256];
    struct hf_lock_options options;
    bool held;
    bool canceled;
    uint64_t token;
    int64_t end_ns; /* CLOCK_BOOTTIME */
};

struct hf_client {
    const char *socket;
    pthread_mutex_t mutex;
    pthread_cond_t canceled;
    pthread_cond_t moved; /* `asked` or `released` has changed */
    bool asked;           /* hf_why was called */
    bool released;        /* hf_release was called */
    int event_fd;
    int64_t changes;
    int64_t away;
    int64_t lists; /* calls of hf_list */
    bool lost_told;
    uint32_t shakes; /* events of `shaky` that hf_next_event has returned */
    bool pending;    /* the start of locks[0] has not ended */
    int start_error; /* with which it ends; 0: it gets the lock */
    size_t lock_count;
    hf_lock locks[LOCKS_MAX];
};

/* Copies the value of the setting to the buffer, and returns the buffer; NULL: it is not set. */
const char *fake_setting(const char *key, char *buffer, size_t size);
/* Returns the setting's number; 0: it is not set. */
int64_t fake_number(const char *key);
bool fake_is_set(const char *key);
/* Appends a line to the log. */
void fake_log_call(const char *format, ...) __attribute__((format(printf, 1, 2)));
int64_t fake_now_ns(void);

#endif
