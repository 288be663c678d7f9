/*
 * What the program that tests `holdfast lock` does as CMD, where a shell would not do.
 */
#ifndef HOLDFAST_TESTS_CLI_COMMAND_H
#define HOLDFAST_TESTS_CLI_COMMAND_H

/* What CMD says when it is ready to lose its hold: from then on the fake's lease counts (late). */
#define READY "echo >&$HOLDFAST_PROGRESS_FD; "

/*
 * what: elsewhere, in its child's process group: waits for SIGTERM, says so, status 9.
 *       stray, has a child in a session of its own that minds no SIGTERM: says its own number, and
 *           the child's.
 *       breeder, the same without a word, and that child begins others all the time.
 *       restless, leaves behind children that come and go when it gets SIGTERM.
 *       daemon, daemon-stay: says the number of one that it has started, and ends (4), or not.
 *       older-X, has a child, says its number, and becomes a holdfast with X as CMD.
 *       hidden-X, the same, and the child is one that waitpid() does not find; 3: it cannot.
 *       many, and its children in sessions of their own, say so if they get SIGTERM.
 *       blind, becomes a holdfast without /proc; 3: it cannot.
 * self: the program. Returns the exit status for it.
 */
int command_be(const char *self, const char *what);

#endif
