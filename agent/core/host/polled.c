/* Pokes waiters without a sleeping thread when their turn has come: see polled.h. */
#include "polled.h"

#include "clients.h"
#include "locks.h"
#include "seats.h"
#include "spaces.h"

void polled_attend(struct host *host, struct lock_ref at)
{
    const struct hfi_region *region = space_region(host, at.space);
    struct seat_walk walk = seats_of(host, at);
    while (seats_next(&walk)) {
        if (hfi_polled_may_go_on(region, at.slot, walk.seat)) {
            uint32_t client = client_of_id(host, seat_holder(host, at.space, walk.seat));
            if (client != NONE) {
                client_poke(host, client);
            }
        }
    }
}
