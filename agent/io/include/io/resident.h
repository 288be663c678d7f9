/*
 * Unmaps the pages of program files that the agent has mapped but does not use.
 *
 * An access to a page of a program or library also maps the 15 pages around it, if the kernel has
 * them in its cache. So after the start nearly every page of libc, SQLite and the agent itself is
 * mapped, although a running agent uses only a third of them. resident_trim() unmaps all of these
 * pages. A page that is in use is mapped again at the next access, without a read from a disk as
 * long as it is in the kernel's cache. The kernel may drop the other pages from that cache when
 * memory is short.
 *
 * It also gives free memory that malloc() keeps back to the kernel.
 *
 * A page that was written stays mapped, for example one with a debugger's breakpoint. Only segments
 * that the program cannot write are looked at, so data is never touched.
 */
#ifndef IO_RESIDENT_H
#define IO_RESIDENT_H

/* Unmaps these pages of the program and all libraries of this process, and gives free memory back.
 * Unmaps nothing if /proc/self/pagemap cannot be read. Costs a few microseconds for each MiB. */
void resident_trim(void);

#endif
