/*
 * What new locks of an honest user cost the agent while another user attacks it. A sample is one
 * new lock that the honest user opens and takes. The test measures the processor time of the
 * agent's loop between the request and its answer, and the wall-clock time.
 *
 * While the answer waits for its reader, the loop also works for other clients. So the judgement
 * uses a sample only if the reader had a processor; on a busy machine the reader may wait 100 ms
 * for one.
 */
#ifndef HOLDFAST_TESTS_NEW_LOCKS_H
#define HOLDFAST_TESTS_NEW_LOCKS_H

#include <stdbool.h>
#include <stdint.h>

#include "agent_process.h"
#include "holdfast/holdfast.h"

/* Forgets all samples. */
void new_locks_forget(void);

/* Opens, takes, releases and closes a lock of that name. Returns false if no agent answers. */
bool new_locks_ask(const struct agent_process *agent, hf_client *client, const char *name);

/* Returns whether enough samples count for a judgement. On a busy machine that may take longer than
 * the attack was meant to last. */
bool new_locks_are_enough(void);

/* Prints the samples, and checks that 999 of 1000 cost the agent's loop at most most_ms. One
 * further sample may exceed that, because a virtual machine's host may take the processor away for
 * a while, which the kernel counts as the loop's work. Forgets all samples. */
void new_locks_judge(const char *what, int64_t most_ms);

#endif
