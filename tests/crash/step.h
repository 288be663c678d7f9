/*
 * Stops a process after one instruction of its own, by ptrace, so that a test can kill it there.
 *
 * A kill point is (pc, visit): the moment before the visit-th execution of the instruction at pc,
 * which is the moment after the instruction executed before it. Points lie in the program's own
 * text (the test, libholdfast and proto/ are linked into it); what libc does between two of them
 * is covered by the return from it: "after each system call". A first run of the victim, single-
 * stepped from step_begin() to step_end(), finds the points. Later runs go to their point at full
 * speed, by a breakpoint, or step by step if the victim has other threads, which a breakpoint
 * would hit too.
 */
#ifndef TESTS_CRASH_STEP_H
#define TESTS_CRASH_STEP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct step_point {
    uint64_t pc; /* 0: asleep on a futex */
    uint32_t visit;
};

struct step_points {
    struct step_point *items;
    size_t count;
    uint64_t instructions; /* executed by the victim, all text */
    uint64_t own;          /* of those in its own text */
};

struct step_plan {
    /* Called once, in the tracer, when the victim sleeps on a futex: makes it go on. May be NULL. */
    void (*asleep)(void *arg);
    void *arg;
    bool threaded;            /* single-step, set no breakpoints */
    unsigned visits_per_call; /* keep at most so many visits of an instruction in one activation of
                                 its function; 0: all */
};

/* In the victim: lets its parent trace it; the ends of what is stepped. */
void step_traced(void);
void step_begin(void);
void step_end(void);

/* Waits until the victim stands at step_begin(). */
void step_await_begin(pid_t pid);

/* Steps the victim from begin to end and finds its points. It then stands at the end. */
void step_find(pid_t pid, const struct step_plan *plan, struct step_points *points);

/* Lets the victim run to the point. It then stands there, or, if it did not come by, at the end.
 * *asleep_called: whether plan->asleep was. false: it did not come by. */
bool step_to(pid_t pid, const struct step_plan *plan, struct step_point point,
             bool *asleep_called);

/* Of a point: its distance from the start of the program's image, for addr2line. */
uint64_t step_offset(struct step_point point);

#endif
