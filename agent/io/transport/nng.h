/*
 * Functions that the transport needs from NNG, although NNG has no interface for them. Private to
 * the transport.
 *
 * 1. The descriptor of a connection. With it the loop itself waits for packets, and a packet costs
 *    no change of threads: 16 to 21 us less (docs/DECISIONS.md). NNG does not give the descriptor
 *    away, so the transport searches for it: it is the only socket of this process with the
 *    connection's two addresses. The search costs one getsockname() for each open descriptor, once
 *    per connection (at the dialled end after the greeting). If it finds nothing, the transport
 *    uses NNG's own way: a receive is always under way, and NNG's worker wakes the loop. Packets
 *    are slower then. The kernel's bounds on waiting (transport_bound_waiting()) are missing, too,
 *    so only heartbeats notice a link that was cut.
 * 2. One worker. NNG starts two workers for each processor, and hands each step of a packet (its
 *    length has arrived, its bytes have arrived, the receiver has to be called) to a worker that
 *    sleeps. A packet then wakes four threads one after the other, which all want the same lock. A
 *    single worker is still awake for the next step. So the other workers are kept in a callback
 *    that waits ("parked"). That costs one sleeping thread for each, and a twentieth of a second at
 *    the start. A worker that is not parked goes on working, which does no harm.
 * 3. Workers without signals. The loop waits for signals, so NNG's threads must not take them.
 *
 * NNG 1.5 (Debian 12) has no setting for any of this. Later versions (1.10 in Debian 13) accept a
 * number of workers before the first other call, but start at least two, and give no descriptor
 * away either. So the same code serves both versions.
 */
#ifndef IO_TRANSPORT_NNG_H
#define IO_TRANSPORT_NNG_H

#include <nng/nng.h>
#include <signal.h>

/* Returns the descriptor of a connection; -1 if it is not found. The descriptor belongs to NNG, and
 * stays open until the stream is freed. */
int transport_find_fd(nng_stream *stream);

/* Bounds how long a connection waits for a host that does not answer; NNG has no option for that.
 * The connection breaks a few seconds after sent bytes, or the kernel's keep-alive probes, are not
 * acknowledged. Also switches Nagle's delay off. */
void transport_bound_waiting(int fd);

/*
 * Calls of transport_threads_hold() and transport_threads_release() are counted. From the first
 * hold to the last release, all of NNG's workers but one are parked (with many processors: all but
 * a few). The workers park one by one, so both calls return at once, and packets may stand still
 * for a twentieth of a second after the first hold. During that time no callback given to NNG may
 * wait for another one. May be called on any thread that is not NNG's, but a hold must not run at
 * the same time as the last release.
 */
void transport_threads_hold(void);
void transport_threads_release(void);

/* Threads that NNG starts between these two calls have all signals blocked, and so have the threads
 * that those start. */
void transport_threads_deafen(sigset_t *before);
void transport_threads_restore(const sigset_t *before);

#endif
