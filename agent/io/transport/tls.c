/* The files of [tls]: see tls.h. */
#include "tls.h"

#include <errno.h>
#include <fcntl.h>
#include <mbedtls/oid.h>
#include <mbedtls/pem.h>
#include <mbedtls/pk.h>
#include <mbedtls/version.h>
#include <mbedtls/x509_crt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { PEM_SIZE_MAX = 1024 * 1024, DAY_S = 86400 };

/* errno of a failure that the files cause. After a failure with any other errno, a later call may
 * succeed. */
enum { WRONG = EINVAL };

/* The text of one file. text: NULL, or ends with a zero byte. */
struct pem {
    char *text;
    size_t size;
};

struct transport_credentials {
    struct pem ca, cert, key;
    nng_tls_config *server;
    struct transport_tls_times times;
};

static void fail(char *error, const char *path, const char *what)
{
    snprintf(error, TRANSPORT_ERROR_MAX, "%.200s: %s", path, what);
}

static bool is_short_of_something(int why)
{
    return why == ENOMEM || why == EMFILE || why == ENFILE || why == EIO || why == EAGAIN ||
           why == EINTR;
}

/* Returns whether mbedTLS ran out of memory. Its error numbers are sums of a high and a low
 * part. */
static bool is_out_of_memory(int result)
{
    static const int high[] = {MBEDTLS_ERR_X509_ALLOC_FAILED, MBEDTLS_ERR_PEM_ALLOC_FAILED,
                               MBEDTLS_ERR_PK_ALLOC_FAILED, MBEDTLS_ERR_ECP_ALLOC_FAILED};
    bool out = false;

    for (size_t i = 0; i < sizeof high / sizeof high[0]; i++) {
        out = out || result == high[i];
    }
    return out || -(-result & 0x7f) == MBEDTLS_ERR_MPI_ALLOC_FAILED ||
           -(-result & 0x7f) == MBEDTLS_ERR_ASN1_ALLOC_FAILED;
}

/* Sets errno for a result of mbedTLS. If mbedTLS ran out of memory, writes that to error. */
static void judge(int result, const char *path, char *error)
{
    errno = WRONG;
    if (is_out_of_memory(result)) {
        fail(error, path, "out of memory");
        errno = ENOMEM;
    }
}

/* ---- reading ---- */

/* Returns whether other users can do nothing with the file, and its group cannot write it. If not,
 * writes the mode to error. */
static bool is_secret(const struct stat *status, const char *path, char *error)
{
    if ((status->st_mode & 027) == 0) {
        return true;
    }
    snprintf(error, TRANSPORT_ERROR_MAX,
             "%.200s: found mode %04o, expected 0600 (or 0640, for a group that is the agent's): "
             "everybody that can read the key can use it",
             path, (unsigned)(status->st_mode & 07777));
    return false;
}

static bool read_all(int fd, struct pem *out)
{
    size_t used = 0;

    while (used < out->size) {
        ssize_t got = read(fd, out->text + used, out->size - used);

        if (got < 0) {
            return false;
        }
        if (got == 0) {
            break; /* the file became shorter */
        }
        used += (size_t)got;
    }
    out->size = used;
    return true;
}

static bool read_pem(const char *path, bool secret, struct pem *out, char *error)
{
    struct stat status;
    /* O_NONBLOCK, so that a FIFO does not block */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

    if (fd < 0 || fstat(fd, &status) != 0) {
        int why = errno;
        fail(error, path, strerror(why));
        if (fd >= 0) {
            close(fd);
        }
        errno = is_short_of_something(why) ? why : WRONG;
        return false;
    }
    int why = WRONG;
    bool good = !secret || is_secret(&status, path, error);
    if (good && (!S_ISREG(status.st_mode) || status.st_size > PEM_SIZE_MAX)) {
        fail(error, path, "expected a file in PEM");
        good = false;
    }
    if (good) {
        out->size = (size_t)status.st_size;
        out->text = calloc(1, out->size + 1);
        good = out->text != NULL && read_all(fd, out);
        if (!good) {
            why = errno; /* no memory, or a read error */
            fail(error, path, strerror(why));
        }
    }
    close(fd);
    errno = why;
    return good;
}

