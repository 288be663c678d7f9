/*
 * TLS of a build without it (-DHOLDFAST_TLS=OFF): see tls.h. The configuration refuses [tls], so no
 * credentials are ever loaded. These functions exist for callers that would use them.
 */
#include "tls.h"

#include <errno.h>
#include <stdio.h>

#include "proto/check.h"

struct transport_credentials *transport_credentials_load(const struct transport_tls *tls,
                                                         const char *name, char *error)
{
    (void)tls;
    (void)name;
    snprintf(error, TRANSPORT_ERROR_MAX,
             "this agent was built without TLS (-DHOLDFAST_TLS=OFF), expected no certificates");
    errno = EINVAL;
    return NULL;
}

void transport_credentials_free(struct transport_credentials *credentials)
{
    HF_CHECK(credentials == NULL);
}

nng_tls_config *transport_credentials_server(const struct transport_credentials *credentials)
{
    (void)credentials;
    return NULL;
}

nng_tls_config *transport_credentials_client(const struct transport_credentials *credentials,
                                             const char *name)
{
    (void)credentials;
    (void)name;
    return NULL;
}

struct transport_tls_times
transport_credentials_times(const struct transport_credentials *credentials)
{
    (void)credentials;
    return (struct transport_tls_times){.end_s = 0};
}

bool transport_credentials_are_good(const struct transport_credentials *credentials, int64_t now_s)
{
    (void)credentials;
    (void)now_s;
    return false;
}

void transport_certified(nng_stream *stream, char *out)
{
    (void)stream;
    out[0] = '\0';
}

bool transport_tls_check(const struct transport_tls *tls, const char *name,
                         struct transport_tls_times *times, char *error)
{
    (void)times;
    return transport_credentials_load(tls, name, error) != NULL;
}
