/*
 * Pages of program files that the agent has mapped but does not use.
 *
 * Each touch of a page of a program or library maps the 15 pages around it, too, if the kernel has
 * them in its cache. After the start nearly every page of libc, SQLite and the agent itself is
 * mapped, although a running agent uses a third of them. resident_trim() unmaps all of these pages.
 * The pages that are in use come back at the next touch, without a read from a disk while they are
 * in the kernel's cache. The others are free to be dropped from that cache when memory is short.
 *
 * Memory that malloc() keeps although it is free goes back to the kernel, too.
 *
 * A page that was written, such as one with a tracer's or a debugger's breakpoint, stays. Data is
 * never touched: only segments that the program cannot write are looked at.
 */
#ifndef IO_RESIDENT_H
#define IO_RESIDENT_H

/* Unmaps these pages of all programs and libraries of this process, unless /proc/self/pagemap
 * cannot be read, and gives free memory back. Costs a few microseconds for each MiB. */
void resident_trim(void);

#endif
