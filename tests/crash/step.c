/* See step.h: runs a process by single steps, and stops it after one of them. */
#include "step.h"

#include "agent_process.h"
#include "require.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>

extern const char __executable_start[];
extern const char etext[];

enum { SEEN_SLOTS = 1 << 16, OPCODE_SYSCALL = 0x050f, OPCODE_BREAK = 0xcc };

void step_traced(void)
{
    REQUIRE(ptrace(PTRACE_TRACEME, 0, NULL, NULL) == 0, "ptrace: %s", strerror(errno));
}

void step_begin(void)
{
    raise(SIGSTOP);
}

__attribute__((noinline)) void step_end(void)
{
    __asm__ volatile("nop" ::: "memory");
}

static bool is_own(uint64_t pc)
{
    return pc >= (uintptr_t)__executable_start && pc < (uintptr_t)etext;
}

uint64_t step_offset(struct step_point point)
{
    return is_own(point.pc) ? point.pc - (uintptr_t)__executable_start : point.pc;
}

static uint64_t end_pc(void)
{
    return (uintptr_t)step_end;
}

static void get_registers(pid_t pid, struct user_regs_struct *registers)
{
    REQUIRE(ptrace(PTRACE_GETREGS, pid, NULL, registers) == 0, "ptrace: %s", strerror(errno));
}

static long peek(pid_t pid, uint64_t address)
{
    errno = 0;
    long word = ptrace(PTRACE_PEEKTEXT, pid, address, NULL);
    REQUIRE(errno == 0, "ptrace: %s", strerror(errno));
    return word;
}

/* Replaces one byte of the victim's text. Returns the old byte. */
static uint8_t poke(pid_t pid, uint64_t address, uint8_t byte)
{
    long word = peek(pid, address);
    REQUIRE(ptrace(PTRACE_POKETEXT, pid, address, (word & ~0xffL) | byte) == 0, "ptrace: %s",
            strerror(errno));
    return (uint8_t)word;
}

/* Returns the number of the system call in which the traced thread sleeps, or -1 if it does not
 * sleep. */
static int sleeps_in(pid_t pid)
{
    char path[64];
    char text[32] = "";
    int number = -1;
    snprintf(path, sizeof(path), "/proc/%d/syscall", (int)pid);
    FILE *file = fopen(path, "re");
    if (file && fgets(text, sizeof(text), file) && text[0] >= '0' && text[0] <= '9') {
        number = atoi(text); /* if the thread does not sleep, the text is "running" */
    }
    if (file) {
        fclose(file);
    }
    return number;
}

static bool sleeps_on_futex(pid_t pid)
{
    return sleeps_in(pid) == SYS_futex;
}

static bool sleeps_on_events(pid_t pid)
{
    int number = sleeps_in(pid);
    return number == SYS_epoll_wait || number == SYS_epoll_pwait;
}

/* How a wait for the victim ended. */
enum stop { STOPPED, ASLEEP };

/* Waits until the victim stops. If tell_sleep is set, also returns when the victim sleeps on a
 * futex. */
static enum stop await_stop(pid_t pid, bool tell_sleep)
{
    int64_t end_ns = boottime_now() + GUARD_MS * MS;
    unsigned asleep = 0;
    for (unsigned looks = 0;; looks++) {
        int status = 0;
        pid_t got = waitpid(pid, &status, WNOHANG | __WALL);
        REQUIRE(got >= 0, "waitpid: %s", strerror(errno));
        if (got == pid) {
            REQUIRE(WIFSTOPPED(status) && WSTOPSIG(status) == SIGTRAP,
                    "the victim stopped or ended with status %x", (unsigned)status);
            return STOPPED;
        }
        if (looks < 20) {
            sched_yield();
            continue;
        }
        struct timespec rest = {.tv_nsec = 50 * 1000};
        nanosleep(&rest, NULL);
        asleep = tell_sleep && sleeps_on_futex(pid) ? asleep + 1 : 0;
        if (asleep >= 3) {
            return ASLEEP;
        }
        REQUIRE(boottime_now() < end_ns, "the victim is stuck");
    }
}

