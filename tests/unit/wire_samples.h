/*
 * Valid messages of every kind, for the tests of the wire and as seeds of its fuzzer: each kind
 * once with small values, all different and none zero, once with every field at its upper limit,
 * and the shapes that a kind may have besides.
 */
#ifndef TESTS_WIRE_SAMPLES_H
#define TESTS_WIRE_SAMPLES_H

#include "proto/wire.h"

enum { WIRE_SAMPLE_SHAPES = 38, WIRE_SAMPLES = 2 * WIRE_SAMPLE_SHAPES };

/* index < WIRE_SAMPLES: the small ones, then the large ones. The whole struct is initialised, and
 * its fields of the header are those of wire_sample_header(). */
void wire_sample(size_t index, struct message *out);

/* Removes the values for which WIRE_VERSION_OLDEST has no field. */
void wire_sample_older(struct message *message);

void wire_sample_header(struct wire_header *out);

#endif
