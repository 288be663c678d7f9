/*
 * A server process of a peer: started with its own folder and log, as another user where it refuses
 * root, ended by its process id, and what /proc says about it and its children.
 *
 * A server is in a process group of its own (the terminal's ^C reaches the bench alone) and is
 * killed with the bench. Functions that return int return -1 after complain().
 */
#ifndef PEERS_SERVER_H
#define PEERS_SERVER_H

#include <sys/types.h>

#include "../measure.h"

enum { SERVER_PATH_MAX = 192, SERVER_ARGS_MAX = 40, SERVER_TEXT_MAX = 4096 };

struct server {
    pid_t pid;                       /* 0: does not run */
    char directory[SERVER_PATH_MAX]; /* its own, on the disk that is measured */
    const char *user;                /* NULL: as the bench itself. Only root can choose */
    unsigned port;                   /* of the peer's own use */
    char text[SERVER_TEXT_MAX];      /* program and arguments, each ended by a zero byte */
    size_t arg_count;
    size_t text_size;
};

/* Makes the folder BELOW/NAME for it, owned by that user (static text, may be NULL). */
int server_prepare(struct server *server, const char *below, const char *name,
                   const char *user) MUST_CHECK;

/* Adds one word to the command; the first is the program, looked for in PATH. */
int server_arg(struct server *server, const char *format, ...) PRINTF_LIKE(2, 3) MUST_CHECK;

/* Starts the command in its folder, with its output in server.log there. Also starts an ended
 * server again. */
int server_launch(struct server *server) MUST_CHECK;

/* Runs the command to its end (initdb and the like). Returns -1 unless it exits with 0. */
int server_run(struct server *server) MUST_CHECK;

/* Returns false once the server has ended by itself, and then prints the end of its log. */
bool server_lives(struct server *server);

/* server_kill() sends SIGKILL to the server and all its children. server_end() sends a signal, and
 * SIGKILL if the server has not ended 10 s later. */
void server_kill(struct server *server);
void server_end(struct server *server, int signal_number);

/* Removes a folder and all below it. Nothing is removed for an empty path. */
void directory_remove(const char *path);

/* Fills in a process and its descendants. Returns how many there are. */
size_t process_family(pid_t pid, pid_t *family, size_t max);

/* The processor time of a process and its children that live, in ns. */
int64_t process_cpu_ns(pid_t pid);

/* Memory of a process and its children that no file holds, and shared memory, in bytes (Pss of all
 * mappings that are no file's, from smaps_rollup). */
int64_t process_memory(pid_t pid);

/* Finds count free TCP ports on the loopback, all different. */
int ports_choose(unsigned *ports, size_t count) MUST_CHECK;

/* port_answers(): does a TCP port of the loopback accept? program_exists(): is a program in
 * PATH? */
bool port_answers(unsigned port);
bool program_exists(const char *name);

#endif
