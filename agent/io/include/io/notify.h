/*
 * Messages of a service to systemd, if it runs under systemd and was built with libsystemd; else
 * these do nothing. The protocol is sd_notify(3).
 */
#ifndef IO_NOTIFY_H
#define IO_NOTIFY_H

#include <stdint.h>

void notify_ready(const char *status);
void notify_stopping(void);
void notify_alive(void);

/* How often notify_alive() is wanted at least; 0: not at all. */
int64_t notify_alive_interval_ns(void);

#endif
