/*
 * Valid frames of every kind, for the tests of the frames and as seeds of the fuzzers: each kind
 * once with small distinct values, once with every field at its upper limit; LISTED and TOLD.
 */
#ifndef TESTS_FRAME_SAMPLES_H
#define TESTS_FRAME_SAMPLES_H

#include "proto/frame.h"

enum { SAMPLE_KINDS = 26, SAMPLE_PAGES = 4, SAMPLE_COUNT = 2 * SAMPLE_KINDS + SAMPLE_PAGES };

/* A C string as a text; it is borrowed. */
struct hfi_text sample_text(const char *string);

/* All kinds but LISTED and TOLD, in the order of their numbers: index < SAMPLE_KINDS. */
void sample_small(size_t index, struct hfi_frame *out);
void sample_large(size_t index, struct hfi_frame *out);

/* A page of LISTED: empty, one bare lock, full; a TOLD of three facts. Its size; buffer has
 * HFI_FRAME_MAX bytes. */
size_t sample_page(size_t index, unsigned char *buffer);

/* Any of them, encoded: index < SAMPLE_COUNT. */
size_t sample_packet(size_t index, unsigned char *buffer);

#endif
