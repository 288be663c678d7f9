/*
 * A helper process (io/beside.h) that makes the calls in /dev/shm that may wait for ever.
 *
 * The kernel keeps the lock of a file or folder while it copies from or to a caller's memory, and
 * the pages of that memory may never arrive (docs/SECURITY.md, "Locks of the kernel that a client
 * can keep"). So a client can keep the lock of its region, and any user can keep the lock of
 * /dev/shm, for as long as they like. Removing, cutting, emptying or making a file in /dev/shm
 * waits for such a lock, and not even SIGKILL ends the wait. So a child of this process makes each
 * such call.
 *
 * The closer (io/closer.h) is a separate process, so that a stuck close delays no removal, and so
 * that each process has a filter of only the system calls that it needs.
 *
 * Removals are counted for each space, so that stuck removals of one namespace take no children
 * from another namespace. At most REMOVER_PER_SPACE children work for a space, and REMOVER_CHILDREN
 * in all; other removals wait for a child to end. When the agent has ended, the process starts as
 * many children as it may, and ends.
 *
 * The functions are for one thread.
 */
#ifndef IO_REMOVER_H
#define IO_REMOVER_H

#include <stdbool.h>
#include <stdint.h>

enum {
    REMOVER_SPACES = 65, /* one for each namespace, and one for regions without a namespace */
    REMOVER_PER_SPACE = 4,
    REMOVER_CHILDREN = 64,
    REMOVER_WAITING = 1024, /* the most removals that may wait */
    REMOVER_PATH_MAX = 256,
    REMOVER_LISTED_MAX = 32, /* the most folders that one list names */
    REMOVER_ENDING_MAX = 40, /* room for what follows the prefix in a folder's name */
};

/* The kind of file that a removal removes. A file of another user is left alone. */
enum remover_kind {
    REMOVER_FOLDER,  /* a folder with the object `region` in it */
    REMOVER_EMPTIED, /* a folder with the object `region`, for an object that a client may keep open
                      * for ever. The memory behind the region's header is given back first, and the
                      * object gets its original size. So a process that still has the object mapped
                      * reads zeros and gets no SIGBUS */
    REMOVER_FLAT,    /* an object of an earlier release, and the files beside it */
};

struct remover;

/* Starts the process. arguments: as in beside_start(). On failure returns NULL with errno. */
struct remover *remover_open(char **arguments) __attribute__((warn_unused_result));

/*
 * Opens a folder of /dev/shm, and makes it (0700) if it is missing. Waits for at most timeout_ms.
 *
 * lock: the descriptor of a file, opened for this call, on which the call takes a flock(). The file
 * stays locked while a child still waits for the folder, even a child of a previous agent. While it
 * is locked this call starts no second child.
 *
 * On failure returns -1 with errno. ETIMEDOUT: some process keeps the lock of /dev/shm. ECHILD: the
 * helper process has ended. ETOOMANYREFS: too many descriptors of this user are in transit.
 */
int remover_open_folder(struct remover *remover, const char *path, int lock, int timeout_ms)
    __attribute__((warn_unused_result));

/*
 * Lets a child map that object and touch each page of it, and waits for the child. The caller does
 * not touch the pages itself, because a client can block every process that touches them for as
 * long as it likes. Returns false if the child is stuck (io/stuck.h); the child is then left alone.
 * Otherwise returns true: all pages were touched, the object is missing or too small, or no child
 * could be started.
 */
bool remover_reaches(struct remover *remover, const char *path, uint64_t size)
    __attribute__((warn_unused_result));

/* The folders of this user in /dev/shm whose names begin with a prefix. For each folder the list
 * has the rest of its name, and a descriptor. The helper opens the folders, because opening a name
 * that has vanished takes the lock of /dev/shm. */
struct remover_list {
    uint32_t count;
    char endings[REMOVER_LISTED_MAX][REMOVER_ENDING_MAX];
    int folders[REMOVER_LISTED_MAX];
};

/* Orders a list of the folders of this user whose paths begin with `prefix`, a path below /dev/shm.
 * Does not block. Returns the descriptor for remover_listed(), which the caller closes; -1: try
 * again later. */
int remover_list(struct remover *remover, const char *prefix) __attribute__((warn_unused_result));
/* Adds the folders that the helper has sent since the last call to the list, without blocking. The
 * list is empty before the first call. Returns 1 if the list is complete, 0 if more may come, and
 * -1 if no more will come. */
int remover_listed(int listing, struct remover_list *list) __attribute__((warn_unused_result));
/* Closes the descriptors of the list, and empties it. */
void remover_list_end(struct remover_list *list);

/* Orders the removal of an agent's folder in which nothing but the lease page is left. Does not
 * block. folder: the folder's descriptor, on which the caller has a flock(). The folder stays
 * locked until the removal is done, even if the caller closes the descriptor. Returns false if the
 * order could not be given. */
bool remover_remove_agent(struct remover *remover, const char *path, int folder)
    __attribute__((warn_unused_result));

/* Orders the removal of an object, which happens later. Does not block. `size` is for
 * REMOVER_EMPTIED. Returns false if too many removals wait or the process has ended. The object
 * then stays until the caller tries again. */
bool remover_remove(struct remover *remover, uint32_t space, enum remover_kind kind,
                    const char *path, uint64_t size) __attribute__((warn_unused_result));

/* Returns how many removals of that space are not done yet, as the process last reported. */
uint32_t remover_waiting(struct remover *remover, uint32_t space);

/* Returns whether the process has ended although the agent did not end it (it was killed). */
bool remover_ended(const struct remover *remover);

/* Lets the process end. Does not wait for it. NULL is allowed. */
void remover_close(struct remover *remover);

#endif
