/*
 * `holdfast ls` and `holdfast show`, which print locks with their holders and waiters.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "describe.h"
#include "help.h"
#include "lock_cells.h"
#include "options.h"
#include "table.h"
#include "text.h"

enum { NAME, MODE, HOLDER, HOST, SINCE, WAITERS, CELL_COUNT };

static const struct table_column columns[CELL_COUNT] = {
    [NAME] = {"NAME", 8}, [MODE] = {"MODE", 0},   [HOLDER] = {"HOLDER", 8},
    [HOST] = {"HOST", 8}, [SINCE] = {"SINCE", 0}, [WAITERS] = {"WAITERS", 0},
};

/* A lock of the listing. */
struct row {
    char *cells[CELL_COUNT]; /* clean text */
    char *json;              /* the lock as JSON; NULL without --json */
    size_t index;            /* the lock's index in the order of names */
    size_t waiter_count;
    int64_t elapsed_ns; /* how long the oldest hold has lasted; -1: the lock is free, or unknown */
};

/* The set of locks that `holdfast ls` lists. */
enum choice {
    CHOICE_IN_USE, /* locks that are held, awaited or closed, or that an unseen host may hold */
    CHOICE_HELD,
    CHOICE_ALL,
};

struct list {
    enum choice choice;
    bool json;
    struct row *rows;
    size_t count;
    size_t capacity;
    size_t left_out;
};

/* ---- a lock's cells ---- */

static void cell_write(FILE *out, int cell, const struct hf_lock_info *info)
{
    char time[TEXT_TIME_SIZE];

    switch (cell) {
    case NAME:
        (void)text_write_clean(out, info->name, 0);
        break;
    case MODE:
        lock_write_mode(out, info);
        break;
    case HOLDER:
        lock_write_holder(out, info);
        break;
    case HOST:
        lock_write_host(out, info);
        break;
    case SINCE:
        fputs(info->holder_count == 0 ? "-" : text_since(time, lock_oldest_hold_ns(info)), out);
        break;
    default:
        fprintf(out, "%zu", info->waiter_count);
    }
}

static int cell_make(struct row *row, int cell, const struct hf_lock_info *info)
{
    size_t size = 0;
    FILE *out = open_memstream(&row->cells[cell], &size);

    if (out == NULL) {
        return HF_ENOMEM;
    }
    cell_write(out, cell, info);
    return fclose(out) != 0 ? HF_ENOMEM : 0;
}

static int json_make(struct row *row, const struct hf_lock_info *info)
{
    struct json json;
    size_t size = 0;
    FILE *out = open_memstream(&row->json, &size);

    if (out == NULL) {
        return HF_ENOMEM;
    }
    json_init(&json, out);
    describe_lock(&json, info, NULL);
    return fclose(out) != 0 ? HF_ENOMEM : 0;
}

/* ---- the listing ---- */

static bool is_chosen(enum choice choice, const struct hf_lock_info *info)
{
    bool held = info->state != HF_STATE_FREE || info->holder_count > 0;

    switch (choice) {
    case CHOICE_HELD:
        return held;
    case CHOICE_IN_USE:
        return held || info->waiter_count > 0 || info->closed_ns > 0 || info->age_ns < 0;
    case CHOICE_ALL:
        break;
    }
    return true;
}

static struct row *row_add(struct list *list)
{
    if (list->count == list->capacity) {
        size_t capacity = list->capacity == 0 ? 64 : list->capacity * 2;
        struct row *rows = reallocarray(list->rows, capacity, sizeof(*rows));

        if (rows == NULL) {
            return NULL;
        }
        list->rows = rows;
        list->capacity = capacity;
    }
    list->rows[list->count] = (struct row){.index = list->count};
    return &list->rows[list->count++];
}

static int list_add(const struct hf_lock_info *info, void *arg)
{
    struct list *list = arg;
    struct row *row;
    int error = 0;

    if (!is_chosen(list->choice, info)) {
        list->left_out++;
        return 0;
    }
    row = row_add(list);
    if (row == NULL) {
        return HF_ENOMEM;
    }
    row->waiter_count = info->waiter_count;
    row->elapsed_ns = lock_oldest_hold_ns(info);
    for (int cell = 0; cell < CELL_COUNT && error == 0; cell++) {
        error = cell_make(row, cell, info);
    }
    return error == 0 && list->json ? json_make(row, info) : error;
}

static void list_free(struct list *list)
{
    for (size_t index = 0; index < list->count; index++) {
        for (int cell = 0; cell < CELL_COUNT; cell++) {
            free(list->rows[index].cells[cell]);
        }
        free(list->rows[index].json);
    }
    free(list->rows);
}

/* ---- its order ---- */

static int by_name(const struct row *one, const struct row *other)
{
    return one->index < other->index ? -1 : one->index > other->index;
}

static int by_holder(const struct row *one, const struct row *other)
{
    return strcmp(one->cells[HOLDER], other->cells[HOLDER]);
}

static int by_host(const struct row *one, const struct row *other)
{
    return strcmp(one->cells[HOST], other->cells[HOST]);
}

/* The oldest hold comes first. */
static int by_since(const struct row *one, const struct row *other)
{
    return one->elapsed_ns > other->elapsed_ns ? -1 : one->elapsed_ns < other->elapsed_ns;
}

