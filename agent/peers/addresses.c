/* The addresses of agents that are not voters: see addresses.h. */
#include "peers/addresses.h"

#include <stdio.h>

static const int64_t ms_ns = 1000000;

static bool is_up(const struct addresses *addresses, const struct address_claim *address)
{
    return address->link != ADDRESSES_LINK_NONE &&
           addresses->operations.is_up(addresses->operations.arg, address->link);
}

static uint16_t *count_of(uint16_t counts[ADDRESSES_HOSTS], const struct address_claim *address)
{
    return &counts[address->host % ADDRESSES_HOSTS];
}

static void forget(const struct addresses *addresses, struct address_claim *address)
{
    addresses->operations.forget(addresses->operations.arg, address->link);
    address->link = ADDRESSES_LINK_NONE;
}

static void forget_trial(struct addresses *addresses, struct address_entry *entry)
{
    if (entry->trial.link != ADDRESSES_LINK_NONE) {
        *count_of(addresses->guests, &entry->trial) -= 1;
        forget(addresses, &entry->trial);
    }
}

static void forget_home(struct addresses *addresses, struct address_entry *entry)
{
    *count_of(addresses->guests, &entry->home) -= !entry->known;
    *count_of(addresses->announced, &entry->home) -= 1;
    forget(addresses, &entry->home);
}

/* Called when an agent has answered at the trial: the trial becomes the home. */
static void move(struct addresses *addresses, struct address_entry *entry)
{
    forget_home(addresses, entry);
    entry->home = entry->trial;
    entry->trial.link = ADDRESSES_LINK_NONE;
    entry->known = true;
    *count_of(addresses->guests, &entry->home) -= 1;
    *count_of(addresses->announced, &entry->home) += 1;
}

static bool dial(struct addresses *addresses, struct address_claim *out,
                 const struct message_agent *agent, const char *address, uint64_t host,
                 int64_t now_ns)
{
    struct address_claim made = {.host = host, .since_ns = now_ns};
    uint16_t *guests = count_of(addresses->guests, &made);
    if (*guests >= ADDRESSES_GUESTS_MAX) {
        return false;
    }
    made.link = addresses->operations.dial(addresses->operations.arg, agent, address);
    if (made.link == ADDRESSES_LINK_NONE) {
        return false;
    }
    snprintf(made.text, sizeof(made.text), "%s", address);
    *guests += 1;
    *out = made;
    return true;
}

void address_init(struct address_entry *entry)
{
    *entry = (struct address_entry){.home.link = ADDRESSES_LINK_NONE,
                                    .trial.link = ADDRESSES_LINK_NONE};
}

/* Returns whether a new address has to wait before it is dialled. The agent of the entry has no
 * connection now. */
static bool has_to_wait(const struct address_entry *entry, uint64_t host, int64_t now_ns)
{
    return entry->trial.link != ADDRESSES_LINK_NONE ||
           (!entry->known && host == entry->home.host) ||
           (host == entry->refused_host && now_ns < entry->refused_until_ns);
}

enum address_verdict address_announced(struct addresses *addresses, struct address_entry *entry,
                                       const struct message_agent *agent, const char *address,
                                       uint64_t host, int64_t now_ns)
{
    if (entry->home.link == ADDRESSES_LINK_NONE) {
        uint16_t *announced = &addresses->announced[host % ADDRESSES_HOSTS];
        if (*announced >= ADDRESSES_ANNOUNCED_MAX ||
            !dial(addresses, &entry->home, agent, address, host, now_ns)) {
            return ADDRESS_FULL;
        }
        *announced += 1;
        return ADDRESS_DIALLED;
    }
    if (strcmp(entry->home.text, address) == 0 ||
        (entry->trial.link != ADDRESSES_LINK_NONE && strcmp(entry->trial.text, address) == 0)) {
        return ADDRESS_KEPT;
    }
    if (is_up(addresses, &entry->home) || is_up(addresses, &entry->trial)) {
        return ADDRESS_CONTRADICTED;
    }
    if (has_to_wait(entry, host, now_ns)) {
        return ADDRESS_KEPT;
    }
    return dial(addresses, &entry->trial, agent, address, host, now_ns) ? ADDRESS_DIALLED
                                                                        : ADDRESS_FULL;
}