static void free_pem(struct pem *pem)
{
    if (pem->text != NULL) {
        explicit_bzero(pem->text, pem->size);
        free(pem->text);
    }
}

/* ---- looking at certificates ---- */

static int64_t seconds_of(const mbedtls_x509_time *time)
{
    struct tm tm = {.tm_year = time->year - 1900,
                    .tm_mon = time->mon - 1,
                    .tm_mday = time->day,
                    .tm_hour = time->hour,
                    .tm_min = time->min,
                    .tm_sec = time->sec};

    return (int64_t)timegm(&tm);
}

/* Writes the subject of a certificate, for messages. */
static void first_name(const mbedtls_x509_crt *crt, char *out, size_t size)
{
    if (mbedtls_x509_dn_gets(out, size, &crt->subject) < 0) {
        snprintf(out, size, "?");
    }
}

/* Returns whether the listener at the other end accepts the certificate as one for `name`. A
 * listener that gets a name from NNG gets only the common name, even if there are alternative
 * names. */
static bool has_common_name(const mbedtls_x509_crt *cert, const char *name)
{
#ifdef NNG_OPT_TLS_PEER_CN
    for (const mbedtls_x509_name *part = &cert->subject; part != NULL; part = part->next) {
        if (MBEDTLS_OID_CMP(MBEDTLS_OID_AT_CN, &part->oid) == 0 && part->val.len == strlen(name) &&
            memcmp(part->val.p, name, part->val.len) == 0) {
            return true;
        }
    }
    return false;
#else
    (void)cert;
    (void)name;
    return true;
#endif
}

/* Returns whether the certificate's own fields allow it at both ends of a connection. */
static bool is_for_both_ends(const mbedtls_x509_crt *cert)
{
    static const char server[] = MBEDTLS_OID_SERVER_AUTH;
    static const char client[] = MBEDTLS_OID_CLIENT_AUTH;

    return mbedtls_x509_crt_check_key_usage(cert, MBEDTLS_X509_KU_DIGITAL_SIGNATURE) == 0 &&
           mbedtls_x509_crt_check_extended_key_usage(cert, server, sizeof server - 1) == 0 &&
           mbedtls_x509_crt_check_extended_key_usage(cert, client, sizeof client - 1) == 0;
}

static void wrong_name(const mbedtls_x509_crt *cert, const char *path, const char *name,
                       char *error)
{
    char subject[128];

#if MBEDTLS_VERSION_MAJOR >= 3
    bool alternative = mbedtls_x509_crt_has_ext_type(cert, MBEDTLS_X509_EXT_SUBJECT_ALT_NAME) != 0;
#else
    bool alternative = (cert->ext_types & MBEDTLS_X509_EXT_SUBJECT_ALT_NAME) != 0;
#endif
    if (alternative) {
        snprintf(error, TRANSPORT_ERROR_MAX,
                 "%.200s: found alternative names, expected %s, this agent's name, among the DNS "
                 "names (or none, and CN=%s)",
                 path, name, name);
        return;
    }
    first_name(cert, subject, sizeof subject);
    snprintf(error, TRANSPORT_ERROR_MAX,
             "%.200s: found a certificate of %s, expected one of CN=%s, this agent's name", path,
             subject, name);
}

/* Returns whether handshakes can succeed with the certificate, apart from its dates. On failure
 * errno is WRONG, or ENOMEM. */
