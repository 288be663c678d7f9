/*
 * The lease record: the latest deadline of this agent's session that clients may have received.
 *
 * The record must survive the end of the agent, but not a reboot, after which no client is left
 * (the record has the boot id). So it is a page of shared memory beside the regions, and is written
 * before each promise. A file on a disk is no alternative: the kernel would write the mapped page
 * to the disk twice a minute, even in an idle cell.
 *
 * The file `lease` in state_dir is written once for each session, so that the epoch is known even
 * if the store or the shared memory is lost. It is written once more at an orderly end, for older
 * releases, which do not know the page. If a kill tears a write apart, the record reads as "no
 * session".
 *
 * In the shared memory behind the page lie the kept requests of this host (core/host/kept.c), the
 * noted lock-delays (core/host/delays.c) and the notes of each region (core/host/regions.c). A part
 * is used only if the agent that wrote the last deadline also wrote that part. An older release
 * that ran in between writes the deadline but not the part, and so makes the part stale.
 *
 * Last comes the number of the store's last commit. A store with a lower number is an old copy, and
 * may not know the present lock of each slot, so no session goes on with it. Older releases kept
 * that number in the regions' headers, where every client can write.
 *
 * Beside the deadline the page has the grace period and the time namespace of the agent that wrote
 * it. So another agent can tell when the session is over (lease_file_read()).
 *
 * No client maps this memory. Each release added its part behind those of older releases, so every
 * release finds its own parts.
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

/* How many entries each part behind the deadline has. */
struct lease_file_room {
    uint32_t kept;
    uint32_t delays;
    uint32_t regions;
};

struct lease_file {
    struct lease_file_content *disk;  /* mapped */
    struct lease_file_shared *shared; /* mapped; NULL until lease_file_share() */
    struct host_kept *kept;           /* points into `shared`; NULL if room.kept is 0 */
    struct lease_file_delays *noted;  /* points into `shared`; NULL if room.delays is 0 */
    _Atomic uint16_t *delays_ms;      /* points into `noted` */
    struct lease_file_notes *notes;   /* points into `shared`; NULL if room.regions is 0 */
    struct host_region_note *regions; /* points into `notes`; has room.regions entries */
    bool counts;                      /* the page has a deadline of the file's session, and
                                       * lease_file_share() returned that deadline in *found */
    bool regions_count; /* the agent that wrote the page's deadline also wrote the notes of the
                         * regions */
    struct lease_file_room room;
    int64_t grace_ns; /* lease_file_write() writes it beside each deadline; the caller sets it */
    uint64_t space;   /* the clock_space() of this process; written and set like grace_ns */
};

struct lease_record {
    uint8_t boot_id[16];
    uint32_t epoch;      /* 0: the record has no session */
    int64_t deadline_ns; /* a time of CLOCK_BOOTTIME */
};

/* Opens the file, or makes it (0600). Reads the record that was written when the session began, or
 * at an orderly end (older releases wrote every deadline into the file). On failure returns false
 * with errno. */
bool lease_file_open(struct lease_file *file, int directory, struct lease_record *found)
    __attribute__((warn_unused_result));

/*
 * Opens or makes the page of that name in folder, with at least the given room. *found is the
 * record that lease_file_open() read. If the page has a deadline of the same epoch and boot, and
 * that deadline is not earlier, *found receives it. On failure returns false with errno. EPERM: the
 * page belongs to another user, or other users may use it.
 */
bool lease_file_share(struct lease_file *file, int folder, const char *name,
                      const struct lease_file_room *room, struct lease_record *found)
    __attribute__((warn_unused_result));
/* Makes the next agent use the notes of the regions, even if this agent is killed before it writes
 * a deadline. Called when the caller has written the notes that the previous agent, of an older
 * release, did not write. */
void lease_file_count_notes(struct lease_file *file);
/* Returns the number of the last commit that was noted; 0 if none was. */
uint64_t lease_file_commit(const struct lease_file *file);
/* Notes the number of a commit. Called before any effect of the commit shows in a region. */
void lease_file_note_commit(struct lease_file *file, uint64_t commit);

/* Writes the last deadline to the file, and closes the file and the page. */
void lease_file_close(struct lease_file *file);

/* Another agent's last session, according to that agent's page. */
struct lease_file_past {
    struct lease_record record; /* epoch 0: the page has no session */
    int64_t grace_ns;           /* -1: not known */
    uint64_t space;             /* the clock_space() of the agent that wrote the deadline */
    int64_t delay_ms;           /* the longest lock-delay that is noted; -1: not known */
};

/* Reads the page of that name in a folder that no agent serves, without changing the page. In
 * `room` only kept and delays are used: the sizes of the lock-delays' part and of the part before
 * it. Returns false if this user has no such page. */
bool lease_file_read(int folder, const char *name, const struct lease_file_room *room,
                     struct lease_file_past *past) __attribute__((warn_unused_result));

/* Records a deadline of an epoch. Called before a client receives that deadline. */
void lease_file_write(struct lease_file *file, const struct lease_record *record);

#endif
