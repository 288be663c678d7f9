/*
 * Lifelines: a file for each client, in state_dir/clients, named by its first holder id.
 *
 * The client keeps a POSIX read lock on the first byte for as long as it lives; the kernel drops it
 * at its death, whatever pid namespace it is in, whether an agent runs or not. The agent that made
 * the file wrote into it who the client is, so that the next agent can tell. The format is lines of
 * text, only ever appended to; a last line without its newline does not count:
 *
 *   pid 4711
 *   uid 1000
 *   nonce 00f1e2d3c4b5a697
 *   command sh -c make
 *   holder 5            (one line for each of its holder ids, its own first)
 *
 * One thread. Errors: errno.
 */
#ifndef IO_LIFELINE_H
#define IO_LIFELINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "proto/frame.h"

struct lifeline {
    uint32_t client; /* the file's name */
    pid_t pid;
    uid_t uid;
    uint64_t nonce;
    char command[HFI_FRAME_COMMAND_MAX + 1];
    uint32_t *holders; /* in the order of the file; for lifeline_free() */
    uint32_t holder_count;
};

enum lifeline_lock { LIFELINE_FREE = 0, LIFELINE_LOCKED, LIFELINE_MISSING };

/* Makes the file anew (what had its name goes), with holders left out: lifeline_add() them. */
bool lifeline_create(int directory, const struct lifeline *lifeline)
    __attribute__((warn_unused_result));

bool lifeline_add(int directory, uint32_t client, uint32_t holder)
    __attribute__((warn_unused_result));

/* The descriptor for the client: read-only. -1: errno. */
int lifeline_open(int directory, uint32_t client) __attribute__((warn_unused_result));

void lifeline_remove(int directory, uint32_t client);

/* Reads the file. false: there is none, or it makes no sense. */
bool lifeline_read(int directory, uint32_t client, struct lifeline *out)
    __attribute__((warn_unused_result));
void lifeline_free(struct lifeline *lifeline);

/* Whether its client holds the lock. *pid: the holder's, 0 if it cannot be seen from here. */
enum lifeline_lock lifeline_look(int directory, uint32_t client, pid_t *pid);

/* Calls visit for each file that is named like a lifeline; it may remove it. false: errno. */
bool lifeline_each(int directory, void (*visit)(void *arg, uint32_t client), void *arg)
    __attribute__((warn_unused_result));

#endif
