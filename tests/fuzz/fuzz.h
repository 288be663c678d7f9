/*
 * The entries of the fuzzers: each gives one input to one decoder and aborts if that breaks a
 * promise. The same entry is run by libFuzzer (clang, HF_FUZZ=ON: fuzz_main.c) and, for a while
 * and from a fixed seed, by the ordinary test run of any compiler (mutate.c).
 */
#ifndef TESTS_FUZZ_H
#define TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>

/* Runs one input. Either returns, or aborts. */
typedef void fuzz_entry(const uint8_t *bytes, size_t size);

/* Writes a seed input; index counts up from 0. Returns the size written; 0: there are no more
 * seeds. */
typedef size_t fuzz_seed(size_t index, uint8_t *bytes, size_t size);

struct fuzz_target {
    const char *name;
    fuzz_entry *entry;
    fuzz_seed *seed;
    size_t size_max; /* of one input */
};

/* Each program defines exactly one, in its fuzz_X.c. */
extern const struct fuzz_target fuzz_target;

#endif
