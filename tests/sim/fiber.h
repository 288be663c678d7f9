/*
 * Fibers in virtual time, which is the simulated world's true time. Each process and each agent is
 * a fiber.
 *
 * One fiber runs at a time. It lets others run at sim_point() (before each atomic operation of the
 * lock word's protocol and of the host core), when it sleeps, and when it waits. The scheduler
 * picks the next fiber at random from the seed. A killed fiber never runs again, so its work stays
 * half done, as after kill -9. Time advances a little with each switch, and to the next deadline
 * when no fiber can run.
 */
#ifndef SIM_FIBER_H
#define SIM_FIBER_H

#include <setjmp.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <ucontext.h>

enum fiber_state {
    FIBER_DEAD = 0,
    FIBER_READY,
    FIBER_ASLEEP, /* sleeps on a futex, until wake_ns at the latest */
    FIBER_WAITING /* waits for fiber_tell(), until wake_ns at the latest */
};

enum { FIBER_STACK = 256 * 1024 };

struct fiber {
    ucontext_t context; /* the context with which the fiber begins */
    jmp_buf here;       /* the place where the fiber goes on when it runs again */
    void *stack;
    enum fiber_state state;
    bool begins;  /* the fiber has not run since its start */
    bool stopped; /* the fiber is stopped, as by SIGSTOP, until resumes_ns */
    bool told;    /* fiber_tell() was called since the fiber last waited */
    int64_t resumes_ns;
    int64_t wake_ns;
    int64_t asleep_ns; /* the time at which the fiber fell asleep */
    const void *futex;
    void (*run)(void *arg);
    void *arg;
    void *sanitizer; /* AddressSanitizer's data of the stack */
};

/* Resets the scheduler's state. There is one scheduler, because the program has only one thread. */
void fibers_reset(uint64_t seed, uint32_t burst_max, int64_t step_ns_max);
uint64_t sim_random(void);
/* Returns a random number below limit. */
uint32_t sim_draw(uint32_t limit);
/* Returns true once in `in` times on average; 0: never. */
bool sim_chance(uint32_t in);
int64_t sim_now(void);

/* Starts a fiber. Its stack is made at the first start, and later starts use it again. */
void fiber_start(struct fiber *fiber, void (*run)(void *arg), void *arg);
void fiber_kill(struct fiber *fiber);
void fiber_free(struct fiber *fiber);
struct fiber *fiber_current(void);

/* The current fiber makes these calls. */
void sim_point(void);
void fiber_wait(int64_t until_ns);
void fiber_sleep_ns(int64_t duration_ns);
void fiber_futex_sleep(_Atomic uint32_t *word, uint32_t expected, int64_t timeout_ns);
/* Ends the current fiber for good. */
__attribute__((noreturn)) void fiber_exit(void);

/* Ends the fiber's present wait. If the fiber is ready to run, its next wait ends at once. A fiber
 * that sleeps on a futex sleeps on. */
void fiber_tell(struct fiber *fiber);
/* Ends the fiber's present wait by at_ns at the latest. */
void fiber_wake_by(struct fiber *fiber, int64_t at_ns);
/* Wakes a fiber that sleeps on a futex, without a wake of the futex. */
void fiber_disturb(struct fiber *fiber);
void fiber_futex_wake(struct fiber *const *all, uint32_t count, const _Atomic uint32_t *word,
                      int sleepers);
void fiber_stop(struct fiber *fiber, int64_t duration_ns);

/* Runs one of the fibers for a while. If none can run now, advances the time until one can. If none
 * can run before limit_ns, sets the time to limit_ns and returns false. */
bool fibers_step(struct fiber *const *all, uint32_t count, int64_t limit_ns);
/* Returns whether any fiber can run now. */
bool fibers_runnable(struct fiber *const *all, uint32_t count);

#endif
