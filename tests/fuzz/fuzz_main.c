/*
 * The entry for libFuzzer. `FUZZ_TARGET FOLDER ...` fuzzes with the corpus in FOLDER. `FUZZ_TARGET
 * --seeds FOLDER` writes each seed to a file in FOLDER, as the beginning of a corpus.
 */
#include "fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    if (size <= fuzz_target.size_max) {
        fuzz_target.entry(bytes, size);
    }
    return 0;
}

static int write_seed(const char *folder, size_t index, const uint8_t *bytes, size_t size)
{
    char path[4096];
    FILE *file;
    int failed;

    if (snprintf(path, sizeof path, "%s/%s-%03zu", folder, fuzz_target.name, index) >=
        (int)sizeof path) {
        return -1;
    }
    file = fopen(path, "wb");
    if (file == NULL) {
        return -1;
    }
    failed = fwrite(bytes, 1, size, file) != size;
    return fclose(file) != 0 || failed ? -1 : 0;
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    uint8_t *bytes;
    size_t size;

    if (*argc != 3 || strcmp((*argv)[1], "--seeds") != 0) {
        return 0;
    }
    bytes = malloc(fuzz_target.size_max);
    if (bytes == NULL) {
        exit(EXIT_FAILURE);
    }
    for (size_t i = 0; (size = fuzz_target.seed(i, bytes, fuzz_target.size_max)) > 0; i++) {
        if (write_seed((*argv)[2], i, bytes, size) != 0) {
            perror((*argv)[2]);
            exit(EXIT_FAILURE);
        }
    }
    free(bytes);
    exit(EXIT_SUCCESS);
}