static bool verify(const struct transport_tls *tls, const char *name, mbedtls_x509_crt *ca,
                   mbedtls_x509_crt *cert, char *error)
{
    char why[160];
    uint32_t flags = 0;

    int result = mbedtls_x509_crt_verify(cert, ca, NULL, name, &flags, NULL, NULL);
    if (result != 0 && result != MBEDTLS_ERR_X509_CERT_VERIFY_FAILED) {
        fail(error, tls->cert, "cannot be verified");
        judge(result, tls->cert, error);
        return false;
    }
    errno = WRONG;
    flags &= ~(uint32_t)(MBEDTLS_X509_BADCERT_EXPIRED | MBEDTLS_X509_BADCERT_FUTURE);
    if ((flags & MBEDTLS_X509_BADCERT_NOT_TRUSTED) != 0) {
        snprintf(error, TRANSPORT_ERROR_MAX, "%.200s: expected a certificate of the CA in %.200s",
                 tls->cert, tls->ca);
        return false;
    }
    if ((flags & MBEDTLS_X509_BADCERT_CN_MISMATCH) != 0) {
        wrong_name(cert, tls->cert, name, error);
        return false;
    }
    if (name != NULL && !has_common_name(cert, name)) {
        first_name(cert, why, sizeof why);
        snprintf(error, TRANSPORT_ERROR_MAX,
                 "%.200s: found a certificate of %s, expected one of CN=%s, this agent's name",
                 tls->cert, why, name);
        return false;
    }
    if (flags != 0) { /* a weak key or hash, which the other end would refuse as well */
        if (mbedtls_x509_crt_verify_info(why, sizeof why, "", flags) < 0) {
            why[0] = '\0';
        }
        why[strcspn(why, "\n")] = '\0';
        snprintf(error, TRANSPORT_ERROR_MAX,
                 "%.200s: found a certificate that no agent accepts: %s", tls->cert, why);
        return false;
    }
    if (!is_for_both_ends(cert)) {
        fail(error, tls->cert,
             "found a certificate for other uses, expected digitalSignature in its keyUsage, and "
             "serverAuth and clientAuth in its extendedKeyUsage, where it has these");
        return false;
    }
    return true;
}

/* Returns the times of one certificate by itself. */
static struct transport_tls_times times_of(const mbedtls_x509_crt *crt)
{
    int64_t begin_s = seconds_of(&crt->valid_from);
    int64_t end_s = seconds_of(&crt->valid_to);
    int64_t quarter_s = (end_s - begin_s) / 4;
    int64_t most_s = (int64_t)TRANSPORT_SOON_DAYS * DAY_S;

    return (struct transport_tls_times){
        .begin_s = begin_s,
        .soon_s = end_s - (quarter_s < most_s ? quarter_s : most_s),
        .end_s = end_s,
        .soon_end_s = end_s,
    };
}

/* Notes the time during which the certificate can be used: while the certificate, the chain behind
 * it in its file, and one of its CAs are valid. Other CAs in the file (there are several while the
 * CA is being replaced) do not change that time. */
static void note_times(struct transport_credentials *credentials, mbedtls_x509_crt *ca,
                       mbedtls_x509_crt *cert)
{
    struct transport_tls_times all = {.begin_s = INT64_MAX};

    for (mbedtls_x509_crt *each = ca; each != NULL; each = each->next) {
        mbedtls_x509_crt *next = each->next;
        uint32_t flags = 0;

        each->next = NULL;
        (void)!mbedtls_x509_crt_verify(cert, each, NULL, NULL, &flags, NULL, NULL);
        each->next = next;
        if ((flags & MBEDTLS_X509_BADCERT_NOT_TRUSTED) == 0) {
            const struct transport_tls_times one = times_of(each);

            all.begin_s = one.begin_s < all.begin_s ? one.begin_s : all.begin_s;
            all.end_s = one.end_s > all.end_s ? one.end_s : all.end_s;
            if (one.soon_s > all.soon_s) {
                all.soon_s = one.soon_s;
                all.soon_end_s = one.soon_end_s;
            }
        }
    }
    all.soon_ca = all.end_ca = true;
    for (const mbedtls_x509_crt *each = cert; each != NULL; each = each->next) {
        const struct transport_tls_times one = times_of(each);

        all.begin_s = one.begin_s > all.begin_s ? one.begin_s : all.begin_s;
        if (one.soon_s < all.soon_s) {
            all.soon_s = one.soon_s;
            all.soon_end_s = one.soon_end_s;
            all.soon_ca = false;
        }
        if (one.end_s < all.end_s) {
            all.end_s = one.end_s;
            all.end_ca = false;
        }
    }
    credentials->times = all;
}

