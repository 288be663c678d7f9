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
    uint64_t own;          /* those of them in its own text */
};

struct step_plan {
    /* Called once, in the tracer, when the victim sleeps on a futex; makes the victim go on. May be
     * NULL. */
    void (*asleep)(void *arg);
    void *arg;
    bool threaded;            /* set no breakpoints in the victim's text */
    unsigned visits_per_call; /* keep at most this many visits of an instruction for each call of
                               * its function; 0: all */
};

/* For the victim: step_begin() lets its parent trace it; both calls mark what is stepped. */
void step_traced(void);
void step_begin(void);
void step_end(void);

/* Waits until the victim stands at step_begin(). */
void step_await_begin(pid_t pid);

/* Steps the victim from step_begin() to step_end() and finds its points. Afterwards the victim
 * stands at step_end(). */
void step_find(pid_t pid, const struct step_plan *plan, struct step_points *points);

/* Lets the victim run to the point and stops it there. Returns false if the victim did not reach
 * the point; then it stands at step_end(). *asleep_called: whether plan->asleep was called. */
bool step_to(pid_t pid, const struct step_plan *plan, struct step_point point, bool *asleep_called);

/*
 * The same for an agent, a process that was not written to be stepped. The agent is seized while it
 * sleeps. Its own text is the text of its program file. The stepping ends when the agent goes to
 * sleep again.
 */
struct step_image {
    pid_t pid;
    uint64_t first; /* start of its own text */
    uint64_t limit;
};

/* Seizes the process (which waits for events in epoll) and stops it. */
void step_seize(pid_t pid, const char *program, struct step_image *image);

/* Lets the agent run. Call this first, then cause the event that the agent is to handle. */
void step_resume(const struct step_image *image);

/* Steps the agent from its next event until it waits for events with a timeout other than 0, and
 * finds its points: each instruction of its own text, the first time in each call of its function.
 * pc counts from image->first. Afterwards the agent runs freely and stays seized. */
void step_find_event(const struct step_image *image, void (*event)(void *arg), void *arg,
                     struct step_points *points);

/* Stops the agent at a point of its handling of the event. Returns false if the agent did not reach
 * the point within patience_ms, or before it finished the event; then it runs freely. */
bool step_event_to(const struct step_image *image, struct step_point point,
                   void (*event)(void *arg), void *arg, int64_t patience_ms);

/* Returns a point's distance from the start of the program's image, for addr2line. */
uint64_t step_offset(struct step_point point);

#endif
