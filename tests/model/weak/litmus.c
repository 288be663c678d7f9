/*
 * Reads and runs litmus tests. rows.litmus says how a test is written.
 *
 *   weak FILE [NAME]   runs all tests of the file, or one. The exit status is 0 if each outcome is
 *                      impossible as written, and possible with each weakening.
 */
#include "weak.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FILE_MAX = 1 << 18, LINE_MAX_SIZE = 512, WORDS_MAX = 8, ERROR_SIZE = 256 };

static const char *const orders[] = {"rlx", "acq", "rel", "acq_rel", "sc"};
static const char *const operations[] = {"load", "store", "swap", "add", "cas", "latest", "when"};

static int find(const char *const *names, unsigned count, const char *name)
{
    for (unsigned i = 0; i < count; i++) {
        if (strcmp(names[i], name) == 0) {
            return (int)i;
        }
    }
    return -1;
}

static int find_order(const char *name)
{
    return find(orders, sizeof(orders) / sizeof(orders[0]), name);
}

/* Splits the text into words, by writing zeros into it. */
static unsigned split(char *text, const char *between, char *words[WORDS_MAX])
{
    unsigned count = 0;
    char *rest = NULL;
    for (char *word = strtok_r(text, between, &rest); word != NULL && count < WORDS_MAX;
         word = strtok_r(NULL, between, &rest)) {
        words[count++] = word;
    }
    return count;
}

/* Returns a location's number. A new name gets a new number. */
static uint8_t location(struct litmus *litmus, const char *name)
{
    for (unsigned i = 0; i < litmus->locations; i++) {
        if (strcmp(litmus->location_names[i], name) == 0) {
            return (uint8_t)i;
        }
    }
    if (litmus->locations == LOCATIONS_MAX || strlen(name) >= NAME_SIZE) {
        return LOCATIONS_MAX;
    }
    snprintf(litmus->location_names[litmus->locations], NAME_SIZE, "%s", name);
    return (uint8_t)litmus->locations++;
}

static uint8_t reg(const char *word)
{
    bool good = word[0] == 'r' && word[1] >= '0' && word[1] < '0' + REGISTERS_MAX && !word[2];
    return good ? (uint8_t)(word[1] - '0') : REGISTERS_MAX;
}

/* Reads the words of a step between its operation and its order. */
static bool read_operands(struct litmus *litmus, struct step *step, char **words, unsigned count)
{
    unsigned at = 1;
    step->expected_register = REGISTERS_MAX;
    if (step->operation != STORE) {
        step->into = reg(words[at++]);
    }
    if (step->operation != WHEN && at < count) {
        step->location = location(litmus, words[at++]);
    }
    if (step->operation == CAS && at < count) {
        step->expected_register = reg(words[at]);
        step->expected = (int8_t)atoi(words[at++]);
    }
    if (step->operation != LOAD && step->operation != LATEST && at < count) {
        step->value = (int8_t)atoi(words[at++]);
    }
    return at == count && step->into < REGISTERS_MAX && step->location < LOCATIONS_MAX;
}

static bool read_step(struct litmus *litmus, unsigned thread, char *text)
{
    char *words[WORDS_MAX];
    unsigned count = split(text, " \t", words);
    unsigned number = litmus->steps[thread];
    if (count < 3 || number == STEPS_MAX) {
        return false;
    }
    struct step *step = &litmus->code[thread][number];
    int operation = find(operations, sizeof(operations) / sizeof(operations[0]), words[0]);
    if (operation < 0) {
        return false;
    }
    step->operation = (enum operation)operation;
    if (step->operation != WHEN && step->operation != LATEST) {
        int order = find_order(words[--count]);
        if (order < 0) {
            return false;
        }
        step->order = (enum order)order;
    }
    litmus->steps[thread]++;
    return read_operands(litmus, step, words, count);
}

