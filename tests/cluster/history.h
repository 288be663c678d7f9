/*
 * A log of what many processes do with locks, and a check of that log afterwards.
 *
 * The log lies in shared memory and only grows. The memory is anonymous, or a file that other
 * programs can map, too. Every process appends without a lock. A process that is killed in the
 * middle of an append leaves a record that does not count. The check runs when all processes have
 * ended, and reports what is certainly wrong. It does not report what a late record could explain
 * as well.
 *
 * The check is certain because of the time at which each event is logged:
 *
 *   ATTEMPT    before hf_acquire
 *   ACQUIRED   after hf_acquire returned 0; with token, mode, and the hold's deadline if known
 *   HELD       after hf_remaining_ns returned more than 0; with the deadline if known. Optional
 *   RELEASED   just before hf_release
 *   LOST       after a call or an event reported the loss, also after HF_ELOST of hf_release
 *   GAVE_UP    after hf_acquire returned an error
 *   KILL_SENT  by the killer just before kill(); pid is the victim's
 *   KILLED     by the process that waited for the victim, just after waitpid(); pid is the victim's
 *
 * So this much is certain of each hold:
 *
 *   - The hold still counted at its release: it lasted at least from ACQUIRED to RELEASED.
 *   - It ended with LOST: it lasted at least to the last HELD.
 *   - Its holder was killed: it lasted at least to KILL_SENT, but not beyond the last deadline that
 *     its holder knew. It may have ended any time until KILLED.
 *   - The log does not say that it ended: it lasted at least to the last HELD.
 *
 * A test sets `firm` if only the deadline may take a hold away from a living holder (no break, no
 * max_stall). Such a hold lasted until the last deadline that its holder knew, or until its holder
 * learned of the loss. If an exclusive hold ends in another way than by its release, no other
 * process holds until the lock-delay is over, or until the holder logged that it had finished. A
 * release after the deadline gets HF_ELOST, but it still frees the lock if the lock was not taken
 * away before. So a test of lock-delays must not release a lost hold at once.
 */
#ifndef TESTS_CLUSTER_HISTORY_H
#define TESTS_CLUSTER_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum history_kind {
    HISTORY_ATTEMPT = 1,
    HISTORY_ACQUIRED,
    HISTORY_HELD,
    HISTORY_RELEASED,
    HISTORY_LOST,
    HISTORY_GAVE_UP,
    HISTORY_KILL_SENT,
    HISTORY_KILLED,
};

/* the same values as enum hf_mode */
enum history_mode { HISTORY_EXCLUSIVE = 0, HISTORY_SHARED = 1 };

struct history_event {
    int64_t time_ns; /* CLOCK_BOOTTIME; 0: history_add reads the clock */
    enum history_kind kind;
    uint32_t pid;  /* the number of a process or a thread; no other that lives has this number */
    uint32_t lock; /* the number that the test gave the lock */
    enum history_mode mode;
    uint64_t token;
    int64_t deadline_ns; /* of ACQUIRED and HELD: the deadline that the holder knows; 0: unknown */
    bool firm;           /* of ACQUIRED: while its holder lives, only the deadline ends the hold */
    /* of an exclusive ACQUIRED: the lock-delay of the hold; 0: none, or the test does not check
     * it */
    int64_t delay_ns;
    uint8_t host; /* printed with each finding */
};

/* The findings of the check. Each violation is a defect of the tested code. */
struct history_report {
    size_t overlaps;     /* pairs of holds that certainly overlapped and are not both shared */
    size_t token_faults; /* tokens that break the rules of holdfast.h, or that two exclusive
                          * holds have */
    size_t delay_faults; /* holds that began within the lock-delay of a holder that vanished */
    size_t unserved;     /* attempts without a result, of processes that were not killed */
    size_t malformed;    /* events in an impossible order: a defect of the test */
    size_t dropped;      /* events for which the log had no room; the check then proves nothing */
    size_t holds;        /* how many holds the log has */
    size_t exclusive_holds;
    size_t apart;            /* shared holds whose token no exclusive hold had; this is not a
                              * fault */
    int64_t longest_wait_ns; /* the longest time from an ATTEMPT to its ACQUIRED */
    char first[256];         /* the first finding, as text; "": none */
};

struct history;

/*
 * Makes an empty log with that capacity: in a new file at path, or in anonymous memory if path is
 * NULL. Children of fork share it in both cases. The caller destroys the log; the file stays.
 * Returns NULL, with errno, on failure.
 */
struct history *history_create(const char *path, size_t capacity);

/* Maps the log that another process made at path. Returns NULL, with errno, on failure. */
struct history *history_attach(const char *path);
void history_destroy(struct history *history);

/* Appends an event. Any process and thread that maps the log may call it. If the log is full, the
 * event is counted and dropped. */
void history_add(struct history *history, struct history_event event);

/* Returns the number of events, including those whose append was cut short by a kill. */
size_t history_count(const struct history *history);

/* Checks the log. No process may append at the same time. Returns 0 if nothing was found, 1 with
 * the findings in *report, or -1 if memory is short. */
int history_check(const struct history *history, struct history_report *report)
    __attribute__((warn_unused_result));

#endif
