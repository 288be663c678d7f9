/*
 * A server process of a peer. It starts with its own folder and log, and as another user if it
 * refuses root. The bench ends it by its process id, and reads about it and its children in /proc.
 *
 * A server has a process group of its own, so that the terminal's ^C reaches only the bench. It is
 * killed when the bench dies. Functions that return int return -1 after complain().
 */
#ifndef PEERS_SERVER_H
#define PEERS_SERVER_H

#include <sys/types.h>

#include "../measure.h"

enum { SERVER_PATH_MAX = 192, SERVER_ARGS_MAX = 40, SERVER_TEXT_MAX = 4096 };

struct server {
    pid_t pid;                       /* 0: it does not run */
    char directory[SERVER_PATH_MAX]; /* the server's own folder, on the disk that is measured */
    /* the server's user; NULL: the user of the bench. Only used if the bench runs as root */
    const char *user;
    unsigned port; /* for the peer's own use */
    /* the program and its arguments, each with a final zero byte */
    char text[SERVER_TEXT_MAX];
    size_t arg_count;
    size_t text_size;
};

/* Makes the folder BELOW/NAME for the server. The folder belongs to `user` (a static text, or
 * NULL). */
int server_prepare(struct server *server, const char *below, const char *name,
                   const char *user) MUST_CHECK;

/* Adds one word to the command. The first word is the program, which is searched in PATH. */
int server_arg(struct server *server, const char *format, ...) PRINTF_LIKE(2, 3) MUST_CHECK;

/* Starts the command in the server's folder; its output goes to server.log there. An ended server
 * can be started again. */
int server_launch(struct server *server) MUST_CHECK;

/* Runs the command until it ends (initdb and the like). Returns -1 unless its exit status is 0. */
int server_run(struct server *server) MUST_CHECK;

/* Returns whether the server runs. If it has ended by itself, prints the end of its log. */
bool server_lives(struct server *server);

/* server_kill() sends SIGKILL to the server and all its children. server_end() sends a signal, and
 * SIGKILL if the server has not ended 10 s later. */
void server_kill(struct server *server);
void server_end(struct server *server, int signal_number);

/* Removes a folder and everything below it. Does nothing for an empty path. */
void directory_remove(const char *path);

/* Fills in the process and its descendants. Returns how many these are. */
size_t process_family(pid_t pid, pid_t *family, size_t max);

/* Returns the processor time in ns of a process, its living descendants, and their ended children
 * for which they waited. */
int64_t process_cpu_ns(pid_t pid);

/* Returns the memory of a process and its children in bytes: memory without a file, and shared
 * memory (Pss of these mappings, from smaps_rollup). */
int64_t process_memory(pid_t pid);

/* Finds `count` different free TCP ports on the loopback. */
int ports_choose(unsigned *ports, size_t count) MUST_CHECK;

/* Returns whether a program is in PATH. */
bool program_exists(const char *name);

#endif
