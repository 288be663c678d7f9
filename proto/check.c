/*
 * The default of hfi_check_failed(), for programs that do not define their own. It writes one line
 * to standard error and calls abort(). It uses only the stack, so that it works with a damaged heap
 * and in a forked child.
 */
#include "proto/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

__attribute__((weak)) void hfi_check_failed(const char *what, const char *file, int line)
{
    char text[512];
    int size = snprintf(text, sizeof text, "holdfast: bug: %s is false at %s:%d\n", what, file,
                        line);

    if (size >= (int)sizeof text) {
        size = (int)sizeof text - 1;
        text[size - 1] = '\n';
    }
    if (size > 0 && write(STDERR_FILENO, text, (size_t)size) < 0) {
        /* If write() fails, the line is lost, but abort() still leaves a core. */
    }
    abort();
}
