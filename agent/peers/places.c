/* Where an agent listens that is no voter of the configuration: see places.h. */
#include "peers/places.h"

#include <stdio.h>

static const int64_t ms_ns = 1000000;

static bool is_up(const struct places *places, const struct place_address *address)
{
    return address->link != PLACES_LINK_NONE &&
           places->operations.is_up(places->operations.arg, address->link);
}

static uint16_t *count_of(uint16_t counts[PLACES_HOSTS], const struct place_address *address)
{
    return &counts[address->host % PLACES_HOSTS];
}

static void forget(const struct places *places, struct place_address *address)
{
    places->operations.forget(places->operations.arg, address->link);
    address->link = PLACES_LINK_NONE;
}

static void forget_trial(struct places *places, struct place *place)
{
    if (place->trial.link != PLACES_LINK_NONE) {
        *count_of(places->guests, &place->trial) -= 1;
        forget(places, &place->trial);
    }
}

static void forget_home(struct places *places, struct place *place)
{
    *count_of(places->guests, &place->home) -= !place->known;
    *count_of(places->said, &place->home) -= 1;
    forget(places, &place->home);
}

/* It has answered: the trial is the home from now on. */
static void move(struct places *places, struct place *place)
{
    forget_home(places, place);
    place->home = place->trial;
    place->trial.link = PLACES_LINK_NONE;
    place->known = true;
    *count_of(places->guests, &place->home) -= 1;
    *count_of(places->said, &place->home) += 1;
}

static bool dial(struct places *places, struct place_address *out,
                 const struct message_agent *agent, const char *address, uint64_t host,
                 int64_t now_ns)
{
    struct place_address made = {.host = host, .since_ns = now_ns};
    uint16_t *guests = count_of(places->guests, &made);
    if (*guests >= PLACES_GUESTS_MAX) {
        return false;
    }
    made.link = places->operations.dial(places->operations.arg, agent, address);
    if (made.link == PLACES_LINK_NONE) {
        return false;
    }
    snprintf(made.text, sizeof(made.text), "%s", address);
    *guests += 1;
    *out = made;
    return true;
}

void place_init(struct place *place)
{
    *place = (struct place){.home.link = PLACES_LINK_NONE, .trial.link = PLACES_LINK_NONE};
}

/* Whether who has no connection, and has another address, has to wait before this one is tried. */
static bool has_to_wait(const struct place *place, uint64_t host, int64_t now_ns)
{
    return place->trial.link != PLACES_LINK_NONE || (!place->known && host == place->home.host) ||
           (host == place->refused_host && now_ns < place->refused_until_ns);
}

enum place_verdict place_said(struct places *places, struct place *place,
                              const struct message_agent *agent, const char *address, uint64_t host,
                              int64_t now_ns)
{
    if (place->home.link == PLACES_LINK_NONE) {
        uint16_t *said = &places->said[host % PLACES_HOSTS];
        if (*said >= PLACES_SAID_MAX || !dial(places, &place->home, agent, address, host, now_ns)) {
            return PLACE_FULL;
        }
        *said += 1;
        return PLACE_DIALLED;
    }
    if (strcmp(place->home.text, address) == 0 ||
        (place->trial.link != PLACES_LINK_NONE && strcmp(place->trial.text, address) == 0)) {
        return PLACE_KEPT;
    }
    if (is_up(places, &place->home) || is_up(places, &place->trial)) {
        return PLACE_CONTRADICTED;
    }
    if (has_to_wait(place, host, now_ns)) {
        return PLACE_KEPT;
    }
    return dial(places, &place->trial, agent, address, host, now_ns) ? PLACE_DIALLED : PLACE_FULL;
}

bool place_has(const struct place *place, uint32_t link)
{
    return link != PLACES_LINK_NONE && (place->home.link == link || place->trial.link == link);
}

void place_link(struct places *places, struct place *place, uint32_t link, bool up, int64_t now_ns)
{
    if (link == place->trial.link) {
        if (up && !place->known) {
            move(places, place);
        }
        return;
    }
    if (!up) {
        place->down_ns = now_ns;
        return;
    }
    *count_of(places->guests, &place->home) -= !place->known;
    place->known = true;
    forget_trial(places, place);
}

static void look_at_trial(struct places *places, struct place *place, int64_t now_ns)
{
    if (place->trial.link == PLACES_LINK_NONE) {
        return;
    }
    if (is_up(places, &place->trial)) {
        /* It is known, and home does not answer: see place_link(). */
        if (now_ns - place->down_ns > PLACES_MOVE_MS * ms_ns) {
            move(places, place);
        }
    } else if (now_ns - place->trial.since_ns > PLACES_TRIAL_MS * ms_ns) {
        place->refused_host = place->trial.host;
        place->refused_until_ns = now_ns + PLACES_AGAIN_MS * ms_ns;
        forget_trial(places, place);
    }
}

bool place_look(struct places *places, struct place *place, int64_t now_ns)
{
    look_at_trial(places, place, now_ns);
    if (place->trial.link != PLACES_LINK_NONE || is_up(places, &place->home)) {
        return true;
    }
    bool over = place->known ? now_ns - place->down_ns > PLACES_FORGET_MS * ms_ns
                             : now_ns - place->home.since_ns > PLACES_TRIAL_MS * ms_ns;
    if (over) {
        forget_home(places, place);
    }
    return !over;
}

const struct place_address *place_current(const struct places *places, const struct place *place)
{
    return is_up(places, &place->trial) && !is_up(places, &place->home) ? &place->trial
                                                                        : &place->home;
}
