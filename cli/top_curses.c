/*
 * Loads ncursesw: see top_curses.h.
 */
#include "top_curses.h"

#include <dlfcn.h>
#include <string.h>

static const char library_name[] = "libncursesw.so.6";

const char *top_curses_load(struct top_curses *curses)
{
    void *library = dlopen(library_name, RTLD_NOW | RTLD_LOCAL);
    void *found;

    if (library == NULL) {
        return dlerror();
    }
    /* POSIX: a pointer to an object from dlsym() may be one to a function */
#define TOP_CURSES_FIND(name)                                                                      \
    found = dlsym(library, #name);                                                                 \
    if (found == NULL) {                                                                           \
        return dlerror();                                                                          \
    }                                                                                              \
    memcpy(&curses->name, &found, sizeof(found));
    TOP_CURSES_CALLS(TOP_CURSES_FIND)
#undef TOP_CURSES_FIND
    return NULL;
}