#if MBEDTLS_VERSION_MAJOR >= 3
static int draw(void *arg, unsigned char *out, size_t size)
{
    (void)arg;
    for (size_t at = 0; at < size;) {
        ssize_t got = getrandom(out + at, size - at, 0);
        if (got <= 0) {
            return -1;
        }
        at += (size_t)got;
    }
    return 0;
}
#endif

/* Returns 0 if the key belongs to the certificate, and mbedTLS's error if not. NNG accepts any
 * pair, but with a wrong pair no handshake succeeds. */
static int compare_key(const mbedtls_x509_crt *cert, const struct pem *key)
{
    const unsigned char *text = (const unsigned char *)key->text;
    mbedtls_pk_context pk;

    mbedtls_pk_init(&pk);
#if MBEDTLS_VERSION_MAJOR >= 3
    int result = mbedtls_pk_parse_key(&pk, text, key->size + 1, NULL, 0, draw, NULL);
    result = result == 0 ? mbedtls_pk_check_pair(&cert->pk, &pk, draw, NULL) : result;
#else
    int result = mbedtls_pk_parse_key(&pk, text, key->size + 1, NULL, 0);
    result = result == 0 ? mbedtls_pk_check_pair(&cert->pk, &pk) : result;
#endif
    mbedtls_pk_free(&pk);
    return result;
}

static bool look_at(struct transport_credentials *credentials, const struct transport_tls *tls,
                    const char *name, char *error)
{
    mbedtls_x509_crt ca;
    mbedtls_x509_crt cert;
    bool good = false;

    mbedtls_x509_crt_init(&ca);
    mbedtls_x509_crt_init(&cert);
    /* mbedTLS wants the final zero of the PEM text counted. */
    int result = mbedtls_x509_crt_parse(&ca, (unsigned char *)credentials->ca.text,
                                        credentials->ca.size + 1);
    if (result != 0) {
        fail(error, tls->ca, "expected certificates of the cell's CA in PEM");
        judge(result, tls->ca, error);
    } else if ((result = mbedtls_x509_crt_parse(&cert, (unsigned char *)credentials->cert.text,
                                                credentials->cert.size + 1)) != 0) {
        snprintf(error, TRANSPORT_ERROR_MAX,
                 "%.200s, %.200s: expected a certificate and its key without a password, in PEM",
                 tls->cert, tls->key);
        judge(result, tls->cert, error);
    } else if (verify(tls, name, &ca, &cert, error)) {
        result = compare_key(&cert, &credentials->key);
        good = result == 0;
        if (!good) {
            snprintf(error, TRANSPORT_ERROR_MAX,
                     "%.200s: expected the key of the certificate in %.200s, without a password",
                     tls->key, tls->cert);
            judge(result, tls->key, error);
        }
    }
    if (good) {
        note_times(credentials, &ca, &cert);
    }
    int why = errno;
    mbedtls_x509_crt_free(&ca);
    mbedtls_x509_crt_free(&cert);
    errno = why;
    return good;
}

/* ---- configurations for NNG ---- */

/* Sets this agent's certificate and the CA, and requires a certificate of the other end. NNG never
 * uses TLS below 1.2. */
static int configure(nng_tls_config *config, const struct transport_credentials *credentials)
{
    int result = nng_tls_config_ca_chain(config, credentials->ca.text, NULL);

    if (result == 0) {
        result = nng_tls_config_own_cert(config, credentials->cert.text, credentials->key.text,
                                         NULL);
    }
    return result == 0 ? nng_tls_config_auth_mode(config, NNG_TLS_AUTH_MODE_REQUIRED) : result;
}

