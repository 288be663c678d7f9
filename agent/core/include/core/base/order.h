/*
 * An index of names in byte order: which name comes next. For listings, page by page, without
 * walking everything for each page.
 *
 * A treap (Seidel and Aragon, 1996) over the caller's own numbers: entry i has node i, its name is
 * what the caller says, and its priority is a hash of i and the seed. So it is balanced whatever
 * names strangers choose. Insertion, removal and search take about 2 ln(n) steps.
 *
 * Pure; memory is the caller's. One thread.
 */
#ifndef CORE_ORDER_H
#define CORE_ORDER_H

#include <stddef.h>
#include <stdint.h>

struct order_node {
    uint32_t left; /* entries, 0: none */
    uint32_t right;
};

/* The name of an entry; it must not change while the entry is in. */
typedef const uint8_t *order_name_fn(const void *arg, uint32_t entry, size_t *size);

struct order {
    struct order_node *nodes; /* by entry, from 1; borrowed */
    uint32_t root;
    uint64_t seed; /* random */
    order_name_fn *name;
    const void *arg;
};

/* entry is not in, and no other has its name. */
void order_insert(struct order *order, uint32_t entry);

/* entry is in. */
void order_remove(struct order *order, uint32_t entry);

/* The first entry behind that name (_after), or at it or behind it (_from). 0: none. */
uint32_t order_after(const struct order *order, const void *name, size_t size);
uint32_t order_from(const struct order *order, const void *name, size_t size);

/* Negative, 0 or positive: a stands before, at or behind b. */
int order_compare(const void *a, size_t a_size, const void *b, size_t b_size);

#endif
