/* A namespace that loses its region again and again: see serve/respite.h. */
#include "serve/respite.h"

#define SECOND_NS INT64_C(1000000000)

static const int64_t first_ns = 60 * SECOND_NS;
static const int64_t longest_ns = 3600 * SECOND_NS;
static const int64_t forgotten_ns = 24 * 3600 * SECOND_NS;

int64_t respite_count(struct respite *respite, int64_t now_ns)
{
    if (respite->given_up > 0 && now_ns - respite->last_ns >= forgotten_ns) {
        respite->given_up = 0;
    }
    respite->last_ns = now_ns;
    if (respite->given_up < RESPITE_FREE) {
        respite->given_up++;
        return 0;
    }
    int64_t wait_ns = first_ns;
    for (unsigned i = RESPITE_FREE; i < respite->given_up && wait_ns < longest_ns; i++) {
        wait_ns *= 2;
    }
    respite->given_up++;
    return wait_ns < longest_ns ? wait_ns : longest_ns;
}
