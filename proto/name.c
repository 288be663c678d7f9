/*
 * The rules for lock names, for prefixes of lock names, and for labels (names of cells, agents and
 * namespaces).
 *
 * UTF-8 is valid by section 4 of RFC 3629: only the shortest form, no surrogates, nothing above
 * U+10FFFF. Control characters (C0, DEL, C1) are refused, because names appear on terminals and in
 * logs. A zero byte is a control character, so every valid name is also a C string.
 */
#include "fields.h"

#include "holdfast/holdfast.h"
#include "proto/region.h"
#include "text/utf8.h"

size_t hfi_utf8_size(const char *bytes, size_t size)
{
    struct hfi_utf8 unit = hfi_utf8_next(bytes, size);
    return unit.valid && !hfi_utf8_is_control(unit.code_point) ? unit.size : 0;
}

static bool is_clean_utf8(const char *bytes, size_t size)
{
    size_t at = 0;

    while (at < size) {
        size_t step = hfi_utf8_size(bytes + at, size - at);

        if (step == 0) {
            return false;
        }
        at += step;
    }
    return true;
}

int hfi_prefix_check(const char *prefix, size_t size)
{
    if (size > HFI_NAME_MAX) {
        return HF_ENAMETOOLONG;
    }
    return is_clean_utf8(prefix, size) ? 0 : HF_EINVAL;
}

int hfi_name_check(const char *name, size_t size)
{
    return size == 0 ? HF_EINVAL : hfi_prefix_check(name, size);
}

bool hfi_label_check(const char *label, size_t size)
{
    if (size == 0 || size > HFI_LABEL_MAX) {
        return false;
    }
    for (size_t i = 0; i < size; i++) {
        char c = label[i];

        if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-')) {
            return false;
        }
    }
    return true;
}

static bool is_hex(const char *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        if (!((bytes[i] >= '0' && bytes[i] <= '9') || (bytes[i] >= 'a' && bytes[i] <= 'f'))) {
            return false;
        }
    }
    return true;
}

/* Returns whether all bytes are printable ASCII characters other than the space. */
static bool is_visible(const char *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        if (bytes[i] < 0x21 || bytes[i] > 0x7e) {
            return false;
        }
    }
    return true;
}

bool hfi_text_fits(enum hfi_text_rule rule, struct hfi_text text)
{
    switch (rule) {
    case HFI_TEXT_NAME:
        return hfi_name_check(text.bytes, text.size) == 0;
    case HFI_TEXT_PREFIX:
        return hfi_prefix_check(text.bytes, text.size) == 0;
    case HFI_TEXT_LABEL:
        return hfi_label_check(text.bytes, text.size);
    case HFI_TEXT_LABEL_OR_NONE:
        return text.size == 0 || hfi_label_check(text.bytes, text.size);
    case HFI_TEXT_STORE:
        return text.size == HFI_FIELD_STORE_SIZE && is_hex(text.bytes, text.size);
    case HFI_TEXT_WORD:
        return text.size > 0 && text.size <= HFI_FIELD_WORD_MAX &&
               is_visible(text.bytes, text.size);
    case HFI_TEXT_ADDRESS:
        return text.size <= HFI_FIELD_ADDRESS_MAX && is_visible(text.bytes, text.size);
    case HFI_TEXT_SEQUENCER:
        return text.size > 0 && text.size < HF_SEQUENCER_MAX && is_visible(text.bytes, text.size);
    case HFI_TEXT_COMMAND:
        return text.size <= HFI_FRAME_COMMAND_MAX && is_clean_utf8(text.bytes, text.size);
    case HFI_TEXT_NOTE:
        return text.size <= HFI_FRAME_NOTE_MAX && is_clean_utf8(text.bytes, text.size);
    case HFI_TEXT_RULES:
        break;
    }
    return false;
}