/* Continues the victim with the ptrace request `how`, and waits until it stops. If it sleeps on a
 * futex, plan->asleep makes it go on. */
static void run_on(pid_t pid, enum __ptrace_request how, const struct step_plan *plan,
                   bool *asleep_called)
{
    REQUIRE(ptrace(how, pid, NULL, NULL) == 0, "ptrace: %s", strerror(errno));
    if (await_stop(pid, plan->asleep && !*asleep_called) == ASLEEP) {
        *asleep_called = true;
        plan->asleep(plan->arg);
        await_stop(pid, false);
    }
}

/* Executes one instruction. If that is a futex call which sleeps, plan->asleep makes the victim go
 * on. */
static void step_once(pid_t pid, const struct user_regs_struct *registers,
                      const struct step_plan *plan, bool *asleep_called)
{
    if (registers->rax == SYS_futex && (peek(pid, registers->rip) & 0xffff) == OPCODE_SYSCALL) {
        run_on(pid, PTRACE_SINGLESTEP, plan, asleep_called);
        return;
    }
    int status = 0;
    REQUIRE(ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL) == 0, "ptrace: %s", strerror(errno));
    REQUIRE(waitpid(pid, &status, __WALL) == pid && WIFSTOPPED(status) &&
                WSTOPSIG(status) == SIGTRAP,
            "the victim stopped or ended with status %x", (unsigned)status);
}

void step_await_begin(pid_t pid)
{
    int status = 0;
    REQUIRE(waitpid(pid, &status, __WALL) == pid && WIFSTOPPED(status) &&
                WSTOPSIG(status) == SIGSTOP,
            "the victim did not come to its beginning: status %x", (unsigned)status);
    REQUIRE(ptrace(PTRACE_SETOPTIONS, pid, NULL, PTRACE_O_EXITKILL) == 0, "ptrace: %s",
            strerror(errno));
}

/* One counter for each key, in an open hash table that is large enough for the text of any
 * victim. */
struct counts {
    uint64_t keys[SEEN_SLOTS];
    uint32_t values[SEEN_SLOTS];
};

static uint32_t count_up(struct counts *counts, uint64_t key)
{
    uint64_t at = key * UINT64_C(0x9e3779b97f4a7c15) >> 48;
    for (unsigned tries = 0; tries < SEEN_SLOTS; tries++, at = (at + 1) % SEEN_SLOTS) {
        if (counts->keys[at] == 0 || counts->keys[at] == key) {
            counts->keys[at] = key;
            return ++counts->values[at];
        }
    }
    REQUIRE(false, "too many different instructions");
    return 0;
}

static void add_point(struct step_points *points, struct step_point point)
{
    if ((points->count & (points->count - 1)) == 0) {
        size_t room = points->count ? points->count * 2 : 1;
        points->items = realloc(points->items, room * sizeof(*points->items));
        REQUIRE(points->items, "no memory");
    }
    points->items[points->count++] = point;
}

/* what one run has executed so far */
struct seen {
    struct counts visits; /* how often each pc was executed */
    /* the number of executions by pc and stack pointer; the stack pointer identifies one call of
     * the function */
    struct counts calls;
};

/* Counts the instruction at pc, which the victim is about to execute, and adds it to the points. */
static void note_instruction(struct seen *seen, const struct user_regs_struct *registers,
                             uint64_t first, unsigned visits_per_call, struct step_points *points)
{
    uint64_t pc = registers->rip;
    points->own++;
    uint32_t visit = count_up(&seen->visits, pc);
    uint32_t here = count_up(&seen->calls, pc ^ registers->rsp << 20);
    if (visits_per_call == 0 || here <= visits_per_call) {
        add_point(points, (struct step_point){pc - first, visit});
    }
}

void step_find(pid_t pid, const struct step_plan *plan, struct step_points *points)
{
    struct seen *seen = calloc(1, sizeof(*seen));
    struct user_regs_struct registers;
    bool asleep_called = false;
    REQUIRE(seen, "no memory");
    *points = (struct step_points){0};
    get_registers(pid, &registers);
    while (registers.rip != end_pc()) {
        step_once(pid, &registers, plan, &asleep_called);
        get_registers(pid, &registers);
        points->instructions++;
        REQUIRE(points->instructions < 20000000, "the victim does not come to its end");
        if (!is_own(registers.rip)) {
            continue;
        }
        note_instruction(seen, &registers, 0, plan->visits_per_call, points);
    }
    if (asleep_called) {
        add_point(points, (struct step_point){0, 1});
    }
    free(seen);
}

