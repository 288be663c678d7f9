/* The load of cell_load.h, and the figure of how many locks a cell serves under this load. */
#include "cell_load.h"

#include <stdio.h>
#include <stdlib.h>

#include "figures.h"
#include "floors.h"

static const int64_t timeout_ns = INT64_C(20000000000);
static const int64_t warm_up_ns = INT64_C(500000000);
static const int64_t round_ns = INT64_C(1500000000);
enum { ROUNDS = 5, ROUNDS_QUICK = 2 };

static int use_one(struct load_client *client, uint64_t number)
{
    char name[CELL_NAME_SIZE];
    hf_lock *lock = NULL;
    snprintf(name, sizeof(name), "bench/load/%u/%u/%llu", client->load->series, client->index,
             (unsigned long long)number);
    int64_t start_ns = now_ns();
    int error = hf_open(client->client, name, NULL, &lock);
    if (error == 0) {
        error = hf_acquire(lock, HF_EXCLUSIVE, timeout_ns, NULL);
    }
    if (client->count < LOAD_SAMPLES_MAX) {
        client->samples[client->count++] = (struct load_sample){
            .start_ns = start_ns,
            .took_ns = now_ns() - start_ns,
            .coordinator = cell_coordinator(name)};
    }
    if (error == 0) {
        error = hf_release(lock);
    }
    hf_close(lock);
    return error == 0 ? 0 : complain("%s: %s", name, hf_strerror(error));
}

static void *client_main(void *arg)
{
    struct load_client *client = arg;
    for (uint64_t i = 0; !atomic_load_explicit(&client->load->stop, memory_order_relaxed); i++) {
        if (interrupted() || use_one(client, i) != 0) {
            client->failed = true;
            break;
        }
    }
    return NULL;
}

int load_start(struct load *load, const struct cell *cell, uint32_t spared, uint32_t series)
{
    uint32_t host = 0;
    *load = (struct load){.series = series};
    for (uint32_t i = 0; i < LOAD_CLIENTS; i++) {
        struct load_client *client = &load->clients[i];
        do { /* the loop ends, because at least one host is not spared */
            host = (host + 1) % CELL_HOSTS;
        } while ((spared >> host & 1) != 0);
        *client = (struct load_client){.load = load, .index = i};
        client->samples = malloc(LOAD_SAMPLES_MAX * sizeof(struct load_sample));
        client->client = cell_connect(cell, host);
        if (client->samples == NULL || client->client == NULL) {
            return complain("a client could not be made");
        }
    }
    for (uint32_t i = 0; i < LOAD_CLIENTS; i++) {
        if (pthread_create(&load->clients[i].thread, NULL, client_main, &load->clients[i]) != 0) {
            return complain("no thread");
        }
        load->started++;
    }
    return 0;
}

int load_stop(struct load *load)
{
    int result = 0;
    atomic_store_explicit(&load->stop, true, memory_order_relaxed);
    for (uint32_t i = 0; i < load->started; i++) {
        pthread_join(load->clients[i].thread, NULL);
        result = load->clients[i].failed ? -1 : result;
    }
    load->started = 0;
    for (uint32_t i = 0; i < LOAD_CLIENTS; i++) {
        hf_disconnect(load->clients[i].client);
        load->clients[i].client = NULL;
    }
    return result;
}

void load_free(struct load *load)
{
    for (uint32_t i = 0; i < LOAD_CLIENTS; i++) {
        free(load->clients[i].samples);
        load->clients[i].samples = NULL;
    }
}

int load_look(const struct load *load, int64_t start_ns, int64_t end_ns, uint32_t without,
              struct load_window *out)
{
    size_t room = (size_t)LOAD_CLIENTS * LOAD_SAMPLES_MAX;
    double *all = malloc(room * sizeof(*all));
    double *others = malloc(room * sizeof(*others));
    size_t count = 0;
    size_t others_count = 0;
    if (all == NULL || others == NULL) {
        free(all);
        free(others);
        return complain("no memory");
    }
    for (uint32_t i = 0; i < LOAD_CLIENTS; i++) {
        const struct load_client *client = &load->clients[i];
        for (size_t j = 0; j < client->count; j++) {
            const struct load_sample *sample = &client->samples[j];
            if (sample->start_ns < end_ns && sample->start_ns + sample->took_ns >= start_ns) {
                all[count++] = (double)sample->took_ns / 1e3;
                if (sample->coordinator != without) {
                    others[others_count++] = (double)sample->took_ns / 1e3;
                }
            }
        }
    }
    out->count = count;
    out->median_us = percentile(all, count, 0.5);
    out->longest_us = percentile(all, count, 1.0);
    out->tail_us = percentile(others, others_count, 0.999);
    free(all);
    free(others);
    return 0;
}

