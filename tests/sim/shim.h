/*
 * This header is included before the code of the lock word and of the host core when that code is
 * built for the simulator. Each seq_cst atomic operation first lets the scheduler switch to another
 * fiber. So every interleaving of these operations can happen, and the seed decides which one
 * happens. Before an operation with an explicit memory order no switch happens.
 */
#ifndef SIM_SHIM_H
#define SIM_SHIM_H

#include <stdatomic.h>

/* Lets the scheduler switch to another fiber. Does nothing outside of a fiber. It is defined in
 * fiber.c. */
void sim_point(void);

#undef atomic_load
#undef atomic_store
#undef atomic_exchange
#undef atomic_compare_exchange_strong
#undef atomic_compare_exchange_weak
#undef atomic_fetch_add
#undef atomic_fetch_sub
#undef atomic_fetch_or
#undef atomic_fetch_and

#define atomic_load(at) (sim_point(), atomic_load_explicit(at, memory_order_seq_cst))
#define atomic_store(at, value)                                                                    \
    (sim_point(), atomic_store_explicit(at, value, memory_order_seq_cst))
#define atomic_exchange(at, value)                                                                 \
    (sim_point(), atomic_exchange_explicit(at, value, memory_order_seq_cst))
#define atomic_compare_exchange_strong(at, old, value)                                             \
    (sim_point(), atomic_compare_exchange_strong_explicit(at, old, value, memory_order_seq_cst,    \
                                                          memory_order_seq_cst))
#define atomic_compare_exchange_weak(at, old, value)                                               \
    (sim_point(), atomic_compare_exchange_weak_explicit(at, old, value, memory_order_seq_cst,      \
                                                        memory_order_seq_cst))
#define atomic_fetch_add(at, value)                                                                \
    (sim_point(), atomic_fetch_add_explicit(at, value, memory_order_seq_cst))
#define atomic_fetch_sub(at, value)                                                                \
    (sim_point(), atomic_fetch_sub_explicit(at, value, memory_order_seq_cst))
#define atomic_fetch_or(at, value)                                                                 \
    (sim_point(), atomic_fetch_or_explicit(at, value, memory_order_seq_cst))
#define atomic_fetch_and(at, value)                                                                \
    (sim_point(), atomic_fetch_and_explicit(at, value, memory_order_seq_cst))

#endif
