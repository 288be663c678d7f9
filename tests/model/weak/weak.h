/*
 * A litmus test: a few threads of a few atomic operations each, and an outcome that the memory
 * model must forbid. A weakening is the same test with a weaker order of some steps. In a weakening
 * the outcome must be allowed.
 */
#ifndef TESTS_MODEL_WEAK_H
#define TESTS_MODEL_WEAK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    THREADS_MAX = 4,
    STEPS_MAX = 10, /* steps of a thread */
    LOCATIONS_MAX = 5,
    REGISTERS_MAX = 6, /* registers of a thread */
    TERMS_MAX = 6,
    CHANGES_MAX = 4, /* the steps that a weakening changes */
    WEAKENINGS_MAX = 4,
    NAME_SIZE = 40
};

enum order { RELAXED, ACQUIRE, RELEASE, ACQUIRE_RELEASE, SEQ_CST };

enum operation {
    LOAD,
    STORE,
    SWAP, /* an exchange */
    ADD,
    CAS,    /* compare and exchange; the register gets the old value */
    LATEST, /* reads the newest value, as the kernel does when futex() compares */
    WHEN    /* the thread goes on only if the register has the step's value */
};

struct step {
    enum operation operation;
    enum order order;
    uint8_t location;
    uint8_t into;              /* the register that gets the value */
    uint8_t expected_register; /* the register whose value a CAS expects; REGISTERS_MAX: it
                                * expects `expected` */
    int8_t expected;
    int8_t value;
};

/* A part of the outcome: the final value of a register, or the last value in a location's
 * modification order. */
struct term {
    bool of_memory;
    uint8_t thread;
    uint8_t index; /* the number of the register or location */
    int8_t value;
};

struct weakening {
    unsigned count;
    struct {
        uint8_t thread;
        uint8_t step;
        enum order order;
    } changes[CHANGES_MAX];
};

struct litmus {
    char name[NAME_SIZE];
    unsigned line;
    unsigned threads;
    unsigned steps[THREADS_MAX];
    struct step code[THREADS_MAX][STEPS_MAX];
    unsigned locations;
    char location_names[LOCATIONS_MAX][NAME_SIZE];
    int8_t first[LOCATIONS_MAX];
    unsigned terms;
    struct term forbidden[TERMS_MAX];
    unsigned weakenings;
    struct weakening weakened[WEAKENINGS_MAX];
};

/* Returns whether the outcome is possible. *states becomes the number of states that were tried. */
bool weak_reaches(const struct litmus *litmus, uint64_t *states);

#endif
