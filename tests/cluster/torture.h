/*
 * The torture: cells of real agents, one after another, each for a few minutes. Faults of all kinds
 * are drawn from the round's seed while workers on all hosts use the cell's locks (crowd.h).
 * torture.c runs the rounds, torture_round.c is one round, and torture_faults.c has the faults.
 */
#ifndef TESTS_CLUSTER_TORTURE_H
#define TESTS_CLUSTER_TORTURE_H

#include "crowd.h"

#include <stdatomic.h>

#include <stdio.h>

enum torture_fault {
    TORTURE_KILL,        /* SIGKILL of an agent */
    TORTURE_TERMINATE,   /* SIGTERM of an agent, whatever other faults it has */
    TORTURE_STOP,        /* SIGSTOP of an agent, for less or for more than its lease and grace
                          * period */
    TORTURE_KILL_WORKER, /* SIGKILL of a worker, which may hold locks */
    TORTURE_STOP_WORKER, /* SIGSTOP of a worker; it is continued later */
    TORTURE_ISOLATE,     /* a host is cut off from all others */
    TORTURE_ONE_WAY,     /* packets from one host to another are dropped */
    TORTURE_LOSE,        /* many packets are dropped */
    TORTURE_SLOW_LINKS,  /* all packets are late, by different times */
    TORTURE_ROUGH_LINKS, /* packets are lost, doubled, reordered and damaged, and connections are
                          * reset */
    TORTURE_ALTER,       /* bits change without TCP's notice; only in cells with TLS */
    TORTURE_STALL_DISK,  /* flushes do not end */
    TORTURE_SLOW_DISK,   /* flushes and writes take long */
    TORTURE_FLUSH_ERROR, /* flushes fail with EIO */
    TORTURE_WRITE_ERROR, /* writes fail with EIO */
    TORTURE_FULL_DISK,   /* writes fail with ENOSPC */
    TORTURE_NO_MEMORY,   /* an agent gets no further memory */
    TORTURE_NO_FILES,    /* an agent gets no further descriptors */
    TORTURE_KILL_ALL,    /* SIGKILL of all agents at once */
    TORTURE_ROLL,        /* SIGTERM and start of one agent after another */
    TORTURE_UPGRADE,     /* like TORTURE_ROLL, but with another copy of the program */
    TORTURE_MEMBERS,     /* the voters change: an add, a removal or a move */
    TORTURE_CLOCK,       /* a host's clock is up to 10 % too fast or too slow, for the whole
                          * round */
    TORTURE_FAULTS,
};

/* totals, in memory that all rounds share */
struct torture_totals {
    _Atomic uint64_t faults[TORTURE_FAULTS];
    _Atomic uint64_t ends; /* agents that ended with an error because of a fault, as they should */
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
    unsigned voters;     /* 3 or 5; 0: the seed decides */
    unsigned duration_s; /* the length of the time in which faults come */
    const char *folder;  /* the round's folder, which must exist; at most 40 characters */
    uint32_t only;       /* a bit for each kind of fault that may come; 0: all kinds */
    struct torture_totals *totals;
};

/* The changes of the voters: one at a time. Each is asked for again until it is complete. */
struct torture_change {
    FILE *command;   /* the running command `holdfast member`; NULL: none */
    unsigned voters; /* a bit for each host that is a voter, as far as changes are complete */
    unsigned removals[NETWORK_HOSTS_MAX]; /* how often each host was removed */
    bool wanted;                          /* a change is not complete yet: */
    unsigned act;
    unsigned host;
    unsigned done; /* the number of changes that are complete */
};

/* The state of a round. */
struct torture {
    const struct torture_plan *plan;
    struct cell cell;
    struct crowd crowd;
    struct faults *faults;
    uint64_t random;
    struct torture_change change;
    unsigned weights[TORTURE_FAULTS]; /* how often each kind of fault comes in this round */
    unsigned hurt_max;                /* how many agents may have a fault at a time */
    char program[96];                 /* the path of the copy of holdfastd that the round starts */
    bool stopped[NETWORK_HOSTS_MAX];
    bool terminated[NETWORK_HOSTS_MAX]; /* the agent got SIGTERM and has not ended yet */
    bool excused[NETWORK_HOSTS_MAX];    /* a fault allows the agent to end with an error */
    bool limited[NETWORK_HOSTS_MAX];    /* the agent's resources are limited */
    bool cut_off[NETWORK_HOSTS_MAX];
    bool worker_stopped[CROWD_WORKERS_MAX];
    bool tls;          /* the agents use TLS */
    bool flawed_links; /* some links have faults */
    unsigned count;    /* the number of faults so far */
};

/* Plays one round in this process. Exits with 0 after a good round; a failed REQUIRE ends the
 * process with an error. */
void torture_round(const struct torture_plan *plan) __attribute__((noreturn));

/* torture_fault_name() returns a kind of fault's name for people, torture_fault_word() its word on
 * the command line. */
const char *torture_fault_name(enum torture_fault fault);
const char *torture_fault_word(enum torture_fault fault);

/* ---- calls between the files of a round ---- */

/* Returns a random number below `below`. */
unsigned torture_draw(struct torture *torture, unsigned below);
/* Writes what the round does now, with the time, into its story and into require_context. */
void torture_tell(struct torture *torture, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Makes one change: a fault begins, or one host is mended, or all hosts are. */
void torture_disturb(struct torture *torture);
/* Ends all faults, and waits until all agents take connections. */
void torture_heal(struct torture *torture);
/* Finds agents that have ended. The round fails if one of them had no reason to end. */
void torture_reap(struct torture *torture);
/* Replaces the program that agents are started from by a new copy of this build's program, in one
 * step. */
void torture_install(struct torture *torture);

/* Starts the agents that have ended. Such an end must be excused by a fault: an agent may fail some
 * time after its fault is over, because a write failed during it. */
void torture_revive(struct torture *torture);
/* Starts a host's agent. Kills it first, if it runs. */
void torture_restart(struct torture *torture, unsigned host);

/* ---- torture_members.c ---- */

/* Advances the change that is under way, or asks for another one. Returns whether it asked. */
bool torture_change(struct torture *torture);
/* If a voter moves, waits until the move is complete. Until then the other voters do not reach its
 * host, so nobody gets a lock there. */
void torture_finish_move(struct torture *torture);
/* Must be called when the faults are over. Waits until the last change is complete, makes one more,
 * and checks that all agents know the voters. */
void torture_settle(struct torture *torture);

#endif
