/*
 * An epoll set whose mutex is held: a process receives its event in a page that nobody brings
 * (userfaultfd, for root; others would use a FUSE file). A process that reads the set's fdinfo, or
 * closes the last descriptor of a file that it has, waits for that mutex; not even SIGKILL ends
 * that. One a process.
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

/* It has those descriptors, too. false: page faults are not for us here. */
bool busy_open(const int *also, unsigned count);
/* Brings the page. */
void busy_close(void);

enum { LINGER_S = 60 };

/* One end of a TCP connection that lingers: to close its last descriptor takes LINGER_S, unless the
 * other end, *reader, is closed before, or the closing process is killed. */
int lingering(int *reader);

#endif
