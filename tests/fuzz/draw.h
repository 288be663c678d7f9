/*
 * Reads a fuzzer's input as a sequence of choices. Each draw takes bytes from the front of the
 * input, and an input that is used up gives zeros. So every input has a meaning, and a change of
 * one byte changes one choice.
 */
#ifndef TESTS_FUZZ_DRAW_H
#define TESTS_FUZZ_DRAW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct draw {
    const uint8_t *at;
    size_t left;
};

static inline uint8_t draw_byte(struct draw *draw)
{
    if (draw->left == 0) {
        return 0;
    }
    draw->left--;
    return *draw->at++;
}

static inline uint32_t draw_below(struct draw *draw, uint32_t limit)
{
    return limit > 256 ? (draw_byte(draw) | (uint32_t)draw_byte(draw) << 8) % limit
                       : draw_byte(draw) % limit;
}

static inline bool draw_bool(struct draw *draw)
{
    return (draw_byte(draw) & 1) != 0;
}

/* Draws a number from one byte. It is a number on which faults are likely: a small one, or one near
 * a power of two. */
static inline uint64_t draw_number(struct draw *draw)
{
    uint8_t what = draw_byte(draw);
    uint64_t number = 0;

    if (what < 64) {
        return what;
    }
    if (what < 128) {
        return (UINT64_C(1) << (what - 64)) - 1;
    }
    if (what < 192) {
        return UINT64_C(1) << (what - 128);
    }
    if (what < 224) {
        return (UINT64_C(1) << 2 * (what - 192)) + 1;
    }
    for (unsigned i = 0; i < 8; i++) {
        number = number << 8 | draw_byte(draw);
    }
    return number;
}

#endif
