/* Writes the samples of the status page as files NAME.html into a folder, for page.py. */
#include <stdio.h>

#include "../unit/page_samples.h"

static bool write_sample(const char *folder, enum page_sample_kind kind)
{
    static struct page_sample sample;
    static char text[PAGE_TEXT_MAX];
    char path[4096];
    page_sample_fill(kind, &sample);
    sample.page.still = true;
    size_t size = page_write(&sample.page, text);
    snprintf(path, sizeof(path), "%s/%s.html", folder, page_sample_name(kind));
    FILE *file = fopen(path, "we");
    if (file == NULL) {
        perror(path);
        return false;
    }
    bool written = fwrite(text, 1, size, file) == size;
    return fclose(file) == 0 && written;
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: page_samples FOLDER\n");
        return 64;
    }
    for (unsigned i = 0; i < PAGE_SAMPLES; i++) {
        if (!write_sample(argv[1], (enum page_sample_kind)i)) {
            return 1;
        }
    }
    return 0;
}
