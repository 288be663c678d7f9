/* The input is a text for the sequencer's parser. The parser refuses the text, or the text is the
 * only spelling of its values. */
#include "fuzz.h"

#include "holdfast/holdfast.h"
#include "proto/check.h"
#include "proto/frame.h"

#include <string.h>

static const char *const texts[] = {
    "hf1/prod/x/17/host-a.3.12/db/x%20y%25%C3%A4",
    "hf1/prod/s/0/host-a.3.12.5.77/db/x",
    "hf1/c/x/9223372036854775807/a.4294967295.65534/n",
    "hf1/c/s/1/a.0.1.7340031.18446744073709551615/%E2%82%AC%F0%9F%94%92",
};

static size_t sequencer_seed(size_t index, uint8_t *bytes, size_t size)
{
    size_t length;

    if (index >= sizeof texts / sizeof texts[0]) {
        return 0;
    }
    length = strlen(texts[index]);
    HF_CHECK(length <= size);
    memcpy(bytes, texts[index], length);
    return length;
}

static void sequencer_entry(const uint8_t *bytes, size_t size)
{
    struct hfi_sequencer sequencer;
    char again[HF_SEQUENCER_MAX];

    if (hfi_sequencer_parse((const char *)bytes, size, &sequencer) != 0) {
        HF_CHECK(sequencer.token == 0 && sequencer.name_size == 0);
        return;
    }
    HF_CHECK(hfi_name_check(sequencer.name, sequencer.name_size) == 0);
    HF_CHECK(strlen(sequencer.name) == sequencer.name_size);
    HF_CHECK(hfi_sequencer_format(&sequencer, again, sizeof again) == size);
    HF_CHECK(memcmp(again, bytes, size) == 0);
}

const struct fuzz_target fuzz_target = {"sequencer", sequencer_entry, sequencer_seed, 1100};
