/*
 * Reads and writes the fields of a frame by tables. Private to proto/.
 *
 * A table has for each field its name, its offset in a struct, and its allowed values. The same
 * table is used to write and to read a frame, so that no side can write a frame that the other side
 * refuses. The writing functions use msgpack-c's packer on a bounded buffer. The reading functions
 * use a cursor that knows only the few msgpack types of which frames consist. Each step of the
 * cursor is checked against the end of the packet, and nothing is allocated. A count in a packet is
 * compared with the allowed maximum before it is used.
 */
#ifndef PROTO_FIELDS_H
#define PROTO_FIELDS_H

#include "proto/frame.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The rule for a text. */
enum hfi_text_rule {
    HFI_TEXT_NAME,          /* a lock name */
    HFI_TEXT_PREFIX,        /* a prefix of lock names; may be empty */
    HFI_TEXT_LABEL,         /* the name of a cell, an agent or a namespace */
    HFI_TEXT_LABEL_OR_NONE, /* a label, or an empty text: not known */
    HFI_TEXT_STORE,         /* 32 lower-case hex digits */
    HFI_TEXT_WORD,          /* a word, such as a version or a role */
    HFI_TEXT_ADDRESS,       /* the address at which an agent listens; empty: it does not listen */
    HFI_TEXT_SEQUENCER,
    HFI_TEXT_COMMAND,
    HFI_TEXT_NOTE,
    HFI_TEXT_RULES,
};

enum hfi_field_type {
    HFI_FIELD_INTEGER,
    HFI_FIELD_SEAT, /* an integer of the range, or HFI_SEAT_NONE */
    HFI_FIELD_BOOL,
    HFI_FIELD_TEXT,
};

struct hfi_field {
    const char *name;
    enum hfi_field_type type;
    enum hfi_text_rule rule; /* the rule for a text */
    uint32_t offset;         /* the member's offset in the struct that the table describes */
    /* the member's size: 4 or 8 for an integer, which is signed if min < 0 */
    uint32_t size;
    int64_t min;
    uint64_t max;
};

/* Entries of a table: s is the struct, and m the member. The field has the name of the member, or
 * `label`. */
#define HFI_INTEGER_AS(label, s, m, low, high)                                                     \
    {                                                                                              \
        .name = (label), .type = HFI_FIELD_INTEGER, .offset = offsetof(struct s, m),               \
        .size = sizeof(((struct s *)0)->m), .min = (low), .max = (high),                           \
    }
#define HFI_SEAT(s, m)                                                                             \
    {                                                                                              \
        .name = #m, .type = HFI_FIELD_SEAT, .offset = offsetof(struct s, m),                       \
        .size = sizeof(((struct s *)0)->m), .min = 0, .max = HFI_FIELD_SEAT_MAX,                   \
    }
#define HFI_BOOL_AS(label, s, m)                                                                   \
    {                                                                                              \
        .name = (label), .type = HFI_FIELD_BOOL, .offset = offsetof(struct s, m),                  \
    }
#define HFI_TEXT_AS(label, s, m, what)                                                             \
    {                                                                                              \
        .name = (label), .type = HFI_FIELD_TEXT, .rule = (what), .offset = offsetof(struct s, m),  \
    }
#define HFI_INTEGER(s, m, low, high) HFI_INTEGER_AS(#m, s, m, low, high)
#define HFI_BOOL(s, m) HFI_BOOL_AS(#m, s, m)
#define HFI_TEXT(s, m, what) HFI_TEXT_AS(#m, s, m, what)

enum {
    HFI_FIELD_SLOT_MAX = (1 << 22) - 1,
    HFI_FIELD_SEAT_MAX = (1 << 20) * 7 - 1, /* the blocks of a region times the seats of a block */
    HFI_FIELD_WORD_MAX = 64,
    HFI_FIELD_ADDRESS_MAX = 127,
    HFI_FIELD_STORE_SIZE = 32,
};

/* ---- reading ---- */

/* A position in a packet. An error text names the position by the frame, then by "item N" and
 * "party N" within the frame. */
struct hfi_reader {
    const unsigned char *at;
    const unsigned char *end;
    const char *frame;
    const char *item; /* the name of the items of the frame's array; NULL: the position is not in an
                       * array */
    uint32_t item_index;
    uint32_t party_index;          /* the party's index in the item; UINT32_MAX: the position is not
                                    * in a party */
    struct hfi_frame_error *error; /* NULL: the caller does not need the text */
};

enum hfi_item_type {
    HFI_ITEM_INTEGER,
    HFI_ITEM_BOOL,
    HFI_ITEM_TEXT,
    HFI_ITEM_BINARY,
    HFI_ITEM_ARRAY,
    HFI_ITEM_OTHER, /* a type that no frame has */
    HFI_ITEM_END,   /* the packet ends before the item, or within it */
};

