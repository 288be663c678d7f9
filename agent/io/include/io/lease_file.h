/*
 * The lease file: until when the session of this agent may have been promised to clients.
 *
 * It is mapped and written before each promise, and never flushed: it must survive a killed agent,
 * not a reboot, after which no client is left to have been promised anything (the boot id tells).
 * A write that a kill tore apart reads as "no session".
 */
#ifndef IO_LEASE_FILE_H
#define IO_LEASE_FILE_H

#include <stdbool.h>
#include <stdint.h>

struct lease_file_content;

struct lease_file {
    struct lease_file_content *content; /* mapped */
};

struct lease_record {
    uint8_t boot_id[16];
    uint32_t epoch;      /* 0: no session */
    int64_t deadline_ns; /* BOOTTIME */
};

/* Opens or makes the file (0600) and tells what the agent before this one left. false: errno. */
bool lease_file_open(struct lease_file *file, int directory, struct lease_record *found)
    __attribute__((warn_unused_result));
void lease_file_close(struct lease_file *file);

/* Before anybody is told that deadline of that epoch. */
void lease_file_write(struct lease_file *file, const struct lease_record *record);

#endif
