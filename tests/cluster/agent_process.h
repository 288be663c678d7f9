/*
 * A real agent for a test: holdfastd in a folder of its own, started, killed, started again.
 *
 * The program is $HOLDFAST_BIN_DIR/holdfastd. It dies with the process that started it. The folder
 * and the agent's objects in /dev/shm are removed by a small process that outlives the test, so
 * that nothing stays behind a test that is killed either. A failure here ends the caller
 * (require.h).
 */
#ifndef TESTS_CLUSTER_AGENT_PROCESS_H
#define TESTS_CLUSTER_AGENT_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* How long anything that must happen may take on a busy machine, before a test calls it stuck. */
enum { GUARD_MS = 20000 };

#define MS INT64_C(1000000)

/* Options of sockets that came with this Linux; without: see below. */
enum {
    WITHOUT_PEERPIDFD = 1,  /* 6.5 */
    WITHOUT_PASSRIGHTS = 2, /* 6.16 */
};

struct agent_process {
    pid_t pid;    /* 0: it does not run */
    pid_t keeper; /* the process whose network and mount namespaces it enters (network.h); 0:
                   * none */
    bool configured;
    /* May be set between two starts: */
    const char *program; /* instead of $HOLDFAST_BIN_DIR/holdfastd; NULL: that one */
    const char *faults;  /* the file of faults.h, for the library of faults.c; NULL: without */
    unsigned host;       /* which of its hosts */
    const char *manager; /* where a service manager listens, with a watchdog of 0.6 s; NULL: none */
    unsigned without;    /* options of sockets that its kernel does not know */
    bool own_pids;       /* in a pid namespace of its own: nobody else has a number there */
    char folder[64];
    char socket[96];
    char log[96];
    int janitor_fd; /* closed: the janitor cleans up and ends */
    pid_t janitor;
};

/*
 * Makes the folder, in $HOLDFAST_TEST_BASE (at most 40 characters) or /tmp. config: an INI file's
 * text for --config, in which every %D becomes the folder; NULL: --dev, with the folder as its
 * state directory.
 */
void agent_create(struct agent_process *agent, const char *config);

/* Makes its folder and socket accessible to every user; before the start. */
void agent_admit_all(struct agent_process *agent);

/* Another configuration, for the next start. */
void agent_configure(const struct agent_process *agent, const char *config);

/* Whether `without` can be had here: filters of system calls. what: the test that asks. */
bool agent_can_be_without(const char *what);
/* Whether the kernel refuses to send it descriptors. */
bool agent_refuses_descriptors(const struct agent_process *agent);

/* Starts it and waits until it takes connections. From the main thread only. */
void agent_start(struct agent_process *agent);
/* The same in two steps: agents of one cell may need each other to get that far. */
void agent_launch(struct agent_process *agent);
void agent_await_socket(struct agent_process *agent);
/* Has the agent's regions removed with it, for one whose socket is never awaited; they are there
 * when it has logged session_new or session_continued. */
void agent_note_regions(struct agent_process *agent);
/* Its use of resources: entries of its /proc/PID/fd, resident memory in KiB, bytes in its log. */
unsigned agent_descriptors(const struct agent_process *agent);
unsigned long agent_resident_kb(const struct agent_process *agent);
long agent_log_size(const struct agent_process *agent);
/* Whether it takes connections now. */
bool agent_takes_connections(const struct agent_process *agent);

/* SIGSTOP, until all its threads stand still: each step that it was about to make it has made, or
 * does not make before agent_continue(). */
void agent_pause(const struct agent_process *agent);
void agent_continue(const struct agent_process *agent);

/* kill -9, and waits for its end. */
void agent_kill(struct agent_process *agent);

/* SIGTERM. Its exit status, as waitpid() has it. */
int agent_stop(struct agent_process *agent);

/* How many lines of its log have this text. */
unsigned agent_logged(const struct agent_process *agent, const char *text);

/* The file in /dev/shm of the region of that namespace. */
void agent_region_path(const struct agent_process *agent, const char *space, char *path,
                       size_t size);
/* Its folder in /dev/shm: with `lease`, and a folder for each region. */
void agent_memory_path(const struct agent_process *agent, char *path, size_t size);

/* Kills it and removes what it left. */
void agent_destroy(struct agent_process *agent);

/* $HOLDFAST_BIN_DIR/name. Static buffer. */
const char *binary_path(const char *name);

/* Whether the test may take its time (HOLDFAST_TEST_DEEP=1). */
bool test_is_deep(void);

/* CLOCK_BOOTTIME, the true one (faults.h). */
int64_t boottime_now(void);
void sleep_ms(int64_t duration_ms);

/* How long the threads of a process were ready to run and had no processor, all together; of those
 * that there are now. 0: the kernel has no figure. */
int64_t process_unserved_ns(pid_t pid);

/* Forks a process that dies with this one. As fork(). */
pid_t fork_tied(void);

/* Waits for the end of a child of this process, at most twice GUARD_MS; its status as waitpid() has
 * it. */
int wait_for(pid_t pid);
/* The same, at most guard_ms. */
int wait_for_long(pid_t pid, unsigned guard_ms);

/* kill -9 and wait. */
void kill_process(pid_t pid);

/* TCP ports of 127.0.0.1 that are this test's alone (tests/free_port.h). */
void agent_free_ports(unsigned *ports, unsigned count);

#endif
