/*
 * Memory whose pages never come: a mapped file of a FUSE server that never answers READ. A system
 * call that copies from or to it waits in the kernel, and keeps the kernel locks that it has then,
 * until its process is killed or the server ends. Tests use such memory to find out what a
 * process can block in the agent.
 *
 *     struct fuse_page page;
 *     if (!fuse_page_create(&page)) {
 *         return 77;                        // it has printed what is missing
 *     }
 *     pid_t culprit = fork_tied();          // children have the mapping, at the same address
 *     if (culprit == 0) {
 *         become(NOBODY);
 *         (void)!write(fd, page.memory, 1); // never returns
 *         _exit(0);
 *     }
 *     fuse_page_await(&page);               // now the culprit waits
 *     ...
 *     kill_process(culprit);
 *     fuse_page_destroy(&page);
 *
 * It needs root, Linux 5.2 or later, and /dev/fuse or the right to make such a node. No other
 * process sees the mount. Nothing remains afterwards, because the server dies with the thread that
 * created it.
 */
#ifndef TESTS_CLUSTER_FUSE_PAGE_H
#define TESTS_CLUSTER_FUSE_PAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum { FUSE_PAGE_BYTES = 16 * 4096 };

struct fuse_page {
    char *memory; /* FUSE_PAGE_BYTES, mapped shared for reading and writing; any access waits */
    int file;     /* the mapped file, open for reading and writing, for further mappings */
    pid_t server;
    int asked; /* a pipe that receives a byte for each READ of the kernel */
};

/* Returns false if this machine cannot have such a page; a line on stderr says why. */
bool fuse_page_create(struct fuse_page *page);

/* Waits until a process has accessed the memory. Later accesses cannot be awaited, because the
 * kernel may ask for all pages at the first one. */
void fuse_page_await(struct fuse_page *page);

/* Ends the server: waiting calls fail with EFAULT (or return a partial result), and a process that
 * accesses the memory gets SIGBUS. The caller's mapping stays. May be called twice. */
void fuse_page_abort(struct fuse_page *page);

/* Ends the server, and removes the mapping and the descriptors. */
void fuse_page_destroy(struct fuse_page *page);

#endif
