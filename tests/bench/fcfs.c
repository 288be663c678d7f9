/*
 * Several processes take and release one lock in the order of their arrival, and do nothing while
 * they hold it. The figure compares Holdfast's default with the bare queue of ticket_queue.h.
 *
 * The bench counts hand-overs: acquisitions whose previous holder was another process. It does not
 * count a process that finds nobody waiting and takes the lock again. Each lock protects two plain
 * variables: the number of its last holder, and a sum. The sum comes out wrong if the lock ever had
 * two holders at once.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "agent.h"
#include "crew.h"
#include "figures.h"
#include "subject.h"
#include "ticket_queue.h"

/* etcd's hand-overs per second of one contended lock, measured elsewhere. The target of this figure
 * is derived from this rate. */
static const double etcd_handovers_per_s = 95.0;

/* The data that the lock protects, and the sums that the workers count without the lock. */
struct guarded {
    alignas(64) uint32_t last_holder; /* the worker's number + 1 */
    uint64_t acquisitions;
    /* The number of acquisitions and of hand-overs. The workers add to these without the lock. */
    alignas(64) _Atomic uint64_t counted_acquisitions;
    _Atomic uint64_t counted_handovers;
};

struct arena {
    struct ticket_queue queue;
    struct guarded by_holdfast;
    struct guarded by_queue;
};

struct shared_setup {
    const struct agent *agent;
    struct arena *arena;
};

struct fighter {
    struct subject subject;
    struct arena *arena;
    uint32_t self; /* the worker's number + 1 */
};

/* The caller holds the lock. Returns 1 if the previous holder was another process, else 0. */
static int64_t enter_guarded(struct guarded *inside, uint32_t self)
{
    int64_t handed_over = inside->last_holder != self ? 1 : 0;
    inside->last_holder = self;
    inside->acquisitions++;
    return handed_over;
}

/* A worker calls this function at the end of a round, without the lock. Returns the hand-overs. */
static int64_t count_round(struct guarded *inside, int64_t acquisitions, int64_t handovers)
{
    /* relaxed, both additions: the bench reads the sums only while the workers are idle at the
     * barrier, or after they have ended */
    atomic_fetch_add_explicit(&inside->counted_acquisitions, (uint64_t)acquisitions,
                              memory_order_relaxed);
    atomic_fetch_add_explicit(&inside->counted_handovers, (uint64_t)handovers,
                              memory_order_relaxed);
    return handovers;
}

static int fighter_setup(const void *arg, uint32_t worker, void **state)
{
    const struct shared_setup *setup = arg;
    struct fighter *fighter = calloc(1, sizeof(*fighter));
    if (fighter == NULL) {
        return complain("no memory");
    }
    fighter->arena = setup->arena;
    fighter->self = worker + 1;
    *state = fighter;
    return 0;
}

static int holdfast_setup(const void *arg, uint32_t worker, void **state)
{
    const struct shared_setup *setup = arg;
    if (fighter_setup(arg, worker, state) != 0) {
        return -1;
    }
    struct fighter *fighter = *state;
    return subject_open(&fighter->subject, setup->agent->socket, "bench-fcfs", HF_EXCLUSIVE, 0);
}

static int64_t holdfast_work(void *state, crew_stop *stop)
{
    struct fighter *fighter = state;
    int64_t handovers = 0;
    int64_t acquisitions = 0;
    /* relaxed: see run_rounds in crew.c */
    while (atomic_load_explicit(stop, memory_order_relaxed) == 0) {
        if (subject_acquire(&fighter->subject) != 0) {
            return -1;
        }
        handovers += enter_guarded(&fighter->arena->by_holdfast, fighter->self);
        if (subject_release(&fighter->subject) != 0) {
            return -1;
        }
        acquisitions++;
    }
    return count_round(&fighter->arena->by_holdfast, acquisitions, handovers);
}

static int64_t queue_work(void *state, crew_stop *stop)
{
    struct fighter *fighter = state;
    int64_t handovers = 0;
    int64_t acquisitions = 0;
    /* relaxed: see run_rounds in crew.c */
    while (atomic_load_explicit(stop, memory_order_relaxed) == 0) {
        uint32_t ticket = ticket_queue_enter(&fighter->arena->queue);
        handovers += enter_guarded(&fighter->arena->by_queue, fighter->self);
        ticket_queue_leave(&fighter->arena->queue, ticket);
        acquisitions++;
    }
    return count_round(&fighter->arena->by_queue, acquisitions, handovers);
}

