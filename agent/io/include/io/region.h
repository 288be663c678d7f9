/*
 * Region upkeep: making, adopting and giving up the shared-memory objects of this agent.
 *
 * Everything that an agent has in /dev/shm is in one folder of its own, with mode 0700. So no other
 * user can list that folder or look anything up in it. That matters because a process that lists a
 * folder can keep the folder's lock (docs/SECURITY.md, "Locks of the kernel that a client can
 * keep").
 *
 * Each region is the only object in a subfolder, `NAMESPACE.INCARNATION/region`. A removal that
 * waits for the object's lock keeps the lock of the subfolder, so the subfolder must hold nothing
 * else. Nothing here waits for the lock of an object that a client has had: such an object is only
 * opened, examined, mapped and closed here. io/remover.h removes, cuts and empties it.
 *
 * A region is a file with mode 0600; clients get its descriptor over the socket.
 *
 * A region has all its memory from the moment it is made. Every user may fill /dev/shm. After that,
 * the first touch of a page without memory would raise SIGBUS, here and in each client. A region
 * that is adopted with holes (an earlier release left them, or a process punched them) gets the
 * missing memory if there is room.
 *
 * A process that has a region may truncate it, or punch holes. Touching a missing page raises
 * SIGBUS. The handler in region.c then maps zero pages over the whole mapping and notes that the
 * region cannot be used (region_file_fault). A hole that was punched and not refilled yet shows in
 * the amount of memory that the object has. A SIGBUS for another reason ends the process, as it
 * would without the handler. A signal handler has no argument, so the list of mappings is a global
 * of region.c.
 *
 * Only one thread may call these functions, except region_file_make() and region_try(). An error is
 * one line of text: what was found, where, and what was expected.
 */
#ifndef IO_REGION_H
#define IO_REGION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/region.h"

enum {
    REGION_ERROR_MAX = 512,
    REGION_NAME_MAX = 200,
    REGION_FOLDER_MAX = 128,             /* room for the names of the cell, the agent and the
                                          * store */
    REGION_OWN_MAX = HFI_LABEL_MAX + 18, /* room for NAMESPACE.INCARNATION */
    REGION_ABANDONED_MAX = 4,            /* how many regions of a namespace may be abandoned: see
                                          * region_file_abandon() */
    REGION_FILES_MAX = 70 + 64 * REGION_ABANDONED_MAX, /* the most regions that are mapped at
                                                        * once */
    REGION_SLACK = 64 << 20, /* bytes of memory that a region may have behind its end */
};

/* The faults that a region can have. */
enum region_fault {
    REGION_SOUND = 0,
    REGION_HEADER,   /* a constant field of the header was changed, which region_file_mend()
                      * repairs */
    REGION_CUT,      /* the object has another size */
    REGION_SWOLLEN,  /* a process allocated memory behind the region's end. Removing that memory
                      * blocks every process that touches the region meanwhile: 0.25 s for each
                      * GiB */
    REGION_PUNCHED,  /* memory that the region had is gone */
    REGION_ROOMLESS, /* a page without memory was touched, and /dev/shm had no room for that page */
    REGION_HELD,     /* a process makes each touch of the region wait; region_file_fault() cannot
                      * detect this */
};

struct region_file {
    struct hfi_region region;
    void *memory;    /* NULL: the region is not mapped */
    int fd;          /* this descriptor is also sent to clients */
    int watched;     /* the mapping's index in the SIGBUS handler's list */
    uint64_t blocks; /* the region's memory when it was made or adopted, in blocks of 512 bytes */
    unsigned char made[offsetof(struct hfi_header, lease)]; /* the constant fields of the region's
                                                             * header */
    char shm_name[REGION_NAME_MAX]; /* the region's path in /dev/shm; begins with a slash */
    char own_name[REGION_OWN_MAX];  /* the name of the region's folder, within the agent's folder */
    char namespace_name[HFI_LABEL_MAX + 1];
};

/* Sets all fields to -1 or NULL: nothing is open. */
void region_file_init(struct region_file *file);

