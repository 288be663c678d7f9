/* The thread that makes a region: see serve/anew.h. */
#include "serve/anew.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>

#include "proto/check.h"

static void *run(void *arg)
{
    struct anew *anew = arg;
    anew->good = region_file_make(&anew->file, anew->folder, &anew->sizes, &anew->identity,
                                  anew->error);
    atomic_store(&anew->done, true); /* seq_cst: pairs with anew_is_done(); publishes the new
                                      * region */
    uv_async_send(&anew->made);
    return NULL;
}

bool anew_begin(struct anew *anew)
{
    sigset_t all;
    sigset_t before;
    HF_CHECK(!anew->runs);
    sigfillset(&all);
    sigdelset(&all, SIGBUS); /* region_file_guard() handles SIGBUS on any thread */
    atomic_store(&anew->done, false);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* only the loop's thread handles signals */
    int error = pthread_create(&anew->thread, NULL, run, anew);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    anew->runs = error == 0;
    errno = error;
    return anew->runs;
}

bool anew_is_done(const struct anew *anew)
{
    return anew->runs && atomic_load(&anew->done); /* seq_cst: pairs with run() */
}

void anew_end(struct anew *anew)
{
    HF_CHECK(anew->runs && pthread_join(anew->thread, NULL) == 0);
    anew->runs = false;
}
