/*
 * Things that the transport needs of NNG and for which NNG has no interface. Private to the
 * transport.
 *
 * 1. The descriptor of a connection. With it the loop itself waits for packets, and a packet costs
 *    no change of threads: 16 to 21 us less (docs/DECISIONS.md). NNG does not hand out the
 *    descriptor, so it is looked for: the socket of this process that has the connection's two
 *    addresses, which only one has. That costs one getsockname() for each open descriptor, once a
 *    connection, when the other end has greeted. If it is not found, the transport uses NNG's own
 *    way: a receive of NNG's is always under way, and its worker wakes the loop. Packets are slower
 *    then, nothing else. The kernel's bounds on waiting (below) are missing then, too: a link that
 *    was cut is noticed by the heartbeats alone.
 * 2. One worker. NNG starts two workers for each processor and hands each step of a packet (its
 *    length came, its bytes came, the receiver is to be called) to one that sleeps. A packet then
 *    wakes four threads one after the other, which all want the same lock. With one worker the next
 *    step finds it awake. So the others are kept in a callback that waits ("parked"). That costs
 *    one sleeping thread each, and a twentieth of a second at the start. If a worker is not found,
 *    it goes on working, which does no harm.
 * 3. Workers without signals. The loop waits for signals; NNG's threads must not take them.
 *
 * NNG 1.5 (Debian 12) has a setting for none of this. Later versions (1.10 in Debian 13) take the
 * number of workers before any other call of NNG's, but make two at least; they hand out no
 * descriptor either. So one way serves both.
 */
#ifndef IO_TRANSPORT_NNG_H
#define IO_TRANSPORT_NNG_H

#include <nng/nng.h>
#include <signal.h>

/* The descriptor of a connection. It is NNG's and stays open until the stream is freed. -1: not
 * found. */
int transport_find_fd(nng_stream *stream);

/* Bounds how long a connection waits for a host that does not answer (NNG has no option for it): it
 * breaks a few seconds after what was sent is not acknowledged, or, when nothing is sent, the
 * kernel's own questions. And nothing is held back to be sent with what follows. */
void transport_bound_waiting(int fd);

/*
 * From hold to release, counted, all of NNG's workers but one rest (with many processors: but a
 * few). They go to rest one by one meanwhile, so both return at once; packets may stand still for a
 * twentieth of a second after the first hold. No callback given to NNG may wait for another one
 * meanwhile. Any thread that is not NNG's; a hold must not run beside the last release.
 */
void transport_threads_hold(void);
void transport_threads_release(void);

/* Threads that NNG makes between these two are made with all signals blocked, and inherit that. */
void transport_threads_deafen(sigset_t *before);
void transport_threads_restore(const sigset_t *before);

#endif