static bool read_thread(struct litmus *litmus, char *text)
{
    char *steps[STEPS_MAX + 1];
    char *rest = NULL;
    unsigned count = 0;
    if (litmus->threads == THREADS_MAX) {
        return false;
    }
    for (char *step = strtok_r(text, ";", &rest); step != NULL && count <= STEPS_MAX;
         step = strtok_r(NULL, ";", &rest)) {
        steps[count++] = step;
    }
    for (unsigned i = 0; i < count; i++) {
        if (!read_step(litmus, litmus->threads, steps[i])) {
            return false;
        }
    }
    litmus->threads++;
    return count > 0;
}

/* Reads terms of the outcome, such as `1:r0=2` or `word=2`. */
static bool read_terms(struct litmus *litmus, char *text)
{
    char *words[WORDS_MAX];
    unsigned count = split(text, " \t", words);
    for (unsigned i = 0; i < count; i++) {
        char *value = strchr(words[i], '=');
        if (value == NULL || litmus->terms == TERMS_MAX) {
            return false;
        }
        *value++ = '\0';
        struct term *term = &litmus->forbidden[litmus->terms++];
        term->value = (int8_t)atoi(value);
        term->of_memory = strchr(words[i], ':') == NULL;
        term->thread = (uint8_t)(words[i][0] - '0');
        term->index = term->of_memory ? location(litmus, words[i]) : reg(words[i] + 2);
        if (term->of_memory ? term->index == LOCATIONS_MAX
                            : term->thread >= litmus->threads || term->index == REGISTERS_MAX) {
            return false;
        }
    }
    return count > 0;
}

static bool read_first(struct litmus *litmus, char *text)
{
    char *words[WORDS_MAX];
    unsigned count = split(text, " \t", words);
    for (unsigned i = 0; i < count; i++) {
        char *value = strchr(words[i], '=');
        if (value == NULL) {
            return false;
        }
        *value++ = '\0';
        unsigned index = location(litmus, words[i]);
        if (index == LOCATIONS_MAX) {
            return false;
        }
        litmus->first[index] = (int8_t)atoi(value);
    }
    return true;
}

/* Reads a weakening, such as `0.1 rlx 1.0 rlx`: steps (thread.step) and their weaker orders. */
static bool read_weakening(struct litmus *litmus, char *text)
{
    char *words[WORDS_MAX];
    unsigned count = split(text, " \t", words);
    if (litmus->weakenings == WEAKENINGS_MAX || count == 0 || count % 2 != 0) {
        return false;
    }
    struct weakening *weakening = &litmus->weakened[litmus->weakenings++];
    for (unsigned i = 0; i < count; i += 2) {
        unsigned thread = 0;
        unsigned step = 0;
        int order = find_order(words[i + 1]);
        if (sscanf(words[i], "%u.%u", &thread, &step) != 2 || thread >= litmus->threads ||
            step >= litmus->steps[thread] || order < 0 || weakening->count == CHANGES_MAX ||
            (int)litmus->code[thread][step].order <= order) {
            return false;
        }
        weakening->changes[weakening->count].thread = (uint8_t)thread;
        weakening->changes[weakening->count].step = (uint8_t)step;
        weakening->changes[weakening->count++].order = (enum order)order;
    }
    return true;
}

static bool read_line(struct litmus *litmus, char *text)
{
    static const char *const kinds[] = {"first", "thread", "forbid", "weaken"};
    size_t length = strcspn(text, " \t");
    char *rest = text + length + (text[length] != '\0');
    text[length] = '\0';
    switch (find(kinds, 4, text)) {
    case 0:
        return read_first(litmus, rest);
    case 1:
        return read_thread(litmus, rest);
    case 2:
        return read_terms(litmus, rest);
    case 3:
        return read_weakening(litmus, rest);
    default:
        return false;
    }
}

/*
 * Reads the next test of a file from *at and advances *at. *line is the number of the line at *at.
 * Returns 1 for a test, 0 at the end of the file, or -1 for an error. error has room for 256 bytes.
 */
