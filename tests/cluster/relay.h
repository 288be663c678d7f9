/* A slow switch: carries packets between the ports of the test's network, each of them late. */
#ifndef TESTS_CLUSTER_RELAY_H
#define TESTS_CLUSTER_RELAY_H

/* Does so until the process is killed, in the namespace that has the interfaces port0, port1, ...;
 * ends the process if it cannot. */
void relay_run(unsigned ports, unsigned delay_ms) __attribute__((noreturn));

#endif
