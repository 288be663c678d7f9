/*
 * A thread that watches processes by their pidfds, and reports to the loop which processes have
 * ended.
 *
 * Any user of the host can have a million epoll entries on pidfds of a process. When that process
 * ends, the kernel calls the callback of each entry with the lock of the pidfd's queue held (0.1 to
 * 0.6 s in all). Adding a pidfd to an epoll set, or removing it, waits for that lock. So the loop
 * does neither: this thread adds the pidfds and waits for events. It never removes an entry,
 * because an epoll set delivers no event while it removes an entry. A pidfd leaves the set when it
 * is closed. The thread of io/late_close.h closes it, and first waits until the kernel has called
 * all callbacks.
 *
 * An agent has at most one such thread. Only the loop's thread may call these functions.
 */
#ifndef IO_DEATHS_H
#define IO_DEATHS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <uv.h>

struct death_watch;

/* Reports that the processes with these tags have ended. Each tag is reported once, even if its
 * watch was forgotten just before. Returns true if the loop must make this call again in its next
 * turn, because more remains to be done. */
typedef bool deaths_fn(void *arg, const uint64_t *tags, uint32_t count);

/* Starts the thread. No call waits for the thread's end. On failure returns false with errno. */
bool deaths_start(uv_loop_t *loop, deaths_fn *ended, void *arg) __attribute__((warn_unused_result));

/* Ends the reports. Called before the loop closes its handles, because one of them belongs to this
 * thread. */
void deaths_stop(void);

/* Watches a process. The caller may use the pidfd until deaths_forget(), but must not close it. If
 * the kernel has no memory for the epoll entry, the thread polls the pidfd ten times a second.
 * Returns NULL if there is no memory. */
struct death_watch *deaths_watch(int pidfd, uint64_t tag);

/* Frees the watch, and closes its pidfd. `uid` is for late_close_watched(). */
void deaths_forget(struct death_watch *watch, uid_t uid);

#endif
