/*
 * How the store's log is written: a commit is one write and one flush.
 *
 * SQLite writes each page of a commit to its log (the -wal file) with two calls, one for the header
 * and one for the page. A virtual file system above the system's own (https://sqlite.org/vfs.html)
 * buffers these bytes and writes them in one piece, when the log is flushed or read or the buffer
 * is full. The file still does what SQLite expects: written bytes are read back, and bytes written
 * before a flush are durable when the flush returns.
 *
 * The log's file is kept longer than its content. A flush within the file's size costs the disk one
 * write. If the file grows, the disk also writes the file's new size. SQLite does not take the
 * zeros behind its last frame for a frame, because their checksum is wrong.
 *
 * All other files go to the system's own functions unchanged.
 */
#ifndef STORE_LOG_H
#define STORE_LOG_H

/* Returns the name of the file system, for sqlite3_open_v2(). NULL: SQLite has no file system of
 * its own, or there is no memory. Any thread may call this. */
const char *store_log_vfs(void) __attribute__((warn_unused_result));

#endif
