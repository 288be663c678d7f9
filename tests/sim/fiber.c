/*
 * Fibers in virtual time: see fiber.h.
 *
 * A fiber begins on its stack by setcontext(). Later it is entered and left by _setjmp() and
 * _longjmp(), because they make no system call. swapcontext() makes two, for the signal mask, and
 * makes AddressSanitizer clear a whole stack each time.
 */
#undef _FORTIFY_SOURCE /* otherwise longjmp() may report a jump to another stack as an error */
#include "fiber.h"

#include <stdlib.h>

#include "proto/check.h"

#if defined(__SANITIZE_ADDRESS__)
#define WITH_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define WITH_ASAN 1
#endif
#endif
#ifdef WITH_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

static struct {
    uint64_t random;
    uint32_t burst_max;
    int64_t step_ns_max;
    int64_t now_ns;
    uint32_t burst;
    struct fiber *current;
    jmp_buf scheduler;
    void *sanitizer;
    const void *stack;
    size_t stack_size;
} all;

static uint64_t mix(uint64_t *state)
{
    *state += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t value = *state;
    value = (value ^ value >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    value = (value ^ value >> 27) * UINT64_C(0x94d049bb133111eb);
    return value ^ value >> 31;
}

void fibers_reset(uint64_t seed, uint32_t burst_max, int64_t step_ns_max)
{
    all.random = seed;
    all.burst_max = burst_max;
    all.step_ns_max = step_ns_max;
    all.now_ns = INT64_C(1000000000);
    all.current = NULL;
}

uint64_t sim_random(void)
{
    return mix(&all.random);
}

uint32_t sim_draw(uint32_t limit)
{
    return (uint32_t)(sim_random() >> 32) % limit;
}

bool sim_chance(uint32_t in)
{
    return in != 0 && sim_draw(in) == 0;
}

int64_t sim_now(void)
{
    return all.now_ns;
}

struct fiber *fiber_current(void)
{
    return all.current;
}

static void to_scheduler(struct fiber *fiber)
{
#ifdef WITH_ASAN
    __sanitizer_start_switch_fiber(&fiber->sanitizer, all.stack, all.stack_size);
#endif
    if (_setjmp(fiber->here) == 0) {
        _longjmp(all.scheduler, 1);
    }
#ifdef WITH_ASAN
    __sanitizer_finish_switch_fiber(fiber->sanitizer, &all.stack, &all.stack_size);
#endif
}

static void to_fiber(struct fiber *fiber)
{
    all.current = fiber;
    all.burst = sim_draw(all.burst_max);
#ifdef WITH_ASAN
    __sanitizer_start_switch_fiber(&all.sanitizer, fiber->stack, FIBER_STACK);
#endif
    if (_setjmp(all.scheduler) == 0) {
        if (fiber->begins) {
            (void)setcontext(&fiber->context);
            abort(); /* setcontext() does not return */
        }
        _longjmp(fiber->here, 1);
    }
#ifdef WITH_ASAN
    __sanitizer_finish_switch_fiber(all.sanitizer, NULL, NULL);
#endif
    all.current = NULL;
}

static void enter(void)
{
    struct fiber *fiber = all.current;
    fiber->begins = false;
#ifdef WITH_ASAN
    __sanitizer_finish_switch_fiber(NULL, &all.stack, &all.stack_size);
#endif
    fiber->run(fiber->arg);
    fiber_exit();
}

void fiber_start(struct fiber *fiber, void (*run)(void *arg), void *arg)
{
    if (fiber->stack == NULL) {
        fiber->stack = malloc(FIBER_STACK);
        HF_CHECK(fiber->stack != NULL);
    }
#ifdef WITH_ASAN
    __asan_unpoison_memory_region(fiber->stack, FIBER_STACK); /* the fiber that last had this stack
                                                               * may have been killed in the middle
                                                               * of a call */
#endif
    HF_CHECK(getcontext(&fiber->context) == 0);
    fiber->context.uc_stack.ss_sp = fiber->stack;
    fiber->context.uc_stack.ss_size = FIBER_STACK;
    fiber->context.uc_link = NULL;
    fiber->begins = true;
    fiber->run = run;
    fiber->arg = arg;
    fiber->stopped = false;
    fiber->told = false;
    fiber->sanitizer = NULL;
    fiber->state = FIBER_READY;
    makecontext(&fiber->context, enter, 0);
}

void fiber_kill(struct fiber *fiber)
{
    HF_CHECK(fiber != all.current);
    fiber->state = FIBER_DEAD;
}

void fiber_free(struct fiber *fiber)
{
    free(fiber->stack);
    *fiber = (struct fiber){0};
}

void fiber_exit(void)
{
    all.current->state = FIBER_DEAD;
    to_scheduler(all.current);
    abort(); /* a dead fiber must not run again */
}

void sim_point(void)
{
    if (all.current == NULL) {
        return;
    }
    if (all.burst > 0) {
        all.burst--;
        return;
    }
    to_scheduler(all.current);
}

void fiber_wait(int64_t until_ns)
{
    all.current->state = all.current->told ? FIBER_READY : FIBER_WAITING;
    all.current->wake_ns = until_ns;
    all.current->told = false;
    to_scheduler(all.current);
}

void fiber_sleep_ns(int64_t duration_ns)
{
    int64_t until_ns = all.now_ns + duration_ns;
    while (all.now_ns < until_ns) { /* a fiber that is woken early sleeps again */
        fiber_wait(until_ns);
    }
}

void fiber_futex_sleep(_Atomic uint32_t *word, uint32_t expected, int64_t timeout_ns)
{
    sim_point();
    if (atomic_load(word) != expected || timeout_ns == 0) {
        return;
    }
    struct fiber *fiber = all.current;
    fiber->futex = word;
    fiber->wake_ns = timeout_ns < 0 || timeout_ns > INT64_MAX - all.now_ns
                         ? INT64_MAX
                         : all.now_ns + timeout_ns;
    fiber->state = FIBER_ASLEEP;
    fiber->asleep_ns = all.now_ns;
    to_scheduler(fiber);
    fiber->futex = NULL;
}

void fiber_tell(struct fiber *fiber)
{
    if (fiber->state == FIBER_WAITING) {
        fiber->state = FIBER_READY;
    } else if (fiber->state == FIBER_READY) {
        fiber->told = true;
    }
}

void fiber_wake_by(struct fiber *fiber, int64_t at_ns)
{
    if (fiber->state == FIBER_WAITING && fiber->wake_ns > at_ns) {
        fiber->wake_ns = at_ns;
    }
}

void fiber_disturb(struct fiber *fiber)
{
    if (fiber->state == FIBER_ASLEEP) {
        fiber->state = FIBER_READY;
    }
}

void fiber_futex_wake(struct fiber *const *fibers, uint32_t count, const _Atomic uint32_t *word,
                      int sleepers)
{
    uint32_t first = sim_draw(count);
    for (uint32_t i = 0; i < count && sleepers > 0; i++) {
        struct fiber *fiber = fibers[(first + i) % count];
        if (fiber->state == FIBER_ASLEEP && fiber->futex == word) {
            fiber->state = FIBER_READY;
            sleepers--;
        }
    }
}

void fiber_stop(struct fiber *fiber, int64_t duration_ns)
{
    int64_t resumes_ns = all.now_ns + duration_ns;
    fiber->resumes_ns = fiber->stopped && fiber->resumes_ns > resumes_ns ? fiber->resumes_ns
                                                                         : resumes_ns;
    fiber->stopped = true;
}

/* Returns the time from which the fiber can run. INT64_MAX: it cannot run until an event. */
static int64_t ready_at(const struct fiber *fiber)
{
    int64_t at_ns = INT64_MAX;
    if (fiber->state == FIBER_READY) {
        at_ns = all.now_ns;
    } else if (fiber->state != FIBER_DEAD) {
        at_ns = fiber->wake_ns;
    }
    return fiber->stopped && fiber->resumes_ns > at_ns ? fiber->resumes_ns : at_ns;
}

bool fibers_runnable(struct fiber *const *fibers, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (ready_at(fibers[i]) <= all.now_ns) {
            return true;
        }
    }
    return false;
}

bool fibers_step(struct fiber *const *fibers, uint32_t count, int64_t limit_ns)
{
    int64_t soonest_ns = INT64_MAX;
    uint32_t ready = 0;
    struct fiber *chosen = NULL;
    for (uint32_t i = 0; i < count; i++) {
        int64_t at_ns = ready_at(fibers[i]);
        soonest_ns = at_ns < soonest_ns ? at_ns : soonest_ns;
        if (at_ns <= all.now_ns && sim_draw(++ready) == 0) {
            chosen = fibers[i];
        }
    }
    if (chosen == NULL) {
        all.now_ns = soonest_ns < limit_ns ? soonest_ns : limit_ns;
        return soonest_ns < limit_ns;
    }
    chosen->stopped = false;
    chosen->state = FIBER_READY;
    to_fiber(chosen);
    all.now_ns += (int64_t)(sim_random() % (uint64_t)all.step_ns_max);
    return true;
}
