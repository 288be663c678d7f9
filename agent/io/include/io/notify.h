/*
 * Sends the messages of a service to systemd, in the protocol of sd_notify(3). These calls do
 * nothing if neither systemd nor another manager has set NOTIFY_SOCKET for the agent.
 */
#ifndef IO_NOTIFY_H
#define IO_NOTIFY_H

#include <stdint.h>

void notify_ready(const char *status);
void notify_stopping(void);
void notify_alive(void);

/* Returns the longest pause between two calls of notify_alive() for systemd's watchdog; 0: there is
 * no watchdog. */
int64_t notify_alive_interval_ns(void);

#endif
