/*
 * Reads UTF-8 that may be invalid, as command lines of other processes are arbitrary bytes.
 *
 * The command, the library and the agent use it. This header depends on no other folder of this
 * project.
 */
#ifndef TEXT_UTF8_H
#define TEXT_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { HFI_UTF8_MAX = 4 }; /* the most bytes that a code point has */

/* The result of hfi_utf8_next(). */
struct hfi_utf8 {
    uint32_t code_point; /* 0xFFFD for a byte that belongs to no valid sequence */
    size_t size;         /* in bytes; 0 if there was no byte left */
    bool valid;
};

/* Reads the code point at the start of some bytes. Overlong forms, surrogates and values above
 * 0x10FFFF are invalid, and then one byte is read at a time. */
struct hfi_utf8 hfi_utf8_next(const char *bytes, size_t size);

/* Returns whether the character is a control character of Unicode: C0, DEL or C1. */
bool hfi_utf8_is_control(uint32_t code_point);

/* Returns whether the character is invisible but may change how the text around it looks, or end a
 * line: it changes the direction of writing, joins, has no width, or is a tag or a variation
 * selector. These are Unicode's Default_Ignorable_Code_Point, the separators of lines and
 * paragraphs, and annotations. A lock's name may contain them. */
bool hfi_utf8_is_unseen(uint32_t code_point);

#endif
