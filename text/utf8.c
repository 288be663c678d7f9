/*
 * Reads UTF-8 that may be invalid: see text/utf8.h. RFC 3629, section 4.
 */
#include "text/utf8.h"

/* Returns the length that a first byte announces. *bits: this byte's bits of the code point. */
static size_t sequence_size(unsigned char first, uint32_t *bits)
{
    if (first < 0x80) {
        *bits = first;
        return 1;
    }
    if (first >= 0xC2 && first <= 0xDF) {
        *bits = first & 0x1FU;
        return 2;
    }
    if (first >= 0xE0 && first <= 0xEF) {
        *bits = first & 0x0FU;
        return 3;
    }
    if (first >= 0xF0 && first <= 0xF4) {
        *bits = first & 0x07U;
        return 4;
    }
    return 0;
}

struct hfi_utf8 hfi_utf8_next(const char *bytes, size_t size)
{
    static const uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
    const struct hfi_utf8 broken = {.code_point = 0xFFFD, .size = 1, .valid = false};
    uint32_t code_point = 0;

    if (size == 0) {
        return (struct hfi_utf8){.valid = true};
    }
    size_t length = sequence_size((unsigned char)bytes[0], &code_point);
    if (length == 0 || length > size) {
        return broken;
    }
    for (size_t index = 1; index < length; index++) {
        unsigned char byte = (unsigned char)bytes[index];

        if ((byte & 0xC0U) != 0x80U) {
            return broken;
        }
        code_point = (code_point << 6) | (byte & 0x3FU);
    }
    if (code_point < smallest[length] || code_point > 0x10FFFF ||
        (code_point >= 0xD800 && code_point <= 0xDFFF)) {
        return broken;
    }
    return (struct hfi_utf8){.code_point = code_point, .size = length, .valid = true};
}

bool hfi_utf8_is_control(uint32_t code_point)
{
    return code_point < 0x20 || (code_point >= 0x7F && code_point <= 0x9F);
}

bool hfi_utf8_is_unseen(uint32_t code_point)
{
    static const struct {
        uint32_t first;
        uint32_t last;
    } ranges[] = {{0xAD, 0xAD},      {0x34F, 0x34F},   {0x61C, 0x61C},     {0x115F, 0x1160},
                  {0x17B4, 0x17B5},  {0x180B, 0x180F}, {0x200B, 0x200F},   {0x2028, 0x202E},
                  {0x2060, 0x206F},  {0x3164, 0x3164}, {0xFE00, 0xFE0F},   {0xFEFF, 0xFEFF},
                  {0xFFA0, 0xFFA0},  {0xFFF0, 0xFFFB}, {0x1BCA0, 0x1BCA3}, {0x1D173, 0x1D17A},
                  {0xE0000, 0xE0FFF}};
    for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++) {
        if (code_point >= ranges[i].first && code_point <= ranges[i].last) {
            return true;
        }
    }
    return false;
}
