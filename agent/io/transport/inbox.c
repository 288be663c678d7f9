/* Decides which connections keep a place in the inbox: see inbox.h. */
#include "inbox.h"

#include <string.h>

#include "proto/check.h"

enum {
    PER_NAME = 2,      /* the places that one name may have from one host */
    PER_NAME_ALL = 16, /* the places that one name may have from all hosts (inbox.h) */
    GUESTS_PART = 16,  /* one in this many places is kept free of agents that are not voters */
};

static const int64_t silent_ns = 10000000000;

void transport_inbox_add(struct transport_inbox *inbox, struct transport_link *link)
{
    HF_CHECK(inbox->count < inbox->max);
    link->index = inbox->count;
    inbox->links[inbox->count++] = link;
    inbox->strangers++;
}

void transport_inbox_remove(struct transport_inbox *inbox, const struct transport_link *link)
{
    struct transport_link *last = inbox->links[--inbox->count];

    inbox->strangers -= link->greet_by_ns != 0 ? 1 : 0;
    inbox->links[link->index] = last;
    last->index = link->index;
}

static bool is_known(const struct transport_link *link)
{
    return link->sender.name != 0;
}

static struct transport_link *earlier(struct transport_link *one, struct transport_link *other)
{
    return one == NULL || other->seen_ns < one->seen_ns ? other : one;
}

struct transport_link *transport_inbox_victim(const struct transport_inbox *inbox, int64_t now_ns)
{
    bool crowded = inbox->strangers >= TRANSPORT_STRANGERS_MAX;
    struct transport_link *first = NULL;
    struct transport_link *silent = NULL;

    for (uint32_t i = 0; i < inbox->count; i++) {
        struct transport_link *link = inbox->links[i];

        if (!is_known(link) && (!crowded || link->greet_by_ns != 0)) {
            first = earlier(first, link);
        } else if (!link->sender.voter && now_ns - link->seen_ns >= silent_ns) {
            silent = earlier(silent, link);
        }
    }
    return first != NULL ? first : silent;
}

/* Returns whether both links come from one address. The port follows the last colon. */
static bool same_host(const struct transport_link *one, const struct transport_link *other)
{
    const char *colon = strrchr(one->remote, ':');
    size_t size = colon != NULL ? (size_t)(colon - one->remote) + 1 : sizeof(one->remote);

    return strncmp(one->remote, other->remote, size) == 0;
}

struct transport_link *transport_inbox_rival(const struct transport_inbox *inbox,
                                             struct transport_link *link, int64_t now_ns)
{
    uint32_t known_max = inbox->max - inbox->max / GUESTS_PART - 1;
    uint32_t known = 0;
    uint32_t namesakes = 0;
    uint32_t neighbours = 0;
    struct transport_link *namesake = NULL;
    struct transport_link *neighbour = NULL; /* a link of the same name from the same host */
    struct transport_link *silent = NULL;

    for (uint32_t i = 0; i < inbox->count; i++) {
        struct transport_link *other = inbox->links[i];

        known += is_known(other) && !other->sender.voter ? 1 : 0;
        if (other != link && other->sender.name == link->sender.name) {
            namesakes++;
            namesake = earlier(namesake, other);
            if (same_host(link, other)) {
                neighbours++;
                neighbour = earlier(neighbour, other);
            }
        }
        if (is_known(other) && !other->sender.voter && now_ns - other->seen_ns >= silent_ns) {
            silent = earlier(silent, other);
        }
    }
    if (neighbours >= PER_NAME) {
        return neighbour;
    }
    if (namesakes >= PER_NAME_ALL) {
        return namesake;
    }
    return link->sender.voter || known <= known_max ? NULL : silent != NULL ? silent : link;
}
