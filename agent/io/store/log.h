/*
 * How the store's log is written: a commit is one write and one flush.
 *
 * SQLite writes each page of a commit to its log (the -wal file) with two calls, header and page. A
 * virtual file system above the system's own (https://sqlite.org/vfs.html) buffers these bytes and
 * writes them in one piece, when the log is flushed or read or the buffer is full. It promises all
 * that SQLite expects of a file: written bytes are read back, and bytes written before a flush are
 * durable when the flush returns.
 *
 * The log's file is kept longer than its content. A flush within the file's size costs the disk one
 * write, while a file that grows has its size written, too. SQLite does not take the zeros behind
 * its last frame for a frame, for their checksum is wrong.
 *
 * All other files go to the system's own functions untouched.
 */
#ifndef STORE_LOG_H
#define STORE_LOG_H

/* The name of the file system, for sqlite3_open_v2(). NULL: SQLite has none of its own, or no
 * memory. May be called on any thread. */
const char *store_log_vfs(void) __attribute__((warn_unused_result));

#endif
