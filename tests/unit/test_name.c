/* The rules for names: hfi_name_check, hfi_prefix_check, hfi_label_check. */
#include "holdfast/holdfast.h"
#include "proto/frame.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "../suite_main.h"

static const struct {
    const char *bytes;
    size_t size;
    int expected;
} names[] = {
    {"x", 1, 0},
    {"a/b c~%", 7, 0},
    {" ", 1, 0},
    {"~", 1, 0},
    {"\x1f", 1, HF_EINVAL},
    {"\x7f", 1, HF_EINVAL},
    {"\0", 1, HF_EINVAL},
    {"a\0b", 3, HF_EINVAL},
    {"a\n", 2, HF_EINVAL},
    {"", 0, HF_EINVAL},
    {"\xc2\xa0", 2, 0},                 /* U+00A0, the first after C1 */
    {"\xc2\x9f", 2, HF_EINVAL},         /* U+009F, the last of C1 */
    {"\xc2\x80", 2, HF_EINVAL},         /* U+0080, the first of C1 */
    {"\xc1\xbf", 2, HF_EINVAL},         /* U+007F in two bytes */
    {"\xc0\x80", 2, HF_EINVAL},         /* U+0000 in two bytes */
    {"\xc1\x81", 2, HF_EINVAL},         /* 'A' in two bytes */
    {"\xdf\xbf", 2, 0},                 /* U+07FF */
    {"\xe0\x9f\xbf", 3, HF_EINVAL},     /* U+07FF in three bytes */
    {"\xe0\xa0\x80", 3, 0},             /* U+0800 */
    {"\xed\x9f\xbf", 3, 0},             /* U+D7FF */
    {"\xed\xa0\x80", 3, HF_EINVAL},     /* U+D800, a surrogate */
    {"\xed\xbf\xbf", 3, HF_EINVAL},     /* U+DFFF, a surrogate */
    {"\xee\x80\x80", 3, 0},             /* U+E000 */
    {"\xef\xbf\xbf", 3, 0},             /* U+FFFF */
    {"\xf0\x8f\xbf\xbf", 4, HF_EINVAL}, /* U+FFFF in four bytes */
    {"\xf0\x90\x80\x80", 4, 0},         /* U+10000 */
    {"\xf4\x8f\xbf\xbf", 4, 0},         /* U+10FFFF */
    {"\xf4\x90\x80\x80", 4, HF_EINVAL}, /* U+110000 */
    {"\xf8\x88\x80\x80\x80", 5, HF_EINVAL},
    {"\xff", 1, HF_EINVAL},
    {"\x80", 1, HF_EINVAL},
    {"a\xbf", 2, HF_EINVAL},
    {"\xc3", 1, HF_EINVAL},         /* cut off */
    {"\xe2\x82", 2, HF_EINVAL},     /* cut off */
    {"\xf0\x9f\x98", 3, HF_EINVAL}, /* cut off */
    {"\xc3(", 2, HF_EINVAL},
    {"\xe2(\xa1", 3, HF_EINVAL},
    {"\xe2\x82(", 3, HF_EINVAL},
};

START_TEST(test_names)
{
    int prefix = names[_i].size == 0 ? 0 : names[_i].expected;

    ck_assert_int_eq(hfi_name_check(names[_i].bytes, names[_i].size), names[_i].expected);
    ck_assert_int_eq(hfi_prefix_check(names[_i].bytes, names[_i].size), prefix);
}
END_TEST

START_TEST(test_name_length)
{
    char name[300];

    memset(name, 'a', sizeof name);
    ck_assert_int_eq(hfi_name_check(name, 255), 0);
    ck_assert_int_eq(hfi_name_check(name, 256), HF_ENAMETOOLONG);
    ck_assert_int_eq(hfi_prefix_check(name, 255), 0);
    ck_assert_int_eq(hfi_prefix_check(name, 256), HF_ENAMETOOLONG);
    /* A character must not cross the end of the 255 bytes. */
    memcpy(name + 254, "\xc3\xa4", 2);
    ck_assert_int_eq(hfi_name_check(name, 255), HF_EINVAL);
}
END_TEST

START_TEST(test_labels)
{
    static const char all[] = "abcdefghijklmnopqrstuvwxyz0123456789_-";
    char longest[33];

    memset(longest, 'a', sizeof longest);
    ck_assert(hfi_label_check(longest, 32));
    ck_assert(!hfi_label_check(longest, 33));
    ck_assert(!hfi_label_check("", 0));
    for (int c = 0; c < 256; c++) {
        char label = (char)c;
        bool allowed = c != 0 && strchr(all, c) != NULL;

        ck_assert_msg(hfi_label_check(&label, 1) == allowed, "byte %d", c);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("name");
    TCase *tcase = tcase_create("name");

    tcase_add_loop_test(tcase, test_names, 0, (int)(sizeof names / sizeof names[0]));
    tcase_add_test(tcase, test_name_length);
    tcase_add_test(tcase, test_labels);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
