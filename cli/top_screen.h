/*
 * `holdfast top` on a terminal.
 *
 * This is the only part of the command that needs a terminal. It puts the lines of top_frame.h on
 * the screen, and passes keys and readings on. A second thread asks the agent (top_reader.h). The
 * signals that end the command come through a descriptor, so that the terminal is restored first.
 */
#ifndef HOLDFAST_CLI_TOP_SCREEN_H
#define HOLDFAST_CLI_TOP_SCREEN_H

#include <stdint.h>

#include <holdfast/admin.h>

#include "top_frame.h"

struct top_settings {
    hf_client *client;  /* borrowed */
    const char *prefix; /* borrowed */
    int64_t delay_ns;
    int64_t count; /* the number of readings before the end; 0: no limit */
    enum top_order order;
};

/* Returns 0 if the command can run on this terminal, else the exit status after a line on stderr.
 * To be called before the agent is asked. */
int top_screen_check(void) __attribute__((warn_unused_result));

/* Runs until the user quits. Returns the exit status. Sets *asking if the second thread is still
 * asking the agent; then the client must stay until the process ends. */
int top_screen_run(const struct top_settings *settings, bool *asking)
    __attribute__((warn_unused_result));

/* Returns whether the command goes on after this error, because the agent may come back. */
bool top_is_passing(int error);

/* Returns when to ask again: delay_ns after the last reading began, or later. The pause after a
 * reading is at least 19 times as long as the reading took. So the agent spends at most a twentieth
 * of its time on readings. */
int64_t top_next_ns(int64_t asked_ns, int64_t took_ns, int64_t delay_ns);

#endif
