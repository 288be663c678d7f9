/*
 * Valid frames of every kind, for the tests of the frames and as seeds of the fuzzers. Each kind
 * occurs once with small distinct values, and once with every field at its upper limit. There are
 * also pages of LISTED, TOLD and BROKEN.
 */
#ifndef TESTS_FRAME_SAMPLES_H
#define TESTS_FRAME_SAMPLES_H

#include "proto/frame.h"

enum { SAMPLE_KINDS = 30, SAMPLE_PAGES = 5, SAMPLE_COUNT = 2 * SAMPLE_KINDS + SAMPLE_PAGES };

/* Returns a C string as a text, which borrows its bytes. */
struct hfi_text sample_text(const char *string);

/* sample_small() fills in a frame with small values, sample_large() one with every field at its
 * limit. All kinds but LISTED, TOLD and BROKEN occur, in the order of their numbers. index <
 * SAMPLE_KINDS. */
void sample_small(size_t index, struct hfi_frame *out);
void sample_large(size_t index, struct hfi_frame *out);

/* Writes a page of LISTED (empty, with one bare lock, or full), a TOLD of three facts, or a BROKEN
 * of three holds and two agents. Returns its size. buffer has HFI_FRAME_MAX bytes. */
size_t sample_page(size_t index, unsigned char *buffer);

/* Writes any of the samples in encoded form. index < SAMPLE_COUNT. */
size_t sample_packet(size_t index, unsigned char *buffer);

#endif
