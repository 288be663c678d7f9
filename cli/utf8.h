/*
 * Reads UTF-8 that may be invalid, as command lines of other processes are arbitrary bytes.
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

/* Reads the code point at the start of a terminated text. Overlong forms, surrogates and values
 * above 0x10FFFF are invalid, and then one byte is read at a time. */
struct utf8_unit utf8_next(const char *text);

/* Whether it is a control character of Unicode: C0, DEL or C1. */
bool utf8_is_control(uint32_t code_point);

/* Whether the character is invisible but may change how the text around it looks, or end a line: it
 * changes the direction of writing, joins, has no width, or is a tag or a variation selector. These
 * are Unicode's Default_Ignorable_Code_Point, the separators of lines and paragraphs, and
 * annotations. A lock's name may contain them. */
bool utf8_is_unseen(uint32_t code_point);

#endif
