/*
 * Probes: points to which a tracer (bpftrace, perf, SystemTap) can be attached while a program
 * runs. docs/METRICS.md lists all of them with their arguments.
 *
 * A probe without a tracer is one nop. Even without a tracer its arguments are evaluated, so an
 * argument must be a value that the code needs anyway. A build without <sys/sdt.h> has no probes.
 */
#ifndef PROTO_PROBE_H
#define PROTO_PROBE_H

#ifdef HF_HAVE_SDT
#include <sys/sdt.h>
#define HF_PROBE1(name, a) DTRACE_PROBE1(holdfast, name, a)
#define HF_PROBE2(name, a, b) DTRACE_PROBE2(holdfast, name, a, b)
#define HF_PROBE3(name, a, b, c) DTRACE_PROBE3(holdfast, name, a, b, c)
#define HF_PROBE4(name, a, b, c, d) DTRACE_PROBE4(holdfast, name, a, b, c, d)
#else
#define HF_PROBE1(name, a) ((void)(a))
#define HF_PROBE2(name, a, b) ((void)(a), (void)(b))
#define HF_PROBE3(name, a, b, c) ((void)(a), (void)(b), (void)(c))
#define HF_PROBE4(name, a, b, c, d) ((void)(a), (void)(b), (void)(c), (void)(d))
#endif

#endif
