/* See server_kernel.h: the kernel, libuv and memory of a fuzzed server. */
#include "server_kernel.h"

#include <errno.h>
#include <string.h>

#include "proto/check.h"

struct kernel kernel;

/* ---- memory and time ---- */

void *fuzz_malloc(size_t size)
{
    bool fails = kernel.memory_fails;
    kernel.memory_fails = false;
    kernel.blocks += fails ? 0 : 1;
    return fails ? NULL : malloc(size);
}

void *fuzz_calloc(size_t count, size_t size)
{
    void *memory = fuzz_malloc(count * size);
    return memory != NULL ? memset(memory, 0, count * size) : NULL;
}

void fuzz_free(void *memory)
{
    kernel.blocks -= memory != NULL ? 1 : 0;
    free(memory);
}

int64_t fuzz_clock(void)
{
    return kernel.now_ns;
}

/* ---- the listener ---- */

int kernel_fails(void)
{
    errno = EADDRINUSE;
    return draw_byte(&kernel.draw) == 255 ? -1 : 0;
}

int fuzz_listen(int fd, int backlog)
{
    HF_CHECK(fd == LISTENER && backlog > 0);
    return kernel_fails();
}

int kernel_accept(uint32_t clients)
{
    HF_CHECK(clients <= KERNEL_CLIENTS_MAX);
    if (kernel.accept_error != 0) {
        errno = kernel.accept_error;
        kernel.accept_error = 0;
        return -1;
    }
    if (kernel.waiting == 0 || kernel.accepted == clients) {
        errno = EAGAIN;
        return -1;
    }
    kernel.waiting--;
    return (int)kernel.accepted++;
}

/* ---- libuv ---- */

static struct kernel_end *end_of(const uv_poll_t *poll)
{
    return kernel_end_of(poll->io_watcher.fd);
}

int fuzz_uv_poll_init(uv_loop_t *loop, uv_poll_t *poll, int fd)
{
    if (kernel_fails() != 0) {
        return UV_ENOMEM;
    }
    poll->loop = loop;
    poll->io_watcher.fd = fd;
    if (fd == LISTENER) {
        kernel.listener = poll;
    } else {
        kernel_end_of(fd)->poll = poll;
    }
    return 0;
}

int fuzz_uv_poll_start(uv_poll_t *poll, int events, uv_poll_cb callback)
{
    HF_CHECK(events != 0);
    if (poll == kernel.listener) {
        HF_CHECK(kernel.listener_open);
        kernel.listens = true;
        kernel.on_listener = callback;
        return 0;
    }
    HF_CHECK(end_of(poll)->poll == poll);
    end_of(poll)->events = events;
    end_of(poll)->callback = callback;
    return 0;
}

int fuzz_uv_poll_stop(uv_poll_t *poll)
{
    if (poll == kernel.listener) {
        kernel.listens = false;
    } else {
        end_of(poll)->events = 0;
    }
    return 0;
}

void fuzz_uv_close(uv_handle_t *handle, uv_close_cb callback)
{
    uv_poll_t *poll = (uv_poll_t *)handle;
    for (uint32_t i = 0; i < kernel.closing_count; i++) {
        HF_CHECK(kernel.closing[i].handle != handle);
    }
    if (poll == kernel.listener) {
        kernel.listener = NULL;
        kernel.listens = false;
    } else {
        end_of(poll)->events = 0;
        end_of(poll)->poll = NULL;
    }
    HF_CHECK(kernel.closing_count <= KERNEL_CLIENTS_MAX);
    kernel.closing[kernel.closing_count].handle = handle;
    kernel.closing[kernel.closing_count++].callback = callback;
}

void kernel_finish_closing(void)
{
    for (uint32_t i = 0; i < kernel.closing_count; i++) {
        kernel.closing[i].callback(kernel.closing[i].handle);
    }
    kernel.closing_count = 0;
}
