/* An index of names in byte order: see core/base/order.h. */
#include "core/base/order.h"

#include <string.h>

#include "proto/check.h"

int order_compare(const void *a, size_t a_size, const void *b, size_t b_size)
{
    size_t common = a_size < b_size ? a_size : b_size;
    int order = common > 0 ? memcmp(a, b, common) : 0;
    return order != 0 ? order : (a_size > b_size) - (a_size < b_size);
}

static uint64_t priority(const struct order *order, uint32_t entry)
{
    uint64_t hash = (order->seed ^ entry) * UINT64_C(0x9e3779b97f4a7c15);
    hash = (hash ^ hash >> 31) * UINT64_C(0xbf58476d1ce4e5b9);
    return hash ^ hash >> 29;
}

/* Compares an entry's name with a name: negative if the entry's name comes first, 0 if the two are
 * equal, else positive. */
static int compare(const struct order *order, uint32_t entry, const void *name, size_t size)
{
    size_t entry_size = 0;
    const uint8_t *entry_name = order->name(order->arg, entry, &entry_size);
    return order_compare(entry_name, entry_size, name, size);
}

void order_insert(struct order *order, uint32_t entry)
{
    size_t size = 0;
    const uint8_t *name = order->name(order->arg, entry, &size);
    struct order_node *nodes = order->nodes;
    uint64_t mine = priority(order, entry);
    uint32_t *link = &order->root;
    while (*link != 0 && priority(order, *link) >= mine) {
        link = compare(order, *link, name, size) < 0 ? &nodes[*link].right : &nodes[*link].left;
    }
    /* The new entry takes the place of the subtree `rest`. Splits that subtree into the entries
     * before the new entry and the entries behind it. */
    uint32_t rest = *link;
    uint32_t *before = &nodes[entry].left;
    uint32_t *behind = &nodes[entry].right;
    *link = entry;
    while (rest != 0) {
        if (compare(order, rest, name, size) < 0) {
            *before = rest;
            before = &nodes[rest].right;
            rest = *before;
        } else {
            *behind = rest;
            behind = &nodes[rest].left;
            rest = *behind;
        }
    }
    *before = 0;
    *behind = 0;
}

void order_remove(struct order *order, uint32_t entry)
{
    size_t size = 0;
    const uint8_t *name = order->name(order->arg, entry, &size);
    struct order_node *nodes = order->nodes;
    uint32_t *link = &order->root;
    while (*link != entry) {
        HF_CHECK(*link != 0);
        link = compare(order, *link, name, size) < 0 ? &nodes[*link].right : &nodes[*link].left;
    }
    uint32_t left = nodes[entry].left;
    uint32_t right = nodes[entry].right;
    while (left != 0 && right != 0) {
        if (priority(order, left) >= priority(order, right)) {
            *link = left;
            link = &nodes[left].right;
            left = *link;
        } else {
            *link = right;
            link = &nodes[right].left;
            right = *link;
        }
    }
    *link = left != 0 ? left : right;
    nodes[entry] = (struct order_node){0, 0};
}

/* Returns the first entry whose name is above `name`; if least is -1, above or equal to it. Returns
 * 0 if there is no such entry. */
static uint32_t first_above(const struct order *order, const void *name, size_t size, int least)
{
    uint32_t best = 0;
    uint32_t at = order->root;
    while (at != 0) {
        int compared = compare(order, at, name, size);
        if (compared > 0 || (compared == 0 && least < 0)) {
            best = at;
            at = order->nodes[at].left;
        } else {
            at = order->nodes[at].right;
        }
    }
    return best;
}

uint32_t order_after(const struct order *order, const void *name, size_t size)
{
    return first_above(order, name, size, 0);
}

uint32_t order_from(const struct order *order, const void *name, size_t size)
{
    return first_above(order, name, size, -1);
}
