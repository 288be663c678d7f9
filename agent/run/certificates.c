/* The certificates for --check-config: see certificates.h. */
#include "run/certificates.h"

#include <stdint.h>
#include <stdio.h>
#include <time.h>

#include "observe/judgement.h"

bool certificates_check(const struct peers_tls_times *times, const char *path)
{
    struct judgement judgement;
    struct judgement_facts facts;
    bool good = true;
    judgement_facts_init(&facts);
    facts.now_s = (int64_t)time(NULL);
    facts.tls_begin_s = times->begin_s;
    facts.tls_soon_s = times->soon_s;
    facts.tls_end_s = times->end_s;
    facts.tls_soon_end_s = times->soon_end_s;
    facts.tls_soon_ca = times->soon_ca;
    facts.tls_end_ca = times->end_ca;
    judgement_make(&facts, &judgement);
    for (uint32_t i = 0; i < judgement.count; i++) {
        const struct reason *reason = &judgement.reasons[i];
        bool over = reason->kind == REASON_CERTIFICATE_OVER;
        if (over) {
            fprintf(stderr, "holdfastd: %s: [tls]: %s\n", path, reason->text);
        } else {
            fprintf(stderr, "holdfastd: warning: %s: [tls]: %s\n", path, reason->text);
        }
        good = good && !over;
    }
    return good;
}