/* Sets the processor's debug registers so that this thread stops before the instructions at two
 * addresses. Other threads do not stop. Returns false if the kernel offers no such registers. */
static bool watch_thread(pid_t pid, uint64_t one, uint64_t other)
{
    enum { BOTH = 1 << 0 | 1 << 2 }; /* enables both for execution; Intel SDM volume 3, 17.2.4 */
    const size_t at = offsetof(struct user, u_debugreg);
    const size_t size = sizeof(((struct user *)NULL)->u_debugreg[0]);
    return ptrace(PTRACE_POKEUSER, pid, at, one) == 0 &&
           ptrace(PTRACE_POKEUSER, pid, at + size, other) == 0 &&
           ptrace(PTRACE_POKEUSER, pid, at + 7 * size, BOTH) == 0;
}

/* The function at which try_watching()'s child has to stop. */
__attribute__((noinline)) static void watched_place(void)
{
    __asm__ volatile("");
}

/* Returns whether a thread stops at an address that watch_thread() sets. Some virtual machines
 * accept the addresses, but no thread ever stops at one. */
static bool try_watching(void)
{
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        (void)ptrace(PTRACE_TRACEME, 0, NULL, NULL);
        (void)raise(SIGSTOP);
        watched_place();
        _exit(0);
    }
    REQUIRE(child > 0 && waitpid(child, &status, 0) == child && WIFSTOPPED(status), "no child");
    uint64_t place = (uint64_t)(uintptr_t)watched_place;
    bool stopped = watch_thread(child, place, place) &&
                   ptrace(PTRACE_CONT, child, NULL, NULL) == 0 &&
                   waitpid(child, &status, 0) == child && WIFSTOPPED(status) &&
                   WSTOPSIG(status) == SIGTRAP;
    if (!WIFEXITED(status)) {
        (void)kill(child, SIGKILL);
        (void)waitpid(child, &status, 0);
    }
    return stopped;
}

bool step_watches(void)
{
    static int works = -1;
    if (works < 0) {
        works = try_watching();
    }
    return works == 1;
}

static bool step_to_watched(pid_t pid, const struct step_plan *plan, struct step_point point,
                            bool *asleep_called)
{
    struct user_regs_struct registers;
    uint32_t visits = 0;
    do { /* ends at the point, or at step_end() */
        run_on(pid, PTRACE_CONT, plan, asleep_called);
        get_registers(pid, &registers);
        REQUIRE(registers.rip == point.pc || registers.rip == end_pc(), "stopped at %llx",
                registers.rip);
        visits += registers.rip == point.pc;
    } while (visits != point.visit && registers.rip != end_pc());
    return visits == point.visit;
}

static bool step_to_slowly(pid_t pid, const struct step_plan *plan, struct step_point point,
                           bool *asleep_called)
{
    struct user_regs_struct registers;
    uint32_t visits = 0;
    get_registers(pid, &registers);
    while (registers.rip != end_pc()) {
        step_once(pid, &registers, plan, asleep_called);
        get_registers(pid, &registers);
        visits += registers.rip == point.pc;
        if (visits == point.visit) {
            return true;
        }
    }
    return false;
}

/* Runs the victim until it sleeps on a futex for the first time, and stops the sleeping victim.
 * Returns false if it did not sleep. Another process may wake the victim before it is killed, but a
 * stopped victim executes no instruction. */
static bool step_to_sleep(pid_t pid)
{
    int status = 0;
    uint8_t saved = poke(pid, end_pc(), OPCODE_BREAK);
    REQUIRE(ptrace(PTRACE_CONT, pid, NULL, NULL) == 0, "ptrace: %s", strerror(errno));
    if (await_stop(pid, true) == STOPPED) {
        poke(pid, end_pc(), saved);
        return false;
    }
    REQUIRE(tgkill(pid, pid, SIGSTOP) == 0, "tgkill: %s", strerror(errno));
    REQUIRE(waitpid(pid, &status, __WALL) == pid && WIFSTOPPED(status),
            "the victim ended with status %x", (unsigned)status);
    return WSTOPSIG(status) == SIGSTOP; /* false: the futex's timeout woke the victim, which ran
                                         * to step_end() */
}

