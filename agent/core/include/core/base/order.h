/*
 * An index of names in byte order, to find the name that comes next. A listing in pages uses it, so
 * that a page does not look at all names.
 *
 * A treap (Seidel and Aragon, 1996) over numbers that the caller chooses: entry i uses node i, its
 * name comes from a callback, and its priority is a hash of i and the seed. So the tree is balanced
 * whatever names strangers choose. Insertion, removal and search take about 2 ln(n) steps.
 *
 * Invariants: the names in an entry's left subtree come before the entry's name, and those in the
 * right subtree come after it. No entry has a higher priority than its parent.
 *
 * Pure. The caller owns the memory. One thread.
 */
#ifndef CORE_ORDER_H
#define CORE_ORDER_H

#include <stddef.h>
#include <stdint.h>

struct order_node {
    uint32_t left; /* the root entry of the left subtree; 0: it is empty */
    uint32_t right;
};

/* Returns the name of an entry. The name must not change while the entry is in the index. */
typedef const uint8_t *order_name_fn(const void *arg, uint32_t entry, size_t *size);

struct order {
    struct order_node *nodes; /* by entry, from 1; borrowed */
    uint32_t root;
    uint64_t seed; /* random */
    order_name_fn *name;
    const void *arg;
};

/* Adds an entry. Neither the entry nor its name may be in the index already. */
void order_insert(struct order *order, uint32_t entry);

/* Removes an entry, which must be in the index. */
void order_remove(struct order *order, uint32_t entry);

/* order_after() returns the first entry whose name comes after `name`. order_from() returns the
 * first entry whose name is equal to `name` or comes after it. Both return 0 if there is none. */
uint32_t order_after(const struct order *order, const void *name, size_t size);
uint32_t order_from(const struct order *order, const void *name, size_t size);

/* Compares two names: negative if a comes before b, 0 if they are equal, else positive. */
int order_compare(const void *a, size_t a_size, const void *b, size_t b_size);

#endif
