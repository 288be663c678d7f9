/*
 * The calls of the driver to a host core that a test plays itself, where no test has an answer of
 * its own. Once a program.
 */
#ifndef TESTS_UNIT_DRIVER_HOST_H
#define TESTS_UNIT_DRIVER_HOST_H

#include "driver/driver.h"

bool host_reply_is_late(const struct host *host, const struct host_action *reply)
{
    (void)host;
    (void)reply;
    return false;
}

#endif
