/*
 * A real agent for a test: holdfastd in a folder of its own, started, killed, started again.
 *
 * The program is $HOLDFAST_BIN_DIR/holdfastd. It dies with the process that started it. A small
 * process, the janitor, outlives the test and removes the folder and the agent's objects in
 * /dev/shm, so that nothing stays even if the test is killed. A failure here ends the caller
 * (require.h).
 */
#ifndef TESTS_CLUSTER_AGENT_PROCESS_H
#define TESTS_CLUSTER_AGENT_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* A guard against hanging: a test counts anything that takes longer than this as stuck. */
enum { GUARD_MS = 20000 };

#define MS INT64_C(1000000)

/* Socket options that came with these versions of Linux; see `without` below. */
enum {
    WITHOUT_PEERPIDFD = 1,  /* 6.5 */
    WITHOUT_PASSRIGHTS = 2, /* 6.16 */
};

struct agent_process {
    pid_t pid;    /* 0: it does not run */
    pid_t keeper; /* the agent enters its network and mount namespaces (network.h); 0: none */
    bool configured;
    /* These may be set between two starts: */
    const char *program; /* the program to start; NULL: $HOLDFAST_BIN_DIR/holdfastd */
    const char *preload; /* a library to preload; NULL: none */
    const char *faults;  /* the file of faults.h for faults.c's library; NULL: no library */
    unsigned host;       /* its host in that file */
    const char *manager; /* the socket of a service manager, with a watchdog of 0.6 s; NULL: none */
    unsigned without;    /* socket options that its kernel shall lack */
    bool own_pids;       /* it gets a pid namespace of its own, in which no other process has a
                          * pid */
    char folder[64];
    char socket[96];
    char log[96];
    int janitor_fd; /* closing it lets the janitor clean up and end */
    pid_t janitor;
};

/*
 * Makes the folder, in $HOLDFAST_TEST_BASE (at most 40 characters) or /tmp. config: an INI file's
 * text for --config, in which every %D becomes the folder; NULL: --dev, with the folder as its
 * state directory.
 */
void agent_create(struct agent_process *agent, const char *config);

/* Makes its folder and socket accessible to every user. To be called before the start. */
void agent_admit_all(struct agent_process *agent);

/* Sets another configuration, for the next start. */
void agent_configure(const struct agent_process *agent, const char *config);

/* Returns whether `without` works here, which needs filters of system calls. what: the test that
 * asks. */
bool agent_can_be_without(const char *what);
/* Returns whether the kernel refuses to send the agent descriptors. */
bool agent_refuses_descriptors(const struct agent_process *agent);

/* Starts the agent, and waits until it takes connections. To be called on the main thread only. */
void agent_start(struct agent_process *agent);
/* Do what agent_start() does, in two steps: agents of one cell may need each other before they
 * serve. */
void agent_launch(struct agent_process *agent);
void agent_await_socket(struct agent_process *agent);
/* Makes the janitor remove the agent's regions together with its folder. Needed only if its socket
 * is never awaited. To be called once it has logged session_new or session_continued. */
void agent_note_regions(struct agent_process *agent);
/* The agent's resources: the entries of its /proc/PID/fd; its own resident memory in KiB, without
 * the regions, which exist once for all processes; the bytes of its log. */
unsigned agent_descriptors(const struct agent_process *agent);
unsigned long agent_private_kb(const struct agent_process *agent);
long agent_log_size(const struct agent_process *agent);
/* Returns whether the agent accepts connections now. */
bool agent_takes_connections(const struct agent_process *agent);

/* Sends SIGSTOP, and waits until all threads of the agent stand still: it takes no further step
 * before agent_continue(). */
void agent_pause(const struct agent_process *agent);
void agent_continue(const struct agent_process *agent);

/* Sends SIGKILL, and waits for the agent's end. */
void agent_kill(struct agent_process *agent);

/* Sends SIGTERM and waits for the agent's end. Returns its status, as waitpid() has it. */
int agent_stop(struct agent_process *agent);

/* Returns the number of lines in the agent's log that contain this text. */
unsigned agent_logged(const struct agent_process *agent, const char *text);

/* Finds the path of the namespace's region file in /dev/shm. */
void agent_region_path(const struct agent_process *agent, const char *space, char *path,
                       size_t size);
/* Finds the path of the agent's folder in /dev/shm, which has `lease` and a folder for each
 * region. */
void agent_memory_path(const struct agent_process *agent, char *path, size_t size);

/* Kills the agent, and removes what it left. */
void agent_destroy(struct agent_process *agent);

/* Returns the path $HOLDFAST_BIN_DIR/name, in a static buffer. */
const char *binary_path(const char *name);

/* Returns whether the test may take its time (HOLDFAST_TEST_DEEP=1). */
bool test_is_deep(void);

/* Returns the true CLOCK_BOOTTIME (faults.h), in ns. */
int64_t boottime_now(void);
void sleep_ms(int64_t duration_ms);

/* Returns the processor time of the thread that runs the agent's loop; 0: there is no agent. The
 * kernel may add up to a tick of it later. */
int64_t agent_loop_ns(const struct agent_process *agent);

/* Returns how long the present threads of a process were ready to run and had no processor, summed
 * up, in ns. 0: the kernel does not tell. */
int64_t process_unserved_ns(pid_t pid);

/* Like fork(), for a child that dies with this process. */
pid_t fork_tied(void);

/* Waits for the end of a child, at most twice GUARD_MS. Returns its status, as waitpid() has it. */
int wait_for(pid_t pid);
/* Like wait_for(), for at most guard_ms. */
int wait_for_long(pid_t pid, unsigned guard_ms);

/* Sends SIGKILL, and waits for the end. */
void kill_process(pid_t pid);

/* Finds ports of 127.0.0.1 that only this test has (tests/free_port.h). */
void agent_free_ports(unsigned *ports, unsigned count);

#endif
