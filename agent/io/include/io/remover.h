/*
 * A process that does in /dev/shm what may wait for ever.
 *
 * The kernel keeps a lock of a file, or of a folder, while it copies from or to memory of a caller
 * whose pages need not come (docs/SECURITY.md, "Locks of the kernel that a client can keep"). So
 * each client can keep the lock of a region that it was given, and each user of the host that of
 * /dev/shm itself, for as long as they like. To remove, cut, empty or make a file there waits for
 * such a lock, not even SIGKILL ends that, and a process is gone only when all of its threads are.
 * This process is forked before the agent has threads or anything open, and each such call is made
 * by a child of it: so nobody waits for it, not the agent that ends, nor the next one.
 *
 * It is not the process that closes (io/closer.h): what strangers left in that one's sockets is to
 * stand in no removal's way, and each of the two has a filter of only what it needs.
 *
 * What is removed is counted by space, so that one namespace's stuck removals take no children from
 * another's: at most REMOVER_PER_SPACE are at work for one, REMOVER_CHILDREN in all, and the rest
 * waits until one of them is done. When the agent is gone the process begins what it can, and ends.
 *
 * One thread.
 */
#ifndef IO_REMOVER_H
#define IO_REMOVER_H

#include <stdbool.h>
#include <stdint.h>

enum {
    REMOVER_SPACES = 65, /* each namespace's, and one for what is of none */
    REMOVER_PER_SPACE = 4,
    REMOVER_CHILDREN = 64,
    REMOVER_WAITING = 1024, /* beyond these it takes no more */
    REMOVER_PATH_MAX = 256,
};

/* What is removed. Somebody else's is left alone. */
enum remover_kind {
    REMOVER_FOLDER,  /* a folder with the object `region` in it */
    REMOVER_EMPTIED, /* the same; before, the object's memory behind the region's header is given
                      * back, and it gets the size that it had: who maps it is to read zeros, rather
                      * than to die of what is gone. A client may have it open for ever */
    REMOVER_FLAT,    /* an object of a release before, and what lay beside it */
};

struct remover;

/* Starts the process. NULL: errno says why. arguments: as closer_open(). */
struct remover *remover_open(char **arguments) __attribute__((warn_unused_result));

/*
 * Opens a folder of /dev/shm, and makes it (0700) if it is not there. Waits for at most timeout_ms.
 * lock: a descriptor that may be locked (flock): while a call of before waits for that folder
 * still, also one of an agent before, it stays locked, and no other one is begun. -1: errno;
 * ETIMEDOUT: some process keeps the lock of /dev/shm.
 */
int remover_open_folder(struct remover *remover, const char *path, int lock, int timeout_ms)
    __attribute__((warn_unused_result));

/* Has it removed, some time; does not wait. size: of what is emptied. false: it is not, since too
 * much waits or the process has ended: it stays until somebody says so again. */
bool remover_remove(struct remover *remover, uint32_t space, enum remover_kind kind,
                    const char *path, uint64_t size) __attribute__((warn_unused_result));

/* How many of that space's are not removed yet, as the process said last. */
uint32_t remover_waiting(struct remover *remover, uint32_t space);

/* Whether the process ended by itself (was killed). */
bool remover_ended(const struct remover *remover);

/* The process ends, some time. NULL is allowed. */
void remover_close(struct remover *remover);

#endif
