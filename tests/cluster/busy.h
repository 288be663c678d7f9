/*
 * An epoll set whose mutex stays locked. A thread holds the mutex while it receives the set's event
 * into a page whose fault is not handled before busy_close() (by userfaultfd, as root; other users
 * could use a FUSE file). A process that reads the set's fdinfo, or closes the last descriptor of a
 * file in the set, waits for that mutex, and not even SIGKILL ends its wait. A process can have one
 * such set.
 */
#ifndef TESTS_CLUSTER_BUSY_H
#define TESTS_CLUSTER_BUSY_H

#include <pthread.h>
#include <stdbool.h>

struct busy {
    int set;
    int event;
    int faults;
    void *page;
    pthread_t waiter;
};

extern struct busy busy;

/* Makes the set and adds the `count` descriptors of `also` to it. Returns false if this process may
 * not handle page faults. */
bool busy_open(const int *also, unsigned count);
/* Supplies the page, which unlocks the mutex. */
void busy_close(void);

enum { LINGER_S = 60 };

/* Returns one end of a TCP connection that lingers, and the other end in *reader. The close of the
 * returned end's last descriptor takes LINGER_S seconds. It takes less if *reader is closed first,
 * or if the closing process is killed. */
int lingering(int *reader);

#endif
