/* The search for a connection's descriptor always fails: agent/io/transport/nng.h describes this
 * case. */
#include <nng/nng.h>

/* declared so that the linker reports a changed name */
int __real_transport_find_fd(nng_stream *stream);
int __wrap_transport_find_fd(nng_stream *stream);

int __wrap_transport_find_fd(nng_stream *stream)
{
    (void)__real_transport_find_fd(stream);
    return -1;
}