/* Counts the acquires that ended at start_ns or later, but before end_ns. */
static uint64_t count_between(const struct load *load, int64_t start_ns, int64_t end_ns)
{
    uint64_t count = 0;
    for (uint32_t i = 0; i < LOAD_CLIENTS; i++) {
        const struct load_client *client = &load->clients[i];
        for (size_t j = 0; j < client->count; j++) {
            const struct load_sample *sample = &client->samples[j];
            int64_t done_ns = sample->start_ns + sample->took_ns;
            count += done_ns >= start_ns && done_ns < end_ns;
        }
    }
    return count;
}

static int measure_load(const struct cell *cell, size_t rounds, struct series *rates,
                        struct series *costs)
{
    static struct load load;
    int64_t start_ns[ROUNDS + 1];
    struct cell_traffic before;
    struct cell_traffic after;
    int result = load_start(&load, cell, 0, 0);
    pause_ns(warm_up_ns);
    if (result == 0) {
        result = cell_traffic_sum(cell, &before);
    }
    start_ns[0] = now_ns();
    for (size_t i = 0; i < rounds && result == 0; i++) {
        pause_ns(round_ns);
        start_ns[i + 1] = now_ns();
    }
    if (result == 0) {
        result = cell_traffic_sum(cell, &after);
    }
    if (load_stop(&load) != 0) {
        result = -1;
    }
    uint64_t all = 0;
    for (size_t i = 0; i < rounds && result == 0; i++) {
        uint64_t count = count_between(&load, start_ns[i], start_ns[i + 1]);
        series_add(rates, (double)count * 1e9 / (double)(start_ns[i + 1] - start_ns[i]));
        all += count;
    }
    if (result == 0 && all > 0) {
        series_add(costs, (double)(after.commits - before.commits) / (double)all);
        series_add(costs, (double)(after.packets - before.packets) / (double)all);
        series_add(costs, (double)(after.for_locks - before.for_locks) / (double)all);
        series_add(costs, (double)(after.cpu_ns - before.cpu_ns) / 1e3 / (double)all);
        series_add(costs, (double)(after.wakeups - before.wakeups) / (double)all);
    }
    load_free(&load);
    return result;
}

int figure_cell_clients(const struct bench *bench, struct figure *figure)
{
    struct cell cell;
    struct series costs = {.count = 0};
    struct side *rate = figure_side(figure, "acquire + release of new names", "/s", 0);
    struct side *commits = figure_side(figure, "flushes for one, all three stores", "", 3);
    struct side *packets = figure_side(figure, "packets for one, all three agents", "", 3);
    struct side *messages = figure_side(figure, "messages for one, all three agents", "", 3);
    struct side *cpu = figure_side(figure, "processor time for one, all three agents", "us", 1);
    struct side *wakeups = figure_side(figure, "wake-ups for one, all three agents", "", 2);
    int result = cell_start(&cell, bench->directory, "5s");
    if (result == 0) {
        result = measure_load(&cell, bench->effort.quick ? ROUNDS_QUICK : ROUNDS, &rate->series,
                              &costs);
    }
    cell_stop(&cell);
    series_add(&commits->series, costs.values[0]);
    series_add(&packets->series, costs.values[1]);
    series_add(&messages->series, costs.values[2]);
    series_add(&cpu->series, costs.values[3]);
    series_add(&wakeups->series, costs.values[4]);
    figure_verdict(figure, "acquire + release a second", series_median(&rate->series),
                   BOUND_AT_LEAST, 8000);
    snprintf(figure->note, sizeof(figure->note),
             "%d clients, one thread and connection each, on all three hosts; open to close",
             LOAD_CLIENTS);
    return result;
}
