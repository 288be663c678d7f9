/*
 * A real agent for a test: holdfastd in a folder of its own, which the test can kill and start
 * again.
 *
 * The program is $HOLDFAST_BIN_DIR/holdfastd. The agent dies with the process that started it. A
 * small process, the janitor, outlives the test and removes the folder and the agent's objects in
 * /dev/shm, so that nothing stays even if the test is killed. A failure in these functions ends the
 * caller (require.h).
 */
#ifndef TESTS_CLUSTER_AGENT_PROCESS_H
#define TESTS_CLUSTER_AGENT_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* A guard against hanging: a test counts a step that takes longer than this as stuck. */
enum { GUARD_MS = 20000 };

#define MS INT64_C(1000000)

/* Socket options that the kernel has from these versions of Linux on; see `without` below. */
enum {
    WITHOUT_PEERPIDFD = 1,  /* since Linux 6.5 */
    WITHOUT_PASSRIGHTS = 2, /* since Linux 6.16 */
};

struct agent_process {
    pid_t pid;    /* 0: the agent does not run */
    pid_t keeper; /* the process whose network and mount namespaces the agent enters (network.h);
                   * 0: none */
    bool configured;
    /* A test may set these fields between two starts: */
    const char *program; /* the program to start; NULL: $HOLDFAST_BIN_DIR/holdfastd */
    const char *preload; /* a library to preload; NULL: none */
    const char *faults;  /* the file that faults.c's library maps (faults.h); NULL: the library
                          * is not preloaded */
    unsigned host;       /* the agent's host in the file `faults` */
    const char *manager; /* the path of a service manager's socket, whose watchdog is 0.6 s;
                          * NULL: none */
    /* the WITHOUT_ options that the test hides from the agent, as if the kernel lacked them */
    unsigned without;
    bool own_pids; /* the agent runs in a pid namespace in which the other processes have
                          * no pid */
    char folder[64];
    char socket[96];
    char log[96];
    int janitor_fd; /* when the test closes it, the janitor cleans up and ends */
    pid_t janitor;
};

/*
 * Makes the agent's folder, in $HOLDFAST_TEST_BASE (at most 40 characters) or /tmp. config is the
 * text of the INI file for --config, in which every %D becomes the folder. If config is NULL, the
 * agent starts with --dev, and the folder is its state directory.
 */
void agent_create(struct agent_process *agent, const char *config);

/* Makes the agent's folder and socket accessible to every user. Must be called before the start. */
void agent_admit_all(struct agent_process *agent);

/* Writes another configuration, which the agent reads at its next start. */
void agent_configure(const struct agent_process *agent, const char *config);

/* Returns whether `without` works on this machine, which must allow filters of system calls. `what`
 * is the name of the test, for the message that the test is skipped. */
bool agent_can_be_without(const char *what);
/* Returns whether the kernel refuses to pass descriptors to the agent over its socket. */
bool agent_refuses_descriptors(const struct agent_process *agent);

/* Starts the agent, and waits until it takes connections. Must be called on the main thread. */
void agent_start(struct agent_process *agent);
/* The two steps of agent_start(). A test needs them if agents of one cell wait for each other
 * before they serve. */
void agent_launch(struct agent_process *agent);
void agent_await_socket(struct agent_process *agent);
/* Makes the janitor remove the agent's regions together with its folder. Must be called once the
 * agent has logged session_new or session_continued, but only if the test never awaits the agent's
 * socket. */
void agent_note_regions(struct agent_process *agent);
/* The resources that the agent uses: the entries of its /proc/PID/fd; its resident memory in KiB,
 * without the regions, which all processes share; the bytes of its log. */
unsigned agent_descriptors(const struct agent_process *agent);
unsigned long agent_private_kb(const struct agent_process *agent);
long agent_log_size(const struct agent_process *agent);
/* Returns whether the agent accepts connections now. */
bool agent_takes_connections(const struct agent_process *agent);

/* Sends SIGSTOP, and waits until all threads of the agent are stopped. The agent takes no further
 * step before agent_continue(). */
void agent_pause(const struct agent_process *agent);
void agent_continue(const struct agent_process *agent);

/* Sends SIGKILL, and waits for the agent's end. */
void agent_kill(struct agent_process *agent);

/* Sends SIGTERM and waits for the agent's end. Returns its status in waitpid()'s format. */
int agent_stop(struct agent_process *agent);

/* Returns the number of lines in the agent's log that contain this text. */
unsigned agent_logged(const struct agent_process *agent, const char *text);

/* Finds the path of the namespace's region file in /dev/shm. */
void agent_region_path(const struct agent_process *agent, const char *space, char *path,
                       size_t size);
/* Finds the path of the agent's folder in /dev/shm. The folder has the file `lease` and a subfolder
 * for each region. */
void agent_memory_path(const struct agent_process *agent, char *path, size_t size);

/* Kills the agent, and lets the janitor remove its folder and its objects in /dev/shm. */
void agent_destroy(struct agent_process *agent);

/* Returns the path $HOLDFAST_BIN_DIR/name, in a static buffer. */
const char *binary_path(const char *name);

/* Returns whether the test may run for long (HOLDFAST_TEST_DEEP=1). */
bool test_is_deep(void);

/* Returns CLOCK_BOOTTIME in ns, without the changes that faults.h makes. */
int64_t boottime_now(void);
void sleep_ms(int64_t duration_ms);

/* Returns the processor time of the thread that runs the agent's loop, in ns, or 0 if no agent
 * runs. The kernel may add up to one tick to that time later. */
int64_t agent_loop_ns(const struct agent_process *agent);

/* Returns the time in ns in which the present threads of a process were ready to run but had no
 * processor. It is the sum over all threads. Returns 0 if the kernel does not report it. */
int64_t process_unserved_ns(pid_t pid);

/* Like fork(), for a child that dies with this process. */
pid_t fork_tied(void);

/* Waits for the end of a child, at most twice GUARD_MS. Returns its status in waitpid()'s
 * format. */
int wait_for(pid_t pid);
/* Like wait_for(), for at most guard_ms. */
int wait_for_long(pid_t pid, unsigned guard_ms);

/* Sends SIGKILL, and waits for the process's end. */
void kill_process(pid_t pid);

/* Finds free ports of 127.0.0.1 and reserves them for this test (tests/free_port.h). */
void agent_free_ports(unsigned *ports, unsigned count);

#endif