bool step_to(pid_t pid, const struct step_plan *plan, struct step_point point, bool *asleep_called)
{
    struct user_regs_struct registers;
    uint32_t visits = 0;
    *asleep_called = false;
    if (point.pc == 0) {
        return step_to_sleep(pid);
    }
    if (plan->threaded && step_watches() && watch_thread(pid, point.pc, end_pc())) {
        return step_to_watched(pid, plan, point, asleep_called);
    }
    if (plan->threaded) {
        return step_to_slowly(pid, plan, point, asleep_called);
    }
    poke(pid, end_pc(), OPCODE_BREAK);
    uint8_t saved = poke(pid, point.pc, OPCODE_BREAK);
    for (;;) { /* ends at the point, or at step_end() */
        run_on(pid, PTRACE_CONT, plan, asleep_called);
        get_registers(pid, &registers);
        if (registers.rip == end_pc() + 1) {
            return point.pc == end_pc();
        }
        REQUIRE(registers.rip == point.pc + 1, "stopped at %llx", registers.rip);
        registers.rip = point.pc;
        REQUIRE(ptrace(PTRACE_SETREGS, pid, NULL, &registers) == 0, "ptrace");
        if (++visits == point.visit) {
            return true;
        }
        poke(pid, point.pc, saved);
        step_once(pid, &registers, plan, asleep_called);
        poke(pid, point.pc, OPCODE_BREAK);
        get_registers(pid, &registers);
    }
}

/* ---- stepping an agent ---- */

/* Returns whether the stopped agent was waiting for events, and no event had come. */
static bool stopped_at_rest(pid_t pid)
{
    struct user_regs_struct registers;
    get_registers(pid, &registers);
    bool waits = registers.orig_rax == SYS_epoll_wait || registers.orig_rax == SYS_epoll_pwait;
    return waits && (int64_t)registers.rax < 0;
}

/* Stops the seized agent while it waits for events. The agent may have woken this process before
 * the end of its turn. An agent that is stopped within that turn would first finish the turn and
 * its next wait. */
static void stop_at_rest(pid_t pid)
{
    int64_t end_ns = boottime_now() + GUARD_MS * MS;
    for (;;) { /* the hang guard bounds the loop */
        int status = 0;
        while (!sleeps_on_events(pid)) {
            REQUIRE(boottime_now() < end_ns, "the agent does not come to rest");
            struct timespec rest = {.tv_nsec = 50 * 1000};
            nanosleep(&rest, NULL);
        }
        REQUIRE(ptrace(PTRACE_INTERRUPT, pid, NULL, NULL) == 0, "ptrace: %s", strerror(errno));
        REQUIRE(waitpid(pid, &status, __WALL) == pid && WIFSTOPPED(status), "status %x",
                (unsigned)status);
        if (stopped_at_rest(pid)) {
            return;
        }
        REQUIRE(ptrace(PTRACE_CONT, pid, NULL, NULL) == 0, "ptrace: %s", strerror(errno));
    }
}

void step_seize(pid_t pid, const char *program, struct step_image *image)
{
    char path[64];
    char line[512];
    *image = (struct step_image){.pid = pid};
    char *real = realpath(program, NULL);
    REQUIRE(real, "%s: %s", program, strerror(errno));
    snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
    FILE *maps = fopen(path, "re");
    while (maps && image->limit == 0 && fgets(line, sizeof(line), maps)) {
        unsigned long first = 0;
        unsigned long limit = 0;
        char flags[8];
        if (strstr(line, real) && sscanf(line, "%lx-%lx %7s", &first, &limit, flags) == 3 &&
            flags[2] == 'x') {
            image->first = first;
            image->limit = limit;
        }
    }
    if (maps) {
        fclose(maps);
    }
    REQUIRE(image->limit != 0, "%s maps no text of %s", path, real);
    free(real);
    REQUIRE(ptrace(PTRACE_SEIZE, pid, NULL, PTRACE_O_EXITKILL) == 0, "ptrace: %s", strerror(errno));
    stop_at_rest(pid);
}

