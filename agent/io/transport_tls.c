/* The files of [tls]: see transport_tls.h. */
#include "transport_tls.h"

#include <errno.h>
#include <fcntl.h>
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

enum { PEM_SIZE_MAX = 1024 * 1024 };

/* One of the files; text is NULL or a string. */
struct pem {
    char *text;
    size_t size;
};

struct transport_credentials {
    struct pem ca, cert, key;
    nng_tls_config *server;
    int64_t end_s;
};

static void fail(char *error, const char *path, const char *what)
{
    snprintf(error, TRANSPORT_ERROR_MAX, "%.200s: %s", path, what);
}

/* ---- reading ---- */

/* Whether nobody but its owner and, for reading, its group can come at it. */
static bool is_secret(const struct stat *status, const char *path, char *error)
{
    if ((status->st_mode & 027) == 0) {
        return true;
    }
    snprintf(error, TRANSPORT_ERROR_MAX,
             "%.200s: found mode %04o, expected 0600 (or 0640, for a group that is the agent's): "
             "the key is everybody's who can read it",
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
            break; /* it became shorter */
        }
        used += (size_t)got;
    }
    out->size = used;
    return true;
}

static bool read_pem(const char *path, bool secret, struct pem *out, char *error)
{
    struct stat status;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a FIFO must not stop the agent */

    if (fd < 0 || fstat(fd, &status) != 0) {
        fail(error, path, strerror(errno));
        if (fd >= 0) {
            close(fd);
        }
        return false;
    }
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
            fail(error, path, strerror(errno));
        }
    }
    close(fd);
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

static int64_t end_of(const mbedtls_x509_crt *crt)
{
    const mbedtls_x509_time *end = &crt->valid_to;
    struct tm tm = {.tm_year = end->year - 1900,
                    .tm_mon = end->mon - 1,
                    .tm_mday = end->day,
                    .tm_hour = end->hour,
                    .tm_min = end->min,
                    .tm_sec = end->sec};

    return (int64_t)timegm(&tm);
}

/* The first name that a certificate has, for messages. */
static void first_name(const mbedtls_x509_crt *crt, char *out, size_t size)
{
    if (mbedtls_x509_dn_gets(out, size, &crt->subject) < 0) {
        snprintf(out, size, "?");
    }
}