/* Writes the name of the agent's folder in /dev/shm to out. The name begins with a slash. */
void region_folder_name(const struct hfi_region_identity *identity, char out[REGION_FOLDER_MAX]);
/* Writes the name of one region's folder, within the agent's folder, to out. */
void region_own_name(const char *space, uint64_t incarnation, char out[REGION_OWN_MAX]);

/* Installs the SIGBUS handler; later calls do nothing. */
bool region_file_guard(void) __attribute__((warn_unused_result));

/* Makes a region, in a new folder within the agent's folder. If /dev/shm has no room for the whole
 * region, error says how many bytes are needed, and how to get them. */
bool region_file_create(struct region_file *file, int folder, const struct hfi_region_sizes *sizes,
                        const struct hfi_region_identity *identity, char *error)
    __attribute__((warn_unused_result));

/* These functions do the two halves of region_file_create(). region_file_make() takes long (15 ms
 * for 27 MiB), and any thread may call it. The region that it made must be passed to one of two
 * functions: region_file_take(), which replaces the region that is open in `file`, or
 * region_file_drop(), which removes the new region again. */
bool region_file_make(struct region_file *made, int folder, const struct hfi_region_sizes *sizes,
                      const struct hfi_region_identity *identity, char *error)
    __attribute__((warn_unused_result));
void region_file_take(struct region_file *file, struct region_file *made);
void region_file_drop(struct region_file *made, int folder);

/* Returns the layout (HFI_REGION_VERSION) in the first bytes of a region that belongs to this user;
 * 0: it does not exist, or is not a region. region_flat_layout() is for a region of an earlier
 * release, which had no folder. */
uint32_t region_file_layout(int folder, const char *own_name);
uint32_t region_flat_layout(const char *shm_name);

/*
 * Opens the region that a previous agent left under that identity's name and incarnation. Its
 * owner, mode, size and constant fields must be those that this agent would give it. Returns false
 * if they are not, and error says why. The region may still have holes afterwards, which
 * region_file_missing() reports.
 */
bool region_file_adopt(struct region_file *file, int folder, const struct hfi_region_sizes *sizes,
                       const struct hfi_region_identity *identity, char *error)
    __attribute__((warn_unused_result));

/* Unmap the region and close its descriptor; the two functions do the same. The object stays for
 * the next agent. */
void region_file_close(struct region_file *file);
void region_file_leave(struct region_file *file);

/*
 * Abandons the mapping of the region: the agent never touches or unmaps it again, because a client
 * could make a touch or an unmapping wait for as long as it likes. Other threads may still be using
 * the old mapping. Afterwards file->region points to a new mapping of zeros. If there is no memory,
 * returns false and changes nothing. The old mapping stays until the process ends, so a namespace
 * may have only REGION_ABANDONED_MAX abandoned mappings. The caller counts the mappings.
 */
bool region_file_abandon(struct region_file *file) __attribute__((warn_unused_result));

/* Gives back the memory of pages that have only zeros; adopting the region allocates it again. No
 * other process may have the region mapped, because its writes to such a page during the call would
 * be lost. */
void region_file_slim(const struct region_file *file);

/* Returns the number of bytes of the region that have no memory yet. */
uint64_t region_file_missing(const struct region_file *file);

/* Calls touch(arg), which reads or writes regions. If a page is missing, touch() is cut short at
 * that point, and this call returns false. So touch() must change nothing but regions. The mapping
 * stays as it is. Any thread may call this. */
bool region_try(void (*touch)(void *arg), void *arg);

/* Returns whether a page of the region was missing when it was touched. */
bool region_file_is_rubbish(const struct region_file *file);

/* Returns what is wrong with the region, at the cost of one system call. If it returns
 * REGION_SOUND, everything read before came from the region, not from the zero pages of the SIGBUS
 * handler. */
enum region_fault region_file_fault(const struct region_file *file);
/* Writes the constant fields into the region's header again. */
void region_file_mend(struct region_file *file);

#endif
