/*
 * Answers to the driver's calls of the host core, for tests that play the host core and need no
 * answer of their own. To be included once in a program.
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
