/*
 * A thread that watches processes by their pidfds, and reports to the loop which have ended.
 *
 * Any user of the host can have a million epoll entries on pidfds of a process. When that process
 * ends the kernel calls them all, with the lock of the pidfd's queue held (0.1 to 0.6 s). To add a
 * pidfd to an epoll set, or to remove it, waits for that lock, so the loop does neither. This
 * thread adds and waits. It never removes: while an entry is removed no event comes out of the set.
 * A pidfd leaves the set when it is closed, by the thread of io/late_close.h, which first waits
 * until the kernel has called all entries.
 *
 * One in a process. All calls are the loop's.
 */
#ifndef IO_DEATHS_H
#define IO_DEATHS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <uv.h>

struct death_watch;

/* These have ended; each tag comes once, also one that was forgotten just now. true: the loop is to
 * make this call again in its next turn. */
typedef bool deaths_fn(void *arg, const uint64_t *tags, uint32_t count);

/* Starts the thread; it is never waited for. false: errno says why. */
bool deaths_start(uv_loop_t *loop, deaths_fn *ended, void *arg) __attribute__((warn_unused_result));

/* Nothing is reported any more. Before the loop closes its handles, of which this has one. */
void deaths_stop(void);

/* Watches a process; the pidfd stays the caller's to ask, until deaths_forget(). If the kernel has
 * no memory for the entry, the thread asks the pidfd ten times a second. NULL: no memory. */
struct death_watch *deaths_watch(int pidfd, uint64_t tag);

/* Frees the watch, and closes its pidfd: late_close(), uid is for that. */
void deaths_forget(struct death_watch *watch, uid_t uid);

#endif
