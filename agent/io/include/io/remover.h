/*
 * A process beside the agent (io/beside.h) that makes those calls in /dev/shm that may wait for
 * ever.
 *
 * The kernel keeps the lock of a file or folder while it copies from or to a caller's memory, and
 * the pages of that memory need not come (docs/SECURITY.md, "Locks of the kernel that a client can
 * keep"). So a client can keep the lock of its region, and any user the lock of /dev/shm, for as
 * long as they like. To remove, cut, empty or make a file there waits for such a lock, and not even
 * SIGKILL ends the wait. So a child of this process makes each such call.
 *
 * This process and the one of io/closer.h are two, so that a stuck close delays no removal, and
 * each has a filter of only the system calls that it needs.
 *
 * Removals are counted for each space, so that stuck removals of one namespace take no children
 * from another. At most REMOVER_PER_SPACE children work for a space, REMOVER_CHILDREN in all; other
 * removals wait for a child to end. When the agent is gone the process begins what it can, and
 * ends.
 *
 * The functions are for one thread.
 */
#ifndef IO_REMOVER_H
#define IO_REMOVER_H

#include <stdbool.h>
#include <stdint.h>

enum {
    REMOVER_SPACES = 65, /* one for each namespace, and one for regions of none */
    REMOVER_PER_SPACE = 4,
    REMOVER_CHILDREN = 64,
    REMOVER_WAITING = 1024, /* removals that wait; the process takes no more */
    REMOVER_PATH_MAX = 256,
};

/* What is removed. A file of another user is left alone. */
enum remover_kind {
    REMOVER_FOLDER,  /* a folder with the object `region` in it */
    REMOVER_EMPTIED, /* the same; before, the object's memory behind the region's header is given
                      * back, and it gets the size that it had: who maps it is to read zeros, rather
                      * than to die of what is gone. A client may have it open for ever */
    REMOVER_FLAT,    /* an object of an earlier release, and what lay beside it */
};

struct remover;

/* Starts the process. arguments: as in beside_start(). On failure returns NULL with errno. */
struct remover *remover_open(char **arguments) __attribute__((warn_unused_result));

/*
 * Opens a folder of /dev/shm, and makes it (0700) if it is not there. Waits for at most timeout_ms.
 * lock: a descriptor that may be locked (flock), opened for this call. While an earlier call still
 * waits for that folder, also a previous agent's, the descriptor's file stays locked, and this
 * call begins no second one. -1: errno; ETIMEDOUT: some process keeps the lock of /dev/shm; ECHILD:
 * the process has ended; ETOOMANYREFS: too many descriptors of this user are on their way.
 */
int remover_open_folder(struct remover *remover, const char *path, int lock, int timeout_ms)
    __attribute__((warn_unused_result));

/*
 * Has a child map that object and touch each page of it, and waits for the child. The caller does
 * not touch the pages itself, since a client can block whoever does, for as long as it likes.
 * Returns false if the child is stuck (io/stuck.h); the child is then left alone. Returns true if
 * all pages were touched, or the object is missing or not whole.
 */
bool remover_reaches(struct remover *remover, const char *path, uint64_t size)
    __attribute__((warn_unused_result));

/* Has the object removed at some later time. Does not block. `size` is for REMOVER_EMPTIED. Returns
 * false if too much waits or the process has ended: then the object stays until the next call. */
bool remover_remove(struct remover *remover, uint32_t space, enum remover_kind kind,
                    const char *path, uint64_t size) __attribute__((warn_unused_result));

/* Returns the number of that space's removals that are not done, as the process last reported. */
uint32_t remover_waiting(struct remover *remover, uint32_t space);

/* Returns whether the process ended by itself (was killed). */
bool remover_ended(const struct remover *remover);

/* Makes the process end at some later time. NULL is allowed. */
void remover_close(struct remover *remover);

#endif