bool address_has(const struct address_entry *entry, uint32_t link)
{
    return link != ADDRESSES_LINK_NONE && (entry->home.link == link || entry->trial.link == link);
}

void address_link(struct addresses *addresses, struct address_entry *entry, uint32_t link, bool up,
                  int64_t now_ns)
{
    if (link == entry->trial.link) {
        if (up && !entry->known) {
            move(addresses, entry);
        }
        return;
    }
    if (!up) {
        entry->down_ns = now_ns;
        return;
    }
    *count_of(addresses->guests, &entry->home) -= !entry->known;
    entry->known = true;
    forget_trial(addresses, entry);
}

static void look_at_trial(struct addresses *addresses, struct address_entry *entry, int64_t now_ns)
{
    if (entry->trial.link == ADDRESSES_LINK_NONE) {
        return;
    }
    if (is_up(addresses, &entry->trial)) {
        /* At this point the home has answered once and does not answer now. In every other case
         * address_link() makes the trial the home at once. */
        if (now_ns - entry->down_ns > ADDRESSES_MOVE_MS * ms_ns) {
            move(addresses, entry);
        }
    } else if (now_ns - entry->trial.since_ns > ADDRESSES_TRIAL_MS * ms_ns) {
        entry->refused_host = entry->trial.host;
        entry->refused_until_ns = now_ns + ADDRESSES_AGAIN_MS * ms_ns;
        forget_trial(addresses, entry);
    }
}

bool address_look(struct addresses *addresses, struct address_entry *entry, int64_t now_ns)
{
    look_at_trial(addresses, entry, now_ns);
    if (entry->trial.link != ADDRESSES_LINK_NONE || is_up(addresses, &entry->home)) {
        return true;
    }
    bool over = entry->known ? now_ns - entry->down_ns > ADDRESSES_FORGET_MS * ms_ns
                             : now_ns - entry->home.since_ns > ADDRESSES_TRIAL_MS * ms_ns;
    if (over) {
        forget_home(addresses, entry);
    }
    return !over;
}

void address_take(struct addresses *addresses, struct address_entry *entry, uint32_t link,
                  const char *address, bool up, int64_t now_ns)
{
    address_init(entry);
    entry->home = (struct address_claim){.link = link, .since_ns = now_ns};
    snprintf(entry->home.text, sizeof(entry->home.text), "%s", address);
    entry->known = true;
    entry->down_ns = up ? 0 : now_ns;
    *count_of(addresses->announced, &entry->home) += 1;
}

uint32_t address_leave(struct addresses *addresses, struct address_entry *entry,
                       const char *address)
{
    uint32_t kept = ADDRESSES_LINK_NONE;
    if (entry->trial.link != ADDRESSES_LINK_NONE && strcmp(entry->trial.text, address) == 0) {
        kept = entry->trial.link;
        *count_of(addresses->guests, &entry->trial) -= 1;
        entry->trial.link = ADDRESSES_LINK_NONE;
    }
    forget_trial(addresses, entry);
    if (entry->home.link != ADDRESSES_LINK_NONE && kept == ADDRESSES_LINK_NONE &&
        strcmp(entry->home.text, address) == 0) {
        kept = entry->home.link;
        *count_of(addresses->guests, &entry->home) -= !entry->known;
        *count_of(addresses->announced, &entry->home) -= 1;
        entry->home.link = ADDRESSES_LINK_NONE;
    }
    if (entry->home.link != ADDRESSES_LINK_NONE) {
        forget_home(addresses, entry);
    }
    address_init(entry);
    return kept;
}

const struct address_claim *address_current(const struct addresses *addresses,
                                            const struct address_entry *entry)
{
    return is_up(addresses, &entry->trial) && !is_up(addresses, &entry->home) ? &entry->trial
                                                                              : &entry->home;
}
