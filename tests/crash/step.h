/*
 * Stops a process after one instruction of its own, by ptrace, so that a test can kill it there.
 *
 * A kill point is (pc, visit): the moment before the visit-th execution of the instruction at pc,
 * which is the moment after the instruction executed before it. Points lie in the program's own
 * text (the test, libholdfast and proto/ are linked into it); steps of libc between two of them are
 * covered by the return from it: "after each system call". A first run of the victim, single-
 * stepped from step_begin() to step_end(), finds the points. Later runs go to their point at full
 * speed, by a breakpoint: one of the processor's own, which are a thread's, if the victim has other
 * threads, which one in its text would stop too; step by step if there are none.
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
    /* Called once, in the tracer, when the victim sleeps on a futex: makes it go on. Or NULL. */
    void (*asleep)(void *arg);
    void *arg;
    bool threaded;            /* set no breakpoints in its text */
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
bool step_to(pid_t pid, const struct step_plan *plan, struct step_point point, bool *asleep_called);

/*
 * The same for a process that was not made for it, an agent: it is seized where it sleeps, its own
 * text is that of its program file, and what is stepped ends when it goes to sleep again.
 */
struct step_image {
    pid_t pid;
    uint64_t first; /* of its own text */
    uint64_t limit;
};

/* Seizes the process (which waits for events in epoll) and stops it. */
void step_seize(pid_t pid, const char *program, struct step_image *image);

/* Lets it run on; call it, then make happen what it is to handle. */
void step_resume(const struct step_image *image);

/* Steps it from the next event that it gets to where it waits for one without a time-out of 0, and
 * finds its points: each instruction of its own text, the first time in an activation of its
 * function. pc counts from image->first. Afterwards it runs freely, still seized. */
void step_find_event(const struct step_image *image, void (*event)(void *arg), void *arg,
                     struct step_points *points);

/* Stops it at the point of what it does about the event. false: it did not come by within
 * patience_ms, or as long as it was at work, and runs freely. */
bool step_event_to(const struct step_image *image, struct step_point point,
                   void (*event)(void *arg), void *arg, int64_t patience_ms);

/* Of a point: its distance from the start of the program's image, for addr2line. */
uint64_t step_offset(struct step_point point);

#endif
