/*
 * Included before rules.c of the simulated core. It shortens the wait after a recovery: the
 * simulator has no lock-delay of a minute.
 */
#include "proto/message.h"

#define MESSAGE_LOCK_DELAY_MAX_MS 1200
