/*
 * A thread that asks the agent for readings. So `holdfast top` reacts to keys and signals even
 * while the agent does not answer.
 *
 * The owner calls all functions from one thread. The owner asks for one reading at a time. When the
 * answer is there, the descriptor becomes readable. If the thread is still asking when the owner
 * ends, the client must stay until the process ends.
 */
#ifndef HOLDFAST_CLI_TOP_READER_H
#define HOLDFAST_CLI_TOP_READER_H

#include <stdbool.h>

#include "top_reading.h"

struct top_reader;

/* Starts the thread, which blocks all signals. The client and the prefix are borrowed. Returns
 * NULL if there is no memory, no descriptor or no thread. */
struct top_reader *top_reader_create(hf_client *client, const char *prefix)
    __attribute__((warn_unused_result));

/* Returns the descriptor for poll(). */
int top_reader_fd(const struct top_reader *reader);

/* Asks for a reading. `before` is only read, and must stay until the answer is there. Must not be
 * called again before top_reader_get() has returned true. */
void top_reader_ask(struct top_reader *reader, const struct top_reading *before);

/* Returns false if there is no answer yet. Sets *error, and *out to the reading, which the caller
 * destroys, or to NULL. */
bool top_reader_get(struct top_reader *reader, struct top_reading **out, int *error);

/* Ends the thread and frees the reader. Returns false if the thread is still asking the agent; then
 * the reader, the client and the reading `before` must stay until the process ends. */
bool top_reader_close(struct top_reader *reader) __attribute__((warn_unused_result));

#endif
