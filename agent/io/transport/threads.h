/* Keeps NNG to one worker thread, for the whole process. Private to the transport. */
#ifndef IO_TRANSPORT_THREADS_H
#define IO_TRANSPORT_THREADS_H

#include <signal.h>

/*
 * From hold to release, counted, all of NNG's workers but one rest (with many processors: but a
 * few). They go to rest one by one meanwhile, so both return at once; packets may stand still for a
 * twentieth of a second after the first hold. No callback given to NNG may wait for another one
 * meanwhile. Any thread that is not NNG's; a hold must not run beside the last release.
 */
void transport_threads_hold(void);
void transport_threads_release(void);

/* NNG's threads must not take the signals that the loop waits for: they are made with all blocked
 * and inherit that. To be called around whatever may make one. */
void transport_threads_deafen(sigset_t *before);
void transport_threads_restore(const sigset_t *before);

#endif
