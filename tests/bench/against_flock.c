/*
 * Compares two ways to take and release a lock that no other process wants: acquire and release of
 * Holdfast, and flock(2) on a file in the measured directory. LOCK_EX and LOCK_UN are two system
 * calls.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "agent.h"
#include "figures.h"
#include "subject.h"

static int flock_repeat(void *arg, uint64_t times)
{
    int fd = *(int *)arg;
    for (uint64_t i = 0; i < times; i++) {
        if (flock(fd, LOCK_EX) != 0 || flock(fd, LOCK_UN) != 0) {
            return complain("flock: %s", strerror(errno));
        }
    }
    return 0;
}

int figure_flock(const struct bench *bench, struct figure *figure)
{
    struct agent agent;
    struct subject subject = {0};
    int fd = -1;
    struct side *ours = figure_side(figure, "holdfast: acquire + release", "ns", 1);
    struct side *peer = figure_side(figure, "flock: LOCK_EX + LOCK_UN", "ns", 1);
    struct contender contenders[2] = {
        {subject_repeat, &subject, &ours->series},
        {flock_repeat, &fd, &peer->series},
    };

    int result = agent_start(&agent, bench->directory);
    if (result == 0) {
        char path[AGENT_PATH_MAX + 16];
        snprintf(path, sizeof(path), "%s/flock.file", agent.directory);
        fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        result = fd >= 0 ? 0 : complain("%s: %s", path, strerror(errno));
    }
    if (result == 0) {
        result = subject_open(&subject, agent.socket, "bench-flock", HF_EXCLUSIVE, 0);
    }
    if (result == 0) {
        result = measure_in_turns(contenders, bench->effort);
    }
    subject_close(&subject);
    if (fd >= 0) {
        close(fd);
    }
    agent_stop(&agent);
    figure_verdict(figure, "flock / holdfast",
                   series_median(&peer->series) / series_median(&ours->series), BOUND_AT_LEAST,
                   15.0);
    return result;
}