/* Fails if the lock's own sum is too low. A low sum means that the lock let two processes in at
 * once, so its figure is worthless. */
static int check_exclusion(const struct guarded *inside, const char *who)
{
    /* relaxed: all workers have ended */
    uint64_t counted = atomic_load_explicit(&inside->counted_acquisitions, memory_order_relaxed);
    if (inside->acquisitions != counted) {
        return complain("%s let two processes in at once: %llu acquisitions, a sum of %llu", who,
                        (unsigned long long)counted, (unsigned long long)inside->acquisitions);
    }
    return 0;
}

/* Measures contention: the percentage of acquisitions whose previous holder was another process. */
struct contention {
    struct guarded *inside;
    uint64_t acquisitions; /* the count at the end of the last round */
    uint64_t handovers;
    struct series shares; /* one value for each round */
};

/* The round_done() of a crew_job. */
static void note_contention(void *arg)
{
    struct contention *contention = arg;
    struct guarded *inside = contention->inside;
    /* relaxed, both loads: the workers have arrived at the barrier, and are idle */
    uint64_t acquisitions = atomic_load_explicit(&inside->counted_acquisitions,
                                                 memory_order_relaxed);
    uint64_t handovers = atomic_load_explicit(&inside->counted_handovers, memory_order_relaxed);
    if (acquisitions > contention->acquisitions) {
        series_add(&contention->shares, 100.0 * (double)(handovers - contention->handovers) /
                                            (double)(acquisitions - contention->acquisitions));
    }
    contention->acquisitions = acquisitions;
    contention->handovers = handovers;
}

/*
 * Adds the contention to the figure's note, with a warning if it is low. Two processes on one
 * processor hardly ever meet: each runs for its whole time slice alone. Their hand-overs fall to
 * the rate of the slices, with any lock. A ratio of such rates tells nothing about the locks.
 */
static void describe_contention(struct figure *figure, const struct contention *ours,
                                const struct contention *peers)
{
    double our_share = series_median(&ours->shares);
    double their_share = series_median(&peers->shares);
    const char *doubt = our_share < 5.0 || their_share < 5.0
                            ? "; the processes seldom met, so this figure is not to be kept"
                            : "";
    snprintf(figure->note, sizeof(figure->note),
             "hand-overs from process to process; in the median round they are %.1f %% of "
             "holdfast's acquisitions and %.1f %% of the queue's, the rest found nobody waiting%s",
             our_share, their_share, doubt);
}

static int measure_fcfs(const struct bench *bench, struct figure *figure, uint32_t workers)
{
    struct agent agent = {.pid = 0};
    struct side *ours = figure_side(figure, "holdfast, first come first served", "handovers/s", 0);
    struct side *peer = figure_side(figure, "bare ticket-and-futex queue", "handovers/s", 0);
    struct arena *arena = crew_memory(sizeof(*arena));
    const struct shared_setup setup = {&agent, arena};
    struct contention our_contention = {.inside = arena != NULL ? &arena->by_holdfast : NULL};
    struct contention peer_contention = {.inside = arena != NULL ? &arena->by_queue : NULL};
    const struct crew_job jobs[2] = {
        {holdfast_setup, holdfast_work, &setup, &ours->series, note_contention, &our_contention},
        {fighter_setup, queue_work, &setup, &peer->series, note_contention, &peer_contention},
    };

    int result = arena != NULL ? agent_start(&agent, bench->directory) : -1;
    if (result == 0) {
        result = crew_run(workers, jobs, bench->effort);
    }
    if (result == 0) {
        result = check_exclusion(&arena->by_holdfast, "holdfast");
    }
    if (result == 0) {
        result = check_exclusion(&arena->by_queue, "the ticket queue");
    }
    agent_stop(&agent);
    if (result == 0) {
        describe_contention(figure, &our_contention, &peer_contention);
    }
    crew_memory_free(arena, sizeof(*arena));
    figure_verdict(figure, "holdfast / ticket queue",
                   series_median(&ours->series) / series_median(&peer->series), BOUND_AT_LEAST,
                   0.5);
    figure_verdict(figure, "holdfast / etcd's 95 a second",
                   series_median(&ours->series) / etcd_handovers_per_s, BOUND_AT_LEAST, 50.0);
    return result;
}

int figure_fcfs_2(const struct bench *bench, struct figure *figure)
{
    return measure_fcfs(bench, figure, 2);
}

int figure_fcfs_8(const struct bench *bench, struct figure *figure)
{
    return measure_fcfs(bench, figure, 8);
}