/* One msgpack item; of an array, only the head. */
struct hfi_item {
    enum hfi_item_type type;
    bool negative;    /* the integer is below 0, and value is its two's complement */
    uint64_t value;   /* an integer, a bool, an array's count */
    const char *what; /* the name of the type of an HFI_ITEM_OTHER */
    /* the bytes of TEXT and BINARY, which lie in the packet and are not checked */
    struct hfi_text text;
};

/* Reads the next item. Checks only that the item lies within the packet. */
struct hfi_item hfi_read_item(struct hfi_reader *reader);

/* Fills in reader->error: "FRAME: WHERE: found FOUND, expected EXPECTED". field may be NULL. */
void hfi_reader_fail(const struct hfi_reader *reader, uint32_t field_index, const char *field,
                     const char *found, const char *expected);

/* Reads the head of an array of low .. high elements, and sets *count to their number. */
bool hfi_read_array(struct hfi_reader *reader, uint32_t field_index, const char *field,
                    uint32_t low, uint32_t high, uint32_t *count)
    __attribute__((warn_unused_result));

/* Skips count items of any type, with all that they contain. Returns false if the packet ends
 * before them, or if a type is not allowed. */
bool hfi_skip_items(struct hfi_reader *reader, uint64_t count) __attribute__((warn_unused_result));

/* Reads count fields into the struct at base. index_first is the index of the first field in its
 * array. */
bool hfi_read_fields(struct hfi_reader *reader, const struct hfi_field *fields, uint32_t count,
                     uint32_t index_first, void *base) __attribute__((warn_unused_result));

/* ---- writing ---- */

/* `failed` is set, and stays set, when a value does not fit or is out of its range. */
struct hfi_writer {
    unsigned char *bytes; /* NULL: the writer only counts the bytes */
    size_t size;
    size_t used;
    bool failed;
};

void hfi_write_array(struct hfi_writer *writer, uint32_t count);
void hfi_write_unsigned(struct hfi_writer *writer, uint64_t value);
void hfi_write_signed(struct hfi_writer *writer, int64_t value);
void hfi_write_bool(struct hfi_writer *writer, bool value);
void hfi_write_raw(struct hfi_writer *writer, const void *bytes, size_t size);
void hfi_write_string(struct hfi_writer *writer, const void *bytes, size_t size);
void hfi_write_binary(struct hfi_writer *writer, const void *bytes, size_t size);
void hfi_write_fields(struct hfi_writer *writer, const struct hfi_field *fields, uint32_t count,
                      const void *base);

/* ---- texts ---- */

bool hfi_text_fits(enum hfi_text_rule rule, struct hfi_text text);

/* Cuts a command line at the end of a character, and replaces bytes that are not text by '?'. The
 * result lies in `cleaned`, which must have HFI_FRAME_COMMAND_MAX bytes. */
struct hfi_text hfi_command_shown(struct hfi_text command, char *cleaned);

/* ---- the elements of LISTED, TOLD and BROKEN, which frame.c needs to check a whole frame ---- */

/* Reads one lock of a page; *parties is the number of parties that follow it, and *further the
 * number of elements after them. */
bool hfi_read_lock(struct hfi_reader *reader, struct hfi_lock_frame *out, uint32_t *parties,
                   uint32_t *further) __attribute__((warn_unused_result));
bool hfi_read_party(struct hfi_reader *reader, struct hfi_party_frame *out)
    __attribute__((warn_unused_result));
/* Reads the elements of a lock after its parties: the first is *out, and the others are skipped. */
bool hfi_read_further(struct hfi_reader *reader, uint32_t further, struct hfi_behind_frame *out)
    __attribute__((warn_unused_result));
/* Writes a frame of a known kind up to the array at its end. */
void hfi_write_frame_start(struct hfi_writer *writer, const struct hfi_frame *frame);
/* Writes one party as LISTED has it. Numbers out of their range become -1. A command is cut and
 * cleaned, and so is a note, which is cut to note_max bytes. */
void hfi_write_party(struct hfi_writer *writer, const struct hfi_party_frame *party,
                     uint32_t note_max);
/* Reads the array at the end of BROKEN, and sets *cursor to its first hold. */
bool hfi_read_broken(struct hfi_reader *reader, uint32_t field_index,
                     const struct hfi_broken_frame *broken, struct hfi_listed_cursor *cursor)
    __attribute__((warn_unused_result));
/* Reads one fact of TOLD. */
bool hfi_read_fact(struct hfi_reader *reader, struct hfi_fact_frame *out)
    __attribute__((warn_unused_result));

#endif
