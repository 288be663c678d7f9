/*
 * Reading UTF-8 that may be wrong: command lines of other processes are arbitrary bytes.
 */
#ifndef HOLDFAST_CLI_UTF8_H
#define HOLDFAST_CLI_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The result of utf8_next(). */
struct utf8_unit {
    uint32_t code_point; /* 0xFFFD for a byte that belongs to no valid sequence */
    size_t size;         /* bytes; 0 at the end of the string */
    bool valid;
};

/* Reads the code point at the start of the zero-terminated text. Overlong forms, surrogates and
 * what lies above 0x10FFFF are invalid, one byte at a time. */
struct utf8_unit utf8_next(const char *text);

/* True for the control characters of Unicode: C0, DEL and C1. */
bool utf8_is_control(uint32_t code_point);

/* True for a character that shows nothing of its own but may change how the text around it looks,
 * or end a line: one that turns the direction of writing, joins, or has no width; tags, variations.
 * Unicode's Default_Ignorable_Code_Point, the separators of lines and paragraphs, and annotations.
 * A lock's name may have them. */
bool utf8_is_unseen(uint32_t code_point);

#endif
