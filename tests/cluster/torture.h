/*
 * The torture: cells of real agents, one after the other, each for a few minutes, with faults of
 * all kinds drawn from the round's seed, while workers on all hosts use the cell's locks (crowd.h).
 * torture.c goes from round to round, torture_round.c plays one, torture_faults.c has the faults.
 */
#ifndef TESTS_CLUSTER_TORTURE_H
#define TESTS_CLUSTER_TORTURE_H

#include "crowd.h"

#include <stdatomic.h>

enum torture_fault {
    TORTURE_KILL,        /* kill -9 of an agent */
    TORTURE_TERMINATE,   /* SIGTERM, whatever else it suffers */
    TORTURE_STOP,        /* SIGSTOP for a moment, or beyond its lease and grace period */
    TORTURE_KILL_WORKER, /* with what it holds */
    TORTURE_STOP_WORKER, /* and it goes on later */
    TORTURE_ISOLATE,     /* a host is cut off */
    TORTURE_ONE_WAY,     /* packets from one host to another are dropped */
    TORTURE_LOSE,        /* many of them */
    TORTURE_SLOW_LINKS,  /* all packets are late, by different times */
    TORTURE_ROUGH_LINKS, /* lost, doubled, overtaken, damaged packets, connections reset */
    TORTURE_ALTER,       /* bits change that TCP does not miss; in cells with TLS */
    TORTURE_STALL_DISK,  /* flushes do not end */
    TORTURE_SLOW_DISK,   /* or take long, and writes too */
    TORTURE_FLUSH_ERROR, /* EIO */
    TORTURE_WRITE_ERROR, /* EIO */
    TORTURE_FULL_DISK,   /* ENOSPC */
    TORTURE_NO_MEMORY,   /* an agent gets no more */
    TORTURE_NO_FILES,    /* nor descriptors */
    TORTURE_KILL_ALL,    /* all agents at once */
    TORTURE_ROLL,        /* SIGTERM and start of one agent after the other */
    TORTURE_UPGRADE,     /* the same, with another copy of the program in its place */
    TORTURE_CLOCK,       /* a host whose clock is up to 10 % too fast or too slow, all the time */
    TORTURE_FAULTS,
};

/* In memory that all rounds share. */
struct torture_totals {
    _Atomic uint64_t faults[TORTURE_FAULTS];
    _Atomic uint64_t ends; /* agents that ended by themselves, as they should */
    _Atomic uint64_t holds;
    _Atomic uint64_t lost;
    _Atomic uint64_t gave_up;
    _Atomic int64_t longest_wait_ns;
    _Atomic int64_t healing_ns; /* the longest from the end of all faults until all were served */
    _Atomic uint64_t flushes;
    _Atomic uint64_t slow_flushes;
    _Atomic uint64_t failed_writes;
    struct relay_counts packets; /* that a relay carried */
};

struct torture_plan {
    uint64_t seed;
    unsigned voters;     /* 0: three or five, as the seed says */
    unsigned duration_s; /* of the faults */
    const char *folder;  /* the round's, at most 40 characters; exists */
    uint32_t only;       /* a bit for each kind of fault that may come; 0: all */
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
    unsigned hurt_max;                /* so many agents may be in trouble at once */
    char program[96];                 /* the copy of holdfastd that is started */
    bool stopped[NETWORK_HOSTS_MAX];
    bool terminated[NETWORK_HOSTS_MAX]; /* got SIGTERM, and has not ended yet */
    bool excused[NETWORK_HOSTS_MAX];    /* it may end by itself, with an error */
    bool limited[NETWORK_HOSTS_MAX];    /* its resources are */
    bool cut_off[NETWORK_HOSTS_MAX];
    bool worker_stopped[CROWD_WORKERS_MAX];
    bool tls;          /* between agents */
    bool flawed_links; /* some of them are */
    unsigned count;    /* faults so far */
};

/* Plays one round in a process of its own, which ends with 0, or with what REQUIRE says. */
void torture_round(const struct torture_plan *plan) __attribute__((noreturn));

/* The name of a kind, for people; and the word for it on the command line. */
const char *torture_fault_name(enum torture_fault fault);
const char *torture_fault_word(enum torture_fault fault);

/* ---- of a round ---- */

/* A number below `below`. */
unsigned torture_draw(struct torture *torture, unsigned below);
/* Writes the round's present step, with the time, into its story and into require_context. */
void torture_tell(struct torture *torture, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* One thing happens: a fault, or a host gets well, or all do. */
void torture_disturb(struct torture *torture);
/* Nothing is wrong any more, and all agents take connections. */
void torture_heal(struct torture *torture);
/* Looks for agents that ended; those which must not have end the round. */
void torture_reap(struct torture *torture);
/* Puts the program of this build where agents are started from, in one step. */
void torture_install(struct torture *torture);

#endif