/* Lets the stopped agent run on. */
static void step_resume(const struct step_image *image)
{
    REQUIRE(ptrace(PTRACE_CONT, image->pid, NULL, NULL) == 0, "ptrace: %s", strerror(errno));
}

/* Returns whether the agent's next instruction is a wait for events with a timeout other than 0. */
static bool is_about_to_wait(pid_t pid, const struct user_regs_struct *registers)
{
    bool waits = registers->rax == SYS_epoll_wait || registers->rax == SYS_epoll_pwait;
    return waits && (int)registers->r10 != 0 &&
           (peek(pid, registers->rip) & 0xffff) == OPCODE_SYSCALL;
}

void step_find_event(const struct step_image *image, void (*event)(void *arg), void *arg,
                     struct step_points *points)
{
    struct seen *seen = calloc(1, sizeof(*seen));
    struct user_regs_struct registers;
    REQUIRE(seen, "no memory");
    *points = (struct step_points){0};
    event(arg); /* the agent is stopped, so it will find the whole event when it goes on */
    do {
        int status = 0;
        REQUIRE(ptrace(PTRACE_SINGLESTEP, image->pid, NULL, NULL) == 0, "ptrace: %s",
                strerror(errno));
        REQUIRE(waitpid(image->pid, &status, __WALL) == image->pid && WIFSTOPPED(status),
                "the agent ended with status %x", (unsigned)status);
        get_registers(image->pid, &registers);
        points->instructions++;
        if (registers.rip >= image->first && registers.rip < image->limit) {
            note_instruction(seen, &registers, image->first, 1, points);
        }
        /* The first wait is the wait in which the agent was stopped. It returns at once, and the
         * loop does not end at it. */
    } while (points->own == 0 || !is_about_to_wait(image->pid, &registers));
    free(seen);
    step_resume(image);
}

bool step_event_to(const struct step_image *image, struct step_point point,
                   void (*event)(void *arg), void *arg, int64_t patience_ms)
{
    uint64_t pc = image->first + point.pc;
    /* Breakpoints of the processor are tried first. A breakpoint in the text of a libc stub would
     * also stop other threads of the agent, which nobody traces, and end them. */
    bool watched = watch_thread(image->pid, pc, pc);
    uint8_t saved = watched ? 0 : poke(image->pid, pc, OPCODE_BREAK);
    uint32_t visits = 0;
    event(arg);
    int64_t begin_ns = boottime_now();
    step_resume(image);
    for (;;) { /* the hang guard bounds the loop */
        struct user_regs_struct registers;
        int status = 0;
        if (waitpid(image->pid, &status, WNOHANG | __WALL) != image->pid) {
            int64_t waited_ns = boottime_now() - begin_ns;
            if (waited_ns > patience_ms * MS && sleeps_on_events(image->pid)) {
                return false;
            }
            REQUIRE(waited_ns < GUARD_MS * MS, "the agent does not come to rest");
            struct timespec rest = {.tv_nsec = 50 * 1000};
            nanosleep(&rest, NULL);
            continue;
        }
        REQUIRE(WIFSTOPPED(status) && WSTOPSIG(status) == SIGTRAP, "the agent: status %x",
                (unsigned)status);
        get_registers(image->pid, &registers);
        registers.rip = pc;
        REQUIRE(ptrace(PTRACE_SETREGS, image->pid, NULL, &registers) == 0, "ptrace");
        if (++visits == point.visit) {
            return true;
        }
        if (watched) {
            step_resume(image);
            continue;
        }
        poke(image->pid, pc, saved);
        REQUIRE(ptrace(PTRACE_SINGLESTEP, image->pid, NULL, NULL) == 0, "ptrace");
        REQUIRE(waitpid(image->pid, &status, __WALL) == image->pid && WIFSTOPPED(status),
                "the agent: status %x", (unsigned)status);
        poke(image->pid, pc, OPCODE_BREAK);
        step_resume(image);
    }
}
