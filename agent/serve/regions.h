/*
 * The regions of the namespaces: each region is adopted, given up and begun anew independently of
 * the others. Only the thread that has the driver (run/keeper.h) makes these calls; the keeper's
 * thread calls regions_find_stuck(). A new region is made on a thread of its own (serve/anew.h).
 *
 * Invariants:
 * - A region that was given up is not served, its lease is not prolonged, and no process gets it. A
 *   new region takes its place.
 * - The new region takes that place only when nobody can hold anything in the old one any more
 *   (core/host/regions.c).
 * - Once the threads that prolong leases run, a region is unmapped before the end of the process
 *   only if its thread is idle.
 */
#ifndef AGENT_SERVE_REGIONS_H
#define AGENT_SERVE_REGIONS_H

#include "agent.h"
#include "io/remover.h"

enum regions_result {
    REGIONS_ADOPTED,
    /* some region cannot be adopted: the caller calls again with new cores, and the next call
     * leaves that region out */
    REGIONS_AGAIN,
    REGIONS_OVER,   /* the session cannot go on; agent->error says why */
    REGIONS_FAILED, /* the store failed; agent->error says why */
};

/* Returns false if there is no memory. */
bool regions_create(struct agent *agent) __attribute__((warn_unused_result));
/* Unmap and close the regions, except those that a thread may still read. */
void regions_close_files(struct agent *agent);
void regions_destroy(struct agent *agent);

/* The facts of a namespace's region for other parts. */
struct region_view {
    int fd;               /* -1: the region is not open */
    const char *shm_name; /* the region's path in /dev/shm */
    bool given_up;        /* the region was given up, and is not begun anew yet */
    bool roomless;        /* the region was given up because a page had no memory */
};
struct region_view regions_view(const struct agent *agent, uint32_t space);
/* Returns a set. Bit i: the region of namespace i was given up, and is not begun anew yet. */
uint64_t regions_given_up(const struct agent *agent);
/* Counters since the start. */
struct regions_counts {
    uint64_t given_up;
    uint64_t begun_anew;
};
struct regions_counts regions_counts(const struct agent *agent);
/* Returns the namespace whose region contains the word. */
uint32_t regions_space_of(const struct agent *agent, const _Atomic uint32_t *word);

/* Called before the first regions_adopt(): marks all regions as not given up. */
void regions_begin_adoption(struct agent *agent);
/* Opens the regions that the previous agent left, and loads their locks into the cores, which must
 * be new. */
enum regions_result regions_adopt(struct agent *agent) __attribute__((warn_unused_result));
void regions_log_holes(const struct agent *agent);
/* regions_forget_notes() clears the notes, which are those of the previous session.
 * regions_take_notes() finds each namespace's note, or begins a new note. */
void regions_forget_notes(struct agent *agent);
void regions_take_notes(struct agent *agent);
/* regions_set_up() opens the handle that the thread of serve/anew.h wakes; called when the loop
 * exists. regions_leave() waits for that thread; called before the loop is closed. */
bool regions_set_up(struct agent *agent) __attribute__((warn_unused_result));
void regions_leave(struct agent *agent);
/* Makes new regions for all namespaces, and adds them to the host core. Returns AGENT_EXIT_OK, or
 * an exit code with one line in agent->error. */
int regions_make(struct agent *agent) __attribute__((warn_unused_result));
/* Orders the removal of all regions in the agent's folder that are not in use: see
 * memory_remove_stale(). */
void regions_remove_stale(struct agent *agent, enum remover_kind kind);
/* Orders the removal of all open regions. */
void regions_remove(struct agent *agent);
/* Gives back the memory of the regions. Called at the agent's end if no process uses them. */
void regions_slim(const struct agent *agent);
/* Notes the deadline that was last promised to the processes. */
void regions_promised(struct agent *agent, int64_t deadline_ns);

/* Start and end the threads that prolong the lease (serve/prolong.h). Only while these threads run
 * may regions_prolong(), regions_touch() and regions_find_stuck() be called. On failure
 * regions_prolong_open() returns false with errno. */
bool regions_prolong_open(struct agent *agent) __attribute__((warn_unused_result));
void regions_prolong_close(struct agent *agent);
/* Call prolong_leases() and prolong_touch() for all regions that are in use. */
void regions_prolong(struct agent *agent, uint32_t epoch, int64_t deadline_ns);
void regions_touch(struct agent *agent);
/* Calls prolong_look(). For the keeper's thread. */
void regions_find_stuck(struct agent *agent);

/* A host_sound_fn: returns whether the region is usable, after a check. arg is the agent. */
bool regions_are_sound(void *arg, uint32_t space);
/* Called when a turn begins, at turn_ns, before any region is touched. If the last check was some
 * time ago, checks all regions and gives up the unusable ones. */
void regions_watch(struct agent *agent, int64_t turn_ns);
/* Called at the end of a turn: gives up unusable regions, and begins to make a new region for a
 * namespace whose wait is over. */
void regions_see(struct agent *agent);
/* Called each quarter of session_ttl: checks the regions in use, at a constant cost. */
void regions_look(struct agent *agent);
/* Returns when regions_see() will have something to do; INT64_MAX: no time is known. */
int64_t regions_next_ns(const struct agent *agent);

#endif
