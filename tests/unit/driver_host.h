/*
 * The functions of the host core that the driver calls and that have the same result in all tests
 * of the driver. A program that plays the host core includes this file once.
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
