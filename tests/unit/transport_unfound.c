/* No connection's descriptor is ever found: see agent/io/transport/nng.h for that case. */
#include <nng/nng.h>

int __real_transport_find_fd(nng_stream *stream); /* the linker complains if this has another
                                                   * name */
int __wrap_transport_find_fd(nng_stream *stream);

int __wrap_transport_find_fd(nng_stream *stream)
{
    (void)__real_transport_find_fd(stream);
    return -1;
}
