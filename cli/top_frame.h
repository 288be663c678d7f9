/*
 * The text of `holdfast top` (the lines above the tables, and a whole screen), and its keys, which
 * change the screen.
 *
 * These functions need neither the agent nor a terminal. top_screen.c writes the lines to a
 * terminal, and calls top_ui_key() for each key.
 */
#ifndef HOLDFAST_CLI_TOP_FRAME_H
#define HOLDFAST_CLI_TOP_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "top_reading.h"
#include "top_rows.h"

/* The shortest and the longest time between two readings. */
static const int64_t top_delay_ns_min = 100000000;
static const int64_t top_delay_ns_max = INT64_C(24) * 3600 * 1000000000;

/* The last reading, and the state of the next one. */
struct top_news {
    const struct top_reading *reading; /* the last reading that succeeded; NULL: none yet */
    int64_t now_ns;                    /* CLOCK_BOOTTIME */
    int error;                         /* the error of the last attempt; 0: it succeeded */
    int64_t failed_ns;                 /* since when attempts fail */
    /* when the running attempt began; 0: no attempt is running */
    int64_t asked_ns;
};

/* The choices of the user. */
struct top_ui {
    enum top_view view;
    enum top_order orders[TOP_VIEW_COUNT];
    bool reverse;
    bool help;   /* the screen shows the help */
    bool typing; /* the user types a delay */
    char typed[16];
    char message[120]; /* a message about the last key; "": none */
    int64_t delay_ns;
    size_t first; /* the first row that is shown */
    size_t page;  /* how many rows fit, set by top_frame_write() */
    size_t total; /* how many rows there are, set by top_frame_write() */
};

/* A key: a character, or one of these. */
enum top_key {
    TOP_KEY_UP = 256,
    TOP_KEY_DOWN,
    TOP_KEY_LEFT,
    TOP_KEY_RIGHT,
    TOP_KEY_PAGE_UP,
    TOP_KEY_PAGE_DOWN,
    TOP_KEY_HOME,
    TOP_KEY_END,
    TOP_KEY_ENTER,
    TOP_KEY_ERASE,
    TOP_KEY_ESCAPE,
};

enum top_action {
    TOP_DRAW, /* show the screen again */
    TOP_READ, /* ask the agent now */
    TOP_QUIT,
};

/* Begins with the locks, sorted by waiters. */
void top_ui_init(struct top_ui *ui, int64_t delay_ns);

enum top_action top_ui_key(struct top_ui *ui, int key) __attribute__((warn_unused_result));

/* Writes the lines about the agent and the cell. delay_ns: the time between readings; 0: do not
 * show it. */
void top_summary_write(const struct top_news *news, int64_t delay_ns, FILE *out);

/*
 * Writes a screen of at most `height` lines. Lines may be longer than `width` if `width` is very
 * small. Sets *title to the number of the line with the titles of the table, or to -1 if there is
 * no such line. Returns 0 or HF_ENOMEM.
 */
int top_frame_write(const struct top_news *news, struct top_ui *ui, size_t width, size_t height,
                    int *title, FILE *out) __attribute__((warn_unused_result));

#endif
