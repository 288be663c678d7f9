/*
 * Stops a process between two of its instructions, by ptrace, so that a test can kill it at this
 * point.
 *
 * A kill point is (pc, visit): the time before the visit-th execution of the instruction at pc, and
 * so after the previous instruction. Points lie in the program's own text, into which libholdfast
 * and proto/ are linked. Steps within libc have no points of their own. The point at the return
 * from libc covers them ("after each system call").
 *
 * A first run single-steps the victim from step_begin() to step_end() and finds the points. Later
 * runs go to their point at full speed, by a breakpoint. If the victim has other threads, a
 * breakpoint in its text would stop those threads, too. For such a victim the test uses a debug
 * register of the processor, which belongs to one thread. If the kernel offers no debug register,
 * the test single-steps.
 */
#ifndef TESTS_CRASH_STEP_H
#define TESTS_CRASH_STEP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct step_point {
    uint64_t pc; /* 0: the point at which the victim sleeps on a futex */
    uint32_t visit;
};

struct step_points {
    struct step_point *items;
    size_t count;
    uint64_t instructions; /* how many instructions the victim executed */
    uint64_t own;          /* how many of these instructions are in the victim's own text */
};

struct step_plan {
    /* The tracer calls this function once, when the victim sleeps on a futex. The function must
     * make the victim go on. NULL: there is no such function. */
    void (*asleep)(void *arg);
    void *arg;
    bool threaded;            /* the victim has other threads, so its text must have no
                               * breakpoints */
    unsigned visits_per_call; /* how many visits of an instruction are kept for each call of its
                               * function; 0: all */
};

/* Calls of the victim. step_traced() lets its parent trace it. step_begin() and step_end() mark the
 * stepped part. */
void step_traced(void);
void step_begin(void);
void step_end(void);

/* Waits until the victim has stopped at step_begin(). */
void step_await_begin(pid_t pid);

/* Steps the victim from step_begin() to step_end() and finds its points. Afterwards the victim is
 * stopped at step_end(). */
void step_find(pid_t pid, const struct step_plan *plan, struct step_points *points);

/* Returns whether this machine's debug registers stop a thread at an address. On some virtual
 * machines they do nothing. Then a victim with several threads cannot be stopped at a point. */
bool step_watches(void);

/* Lets the victim run to the point and stops it there. Returns false if the victim did not reach
 * the point, and so is stopped at step_end(). *asleep_called tells whether plan->asleep was
 * called. */
bool step_to(pid_t pid, const struct step_plan *plan, struct step_point point, bool *asleep_called);

/*
 * The functions below step an agent, a program that has no calls for stepping. The test seizes the
 * agent while it sleeps. The agent's own text is the text of its program file. The stepping ends
 * when the agent sleeps again.
 */
struct step_image {
    pid_t pid;
    uint64_t first; /* the start of its own text */
    uint64_t limit;
};

/* Seizes the process, and stops it when it waits for events in epoll. */
void step_seize(pid_t pid, const char *program, struct step_image *image);

/* Calls `event`, steps the agent from that event until it waits for events with a timeout other
 * than 0, and finds its points: each instruction of its own text, at its first execution in each
 * call of its function. A point's pc is relative to image->first. Afterwards the agent runs and
 * stays seized. */
void step_find_event(const struct step_image *image, void (*event)(void *arg), void *arg,
                     struct step_points *points);

/* Calls `event`, and stops the agent at a point of its handling of the event. Returns false, and
 * lets the agent run, if the agent did not reach the point within patience_ms, or finished the
 * event before. */
bool step_event_to(const struct step_image *image, struct step_point point,
                   void (*event)(void *arg), void *arg, int64_t patience_ms);

/* Returns a point's distance from the start of the program's image, for addr2line. */
uint64_t step_offset(struct step_point point);

#endif
