/*
 * How the store's log is written: a commit is one write and one flush.
 *
 * SQLite writes each page of a commit to its log (the -wal file) with two calls, header and page. A
 * virtual file system over the system's own (https://sqlite.org/vfs.html) keeps what is written to
 * the log until it is flushed, read, or more than the buffer holds, and writes it in one piece. It
 * promises what SQLite expects of a file and no less: written bytes are read back, and bytes
 * written before a flush are durable when the flush returns.
 *
 * The log's file is kept longer than what is in it: a flush of bytes that the file had already is
 * one write of the disk, where a file that grows has its size written too. SQLite takes the zeros
 * behind its last frame for no frame: no checksum fits.
 *
 * All other files go to the system's own functions untouched.
 */
#ifndef STORE_LOG_H
#define STORE_LOG_H

/* The name to open a database with, for sqlite3_open_v2(). NULL: SQLite has no file system of its
 * own, or no memory. From any thread. */
const char *store_log_vfs(void) __attribute__((warn_unused_result));

#endif
