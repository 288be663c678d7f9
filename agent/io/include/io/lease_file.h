/*
 * The lease record: until when the session of this agent may have been promised to clients.
 *
 * It must survive a killed agent, not a reboot, after which no client is left to have been
 * promised anything (the boot id tells). So it is a page of shared memory beside the regions,
 * written before each promise: a mapped file would have the kernel write that page to the disk
 * twice a minute, also when nobody wants anything. The file `lease` in state_dir is written once
 * a session: which epoch it was is still known there when store or shared memory are lost. A
 * write that a kill tore apart reads as "no session".
 */
#ifndef IO_LEASE_FILE_H
#define IO_LEASE_FILE_H

#include <stdbool.h>
#include <stdint.h>

struct lease_file_content;

struct lease_file {
    struct lease_file_content *disk;   /* mapped */
    struct lease_file_content *shared; /* mapped; NULL until lease_file_share() */
};

struct lease_record {
    uint8_t boot_id[16];
    uint32_t epoch;      /* 0: no session */
    int64_t deadline_ns; /* BOOTTIME */
};

/* Opens or makes the file (0600) and tells what was written there when that session began, or by
 * an agent of before, which wrote every promise there. false: errno. */
bool lease_file_open(struct lease_file *file, int directory, struct lease_record *found)
    __attribute__((warn_unused_result));

/*
 * Opens or makes the page of shared memory of that name, and makes *found what was promised
 * last: what stands there, if it is of the epoch and the boot that *found, from the file, has.
 * false: errno; EPERM: an object of that name is another user's, or open to others.
 */
bool lease_file_share(struct lease_file *file, const char *shm_name, struct lease_record *found)
    __attribute__((warn_unused_result));
void lease_file_close(struct lease_file *file);

/* Before anybody is told that deadline of that epoch. */
void lease_file_write(struct lease_file *file, const struct lease_record *record);

#endif