static bool make_server(struct transport_credentials *credentials, const struct transport_tls *tls,
                        char *error)
{
    int result = nng_tls_config_alloc(&credentials->server, NNG_TLS_MODE_SERVER);

    if (result != 0) {
        credentials->server = NULL;
        errno = result == NNG_ENOMEM || result == NNG_ENOFILES ? ENOMEM : WRONG;
        snprintf(error, TRANSPORT_ERROR_MAX, "TLS: %s%s", nng_strerror(result),
                 result == NNG_ENOTSUP ? ": this build of NNG has none" : "");
        return false;
    }
    result = configure(credentials->server, credentials);
    if (result != 0) {
        errno = result == NNG_ENOMEM || result == NNG_ENOFILES ? ENOMEM : WRONG;
        snprintf(error, TRANSPORT_ERROR_MAX,
                 "%.200s, %.200s: expected a certificate and its key without a password, in PEM",
                 tls->cert, tls->key);
        return false;
    }
    return true;
}

nng_tls_config *transport_credentials_client(const struct transport_credentials *credentials,
                                             const char *name)
{
    nng_tls_config *config;

    if (nng_tls_config_alloc(&config, NNG_TLS_MODE_CLIENT) != 0) {
        return NULL;
    }
    if (configure(config, credentials) != 0 ||
        (name != NULL && nng_tls_config_server_name(config, name) != 0)) {
        nng_tls_config_free(config);
        return NULL;
    }
    return config;
}

nng_tls_config *transport_credentials_server(const struct transport_credentials *credentials)
{
    return credentials->server;
}

struct transport_tls_times
transport_credentials_times(const struct transport_credentials *credentials)
{
    return credentials->times;
}

bool transport_credentials_are_good(const struct transport_credentials *credentials, int64_t now_s)
{
    return credentials->times.begin_s <= now_s && now_s < credentials->times.end_s;
}

struct transport_credentials *transport_credentials_load(const struct transport_tls *tls,
                                                         const char *name, char *error)
{
    struct transport_credentials *credentials = calloc(1, sizeof *credentials);

    if (credentials == NULL) {
        snprintf(error, TRANSPORT_ERROR_MAX, "TLS: out of memory");
        errno = ENOMEM;
        return NULL;
    }
    if (!read_pem(tls->ca, false, &credentials->ca, error) ||
        !read_pem(tls->cert, false, &credentials->cert, error) ||
        !read_pem(tls->key, true, &credentials->key, error) ||
        !look_at(credentials, tls, name, error) || !make_server(credentials, tls, error)) {
        int why = errno;
        transport_credentials_free(credentials);
        errno = why;
        return NULL;
    }
    return credentials;
}

void transport_credentials_free(struct transport_credentials *credentials)
{
    if (credentials == NULL) {
        return;
    }
    if (credentials->server != NULL) {
        nng_tls_config_free(credentials->server);
    }
    free_pem(&credentials->ca);
    free_pem(&credentials->cert);
    free_pem(&credentials->key);
    free(credentials);
}

bool transport_tls_check(const struct transport_tls *tls, const char *name,
                         struct transport_tls_times *times, char *error)
{
    struct transport_credentials *credentials = transport_credentials_load(tls, name, error);

    if (credentials != NULL && times != NULL) {
        *times = credentials->times;
    }
    transport_credentials_free(credentials);
    return credentials != NULL;
}

void transport_certified(nng_stream *stream, char *out)
{
    out[0] = '\0';
#ifdef NNG_OPT_TLS_PEER_CN
    char *name = NULL;

    if (nng_stream_get_string(stream, NNG_OPT_TLS_PEER_CN, &name) == 0 && name != NULL) {
        /* A certificate without a common name belongs to no agent. out must not stay "", which
         * would mean that the peer's name is not known. */
        snprintf(out, TRANSPORT_NAME_SIZE, "%s", name[0] != '\0' ? name : "(nobody)");
        nng_strfree(name);
    }
#else
    (void)stream;
#endif
}
