/*
 * Valid messages of every kind, for the tests of the wire and as seeds of its fuzzer. Each kind
 * occurs once with small values, all different and none zero, and once with every field at its
 * upper limit. Kinds with several shapes occur in each shape.
 */
#ifndef TESTS_WIRE_SAMPLES_H
#define TESTS_WIRE_SAMPLES_H

#include "proto/wire.h"

enum { WIRE_SAMPLE_SHAPES = 50, WIRE_SAMPLES = 2 * WIRE_SAMPLE_SHAPES };

/* Fills in a whole message; its header fields are those of wire_sample_header(). index <
 * WIRE_SAMPLES. Small messages come first, then large ones. */
void wire_sample(size_t index, struct message *out);

/* Removes the values that a version has no field for. The version must have the kind. */
void wire_sample_of(struct message *message, uint32_t version);

void wire_sample_header(struct wire_header *out);

#endif
