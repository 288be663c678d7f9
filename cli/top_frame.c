/*
 * Makes the text that `holdfast top` shows: see top_frame.h.
 */
#include "top_frame.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "options.h"
#include "text.h"

/* The screen reports a missing answer only after this time. */
static const int64_t patience_ns = 1000000000;

static const char help_text[] =
    "holdfast top: keys\n"
    "\n"
    "  q               quit\n"
    "  Space, Enter    read again now\n"
    "  s, d            change the delay between readings\n"
    "  1, 2, 3         show locks, waits (which process waits for which), hosts\n"
    "  Tab, Left, Right   the next or previous of these\n"
    "  Up, Down, Page Up, Page Down, Home, End   scroll\n"
    "  W               sort by waiters, the longest queue first\n"
    "  H               sort by holds a second\n"
    "  L               sort by the longest wait\n"
    "  O               sort by the oldest hold (of hosts: by the number of holds)\n"
    "  N               sort by name\n"
    "  <, >            sort by the previous or next of these\n"
    "  R               reverse the order\n"
    "  Ctrl-L          draw the screen again\n"
    "  h, ?            this help; any key ends it\n";

/* ---- the lines above the tables ---- */

static void write_clean(FILE *out, const char *text)
{
    (void)text_write_clean(out, text != NULL ? text : "?", 0);
}

static void write_heading(const struct top_news *news, int64_t delay_ns, FILE *out)
{
    const struct top_reading *reading = news->reading;
    char text[TEXT_TIME_SIZE];
    char duration[TEXT_DURATION_SIZE];

    fprintf(out, "holdfast top");
    if (reading != NULL) {
        fprintf(out, "  %s", text_since(text, news->now_ns - reading->at_ns));
    }
    if (delay_ns > 0) {
        fprintf(out, "  every %s", text_duration(duration, delay_ns));
    }
    if (reading != NULL) {
        fputs("  agent ", out);
        write_clean(out, reading->status.agent);
        fputs(" (", out);
        write_clean(out, reading->status.role);
        fputs(") of cell ", out);
        write_clean(out, reading->status.cell);
        fputs(", version ", out);
        write_clean(out, reading->status.version);
    }
    fputc('\n', out);
}

/* If the agent does not answer, writes a line about that. */
static void write_silence(const struct top_news *news, FILE *out)
{
    char duration[TEXT_DURATION_SIZE];
    char text[TEXT_TIME_SIZE];

    if (news->error != 0) {
        fprintf(out, "no answer %s, for %s", hf_strerror(news->error),
                text_duration(duration, news->now_ns - news->failed_ns));
    } else if (news->asked_ns != 0 && news->now_ns - news->asked_ns > patience_ns) {
        fprintf(out, "no answer the agent has not answered for %s",
                text_duration(duration, news->now_ns - news->asked_ns));
    } else {
        return;
    }
    if (news->reading != NULL) {
        fprintf(out, "; the rest is of %s", text_since(text, news->now_ns - news->reading->at_ns));
    }
    fputc('\n', out);
}

static void write_state(const struct judged *judged, FILE *out)
{
    fprintf(out, "state     %s", judged->word[0] != '\0' ? judged->word : "?");
    if (judged->count > 0) {
        const struct judged_reason *reason = &judged->reasons[0];

        fprintf(out, ": %s%s", reason->name, reason->subject[0] != '\0' ? " " : "");
        write_clean(out, reason->subject);
        fputs(": ", out);
        write_clean(out, reason->text);
    }
    if (judged->count > 1) {
        fprintf(out, " (and %zu more: see holdfast status)", judged->count - 1);
    }
    fputc('\n', out);
}

static void write_locks(const struct top_reading *reading, FILE *out)
{
    fprintf(out, "locks     %zu in use: %zu held, %zu awaited, %zu closed; ", reading->in_use,
            reading->held, reading->awaited, reading->closed);
    top_write_rate(out, reading->holds_milli);
    fputs(" holds/s", out);
    if (reading->cut) {
        fprintf(out, " (only the first %d locks are read: name a PREFIX)", TOP_LOCKS_MAX);
    }
    fputc('\n', out);
}

static void write_session(const struct top_reading *reading, FILE *out)
{
    const struct hf_status *status = &reading->status;
    char left[TEXT_DURATION_SIZE];

    fprintf(out,
            "session   %s, epoch %" PRIu64 ", %s left; here %" PRIu64 " clients, %" PRIu64
            " locks held, %" PRIu64 " waiters\n",
            judged_session(&reading->judged, status->session_state), status->session_epoch,
            text_duration(left, status->session_remaining_ns), status->clients, status->locks_held,
            status->waiters);
}

static void write_voters(const struct top_reading *reading, FILE *out)
{
    const char *between = "";

    fputs("voters    ", out);
    for (size_t index = 0; index < reading->host_count; index++) {
        const struct top_host *host = &reading->hosts[index];

        if (host->role == TOP_VOTER) {
            fputs(between, out);
            write_clean(out, host->name);
            fprintf(out, " %s", text_voter(host->state));
            between = ", ";
        }
    }
    fputc('\n', out);
}

