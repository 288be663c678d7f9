/*
 * Region upkeep: making, adopting, giving up the shared-memory objects of this agent.
 *
 * All that an agent has in /dev/shm is in one folder of its own, 0700, so that nobody else can list
 * it or look anything up there: who lists a folder can keep its lock (docs/SECURITY.md, "Locks of
 * the kernel that a client can keep"). Each region that is made is the one object in a folder of
 * its own in there, `NAMESPACE.INCARNATION/region`: a removal that waits for the object's lock
 * keeps that of a folder in which nothing else happens. Nothing here waits for a lock of an object
 * that a client has had: such a one is opened, looked at, mapped and closed; it is removed, cut and
 * emptied by io/remover.h.
 *
 * A region is a file there, mode 0600; clients get its descriptor over the socket.
 *
 * A region has all its memory from the moment it is made: the first touch of a page for which
 * /dev/shm, where everybody may write, has no room would raise SIGBUS, here and in each client. One
 * that is adopted with holes (an earlier release's, or punched) gets what is missing if there is
 * room.
 *
 * A process that has a region may truncate it, or punch holes. Touching what is gone raises SIGBUS;
 * the handler here maps zero pages over the whole mapping and notes that the region is rubbish
 * (region_file_fault). A hole that somebody punched and nobody refilled yet is found by the memory
 * that the object has. An access that cannot be explained that way ends the process as it would
 * have without the handler. Since a signal handler has no argument, the list of mappings is this
 * file's one global.
 *
 * One thread, but for region_file_make(). Errors are one line of text: what, where, what was
 * expected.
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
    REGION_FOLDER_MAX = 128,             /* of a cell's, an agent's and a store's name */
    REGION_OWN_MAX = HFI_LABEL_MAX + 18, /* NAMESPACE.INCARNATION */
    REGION_ABANDONED_MAX = 4,            /* of a namespace, see region_file_abandon() */
    REGION_FILES_MAX = 70 + 64 * REGION_ABANDONED_MAX, /* that are mapped at once */
    REGION_SLACK = 64 << 20, /* bytes that one may have behind its end, or a piece of its memory */
};

/* What is wrong with a region. */
enum region_fault {
    REGION_SOUND = 0,
    REGION_HEADER,   /* what never changes in its header was changed: region_file_mend() */
    REGION_CUT,      /* it has another size */
    REGION_SWOLLEN,  /* somebody put memory behind its end. Removing that memory blocks every
                      * process that touches the region meanwhile: 0.25 s for each GiB */
    REGION_PUNCHED,  /* memory that it had is gone */
    REGION_ROOMLESS, /* a page that had no memory was touched, and could not be had */
    REGION_HELD,     /* somebody makes each touch of it wait; region_file_fault() cannot tell */
};

struct region_file {
    struct hfi_region region;
    void *memory;    /* NULL: not mapped */
    int fd;          /* for clients too */
    int watched;     /* its place in the handler's list */
    uint64_t blocks; /* of 512 bytes: its memory when it was made or adopted */
    unsigned char made[offsetof(struct hfi_header, lease)]; /* what never changes in its header */
    char shm_name[REGION_NAME_MAX]; /* where it is in /dev/shm; begins with a slash */
    char own_name[REGION_OWN_MAX];  /* of its folder, in the agent's */
    char namespace_name[HFI_LABEL_MAX + 1];
};

/* Sets all fields to -1 and NULL: nothing is open. */
void region_file_init(struct region_file *file);

/* Sets out to the name in /dev/shm of that agent's folder. The name begins with a slash. */
void region_folder_name(const struct hfi_region_identity *identity, char out[REGION_FOLDER_MAX]);
/* Sets out to the name, in the agent's folder, of the folder of one region. */
void region_own_name(const char *space, uint64_t incarnation, char out[REGION_OWN_MAX]);

/* Installs the SIGBUS handler, once. */
bool region_file_guard(void) __attribute__((warn_unused_result));

/* Makes a region, with a folder of its own in that one. Without room for all of it,
 * error says how much it takes, and what to do. */
bool region_file_create(struct region_file *file, int folder, const struct hfi_region_sizes *sizes,
                        const struct hfi_region_identity *identity, char *error)
    __attribute__((warn_unused_result));

/* Do the two halves of region_file_create(). region_file_make() takes long (15 ms for 27 MiB), and
 * any thread may call it. What it made may only go to region_file_take(), which replaces what is
 * open in `file` by it, or to region_file_drop(), which removes it again. */
bool region_file_make(struct region_file *made, int folder, const struct hfi_region_sizes *sizes,
                      const struct hfi_region_identity *identity, char *error)
    __attribute__((warn_unused_result));
void region_file_take(struct region_file *file, struct region_file *made);
void region_file_drop(struct region_file *made, int folder);

/* Which layout (HFI_REGION_VERSION) an object of this user's has, as its first bytes say; 0: it is
 * not there, or no region. The other one: of a release before, which had no folder. */
uint32_t region_file_layout(int folder, const char *own_name);
uint32_t region_flat_layout(const char *shm_name);

/*
 * Opens the region that was left under that identity's name and incarnation, if it is the one that
 * belongs to it: owner, mode, size, and everything else in identity. false: error says why not. It
 * may have holes afterwards still: region_file_missing().
 */
bool region_file_adopt(struct region_file *file, int folder, const struct hfi_region_sizes *sizes,
                       const struct hfi_region_identity *identity, char *error)
    __attribute__((warn_unused_result));

/* Both calls unmap the region and close its descriptor. The object stays for the next agent. */
void region_file_close(struct region_file *file);
void region_file_leave(struct region_file *file);

/*
 * Zeros take the place of what is mapped, which is never touched or unmapped again: both may wait
 * for as long as a client likes. Other threads may still be at it. file->region is another one
 * afterwards. false: there is no memory, and nothing was done. The mapping that is left behind
 * stays until the process ends: REGION_ABANDONED_MAX of a namespace, of which the caller keeps
 * count.
 */
bool region_file_abandon(struct region_file *file) __attribute__((warn_unused_result));

/* Gives back the memory of what has only zeros in it, which adopting takes again. Nobody else may
 * map it: what is written meanwhile is lost. */
void region_file_slim(const struct region_file *file);

/* Returns the number of bytes of the region that have no memory yet. */
uint64_t region_file_missing(const struct region_file *file);

/* Calls touch(arg), which touches regions and leaves nothing else half done if it is cut short.
 * Returns false if a page was gone and touch() was cut short. The mapping stays as it is. Any
 * thread may call this. */
bool region_try(void (*touch)(void *arg), void *arg);

/* Returns whether a page of the region was gone when it was touched. */
bool region_file_is_rubbish(const struct region_file *file);

/* Returns what is wrong with the region, at the cost of one system call. If this returns
 * REGION_SOUND, what was read before is not the zeros of the SIGBUS handler. */
enum region_fault region_file_fault(const struct region_file *file);
/* Writes what never changes into the region's header again. */
void region_file_mend(struct region_file *file);

#endif
