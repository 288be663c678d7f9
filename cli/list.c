/*
 * `holdfast ls` and `holdfast show`, which print locks with their holders and waiters.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "describe.h"
#include "help.h"
#include "options.h"
#include "text.h"

enum { CELL_COUNT = 5, HOLDER_COLUMNS = 48 };

/* A line of the table: its cells as clean text, and the width of each cell in columns. */
struct row {
    char *cells[CELL_COUNT];
    size_t columns[CELL_COUNT];
};

struct table {
    struct row *rows;
    size_t count;
    size_t capacity;
};

static int row_set(struct row *row, size_t cell, const char *text, size_t columns_max)
{
    size_t size = 0;
    FILE *out = open_memstream(&row->cells[cell], &size);

    if (out == NULL) {
        return HF_ENOMEM;
    }
    row->columns[cell] = text_write_clean(out, text, columns_max);
    if (fclose(out) != 0) {
        return HF_ENOMEM;
    }
    return 0;
}

static struct row *table_add(struct table *table)
{
    if (table->count == table->capacity) {
        size_t capacity = table->capacity == 0 ? 64 : table->capacity * 2;
        struct row *rows = reallocarray(table->rows, capacity, sizeof(*rows));

        if (rows == NULL) {
            return NULL;
        }
        table->rows = rows;
        table->capacity = capacity;
    }
    table->rows[table->count] = (struct row){{NULL}, {0}};
    return &table->rows[table->count++];
}

static int table_add_lock(const struct hf_lock_info *info, void *arg)
{
    struct row *row = table_add(arg);
    char duration[TEXT_DURATION_SIZE];
    char number[32];
    char holder[512] = "-";
    int error;

    if (row == NULL) {
        return HF_ENOMEM;
    }
    if (info->holder_count > 1) {
        snprintf(holder, sizeof(holder), "%zu holders", info->holder_count);
    } else if (info->holder_count == 1) {
        const struct hf_party *who = info->holders[0];
        char pid[24] = "?";

        if (who->pid >= 0) {
            snprintf(pid, sizeof(pid), "%" PRId64, who->pid);
        }
        snprintf(holder, sizeof(holder), "%.32s %s %.440s", who->agent == NULL ? "?" : who->agent,
                 pid, who->command == NULL ? "" : who->command);
    }
    snprintf(number, sizeof(number), "%zu", info->waiter_count);
    error = row_set(row, 0, info->name, 0);
    error = error != 0 ? error : row_set(row, 1, text_state(info->state), 0);
    error = error != 0 ? error : row_set(row, 2, holder, HOLDER_COLUMNS);
    error = error != 0 ? error : row_set(row, 3, number, 0);
    text_duration(duration, info->closed_ns);
    return error != 0 ? error : row_set(row, 4, info->closed_ns > 0 ? duration : "-", 0);
}

static void table_write(const struct table *table, FILE *out)
{
    static const char *const titles[CELL_COUNT] = {"NAME", "MODE", "HOLDER", "WAITERS", "CLOSED"};
    size_t widths[CELL_COUNT];

    for (size_t cell = 0; cell < CELL_COUNT; cell++) {
        widths[cell] = strlen(titles[cell]);
        for (size_t index = 0; index < table->count; index++) {
            size_t columns = table->rows[index].columns[cell];

            widths[cell] = columns > widths[cell] ? columns : widths[cell];
        }
    }
    for (size_t cell = 0; cell < CELL_COUNT; cell++) {
        fprintf(out, "%-*s", cell + 1 < CELL_COUNT ? (int)widths[cell] + 2 : 0, titles[cell]);
    }
    fputc('\n', out);
    for (size_t index = 0; index < table->count; index++) {
        const struct row *row = &table->rows[index];

        for (size_t cell = 0; cell < CELL_COUNT; cell++) {
            size_t pad = cell + 1 < CELL_COUNT ? widths[cell] + 2 - row->columns[cell] : 0;

            fprintf(out, "%s%*s", row->cells[cell], (int)pad, "");
        }
        fputc('\n', out);
    }
}

static void table_free(struct table *table)
{
    for (size_t index = 0; index < table->count; index++) {
        for (size_t cell = 0; cell < CELL_COUNT; cell++) {
            free(table->rows[index].cells[cell]);
        }
    }
    free(table->rows);
}

static int json_add_lock(const struct hf_lock_info *info, void *arg)
{
    describe_lock(arg, info);
    return 0;
}

static int list_json(hf_client *client, const char *prefix)
{
    struct json json;
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    int error;

    if (out == NULL) {
        return HF_ENOMEM;
    }
    json_init(&json, out);
    json_open_array(&json, NULL);
    error = hf_list(client, prefix, json_add_lock, &json);
    json_close_array(&json);
    if (fclose(out) != 0 && error == 0) {
        error = HF_ENOMEM;
    }
    if (error == 0) {
        puts(text); /* printed only if the listing is complete */
    }
    free(text);
    return error;
}

static int list_text(hf_client *client, const char *prefix)
{
    struct table table = {NULL, 0, 0};
    int error = hf_list(client, prefix, table_add_lock, &table);

    if (error == 0 && table.count > 0) {
        table_write(&table, stdout);
    }
    table_free(&table);
    return error;
}

int command_ls(struct cli *cli, int argc, char **argv)
{
    struct arguments words;
    hf_client *client = NULL;
    const char *prefix;
    int error;
    int status = options_parse(cli, "ls", NULL, 0, argc, argv, &words);

    if (status == 0 && cli->help) {
        return help_show("ls");
    }
    status = status != 0 ? status : words_expect("ls", &words, 0, 1, "at most one PREFIX");
    if (status != 0) {
        return status;
    }
    prefix = words.plain_count > 0 ? words.plain[0] : "";
    status = prefix_check("ls", prefix);
    status = status != 0 ? status : cli_connect(cli, "ls", 0, &client);
    if (status != 0) {
        return status;
    }
    error = cli->json ? list_json(client, prefix) : list_text(client, prefix);
    hf_disconnect(client);
    return error != 0 ? cli_fail("ls", prefix[0] == '\0' ? "listing" : prefix, error) : CLI_OK;
}

static int show_lock(const struct hf_lock_info *info, void *arg)
{
    const struct cli *cli = arg;
    struct json json;

    if (!cli->json) {
        text_write_lock(stdout, info);
        return 0;
    }
    json_init(&json, stdout);
    describe_lock(&json, info);
    putchar('\n');
    return 0;
}

int command_show(struct cli *cli, int argc, char **argv)
{
    struct arguments words;
    hf_client *client = NULL;
    int error;
    int status = options_parse(cli, "show", NULL, 0, argc, argv, &words);

    if (status == 0 && cli->help) {
        return help_show("show");
    }
    status = status != 0 ? status : words_expect("show", &words, 1, 1, "one NAME");
    status = status != 0 ? status : name_check("show", words.plain[0]);
    status = status != 0 ? status : cli_connect(cli, "show", 0, &client);
    if (status != 0) {
        return status;
    }
    error = hf_show(client, words.plain[0], show_lock, cli);
    hf_disconnect(client);
    return error != 0 ? cli_fail("show", words.plain[0], error) : CLI_OK;
}
