/*
 * The entries of the fuzzers. Each entry gives one input to one decoder, and aborts if the decoder
 * breaks a promise. libFuzzer runs the entry (clang, HF_FUZZ=ON: fuzz_main.c). The ordinary test
 * run of any compiler also runs it, for a short time and from a fixed seed (mutate.c).
 */
#ifndef TESTS_FUZZ_H
#define TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>

/* Runs one input. Aborts if it finds a fault. */
typedef void fuzz_entry(const uint8_t *bytes, size_t size);

/* Writes the seed input with number `index`, from 0. Returns its size, or 0 if there is no such
 * seed. */
typedef size_t fuzz_seed(size_t index, uint8_t *bytes, size_t size);

struct fuzz_target {
    const char *name;
    fuzz_entry *entry;
    fuzz_seed *seed;
    size_t size_max; /* the greatest size of an input */
};

/* Each fuzzer defines its own fuzz_target in its fuzz_X.c. */
extern const struct fuzz_target fuzz_target;

#endif
