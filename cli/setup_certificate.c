/*
 * The certificates of a cell: see setup_certificate.h.
 */
#include "setup_certificate.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "setup_file.h"
#include "text.h"
#include "tool.h"

/* The longest path here is the folder, a host's name as a subfolder, and a file of that name with a
 * short ending. */
enum { PATH_SIZE = SETUP_PATH_MAX + 128 };

/* The files of one certificate. openssl writes new_key, request and new_pem; files_finish() renames
 * the two new files to key and pem. */
struct certificate_files {
    char key[PATH_SIZE];
    char pem[PATH_SIZE];
    char new_key[PATH_SIZE];
    char new_pem[PATH_SIZE];
    char request[PATH_SIZE];
};

static void files_fill(struct certificate_files *files, const char *folder, const char *name)
{
    snprintf(files->key, PATH_SIZE, "%.4000s/%s.key", folder, name);
    snprintf(files->pem, PATH_SIZE, "%.4000s/%s.pem", folder, name);
    snprintf(files->new_key, PATH_SIZE, "%.4000s/%s.key.new", folder, name);
    snprintf(files->new_pem, PATH_SIZE, "%.4000s/%s.pem.new", folder, name);
    snprintf(files->request, PATH_SIZE, "%.4000s/%s.csr", folder, name);
}

static bool exists(const char *path)
{
    return access(path, F_OK) == 0;
}

/* Runs openssl. If openssl fails, prints its messages to stderr. */
static int openssl(const char *const *words)
{
    char said[TOOL_SAID_MAX];
    int status = tool_run(words, NULL, said);

    if (status == 0) {
        return 0;
    }
    if (status < 0) {
        fprintf(stderr,
                "holdfast setup: openssl cannot be run: %s; expected the package openssl, which "
                "makes the certificates\n",
                strerror(errno));
        return CLI_NO_AGENT;
    }
    fprintf(stderr, "holdfast setup: openssl %s failed with status %d:\n", words[1], status);
    (void)text_write_clean(stderr, said, 0);
    fputc('\n', stderr);
    return CLI_FAILED;
}

int setup_openssl_find(void)
{
    static const char *const words[] = {"openssl", "version", NULL};
    return openssl(words);
}

/* Renames the files that openssl has made to their final names, the certificate last. */
static int files_finish(const struct certificate_files *files)
{
    if (rename(files->new_key, files->key) != 0) {
        return setup_file_failed(files->key);
    }
    return rename(files->new_pem, files->pem) == 0 ? 0 : setup_file_failed(files->pem);
}

static int ca_generate(const struct certificate_files *files, const char *cell)
{
    char subject[64];
    const char *words[] = {"openssl",
                           "req",
                           "-x509",
                           "-newkey",
                           "ec",
                           "-pkeyopt",
                           "ec_paramgen_curve:P-256",
                           "-nodes",
                           "-days",
                           "3650",
                           "-subj",
                           subject,
                           "-keyout",
                           files->new_key,
                           "-out",
                           files->new_pem,
                           NULL};

    snprintf(subject, sizeof(subject), "/CN=%s cell CA", cell);
    int status = openssl(words);
    return status != 0 ? status : files_finish(files);
}

int setup_ca_make(const char *folder, const char *cell)
{
    struct certificate_files files;

    files_fill(&files, folder, "ca");
    if (exists(files.pem) == exists(files.key)) {
        return exists(files.pem) ? 0 : ca_generate(&files, cell);
    }
    fprintf(stderr, "holdfast setup: %s is there, but not its %s: expected both, or neither\n",
            exists(files.pem) ? files.pem : files.key, exists(files.pem) ? "ca.key" : "ca.pem");
    return CLI_FAILED;
}

static int certificate_generate(const struct certificate_files *files,
                                const struct certificate_files *ca, const char *name)
{
    char subject[64];
    const char *ask[] = {
        "openssl",      "req",   "-newkey", "ec",      "-pkeyopt",     "ec_paramgen_curve:P-256",
        "-nodes",       "-subj", subject,   "-keyout", files->new_key, "-out",
        files->request, NULL};
    const char *sign[] = {"openssl", "x509",  "-req",   "-in",          files->request,
                          "-CA",     ca->pem, "-CAkey", ca->key,        "-CAcreateserial",
                          "-days",   "825",   "-out",   files->new_pem, NULL};

    snprintf(subject, sizeof(subject), "/CN=%s", name);
    int status = openssl(ask);
    status = status != 0 ? status : openssl(sign);
    (void)unlink(files->request);
    return status;
}

/* Gives the host's folder a copy of the CA's certificate. */
static int copy_ca(const char *from, const char *folder)
{
    char path[PATH_SIZE];
    char backup[SETUP_PATH_MAX];
    char *text = setup_file_read(from);

    if (text == NULL) {
        return setup_file_failed(from);
    }
    snprintf(path, sizeof(path), "%.4100s/ca.pem", folder);
    const struct setup_file file = {
        .path = path, .text = text, .mode = 0644, .owner = (uid_t)-1, .group = (gid_t)-1};
    int status = setup_file_write(&file, false, backup);
    free(text);
    return status;
}

int setup_certificate_make(const char *folder, const char *name)
{
    char own[PATH_SIZE];
    struct certificate_files ca;
    struct certificate_files files;

    snprintf(own, sizeof(own), "%.4000s/%s", folder, name);
    files_fill(&ca, folder, "ca");
    files_fill(&files, own, name);
    int status = setup_folder_make(own, 0700);
    status = status != 0 ? status : copy_ca(ca.pem, own);
    if (status != 0 || exists(files.pem)) {
        return status;
    }
    status = certificate_generate(&files, &ca, name);
    return status != 0 ? status : files_finish(&files);
}
