/*
 * Included before rules.c of the simulated core: no lock-delay of the simulator is longer, so a
 * recovered cell need not wait for a minute.
 */
#include "proto/message.h"

#define MESSAGE_LOCK_DELAY_MAX_MS 1200