static bool verify(const struct transport_tls *tls, const char *name, mbedtls_x509_crt *ca,
                   mbedtls_x509_crt *cert, char *error)
{
    char subject[128];
    uint32_t flags = 0;

    (void)mbedtls_x509_crt_verify(cert, ca, NULL, name, &flags, NULL, NULL);
    if ((flags & MBEDTLS_X509_BADCERT_NOT_TRUSTED) != 0) {
        snprintf(error, TRANSPORT_ERROR_MAX, "%.200s: expected a certificate of the CA in %.200s",
                 tls->cert, tls->ca);
        return false;
    }
    if ((flags & MBEDTLS_X509_BADCERT_CN_MISMATCH) != 0) {
        first_name(cert, subject, sizeof subject);
        snprintf(error, TRANSPORT_ERROR_MAX,
                 "%.200s: found a certificate of %s, expected one of CN=%s, this agent's name",
                 tls->cert, subject, name);
        return false;
    }
    return true;
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

/* NNG takes any key with any certificate, and then no handshake succeeds. */
static bool is_key_of(const mbedtls_x509_crt *cert, const struct pem *key)
{
    const unsigned char *text = (const unsigned char *)key->text;
    mbedtls_pk_context pk;
    bool good;

    mbedtls_pk_init(&pk);
#if MBEDTLS_VERSION_MAJOR >= 3
    good = mbedtls_pk_parse_key(&pk, text, key->size + 1, NULL, 0, draw, NULL) == 0 &&
           mbedtls_pk_check_pair(&cert->pk, &pk, draw, NULL) == 0;
#else
    good = mbedtls_pk_parse_key(&pk, text, key->size + 1, NULL, 0) == 0 &&
           mbedtls_pk_check_pair(&cert->pk, &pk) == 0;
#endif
    mbedtls_pk_free(&pk);
    return good;
}

static bool look_at(struct transport_credentials *credentials, const struct transport_tls *tls,
                    const char *name, char *error)
{
    mbedtls_x509_crt ca;
    mbedtls_x509_crt cert;
    bool good = false;
    int64_t ca_end_s = 0;

    mbedtls_x509_crt_init(&ca);
    mbedtls_x509_crt_init(&cert);
    /* PEM is parsed with the zero behind it. */
    if (mbedtls_x509_crt_parse(&ca, (unsigned char *)credentials->ca.text,
                               credentials->ca.size + 1) != 0) {
        fail(error, tls->ca, "expected certificates of the cell's CA in PEM");
    } else if (mbedtls_x509_crt_parse(&cert, (unsigned char *)credentials->cert.text,
                                      credentials->cert.size + 1) != 0) {
        snprintf(error, TRANSPORT_ERROR_MAX,
                 "%.200s, %.200s: expected a certificate and its key without a password, in PEM",
                 tls->cert, tls->key);
    } else if (verify(tls, name, &ca, &cert, error)) {
        good = is_key_of(&cert, &credentials->key);
        if (!good) {
            snprintf(error, TRANSPORT_ERROR_MAX,
                     "%.200s: expected the key of the certificate in %.200s, without a password",
                     tls->key, tls->cert);
        }
    }
    for (const mbedtls_x509_crt *each = &ca; good && each != NULL; each = each->next) {
        ca_end_s = end_of(each) > ca_end_s ? end_of(each) : ca_end_s;
    }
    if (good) {
        credentials->end_s = end_of(&cert) < ca_end_s ? end_of(&cert) : ca_end_s;
    }
    mbedtls_x509_crt_free(&ca);
    mbedtls_x509_crt_free(&cert);
    return good;
}

/* ---- NNG's ---- */

/* Own certificate, the CA, and that the other end must show one. TLS below 1.2 NNG never speaks. */
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
        snprintf(error, TRANSPORT_ERROR_MAX, "TLS: %s%s", nng_strerror(result),
                 result == NNG_ENOTSUP ? ": this build of NNG has none" : "");
        return false;
    }
    if (configure(credentials->server, credentials) != 0) {
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

int64_t transport_credentials_end_s(const struct transport_credentials *credentials)
{
    return credentials->end_s;
}

struct transport_credentials *transport_credentials_load(const struct transport_tls *tls,
                                                         const char *name, char *error)
{
    struct transport_credentials *credentials = calloc(1, sizeof *credentials);

    if (credentials == NULL) {
        snprintf(error, TRANSPORT_ERROR_MAX, "TLS: out of memory");
        return NULL;
    }
    if (!read_pem(tls->ca, false, &credentials->ca, error) ||
        !read_pem(tls->cert, false, &credentials->cert, error) ||
        !read_pem(tls->key, true, &credentials->key, error) ||
        !look_at(credentials, tls, name, error) || !make_server(credentials, tls, error)) {
        transport_credentials_free(credentials);
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

bool transport_tls_check(const struct transport_tls *tls, const char *name, char *error)
{
    struct transport_credentials *credentials = transport_credentials_load(tls, name, error);

    transport_credentials_free(credentials);
    return credentials != NULL;
}

void transport_certified(nng_stream *stream, char *out)
{
    out[0] = '\0';
#ifdef NNG_OPT_TLS_PEER_CN
    char *name = NULL;

    if (nng_stream_get_string(stream, NNG_OPT_TLS_PEER_CN, &name) == 0 && name != NULL) {
        snprintf(out, TRANSPORT_NAME_SIZE, "%s", name);
        nng_strfree(name);
    }
#else
    (void)stream;
#endif
}
