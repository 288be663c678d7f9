/*
 * The lease record: until when the session of this agent may have been promised to clients.
 *
 * The record must survive the end of the agent, but not a reboot, after which no client is left
 * (the record has the boot id). So it is a page of shared memory beside the regions, written before
 * each promise. A mapped file would not do: the kernel would write that page to the disk twice a
 * minute, even in an idle cell. The file `lease` in state_dir is written once for each session, so
 * that the epoch is known when the store or the shared memory is lost. It is written once more at
 * an orderly end, for older releases, which do not know the page. If a kill tears a write apart,
 * the record reads as "no session".
 *
 * Behind the page lie the kept requests of this host (core/host/kept.c), the noted lock-delays
 * (core/host/delays.c) and the notes of each region (core/host/regions.c). A part counts only if
 * the agent that wrote the last deadline also wrote that part. An older release that ran in between
 * writes the deadline but not the part, which is then stale.
 *
 * Last comes the number of the store's last commit. A store that is behind it is an old copy, and
 * may not know which lock each slot is now, so no session goes on with it. Older releases kept that
 * number in the regions' headers, where every client can write.
 *
 * No client maps the page. Each release added its part behind those of older releases, so every
 * release finds its own.
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

/* The sizes of the parts behind the deadline. */
struct lease_file_room {
    uint32_t kept;
    uint32_t delays;
    uint32_t regions;
};

struct lease_file {
    struct lease_file_content *disk;  /* mapped */
    struct lease_file_shared *shared; /* mapped; NULL until lease_file_share() */
    struct host_kept *kept;           /* in shared; NULL if room.kept is 0 */
    struct lease_file_delays *noted;  /* in shared; NULL if room.delays is 0 */
    _Atomic uint16_t *delays_ms;      /* in noted */
    struct lease_file_notes *notes;   /* in shared; NULL if room.regions is 0 */
    struct host_region_note *regions; /* in notes; room.regions entries */
    bool counts;                      /* the last deadline is known: *found has it from the page */
    bool regions_count; /* the agent that wrote that deadline also wrote the notes of the regions */
    struct lease_file_room room;
};

struct lease_record {
    uint8_t boot_id[16];
    uint32_t epoch;      /* 0: the record has no session */
    int64_t deadline_ns; /* the deadline, a time of CLOCK_BOOTTIME */
};

/* Opens the file, or makes it (0600). Reads the record that was written when the session began
 * (older releases wrote every promise into the file). On failure returns false with errno. */
bool lease_file_open(struct lease_file *file, int directory, struct lease_record *found)
    __attribute__((warn_unused_result));

/*
 * Opens or makes the page of that name in folder, with the room that is asked for. If the page has
 * a promise of the epoch and boot that *found has from the file, *found receives its deadline. On
 * failure returns false with errno; EPERM: the page belongs to another user, or other users may use
 * it.
 */
bool lease_file_share(struct lease_file *file, int folder, const char *name,
                      const struct lease_file_room *room, struct lease_record *found)
    __attribute__((warn_unused_result));
/* From now on the notes of the regions count, even if the agent is killed before the next deadline.
 * To be called when the notes have everything that the previous agent may have left. */
void lease_file_count_notes(struct lease_file *file);
/* Returns the last commit that was noted; 0 if none was. */
uint64_t lease_file_commit(const struct lease_file *file);
/* Notes a commit. To be called before any effect of the commit shows in a region. */
void lease_file_note_commit(struct lease_file *file, uint64_t commit);

/* Closes the file and the page. The file then has the last deadline. */
void lease_file_close(struct lease_file *file);

/* Records a deadline of an epoch. To be called before a client receives that deadline. */
void lease_file_write(struct lease_file *file, const struct lease_record *record);

#endif
