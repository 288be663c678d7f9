/*
 * Client records: a file for each client, in state_dir/clients, named by its first holder id.
 *
 * Only agents open them. An agent writes them so that the next agent knows which process each
 * client is. The format is lines of text, and lines are only appended. A last line without its
 * newline is ignored:
 *
 *   pid 4711
 *   uid 1000
 *   nonce 00f1e2d3c4b5a697
 *   inode 27641          (of its pidfd; this line and the next: see struct peer_process)
 *   start 123456
 *   numbers 4026531836   (the pid namespace in which pid is its number; 0: not known)
 *   boot 0123...         (32 hexadecimal digits)
 *   command sh -c make
 *   holder 5             (one line for each of its holder ids, the first id first)
 *
 * When the next agent reads a record, another process may have the same pid. The lines inode and
 * start tell the two processes apart (processes.h). Records of older releases have neither line.
 *
 * Only one thread may call these functions. On failure they leave errno set.
 */
#ifndef IO_CLIENT_RECORD_H
#define IO_CLIENT_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "io/peer.h"
#include "proto/frame.h"

struct client_record {
    uint32_t client; /* the number in the file's name */
    pid_t pid;       /* 0: the agent that wrote the record could not see the process */
    uid_t uid;
    uint64_t nonce;
    struct peer_process process;
    uint64_t numbers; /* the pid namespace in which pid is its number; 0: not known */
    uint8_t boot_id[16];
    char command[HFI_FRAME_COMMAND_MAX + 1];
    uint32_t *holders; /* the holder ids, in the order of the file; freed by client_record_free() */
    uint32_t holder_count;
};

/* Makes a record of that client, in place of any file of that name. The record has one holder id,
 * the client's number. client_record_add() adds each further holder id. */
bool client_record_create(int directory, const struct client_record *record)
    __attribute__((warn_unused_result));

/* Appends a holder id. On failure returns false with errno, and the record is unchanged. EINVAL:
 * the file is not a record. */
bool client_record_add(int directory, uint32_t client, uint32_t holder)
    __attribute__((warn_unused_result));

void client_record_remove(int directory, uint32_t client);

/* Reads the file. Returns false if it is missing or not a valid record. */
bool client_record_read(int directory, uint32_t client, struct client_record *out)
    __attribute__((warn_unused_result));
void client_record_free(struct client_record *record);

/* Calls visit for each file that has the name of a record. visit may remove the file. On failure
 * returns false with errno. */
bool client_record_each(int directory, void (*visit)(void *arg, uint32_t client), void *arg)
    __attribute__((warn_unused_result));

#endif