static void write_observers(const struct top_reading *reading, FILE *out)
{
    size_t up = 0;
    size_t down = 0;
    const char *between = ": ";

    for (size_t index = 0; index < reading->host_count; index++) {
        const struct top_host *host = &reading->hosts[index];

        up += host->role == TOP_OBSERVER && host->state == HF_VOTER_UP;
        down += host->role == TOP_OBSERVER && host->state != HF_VOTER_UP;
    }
    if (up + down == 0 && reading->observers <= 0) {
        fprintf(out, "observers %s\n", reading->observers < 0 ? "?" : "none");
        return;
    }
    fprintf(out, "observers %zu up, %zu down", up, down);
    for (size_t index = 0; index < reading->host_count; index++) {
        const struct top_host *host = &reading->hosts[index];

        if (host->role == TOP_OBSERVER && host->state != HF_VOTER_UP) {
            fputs(between, out);
            write_clean(out, host->name);
            between = ", ";
        }
    }
    if (reading->observers > (int64_t)(up + down)) {
        fprintf(out, "; %" PRId64 " more are only counted",
                reading->observers - (int64_t)(up + down));
    }
    fputc('\n', out);
}

/* The most important lines come first, because a screen with few rows leaves out the last lines. */
void top_summary_write(const struct top_news *news, int64_t delay_ns, FILE *out)
{
    const struct top_reading *reading = news->reading;

    write_heading(news, delay_ns, out);
    write_silence(news, out);
    if (reading == NULL) {
        return;
    }
    write_state(&reading->judged, out);
    write_locks(reading, out);
    write_session(reading, out);
    write_voters(reading, out);
    write_observers(reading, out);
}

/* ---- the screen ---- */

/* Writes at most `count` lines of the text. Returns how many it wrote. */
static size_t write_lines(const char *text, size_t count, FILE *out)
{
    size_t written = 0;

    while (written < count && *text != '\0') {
        size_t size = strcspn(text, "\n");

        fprintf(out, "%.*s\n", (int)size, text);
        text += size + (text[size] == '\n');
        written++;
    }
    return written;
}

/* Writes the line between the summary and the table: the delay that the user types, a message, or a
 * description of the table. */
static void write_middle(const struct top_ui *ui, FILE *out)
{
    enum top_order order = ui->orders[ui->view];

    if (ui->typing) {
        fprintf(out, "delay between readings, such as 500ms or 2s: %s_\n", ui->typed);
    } else if (ui->message[0] != '\0') {
        fprintf(out, "%s\n", ui->message);
    } else {
        fprintf(out, "%s by %s%s", top_view_word(ui->view), top_order_word(order),
                ui->reverse ? ", reversed" : "");
        if (ui->first > 0) {
            fprintf(out, ", from %zu of %zu", ui->first + 1, ui->total);
        } else {
            fprintf(out, ", %zu", ui->total);
        }
        fputs("; h: help\n", out);
    }
}

/* Writes the table into the rest of the screen. */
static int write_table(const struct top_news *news, struct top_ui *ui, size_t width, size_t height,
                       FILE *out)
{
    struct top_rows rows = {.rows = NULL};
    int error = top_rows_make(news->reading, ui->view, ui->orders[ui->view], ui->reverse, &rows);

    if (error != 0) {
        return error;
    }
    ui->total = rows.count;
    ui->page = height > 2 ? height - 2 : 1;
    if (ui->first + ui->page > ui->total) {
        ui->first = ui->total > ui->page ? ui->total - ui->page : 0;
    }
    write_middle(ui, out);
    if (height > 1) {
        error = top_rows_write(&rows, ui->first, height - 2, width, out);
    }
    top_rows_free(&rows);
    return error;
}

int top_frame_write(const struct top_news *news, struct top_ui *ui, size_t width, size_t height,
                    int *title, FILE *out)
{
    char *summary = NULL;
    size_t size = 0;
    FILE *stream;
    size_t used;

    *title = -1;
    if (ui->help) {
        (void)write_lines(help_text, height, out);
        return 0;
    }
    stream = open_memstream(&summary, &size);
    if (stream == NULL) {
        return HF_ENOMEM;
    }
    top_summary_write(news, ui->delay_ns, stream);
    if (fclose(stream) != 0) {
        free(summary);
        return HF_ENOMEM;
    }
    /* the table gets four lines at least: its name, titles, and two rows */
    used = write_lines(summary, height > 5 ? height - 4 : 1, out);
    free(summary);
    if (news->reading == NULL || height <= used) {
        return 0;
    }
    *title = height - used > 1 ? (int)used + 1 : -1;
    return write_table(news, ui, width, height - used, out);
}

/* ---- the keys ---- */

void top_ui_init(struct top_ui *ui, int64_t delay_ns)
{
    *ui = (struct top_ui){
        .view = TOP_LOCKS,
        .orders =
            {[TOP_LOCKS] = TOP_BY_WAITERS, [TOP_WAITS] = TOP_BY_WAIT, [TOP_HOSTS] = TOP_BY_NAME},
        .delay_ns = delay_ns,
        .page = 1,
    };
}

