/*
 * The library ncursesw, loaded only when `holdfast top` needs it.
 *
 * The program is not linked with it. Otherwise each `holdfast lock` would load two more libraries,
 * and its start would take half as long again. The program would not run either in a container that
 * has no ncursesw.
 */
#ifndef HOLDFAST_CLI_TOP_CURSES_H
#define HOLDFAST_CLI_TOP_CURSES_H

/* Declares all calls as functions, not as macros, so that they can be members of a struct. */
#define NCURSES_NOMACROS 1
#include <curses.h>

/* Every call that is used. */
#define TOP_CURSES_CALLS(CALL)                                                                     \
    CALL(cbreak)                                                                                   \
    CALL(clearok)                                                                                  \
    CALL(curs_set)                                                                                 \
    CALL(delscreen)                                                                                \
    CALL(delwin)                                                                                   \
    CALL(endwin)                                                                                   \
    CALL(getmaxx)                                                                                  \
    CALL(getmaxy)                                                                                  \
    CALL(keypad)                                                                                   \
    CALL(newterm)                                                                                  \
    CALL(newwin)                                                                                   \
    CALL(nodelay)                                                                                  \
    CALL(noecho)                                                                                   \
    CALL(set_escdelay)                                                                             \
    CALL(tigetstr)                                                                                 \
    CALL(waddnwstr)                                                                                \
    CALL(wattrset)                                                                                 \
    CALL(werase)                                                                                   \
    CALL(wgetch)                                                                                   \
    CALL(wmove)                                                                                    \
    CALL(wrefresh)

struct top_curses {
#define TOP_CURSES_MEMBER(name) __typeof__(name) *name;
    TOP_CURSES_CALLS(TOP_CURSES_MEMBER)
#undef TOP_CURSES_MEMBER
};

/* Loads the library, which stays until the process ends. Returns NULL, or why it cannot be
 * loaded. */
const char *top_curses_load(struct top_curses *curses) __attribute__((warn_unused_result));

#endif
