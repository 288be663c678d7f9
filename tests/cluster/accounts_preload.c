/*
 * Preloaded into an agent: getpwnam() and getgrnam() find only the names in the file
 * $HOLDFAST_TEST_NAMES (lines of "NAME NUMBER", of users and groups alike). So a test can make a
 * user while an agent runs, and changes nothing on this machine.
 *
 * getpwnam() never returns for the user `hangs`. For the user `rogue` it sends the agent an answer
 * that makes no sense, like a name-service module that has taken over the process holdfastd-names.
 */
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static int find(const char *name, unsigned *id)
{
    const char *path = getenv("HOLDFAST_TEST_NAMES");
    FILE *file = path != NULL ? fopen(path, "re") : NULL;
    char one[64];
    int found = 0;
    while (file != NULL && !found && fscanf(file, "%63s %u", one, id) == 2) {
        found = strcmp(one, name) == 0;
    }
    if (file != NULL) {
        fclose(file);
    }
    return found;
}

__attribute__((visibility("default"))) struct passwd *getpwnam(const char *name)
{
    static struct passwd user;
    /* the descriptor of the socket to the agent: BESIDE_FD in the agent's code */
    enum { AGENT = 3 };
    while (strcmp(name, "hangs") == 0) {
        (void)pause();
    }
    if (strcmp(name, "rogue") == 0) {
        (void)!send(AGENT, "aaaabbbbcccc", 12, MSG_NOSIGNAL);
    }
    return find(name, &user.pw_uid) ? &user : NULL;
}

__attribute__((visibility("default"))) struct group *getgrnam(const char *name)
{
    static struct group group;
    return find(name, &group.gr_gid) ? &group : NULL;
}
