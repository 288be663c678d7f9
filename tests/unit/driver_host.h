/*
 * The calls of the host core that the driver makes, for tests that play the host core and need no
 * answer of their own. A program includes this file once.
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
