/* Sequencers: a written one can be read back, each has only one spelling, and everything else is
 * refused. */
#include "holdfast/holdfast.h"
#include "proto/frame.h"
#include "proto/region.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "../suite_main.h"

static struct hfi_sequencer exclusive(void)
{
    return (struct hfi_sequencer){.cell = "prod",
                                  .token = 17,
                                  .agent = "host-a",
                                  .epoch = 3,
                                  .holder = 12,
                                  .seat = HFI_SEAT_NONE,
                                  .name = "db/x y%\xc3\xa4",
                                  .name_size = 9};
}

static struct hfi_sequencer shared(void)
{
    struct hfi_sequencer sequencer = exclusive();

    sequencer.shared = true;
    sequencer.token = 0;
    sequencer.seat = 5;
    sequencer.cell_word = 77;
    return sequencer;
}

static const char exclusive_text[] = "hf1/prod/x/17/host-a.3.12/db/x%20y%25%C3%A4";
static const char shared_text[] = "hf1/prod/s/0/host-a.3.12.5.77/db/x%20y%25%C3%A4";

static void check_both_ways(const struct hfi_sequencer *sequencer, const char *text)
{
    char buffer[HF_SEQUENCER_MAX];
    struct hfi_sequencer parsed;
    size_t size = hfi_sequencer_format(sequencer, buffer, sizeof buffer);

    ck_assert_uint_gt(size, 0);
    ck_assert_uint_eq(size, strlen(buffer));
    if (text != NULL) {
        ck_assert_str_eq(buffer, text);
    }
    ck_assert_int_eq(hfi_sequencer_parse(buffer, size, &parsed), 0);
    ck_assert_str_eq(parsed.cell, sequencer->cell);
    ck_assert_str_eq(parsed.agent, sequencer->agent);
    ck_assert_int_eq(parsed.shared, sequencer->shared);
    ck_assert_uint_eq(parsed.token, sequencer->token);
    ck_assert_uint_eq(parsed.epoch, sequencer->epoch);
    ck_assert_uint_eq(parsed.holder, sequencer->holder);
    ck_assert_uint_eq(parsed.seat, sequencer->seat);
    ck_assert_uint_eq(parsed.cell_word, sequencer->cell_word);
    ck_assert_uint_eq(parsed.name_size, sequencer->name_size);
    ck_assert_mem_eq(parsed.name, sequencer->name, sequencer->name_size + 1);
    ck_assert_uint_eq(hfi_sequencer_format(sequencer, buffer, size + 1), size);
    ck_assert_uint_eq(hfi_sequencer_format(sequencer, buffer, size), 0);
    ck_assert_uint_eq(hfi_sequencer_format(sequencer, buffer, 0), 0);
}

START_TEST(test_both_ways)
{
    struct hfi_sequencer sequencer = exclusive();

    check_both_ways(&sequencer, exclusive_text);
    sequencer = shared();
    check_both_ways(&sequencer, shared_text);
}
END_TEST

START_TEST(test_longest_fits)
{
    struct hfi_sequencer sequencer = shared();

    memset(sequencer.cell, 'c', 32);
    memset(sequencer.agent, 'a', 32);
    sequencer.token = INT64_MAX;
    sequencer.epoch = UINT32_MAX;
    sequencer.holder = HFI_HOLDER_MAX;
    sequencer.seat = (1 << 20) * HFI_BLOCK_SEATS - 1;
    sequencer.cell_word = UINT64_MAX;
    memset(sequencer.name, ' ', 255); /* each space needs an escape */
    sequencer.name_size = 255;
    check_both_ways(&sequencer, NULL);
}
END_TEST

/* Fields out of their range are not written. */
START_TEST(test_format_refuses)
{
    struct hfi_sequencer bad[13];
    char buffer[HF_SEQUENCER_MAX];

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        bad[i] = exclusive();
    }
    bad[0].cell[0] = '\0';
    bad[1].cell[0] = 'A';
    memset(bad[2].cell, 'c', sizeof bad[2].cell); /* this text has no final zero */
    bad[3].agent[0] = '.';
    bad[4].token = 0;
    bad[5].token = (uint64_t)INT64_MAX + 1;
    bad[6].holder = 0;
    bad[7].holder = HFI_HOLDER_MAX + 1;
    bad[8].name_size = 0;
    bad[9].name_size = 256;
    bad[10].name[0] = '\n';
    bad[11].cell_word = 1;
    bad[12] = shared();
    bad[12].seat = HFI_SEAT_NONE;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        ck_assert_msg(hfi_sequencer_format(&bad[i], buffer, sizeof buffer) == 0, "%zu", i);
    }
}
END_TEST

