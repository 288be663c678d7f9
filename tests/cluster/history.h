/*
 * A log of what many processes did with locks, as it happened, and a check of it afterwards.
 *
 * The log lies in shared memory and only grows. The memory is anonymous, or a file that programs
 * started with exec map, too. Every process appends without a lock; one that is killed in the
 * middle of an append leaves a record that does not count. The check runs when everything has ended
 * and reports what is certainly wrong. It does not report what a late record could explain as well.
 *
 * Certainty rests on when each event is logged:
 *
 *   ATTEMPT    before hf_acquire
 *   ACQUIRED   after hf_acquire returned 0; with token, mode, and the hold's deadline if known
 *   HELD       after hf_remaining_ns said more than 0; with the deadline if known. Optional
 *   RELEASED   just before hf_release
 *   LOST       after a call or an event said so, hf_release's HF_ELOST too
 *   GAVE_UP    after hf_acquire returned an error
 *   KILL_SENT  by the killer just before kill(); pid is the victim's
 *   KILLED     by the process that waited for it, just after waitpid(); pid is the victim's
 *
 * So a hold that ended by a release which found it held lasted at least from ACQUIRED to RELEASED.
 * One that ended with LOST lasted at least to the last HELD. One whose holder was killed lasted at
 * least to KILL_SENT, but not beyond the last deadline that its holder knew (and may have ended
 * any time until KILLED). One that is still there at the end lasted at least to the last HELD.
 *
 * A test in which nothing but its own deadline may take a hold away from a living holder (no break,
 * no max_stall) says so with `firm`: such a hold lasted until the last deadline that its holder
 * knew, or until its holder learned that it is lost. After an exclusive hold that ended in another
 * way than by its release, no other process holds until the lock-delay is over, or until the holder
 * said that it has finished. A release after the deadline gets HF_ELOST, but still frees the lock
 * if the hold was not taken away before. (So a test of lock-delays does not release a lost hold at
 * once.)
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

enum history_mode { HISTORY_EXCLUSIVE = 0, HISTORY_SHARED = 1 }; /* with the values of hf_mode */

struct history_event {
    int64_t time_ns; /* CLOCK_BOOTTIME; 0: history_add reads the clock */
    enum history_kind kind;
    uint32_t pid;  /* a process or a thread: a number that is unique among the living */
    uint32_t lock; /* the test's number of the lock */
    enum history_mode mode;
    uint64_t token;
    int64_t deadline_ns; /* ACQUIRED, HELD: the deadline as far as it is known; 0: not known */
    bool firm;           /* ACQUIRED with a deadline: while its holder lives, only the deadline ends
                          * the hold */
    int64_t delay_ns;    /* ACQUIRED, exclusive: its lock-delay; 0: none, or not checked */
    uint8_t host;        /* printed with each finding */
};

/* The findings of the check. A violation is a defect of the tested code. */
struct history_report {
    size_t overlaps;     /* holds that certainly overlapped and are not both shared */
    size_t token_faults; /* tokens that break the rules of holdfast.h, or were given twice */
    size_t delay_faults; /* holds during the lock-delay after a holder vanished */
    size_t unserved;     /* attempts that neither ended nor whose process died */
    size_t malformed;    /* events that cannot follow each other: a defect of the test */
    size_t dropped;      /* events for which the log had no room: the check is then worthless */
    size_t holds;        /* seen in all */
    size_t exclusive_holds;
    size_t apart;            /* shared holds with a token that no exclusive hold had; not a fault */
    int64_t longest_wait_ns; /* from ATTEMPT to ACQUIRED */
    char first[256];         /* the first finding, as text; "": none */
};

struct history;

/*
 * Makes an empty log with that capacity: in a new file at path, or in memory if path is NULL.
 * Either way children of fork share it. The caller destroys it, and the file stays. Returns NULL,
 * with errno, on failure.
 */
struct history *history_create(const char *path, size_t capacity);

/* Maps the log that another process made at path. NULL with errno. */
struct history *history_attach(const char *path);
void history_destroy(struct history *history);

/* Appends an event; from any process and thread that maps the log. If the log is full, the event is
 * counted and dropped. */
void history_add(struct history *history, struct history_event event);

/* The number of events, including those that a kill cut short. */
size_t history_count(const struct history *history);

/* Checks the log, when no process appends any more. Returns 0 if nothing was found, 1 with the
 * findings in *report, or -1 without memory. */
int history_check(const struct history *history, struct history_report *report)
    __attribute__((warn_unused_result));

#endif