static void show_view(struct top_ui *ui, unsigned view)
{
    ui->view = (enum top_view)(view % TOP_VIEW_COUNT);
    ui->first = 0;
}

/* Moves to the next order that the view has; `step` is 1, or TOP_ORDER_COUNT - 1 to go back. */
static void next_order(struct top_ui *ui, unsigned step)
{
    unsigned order = ui->orders[ui->view];

    do {
        order = (order + step) % TOP_ORDER_COUNT;
    } while (!top_view_has(ui->view, (enum top_order)order));
    ui->orders[ui->view] = (enum top_order)order;
    ui->first = 0;
}

/* Chooses the order of that key. Returns false if no order has that key. */
static bool choose_order(struct top_ui *ui, int key)
{
    for (unsigned order = 0; order < TOP_ORDER_COUNT; order++) {
        if (top_order_key((enum top_order)order) != key) {
            continue;
        }
        if (top_view_has(ui->view, (enum top_order)order)) {
            ui->orders[ui->view] = (enum top_order)order;
            ui->first = 0;
        } else {
            snprintf(ui->message, sizeof(ui->message), "%s are not sorted by %s",
                     top_view_word(ui->view), top_order_word((enum top_order)order));
        }
        return true;
    }
    return false;
}

static void scroll_up(struct top_ui *ui, size_t count)
{
    ui->first = ui->first > count ? ui->first - count : 0;
}

/* May scroll beyond the last page: top_frame_write() then moves back to the last page. */
static void scroll_down(struct top_ui *ui, size_t count)
{
    ui->first = ui->total - ui->first > count ? ui->first + count : ui->total;
}

static bool scroll(struct top_ui *ui, int key)
{
    switch (key) {
    case TOP_KEY_UP:
        scroll_up(ui, 1);
        return true;
    case TOP_KEY_DOWN:
        scroll_down(ui, 1);
        return true;
    case TOP_KEY_PAGE_UP:
        scroll_up(ui, ui->page);
        return true;
    case TOP_KEY_PAGE_DOWN:
        scroll_down(ui, ui->page);
        return true;
    case TOP_KEY_HOME:
        ui->first = 0;
        return true;
    case TOP_KEY_END:
        ui->first = ui->total;
        return true;
    default:
        return false;
    }
}

/* Takes the delay that the user has typed. */
static enum top_action take_delay(struct top_ui *ui)
{
    int64_t delay_ns = 0;

    ui->typing = false;
    if (ui->typed[0] == '\0') {
        return TOP_DRAW;
    }
    if (duration_parse(ui->typed, &delay_ns) != DURATION_GOOD || delay_ns < top_delay_ns_min ||
        delay_ns > top_delay_ns_max) {
        snprintf(ui->message, sizeof(ui->message),
                 "\"%s\" is no delay: expected 100ms to 24h, such as 2s", ui->typed);
        return TOP_DRAW;
    }
    ui->delay_ns = delay_ns;
    return TOP_READ;
}

static enum top_action type(struct top_ui *ui, int key)
{
    size_t size = strlen(ui->typed);

    if (key == TOP_KEY_ENTER) {
        return take_delay(ui);
    }
    if (key == TOP_KEY_ESCAPE) {
        ui->typing = false;
    } else if (key == TOP_KEY_ERASE) {
        ui->typed[size > 0 ? size - 1 : 0] = '\0';
    } else if (key > ' ' && key < 127 && size + 1 < sizeof(ui->typed)) {
        ui->typed[size] = (char)key;
        ui->typed[size + 1] = '\0';
    }
    return TOP_DRAW;
}

enum top_action top_ui_key(struct top_ui *ui, int key)
{
    if (ui->typing) {
        return type(ui, key);
    }
    ui->message[0] = '\0';
    if (ui->help && key != 'q') {
        ui->help = false;
        return TOP_DRAW;
    }
    if (scroll(ui, key) || choose_order(ui, key)) {
        return TOP_DRAW;
    }
    switch (key) {
    case 'q':
        return TOP_QUIT;
    case ' ':
    case TOP_KEY_ENTER:
        return TOP_READ;
    case 's':
    case 'd':
        ui->typing = true;
        ui->typed[0] = '\0';
        break;
    case '1':
    case '2':
    case '3':
        show_view(ui, (unsigned)(key - '1'));
        break;
    case '\t':
    case TOP_KEY_RIGHT:
        show_view(ui, ui->view + 1U);
        break;
    case TOP_KEY_LEFT:
        show_view(ui, ui->view + TOP_VIEW_COUNT - 1U);
        break;
    case '>':
        next_order(ui, 1);
        break;
    case '<':
        next_order(ui, TOP_ORDER_COUNT - 1);
        break;
    case 'R':
        ui->reverse = !ui->reverse;
        break;
    case 'h':
    case '?':
        ui->help = true;
        break;
    default:
        break;
    }
    return TOP_DRAW;
}
