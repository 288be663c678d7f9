/*
 * The regions of the namespaces: each is adopted, given up and begun anew by itself. The thread
 * that has the driver makes all these calls (run/keeper.h), but for regions_find_stuck(). Only a
 * fresh region is made on another thread (serve/anew.h).
 *
 * Invariants:
 * - A region that was given up is not served, is not prolonged, and no process gets it, until a
 *   fresh one has taken its place.
 * - A fresh region takes that place only when nobody can hold anything in the old one any more
 *   (core/host/regions.c).
 * - Once there are threads that prolong leases, no region is unmapped before the process ends,
 *   except one whose thread is idle.
 */
#ifndef AGENT_SERVE_REGIONS_H
#define AGENT_SERVE_REGIONS_H

#include "agent.h"
#include "io/remover.h"

enum regions_result {
    REGIONS_ADOPTED,
    REGIONS_AGAIN,  /* some region cannot be adopted: repeat with new cores, without that region */
    REGIONS_OVER,   /* the session cannot go on; agent->error says why */
    REGIONS_FAILED, /* the store failed; agent->error says why */
};

/* Returns false if there is no memory. */
bool regions_create(struct agent *agent) __attribute__((warn_unused_result));
/* Both leave regions mapped that a thread may still read. */
void regions_close_files(struct agent *agent);
void regions_destroy(struct agent *agent);

/* What others may know of the region of one namespace. */
struct region_view {
    int fd;               /* -1: it is not open */
    const char *shm_name; /* where it is in /dev/shm */
    bool given_up;        /* and not begun anew yet */
    bool roomless;        /* given_up because a page of it had no memory */
};
struct region_view regions_view(const struct agent *agent, uint32_t space);
/* Bit i: the region of namespace i was given up, and is not begun anew yet. */
uint64_t regions_given_up(const struct agent *agent);
/* Since the start. */
struct regions_counts {
    uint64_t given_up;
    uint64_t begun_anew;
};
struct regions_counts regions_counts(const struct agent *agent);
/* The namespace whose region contains the word. */
uint32_t regions_space_of(const struct agent *agent, const _Atomic uint32_t *word);

/* To be called before the first regions_adopt(): none counts as given up. */
void regions_begin_adoption(struct agent *agent);
/* Opens the regions that the previous agent left and loads their locks into the cores, which must
 * be new. */
enum regions_result regions_adopt(struct agent *agent) __attribute__((warn_unused_result));
void regions_log_holes(const struct agent *agent);
/* regions_forget_notes() clears the notes, which belong to the previous session.
 * regions_take_notes() finds each namespace's note, or begins one. */
void regions_forget_notes(struct agent *agent);
void regions_take_notes(struct agent *agent);
/* regions_set_up() is called when the loop exists, regions_leave() before it is closed. */
bool regions_set_up(struct agent *agent) __attribute__((warn_unused_result));
void regions_leave(struct agent *agent);
/* Makes fresh regions for all namespaces, and adds them to the host core. Returns AGENT_EXIT_OK, or
 * the exit code with one line in agent->error. */
int regions_make(struct agent *agent) __attribute__((warn_unused_result));
/* Orders the removal of all regions in the agent's folder that are not in use:
 * memory_remove_stale(). */
void regions_remove_stale(struct agent *agent, enum remover_kind kind);
/* Orders the removal of the regions that are open. */
void regions_remove(struct agent *agent);
/* Gives back the memory of the regions that no process uses. */
void regions_slim(const struct agent *agent);
/* Called when a deadline was promised to the processes. */
void regions_promised(struct agent *agent, int64_t deadline_ns);

/* Begin and end the threads that prolong the lease (serve/prolong.h). Only between the two may the
 * next three be called. On failure regions_prolong_open() returns false with errno. */
bool regions_prolong_open(struct agent *agent) __attribute__((warn_unused_result));
void regions_prolong_close(struct agent *agent);
/* prolong_leases() and prolong_touch() for all regions that are in use. */
void regions_prolong(struct agent *agent, uint32_t epoch, int64_t deadline_ns);
void regions_touch(struct agent *agent);
/* prolong_look(): the keeper's thread calls it. */
void regions_find_stuck(struct agent *agent);

/* A host_sound_fn: returns whether the region is usable. arg is the agent. */
bool regions_are_sound(void *arg, uint32_t space);
/* Called when a turn begins, at turn_ns, before any region is touched: gives up those that are
 * unusable, if the last check was some time ago. */
void regions_watch(struct agent *agent, int64_t turn_ns);
/* Called at the end of a turn: gives up regions that are unusable, and begins those anew whose time
 * has come. */
void regions_see(struct agent *agent);
/* Called each quarter of session_ttl: checks that the regions are unchanged, at a constant cost. */
void regions_look(struct agent *agent);
/* Returns when regions_see() has something to do; INT64_MAX: no time is known. */
int64_t regions_next_ns(const struct agent *agent);

#endif
