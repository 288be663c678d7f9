/*
 * Makes a failing run smaller. This file plays variants of the run in child processes, because a
 * failure ends the process. It goes on from each variant that still fails, until nothing more can
 * be left out.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sim.h"

enum { FAILED = 1 };

static void print_faults(const char *option, uint64_t faults)
{
    for (uint32_t i = 0, some = 0; fault_name(i) != NULL; i++) {
        if ((faults >> i & 1) != 0) {
            printf("%s%s", some++ == 0 ? option : ",", fault_name(i));
        }
    }
}

void run_print(const struct run *run)
{
    printf("holdfast-sim --seed %llu --steps %llu", (unsigned long long)run->seed,
           (unsigned long long)run->steps);
    if (run->voters != 0) {
        printf(" --cell %u", run->voters);
    }
    if (run->observers_set && (run->voters != 1 || run->observers != 0)) {
        printf(" --observers %u", run->observers);
    }
    if (run->starved) {
        printf(" --starved");
    }
    if (run->rolling) {
        printf(" --rolling %s", run->rolling_orderly ? "stop" : "kill");
    }
    if (run->processes != 0) {
        printf(" --processes %u", run->processes);
    }
    if (run->locks != 0) {
        printf(" --locks %u", run->locks);
    }
    print_faults(" --off ", run->off);
    print_faults(" --often ", run->often & ~run->off);
    if (broken != BREAK_NOTHING) {
        printf(" --break %s", break_names[broken]);
    }
    printf(" --verbose\n");
}

/* Returns whether that run fails. */
static bool fails(struct run run, uint64_t (*play)(struct run run))
{
    int status = 0;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
        if (null < 0 || dup2(null, STDOUT_FILENO) < 0) {
            _exit(2);
        }
        world.verbose = false;
        (void)play(run);
        _exit(0);
    }
    if (child < 0 || waitpid(child, &status, 0) != child) {
        perror("holdfast-sim");
        exit(2);
    }
    return WIFSIGNALED(status) || WEXITSTATUS(status) == FAILED;
}

static bool keep_if_fails(struct run *run, struct run variant, uint64_t (*play)(struct run run))
{
    if (!fails(variant, play)) {
        return false;
    }
    *run = variant;
    printf("still fails: ");
    run_print(run);
    return true;
}

/* Lowers the number of turns, by smaller and smaller steps, as long as the run still fails. Returns
 * whether it found a lower number. */
static bool fewer_steps(struct run *run, uint64_t (*play)(struct run run))
{
    bool any = false;
    for (uint64_t less = run->steps / 2; less > 0; less /= 2) {
        struct run variant = *run;
        variant.steps = run->steps > less ? run->steps - less : 0;
        any = (variant.steps < run->steps && keep_if_fails(run, variant, play)) || any;
    }
    return any;
}

static bool fewer_faults(struct run *run, uint64_t (*play)(struct run run))
{
    bool any = false;
    for (uint32_t i = 0; fault_name(i) != NULL; i++) {
        struct run variant = *run;
        variant.off |= UINT64_C(1) << i;
        any = (variant.off != run->off && keep_if_fails(run, variant, play)) || any;
    }
    return any;
}

static bool fewer_of_all(struct run *run, uint64_t (*play)(struct run run))
{
    bool any = false;
    struct run variant = *run;
    variant.processes--;
    any = run->processes > 1 && keep_if_fails(run, variant, play);
    variant = *run;
    variant.locks--;
    any = (run->locks > 1 && keep_if_fails(run, variant, play)) || any;
    variant = *run;
    variant.observers--;
    return (run->observers > 0 && keep_if_fails(run, variant, play)) || any;
}

int shrink(struct run run, uint64_t (*play)(struct run run))
{
    if (!fails(run, play)) {
        printf("this run does not fail\n");
        return 0;
    }
    (void)play; /* the next lines make the draws of the seed, but play nothing */
    world.run = run;
    fibers_reset(run.seed, 1, 2);
    faults_draw_cell();
    struct run fixed = run;
    fixed.voters = world.voters;
    fixed.observers = world.agent_count - world.voters;
    fixed.observers_set = true;
    fixed.processes = world.process_count;
    fixed.locks = world.lock_count;
    world.agent_count = world.process_count = 0; /* the cell was only drawn, not made */
    bool any = keep_if_fails(&run, fixed, play);
    while (any) {
        any = fewer_steps(&run, play);
        any = fewer_of_all(&run, play) || any;
        any = fewer_faults(&run, play) || any;
    }
    printf("what is left: ");
    run_print(&run);
    return FAILED;
}