static int litmus_read(const char **at, unsigned *line, struct litmus *litmus, char *error)
{
    char text[LINE_MAX_SIZE];
    bool begun = false;
    memset(litmus, 0, sizeof(*litmus));
    while (**at != '\0') {
        size_t length = strcspn(*at, "\n");
        if (length >= sizeof(text)) {
            snprintf(error, ERROR_SIZE, "line %u: longer than %d", *line + 1, LINE_MAX_SIZE);
            return -1;
        }
        memcpy(text, *at, length);
        text[length] = '\0';
        bool is_test = strncmp(text, "test ", 5) == 0;
        if (is_test && begun) {
            return 1;
        }
        *at += length + ((*at)[length] == '\n');
        ++*line;
        if (is_test) {
            begun = true;
            litmus->line = *line;
            snprintf(litmus->name, sizeof(litmus->name), "%.*s", NAME_SIZE - 1, text + 5);
        } else if (text[0] != '\0' && text[0] != '#' && !read_line(litmus, text)) {
            snprintf(error, ERROR_SIZE, "line %u: not understood", *line);
            return -1;
        }
    }
    return begun ? 1 : 0;
}

static struct litmus weaken(const struct litmus *litmus, const struct weakening *weakening)
{
    struct litmus weaker = *litmus;
    for (unsigned i = 0; i < weakening->count; i++) {
        weaker.code[weakening->changes[i].thread][weakening->changes[i].step].order =
            weakening->changes[i].order;
    }
    return weaker;
}

/* Runs a test and prints its faults. Returns how many there are. */
static unsigned judge(const struct litmus *litmus, uint64_t *all_states)
{
    unsigned wrong = 0;
    uint64_t states;
    if (litmus->terms == 0 || litmus->weakenings == 0) {
        printf("%s (line %u): forbids nothing, or has no weakening\n", litmus->name, litmus->line);
        return 1;
    }
    if (weak_reaches(litmus, &states)) {
        printf("%s (line %u): the outcome is possible\n", litmus->name, litmus->line);
        wrong++;
    }
    *all_states += states;
    for (unsigned i = 0; i < litmus->weakenings; i++) {
        struct litmus weaker = weaken(litmus, &litmus->weakened[i]);
        if (!weak_reaches(&weaker, &states)) {
            printf("%s (line %u): weakening %u changes nothing\n", litmus->name, litmus->line,
                   i + 1);
            wrong++;
        }
        *all_states += states;
    }
    return wrong;
}

static bool read_file(const char *path, char *text)
{
    FILE *file = fopen(path, "re");
    size_t size = file ? fread(text, 1, FILE_MAX - 1, file) : 0;
    text[size] = '\0';
    return file && fclose(file) == 0 && size > 0 && size < FILE_MAX - 1;
}

int main(int count, char **words)
{
    static char text[FILE_MAX];
    static struct litmus litmus;
    char error[ERROR_SIZE];
    const char *at = text;
    unsigned line = 0;
    unsigned tests = 0;
    unsigned weakenings = 0;
    unsigned wrong = 0;
    uint64_t states = 0;
    int more;
    if (count < 2 || count > 3 || !read_file(words[1], text)) {
        fputs("usage: weak FILE [NAME]\n", stderr);
        return 2;
    }
    while ((more = litmus_read(&at, &line, &litmus, error)) > 0) {
        if (count == 3 && strcmp(words[2], litmus.name) != 0) {
            continue;
        }
        tests++;
        weakenings += litmus.weakenings;
        wrong += judge(&litmus, &states);
    }
    if (more < 0) {
        fprintf(stderr, "%s, %s\n", words[1], error);
        return 2;
    }
    printf("%u tests, %u weakenings, %llu states: %u wrong\n", tests, weakenings,
           (unsigned long long)states, wrong);
    return tests > 0 && wrong == 0 ? 0 : 1;
}
