/*
 * Put in front of the lock word and of the host core when they are built for the simulator: each
 * seq_cst atomic operation first asks the scheduler whether another fiber is to run. So every
 * interleaving of those steps can happen, drawn from the seed. Operations with an explicit order
 * run on together with the step before them.
 */
#ifndef SIM_SHIM_H
#define SIM_SHIM_H

#include <stdatomic.h>

/* In fiber.c. Does nothing outside of a fiber. */
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
