/* libholdfast: hf_backup(), whose answer brings a descriptor when the copy is complete. */
#include "lib_clients.h"

#include <fcntl.h>
#include <string.h>

#include "../suite_main.h"

static void setup(void)
{
    clients_create(LONG_TTL_NS);
}

static void tell_backup(const struct hf_backup_info *info, void *arg)
{
    ck_assert_uint_eq(info->total, 300);
    ck_assert_uint_eq(info->locks, 412);
    ck_assert_str_eq(info->text, "no room");
    *(enum hf_backup_stage *)arg = info->stage;
}

static unsigned count_descriptors(void)
{
    unsigned count = 0;
    for (int fd = 0; fd < 1024; fd++) {
        count += fcntl(fd, F_GETFD) >= 0;
    }
    return count;
}

START_TEST(a_backup_brings_its_copy)
{
    static const struct {
        int stage;
        bool fd;
        int error;
    } cases[] = {{HF_BACKUP_COPIES, false, 0},
                 {HF_BACKUP_CHECKS, false, 0},
                 {HF_BACKUP_DONE, true, 0},
                 {HF_BACKUP_FAILED, false, 0},
                 {HF_BACKUP_DONE, false, HF_EPROTO},
                 {HF_BACKUP_COPIES, true, HF_EPROTO},
                 {0, false, HF_EPROTO},
                 {HF_BACKUP_FAILED + 1, false, HF_EPROTO}};
    enum hf_backup_stage stage = 0;
    char copy[8] = "";
    int fd = 0;
    unsigned before = count_descriptors();
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        atomic_store(&agent.backup, cases[i].stage);
        atomic_store(&agent.backup_fd, cases[i].fd);
        ck_assert_int_eq(hf_backup(client, &fd, tell_backup, &stage), cases[i].error);
        ck_assert_int_eq(fd >= 0, cases[i].error == 0 && cases[i].stage == HF_BACKUP_DONE);
        if (fd >= 0) {
            ck_assert_int_eq(read(fd, copy, sizeof(copy)), 4);
            ck_assert_str_eq(copy, "copy");
            close(fd);
        }
        ck_assert(cases[i].error != 0 || (int)stage == cases[i].stage);
    }
    AWAIT(count_descriptors() == before); /* the agent's thread closes its own descriptors a moment
                                           * later */
    ck_assert_int_eq(hf_backup(client, NULL, tell_backup, &stage), HF_EINVAL);
    ck_assert_int_eq(hf_backup(client, &fd, NULL, NULL), HF_EINVAL);
    ck_assert_int_eq(hf_backup(NULL, &fd, tell_backup, &stage), HF_EINVAL);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("backup");
    tcase_add_checked_fixture(tests, setup, clients_destroy);
    tcase_add_test(tests, a_backup_brings_its_copy);
    return suite_main("lib_backup", tests);
}
