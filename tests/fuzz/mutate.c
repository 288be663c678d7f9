/*
 * Runs a fuzzer's entry on mutated seeds for a while, with any compiler:
 *
 *   mutate_TARGET [MILLISECONDS [SEED]]
 *
 * The seeds are the target's own and the files in corpus/TARGET. The files are inputs with which
 * libFuzzer reached other code, and all inputs that ever failed. Each seed is first run unchanged.
 *
 * SEED alone decides the inputs. The time decides only how many of them are run. The number of each
 * input is stored before its run, so that the crash handler can name the input to repeat.
 */
#include "fuzz.h"

#include <dirent.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    SEEDS_MAX = 256,
    MUTATIONS_MAX = 8,
    CHECK_CLOCK_EVERY = 16,
    MILLISECONDS_DEFAULT = 500,
    INPUTS_MIN = 100, /* even a slow machine runs so many inputs, because fewer inputs prove
                       * nothing */
};

struct seed {
    uint8_t *bytes;
    size_t size;
};

static struct seed seeds[SEEDS_MAX];
static size_t seed_count;
static uint64_t random_state;
static volatile uint64_t input_number;

/* SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014). */
static uint64_t random_next(void)
{
    uint64_t z = random_state += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

static size_t random_below(size_t bound)
{
    return bound == 0 ? 0 : (size_t)(random_next() % bound);
}

static int64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void crashed(int number)
{
    char text[128];
    int size = snprintf(text, sizeof text, "mutate: signal %d at input %" PRIu64 "\n", number,
                        input_number);

    if (size > 0 && write(STDERR_FILENO, text, (size_t)size) < 0) {
        /* the handler raises the signal again below in any case */
    }
    signal(number, SIG_DFL);
    raise(number);
}

/* Returns a byte that finds more faults than a random one: the end of a range, or the first byte of
 * a long form. */
static uint8_t telling_byte(void)
{
    static const uint8_t bytes[] = {0x00, 0x01, 0x7f, 0x80, 0x90, 0xa0, 0xc0, 0xc4, 0xcf, 0xd3,
                                    0xd9, 0xdb, 0xdc, 0xdd, 0xdf, 0xe0, 0xff, '%',  '/',  '.'};

    return bytes[random_below(sizeof bytes)];
}

/* Changes the input once. Returns its new size. */
static size_t mutate_once(uint8_t *bytes, size_t size)
{
    size_t at = random_below(size);
    const struct seed *other = &seeds[random_below(seed_count)];
    size_t from = random_below(other->size);
    size_t length = 1 + random_below(16);

    if (size == 0) {
        bytes[0] = telling_byte();
        return 1;
    }
    switch (random_below(7)) {
    case 0:
        bytes[at] ^= (uint8_t)(1u << random_below(8));
        return size;
    case 1:
        bytes[at] = telling_byte();
        return size;
    case 2:
        bytes[at] = (uint8_t)random_next();
        return size;
    case 3: /* cuts off the end */
        return at;
    case 4: /* removes bytes in the middle */
        length = length < size - at ? length : size - at;
        memmove(bytes + at, bytes + at + length, size - at - length);
        return size - length;
    case 5: /* inserts bytes */
        if (size + length > fuzz_target.size_max) {
            return size;
        }
        memmove(bytes + at + length, bytes + at, size - at);
        memset(bytes + at, telling_byte(), length);
        return size + length;
    default: /* copies bytes from another seed */
        length = length < size - at ? length : size - at;
        length = length < other->size - from ? length : other->size - from;
        memcpy(bytes + at, other->bytes + from, length);
        return size;
    }
}

static void run_one(uint8_t *scratch)
{
    const struct seed *seed = &seeds[random_below(seed_count)];
    size_t size = seed->size;
    size_t mutations = 1 + random_below(MUTATIONS_MAX);
    uint8_t *exact;

    memcpy(scratch, seed->bytes, size);
    for (size_t i = 0; i < mutations; i++) {
        size = mutate_once(scratch, size);
    }
    /* Copies exactly that many bytes to the heap, so that AddressSanitizer sees a read after their
     * end. */
    exact = malloc(size > 0 ? size : 1);
    if (exact == NULL) {
        abort();
    }
    memcpy(exact, scratch, size);
    fuzz_target.entry(exact, size);
    free(exact);
}

static void keep_seed(const uint8_t *bytes, size_t size)
{
    struct seed *seed = &seeds[seed_count++];

    seed->size = size;
    seed->bytes = malloc(size);
    if (seed->bytes == NULL) {
        abort();
    }
    memcpy(seed->bytes, bytes, size);
    fuzz_target.entry(seed->bytes, size);
}

static size_t read_file(const char *name, uint8_t *bytes)
{
    char path[4096];
    size_t size = 0;
    FILE *file = NULL;

    if (snprintf(path, sizeof path, "%s/%s", FUZZ_CORPUS, name) < (int)sizeof path) {
        file = fopen(path, "rb");
    }
    if (file != NULL) {
        size = fread(bytes, 1, fuzz_target.size_max, file);
        fclose(file);
    }
    return size;
}

/* Loads the corpus in the order of the files' names, so that every machine has the same order. A
 * missing folder counts as empty. */
static void load_corpus(uint8_t *scratch)
{
    struct dirent **entries = NULL;
    int count = scandir(FUZZ_CORPUS, &entries, NULL, alphasort);

    for (int i = 0; i < count; i++) {
        size_t size = entries[i]->d_name[0] == '.' ? 0 : read_file(entries[i]->d_name, scratch);

        if (size > 0 && seed_count < SEEDS_MAX) {
            keep_seed(scratch, size);
        }
        free(entries[i]);
    }
    free(entries);
}

static void load_seeds(uint8_t *scratch)
{
    size_t size;

    while (seed_count < SEEDS_MAX / 2 &&
           (size = fuzz_target.seed(seed_count, scratch, fuzz_target.size_max)) > 0) {
        keep_seed(scratch, size);
    }
    load_corpus(scratch);
}

int main(int argc, char **argv)
{
    int64_t run_ms = argc > 1 ? strtoll(argv[1], NULL, 10) : MILLISECONDS_DEFAULT;
    uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    int64_t start_ms = now_ms();
    uint8_t *scratch = malloc(fuzz_target.size_max);

    if (scratch == NULL) {
        return EXIT_FAILURE;
    }
    signal(SIGABRT, crashed);
    load_seeds(scratch);
    random_state = seed;
    for (input_number = 1; input_number % CHECK_CLOCK_EVERY != 0 || input_number < INPUTS_MIN ||
                           now_ms() - start_ms < run_ms;
         input_number = input_number + 1) {
        run_one(scratch);
    }
    printf("%s: %zu seeds, %" PRIu64 " inputs from seed %" PRIu64 "\n", fuzz_target.name,
           seed_count, input_number, seed);
    for (size_t i = 0; i < seed_count; i++) {
        free(seeds[i].bytes);
    }
    free(scratch);
    return EXIT_SUCCESS;
}
