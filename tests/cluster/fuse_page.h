/*
 * Memory whose pages never come: a mapped file of a FUSE server that answers no READ. A system call
 * that copies from or to it waits in the kernel, with all the locks that it has then, until its
 * process is killed or the server ends. It is for tests of what such a caller can withhold from the
 * agent.
 *
 *     struct fuse_page page;
 *     if (!fuse_page_create(&page)) {
 *         return 77;                        // it has printed what is missing
 *     }
 *     pid_t culprit = fork_tied();          // children have the mapping, at the same address
 *     if (culprit == 0) {
 *         become(NOBODY);
 *         (void)!write(fd, page.memory, 1); // for ever
 *         _exit(0);
 *     }
 *     fuse_page_await(&page);               // it is there
 *     ...
 *     kill_process(culprit);
 *     fuse_page_destroy(&page);
 *
 * As root, on Linux 5.2 or later, with /dev/fuse or the right to make such a node. The mount is
 * visible to no other process, and nothing stays behind: the server dies with the thread that
 * created it.
 */
#ifndef TESTS_CLUSTER_FUSE_PAGE_H
#define TESTS_CLUSTER_FUSE_PAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum { FUSE_PAGE_BYTES = 16 * 4096 };

struct fuse_page {
    char *memory; /* FUSE_PAGE_BYTES, shared, readable and writable; any access waits */
    int file;     /* the file behind it, open for both, for other mappings */
    pid_t server;
    int asked; /* a pipe, with a byte for each READ that the server leaves unanswered */
};

/* Returns false if this machine cannot do it; a line on stderr says why. */
bool fuse_page_create(struct fuse_page *page);

/* Waits until a process has accessed it. The kernel may then ask for all pages at once; so this
 * call does not notice a second process. */
void fuse_page_await(struct fuse_page *page);

/* Ends the server: waiting calls fail with EFAULT (or return a partial result), and a process that
 * accesses the memory gets SIGBUS. The caller's mapping stays. May be called twice. */
void fuse_page_abort(struct fuse_page *page);

/* Ends the server, and removes the mapping and the descriptors. */
void fuse_page_destroy(struct fuse_page *page);

#endif
