/*
 * A litmus test: a few threads of a few atomic operations each, and an outcome that the memory
 * model must forbid; and the same with an order weakened, where it must not.
 */
#ifndef TESTS_MODEL_WEAK_H
#define TESTS_MODEL_WEAK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    THREADS_MAX = 4,
    STEPS_MAX = 10, /* of a thread */
    LOCATIONS_MAX = 5,
    REGISTERS_MAX = 6, /* of a thread */
    TERMS_MAX = 6,
    CHANGES_MAX = 4, /* of a weakening */
    WEAKENINGS_MAX = 4,
    NAME_SIZE = 40
};

enum order { RELAXED, ACQUIRE, RELEASE, ACQUIRE_RELEASE, SEQ_CST };

enum operation {
    LOAD,
    STORE,
    SWAP, /* exchange */
    ADD,
    CAS,    /* leaves in the register what it found */
    LATEST, /* the value that the kernel compares in futex(): the last of all */
    WHEN    /* goes on only if the register has that value */
};

struct step {
    enum operation operation;
    enum order order;
    uint8_t location;
    uint8_t into;              /* register */
    uint8_t expected_register; /* of a CAS; REGISTERS_MAX: `expected` */
    int8_t expected;
    int8_t value;
};

/* A part of the outcome: a register's value at the end; or a location's, the last in its order. */
struct term {
    bool of_memory;
    uint8_t thread;
    uint8_t index; /* register or location */
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

/* Returns whether the outcome can come about; *states: how many states were looked at. */
bool weak_reaches(const struct litmus *litmus, uint64_t *states);

/*
 * Reads the next test of a file, from *at on; *line counts lines. 1: there is one, 0: none is left,
 * -1: error says what is wrong (256 bytes).
 */
int litmus_read(const char **at, unsigned *line, struct litmus *litmus, char *error);

#endif