/* The longest queue comes first. */
static int by_waiters(const struct row *one, const struct row *other)
{
    return one->waiter_count > other->waiter_count ? -1 : one->waiter_count < other->waiter_count;
}

struct list_order {
    const char *key;
    int (*compare)(const struct row *one, const struct row *other);
};

static const struct list_order orders[] = {
    {"name", by_name},   {"holder", by_holder},   {"host", by_host},
    {"since", by_since}, {"waiters", by_waiters},
};

static const struct list_order *order_find(const char *key)
{
    for (size_t index = 0; index < sizeof(orders) / sizeof(orders[0]); index++) {
        if (strcmp(orders[index].key, key) == 0) {
            return &orders[index];
        }
    }
    return NULL;
}

/* Rows that are equal by the key stay in the order of their names. */
static int row_compare(const void *one, const void *other, void *arg)
{
    const struct list_order *order = arg;
    int result = order->compare(one, other);

    return result != 0 ? result : by_name(one, other);
}

/* ---- the command ---- */

static void list_write_json(const struct list *list)
{
    putchar('[');
    for (size_t index = 0; index < list->count; index++) {
        fputs(index > 0 ? "," : "", stdout);
        fputs(list->rows[index].json, stdout);
    }
    puts("]");
}

static void list_write_text(const struct list *list)
{
    struct table table;

    table_init(&table, columns, CELL_COUNT);
    for (size_t index = 0; index < list->count; index++) {
        table_measure(&table, list->rows[index].cells);
    }
    table_fit(&table, stdout);
    if (list->count > 0) {
        table_write_titles(&table, stdout);
    }
    for (size_t index = 0; index < list->count; index++) {
        table_write_row(&table, list->rows[index].cells, stdout);
    }
    /* A person may look for a lock that is left out. */
    if (list->choice == CHOICE_IN_USE && list->left_out > 0 && isatty(STDOUT_FILENO) == 1) {
        (void)fflush(stdout);
        fprintf(stderr, "holdfast ls: not shown: free locks (%zu); --all shows them\n",
                list->left_out);
    }
}

/* Lists the locks, and prints them only if the listing is complete. */
static int list_run(hf_client *client, const char *prefix, const struct list_order *order,
                    struct list *list)
{
    int error = hf_list(client, prefix, list_add, list);

    if (error == 0 && list->count > 0) {
        qsort_r(list->rows, list->count, sizeof(list->rows[0]), row_compare, (void *)order);
    }
    if (error == 0 && list->json) {
        list_write_json(list);
    } else if (error == 0) {
        list_write_text(list);
    }
    list_free(list);
    return error;
}

int command_ls(struct cli *cli, int argc, char **argv)
{
    bool held = false;
    bool all = false;
    const char *key = "name";
    const struct option_spec specs[] = {
        {"held", '\0', OPTION_FLAG, &held},
        {"all", 'a', OPTION_FLAG, &all},
        {"sort", '\0', OPTION_TEXT, &key},
    };
    struct list list = {.choice = CHOICE_IN_USE};
    const struct list_order *order;
    struct arguments words;
    hf_client *client = NULL;
    const char *prefix;
    int error;
    int status = options_parse(cli, "ls", specs, sizeof(specs) / sizeof(specs[0]), argc, argv,
                               &words);

    if (status == 0 && help_is_wanted(cli)) {
        return help_answer(cli, "ls");
    }
    status = status != 0 ? status : words_expect("ls", &words, 0, 1, "at most one PREFIX");
    if (status != 0) {
        return status;
    }
    order = order_find(key);
    if (order == NULL) {
        return cli_usage_error("ls",
                               "--sort: \"%s\" is not a key: expected name, holder, host, "
                               "since or waiters",
                               key);
    }
    if (held && all) {
        return cli_usage_error("ls", "--held and --all: expected only one of them");
    }
    prefix = words.plain_count > 0 ? words.plain[0] : "";
    status = prefix_check("ls", prefix);
    status = status != 0 ? status : cli_connect(cli, "ls", 0, &client);
    if (status != 0) {
        return status;
    }
    /* --json lists free locks, too, because programs may rely on seeing them. */
    list.choice = held ? CHOICE_HELD : all || cli->json ? CHOICE_ALL : CHOICE_IN_USE;
    list.json = cli->json;
    error = list_run(client, prefix, order, &list);
    hf_disconnect(client);
    return error != 0 ? cli_fail_call("ls", prefix[0] == '\0' ? "listing" : prefix, error) : CLI_OK;
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
    describe_lock(&json, info, NULL);
    putchar('\n');
    return 0;
}

int command_show(struct cli *cli, int argc, char **argv)
{
    struct arguments words;
    hf_client *client = NULL;
    int error;
    int status = options_parse(cli, "show", NULL, 0, argc, argv, &words);

    if (status == 0 && help_is_wanted(cli)) {
        return help_answer(cli, "show");
    }
    status = status != 0 ? status : words_expect("show", &words, 1, 1, "one NAME");
    status = status != 0 ? status : name_check("show", words.plain[0]);
    status = status != 0 ? status : cli_connect(cli, "show", 0, &client);
    if (status != 0) {
        return status;
    }
    error = hf_show(client, words.plain[0], show_lock, cli);
    hf_disconnect(client);
    return error != 0 ? cli_fail_call("show", words.plain[0], error) : CLI_OK;
}
