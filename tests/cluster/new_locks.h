/*
 * What new locks of an honest user cost the agent while somebody else attacks it. A sample is one
 * new lock that is opened and taken: the processor time of the agent's loop between the request
 * and its answer, and the time on the wall.
 *
 * The loop works for others too while the answer waits for its reader. Therefore a sample counts
 * only if the reader had a processor: on a busy machine it may wait for one for 100 ms.
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

/* Returns whether so many samples count that they can be judged. On a busy machine this may take
 * longer than the attack was meant to last. */
bool new_locks_are_enough(void);

/* Prints the samples. Checks that 999 of 1000 cost the agent's loop at most most_ms. One sample
 * more may be above: a virtual machine's host may take the processor away for a while, and the
 * kernel counts this as the loop's work. Forgets all samples. */
void new_locks_judge(const char *what, int64_t most_ms);

#endif
