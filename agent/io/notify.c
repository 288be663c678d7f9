/* Messages to systemd: see io/notify.h. */
#include "io/notify.h"

#ifdef HF_HAVE_SYSTEMD

#include <systemd/sd-daemon.h>

void notify_ready(const char *status)
{
    (void)sd_notifyf(0, "READY=1\nSTATUS=%s", status);
}

void notify_stopping(void)
{
    (void)sd_notify(0, "STOPPING=1");
}

void notify_alive(void)
{
    (void)sd_notify(0, "WATCHDOG=1");
}

int64_t notify_alive_interval_ns(void)
{
    uint64_t limit_us = 0;
    if (sd_watchdog_enabled(0, &limit_us) <= 0) {
        return 0;
    }
    return (int64_t)(limit_us / 3) * 1000; /* a third of the limit, so that one notice may be
                                            * late */
}

#else

void notify_ready(const char *status)
{
    (void)status;
}

void notify_stopping(void)
{
}

void notify_alive(void)
{
}

int64_t notify_alive_interval_ns(void)
{
    return 0;
}

#endif