static const char *const not_sequencers[] = {
    "",
    "hf1",
    "hf2/prod/x/17/a.3.12/n",
    "HF1/prod/x/17/a.3.12/n",
    " hf1/prod/x/17/a.3.12/n",
    "hf1//x/17/a.3.12/n",
    "hf1/Prod/x/17/a.3.12/n",
    "hf1/ccccccccccccccccccccccccccccccccc/x/17/a.3.12/n",
    "hf1/prod/y/17/a.3.12/n",
    "hf1/prod/xs/17/a.3.12/n",
    "hf1/prod/x/0/a.3.12/n",
    "hf1/prod/x/017/a.3.12/n",
    "hf1/prod/x/-1/a.3.12/n",
    "hf1/prod/x/+1/a.3.12/n",
    "hf1/prod/x//a.3.12/n",
    "hf1/prod/x/9223372036854775808/a.3.12/n",
    "hf1/prod/x/18446744073709551617/a.3.12/n",
    "hf1/prod/x/100000000000000000000/a.3.12/n",
    "hf1/prod/x/17/.3.12/n",
    "hf1/prod/x/17/A.3.12/n",
    "hf1/prod/x/17/a.4294967296.12/n",
    "hf1/prod/x/17/a.3/n",
    "hf1/prod/x/17/a.3.0/n",
    "hf1/prod/x/17/a.3.65535/n",
    "hf1/prod/x/17/a.3.12.5.77/n",
    "hf1/prod/s/17/a.3.12/n",
    "hf1/prod/s/17/a.3.12.5/n",
    "hf1/prod/s/17/a.3.12.7340032.77/n",
    "hf1/prod/s/17/a.3.12.4294967295.77/n",
    "hf1/prod/s/17/a.3.12.5.18446744073709551616/n",
    "hf1/prod/x/17/a.3.12/",
    "hf1/prod/x/17/a.3.12",
    "hf1/prod/x/17/a.3.12/a b",
    "hf1/prod/x/17/a.3.12/a\n",
    "hf1/prod/x/17/a.3.12/a%",
    "hf1/prod/x/17/a.3.12/a%2",
    "hf1/prod/x/17/a.3.12/a%2g",
    "hf1/prod/x/17/a.3.12/%c3%a4",
    "hf1/prod/x/17/a.3.12/%61",
    "hf1/prod/x/17/a.3.12/%00",
    "hf1/prod/x/17/a.3.12/%C3",
    "hf1/prod/x/17/a.3.12/\xc3\xa4",
};

START_TEST(test_parse_refuses)
{
    struct hfi_sequencer out;
    struct hfi_sequencer zero;

    memset(&zero, 0, sizeof zero);
    ck_assert_msg(hfi_sequencer_parse(not_sequencers[_i], strlen(not_sequencers[_i]), &out) == -1,
                  "accepted: %s", not_sequencers[_i]);
    ck_assert_mem_eq(&out, &zero, sizeof out);
}
END_TEST

/* A name may have 255 bytes, but not 256. The given size determines the end of the name, not a zero
 * byte in the text. */
START_TEST(test_parse_lengths)
{
    char text[2048] = "hf1/prod/x/17/a.3.12/";
    size_t head = strlen(text);
    struct hfi_sequencer out;

    memset(text + head, 'n', sizeof text - head);
    ck_assert_int_eq(hfi_sequencer_parse(text, head + 255, &out), 0);
    ck_assert_int_eq(hfi_sequencer_parse(text, head + 256, &out), -1);
    ck_assert_int_eq(hfi_sequencer_parse(text, sizeof text, &out), -1);
    text[head + 1] = '\0';
    ck_assert_int_eq(hfi_sequencer_parse(text, head + 3, &out), -1);
    ck_assert_int_eq(hfi_sequencer_parse(text, head + 1, &out), 0);
}
END_TEST

/* A sequencer that is cut off, or has one changed byte, is refused, or is the only spelling of
 * another sequencer. */
START_TEST(test_one_spelling)
{
    const char *original = _i == 0 ? exclusive_text : shared_text;
    size_t size = strlen(original);
    char text[128];
    char again[HF_SEQUENCER_MAX];
    struct hfi_sequencer out;

    for (size_t at = 0; at < size; at++) {
        for (int byte = 0; byte < 256; byte++) {
            memcpy(text, original, size);
            text[at] = (char)byte;
            if (hfi_sequencer_parse(text, size, &out) == 0) {
                ck_assert_uint_eq(hfi_sequencer_format(&out, again, sizeof again), size);
                ck_assert_mem_eq(again, text, size);
            }
        }
        if (hfi_sequencer_parse(original, at, &out) == 0) {
            ck_assert_uint_gt(at, size - strlen("db/x%20y%25%C3%A4"));
            ck_assert_uint_eq(hfi_sequencer_format(&out, again, sizeof again), at);
            ck_assert_mem_eq(again, original, at);
        }
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("sequencer");
    TCase *tcase = tcase_create("sequencer");

    tcase_add_test(tcase, test_both_ways);
    tcase_add_test(tcase, test_longest_fits);
    tcase_add_test(tcase, test_format_refuses);
    tcase_add_loop_test(tcase, test_parse_refuses, 0,
                        (int)(sizeof not_sequencers / sizeof not_sequencers[0]));
    tcase_add_test(tcase, test_parse_lengths);
    tcase_add_loop_test(tcase, test_one_spelling, 0, 2);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
