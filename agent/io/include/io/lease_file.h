/*
 * The lease record: until when the session of this agent may have been promised to clients.
 *
 * It must survive a killed agent, not a reboot, after which no client is left to have been
 * promised anything (the boot id tells). So it is a page of shared memory beside the regions,
 * written before each promise: a mapped file would have the kernel write that page to the disk
 * twice a minute, also when nobody wants anything. The file `lease` in state_dir is written once
 * a session: which epoch it was is still known there when store or shared memory are lost; and
 * once more at an orderly end, for an agent of an older release, which knows no page. A write that
 * a kill tore apart reads as "no session".
 *
 * Behind the page lies what is kept of this host's requests (core/host/kept.c), the lock-delays
 * that are noted (core/host/delays.c), and what is noted of each region (core/host/regions.c). They
 * count if the agent that wrote the last deadline wrote them too: one of an older release, in
 * between, leaves them as they were.
 *
 * Last comes the number of the store's last commit: a store that is behind it is an old copy, which
 * need not know which slot is which lock now, so no session goes on with it. An older release wrote
 * that into the regions' headers, where every client may write.
 *
 * No client maps the page. Each part is behind those of releases before, so that every release
 * finds its own.
 */
#ifndef IO_LEASE_FILE_H
#define IO_LEASE_FILE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/host.h"

struct lease_file_content;
struct lease_file_shared;
struct lease_file_delays;
struct lease_file_notes;

/* The room that is wanted behind the deadline. */
struct lease_file_room {
    uint32_t kept;
    uint32_t delays;
    uint32_t regions;
};

struct lease_file {
    struct lease_file_content *disk;  /* mapped */
    struct lease_file_shared *shared; /* mapped; NULL until lease_file_share() */
    struct host_kept *kept;           /* in it; NULL: none were asked for */
    struct lease_file_delays *noted;  /* in it; NULL: none were asked for */
    _Atomic uint16_t *delays_ms;      /* in that */
    struct lease_file_notes *notes;   /* in it; NULL: none were asked for */
    struct host_region_note *regions; /* in that; room.regions of them */
    bool counts;                      /* *found is from the page: the last deadline is known */
    bool regions_count; /* the notes of the regions are of the agent that wrote that deadline */
    struct lease_file_room room;
};

struct lease_record {
    uint8_t boot_id[16];
    uint32_t epoch;      /* 0: no session */
    int64_t deadline_ns; /* BOOTTIME */
};

/* Opens or makes the file (0600) and reads what was written there when that session began, or by an
 * agent of before, which wrote every promise there. false: errno. */
bool lease_file_open(struct lease_file *file, int directory, struct lease_record *found)
    __attribute__((warn_unused_result));

/*
 * Opens or makes the page of shared memory of that name in folder, with that room behind it, and
 * reads into *found the last promise: the one of the page, if it is of the epoch and the boot that
 * *found has from the file. false: errno; EPERM: an object of that name is another user's, or
 * others may use it.
 */
bool lease_file_share(struct lease_file *file, int folder, const char *name,
                      const struct lease_file_room *room, struct lease_record *found)
    __attribute__((warn_unused_result));
/* From now on the notes of the regions count, if they did not, even if a kill comes before the next
 * deadline. Call it when they have all that the agent before may have left. */
void lease_file_count_notes(struct lease_file *file);
/* The last commit that was noted; 0: none was. */
uint64_t lease_file_commit(const struct lease_file *file);
/* Before anything that the commit lets happen in a region. */
void lease_file_note_commit(struct lease_file *file, uint64_t commit);

/* Nothing is promised any more. Leaves the last deadline in the file. */
void lease_file_close(struct lease_file *file);

/* Call it before anybody gets that deadline of that epoch. */
void lease_file_write(struct lease_file *file, const struct lease_record *record);

#endif
