/*
 * The torture: cells of real agents, one after the other, each for a few minutes, with faults of
 * all kinds drawn from the round's seed, while workers on all hosts use the cell's locks (crowd.h).
 * torture.c runs the rounds, torture_round.c is one round, and torture_faults.c has the faults.
 */
#ifndef TESTS_CLUSTER_TORTURE_H
#define TESTS_CLUSTER_TORTURE_H

#include "crowd.h"

#include <stdatomic.h>

enum torture_fault {
    TORTURE_KILL,        /* kill -9 of an agent */
    TORTURE_TERMINATE,   /* SIGTERM, whatever other faults the agent has */
    TORTURE_STOP,        /* SIGSTOP for a moment, or beyond its lease and grace period */
    TORTURE_KILL_WORKER, /* with the locks that it holds */
    TORTURE_STOP_WORKER, /* SIGSTOP; the worker is continued later */
    TORTURE_ISOLATE,     /* a host is cut off */
    TORTURE_ONE_WAY,     /* packets from one host to another are dropped */
    TORTURE_LOSE,        /* many packets are dropped */
    TORTURE_SLOW_LINKS,  /* all packets are late, by different times */
    TORTURE_ROUGH_LINKS, /* lost, doubled, overtaken, damaged packets, connections reset */
    TORTURE_ALTER,       /* bits change, and TCP does not notice; in cells with TLS */
    TORTURE_STALL_DISK,  /* flushes never end */
    TORTURE_SLOW_DISK,   /* flushes and writes take long */
    TORTURE_FLUSH_ERROR, /* EIO */
    TORTURE_WRITE_ERROR, /* EIO */
    TORTURE_FULL_DISK,   /* ENOSPC */
    TORTURE_NO_MEMORY,   /* an agent gets no more memory */
    TORTURE_NO_FILES,    /* an agent gets no more descriptors */
    TORTURE_KILL_ALL,    /* all agents at once */
    TORTURE_ROLL,        /* SIGTERM and start of one agent after the other */
    TORTURE_UPGRADE,     /* the same, with another copy of the program in its place */
    TORTURE_CLOCK,       /* a host's clock is up to 10 % too fast or too slow, all the time */
    TORTURE_FAULTS,
};

/* Totals, in memory that all rounds share. */
struct torture_totals {
    _Atomic uint64_t faults[TORTURE_FAULTS];
    _Atomic uint64_t ends; /* agents that ended by themselves, as they should */
    _Atomic uint64_t holds;
    _Atomic uint64_t lost;
    _Atomic uint64_t gave_up;
    _Atomic int64_t longest_wait_ns;
    /* the longest time from the end of all faults until all workers were served */
    _Atomic int64_t healing_ns;
    _Atomic uint64_t flushes;
    _Atomic uint64_t slow_flushes;
    _Atomic uint64_t failed_writes;
    struct relay_counts packets; /* packets that a relay carried */
};

struct torture_plan {
    uint64_t seed;
    unsigned voters;     /* 0: three or five, as the seed says */
    unsigned duration_s; /* how long faults come, in s */
    const char *folder;  /* the round's folder, at most 40 characters; it exists */
    uint32_t only;       /* a bit for each kind of fault that may come; 0: all may */
    struct torture_totals *totals;
};

/* The state of a round. */
struct torture {
    const struct torture_plan *plan;
    struct cell cell;
    struct crowd crowd;
    struct faults *faults;
    uint64_t random;
    unsigned weights[TORTURE_FAULTS]; /* how often each kind comes in this round */
    unsigned hurt_max;                /* how many agents may have a fault at a time */
    char program[96];                 /* the copy of holdfastd that is started */
    bool stopped[NETWORK_HOSTS_MAX];
    bool terminated[NETWORK_HOSTS_MAX]; /* the agent got SIGTERM, and has not ended yet */
    bool excused[NETWORK_HOSTS_MAX];    /* the agent may end by itself, with an error */
    bool limited[NETWORK_HOSTS_MAX];    /* the agent's resources are limited */
    bool cut_off[NETWORK_HOSTS_MAX];
    bool worker_stopped[CROWD_WORKERS_MAX];
    bool tls;          /* between agents */
    bool flawed_links; /* some links have faults */
    unsigned count;    /* faults so far */
};

/* Plays one round in this process. Exits with 0; a failed REQUIRE ends the process, too. */
void torture_round(const struct torture_plan *plan) __attribute__((noreturn));

/* torture_fault_name() returns a kind of fault's name for people, torture_fault_word() its word on
 * the command line. */
const char *torture_fault_name(enum torture_fault fault);
const char *torture_fault_word(enum torture_fault fault);

/* ---- of a round ---- */

/* Returns a random number below `below`. */
unsigned torture_draw(struct torture *torture, unsigned below);
/* Writes the round's present step, with the time, into its story and into require_context. */
void torture_tell(struct torture *torture, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Makes one change: a fault begins, one host is mended, or all are. */
void torture_disturb(struct torture *torture);
/* Ends all faults, and waits until all agents take connections. */
void torture_heal(struct torture *torture);
/* Finds agents that have ended. One that must not have ended fails the round. */
void torture_reap(struct torture *torture);
/* Installs this build's program at the path from which agents are started, in one step. */
void torture_install(struct torture *torture);

#endif
