/*
 * Messages of a service to systemd (sd_notify(3)). They do nothing if the agent does not run under
 * systemd, or was built without libsystemd.
 */
#ifndef IO_NOTIFY_H
#define IO_NOTIFY_H

#include <stdint.h>

void notify_ready(const char *status);
void notify_stopping(void);
void notify_alive(void);

/* The longest pause that systemd's watchdog allows between two notify_alive(); 0: there is no
 * watchdog. */
int64_t notify_alive_interval_ns(void);

#endif
